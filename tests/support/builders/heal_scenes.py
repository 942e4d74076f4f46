"""Synthetic HEAL-MedVQA scenes for the tests; no files are read."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from medfaith.builders.heal_medvqa.relations import Boxes, Pair, Picture, Scene
from medfaith.loaders import rle

# Splits are slow to draw; each has many images.
FEW = settings(suppress_health_check=[HealthCheck.too_slow])
ANATOMIES = ("aorta", "heart", "left lower lung", "right upper lung")
DISEASES = ("Calcification", "Edema", "Nodule/Mass", "Other lesion")
REGION = rle.encode(np.ones((2, 2), dtype=bool))


def make_scene(
    name: str,
    related: Collection[Pair] = (),
    touched: Collection[Pair] = (),
    *,
    anatomies: Collection[str] = ANATOMIES,
    patient: str = "",
    view: str = "frontal",
    extents: Mapping[str, tuple[float, float]] | None = None,
) -> Scene:
    """Build an image with one box per relation; `touched` holds the pairs that only a single reader's boxes touch."""
    pairs = sorted(related)
    boxes, contested = (
        Boxes(tuple(disease for _, disease in some_pairs), np.tile([0.0, 0.0, 1.0, 1.0], (len(some_pairs), 1)))
        for some_pairs in (pairs, sorted(touched))
    )
    return Scene(
        Picture(name, "vindr_cxr", f"train/{name}.dicom", view, patient or name, None, boxes, (), contested),
        2,
        2,
        dict.fromkeys(anatomies, REGION),
        dict.fromkeys(anatomies, (0.5, 0.5)) | dict(extents or {}),
        {pair: (number,) for number, pair in enumerate(pairs)},
        frozenset({*related, *touched}),
    )


@st.composite
def draw_split(draw: st.DrawFn) -> list[Scene]:
    """Draw the scenes of one split: some without relations, some with touches only, some without all anatomies."""
    scenes = []
    for number in range(draw(st.integers(0, 12))):
        anatomies = draw(st.lists(st.sampled_from(ANATOMIES), min_size=1, max_size=len(ANATOMIES), unique=True))
        pairs = st.sampled_from([(anatomy, disease) for anatomy in anatomies for disease in DISEASES])
        related = draw(st.one_of(st.just([]), st.lists(pairs, max_size=5)))
        touched = draw(st.one_of(st.just([]), st.lists(pairs, max_size=3)))
        patient = draw(st.sampled_from(("", "one", "two")))
        view = draw(st.sampled_from(("AP", "PA")))
        share = st.sampled_from((0.1, 0.2, 0.25, 0.5))
        extents = {anatomy: (draw(share), draw(share)) for anatomy in anatomies}
        scenes.append(
            make_scene(f"i{number}", related, touched, anatomies=anatomies, patient=patient, view=view, extents=extents)
        )
    return scenes
