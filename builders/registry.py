"""The benchmarks that `medfaith build` knows, by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..loaders.errors import InputError
from . import cxr_contrabench, heal_medvqa, surgxbench, wrong_lung
from .benchmark import Benchmark
from .verify import Verdict, benchmark_of
from .write import RECORD

BENCHMARKS: Mapping[str, Benchmark] = {
    benchmark.name: benchmark
    for benchmark in (
        cxr_contrabench.BENCHMARK,
        heal_medvqa.BENCHMARK,
        surgxbench.BENCHMARK,
        wrong_lung.BENCHMARK,
    )
}


def verify(folder: Path, references: Sequence[Mapping[str, Any]] = ()) -> list[Verdict]:
    """Verifies one repository by its benchmark's rules. Raises InputError for a benchmark that this release has not."""
    name = benchmark_of(folder)
    if name not in BENCHMARKS:
        raise InputError(
            folder / RECORD,
            f"this release does not know the benchmark {name!r}",
            expected=f"one of {', '.join(BENCHMARKS)}",
        )
    return BENCHMARKS[name].verify(folder, references)


def key_file(record: Mapping[str, Any], split: str) -> tuple[str, str]:
    """`Benchmark.key_file` of the benchmark that a build.json is of."""
    return BENCHMARKS[record["benchmark"]].key_file(record, split)


def key_of(record: Mapping[str, Any], split: str) -> bytes:
    """The secret with which is hashed what is published of a split, if its rows are not: see `write.keys_of_files`.

    Raises InputError where the build has none (`Benchmark.key_file`).
    """
    source, name = key_file(record, split)
    return bytes.fromhex(record["sources"][source]["keys"][name])
