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
    """The images of one row, in order, mode RGB, as a model is shown them.

    Args:
        row: of any benchmark, as `datasets.load_dataset` gives it. A TPT or VPT partner of HEAL-MedVQA refers to its
            original and names no image: pass `original | partner`, and the image shows the other patient's region.
        roots: source -> folder with the licensed images; the user's settings add to them (docs/data.md).

    Raises:
        InputError: a row without images, or a root that does not exist.
        MissingSourceError: a source whose place is not known.
        ImageError: an image that is missing or broken, or whose size is not that of its masks.
    """
    import os
    from functools import partial

    from medfaith.loaders import sources
    from medfaith.loaders.errors import InputError
    from medfaith.tasks.heal.rows import TRANSPLANT
    from medfaith.tasks.rows import LazyImages

    references = row["images"] if "images" in row else [row["image"]] if "image" in row else None
    if references is None:
        action = "of a partner in HEAL-MedVQA pass original | partner; original_id names the original"
        raise InputError(f"row {row.get('id')}", "names no image", expected="a column images or image", action=action)
    named = {source: str(root) for source, root in (roots or {}).items()}
    known = sources.resolve_roots(named, environ=os.environ, config=sources.find_user_config())
    edit = partial(TRANSPLANT.apply, row) if "donor" in row else None
    return list(LazyImages(row["id"], references, known, edit, hint=""))
