"""The scorer and the metric of our tasks in Inspect. They need only a log, so `inspect score` may change the filter."""

from __future__ import annotations

import re
import string
from collections.abc import Mapping, Sequence
from typing import Any

from inspect_ai.scorer import CORRECT, INCORRECT, Metric, SampleScore, Score, Scorer, Target, metric, scorer
from inspect_ai.solver import TaskState

from ...evaluate_metrics.reading.outcome import ANSWERED, DECLINED, UNREAD
from ...loaders.errors import MedfaithError
from ..outcomes import END, OUTCOME
from ..scoring import read_logged_values
from ..stated_boxes import EMPTY, OVERLAP
from . import questions
from .inspect_subtasks import DOC, LABEL, READINGS, RESPONSE

OPTIONS = {
    "--root ": "-T roots=",
    "--skip-missing-images": "-T skip_missing_images=true",
    "--send-images-to ": "-T send_images_to=",
    "--i-have-permission ": "-T i_have_permission=",
}  # option of our commands -> option of Inspect


@metric(name="lm_eval", scores="unreduced")
def figures() -> Metric:
    """Build the metric that computes lm-eval's figures, with their intervals.

    The figures of a task of several subtasks begin with the subtask: "medfaith_heal_vindr_closed/none/yes_no_f1".
    """

    def compute(scores: list[SampleScore]) -> dict[str, float]:
        rows_by_subtask: dict[tuple[int, str, str], dict[int, Mapping[str, Any]]] = {}
        for item in scores:
            sample, score = item.sample_metadata or {}, item.score.metadata or {}
            subtask = sample["part"], sample["task"], sample[LABEL]
            rows_by_subtask.setdefault(subtask, {})[sample["row"]] = score["values"]
        figures: dict[str, float] = {}
        for (_, task, label), values_by_row in sorted(rows_by_subtask.items()):
            subtask_figures = compute_figures(task, [values_by_row[row] for row in sorted(values_by_row)])
            figures |= {f"{label}{name}": value for name, value in subtask_figures.items()}
        return figures

    return compute


def compute_figures(task: str, logged_values: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Compute lm-eval's figures of a task from logged values.

    Args:
        task: Name of the task.
        logged_values: Values of `process_results` for each row, in the order of the rows.

    Returns:
        Value by metric.
    """
    items = [read_logged_values({"metrics": [*values], **values}) for values in logged_values]
    return questions.aggregate(questions.load_settings(task), items)


@scorer(metrics=[figures()])
def answers(filter: str | None = None) -> Scorer:
    """Build the scorer, which tells whether each answer is right and how it was read.

    The metadata of a score name the filter, the outcome of reading (answered, declined or unread), the outcome of the
    request, the reason for the end of the answer if it is no regular one, and the logged values that yield lm-eval's
    figures.

    Args:
        filter: Name of the filter, as in `lm_eval`.

    Returns:
        The scorer.
    """

    async def score(state: TaskState, target: Target) -> Score:
        task = state.metadata["task"]
        try:
            filter_name = questions.choose_filter(questions.load_settings(task), filter)
        except MedfaithError as error:
            raise stop(error) from None
        reading = state.metadata[READINGS][filter_name]
        is_right = _is_right(task, reading["values"], target.text)
        columns = {name: state.metadata[DOC][name] for name in (OUTCOME, END)}
        outcomes = {"outcome": find_reading(reading["values"]), **columns}
        return Score(
            value=CORRECT if is_right else INCORRECT,
            answer=_format_answer(reading["filtered"]),
            explanation=state.metadata[RESPONSE],
            metadata={"filter": filter_name, **outcomes, "values": reading["values"]},
        )

    return score


def _format_answer(filtered: str | Sequence[tuple[float, bool]]) -> str:
    """Return the filter's reading; of scores of letters, the likeliest letter, or "" if none is listed."""
    if isinstance(filtered, str):
        return filtered
    return next((letter for letter, (_, best) in zip(string.ascii_uppercase, filtered, strict=False) if best), "")


def find_reading(values: Mapping[str, Any]) -> str:
    """Return the outcome of reading an answer, from the logged values of its row.

    Args:
        values: Logged values of its row.

    Returns:
        answered, declined or unread.
    """
    if "parse_failure_rate" in values:  # CXR-ContraBench
        return UNREAD if values["parse_failure_rate"] else DECLINED if values.get("declined_rate") else ANSWERED
    record = _get_record(values)
    outcome = record.get("said") or record["outcome"]
    outcome = UNREAD if outcome == EMPTY else outcome
    return outcome if outcome in (UNREAD, DECLINED) else ANSWERED


def _is_right(task: str, values: Mapping[str, Any], target: str) -> bool:
    """Return whether the answer to a row is right; for original and perturbed rows, each row counts by itself."""
    if "accuracy" in values:  # CXR-ContraBench
        return bool(values["accuracy"])
    record = _get_record(values)
    if "said" in record:
        return record["said"] == target.casefold()
    if "iou" in record:  # stated boxes, or points
        return (record["hit"] if record["iou"] is None else record["iou"]) >= OVERLAP
    if "gold" in record:
        return {*record["gold"]} == {*(record["predicted"] or ())} and find_reading(values) == ANSWERED
    return bool(compute_figures(task, [values])["open_exact_match"])


def _get_record(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """Get the record of a row, the value of its first metric."""
    return next(value for value in values.values() if isinstance(value, dict))


def stop(error: MedfaithError) -> Exception:
    """Convert our error to an error that Inspect prints without a traceback, with the names of Inspect's options.

    Args:
        error: The error.

    Returns:
        The error of Inspect, to raise.
    """
    from inspect_ai._util.error import PrerequisiteError
    from rich.markup import escape  # Inspect prints by rich, which takes [words] for styles

    text = re.sub(r" \(plain lm_eval: .*?\)", "", str(error))
    for our_option, inspect_option in OPTIONS.items():
        text = text.replace(our_option, inspect_option)
    return PrerequisiteError(escape(f"medfaith: {text}"))
