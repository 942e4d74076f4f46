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
from typing import Any

from ..hashing import pick, shuffled, weighted_pick
from .relations import Pair, Scene
from .wording import closed_question, open_answer, open_question, templates

UNASKED = ("Other lesion",)
MOST = 5
FEWEST = 2


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


def questions(scenes: Sequence[Scene], config: str, split: str, *, seed: int) -> list[dict[str, Any]]:
    """The rows of one split in the schema QUESTION, in the order of the images."""
    logical = cooccurring(scenes)
    of_image: dict[int, list[dict[str, Any]]] = {}
    wanting = 0
    for number, scene in enumerate(scenes):
        if asked_pairs(scene):
            rows = list(_with_relations(scene, logical, f"{config}/{split}/{scene.picture.image_id}", seed))
            if len(rows) >= FEWEST:
                of_image[number] = rows
                wanting += sum((row["kind"] == "positive") - (row["kind"] == "hallucinated") for row in rows)
    without = {scene.picture.image_id: number for number, scene in enumerate(scenes) if not scene.related}
    for image_id in shuffled(without, f"{config}/{split}/without relations", seed):
        if wanting <= 0:
            break
        number = without[image_id]
        rows = list(_without_relations(scenes[number], logical, f"{config}/{split}/{image_id}", seed))
        if len(rows) >= FEWEST:
            of_image[number] = rows
            wanting -= 1
    return [row for number in sorted(of_image) for row in of_image[number]]


def _with_relations(scene: Scene, logical: Mapping[Pair, int], name: str, seed: int) -> Iterator[dict[str, Any]]:
    present = shuffled(asked_pairs(scene), f"{name}/positive", seed)
    abnormal = shuffled({anatomy for anatomy, _ in present}, f"{name}/abnormal", seed)
    plan = [
        *(_closed(scene, name, "positive", pair, seed) for pair in present[:1]),
        *(_closed(scene, name, "hallucinated", pair, seed) for pair in _absent(scene, logical, name, seed)),
        *(_open(scene, name, "abnormal", anatomy, seed) for anatomy in abnormal[:1]),
        *(_closed(scene, name, "positive", pair, seed) for pair in present[1:2]),
        *(_open(scene, name, "normal", anatomy, seed) for anatomy in _normal(scene, name, seed)),
    ]
    yield from plan[: FEWEST + pick(f"{name}/count", MOST - FEWEST + 1, seed)]


def _without_relations(scene: Scene, logical: Mapping[Pair, int], name: str, seed: int) -> Iterator[dict[str, Any]]:
    for pair in _absent(scene, logical, name, seed):
        yield _closed(scene, name, "hallucinated", pair, seed)
    for anatomy in _normal(scene, name, seed):
        yield _open(scene, name, "normal", anatomy, seed)


def _absent(scene: Scene, logical: Mapping[Pair, int], name: str, seed: int) -> list[Pair]:
    pairs = {pair: logical[pair] for pair in plausible_absences(scene, logical)}
    return [weighted_pick(pairs, f"{name}/hallucinated", seed)] if pairs else []


def _normal(scene: Scene, name: str, seed: int) -> list[str]:
    touched = {anatomy for anatomy, _ in scene.touched}
    return shuffled(set(scene.regions) - touched, f"{name}/normal", seed)[:1]


def _closed(scene: Scene, name: str, kind: str, pair: Pair, seed: int) -> dict[str, Any]:
    anatomy, disease = pair
    row_id = f"{name}/{kind}/{slug(anatomy)}/{slug(disease)}"
    template = _template("closed", row_id, seed)
    answer = "Yes" if kind == "positive" else "No"
    question = closed_question(template, anatomy, disease)
    return _row(scene, row_id, anatomy, question, answer, kind, "closed", [disease], template)


def _open(scene: Scene, name: str, kind: str, anatomy: str, seed: int) -> dict[str, Any]:
    diseases = [disease for of_anatomy, disease in asked_pairs(scene) if of_anatomy == anatomy]
    row_id = f"{name}/{kind}/{slug(anatomy)}"
    template = _template("open", row_id, seed)
    question, answer = open_question(template, anatomy), open_answer(anatomy, diseases)
    return _row(scene, row_id, anatomy, question, answer, kind, "open", diseases, template)


def _template(question_type: str, row_id: str, seed: int) -> str:
    names = list(templates()[question_type])
    return names[pick(f"{row_id}/template", len(names), seed)]


def _row(
    scene: Scene,
    row_id: str,
    anatomy: str,
    question: str,
    answer: str,
    kind: str,
    question_type: str,
    diseases: Sequence[str],
    template: str,
) -> dict[str, Any]:
    boxes = scene.picture.boxes
    shown = sorted({box for disease in diseases for box in scene.related.get((anatomy, disease), ())})
    return {
        "id": row_id,
        "image": reference(scene),
        "width": scene.width,
        "height": scene.height,
        "anatomy": anatomy,
        "question": question,
        "answer": answer,
        "kind": kind,
        "question_type": question_type,
        "diseases": list(diseases),
        "region": Mask(scene.regions, anatomy),
        "boxes": [{"label": boxes.labels[box], "xywh": boxes.xywh[box].tolist()} for box in shown],
        "template": template,
    }


def reference(scene: Scene) -> dict[str, str]:
    """The image as an ImageRef."""
    return {"source": scene.picture.source, "key": scene.picture.key, "view": scene.picture.view}


class Mask(Mapping[str, Any]):
    """The region of an anatomy as rows have it, a COCO RLE. It is read when it is asked for: many rows wait at once."""

    __slots__ = ("_anatomy", "_regions")

    def __init__(self, regions: Mapping[str, Mapping[str, Any]], anatomy: str) -> None:
        self._regions, self._anatomy = regions, anatomy

    def read(self) -> dict[str, Any]:
        """Size and counts."""
        region = self._regions[self._anatomy]
        return {"size": list(region["size"]), "counts": region["counts"]}

    def __getitem__(self, name: str) -> Any:
        return self.read()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(("size", "counts"))

    def __len__(self) -> int:
        return 2
