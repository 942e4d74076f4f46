"""Grad-CAM for the tokens that a large vision-language model generates (SurgXBench, appendix A.3).

The answer is teacher-forced: prompt and answer pass through the model once. The score z_j of answer token j, read at
the position before it, is differentiated with respect to the hidden states A of the image's tokens.

The paper takes A "from the last layer of the language model's decoder". This cannot mean the last layer's *output*: a
position's output affects only its own logits, so the gradient of a later token's logit at an image token is exactly
zero (tests/explain/test_token_cam.py shows it). The last layer's *input* at the image's tokens is the last place from
which they affect the answer, through its attention. Therefore `layer=-1`, the default, is the input of the last decoder
layer, `layer=-2` the input of the layer before it, and so on.

The paper's models have the image's tokens among the text's. If cross-attention layers read the image instead (Llama 3.2
Vision), A is their input, the projected states of the vision encoder: `layer=-1` is the last of these layers,
`layer=-2` the one before it. All of them read the same states; the gradient passes through the chosen layer's reading
only.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from ...loaders.errors import InputError, MedfaithError

if TYPE_CHECKING:
    import torch

TARGETS = ("logit", "logprob")


def get_decoder_layers(model: Any) -> Sequence[torch.nn.Module]:
    """Get the decoder layers of a transformers image-text-to-text model's language model, from the first.

    Args:
        model: The model.

    Returns:
        The layers.

    Raises:
        MedfaithError: The model has no decoder layers in transformers' usual place.
    """
    decoder = model.get_decoder() if hasattr(model, "get_decoder") else None
    layers = getattr(decoder, "layers", None)
    if not layers:
        raise MedfaithError(
            f"{type(model).__name__} has no decoder layers where transformers puts them (get_decoder().layers)\n"
            "  what to do: explain a LLaVA-like model with a decoder-only language model, as LLaVA-1.5 or Qwen2.5-VL"
        )
    return layers


def get_reading_layers(model: Any) -> Sequence[torch.nn.Module]:
    """Get the decoder layers that read the image: all layers, or the cross-attention layers if the model has any.

    Args:
        model: The model.

    Returns:
        The layers, from the first.
    """
    layers = get_decoder_layers(model)
    crossing = getattr(model.config.get_text_config(), "cross_attention_layers", None)
    return layers if crossing is None else [layers[number] for number in crossing]


def get_layer(model: Any, layer: int) -> torch.nn.Module:
    """Get a layer of those that read the image.

    Args:
        model: The model.
        layer: Index of the layer, as in a Python list.

    Returns:
        The layer.

    Raises:
        InputError: The model has no such layer.
    """
    layers = get_reading_layers(model)
    if not -len(layers) <= layer < len(layers):
        expected = f"-{len(layers)} to {len(layers) - 1}"
        kind = "decoder" if layers is get_decoder_layers(model) else "cross-attention"
        raise InputError("layer", f"{layer} of a model with {len(layers)} {kind} layers", expected=expected)
    return layers[layer]


def grad_cam(activations: np.ndarray, gradients: np.ndarray) -> np.ndarray:
    """Compute Grad-CAM over tokens: ReLU of the activations weighted by each channel's mean gradient.

    Args:
        activations: Activations of the image's n tokens (n, channels).
        gradients: Gradients at the image's n tokens (n, channels).

    Returns:
        Shape (n,), not negative, in the unit of the score.
    """
    return np.maximum(activations @ gradients.mean(axis=0), 0)


def token_cam(
    model: Any,
    inputs: Mapping[str, torch.Tensor],
    answer: Sequence[int],
    visual: np.ndarray,
    *,
    layer: int = -1,
    target: str = "logit",
) -> np.ndarray:
    """Compute one Grad-CAM map for each selected token of a teacher-forced answer.

    Only the layers from `layer` on are differentiated, and no gradients of weights are computed.

    Args:
        model: A transformers image-text-to-text model in evaluation mode.
        inputs: Prompt *and* answer as the model's forward takes them; `input_ids` has shape (1, n).
        answer: Positions in `input_ids` of the answer tokens to explain, each at least 1.
        visual: Positions of the image's tokens in `input_ids`, shape (n_visual,); with cross-attention, positions of
            its states among all states that the layers read, tile by tile.
        layer: Index among `get_reading_layers` of the layer whose input is explained.
        target: `logit`, z_j as published, or `logprob`, log softmax(z)_j, which also decreases with a rival token's
            gain.

    Returns:
        float32, shape (len(answer), n_visual), not negative, in the unit of the score; explain.tiles maps them to their
        places.

    Raises:
        InputError: The target or layer is unknown, or a position is outside the text.
    """
    import torch

    if target not in TARGETS:
        raise InputError("target", repr(target), expected=" or ".join(TARGETS))
    ids = inputs["input_ids"]
    invalid_positions = [position for position in answer if not 1 <= position < ids.shape[1]]
    if ids.shape[0] != 1 or invalid_positions:
        raise InputError(
            "answer tokens", f"positions {invalid_positions} of a text of shape {tuple(ids.shape)}", expected="(1, n)"
        )
    takes_kept_logits = "logits_to_keep" in inspect.signature(model.forward).parameters
    earliest = min(answer, default=1) - 1 if takes_kept_logits else 0  # the first position whose logits are needed
    options = {"logits_to_keep": ids.shape[1] - earliest} if takes_kept_logits else {}
    with torch.no_grad(), _capture_input(model, layer) as captured:
        logits = model(**inputs, **options, use_cache=False).logits[0]
        (leaf,) = captured
        activations = _select_tokens(leaf, visual)
        maps = np.zeros((len(answer), len(visual)), dtype=np.float32)
        for number, position in enumerate(answer):
            with torch.enable_grad():
                scores = logits[position - 1 - earliest].float()
                scores = scores if target == "logit" else scores.log_softmax(-1)
                score = scores[ids[0, position]]
            has_next = number + 1 < len(answer)
            (gradient,) = torch.autograd.grad(score, leaf, retain_graph=has_next)
            maps[number] = grad_cam(activations, _select_tokens(gradient, visual))
    return maps


@contextmanager
def _capture_input(model: Any, layer: int):
    """Replace the image states that `layer` reads by a leaf with gradients, and yield the list that will hold it.

    Gradients are enabled from there to the end of the forward pass, so the graph contains no earlier layer.
    """
    import torch

    captured: list[torch.Tensor] = []
    has_cross_attention = get_reading_layers(model) is not get_decoder_layers(model)
    name = "cross_attention_states" if has_cross_attention else "hidden_states"

    def replace_input(
        _module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        by_place = bool(args) and not has_cross_attention  # hidden states may be a positional argument
        torch.set_grad_enabled(True)  # the caller's torch.no_grad() resets it
        leaf = (args[0] if by_place else kwargs[name]).detach().requires_grad_(True)
        captured.append(leaf)
        return ((leaf, *args[1:]), kwargs) if by_place else (args, {**kwargs, name: leaf})

    handle = get_layer(model, layer).register_forward_pre_hook(replace_input, with_kwargs=True)
    try:
        yield captured
    finally:
        handle.remove()


def _select_tokens(states: torch.Tensor, visual: np.ndarray) -> np.ndarray:
    """Select the states of the image, (n_visual, channels)."""
    import torch

    return _convert_to_array(states.flatten(0, -2)[torch.as_tensor(visual, device=states.device)])


def _convert_to_array(tensor: torch.Tensor) -> np.ndarray:
    tensor = tensor.detach()
    return (tensor if tensor.dtype.itemsize >= 4 else tensor.float()).cpu().numpy()  # numpy has no bfloat16
