"""Small pictures of what the models were shown, with the region, the boxes and the heatmaps that belong to them.

These are licensed pixels: a page has them only where its reader's own data and roots are named (`Pixels`).
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

from medfaith.evaluate_metrics.reading.surgery import read_reply
from medfaith.loaders import images, rle
from medfaith.loaders.errors import InputError, MedfaithError
from medfaith.loaders.progress import Progress
from medfaith.logs.lines import responses
from medfaith.tasks.controls import TARGET
from medfaith.tasks.heal.localization import read_reply as read_localized

from ..heal_runs import HealRun
from ..results import Results
from ..surgx_runs import SurgXRun
from ..wrong_lung_runs import GOLD
from .cases import IMAGE, Answer, Case, name_of, shown_of, without_wording

SIDE = 320  # pixels of a picture's longer side
LARGEST = 4  # images of a study
BEFORE = "before the edit"
MOVED = ("other", "other_same", "flipped")  # controls under which a region lies elsewhere than in the row
_GREEN, _ORANGE = (0, 224, 0), (255, 96, 0)
_LEVELS = 16  # of a heatmap


class Pixels(NamedTuple):
    """Where pictures come from. data: what `medfaith build` wrote; heatmaps: the models' store, or None.

    most: how many cases get pictures.
    """

    data: str
    roots: Mapping[str, Path]
    heatmaps: Path | None
    most: int


class Box(NamedTuple):
    """A labelled rectangle in pixels of the image."""

    label: str
    x: float
    y: float
    width: float
    height: float


class Picture(NamedTuple):
    """One image as a model got it. Pictures are data URLs; size: (width, height) of the image.

    shown: the control, IMAGE or BEFORE. region: of what is asked about, "" if there is none. heat: a model's name and
    where it looked, from nothing to the most.
    """

    shown: str
    url: str
    size: tuple[int, int]
    region: str = ""
    boxes: tuple[Box, ...] = ()
    heat: tuple[tuple[str, str], ...] = ()


def pictures(cases: Sequence[Case], results: Results, given: Pixels) -> tuple[dict[int, list[Picture]], list[str]]:
    """Place of a case -> its pictures, with the image first and then under each control; and why tasks have none.

    More than `given.most` cases are taken at equal steps, so that each task has its share.

    Raises:
        InputError: no task can have pictures, the data lack a row of a run, or the heatmaps are of another run.
        ImageError: an image cannot be opened.
    """
    reasons = {task: reason for task in {case.task for case in cases} if (reason := _reason(task, given))}
    able = [place for place, case in enumerate(cases) if case.task not in reasons]
    if not able:
        raise InputError("--with-images", f"no run can have pictures; {next(iter(reasons.values()), 'there is none')}")
    step = max(1.0, len(able) / given.most)
    chosen = [able[int(number * step)] for number in range(min(given.most, len(able)))]
    wanted: dict[tuple[str, str], list[int]] = defaultdict(list)
    for place in chosen:
        for shown in {without_wording(answer.shown) for answer in cases[place].answers} - {"none"}:
            wanted[cases[place].task, shown].append(place)
    heat = _references(results, {cases[place].id for place in chosen}) if given.heatmaps else {}
    found: dict[int, list[Picture]] = defaultdict(list)
    with Progress(title="opening images", total=sum(map(len, wanted.values())), unit="images") as bar:
        for (task, shown), places in sorted(wanted.items(), key=_by_shown):
            documents, raw = _rows(task, shown, given)
            numbers = {row_id: number for number, row_id in enumerate(raw["id"])}
            for place in places:
                number = numbers.get(cases[place].id)
                if number is not None:  # --rows or a control left it out
                    of_case = heat.get((task, shown, cases[place].id), {})
                    found[place] += _of_row(shown, documents[number], raw[number], of_case, given)
                elif shown == IMAGE:
                    action = "give the build that the models were asked about"
                    raise InputError(given.data, f"has no row {cases[place].id} of {task}", action=action)
                bar.update()
    return dict(found), [f"No picture of {task}: {reason}" for task, reason in sorted(reasons.items())]


def sentence_cases(results: Results, given: Pixels) -> list[Case]:
    """The sentences of That's the Wrong Lung!, which a page may hold only where it holds their images, too.

    Only the reports' own ones (gold) with the image; where the data lack them there are none.
    """
    gold = [run for run in results.wrong_lung if run.setting.config == GOLD]
    runs = [run for run in gold if "control" not in dict(run.source.told)]
    answers: dict[tuple[str, str], list[Answer]] = defaultdict(list)
    about: dict[tuple[str, str], str] = {}
    for run in runs:
        for row in run.originals:
            key, auroc = (run.source.task, row["id"]), row["values"]["auroc"]
            read = row["state"] if auroc is None else f"AUROC {auroc:.3f} of the attention, against the boxes"
            answers[key].append(Answer(run.name, IMAGE, "", read, "", "", "no score" if auroc is None else "scored"))
            about[key] = ", ".join(name for name, is_in in row["subsets"].items() if is_in)
    texts = {}
    for task in {task for task, _ in answers}:
        if not _reason(task, given):
            _, raw = _rows(task, IMAGE, given)
            texts |= {(task, row_id): text for row_id, text in zip(raw["id"], raw["sentence"], strict=True)}
    return [
        Case("That's the Wrong Lung!", *key, texts[key], (), "where the boxes are", about[key], tuple(of))
        for key, of in sorted(answers.items())
        if key in texts
    ]


def _reason(task: str, given: Pixels) -> str:
    """Why a task can have no picture; "" if it can."""
    try:
        _, raw = _rows(task, IMAGE, given)
    except MedfaithError as error:
        return " ".join(str(error).split())
    missing = sorted({reference["source"] for reference in raw[0]["images"]} - {*given.roots})
    return f"name the root of {' and '.join(missing)}" if missing else ""


def _by_shown(item: tuple[tuple[str, str], list[int]]) -> tuple[str, bool, str]:
    (task, shown), _ = item
    return task, shown != IMAGE, shown


def _rows(task: str, shown: str, given: Pixels) -> tuple[Any, Any]:
    """A task's documents with their images, and its rows with the columns that a document does not keep."""
    from medfaith.tasks.run import load_tasks

    metadata: dict[str, Any] = {"data": given.data, "roots": {name: str(root) for name, root in given.roots.items()}}
    loaded = load_tasks(task.partition("::")[0], metadata | ({"control": shown} if shown != IMAGE else {}))
    documents = loaded["tasks"][task].test_docs()
    return documents, documents.with_format(None)


def _of_row(
    shown: str, document: Mapping[str, Any], raw: Mapping[str, Any], heat: Mapping[str, str], given: Pixels
) -> Iterator[Picture]:
    opened = document["images"]
    for place in range(min(len(opened), LARGEST)):
        image = opened[place]
        if place:
            yield Picture(shown, _thumbnail(image), image.size)
            continue
        region = raw.get(TARGET) if shown not in MOVED else None
        mask = ""
        if region is not None and rle.get_size(region) == (image.height, image.width) and rle.area(region):
            mask = _mask(rle.decode(region))
        boxes = [Box(box["label"], *box["xywh"]) for box in raw.get("boxes") or () if shown not in MOVED]
        looked = [(model, _heat(reference, raw["id"], image.size, given)) for model, reference in heat.items()]
        yield Picture(shown, _thumbnail(image), image.size, mask, tuple(boxes), tuple(looked))
        if raw.get("edit") is not None and shown == IMAGE:
            before = images.open_image(raw["images"][0], given.roots)
            yield Picture(BEFORE, _thumbnail(before), before.size)


def _references(results: Results, ids: set[str]) -> dict[tuple[str, str, str], dict[str, str]]:
    """Task, how it was shown and row -> model -> the reference to its heatmaps in its answer."""
    found: dict[tuple[str, str, str], dict[str, str]] = defaultdict(dict)
    for run in (*results.heal, *results.surgx):
        read = {HealRun: read_localized, SurgXRun: read_reply}[type(run)]
        for row_id, response in responses(run.source.path):
            reference = read(response).heatmaps if row_id in ids else None
            if reference is not None:
                found[run.source.task, shown_of(run), row_id][name_of(run)] = reference
    for run in results.wrong_lung:
        for row in run.originals:
            if row["id"] in ids and row["heatmaps"] is not None:
                found[run.source.task, IMAGE, row["id"]][run.name] = row["heatmaps"]
    return found


def _heat(reference: str, row_id: str, size: tuple[int, int], given: Pixels) -> str:
    """Where a model looked, over all classes that it named."""
    from medfaith.tasks.explain.reader import HeatmapReader

    maps, _ = HeatmapReader(str(given.heatmaps)).read(reference, row_id, (size[1], size[0]))
    if not maps:
        return ""
    mean = np.mean(list(maps.values()), axis=0)
    levels = np.rint((_LEVELS - 1) * mean / max(float(mean.max()), 1e-12)).astype(np.uint8)
    return _layer(levels, _ORANGE, [round(200 * level / (_LEVELS - 1)) for level in range(_LEVELS)])


def _mask(mask: np.ndarray) -> str:
    return _layer(mask.astype(np.uint8), _GREEN, [0, 90])


def _layer(levels: np.ndarray, colour: tuple[int, int, int], alphas: Sequence[int]) -> str:
    """A transparent PNG of one colour. levels: uint8 (h, w), which of the opacities, 0 to 255, each pixel has."""
    layer = Image.fromarray(levels, "P")
    layer.putpalette([*colour] * len(alphas))
    layer.thumbnail((SIDE, SIDE), Image.Resampling.NEAREST)
    held = io.BytesIO()
    layer.save(held, "PNG", transparency=bytes(alphas), optimize=True)
    return _url("png", held)


def _thumbnail(image: Image.Image) -> str:
    small = image.convert("RGB")
    small.thumbnail((SIDE, SIDE), Image.Resampling.LANCZOS)
    held = io.BytesIO()
    small.save(held, "JPEG", quality=75)
    return _url("jpeg", held)


def _url(kind: str, held: io.BytesIO) -> str:
    return f"data:image/{kind};base64,{base64.b64encode(held.getvalue()).decode()}"


def packed(found: Mapping[int, Sequence[Picture]]) -> dict[str, Any]:
    """Pictures as places in one list of URLs, each of which is in the file once."""
    places: dict[str, int] = {}

    def place(url: str) -> int:
        return places.setdefault(url, len(places)) if url else -1

    of_cases = {
        str(case): [
            [one.shown, place(one.url), *one.size, place(one.region), [list(box) for box in one.boxes],
             [[model, place(url)] for model, url in one.heat if url]]
            for one in shown
        ]
        for case, shown in found.items()
    }  # fmt: skip
    return {"cases": of_cases, "urls": list(places)}
