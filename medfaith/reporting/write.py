"""The papers' tables from sample logs of lm-eval, for one model or many.

The benchmarks are CXR-ContraBench, HEAL-MedVQA, SurgXBench and That's the Wrong Lung! All figures are computed from the
responses in the sample logs with this package's metrics, not from lm-eval's rounded results.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from medfaith.annotate.answers import read_errors, read_files
from medfaith.compare.answers import all_answers
from medfaith.compare.tables import compare
from medfaith.extractor import Extractor
from medfaith.loaders.atomic import atomic_folder
from medfaith.loaders.errors import NO_SPACE, InputError, MedfaithError
from medfaith.loaders.escaping import escape_markdown
from medfaith.loaders.progress import Progress

from .contrabench.audit import build_audit_tables
from .contrabench.figures import draw_contrabench_figures
from .contrabench.option_scores import build_polarity_gap_table
from .contrabench.tables import build_contrabench_tables, build_for_each_layout
from .costs import build_cost_tables
from .decoders import build_decoder_tables
from .heal.figures import draw_heal_figures
from .heal.tables import build_heal_tables
from .image_sheets import draw_image_sheets
from .page.pictures import Pixels
from .page.write import write_page
from .pictures import Drawn, files
from .published import build_published_tables
from .results import Results, read_results
from .second_readings import build_second_readings
from .surgx.figures import draw_surgx_figures
from .surgx.overlays import Sheet
from .surgx.tables import build_surgx_tables, warn_tied
from .tables import Table
from .unread import collect_run_notes
from .wrong_lung.abnormalities import AbnormalityScores, build_abnormality_tables, group_by_abnormality, read_affirmed
from .wrong_lung.annotations import build_annotation_tables
from .wrong_lung.correlations import build_annotation_correlations
from .wrong_lung.figures import draw_wrong_lung_figures
from .wrong_lung.scores import ModelScores, score_models
from .wrong_lung.tables import build_wrong_lung_tables

if TYPE_CHECKING:
    from matplotlib.figure import Figure

REPORT = "report.md"
_OWN_FILE = re.compile(
    r"report\.md|(comparison|decoders|casebook(_original)?|heal_extractors|contrabench_(readings|confidence|evidence)(_original)?|heal_readings|"
    r"(heal_)?(runs|(table|figure)_\d\d_\w+)|surgx_(runs|triplets|occlusion|figure_\w+)|wrong_lung_\w+|published_\w+)\.(csv|tex)"
    r"|figure_(contrabench|heal|surgx|wrong_lung)_\w+\.(png|pdf|svg)"
)
_SCORES = {
    "CXR-ContraBench": "Accuracies and rates are percentages of all questions asked: a response that could not be read "
    "or declines to answer is wrong, and the rates of both stand next to the scores (unread, declined).",
    "HEAL-MedVQA": "F1, precision, recall, TPT and VPT are fractions, as that paper prints them; responses that could "
    "not be read or decline to answer are wrong, and both are counted (unread, declined).",
    "SurgXBench": "F1, precision and recall are fractions; AA, AC, RAS, shares and AP are percentages, as that paper "
    "prints them; an answer that could not be read or declines predicts nothing and is counted (unread, declined).",
    "That's the Wrong Lung!": "AUROC, average precision, IOU, precision and candidate accuracy are percentages, as "
    "that paper prints them, entropy and divergence nats; a sentence without attention has no score and is counted.",
}
_TABLES = (
    "– is undefined. Tables are named after those of the paper that they follow; the CSV files hold the same values "
    "unrounded, as fractions. Research only: no result here says anything about clinical use."
)


def write_report(*arguments: Any, **options: Any) -> str:
    """Write the report and return it as Markdown.

    Args:
        arguments: As for `make_report`.
        options: As for `make_report`.

    Returns:
        The Markdown text.
    """
    return make_report(*arguments, **options).markdown()


def make_report(
    paths: Sequence[Path],
    out: Path | None = None,
    extractor: Extractor | None = None,
    sheet: Sheet | None = None,
    annotations: Sequence[Path] = (),
    data: str | None = None,
    compared: bool = False,
    rows: Path | None = None,
    html: Path | None = None,
    pixels: Pixels | None = None,
) -> Report:
    """Collect the tables of the runs and, with `out` or `html`, save them.

    Args:
        paths: Folders, results files or sample files of `lm_eval --output_path X --log_samples`.
        out: Folder for report.md, each table as CSV and LaTeX, and figures. It is new, empty, or holds an earlier
            report, which is replaced atomically.
        extractor: Language model that reads the answers of CXR-ContraBench and HEAL-MedVQA a second time.
        sheet: Sources of a contact sheet of SurgXBench's heatmaps; None for no sheet.
        annotations: Files of answers from `medfaith annotate`.
        data: The build with the labels of the annotated sentences; None leaves out Wrong Lung Figure 16.
        compared: Whether to add a table that compares the model of each path with the model of the first path.
        rows: A file with the ids of the rows that count (loaders.row_ids); None for all rows.
        html: File for the report as one page (reporting.page); None for no page.
        pixels: Sources of small pictures of the models' inputs, for the page and for sheets in `out`; None for no
            pictures.

    Returns:
        The report.

    Raises:
        InputError: As `results.read_results`, `annotate.answers.read_files`, `compare.tables.compare` and
            `wrong_lung.abnormalities.read_affirmed`; or `out` holds other files or cannot be written.
        MedfaithError: As `extractor.language_model` and `surgx.overlays.contact_sheet`; or `sheet` without `out`.
    """
    if sheet is not None and out is None:
        raise MedfaithError("a contact sheet needs a folder\n  what to do: give --out DIR, too")
    if out is not None:
        _check_out(out)
    report = collect(paths, extractor, sheet, annotations, data, compared, rows, figures=bool(out or html))
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
        InputError: As `image_sheets.draw_image_sheets`.
        ImageError: As `image_sheets.draw_image_sheets`.
    """
    from importlib.util import find_spec

    if find_spec("matplotlib") is None:  # the notes of the report say so
        return report
    sheets, notes = draw_image_sheets(report.results, pixels)
    return report._replace(figures=report.figures | sheets, notes=[*report.notes, *notes])


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
        names = _list_benchmarks(self.results)
        return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names) + " results"

    def markdown(self) -> str:
        """Format the report as Markdown."""
        tables = [table.markdown() for section in self.sections for table in section.tables]
        introduction = f"# {self.title}\n\n{textwrap.fill(self.introduction, 120)}"
        return "\n\n".join([introduction, *tables, *_format_notes(self.notes)]) + "\n"


def collect(
    paths: Sequence[Path],
    extractor: Extractor | None = None,
    sheet: Sheet | None = None,
    annotations: Sequence[Path] = (),
    data: str | None = None,
    compared: bool = False,
    rows: Path | None = None,
    *,
    figures: bool = True,
    controls: bool = True,
) -> Report:
    """Collect all tables and figures of the runs.

    Args:
        paths: As for `make_report`.
        extractor: As for `make_report`.
        sheet: As for `make_report`.
        annotations: As for `make_report`.
        data: As for `make_report`.
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
    lung_scores = score_models(results.wrong_lung)
    annotated = _collect_annotations(lung_scores, annotations, data)
    (lung_tables, lung_notes), (second_tables, second_notes) = (
        build_wrong_lung_tables(lung_scores),
        _read_second_time(results, extractor),
    )
    comparison, comparison_notes = _compare_models(paths, rows) if compared else ([], [])
    gap_tables = build_for_each_layout(results.scored, lambda runs: [build_polarity_gap_table(runs)] if runs else [])
    builders: dict[str, Callable[[], list[Table]]] = {
        "CXR-ContraBench": lambda: (
            build_contrabench_tables(results.runs) + gap_tables + build_audit_tables(read_errors(annotations))
        ),
        "HEAL-MedVQA": lambda: build_heal_tables(results.heal),
        "SurgXBench": lambda: build_surgx_tables(results.surgx),
        "That's the Wrong Lung!": lambda: lung_tables + annotated.tables,
        "Decoders": lambda: build_decoder_tables(all_answers(results)[0]),
        "Costs": lambda: build_cost_tables(run.source for run in results.with_the_image().all),
        "Second readings": lambda: second_tables,
        "Comparison": lambda: comparison,
    }
    progress = Progress(builders.items(), title="making tables", unit="sections")
    sections = [Section(title, build()) for title, build in progress]
    sections = [
        Section(title, [*tables, *build_published_tables(title, tables)]) for title, tables in _move_runs_last(sections)
    ]
    notes = [
        *collect_run_notes([*results.runs, *results.heal, *results.surgx]),
        *warn_tied(results.surgx),
        *results.notes,
    ]
    notes += [*lung_notes, *annotated.notes, *second_notes, *comparison_notes]
    drawn_figures: dict[str, Figure] = {}
    if figures:
        uncontrolled = results.with_the_image()
        drawers: list[Callable[[], Drawn]] = [
            lambda: draw_contrabench_figures(uncontrolled.runs, uncontrolled.scored),
            lambda: draw_heal_figures(uncontrolled.heal),
            lambda: draw_surgx_figures(results.surgx, sheet),
            lambda: draw_wrong_lung_figures(lung_scores, annotated.abnormalities),
        ]
        for draw in Progress(drawers, title="drawing figures", unit="benchmarks"):
            new_figures, left_out = draw()
            drawn_figures |= new_figures
            notes += left_out
    paragraph = [
        "Computed from lm-eval's sample logs.",
        *(_SCORES[name] for name in _list_benchmarks(results)),
        _TABLES,
    ]
    return Report(
        all_results, " ".join(paragraph), [section for section in sections if section.tables], notes, drawn_figures
    )


class _Annotations(NamedTuple):
    """Tables, notes and scores from annotators' answers about heatmaps."""

    tables: list[Table]
    notes: list[str]
    abnormalities: list[AbnormalityScores]


def _collect_annotations(
    compute_model_scores: Sequence[ModelScores], annotations: Sequence[Path], data: str | None
) -> _Annotations:
    """Collect the tables of annotations; empty without files, without abnormalities unless `data` has the labels."""
    if not annotations:
        return _Annotations([], [], [])
    judgements, file_notes = read_files(annotations)
    correlation_tables, notes = build_annotation_correlations(compute_model_scores, judgements)
    tables = build_annotation_tables(judgements, file_notes) + correlation_tables
    if data is None:
        return _Annotations(
            tables, [*notes, "Wrong Lung Figure 16 needs the labels of the judged sentences: --data"], []
        )
    affirmed, unknown = read_affirmed(data, judgements)
    abnormalities = group_by_abnormality(judgements, affirmed)
    return _Annotations(tables + build_abnormality_tables(abnormalities), [*notes, *unknown], abnormalities)


def _read_second_time(results: Results, extractor: Extractor | None) -> tuple[list[Table], list[str]]:
    """Build the tables of second readings; none without an extractor."""
    return build_second_readings(results.runs, results.heal, extractor) if extractor else ([], [])


def _compare_models(paths: Sequence[Path], rows: Path | None) -> tuple[list[Table], list[str]]:
    """Compare the models of the paths."""
    comparison = compare(paths, rows=rows)
    return [comparison.table()], comparison.notes


def _move_runs_last(sections: Sequence[Section]) -> list[Section]:
    """Move the tables of runs into a section after all results."""
    runs = [table for section in sections for table in section.tables if table.name.endswith("runs")]
    results = [Section(title, [table for table in tables if table not in runs]) for title, tables in sections]
    return [*results, Section("Runs", runs)]


def _list_benchmarks(results: Results) -> list[str]:
    """List the benchmarks that have runs."""
    has_runs = [bool(results.runs or results.scored), *map(bool, (results.heal, results.surgx, results.wrong_lung))]
    return [name for name, has_run in zip(_SCORES, has_runs, strict=True) if has_run]


def _format_notes(notes: Sequence[str]) -> list[str]:
    return ["## Notes\n\n" + "\n".join(f"- {escape_markdown(note)}" for note in notes)] if notes else []


def _check_out(out: Path) -> None:
    """Require a folder that is new, empty or holds a report; other folders stay unchanged."""
    if out.exists() and not out.is_dir():
        raise InputError(out, "is not a folder", action="choose another --out")
    names = {path.name for path in out.iterdir()} if out.exists() else set()
    other_files = {name for name in names if not _OWN_FILE.fullmatch(name)}
    if names and REPORT not in names:
        other_files = names
    if other_files:
        raise InputError(out, f"holds files other than a report ({min(other_files)})", action="choose another --out")


def _save(out: Path, files: Mapping[str, str | bytes]) -> None:
    """Write the folder atomically; after an error the old report is unchanged."""
    try:
        with atomic_folder(out) as folder:
            for name, content in files.items():
                (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    except OSError as error:
        action = "free some space or choose another --out" if error.errno in NO_SPACE else "choose another --out"
        raise InputError(out, f"cannot be written ({error.strerror or error})", action=action) from error
