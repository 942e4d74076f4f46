"""Rows of HEAL-MedVQA as lm-eval documents: one kind of question, or originals beside their perturbed partners."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, cast

import datasets
import numpy as np
from PIL import Image

from medfaith.evaluate_metrics.reading.disease_names import CLASSES
from medfaith.loaders import images
from medfaith.loaders.errors import ImageError, InputError
from medfaith.tasks import row_store, rows, wordings
from medfaith.tasks.controls import TARGET, Facts
from medfaith.tasks.controls.rows import Opener
from medfaith.tasks.controls.transplant import transplant
from medfaith.tasks.explain.reader import HeatmapReader
from medfaith.tasks.unlogged_fields import UnloggedMask

_TEXT, _INDEX = datasets.Value("string"), datasets.Value("int32")
DOCUMENT = {
    "id": _TEXT,
    "image_id": _TEXT,  # what intervals draw
    "original_id": _TEXT,
    "kind": _TEXT,  # of the question, or of the perturbation
    "question_type": _TEXT,
    "question": _TEXT,
    "anatomy": _TEXT,
    "diseases": datasets.List(_TEXT),
    "topic": _TEXT,  # the question without its wording: the anatomy, and the disease that is asked for
    # Replies that a reference model may give, as words, the index of the right one and that of the denial.
    "options": datasets.List(_TEXT),
    "answer": _INDEX,
    "negated": _INDEX,
    "reply_in_words": datasets.Value("bool"),
}
EDIT = ("region", "donor", "donor_region")  # columns of a VPT row, the arguments of `TRANSPLANT`
CLOSED_OPTIONS = ["Yes", "No"]
NORMAL = "No abnormality"


def load(
    repository: str, config: str, ask: str, heatmaps: str | None = None, **options: Any
) -> dict[str, datasets.Dataset]:
    """`rows.load` of one config.

    Args:
        ask: "closed" or "open" questions; "tpt" or "vpt": positive questions and their partners of `<config>_<ask>`,
            each partner behind its original. A positive question without a partner is left out.
        heatmaps: the folder in which the model keeps heatmaps of its answers to closed questions (its `store=`).
    """
    single = ask in ("closed", "open")
    shared = {"heatmaps": HeatmapReader(heatmaps)} if heatmaps and ask == "closed" else {}

    def documents(questions: datasets.Dataset) -> datasets.Dataset:
        asked = [_document(row) for row in cast(Iterable[dict[str, Any]], questions)]
        regions = {(doc["image_id"], doc["anatomy"]): doc[TARGET] for doc in asked}
        features = DOCUMENT | {
            "images": datasets.List(questions.features["image"]),
            TARGET: questions.features["region"],
        }
        if single:
            chosen = [doc for doc in asked if doc["question_type"] == ask]
        else:
            partners = row_store.read(repository, f"{config}_{ask}", options["split"], options.get("data"))
            perturb = _swapped if ask == "tpt" else _edited
            chosen = _with_partners(asked, cast(Iterable[dict[str, Any]], partners), perturb)
            if ask == "vpt":
                features |= {"edit": {name: partners.features[name] for name in EDIT}}
                chosen = [{"edit": None} | doc for doc in chosen]
        # Of a swapped anatomy it is that of another question about the image, if there is one.
        features |= {"region": questions.features["region"]}
        chosen = [
            doc | dict.fromkeys(("region", TARGET), regions.get((doc["image_id"], doc["anatomy"]))) for doc in chosen
        ]
        if not chosen:
            where, action = f"{repository}, config {config!r}", "choose another task or source"
            raise InputError(where, f"split {options['split']!r} has no {ask} question", action=action)
        return datasets.Dataset.from_list(chosen, features=datasets.Features(features))

    def attach(batch: dict[str, list]) -> dict[str, list]:
        same = {name: [value] * len(batch["id"]) for name, value in shared.items()}
        return batch | same | {"region": [UnloggedMask(mask) if mask else None for mask in batch["region"]]}

    how = {"extend": documents, "attach": attach, "edit": TRANSPLANT, "facts": facts, "reword": reword}
    return rows.load(repository, config=config, **how, **options)


def _document(row: Mapping[str, Any]) -> dict[str, Any]:
    closed = row["question_type"] == "closed"
    options, answer = (CLOSED_OPTIONS, row["answer"]) if closed else _open_options(row["diseases"])
    return {
        "id": row["id"],
        "images": [row["image"]],
        "image_id": row["image"]["key"],
        "original_id": row["id"],
        "kind": row["kind"],
        "question_type": row["question_type"],
        "question": row["question"],
        "anatomy": row["anatomy"],
        "diseases": row["diseases"],
        "topic": _topic(row["anatomy"], row["diseases"] if closed else []),
        "options": options,
        "answer": options.index(answer),
        "negated": options.index("No" if closed else NORMAL),
        "reply_in_words": True,
        TARGET: row["region"],
    }


def facts(doc: Mapping[str, Any]) -> Facts:
    """What is asked about is a disease, or any, at an anatomy.

    VinDr-CXR does not say which images are of one patient: each image counts as one there.
    """
    reference, closed = doc["images"][0], doc["question_type"] == "closed"
    key = reference["key"].split("/")
    patient = key[2] if reference["source"] == "mimic_cxr" and len(key) > 2 else reference["key"]
    mirrored = _topic(_other_side(doc["anatomy"]), doc["diseases"]) if closed and _other_side(doc["anatomy"]) else ""
    asked = doc["topic"] if closed else f"open/{doc['anatomy']}"
    present = doc["answer"] != doc["negated"]
    return Facts(patient, asked, doc["options"][doc["answer"]], mirrored=mirrored, present=present, anatomical=True)


def reword(doc: Mapping[str, Any], number: int) -> dict[str, Any]:
    """The question in a wording. Originals and their perturbed partners are asked alike."""
    words = {"anatomy": doc["anatomy"]}
    if doc["question_type"] == "closed":
        words["disease"] = wordings.in_text("heal-medvqa", doc["diseases"][0])
    return {"question": wordings.question("heal-medvqa", doc["question_type"], number, **words)}


def _other_side(anatomy: str) -> str:
    """`left upper lung` -> `right upper lung`; "" for what has no side."""
    words = anatomy.split()
    swapped = [{"left": "right", "right": "left"}.get(word, word) for word in words]
    return " ".join(swapped) if swapped != words else ""


def _topic(anatomy: str, diseases: list[str]) -> str:
    return "/".join([anatomy, *diseases])


def _open_options(diseases: list[str]) -> tuple[list[str], str]:
    """No abnormality, each class, and the gold diseases together where they are several; and which is right."""
    gold = ", ".join(diseases) if diseases else NORMAL
    return [*dict.fromkeys((NORMAL, *CLASSES, gold))], gold


def _with_partners(
    asked: list[dict[str, Any]],
    partners: Iterable[Mapping[str, Any]],
    perturb: Callable[[dict[str, Any], Mapping[str, Any]], dict[str, Any]],
) -> list[dict[str, Any]]:
    of_original: dict[str, list[Mapping[str, Any]]] = {}
    for partner in partners:
        of_original.setdefault(partner["original_id"], []).append(partner)
    chosen = []
    for doc in asked:
        if doc["id"] in of_original:
            chosen.append(doc | {"kind": "original"})
            denied = {"answer": CLOSED_OPTIONS.index("No")}
            chosen += [perturb(doc, p) | denied | {"id": p["id"]} for p in of_original[doc["id"]]]
    return chosen


def _swapped(doc: dict[str, Any], partner: Mapping[str, Any]) -> dict[str, Any]:
    changed = {"kind": partner["kind"], "question": partner["question"], "anatomy": partner["anatomy"]}
    diseases = [partner["disease"]]
    return doc | changed | {"diseases": diseases, "topic": _topic(partner["anatomy"], diseases)}


def _edited(doc: dict[str, Any], partner: Mapping[str, Any]) -> dict[str, Any]:
    return doc | {"kind": "region", "edit": {name: partner[name] for name in EDIT}}


def _transplanted(edit: Mapping[str, Any], image: Image.Image, open_image: Opener) -> Image.Image:
    """The image with the region of the donor in the place of its own."""
    donor = open_image(edit["donor"])
    return Image.fromarray(transplant(np.asarray(image), edit["region"], np.asarray(donor), edit["donor_region"]))


def _check_sizes(row: Mapping[str, Any], roots: Mapping[str, Path]) -> None:
    """Raises ImageError where an image or its donor has another size than its mask.

    A resized copy would else stop the run at its first edited image, after hours.
    """
    edit = row["edit"]
    for reference, region in ((row["images"][0], edit["region"]), (edit["donor"], edit["donor_region"])):
        try:
            width, height = images.read_image_size(reference, roots)
        except ImageError as error:
            raise ImageError(f"row {row['id']}: {error}{rows.LEAVE_OUT}") from error
        if [height, width] != list(region["size"]):
            masked = " x ".join(str(side) for side in reversed(region["size"]))
            raise ImageError(
                f"row {row['id']}: image {reference['key']!r} of source {reference['source']!r}: "
                f"{width} x {height} pixels; expected {masked}, the size of its mask\n"
                "  what to do: use the source's original images: masks and boxes are in their pixels"
            )


TRANSPLANT = rows.Edit(references=lambda edit: [edit["donor"]], check=_check_sizes, apply=_transplanted)
