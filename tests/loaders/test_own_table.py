"""Tables of one's own questions: each format gives the same records, and no row is lost in silence."""

from __future__ import annotations

import contextlib
import csv
import gzip
import io
import json
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pyarrow import parquet

from medfaith.loaders import limits
from medfaith.loaders.errors import InputError
from medfaith.loaders.own_table import find_table, read_records

RECORDS = [
    {"image": "a.png", "question": 'Is there "free" air, or not?', "answer": "yes"},
    {"image": "b/b.png", "question": "Größe?", "answer": "3.5 cm; roughly"},
]


def write_csv(path: Path, sign: str = ",") -> None:
    names = list(RECORDS[0])
    cells = [names, *([record[name] for name in names] for record in RECORDS)]
    lines = [sign.join('"' + cell.replace('"', '""') + '"' for cell in row) for row in cells]
    path.write_bytes("\r\n".join(lines).encode())


def write_lines(path: Path, first: str = "", sign: str = ",", end: str = "") -> None:
    """Write a csv file with further text: a first line, an end of each line."""
    write_csv(path, sign)
    lines = path.read_bytes().decode().split("\r\n")
    path.write_bytes("\r\n".join([*filter(None, [first]), *(line + end for line in lines)]).encode())


def write_gz(path: Path) -> None:
    write_csv(path)
    path.write_bytes(gzip.compress(path.read_bytes()))


def write_bom(path: Path) -> None:
    write_csv(path, ";")
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes() + b"\r\n\r\n")


WRITERS = {
    "t.csv": write_csv,
    "semicolons.csv": lambda path: write_csv(path, ";"),
    "tabs.tsv": lambda path: write_csv(path, "\t"),
    "bars.CSV": lambda path: write_csv(path, "|"),
    "bom.csv": write_bom,
    "packed.csv.gz": write_gz,
    "unpacked by a browser.csv.gz": write_csv,
    "packed without a sign.csv": write_gz,
    "of Excel.csv": lambda path: write_lines(path, "sep=;", ";"),
    "blank columns.csv": lambda path: write_lines(path, end=",,"),
    "t.jsonl": lambda path: path.write_text("\n".join(json.dumps(record) for record in RECORDS) + "\n\n"),
    "t.json": lambda path: path.write_text(json.dumps(RECORDS)),
    "within an object.json": lambda path: path.write_text(json.dumps({"version": "1", "ids": [1], "data": RECORDS})),
    "of pandas.json": lambda path: pd.DataFrame(RECORDS).to_json(path),
    "a table of pandas.json": lambda path: pd.DataFrame(RECORDS).to_json(path, orient="table", index=False),
    "lines.json": lambda path: path.write_text("\n".join(map(json.dumps, RECORDS))),
    "t.parquet": lambda path: parquet.write_table(pa.Table.from_pylist(RECORDS), path),
}


@pytest.mark.parametrize("name", WRITERS)
def test_each_format_gives_the_same_records(name, tmp_path):
    WRITERS[name](tmp_path / name)
    assert read_records(tmp_path / name) == RECORDS
    assert find_table(tmp_path) == tmp_path / name == find_table(tmp_path / name)


def write_images(path: Path) -> None:
    parquet.write_table(pa.table({"image": [{"bytes": b"x", "path": "a.png"}]}), path)


def write_image_lists(path: Path) -> None:
    parquet.write_table(pa.table({"images": [[{"bytes": b"x", "path": "a.png"}]]}), path)


HEAD = "image,question,answer\n"
FAULTS = {
    "empty.csv": ("", "has no row"),
    "header.csv": (HEAD, "has no row"),
    "narrow.csv": (f"{HEAD}a.png,q\n", "row 1: has 2 cells"),
    "wide.csv": (f"{HEAD}a.png,q,yes,more\n", "row 1: has 4 cells"),
    "twice.csv": ("image,image\na,b\n", "column 'image': the header has the column 2 times"),
    "unnamed.csv": ("image,question,answer,,\na.png,q,yes,,more\n", "row 1: has a cell below no name"),
    "stray.csv": (
        f'{HEAD}a.png,"q,yes\nb.png,q",no\nc.png,q,no\n',
        "row 1, column 'question': the cell has a line break",
    ),
    "open.csv": (f'{HEAD}a.png,"q,yes\nb.png,q,no\n', "is no sound csv"),
    "latin.csv": (f"{HEAD}a.png,Größe,yes\n".encode("latin-1"), "line 2 is no UTF-8 text"),
    "wide16.csv": (HEAD.encode("utf-16"), "no UTF-8 text"),
    "null.csv": (f"{HEAD}a\0.png,q,yes\n", "characters of value 0"),
    "cut.jsonl": ('{"image": "a.png"}\n{"image": ', "row 2: is no JSON"),
    "list.jsonl": ("[1]\n", "row 1: is a list"),
    "twice.jsonl": ('{"a": 1, "a": 2}\n', "the name 'a' twice"),
    "object.json": ("{}", "holds a dict"),
    "two lists.json": ('{"train": [{"a": 1}], "test": [{"a": 1}]}', "holds a dict"),
    "uneven columns.json": ('{"a": {"0": 1}, "b": {"1": 1}}', "holds a dict"),
    "number.json": ("[1]", "row 1: is a int"),
    "broken.json": ("[", "cannot be read as JSON"),
    "broken.parquet": ("PAR1", "cannot be read"),
    "images.parquet": (write_images, "column 'image': the cells hold images"),
    "lists of images.parquet": (write_image_lists, "column 'images': the cells hold images"),
    "cut.json": ('{"image": "a.png"}\n{"image": ', "row 2: is no JSON"),
    "sheet.xlsx": ("PK", "is a .xlsx file"),
    "plain": ("", "has no suffix"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_faults_are_named(name, tmp_path):
    content, message = FAULTS[name]
    path = tmp_path / name
    if callable(content):
        content(path)
    else:
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(InputError) as error:
        read_records(path)
    assert message in str(error.value)
    assert str(path) in str(error.value)


def test_the_first_line_of_an_old_mac_gives_the_delimiter(tmp_path):
    (path := tmp_path / "t.csv").write_text("image;question\ra.png;Is it 1, 2, 3, 4 or 5?\r", newline="")
    assert read_records(path) == [{"image": "a.png", "question": "Is it 1, 2, 3, 4 or 5?"}]


def test_a_packed_table_above_the_limit_is_refused(tmp_path, monkeypatch):
    (path := tmp_path / "t.csv.gz").write_bytes(gzip.compress(HEAD.encode() * 100))
    monkeypatch.setattr(limits, "TABLE_BYTES", 1_000)
    with pytest.raises(InputError, match=f"{path}: more than 1,000 bytes when unpacked"):
        read_records(path)


def test_a_folder_needs_exactly_one_table(tmp_path):
    with pytest.raises(InputError, match="holds no table"):
        find_table(tmp_path)
    for name in ("a.csv", "b.json"):
        (tmp_path / name).touch()
    with pytest.raises(InputError, match=r"holds 2 tables \(a.csv, b.json\)"):
        find_table(tmp_path)


def test_hidden_files_of_macos_are_no_tables(tmp_path):
    for name in ("a.csv", "._a.csv"):
        (tmp_path / name).touch()
    assert find_table(tmp_path) == tmp_path / "a.csv"


def test_line_breaks_are_read_where_the_user_says_so(tmp_path):
    (tmp_path / "t.csv").write_text(f'{HEAD}a.png,"one\ntwo",yes\n')
    assert read_records(tmp_path / "t.csv", multiline=True)[0]["question"] == "one\ntwo"


CELL = st.text(st.sampled_from('ab ,;"'), max_size=6)
PLACED = st.tuples(st.integers(0, 200), st.sampled_from(['"', '""', "\n", ",", "\r", ""]))


@given(st.lists(st.tuples(CELL, CELL, CELL), min_size=1, max_size=6), st.lists(PLACED, max_size=3))
@example([("a", "b", "a"), ("b", "b", "b")], [(2, '"'), (10, '"')])
def test_no_row_of_a_damaged_csv_is_lost_in_silence(tmp_path_factory, rows, damage):
    """A table is read with one record for each line that has a sign, or it is refused."""
    stream = io.StringIO()
    csv.writer(stream, lineterminator="\n").writerows(rows)
    text = HEAD + stream.getvalue()
    for place, sign in damage:
        text = text[: len(HEAD) + place] + sign + text[len(HEAD) + place :]
    path = tmp_path_factory.mktemp("csv") / "t.csv"
    path.write_bytes(text.encode())
    n_lines = sum(bool(line) for line in text.replace("\r\n", "\n").replace("\r", "\n").split("\n")) - 1
    with contextlib.suppress(InputError):
        assert len(read_records(path)) == n_lines
