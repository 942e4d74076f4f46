"""Relevancy of tokens: rows of dense matrices by transformers' own attentions, numpy's products, and shares by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import transformers
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from medfaith.loaders.errors import MedfaithError
from medfaith.tasks.explain.token_cam import get_decoder_layers
from medfaith.tasks.explain.token_relevancy import (
    Relevancy,
    compute_token_relevancy,
    parse_relevancy,
    summarise_relevancy,
)
from tests.support.tasks.dense_relevancy import compute_dense_relevancy
from tests.support.tasks.tiny_models import PLACEHOLDER, SAVE


@pytest.fixture(scope="module", params=SAVE)
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, dict[str, Any]]:
    """A tiny float64 model with wide weights, and a prompt with its answer."""
    folder = tmp_path_factory.mktemp(request.param)
    SAVE[request.param](folder)
    model = transformers.AutoModelForImageTextToText.from_pretrained(folder).double().eval()
    torch.manual_seed(1)
    for weight in model.get_decoder().parameters():
        if weight.ndim == 2:
            torch.nn.init.normal_(weight, std=0.25)
    processor = transformers.AutoProcessor.from_pretrained(folder)
    pixels = np.random.default_rng(0).integers(0, 256, (60, 90, 3), dtype=np.uint8)
    text = PLACEHOLDER[request.param] + "Is the lung clear? Yes, it is"
    encoding = processor(images=[Image.fromarray(pixels)], text=[text], return_tensors="pt")
    return model, {k: v.double() if v.is_floating_point() else v for k, v in encoding.items()}


def test_rows_are_those_of_the_joint_relevancy(case: tuple[Any, dict[str, Any]]):
    model, inputs = case
    n = inputs["input_ids"].shape[1]
    positions, attention_before = [n - 1, n - 4], model.get_decoder().config._attn_implementation
    with torch.no_grad():  # a caller may have disabled gradients
        rows = compute_token_relevancy(model, inputs, positions)
    assert model.get_decoder().config._attn_implementation == attention_before
    assert not any(layer._forward_hooks or layer._forward_pre_hooks for layer in get_decoder_layers(model))
    assert all(weight.grad is None for weight in model.parameters())
    assert rows.shape == (2, n)
    for row, position in zip(rows, positions, strict=True):
        expected = compute_dense_relevancy(model, inputs, position)
        assert np.count_nonzero(expected) > 5
        np.testing.assert_allclose(row, expected, rtol=1e-4, atol=1e-6 * expected.max())
        assert not row[position:].any()  # a decoder's later tokens affect nothing


def test_no_answer_and_a_layer_without_attention(case: tuple[Any, dict[str, Any]], monkeypatch: pytest.MonkeyPatch):
    model, inputs = case
    assert compute_token_relevancy(model, inputs, []).shape == (0, inputs["input_ids"].shape[1])
    attend: Any = get_decoder_layers(model)[-1].self_attn
    forward = attend.forward
    monkeypatch.setattr(attend, "forward", lambda *args, **options: (forward(*args, **options)[0], None))
    with pytest.raises(MedfaithError, match="returns no attention"):
        compute_token_relevancy(model, inputs, [3])


def test_shares_by_hand():
    row = np.array([1.0, 2.0, 0.0, 4.0, 1.0])
    relevancy = summarise_relevancy(row, [1, 2], ["<s>", "", "", " lung", "?"])
    assert relevancy is not None
    assert relevancy == Relevancy(0.25, 0.75, 0.25, 0.5, [("<s>", 0.125), (" lung", 0.5), ("?", 0.125)])
    assert parse_relevancy(relevancy.as_json()) == relevancy
    sentence = summarise_relevancy(row, [1, 2], None)
    assert sentence is not None
    assert sentence == relevancy._replace(tokens=None)
    assert sentence.as_json() == {"image": 0.25, "text": 0.75, "image_peak": 0.25, "text_peak": 0.5}
    for value in (0, np.nan, np.inf):
        assert summarise_relevancy(np.array([0, value, 0]), [1], None) is None
    assert parse_relevancy(None) is None


@given(st.lists(st.floats(0, 1e6), min_size=2, max_size=8), st.data())
def test_shares_are_of_all_tokens(row: list[float], data: st.DataObject):
    visual = data.draw(st.lists(st.integers(0, len(row) - 1), unique=True))
    relevancy = summarise_relevancy(np.array(row), np.array(visual, dtype=int), [str(n) for n in range(len(row))])
    if relevancy is None:
        assert sum(row) == 0
        return
    assert relevancy.image + relevancy.text == pytest.approx(1)
    assert [token for token, _ in relevancy.tokens or ()] == [str(n) for n in range(len(row)) if n not in visual]
    assert sum(share for _, share in relevancy.tokens or ()) == pytest.approx(relevancy.text)
    assert parse_relevancy(relevancy.as_json()) == relevancy


ENTRY = {"image": 0.5, "text": 0.5, "image_peak": 0.5, "text_peak": 0.5}


@pytest.mark.parametrize(
    "entry",
    [
        [], "0.5", {}, ENTRY | {"text": None}, ENTRY | {"image": float("nan")}, ENTRY | {"image": 2},
        ENTRY | {"image": True}, ENTRY | {"tokens": "lung"}, ENTRY | {"tokens": [["lung"]]},
        ENTRY | {"tokens": [[1, 0.5]]},
    ],
)  # fmt: skip
def test_another_form_is_refused(entry: Any):
    with pytest.raises(ValueError, match="is no relevancy"):
        parse_relevancy(entry)
