"""The papers' tables from the files that lm-eval wrote, of one model or many.

They are those of CXR-ContraBench, HEAL-MedVQA, SurgXBench and That's the Wrong Lung! Every figure is computed from the
sample logs (the choices, the responses), by the metrics of this package; the rounded results that lm-eval prints are
not used.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

from tqdm import tqdm

from medfaith.loaders.errors import InputError, MedfaithError

from .casebook import casebook_table
from .external import external_tables
from .extractors import Extractor
from .heal import HealRun, extractors_table, heal_tables, read_heal_runs
from .internal import internal_tables
from .intervals import interval_tables
from .interventions import intervention_tables
from .naming import base_name, in_order, model_name, protocol_name
from .option_scores import (
    ScoredRun,
    find_states,
    holds_scores,
    polarity_gap_table,
    read_scored_runs,
    read_states,
    with_states,
)
from .read import find_sample_files
from .robustness import robustness_tables
from .runs import Logged, Run
from .samples import read_runs
from .surgx import SurgXRun, read_surgx_runs
from .surgx_figures import Sheet, surgx_pictures
from .surgx_tables import surgx_tables
from .tables import MODEL, PROMPT, PROTOCOL, SIZE, Column, Table, count, percent
from .wrong_lung import WrongLungRun, read_wrong_lung_runs
from .wrong_lung_annotations import annotation_correlations
from .wrong_lung_figures import wrong_lung_pictures
from .wrong_lung_scores import score_models
from .wrong_lung_tables import wrong_lung_tables

REPORT = "report.md"
_R = TypeVar("_R", bound=Logged)
_OWN_FILE = re.compile(
    r"report\.md|(casebook|heal_extractors|(heal_)?(runs|(table|figure)_\d\d_\w+))\.csv"
    r"|surgx_(runs|triplets|occlusion|figure_\w+)\.csv|wrong_lung_\w+\.csv|figure_(surgx|wrong_lung)_\w+\.png"
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


class Results(NamedTuple):
    """The newest run of every model and setting: CXR-ContraBench's in the report's order and those that score options,
    HEAL-MedVQA's, SurgXBench's and That's the Wrong Lung!'s; and notes on what was left out.
    """

    runs: list[Run]
    scored: list[ScoredRun]
    heal: list[HealRun]
    surgx: list[SurgXRun]
    wrong_lung: list[WrongLungRun]
    notes: list[str]


def write_report(
    paths: Sequence[Path],
    out: Path | None = None,
    extractor: Extractor | None = None,
    sheet: Sheet | None = None,
    annotations: Sequence[Path] = (),
) -> str:
    """The report as Markdown; with `out`, also saved there: report.md, one CSV file a table, pictures.

    Args:
        paths: folders, results files or sample files of `lm_eval --output_path X --log_samples`.
        out: folder for the report: new, empty, or one with an earlier report, which is replaced as a whole.
        extractor: reads HEAL-MedVQA's open-ended answers a second time, for a table of its own.
        sheet: what a contact sheet of SurgXBench's heatmaps is drawn from; none is drawn without.
        annotations: files of what people answered to `medfaith annotate`.

    Raises:
        InputError: see `read.find_sample_files`, `samples.read_lines`, `option_scores.read_states`,
            `annotate.tables.read`; or `out` holds other files or cannot be written.
        MedfaithError: see `extractors.language_model`, `surgx_overlays.contact_sheet`; or `sheet` without `out`.
    """
    if sheet is not None and out is None:
        raise MedfaithError("a contact sheet is a picture, which needs a place\n  what to do: give --out DIR, too")
    if out is not None:
        _check_out(out)
    results = read_results(paths)
    lung = score_models(results.wrong_lung)
    lung_tables, lacking = wrong_lung_tables(lung)
    notes = [*results.notes, *lacking]
    tables = [_runs_table(results.runs), *report_tables(results.runs)] if results.runs else []
    tables += [polarity_gap_table(results.scored)] if results.scored else []
    tables += heal_tables(results.heal) + surgx_tables(results.surgx) + lung_tables
    if annotations:
        from ..annotate import tables as annotated  # which is built on this folder's modules

        judgements, of_files = annotated.read(annotations)
        correlated, unmatched = annotation_correlations(lung, judgements)
        tables += annotated.tables(judgements, of_files) + correlated
        notes += unmatched
    if extractor is not None:
        compared = extractors_table(results.heal, extractor)
        tables += [compared] if compared else []
        unasked = f"no open-ended answers of HEAL-MedVQA are there: the extractor {extractor.name} was not asked"
        notes = notes if compared else [*notes, unasked]
    pictures: dict[str, bytes] = {}
    if out is not None:
        for drawn, left_out in (surgx_pictures(results.surgx, sheet), wrong_lung_pictures(lung)):
            pictures |= drawn
            notes = [*notes, *left_out]
    report = "\n\n".join([_introduction(results), *(table.markdown() for table in tables), *_notes(notes)]) + "\n"
    if out is not None:
        _save(out, {REPORT: report, **{f"{table.name}.csv": table.csv() for table in tables}, **pictures})
    return report


def read_results(paths: Sequence[Path]) -> Results:
    """What the sample logs hold."""
    files, notes = find_sample_files([Path(path) for path in paths])
    foreign: list[str] = []
    newest: dict[tuple, Run] = {}
    newest_scored: dict[tuple, ScoredRun] = {}
    newest_heal: dict[tuple, HealRun] = {}
    newest_surgx: dict[tuple, SurgXRun] = {}
    newest_lung: dict[tuple, WrongLungRun] = {}
    n_bytes = sum(file.path.stat().st_size for file in files)
    with tqdm(
        total=n_bytes, unit="B", unit_scale=True, desc="samples", disable=None, leave=False, file=sys.stderr
    ) as bar:
        for file in files:
            if holds_scores(file):
                found = [_keep_newest(newest_scored, run, notes) for run in read_scored_runs(file, bar.update)]
            else:
                found = [_keep_newest(newest, run, notes) for run in read_runs(file, bar.update)]
                found = found or [_keep_newest(newest_heal, run, notes) for run in read_heal_runs(file, bar.update)]
                found = found or [_keep_newest(newest_surgx, run, notes) for run in read_surgx_runs(file, bar.update)]
                found = found or [
                    _keep_newest(newest_lung, run, notes) for run in read_wrong_lung_runs(file, bar.update)
                ]
            if not found:
                foreign.append(file.task)
        scored = _with_states(list(newest_scored.values()), bar, notes)
    if foreign:
        notes.append(f"{len(foreign)} sample logs of other tasks are left out: {', '.join(sorted(set(foreign)))}")
    if not (newest or scored or newest_heal or newest_surgx or newest_lung):
        raise InputError(
            ", ".join(str(path) for path in paths),
            f"none of its {len(files)} sample logs is of a CXR-ContraBench task, nor of HEAL-MedVQA, SurgXBench or "
            "That's the Wrong Lung!",
            expected="samples_medfaith_contrabench_..._<date>.jsonl, samples_medfaith_heal_..._<date>.jsonl, "
            "samples_medfaith_surgx_..._<date>.jsonl or samples_medfaith_wrong_lung_..._<date>.jsonl",
            action="run medfaith eval with --tasks medfaith_contrabench, medfaith_heal_vindr, medfaith_surgx or "
            "medfaith_wrong_lung, --output_path DIR and --log_samples",
        )
    notes += [
        f"{model_name(run)}, {run.source.task}: the log lacks the filter m1; what is after the verifier is undefined"
        for run in newest.values()
        if "m1" not in run.choice
    ]
    others = (list(newest_heal.values()), list(newest_surgx.values()), list(newest_lung.values()))
    return Results(in_order(list(newest.values())), scored, *others, sorted(notes))


def _introduction(results: Results) -> str:
    there = [bool(results.runs or results.scored), *map(bool, (results.heal, results.surgx, results.wrong_lung))]
    names = [name for name, is_there in zip(_SCORES, there, strict=True) if is_there]
    paragraph = ["Computed from lm-eval's sample logs.", *(_SCORES[name] for name in names), _TABLES]
    title = " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
    return f"# {title} results\n\n{textwrap.fill(' '.join(paragraph), 120)}"


def report_tables(runs: Sequence[Run]) -> list[Table]:
    """All tables that CXR-ContraBench's runs give: the matrix, the others by number, the casebook."""
    tables = [
        *external_tables(runs), *interval_tables(runs), *internal_tables(runs), *robustness_tables(runs),
        *intervention_tables(runs),
    ]  # fmt: skip
    tables.sort(key=lambda table: (table.name != "table_09_matrix", table.name))
    casebook = casebook_table(runs)
    return [*tables, casebook] if casebook.rows else tables


def _with_states(runs: list[ScoredRun], bar: tqdm, notes: list[str]) -> list[ScoredRun]:
    """The runs, with their hidden states where these were kept; one file is held at a time."""
    files, missing = find_states(runs)
    notes += missing
    bar.total += sum(path.stat().st_size for path in files)
    without = [run for run in runs if not any(run in of_file for of_file in files.values())]
    complete = []
    for path, of_file in files.items():
        states = read_states(path)
        complete += [with_states(run, states) for run in of_file]
        bar.update(path.stat().st_size)
    return without + complete


def _keep_newest(newest: dict[tuple, _R], run: _R, notes: list[str]) -> None:
    key = (run.model, run.adapter, run.setting)
    other = newest.get(key)
    if other is None:
        newest[key] = run
        return
    kept, dropped = sorted((run, other), key=lambda r: (r.source.date, str(r.source.path)), reverse=True)
    newest[key] = kept
    differs = "" if kept.source.arguments == dropped.source.arguments else ", whose model arguments differ"
    dates = f"the run of {kept.source.date} counts, not that of {dropped.source.date}{differs}"
    notes.append(f"{model_name(run)}, {kept.source.task}: {dates}")


def _runs_table(runs: Sequence[Run]) -> Table:
    rows = [
        [model_name(run), base_name(run.setting.prompt), protocol_name(run), ", ".join(_forms(run)), run.n, run.n_data,
         run.n_skipped, run.scores()["accuracy"], run.scores()["parse_failure_rate"], run.source.task, run.source.date]
        for run in runs
    ]  # fmt: skip
    columns = [
        MODEL, PROMPT, PROTOCOL, Column("Changed wording or layout", ("forms",)), SIZE,
        Column("Without images", ("n_skipped",), count), Column("Base acc.", ("accuracy",), percent),
        Column("Unread %", ("parse_failure_rate",), percent), Column("Task", ("task",)), Column("Date", ("date",)),
    ]  # fmt: skip
    notes = ["n: questions asked; “a of b” marks a run with --limit or without the rows whose images are missing."]
    return Table("runs", "Runs", columns, rows, notes)


def _forms(run: Run) -> list[str]:
    return [getattr(run.setting, name) for name in run.setting.changed_forms]


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


def _save(out: Path, files: dict[str, str | bytes]) -> None:
    """Writes the folder beside its place and moves it there; what fails before that leaves the old report as it was."""
    out = out.resolve()
    partial, old = (out.with_name(f".{out.name}.{os.getpid()}.{state}") for state in ("partial", "old"))
    try:
        partial.mkdir(parents=True)
        for name, content in files.items():
            if isinstance(content, bytes):
                (partial / name).write_bytes(content)
            else:
                (partial / name).write_text(content, encoding="utf-8", newline="")
        if out.exists():  # the name is absent for the instant between the two moves
            out.rename(old)
        partial.rename(out)
    except OSError as error:
        action = "free some space or choose another --out" if error.errno == errno.ENOSPC else "choose another --out"
        raise InputError(out, f"cannot be written ({error.strerror or error})", action=action) from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
        if old.exists() and not out.exists():
            old.rename(out)
        shutil.rmtree(old, ignore_errors=True)
