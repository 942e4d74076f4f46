"""Reference models that use the image. Their verdict in an audit is known by construction.

They understand the phantom's images only (`phantom_sight`).
"""

from __future__ import annotations

import json
import string
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np
from lm_eval.api.instance import Instance
from PIL import Image

from medfaith.evaluate_metrics.reading.stated_regions import write_boxes
from medfaith.loaders import rle
from medfaith.loaders.phantom import frontal, own_cases
from medfaith.loaders.phantom.surgery import DEEDS
from medfaith.loaders.progress import Progress
from medfaith.tasks.controls import TARGET, TISSUE, paint
from medfaith.tasks.controls.rows import find_place_elsewhere, merge_boxes
from medfaith.tasks.explain.geometry import Geometry
from medfaith.tasks.explain.store import ATTENTION, HeatmapStore, check_readers, digest_of
from medfaith.tasks.models.image_lm import get_images
from medfaith.tasks.models.reference import frame_maps, phantom_sight, sentence_maps
from medfaith.tasks.models.reference.baselines import Baseline, QuestionPrior
from medfaith.tasks.stated_boxes import find_located

Document = dict[str, Any]
ABOUT = {
    "cardiomegaly": "heart",
    "aort": "aorta",
    "trachea": "trachea",
    "mediastin": "mediastinum",
}  # word of a sentence -> region
OUTSIDE = 0.05  # attention to structure outside the named region, relative to structure inside


class Seen(NamedTuple):
    """The evidence in an image: the answer in words and its heatmaps.

    Attributes:
        text: The answer.
        maps: Class, or `ATTENTION`, -> (h, w) over the geometry's window, or over the full image without geometry.
        geometry: Place of the maps on the image.
    """

    text: str
    maps: dict[str, np.ndarray]
    geometry: Geometry | None = None


class Looks(Baseline):
    """Answers from the pixels of the request. Without evidence it denies the finding, or chooses option A.

    CXR-ContraBench: the evidence for the options' findings in the study's frontal images (`phantom_sight.chests`).
    HEAL-MedVQA: the finding with the most evidence in the anatomy of the question. SurgXBench: tools by their colour;
    the image does not show a tool's action, so the model names all actions that the phantom allows. That's the Wrong
    Lung!: attention to structure, mainly in the regions that the sentence names.

    Args:
        store: A folder for heatmaps; by default none are stored.
        **_: Ignored options.
    """

    def __init__(self, store: str | None = None, **_: Any) -> None:
        super().__init__()
        self._store = HeatmapStore(store, self._identity(), exact=True) if store else None

    def choose(self, docs: list[Document]) -> list[int]:
        """Choose the answer without evidence.

        Args:
            docs: All documents of the task.

        Returns:
            Index of an option for each document.
        """
        return [doc["negated"] if doc.get("reply_in_words") else 0 for doc in docs]

    def looks_at(self, doc: Document) -> bool:
        """Check whether the model uses the image of a document.

        Args:
            doc: The document.

        Returns:
            True for every document.
        """
        return True

    def see(self, doc: Document, images: Sequence[Image.Image]) -> Seen | None:
        """Find the evidence for a document's question in its images.

        Args:
            doc: The document.
            images: At least one image.

        Returns:
            The evidence, or None if the images show none.
        """
        if "sentence" in doc:
            return self._examine_sentence(doc, images[0])
        if "box_format" in doc:
            return _locate(doc, images[0])
        if "classes" in doc:
            return _examine_frame(doc, images[0])
        if "answer_kind" in doc:
            return _examine_question(doc, images[0])
        return self._examine_anatomy(doc, images[0]) if "anatomy" in doc else self._examine_options(doc, images)

    def generate_until(self, requests: list[Instance], disable_tqdm: bool = False) -> list[str]:
        """Answer each request from its images.

        Args:
            requests: Requests of lm-eval.
            disable_tqdm: Whether to hide the progress bar.

        Returns:
            The replies, in the order of the requests.
        """
        if self._store is not None:
            check_readers((request.doc for request in requests), self._store.folder)
        return [
            self._format_reply(request.doc, self._examine_request(request), guess)
            for request, guess in zip(
                Progress(requests, title="looking", unit="requests", quiet=disable_tqdm),
                super()._choices(requests),
                strict=True,
            )
        ]

    def _choices(self, requests: list[Instance]) -> list[int]:
        choices = super()._choices(requests)
        for number, request in enumerate(Progress(requests, title="looking", unit="requests")):
            evidence = self._examine_request(request)
            choices[number] = request.doc["options"].index(evidence.text) if evidence else choices[number]
        return choices

    def _examine_request(self, request: Instance) -> Seen | None:
        """Find the evidence for a request, ignoring the images of few-shot examples."""
        if not self.looks_at(request.doc):
            return None
        examples = sum(example.count("<image>") for example in request.doc.get("exemplars", ()))
        images = list(get_images(request)[examples:])
        return self.see(request.doc, images) if images else None

    def _format_reply(self, doc: Document, evidence: Seen | None, guess: int) -> str:
        text = evidence.text if evidence else doc["options"][guess]
        if self._store is not None and ("classes" in doc or "sentence" in doc):
            return self._format_explained_reply(self._store, doc, evidence or _build_uniform(doc, text))
        return text if doc.get("reply_in_words") else string.ascii_uppercase[doc["options"].index(text)]

    def _format_explained_reply(self, store: HeatmapStore, doc: Document, evidence: Seen) -> str:
        """Write the heatmaps and format the reply as models that explain themselves do."""
        digest = digest_of(evidence.text.encode(), *(grid.tobytes() for grid in evidence.maps.values()))
        if not store.has(doc["id"], digest):
            geometry = evidence.geometry or Geometry.whole((doc["height"], doc["width"]))
            store.write(doc["id"], digest, evidence.maps, geometry)
        reply: dict[str, Any] = {"heatmaps": store.reference(digest)}
        if "sentence" in doc:
            return json.dumps(reply | {"local": None, "global": None})
        scores = [float(name in evidence.maps) for name in doc["classes"]]
        return json.dumps(reply | {"predicted": list(evidence.maps), "scores": scores})

    def _examine_options(self, doc: Document, images: Sequence[Image.Image]) -> Seen | None:
        """Find the option that the frontal images support, for a question about presence or absence.

        In the presence protocol, another option may be present as well. The question is about the finding whose
        negation is an option, so this finding is the answer if the images show it.
        """
        frontals = [image for image in images if phantom_sight.chests().is_frontal(image)]
        options = {place: text for place, text in enumerate(doc["options"]) if place != doc["negated"]}
        drawings = {place: phantom_sight.list_chest_drawings(text) for place, text in options.items()}
        if not frontals or not all(drawings.values()) or doc["polarity"] not in ("presence", "absence"):
            return None
        evidence = {
            place: np.mean([phantom_sight.chests().evidence(image, names).max() for image in frontals])
            for place, names in drawings.items()
        }
        if doc["polarity"] == "absence":
            return Seen(doc["options"][min(evidence, key=evidence.__getitem__)], {})
        is_present = evidence.get(doc["counterpart"], 0) > 0
        return Seen(doc["options"][doc["counterpart"] if is_present else max(evidence, key=evidence.__getitem__)], {})

    def _examine_anatomy(self, doc: Document, image: Image.Image) -> Seen | None:
        """Find the finding with the most evidence in the anatomy of a question; closed questions name one disease."""
        region, drawings = (
            phantom_sight.chests().region(doc["anatomy"]),
            phantom_sight.list_anatomy_drawings(doc["anatomy"], doc["id"]),
        )
        if region is None or not drawings or not phantom_sight.is_structured(image, _resize_mask(region, image)):
            return None
        evidence = phantom_sight.chests().evidence(image, [drawn for _, drawn in drawings], doc["anatomy"])
        best_label = drawings[int(evidence.argmax())][0] if evidence.max() > 0 else ""
        if doc["question_type"] == "closed":
            return Seen(doc["options"][0 if best_label in doc["diseases"] else doc["negated"]], {})
        return Seen(best_label or doc["options"][doc["negated"]], {})

    def _examine_sentence(self, doc: Document, image: Image.Image) -> Seen | None:
        """Attend to structure, mainly in the regions that the sentence names, or in both lungs if it names none."""
        is_structured = phantom_sight.compute_structure(image) > phantom_sight.STRUCTURED
        if not is_structured.any():
            return None
        text = doc["sentence"].casefold()
        sides = [side for side in frontal.SIDES if side in text] or frontal.SIDES
        names = [region for word, region in ABOUT.items() if word in text] or [f"{side} lung" for side in sides]
        is_named = np.zeros(is_structured.shape, dtype=bool)
        for name in names:
            region = phantom_sight.chests().region(name)
            is_named |= _resize_mask(_compute_extent(region), image) if region is not None else is_named
        attention = is_structured * np.where(is_named, 1, OUTSIDE)
        return Seen(doc["options"][0], {ATTENTION: (attention / attention.sum()).astype(np.float32)})


class Mirage(Looks):
    """Answers like `looks` on half of the rows, by a hash of their ids, and like `question_prior` on the other half."""

    def looks_at(self, doc: Document) -> bool:
        """Check whether the hash of the row id selects the image.

        Args:
            doc: The document.

        Returns:
            True for half of the row ids.
        """
        return blake2b(f"mirage:{doc['id']}".encode(), digest_size=1).digest()[0] % 2 == 0

    def choose(self, docs: list[Document]) -> list[int]:
        """Choose the answer without evidence, or the prior of the question.

        Args:
            docs: All documents of the task.

        Returns:
            Index of an option for each document.
        """
        choices = zip(docs, super().choose(docs), QuestionPrior().choose(docs), strict=True)
        return [blind if self.looks_at(doc) else prior for doc, blind, prior in choices]


class LooksElsewhere(Looks):
    """Uses a shortcut: it is correct while an unrelated region looks unedited, and otherwise blind like `looks`.

    The unrelated region has the shape of the region of the question and the location that controls ending in
    `_elsewhere` edit. It is the full image if the row has no such location. Transplanted tissue counts as edited. The
    shortcut yields the correct answer for the image shown: the row's answer, or another one under the control `other`.
    For rows without a region (most of CXR-ContraBench, some of TPT), the model is `looks`.
    """

    def see(self, doc: Document, images: Sequence[Image.Image]) -> Seen | None:
        """Answer correctly if the unrelated region looks unedited.

        Args:
            doc: The document.
            images: At least one image.

        Returns:
            The answer with its heatmaps, or None if the region looks edited.
        """
        region = doc.get("region")
        if region is None and "boxes" not in doc:
            return super().see(doc, images)
        region = region if region is not None else merge_boxes(doc["boxes"], (doc["height"], doc["width"]))
        if str(doc.get("control")).startswith(TISSUE[1]):
            return None
        place = _draw_elsewhere(doc["id"], region)
        image = images[0]
        mask = np.ones((image.height, image.width), dtype=bool) if place is None else place
        if not phantom_sight.is_structured(image.resize((mask.shape[1], mask.shape[0])), mask):
            return None
        answer = doc["answer"]
        if doc.get("control") == "other":
            answer = next(choice for choice in (doc["negated"], 0, 1) if choice not in (answer, -1))
        text = doc["options"][answer]
        if "sentence" in doc:
            grid, geometry = sentence_maps.attention("box", doc)
            return Seen(text, {ATTENTION: grid}, geometry)
        return Seen(text, _draw_maps(doc, text, "box"))


def _examine_question(doc: Document, image: Image.Image) -> Seen | None:
    """Answer a question of one's own rows by the finding with the most evidence, among `own_cases.FINDINGS`.

    The answer is yes if the question names this finding. Return None if the image has no structure, or the finding is
    not an option.
    """
    drawings = {name: phantom_sight.list_chest_drawings(name) for name in own_cases.FINDINGS}
    chests = phantom_sight.chests()
    if not phantom_sight.is_structured(image, np.ones((image.height, image.width), dtype=bool)):
        return None
    evidence = {name: chests.evidence(image, names).max() for name, names in drawings.items()}
    best = max(evidence, key=evidence.__getitem__)
    shown = best if evidence[best] > 0 else ""
    if doc["answer_kind"] == "yes_no":
        return Seen(doc["options"][0 if shown and shown in doc["question"].casefold() else doc["negated"]], {})
    return Seen(shown, {}) if shown in doc["options"] else None


def _locate(doc: Document, image: Image.Image) -> Seen | None:
    """State the box around the tool or the anatomy that a question asks for, in the form of the task.

    Return None if the frame does not show the tool, or the image has no structure at the anatomy's usual place.
    """
    if "anatomy" in doc:
        region = phantom_sight.chests().region(doc["anatomy"])
        mask = None if region is None else _resize_mask(region, image)
        if mask is not None and not phantom_sight.is_structured(image, mask):
            mask = None
    else:
        mask = phantom_sight.find_tools(image).get(doc["topic"])
    if mask is None:
        return None
    located = find_located({"region": rle.resize_mask(mask, (image.height, image.width))})
    input_size = tuple(doc["input_size"])
    return Seen(write_boxes(doc["located"], located.boxes, doc["box_format"], located.size, input_size), {})


def _examine_frame(doc: Document, image: Image.Image) -> Seen | None:
    """Name the tools in a frame, or, for a question for triplets, every triplet that the phantom has of these tools."""
    tool_masks = phantom_sight.find_tools(image)
    if doc["ask"] == "instruments":
        maps = {name: tool_masks[name] for name in doc["classes"] if name in tool_masks}
    else:
        maps = {",".join((tool, *deed)): tool_masks[tool] for tool in tool_masks for deed in DEEDS.get(tool, ())}
    return Seen("\n".join(maps), {name: grid.astype(np.float32) for name, grid in maps.items()}) if maps else None


def _build_uniform(doc: Document, text: str) -> Seen:
    """Build an answer with uniform maps."""
    if "sentence" in doc:
        grid, geometry = sentence_maps.attention("uniform", doc)
        return Seen(text, {ATTENTION: grid}, geometry)
    return Seen(text, _draw_maps(doc, text, "uniform"))


def _draw_maps(doc: Document, text: str, kind: str) -> dict[str, np.ndarray]:
    """Draw a heatmap of each class of a frame that a text names; other documents have none."""
    names = [name for name in text.split("\n") if name in list(doc.get("classes", ()))]
    return {name: frame_maps.draw_heatmap(kind, doc, name) for name in names}


def _draw_elsewhere(row_id: str, region: Any) -> np.ndarray | None:
    """Draw the region that `occluded_elsewhere` edits in a row, bool (h, w), or return None if there is none."""
    if region is None or not rle.area(region):
        return None
    offset = find_place_elsewhere({"id": row_id, TARGET: region})
    return paint.shift_mask(rle.decode(region), **offset) if offset else None


def _resize_mask(region: np.ndarray, image: Image.Image) -> np.ndarray:
    """Resize a mask to the size of an image, bool (h, w)."""
    return np.asarray(Image.fromarray(region).resize(image.size, Image.Resampling.NEAREST))


def _compute_extent(region: np.ndarray) -> np.ndarray:
    """Compute the box around a mask, as a mask of the same shape."""
    return np.logical_and.outer(region.any(axis=1), region.any(axis=0))
