"""Which patients a training run has held out: only they say what a model makes of images that it has not learnt."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from medfaith.loaders.errors import InputError

EXPECTED = "the FILE.ckpt.json that medfaith.tasks.models.training writes, of training on gold"


def read_held_out(path: str | Path) -> frozenset[str]:
    """The patients of the test part in a training run's record.

    Raises:
        InputError: a file that is missing or no such record; a record of training on silver, which holds out all of
            gold's patients.
    """
    try:
        record = json.loads(Path(path).expanduser().read_bytes())
    except OSError as error:
        raise InputError(path, f"cannot be read ({error.strerror})", expected=EXPECTED) from None
    except (ValueError, RecursionError) as error:
        raise InputError(path, f"is no JSON ({str(error)[:100]})", expected=EXPECTED) from None
    if isinstance(record, dict) and record.get("config") == "silver":
        found = "is of a model trained on silver, which has none of gold's patients"
        raise InputError(path, found, action="leave the option patients out: every row is of a held-out patient")
    patients = record.get("patients") if isinstance(record, dict) else None
    test = patients.get("test") if isinstance(patients, dict) else None
    if not isinstance(test, list) or not test or not all(isinstance(one, str) for one in test):
        raise InputError(path, "has no list of patients", column="patients.test", expected=EXPECTED)
    return frozenset(test)


def of_patients(docs: Sequence[dict[str, Any]], path: str | Path) -> list[dict[str, Any]]:
    """The documents of the patients that the record at `path` holds out.

    Raises:
        InputError: as `read_held_out`; a record whose patients have no document.
    """
    patients = read_held_out(path)
    kept = [doc for doc in docs if doc["patient_id"] in patients]
    if not kept:
        found = f"none of its {len(patients)} patients has a row in the data"
        action = "name the build that the model was trained on"
        raise InputError(path, found, column="patients.test", action=action)
    return kept
