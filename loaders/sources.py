"""The list of licensed sources (sources.toml), and where the user keeps each of them.

A root is looked up in this order: what the caller names, the variable `MEDFAITH_ROOT_<SOURCE>`, and the table `[roots]`
of `sources.toml` in the platform's configuration folder for medfaith.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType

import platformdirs

from .errors import STILL_THERE, InputError, MedfaithError, MissingSourceError

ENVIRONMENT_PREFIX = "MEDFAITH_ROOT_"
PACKAGE_DATA = "torchxrayvision"


@dataclass(frozen=True, slots=True)
class Source:
    """One entry of sources.toml; the file's header explains the fields."""

    id: str
    title: str
    version: str
    licence: str
    licence_url: str
    terms: str
    publish: str
    third_parties: bool
    access: str
    files: tuple[tuple[str, ...], ...]
    ids: str = "published"
    reader: str | None = None
    torchxrayvision: tuple[str, ...] = ()

    def instructions(self) -> str:
        """What somebody without this source has to do, in a few lines."""
        lines = [
            f"  licence: {self.licence} ({self.licence_url})",
            f"  terms: {self.terms}",
            f"  how to get it: {self.access}",
            f"  then: pass --root {self.id}=PATH, or set {ENVIRONMENT_PREFIX}{self.id.upper()}=PATH",
        ]
        if self.torchxrayvision:
            lines.append(f"  labels only: --root {self.id}={PACKAGE_DATA} (pip install torchxrayvision)")
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class Status:
    """Whether a source is usable here. state: found, missing or incomplete; missing: absent file patterns."""

    source: Source
    root: Path | None
    state: str
    missing: tuple[str, ...] = ()


@cache
def all_sources() -> dict[str, Source]:
    """All sources by id, as sources.toml has them."""
    entries = tomllib.loads(Path(__file__).with_name("sources.toml").read_text(encoding="utf-8"))
    return {
        source_id: Source(
            id=source_id,
            **{k: v for k, v in entry.items() if k not in ("files", "torchxrayvision")},
            files=tuple(tuple(alternatives) for alternatives in entry["files"]),
            torchxrayvision=tuple(entry.get("torchxrayvision", ())),
        )
        for source_id, entry in entries.items()
    }


def source(source_id: str) -> Source:
    """The entry of `source_id` in the list of sources. Raises InputError for an unknown id."""
    entries = all_sources()
    if source_id not in entries:
        raise InputError(
            f"source {source_id!r}",
            "no such source",
            expected=f"one of {', '.join(entries)}",
            action="medfaith sources",
        )
    return entries[source_id]


def reader(source_id: str) -> ModuleType | None:
    """The module that reads `source_id`, or None while no benchmark of this release reads it."""
    name = source(source_id).reader
    return importlib.import_module(f".{name}", __package__) if name else None


def user_config() -> Path:
    """The user's own sources.toml (it need not exist)."""
    return platformdirs.user_config_path("medfaith") / "sources.toml"


def resolve_roots(
    given: Mapping[str, str] | None = None, *, environ: Mapping[str, str], config: Path | None = None
) -> dict[str, Path]:
    """Where each source lies: `given` first, then `environ`, then the user's sources.toml (`config`).

    The value `torchxrayvision` stands for the label files inside the installed package of that name.
    Raises InputError for an unknown source, a root that does not exist or is of an unknown user (~name), or a broken
    configuration file.
    """
    named: dict[str, tuple[str, str]] = {}
    if config is not None and config.is_file():
        try:
            table = tomllib.loads(config.read_text(encoding="utf-8")).get("roots")
            if not isinstance(table, dict) or not all(isinstance(v, str) and v for v in table.values()):
                raise ValueError("it has no table [roots] of paths")
        except (ValueError, OSError) as error:
            expected = '[roots] with lines like chexpert = "PATH"'
            raise InputError(config, f"not valid ({error})", expected=expected, action="mend or remove it") from None
        named |= {source_id: (str(value), f"{config}, [roots], {source_id}") for source_id, value in table.items()}
    for source_id in all_sources():
        variable = ENVIRONMENT_PREFIX + source_id.upper()
        if environ.get(variable):
            named[source_id] = (environ[variable], variable)
    named |= {source_id: (str(value), f"--root {source_id}") for source_id, value in (given or {}).items()}
    roots = {}
    for source_id, (value, origin) in named.items():
        entry = source(source_id)
        if value == PACKAGE_DATA and not Path(value).exists():
            roots[source_id] = package_data(entry)
            continue
        try:
            roots[source_id] = Path(value).expanduser().absolute()
        except RuntimeError:
            action = "name a user of this machine behind ~, or write the whole path"
            raise InputError(origin, f"{value} begins with a user that is not known here", action=action) from None
        # A standing root that has gone matters only to a job that needs it; one named here and now is a mistake.
        if source_id in (given or {}) and not roots[source_id].exists():
            raise _no_such_root(entry, origin, value)
    return roots


def _no_such_root(entry: Source, origin: str, value: str | Path) -> InputError:
    return InputError(
        origin,
        f"{value} does not exist",
        expected=f"the folder (or label file) of {entry.title}",
        action=f"correct the path, or get the data:\n{entry.instructions()}",
    )


def package_data(entry: Source) -> Path:
    """The data folder of the installed torchxrayvision, found without importing it (its import needs torch)."""
    if not entry.torchxrayvision:
        with_labels = ", ".join(s.id for s in all_sources().values() if s.torchxrayvision)
        raise InputError(
            f"--root {entry.id}={PACKAGE_DATA}",
            f"the package carries no labels of {entry.title}",
            expected=f"one of {with_labels}",
            action="pass the folder of your licensed copy",
        )
    spec = importlib.util.find_spec(PACKAGE_DATA)
    if spec is None or not spec.submodule_search_locations:
        raise MissingSourceError(
            f"--root {entry.id}={PACKAGE_DATA}: the package is not installed\n  what to do: pip install torchxrayvision"
        )
    folder = Path(next(iter(spec.submodule_search_locations))) / "data"
    absent = [name for name in entry.torchxrayvision if not (folder / name).is_file()]
    if absent:
        raise InputError(
            folder, f"{', '.join(absent)} is not in this release of {PACKAGE_DATA}", action="install >= 1.3"
        )
    return folder


def root_of(source_id: str, roots: Mapping[str, Path]) -> Path:
    """The root of one source. Raises MissingSourceError, which carries how to get access."""
    entry = source(source_id)
    if source_id not in roots:
        raise MissingSourceError(
            f"{entry.title} ({source_id}) is needed and its place is not known\n{entry.instructions()}"
        )
    root = Path(roots[source_id])
    if not root.exists():
        raise _no_such_root(entry, f"root of {source_id}", root)
    return root


@contextmanager
def reading(roots: Mapping[str, Path]) -> Iterator[None]:
    """While it lasts, the roots are read: if one goes away, this is the error, and not what was looked for in it.

    Raises InputError for a root that was there at the beginning and is not there when something cannot be read.
    """
    there = [root for root in roots.values() if _is_there(root)]
    try:
        yield
    except (MedfaithError, OSError) as error:
        for root in there:
            if not _is_there(root):
                found = f"has gone while it was read ({str(error).splitlines()[0]})"
                raise InputError(root, found, action=STILL_THERE) from error
        raise


def _is_there(root: Path) -> bool:
    """Whether it holds anything: where a share was mounted, an empty folder stays."""
    try:
        if root.is_file():
            return True
        with os.scandir(root) as found:
            return any(found)
    except OSError:
        return False


def status(source_id: str, roots: Mapping[str, Path]) -> Status:
    """Found, missing or incomplete, by the files that sources.toml expects below the root."""
    entry = source(source_id)
    root = roots.get(source_id)
    if root is None or not root.exists():
        return Status(entry, root, "missing")
    if root.is_file():
        missing = tuple(alternatives[0] for alternatives in entry.files[1:])
        return Status(entry, root, "incomplete" if missing else "found", missing)
    missing = tuple(
        alternatives[0]
        for alternatives in entry.files
        if not any(_has_match(root, pattern) for pattern in alternatives)
    )
    if entry.torchxrayvision and all((root / name).is_file() for name in entry.torchxrayvision):
        # the package's label file stands for the first of the expected ones
        missing = tuple(m for m in missing if m != entry.files[0][0])
    return Status(entry, root, "incomplete" if missing else "found", missing)


def _has_match(root: Path, pattern: str) -> bool:
    return next(iter(root.glob(pattern)), None) is not None


def parse_root_arguments(arguments: list[str]) -> dict[str, str]:
    """`["chexpert=PATH", ...]` -> `{"chexpert": "PATH"}`. Raises MedfaithError for anything else."""
    roots = {}
    for argument in arguments:
        source_id, separator, value = argument.partition("=")
        if not separator or not source_id or not value:
            raise MedfaithError(
                f"--root {argument}: expected SOURCE=PATH, for example --root chexpert=/data/CheXpert-v1.0"
            )
        roots[source(source_id).id] = value
    return roots
