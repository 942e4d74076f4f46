"""Boxes and polygons in the notation of each model family."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from medfaith.evaluate_metrics.reading import stated_regions
from medfaith.evaluate_metrics.reading.stated_regions import FOUND, KINDS, NONE, UNREADABLE, read_regions, write_boxes
from medfaith.tasks.decoding.regions import draw_mask

SIZE, SHOWN = (400, 200), (280, 140)  # height and width
WRITTEN = {  # a box of x0, y0, x1, y1 in the units of the kind
    "qwen2_vl": "<|object_ref_start|>heart<|object_ref_end|><|box_start|>({0},{1}),({2},{3})<|box_end|>",
    "qwen2_5_vl": 'Here:\n```json\n[{{"bbox_2d": [{0}, {1}, {2}, {3}], "label": "heart"}}]\n```',
    "qwen3_vl": '[{{"bbox_2d": [{0}, {1}, {2}, {3}], "label": "heart"}}]',
    "internvl": "<ref>heart</ref><box>[[{0}, {1}, {2}, {3}]]</box>",
    "gemini": '{{"box_2d": [{1}, {0}, {3}, {2}], "label": "heart"}}',
    "paligemma": "<loc{1:04d}><loc{0:04d}><loc{3:04d}><loc{2:04d}> heart",
    "florence2": "heart<loc_{0}><loc_{1}><loc_{2}><loc_{3}>",
    "plain": "It lies at [{0}, {1}, {2}, {3}].",
}
UNITS = {"paligemma": (1024, 1024), "plain": (1, 1), "qwen2_5_vl": SHOWN[::-1]}  # of the whole width and height


@pytest.mark.parametrize("kind", WRITTEN)
def test_boxes_in_a_reasoning_do_not_count(kind: str):
    draft, answer = (WRITTEN[kind].format(*box) for box in [(0, 0, 1, 1), (0, 1, 1, 2)])
    expected = read_regions(answer, kind, SIZE, SHOWN)
    assert read_regions(f"<think>{draft}</think>{answer}", kind, SIZE, SHOWN) == expected
    assert read_regions(f"<think>{draft}", kind, SIZE, SHOWN).outcome == NONE


@pytest.mark.parametrize("kind", WRITTEN)
@given(st.lists(st.floats(0, 0.998), min_size=4, max_size=4, unique=True))
def test_a_box_that_is_written_is_read_to_within_a_bin(kind: str, numbers: list[float]):
    (x0, x1), (y0, y1) = sorted(numbers[:2]), sorted(numbers[2:])
    units = UNITS.get(kind, (1000, 1000))
    exact = (x0 * units[0], y0 * units[1], x1 * units[0], y1 * units[1])
    stated = [f"{number:.4f}" if kind == "plain" else int(number) for number in exact]
    if stated[0] == stated[2] or stated[1] == stated[3]:
        return
    reading = read_regions(WRITTEN[kind].format(*stated), kind, SIZE, SHOWN)
    (shape,) = reading.shapes
    assert reading.outcome == FOUND
    assert shape.label == ("" if kind == "plain" else "heart")
    expected = np.array([[x0, y0], [x1, y1]]) * SIZE[::-1]
    bins = np.array(SIZE[::-1]) / (10_000 if kind == "plain" else np.array(units))
    assert (np.abs(np.array(shape.corners) - expected) <= bins + 1e-9).all()


@pytest.mark.parametrize("kind", KINDS)
@given(st.tuples(st.floats(0, 0.9), st.floats(0, 0.9), st.floats(0.01, 1), st.floats(0.01, 1)))
def test_a_box_is_read_as_it_was_written(kind: str, shares: tuple[float, ...]):
    x, y = shares[0] * SIZE[1], shares[1] * SIZE[0]
    width, height = min(shares[2] * SIZE[1], SIZE[1] - x), min(shares[3] * SIZE[0], SIZE[0] - y)
    text = write_boxes("heart", [[x, y, width, height], [x, y, width, height]], kind, SIZE, SHOWN)
    reading = read_regions(text, kind, SIZE, SHOWN)
    corners = [[x + width / 2, y + height / 2]] if KINDS[kind].is_point else [[x, y], [x + width, y + height]]
    assert [shape.label for shape in reading.shapes] == ["" if kind == "plain" else "heart"] * 2
    np.testing.assert_allclose(reading.shapes[1].corners, corners, atol=max(SIZE) / 180)


@pytest.mark.parametrize(
    ("kind", "text", "outcome"),
    [
        *((kind, "Yes, there is an effusion.", NONE) for kind in KINDS),
        *((kind, "", NONE) for kind in KINDS),
        ("qwen3_vl", WRITTEN["qwen3_vl"].format(0, 0, 1001, 10), UNREADABLE),
        ("qwen3_vl", WRITTEN["qwen3_vl"].format(9, 0, 5, 10), UNREADABLE),
        ("qwen3_vl", '[{"bbox_2d": [1, 2, 3], "label": "heart"}]', UNREADABLE),
        ("qwen3_vl", '[{"bbox_2d": [1, 2, NaN, 4]}]', UNREADABLE),
        ("qwen3_vl", '[{"bbox_2d": [1, 2, 1e999, 4]}]', UNREADABLE),
        ("qwen3_vl", '[{"bbox_2d": [1, 2, 30, 40]}, {"bbox_2d": [5, 6', UNREADABLE),
        ("qwen3_vl", '[{"bbox_2d": "everywhere"}]', UNREADABLE),
        ("qwen2_5_vl", WRITTEN["qwen2_5_vl"].format(0, 0, 141, 280), UNREADABLE),
        ("qwen2_5_vl", WRITTEN["qwen2_5_vl"].format(0, 0, 140, 280), FOUND),
        ("internvl", "<box>[[1, 2, 3]]</box>", UNREADABLE),
        ("internvl", "<box>[1, 2, 30, 40]</box>", FOUND),
        ("paligemma", "<loc0010><loc0010><loc0020>", NONE),
        ("paligemma", WRITTEN["paligemma"].format(1, 2, 30, 40).replace(" heart", "<seg001><seg002> heart"), FOUND),
        ("plain", "[0.1, 0.2, 1.5, 0.4]", UNREADABLE),
        ("plain", "[10, 20, 30, 40]", UNREADABLE),
        ("qwen2_vl", "the heart(12,34),(560,780)", FOUND),
    ],
)
def test_what_is_no_region_is_never_guessed(kind: str, text: str, outcome: str):
    assert read_regions(text, kind, SIZE, SHOWN).outcome == outcome


def test_florence_is_read_as_transformers_reads_it():
    from transformers.models.florence2.processing_florence2 import Florence2PostProcessor

    bins = [10, 20, 500, 20, 700, 900]
    text = "lung" + "".join(f"<loc_{number}>" for number in bins)
    post = Florence2PostProcessor.__new__(Florence2PostProcessor)
    post.quantize_bins = (1000, 1000)
    expected = post.dequantize(torch.tensor(bins).reshape(-1, 2), size=SIZE[::-1])
    (shape,) = read_regions(text, "florence2", SIZE).shapes
    np.testing.assert_allclose(shape.corners, expected.numpy(), atol=0.5)


def test_the_mask_has_the_pixels_whose_middle_is_inside():
    stated = read_regions('[{"bbox_2d": [250, 500, 500, 1000]}]', "qwen3_vl", (4, 8))
    expected = np.zeros((4, 8), dtype=bool)
    expected[2:, 2:4] = True
    assert np.array_equal(draw_mask(stated, (4, 8)), expected)
    triangle = read_regions("a<loc_0><loc_0><loc_999><loc_0><loc_0><loc_999>", "florence2", (100, 100))
    assert draw_mask(triangle, (100, 100)).mean() == pytest.approx(0.5, abs=0.02)
    assert not draw_mask(read_regions("no", "plain", (3, 3)), (3, 3)).any()


HOSTILE = [
    "[" * 10**5, "{" * 10**5, "<loc_1>" * 10**5, "<loc0001>" * 10**5, '{"bbox_2d": ' * 10**4, "(1," * 10**5,
    "<box>[[" * 10**5, json.dumps([{"bbox_2d": [0, 0, 9**99, 1]}]), "<ref>" * 10**5, "\u202e[0.1, 0.2," * 10**4,
    "<point " * 10**5, '<points x1="1" ' * 10**4,
]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_hostile_answers_are_read_at_once(kind: str):
    assert {read_regions(text, kind, SIZE, SHOWN).outcome for text in HOSTILE} <= {FOUND, NONE, UNREADABLE}


def test_what_cannot_be_asked_is_refused():
    with pytest.raises(ValueError, match="expected one of qwen2_vl"):
        read_regions("", "yolo", SIZE)
    with pytest.raises(ValueError, match="give its size"):
        read_regions("", "qwen2_5_vl", SIZE)


@given(st.lists(st.sampled_from(["<loc_1><loc_22><loc_333><loc_4>", "<loc_5>", "a", "<", ">", "b" * 150]), max_size=12))
def test_the_label_of_florences_boxes_is_the_text_before_them(parts):
    """One pattern for labels and boxes has the same result, in quadratic time."""
    text = "".join(parts)
    pattern = re.compile(r"(?P<label>[^<>]{0,200})((?:<loc_\d{1,4}>){4,2000})")
    expected = [(match["label"], re.findall(r"\d+", match[2])) for match in pattern.finditer(text)]
    found = [(raw.label, [f"{number:.0f}" for number in raw.numbers]) for raw in stated_regions._iterate_florence(text)]
    assert found == expected
