"""Figures that the papers print for the models of a report, next to the report's own.

Each benchmark's folder has its paper's figures in `published.toml`.
"""

from __future__ import annotations

import inspect
import math
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from medfaith.tasks.controls import CONTROLS
from medfaith.tasks.decoding.titles import TITLES, TRAINED

from .benchmark import ReportedBenchmark
from .tables import MODEL, ORIGINAL, Column, Table, fraction, percent, points

_UNITS = {"percent": 100, "number": 1}
_NO_FIGURE = "-"  # in a row of `published.toml`
_TIES = "_precision_without_ties"
_VARIANTS = ("", f"_{ORIGINAL}", "_nearest_upsampling", _TIES, f"_nearest_upsampling{_TIES}")  # suffixes of own tables
_PLAIN = re.compile(rf" \+ {TITLES['greedy']}(?=$| \()")
_REGIONS = re.compile(rf", regions ({TRAINED})?.*?(?=$| \()")
# Parts of a Wrong Lung run's name: its rows are fewer, or its attention or upsampling is that of the paper's code.
_IN_BRACKETS = re.compile(r" \((?:(?:attention=code|held-out patients|nearest upsampling)(?:, )?)+\)$")
# Part of the name of a run under a control or with a paraphrase, of which a paper has no figure.
_CHANGED = re.compile(rf"[ (](?:(?:{'|'.join(CONTROLS)})(?:@\d+)?|wording \d+)[),]")
_COLUMNS = [MODEL, Column("Paper", ("paper",)), Column("Setting", ("setting",)), Column("Score", ("score",))]


def add_published_tables(benchmark: ReportedBenchmark, tables: Sequence[Table]) -> list[Table]:
    """Add the figures that the paper prints for the models of these tables.

    A model matches a paper's model if their names are equal without organisation, case and punctuation, or if
    `model_names.toml` says so. The other keys of a row (prompt, protocol, finding and so on) equal the values of the
    report's table. A note names the runs that match none.

    Args:
        benchmark: The benchmark.
        tables: The report's tables.

    Returns:
        The tables, then a table of the paper's figures for each unit. If these have no row, the note stands under the
        first table that the paper has figures for.
    """
    figures = _read_figures(Path(inspect.getfile(type(benchmark))).parent)
    covered: list[Table] = []
    notes: list[str] = []
    rows: dict[str, list[list[Any]]] = {paper_table["unit"]: [] for paper_table in figures["tables"]}
    for table in tables:
        for paper_table in figures["tables"]:
            if table.name in {paper_table["name"] + variant for variant in _VARIANTS}:
                new_rows = [*_iterate_rows(table, paper_table)]
                notes += [f"{paper_table['paper']}: {paper_table['note']}"] if new_rows and paper_table["note"] else []
                rows[paper_table["unit"]] += new_rows
                covered.append(table)
    matched = {row[0] for unit_rows in rows.values() for row in unit_rows}
    models = dict.fromkeys(record["model"] for table in covered for record in table.records() if "model" in record)
    unmatched = [model for model in models if model not in matched and not _CHANGED.search(model)]
    unmatched_notes = [f"The paper has no figure for: {'; '.join(unmatched)}."] if unmatched else []
    if not matched:
        return [
            replace(table, notes=[*table.notes, *unmatched_notes]) if unmatched and table is covered[0] else table
            for table in tables
        ]
    note = (
        "Difference: here less published. The tables above say how many rows were asked here. The paper asked "
        "whole splits, with checkpoints and code of its time."
    )
    paper_notes = [figures["note"]] if "note" in figures else []
    notes = [note, *paper_notes, *dict.fromkeys(notes), *unmatched_notes]
    title, name = f"{benchmark.title}, next to the paper", f"published_{benchmark.title}"
    endings = [("", ""), (": other units", "_other_units")]
    return [
        *tables,
        *(
            _build_table(name + name_ending, title + title_ending, unit, unit_rows, notes)
            for (title_ending, name_ending), (unit, unit_rows) in zip(endings, rows.items(), strict=False)
            if unit_rows
        ),
    ]


def _build_table(name: str, title: str, unit: str, rows: Sequence[list[Any]], notes: Sequence[str]) -> Table:
    show, by = (percent, points) if unit == "percent" else (fraction, _format_difference)
    columns = [
        *_COLUMNS, Column("Published", ("published",), _make_formatter(show)),
        Column("Here", ("here",), _make_formatter(show)),
        Column("Difference", ("difference",), _make_formatter(by, "+,")),
    ]  # fmt: skip
    return Table(re.sub(r"\W+", "_", name.lower()).strip("_"), title, columns, rows, notes)


def _make_formatter(format_value: Callable[[Any], str], sign: str = ",") -> Callable[[Any], str]:
    """Make a formatter that prints whole numbers as counts."""
    return lambda value: f"{value:{sign}}" if isinstance(value, int) else format_value(value)


def _format_difference(value: Any) -> str:
    """Format a difference of fractions."""
    return f"{value + 0.0:+.3f}"


def _iterate_rows(table: Table, paper_table: Mapping[str, Any]) -> Iterator[list[Any]]:
    """Iterate over the figures that a table and the paper share."""
    layout = f", {ORIGINAL} order" if table.name.endswith(f"_{ORIGINAL}") else ""
    keys = paper_table.get("keys", ["model"])
    for own_values in table.records():
        for paper_row in paper_table["rows"]:
            paper_values = dict(zip([*keys, *paper_table["columns"]], paper_row, strict=True))
            own_keys = {key: own_values.get(key, paper_values[key]) for key in keys}  # no column for a single value
            if not all(_is_same_key(key, own_keys[key], paper_values[key]) for key in keys):
                continue
            setting_values = [value for key, value in own_keys.items() if key != "model"]
            setting = (", ".join(value for value in setting_values if isinstance(value, str)) + layout).strip(", ")
            for name, title in zip(paper_table["columns"], paper_table["titles"], strict=True):
                value = own_values.get(name)  # a protocol without a run has no column
                if paper_values[name] == _NO_FIGURE or value is None or math.isnan(value):
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
    own_parts = _simplify_run_name(ours).split(" + ")
    return any(
        len(own_parts) == len(paper_parts)
        and all(any(_is_part(own_part, name) for own_part in own_parts) for name in paper_parts)
        for paper_parts in (name.split(" + ") for name in _list_names(theirs))
    )


def _is_part(ours: str, theirs: str) -> bool:
    return _normalize_name(ours) in map(_normalize_name, _list_names(theirs))


def _list_names(paper_name: str) -> list[str]:
    return [paper_name, *_read_aliases().get(paper_name, ())]


def _simplify_run_name(name: str) -> str:
    """Leave out of a run's name what no paper's name tells.

    A trained model that localizes by itself stays, because its weights are its own.

    >>> _simplify_run_name("m + CRG, regions masks"), _simplify_run_name("m + greedy, regions masks (train)")
    ('m + CRG', 'm (train)')
    >>> _simplify_run_name("m + greedy, regions loba:folder")
    'm + greedy, regions loba:'
    """
    name = _REGIONS.sub(lambda match: f", regions {TRAINED}" if match[1] else "", name)
    return _PLAIN.sub("", _IN_BRACKETS.sub("", name))


def _normalize_name(name: str) -> str:
    """Normalize a name: no folder after the kind of the model, if there is one, no case and no punctuation.

    >>> _normalize_name("gloria:runs/30_shot.ckpt"), _normalize_name("openai/clip-vit-base-patch32")
    ('gloria30shotckpt', 'clipvitbasepatch32')
    """
    return re.sub(r"[^a-z0-9+]", "", re.sub(r"^(\w+:)?.*/", r"\1", name.lower()))


@cache
def _read_figures(folder: Path) -> dict[str, Any]:
    """Read the figures of a benchmark's paper; no tables if its folder has no file of them."""
    file = folder / "published.toml"
    return tomllib.loads(file.read_text(encoding="utf-8")) if file.is_file() else {"tables": []}


@cache
def _read_aliases() -> dict[str, list[str]]:
    return tomllib.loads(files("medfaith.reporting").joinpath("model_names.toml").read_text(encoding="utf-8"))
