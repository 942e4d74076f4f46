"""`medfaith merge`: one run made of the shards of an evaluation.

The lines of the sample logs are sorted into the order of all rows, byte for byte. lm-eval's own functions compute the
figures, as at the end of a run.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from medfaith import eval as evaluation
from medfaith.loaders import json_text
from medfaith.loaders.atomic import atomic_folder, require_elsewhere, require_own
from medfaith.loaders.errors import InputError
from medfaith.tasks import shard_marker
from medfaith.tasks.shard_marker import Ended, Rows

RECORD = "merge.json"  # in a folder that this wrote
_WRONG = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)  # what data of another type raises
_SHARDS = "all shards of one run: the same model, arguments, data, tasks, controls, seeds and versions"
_LINE = "a sample as lm-eval writes it for a task of medfaith"
_ALL = ("versions", "configs", "higher_is_better", "n-shot", "results")  # by task and group; a shard may lack some
_HASHES = ("doc_hash", "prompt_hash", "target_hash")


class Line(NamedTuple):
    """A line of a sample log.

    Attributes:
        filter: The number of the filter.
        row: The number of the row.
        log: The sample log.
        start: The offset of the line in the log, in bytes.
        length: The length of the line, in bytes.
        name: The name of the filter.
        values: The values that `process_results` returned.
        hashes: The three hashes of the sample, concatenated as in lm-eval.
    """

    filter: int
    row: int
    log: Path
    start: int
    length: int
    name: str
    values: Mapping[str, Any]
    hashes: str


def add_jobs(jobs: Any) -> None:
    """Add `merge` to the command's jobs.

    Args:
        jobs: The sub-parsers of the command.
    """
    job = jobs.add_parser(
        "merge",
        help="put the shards of medfaith eval --shard together as one run",
        description="Put the shards of one medfaith eval together. Results, intervals and sample logs are those of a "
        "run without --shard. Missing or repeated shards and shards of different runs are refused. The command needs "
        "no model, no data and no images. Exit status 3: a server left more than 1% of the rows unanswered.",
        epilog="Example: medfaith merge results/1 results/2 results/3 --out merged",
    )
    job.add_argument(
        "shards", type=Path, nargs="+", metavar="DIR",
        help="folder of a shard (the --output_path of its medfaith eval), or a folder with folders of shards",
    )  # fmt: skip
    job.add_argument(
        "--out", type=Path, required=True, metavar="DIR",
        help="folder to write to: new, empty, or written by medfaith merge",
    )  # fmt: skip
    job.set_defaults(job=_run_merge)


def _run_merge(arguments: argparse.Namespace, _: Sequence[str]) -> int:
    from medfaith.tasks.models.answer_counts import warn_unanswered

    out: Path = arguments.out
    require_own(out, RECORD)
    require_elsewhere(out)
    shards = find(arguments.shards)
    results = merge(shards, out)
    evaluation.print_summary([*out.rglob("samples_*.jsonl")], out)
    outcomes = Counter((results["config"].get("usage") or {}).get("outcomes"))
    return 3 if warn_unanswered(outcomes, "run the shards again, which ask only these") else 0


def find(folders: Sequence[Path]) -> list[Ended]:
    """Find the shards of one run.

    Args:
        folders: Folders of shards, or folders with folders of shards.

    Returns:
        The shards, in their order.

    Raises:
        InputError: A shard is missing, there twice or of another run, or a folder has no shard.
    """
    ended_shards, without = list[Ended](), list[str]()
    for folder in folders:
        if not folder.is_dir():
            raise InputError(folder, "there is no such folder", expected="a folder that medfaith eval --shard wrote")
        is_shard = (folder / shard_marker.NAME).exists()
        inside = [folder] if is_shard else sorted(path for path in folder.iterdir() if path.is_dir())
        ended = [shard for shard in inside if (shard / shard_marker.NAME).exists()]
        if not ended:
            action = "run its shard again: with the same command it goes on where it stopped"
            raise InputError(folder, f"no shard has ended here: it has no {shard_marker.NAME}", action=action)
        without += [str(shard) for shard in inside if shard not in ended]
        ended_shards += [shard_marker.read(shard) for shard in ended]
    numbered: dict[int, Ended] = {}
    for shard in ended_shards:
        if differs := shard_marker.difference(_list_common_settings(shard), _list_common_settings(ended_shards[0])):
            where = f"is of another run than {ended_shards[0].folder}: {differs}"
            action = f"leave it out, or run this shard as that of {ended_shards[0].folder} was run"
            raise InputError(shard.folder, where, expected=_SHARDS, action=action)
        number, n_shards = shard.shard
        if number in numbered:
            where = f"holds shard {number}/{n_shards}, and so does {numbered[number].folder}"
            raise InputError(shard.folder, where, expected="each shard once", action="leave one of the two out")
        numbered[number] = shard
    n_shards = ended_shards[0].shard[1]
    if lacking := n_shards - len(numbered):
        first_missing = next(number for number in count(1) if number not in numbered)
        other_missing = f", and so are {lacking - 1} others" if lacking > 1 else ""
        hint = f"; there is no {shard_marker.NAME} in {', '.join(without)}" if without else ""
        action = f"run medfaith eval --shard {first_missing}/{n_shards} as the other shards, or name its folder"
        place = ", ".join(map(str, folders))
        raise InputError(
            place, f"shard {first_missing}/{n_shards} is missing{other_missing}{hint}", expected=_SHARDS, action=action
        )
    return [numbered[number] for number in sorted(numbered)]


def _list_common_settings(shard: Ended) -> dict[str, Any]:
    """List the settings that must be equal in all shards of a run."""
    rows = {
        f"the set of rows of {task}": f"{rows_of_task.n} rows, digest {rows_of_task.digest}"
        for task, rows_of_task in shard.rows.items()
    }
    return {"the number of shards": shard.shard[1], **shard.asked, **rows}


def merge(shards: Sequence[Ended], out: Path) -> dict[str, Any]:
    """Write results and sample logs of the whole run, and replace the content of `out`.

    Args:
        shards: All shards of the run.
        out: Folder to write to.

    Returns:
        The results.

    Raises:
        InputError: A file is not the one that its shard wrote; `out` is then unchanged.
    """
    from medfaith.tasks import lm_eval_internals
    from medfaith.tasks.logged_figures import figures

    with _name_shards(shards):
        run_results = together([_read_results(shard) for shard in shards], shards[0].shard[1])
    rows = shards[0].rows
    date = max(_get_date(shard.results.name) for shard in shards)
    values, hashes = {}, {}
    with atomic_folder(out) as partial:
        folder = partial / Path(shards[0].results.name).parent  # lm-eval names it after the model
        folder.mkdir(exist_ok=True)
        for task, rows_of_task in rows.items():
            logs = [shard.path(shard.samples[task]) for shard in shards if task in shard.samples]
            lines = lines_of(logs, task, rows_of_task)
            values[task] = _collect_values(lines)
            hashes[task] = _write(lines, folder / f"samples_{task}_{date}.jsonl")
        with _name_shards(shards):
            computed = figures(run_results, values, {task: rows_of_task.n for task, rows_of_task in rows.items()})
        results = run_results | computed | {"task_hashes": hashes}
        dumped = json.dumps(results, indent=2, default=lm_eval_internals.encode_value, ensure_ascii=False)
        (folder / f"results_{date}.json").write_text(dumped, encoding="utf-8")
        record = {"shards": [str(shard.folder) for shard in shards], "asked": shards[0].asked}
        (partial / RECORD).write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    return results


@contextlib.contextmanager
def _name_shards(shards: Sequence[Ended]) -> Iterator[None]:
    """Raise an InputError that names the shards if their results have values of a wrong type."""
    try:
        yield
    except _WRONG as error:
        fault = f"the shards' results cannot be put together ({type(error).__name__}: {str(error)[:100]})"
        raise InputError(
            ", ".join(str(shard.folder) for shard in shards), fault, action="run the shards again"
        ) from error


def _read_results(shard: Ended) -> dict[str, Any]:
    action = "copy the folder again, or run the shard again"
    path = shard.path(shard.results)
    content = json_text.read(path, expected="results of lm-eval", action=action)
    if not isinstance(content, dict) or not {*_ALL, "config"} <= content.keys():
        raise InputError(path, "holds no results of lm-eval", action=action)
    return content


def _get_date(name: str) -> str:
    return name.rpartition("_")[2].removesuffix(".json")


def together(results: Sequence[dict[str, Any]], n_shards: int) -> dict[str, Any]:
    """Merge results: the first shard's fields, the tasks and groups of all shards, and the sums of time and usage.

    Args:
        results: The results of each shard, the first shard first.
        n_shards: Number of shards.

    Returns:
        The results of the run.
    """
    first_results = results[0]
    merged = first_results | {
        name: {key: value for shard_results in results for key, value in shard_results[name].items()} for name in _ALL
    }
    for config in merged["configs"].values():
        subject = config.get("metadata") or {}
        if "command" in subject:
            subject["command"] = re.sub(r"--shard[ =]\S+", f"--shard I/{n_shards}", subject["command"])
    configs = [shard_results["config"] for shard_results in results]
    if "usage" in first_results["config"]:
        merged["config"]["usage"] = _sum_records([config["usage"] for config in configs])
    if "work" in first_results["config"]:
        work = [config["work"] for config in configs]
        merged["config"]["work"] = {
            **_sum_records([{name: shard_results[name] for name in ("answers", "seconds")} for shard_results in work]),
            "peak_memory": max(
                (shard_results["peak_memory"] for shard_results in work if shard_results["peak_memory"] is not None),
                default=None,
            ),
            "on": ", ".join(dict.fromkeys(shard_results["on"] for shard_results in work)),
        }
    seconds = "total_evaluation_time_seconds"
    return merged | {seconds: str(sum(float(shard_results[seconds]) for shard_results in results))}


def _sum_records(values: Sequence[Any]) -> Any:
    """Sum numbers, or mappings entry by entry, with 0 for a missing entry; None if a number is unknown."""
    if mappings := [value for value in values if isinstance(value, Mapping)]:
        return {
            name: _sum_records([records.get(name, 0) for records in mappings])
            for name in {k: None for records in mappings for k in records}
        }
    return None if None in values else sum(values)


def lines_of(logs: Sequence[Path], task: str, rows: Rows) -> list[Line]:
    """Read the lines of a task's sample logs in the order of one run: by filter, then by row.

    Args:
        logs: Sample logs of the shards.
        task: Name of the task.
        rows: Rows of the task.

    Returns:
        The lines.

    Raises:
        InputError: A row is missing or repeated, or a line is broken.
    """
    filters: dict[str, int] = {}
    lines = sorted((line for log in logs for line in _read(log, filters)), key=lambda line: line[:2])
    if [line[:2] for line in lines] != [(number, row) for number in range(len(filters)) for row in range(rows.n)]:
        fault = f"the shards together have {len(lines)} lines of {task}, and not each of its {rows.n} rows once"
        action = "run the shards again, each with an --output_path of its own"
        raise InputError(", ".join(map(str, logs)), fault, action=action)
    return lines


def _read(log: Path, filters: dict[str, int]) -> Iterator[Line]:
    """Read the lines of a sample log.

    Args:
        log: The sample log.
        filters: The number of each filter by its name. New filters are added.

    Yields:
        The lines in the order of the log.

    Raises:
        InputError: A line is broken.
    """
    from medfaith.tasks.scoring import read_logged_values

    start = 0
    with log.open("rb") as file:
        for number, text in enumerate(file, start=1):
            try:
                sample = json_text.parse(text)
                name, hashes = sample["filter"], "".join(sample[name] for name in _HASHES)
                place = (filters.setdefault(name, len(filters)), int(sample["doc_id"]), log, start, len(text))
                yield Line(*place, name, read_logged_values(sample), hashes)
            except _WRONG as error:
                fault = f"cannot be read ({type(error).__name__}: {str(error)[:100]})"
                raise InputError(log, fault, row=number, expected=_LINE, action="run the shard again") from None
            start += len(text)


def _collect_values(lines: Iterable[Line]) -> dict[tuple[str, str], list[Any]]:
    """(metric, filter) -> the values of all rows that have the metric."""
    values = defaultdict(list)
    for line in lines:
        for metric, value in line.values.items():
            values[metric, line.name].append(value)
    return values


def _write(lines: Sequence[Line], path: Path) -> str:
    """Copy the lines from their logs, and return lm-eval's hash of the task."""
    digest = hashlib.sha256()
    with contextlib.ExitStack() as opened, path.open("wb") as file:
        logs = {log: opened.enter_context(log.open("rb")) for log in dict.fromkeys(line.log for line in lines)}
        for line in lines:
            logs[line.log].seek(line.start)
            file.write(logs[line.log].read(line.length))
            digest.update(line.hashes.encode())
    return digest.hexdigest()
