"""Tests run offline, on caches of their own."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

# Read when the Hugging Face libraries are first imported, so it has to be here and not in a fixture.
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["HF_HOME"] = os.environ.get("MEDFAITH_TEST_HF_HOME") or tempfile.mkdtemp(prefix="medfaith-hf-")
for variable in [name for name in os.environ if name.startswith("MEDFAITH_ROOT_")]:
    del os.environ[variable]

from medfaith.builders import cxr_contrabench, heal_medvqa  # noqa: E402
from medfaith.loaders import phantom  # noqa: E402


@pytest.fixture(scope="session")
def phantom_roots(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Synthetic CheXpert and OpenI in their official layouts."""
    return phantom.write(tmp_path_factory.mktemp("phantom"), seed=0, sources=("chexpert", "openi"))


@pytest.fixture(scope="session")
def phantom_build(phantom_roots: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """CXR-ContraBench built from the phantom sources."""
    out = tmp_path_factory.mktemp("data")
    cxr_contrabench.build(phantom_roots, out)
    return out


@pytest.fixture(scope="session")
def phantom_heal_roots(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Synthetic VinDr-CXR and MIMIC-CXR with their masks and detections, in the official layouts."""
    names = [name for needed in heal_medvqa.NEEDS.values() for name in needed]
    return phantom.write(tmp_path_factory.mktemp("phantom-heal"), seed=0, sources=names)


@pytest.fixture(scope="session")
def phantom_heal_build(phantom_heal_roots: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """HEAL-MedVQA built from the phantom sources, both configs."""
    out = tmp_path_factory.mktemp("heal-data")
    heal_medvqa.build(phantom_heal_roots, out)
    return out
