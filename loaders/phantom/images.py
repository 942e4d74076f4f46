"""The images of the synthetic table of one's own questions of the same seed: one png for each patient."""

from __future__ import annotations

from pathlib import Path

from PIL import Image

from .own_cases import N_PATIENTS, plan
from .table import CODE


def write(root: Path, *, seed: int, n: int = N_PATIENTS) -> Path:
    """Write a png for each patient of the table that `table.write` writes with the same seed and number.

    Args:
        root: The folder to write to.
        seed: The seed.
        n: The number of patients.

    Returns:
        `root`.
    """
    root.mkdir(parents=True, exist_ok=True)
    for patient in plan(seed, CODE, n):
        Image.fromarray(patient.draw().pixels).save(root / f"{patient.name}.png")
    return root
