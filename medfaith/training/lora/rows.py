"""Training rows in the form of their tasks: the images, the prompt of the benchmark, and its right answer in words."""

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

from ..row_selection import check_roots, sample_evenly

Document = dict[str, Any]


class Example(NamedTuple):
    """One training example.

    Attributes:
        id: The id of the row.
        images: The images.
        prompt: The prompt, with `<image>` for each image.
        target: The answer that the model learns.
    """

    id: str
    images: list[Image.Image]
    prompt: str
    target: str


class Part(NamedTuple):
    """The documents of one task.

    Attributes:
        documents: The documents.
        prompt: Formats the prompt of a document.
        target: Formats the right answer of a document.
    """

    documents: Any
    prompt: Callable[[Document], str]
    target: Callable[[Document], str]


class Examples(Dataset[Example]):
    """The rows of several tasks, one task after the other. Images are opened when a row is taken.

    Args:
        repository: The repository of the rows.
        tasks: The tasks.
        limit: The number of rows, taken at equal steps; None for all.
    """

    def __init__(self, repository: str, tasks: list[Part], limit: int | None = None) -> None:
        places = [(task, number) for task in tasks for number in range(len(task.documents))]
        self._places = sample_evenly(places, limit)
        task_ids = {id(task): task.documents.with_format(None)["id"] for task in tasks}
        self.ids = [task_ids[id(task)][number] for task, number in self._places]
        self.repository = repository

    def __len__(self) -> int:
        return len(self._places)

    def __getitem__(self, index: int) -> Example:
        """Return an example.

        Raises:
            ImageError: An image cannot be opened.
        """
        task, number = self._places[index]
        doc = task.documents[number]
        return Example(doc["id"], [*doc["images"]], task.prompt(doc), task.target(doc))


def examples(
    benchmark: str, data: str, roots: Mapping[str, Path], source: str = "vindr", limit: int | None = None
) -> Examples:
    """Load the training rows of a benchmark.

    For HEAL-MedVQA these are the closed and the open questions of a source's training split (section 5). For
    CXR-ContraBench they are the balanced set of Appendix H.

    Args:
        benchmark: "heal" or "contrabench".
        data: As in `tasks.rows.load`.
        roots: As in `tasks.rows.load`.
        source: For HEAL-MedVQA, "vindr" or "mimic".
        limit: The number of rows, taken at equal steps; None for all.

    Returns:
        The rows; images open on access.

    Raises:
        InputError: The build or the split does not exist.
        ImageError: An image is missing.
    """
    options: dict[str, Any] = {
        "data": data,
        "roots": {name: str(path) for name, path in roots.items()},
        "split": "train",
    }
    check_roots(["chexpert" if benchmark == "contrabench" else CONFIGS[source]], roots)
    if benchmark == "contrabench":
        repository = "cxr-contrabench-chexpert"
        documents = contrabench_rows.load(repository, config="chexpert_lora_train", **options)["test"]
        return Examples(repository, [Part(documents, contrabench.b0, contrabench.target)], limit)
    repository = f"heal-medvqa-{CONFIGS[source]}"
    tasks = [
        Part(heal_rows.load(repository, source, ask, **options)["test"], heal.prompt, _format_answer)
        for ask in ("closed", "open")
    ]
    return Examples(repository, tasks, limit)


def _format_answer(doc: Document) -> str:
    return f"{heal.target(doc)}."
