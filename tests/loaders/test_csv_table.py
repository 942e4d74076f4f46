"""The csv reader: it reads back the written values and names the location of every fault."""

from __future__ import annotations

import gzip
from contextlib import suppress

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from medfaith.loaders import csv_table
from medfaith.loaders.errors import InputError

TYPES = {"id": pa.int32(), "share": pa.float64(), "text": pa.string()}
HEAD = "text,id,other,share\n"
GOOD = "a,1,x,0.5\n"


def read(path, data, **options):
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return csv_table.read(path, TYPES, action="use the official file", **options)


def test_columns_are_read_by_name_and_blank_is_null(tmp_path):
    table = read(tmp_path / "a.csv", HEAD + ' b ,+2, ,-.5e1\n"c, ""d""",,,\nNA,-3,NULL,3.\n')
    assert table.to_pydict() == {"id": [2, None, -3], "share": [-5, None, 3], "text": ["b", 'c, "d"', "NA"]}
    assert table.schema.types == list(TYPES.values())


@pytest.mark.parametrize(("name", "pack"), [("a.csv.gz", bytes), ("a.csv", gzip.compress)])
def test_the_content_tells_whether_a_file_is_packed(tmp_path, name, pack):
    """Browsers unpack a .gz and keep its name, and people rename .csv.gz to .csv."""
    path = tmp_path / name
    assert read(path, pack((HEAD + GOOD).encode())).num_rows == 1
    assert csv_table.header(path) == ["text", "id", "other", "share"]
    assert [*csv_table.iterate_rows(path, ["id"], action="")] == [(1, ["1"])]


def test_columns_without_a_header_are_read_in_order(tmp_path):
    table = read(tmp_path / "a.csv", "1,0.5,a\n2,1,b\n", has_header=False)
    assert table.to_pydict() == {"id": [1, 2], "share": [0.5, 1], "text": ["a", "b"]}
    with pytest.raises(InputError, match=r"row 2: the row has 2 cells\n  expected: 3 cells"):
        read(tmp_path / "a.csv", "1,0.5,a\n2,1\n", has_header=False)


@pytest.mark.parametrize(
    "change",
    [
        lambda data: b"\xef\xbb\xbf" + data,
        lambda data: data.replace(b"\n", b"\r\n"),
        lambda data: data.rstrip(b"\n"),
        lambda data: data.replace(b"\n", b"\n\n"),
    ],
    ids=["byte order mark", "lines of Windows", "no last end of line", "blank lines"],
)
def test_what_editors_change_does_not_matter(tmp_path, change):
    expected = read(tmp_path / "a.csv", HEAD + GOOD + GOOD)
    assert read(tmp_path / "b.csv", change((HEAD + GOOD + GOOD).encode())).equals(expected)
    assert read(tmp_path / "b.csv.gz", gzip.compress(change((HEAD + GOOD + GOOD).encode()))).equals(expected)


def test_a_file_of_several_megabytes_with_cells_over_several_lines(tmp_path):
    cell, line = '"start\n' + "word\n" * 200 + '"', '"start'
    table = read(tmp_path / "a.csv", HEAD + f"{cell},1,x,1\n" * 3000, first_line=line)
    assert (table.num_rows, set(table["text"].to_pylist())) == (3000, {("start\n" + "word\n" * 200).strip()})


@pytest.mark.parametrize("end", ["\n", "\r\n", "\n\n"], ids=repr)
@pytest.mark.parametrize(
    ("delimiter", "first_line"), [(",", csv_table.ANY_LINE), ("\t", csv_table.ANY_LINE), (",", "word")]
)
def test_rows_between_two_stray_quotes_are_not_lost(tmp_path, delimiter, first_line, end):
    rows = [["text", "id", "other", "share"], *[["word", str(n), "x", "1"] for n in range(1, 10)]]
    for row in (3, 6):
        rows[row][0 if first_line == csv_table.ANY_LINE else 2] = '"word'
    text = end.join(map(delimiter.join, rows))
    message = r"row 3: a cell that begins with a quote \(\"\) holds the beginning of another row(.|\n)*delete it"
    with pytest.raises(InputError, match=message):
        read(tmp_path / "a.csv", text, delimiter=delimiter, first_line=first_line)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.lists(st.sampled_from(["word", "two words", "", 'a "quote"', '"a, quoted"']), min_size=3, max_size=3),
             min_size=2, max_size=8),
    st.lists(st.tuples(st.integers(0, 7), st.integers(0, 2)), max_size=4),
)  # fmt: skip
def test_a_table_has_as_many_rows_as_its_file_has_lines_or_is_refused(tmp_path, rows, places):
    for row, column in places:
        rows[row % len(rows)][column] = '"' + rows[row % len(rows)][column]
    path = tmp_path / "a.csv"
    path.write_text("\n".join(["a,b,c", *map(",".join, rows)]) + "\n", encoding="utf-8")
    with suppress(InputError):
        assert csv_table.read(path, dict.fromkeys("abc", pa.string()), action="").num_rows == len(rows)


TEXT = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]) | st.sampled_from('\n\t"|,'), min_size=1)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(TEXT, min_size=1, max_size=5), st.sampled_from(",\t;"))
def test_any_text_that_pandas_writes_is_read_back(tmp_path, texts, delimiter):
    path = tmp_path / "a.csv"
    pd.DataFrame({"key": "first", "text": texts}).to_csv(path, sep=delimiter, index=False)
    table = csv_table.read(path, {"text": pa.string()}, action="", delimiter=delimiter, first_line=f"first{delimiter}")
    assert table["text"].to_pylist() == [text.strip() or None for text in texts]


@pytest.mark.parametrize(
    ("data", "row", "column", "message"),
    [
        ("", None, None, "cannot be read as csv"),
        (HEAD, None, None, "a header and no rows"),
        ("text,id,other\n" + "a,1,x\n", None, "share", "the column is missing"),
        (HEAD.replace("other", "id") + GOOD, None, "id", "the header has the column 2 times"),
        (HEAD.replace(",", ";") + GOOD.replace(",", ";"), None, None, "not separated by commas, but by semicolons"),
        ((HEAD + GOOD).replace(",", " "), None, None, "not separated by commas\n"),
        (HEAD + GOOD + "b,2,x\n", 2, None, "the row has 3 cells\n  expected: 4 cells"),
        (HEAD + "b,2,x,1,1\n" + GOOD, 1, None, "the row has 5 cells"),
        (HEAD + GOOD + 'b,2,x,"1\n' + GOOD, None, None, 'a quote (") opens a cell and never closes it'),
        (HEAD + GOOD + '"b,2,x,1\n' + GOOD, 2, None, "the row has 1 cells"),
        ((HEAD + GOOD + "Lücke,1,x,1\n").encode("latin-1"), None, None, "line 3 is no UTF-8 text"),
        ((HEAD + GOOD).encode("utf-16"), None, None, "line 1 is no UTF-8 text"),
        ((HEAD.replace("other", "größe") + GOOD).encode("latin-1"), None, None, "line 1 is no UTF-8 text"),
        (HEAD.replace("other", "o\0") + GOOD, None, None, "line 1 is no UTF-8 text"),
        (gzip.compress((HEAD + GOOD * 999).encode(), mtime=0)[:-9], None, None, "cannot be read"),
        (HEAD + GOOD + "b,1.5,x,1\n", 2, "id", "'1.5'\n  expected: a whole number, or blank"),
        (HEAD + "b,9999999999,x,1\n", 1, "id", "a whole number"),
        (HEAD + "b,1,x,NaN\n", 1, "share", "'NaN'\n  expected: a number, or blank"),
        (HEAD + "b,1,x,1e999\n", 1, "share", "a finite number"),
        (HEAD + "b,1,x,1 2\n", 1, "share", "a number"),
    ],
)
def test_a_fault_is_named_by_file_row_and_column(tmp_path, data, row, column, message):
    path = tmp_path / ("a.csv.gz" if data[:2] == b"\x1f\x8b" else "a.csv")
    with pytest.raises(InputError) as error:
        read(path, data)
    assert (error.value.where, error.value.row, error.value.column) == (str(path), row, column)
    assert message in str(error.value)
    assert "use the official file" in error.value.action


def test_a_rule_names_the_first_row_that_breaks_it(tmp_path):
    table = pa.table({"a": ["x", None, "x"], "b": ["y", "z", None]})
    with pytest.raises(InputError, match=r"f.csv, row 2, column 'a': is blank"):
        csv_table.require_filled(table, ["a", "b"], tmp_path / "f.csv", action="")
    long_text = pa.chunked_array([["x" * 10_000]])
    with pytest.raises(InputError, match=r"row 1, column 'a': 'x{199}\n"):
        csv_table.require(pa.array([False]), long_text, tmp_path / "f.csv", "a", expected="a", action="")
    with pytest.raises(InputError, match=r"row 3, column 'a': 'x' repeats row 1"):
        csv_table.require_once(table["a"], tmp_path / "f.csv", "a", action="")
    with pytest.raises(InputError, match=r"row 2, column 'b': 'z'\n  expected: y"):
        csv_table.require(pa.array([True, None, False]), table["b"], tmp_path / "f.csv", "b", expected="y", action="")
    csv_table.require_once(table["b"], tmp_path / "f.csv", "b", action="")
