"""The reasons for which a build leaves out or counts images, masks, boxes and questions."""

from __future__ import annotations

from ...loaders import chexmask, detections
from ...loaders.anatomy_masks import ANATOMIES, EMPTY_MASK, NO_MASK, WHOLE_LUNGS

NO_MASKS = "images without masks"
UNREADABLE = "images whose file cannot be read"
NO_SIZE = "images of unknown size (no file, no table, no size in the masks)"
OUTSIDE = "boxes outside the image"
CUT = "boxes cut at the image's edge (kept)"
NO_REPORT = "studies without a report"
UNLABELLED = "images without labels and report"
UNCONFIRMED = "detected boxes that no report confirms"
DETECTED = {reason: f"detected boxes: {reason.replace('_', ' ')}" for reason in detections.REASONS}
UNLISTED = "images with boxes outside the test list"
NOT_BOXED = "images with findings and no box"
IN_NO_QUESTION = "images in no question (nothing to ask for, or beyond the balance of Yes and No)"
NO_DONOR = "positive questions for which no image can lend a region (VPT)"
REASONS = frozenset(
    {
        NO_MASKS, UNREADABLE, NO_SIZE, OUTSIDE, CUT, NO_REPORT, UNLABELLED, UNCONFIRMED, *DETECTED.values(), UNLISTED,
        NOT_BOXED, chexmask.POOR, IN_NO_QUESTION, NO_DONOR,
        *(
            reason.format(anatomy)
            for anatomy in (*ANATOMIES, *WHOLE_LUNGS)
            for reason in (NO_MASK, EMPTY_MASK)
        ),
    }
)  # fmt: skip
