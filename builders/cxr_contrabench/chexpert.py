"""CheXpert protocols of CXR-ContraBench (section 3.2): direct presence, report-style absence, positive-only control.

Views are grouped by study, and a study's images stand in view order. Over the six targets, a finding is present at
label 1.0 and absent at 0.0; uncertain (-1.0) and blank are neither.

* presence: one record for each present target of a study with at least two present targets; the distractor is another
  present target.
* absence: one record for each absent target of a study with at least one present target, which is the distractor.
* positive_only: the presence records of studies with at least two absent targets; two of those are the distractors.

Where several findings are eligible as distractors, `hashing.pick` chooses among them (or among their pairs), in
alphabetical order, by the row's id and the seed.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...loaders.errors import InputError
from .questions import Wording, assemble, choose
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


def studies(images: pa.Table, where: Path | str) -> pa.Table:
    """One row a study, in order of first appearance: study_id, images (in view order) and the six target labels.

    Args:
        images: COLUMNS of what `loaders.chexpert.read_labels` returns, one row an image.
        where: the label file, for the error when the images of one study carry different labels.
    """
    study = images["study_id"].combine_chunks()
    code = study.indices.to_numpy()
    order = np.lexsort((images["view_number"].to_numpy(), code))
    code = code[order]
    first = np.flatnonzero(np.diff(code, prepend=-1))
    labels = {}
    for finding, column in TARGETS.items():
        values = images[column].to_numpy()[order]
        of_study = values[first]
        differs = ~((values == of_study[code]) | (np.isnan(values) & np.isnan(of_study[code])))
        if differs.any():
            row = int(order[np.flatnonzero(differs)[0]])
            raise InputError(
                where,
                f"the label differs from that of another image of {images['study_id'][row].as_py()}",
                row=row + 1,
                column=column,
                expected="one label for all images of a study",
                action="use the official csv, unchanged",
            )
        labels[finding] = pa.array(of_study)
    sorted_images = images.select(["key", "view"]).combine_chunks().take(pa.array(order))
    references = pa.StructArray.from_arrays(
        [pa.repeat(pa.scalar("chexpert"), len(order)), *(c.combine_chunks() for c in sorted_images.columns)],
        names=["source", "key", "view"],
    )
    offsets = pa.array(np.append(first, len(order)), pa.int32())
    return pa.table({"study_id": study.dictionary, "images": pa.ListArray.from_arrays(offsets, references), **labels})


def questions(table: pa.Table, config: str, split: str, *, seed: int = 0, wording: Wording | None = None) -> pa.Table:
    """The rows of one config: `table` is what `studies` returns, the result has the schema QUESTION."""
    protocol = PROTOCOLS[config]
    present, absent = (
        np.column_stack([table[finding].to_numpy() == label for finding in FINDINGS]) for label in (1, 0)
    )
    match protocol:
        case "presence":
            asked, eligible, n_distractors = present & (present.sum(1, keepdims=True) >= 2), present, 1
        case "absence":
            asked, eligible, n_distractors = absent, present, 1
        case _:
            asked, eligible, n_distractors = present & (present.sum(1, keepdims=True) >= 2), absent, 2
    study, target = np.nonzero(asked)
    eligible = eligible[study]
    eligible[np.arange(study.size), target] = False
    enough = eligible.sum(1) >= n_distractors
    study, target, eligible = study[enough], target[enough], eligible[enough]

    taken = pa.array(study)
    study_ids = table["study_id"].combine_chunks().take(taken)
    slugs = pa.array([slug(finding) for finding in FINDINGS])
    prefix, middle = f"chexpert/{split}/", f"/{protocol}/"
    ids = pc.binary_join_element_wise(prefix, study_ids, middle, slugs.take(pa.array(target)), "")
    return assemble(
        protocol=config,
        polarity="absence" if protocol == "absence" else "presence",
        ids=ids,
        study_ids=study_ids,
        images=table["images"].combine_chunks().take(taken),
        findings=FINDINGS,
        target=target,
        distractors=choose(ids, eligible, n_distractors, seed),
        with_negation=protocol != "positive_only",
        wording=wording or Wording(),
    )
