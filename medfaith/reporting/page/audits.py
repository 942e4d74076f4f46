"""Audits among the folders of a report, read from the tables that `medfaith audit` wrote."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from medfaith.loaders import csv_table

from ..registry import BENCHMARKS
from ..tables import UNDEFINED, fraction_interval, paired_interval, percent, points, points_interval
from .audit_results import Audits, Change, Edit, Finding, Verdict, WordingRange, format_count
from .verdict_words import IMAGE_WORDS, OLD_PLACES, OLD_UNDEFINED, PLACE_WORDS, UNKNOWN, WORDING_WORDS

_ACTION = "run medfaith audit again: with the same options it repeats no answer"
_DETECTED = ("detected", "detected_elsewhere")  # columns of the AUROC of a classifier of edited images
_TEXTS = (
    *("model", "benchmark", "rule", "uses_image", "depends_on_place", "best_blind", "failed_test", "by_other_alone"),
    *("task", "control", "edit", "subject", "wording", "by_dose", "depends_on_wording"),
)
_NUMBERS = (
    *("n", "score", "other", "own_less_other", "own_low", "own_high", "own_n_differ", "blind", "reliance", "low"),
    *("high", "n_differ", "declined_rate", "declined_rate_blind", "grounding", "grounding_floor", "n_tested"),
    *("n_enough", "n_place", "n_enough_place", "unread_rate", "difference", "parse_failure_rate", "n_placebo"),
    *("effect", "floor", "floor_low", "floor_high", "net", "net_low", "net_high", "flips", "placebo_flips", "slope"),
    *("slope_low", "slope_high"),
    *(f"{name}{end}" for name in _DETECTED for end in ("", "_low", "_high")),
)


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
    image = IMAGE_WORDS.get(row["uses_image"], UNKNOWN)
    if is_old and row["uses_image"] == "undefined":
        image = OLD_UNDEFINED
    place_name = row.get("depends_on_place") or "undefined"
    place = PLACE_WORDS.get(OLD_PLACES.get(place_name, place_name), UNKNOWN)
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
    return next((name.replace("-", "_") for name, known in BENCHMARKS.items() if known.title == benchmark), "")


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
        row["model"], row["edit"], f"{format_count(n)}, {format_count(n_placebo)} placebo", points(*get("effect")),
        points_interval(*get("floor", "floor_low", "floor_high")), points_interval(*get("net", "net_low", "net_high")),
        f"{percent(flips)}, placebo {percent(placebo_flips)}", points_interval(*slope),
        {int(dose): float(net) for dose, net in doses if int(dose) <= 100},
        " / ".join(
            fraction_interval(*get(name, f"{name}_low", f"{name}_high"))
            for name in _DETECTED
            if not math.isnan(row.get(name, math.nan))
        )
        or UNDEFINED,
    )  # fmt: skip


def _build_finding(row: Mapping[str, Any]) -> Finding:
    verdict = row["uses_image"] if row["uses_image"] in IMAGE_WORDS else "undefined"

    def format_difference(*names: str) -> str:
        return paired_interval(*(row.get(name, math.nan) for name in names))

    return Finding(
        row["model"], row["subject"], verdict, IMAGE_WORDS[verdict], format_count(row.get("n", math.nan)),
        format_difference("own_less_other", "own_low", "own_high", "own_n_differ"),
        format_difference("reliance", "low", "high", "n_differ"),
    )  # fmt: skip


def _build_wording_range(model: str, rows: Sequence[Mapping[str, Any]]) -> Iterator[WordingRange]:
    scores = {row["wording"].replace("_", " "): row["score"] for row in rows if not math.isnan(row["score"])}
    if scores:
        worst, best = min(scores, key=lambda name: scores[name]), max(scores, key=lambda name: scores[name])
        worst_text, best_text = (f"{percent(scores[name])} ({_format_wording(name)})" for name in (worst, best))
        spread = percent(scores[best] - scores[worst])
        verdict = WORDING_WORDS.get(rows[0].get("depends_on_wording", ""), "–")
        yield WordingRange(model, percent(scores.get("image", math.nan)), worst_text, best_text, spread, verdict)


def _format_wording(wording: str) -> str:
    return "own words" if wording == "image" else wording


def _iterate_rows(path: Path, needed: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield the rows of a table of an audit: column -> text or number, without the columns that the page does not use.

    A blank text is "", a blank number NaN. Raise InputError if a needed column is missing, or blank where it has texts.
    """
    columns = [name for name in csv_table.header(path, action=_ACTION) if name in (*_TEXTS, *_NUMBERS)]
    types = {name: pa.string() if name in _TEXTS else pa.float64() for name in dict.fromkeys([*needed, *columns])}
    table = csv_table.read(path, types, action=_ACTION)
    csv_table.require_filled(table, [name for name in needed if name in _TEXTS], path, action=_ACTION)
    for row in table.to_pylist():
        yield {name: ("" if name in _TEXTS else math.nan) if value is None else value for name, value in row.items()}
