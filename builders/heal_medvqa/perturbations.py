"""The perturbed partners of positive questions (HEAL-MedVQA, section 3.1): TPT changes the text, VPT the image.

TPT: the anatomy or the disease is replaced so that the new pair is logical (it holds in another image of the split) and
has no box that touches its anatomy in this image; where several would do, a hash chooses, each as likely as it is
common, so that a swapped pair is no rarer than the original.

VPT: a donor region of the same anatomy comes from another patient's image of the split "that does not share the same
diagnosis". A closed question names one disease: that is the diagnosis here. The donor image does not have it anywhere
(`image`), or no box of it touches that anatomy there (`region`). Other diseases may be in both images: hardly a pair of
sick images shares none. Donors whose anatomy no box touches are preferred ("a healthy localized anatomy", section 5),
then those of the same view; of what is left, the NEAREST donors by size (of the region's box as shares of the image, in
logarithms) share the choice, by hash, so that no single image lends all regions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np
from scipy.spatial import KDTree

from ...loaders.progress import Progress
from ..hashing import pick, weighted_pick
from .questions import Asked, Questions, cooccurring, plausible_absences, reference
from .relations import Scene
from .wording import closed_question

NEAREST = 8
DONOR_DIAGNOSES = ("image", "region")


def tpt(questions: Questions) -> Iterator[dict[str, Any]]:
    """One anatomy swap and one disease swap a positive question, in the schema TPT; none where nothing is logical."""
    logical = cooccurring(questions.scenes)
    for one in questions.positive():
        absences = plausible_absences(questions.scenes[one.scene], logical)
        original, template = questions.id(one), questions.template(one)
        for kind, pairs in (
            ("anatomy", [pair for pair in absences if pair[1] == one.disease]),
            ("disease", [pair for pair in absences if pair[0] == one.anatomy]),
        ):
            if not pairs:
                continue
            row_id = f"{original}/{kind}"
            anatomy, disease = weighted_pick({pair: logical[pair] for pair in pairs}, row_id, questions.seed)
            yield {
                "id": row_id,
                "original_id": original,
                "kind": kind,
                "question": closed_question(template, anatomy, disease),
                "anatomy": anatomy,
                "disease": disease,
                "template": template,
            }


def vpt(questions: Questions, lent: Iterable[tuple[Asked, Scene]]) -> Iterator[dict[str, Any]]:
    """The rows of positive questions and their donors, in the schema VPT."""
    for one, donor in lent:
        original = questions.id(one)
        yield {
            "id": _lending(original),
            "original_id": original,
            "region": questions.scenes[one.scene].regions[one.anatomy],
            "donor": reference(donor),
            "donor_region": donor.regions[one.anatomy],
            "donor_diseases": sorted(donor.picture.diseases),
        }


def donors(questions: Questions, donor_diagnosis: str = "image") -> list[tuple[Asked, Scene]]:
    """The positive questions, each with the image that lends its region; without those for which no image can.

    donor_diagnosis: where a donor must be free of the question's disease, one of DONOR_DIAGNOSES.
    """
    scenes = questions.scenes
    in_order = sorted(scenes, key=lambda s: s.picture.image_id)  # equally near ones, whatever the file's order
    positive = list(questions.positive())
    of_anatomy: dict[str, list[int]] = {}
    for number, one in enumerate(positive):
        of_anatomy.setdefault(one.anatomy, []).append(number)
    lent: dict[int, Scene] = {}
    with Progress(title="searching donors", total=len(positive), unit="questions") as bar:
        for anatomy, numbers in of_anatomy.items():  # one after another, so that the donors of one alone are in memory
            there = Donors([s for s in in_order if anatomy in s.regions], anatomy, donor_diagnosis)
            for number in sorted(numbers, key=lambda n: str(positive[n].disease)):
                one = positive[number]
                name = _lending(questions.id(one))
                donor = there.choose(scenes[one.scene], str(one.disease), name, questions.seed)
                if donor is not None:
                    lent[number] = donor
                bar.update()
    return [(positive[number], lent[number]) for number in sorted(lent)]


def _lending(question_id: str) -> str:
    """The id of a VPT row."""
    return f"{question_id}/region"


class Donors:
    """The images with one anatomy, in the order that decides between equally near ones."""

    def __init__(self, scenes: Sequence[Scene], anatomy: str, donor_diagnosis: str) -> None:
        self._scenes, self._anatomy = scenes, anatomy
        self._extents = np.log([scene.extents[anatomy] for scene in scenes])
        self._patients = [scene.picture.patient for scene in scenes]
        self._views = np.array([scene.picture.view for scene in scenes])
        touching = [{disease for of_anatomy, disease in scene.touched if of_anatomy == anatomy} for scene in scenes]
        self._clean = np.array([not diseases for diseases in touching])
        self._barred = touching if donor_diagnosis == "region" else [scene.picture.diseases for scene in scenes]
        self._disease, self._groups = "", dict[tuple[bool, str | None], Places]()

    def choose(self, scene: Scene, disease: str, row_id: str, seed: int) -> Scene | None:
        """Ask for one disease after another: the groups of one alone are kept."""
        if disease != self._disease:
            self._disease, self._groups = disease, {}
            self._free = np.array([disease not in diseases for diseases in self._barred], dtype=bool)
        place = np.log(scene.extents[self._anatomy])
        for clean, view in ((True, scene.picture.view), (True, None), (False, scene.picture.view), (False, None)):
            if nearest := self._group(clean, view).nearest(place, scene.picture.patient):
                return self._scenes[nearest[pick(row_id, len(nearest), seed)]]
        return None

    def _group(self, clean: bool, view: str | None) -> Places:
        """Those without the disease; clean: with no disease there; view: of this view, of any where it is None."""
        if (clean, view) not in self._groups:
            inside = self._free & self._clean if clean else self._free
            inside = inside & (self._views == view) if view is not None else inside
            self._groups[clean, view] = Places(self._extents, np.flatnonzero(inside), self._patients)
        return self._groups[clean, view]


class Places:
    """Images by the extent of their region. One search takes the time of a few, however many there are."""

    def __init__(self, extents: np.ndarray, members: np.ndarray, patients: Sequence[str]) -> None:
        self._patients = patients
        self._places, inverse = np.unique(extents[members].reshape(-1, 2), axis=0, return_inverse=True)
        inverse = inverse.ravel()
        order = np.argsort(inverse, kind="stable")
        self._members = members[order]
        self._starts = np.searchsorted(inverse[order], np.arange(len(self._places) + 1))
        self._tree = KDTree(self._places) if len(self._places) else None

    def nearest(self, place: np.ndarray, patient: str) -> list[int]:
        """The NEAREST images of other patients, the first ones among equally near ones."""
        if self._tree is None:
            return []
        n = NEAREST
        while True:
            n = min(n, len(self._places))
            near = np.atleast_1d(self._tree.query(place, n, p=1)[1])
            distances = np.abs(self._places[near] - place).sum(1)
            found = sorted(
                (distance, image)
                for distance, number in zip(distances.tolist(), near.tolist(), strict=True)
                for image in self._others(number, patient)
            )
            # Places as far away as the last one may be missing; the tree's own distances are rounded otherwise.
            surely = distances.max() * (1 - 1e-9)
            if n == len(self._places) or (len(found) >= NEAREST and found[NEAREST - 1][0] < surely):
                return [image for _, image in found[:NEAREST]]
            n *= 2

    def _others(self, number: int, patient: str) -> list[int]:
        """The first NEAREST images of other patients at a place."""
        at_place = self._members[self._starts[number] : self._starts[number + 1]]
        return list(islice((int(i) for i in at_place if self._patients[i] != patient), NEAREST))
