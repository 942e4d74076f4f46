"""Build of HEAL-MedVQA at the size of VinDr-CXR: real boxes, synthetic masks, one core.

    uv run python benchmarks/build_heal.py

The boxes come from the VinBigData copy in torchxrayvision. The masks are those of 12 synthetic chests, one for each
image, at 512 x 512 pixels in one COCO file, the format of segmenters. Images have sides of 2,500 pixels and more, so
each mask is scaled. The numbers of questions and relations show the effect of the rules on real boxes, not on real
masks. `question_prior` measures leakage in the questions: the accuracy on closed and open questions, and TPT and VPT,
of a model without the image.

Relations by rule, as printed at the end, on the 8,163 boxes that two readers agree on in the 15,000 training images
(the table shows the rule, not the anatomy):

| measure | threshold | relations | images with one | anatomies a box |
|---|---|---|---|---|
| iou | 0.01 | 18,942 | 4,066 | 2.34 |
| iou | 0.05 | 13,320 | 3,881 | 1.64 |
| iou | 0.1 | 8,782 | 3,615 | 1.08 |
| iou | 0.2 | 4,329 | 2,673 | 0.53 |
| box | 0.25 | 9,042 | 3,915 | 1.12 |
| box | 0.5 | 4,402 | 2,997 | 0.55 |
| box | 0.75 | 1,873 | 1,472 | 0.24 |

Donors of VPT by rule: the number that may have the question's disease somewhere (a box of any reader, or another
reading of it), and the number of positive questions without a donor:

| donor diagnosis | donors | may have the disease | no donor |
|---|---|---|---|
| image | 5,461 | 0 | 0 |
| region | 5,461 | 214 | 0 |

On the build with the rule iou 0.05, `question_prior` is right on 0.556 of the closed and 0.500 of the open questions.
Its TPT is 0.901 (3,196 pairs whose question it answers Yes), and its VPT is 0.

Seconds are CPU time of a separate process, and memory is the peak of that process. Allowed: 120 s and 2,048 MiB.
"""

from __future__ import annotations

import csv
import gzip
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from medfaith.builders import heal_medvqa
from medfaith.builders.heal_medvqa import perturbations, vindr
from medfaith.builders.heal_medvqa.questions import questions
from medfaith.builders.heal_medvqa.relations import Rule, Scene, locate
from medfaith.builders.heal_medvqa.scenes import scenes
from medfaith.loaders import anatomy_masks, rle, sources, vindr_cxr
from medfaith.loaders.phantom.chest import regions
from medfaith.tasks.heal import rows as heal_rows
from medfaith.tasks.models.reference.baselines import QuestionPrior

CHESTS, MASK_SIZE = 12, (512, 512)
SIDES = (2500, 3001)  # pixels of an image, before its boxes ask for more
RULES = [Rule("iou", t) for t in (0.01, 0.05, 0.1, 0.2)] + [Rule("box", t) for t in (0.25, 0.5, 0.75)]
SECONDS, MEBIBYTES = 120, 2048


def draw_sizes(annotations: vindr_cxr.Annotations) -> dict[str, tuple[int, int]]:
    """Draw a (width, height) for each image, large enough for all its boxes."""
    sides = np.random.default_rng(0).integers(*SIDES, (len(annotations.image_ids), 2))
    boxes = annotations.boxes
    for side, (start, extent) in enumerate((("x", "width"), ("y", "height"))):
        ends = np.ceil(boxes[start].to_numpy() + boxes[extent].to_numpy()).astype(sides.dtype)
        np.maximum.at(sides[:, side], boxes["image"].to_numpy(), ends)
    return {image_id: (w, h) for image_id, (w, h) in zip(annotations.image_ids, sides.tolist(), strict=True)}


def write_masks(path: Path, image_ids: Sequence[str]) -> None:
    """Write one COCO file; each image gets the masks of one of the synthetic chests."""
    chests = []
    for seed in range(CHESTS):
        masks = regions([], seed=seed, size=MASK_SIZE)
        chests.append([rle.encode(masks[name]) for name in anatomy_masks.ANATOMIES])
    images = [{"id": number, "file_name": f"{image_id}.png"} for number, image_id in enumerate(image_ids)]
    masks = [
        {"image_id": number, "category_id": category, "segmentation": mask}
        for number in range(len(images))
        for category, mask in enumerate(chests[number % CHESTS])
    ]
    categories = [{"id": category, "name": name} for category, name in enumerate(anatomy_masks.ANATOMIES)]
    path.write_text(json.dumps({"images": images, "categories": categories, "annotations": masks}), encoding="utf-8")


def write_labels(root: Path, labels: Path, size_by_image: Mapping[str, tuple[int, int]]) -> Path:
    """Write a root with the label rows of some images only, and the table of their sizes."""
    root.mkdir()
    with (
        gzip.open(labels, "rt", encoding="utf-8", newline="") as all_rows,
        (root / "train.csv").open("w", encoding="utf-8", newline="") as kept_rows,
        (root / "train_meta.csv").open("w", encoding="utf-8", newline="") as meta,
    ):
        rows = csv.reader(all_rows)
        header = next(rows)
        csv.writer(kept_rows).writerows(
            [header, *(row for row in rows if row[header.index("image_id")] in size_by_image)]
        )
        size_rows = ((image_id, height, width) for image_id, (width, height) in size_by_image.items())
        csv.writer(meta).writerows([("image_id", "dim0", "dim1"), *size_rows])
    return root


def run_timed_build(root: Path, masks: Path, out: Path) -> dict[str, Any]:
    """Build in a new process; return seconds of processor time and peak memory in MiB."""
    command = [sys.executable, __file__, "build", str(root), str(masks), str(out)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def build(root: str, masks: str, out: str) -> None:
    """Build and print time and memory: the child process of `run_timed_build`."""
    start = time.process_time()
    heal_medvqa.build({vindr.SOURCE: Path(root), vindr.MASKS: Path(masks)}, Path(out), configs=["vindr"])
    seconds = time.process_time() - start
    print(json.dumps({"seconds": seconds, "MiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}))


def compute_reading_seconds(masks: Path, size_by_image: Mapping[str, tuple[int, int]]) -> float:
    """Compute the processor time to read all masks at the size of their images."""
    start = time.process_time()
    opened = anatomy_masks.open_masks(masks)
    for image_id, (width, height) in size_by_image.items():
        opened.read(image_id, (height, width))
    return time.process_time() - start


def format_relation_table(located: Sequence[Scene]) -> str:
    """Format the relations by rule as a Markdown table.

    Args:
        located: Scenes under any rule.
    """
    lines = ["| measure | threshold | relations | images with one | anatomies a box |", "|---|---|---|---|---|"]
    located = [scene for scene in located if scene.picture.boxes.labels]
    n_boxes = sum(len(scene.picture.boxes.labels) for scene in located)
    for rule in RULES:
        relations = [
            locate(scene.picture, (scene.width, scene.height), scene.regions, rule).related for scene in located
        ]
        pairs, images = sum(map(len, relations)), sum(map(bool, relations))
        links = sum(len(boxes) for related in relations for boxes in related.values())
        lines.append(f"| {rule.measure} | {rule.threshold} | {pairs:,} | {images:,} | {links / n_boxes:.2f} |")
    return "\n".join(lines)


def format_donor_table(located: Sequence[Scene]) -> str:
    """Format the donors by rule as a Markdown table.

    Args:
        located: Scenes of all images, under the default rule.
    """
    lines = ["| donor diagnosis | donors | may have the disease | no donor |", "|---|---|---|---|"]
    rows = questions(located, "vindr", "train", seed=0)
    n_positive = sum(1 for _ in rows.iterate_positive())
    for rule in perturbations.DONOR_DIAGNOSES:
        lent = perturbations.donors(rows, rule)
        sick = sum(row.disease in donor.picture.diseases for row, donor in lent)
        lines.append(f"| {rule} | {len(lent):,} | {sick:,} | {n_positive - len(lent):,} |")
    return "\n".join(lines)


def format_rows(record: Mapping[str, Any]) -> str:
    """Format the numbers of rows of a build."""
    counts: Counter[str] = Counter()
    for name, split in record["splits"].items():
        config = name.split("/")[0]
        counts += Counter({f"{config} {kind}": n for kind, n in split["counts"].get("kind", {}).items()})
        counts[config] += split["rows"]
    return "\n".join(f"rows: {name:25} {n:10,}" for name, n in sorted(counts.items()))


def score_blind(data: Path) -> str:
    """Score the reference model `question_prior`, which sees no image, on the rows of a build."""
    lines = []
    for ask in ("closed", "open", "tpt", "vpt"):
        rows = heal_rows.load("heal-medvqa-vindr_cxr", config="vindr", split="train", ask=ask, data=str(data), roots={})
        docs: list[Any] = list(rows["test"].with_format(None))
        answers = [doc["options"][choice] for doc, choice in zip(docs, QuestionPrior().choose(docs), strict=True)]
        right = [doc["options"][doc["answer"]] for doc in docs]
        if ask in ("closed", "open"):
            scored = [*map(str.__eq__, answers, right)]
        else:
            says_yes = {doc["id"] for doc, text in zip(docs, answers, strict=True) if text == "Yes"}
            scored = [
                doc["id"] not in says_yes
                for doc in docs
                if doc["kind"] != "original" and doc["original_id"] in says_yes
            ]
        lines.append(f"question_prior, {ask:16}{sum(scored) / len(scored):10.3f}   (of {len(scored):,})")
    return "\n".join(lines)


def main() -> None:
    """Print the tables, and time and memory of a full and a half build."""
    package = sources.resolve_roots({vindr.SOURCE: "torchxrayvision"}, environ={})[vindr.SOURCE]
    labels = vindr_cxr.find_label_files(package)["train"]
    annotations = vindr_cxr.read_annotations(labels, "train")
    size_by_image = draw_sizes(annotations)
    n_images = len(size_by_image)
    with tempfile.TemporaryDirectory() as folder:
        masks = Path(folder, "masks.json")
        write_masks(masks, annotations.image_ids)
        root = write_labels(Path(folder, "all"), labels, size_by_image)
        half = write_labels(Path(folder, "half"), labels, dict(islice(size_by_image.items(), n_images // 2)))
        full_build = run_timed_build(root, masks, Path(folder, "built"))
        half_build = run_timed_build(half, masks, Path(folder, "half-built"))
        record = json.loads(Path(folder, "built", "heal-medvqa-vindr_cxr", "build.json").read_text(encoding="utf-8"))
        without_image = score_blind(Path(folder, "built"))
        seconds = compute_reading_seconds(masks, size_by_image)
        pictures = vindr.pictures(root, "train", agreement="majority")
        located, _ = scenes(pictures, anatomy_masks.open_masks(masks), Rule(), {})
    print(f"images                          {n_images:10,}")
    print(f"boxes of the readers            {annotations.boxes.num_rows:10,}")
    print(f"boxes that two readers agree on {sum(len(p.boxes.labels) for p in pictures):10,}")
    print(format_rows(record))
    print(f"build                           {full_build['seconds']:10.1f} s   (allowed: {SECONDS})")
    print(f"of it, reading the masks        {seconds / full_build['seconds']:10.0%}")
    print(f"all images / half of them       {full_build['seconds'] / half_build['seconds']:10.2f}   (linear: 2)")
    print(f"peak memory                     {full_build['MiB']:10,.0f} MiB   (allowed: {MEBIBYTES:,})\n")
    print(without_image + "\n")
    print(format_relation_table(located) + "\n")
    print(format_donor_table(located))


if __name__ == "__main__":
    if sys.argv[1:2] == ["build"]:
        build(*sys.argv[2:])
    else:
        main()
