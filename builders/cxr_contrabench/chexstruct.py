"""OpenI CheXStruct retrospective audit (CXR-ContraBench, sections 3.1, 3.2 and E.3): image-level presence and absence.

CheXStruct gives an OpenI image the label 1 or 0 for a finding. If its measurement failed, the finding has no label and
counts as neither present nor absent.

* presence: one record for each finding at 1 of an image with another finding at 0, which is the distractor.
* absence: one record for each finding at 0 of an image with another finding at 1, which is the distractor.

So exactly one positively worded option is correct. A distractor with the same label would be a second correct option,
and one without a label might be. If several findings are eligible, `hashing.pick` chooses one in alphabetical order by
the row's id and the seed.

The paper prints that its targets are "mainly" the five below, and the options in its casebook (Figure 14) are "No
tracheal deviation | Tracheal deviation | Aortic knob enlargement". It does not print its further targets or how it
chose distractors. Here the five are both targets and distractors. CheXStruct also labels cardiomegaly and mediastinal
widening; the paper does not name them, so they are excluded. As on all three presence cards, the layout `original` puts
the negated option first. Slot 0 of the verifier, the first positive option, is then the target, as in the protocols
that put the target first.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from ...loaders.chexstruct import parse_report_number
from .questions import Items, Wording, build_question_table, choose
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
    """Build a question for each image and each of its findings that are present (or absent, as the config says).

    The distractor is a finding of the opposite kind: one of these has to be known for the image.

    Args:
        labels: The result of `loaders.chexstruct.read_labels`.
        config: The name of the config, which decides whether the answer is a present or an absent finding.
        seed: The seed of the build.
        wording: The wording and layout of the questions.

    Returns:
        Rows in the schema QUESTION.
    """
    polarity = PROTOCOLS[config]
    values = np.array(
        [[image_labels.get(measure, -1) for measure in TARGETS.values()] for image_labels in labels.values()], np.int64
    ).reshape(-1, len(TARGETS))
    present, absent = values == 1, values == 0
    is_target, is_eligible = (present, absent) if polarity == "presence" else (absent, present)
    image, target = np.nonzero(is_target & is_eligible.any(axis=1, keepdims=True))
    names = [list(labels)[i] for i in image]
    ids = pa.array(
        [f"openi/{name}/chexstruct_{polarity}/{slug(FINDINGS[t])}" for name, t in zip(names, target, strict=True)],
        pa.string(),
    )
    reference = pa.struct([("source", pa.string()), ("key", pa.string()), ("view", pa.string())])
    items = Items(
        ids=ids,
        study_ids=pa.array([f"CXR{parse_report_number(name)}" for name in names], pa.string()),
        images=pa.array(
            [[{"source": "openi", "key": f"{name}.png", "view": ""}] for name in names], pa.list_(reference)
        ),
        findings=FINDINGS,
        target=target,
        distractors=choose(ids, is_eligible[image], 1, seed),
    )
    return build_question_table(
        items, protocol=config, polarity=polarity, wording=wording or Wording(), negated_first=True
    )
