"""What the audits among the folders of a report say: verdicts, and what each control changes."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from ..tables import TITLES, paired_interval, percent
from .cases import IMAGE

VERDICTS = {  # as an audit's table names them -> what the page says, and the class of its colour
    "uses": ("uses the image", "yes"),
    "no use": ("makes no use of it", "no"),
    "harmed": ("is harmed by it", "no"),
    "open": ("cannot be told", "open"),
    "undefined": ("not asked", "none"),
}
ELSEWHERE = "at another place"
PLACES = {  # likewise, of the place that is asked about; nothing is said of the place of who does not use the image
    "uses": "at the place that is asked about",
    "no use": "not at the place that is asked about",
    "harmed": ELSEWHERE,
    "open": "at which place cannot be told",
}


class Verdict(NamedTuple):
    """One cell of the matrix. word, kind: of VERDICTS; score, blind, reliance: as printed; place: of PLACES, or ""."""

    word: str
    kind: str
    score: str
    blind: str
    reliance: str
    place: str = ""


class Change(NamedTuple):
    """What a control changes, paired by row: a difference of scores and its interval, fractions, and as printed."""

    model: str
    shown: str
    difference: float
    low: float
    high: float
    n: int
    n_differ: float

    @property
    def text(self) -> str:
        return paired_interval(self.difference, self.low, self.high, self.n_differ)


class Audits(NamedTuple):
    """verdicts: model -> benchmark -> its verdict. changes: benchmark -> a line for each model and control."""

    verdicts: Mapping[str, Mapping[str, Verdict]]
    changes: Mapping[str, Sequence[Change]]

    @property
    def benchmarks(self) -> list[str]:
        return list(dict.fromkeys(name for of in self.verdicts.values() for name in of))


def audits(paths: Sequence[Path]) -> Audits:
    """Those among the folders that `medfaith audit` wrote, and finished."""
    verdicts: dict[str, dict[str, Verdict]] = {}
    changes: dict[str, list[Change]] = {}
    for path in paths:
        if not ((path / "audit.json").is_file() and (path / "audit.csv").is_file()):
            continue
        for row in _rows(path / "audit.csv"):
            word, kind = VERDICTS.get(row["uses_image"], VERDICTS["undefined"])
            score, blind, *difference = _numbers(row, "score", "blind", "reliance", "low", "high", "n_differ")
            place = PLACES.get(row["depends_on_place"], "") if row["uses_image"] == "uses" else ""
            printed = percent(score), percent(blind), paired_interval(*difference), place
            verdicts.setdefault(row["model"], {})[row["benchmark"]] = Verdict(word, kind, *printed)
            of_benchmark = path / f"audit_{_file_name(row['benchmark'])}.csv"
            if of_benchmark.is_file():
                changes.setdefault(row["benchmark"], []).extend(_changes(of_benchmark, row["model"]))
    return Audits(verdicts, changes)


def _changes(path: Path, model: str) -> Iterator[Change]:
    for row in _rows(path):
        if row["model"] == model and row["task"] == "all" and row["control"] != IMAGE and row["difference"]:
            difference, low, high, n_differ = _numbers(row, "difference", "low", "high", "n_differ")
            yield Change(model, row["control"], difference, low, high, int(row["n"]), n_differ)


def _file_name(benchmark: str) -> str:
    """As an audit names its files: by the benchmark's own name, in small letters and _."""
    names = {title: name for name, title in TITLES.items()}
    return names.get(benchmark, benchmark).replace("-", "_")


def _rows(path: Path) -> Iterator[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        yield from csv.DictReader(file)


def _numbers(row: Mapping[str, str], *names: str) -> list[float]:
    return [float(row[name] or "nan") for name in names]
