"""OpenI CheXStruct retrospective audit (CXR-ContraBench, sections 3.1, 3.2 and E.3): image-level presence and absence.

CheXStruct gives an OpenI image a label 1 or 0 for a finding, or none where its measurement failed; none is neither.

* presence: one record for each finding at 1 of an image with another finding at 0, which is the distractor.
* absence: one record for each finding at 0 of an image with another finding at 1, which is the distractor.

So exactly one positively worded option answers the question. A distractor of the same label would be a second right
answer, one without a label might be. Where several findings are eligible, `hashing.pick` chooses among them, in
alphabetical order, by the row's id and the seed.

What the paper prints: its targets are "mainly" the five below, and the casebook's options (Figure 14) read "No tracheal
deviation | Tracheal deviation | Aortic knob enlargement". Which others it had and how it drew distractors is not
printed. Here the five are targets and distractors; cardiomegaly and mediastinal widening, which CheXStruct labels too,
are not named and stay out. As on all three presence cards, the layout `original` puts the negated option first; slot 0
of the verifier, the first positive option, is the target then, as in the protocols that put the target first.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from ...loaders.chexstruct import parse_report_number
from .questions import Wording, assemble, choose
from .wording import slug

PROTOCOLS = {"openi_chexstruct_presence": "presence", "openi_chexstruct_absence": "absence"}
# Display name, as printed in the paper, and the measure of CheXStruct that decides.
TARGETS = {
    "aortic knob enlargement": "aortic_knob_enlargement",
    "ascending aortic enlargement": "ascending_aorta_enlargement",
    "descending aortic enlargement": "descending_aorta_enlargement",
    "descending aortic tortuosity": "descending_aorta_tortuous",
    "tracheal deviation": "trachea_deviation",
}
FINDINGS = tuple(TARGETS)


def questions(
    labels: Mapping[str, Mapping[str, int]], config: str, *, seed: int = 0, wording: Wording | None = None
) -> pa.Table:
    """The rows of one config in the schema QUESTION; `labels` is what `loaders.chexstruct.read_labels` returns."""
    polarity = PROTOCOLS[config]
    known = np.array(
        [[of_image.get(measure, -1) for measure in TARGETS.values()] for of_image in labels.values()], np.int64
    ).reshape(-1, len(TARGETS))
    present, absent = known == 1, known == 0
    asked, others = (present, absent) if polarity == "presence" else (absent, present)
    image, target = np.nonzero(asked & others.any(axis=1, keepdims=True))
    names = [list(labels)[i] for i in image]
    ids = pa.array(
        [f"openi/{name}/chexstruct_{polarity}/{slug(FINDINGS[t])}" for name, t in zip(names, target, strict=True)],
        pa.string(),
    )
    reference = pa.struct([("source", pa.string()), ("key", pa.string()), ("view", pa.string())])
    return assemble(
        protocol=config,
        polarity=polarity,
        ids=ids,
        study_ids=pa.array([f"CXR{parse_report_number(name)}" for name in names], pa.string()),
        images=pa.array(
            [[{"source": "openi", "key": f"{name}.png", "view": ""}] for name in names], pa.list_(reference)
        ),
        findings=FINDINGS,
        target=target,
        distractors=choose(ids, others[image], 1, seed),
        with_negation=True,
        wording=wording or Wording(),
        negated_first=True,
    )
