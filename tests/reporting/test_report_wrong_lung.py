"""That's the Wrong Lung! in the report: cells derived by hand, and figures of real logs equal to the metrics."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from scipy import special, stats

from medfaith.tasks.wrong_lung.adapter import packed
from tests.support.reporting.report_logs import DATE, change_lines, csv_rows, rows_of, write_report
from tests.support.reporting.surgx_logs import format_mean
from tests.support.reporting.wrong_lung_logs import TASK, Row, changed, original, write_wrong_lung

pytestmark = pytest.mark.usefixtures("tables_only")

RUNS, FIRST = "Wrong Lung runs", "Wrong Lung Tables 1 and 3"
SUBSETS, TRIMMED = "Wrong Lung Table 2", "Wrong Lung Table 6"
WHOLE, KL, ENTROPY = "Wrong Lung Table 7", "Wrong Lung Table 8", "Wrong Lung Table 10"
CHOICE, CHOICE_OF_SUBSETS = "Wrong Lung Table 4", "Wrong Lung Table 9"
PRECISION, IOU = "Wrong Lung Table 11", "Wrong Lung Table 12"
DELTAS, CORRELATIONS = "Wrong Lung Figures 3, 5, 14 and 15", "Wrong Lung Figures 17 to 24"
TITLES = (RUNS, FIRST, SUBSETS, CHOICE, TRIMMED, WHOLE, KL, CHOICE_OF_SUBSETS, ENTROPY, PRECISION, IOU, DELTAS)
PERTURBATIONS = (
    "swap_left_right", "shuffle_in_report", "random_sentences", "random_boxes", "synthetic_swapped_conditions",
)  # fmt: skip
GOLD = [  # three patients; the last two sentences have no known attention
    original(0, "p1", "abnormal one_lung", auroc=0.75, average_precision=0.5, iou_5=0.05, iou_10=0.1, iou_30=0.25,
             precision_5=0.5, precision_10=0.25, precision_30=0.125, entropy=2.0, no_attn=0.25, overall=1.5),
    original(1, "p1", "mdrb", auroc=0.25, average_precision=0.125, iou_5=0.0, iou_10=0.3, iou_30=0.5,
             precision_10=0.75, precision_30=0.5, entropy=1.0, no_attn=0.0, local=2.0, overall=1.0),
    original(2, "p2", "abnormal", average_precision=1.0, entropy=0.5, no_attn=0.5, local=0.5, overall=0.5),
    original(3, "p2", state="without_map", local=1.0),
    original(4, "p3", "mdrb", state="degenerate", entropy=0.0, no_attn=1.0),
]  # fmt: skip


def get_titles(report: str) -> set[str]:
    """Return the members of TITLES that have a table in the report; each has one table."""
    titles = [section.split("\n")[0].split(":")[0] for section in report.split("\n## ")[1:]]
    assert len({*titles}) == len(titles)
    return {*titles} & {*TITLES}


def test_gold_by_hand(tmp_path):
    write_wrong_lung(tmp_path, "gold", GOLD[::-1], n_data=9, n_rows_skipped=2)
    report = write_report([tmp_path])
    assert get_titles(report) == {RUNS, FIRST, SUBSETS, WHOLE, ENTROPY, PRECISION, IOU}
    assert rows_of(report, RUNS) == [
        ["m", "gold", "5 of 11", "3", "2", "0", "2", "1", "1", "0", "0", "0", "bilinear", "included",
         f"{TASK}gold", DATE]
    ]  # fmt: skip
    gold_cells = [format_mean([0.75, 0.25], [1, 1]), format_mean([0.5, 0.125, 1.0], [1, 1, 2]), "2.50/20.00/37.50"]
    assert rows_of(report, FIRST) == [["m", *gold_cells, "2 of 5", "1", "1", "0"]]
    assert rows_of(report, SUBSETS) == [
        ["m", "Abnormal", "75.00 [–, –]", format_mean([0.5, 1.0], [1, 2]), "5.00/10.00/25.00", "1 of 2", *"000"],
        ["m", "One Lung", "75.00 [–, –]", "50.00 [–, –]", "5.00/10.00/25.00", "1", *"000"],
        ["m", "MDRB", "25.00 [–, –]", "12.50 [–, –]", "0.00/30.00/50.00", "1 of 2", "0", "1", "0"],
    ]
    (row,) = rows_of(report, WHOLE)
    assert row[:5] == ["m", "no", *gold_cells[:2], "2 of 5"]
    assert row[5:8] == ["75.00 [–, –]", format_mean([0.5, 1.0], [1, 2]), "1 of 2"]
    assert row[11:] == ["25.00 [–, –]", "12.50 [–, –]", "1 of 2"]
    # Student's intervals of 3 and 2 patients begin below 0, and no entropy does.
    all_entropy = format_mean([2.0, 1.0, 0.5, 0.0], [1, 1, 2, 3], 1, 3, None)
    assert [all_entropy, rows_of(report, ENTROPY)[0][1]] == ["0.875 [-1.587, 3.337]", "0.875 [0.000, 3.337]"]
    assert rows_of(report, ENTROPY)[0][2:5] == ["4 of 5", "1.250 [0.000, 10.780]", "2"]
    assert rows_of(report, PRECISION) == [
        ["m", "no", "50.00/50.00/31.25", "1/2/2 of 5", "50.00/25.00/12.50", "1 of 2", "50.00/25.00/12.50", "1",
         "–/75.00/50.00", "0/1/1 of 2"]
    ]  # fmt: skip
    assert rows_of(report, IOU)[0][2:6] == ["2.50/20.00/37.50", "2 of 5", "5.00/10.00/25.00", "1 of 2"]


def test_a_run_about_held_out_patients_or_under_a_control_is_not_held_beside_one_about_all(tmp_path):
    """This holds for one model, too, because deltas and originals would come from different patients."""
    partners = [changed(row, "swap_left_right", auroc=0.25) for row in GOLD[:2]]
    write_wrong_lung(tmp_path / "all", "gold", GOLD)
    write_wrong_lung(tmp_path / "some", "swap_left_right", [*GOLD[:2], *partners], n_rows_left_out=6)
    write_wrong_lung(tmp_path / "blind", "gold", GOLD, control="blank", date=DATE.replace("2026", "2027"))
    report = write_report([tmp_path])
    names = ["m", "m (blank)", "m (held-out patients)"]
    assert [[row[0] for row in rows_of(report, title)] for title in (RUNS, FIRST)] == [names, names]
    assert {row[0] for row in rows_of(report, DELTAS)} == {"m (held-out patients)"}


def test_a_log_that_does_not_say_how_it_was_scored_left_ties_out(tmp_path):
    """Earlier versions wrote such logs."""
    log = write_wrong_lung(tmp_path, "gold", GOLD)
    change_lines(log, lambda lines: [re.sub(r', "(upsampling|precision_ties)": "\w+"', "", line) for line in lines])
    assert "upsampling" not in log.read_text()
    report = write_report([tmp_path])
    assert [row[0] for row in rows_of(report, f"{FIRST} (precision without ties): ")] == ["m (precision without ties)"]


def test_correlations_by_hand(tmp_path):
    write_wrong_lung(tmp_path / "logs", "gold", GOLD)
    report = write_report([tmp_path / "logs"], tmp_path / "out")
    rows = {row[0]: row[1:] for row in rows_of(report, CORRELATIONS)}
    assert [*rows] == ["AUROC", "Avg. P", "IOU@5", "IOU@10", "IOU@30", "P@5", "P@10", "P@30",
                       "Entropy", "No Attn", "Local", "Global", "Abnormal"]  # fmt: skip
    assert [rows[name][place] for place, name in enumerate(rows)] == [""] * 13, "none with itself"
    assert rows["AUROC"][3] == rows["IOU@10"][0] == "-1.00"
    assert rows["AUROC"][1] == "1.00"
    assert rows["P@5"] == [*["–"] * 5, "", *["–"] * 7], "one number has no correlation"
    saved = {row["value"]: row for row in csv_rows(tmp_path / "out" / "wrong_lung_figures_17_24_correlations_01.csv")}
    entropy_row = saved["Entropy"]
    assert float(entropy_row["abnormal"]) == pytest.approx(stats.pearsonr([2, 1, 0.5, 0], [1, 0, 1, 0])[0])
    assert float(entropy_row["local"]) == pytest.approx(1)
    assert (entropy_row["n_local"], entropy_row["n_abnormal"], entropy_row["n_entropy"], entropy_row["model"]) == (
        "2",
        "4",
        "",
        "m",
    )


def make_pairs(perturbation: str, *changes: dict[str, Any]) -> list[Row]:
    """Build the gold sentences, each followed by its partner with these values."""
    return [
        sample_row
        for row, new in zip(GOLD, changes, strict=False)
        for sample_row in (row, changed(row, perturbation, **new))
    ]


def test_changes_by_hand(tmp_path):
    swapped = make_pairs("swap_left_right", {"auroc": 0.5, "average_precision": 0.75}, {"auroc": 0.5}, {"auroc": 0.5})
    write_wrong_lung(tmp_path, "swap_left_right", [*swapped, changed(original(7, "p9"), "swap_left_right", auroc=0)])
    report = write_report([tmp_path])
    assert rows_of(report, DELTAS) == [
        ["m", "Swap Left Right", "All", "+0.00 [–, –]", "2 of 3", "+25.00 [–, –]", "1"],
        ["m", "Swap Left Right", "Abnormal", "-25.00 [–, –]", "1 of 2", "+25.00 [–, –]", "0"],
        ["m", "Swap Left Right", "One Lung*", "-25.00 [–, –]", "1", "+25.00 [–, –]", "0"],
        ["m", "Swap Left Right", "MDRB", "+25.00 [–, –]", "1", "–", "0"],
    ]
    assert rows_of(report, RUNS)[0][10:12] == ["3", "1"]
    assert rows_of(report, FIRST)[0][4] == "2 of 3", "the originals stand in for the gold sentences"
    assert f"m: {TASK}gold is not logged; Wrong Lung Tables 1 to 3, 7 and 10 to 12 and the correlations take the 3 " \
        f"originals of {TASK}swap_left_right" in report  # fmt: skip


def test_choices_by_hand(tmp_path):
    """An equal similarity does not count as greater; an unknown similarity does not count as a choice."""
    new = ({"local": 1.0, "global": 1.0}, {"local": 1.0, "global": 1.0}, {"global": 0.75}, {"local": 2.0})
    write_wrong_lung(tmp_path, "random_sentences", make_pairs("random_sentences", *new))
    report = write_report([tmp_path])
    assert rows_of(report, CHOICE) == [
        ["m", format_mean([1, 0], [1, 2]), format_mean([1, 0, 0], [1, 1, 2]), "2/3",
         "–", format_mean([1, 0], [1, 2]), "0/2"]
    ]  # fmt: skip
    assert rows_of(report, CHOICE_OF_SUBSETS) == [
        ["m", "–", "100.00 [–, –]", "0/1", "100.00 [–, –]", "0.00 [–, –]", "1"]
    ]
    assert rows_of(report, KL) == [["m", "–", "0 of 4", "–", "0 of 2", "–", "0 of 1", "–", "0 of 1"]]


def test_divergence_agrees_with_scipy(tmp_path):
    random = np.random.default_rng(5)
    rows, divergences = [], []
    for row in GOLD:
        p, q = random.dirichlet(np.ones(13), size=2)
        grids = [packed(weights[:12].reshape(3, 4)) for weights in (p, q)]
        rows += [row | {"attention": grids[0]}, changed(row, "random_sentences") | {"attention": grids[1]}]
        divergences.append((special.rel_entr(p, q) + special.rel_entr(q, p))[:12].sum() / 2)  # without the 13th share
    rows[-1]["attention"] = None
    write_wrong_lung(tmp_path / "logs", "random_sentences", rows)
    report = write_report([tmp_path / "logs"], tmp_path / "out")
    (saved,) = csv_rows(tmp_path / "out" / "wrong_lung_table_08_divergence.csv")
    assert float(saved["kl_all"]) == pytest.approx(np.mean(divergences[:4]), rel=1e-5)
    assert float(saved["kl_abnormal"]) == pytest.approx(np.mean([divergences[0], divergences[2]]), rel=1e-5)
    assert rows_of(report, KL)[0][2] == "4 of 5"


def test_undefined_everywhere(tmp_path):
    """A model that answers in words has no attention and no similarity: the table has every count and no score."""
    rows = [original(n, f"p{n}", "abnormal", state="without_map") for n in range(3)]
    logs = {config: [item for row in rows for item in (row, changed(row, config, state="without_map"))]
            for config in (*PERTURBATIONS, "synthetic", "trimmed")}  # fmt: skip
    for config, item in (logs | {"gold": rows}).items():
        write_wrong_lung(tmp_path / "logs", config, item)
    report = write_report([tmp_path / "logs"])
    assert get_titles(report) == {*TITLES}
    assert "nan" not in report.lower().replace("nano", "")
    assert rows_of(report, FIRST) == [["m", "–", "–", "–", "0 of 3", "3", "0", "0"]]
    assert rows_of(report, ENTROPY)[0][1:5] == ["–", "0 of 3", "–", "0 of 3"]
    assert rows_of(report, CHOICE) == [["m", "–", "–", "0", "–", "–", "0"]]
    assert {cell for row in rows_of(report, CORRELATIONS) for cell in row[1:]} == {"", "–"}
    changes = rows_of(report, DELTAS)
    assert [row[1:3] for row in changes if row[2].endswith("*")] == [
        ["Swap Left Right", "One Lung*"], ["Shuffle in Report", "MDRB*"], ["Random Sentences", "Abnormal*"],
        ["Random BBoxes", "Abnormal*"], ["Synth w/ Swapped Conditions", "Abnormal*"],
    ]  # fmt: skip
    assert [row[3:] for row in changes][:2] == [["–", "0 of 3", "–", "0"]] * 2


def test_a_table_without_its_task_is_left_out_with_a_note(tmp_path):
    """The originals come from the task with the most originals; synthetic ones do not count."""
    write_wrong_lung(tmp_path / "a", "swap_left_right", make_pairs("swap_left_right", {"auroc": 0.5}), model="a")
    write_wrong_lung(tmp_path / "a", "trimmed", make_pairs("trimmed", {"auroc": 1.0}, {"auroc": 0.5}), model="a")
    synthetic = [row | {"id": f"{row['id']}:synthetic"} for row in GOLD]
    swapped = [sample_row for row in synthetic for sample_row in (row, changed(row, PERTURBATIONS[4], auroc=0.25))]
    write_wrong_lung(tmp_path / "B", PERTURBATIONS[4], swapped, model="B")
    report = write_report([tmp_path])
    assert get_titles(report) == {RUNS, FIRST, SUBSETS, TRIMMED, WHOLE, ENTROPY, PRECISION, IOU, DELTAS}
    assert [row[0] for row in rows_of(report, FIRST)] == ["a"]
    assert [row[:2] for row in rows_of(report, TRIMMED)] == [["a", format_mean([1.0, 0.5], [1, 1])]]
    assert [row[:2] for row in rows_of(report, WHOLE)] == [["a", "no"]]


def test_a_limit_that_cuts_the_first_pair(tmp_path):
    write_wrong_lung(tmp_path, "random_sentences", GOLD[:1], n_data=10)
    report = write_report([tmp_path])
    assert not get_titles(report) & {CHOICE, KL, DELTAS}
    assert rows_of(report, FIRST)[0][1] == "75.00 [–, –]"
    assert "no changed sentence of medfaith_wrong_lung_random_sentences" in report
