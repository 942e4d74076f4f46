"""The guard on identifiers that a licence withholds: found in texts, in names and as numbers."""

from __future__ import annotations

import pytest

from medfaith.cards.publish import guard
from tests.cards.guard.scenes import append, first_parquet, put_json, replace_value

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
def test_an_identifier_that_is_withheld_is_refused(copy_of, publications, refused, place, column):
    plant, where = PLACES[place]
    name, folder = copy_of("withheld")
    _, _, table = next(publications[name].tables())
    row = table.to_pylist()[0]
    key = row["image"]["key"]
    token = {"image": key, "dicom": key.split("/")[-1].removesuffix(".jpg")}.get(column) or row[column]
    plant(folder, token)
    error = refused(folder)
    assert "holds the identifier" in error.found
    assert where in error.where


def test_an_identifier_as_a_number_is_refused(copy_of, publications, refused):
    name, folder = copy_of("withheld")
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


def test_identifiers_of_an_open_source_pass(copy_of, publications):
    name, folder = copy_of("rows")
    append(folder / "README.md", "\n`openi/CXR37/report_absence/pleural_effusion`, `CXR37_IM-1220-1001.png`\n")
    guard.check(folder, publications[name], [])
