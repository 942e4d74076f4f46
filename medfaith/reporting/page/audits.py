"""Verdicts, controls, edits of the place, findings and wordings of the audits among a report's folders."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from medfaith.loaders import csv_table

from ..tables import TITLES, count, paired_interval, percent, points, points_interval

_ACTION = "run medfaith audit again: with the same options it repeats no answer"
_TEXTS = (
    *("model", "benchmark", "rule", "uses_image", "depends_on_place", "best_blind", "failed_test", "by_other_alone"),
    *("task", "control", "edit", "subject", "wording", "by_dose", "depends_on_wording"),
)
# At this difference or more, a model declines if the evidence is missing and answers if it is in the image.
VIRTUE = 0.5
_NUMBERS = (
    *("n", "score", "other", "own_less_other", "own_low", "own_high", "own_n_differ", "blind", "reliance", "low"),
    *("high", "n_differ", "declined_rate", "declined_rate_blind", "grounding", "grounding_floor", "n_tested"),
    *(
        "n_enough",
        "n_place",
        "n_enough_place",
        "unread_rate",
        "difference",
        "parse_failure_rate",
        "n_placebo",
        "effect",
    ),
    *("floor", "floor_low", "floor_high", "net", "net_low", "net_high", "flips", "placebo_flips", "slope", "slope_low"),
    "slope_high",
)


class Words(NamedTuple):
    """A verdict as the page prints it.

    Attributes:
        text: The verdict in words.
        kind: Class of its colour.
        mark: Sign before the words, so that the meaning does not depend on colour alone.
        short: The words for narrow columns.
    """

    text: str
    kind: str
    mark: str
    short: str


IMAGE_WORDS = {  # name of the verdict in an audit's table -> words
    "uses": Words("uses the image", "yes", "✓", "yes"),
    "recalls": Words("right only on the images as stored", "recalls", "↺", "only as stored"),
    "no use": Words("makes no use of it", "no", "✗", "no"),
    "reacts": Words("reacts to images, does not read them", "reacts", "≈", "reacts only"),
    "harmed": Words("is harmed by it", "harmed", "↓", "to its harm"),
    "open": Words("cannot be told", "open", "?", "cannot be told"),
    "unanswered": Words("no verdict: too much unread or declined", "unanswered", "–", "no verdict"),
    "undefined": Words("not asked", "none", "·", "not asked"),
}
PLACE_WORDS = {
    "depends": Words("depends on the place that is asked about", "yes", "✓", "yes"),
    "no dependence": Words("does not depend on the place that is asked about", "no", "✗", "no"),
    "elsewhere": Words("depends on another place", "harmed", "↓", "another place"),
    "open": Words("cannot be told", "open", "?", "cannot be told"),
    "undefined": IMAGE_WORDS["undefined"],
}
_OLD_PLACES = {"uses": "depends", "no use": "no dependence", "harmed": "elsewhere"}  # names in older audits
_OLD_UNDEFINED = Words("no verdict: not asked, or too much unread", "unanswered", "–", "no verdict")
_UNKNOWN = Words("a verdict that this version does not know", "none", "·", "unknown")
_SENTENCE_PARTS = {  # verdict on a finding -> words before the names of the findings
    "uses": "uses the image for", "no use": "not for", "recalls": "is right only on the images as stored for",
    "reacts": "reacts to images without reading them for", "harmed": "is harmed by it for",
    "open": "cannot be told for", "unanswered": "no verdict (too much unread or declined) for",
    "undefined": "not asked for",
}  # fmt: skip
_WORDING_WORDS = {
    "wording only": "yes, it is right by the wording only", "depends": "yes, a paraphrase is worse",
    "not shown": "nothing shows it",
}  # fmt: skip


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
            names = {
                verdict: [item.name for item in findings if item.verdict == verdict] for verdict in _SENTENCE_PARTS
            }
            sentences[model] = "; ".join(
                f"{_SENTENCE_PARTS[verdict]} {', '.join(item)}" for verdict, item in names.items() if item
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


def audits(paths: Sequence[Path]) -> Audits:
    """Read the folders that `medfaith audit` wrote and finished.

    Args:
        paths: Folders; those without a finished audit are skipped. Of a model and benchmark the last folder counts.

    Returns:
        The verdicts and the tables behind them.

    Raises:
        InputError: A column is missing from a table of an audit, or a cell does not hold a number.
    """
    verdicts: dict[str, dict[str, Verdict]] = {}
    tables: list[dict[str, dict[str, list[Any]]]] = [{}, {}, {}, {}]
    for path in paths:
        if not ((path / "audit.json").is_file() and (path / "audit.csv").is_file()):
            continue
        by_benchmark: dict[str, tuple[dict[str, list[Any]], ...]] = {}
        for row in _iterate_rows(path / "audit.csv", ("model", "benchmark", "uses_image")):
            model, benchmark = row["model"], row["benchmark"]
            verdicts.setdefault(model, {})[benchmark] = _build_verdict(row)
            if benchmark not in by_benchmark:
                by_benchmark[benchmark] = _read_benchmark(path, benchmark)
            for table, by_model in zip(tables, by_benchmark[benchmark], strict=True):
                table.setdefault(benchmark, {})[model] = by_model.get(model, [])
    flat = [
        {name: [line for lines in by_model.values() for line in lines] for name, by_model in table.items()}
        for table in tables
    ]
    return Audits(verdicts, *({name: lines for name, lines in table.items() if lines} for table in flat))


def _build_verdict(row: Mapping[str, Any]) -> Verdict:
    """Build the verdicts of one row of audit.csv."""
    is_old = "rule" not in row  # older audits also call unanswered rows undefined
    image = IMAGE_WORDS.get(row["uses_image"], _UNKNOWN)
    if is_old and row["uses_image"] == "undefined":
        image = _OLD_UNDEFINED
    place_name = row.get("depends_on_place") or "undefined"
    place = PLACE_WORDS.get(_OLD_PLACES.get(place_name, place_name), _UNKNOWN)
    if place_name == "undefined" and image.kind == "unanswered":
        place = image
    numbers = {name: value for name, value in row.items() if name not in _TEXTS}
    is_attention = not is_old and math.isnan(row.get("unread_rate", math.nan))
    by_other_alone = row.get("by_other_alone") == "True"
    return Verdict(image, place, numbers, row.get("best_blind", ""), is_attention, by_other_alone)


def _read_benchmark(path: Path, benchmark: str) -> tuple[dict[str, list[Any]], ...]:
    """Read changes, edits, findings and range of wordings of one benchmark, each by model."""
    name = _format_file_name(benchmark)

    def read_by_model(end: str, needed: Sequence[str], make: Any) -> dict[str, list[Any]]:
        file, by_model = path / f"audit_{name}{end}.csv", {}
        if name and file.is_file():
            for row in _iterate_rows(file, ("model", *needed)):
                if row.get("task", "all") == "all":
                    by_model.setdefault(row["model"], []).append(make(row))
        return by_model

    wordings = read_by_model("_wordings", ("wording", "score"), lambda row: row)
    return (
        read_by_model("", ("task", "control", "score", "difference", "low", "high", "n", "n_differ"), _build_change),
        read_by_model("_edits", ("edit", "effect", "net", "net_low", "net_high"), _build_edit),
        read_by_model("_findings", ("subject", "uses_image"), _build_finding),
        {model: [*_build_wording_range(model, rows)] for model, rows in wordings.items()},
    )


def _format_file_name(benchmark: str) -> str:
    """Format the benchmark's part of an audit's file names; "" if the title is unknown."""
    return next((name.replace("-", "_") for name, title in TITLES.items() if title == benchmark), "")


def _build_change(row: Mapping[str, Any]) -> Change:
    unread, declined = (row.get(name, math.nan) for name in ("parse_failure_rate", "declined_rate"))
    numbers = {name: row[name] for name in ("score", "difference", "low", "high", "n", "n_differ")}
    return Change(row["model"], row["control"], **numbers, unread=unread, declined=declined)


def _build_edit(row: Mapping[str, Any]) -> Edit:
    def get(*names: str) -> list[float]:
        return [row.get(name, math.nan) for name in names]

    n, n_placebo = get("n", "n_placebo")
    flips, placebo_flips = get("flips", "placebo_flips")
    doses = re.findall(r"(?<!\d)(\d{1,3})%:([+-]?\d{1,3}(?:\.\d+)?)(?!\d)", row.get("by_dose", ""))
    slope = get("slope", "slope_low", "slope_high")
    return Edit(
        row["model"], row["edit"], f"{_format_count(n)}, {_format_count(n_placebo)} placebo", points(*get("effect")),
        points_interval(*get("floor", "floor_low", "floor_high")), points_interval(*get("net", "net_low", "net_high")),
        f"{percent(flips)}, placebo {percent(placebo_flips)}", points_interval(*slope),
        {int(dose): float(net) for dose, net in doses if int(dose) <= 100},
    )  # fmt: skip


def _build_finding(row: Mapping[str, Any]) -> Finding:
    verdict = row["uses_image"] if row["uses_image"] in IMAGE_WORDS else "undefined"

    def format_difference(*names: str) -> str:
        return paired_interval(*(row.get(name, math.nan) for name in names))

    return Finding(
        row["model"], row["subject"], verdict, IMAGE_WORDS[verdict], _format_count(row.get("n", math.nan)),
        format_difference("own_less_other", "own_low", "own_high", "own_n_differ"),
        format_difference("reliance", "low", "high", "n_differ"),
    )  # fmt: skip


def _build_wording_range(model: str, rows: Sequence[Mapping[str, Any]]) -> Iterator[WordingRange]:
    scores = {row["wording"].replace("_", " "): row["score"] for row in rows if not math.isnan(row["score"])}
    if scores:
        worst, best = min(scores, key=lambda name: scores[name]), max(scores, key=lambda name: scores[name])
        worst_text, best_text = (f"{percent(scores[name])} ({_format_wording(name)})" for name in (worst, best))
        spread = percent(scores[best] - scores[worst])
        verdict = _WORDING_WORDS.get(rows[0].get("depends_on_wording", ""), "–")
        yield WordingRange(model, percent(scores.get("image", math.nan)), worst_text, best_text, spread, verdict)


def _format_wording(wording: str) -> str:
    return "own words" if wording == "image" else wording


def _format_count(n: float) -> str:
    return "no" if math.isnan(n) else count(int(n))


def _format_row_counts(n: float, n_enough: float) -> str:
    """Format the number of rows, and the number that would suffice if it is larger."""
    if math.isnan(n):
        return ""
    return f"{_format_count(n)} rows" + (f"; {_format_count(n_enough)} would do" if n_enough > n else "")


def _iterate_rows(path: Path, needed: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield the rows of a table of an audit: "" and NaN for blank cells, no key for a missing column."""
    columns = [name for name in csv_table.header(path, action=_ACTION) if name in (*_TEXTS, *_NUMBERS)]
    types = {name: pa.string() if name in _TEXTS else pa.float64() for name in dict.fromkeys([*needed, *columns])}
    table = csv_table.read(path, types, action=_ACTION)
    csv_table.require_filled(table, [name for name in needed if name in _TEXTS], path, action=_ACTION)
    for row in table.to_pylist():
        yield {name: ("" if name in _TEXTS else math.nan) if value is None else value for name, value in row.items()}
