"""The formulas of the decoders, and the validation of their arguments."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import log_softmax

from medfaith.loaders.errors import InputError
from medfaith.tasks.decoding import highlight, logits, noise
from medfaith.tasks.decoding.decoders import choose
from medfaith.tasks.models.vlm.decoded_vlm import fit_bias


def test_a_weight_is_a_key_that_stands_there_more_often():
    """Each lit key and its value count exp(weight) = 3 times (equations 5 and 6)."""
    generator = torch.Generator().manual_seed(0)
    query, key, value = (torch.randn(2, 4, 5, 8, generator=generator) for _ in range(3))
    lit = torch.tensor([[0, 1, 0, 1, 0], [1, 0, 0, 0, 0]]).bool()
    with highlight.lit(highlight.VISION, highlight.Light(lit * np.log(3))):
        ours, _ = highlight._attend_vision(torch.nn.Identity(), query, key, value, None, is_causal=False)
    for row, lit_keys in enumerate(lit):
        often = torch.arange(5).repeat_interleave(1 + 2 * lit_keys.int())
        expected = torch.nn.functional.scaled_dot_product_attention(
            query[row], key[row, :, often], value[row, :, often]
        )
        torch.testing.assert_close(ours[row].transpose(0, 1), expected)


@given(st.lists(st.integers(-50, 50), min_size=1, max_size=30, unique=True), st.floats(0, 1))
def test_a_fitted_bias_gives_the_share_of_yes(margins: list[int], share: float):
    row_margins = np.array(margins, dtype=float)
    assert np.count_nonzero(row_margins + fit_bias(row_margins, share) > 0) == round(share * len(row_margins))


@given(st.lists(st.floats(-20, 20), min_size=2, max_size=9), st.floats(0.01, 1))
def test_the_cutoff_keeps_the_likely(values: list[float], beta: float):
    plain = torch.tensor([values], dtype=torch.float64)
    masked = logits.mask_implausible(-plain, plain, beta)
    p = plain.softmax(-1)
    clear = (p / p.max() - beta).abs() > 1e-9
    assert torch.equal(torch.isfinite(masked)[clear], (p >= beta * p.max())[clear])
    assert torch.equal(masked[torch.isfinite(masked)], -plain[torch.isfinite(masked)])


def test_a_sure_step_of_m3id_stays_as_it_is():
    with_image, without_image = torch.tensor([[5.0, 0.0], [0.1, 0.0]]), torch.zeros(2, 2)
    scores = logits.compute_mutual_information(with_image, without_image, 50, 0.02, 0.9)
    assert torch.equal(scores[0], with_image[0].log_softmax(-1))
    gamma = np.exp(-1)
    expected = log_softmax(with_image[1].numpy()) * (1 + (1 - gamma) / gamma) + np.log(2) * (1 - gamma) / gamma
    np.testing.assert_allclose(scores[1], expected, rtol=1e-6)


def test_noise_is_that_of_forward_diffusion_and_of_each_tile():
    signal_scale, noise_scale = noise.compute_noise_scales(500)
    assert signal_scale**2 + noise_scale**2 == pytest.approx(1)
    assert noise.compute_noise_scales(0) == pytest.approx((1, 0), abs=5e-3)
    assert noise.compute_noise_scales(999)[0] < 0.3
    tiles = [torch.full((3, 64, 64), level) for level in (0.5, -0.5, 0.0)]
    noisy_first, noisy_second, padding = noise.add_noise(tiles, 500, 0)
    assert not padding.any()
    for tile, noisy in ((tiles[0], noisy_first), (tiles[1], noisy_second)):
        residual = (noisy - signal_scale * tile) / noise_scale
        assert (float(residual.mean()), float(residual.std())) == pytest.approx((0, 1), abs=0.05)
    assert torch.equal(noise.add_noise(tiles[1:], 500, 0)[0], noisy_second), "whatever stands before it"
    assert not torch.equal(noise.add_noise(tiles, 500, 1)[0], noisy_first)
    twice = torch.rand(5, 3, 1, 49).expand(-1, -1, 2, -1).reshape(5, -1)  # Qwen-VL shows a picture as two frames
    frames = noise.add_noise([twice], 500, 0, frames=2)[0].reshape(5, 3, 2, 49)
    assert torch.equal(frames[:, :, 0], frames[:, :, 1])


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("vdc", {}, "decoding: is 'vdc'\n  expected: one of greedy, cutoff"),
        ("vcd", {"alpha": -1}, "alpha: is -1 for decoding=vcd\n  expected: a number, 0 or more"),
        ("vcd", {"alpha": "much"}, "alpha: is 'much'"),
        ("vcd", {"beta": 1.5}, "a number from 0 to 1"),
        ("vcd", {"noise_step": 1000}, "a whole number from 0 to 999"),
        ("vcd", {"noise_step": 0.5}, "a whole number from 0 to 999"),
        ("crg", {"alpha": float("inf")}, "a number, 0 or more"),
        ("icd", {"disturbance": " "}, "some words"),
        ("loba", {"alpha": 1}, "alpha: belongs to another decoder\n  expected: decoding=loba takes weight, gamma"),
        ("yes_bias", {}, "has neither bias nor yes_share"),
        ("yes_bias", {"bias": 1, "yes_share": 0.5}, "has both"),
    ],
)
def test_what_no_decoder_takes_is_refused(name: str, values: dict[str, Any], message: str):
    with pytest.raises(InputError, match=f"(?s){message}"):
        choose(name, values)
