"""Which files lm-eval wrote, and of which model: `results_<date>.json` and the sample logs beside it.

With `--output_path X --log_samples`, lm-eval writes `X/<model>/results_<date>.json` and, for each task,
`samples_<task>_<date>.jsonl`; the date ties them together. With `--output_path X.json` it writes `X_<date>.json`.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from medfaith.loaders import json_text, limits
from medfaith.loaders.atomic import is_partial
from medfaith.loaders.errors import InputError
from medfaith.tasks import NO_MATTER
from medfaith.tasks.decoding.titles import title

_DATE = r"_(?P<date>\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d(?:\.\d+)?)"
_RESULTS = re.compile(rf".*{_DATE}\.json")
_SAMPLES = re.compile(rf"samples_(?P<task>.+){_DATE}\.jsonl")
# A path on a machine, behind the kind of a model where it has one (gloria:PATH); NAME and ORG/NAME are none.
_PATH = re.compile(r"(?P<kind>\w{2,}:)?(?P<path>(?:[/~.\\]|[A-Za-z]:[/\\]).*|[^/:]+/[^/]+/.+)")
_EXPECTED = "results_<date>.json with samples_<task>_<date>.jsonl beside it"
_ACTION = "run lm-eval again with --output_path DIR --log_samples"


class Work(NamedTuple):
    """What the answers of a run took, of all its tasks (`tasks.models.resource_use`).

    seconds: in which the model was busy. peak_memory: MiB of its GPU; None without one. device: its name.
    """

    answers: int
    seconds: float
    peak_memory: float | None
    device: str
    batch_size: str


class SampleFile(NamedTuple):
    """One task's sample log and what the results beside it say of the run.

    model: name of the model, as `medfaith eval --model_name` gave it or as lm-eval was told; a path is cut to its last
    part, or to as many as tell it from the other logs' models. adapter: that of the PEFT adapter on top of it, and what
    decodes its answers, or "". decoding: the latter alone.
    arguments: the model's other arguments, to tell runs apart. n_data, n_run: rows that the task has and rows that were
    run (fewer under --limit); None where the results do not say.
    states_path: where the run says that it kept the options' hidden states, "" if it kept none.
    told: what else decides how the task was put, by name: its version, and what lm-eval was told beside it.
    rows: ids of the rows that count; None: all.
    n_images_missing: images of the rows that the model was not given, as far as the results say.
    n_unanswered: rows without an answer, as far as their lines say, which only those of servers do.
    n_cut: rows whose answer was cut at the limit of tokens, as far as their lines say. n_too_long: rows whose answer is
    longer than what is read of it (`reading.reasoning.LIMIT`).
    views: row id -> the views of its images, as far as its line says.
    work: of the run, as far as the results say, which only those of medfaith's models with weights do.
    """

    path: Path
    task: str
    date: str
    model: str
    adapter: str
    arguments: str
    n_data: int | None
    n_run: int | None
    states_path: str = ""
    told: tuple[tuple[str, str], ...] = ()
    rows: Collection[str] | None = None
    n_images_missing: int = 0
    n_unanswered: int = 0
    n_cut: int = 0
    n_too_long: int = 0
    views: Mapping[str, str] = MappingProxyType({})
    decoding: str = ""
    work: Work | None = None

    def telling(self, names: Sequence[str]) -> str:
        """Those of the model's other arguments that have these names, as "heatmap=centre, tau=2"."""
        arguments = json.loads(self.arguments or "{}")
        return ", ".join(f"{name}={arguments[name]}" for name in names if name in arguments)


def find_sample_files(paths: Sequence[Path]) -> tuple[list[SampleFile], list[str]]:
    """All sample logs at or below `paths`, in an order that depends on their names only, and notes on what has none.

    Args:
        paths: folders (searched at any depth), results files or sample files, in any order, repeats too.

    Raises:
        InputError: a path that does not exist or is no such file, results that cannot be read, samples without their
            results, or no samples at all.
    """
    results: set[Path] = set()
    samples: set[Path] = set()
    for path in paths:
        files_below = _list_files(path)
        results |= {file for file in files_below if _RESULTS.fullmatch(file.name)}
        samples |= {file for file in files_below if _SAMPLES.fullmatch(file.name)}
    notes = []
    for file in sorted(results, key=_get_sort_key):
        run_samples = set(file.parent.glob(f"samples_*_{_get_date(file)}.jsonl"))
        samples |= run_samples
        if not run_samples:
            notes.append(f"{file.name} has no samples beside it and is left out; {_ACTION}")
    if not samples:
        where = ", ".join(str(path) for path in paths) or "no path"
        raise InputError(where, "no sample log of lm-eval is there", expected=_EXPECTED, action=_ACTION)
    results_by_path: dict[Path, dict[str, Any]] = {}
    files = [_read_sample_file(file, results_by_path) for file in sorted(samples, key=_get_sort_key)]
    models, adapters = (_shorten_names({getattr(file, name) for file in files}) for name in ("model", "adapter"))
    return [
        file._replace(
            model=models[file.model], adapter=" + ".join(filter(None, [adapters[file.adapter], file.decoding]))
        )
        for file in files
    ], notes


def safe_name(name: str) -> str:
    """A name or path of a model as one part of a path.

    >>> safe_name("org/name"), safe_name("../models/x")
    ('org__name', 'models__x')
    """
    return re.sub(r"[^\w.-]+", "__", name).strip("_.") or "model"


def _shorten_names(names: Collection[str]) -> dict[str, str]:
    """What stands for each name in tables: a path is cut to the fewest last parts that tell it from the other names."""
    name_parts = {name: tuple(filter(None, re.split(r"[/\\:]+", name))) for name in names}
    displayed = {name: name for name in names}
    for name, parts in name_parts.items():
        if (path := _PATH.fullmatch(name)) is None:
            continue
        other_names = [
            name_parts[other_parts] for other_parts in names if other_parts.rstrip("/\\") != name.rstrip("/\\")
        ]
        for n in range(1, len(parts) + 1):
            if all(other_parts[-n:] != parts[-n:] for other_parts in other_names):
                displayed[name] = (path["kind"] or "") + "/".join(parts[-n:])
                break
    return displayed


def _list_files(path: Path) -> set[Path]:
    path = Path(path)
    if path.is_dir():
        files = {file for file in path.rglob("*.json*") if file.is_file() and not is_partial(file.relative_to(path))}
        return {file.resolve() for file in files if _RESULTS.fullmatch(file.name) or _SAMPLES.fullmatch(file.name)}
    if not path.is_file():
        raise InputError(path, "there is no such file or folder", expected=f"a folder that holds {_EXPECTED}")
    if not (_RESULTS.fullmatch(path.name) or _SAMPLES.fullmatch(path.name)):
        raise InputError(path, "not the name of a file that lm-eval writes", expected=_EXPECTED)
    return {path.resolve()}


def _get_sort_key(path: Path) -> tuple[str, str]:
    return path.name, str(path)


def _get_date(path: Path) -> str:
    return path.stem.rsplit("_", 1)[1]


def _read_sample_file(path: Path, results_by_path: dict[Path, dict[str, Any]]) -> SampleFile:
    name_match = _SAMPLES.fullmatch(path.name)
    assert name_match
    results = sorted(file for file in path.parent.glob(f"*_{name_match['date']}.json") if _RESULTS.fullmatch(file.name))
    if not results:
        expected = f"results_{name_match['date']}.json beside it, which names the model"
        raise InputError(path, "its results file is missing", expected=expected, action="put it back, or run it again")
    if results[0] not in results_by_path:
        results_by_path[results[0]] = _read_results(results[0])
    content = results_by_path[results[0]]
    model, adapter, arguments, states_path = _get_model(content, results[0])
    model = _get_nested(content, "configs", name_match["task"], "metadata", "model_name") or model
    sizes = content.get("n-samples")
    size = sizes.get(name_match["task"]) if isinstance(sizes, Mapping) else None
    n_data, n_run = (_count(size, key) for key in ("original", "effective"))
    conditions = _get_conditions(content, name_match["task"])
    return SampleFile(
        path, name_match["task"], name_match["date"], model, adapter, arguments, n_data, n_run, states_path, conditions,
        n_images_missing=_count_missing_images(content, name_match["task"]), decoding=title(json.loads(arguments)),
        work=_get_work(content),
    )  # fmt: skip


def _read_results(path: Path) -> dict[str, Any]:
    try:
        content = json_text.parse(limits.read_bytes(path, limits.JSON_BYTES))
    except (ValueError, OSError) as error:
        raise InputError(
            path, f"not JSON ({_describe_error(error)})", expected="a file that lm-eval wrote", action=_ACTION
        ) from error
    if not isinstance(content, dict):
        raise InputError(path, f"holds a {type(content).__name__}", expected="a JSON object, as lm-eval writes it")
    return content


def _get_model(content: Mapping[str, Any], path: Path) -> tuple[str, str, str, str]:
    """Model, adapter, other arguments, states_path.

    API models are named by `model`; models without arguments by their own name.
    """
    config = content.get("config")
    config = config if isinstance(config, Mapping) else {}
    arguments = config.get("model_args") or {}
    if isinstance(arguments, str):
        arguments = dict(assignment.split("=", 1) for assignment in arguments.split(",") if "=" in assignment)
    if not isinstance(arguments, Mapping):
        arguments = {}
    name = arguments.get("pretrained") or arguments.get("model") or config.get("model")
    if not name:
        raise InputError(path, "names no model", column="config.model", expected="a results file of lm-eval")
    named_apart = {"pretrained", "model", "peft", "states_path", *NO_MATTER}
    remaining = json.dumps({k: v for k, v in arguments.items() if k not in named_apart}, sort_keys=True, default=str)
    return str(name), str(arguments.get("peft") or ""), remaining, str(arguments.get("states_path") or "")


def _get_conditions(content: Mapping[str, Any], task: str) -> tuple[tuple[str, str], ...]:
    """The version of the task, its control and wording, and what else lm-eval was told, where there is any."""
    conditions = {
        "version": _get_nested(content, "versions", task),
        **{name: _get_nested(content, "configs", task, "metadata", name) for name in ("control", "wording")},
        "system instruction": _get_nested(content, "system_instruction"),
        "examples shown": _get_nested(content, "n-shot", task),
        "generation": _get_nested(content, "config", "gen_kwargs"),
    }
    return tuple((name, str(value)) for name, value in conditions.items() if value)


def _get_nested(content: Any, *names: str) -> Any:
    """What stands under these names, one inside the other; None where one is missing."""
    for name in names:
        content = content.get(name) if isinstance(content, Mapping) else None
    return content


def _count_missing_images(content: Mapping[str, Any], task: str) -> int:
    """The metric of that name, which each filter repeats; NaN and none at all count as 0."""
    scores = _get_nested(content, "results", task)
    scores = scores if isinstance(scores, Mapping) else {}
    counts = [value for name, value in scores.items() if name.partition(",")[0] == "n_images_missing"]
    return int(max((value for value in counts if isinstance(value, int | float) and 0 < value < math.inf), default=0))


def _get_work(content: Mapping[str, Any]) -> Work | None:
    """None where no answer was given in that run: a store had kept them all."""
    record = _get_nested(content, "config", "work")
    numbers = [_get_nested(record, name) for name in ("answers", "seconds", "peak_memory")]
    answers, seconds, memory = (
        number if isinstance(number, int | float) and 0 < number < math.inf else None for number in numbers
    )
    if answers is None or seconds is None:
        return None
    device, batch_size = _get_nested(record, "on"), _get_nested(content, "config", "batch_size")
    return Work(int(answers), seconds, memory, str(device), str(batch_size))


def _count(size: Any, key: str) -> int | None:
    value = size.get(key) if isinstance(size, Mapping) else None
    return value if isinstance(value, int) else None


def _describe_error(error: Exception) -> str:
    return str(error).splitlines()[0][:100] if str(error) else type(error).__name__
