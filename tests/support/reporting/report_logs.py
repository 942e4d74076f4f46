"""Sample logs in lm-eval's format, with answers whose counts a test chooses."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from medfaith.builders.cxr_contrabench.wording import (
    QUESTION_FORMS,
    format_negated_option,
    format_positive_option,
    slug,
)
from medfaith.reporting.results import Results
from medfaith.reporting.write import make_report
from medfaith.tasks.contrabench import adapter

_R = TypeVar("_R")

FILTERS = ("b0", "m1", "m1_slot_agnostic", "m1_extended")
DATE = "2026-01-02T03-04-05.678901"
FINDINGS = ("atelectasis", "cardiomegaly", "consolidation", "edema", "pleural effusion", "pneumothorax")
PLACES = {  # protocol: (id's first parts, id's middle part)
    "chexpert_presence": ("chexpert/validation", "presence"),
    "chexpert_absence": ("chexpert/validation", "absence"),
    "chexpert_positive_only": ("chexpert/validation", "positive_only"),
    "openi_report_absence": ("openi", "find_report_absences"),
    "openi_chexstruct_presence": ("openi", "chexstruct_presence"),
    "openi_chexstruct_absence": ("openi", "chexstruct_absence"),
}


def question(
    protocol: str, number: int, *, finding: str = "edema", options: Sequence[str] | None = None, answer: int = 0,
    negated: int = 1, prompt: str | None = "b0", split: str = "validation", **columns: Any,
) -> dict[str, Any]:  # fmt: skip
    """Build a task's document from one row; the default options are "Edema", its negation and "Fracture"."""
    place, middle = PLACES.get(protocol, ("rexvqa/test", ""))
    polarity = "absence" if protocol.endswith("absence") else "presence"
    study = f"patient{number:05d}/study1"
    forms = {"negation_form": "canonical_no", "question_form": "original", "layout": "shuffled"} | columns
    options = options or [
        format_positive_option(finding),
        format_negated_option(finding, forms["negation_form"]),
        "Fracture",
    ]
    row = {
        "id": f"{place.replace('validation', split)}/{study}/{middle}/{slug(finding)}", "protocol": protocol,
        "polarity": polarity, "study_id": study, "images": f"chexpert:valid/{study}/view1_frontal.jpg",
        "question": QUESTION_FORMS[polarity].get(forms["question_form"], ""),
        "options": list(options), "answer": answer, "finding": finding,
        "negated": negated, "counterpart": -1 if negated < 0 else answer, "cue": "", "n_rows_skipped": 0,
        **forms,
    }  # fmt: skip
    return row if prompt is None else row | {"prompt": prompt}


def answered(
    protocol: str, n: int, correct: int, negated: int, *, drift: int = 0, shared: int = 0, unread: int = 0,
    **columns: Any,
) -> list[tuple[dict[str, Any], str]]:  # fmt: skip
    """Build n answers: `correct` right, `negated` on the negated option, `unread` unreadable, the rest wrong.

    Of the negated answers, `drift` have a distractor in slot 0; `shared` have options that all share a concept word.
    """
    form = columns.get("negation_form", "canonical_no")
    drifting = {"options": ["Fracture", "Edema", format_negated_option("edema", form)], "answer": 1, "negated": 2}
    aorta = {
        "options": ["No ascending aortic enlargement", "Ascending aortic enlargement", "Aortic knob enlargement"],
        "answer": 1,
        "negated": 0,
    }
    groups = [
        (correct, {}, "A"),
        (negated - drift - shared, {}, f"B. {format_negated_option('edema', form)}"),
        (drift, drifting, "(C)"),
        (shared, aorta, "A"),
        (unread, {}, "The image is sharp."),
        (n - correct - negated - unread, {}, "C"),
    ]
    assert min(count for count, *_ in groups) >= 0
    kinds = [(changes, text) for count, changes, text in groups for _ in range(count)]
    return [(question(protocol, i, **{**columns, **changes}), text) for i, (changes, text) in enumerate(kinds)]


def make_samples(
    answers: Iterable[tuple[Mapping[str, Any], str]],
    filters: Sequence[str] = FILTERS,
    readings_by_filter: Mapping[str, Sequence[Mapping[str, Any]]] | None = None,
) -> list[dict[str, Any]]:
    """Build samples filter by filter; the readings come from the task's filters or from `readings_by_filter`."""
    docs, texts = zip(*answers, strict=True)
    readings = {name: getattr(adapter, name)([[text] for text in texts], docs) for name in filters}
    readings |= {
        name: [json.dumps(reading) for reading in filter_readings]
        for name, filter_readings in (readings_by_filter or {}).items()
    }
    return [
        {"doc": doc, "resps": [[text]], "filtered_resps": [reading], "filter": name}
        for name, filter_readings in readings.items()
        for doc, text, reading in zip(docs, texts, filter_readings, strict=True)
    ]


def write_log(
    folder: Path,
    model: str,
    answers: Sequence[tuple[Mapping[str, Any], str]],
    *,
    task: str = "",
    filters: Sequence[str] = FILTERS,
    readings_by_filter: Mapping[str, Sequence[Mapping[str, Any]]] | None = None,
    **options: Any,
) -> Path:
    """Write the sample log of one CXR-ContraBench task."""
    task = task or f"medfaith_contrabench_{answers[0][0]['protocol']}"
    return write_samples(folder, task, make_samples(answers, filters, readings_by_filter), model=model, **options)


def write_samples(
    folder: Path,
    task: str,
    samples: Sequence[Mapping[str, Any]],
    *,
    model: str = "m",
    date: str = DATE,
    n_data: int | None = None,
    model_args: Mapping[str, Any] | str | None = None,
    control: str = "",
    config: Mapping[str, Any] | None = None,
) -> Path:
    """Write one task's sample log, with the results file in the same folder, and return the log's path.

    Later tasks join the same results file. `config` adds entries to the run's config in the results.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"samples_{task}_{date}.jsonl"
    path.write_text("".join(f"{json.dumps(sample, default=str)}\n" for sample in samples), encoding="utf-8")
    results = folder / f"results_{date}.json"
    content = json.loads(results.read_text()) if results.exists() else {"results": {}, "n-samples": {}}
    content["config"] = {"model": "hf-multimodal", "model_args": model_args or {"pretrained": model}, **(config or {})}
    n = len({id(sample["doc"]) for sample in samples})
    content.setdefault("configs", {})[task] = {"metadata": {"control": control}}
    content["n-samples"][task] = {"original": n_data or n, "effective": n}
    results.write_text(json.dumps(content), encoding="utf-8")
    return path


def write_report(*arguments: Any, **options: Any) -> str:
    """Make a report and return its Markdown; the arguments are those of `make_report`."""
    return make_report(*arguments, **options).markdown()


def change_lines(path: Path, change: Callable[[list[str]], Sequence[str]]) -> Path:
    """Rewrite the log with changed lines; surrogate escapes represent bytes that are not UTF-8."""
    lines = change(path.read_text(encoding="utf-8").splitlines())
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", errors="surrogateescape")
    return path


def csv_rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def rows_of(report: str, title: str) -> list[list[str]]:
    """Return the cells of the table whose title begins with `title`, without its heading."""
    section = next(section for section in report.split("\n## ") if section.startswith(title))
    table = section.split("\n\n")[1].splitlines()
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table[2:]]


def check_published(
    report: str, paper: str, n_figures: int, title: str = "CXR-ContraBench", noise: tuple[float, float] = (0, 0.011)
) -> None:
    """Check that the figures of a paper's table equal the report's next to them, but for the paper's rounding.

    Args:
        report: The report in Markdown, of logs with the paper's counts.
        paper: Name of the paper's table.
        n_figures: The number of figures that the report has of it.
        title: Title of the benchmark.
        noise: The largest difference of a count, and of another figure in percentage points.
    """
    rows = [row for row in rows_of(report, f"{title}, next to the paper") if row[1] == paper]
    assert len(rows) == n_figures, [row[2:] for row in rows]
    for row in rows:
        assert abs(float(row[-1].replace(",", ""))) <= noise["." in row[-1]], row


def extract_numbers(cells: list[str]) -> list[float]:
    """Return all numbers in some cells, without the text after an arrow."""
    return [float(n) for cell in cells for n in re.findall(r"-?\d+(?:\.\d+)?", cell.split(" → ")[0].replace(",", " "))]


def select_runs(results: Results, kind: type[_R]) -> list[_R]:
    """Select the runs of one class, without its subclasses."""
    return [run for run in results.all if type(run) is kind]
