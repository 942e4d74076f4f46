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


def families(benchmark: str) -> Callable[[str], Family]:
    """Config -> what its rows are, of one benchmark."""
    return MODULES[benchmark].family
