"""The files of an audit beside its logs: audit.md, a csv for each table, and the ids of the blind-clean rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from medfaith.loaders.errors import InputError
from medfaith.loaders.row_ids import write_ids
from medfaith.loaders.whole import whole_file
from medfaith.report.tables import Table

from .figures import UNRANKED, Audited, Key, audited, blind_right
from .plan import Task
from .run import read_record
from .tables import Judged, details, in_words, overview

BLIND_CLEAN = "blind_clean.csv"


def write_tables(out: Path, judged: Sequence[Judged], margin: float) -> None:
    """Writes audit.md with all tables, and each as a csv."""
    tables = [overview(judged, margin), *map(details, judged)]
    words = ["", *("\n".join(f"- {line}" for line in in_words(one, margin)) for one in judged)]
    parts = [part for table, said in zip(tables, words, strict=True) for part in (table.markdown(), said) if part]
    by_name: dict[str, list[Table]] = {}
    for table in tables:  # those of several models on one benchmark are one file
        by_name.setdefault(table.name, []).append(table)
    saved = {
        f"{name}.csv": replace(of_name[0], rows=[row for table in of_name for row in table.rows]).csv()
        for name, of_name in by_name.items()
    }
    files = {"audit.md": "\n\n".join(parts) + "\n", **saved}
    for name, content in files.items():
        with whole_file(out / name) as partial:
            partial.write_text(content, encoding="utf-8")


def write_blind_clean(out: Path, found: Sequence[Audited], others: Sequence[Audited]) -> tuple[int, int]:
    """Writes the ids of the rows that no model answers right without the image; returns how many, and of how many.

    Rows whose answers are neither right nor wrong are left out.
    """
    ranked = [one for one in found if not {*one.metrics} & {*UNRANKED}]
    right: set[Key] = set().union(*map(blind_right, [*found, *others]))
    rows = {row: one.benchmark for one in ranked for row in one.rows}
    clean = {row: benchmark for row, benchmark in rows.items() if row not in right}
    named = [{"id": row_id, "benchmark": benchmark, "task": task} for (task, row_id), benchmark in clean.items()]
    write_ids(out / BLIND_CLEAN, named)
    return len(clean), len(rows)


def read_others(folders: Sequence[Path], tasks: Sequence[Task], margin: float) -> list[Audited]:
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
        found += audited(folder, list(record["models"]), common, margin)
    return found
