"""Verifying a repository and the files beside its Parquet (chat-format exports)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ..verify import REBUILD, Verdict, verify_repository
from ..write import MANIFEST, Family
from .exports import chat_jsonl


def verify_exports(
    folder: Path, families: Mapping[str, Callable[[str], Family]], references: Sequence[Mapping[str, Any]]
) -> list[Verdict]:
    """`verify_repository`, and each export: it is there, is what build.json lists, and is made of its Parquet's rows.

    What is wrong with an export is a problem of the split that it was made of.
    """
    verdicts = verify_repository(folder, families, references)
    listed = json.loads((folder / MANIFEST).read_text(encoding="utf-8")).get("exports", {})
    present = {path.relative_to(folder).as_posix() for path in folder.glob("*/*.jsonl")}

    def with_export(verdict: Verdict) -> Verdict:
        path = f"{verdict.config}/{verdict.split}.jsonl"
        if verdict.problems or path not in {*listed, *present}:
            return verdict
        return replace(verdict, problems=tuple(_export_problems(folder, path, listed.get(path), verdict)))

    return [with_export(verdict) for verdict in verdicts]


def _export_problems(folder: Path, path: str, recorded: str | None, verdict: Verdict) -> list[str]:
    file = folder / path
    if recorded is None:
        return [f"{path} is there, and {MANIFEST} does not list it; {REBUILD}"]
    if not file.is_file():
        return [f"{path} is missing; {REBUILD}"]
    data = file.read_bytes()
    problems = []
    if _sha256(data) != recorded:
        problems.append(f"{path}: sha256 {recorded} recorded, {_sha256(data)} found")
    parts = sorted((folder / verdict.config).glob(f"{verdict.split}-*-of-*.parquet"))
    if data != chat_jsonl(pa.concat_tables([pq.ParquetFile(part).read() for part in parts])):
        problems.append(f"{path}: is not what the rows of {verdict.config} give")
    return problems


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
