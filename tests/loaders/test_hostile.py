"""Readers and hostile files: every reader names the file in its message, quickly and with little memory."""

from __future__ import annotations

import io
import json
import os
import re
import tarfile
import zipfile
from collections.abc import Callable
from itertools import product
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image

from medfaith.annotate.answers import read_files
from medfaith.auditing.run import read_record
from medfaith.builders.verify import verify_repository
from medfaith.cli import main
from medfaith.loaders import (
    anatomy_masks,
    csv_table,
    detections,
    images,
    json_text,
    limits,
    mask_layouts,
    mimic_cxr,
    openi,
)
from medfaith.loaders.errors import InputError, MedfaithError
from medfaith.tasks import row_store, rows
from medfaith.tasks.explain.store import Store
from medfaith.tasks.wrong_lung.adapter import Reply, read_reply
from tests.support.tiers import choose_size

NESTED = {"list": "[" * 20_000, "object": '{"a":' * 20_000, "closed": "[" * 20_000 + "]" * 20_000}
NO_JSON = NESTED | {
    "surrogate": '{"a": "\\ud800"}',
    "digits": "1" * 5_000,
    "empty": "",
    "half": '{"a',
    "bytes": "\udcff",
}


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode("utf-8", "surrogateescape"))


def make_bombs(n: int) -> str:
    return "a0: &a0 [x]\n" + "".join(f"a{i}: &a{i} [*a{i - 1}{f', *a{i - 1}' * 9}]\n" for i in range(1, n))


YAMLS = {
    "aliases": make_bombs(12) + "names: *a11",
    "date": "names: {2020-13-45: Edema}",
    "float": "names: {1.5: Edema}",
    "integer": f"names: {{{'1' * 5_000}: Edema}}",
    "nested": "names: " + "[" * choose_size(5_000, 20_000),
    "list as a key": "names: {[1]: Edema}",
    "object": "names: !!python/object:os.system {}",
    "value": "names: {0: 2020-13-45}",
    "control": "names: [\x07]",
}


@pytest.mark.parametrize("name", YAMLS)
def test_class_names(name, tmp_path):
    write(tmp_path / "data.yaml", YAMLS[name])
    write(tmp_path / "image.txt", "0 0.5 0.5 0.1 0.1")
    with pytest.raises(InputError, match=r"data\.yaml"):
        detections.read_detections(tmp_path, ["image"], sizes={"image": (10, 10)})


def make_member(name: str, **fields: object) -> tuple[tarfile.TarInfo, bytes]:
    info, content = tarfile.TarInfo(name), b"<x/>"
    for key, value in fields.items():
        setattr(info, key, value)
    info.size = len(content) if info.isreg() else 0
    return info, content


MEMBERS = {
    "link to nothing": [make_member("a.xml", type=tarfile.SYMTYPE, linkname="none.xml")],
    "hard link to nothing": [make_member("a.xml", type=tarfile.LNKTYPE, linkname="none.xml")],
    "link to itself": [make_member("a.xml", type=tarfile.SYMTYPE, linkname="a.xml")],
    "links in a circle": [
        make_member("a.xml", type=tarfile.SYMTYPE, linkname="b.xml"),
        make_member("b.xml", type=tarfile.SYMTYPE, linkname="a.xml"),
    ],
    "link out": [make_member("a.xml", type=tarfile.SYMTYPE, linkname="../../etc/passwd.xml")],
    "name that is no UTF-8": [make_member("\udcff.xml")],
    "escape sequence": [make_member("\x1b[31m.xml")],
    "device": [make_member("a.xml", type=tarfile.CHRTYPE)],
    "folder": [make_member("a.xml", type=tarfile.DIRTYPE)],
}  # fmt: skip


@pytest.mark.parametrize("name", MEMBERS)
def test_members_of_an_archive(name, tmp_path, capsys):
    archive = tmp_path / openi.ARCHIVE
    with tarfile.open(archive, "w:gz") as tar:
        for info, content in MEMBERS[name]:
            tar.addfile(info, io.BytesIO(content) if info.isreg() else None)
    with pytest.raises(InputError, match=r"NLMCXR_reports\.tgz"):
        openi.read_reports(tmp_path)
    assert main(["build", "cxr-contrabench", "--root", f"openi={tmp_path}", "--out", str(tmp_path / "o")]) == 2
    assert "\x1b" not in capsys.readouterr().err


def write_npz(root: Path, header: bytes, content: bytes, name: str = "a.npy") -> None:
    with zipfile.ZipFile(root / "image.npz", "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr(name, header + content)


def make_header(shape: str, dtype: str = "|u1", version: bytes = b"\x01\x00") -> bytes:
    header_text = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}".encode()
    header_text += b" " * (-(len(header_text) + 11) % 64) + b"\n"
    return (
        b"\x93NUMPY" + version + len(header_text).to_bytes(2 if version == b"\x01\x00" else 4, "little") + header_text
    )


ARRAYS = {
    "claims 5.7 GB": (make_header("(159, 6000, 6000)"), b"\0" * 100),
    "claims more than there are numbers for": (make_header("(159, 9999999999999, 9999999999999)"), b""),
    "negative": (make_header("(159, -1, -1)"), b""),
    "text": (b"no array", b""),
    "texts": (make_header("(159,)", "<U3"), b"\0" * 159 * 12),
    "objects": (make_header("(159,)", "|O"), b"\0" * 159 * 8),
    "version 3": (make_header("(159, 1, 1)", version=b"\x03\x00"), b"\0" * 159),
    "version 9": (make_header("(159, 1, 1)", version=b"\x09\x00"), b"\0" * 159),
    "cut": (make_header("(159, 2, 2)"), b"\0" * 159),
    "nothing": (b"", b""),
}  # fmt: skip


def test_arrays_of_masks(tmp_path):
    np.savez(tmp_path / "image.npz", np.ones((mask_layouts.CXAS_MASKS, 2, 2), np.uint8))
    assert anatomy_masks.open_masks(tmp_path).read("image", (2, 2))
    for name, member in product(ARRAYS, ["a.npy", "a.txt"]):
        write_npz(tmp_path, *ARRAYS[name], name=member)
        with pytest.raises(InputError, match=r"image\.npz"):
            anatomy_masks.open_masks(tmp_path).read("image", (2, 2))


READERS: dict[str, tuple[str, Callable[[Path], object]]] = {
    "a build's record": ("build.json", lambda folder: verify_repository(folder, lambda config: None, [])),
    "an audit's record": ("audit.json", read_record),
    "answers of annotators": ("answers.jsonl", lambda folder: read_files([folder / "answers.jsonl"])),
    "the model of a store": (f"{'0' * 16}/model.json", lambda folder: Store(folder).model("0" * 16)),
}
WRONG = {
    "list": "[]", "null": "null", "text": '"a"',
    "list as a name": json.dumps({"benchmark": "b", "source": "s", "seed": 0, "arguments": {}, "splits": {},
                                  "sources": {"s": {"files": {"a": [1]}}}}),
    "list as an id": json.dumps({"kind": "error", "annotator": [], "model": [], "row_id": [], "category": []}),
    "list as a kind": '{"kind": []}',
    "list as rows": json.dumps({"medfaith": "1", "models": {}, "asked": {}, "rows": []}),
    "number as rows of a task": json.dumps({"medfaith": "1", "models": {}, "asked": {}, "rows": {"task": 5}}),
}  # fmt: skip


@pytest.mark.parametrize("reader", READERS)
def test_json(reader, tmp_path):
    name, read_folder = READERS[reader]
    folder = tmp_path / "folder"  # outside the folder of all tests, in which some tests search for builds
    for text in (NO_JSON | WRONG).values():
        write(folder / name, text + "\n")
        with pytest.raises(InputError, match=re.escape(str(folder))):
            read_folder(folder)


def read_study(root: Path) -> str | None:
    return mimic_cxr.read_report({"mimic_cxr": root}, "10000032", "50414267")


def read_boxes(root: Path) -> object:
    write(root / "classes.txt", "Edema")
    return detections.read_detections(root, ["image"], sizes={"image": (10, 10)})


STUDY = "files/p10/p10000032/s50414267.txt"
IMAGE = {"source": "chexpert", "key": "a.jpg", "view": ""}
FILES: dict[str, tuple[str, str, Callable[[Path], object]]] = {
    "a report": (STUDY, "REPORT_BYTES", read_study),
    "boxes": ("image.txt", "TEXT_BYTES", read_boxes),
    "a table": (
        "a.csv",
        "TABLE_BYTES",
        lambda folder: csv_table.read(folder / "a.csv", {"a": pa.string()}, action="x"),
    ),
    "JSON": ("a.json", "JSON_BYTES", lambda folder: json_text.read(folder / "a.json", expected="x", action="x")),
    "an image": ("a.jpg", "IMAGE_PIXELS", lambda folder: images.open_image(IMAGE, {"chexpert": folder})),
} | {
    name: (file, "JSON_BYTES", read_folder)
    for name, (file, read_folder) in READERS.items()
    if name in {"a build's record"}
}


@pytest.mark.parametrize("name", FILES)
def test_a_pipe_is_not_waited_for_nor_a_file_beyond_its_limit_read(name, tmp_path, monkeypatch):
    file, limit, read_folder = FILES[name]
    folder = tmp_path / "folder"
    (folder / file).parent.mkdir(parents=True, exist_ok=True)
    os.mkfifo(folder / file)
    with pytest.raises(MedfaithError, match=re.escape(file)):
        read_folder(folder)
    (folder / file).unlink()
    write(folder / file, "a\n" * 100)
    if name == "an image":
        Image.new("L", (20, 20)).save(folder / file)
    monkeypatch.setattr(limits, limit, 20)
    with pytest.raises(MedfaithError, match="more than"):
        read_folder(folder)


def test_rows_and_answers_in_pipes(tmp_path):
    (tmp_path / "chexpert").mkdir()
    os.mkfifo(tmp_path / "chexpert" / "a.parquet")
    (tmp_path / "rows.csv").write_text("id\na\n")
    with pytest.raises(InputError, match=r"a\.parquet"):
        rows.check_row_ids(tmp_path / "rows.csv", str(tmp_path))
    with pytest.raises(InputError, match=r"a\.parquet"):
        row_store.read("chexpert", "a", "test", str(tmp_path))
    date = "2026-01-01T00-00-00.000000"
    write(tmp_path / "logs" / f"results_{date}.json", "{}")
    os.mkfifo(tmp_path / "logs" / f"samples_medfaith_contrabench_{date}.jsonl")
    assert main(["report", str(tmp_path / "logs")]) == 2


def test_the_page_on_security_names_every_limit():
    page = (Path(__file__).parents[2] / "docs" / "security.md").read_text(encoding="utf-8")
    documented_limits = {
        name: int(value.replace(",", "")) for name, value in re.findall(r"\| `(\w+)` \| ([0-9,]+) \|", page)
    }
    assert documented_limits == {name: value for name, value in vars(limits).items() if name.isupper()}


@pytest.mark.parametrize(
    "text", [*NESTED.values(), '{"local": ' + "1" * 400 + "}", '{"local": Infinity}', '{"local": NaN}', "[]"]
)
def test_replies_of_models_that_align(text):
    assert read_reply(text) == Reply()


@pytest.mark.parametrize(
    ("options", "variable", "config", "origin"),
    [
        (["--root", "openi=~nosuchuser/x"], "", "", "--root openi: ~nosuchuser/x"),
        ([], "~nosuchuser/x", "", "MEDFAITH_ROOT_OPENI: ~nosuchuser/x"),
        ([], "", '[roots]\nopeni = "~nosuchuser/x"', "sources.toml, [roots], openi: ~nosuchuser/x"),
    ],
)
def test_a_root_of_an_unknown_user_is_named_with_where_it_comes_from(
    options, variable, config, origin, tmp_path, monkeypatch, capsys
):
    (tmp_path / "sources.toml").write_text(config or "[roots]")
    monkeypatch.setattr("medfaith.loaders.sources.find_user_config", lambda: tmp_path / "sources.toml")
    monkeypatch.setenv("MEDFAITH_ROOT_OPENI", variable)
    assert main(["sources", *options]) == 2
    error_output = capsys.readouterr().err
    assert f"{origin} begins with a user that is not known here\n  what to do: name a user" in error_output


def test_a_home_that_does_not_exist(capsys):
    assert main(["report", "x", "--data", "~nosuchuser"]) == 2
    assert "what to do: " in capsys.readouterr().err
