"""The contract of a benchmark for finished runs; `builders.benchmark` is the contract for builds.

`report`, `compare`, `audit`, the page and `quickstart` know benchmarks only through this class. `registry` lists them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from medfaith.logs.files import SampleFile
from medfaith.logs.lines import Logged

if TYPE_CHECKING:
    from medfaith.extractor import Extractor
    from medfaith.loaders.progress import Progress
    from medfaith.tasks.index import Task

    from .answers import Answers
    from .page.cases import Case, CaseReading
    from .page.pictures import Pixels
    from .pictures import Drawn
    from .tables import Table

ReferenceModels = Mapping[str, tuple[str, Mapping[str, str]]]  # row of a table -> model and its arguments


class Sheet(NamedTuple):
    """Sources of a contact sheet of heatmaps.

    Attributes:
        heatmaps: The store of the models' heatmaps.
        data: The build, or a Hub organisation.
        roots: Source id -> folder with the licensed images.
        causal_graphs: Folder in which models saved causal graphs; None for no picture of them.
    """

    heatmaps: Path
    data: str
    roots: Mapping[str, Path]
    causal_graphs: Path | None = None


class ReportSources(NamedTuple):
    """What a report is made from next to the runs.

    Attributes:
        annotations: Files of answers from `medfaith annotate`.
        data: The build with the labels of annotated rows; None for no tables that need them.
        sheet: Sources of a contact sheet of heatmaps; None for no sheet.
        extractor: Language model that reads answers a second time; None for no second reading.
    """

    annotations: Sequence[Path] = ()
    data: str | None = None
    sheet: Sheet | None = None
    extractor: Extractor | None = None


NO_FURTHER_SOURCES = ReportSources()


class AnnotatedTask(NamedTuple):
    """The task whose heatmaps people judge (`medfaith annotate`); each row asks about one sentence and its image.

    Attributes:
        name: Name of the task.
        repository: Repository of its rows.
        config: Config of its rows.
        split: Split of its rows.
        map_name: Name of a row's only map in the store of heatmaps.
    """

    name: str
    repository: str
    config: str
    split: str
    map_name: str


class Heatmap(NamedTuple):
    """A reference to the heatmaps of one answer.

    Attributes:
        task: Name of the task.
        condition: The control and the wording, or `page.cases.IMAGE`.
        row_id: Id of the row.
        model: Name of the run on the page.
        reference: The reference in the model's store.
    """

    task: str
    condition: str
    row_id: str
    model: str
    reference: str


class AuthorsResults(NamedTuple):
    """Answers in a results file of the paper's own code.

    Attributes:
        model: Name of the model in the file, "" if it has none.
        lines: The lines of a sample log.
        n: Number of answers.
        notes: Comparisons of the scores with those of the file.
    """

    model: str
    lines: Sequence[Mapping[str, Any]]
    n: int
    notes: Sequence[str]


@dataclass(frozen=True, eq=False, kw_only=True)
class ReportedBenchmark(ABC):
    """The finished runs of one benchmark.

    Methods import the benchmark's modules, so that a command that only names benchmarks starts fast. `Any` in place of
    a run or of scores is the benchmark's own class.

    Attributes:
        name: Name on the command line, the same as in `builders.registry`.
        title: Title in tables and on pages.
        score_note: A sentence on the units of its scores and on unread answers, for the introduction of a report.
        has_paper: Whether its tables follow a paper's.
        task_prefix: Beginning of the names of its tasks.
        task_group: A group or task to run first.
        table_files: Regular expression of the names of its tables, without suffix.
        figure_prefix: Beginning of the names of its figures.
        figure_titles: Name of a figure -> title on the page, for figures whose number says too little.
        pixel_figures: Names of its figures with licensed pixels, which a page leaves out.
        audited_tasks: Tasks of `medfaith audit`. Perturbation tests have controls of their own, and tasks that ask the
            same rows again are left out.
        needs_heatmaps: Whether only models with heatmaps can be audited.
        quickstart_runs: Group or task -> reference models that `medfaith quickstart` runs; None for those without
            heatmaps.
        quickstart_tasks: Tasks that `medfaith quickstart` audits, none if it leaves the benchmark out; with training
            splits where rule 2 needs them, which takes 60 patients at the least to find no use of the image.
        quickstart_rows: Number of rows of each of these tasks, enough for a verdict on each reference model.
        has_sentences: Whether its questions are sentences of reports, which a page may hold only with the images.
        annotated_task: The task whose heatmaps people judge; None for none.
        has_failures_judged: Whether people judge its failed answers (`medfaith annotate --errors`).
    """

    name: str
    title: str
    score_note: str
    has_paper: bool = True
    task_prefix: str
    task_group: str
    table_files: str
    figure_prefix: str
    figure_titles: Mapping[str, str] = field(default_factory=dict)
    pixel_figures: Sequence[str] = ()
    audited_tasks: Sequence[str]
    needs_heatmaps: bool = False
    quickstart_runs: Mapping[str, ReferenceModels | None]
    quickstart_tasks: Sequence[str]
    quickstart_rows: int = 140
    has_sentences: bool = False
    annotated_task: AnnotatedTask | None = None
    has_failures_judged: bool = False

    @abstractmethod
    def read_runs(self, file: SampleFile, progress: Callable[[int], Any]) -> Sequence[Any]:
        """Read the runs of one sample log.

        Args:
            file: The log.
            progress: Called with the number of bytes of each line read.

        Returns:
            The runs, one for each setting; none for a log of another benchmark.

        Raises:
            InputError: As `logs.lines.read_lines`.
        """

    def read_authors_results(self, path: Path, task: Task) -> AuthorsResults | None:
        """Read a results file of the paper's own code (`medfaith read-results`).

        Args:
            path: The file.
            task: The task with the same questions.

        Returns:
            The answers; None for a benchmark without such files.

        Raises:
            InputError: The file is no such file, or a record is broken.
        """
        return None

    def complete_runs(self, runs: Sequence[Any], progress: Progress) -> tuple[list[Any], list[str]]:
        """Complete and sort the newest runs of all models.

        Args:
            runs: The runs.
            progress: Bar over bytes; further files raise its total.

        Returns:
            The runs, and notes on what is missing from them.

        Raises:
            InputError: A further file is broken.
        """
        return [*runs], []

    @abstractmethod
    def collect_answers(self, runs: Iterable[Any]) -> tuple[list[Answers], list[str]]:
        """Collect the answers of the runs that have a figure in which more is better.

        Args:
            runs: The runs.

        Returns:
            The answers, and a note for each run that is left out.
        """

    def warn(self, runs: Sequence[Any]) -> list[str]:
        """Warn of runs whose scores mislead.

        Args:
            runs: The runs.

        Returns:
            The warnings.
        """
        return []

    def score(self, runs: Sequence[Any], sources: ReportSources) -> Any:
        """Compute what tables and figures share.

        Args:
            runs: The runs.
            sources: Further files.

        Returns:
            The scores, as `build_tables` and `draw_figures` take them.

        Raises:
            InputError: A file of `sources` cannot be read.
        """
        return runs

    @abstractmethod
    def build_tables(self, scores: Any) -> tuple[list[Table], list[str]]:
        """Build the paper's tables; a table whose name ends with "runs" lists the runs.

        Args:
            scores: The result of `score`.

        Returns:
            The tables, and notes.
        """

    @abstractmethod
    def draw_figures(self, scores: Any) -> Drawn:
        """Draw the paper's figures.

        Args:
            scores: The result of `score`.

        Returns:
            Figures by file name, and notes on figures that are left out.
        """

    def read_again(self, runs: Sequence[Any], extractor: Extractor) -> list[Table]:
        """Build the tables of answers that a language model reads a second time.

        Args:
            runs: The runs.
            extractor: The language model.

        Returns:
            The tables; none if no answer has a second reader.
        """
        return []

    def read_cases(self, run: Any) -> Iterator[tuple[str, CaseReading]]:
        """Read the questions and answers of a run in words, for the page.

        Args:
            run: The run.

        Returns:
            (row id, question with its reading) of each row; none for a benchmark without answers in words.
        """
        return iter(())

    def name_run(self, run: Logged) -> str:
        """Name a run on the page: the model with what distinguishes its runs.

        Args:
            run: The run, without its control.

        Returns:
            The name.
        """
        return run.name

    def get_text(self, response: str) -> str:
        """Get the text of a response, without scores and heatmaps.

        Args:
            response: The response as logged.

        Returns:
            The text.
        """
        return response

    def read_heatmaps(self, response: str) -> str | None:
        """Read the reference to the heatmaps of a response.

        Args:
            response: The response as logged.

        Returns:
            The reference in the model's store; None for a response without heatmaps.
        """
        return None

    def find_heatmaps(self, runs: Sequence[Any], ids: Collection[str]) -> Iterator[Heatmap]:
        """Find the heatmaps of answers.

        Args:
            runs: The runs.
            ids: Ids of rows.

        Returns:
            The references of answers to these rows.
        """
        return iter(())

    def collect_sentence_cases(self, runs: Sequence[Any], pixels: Pixels) -> list[Case]:
        """Collect the questions that a page may hold only together with their images.

        Args:
            runs: The runs.
            pixels: Sources of the pictures.

        Returns:
            The cases; none if the data lack the sentences.
        """
        return []

    def draw_sheets(self, runs: Sequence[Any], pixels: Pixels) -> Drawn:
        """Draw sheets of licensed images.

        Args:
            runs: The runs.
            pixels: Sources of the pictures.

        Returns:
            Figures by file name, and notes on tasks without pictures.

        Raises:
            InputError: As `page.pictures.pictures`.
            ImageError: As `page.pictures.pictures`.
        """
        return {}, []


def select_uncontrolled(runs: Iterable[Any]) -> list[Any]:
    """Select the runs without a control and with the published wording.

    Args:
        runs: The runs.

    Returns:
        These runs.
    """
    return [run for run in runs if not {"control", "wording"} & dict(run.source.told).keys()]
