"""Fixtures for tests of publishing: the command against a loopback Hub, in this process and in a fresh one."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import datasets
import pytest
from huggingface_hub import constants

from medfaith.builders import cxr_contrabench
from medfaith.cards import publication
from medfaith.cards.publish import hub_client, hub_content, staging, upload_plan
from medfaith.cards.publish import upload as hub_upload
from medfaith.cli import main
from medfaith.tasks import hub_access
from tests.support.publishing import CHEXPERT, OPENI


@pytest.fixture(scope="session", autouse=True)
def quick_commands(quick_publish: None) -> None:
    """Run all commands of this folder with `quick_publish`."""


@pytest.fixture
def medfaith(hub, tmp_path, monkeypatch, capsys):
    """Run the command against the Hub in this process and return (exit status, stdout, stderr).

    A fresh process takes longer; use `afresh` for libraries that read the Hub's address at import.
    """
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    hub_access._can_reach.cache_clear()  # a Hub of an earlier test may have had the same port
    for name, value in {
        "HF_ENDPOINT": hub.url,
        "HF_HUB_OFFLINE": False,
        "HF_DATASETS_CACHE": tmp_path / "rows",
    }.items():
        monkeypatch.setattr(datasets.config, name, value)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "files"))

    def run(*arguments: object, token: str | None = None) -> tuple[int, str, str]:
        if token is not None:
            monkeypatch.setenv("HF_TOKEN", token)
        capsys.readouterr()
        status = main([str(argument) for argument in arguments])
        printed = capsys.readouterr()
        return status, printed.out, printed.err

    return run


@pytest.fixture
def afresh(hub, tmp_path):
    """Run the command like `medfaith`, but in a fresh process."""

    def run(*arguments: object) -> tuple[int, str, str]:
        environment = hub.environment(tmp_path / "home") | {"XDG_CONFIG_HOME": str(tmp_path)}
        command = [sys.executable, "-m", "medfaith", *map(str, arguments)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
        assert "Traceback" not in done.stderr
        return done.returncode, done.stdout, done.stderr

    return run


@pytest.fixture
def python(hub, tmp_path):
    """Run a script in a fresh process that uses the Hub, and parse its output as JSON."""

    def run(script: str, **more: str):
        environment = hub.environment(tmp_path / "home") | more
        command = [sys.executable, "-c", script]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
        assert not done.returncode, done.stderr
        return json.loads(done.stdout.splitlines()[-1])

    return run


@pytest.fixture
def openi(phantom_build, phantom_roots, hub) -> list[object]:
    """Command-line arguments that publish the OpenI build; its licence allows publishing the rows."""
    return ["publish", phantom_build / OPENI, "--org", hub.organisation, "--root", f"openi={phantom_roots['openi']}"]


@pytest.fixture(scope="session")
def chexpert(phantom_roots, once) -> Path:
    """Build of two CheXpert configs; its licence allows publishing only the recipe."""
    configs = ["chexpert_presence", "chexpert_absence"]
    roots = {"chexpert": phantom_roots["chexpert"]}
    return once("chexpert-data", lambda out: cxr_contrabench.build(roots, out, configs=configs)) / CHEXPERT


@pytest.fixture(scope="session")
def staged(phantom_build, once) -> Path:
    """Staged folder of the OpenI build."""

    def stage(out: Path) -> None:
        (out / OPENI).mkdir(parents=True)
        staging.stage(publication.read(phantom_build / OPENI), out / OPENI, repo_id=f"clinic/{OPENI}", texts=())

    return once("staged-openi", stage) / OPENI


@pytest.fixture
def plan(hub, medfaith):
    """Plan the upload of a staged folder."""
    return lambda folder: upload_plan.build_plan(hub_client.get_client(), f"clinic/{folder.name}", "dataset", folder)


@pytest.fixture
def put(plan):
    """Plan and upload a staged folder like the command."""

    def upload(folder: Path, **options: Any) -> hub_upload.Done:
        message = hub_content.format_title("1.0", folder.name)
        return hub_upload.upload(hub_client.get_client(), plan(folder), folder, message=message, **options)

    return upload
