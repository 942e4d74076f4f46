"""The papers' tables from the files that lm-eval wrote, of one model or many.

They are those of CXR-ContraBench, HEAL-MedVQA, SurgXBench and That's the Wrong Lung! Every figure is computed from the
sample logs (the choices, the responses), by the metrics of this package; the rounded results that lm-eval prints are
not used.
"""

from __future__ import annotations

import errno
import re
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from medfaith.annotate.answers import read_files
from medfaith.compare.tables import compare
from medfaith.extractor import Extractor
from medfaith.loaders.errors import InputError, MedfaithError
from medfaith.loaders.whole import whole_folder

from .contrabench_option_scores import polarity_gap_table
from .contrabench_tables import contrabench_tables, in_each_layout
from .heal_localization import heal_pictures
from .heal_tables import heal_tables
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

REPORT = "report.md"
_OWN_FILE = re.compile(
    r"report\.md|(comparison|casebook(_original)?|heal_extractors|contrabench_readings(_original)?|heal_readings|"
    r"(heal_)?(runs|(table|figure)_\d\d_\w+))\.csv"
    r"|surgx_(runs|triplets|occlusion|figure_\w+)\.csv|wrong_lung_\w+\.csv|figure_(heal|surgx|wrong_lung)_\w+\.png"
)
_SCORES = {
    "CXR-ContraBench": "Accuracies and rates are percentages of all questions asked: a response that could not be read "
    "is wrong, and the rate of such parse failures stands beside the scores (unread).",
    "HEAL-MedVQA": "F1, precision, recall, TPT and VPT are fractions, as that paper prints them; responses that could "
    "not be read are counted beside them (unread).",
    "SurgXBench": "F1, precision and recall are fractions; AA, AC, RAS, shares and AP are percentages, as that paper "
    "prints them; an answer that could not be read predicts nothing and is counted (unread).",
    "That's the Wrong Lung!": "AUROC, average precision, IOU, precision and candidate accuracy are percentages, as "
    "that paper prints them, entropy and divergence nats; a sentence without attention has no score and is counted.",
}
_TABLES = (
    "– is undefined. Tables are named after those of the paper that they follow; the CSV files hold the same values "
    "unrounded, as fractions. Research only: no result here says anything about clinical use."
)


def write_report(
    paths: Sequence[Path],
    out: Path | None = None,
    extractor: Extractor | None = None,
    sheet: Sheet | None = None,
    annotations: Sequence[Path] = (),
    data: str | None = None,
    compared: bool = False,
    rows: Path | None = None,
) -> str:
    """The report as Markdown; with `out`, also saved there: report.md, one CSV file a table, pictures.

    Args:
        paths: folders, results files or sample files of `lm_eval --output_path X --log_samples`.
        out: folder for the report: new, empty, or one with an earlier report, which is replaced as a whole.
        extractor: reads the answers of CXR-ContraBench and HEAL-MedVQA a second time, for tables of their own.
        sheet: what a contact sheet of SurgXBench's heatmaps is drawn from; none is drawn without.
        annotations: files of what people answered to `medfaith annotate`.
        data: the build with the labels of the sentences that they judged; None leaves out Wrong Lung Figure 16.
        compared: whether to add a table that compares the model of each path with that of the first.
        rows: a file that names the rows that count (loaders.row_ids); None: all.

    Raises:
        InputError: see `results.read_results`, `annotate.answers.read_files`, `compare.tables.compare`,
            `wrong_lung_abnormalities.read_affirmed`; or `out` holds other files or cannot be written.
        MedfaithError: see `extractor.language_model`, `surgx_overlays.contact_sheet`; or `sheet` without `out`.
    """
    if sheet is not None and out is None:
        raise MedfaithError("a contact sheet is a picture, which needs a place\n  what to do: give --out DIR, too")
    if out is not None:
        _check_out(out)
    results = read_results(paths, rows)
    tables = contrabench_tables(results.runs)
    notes = [*run_notes([*results.runs, *results.heal, *results.surgx]), *tied_notes(results.surgx)]
    notes += results.notes
    tables += in_each_layout(results.scored, lambda runs: [polarity_gap_table(runs)] if runs else [])
    tables += heal_tables(results.heal) + surgx_tables(results.surgx)
    lung = score_models(results.wrong_lung)
    annotated = _annotated(lung, annotations, data)
    more = [wrong_lung_tables(lung), annotated[:2], _read_again(results, extractor)]
    more += [_compared(paths, rows)] if compared else []
    tables += [table for of_part, _ in more for table in of_part]
    notes += [note for _, of_part in more for note in of_part]
    pictures: dict[str, bytes] = {}
    if out is not None:
        for drawn, left_out in (
            heal_pictures(results.heal),
            surgx_pictures(results.surgx, sheet),
            wrong_lung_pictures(lung, annotated.abnormalities),
        ):
            pictures |= drawn
            notes += left_out
    report = "\n\n".join([_introduction(results), *(table.markdown() for table in tables), *_notes(notes)]) + "\n"
    if out is not None:
        _save(out, {REPORT: report, **{f"{table.name}.csv": table.csv() for table in tables}, **pictures})
    return report


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


def _introduction(results: Results) -> str:
    there = [bool(results.runs or results.scored), *map(bool, (results.heal, results.surgx, results.wrong_lung))]
    names = [name for name, is_there in zip(_SCORES, there, strict=True) if is_there]
    paragraph = ["Computed from lm-eval's sample logs.", *(_SCORES[name] for name in names), _TABLES]
    title = " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
    return f"# {title} results\n\n{textwrap.fill(' '.join(paragraph), 120)}"


def _notes(notes: Sequence[str]) -> list[str]:
    return ["## Notes\n\n" + "\n".join(f"- {note}" for note in notes)] if notes else []


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
        with whole_folder(out) as folder:
            for name, content in files.items():
                (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    except OSError as error:
        action = "free some space or choose another --out" if error.errno == errno.ENOSPC else "choose another --out"
        raise InputError(out, f"cannot be written ({error.strerror or error})", action=action) from error
