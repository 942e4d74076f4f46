"""The papers' tables from sample logs of lm-eval, for one model or many.

All figures are computed from the responses in the sample logs with this package's metrics, not from lm-eval's rounded
results.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from medfaith.loaders.atomic import atomic_folder, require_elsewhere, require_replaceable
from medfaith.loaders.errors import NO_SPACE, InputError, MedfaithError
from medfaith.loaders.escaping import escape_markdown
from medfaith.loaders.progress import Progress

from .benchmark import NO_FURTHER_SOURCES, ReportedBenchmark, ReportSources
from .compare.tables import compare
from .costs import build_cost_tables
from .decoders import build_decoder_tables
from .page.pictures import Pixels
from .page.write import write_page
from .pictures import files
from .published import add_published_tables
from .registry import BENCHMARKS
from .results import Results, read_results
from .second_readings import build_second_readings
from .tables import Table
from .unread import collect_run_notes

if TYPE_CHECKING:
    from matplotlib.figure import Figure

REPORT = "report.md"
_OWN_TABLES = r"comparison|decoders|published_\w+"  # names of the tables that belong to no benchmark
_PAPERS = "Tables are named after those of the paper that they follow."
_TABLES = (
    "– is undefined. The CSV files hold the same values unrounded, as fractions. Research only: no result here says "
    "anything about clinical use."
)


def make_report(
    paths: Sequence[Path],
    out: Path | None = None,
    sources: ReportSources = NO_FURTHER_SOURCES,
    *,
    html: Path | None = None,
    pixels: Pixels | None = None,
    compared: bool = False,
    rows: Path | None = None,
) -> Report:
    """Collect the tables of the runs and, with `out` or `html`, save them.

    Args:
        paths: Folders, results files or sample files of `lm_eval --output_path X --log_samples`.
        out: Folder for report.md, each table as CSV and LaTeX, and figures. It is new, empty, or holds an earlier
            report, which is replaced atomically.
        sources: Annotations, a second reader and other additions.
        html: File for the report as one page (reporting.page); None for no page.
        pixels: Sources of small pictures of the models' inputs, for the page and for sheets in `out`; None for no
            pictures.
        compared: Whether to add a table that compares the model of each path with the model of the first path.
        rows: A file with the ids of the rows that count (loaders.row_ids); None for all rows.

    Returns:
        The report.

    Raises:
        InputError: As `results.read_results`, `compare.tables.compare` and `benchmark.ReportedBenchmark.score`; or
            `out` holds other files or cannot be written, or `html` is a folder or a device.
        MedfaithError: As `extractor.language_model`; a contact sheet cannot be drawn, or is asked for without `out`.
    """
    if sources.sheet is not None and out is None:
        raise MedfaithError("a contact sheet needs a folder\n  what to do: give --out DIR, too")
    if out is not None:
        _check_out(out)
    if html is not None:
        require_replaceable(html)
    report = collect(paths, sources, compared=compared, rows=rows, figures=bool(out or html))
    if out is not None:
        if pixels is not None:
            report = add_image_sheets(report, pixels)
        tables = [table for section in report.sections for table in section.tables]
        files_by_name = {f"{table.name}.csv": table.csv() for table in tables}
        files_by_name |= {f"{table.name}.tex": table.latex() for table in tables}
        _save(out, {REPORT: report.markdown(), **files_by_name, **files(report.figures)})
    if html is not None:
        write_page(html, report, paths, pixels=pixels)
    return report


def add_image_sheets(report: Report, pixels: Pixels) -> Report:
    """Add sheets of images to the figures of a report.

    Args:
        report: The report.
        pixels: Sources of the pictures.

    Returns:
        The report with the sheets; unchanged without matplotlib.

    Raises:
        InputError: As `benchmark.ReportedBenchmark.draw_sheets`.
        ImageError: As `benchmark.ReportedBenchmark.draw_sheets`.
    """
    from importlib.util import find_spec

    if find_spec("matplotlib") is None:  # the notes of the report say so
        return report
    figures, notes = report.figures, report.notes
    for benchmark, runs in report.results.runs.items():
        sheets, left_out = benchmark.draw_sheets(runs, pixels)
        figures, notes = figures | sheets, notes + left_out
    return report._replace(figures=figures, notes=notes)


class Section(NamedTuple):
    """The tables of one benchmark or of one kind.

    Attributes:
        title: The title.
        tables: The tables.
    """

    title: str
    tables: list[Table]


class Report(NamedTuple):
    """The tables and figures of finished runs.

    Attributes:
        results: The runs.
        introduction: How to read the tables.
        sections: The tables by benchmark.
        notes: Warnings and notes.
        figures: Figures by file name.
    """

    results: Results
    introduction: str
    sections: list[Section]
    notes: list[str]
    figures: dict[str, Figure]

    @property
    def title(self) -> str:
        """Title with the names of the benchmarks."""
        names = self.results.titles
        return "Results: " + " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)

    def markdown(self) -> str:
        """Format the report as Markdown."""
        tables = [table.markdown() for section in self.sections for table in section.tables]
        introduction = f"# {self.title}\n\n{textwrap.fill(self.introduction, 120)}"
        return "\n\n".join([introduction, *tables, *_format_notes(self.notes)]) + "\n"


def collect(
    paths: Sequence[Path],
    sources: ReportSources = NO_FURTHER_SOURCES,
    *,
    compared: bool = False,
    rows: Path | None = None,
    figures: bool = True,
    controls: bool = True,
) -> Report:
    """Collect all tables and figures of the runs.

    Args:
        paths: As for `make_report`.
        sources: As for `make_report`.
        compared: As for `make_report`.
        rows: As for `make_report`.
        figures: Whether to draw the figures.
        controls: Whether the tables include runs under a control; `Report.results` always does.

    Returns:
        The report.

    Raises:
        InputError: As `make_report`.
        MedfaithError: As `make_report`.
    """
    all_results = read_results(paths, rows)
    results = all_results if controls else all_results.with_the_image()
    scores = {benchmark: benchmark.score(runs, sources) for benchmark, runs in results.runs.items()}
    builders: dict[str, Callable[[], tuple[list[Table], list[str]]]] = {
        **{benchmark.title: partial(_build_tables, benchmark, of_runs) for benchmark, of_runs in scores.items()},
        "Decoders": lambda: (build_decoder_tables(results.collect_answers()[0]), []),
        "Costs": lambda: (build_cost_tables(run.source for run in results.with_the_image().all), []),
        "Second readings": lambda: build_second_readings(results, sources.extractor) if sources.extractor else ([], []),
        "Comparison": lambda: _compare_models(paths, rows) if compared else ([], []),
    }
    sections = []
    warnings = [warning for benchmark, runs in results.runs.items() for warning in benchmark.warn(runs)]
    notes = [*collect_run_notes(results.in_words), *warnings, *results.notes]
    for title, build in Progress(builders.items(), title="making tables", unit="sections"):
        tables, section_notes = build()
        sections.append(Section(title, tables))
        notes += section_notes
    sections = _move_runs_last(sections)
    drawn_figures: dict[str, Figure] = {}
    if figures:
        for benchmark, of_runs in Progress(scores.items(), title="drawing figures", unit="benchmarks"):
            new_figures, left_out = benchmark.draw_figures(of_runs)
            drawn_figures |= new_figures
            notes += left_out
    reported = [benchmark for benchmark, runs in results.runs.items() if runs]
    score_notes = [benchmark.score_note for benchmark in reported]
    papers = [_PAPERS] if any(benchmark.has_paper for benchmark in reported) else []
    paragraph = ["Computed from lm-eval's sample logs.", *score_notes, *papers, _TABLES]
    return Report(
        all_results, " ".join(paragraph), [section for section in sections if section.tables], notes, drawn_figures
    )


def _build_tables(benchmark: ReportedBenchmark, scores: Any) -> tuple[list[Table], list[str]]:
    """Build the tables of a benchmark, with the paper's figures for the same models."""
    tables, notes = benchmark.build_tables(scores)
    return add_published_tables(benchmark, tables), notes


def _compare_models(paths: Sequence[Path], rows: Path | None) -> tuple[list[Table], list[str]]:
    """Compare the models of the paths."""
    comparison = compare(paths, rows=rows)
    return [comparison.table()], comparison.notes


def _move_runs_last(sections: Sequence[Section]) -> list[Section]:
    """Move the tables of runs into a section after all results."""
    runs = [table for section in sections for table in section.tables if table.name.endswith("runs")]
    results = [Section(title, [table for table in tables if table not in runs]) for title, tables in sections]
    return [*results, Section("Runs", runs)]


def _format_notes(notes: Sequence[str]) -> list[str]:
    return ["## Notes\n\n" + "\n".join(f"- {escape_markdown(note)}" for note in notes)] if notes else []


def _check_out(out: Path) -> None:
    """Require a folder that is new, empty or holds a report, and not the current one; other folders stay unchanged."""
    require_elsewhere(out)
    if out.exists() and not out.is_dir():
        raise InputError(out, "is not a folder", action="choose another --out")
    names = {path.name for path in out.iterdir()} if out.exists() else set()
    other_files = {name for name in names if not _match_own_file(name)}
    if names and REPORT not in names:
        other_files = names
    if other_files:
        raise InputError(out, f"holds files other than a report ({min(other_files)})", action="choose another --out")


def _match_own_file(name: str) -> bool:
    """Whether a report writes files of this name."""
    tables = "|".join([_OWN_TABLES, *(benchmark.table_files for benchmark in BENCHMARKS.values())])
    figures = "|".join(benchmark.figure_prefix for benchmark in BENCHMARKS.values())
    pattern = rf"{re.escape(REPORT)}|({tables})\.(csv|tex)|({figures})_\w+\.(png|pdf|svg)"
    return re.fullmatch(pattern, name) is not None


def _save(out: Path, files: Mapping[str, str | bytes]) -> None:
    """Write the folder atomically; after an error the old report is unchanged."""
    try:
        with atomic_folder(out) as folder:
            for name, content in files.items():
                (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    except OSError as error:
        action = "free some space or choose another --out" if error.errno in NO_SPACE else "choose another --out"
        raise InputError(out, f"cannot be written ({error.strerror or error})", action=action) from error
