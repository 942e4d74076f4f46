"""Detection of edited images by a small classifier, on synthetic chests of HEAL-MedVQA.

    uv run python benchmarks/edit_detection.py

The classifier is that of `medfaith audit --thorough` (`medfaith/auditing/edit_detection.py`). The table has the area
under the ROC curve on images outside the training folds; 0.5 means that edited and plain images look the same to it.
An edit of an unrelated region should be near 0.5. Otherwise an answer may follow the edit and not the removed target.
Each control is compared on its own rows. The last lines are for harmless changes.
"""

from __future__ import annotations

import argparse
import io
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
from PIL import Image

from medfaith.auditing.edit_detection import compute_features, measure_detection
from medfaith.builders import heal_medvqa
from medfaith.loaders import phantom
from medfaith.tasks.controls import EDITS, ELSEWHERE, HARMLESS
from medfaith.tasks.heal import rows as heal

CONTROLS = (*(f"{edit}{place}" for place in (ELSEWHERE, "") for edit in EDITS), *HARMLESS)
TASKS = (("vindr_cxr", "vindr"), ("mimic_cxr", "mimic"))
SEEDS = 3  # synthetic sources


def iterate_documents(
    places: Sequence[tuple[Path, Mapping[str, Path]]], control: str | None
) -> Iterator[tuple[str, str, Any]]:
    """Iterate over row, image and displayed picture of all HEAL tasks of single questions."""
    for number, (data, roots) in enumerate(places):
        for source, config in TASKS:
            for ask in ("closed", "open"):
                options: dict[str, Any] = {
                    "split": "test",
                    "data": str(data),
                    "roots": {k: str(v) for k, v in roots.items()},
                }
                docs = heal.load(f"heal-medvqa-{source}", config, ask, control=control, **options)["test"]
                for doc in cast(Iterable[dict[str, Any]], docs):
                    yield f"{number} {doc['id']}", f"{number} {doc['image_id']}", doc["images"][0]


def encode_as_jpeg(image: Image.Image) -> Image.Image:
    """Encode an image as JPEG and open it again."""
    data = io.BytesIO()
    image.convert("RGB").save(data, "JPEG", quality=75)
    return Image.open(data)


def main() -> None:
    """Print the AUROC for each control."""
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--seeds", type=int, default=SEEDS, help="how many synthetic sources to draw (default: 3)")
    arguments = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        places = []
        for seed in range(arguments.seeds):
            needed = list(dict.fromkeys(name for names in heal_medvqa.NEEDS.values() for name in names))
            roots = phantom.write(Path(folder) / f"sources-{seed}", seed=seed, sources=needed)
            heal_medvqa.build(roots, Path(folder) / f"data-{seed}")
            places.append((Path(folder) / f"data-{seed}", roots))
        originals = list(iterate_documents(places, None))
        image_by_row = {row: image for row, image, _ in originals}
        plain = {row: compute_features(picture) for row, _, picture in originals}
        edited = {
            control: {r: compute_features(picture) for r, _, picture in iterate_documents(places, control)}
            for control in CONTROLS
        }
        edited["saved as JPEG"] = {row: compute_features(encode_as_jpeg(picture)) for row, _, picture in originals}
        common = sorted(set.intersection(*map(set, edited.values())))
        print(f"{'control':24}   rows  images  AUROC   AUROC on the {len(common)} rows of all")
        for control, features_by_row in edited.items():
            areas = []
            for rows in (sorted(features_by_row), common):
                before, after = (np.stack([by_row[row] for row in rows]) for by_row in (plain, features_by_row))
                areas.append(measure_detection(before, after, [image_by_row[row] for row in rows]).auroc)
            n_images = len({image_by_row[row] for row in features_by_row})
            print(
                f"{control:24}  {len(features_by_row):5}   {n_images:5}   {areas[0]:.2f}   {areas[1]:.2f}", flush=True
            )


if __name__ == "__main__":
    main()
