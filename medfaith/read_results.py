"""`medfaith read-results`: a results file of a paper's own code, or of another harness, as a run for `report`."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from medfaith.loaders.atomic import atomic_folder, require_elsewhere, require_own
from medfaith.loaders.errors import InputError
from medfaith.logs.files import safe_name

if TYPE_CHECKING:
    from medfaith.tasks.index import Task

RECORD = "read-results.json"  # in a folder that this wrote
MODEL_TYPE = "authors-code"  # name of the model's type in the results


def add_jobs(jobs: argparse._SubParsersAction) -> None:
    """Add `read-results` to the command's jobs.

    Args:
        jobs: The sub-parsers of the command.
    """
    job = jobs.add_parser(
        "read-results",
        help="turn results of lmms-eval, VLMEvalKit or a paper's own code into a run for report and compare",
        description="Read a results file that another program wrote, and score its answers as those of a run. Then: "
        "medfaith report DIR. Read are: <date>_samples_<task>.jsonl of lmms-eval (--log_samples); prediction files of "
        "VLMEvalKit (.xlsx, .tsv, .json); and files of the code that the authors of CXR-ContraBench released (JSON "
        "with summary and records), whose scores are compared with ours.",
    )
    job.add_argument("file", type=Path, metavar="FILE", help="results file that the other program wrote")
    job.add_argument(
        "--task",
        required=True,
        metavar="NAME",
        help="task of medfaith with the same questions, such as medfaith_contrabench_chexpert_presence, or GROUP::TASK",
    )
    job.add_argument(
        "--data",
        metavar="DIR|ORG",
        help="folder that medfaith build wrote, or organisation on the Hub, from which the questions came; needed for "
        "lmms-eval and VLMEvalKit",
    )
    job.add_argument("--model", metavar="NAME", help="name of the model (default: the name in the authors' file)")
    job.add_argument(
        "--out",
        type=Path,
        required=True,
        metavar="DIR",
        help="folder for the run; replaced if medfaith read-results wrote it",
    )
    job.set_defaults(job=_run)


def _run(arguments: argparse.Namespace, _: list[str]) -> int:
    from medfaith.tasks.harnesses.results import find_harness
    from medfaith.tasks.index import select_tasks

    if not arguments.file.is_file():
        raise InputError(arguments.file, "there is no such file", expected="a results file")
    require_own(arguments.out, RECORD)
    require_elsewhere(arguments.out)
    group, _, member = arguments.task.partition("::")
    tasks = [task for task in select_tasks(group) if not member or task.name == arguments.task]
    if len(tasks) != 1:
        problem = f"names {len(tasks)} tasks of medfaith"
        raise InputError(f"--task {arguments.task}", problem, expected="one task", action="medfaith tasks --list")
    (task,) = tasks
    harness = find_harness(arguments.file)
    model, n = _read_harness(arguments, task, harness) if harness else _read_authors(arguments, task)
    print(f"{n:,} answers of {model}, written to {arguments.out}; next: medfaith report {arguments.out}")
    return 0


def _read_harness(arguments: argparse.Namespace, task: Task, harness: str) -> tuple[str, int]:
    """Score answers that another harness recorded; return the model's name and the number of answers."""
    from medfaith.tasks.harnesses.questions import load_one
    from medfaith.tasks.harnesses.results import VLMEVALKIT, match_answers, read_answers
    from medfaith.tasks.models.recorded_lm import RecordedLM
    from medfaith.tasks.run import Model, answer

    for option, meaning in (("data", "the rows"), ("model", "the model")):
        if not getattr(arguments, option):
            problem = f"is missing: a file of {harness} does not hold {meaning}"
            raise InputError(f"--{option}", problem, action=f"add --{option}")
    loaded_task = load_one(task.name, arguments.data, need_images=False)
    answers = read_answers(arguments.file, harness)
    matched = match_answers(answers, loaded_task, arguments.file, harness)
    recorded = {row_id: text for row_id, (_, text) in matched.items()}
    samples = {task.name: sorted(place for place, _ in matched.values())}
    # Tables must not mix its answers with those to our prompt.
    name = f"{arguments.model} (prompt of VLMEvalKit)" if harness == VLMEVALKIT else arguments.model
    model = Model(harness.lower(), {"model": name}, lambda: RecordedLM(recorded), {"samples": samples})
    with _write_run(arguments.out, task, name) as run:
        answer({"tasks": {task.name: loaded_task}, "groups": {}}, model, run)
    if len(matched) < (n_rows := len(loaded_task.test_docs())):
        print(f"{n_rows - len(matched):,} of {n_rows:,} rows have no answer in {arguments.file} and are left out")
    if n_failed := sum(text is None for text in recorded.values()):
        print(f"{n_failed:,} answers failed in {harness}; they count as unanswered")
    return name, len(matched)


def _read_authors(arguments: argparse.Namespace, task: Task) -> tuple[str, int]:
    """Read a file of a paper's own code; return the model's name and the number of answers."""
    from medfaith.reporting.registry import BENCHMARKS

    for benchmark in BENCHMARKS.values():
        results = None
        if task.name.startswith(benchmark.task_prefix):
            results = benchmark.read_authors_results(arguments.file, task)
        if results is not None:
            break
    else:
        problem = "is no result file of a harness, and the paper of the task's benchmark has no results files"
        expected = "a sample log of lmms-eval (.jsonl), or a prediction file of VLMEvalKit (.xlsx, .tsv, .json)"
        raise InputError(arguments.file, problem, expected=expected)
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
    with _write_run(arguments.out, task, model) as run:
        lines = "".join(f"{json.dumps(line, ensure_ascii=False)}\n" for line in results.lines)
        (run / f"samples_{name}_{date}.jsonl").write_text(lines, encoding="utf-8")
        (run / f"results_{date}.json").write_text(json.dumps(content, indent=2), encoding="utf-8")
    for note in results.notes:
        print(note)
    return model, results.n


@contextmanager
def _write_run(out: Path, task: Task, model: str) -> Iterator[Path]:
    """Create the folder of a run, with the record of this command; nothing is left after an error."""
    with atomic_folder(out) as folder:
        (folder / RECORD).write_text(json.dumps({"task": task.name, "model": model}) + "\n", encoding="utf-8")
        run = folder / safe_name(model)
        run.mkdir()
        yield run
