"""`medfaith-contrastive`: CLIP, BLIP, OpenCLIP's ResNets and the SurgVLP family on SurgXBench, with heatmaps.

A document names its classes and one prompt a class; the reply is the classes predicted from the prompts' similarities
to the frame. Where a `store` is named, a heatmap of each predicted class goes there.

**Which classes are predicted.** Appendix C.1: "a class is predicted if its similarity score exceeds the 90th
percentile". It does not say of what. `threshold=per_frame`: of the frame's own scores, which for seven classes is the
arg-max (one prediction a frame), for a hundred the top ten. `threshold=per_class`: of the class's scores over all
frames, so that every class is predicted in a tenth of the frames. The paper's figures decide for per_frame: a class
that is present in a share p of the frames and predicted in a tenth of them has F1 <= 2 min(0.1, p) / (0.1 + p), and
F1 = 0.7410 for the hook (section 5.1) would need a hook in no more than 17% of the frames, where Cholec80 has one in
about half; 0.7962 for the irrigator would need one in 6.6% to 15.1%. Documents with a `top_k` (triplets: 5) take the
k highest instead.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

import numpy as np
from lm_eval.api.instance import Instance
from lm_eval.api.model import LM
from PIL import Image
from tqdm import tqdm

from ...loaders.errors import InputError, MedfaithError
from ..explain.geometry import Geometry, to_frame
from ..explain.occlusion import occluded
from ..explain.store import Entry, HeatmapStore
from .contrastive_encoders import SCALE, Encoder, OpenClipEncoder, load_transformers, short_name
from .surgvlp import TEXT_MODEL, SurgVLPEncoder

if TYPE_CHECKING:
    import torch

THRESHOLDS = ("per_frame", "per_class")
PROMPTS_AT_ONCE = 64
NEEDED = ("id", "classes", "prompts", "top_k")

T = TypeVar("T")


class _Job(NamedTuple):
    """Documents that share their classes and prompts, and where their heatmaps go."""

    classes: tuple[str, ...]
    prompts: tuple[str, ...]
    top_k: int
    occlude: bool
    requests: list[Instance]
    numbers: list[int]  # of the requests among all
    store: HeatmapStore | None


class ContrastiveLM(LM):
    """Zero-shot classification by similarity, explained.

    The reply is JSON: {"heatmaps": the store's key or null, "predicted": classes, the most similar first, "scores":
    100 x cosine, one for each of the document's classes}; for a document that asks to `occlude`, `occluded`, too.

    A row that is complete in the store, of the same image, is neither scored nor explained again. The store's key
    is a hash of the weights, the preprocessing, the explainer, the classes and the prompts (text and tokens).

    Args:
        pretrained: CLIP or BLIP (image-text retrieval) as a folder or Hub name; `open_clip:RN50-quickgelu:openai`;
            `surgvlp:PATH` for a checkpoint of SurgVLP, HecVL or PeskaVLP.
        store: a folder for heatmaps; without it none are made.
        batch_size: frames at once. device: as torch names it; a GPU if there is one.
        percentile, threshold: which classes are predicted (see above); not for documents with a `top_k`.
        explainer: `auto` is `grad_cam` for a ResNet and `rollout` for a transformer, which also has `rollout_last`
            (the last layer alone) and `rollout_forward` (the recursion in the order of Chefer et al.).
        text_model: for SurgVLP, where the BERT's configuration and tokenizer are.
    """

    MULTIMODAL = True  # lm-eval asks this before it gives a model a document with images

    def __init__(
        self,
        pretrained: str,
        store: str | None = None,
        batch_size: int | str = 16,
        device: str | None = None,
        percentile: float = 90,
        threshold: str = "per_frame",
        explainer: str = "auto",
        text_model: str = TEXT_MODEL,
        max_batch_size: int | None = None,  # lm-eval passes it along with an automatic batch size
    ) -> None:
        super().__init__()
        if threshold not in THRESHOLDS:
            raise InputError("threshold", f"is {threshold!r}", expected=" or ".join(THRESHOLDS))
        if not 0 <= percentile <= 100:
            raise InputError("percentile", f"is {percentile}", expected="a number from 0 to 100")
        self._batch_size = _batch_size(batch_size, max_batch_size)
        self._encoder = _load(pretrained, device or _device(), text_model)
        self._explainer = _explainer(explainer, self._encoder)
        self._store_folder, self._percentile, self._threshold = store, percentile, threshold
        self._texts: dict[str, torch.Tensor] = {}  # each distinct prompt's vector, made once

    def generate_until(self, requests: list[Instance], disable_tqdm: bool = False) -> list[str]:
        """One reply a request, as JSON (see the class).

        Raises:
            InputError: a document without classes or prompts, or not with one image.
        """
        replies = [""] * len(requests)
        for job in self._jobs(requests):
            for number, reply in zip(job.numbers, self._answer(job, disable_tqdm), strict=True):
                replies[number] = reply
        return replies

    def scores(self, images: Sequence[Image.Image], prompts: Sequence[str]) -> np.ndarray:
        """Similarity of every image to every prompt, 100 x cosine: float64 (n, k)."""
        import torch

        texts = self._text(prompts)
        found = [np.zeros((0, len(prompts)))]
        for batch in _batches(images, self._batch_size):
            with torch.no_grad():
                features = self._encoder.image(self._encoder.pixels(batch))
            found.append((SCALE * features @ texts.T).double().cpu().numpy())
        scores = np.concatenate(found)
        if not np.isfinite(scores).all():
            raise MedfaithError(f"{self._encoder.name} gives similarities that are not numbers: its weights are broken")
        return scores

    def explain(
        self, image: Image.Image, prompts: Sequence[str], indices: Sequence[int]
    ) -> tuple[np.ndarray, Geometry]:
        """Heatmaps of the image's similarity to the prompts of these indices: float32 (len(indices), h, w), at least 0.

        The geometry says where the grid lies on the image (see explain.geometry.to_frame).
        """
        ((grids, geometry),) = self._explain([image], prompts, [list(indices)])
        return grids, geometry

    def loglikelihood(self, requests: list[Instance], disable_tqdm: bool = False) -> list[tuple[float, bool]]:
        raise TypeError("a contrastive model gives similarities; it gives no probability of text")

    def loglikelihood_rolling(self, requests: list[Instance], disable_tqdm: bool = False) -> list[float]:
        raise TypeError("a contrastive model gives similarities; it gives no probability of text")

    def apply_chat_template(self, chat_history: list[dict[str, str]], add_generation_prompt: bool = True) -> str:
        return "\n\n".join(turn["content"] for turn in chat_history)

    @property
    def tokenizer_name(self) -> str:
        return self._encoder.name

    def chat_template(self, chat_template: bool | str = False) -> str:
        return ""

    def _jobs(self, requests: Sequence[Instance]) -> Iterator[_Job]:
        groups: dict[tuple[Any, ...], list[int]] = {}
        for number, request in enumerate(requests):
            doc = _checked(request)
            what = (request.task_name, tuple(doc["classes"]), tuple(doc["prompts"]), int(doc["top_k"]))
            what += (bool(doc.get("occlude")),)
            groups.setdefault(what, []).append(number)
        for (_, classes, prompts, top_k, occlude), numbers in groups.items():
            self._check_whole(top_k)
            store = None
            if self._store_folder is not None:
                store = HeatmapStore(self._store_folder, self._identity(classes, prompts))
            yield _Job(classes, prompts, top_k, occlude, [requests[number] for number in numbers], numbers, store)

    def _check_whole(self, top_k: int) -> None:
        if self.world_size > 1 and self._threshold == "per_class" and not top_k:
            raise MedfaithError(
                "threshold=per_class needs the scores of all frames in one process\n"
                "  what to do: run one process, or threshold=per_frame"
            )

    def _identity(self, classes: Sequence[str], prompts: Sequence[str]) -> dict[str, Any]:
        """What a heatmap depends on, beside the frame."""
        tokens = json.dumps(self._encoder.tokens(prompts)).encode()
        return {
            "model": short_name(self._encoder.name),
            "weights": self._encoder.weights,
            "preprocessing": self._encoder.preprocessing,
            "explainer": self._explainer,
            "classes": list(classes),
            "prompts": list(prompts),
            "tokens": blake2b(tokens, digest_size=16).hexdigest(),
        }

    def _answer(self, job: _Job, quiet: bool) -> list[str]:
        """Two passes, because a threshold per class needs the scores of all frames: score, then explain."""
        scores, digests = self._scored(job, quiet)
        _check_one_image_an_id(job, digests)
        chosen = predicted(scores, job.top_k, self._percentile, self._threshold)
        if job.store is not None:
            self._fill(job, job.store, scores, digests, chosen, quiet)
        key = job.store.key if job.store is not None else None
        replies = [
            {"heatmaps": key, "predicted": [job.classes[i] for i in indices], "scores": row.tolist()}
            for indices, row in zip(chosen, scores, strict=True)
        ]
        if job.occlude:
            for reply, changed in zip(replies, self._occluded(job, scores, chosen, quiet), strict=True):
                reply["occluded"] = changed
        return [json.dumps(reply) for reply in replies]

    def _occluded(
        self, job: _Job, scores: np.ndarray, chosen: Sequence[Sequence[int]], quiet: bool
    ) -> list[dict[str, Any] | None]:
        """What becomes of the best ranked right prediction when the region that it looked at is black (4.3.2).

        None for a frame without a right prediction; `after` and `predicted` are null where its heatmap has no region.
        """
        found: list[dict[str, Any] | None] = [None] * len(job.requests)
        right = [_first_right(job, row, indices) for row, indices in enumerate(chosen)]
        covered = [(row, index) for row, index in enumerate(right) if index is not None]
        for batch in _batches(covered, self._batch_size, "occlude frames", quiet):
            images = [_image(job.requests[row]) for row, _ in batch]
            explained = self._explain(images, job.prompts, [[index] for _, index in batch])
            painted = [
                occluded(image, to_frame(grids, geometry)[0])
                for image, (grids, geometry) in zip(images, explained, strict=True)
            ]
            after = iter(self.scores([image for image in painted if image is not None], job.prompts))
            for (row, index), image in zip(batch, painted, strict=True):
                change = {"triplet": job.classes[index], "before": float(scores[row, index])}
                again = next(after) if image is not None else None
                found[row] = change | {
                    "after": float(again[index]) if again is not None else None,
                    "predicted": self._names(job, again) if again is not None else None,
                }
        return found

    def _names(self, job: _Job, scores: np.ndarray) -> list[str]:
        ((*indices,),) = predicted(scores[None], job.top_k, self._percentile)
        return [job.classes[index] for index in indices]

    def _scored(self, job: _Job, quiet: bool) -> tuple[np.ndarray, list[str]]:
        """The scores (n, k), from the store where the row is there, and a digest of each image."""
        scores, digests = np.zeros((len(job.requests), len(job.classes))), []
        for rows in _batches(range(len(job.requests)), self._batch_size, "score frames", quiet):
            images = [_image(job.requests[row]) for row in rows]
            digests += [_digest(image) for image in images]
            entries = [_kept(job, row, digests[row]) for row in rows]
            for row, entry in zip(rows, entries, strict=True):
                if entry is not None and entry.scores is not None:
                    scores[row] = entry.scores
            missing = [n for n, entry in enumerate(entries) if entry is None or entry.scores is None]
            if missing:
                scores[[rows[n] for n in missing]] = self.scores([images[n] for n in missing], job.prompts)
        return scores, digests

    def _fill(
        self,
        job: _Job,
        store: HeatmapStore,
        scores: np.ndarray,
        digests: Sequence[str],
        chosen: Sequence[Sequence[int]],
        quiet: bool,
    ) -> None:
        """Explains what the store lacks."""

        def lacking(row: int) -> tuple[int, list[int], dict[str, np.ndarray]] | None:
            entry = _kept(job, row, digests[row])
            maps = entry.maps if entry is not None else {}
            indices = [index for index in chosen[row] if job.classes[index] not in maps]
            return (row, indices, maps) if entry is None or indices else None

        todo = [found for row in range(len(job.requests)) if (found := lacking(row)) is not None]
        for batch in _batches(todo, self._batch_size, "explain frames", quiet):
            images = [_image(job.requests[row]) for row, _, _ in batch]
            explained = self._explain(images, job.prompts, [indices for _, indices, _ in batch])
            for (row, indices, maps), (grids, geometry) in zip(batch, explained, strict=True):
                new = {job.classes[index]: grid for index, grid in zip(indices, grids, strict=True)}
                store.write(_row_id(job.requests[row]), maps | new, geometry, scores[row], {"image": digests[row]})

    def _explain(
        self, images: Sequence[Image.Image], prompts: Sequence[str], indices: Sequence[Sequence[int]]
    ) -> list[tuple[np.ndarray, Geometry]]:
        """For each image the heatmaps of its own prompts; an image with fewer than others is given its first again."""
        most = max((len(own) for own in indices), default=0)
        padded = [[*own, *([own[0] if own else 0] * (most - len(own)))] for own in indices]
        texts = self._text(prompts)[np.array(padded, dtype=np.int64).reshape(len(images), most)]
        grids = self._encoder.grids(self._encoder.pixels(images), texts, self._explainer).float().cpu().numpy()
        geometries = [self._encoder.geometry((image.height, image.width)) for image in images]
        kept = [own_grids[: len(own)] for own_grids, own in zip(grids, indices, strict=True)]
        return list(zip(kept, geometries, strict=True))

    def _text(self, prompts: Sequence[str]) -> torch.Tensor:
        """(k, d): each distinct prompt is encoded once in the model's life."""
        import torch

        new = [prompt for prompt in dict.fromkeys(prompts) if prompt not in self._texts]
        for batch in _batches(new, PROMPTS_AT_ONCE):
            self._encoder.check_length(batch)
            with torch.no_grad():
                self._texts |= dict(zip(batch, self._encoder.text(batch), strict=True))
        return torch.stack([self._texts[prompt] for prompt in prompts])


def predicted(
    scores: np.ndarray, top_k: int = 0, percentile: float = 90, threshold: str = "per_frame"
) -> list[list[int]]:
    """The predicted classes of each frame, the most similar first; of equal scores, the earlier class.

    Args:
        scores: (n, k). top_k: so many classes of each frame; 0: those above the percentile.
        percentile: with linear interpolation; a score has to exceed it. threshold: of what it is the percentile,
            `per_frame` or `per_class` (see the module).
    """
    order = np.argsort(-scores, axis=1, kind="stable")
    if top_k:
        return order[:, :top_k].tolist()
    if not scores.size:
        return [[] for _ in scores]
    bar = np.percentile(scores, percentile, axis=1 if threshold == "per_frame" else 0, keepdims=True)
    return [[int(index) for index in ranks if above[index]] for ranks, above in zip(order, scores > bar, strict=True)]


def _load(pretrained: str, device: str, text_model: str) -> Encoder:
    kind, _, rest = pretrained.partition(":")
    if kind == "open_clip":
        return OpenClipEncoder(rest, device)
    if kind == "surgvlp":
        return SurgVLPEncoder(rest, device, text_model)
    return load_transformers(pretrained, device)


def _explainer(name: str, encoder: Encoder) -> str:
    if name == "auto":
        return next(iter(encoder.explainers))
    if name not in encoder.explainers:
        raise InputError("explainer", f"is {name!r}", expected=f"auto, {', '.join(encoder.explainers)}")
    return name


def _device() -> str:
    try:
        import torch
    except ImportError as error:
        raise MedfaithError("torch is not installed\n  what to do: uv pip install 'medfaith[explain]'") from error
    return "cuda" if torch.cuda.is_available() else "cpu"


def _batch_size(size: int | str, largest: int | None) -> int:
    if str(size).startswith("auto"):
        return int(largest or 16)
    if not str(size).isdigit() or int(size) < 1:
        raise InputError("batch_size", f"is {size!r}", expected="a positive whole number, or auto")
    return int(size)


def _checked(request: Instance) -> Mapping[str, Any]:
    doc = request.doc if isinstance(request.doc, Mapping) else {}
    where, expected = request.task_name or "request", "a SurgXBench document: classes, one prompt a class, one image"
    missing = [name for name in NEEDED if name not in doc]
    if missing:
        raise InputError(where, f"the document has no {', '.join(missing)}", expected=expected, row=request.doc_id)
    n_classes, n_prompts, n_images = len(doc["classes"]), len(doc["prompts"]), len(_visual(request))
    if n_classes != n_prompts or not n_classes or n_images != 1:
        found = f"{n_classes} classes, {n_prompts} prompts, {n_images} images"
        raise InputError(where, found, expected=expected, row=str(doc["id"]))
    return doc


def _visual(request: Instance) -> Sequence[Image.Image]:
    arguments = cast(Any, request.args)
    return arguments[2]["visual"] if len(arguments) > 2 else []


def _image(request: Instance) -> Image.Image:
    (image,) = _visual(request)
    return image.convert("RGB")


def _row_id(request: Instance) -> str:
    return str(cast(Any, request.doc)["id"])


def _first_right(job: _Job, row: int, indices: Sequence[int]) -> int | None:
    gold = cast(Any, job.requests[row].doc)["gold"]
    return next((index for index in indices if job.classes[index] in gold), None)


def _digest(image: Image.Image) -> str:
    """A hash of an image's pixels: a row's id says nothing of what was done to its image."""
    return blake2b(f"{image.size}".encode() + image.tobytes(), digest_size=16).hexdigest()


def _check_one_image_an_id(job: _Job, digests: Sequence[str]) -> None:
    """Raises InputError where the store would have to hold two images' heatmaps under one id."""
    first: dict[str, str] = {}
    for request, digest in zip(job.requests, digests, strict=True):
        if job.store is not None and first.setdefault(_row_id(request), digest) != digest:
            where, row = request.task_name or "request", _row_id(request)
            raise InputError(where, "another row of this id has another image", expected="unique ids", row=row)


def _kept(job: _Job, row: int, digest: str) -> Entry | None:
    """What the store has of this row and this image."""
    row_id = _row_id(job.requests[row])
    if job.store is None or not job.store.has(row_id):
        return None
    entry = job.store.read(row_id)
    return entry if entry.extra.get("image") == digest else None


def _batches(items: Sequence[T], size: int, what: str = "", quiet: bool = True) -> Iterator[Sequence[T]]:
    # None: no bar in a pipe
    with tqdm(total=len(items), desc=what, disable=True if quiet else None) as bar:
        for start in range(0, len(items), size):
            batch = items[start : start + size]
            yield batch
            bar.update(len(batch))
