"""The patients that a trained model has not seen. Only their rows show what it does with new images."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from medfaith.loaders import json_text, limits
from medfaith.loaders.errors import InputError

EXPECTED = "the FILE.ckpt.json that medfaith train writes"


def read_seen(path: str | Path) -> frozenset[str]:
    """The gold patients that a training run's model was trained on or stopped by, or one that it started from.

    Raises:
        InputError: a file that is missing or no such record; or the one of another checkpoint than the one beside it.
    """
    try:
        record = json_text.parse(limits.read_bytes(Path(path).expanduser(), limits.JSON_BYTES))
    except OSError as error:
        raise InputError(path, f"cannot be read ({error.strerror})", expected=EXPECTED) from None
    except ValueError as error:
        raise InputError(path, f"is no JSON ({str(error)[:100]})", expected=EXPECTED) from None
    seen = record.get("seen") if isinstance(record, dict) else None
    if not isinstance(seen, list) or not all(isinstance(one, str) for one in seen):
        raise InputError(path, "has no list of patients", column="seen", expected=EXPECTED)
    _check_belongs(Path(path).expanduser(), record)
    return frozenset(seen)


def _check_belongs(path: Path, record: dict[str, Any]) -> None:
    """Raises InputError where another checkpoint lies beside the record than the one that it was written for."""
    checkpoint = path.with_name(path.name.removesuffix(".json"))
    belongs = "checkpoint" not in record or checkpoint == path or not checkpoint.is_file()
    if not (belongs or record["checkpoint"] == digest_of(checkpoint)):
        found = f"is the record of another checkpoint than {checkpoint}, as a training leaves it that is killed"
        raise InputError(path, found, action="train again, or put the two files there that belong together")


def digest_of(checkpoint: Path) -> str:
    """The SHA-256 of the file."""
    with checkpoint.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def of_patients(docs: Sequence[dict[str, Any]], path: str | Path, *, whole: bool) -> list[dict[str, Any]]:
    """The documents of the patients that the model of the record at `path` has not seen.

    Args:
        whole: whether the documents are of all of gold's patients; a perturbed config may be of a few.

    Raises:
        InputError: as `read_seen`; or the model has seen no patient of gold at all, all patients of the documents, or,
            where the documents are the whole, none of their patients.
    """
    seen = read_seen(path)
    if not seen:
        found = "is of a model that has seen none of gold's patients"
        raise InputError(path, found, action="leave the option patients out: every row is of a held-out patient")
    kept = [doc for doc in docs if doc["patient_id"] not in seen]
    found = None
    if not kept:
        found = "lists all patients of the data"
    elif whole and len(kept) == len(docs):
        found = f"none of its {len(seen)} patients has a row in the data"
    if found:
        raise InputError(path, found, column="seen", action="name the build that the model was trained on")
    return kept
