"""Odd folders of every source: nested, linked, doubled, renamed or packed. No label of them is lost in silence."""

from __future__ import annotations

import contextlib
import gzip
import re
from pathlib import Path

import pytest

from medfaith.builders import cxr_contrabench
from medfaith.loaders import chest_imagenome, cholec80_boxes, cholect45, cholect50, layouts, openi, sources
from medfaith.loaders.errors import InputError
from tests.support.loaders.odd_folders import COUNTERS, iterate_odd_folders, nest
from tests.support.tiers import keep_quick

SLOW = ("cholect45", "chexlocalize", "chest_imagenome")  # test_damage.py damages a file of each


@pytest.mark.parametrize("source_id", keep_quick(COUNTERS, lambda source_id: source_id not in SLOW))
def test_no_label_of_an_odd_folder_is_lost_in_silence(copied: dict[str, Path], tmp_path: Path, source_id: str):
    """Each folder has all labels: the reader finds all of them, or names the file or folder that it cannot use."""
    count = COUNTERS[source_id]
    counts = count(copied[source_id])
    assert all(counts.values())
    lost, n_read = {}, 0
    for name, root in iterate_odd_folders(copied[source_id], tmp_path):
        try:
            layouts.check_root(source_id, root)
            odd_counts = count(root)
        except InputError:
            continue
        n_read += odd_counts == counts
        if odd_counts != counts:
            lost[name] = odd_counts
    assert lost == {}
    assert n_read >= 3


@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("source_id", ["chexpert", "chexlocalize", "rexvqa"])
def test_a_build_names_the_folder_of_a_copy_that_is_deeper(copied: dict[str, Path], tmp_path: Path, source_id, depth):
    root = nest(copied[source_id], tmp_path / "root", depth)
    folder = root.joinpath(*["download"] * depth)
    with pytest.raises(InputError, match=f"--root {source_id}={re.escape(str(folder))}$"):
        cxr_contrabench.build({source_id: root}, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("source_id", "name", "find"),
    [
        ("chexpert", "*/valid.csv", lambda root: layouts.find_label_files("chexpert", root)),
        ("cholec80_boxes", "ROI_Labels.csv", cholec80_boxes.find_label_files),
        ("chest_imagenome", "gold_dataset/gold_all*.txt", chest_imagenome.find_label_files),
        ("cholect45", "triplet/*.txt", cholect45.videos),
        ("cholect50", "labels/*.json", cholect50.videos),
        ("openi", "ecgen-radiology/*.xml", openi.find_label_files),
    ],
)
@pytest.mark.parametrize("ending", [".crdownload", ".part"])
def test_an_unfinished_download_is_not_taken_for_a_missing_file(
    copied: dict[str, Path], source_id: str, name: str, find, ending: str
):
    file = min(copied[source_id].glob(name))
    partial = file.rename(file.with_name(file.name + ending))
    try:
        with pytest.raises(InputError, match=f"{re.escape(partial.name)}: is an unfinished download"):
            find(copied[source_id])
    finally:
        partial.rename(file)


@pytest.mark.parametrize(
    ("packed", "is_refused"),
    [
        (gzip.compress(b"a,b\n1,2\n"), False),
        (gzip.compress(b"a,b\n1,2\n3,4\n"), True),
        (b"\x1f\x8b", True),
        (b"a,b", False),
    ],
    ids=["equal", "larger", "cut", "unpacked by a browser"],
)
@pytest.mark.parametrize(("source_id", "name"), [("chexpert", "train.csv"), ("mimic_cxr", "mimic-cxr-2.0.0-split.csv")])
def test_a_table_and_its_packed_copy_are_equal(tmp_path: Path, source_id: str, name: str, packed: bytes, is_refused):
    (tmp_path / name).write_bytes(b"a,b\n1,2\n")
    (tmp_path / f"{name}.gz").write_bytes(packed)
    refusal = pytest.raises(InputError, match=rf"{re.escape(name)}\.gz: is there unpacked, too")
    with refusal if is_refused else contextlib.nullcontext():
        assert layouts.find_label_files(source_id, tmp_path)


@pytest.mark.parametrize("name", ["NLMCXR_reports.tgz.crdownload", "NLMCXR_reports (1).tgz", "indiana_reports.csv.1"])
def test_almost_the_reports_of_openi_are_named(tmp_path: Path, name: str):
    (tmp_path / name).touch()
    with pytest.raises(InputError, match=re.escape(name)):
        openi.find_label_files(tmp_path)


DEEP = "physionet.org/files/mimic-cxr-jpg/2.1.0"


@pytest.mark.parametrize(
    ("files", "root", "named"),
    [
        ([f"{DEEP}/mimic-cxr-2.0.0-split.csv.gz"], "", DEEP),
        ([f"{DEEP}/mimic-cxr-2.0.0-split.csv.gz"], "physionet.org", DEEP),
        (["c/mimic-cxr-2.0.0-split.csv.gz", "__MACOSX/._mimic-cxr-2.0.0-split.csv.gz"], "", "c"),
        (["c/mimic-cxr-2.0.0-split.csv.gz", "__MACOSX/mimic-cxr-2.0.0-split.csv.gz"], "", "c"),
        (["c/mimic-cxr-2.0.0-split.csv.gz", "c/files/p10/s.txt"], "c/files", "c"),
        (["a/files/p10/s.txt", "c/mimic-cxr-2.0.0-split.csv.gz", "c/files/p10/s.txt"], "", "c"),  # a: the reports
        (["c/mimic-cxr-2.0.0-split.csv.gz", "c/files/p10/p100/s.txt"], "c/files/p10", "c"),
    ],
)
def test_the_folder_of_the_copy_is_named_wherever_it_is(tmp_path: Path, files: list[str], root: str, named: str):
    for name in files:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    with pytest.raises(InputError, match=f"--root mimic_cxr={re.escape(str(tmp_path / named))}$"):
        layouts.check_root("mimic_cxr", tmp_path / root)


def test_all_copies_below_the_root_are_named(tmp_path: Path):
    for version in ("2.0.0", "2.1.0"):
        (tmp_path / version).mkdir()
        (tmp_path / version / "mimic-cxr-2.0.0-split.csv.gz").touch()
    with pytest.raises(
        InputError, match=r"but 2\.0\.0, 2\.1\.0 do\n[\s\S]*name one of them: --root mimic_cxr=.*2\.0\.0$"
    ):
        layouts.check_root("mimic_cxr", tmp_path)


@pytest.mark.parametrize(
    ("files", "named"),
    [
        (["CheXpert-v1.0/b/train/patient1/x", "CheXpert-v1.0/b/train.csv"], "CheXpert-v1.0/b"),
        (["CheXpert-v1.0/train/patient1/x", "labels/train.csv"], None),  # it lacks the images
        (["train.csv", "full/train.csv", "full/valid.csv", "full/train/patient1/x"], None),  # a subset of one's own
    ],
)
def test_a_folder_of_images_alone_is_no_copy(tmp_path: Path, files: list[str], named: str | None):
    (tmp_path / "CheXpert/train/patient1").mkdir(parents=True)
    for name in files:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    refusal = pytest.raises(InputError, match=f"--root chexpert={re.escape(str(tmp_path / (named or '')))}$")
    with refusal if named else contextlib.nullcontext():
        layouts.check_root("chexpert", tmp_path)


@pytest.mark.parametrize("name", ["ecgen-radiology/._1.xml", "__MACOSX/ecgen-radiology/1.xml"])
def test_what_macos_adds_to_archives_is_no_report(tmp_path: Path, name: str):
    (tmp_path / name).parent.mkdir(parents=True)
    (tmp_path / name).touch()
    assert len(sources.status("openi", {"openi": tmp_path}).missing) == 2
