"""The command as a user runs it: what it prints, and how it refuses bad input."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from medfaith.cli import main


@pytest.fixture(autouse=True)
def _own_configuration(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


def digests(folder: Path) -> dict[str, str]:
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.suffix != ".lock"]
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def root_arguments(roots: dict[str, Path]) -> list[str]:
    return [part for name, root in roots.items() for part in ("--root", f"{name}={root}")]


def test_sources_lists_every_source_and_how_to_get_the_missing_ones(phantom_roots, capsys):
    assert main(["sources", "--root", f"chexpert={phantom_roots['chexpert']}", "--root", "openi=torchxrayvision"]) == 0
    out = capsys.readouterr().out
    lines = {line.split()[0]: line for line in out.splitlines() if line}
    assert lines["chexpert"].split()[1] == "found"
    assert lines["openi"].split()[1] == "incomplete"
    assert lines["mimic_cxr"].split()[1] == "missing"
    assert "how to get it" in out
    assert "CITI" in out


def test_build_then_verify(phantom_roots, tmp_path, capsys):
    out = tmp_path / "data"
    assert main(["build", "cxr-contrabench", *root_arguments(phantom_roots), "--out", str(out)]) == 0
    assert main(["verify", str(out)]) == 0
    printed = capsys.readouterr().out
    assert "chexpert_positive_only" in printed
    assert "FAULTY" not in printed
    assert sorted(p.name for p in out.iterdir() if not p.name.startswith(".")) == [
        "cxr-contrabench-chexpert",
        "cxr-contrabench-openi",
    ]
    record = json.loads((out / "cxr-contrabench-chexpert" / "build.json").read_text())
    assert set(record["sources"]["chexpert"]["files"]) == {"train.csv", "valid.csv"}
    assert str(tmp_path) not in json.dumps(record)  # no absolute path
    next(out.glob("cxr-contrabench-chexpert/chexpert_absence/train-*.parquet")).write_bytes(b"PAR1")
    assert main(["verify", str(out)]) == 2


def test_bytes_are_the_same_for_every_number_of_workers_and_root_layout(phantom_roots, tmp_path):
    def build(name: str, roots: dict[str, Path], *arguments: str) -> dict[str, str]:
        out = tmp_path / name
        assert main(["build", "cxr-contrabench", *root_arguments(roots), "--out", str(out), *arguments]) == 0
        return digests(out)

    one = build("one", phantom_roots)
    assert build("three", phantom_roots, "--workers", "3") == one
    inner = phantom_roots | {"chexpert": phantom_roots["chexpert"] / "CheXpert-v1.0-small"}
    rows = [name for name in one if name.endswith(".parquet")]
    assert {n: d for n, d in build("inner", inner).items() if n in rows} == {n: one[n] for n in rows}
    other = build("seeded", phantom_roots, "--seed", "1")
    assert {n for n in rows if other[n] != one[n]} >= {n for n in rows if "presence" in n}


def test_one_config_and_other_words(phantom_roots, tmp_path):
    from datasets import load_dataset

    arguments = ["--config", "chexpert_presence", "--negation-form", "clear_of", "--question-form", "p2"]
    out = tmp_path / "data"
    layout = ["--layout", "shuffled"]
    assert (
        main(["build", "cxr-contrabench", *root_arguments(phantom_roots), "--out", str(out), *arguments, *layout]) == 0
    )
    rows = load_dataset(str(out / "cxr-contrabench-chexpert"), "chexpert_presence", split="train").to_list()
    assert all(row["options"][row["negated"]].startswith("Clear of ") for row in rows)
    assert len({row["answer"] for row in rows}) == 3
    assert not (out / "cxr-contrabench-openi").exists()


HEADER = (
    "Path,Sex,Age,Frontal/Lateral,AP/PA,No Finding,Enlarged Cardiomediastinum,Cardiomegaly,Lung Opacity,Lung Lesion,"
    "Edema,Consolidation,Pneumonia,Atelectasis,Pneumothorax,Pleural Effusion,Pleural Other,Fracture,Support Devices"
)
ROW = "CheXpert-v1.0-small/train/patient{:05d}/study1/view1_frontal.jpg,Female,68,Frontal,AP" + ",{}" + ",1.0" * 13


def _csv(folder: Path, text: str) -> None:
    (folder / "train.csv").write_text(text)


def _truncated_gz(folder: Path) -> None:
    data = gzip.compress("\n".join([HEADER, *(ROW.format(i, "1.0") for i in range(3000))]).encode())
    (folder / "train.csv.gz").write_bytes(data[: len(data) // 2])


def _xml(folder: Path, text: str) -> None:
    (folder / "ecgen-radiology").mkdir()
    (folder / "ecgen-radiology" / "1.xml").write_text(text)


def _truncated_tgz(folder: Path) -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for i in range(50):
            data = os.urandom(500)
            entry = tarfile.TarInfo(f"ecgen-radiology/{i}.xml")
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    (folder / "NLMCXR_reports.tgz").write_bytes(packed.getvalue()[:5000])


BAD_INPUT = {
    "a csv lacking a column": (
        "chexpert",
        lambda f: _csv(f, HEADER.replace(",Edema", "") + "\n"),
        ["train.csv", "'Edema'"],
    ),
    "a label outside the four": (
        "chexpert",
        lambda f: _csv(f, "\n".join([HEADER, ROW.format(1, "1.0"), ROW.format(2, "3")])),
        ["train.csv", "row 2", "'No Finding'", "1.0, 0.0, -1.0 or blank"],
    ),
    "a truncated gz": ("chexpert", _truncated_gz, ["train.csv.gz", "download it again"]),
    "a path in no known layout": (
        "chexpert",
        lambda f: _csv(f, "\n".join([HEADER, ROW.format(1, "1.0").replace("view1_frontal", "scan")])),
        ["train.csv", "row 1", "'Path'", "either prefix, or none"],
    ),
    "duplicate rows": (
        "chexpert",
        lambda f: _csv(f, "\n".join([HEADER, ROW.format(1, "1.0"), ROW.format(2, "1.0"), ROW.format(1, "1.0")])),
        ["train.csv", "row 3", "repeats row 1"],
    ),
    "broken XML": ("openi", lambda f: _xml(f, "<eCitation><uId id="), ["1.xml"]),
    "a truncated tgz": ("openi", _truncated_tgz, ["NLMCXR_reports.tgz"]),
    "an empty CheXpert folder": ("chexpert", lambda f: None, ["holds no CheXpert label file"]),
    "an empty OpenI folder": ("openi", lambda f: None, ["what to do"]),
}


@pytest.mark.parametrize("fault", BAD_INPUT)
def test_bad_input_is_explained_with_status_2_and_nothing_is_written(fault, phantom_roots, tmp_path, capsys):
    source_id, make, words = BAD_INPUT[fault]
    folder, out = tmp_path / "source", tmp_path / "out"
    folder.mkdir()
    make(folder)
    roots = phantom_roots | {source_id: folder}
    assert main(["build", "cxr-contrabench", *root_arguments(roots), "--out", str(out)]) == 2
    error = capsys.readouterr().err
    for word in [*words, "medfaith: "]:
        assert word in error
    assert "Traceback" not in error
    assert not out.exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["build", "cxr-contrabench", "--config", "nothing"], ["--config nothing", "chexpert_presence"]),
        (["build", "cxr-contrabench", "--config", "chexpert_presence"], ["how to get it", "--root chexpert=PATH"]),
        (["build", "cxr-contrabench"], ["needs at least one of its sources", "Open-i"]),
        (["build", "cxr-contrabench", "--root", "chexpert=absent"], ["absent does not exist", "Stanford"]),
        (["build", "cxr-contrabench", "--root", "x=y"], ["no such source"]),
        (["build", "cxr-contrabench", "--negation-form", "never"], ["--negation-form never", "canonical_no"]),
        (["build", "cxr-contrabench", "--layout", "none"], ["--layout none", "shuffled"]),
        (["verify", "absent"], ["absent", "is not a folder"]),
        (["verify", "."], ["holds no build"]),
    ],
)
def test_a_wrong_argument_is_explained_with_status_2(arguments, words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    error = capsys.readouterr().err
    for word in words:
        assert word in error


@pytest.mark.parametrize(
    "arguments", [["nothing"], ["build", "nothing"], ["build", "cxr-contrabench", "--workers", "0"], ["verify"]]
)
def test_argparse_refuses_with_status_2(arguments):
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    assert stop.value.code == 2


def test_tasks_prints_the_include_path(capsys):
    assert main(["tasks"]) == 0
    assert (Path(capsys.readouterr().out.strip()) / "contrabench" / "adapter.py").is_file()


def test_no_progress_bar_in_a_pipe(phantom_roots, tmp_path):
    command = [sys.executable, "-m", "medfaith", "build", "cxr-contrabench", *root_arguments(phantom_roots)]
    result = subprocess.run([*command, "--out", str(tmp_path / "x")], capture_output=True, text=True, check=True)
    assert result.stderr == ""


def test_a_folder_of_xml_and_the_archive_give_the_same_rows(phantom_roots, tmp_path):
    archive = tmp_path / "packed" / "NLMCXR_reports.tgz"
    archive.parent.mkdir()
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(phantom_roots["openi"] / "ecgen-radiology", "ecgen-radiology")
    for name, root in (("folder", phantom_roots["openi"]), ("archive", archive)):
        assert main(["build", "cxr-contrabench", "--root", f"openi={root}", "--out", str(tmp_path / name)]) == 0
    rows = "cxr-contrabench-openi/openi_report_absence/test-00000-of-00001.parquet"
    assert digests(tmp_path / "folder")[rows] == digests(tmp_path / "archive")[rows]
    shutil.rmtree(tmp_path / "folder")


def test_quickstart_leaves_a_foreign_folder_alone(tmp_path, capsys):
    mine = tmp_path / "phantom" / "mine.txt"
    mine.parent.mkdir()
    mine.touch()
    assert main(["quickstart", "--out", str(tmp_path)]) == 2
    assert "choose another --out" in capsys.readouterr().err
    assert mine.exists()


def test_a_folder_that_cannot_be_written_is_explained(tmp_path, capsys):
    (tmp_path / "file").touch()
    assert main(["quickstart", "--out", str(tmp_path / "file")]) == 2
    assert "file" in capsys.readouterr().err
