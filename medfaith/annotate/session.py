"""One annotator's way through the plan: what comes next, what is shown, what is written. Knows no browser."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from PIL import Image

from medfaith.loaders.errors import InputError, MedfaithError
from medfaith.loaders.images import open_image
from medfaith.tasks.explain.geometry import Geometry
from medfaith.tasks.explain.store import Store
from medfaith.tasks.wrong_lung.adapter import ATTENTION

from .answers import Answers, Choice, Judgement
from .logs import Answer
from .overlay import nowhere, outlined, overlay, picture
from .plan import Boxes, Instance, Plan, Sentence

if TYPE_CHECKING:
    from medfaith.tasks.models.aligners import Aligner


class Place(NamedTuple):
    """Where the annotator is: at an instance, choosing its sentence (alias None) or judging a model."""

    instance: int
    alias: str | None


class Prompt(NamedTuple):
    """What heatmaps are judged for. row_id: of the report's sentence, None for the annotator's own."""

    instance: int
    row_id: str | None
    text: str
    boxes: Boxes


class Shown(NamedTuple):
    """plain, heatmap: the image, and the image with attention on it, both with the boxes where they were asked for.
    nowhere: the share of attention that is nowhere on the image.
    """

    plain: Image.Image
    heatmap: Image.Image
    nowhere: float


@dataclass
class Session:
    """Args: heatmaps: model -> id of a row -> its answer. aligners: the models that take custom prompts, by name."""

    plan: Plan
    answers: Answers
    heatmaps: Mapping[str, Mapping[str, Answer]]
    store: Store
    roots: Mapping[str, Path]
    aligners: Mapping[str, Aligner] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._aligned = lru_cache(maxsize=4 * max(1, len(self.aligners)))(self._align)
        self._opened = lru_cache(maxsize=2)(self._open)

    @property
    def n_done(self) -> int:
        """Instances on which every model is judged."""
        return sum(not self._open_aliases(number) for number in range(len(self.plan.instances)))

    def next(self) -> Place | None:
        """The first place without an answer; None at the end."""
        for number in range(len(self.plan.instances)):
            if self.chosen(number) is None:
                return Place(number, None)
            if left := self._open_aliases(number):
                return Place(number, left[0])
        return None

    def before(self, place: Place | None) -> Place | None:
        """The judgement before a place, or the last one before the end; None where there is none to go back to."""
        end = len(self.plan.instances) - 1 if place is None else place.instance
        for number in range(end, -1, -1):
            names = list(self.plan.aliases(number))
            if place is not None and number == place.instance:
                names = names[: names.index(place.alias)] if place.alias else []
            judged = [name for name in names if self.judged(Place(number, name))]
            if judged:
                return Place(number, judged[-1])
        return None

    def chosen(self, instance: int) -> Sentence | None:
        """The sentence that the annotator chose of an instance."""
        of = self.plan.instances[instance]
        choice = self.answers.choices.get((self.plan.annotator, of.key))
        return next((s for s in of.sentences if choice is not None and s.row_id == choice.row_id), None)

    def choose(self, instance: int, sentence: int) -> None:
        """Chooses a sentence by its number, once: the first choice, made before any heatmap was shown, stands."""
        if self.chosen(instance) is None:
            of = self.plan.instances[instance]
            row_id, text, _ = of.sentences[sentence]
            self.answers.choose(Choice(self.plan.annotator, of.key, row_id, text, _version()))

    def prompt(self, place: Place) -> Prompt:
        """What a place's heatmap is judged for."""
        sentence = self.chosen(place.instance)
        assert sentence is not None
        return Prompt(place.instance, *sentence)

    def own(self, instance: int, text: str) -> Prompt:
        """A custom prompt. Raises InputError for one without a word."""
        if not text.split():
            raise InputError("own prompt", "has no word", action="write a sentence")
        return Prompt(instance, None, " ".join(text.split()), ())

    def aliases(self, prompt: Prompt) -> dict[str, str]:
        """The names of the models that are judged for a prompt, and the model behind each."""
        return self.plan.aliases(prompt.instance, None if prompt.row_id is not None else sorted(self.aligners))

    def judged(self, place: Place, prompt: Prompt | None = None) -> Judgement | None:
        """What the annotator said at a place, of its sentence or of a custom prompt."""
        if prompt is None and self.chosen(place.instance) is None:
            return None
        asked = prompt or self.prompt(place)
        item = (asked.text if asked.row_id is None else asked.row_id, asked.row_id is None)
        model = self.aliases(asked)[place.alias or ""]
        return self.answers.judged(self.plan.annotator, (self.plan.instances[place.instance].key, *item, model))

    def judge(self, alias: str, prompt: Prompt, points: Sequence[int], seconds: float) -> None:
        """Writes a judgement. points: recall, precision, intuitiveness, 1 to 5."""
        of = self.plan.instances[prompt.instance]
        model = self.aliases(prompt)[alias]
        recall, precision, intuitiveness = map(int, points)
        judgement = Judgement(
            annotator=self.plan.annotator,
            instance=of.key,
            patient_id=of.patient_id,
            row_id=prompt.row_id,
            sentence=prompt.text,
            custom=prompt.row_id is None,
            model=model,
            alias=alias,
            recall=recall,
            precision=precision,
            intuitiveness=intuitiveness,
            heatmaps=None if prompt.row_id is None else self.heatmaps[model][prompt.row_id].heatmaps,
            seconds=round(seconds, 1),
            seed=self.plan.seed,
            version=_version(),
        )
        self.answers.judge(judgement)

    def plain(self, instance: int) -> Image.Image:
        """The image alone, as it is shown before a sentence is chosen. Raises as `show`."""
        return picture(self._opened(instance))

    def show(self, alias: str, prompt: Prompt, boxes: bool) -> Shown:
        """One model's heatmap. boxes: draw those of the report's sentence.

        Raises:
            MedfaithError: the image or the heatmap cannot be read, or they are not of one size.
        """
        model, of = self.aliases(prompt)[alias], self.plan.instances[prompt.instance]
        if prompt.row_id is None:
            attention, geometry = self._aligned(model, prompt.instance, prompt.text)
        else:
            attention, geometry = self._kept(of, self.heatmaps[model][prompt.row_id])
        plain = self.plain(prompt.instance)
        pictures = [plain, overlay(plain, attention, geometry)]
        if boxes:
            pictures = [outlined(one, prompt.boxes, of.size) for one in pictures]
        return Shown(*pictures, nowhere(attention))

    def _open_aliases(self, instance: int) -> list[str]:
        names = self.plan.aliases(instance)
        return [name for name in names if self.judged(Place(instance, name)) is None]

    def _kept(self, of: Instance, answer: Answer) -> tuple[np.ndarray, Geometry]:
        entry = self.store.read(answer.heatmaps or "", answer.id)
        if ATTENTION not in entry.maps or tuple(entry.geometry.size) != of.size:
            found = f"no {ATTENTION} on an image of {of.size[1]} x {of.size[0]} pixels"
            raise InputError(self.store.folder, found, row=answer.id, action="run the model again on this data")
        return entry.maps[ATTENTION], entry.geometry

    def _align(self, model: str, instance: int, text: str) -> tuple[np.ndarray, Geometry]:
        (found,) = self.aligners[model].align([self._opened(instance)], [text])
        if not np.isfinite(found.attention).all():
            raise MedfaithError(f"{model} gives attention that is no number: its weights are broken")
        return found.attention, found.geometry

    def _open(self, instance: int) -> Image.Image:
        of = self.plan.instances[instance]
        image = open_image(of.image, self.roots)
        if (image.height, image.width) != of.size:
            found, expected = (f"{w} x {h} pixels" for h, w in ((image.height, image.width), of.size))
            action = "use the source's original images: the boxes are in their pixels"
            raise InputError(of.key, found, expected=f"{expected}, as its rows say", action=action)
        return image


def _version() -> str:
    return importlib.metadata.version("medfaith")
