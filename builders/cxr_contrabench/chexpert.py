"""CheXpert protocols of CXR-ContraBench (section 3.2): direct presence, report-style absence, positive-only control.

Views are grouped by study; the images of a study are in view order. For the six targets, label 1.0 means present and
0.0 absent. Uncertain (-1.0) and blank labels count as neither.

* presence: one record for each present target of a study with at least two present targets. The distractor is another
  present target.
* absence: one record for each absent target of a study with at least one present target, which is the distractor.
* positive_only: the presence records of studies with at least two absent targets. Two of these are the distractors.

If several findings (or pairs of findings) are eligible as distractors, `hashing.pick` chooses one in alphabetical order
by the row's id and the seed.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...loaders.errors import InputError
from .questions import Items, Wording, build_question_table, choose
from .wording import slug

TARGETS = {
    "atelectasis": "Atelectasis",
    "cardiomegaly": "Cardiomegaly",
    "consolidation": "Consolidation",
    "edema": "Edema",
    "pleural effusion": "Pleural Effusion",
    "pneumothorax": "Pneumothorax",
}
FINDINGS = tuple(TARGETS)
COLUMNS = ("study_id", "key", "view", "view_number", *TARGETS.values())
PROTOCOLS = {"chexpert_presence": "presence", "chexpert_absence": "absence", "chexpert_positive_only": "positive_only"}


def studies(images: pa.Table, path: Path | str, source: str = "chexpert") -> pa.Table:
    """Group images by study.

    Args:
        images: The columns COLUMNS of the result of `loaders.chexpert.read_labels`, one row per image.
        path: The label file, for the error message.
        source: The source of the images.

    Returns:
        One row per study, in order of first appearance: study_id, images (in view order) and the six target labels.

    Raises:
        InputError: The images of one study have different labels.
    """
    study = images["study_id"].combine_chunks()
    codes = study.indices.to_numpy()
    order = np.lexsort((images["view_number"].to_numpy(), codes))
    codes = codes[order]
    starts = np.flatnonzero(np.diff(codes, prepend=-1))
    labels = {}
    for finding, column in TARGETS.items():
        values = images[column].to_numpy()[order]
        study_labels = values[starts]
        is_different = ~((values == study_labels[codes]) | (np.isnan(values) & np.isnan(study_labels[codes])))
        if is_different.any():
            row = int(order[np.flatnonzero(is_different)[0]])
            raise InputError(
                path,
                f"the label differs from that of another image of {images['study_id'][row].as_py()}",
                row=row + 1,
                column=column,
                expected="one label for all images of a study",
                action="use the official csv, unchanged",
            )
        labels[finding] = pa.array(study_labels)
    sorted_images = images.select(["key", "view"]).combine_chunks().take(pa.array(order))
    references = pa.StructArray.from_arrays(
        [
            pa.repeat(pa.scalar(source), len(order)),
            *(chunked_column.combine_chunks() for chunked_column in sorted_images.columns),
        ],
        names=["source", "key", "view"],
    )
    offsets = pa.array(np.append(starts, len(order)), pa.int32())
    return pa.table({"study_id": study.dictionary, "images": pa.ListArray.from_arrays(offsets, references), **labels})


def questions(table: pa.Table, config: str, split: str, *, seed: int = 0, wording: Wording | None = None) -> pa.Table:
    """Build a question for each study and finding that the protocol of a config asks about (listed above).

    Args:
        table: The result of `studies` for one split.
        config: The name of the config, which decides the protocol: presence, absence or positive_only.
        split: The name of the split, which becomes a part of the ids.
        seed: The seed of the build.
        wording: The wording and layout of the questions.

    Returns:
        Rows in the schema QUESTION.
    """
    protocol = PROTOCOLS[config]
    present, absent = (
        np.column_stack([table[finding].to_numpy() == label for finding in FINDINGS]) for label in (1, 0)
    )
    match protocol:
        case "presence":
            is_target, eligible, n_distractors = present & (present.sum(1, keepdims=True) >= 2), present, 1
        case "absence":
            is_target, eligible, n_distractors = absent, present, 1
        case _:
            is_target, eligible, n_distractors = present & (present.sum(1, keepdims=True) >= 2), absent, 2
    study, target = np.nonzero(is_target)
    eligible = eligible[study]
    eligible[np.arange(study.size), target] = False
    has_enough = eligible.sum(1) >= n_distractors
    study, target, eligible = study[has_enough], target[has_enough], eligible[has_enough]

    study_indices = pa.array(study)
    study_ids = table["study_id"].combine_chunks().take(study_indices)
    slugs = pa.array([slug(finding) for finding in FINDINGS])
    prefix, middle = f"chexpert/{split}/", f"/{protocol}/"
    ids = pc.binary_join_element_wise(prefix, study_ids, middle, slugs.take(pa.array(target)), "")
    items = Items(
        ids=ids,
        study_ids=study_ids,
        images=table["images"].combine_chunks().take(study_indices),
        findings=FINDINGS,
        target=target,
        distractors=choose(ids, eligible, n_distractors, seed),
    )
    return build_question_table(
        items,
        protocol=config,
        polarity="absence" if protocol == "absence" else "presence",
        wording=wording or Wording(),
        with_negation=protocol != "positive_only",
    )
