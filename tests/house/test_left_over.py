"""What killed processes left, others that work in the same place, disks that are full or gone: a message, nothing lost.

tests/house/test_interruptions.py tries the moments of a kill.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from filelock import FileLock

from medfaith.builders.verify import repositories
from medfaith.builders.write import Split
from medfaith.cli import main
from medfaith.eval import builds_in
from medfaith.loaders.atomic import atomic_file, atomic_folder, scratch_folder
from medfaith.loaders.errors import InputError, exit_status
from medfaith.loaders.phantom import rexvqa
from medfaith.logs.files import find_sample_files
from medfaith.tasks.models.answer_store import AnswerStore, StoredReply
from medfaith.tasks.models.chat_form import Reply
from medfaith.tasks.result_saving import saved
from medfaith.tasks.row_store import repository_path
from medfaith.tasks.rows import check_row_ids
from medfaith.tasks.wrong_lung.held_out_patients import digest_of, read_seen
from medfaith.training.options import check_out
from tests.support.builders.toy_build import rows, write
from tests.support.full_disk import no_file_above
from tests.support.reporting.report_logs import answered, write_log

KILLED = """
import os, signal, sys
from pathlib import Path
from medfaith.loaders.atomic import scratch_folder, atomic_file, atomic_folder
with {within}(*map(Path, sys.argv[1:])) as place:
    (place / "half" if place.is_dir() else place).write_text("half")
    os.kill(os.getpid(), signal.SIGKILL)
"""
BUSY = """
import sys
from pathlib import Path
from medfaith.loaders.atomic import scratch_folder, atomic_folder
with {within}(Path(sys.argv[1])):
    print("in", flush=True)
    sys.stdin.read()
"""


def run_killed(within: str, *where: Path) -> None:
    ended = subprocess.run([sys.executable, "-c", KILLED.format(within=within), *map(str, where)], check=False)
    assert ended.returncode == -9


@contextmanager
def run_busy(within: str, where: Path) -> Iterator[None]:
    command = [sys.executable, "-c", BUSY.format(within=within), str(where)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert process.stdout.readline() == "in\n"
        yield
        process.communicate()


def list_names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_what_a_killed_build_left_is_no_build(tmp_path):
    """`eval --rows` does not read it, results do not name it (shards are compared by these), and it is not offered."""
    partial = tmp_path / ".cxr-contrabench-openi.partial"
    partial.mkdir()
    for name in ("build.json", "half.parquet"):
        (partial / name).write_text("{}")
    (tmp_path / "rows.csv").write_text("id\na\n")
    pq.write_table(pa.table({"id": ["a"]}), tmp_path / "whole.parquet")
    check_row_ids(tmp_path / "rows.csv", str(tmp_path))
    assert builds_in(str(tmp_path)) == {}
    with pytest.raises(InputError, match="but no build"):
        repository_path("cxr-contrabench-openi", str(tmp_path))
    with pytest.raises(InputError, match="holds no build"):
        repositories(tmp_path)


def test_synthetic_sources_are_written_all_or_none(tmp_path, monkeypatch):
    arguments = ["phantom", str(tmp_path / "new"), "--source", "chexstruct", "--source", "rexvqa"]

    def full(folder: Path, *, seed: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(rexvqa, "write", full)
        assert main(arguments) == 2
    assert not list_names(tmp_path)
    assert main(arguments) == 0
    assert list_names(tmp_path / "new") == ["chexstruct", "rexvqa"]


def test_the_folder_that_a_command_runs_in_is_not_replaced(tmp_path, monkeypatch):
    (tmp_path / "mine").touch()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="this command runs in it"), atomic_folder(Path()):
        pass
    assert list_names(tmp_path) == ["mine"]


def test_the_next_writer_of_a_file_or_folder_removes_what_a_killed_one_left(tmp_path):
    run_killed("atomic_file", tmp_path / "file")
    run_killed("atomic_folder", tmp_path / "folder")
    assert list_names(tmp_path) == [".file.lock", ".file.partial", ".folder.lock", ".folder.partial"]
    with atomic_file(tmp_path / "file") as partial:
        partial.write_text("whole")
    with atomic_folder(tmp_path / "folder") as partial:
        (partial / "whole").touch()
    assert list_names(tmp_path) == ["file", "folder"]
    assert list_names(tmp_path / "folder") == ["whole"]


def test_a_kill_between_two_renames_is_mended(tmp_path):
    """Network disks cannot exchange two folders in one step."""
    (tmp_path / ".folder.old").mkdir()
    (tmp_path / ".folder.old" / "earlier").touch()
    with pytest.raises(OSError, match="full"), atomic_folder(tmp_path / "folder"):
        raise OSError("the disk is full")
    assert list_names(tmp_path) == ["folder"]
    assert list_names(tmp_path / "folder") == ["earlier"]


def test_a_folder_that_another_process_writes_is_refused_and_left_to_it(tmp_path):
    with run_busy("atomic_folder", tmp_path / "folder"):
        refused = pytest.raises(InputError, match="is being written by another process; nothing was changed")
        with refused, atomic_folder(tmp_path / "folder"):
            pass
        assert (tmp_path / ".folder.partial").is_dir()
    assert list_names(tmp_path) == ["folder"]


def test_temporary_folders_of_killed_processes_go_and_those_of_others_stay(tmp_path):
    (tmp_path / "precious").mkdir()
    (tmp_path / ".medfaith-link.partial").symlink_to(tmp_path / "precious")
    (tmp_path / ".medfaith-new.partial").mkdir()  # killed before it had a lock
    run_killed("scratch_folder", tmp_path)
    assert len(list_names(tmp_path)) == 3
    with run_busy("scratch_folder", tmp_path):
        with scratch_folder(tmp_path) as folder:
            (folder / "file").touch()
            assert len(list_names(tmp_path)) == 4
        assert len(list_names(tmp_path)) == 3
    assert list_names(tmp_path) == [".medfaith-link.partial", "precious"]


@pytest.mark.parametrize("keeps_lock", [False, True])
def test_a_temporary_folder_that_another_process_took_for_a_left_one_is_made_anew(tmp_path, monkeypatch, keeps_lock):
    original_folder, lock = tempfile.TemporaryDirectory, FileLock.acquire
    removed = []

    def take(folder: str) -> None:
        if not removed:
            removed.append(folder)
            shutil.rmtree(folder)

    def before(*args: Any, **kwargs: Any) -> Any:
        folder = original_folder(*args, **kwargs)
        take(folder.name)
        return folder

    def behind(self: FileLock, *args: Any, **kwargs: Any) -> Any:
        held = lock(self, *args, **kwargs)
        take(str(Path(self.lock_file).parent))
        return held

    if keeps_lock:
        monkeypatch.setattr(FileLock, "acquire", behind)
    else:
        monkeypatch.setattr(tempfile, "TemporaryDirectory", before)
    with scratch_folder(tmp_path) as folder:
        (folder / "file").touch()
    assert (len(removed), list_names(tmp_path)) == (1, [])


def test_a_temporary_folder_that_another_process_locks_during_its_removal_is_left_to_it(tmp_path, monkeypatch):
    remove, locks = os.rmdir, []

    def lock_first(path: Any, **kwargs: Any) -> None:
        if str(path).endswith(".partial"):
            locks.append(Path(path) / ".lock")
            locks[-1].touch()
        remove(path, **kwargs)

    with scratch_folder(tmp_path) as folder:
        (folder / "file").touch()
        monkeypatch.setattr(os, "rmdir", lock_first)
    monkeypatch.undo()
    assert [path.exists() for path in locks] == [True]
    with scratch_folder(tmp_path):
        assert len(list_names(tmp_path)) == 1


def test_logs_that_are_being_written_are_no_results(tmp_path):
    complete_log = write_log(tmp_path / "task" / "none", "m", answered("chexpert_presence", 3, 2, 1))
    write_log(tmp_path / "task" / ".blank.partial", "m", answered("chexpert_presence", 3, 2, 1))
    sample_files, _ = find_sample_files([tmp_path])
    assert [sample_file.path for sample_file in sample_files] == [complete_log]


class _Clock(datetime):
    """Clock that returns the same moment twice, like one that was set back."""

    moments = [datetime(2026, 1, 2), datetime(2026, 1, 2), datetime(2026, 1, 3)]  # noqa: RUF012

    @classmethod
    def now(cls, tz: Any = None) -> Any:
        return cls.moments.pop(0)


def _save(folder: Path, answer: str, *, stop: bool = False) -> list[Path]:
    from lm_eval.loggers import EvaluationTracker

    with saved(folder) as places:
        tracker = EvaluationTracker(output_path=str(folder))
        tracker.save_results_aggregated(results={"said": answer}, samples={"t": []})
        if stop:
            raise KeyboardInterrupt
        tracker.save_results_samples(task_name="t", samples=[])
    return places


def test_a_run_that_ends_at_the_moment_of_another_does_not_write_over_it(tmp_path, monkeypatch):
    monkeypatch.setattr("lm_eval.loggers.evaluation_tracker.datetime", _Clock)
    places = [*_save(tmp_path, "first"), *_save(tmp_path, "second")]
    assert [path.name.split("_")[-1][:10] for path in places] == ["2026-01-02"] * 2 + ["2026-01-03"] * 2
    assert [json.loads(path.read_text())["said"] for path in places[::2]] == ["first", "second"]


def test_results_without_their_sample_logs_take_no_place(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        _save(tmp_path, "half", stop=True)
    assert not list_names(tmp_path)


@pytest.mark.parametrize(
    ("limit", "path", "message"),
    [(None, "folder", "unable to open database file"), (20_000, "store", r"disk|full|I/O")],
)
def test_a_store_of_answers_that_cannot_be_written_says_so(limit, path, message, tmp_path):
    (tmp_path / "folder").mkdir()
    with AnswerStore(tmp_path / "store") as store:
        store.put(StoredReply("first", Reply("answered", "A"), "t", "1"))
    many = [StoredReply(str(n), Reply("answered", "A" * 500), "t", str(n)) for n in range(500)]
    refused = pytest.raises(InputError, match=f"cannot be used .*({message})")
    with no_file_above(limit or 2**40), refused, AnswerStore(tmp_path / path) as store:
        store.put(*many)
    with sqlite3.connect(tmp_path / "store") as database:
        assert database.execute("SELECT key FROM answers").fetchall() == [("first",)]


def test_a_store_of_answers_that_is_damaged_says_so(tmp_path):
    """The damage is in the last half, which opening does not read."""
    entries = [StoredReply(f"{n:064}", Reply("answered", "A" * 200), "t", str(n)) for n in range(200)]
    with AnswerStore(tmp_path / "store") as store:
        store.put(*entries)
    content = (tmp_path / "store").read_bytes()
    (tmp_path / "store").write_bytes(content[: len(content) // 2].ljust(len(content), b"7"))
    uses = (
        lambda store: store.get(entries[-1].key),
        lambda store: store.put(*entries),
        lambda store: store.mean_tokens(),
    )
    for use in uses:
        with AnswerStore(tmp_path / "store") as store, pytest.raises(InputError, match="is no store of answers"):
            use(store)


def test_a_record_beside_another_checkpoint_is_refused(tmp_path):
    (tmp_path / "m.ckpt").write_text("earlier")
    record = {"seen": ["p1"], "checkpoint": digest_of(tmp_path / "m.ckpt")}
    (tmp_path / "m.ckpt.json").write_text(json.dumps(record))
    assert read_seen(tmp_path / "m.ckpt.json") == {"p1"}
    (tmp_path / "m.ckpt").write_text("other")
    with pytest.raises(InputError, match="is the record of another checkpoint"):
        read_seen(tmp_path / "m.ckpt.json")


@pytest.mark.parametrize(("rank", "stays"), [(8, False), (4, True)])
def test_checkpoints_go_with_the_training_that_ended_and_no_other(rank, stays, tmp_path):
    step = tmp_path / "adapter.checkpoints" / "checkpoint-2"
    for folder, name, content in (
        (tmp_path / "adapter", "medfaith.json", {"rank": 8, "steps": 2}),
        (step.parent, "arguments.json", {"rank": rank, "steps": None}),
        (step, "trainer_state.json", {}),
    ):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(json.dumps(content))
    (lock := tmp_path / ".adapter.lock").touch()
    with pytest.raises(InputError, match="is there already"):
        check_out(tmp_path / "adapter")
    assert (step.exists(), lock.exists()) == (stays, False)


@pytest.mark.parametrize("number", [errno.ESTALE, errno.EIO, errno.ENOTCONN])
def test_a_source_that_is_gone_in_the_middle_of_a_build_is_named(number, tmp_path):
    def gone() -> pa.Table:
        raise OSError(number, os.strerror(number), "/share/train.csv")

    splits = [Split("c", "train", lambda: rows(3)), Split("c", "test", gone)]
    with pytest.raises(InputError, match=r"^/share/train.csv: cannot be read .*nothing was changed(.|\n)*still there"):
        write(tmp_path, *splits)
    assert not list_names(tmp_path)


@pytest.mark.parametrize("library", ["torch", "safetensors"])
def test_a_full_disk_is_told_where_a_library_raises_no_error_of_the_system(library, tmp_path, capsys):
    import torch
    from safetensors.torch import save_file

    weights = {"w": torch.zeros(10_000)}
    save = {"torch": torch.save, "safetensors": save_file}[library]
    with no_file_above(4096):
        assert exit_status(lambda: save(weights, tmp_path / "weights")) == 2
    assert "has space left" in capsys.readouterr().err


@pytest.mark.parametrize("number", [errno.ESTALE, errno.ENOSPC])
def test_other_errors_of_disks_say_what_to_look_for(number, capsys):
    def job() -> None:
        raise OSError(number, os.strerror(number), "/share/x")

    assert exit_status(job) == 2
    output = capsys.readouterr().err
    assert output.startswith(f"medfaith: /share/x: {os.strerror(number)}\n  what to do: check that ")
    assert ("still there" in output) == (number == errno.ESTALE)
