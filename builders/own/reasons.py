"""The reasons for which a build leaves out, or counts, rows of a user's table."""

from __future__ import annotations

NOT_KEPT = "rows that the mapping does not keep"
TRUTH_VALUES = (
    "open questions whose answer is true, false, y, n, t or f (values.answer in a mapping makes it yes or no)"
)
REASONS = frozenset({NOT_KEPT, TRUTH_VALUES})
