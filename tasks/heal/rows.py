"""Rows of HEAL-MedVQA as lm-eval documents: one kind of question, or originals with their perturbed partners."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import datasets
import numpy as np
from PIL import Image

from medfaith.evaluate_metrics.reading.disease_names import list_classes
from medfaith.loaders import rle
from medfaith.loaders.errors import InputError
from medfaith.loaders.nih_cxr14 import get_patient
from medfaith.tasks import row_store, rows, stated_boxes, wordings
from medfaith.tasks.controls import TARGET, Facts
from medfaith.tasks.controls.rows import Opener
from medfaith.tasks.controls.transplant import transplant
from medfaith.tasks.explain.reader import HeatmapReader
from medfaith.tasks.lazy_images import Reference
from medfaith.tasks.row_images import Edit, require_size
from medfaith.tasks.row_iteration import iterate_rows
from medfaith.tasks.row_tables import build_dataset
from medfaith.tasks.unlogged_fields import UnloggedMask

_TEXT, _INDEX = datasets.Value("string"), datasets.Value("int32")
DOCUMENT = {
    "id": _TEXT,
    "image_id": _TEXT,  # the unit of resampling
    "original_id": _TEXT,
    "kind": _TEXT,  # the kind of question or perturbation
    "question_type": _TEXT,
    "question": _TEXT,
    "anatomy": _TEXT,
    "diseases": datasets.List(_TEXT),
    "topic": _TEXT,  # the question without its wording: the anatomy, and the disease of a closed question
    # Replies of reference models in words, the index of the right reply, and the index of the denial.
    "options": datasets.List(_TEXT),
    "answer": _INDEX,
    "negated": _INDEX,
    "reply_in_words": datasets.Value("bool"),
}
EDIT = ("region", "donor", "donor_region")  # columns of a VPT row: the arguments of `TRANSPLANT`
CLOSED_OPTIONS = ["Yes", "No"]
NORMAL = "No abnormality"


def load(
    repository: str,
    config: str,
    ask: str,
    heatmaps: str | None = None,
    box_format: str = stated_boxes.DEFAULT_FORMAT,
    **options: Any,
) -> dict[str, datasets.Dataset]:
    """Load rows of one config with `rows.load`.

    Args:
        repository: As in `rows.load`.
        config: The config of the questions.
        ask: "closed" or "open" for questions of this type. "tpt" or "vpt" for positive questions, each followed by its
            partners from `<config>_<ask>`. A positive question without a partner is left out. "stated_boxes" for one
            question for each image and anatomy with a region.
        heatmaps: The folder in which the model keeps heatmaps of its answers to closed questions (its `store=`).
        box_format: The form of the boxes of "stated_boxes" (`tasks.stated_boxes`).
        options: Further arguments of `rows.load`.

    Returns:
        "test" -> rows.
    """
    single, locates = ask in ("closed", "open"), ask == stated_boxes.ASK
    settings = options | ({"prompt": box_format} if locates else {})
    shared = {"heatmaps": HeatmapReader(heatmaps)} if heatmaps and ask == "closed" else {}

    def build_documents(questions: datasets.Dataset) -> datasets.Dataset:
        all_docs = [_build_document(row) for row in iterate_rows(questions)]
        regions = {(doc["image_id"], doc["anatomy"]): doc[TARGET] for doc in all_docs}
        features = DOCUMENT | {
            "images": datasets.List(questions.features["image"]),
            TARGET: questions.features["region"],
        }
        if locates:
            features |= stated_boxes.COLUMNS
            docs = _build_location_docs(all_docs, box_format, options)
        elif single:
            docs = [doc for doc in all_docs if doc["question_type"] == ask]
        else:
            partners = row_store.read(repository, f"{config}_{ask}", options["split"], options.get("data"))
            perturb = _build_swapped if ask == "tpt" else _build_edited
            docs = _add_partners(all_docs, iterate_rows(partners), perturb)
            if ask == "vpt":
                features |= {"edit": {name: partners.features[name] for name in EDIT}}
                docs = [{"edit": None} | doc for doc in docs]
        # The region of a swapped anatomy comes from another question about the image, if there is one.
        features |= {"region": questions.features["region"]}
        docs = [doc | dict.fromkeys(("region", TARGET), regions.get((doc["image_id"], doc["anatomy"]))) for doc in docs]
        if not docs:
            where, action = f"{repository}, config {config!r}", "choose another task or source"
            raise InputError(where, f"split {options['split']!r} has no {ask} question", action=action)
        return build_dataset(docs, features)

    attach = partial(_attach_location if locates else _attach_columns, shared)
    adapter = rows.Adapter(
        extend=build_documents, attach=attach, edit=TRANSPLANT, facts=facts, reword=None if locates else reword
    )
    return rows.load(repository, adapter, config=config, **settings)


def _attach_columns(shared: Mapping[str, Any], batch: dict[str, list]) -> dict[str, list]:
    """Add the columns that all rows share, and masks that logs leave out; no closure, see `row_images.ImageOpening`."""
    columns = {name: [value] * len(batch["id"]) for name, value in shared.items()}
    return batch | columns | {"region": [UnloggedMask(mask) if mask else None for mask in batch["region"]]}


def _attach_location(shared: Mapping[str, Any], batch: dict[str, list]) -> dict[str, list]:
    return _attach_columns(shared, stated_boxes.attach_options(batch))


def _build_document(row: Mapping[str, Any]) -> dict[str, Any]:
    closed = row["question_type"] == "closed"
    options, answer = (CLOSED_OPTIONS, row["answer"]) if closed else _list_open_options(row["id"], row["diseases"])
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
        "topic": _join_topic(row["anatomy"], row["diseases"] if closed else []),
        "options": options,
        "answer": options.index(answer),
        "negated": options.index("No" if closed else NORMAL),
        "reply_in_words": True,
        TARGET: row["region"],
    }


def _build_location_docs(
    docs: Iterable[dict[str, Any]], box_format: str, options: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Build one document for each image and anatomy with a region, in place of its first question."""
    first_docs: dict[tuple[str, str], dict[str, Any]] = {}
    for doc in docs:
        if doc[TARGET] is not None and rle.area(doc[TARGET]):
            first_docs.setdefault((doc["image_id"], doc["anatomy"]), doc)
    asked = {"kind": stated_boxes.ASK, "question_type": stated_boxes.ASK, "diseases": []}
    return [
        doc
        | asked
        | {"topic": doc["anatomy"], "options": []}
        | stated_boxes.build_columns(
            doc["anatomy"], stated_boxes.find_located({"region": doc[TARGET]}), box_format, options
        )
        for doc in first_docs.values()
    ]


def facts(doc: Mapping[str, Any]) -> Facts:
    """Return the facts about a row that a control may use; its target is a disease, or any disease, at an anatomy.

    VinDr-CXR does not say which images belong to one patient. Each of its images counts as one patient.

    Args:
        doc: The document.

    Returns:
        The facts: the patient; the question asked, which is `topic`, or type and anatomy of an open question; the right
        option as the answer, or the row's id for a question without options; and, for a closed question about a side,
        the topic of the other side.
    """
    reference, closed = doc["images"][0], doc["question_type"] == "closed"
    key = reference["key"].split("/")
    patient = key[2] if reference["source"] == "mimic_cxr" and len(key) > 2 else reference["key"]
    patient = get_patient(reference["key"]) if reference["source"] == "nih_cxr14" else patient
    mirrored = _join_topic(_swap_side(doc["anatomy"]), doc["diseases"]) if closed and _swap_side(doc["anatomy"]) else ""
    question = doc["topic"] if closed else f"{doc['question_type']}/{doc['anatomy']}"
    present = doc["answer"] != doc["negated"]
    answer = doc["options"][doc["answer"]] if doc["options"] else doc["id"]  # a region is that of its image
    return Facts(patient, question, answer, mirrored=mirrored, present=present, anatomical=True)


def reword(doc: Mapping[str, Any], number: int) -> dict[str, Any]:
    """Return the question in a wording. Originals and their perturbed partners have the same wording.

    Args:
        doc: The document.
        number: The number of the wording.

    Returns:
        The changed column: {"question": text}.
    """
    fields = {"anatomy": doc["anatomy"]}
    if doc["question_type"] == "closed":
        fields["disease"] = wordings.in_text("heal-medvqa", doc["diseases"][0])
    return {"question": wordings.question("heal-medvqa", doc["question_type"], number, **fields)}


def _swap_side(anatomy: str) -> str:
    """Swap left and right in an anatomy: `left upper lung` -> `right upper lung`; "" for an anatomy without a side."""
    words_of_name = anatomy.split()
    swapped = [{"left": "right", "right": "left"}.get(word, word) for word in words_of_name]
    return " ".join(swapped) if swapped != words_of_name else ""


def _join_topic(anatomy: str, diseases: list[str]) -> str:
    return "/".join([anatomy, *diseases])


def _list_open_options(row_id: str, diseases: list[str]) -> tuple[list[str], str]:
    """List the options of an open question, and the right one.

    The options are no abnormality, each class, and, if there are several gold diseases, all of them as one option.
    """
    gold = ", ".join(diseases) if diseases else NORMAL
    return [*dict.fromkeys((NORMAL, *list_classes(row_id), gold))], gold


def _add_partners(
    originals: list[dict[str, Any]],
    partners: Iterable[Mapping[str, Any]],
    perturb: Callable[[dict[str, Any], Mapping[str, Any]], dict[str, Any]],
) -> list[dict[str, Any]]:
    """Put the perturbed partners after each original. Originals without partners are left out."""
    partners_by_original: dict[str, list[Mapping[str, Any]]] = {}
    for partner in partners:
        partners_by_original.setdefault(partner["original_id"], []).append(partner)
    pairs = []
    for doc in originals:
        if doc["id"] in partners_by_original:
            pairs.append(doc | {"kind": "original"})
            denied = {"answer": CLOSED_OPTIONS.index("No")}
            pairs += [perturb(doc, p) | denied | {"id": p["id"]} for p in partners_by_original[doc["id"]]]
    return pairs


def _build_swapped(doc: dict[str, Any], partner: Mapping[str, Any]) -> dict[str, Any]:
    """Turn a document into its partner with another anatomy or disease."""
    changes = {"kind": partner["kind"], "question": partner["question"], "anatomy": partner["anatomy"]}
    diseases = [partner["disease"]]
    return doc | changes | {"diseases": diseases, "topic": _join_topic(partner["anatomy"], diseases)}


def _build_edited(doc: dict[str, Any], partner: Mapping[str, Any]) -> dict[str, Any]:
    """Turn a document into its partner with an edited image."""
    return doc | {"kind": "region", "edit": {name: partner[name] for name in EDIT}}


def _apply_transplant(edit: Mapping[str, Any], image: Image.Image, open_image: Opener) -> Image.Image:
    """Replace the region of the image by the donor's region."""
    donor = open_image(edit["donor"])
    return Image.fromarray(transplant(np.asarray(image), edit["region"], np.asarray(donor), edit["donor_region"]))


def _check_sizes(row: Mapping[str, Any], roots: Mapping[str, Path]) -> None:
    """Require that a row's image and its donor have the sizes of their masks."""
    edit = row["edit"]
    for reference, region in ((row["images"][0], edit["region"]), (edit["donor"], edit["donor_region"])):
        height, width = region["size"]
        require_size(row["id"], reference, (width, height), roots)


def _list_donors(edit: Mapping[str, Any]) -> list[Reference]:
    return [edit["donor"]]


TRANSPLANT = Edit(references=_list_donors, check=_check_sizes, apply=_apply_transplant)
