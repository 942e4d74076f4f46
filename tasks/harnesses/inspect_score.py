"""The scorer and the metric of our tasks in Inspect. They need a log only: `inspect score` may change the filter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from inspect_ai.scorer import CORRECT, INCORRECT, Metric, SampleScore, Score, Scorer, Target, metric, scorer
from inspect_ai.solver import TaskState

from ...evaluate_metrics.reading.yes_no import read_yes_no
from ...loaders.errors import MedfaithError
from ..outcomes import CUT, OUTCOME, is_cut
from . import questions

RIGHT = ("accuracy", "yes_no_accuracy", "open_exact_match")  # of one answer: whether it is right
OPTIONS = {
    "--root ": "-T roots=",
    "--skip-missing-images": "-T skip_missing_images=true",
}  # of the command -> of Inspect


@metric(name="lm_eval", scores="unreduced")
def figures() -> Metric:
    """lm-eval's figures of the answers, which are read again: a log cannot hold all that an aggregation takes."""

    def compute(scores: list[SampleScore]) -> dict[str, float]:
        rows = sorted(((one.sample_metadata or {}, one.score) for one in scores), key=lambda pair: pair[0]["row"])
        found = [_scored(_with_outcome(*row), row[1].explanation or "", _kept(row[1])["filter"])[1] for row in rows]
        return questions.aggregate(questions.scoring(rows[0][0]["task"]), found) if rows else {}

    return compute


@scorer(metrics=[figures()])
def answers(filter: str | None = None) -> Scorer:
    """Whether each answer is right ("n/a" where only all answers together have a score), and how it was read.

    It needs the log only, neither rows nor images. filter: as in `lm_eval`.
    """

    async def score(state: TaskState, target: Target) -> Score:
        output, text, value = state.output, state.output.completion, "n/a"
        kept = {OUTCOME: CUT} if output.choices and output.stop_reason == "max_tokens" else {}
        doc = state.metadata | kept
        config = questions.scoring(doc["task"])
        try:
            reading = questions.reading(config, filter)
        except MedfaithError as error:
            raise stop(error) from None
        read, items = _scored(doc, text, reading)
        if name := next((name for name in RIGHT if name in items), None):
            value = CORRECT if questions.aggregate(config, [{name: items[name]}])[name] else INCORRECT
        elif doc.get("question_type") == "closed":  # of a pair
            said = read_yes_no(text, doc["question"], cut=is_cut(doc))
            value = CORRECT if said == target.text.casefold() else INCORRECT
        return Score(value=value, answer=read, explanation=text, metadata={"filter": reading, **kept})

    return score


def _scored(doc: Mapping[str, Any], text: str, reading: str) -> tuple[str, dict[str, Any]]:
    config = questions.scoring(doc["task"])
    read = questions.read(config, doc, text, reading)
    return read, config.process_results(dict(doc), [read])


def _kept(score: Score) -> dict[str, Any]:
    """What a score keeps of how its answer was read."""
    return score.metadata or {}


def _with_outcome(doc: Mapping[str, Any], score: Score) -> Mapping[str, Any]:
    """The row with what became of its answer, which is known since the model was asked."""
    return {**doc, OUTCOME: CUT} if is_cut(_kept(score)) else doc


def stop(error: MedfaithError) -> Exception:
    """Our error as one that Inspect prints without a traceback, with the names of Inspect's options."""
    from inspect_ai._util.error import PrerequisiteError
    from rich.markup import escape  # Inspect prints by rich, which takes [words] for styles

    text = str(error)
    for ours, theirs in OPTIONS.items():
        text = text.replace(ours, theirs)
    return PrerequisiteError(escape(f"medfaith: {text}"))
