"""The benchmarks that `medfaith build` knows, by name, and what holds for all of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from ..loaders.errors import InputError
from . import cxr_contrabench, heal_medvqa, surgxbench, wrong_lung
from .verify import Verdict, benchmark_of
from .write import MANIFEST, Family

MODULES: Mapping[str, ModuleType] = {
    module.NAME: module for module in (cxr_contrabench, heal_medvqa, surgxbench, wrong_lung)
}


def verify(folder: Path, references: Sequence[Mapping[str, Any]] = ()) -> list[Verdict]:
    """Verifies one repository by its benchmark's rules. Raises InputError for a benchmark that this release has not."""
    name = benchmark_of(folder)
    if name not in MODULES:
        raise InputError(
            folder / MANIFEST,
            f"benchmark {name!r} is not known to this release",
            expected=f"one of {', '.join(MODULES)}",
        )
    return MODULES[name].verify(folder, references)


def key_of(record: Mapping[str, Any], split: str) -> bytes:
    """The secret with which is hashed what is published of a split, if its rows are not: see `write.keys_of_files`.

    Raises InputError where the build has none (`key_file`).
    """
    source, name = key_file(record, split)
    return bytes.fromhex(record["sources"][source]["keys"][name])


def key_file(record: Mapping[str, Any], split: str) -> tuple[str, str]:
    """Source and name of the label file that a split's key is derived from: of those in its benchmark's KEYS, by source
    and split ("": any), the first that the build has.

    Raises:
        InputError: the build has none, because it is of an older release or of other files.
    """
    for source, of_split in MODULES[record["benchmark"]].KEYS.items():
        keys = record["sources"].get(source, {}).get("keys", {})
        for name in of_split.get(split, of_split.get("", ())):
            if name in keys:
                return source, name
    raise InputError(
        f"{record['benchmark']}-{record['source']}",
        f"its {MANIFEST} has no key for the split {split!r}",
        expected="a build of the official label files",
        action="build it again with medfaith build",
    )


def families(benchmark: str) -> Callable[[str], Family]:
    """Config -> what its rows are, of one benchmark."""
    return MODULES[benchmark].family
