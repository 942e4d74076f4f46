"""The texts that published rows consist of: those of NIH ChestX-ray14. Any other text would come from a source."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import chain

from ...loaders.anatomy_masks import ANATOMIES, WHOLE_LUNGS
from ...loaders.nih_cxr14 import VIEWS
from ...loaders.vindr_cxr import CLASSES
from ..write import Words
from . import nih
from .checks import ANSWERS, KINDS
from .questions import slug
from .relations import RELATED_READINGS
from .wording import format_closed_question, format_open_answer, format_open_question, templates

_ANATOMIES = frozenset((*ANATOMIES, *WHOLE_LUNGS))
_DISEASES = frozenset((*CLASSES, *nih.DISEASES))
# Column that build.json counts -> its values, for all sources.
COUNTED: Mapping[str, Words] = {
    "kind": frozenset(KINDS),
    "question_type": frozenset(KINDS.values()),
    "anatomy": _ANATOMIES,
    "diseases": _DISEASES,
}
COUNTED_TPT: Mapping[str, Words] = {
    "kind": frozenset(("anatomy", "disease")),
    "anatomy": _ANATOMIES,
    "disease": _DISEASES,
}
_IMAGE = r"\d{8}_\d{3}\.png"
_COUNTS = re.compile(r"[0-o]+")  # COCO's compressed run lengths


def vocabulary() -> Mapping[str, Words]:
    """List the allowed texts of questions and their perturbed partners.

    Returns:
        The texts, or a pattern that they match, by column or dotted path inside structs.
    """
    closed, opened = templates()["closed"], templates()["open"]
    pairs = [(anatomy, disease) for anatomy in nih.ANATOMIES for disease in nih.DISEASES]
    anatomies, diseases = ("|".join(map(slug, names)) for names in (nih.ANATOMIES, nih.DISEASES))
    question_id = rf"nih/{nih.SPLIT}/{_IMAGE}/(?:{'|'.join(KINDS)})/(?:{anatomies})(?:/(?:{diseases}))?"
    lists = "|".join(map(re.escape, nih.DISEASES))
    answers = "|".join(
        [*ANSWERS.values()]
        + [re.escape(format_open_answer(anatomy, [])) for anatomy in nih.ANATOMIES]
        + [
            re.escape(format_open_answer(anatomy, ["X"])).replace("X", rf"(?:{lists})(?:(?:, | and )(?:{lists}))*")
            for anatomy in nih.ANATOMIES
        ]
    )
    image = {"source": frozenset({nih.SOURCE}), "key": re.compile(f"images/{_IMAGE}"), "view": frozenset(VIEWS)}
    return {
        "id": re.compile(rf"{question_id}(?:/(?:anatomy|disease|region))?"),
        "original_id": re.compile(question_id),
        "kind": frozenset({*KINDS, "anatomy", "disease"}),
        "question_type": frozenset(KINDS.values()),
        "question": frozenset(
            [format_closed_question(template, *pair) for template in closed for pair in pairs]
            + [format_open_question(template, anatomy) for template in opened for anatomy in nih.ANATOMIES]
        ),
        "answer": re.compile(answers),
        "anatomy": frozenset(nih.ANATOMIES),
        "disease": frozenset(nih.DISEASES),
        "diseases": frozenset(nih.DISEASES),
        "donor_diseases": frozenset([*nih.NAMES.values(), *chain(*RELATED_READINGS.values())]),
        "boxes.label": frozenset(nih.DISEASES),
        "template": frozenset({*closed, *opened}),
        "region.counts": _COUNTS,
        "donor_region.counts": _COUNTS,
        **{f"{column}.{field}": allowed for column in ("image", "donor") for field, allowed in image.items()},
    }
