"""UNITER: its features and regions, its attention against plain loops, its checkpoint, and the pixels of its boxes."""

from __future__ import annotations

import json
import re
import stat
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from safetensors import safe_open
from safetensors.torch import save
from transformers import AutoTokenizer

from medfaith.evaluate_metrics.localization.input_view import mask
from medfaith.loaders.errors import InputError
from medfaith.tasks.models.alignment.gloria_text import tokenize
from medfaith.tasks.models.alignment.lm import load_aligner
from medfaith.tasks.models.alignment.uniter import (
    SIZES,
    Sizes,
    UniterModel,
    compute_saliency,
    load_uniter,
    stack_regions,
)
from medfaith.tasks.models.alignment.uniter_regions import build_features, cut_regions, draw_attention
from tests.support.tasks import tiny_gloria
from tests.support.tasks.tiny_uniter import HEADS, LAYERS, build_model, draw_regions

TEXTS = ["Small right pleural effusion.", "...", "Lungs are clear. There is no pneumothorax."]


@pytest.fixture(scope="module")
def text_model(tmp_path_factory) -> str:
    return tiny_gloria.save_tokenizer(tmp_path_factory.mktemp("bert"))


@pytest.fixture(scope="module")
def tokenizer(text_model):
    return AutoTokenizer.from_pretrained(text_model)


@pytest.fixture
def checkpoint(tokenizer, tmp_path) -> Path:
    build_model(len(tokenizer)).save_checkpoint(tmp_path / "uniter.ckpt")
    return tmp_path / "uniter.ckpt"


def test_features_are_2025_pixels_and_23_zeros():
    """A box of 45 x 45 pixels is not resampled, so that its features are the image's pixels, from -1 to 1."""
    pixels = np.random.default_rng(0).integers(1, 256, (100, 120), dtype=np.uint8)
    regions = cut_regions(Image.fromarray(pixels), {"a": (10, 20, 54, 64), "b": (-9, -9, 59, 49)}, "image")
    features = build_features(regions.crops)
    assert (features.shape, features.dtype) == ((2, 2048), np.float32)
    np.testing.assert_array_equal(features[0, :2025], pixels[20:65, 10:55].ravel() / np.float32(255) * 2 - 1)
    assert (features[:, :2025] > -1).all()
    assert not features[:, 2025:].any()
    assert regions.boxes == [[10, 20, 45, 45], [0, 0, 60, 50]]
    np.testing.assert_allclose(regions.places[1], [0, 0, 0.5, 0.5, 0.5, 0.5, 0.25])


def test_a_box_outside_of_the_image_is_left_out_and_only_such_boxes_are_refused():
    image = Image.new("L", (100, 100))
    outside = (120.0, 0.0, 130.0, 10.0)
    assert cut_regions(image, {"a": outside, "b": (0.0, 0.0, 9.0, 9.0)}, "image").boxes == [[0, 0, 10, 10]]
    with pytest.raises(InputError, match=r"a/b\.jpg: all boxes lie outside of the image"):
        cut_regions(image, {"a": outside}, "a/b.jpg")


def test_saliency_equals_plain_loops_over_layers_heads_and_word_pieces(tokenizer):
    model, tokens = build_model(len(tokenizer)), tokenize(tokenizer, TEXTS)
    counts = [3, 2, 4]
    regions = stack_regions(draw_regions(counts))
    with torch.no_grad():
        embedded = torch.cat([model.words(input_ids=tokens.ids), model.regions(regions)], dim=1)
        attention_mask = torch.cat([tokens.mask, regions.mask], dim=1)
        layers = model.encoder(inputs_embeds=embedded, attention_mask=attention_mask, output_attentions=True).attentions
        joint = model(tokens, regions, attention=True)
    assert joint.attention is not None
    saliency = compute_saliency(joint.attention, tokens, regions)
    assert (len(layers), layers[0].shape[1]) == (LAYERS, HEADS)
    start = tokens.ids.shape[1]
    for row, count in enumerate(counts):
        pieces = range(1, int(tokens.mask[row].sum()) - 1)  # between [CLS] and [SEP]
        sums = [
            sum(
                float(layer[row, head, piece, start + region] + layer[row, head, start + region, piece])
                for layer in layers
                for head in range(HEADS)
                for piece in pieces
            )
            for region in range(count)
        ]
        expected = [total / sum(sums) if sum(sums) else 0 for total in sums] + [0] * (max(counts) - count)
        np.testing.assert_allclose(saliency[row], expected, atol=1e-6)
    assert not saliency[1].any()  # no word
    assert saliency[2].max() - saliency[2].min() > 0.02  # the test would not see a wrong mean of even attention


def test_padding_changes_nothing(tokenizer):
    model, images = build_model(len(tokenizer)), draw_regions([2, 5])
    with torch.no_grad():
        together = model(tokenize(tokenizer, TEXTS[::2]), stack_regions(images), attention=True)
        alone = model(tokenize(tokenizer, TEXTS[:1]), stack_regions(images[:1]), attention=True)
    torch.testing.assert_close(together.pooled[:1], alone.pooled)
    torch.testing.assert_close(together.regions[:1, :2], alone.regions)


BOX = st.tuples(st.integers(0, 90), st.integers(0, 90), st.integers(1, 60), st.integers(1, 60)).map(list)


@given(st.lists(st.tuples(BOX, st.floats(0, 1, width=16)), min_size=1, max_size=5))
def test_a_pixel_has_the_highest_attention_of_its_boxes(weighted_boxes):
    size = (100, 100)
    boxes, attention = zip(*weighted_boxes, strict=True)
    pixels = draw_attention(np.array(attention), boxes, size)
    held = [np.where(mask([box], size), value, 0) for box, value in weighted_boxes]
    expected = np.max(held, axis=0)
    np.testing.assert_allclose(pixels * (expected.sum() or 1), expected, atol=1e-12)
    assert pixels.sum() == pytest.approx(1 if expected.any() else 0)


def test_a_checkpoint_holds_weights_and_sizes_and_any_reader_may_read_it(tokenizer, checkpoint, tmp_path):
    model, loaded = build_model(len(tokenizer)), load_uniter(checkpoint)
    assert loaded.sizes == model.sizes
    weights, loaded_weights = model.state_dict(), loaded.state_dict()
    assert weights.keys() == loaded_weights.keys()
    assert all(torch.equal(weights[name], loaded_weights[name]) for name in weights)
    loaded.save_checkpoint(tmp_path / "again.ckpt")
    assert (tmp_path / "again.ckpt").read_bytes() == checkpoint.read_bytes()
    (tmp_path / "text").write_text("")
    assert stat.S_IMODE(checkpoint.stat().st_mode) == stat.S_IMODE((tmp_path / "text").stat().st_mode)


@pytest.mark.parametrize("changes", [{"layers": "a"}, {"vocabulary": -1}, {"heads": 5}, {"hidden": None}])
def test_a_checkpoint_with_other_sizes_is_refused_by_its_name(checkpoint, changes):
    with safe_open(checkpoint, "pt") as content:
        sizes = json.loads(content.metadata()[SIZES])
        weights = {name: content.get_tensor(name) for name in content.keys()}  # noqa: SIM118 (no mapping)
    checkpoint.write_bytes(save(weights, {SIZES: json.dumps(sizes | changes)}))
    with pytest.raises(InputError, match=r"uniter\.ckpt: cannot be loaded.*\n.*medfaith train uniter"):
        load_uniter(checkpoint)


def test_the_default_sizes_have_the_papers_144_heads():
    sizes = Sizes(100)
    with torch.device("meta"):
        layers: Any = UniterModel(sizes).encoder.encoder.layer
    heads = layers[0].attention.self.num_attention_heads
    assert len(layers) * heads == 144
    with pytest.raises(InputError, match="hidden size: is 10"):
        UniterModel(Sizes(100, heads=3, hidden=10))


@pytest.fixture
def arguments(checkpoint, text_model, phantom_wrong_lung_roots) -> dict[str, str]:
    boxes = str(phantom_wrong_lung_roots["chest_imagenome"])
    return {"pretrained": f"uniter:{checkpoint}", "text_model": text_model, "boxes": boxes}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"boxes": None}, "boxes: is not named\n.*reference boxes.*\n.*add boxes=PATH to --model_args"),
        ({"boxes": "/nowhere"}, "/nowhere: holds no gold_dataset"),
        ({"pretrained": "uniter:/nowhere"}, "/nowhere: cannot be loaded"),
        ({"pretrained": f"uniter:{__file__}"}, "test_uniter.py: cannot be loaded"),
        ({"tau": 1}, "model_args: unknown: tau"),
    ],
)
def test_arguments_that_are_none(arguments, changes, message):
    options = {name: value for name, value in (arguments | changes).items() if value is not None}
    with pytest.raises(InputError, match=re.compile(message)):
        load_aligner(**options, device="cpu")


def test_an_image_without_boxes_is_refused(arguments):
    aligner = load_aligner(**arguments, device="cpu")
    with pytest.raises(InputError, match=r"has no boxes of the image files/p1/s1/unknown\.jpg"):
        aligner.align([Image.new("RGB", (40, 40))], ["Clear."], ["files/p1/s1/unknown.jpg"])


def test_what_changes_an_alignment_changes_its_identity(arguments, tokenizer, tmp_path):
    build_model(len(tokenizer), seed=1).save_checkpoint(tmp_path / "other" / "uniter.ckpt")
    for path in Path(arguments["boxes"]).glob("gold_dataset/*"):
        (tmp_path / "boxes" / "gold_dataset").mkdir(parents=True, exist_ok=True)
        text = path.read_text()
        if path.name.startswith("gold_bbox_coordinate"):
            text = "\n".join(text.splitlines()[:-1]) + "\n"
        (tmp_path / "boxes" / "gold_dataset" / path.name).write_text(text)
    changes = [
        {"pretrained": f"uniter:{tmp_path / 'other' / 'uniter.ckpt'}"},
        {"boxes": str(tmp_path / "boxes")},
        {"text_model": tiny_gloria.save_tokenizer(tmp_path / "bert", tiny_gloria.VOCABULARY[::-1])},
    ]
    identities = [dict(load_aligner(**arguments | change, device="cpu").identity) for change in ({}, {}, *changes)]
    assert identities[0] == identities[1]
    assert all(identity != identities[0] for identity in identities[2:])
