"""One HTML file of a report: it asks no network for anything, and holds no report's sentence; pixels only if told."""

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

from medfaith.compare.answers import all_answers
from medfaith.loaders.atomic import atomic_file

from ..contrabench_runs import ORIGINAL
from ..pictures import PIXELS, for_page
from ..tables import Table, text
from .audits import audits, group_by_model
from .cases import Cases, cases
from .forest import by_kind, by_view, forests
from .pictures import Pixels, packed, pictures, sentence_cases
from .plots import plot_changes, plot_doses, plot_kind, plot_scores
from .text import shown, without_paths

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ..write import Report

_UNQUOTED = " !$&'()*+,/:;=?@[]^`{|}~"  # in a data URL between double quotes
_TOLD = ("model", "revision", "precision", "asked by", "data", "build", "layout", "lm-eval", "date")


def page(report: Report, paths: Sequence[Path], command: str, pixels: Pixels | None = None) -> str:
    """The whole file.

    Args:
        report: what the runs say (write.collect).
        paths: where the runs are; the verdicts of those that are a `medfaith audit` head the page.
        command: what makes this page again.
        pixels: where pictures of the cases come from; None: there are none.

    Raises: with pixels as `pictures.pictures`.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("medfaith.report", "page"), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    environment.filters["shown"] = shown
    style, script = (
        files("medfaith.report.page").joinpath(name).read_text(encoding="utf-8") for name in ("page.css", "page.js")
    )
    answers, _ = all_answers(report.results)
    told = _told(report)
    listed, audited = cases(report.results), audits(paths)
    shown_in, without = {}, []
    if pixels:
        sentences = sentence_cases(report.results, pixels)
        listed = Cases([*listed.cases, *sentences], listed.n + len(sentences))
        shown_in, without = pictures(listed.cases, report.results, pixels)
    return environment.get_template("page.html").render(
        title=report.title,
        introduction=report.introduction,
        command=without_paths(command),
        version=importlib.metadata.version("medfaith"),
        dates=sorted({row["date"] for row in told}),
        told=told,
        told_names=_TOLD,
        commands=sorted({without_paths(row["command"]) for row in told} - {""}),
        warnings=[note for note in map(without_paths, report.notes) if note.startswith("WARNING")],
        notes=[note for note in map(without_paths, [*report.notes, *without]) if not note.startswith("WARNING")],
        audits=audited,
        changes=[plot_changes(name, lines) for name, lines in audited.changes.items()],
        plot_doses=plot_doses,
        group_by_model=group_by_model,
        forests=[plot_scores(f"{plot.task}: {plot.metric}", plot.lines) for plot in forests(answers)],
        parts=[
            (name, title, text, {of: [plot_kind(plot) for plot in plots] for of, plots in found.items()})
            for (name, title, text), found in zip(_PARTS, (by_kind(answers), by_view(answers)), strict=True)
            if found
        ],
        sections=[
            (section.title, [_table(table) for table in section.tables], _figures(section.title, report.figures))
            for section in report.sections
        ],
        n_cases=listed.n,
        n_listed=len(listed.cases),
        cases=_json(_packed(listed)),
        pictures=_json(packed(shown_in)),
        n_pictured=len(shown_in),
        style=style,
        script=script,
        style_hash=_hash(style),
        script_hash=_hash(script),
    )


def _told(report: Report) -> list[dict[str, str]]:
    """Of each model what its results say of it and of the run."""
    found: dict[tuple[str, ...], dict[str, str]] = {}
    results = report.results
    for run in results.all:
        told = _of_results(run.source.path.with_name(f"results_{run.source.date}.json"), run.source.task)
        layout = getattr(run.setting, "layout", "")  # of options, which CXR-ContraBench alone has
        row = {"model": run.model_name, **told, "layout": layout, "date": run.source.date[:10]}
        found.setdefault(tuple(row.values()), row)
    return [{name: row.get(name, "") for name in (*_TOLD, "command")} for row in found.values()]


def _of_results(path: Path, task: str) -> dict[str, str]:
    """build: the first digits of the SHA-256 of the data's build.json, as `medfaith eval` found it."""
    try:
        content = json.loads(path.read_bytes())
        config = content.get("config") or {}
        of_task = (content.get("configs") or {}).get(task) or {}
        metadata, repository = of_task.get("metadata") or {}, (of_task.get("dataset_kwargs") or {}).get("repository")
        told = {
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
    return {name: str(value) if value else "" for name, value in told.items()}


_PARTS = (  # of a page, which show the scores of some rows each: anchor, title, text
    (
        "findings",
        "By finding and instrument",
        "With the image. A row with several findings counts for each of them; n is the number of rows.",
    ),
    ("views", "By view", "With the image. Views have the names that their source gives them; n is the number of rows."),
)
_TITLES = {
    "figure_contrabench_03": "Accuracy before and after the verifier, and what the answers are",
    "figure_contrabench_05": "Gaps of option scores",
    "figure_contrabench_confidence": "Stated confidence, and how often it is right",
    "figure_heal_f1": "F1 of yes/no and of open-ended questions",
    "figure_heal_tpt_vpt": "TPT and VPT",
    "figure_heal_07": "F1 by how well a model localizes",
    "figure_surgx_03": "Instruments, and where the model looks",
    "figure_surgx_04": "Triplets, and where the model looks",
    "figure_wrong_lung_05": "What changes with the sentence or the boxes",
    "figure_wrong_lung_16": "Annotators' judgement by abnormality",
}
_FIGURES = {  # section -> the beginning of the names of its figures
    "CXR-ContraBench": "figure_contrabench",
    "HEAL-MedVQA": "figure_heal",
    "SurgXBench": "figure_surgx",
    "That's the Wrong Lung!": "figure_wrong_lung",
}


def _figures(section: str, figures: Mapping[str, Figure]) -> list[tuple[str, str]]:
    """Title and data URL of each figure of a section that shows no pixel of an image."""
    begins = _FIGURES.get(section)
    return [
        (_title(name), f"data:image/svg+xml,{quote(for_page(figure), safe=_UNQUOTED)}")
        for name, figure in figures.items()
        if begins and name.startswith(begins) and name not in PIXELS
    ]


def _title(name: str) -> str:
    """Of a figure, by the name of its file.

    >>> _title("figure_heal_tpt_vpt"), _title("figure_wrong_lung_14")
    ('TPT and VPT', 'Figure 14')
    """
    plain = name.removesuffix(f"_{ORIGINAL}")
    number = plain.rsplit("_", 1)[-1]
    words = _TITLES.get(plain, "")
    if number.isdigit():
        words = f"{words} (Figure {int(number)})" if words else f"Figure {int(number)}"
    return (words or name) + (", options in the original order" if plain != name else "")


def _table(table: Table) -> dict[str, Any]:
    titles, rows = table.cells()
    numeric = [column.show is not text for column in table.columns if column.title is not None]
    return {
        "name": table.name, "title": table.title, "titles": list(zip(titles, numeric, strict=True)), "rows": rows,
        "notes": table.notes, "n_left_out": len(table.rows) - len(rows),
    }  # fmt: skip


def _packed(listed: Cases) -> dict[str, Any]:
    """The cases as numbers into one list of texts, each of which is in the file once."""
    places: dict[str, int] = {}

    def place(words: str) -> int:
        return places.setdefault(shown(words), len(places))

    packed = [
        [
            *map(place, (case.benchmark, case.task, case.id, case.question, case.gold, case.finding)),
            [place(option) for option in case.options],
            [[*map(place, answer)] for answer in case.answers],
        ]
        for case in listed.cases
    ]
    return {"cases": packed, "texts": list(places)}


def _json(content: Mapping[str, Any]) -> str:
    """JSON that cannot end the script block that it stands in."""
    whole = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
    return _replaced(
        whole, {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}.items()
    )


def _replaced(whole: str, pairs: Iterable[tuple[str, str]]) -> str:
    for before, after in pairs:
        whole = whole.replace(before, after)
    return whole


def _hash(content: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()


def write_page(
    path: Path, report: Report, paths: Sequence[Path], command: str = "", pixels: Pixels | None = None
) -> None:
    """Writes the page, whole or not at all. Arguments as of `page`; by default the command is `medfaith report`."""
    content = page(report, paths, command or f"medfaith report {' '.join(map(str, paths))} --html {path}", pixels)
    with atomic_file(path) as partial:
        partial.write_text(content, encoding="utf-8")
