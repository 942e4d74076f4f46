"""The contract of a benchmark for finished runs: generic code names none, and each object keeps the contract."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from medfaith import reporting
from medfaith.builders import registry as builders
from medfaith.cli import main
from medfaith.reporting.benchmark import ReportedBenchmark
from medfaith.reporting.registry import BENCHMARKS
from medfaith.tasks.index import task_index
from tests.support.reporting.report_logs import csv_rows
from tests.support.reporting.toy_benchmark import TOY

APPLICATION = Path(reporting.__file__).parent.parent
NAMED = re.compile(r"contra-?bench|heal(?!th)|surgx|wrong.?lung", re.IGNORECASE)
OWN_FOLDERS = {type(benchmark).__module__.rpartition(".")[2] for benchmark in BENCHMARKS.values()}
EXCEPTIONS = {
    "reporting/registry.py": "it lists the benchmarks",
    "reporting/costs.py": "Table 6 of HEAL-MedVQA, over the runs of all benchmarks",
}


def list_generic_files() -> list[Path]:
    """List the files of the commands that work on finished runs, without the folders of the benchmarks."""
    rooms = [APPLICATION / room for room in ("reporting", "compare", "auditing", "annotate")]
    files = [path for room in rooms for path in room.rglob("*") if path.suffix in {".py", ".html", ".js", ".toml"}]
    files += [APPLICATION / "quickstart.py", APPLICATION / "read.py"]
    return [path for path in files if not OWN_FOLDERS & {*path.relative_to(APPLICATION).parts}]


def iterate_names(path: Path) -> Iterator[str]:
    """Iterate over the identifiers, imports and texts of a file; docstrings and comments may name a paper."""
    if path.suffix != ".py":
        yield path.read_text(encoding="utf-8")
        return
    tree = ast.parse(path.read_text(encoding="utf-8"))
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node.value
        elif isinstance(node, ast.ImportFrom):
            yield from (node.module or "", *(alias.name for alias in node.names))
        elif isinstance(node, ast.Name | ast.Attribute | ast.arg):
            yield node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else node.arg
        elif isinstance(node, ast.ClassDef | ast.FunctionDef):
            yield node.name


def test_generic_files_name_no_benchmark():
    naming = {
        str(path.relative_to(APPLICATION)): sorted({name for name in iterate_names(path) if NAMED.search(name)})
        for path in list_generic_files()
    }
    assert {path: names for path, names in naming.items() if names and path not in EXCEPTIONS} == {}
    assert [path for path in EXCEPTIONS if not naming[path]] == [], "an exception that is no longer needed"


def test_each_benchmark_that_is_built_is_reported():
    assert [*BENCHMARKS] == [*builders.BENCHMARKS]


@pytest.mark.parametrize("benchmark", BENCHMARKS.values(), ids=lambda benchmark: benchmark.name)
def test_names_of_tasks_and_figures_exist(benchmark: ReportedBenchmark):
    """Tasks belong to the benchmark, and titles and pixels are of its own figures."""
    tasks = [*benchmark.audited_tasks, *benchmark.quickstart_tasks, *benchmark.quickstart_runs, benchmark.task_group]
    assert [task for task in tasks if task not in task_index() or not task.startswith(benchmark.task_prefix)] == []
    figures = [*benchmark.figure_titles, *benchmark.pixel_figures]
    assert [name for name in figures if not name.startswith(f"{benchmark.figure_prefix}_")] == []
    assert re.compile(benchmark.table_files)
    assert benchmark.audited_tasks
    assert bool(benchmark.quickstart_tasks) == bool(benchmark.quickstart_runs)


def write_toy(folder: Path, model: str, n_right: int) -> Path:
    """Write the log of a model with ten answers, the first of them right."""
    folder.mkdir(parents=True)
    docs = [{"id": f"toy/{n}", "toy": "yes" if n % 2 else "no"} for n in range(10)]
    replies = [doc["toy"] if n < n_right else "maybe" for n, doc in enumerate(docs)]
    lines = [
        {"doc_id": n, "doc": doc, "resps": [[reply]], "filtered_resps": [reply], "filter": "none"}
        for n, (doc, reply) in enumerate(zip(docs, replies, strict=True))
    ]
    samples = folder / "samples_medfaith_toy_2026-01-01T00-00-00.jsonl"
    samples.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    content = {"config": {"model": "hf", "model_args": {"pretrained": model}}, "model_name": model}
    (folder / "results_2026-01-01T00-00-00.json").write_text(json.dumps(content), encoding="utf-8")
    return folder


def test_a_further_benchmark_is_reported_and_compared(tmp_path: Path, monkeypatch, capsys):
    """One object in the registry suffices for the summary, the tables, the page and comparisons."""
    runs = [str(write_toy(tmp_path / "runs" / model, model, n)) for model, n in (("a", 7), ("b", 3))]
    assert main(["report", *runs]) == 2
    assert "is of CXR-ContraBench" in capsys.readouterr().err
    monkeypatch.setitem(cast(dict, BENCHMARKS), TOY.name, TOY)
    out, page = tmp_path / "out", tmp_path / "page.html"
    for _ in range(2):  # the second report replaces the first, whose files it knows
        assert main(["report", *runs, "--out", str(out), "--html", str(page)]) == 0
    assert (
        re.findall(r"Toy: accuracy +(\w) +([\d.]+) ", capsys.readouterr().out) == [("a", "70.00"), ("b", "30.00")] * 2
    )
    assert csv_rows(out / "toy_accuracy.csv") == [{"model": "a", "accuracy": "0.7"}, {"model": "b", "accuracy": "0.3"}]
    assert (out / "report.md").read_text(encoding="utf-8").startswith("# Results: Toy\n")
    assert "Is it red?" in page.read_text(encoding="utf-8")
    assert main(["compare", *runs]) == 0
    assert re.search(r"Toy +accuracy +10 +10 +70.00 +30.00", capsys.readouterr().out)
