"""The files of an audit beside its logs: audit.md, a csv for each table, and the ids of the blind-clean rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from medfaith.loaders.atomic import atomic_file
from medfaith.loaders.errors import InputError
from medfaith.loaders.row_ids import write_ids
from medfaith.report.tables import Table

from . import Rule
from .figures import Audited, audited, comparable_guesses
from .plan import Task
from .run import read_record
from .sentences import in_words
from .tables import conditions, edits, overview, subjects, wordings
from .verdicts import Judged
from .wordings import compare_wordings

BLIND_CLEAN = "blind_clean.csv"


def write_tables(out: Path, judged: Sequence[Judged], margin: float) -> None:
    """Write audit.md with all tables and sentences, and each table as a csv file.

    Args:
        out: Folder of the audit.
        judged: Verdicts by the same rule.
        margin: Equivalence margin, a fraction.
    """
    tables, parts = [overview(judged, margin)], [overview(judged, margin).markdown()]
    for one in judged:
        by_wording = compare_wordings(one.found, margin)
        own = [conditions(one), edits(one), subjects(one), wordings(one, by_wording)]
        tables += [table for table in own if table is not None]
        parts += [table.markdown() for table in own if table is not None]
        parts.append("\n".join(f"- {line}" for line in in_words(one, margin, by_wording)))
    by_name: dict[str, list[Table]] = {}
    for table in tables:  # those of several models on one benchmark are one file
        by_name.setdefault(table.name, []).append(table)
    saved = {
        f"{name}.csv": replace(of_name[0], rows=[row for table in of_name for row in table.rows]).csv()
        for name, of_name in by_name.items()
    }
    files = {"audit.md": "\n\n".join(filter(None, parts)) + "\n", **saved}
    for name, content in files.items():
        with atomic_file(out / name) as partial:
            partial.write_text(content, encoding="utf-8")


def write_blind_clean(out: Path, found: Sequence[Audited], others: Sequence[Audited]) -> tuple[int, int]:
    """Write the ids of the rows that no model answers right without the image, of those that each answers without it.

    A row that a model leaves unanswered under every blind control counts as it is answered with another patient's image
    (`figures.blind_guesses`); rows without such an image are left out for all models. Rows whose
    answers are neither right nor wrong are left out, too.

    Returns:
        How many rows are clean, and how many rows all models answer without evidence.
    """
    own, also = ([one for one in of if not one.is_attention] for of in (found, others))
    rows = {row: one.benchmark for one in own for row in one.rows}
    guesses = [(one.benchmark, comparable_guesses(one)) for one in [*own, *also]]
    known = {
        row: any(of_model.get(row) for _, of_model in guesses)
        for row, benchmark in rows.items()
        if all(row in of_model for of_benchmark, of_model in guesses if of_benchmark == benchmark)
    }
    named = [
        {"id": row_id, "benchmark": rows[task, row_id], "task": task}
        for (task, row_id), is_right in known.items()
        if not is_right
    ]
    write_ids(out / BLIND_CLEAN, named)
    return len(named), len(known)


def read_others(folders: Sequence[Path], tasks: Sequence[Task], margin: float, rule: Rule) -> list[Audited]:
    """What finished audits of other models say of the same tasks.

    Raises InputError for a folder that is no audit, or one of other rows.
    """
    found = []
    for folder in folders:
        record = read_record(folder)
        common = [task for task in tasks if task.name in record["rows"]]
        others = [task.name for task in common if record["rows"][task.name]["digest"] != task.digest]
        if others or not common:
            wrong = f"asked other rows of {', '.join(others)}" if others else "asked none of these tasks"
            action = "audit that model with the same --data, --rows and --limit"
            raise InputError(folder, wrong, expected="an audit of the same rows", action=action)
        found += audited(folder, list(record["models"]), common, margin, rule)
    return found
