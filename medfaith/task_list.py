"""`medfaith tasks --list`: what each task asks, and which images and models it takes."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from medfaith.tasks.listing import Listed, listed, scoring_models
from medfaith.tasks.wordings import described

WIDTH = 98


def text() -> str:
    """Format the list of tasks: names, their descriptions and needs, and an explanation of the terms."""
    return "\n".join([*map(entry, listed()), "", *_explain_terms()])


def wordings_text() -> str:
    """The paraphrases, by benchmark and kind of question."""
    kinds: dict[str, list[str]] = {}
    for benchmark, kind, number, question in described():
        kinds.setdefault(f"{benchmark}, {kind}", []).extend(_indent(f"{number}. {question}"))
    ends = textwrap.wrap("Any other benchmark has none: That's the Wrong Lung! asks about a sentence as it is.", WIDTH)
    return "\n".join([line for kind, lines in kinds.items() for line in (kind, *lines)] + ["", *ends])


def entry(task: Listed) -> str:
    """Format a task or group: its name and split or number of tasks, its question, and its needs.

    Args:
        task: The task or group.

    Returns:
        Several lines.
    """
    is_single = len(task.tasks) == 1 and task.tasks[0].name == task.name
    kind = f"{task.tasks[0].rows['split']} split" if is_single else f"{len(task.tasks)} tasks"
    needs = [
        task.description,
        f"Data: {', '.join(task.data)}. Roots: {', '.join(task.roots)}.",
        f"Models: {models(task)}.",
    ]
    needs[-1] += f" Prompt: {', '.join(task.prompts)}." if task.prompts else ""
    return "\n".join([f"{task.name}  ({kind})", *(wrapped for line in needs for wrapped in _indent(line))])


def models(task: Listed) -> str:
    """List the model types that can answer, and those whose heatmaps are scored.

    Args:
        task: The task or group.

    Returns:
        The names, separated by commas.
    """
    answers = ", ".join(task.models) or ("option scores" if task.scores else "any")
    return answers + (f"; heatmaps by {', '.join(task.heatmaps)}" if task.heatmaps else "")


def _indent(line: str) -> Sequence[str]:
    options = {"initial_indent": "    ", "subsequent_indent": "    ", "break_on_hyphens": False}
    return textwrap.wrap(line, WIDTH, **options)


def _explain_terms() -> Sequence[str]:
    meaning = [
        "Data are the folders below --data that medfaith build writes. Roots are the sources whose images a model "
        "needs: --root SOURCE=PATH.",
        f"Any model type that takes images can answer; option scores take {', '.join(scoring_models())}; reference "
        "models answer all.",
        "Without a prompt's name, a task has the usual prompt of its benchmark, in CXR-ContraBench B0.",
        "medfaith tasks --names prints the names alone.",
    ]
    return [line for sentence in meaning for line in textwrap.wrap(sentence, WIDTH, break_on_hyphens=False)]
