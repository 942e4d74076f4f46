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

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np
from scipy.spatial import KDTree

from ...loaders.progress import Progress
from ..hashing import pick, weighted_pick
from .questions import Mask, cooccurring, plausible_absences, reference
from .relations import Scene
from .wording import closed_question

NEAREST = 8
DONOR_DIAGNOSES = ("image", "region")


def tpt(rows: Sequence[Mapping[str, Any]], scenes: Sequence[Scene], *, seed: int) -> list[dict[str, Any]]:
    """One anatomy swap and one disease swap a positive question, in the schema TPT; none where nothing is logical.

    rows: what `questions` made of `scenes`.
    """
    logical = cooccurring(scenes)
    of_image = {(s.picture.source, s.picture.key): s for s in scenes}
    swaps = []
    for row in _positive(rows):
        absences = plausible_absences(_scene(row, of_image), logical)
        anatomy, disease = row["anatomy"], row["diseases"][0]
        for kind, pairs in (
            ("anatomy", [pair for pair in absences if pair[1] == disease]),
            ("disease", [pair for pair in absences if pair[0] == anatomy]),
        ):
            if not pairs:
                continue
            row_id = f"{row['id']}/{kind}"
            new = weighted_pick({pair: logical[pair] for pair in pairs}, row_id, seed)
            swaps.append(
                {
                    "id": row_id,
                    "original_id": row["id"],
                    "kind": kind,
                    "question": closed_question(row["template"], *new),
                    "anatomy": new[0],
                    "disease": new[1],
                    "template": row["template"],
                }
            )
    return swaps


def vpt(
    rows: Sequence[Mapping[str, Any]], scenes: Sequence[Scene], *, seed: int, donor_diagnosis: str = "image"
) -> list[dict[str, Any]]:
    """One donor region a positive question, in the schema VPT; none where no image can lend one.

    donor_diagnosis: where a donor must be free of the question's disease, one of DONOR_DIAGNOSES.
    """
    of_image = {(s.picture.source, s.picture.key): s for s in scenes}
    in_order = sorted(scenes, key=lambda s: s.picture.image_id)  # equally near ones, whatever the file's order
    asked: dict[str, list[int]] = {}
    positive = _positive(rows)
    for number, row in enumerate(positive):
        asked.setdefault(row["anatomy"], []).append(number)
    pairs: dict[int, dict[str, Any]] = {}
    with Progress(title="searching donors", total=len(positive), unit="questions") as bar:
        for anatomy, numbers in asked.items():  # one after another, so that the donors of one alone are in memory
            donors = Donors([s for s in in_order if anatomy in s.regions], anatomy, donor_diagnosis)
            for number in sorted(numbers, key=lambda n: positive[n]["diseases"][0]):
                row = positive[number]
                row_id = f"{row['id']}/region"
                donor = donors.choose(_scene(row, of_image), row["diseases"][0], row_id, seed)
                if donor is not None:
                    pairs[number] = {
                        "id": row_id,
                        "original_id": row["id"],
                        "region": row["region"],
                        "donor": reference(donor),
                        "donor_region": Mask(donor.regions, anatomy),
                        "donor_diseases": sorted(donor.picture.diseases),
                    }
                bar.update()
    return [pairs[number] for number in sorted(pairs)]


def _positive(rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [row for row in rows if row["kind"] == "positive"]


def _scene(row: Mapping[str, Any], of_image: Mapping[tuple[str, str], Scene]) -> Scene:
    return of_image[row["image"]["source"], row["image"]["key"]]


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
