"""The reasons for which a build of CheXlocalize leaves out questions or counts masks."""

from __future__ import annotations

from collections.abc import Iterable

WITHOUT_MASK = "questions of {} without a mask of the finding"
SCALED = "masks of {} scaled to the size of their image"


def list_reasons(splits: Iterable[str]) -> frozenset[str]:
    """List all reasons.

    Args:
        splits: `config/split` of each split with masks.

    Returns:
        The reasons.
    """
    return frozenset(reason.format(split) for split in splits for reason in (WITHOUT_MASK, SCALED))
