"""Figure 13, C and D: what people say of failed answers (`medfaith annotate --errors`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from scipy.stats import binomtest

from medfaith.annotate.answers import ErrorJudgement
from medfaith.annotate.wording import CATEGORIES, FIXES

from .tables import Column, Table, count, interval

_NOTE = (
    "Failed answers, drawn by chance among the wrong, the declined and the unread ones with the image; each judgement "
    "counts, also of two people on one answer. 95% intervals: Wilson's. The paper's own categories stand in its figure "
    "alone."
)


def audit_tables(judgements: Sequence[ErrorJudgement]) -> list[Table]:
    """The table; none without judgements."""
    if not judgements:
        return []
    n, fixes = len(judgements), list(FIXES)
    of_category = Counter(one.category for one in judgements)
    of_both = Counter((one.category, one.fix) for one in judgements)
    rows = []
    for category, words in (*CATEGORIES.items(), ("all", "All")):
        own = n if category == "all" else of_category[category]
        ends = binomtest(own, n).proportion_ci(method="wilson")
        by_fix = [sum(of_both[one, fix] for one in CATEGORIES if category in (one, "all")) for fix in fixes]
        rows.append([words, own, own / n, ends.low, ends.high, *by_fix])
    columns = [
        Column("What went wrong", ("category",)), Column("n", ("n",), count),
        Column("Share [95% CI]", ("share", "share_low", "share_high"), interval),
        *(Column(f"Mended by: {words.lower()}", (fix,), count) for fix, words in FIXES.items()),
    ]  # fmt: skip
    people = ", ".join(f"{name} ({of:,})" for name, of in sorted(Counter(one.annotator for one in judgements).items()))
    title = "Figure 13, C and D: failed answers, sorted by people"
    return [Table("figure_13_manual_audit", title, columns, rows, [_NOTE, f"Judged by {people}."])]
