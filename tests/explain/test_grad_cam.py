"""Grad-CAM against captum and against the formula by hand."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from captum.attr import LayerGradCam
from torch import nn

from medfaith.tasks.explain.grad_cam import compute_layer_grids, grad_cam


def make_two_layers(inplace=False):
    """Make a convolution to explain, and a non-linear head of two scores."""
    torch.manual_seed(0)
    layer = nn.Conv2d(2, 3, 3, padding=1)
    head = nn.Sequential(nn.ReLU(inplace=inplace), nn.Conv2d(3, 4, 2), nn.Tanh(), nn.Flatten(), nn.Linear(4 * 3 * 4, 2))
    return layer.double(), head.double()


IMAGES = torch.randn(3, 2, 4, 5, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


@pytest.mark.parametrize("inplace", [False, True])
@pytest.mark.parametrize("frozen", [False, True])
def test_it_is_captums(inplace, frozen):
    layer, head = make_two_layers(inplace)
    grids = compute_layer_grids(
        layer.requires_grad_(not frozen), lambda: head.requires_grad_(not frozen)(layer(IMAGES))
    )
    assert grids.shape == (3, 2, 4, 5)
    assert not grids.requires_grad
    assert (grids == 0).any()  # some of it is cut by the ReLU
    assert (grids > 0).any()
    layer, head = make_two_layers()
    model = nn.Sequential(layer, head)
    for score in range(2):
        expected: Any = LayerGradCam(model, layer).attribute(IMAGES, target=score, relu_attributions=True)
        torch.testing.assert_close(grids[:, score], expected[:, 0].detach())


def test_it_works_where_gradients_are_off_and_leaves_no_hook():
    layer, head = make_two_layers()
    with torch.no_grad():
        grids = compute_layer_grids(layer, lambda: head(layer(IMAGES)))
        separate = compute_layer_grids(layer, lambda: head(layer(IMAGES[1:2])))
    torch.testing.assert_close(separate[0], grids[1])  # images do not influence one another
    assert not layer._forward_hooks
    assert compute_layer_grids(layer, lambda: head(layer(IMAGES))[:, :0]).shape == (3, 0, 4, 5)


def test_a_failing_model_leaves_no_hook():
    layer, _ = make_two_layers()

    def raise_out_of_memory():
        layer(IMAGES)
        raise RuntimeError("out of memory")

    with pytest.raises(RuntimeError, match="out of memory"):
        compute_layer_grids(layer, raise_out_of_memory)
    assert not layer._forward_hooks


@pytest.mark.parametrize(
    ("activations", "gradients", "expected"),
    [
        ([[[[1, 2], [3, 4]]]], [[[[4, 0], [0, 0]]]], [[[1, 2], [3, 4]]]),  # alpha = 1
        ([[[[1, 2], [3, 4]]]], [[[[-1, -1], [-1, -1]]]], [[[0, 0], [0, 0]]]),  # all negative
        ([[[[1, 0]], [[0, 2]]]], [[[[2, 0]], [[-1, 5]]]], [[[1, 4]]]),  # 1 * (1, 0) + 2 * (0, 2)
    ],
)
def test_the_formula_by_hand(activations, gradients, expected):
    grids = grad_cam(torch.tensor(activations, dtype=torch.float32), torch.tensor(gradients, dtype=torch.float32))
    assert grids.tolist() == expected
