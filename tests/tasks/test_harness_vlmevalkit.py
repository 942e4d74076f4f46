"""The TSV for VLMEvalKit, through its command, read back as VLMEvalKit reads it."""

from __future__ import annotations

import ast
import base64
import csv
import io
import runpy
import shutil
import string
from pathlib import Path

import pandas as pd
import pytest
from PIL import Image

from medfaith.loaders import images
from medfaith.loaders.errors import InputError
from medfaith.tasks.harnesses import questions, vlmevalkit
from medfaith.tasks.row_store import read

TASK = "medfaith_contrabench_chexpert_presence"
WHICH = ("cxr-contrabench-chexpert", "chexpert_presence", "validation")
VPT = "medfaith_heal_vindr_vpt"


@pytest.fixture(scope="module")
def arguments(places):
    """Build the command's arguments for a task, without roots for the other sources of its group."""

    def make(task: str) -> list[str]:
        data, roots = places(task)
        source = "vindr_cxr" if "heal" in task else "chexpert"
        return [task, "--data", str(data), "--root", f"{source}={roots[source]}"]

    return make


def split_cell(cell: str) -> list[str]:
    """Read a cell that may hold a list, by VLMEvalKit's rules."""
    return ast.literal_eval(cell) if cell.startswith("[") and cell.endswith("]") else [cell]


def read_records(path: Path) -> list[dict[str, str]]:
    csv.field_size_limit(10**8)
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t"))


@pytest.mark.parametrize("embed", [False, True])
def test_the_file_holds_the_rows(embed, arguments, phantom_build, phantom_roots, tmp_path, capsys):
    out = tmp_path / "new" / "presence.tsv"
    assert vlmevalkit.main([*arguments(TASK), "--out", str(out), *(["--embed"] if embed else [])]) == 0
    assert capsys.readouterr().out.strip() == str(out)
    assert [path.name for path in out.parent.iterdir()] == ["presence.tsv"]
    records = read_records(out)
    rows = read(*WHICH, str(phantom_build)).to_list()
    assert [int(record["index"]) for record in records] == list(range(len(rows)))
    assert max(len(row["images"]) for row in rows) > 1
    for record, row in zip(records, rows, strict=True):
        assert [record[letter] for letter in string.ascii_uppercase[: len(row["options"])]] == row["options"]
        assert record[record["answer"]] == row["options"][row["answer"]]
        assert (record["id"], record["question"]) == (row["id"], row["question"])
        kinds = (record["category"], record["l2-category"], record["split"])
        assert kinds == (row["finding"], row["polarity"], "validation")
        cells = split_cell(record["image" if embed else "image_path"])
        opened = [Image.open(io.BytesIO(base64.b64decode(cell)) if embed else cell).convert("RGB") for cell in cells]
        expected = [images.open_image(reference, phantom_roots) for reference in row["images"]]
        assert len(opened) == len(expected)
        assert all(a.tobytes() == b.tobytes() for a, b in zip(opened, expected, strict=True))
    table = pd.read_csv(out, sep="\t")
    assert not table.isna().any(axis=None)
    assert table["index"].dtype.kind == "i"
    if embed:
        assert str(phantom_roots["chexpert"]) not in out.read_text(encoding="utf-8")
        names = [name for cell in table["image_path"] for name in split_cell(cell)]
        assert len(set(names)) == len(names)


@pytest.mark.full
def test_yes_and_no_are_options_and_edited_images_are_embedded(arguments, places, tmp_path):
    out = tmp_path / "vpt.tsv"
    assert vlmevalkit.main([*arguments(VPT), "--embed", "--out", str(out)]) == 0
    data, roots = places(VPT)
    docs = questions.load_one(VPT, str(data), roots).test_docs()
    assert sum(doc["kind"] == "region" for doc in docs) > 5
    for record, doc in zip(read_records(out), docs, strict=True):
        assert (record["A"], record["B"]) == ("Yes", "No")
        assert record["answer"] == ("A" if doc["kind"] == "original" else "B")
        assert (record["id"], record["question"]) == (doc["id"], doc["question"])
        assert (record["category"], record["l2-category"]) == (doc["anatomy"], doc["kind"])
        decoded = Image.open(io.BytesIO(base64.b64decode(record["image"]))).convert("RGB")
        assert decoded.tobytes() == doc["images"][0].tobytes()


@pytest.mark.parametrize(
    ("task", "options", "messages"),
    [
        ("medfaith_heal_vindr_open", [], ["open question", "lm-eval"]),
        (VPT, [], ["pass --embed"]),
        ("medfaith_heal_vindr", [], ["one of medfaith_heal_vindr_closed"]),
        ("medfaith_contrabench_cot::chexpert_absence", ["--root", "openi=OPENI"], ["asks with its own"]),
        (TASK, ["--out", "OUT"], ["name a file in it"]),
        (TASK, ["--out", "BUILD"], ["is in the build"]),
    ],
    ids=["no options", "edited image without --embed", "a group", "another prompt", "a folder", "in the build"],
)
def test_what_makes_no_file_is_refused(
    task, options, messages, arguments, phantom_build, phantom_roots, tmp_path, capsys
):
    places = {"OUT": str(tmp_path), "openi=OPENI": f"openi={phantom_roots['openi']}"}
    places["BUILD"] = str(phantom_build / "presence.tsv")
    extra_arguments = ["--out", str(tmp_path / "x.tsv"), *(places.get(word, word) for word in options)]
    assert vlmevalkit.main([*arguments(task), *extra_arguments]) == 2
    error = capsys.readouterr().err
    assert all(word in error for word in messages)
    assert not [*tmp_path.iterdir(), *phantom_build.glob("*.tsv")]


def test_the_module_is_a_command(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["vlmevalkit", "nothing", "--data", "x", "--out", str(tmp_path / "x.tsv")])
    with pytest.raises(SystemExit) as ended:
        runpy.run_module("medfaith.tasks.harnesses.vlmevalkit", run_name="__main__")
    assert ended.value.code == 2
    assert "no such task" in capsys.readouterr().err


def test_a_missing_image_is_named_and_leaves_the_old_file(phantom_build, phantom_roots, tmp_path, capsys):
    root = Path(shutil.copytree(phantom_roots["chexpert"], tmp_path / "chexpert"))
    rows = read(*WHICH, str(phantom_build)).to_list()
    lost = rows[-1]["images"][-1]
    images.locate(lost, {"chexpert": root}).unlink()
    row_id = next(row["id"] for row in rows if lost in row["images"])
    out = tmp_path / "presence.tsv"
    out.write_text("old")
    arguments = [TASK, "--data", str(phantom_build), "--root", f"chexpert={root}", "--out", str(out)]
    assert vlmevalkit.main(arguments) == 2
    assert f"row {row_id}:" in capsys.readouterr().err
    assert out.read_text() == "old"
    assert not list(tmp_path.glob(".*"))


ROW = {"id": "x", "images": [], "question": "Which?", "answer": 0, "finding": "edema", "polarity": "presence"}
ROW |= {"prompt": "b0"}


@pytest.mark.parametrize("text", ["None", "NA", "n/a", "", "null", "nan"])
def test_an_option_that_pandas_would_drop_is_refused(text):
    row = {**ROW, "options": ["Edema", text]}
    with pytest.raises(InputError, match="reads as no option"):
        list(vlmevalkit.iterate_records([(row, row)], {}, "test"))
    assert pd.read_csv(io.StringIO(f"A\tB\nEdema\t{text}\n"), sep="\t")["B"].hasnans


def test_a_file_that_is_no_picture_is_refused(tmp_path):
    (tmp_path / "a.dcm").write_bytes(b"x")
    row = {**ROW, "options": ["Edema"], "images": [{"source": "chexpert", "key": "a.dcm", "view": ""}]}
    with pytest.raises(InputError, match="--embed"):
        list(vlmevalkit.iterate_records([(row, row)], {"chexpert": tmp_path}, "test"))


def test_an_edited_image_is_in_no_file(tmp_path):
    (tmp_path / "a.png").write_bytes(b"x")
    row = {**ROW, "options": ["Yes", "No"], "images": [{"source": "vindr_cxr", "key": "a.png", "view": ""}]}
    with pytest.raises(InputError, match="edited image"):
        list(vlmevalkit.iterate_records([(row, {**row, "edit": {"region": {}}})], {"vindr_cxr": tmp_path}, "test"))
    (record,) = vlmevalkit.iterate_records([(row, {**row, "edit": None})], {"vindr_cxr": tmp_path}, "test")
    assert record["image_path"] == str(tmp_path / "a.png")
