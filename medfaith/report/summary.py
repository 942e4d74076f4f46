"""The summary for a terminal: verdicts or scores, unread and declined answers, warnings, saved files, next commands."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from medfaith.compare.answers import Answers, all_answers
from medfaith.logs.lines import Logged
from medfaith.printing import table

from .page.audits import Audits
from .page.cases import IMAGE
from .page.forest import Forest, forests
from .page.text import shown
from .results import Results
from .tables import count, percent
from .unread import is_blind

WIDTH, LINES = 100, 40
_LEAST = 4  # rows of a table, however much stands around it
_NARROWEST = 12  # of a model's name that is cut
_WARNED, _NOTED, _NOTE = 6, 4, 3  # lines of warnings; notes, and the lines of one
_SAVED = 8  # lines of what was saved
_MORE = "medfaith report --html FILE shows them"


class Tail(NamedTuple):
    """The last lines. saved: what was written, and where; following: commands, with a word on each."""

    saved: Sequence[str] = ()
    following: Sequence[str] = ()


def summary(
    results: Results,
    notes: Sequence[str],
    tail: Tail,
    audited: Audits | None = None,
    folders: Sequence[Path] = (),
) -> str:
    """At most `LINES` lines of at most `WIDTH` columns; what does not fit is counted.

    Args:
        results: all runs. notes: what is said of them; those that begin with WARNING stand first.
        audited: the verdicts of `medfaith audit`, which stand in place of the scores of its runs; folders: where these
            runs are.
    """
    unread, parts = _unread(results), []
    if audited is not None and audited.verdicts:
        parts.append(partial(_verdicts, audited))
        results = _outside(results, folders)
    answers, unscored = all_answers(results)
    if plots := forests(answers):
        parts.append(partial(_scores, plots))
    notes = [*_unscored(answers, unscored), *notes]
    around = [*unread, *_warnings(notes), *_left_out(notes), *_last(tail)]
    lines: list[str] = []
    for number, part in enumerate(parts):
        room = (LINES - len(lines) - len(around)) // (len(parts) - number)
        lines += part(room)
    return "\n".join(map(shown, [*lines, *around])).strip("\n") + "\n"  # a model's words may hold escape sequences


def _outside(results: Results, folders: Sequence[Path]) -> Results:
    """The runs that are in none of the folders."""
    places = [folder.resolve() for folder in folders]

    def kept(runs: Sequence[Logged]) -> list[Logged]:
        return [run for run in runs if not any(run.source.path.is_relative_to(place) for place in places)]

    return Results(*map(kept, results[:-1]), results.notes)  # pyright: ignore


def _unscored(answers: Sequence[Answers], others: Sequence[str]) -> list[str]:
    """Notes on what has no line among the scores. others: what `all_answers` leaves out."""
    undefined = [f"{of.task} of {of.model}" for of in answers if np.isnan(of.values).all()]
    left_out = "; ".join(dict.fromkeys(others))
    return ([f"no row has a score: {', '.join(undefined)}"] if undefined else []) + ([left_out] if left_out else [])


def _verdicts(audited: Audits, room: int) -> list[str]:
    """A line for each model and benchmark; the interval is there if it fits, and audit.csv has it."""
    found = [(model, name, of) for model, by in audited.verdicts.items() for name, of in by.items()]
    has_other = any(of.has_other for _, _, of in found)
    difference = f"own - {'other' if has_other else 'blind'} [95%]"
    columns = {"model": [model for model, _, _ in found], "benchmark": [name for _, name, _ in found]}
    columns["image"] = [of.percent("score") for *_, of in found]
    if has_other:
        columns["other"] = [of.percent("other") for *_, of in found]
    columns["blind"] = [of.percent("blind") for *_, of in found]
    columns[difference] = [of.own_less_other if has_other else of.own_less_blind for *_, of in found]
    columns["uses it?"] = [of.image.short for *_, of in found]
    columns["the place?"] = [of.place.short for *_, of in found]
    title = "Does the model use the image?"
    if len(audited.verdicts) == 1:
        title += f" {_tail(columns.pop('model')[0], WIDTH - len(title) - 1)}"
    if _width(columns) > WIDTH:
        del columns[difference]
    legend = (
        "Scores in %: own image, " + "another patient's with another right answer, " * has_other + "best without one."
    )
    return [title, *_fitting(list(columns), list(zip(*columns.values(), strict=True)), room - 3), legend, ""]


def _width(columns: Mapping[str, Sequence[str]]) -> int:
    return sum(max(map(len, [title, *cells])) + 2 for title, cells in columns.items()) - 2


def _scores(plots: Sequence[Forest], room: int) -> list[str]:
    """A line for each model and task, the best first; where they are too many, the best ones of each task."""
    images = [[line for line in plot.lines if line.shown == IMAGE] or plot.lines for plot in plots]
    greatest = most = max(map(len, images))
    while most > 1 and sum(min(most, len(lines)) for lines in images) > room - 6:
        most -= 1
    found = [
        (f"{plot.task}: {plot.metric}", line)
        for plot, lines in zip(plots, images, strict=True)
        for line in sorted(lines, key=lambda line: -line.mean)[:most]
    ]
    models, controls = ({getattr(line, name) for lines in images for line in lines} for name in ("model", "shown"))
    columns: dict[str, list[str]] = {"task": [task for task, _ in found]}
    if len(models) > 1:
        columns["model"] = [line.model for _, line in found]
    if controls != {IMAGE}:
        columns["shown"] = [line.shown for _, line in found]
    columns |= {"score [95%]": [line.text for _, line in found], "rows": [count(line.n) for _, line in found]}
    title = "Scores in %, more is better"
    title += f": {_tail(min(models), WIDTH - len(title) - 2)}" if len(models) == 1 else ""
    title += f" (the best {most} of each task)" if most < greatest else ""
    left = sum(len(plot.lines) for plot in plots) - len(found)
    return [title, *_fitting(list(columns), list(zip(*columns.values(), strict=True)), room - 3, left), ""]


def _fitting(titles: Sequence[str], rows: Sequence[Sequence[str]], room: int, left: int = 0) -> list[str]:
    """The table's lines, at most `room`; models' names are cut to its width. left: rows that are not in it already."""
    most = max(_LEAST, room - 2)
    kept = rows if len(rows) <= most and not left else rows[: most - 1]
    left += len(rows) - len(kept)
    if "model" in titles:
        place = titles.index("model")
        others = sum(max(len(row[at]) for row in [titles, *kept]) + 2 for at in range(len(titles)) if at != place)
        widest = max(_NARROWEST, WIDTH - others)
        kept = [[_tail(cell, widest) if at == place else cell for at, cell in enumerate(row)] for row in kept]
    more = [f"… and {count(left)} more: {_MORE}"] if left else []
    return [*table(titles, kept).splitlines(), *more]


def _tail(name: str, widest: int) -> str:
    """The end of a name tells models apart better than its beginning."""
    return name if len(name) <= widest else f"…{name[1 - widest :]}"


def _unread(results: Results) -> list[str]:
    """How many answers are unread, declined and cut, and in which run most of them; how many a server did not give.

    The lines on declined and cut answers are left out where there are none.
    """
    runs = [*results.runs, *results.heal, *results.surgx]
    if not runs:
        return []
    unread = _most("Unread", [(len(run.unread), run) for run in runs])
    if unanswered := sum(run.source.n_unanswered for run in runs):
        unread += f" Of these {count(unanswered)} have no answer."
    declined = [(len(run.declined), run) for run in runs if not is_blind(run)]
    declined_blind = [(len(run.declined), run) for run in runs if is_blind(run)]
    cut = [(run.source.n_cut, run) for run in runs]
    titles = ("Declined", "Declined without an image, as a model should", "Cut at the limit of tokens")
    more = [
        _most(title, of)
        for title, of in zip(titles, (declined, declined_blind, cut), strict=True)
        if any(n for n, _ in of)
    ]
    return [line for said in (unread, *more) for line in _wrapped(said)]


def _most(title: str, runs: Sequence[tuple[int, Any]]) -> str:
    """How many answers of all runs there are of a kind, and in which run most of them."""
    said = f"{title}: {_share(sum(n for n, _ in runs), sum(run.n for _, run in runs))}."
    n, worst = max(runs, key=lambda of: of[0] / of[1].n)
    if n and len(runs) > 1:
        said += f" Most: {_share(n, worst.n)} of {worst.model_name}, {worst.source.task}."
    return said


def _share(n: int, total: int) -> str:
    return f"{count(n)} of {count(total)} answers ({percent(n / total)}%)"


def _warnings(notes: Sequence[str]) -> list[str]:
    """The first ones, whole, as far as there is room."""
    blocks = [_wrapped(note) for note in notes if note.startswith("WARNING")]
    return _first(blocks, _WARNED, "warnings")


def _left_out(notes: Sequence[str]) -> list[str]:
    """What was left out, and why."""
    blocks = [_wrapped(f"Note: {note}", _NOTE) for note in notes if not note.startswith("WARNING")]
    return _first(blocks, _NOTED, "notes")


def _first(blocks: Sequence[list[str]], room: int, what: str) -> list[str]:
    lines: list[str] = []
    for number, block in enumerate(blocks):
        if lines and len(lines) + len(block) > room:
            return [*lines, f"… and {count(len(blocks) - number)} more {what}: {_MORE}"]
        lines += block
    return lines


def _last(tail: Tail) -> Iterator[str]:
    n_left = len(tail.saved) - _SAVED
    saved = [*tail.saved[:_SAVED], *([f"… and {count(n_left)} more"] if n_left > 0 else [])]
    for title, lines in (("Saved", saved), ("Next", tail.following)):
        if lines:
            yield from ["", f"{title}:", *(f"  {line}" for line in lines)]


def _wrapped(text: str, most: int | None = None) -> list[str]:
    return textwrap.wrap(
        text, WIDTH, subsequent_indent="  ", max_lines=most, placeholder=" …", break_long_words=False,
        break_on_hyphens=False,
    )  # fmt: skip
