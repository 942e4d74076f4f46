"""Draws a causal graph over the frame, as in SurgXBench's Figure 5.

Image tokens are green circles at their places, text tokens white boxes next to the frame, and edges have marks at both
ends.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...loaders.errors import InputError, MedfaithError
from .causal_structure import ARROW, CIRCLE
from .cleann import select_neighbourhood
from .geometry import Geometry

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Point = tuple[float, float]
End = tuple[Point, str, float]  # place of a node, mark of the edge, and gap between edge and node in points
GREEN, TARGET, EDGE = "#2ecc40", "#ffdc00", "#ff851b"
WIDTH = 11  # width of the picture in inches
ACROSS = 1.75  # width of the picture in frames: text is next to the frame
CLEAR = {"image": 6.0, "text": 15.0}


def draw_causal_graph(
    graph: dict[str, Any], frame: Any, geometry: Geometry, path: str | Path, *, radius: int | None = None
) -> Path:
    """Draw one head's graph (cleann.causal_graphs) as a PNG, within `radius` edges of the target.

    Args:
        graph: The graph.
        frame: A PIL image, or an array (H, W) or (H, W, 3), uint8.
        geometry: Place of the grid of image tokens on the frame.
        path: The file.
        radius: Radius in edges; by default the graph's own (3 as published).

    Returns:
        The path of the PNG.

    Raises:
        InputError: The frame's size differs from the geometry's.
        MedfaithError: matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MedfaithError("drawing needs matplotlib\n  what to do: uv pip install 'medfaith[explain]'") from error
    pixels = np.asarray(frame)
    if pixels.shape[:2] != geometry.size:
        raise InputError("frame", f"(height, width) is {pixels.shape[:2]}", expected=str(geometry.size))
    height, width = geometry.size
    figure = Figure(figsize=(WIDTH, WIDTH * height / (ACROSS * width) + 0.4))
    axes = figure.add_axes((0, 0, 1, 1 - 0.4 / figure.get_figheight()))
    draw_on_axes(axes, select_neighbourhood(graph, radius), pixels, geometry)
    path = Path(path)
    figure.savefig(path, format="png", dpi=100)
    return path


def draw_on_axes(axes: Axes, graph: dict[str, Any], pixels: Any, geometry: Geometry, *, font_size: float = 9) -> None:
    """Draw a graph at a place of a figure; the axes are `ACROSS` as wide as the frame.

    Args:
        axes: The axes, at their final place.
        graph: The graph.
        pixels: The frame, uint8 (H, W) or (H, W, 3).
        geometry: Place of the grid of image tokens on the frame.
        font_size: Size of the texts; circles and edges have sizes to match.
    """
    places = compute_node_places(graph, geometry)
    height, width = geometry.size
    scale = font_size / 9
    axes.imshow(pixels, cmap="gray" if pixels.ndim == 2 else None, vmin=0, vmax=255, extent=(0, width, height, 0))
    axes.set(xlim=(0, ACROSS * width), ylim=(height, 0))  # before the edges, whose lengths depend on the limits
    kinds = {node["position"]: node["kind"] for node in graph["nodes"]}
    for edge in graph["edges"]:
        start, end = (
            (places[edge[side]], edge[f"{side}_mark"], scale * CLEAR[kinds[edge[side]]])
            for side in ("source", "target")
        )
        _draw_edge(axes, start, end, scale)
    target = graph["target"]["position"]
    for node in graph["nodes"]:
        place = places[node["position"]]
        if node["kind"] == "image":
            axes.plot(*place, "o", color=GREEN, markersize=9 * scale, markeredgecolor="black", zorder=3)
        else:
            is_target = node["position"] == target
            text = (graph["target"]["text"] if is_target else None) or node["text"]
            box = {"boxstyle": "round", "facecolor": TARGET if is_target else "white", "edgecolor": "black"}
            axes.text(
                *place, repr(text)[1:-1], ha="center", va="center", fontsize=font_size, bbox=box, zorder=3,
                parse_math=False,  # a token of two dollars is not a formula
            )  # fmt: skip
    importance = "undefined" if graph["importance"] is None else f"{graph['importance']:.3g}"
    axes.set_title(f"head {graph['head']}, importance {importance}, {graph['backend']}", fontsize=font_size + 1)
    axes.set_axis_off()


def compute_node_places(graph: dict[str, Any], geometry: Geometry) -> dict[int, Point]:
    """Compute the places of the nodes in the drawing: patches at their centres, text next to the frame.

    Args:
        graph: The graph.
        geometry: Place of the grid of image tokens on the frame.

    Returns:
        Token position -> (x, y) in pixels of the frame.
    """
    height, width = geometry.size
    x, y, w, h = geometry.window
    rows, columns = graph["grid"]
    places = {
        node["position"]: (x + (node["patch"][1] + 0.5) * w / columns, y + (node["patch"][0] + 0.5) * h / rows)
        for node in graph["nodes"]
        if node["kind"] == "image"
    }
    text = [node["position"] for node in graph["nodes"] if node["kind"] == "text"]
    n_columns = 1 + (len(text) - 1) // 12  # more than twelve boxes in a column would overlap
    per_column = -(-len(text) // n_columns)
    for number, position in enumerate(text):
        column, row = divmod(number, per_column)
        shift = 0.25 if row % 2 else -0.25  # edges between neighbours avoid the boxes between them
        across = (column + 0.5 + shift / 1.5) / n_columns
        places[position] = (width * (1.05 + 0.65 * across), height * (row + 0.5) / per_column)
    return places


def _draw_edge(axes: Axes, start: End, end: End, scale: float) -> None:
    """Draw a line between two nodes with a gap at both, and the marks of its ends."""
    points = axes.transData.transform([start[0], end[0]]) * 72 / axes.figure.dpi
    length = float(np.hypot(*(points[1] - points[0]))) or 1.0
    style = ("<|" if start[1] == ARROW else "") + "-" + ("|>" if end[1] == ARROW else "")
    line = {"arrowstyle": style, "color": EDGE, "lw": 1.3 * scale, "shrinkA": start[2], "shrinkB": end[2]}
    axes.annotate("", xy=end[0], xytext=start[0], arrowprops=line, zorder=2)
    for near, far in ((start, end), (end, start)):
        if near[1] == CIRCLE:
            share = near[2] / length
            place = [a + share * (b - a) for a, b in zip(near[0], far[0], strict=True)]
            axes.plot(*place, "o", markerfacecolor="white", markeredgecolor=EDGE, markersize=5 * scale, zorder=4)
