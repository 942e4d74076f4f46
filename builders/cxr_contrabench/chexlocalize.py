"""CheXpert's presence questions (`chexpert`) with the region of the finding, as CheXlocalize's radiologists drew it.

A row asks what the row of CheXpert about the same study and finding asks, with the same options in the same order. It
shows one image: the first one, in view order, in which the finding is drawn. Controls need one region for one image.

The masks are of the size of the original images. The mask of a smaller copy is scaled by nearest neighbour.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pyarrow as pa

from ...loaders import rle
from ...loaders.chexlocalize import fit_mask
from ..checks import find_mask_violations, iterate_rows
from ..schemas.contrabench import LOCATED_QUESTION
from . import chexpert
from .questions import Wording, find_violations
from .reasons import SCALED, WITHOUT_MASK

SOURCE = "chexlocalize"
PROTOCOLS = {"chexlocalize_presence": "chexpert_presence", "chexlocalize_positive_only": "chexpert_positive_only"}
SPLITS = ("validation", "test")
Masks = Mapping[str, Mapping[str, rle.Rle]]  # key of an image without suffix -> finding -> mask
ReadSize = Callable[[Mapping[str, str]], tuple[int, int]]


def questions(
    studies: pa.Table,
    masks: Masks,
    read_size: ReadSize,
    config: str,
    split: str,
    *,
    seed: int = 0,
    wording: Wording | None = None,
) -> tuple[pa.Table, Counter[str]]:
    """Build the CheXpert questions of one config, each with one image and the mask of its finding in that image.

    Of a study's images, the first one with a mask that is not empty counts. Questions without such an image are left
    out.

    Args:
        studies: The result of `chexpert.studies` for the images of CheXlocalize.
        masks: The result of `loaders.chexlocalize.read_masks`.
        read_size: Returns (width, height) of an image.
        config: The name of the config.
        split: The name of the split, for the ids and the reasons of the counts.
        seed: The seed of the build.
        wording: The wording and layout of the questions.

    Returns:
        Rows in the schema LOCATED_QUESTION, and counts of questions without a mask and of scaled masks.

    Raises:
        InputError: A mask does not fit its image.
        ImageError: An image with a mask is missing or broken.
    """
    present_by_study = {
        study["study_id"]: [finding for finding in chexpert.FINDINGS if study[finding] == 1]
        for study in iterate_rows(studies.select(["study_id", *chexpert.FINDINGS]))
    }
    rows: list[dict[str, Any]] = []
    counts: Counter[str] = Counter()
    plain_rows = chexpert.questions(studies, PROTOCOLS[config], split, seed=seed, wording=wording)
    for row in iterate_rows(plain_rows):
        located_image = next(_iterate_drawn(row, masks), None)
        if located_image is None:
            counts[WITHOUT_MASK.format(f"{config}/{split}")] += 1
            continue
        image, mask = located_image
        width, height = read_size(image)
        region = fit_mask(mask, (height, width), image["key"])
        counts[SCALED.format(f"{config}/{split}")] += region["size"] != mask["size"]
        located = {"images": [image], "width": width, "height": height, "region": region}
        row_id = f"{SOURCE}/{row['id'].removeprefix('chexpert/')}"
        names = {"id": row_id, "protocol": config, "present": present_by_study[row["study_id"]]}
        rows.append(row | located | names)
    return pa.Table.from_pylist(rows, schema=LOCATED_QUESTION.arrow_schema), +counts


def _iterate_drawn(row: Mapping[str, Any], masks: Masks) -> Iterator[tuple[dict[str, str], rle.Rle]]:
    """Yield (image, mask) for each image of a row in which the mask of the row's finding is not empty."""
    for image in row["images"]:
        mask = masks.get(image["key"].rpartition(".")[0], {}).get(chexpert.TARGETS[row["finding"]])
        if mask is not None and rle.area(mask):
            yield image, mask


def find_located_violations(table: pa.Table) -> list[str]:
    """Find faults in rows: those of questions, more than one image, and regions that are empty or do not fit.

    Args:
        table: Rows in the schema LOCATED_QUESTION.

    Returns:
        The problems.
    """
    problems = find_violations(table)
    for row in iterate_rows(table):
        row_problems = find_mask_violations(row["region"], [row["height"], row["width"]])
        if not row_problems and not rle.area(row["region"]):
            row_problems.append("empty mask")
        if len(row["images"]) != 1:
            row_problems.append(f"{len(row['images'])} images; a region belongs to one")
        if row["finding"] not in row["present"]:
            row_problems.append(f"{row['finding']!r} is not among the findings that are present")
        problems += [f"row {row['id']}: {problem}" for problem in row_problems]
    return problems
