"""The TSV for VLMEvalKit, through its command, read back as VLMEvalKit reads it."""

from __future__ import annotations

import ast
import base64
import csv
import io
import shutil
import string
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from PIL import Image

from medfaith.loaders import images
from medfaith.loaders.errors import InputError
from medfaith.tasks.adapters import vlmevalkit
from medfaith.tasks.rows import read

WHICH = ("cxr-contrabench-chexpert", "chexpert_presence", "validation")


@pytest.fixture(scope="module")
def arguments(phantom_build, phantom_roots) -> list[str]:
    return ["chexpert_presence", "--data", str(phantom_build), "--root", f"chexpert={phantom_roots['chexpert']}"]


def several(cell: str) -> list[str]:
    """How VLMEvalKit reads a cell that may hold a list."""
    return ast.literal_eval(cell) if cell.startswith("[") and cell.endswith("]") else [cell]


@pytest.mark.parametrize("embed", [False, True])
def test_the_file_holds_the_rows(embed, arguments, phantom_build, phantom_roots, tmp_path, capsys):
    out = tmp_path / "new" / "presence.tsv"
    assert vlmevalkit.main([*arguments, "--out", str(out), *(["--embed"] if embed else [])]) == 0
    assert capsys.readouterr().out.strip() == str(out)
    assert [path.name for path in out.parent.iterdir()] == ["presence.tsv"]
    csv.field_size_limit(10**8)
    with out.open(encoding="utf-8", newline="") as file:
        written = list(csv.DictReader(file, delimiter="\t"))
    rows = read(*WHICH, str(phantom_build)).to_list()
    assert [int(record["index"]) for record in written] == list(range(len(rows)))
    assert max(len(row["images"]) for row in rows) > 1
    for record, row in zip(written, rows, strict=True):
        assert [record[letter] for letter in string.ascii_uppercase[: len(row["options"])]] == row["options"]
        assert record[record["answer"]] == row["options"][row["answer"]]
        assert (record["id"], record["question"]) == (row["id"], row["question"])
        assert (record["category"], record["l2-category"], record["split"]) == (
            row["finding"],
            row["polarity"],
            "validation",
        )
        cells = several(record["image" if embed else "image_path"])
        opened = [Image.open(io.BytesIO(base64.b64decode(cell)) if embed else cell).convert("RGB") for cell in cells]
        expected = [images.open_image(reference, phantom_roots) for reference in row["images"]]
        assert len(opened) == len(expected)
        assert all(a.tobytes() == b.tobytes() for a, b in zip(opened, expected, strict=True))
    table = pd.read_csv(out, sep="\t")
    assert not table.isna().any(axis=None)
    assert table["index"].dtype.kind == "i"
    if embed:
        assert str(phantom_roots["chexpert"]) not in out.read_text(encoding="utf-8")
        names = [name for cell in table["image_path"] for name in several(cell)]
        assert len(set(names)) == len(names)


def test_the_installed_module_is_a_command(tmp_path):
    command = [sys.executable, "-m", "medfaith.tasks.adapters.vlmevalkit", "nothing"]
    result = subprocess.run(
        [*command, "--data", "x", "--out", str(tmp_path / "x.tsv")], capture_output=True, text=True, check=False
    )
    assert result.returncode == 2
    assert "no such config" in result.stderr
    assert "Traceback" not in result.stderr


def test_a_build_is_no_place_for_it(arguments, phantom_build, capsys):
    before = sorted(phantom_build.rglob("*"))
    assert vlmevalkit.main([*arguments, "--out", str(phantom_build / "presence.tsv")]) == 2
    assert "lies in the build" in capsys.readouterr().err
    assert sorted(phantom_build.rglob("*")) == before


def test_a_missing_image_is_named_and_leaves_the_old_file(phantom_build, phantom_roots, tmp_path, capsys):
    root = Path(shutil.copytree(phantom_roots["chexpert"], tmp_path / "chexpert"))
    rows = read(*WHICH, str(phantom_build)).to_list()
    lost = rows[-1]["images"][-1]
    images.locate(lost, {"chexpert": root}).unlink()
    first = next(row["id"] for row in rows if lost in row["images"])
    out = tmp_path / "presence.tsv"
    out.write_text("old")
    arguments = ["chexpert_presence", "--data", str(phantom_build), "--root", f"chexpert={root}", "--out", str(out)]
    assert vlmevalkit.main(arguments) == 2
    assert f"row {first}:" in capsys.readouterr().err
    assert out.read_text() == "old"
    assert not list(tmp_path.glob(".*"))


def test_a_source_without_a_root_says_how_to_get_it(phantom_build, tmp_path, capsys):
    out = tmp_path / "x.tsv"
    assert vlmevalkit.main(["chexpert_presence", "--data", str(phantom_build), "--out", str(out)]) == 2
    assert "how to get it" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


ROW = {"id": "x", "images": [], "question": "Which?", "answer": 0, "finding": "edema", "polarity": "presence"}


@pytest.mark.parametrize("text", ["None", "NA", "n/a", "", "null", "nan"])
def test_an_option_that_pandas_would_drop_is_refused(text):
    with pytest.raises(InputError, match="reads as no option"):
        list(vlmevalkit.records([{**ROW, "options": ["Edema", text]}], {}, "test"))
    assert pd.read_csv(io.StringIO(f"A\tB\nEdema\t{text}\n"), sep="\t")["B"].hasnans


def test_a_file_that_is_no_picture_is_refused(tmp_path):
    (tmp_path / "a.dcm").write_bytes(b"x")
    row = {**ROW, "options": ["Edema"], "images": [{"source": "chexpert", "key": "a.dcm", "view": ""}]}
    with pytest.raises(vlmevalkit.ImageError, match="--embed"):
        list(vlmevalkit.records([row], {"chexpert": tmp_path}, "test"))
