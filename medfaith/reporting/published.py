"""Figures that the papers print for the models of a report, next to the report's own.

Each benchmark's folder has its paper's figures in `published.toml`.
"""

from __future__ import annotations

import inspect
import math
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from .benchmark import ReportedBenchmark
from .tables import MODEL, ORIGINAL, Column, Table, fraction, percent, points

_UNITS = {"percent": 100, "fraction": 1}
_COLUMNS = [MODEL, Column("Paper", ("paper",)), Column("Setting", ("setting",)), Column("Score", ("score",))]


def build_published_tables(benchmark: ReportedBenchmark, tables: Sequence[Table]) -> list[Table]:
    """Build a table of the figures that the paper prints for the models of these tables.

    A model matches a paper's model if their names are equal without organisation, case and punctuation. The other keys
    of a row (prompt, protocol, finding and so on) equal the values of the report's table.

    Args:
        benchmark: The benchmark.
        tables: The report's tables.

    Returns:
        One table; none if the paper prints no figure for these models.
    """
    rows, notes, unit = [], [], ""
    figures = _read_figures(Path(inspect.getfile(type(benchmark))).parent)
    for table in tables:
        for paper_table in figures["tables"]:
            if table.name in (paper_table["name"], f"{paper_table['name']}_{ORIGINAL}"):
                new_rows = [*_iterate_rows(table, paper_table)]
                notes += [f"{paper_table['paper']}: {paper_table['note']}"] if new_rows and paper_table["note"] else []
                rows, unit = rows + new_rows, paper_table["unit"]
    if not rows:
        return []
    notes = [figures["note"], *notes] if "note" in figures else notes
    show, by = (percent, points) if unit == "percent" else (fraction, _format_difference)
    columns = [
        *_COLUMNS, Column("Published", ("published",), _make_formatter(show)),
        Column("Here", ("here",), _make_formatter(show)),
        Column("Difference", ("difference",), _make_formatter(by, "+,")),
    ]  # fmt: skip
    note = (
        "Difference: here less published. How many rows were asked here stands in the tables above. The paper asked "
        "whole splits, with checkpoints and code of its time."
    )
    name = re.sub(r"\W+", "_", f"published_{benchmark.title}".lower()).strip("_")
    return [Table(name, f"{benchmark.title}, beside the paper", columns, rows, [note, *dict.fromkeys(notes)])]


def _make_formatter(format_value: Callable[[Any], str], sign: str = ",") -> Callable[[Any], str]:
    """Make a formatter that prints whole numbers as counts."""
    return lambda value: f"{value:{sign}}" if isinstance(value, int) else format_value(value)


def _format_difference(value: Any) -> str:
    """Format a difference of fractions."""
    return f"{value + 0.0:+.3f}"


def _iterate_rows(table: Table, paper_table: Mapping[str, Any]) -> Iterator[list[Any]]:
    """Iterate over the figures that a table and the paper share."""
    names = [name for column in table.columns for name in column.names]
    layout = f", {ORIGINAL} order" if table.name.endswith(f"_{ORIGINAL}") else ""
    keys = paper_table.get("keys", ["model"])
    for row in table.rows:
        own_values = dict(zip(names, row, strict=True))
        for paper_row in paper_table["rows"]:
            paper_values = dict(zip([*keys, *paper_table["columns"]], paper_row, strict=True))
            if not all(_is_same_key(key, own_values[key], paper_values[key]) for key in keys):
                continue
            setting_values = [own_values[key] for key in keys if key != "model"]
            setting = (", ".join(value for value in setting_values if isinstance(value, str)) + layout).strip(", ")
            for name, title in zip(paper_table["columns"], paper_table["titles"], strict=True):
                value = own_values.get(name)  # a protocol without a run has no column
                if value is None or math.isnan(value):
                    continue
                if "." not in paper_values[name]:
                    published, own = int(paper_values[name]), round(value)
                else:
                    published, own = round(float(paper_values[name]) / _UNITS[paper_table["unit"]], 6), float(value)
                yield [
                    own_values.get("model"),
                    paper_table["paper"],
                    setting,
                    title,
                    published,
                    own,
                    _compute_difference(own, published),
                ]


def _compute_difference(own: float, published: float) -> float:
    """Compute the difference, to the fourth digit because the papers print no more."""
    return own - published if isinstance(own, int) else round(own - published, 4) + 0.0


def _is_same_key(key: str, ours: Any, theirs: str) -> bool:
    return _is_same_model(ours, theirs) if key == "model" else str(ours) == theirs


def _is_same_model(ours: str, theirs: str) -> bool:
    """Whether a model is the one that a paper names.

    >>> _is_same_model("google/medgemma-4b-it", "MedGemma"), _is_same_model("medgemma-27b-it", "MedGemma")
    (True, False)
    >>> _is_same_model("LobA (Ours)", "LobA")
    False
    >>> _is_same_model("org/llava-med-v1.5-mistral-7b + VCD", "VCD + LLaVA-Med")  # model and decoder in either order
    True
    """
    own_parts, paper_parts = ours.split(" + "), theirs.split(" + ")
    return len(own_parts) == len(paper_parts) and all(
        any(_is_part(own_part, name) for own_part in own_parts) for name in paper_parts
    )


def _is_part(ours: str, theirs: str) -> bool:
    return _normalize_name(ours) in {_normalize_name(name) for name in (theirs, *_read_aliases().get(theirs, ()))}


def _normalize_name(name: str) -> str:
    return re.sub(r"[^a-z0-9+]", "", name.rsplit("/", 1)[-1].lower())


@cache
def _read_figures(folder: Path) -> dict[str, Any]:
    """Read the figures of a benchmark's paper; no tables if its folder has no file of them."""
    file = folder / "published.toml"
    return tomllib.loads(file.read_text(encoding="utf-8")) if file.is_file() else {"tables": []}


@cache
def _read_aliases() -> dict[str, list[str]]:
    return tomllib.loads(files("medfaith.reporting").joinpath("model_names.toml").read_text(encoding="utf-8"))
