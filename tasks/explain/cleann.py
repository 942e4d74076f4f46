"""CLEANN: which earlier tokens a generated token depends on, as a causal graph over tokens learned from attention.

SurgXBench, appendix A.3.1 and C.1, after Rohekar et al. (CLEANN) and Stan et al. (LVLM-Interpret). The attention of one
head is read as the outcome of a linear-Gaussian structural model, row i being what token i is made of: tokens are
correlated as far as their rows of attention are (A A^T, scaled to a unit diagonal), and partial correlations test
whether two tokens are independent given others. What the paper leaves open is decided as LVLM-Interpret does it:

- The row of a generated token is the one that it was predicted from, one position before it.
- A graph has the tokens that this row attends to by more than kappa: of the image's at most the 50 strongest, and of
  the text those after the image, the question and what has been generated. What stands before the image (the system
  prompt, the attention sink at the first token) is in no graph.
- A decoder's token cannot act on an earlier one: edges carry an arrowhead at their later token from the start.

The paper does not bound the conditioning sets; here they have at most `max_condition` tokens (causal_structure.py),
because the number of tests grows with the power of that bound.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...loaders.errors import InputError
from .causal_structure import Edge, PartialCorrelation, distances, learn_edges, choose_backend
from .token_cam import get_layer

if TYPE_CHECKING:
    import torch


class Settings(NamedTuple):
    """The parameters of appendix C.1, and those that it does not name.

    kappa: attention above which a token is relevant. max_image_tokens: at most so many of the image's.
    n_heads: heads of the greatest importance that get a graph. n_samples, alpha: of the independence tests; 128 is the
    size of a head of LLaMA-7B. radius: edges from the target within which tokens explain it. max_condition: the
    largest conditioning set. layer: whose attention, counted as Python counts.
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
    """How strongly the target attends to its strongest image token and to its strongest text token after the image.

    Args:
        attention: shape (heads, n, n), each row's attention to the tokens up to it.
        target: the row.
        image: positions of the image's tokens, ascending.

    Returns:
        Both of shape (heads,); their ratio is the importance of appendix C.1.
    """
    rows = np.asarray(attention, np.float64)[:, target]
    text = _text_after(image, target)
    return rows[:, list(image)].max(axis=1), rows[:, text].max(axis=1)


def select_relevant_tokens(
    row: np.ndarray, target: int, image: Sequence[int], kappa: float = 0.01, max_image_tokens: int = 50
) -> list[int]:
    """Positions, ascending, of the tokens that the target's row of attention (n,) relies on, and the target itself."""
    seen = [position for position in image if row[position] > kappa]
    strongest = sorted(seen, key=lambda position: (-row[position], position))[:max_image_tokens]
    return sorted({*strongest, *(p for p in _text_after(image, target) if row[p] > kappa), target})


def compute_row_correlation(attention: np.ndarray, positions: Sequence[int]) -> np.ndarray:
    """Correlation of tokens by their rows of attention: A A^T with a unit diagonal, not centred, as CLEANN has it.

    Args:
        attention: one head's, shape (n, n). Rows keep all their columns: what other tokens add is a common cause.

    Returns:
        Shape (k, k) for the k positions.
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
    backend: str = "auto",
    target_text: str | None = None,
) -> list[dict[str, Any]]:
    """The causal graphs of one generated token, one a head, the most important head first.

    Args:
        attention: one layer's, shape (heads, n, n).
        target: the row that the token was predicted from.
        tokens: the text of each of the n tokens.
        image: positions of the image's tokens, ascending, before the target, in reading order of the grid.
        grid: its (rows, columns).
        backend: `ordered_icd` (causality-lab), `fci` (causal-learn), or `auto`: the first where it is installed.
        target_text: the text of the predicted token.

    Returns:
        JSON-serialisable dicts: `head`, `importance` (None where no text is attended to), `image_attention`,
        `text_attention`, `backend`, `settings`, `grid`, `target` {position, text}; `nodes`, a dict a token with
        `position`, `kind` (image or text), `text` or `patch` [row, column], `attention`, and `distance`, its edges
        from the target (None: unconnected); and `edges` as `Edge`.

    Raises:
        InputError: attention that is not finite, or of another shape; a target or image tokens outside it.
        MedfaithError: no backend is installed.
    """
    settings = settings or Settings()
    attention = np.asarray(attention, np.float64)
    _check(attention, target, tokens, image, grid, settings)
    backend = choose_backend(backend)
    to_image, to_text = compute_head_importance(attention, target, image)
    ratio = np.divide(to_image, to_text, out=np.full(len(to_text), np.inf), where=to_text > 0)
    best = np.argsort(-ratio, kind="stable")[: settings.n_heads]
    patches = {position: divmod(number, grid[1]) for number, position in enumerate(image)}
    graphs = []
    for head in best:
        row = attention[head, target]
        positions = select_relevant_tokens(row, target, image, settings.kappa, settings.max_image_tokens)
        test = PartialCorrelation(compute_row_correlation(attention[head], positions), settings.n_samples, settings.alpha)
        edges = [
            Edge(positions[e.source], positions[e.target], e.source_mark, e.target_mark)
            for e in learn_edges(test, backend, settings.max_condition)
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
                "backend": backend,
                "settings": settings._asdict(),
                "grid": list(grid),
                "target": {"position": target, "text": target_text},
                "nodes": nodes,
                "edges": [edge._asdict() for edge in edges],
            }
        )
    return graphs


def compute_layer_attention(model: Any, inputs: Mapping[str, torch.Tensor], layer: int = -1) -> np.ndarray:
    """One decoder layer's attention in a forward pass over one text: float32, shape (heads, n, n).

    Only the language model computes it the plain way (`eager`), which alone gives weights, and only while this runs.
    """
    import torch

    found: list[torch.Tensor] = []
    decoder = model.get_decoder()
    before = decoder.config._attn_implementation
    handle = get_layer(model, layer).self_attn.register_forward_hook(  # pyright: ignore[reportCallIssue, reportAttributeAccessIssue]
        lambda _module, _inputs, output: found.append(output[1][0])
    )
    try:
        decoder.set_attn_implementation("eager")
        with torch.no_grad():
            model(**inputs, use_cache=False)
    finally:
        handle.remove()
        decoder.set_attn_implementation(before)
    return found[0].float().cpu().numpy()


def select_neighbourhood(graph: dict[str, Any], radius: int | None = None) -> dict[str, Any]:
    """The part of a graph within `radius` edges of its target (None: the radius of its settings): the explanation."""
    radius = graph["settings"]["radius"] if radius is None else radius
    nodes = [node for node in graph["nodes"] if node["distance"] is not None and node["distance"] <= radius]
    near = {node["position"] for node in nodes}
    edges = [edge for edge in graph["edges"] if edge["source"] in near and edge["target"] in near]
    return {**graph, "nodes": nodes, "edges": edges}


def _text_after(image: Sequence[int], target: int) -> list[int]:
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
        found = f"shape {attention.shape} for {len(tokens)} tokens"
        raise InputError("attention", found, expected="(heads, n, n) for n tokens")
    if not np.isfinite(attention).all():
        raise InputError("attention", "has NaN or infinity")
    if not (len(image) and image[0] >= 0 and list(image) == sorted(set(image)) and image[-1] < target < n):
        found = f"image tokens {list(image)[:3]}..., target {target}, {n} tokens"
        raise InputError("attention", found, expected="image tokens in ascending order, then the target")
    if grid[0] * grid[1] != len(image):
        raise InputError("attention", f"{len(image)} image tokens for a grid of {grid[0]} x {grid[1]}")
    if settings.n_samples < settings.max_condition + 4 or settings.max_condition < 0:
        found = f"max_condition={settings.max_condition} with n_samples={settings.n_samples}"
        raise InputError("causal graph", found, expected="max_condition of at least 0 and n_samples at least 4 more")
