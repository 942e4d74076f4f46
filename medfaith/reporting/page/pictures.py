"""Small pictures of the models' inputs, with their regions, boxes and heatmaps.

The pixels are licensed. A page has them only if its reader names own data and roots (`Pixels`).
"""

from __future__ import annotations

import base64
import io
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from PIL import Image

from medfaith.loaders import images, rle
from medfaith.loaders.errors import InputError, MedfaithError
from medfaith.loaders.progress import Progress
from medfaith.tasks.controls import TARGET

from .cases import IMAGE, Case, RunsByBenchmark, strip_wording

SIDE = 320  # pixels of a picture's longer side
LARGEST = 4  # images of a study
BEFORE = "before the edit"
MOVED = ("other", "other_same", "flipped")  # controls under which the row's region does not fit the image
_GREEN, _ORANGE = (0, 224, 0), (255, 96, 0)
_LEVELS = 16  # opacities of a heatmap


class Pixels(NamedTuple):
    """Sources of the pictures.

    Attributes:
        data: The build, or a Hub organisation.
        roots: Source id -> folder with its images.
        heatmaps: The store of the models' heatmaps, or None.
        most: Maximum number of cases with pictures.
    """

    data: str
    roots: Mapping[str, Path]
    heatmaps: Path | None
    most: int


class Box(NamedTuple):
    """A labelled rectangle in pixels of the image.

    Attributes:
        label: The label.
        x: Left edge.
        y: Top edge.
        width: Width.
        height: Height.
    """

    label: str
    x: float
    y: float
    width: float
    height: float


class Picture(NamedTuple):
    """One image as the model got it.

    Attributes:
        shown: The control, IMAGE or BEFORE.
        url: The image as data URL.
        size: (width, height) of the image in pixels.
        region: Data URL of the mask of the region that the question asks about; "" without a mask.
        boxes: Labelled boxes.
        heat: (model, data URL of its heatmap).
    """

    shown: str
    url: str
    size: tuple[int, int]
    region: str = ""
    boxes: tuple[Box, ...] = ()
    heat: tuple[tuple[str, str], ...] = ()


def pictures(
    cases: Sequence[Case], runs: RunsByBenchmark, pixels: Pixels, *, required: bool = True
) -> tuple[dict[int, list[Picture]], list[str]]:
    """Draw small pictures of the cases, first with the image and then under each control.

    Above `pixels.most` cases, cases at equal steps are taken, so that each task has its share.

    Args:
        cases: The cases.
        runs: The runs of each benchmark, which refer to the heatmaps.
        pixels: Sources of the pictures.
        required: Whether it is an error if no task can have pictures.

    Returns:
        Index of a case -> its pictures; and a note for each task that can have none.

    Raises:
        InputError: No task can have pictures although they are required, a row is missing from the data, or the
            heatmaps belong to another run.
        ImageError: An image cannot be opened.
    """
    reasons = {task: reason for task in {case.task for case in cases} if (reason := explain_missing(task, pixels))}
    eligible = [place for place, case in enumerate(cases) if case.task not in reasons]
    if not eligible and required:
        raise InputError("--with-images", f"no run can have pictures; {next(iter(reasons.values()), 'there is none')}")
    step = max(1.0, len(eligible) / pixels.most)
    sample = [eligible[int(number * step)] for number in range(min(pixels.most, len(eligible)))]
    places_by_condition: dict[tuple[str, str], list[int]] = defaultdict(list)
    for place in sample:
        for condition in {strip_wording(answer.shown) for answer in cases[place].answers} - {"none"}:
            places_by_condition[cases[place].task, condition].append(place)
    references = _collect_references(runs, {cases[place].id for place in sample}) if pixels.heatmaps else {}
    pictures_by_place: dict[int, list[Picture]] = defaultdict(list)
    with Progress(title="opening images", total=sum(map(len, places_by_condition.values())), unit="images") as bar:
        for (task, condition), places in sorted(places_by_condition.items(), key=_sort_key):
            documents, raw = load_rows(task, condition, pixels)
            numbers = {row_id: number for number, row_id in enumerate(raw["id"])}
            for place in places:
                number = numbers.get(cases[place].id)
                if number is not None:  # None if --rows or a control left it out
                    heatmaps = references.get((task, condition, cases[place].id), {})
                    pictures_by_place[place] += _iterate_pictures(
                        condition, documents[number], raw[number], heatmaps, pixels
                    )
                elif condition == IMAGE:
                    action = "give the build that the models were asked about"
                    raise InputError(pixels.data, f"has no row {cases[place].id} of {task}", action=action)
                bar.update()
    return dict(pictures_by_place), [f"No picture of {task}: {reason}" for task, reason in sorted(reasons.items())]


def explain_missing(task: str, pixels: Pixels) -> str:
    """Explain why a task can have no picture.

    Args:
        task: Name of the task.
        pixels: Sources of the pictures.

    Returns:
        The reason; "" if it can have pictures.
    """
    try:
        _, raw = load_rows(task, IMAGE, pixels)
    except MedfaithError as error:
        return " ".join(str(error).split())
    missing = sorted({reference["source"] for reference in raw[0]["images"]} - {*pixels.roots})
    return f"name the root of {' and '.join(missing)}" if missing else ""


def _sort_key(item: tuple[tuple[str, str], list[int]]) -> tuple[str, bool, str]:
    """Key that sorts by task, first with the image and then by control."""
    (task, condition), _ = item
    return task, condition != IMAGE, condition


def load_rows(task: str, condition: str, pixels: Pixels) -> tuple[Any, Any]:
    """Load the rows of a task.

    Args:
        task: Name of the task.
        condition: The control, or IMAGE.
        pixels: Sources of the pictures.

    Returns:
        The documents with their images, and the rows with the columns that a document leaves out.
    """
    from medfaith.tasks.run import load_tasks

    metadata: dict[str, Any] = {"data": pixels.data, "roots": {name: str(root) for name, root in pixels.roots.items()}}
    loaded = load_tasks(task.partition("::")[0], metadata | ({"control": condition} if condition != IMAGE else {}))
    documents = loaded["tasks"][task].test_docs()
    return documents, documents.with_format(None)


def _iterate_pictures(
    condition: str, document: Mapping[str, Any], raw: Mapping[str, Any], heat: Mapping[str, str], pixels: Pixels
) -> Iterator[Picture]:
    """Yield the pictures of one row."""
    images_of_row = document["images"]
    for place in range(min(len(images_of_row), LARGEST)):
        image = images_of_row[place]
        if place:
            yield Picture(condition, _resize_image(image), image.size)
            continue
        region = raw.get(TARGET) if condition not in MOVED else None
        mask = ""
        if region is not None and rle.get_size(region) == (image.height, image.width) and rle.area(region):
            mask = _draw_mask(rle.decode(region))
        boxes = [Box(box["label"], *box["xywh"]) for box in raw.get("boxes") or () if condition not in MOVED]
        heatmaps = [
            (model, _draw_heatmap(reference, raw["id"], image.size, pixels)) for model, reference in heat.items()
        ]
        yield Picture(condition, _resize_image(image), image.size, mask, tuple(boxes), tuple(heatmaps))
        if raw.get("edit") is not None and condition == IMAGE:
            before = images.open_image(raw["images"][0], pixels.roots)
            yield Picture(BEFORE, _resize_image(before), before.size)


def _collect_references(runs: RunsByBenchmark, ids: set[str]) -> dict[tuple[str, str, str], dict[str, str]]:
    """Collect the references to heatmaps: (task, condition, row) -> model -> reference."""
    references: dict[tuple[str, str, str], dict[str, str]] = defaultdict(dict)
    for benchmark, benchmark_runs in runs.items():
        for task, condition, row_id, model, reference in benchmark.find_heatmaps(benchmark_runs, ids):
            references[task, condition, row_id][model] = reference
    return references


def _draw_heatmap(reference: str, row_id: str, size: tuple[int, int], pixels: Pixels) -> str:
    """Draw the mean heatmap over all classes that the model named; "" without a heatmap."""
    from medfaith.tasks.explain.reader import HeatmapReader

    maps, _ = HeatmapReader(str(pixels.heatmaps)).read(reference, row_id, (size[1], size[0]))
    if not maps:
        return ""
    mean = np.mean(list(maps.values()), axis=0)
    levels = np.rint((_LEVELS - 1) * mean / max(float(mean.max()), 1e-12)).astype(np.uint8)
    return _draw_layer(levels, _ORANGE, [round(200 * level / (_LEVELS - 1)) for level in range(_LEVELS)])


def _draw_mask(mask: np.ndarray) -> str:
    """Draw a mask as a transparent layer."""
    return _draw_layer(mask.astype(np.uint8), _GREEN, [0, 90])


def _draw_layer(levels: np.ndarray, colour: tuple[int, int, int], alphas: Sequence[int]) -> str:
    """Draw a transparent PNG of one colour.

    Args:
        levels: Shape (h, w), uint8; index of each pixel's opacity.
        colour: RGB.
        alphas: Opacities, 0 to 255.
    """
    layer = Image.fromarray(levels, "P")
    layer.putpalette([*colour] * len(alphas))
    layer.thumbnail((SIDE, SIDE), Image.Resampling.NEAREST)
    buffer = io.BytesIO()
    layer.save(buffer, "PNG", transparency=bytes(alphas), optimize=True)
    return _encode_url("png", buffer)


def _resize_image(image: Image.Image) -> str:
    """Resize an image to a small JPEG."""
    small = image.convert("RGB")
    small.thumbnail((SIDE, SIDE), Image.Resampling.LANCZOS)
    buffer = io.BytesIO()
    small.save(buffer, "JPEG", quality=75)
    return _encode_url("jpeg", buffer)


def _encode_url(kind: str, buffer: io.BytesIO) -> str:
    """Encode an image as data URL."""
    return f"data:image/{kind};base64,{base64.b64encode(buffer.getvalue()).decode()}"


def pack_pictures(pictures_by_place: Mapping[int, Sequence[Picture]]) -> dict[str, Any]:
    """Pack pictures as indices into one list of URLs, so that the file holds each URL once.

    Args:
        pictures_by_place: Index of a case -> its pictures.

    Returns:
        "cases": index -> pictures; "urls": the list.
    """
    places: dict[str, int] = {}

    def add(url: str) -> int:
        return places.setdefault(url, len(places)) if url else -1

    cases = {
        str(case): [
            [picture.shown, add(picture.url), *picture.size, add(picture.region), [list(box) for box in picture.boxes],
             [[model, add(url)] for model, url in picture.heat if url]]
            for picture in images_of_case
        ]
        for case, images_of_case in pictures_by_place.items()
    }  # fmt: skip
    return {"cases": cases, "urls": list(places)}
