"""From the command's arguments to a session: logs, rows, images and models, all checked before the first question."""

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
from .logs import read_models
from .plan import Plan, instances
from .session import Session

if TYPE_CHECKING:
    from medfaith.tasks.models.aligners import Aligner

REPOSITORY, CONFIG, SPLIT = "wrong-lung-chest_imagenome", "gold", "test"
NO_MODEL = (
    "No model is loaded that could answer a sentence of yours. Whoever started this page can load some: the terminal "
    "says how. The heatmaps of the report's sentences do not need them."
)
HOW = "own prompts have no model; to judge them, start again with --live NAME=PRETRAINED for each model"
NOT_LOADED = "A model could not be loaded that should answer a sentence of yours; the terminal says why."


class Wanted(NamedTuple):
    """The arguments of `medfaith annotate`."""

    runs: Sequence[Path]
    data: str
    heatmaps: Path
    roots: Mapping[str, Path]
    annotator: str
    seed: int


def prepare(wanted: Wanted, answers: Answers, aligners: Mapping[str, Aligner]) -> tuple[Session, list[str]]:
    """A session on the sentences that every model answered, and notes on what was left out.

    Raises:
        InputError: as `logs.read_models` and `row_store.read`, or rows that are not those that the models answered.
        ImageError, MissingSourceError: an image that is not there.
    """
    store = open_store(wanted.heatmaps)
    models, notes = read_models(wanted.runs, store)
    shared = set.intersection(*(set(answered) for answered in models.values()))
    kept = []
    for row in cast(Any, row_store.read(REPOSITORY, CONFIG, SPLIT, wanted.data)):
        if row["id"] in shared:
            kept.append(row)
            _check(row, models, wanted.data)
    if len(kept) < len(shared) or not kept:
        found = f"has {len(kept)} of the {len(shared)} sentences that every run answered"
        raise InputError(wanted.data, found, action="name the build that the runs were made on")
    if dropped := max(map(len, models.values())) - len(shared):
        notes = [*notes, f"{dropped} sentences are left out: not every run answered them (--limit?)"]
    plan = Plan(instances(kept, wanted.seed), tuple(sorted(models)), wanted.annotator, wanted.seed)
    for instance in plan.instances:
        locate(instance.image, wanted.roots)
    return Session(plan, answers, models, store, wanted.roots, aligners), notes


def load_aligners(named: Mapping[str, tuple[str, Mapping[str, str]]]) -> tuple[dict[str, Aligner], str]:
    """Live models by name, and what to tell where there are none, "" where there are.

    named: name -> pretrained and options, as `models.alignment.load_aligner` takes them. If one cannot be loaded there
    are none; why is printed, as that names a model, and the page must not.
    """
    if not named:
        print(f"medfaith: {HOW}", file=sys.stderr)
        return {}, NO_MODEL
    try:
        from medfaith.tasks.models.alignment import load_aligner

        return {name: load_aligner(model, **options) for name, (model, options) in named.items()}, ""
    except MedfaithError as error:
        print(f"medfaith: {error}", file=sys.stderr)
        return {}, NOT_LOADED


def _check(row: Mapping[str, Any], models: Mapping[str, Mapping[str, Any]], data: str) -> None:
    for answered in models.values():
        if answered[row["id"]].sentence != row["sentence"]:
            found = f"{row['sentence']!r:.80} is not the sentence that a run was asked about"
            raise InputError(data, found, row=row["id"], action="name the build that the runs were made on")
