"""`medfaith models`: the families of vision-language models that are known by place."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

HEADER = ("family", "models", "model_type in config.json", "how it sees an image")
OTHERS = (
    "medfaith-hf-vlm answers and scores options with each of them, and medfaith-explained-vlm makes heatmaps. Other "
    "models of\ntransformers answer and score options, too, but no test here has seen them; medfaith-explained-vlm "
    "refuses them."
)


def add_jobs(jobs: Any) -> None:
    """Add `models` to the command's jobs.

    Args:
        jobs: The sub-parsers of the command.
    """
    text = "list the families of vision-language models, and what works for each: answers, option scores, heatmaps"
    job = jobs.add_parser("models", help=text, description=f"{text[0].upper()}{text[1:]}.")
    job.set_defaults(job=_run_models)


def rows() -> list[tuple[str, ...]]:
    """A row of HEADER's cells for each family."""
    from medfaith.tasks.models.vlm.families import families

    return [(family.name, family.models, ", ".join(family.model_types), family.tiling) for family in families()]


def _run_models(_arguments: argparse.Namespace, _rest: Sequence[str]) -> int:
    from medfaith.printing import table

    print(f"{table(HEADER, rows())}\n\n{OTHERS}")
    return 0
