"""Shards of an evaluation: each of N machines evaluates every Nth patient of each task, or writes its requests.

`medfaith merge` combines evaluated shards. Answers to the requests of all shards are read in one run.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from ..loaders.errors import MedfaithError
from . import BATCH, COUNTING, lm_eval_internals, shard_marker
from .result_saving import output_folder
from .shard_marker import Rows


class Shard(NamedTuple):
    """Shard `number` of `n_shards`. The first shard is 1."""

    number: int
    n_shards: int

    def __str__(self) -> str:
        """Return the shard as I/N."""
        return f"{self.number}/{self.n_shards}"


def read_shard(text: str) -> Shard:
    """Parse `I/N` for argparse.

    Args:
        text: The argument.

    Returns:
        The shard.

    Raises:
        argparse.ArgumentTypeError: The text is not I/N, or I is not from 1 to N.
    """
    match = re.fullmatch(r"([0-9]{1,9})/([0-9]{1,9})", text)
    if match is None:
        raise argparse.ArgumentTypeError(f"expected I/N, such as 1/4 for the first of four shards, got {text!r}")
    shard = Shard(*map(int, match.groups()))
    if not 1 <= shard.number <= shard.n_shards:
        choices = (
            f"one of 1/{shard.n_shards} to {shard.n_shards}/{shard.n_shards}"
            if shard.n_shards
            else "at least one shard, such as 1/1"
        )
        raise argparse.ArgumentTypeError(f"expected {choices}, got {text!r}")
    return shard


def positions(patients: Sequence[str], shard: Shard) -> list[int]:
    """Find the indices of the rows that belong to a shard.

    The patients are sorted by a hash of their ids, and every `n_shards`-th patient is taken. The shards of a task have
    equally many patients, up to one. If there are more shards than patients, some shards are empty.

    Args:
        patients: The patient of each row.
        shard: The shard.

    Returns:
        Indices, ascending.

    >>> [positions(["a", "b", "a", "c"], Shard(number, 2)) for number in (1, 2)]
    [[0, 1, 2], [3]]
    """
    order = sorted(set(patients), key=lambda patient: hashlib.blake2b(patient.encode()).digest())
    selected = {*order[shard.number - 1 :: shard.n_shards]}
    return [place for place, patient in enumerate(patients) if patient in selected]


def list_patients(task: Any) -> list[str]:
    """List the patient of each row, as controls define a patient: a study or a video if the source names no patient.

    Args:
        task: A loaded task of lm-eval.

    Returns:
        The patients, in the order of the rows.
    """
    load_rows, rows = task.config.custom_dataset, task.eval_docs.with_format(None)
    facts = sys.modules[load_rows.__module__].facts  # in the same module as the function that loads the rows
    settings = {**task.config.metadata, **task.config.dataset_kwargs}
    if not settings.get("control"):
        return [facts(row).patient for row in rows]
    # A control may remove the image or show another patient's, which facts would take for the row's own.
    originals = load_rows(**{**settings, "control": None, "skip_missing_images": True})["test"].with_format(None)
    patients = {row["id"]: facts(row).patient for row in originals}
    return [patients.get(row_id, row_id) for row_id in rows["id"]]  # its image is missing: a patient of its own


def refuse(config: Any, metadata: Mapping[str, Any], shard: Shard, *, ours: bool) -> None:
    """Refuse a run that cannot be sharded, or that would write neither requests nor what `medfaith merge` needs.

    Args:
        config: lm-eval's EvaluatorConfig.
        metadata: The metadata of the tasks.
        shard: The shard.
        ours: Whether all tasks are medfaith's.

    Raises:
        MedfaithError: The run is refused.
    """
    unsharded = "run it without --shard"
    model_args = dict(config.model_args)
    is_merged = not (config.model == BATCH and model_args.get("requests"))
    faults = [
        (not ours, "only medfaith's tasks have patients", "name other tasks in a run without --shard"),
        (config.limit is not None, "--limit takes the first rows", "leave it out, or name some rows with --rows"),
        (config.samples is not None, "--samples chooses rows, too", "leave it out, or name some rows with --rows"),
        (config.predict_only, "--predict_only computes no figures", "leave it out"),
        (is_merged and not (config.output_path and config.log_samples), "sample logs are what is merged",
         "add --output_path DIR --log_samples"),
        (config.model in COUNTING, f"the answers of {config.model} depend on the other rows of a task", unsharded),
        (model_args.get("threshold") == "per_class", "threshold=per_class needs the scores of all frames in one run",
         f"{unsharded}, or with threshold=per_frame"),
        (bool(model_args.get("states_path")), "states_path keeps the hidden states of one run", unsharded),
    ]  # fmt: skip
    for applies, reason, action in faults:
        if applies:
            raise MedfaithError(f"--shard {shard}: {reason}\n  what to do: {action}")
    folder = output_folder(config.output_path)
    if is_merged and folder is not None:
        shard_marker.refuse_others(folder, shard, shard_marker.asked(config, metadata))


@contextmanager
def asking(shard: Shard) -> Iterator[dict[str, Rows]]:
    """Restrict lm-eval's `simple_evaluate` to the rows of a shard.

    The `doc_id` of a sample is the number of its row among all rows of the task.

    Args:
        shard: The shard.

    Yields:
        Task -> all its rows. The mapping is filled during the evaluation.
    """
    rows: dict[str, Rows] = {}

    def evaluate_shard(evaluate: Callable[..., Any], lm: Any, task_dict: Any, **options: Any) -> Any:
        selected = {}
        for name, task in task_dict["tasks"].items():
            rows[name] = shard_marker.rows_of(task)
            if places := positions(list_patients(task), shard):
                _restrict_rows(task, places, name, lm.world_size)
                selected[name] = task
        if not selected:
            return lm_eval_internals.aggregate({}, task_dict["groups"], samples={})
        return evaluate(lm=lm, task_dict=task_dict | {"tasks": selected}, **options)

    with lm_eval_internals.wrap_evaluate(evaluate_shard):
        yield rows


def _restrict_rows(task: Any, places: Sequence[int], name: str, n_processes: int) -> None:
    """Restrict lm-eval's task to some of its rows, which keep their numbers.

    Raise MedfaithError if there are fewer rows than processes.
    """
    if len(places) < n_processes:  # lm-eval would wait forever for a process without rows
        problem = f"{name}: this shard has {len(places)} rows, and {n_processes} processes would share them"
        raise MedfaithError(f"{problem}\n  what to do: take fewer shards, or one process for this shard")
    lm_eval_internals.restrict_rows(task, places)
