"""The guard on staged phantom builds: each leak, planted where a real mistake would leave it, is refused and named."""

from __future__ import annotations

import base64
import hashlib
import io
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pydicom
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from medfaith.builders import cxr_contrabench, heal_medvqa, wrong_lung
from medfaith.cards import policy
from medfaith.cards.publication import read
from medfaith.cards.publish import guard, reports
from medfaith.cards.publish.guard import Text, tables
from medfaith.loaders import openi, phantom, sources
from medfaith.loaders.errors import InputError

from .guard_scenes import (
    append,
    first_parquet,
    insert_before_footer,
    opened,
    put_json,
    replace_value,
    rewrite,
    stage,
    turn_a_bit,
)

REPORT = Text("report CXR9", "Stable cardiomegaly. There is a small left pleural effusion with adjacent atelectasis.")
QUOTE = "there is a small LEFT pleural effusion, with adjacent"


@pytest.fixture(scope="module")
def publications(tmp_path_factory, phantom_build, phantom_surgx_build, phantom_wrong_lung_roots):
    folder = tmp_path_factory.mktemp("guard")
    needed = ("chexstruct", "rexvqa", *heal_medvqa.NEEDS["vindr"])
    roots = phantom.write(folder / "phantom", seed=0, sources=needed)
    folders = [*phantom_build.glob("cxr-*"), phantom_surgx_build / "surgxbench-cholect45"]
    folders += [*cxr_contrabench.build(roots, folder / "data")]
    folders += heal_medvqa.build(roots, folder / "data", configs=("vindr",))
    folders += wrong_lung.build(phantom_wrong_lung_roots, folder / "data", configs=("gold",))
    return {path.name: read(path) for path in folders}


@pytest.fixture(scope="module")
def stagings(publications, tmp_path_factory):
    folder = tmp_path_factory.mktemp("staged")
    return {name: stage(publication, folder / name) for name, publication in publications.items()}


@pytest.fixture
def staged(stagings, tmp_path):
    """A staging of its own, of the policy that is asked for."""
    names = {
        "rows": "cxr-contrabench-openi",
        "recipe": "surgxbench-cholect45",
        "withheld": "wrong-lung-chest_imagenome",
    }

    def copy(kind):
        name = names.get(kind, kind)
        return name, shutil.copytree(stagings[name], tmp_path / name)

    return copy


@pytest.fixture
def refused(publications):
    def check(staged, *texts):
        with pytest.raises(InputError) as error:
            guard.check(staged, publications[staged.name], texts)
        return error.value

    return check


NAMES = [
    "cxr-contrabench-chexpert", "cxr-contrabench-openi", "cxr-contrabench-chexstruct", "cxr-contrabench-rexvqa",
    "heal-medvqa-vindr_cxr", "surgxbench-cholect45", "wrong-lung-chest_imagenome",
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_what_a_build_publishes_passes(stagings, publications, name):
    guard.check(stagings[name], publications[name], [REPORT])


def test_the_policies_are_those_of_the_table(publications):
    rows = {name for name, publication in publications.items() if publication.policy == policy.ROWS}
    assert sorted(publications) == sorted(NAMES)
    assert rows == {"cxr-contrabench-openi", "cxr-contrabench-chexstruct"}


def test_the_reports_that_rows_were_made_of_are_not_quoted(stagings, publications, phantom_roots):
    name = "cxr-contrabench-openi"
    reports = openi.read_reports(phantom_roots["openi"])
    texts = (Text(report.uid, f"{report.findings}\n{report.impression}") for report in reports)
    guard.check(stagings[name], publications[name], texts)


def test_the_rows_of_the_real_reports_quote_none_of_them(tmp_path):
    roots = sources.resolve_roots({"openi": "torchxrayvision"}, environ={})
    (folder,) = cxr_contrabench.build(roots, tmp_path / "data")
    publication = read(folder)
    texts = list(reports.texts(publication, roots))
    assert len(texts) == 3_955
    guard.check(stage(publication, tmp_path / "staged"), publication, texts)


def image_bytes(kind: str) -> bytes:
    pixels = Image.fromarray(np.random.default_rng(0).integers(0, 256, (12, 12), np.uint8))
    pixels.save(file := io.BytesIO(), kind)
    return file.getvalue()


# What is written into a text file, and what the guard says of it.
TEXTS = {
    "thumbnail": (
        f"![chest](data:image/png;base64,{base64.b64encode(image_bytes('PNG')).decode()})",
        "PNG data in base64",
    ),
    "base64 without a data URI": (base64.b64encode(image_bytes("JPEG")).decode(), "JPEG data in base64"),
    "url-safe base64": (base64.urlsafe_b64encode(b"\xff" * 4 + image_bytes("JPEG")).decode(), "JPEG data in base64"),
    "hexadecimal": (image_bytes("GIF").hex(), "GIF data in hexadecimal"),
    "bytes as latin-1": (image_bytes("TIFF").decode("latin-1"), "TIFF data"),
    "repr": (repr(image_bytes("PNG")), "PNG data with escapes"),
    "list of pixels": (str(list(range(100))), "a list of numbers as of pixels"),
    "absolute path": ("built from /data/licensed/openi", "an absolute path: '/data/licensed/openi'"),
    "Windows path": (r"D:\CheXpert-v1.0\train.csv", "a path on a Windows machine"),
    "UNC path": (r"\\server\share\openi", "a path on a server"),
    "home folder": ("see ~/openi", "a path of a home folder"),
    "file address": ("file:///openi/CXR1.png", "the address of a file"),
    "sentence of a report": (f"For example: {QUOTE}.", "quotes report CXR9"),
}


@pytest.mark.parametrize("kind", ["rows", "recipe", "withheld"])
@pytest.mark.parametrize("leak", TEXTS)
def test_a_leak_in_the_card_is_refused(staged, refused, kind, leak):
    text, reason = TEXTS[leak]
    name, folder = staged(kind)
    line = len((folder / "README.md").read_text().splitlines()) + 2
    append(folder / "README.md", f"\n{text}\n")
    error = refused(folder, REPORT)
    assert reason in error.found
    assert error.where in (f"{name}/README.md, line {line}", f"{name}/README.md, line 1")
    assert error.action


@pytest.mark.parametrize("file", ["build.json", "croissant.json"])
@pytest.mark.parametrize("leak", TEXTS)
def test_a_leak_in_a_json_file_is_refused(staged, refused, file, leak):
    text, reason = TEXTS[leak]
    name, folder = staged("recipe")
    put_json(folder / file, {"description": {"more": ["harmless", text]}})
    error = refused(folder, REPORT)
    assert reason.removesuffix(" with escapes") in error.found
    assert (error.where, error.column) == (f"{name}/{file}", "description.more")


def test_a_leak_in_the_name_of_a_json_value_is_refused(staged, refused):
    _, folder = staged("recipe")
    put_json(folder / "build.json", {"sources": {"openi": {"files": {"/home/user/openi.tgz": "0"}}}})
    assert "an absolute path" in refused(folder).found


def test_a_json_value_behind_another_of_its_name_is_refused(staged, refused):
    _, folder = staged("recipe")
    (folder / "croissant.json").write_text('{"url": "/home/user/openi", "url": "https://huggingface.co"}')
    assert "an absolute path" in refused(folder).found


# Column of openi_report_absence, value, and what the guard says of it.
VALUES = {
    "a sentence of the report in cue": (
        "cue",
        "There is a small left pleural effusion with adjacent atelectasis.",
        "65 char",
    ),
    "eight words of the report": ("question", QUOTE, "quotes report CXR9"),
    "a sentence in the question": ("question", "Which finding is seen? " + REPORT.text, "is a text of"),
    "a long option": ("options", "No small left pleural effusion with adjacent atelectasis", "is a text of"),
    "an absolute key": ("images.key", "/data/openi/CXR1.png", "an absolute path"),
    "a key that leads out": ("images.key", "NLMCXR_png/../CXR1.png", "leads out of its folder"),
    "a key with only two dots": ("images.key", "..", "leads out of its folder"),
    "a Windows key": ("images.key", r"C:\openi\CXR1.png", "a Windows machine"),
    "an image in a key": ("images.key", image_bytes("PNG").decode("latin-1"), "PNG data"),
    "base64 in the finding": ("finding", base64.b64encode(image_bytes("JPEG")).decode(), "JPEG data in base64"),
}


@pytest.mark.parametrize("leak", VALUES)
def test_a_leak_in_a_value_is_refused_with_its_row_and_column(staged, refused, leak):
    column, value, reason = VALUES[leak]
    name, folder = staged("rows")
    replace_value(folder / "openi_report_absence/test-00000-of-00001.parquet", 7, column, value)
    error = refused(folder, REPORT)
    assert reason in error.found
    assert error.where == f"{name}/openi_report_absence/test-00000-of-00001.parquet"
    assert (error.row, error.column) == (7, column)
    assert len(error.found) < 200


MANIFEST_VALUES = {
    "no hash": ("recipe", "sha256", "edema", "is no hash"),
    "a report in place of an id": ("recipe", "id", REPORT.text * 3, "is a text of"),
    "a long name": ("recipe", "config", "x" * 101, "is a text of 101"),
    "an id where hashes stand": ("withheld", "id", "wrong-lung:50666899|1", "is no hash"),
}


@pytest.mark.parametrize("leak", MANIFEST_VALUES)
def test_a_manifest_holds_names_and_hashes_only(staged, refused, leak):
    kind, column, value, reason = MANIFEST_VALUES[leak]
    _, folder = staged(kind)
    replace_value(folder / "manifest/manifest-00000-of-00001.parquet", 3, column, value)
    error = refused(folder)
    assert reason in error.found
    assert (error.row, error.column) == (3, column)


def with_column(name, values):
    return lambda table: table.append_column(name, pa.array([values] * table.num_rows))


def cast(**types):
    """Columns of another type."""

    def change(table):
        for name, kind in types.items():
            i = table.column_names.index(name)
            table = table.set_column(i, name, table[name].cast(kind))
        return table

    return change


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
    "bytes in place of text": (cast(cue=pa.binary()), "holds bytes", "cue"),
    "large bytes": (cast(cue=pa.large_binary()), "holds bytes", "cue"),
    "bytes in a dictionary": (lambda t: cast(cue=pa.binary())(t).set_column(
        t.column_names.index("cue"), "cue", t["cue"].cast(pa.binary()).dictionary_encode()), "holds bytes", "cue"),
    "large_string": (cast(cue=pa.large_string()), "type large_string", "cue"),
    "dictionary": (
        lambda t: t.set_column(t.column_names.index("cue"), "cue", t["cue"].dictionary_encode()), "dictionary", "cue"
    ),
    "a column more": (with_column("report", "x"), "report", "report"),
    "a column less": (lambda t: t.drop_columns(["cue"]), "columns id", None),
    "another order": (lambda t: t.select(t.column_names[::-1]), "columns cue", None),
    "a wider number": (cast(answer=pa.int64()), "type int64", "answer"),
    "metadata of pandas": (pandas_metadata, "has metadata 'pandas'", None),
    "metadata of a column": (field_metadata, "has metadata 'comment'", "cue"),
    "features with an image": (other_features, "has other metadata huggingface", None),
}  # fmt: skip


@pytest.mark.parametrize("leak", SCHEMAS)
def test_parquet_of_another_form_is_refused(staged, refused, leak):
    change, reason, column = SCHEMAS[leak]
    name, folder = staged("rows")
    path = first_parquet(folder)
    rewrite(path, change)
    error = refused(folder)
    assert reason in error.found
    assert error.where == f"{name}/{path.relative_to(folder)}"
    assert error.column == column


def test_bytes_that_are_only_called_text_are_refused(staged, refused):
    """Arrow's own schema in the file says that `cue` is text."""
    _, folder = staged("rows")
    path = first_parquet(folder)
    schema = pq.read_schema(path)
    said = {**schema.metadata, b"ARROW:schema": base64.b64encode(schema.serialize().to_pybytes())}
    rewrite(path, lambda t: cast(cue=pa.binary())(t).replace_schema_metadata(said), store_schema=False)
    error = refused(folder)
    assert "holds bytes" in error.found
    assert error.column == "cue"


def dicom(path):
    shutil.copyfile(pydicom.data.get_testdata_file("CT_small.dcm", download=False), path)  # pyright: ignore[reportAttributeAccessIssue]


FILES = {
    "a DICOM file": (lambda folder: dicom(folder / "CXR1.dcm"), "is DICOM data", "CXR1.dcm"),
    "an image beside the Parquet": (
        lambda folder: (folder / "openi_report_absence/CXR1.png").write_bytes(image_bytes("PNG")),
        "is PNG data", "openi_report_absence/CXR1.png",
    ),
    "an image called README.md": (
        lambda folder: (folder / "README.md").write_bytes(image_bytes("JPEG")), "is JPEG data", "README.md"
    ),
    "another text file": (lambda folder: (folder / "notes.txt").write_text("x"), "is no file of this", "notes.txt"),
    "a hidden file": (lambda folder: (folder / ".cache").write_text("x"), "is no file of this", ".cache"),
    "a folder": (lambda folder: (folder / "images").mkdir(), "is a folder of another name", "images"),
    "a split that is not named": (
        lambda folder: first_parquet(folder).rename(folder / "fewshot_absence/test-00000-of-00001.parquet"),
        "is no file of this", "fewshot_absence/test-00000-of-00001.parquet",
    ),
    "a link": (lambda folder: (folder / "croissant.json").unlink() or
               (folder / "croissant.json").symlink_to(folder / "build.json"), "is a link", "croissant.json"),
    "an image called Parquet": (
        lambda folder: first_parquet(folder).write_bytes(image_bytes("PNG")),
        "no readable Parquet", "fewshot_absence/train-00000-of-00001.parquet",
    ),
    "an image behind Parquet": (
        lambda folder: first_parquet(folder).write_bytes(first_parquet(folder).read_bytes() + image_bytes("PNG")),
        "no readable Parquet", "fewshot_absence/train-00000-of-00001.parquet",
    ),
    "an image inside Parquet": (
        lambda folder: insert_before_footer(first_parquet(folder), image_bytes("PNG")),
        "holds other bytes than its rows make", "fewshot_absence/train-00000-of-00001.parquet",
    ),
    "a bit that is turned inside Parquet": (
        lambda folder: turn_a_bit(first_parquet(folder)),
        "holds other bytes than its rows make", "fewshot_absence/train-00000-of-00001.parquet",
    ),
    "Parquet that another program wrote": (
        lambda folder: rewrite(first_parquet(folder), lambda table: table),
        "holds other bytes than its rows make", "fewshot_absence/train-00000-of-00001.parquet",
    ),
    "JSON that cannot be read": (
        lambda folder: (folder / "croissant.json").write_text("{"), "cannot be read", "croissant.json"
    ),
    "a missing split": (lambda folder: first_parquet(folder).unlink(), "files are missing", "fewshot_absence/train"),
    "a missing part": (
        lambda folder: first_parquet(folder).rename(folder / "fewshot_absence/train-00000-of-00002.parquet"),
        "files are train-00000-of-00002", "fewshot_absence/train",
    ),
    "a row less": (
        lambda folder: rewrite(first_parquet(folder), lambda t: t.slice(1)), "has 19 rows", "fewshot_absence/train"
    ),
}  # fmt: skip


@pytest.mark.parametrize("leak", FILES)
def test_a_file_that_does_not_belong_there_is_refused(staged, refused, leak):
    plant, reason, where = FILES[leak]
    name, folder = staged("rows")
    plant(folder)
    error = refused(folder)
    assert reason in error.found
    assert error.where == f"{name}/{where}"


def test_rows_in_place_of_a_recipe_are_refused(staged, publications, refused):
    name, folder = staged("cxr-contrabench-chexpert")
    publication = publications[name]
    (part,) = publication.parts("chexpert_presence", "validation")
    (folder / "chexpert_presence").mkdir()
    shutil.copyfile(part, folder / "chexpert_presence" / part.name)
    assert "is a folder of another name" in refused(folder).found


def test_a_recipe_has_no_exports(staged, publications, refused):
    name, folder = staged("cxr-contrabench-chexpert")
    shutil.copyfile(publications[name].folder / "chexpert_lora_train/train.jsonl", folder / "train.jsonl")
    assert "is no file of this repository" in refused(folder).found


def test_a_manifest_with_a_row_less_is_refused(staged, refused):
    _, folder = staged("withheld")
    rewrite(first_parquet(folder), lambda table: table.slice(1))
    assert "rows" in refused(folder).found


# Where an identifier of That's the Wrong Lung! would get to: text, JSON text and name, JSON number.
PLACES = {
    "the card": (lambda folder, token: append(folder / "README.md", f"\nFor example `{token}`.\n"), "README.md"),
    "a text": (lambda folder, token: put_json(folder / "build.json", {"x": f"files/{token}.jpg"}), "build.json"),
    "a name": (lambda folder, token: put_json(folder / "build.json", {token: 1}), "build.json"),
    "a list": (lambda folder, token: put_json(folder / "croissant.json", {"x": [token]}), "croissant.json"),
    "a value": (lambda folder, token: replace_value(first_parquet(folder), 2, "config", token), "manifest"),
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("column", ["id", "study_id", "patient_id", "image", "dicom"])
def test_an_identifier_that_is_withheld_is_refused(staged, publications, refused, place, column):
    plant, where = PLACES[place]
    name, folder = staged("withheld")
    _, _, table = next(publications[name].tables())
    row = table.to_pylist()[0]
    key = row["image"]["key"]
    token = {"image": key, "dicom": key.split("/")[-1].removesuffix(".jpg")}.get(column) or row[column]
    plant(folder, token)
    error = refused(folder)
    assert "holds the identifier" in error.found
    assert where in error.where


def test_an_identifier_as_a_number_is_refused(staged, publications, refused):
    name, folder = staged("withheld")
    _, _, table = next(publications[name].tables())
    put_json(folder / "build.json", {"studies": [int(table["study_id"][0].as_py())]})
    assert "holds the identifier" in refused(folder).found


def test_a_size_that_equals_an_identifier_passes(stagings, publications):
    """The header of the staged card says `num_bytes: 50666899`, which is a study, too."""
    name = "wrong-lung-chest_imagenome"
    _, _, table = next(publications[name].tables())
    assert "50666899" in table["study_id"].to_pylist()
    assert "num_bytes: 50666899" in (stagings[name] / "README.md").read_text()
    guard.check(stagings[name], publications[name], [])


def test_identifiers_of_an_open_source_pass(staged, publications):
    name, folder = staged("rows")
    append(folder / "README.md", "\n`openi/CXR37/report_absence/pleural_effusion`, `CXR37_IM-1220-1001.png`\n")
    guard.check(folder, publications[name], [])


def test_rows_of_a_benchmark_without_limits_are_refused(publications, stagings):
    name = "heal-medvqa-vindr_cxr"
    with pytest.raises(InputError, match="have no limits to their texts"):
        guard.check(stagings[name], opened(publications[name]), [])


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


def test_the_message_counts_the_other_leaks(staged, refused):
    _, folder = staged("rows")
    (folder / "a.txt").write_text("x")
    (folder / "b.txt").write_text("x")
    append(folder / "README.md", "\n/home/user/openi\n")
    error = refused(folder)
    assert error.where.endswith("a.txt")
    assert error.found.endswith("(and 2 more)")


COLUMNS = [
    "id", "protocol", "polarity", "study_id", "images.source", "images.key", "images.view", "question", "options",
    "finding", "negation_form", "question_form", "layout", "cue",
]  # fmt: skip
WORDS = st.lists(st.sampled_from(REPORT.text.lower().split()), max_size=5).map(" ".join)


@settings(max_examples=25, deadline=None)
@given(st.sampled_from(COLUMNS), st.integers(1, 20), WORDS, WORDS, st.integers(0, 4))
def test_eight_words_of_a_report_are_refused_in_any_value(stagings, publications, column, row, before, after, start):
    quote = " ".join(REPORT.text.split()[start : start + 8])
    _refuses(stagings, publications, row, column, f"{before} {quote} {after}")


@settings(max_examples=25, deadline=None)
@given(st.sampled_from(COLUMNS), st.integers(1, 20), st.text("ab/_ .", max_size=9), st.text("ab/_ .", max_size=9))
def test_a_png_is_refused_in_any_value(stagings, publications, column, row, before, after):
    for data in (image_bytes("PNG").decode("latin-1"), base64.b64encode(image_bytes("PNG")).decode()):
        _refuses(stagings, publications, row, column, before + data + after)


def _refuses(stagings, publications, row, column, value):
    name = "cxr-contrabench-openi"
    with tempfile.TemporaryDirectory() as temporary:
        folder = shutil.copytree(stagings[name], Path(temporary) / name)
        replace_value(folder / "fewshot_absence/train-00000-of-00001.parquet", row, column, value)
        with pytest.raises(InputError) as error:
            guard.check(folder, publications[name], [REPORT])
    assert (error.value.row, error.value.column) == (row, column)
