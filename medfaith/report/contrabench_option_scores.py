"""Figure 5: option scores on the repairable failures and on their control, from the logs of the option-score tasks.

Panel A is in the sample logs. Panel B needs the hidden states that `medfaith-hf-vlm` writes with `states_path`.
Letters that a server did not list have no score (`tasks/contrabench/option_scores.py`).
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
    polarity_gap,
    predicted,
    stack_options,
    state_similarity,
    subsets,
)
from medfaith.evaluate_metrics.reading.outcome import ANSWERED, UNREAD
from medfaith.loaders.errors import InputError
from medfaith.logs.files import SampleFile
from medfaith.logs.lines import SampleError, read_lines
from medfaith.tasks.contrabench.option_scores import choices, split_scores

from .contrabench_logs import Lines, Reading, is_ours
from .contrabench_names import in_order, protocol_name
from .contrabench_runs import Run, Setting
from .tables import MODEL, PROTOCOL, SEED, UNDEFINED, Column, Table, count, count_of, percent

_TASKS = ("medfaith_contrabench_option_scores", "medfaith_contrabench_letter_scores")


@dataclass(frozen=True, eq=False)
class ScoredRun(Run):
    """A run whose answers are the options with the highest score (`base`).

    option_scores: shape (n, k), log-likelihoods in nats, NaN where a question has fewer options, or no score of one.
    concept_difference: shape (n,), nats. similarity: of the options' hidden states, None where none were kept.
    """

    option_scores: np.ndarray
    concept_difference: np.ndarray
    similarity: StateSimilarity | None = None


def holds_scores(file: SampleFile) -> bool:
    return file.task.startswith(_TASKS)


def read_scored_runs(file: SampleFile, progress: Callable[[int], Any] = lambda n_bytes: None) -> list[ScoredRun]:
    """The scored runs in a sample log of an option-score task: one a setting; see `logs.lines.read_lines`."""
    return read_lines(file, _ScoreLines, progress)


@dataclass
class _ScoreLines(Lines):
    scores: dict[int, list[float]] = field(default_factory=dict)  # by place in rows, as the next
    difference: dict[int, float] = field(default_factory=dict)

    @staticmethod
    def holds(sample: Any) -> bool:
        return is_ours(sample)

    def add(self, sample: Mapping[str, Any]) -> None:
        read, place = self._find_place(sample)
        doc = sample["doc"]
        self.scores[place], self.difference[place] = split_scores(doc, _values(sample["filtered_resps"], doc))
        best = int(predicted([self.scores[place]])[0])
        read[place] = Reading(best, best, *((ANSWERED, "") if best >= 0 else (UNREAD, "none")), "", "not_applied")

    def run(self, setting: Setting, file: SampleFile, *, single: bool) -> ScoredRun:
        run = super().run(setting, file, single=single)
        scores = np.full((run.n, max(map(len, self.scores.values()))), np.nan)
        for row, place in enumerate(self.sort_places()):
            scores[row, : len(self.scores[place])] = self.scores[place]
        difference = np.array([self.difference[place] for place in self.sort_places()])
        return ScoredRun(**vars(run), option_scores=scores, concept_difference=difference)


def _values(responses: Any, doc: Mapping[str, Any]) -> list[float]:
    """lm-eval logs every continuation's score as the pair (log-likelihood, greedy), both as text."""
    try:
        values = [float(pair[0]) for pair in responses]
    except (TypeError, ValueError, LookupError) as error:
        raise SampleError("filtered_resps", f"{str(responses)[:100]} are not the scores of options") from error
    letters = _of_letters(str(doc.get("prompt")))
    expected = {len(doc["options"]), len(choices(dict(doc)))}  # earlier versions scored the options alone
    known = [value for value in values if not (letters and math.isnan(value))]
    if len(values) not in expected or not all(map(math.isfinite, known)):
        raise SampleError("filtered_resps", f"{values} are not {max(expected)} finite scores")
    return values


def _of_letters(prompt: str) -> bool:
    """By the prompt of a setting, which also names a control."""
    return prompt.partition(",")[0] == "letters"


class _States(NamedTuple):
    """One record a continuation; state: shape (m, hidden size)."""

    task: np.ndarray
    id: np.ndarray
    option: np.ndarray
    state: np.ndarray


def find_states(runs: Sequence[ScoredRun]) -> tuple[dict[Path, list[ScoredRun]], list[str]]:
    """The files with hidden states, each with its runs, and notes on those that a run names and that are not there.

    A file is where the run wrote it, or, copied with the results, beside them under the same name.
    """
    files: dict[Path, list[ScoredRun]] = {}
    notes = []
    for run in runs:
        if not run.source.states_path:
            continue
        recorded = Path(run.source.states_path)
        with contextlib.suppress(RuntimeError):  # `~name` of another machine
            recorded = recorded.expanduser()
        beside = run.source.path.parent / recorded.name
        found = next((path for path in (recorded, beside) if path.is_file()), None)
        if found:
            files.setdefault(found, []).append(run)
        else:
            where = f"neither at {recorded} nor at {beside}"
            notes.append(f"{run.model_name}, {run.source.task}: its hidden states are {where}; Figure 5B is undefined")
    return files, notes


def with_states(run: ScoredRun, states: _States) -> ScoredRun:
    """The run with the similarity of its options' states; NaN for questions whose states the file does not have."""
    places = {name: place for place, name in enumerate(run.id)}
    row = np.array([places.get(name, -1) for name in states.id.tolist()], dtype=np.int64)
    n_options = (~np.isnan(run.option_scores)).sum(axis=1)
    # What follows a question's options are the texts of the concept difference, which are no distractors.
    ours = (_log_names(states.task) == _log_name(run.source.task)) & (row >= 0) & (states.option < n_options[row])
    kept, stacked = stack_options(row[ours], states.option[ours], states.state[ours])
    whole = np.full((run.n, run.option_scores.shape[1], states.state.shape[1]), np.nan)
    whole[kept, : stacked.shape[1]] = stacked
    return replace(run, similarity=state_similarity(whole, run.negated, run.counterpart))


def read_states(path: Path) -> _States:
    """What `medfaith-hf-vlm` wrote at `states_path`.

    Raises:
        InputError: the file is broken, lacks an array, or the arrays do not belong together.
    """
    try:
        with np.load(path, allow_pickle=False) as archive:
            states = _States(*(archive[name] for name in _States._fields))
            known = np.where(np.isfinite(states.state), states.state, np.nan)
    except (OSError, ValueError, TypeError, AttributeError, LookupError, EOFError, MemoryError, RuntimeError,
            zipfile.BadZipFile, zlib.error) as error:  # fmt: skip
        raise _broken_states(path, f"cannot be read ({type(error).__name__}: {str(error)[:100]})") from error
    shapes = [array.shape for array in states]
    kinds = [array.dtype.kind for array in states]
    if len({shape[:1] for shape in shapes}) > 1 or [len(shape) for shape in shapes] != [1, 1, 1, 2]:
        raise _broken_states(path, f"its arrays have the shapes {shapes}")
    if kinds[:2] != ["U", "U"] or kinds[2] not in "iu" or kinds[3] != "f":
        raise _broken_states(path, f"its arrays have the types {[str(array.dtype) for array in states]}")
    records = set(zip(states.task.tolist(), states.id.tolist(), states.option.tolist(), strict=True))
    if len(records) < len(states.id) or (states.option < 0).any():
        raise _broken_states(path, "an option is there twice, or its index is negative")
    return states._replace(state=known)


def _broken_states(path: Path, found: str) -> InputError:
    expected = f"arrays {', '.join(_States._fields)}, as medfaith-hf-vlm writes them"
    return InputError(path, found, expected=expected, action="run the task again with states_path, or move the file")


def _log_name(task: str) -> str:
    """File systems do not all take the `::` of a task in a group."""
    return re.sub(r"\W", "_", task)


def _log_names(tasks: np.ndarray) -> np.ndarray:
    names = {task: _log_name(task) for task in np.unique(tasks).tolist()}
    return np.array([names[task] for task in tasks.tolist()], dtype=object)


def polarity_gap_table(runs: Sequence[ScoredRun]) -> Table:
    """Figure 5, a row for each model, protocol and subset."""
    rows = [row for run in in_order(runs) if isinstance(run, ScoredRun) for row in _rows(run)]
    columns = [
        MODEL, PROTOCOL, Column("Questions", ("n_questions", "n_data"), count_of),
        Column("Gold-positive pairs", ("n_gold_positive",), count), Column("Subset", ("subset",)),
        Column("n", ("n",), count), Column("Mean gap [95% CI]", ("mean_gap", "gap_low", "gap_high"), _nats_interval),
        Column("Median", ("median_gap",), _nats), Column("Gap > 0 %", ("share_positive",), percent),
        Column("Concept-only difference", ("mean_concept_difference",), _nats),
        Column("its n", ("n_concept_difference",), count),
        Column("cos “X”, “No X”", ("similarity_negated",), _nats),
        Column("cos “X”, distractor", ("similarity_distractor",), _nats),
        Column("“No X” closer %", ("share_negated_closer",), percent), Column("its n", ("n_states",), count),
        Column(None, ("task",)), Column(None, ("date",)),
    ]  # fmt: skip
    notes = [
        "Gap: log p(“No X”) - log p(“X”) after the same prompt and images, in nats. Of the questions whose gold is the "
        "“X” of such a pair (gold-positive), safe are those where “No X” has the highest score of all options, control "
        "those where the gold has it. The paper's safe subset is where its verifier fires on the generated answer. "
        f"Intervals: 95% bootstrap over studies, 2,000 resamples, seed {SEED}.",
        "Concept-only difference: how much likelier the words of X are after the negated context than after the "
        "positive one, (log p(“B. No X”) - log p(“B. No”)) - (log p(“A. X”) - log p(“A.”)), in nats. The paper does "
        "not print its contexts. cos: similarity of the last layer's states at the last token of two options.",
    ]
    notes += [_letters_note(run) for run in in_order(runs) if isinstance(run, ScoredRun) and _letters(run)]
    return Table("figure_05_polarity_gap", "Figure 5: polarity gap of option scores", columns, rows, notes)


def _rows(run: ScoredRun) -> list[list]:
    gaps = polarity_gap(run.option_scores, run.negated, run.counterpart)
    parts = subsets(run.option_scores, run.answer, run.negated, run.counterpart)
    changed = [*run.setting.changed_forms, *(["letters"] if _letters(run) else [])]
    forms = f" ({', '.join(changed)})" if changed else ""
    rows = []
    for name, mask in (("safe", parts.safe), ("control", parts.control)):
        gap, difference = gaps[mask], run.concept_difference[mask]
        interval = bootstrap_mean(gap, groups=np.unique(run.study[mask], return_inverse=True)[1], seed=SEED)
        rows.append(
            [run.model_name, protocol_name(run) + forms, run.n, run.n_data, int(parts.gold_positive.sum()), name,
             len(gap), interval.mean, interval.low, interval.high, *(_mean(gap, np.median), _mean(gap > 0)),
             _mean(difference[~np.isnan(difference)]), int((~np.isnan(difference)).sum()),
             *_similarities(run.similarity, mask), run.source.task, run.source.date]
        )  # fmt: skip
    return rows


def _letters(run: ScoredRun) -> bool:
    return _of_letters(run.setting.prompt)


def _letters_note(run: ScoredRun) -> str:
    pairs = (run.negated >= 0) & (run.counterpart >= 0)
    n_without = int((pairs & np.isnan(polarity_gap(run.option_scores, run.negated, run.counterpart))).sum())
    return (
        f"{run.model_name}, {protocol_name(run)} (letters): the scores are of the options' letters, and not comparable "
        f"with those of texts. Questions without a score of any letter: {len(run.unread):,} of {run.n:,}. Pairs "
        f"without a gap, because one of their letters has no score: {n_without:,} of {int(pairs.sum()):,}."
    )


def _similarities(similarity: StateSimilarity | None, mask: np.ndarray) -> list:
    """Mean similarity to the negated option and to distractors, share of rows where the first is larger, their n."""
    if similarity is None:
        return [None, None, None, 0]
    negated, distractor = (values[mask] for values in similarity)
    both = ~np.isnan(negated) & ~np.isnan(distractor)
    negated, distractor = negated[both], distractor[both]
    return [_mean(negated), _mean(distractor), _mean(negated > distractor), len(negated)]


def _mean(values: np.ndarray, average: Callable[[np.ndarray], Any] = np.mean) -> float:
    return float(average(values)) if len(values) else float("nan")


def _nats(value: Any) -> str:
    return UNDEFINED if value is None or math.isnan(value) else f"{value:.3f}"


def _nats_interval(value: Any, low: Any, high: Any) -> str:
    return UNDEFINED if math.isnan(value) else f"{_nats(value)} [{_nats(low)}, {_nats(high)}]"
