"""Grad-CAM for the tokens that a large vision-language model generates (SurgXBench, appendix A.3).

The answer is teacher-forced: prompt and answer go through the model once, and the score z_j of answer token j, read at
the position before it, is differentiated with respect to the hidden states A of the image's tokens.

The paper takes A "from the last layer of the language model's decoder". The last layer's *output* cannot be meant: what
one position hands on after it reaches that position's own logits only, so that the gradient of a later token's logit at
an image token is exactly zero (tests/explain/test_token_cam.py shows it). What the last layer reads at the image's
tokens, its *input*, is the last place from which they still act on the answer, through its attention. `layer=-1`, the
default, is therefore the input of the last decoder layer; `layer=-2` the input of the one before, and so on.

The paper's models have the image's tokens among the text's. Where layers of cross-attention read the image instead
(Llama 3.2 Vision), A is what they read, the projected states of the vision encoder: `layer=-1` is the last of these
layers, `layer=-2` the one before. All of them read the same states; what is differentiated is the one layer's reading.
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
    """The decoder layers of a transformers image-text-to-text model's language model, the first one first.

    Raises:
        MedfaithError: the model has none where transformers puts them.
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
    """The decoder layers that read the image: all of them, or those of cross-attention where a model has such."""
    layers = get_decoder_layers(model)
    crossing = getattr(model.config.get_text_config(), "cross_attention_layers", None)
    return layers if crossing is None else [layers[number] for number in crossing]


def get_layer(model: Any, layer: int) -> torch.nn.Module:
    """Number `layer` of the layers that read the image, counted as Python counts: -1 is the last one."""
    layers = get_reading_layers(model)
    if not -len(layers) <= layer < len(layers):
        expected = f"-{len(layers)} to {len(layers) - 1}"
        kind = "decoder" if layers is get_decoder_layers(model) else "cross-attention"
        raise InputError("layer", f"{layer} of a model with {len(layers)} {kind} layers", expected=expected)
    return layers[layer]


def grad_cam(activations: np.ndarray, gradients: np.ndarray) -> np.ndarray:
    """Grad-CAM over tokens: ReLU of the activations weighted by each channel's mean gradient.

    Args:
        activations, gradients: shape (n, channels), of the n tokens of the image.

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
    """One Grad-CAM map for each token of interest of a teacher-forced answer.

    Only the layers from `layer` on are differentiated, and no gradient of a weight is computed.

    Args:
        model: a transformers image-text-to-text model in evaluation mode.
        inputs: prompt *and* answer as the model's forward takes them; `input_ids` has shape (1, n).
        answer: positions in `input_ids` of the answer's tokens to explain, each at least 1.
        visual: where the image's tokens stand in `input_ids`, shape (n_visual,); by cross-attention, where its states
            stand among all that the layers read, tile by tile.
        layer: the decoder layer at whose input the image's tokens are looked at, of `get_reading_layers`.
        target: `logit`, z_j as published, or `logprob`, log softmax(z)_j, which a rival token's gain lowers too.

    Returns:
        float32, shape (len(answer), n_visual), not negative, in the unit of the score; explain.tiles brings them to
        their places.

    Raises:
        InputError: an unknown target or layer, or a position outside the text.
    """
    import torch

    if target not in TARGETS:
        raise InputError("target", repr(target), expected=" or ".join(TARGETS))
    ids = inputs["input_ids"]
    outside = [position for position in answer if not 1 <= position < ids.shape[1]]
    if ids.shape[0] != 1 or outside:
        raise InputError(
            "answer tokens", f"positions {outside} of a text of shape {tuple(ids.shape)}", expected="(1, n)"
        )
    takes_kept_logits = "logits_to_keep" in inspect.signature(model.forward).parameters
    earliest = min(answer, default=1) - 1 if takes_kept_logits else 0  # the first position whose logits are needed
    kept = {"logits_to_keep": ids.shape[1] - earliest} if takes_kept_logits else {}
    with torch.no_grad(), _read_from(model, layer) as captured:
        logits = model(**inputs, **kept, use_cache=False).logits[0]
        (leaf,) = captured
        activations = _of_tokens(leaf, visual)
        maps = np.zeros((len(answer), len(visual)), dtype=np.float32)
        for number, position in enumerate(answer):
            with torch.enable_grad():
                scores = logits[position - 1 - earliest].float()
                scores = scores if target == "logit" else scores.log_softmax(-1)
                score = scores[ids[0, position]]
            keep = number + 1 < len(answer)
            (gradient,) = torch.autograd.grad(score, leaf, retain_graph=keep)
            maps[number] = grad_cam(activations, _of_tokens(gradient, visual))
    return maps


@contextmanager
def _read_from(model: Any, layer: int):
    """While it is open, what `layer` reads of the image is a leaf that carries gradients, in the list that it yields.

    Gradients are switched on from there to the end of the forward pass, so that the graph holds no earlier layer.
    """
    import torch

    captured: list[torch.Tensor] = []
    crosses = get_reading_layers(model) is not get_decoder_layers(model)
    name = "cross_attention_states" if crosses else "hidden_states"

    def read(_module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        by_place = bool(args) and not crosses  # hidden states may be the first argument
        torch.set_grad_enabled(True)  # the caller's torch.no_grad() puts it back
        leaf = (args[0] if by_place else kwargs[name]).detach().requires_grad_(True)
        captured.append(leaf)
        return ((leaf, *args[1:]), kwargs) if by_place else (args, {**kwargs, name: leaf})

    handle = get_layer(model, layer).register_forward_pre_hook(read, with_kwargs=True)
    try:
        yield captured
    finally:
        handle.remove()


def _of_tokens(states: torch.Tensor, visual: np.ndarray) -> np.ndarray:
    """Those of the image, (n_visual, channels)."""
    import torch

    return _array(states.flatten(0, -2)[torch.as_tensor(visual, device=states.device)])


def _array(tensor: torch.Tensor) -> np.ndarray:
    tensor = tensor.detach()
    return (tensor if tensor.dtype.itemsize >= 4 else tensor.float()).cpu().numpy()  # numpy has no bfloat16
