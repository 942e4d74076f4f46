"""Rollout against finite differences by attention entries and an explicit loop over full matrices in numpy."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from medfaith.loaders.errors import MedfaithError
from medfaith.tasks.explain.rollout import compute_class_row, relevance, weigh

N_TOKENS, WIDTH, N_HEADS, N_LAYERS, N_SCORES, N_IMAGES = 5, 6, 2, 2, 3, 2


class Attends(torch.nn.Module):
    """Two layers of attention, each with its own projections, and a linear score read from the [CLS] token."""

    def __init__(self):
        super().__init__()
        generator = torch.Generator().manual_seed(3)

        def draw_weights(*shape):
            return torch.randn(*shape, generator=generator, dtype=torch.float64) / WIDTH**0.5

        self.query, self.key = (draw_weights(N_LAYERS, N_HEADS, WIDTH, WIDTH) * 2 for _ in range(2))
        self.value, self.head = draw_weights(N_LAYERS, N_HEADS, WIDTH, WIDTH), draw_weights(WIDTH, N_SCORES)

    def forward(self, tokens, moved=(), last_moved=-1):
        """Compute scores and attentions; up to the layer `last_moved`, attentions come from `moved`."""
        attentions = []
        for layer in range(N_LAYERS):
            states = tokens[:, None]
            products = (states @ self.query[layer]) @ (states @ self.key[layer]).transpose(-1, -2)
            attentions.append(moved[layer] if layer <= last_moved else (products / WIDTH**0.5).softmax(dim=-1))
            tokens = (tokens + (attentions[-1] @ (states @ self.value[layer])).sum(dim=1)).tanh()
        return tokens[:, 0] @ self.head, attentions


def compute_numpy_rollout(weighted, order):
    """Compute R(0) with the full matrices (layer, N, N), layer by layer as in the two papers."""
    matrix = np.eye(weighted.shape[-1])
    layers = range(len(weighted) - 1, -1, -1) if order == "printed" else range(len(weighted))
    for layer in layers:
        matrix = matrix + weighted[layer] @ matrix
    return matrix


@cache
def compute_weighted(image, score):
    """Compute each layer's cut and averaged products of gradient and attention (layer, N, N), by finite differences."""
    model, tokens, step = Attends(), draw_tokens(), 1e-6
    plain = [attention.detach() for attention in model(tokens)[1]]
    weighted = np.zeros((N_LAYERS, N_TOKENS, N_TOKENS))
    for layer in range(N_LAYERS):
        for head, row, column in np.ndindex(N_HEADS, N_TOKENS, N_TOKENS):
            ends = []
            for sign in (1, -1):
                moved = [attention.clone() for attention in plain]
                moved[layer][image, head, row, column] += sign * step
                # Deeper attentions follow from the moved one, like in the graph.
                ends.append(model(tokens, moved, last_moved=layer)[0][image, score])
            slope = float(ends[0] - ends[1]) / (2 * step)
            product = slope * float(plain[layer][image, head, row, column])
            weighted[layer, row, column] += max(product, 0) / N_HEADS
    return weighted


def draw_tokens():
    generator = torch.Generator().manual_seed(5)
    return torch.randn(N_IMAGES, N_TOKENS, WIDTH, generator=generator, dtype=torch.float64)


@pytest.mark.parametrize("last_only", [False, True])
@pytest.mark.parametrize("order", ["printed", pytest.param("forward", marks=pytest.mark.full)])
def test_it_is_the_recursion_with_finite_differences(order, last_only):
    scores, attentions = Attends()(draw_tokens().requires_grad_())
    rollout = relevance(attentions, scores, order=order, last_only=last_only)
    assert rollout.shape == (N_IMAGES, N_SCORES, N_TOKENS - 1)
    assert not rollout.requires_grad
    for image in range(N_IMAGES):
        for score in range(N_SCORES):
            weighted = compute_weighted(image, score)
            used_layers = weighted[-1:] if last_only else weighted
            np.testing.assert_allclose(
                rollout[image, score], compute_numpy_rollout(used_layers, order)[0, 1:], atol=1e-8
            )
    assert (rollout > 0).any()


@given(st.integers(1, 5), st.integers(2, 7), st.integers(1, 3), st.sampled_from(["printed", "forward"]))
def test_one_row_is_the_row_of_the_whole_product(n_layers, n_tokens, n_images, order):
    weighted = np.random.default_rng(n_layers * 100 + n_tokens).random((n_layers, n_images, n_tokens, n_tokens))
    row = compute_class_row([torch.tensor(matrix) for matrix in weighted], order)
    for image in range(n_images):
        np.testing.assert_allclose(row[image], compute_numpy_rollout(weighted[:, image], order)[0])


def test_the_two_orders_differ_and_are_the_products_by_hand():
    first_layer, last_layer = torch.tensor([[[0.0, 1], [0, 0]]]), torch.tensor([[[0.0, 0], [0, 2]]])
    # printed: (I + first)(I + last) = [[1, 1], [0, 1]] [[1, 0], [0, 3]]: row (1, 3)
    assert compute_class_row([first_layer, last_layer], "printed").tolist() == [[1, 3]]
    # forward: (I + last)(I + first) = [[1, 0], [0, 3]] [[1, 1], [0, 1]]: row (1, 1)
    assert compute_class_row([first_layer, last_layer], "forward").tolist() == [[1, 1]]


def test_each_head_is_cut_before_the_mean():
    attention = torch.tensor([[[[1.0]], [[1.0]]]])
    assert weigh(attention, torch.tensor([[[[4.0]], [[-6.0]]]])).tolist() == [[[2.0]]]


def test_no_scores_and_images_by_themselves():
    model = Attends()
    tokens = torch.randn(3, N_TOKENS, WIDTH, dtype=torch.float64)
    scores, attentions = model(tokens.clone().requires_grad_())
    with torch.no_grad():  # a caller may have disabled gradients
        together = relevance(attentions, scores)
    assert relevance(attentions, scores[:, :0]).shape == (3, 0, N_TOKENS - 1)
    scores, attentions = model(tokens[1:2].clone().requires_grad_())
    torch.testing.assert_close(relevance(attentions, scores)[0], together[1])


@pytest.mark.parametrize(
    ("attentions", "message"),
    [(None, "attn_implementation='eager'"), ((), "eager"), ((None, None), "eager"), ("frozen", "requires_grad_")],
)
def test_a_model_that_cannot_be_rolled_out(attentions, message):
    scores, frozen = Attends()(torch.zeros(1, N_TOKENS, WIDTH, dtype=torch.float64))
    with pytest.raises(MedfaithError, match=message):
        relevance(frozen if attentions == "frozen" else attentions, scores)
