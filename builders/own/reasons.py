"""The reasons for which a build leaves out rows of a user's table."""

from __future__ import annotations

NOT_KEPT = "rows that the mapping does not keep"
REASONS = frozenset({NOT_KEPT})
