"""Time and peak memory of the bootstrap on the rows of CheXpert's train presence split, compared with simple versions.

    python benchmarks/bootstrap.py

Draws 2,000 resamples of 135,754 rows, of the same rows in 59,173 clusters, and of the paired difference of two models.
The simple versions are scipy.stats.bootstrap and a loop that gathers the records of every drawn cluster. They run with
fewer resamples, and their time is scaled up. Each measurement has its own process, because of its peak memory.
"""

from __future__ import annotations

import multiprocessing
import resource
import sys
import time

import numpy as np

from medfaith.evaluate_metrics.confidence.paired import compute_paired_difference
from medfaith.evaluate_metrics.confidence.score import bootstrap_mean

ROWS, CLUSTERS, RESAMPLES, PLAIN_RESAMPLES = 135_754, 59_173, 2000, 20


def draw_values(kind: str) -> tuple[np.ndarray, np.ndarray]:
    """Draw values and their clusters at the size of the protocol."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=ROWS) if kind == "continuous" else (rng.random(ROWS) < 0.3305).astype(float)
    extra = rng.integers(CLUSTERS, size=ROWS - CLUSTERS)  # every cluster has at least one row
    return values, np.sort(np.concatenate([np.arange(CLUSTERS), extra]))


def run_ours(values: np.ndarray, groups: np.ndarray | None) -> None:
    """Run our bootstrap of the mean."""
    bootstrap_mean(values, groups=groups, n_resamples=RESAMPLES)


def run_paired(values: np.ndarray, groups: np.ndarray | None) -> None:
    """Run our paired difference with values that agree in four of five rows."""
    agreeing = np.where(np.random.default_rng(1).random(ROWS) < 0.8, values, values[::-1])
    compute_paired_difference(np.clip(values, 0, 1), np.clip(agreeing, 0, 1), groups=groups, n_resamples=RESAMPLES)


def run_plain(values: np.ndarray, groups: np.ndarray | None) -> None:
    """Run the plain bootstrap: SciPy's, or a loop over clusters."""
    if groups is None:
        from scipy.stats import bootstrap

        bootstrap((values,), np.mean, n_resamples=PLAIN_RESAMPLES, method="percentile", batch=1, rng=42)
        return
    records = np.split(np.arange(len(values)), np.flatnonzero(np.diff(groups)) + 1)
    rng = np.random.default_rng(42)
    means = []
    for _ in range(PLAIN_RESAMPLES):
        sample = rng.integers(len(records), size=len(records))
        means.append(values[np.concatenate([records[i] for i in sample])].mean())
    np.percentile(means, [2.5, 97.5])


def measure(way: str, kind: str, clustered: bool, results) -> None:
    """Put wall seconds, CPU seconds, peak and rise of memory of one way into `results`."""
    values, groups = draw_values(kind)
    clusters = groups if clustered else None
    if way == "plain":
        run_plain(values[:100], None if clusters is None else clusters[:100])  # warm-up: the import does not count
    before = read_peak_megabytes()
    wall, cpu = time.perf_counter(), time.process_time()
    {"ours": run_ours, "paired": run_paired, "plain": run_plain}[way](values, clusters)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    results.put((wall, cpu, read_peak_megabytes(), read_peak_megabytes() - before))


def read_peak_megabytes() -> float:
    """Read the peak memory of this process in MB."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)


def run_in_own_process(*args) -> tuple[float, float, float, float]:
    """Run `measure` in a new process and return its results."""
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    process = context.Process(target=measure, args=(*args, results))
    process.start()
    measured = results.get()
    process.join()
    return measured


def main() -> None:
    """Print time and memory for each case."""
    print(
        f"{RESAMPLES} resamples of {ROWS} rows; clustered: in {CLUSTERS} clusters; "
        f"plain: {PLAIN_RESAMPLES} resamples, scaled; CPU seconds, wall seconds in brackets"
    )
    print(f"{'case':26}{'ours':>14}{'peak MB':>9}{'rise MB':>9}{'plain':>18}{'plain / ours':>14}")
    for kind, clustered in (("continuous", False), ("binary", False), ("continuous", True), ("binary", True)):
        wall, cpu, peak, rise = run_in_own_process("ours", kind, clustered)
        scale = RESAMPLES / PLAIN_RESAMPLES
        plain_wall, plain_cpu = (scale * seconds for seconds in run_in_own_process("plain", kind, clustered)[:2])
        name = f"{kind}, {'clustered' if clustered else 'unclustered'}"
        mine, plain_seconds = f"{cpu:.2f} ({wall:.2f})", f"{plain_cpu:.1f} ({plain_wall:.1f})"
        print(f"{name:26}{mine:>14}{peak:9.0f}{rise:9.0f}{plain_seconds:>18}{plain_cpu / cpu:14.1f}")
    for kind in ("continuous", "binary"):
        wall, cpu, peak, rise = run_in_own_process("paired", kind, True)
        print(f"{f'{kind}, clustered, paired':26}{f'{cpu:.2f} ({wall:.2f})':>14}{peak:9.0f}{rise:9.0f}")


if __name__ == "__main__":
    main()
