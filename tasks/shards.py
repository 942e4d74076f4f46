"""Shards of an evaluation: each of N machines asks every Nth patient of each task.

`medfaith merge` puts the shards together.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any, NamedTuple
from unittest import mock

from ..loaders.errors import MedfaithError
from . import COUNTING, shard_marker
from .result_saving import output_folder
from .shard_marker import Rows


class Shard(NamedTuple):
    """Shard `number` of `of`; the first one is 1."""

    number: int
    of: int

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"


def read_shard(text: str) -> Shard:
    """What argparse reads `I/N` with; its error says what is wrong."""
    match = re.fullmatch(r"([0-9]{1,9})/([0-9]{1,9})", text)
    if match is None:
        raise argparse.ArgumentTypeError(f"expected I/N, such as 1/4 for the first of four shards, got {text!r}")
    shard = Shard(*map(int, match.groups()))
    if not 1 <= shard.number <= shard.of:
        known = f"one of 1/{shard.of} to {shard.of}/{shard.of}" if shard.of else "at least one shard, such as 1/1"
        raise argparse.ArgumentTypeError(f"expected {known}, got {text!r}")
    return shard


def positions(patients: Sequence[str], shard: Shard) -> list[int]:
    """Where the rows of a shard's patients stand, of the patient of each row.

    The patients are laid in the order of a hash of their ids, and every `of`-th is taken, so that the shards of a task
    have equally many, but for one. More shards than patients leave some without any.

    >>> [positions(["a", "b", "a", "c"], Shard(number, 2)) for number in (1, 2)]
    [[0, 1, 2], [3]]
    """
    order = sorted(set(patients), key=lambda patient: hashlib.blake2b(patient.encode()).digest())
    mine = {*order[shard.number - 1 :: shard.of]}
    return [place for place, patient in enumerate(patients) if patient in mine]


def patients_of(task: Any) -> list[str]:
    """The patient of each row of lm-eval's task, as controls know them: a study or a video where none is named."""
    facts = sys.modules[task.config.custom_dataset.__module__].facts  # beside the function that loads the rows
    return [facts(row).patient for row in task.eval_docs.with_format(None)]


def refuse(config: Any, metadata: Mapping[str, Any], shard: Shard, *, ours: bool) -> None:
    """Raises MedfaithError for a run that has no shards, or would not leave what `medfaith merge` needs.

    config: lm-eval's EvaluatorConfig. metadata: what the tasks take. ours: whether all tasks are of medfaith.
    """
    alone = "run it without --shard"
    given = dict(config.model_args)
    faults = [
        (not ours, "only medfaith's tasks have patients", "name other tasks in a run without --shard"),
        (config.limit is not None, "--limit takes the first rows", "leave it out, or name some rows with --rows"),
        (config.samples is not None, "--samples chooses rows, too", "leave it out, or name some rows with --rows"),
        (config.predict_only, "--predict_only computes no figures", "leave it out"),
        (not (config.output_path and config.log_samples), "sample logs are what is merged",
         "add --output_path DIR --log_samples"),
        (config.model in COUNTING, f"the answers of {config.model} depend on the other rows of a task", alone),
        (given.get("threshold") == "per_class", "threshold=per_class needs the scores of all frames in one run",
         f"{alone}, or with threshold=per_frame"),
        (bool(given.get("states_path")), "states_path keeps the hidden states of one run", alone),
    ]  # fmt: skip
    for is_so, found, action in faults:
        if is_so:
            raise MedfaithError(f"--shard {shard}: {found}\n  what to do: {action}")
    folder = output_folder(config.output_path)
    if folder is not None:
        shard_marker.refuse_others(folder, shard, shard_marker.asked(config, metadata))


@contextmanager
def asking(shard: Shard) -> Iterator[dict[str, Rows]]:
    """In here lm-eval's `simple_evaluate` asks only the rows of a shard. Gives all rows of each task as they are known.

    The `doc_id` of a sample is the number of its row among all rows of the task.
    """
    import lm_eval.evaluator
    from lm_eval.evaluator_utils import _process_results

    evaluate: Any = lm_eval.evaluator.evaluate
    rows: dict[str, Rows] = {}

    def of_shard(lm: Any, task_dict: Any, **how: Any) -> Any:
        chosen = {}
        for name, task in task_dict["tasks"].items():
            rows[name] = shard_marker.rows_of(task)
            if places := positions(patients_of(task), shard):
                _only(task, places, name, lm.world_size)
                chosen[name] = task
        if not chosen:
            return _process_results({}, task_dict["groups"])._to_eval_results(samples={})
        return evaluate(lm=lm, task_dict=task_dict | {"tasks": chosen}, **how)

    with mock.patch.object(lm_eval.evaluator, "evaluate", of_shard):
        yield rows


def _only(task: Any, places: Sequence[int], name: str, n_processes: int) -> None:
    """Lets lm-eval's task have these of its rows, under their own numbers."""
    if len(places) < n_processes:  # lm-eval would wait for the process without a row for ever
        found = f"{name}: this shard has {len(places)} rows, and {n_processes} processes would share them"
        raise MedfaithError(f"{found}\n  what to do: take fewer shards, or one process for this shard")
    docs = task.eval_docs

    def doc_iterator(*, rank: int = 0, world_size: int = 1, **_: Any) -> Iterator[tuple[int, Any]]:
        return ((place, docs[place]) for place in islice(places, rank, None, world_size))

    task.doc_iterator = doc_iterator
