"""The core is light: in a second environment without torch, quickstart builds, verifies and scores."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.certificates import restore_certificates

ROOT = Path(__file__).parents[2]


@pytest.mark.full
def test_quickstart_without_torch_and_without_network(tmp_path):
    uv = os.environ.get("UV") or shutil.which("uv")
    assert uv, "run the checks with `uv run python -m tests`"
    environment = restore_certificates(os.environ)
    environment = {k: v for k, v in environment.items() if k not in ("VIRTUAL_ENV", "PYTHONPATH")}
    environment |= {"UV_PROJECT_ENVIRONMENT": str(tmp_path / "venv")}
    subprocess.run([uv, "sync", "--frozen", "--no-dev", "--quiet"], cwd=ROOT, env=environment, check=True)
    python = tmp_path / "venv" / "bin" / "python"
    probe = (
        "import importlib.util as u; print([m for m in ('torch', 'transformers', 'torchxrayvision') if u.find_spec(m)])"
    )
    assert subprocess.run([python, "-c", probe], capture_output=True, text=True, check=True).stdout.strip() == "[]"
    offline = environment | {"HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path / "hf")}
    command = [python, "-m", "medfaith", "quickstart", "--out", str(tmp_path / "out")]
    result = subprocess.run(command, cwd=tmp_path, env=offline, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert " repositories are sound" in result.stdout  # test_quickstart.py has their number
    assert "\n5/5  audit" in result.stdout
