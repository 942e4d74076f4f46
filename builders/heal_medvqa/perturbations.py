"""The perturbed partners of positive questions (HEAL-MedVQA, section 3.1): TPT changes the text, VPT the image.

TPT replaces the anatomy or the disease. The new pair must be logical (it holds in another image of the split), and no
box of the disease may touch the anatomy in this image. Among several such pairs a hash chooses in proportion to their
frequency, so that a swapped pair is as common as the original.

VPT takes a donor region of the same anatomy from another patient's image of the split "that does not share the same
diagnosis". A closed question names one disease, which is the diagnosis here. The donor image does not have the disease
anywhere (`image`), or no box of it touches the anatomy in the donor image (`region`). Both images may have other
diseases in common, because almost every pair of images with diseases shares one. Donors without a box at the anatomy
are preferred ("a healthy localized anatomy", section 5), then donors with the same view. Among the remaining ones a
hash chooses one of the NEAREST donors by size, so that no single image lends all regions. Size is the region's bounding
box as shares of the image, in logarithms.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np
from scipy.spatial import KDTree

from ...loaders.progress import Progress
from ..hashing import pick, pick_weighted
from .questions import QuestionKey, Questions, build_reference, count_cooccurring, list_plausible_absences
from .relations import Scene
from .wording import format_closed_question

NEAREST = 8
DONOR_DIAGNOSES = ("image", "region")


def tpt(questions: Questions) -> Iterator[dict[str, Any]]:
    """Build one anatomy swap and one disease swap per positive question, if there is a logical pair.

    Args:
        questions: The questions of a split.

    Yields:
        Rows in the schema TPT.
    """
    logical = count_cooccurring(questions.scenes)
    for key in questions.iterate_positive():
        absences = list_plausible_absences(questions.scenes[key.scene], logical)
        original, template = questions.format_id(key), questions.choose_template(key)
        for kind, pairs in (
            ("anatomy", [pair for pair in absences if pair[1] == key.disease]),
            ("disease", [pair for pair in absences if pair[0] == key.anatomy]),
        ):
            if not pairs:
                continue
            row_id = f"{original}/{kind}"
            anatomy, disease = pick_weighted({pair: logical[pair] for pair in pairs}, row_id, questions.seed)
            yield {
                "id": row_id,
                "original_id": original,
                "kind": kind,
                "question": format_closed_question(template, anatomy, disease),
                "anatomy": anatomy,
                "disease": disease,
                "template": template,
            }


def vpt(questions: Questions, donor_pairs: Iterable[tuple[QuestionKey, Scene]]) -> Iterator[dict[str, Any]]:
    """Build a row for each positive question with a donor: the region to replace, and the donor's image and region.

    Args:
        questions: The questions of a split.
        donor_pairs: The result of `donors`.

    Yields:
        Rows in the schema VPT.
    """
    for key, donor in donor_pairs:
        original = questions.format_id(key)
        yield {
            "id": _format_vpt_id(original),
            "original_id": original,
            "region": questions.scenes[key.scene].regions[key.anatomy],
            "donor": build_reference(donor),
            "donor_region": donor.regions[key.anatomy],
            "donor_diseases": sorted(donor.picture.diseases),
        }


def donors(questions: Questions, donor_diagnosis: str = "image") -> list[tuple[QuestionKey, Scene]]:
    """Choose a donor image of another patient for each positive question (`Donors.choose`).

    Args:
        questions: The questions of a split.
        donor_diagnosis: Where a donor must be free of the question's disease: one of DONOR_DIAGNOSES.

    Returns:
        The questions that have a donor, each with its donor.
    """
    scenes = questions.scenes
    sorted_scenes = sorted(
        scenes, key=lambda s: s.picture.image_id
    )  # the order among equally near donors does not depend on the file
    positive = list(questions.iterate_positive())
    numbers_by_anatomy: dict[str, list[int]] = {}
    for number, key in enumerate(positive):
        numbers_by_anatomy.setdefault(key.anatomy, []).append(number)
    donor_by_number: dict[int, Scene] = {}
    with Progress(title="searching donors", total=len(positive), unit="questions") as bar:
        for (
            anatomy,
            numbers,
        ) in numbers_by_anatomy.items():  # in turn, so that the donors of only one anatomy are in memory
            candidates = Donors([s for s in sorted_scenes if anatomy in s.regions], anatomy, donor_diagnosis)
            for number in sorted(numbers, key=lambda n: str(positive[n].disease)):
                key = positive[number]
                name = _format_vpt_id(questions.format_id(key))
                donor = candidates.choose(scenes[key.scene], str(key.disease), name, questions.seed)
                if donor is not None:
                    donor_by_number[number] = donor
                bar.update()
    return [(positive[number], donor_by_number[number]) for number in sorted(donor_by_number)]


def _format_vpt_id(question_id: str) -> str:
    """Format the id of a VPT row."""
    return f"{question_id}/region"


class Donors:
    """The images that have one anatomy, as candidates for donors. Their order decides between equally near images.

    Args:
        scenes: The images.
        anatomy: The anatomy.
        donor_diagnosis: Where a donor must be free of the question's disease: one of DONOR_DIAGNOSES.
    """

    def __init__(self, scenes: Sequence[Scene], anatomy: str, donor_diagnosis: str) -> None:
        self._scenes, self._anatomy = scenes, anatomy
        self._extents = np.log([scene.extents[anatomy] for scene in scenes])
        self._patients = [scene.picture.patient for scene in scenes]
        self._views = np.array([scene.picture.view for scene in scenes])
        touching_diseases = [
            {disease for touched_anatomy, disease in scene.touched if touched_anatomy == anatomy} for scene in scenes
        ]
        self._clean = np.array([not diseases for diseases in touching_diseases])
        self._barred = (
            touching_diseases if donor_diagnosis == "region" else [scene.picture.diseases for scene in scenes]
        )
        self._disease, self._groups = "", dict[tuple[bool, str | None], Places]()

    def choose(self, scene: Scene, disease: str, row_id: str, seed: int) -> Scene | None:
        """Choose the donor for one question: another patient's image without the disease.

        Images in which no disease touches the anatomy are preferred, then images of the same view. Of the NEAREST ones
        in the size of the anatomy, a hash of `row_id` chooses one. Only the groups of one disease are cached, so call
        this for one disease after another.

        Args:
            scene: The image of the question.
            disease: The disease of the question.
            row_id: The id of the VPT row.
            seed: The seed of the build.

        Returns:
            The donor image; None if no image qualifies.
        """
        if disease != self._disease:
            self._disease, self._groups = disease, {}
            self._free = np.array([disease not in diseases for diseases in self._barred], dtype=bool)
        extent = np.log(scene.extents[self._anatomy])
        for clean, view in ((True, scene.picture.view), (True, None), (False, scene.picture.view), (False, None)):
            if nearest := self._get_group(clean, view).find_nearest(extent, scene.picture.patient):
                return self._scenes[nearest[pick(row_id, len(nearest), seed)]]
        return None

    def _get_group(self, clean: bool, view: str | None) -> Places:
        """Get the images without the question's disease.

        Args:
            clean: Whether to get only images in which no disease touches the anatomy.
            view: The view of the images; None for any.

        Returns:
            The images, for a search by size.
        """
        if (clean, view) not in self._groups:
            is_member = self._free & self._clean if clean else self._free
            is_member = is_member & (self._views == view) if view is not None else is_member
            self._groups[clean, view] = Places(self._extents, np.flatnonzero(is_member), self._patients)
        return self._groups[clean, view]


class Places:
    """Images by the extent of their region. The time of a search hardly depends on the number of images.

    Args:
        extents: Logarithms of width and height of all images' regions: (n, 2).
        members: Indices of the images to search.
        patients: The patients of all images.
    """

    def __init__(self, extents: np.ndarray, members: np.ndarray, patients: Sequence[str]) -> None:
        self._patients = patients
        self._places, inverse = np.unique(extents[members].reshape(-1, 2), axis=0, return_inverse=True)
        inverse = inverse.ravel()
        order = np.argsort(inverse, kind="stable")
        self._members = members[order]
        self._starts = np.searchsorted(inverse[order], np.arange(len(self._places) + 1))
        self._tree = KDTree(self._places) if len(self._places) else None

    def find_nearest(self, extent: np.ndarray, patient: str) -> list[int]:
        """Find the NEAREST images of other patients. Among equally near images the first ones win.

        Args:
            extent: Logarithms of width and height of a region.
            patient: The patient to exclude.

        Returns:
            The indices of the images.
        """
        if self._tree is None:
            return []
        n = NEAREST
        while True:
            n = min(n, len(self._places))
            indices = np.atleast_1d(self._tree.query(extent, n, p=1)[1])
            distances = np.abs(self._places[indices] - extent).sum(1)
            ranked = sorted(
                (distance, image)
                for distance, number in zip(distances.tolist(), indices.tolist(), strict=True)
                for image in self._list_others(number, patient)
            )
            # Extents at the distance of the last one may be missing; the tree rounds its distances in another way.
            safe_distance = distances.max() * (1 - 1e-9)
            if n == len(self._places) or (len(ranked) >= NEAREST and ranked[NEAREST - 1][0] < safe_distance):
                return [image for _, image in ranked[:NEAREST]]
            n *= 2

    def _list_others(self, number: int, patient: str) -> list[int]:
        """List the first NEAREST images of other patients with one extent."""
        at_place = self._members[self._starts[number] : self._starts[number + 1]]
        return list(islice((int(i) for i in at_place if self._patients[i] != patient), NEAREST))
