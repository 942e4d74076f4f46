"""`shard.json`, the marker of a completed shard: its settings and the files of its answers. It is written last."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ..loaders import json_text, limits
from ..loaders.atomic import atomic_file
from ..loaders.errors import InputError
from ..loaders.secrets import is_secret
from . import NO_MATTER

NAME = "shard.json"
# Model arguments and task metadata that hold paths or addresses.
_PLACES = {"store", "base_url", "dry_run"} | NO_MATTER
_PLACES_OF_TASKS = {"roots", "row_ids", "heatmaps", "patients", "command", "builds"}
_OPTIONS = (
    *("model", "num_fewshot", "apply_chat_template", "fewshot_as_multiturn", "system_instruction", "gen_kwargs"),
    *("seed", "trust_remote_code"),
)
_AGAIN = "copy the folder again, or run the shard again: it asks only what is missing where answers are kept"


class Rows(NamedTuple):
    """All rows of a task: their number, and a digest of their ids and questions."""

    n: int
    digest: str


class File(NamedTuple):
    """The name of a file below the folder of a shard, and its SHA-256."""

    name: str
    sha256: str


class Ended(NamedTuple):
    """A completed shard.

    Attributes:
        folder: The folder of the marker.
        shard: The number of the shard, and the number of shards.
        asked: The settings that determine the answers, with names for messages.
        rows: Task -> all its rows, in the order of the run.
        results: The file of results.
        samples: Task -> sample log. A task without a patient in this shard has none.
    """

    folder: Path
    shard: tuple[int, int]
    asked: Mapping[str, Any]
    rows: Mapping[str, Rows]
    results: File
    samples: Mapping[str, File]

    def path(self, file: File) -> Path:
        """Return the path of a file of the shard.

        Args:
            file: The file.

        Returns:
            The path; the content is checked against its digest.

        Raises:
            InputError: The file is missing, or differs from the file that the shard wrote.
        """
        path = self.folder / file.name
        try:
            limits.require_file(path)
            hashed = _hash_file(path, self.folder)
        except OSError as error:
            raise InputError(path, f"cannot be read ({error.strerror})", action=_AGAIN) from None
        if hashed.sha256 != file.sha256:
            raise InputError(path, f"is not what the shard wrote: {NAME} has another SHA-256", action=_AGAIN)
        return path


def rows_of(task: Any) -> Rows:
    """Digest all rows of lm-eval's task.

    Args:
        task: A loaded task of lm-eval.

    Returns:
        The number of rows, and a digest of their ids and questions.
    """
    columns = task.eval_docs.with_format(None).select_columns(["id", "question"])[:]
    return Rows(len(columns["id"]), hashlib.sha256(json.dumps(columns).encode()).hexdigest()[:16])


def asked(config: Any, metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Collect the settings that determine the answers, without paths and secrets.

    Args:
        config: lm-eval's EvaluatorConfig.
        metadata: The metadata of the tasks.

    Returns:
        Name for messages -> value.
    """
    settings = {f"the version of {name}": importlib.metadata.version(name) for name in ("medfaith", "lm_eval")}
    settings |= {f"--{name}": getattr(config, name) for name in _OPTIONS}
    settings |= {
        f"{name} in --model_args": value
        for name, value in config.model_args.items()
        if name not in _PLACES and not is_secret(name)
    }
    builds = metadata.get("builds") or {}
    settings |= {f"the build {name}": build for name, build in builds.items()}
    places = _PLACES_OF_TASKS | ({"data"} if builds else set())
    settings |= {f"the option {name}": value for name, value in metadata.items() if name not in places}
    return json.loads(json.dumps(settings, default=str))


def difference(settings: Mapping[str, Any], other_settings: Mapping[str, Any]) -> str:
    """Describe the first difference between two mappings; "" if they are equal.

    Args:
        settings: The first mapping.
        other_settings: The second mapping.

    Returns:
        A clause with the name of the setting and both values.
    """
    for name in {**settings, **other_settings}:
        if settings.get(name) != other_settings.get(name):
            value, other_value = (mapping.get(name) for mapping in (settings, other_settings))
            return f"{name} is {value!r} here and {other_value!r} there"
    return ""


def refuse_others(folder: Path, shard: tuple[int, int], settings: Mapping[str, Any]) -> None:
    """Refuse a folder that holds another completed shard, of this run or of another.

    Args:
        folder: The folder.
        shard: The number of the new shard, and the number of shards.
        settings: The settings of the new shard.

    Raises:
        InputError: The folder holds another shard.
    """
    if not (folder / NAME).exists():
        return
    previous = read(folder)
    if previous.shard != shard or difference(previous.asked, settings):
        found = f"holds shard {previous.shard[0]}/{previous.shard[1]} of another run, or another shard of this one"
        raise InputError(folder, found, action="give each shard of each run an --output_path of its own")


def write(
    folder: Path, shard: tuple[int, int], settings: Mapping[str, Any], rows: Mapping[str, Rows], files: Iterable[Path]
) -> None:
    """Write the marker of a shard.

    Args:
        folder: The folder of the shard.
        shard: The number of the shard, and the number of shards.
        settings: The settings that determine the answers.
        rows: Task -> all its rows.
        files: The saved results and sample logs.

    Raises:
        InputError: Another shard, which ran at the same time, has written its marker here.
    """
    hashed = {path.name: _hash_file(path, folder) for path in files}
    results = next(name for name in hashed if not name.endswith(".jsonl"))
    date = results.rpartition("_")[2].removesuffix(".json")
    logs = {task: f"samples_{task}_{date}.jsonl" for task in rows}
    content = {
        "shard": shard,
        "asked": settings,
        "rows": rows,
        "results": hashed[results],
        "samples": {task: hashed[name] for task, name in logs.items() if name in hashed},
    }
    with atomic_file(folder / NAME) as partial:
        refuse_others(folder, shard, settings)
        partial.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def _hash_file(path: Path, folder: Path) -> File:
    with path.open("rb") as file:
        return File(path.relative_to(folder).as_posix(), hashlib.file_digest(file, "sha256").hexdigest())


def read(folder: Path) -> Ended:
    """Read the marker of a completed shard.

    Args:
        folder: The folder of the shard.

    Returns:
        The marker.

    Raises:
        InputError: The marker is missing or invalid.
    """
    path, expected = folder / NAME, "what medfaith eval --shard writes"
    content = json_text.read(path, expected=expected, action=_AGAIN)
    try:
        number, n_shards = map(int, content["shard"])
        if not 1 <= number <= n_shards:
            raise ValueError(f"shard {number} of {n_shards}")
        rows = {str(task): Rows(int(n), str(digest)) for task, (n, digest) in content["rows"].items()}
        samples = {task: _parse_file(entry) for task, entry in content["samples"].items() if task in rows}
        result = Ended(
            folder, (number, n_shards), dict(content["asked"]), rows, _parse_file(content["results"]), samples
        )
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:
        result = f"is no marker of a shard ({type(error).__name__}: {str(error)[:100]})"
        raise InputError(path, result, expected=expected, action=_AGAIN) from None
    return result


def _parse_file(entry: Any) -> File:
    name, digest = map(str, entry)
    if Path(name).is_absolute() or ".." in Path(name).parts or "\0" in name:
        raise ValueError(f"{name!r} is no file of the folder")
    return File(name, digest)
