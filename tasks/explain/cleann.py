"""CLEANN: a causal graph, learned from attention, of the earlier tokens that a generated token depends on.

SurgXBench, appendix A.3.1 and C.1, after Rohekar et al. (CLEANN) and Stan et al. (LVLM-Interpret). One head's attention
is interpreted as the outcome of a linear-Gaussian structural model, whose row i describes the composition of token i.
Tokens are correlated like their rows of attention (A A^T, scaled to a unit diagonal), and partial correlations test
whether two tokens are independent given others. Where the paper is silent, the code follows LVLM-Interpret:

- The row of a generated token is the row that predicted it, one position earlier.
- A graph has the tokens to which this row attends by more than kappa: at most the 50 strongest image tokens, and text
tokens after the image, from the question and the generated answer. Tokens before the image (the system prompt, the
attention sink at the first token) are excluded.
- A decoder's token cannot act on an earlier one, so edges start with an arrowhead at their later token.

The paper does not bound the conditioning sets. Here they have at most `max_condition` tokens (causal_structure.py),
because the number of tests grows with the power of this bound.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...loaders.errors import InputError
from .causal_structure import BACKEND, Edge, PartialCorrelation, distances, learn_edges, require_causal_learn
from .token_cam import get_layer

if TYPE_CHECKING:
    import torch


class Settings(NamedTuple):
    """The parameters of appendix C.1, and parameters that it does not name.

    Attributes:
        kappa: Attention above which a token is relevant.
        max_image_tokens: Maximum number of relevant image tokens.
        n_heads: Number of the most important heads, which get a graph each.
        n_samples: Sample size of the independence tests; 128 is the size of a head of LLaMA-7B.
        alpha: Significance level of the independence tests.
        radius: Maximum distance in edges of tokens that explain the target.
        max_condition: Maximum size of conditioning sets.
        layer: Index of the layer, as in a Python list.
    """

    kappa: float = 0.01
    max_image_tokens: int = 50
    n_heads: int = 5
    n_samples: int = 128
    alpha: float = 1e-5
    radius: int = 3
    max_condition: int = 3
    layer: int = -1


def compute_head_importance(attention: np.ndarray, target: int, image: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
    """Compute the target's highest attention to an image token and to a text token after the image, for each head.

    Args:
        attention: Shape (heads, n, n), each row's attention to the tokens up to it.
        target: Index of the row.
        image: Positions of the image's tokens, ascending.

    Returns:
        Both of shape (heads,); their ratio is the importance of appendix C.1.
    """
    rows = np.asarray(attention, np.float64)[:, target]
    text = _list_text_positions(image, target)
    return rows[:, list(image)].max(axis=1), rows[:, text].max(axis=1)


def select_relevant_tokens(
    row: np.ndarray, target: int, image: Sequence[int], kappa: float = 0.01, max_image_tokens: int = 50
) -> list[int]:
    """Select the tokens that the target's row relies on, and the target itself.

    Args:
        row: The target's attention (n,).
        target: Position of the target.
        image: Positions of the image's tokens, ascending.
        kappa: Attention above which a token is relevant.
        max_image_tokens: Maximum number of image tokens.

    Returns:
        Positions, ascending.
    """
    attended_positions = [position for position in image if row[position] > kappa]
    strongest = sorted(attended_positions, key=lambda position: (-row[position], position))[:max_image_tokens]
    return sorted({*strongest, *(p for p in _list_text_positions(image, target) if row[p] > kappa), target})


def compute_row_correlation(attention: np.ndarray, positions: Sequence[int]) -> np.ndarray:
    """Compute the correlation of tokens by their attention: A A^T with a unit diagonal, not centred, as in CLEANN.

    Args:
        attention: One head's attention (n, n). Rows keep all columns: influence of other tokens is a common cause.
        positions: Positions of k tokens.

    Returns:
        Shape (k, k).
    """
    rows = np.asarray(attention, np.float64)[list(positions)]
    rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return (rows @ rows.T).clip(-1, 1)


def causal_graphs(
    attention: np.ndarray,
    target: int,
    tokens: Sequence[str],
    image: Sequence[int],
    grid: tuple[int, int],
    *,
    settings: Settings | None = None,
    target_text: str | None = None,
) -> list[dict[str, Any]]:
    """Compute the causal graphs of one generated token, one per head, the most important head first.

    Args:
        attention: One layer's attention (heads, n, n).
        target: The row that predicted the token.
        tokens: Text of each of the n tokens.
        image: Positions of the image's tokens, ascending, before the target, in reading order of the grid.
        grid: (rows, columns) of the image's tokens.
        settings: Parameters; by default the paper's.
        target_text: Text of the predicted token.

    Returns:
        JSON-serialisable dicts: `head`, `importance` (None without attention to text), `image_attention`,
        `text_attention`, `backend`, `settings`, `grid`, `target` {position, text}; `nodes`, one dict per token with
        `position`, `kind` (image or text), `text` or `patch` [row, column], `attention`, and `distance`, the number of
        edges from the target (None if unconnected); and `edges` as `Edge`.

    Raises:
        InputError: The attention is not finite or has a wrong shape, or the target or image tokens are out of range.
        MedfaithError: causal-learn is not installed.
    """
    settings = settings or Settings()
    attention = np.asarray(attention, np.float64)
    _check(attention, target, tokens, image, grid, settings)
    require_causal_learn()
    to_image, to_text = compute_head_importance(attention, target, image)
    ratio = np.divide(to_image, to_text, out=np.full(len(to_text), np.inf), where=to_text > 0)
    best = np.argsort(-ratio, kind="stable")[: settings.n_heads]
    patches = {position: divmod(number, grid[1]) for number, position in enumerate(image)}
    graphs = []
    for head in best:
        row = attention[head, target]
        positions = select_relevant_tokens(row, target, image, settings.kappa, settings.max_image_tokens)
        test = PartialCorrelation(
            compute_row_correlation(attention[head], positions), settings.n_samples, settings.alpha
        )
        edges = [
            Edge(positions[e.source], positions[e.target], e.source_mark, e.target_mark)
            for e in learn_edges(test, settings.max_condition)
        ]
        distance = distances(edges, target)
        nodes = [
            {
                "position": position,
                "kind": "image" if position in patches else "text",
                **({"patch": list(patches[position])} if position in patches else {"text": tokens[position]}),
                "attention": float(row[position]),
                "distance": distance.get(position),
            }
            for position in positions
        ]
        graphs.append(
            {
                "head": int(head),
                "importance": float(ratio[head]) if np.isfinite(ratio[head]) else None,
                "image_attention": float(to_image[head]),
                "text_attention": float(to_text[head]),
                "backend": BACKEND,
                "settings": settings._asdict(),
                "grid": list(grid),
                "target": {"position": target, "text": target_text},
                "nodes": nodes,
                "edges": [edge._asdict() for edge in edges],
            }
        )
    return graphs


def compute_layer_attention(model: Any, inputs: Mapping[str, torch.Tensor], layer: int = -1) -> np.ndarray:
    """Compute one decoder layer's attention in a forward pass over one text.

    Only the language model uses `eager` attention, which returns weights, and only during this call.

    Args:
        model: The model.
        inputs: Inputs of the model.
        layer: Index of the layer, as in a Python list.

    Returns:
        float32 (heads, n, n).
    """
    import torch

    outputs: list[torch.Tensor] = []
    decoder = model.get_decoder()
    attn_implementation = decoder.config._attn_implementation
    handle = get_layer(model, layer).self_attn.register_forward_hook(  # pyrefly: ignore[missing-attribute] (a module)
        lambda _module, _inputs, output: outputs.append(output[1][0])
    )
    try:
        decoder.set_attn_implementation("eager")
        with torch.no_grad():
            model(**inputs, use_cache=False)
    finally:
        handle.remove()
        decoder.set_attn_implementation(attn_implementation)
    return outputs[0].float().cpu().numpy()


def select_neighbourhood(graph: dict[str, Any], radius: int | None = None) -> dict[str, Any]:
    """Select the part of a graph within some edges of its target: the explanation.

    Args:
        graph: The graph.
        radius: Maximum number of edges; by default the radius of the graph's settings.

    Returns:
        A copy of the graph with the nodes within the radius and the edges between them.
    """
    radius = graph["settings"]["radius"] if radius is None else radius
    nodes = [node for node in graph["nodes"] if node["distance"] is not None and node["distance"] <= radius]
    near = {node["position"] for node in nodes}
    edges = [edge for edge in graph["edges"] if edge["source"] in near and edge["target"] in near]
    return {**graph, "nodes": nodes, "edges": edges}


def _list_text_positions(image: Sequence[int], target: int) -> list[int]:
    return list(range(image[-1] + 1, target + 1))


def _check(
    attention: np.ndarray,
    target: int,
    tokens: Sequence[str],
    image: Sequence[int],
    grid: tuple[int, int],
    settings: Settings,
) -> None:
    n = attention.shape[-1]
    if attention.ndim != 3 or attention.shape[1] != n or len(tokens) != n or not attention.shape[0]:
        problem = f"shape {attention.shape} for {len(tokens)} tokens"
        raise InputError("attention", problem, expected="(heads, n, n) for n tokens")
    if not np.isfinite(attention).all():
        raise InputError("attention", "has NaN or infinity")
    if not (len(image) and image[0] >= 0 and list(image) == sorted(set(image)) and image[-1] < target < n):
        problem = f"image tokens {list(image)[:3]}..., target {target}, {n} tokens"
        raise InputError("attention", problem, expected="image tokens in ascending order, then the target")
    if grid[0] * grid[1] != len(image):
        raise InputError("attention", f"{len(image)} image tokens for a grid of {grid[0]} x {grid[1]}")
    if settings.n_samples < settings.max_condition + 4 or settings.max_condition < 0:
        problem = f"max_condition={settings.max_condition} with n_samples={settings.n_samples}"
        raise InputError("causal graph", problem, expected="max_condition of at least 0 and n_samples at least 4 more")
