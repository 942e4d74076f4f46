"""Outcome counts of a run's requests: answered, cut, filtered, refused or unanswered."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from .. import BATCH
from ..outcomes import ANSWERED, CUT, OUTCOMES, UNANSWERED

MOST_ENDS, OTHERS = 20, "other reasons"  # reasons that results name; messages of servers may hold an id of their own
LIMIT = 0.01  # share of unanswered rows above which a run counts as incomplete
_MOST_PRINTED = 5
_open: ContextVar[Counter[str] | None] = ContextVar("tally", default=None)


@contextmanager
def tally() -> Iterator[Counter[str]]:
    """Collect outcome counts of all models that call `count` in this block. lm-eval does not hand out the model."""
    counts: Counter[str] = Counter()
    token = _open.set(counts)
    try:
        yield counts
    finally:
        _open.reset(token)


def count(outcomes: Counter[str]) -> None:
    """Add outcomes to the open tally, if there is one.

    Args:
        outcomes: Number of requests by outcome.
    """
    counts = _open.get()
    if counts is not None:
        counts.update(outcomes)


def limit_ends(ends: Counter[str]) -> dict[str, int]:
    """Return the most frequent reasons, and the number of all others together.

    Args:
        ends: Number of requests by outcome and reason, such as "unanswered: abort".

    Returns:
        Reason -> number, at most `MOST_ENDS` and `OTHERS`.

    >>> limit_ends(Counter({"cut: length": 3, "unanswered: abort": 1}))
    {'cut: length': 3, 'unanswered: abort': 1}
    """
    named = dict(ends.most_common(MOST_ENDS))
    n_others = ends.total() - sum(named.values())
    return named | ({OTHERS: n_others} if n_others else {})


def format_counts(outcomes: Counter[str], ends: Counter[str] | None = None) -> str:
    """Format the number of incomplete answers, such as "5 of 90 answers are incomplete: 3 cut, 2 unanswered".

    Args:
        outcomes: Number of requests by outcome.
        ends: Number of requests by outcome and reason, of which the most frequent are named; None names no reason.

    Returns:
        The sentence, with a note on how cut answers are read, or "" if all answers are complete.
    """
    n, counts = outcomes.total(), [f"{outcomes[name]:,} {name}" for name in OUTCOMES if outcomes[name]]
    n_answered = outcomes[ANSWERED]
    listed = [text for text in counts if not text.endswith(f" {ANSWERED}")]
    note = "; a cut answer is read by its opening statement" if outcomes[CUT] else ""
    reasons = "; ".join(f"{count:,} {end}" for end, count in (ends or Counter()).most_common(_MOST_PRINTED))
    why = f" (reasons: {reasons})" if reasons else ""
    return (
        f"{n - n_answered:,} of {n:,} answers are incomplete: {', '.join(listed)}{note}{why}" if n_answered < n else ""
    )


def advise(model: str = "") -> str:
    """Say how to get the answers that are missing.

    Args:
        model: The model type; "" for any that keeps its answers.

    Returns:
        The advice.
    """
    if model == BATCH:
        return "add --write-missing FILE: it writes just the requests of these; then answer that file, too"
    return "run the same command again; it asks only these, where answers are kept"


def warn_unanswered(outcomes: Counter[str], action: str = "") -> bool:
    """Warn on stderr if more than `LIMIT` of the rows have no answer.

    Args:
        outcomes: Number of rows by outcome.
        action: Text that says what to do; `advise` by default.

    Returns:
        Whether the limit is exceeded.
    """
    n, missing = outcomes.total(), outcomes[UNANSWERED]
    if missing <= LIMIT * n:
        return False
    print(
        f"medfaith: {missing:,} of {n:,} rows ({missing / n:.1%}) have no answer, more than {LIMIT:.0%}: the results "
        f"count them as unread\n  what to do: {action or advise()}",
        file=sys.stderr,
    )
    return True
