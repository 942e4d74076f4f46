"""Tests run offline, on caches of their own."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import hypothesis
import numpy as np
import pytest

# Read when the Hugging Face libraries are first imported, so it has to be here and not in a fixture.
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ.setdefault("OMP_NUM_THREADS", "1")  # tiny models: more threads only wait for one another
os.environ["HF_HOME"] = os.environ.get("MEDFAITH_TEST_HF_HOME") or tempfile.mkdtemp(prefix="medfaith-hf-")
hypothesis.settings.register_profile("untimed", deadline=None)  # no test is timed: a busy machine fails none
hypothesis.settings.load_profile("untimed")
for variable in [name for name in os.environ if name.startswith("MEDFAITH_ROOT_")]:
    del os.environ[variable]

from medfaith.builders import cxr_contrabench, heal_medvqa, surgxbench, wrong_lung  # noqa: E402
from medfaith.builders.surgxbench.motion_rows import MotionOptions  # noqa: E402
from medfaith.loaders import phantom  # noqa: E402
from medfaith.loaders.phantom import surgery  # noqa: E402
from tests.hub.fixture import hub  # noqa: E402, F401


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


@pytest.fixture(scope="session")
def phantom_surgx_roots(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Synthetic Cholec80, Cholec80-Boxes, CholecT45 and CholecT50 in their official layouts."""
    names = ("cholec80", "cholec80_boxes", "cholect45", "cholect50")
    return phantom.write(tmp_path_factory.mktemp("phantom-surgx"), seed=0, sources=names)


@pytest.fixture(scope="session")
def phantom_surgx_flow(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The exact flow between the synthetic videos' seconds, as flow files."""
    folder = tmp_path_factory.mktemp("flow")
    for video in (42, 43):
        clip = surgery.clip(video, seed=0)
        (folder / f"VID{video}").mkdir()
        for t in range(0, surgery.N_FRAMES - surgery.FPS, surgery.FPS):
            for direction, (first, second) in {"forward": (t, t + 25), "backward": (t + 25, t)}.items():
                name = f"{t // surgery.FPS:06d}_{direction}.npy"
                np.save(folder / f"VID{video}" / name, clip.flow(first, second))
    return folder


@pytest.fixture(scope="session")
def phantom_surgx_build(
    phantom_surgx_roots: dict[str, Path], phantom_surgx_flow: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """SurgXBench built from the phantom sources, with the motion of the exact flow, the camera's fit trimmed."""
    out = tmp_path_factory.mktemp("surgx-data")
    motion = MotionOptions(str(phantom_surgx_flow), trim=0.4)
    surgxbench.build(phantom_surgx_roots, out, options=surgxbench.Options(motion=motion))
    return out


@pytest.fixture(scope="session")
def phantom_wrong_lung_roots(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Synthetic Chest ImaGenome and MIMIC-CXR in their official layouts."""
    names = (wrong_lung.SOURCE, wrong_lung.IMAGES)
    return phantom.write(tmp_path_factory.mktemp("phantom-wrong-lung"), seed=0, sources=names)


@pytest.fixture(scope="session")
def phantom_wrong_lung_build(
    phantom_wrong_lung_roots: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """That's the Wrong Lung! built from the phantom sources, all configs."""
    out = tmp_path_factory.mktemp("wrong-lung-data")
    wrong_lung.build(phantom_wrong_lung_roots, out)
    return out
