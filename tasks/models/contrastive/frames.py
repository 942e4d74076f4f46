"""The frames and documents of `medfaith-contrastive`, and the classes that it predicts from a frame's scores."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np
from lm_eval.api.instance import Instance
from PIL import Image

from ....loaders.errors import InputError
from ....loaders.progress import Progress
from ...explain.store import Entry, HeatmapStore, digest_of
from ..image_lm import get_images

THRESHOLDS = ("per_frame", "per_class")
NEEDED = ("id", "classes", "prompts", "top_k")

T = TypeVar("T")


class Job(NamedTuple):
    """Documents with the same classes and prompts, and the store of their heatmaps."""

    classes: tuple[str, ...]
    prompts: tuple[str, ...]
    top_k: int
    occlude: bool
    requests: list[Instance]
    numbers: list[int]  # indices of the requests among all requests
    store: HeatmapStore | None


class Frame(NamedTuple):
    """The image of a document.

    Attributes:
        doc: The document.
        image: The image in mode RGB.
        digest: Digest of the image, "" without a store.
        entry: Stored entry of the image, or None.
    """

    doc: Mapping[str, Any]
    image: Image.Image
    digest: str
    entry: Entry | None

    @property
    def row_id(self) -> str:
        """Id of the document's row."""
        return str(self.doc["id"])

    @property
    def size(self) -> tuple[int, int]:
        """(height, width) in pixels."""
        return self.image.height, self.image.width


def open_frame(request: Instance, store: HeatmapStore | None) -> Frame:
    """Open the frame of a request.

    Args:
        request: The request.
        store: Store of the heatmaps, or None.

    Returns:
        The frame in mode RGB. If there is a store, it has the digest of its pixels, and the stored heatmaps, if any.
    """
    (image,) = get_images(request)
    image, doc = image.convert("RGB"), cast(Mapping[str, Any], request.doc)
    if store is None:
        return Frame(doc, image, "", None)
    digest, row_id = digest_of(f"{image.size}".encode(), image.tobytes()), str(doc["id"])
    return Frame(doc, image, digest, store.read(row_id, digest) if store.has(row_id, digest) else None)


def predicted(
    scores: np.ndarray, top_k: int = 0, percentile: float = 90, threshold: str = "per_frame"
) -> list[list[int]]:
    """Predict the classes of each frame, ordered by score, then by class index.

    A class that ties with an excluded class is excluded, too, because the order of classes has no meaning. See
    `tied`.

    Appendix C.1: "a class is predicted if its similarity score exceeds the 90th percentile". It does not name the
    scores. `per_frame` takes the frame's own scores, which means the arg-max for seven classes (one prediction per
    frame) and the top ten for a hundred. `per_class` takes the class's scores over all frames, so that every class is
    predicted in a tenth of the frames. The paper's figures support per_frame: a class that is present in a share p of
    the frames and predicted in a tenth of them has F1 <= 2 min(0.1, p) / (0.1 + p). F1 = 0.7410 for the hook (section
    5.1) would need a hook in at most 17% of the frames, but Cholec80 has one in about half; 0.7962 for the irrigator
    would need one in 6.6% to 15.1%. Documents with a `top_k` (triplets: 5) take the k highest scores instead, if they
    exceed the next score.

    Args:
        scores: Shape (n, k).
        top_k: Number of classes per frame, or 0 for the classes above the percentile.
        percentile: Percentile with linear interpolation, which a score must exceed.
        threshold: Scores that the percentile refers to, `per_frame` or `per_class`.

    Returns:
        Class indices of each frame; an empty list if no class is predicted.
    """
    order = np.argsort(-scores, axis=1, kind="stable")
    is_predicted = scores > _compute_limits(scores, top_k, percentile, threshold)
    return [
        [int(index) for index in ranks if is_predicted_row[index]]
        for ranks, is_predicted_row in zip(order, is_predicted, strict=True)
    ]


def tied(scores: np.ndarray, top_k: int = 0, percentile: float = 90, threshold: str = "per_frame") -> list[bool]:
    """Find the frames for which a tie leaves no class to predict, or fewer than `top_k`.

    The tie is among a frame's classes or, for `per_class`, among a class's frames.

    Args:
        scores: Shape (n, k).
        top_k: As in `predicted`.
        percentile: As in `predicted`.
        threshold: As in `predicted`.

    Returns:
        n values, True for such a frame.
    """
    limits = _compute_limits(scores, top_k, percentile, threshold)
    is_at_threshold = scores == limits
    is_shared = is_at_threshold & (
        is_at_threshold.sum(axis=0 if threshold == "per_class" and not top_k else 1, keepdims=True) > 1
    )
    has_too_few = (scores > limits).sum(axis=1) < max(top_k, 1)
    return (has_too_few & is_shared.any(axis=1)).tolist()


def _compute_limits(scores: np.ndarray, top_k: int, percentile: float, threshold: str) -> np.ndarray:
    """Compute the value that a predicted class must exceed; it broadcasts to the scores (n, k)."""
    if top_k >= scores.shape[1] or not scores.size:
        return np.full((1, 1), -np.inf)
    if top_k:
        return -np.sort(-scores, axis=1)[:, top_k : top_k + 1]
    return np.percentile(scores, percentile, axis=1 if threshold == "per_frame" else 0, keepdims=True)


def find_first_right(job: Job, doc: Mapping[str, Any], indices: Sequence[int]) -> int | None:
    """Find the best ranked correct prediction.

    Args:
        job: Job with the classes.
        doc: The document with its gold labels.
        indices: Predicted classes, the most similar first.

    Returns:
        Index of the class, or None if no prediction is right.
    """
    return next((index for index in indices if job.classes[index] in doc["gold"]), None)


def require_document(request: Instance) -> Mapping[str, Any]:
    """Return the request's document.

    Args:
        request: The request.

    Returns:
        The document.

    Raises:
        InputError: The document has no classes, another number of prompts than classes, or not exactly one image.
    """
    doc = request.doc if isinstance(request.doc, Mapping) else {}
    task_name, expected = (
        request.task_name or "request",
        "a SurgXBench document: classes, one prompt a class, one image",
    )
    missing = [name for name in NEEDED if name not in doc]
    if missing:
        raise InputError(task_name, f"the document has no {', '.join(missing)}", expected=expected, row=request.doc_id)
    n_classes, n_prompts, n_images = len(doc["classes"]), len(doc["prompts"]), len(get_images(request))
    if n_classes != n_prompts or not n_classes or n_images != 1:
        problem = f"{n_classes} classes, {n_prompts} prompts, {n_images} images"
        raise InputError(task_name, problem, expected=expected, row=str(doc["id"]))
    return doc


def iterate_batches(items: Sequence[T], size: int, title: str = "", quiet: bool = True) -> Iterator[Sequence[T]]:
    """Iterate over the items in batches, with a progress bar.

    Args:
        items: The items.
        size: Items per batch.
        title: Title of the bar.
        quiet: Whether to hide the bar.

    Yields:
        Batches of `size` items; the last one may be smaller.
    """
    with Progress(title=title, total=len(items), unit="frames", quiet=quiet) as bar:
        for start in range(0, len(items), size):
            batch = items[start : start + size]
            yield batch
            bar.update(len(batch))
