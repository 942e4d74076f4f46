"""Logs of Inspect, converted to the results and sample logs of lm-eval, which everything else reads.

A log of `inspect eval medfaith/...` has the fields of lm-eval's sample log for each row (`harnesses.inspect_subtasks`).
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import re
import shutil
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medfaith.loaders.atomic import scratch_folder
from medfaith.loaders.errors import InputError, MedfaithError
from medfaith.loaders.secrets import mask_arguments

from .files import is_lm_evals, safe_name

if TYPE_CHECKING:
    from inspect_ai.log import EvalLog

MODEL_TYPE = "inspect"  # name of the model's type in the results
_NAME = re.compile(r"\d{4}-\d\d-\d\dT.+\.(eval|json)")  # Inspect's names begin with the time
_EXPECTED = "a log of inspect eval medfaith/... (.eval or .json)"
_SHAPING = (  # settings of generation that change answers
    *("temperature", "top_p", "top_k", "seed", "max_tokens", "stop_seqs", "frequency_penalty", "presence_penalty"),
    *("reasoning_effort", "reasoning_tokens", "num_choices"),
)
_UNUSED = {"events", "attachments", "store", "messages", "output"}  # fields of a sample


@contextlib.contextmanager
def converted_logs(paths: Sequence[Path]) -> Iterator[list[Path]]:
    """Replace logs of Inspect among paths by temporary folders with the same answers in lm-eval's form.

    Args:
        paths: Folders and files, of lm-eval or of Inspect.

    Yields:
        One path for each path, in their order. Paths without logs of Inspect are unchanged.

    Raises:
        InputError: A log of Inspect is not of medfaith's tasks or not complete, or a folder holds logs of both.
        MedfaithError: inspect_ai is not installed.
    """
    logs_by_path = {path: _find_logs(Path(path)) for path in paths}
    if not any(logs_by_path.values()):
        yield [Path(path) for path in paths]
        return
    with scratch_folder() as scratch:
        folders = []
        for number, path in enumerate(paths):
            folder = Path(path)
            if logs_by_path[path]:
                folder = scratch / str(number)
                _convert_logs(Path(path), logs_by_path[path], folder)
            folders.append(folder)
        yield folders


def _find_logs(path: Path) -> list[Path]:
    """List the logs of Inspect at or below a path. Raise InputError for a folder that also has logs of lm-eval."""
    if path.is_file():
        return [path] if path.suffix in (".eval", ".json") and not is_lm_evals(path) else []
    files = sorted(file for file in path.rglob("*") if _NAME.fullmatch(file.name)) if path.is_dir() else []
    if files and any(is_lm_evals(file) for file in path.rglob("*.json*")):
        raise InputError(path, "holds logs of lm-eval and of Inspect", action="name them one by one")
    return files


def _convert_logs(path: Path, logs: Sequence[Path], out: Path) -> None:
    """Convert the logs at a path. Of a folder, logs of other tasks and incomplete ones are left out with a note.

    Raise InputError if no log is left.
    """
    faults = []
    for number, log in enumerate(logs):
        try:
            convert_log(log, out / str(number))
        except InputError as error:
            if log == path:
                raise
            shutil.rmtree(out / str(number), ignore_errors=True)
            faults.append(error)
    if len(faults) == len(logs):
        raise faults[0]
    for error in faults:
        print(f"left out: {str(error).splitlines()[0]}", file=sys.stderr)


def convert_log(path: Path, out: Path) -> EvalLog:
    """Write the answers of a log of Inspect as lm-eval writes them: OUT/<task>/<condition>/<model>/.

    Args:
        path: The log.
        out: New folder.

    Returns:
        The log without its samples.

    Raises:
        InputError: The log is not of medfaith's tasks, or not complete.
        MedfaithError: inspect_ai is not installed.
    """
    header = read_header(path)
    from inspect_ai.log import read_eval_log_samples

    from medfaith.tasks.harnesses.inspect_subtasks import READINGS, SUBTASKS

    subtasks, sample_ids = (header.eval.metadata or {})[SUBTASKS], header.eval.dataset.sample_ids or []
    date = re.sub(r":", "-", header.eval.created[:19])
    folders = [out / subtask["task"] / (subtask["condition"] or "image") / name_folder(header) for subtask in subtasks]
    n_rows: Counter[int] = Counter()
    with contextlib.ExitStack() as stack:
        files: dict[int, Any] = {}
        for sample in read_eval_log_samples(path, all_samples_required=False, exclude_fields=_UNUSED):
            if READINGS not in sample.metadata:  # the request failed
                continue
            number = sample.metadata["part"]
            if number not in files:
                folders[number].mkdir(parents=True)
                log_path = folders[number] / f"samples_{subtasks[number]['task']}_{date}.jsonl"
                files[number] = stack.enter_context(log_path.open("w", encoding="utf-8"))
            n_rows[number] += 1
            for line in _build_lines(sample):
                files[number].write(json.dumps(line, ensure_ascii=False) + "\n")
    if n_rows.total() < len(sample_ids):
        problem = f"has answers to {n_rows.total():,} of {len(sample_ids):,} questions"
        raise InputError(path, problem, expected="an answer to each", action=f"inspect eval-retry {path}")
    for number, n in n_rows.items():
        results = _build_results(header, subtasks[number], n, is_single=len(subtasks) == 1)
        (folders[number] / f"results_{date}.json").write_text(json.dumps(results, indent=2), encoding="utf-8")
    return header


def read_header(path: Path) -> EvalLog:
    """Read a log of Inspect without its samples.

    Args:
        path: The log.

    Returns:
        The log.

    Raises:
        InputError: The file cannot be read, or is a log of other tasks.
        MedfaithError: inspect_ai is not installed.
    """
    if importlib.util.find_spec("inspect_ai") is None:
        raise MedfaithError(f"{path}: logs of Inspect need inspect_ai\n  what to do: uv sync --extra inspect")
    from inspect_ai.log import read_eval_log

    from medfaith.tasks.harnesses.inspect_subtasks import SUBTASKS

    try:
        header = read_eval_log(path, header_only=True)
    except Exception as error:  # Inspect's reader raises errors of zip files, JSON and pydantic
        problem = f"cannot be read ({type(error).__name__}: {str(error).splitlines()[0][:100]})"
        raise InputError(path, problem, expected=_EXPECTED) from error
    if SUBTASKS not in (header.eval.metadata or {}):
        raise InputError(path, f"is a log of the task {header.eval.task}", expected=_EXPECTED)
    return header


def name_folder(header: EvalLog) -> str:
    """Name the folder of a model's logs.

    Args:
        header: The log.

    Returns:
        A name that is safe for a folder.
    """
    return safe_name(header.eval.model)


def read_model_arguments(header: EvalLog) -> dict[str, Any]:
    """Read the arguments of a model, with masked secrets.

    Args:
        header: The log.

    Returns:
        Name -> value; `model` is Inspect's name of the model.
    """
    return {**mask_arguments(header.eval.model_args), "model": header.eval.model}


def read_generation(header: EvalLog, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Read the settings of generation that differ from the task's settings.

    Args:
        header: The log.
        settings: The task's settings, with Inspect's names.

    Returns:
        Name -> value; empty if the task's settings were used.
    """
    used = {name: getattr(header.plan.config, name) for name in _SHAPING}
    return {name: value for name, value in used.items() if value not in (None, settings.get(name))}


def _build_lines(sample: Any) -> Iterator[dict[str, Any]]:
    """Build the lines of lm-eval's sample log for a sample, one for each filter."""
    row = sample.metadata
    for name, reading in row["readings"].items():
        filtered = reading["filtered"]
        scores_letters = not isinstance(filtered, str)
        yield {
            "doc_id": row["row"],
            "doc": row["doc"],
            "target": sample.target,
            "resps": [[score] for score in filtered] if scores_letters else [[row["response"]]],
            "filtered_resps": filtered if scores_letters else [filtered],
            "filter": name,
            "metrics": [*reading["values"]],
            **reading["values"],
        }


def _build_results(header: EvalLog, subtask: Mapping[str, Any], n: int, *, is_single: bool) -> dict[str, Any]:
    """Build the content of lm-eval's results file for a subtask and the model."""
    task = subtask["task"]
    prefix = "" if is_single else "/".join(filter(None, [task, subtask["condition"]])) + "/"
    scores = header.results.scores if header.results else []
    figures = {
        f"{name.removeprefix(prefix)},{score.params.get('filter') or subtask['filters'][0]}": metric.value
        for score in scores
        for name, metric in score.metrics.items()
        if name.startswith(prefix)
    }
    return {
        "results": {task: {"alias": task, **figures}},
        "configs": {
            task: {
                "task": task,
                "dataset_kwargs": subtask["dataset_kwargs"],
                "metadata": {**subtask["metadata"], "version": subtask["version"]},
            }
        },
        "versions": {task: subtask["version"]},
        "n-shot": {task: 0},
        "n-samples": {task: {"original": subtask["n"], "effective": n}},
        "config": {
            "model": MODEL_TYPE,
            "model_args": read_model_arguments(header),
            "gen_kwargs": read_generation(header, subtask["settings"]),
        },
        "system_instruction": header.plan.config.system_message,
        "inspect_version": header.eval.packages.get("inspect_ai"),
    }
