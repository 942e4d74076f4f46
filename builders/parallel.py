"""Work in pieces, in their order: by this process, by threads or processes of this machine, or by a Dask cluster."""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar
from unittest import mock

from ..loaders.errors import InputError, MedfaithError
from ..loaders.progress import Progress

WITHIN = 20  # seconds in which a scheduler answers and has a worker
IDLE = 20  # seconds after which a process without work ends, also where this one was killed
GPU = {"GPU": 1}
_QUIET = "ignore:resource_tracker:UserWarning"  # of processes: it tells of what one had that Ctrl-C has ended
_PROCESSES = threading.Lock()  # they serve one job at a time: threads that write splits may ask for them at once

Task = TypeVar("Task")
Done = TypeVar("Done")


def pieces(items: Sequence[Any], size: int) -> list[Sequence[Any]]:
    """The items in their order, `size` at a time."""
    return [items[start : start + size] for start in range(0, len(items), size)]


@dataclass(frozen=True, slots=True)
class Workers:
    """Who works; no result depends on it.

    count: how many processes or threads of this machine. dask: a scheduler's address; its workers take the processes'
    place.
    """

    count: int = 1
    dask: str | None = None

    def check(self) -> None:
        """Raises MedfaithError for a cluster that does not answer or has no worker, before hours of work."""
        if self.dask is not None:
            with _client(self.dask):
                pass

    @contextmanager
    def each(
        self,
        work: Callable[[Task], Done],
        tasks: Iterable[Task],
        *,
        title: str,
        unit: str,
        total: int,
        length: Callable[[Any], int] = len,
        reads: Sequence[Path] = (),
        small: bool = False,
        gpu: bool = False,
    ) -> Iterator[Iterator[Done]]:
        """`work(task)` of each task, in their order; tasks are drawn as workers become free.

        Args:
            work: it and what it takes and returns can be pickled. What it raises comes from the iterator.
            title, unit, total: as of `Progress`, which counts the `length` of each finished task.
            reads: what every worker of a cluster has to find at the same place.
            small: threads of this machine do it, cluster or not: it mostly waits for files, or leaves Python's lock.
            gpu: a cluster gives it to workers with the resource GPU, one at a time each. Here this process does it.

        Raises:
            MedfaithError: a worker that was killed; a cluster that does not answer, or has no worker for these tasks.
        """
        begun: deque[int] = deque()

        def drawn() -> Iterator[Task]:
            for task in tasks:
                begun.append(length(task))
                yield task

        if self.dask is not None and not small:
            results = _by_cluster(self.dask, partial(_checked, work, tuple(reads), version("medfaith")), drawn(), gpu)
        elif self.count == 1 or (gpu and not small):
            results = nullcontext(map(work, drawn()))
        elif small:
            results = nullcontext(_parallel(work, drawn(), n_jobs=self.count, backend="threading"))
        else:
            results = _by_processes(work, drawn(), self.count)
        with results as done, Progress(title=title, total=total, unit=unit) as bar:

            def ticking() -> Iterator[Done]:
                for result in done:
                    yield result
                    bar.update(begun.popleft())

            yield ticking()


HERE = Workers()


def _parallel(work: Callable[[Any], Any], tasks: Iterable[Any], **how: Any) -> Any:
    from joblib import Parallel, delayed

    how |= {"return_as": "generator", "batch_size": 1}
    # One argument that is a tuple: joblib would hand a larger object to a single worker of a cluster beforehand, with
    # which it is lost.
    return Parallel(**how)(delayed(_of_pair)((work, task)) for task in tasks)


def _of_pair(pair: tuple[Callable[[Any], Any], Any]) -> Any:
    work, task = pair
    return work(task)


@contextmanager
def _by_processes(work: Callable[[Any], Any], tasks: Iterator[Any], count: int) -> Iterator[Iterator[Any]]:
    from joblib.externals.loky.process_executor import TerminatedWorkerError
    from joblib.parallel import LokyBackend

    with _PROCESSES, mock.patch.dict(os.environ, PYTHONWARNINGS=_QUIET):
        try:
            with _deaf_to_ctrl_c():
                # Level 0 below threads, too: joblib fears a fork there, which this is not, and would do the tasks in
                # turn.
                backend = LokyBackend(nesting_level=0, idle_worker_timeout=IDLE)
                results = _parallel(work, tasks, n_jobs=count, backend=backend)
            with closing(results):
                yield results
        except TerminatedWorkerError:
            raise MedfaithError(
                "a worker process was ended from outside; nothing was changed\n  what to do: most often memory was "
                f"short: give fewer than --workers {count}, and build again"
            ) from None


@contextmanager
def _deaf_to_ctrl_c() -> Iterator[None]:
    """Processes that are started in here do not hear Ctrl-C, of which each would show a traceback: this one ends them.

    It hears of Ctrl-C afterwards itself.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    from multiprocessing import resource_tracker

    from joblib.externals.loky.backend import resource_tracker as loky_tracker

    for tracker in (resource_tracker, loky_tracker):  # joblib below 1.6 has its own
        tracker.ensure_running()  # before: its start lets Ctrl-C through again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _by_cluster(address: str, work: Callable[[Any], Any], tasks: Iterator[Any], gpu: bool) -> Iterator[Iterator[Any]]:
    from joblib import parallel_config

    with _client(address) as client:
        from distributed.scheduler import KilledWorker

        if gpu and not any(one["resources"].get("GPU") for one in _workers(client)):
            action = "start workers with --resources GPU=1 on machines that have one"
            raise _cluster_error(address, "no worker offers the resource GPU", action)
        with parallel_config(backend="dask", client=client, **({"resources": GPU} if gpu else {})):
            results = _parallel(work, tasks, pre_dispatch="4*n_jobs")
        try:
            yield results
        except KilledWorker as error:
            found = f"several workers were killed with the same task ({error})"
            raise _cluster_error(address, found, "give each worker more memory") from None
        except ImportError as error:
            found, action = f"a worker lacks a library ({error})", "install the same medfaith there, with its extras"
            raise _cluster_error(address, found, action) from None
        except CancelledError:
            raise _cluster_error(address, "the scheduler was lost", "start it and build again") from None


@contextmanager
def _client(address: str) -> Iterator[Any]:
    """A client of the scheduler, which has a worker at least."""
    try:
        from distributed import Client
    except ImportError:
        action = "uv pip install 'medfaith[cluster]'"
        raise MedfaithError(f"--dask needs dask.distributed\n  what to do: {action}") from None
    try:
        client = Client(address, timeout=WITHIN, set_as_default=False)
    except (OSError, ValueError) as error:
        raise _cluster_error(address, f"no scheduler answers ({error})", "check the address, and start it") from None
    with client:
        try:
            client.wait_for_workers(1, timeout=WITHIN)
        except TimeoutError:
            action = "start workers, wait until the queue runs one, and build again"
            raise _cluster_error(address, f"no worker within {WITHIN} s", action) from None
        yield client


def _workers(client: Any) -> list[dict[str, Any]]:
    return list(client.scheduler_info(n_workers=-1)["workers"].values())


def _cluster_error(address: str, found: str, action: str) -> MedfaithError:
    return InputError(f"--dask {address}", f"{found}; nothing was changed", action=action)


def _checked(work: Callable[[Task], Done], reads: Sequence[Path], ours: str, task: Task) -> Done:
    """`work(task)` on a cluster's worker, which may have come late. Raises InputError where it is no equal of ours."""
    host = socket.gethostname()
    if (theirs := version("medfaith")) != ours:
        found = f"has medfaith {theirs}"
        raise InputError(f"the worker on {host}", found, expected=ours, action="install the same version everywhere")
    for path in reads:
        if not path.exists():
            action = "mount it there at the same place, and name it by its whole path"
            raise InputError(path, f"is not there for the worker on {host}", action=action)
    return work(task)
