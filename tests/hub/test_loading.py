"""datasets and evaluate load from the loopback Hub, and offline what they loaded.

They read HF_ENDPOINT when they are imported: in a process of their own.
"""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq

from tests.hub.audit_dataset import CARD, parquet
from tests.hub.server import Hub

METRIC = b"""
import datasets
import evaluate
from .score import double

class Twice(evaluate.Metric):
    def _info(self):
        number = datasets.Value("int64")
        features = datasets.Features({"predictions": number, "references": number})
        return evaluate.MetricInfo(description="", citation="", features=features)

    def _compute(self, predictions, references):
        return {"twice": double(sum(predictions))}
"""
LOAD = """
import json, sys
import datasets
sys.modules["transformers"] = None  # evaluate would import it, and torch with it, for what is not used here
import evaluate
del sys.modules["transformers"]
out = {"plain": datasets.load_dataset("clinic/audit", "absence", split="test")["n"][:]}
if "--stream" in sys.argv:
    rows = datasets.load_dataset("clinic/audit", "presence", split="test", streaming=True)
    out["streamed"] = [row["n"] for row in rows]
out |= evaluate.load("clinic/twice").compute(predictions=[1, 2], references=[0, 0])
print(json.dumps(out))
"""


def load(environment: dict[str, str], folder: Path, *arguments: str) -> dict:
    command = [sys.executable, "-c", LOAD, *arguments]
    done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_datasets_and_metrics_load_and_then_load_offline(tmp_path):
    tables = {"presence": parquet(0), "absence": parquet(1)}
    numbers = {name: pq.read_table(io.BytesIO(table))["n"].to_pylist() for name, table in tables.items()}
    with Hub() as hub:
        files = {f"{name}/test-0.parquet": table for name, table in tables.items()}
        hub.add("dataset", "audit", {"README.md": CARD, **files}, private=True)
        hub.add("space", "twice", {"twice.py": METRIC, "score.py": b"def double(x):\n    return 2 * x\n"})
        environment = hub.environment(tmp_path / "home")
        online = load(environment, tmp_path, "--stream")
        assert online == {"plain": numbers["absence"], "streamed": numbers["presence"], "twice": 6}
        streamed, plain = (hub.asked("GET", f"{name}/test-0.parquet") for name in ("presence", "absence"))
        assert {request.status for request in streamed} == {206}
        assert all(request.range for request in streamed)
        assert [request.status for request in plain] == [200]
        assert [r.status for r in hub.asked("GET", "/spaces/")] == [200, 200]  # the module and its sibling
        assert [r for r in hub.requests if not r.route] == []
        assert hub.crashes == []
    offline = load({**environment, "HF_HUB_OFFLINE": "1", "HF_EVALUATE_OFFLINE": "1"}, tmp_path)
    assert offline == {"plain": numbers["absence"], "twice": 6}
