"""`medfaith merge`: the shards of one evaluation as the one run that they are parts of.

The lines of their sample logs are put in the order of all rows, byte for byte. lm-eval's own functions compute the
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
from medfaith.loaders.atomic import atomic_folder, require_own
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
    """A line of a sample log: the number of its filter and of its row, the log, and its place there in bytes.

    name: of the filter. values: what `process_results` returned. hashes: its three, put together as lm-eval does.
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
    """Adds `merge` to the command's jobs."""
    job = jobs.add_parser(
        "merge",
        help="put the shards of medfaith eval --shard together as one run",
        description="Puts the shards of one medfaith eval together. Results, intervals and sample logs are those of a "
        "run without --shard. Shards that are missing, doubled or of different runs are refused. It takes no model, no "
        "data and no images. Exit status 3: a server left more than 1% of the rows unanswered.",
        epilog="Example: medfaith merge results/1 results/2 results/3 --out merged",
    )
    job.add_argument(
        "shards", type=Path, nargs="+", metavar="DIR",
        help="folder of a shard, the --output_path of its medfaith eval; or a folder that holds such folders",
    )  # fmt: skip
    job.add_argument(
        "--out", type=Path, required=True, metavar="DIR",
        help="folder to write to: a new one, an empty one, or one that medfaith merge wrote",
    )  # fmt: skip
    job.set_defaults(job=_merge)


def _merge(arguments: argparse.Namespace, _: Sequence[str]) -> int:
    from medfaith.tasks.models.answer_counts import warn_unanswered

    out: Path = arguments.out
    require_own(out, RECORD)
    shards = find(arguments.shards)
    results = merge(shards, out)
    evaluation.print_summary([*out.rglob("samples_*.jsonl")], out)
    outcomes = Counter((results["config"].get("usage") or {}).get("outcomes"))
    return 3 if warn_unanswered(outcomes, "run the shards again, which ask only these") else 0


def find(folders: Sequence[Path]) -> list[Ended]:
    """The shards of one run, in their order, from folders of shards and folders that hold such folders.

    Raises InputError for shards that are missing, doubled or of different runs, and for a folder without any.
    """
    found, without = list[Ended](), list[str]()
    for folder in folders:
        if not folder.is_dir():
            raise InputError(folder, "there is no such folder", expected="a folder that medfaith eval --shard wrote")
        own = (folder / shard_marker.NAME).exists()
        inside = [folder] if own else sorted(path for path in folder.iterdir() if path.is_dir())
        ended = [one for one in inside if (one / shard_marker.NAME).exists()]
        if not ended:
            action = "run its shard again: with the same command it goes on where it stopped"
            raise InputError(folder, f"no shard has ended here: it has no {shard_marker.NAME}", action=action)
        without += [str(one) for one in inside if one not in ended]
        found += [shard_marker.read(one) for one in ended]
    numbered: dict[int, Ended] = {}
    for one in found:
        if differs := shard_marker.difference(_told(one), _told(found[0])):
            where = f"is of another run than {found[0].folder}: {differs}"
            action = f"leave it out, or run this shard as that of {found[0].folder} was run"
            raise InputError(one.folder, where, expected=_SHARDS, action=action)
        number, of = one.shard
        if number in numbered:
            where = f"holds shard {number}/{of}, and so does {numbered[number].folder}"
            raise InputError(one.folder, where, expected="each shard once", action="leave one of the two out")
        numbered[number] = one
    of = found[0].shard[1]
    if lacking := of - len(numbered):
        first = next(number for number in count(1) if number not in numbered)
        others = f", and so are {lacking - 1} others" if lacking > 1 else ""
        hint = f"; there is no {shard_marker.NAME} in {', '.join(without)}" if without else ""
        action = f"run medfaith eval --shard {first}/{of} as the other shards, or name its folder"
        place = ", ".join(map(str, folders))
        raise InputError(place, f"shard {first}/{of} is missing{others}{hint}", expected=_SHARDS, action=action)
    return [numbered[number] for number in sorted(numbered)]


def _told(one: Ended) -> dict[str, Any]:
    """What all shards of a run have in common."""
    rows = {f"what is known of {task}": f"{of.n} rows, digest {of.digest}" for task, of in one.rows.items()}
    return {"the number of shards": one.shard[1], **one.asked, **rows}


def merge(shards: Sequence[Ended], out: Path) -> dict[str, Any]:
    """Writes results and sample logs of a run whose shards these are, in the place of what `out` holds.

    Returns the results. Raises InputError for files that are not those that the shards wrote; `out` then is as it was.
    """
    from lm_eval.utils import handle_non_serializable

    from medfaith.tasks.logged_figures import figures

    with _named(shards):
        told = together([_results(shard) for shard in shards], shards[0].shard[1])
    rows = shards[0].rows
    date = max(_date(shard.results.name) for shard in shards)
    values, hashes = {}, {}
    with atomic_folder(out) as partial:
        folder = partial / Path(shards[0].results.name).parent  # lm-eval names it after the model
        folder.mkdir(exist_ok=True)
        for task, of_task in rows.items():
            logs = [shard.path(shard.samples[task]) for shard in shards if task in shard.samples]
            lines = lines_of(logs, task, of_task)
            values[task] = _values(lines)
            hashes[task] = _write(lines, folder / f"samples_{task}_{date}.jsonl")
        with _named(shards):
            computed = figures(told, values, {task: of_task.n for task, of_task in rows.items()})
        results = told | computed | {"task_hashes": hashes}
        dumped = json.dumps(results, indent=2, default=handle_non_serializable, ensure_ascii=False)
        (folder / f"results_{date}.json").write_text(dumped, encoding="utf-8")
        record = {"shards": [str(shard.folder) for shard in shards], "asked": shards[0].asked}
        (partial / RECORD).write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    return results


@contextlib.contextmanager
def _named(shards: Sequence[Ended]) -> Iterator[None]:
    """What shards hold of another type than they should ends in an InputError that names them."""
    try:
        yield
    except _WRONG as error:
        found = f"the shards' results cannot be put together ({type(error).__name__}: {str(error)[:100]})"
        raise InputError(", ".join(str(one.folder) for one in shards), found, action="run the shards again") from error


def _results(shard: Ended) -> dict[str, Any]:
    action = "copy the folder again, or run the shard again"
    path = shard.path(shard.results)
    content = json_text.read(path, expected="results of lm-eval", action=action)
    if not isinstance(content, dict) or not {*_ALL, "config"} <= content.keys():
        raise InputError(path, "holds no results of lm-eval", action=action)
    return content


def _date(name: str) -> str:
    return name.rpartition("_")[2].removesuffix(".json")


def together(results: Sequence[dict[str, Any]], of: int) -> dict[str, Any]:
    """The results of the first shard with the tasks and groups of all, and the sums of what they took."""
    first = results[0]
    told = first | {name: {key: value for one in results for key, value in one[name].items()} for name in _ALL}
    for config in told["configs"].values():
        about = config.get("metadata") or {}
        if "command" in about:
            about["command"] = re.sub(r"--shard[ =]\S+", f"--shard I/{of}", about["command"])
    configs = [one["config"] for one in results]
    if "usage" in first["config"]:
        told["config"]["usage"] = _sum([config["usage"] for config in configs])
    if "work" in first["config"]:
        work = [config["work"] for config in configs]
        told["config"]["work"] = {
            **_sum([{name: one[name] for name in ("answers", "seconds")} for one in work]),
            "peak_memory": max((one["peak_memory"] for one in work if one["peak_memory"] is not None), default=None),
            "on": ", ".join(dict.fromkeys(one["on"] for one in work)),
        }
    seconds = "total_evaluation_time_seconds"
    return told | {seconds: str(sum(float(one[seconds]) for one in results))}


def _sum(values: Sequence[Any]) -> Any:
    """Of numbers, None where one is not known; of mappings each entry's."""
    if isinstance(values[0], Mapping):
        return {name: _sum([of.get(name, 0) for of in values]) for name in {k: None for of in values for k in of}}
    return None if None in values else sum(values)


def lines_of(logs: Sequence[Path], task: str, rows: Rows) -> list[Line]:
    """The lines of a task's sample logs in the order in which one run writes them: by filter, then by row.

    Raises InputError for a line that is broken, and for rows that are missing or doubled.
    """
    filters: dict[str, int] = {}
    lines = sorted((line for log in logs for line in _read(log, filters)), key=lambda line: line[:2])
    if [line[:2] for line in lines] != [(of, row) for of in range(len(filters)) for row in range(rows.n)]:
        found = f"the shards together have {len(lines)} lines of {task}, and not each of its {rows.n} rows once"
        action = "run the shards again, each with an --output_path of its own"
        raise InputError(", ".join(map(str, logs)), found, action=action)
    return lines


def _read(log: Path, filters: dict[str, int]) -> Iterator[Line]:
    """filters: the number of each filter; new ones are added."""
    from medfaith.tasks.scoring import logged_values

    start = 0
    with log.open("rb") as file:
        for number, text in enumerate(file, start=1):
            try:
                sample = json_text.parse(text)
                name, hashes = sample["filter"], "".join(sample[name] for name in _HASHES)
                place = (filters.setdefault(name, len(filters)), int(sample["doc_id"]), log, start, len(text))
                yield Line(*place, name, logged_values(sample), hashes)
            except _WRONG as error:
                found = f"cannot be read ({type(error).__name__}: {str(error)[:100]})"
                raise InputError(log, found, row=number, expected=_LINE, action="run the shard again") from None
            start += len(text)


def _values(lines: Iterable[Line]) -> dict[tuple[str, str], list[Any]]:
    """(metric, filter) -> the values of all rows that have the metric."""
    found = defaultdict(list)
    for line in lines:
        for metric, value in line.values.items():
            found[metric, line.name].append(value)
    return found


def _write(lines: Sequence[Line], path: Path) -> str:
    """Writes the lines, as they are in their logs. Returns lm-eval's hash of the task."""
    digest = hashlib.sha256()
    with contextlib.ExitStack() as opened, path.open("wb") as file:
        logs = {log: opened.enter_context(log.open("rb")) for log in dict.fromkeys(line.log for line in lines)}
        for line in lines:
            logs[line.log].seek(line.start)
            file.write(logs[line.log].read(line.length))
            digest.update(line.hashes.encode())
    return digest.hexdigest()
