"""Minimal inputs of `medfaith annotate`: rows, images, heatmaps, and the logs of two models."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

from medfaith.annotate.logs import TASK
from medfaith.annotate.plan import Plan, instances
from medfaith.builders.schemas.wrong_lung import SENTENCE
from medfaith.evaluate_metrics.localization.input_view import window
from medfaith.loaders import phantom
from medfaith.tasks.explain.geometry import Geometry
from medfaith.tasks.explain.store import HeatmapStore, digest_of
from tests.support.reporting.report_logs import write_samples

MODELS = ("zeppelin-gloria", "quagga-baseline")
SENTENCES = ("Small <right> pleural effusion & atelectasis.", "There is no pneumothorax on the left.")
BOXES = {"right lung": (0.1, 0.2, 0.3, 0.6), "left lung": (0.6, 0.2, 0.3, 0.6)}  # shares of width and height
N_IMAGES = 2


class Scene(NamedTuple):
    """Inputs of `medfaith annotate`.

    Attributes:
        data: Folder of the build.
        heatmaps: Folder of the heatmap store.
        roots: Folder by source.
        runs: Folder of sample logs by model.
        rows: Rows of the build.
        references: Reference of the heatmap in the store, by model and row id.
    """

    data: Path
    heatmaps: Path
    roots: dict[str, Path]
    runs: dict[str, Path]
    rows: list[dict[str, Any]]
    references: dict[str, dict[str, str]]

    def plan(self, annotator: str = "ann", seed: int = 0) -> Plan:
        return Plan(instances(self.rows, seed), tuple(sorted(self.references)), annotator, seed)

    def arguments(self, out: Path, *more: str) -> list[str]:
        return [
            "annotate", *map(str, self.runs.values()), "--data", str(self.data), "--heatmaps", str(self.heatmaps),
            "--root", f"mimic_cxr={self.roots['mimic_cxr']}", "--out", str(out), *more,
        ]  # fmt: skip


def make_scene(folder: Path) -> Scene:
    roots = phantom.write(folder / "phantom", seed=0, sources=("mimic_cxr",))
    rows = _rows(roots["mimic_cxr"])
    write_rows(folder / "data", rows)
    runs, references = {}, {}
    for number, model in enumerate(MODELS):
        references[model] = _write_heatmaps(folder / "heatmaps", model, rows, share=1 - 0.4 * number)
        runs[model] = folder / f"run{number}"
        write_run(runs[model], model, rows, references[model])
    return Scene(folder / "data", folder / "heatmaps", roots, runs, rows, references)


def write_run(
    folder: Path, model: str, rows: list[dict[str, Any]], references: dict[str, str], *, task: str = TASK.name,
    says: str = "heatmaps", **options: Any,
) -> Path:  # fmt: skip
    """Write a sample log in lm-eval's format for the rows with references; `says` is the answer's key for them."""
    samples = []
    for row in [row for row in rows if row["id"] in references]:
        reply = json.dumps({says: references[row["id"]], "local": 0.5, "global": None})
        image = {"images": f"mimic_cxr:{row['image']['key']}", "n_rows_skipped": 0}
        samples.append({"doc": row | image, "resps": [[reply]], "filtered_resps": [reply], "filter": "none"})
    return write_samples(folder, task, samples, model=model, **options)


def _rows(root: Path) -> list[dict[str, Any]]:
    rows = []
    for path in sorted(root.rglob("*.jpg"))[:N_IMAGES]:
        with Image.open(path) as image:
            width, height = image.size
        key = path.relative_to(root).as_posix()
        image_columns = {"image": {"source": "mimic_cxr", "key": key, "view": "PA"}, "width": width, "height": height}
        patient, study = key.split("/")[2:4]
        for number, ((label, (x, y, w, h)), sentence) in enumerate(zip(BOXES.items(), SENTENCES, strict=True)):
            xywh = [float(round(coordinate)) for coordinate in (x * width, y * height, w * width, h * height)]
            rows.append(
                {"id": f"{study}/{number}", **image_columns, "patient_id": patient, "study_id": study,
                 "sentence": sentence, "boxes": [{"label": label, "xywh": xywh}],
                 "labels": [{"name": "abnormal", "context": "yes"}],
                 "subsets": {"abnormal": True, "one_lung": True, "mdrb": False}}
            )  # fmt: skip
    return rows


def write_rows(data: Path, rows: list[dict[str, Any]]) -> None:
    """Write a build that has only the gold config.

    The header has a hash of the rows, like a real build, because `datasets` caches by the header.
    """
    folder = data / "wrong-lung-chest_imagenome"
    (folder / "gold").mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist(rows, SENTENCE.arrow_schema), folder / "gold" / "test.parquet")
    says = f"  description: rows {digest_of(json.dumps(rows).encode())}\n"
    files = "  data_files:\n  - split: test\n    path: gold/test.parquet\n"
    header = f"---\nconfigs:\n- config_name: gold\n{says}{files}---\n"
    (folder / "README.md").write_text(header, encoding="utf-8")


def _write_heatmaps(folder: Path, model: str, rows: list[dict[str, Any]], share: float) -> dict[str, str]:
    """Write 19 x 19 heatmaps of the published view, centred on the box; the image receives `share` of the attention."""
    store = HeatmapStore(folder, {"model": model})
    references = {}
    for row in rows:
        size = (row["height"], row["width"])
        x0, y0, width, height = window(size)
        x, y, w, h = row["boxes"][0]["xywh"]
        down, across = np.mgrid[0:19, 0:19] + 0.5
        cx, cy = ((x + w / 2 - x0) / width * 19, (y + h / 2 - y0) / height * 19)
        grid = np.exp(-(((across - cx) / 3) ** 2) - ((down - cy) / 4) ** 2)
        digest = digest_of(row["id"].encode())
        store.write(row["id"], digest, {"attention": share * grid / grid.sum()}, Geometry(size, window(size)))
        references[row["id"]] = store.reference(digest)
    return references
