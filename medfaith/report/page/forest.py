"""Scores with their intervals, each model and control on a line, as numbers for an inline SVG."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

from medfaith.compare.answers import Answers
from medfaith.evaluate_metrics.confidence.score import bootstrap_mean
from medfaith.loaders.progress import Progress

from ..tables import SEED, interval
from .cases import IMAGE

MOST_KINDS = 12  # of findings in a plot
KindsOf = Callable[[Answers], Sequence[Collection[str]]]  # of each row, of which kinds it is


class Line(NamedTuple):
    """One model as shown in one way. mean, low, high: fractions, low and high None where unknown."""

    model: str
    shown: str
    mean: float
    low: float | None
    high: float | None
    n: int

    @property
    def text(self) -> str:
        return interval(self.mean, self.low, self.high)


class Forest(NamedTuple):
    """One task's plot. metric: what the values are means of."""

    task: str
    metric: str
    lines: list[Line]


def by_kind(answers: Sequence[Answers]) -> dict[str, list[Forest]]:
    """Task and metric -> a plot for each finding or instrument, with the image: the `MOST_KINDS` with the most rows.

    A row with several of them counts for each. Tasks about one kind alone have no plot.
    """
    return _by(answers, lambda of: of.about)


def by_view(answers: Sequence[Answers]) -> dict[str, list[Forest]]:
    """As `by_kind`, a plot for each view or several views that rows show. Rows whose source names none are left out."""
    return _by(answers, lambda of: [{view} - {""} for view in of.views])


def _by(answers: Sequence[Answers], kinds_of: KindsOf) -> dict[str, list[Forest]]:
    runs_of: dict[tuple[str, str], list[Answers]] = defaultdict(list)
    for of in _told_apart(answers):
        if _shown(of) == IMAGE:
            runs_of[of.task, of.metric].append(of)
    found: dict[str, list[Forest]] = {}
    for (task, metric), runs in Progress(runs_of.items(), title="intervals of the page, by kind", unit="tasks"):
        n_rows = Counter(kind for of in runs for kinds in kinds_of(of) for kind in {*kinds})
        if len(n_rows) > 1:
            kinds = sorted(kind for kind, _ in n_rows.most_common(MOST_KINDS))
            plots = [Forest(kind, metric, _lines(runs, kinds_of, kind)) for kind in kinds]
            found[f"{task}: {metric}"] = [plot for plot in plots if plot.lines]
    return found


def _told_apart(answers: Sequence[Answers]) -> list[Answers]:
    """With what differs between a model's runs of one task, such as their prompts, behind its name."""
    alike: dict[tuple[str, ...], list[Answers]] = defaultdict(list)
    for of in answers:
        alike[of.model, of.variant, of.task, of.metric, _shown(of)].append(of)
    told = []
    for runs in alike.values():
        names = [name for name in runs[0].how if len({of.how.get(name) for of in runs}) > 1]
        for of in runs:
            differing = ", ".join(of.how.get(name, "") for name in names)
            told.append(of._replace(model=f"{of.model} ({differing})") if differing else of)
    return told


def _lines(runs: Sequence[Answers], kinds_of: KindsOf, kind: str) -> list[Line]:
    lines = [_line(_part(of, kinds_of, kind), IMAGE) for of in sorted(runs, key=_name)]
    return [line for line in lines if line is not None]


def _part(of: Answers, kinds_of: KindsOf, kind: str) -> Answers:
    """The rows of one kind."""
    rows = [row for row, kinds in enumerate(kinds_of(of)) if kind in kinds]
    return of._replace(values=of.values[rows], groups=[of.groups[row] for row in rows])


def _name(of: Answers) -> str:
    """The model, with its telling arguments, without the control and the wording."""
    shown = _shown(of)
    telling = ", ".join(word for word in of.variant.split(", ") if word != shown)
    return of.model + (f" ({telling})" if telling else "")


def _shown(of: Answers) -> str:
    """The control and the wording, or IMAGE."""
    wording = f"wording {of.how['wording']}" if "wording" in of.how else ""
    return ", ".join(filter(None, [of.how.get("control"), wording])) or IMAGE


def _line(of: Answers, shown: str) -> Line | None:
    """None where no row has a value."""
    found = bootstrap_mean(of.values, groups=[str(group) for group in of.groups], seed=SEED, bounds=(0, 1))
    if not found.n:
        return None
    known = found.low == found.low  # NaN is unlike itself
    ends = (found.low, found.high) if known else (None, None)
    return Line(_name(of), shown, found.mean, *ends, found.n)


def forests(answers: Sequence[Answers]) -> list[Forest]:
    """A plot for each task and metric; lines by model, with the image first and then the controls by name.

    Intervals draw whole patients, studies, images or videos (95%, 2,000 resamples), or are Wilson's where nearly
    all rows are right or wrong. Rows without a value are left out.
    """
    plots: dict[tuple[str, str], list[Line]] = defaultdict(list)
    for of in Progress(_told_apart(answers), title="intervals of the page", unit="runs"):
        line = _line(of, _shown(of))
        if line is not None:
            plots[of.task, of.metric].append(line)
    order = {
        key: sorted(lines, key=lambda line: (line.model, line.shown != IMAGE, line.shown))
        for key, lines in plots.items()
    }
    return [Forest(task, metric, lines) for (task, metric), lines in order.items()]
