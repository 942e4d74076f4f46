"""Quickstart and the rows work on the lowest versions that pyproject allows together, and on the newest.

Each case makes an environment without torch from the package registry that uv is configured for. It takes minutes.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.certificates import restore_certificates

ROOT = Path(__file__).parents[2]
# The lowest that requires-python allows, and the highest on which these tests have passed.
PYTHONS = ("3.11", "3.13")
VERSIONS = {"lowest": ("--resolution=lowest-direct",), "newest": ("--resolution=highest", "--upgrade")}
EXTRAS = "cluster,publish,server,video"  # none of them brings torch
TOOLS = ("pytest", "pytest-xdist", "hypothesis")
TESTS = (
    *("builders/test_every_build.py", "builders/test_forged_rows.py", "builders/test_heal_build.py"),
    *("builders/test_parallel.py", "builders/test_storage.py", "builders/test_surgx_build.py"),
    *("builders/test_wrong_lung_build.py", "builders/test_write.py", "cards/test_croissant.py"),
    *("hub/test_publish.py", "loaders/test_cholec80.py", "tasks/test_heal_rows.py", "tasks/test_rows.py"),
    "tasks/test_server.py",
    "tasks/test_server_refused.py",
)
# Variables of this run's pytest, environment and project, hidden from the fresh environment.
ELSEWHERE = ("PYTEST_", "VIRTUAL_ENV", "PYTHONPATH", "UV_PROJECT", "UV_RUN_RECURSION_DEPTH", "UV_FROZEN")


def find_uv() -> str:
    path = os.environ.get("UV") or shutil.which("uv")
    assert path, "run the checks with `uv run python -m tests`"
    return path


def make_environment() -> dict[str, str]:
    environment = restore_certificates(os.environ)
    return {name: value for name, value in environment.items() if not name.startswith(ELSEWHERE)}


def find_interpreter(version: str, folder: Path) -> str:
    """Find a Python that uv or pyenv has installed; skip the test if there is none."""
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    places = [str(place) for place in sorted(pyenv.glob(f"versions/{version}.*/bin"))]
    searched = make_environment() | {"PATH": os.pathsep.join([*places, os.environ["PATH"]])}
    command = [find_uv(), "python", "find", "--system", "--no-project", "--no-python-downloads", version]
    done = subprocess.run(command, cwd=folder, env=searched, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"Python {version} is not installed (uv python install {version})")
    return done.stdout.strip()


def run(folder: Path, *command: object, **variables: str) -> str:
    """Run a command and return its output; fail with the end of the output if the command fails."""
    done = subprocess.run(
        [*map(str, command)],
        cwd=folder,
        env=make_environment() | variables,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{' '.join(map(str, command))}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
    return done.stdout


@pytest.mark.full
@pytest.mark.parametrize("versions", VERSIONS)
@pytest.mark.parametrize("version", PYTHONS)
def test_quickstart_and_the_rows_work(version, versions, tmp_path, phantom_surgx_build):
    base = find_interpreter(version, tmp_path)
    python, tree = tmp_path / "venv" / "bin" / "python", tmp_path / "tree"
    left_out = shutil.ignore_patterns(".*", "__pycache__", "*.egg-info", "build", "dist", "medfaith-quickstart")
    shutil.copytree(ROOT, tree, ignore=left_out)
    # uv reads the settings of the folder that it runs in: pip knows nothing of pyproject's [tool.uv].
    run(tmp_path, find_uv(), "venv", "--quiet", "--python", base, "venv")
    install = (find_uv(), "pip", "install", "--quiet", "--python", python, *VERSIONS[versions])
    run(tmp_path, *install, "--editable", tree)

    offline = {"HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path / "hf")}
    printed = run(tmp_path, python, "-m", "medfaith", "quickstart", "--out", "out", **offline)
    assert " repositories are sound" in printed  # test_quickstart.py has their number
    assert "\n5/5  audit" in printed
    for build in ("out/data", phantom_surgx_build):  # its own, and one of the versions that are locked
        assert "FAULTY" not in run(tmp_path, python, "-m", "medfaith", "verify", build, **offline)

    run(tmp_path, *install, "--editable", f"{tree}[{EXTRAS}]")
    run(tmp_path, find_uv(), "pip", "install", "--quiet", "--python", python, *TOOLS)
    tests = run(tree, python, "-m", "pytest", "-q", "-n", "auto", *(f"tests/{name}" for name in TESTS))
    assert " passed" in tests
    assert " skipped" not in tests
