"""Scores with their intervals, one line for each model and control, as numbers for an inline SVG."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

from medfaith.evaluate_metrics.confidence.score import bootstrap_mean
from medfaith.loaders.progress import Progress

from ..answers import Answers
from ..tables import SEED, interval
from .cases import IMAGE

MOST_KINDS = 12  # plots of a task
KindsOf = Callable[[Answers], Sequence[Collection[str]]]  # the kinds of each row


class Line(NamedTuple):
    """One model under one condition.

    Attributes:
        model: The model, with its distinctive arguments.
        shown: The control and the wording, or IMAGE.
        mean: Mean score, a fraction.
        low: Lower bound of the 95% interval; None if unknown.
        high: Upper bound; None if unknown.
        n: Number of rows with a score.
    """

    model: str
    shown: str
    mean: float
    low: float | None
    high: float | None
    n: int

    @property
    def text(self) -> str:
        """The mean with its interval, in per cent."""
        return interval(self.mean, self.low, self.high)


class Forest(NamedTuple):
    """The plot of one task.

    Attributes:
        task: The task, or the finding or view.
        metric: The metric whose mean each line shows.
        lines: One line for each model and condition.
    """

    task: str
    metric: str
    lines: list[Line]


def by_kind(answers: Sequence[Answers]) -> dict[str, list[Forest]]:
    """Build a plot for each finding or instrument, with the image: the `MOST_KINDS` with the most rows.

    A row with several findings counts for each. Tasks with one kind alone have no plot.

    Args:
        answers: The answers of all runs.

    Returns:
        Task and metric -> its plots.
    """
    return _group_forests(answers, lambda run: run.about)


def by_view(answers: Sequence[Answers]) -> dict[str, list[Forest]]:
    """Build a plot for each view, or set of views, as `by_kind` does; rows without a named view are left out.

    Args:
        answers: The answers of all runs.

    Returns:
        Task and metric -> its plots.
    """
    return _group_forests(answers, lambda run: [{view} - {""} for view in run.views])


def _group_forests(answers: Sequence[Answers], kinds_of: KindsOf) -> dict[str, list[Forest]]:
    runs_by_task: dict[tuple[str, str], list[Answers]] = defaultdict(list)
    for run in _distinguish_runs(answers):
        if _format_condition(run) == IMAGE:
            runs_by_task[run.task, run.metric].append(run)
    plots_by_task: dict[str, list[Forest]] = {}
    for (task, metric), runs in Progress(runs_by_task.items(), title="intervals of the page, by kind", unit="tasks"):
        n_rows = Counter(kind for run in runs for kinds in kinds_of(run) for kind in {*kinds})
        if len(n_rows) > 1:
            kinds = sorted(kind for kind, _ in n_rows.most_common(MOST_KINDS))
            plots = [Forest(kind, metric, _build_lines(runs, kinds_of, kind)) for kind in kinds]
            plots_by_task[f"{task}: {metric}"] = [plot for plot in plots if plot.lines]
    return plots_by_task


def _distinguish_runs(answers: Sequence[Answers]) -> list[Answers]:
    """Add to the models' names what differs between their runs of one task, such as the prompt."""
    alike: dict[tuple[str, ...], list[Answers]] = defaultdict(list)
    for run in answers:
        alike[run.model, run.variant, run.task, run.metric, _format_condition(run)].append(run)
    renamed = []
    for runs in alike.values():
        names = [name for name in runs[0].how if len({run.how.get(name) for run in runs}) > 1]
        for run in runs:
            differing = ", ".join(run.how.get(name, "") for name in names)
            renamed.append(run._replace(model=f"{run.model} ({differing})") if differing else run)
    return renamed


def _build_lines(runs: Sequence[Answers], kinds_of: KindsOf, kind: str) -> list[Line]:
    lines = [_build_line(_select_rows(run, kinds_of, kind), IMAGE) for run in sorted(runs, key=_format_name)]
    return [line for line in lines if line is not None]


def _select_rows(run: Answers, kinds_of: KindsOf, kind: str) -> Answers:
    """Select the rows of one kind."""
    rows = [row for row, kinds in enumerate(kinds_of(run)) if kind in kinds]
    return run._replace(values=run.values[rows], groups=[run.groups[row] for row in rows])


def _format_name(run: Answers) -> str:
    """Format the model with its distinctive arguments, without the control and the wording."""
    condition = _format_condition(run)
    telling = ", ".join(word for word in run.variant.split(", ") if word != condition)
    return run.model + (f" ({telling})" if telling else "")


def _format_condition(run: Answers) -> str:
    """Format the control and the wording, or IMAGE."""
    wording = f"wording {run.how['wording']}" if "wording" in run.how else ""
    return ", ".join(filter(None, [run.how.get("control"), wording])) or IMAGE


def _build_line(run: Answers, condition: str) -> Line | None:
    """Build the line of a run; None if no row has a score."""
    mean = bootstrap_mean(run.values, groups=[str(group) for group in run.groups], seed=SEED, bounds=(0, 1))
    if not mean.n:
        return None
    has_interval = mean.low == mean.low  # False for NaN
    ends = (mean.low, mean.high) if has_interval else (None, None)
    return Line(_format_name(run), condition, mean.mean, *ends, mean.n)


def forests(answers: Sequence[Answers]) -> list[Forest]:
    """Build a plot for each task and metric; lines by model, first with the image and then by control.

    The 95% intervals resample whole patients, studies, images or videos 2,000 times; they are Wilson's if
    there are fewer than 15 of them, or nearly all rows are right or wrong. Rows without a score are left out.

    Args:
        answers: The answers of all runs.

    Returns:
        The plots.
    """
    plots: dict[tuple[str, str], list[Line]] = defaultdict(list)
    for run in Progress(_distinguish_runs(answers), title="intervals of the page", unit="runs"):
        line = _build_line(run, _format_condition(run))
        if line is not None:
            plots[run.task, run.metric].append(line)
    order = {
        key: sorted(lines, key=lambda line: (line.model, line.shown != IMAGE, line.shown))
        for key, lines in plots.items()
    }
    return [Forest(task, metric, lines) for (task, metric), lines in order.items()]
