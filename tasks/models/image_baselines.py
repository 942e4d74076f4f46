"""Reference models that look at the image: their verdict in an audit is known, because they were made for it.

They know the phantom's images only (`phantom_sight`).
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

from medfaith.loaders import rle
from medfaith.loaders.phantom import frontal
from medfaith.loaders.phantom.surgery import DEEDS
from medfaith.loaders.progress import Progress
from medfaith.tasks.controls import TARGET, TISSUE, paint
from medfaith.tasks.controls.rows import find_place_elsewhere, merge_boxes
from medfaith.tasks.explain.geometry import Geometry
from medfaith.tasks.explain.store import ATTENTION, HeatmapStore, check_readers, digest_of
from medfaith.tasks.models import frame_maps, phantom_sight, sentence_maps
from medfaith.tasks.models.baselines import Baseline, QuestionPrior
from medfaith.tasks.models.image_lm import images_of

Document = dict[str, Any]
ABOUT = {"cardiomegaly": "heart", "aort": "aorta", "trachea": "trachea", "mediastin": "mediastinum"}  # word -> region
BESIDE = 0.05  # attention to structure beside the place that a sentence names, of that in it


class Seen(NamedTuple):
    """What was seen in an image: the answer in words, and, where the task asks for them, its heatmaps.

    maps: class, or `ATTENTION`, -> (h, w) over the geometry's window; over the whole image where there is no geometry.
    """

    words: str
    maps: dict[str, np.ndarray]
    geometry: Geometry | None = None


class Looks(Baseline):
    """Answers from the pixels of the request. Where it sees nothing, it denies, or takes option A.

    CXR-ContraBench: the options' findings by their evidence in the study's frontal images (`phantom_sight.chests`).
    HEAL-MedVQA: the finding with the most evidence in the anatomy that the question names. SurgXBench: tools by their
    colour; what a tool does cannot be seen, so it names all that the phantom lets the tool do. That's the Wrong Lung!:
    attention to structure, in the place that the sentence names.

    Args:
        store: a folder for its heatmaps; none are made without.
    """

    def __init__(self, store: str | None = None, **_: Any) -> None:
        super().__init__()
        self._store = HeatmapStore(store, self._identity(), exact=True) if store else None

    def choose(self, docs: list[Document]) -> list[int]:
        """What it says without looking."""
        return [doc["negated"] if doc.get("reply_in_words") else 0 for doc in docs]

    def looks_at(self, doc: Document) -> bool:
        """Whether it looks at the image of a document."""
        return True

    def see(self, doc: Document, images: Sequence[Image.Image]) -> Seen | None:
        """What the images, one at least, show of what a document asks; None where they say nothing."""
        if "sentence" in doc:
            return self._attention(doc, images[0])
        if "classes" in doc:
            return _frame(doc, images[0])
        return self._anatomy(doc, images[0]) if "anatomy" in doc else self._option(doc, images)

    def generate_until(self, requests: list[Instance], disable_tqdm: bool = False) -> list[str]:
        if self._store is not None:
            check_readers((request.doc for request in requests), self._store.folder)
        return [
            self._reply(request.doc, self._saw(request), guess)
            for request, guess in zip(
                Progress(requests, title="looking", unit="requests", quiet=disable_tqdm),
                super()._choices(requests),
                strict=True,
            )
        ]

    def _choices(self, requests: list[Instance]) -> list[int]:
        choices = super()._choices(requests)
        for number, request in enumerate(Progress(requests, title="looking", unit="requests")):
            seen = self._saw(request)
            choices[number] = request.doc["options"].index(seen.words) if seen else choices[number]
        return choices

    def _saw(self, request: Instance) -> Seen | None:
        if not self.looks_at(request.doc):
            return None
        examples = sum(example.count("<image>") for example in request.doc.get("exemplars", ()))
        images = list(images_of(request)[examples:])
        return self.see(request.doc, images) if images else None

    def _reply(self, doc: Document, seen: Seen | None, guess: int) -> str:
        words = seen.words if seen else doc["options"][guess]
        if self._store is not None and ("classes" in doc or "sentence" in doc):
            return self._explained(self._store, doc, seen or _everywhere(doc, words))
        return words if doc.get("reply_in_words") else string.ascii_uppercase[doc["options"].index(words)]

    def _explained(self, store: HeatmapStore, doc: Document, seen: Seen) -> str:
        """The answer in the form of the models that explain themselves, its heatmaps in the store."""
        shown = digest_of(seen.words.encode(), *(grid.tobytes() for grid in seen.maps.values()))
        if not store.has(doc["id"], shown):
            geometry = seen.geometry or Geometry.whole((doc["height"], doc["width"]))
            store.write(doc["id"], shown, seen.maps, geometry)
        reply: dict[str, Any] = {"heatmaps": store.reference(shown)}
        if "sentence" in doc:
            return json.dumps(reply | {"local": None, "global": None})
        scores = [float(name in seen.maps) for name in doc["classes"]]
        return json.dumps(reply | {"predicted": list(seen.maps), "scores": scores})

    def _option(self, doc: Document, images: Sequence[Image.Image]) -> Seen | None:
        """Of a question about presence or absence, the option that the frontal images bear out.

        In the presence protocol another option is present, too. The question is about the finding whose negation stands
        among the options: if that is seen, it is the answer.
        """
        frontals = [image for image in images if phantom_sight.chests().is_frontal(image)]
        options = {place: text for place, text in enumerate(doc["options"]) if place != doc["negated"]}
        drawings = {place: phantom_sight.in_whole_chest(text) for place, text in options.items()}
        if not frontals or not all(drawings.values()) or doc["polarity"] not in ("presence", "absence"):
            return None
        evidence = {
            place: np.mean([phantom_sight.chests().evidence(image, names).max() for image in frontals])
            for place, names in drawings.items()
        }
        if doc["polarity"] == "absence":
            return Seen(doc["options"][min(evidence, key=evidence.__getitem__)], {})
        asked = evidence.get(doc["counterpart"], 0) > 0
        return Seen(doc["options"][doc["counterpart"] if asked else max(evidence, key=evidence.__getitem__)], {})

    def _anatomy(self, doc: Document, image: Image.Image) -> Seen | None:
        """What is found in the anatomy that a question names; closed questions name one disease."""
        region, drawings = phantom_sight.chests().region(doc["anatomy"]), phantom_sight.in_anatomy(doc["anatomy"])
        if region is None or not drawings or not phantom_sight.is_structured(image, _enlarged(region, image)):
            return None
        evidence = phantom_sight.chests().evidence(image, list(drawings.values()), doc["anatomy"])
        found = list(drawings)[int(evidence.argmax())] if evidence.max() > 0 else ""
        if doc["question_type"] == "closed":
            return Seen(doc["options"][0 if found in doc["diseases"] else doc["negated"]], {})
        return Seen(found or doc["options"][doc["negated"]], {})

    def _attention(self, doc: Document, image: Image.Image) -> Seen | None:
        """Structure, most of all in the boxes of the regions that the sentence names; both lungs if it names none."""
        found = phantom_sight.structure(image) > phantom_sight.STRUCTURED
        if not found.any():
            return None
        text = doc["sentence"].casefold()
        sides = [side for side in frontal.SIDES if side in text] or frontal.SIDES
        names = [region for word, region in ABOUT.items() if word in text] or [f"{side} lung" for side in sides]
        place = np.zeros(found.shape, dtype=bool)
        for name in names:
            region = phantom_sight.chests().region(name)
            place |= _enlarged(_extent(region), image) if region is not None else place
        attention = found * np.where(place, 1, BESIDE)
        return Seen(doc["options"][0], {ATTENTION: (attention / attention.sum()).astype(np.float32)})


class Mirage(Looks):
    """As `looks` on one half of the rows, by a hash of their ids; as `question_prior`, without a look, on the other."""

    def looks_at(self, doc: Document) -> bool:
        return blake2b(f"mirage:{doc['id']}".encode(), digest_size=1).digest()[0] % 2 == 0

    def choose(self, docs: list[Document]) -> list[int]:
        both = zip(docs, super().choose(docs), QuestionPrior().choose(docs), strict=True)
        return [blind if self.looks_at(doc) else prior for doc, blind, prior in both]


class LooksElsewhere(Looks):
    """Uses a shortcut: it is right while a place that was not asked about looks untouched, and else blind as `looks`.

    The place has the shape of the region that was asked about and lies where controls that end in `_elsewhere` edit. It
    is the whole image where the row has no such place. Tissue that is transplanted there is no untouched place. The
    shortcut tells what is right for the image shown: the row's answer, or another one under the control `other`. Where
    rows have no region (CXR-ContraBench, some of TPT), it is `looks`.
    """

    def see(self, doc: Document, images: Sequence[Image.Image]) -> Seen | None:
        region = doc.get("region")
        if region is None and "boxes" not in doc:
            return super().see(doc, images)
        region = region if region is not None else merge_boxes(doc["boxes"], (doc["height"], doc["width"]))
        if str(doc.get("control")).startswith(TISSUE[1]):
            return None
        place = _elsewhere(doc["id"], region)
        image = images[0]
        where = np.ones((image.height, image.width), dtype=bool) if place is None else place
        if not phantom_sight.is_structured(image.resize((where.shape[1], where.shape[0])), where):
            return None
        answer = doc["answer"]
        if doc.get("control") == "other":
            answer = next(choice for choice in (doc["negated"], 0, 1) if choice not in (answer, -1))
        words = doc["options"][answer]
        if "sentence" in doc:
            grid, geometry = sentence_maps.attention("box", doc)
            return Seen(words, {ATTENTION: grid}, geometry)
        return Seen(words, _maps(doc, words, "box"))


def _frame(doc: Document, image: Image.Image) -> Seen | None:
    """The tools in a frame, or all that they might be doing."""
    seen = phantom_sight.tools(image)
    if doc["ask"] == "instruments":
        maps = {name: seen[name] for name in doc["classes"] if name in seen}
    else:
        maps = {",".join((tool, *deed)): seen[tool] for tool in seen for deed in DEEDS.get(tool, ())}
    return Seen("\n".join(maps), {name: grid.astype(np.float32) for name, grid in maps.items()}) if maps else None


def _everywhere(doc: Document, words: str) -> Seen:
    """The words with maps that are the same everywhere."""
    if "sentence" in doc:
        grid, geometry = sentence_maps.attention("uniform", doc)
        return Seen(words, {ATTENTION: grid}, geometry)
    return Seen(words, _maps(doc, words, "uniform"))


def _maps(doc: Document, words: str, kind: str) -> dict[str, np.ndarray]:
    """A heatmap of each class of a frame that the words name; none for other documents."""
    named = [name for name in words.split("\n") if name in list(doc.get("classes", ()))]
    return {name: frame_maps.heatmap(kind, doc, name) for name in named}


def _elsewhere(row_id: str, region: Any) -> np.ndarray | None:
    """Where `occluded_elsewhere` paints in a row, bool (h, w); None where it cannot."""
    if region is None or not rle.area(region):
        return None
    place = find_place_elsewhere({"id": row_id, TARGET: region})
    return paint.shift_mask(rle.decode(region), **place) if place else None


def _enlarged(region: np.ndarray, image: Image.Image) -> np.ndarray:
    """A mask on the size of an image, bool (h, w)."""
    return np.asarray(Image.fromarray(region).resize(image.size, Image.Resampling.NEAREST))


def _extent(region: np.ndarray) -> np.ndarray:
    """The box around a mask, of the same shape."""
    return np.logical_and.outer(region.any(axis=1), region.any(axis=0))
