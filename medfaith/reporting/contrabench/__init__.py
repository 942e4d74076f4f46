"""Finished runs of CXR-ContraBench: samples, tables and figures."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ..benchmark import AuthorsResults, ReportedBenchmark, ReportSources, select_uncontrolled

if TYPE_CHECKING:
    from pathlib import Path

    from medfaith.annotate.answers import ErrorJudgement
    from medfaith.extractor import Extractor
    from medfaith.loaders.progress import Progress
    from medfaith.logs.files import SampleFile
    from medfaith.logs.lines import Logged
    from medfaith.tasks.index import Task

    from ..answers import Answers
    from ..page.cases import CaseReading
    from ..pictures import Drawn
    from ..tables import Table
    from .option_scores import ScoredRun
    from .runs import Run


@dataclass(frozen=True)
class Scores:
    """Runs and judgements of a report.

    Attributes:
        answered: Runs with chosen options.
        scored: Runs with option scores.
        judgements: People's judgements of failed answers.
    """

    answered: list[Run]
    scored: list[ScoredRun]
    judgements: Sequence[ErrorJudgement]

    @cached_property
    def tables(self) -> list[Table]:
        """The tables of the runs with chosen options; figures have the same intervals and tests."""
        from .tables import build_contrabench_tables

        return build_contrabench_tables(self.answered)


class _CXRContraBench(ReportedBenchmark):
    def read_runs(self, file: SampleFile, progress: Callable[[int], Any]) -> Sequence[Run]:
        from .logs import read_runs
        from .option_scores import has_scores, read_scored_runs

        return read_scored_runs(file, progress) if has_scores(file) else read_runs(file, progress)

    def read_authors_results(self, path: Path, task: Task) -> AuthorsResults:
        from .authors_results import read_authors_results

        return read_authors_results(path, task)

    def complete_runs(self, runs: Sequence[Run], progress: Progress) -> tuple[list[Run], list[str]]:
        from .names import sort_runs
        from .option_scores import read_all_states

        answered, scored = split_runs(runs)
        scored, notes = read_all_states(scored, progress)
        notes += [
            f"{run.model_name}, {run.source.task}: the filter m1 is missing from the log; scores after the verifier "
            "are undefined"
            for run in answered
            if "m1" not in run.choice
        ]
        return [*sort_runs(answered), *scored], notes

    def collect_answers(self, runs: Iterable[Run]) -> tuple[list[Answers], list[str]]:
        from .answers import read_answers

        return [read_answers(run) for run in runs], []

    def score(self, runs: Sequence[Run], sources: ReportSources) -> Scores:
        from medfaith.annotate.answers import read_errors

        return Scores(*split_runs(runs), read_errors(sources.annotations))

    def build_tables(self, scores: Scores) -> tuple[list[Table], list[str]]:
        from .audit import build_audit_tables
        from .option_scores import build_polarity_gap_table
        from .tables import build_for_each_layout

        gap_tables = build_for_each_layout(scores.scored, lambda runs: [build_polarity_gap_table(runs)] if runs else [])
        tables = [*scores.tables, *gap_tables, *build_audit_tables(scores.judgements)]
        return tables, []

    def draw_figures(self, scores: Scores) -> Drawn:
        from .figures import draw_contrabench_figures

        answered, scored = map(select_uncontrolled, (scores.answered, scores.scored))
        return draw_contrabench_figures(answered, scored, scores.tables)

    def read_again(self, runs: Sequence[Run], extractor: Extractor) -> list[Table]:
        from .readings import build_choice_table
        from .tables import build_for_each_layout

        return build_for_each_layout(
            split_runs(runs)[0],
            lambda layout_runs: [build_choice_table(layout_runs, extractor)] if layout_runs else [],
        )

    def read_cases(self, run: Run) -> Iterator[tuple[str, CaseReading]]:
        from .cases import read_cases

        return read_cases(run)

    def name_run(self, run: Logged) -> str:
        from .names import format_base_name

        prompt = format_base_name(run.setting)
        return run.model_name + (f" ({prompt})" if prompt != "B0" else "")


def split_runs(runs: Iterable[Run]) -> tuple[list[Run], list[ScoredRun]]:
    """Split runs into those with chosen options and those with option scores.

    Args:
        runs: The runs.

    Returns:
        Both lists, in the order of the runs.
    """
    from .option_scores import ScoredRun

    all_runs = [*runs]
    scored = [run for run in all_runs if isinstance(run, ScoredRun)]
    return [run for run in all_runs if not isinstance(run, ScoredRun)], scored


BENCHMARK = _CXRContraBench(
    name="cxr-contrabench",
    title="CXR-ContraBench",
    score_note=(
        "Accuracies and rates are percentages of all questions asked: a response that could not be read or declines "
        "to answer is wrong, and the rates of both are next to the scores (unread, declined)."
    ),
    task_prefix="medfaith_contrabench",
    task_group="medfaith_contrabench",
    table_files=r"casebook(_original)?|contrabench_(readings|confidence|evidence)(_original)?|runs|(table|figure)_\d\d_\w+",
    figure_prefix="figure_contrabench",
    figure_titles={
        "figure_contrabench_03": "Accuracy before and after the verifier, and what the answers are",
        "figure_contrabench_05": "Gaps of option scores",
        "figure_contrabench_08": "Intervals, and permutation tests of the verifier's gain",
        "figure_contrabench_09": "Slices of ReXVQA: few answers change",
        "figure_contrabench_10": "All models on the absence protocols",
        "figure_contrabench_11": "Training split next to validation split",
        "figure_contrabench_12": "Paraphrased questions, and the order of options",
        "figure_contrabench_confidence": "Stated confidence, and how often it is right",
    },
    audited_tasks=(
        "medfaith_contrabench_chexpert_presence",
        "medfaith_contrabench_chexpert_absence",
        "medfaith_contrabench_chexpert_positive_only",
        "medfaith_contrabench_openi_report_absence",
        "medfaith_contrabench_chexlocalize_presence",
        "medfaith_contrabench_chexlocalize_presence_test",
        "medfaith_contrabench_chexlocalize_positive_only",
        "medfaith_contrabench_chexlocalize_positive_only_test",
    ),
    has_failures_judged=True,
    quickstart_runs={"medfaith_contrabench": None},
    quickstart_tasks=("medfaith_contrabench_chexpert_presence_train", "medfaith_contrabench_chexpert_absence"),
    quickstart_rows=90,
)
