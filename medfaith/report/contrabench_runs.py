"""One model's answers to one protocol, as arrays, and what the tables ask of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from medfaith.evaluate_metrics.polarity.errors import ASKED, chose_negated, is_error, is_from_prose
from medfaith.evaluate_metrics.polarity.score import Samples, polarity_scores
from medfaith.evaluate_metrics.reading.outcome import DECLINED, UNREAD
from medfaith.logs.lines import Logged

_PROMPTS = ("b0", "cot", "instruct", "3shot", "3shot_images", "packet")
ORIGINAL = "original"  # the layout that puts the target first
_PUBLISHED = {"negation_form": {"canonical_no", "none", ""}, "question_form": {"original", ""}}
_TEXTS = ("id", "study", "finding", "polarity", "cue", "outcome", "unread_reason", "evidence")
_INDICES = ("answer", "negated", "counterpart", "base")
_AFTER = {"accuracy_delta", "n_changed", "coverage", "n_improved", "n_worsened", "n_repairable_reversals"}
_ALL = slice(None)


class Setting(NamedTuple):
    """What was asked and how.

    split: train, validation or test; prompt: b0, cot, instruct, 3shot, 3shot_images; images: all or first of a study.
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
        """Whether it is a slice of ReXVQA, which the paper calls internal; the others are external protocols."""
        return self.protocol.startswith("rexvqa")

    @property
    def changed_forms(self) -> tuple[str, ...]:
        """Names of the fields in which the wording is not the published one."""
        return tuple(name for name, values in _PUBLISHED.items() if getattr(self, name) not in values)


@dataclass(frozen=True, eq=False)
class Run(Logged):
    """One model's answers in one setting, ordered by question id. Arrays have shape (n,).

    id, study, finding, polarity, cue, outcome, unread_reason, evidence: strings (dtype object); the last three say how
    reading went (`reading.outcome`). answer, negated, counterpart: option indices, -1 for none. wording: index into
    `wordings`, the distinct (question, options). base: the option that the model chose, -1 where none was read. choice
    and reason: by filter, the option after it and the verifier's reason.
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
        return len(self.id)

    @property
    def unread(self) -> list[str]:
        """The ids of the questions whose answers could not be read."""
        return list(self.id[self.outcome == UNREAD])

    @property
    def declined(self) -> list[str]:
        """The ids of the questions that the model declined to answer."""
        return list(self.id[self.outcome == DECLINED])

    @property
    def variant(self) -> tuple:
        """Model and prompt, so that they sort: by name, then B0, CoT, Instruct, few-shot, others."""
        place = _PROMPTS.index(self.setting.prompt) if self.setting.prompt in _PROMPTS else len(_PROMPTS)
        return self.model.casefold(), self.model, self.adapter, place, self.setting.prompt, self.setting.images

    def scores(self, after: str = "m1", rows: np.ndarray | slice = _ALL) -> dict[str, Any]:
        """`polarity_scores` of the rows (indices or mask), before and after a filter; NaN after one not run."""
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
        return {key: float("nan") if key in _AFTER or key.endswith("_verified") else v for key, v in scores.items()}

    @property
    def changed_values(self) -> str:
        """What wording the questions have where it is not the published one."""
        return ", ".join(getattr(self.setting, name) for name in self.setting.changed_forms)

    def correct(self, after: str | None = None) -> np.ndarray:
        """1.0 where the answer is right, before or after a filter; NaN after one that was not run. Shape (n,)."""
        if after is not None and after not in self.choice:
            return np.full(self.n, np.nan)
        return ((self.base if after is None else self.choice[after]) == self.answer).astype(float)

    def errors(self, *, from_prose: bool = False) -> np.ndarray:
        """Mask of shape (n,) of the polarity errors that were read from a letter or an option's text, or from prose."""
        asked = {"polarity": self.polarity, "negated": self.negated, "answer": self.answer}
        of_any_kind = np.any([is_error(kind, self.base, **asked) for kind in ASKED], axis=0)
        return of_any_kind & (is_from_prose(self.evidence) == from_prose)

    def chose_negated(self, after: str | None = None) -> np.ndarray:
        """Mask of shape (n,) of the answers, right or wrong, that are the negated option, before or after a filter."""
        return chose_negated(self.base if after is None else self.choice[after], negated=self.negated)


def n_errors(scores: Mapping[str, Any], suffix: str = "") -> float:
    """Polarity errors, without those read from prose; NaN where no question can have one.

    They are reversals and contradictions; a protocol has one of these.
    """
    if not scores["n_presence"] + scores["n_absence"]:
        return float("nan")
    return scores[f"n_reversals{suffix}"] + scores[f"n_contradictions{suffix}"]


def pooled(runs: Sequence[Run]) -> Run:
    """The questions of several runs of one model as one, in the order of the runs; filters that all of them have."""
    first = runs[0]
    offsets = np.cumsum([0, *(len(run.wordings) for run in runs[:-1])])
    filters = set.intersection(*(set(run.choice) for run in runs))
    return Run(
        model=first.model,
        adapter=first.adapter,
        setting=first.setting,
        source=first.source,
        n_data=sum(run.n_data for run in runs),
        n_skipped=sum(run.n_skipped for run in runs),
        **{name: np.concatenate([getattr(run, name) for run in runs]) for name in (*_TEXTS, *_INDICES)},
        wording=np.concatenate([run.wording + offset for run, offset in zip(runs, offsets, strict=True)]),
        wordings=tuple(wording for run in runs for wording in run.wordings),
        choice={name: np.concatenate([run.choice[name] for run in runs]) for name in filters},
        reason={name: np.concatenate([run.reason[name] for run in runs]) for name in filters},
    )
