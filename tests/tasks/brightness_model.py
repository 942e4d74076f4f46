"""Answers of a model that looks at one thing: how bright is the anatomy that a question asks about?

It answers closed questions of the synthetic sources, whose findings make their anatomy brighter or darker. What is
usual for an anatomy, and where a disease begins, it takes from the training split.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
from PIL import Image

from medfaith.loaders import images, rle
from medfaith.loaders.anatomy_masks import AnatomyMasks

UNSEEN = (1.0, 10.0)  # for a disease of which the training split lacks a Yes or a No: brighter by 10 grey levels


@dataclass(frozen=True)
class Calibration:
    """usual: median grey level by anatomy. cuts: disease -> (1 brighter or -1 darker, grey levels beyond usual)."""

    usual: Mapping[str, float]
    cuts: Mapping[str, tuple[float, float]]


def calibrate(rows: Iterable[Mapping[str, Any]], masks: AnatomyMasks, roots: Mapping[str, Path]) -> Calibration:
    """The calibration on rows of a training split; each image's every anatomy tells what is usual."""
    closed = [row for row in rows if row["question_type"] == "closed"]
    references = {row["image"]["key"]: row["image"] for row in closed}
    levels = {key: _levels(images.open_image(ref, roots), masks, key) for key, ref in references.items()}
    anatomies = sorted({anatomy for of_image in levels.values() for anatomy in of_image})
    usual = {a: statistics.median(of[a] for of in levels.values() if a in of) for a in anatomies}
    beyond: dict[str, dict[str, list[float]]] = {}
    for row in closed:
        of_disease = beyond.setdefault(row["diseases"][0], {"Yes": [], "No": []})
        of_disease[row["answer"]].append(levels[row["image"]["key"]][row["anatomy"]] - usual[row["anatomy"]])
    cuts = {}
    for disease, of_disease in beyond.items():
        if of_disease["Yes"] and of_disease["No"]:
            yes, no = statistics.median(of_disease["Yes"]), statistics.median(of_disease["No"])
            cuts[disease] = (1.0 if yes > no else -1.0, (yes + no) / 2)
    return Calibration(usual, cuts)


def says(calibration: Calibration, masks: AnatomyMasks, doc: Mapping[str, Any]) -> str:
    """Yes where the asked anatomy is brighter (or darker) than the asked disease's cut."""
    (image,), anatomy, (disease,) = doc["images"], doc["anatomy"], doc["diseases"]
    level = _levels(image, masks, doc["image_id"])[anatomy]
    sign, cut = calibration.cuts.get(disease, UNSEEN)
    return "Yes" if sign * (level - calibration.usual[anatomy] - cut) > 0 else "No"


def _levels(image: Image.Image, masks: AnatomyMasks, key: str) -> dict[str, float]:
    """Mean grey level of each anatomy of an image whose mask is there."""
    grey = np.asarray(image.convert("L"))
    regions = masks.read(PurePosixPath(key).stem, (grey.shape[0], grey.shape[1]))
    return {anatomy: float(grey[rle.decode(region)].mean()) for anatomy, region in regions.items()}
