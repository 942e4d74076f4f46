"""Names of builds to publish, the command that publishes a metric, and the keys of a recipe."""

from __future__ import annotations

from medfaith.cards.publication import Publication

OPENI, CHEXPERT = "cxr-contrabench-openi", "cxr-contrabench-chexpert"
METRIC = ("publish-metrics", "--org", "clinic", "--metric", "tpt")


def list_keys(publication: Publication) -> dict[tuple[str, str], bytes]:
    """List the key of each split of a recipe."""
    return {name: key.secret for name, key in publication.split_keys.items()}
