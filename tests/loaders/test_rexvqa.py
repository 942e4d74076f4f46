"""ReXVQA: the official JSON and its variants; errors name file, item and field."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from medfaith.loaders import images, rexvqa
from medfaith.loaders.errors import InputError
from medfaith.loaders.phantom import rexvqa as phantom_rexvqa

ITEM: dict[str, Any] = {
    "study_id": "P1_S1",
    "StudyInstanceUid": "1.2.3",
    "question": " Which finding is present? ",
    "options": ["A. Edema", "B. No edema", "C. A fracture", "D. Pneumonia"],
    "correct_answer": "A",
    "correct_answer_explanation": "x",
    "task_name": "presence_assessment",
    "category": "Lung",
    "subcategory": "Edema",
    "Findings": "Never read.",
    "ImagePath": ["../deid_png/P1/S1/1.png", "../deid_png/P1/S1/2.png"],
    "ImageViewPosition": ["PA", "LATERAL"],
}
IMAGES = (("deid_png/P1/S1/1.png", "PA"), ("deid_png/P1/S1/2.png", "LATERAL"))
EXPECTED = rexvqa.Item(
    id="q1", study_id="P1_S1", question="Which finding is present?", answer=0, task="presence_assessment",
    options=("Edema", "No edema", "A fracture", "Pneumonia"), category="Lung", subcategory="Edema", images=IMAGES,
)  # fmt: skip


def write(root: Path, items: Any) -> Path:
    (root / "metadata").mkdir(parents=True, exist_ok=True)
    path = root / "metadata" / "test_vqa_data.json"
    path.write_text(items if isinstance(items, str) else json.dumps(items), encoding="utf-8")
    return path


def read(root: Path, **changes: Any) -> rexvqa.Item:
    fields = {name: value for name, value in (ITEM | changes).items() if value is not ...}
    return rexvqa.read_items(write(root, {"q1": fields}))[0]


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {name: str(ITEM[name]) for name in ("options", "ImagePath", "ImageViewPosition")},
        {"options": ["Edema", "No edema", "A fracture", "Pneumonia"]},
        {"options": ["A) Edema", "(B) No edema", "C: A fracture", "D.Pneumonia"]},
        {"correct_answer": " A. "},
        {"ImagePath": ["deid_png/P1/S1/1.png", "/data/rexgradient/deid_png/P1/S1/2.png"]},
        {"Findings": None, "correct_answer_explanation": ...},
    ],
)
def test_variants_of_the_release_read_the_same(tmp_path, changes):
    assert read(tmp_path, **changes) == EXPECTED


def test_fields_that_may_be_missing(tmp_path):
    item = read(tmp_path, category=None, subcategory=..., ImageViewPosition=..., study_id=..., StudyInstanceUID="9.9")
    assert (item.category, item.subcategory, item.study_id) == ("", "", "9.9")
    assert [view for _, view in item.images] == ["", ""]


BAD_FIELDS = [  # field, part of the message, field values
    ("question", "missing or empty", [..., "  "]),
    ("question", "is 3", [3]),
    ("study_id", "is []", [[]]),
    ("task_name", "missing or empty", [...]),
    ("options", "a list of texts", [..., "['A. Edema', ", "__import__('os').getcwd()", [1, 2]]),
    ("options", "has 1 options", [["A. Edema"]]),
    ("options", "the letters A, B", [["B. Edema", "A. No edema"], ["A. Edema", "No edema"]]),
    ("options", "no option without text", [["A. Edema", "B. "]]),
    ("correct_answer", "a letter from A to D", ["E", "Edema", "a"]),
    ("ImagePath", "names no image", [[]]),
    ("ImagePath", "deid_png", [["../other/1.png"], ["../deid_png/../../1.png"]]),
    ("ImagePath", "a list of texts", ["../deid_png/1.png"]),
    ("ImageViewPosition", "one for each of 2 images", [["PA"]]),
]


@pytest.mark.parametrize(
    ("field", "message", "value"),
    [(field, message, value) for field, message, values in BAD_FIELDS for value in values],
)
def test_a_bad_field_is_named(tmp_path, field, message, value):
    with pytest.raises(InputError) as error:
        read(tmp_path, **{field: value})
    for word in ("test_vqa_data.json", "item 'q1'", f"{field!r}", message, "what to do"):
        assert word in str(error.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[]", "holds no items"),
        ("{}", "holds no items"),
        ('{"q1": 3}', "is no object"),
        ('{"q1": {}, "q1": {}}', "'q1' twice"),
    ],
)
def test_a_bad_file_is_named(tmp_path, content, message):
    with pytest.raises(InputError, match=r"test_vqa_data\.json") as error:
        rexvqa.read_items(write(tmp_path, content))
    assert message in str(error.value)


def test_where_the_file_may_lie(tmp_path):
    path = write(tmp_path, {"q1": ITEM})
    assert rexvqa.label_file(tmp_path, "test") == path
    assert rexvqa.label_file(path, "test") == path
    assert rexvqa.label_file(path.parent, "test") == path
    for root, split in ((tmp_path, "train"), (path, "validation"), (tmp_path / "absent", "test")):
        with pytest.raises(InputError, match="holds no"):
            rexvqa.label_file(root, split)


OPTION = st.text(st.characters(categories=("L", "Nd", "Zs", "P")), min_size=1, max_size=20).map(
    lambda t: f"x{t}".strip()
)


@given(st.lists(OPTION, min_size=2, max_size=6), st.data())
def test_letters_go_and_texts_stay(tmp_path_factory, options, data):
    answer = data.draw(st.integers(0, len(options) - 1))
    lettered = [f"{chr(65 + i)}. {text}" for i, text in enumerate(options)]
    folder = tmp_path_factory.mktemp("r")
    item = read(folder, options=data.draw(st.sampled_from([lettered, str(lettered)])), correct_answer=chr(65 + answer))
    assert (item.options, item.answer) == (tuple(options), answer)


# --- the phantom ------------------------------------------------------------------------------------------------------


def test_the_phantom_reads_its_images_open_and_it_has_the_official_fields(written):
    root = written["rexvqa"]
    items = rexvqa.read_items(rexvqa.label_file(root, "test"))
    assert len(items) == 60
    assert {len(item.images) for item in items} == {1, 2}
    for key, view in {image for item in items for image in item.images}:
        opened = images.open_image({"source": "rexvqa", "key": key, "view": view}, {"rexvqa": root})
        assert (opened.mode, opened.size) == ("RGB", phantom_rexvqa.SIZE[::-1])
        assert np.ptp(np.asarray(opened)) > 100
    assert all(rexvqa.label_file(root, split) for split in rexvqa.SPLITS)
    opened = [Image.open(path) for path in root.rglob("*.png")]
    (deep,) = (picture for picture in opened if picture.mode.startswith("I"))  # one has 16 bits
    assert np.asarray(deep).max() > 255
    items = json.loads((root / "metadata" / "test_vqa_data.json").read_text())
    official = (
        "study_id StudyInstanceUid question options correct_answer correct_answer_explanation task_name category "
        "subcategory class PatientID AccessionNumber PatientSex PatientAge StudyDate Indication Comparison Findings "
        "Impression ImagePath ImageViewPosition ImageModality Manufacturer"
    )
    assert all(set(item) == set(official.split()) for item in items.values())
    assert {type(item["options"]) for item in items.values()} == {list, str}
    assert {type(item["ImagePath"]) for item in items.values()} == {list, str}
