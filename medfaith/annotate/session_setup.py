"""Preparation of a session: logs, rows, images and models, all checked before the first question."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from medfaith.loaders.errors import InputError, MedfaithError
from medfaith.loaders.images import locate
from medfaith.tasks import row_store
from medfaith.tasks.explain.store import open_store

from .answers import Answers
from .logs import TASK, read_models
from .plan import Plan, instances
from .session import Session

if TYPE_CHECKING:
    from medfaith.tasks.models.alignment.aligners import Aligner

NO_MODEL = (
    "No model is loaded that could answer a sentence of yours. Whoever started this page can load some: the terminal "
    "says how. The heatmaps of the report's sentences do not need them."
)
HOW = "own prompts have no model; to judge them, start again with --live NAME=PRETRAINED for each model"
NOT_LOADED = "A model could not be loaded that should answer a sentence of yours; the terminal says why."


class Wanted(NamedTuple):
    """The arguments of `medfaith annotate`.

    Attributes:
        runs: The folders of runs.
        data: The option --data.
        heatmaps: The folder of heatmaps.
        roots: Source id -> folder of the images.
        annotator: The name of the annotator.
        seed: The seed of order and aliases.
    """

    runs: Sequence[Path]
    data: str
    heatmaps: Path
    roots: Mapping[str, Path]
    annotator: str
    seed: int


def prepare(arguments: Wanted, answers: Answers, aligners: Mapping[str, Aligner]) -> tuple[Session, list[str]]:
    """Prepare a session on the sentences that every model answered.

    Args:
        arguments: The arguments of the command.
        answers: The file of answers.
        aligners: Name -> model that accepts custom prompts.

    Returns:
        The session, and notes on sentences that were left out.

    Raises:
        InputError: As in `logs.read_models` and `row_store.read`; or the rows are not the ones that the models
            answered.
        ImageError: An image is missing.
        MissingSourceError: The root of an image is unknown.
    """
    store = open_store(arguments.heatmaps)
    models, notes = read_models(arguments.runs, store)
    shared = set.intersection(*(set(answered) for answered in models.values()))
    answered_rows = []
    for row in cast(Any, row_store.read(TASK.repository, TASK.config, TASK.split, arguments.data)):
        if row["id"] in shared:
            answered_rows.append(row)
            _check_sentence(row, models, arguments.data)
    if len(answered_rows) < len(shared) or not answered_rows:
        problem = f"has {len(answered_rows)} of the {len(shared)} sentences that every run answered"
        raise InputError(arguments.data, problem, action="name the build that the runs were made on")
    if dropped := max(map(len, models.values())) - len(shared):
        notes = [*notes, f"{dropped} sentences are left out: not every run answered them (--limit?)"]
    plan = Plan(instances(answered_rows, arguments.seed), tuple(sorted(models)), arguments.annotator, arguments.seed)
    for instance in plan.instances:
        locate(instance.image, arguments.roots)
    return Session(plan, answers, models, store, arguments.roots, aligners), notes


def load_aligners(models: Mapping[str, tuple[str, Mapping[str, str]]]) -> tuple[dict[str, Aligner], str]:
    """Load the live models. If one model cannot be loaded, no model is used.

    The reason of a failure is printed, because it names the model, and the page must not.

    Args:
        models: Name -> pretrained and options, as in `models.alignment.lm.load_aligner`.

    Returns:
        Name -> model, and a text for the page if no model is loaded; otherwise "".
    """
    if not models:
        print(f"medfaith: {HOW}", file=sys.stderr)
        return {}, NO_MODEL
    try:
        from medfaith.tasks.models.alignment.lm import load_aligner

        return {name: load_aligner(model, **options) for name, (model, options) in models.items()}, ""
    except MedfaithError as error:
        print(f"medfaith: {error}", file=sys.stderr)
        return {}, NOT_LOADED


def _check_sentence(row: Mapping[str, Any], models: Mapping[str, Mapping[str, Any]], data: str) -> None:
    for answers in models.values():
        if answers[row["id"]].sentence != row["sentence"]:
            problem = f"{row['sentence']!r:.80} is not the sentence that a run was asked about"
            raise InputError(data, problem, row=row["id"], action="name the build that the runs were made on")
