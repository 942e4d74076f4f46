"""`medfaith-contrastive`: CLIP, BLIP, OpenCLIP's ResNets and the SurgVLP family on SurgXBench, with heatmaps.

A document names its classes and one prompt a class; the reply is the classes predicted from the prompts' similarities
to the frame. Where a `store` is named, a heatmap of each predicted class goes there.

**What a killed run leaves.** Frames are scored, explained and written to the store a batch at a time, and a repeated
run computes what is missing. A threshold per class needs the scores of all frames first: a first pass writes them
without heatmaps, a second one explains. No file says of itself that it has every heatmap: those that are wanted and
not there are made.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import numpy as np
from lm_eval.api.instance import Instance
from PIL import Image

from ...loaders.errors import InputError, MedfaithError
from ..explain.geometry import Geometry, to_frame
from ..explain.occlusion import attended, occluded, share_of_boxes
from ..explain.store import HeatmapStore, check_readers
from .clinical_bert import TEXT_MODEL
from .contrastive_encoders import (
    SCALE,
    Encoder,
    OpenClipEncoder,
    chosen_explainer,
    load_transformers,
    short_name,
    usable_device,
)
from .contrastive_frames import THRESHOLDS, Frame, Job, batches, checked, first_right, opened, predicted, tied
from .image_lm import ImageLM, number_at_once
from .surgvlp import SurgVLPEncoder

if TYPE_CHECKING:
    import torch

PROMPTS_AT_ONCE = 64


class ContrastiveLM(ImageLM):
    """Zero-shot classification by similarity, explained.

    The reply is JSON: {"heatmaps": a reference into the store or null, "predicted": classes, the most similar first,
    "scores": 100 x cosine, one for each of the document's classes}; for a document that asks to `occlude`, `occluded`,
    too; where similarities tie so that a class cannot be named, "tied": true.

    What the store has of a row and the same image is neither scored nor explained again. The store's key is a hash of
    the weights, the preprocessing, the explainer, the classes and the prompts (text and tokens).

    Args:
        pretrained: CLIP or BLIP (image-text retrieval) as a folder or Hub name; `open_clip:RN50-quickgelu:openai`;
            `surgvlp:PATH` for a checkpoint of SurgVLP, HecVL or PeskaVLP.
        store: a folder for heatmaps; without it none are made.
        batch_size: frames at once. device: as torch names it; a GPU if there is one.
        percentile, threshold: which classes are predicted (see contrastive_frames); not for documents with a `top_k`.
        explainer: `auto` is `grad_cam` for a ResNet and `rollout` for a transformer, which also has `rollout_last`
            (the last layer alone) and `rollout_forward` (the recursion in the order of Chefer et al.).
        text_model: for SurgVLP, where the BERT's configuration and tokenizer are.
    """

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
        self._batch_size = number_at_once(batch_size, max_batch_size)
        self._encoder = _load(pretrained, usable_device(device), text_model)
        self._explainer = chosen_explainer(explainer, self._encoder)
        self._store_folder, self._percentile, self._threshold = store, percentile, threshold
        self._texts: dict[str, torch.Tensor] = {}  # each distinct prompt's vector, made once

    def generate_until(self, requests: list[Instance], disable_tqdm: bool = False) -> list[str]:
        """One reply a request, as JSON (see the class).

        Raises:
            InputError: a document without classes or prompts, or not with one image; the heatmaps are to be read from
                another folder than `store`.
        """
        if self._store_folder is not None:
            check_readers((request.doc for request in requests), self._store_folder)
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
        for batch in batches(images, self._batch_size):
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

    @property
    def tokenizer_name(self) -> str:
        return self._encoder.name

    def _jobs(self, requests: Sequence[Instance]) -> Iterator[Job]:
        groups: dict[tuple[Any, ...], list[int]] = {}
        for number, request in enumerate(requests):
            doc = checked(request)
            what = (request.task_name, tuple(doc["classes"]), tuple(doc["prompts"]), int(doc["top_k"]))
            what += (bool(doc.get("occlude")),)
            groups.setdefault(what, []).append(number)
        for (_, classes, prompts, top_k, occlude), numbers in groups.items():
            self._check_whole(top_k)
            store = None
            if self._store_folder is not None:
                store = HeatmapStore(self._store_folder, self._identity(classes, prompts))
            yield Job(classes, prompts, top_k, occlude, [requests[number] for number in numbers], numbers, store)

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

    def _answer(self, job: Job, quiet: bool) -> list[str]:
        replies: list[str] = []
        of_all, chosen_of_all, tied_of_all = None, [], []
        if self._threshold == "per_class" and not job.top_k:
            of_all = self._scores_of_all(job, quiet)
            chosen_of_all = predicted(of_all, 0, self._percentile, "per_class")
            tied_of_all = tied(of_all, 0, self._percentile, "per_class")
        for rows in batches(range(len(job.requests)), self._batch_size, "classifying frames", quiet):
            frames = [opened(job.requests[row], job.store) for row in rows]
            if of_all is None:
                scores = self._scored(job, frames)
                chosen = predicted(scores, job.top_k, self._percentile)
                ties = tied(scores, job.top_k, self._percentile)
            else:
                scores, chosen = of_all[list(rows)], [chosen_of_all[row] for row in rows]
                ties = [tied_of_all[row] for row in rows]
            answers = self._replies(job, frames, scores, chosen)
            replies += [
                json.dumps(reply | {"tied": True} if tie else reply) for reply, tie in zip(answers, ties, strict=True)
            ]
        return replies

    def _replies(
        self, job: Job, frames: Sequence[Frame], scores: np.ndarray, chosen: Sequence[Sequence[int]]
    ) -> list[dict[str, Any]]:
        """The replies of one batch, whose heatmaps are in the store then."""
        right = [
            first_right(job, frame.doc, own) if job.occlude else None for frame, own in zip(frames, chosen, strict=True)
        ]
        wanted = chosen if job.store is not None else [[index] if index is not None else [] for index in right]
        maps = self._maps(job, frames, scores, wanted)
        replies: list[dict[str, Any]] = [
            {
                "heatmaps": job.store.reference(frame.shown) if job.store is not None else None,
                "predicted": [job.classes[index] for index in own],
                "scores": row.tolist(),
            }
            for frame, own, row in zip(frames, chosen, scores, strict=True)
        ]
        if job.occlude:
            for reply, changed in zip(replies, self._occluded(job, frames, scores, right, maps), strict=True):
                reply["occluded"] = changed
        return replies

    def _occluded(
        self,
        job: Job,
        frames: Sequence[Frame],
        scores: np.ndarray,
        right: Sequence[int | None],
        maps: Sequence[Mapping[str, np.ndarray]],
    ) -> list[dict[str, Any] | None]:
        """What becomes of the best ranked right prediction when the region that it looked at is black (4.3.2).

        None for a frame without a right prediction. `before` and `after` are its similarities, `predicted` the
        predictions afterwards and `top_after` their similarities; `painted` is the share of the boxes of its
        instrument, as far as the model saw them, that is black. What is not defined is null.
        """
        found: list[dict[str, Any] | None] = [None] * len(frames)
        covered = [(n, index) for n, index in enumerate(right) if index is not None]
        regions = [self._region(frames[n], maps[n][job.classes[index]]) for n, index in covered]
        black = [occluded(frames[n].image, of) for (n, _), of in zip(covered, regions, strict=True) if of is not None]
        after = iter(self.scores(black, job.prompts))
        for (n, index), region in zip(covered, regions, strict=True):
            change: dict[str, Any] = {"triplet": job.classes[index], "before": float(scores[n, index])}
            change |= dict.fromkeys(("after", "predicted", "top_after", "painted"))
            if region is not None:
                again = next(after)
                ((*then,),) = predicted(again[None], job.top_k, self._percentile)
                change |= {
                    "after": float(again[index]),
                    "predicted": [job.classes[one] for one in then],
                    "top_after": again[then].tolist(),
                    "painted": self._share(job, frames[n], index, region),
                }
            found[n] = change
        return found

    def _region(self, frame: Frame, grid: np.ndarray) -> np.ndarray | None:
        geometry = self._encoder.geometry(frame.size)
        return attended(to_frame(grid[None], geometry)[0], seen=geometry.window)

    def _share(self, job: Job, frame: Frame, index: int, region: np.ndarray) -> float | None:
        instrument = job.classes[index].split(",")[0]
        boxes = [box["xywh"] for box in frame.doc.get("boxes", ()) if box["label"] == instrument]
        return share_of_boxes(region, boxes, self._encoder.geometry(frame.size).window)

    def _scores_of_all(self, job: Job, quiet: bool) -> np.ndarray:
        """The scores of all frames, which are in the store then."""
        found = [np.zeros((0, len(job.classes)))]
        for batch in batches(job.requests, self._batch_size, "scoring frames", quiet):
            frames = [opened(request, job.store) for request in batch]
            found.append(self._scored(job, frames))
            if job.store is not None:
                for frame, scores in zip(frames, found[-1], strict=True):
                    if frame.kept is None:
                        job.store.write(frame.row_id, frame.shown, {}, self._encoder.geometry(frame.size), scores)
        return np.concatenate(found)

    def _scored(self, job: Job, frames: Sequence[Frame]) -> np.ndarray:
        """The scores (n, k), from the store where the row is there."""
        kept = [frame.kept.scores if frame.kept is not None else None for frame in frames]
        scores = np.zeros((len(frames), len(job.classes)))
        missing = [n for n, row in enumerate(kept) if row is None]
        if missing:
            scores[missing] = self.scores([frames[n].image for n in missing], job.prompts)
        for n, row in enumerate(kept):
            if row is not None:
                scores[n] = row
        return scores

    def _maps(
        self, job: Job, frames: Sequence[Frame], scores: np.ndarray, wanted: Sequence[Sequence[int]]
    ) -> list[dict[str, np.ndarray]]:
        """Class -> grid of each frame's wanted classes; what the store lacks is explained and written.

        Grids come from the store where there is one: in half precision, whether made now or by an earlier run.
        """
        maps = [dict(frame.kept.maps) if frame.kept is not None else {} for frame in frames]
        lacking = [
            [index for index in own if job.classes[index] not in has] for own, has in zip(wanted, maps, strict=True)
        ]
        todo = [n for n, indices in enumerate(lacking) if indices]
        if todo:
            explained = self._explain([frames[n].image for n in todo], job.prompts, [lacking[n] for n in todo])
            for n, (grids, _) in zip(todo, explained, strict=True):
                maps[n] |= {job.classes[index]: grid for index, grid in zip(lacking[n], grids, strict=True)}
        if job.store is not None:
            for n, frame in enumerate(frames):
                if frame.kept is None or lacking[n]:
                    geometry = self._encoder.geometry(frame.size)
                    job.store.write(frame.row_id, frame.shown, maps[n], geometry, scores[n])
                    maps[n] = job.store.read(frame.row_id, frame.shown).maps
        return maps

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
        for batch in batches(new, PROMPTS_AT_ONCE):
            self._encoder.check_length(batch)
            with torch.no_grad():
                self._texts |= dict(zip(batch, self._encoder.text(batch), strict=True))
        return torch.stack([self._texts[prompt] for prompt in prompts])


def _load(pretrained: str, device: str, text_model: str) -> Encoder:
    kind, _, rest = pretrained.partition(":")
    if kind == "open_clip":
        return OpenClipEncoder(rest, device)
    if kind == "surgvlp":
        return SurgVLPEncoder(rest, device, text_model)
    return load_transformers(pretrained, device)
