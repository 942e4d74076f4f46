"""The figures of CXR-ContraBench, HEAL-MedVQA and That's the Wrong Lung!: drawn values, and saved files."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from medfaith.evaluate_metrics.confidence.score import bootstrap_mean
from medfaith.reporting.contrabench.figures import draw_contrabench_figures, figure_5
from medfaith.reporting.contrabench.option_scores import ScoredRun
from medfaith.reporting.contrabench.runs import Run
from medfaith.reporting.heal.figures import draw_heal_figures
from medfaith.reporting.heal.runs import HealRun
from medfaith.reporting.pictures import FORMATS, box, draw_bar, draw_separators, make_figure, make_styles, saved
from medfaith.reporting.results import read_results
from medfaith.reporting.write import collect
from medfaith.reporting.wrong_lung.figures import figure_5 as bars_5
from medfaith.reporting.wrong_lung.figures import figure_14 as bars_14
from medfaith.reporting.wrong_lung.runs import WrongLungRun
from medfaith.reporting.wrong_lung.scores import score_models
from tests.support.reporting.heal_logs import CLOSED, TPT_PAIRS, VPT_PAIRS, as_mimic, write_heal
from tests.support.reporting.option_score_logs import SCORES, write_scores, write_states
from tests.support.reporting.report_logs import answered, select_runs, write_log, write_report
from tests.support.reporting.wrong_lung_logs import PAIR, changed, original, write_wrong_lung

pytest.importorskip("matplotlib")


def get_texts(axes: Any) -> list[str]:
    return [text.get_text() for text in axes.texts]


def get_heights(axes: Any) -> list[float]:
    return [round(bar.get_height(), 3) for bar in axes.patches]


def test_accuracy_and_answers_by_protocol(tmp_path):
    """Each panel has one row per model: both accuracies with intervals over studies, and the shares of all answers."""
    write_log(tmp_path / "a", "/home/me/ckpt/tiny", answered("chexpert_presence", 10, 5, 3, unread=1))
    unverified = answered("chexpert_absence", 4, 1, 0)
    write_log(tmp_path / "b", "b", unverified, filters=("b0",), n_data=8)
    write_log(tmp_path / "c", "b", answered("chexpert_absence", 4, 0, 4, layout="original"), task="original")
    figures, notes = draw_contrabench_figures(select_runs(read_results([tmp_path]), Run), [])
    names = [f"figure_contrabench_{number}{layout}" for layout in ("", "_original") for number in ("03", "10")]
    assert ([*figures], notes) == (names, [])
    upper_left, right, below, its_right = figures["figure_contrabench_03"].axes
    titles = [axes.get_title(loc="left") for axes in (upper_left, below)]
    assert titles == ["CheXpert direct presence", "CheXpert report-style absence"]
    assert [label.get_text() for label in upper_left.get_yticklabels()] == ["tiny\nB0, n = 10"]
    assert [label.get_text() for label in below.get_yticklabels()] == ["b\nB0, n = 4 of 8"]
    expected = bootstrap_mean([1] * 5 + [0] * 5, bounds=(0, 1))
    lines: Any = upper_left.lines
    line_xs = [[*line.get_xdata()] for line in lines]
    assert line_xs[:2] == [[100 * expected.low, 100 * expected.high], [50.0]]
    assert line_xs[-1] == [80.0], "after the verifier"
    widths: Any = right.patches
    assert [round(bar.get_width(), 6) for bar in widths] == [0.5, 0.3, 0.1, 0.1]
    assert [label.get_text() for label in right.get_yticklabels()] == ["3 → 0"]
    assert get_texts(below) == ["M1: n/a"]
    assert [label.get_text() for label in its_right.get_yticklabels()] == ["0 → –"]


def test_what_is_under_a_control_is_not_drawn(tmp_path):
    write_log(tmp_path / "blind", "m", answered("chexpert_absence", 4, 1, 0), control="blank")
    write_heal(tmp_path / "blind", "vpt", VPT_PAIRS, control="blank")
    report = collect([tmp_path])
    assert ([len(runs) for runs in report.results.runs.values()], report.figures) == ([1, 1, 0, 0, 0], {})


def test_gaps_of_both_subsets_and_similarities(tmp_path):
    write_states(tmp_path / "states.npz", SCORES)
    write_scores(tmp_path, SCORES, model_args={"pretrained": "m", "states_path": "states.npz"})
    without = [row[:3] for row in SCORES[2:]]
    write_scores(tmp_path / "absence", without, model="n", columns={"counterpart": -1})
    gap, similarity = figure_5(select_runs(read_results([tmp_path]), ScoredRun)).axes
    lines: Any = gap.lines
    marker_ys = [[*line.get_ydata()] for line in lines if line.get_marker() == "D"]
    assert marker_ys == [[2.5], [-2.0]]
    assert get_texts(gap) == ["2", "1", *["n/a", "0"] * 2]
    assert get_texts(similarity) == ["2", "2", *["n/a", "0"] * 2]
    assert [label.get_text() for label in gap.get_xticklabels()] == ["m", "n"]
    (gap,) = figure_5(select_runs(read_results([tmp_path / "absence"]), ScoredRun)).axes
    assert get_texts(gap)[-1] == "no right “X” is next to its “No X”"


def test_f1_and_perturbations_by_source(tmp_path):
    for ask, answers in (("closed", CLOSED), ("tpt", TPT_PAIRS), ("vpt", VPT_PAIRS)):
        write_heal(tmp_path / "a", ask, answers, model="a")
    write_heal(tmp_path / "b", "vpt", as_mimic(VPT_PAIRS), model="b")
    figures, notes = draw_heal_figures(select_runs(read_results([tmp_path]), HealRun))
    assert ([*figures], notes) == (["figure_heal_f1", "figure_heal_tpt_vpt"], [])
    (f1,) = figures["figure_heal_f1"].axes
    assert (f1.get_title(loc="left"), get_heights(f1), get_texts(f1)) == ("VinDr", [0.571], ["n/a"])
    mimic, vindr = figures["figure_heal_tpt_vpt"].axes
    assert (get_heights(mimic), get_texts(mimic)) == ([0.5], ["n/a"] * 5)
    assert (get_heights(vindr), get_texts(vindr)) == ([0.667, 0.5, 0.5], ["n/a"] * 3)
    legend: Any = figures["figure_heal_tpt_vpt"].legends[0]
    assert [text.get_text() for text in legend.get_texts()] == ["a", "b"]


def test_legends_have_no_paths_and_every_format_is_the_same_bytes():
    def draw_files() -> dict[str, bytes]:
        names = ["open_clip:ViT-B-32:/data/me/weights.pt", "~/ckpt/a-7b (layer=-2)", "org/b"]
        figure = make_figure(2, make_styles(names))
        (legend,) = figure.legends
        assert [text.get_text() for text in legend.get_texts()] == [
            "open_clip:ViT-B-32:weights.pt", "a-7b (layer=-2)", "org/b",
        ]  # fmt: skip
        axes = figure.subplots()
        for place, values in enumerate(([1.0, 1.0], [0.0, 0.5, 1.0], [])):
            box(axes, place, 0.3, values, make_styles(names)["org/b"])
        files = saved(figure)
        bounds = axes.get_tightbbox()
        assert bounds is not None
        assert bounds.y1 < legend.get_window_extent().y0, "laid out"
        return files

    first_files = draw_files()
    assert {kind: content[:5] for kind, content in first_files.items()} == {
        "png": b"\x89PNG\r", "pdf": b"%PDF-", "svg": b"<?xml",
    }  # fmt: skip
    assert first_files == draw_files()
    assert b"/Type3" not in first_files["pdf"], "publishers refuse such fonts"
    for word in (b"CreationDate", b"<dc:date>", b"Matplotlib v"):
        assert all(word not in content for content in first_files.values()), word
    assert {*first_files} == {*FORMATS}


def write_chart_logs(folder: Path) -> None:
    """Three patients per model; the second model has a single perturbation and a single patient."""
    rows = []
    for number, (before, after) in enumerate(((0.5, 0.25), (0.75, 0.25), (0.75, 0.625))):
        row = original(number, f"p{number}", "abnormal one_lung", auroc=before, average_precision=before)
        rows += [row, changed(row, "swap_left_right", auroc=after, average_precision=before)]
    write_wrong_lung(folder / "a", "swap_left_right", rows, model="a")
    row = original(0, "p0", "abnormal", auroc=0.5)
    write_wrong_lung(folder / "b", "random_boxes", [row, changed(row, "random_boxes", auroc=0.75)], model="b")


@pytest.mark.filterwarnings("ignore:Glyph")  # the font has no signs for control characters
def test_a_name_is_a_text_and_no_formula():
    figure = make_figure(2, make_styles(["$no{$\x1b\0"]))
    figure.subplots().set_yticks([0], ["a$\\no{$"])
    svg = saved(figure, ["svg"], **{"svg.fonttype": "none"})["svg"].decode()
    assert ">$no{$␛␀</text>" in svg
    assert r">a$\no{$</text>" in svg


@pytest.mark.parametrize("value", [-5.0, 5.0])
def test_a_text_for_no_value_lies_in_its_panel(value: float):
    figure = make_figure(2, make_styles(["m"]))
    axes = figure.subplots()
    for place, bar in enumerate((value, math.nan)):
        draw_bar(axes, place, 0.5, (bar, bar, bar), {})
    draw_separators(axes, 2)
    figure.draw_without_rendering()
    panel, (text,) = axes.get_window_extent(), axes.texts
    extent = text.get_window_extent()
    assert panel.y0 < extent.y0 < extent.y1 < panel.y1


def test_bars_show_the_changes(tmp_path):
    write_chart_logs(tmp_path)
    models = score_models(select_runs(read_results([tmp_path]), WrongLungRun))
    (axes,) = bars_5(models).axes
    deltas = models[0].deltas["swap_left_right"]["one_lung"]
    assert [(round(bar.get_x() + bar.get_width() / 2, 6), bar.get_height()) for bar in axes.patches] == [  # pyrefly: ignore[missing-attribute] (rectangles)
        (-0.2, pytest.approx(-100 * (0.25 + 0.5 + 0.125) / 3)), (3.2, 25.0),
    ]  # fmt: skip
    (segments,) = [lines.get_segments() for lines in axes.collections]  # pyrefly: ignore[missing-attribute] (lines)
    assert segments[0][:, 1].tolist() == [100 * deltas["delta_auroc_ci_low"], 100 * deltas["delta_auroc_ci_high"]]
    assert [text.get_text() for text in axes.texts] == ["n/a"] * 8
    assert [label.get_text().split("\n")[1] for label in axes.get_xticklabels()] == [
        "(One Lung)", "(MDRB)", "(Abnormal)", "(Abnormal)", "(Abnormal)",
    ]  # fmt: skip
    panels = bars_14(models, "delta_average_precision").axes
    assert [panel.get_title(loc="left") for panel in panels] == ["All", "Abnormal", "One Lung", "MDRB"]
    assert [[bar.get_height() for bar in panel.patches] for panel in panels] == [[0.0], [0.0], [0.0], []]  # pyrefly: ignore[missing-attribute] (rectangles)


@pytest.mark.full  # test_report_surgx_figures.py has others
@pytest.mark.usefixtures("png_only")
def test_pictures_stand_beside_the_tables(tmp_path, monkeypatch):
    write_chart_logs(tmp_path / "logs")
    write_wrong_lung(tmp_path / "gold", "gold", PAIR[:1])
    out = tmp_path / "out"
    write_report([tmp_path / "logs"], out)
    names = [f"figure_wrong_lung_{number}.png" for number in ("05", "14", "15")]
    assert [path.name for path in sorted(out.glob("*.png"))] == names
    assert [Image.open(out / name).size for name in names] == [(1200, 425), *[(1200, 985)] * 2]
    write_report([tmp_path / "gold"], out)
    assert not list(out.glob("*.png")), "nothing changed"
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    report = write_report([tmp_path / "logs"], out)
    assert "pictures of That's the Wrong Lung! need matplotlib and are left out" in report
    assert not list(out.glob("*.png"))
