"""`shard.json`: what a shard that has ended was asked, and which files hold its answers. It is written last."""

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
from . import NO_MATTER

NAME = "shard.json"
# Arguments of models, and what tasks take, that say where something lies.
_PLACES = {"store", "base_url", "dry_run"} | NO_MATTER
_PLACES_OF_TASKS = {"roots", "row_ids", "heatmaps", "patients", "command", "builds"}
_SECRETS = ("token", "key", "secret", "password")
_OPTIONS = (
    *("model", "num_fewshot", "apply_chat_template", "fewshot_as_multiturn", "system_instruction", "gen_kwargs"),
    *("seed", "trust_remote_code"),
)
_AGAIN = "copy the folder again, or run the shard again: it asks only what is missing where answers are kept"


class Rows(NamedTuple):
    """All rows of a task, of which a shard has some: how many, and a digest of their ids and questions."""

    n: int
    digest: str


class File(NamedTuple):
    """A file below the folder of a shard, and its SHA-256."""

    name: str
    sha256: str


class Ended(NamedTuple):
    """A shard that has ended.

    shard: its number, and of how many. asked: what decides the answers, by names that a message can show. rows: task ->
    all its rows, in the order of the run. samples: task -> sample log; a task of which it has no patient has none.
    """

    folder: Path
    shard: tuple[int, int]
    asked: Mapping[str, Any]
    rows: Mapping[str, Rows]
    results: File
    samples: Mapping[str, File]

    def path(self, file: File) -> Path:
        """Where a file of the shard lies. Raises InputError where it is gone or is not what the shard wrote."""
        path = self.folder / file.name
        try:
            limits.require_file(path)
            found = _hashed(path, self.folder)
        except OSError as error:
            raise InputError(path, f"cannot be read ({error.strerror})", action=_AGAIN) from None
        if found.sha256 != file.sha256:
            raise InputError(path, f"is not what the shard wrote: {NAME} has another SHA-256", action=_AGAIN)
        return path


def rows_of(task: Any) -> Rows:
    """All rows of lm-eval's task."""
    columns = task.eval_docs.with_format(None).select_columns(["id", "question"])[:]
    return Rows(len(columns["id"]), hashlib.sha256(json.dumps(columns).encode()).hexdigest()[:16])


def asked(config: Any, metadata: Mapping[str, Any]) -> dict[str, Any]:
    """What decides the answers, of lm-eval's EvaluatorConfig and of what the tasks take; no places and no secrets."""
    found = {f"the version of {name}": importlib.metadata.version(name) for name in ("medfaith", "lm_eval")}
    found |= {f"--{name}": getattr(config, name) for name in _OPTIONS}
    found |= {
        f"{name} in --model_args": value
        for name, value in config.model_args.items()
        if name not in _PLACES and not name.endswith(_SECRETS)
    }
    builds = metadata.get("builds") or {}
    found |= {f"the build {name}": build for name, build in builds.items()}
    places = _PLACES_OF_TASKS | ({"data"} if builds else set())
    found |= {f"the option {name}": value for name, value in metadata.items() if name not in places}
    return json.loads(json.dumps(found, default=str))


def difference(one: Mapping[str, Any], other: Mapping[str, Any]) -> str:
    """What the first difference is, and how it is here and there; "" where there is none."""
    for name in {**one, **other}:
        if one.get(name) != other.get(name):
            here, there = (of.get(name) for of in (one, other))
            return f"{name} is {here!r} here and {there!r} there"
    return ""


def refuse_others(folder: Path, shard: tuple[int, int], asked: Mapping[str, Any]) -> None:
    """Raises InputError for a folder in which another shard has ended, of this run or of another."""
    if not (folder / NAME).exists():
        return
    before = read(folder)
    if before.shard != shard or difference(before.asked, asked):
        found = f"holds shard {before.shard[0]}/{before.shard[1]} of another run, or another shard of this one"
        raise InputError(folder, found, action="give each shard of each run an --output_path of its own")


def write(
    folder: Path, shard: tuple[int, int], asked: Mapping[str, Any], rows: Mapping[str, Rows], files: Iterable[Path]
) -> None:
    """Writes the marker of a shard whose results and sample logs are `files`, which stand on the disk.

    Raises InputError where another shard, which was asked at the same time, has ended here before.
    """
    hashed = {path.name: _hashed(path, folder) for path in files}
    results = next(name for name in hashed if not name.endswith(".jsonl"))
    date = results.rpartition("_")[2].removesuffix(".json")
    logs = {task: f"samples_{task}_{date}.jsonl" for task in rows}
    content = {
        "shard": shard,
        "asked": asked,
        "rows": rows,
        "results": hashed[results],
        "samples": {task: hashed[name] for task, name in logs.items() if name in hashed},
    }
    with atomic_file(folder / NAME) as partial:
        refuse_others(folder, shard, asked)
        partial.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def _hashed(path: Path, folder: Path) -> File:
    with path.open("rb") as file:
        return File(path.relative_to(folder).as_posix(), hashlib.file_digest(file, "sha256").hexdigest())


def read(folder: Path) -> Ended:
    """The shard that has ended in a folder. Raises InputError for a marker that is none."""
    path, expected = folder / NAME, "what medfaith eval --shard writes"
    content = json_text.read(path, expected=expected, action=_AGAIN)
    try:
        number, of = map(int, content["shard"])
        if not 1 <= number <= of:
            raise ValueError(f"shard {number} of {of}")
        rows = {str(task): Rows(int(n), str(digest)) for task, (n, digest) in content["rows"].items()}
        samples = {task: _file(of_task) for task, of_task in content["samples"].items() if task in rows}
        found = Ended(folder, (number, of), dict(content["asked"]), rows, _file(content["results"]), samples)
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:
        found = f"is no marker of a shard ({type(error).__name__}: {str(error)[:100]})"
        raise InputError(path, found, expected=expected, action=_AGAIN) from None
    return found


def _file(of: Any) -> File:
    name, digest = map(str, of)
    if Path(name).is_absolute() or ".." in Path(name).parts or "\0" in name:
        raise ValueError(f"{name!r} is no file of the folder")
    return File(name, digest)
