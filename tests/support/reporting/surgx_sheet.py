"""A log of SurgXBench with heatmaps, and what its pictures of frames need."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from medfaith.reporting.benchmark import Sheet
from medfaith.reporting.results import read_results
from medfaith.reporting.surgx.runs import SurgXRun
from medfaith.tasks.explain.geometry import Geometry
from medfaith.tasks.explain.store import HeatmapStore, digest_of
from medfaith.tasks.row_store import read
from tests.support.reporting.report_logs import select_runs
from tests.support.reporting.surgx_logs import CUT, GRASP, instruments, look, seen, triplets, write_surgx

SHOWN = digest_of(b"a frame")


class SheetRun(NamedTuple):
    """A log with heatmaps, and the inputs of its contact sheet."""

    logs: Path
    store: Path
    data: Path
    roots: dict[str, Path]

    def command(self, out: Path, **changes: Any) -> list[str]:
        use = self._replace(**changes)
        rooted = [word for name, root in use.roots.items() for word in ("--root", f"{name}={root}")]
        where = ["--heatmaps", str(use.store), "--data", str(use.data), "--out", str(out)]
        return ["report", str(use.logs), *where, *rooted]

    @property
    def sheet(self) -> Sheet:
        return Sheet(self.store, str(self.data), self.roots)

    def run(self, ask: str) -> Any:
        """Return the log's run that asks for `instruments` or for `triplets`."""
        (run,) = [run for run in select_runs(read_results([self.logs]), SurgXRun) if run.setting.ask == ask]
        return run


def write_sheet_run(folder: Path, data: Path, roots: dict[str, Path]) -> SheetRun:
    """Write a frame with a true and a false positive, and a CholecT45 frame with a matched and a missed triplet."""
    store = HeatmapStore(folder / "store", {"model": "m"})
    y, x = np.mgrid[:7, :7]
    blob = np.exp(-((x - 2.0) ** 2 + (y - 3.0) ** 2) / 4)
    frames = read_build_rows(data, "instruments")
    frame = next(row for row in frames if "clipper" not in row["instruments"])
    action = next(row for row in read_build_rows(data, "triplets") if row["motion"] and row["boxes"])
    for row, classes in ((frame, (frame["instruments"][0], "clipper")), (action, (GRASP,))):
        store.write(row["id"], SHOWN, dict.fromkeys(classes, blob), Geometry.whole((row["height"], row["width"])))
    looks = [look(frame["instruments"][0], "tp", 0.25, 0.5), look("clipper", "fp", 0.0, 0.5)]
    sample = instruments(frame["frame"], [frame["instruments"][0]], looks, video=frame["video"])
    write_surgx(folder / "logs", [sample], heatmaps=store.reference(SHOWN))
    records = [seen(GRASP, "ivt", 0.5), seen(CUT, "missed", 0.25)]
    sample = triplets(action["frame"], [GRASP], records, video=action["video"])
    write_surgx(folder / "logs", [sample], heatmaps=store.reference(SHOWN))
    return SheetRun(folder / "logs", folder / "store", data, roots)


def read_build_rows(data: Path, config: str) -> list[dict[str, Any]]:
    source = {"instruments": "cholec80_boxes", "triplets": "cholect45"}[config]
    rows: Any = read(f"surgxbench-{source}", config, "test", str(data))
    return list(rows)
