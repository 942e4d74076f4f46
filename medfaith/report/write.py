"""The papers' tables from the files that lm-eval wrote, of one model or many.

They are those of CXR-ContraBench, HEAL-MedVQA, SurgXBench and That's the Wrong Lung! Every figure is computed from the
sample logs (the choices, the responses), by the metrics of this package; the rounded results that lm-eval prints are
not used.
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

from .contrabench_audit import audit_tables
from .contrabench_figures import contrabench_pictures
from .contrabench_option_scores import polarity_gap_table
from .contrabench_tables import contrabench_tables, in_each_layout
from .costs import cost_tables
from .decoders import decoder_table
from .heal_figures import heal_pictures
from .heal_tables import heal_tables
from .image_sheets import image_sheets
from .page.pictures import Pixels
from .page.write import write_page
from .pictures import Drawn, files
from .published import beside_the_papers
from .results import Results, read_results
from .second_readings import second_readings
from .surgx_figures import surgx_pictures
from .surgx_overlays import Sheet
from .surgx_tables import surgx_tables, tied_notes
from .tables import Table
from .unread import run_notes
from .wrong_lung_abnormalities import OfAbnormality, abnormality_tables, by_abnormality, read_affirmed
from .wrong_lung_annotations import annotation_tables
from .wrong_lung_correlations import annotation_correlations
from .wrong_lung_figures import wrong_lung_pictures
from .wrong_lung_scores import ModelScores, score_models
from .wrong_lung_tables import wrong_lung_tables

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


def write_report(*arguments: Any, **named: Any) -> str:
    """The report of `make_report` as Markdown."""
    return make_report(*arguments, **named).markdown()


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
    """What the runs say; with `out`, also saved there: report.md, each table as CSV and LaTeX, pictures.

    Args:
        paths: folders, results files or sample files of `lm_eval --output_path X --log_samples`.
        out: folder for the report: new, empty, or one with an earlier report, which is replaced as a whole.
        extractor: reads the answers of CXR-ContraBench and HEAL-MedVQA a second time, for tables of their own.
        sheet: what a contact sheet of SurgXBench's heatmaps is drawn from; none is drawn without.
        annotations: files of what people answered to `medfaith annotate`.
        data: the build with the labels of the sentences that they judged; None leaves out Wrong Lung Figure 16.
        compared: whether to add a table that compares the model of each path with that of the first.
        rows: a file that names the rows that count (loaders.row_ids); None: all.
        html: a file for the report as one page (report.page); None writes none.
        pixels: where small pictures of what models were shown come from, on the page and in sheets of `out`; None:
            there are none.

    Raises:
        InputError: see `results.read_results`, `annotate.answers.read_files`, `compare.tables.compare`,
            `wrong_lung_abnormalities.read_affirmed`; or `out` holds other files or cannot be written.
        MedfaithError: see `extractor.language_model`, `surgx_overlays.contact_sheet`; or `sheet` without `out`.
    """
    if sheet is not None and out is None:
        raise MedfaithError("a contact sheet is a picture, which needs a place\n  what to do: give --out DIR, too")
    if out is not None:
        _check_out(out)
    found = collect(paths, extractor, sheet, annotations, data, compared, rows, figures=bool(out or html))
    if out is not None:
        if pixels is not None:
            found = with_image_sheets(found, pixels)
        tables = [table for section in found.sections for table in section.tables]
        saved = {f"{table.name}.csv": table.csv() for table in tables}
        saved |= {f"{table.name}.tex": table.latex() for table in tables}
        _save(out, {REPORT: found.markdown(), **saved, **files(found.figures)})
    if html is not None:
        write_page(html, found, paths, pixels=pixels)
    return found


def with_image_sheets(report: Report, pixels: Pixels) -> Report:
    """With sheets of images among its figures. Raises: as `image_sheets`."""
    from importlib.util import find_spec

    if find_spec("matplotlib") is None:  # a note says so already
        return report
    drawn, notes = image_sheets(report.results, pixels)
    return report._replace(figures=report.figures | drawn, notes=[*report.notes, *notes])


class Section(NamedTuple):
    """The tables of one benchmark, or of one kind."""

    title: str
    tables: list[Table]


class Report(NamedTuple):
    """What finished runs say. introduction: how the tables are to be read; figures: by the name of their files."""

    results: Results
    introduction: str
    sections: list[Section]
    notes: list[str]
    figures: dict[str, Figure]

    @property
    def title(self) -> str:
        names = _benchmarks(self.results)
        return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names) + " results"

    def markdown(self) -> str:
        tables = [table.markdown() for section in self.sections for table in section.tables]
        introduction = f"# {self.title}\n\n{textwrap.fill(self.introduction, 120)}"
        return "\n\n".join([introduction, *tables, *_notes(self.notes)]) + "\n"


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
    """All tables. Other arguments and Raises: of `make_report`.

    figures: whether to draw the figures, too. controls: whether the tables have runs under a control, too; the
    results have them in any case.
    """
    found = read_results(paths, rows)
    results = found if controls else found.with_the_image()
    lung = score_models(results.wrong_lung)
    annotated = _annotated(lung, annotations, data)
    (of_lung, lung_notes), (again, again_notes) = wrong_lung_tables(lung), _read_again(results, extractor)
    beside, beside_notes = _compared(paths, rows) if compared else ([], [])
    gap = in_each_layout(results.scored, lambda runs: [polarity_gap_table(runs)] if runs else [])
    making: dict[str, Callable[[], list[Table]]] = {
        "CXR-ContraBench": lambda: contrabench_tables(results.runs) + gap + audit_tables(read_errors(annotations)),
        "HEAL-MedVQA": lambda: heal_tables(results.heal),
        "SurgXBench": lambda: surgx_tables(results.surgx),
        "That's the Wrong Lung!": lambda: of_lung + annotated.tables,
        "Decoders": lambda: decoder_table(all_answers(results)[0]),
        "Costs": lambda: cost_tables(run.source for run in results.with_the_image().all),
        "Second readings": lambda: again,
        "Comparison": lambda: beside,
    }
    made = Progress(making.items(), title="making tables", unit="sections")
    sections = [Section(title, make()) for title, make in made]
    sections = [Section(title, [*tables, *beside_the_papers(title, tables)]) for title, tables in _runs_last(sections)]
    notes = [*run_notes([*results.runs, *results.heal, *results.surgx]), *tied_notes(results.surgx), *results.notes]
    notes += [*lung_notes, *annotated.notes, *again_notes, *beside_notes]
    drawn: dict[str, Figure] = {}
    if figures:
        answered = results.with_the_image()
        drawing: list[Callable[[], Drawn]] = [
            lambda: contrabench_pictures(answered.runs, answered.scored),
            lambda: heal_pictures(answered.heal),
            lambda: surgx_pictures(results.surgx, sheet),
            lambda: wrong_lung_pictures(lung, annotated.abnormalities),
        ]
        for draw in Progress(drawing, title="drawing figures", unit="benchmarks"):
            of_benchmark, left_out = draw()
            drawn |= of_benchmark
            notes += left_out
    paragraph = ["Computed from lm-eval's sample logs.", *(_SCORES[name] for name in _benchmarks(results)), _TABLES]
    return Report(found, " ".join(paragraph), [one for one in sections if one.tables], notes, drawn)


class _Annotated(NamedTuple):
    """What people said of heatmaps."""

    tables: list[Table]
    notes: list[str]
    abnormalities: list[OfAbnormality]


def _annotated(lung: Sequence[ModelScores], annotations: Sequence[Path], data: str | None) -> _Annotated:
    """Nothing without files of answers; no abnormalities without the build that knows them."""
    if not annotations:
        return _Annotated([], [], [])
    judgements, of_files = read_files(annotations)
    correlated, notes = annotation_correlations(lung, judgements)
    tables = annotation_tables(judgements, of_files) + correlated
    if data is None:
        return _Annotated(tables, [*notes, "Wrong Lung Figure 16 needs the labels of the judged sentences: --data"], [])
    affirmed, unknown = read_affirmed(data, judgements)
    abnormalities = by_abnormality(judgements, affirmed)
    return _Annotated(tables + abnormality_tables(abnormalities), [*notes, *unknown], abnormalities)


def _read_again(results: Results, extractor: Extractor | None) -> tuple[list[Table], list[str]]:
    """`second_readings`; nothing without extractor."""
    return second_readings(results.runs, results.heal, extractor) if extractor else ([], [])


def _compared(paths: Sequence[Path], rows: Path | None) -> tuple[list[Table], list[str]]:
    found = compare(paths, rows=rows)
    return [found.table()], found.notes


def _runs_last(sections: Sequence[Section]) -> list[Section]:
    """The tables of what was run in a section of their own, after what came of it."""
    runs = [table for section in sections for table in section.tables if table.name.endswith("runs")]
    results = [Section(title, [table for table in tables if table not in runs]) for title, tables in sections]
    return [*results, Section("Runs", runs)]


def _benchmarks(results: Results) -> list[str]:
    """The names of the benchmarks that the runs are of."""
    there = [bool(results.runs or results.scored), *map(bool, (results.heal, results.surgx, results.wrong_lung))]
    return [name for name, is_there in zip(_SCORES, there, strict=True) if is_there]


def _notes(notes: Sequence[str]) -> list[str]:
    return ["## Notes\n\n" + "\n".join(f"- {escape_markdown(note)}" for note in notes)] if notes else []


def _check_out(out: Path) -> None:
    """Only a report is ever replaced: a folder with anything else in it is left alone."""
    if out.exists() and not out.is_dir():
        raise InputError(out, "is not a folder", action="choose another --out")
    names = {path.name for path in out.iterdir()} if out.exists() else set()
    others = {name for name in names if not _OWN_FILE.fullmatch(name)}
    if names and REPORT not in names:
        others = names
    if others:
        raise InputError(out, f"holds something else than a report ({min(others)})", action="choose another --out")


def _save(out: Path, files: Mapping[str, str | bytes]) -> None:
    """Writes the folder as a whole: if anything fails, the old report stays as it was."""
    try:
        with atomic_folder(out) as folder:
            for name, content in files.items():
                (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    except OSError as error:
        action = "free some space or choose another --out" if error.errno in NO_SPACE else "choose another --out"
        raise InputError(out, f"cannot be written ({error.strerror or error})", action=action) from error
