"""Pointers of Git LFS and saved web pages in place of files."""

from pathlib import Path

import pyarrow as pa
import pytest

from medfaith.loaders import csv_table, json_text, own_table
from medfaith.loaders.errors import ImageError, InputError
from tests.support.loaders.image_files import SOURCE, open_key

READERS = {
    "a.csv": lambda path: csv_table.read(path, {"a": pa.string(), "b": pa.string()}, action=""),
    "a.csv.gz": csv_table.header,
    "a.json": lambda path: json_text.read(path, expected="", action=""),
    "a.jsonl": own_table.read_records,
    "a.parquet": own_table.read_records,
    "a.jpg": lambda path: open_key(path.parent, path.name, SOURCE),
}


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 123\n",
            "pointer of Git LFS(?s:.*)git lfs pull",
        ),
        ("\n<!DOCTYPE html>\n<html><body>Sign in</body></html>", "web page(?s:.*)log in"),
    ],
    ids=["Git LFS", "web page"],
)
def test_a_placeholder_is_named(tmp_path: Path, name: str, content: str, message: str):
    (path := tmp_path / name).write_text(content)
    with pytest.raises((InputError, ImageError), match=rf"{name}:? .*{message}"):
        READERS[name](path)
