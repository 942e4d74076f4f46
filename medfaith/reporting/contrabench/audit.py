"""Figure 13, C and D: people's judgements of failed answers (`medfaith annotate --errors`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from medfaith.annotate.answers import ErrorJudgement
from medfaith.annotate.wording import CATEGORIES, FIXES
from medfaith.evaluate_metrics.confidence.score import bootstrap_mean

from ..tables import SEED, Column, Table, count, format_interval_note, interval

_NOTE = (
    "Failed answers, drawn by chance among the wrong, the declined and the unread ones with the image; each judgement "
    f"counts, also of two people on one answer. {format_interval_note('questions')} The paper's own categories are "
    "in its figure alone."
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
    questions = [f"{judgement.task}\n{judgement.row_id}" for judgement in judgements]
    rows = []
    for category, label in (*CATEGORIES.items(), ("all", "All")):
        n_of_category = n if category == "all" else n_by_category[category]
        is_category = [float(judgement.category == category) for judgement in judgements]
        share = bootstrap_mean(is_category, groups=questions, seed=SEED, bounds=(0, 1))
        ends = (None, None) if category == "all" else (share.low, share.high)  # all of them are always 100%
        by_fix = [
            sum(n_by_category_and_fix[judgement, fix] for judgement in CATEGORIES if category in (judgement, "all"))
            for fix in fixes
        ]
        rows.append([label, n_of_category, n_of_category / n, *ends, *by_fix])
    columns = [
        Column("What went wrong", ("category",)), Column("n", ("n",), count),
        Column("Share [95% CI]", ("share", "share_low", "share_high"), interval),
        *(Column(f"Fixed by: {label.lower()}", (fix,), count) for fix, label in FIXES.items()),
    ]  # fmt: skip
    people = ", ".join(
        f"{name} ({n_of_annotator:,})"
        for name, n_of_annotator in sorted(Counter(judgement.annotator for judgement in judgements).items())
    )
    title = "Figure 13, C and D: failed answers, sorted by people"
    return [Table("figure_13_manual_audit", title, columns, rows, [_NOTE, f"Judged by {people}."])]
