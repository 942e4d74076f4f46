"""The patients of the synthetic tables of one's own questions: each image shows one finding, or none."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .cases import sub_seed
from .chest import Chest, chest, outline

FINDINGS = ("cardiomegaly", "consolidation", "pneumothorax", "pleural effusion")
SIZE = (192, 160)  # height, width in pixels
NONE = "none"
N_PATIENTS = 96


class Patient(NamedTuple):
    """One patient with one image.

    Attributes:
        name: The name.
        seed: The seed of the image.
        finding: One of FINDINGS, or "".
        absent: One of the findings that the image does not show.
    """

    name: str
    seed: int
    finding: str
    absent: str

    def draw(self) -> Chest:
        """Draw the image.

        Returns:
            The chest, of SIZE.
        """
        return chest(self._list_findings(), seed=self.seed, size=SIZE)

    def find_mask(self) -> np.ndarray | None:
        """Compute the mask of the finding.

        Returns:
            A bool mask of SIZE; None without a finding.
        """
        outlines = outline(self._list_findings(), seed=self.seed, size=SIZE)
        return next(iter(outlines.findings.values()), None)

    def _list_findings(self) -> list[str]:
        return [self.finding] if self.finding else []


def plan(seed: int, code: int, n: int = N_PATIENTS) -> list[Patient]:
    """Plan the patients of a table. Three of four have a finding.

    Args:
        seed: The seed.
        code: The number of the table; other tables have other patients.
        n: The number of patients.

    Returns:
        The patients.
    """
    rng = np.random.default_rng([seed, code])
    patients = []
    for number in range(n):
        finding = FINDINGS[number // 4 % len(FINDINGS)] if number % 4 else ""
        absent = [name for name in FINDINGS if name != finding]
        patients.append(
            Patient(f"case{number:03d}", sub_seed(seed, code, number), finding, absent[int(rng.integers(len(absent)))])
        )
    return patients
