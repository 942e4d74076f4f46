"""The relevancy of text tokens next to image tokens for some answers (HEAL-MedVQA, Figure 1b)."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from medfaith.loaders.escaping import escape_controls
from medfaith.tasks.explain.token_relevancy import Relevancy

from ..pictures import COLOURS, WIDTH, short
from .runs import HealRow, HealRun

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LARGEST = 6  # maximum number of answers
MOST_TOKENS = 32  # of one answer
_HEIGHT = 2.5  # inches
_TEXT, _IMAGE = COLOURS[0], COLOURS[5]
_CAPTION = (
    "Chosen: of each run the answer with the middle share of relevancy on the text, then those with the highest and "
    f"the lowest, up to {LARGEST} in all. Bars: the most relevant text tokens (up to {MOST_TOKENS}) in their order. "
    "Dashed line: the most relevant image token."
)


class Example(NamedTuple):
    """An answer to draw.

    Attributes:
        run: The run.
        row: The row.
        reading: The answer as read.
        relevancy: Its relevancy, with tokens.
    """

    run: HealRun
    row: HealRow
    reading: str
    relevancy: Relevancy


def select_relevant(runs: Sequence[HealRun]) -> list[HealRun]:
    """Select the runs whose answers have the relevancy of tokens.

    Args:
        runs: The runs.

    Returns:
        The runs with relevancy.
    """
    return [run for run in runs if any(row.relevancy and row.relevancy.tokens for row in run.rows)]


def select_examples(runs: Sequence[HealRun]) -> list[Example]:
    """Select the answers to draw: of each run the middle, the highest and the lowest share of the text.

    Args:
        runs: Runs with relevancy.

    Returns:
        At most `LARGEST` different answers, by run, from the highest share.
    """
    ranked = [sorted(_list_examples(run), key=_get_sort_key) for run in runs]
    places: dict[tuple[int, int], None] = {}
    for rank in ("middle", "highest", "lowest"):
        for number, examples in enumerate(ranked):
            n = len(examples)
            places[number, {"middle": n // 2, "highest": n - 1, "lowest": 0}[rank]] = None
    chosen = sorted([*places][:LARGEST], key=lambda place: (place[0], -place[1]))
    return [ranked[number][index] for number, index in chosen]


def _list_examples(run: HealRun) -> list[Example]:
    return [
        Example(run, row, reading, row.relevancy)
        for row, reading in zip(run.rows, run.said, strict=True)
        if row.relevancy and row.relevancy.tokens
    ]


def _get_sort_key(example: Example) -> tuple[float, str]:
    return example.relevancy.text, example.row.id


def draw_relevancy(runs: Sequence[HealRun]) -> Figure:
    """Draw a panel of bars for each selected answer.

    Args:
        runs: Runs with relevancy.

    Returns:
        The figure.
    """
    from matplotlib.figure import Figure

    examples = select_examples(runs)
    figure = Figure(figsize=(WIDTH, _HEIGHT * len(examples) + 0.5), layout="constrained")
    panels = figure.subplots(len(examples), 1, squeeze=False)[:, 0]
    for axes, example in zip(panels, examples, strict=True):
        _draw_tokens(axes, example)
    figure.supxlabel("\n".join(textwrap.wrap(_CAPTION, 170)), fontsize=8, color="#444444")
    return figure


def _draw_tokens(axes: Axes, example: Example) -> None:
    relevancy = example.relevancy
    tokens = [*enumerate(relevancy.tokens or ())]
    top = sorted(tokens, key=lambda token: -token[1][1])[:MOST_TOKENS]
    shown = [token for _, token in sorted(top)]
    axes.bar(range(len(shown)), [share for _, share in shown], color=_TEXT, width=0.8)
    axes.axhline(relevancy.image_peak, color=_IMAGE, linestyle="--", linewidth=1.5)
    axes.set_xticks(range(len(shown)), [_format_token(text) for text, _ in shown], rotation=60, ha="right", fontsize=8)
    axes.set_xlim(-0.6, MOST_TOKENS - 0.4)
    axes.set_ylim(0, 1.1 * max(relevancy.text_peak, relevancy.image_peak))
    axes.set_ylabel("share of relevancy", fontsize=8)
    axes.tick_params("y", labelsize=8)
    shares = f"image {relevancy.image:.1%}, text {relevancy.text:.1%}; read: {example.reading}"
    question = textwrap.shorten(escape_controls(example.row.question), 110, placeholder=" …")
    axes.set_title(f"{short(example.run.name, 44)} · {shares}\n{question}", loc="left", fontsize=9)


def _format_token(text: str) -> str:
    """Format a token as a short label; white space alone in quotes."""
    return escape_controls(text.strip() or repr(text))[:14]
