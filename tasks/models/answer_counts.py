"""What came of the requests of a run: how many answers were whole, cut, filtered, refused, or never came."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from ..outcomes import ANSWERED, CUT, OUTCOMES, UNANSWERED

LIMIT = 0.01  # share of unanswered rows above which a run has not done its work
_open: ContextVar[Counter[str] | None] = ContextVar("tally", default=None)


@contextmanager
def tally() -> Iterator[Counter[str]]:
    """Outcome -> number, of all that models `count` in this block. lm-eval makes the model and hands it to nobody."""
    counts: Counter[str] = Counter()
    token = _open.set(counts)
    try:
        yield counts
    finally:
        _open.reset(token)


def count(outcomes: Counter[str]) -> None:
    """Adds to the tally that is open, if one is."""
    counts = _open.get()
    if counts is not None:
        counts.update(outcomes)


def sentence(outcomes: Counter[str]) -> str:
    """ "5 of 90 answers are not whole: 3 cut, 2 unanswered"; "" where all are. It says how cut ones are read."""
    n, parts = outcomes.total(), [f"{outcomes[name]:,} {name}" for name in OUTCOMES if outcomes[name]]
    whole = outcomes[ANSWERED]
    listed = [part for part in parts if not part.endswith(f" {ANSWERED}")]
    how = "; a cut answer is read by its opening statement" if outcomes[CUT] else ""
    return f"{n - whole:,} of {n:,} answers are not whole: {', '.join(listed)}{how}" if whole < n else ""


def too_many_unanswered(
    outcomes: Counter[str], action: str = "run the same command again; it asks only these, where answers are kept"
) -> bool:
    """Whether more than `LIMIT` of the rows have no answer; stderr then says so, and what to do."""
    n, missing = outcomes.total(), outcomes[UNANSWERED]
    if missing <= LIMIT * n:
        return False
    print(
        f"medfaith: {missing:,} of {n:,} rows ({missing / n:.1%}) have no answer, more than {LIMIT:.0%}: the results "
        f"count them as unread\n  what to do: {action}",
        file=sys.stderr,
    )
    return True
