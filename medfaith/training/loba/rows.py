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

from ..row_selection import at_steps, check_roots

TEMPLATE = f"The location of the {{anatomy}} is at {SEG}. The answer is {{answer}}."
ASKED = ("closed", "open")


class Examples(Dataset[Example]):
    """The closed questions of a split and then the open ones; an image is opened when its example is taken."""

    def __init__(self, data: str, config: str, split: str, roots: Mapping[str, Path], limit: int | None = None) -> None:
        """data, split, roots: as of `tasks.rows.load`. config: vindr or mimic. limit: how many, taken at equal steps.

        Raises:
            InputError, ImageError: a build or an image that is not there; a row without a region.
        """
        check_roots([CONFIGS[config]], roots)
        self.repository = f"heal-medvqa-{CONFIGS[config]}"
        options: dict[str, Any] = {"data": data, "split": split, "roots": roots}
        parts = [rows.load(self.repository, config, ask, **options)["test"] for ask in ASKED]
        self._rows = at_steps([(part, number) for part in parts for number in range(len(part))], limit)
        self.ids = at_steps([row_id for part in parts for row_id in _checked_ids(self.repository, part)], limit)

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: int) -> Example:
        """Raises ImageError for an image that cannot be opened, InputError for one of another size than its mask."""
        part, number = self._rows[index]
        return example(part[number])


def example(doc: Mapping[str, Any]) -> Example:
    """The example of a document of `tasks.heal.rows` whose images can be opened.

    Raises:
        InputError: no region, one that cannot be read, or one of another size than its image.
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
    words = prompt(dict(doc)).replace("<image>", "")
    said = TEMPLATE.format(anatomy=doc["anatomy"], answer=target(dict(doc)))
    return Example(doc["id"], doc["image_id"], image, words, said, doc["anatomy"], mask)


def _checked_ids(repository: str, part: Any) -> list[str]:
    """The ids of the rows; raises InputError for the first without a region, before anything is trained."""
    ids = []
    for row in part.with_format(None).select_columns(["id", "region"]):
        if not row["region"] or row["region"].get("counts") is None:
            action = "build it again with its anatomy masks, or leave the row out"
            raise InputError(repository, "has no mask", row=row["id"], column="region", action=action)
        ids.append(row["id"])
    return ids
