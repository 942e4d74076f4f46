"""Relevancy of text tokens and image tokens for a generated token (HEAL-MedVQA, Figure 1b).

The paper says that models give text tokens "higher relevancy score than any image tokens", and prints no formula. Here
relevancy is the gradient-weighted attention rollout of Chefer et al. (rollout.py, `order="forward"`) over the layers of
the language model: the row of the position that predicts the token, over all earlier tokens. The row starts with a 1
at that position, which no layer has given; it is subtracted.

The layers are run a second time, from the last to the first, one at a time: the gradients of one layer's attention and
of its input are all that the next one needs. So only one layer's attention is in memory, as in the plain model.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...loaders.errors import MedfaithError
from .rollout import multiply_row, weigh
from .token_cam import get_decoder_layers

if TYPE_CHECKING:
    import torch

_NUMBERS = ("image", "text", "image_peak", "text_peak")


class Relevancy(NamedTuple):
    """The relevancy of the tokens that an answer depends on, as shares of the relevancy of all of them.

    Attributes:
        image: Share of all image tokens together.
        text: Share of all other tokens together: 1 - image.
        image_peak: The largest share of a single image token.
        text_peak: The largest share of a single other token.
        tokens: The other tokens in their order, each with its share; None if they may not be written (sentences of
            reports).
    """

    image: float
    text: float
    image_peak: float
    text_peak: float
    tokens: Sequence[tuple[str, float]] | None = None

    def as_json(self) -> dict[str, Any]:
        """Build the entry for replies and the store: the numbers, and `tokens` only if there are any."""
        numbers = {name: getattr(self, name) for name in _NUMBERS}
        return numbers if self.tokens is None else {**numbers, "tokens": [list(token) for token in self.tokens]}


def summarise_relevancy(
    row: np.ndarray, visual: Sequence[int] | np.ndarray, texts: Sequence[str] | None
) -> Relevancy | None:
    """Summarise the relevancy of all tokens before an answer.

    Args:
        row: Relevancy of each token (n,), at least 0.
        visual: Positions of the image's tokens.
        texts: Text of each of the n tokens; None to leave them out.

    Returns:
        The summary; None if no token is relevant, or if gradients of low precision were not finite.
    """
    total = float(row.sum())
    if not 0 < total < float("inf"):
        return None
    shares = row / total
    is_image = np.zeros(len(row), dtype=bool)
    is_image[np.asarray(visual)] = True
    image, text = shares[is_image], shares[~is_image]
    tokens = None
    if texts is not None:
        tokens = [(texts[n], float(shares[n])) for n in np.flatnonzero(~is_image).tolist()]
    return Relevancy(
        float(image.sum()), float(text.sum()), float(image.max(initial=0)), float(text.max(initial=0)), tokens
    )


def parse_relevancy(entry: Any) -> Relevancy | None:
    """Parse the entry of a reply.

    Args:
        entry: The entry as `Relevancy.as_json` builds it; None without one.

    Returns:
        The relevancy; None without an entry.

    Raises:
        ValueError: The entry has another form.
    """
    if entry is None:
        return None
    tokens = entry.get("tokens") if isinstance(entry, Mapping) else ()
    is_valid = isinstance(entry, Mapping) and all(_is_share(entry.get(name)) for name in _NUMBERS)
    if is_valid and tokens is not None:
        is_valid = isinstance(tokens, list) and all(
            isinstance(token, list) and len(token) == 2 and isinstance(token[0], str) and _is_share(token[1])
            for token in tokens
        )
    if not is_valid:
        raise ValueError(f"{str(entry)[:100]!r} is no relevancy: expected {', '.join(_NUMBERS)} from 0 to 1")
    return Relevancy(
        *(float(entry[name]) for name in _NUMBERS),
        tokens=None if tokens is None else [(text, float(share)) for text, share in tokens],
    )


def _is_share(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and -1e-6 <= value <= 1 + 1e-6


def compute_token_relevancy(model: Any, inputs: Mapping[str, torch.Tensor], answer: Sequence[int]) -> np.ndarray:
    """Compute the relevancy of all tokens for each selected token of a teacher-forced answer.

    Only the language model uses `eager` attention, which returns weights, and only during this call.

    Args:
        model: A transformers image-text-to-text model in evaluation mode, whose image tokens are among the text's.
        inputs: Prompt and answer as the model's forward takes them; `input_ids` has shape (1, n).
        answer: Positions in `input_ids` of the answer tokens, each at least 1.

    Returns:
        float64, shape (len(answer), n), at least 0; the score is the logit of the token.

    Raises:
        MedfaithError: The attention of a layer cannot be read.
    """
    import torch

    layers, ids = get_decoder_layers(model), inputs["input_ids"]
    with _use_eager_attention(model):
        with torch.no_grad(), _record_calls(layers) as (calls, outputs):
            logits = model(**inputs, use_cache=False).logits[0]
        (output,) = outputs
        with torch.enable_grad():
            scores = [logits[position - 1, ids[0, position]] for position in answer]
        gradients = [torch.autograd.grad(score, output, retain_graph=True)[0] for score in scores]
        rows = [torch.eye(ids.shape[1])[position - 1 : position] for position in answer]
        # One layer's graph is freed when the next one replaces its variables.
        for layer, (args, kwargs) in zip(reversed(layers), reversed(calls), strict=True):
            hidden, attention, output = _run_layer(layer, args, kwargs)
            for n, gradient in enumerate(gradients):
                gradients[n], slope = torch.autograd.grad(output, (hidden, attention), gradient, retain_graph=True)
                matrix = weigh(_raise_precision(attention.detach()), _raise_precision(slope))
                rows[n] = multiply_row(rows[n].to(matrix), matrix)
    relevancy = np.stack([row[0].cpu().double().numpy() for row in rows]) if rows else np.zeros((0, ids.shape[1]))
    relevancy[range(len(rows)), [position - 1 for position in answer]] -= 1
    return relevancy.clip(0)


@contextmanager
def _use_eager_attention(model: Any) -> Iterator[None]:
    decoder = model.get_decoder()
    attn_implementation = decoder.config._attn_implementation
    try:
        decoder.set_attn_implementation("eager")
        yield
    finally:
        decoder.set_attn_implementation(attn_implementation)


@contextmanager
def _record_calls(layers: Sequence[torch.nn.Module]) -> Iterator[tuple[list[Any], list[torch.Tensor]]]:
    """Record the arguments of each layer; replace the last layer's output by a leaf with gradients and record it.

    Gradients are enabled from there to the end of the forward pass.
    """
    import torch

    calls: list[Any] = []
    outputs: list[torch.Tensor] = []

    def record(_module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        calls.append((args, kwargs))

    def replace_output(_module: Any, _args: Any, output: Any) -> Any:
        torch.set_grad_enabled(True)  # the caller's torch.no_grad() resets it
        leaf = _get_hidden(output).detach().requires_grad_(True)
        outputs.append(leaf)
        return (leaf, *output[1:]) if isinstance(output, tuple) else leaf

    handles = [layer.register_forward_pre_hook(record, with_kwargs=True) for layer in layers]
    handles.append(layers[-1].register_forward_hook(replace_output))
    try:
        yield calls, outputs
    finally:
        for handle in handles:
            handle.remove()


def _run_layer(
    layer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Run a layer again; return its input, a leaf, its attention (1, heads, n, n) and its output, in one graph."""
    import torch

    attentions: list[Any] = []
    handle = layer.self_attn.register_forward_hook(lambda _module, _inputs, output: attentions.append(output[1]))
    hidden = (args[0] if args else kwargs["hidden_states"]).detach().requires_grad_(True)
    try:
        with torch.enable_grad():
            output = layer(hidden, *args[1:], **kwargs) if args else layer(**{**kwargs, "hidden_states": hidden})
    finally:
        handle.remove()
    if len(attentions) != 1 or attentions[0] is None:
        raise MedfaithError(
            f"{type(layer).__name__} returns no attention\n  what to do: leave relevancy out, or use another model"
        )
    return hidden, attentions[0], _get_hidden(output)


def _raise_precision(tensor: torch.Tensor) -> torch.Tensor:
    return tensor if tensor.dtype.itemsize >= 4 else tensor.float()


def _get_hidden(output: Any) -> torch.Tensor:
    return output[0] if isinstance(output, tuple) else output
