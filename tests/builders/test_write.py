"""Writing is atomic and deterministic; verify finds changes."""

from __future__ import annotations

import errno
import gzip
import json
import re
import shutil
import signal
import subprocess
import sys
import tarfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from datasets import load_dataset
from hypothesis import given
from hypothesis import strategies as st

from medfaith.builders import registry
from medfaith.builders.row_digest import compute_rowset_sha256, value_counts
from medfaith.builders.verify import repositories, verify_repository
from medfaith.builders.write import Split, hash_files, write_split
from medfaith.loaders.errors import InputError, MedfaithError
from medfaith.printing import verdict_table
from tests.support.builders.files import digests, record_of
from tests.support.builders.toy_build import FAMILY, FEATURES, RECORD, rows, write
from tests.support.full_disk import no_file_above
from tests.support.tiers import choose_size

ROOT = Path(__file__).parents[2]


def make_broken_rows() -> pa.Table:
    """Build rows whose ids are not UTF-8."""
    ids = pa.Array.from_buffers(pa.string(), 5, pa.array([b"\xff"] * 5).buffers())
    return rows(5).set_column(0, FEATURES.arrow_schema.field("id"), ids)


@pytest.fixture
def folder(tmp_path) -> Path:
    """A build of one split."""
    return write(tmp_path, Split("c", "train", lambda: rows(5)))


def test_what_is_written_loads_and_verifies(tmp_path):
    folder = write(tmp_path, Split("c", "train", lambda: rows(5)), Split("c", "test", lambda: rows(2, 5)))
    loaded = load_dataset(str(folder), "c")
    assert {name: split.num_rows for name, split in loaded.items()} == {"train": 5, "test": 2}
    assert loaded["train"].features == FEATURES
    assert loaded["train"][2] == {"id": "row2", "n": 2, "images": [{"key": "a/2.png"}] * 2}
    verdicts = verify_repository(folder, lambda config: FAMILY, [])
    assert [(v.split, v.summary["rows"], v.problems, v.reference) for v in verdicts] == [
        ("train", 5, (), "none"),
        ("test", 2, (), "none"),
    ]
    assert record_of(folder)["splits"]["c/train"]["counts"]["n"] == {"0": 2, "1": 2, "2": 1}


def test_load_dataset_gives_the_rows_of_the_newest_build(tmp_path):
    """The cache of datasets is keyed by the README header; equal row and byte counts must not hide a change."""
    for start in (0, 3):
        folder = write(tmp_path, Split("c", "train", lambda start=start: rows(3, start)))
        assert load_dataset(str(folder), "c", split="train")["id"][0] == f"row{start}"


def test_bytes_do_not_depend_on_the_number_of_workers(tmp_path):
    splits = [
        Split(c, s, lambda k=k: rows(1000, k))
        for k, (c, s) in enumerate([("a", "train"), ("a", "test"), ("b", "test")])
    ]
    once = digests(write(tmp_path / "1", *splits))
    assert digests(write(tmp_path / "2", *splits, workers=3)) == once
    assert digests(write(tmp_path / "1", *splits, workers=2)) == once  # in place of an older build


@pytest.mark.parametrize("sizes", [(7,), (3, 0, 4), (1,) * 9, (6, 6), (30, 1)])
def test_rows_in_parts_give_the_files_and_the_record_of_all_rows_at_once(tmp_path, monkeypatch, sizes):
    monkeypatch.setattr("medfaith.builders.write.ROWS_PER_GROUP", 3)
    monkeypatch.setattr("medfaith.builders.write.ROWS_PER_FILE", 6)
    starts = [sum(sizes[:i]) for i in range(len(sizes))]
    all_rows = rows(sum(sizes))
    folders = [
        write(tmp_path / "whole", Split("c", "train", lambda: all_rows)),
        write(tmp_path / "parts", Split("c", "train", lambda: map(rows, sizes, starts))),
    ]
    assert len({json.dumps(digests(folder), sort_keys=True) for folder in folders}) == 1
    files = sorted(folders[1].glob("c/*"))
    assert [file.name for file in files] == [f"train-{i:05d}-of-{len(files):05d}.parquet" for i in range(len(files))]
    for i, file in enumerate(files):
        pq.write_table(
            all_rows.slice(6 * i, 6), separate := tmp_path / "alone", row_group_size=3, write_page_index=True
        )
        assert file.read_bytes() == separate.read_bytes()


@pytest.mark.parametrize("no_rows", [lambda: rows(0), lambda: iter([rows(0)]), lambda: iter([])])
def test_a_split_without_rows_has_no_file_and_the_others_load(tmp_path, no_rows):
    """With an empty Parquet file, `load_dataset` would fail for all splits of the config."""
    empty = [Split("c", "test", no_rows), Split("d", "train", no_rows)]
    folder = write(tmp_path, Split("c", "train", lambda: rows(3)), *empty)
    assert record_of(folder)["splits"].keys() == {"c/train"}
    assert sorted(path.name for path in folder.iterdir()) == ["README.md", "build.json", "c"]
    assert load_dataset(str(folder), "c").num_rows == {"train": 3}
    before = digests(folder)
    with pytest.raises(InputError, match="no row could be made"):
        write(tmp_path, *empty)
    assert digests(folder) == before


def test_pages_end_where_they_are_full_and_not_where_parts_end(tmp_path, monkeypatch):
    monkeypatch.setattr("medfaith.builders.write.ROWS_PER_GROUP", 3000)
    table = pa.table({"text": [f"question {i} " * 40 for i in range(7000)]})  # exceeds the page size in each group
    for name, size in (("whole", 7000), ("parts", 1000)):
        (tmp_path / name).mkdir()
        write_split(tmp_path / name, "c", "train", [table.slice(i, size) for i in range(0, 7000, size)])
    assert digests(tmp_path / "parts") == digests(tmp_path / "whole")


def test_a_failing_split_leaves_the_old_build_and_no_trace(folder, tmp_path):
    before = digests(folder)

    def raise_error() -> pa.Table:
        raise RuntimeError("in the middle")

    with pytest.raises(RuntimeError, match="in the middle"):
        write(tmp_path, Split("c", "train", lambda: rows(9)), Split("c", "test", raise_error))
    assert digests(folder) == before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["toy-none"]


LOCKED = """
import time
from pathlib import Path
from medfaith.loaders.atomic import atomic_folder
with atomic_folder(Path({out!r}) / "toy-none") as folder:
    (folder / "c").mkdir()
    (folder / "c" / "train-00000-of-00001.parquet").write_bytes(b"PAR1")
    print("writing", flush=True)
    time.sleep(60)
"""
KILLED = """
import time
from pathlib import Path
from medfaith.builders.write import Split
from tests.support.builders.toy_build import rows, write
def slow():
    print("writing", flush=True)
    time.sleep(60)
write(Path({out!r}), Split("c", "train", lambda: rows(9)), Split("c", "test", slow))
"""


def test_a_killed_build_leaves_the_old_one_and_the_next_cleans_up(folder, tmp_path):
    before = digests(folder)
    # In the regular run the killed process writes as a build does, without its imports of several seconds.
    code = choose_size(LOCKED, KILLED).format(out=str(tmp_path))
    with subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "writing\n"
        with pytest.raises(MedfaithError, match="another process"):
            write(tmp_path, Split("c", "train", lambda: rows(1)))
        process.send_signal(signal.SIGKILL)
    assert digests(folder) == before
    assert (tmp_path / ".toy-none.partial").exists()
    assert digests(write(tmp_path, Split("c", "train", lambda: rows(5)))) == before
    assert not (tmp_path / ".toy-none.partial").exists()


def test_the_name_always_holds_a_whole_build_while_it_is_replaced(folder, tmp_path):
    """A concurrent reader never finds the folder missing or incomplete while builds replace each other."""
    code = (
        "import sys, pathlib\n"
        f"folder = pathlib.Path({str(folder)!r})\n"
        "print('ready', flush=True)\n"
        "missing = 0\n"
        "while not (folder.parent / 'stop').exists():\n"
        "    missing += not (folder / 'build.json').exists()\n"
        "print(missing)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            for n in range(1, 11):
                write(tmp_path, Split("c", "train", lambda n=n: rows(n)))
        finally:
            (tmp_path / "stop").touch()
        assert process.stdout.read() == "0\n"


def test_a_full_disk_is_an_error_and_changes_nothing(folder, tmp_path):
    before = digests(folder)
    message = r"cannot be written .*nothing was changed(.|\n)*free some space"
    with no_file_above(4096), pytest.raises(InputError, match=message):
        write(tmp_path, Split("c", "train", lambda: rows(20_000)))
    assert digests(folder) == before
    assert not (tmp_path / ".toy-none.partial").exists()


def test_a_full_disk_behind_a_link_is_not_taken_for_a_source(tmp_path):
    (tmp_path / "disk" / "there").mkdir(parents=True)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "toy-none").symlink_to(tmp_path / "disk" / "there")

    def raise_full_disk() -> pa.Table:
        raise OSError(errno.ENOSPC, "No space left", str(tmp_path / "disk" / ".there.partial" / "c" / "train-00000"))

    with pytest.raises(InputError, match=r"out: cannot be written .*(.|\n)*free some space"):
        write(tmp_path / "out", Split("c", "train", raise_full_disk))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda table: table.set_column(1, table.field("n"), pa.array([1, 1, 2, 0, 1], pa.int32())), "sha256"),
        (lambda table: table.slice(1), "rows: 5 recorded, 4 found"),
        (lambda table: table.append_column("report", pa.array(["text"] * table.num_rows)), "columns"),
    ],
)
def test_verify_finds_a_changed_build(folder, change, message):
    path = next(folder.glob("c/*.parquet"))
    pq.write_table(change(pq.read_table(path)), path)
    (verdict,) = verify_repository(folder, lambda config: FAMILY, [])
    assert any(message in problem for problem in verdict.problems), verdict.problems


@pytest.mark.parametrize("recorded", [None, [], "5", {}])
def test_of_rows_with_other_columns_nothing_is_shown_that_the_record_claims(folder, recorded):
    path = next(folder.glob("c/*.parquet"))
    pq.write_table(rows(4).drop_columns(["images"]), path)
    (folder / "build.json").write_text(
        json.dumps(RECORD | {"splits": {"c/train": {"rows": recorded, "studies": recorded, "counts": {}}}})
    )
    paper = {"c/train": {"rows": 7, "findings": {"edema": 7}, "multi_image": 1}}
    output = verdict_table(verify_repository(folder, lambda config: FAMILY, []), paper)
    assert re.search(r"^c +train +4 +– +FAULTY ", output, re.MULTILINE)
    assert f"{recorded} recorded, 4 found" in output


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda folder, path: (folder / "build.json").write_text('{"benchmark": "toy"'), "build.json: cannot be read"),
        (lambda folder, path: path.write_bytes(path.read_bytes()[:50]), "no readable Parquet"),
        (lambda folder, path: path.unlink(), "no Parquet file"),
        (lambda folder, path: path.rename(path.with_name("train-00000-of-00002.parquet")), "1 of 2 Parquet files"),
        (lambda folder, path: path.rename(path.with_name("train-00000-of-²2.parquet")), "1 of 0 Parquet files"),
        (lambda folder, path: pq.write_table(make_broken_rows(), path), "no readable Parquet .*UTF8"),
        (lambda folder, path: shutil.copy(path, folder / "c/more-00000-of-00001.parquet"), "holds c/more, which build"),
    ],
)
def test_verify_refuses_a_broken_build(folder, change, message):
    change(folder, next(folder.glob("c/*.parquet")))
    with pytest.raises(InputError, match=message):
        verify_repository(folder, lambda config: FAMILY, [])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"benchmark": []}, "benchmark"), ({"splits": []}, "splits"), ({"splits": {"x": {}}}, "splits/x"),
        ({"splits": {"a/b/c": {}}}, "splits/a/b/c"), ({"splits": {"c/train": 5}}, "splits/c/train"),
        ({"sources": []}, "sources"), ({"sources": {"s": {}}}, "sources/s"),
        ({"source": "s", "sources": {"s": {"files": {}}}}, "sources/s/version"),
        ({"skipped": None}, "skipped"), ({"skipped": {"x": None}}, "skipped/x"),
        ({"arguments": {"motion": "raft"}}, "arguments/motion"), ({"exports": []}, "exports"),
        ({"exports": {"../../a.jsonl": "0" * 64}}, "exports/../../a.jsonl"),
        ({"exports": {"c/other.jsonl": "0" * 64}}, "exports/c/other.jsonl"),
    ],
)  # fmt: skip
def test_verify_refuses_a_record_of_another_shape(folder, change, message):
    (folder / "build.json").write_text(json.dumps(record_of(folder) | change))
    with pytest.raises(InputError, match=rf"build\.json: .*{message}.* is missing or not what medfaith build writes"):
        verify_repository(folder, lambda config: FAMILY, [])


def test_verify_compares_with_the_reference_of_the_same_arguments(folder):
    reference = record_of(folder)
    assert verify_repository(folder, lambda config: FAMILY, [reference])[0].reference == "equal"
    changed_reference = json.loads(json.dumps(reference))
    changed_reference["splits"]["c/train"]["sha256"] = "0" * 64
    assert verify_repository(folder, lambda config: FAMILY, [changed_reference])[0].reference == "differs"
    assert verify_repository(folder, lambda config: FAMILY, [changed_reference | {"seed": 1}])[0].reference == "none"


@pytest.mark.parametrize("kind", ["folder", "file"])
def test_what_the_build_did_not_write_is_left_alone(tmp_path, kind):
    target = tmp_path / "toy-none"
    mine = target / "notes.txt" if kind == "folder" else target
    mine.parent.mkdir(exist_ok=True)
    mine.write_text("mine")
    with pytest.raises(InputError, match="was not written by medfaith build"):
        write(tmp_path, Split("c", "train", lambda: rows(1)))
    with pytest.raises(InputError, match="cannot be written"):
        write(mine, Split("c", "train", lambda: rows(1)))
    assert mine.read_text() == "mine"


def test_label_hashes_do_not_depend_on_the_packing_and_files_of_one_name_in_many_folders_all_count(tmp_path):
    plain = tmp_path / "train.csv"
    plain.write_text("a,b\n1,2\n")
    packed = tmp_path / "train.csv.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    assert hash_files([plain]) == hash_files([packed])
    expected = hash_files([plain])
    packed.write_bytes(plain.read_bytes())  # as a browser leaves it
    assert hash_files([packed]) == expected
    xml = [tmp_path / f"{i}.xml" for i in range(30)]
    for path in xml:
        path.write_text(path.name)
    archive = tmp_path / "x.tgz"
    with tarfile.open(archive, "w:gz") as tar:
        for path in reversed(xml):
            tar.add(path, f"folder/{path.name}")
    assert hash_files(xml) == hash_files([archive])
    masks = [tmp_path / image / "heart.png" for image in "ab"]
    for path in masks:
        path.parent.mkdir()
        path.write_text("one")
    before = hash_files(masks)
    masks[0].write_text("other")
    after = hash_files(masks)
    assert before.keys() == {"a/heart.png", "b/heart.png"}
    assert {name for name in before if before[name] != after[name]} == {"a/heart.png"}


def test_a_folder_is_a_build_or_holds_some_of_benchmarks_that_this_release_knows(folder, tmp_path):
    with pytest.raises(InputError, match=r"build\.json: this release does not know the benchmark 'toy'"):
        registry.verify(folder)
    assert repositories(tmp_path) == repositories(folder) == [folder]
    for path, message in ((folder / "c", "holds no build"), (tmp_path / "absent", "is not a folder")):
        with pytest.raises(InputError, match=message):
            repositories(path)


IMAGES = st.lists(st.fixed_dictionaries({"key": st.none() | st.text(max_size=3)}), max_size=3)
ROW = {"id": st.text(max_size=5), "n": st.none() | st.integers(-5, 5), "images": IMAGES}
TABLES = st.lists(st.fixed_dictionaries(ROW), max_size=8)


@given(TABLES, TABLES, st.integers(0, 8))
def test_the_row_hash_is_of_content_and_order_only(rows_a, rows_b, cut):
    a, b = (pa.Table.from_pylist(x, schema=FEATURES.arrow_schema) for x in (rows_a, rows_b))
    assert (compute_rowset_sha256(a) == compute_rowset_sha256(b)) == (rows_a == rows_b)
    chunked = pa.concat_tables([a.slice(0, cut), a.slice(cut)])
    assert compute_rowset_sha256(chunked) == compute_rowset_sha256(a)
    padded = pa.concat_tables([b, a]).combine_chunks().slice(len(rows_b))  # buffers with an offset
    assert compute_rowset_sha256(padded) == compute_rowset_sha256(a)


def test_the_row_hash_knows_where_one_text_ends_and_counts_are_of_the_elements_of_lists():
    table, other_table = (pa.table({"id": ["ab", "c"]}), pa.table({"id": ["a", "bc"]}))
    assert compute_rowset_sha256(table) != compute_rowset_sha256(other_table)
    assert value_counts(pa.chunked_array([["b", "a"], ["a"]]).chunks) == {"a": 2, "b": 1}
    assert value_counts(pa.chunked_array([[["x"], ["x", "y"]]]).chunks) == {"x": 2, "y": 1}
