"""lm-eval's metrics for a user's own questions: each response is read once, and all rows are scored together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from medfaith.evaluate_metrics.confidence.score import bootstrap_mean
from medfaith.evaluate_metrics.medvqa_f1.score import closed_scores
from medfaith.evaluate_metrics.reading.choice import parse_answer
from medfaith.evaluate_metrics.reading.free_answers import compute_agreement, read_free_answer
from medfaith.evaluate_metrics.reading.outcome import ANSWERED, DECLINED, UNREAD
from medfaith.evaluate_metrics.reading.yes_no import read_yes_no
from medfaith.tasks.outcomes import is_cut
from medfaith.tasks.scoring import Scorer

from .rows import CHOICE, OPEN, YES_NO

Records = Sequence[Mapping[str, Any]]
INTERVAL = ("", "_ci_low", "_ci_high")
COUNTS = ("n_unread", "n_declined")


def read_record(doc: Mapping[str, Any], response: str) -> dict[str, Any]:
    """Read a response and score it. An unread or declined answer is wrong.

    Args:
        doc: The document.
        response: The response.

    Returns:
        outcome, said (the reading in words; None without one), patient_id, gold, and the figures of the row in [0, 1]:
        accuracy (yes/no and choice), or f1, exact and recall (open).
    """
    cut, kind = is_cut(doc), doc["answer_kind"]
    gold = doc["options"][doc["answer"]]  # the control `flipped` changes the answer
    if kind == YES_NO:
        reading = read_yes_no(response, doc["question"], cut=cut)
        outcome = reading if reading in (DECLINED, UNREAD) else ANSWERED
        said = reading if outcome == ANSWERED else None
        figures = {"accuracy": float(said == gold.casefold())}
    elif kind == CHOICE:
        answer = parse_answer(response, doc["options"], doc["question"], cut=cut)
        outcome, said = answer.outcome, None if answer.choice is None else doc["options"][answer.choice]
        figures = {"accuracy": float(answer.choice == doc["answer"])}
    else:
        free = read_free_answer(response, cut=cut)
        outcome, said = free.outcome, " ".join(free.words) if free.outcome == ANSWERED else None
        figures = dict(compute_agreement(free.words, doc["gold"])._asdict())
    return {"outcome": outcome, "said": said, "patient_id": doc["patient_id"], "gold": gold, **figures}


def compute_figures(records: Records, figures: Sequence[str]) -> dict[str, float]:
    """Compute the means of figures over rows, with intervals that resample patients, and the counts of outcomes.

    Args:
        records: The records of `read_record`.
        figures: The names of the figures.

    Returns:
        Each figure with _ci_low and _ci_high, n_unread and n_declined.
    """
    patients = [record["patient_id"] for record in records]
    scores: dict[str, float] = {}
    for name in figures:
        values = [record[name] for record in records]
        interval = bootstrap_mean(values, groups=patients, bounds=(0, 1))
        scores |= {name: interval.mean, f"{name}_ci_low": interval.low, f"{name}_ci_high": interval.high}
    outcomes = [record["outcome"] for record in records]
    return scores | {"n_unread": outcomes.count(UNREAD), "n_declined": outcomes.count(DECLINED)}


def compute_closed_figures(records: Records) -> dict[str, float]:
    """Compute accuracy with its interval, and F1 of Yes (`closed_scores`), of yes/no questions.

    Args:
        records: The records of `read_record`.

    Returns:
        The figures of `compute_figures`, and yes_no_f1 with its interval.
    """
    readings = [record["said"] or record["outcome"] for record in records]
    answers = [record["gold"].casefold() for record in records]
    f1 = closed_scores(readings, answers, groups=[record["patient_id"] for record in records])
    return compute_figures(records, ["accuracy"]) | {f"yes_no_f1{end}": f1[f"yes_no_f1{end}"] for end in INTERVAL}


def _make_scorer(compute: Callable[[Records], dict[str, float]], figures: Sequence[str]) -> Scorer:
    return Scorer(compute, (*(f"{name}{end}" for name in figures for end in INTERVAL), *COUNTS), lower=COUNTS)


FIGURES = {YES_NO: ("accuracy", "yes_no_f1"), CHOICE: ("accuracy",), OPEN: ("f1", "exact", "recall")}
SCORERS = {
    YES_NO: _make_scorer(compute_closed_figures, FIGURES[YES_NO]),
    **{kind: _make_scorer(partial(compute_figures, figures=FIGURES[kind]), FIGURES[kind]) for kind in (CHOICE, OPEN)},
}
yes_no_metrics, choice_metrics, open_metrics = (scorer.metric_list for scorer in SCORERS.values())


def process_results(doc: dict[str, Any], results: Sequence[str]) -> dict[str, Any]:
    """Compute the metric values of the answer to a question of any kind.

    Args:
        doc: The document.
        results: The response.

    Returns:
        Metric -> value of the row.
    """
    return SCORERS[doc["answer_kind"]].values(doc, read_record(doc, results[0]))
