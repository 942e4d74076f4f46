"""`medfaith.open_images` on the rows of each benchmark."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from datasets import load_dataset
from PIL import Image

from medfaith import open_images
from medfaith.loaders.errors import MedfaithError
from medfaith.tasks.heal import rows as heal_rows


@pytest.mark.parametrize(
    ("repository", "config", "sources"),
    [
        ("cxr-contrabench-rexvqa", "rexvqa_1k", "phantom_items"),
        ("heal-medvqa-mimic_cxr", "mimic", "phantom_heal"),
        ("surgxbench-cholect45", "triplets", "phantom_surgx"),
        ("wrong-lung-chest_imagenome", "gold", "phantom_wrong_lung"),
    ],
)
def test_the_images_of_a_row_open(repository, config, sources, request):
    data, roots = (request.getfixturevalue(f"{sources}_{kind}") for kind in ("build", "roots"))
    row: Any = load_dataset(str(data / repository), config, split="test")[0]
    references = row["images"] if "images" in row else [row["image"]]
    opened = open_images(row, roots)
    assert len(opened) == len(references)
    for image, reference in zip(opened, references, strict=True):
        (file,) = roots[reference["source"]].rglob(reference["key"].split("/", 1)[-1])
        with Image.open(file) as stored:
            assert np.array_equal(np.asarray(image), np.asarray(stored.convert("RGB")))


def test_a_partner_with_its_original_opens_as_the_model_sees_it(phantom_heal_build, phantom_heal_roots):
    name, data, roots = "heal-medvqa-vindr_cxr", str(phantom_heal_build), phantom_heal_roots
    partner: Any = load_dataset(f"{data}/{name}", "vindr_vpt", split="test")[0]
    with pytest.raises(MedfaithError, match=r"names no image[\s\S]*pass original \| partner"):
        open_images(partner, roots)
    originals: Any = load_dataset(f"{data}/{name}", "vindr", split="test")
    original: Any = next(row for row in originals if row["id"] == partner["original_id"])
    (edited,), (unedited,) = open_images(original | partner, roots), open_images(original, roots)
    root_paths = {source: str(root) for source, root in roots.items()}
    docs: Any = heal_rows.load(name, "vindr", "vpt", split="test", data=data, roots=root_paths)["test"]
    (model_image,) = (doc["images"][0] for doc in docs if doc["id"] == partner["id"])
    assert np.array_equal(np.asarray(edited), np.asarray(model_image))
    assert not np.array_equal(np.asarray(edited), np.asarray(unedited))


@pytest.mark.parametrize(
    ("roots", "message"),
    [
        ({}, "CheXpert .* needed and its place is not known"),
        ({"chexpert": "/nowhere"}, "/nowhere does not exist"),
        ({"chexperts": "."}, "no such source"),
        ({"chexpert": "."}, r"row r1: image 'valid/a\.jpg' of source 'chexpert': no such file below (?![\s\S]*--skip)"),
    ],
)
def test_an_image_that_cannot_be_opened_is_explained(roots, message, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    row = {"id": "r1", "images": [{"source": "chexpert", "key": "valid/a.jpg", "view": "frontal"}]}
    with pytest.raises(MedfaithError, match=message):
        open_images(row, roots)
