"""The benchmarks that `medfaith build` knows, by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..loaders.errors import InputError
from . import cxr_contrabench, heal_medvqa, own, surgxbench, wrong_lung
from .benchmark import Benchmark
from .verify import Verdict, read_benchmark_name
from .write import RECORD

BENCHMARKS: Mapping[str, Benchmark] = {
    benchmark.name: benchmark
    for benchmark in (
        cxr_contrabench.BENCHMARK,
        heal_medvqa.BENCHMARK,
        surgxbench.BENCHMARK,
        wrong_lung.BENCHMARK,
        own.BENCHMARK,
    )
}


def verify(folder: Path, references: Sequence[Mapping[str, Any]] = ()) -> list[Verdict]:
    """Verify one repository by the rules of its benchmark.

    Args:
        folder: The folder of the repository.
        references: Reference records in the form of build.json.

    Returns:
        One verdict per split.

    Raises:
        InputError: This release does not know the benchmark, or a file cannot be read.
    """
    name = read_benchmark_name(folder)
    if name not in BENCHMARKS:
        raise InputError(
            folder / RECORD,
            f"this release does not know the benchmark {name!r}",
            expected=f"one of {', '.join(BENCHMARKS)}",
        )
    return BENCHMARKS[name].verify(folder, references)
