"""Rows for lm-eval: images opened on demand, and what happens when one is missing or broken."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from PIL import Image

from medfaith.loaders.errors import ImageError, InputError, MedfaithError, MissingSourceError
from medfaith.tasks.rows import LazyImages, load, repository_path

REPOSITORY = "cxr-contrabench-chexpert"
WHICH = {"config": "chexpert_presence", "split": "validation"}


@pytest.fixture
def chexpert_root(phantom_roots, tmp_path) -> Path:
    return Path(shutil.copytree(phantom_roots["chexpert"], tmp_path / "chexpert"))


def first_image(rows, root: Path) -> Path:
    source, key = str(rows[0]["images"]).split()[0].split(":")
    assert source == "chexpert"
    return next(root.rglob(key))


def test_images_are_opened_when_they_are_taken(phantom_build, chexpert_root):
    rows = load(REPOSITORY, data=str(phantom_build), roots={"chexpert": str(chexpert_root)}, **WHICH)["test"]
    lazy = rows[0]["images"]
    assert isinstance(lazy, LazyImages)
    assert [image.mode for image in lazy] == ["RGB"] * len(lazy)
    assert (
        lazy[:1][0].tobytes()
        == lazy[0].tobytes()
        == Image.open(first_image(rows, chexpert_root)).convert("RGB").tobytes()
    )
    assert str(chexpert_root) not in str(lazy)  # what the sample log keeps names no place on this machine


@pytest.mark.parametrize("form", ["build folder", "repository"])
def test_data_may_be_the_build_or_one_repository(phantom_build, form):
    data = phantom_build if form == "build folder" else phantom_build / REPOSITORY
    assert len(load(REPOSITORY, data=str(data), **WHICH)["test"]) > 10


def test_a_folder_without_the_repository_is_not_taken_for_an_organisation(phantom_build, tmp_path):
    with pytest.raises(InputError, match="holds no heal-medvqa-vindr_cxr") as error:
        repository_path("heal-medvqa-vindr_cxr", str(phantom_build))
    assert "cxr-contrabench-chexpert, cxr-contrabench-openi" in str(error.value)
    with pytest.raises(InputError, match="no build"):
        repository_path("heal-medvqa-vindr_cxr", str(tmp_path))
    assert repository_path("x", "clinic") == "clinic/x"


def test_metadata_of_lm_eval_is_accepted(phantom_build):
    assert load(REPOSITORY, data=str(phantom_build), version=1.0, config_source="x", pretrained="y", **WHICH)["test"]


def test_a_missing_image_stops_before_the_first_answer_and_names_the_row(phantom_build, chexpert_root):
    rows = load(REPOSITORY, data=str(phantom_build), roots={"chexpert": str(chexpert_root)}, **WHICH)["test"]
    first_image(rows, chexpert_root).unlink()
    with pytest.raises(ImageError, match=f"row {rows[0]['id']}") as error:
        load(REPOSITORY, data=str(phantom_build), roots={"chexpert": str(chexpert_root)}, **WHICH)
    assert "--skip-missing-images" in str(error.value)


def test_a_truncated_image_stops_when_it_is_opened_and_names_the_row(phantom_build, chexpert_root):
    rows = load(REPOSITORY, data=str(phantom_build), roots={"chexpert": str(chexpert_root)}, **WHICH)["test"]
    path = first_image(rows, chexpert_root)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    rows = load(REPOSITORY, data=str(phantom_build), roots={"chexpert": str(chexpert_root)}, **WHICH)["test"]
    with pytest.raises(ImageError, match=f"row {rows[0]['id']}"):
        list(rows[0]["images"])


@pytest.mark.parametrize("damage", ["missing", "truncated"])
def test_rows_without_their_images_are_left_out_and_counted_on_request(phantom_build, chexpert_root, damage):
    arguments = {"data": str(phantom_build), "roots": {"chexpert": str(chexpert_root)}, **WHICH}
    before = load(REPOSITORY, **arguments)["test"]
    path = first_image(before, chexpert_root)
    if damage == "missing":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:200])
    lost = [row["id"] for row in before if path.as_posix().endswith(str(row["images"]).split()[0].split(":")[1])]
    after = load(REPOSITORY, skip_missing_images=True, **arguments)["test"]
    assert len(after) == len(before) - len(lost)
    assert set(after["n_rows_skipped"]) == {len(lost)}
    assert not set(lost) & set(after["id"])


def test_no_row_left_is_an_error(phantom_build, chexpert_root):
    shutil.rmtree(next(chexpert_root.rglob("valid")))
    with pytest.raises(ImageError, match="no row is left"):
        load(
            REPOSITORY,
            data=str(phantom_build),
            roots={"chexpert": str(chexpert_root)},
            skip_missing_images=True,
            **WHICH,
        )


def test_without_a_root_rows_load_and_an_image_says_how_to_get_access(phantom_build):
    rows = load(REPOSITORY, data=str(phantom_build), **WHICH)["test"]
    with pytest.raises(MissingSourceError, match="how to get it"):
        rows[0]["images"][0]


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"config": "chexpert_presence", "split": "validation"}, MedfaithError, "no data was named"),
        ({"config": "chexpert_presence", "split": "test", "data": "BUILD"}, InputError, "cannot be loaded"),
        ({"config": "nothing", "split": "train", "data": "BUILD"}, InputError, "cannot be loaded"),
    ],
)
def test_what_cannot_be_loaded_is_explained(phantom_build, arguments, error, words):
    arguments = {k: str(phantom_build) if v == "BUILD" else v for k, v in arguments.items()}
    with pytest.raises(error, match=words):
        load(REPOSITORY, **arguments)
