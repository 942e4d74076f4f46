"""`medfaith-contrastive`: CLIP, BLIP, OpenCLIP's ResNets and the SurgVLP family on SurgXBench, with heatmaps.

A document names its classes and one prompt per class. The reply has the classes that the similarities of the prompts to
the frame predict. If `store` is set, a heatmap of each predicted class is stored.

**Interrupted runs.** Frames are scored, explained and stored batch by batch, and a repeated run computes the missing
ones. A threshold per class needs the scores of all frames first: a first pass stores them without heatmaps, and a
second pass explains. No file records that it has all heatmaps; missing heatmaps are computed when they are needed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import numpy as np
from lm_eval.api.instance import Instance
from PIL import Image

from ....loaders.errors import InputError, MedfaithError
from ...explain.geometry import Geometry, to_frame
from ...explain.occlusion import attended, compute_box_share, occluded
from ...explain.store import HeatmapStore, check_readers
from ..answer_store import hash_facts
from ..image_lm import ImageLM, parse_batch_size
from ..model_names import strip_folder
from .clinical_bert import TEXT_MODEL
from .encoders import SCALE, Encoder, choose_device, choose_explainer
from .frames import (
    THRESHOLDS,
    Frame,
    Job,
    find_first_right,
    iterate_batches,
    open_frame,
    predicted,
    require_document,
    tied,
)
from .open_clip_encoder import OpenClipEncoder
from .surgvlp import SurgVLPEncoder
from .transformers_encoders import load_transformers

if TYPE_CHECKING:
    import torch

PROMPTS_AT_ONCE = 64


class ContrastiveLM(ImageLM):
    """Zero-shot classification by similarity, with heatmaps.

    The reply is JSON: {"heatmaps": a reference into the store or null, "predicted": classes, the most similar first,
    "scores": 100 x cosine, one for each of the document's classes}. A document that asks to `occlude` adds `occluded`.
    If similarities tie and no class can be named, the reply has "tied": true.

    A row that is in the store with the same image is neither scored nor explained again. The store's key is a hash of
    the weights, the preprocessing, the explainer, the classes and the prompts (text and tokens).

    Args:
        pretrained: CLIP or BLIP (image-text retrieval) as a folder or Hub name; `open_clip:RN50-quickgelu:openai`;
            `surgvlp:PATH` for a checkpoint of SurgVLP, HecVL or PeskaVLP.
        store: A folder for heatmaps; by default none are stored.
        batch_size: Frames per batch.
        device: Device, as torch names it; by default a GPU if there is one.
        percentile: Percentile above which classes are predicted (see frames.py); documents with `top_k` ignore
            it.
        threshold: Scores that the percentile refers to (see frames.py); documents with `top_k` ignore it.
        explainer: `auto` is `grad_cam` for a ResNet and `rollout` for a transformer, which also has `rollout_last` (the
            last layer alone) and `rollout_forward` (the recursion in the order of Chefer et al.).
        text_model: For SurgVLP, the folder or Hub name of the BERT's configuration and tokenizer.
        max_batch_size: Batch size to use if `batch_size` is automatic.
    """

    def __init__(  # noqa: PLR0913 (the arguments that --model_args names)
        self,
        pretrained: str,
        store: str | None = None,
        batch_size: int | str = 16,
        device: str | None = None,
        percentile: float = 90,
        threshold: str = "per_frame",
        explainer: str = "auto",
        text_model: str = TEXT_MODEL,
        max_batch_size: int | None = None,  # lm-eval passes it with an automatic batch size
    ) -> None:
        super().__init__()
        if threshold not in THRESHOLDS:
            raise InputError("threshold", f"is {threshold!r}", expected=" or ".join(THRESHOLDS))
        if not 0 <= percentile <= 100:
            raise InputError("percentile", f"is {percentile}", expected="a number from 0 to 100")
        self._batch_size = parse_batch_size(batch_size, max_batch_size)
        self._encoder = _load_encoder(pretrained, choose_device(device), text_model)
        self._explainer = choose_explainer(explainer, self._encoder)
        self._store_folder, self._percentile, self._threshold = store, percentile, threshold
        self._texts: dict[str, torch.Tensor] = {}  # vector of each distinct prompt

    def generate_until(self, requests: list[Instance], disable_tqdm: bool = False) -> list[str]:
        """Compute one reply for each request, as JSON (see the class).

        Args:
            requests: Requests with one image and a document with classes and prompts each.
            disable_tqdm: Whether to hide the progress bar.

        Returns:
            The replies, in the order of the requests.

        Raises:
            InputError: A document has no classes or prompts, or not exactly one image; or the heatmaps are to be read
                from another folder than `store`.
        """
        if self._store_folder is not None:
            check_readers((request.doc for request in requests), self._store_folder)
        replies = [""] * len(requests)
        for job in self._iterate_jobs(requests):
            for number, reply in zip(job.numbers, self._answer(job, disable_tqdm), strict=True):
                replies[number] = reply
        return replies

    @property
    def fingerprint(self) -> str:
        """Hash of everything that a reply depends on other than the document; the model's folder does not matter."""
        return hash_facts(**self._model_identity, percentile=self._percentile, threshold=self._threshold)

    def scores(self, images: Sequence[Image.Image], prompts: Sequence[str]) -> np.ndarray:
        """Compute the similarity of every image to every prompt, 100 x cosine.

        Args:
            images: n images.
            prompts: k prompts.

        Returns:
            float64 (n, k).
        """
        import torch

        texts = self._text(prompts)
        batch_scores = [np.zeros((0, len(prompts)))]
        for batch in iterate_batches(images, self._batch_size):
            with torch.no_grad():
                features = self._encoder.image(self._encoder.pixels(batch))
            batch_scores.append((SCALE * features @ texts.T).double().cpu().numpy())
        scores = np.concatenate(batch_scores)
        if not np.isfinite(scores).all():
            raise MedfaithError(f"{self._encoder.name} gives similarities that are not numbers: its weights are broken")
        return scores

    def explain(
        self, image: Image.Image, prompts: Sequence[str], indices: Sequence[int]
    ) -> tuple[np.ndarray, Geometry]:
        """Compute heatmaps of an image's similarity to some prompts.

        Args:
            image: The image.
            prompts: The prompts.
            indices: Indices of the prompts to explain.

        Returns:
            float32 (len(indices), h, w), at least 0, and the place of the grid on the image (see
            explain.geometry.to_frame).
        """
        ((grids, geometry),) = self._explain([image], prompts, [list(indices)])
        return grids, geometry

    @property
    def tokenizer_name(self) -> str:
        """Name of the encoder."""
        return self._encoder.name

    def _iterate_jobs(self, requests: Sequence[Instance]) -> Iterator[Job]:
        groups: dict[tuple[Any, ...], list[int]] = {}
        for number, request in enumerate(requests):
            doc = require_document(request)
            key = (request.task_name, tuple(doc["classes"]), tuple(doc["prompts"]), int(doc["top_k"]))
            key += (bool(doc.get("occlude")),)
            groups.setdefault(key, []).append(number)
        for (_, classes, prompts, top_k, occlude), numbers in groups.items():
            self._check_single_process(top_k)
            store = None
            if self._store_folder is not None:
                store = HeatmapStore(self._store_folder, self._identity(classes, prompts))
            yield Job(classes, prompts, top_k, occlude, [requests[number] for number in numbers], numbers, store)

    def _check_single_process(self, top_k: int) -> None:
        if self.world_size > 1 and self._threshold == "per_class" and not top_k:
            raise MedfaithError(
                "threshold=per_class needs the scores of all frames in one process\n"
                "  what to do: run one process, or threshold=per_frame"
            )

    def _identity(self, classes: Sequence[str], prompts: Sequence[str]) -> dict[str, Any]:
        """Return everything that a heatmap depends on other than the frame."""
        tokens = json.dumps(self._encoder.tokens(prompts)).encode()
        return {
            **self._model_identity,
            "classes": list(classes),
            "prompts": list(prompts),
            "tokens": blake2b(tokens, digest_size=16).hexdigest(),
        }

    @property
    def _model_identity(self) -> dict[str, Any]:
        return {
            "model": strip_folder(self._encoder.name),
            "weights": self._encoder.weights,
            "preprocessing": self._encoder.preprocessing,
            "explainer": self._explainer,
        }

    def _answer(self, job: Job, quiet: bool) -> list[str]:
        replies: list[str] = []
        all_scores, all_predictions, all_ties = None, [], []
        if self._threshold == "per_class" and not job.top_k:
            all_scores = self._score_all(job, quiet)
            all_predictions = predicted(all_scores, 0, self._percentile, "per_class")
            all_ties = tied(all_scores, 0, self._percentile, "per_class")
        for rows in iterate_batches(range(len(job.requests)), self._batch_size, "classifying frames", quiet):
            frames = [open_frame(job.requests[row], job.store) for row in rows]
            if all_scores is None:
                scores = self._score_frames(job, frames)
                predictions = predicted(scores, job.top_k, self._percentile)
                ties = tied(scores, job.top_k, self._percentile)
            else:
                scores, predictions = all_scores[list(rows)], [all_predictions[row] for row in rows]
                ties = [all_ties[row] for row in rows]
            answers = self._build_replies(job, frames, scores, predictions)
            replies += [
                json.dumps(reply | {"tied": True} if tie else reply) for reply, tie in zip(answers, ties, strict=True)
            ]
        return replies

    def _build_replies(
        self, job: Job, frames: Sequence[Frame], scores: np.ndarray, predictions: Sequence[Sequence[int]]
    ) -> list[dict[str, Any]]:
        """Build the replies of one batch and store their heatmaps."""
        right_indices = [
            find_first_right(job, frame.doc, indices) if job.occlude else None
            for frame, indices in zip(frames, predictions, strict=True)
        ]
        explained_indices = (
            predictions if job.store is not None else [[index] if index is not None else [] for index in right_indices]
        )
        maps = self._get_maps(job, frames, scores, explained_indices)
        replies: list[dict[str, Any]] = [
            {
                "heatmaps": job.store.reference(frame.digest) if job.store is not None else None,
                "predicted": [job.classes[index] for index in indices],
                "scores": row.tolist(),
            }
            for frame, indices, row in zip(frames, predictions, scores, strict=True)
        ]
        if job.occlude:
            for reply, change in zip(
                replies, self._compute_occlusions(job, frames, scores, right_indices, maps), strict=True
            ):
                reply["occluded"] = change
        return replies

    def _compute_occlusions(
        self,
        job: Job,
        frames: Sequence[Frame],
        scores: np.ndarray,
        right_indices: Sequence[int | None],
        maps: Sequence[Mapping[str, np.ndarray]],
    ) -> list[dict[str, Any] | None]:
        """Paint the attended region of each frame's best correct prediction black and score the frame again (4.3.2).

        The result is None for a frame without a correct prediction. `before` and `after` are the prediction's
        similarities, `predicted` the predictions afterwards and `top_after` their similarities. `painted` is the black
        share of the boxes of its instrument, as far as the model saw them. Undefined values are null.
        """
        changes: list[dict[str, Any] | None] = [None] * len(frames)
        covered = [(n, index) for n, index in enumerate(right_indices) if index is not None]
        regions = [self._compute_region(frames[n], maps[n][job.classes[index]]) for n, index in covered]
        occluded_images = [
            occluded(frames[n].image, mask) for (n, _), mask in zip(covered, regions, strict=True) if mask is not None
        ]
        after = iter(self.scores(occluded_images, job.prompts))
        for (n, index), region in zip(covered, regions, strict=True):
            change: dict[str, Any] = {"triplet": job.classes[index], "before": float(scores[n, index])}
            change |= dict.fromkeys(("after", "predicted", "top_after", "painted"))
            if region is not None:
                new_scores = next(after)
                ((*new_predictions,),) = predicted(new_scores[None], job.top_k, self._percentile)
                change |= {
                    "after": float(new_scores[index]),
                    "predicted": [job.classes[number] for number in new_predictions],
                    "top_after": new_scores[new_predictions].tolist(),
                    "painted": self._compute_box_share(job, frames[n], index, region),
                }
            changes[n] = change
        return changes

    def _compute_region(self, frame: Frame, grid: np.ndarray) -> np.ndarray | None:
        geometry = self._encoder.geometry(frame.size)
        return attended(to_frame(grid[None], geometry)[0], window=geometry.window)

    def _compute_box_share(self, job: Job, frame: Frame, index: int, region: np.ndarray) -> float | None:
        instrument = job.classes[index].split(",")[0]
        boxes = [box["xywh"] for box in frame.doc.get("boxes", ()) if box["label"] == instrument]
        return compute_box_share(region, boxes, self._encoder.geometry(frame.size).window)

    def _score_all(self, job: Job, quiet: bool) -> np.ndarray:
        """Compute the scores of all frames and store them."""
        batch_scores = [np.zeros((0, len(job.classes)))]
        for batch in iterate_batches(job.requests, self._batch_size, "scoring frames", quiet):
            frames = [open_frame(request, job.store) for request in batch]
            batch_scores.append(self._score_frames(job, frames))
            if job.store is not None:
                for frame, scores in zip(frames, batch_scores[-1], strict=True):
                    if frame.entry is None:
                        job.store.write(frame.row_id, frame.digest, {}, self._encoder.geometry(frame.size), scores)
        return np.concatenate(batch_scores)

    def _score_frames(self, job: Job, frames: Sequence[Frame]) -> np.ndarray:
        """Return the scores (n, k), from the store if the row is there."""
        stored_scores = [frame.entry.scores if frame.entry is not None else None for frame in frames]
        scores = np.zeros((len(frames), len(job.classes)))
        missing = [n for n, row in enumerate(stored_scores) if row is None]
        if missing:
            scores[missing] = self.scores([frames[n].image for n in missing], job.prompts)
        for n, row in enumerate(stored_scores):
            if row is not None:
                scores[n] = row
        return scores

    def _get_maps(
        self, job: Job, frames: Sequence[Frame], scores: np.ndarray, frame_indices: Sequence[Sequence[int]]
    ) -> list[dict[str, np.ndarray]]:
        """Return class -> grid for each frame's requested classes; compute and store the missing ones.

        With a store, all grids are read from it, so that they have half precision in every run.
        """
        maps = [dict(frame.entry.maps) if frame.entry is not None else {} for frame in frames]
        missing_indices = [
            [index for index in class_indices if job.classes[index] not in stored_maps]
            for class_indices, stored_maps in zip(frame_indices, maps, strict=True)
        ]
        todo = [n for n, indices in enumerate(missing_indices) if indices]
        if todo:
            explained = self._explain([frames[n].image for n in todo], job.prompts, [missing_indices[n] for n in todo])
            for n, (grids, _) in zip(todo, explained, strict=True):
                maps[n] |= {job.classes[index]: grid for index, grid in zip(missing_indices[n], grids, strict=True)}
        if job.store is not None:
            for n, frame in enumerate(frames):
                if frame.entry is None or missing_indices[n]:
                    geometry = self._encoder.geometry(frame.size)
                    job.store.write(frame.row_id, frame.digest, maps[n], geometry, scores[n])
                    maps[n] = job.store.read(frame.row_id, frame.digest).maps
        return maps

    def _explain(
        self, images: Sequence[Image.Image], prompts: Sequence[str], indices: Sequence[Sequence[int]]
    ) -> list[tuple[np.ndarray, Geometry]]:
        """Compute the heatmaps of each image's own prompts. Images with fewer prompts repeat their first one."""
        n_most = max((len(image_indices) for image_indices in indices), default=0)
        padded = [
            [*image_indices, *([image_indices[0] if image_indices else 0] * (n_most - len(image_indices)))]
            for image_indices in indices
        ]
        texts = self._text(prompts)[np.array(padded, dtype=np.int64).reshape(len(images), n_most)]
        grids = self._encoder.grids(self._encoder.pixels(images), texts, self._explainer).float().cpu().numpy()
        geometries = [self._encoder.geometry((image.height, image.width)) for image in images]
        kept_grids = [
            image_grids[: len(image_indices)] for image_grids, image_indices in zip(grids, indices, strict=True)
        ]
        return list(zip(kept_grids, geometries, strict=True))

    def _text(self, prompts: Sequence[str]) -> torch.Tensor:
        """Return the vectors of prompts (k, d). Each distinct prompt is encoded once per model."""
        import torch

        new = [prompt for prompt in dict.fromkeys(prompts) if prompt not in self._texts]
        for batch in iterate_batches(new, PROMPTS_AT_ONCE):
            self._encoder.check_length(batch)
            with torch.no_grad():
                self._texts |= dict(zip(batch, self._encoder.text(batch), strict=True))
        return torch.stack([self._texts[prompt] for prompt in prompts])


def _load_encoder(pretrained: str, device: str, text_model: str) -> Encoder:
    kind, _, name = pretrained.partition(":")
    if kind == "open_clip":
        return OpenClipEncoder(name, device)
    if kind == "surgvlp":
        return SurgVLPEncoder(name, device, text_model)
    return load_transformers(pretrained, device)
