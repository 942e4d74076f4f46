"""Runs tasks in order: in this process, in threads or processes of this machine, or on a Dask cluster."""

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

WITHIN = 20  # seconds until a scheduler must have answered and have a worker
IDLE = 20  # seconds after which an idle worker process ends, even if this process was killed
GPU = {"GPU": 1}
MOST_WORKERS = max(64, 4 * (os.cpu_count() or 1))  # each is started at once, and takes some 100 MB
_QUIET = "ignore:resource_tracker:UserWarning"  # silences warnings about resources of processes that Ctrl-C ended
_PROCESS_LOCK = threading.Lock()  # one job at a time: several threads that write splits may need the processes

Task = TypeVar("Task")
Result = TypeVar("Result")


def pieces(items: Sequence[Any], size: int) -> list[Sequence[Any]]:
    """Split items into pieces, in order.

    Args:
        items: The items.
        size: Number of items in each piece; the last piece may have fewer.

    Returns:
        The pieces.
    """
    return [items[start : start + size] for start in range(0, len(items), size)]


@dataclass(frozen=True, slots=True)
class Workers:
    """The workers that run tasks. No result depends on them.

    Attributes:
        count: Number of processes or threads of this machine.
        dask: Address of a Dask scheduler. Its workers replace the processes.

    Raises:
        InputError: The number is below 1 or above MOST_WORKERS.
    """

    count: int = 1
    dask: str | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.count <= MOST_WORKERS:
            expected = f"a number from 1 to {MOST_WORKERS:,}"
            raise InputError("workers", "is out of range", expected=expected, action="give another number")

    def check(self) -> None:
        """Check that the cluster answers and has a worker, before hours of work.

        Raises:
            MedfaithError: It does not answer or has no worker.
        """
        if self.dask is not None:
            with _cluster_client(self.dask):
                pass

    @contextmanager
    def map(  # noqa: PLR0913 (settings of the progress bar and of the workers, by name)
        self,
        work: Callable[[Task], Result],
        tasks: Iterable[Task],
        *,
        title: str,
        unit: str,
        total: int,
        length: Callable[[Any], int] = len,
        reads: Sequence[Path] = (),
        small: bool = False,
        gpu: bool = False,
    ) -> Iterator[Iterator[Result]]:
        """Context manager for the results of `work(task)` for each task, in order.

        The next task is taken from `tasks` when a worker is free.

        Args:
            work: The function. The function, its tasks and its results can be pickled. The iterator raises its errors.
            tasks: The tasks.
            title: The title of the progress bar.
            unit: The unit of the progress bar.
            total: The sum of the tasks' lengths.
            length: Returns the length of a task, which the progress bar adds when the task is finished.
            reads: Paths that must exist on every worker of a cluster.
            small: Run in threads of this machine, even with a cluster: the work mostly waits for files or releases the
                GIL.
            gpu: Run on workers of the cluster that have the resource GPU, one task at a time on each. Without a
                cluster, run in this process.

        Yields:
            An iterator over the results.

        Raises:
            MedfaithError: A worker was killed, or the cluster does not answer or has no worker for these tasks.
        """
        lengths: deque[int] = deque()

        def iterate_tasks() -> Iterator[Task]:
            for task in tasks:
                lengths.append(length(task))
                yield task

        if self.dask is not None and not small:
            results = _cluster_results(
                self.dask, partial(_run_checked, work, tuple(reads), version("medfaith")), iterate_tasks(), gpu
            )
        elif self.count == 1 or (gpu and not small):
            results = nullcontext(map(work, iterate_tasks()))
        elif small:
            results = nullcontext(_run_joblib(work, iterate_tasks(), n_jobs=self.count, backend="threading"))
        else:
            results = _process_results(work, iterate_tasks(), self.count)
        with results as finished, Progress(title=title, total=total, unit=unit) as bar:

            def iterate_results() -> Iterator[Result]:
                for result in finished:
                    yield result
                    bar.update(lengths.popleft())

            yield iterate_results()


HERE = Workers()


def _run_joblib(work: Callable[[Any], Any], tasks: Iterable[Any], **settings: Any) -> Any:
    from joblib import Parallel, delayed

    settings |= {"return_as": "generator", "batch_size": 1}
    # The argument is one tuple: joblib would send a larger object to a single worker of the cluster in advance, and
    # lose it with that worker.
    return Parallel(**settings)(delayed(_call_pair)((work, task)) for task in tasks)


def _call_pair(pair: tuple[Callable[[Any], Any], Any]) -> Any:
    work, task = pair
    return work(task)


@contextmanager
def _process_results(work: Callable[[Any], Any], tasks: Iterator[Any], count: int) -> Iterator[Iterator[Any]]:
    from joblib.externals.loky.process_executor import TerminatedWorkerError
    from joblib.parallel import LokyBackend

    with _PROCESS_LOCK, mock.patch.dict(os.environ, PYTHONWARNINGS=_QUIET):
        try:
            with _blocked_interrupts():
                # Level 0 in threads, too: otherwise joblib runs the tasks one by one there, for fear of a fork. This
                # backend does not fork.
                backend = LokyBackend(nesting_level=0, idle_worker_timeout=IDLE)
                results = _run_joblib(work, tasks, n_jobs=count, backend=backend)
            with closing(results):
                yield results
        except TerminatedWorkerError:
            raise MedfaithError(
                "a worker process was ended from outside; nothing was changed\n  what to do: most often memory was "
                f"short: give fewer than --workers {count}, and build again"
            ) from None


@contextmanager
def _blocked_interrupts() -> Iterator[None]:
    """Context manager that blocks Ctrl-C in the processes that are started in it, so that they print no traceback.

    This process receives the Ctrl-C afterwards and ends them.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    from multiprocessing import resource_tracker

    from joblib.externals.loky.backend import resource_tracker as loky_tracker

    for tracker in (resource_tracker, loky_tracker):  # joblib below 1.6 has its own
        tracker.ensure_running()  # start it now: its start unblocks Ctrl-C
    old_mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, old_mask)


@contextmanager
def _cluster_results(
    address: str, work: Callable[[Any], Any], tasks: Iterator[Any], gpu: bool
) -> Iterator[Iterator[Any]]:
    from joblib import parallel_config

    with _cluster_client(address) as client:
        from distributed.scheduler import KilledWorker

        if gpu and not any(worker["resources"].get("GPU") for worker in _list_workers(client)):
            action = "start workers with --resources GPU=1 on machines that have one"
            raise _make_cluster_error(address, "no worker offers the resource GPU", action)
        with parallel_config(backend="dask", client=client, **({"resources": GPU} if gpu else {})):
            results = _run_joblib(work, tasks, pre_dispatch="4*n_jobs")
        try:
            yield results
        except KilledWorker as error:
            problem = f"several workers were killed with the same task ({error})"
            raise _make_cluster_error(address, problem, "give each worker more memory") from None
        except ImportError as error:
            problem, action = f"a worker lacks a library ({error})", "install the same medfaith there, with its extras"
            raise _make_cluster_error(address, problem, action) from None
        except CancelledError:
            raise _make_cluster_error(address, "the scheduler was lost", "start it and build again") from None


@contextmanager
def _cluster_client(address: str) -> Iterator[Any]:
    """Context manager for a client of the scheduler, once the scheduler has a worker."""
    try:
        from distributed import Client
    except ImportError:
        action = "uv pip install 'medfaith[cluster]'"
        raise MedfaithError(f"--dask needs dask.distributed\n  what to do: {action}") from None
    try:
        client = Client(address, timeout=WITHIN, set_as_default=False)
    except (OSError, ValueError) as error:
        raise _make_cluster_error(
            address, f"no scheduler answers ({error})", "check the address, and start it"
        ) from None
    with client:
        try:
            client.wait_for_workers(1, timeout=WITHIN)
        except TimeoutError:
            action = "start workers, wait until the queue runs one, and build again"
            raise _make_cluster_error(address, f"no worker within {WITHIN} s", action) from None
        yield client


def _list_workers(client: Any) -> list[dict[str, Any]]:
    return list(client.scheduler_info(n_workers=-1)["workers"].values())


def _make_cluster_error(address: str, problem: str, action: str) -> MedfaithError:
    return InputError(f"--dask {address}", f"{problem}; nothing was changed", action=action)


def _run_checked(work: Callable[[Task], Result], reads: Sequence[Path], expected_version: str, task: Task) -> Result:
    """Run `work(task)` on a worker of a cluster, which may have joined late.

    Raises:
        InputError: The worker has another version of medfaith, or cannot read a path.
    """
    host = socket.gethostname()
    if (worker_version := version("medfaith")) != expected_version:
        problem = f"has medfaith {worker_version}"
        raise InputError(
            f"the worker on {host}", problem, expected=expected_version, action="install the same version everywhere"
        )
    for path in reads:
        if not path.exists():
            action = "mount it there at the same place, and name it by its whole path"
            raise InputError(path, f"is not there for the worker on {host}", action=action)
    return work(task)
