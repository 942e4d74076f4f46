"""Names of builds to publish, the command that publishes a metric, and the keys of a recipe."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from medfaith import cards
from medfaith.cards.publication import Publication
from tests.support.tiers import keep_quick

OPENI, CHEXPERT = "cxr-contrabench-openi", "cxr-contrabench-chexpert"
REPOSITORIES = sorted(path.stem for path in cards.FOLDER.glob("*.md"))
# One repository of each benchmark, rows and recipes.
_QUICK = {OPENI, "heal-medvqa-vindr_cxr", "own-table", "surgxbench-cholect45", "wrong-lung-chest_imagenome"}
METRIC = ("publish-metrics", "--org", "clinic", "--metric", "tpt")


def list_keys(publication: Publication) -> dict[tuple[str, str], bytes]:
    """List the key of each split of a recipe."""
    return {name: key.secret for name, key in publication.split_keys.items()}


def list_represented(names: Iterable[str] = REPOSITORIES) -> list[Any]:
    """List repositories for a parametrised test: the full run has all, the regular one has one of each benchmark."""
    return keep_quick(names, lambda name: name in _QUICK)
