"""Sheets of images: which sentences they show, and the mark for attention to no region."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

pytest.importorskip("matplotlib")
from matplotlib.axes import Axes
from matplotlib.text import Text

from medfaith.reporting.image_sheets import Panel, Strip, draw
from medfaith.reporting.page.cases import Case
from medfaith.reporting.page.pictures import Box, Picture, Pixels, _draw_layer, _resize_image
from medfaith.reporting.pictures import Drawn
from medfaith.reporting.results import read_results
from medfaith.reporting.wrong_lung import BENCHMARK, cases, image_sheet
from medfaith.reporting.wrong_lung.image_sheet import select_no_attn_rows, select_perturbed_rows
from medfaith.reporting.wrong_lung.runs import WrongLungRun
from tests.support.reporting.report_logs import select_runs
from tests.support.reporting.wrong_lung_logs import Row, changed, original, write_wrong_lung

TASK = "medfaith_wrong_lung_"
REPLY = '{"heatmaps": "a/{id}"}'


def make_gold(*no_attn: float) -> list[Row]:
    return [original(number, f"p{number}", auroc=0.5, no_attn=share) for number, share in enumerate(no_attn)]


def make_pairs(rows: list[Row], config: str) -> list[Row]:
    return [row for gold in rows for row in (gold, changed(gold, config, auroc=0.25))]


def read_runs(folder: Path) -> list[WrongLungRun]:
    return select_runs(read_results([folder]), WrongLungRun)


def test_the_sentence_with_the_most_perturbations_is_shown_under_each(tmp_path: Path):
    gold = make_gold(0, 0, 0)
    write_wrong_lung(tmp_path / "m", "gold", gold, reply=REPLY)
    write_wrong_lung(tmp_path / "m", "random_boxes", make_pairs(gold[1:], "random_boxes"), reply=REPLY)
    write_wrong_lung(tmp_path / "m", "swap_left_right", make_pairs(gold, "swap_left_right"), reply=REPLY)
    write_wrong_lung(tmp_path / "m", "trimmed", make_pairs(gold[:1], "trimmed"), reply=REPLY)  # no perturbation
    synthetic = [changed(row, "synthetic") | {"original_id": None, "perturbation": None} for row in gold]
    swapped = "synthetic_swapped_conditions"
    write_wrong_lung(tmp_path / "m", swapped, make_pairs(synthetic, swapped), reply=REPLY)
    write_wrong_lung(tmp_path / "words", "shuffle_in_report", make_pairs(gold, "shuffle_in_report"), model="words")
    assert select_perturbed_rows(read_runs(tmp_path)) == {
        (f"{TASK}gold", "gold/001"): "Original",
        (f"{TASK}swap_left_right", "gold/001:swap_left_right"): "Swap Left Right",
        (f"{TASK}random_boxes", "gold/001:random_boxes"): "Random BBoxes",
        (f"{TASK}{swapped}", f"gold/001:synthetic:{swapped}"): "Synth w/ Swapped Conditions",
    }


def test_without_a_perturbation_or_a_heatmap_no_sentence_is_shown(tmp_path: Path):
    write_wrong_lung(tmp_path / "gold", "gold", make_gold(0, 0.5), reply=REPLY)
    assert select_perturbed_rows(read_runs(tmp_path / "gold")) == {}
    write_wrong_lung(tmp_path / "words", "random_boxes", make_pairs(make_gold(0.5), "random_boxes"))
    assert select_perturbed_rows(read_runs(tmp_path / "words")) == {}
    assert select_no_attn_rows(read_runs(tmp_path / "words")) == ([], [])


def test_each_models_sentence_with_the_most_attention_on_no_region(tmp_path: Path):
    """Models without such attention take no place from those that have it."""
    shares = {"a": (0.1, 0.9, 0.9), "b": (0.3, 0.2), "d": (0.4, 0.1), "e": (0.4, 0.1), "f": (0.1, 0.2, 0.3)}
    for model, model_shares in {**shares, **dict.fromkeys(("0", "1", "2", "c"), (0.0, 0.0))}.items():
        write_wrong_lung(tmp_path / model, "gold", make_gold(*model_shares), model=model, reply=REPLY)
    runs, rows = select_no_attn_rows(read_runs(tmp_path))
    assert [run.name for run in runs] == ["a", "b", "d", "e"]
    assert rows == [(f"{TASK}gold", "gold/001"), (f"{TASK}gold", "gold/000")]


def test_sentences_without_a_heatmap_take_no_place_in_the_sheet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    write_wrong_lung(tmp_path / "words", "gold", make_gold(*[0] * 9), model="words")
    write_wrong_lung(tmp_path / "m", "gold", make_gold(0, 0), reply=REPLY)
    drawn_ids = []

    def record_cases(_name: str, cases: list[Case], *_: Any) -> Drawn:
        drawn_ids.extend(case.id for case in cases)
        return {}, []

    monkeypatch.setattr(image_sheet, "draw_strips", record_cases)
    monkeypatch.setattr(cases, "explain_missing", lambda *_: "")
    texts = {"id": [f"gold/{n:03d}" for n in range(9)], "sentence": ["A sentence."] * 9}
    monkeypatch.setattr(cases, "load_rows", lambda *_: (None, texts))
    image_sheet.draw_heatmap_sheets(BENCHMARK, read_runs(tmp_path), Pixels("", {}, None, 200))
    assert drawn_ids == ["gold/000", "gold/001"]


def measure_opacities(no_attention: float) -> tuple[Any, dict[str, Any]]:
    """Measure the opacity of the heatmap, and of the squares on the image by their labels."""
    url = _draw_layer(np.ones((8, 8), np.uint8), (255, 96, 0), [0, 255])
    picture = Picture("image", _resize_image(Image.new("L", (64, 64), 128)), (64, 64), heat=(("m", url),))
    figure = draw([Strip("A sentence.", [Panel("m", picture, ["m"], no_attention)])], "A caption.")
    (axes,) = [axes for axes in figure.findobj(Axes) if isinstance(axes, Axes) and axes.images]
    labels = [text.get_text() for text in axes.texts]
    return axes.images[1].get_alpha(), {
        label: patch.get_alpha() for label, patch in zip(labels, axes.patches, strict=True)
    }


def test_a_heatmap_fades_by_the_attention_on_no_region():
    plain, no_square = measure_opacities(0)
    faded, squares = measure_opacities(0.75)
    assert (no_square, squares) == ({}, {"No\nAttn": 0.75})
    assert faded == pytest.approx(plain / 4)


def test_labels_of_boxes_with_one_corner_cover_nothing():
    boxes = tuple(Box(f"label {side}", 10, 10, side, side) for side in (60, 120, 180))
    picture = Picture("image", _resize_image(Image.new("L", (200, 200))), (200, 200), boxes=boxes)
    figure = draw([Strip("A sentence.", [Panel("the boxes", picture, ["boxes"])])], "A caption.")
    figure.draw_without_rendering()
    labels = [text.get_window_extent() for text in figure.findobj(Text) if text.get_text().startswith("label")]
    assert len(labels) == 3
    assert not any(a.overlaps(b) for place, a in enumerate(labels) for b in labels[place + 1 :])
