"""`medfaith models`: the families of vision-language models that were tried, and the roads that each takes."""

from __future__ import annotations

import argparse
import importlib.util
import textwrap
from collections.abc import Sequence
from typing import Any

HEADER = ("family", "models", "model_type in config.json", "tested roads", "how it sees an image")
ROADS = (
    "answers and option scores: --model medfaith-hf-vlm; heatmaps: --model medfaith-explained-vlm;\n"
    "decoders: decoding= in --model_args of medfaith-hf-vlm. A road that a family does not list refuses it."
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

    return [
        (family.name, family.models, ", ".join(family.model_types), ", ".join(family.roads), family.tiling)
        for family in families()
    ]


def list_untried() -> list[str]:
    """List the model types that transformers loads as models of images and text, and that no test here has seen.

    Returns:
        The model types, sorted; empty without transformers.
    """
    if importlib.util.find_spec("transformers") is None or importlib.util.find_spec("torch") is None:
        return []
    from transformers.models.auto.modeling_auto import MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES

    from medfaith.tasks.models.vlm.families import REFUSED, families

    tried = {model_type for family in families() for model_type in family.model_types}
    return sorted({*MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES} - tried - {*REFUSED})


def _run_models(_arguments: argparse.Namespace, _rest: Sequence[str]) -> int:
    from medfaith.printing import table
    from medfaith.tasks.models.vlm.families import REFUSED

    refused = "\n".join(f"refused: {model_type} {reason}" for model_type, reason in REFUSED.items())
    untried = ", ".join(list_untried()) or "all other models of transformers"
    print(f"{table(HEADER, rows())}\n\n{ROADS}\n\n{refused}\n")
    print(
        textwrap.fill(f"not tried (answers and option scores may work; heatmaps and decoders refuse): {untried}", 120)
    )
    return 0
