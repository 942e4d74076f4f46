"""What the papers print for the models of a report, beside what was found here (published.toml)."""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from .contrabench_runs import ORIGINAL
from .tables import MODEL, Column, Table, fraction, percent, points

_UNITS = {"percent": 100, "fraction": 1}
_COUNTS = ("_errors", "_reversals")  # how the names of columns that count end
_COLUMNS = [MODEL, Column("Paper", ("paper",)), Column("Setting", ("setting",)), Column("Score", ("score",))]


def beside_the_papers(benchmark: str, tables: Sequence[Table]) -> list[Table]:
    """A table of the figures that the paper prints for the models of these tables; none where it prints none.

    A model is the paper's if its name is, but for its organisation, case and signs: of several that are nearly named so
    none is taken.
    """
    rows, notes, unit = [], [], ""
    for table in tables:
        for of_paper in _published():
            if table.name in (of_paper["name"], f"{of_paper['name']}_{ORIGINAL}"):
                found = [*_rows(table, of_paper)]
                notes += [f"{of_paper['paper']}: {of_paper['note']}"] if found and of_paper["note"] else []
                rows, unit = rows + found, of_paper["unit"]
    if not rows:
        return []
    show, by = (percent, points) if unit == "percent" else (fraction, _by)
    columns = [
        *_COLUMNS, Column("Published", ("published",), _or_count(show)), Column("Here", ("here",), _or_count(show)),
        Column("Difference", ("difference",), _or_count(by, "+,")),
    ]  # fmt: skip
    note = (
        "Difference: here less published. How many rows were asked here stands in the tables above. The paper asked "
        "whole splits, with checkpoints and code of its time."
    )
    name = re.sub(r"\W+", "_", f"published_{benchmark}".lower()).strip("_")
    return [Table(name, f"{benchmark}, beside the paper", columns, rows, [note, *dict.fromkeys(notes)])]


def _or_count(show: Callable[[Any], str], sign: str = ",") -> Callable[[Any], str]:
    """How a figure is printed; whole numbers are counts."""
    return lambda value: f"{value:{sign}}" if isinstance(value, int) else show(value)


def _by(value: Any) -> str:
    return f"{value + 0.0:+.3f}"


def _rows(table: Table, of_paper: Mapping[str, Any]) -> Iterator[list[Any]]:
    names = [name for column in table.columns for name in column.names]
    layout = f", {ORIGINAL} order" if table.name.endswith(f"_{ORIGINAL}") else ""
    for row in table.rows:
        ours = dict(zip(names, row, strict=True))
        for model, *values in of_paper["rows"]:
            theirs = dict(zip(of_paper["columns"], values, strict=True))
            told = [name for name, value in theirs.items() if not _is_number(value)]
            if not (_is(ours["model"], model) and all(ours.get(name) == theirs[name] for name in told)):
                continue
            setting = (", ".join(theirs[name] for name in told) + layout).strip(", ")
            for name, title in zip(of_paper["columns"], of_paper["titles"], strict=True):
                value = ours.get(name)  # a protocol that was not asked has no column
                if name in told or value is None or math.isnan(value):
                    continue
                if name.endswith(_COUNTS):
                    published, here = int(theirs[name]), int(value)
                else:
                    published, here = round(float(theirs[name]) / _UNITS[of_paper["unit"]], 6), float(value)
                yield [ours["model"], of_paper["paper"], setting, title, published, here, _difference(here, published)]


def _difference(here: float, published: float) -> float:
    """To the fourth digit, since the papers print no more."""
    return here - published if isinstance(here, int) else round(here - published, 4) + 0.0


def _is_number(value: str) -> bool:
    return re.fullmatch(r"\d+(\.\d+)?", value) is not None


def _is(ours: str, theirs: str) -> bool:
    """Whether a model of ours is the one that a paper names.

    >>> _is("google/medgemma-4b-it", "MedGemma"), _is("medgemma-27b-it", "MedGemma"), _is("LobA (Ours)", "LobA")
    (True, False, False)
    >>> _is("org/llava-med-v1.5-mistral-7b + VCD", "VCD + LLaVA-Med")  # a model and its decoder in either order
    True
    """
    parts, named = ours.split(" + "), theirs.split(" + ")
    return len(parts) == len(named) and all(any(_is_part(part, name) for part in parts) for name in named)


def _is_part(ours: str, theirs: str) -> bool:
    return _plain(ours) in {_plain(name) for name in (theirs, *_models().get(theirs, ()))}


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9+]", "", name.rsplit("/", 1)[-1].lower())


@cache
def _content() -> dict[str, Any]:
    return tomllib.loads(files("medfaith.report").joinpath("published.toml").read_text(encoding="utf-8"))


def _published() -> list[dict[str, Any]]:
    return _content()["tables"]


def _models() -> dict[str, list[str]]:
    return _content()["models"]
