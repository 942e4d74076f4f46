"""Models of known truth behind a server, which answer HEAL-MedVQA's questions on the phantom from the request alone.

A model is a function of the question and the image (or None) of a request. Its right verdicts are known by
construction. Some models know the original images (`Known`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from PIL import Image

from medfaith.builders.heal_medvqa.wording import in_text, templates
from medfaith.loaders.phantom.cases import ANATOMIES, CLASSES
from medfaith.tasks.heal.prompts import INSTRUCTIONS, prompt, target
from medfaith.tasks.models.reference import phantom_sight
from medfaith.tasks.run import load_tasks
from tests.support.chat import chat_server
from tests.support.tasks.server_scene import pictures_of, texts_of

Model = Callable[[str, Image.Image | None], str]
TASKS = ("medfaith_heal_vindr_closed", "medfaith_heal_vindr_open")
NORMAL = "No abnormality"
DECLINES = (
    "I cannot tell: no radiograph can be seen.",
    "I'm sorry, but I am unable to answer this without a readable image.",
    "It is not possible to determine this from the picture provided.",
    "I can't assess this, as the image shows nothing that can be interpreted.",
)
OURS = 0.3  # smallest share of equal pixels of an edited original
PAINTED = 0.25  # share of the place that an edit has to change to be seen there
READ = ("left lower lung", "left middle lung")  # anatomies of the selective reader


class Asked(NamedTuple):
    """Contents of a question.

    Attributes:
        anatomy: Named anatomy.
        disease: Named disease, or "" if the question asks for all.
    """

    anatomy: str
    disease: str


class Member(NamedTuple):
    """A model and its truth.

    Attributes:
        answer: The model.
        image: Verdicts on the image that are right for it (`ImageVerdict.name`).
        place: Verdicts on the place that are right for it (`PlaceVerdict.name`).
    """

    answer: Model
    image: frozenset[str]
    place: frozenset[str]


class Known(NamedTuple):
    """Original images of the rows, and their right answers.

    Attributes:
        ids: Row ids by task.
        originals: Grey images, shape (n, h, w), by size (width, height).
        gold: Right answer by pixels of the original and question.
    """

    ids: Mapping[str, list[str]]
    originals: Mapping[tuple[int, int], np.ndarray]
    gold: Mapping[tuple[bytes, str], str]


def read_known(data: Path, roots: Mapping[str, Path]) -> Known:
    """Read the original images of VinDr-CXR's rows and their right answers."""
    metadata = {"data": str(data), "roots": {name: str(root) for name, root in roots.items()}}
    ids, gold, images = {}, {}, {}
    for task in TASKS:
        for doc in load_tasks(task, metadata)["tasks"][task].dataset["test"]:
            ids.setdefault(task, []).append(doc["id"])
            if doc["image_id"] not in images:
                images[doc["image_id"]] = doc["images"][0].convert("L")
            question = _strip_instructions(prompt(doc).replace("<image>", ""))
            gold[_pixels(images[doc["image_id"]]), question] = target(doc)
    by_size: dict[tuple[int, int], list[np.ndarray]] = {}
    for image in images.values():
        by_size.setdefault(image.size, []).append(np.asarray(image))
    return Known(ids, {size: np.stack(images_of_size) for size, images_of_size in by_size.items()}, gold)


def zoo(reference: Known) -> dict[str, Member]:
    """Make all models, by name."""
    phantom_sight.chests()  # learnt here, and not in each thread of a server
    cannot = ("no use", "open")  # a model that reads nothing
    reacts = (*cannot, "reacts")
    nowhere, somewhere = ("no dependence", "open"), ("depends", "open")
    members: dict[str, tuple[Model, tuple[str, ...], tuple[str, ...]]] = {
        "looks": (looks, ("uses",), ("depends",)),
        "reads-half": (reads_half, ("uses", "open"), somewhere),
        "says-no": (says_no, cannot, nowhere),
        "says-yes": (says_yes, cannot, nowhere),
        "draws": (draws, cannot, nowhere),
        "decliner": (partial(declines, says_no), cannot, nowhere),
        "good-decliner": (declines_unseen, ("uses", "open"), somewhere),
        "shifter": (shifts, reacts, nowhere),
        "sees-paint": (partial(sees_paint, reference), reacts, nowhere),
        "sees-paint-there": (partial(sees_paint_there, reference), reacts, nowhere),
        "memoriser": (partial(recalls, reference), ("recalls", "open"), nowhere),
        "memoriser-decliner": (partial(recalls_only, reference), ("recalls", "open"), nowhere),
        "refuses-40%": (partial(refuses, 0.4), ("uses", "open"), somewhere),
        "refuses-60%": (partial(refuses, 0.6), ("unanswered",), ("unanswered",)),
        "breaks-format": (breaks_format, ("unanswered",), ("unanswered",)),
        "opposite": (says_opposite, ("harmed",), ("elsewhere", "open")),
        "own-wording": (reads_own_wording, ("uses",), somewhere),
        "selective": (reads_some, ("uses", "open"), somewhere),
    }
    return {name: Member(model, frozenset(image), frozenset(place)) for name, (model, image, place) in members.items()}


@contextmanager
def serving(model: Model) -> Iterator[str]:
    """Serve a model as chat completions; yield the URL."""

    def say(messages: list[dict[str, Any]]) -> str:
        pictures = pictures_of(messages)
        return model(_strip_instructions(texts_of(messages)), pictures[0] if pictures else None)

    with chat_server(say, models=[{"id": "m"}]) as (url, _):
        yield url


def looks(question: str, image: Image.Image | None) -> str:
    """Answer from the pixels; deny if the place is unreadable."""
    return _say(question, _see(question, image) or "")


def reads_half(question: str, image: Image.Image | None) -> str:
    return looks(question, image if _draw_uniform(question, image) < 0.5 else None)


def says_no(question: str, image: Image.Image | None) -> str:
    return _say(question, "")


def says_yes(question: str, image: Image.Image | None) -> str:
    return _say(question, read_question(question).disease or "Consolidation")


def draws(question: str, image: Image.Image | None) -> str:
    """Draw a new answer for each request, like sampling at a high temperature."""
    return (says_yes if _draw_uniform(question, image) < 0.5 else says_no)(question, image)


def declines(model: Model, question: str, image: Image.Image | None) -> str:
    """Decline if the image is blank, noise or missing, in one of several sentences; else ask the model."""
    return model(question, image) if _is_readable(image) else _decline(question)


def declines_unseen(question: str, image: Image.Image | None) -> str:
    """Look, and decline if the questioned place is unreadable."""
    disease = _see(question, image)
    return _decline(question) if disease is None else _say(question, disease)


def shifts(question: str, image: Image.Image | None) -> str:
    """Deny with any image, and affirm without one."""
    return (says_no if _is_readable(image) else says_yes)(question, image)


def sees_paint(reference: Known, question: str, image: Image.Image | None) -> str:
    """Affirm, but deny if the image is edited anywhere."""
    return (says_yes if not _find_edits(reference, image).any() else says_no)(question, image)


def sees_paint_there(reference: Known, question: str, image: Image.Image | None) -> str:
    """Affirm, but deny if the questioned anatomy is edited."""
    edited = _find_edits(reference, image)
    if not edited.any():
        return says_yes(question, image)
    region = phantom_sight.chests().region(read_question(question).anatomy)
    assert region is not None
    size = edited.shape[::-1]
    place = np.asarray(Image.fromarray(region).resize(size, Image.Resampling.NEAREST))
    return (says_yes if edited[place].mean() < PAINTED else says_no)(question, image)


def recalls(reference: Known, question: str, image: Image.Image | None) -> str:
    """Recall the right answer for images known pixel by pixel; deny for others."""
    gold = None if image is None else reference.gold.get((_pixels(image.convert("L")), question))
    return gold or says_no(question, image)


def recalls_only(reference: Known, question: str, image: Image.Image | None) -> str:
    """Recall the right answer for images known pixel by pixel, or deny; decline for other images."""
    known = {pixels for pixels, _ in reference.gold}
    is_known = image is not None and _pixels(image.convert("L")) in known
    return recalls(reference, question, image) if is_known else _decline(question)


def refuses(share: float, question: str, image: Image.Image | None) -> str:
    """Decline a share of the questions with any image; look at the others."""
    return _decline(question) if _draw_uniform(question, image) < share else looks(question, image)


def breaks_format(question: str, image: Image.Image | None) -> str:
    return "<bbox>[[12, 40, 96, 180]]</bbox>"


def says_opposite(question: str, image: Image.Image | None) -> str:
    """Deny visible findings, and affirm absent ones."""
    return (says_yes if looks(question, image) == says_no(question, image) else says_no)(question, image)


def reads_own_wording(question: str, image: Image.Image | None) -> str:
    """Look if the question has the benchmark's own wording; deny under other wordings."""
    return (looks if question in _list_own_questions() else says_no)(question, image)


def reads_some(question: str, image: Image.Image | None) -> str:
    """Look at two anatomies; deny for the others."""
    return (looks if read_question(question).anatomy in READ else says_no)(question, image)


def read_question(question: str) -> Asked:
    """Read the anatomy and the disease that a question names.

    >>> read_question("Is pleural effusion seen in the left lower lung?")
    Asked(anatomy='left lower lung', disease='Pleural effusion')
    """
    text = question.casefold()
    (anatomy,) = [name for name in ANATOMIES if name in text]
    diseases = [name for name in CLASSES if in_text(name).casefold().removeprefix("a ") in text]
    return Asked(anatomy, max(diseases, key=len, default=""))


def _list_own_questions() -> set[str]:
    templates_by_kind = templates()
    closed = {
        text.format(anatomy=anatomy, disease=in_text(disease))
        for text in templates_by_kind["closed"].values() for anatomy in ANATOMIES for disease in CLASSES
    }  # fmt: skip
    return closed | {
        text.format(anatomy=anatomy) for text in templates_by_kind["open"].values() for anatomy in ANATOMIES
    }


def _strip_instructions(text: str) -> str:
    """Strip the sentence on the answer format from a question."""
    for instruction in INSTRUCTIONS.values():
        text = text.replace(instruction, "")
    return text.strip()


def _see(question: str, image: Image.Image | None) -> str | None:
    """Read the disease in the questioned anatomy: "" without any, None if the place is unreadable."""
    anatomy = read_question(question).anatomy
    region, drawings = phantom_sight.chests().region(anatomy), dict(phantom_sight.list_anatomy_drawings(anatomy))
    if image is None or region is None or not drawings:
        return None
    place = np.asarray(Image.fromarray(region).resize(image.size, Image.Resampling.NEAREST))
    if not phantom_sight.is_structured(image, place):
        return None
    evidence = phantom_sight.chests().evidence(image, list(drawings.values()), anatomy)
    return list(drawings)[int(evidence.argmax())] if evidence.max() > 0 else ""


def _say(question: str, seen_disease: str) -> str:
    disease = read_question(question).disease
    if disease:
        return "Yes" if seen_disease == disease else "No"
    return seen_disease or NORMAL


def _decline(question: str) -> str:
    return DECLINES[_hash(question, None) % len(DECLINES)]


def _is_readable(image: Image.Image | None) -> bool:
    return image is not None and phantom_sight.is_structured(image, np.ones((image.height, image.width), dtype=bool))


def _find_edits(reference: Known, image: Image.Image | None) -> np.ndarray:
    """Find the pixels that differ from the original, bool (h, w); none if the original is unknown."""
    if image is None:
        return np.zeros((1, 1), dtype=bool)
    pixels = np.asarray(image.convert("L"))
    originals = reference.originals.get(image.size)
    if originals is None:
        return np.zeros(pixels.shape, dtype=bool)
    differs = originals != pixels
    nearest = differs[int(differs.mean(axis=(1, 2)).argmin())]
    return nearest if nearest.mean() < 1 - OURS else np.zeros_like(nearest)


def _draw_uniform(question: str, image: Image.Image | None) -> float:
    return _hash(question, image) / 2**32


def _hash(question: str, image: Image.Image | None) -> int:
    pixels = b"" if image is None else _pixels(image)
    return int.from_bytes(blake2b(question.encode() + pixels, digest_size=4).digest(), "little")


def _pixels(image: Image.Image) -> bytes:
    return blake2b(image.tobytes(), digest_size=16).digest()
