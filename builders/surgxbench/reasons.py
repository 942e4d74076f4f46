"""The reasons for which a build leaves out, changes or counts frames and boxes."""

from __future__ import annotations

from ...loaders.cholec_triplets import COMPONENTS
from ...loaders.cholecseg8k import FRAMES

MISSING = "labelled frames without their image"
CLIPPED = "boxes that reach beyond their frame (clipped to it)"
OUTSIDE = "boxes outside their frame"
OTHER_TOOLS = "frames whose boxes and Cholec80's tool annotations name different instruments"
SHIFTS = {-1: "earlier", 1: "later"}  # neighbours of a second
OTHER_SECOND = {
    seconds: f"frames that agree with the boxes a second {direction} and not with their own"
    for seconds, direction in SHIFTS.items()
}
WITHOUT_BOX = "frames with a triplet and no box"
UNLABELLED = "frames with boxes that have no triplet labels"
OTHER_INSTRUMENTS = "frames whose triplets and boxes name different instruments"
OTHER_LABELS = {
    component: f"frames whose {component} labels are not those of their triplets (kept as they are)"
    for component in COMPONENTS
}
LACKING = f"frames of the release's {FRAMES:,} that this copy lacks"
LACKING_VIDEOS = "videos with boxes that the release has, and this copy lacks"
SMALL = "components of an instrument's mask that are too small for a box"
STILL = "frames in which nothing moves"
PARTLY_UNKNOWN = "frames with pixels of unknown flow (not in their masks)"
REASONS = frozenset(
    {
        MISSING, CLIPPED, OUTSIDE, OTHER_TOOLS, *OTHER_SECOND.values(), WITHOUT_BOX, UNLABELLED, OTHER_INSTRUMENTS,
        *OTHER_LABELS.values(), LACKING, LACKING_VIDEOS, SMALL, STILL, PARTLY_UNKNOWN,
    }
)  # fmt: skip
