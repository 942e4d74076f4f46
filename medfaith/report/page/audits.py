"""What the audits among the folders of a report say: verdicts, controls, edits of the place, findings and wordings."""

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
VIRTUE = 0.5  # from this difference on, a model declines where evidence is missing, and answers where it is there
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
    """What the page says of a verdict.

    Attributes:
        text: The verdict in words.
        kind: Class of its colour.
        mark: Sign before the words, so that colour does not tell alone.
        short: The words where there is little room.
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
_FOR = {  # verdict on a finding -> how the sentence on findings goes on
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
    """One model on one benchmark.

    Attributes:
        image: The verdict on the image.
        place: The verdict on the place that is asked about.
        numbers: Column of the audit's table -> value, NaN where it is undefined or missing.
        best_blind: The blind control with the best score.
        is_attention: Whether attention was audited, which rule 2 judges against the blind control alone.
        by_other_alone: Whether declined or unread answers hide the comparison with every blind control.
    """

    image: Words
    place: Words
    numbers: Mapping[str, float]
    best_blind: str = ""
    is_attention: bool = False
    by_other_alone: bool = False

    def _of(self, *names: str) -> list[float]:
        return [self.numbers.get(name, math.nan) for name in names]

    def percent(self, name: str) -> str:
        """A share as the tables print it."""
        return percent(*self._of(name))

    @property
    def has_other(self) -> bool:
        """Whether the audit compared the own image with another one."""
        return not math.isnan(*self._of("own_less_other"))

    @property
    def own_less_other(self) -> str:
        """Difference to another patient's image with its interval."""
        return paired_interval(*self._of("own_less_other", "own_low", "own_high", "own_n_differ"))

    @property
    def own_less_blind(self) -> str:
        """Difference to the best blind control with its interval."""
        return paired_interval(*self._of("reliance", "low", "high", "n_differ"))

    @property
    def enough(self) -> str:
        """How many rows there are and would do, where the verdict on the image is open."""
        return _enough(*self._of("n_tested", "n_enough")) if self.image.kind == "open" else ""

    @property
    def enough_place(self) -> str:
        """How many rows there are and would do, where the verdict on the place is open."""
        return _enough(*self._of("n_place", "n_enough_place")) if self.place.kind == "open" else ""

    @property
    def scores(self) -> str:
        """Scores with the own image, with another one and without."""
        other = f", other {self.percent('other')}" if self.has_other else ""
        return f"Own {self.percent('score')}{other}, blind {self.percent('blind')}"

    @property
    def declines(self) -> str:
        """How often the model declines with the image and without; "" where that is unknown."""
        own, blind = self._of("declined_rate", "declined_rate_blind")
        if math.isnan(own):
            return ""
        if not own and not blind > 0:
            return "None declined"
        if math.isnan(blind):
            return f"Declines with the image in {percent(own)}%"
        virtue = ", as it should" if blind - own >= VIRTUE else ""
        return f"Declines without an image in {percent(blind)}%{virtue}; with it in {percent(own)}%"

    @property
    def grounding(self) -> str:
        """Causal grounding with its floor; "" where it is undefined."""
        value, floor = self._of("grounding", "grounding_floor")
        if math.isnan(value):
            return ""
        known = "no row shows a floor" if math.isnan(floor) else f"floor {percent(floor)}%"
        return f"causal grounding {percent(value)}%, {known}"


class Change(NamedTuple):
    """What a control or a wording changes, paired by row; fractions, NaN where undefined.

    Attributes:
        model: The model.
        shown: The control, the wording or "image".
        score: Mean score under it.
        difference: That score less the one with the image.
        low: Lower bound of the 95% interval.
        high: Upper bound.
        n: Rows that both answer.
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
        """The shares of unread and declined answers; "" where there are none, or where they are unknown."""
        if math.isnan(self.unread):
            return ""
        if not self.unread and not self.declined > 0:
            return ""
        return f"unread {percent(self.unread)}%, declined {percent(self.declined)}%"


class Edit(NamedTuple):
    """One kind of edit of the place, as the page prints it; by_dose: dose in per cent -> net effect in points."""

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
    """The verdict on one finding, anatomy or instrument, and its figures as printed."""

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
        verdict: Whether the wording decides, in words; "–" in audits that do not say.
    """

    model: str
    own: str
    worst: str
    best: str
    spread: str
    verdict: str


class Audits(NamedTuple):
    """What all audits say.

    Attributes:
        verdicts: Model -> benchmark -> its verdict.
        changes: Benchmark -> a line for each model and condition, the own image among them.
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
        return list(dict.fromkeys(name for of in self.verdicts.values() for name in of))

    def summarize_findings(self, benchmark: str) -> dict[str, str]:
        """Model -> a sentence on the findings for which it uses the image, and for which not."""
        sentences = {}
        for model, own in group_by_model(self.findings[benchmark]).items():
            names = {verdict: [of.name for of in own if of.verdict == verdict] for verdict in _FOR}
            sentences[model] = "; ".join(f"{_FOR[verdict]} {', '.join(of)}" for verdict, of in names.items() if of)
        return sentences


def group_by_model(lines: Sequence[Any]) -> dict[str, list[Any]]:
    """Group lines by their model, in their order."""
    groups: dict[str, list[Any]] = {}
    for line in lines:
        groups.setdefault(line.model, []).append(line)
    return groups


def audits(paths: Sequence[Path]) -> Audits:
    """Read the folders that `medfaith audit` wrote and finished; of a model and benchmark the last folder counts.

    Raises:
        InputError: A table of an audit is broken: a column is missing or a number is none.
    """
    verdicts: dict[str, dict[str, Verdict]] = {}
    parts: list[dict[str, dict[str, list[Any]]]] = [{}, {}, {}, {}]
    for path in paths:
        if not ((path / "audit.json").is_file() and (path / "audit.csv").is_file()):
            continue
        read: dict[str, tuple[dict[str, list[Any]], ...]] = {}
        for row in _rows(path / "audit.csv", ("model", "benchmark", "uses_image")):
            model, benchmark = row["model"], row["benchmark"]
            verdicts.setdefault(model, {})[benchmark] = _verdict(row)
            if benchmark not in read:
                read[benchmark] = _of_benchmark(path, benchmark)
            for part, by_model in zip(parts, read[benchmark], strict=True):
                part.setdefault(benchmark, {})[model] = by_model.get(model, [])
    flat = [
        {name: [one for of in by_model.values() for one in of] for name, by_model in part.items()} for part in parts
    ]
    return Audits(verdicts, *({name: of for name, of in part.items() if of} for part in flat))


def _verdict(row: Mapping[str, Any]) -> Verdict:
    is_old = "rule" not in row  # undefined also means unanswered there
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


def _of_benchmark(path: Path, benchmark: str) -> tuple[dict[str, list[Any]], ...]:
    """Model -> its changes, edits, findings and range of wordings."""
    name = _file_name(benchmark)

    def by_model(end: str, needed: Sequence[str], make: Any) -> dict[str, list[Any]]:
        file, found = path / f"audit_{name}{end}.csv", {}
        if name and file.is_file():
            for row in _rows(file, ("model", *needed)):
                if row.get("task", "all") == "all":
                    found.setdefault(row["model"], []).append(make(row))
        return found

    wordings = by_model("_wordings", ("wording", "score"), lambda row: row)
    return (
        by_model("", ("task", "control", "score", "difference", "low", "high", "n", "n_differ"), _change),
        by_model("_edits", ("edit", "effect", "net", "net_low", "net_high"), _edit),
        by_model("_findings", ("subject", "uses_image"), _finding),
        {model: [*_wording_range(model, rows)] for model, rows in wordings.items()},
    )


def _file_name(benchmark: str) -> str:
    """Name the benchmark's files as an audit does; "" for a title that is no benchmark's."""
    return next((name.replace("-", "_") for name, title in TITLES.items() if title == benchmark), "")


def _change(row: Mapping[str, Any]) -> Change:
    unread, declined = (row.get(name, math.nan) for name in ("parse_failure_rate", "declined_rate"))
    numbers = {name: row[name] for name in ("score", "difference", "low", "high", "n", "n_differ")}
    return Change(row["model"], row["control"], **numbers, unread=unread, declined=declined)


def _edit(row: Mapping[str, Any]) -> Edit:
    def of(*names: str) -> list[float]:
        return [row.get(name, math.nan) for name in names]

    n, n_placebo = of("n", "n_placebo")
    flips, placebo_flips = of("flips", "placebo_flips")
    doses = re.findall(r"(?<!\d)(\d{1,3})%:([+-]?\d{1,3}(?:\.\d+)?)(?!\d)", row.get("by_dose", ""))
    slope = of("slope", "slope_low", "slope_high")
    return Edit(
        row["model"], row["edit"], f"{_count(n)}, {_count(n_placebo)} placebo", points(*of("effect")),
        points_interval(*of("floor", "floor_low", "floor_high")), points_interval(*of("net", "net_low", "net_high")),
        f"{percent(flips)}, placebo {percent(placebo_flips)}", points_interval(*slope),
        {int(dose): float(net) for dose, net in doses if int(dose) <= 100},
    )  # fmt: skip


def _finding(row: Mapping[str, Any]) -> Finding:
    verdict = row["uses_image"] if row["uses_image"] in IMAGE_WORDS else "undefined"

    def difference(*names: str) -> str:
        return paired_interval(*(row.get(name, math.nan) for name in names))

    return Finding(
        row["model"], row["subject"], verdict, IMAGE_WORDS[verdict], _count(row.get("n", math.nan)),
        difference("own_less_other", "own_low", "own_high", "own_n_differ"),
        difference("reliance", "low", "high", "n_differ"),
    )  # fmt: skip


def _wording_range(model: str, rows: Sequence[Mapping[str, Any]]) -> Iterator[WordingRange]:
    scores = {row["wording"].replace("_", " "): row["score"] for row in rows if not math.isnan(row["score"])}
    if scores:
        worst, best = min(scores, key=lambda name: scores[name]), max(scores, key=lambda name: scores[name])
        least, most = (f"{percent(scores[name])} ({_named(name)})" for name in (worst, best))
        spread = percent(scores[best] - scores[worst])
        verdict = _WORDING_WORDS.get(rows[0].get("depends_on_wording", ""), "–")
        yield WordingRange(model, percent(scores.get("image", math.nan)), least, most, spread, verdict)


def _named(wording: str) -> str:
    return "own words" if wording == "image" else wording


def _count(n: float) -> str:
    return "no" if math.isnan(n) else count(int(n))


def _enough(n: float, n_enough: float) -> str:
    if math.isnan(n):
        return ""
    return f"{_count(n)} rows" + (f"; {_count(n_enough)} would do" if n_enough > n else "")


def _rows(path: Path, needed: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield rows: texts "" and numbers NaN where a cell is blank. Columns that the file lacks are not there."""
    known = [name for name in csv_table.header(path, action=_ACTION) if name in (*_TEXTS, *_NUMBERS)]
    types = {name: pa.string() if name in _TEXTS else pa.float64() for name in dict.fromkeys([*needed, *known])}
    table = csv_table.read(path, types, action=_ACTION)
    csv_table.require_filled(table, [name for name in needed if name in _TEXTS], path, action=_ACTION)
    for row in table.to_pylist():
        yield {name: ("" if name in _TEXTS else math.nan) if value is None else value for name, value in row.items()}
