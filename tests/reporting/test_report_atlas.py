"""Figures 8 to 12 of CXR-ContraBench: they show the values of the report's tables, and n/a for what is undefined."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from medfaith.reporting.benchmark import ReportSources
from medfaith.reporting.contrabench import BENCHMARK, intervals
from medfaith.reporting.contrabench.atlas import select_replicated
from medfaith.reporting.contrabench.runs import Run
from medfaith.reporting.pictures import saved
from medfaith.reporting.results import read_results
from tests.support.reporting.report_logs import answered, select_runs, write_log

pytest.importorskip("matplotlib")
LONG = "org/" + "a-model-with-a-long-name-" * 4


def draw(folder: Path) -> tuple[dict[str, Any], dict[str, list[dict[str, Any]]]]:
    """Return the figures by the end of their names, and the tables' rows by the tables' names."""
    results = read_results([folder])
    scores = BENCHMARK.score(results.runs[BENCHMARK], ReportSources())
    tables, _ = BENCHMARK.build_tables(scores)
    figures, _ = BENCHMARK.draw_figures(scores)
    by_number = {name.removeprefix("figure_contrabench_"): figure for name, figure in figures.items()}
    return by_number, {table.name: table.records() for table in tables}


def get_texts(axes: Any) -> list[str]:
    return [text.get_text() for text in axes.texts]


def get_labels(axes: Any) -> list[str]:
    return [label.get_text() for label in axes.get_yticklabels()]


def get_lines(axes: Any) -> list[list[float]]:
    """Return the x values of intervals and dots, without lines across the panel."""
    return [[float(x) for x in line.get_xdata()] for line in axes.lines if len({*line.get_ydata()}) == 1]


def list_values(record: dict[str, Any], *names: str, scale: float = 100) -> list[float]:
    return [scale * record[name] for name in names]


def write_slices(folder: Path, sizes: Sequence[tuple[str, int]], filters: Sequence[str] = ("b0", "m1")) -> None:
    for name, n in sizes:
        columns: dict[str, Any] = {"question": "Which is absent?", "polarity": "absence", "layout": "source"}
        answers = answered(f"rexvqa_{name}", n, n // 2, 2, cue="absent", **columns)
        write_log(folder, LONG, answers, task=f"rexvqa_{name}", filters=filters)


def test_intervals_are_those_of_the_tables(tmp_path, monkeypatch):
    """Figure 8 has Tables 4 and 5, without runs under a control, and no test is computed for it."""
    n_tests = []
    test = intervals.permutation_test
    monkeypatch.setattr(intervals, "permutation_test", lambda *a, **k: n_tests.append(1) or test(*a, **k))
    write_log(tmp_path / "a", "m", answered("chexpert_absence", 12, 3, 6))
    write_log(tmp_path / "a", "m", answered("chexpert_presence", 12, 3, 6))
    blind = [(doc | {"prompt": "b0, blank"}, text) for doc, text in answered("chexpert_absence", 12, 1, 6)]
    write_log(tmp_path / "blind", "m", blind, control="blank")
    write_slices(tmp_path / "slices", [("1k", 20)])
    figures, tables = draw(tmp_path)
    assert len(n_tests) == 2 * 3 + 1, "each by example and by study"
    figure = figures["08"]
    assert figure.legends[0].get_title().get_text().startswith("Figure 8")
    rows = [figure.axes[start : start + 3] for start in range(0, 9, 3)]
    titles = ["CheXpert direct presence", "CheXpert report-style absence", "ReXVQA slices"]
    assert [accuracy.get_title(loc="left") for accuracy, *_ in rows] == titles
    external = [record for record in tables["table_04_intervals"] if record["prompt"] == "B0"]
    for (accuracy, errors, p), record in zip(rows, external, strict=False):
        expected = [list_values(record, *(f"{side}_{end}" for end in ("low", "high"))) for side in ("base", "verified")]
        dots = [list_values(record, f"{side}_accuracy") for side in ("base", "verified")]
        assert get_lines(accuracy) == [expected[0], dots[0], expected[1], dots[1]]
        before, after = (list_values(record, f"{side}_errors", scale=1) for side in ("base", "verified"))
        assert get_lines(errors) == [list_values(record, "errors_low", "errors_high", scale=1), before, after]
        assert get_lines(p) == [[record["p_value"]]]
        assert get_labels(accuracy) == ["m\nB0, n = 12"], "no control"
    (internal,) = tables["table_05_internal_intervals"]
    gain, p = rows[2][1:]
    assert get_lines(gain) == [list_values(internal, "delta_low", "delta_high"), list_values(internal, "delta")]
    assert get_labels(p) == [f"{internal['p_value']:.3f}"]


def test_slices_of_rexvqa(tmp_path):
    write_slices(tmp_path, [("1k", 20), ("10k_s1", 30), ("10k_s2", 40)])
    write_slices(tmp_path, [("5k", 25)], filters=("b0", "m1", "m2"))
    figures, tables = draw(tmp_path)
    coverage, gain, seeds, ablations = figures["09"].axes
    sparse = tables["table_06_internal"]
    assert [bar.get_width() for bar in coverage.patches] == [100 * record["coverage"] for record in sparse]
    assert get_texts(coverage) == ["10.00% (2)", "8.00% (2)", "5.71% (4)"]
    assert [label.split("B0, ")[1] for label in get_labels(gain)] == [
        "1k, n = 20", "5k, n = 25", "2x10k pooled, n = 70",
    ]  # fmt: skip
    dots = [line[0] for line in get_lines(seeds) if len(line) == 1]
    assert dots == pytest.approx([100 * record["delta"] for record in tables["table_08_seeds"]])
    assert [label.split("B0, ")[1] for label in get_labels(seeds)] == [
        "20260326, n = 30: 2 → 0", "20260327, n = 40: 2 → 0",
    ]  # fmt: skip
    assert get_texts(ablations) == ["Y0: n/a"]
    (ablated,) = tables["table_07_ablations"]
    assert get_lines(ablations)[-1] == [100 * ablated["delta"]]
    write_slices(tmp_path / "seeds", [("10k_s1", 30)])
    figure = draw(tmp_path / "seeds")[0]["09"]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["M1"]
    seeds, ablations = figure.axes
    assert (get_texts(seeds), get_texts(ablations)) == ([], ["no filter y0 or m2"])


def test_matrix_of_absence_protocols(tmp_path):
    """A cell has its value; a missing run and a missing verifier are n/a, and the same figure gives the same bytes."""
    write_log(tmp_path / "a", LONG, answered("chexpert_absence", 8, 2, 4), n_data=10)
    write_log(tmp_path / "a", LONG, answered("openi_report_absence", 4, 4, 0))
    write_log(tmp_path / "b", "unverified", answered("openi_report_absence", 5, 1, 2), filters=("b0",))
    figure = draw(tmp_path)[0]["10"]
    base, verified, delta, contradictions, changed = figure.axes
    assert get_texts(base) == ["25.0", "100.0", "n/a", "20.0"]
    assert get_texts(verified) == ["75.0", "100.0", "n/a", "n/a"]
    assert get_texts(delta) == ["+50.0", "+0.0", "n/a", "n/a"]
    assert get_texts(contradictions) == ["50.0", "0.0", "n/a", "40.0"]
    assert get_texts(changed) == ["50.0", "0.0", "n/a", "n/a"]
    assert [label.rsplit("\n", 1)[1] for label in get_labels(base)] == ["B0, n = 8 of 10 / 4", "B0, n = – / 5"]
    assert all(len(label) < 60 for label in get_labels(base))
    assert saved(figure, ["svg"]) == saved(draw(tmp_path)[0]["10"], ["svg"])


@pytest.mark.full  # another report with pictures
def test_both_splits(tmp_path):
    """Figure 11 has models with both splits; a note names those with the training split alone."""
    for model, splits in (("m", ("validation", "train")), ("n", ("train",)), ("o", ("validation",))):
        for split in splits:
            answers = answered("chexpert_absence", 12, 3, 0 if model == "m" and split == "train" else 5, split=split)
            write_log(tmp_path / model, model, answers, task=split)
    accuracy, errors = draw(tmp_path)[0]["11"].axes
    assert get_labels(accuracy) == ["m\nB0, val., n = 12", "m\nB0, train, n = 12"]
    assert get_labels(errors) == ["5 → 0", "0 → 0"]
    assert [label.get_text() for label in errors.get_xticklabels()] == ["0", "1", "10"]
    assert [line[0] for line in get_lines(accuracy) if len(line) == 1] == [25, pytest.approx(100 * 8 / 12), 25, 25]
    runs, notes = select_replicated(select_runs(read_results([tmp_path]), Run))
    assert [run.setting.split for run in runs] == ["validation", "train"]
    assert notes == ["Figure 11 of CXR-ContraBench needs the validation split, too, and leaves out: n"]


@pytest.mark.full  # another report with pictures
def test_paraphrases_and_orders_of_options(tmp_path):
    write_log(tmp_path, "m", answered("chexpert_absence", 8, 2, 4))
    write_log(tmp_path, "m", answered("chexpert_absence", 8, 2, 4, question_form="p1"), task="p1", filters=("b0", "m1"))
    figures, _ = draw(tmp_path)
    accuracy, contradictions = figures["12"].axes
    assert get_labels(accuracy) == ["m\nB0, original, n = 8", "m\nB0, p1, n = 8"]
    assert get_texts(accuracy) == ["25.00", "75.00", "75.00", "25.00", "25.00", "n/a"]
    assert get_texts(contradictions) == ["4", "0", "0", "4", "4", "n/a"]
    write_log(tmp_path, "m", answered("chexpert_absence", 8, 3, 4, layout="original"), task="original")
    figures, _ = draw(tmp_path)
    *_, accuracy, contradictions = figures["12"].axes
    assert accuracy.get_title(loc="left") == "Order of options: accuracy (%)"
    assert get_texts(accuracy)[:3] == ["37.50", "87.50", "87.50"]
    assert [bar.get_width() for bar in contradictions.patches] == [4, 0, 0, 4, 0, 0]
    assert figures["10_original"].legends[0].get_title().get_text().endswith(", options in the original order")


def test_axes_of_numbers_have_whole_ticks(tmp_path):
    write_log(tmp_path, "m", answered("chexpert_absence", 2, 0, 1))
    write_log(tmp_path, "m", answered("chexpert_absence", 2, 0, 1, question_form="p1"), task="p1")
    figures, _ = draw(tmp_path)
    for axes in (figures["08"].axes[1], figures["12"].axes[1]):
        assert {float(tick).is_integer() for tick in axes.get_xticks()} == {True}
