"""Two to five questions per image (HEAL-MedVQA, section 3.2), closed and open.

An image with relations gets n questions; its hash gives n from 2 to 5. They come in this order, as far as the image has
them: a positive, a hallucinated, an abnormal, a second positive, a normal one. Images without relations are added in
hash order until the split has as many hallucinated questions as positive ones, so that "No" and "Yes" are balanced if
there are enough such images. Each gets a hallucinated and a normal question. The other images are left out.

A hallucinated question asks for a pair that holds in another image of the split, and whose disease has no box that
touches the anatomy in this image. Each pair is chosen in proportion to its frequency in the split. If rare pairs were
asked for as absent as often as common ones, the pair alone would reveal the answer. A normal question is about an
anatomy that no box touches. UNASKED classes do not name a specific disease, so they are in no question and no answer,
but an anatomy that they touch is not normal.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ..hashing import pick, pick_weighted, shuffled
from .relations import Pair, Scene
from .wording import format_closed_question, format_open_answer, format_open_question, templates

UNASKED = ("Other lesion",)
MOST = 5
FEWEST = 2


class QuestionKey(NamedTuple):
    """What identifies a question.

    Attributes:
        scene: The index of the scene.
        kind: positive, hallucinated, abnormal or normal.
        anatomy: The anatomy.
        disease: The disease of a closed question; None for an open question.
    """

    scene: int
    kind: str
    anatomy: str
    disease: str | None = None


def slug(name: str) -> str:
    """Format a name for ids.

    Args:
        name: The name of a class or an anatomy.

    Returns:
        The part of the id.

    >>> slug("Nodule/Mass"), slug("left lower lung")
    ('nodule-mass', 'left-lower-lung')
    """
    return name.lower().replace(" ", "-").replace("/", "-")


def count_cooccurring(scenes: Sequence[Scene]) -> Counter[Pair]:
    """Count the pairs of anatomy and disease that hold in some image, which are logical to ask for (section 3.1).

    Args:
        scenes: The images of a split.

    Returns:
        The number of images of each pair.
    """
    return Counter(pair for scene in scenes for pair in scene.related if pair[1] not in UNASKED)


def list_asked_pairs(scene: Scene) -> list[Pair]:
    """List the pairs of anatomy and disease that hold in an image, except for diseases that are never asked (UNASKED).

    Args:
        scene: The image.

    Returns:
        The pairs, in alphabetical order.
    """
    return [pair for pair in scene.related if pair[1] not in UNASKED]


def list_plausible_absences(scene: Scene, logical: Collection[Pair]) -> list[Pair]:
    """List the logical pairs that do not hold in an image but whose anatomy it has.

    Args:
        scene: The image.
        logical: The pairs that hold in some image of the split.

    Returns:
        The pairs, in alphabetical order.
    """
    return sorted(pair for pair in logical if pair[0] in scene.regions and pair not in scene.touched)


@dataclass(frozen=True, slots=True)
class Questions:
    """The questions of one split, in the order of the images.

    Rows are built when they are read, because the rows of all of MIMIC-CXR would need gigabytes.

    Attributes:
        scenes: The images.
        config: The name of the config.
        split: The name of the split.
        seed: The seed of the build.
        keys: The questions.
    """

    scenes: Sequence[Scene]
    config: str
    split: str
    seed: int
    keys: Sequence[QuestionKey]

    def __len__(self) -> int:
        return len(self.keys)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return map(self.build_row, self.keys)

    def iterate_positive(self) -> Iterator[QuestionKey]:
        """Iterate over the questions with the answer Yes.

        Returns:
            The questions.
        """
        return (key for key in self.keys if key.kind == "positive")

    def format_id(self, key: QuestionKey) -> str:
        """Format the id of a question's row.

        Args:
            key: The question.

        Returns:
            The id.
        """
        suffix = slug(key.anatomy) if key.disease is None else f"{slug(key.anatomy)}/{slug(key.disease)}"
        return f"{_format_id_prefix(self.scenes[key.scene], self.config, self.split)}/{key.kind}/{suffix}"

    def choose_template(self, key: QuestionKey) -> str:
        """Choose the template of a question.

        Args:
            key: The question.

        Returns:
            The id of the template.
        """
        names = list(templates()["open" if key.disease is None else "closed"])
        return names[pick(f"{self.format_id(key)}/template", len(names), self.seed)]

    def build_row(self, key: QuestionKey) -> dict[str, Any]:
        """Build the row of a question.

        Args:
            key: The question.

        Returns:
            A row in the schema QUESTION.
        """
        scene, template = self.scenes[key.scene], self.choose_template(key)
        if key.disease is None:
            diseases = [disease for anatomy, disease in list_asked_pairs(scene) if anatomy == key.anatomy]
            question, answer = format_open_question(template, key.anatomy), format_open_answer(key.anatomy, diseases)
        else:
            diseases = [key.disease]
            question = format_closed_question(template, key.anatomy, key.disease)
            answer = "Yes" if key.kind == "positive" else "No"
        boxes = scene.picture.boxes
        box_indices = sorted({box for disease in diseases for box in scene.related.get((key.anatomy, disease), ())})
        return {
            "id": self.format_id(key),
            "image": build_reference(scene),
            "width": scene.width,
            "height": scene.height,
            "anatomy": key.anatomy,
            "question": question,
            "answer": answer,
            "kind": key.kind,
            "question_type": "open" if key.disease is None else "closed",
            "diseases": diseases,
            "region": scene.regions[key.anatomy],
            "boxes": [{"label": boxes.labels[box], "xywh": boxes.xywh[box].tolist()} for box in box_indices],
            "template": template,
        }


def questions(scenes: Sequence[Scene], config: str, split: str, *, seed: int) -> Questions:
    """Choose the questions of one split by hash: FEWEST to MOST for each image in which a pair holds.

    Images without any pair then get an absent disease and a normal anatomy, until there are as many hallucinated
    questions as positive ones.

    Args:
        scenes: The images.
        config: The name of the config.
        split: The name of the split.
        seed: The seed of the build.

    Returns:
        The questions.
    """
    logical = count_cooccurring(scenes)
    keys_by_image: dict[int, list[QuestionKey]] = {}
    n_missing = 0
    for number, scene in enumerate(scenes):
        if list_asked_pairs(scene):
            plan = _choose_related(scene, number, logical, _format_id_prefix(scene, config, split), seed)
            if len(plan) >= FEWEST:
                keys_by_image[number] = plan
                n_missing += sum((key.kind == "positive") - (key.kind == "hallucinated") for key in plan)
    unrelated = {scene.picture.image_id: number for number, scene in enumerate(scenes) if not scene.related}
    for image_id in shuffled(unrelated, f"{config}/{split}/without relations", seed):
        if n_missing <= 0:
            break
        number = unrelated[image_id]
        plan = _choose_unrelated(
            scenes[number], number, logical, _format_id_prefix(scenes[number], config, split), seed
        )
        if len(plan) >= FEWEST:
            keys_by_image[number] = plan
            n_missing -= 1
    return Questions(
        scenes, config, split, seed, [key for number in sorted(keys_by_image) for key in keys_by_image[number]]
    )


def _format_id_prefix(scene: Scene, config: str, split: str) -> str:
    """Format the prefix of the ids of an image's questions."""
    return f"{config}/{split}/{scene.picture.image_id}"


def _choose_related(scene: Scene, number: int, logical: Mapping[Pair, int], name: str, seed: int) -> list[QuestionKey]:
    present = shuffled(list_asked_pairs(scene), f"{name}/positive", seed)
    abnormal = shuffled({anatomy for anatomy, _ in present}, f"{name}/abnormal", seed)
    plan = [
        *(QuestionKey(number, "positive", *pair) for pair in present[:1]),
        *(QuestionKey(number, "hallucinated", *pair) for pair in _choose_absent(scene, logical, name, seed)),
        *(QuestionKey(number, "abnormal", anatomy) for anatomy in abnormal[:1]),
        *(QuestionKey(number, "positive", *pair) for pair in present[1:2]),
        *(QuestionKey(number, "normal", anatomy) for anatomy in _choose_normal(scene, name, seed)),
    ]
    return plan[: FEWEST + pick(f"{name}/count", MOST - FEWEST + 1, seed)]


def _choose_unrelated(
    scene: Scene, number: int, logical: Mapping[Pair, int], name: str, seed: int
) -> list[QuestionKey]:
    return [
        *(QuestionKey(number, "hallucinated", *pair) for pair in _choose_absent(scene, logical, name, seed)),
        *(QuestionKey(number, "normal", anatomy) for anatomy in _choose_normal(scene, name, seed)),
    ]


def _choose_absent(scene: Scene, logical: Mapping[Pair, int], name: str, seed: int) -> list[Pair]:
    pairs = {pair: logical[pair] for pair in list_plausible_absences(scene, logical)}
    return [pick_weighted(pairs, f"{name}/hallucinated", seed)] if pairs else []


def _choose_normal(scene: Scene, name: str, seed: int) -> list[str]:
    touched = {anatomy for anatomy, _ in scene.touched}
    return shuffled(set(scene.regions) - touched, f"{name}/normal", seed)[:1]


def build_reference(scene: Scene) -> dict[str, str]:
    """Build the ImageRef of a scene's image.

    Args:
        scene: The image.

    Returns:
        The ImageRef.
    """
    return {"source": scene.picture.source, "key": scene.picture.key, "view": scene.picture.view}
