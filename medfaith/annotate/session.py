"""One annotator's progress through the plan: the next question, its pictures, its answers. It knows no browser."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from PIL import Image

from medfaith.loaders import limits
from medfaith.loaders.errors import InputError, MedfaithError
from medfaith.loaders.images import open_image
from medfaith.tasks.explain.geometry import Geometry
from medfaith.tasks.explain.store import Store

from .answers import POINTS, Answers, Choice, Judgement
from .logs import TASK, Answer
from .overlay import draw_boxes, nowhere, overlay, picture
from .plan import Boxes, Instance, Plan, Sentence
from .wording import QUESTIONS

if TYPE_CHECKING:
    from medfaith.tasks.models.alignment.aligners import Aligner


class Place(NamedTuple):
    """The position of the annotator.

    Attributes:
        instance: The index of the instance.
        alias: The alias of the model to judge; None while the sentence is chosen.
    """

    instance: int
    alias: str | None


class Prompt(NamedTuple):
    """The sentence for which heatmaps are judged.

    Attributes:
        instance: The index of the instance.
        row_id: The id of the report sentence; None for the annotator's own sentence.
        text: The sentence.
        boxes: The boxes of the sentence.
    """

    instance: int
    row_id: str | None
    text: str
    boxes: Boxes


class Shown(NamedTuple):
    """The pictures of one heatmap.

    Attributes:
        plain: The image, with the boxes if requested.
        heatmap: The image with attention, and the boxes if requested.
        nowhere: The share of attention to nowhere on the image.
    """

    plain: Image.Image
    heatmap: Image.Image
    nowhere: float


@dataclass
class Session:
    """One annotator's session.

    Attributes:
        plan: The plan.
        answers: The file of answers.
        heatmaps: Model -> row id -> answer.
        store: The store of heatmaps.
        roots: Source id -> folder of the images.
        aligners: Name -> model that accepts custom prompts.
    """

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
        """The number of instances on which every model is judged."""
        return sum(not self._list_pending_aliases(number) for number in range(len(self.plan.instances)))

    def find_next(self) -> Place | None:
        """Return the first place without an answer; None at the end."""
        for number in range(len(self.plan.instances)):
            if self.get_choice(number) is None:
                return Place(number, None)
            if pending := self._list_pending_aliases(number):
                return Place(number, pending[0])
        return None

    def find_previous(self, place: Place | None) -> Place | None:
        """Return the last judged place before a place; None if there is none.

        Args:
            place: The place; None for the end.

        Returns:
            The place, or None.
        """
        end = len(self.plan.instances) - 1 if place is None else place.instance
        for number in range(end, -1, -1):
            names = list(self.plan.aliases(number))
            if place is not None and number == place.instance:
                names = names[: names.index(place.alias)] if place.alias else []
            judged_names = [name for name in names if self.get_judgement(Place(number, name))]
            if judged_names:
                return Place(number, judged_names[-1])
        return None

    def get_choice(self, instance: int) -> Sentence | None:
        """Return the sentence that the annotator chose for an instance, or None.

        Args:
            instance: The index of the instance.

        Returns:
            The sentence, or None.
        """
        planned = self.plan.instances[instance]
        choice = self.answers.choices.get((self.plan.annotator, planned.key))
        return next((s for s in planned.sentences if choice is not None and s.row_id == choice.row_id), None)

    def choose(self, instance: int, sentence: int) -> None:
        """Choose a sentence, before any heatmap is shown. The first choice is final: a later one changes nothing.

        Args:
            instance: The index of the instance.
            sentence: The index of the sentence.

        Raises:
            InputError: The plan has no such instance or sentence.
            OSError: The disk failed.
        """
        planned = self._get_instance(instance)
        _require_index(sentence, len(planned.sentences), "sentence")
        if self.get_choice(instance) is None:
            row_id, text, _ = planned.sentences[sentence]
            self.answers.choose(Choice(self.plan.annotator, planned.key, row_id, text, _get_version()))

    def build_prompt(self, place: Place) -> Prompt:
        """Build the prompt of a place from the chosen sentence.

        Args:
            place: The place.

        Returns:
            The prompt, with the sentence's row id and boxes.
        """
        sentence = self.get_choice(place.instance)
        assert sentence is not None
        return Prompt(place.instance, *sentence)

    def build_own_prompt(self, instance: int, text: str) -> Prompt:
        """Build a custom prompt.

        Args:
            instance: The index of the instance.
            text: The annotator's sentence.

        Returns:
            The prompt, without row id and boxes; white space is normalized.

        Raises:
            InputError: The text has no word or is too long, or the plan has no such instance.
        """
        self._get_instance(instance)
        words = text[: limits.OPTION_CHARACTERS + 1].split()
        if not words:
            raise InputError("own prompt", "has no word", action="write a sentence")
        if len(text) > limits.OPTION_CHARACTERS:
            expected = f"at most {limits.OPTION_CHARACTERS:,}"
            raise InputError("own prompt", f"has {len(text):,} characters", expected=expected, action="shorten it")
        return Prompt(instance, None, " ".join(words), ())

    def aliases(self, prompt: Prompt) -> dict[str, str]:
        """Return the alias and the name of each model that is judged for a prompt.

        Args:
            prompt: The prompt.

        Returns:
            Alias -> model. Models without an aligner cannot be judged for a custom prompt.
        """
        return self.plan.aliases(prompt.instance, None if prompt.row_id is not None else sorted(self.aligners))

    def get_judgement(self, place: Place, prompt: Prompt | None = None) -> Judgement | None:
        """Return the annotator's judgement at a place, or None.

        Args:
            place: The place.
            prompt: A custom prompt; by default the chosen sentence.

        Returns:
            The judgement; None also if no sentence is chosen.
        """
        if prompt is None and self.get_choice(place.instance) is None:
            return None
        actual_prompt = prompt or self.build_prompt(place)
        item = (
            actual_prompt.text if actual_prompt.row_id is None else actual_prompt.row_id,
            actual_prompt.row_id is None,
        )
        model = self.aliases(actual_prompt)[place.alias or ""]
        return self.answers.get_judgement(self.plan.annotator, (self.plan.instances[place.instance].key, *item, model))

    def judge(self, alias: str, prompt: Prompt, points: Sequence[int], seconds: float) -> None:
        """Write a judgement.

        Args:
            alias: The alias of the model.
            prompt: The prompt.
            points: Recall, precision and intuitiveness, each 1 to 5.
            seconds: The time from the heatmap to the answer.

        Raises:
            InputError: The plan has no such instance or model, or the points are not three from 1 to 5.
            OSError: The disk failed.
        """
        instance = self._get_instance(prompt.instance)
        names = self.aliases(prompt)
        if alias not in names:
            raise InputError("model", f"{alias!r:.100} is not judged here", expected=f"one of {', '.join(names)}")
        if len(points) != len(QUESTIONS) or any(type(point) is not int or point not in POINTS for point in points):
            expected = f"{len(QUESTIONS)} whole numbers from {POINTS[0]} to {POINTS[-1]}"
            raise InputError("points", f"are {points!r:.100}", expected=expected)
        model = names[alias]
        recall, precision, intuitiveness = points
        judgement = Judgement(
            annotator=self.plan.annotator,
            instance=instance.key,
            patient_id=instance.patient_id,
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
            version=_get_version(),
        )
        self.answers.judge(judgement)

    def plain(self, instance: int) -> Image.Image:
        """Render the image alone, as displayed before a sentence is chosen.

        Args:
            instance: The index of the instance.

        Returns:
            The picture (`overlay.picture`).

        Raises:
            MedfaithError: The image cannot be read.
        """
        return picture(self._opened(instance))

    def show(self, alias: str, prompt: Prompt, boxes: bool) -> Shown:
        """Render one model's heatmap.

        Args:
            alias: The alias of the model.
            prompt: The prompt.
            boxes: Whether to draw the boxes of the report sentence.

        Returns:
            The image, the image with the heatmap, and the share of attention to nowhere.

        Raises:
            MedfaithError: The image or the heatmap cannot be read, or they have different sizes.
        """
        model, instance = self.aliases(prompt)[alias], self.plan.instances[prompt.instance]
        if prompt.row_id is None:
            attention, geometry = self._aligned(model, prompt.instance, prompt.text)
        else:
            attention, geometry = self._read_heatmap(instance, self.heatmaps[model][prompt.row_id])
        plain = self.plain(prompt.instance)
        pictures = [plain, overlay(plain, attention, geometry)]
        if boxes:
            pictures = [draw_boxes(rendered, prompt.boxes, instance.size) for rendered in pictures]
        image, heatmap = pictures
        return Shown(image, heatmap, nowhere(attention))

    def _get_instance(self, instance: int) -> Instance:
        _require_index(instance, len(self.plan.instances), "image")
        return self.plan.instances[instance]

    def _list_pending_aliases(self, instance: int) -> list[str]:
        names = self.plan.aliases(instance)
        return [name for name in names if self.get_judgement(Place(instance, name)) is None]

    def _read_heatmap(self, instance: Instance, answer: Answer) -> tuple[np.ndarray, Geometry]:
        entry = self.store.read(answer.heatmaps or "", answer.id)
        if TASK.map_name not in entry.maps or tuple(entry.geometry.size) != instance.size:
            problem = f"no {TASK.map_name} on an image of {instance.size[1]} x {instance.size[0]} pixels"
            raise InputError(self.store.folder, problem, row=answer.id, action="run the model again on this data")
        return entry.maps[TASK.map_name], entry.geometry

    def _align(self, model: str, instance: int, text: str) -> tuple[np.ndarray, Geometry]:
        image_id = self.plan.instances[instance].image["key"]
        (aligned,) = self.aligners[model].align([self._opened(instance)], [text], [image_id])
        if not np.isfinite(aligned.attention).all():
            raise MedfaithError(f"{model} gives attention that is no number: its weights are broken")
        return aligned.attention, aligned.geometry

    def _open(self, instance: int) -> Image.Image:
        planned = self.plan.instances[instance]
        image = open_image(planned.image, self.roots)
        if (image.height, image.width) != planned.size:
            found_size, expected = (f"{w} x {h} pixels" for h, w in ((image.height, image.width), planned.size))
            action = "use the source's original images: the boxes are in their pixels"
            raise InputError(planned.key, found_size, expected=f"{expected}, as its rows say", action=action)
        return image


def clip_instance(position: float | None, n: int) -> int:
    """Return the index of the image with a number; an unknown number is the nearest one, and NaN the first.

    Args:
        position: The number, from 1; None for the first image.
        n: The number of images.

    Returns:
        The index, from 0.
    """
    return int(min(max(position or 1, 1), n)) - 1 if position == position else 0  # noqa: PLR0124 (NaN)


def _require_index(index: int, n: int, name: str) -> None:
    """Raise InputError for anything but an index below n. A negative one would count from the end."""
    if type(index) is not int or not 0 <= index < n:
        raise InputError(name, f"{index!r:.100} is unknown", expected=f"a whole number from 0 to {n - 1}")


def _get_version() -> str:
    return importlib.metadata.version("medfaith")
