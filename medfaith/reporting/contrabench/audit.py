"""Figure 13, C and D: people's judgements of failed answers (`medfaith annotate --errors`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from scipy.stats import binomtest

from medfaith.annotate.answers import ErrorJudgement
from medfaith.annotate.wording import CATEGORIES, FIXES

from ..tables import Column, Table, count, interval

_NOTE = (
    "Failed answers, drawn by chance among the wrong, the declined and the unread ones with the image; each judgement "
    "counts, also of two people on one answer. 95% intervals: Wilson's. The paper's own categories stand in its figure "
    "alone."
)


def build_audit_tables(judgements: Sequence[ErrorJudgement]) -> list[Table]:
    """Build the table of judgements.

    Args:
        judgements: People's judgements of failed answers.

    Returns:
        One table; none without judgements.
    """
    if not judgements:
        return []
    n, fixes = len(judgements), list(FIXES)
    n_by_category = Counter(judgement.category for judgement in judgements)
    n_by_category_and_fix = Counter((judgement.category, judgement.fix) for judgement in judgements)
    rows = []
    for category, label in (*CATEGORIES.items(), ("all", "All")):
        n_of_category = n if category == "all" else n_by_category[category]
        interval_ends = binomtest(n_of_category, n).proportion_ci(method="wilson")
        by_fix = [
            sum(n_by_category_and_fix[judgement, fix] for judgement in CATEGORIES if category in (judgement, "all"))
            for fix in fixes
        ]
        rows.append([label, n_of_category, n_of_category / n, interval_ends.low, interval_ends.high, *by_fix])
    columns = [
        Column("What went wrong", ("category",)), Column("n", ("n",), count),
        Column("Share [95% CI]", ("share", "share_low", "share_high"), interval),
        *(Column(f"Mended by: {label.lower()}", (fix,), count) for fix, label in FIXES.items()),
    ]  # fmt: skip
    people = ", ".join(
        f"{name} ({n_of_annotator:,})"
        for name, n_of_annotator in sorted(Counter(judgement.annotator for judgement in judgements).items())
    )
    title = "Figure 13, C and D: failed answers, sorted by people"
    return [Table("figure_13_manual_audit", title, columns, rows, [_NOTE, f"Judged by {people}."])]
