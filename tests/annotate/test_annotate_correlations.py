"""Annotators' judgements joined with the values of the same heatmaps: joins by hand, correlations from scipy."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from medfaith.annotate.answers import Judgement
from medfaith.reporting.benchmark import ReportSources
from medfaith.reporting.results import read_results
from medfaith.reporting.wrong_lung.correlations import compute_mean_points, compute_r_interval, judged
from medfaith.reporting.wrong_lung.runs import WrongLungRun
from tests.support.annotate.annotator_answers import judgement, write
from tests.support.reporting.report_logs import answered, csv_rows, rows_of, select_runs, write_log, write_report
from tests.support.reporting.wrong_lung_logs import NAMES, Row, changed, original, write_wrong_lung

FIGURE = "Wrong Lung Figure 6"
CSV = "wrong_lung_figure_06_correlations.csv"
QUESTIONS = ("recall", "precision", "intuitiveness")
TITLES = ("AUROC", "Avg. P", "IOU@5", "IOU@10", "IOU@30", "P@5", "P@10", "P@30", "Entropy", "No Attn", "Local",
          "Global", "Abnormal")  # fmt: skip
KEYS: dict[str, str] = dict(zip(TITLES, (*NAMES, "abnormal"), strict=True))


def judge_heatmap(row: Row, points: Sequence[int], model: str = "m", **changes: Any) -> Judgement:
    """Build an annotator's judgement of a model's heatmap for a row."""
    fields = dict(zip(QUESTIONS, points, strict=True)) | {"row_id": row["id"], "instance": row["id"], "model": model}
    return judgement(**fields | {"heatmaps": f"{model}/{row['id']}", "patient_id": row["cluster"]} | changes)


def write_answers(folder: Path, rows: Sequence[Row], *, model: str = "m", config: str = "gold") -> Path:
    """Write a log whose answers name a heatmap for each row."""
    return write_wrong_lung(folder, config, rows, model=model, reply=json.dumps({"heatmaps": f"{model}/{{id}}"}))


ROW = original(0, auroc=0.5) | {"heatmaps": "m/gold/000"}
THREE = {"recall": 1.0, "precision": 3.0, "intuitiveness": 5.0}
JOINS: dict[str, tuple[Row, list[Judgement], Mapping[str, float] | None]] = {
    "the very heatmap": (ROW, [judge_heatmap(ROW, (1, 3, 5))], THREE),
    "under another name of the model": (ROW, [judge_heatmap(ROW, (1, 3, 5))._replace(model="m {}")], THREE),
    "another model's heatmap": (ROW, [judge_heatmap(ROW, (1, 3, 5), "other")], None),
    "a heatmap of an earlier run": (ROW, [judge_heatmap(ROW, (1, 3, 5), heatmaps="m/old")], None),
    "the same heatmap of another sentence": (ROW, [judge_heatmap(ROW, (1, 3, 5), row_id="gold/001")], None),
    "an own prompt": (ROW, [judge_heatmap(ROW, (1, 3, 5), row_id=None, custom=True, heatmaps=None)], None),
    "an own prompt that says more than it knows": (ROW, [judge_heatmap(ROW, (1, 3, 5), custom=True)], None),
    "no reference on either side": (ROW | {"heatmaps": None}, [judge_heatmap(ROW, (1, 3, 5), heatmaps=None)], None),
    "nobody": (ROW, [], None),
    "two annotators": (
        ROW,
        [judge_heatmap(ROW, (1, 3, 5)), judge_heatmap(ROW, (2, 3, 1), annotator="other")],
        {"recall": 1.5, "precision": 3.0, "intuitiveness": 3.0},
    ),
}


@pytest.mark.parametrize("case", JOINS)
def test_a_judgement_belongs_to_the_sentence_whose_heatmap_was_judged(case):
    row, judgements, expected = JOINS[case]
    joined = judged([row], compute_mean_points(judgements))
    assert [joined_row["id"] for joined_row in joined] == ([] if expected is None else [row["id"]])
    for joined_row in joined:
        assert {name: joined_row["values"][name] for name in QUESTIONS} == expected
        assert (joined_row["values"]["auroc"], joined_row["values"]["abnormal"]) == (0.5, 0.0)


@pytest.fixture(scope="module")
def scene(tmp_path_factory) -> tuple[Path, list[Path], list[Row], dict[tuple[str, str], list[Judgement]]]:
    """Logs of two models on 40 sentences of 13 patients, and two answer files for some of them.

    Returns the folder, the files, the rows, and the judgements by model and row id.
    """
    folder, random = tmp_path_factory.mktemp("correlations"), np.random.default_rng(3)
    rows = []
    for number in range(40):
        values: dict[str, Any] = {
            name: None if random.uniform() < 0.15 else float(random.uniform()) for name in (*NAMES[:11], "overall")
        }
        values |= {"iou_30": 0.25, "precision_5": number / 8 if number < 2 else None}
        flags = "abnormal" if random.uniform() < 0.4 else ""
        rows.append(original(number, f"p{number // 3}", flags, **values))
    judgements: dict[tuple[str, str], list[Judgement]] = {}
    for model in ("m", "n"):
        write_answers(folder / model, rows, model=model)
        for annotator, some in (("ann", rows[:30]), ("other", rows[:2] + rows[20:35])):
            for row in some:
                points = random.integers(1, 6, size=3).tolist()
                entry = judge_heatmap(row, points, model, annotator=annotator)
                judgements.setdefault((model, row["id"]), []).append(entry)
    files = [folder / f"{annotator}.jsonl" for annotator in ("ann", "other")]
    for file in files:
        write(file, *(item for entry in judgements.values() for item in entry if item.annotator == file.stem))
    return folder, files, rows, judgements


def test_correlations_agree_with_scipy(scene, tmp_path):
    folder, files, rows, judgements = scene
    report = write_report([folder], tmp_path / "out", sources=ReportSources(files))
    table_rows = csv_rows(tmp_path / "out" / CSV)
    assert [(row["model"], row["value"]) for row in table_rows] == [
        (model, title) for model in "mn" for title in TITLES
    ]
    for row in table_rows:
        name = KEYS[row["value"]]
        row_judgements = [(logged_row, judgements.get((row["model"], logged_row["id"]))) for logged_row in rows]
        pairs = [
            ({"abnormal": float(logged_row["subsets"]["abnormal"])} | logged_row["values"], answers)
            for logged_row, answers in row_judgements
            if answers
        ]
        pairs = [(values[name], answers) for values, answers in pairs if values[name] is not None]
        assert int(row["n"]) == len(pairs)
        x = [value for value, _ in pairs]
        for question in QUESTIONS:
            y = [np.mean([getattr(answer, question) for answer in answers]) for _, answers in pairs]
            if len(pairs) < 3 or len(set(x)) == 1:
                assert row[question] == row[f"{question}_ci_low"] == row[f"{question}_ci_high"] == ""
                continue
            assert float(row[question]) == pytest.approx(stats.pearsonr(x, y).statistic, abs=1e-12)
            assert -1 <= float(row[f"{question}_ci_low"]) < float(row[f"{question}_ci_high"]) <= 1
    undefined = {row["value"]: row for row in table_rows if row["recall"] == ""}
    assert {title: row["n"] for title, row in undefined.items()} == {"IOU@30": "35", "P@5": "2"}
    printed = {row[1]: row[2:] for row in rows_of(report, FIGURE)}
    no_attn = {row["value"]: row for row in table_rows if row["model"] == "n"}["No Attn"]
    numbers = [float(no_attn[f"precision{end}"]) for end in ("", "_ci_low", "_ci_high")]
    assert printed["No Attn"][1] == "{:.2f} [{:.2f}, {:.2f}]".format(*numbers)
    assert printed["IOU@30"] == ["–", "–", "–", "35"]
    assert "the heatmap is as much fainter" in report
    assert "left out of Wrong Lung Figure 6" not in report
    assert write_report([folder], tmp_path / "out", sources=ReportSources(files)) == report, (
        "its own files are replaced"
    )


def test_what_matches_no_log_is_counted(scene, tmp_path):
    folder, files, _, judgements = scene
    n = sum(len(entries) for (model, _), entries in judgements.items() if model == "n")
    stale = judge_heatmap(original(3), (1, 1, 1), heatmaps="m/old", annotator="third")
    custom = judge_heatmap(original(4), (1, 1, 1), row_id=None, custom=True, heatmaps=None, annotator="third")
    write(tmp_path / "third.jsonl", stale, custom)
    write_answers(tmp_path / "unseen", [original(0, auroc=0.5)], model="unseen")
    report = write_report(
        [folder / "m", tmp_path / "unseen"], sources=ReportSources([*files, tmp_path / "third.jsonl"])
    )
    assert {row[0] for row in rows_of(report, FIGURE)} == {"m"}
    assert f"{n + 1} of {2 * n + 1} judgements of report sentences (m: 1, n: {n}) are of heatmaps that no log" in report
    assert "unseen: none of its heatmaps was judged; left out of Wrong Lung Figure 6" in report


@pytest.mark.parametrize("custom", [True, False])
def test_nothing_that_was_judged_is_logged(tmp_path, custom):
    write_answers(tmp_path / "logs", [original(0, auroc=0.5)])
    row = {"row_id": None, "custom": True, "heatmaps": None} if custom else {}
    write(tmp_path / "a.jsonl", judge_heatmap(original(7), (1, 2, 3), **row))
    report = write_report([tmp_path / "logs"], sources=ReportSources([tmp_path / "a.jsonl"]))
    assert f"## {FIGURE}" not in report
    assert f"Wrong Lung Figure {13 if custom else 4}: " in report
    assert "m: none of its heatmaps was judged" in report
    assert ("1 of 1 judgements of report sentences (m: 1)" in report) != custom


def test_without_a_log_of_the_benchmark(tmp_path):
    write_log(tmp_path / "logs", "m", answered("chexpert_presence", 4, 2, 1))
    write(tmp_path / "a.jsonl", judge_heatmap(ROW, (1, 2, 3)))
    report = write_report([tmp_path / "logs"], sources=ReportSources([tmp_path / "a.jsonl"]))
    assert f"## {FIGURE}" not in report
    assert rows_of(report, "Wrong Lung Figure 4")[0][:2] == ["m", "1"]
    assert "no sample log of That's the Wrong Lung! is there: Wrong Lung Figure 6 needs those" in report


def test_the_sentences_are_those_of_the_other_tables(tmp_path):
    """Without gold, the originals of changed sentences count; a changed sentence's heatmap belongs to no original."""
    rows = [original(n, f"p{n}", auroc=n / 8) for n in range(5)]
    pairs = [pair_row for row in rows for pair_row in (row, changed(row, "swap_left_right", auroc=0.5))]
    write_answers(tmp_path / "logs", pairs, config="swap_left_right")
    judgements = [judge_heatmap(row, (1 + n, 5 - n, 3)) for n, row in enumerate(rows)]
    write(tmp_path / "a.jsonl", *judgements, judge_heatmap(pairs[1], (1, 1, 1)))
    report = write_report([tmp_path / "logs"], sources=ReportSources([tmp_path / "a.jsonl"]))
    assert rows_of(report, FIGURE)[0] == ["m", "AUROC", "1.00 [1.00, 1.00]", "-1.00 [-1.00, -1.00]", "–", "5"]
    assert "1 of 6 judgements of report sentences (m: 1)" in report


@pytest.mark.parametrize(
    ("reply", "heatmaps"), [('{"heatmaps": "a/b"}', "a/b"), ("Yes", None), ('{"heatmaps": null}', None), ("{}", None)]
)
def test_answers_in_words_name_no_heatmap(tmp_path, reply, heatmaps):
    write_wrong_lung(tmp_path, "gold", [original(0, auroc=0.5)], reply=reply)
    assert [row["heatmaps"] for row in select_runs(read_results([tmp_path]), WrongLungRun)[0].rows] == [heatmaps]


def test_intervals_are_those_of_a_jackknife_over_patients():
    """The test leaves out each patient by itself, and takes Fisher's z with Student's quantile."""
    random = np.random.default_rng(0)
    clusters = np.array([f"p{n}" for n in random.integers(0, 9, size=30)])
    x, y = random.normal(size=(2, 30))
    names = sorted({*clusters})
    z = [np.arctanh(stats.pearsonr(x[clusters != name], y[clusters != name]).statistic) for name in names]
    error = math.sqrt((len(names) - 1) ** 2 / len(names) * np.var(z, ddof=1))
    middle = np.arctanh(stats.pearsonr(x, y).statistic)
    expected = np.tanh([middle + sign * stats.t.ppf(0.975, len(names) - 1) * error for sign in (-1, 1)])
    assert compute_r_interval(x, y, clusters) == pytest.approx(tuple(expected), abs=1e-9)


@pytest.mark.parametrize("n_patients", [3, 5])
def test_intervals_of_few_patients_cover_r(n_patients):
    """Percentiles of drawn patients cover it 77 and 85 times in 100."""
    rng, patients, held = np.random.default_rng(7), np.repeat(np.arange(n_patients), 4), 0
    for _ in range(200):
        x, noise = rng.normal(size=(2, 4 * n_patients))
        low, high = compute_r_interval(x, 0.5 * x + math.sqrt(0.75) * noise, patients)
        held += low <= 0.5 <= high
    assert held >= 0.91 * 200  # 2.6 standard errors below 95%


POINTS = st.lists(st.tuples(st.floats(-1e3, 1e3), st.integers(1, 5)), min_size=3, max_size=20)


@given(POINTS, st.integers(0, 3))
def test_intervals_lie_within_one_and_know_no_scale(points, extra):
    x, y = np.array(points, dtype=np.float64).T
    if x.std() < 1e-3 or not y.std():
        return
    clusters = [str(n // 2) for n in range(len(x))]
    low, high = compute_r_interval(x, y, clusters)
    assert -1 <= low <= high <= 1
    scaled = compute_r_interval(2 * x + 8, y, clusters)
    assert scaled == pytest.approx((low, high), abs=1e-6)
    copies = (np.tile(values, 1 + extra) for values in (x, y))
    copied = compute_r_interval(*copies, clusters * (1 + extra))
    assert copied == pytest.approx((low, high), abs=1e-6)
    assert all(math.isnan(end) for end in compute_r_interval(x, y, ["p"] * len(x))), "one patient shows no spread"
    assert compute_r_interval(np.arange(4), np.array([3, 3, 1, 5]), list("aabb")) == (-1, 1), "b alone varies"
