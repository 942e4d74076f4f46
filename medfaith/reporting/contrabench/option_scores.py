"""Figure 5: option scores of the repairable failures and of their control, from logs of the option-score tasks.

Panel A needs the sample logs alone. Panel B needs the hidden states that `medfaith-hf-vlm` writes with `states_path`.
Letters that a server did not return have no score (`tasks/contrabench/option_scores.py`).
"""

from __future__ import annotations

import contextlib
import math
import re
import zipfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from medfaith.evaluate_metrics.confidence.score import bootstrap_mean
from medfaith.evaluate_metrics.polarity.option_scores import (
    StateSimilarity,
    gap_summary,
    polarity_gap,
    predicted,
    stack_options,
    state_similarity,
    subsets,
)
from medfaith.evaluate_metrics.reading.outcome import ANSWERED, UNREAD
from medfaith.loaders.errors import InputError
from medfaith.loaders.progress import Progress
from medfaith.logs.files import SampleFile
from medfaith.logs.lines import SampleError, read_lines
from medfaith.tasks.contrabench.option_scores import choices, split_scores

from ..tables import (
    MODEL,
    PROTOCOL,
    SEED,
    UNDEFINED,
    Column,
    Table,
    count,
    count_of,
    format_interval_note,
    percent,
)
from .logs import Lines, Reading, is_ours
from .names import protocol_name, sort_runs
from .runs import Run, Setting

_TASKS = ("medfaith_contrabench_option_scores", "medfaith_contrabench_letter_scores")


@dataclass(frozen=True, eq=False)
class ScoredRun(Run):
    """A run whose answers are the options with the highest score (`base`).

    Attributes:
        option_scores: Shape (n, k), log-likelihoods in nats; NaN for missing options and missing scores.
        concept_difference: Shape (n,), nats.
        similarity: Similarities of the options' hidden states; None without stored states.
    """

    in_words = False
    option_scores: np.ndarray
    concept_difference: np.ndarray
    similarity: StateSimilarity | None = None


def has_scores(file: SampleFile) -> bool:
    """Whether the log belongs to an option-score task.

    Args:
        file: The log.

    Returns:
        True for an option-score task.
    """
    return file.task.startswith(_TASKS)


def read_scored_runs(file: SampleFile, progress: Callable[[int], Any] = lambda n_bytes: None) -> list[ScoredRun]:
    """Read the runs of an option-score log, one for each setting.

    Args:
        file: The log.
        progress: Called with the number of bytes of each line read.

    Returns:
        The runs.

    Raises:
        InputError: As `logs.lines.read_lines`.
    """
    return read_lines(file, _ScoreLines, progress)


@dataclass
class _ScoreLines(Lines):
    scores: dict[int, list[float]] = field(default_factory=dict)  # by index in `rows`
    difference: dict[int, float] = field(default_factory=dict)

    @staticmethod
    def holds(sample: Any) -> bool:
        return is_ours(sample)

    def add(self, sample: Mapping[str, Any]) -> None:
        filter_readings, place = self._find_place(sample)
        doc = sample["doc"]
        self.scores[place], self.difference[place] = split_scores(doc, _parse_scores(sample["filtered_resps"], doc))
        best = int(predicted([self.scores[place]])[0])
        filter_readings[place] = Reading(
            best, best, *((ANSWERED, "") if best >= 0 else (UNREAD, "none")), "", "not_applied"
        )

    def run(self, setting: Setting, file: SampleFile, *, single: bool) -> ScoredRun:
        run = super().run(setting, file, single=single)
        scores = np.full((run.n, max(map(len, self.scores.values()))), np.nan)
        for row, place in enumerate(self.sort_places()):
            scores[row, : len(self.scores[place])] = self.scores[place]
        difference = np.array([self.difference[place] for place in self.sort_places()])
        return ScoredRun(**vars(run), option_scores=scores, concept_difference=difference)


def _parse_scores(responses: Any, doc: Mapping[str, Any]) -> list[float]:
    """Parse the scores of all continuations; lm-eval logs each as the texts (log-likelihood, greedy)."""
    try:
        values = [float(pair[0]) for pair in responses]
    except (TypeError, ValueError, LookupError) as error:
        raise SampleError("filtered_resps", f"{str(responses)[:100]} are not the scores of options") from error
    letters = _is_letter_prompt(str(doc.get("prompt")))
    expected = {len(doc["options"]), len(choices(dict(doc)))}  # earlier versions scored the options alone
    required = [value for value in values if not (letters and math.isnan(value))]
    if len(values) not in expected or not all(map(math.isfinite, required)):
        raise SampleError("filtered_resps", f"{values} are not {max(expected)} finite scores")
    return values


def _is_letter_prompt(prompt: str) -> bool:
    """Whether a prompt, without its control, scores letters."""
    return prompt.partition(",")[0] == "letters"


class _States(NamedTuple):
    """Hidden states, one record for each continuation.

    Attributes:
        task: Shape (m,), name of the task.
        id: Shape (m,), id of the row.
        option: Shape (m,), index of the continuation.
        state: Shape (m, hidden size).
    """

    task: np.ndarray
    id: np.ndarray
    option: np.ndarray
    state: np.ndarray


def read_all_states(runs: Sequence[ScoredRun], progress: Progress) -> tuple[list[ScoredRun], list[str]]:
    """Add the hidden states to the runs with stored states; memory holds one file at a time.

    Args:
        runs: The runs.
        progress: Bar over bytes; the sizes of the files raise its total.

    Returns:
        The runs without states, then the others; and a note for each missing file.

    Raises:
        InputError: As `read_states`.
    """
    files, notes = find_states(runs)
    progress.total = (progress.total or 0) + sum(path.stat().st_size for path in files)
    without = [run for run in runs if not any(run in file_runs for file_runs in files.values())]
    complete = []
    for path, file_runs in files.items():
        states = read_states(path)
        complete += [add_states(run, states) for run in file_runs]
        progress.update(path.stat().st_size)
    return without + complete, notes


def find_states(runs: Sequence[ScoredRun]) -> tuple[dict[Path, list[ScoredRun]], list[str]]:
    """Find the files with hidden states.

    A file is at its recorded path or, if it was copied with the results, next to the log under the same name.

    Args:
        runs: The runs.

    Returns:
        Path -> its runs; and a note for each missing file.
    """
    files: dict[Path, list[ScoredRun]] = {}
    notes = []
    for run in runs:
        if not run.source.states_path:
            continue
        recorded = Path(run.source.states_path)
        with contextlib.suppress(RuntimeError):  # a user (`~name`) of another machine
            recorded = recorded.expanduser()
        path_next_to_log = run.source.path.parent / recorded.name
        existing_path = next((path for path in (recorded, path_next_to_log) if path.is_file()), None)
        if existing_path:
            files.setdefault(existing_path, []).append(run)
        else:
            places = f"neither at {recorded} nor at {path_next_to_log}"
            notes.append(f"{run.model_name}, {run.source.task}: its hidden states are {places}; Figure 5B is undefined")
    return files, notes


def add_states(run: ScoredRun, states: _States) -> ScoredRun:
    """Add the similarities of the options' hidden states to a run.

    Args:
        run: The run.
        states: The hidden states of a file.

    Returns:
        The run; NaN for questions without states.
    """
    places = {name: place for place, name in enumerate(run.id)}
    row = np.array([places.get(name, -1) for name in states.id.tolist()], dtype=np.int64)
    n_options = (~np.isnan(run.option_scores)).sum(axis=1)
    # The records after a question's options are texts of the concept difference, not distractors.
    is_option = (
        (_format_log_names(states.task) == _format_log_name(run.source.task))
        & (row >= 0)
        & (states.option < n_options[row])
    )
    filled_rows, stacked = stack_options(row[is_option], states.option[is_option], states.state[is_option])
    all_states = np.full((run.n, run.option_scores.shape[1], states.state.shape[1]), np.nan)
    all_states[filled_rows, : stacked.shape[1]] = stacked
    return replace(run, similarity=state_similarity(all_states, run.negated, run.counterpart))


def read_states(path: Path) -> _States:
    """Read the file that `medfaith-hf-vlm` wrote at `states_path`.

    Args:
        path: The file.

    Returns:
        The states, with NaN for infinite values.

    Raises:
        InputError: The file is broken, an array is missing, or the shapes of the arrays do not match.
    """
    try:
        with np.load(path, allow_pickle=False) as archive:
            states = _States(*(archive[name] for name in _States._fields))
            finite_states = np.where(np.isfinite(states.state), states.state, np.nan)
    except (OSError, ValueError, TypeError, AttributeError, LookupError, EOFError, MemoryError, RuntimeError,
            zipfile.BadZipFile, zlib.error) as error:  # fmt: skip
        raise _build_states_error(path, f"cannot be read ({type(error).__name__}: {str(error)[:100]})") from error
    shapes = [array.shape for array in states]
    dtype_kinds = [array.dtype.kind for array in states]
    if len({shape[:1] for shape in shapes}) > 1 or [len(shape) for shape in shapes] != [1, 1, 1, 2]:
        raise _build_states_error(path, f"its arrays have the shapes {shapes}")
    if dtype_kinds[:2] != ["U", "U"] or dtype_kinds[2] not in "iu" or dtype_kinds[3] != "f":
        raise _build_states_error(path, f"its arrays have the types {[str(array.dtype) for array in states]}")
    records = set(zip(states.task.tolist(), states.id.tolist(), states.option.tolist(), strict=True))
    if len(records) < len(states.id) or (states.option < 0).any():
        raise _build_states_error(path, "an option is there twice, or its index is negative")
    return states._replace(state=finite_states)


def _build_states_error(path: Path, problem: str) -> InputError:
    """Build the error of a broken file."""
    expected = f"arrays {', '.join(_States._fields)}, as medfaith-hf-vlm writes them"
    return InputError(path, problem, expected=expected, action="run the task again with states_path, or move the file")


def _format_log_name(task: str) -> str:
    """Format a task as in file names, because some file systems do not allow `::`."""
    return re.sub(r"\W", "_", task)


def _format_log_names(tasks: np.ndarray) -> np.ndarray:
    names = {task: _format_log_name(task) for task in np.unique(tasks).tolist()}
    return np.array([names[task] for task in tasks.tolist()], dtype=object)


def build_polarity_gap_table(runs: Sequence[ScoredRun]) -> Table:
    """Build the table of Figure 5, with a row for each model, protocol and subset.

    Args:
        runs: Runs with option scores.

    Returns:
        The table.
    """
    rows = [row for run in sort_runs(runs) if isinstance(run, ScoredRun) for row in _compute_rows(run)]
    columns = [
        MODEL,
        PROTOCOL,
        Column("Questions", ("n_questions", "n_data"), count_of),
        Column("Gold-positive pairs", ("n_gold_positive",), count),
        Column("Subset", ("subset",)),
        Column("n", ("n",), count),
        Column("Mean gap [95% CI]", ("mean_gap", "gap_low", "gap_high"), _format_nats_interval),
        Column("Median", ("median_gap",), _format_nats),
        Column("Gap > 0 %", ("share_positive",), percent),
        Column("Concept-only difference", ("mean_concept_difference",), _format_nats),
        Column("its n", ("n_concept_difference",), count),
        Column("cos “X”, “No X”", ("similarity_negated",), _format_nats),
        Column("cos “X”, distractor", ("similarity_distractor",), _format_nats),
        Column("“No X” closer %", ("share_negated_closer",), percent),
        Column("its n", ("n_states",), count),
        Column(None, ("task",)),
        Column(None, ("date",)),
    ]
    notes = [
        "Gap: log p(“No X”) - log p(“X”) after the same prompt and images, in nats. Of the questions whose gold is the "
        "“X” of such a pair (gold-positive), safe are those where “No X” has the highest score of all options, control "
        "those where the gold has it. The paper's safe subset is where its verifier fires on the generated answer. "
        f"{format_interval_note('studies')}",
        "Concept-only difference: how much likelier the words of X are after the negated context than after the "
        "positive one, (log p(“B. No X”) - log p(“B. No”)) - (log p(“A. X”) - log p(“A.”)), in nats. The paper does "
        "not print its contexts. cos: similarity of the last layer's states at the last token of two options.",
    ]
    notes += [_format_letters_note(run) for run in sort_runs(runs) if isinstance(run, ScoredRun) and _has_letters(run)]
    return Table("figure_05_polarity_gap", "Figure 5: polarity gap of option scores", columns, rows, notes)


def _compute_rows(run: ScoredRun) -> list[list]:
    gaps = polarity_gap(run.option_scores, run.negated, run.counterpart)
    columns = (run.option_scores, run.answer, run.negated, run.counterpart)
    masks, summary = subsets(*columns), gap_summary(*columns)
    changed = [*run.setting.changed_forms, *(["letters"] if _has_letters(run) else [])]
    forms = f" ({', '.join(changed)})" if changed else ""
    rows = []
    for name, mask in (("safe", masks.safe), ("control", masks.control)):
        gap, difference = gaps[mask], run.concept_difference[mask]
        interval = bootstrap_mean(gap, groups=np.unique(run.study[mask], return_inverse=True)[1], seed=SEED)
        rows.append(
            [
                run.model_name,
                protocol_name(run) + forms,
                run.n,
                run.n_data,
                summary["n_gold_positive"],
                name,
                summary[f"n_{name}"],
                interval.mean,
                interval.low,
                interval.high,
                summary[f"median_gap_{name}"],
                summary[f"share_positive_{name}"],
                _compute_mean(difference[~np.isnan(difference)]),
                int((~np.isnan(difference)).sum()),
                *_compute_similarities(run.similarity, mask),
                run.source.task,
                run.source.date,
            ]
        )
    return rows


def _has_letters(run: ScoredRun) -> bool:
    return _is_letter_prompt(run.setting.prompt)


def _format_letters_note(run: ScoredRun) -> str:
    pairs = (run.negated >= 0) & (run.counterpart >= 0)
    n_without = int((pairs & np.isnan(polarity_gap(run.option_scores, run.negated, run.counterpart))).sum())
    return (
        f"{run.model_name}, {protocol_name(run)} (letters): the scores are of the options' letters, and not comparable "
        f"with those of texts. Questions without a score of any letter: {len(run.unread):,} of {run.n:,}. Pairs "
        f"without a gap, because one of their letters has no score: {n_without:,} of {int(pairs.sum()):,}."
    )


def _compute_similarities(similarity: StateSimilarity | None, mask: np.ndarray) -> list:
    """Compute mean similarities to negated option and distractors, share of rows with the first larger, and n."""
    if similarity is None:
        return [None, None, None, 0]
    negated, distractor = (values[mask] for values in similarity)
    is_known = ~np.isnan(negated) & ~np.isnan(distractor)
    negated, distractor = negated[is_known], distractor[is_known]
    return [_compute_mean(negated), _compute_mean(distractor), _compute_mean(negated > distractor), len(negated)]


def _compute_mean(values: np.ndarray) -> float:
    return float(np.mean(values)) if len(values) else float("nan")


def _format_nats(value: Any) -> str:
    return UNDEFINED if value is None or math.isnan(value) else f"{value:.3f}"


def _format_nats_interval(value: Any, low: Any, high: Any) -> str:
    return UNDEFINED if math.isnan(value) else f"{_format_nats(value)} [{_format_nats(low)}, {_format_nats(high)}]"
