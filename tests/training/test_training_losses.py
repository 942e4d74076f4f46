"""Losses against the libraries' own, and against the evaluation scores."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from transformers.models.clip.modeling_clip import image_text_contrastive_loss

from medfaith.evaluate_metrics.localization.input_view import mask, scores, window
from medfaith.tasks.models.alignment.gloria import GloriaModel
from medfaith.tasks.models.alignment.gloria_text import tokenize
from medfaith.training import losses
from medfaith.training.data import Example, regions
from tests.support.tasks import tiny_gloria

SIZE = (300, 220)
BOXES = [[[20.0, 30.0, 80.0, 200.0]], [[0.0, 0.0, 50.0, 50.0], [150.0, 100.0, 60.0, 60.0]]]


def make_example(boxes: list[list[float]], size: tuple[int, int] = SIZE) -> Example:
    return Example("row", "patient", 0, "Lungs are clear.", size, boxes, [], frozenset())


def draw_grids(n: int, seed: int = 0) -> np.ndarray:
    values = np.random.default_rng(seed).random((n, 4, 4)).astype(np.float32)
    return values / values.sum(axis=(1, 2), keepdims=True)


@pytest.mark.parametrize("n", [2, 5])
def test_contrastive_is_the_two_way_cross_entropy_of_both_similarities(n):
    generator = torch.Generator().manual_seed(n)
    local, overall = (torch.randn(n, n, generator=generator) for _ in range(2))
    expected = 2 * (image_text_contrastive_loss(10 * local) + image_text_contrastive_loss(10 * overall))
    assert losses.contrastive(local, overall).item() == pytest.approx(expected.item(), rel=1e-5)


def test_alignment_is_the_share_of_attention_in_the_boxes_on_the_scored_pixels():
    attention = draw_grids(2)
    expected = []
    for grid, boxes in zip(attention, BOXES, strict=True):
        on_pixels = scores(grid, SIZE, window(SIZE))
        expected.append(on_pixels[mask(boxes, SIZE)].sum() / on_pixels.sum())
    box_regions = regions([make_example(boxes) for boxes in BOXES])
    assert losses.alignment(torch.from_numpy(attention), box_regions).item() == pytest.approx(
        -np.mean(expected), rel=1e-4
    )


def test_alignment_does_not_depend_on_what_no_region_has():
    attention, box_regions = torch.from_numpy(draw_grids(2)), regions([make_example(boxes) for boxes in BOXES])
    less = attention * torch.tensor([0.3, 0.9])[:, None, None]
    assert losses.alignment(less, box_regions).item() == pytest.approx(losses.alignment(attention, box_regions).item())


def test_a_step_down_the_alignment_loss_moves_attention_into_the_boxes():
    logits = torch.zeros(1, 16, requires_grad=True)
    box_regions = regions([make_example([[110.0, 0.0, 110.0, 300.0]])])

    def compute_loss() -> torch.Tensor:
        return losses.alignment(logits.softmax(dim=-1).reshape(1, 4, 4), box_regions)

    before = compute_loss()
    (gradient,) = torch.autograd.grad(before, logits)
    with torch.no_grad():
        logits -= 5 * gradient
    assert -1 < compute_loss().item() < before.item() < 0
    right_half, left_half = logits.detach().reshape(4, 4)[:, 2:], logits.detach().reshape(4, 4)[:, :2]
    assert right_half.min() > left_half.max()


@pytest.mark.parametrize("no_attn", [False, True])
def test_attention_is_the_mean_over_words_of_each_sentence_on_its_image(tmp_path, no_attn):
    import transformers

    torch.manual_seed(0)
    model = GloriaModel((1, 1, 1, 1), 4, tiny_gloria.bert_config(), no_attn).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(tiny_gloria.save_tokenizer(tmp_path))
    tokens, images = tokenize(tokenizer, tiny_gloria.SENTENCES), torch.randn(2, 3, 32, 32)
    with torch.no_grad():
        attention = losses.attention(model, images, tokens, [1, 0, 1])
        for number, image in enumerate([1, 0, 1]):
            sentence_tokens = tokenize(tokenizer, [tiny_gloria.SENTENCES[number]])
            expected = model(images[image : image + 1], sentence_tokens).attention[0].mean(dim=0)
            n_regions = attention[number].numel()
            assert len(expected) == n_regions + no_attn
            torch.testing.assert_close(attention[number].flatten(), expected[:n_regions], rtol=1e-3, atol=1e-5)
