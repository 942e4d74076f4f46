"""Tiny synthetic sources in exactly the official layouts: no licence, no patient, drawn from a seed.

`chest` draws (findings -> pixels and masks); each module of SOURCES writes one source in its official layout. Related
sources (vindr_cxr, vindr_cxr_anatomy) agree if they are written with one seed.
"""

from __future__ import annotations

import importlib
from collections.abc import Collection
from pathlib import Path

from ..errors import InputError

SOURCES = (
    "chexpert", "openi", "chexstruct", "rexvqa", "vindr_cxr", "vindr_cxr_anatomy", "mimic_cxr", "mimic_cxr_reports",
    "mimic_cxr_anatomy", "mimic_cxr_detections", "chest_imagenome", "cholec80", "cholec80_boxes", "cholect45",
    "cholect50", "cholecseg8k", "nih_cxr14", "chexmask", "chexlocalize", "table", "images", "vqa_rad", "slake",
)  # fmt: skip
# Sources of the studies of MIMIC-CXR.
STUDIES = ("mimic_cxr", "mimic_cxr_reports", "mimic_cxr_anatomy", "mimic_cxr_detections", "chest_imagenome")


def write(
    root: Path, *, seed: int = 0, sources: Collection[str] = SOURCES, n_studies: int | None = None
) -> dict[str, Path]:
    """Write synthetic sources. The same seed gives the same bytes.

    Args:
        root: The folder to write to; each source gets a folder of its name.
        seed: The seed.
        sources: The source ids.
        n_studies: The number of studies of the sources in STUDIES; None for the default.

    Returns:
        The folder of each source.

    Raises:
        InputError: A source has no phantom, or its folder already has content, which files of another seed would mix
            with.
    """
    folders = {}
    for source in sources:
        folder = root / source
        if source not in SOURCES:
            raise InputError(
                f"phantom source {source!r}", "no phantom of it exists", expected=f"one of {', '.join(SOURCES)}"
            )
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise InputError(folder, "is not an empty folder", action="name another folder, or remove this one first")
        folders[source] = folder
    for source, folder in folders.items():
        size = {"n": n_studies} if n_studies is not None and source in STUDIES else {}
        importlib.import_module(f".{source}", __name__).write(folder, seed=seed, **size)
    return folders
