"""Questions of HEAL-MedVQA with the answers that LobA learns (section 4.1, appendix D) and the masks of regions."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch.utils.data import Dataset

from medfaith.builders.heal_medvqa import CONFIGS
from medfaith.loaders import rle
from medfaith.loaders.errors import InputError
from medfaith.tasks.decoding.loba.encode import SEG, Example
from medfaith.tasks.heal import rows
from medfaith.tasks.heal.prompts import prompt, target

from ..row_selection import check_roots, sample_evenly

TEMPLATE = f"The location of the {{anatomy}} is at {SEG}. The answer is {{answer}}."
ASKED = ("closed", "open")


class Examples(Dataset[Example]):
    """The closed questions of a split, then the open ones. An image is opened when its example is taken.

    Args:
        data: As in `tasks.rows.load`.
        config: "vindr" or "mimic".
        split: As in `tasks.rows.load`.
        roots: As in `tasks.rows.load`.
        limit: The number of rows, taken at equal steps; None for all.

    Raises:
        InputError: The build does not exist, or a row has no region.
        ImageError: An image is missing.
    """

    def __init__(self, data: str, config: str, split: str, roots: Mapping[str, Path], limit: int | None = None) -> None:
        """Load the rows. The class documents the arguments."""
        check_roots([CONFIGS[config]], roots)
        self.repository = f"heal-medvqa-{CONFIGS[config]}"
        options: dict[str, Any] = {"data": data, "split": split, "roots": roots}
        tables = [rows.load(self.repository, config, ask, **options)["test"] for ask in ASKED]
        self._rows = sample_evenly([(table, number) for table in tables for number in range(len(table))], limit)
        self.ids = sample_evenly([row_id for table in tables for row_id in _list_ids(self.repository, table)], limit)

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: int) -> Example:
        """Return an example.

        Raises:
            ImageError: The image cannot be opened.
            InputError: The image has another size than its mask.
        """
        table, number = self._rows[index]
        return build_example(table[number])


def build_example(doc: Mapping[str, Any]) -> Example:
    """Build the example of a document of `tasks.heal.rows`.

    Args:
        doc: The document. Its image can be opened.

    Returns:
        Image, mask, question, and the answer with its <SEG>.

    Raises:
        InputError: The region is missing, cannot be read, or has another size than its image.
    """
    where = f"row {doc['id']}"
    try:
        mask = rle.decode(doc["region"])
    except (TypeError, ValueError) as error:
        raise InputError(where, str(error), column="region", expected="the mask of an anatomy") from error
    image = doc["images"][0]
    if (image.height, image.width) != mask.shape:
        height, width = mask.shape
        raise InputError(
            where,
            f"its image has {image.width} x {image.height} pixels",
            expected=f"{width} x {height}, the size of its mask",
            action="use the source's original images: masks are in their pixels",
        )
    question_text = prompt(dict(doc)).replace("<image>", "")
    answer_text = TEMPLATE.format(anatomy=doc["anatomy"], answer=target(dict(doc)))
    return Example(doc["id"], doc["image_id"], image, question_text, answer_text, doc["anatomy"], mask)


def _list_ids(repository: str, table: Any) -> list[str]:
    """List the ids of the rows, and require a region of each, before anything is trained."""
    ids = []
    for row in table.with_format(None).select_columns(["id", "region"]):
        if not row["region"] or row["region"].get("counts") is None:
            action = "build it again with its anatomy masks, or leave the row out"
            raise InputError(repository, "has no mask", row=row["id"], column="region", action=action)
        ids.append(row["id"])
    return ids
