"""Parallel work: equal results with one process, threads, processes and Dask, and clear errors on failure."""

from __future__ import annotations

import importlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from medfaith.builders import parallel, surgxbench, wrong_lung
from medfaith.builders.parallel import Workers, pieces
from medfaith.builders.surgxbench.motion_rows import MotionOptions
from medfaith.cli import main
from medfaith.loaders.errors import ImageError, InputError, MedfaithError, MissingSourceError
from tests.support.builders.files import digests, root_words
from tests.support.builders.parallel_work import compute_squares, get_pids, is_deaf, wait_and_square

ROOT = Path(__file__).parents[2]
scenes = importlib.import_module("medfaith.builders.heal_medvqa.scenes")
SCENES = scenes._build_scenes

TASKS = pieces(range(23), 5)
FAULTS = [
    InputError("labels.csv", "no number", expected="a number", action="mend it", row=3, column="Age"),
    ImageError("image 'a.png' of source 'chexpert': no such file"),
    MissingSourceError("chexpert is not there"),
]


def build_scenes_or_kill(marker: Path, task: Any, **options: Any) -> Any:
    """Replace `_scenes`: kill the process at the first task of 4 pictures, once."""
    if len(task[0]) == 4 and not marker.exists():
        marker.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return SCENES(task, **options)


def map_squares(workers: Workers, work: Callable[[range], list[int]] = compute_squares, **options: Any) -> list[int]:
    with workers.map(work, iter(TASKS), title="squares", unit="numbers", total=23, **options) as results:
        return [square for task_squares in results for square in task_squares]


def test_only_the_process_that_gives_the_work_hears_ctrl_c():
    """Otherwise each worker process would print a traceback."""
    assert (map_squares(Workers(2), is_deaf), map_squares(Workers(1), is_deaf)) == ([True] * 23, [False] * 23)


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("options", [{}, {"small": True}, {"gpu": True}])
def test_the_results_are_in_order_and_an_error_arrives_as_it_was_raised_whoever_works(count, options):
    assert map_squares(Workers(count), **options) == [number * number for number in range(23)]
    # An error ends the processes, and new ones are slow to start: test one fault with processes, all otherwise.
    for fault in FAULTS if options or count == 1 else FAULTS[:1]:
        with pytest.raises(type(fault)) as raised:
            map_squares(Workers(count), partial(compute_squares, fault=fault), **options)
        assert str(raised.value) == str(fault)


@pytest.mark.parametrize("count", [-1, 0, parallel.MOST_WORKERS + 1])
def test_the_number_of_workers_has_bounds(count):
    """All processes start at once, so that 100,000 would fill the memory."""
    with pytest.raises(InputError, match=f"expected: a number from 1 to {parallel.MOST_WORKERS}"):
        Workers(count)


def test_tasks_are_drawn_as_workers_become_free(tmp_path):
    drawn_tasks = []
    tasks = (drawn_tasks.append(task) or task for task in pieces(range(1000), 10))
    with Workers(2).map(partial(wait_and_square, tmp_path / "go"), tasks, title="", unit="", total=1000) as results:
        assert 0 < len(drawn_tasks) < 20
        (tmp_path / "go").touch()
        assert len(list(results)) == 100


def test_a_killed_process_ends_in_a_message_and_the_next_work_has_new_ones(tmp_path):
    with pytest.raises(MedfaithError, match=r"(?s)a worker process was ended.*what to do: .*fewer than --workers 2"):
        map_squares(Workers(2), partial(compute_squares, killed=tmp_path / "killed"))
    assert map_squares(Workers(2)) == map_squares(Workers(1))


@pytest.fixture
def killing(monkeypatch, tmp_path) -> Path:
    """Kill a worker of HEAL-MedVQA's build in the middle of the first split; the marker file exists afterwards."""
    marker = tmp_path / "killed"
    monkeypatch.setattr(scenes, "PICTURES_A_TASK", 7)  # of 60 and 40
    monkeypatch.setattr(scenes, "_build_scenes", partial(build_scenes_or_kill, marker))
    return marker


def build(roots: dict[str, Path], out: Path, *more: str) -> int:
    return main(["build", "heal-medvqa", "--config", "vindr", *root_words(roots), "--out", str(out), *more])


def hash_vindr(out: Path) -> dict[str, str]:
    """Compute the digests of all files except README.md, which the command replaces by a card."""
    return {name: digest for name, digest in digests(out / "heal-medvqa-vindr_cxr").items() if name != "README.md"}


@pytest.mark.full  # the test before kills without a build
def test_a_killed_process_leaves_the_build_before(phantom_heal_roots, phantom_heal_build, killing, tmp_path, capsys):
    shutil.copytree(phantom_heal_build, tmp_path, dirs_exist_ok=True)
    assert build(phantom_heal_roots, tmp_path, "--seed", "1", "--workers", "2") == 2
    assert "medfaith: a worker process was ended from outside" in capsys.readouterr().err
    assert killing.exists()
    assert hash_vindr(tmp_path) == hash_vindr(phantom_heal_build)


class Cluster:
    """A Dask scheduler and its workers at 127.0.0.1, each in its own process."""

    def __init__(self, folder: Path) -> None:
        self._processes: list[subprocess.Popen[bytes]] = []
        self._file, self._log = folder / "scheduler.json", (folder / "log").open("wb")
        self.start("scheduler", "--port", "0", "--interface", "lo", "--scheduler-file", self._file)
        while not self._file.exists() or not self._file.stat().st_size:
            assert self._processes[0].poll() is None
            time.sleep(0.05)
        self.address = json.loads(self._file.read_text())["address"]

    def start(self, role: str, *arguments: Any) -> None:
        command = [sys.executable, "-m", "dask", role, "--no-dashboard", *map(str, arguments)]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}  # the workers import this file
        self._processes.append(subprocess.Popen(command, env=environment, stdout=self._log, stderr=self._log))

    def start_worker(self, *arguments: str) -> None:
        self.start("worker", self.address, "--no-nanny", "--nthreads", "1", "--host", "127.0.0.1", *arguments)

    def close(self) -> None:
        for process in reversed(self._processes):
            process.kill()
            process.wait()
        self._log.close()


@pytest.fixture(scope="module")
def empty(tmp_path_factory) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path_factory.mktemp("cluster"))
    yield cluster
    cluster.close()


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("tcp://127.0.0.1:1", "--dask tcp://127.0.0.1:1: no scheduler answers"),
        ("nonsense", "--dask nonsense: no scheduler answers"),
        ("", "no worker within 1 s"),
    ],
)
def test_a_cluster_that_cannot_work_is_refused(
    phantom_heal_roots, empty, address, message, tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(parallel, "WITHIN", 1)
    assert build(phantom_heal_roots, tmp_path / "out", "--dask", address or empty.address) == 2
    assert re.search(f"{message}.*\n  what to do: ", capsys.readouterr().err)
    assert not (tmp_path / "out").exists()


def test_dask_that_is_not_installed(monkeypatch, phantom_heal_roots, tmp_path, capsys):
    monkeypatch.setitem(sys.modules, "distributed", None)
    assert build(phantom_heal_roots, tmp_path, "--dask", "tcp://127.0.0.1:1") == 2
    assert "uv pip install 'medfaith[cluster]'" in capsys.readouterr().err


@pytest.fixture(scope="module")
def one_worker(empty) -> Cluster:
    empty.start_worker()
    while True:  # a busy machine is slow
        with suppress(MedfaithError):
            Workers(dask=empty.address).check()
            return empty


def test_a_cluster_without_a_gpu_takes_nothing_that_needs_one(one_worker):
    with pytest.raises(InputError, match=r"(?s)no worker offers the resource GPU.*what to do: .*--resources GPU=1"):
        map_squares(Workers(dask=one_worker.address), gpu=True)


@pytest.fixture(scope="module")
def cluster(one_worker) -> Workers:
    """Two workers; one of them declares a GPU."""
    one_worker.start_worker("--resources", "GPU=1")
    workers = Workers(dask=one_worker.address)
    while len(set(map_squares(workers, get_pids))) < 2:
        time.sleep(0.2)  # each request costs time, of which the worker needs some to start
    return workers


def test_the_results_of_a_cluster(cluster, monkeypatch, tmp_path):
    assert map_squares(cluster) == map_squares(Workers())
    assert len(set(map_squares(cluster, get_pids, gpu=True))) == 1
    for fault in FAULTS:
        with pytest.raises(type(fault)) as raised:
            map_squares(cluster, partial(compute_squares, fault=fault))
        assert str(raised.value) == str(fault)
    with pytest.raises(InputError, match=r"(?s)a worker lacks a library \(No module named 'av'\).*install the same"):
        map_squares(cluster, partial(compute_squares, fault=ModuleNotFoundError("No module named 'av'")))
    with pytest.raises(InputError, match=r"(?s)absent: is not there for the worker on .*mount it there"):
        map_squares(cluster, reads=[tmp_path / "absent"])
    monkeypatch.setattr(parallel, "version", lambda name: "9.9")
    with pytest.raises(InputError, match=r"(?s)the worker on .*: has medfaith .*expected: 9\.9"):
        map_squares(cluster)


@pytest.mark.full  # the test before has the cluster; test_surgx_build.py has the same bytes of worker processes
def test_a_cluster_writes_the_same_bytes(
    cluster, phantom_surgx_roots, phantom_surgx_flow, phantom_surgx_build, phantom_wrong_lung_roots, tmp_path
):
    options = surgxbench.Options(motion=MotionOptions(str(phantom_surgx_flow), trim=0.4))
    (folder,) = surgxbench.build(
        phantom_surgx_roots, tmp_path, configs=["triplets"], options=options, dask=cluster.dask
    )
    assert digests(folder / "triplets") == digests(phantom_surgx_build / folder.name / "triplets")
    for who in ({}, {"dask": cluster.dask}):
        wrong_lung.build(phantom_wrong_lung_roots, tmp_path / str(len(who)), configs=["silver"], **who)
    assert digests(tmp_path / "0") == digests(tmp_path / "1")


@pytest.mark.full
def test_a_killed_worker_of_a_cluster_changes_no_byte(
    cluster, phantom_heal_roots, phantom_heal_build, killing, tmp_path, capsys
):
    """Run last: it leaves one worker, which takes over the tasks of the killed one."""
    assert build(phantom_heal_roots, tmp_path, "--dask", cluster.dask) == 0
    assert killing.exists()
    assert hash_vindr(tmp_path) == hash_vindr(phantom_heal_build)
    assert len(set(map_squares(cluster, get_pids))) == 1
