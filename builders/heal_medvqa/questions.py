"""Two to five questions an image (HEAL-MedVQA, section 3.2), closed and open.

An image with relations gets n questions, n from 2 to 5 by its hash, in this order as far as it has them: a positive, a
hallucinated, an abnormal, a second positive, a normal one. Images without relations are taken, in hash order, until the
split has as many hallucinated questions as positive ones (so that "No" and "Yes" are balanced, as far as there are such
images); each gets a hallucinated and a normal one, and the images beyond that are left out.

A hallucinated question asks for a pair that holds elsewhere in the split, and whose disease has no box that touches the
anatomy here. It is drawn as often as it holds in the split: were rare pairs asked for as absent as often as common
ones, the pair alone would tell the answer. A normal question is about an anatomy that no box touches. UNASKED classes
name no disease that a question could ask for: they are in no question and no answer, but an anatomy that they touch is
not normal.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ..hashing import pick, shuffled, weighted_pick
from .relations import Pair, Scene
from .wording import closed_question, open_answer, open_question, templates

UNASKED = ("Other lesion",)
MOST = 5
FEWEST = 2


class Asked(NamedTuple):
    """What a question asks: of the scene of this number; disease: of a closed question."""

    scene: int
    kind: str
    anatomy: str
    disease: str | None = None


def slug(name: str) -> str:
    """A name as ids have it.

    >>> slug("Nodule/Mass"), slug("left lower lung")
    ('nodule-mass', 'left-lower-lung')
    """
    return name.lower().replace(" ", "-").replace("/", "-")


def cooccurring(scenes: Sequence[Scene]) -> Counter[Pair]:
    """The pairs of anatomy and disease that hold in some image, logical to ask for (section 3.1), and how often."""
    return Counter(pair for scene in scenes for pair in scene.related if pair[1] not in UNASKED)


def asked_pairs(scene: Scene) -> list[Pair]:
    """The relations of an image that questions may be about, in alphabetical order."""
    return [pair for pair in scene.related if pair[1] not in UNASKED]


def plausible_absences(scene: Scene, logical: Collection[Pair]) -> list[Pair]:
    """Logical pairs that do not hold in this image, whose anatomy it has, in alphabetical order."""
    return sorted(pair for pair in logical if pair[0] in scene.regions and pair not in scene.touched)


@dataclass(frozen=True, slots=True)
class Questions:
    """The questions of one split, in the order of the images.

    Their rows are made when they are read: those of all of MIMIC-CXR would take gigabytes.
    """

    scenes: Sequence[Scene]
    config: str
    split: str
    seed: int
    asked: Sequence[Asked]

    def __len__(self) -> int:
        return len(self.asked)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return map(self.row, self.asked)

    def positive(self) -> Iterator[Asked]:
        """Those that are answered Yes."""
        return (one for one in self.asked if one.kind == "positive")

    def id(self, one: Asked) -> str:
        """The id of its row."""
        named = slug(one.anatomy) if one.disease is None else f"{slug(one.anatomy)}/{slug(one.disease)}"
        return f"{_name(self.scenes[one.scene], self.config, self.split)}/{one.kind}/{named}"

    def template(self, one: Asked) -> str:
        """The id of the text that its words are put into."""
        names = list(templates()["open" if one.disease is None else "closed"])
        return names[pick(f"{self.id(one)}/template", len(names), self.seed)]

    def row(self, one: Asked) -> dict[str, Any]:
        """Its row in the schema QUESTION."""
        scene, template = self.scenes[one.scene], self.template(one)
        if one.disease is None:
            diseases = [disease for anatomy, disease in asked_pairs(scene) if anatomy == one.anatomy]
            question, answer = open_question(template, one.anatomy), open_answer(one.anatomy, diseases)
        else:
            diseases = [one.disease]
            question = closed_question(template, one.anatomy, one.disease)
            answer = "Yes" if one.kind == "positive" else "No"
        boxes = scene.picture.boxes
        shown = sorted({box for disease in diseases for box in scene.related.get((one.anatomy, disease), ())})
        return {
            "id": self.id(one),
            "image": reference(scene),
            "width": scene.width,
            "height": scene.height,
            "anatomy": one.anatomy,
            "question": question,
            "answer": answer,
            "kind": one.kind,
            "question_type": "open" if one.disease is None else "closed",
            "diseases": diseases,
            "region": scene.regions[one.anatomy],
            "boxes": [{"label": boxes.labels[box], "xywh": boxes.xywh[box].tolist()} for box in shown],
            "template": template,
        }


def questions(scenes: Sequence[Scene], config: str, split: str, *, seed: int) -> Questions:
    """The questions of one split."""
    logical = cooccurring(scenes)
    of_image: dict[int, list[Asked]] = {}
    wanting = 0
    for number, scene in enumerate(scenes):
        if asked_pairs(scene):
            plan = _with_relations(scene, number, logical, _name(scene, config, split), seed)
            if len(plan) >= FEWEST:
                of_image[number] = plan
                wanting += sum((one.kind == "positive") - (one.kind == "hallucinated") for one in plan)
    without = {scene.picture.image_id: number for number, scene in enumerate(scenes) if not scene.related}
    for image_id in shuffled(without, f"{config}/{split}/without relations", seed):
        if wanting <= 0:
            break
        number = without[image_id]
        plan = _without_relations(scenes[number], number, logical, _name(scenes[number], config, split), seed)
        if len(plan) >= FEWEST:
            of_image[number] = plan
            wanting -= 1
    return Questions(scenes, config, split, seed, [one for number in sorted(of_image) for one in of_image[number]])


def _name(scene: Scene, config: str, split: str) -> str:
    """Where the ids of an image's questions begin."""
    return f"{config}/{split}/{scene.picture.image_id}"


def _with_relations(scene: Scene, number: int, logical: Mapping[Pair, int], name: str, seed: int) -> list[Asked]:
    present = shuffled(asked_pairs(scene), f"{name}/positive", seed)
    abnormal = shuffled({anatomy for anatomy, _ in present}, f"{name}/abnormal", seed)
    plan = [
        *(Asked(number, "positive", *pair) for pair in present[:1]),
        *(Asked(number, "hallucinated", *pair) for pair in _absent(scene, logical, name, seed)),
        *(Asked(number, "abnormal", anatomy) for anatomy in abnormal[:1]),
        *(Asked(number, "positive", *pair) for pair in present[1:2]),
        *(Asked(number, "normal", anatomy) for anatomy in _normal(scene, name, seed)),
    ]
    return plan[: FEWEST + pick(f"{name}/count", MOST - FEWEST + 1, seed)]


def _without_relations(scene: Scene, number: int, logical: Mapping[Pair, int], name: str, seed: int) -> list[Asked]:
    return [
        *(Asked(number, "hallucinated", *pair) for pair in _absent(scene, logical, name, seed)),
        *(Asked(number, "normal", anatomy) for anatomy in _normal(scene, name, seed)),
    ]


def _absent(scene: Scene, logical: Mapping[Pair, int], name: str, seed: int) -> list[Pair]:
    pairs = {pair: logical[pair] for pair in plausible_absences(scene, logical)}
    return [weighted_pick(pairs, f"{name}/hallucinated", seed)] if pairs else []


def _normal(scene: Scene, name: str, seed: int) -> list[str]:
    touched = {anatomy for anatomy, _ in scene.touched}
    return shuffled(set(scene.regions) - touched, f"{name}/normal", seed)[:1]


def reference(scene: Scene) -> dict[str, str]:
    """The image as an ImageRef."""
    return {"source": scene.picture.source, "key": scene.picture.key, "view": scene.picture.view}
