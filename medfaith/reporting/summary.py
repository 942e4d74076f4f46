"""Summary for a terminal: verdicts or scores, unread and declined answers, warnings, files and next commands."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from medfaith.logs.lines import Logged
from medfaith.printing import table

from .answers import Answers
from .page.audit_results import Audits
from .page.cases import IMAGE
from .page.forest import Forest, forests
from .page.text import shown
from .results import Results
from .tables import count, percent
from .unread import is_blind

WIDTH, LINES = 100, 40
_MIN_ROWS = 4  # minimum number of rows of a table
_MIN_NAME = 12  # minimum width of a model's name
_WARNING_LINES, _NOTE_LINES, _LINES_PER_NOTE = 6, 4, 3  # maximum number of lines: all warnings, all notes, one note
_SAVED_LINES = 8  # maximum number of lines on saved files
_HINT = "medfaith report --html FILE shows them"


class Tail(NamedTuple):
    """The last lines of the summary.

    Attributes:
        saved: Files and what they hold.
        following: Commands with a comment.
    """

    saved: Sequence[str] = ()
    following: Sequence[str] = ()


def summary(
    results: Results,
    notes: Sequence[str],
    tail: Tail,
    audited: Audits | None = None,
    folders: Sequence[Path] = (),
) -> str:
    """Format the summary: at most `LINES` lines of at most `WIDTH` columns; the rest is counted.

    Args:
        results: All runs.
        notes: Notes; those that begin with WARNING come first.
        tail: The last lines.
        audited: Verdicts of `medfaith audit`, which replace the scores of its runs.
        folders: Folders of the audited runs.

    Returns:
        The text.
    """
    unread, formatters = _count_outcomes(results), []
    if audited is not None and audited.verdicts:
        formatters.append(partial(_format_verdicts, audited))
        results = _exclude_folders(results, folders)
    answers, unscored = results.collect_answers()
    if plots := forests(answers):
        formatters.append(partial(_format_scores, plots))
    notes = [*_list_unscored(answers, unscored), *notes]
    fixed_lines = [*unread, *_list_warnings(notes), *_list_notes(notes), *_iterate_tail(tail)]
    lines: list[str] = []
    for number, format_part in enumerate(formatters):
        room = (LINES - len(lines) - len(fixed_lines)) // (len(formatters) - number)
        lines += format_part(room)
    return "\n".join(map(shown, [*lines, *fixed_lines])).strip("\n") + "\n"  # responses may hold escape sequences


def _exclude_folders(results: Results, folders: Sequence[Path]) -> Results:
    """Select the runs that are in none of the folders."""
    roots = [folder.resolve() for folder in folders]

    def select_outside(runs: Sequence[Logged]) -> list[Logged]:
        return [run for run in runs if not any(run.source.path.is_relative_to(place) for place in roots)]

    return results.select(select_outside)


def _list_unscored(answers: Sequence[Answers], unscored: Sequence[str]) -> list[str]:
    """List the runs without a score, and the runs that `Results.collect_answers` leaves out."""
    undefined = [f"{run.task} of {run.model}" for run in answers if np.isnan(run.values).all()]
    left_out = "; ".join(dict.fromkeys(unscored))
    return ([f"no row has a score: {', '.join(undefined)}"] if undefined else []) + ([left_out] if left_out else [])


def _format_verdicts(audited: Audits, room: int) -> list[str]:
    """Format a line for each model and benchmark; the difference is left out if it does not fit."""
    verdicts = [
        (model, name, verdict)
        for model, by_benchmark in audited.verdicts.items()
        for name, verdict in by_benchmark.items()
    ]
    has_other = any(verdict.has_other for _, _, verdict in verdicts)
    difference = f"own - {'other' if has_other else 'blind'} [95%]"
    columns = {"model": [model for model, _, _ in verdicts], "benchmark": [name for _, name, _ in verdicts]}
    columns["image"] = [verdict.percent("score") for *_, verdict in verdicts]
    if has_other:
        columns["other"] = [verdict.percent("other") for *_, verdict in verdicts]
    columns["blind"] = [verdict.percent("blind") for *_, verdict in verdicts]
    columns[difference] = [verdict.own_less_other if has_other else verdict.own_less_blind for *_, verdict in verdicts]
    columns["uses it?"] = [verdict.image.short for *_, verdict in verdicts]
    columns["the place?"] = [verdict.place.short for *_, verdict in verdicts]
    title = "Does the model use the image?"
    if len(audited.verdicts) == 1:
        title += f" {_cut_start(columns.pop('model')[0], WIDTH - len(title) - 1)}"
    if _compute_width(columns) > WIDTH:
        del columns[difference]
    legend = (
        "Scores in %: own image, " + "another patient's with another right answer, " * has_other + "best without one."
    )
    return [title, *_fit_table(list(columns), list(zip(*columns.values(), strict=True)), room - 3), legend, ""]


def _compute_width(columns: Mapping[str, Sequence[str]]) -> int:
    """Compute the width of a table."""
    return sum(max(map(len, [title, *cells])) + 2 for title, cells in columns.items()) - 2


def _format_scores(plots: Sequence[Forest], room: int) -> list[str]:
    """Format a line for each model and task, the best first; if they do not fit, the best of each task."""
    images = [[line for line in plot.lines if line.shown == IMAGE] or plot.lines for plot in plots]
    n_greatest = n_best = max(map(len, images))
    while n_best > 1 and sum(min(n_best, len(lines)) for lines in images) > room - 6:
        n_best -= 1
    best_lines = [
        (f"{plot.task}: {plot.metric}", line)
        for plot, lines in zip(plots, images, strict=True)
        for line in sorted(lines, key=lambda line: -line.mean)[:n_best]
    ]
    models, controls = ({getattr(line, name) for lines in images for line in lines} for name in ("model", "shown"))
    columns: dict[str, list[str]] = {"task": [task for task, _ in best_lines]}
    if len(models) > 1:
        columns["model"] = [line.model for _, line in best_lines]
    if controls != {IMAGE}:
        columns["shown"] = [line.shown for _, line in best_lines]
    columns |= {"score [95%]": [line.text for _, line in best_lines], "rows": [count(line.n) for _, line in best_lines]}
    title = "Scores in %, more is better"
    title += f": {_cut_start(min(models), WIDTH - len(title) - 2)}" if len(models) == 1 else ""
    title += f" (the best {n_best} of each task)" if n_best < n_greatest else ""
    n_left_out = sum(len(plot.lines) for plot in plots) - len(best_lines)
    return [title, *_fit_table(list(columns), list(zip(*columns.values(), strict=True)), room - 3, n_left_out), ""]


def _fit_table(titles: Sequence[str], rows: Sequence[Sequence[str]], room: int, n_left_out: int = 0) -> list[str]:
    """Fit a table to `room` lines and to the width, cutting models' names; `n_left_out` rows are missing already."""
    max_rows = max(_MIN_ROWS, room - 2)
    shown_rows = rows if len(rows) <= max_rows and not n_left_out else rows[: max_rows - 1]
    n_left_out += len(rows) - len(shown_rows)
    if "model" in titles:
        place = titles.index("model")
        other_width = sum(
            max(len(row[at]) for row in [titles, *shown_rows]) + 2 for at in range(len(titles)) if at != place
        )
        widest = max(_MIN_NAME, WIDTH - other_width)
        shown_rows = [
            [_cut_start(cell, widest) if at == place else cell for at, cell in enumerate(row)] for row in shown_rows
        ]
    more = [f"… and {count(n_left_out)} more: {_HINT}"] if n_left_out else []
    return [*table(titles, shown_rows).splitlines(), *more]


def _cut_start(name: str, width: int) -> str:
    """Cut the beginning of a name, because models differ mostly at the end."""
    return name if len(name) <= width else f"…{name[1 - width :]}"


def _count_outcomes(results: Results) -> list[str]:
    """Count unread, unanswered, declined and cut answers, with the run that has most of them.

    Lines on declined and cut answers are left out if there are none.
    """
    runs = results.in_words
    if not runs:
        return []
    unread = _count_answers("Unread", [(len(run.unread), run) for run in runs])
    if unanswered := sum(run.source.n_unanswered for run in runs):
        unread += f" Of these {count(unanswered)} have no answer."
    declined = [(len(run.declined), run) for run in runs if not is_blind(run)]
    declined_blind = [(len(run.declined), run) for run in runs if is_blind(run)]
    cut = [(run.source.n_cut, run) for run in runs]
    titles = ("Declined", "Declined without an image, as a model should", "Cut at the limit of tokens")
    texts = [
        _count_answers(title, counts)
        for title, counts in zip(titles, (declined, declined_blind, cut), strict=True)
        if any(n for n, _ in counts)
    ]
    return [line for text in (unread, *texts) for line in _wrap_text(text)]


def _count_answers(title: str, runs: Sequence[tuple[int, Any]]) -> str:
    """Count the answers of a kind over all runs, with the run that has the largest share of them."""
    text = f"{title}: {_format_share(sum(n for n, _ in runs), sum(run.n for _, run in runs))}."
    n, worst = max(runs, key=lambda item: item[0] / item[1].n)
    if n and len(runs) > 1:
        text += f" Most: {_format_share(n, worst.n)} of {worst.model_name}, {worst.source.task}."
    return text


def _format_share(n: int, total: int) -> str:
    """Format a number of answers with its share."""
    return f"{count(n)} of {count(total)} answers ({percent(n / total)}%)"


def _list_warnings(notes: Sequence[str]) -> list[str]:
    """List the first warnings that fit."""
    blocks = [_wrap_text(note) for note in notes if note.startswith("WARNING")]
    return _select_blocks(blocks, _WARNING_LINES, "warnings")


def _list_notes(notes: Sequence[str]) -> list[str]:
    """List the notes that are not warnings."""
    blocks = [_wrap_text(f"Note: {note}", _LINES_PER_NOTE) for note in notes if not note.startswith("WARNING")]
    return _select_blocks(blocks, _NOTE_LINES, "notes")


def _select_blocks(blocks: Sequence[list[str]], room: int, noun: str) -> list[str]:
    """Join the first blocks of lines that fit into `room` lines, at least one, and a line that counts the other blocks.

    This last line, "... and N more <noun>", comes in addition to the `room` lines.
    """
    lines: list[str] = []
    for number, block in enumerate(blocks):
        if lines and len(lines) + len(block) > room:
            return [*lines, f"… and {count(len(blocks) - number)} more {noun}: {_HINT}"]
        lines += block
    return lines


def _iterate_tail(tail: Tail) -> Iterator[str]:
    """Iterate over the last lines."""
    n_left = len(tail.saved) - _SAVED_LINES
    saved = [*tail.saved[:_SAVED_LINES], *([f"… and {count(n_left)} more"] if n_left > 0 else [])]
    for title, lines in (("Saved", saved), ("Next", tail.following)):
        if lines:
            yield from ["", f"{title}:", *(f"  {line}" for line in lines)]


def _wrap_text(text: str, max_lines: int | None = None) -> list[str]:
    """Wrap a text to the width."""
    return textwrap.wrap(
        text, WIDTH, subsequent_indent="  ", max_lines=max_lines, placeholder=" …", break_long_words=False,
        break_on_hyphens=False,
    )  # fmt: skip
