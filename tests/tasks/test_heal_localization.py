"""Dice of the region in a model's reply: masks, heatmaps and malformed replies."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from medfaith.loaders import rle
from medfaith.loaders.errors import InputError
from medfaith.tasks.explain.geometry import Geometry
from medfaith.tasks.explain.reader import HeatmapReader
from medfaith.tasks.explain.store import ATTENTION, HeatmapStore, digest_of
from medfaith.tasks.heal.localization import Reply, read_reply, score_localization

SIZE = (20, 30)
ANATOMY = np.zeros(SIZE, dtype=bool)
ANATOMY[5:10, 10:20] = True
SHOWN = digest_of(b"an image")


def mask(rows: slice, columns: slice) -> dict[str, Any]:
    pixels = np.zeros(SIZE, dtype=bool)
    pixels[rows, columns] = True
    return dict(rle.encode(pixels))


def make_document(**more: Any) -> dict[str, Any]:
    return {"id": "vindr/test/a/positive", "region": rle.encode(ANATOMY), **more}


@pytest.mark.parametrize(
    ("response", "reply"),
    [
        ("Yes.", Reply("Yes.")),
        ("", Reply("")),
        ('{"text": "No.", "heatmaps": "a/b"}', Reply("No.", heatmaps="a/b")),
        (
            '{"text": "No.", "heatmaps": "a/b", "relevancy": {"image": 0.5}}',
            Reply("No.", heatmaps="a/b", relevancy={"image": 0.5}),
        ),
        (' {"text": "No.", "region": {"size": [1, 1], "counts": "1"}}', Reply("No.", {"size": [1, 1], "counts": "1"})),
        *(
            (text, Reply(text))
            for text in (
                '{"text": "No."', '{"answer": "No."}', '{"text": "No."}', '{"text": "No.", "bbox_2d": [1, 2, 3, 4]}',
                '{"text": null, "heatmaps": "a/b"}', '{"text": "No.", "heatmaps": 1}', '{"text": "No.", "region": []}',
                '{"text": "No.", "region": {}, "heatmaps": "a/b"}', '{"text": "No.", "relevancy": {}}',
                '{"text": "No.", "heatmaps": "a/b", "relevancy": 1}', '{"text": "No.", "region": {}, "relevancy": {}}',
            )
        ),
    ],
)  # fmt: skip
def test_what_is_no_reply_with_a_region_is_an_answer_as_it_stands(response, reply):
    assert read_reply(response) == reply


@pytest.mark.parametrize(
    ("region", "dice"),
    [
        (None, None),
        (mask(slice(5, 10), slice(10, 20)), 1),
        (mask(slice(5, 10), slice(15, 25)), 0.5),  # 2 * 25 / (50 + 50)
        (mask(slice(5, 10), slice(20, 30)), 0),
        (mask(slice(0, 0), slice(0, 0)), 0),
        (dict(rle.encode(np.ones((4, 4), dtype=bool))), math.nan),
        ({"size": [20, 30], "counts": "?"}, math.nan),
        ({"size": "large"}, math.nan),
        ({"size": [20, None], "counts": "1"}, math.nan),
        ({}, math.nan),
    ],
)
def test_a_mask(region, dice):
    expected = {} if dice is None else {"dice": pytest.approx(dice, nan_ok=True)}
    assert score_localization(make_document(), Reply("Yes", region)) == expected


@pytest.fixture
def store(tmp_path: Path) -> HeatmapStore:
    return HeatmapStore(tmp_path, {"model": "m"})


def compute_dice(store: HeatmapStore, maps: dict[str, np.ndarray], window: tuple[float, ...] = (0, 0, 30, 20)) -> float:
    geometry = Geometry(SIZE, window)
    store.write(make_document()["id"], SHOWN, maps, geometry)
    doc = make_document(heatmaps=HeatmapReader(str(store.folder)))
    return score_localization(doc, Reply("Yes", heatmaps=store.reference(SHOWN)))["dice"]


def test_a_heatmap_gives_its_top_fifth(store):
    """The reference is numpy's quantile; the grid has the image's size, and nothing is rescaled."""
    heatmap = np.random.default_rng(0).random(SIZE) + 0.5 * ANATOMY
    region = heatmap >= np.quantile(heatmap, 0.8)
    expected = 2 * (region & ANATOMY).sum() / (region.sum() + ANATOMY.sum())
    assert compute_dice(store, {ATTENTION: heatmap}) == pytest.approx(expected, abs=0.02)  # kept in half precision
    assert 0.3 < expected < 0.9


def test_a_heatmap_lies_where_the_model_looked(store):
    """One of four cells of the model's window: 5 x 10 pixels from (10, 5), the position of the anatomy."""
    peak = np.array([[0.0, 0.0], [0.0, 1.0]])
    inside, outside = (compute_dice(store, {ATTENTION: peak}, window) for window in ((0, 0, 20, 10), (10, 10, 20, 10)))
    assert inside > 0.5
    assert outside == 0


@pytest.mark.parametrize("maps", [{}, {ATTENTION: np.zeros((2, 2))}, {ATTENTION: np.ones((2, 2))}])
def test_a_heatmap_without_a_region(store, maps):
    assert math.isnan(compute_dice(store, maps))


def test_a_heatmap_that_is_not_there_is_named(tmp_path):
    doc = make_document(heatmaps=HeatmapReader(str(tmp_path)))
    with pytest.raises(InputError, match="no heatmaps of the model"):
        score_localization(doc, read_reply(json.dumps({"text": "Yes", "heatmaps": f"{SHOWN}/{SHOWN}"})))
