"""The contract of a benchmark for finished runs: generic code names none, and each object keeps the contract."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from medfaith import reporting
from medfaith.builders import registry as builders
from medfaith.reporting.benchmark import ReportedBenchmark
from medfaith.reporting.registry import BENCHMARKS
from medfaith.tasks.index import task_index

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
    assert benchmark.quickstart_tasks
