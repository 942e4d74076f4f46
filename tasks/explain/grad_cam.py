"""Grad-CAM of a convolutional layer (SurgXBench, appendix A.1; Selvaraju et al., 2017), before upsampling."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch


def grad_cam(activations: torch.Tensor, gradients: torch.Tensor) -> torch.Tensor:
    """Compute ReLU(sum_k alpha_k A_k), where alpha_k is the mean gradient over channel k (equation 6, not upsampled).

    Args:
        activations: The layer's output (n, K, h, w).
        gradients: Gradient of a score at the layer's output (n, K, h, w).

    Returns:
        (n, h, w), at least 0.
    """
    weights = gradients.mean(dim=(2, 3), keepdim=True)
    return (weights * activations).sum(dim=1).relu()


def compute_layer_grids(layer: torch.nn.Module, scores: Callable[[], torch.Tensor]) -> torch.Tensor:
    """Compute Grad-CAM of one layer for several scores per image, with one forward pass.

    The autograd graph starts at the layer's output, so earlier layers need no gradients and weights may be frozen.
    Images must not influence one another (a model in eval mode).

    Args:
        layer: Layer that returns one tensor (n, K, h, w) and is called once.
        scores: Function that runs the model through the layer and returns (n, k): k scores for each image.

    Returns:
        (n, k, h, w).
    """
    import torch

    outputs: list[torch.Tensor] = []

    def start_here(_module: Any, _inputs: Any, output: torch.Tensor) -> torch.Tensor:
        outputs.append(output.detach().requires_grad_())
        # A copy, so that a following in-place ReLU does not change the explained activations.
        return outputs[-1].clone()

    handle = layer.register_forward_hook(start_here)
    try:
        with torch.enable_grad():
            values = (
                scores().sum(dim=0).unbind()
            )  # images are independent: the sum's gradient has each image's gradient
    finally:
        handle.remove()
    (activations,) = outputs
    grids = []
    for value in values:
        (gradients,) = torch.autograd.grad(value, activations, retain_graph=True)
        grids.append(grad_cam(activations.detach(), gradients))
    empty = activations.new_zeros(len(activations), 0, *activations.shape[2:])
    return torch.stack(grids, dim=1) if grids else empty
