"""HEAL-MedVQA documents: order of originals and partners, lazily edited images, and errors that stop a run."""

from __future__ import annotations

import itertools
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pydicom
import pytest
from pycocotools import mask as coco
from scipy import ndimage

from medfaith.evaluate_metrics.reading.diseases import extract_labels
from medfaith.loaders import images
from medfaith.loaders.errors import ImageError, InputError
from medfaith.tasks.controls.transplant import FEATHER
from medfaith.tasks.heal import prompts
from medfaith.tasks.heal.rows import DOCUMENT, load
from medfaith.tasks.lazy_images import LazyImages
from tests.support.builders.files import edited, rows_of
from tests.support.tiers import keep_quick

REPOSITORIES = {"vindr": "heal-medvqa-vindr_cxr", "mimic": "heal-medvqa-mimic_cxr"}
ASKED = ("closed", "open", "tpt", "vpt")


def load_documents(config: str, ask: str, data: Path, roots: dict[str, Path] | None = None, **options: Any) -> Any:
    places = {name: str(root) for name, root in (roots or {}).items()}
    return load(REPOSITORIES[config], config, ask, split="test", data=str(data), roots=places, **options)["test"]


def read_rows(config: str, data: Path) -> dict[str, dict[str, Any]]:
    """Read the stored rows of one config, by id."""
    return {row["id"]: row for row in rows_of(data / REPOSITORIES[config.partition("_")[0]], config)}


@pytest.fixture
def roots(phantom_heal_roots, tmp_path) -> dict[str, Path]:
    """A copy of VinDr-CXR that a test may damage."""
    return {"vindr_cxr": Path(shutil.copytree(phantom_heal_roots["vindr_cxr"], tmp_path / "vindr_cxr"))}


@pytest.mark.parametrize("config", REPOSITORIES)
@pytest.mark.parametrize("ask", ["closed", "open"])
def test_questions_are_those_of_the_build_in_its_order(config, ask, phantom_heal_build):
    rows = [row for row in read_rows(config, phantom_heal_build).values() if row["question_type"] == ask]
    docs = load_documents(config, ask, phantom_heal_build)
    assert [doc["id"] for doc in docs] == [row["id"] for row in rows]
    for doc, row in zip(docs, rows, strict=True):
        assert (doc["question"], doc["anatomy"], doc["diseases"]) == (row["question"], row["anatomy"], row["diseases"])
        assert str(doc["images"]) == f"{row['image']['source']}:{row['image']['key']}"
        assert prompts.prompt(doc).startswith(f"<image>{row['question']} ")
        if ask == "closed":
            assert prompts.target(doc) == row["answer"]
        else:
            assert extract_labels(prompts.target(doc)).labels == set(row["diseases"])


@pytest.mark.parametrize("config", REPOSITORIES)
@pytest.mark.parametrize("ask", ["tpt", "vpt"])
def test_partners_stand_behind_their_originals_and_their_gold_is_no(config, ask, phantom_heal_build):
    rows, partners = read_rows(config, phantom_heal_build), read_rows(f"{config}_{ask}", phantom_heal_build)
    docs = list(load_documents(config, ask, phantom_heal_build))
    assert {doc["id"] for doc in docs} == {*partners, *(row["original_id"] for row in partners.values())}
    groups = [list(group) for _, group in itertools.groupby(docs, key=lambda doc: doc["original_id"])]
    assert len(groups) == len({doc["original_id"] for doc in docs}) > 10
    for original, *changed in groups:
        facts = original["kind"], original["id"], prompts.target(original)
        assert facts == ("original", original["original_id"], "Yes")
        row = rows[original["id"]]
        assert row["kind"] == "positive"
        assert changed
        for doc in changed:
            assert partners[doc["id"]]["original_id"] == original["id"]
            assert doc["kind"] in (("anatomy", "disease") if ask == "tpt" else ("region",))
            assert prompts.target(doc) == "No"
            assert (str(doc["images"]), doc["image_id"]) == (str(original["images"]), row["image"]["key"])
            if ask == "vpt":
                assert prompts.prompt(doc) == prompts.prompt(original)
                continue
            partner = partners[doc["id"]]
            swapped = (partner["question"], partner["anatomy"], [partner["disease"]])
            assert (doc["question"], doc["anatomy"], doc["diseases"]) == swapped
            assert prompts.prompt(doc) != prompts.prompt(original)


@pytest.mark.parametrize("ask", ASKED)
def test_documents_hold_no_mask_no_path_and_no_pixel(ask, phantom_heal_build, phantom_heal_roots):
    docs = list(load_documents("vindr", ask, phantom_heal_build, phantom_heal_roots))
    logged = json.dumps(docs, default=str)
    more = "images images_shown n_rows_skipped n_images_sent answer_outcome answer_end views prompt region"
    columns = {*DOCUMENT, *more.split()}  # logs replace the mask by a marker
    assert {name for doc in docs for name in doc} == columns
    assert "counts" not in logged
    assert str(phantom_heal_roots["vindr_cxr"].parent) not in logged


def iterate_pairs(docs: Any) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Iterate over (original, partner) in VPT documents."""
    original: dict[str, Any] = {}
    for doc in docs:
        if doc["kind"] == "original":
            original = doc
        else:
            yield original, doc


def read_pixels(doc: dict[str, Any]) -> np.ndarray:
    (image,) = doc["images"]
    assert isinstance(doc["images"], LazyImages)
    assert image.mode == "RGB"
    return np.asarray(image)


@pytest.mark.parametrize("config", REPOSITORIES)
def test_a_partners_image_is_the_originals_but_for_its_region(config, phantom_heal_build, phantom_heal_roots):
    rows, partners = read_rows(config, phantom_heal_build), read_rows(f"{config}_vpt", phantom_heal_build)
    document_pairs = list(iterate_pairs(load_documents(config, "vpt", phantom_heal_build, phantom_heal_roots)))
    assert len(document_pairs) == len(partners)
    for original, partner in document_pairs:
        row, region = rows[original["id"]], partners[partner["id"]]["region"]
        before, after = read_pixels(original), read_pixels(partner)
        assert np.array_equal(before, np.asarray(images.open_image(row["image"], phantom_heal_roots)))
        encoded: Any = {**region, "counts": region["counts"].encode()}
        mask = coco.decode(encoded).astype(bool)
        assert region == row["region"]
        changed = (before != after).any(axis=2)
        height, width = (np.ptp(at) + 1 for at in np.nonzero(mask))
        reach = max(1, round(FEATHER * (height * width) ** 0.5))
        near: Any = ndimage.binary_dilation(mask, np.ones((3, 3)), iterations=reach)
        assert not changed[~near].any()
        assert changed[mask].mean() > 0.5


def test_an_edited_image_is_the_same_whenever_and_however_it_is_taken(phantom_heal_build, phantom_heal_roots):
    partners = [load_documents("vindr", "vpt", phantom_heal_build, phantom_heal_roots)[1]["images"] for _ in range(2)]
    copies = [image for lazy in partners for image in (lazy[0], *lazy[:1], *lazy)]
    assert len({image.tobytes() for image in copies}) == 1
    assert [len(lazy) for lazy in partners] == [1, 1]


def find_mere_donor(data: Path) -> tuple[str, list[str]]:
    """Find a donor image without a VPT question of its own: its key, and the ids of its partners."""
    lent = {row_id: row["donor"]["key"] for row_id, row in read_rows("vindr_vpt", data).items()}
    image_ids = {doc["image_id"] for doc in load_documents("vindr", "vpt", data)}
    key = next(key for key in lent.values() if key not in image_ids)
    return key, [row_id for row_id, donor in lent.items() if donor == key]


def test_a_missing_donor_stops_before_the_first_answer_and_names_row_and_image(phantom_heal_build, roots):
    key, borrowers = find_mere_donor(phantom_heal_build)
    (roots["vindr_cxr"] / key).unlink()
    with pytest.raises(ImageError) as error:
        load_documents("vindr", "vpt", phantom_heal_build, roots)
    assert f"row {borrowers[0]}: image {key!r}" in str(error.value)
    assert "--skip-missing-images" in str(error.value)
    assert len(load_documents("vindr", "tpt", phantom_heal_build, roots)) > 10  # TPT needs no donors


@pytest.mark.parametrize(
    ("ask", "damage"),
    keep_quick([("vpt", "missing"), ("vpt", "truncated"), ("tpt", "missing")], lambda case: case != ("vpt", "missing")),
)
def test_rows_without_a_donor_or_without_their_image_are_left_out_and_counted(ask, damage, phantom_heal_build, roots):
    """In TPT, a missing image of an original removes its partners, too."""
    before = list(load_documents("vindr", ask, phantom_heal_build))
    key, lost = find_mere_donor(phantom_heal_build)
    if ask == "tpt":
        key = before[0]["image_id"]
        lost = [doc["id"] for doc in before if doc["image_id"] == key]
    path = roots["vindr_cxr"] / key
    if damage == "missing":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:1000])
    after = load_documents("vindr", ask, phantom_heal_build, roots, skip_missing_images=True)
    assert set(after["n_rows_skipped"]) == {len(lost)}
    assert [doc["id"] for doc in after] == [doc["id"] for doc in before if doc["id"] not in lost]


def resize(path: Path) -> tuple[int, int]:
    """Halve a DICOM image in place and return its new (width, height)."""
    dataset = pydicom.dcmread(path)
    pixels = dataset.pixel_array[::2, ::2]
    dataset.Rows, dataset.Columns = pixels.shape
    dataset.PixelData = pixels.tobytes() + b"\0" * (pixels.nbytes % 2)
    dataset.save_as(path)
    return pixels.shape[1], pixels.shape[0]


@pytest.mark.parametrize("skip", [False, True], ids=["", "skip"])
@pytest.mark.parametrize("which", ["image", "donor"])
def test_a_resized_copy_is_refused_where_masks_are_used(which, skip, phantom_heal_build, roots):
    """The error precedes the first answer, and `skip_missing_images` does not skip the row."""
    row_id, partner = next(iter(read_rows("vindr_vpt", phantom_heal_build).items()))
    image, donor = read_rows("vindr", phantom_heal_build)[partner["original_id"]]["image"], partner["donor"]
    key = image["key"] if which == "image" else donor["key"]
    width, height = resize(roots["vindr_cxr"] / key)
    with pytest.raises(ImageError) as error:
        load_documents("vindr", "vpt", phantom_heal_build, roots, skip_missing_images=skip)
    assert f"image {key!r} of source 'vindr_cxr': {width} x {height} pixels; expected" in str(error.value)
    assert f"row {row_id}: " in str(error.value)
    assert "use the source's original images" in str(error.value)


@pytest.mark.parametrize("ask", ["open", "tpt"])
def test_a_resized_copy_serves_questions_without_masks(ask, phantom_heal_build, roots):
    for path in roots["vindr_cxr"].glob("test/*.dicom"):
        resize(path)
    docs = load_documents("vindr", ask, phantom_heal_build, roots)
    assert all(len(doc["images"][:]) == 1 for doc in docs)


def test_a_split_without_questions_of_a_kind_says_so(phantom_heal_build, tmp_path):
    only_closed = pc.equal(pc.field("question_type"), "closed")
    build = phantom_heal_build / REPOSITORIES["vindr"]
    copy = edited(build, tmp_path, "vindr", lambda table: table.filter(only_closed))
    assert len(load_documents("vindr", "closed", copy)) > 10
    with pytest.raises(InputError, match="has no open question"):
        load_documents("vindr", "open", copy)


def test_a_positive_question_without_a_partner_is_not_asked(phantom_heal_build, tmp_path):
    before = list(load_documents("vindr", "vpt", phantom_heal_build))
    build = phantom_heal_build / REPOSITORIES["vindr"]
    copy = edited(build, tmp_path, "vindr_vpt", lambda table: table.slice(1))
    after = load_documents("vindr", "vpt", copy)
    assert [doc["id"] for doc in after] == [doc["id"] for doc in before[2:]]
