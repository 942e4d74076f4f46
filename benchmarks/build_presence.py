"""Build of the CheXpert presence split, compared with two reference times in one process, on the real train labels.

    uv run python benchmarks/build_presence.py

* floor: reading the same csv.gz with pyarrow.csv and writing the same rows with pyarrow.parquet. The build may take 4
  times as long.
* loop: the rule in a pandas loop over the rows of the same file. The build has to be at least 5 times faster.

Each time is the best of several runs (the loop runs once). Peak memory is measured in a separate process.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import csv

from medfaith.builders import cxr_contrabench
from medfaith.builders.cxr_contrabench.chexpert import TARGETS
from medfaith.builders.hashing import pick
from medfaith.loaders import chexpert, sources

CONFIG = "chexpert_presence"


def compute_best_seconds(job: Callable[[], object], repeats: int) -> float:
    """Compute the seconds of the fastest of `repeats` runs."""
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        job()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def build_ours(root: Path, out: Path) -> None:
    """Build with medfaith."""
    cxr_contrabench.build({"chexpert": root}, out, configs=[CONFIG])


def write_floor(labels: Path, rows: pa.Table, out: Path) -> None:
    """Read the labels and write the rows, without any rule: a lower bound of the time."""
    csv.read_csv(labels)
    pq.write_table(rows, out)


def build_by_loop(labels: Path, rows_of: Callable[[pd.DataFrame], Iterator[dict]], out: Path) -> int:
    """Build by the presence rule row by row: group images by study, then ask each study's present targets."""
    studies: dict[str, dict] = {}
    for row in rows_of(pd.read_csv(labels)):
        path = row["Path"].split("/", 1)[1]
        study_id = "/".join(path.split("/")[1:3])
        study = studies.setdefault(study_id, {"images": [], "present": []})
        study["images"].append({"source": "chexpert", "key": path, "view": row["AP/PA"]})
        study["present"] = [finding for finding, column in TARGETS.items() if row[column] == 1.0]
    questions = []
    for study_id, study in studies.items():
        for target in study["present"] if len(study["present"]) > 1 else ():
            other_findings = [finding for finding in study["present"] if finding != target]
            row_id = f"chexpert/train/{study_id}/presence/{target}"
            options = [
                target.capitalize(),
                f"No {target}",
                other_findings[pick(row_id, len(other_findings), 0)].capitalize(),
            ]
            questions.append({"id": row_id, "study_id": study_id, "images": study["images"], "options": options})
    pd.DataFrame(questions).to_parquet(out)
    return len(questions)


def iterate_rows(frame: pd.DataFrame) -> Iterator[dict]:
    """Iterate over the rows with `iterrows`."""
    for _, row in frame.iterrows():
        yield row.to_dict()


def iterate_records(frame: pd.DataFrame) -> Iterator[dict]:
    """Iterate over the rows with `to_dict`."""
    yield from frame.to_dict("records")


def main() -> None:
    """Print seconds and peak memory of each way."""
    root = sources.resolve_roots({"chexpert": "torchxrayvision"}, environ={})["chexpert"]
    labels = chexpert.find_label_files(root)["train"]
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder)
        build_ours(root, out)
        rows = pq.read_table(next(out.rglob("*.parquet")))
        seconds_ours = compute_best_seconds(lambda: build_ours(root, out), 9)
        seconds_floor = compute_best_seconds(lambda: write_floor(labels, rows, out / "floor.parquet"), 9)
        print(f"rows                               {rows.num_rows:,}")
        print(f"ours: read, build, write, hash     {seconds_ours:.3f} s")
        print(f"floor: pyarrow read and write      {seconds_floor:.3f} s")
        print(f"ours / floor                       {seconds_ours / seconds_floor:.2f}   (allowed: 4)")
        for name, rows_of in (("iterrows", iterate_rows), ("dict records", iterate_records)):
            counted = []
            seconds = compute_best_seconds(
                lambda r=rows_of, c=counted: c.append(build_by_loop(labels, r, out / "loop.parquet")), 1
            )
            assert counted == [rows.num_rows]
            print(f"loop ({name}) / ours".ljust(35) + f"{seconds / seconds_ours:.1f}   (required: 5)")
        code = (
            "from pathlib import Path; from medfaith.builders import cxr_contrabench; "
            f"roots = {{'chexpert': Path({str(root)!r})}}; "
            f"cxr_contrabench.build(roots, Path({folder!r}, 'peak'), configs=[{CONFIG!r}])"
        )
        subprocess.run([sys.executable, "-c", code], check=True)
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
        print(f"peak memory, imports included      {peak:.0f} MiB   (allowed: 1,024)")


if __name__ == "__main__":
    main()
