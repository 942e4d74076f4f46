"""The list of licensed sources (sources.toml), and the user's folder of each of them.

A root is looked up in this order: the caller's argument, the variable `MEDFAITH_ROOT_<SOURCE>`, and the table `[roots]`
of `sources.toml` in the platform's configuration folder for medfaith.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import platformdirs

from . import limits, toml_text
from .errors import STILL_THERE, InputError, MedfaithError, MissingSourceError

ENVIRONMENT_PREFIX = "MEDFAITH_ROOT_"
PACKAGE_DATA = "torchxrayvision"
ARCHIVES = (".zip", ".tar", ".tar.gz", ".7z", ".rar")  # OpenI's reports, a .tgz, are read as they are
LEFTOVERS = (".", "__MACOSX")  # beginnings of the names of hidden files, and of what macOS adds to archives


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
    files: tuple[str | tuple[str, ...], ...]
    ids: str = "published"
    reader: str | None = None
    torchxrayvision: tuple[str, ...] = ()
    folders: tuple[str, ...] = ("",)
    labels: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)
    images: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)
    suffixes: tuple[str, ...] = ()
    also_in: tuple[str, ...] = ()

    def instructions(self) -> str:
        """Format a few lines on how to get access to the source.

        Returns:
            The lines, indented.
        """
        lines = [
            f"  licence: {self.licence} ({self.licence_url})",
            f"  terms: {self.terms}",
            f"  how to get it: {self.access}",
            f"  then: pass --root {self.id}=PATH, or set {ENVIRONMENT_PREFIX}{self.id.upper()}=PATH",
        ]
        if self.torchxrayvision:
            lines.append(f"  labels only: --root {self.id}={PACKAGE_DATA} (pip install torchxrayvision)")
        return "\n".join(lines)

    def list_expected_files(self) -> list[tuple[str, ...]]:
        """List the files of a complete copy.

        Returns:
            Sets of alternatives: glob patterns below one of `folders`.
        """
        return [self.labels[group] if isinstance(group, str) else group for group in self.files]


@dataclass(frozen=True, slots=True)
class Status:
    """Whether a source is usable on this machine.

    Attributes:
        source: The entry of sources.toml.
        root: Its folder, if known.
        state: found, missing or incomplete.
        missing: Patterns of expected files that do not exist.
    """

    source: Source
    root: Path | None
    state: str
    missing: tuple[str, ...] = ()


@cache
def load_sources() -> dict[str, Source]:
    """Load the list of sources.

    Returns:
        All sources by id, in the order of sources.toml.
    """
    entries = tomllib.loads(Path(__file__).with_name("sources.toml").read_text(encoding="utf-8"))
    return {source_id: Source(id=source_id, **_freeze(entry)) for source_id, entry in entries.items()}


def _freeze(value: Any) -> Any:
    """Make tuples of the lists in an entry."""
    if isinstance(value, dict):
        return {key: _freeze(item) for key, item in value.items()}
    return tuple(map(_freeze, value)) if isinstance(value, list) else value


def source(source_id: str) -> Source:
    """Return a source from the list.

    Args:
        source_id: The id of the source.

    Returns:
        Its entry of sources.toml.

    Raises:
        InputError: The id is unknown.
    """
    entries = load_sources()
    if source_id not in entries:
        raise InputError(
            f"source {source_id!r}",
            "no such source",
            expected=f"one of {', '.join(entries)}",
            action="medfaith sources",
        )
    return entries[source_id]


def reader(source_id: str) -> ModuleType | None:
    """Import the module that reads a source.

    Args:
        source_id: The id of the source.

    Returns:
        The module, or None while no benchmark of this release reads the source.

    Raises:
        InputError: The id is unknown.
    """
    name = source(source_id).reader
    return importlib.import_module(f".{name}", __package__) if name else None


def find_user_config() -> Path:
    """Return the path of the user's own sources.toml.

    Returns:
        The path; the file may be missing.
    """
    return platformdirs.user_config_path("medfaith") / "sources.toml"


def resolve_roots(
    arguments: Mapping[str, str] | None = None, *, environ: Mapping[str, str], config: Path | None = None
) -> dict[str, Path]:
    """Resolve the root of each source: `arguments` first, then `environ`, then the user's sources.toml.

    The value `torchxrayvision` means the label files inside the installed package of that name.

    Args:
        arguments: The roots that the caller names, by source id.
        environ: The environment variables.
        config: The user's sources.toml.

    Returns:
        The absolute path of each root, by source id.

    Raises:
        InputError: A source is unknown, a root of `arguments` does not exist, a path begins with an unknown user
            (~name), or the configuration file is broken.
    """
    values_with_origin: dict[str, tuple[str, str]] = {}
    if config is not None and config.is_file():
        try:
            table = toml_text.read(config).get("roots")
            if not isinstance(table, dict) or not all(isinstance(v, str) and v for v in table.values()):
                raise ValueError("it has no table [roots] of paths")
        except (ValueError, OSError) as error:
            expected = '[roots] with lines like chexpert = "PATH"'
            raise InputError(config, f"not valid ({error})", expected=expected, action="fix or remove it") from None
        values_with_origin |= {
            source_id: (str(value), f"{config}, [roots], {source_id}") for source_id, value in table.items()
        }
    for source_id in load_sources():
        variable = ENVIRONMENT_PREFIX + source_id.upper()
        if environ.get(variable):
            values_with_origin[source_id] = (environ[variable], variable)
    values_with_origin |= {
        source_id: (str(value), f"--root {source_id}") for source_id, value in (arguments or {}).items()
    }
    roots = {}
    for source_id, (value, origin) in values_with_origin.items():
        entry = source(source_id)
        if value == PACKAGE_DATA and not Path(value).exists():
            roots[source_id] = find_package_data(entry)
            continue
        try:
            roots[source_id] = Path(value).expanduser().absolute()
        except RuntimeError:
            action = "name a user of this machine after ~, or write the full path"
            raise InputError(origin, f"{value} begins with a user that is not known here", action=action) from None
        # A configured root that does not exist matters only to a job that needs it; in an argument it is a mistake.
        if source_id in (arguments or {}) and not roots[source_id].exists():
            raise _build_missing_root_error(entry, origin, value)
    return roots


def _build_missing_root_error(entry: Source, origin: str, value: str | Path) -> InputError:
    return InputError(
        origin,
        f"{value} does not exist",
        expected=f"the folder (or label file) of {entry.title}",
        action=f"correct the path, or get the data:\n{entry.instructions()}",
    )


def find_package_data(entry: Source) -> Path:
    """Find the data folder of the installed torchxrayvision without importing it (its import needs torch).

    Args:
        entry: The source.

    Returns:
        The folder.

    Raises:
        InputError: The package does not carry labels of this source.
        MissingSourceError: The package is not installed.
    """
    if not entry.torchxrayvision:
        with_labels = ", ".join(s.id for s in load_sources().values() if s.torchxrayvision)
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


def require_root(source_id: str, roots: Mapping[str, Path]) -> Path:
    """Return the root of a source.

    Args:
        source_id: The id of the source.
        roots: The root of each source, by source id.

    Returns:
        The root.

    Raises:
        MissingSourceError: The root is not known; the message says how to get access.
        InputError: The root does not exist, is an archive, or its path is no UTF-8 text.
    """
    entry = source(source_id)
    if source_id not in roots:
        raise MissingSourceError(
            f"{entry.title} ({source_id}) is needed and its place is not known\n{entry.instructions()}"
        )
    root = Path(roots[source_id])
    if not root.exists():
        raise _build_missing_root_error(entry, f"root of {source_id}", root)
    if root.name.lower().endswith(ARCHIVES) and root.is_file():
        raise InputError(root, "is packed", expected="a folder", action=f"unpack it: --root {source_id}=FOLDER")
    if not limits.is_utf8(root):
        raise InputError(root, "the path is no UTF-8 text", action="rename it")
    return root


def list_roots(source_id: str, roots: Mapping[str, Path]) -> list[Path]:
    """List the roots that may have the files of a source.

    Args:
        source_id: The id of the source.
        roots: The root of each source, by source id.

    Returns:
        The root of the source, then the known roots of its `also_in`.

    Raises:
        MissingSourceError: The root of the source is not known.
        InputError: A root does not exist.
    """
    shared_ids = [other_id for other_id in source(source_id).also_in if other_id in roots]
    return [require_root(each_id, roots) for each_id in (source_id, *shared_ids)]


@contextmanager
def reading(roots: Mapping[str, Path]) -> Iterator[None]:
    """Report a root that disappears while it is read, instead of the error about a file in it.

    Args:
        roots: The roots that the block reads, by source id.

    Yields:
        Nothing.

    Raises:
        InputError: A root existed at the beginning and is gone when a read fails.
    """
    readable_roots = [root for root in roots.values() if _has_content(root)]
    try:
        yield
    except (MedfaithError, OSError) as error:
        for root in readable_roots:
            if not _has_content(root):
                cause = str(error).splitlines()[0]
                if isinstance(error, OSError) and error.filename is not None:
                    cause = f"{error.filename}: {error.strerror}"
                problem = f"has gone while it was read ({cause})"
                raise InputError(root, problem, action=STILL_THERE) from error
        raise


def _has_content(root: Path) -> bool:
    """Return whether a root has content: an empty folder remains where a share was mounted."""
    try:
        if root.is_file():
            return True
        with os.scandir(root) as entries:
            return any(entries)
    except OSError:
        return False


def status(source_id: str, roots: Mapping[str, Path]) -> Status:
    """Return the status of a source, by the files that sources.toml expects below the root.

    Args:
        source_id: The id of the source.
        roots: The root of each source, by source id.

    Returns:
        Found, missing or incomplete, with the missing patterns.
    """
    entry = source(source_id)
    root = roots.get(source_id)
    if root is None or not root.exists():
        return Status(entry, root, "missing")
    expected = entry.list_expected_files()
    if root.is_file():
        missing = tuple(alternatives[0] for alternatives in expected[1:])
    else:
        missing = tuple(alternatives[0] for alternatives in expected if not has_match(entry, root, alternatives))
    return Status(entry, root, "incomplete" if missing else "found", missing)


def has_match(entry: Source, root: Path, patterns: Sequence[str]) -> bool:
    """Return whether a copy of a source has a file of a name.

    Args:
        entry: The source.
        root: The folder of the copy.
        patterns: Glob patterns below one of the source's `folders`.

    Returns:
        True if any pattern matches a name that is not one of LEFTOVERS.
    """
    return any(
        not any(name.startswith(LEFTOVERS) for name in path.relative_to(root).parts)
        for folder in entry.folders
        for pattern in patterns
        for path in root.glob(f"{folder}/{pattern}" if folder else pattern)
    )


def parse_root_arguments(arguments: list[str]) -> dict[str, str]:
    """Parse `["chexpert=PATH", ...]` to `{"chexpert": "PATH"}`.

    Args:
        arguments: The values of --root.

    Returns:
        The path of each root, by source id.

    Raises:
        MedfaithError: An argument has another form.
        InputError: A source is unknown.
    """
    roots = {}
    for argument in arguments:
        source_id, separator, value = argument.partition("=")
        if not separator or not source_id or not value:
            raise MedfaithError(
                f"--root {argument}: expected SOURCE=PATH, for example --root chexpert=/data/CheXpert-v1.0"
            )
        roots[source(source_id).id] = value
    return roots
