"""A run that cannot save its results fails and leaves no partial file."""

from __future__ import annotations

import pytest
from datasets import config

from medfaith.cli import main
from medfaith.loaders.errors import InputError, MedfaithError
from medfaith.tasks.row_store import read
from medfaith.tasks.run import run_baselines
from tests.support.full_disk import no_file_above

TASK = "medfaith_contrabench_chexpert_presence"


@pytest.mark.parametrize(("n_bytes", "stays"), [(100, []), (60_000, ["results"])])
def test_eval_fails_where_its_results_cannot_be_saved(n_bytes, stays, phantom_build, tmp_path, capsys):
    read("cxr-contrabench-chexpert", "chexpert_presence", "validation", str(phantom_build))  # into the library's cache
    arguments = ["--model", "oracle", "--tasks", TASK, "--output_path", str(tmp_path), "--log_samples"]
    with no_file_above(n_bytes):
        assert main(["eval", "--data", str(phantom_build), *arguments]) == 2
    error = capsys.readouterr().err
    assert f"medfaith: {tmp_path}: the results could not all be saved: File too large\n  what to do: " in error
    assert [path.name.split("_")[0] for path in tmp_path.rglob("*.json*")] == stays
    assert main(["eval", "--data", str(phantom_build), *arguments]) == 0
    assert "Unread: 0 of" in capsys.readouterr().out


def test_a_folder_that_cannot_be_written_is_told_before_a_model_is_asked(phantom_build, tmp_path, capsys):
    (tmp_path / "file").touch()
    arguments = ["--model", "oracle", "--tasks", TASK, "--output_path", str(tmp_path / "file/out"), "--log_samples"]
    assert main(["eval", "--data", str(phantom_build), *arguments]) == 2
    error = capsys.readouterr().err
    assert f"{tmp_path}/file/out: Not a directory\n  what to do: " in error
    assert "Requesting" not in error


def test_a_full_cache_of_rows_is_told_as_such(phantom_build, tmp_path, monkeypatch):
    monkeypatch.setattr(config, "HF_DATASETS_CACHE", tmp_path / "cache")
    with no_file_above(100), pytest.raises(InputError, match=r"/cache: .*File too large\n  what to do: make space"):
        read("cxr-contrabench-chexpert", "chexpert_presence", "validation", str(phantom_build))


def test_logs_of_baselines_are_saved_or_told(phantom_build, tmp_path):
    models = {"oracle": ("oracle", {})}
    with no_file_above(60_000), pytest.raises(MedfaithError, match="could not all be saved: File too large"):
        run_baselines(TASK, {"data": str(phantom_build)}, models, tmp_path)
    assert [path.name.split("_")[0] for path in tmp_path.rglob("*.json*")] == ["results"]
