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
from typing import Any

import numpy as np

from ..hashing import pick, weighted_pick
from .questions import cooccurring, mask, plausible_absences, reference
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
    donors: dict[str, _Donors] = {}
    pairs = []
    for row in _positive(rows):
        scene, anatomy = _scene(row, of_image), row["anatomy"]
        if anatomy not in donors:
            in_order = sorted(scenes, key=lambda s: s.picture.image_id)  # equally near ones, whatever the file's order
            donors[anatomy] = _Donors([s for s in in_order if anatomy in s.regions], anatomy, donor_diagnosis)
        row_id = f"{row['id']}/region"
        donor = donors[anatomy].choose(scene, row["diseases"][0], row_id, seed)
        if donor is not None:
            pairs.append(
                {
                    "id": row_id,
                    "original_id": row["id"],
                    "region": row["region"],
                    "donor": reference(donor),
                    "donor_region": mask(donor.regions[anatomy]),
                    "donor_diseases": sorted(donor.picture.diseases),
                }
            )
    return pairs


def _positive(rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [row for row in rows if row["kind"] == "positive"]


def _scene(row: Mapping[str, Any], of_image: Mapping[tuple[str, str], Scene]) -> Scene:
    return of_image[row["image"]["source"], row["image"]["key"]]


class _Donors:
    """All images with one anatomy, as arrays over them: a search over 15,000 images takes a millisecond."""

    def __init__(self, scenes: Sequence[Scene], anatomy: str, donor_diagnosis: str) -> None:
        self._scenes, self._anatomy = scenes, anatomy
        self._extents = np.log([scene.extents[anatomy] for scene in scenes])
        self._patients = np.array([scene.picture.patient for scene in scenes])
        self._views = np.array([scene.picture.view for scene in scenes])
        touching = [{disease for of_anatomy, disease in scene.touched if of_anatomy == anatomy} for scene in scenes]
        self._clean = np.array([not diseases for diseases in touching])
        barred = touching if donor_diagnosis == "region" else [scene.picture.diseases for scene in scenes]
        known = set().union(*barred)
        self._free = {disease: np.array([disease not in diseases for diseases in barred]) for disease in known}

    def choose(self, scene: Scene, disease: str, row_id: str, seed: int) -> Scene | None:
        eligible = (self._patients != scene.picture.patient) & self._free.get(disease, True)
        for preferred in (self._clean, self._views == scene.picture.view):
            eligible = eligible & preferred if (eligible & preferred).any() else eligible
        candidates = np.flatnonzero(eligible)
        if not candidates.size:
            return None
        distance = np.abs(self._extents[candidates] - np.log(scene.extents[self._anatomy])).sum(1)
        nearest = candidates[np.argsort(distance, kind="stable")[:NEAREST]]
        return self._scenes[int(nearest[pick(row_id, nearest.size, seed)])]
