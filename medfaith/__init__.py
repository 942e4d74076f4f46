"""medfaith: audits whether medical vision-language models answer from the image.

The rooms: `loaders` (licensed sources), `builders` (benchmarks), `evaluate_metrics`, `tasks` (for lm-eval) and `cards`.
This package itself is the front door, the `medfaith` command.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from PIL.Image import Image


def open_images(row: Mapping[str, Any], roots: Mapping[str, str | Path] | None = None) -> list[Image]:
    """Open the images of one row as a model sees them.

    Args:
        row: A row of any benchmark from `datasets.load_dataset`. A TPT or VPT partner of HEAL-MedVQA refers to its
            original and names no image: pass `original | partner`, and the image shows the other patient's region.
        roots: Source -> folder with the licensed images; the user's settings add to them (docs/data.md).

    Returns:
        The images in the order of the row, mode RGB.

    Raises:
        InputError: A row without images, or a root that does not exist.
        MissingSourceError: The folder of a source is unknown.
        ImageError: An image is missing or broken, or differs in size from its masks.
    """
    import os
    from functools import partial

    from medfaith.loaders import sources
    from medfaith.loaders.errors import InputError
    from medfaith.tasks.heal.rows import TRANSPLANT
    from medfaith.tasks.lazy_images import LazyImages

    references = row["images"] if "images" in row else [row["image"]] if "image" in row else None
    if references is None:
        action = "of a partner in HEAL-MedVQA pass original | partner; original_id names the original"
        raise InputError(f"row {row.get('id')}", "names no image", expected="a column images or image", action=action)
    named_roots = {source: str(root) for source, root in (roots or {}).items()}
    all_roots = sources.resolve_roots(named_roots, environ=os.environ, config=sources.find_user_config())
    edit = partial(TRANSPLANT.apply, row) if "donor" in row else None
    return list(LazyImages(row["id"], references, all_roots, edit, hint=""))
