"""eval.yaml: registers a data set as a benchmark of the Hub (https://huggingface.co/docs/hub/eval-results)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import yaml

from . import datasheet
from .publication import Publication

FILE = "eval.yaml"
FRAMEWORK = "medfaith"  # the Hub's team has to add it first


def build_document(publication: Publication) -> str:
    """Build eval.yaml: the benchmark's name, its description, and a task for each config that a medfaith task uses.

    Args:
        publication: The repository.

    Returns:
        The YAML text.
    """
    introduction = datasheet.read_introduction(publication.name)
    return yaml.safe_dump(
        {
            "name": datasheet.read_title(publication.name),
            "description": " ".join(introduction.split()),
            "evaluation_framework": FRAMEWORK,
            "tasks": list(_iterate_tasks(publication)),
        },
        sort_keys=False,
        allow_unicode=True,
        width=120,
    )


def _iterate_tasks(publication: Publication) -> Iterator[Mapping[str, str]]:
    """Yield the tasks with their names in lm-eval, which the results of `medfaith report --hub` use, too."""
    choices = datasheet.load_benchmark(publication.record["benchmark"])["tasks"][publication.record["source"]]
    for choice in choices:
        for needed, name in choice.items():
            if needed in publication.record["splits"]:  # one config alone: a task, and no group
                config, _, split = needed.partition("/")
                yield {"id": name, "config": config, "split": split}
