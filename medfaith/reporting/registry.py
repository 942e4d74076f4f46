"""The benchmarks whose finished runs `medfaith` reports, by name and in the order of the report."""

from __future__ import annotations

from collections.abc import Mapping

from . import contrabench, heal, own, surgx, wrong_lung
from .benchmark import ReportedBenchmark

BENCHMARKS: Mapping[str, ReportedBenchmark] = {
    benchmark.name: benchmark
    for benchmark in (contrabench.BENCHMARK, heal.BENCHMARK, surgx.BENCHMARK, wrong_lung.BENCHMARK, own.BENCHMARK)
}
