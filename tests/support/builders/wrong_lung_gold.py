"""Synthetic gold sentences of Chest ImaGenome for the tests of That's the Wrong Lung!; no files are read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from medfaith.builders.wrong_lung.sentences import Sentence, sentences
from medfaith.loaders import mimic_cxr
from medfaith.loaders.chest_imagenome import GoldSentence, Mention

SIZE = (500, 400)  # height, width
# x1, y1, x2, y2; the patient's right is on the image's left.
ANATOMY = {
    "right lung": (20, 50, 179, 449),
    "left lung": (220, 50, 379, 449),
    "right upper lung zone": (20, 50, 179, 149),
    "left upper lung zone": (220, 50, 379, 149),
    "right costophrenic angle": (20, 400, 59, 449),
    "left costophrenic angle": (340, 400, 379, 449),
    "trachea": (190, 0, 209, 99),
}
LUNGS = ("left lung", "right lung")


def make_dicom_id(number: int) -> str:
    return f"{number:08x}" + "-00000000" * 4


def make_gold(
    number: int,
    text: str = "The lungs are clear.",
    names: Sequence[str] = LUNGS,
    *,
    study: int = 1,
    patient: int | None = None,
    conditions: Sequence[tuple[str, str]] = (("normal", "yes"),),
    boxes: Mapping[str, tuple[float, float, float, float]] = ANATOMY,
) -> GoldSentence:
    """Build the sentence `number` of a study whose image shows ANATOMY; all `names` have every condition."""
    mentions = tuple(Mention(name, label, context, True) for label, context in conditions for name in names)
    patient_id = f"{10_000_000 + (study if patient is None else patient)}"
    named_boxes = {name: boxes[name] for name in names}
    return GoldSentence(f"{50_000_000 + study}|{number}", patient_id, f"{50_000_000 + study}", make_dicom_id(study),
                        text, named_boxes, mentions)  # fmt: skip


def image(sentence: GoldSentence, size: tuple[int, int] = SIZE) -> dict[str, Any]:
    """Build the row of `mimic_cxr.read_images` for a sentence's image."""
    ids = {"subject_id": sentence.patient_id, "study_id": sentence.study_id, "dicom_id": sentence.image_id}
    return ids | {"key": mimic_cxr.key(**ids), "view": "AP", "height": size[0], "width": size[1], "split": "test"}


def rows(*gold_sentences: GoldSentence, size: tuple[int, int] = SIZE) -> list[Sentence]:
    images = {sentence.image_id: image(sentence, size) for sentence in gold_sentences}
    return sentences(gold_sentences, images, benchmark="wrong-lung")[0]
