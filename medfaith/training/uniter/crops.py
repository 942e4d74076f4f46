"""Regions of the training images, cut out when a batch needs them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from PIL import Image

from medfaith.loaders.chest_imagenome_silver import SceneGraphs
from medfaith.tasks.models.alignment.uniter_regions import (
    CROP,
    GoldBoxes,
    Regions,
    cut_regions,
    get_dicom_id,
    require_boxes,
)

from ..recipes import GOLD
from ..views import Views

N_ANATOMIES = 36  # usual number of boxes of an image


class Crops(Views):
    """The regions of images, see `Views`.

    Args:
        references: As in `Views`.
        roots: As in `Views`.
        root: The folder of Chest ImaGenome.
        config: Gold or silver.
        options: The options of `Views`.

    Raises:
        InputError: Chest ImaGenome lacks a file.
    """

    n_bytes = N_ANATOMIES * CROP * CROP

    def __init__(
        self,
        references: Sequence[Mapping[str, str]],
        roots: Mapping[str, Path],
        *,
        root: Path,
        config: str,
        **options: Any,
    ) -> None:
        super().__init__(references, roots, **options)
        self._root = root
        self._gold = GoldBoxes(root) if config == GOLD else None
        self._silver = None if self._gold else SceneGraphs(root)

    def check(self) -> None:
        """Require every image, and for gold its boxes. A silver sentence comes from the file of its image's boxes.

        Raises:
            InputError: An image has no boxes.
            MissingSourceError: As in `Views.check`.
            ImageError: As in `Views.check`.
        """
        super().check()
        if self._gold:
            for reference in self._references:
                self._gold.find(reference["key"])

    def prepare(self, image: Image.Image, key: str) -> Regions:
        """Cut the regions out of an image.

        Args:
            image: The image.
            key: The key of the image in MIMIC-CXR-JPG.

        Returns:
            The regions.

        Raises:
            InputError: The image has no boxes.
        """
        if self._gold:
            return cut_regions(image, self._gold.find(key), key)
        assert self._silver is not None
        boxes = self._silver.read_anatomy(get_dicom_id(key))
        return cut_regions(image, require_boxes(boxes, key, self._root), key)
