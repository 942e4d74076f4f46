"""A synthetic CheXStruct, folder `openi`: one csv a measure for the frontal images of the synthetic OpenI of that seed.

The measures are drawn at random and agree with their labels by the release's rules; the images do not show them.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .openi import _report

FOLDER = "openi"


@dataclass(frozen=True)
class _Measure:
    """A measure: its columns between viewposition and label, a function to draw them, and the share of label 1."""

    columns: tuple[str, ...]
    draw: Callable[[np.random.Generator, bool], tuple[str, ...]]
    share: float


def _ratio(threshold: float, spread: float) -> Callable[[np.random.Generator, bool], tuple[str, ...]]:
    """Return a function that draws two widths and their ratio: above `threshold` for label 1, below it for label 0."""

    def draw(rng: np.random.Generator, positive: bool) -> tuple[str, ...]:
        base = float(rng.uniform(80, 160))
        ratio = threshold + (1 if positive else -1) * float(rng.uniform(0.02, 1)) * spread
        return f"{base * ratio:.1f}", f"{base:.1f}", f"{ratio:.4f}"

    return draw


def _curvature(rng: np.random.Generator, positive: bool) -> tuple[str, ...]:
    return (f"{float(rng.uniform(0.0009, 0.003) if positive else rng.uniform(0.0001, 0.00089)):.6f}",)


def _direction(rng: np.random.Generator, positive: bool) -> tuple[str, ...]:
    return (str(rng.choice(["left", "right"])) if positive else "flat",)


def _ascending(rng: np.random.Generator, positive: bool) -> tuple[str, ...]:
    return (f"{float(rng.uniform(0.1, 0.3)):.4f}" if positive else "0.0",)


MEASURES = {
    "aortic_knob_enlargement": _Measure(("knob_width", "trachea_width", "ratio"), _ratio(2.5, 0.8), 0.3),
    "ascending_aorta_enlargement": _Measure(("ratio",), _ascending, 0.25),
    "cardiomegaly": _Measure(("heart_width", "thorax_width", "ratio"), _ratio(0.5, 0.12), 0.3),
    "descending_aorta_enlargement": _Measure(("aorta_width", "trachea_width", "ratio"), _ratio(2.5, 0.8), 0.2),
    "descending_aorta_tortuous": _Measure(("curvature",), _curvature, 0.25),
    "mediastinal_widening": _Measure(("mediastinum_width", "thorax_width", "ratio"), _ratio(0.33, 0.08), 0.15),
    "trachea_deviation": _Measure(("direction",), _direction, 0.2),
}
JUNK = ("ascending_aorta_enlargement", "trachea_deviation")  # as some files of the release, these begin with `1,,,`
PASSED = 0.8  # share of images that pass a measure's quality check; the others have no row


def write(root: Path, *, seed: int, n: int = 70) -> Path:
    """Write one csv file for each measure, of the frontal images of `openi.write(..., seed=seed, n=n)`.

    Args:
        root: The folder to write to.
        seed: The seed of the images.
        n: The number of reports.

    Returns:
        `root`.
    """
    images = list(_frontal_images(seed, n))
    folder = root / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    for number, (name, measure) in enumerate(MEASURES.items()):
        rng = np.random.default_rng([seed, number, 4])
        with (folder / f"{name}.csv").open("w", encoding="utf-8", newline="") as file:
            rows = csv.writer(file, lineterminator="\n")
            rows.writerow(["image_file", "viewposition", *measure.columns, "label"])
            if name in JUNK:
                rows.writerow(["1", *[""] * (len(measure.columns) + 2)])
            for image in images:
                positive, passed = bool(rng.random() < measure.share), rng.random() < PASSED
                values = measure.draw(rng, positive)
                if passed:
                    rows.writerow([image, "", *values, "1.0" if positive else "0.0"])
    return root


def _frontal_images(seed: int, n: int) -> Iterator[str]:
    """Yield DICOM names, as CheXStruct uses them: without the report's CXR, and without CXR1_ in report 1."""
    for number in [number for number in range(1, 2 * n + 1) if number % 23][:n]:
        for image_id, view in _report(number, np.random.default_rng([seed, number])).images:
            if view == "frontal":
                yield image_id.removeprefix("CXR1_" if number == 1 else "CXR") + ".dcm"
