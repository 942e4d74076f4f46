"""Files of an audit: audit.md, a csv file for each table, and the ids of the blind-clean rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from medfaith.loaders.atomic import atomic_file
from medfaith.loaders.errors import InputError
from medfaith.loaders.row_ids import write_ids
from medfaith.reporting.tables import Table

from . import Rule
from .audited import Audited
from .edit_detection import Detection
from .figures import find_comparable_guesses, read_audit
from .plan import Task
from .run import read_record
from .sentences import write_sentences
from .tables import conditions, edits, overview, subjects, wordings
from .verdicts import Judged
from .wordings import compare_wordings

BLIND_CLEAN = "blind_clean.csv"


def write_tables(
    out: Path,
    judged: Sequence[Judged],
    margin: float,
    detections: Mapping[str, Mapping[str, Detection]] | None = None,
) -> None:
    """Write audit.md with all tables and sentences, and one csv file for each table.

    Args:
        out: Folder of the audit.
        judged: Verdicts by the same rule.
        margin: Equivalence margin, a fraction.
        detections: Benchmark -> control -> how well a classifier detects the edit, if it was measured.
    """
    tables, sections = [overview(judged, margin)], [overview(judged, margin).markdown()]
    for judged_audit in judged:
        by_wording = compare_wordings(judged_audit.audit, margin)
        audit_tables = [
            conditions(judged_audit),
            edits(judged_audit, (detections or {}).get(judged_audit.audit.benchmark)),
            subjects(judged_audit),
            wordings(judged_audit, by_wording),
        ]
        tables += [table for table in audit_tables if table is not None]
        sections += [table.markdown() for table in audit_tables if table is not None]
        sections.append("\n".join(f"- {line}" for line in write_sentences(judged_audit, margin, by_wording)))
    by_name: dict[str, list[Table]] = {}
    for table in tables:  # one file holds all models of a benchmark
        by_name.setdefault(table.name, []).append(table)
    saved = {
        f"{name}.csv": replace(same_name[0], rows=[row for table in same_name for row in table.rows]).csv()
        for name, same_name in by_name.items()
    }
    files = {"audit.md": "\n\n".join(filter(None, sections)) + "\n", **saved}
    for name, content in files.items():
        with atomic_file(out / name) as partial:
            partial.write_text(content, encoding="utf-8")


def has_table(out: Path, benchmark: str) -> bool:
    """Return whether an audit has judged a benchmark: its table of conditions is there.

    Args:
        out: Folder of the audit.
        benchmark: Name of the benchmark.

    Returns:
        False also for a benchmark that was only asked.
    """
    return (out / f"audit_{benchmark.replace('-', '_')}.csv").is_file()


def write_blind_clean(out: Path, audits: Sequence[Audited], other_audits: Sequence[Audited]) -> tuple[int, int]:
    """Write the ids of the rows that all models answer without evidence, and none of them rightly.

    If a model leaves a row unanswered under every blind control, its answer with another patient's image counts
    (`figures.find_comparable_guesses`). Rows without a donor, and rows of attention, are left out.

    Args:
        out: Folder of the audit.
        audits: This audit, one model on each benchmark.
        other_audits: Audits of other models on the same rows.

    Returns:
        Number of clean rows, and number of rows that all models answer without evidence.
    """
    judged_audits, compared_audits = (
        [audit for audit in model_audits if not audit.is_attention] for model_audits in (audits, other_audits)
    )
    rows = {row: audit.benchmark for audit in judged_audits for row in audit.rows}
    guesses = [(audit.benchmark, find_comparable_guesses(audit)) for audit in [*judged_audits, *compared_audits]]
    is_right_blind = {
        row: any(model_guesses.get(row) for _, model_guesses in guesses)
        for row, benchmark in rows.items()
        if all(row in model_guesses for guess_benchmark, model_guesses in guesses if guess_benchmark == benchmark)
    }
    clean_rows = [
        {"id": row_id, "benchmark": rows[task, row_id], "task": task}
        for (task, row_id), is_right in is_right_blind.items()
        if not is_right
    ]
    write_ids(out / BLIND_CLEAN, clean_rows)
    return len(clean_rows), len(is_right_blind)


def read_others(folders: Sequence[Path], tasks: Sequence[Task], margin: float, rule: Rule) -> list[Audited]:
    """Read finished audits of other models on the same tasks.

    Args:
        folders: Folders of audits.
        tasks: Tasks and rows of this audit.
        margin: Equivalence margin, a fraction.
        rule: Version of the rule.

    Returns:
        Each other model on each benchmark.

    Raises:
        InputError: A folder holds no audit, or an audit of different rows.
    """
    audits = []
    for folder in folders:
        record = read_record(folder)
        common = [task for task in tasks if task.name in record["rows"]]
        changed_tasks = [task.name for task in common if record["rows"][task.name]["digest"] != task.digest]
        if changed_tasks or not common:
            wrong = f"asked other rows of {', '.join(changed_tasks)}" if changed_tasks else "asked none of these tasks"
            action = "audit that model with the same --data, --rows and --limit"
            raise InputError(folder, wrong, expected="an audit of the same rows", action=action)
        audits += read_audit(folder, list(record["models"]), common, margin, rule)
    return audits
