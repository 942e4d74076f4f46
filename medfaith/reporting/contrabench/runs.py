"""One model's answers to one protocol as arrays, and the scores that the tables need."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from medfaith.evaluate_metrics.polarity.errors import ASKED, chose_negated, is_error, is_from_prose
from medfaith.evaluate_metrics.polarity.score import Samples, polarity_scores
from medfaith.evaluate_metrics.reading.outcome import DECLINED, UNREAD
from medfaith.logs.lines import Logged

_PROMPTS = ("b0", "cot", "instruct", "3shot", "3shot_images", "packet")
_PUBLISHED = {"negation_form": {"canonical_no", "none", ""}, "question_form": {"original", ""}}
_TEXTS = ("id", "study", "finding", "polarity", "cue", "outcome", "unread_reason", "evidence")
_INDICES = ("answer", "negated", "counterpart", "base")
_FILTER_SCORES = {"accuracy_delta", "n_changed", "coverage", "n_improved", "n_worsened", "n_repairable_reversals"}
_ALL = slice(None)


class Setting(NamedTuple):
    """The questions and their prompt.

    Attributes:
        protocol: The protocol.
        split: train, validation or test.
        prompt: b0, cot, instruct, 3shot, 3shot_images or packet.
        negation_form: Wording of the negated option.
        question_form: Wording of the question.
        layout: Order of the options.
        images: "all" or "first" of a study.
    """

    protocol: str
    split: str
    prompt: str
    negation_form: str
    question_form: str
    layout: str
    images: str = "all"

    @property
    def internal(self) -> bool:
        """Whether it is a slice of ReXVQA (internal in the paper); all other protocols are external."""
        return self.protocol.startswith("rexvqa")

    @property
    def changed_forms(self) -> tuple[str, ...]:
        """Names of the fields whose wording differs from the published one."""
        return tuple(name for name, values in _PUBLISHED.items() if getattr(self, name) not in values)


@dataclass(frozen=True, eq=False)
class Run(Logged):
    """One model's answers in one setting, ordered by question id. Arrays have shape (n,).

    Attributes:
        setting: The setting.
        id: Question ids (strings, as all arrays up to `evidence`).
        study: Studies.
        finding: Findings.
        polarity: Polarities of the questions.
        cue: Negation cues.
        outcome: See `reading.outcome`.
        unread_reason: See `reading.outcome`.
        evidence: See `reading.outcome`.
        answer: Index of the right option.
        negated: Index of the negated option, -1 for none.
        counterpart: Index of its positive counterpart, -1 for none.
        base: Option that the model chose, -1 for none.
        wording: Index into `wordings`.
        wordings: The distinct (question, options).
        choice: Filter -> option after the filter.
        reason: Filter -> the verifier's reason.
    """

    setting: Setting
    id: np.ndarray
    study: np.ndarray
    finding: np.ndarray
    polarity: np.ndarray
    cue: np.ndarray
    outcome: np.ndarray
    unread_reason: np.ndarray
    evidence: np.ndarray
    answer: np.ndarray
    negated: np.ndarray
    counterpart: np.ndarray
    base: np.ndarray
    wording: np.ndarray
    wordings: tuple[tuple[str, tuple[str, ...]], ...]
    choice: Mapping[str, np.ndarray]
    reason: Mapping[str, np.ndarray]

    @property
    def n(self) -> int:
        """Number of questions."""
        return len(self.id)

    @property
    def ids(self) -> Collection[str]:
        """Ids of the questions."""
        return self.id.tolist()

    @property
    def unread(self) -> list[str]:
        """Ids of the questions whose answers could not be read."""
        return list(self.id[self.outcome == UNREAD])

    @property
    def declined(self) -> list[str]:
        """Ids of the questions that the model declined to answer."""
        return list(self.id[self.outcome == DECLINED])

    @property
    def variant(self) -> tuple:
        """Sort key of model and prompt: by name, then B0, CoT, Instruct, few-shot and others."""
        place = _PROMPTS.index(self.setting.prompt) if self.setting.prompt in _PROMPTS else len(_PROMPTS)
        return self.model.casefold(), self.model, self.adapter, place, self.setting.prompt, self.setting.images

    def scores(self, after: str = "m1", rows: np.ndarray | slice = _ALL) -> dict[str, Any]:
        """Compute `polarity_scores` before and after a filter.

        Args:
            after: The filter.
            rows: Indices or mask.

        Returns:
            The scores; NaN after a filter that the run does not have.
        """
        samples = Samples(
            choice=self.base[rows],
            verified=self.choice.get(after, self.base)[rows],
            answer=self.answer[rows],
            negated=self.negated[rows],
            counterpart=self.counterpart[rows],
            polarity=self.polarity[rows],
            outcome=self.outcome[rows],
            reason=self.unread_reason[rows],
            evidence=self.evidence[rows],
            finding=self.finding[rows],
        )
        scores = polarity_scores(samples)
        if after in self.choice:
            return scores
        return {
            key: float("nan") if key in _FILTER_SCORES or key.endswith("_verified") else v for key, v in scores.items()
        }

    @property
    def changed_values(self) -> str:
        """The wording that differs from the published one."""
        return ", ".join(getattr(self.setting, name) for name in self.setting.changed_forms)

    def correct(self, after: str | None = None) -> np.ndarray:
        """Whether each answer is right, before or after a filter.

        Args:
            after: The filter; None for the model's own answers.

        Returns:
            Shape (n,), 1.0 or 0.0; NaN after a filter that the run does not have.
        """
        if after is not None and after not in self.choice:
            return np.full(self.n, np.nan)
        return ((self.base if after is None else self.choice[after]) == self.answer).astype(float)

    def errors(self, *, from_prose: bool = False) -> np.ndarray:
        """Find the polarity errors.

        Args:
            from_prose: Whether to find errors read from prose, or errors read from a letter or an option's text.

        Returns:
            Mask of shape (n,).
        """
        questions = {"polarity": self.polarity, "negated": self.negated, "answer": self.answer}
        is_any_error = np.any([is_error(kind, self.base, **questions) for kind in ASKED], axis=0)
        return is_any_error & (is_from_prose(self.evidence) == from_prose)

    def chose_negated(self, after: str | None = None) -> np.ndarray:
        """Find the answers, right or wrong, that are the negated option.

        Args:
            after: The filter; None for the model's own answers.

        Returns:
            Mask of shape (n,).
        """
        return chose_negated(self.base if after is None else self.choice[after], negated=self.negated)


def count_errors(scores: Mapping[str, Any], suffix: str = "") -> float:
    """Count polarity errors (reversals and contradictions) without those read from prose.

    Args:
        scores: Scores of a run.
        suffix: "_verified" for the errors after the verifier.

    Returns:
        The number; NaN if no question can have an error.
    """
    if not scores["n_presence"] + scores["n_absence"]:
        return float("nan")
    return scores[f"n_reversals{suffix}"] + scores[f"n_contradictions{suffix}"]


def pooled(runs: Sequence[Run]) -> Run:
    """Pool the questions of several runs of one model, in the order of the runs.

    Args:
        runs: The runs.

    Returns:
        One run with the filters that all runs have.
    """
    first_run = runs[0]
    offsets = np.cumsum([0, *(len(run.wordings) for run in runs[:-1])])
    filters = set.intersection(*(set(run.choice) for run in runs))
    return Run(
        model=first_run.model,
        adapter=first_run.adapter,
        setting=first_run.setting,
        source=first_run.source,
        n_data=sum(run.n_data for run in runs),
        n_skipped=sum(run.n_skipped for run in runs),
        **{name: np.concatenate([getattr(run, name) for run in runs]) for name in (*_TEXTS, *_INDICES)},
        wording=np.concatenate([run.wording + offset for run, offset in zip(runs, offsets, strict=True)]),
        wordings=tuple(wording for run in runs for wording in run.wordings),
        choice={name: np.concatenate([run.choice[name] for run in runs]) for name in filters},
        reason={name: np.concatenate([run.reason[name] for run in runs]) for name in filters},
    )
