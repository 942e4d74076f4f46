"""The scorer and the metric of our tasks in Inspect. They need only a log, so `inspect score` may change the filter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from inspect_ai.scorer import CORRECT, INCORRECT, Metric, SampleScore, Score, Scorer, Target, metric, scorer
from inspect_ai.solver import TaskState

from ...evaluate_metrics.reading.yes_no import read_yes_no
from ...loaders.errors import MedfaithError
from ..outcomes import CUT, OUTCOME, is_cut
from . import questions

RIGHT = ("accuracy", "yes_no_accuracy", "open_exact_match")  # metrics that tell whether a single answer is right
OPTIONS = {
    "--root ": "-T roots=",
    "--skip-missing-images": "-T skip_missing_images=true",
}  # option of our commands -> option of Inspect


@metric(name="lm_eval", scores="unreduced")
def figures() -> Metric:
    """Build the metric that computes lm-eval's figures.

    The metric reads the answers again, since a log cannot hold all inputs of an aggregation.
    """

    def compute(scores: list[SampleScore]) -> dict[str, float]:
        rows = sorted(((item.sample_metadata or {}, item.score) for item in scores), key=lambda pair: pair[0]["row"])
        scored_items = [
            _score_answer(_add_outcome(*row), row[1].explanation or "", _get_metadata(row[1])["filter"])[1]
            for row in rows
        ]
        return questions.aggregate(questions.load_settings(rows[0][0]["task"]), scored_items) if rows else {}

    return compute


@scorer(metrics=[figures()])
def answers(filter: str | None = None) -> Scorer:
    """Build the scorer, which tells whether each answer is right and how it was read.

    The value is "n/a" if only all answers together have a score. The scorer needs only the log, neither rows nor
    images.

    Args:
        filter: Name of the filter, as in `lm_eval`.

    Returns:
        The scorer.
    """

    async def score(state: TaskState, target: Target) -> Score:
        output, text, value = state.output, state.output.completion, "n/a"
        outcome = {OUTCOME: CUT} if output.choices and output.stop_reason == "max_tokens" else {}
        doc = state.metadata | outcome
        config = questions.load_settings(doc["task"])
        try:
            filter_name = questions.choose_filter(config, filter)
        except MedfaithError as error:
            raise stop(error) from None
        reading_text, row_items = _score_answer(doc, text, filter_name)
        if name := next((name for name in RIGHT if name in row_items), None):
            value = CORRECT if questions.aggregate(config, [{name: row_items[name]}])[name] else INCORRECT
        elif doc.get("question_type") == "closed":  # one question of a pair
            parsed_answer = read_yes_no(text, doc["question"], cut=is_cut(doc))
            value = CORRECT if parsed_answer == target.text.casefold() else INCORRECT
        return Score(value=value, answer=reading_text, explanation=text, metadata={"filter": filter_name, **outcome})

    return score


def _score_answer(doc: Mapping[str, Any], text: str, filter_name: str) -> tuple[str, dict[str, Any]]:
    config = questions.load_settings(doc["task"])
    filtered_text = questions.read(config, doc, text, filter_name)
    return filtered_text, config.process_results(dict(doc), [filtered_text])


def _get_metadata(score: Score) -> dict[str, Any]:
    """Get a score's metadata, which tell how its answer was read."""
    return score.metadata or {}


def _add_outcome(doc: Mapping[str, Any], score: Score) -> Mapping[str, Any]:
    """Add the outcome of the answer to the row, as known after generation."""
    return {**doc, OUTCOME: CUT} if is_cut(_get_metadata(score)) else doc


def stop(error: MedfaithError) -> Exception:
    """Convert our error to an error that Inspect prints without a traceback, with the names of Inspect's options.

    Args:
        error: The error.

    Returns:
        The error of Inspect, to raise.
    """
    from inspect_ai._util.error import PrerequisiteError
    from rich.markup import escape  # Inspect prints by rich, which takes [words] for styles

    text = str(error)
    for our_option, inspect_option in OPTIONS.items():
        text = text.replace(our_option, inspect_option)
    return PrerequisiteError(escape(f"medfaith: {text}"))
