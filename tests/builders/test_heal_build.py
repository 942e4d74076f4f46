"""HEAL-MedVQA from the phantom sources to verified rows on disk; errors on invalid input."""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from pathlib import Path

import datasets
import numpy as np
import pyarrow.parquet as pq
import pytest

from medfaith.builders import heal_medvqa
from medfaith.builders.heal_medvqa import Options
from medfaith.cli import main
from medfaith.loaders import images, rle
from medfaith.loaders.errors import InputError
from medfaith.loaders.phantom import cases, chest, mimic_cxr_reports, vindr_cxr, vindr_cxr_anatomy
from tests.support.builders.files import copied, digests, problems, record_of, root_words, rows_of, skipped
from tests.support.full_disk import no_file_above
from tests.support.tiers import is_full_run

VINDR, MIMIC = "heal-medvqa-vindr_cxr", "heal-medvqa-mimic_cxr"


def test_what_was_left_out_is_what_the_phantom_plants(phantom_heal_build):
    assert skipped(phantom_heal_build / VINDR) == {
        "empty mask: trachea": 1,
        "images in no question (nothing to ask for, or beyond the balance of Yes and No)": 19,
        "images without masks": 1,
    }
    skip_counts = skipped(phantom_heal_build / MIMIC)
    studies = mimic_cxr_reports.studies(0)
    frontal = [view for s in studies for view, _ in s.images if view in ("AP", "PA")]
    unused = "images in no question (nothing to ask for, or beyond the balance of Yes and No)"
    assert 0 < skip_counts.pop(unused) < len(frontal)
    assert skip_counts.pop("detected boxes that no report confirms") > 0
    assert skip_counts.pop("detected boxes: below threshold") > 0
    assert skip_counts == {
        "detected boxes: unknown image": 1,
        "empty mask: trachea": 1,
        "images without labels and report": 1,
        "images without masks": 1,
        "studies without a report": 1,
    }


def test_a_full_disk_below_the_masks_is_told_and_changes_nothing(phantom_heal_roots, tmp_path, monkeypatch, capsys):
    (folder := tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    arguments = ["--config", "vindr", *root_words(phantom_heal_roots), "--out", str(tmp_path / "out")]
    with no_file_above(4096):
        assert main(["build", "heal-medvqa", *arguments]) == 2
    output = capsys.readouterr().err
    assert re.fullmatch(
        rf"medfaith: {folder}: .*File too large.*nothing was changed\n  what to do: .*TMPDIR.*\n", output
    )
    assert [path.name for path in tmp_path.rglob("*")] == ["temporary"]


def test_rows_are_true_of_what_the_phantom_draws(phantom_heal_build):
    """Positive pairs were drawn in the region of the row; hallucinated pairs and normal anatomies were not."""
    pairs_by_image = {
        radiograph.name: {(anatomy, f.label) for f in radiograph.findings for anatomy in f.anatomies}
        for radiographs in vindr_cxr.plan(0, 60, 40).values()
        for radiograph in radiographs
    }
    # A box is a rectangle, so it may extend into a neighbouring anatomy.
    occupied = n_positive = 0
    for split in ("train", "test"):
        for row in rows_of(phantom_heal_build / VINDR, "vindr", split):
            pairs = pairs_by_image[Path(row["image"]["key"]).stem]
            if row["kind"] == "positive":
                n_positive += 1
                assert row["diseases"][0] in {disease for _, disease in pairs}
                occupied += (row["anatomy"], row["diseases"][0]) in pairs
            elif row["kind"] == "hallucinated":
                assert (row["anatomy"], row["diseases"][0]) not in pairs
            elif row["kind"] == "normal":
                assert row["anatomy"] not in {anatomy for anatomy, _ in pairs}
    assert occupied > 0.5 * n_positive


def test_regions_are_the_masks_of_the_image_and_boxes_its_findings(phantom_heal_build, phantom_heal_roots):
    radiographs = {r.name: r for split_radiographs in vindr_cxr.plan(0, 60, 40).values() for r in split_radiographs}
    rows = rows_of(phantom_heal_build / VINDR, "vindr", "test")
    for row in rows[::7]:
        radiograph = radiographs[Path(row["image"]["key"]).stem]
        expected = chest.regions(radiograph.drawn, seed=radiograph.seed, size=radiograph.size)[row["anatomy"]]
        np.testing.assert_array_equal(rle.decode(row["region"]), expected)
        assert (row["width"], row["height"]) == images.read_image_size(row["image"], phantom_heal_roots)
        picture = chest.chest(radiograph.drawn, seed=radiograph.seed, size=radiograph.size)
        truth = cases.boxes(radiograph.findings, picture)
        for box in row["boxes"]:
            assert min(np.abs(np.subtract(box["xywh"], xywh)).max() for _, xywh in truth) < 0.02


def test_no_file_holds_the_text_of_a_report(phantom_heal_build):
    stated = (text for class_texts in mimic_cxr_reports.STATED.values() for text in class_texts)
    sentences = [text.format(where="left lower lung", side="left").split(".")[0] for text in stated]
    folder = phantom_heal_build / MIMIC
    texts = [json.dumps(pq.read_table(path).to_pylist()) for path in folder.rglob("*.parquet")]
    for text in [*texts, *((folder / name).read_text() for name in ("build.json", "README.md"))]:
        assert not [word for word in (*sentences, "INDICATION", "FINAL REPORT") if word in text]


def build(roots, out: Path, **options) -> Path:
    (folder,) = heal_medvqa.build(roots, out, configs=["vindr"], **options)
    return folder


def test_the_bytes_do_not_depend_on_the_workers_and_do_on_the_seed(phantom_heal_build, phantom_heal_roots, tmp_path):
    expected = digests(phantom_heal_build / VINDR)
    assert digests(build(phantom_heal_roots, tmp_path / "two", workers=2)) == expected
    seeded = digests(build(phantom_heal_roots, tmp_path / "seeded", seed=1))
    assert {name for name in expected if name.endswith(".parquet")} <= {n for n in seeded if seeded[n] != expected[n]}


def test_options_are_recorded_and_change_the_rows(phantom_heal_build, phantom_heal_roots, tmp_path):
    anatomies = ("heart", "aorta", "left lower lung")
    options = Options(measure="box", threshold=0.5, agreement="all", anatomies=anatomies, donor_diagnosis="region")
    folder = build(phantom_heal_roots, tmp_path, options=options)
    arguments = record_of(folder)["arguments"]
    assert (arguments["measure"], arguments["anatomies"]) == ("box", ["heart", "aorta", "left lower lung"])
    assert {row["anatomy"] for row in rows_of(folder, "vindr", "train")} == set(anatomies)
    assert set(problems(folder).values()) == {()}
    before, after = (record_of(f)["splits"]["vindr/train"]["sha256"] for f in (phantom_heal_build / VINDR, folder))
    assert before != after


# --- other input ------------------------------------------------------------------------------------------------------


def _rename_masks(root: Path) -> None:
    shutil.rmtree(root)
    vindr_cxr_anatomy.write(root, seed=7)


def _add_image_to_test(root: Path) -> None:
    train, test = (root / "annotations" / f"annotations_{split}.csv" for split in ("train", "test"))
    _, *row = test.read_text().splitlines()[1].split(",")
    image, *_ = train.read_text().splitlines()[1].split(",")
    test.write_text(test.read_text() + ",".join([image, *row]) + "\n")


@pytest.mark.parametrize(
    ("source", "change", "message"),
    [
        # No name matches: the message says so, and lists the counts above 0.
        ("vindr_cxr_anatomy", _rename_masks,
         r"(?s)^(?!.*; 0 ).*: 0 images with masks give no question.*100 images without masks"
         r".*check that the masks and boxes are of these images"),
        ("vindr_cxr", _add_image_to_test, "is in two splits"),
    ],
)  # fmt: skip
def test_sources_that_do_not_fit_are_refused(phantom_heal_roots, tmp_path, source, change, message):
    roots = copied(phantom_heal_roots, source, tmp_path)
    change(roots[source])
    with pytest.raises(InputError, match=message):
        build(roots, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.full  # another build
def test_sizes_come_from_the_masks_where_there_are_no_images(phantom_heal_build, phantom_heal_roots, tmp_path):
    """The annotation files alone suffice to build the same rows."""
    shutil.copytree(phantom_heal_roots["vindr_cxr"] / "annotations", tmp_path / "labels" / "annotations")
    folder = build(phantom_heal_roots | {"vindr_cxr": tmp_path / "labels"}, tmp_path / "out")
    assert digests(folder) == digests(phantom_heal_build / VINDR)


def test_a_scaled_down_copy_is_refused_unless_it_says_the_original_sizes(
    phantom_heal_build, phantom_heal_roots, tmp_path
):
    """Boxes are in pixels of the original images and would be misplaced on a smaller copy."""
    roots = copied(phantom_heal_roots, "vindr_cxr", tmp_path)
    small, sizes = roots["vindr_cxr"], ["image_id,dim0,dim1"]
    for path in sorted(small.glob("t*/*.dicom")):
        key = path.relative_to(small).as_posix()
        image = images.open_image({"source": "vindr_cxr", "key": key, "view": ""}, phantom_heal_roots)
        sizes.append(f"{path.stem},{image.height},{image.width}")
        image.resize((image.width // 4, image.height // 4)).save(path.with_suffix(".png"))
        path.unlink()
    with pytest.raises(InputError, match=r"boxes reach beyond their images[\s\S]*train_meta\.csv"):
        build(roots, tmp_path / "refused")
    assert not list((tmp_path / "refused").glob("*"))
    if is_full_run():  # the reading of the sizes: tests/loaders/test_vindr_cxr.py
        (small / "train_meta.csv").write_text("\n".join(sizes) + "\n")
        assert rows_of(build(roots, tmp_path / "told"), "vindr") == rows_of(phantom_heal_build / VINDR, "vindr")


@pytest.mark.full
def test_a_copy_without_a_label_file_builds_the_other_split_and_names_the_absent_one(
    phantom_heal_build, phantom_heal_roots, tmp_path, capsys
):
    roots = copied(phantom_heal_roots, "vindr_cxr", tmp_path)
    (roots["vindr_cxr"] / "annotations/annotations_train.csv").unlink()
    assert main(["build", "heal-medvqa", *root_words(roots), "--config", "vindr", "--out", str(tmp_path / "out")]) == 0
    assert f"{VINDR}: WARNING: without train: its label file is absent" in capsys.readouterr().out
    folder = tmp_path / "out" / VINDR
    assert record_of(folder)["absent"] == {"train": "its label file is absent"}
    assert rows_of(folder, "vindr", "test") == rows_of(phantom_heal_build / VINDR, "vindr", "test")
    assert "absent" not in record_of(phantom_heal_build / VINDR)
    publish = ["publish", str(folder), "--org", "org", "--dry-run", "--few-studies"]
    assert main(publish) == 0
    assert "The build lacks these splits:\n\n- `train`: its label file is absent" in capsys.readouterr().out


def test_a_split_without_partners_leaves_the_others_loadable_and_a_broken_file_is_counted(phantom_heal_roots, tmp_path):
    """Two test images with masks, and no donor or other pair: an empty Parquet could not be loaded."""
    roots = copied(copied(phantom_heal_roots, "vindr_cxr", tmp_path), "vindr_cxr_anatomy", tmp_path)
    min((roots["vindr_cxr"] / "train").iterdir()).write_bytes(b"no image")
    path = roots["vindr_cxr_anatomy"] / vindr_cxr_anatomy.FILE
    coco, test = json.loads(path.read_text()), {file.stem for file in (roots["vindr_cxr"] / "test").iterdir()}
    test_images = [image for image in coco["images"] if Path(image["file_name"]).stem in test]
    dropped = {image["id"] for image in test_images[2:]}
    coco["images"] = [image for image in coco["images"] if image["id"] not in dropped]
    coco["annotations"] = [a for a in coco["annotations"] if a["image_id"] not in dropped]
    path.write_text(json.dumps(coco))
    folder = build(roots, tmp_path / "out")
    assert skipped(folder)["images whose file cannot be read"] == 1
    assert set(record_of(folder)["absent"].items()) >= {("vindr_vpt/test", "no row could be made")}
    for name, summary in record_of(folder)["splits"].items():
        config, split = name.split("/")
        assert len(datasets.load_dataset(str(folder), config, split=split)) == summary["rows"] > 0
