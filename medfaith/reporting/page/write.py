"""The report as one HTML file: no network requests, no report sentences, and no pixels unless asked for."""

from __future__ import annotations

import base64
import hashlib
import importlib.metadata
import json
from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from medfaith.loaders.atomic import atomic_file

from ..pictures import encode_svg
from ..registry import BENCHMARKS
from ..tables import ORIGINAL, Table, text
from .audit_results import group_by_model
from .audits import audits
from .cases import Cases, collect_cases
from .forest import by_kind, by_view, forests
from .pictures import Pixels, pack_pictures, pictures
from .plots import plot_changes, plot_doses, plot_kind, plot_scores
from .text import show_name, shown, without_paths

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ..write import Report

_UNQUOTED = " !$&'()*+,/:;=?@[]^`{|}~"  # safe in a data URL between double quotes
_RUN_COLUMNS = ("model", "revision", "precision", "asked by", "data", "build", "layout", "lm-eval", "date")


def render_page(report: Report, paths: Sequence[Path], command: str, pixels: Pixels | None = None) -> str:
    """Render the page.

    Args:
        report: The tables and figures (`write.collect`).
        paths: The folders of the runs; verdicts of `medfaith audit` among them come first.
        command: The command that makes this page again.
        pixels: Sources of small pictures of the cases; None for a page without pictures.

    Returns:
        The HTML.

    Raises:
        InputError: With pixels, as `pictures.pictures`.
        ImageError: With pixels, as `pictures.pictures`.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("medfaith.reporting", "page"), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    environment.filters |= {"shown": shown, "name": show_name}
    style, script = (
        files("medfaith.reporting.page").joinpath(name).read_text(encoding="utf-8") for name in ("page.css", "page.js")
    )
    answers, _ = report.results.collect_answers()
    runs = report.results.runs
    model_rows = _describe_runs(report)
    listed, audited = collect_cases(runs), audits(paths)
    shown_in, picture_notes = {}, []
    if pixels:
        sentences = [case for benchmark in runs for case in benchmark.collect_sentence_cases(runs[benchmark], pixels)]
        listed = Cases([*listed.cases, *sentences], listed.n + len(sentences))
        shown_in, picture_notes = pictures(listed.cases, runs, pixels)
    return environment.get_template("page.html").render(
        title=report.title,
        introduction=report.introduction,
        command=without_paths(command),
        version=importlib.metadata.version("medfaith"),
        dates=sorted({row["date"] for row in model_rows}),
        model_rows=model_rows,
        model_columns=_RUN_COLUMNS,
        commands=sorted({without_paths(row["command"]) for row in model_rows} - {""}),
        warnings=[note for note in map(without_paths, report.notes) if note.startswith("WARNING")],
        notes=[note for note in map(without_paths, [*report.notes, *picture_notes]) if not note.startswith("WARNING")],
        audits=audited,
        changes=[plot_changes(name, lines) for name, lines in audited.changes.items()],
        plot_doses=plot_doses,
        group_by_model=group_by_model,
        forests=[plot_scores(f"{plot.task}: {plot.metric}", plot.lines) for plot in forests(answers)],
        parts=[
            (name, title, text, {task: [plot_kind(plot) for plot in plots] for task, plots in plots_by_task.items()})
            for (name, title, text), plots_by_task in zip(
                _FOREST_SECTIONS, (by_kind(answers), by_view(answers)), strict=True
            )
            if plots_by_task
        ],
        sections=[
            (
                section.title,
                [_build_table(table) for table in section.tables],
                _encode_figures(section.title, report.figures),
            )
            for section in report.sections
        ],
        n_cases=listed.n,
        n_listed=len(listed.cases),
        cases=_encode_json(_pack_cases(listed)),
        pictures=_encode_json(pack_pictures(shown_in)),
        n_pictured=len(shown_in),
        not_listed=[benchmark.title for benchmark in runs if benchmark.has_sentences],
        style=style,
        script=script,
        style_hash=_hash_content(style),
        script_hash=_hash_content(script),
    )


def _describe_runs(report: Report) -> list[dict[str, str]]:
    """Describe each model and run from its results file, one row for each distinct description."""
    rows_by_values: dict[tuple[str, ...], dict[str, str]] = {}
    results = report.results
    for run in results.all:
        settings = _read_run_settings(run.source.path.with_name(f"results_{run.source.date}.json"), run.source.task)
        layout = getattr(run.setting, "layout", "")  # order of options, for questions with a choice
        row = {"model": run.model_name, **settings, "layout": layout, "date": run.source.date[:10]}
        rows_by_values.setdefault(tuple(row.values()), row)
    return [{name: row.get(name, "") for name in (*_RUN_COLUMNS, "command")} for row in rows_by_values.values()]


def _read_run_settings(path: Path, task: str) -> dict[str, str]:
    """Read the settings of a run from its results file; {} if the file cannot be read.

    The value "build" has the first digits of the SHA-256 of the data's build.json, computed by `medfaith eval`.
    """
    try:
        content = json.loads(path.read_bytes())
        config = content.get("config") or {}
        task_config = (content.get("configs") or {}).get(task) or {}
        metadata, repository = (
            task_config.get("metadata") or {},
            (task_config.get("dataset_kwargs") or {}).get("repository"),
        )
        values = {
            "revision": config.get("model_sha") or config.get("model_revision"),
            "precision": config.get("model_dtype"),
            "asked by": config.get("model"),
            "data": repository,
            "build": (metadata.get("builds") or {}).get(repository),
            "command": metadata.get("command"),
            "lm-eval": content.get("lm_eval_version"),
        }
    except (OSError, ValueError, AttributeError, TypeError, RecursionError):
        return {}
    return {name: str(value) if value else "" for name, value in values.items()}


_FOREST_SECTIONS = (  # sections with scores of some rows: anchor, title, text
    (
        "findings",
        "By finding and instrument",
        "With the image. A row with several findings counts for each of them; n is the number of rows.",
    ),
    ("views", "By view", "With the image. Views have the names that their source gives them; n is the number of rows."),
)


def _encode_figures(section: str, figures: Mapping[str, Figure]) -> list[tuple[str, str]]:
    """Encode each figure of a section without pixels of images as (title, data URL)."""
    return [
        (
            _format_title(name, benchmark.figure_titles),
            f"data:image/svg+xml,{quote(encode_svg(figure), safe=_UNQUOTED)}",
        )
        for benchmark in BENCHMARKS.values()
        if benchmark.title == section
        for name, figure in figures.items()
        if name.startswith(benchmark.figure_prefix) and name not in benchmark.pixel_figures
    ]


def _format_title(name: str, titles: Mapping[str, str]) -> str:
    """Format the title of a figure from the name of its file.

    >>> _format_title("figure_a_03", {"figure_a_03": "Accuracy"}), _format_title("figure_a_14", {})
    ('Accuracy (Figure 3)', 'Figure 14')
    """
    plain = name.removesuffix(f"_{ORIGINAL}")
    number = plain.rsplit("_", 1)[-1]
    title = titles.get(plain, "")
    if number.isdigit():
        title = f"{title} (Figure {int(number)})" if title else f"Figure {int(number)}"
    return (title or name) + (", options in the original order" if plain != name else "")


def _build_table(table: Table) -> dict[str, Any]:
    titles, rows = table.cells()
    numeric = [column.show is not text for column in table.columns if column.title is not None]
    return {
        "name": table.name, "title": table.title, "titles": list(zip(titles, numeric, strict=True)), "rows": rows,
        "notes": table.notes, "n_left_out": len(table.rows) - len(rows),
    }  # fmt: skip


def _pack_cases(listed: Cases) -> dict[str, Any]:
    """Pack the cases as indices into one list of texts, so that the file holds each text once."""
    places: dict[str, int] = {}

    def add_text(value: str) -> int:
        return places.setdefault(shown(value), len(places))

    rows = [
        [
            *map(add_text, (case.benchmark, case.task, case.id, case.question, case.gold, case.finding)),
            [add_text(option) for option in case.options],
            [[*map(add_text, answer)] for answer in case.answers],
        ]
        for case in listed.cases
    ]
    return {"cases": rows, "texts": list(places)}


def _encode_json(content: Mapping[str, Any]) -> str:
    """Encode as JSON that cannot end its script block."""
    encoded = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
    return _replace_all(
        encoded, {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}.items()
    )


def _replace_all(content: str, pairs: Iterable[tuple[str, str]]) -> str:
    for before, after in pairs:
        content = content.replace(before, after)
    return content


def _hash_content(content: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()


def write_page(
    path: Path, report: Report, paths: Sequence[Path], command: str = "", pixels: Pixels | None = None
) -> None:
    """Write the page atomically.

    Args:
        path: The file.
        report: As for `render_page`.
        paths: As for `render_page`.
        command: The command that makes this page again; default: `medfaith report`.
        pixels: As for `render_page`.
    """
    content = render_page(
        report, paths, command or f"medfaith report {' '.join(map(str, paths))} --html {path}", pixels
    )
    with atomic_file(path) as partial:
        partial.write_text(content, encoding="utf-8")
