"""The texts that rows of CholecSeg8k consist of. Any other text in a published row would come from a source."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ...loaders import cholec80_boxes, cholecseg8k
from ..write import Words
from .segmented import SOURCE

# Column that build.json counts -> its values, for all sources.
COUNTED: Mapping[str, Words] = {"video": re.compile(r"\d{1,2}"), "instruments": frozenset(cholec80_boxes.INSTRUMENTS)}
_KEY = re.compile(r"video(\d\d)/video\1_\d{5}/frame_\d{1,9}_endo\.png")


def vocabulary() -> Mapping[str, Words]:
    """List the allowed texts, for the repository of cholecseg8k. The rows of the other sources are not published.

    Returns:
        The texts, or a pattern that they match, by column or dotted path inside structs.
    """
    instruments = frozenset(cholecseg8k.INSTRUMENTS)
    return {
        "id": re.compile(r"instruments_seg8k/\d\d/\d{6,9}"),
        "instruments": instruments,
        "boxes.label": instruments,
        **{f"{column}.source": frozenset({SOURCE}) for column in ("image", "successor")},
        **{f"{column}.key": _KEY for column in ("image", "successor")},
        **{f"{column}.view": frozenset({""}) for column in ("image", "successor")},
    }
