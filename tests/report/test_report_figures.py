"""The pictures of CXR-ContraBench and HEAL-MedVQA: what is drawn where; and the files of every picture."""

from __future__ import annotations

from typing import Any

import pytest

from medfaith.evaluate_metrics.confidence.score import bootstrap_mean
from medfaith.report.contrabench_figures import contrabench_pictures, figure_5
from medfaith.report.heal_figures import heal_pictures
from medfaith.report.pictures import FORMATS, box, figure_of, saved, styles_of
from medfaith.report.results import read_results
from medfaith.report.write import collect
from tests.report.heal_logs import CLOSED, TPT_PAIRS, VPT_PAIRS, as_mimic, write_heal
from tests.report.report_logs import answered, question, write_log
from tests.report.test_report_option_scores import SCORES, write_scores, write_states

pytest.importorskip("matplotlib")


def texts(axes: Any) -> list[str]:
    return [text.get_text() for text in axes.texts]


def heights(axes: Any) -> list[float]:
    return [round(bar.get_height(), 3) for bar in axes.patches]


def test_accuracy_and_answers_by_protocol(tmp_path):
    """A row a model in each panel: both accuracies with intervals over studies, and the shares of all answers."""
    write_log(tmp_path / "a", "/home/me/ckpt/tiny", answered("chexpert_presence", 10, 5, 3, unread=1))
    unverified = answered("chexpert_absence", 4, 1, 0)
    write_log(tmp_path / "b", "b", unverified, filters=("b0",), n_data=8)
    write_log(tmp_path / "c", "b", answered("chexpert_absence", 4, 0, 4, layout="original"), task="original")
    figures, notes = contrabench_pictures(read_results([tmp_path]).runs, [])
    assert ([*figures], notes) == (["figure_contrabench_03", "figure_contrabench_03_original"], [])
    left, right, below, its_right = figures["figure_contrabench_03"].axes
    titles = [axes.get_title(loc="left") for axes in (left, below)]
    assert titles == ["CheXpert direct presence", "CheXpert report-style absence"]
    assert [label.get_text() for label in left.get_yticklabels()] == ["tiny\nB0, n = 10"]
    assert [label.get_text() for label in below.get_yticklabels()] == ["b\nB0, n = 4 of 8"]
    expected = bootstrap_mean([1] * 5 + [0] * 5)
    lines: Any = left.lines
    drawn = [[*line.get_xdata()] for line in lines]
    assert drawn[:2] == [[100 * expected.low, 100 * expected.high], [50.0]]
    assert drawn[-1] == [80.0], "after the verifier"
    widths: Any = right.patches
    assert [round(bar.get_width(), 6) for bar in widths] == [0.5, 0.3, 0.1, 0.1]
    assert [label.get_text() for label in right.get_yticklabels()] == ["3 → 0"]
    assert texts(below) == ["M1: n/a"]
    assert [label.get_text() for label in its_right.get_yticklabels()] == ["0 → –"]


def test_what_is_no_external_protocol_or_under_a_control_is_not_drawn(tmp_path):
    write_log(tmp_path / "internal", "m", [(question("rexvqa_1k", n), "A") for n in range(3)])
    write_log(tmp_path / "blind", "m", answered("chexpert_absence", 4, 1, 0), control="blank")
    write_heal(tmp_path / "blind", "vpt", VPT_PAIRS, control="blank")
    report = collect([tmp_path])
    assert (len(report.results.runs), len(report.results.heal), report.figures) == (2, 1, {})


def test_gaps_of_both_subsets_and_similarities(tmp_path):
    write_states(tmp_path / "states.npz", SCORES)
    write_scores(tmp_path, SCORES, model_args={"pretrained": "m", "states_path": "states.npz"})
    without = [row[:3] for row in SCORES[2:]]
    write_scores(tmp_path / "absence", without, model="n", columns={"counterpart": -1})
    gap, similarity = figure_5(read_results([tmp_path]).scored).axes
    lines: Any = gap.lines
    drawn = [[*line.get_ydata()] for line in lines if line.get_marker() == "D"]
    assert drawn == [[2.5], [-2.0]]
    assert texts(gap) == ["2", "1", *["n/a", "0"] * 2]
    assert texts(similarity) == ["2", "2", *["n/a", "0"] * 2]
    assert [label.get_text() for label in gap.get_xticklabels()] == ["m", "n"]
    (gap,) = figure_5(read_results([tmp_path / "absence"]).scored).axes
    assert texts(gap)[-1] == "no right “X” stands beside its “No X”"


def test_f1_and_perturbations_by_source(tmp_path):
    for ask, answers in (("closed", CLOSED), ("tpt", TPT_PAIRS), ("vpt", VPT_PAIRS)):
        write_heal(tmp_path / "a", ask, answers, model="a")
    write_heal(tmp_path / "b", "vpt", as_mimic(VPT_PAIRS), model="b")
    figures, notes = heal_pictures(read_results([tmp_path]).heal)
    assert ([*figures], notes) == (["figure_heal_f1", "figure_heal_tpt_vpt"], [])
    (f1,) = figures["figure_heal_f1"].axes
    assert (f1.get_title(loc="left"), heights(f1), texts(f1)) == ("VinDr", [0.571], ["n/a"])
    mimic, vindr = figures["figure_heal_tpt_vpt"].axes
    assert (heights(mimic), texts(mimic)) == ([0.5], ["n/a"] * 5)
    assert (heights(vindr), texts(vindr)) == ([0.667, 0.5, 0.5], ["n/a"] * 3)
    legend: Any = figures["figure_heal_tpt_vpt"].legends[0]
    assert [text.get_text() for text in legend.get_texts()] == ["a", "b"]


def test_legends_have_no_paths_and_every_format_is_the_same_bytes():
    def drawn() -> dict[str, bytes]:
        names = ["open_clip:ViT-B-32:/data/me/weights.pt", "~/ckpt/a-7b (layer=-2)", "org/b"]
        figure = figure_of(2, styles_of(names))
        (legend,) = figure.legends
        assert [text.get_text() for text in legend.get_texts()] == [
            "open_clip:ViT-B-32:weights.pt", "a-7b (layer=-2)", "org/b",
        ]  # fmt: skip
        axes = figure.subplots()
        for place, values in enumerate(([1.0, 1.0], [0.0, 0.5, 1.0], [])):
            box(axes, place, 0.3, values, styles_of(names)["org/b"])
        return saved(figure)

    first = drawn()
    assert {kind: content[:5] for kind, content in first.items()} == {
        "png": b"\x89PNG\r", "pdf": b"%PDF-", "svg": b"<?xml",
    }  # fmt: skip
    assert first == drawn()
    assert b"/Type3" not in first["pdf"], "publishers refuse such fonts"
    for word in (b"CreationDate", b"<dc:date>", b"Matplotlib v"):
        assert all(word not in content for content in first.values()), word
    assert {*first} == {*FORMATS}
