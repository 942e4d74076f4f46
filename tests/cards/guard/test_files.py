"""The guard on files: Parquet of another form, files that do not belong there, exports, masks."""

from __future__ import annotations

import base64
import hashlib
import shutil
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pydicom
import pytest

from medfaith.cards.publish import guard
from medfaith.cards.publish.guard import tables
from medfaith.loaders.errors import InputError
from tests.cards.guard.scenes import (
    REPORT,
    append,
    first_parquet,
    image_bytes,
    insert_before_footer,
    opened,
    replace_value,
    rewrite,
    stage,
    turn_a_bit,
)  # fmt: skip


def with_column(name, values):
    return lambda table: table.append_column(name, pa.array([values] * table.num_rows))


def cast(column, kind):
    return lambda t: t.set_column(t.column_names.index(column), column, t[column].cast(kind))


def dictionary(table):
    return table.set_column(table.column_names.index("cue"), "cue", table["cue"].dictionary_encode())


def pandas_metadata(table):
    return table.replace_schema_metadata({**table.schema.metadata, b"pandas": b'{"index_columns": ["/home/user"]}'})


def field_metadata(table):
    field = table.schema.field("cue").with_metadata({b"comment": b"from the findings"})
    return table.cast(table.schema.set(table.column_names.index("cue"), field))


def other_features(table):
    return table.replace_schema_metadata({b"huggingface": b'{"info": {"features": {"image": {"_type": "Image"}}}}'})


_EMBEDDED = {"bytes": image_bytes("PNG"), "path": "CXR1.png"}
_NESTED = pa.list_(pa.struct([("pixels", pa.list_(pa.binary()))]))
SCHEMAS = {
    "the image that push_to_hub embeds": (with_column("image", _EMBEDDED), "holds bytes", "image.bytes"),
    "bytes in a list of structs": (
        lambda t: t.append_column("x", pa.array([[{"pixels": [b"x"]}]] * t.num_rows, _NESTED)), "bytes", "x.pixels"
    ),
    "bytes in place of text": (cast("cue", pa.binary()), "holds bytes", "cue"),
    "large bytes": (cast("cue", pa.large_binary()), "holds bytes", "cue"),
    "bytes in a dictionary": (lambda t: dictionary(cast("cue", pa.binary())(t)), "holds bytes", "cue"),
    "large_string": (cast("cue", pa.large_string()), "type large_string", "cue"),
    "dictionary": (dictionary, "dictionary", "cue"),
    "a column more": (with_column("report", "x"), "report", "report"),
    "a column less": (lambda t: t.drop_columns(["cue"]), "columns id", None),
    "another order": (lambda t: t.select(t.column_names[::-1]), "columns cue", None),
    "a wider number": (cast("answer", pa.int64()), "type int64", "answer"),
    "metadata of pandas": (pandas_metadata, "has metadata 'pandas'", None),
    "metadata of a column": (field_metadata, "has metadata 'comment'", "cue"),
    "features with an image": (other_features, "has other metadata huggingface", None),
}  # fmt: skip


@pytest.mark.parametrize("leak", SCHEMAS)
def test_parquet_of_another_form_is_refused(copy_of, refused, leak):
    change, reason, column = SCHEMAS[leak]
    name, folder = copy_of("rows")
    path = first_parquet(folder)
    rewrite(path, change)
    error = refused(folder)
    assert reason in error.found
    assert error.where == f"{name}/{path.relative_to(folder)}"
    assert error.column == column


def test_bytes_that_are_only_called_text_are_refused(copy_of, refused):
    """Arrow's own schema in the file says that `cue` is text."""
    _, folder = copy_of("rows")
    path = first_parquet(folder)
    schema = pq.read_schema(path)
    said = {**schema.metadata, b"ARROW:schema": base64.b64encode(schema.serialize().to_pybytes())}
    rewrite(path, lambda t: cast("cue", pa.binary())(t).replace_schema_metadata(said), store_schema=False)
    error = refused(folder)
    assert "holds bytes" in error.found
    assert error.column == "cue"


def dicom(path):
    shutil.copyfile(pydicom.data.get_testdata_file("CT_small.dcm", download=False), path)  # pyright: ignore[reportAttributeAccessIssue]


PNG, PART, OTHER = image_bytes("PNG"), "train-00000-of-00001.parquet", "holds other bytes than its rows make"
IN = "fewshot_absence"
# What is done to a folder `f` or to its first Parquet file `p`, what the guard says, and of which file or split.
FILES = {
    "a DICOM file": (lambda f, _: dicom(f / "CXR1.dcm"), "is DICOM data", "CXR1.dcm"),
    "an image beside the Parquet": (lambda _, p: (p.parent / "x.png").write_bytes(PNG), "is PNG data", f"{IN}/x.png"),
    "an image called README.md": (
        lambda f, _: (f / "README.md").write_bytes(image_bytes("JPEG")), "is JPEG data", "README.md"
    ),
    "another text file": (lambda f, _: (f / "notes.txt").write_text("x"), "is no file of this", "notes.txt"),
    "a hidden file": (lambda f, _: (f / ".cache").write_text("x"), "is no file of this", ".cache"),
    "a folder": (lambda f, _: (f / "images").mkdir(), "is a folder of another name", "images"),
    "a split that is not named": (
        lambda _, p: p.rename(p.parent / PART.replace("train", "test")), "is no file of this", f"{IN}/test-{PART[6:]}"
    ),
    "a link": (lambda f, p: p.unlink() or p.symlink_to(f / "build.json"), "is a link", f"{IN}/{PART}"),
    "an image called Parquet": (lambda _, p: p.write_bytes(PNG), "no readable Parquet", f"{IN}/{PART}"),
    "an image behind Parquet": (
        lambda _, p: p.write_bytes(p.read_bytes() + PNG), "no readable Parquet", f"{IN}/{PART}"
    ),
    "an image inside Parquet": (lambda _, p: insert_before_footer(p, PNG), OTHER, f"{IN}/{PART}"),
    "a bit that is turned inside Parquet": (lambda _, p: turn_a_bit(p), OTHER, f"{IN}/{PART}"),
    "Parquet that another program wrote": (lambda _, p: rewrite(p, lambda table: table), OTHER, f"{IN}/{PART}"),
    "JSON that cannot be read": (
        lambda f, _: (f / "croissant.json").write_text("{"), "cannot be read", "croissant.json"
    ),
    "a missing split": (lambda _, p: p.unlink(), "files are missing", f"{IN}/train"),
    "a missing part": (
        lambda _, p: p.rename(p.parent / PART.replace("of-00001", "of-00002")), "files are train-00000-of-00002",
        f"{IN}/train",
    ),
    "a row less": (lambda _, p: rewrite(p, lambda t: t.slice(1)), "has 19 rows", f"{IN}/train"),
}  # fmt: skip


@pytest.mark.parametrize("leak", FILES)
def test_a_file_that_does_not_belong_there_is_refused(copy_of, refused, leak):
    plant, reason, where = FILES[leak]
    name, folder = copy_of("rows")
    plant(folder, first_parquet(folder))
    error = refused(folder)
    assert reason in error.found
    assert error.where == f"{name}/{where}"


def test_rows_in_place_of_a_recipe_are_refused(copy_of, publications, refused):
    name, folder = copy_of("cxr-contrabench-chexpert")
    publication = publications[name]
    (part,) = publication.parts("chexpert_presence", "validation")
    (folder / "chexpert_presence").mkdir()
    shutil.copyfile(part, folder / "chexpert_presence" / part.name)
    assert "is a folder of another name" in refused(folder).found


def test_a_recipe_has_no_exports(copy_of, publications, refused):
    name, folder = copy_of("cxr-contrabench-chexpert")
    shutil.copyfile(publications[name].folder / "chexpert_lora_train/train.jsonl", folder / "train.jsonl")
    assert "is no file of this repository" in refused(folder).found


def test_a_manifest_with_a_row_less_is_refused(copy_of, refused):
    _, folder = copy_of("withheld")
    rewrite(first_parquet(folder), lambda table: table.slice(1))
    assert "rows" in refused(folder).found


class TestExports:
    """Were CheXpert open, its rows and its chat-format export would be published."""

    @pytest.fixture
    def open_chexpert(self, publications, tmp_path):
        publication = opened(publications["cxr-contrabench-chexpert"])
        return publication, stage(publication, tmp_path / "staged")

    def test_pass_as_built(self, open_chexpert):
        publication, folder = open_chexpert
        assert (folder / "chexpert_lora_train/train.jsonl").is_file()
        guard.check(folder, publication, [REPORT])

    def test_of_another_hash_are_refused(self, open_chexpert):
        publication, folder = open_chexpert
        append(folder / "chexpert_lora_train/train.jsonl", '{"id": "x"}\n')
        with pytest.raises(InputError, match=r"its hash is not that of build\.json"):
            guard.check(folder, publication, [])

    @pytest.mark.parametrize(
        ("line", "column", "reason"),
        [
            ('{"report": "x"}', "report", "is a text of 1 char"),
            ('{"pixels": [0, 255]}', "pixels", "is a text of 1 char"),
            ('{"images": ["/data/chexpert/view1.jpg"]}', "images", "an absolute path"),
        ],
    )
    def test_are_read_whatever_build_json_says(self, open_chexpert, line, column, reason):
        publication, folder = open_chexpert
        path = folder / "chexpert_lora_train/train.jsonl"
        append(path, line + "\n")
        exports = {"chexpert_lora_train/train.jsonl": hashlib.sha256(path.read_bytes()).hexdigest()}
        trusting = replace(publication, record={**publication.record, "exports": exports})
        with pytest.raises(InputError) as error:
            guard.check(folder, trusting, [])
        assert reason in error.value.found
        assert error.value.column == column
        assert error.value.row == len(path.read_text().splitlines())


class TestMasks:
    """HEAL-MedVQA's are not published; the columns of masks would be, were VinDr-CXR open."""

    @pytest.fixture
    def part(self, publications, tmp_path):
        publication = publications["heal-medvqa-vindr_cxr"]
        (path,) = publication.parts("vindr", "test")
        return shutil.copyfile(path, tmp_path / path.name), publication.built["vindr"]

    def test_pass(self, part):
        path, features = part
        leaks, values = tables.inspect(path, "x", features)
        assert leaks == []
        assert not any(value.column == "region.counts" for value in values)

    @pytest.mark.parametrize("counts", [base64.b64encode(image_bytes("PNG")).decode(), REPORT.text, ""])
    def test_that_are_none_are_refused(self, part, counts):
        path, features = part
        replace_value(path, 4, "region.counts", counts)
        (leak,), _ = tables.inspect(path, "x", features)
        assert "is no mask" in leak.found
        assert (leak.row, leak.column) == (4, "region.counts")
