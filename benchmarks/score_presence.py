"""Scoring 135,754 answers with every filter, metric and interval, compared with reading the same rows from Parquet.

    uv run python benchmarks/score_presence.py

The answers are short letters, as models reply to B0. One in ten is a long distinct text, as in chain-of-thought.
Allowed: 20 s on one core and 1.5 GiB. Target: three times the CPU time of reading.
"""

from __future__ import annotations

import os
import random
import resource
import tempfile
import time
from pathlib import Path
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from medfaith.builders import cxr_contrabench
from medfaith.loaders import sources
from medfaith.tasks.contrabench import adapter

FILTERS = ("b0", "m1", "m1_slot_agnostic", "m1_extended")
LIMIT_S, LIMIT_MIB, WANTED = 20, 1536, 3  # wanted: of the time that reading the rows takes

FIGURES: dict[str, Any] = {  # metric -> what lm-eval computes it with
    metric["metric"]: np.mean if metric["aggregation"] == "mean" else metric["aggregation"]
    for metric in adapter.metrics
}


def draw_answers(n: int, seed: int) -> list[list[str]]:
    """Draw `n` random answers."""
    rng = random.Random(seed)
    long = (
        "First I look at both lungs and the heart of image {}. The question asks which finding is present.\nAnswer: {}"
    )
    return [[long.format(i, rng.choice("ABC")) if i % 10 == 0 else rng.choice("ABC")] for i in range(n)]


def score(docs: list[dict], resps: list[list[str]]) -> dict[str, dict[str, float]]:
    """Score answers like lm-eval after generation: filter, per-row metrics, aggregation."""
    results = {}
    for name in FILTERS:
        readings = getattr(adapter, name)(resps, docs)
        columns: dict[str, list] = {}
        for doc, reading in zip(docs, readings, strict=True):
            for metric, value in adapter.process_results(doc, [reading]).items():
                columns.setdefault(metric, []).append(value)
        results[name] = {metric: FIGURES[metric](values) for metric, values in columns.items()}
    return results


def main() -> None:
    """Print the seconds of scoring and of reading."""
    root = sources.resolve_roots({"chexpert": "torchxrayvision"}, environ={})["chexpert"]
    with tempfile.TemporaryDirectory() as folder:
        cxr_contrabench.build({"chexpert": root}, Path(folder), configs=["chexpert_presence"])
        file = next(Path(folder).rglob("*.parquet"))
        start = time.process_time()
        table: pa.Table = pq.read_table(file)
        docs = [doc | {"n_rows_skipped": 0} for doc in table.to_pylist()]
        seconds_read = time.process_time() - start
    resps = draw_answers(len(docs), 0)
    start = time.process_time()
    results = score(docs, resps)
    seconds = time.process_time() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"rows                        {len(docs):,}, {len(FILTERS)} filters")
    print(f"scoring, CPU                {seconds:.1f} s   (allowed: {LIMIT_S})")
    print(f"scoring / reading the rows  {seconds / seconds_read:.1f}   (wanted: {WANTED})")
    print(f"peak memory                 {peak:.0f} MiB   (allowed: {LIMIT_MIB})")
    b0 = results["b0"]
    print(
        f"accuracy b0                 {b0['accuracy']:.4f} [{b0['accuracy_ci_low']:.4f}, {b0['accuracy_ci_high']:.4f}]"
    )


if __name__ == "__main__":
    main()
