"""Damaged runs and builds: the command that reads them reports the damage or reads them correctly.

The kinds of damage come from the tests of sources (`tests/loaders/test_damage.py`).
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from medfaith.annotate.answers import read_files
from medfaith.cli import main
from medfaith.loaders.errors import exit_status
from medfaith.read import read_rows
from medfaith.tasks.explain.geometry import Geometry
from medfaith.tasks.explain.store import HeatmapStore, open_store
from medfaith.tasks.rows import check_row_ids
from medfaith.tasks.run import run_baselines
from medfaith.tasks.wrong_lung.held_out_patients import read_seen
from tests.support.loaders.damage import DAMAGES

TASK = "medfaith_contrabench_chexpert_presence"
QUICK = ("half", "no UTF-8", "nested", "half a character", "infinite", "a list for a number", "a pipe")
JUDGEMENT = {
    "kind": "judgement", "annotator": "x", "instance": "i", "patient_id": "p", "row_id": "r", "sentence": "s",
    "custom": False, "model": "m", "alias": "a", "recall": 1, "precision": 1, "intuitiveness": 1, "heatmaps": None,
    "seconds": 1.0, "seed": 1, "version": "1",
}  # fmt: skip
ANSWER = {"id": "1", "kind": "yes_no", "question": "Is there edema?", "text": "No", "gold": "no"}
MAP = {"a": np.ones((2, 2), np.float32)}


def write_heatmap(folder: Path) -> tuple[str, Path]:
    store = HeatmapStore(folder, {"model": "m"})
    store.write("row", "0" * 16, MAP, Geometry((4, 4), (0, 0, 4, 4)))
    return store.reference("0" * 16), folder


@pytest.fixture(scope="module")
def scene(
    phantom_build: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, tuple[Path, Callable[[], object]]]:
    """Files to damage, each with its reader."""
    folder = tmp_path_factory.mktemp("damaged-runs")
    run_baselines(TASK, {"data": str(phantom_build)}, {"oracle": ("oracle", {})}, folder / "logs")
    (samples,) = (folder / "logs").rglob("samples_*.jsonl")
    (results,) = (folder / "logs").rglob("results_*.json")
    build = folder / "data" / "cxr-contrabench-chexpert"
    shutil.copytree(phantom_build / build.name, build)
    parquet = build / "chexpert_presence" / "validation-00000-of-00001.parquet"
    rows = folder / "rows.csv"
    rows.write_text("id\nchexpert/absent\n")
    texts = {"seen.ckpt.json": {"seen": ["p"]}, "annotations.jsonl": JUDGEMENT, "answers.jsonl": ANSWER}
    for name, content in texts.items():
        (folder / name).write_text(json.dumps(content) + "\n")
    reference, maps = write_heatmap(folder / "maps")
    (model,) = maps.rglob("model.json")
    (array,) = maps.rglob("*.npz")
    return {
        "results": (results, lambda: main(["report", str(folder / "logs"), "--markdown"])),
        "samples": (samples, lambda: main(["report", str(folder / "logs"), "--markdown"])),
        "build.json": (build / "build.json", lambda: main(["verify", str(build)])),
        "parquet": (parquet, lambda: main(["verify", str(build)])),
        "rows": (rows, lambda: check_row_ids(rows, str(folder / "data"))),
        "patients": (folder / "seen.ckpt.json", lambda: read_seen(folder / "seen.ckpt.json")),
        "annotations": (folder / "annotations.jsonl", lambda: read_files([folder / "annotations.jsonl"])),
        "answers": (folder / "answers.jsonl", lambda: read_rows(folder / "answers.jsonl")),
        "model of heatmaps": (model, lambda: open_store(maps).read(reference, "row")),
        "heatmaps": (array, lambda: open_store(maps).read(reference, "row")),
    }


@pytest.mark.parametrize("damage", [
    name if name in QUICK else pytest.param(name, marks=pytest.mark.full) for name in DAMAGES
])  # fmt: skip
@pytest.mark.parametrize("artifact", [
    "results", "samples", "build.json", "parquet", "rows", "patients", "annotations", "answers", "model of heatmaps",
    "heatmaps",
])  # fmt: skip
def test_damage_is_told_or_does_no_harm(scene, artifact: str, damage: str, capsys: pytest.CaptureFixture[str]):
    file, reader = scene[artifact]
    content = file.read_bytes()
    try:
        DAMAGES[damage](file)
        exit_status(lambda: int(bool(reader())))  # a bug is raised
    finally:
        if file.is_dir() and not file.is_symlink():
            file.rmdir()
        file.unlink(missing_ok=True)
        file.write_bytes(content)
    output = capsys.readouterr().err
    assert "medfaith: " not in output or "what to do: " in output or "expected: " in output
