"""Results of audits as the page prints them: verdicts, controls, edits of the place, findings and wordings."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ..tables import UNDEFINED, count, paired_interval, percent
from .verdict_words import SENTENCE_PARTS, Words

# At this difference or more, a model declines if the evidence is missing and answers if it is in the image.
VIRTUE = 0.5


class Verdict(NamedTuple):
    """The verdicts on one model and one benchmark.

    Attributes:
        image: The verdict on the image.
        place: The verdict on the place that the question asks about.
        numbers: Column of the audit's table -> value, NaN where it is undefined or missing.
        best_blind: The blind control with the best score.
        is_attention: Whether the audit scored attention, which rule 2 compares with the blind control alone.
        by_other_alone: Whether declined or unread answers hide the comparison with every blind control.
    """

    image: Words
    place: Words
    numbers: Mapping[str, float]
    best_blind: str = ""
    is_attention: bool = False
    by_other_alone: bool = False

    def _get_numbers(self, *names: str) -> list[float]:
        return [self.numbers.get(name, math.nan) for name in names]

    def percent(self, name: str) -> str:
        """Format a share as the tables print it.

        Args:
            name: Column of the audit's table.

        Returns:
            The share in per cent, "–" if it is undefined or missing.
        """
        return percent(*self._get_numbers(name))

    @property
    def has_other(self) -> bool:
        """Whether the audit compared the own image with another patient's image."""
        return not math.isnan(*self._get_numbers("own_less_other"))

    @property
    def own_less_other(self) -> str:
        """Difference to another patient's image with its interval."""
        return paired_interval(*self._get_numbers("own_less_other", "own_low", "own_high", "own_n_differ"))

    @property
    def own_less_blind(self) -> str:
        """Difference to the best blind control with its interval."""
        return paired_interval(*self._get_numbers("reliance", "low", "high", "n_differ"))

    @property
    def enough(self) -> str:
        """The number of rows and the number that would suffice; "" unless the verdict on the image is open."""
        return _format_row_counts(*self._get_numbers("n_tested", "n_enough")) if self.image.kind == "open" else ""

    @property
    def enough_place(self) -> str:
        """The number of rows and the number that would suffice; "" unless the verdict on the place is open."""
        return _format_row_counts(*self._get_numbers("n_place", "n_enough_place")) if self.place.kind == "open" else ""

    @property
    def scores(self) -> str:
        """Scores with the own image, with another patient's image and without an image."""
        other_text = f", other {self.percent('other')}" if self.has_other else ""
        return f"Own {self.percent('score')}{other_text}, blind {self.percent('blind')}"

    @property
    def declines(self) -> str:
        """How often the model declines with the image and without it; "" if the rate is unknown."""
        declined_rate, blind = self._get_numbers("declined_rate", "declined_rate_blind")
        if math.isnan(declined_rate):
            return ""
        if not declined_rate and not blind > 0:
            return "None declined"
        if math.isnan(blind):
            return f"Declines with the image in {percent(declined_rate)}%"
        virtue = ", as it should" if blind - declined_rate >= VIRTUE else ""
        return f"Declines without an image in {percent(blind)}%{virtue}; with it in {percent(declined_rate)}%"

    @property
    def grounding(self) -> str:
        """Causal grounding with its floor; "" if it is undefined."""
        value, floor = self._get_numbers("grounding", "grounding_floor")
        if math.isnan(value):
            return ""
        floor_text = "no row shows a floor" if math.isnan(floor) else f"floor {percent(floor)}%"
        return f"causal grounding {percent(value)}%, {floor_text}"


class Change(NamedTuple):
    """Change of the score under a control or a wording, paired by row; fractions, NaN if undefined.

    Attributes:
        model: The model.
        shown: The control, the wording or "image".
        score: Mean score under it.
        difference: This score less the score with the image.
        low: Lower bound of the 95% interval.
        high: Upper bound.
        n: Rows with an answer to both.
        n_differ: Groups that differ.
        unread: Share of answers that could not be read.
        declined: Share of answers that decline.
    """

    model: str
    shown: str
    score: float
    difference: float
    low: float
    high: float
    n: float
    n_differ: float
    unread: float
    declined: float

    @property
    def text(self) -> str:
        """The difference with its interval."""
        return paired_interval(self.difference, self.low, self.high, self.n_differ)

    @property
    def unanswered(self) -> str:
        """The shares of unread and declined answers; "" if both are 0 or unknown."""
        if math.isnan(self.unread):
            return ""
        if not self.unread and not self.declined > 0:
            return ""
        return f"unread {percent(self.unread)}%, declined {percent(self.declined)}%"


class Edit(NamedTuple):
    """One kind of edit of the place, as the page prints it.

    Attributes:
        model: The model.
        kind: The kind of edit.
        n: Numbers of rows and of placebo rows.
        effect: Score after the edit elsewhere less score after the edit at the place, in points.
        floor: Effect of the edit's traces alone, with its interval.
        net: Effect less floor, with its interval.
        flips: Answers in per cent that differ between the two places.
        slope: Net effect per 100% of the place, with its interval.
        by_dose: Dose in per cent -> net effect in points.
        detected: AUROC of a classifier of edited and plain images, at the place and elsewhere; "–" if not measured.
    """

    model: str
    kind: str
    n: str
    effect: str
    floor: str
    net: str
    flips: str
    slope: str
    by_dose: Mapping[int, float]
    detected: str = UNDEFINED


class Finding(NamedTuple):
    """The verdict on one finding, anatomy or instrument, with its figures as printed.

    Attributes:
        model: The model.
        name: The finding, anatomy or instrument.
        verdict: Name of the verdict, a key of `IMAGE_WORDS`.
        words: The verdict as the page prints it.
        n: Number of rows.
        own_less_other: Difference to another patient's image with its interval.
        own_less_blind: Difference to the best blind control with its interval.
    """

    model: str
    name: str
    verdict: str
    words: Words
    n: str
    own_less_other: str
    own_less_blind: str


class WordingRange(NamedTuple):
    """Scores of one model over the wordings, as printed.

    Attributes:
        model: The model.
        own: Score with the question's own words.
        worst: Lowest score, and its wording.
        best: Highest score, and its wording.
        spread: Best less worst, in points.
        verdict: Whether the score depends on the wording, in words; "–" if the audit does not record it.
    """

    model: str
    own: str
    worst: str
    best: str
    spread: str
    verdict: str


class Audits(NamedTuple):
    """The results of all audits.

    Attributes:
        verdicts: Model -> benchmark -> its verdict.
        changes: Benchmark -> a line for each model and condition, including the own image.
        edits: Benchmark -> a line for each model and kind of edit.
        findings: Benchmark -> a line for each model and finding.
        wordings: Benchmark -> a line for each model.
    """

    verdicts: Mapping[str, Mapping[str, Verdict]]
    changes: Mapping[str, Sequence[Change]]
    edits: Mapping[str, Sequence[Edit]] = {}
    findings: Mapping[str, Sequence[Finding]] = {}
    wordings: Mapping[str, Sequence[WordingRange]] = {}

    @property
    def benchmarks(self) -> list[str]:
        """Benchmarks in the order of the audits."""
        return list(dict.fromkeys(name for verdicts in self.verdicts.values() for name in verdicts))

    def summarize_findings(self, benchmark: str) -> dict[str, str]:
        """Summarize for each model the findings for which it uses the image, and the others.

        Args:
            benchmark: Title of the benchmark.

        Returns:
            Model -> a sentence.
        """
        sentences = {}
        for model, findings in group_by_model(self.findings[benchmark]).items():
            names = {verdict: [item.name for item in findings if item.verdict == verdict] for verdict in SENTENCE_PARTS}
            sentences[model] = "; ".join(
                f"{SENTENCE_PARTS[verdict]} {', '.join(item)}" for verdict, item in names.items() if item
            )
        return sentences


def group_by_model(lines: Sequence[Any]) -> dict[str, list[Any]]:
    """Group lines by their model, in their order.

    Args:
        lines: Objects with a field `model`.

    Returns:
        Model -> its lines.
    """
    groups: dict[str, list[Any]] = {}
    for line in lines:
        groups.setdefault(line.model, []).append(line)
    return groups


def format_count(n: float) -> str:
    """Format a number of rows.

    Args:
        n: The number, NaN if it is undefined.

    Returns:
        The number, "no" if it is undefined.
    """
    return "no" if math.isnan(n) else count(int(n))


def _format_row_counts(n: float, n_enough: float) -> str:
    """Format the number of rows, and the number that would suffice if it is larger."""
    if math.isnan(n):
        return ""
    return f"{format_count(n)} rows" + (f"; {format_count(n_enough)} would do" if n_enough > n else "")
