"""What `medfaith-contrastive` is asked, frame by frame, and which classes it predicts of a frame's scores."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np
from lm_eval.api.instance import Instance
from PIL import Image

from ...loaders.errors import InputError
from ...loaders.progress import Progress
from ..explain.store import Entry, HeatmapStore, digest_of
from .image_lm import images_of

THRESHOLDS = ("per_frame", "per_class")
NEEDED = ("id", "classes", "prompts", "top_k")

T = TypeVar("T")


class Job(NamedTuple):
    """Documents that share their classes and prompts, and where their heatmaps go."""

    classes: tuple[str, ...]
    prompts: tuple[str, ...]
    top_k: int
    occlude: bool
    requests: list[Instance]
    numbers: list[int]  # of the requests among all
    store: HeatmapStore | None


class Frame(NamedTuple):
    """The image of a document, and of a store, where there is one, the digest it is filed by and what is there."""

    doc: Mapping[str, Any]
    image: Image.Image
    shown: str
    kept: Entry | None

    @property
    def row_id(self) -> str:
        return str(self.doc["id"])

    @property
    def size(self) -> tuple[int, int]:
        """(height, width) in pixels."""
        return self.image.height, self.image.width


def opened(request: Instance, store: HeatmapStore | None) -> Frame:
    """The frame that a request shows."""
    (image,) = images_of(request)
    image, doc = image.convert("RGB"), cast(Mapping[str, Any], request.doc)
    if store is None:
        return Frame(doc, image, "", None)
    shown, row_id = digest_of(f"{image.size}".encode(), image.tobytes()), str(doc["id"])
    return Frame(doc, image, shown, store.read(row_id, shown) if store.has(row_id, shown) else None)


def predicted(
    scores: np.ndarray, top_k: int = 0, percentile: float = 90, threshold: str = "per_frame"
) -> list[list[int]]:
    """The predicted classes of each frame, the most similar first; of equal scores, the earlier class.

    A class that ties with one that is left out is left out too: the order of the classes names nothing. See `tied`.

    Appendix C.1: "a class is predicted if its similarity score exceeds the 90th percentile". It does not say of what.
    `per_frame`: of the frame's own scores, which for seven classes is the arg-max (one prediction a frame), for a
    hundred the top ten. `per_class`: of the class's scores over all frames, so that every class is predicted in a tenth
    of the frames. The paper's figures decide for per_frame: a class that is present in a share p of the frames and
    predicted in a tenth of them has F1 <= 2 min(0.1, p) / (0.1 + p), and F1 = 0.7410 for the hook (section 5.1) would
    need a hook in no more than 17% of the frames, where Cholec80 has one in about half; 0.7962 for the irrigator would
    need one in 6.6% to 15.1%. Documents with a `top_k` (triplets: 5) take the k highest instead: those above the next.

    Args:
        scores: (n, k). top_k: so many classes of each frame; 0: those above the percentile.
        percentile: with linear interpolation; a score has to exceed it. threshold: of what it is the percentile,
            `per_frame` or `per_class`.
    """
    order = np.argsort(-scores, axis=1, kind="stable")
    above = scores > _bar(scores, top_k, percentile, threshold)
    return [[int(index) for index in ranks if named[index]] for ranks, named in zip(order, above, strict=True)]


def tied(scores: np.ndarray, top_k: int = 0, percentile: float = 90, threshold: str = "per_frame") -> list[bool]:
    """Of which frames a tie leaves no class to predict, or fewer than `top_k`.

    Arguments as of `predicted`. The tie is among a frame's classes, or for `per_class` among a class's frames.
    """
    bar = _bar(scores, top_k, percentile, threshold)
    at = scores == bar
    shared = at & (at.sum(axis=0 if threshold == "per_class" and not top_k else 1, keepdims=True) > 1)
    lacking = (scores > bar).sum(axis=1) < max(top_k, 1)
    return (lacking & shared.any(axis=1)).tolist()


def _bar(scores: np.ndarray, top_k: int, percentile: float, threshold: str) -> np.ndarray:
    """What the score of a predicted class exceeds; it broadcasts to the scores (n, k)."""
    if top_k >= scores.shape[1] or not scores.size:
        return np.full((1, 1), -np.inf)
    if top_k:
        return -np.sort(-scores, axis=1)[:, top_k : top_k + 1]
    return np.percentile(scores, percentile, axis=1 if threshold == "per_frame" else 0, keepdims=True)


def first_right(job: Job, doc: Mapping[str, Any], indices: Sequence[int]) -> int | None:
    """The best ranked of the predicted classes that is true."""
    return next((index for index in indices if job.classes[index] in doc["gold"]), None)


def checked(request: Instance) -> Mapping[str, Any]:
    """The request's document. Raises InputError where it has not classes, a prompt for each, and one image."""
    doc = request.doc if isinstance(request.doc, Mapping) else {}
    where, expected = request.task_name or "request", "a SurgXBench document: classes, one prompt a class, one image"
    missing = [name for name in NEEDED if name not in doc]
    if missing:
        raise InputError(where, f"the document has no {', '.join(missing)}", expected=expected, row=request.doc_id)
    n_classes, n_prompts, n_images = len(doc["classes"]), len(doc["prompts"]), len(images_of(request))
    if n_classes != n_prompts or not n_classes or n_images != 1:
        found = f"{n_classes} classes, {n_prompts} prompts, {n_images} images"
        raise InputError(where, found, expected=expected, row=str(doc["id"]))
    return doc


def batches(items: Sequence[T], size: int, what: str = "", quiet: bool = True) -> Iterator[Sequence[T]]:
    """The items, `size` at a time, with a bar unless quiet."""
    with Progress(title=what, total=len(items), unit="frames", quiet=quiet) as bar:
        for start in range(0, len(items), size):
            batch = items[start : start + size]
            yield batch
            bar.update(len(batch))
