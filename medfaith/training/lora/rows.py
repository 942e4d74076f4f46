"""Training rows as their tasks ask them: the images, the prompt of the benchmark, and its right answer in words."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from PIL import Image
from torch.utils.data import Dataset

from medfaith.builders.heal_medvqa import CONFIGS
from medfaith.tasks.contrabench import prompts as contrabench
from medfaith.tasks.contrabench import rows as contrabench_rows
from medfaith.tasks.heal import prompts as heal
from medfaith.tasks.heal import rows as heal_rows

from ..row_selection import at_steps, check_roots

Document = dict[str, Any]


class Example(NamedTuple):
    """prompt: with `<image>` where each image stands. target: what the model learns to say."""

    id: str
    images: list[Image.Image]
    prompt: str
    target: str


class Part(NamedTuple):
    """Documents of one task, and how it asks and answers."""

    documents: Any
    prompt: Callable[[Document], str]
    target: Callable[[Document], str]


class Examples(Dataset[Example]):
    """The rows of several tasks, one after the other; images are opened when a row is taken.

    ids: of all rows. repository: where they are from.
    """

    def __init__(self, repository: str, parts: list[Part], limit: int | None = None) -> None:
        places = [(part, number) for part in parts for number in range(len(part.documents))]
        self._places = at_steps(places, limit)
        of_part = {id(part): part.documents.with_format(None)["id"] for part in parts}
        self.ids = [of_part[id(part)][number] for part, number in self._places]
        self.repository = repository

    def __len__(self) -> int:
        return len(self._places)

    def __getitem__(self, index: int) -> Example:
        """Raises ImageError for an image that cannot be opened."""
        part, number = self._places[index]
        doc = part.documents[number]
        return Example(doc["id"], [*doc["images"]], part.prompt(doc), part.target(doc))


def examples(
    benchmark: str, data: str, roots: Mapping[str, Path], source: str = "vindr", limit: int | None = None
) -> Examples:
    """The training rows of a benchmark.

    Of HEAL-MedVQA these are the closed and the open questions of the split train of a source (section 5), of
    CXR-ContraBench the balanced set of Appendix H.

    Args:
        benchmark: "heal" or "contrabench". data, roots: as of `tasks.rows.load`. source: of HEAL-MedVQA, "vindr" or
            "mimic". limit: how many rows, taken at equal steps; None: all.

    Raises:
        InputError, ImageError: a build, a split or an image that is not there.
    """
    given: dict[str, Any] = {"data": data, "roots": {name: str(path) for name, path in roots.items()}, "split": "train"}
    check_roots(["chexpert" if benchmark == "contrabench" else CONFIGS[source]], roots)
    if benchmark == "contrabench":
        repository = "cxr-contrabench-chexpert"
        documents = contrabench_rows.load(repository, config="chexpert_lora_train", **given)["test"]
        return Examples(repository, [Part(documents, contrabench.b0, contrabench.target)], limit)
    repository = f"heal-medvqa-{CONFIGS[source]}"
    parts = [
        Part(heal_rows.load(repository, source, ask, **given)["test"], heal.prompt, _in_words)
        for ask in ("closed", "open")
    ]
    return Examples(repository, parts, limit)


def _in_words(doc: Document) -> str:
    return f"{heal.target(doc)}."
