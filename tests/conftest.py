"""Tests run offline, on caches of their own."""

from __future__ import annotations

import copy
import functools
import gc
import importlib.util
import logging
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import hypothesis
import numpy as np
import pytest
from filelock import FileLock

# Read when the Hugging Face libraries are first imported, so it has to be here and not in a fixture.
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ.setdefault("OMP_NUM_THREADS", "1")  # tiny models: more threads only wait for one another
os.environ["HF_HOME"] = os.environ.get("MEDFAITH_TEST_HF_HOME") or tempfile.mkdtemp(prefix="medfaith-hf-")
os.environ["XDG_CONFIG_HOME"] = os.environ["HF_HOME"]  # no test reads the user's own configuration
# Loopback servers have no TLS, but each client would read all certificates of the machine, which takes longer than its
# requests. This folder has none. Tests of programs that need the network restore the user's own values.
for name in ("SSL_CERT_FILE", "SSL_CERT_DIR"):
    os.environ.setdefault(f"MEDFAITH_TEST_{name}", os.environ.pop(name, ""))
os.environ["SSL_CERT_DIR"] = os.environ["HF_HOME"]
# Each of the many processes would compile torch and lm-eval anew, which costs more than the tests.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
# Objects of imported libraries stay until the end. Collecting over them repeatedly took a tenth of the time.
gc.set_threshold(100_000, 10, 10)
# lm-eval collects for every batch and statsmodels for every table: the young generations are enough.
gc.collect = lambda generation=1, collect=gc.collect: collect(generation)
# No test is timed: a busy machine fails none.
hypothesis.settings.register_profile("regular", deadline=None, max_examples=10)
hypothesis.settings.register_profile("full", deadline=None)
for variable in [name for name in os.environ if name.startswith("MEDFAITH_ROOT_")]:
    del os.environ[variable]

from medfaith.builders import cxr_contrabench, heal_medvqa, own, surgxbench, wrong_lung  # noqa: E402
from medfaith.builders.surgxbench.motion_rows import MotionOptions  # noqa: E402
from medfaith.loaders import phantom  # noqa: E402
from medfaith.loaders.phantom import surgery  # noqa: E402
from tests.hub.fixture import hub  # noqa: E402, F401
from tests.support import tiers  # noqa: E402

Once = Callable[[str, Callable[[Path], Any]], Path]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write the golden files of reports anew")


def pytest_configure(config: pytest.Config) -> None:
    """Try fewer examples of each property, and smaller data, in the regular run."""
    is_full = tiers.set_tier(config)
    hypothesis.settings.load_profile("full" if is_full else "regular")
    if not is_full:  # each process would parse all modules for the constants in them, to try these as examples
        with suppress(ImportError):  # another version has other modules
            providers = importlib.import_module("hypothesis.internal.conjecture.providers")
            providers.__dict__["is_local_module_file"] = lambda path: False


def pytest_unconfigure() -> None:
    """Remove the caches of this process."""
    if "MEDFAITH_TEST_HF_HOME" not in os.environ:
        shutil.rmtree(os.environ["HF_HOME"], ignore_errors=True)


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, Any, Any]:
    """Import in one process first: in a fresh clone, all would compile the same libraries and tests."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        return (yield)
    imported = cast(Any, session.config)._tmp_path_factory.getbasetemp().parent / ".imported"
    with FileLock(f"{imported}.lock"):
        if not imported.exists():
            outcome = yield
            imported.touch()
            return outcome
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol() -> Generator[None, Any, Any]:
    """Remove the handlers that a test adds to the root logger: Inspect's prints the warnings of all later tests."""
    handlers = [*logging.root.handlers]
    outcome = yield
    logging.root.handlers[:] = handlers
    return outcome


@pytest.fixture(scope="session")
def once(tmp_path_factory: pytest.TempPathFactory) -> Once:
    """Make a function (name, maker) that returns a folder filled once per run and shared by all processes."""
    base = tmp_path_factory.getbasetemp()
    base = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    (base := base / "once").mkdir(exist_ok=True)  # no test's own folder lies beside a build

    def folder_of(name: str, make: Callable[[Path], Any]) -> Path:
        folder, marker = base / name, base / f".{name}.made"
        with FileLock(base / f".{name}.lock"):
            if not marker.exists():
                make(folder)
                marker.touch()
        return folder

    return folder_of


def phantoms(once: Once, name: str, sources: Iterable[str]) -> dict[str, Path]:
    """Write the synthetic sources of seed 0 into the folder of that name; return their folders by id."""
    folder = once(name, lambda out: phantom.write(out, seed=0, sources=[*sources]))
    return {source: folder / source for source in sources}


@pytest.fixture(scope="session")
def phantom_roots(once: Once) -> dict[str, Path]:
    """Synthetic CheXpert and OpenI in their official layouts."""
    return phantoms(once, "phantom", ("chexpert", "openi"))


@pytest.fixture(scope="session")
def phantom_items_roots(once: Once) -> dict[str, Path]:
    """Synthetic CheXStruct and ReXVQA in their official layouts."""
    return phantoms(once, "phantom-items", ("chexstruct", "rexvqa"))


@pytest.fixture(scope="session")
def phantom_items_build(phantom_items_roots: dict[str, Path], once: Once) -> Path:
    """CXR-ContraBench built from synthetic CheXStruct and ReXVQA."""
    return once("items-data", lambda out: cxr_contrabench.build(phantom_items_roots, out))


@pytest.fixture(scope="session")
def phantom_build(phantom_roots: dict[str, Path], once: Once) -> Path:
    """CXR-ContraBench built from the phantom sources."""
    return once("data", lambda out: cxr_contrabench.build(phantom_roots, out))


@pytest.fixture(scope="session")
def phantom_chexlocalize_roots(once: Once) -> dict[str, Path]:
    """Synthetic CheXlocalize with its images, in the official layout."""
    return phantoms(once, "phantom-chexlocalize", ("chexlocalize",))


@pytest.fixture(scope="session")
def phantom_chexlocalize_build(phantom_chexlocalize_roots: dict[str, Path], once: Once) -> Path:
    """CXR-ContraBench with regions, built from the phantom source."""
    return once("chexlocalize-data", lambda out: cxr_contrabench.build(phantom_chexlocalize_roots, out))


@pytest.fixture(scope="session")
def phantom_heal_roots(once: Once) -> dict[str, Path]:
    """Synthetic VinDr-CXR and MIMIC-CXR with their masks and detections, in the official layouts."""
    return phantoms(once, "phantom-heal", [*heal_medvqa.NEEDS["vindr"], *heal_medvqa.NEEDS["mimic"]])


@pytest.fixture(scope="session")
def phantom_heal_build(phantom_heal_roots: dict[str, Path], once: Once) -> Path:
    """HEAL-MedVQA built from synthetic VinDr-CXR and MIMIC-CXR."""
    return once("heal-data", lambda out: heal_medvqa.build(phantom_heal_roots, out))


@pytest.fixture(scope="session")
def phantom_nih_roots(once: Once) -> dict[str, Path]:
    """Synthetic NIH ChestX-ray14 and CheXmask in their official layouts."""
    return phantoms(once, "phantom-nih", heal_medvqa.NEEDS["nih"])


@pytest.fixture(scope="session")
def phantom_nih_build(phantom_nih_roots: dict[str, Path], once: Once) -> Path:
    """HEAL-MedVQA built from synthetic NIH ChestX-ray14."""
    return once("nih-data", lambda out: heal_medvqa.build(phantom_nih_roots, out))


@pytest.fixture(scope="session")
def phantom_surgx_roots(once: Once) -> dict[str, Path]:
    """Synthetic Cholec80, Cholec80-Boxes, CholecT45, CholecT50 and CholecSeg8k in their official layouts."""
    return phantoms(once, "phantom-surgx", ("cholec80", "cholec80_boxes", "cholect45", "cholect50", "cholecseg8k"))


@pytest.fixture(scope="session")
def phantom_surgx_flow(once: Once) -> Path:
    """The exact flow between the synthetic videos' seconds, as flow files."""
    return once("flow", _write_flow)


def _write_flow(folder: Path) -> None:
    for video in (42, 43):
        clip = surgery.clip(video, seed=0)
        (folder / f"VID{video}").mkdir(parents=True)
        for t in range(0, surgery.N_FRAMES - surgery.FPS, surgery.FPS):
            for direction, (start, end) in {"forward": (t, t + 25), "backward": (t + 25, t)}.items():
                name = f"{t // surgery.FPS:06d}_{direction}.npy"
                np.save(folder / f"VID{video}" / name, clip.flow(start, end))


@pytest.fixture(scope="session")
def phantom_surgx_build(phantom_surgx_roots: dict[str, Path], phantom_surgx_flow: Path, once: Once) -> Path:
    """SurgXBench built from the phantom sources, with the motion of the exact flow, the camera's fit trimmed."""
    options = surgxbench.Options(motion=MotionOptions(str(phantom_surgx_flow), trim=0.4))
    return once("surgx-data", lambda out: surgxbench.build(phantom_surgx_roots, out, options=options))


@pytest.fixture(scope="session")
def phantom_wrong_lung_roots(once: Once) -> dict[str, Path]:
    """Synthetic Chest ImaGenome and MIMIC-CXR in their official layouts."""
    return phantoms(once, "phantom-wrong-lung", (wrong_lung.SOURCE, wrong_lung.IMAGES))


@pytest.fixture(scope="session")
def phantom_wrong_lung_build(phantom_wrong_lung_roots: dict[str, Path], once: Once) -> Path:
    """That's the Wrong Lung! built from the phantom sources, all configs."""
    return once("wrong-lung-data", lambda out: wrong_lung.build(phantom_wrong_lung_roots, out))


@pytest.fixture(scope="session")
def phantom_own_roots(once: Once) -> dict[str, Path]:
    """A synthetic table of one's own questions and its images."""
    return phantoms(once, "phantom-own", own.NEEDS[own.CONFIG])


@pytest.fixture(scope="session")
def phantom_own_build(phantom_own_roots: dict[str, Path], once: Once) -> Path:
    """The rows of the synthetic table."""
    return once("own-data", lambda out: own.build(phantom_own_roots, out))


@pytest.fixture(scope="session")
def quick_lm_eval() -> Iterator[None]:
    """Cache what lm-eval makes anew for every command: its index of 14,000 task files and ours, and the environment.

    The regular run leaves lm-eval's own task files out, which no test asks: to index them takes 20 seconds.
    A dozen processes describe the environment. Data sets get random fingerprints: to hash their rows and arguments
    takes half of the time of loading a task, and no task maps its rows through a cache of files. The card of a build is
    parsed once: `load_dataset` parses it for each config.
    """
    import lm_eval.tasks
    from datasets import arrow_dataset, fingerprint
    from huggingface_hub import DatasetCard
    from lm_eval.tasks._index import TaskIndex

    from medfaith.tasks import include_path

    build, theirs = TaskIndex.build, Path(lm_eval.tasks.__file__).parent
    cached_folders = (theirs, include_path())
    read_once = functools.cache(lambda path: build([path]))

    def build_cached(paths: Iterable[Path], **options: Any) -> dict[str, Any]:
        index: dict[str, Any] = {}
        for path in paths:
            if Path(path) == theirs and not tiers.is_full_run():
                continue
            is_cached = any(Path(path).is_relative_to(folder) for folder in cached_folders)
            index |= read_once(path) if is_cached else build([path], **options)
        return index

    read_card = functools.cache(lambda path, size, modified, load=DatasetCard.load: load(path))

    def load_card(path: str) -> DatasetCard:
        state = Path(path).stat()
        return copy.deepcopy(read_card(path, state.st_size, state.st_mtime_ns))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DatasetCard, "load", staticmethod(load_card))
        patch.setattr(TaskIndex, "build", staticmethod(build_cached))
        for module in (arrow_dataset, fingerprint):
            for name in ("generate_fingerprint", "update_fingerprint"):
                patch.setattr(module, name, lambda *arguments: fingerprint.generate_random_fingerprint())
        if importlib.util.find_spec("torch"):  # without torch, lm-eval does not describe the environment
            from torch.utils import collect_env

            patch.setattr(collect_env, "get_pretty_env_info", functools.cache(collect_env.get_pretty_env_info))
        yield


@pytest.fixture(scope="session")
def quick_publish() -> Iterator[None]:
    """Validate each text of croissant.json once: mlcroissant takes half of the time of publishing a small build."""
    from medfaith.cards.publish import croissant

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(croissant, "validate", functools.cache(croissant.validate))
        yield


@pytest.fixture(scope="module")
def tables_alone() -> Iterator[None]:
    """Leave out the figures of reports in the regular run: drawing them takes longer than the tables."""
    from medfaith.reporting.registry import BENCHMARKS

    with pytest.MonkeyPatch.context() as patch:
        for benchmark in () if tiers.is_full_run() else BENCHMARKS.values():
            patch.setattr(type(benchmark), "draw_figures", lambda self, scores: ({}, []))
        yield


@pytest.fixture
def png_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the report save its pictures as PNG only: each further format takes longer."""
    from medfaith.reporting.pictures import saved

    def files(figures: Mapping[str, Any]) -> dict[str, bytes]:
        return {f"{name}.png": saved(figure, ["png"])["png"] for name, figure in figures.items()}

    monkeypatch.setattr("medfaith.reporting.write.files", files)
