"""`medfaith read-results`: a results file of a paper's own code, as a run that `report` and `compare` read."""

from __future__ import annotations

import argparse
import json
from datetime import UTC, datetime
from pathlib import Path

from medfaith.loaders.atomic import atomic_folder, require_own
from medfaith.loaders.errors import InputError
from medfaith.logs.files import safe_name

RECORD = "read-results.json"  # in a folder that this wrote
MODEL_TYPE = "authors-code"  # name of the model's type in the results


def add_jobs(jobs: argparse._SubParsersAction) -> None:
    """Add `read-results` to the command's jobs.

    Args:
        jobs: The sub-parsers of the command.
    """
    job = jobs.add_parser(
        "read-results",
        help="turn a results file of a paper's own code into a run for report and compare",
        description="Read a results file that the released code of a paper wrote, and score its answers as those of a "
        "run. Compares the scores with those of the file, and prints what differs. Then: medfaith report DIR. Read are "
        "the files of CXR-ContraBench's code: JSON with summary and records.",
    )
    job.add_argument("file", type=Path, metavar="FILE", help="results file that the code of the paper wrote")
    job.add_argument(
        "--task",
        required=True,
        metavar="NAME",
        help="task of medfaith with the same questions, such as medfaith_contrabench_chexpert_presence",
    )
    job.add_argument("--model", metavar="NAME", help="name of the model (default: the name in the file)")
    job.add_argument(
        "--out",
        type=Path,
        required=True,
        metavar="DIR",
        help="folder for the run; replaced if medfaith read-results wrote it",
    )
    job.set_defaults(job=_run)


def _run(arguments: argparse.Namespace, _: list[str]) -> int:
    from medfaith.reporting.registry import BENCHMARKS
    from medfaith.tasks.index import select_tasks

    require_own(arguments.out, RECORD)
    tasks = select_tasks(arguments.task)
    if len(tasks) != 1:
        problem = f"names {len(tasks)} tasks of medfaith"
        raise InputError(f"--task {arguments.task}", problem, expected="one task", action="medfaith tasks --list")
    (task,) = tasks
    for benchmark in BENCHMARKS.values():
        results = None
        if task.name.startswith(benchmark.task_prefix):
            results = benchmark.read_authors_results(arguments.file, task)
        if results is not None:
            break
    else:
        problem = "is of a benchmark whose paper has no results files that medfaith reads"
        raise InputError(f"--task {arguments.task}", problem, expected="a task of CXR-ContraBench")
    model = arguments.model or results.model
    if not model:
        action = "name the model with --model"
        raise InputError(arguments.file, "does not name its model", expected="summary.model", action=action)
    date = datetime.now(UTC).strftime("%Y-%m-%dT%H-%M-%S.%f")
    name = task.name.replace("::", "_")
    content = {
        "results": {name: {"alias": name}},
        "configs": {name: {"task": name, "metadata": {"control": ""}}},
        "n-samples": {name: {"original": results.n, "effective": results.n}},
        "config": {"model": MODEL_TYPE, "model_args": {"model": model}},
    }
    with atomic_folder(arguments.out) as folder:
        (folder / RECORD).write_text(json.dumps({"task": name, "model": model}) + "\n", encoding="utf-8")
        run = folder / safe_name(model)
        run.mkdir()
        lines = "".join(f"{json.dumps(line, ensure_ascii=False)}\n" for line in results.lines)
        (run / f"samples_{name}_{date}.jsonl").write_text(lines, encoding="utf-8")
        (run / f"results_{date}.json").write_text(json.dumps(content, indent=2), encoding="utf-8")
    for note in results.notes:
        print(note)
    print(f"{results.n:,} answers of {model}, written to {arguments.out}; next: medfaith report {arguments.out}")
    return 0
