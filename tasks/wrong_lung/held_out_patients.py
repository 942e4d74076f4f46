"""Held-out patients: patients that a trained model has not seen. Only their rows show how it treats new images."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from medfaith.loaders import json_text, limits
from medfaith.loaders.errors import InputError

EXPECTED = "the FILE.ckpt.json that medfaith train writes"


def read_seen(path: str | Path) -> frozenset[str]:
    """Read the gold patients of a model's training and validation, including the model that it started from.

    Args:
        path: The record of the training.

    Returns:
        The ids of the patients.

    Raises:
        InputError: The file is missing or invalid, or belongs to another checkpoint than the one next to it.
    """
    try:
        record = json_text.parse(limits.read_bytes(Path(path).expanduser(), limits.JSON_BYTES))
    except OSError as error:
        raise InputError(path, f"cannot be read ({error.strerror})", expected=EXPECTED) from None
    except ValueError as error:
        raise InputError(path, f"is no JSON ({str(error)[:100]})", expected=EXPECTED) from None
    patients = record.get("seen") if isinstance(record, dict) else None
    if not isinstance(patients, list) or not all(isinstance(patient, str) for patient in patients):
        raise InputError(path, "has no list of patients", column="seen", expected=EXPECTED)
    _check_belongs(Path(path).expanduser(), record)
    return frozenset(patients)


def _check_belongs(path: Path, record: dict[str, Any]) -> None:
    """Require that the checkpoint next to the record, if there is one, is the checkpoint of the record.

    Raises:
        InputError: The checkpoint is another one.
    """
    checkpoint = path.with_name(path.name.removesuffix(".json"))
    belongs = "checkpoint" not in record or checkpoint == path or not checkpoint.is_file()
    if not (belongs or record["checkpoint"] == digest_of(checkpoint)):
        problem = f"is the record of another checkpoint than {checkpoint}, as a training leaves it that is killed"
        raise InputError(path, problem, action="train again, or put the two files there that belong together")


def digest_of(checkpoint: Path) -> str:
    """Compute the SHA-256 of a file.

    Args:
        checkpoint: The file.

    Returns:
        The hexadecimal digest.
    """
    with checkpoint.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def select_held_out(docs: Sequence[dict[str, Any]], path: str | Path, *, complete: bool) -> list[dict[str, Any]]:
    """Select the documents of patients that a model has not seen.

    Args:
        docs: The documents.
        path: The record of the model's training.
        complete: Whether the documents include all gold patients. A perturbed config may have only some.

    Returns:
        The documents, in their order.

    Raises:
        InputError: As in `read_seen`; or the model has seen no gold patient at all, or all patients of the documents;
            or, if `complete`, none of their patients.
    """
    seen_patients = read_seen(path)
    if not seen_patients:
        problem = "is of a model that has seen none of gold's patients"
        raise InputError(path, problem, action="leave the option patients out: every row is of a held-out patient")
    held_out = [doc for doc in docs if doc["patient_id"] not in seen_patients]
    problem = None
    if not held_out:
        problem = "lists all patients of the data"
    elif complete and len(held_out) == len(docs):
        problem = f"none of its {len(seen_patients)} patients has a row in the data"
    if problem:
        raise InputError(path, problem, column="seen", action="name the build that the model was trained on")
    return held_out
