"""Files of lm-eval: `results_<date>.json` with its sample logs, and the model of each.

With `--output_path X --log_samples`, lm-eval writes `X/<model>/results_<date>.json` and, for each task,
`samples_<task>_<date>.jsonl` with the same date. With `--output_path X.json` it writes `X_<date>.json`.
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
# A path on a machine, after the kind of the model if there is one (gloria:PATH); NAME and ORG/NAME do not match.
_PATH = re.compile(r"(?P<kind>\w{2,}:)?(?P<path>(?:[/~.\\]|[A-Za-z]:[/\\]).*|[^/:]+/[^/]+/.+)")
_EXPECTED = "results_<date>.json with samples_<task>_<date>.jsonl next to it"
_ACTION = "run lm-eval again with --output_path DIR --log_samples"


class Work(NamedTuple):
    """Time and memory of the answers of a run, over all its tasks (`tasks.models.vlm.resource_use`).

    Attributes:
        answers: Number of answers.
        seconds: Busy time of the model.
        peak_memory: MiB of its GPU; None without a GPU.
        device: Name of the device.
        batch_size: Batch size.
    """

    answers: int
    seconds: float
    peak_memory: float | None
    device: str
    batch_size: str


class SampleFile(NamedTuple):
    """The sample log of one task, with the settings of its run.

    Attributes:
        path: Path of the log.
        task: Name of the task.
        date: Date in the file's name.
        model: Name from `--model_name` or lm-eval. A path is cut to its last part, or to enough parts to be unique.
        adapter: PEFT adapter and decoder of the model, or "".
        arguments: The model's other arguments, as JSON; they distinguish runs.
        n_data: Number of rows of the task; None if unknown.
        n_run: Number of rows in the run, fewer under --limit; None if unknown.
        states_path: Folder of the options' hidden states, or "".
        told: Other settings by name: version, control, wording, generation.
        rows: Ids of the rows that count; None for all.
        n_images_missing: Number of images that the model did not get, if known.
        n_unanswered: Number of rows without an answer from a server, if known.
        n_cut: Number of answers that reached the limit of tokens, if known.
        n_too_long: Number of answers longer than `reading.reasoning.LIMIT`.
        views: Row id -> views of its images.
        other_images: Row id -> names of the images of another patient that the control shows.
        decoding: Decoder of the model, or "".
        work: Time and memory; None if unknown.
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
    other_images: Mapping[str, str] = MappingProxyType({})
    decoding: str = ""
    work: Work | None = None

    def telling(self, names: Sequence[str]) -> str:
        """Format those of the model's other arguments that have these names, for example "heatmap=centre, tau=2".

        Args:
            names: Names of arguments.

        Returns:
            The text; "" if the model has none of them.
        """
        arguments = json.loads(self.arguments or "{}")
        return ", ".join(f"{name}={arguments[name]}" for name in names if name in arguments)


def find_sample_files(paths: Sequence[Path]) -> tuple[list[SampleFile], list[str]]:
    """Find all sample logs at or below paths, sorted by name.

    Args:
        paths: Folders (searched at any depth), results files or sample logs, in any order.

    Returns:
        The logs, and notes on results without logs.

    Raises:
        InputError: A path is missing or no such file, results cannot be read, a log has no results, or there is no log.
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
            notes.append(f"{file.name} has no samples next to it and is left out; {_ACTION}")
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


def is_lm_evals(path: Path) -> bool:
    """Return whether a file has the name of a results file or a sample log.

    Args:
        path: The file.

    Returns:
        True for a name that lm-eval gives.
    """
    return bool(_RESULTS.fullmatch(path.name) or _SAMPLES.fullmatch(path.name))


def safe_name(name: str) -> str:
    """Turn a name or path of a model into one part of a path.

    Args:
        name: Name or path.

    Returns:
        The part.

    >>> safe_name("org/name"), safe_name("../models/x")
    ('org__name', 'models__x')
    """
    return re.sub(r"[^\w.-]+", "__", name).strip("_.") or "model"


def _shorten_names(names: Collection[str]) -> dict[str, str]:
    """Shorten paths to the fewest last parts that are unique among the names; other names stay."""
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
        return {file.resolve() for file in files if is_lm_evals(file)}
    if not path.is_file():
        raise InputError(path, "there is no such file or folder", expected=f"a folder that holds {_EXPECTED}")
    if not is_lm_evals(path):
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
        expected = f"results_{name_match['date']}.json next to it, which names the model"
        raise InputError(path, "its results file is missing", expected=expected, action="put it back, or run it again")
    if len(results) > 1 and len({file.read_bytes() for file in results}) > 1:
        problem = f"has several results files of its date: {', '.join(file.name for file in results)}"
        raise InputError(path, problem, expected="one, which names the model", action="move the others elsewhere")
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
    """Return the model, its adapter, its other arguments and its states_path.

    An API model is named by its argument `model`, and a model without arguments by its type.
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
    """List the task's version, control and wording, and lm-eval's options, if they are set."""
    conditions = {
        "version": _get_nested(content, "versions", task),
        **{name: _get_nested(content, "configs", task, "metadata", name) for name in ("control", "wording")},
        "system instruction": _get_nested(content, "system_instruction"),
        "examples shown": _get_nested(content, "n-shot", task),
        "generation": _get_nested(content, "config", "gen_kwargs"),
    }
    return tuple((name, str(value)) for name, value in conditions.items() if value)


def _get_nested(content: Any, *names: str) -> Any:
    """Return the value under nested names, or None if one is missing."""
    for name in names:
        content = content.get(name) if isinstance(content, Mapping) else None
    return content


def _count_missing_images(content: Mapping[str, Any], task: str) -> int:
    """Return the metric n_images_missing, which each filter repeats; 0 if it is NaN or missing."""
    scores = _get_nested(content, "results", task)
    scores = scores if isinstance(scores, Mapping) else {}
    counts = [value for name, value in scores.items() if name.partition(",")[0] == "n_images_missing"]
    return int(max((value for value in counts if isinstance(value, int | float) and 0 < value < math.inf), default=0))


def _get_work(content: Mapping[str, Any]) -> Work | None:
    """Read time and memory of a run; None if a store already had all its answers."""
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
