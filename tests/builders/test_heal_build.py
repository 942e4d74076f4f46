"""HEAL-MedVQA from the phantom sources to verified rows on disk, and what `verify` finds in rows that were edited."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import datasets
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from medfaith.builders import heal_medvqa
from medfaith.builders.heal_medvqa import Options
from medfaith.builders.write import sha256_of_files, summarise
from medfaith.loaders import images, phantom, rle
from medfaith.loaders.errors import InputError, MissingSourceError
from medfaith.loaders.phantom import cases, chest, mimic_cxr_reports, vindr_cxr, vindr_cxr_anatomy
from tests.builders.files import digests

REPOSITORIES = ("heal-medvqa-vindr_cxr", "heal-medvqa-mimic_cxr")
SPLITS = [(repository, name) for repository in REPOSITORIES for name in ("train", "test")]
PARTS = ("", "_tpt", "_vpt")


def rows_of(folder: Path, config: str, split: str) -> list[dict]:
    return pq.read_table(next((folder / config).glob(f"{split}-*.parquet"))).to_pylist()


def config_of(repository: str) -> str:
    return repository.removeprefix("heal-medvqa-").removesuffix("_cxr")


def record_of(folder: Path) -> dict:
    return json.loads((folder / "build.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("repository", REPOSITORIES)
def test_a_build_is_sound(phantom_heal_build, repository):
    verdicts = heal_medvqa.verify(phantom_heal_build / repository)
    config = config_of(repository)
    assert {(v.config, v.split) for v in verdicts} == {(config + p, s) for p in PARTS for s in ("train", "test")}
    assert [v.problems for v in verdicts] == [()] * 6
    assert all(v.summary["rows"] > 0 for v in verdicts)


@pytest.mark.parametrize(("repository", "split"), SPLITS)
def test_load_dataset_gives_the_rows(phantom_heal_build, repository, split):
    for part in PARTS:
        config = config_of(repository) + part
        loaded = datasets.load_dataset(str(phantom_heal_build / repository), config, split=split)
        assert isinstance(loaded, datasets.Dataset)
        assert loaded.features == heal_medvqa.family(config).features
        assert loaded.to_list() == rows_of(phantom_heal_build / repository, config, split)


def test_the_bytes_do_not_depend_on_the_workers_and_do_on_the_seed(phantom_heal_build, phantom_heal_roots, tmp_path):
    first = digests(phantom_heal_build)
    first = {name: digest for name, digest in first.items() if name.startswith(REPOSITORIES[0])}
    heal_medvqa.build(phantom_heal_roots, tmp_path / "two", configs=["vindr"], workers=2)
    assert digests(tmp_path / "two") == first
    heal_medvqa.build(phantom_heal_roots, tmp_path / "seeded", configs=["vindr"], seed=1)
    other = digests(tmp_path / "seeded")
    assert {name for name in first if name.endswith(".parquet")} <= {n for n in first if other[n] != first[n]}


def test_what_was_left_out_is_what_the_phantom_plants(phantom_heal_build):
    assert record_of(phantom_heal_build / REPOSITORIES[0])["skipped"] == {
        "empty mask: trachea": 1,
        "images in no question (nothing to ask for, or beyond the balance of Yes and No)": 19,
        "images without masks": 1,
    }
    skipped = record_of(phantom_heal_build / REPOSITORIES[1])["skipped"]
    studies = mimic_cxr_reports.studies(0)
    frontal = [view for s in studies for view, _ in s.images if view in ("AP", "PA")]
    unused = "images in no question (nothing to ask for, or beyond the balance of Yes and No)"
    assert 0 < skipped.pop(unused) < len(frontal)
    assert skipped.pop("detected boxes that no report confirms") > 0
    assert skipped.pop("detected boxes: below threshold") > 0
    assert skipped == {
        "detected boxes: unknown image": 1,
        "empty mask: trachea": 1,
        "images without labels and report": 1,
        "images without masks": 1,
        "studies without a report": 1,
    }


def test_rows_are_true_of_what_the_phantom_draws(phantom_heal_build):
    """Each positive pair was drawn where the row says; each hallucinated pair, and each normal anatomy, was not."""
    drawn = {
        radiograph.name: {(anatomy, f.label) for f in radiograph.findings for anatomy in f.anatomies}
        for radiographs in vindr_cxr.plan(0, 60, 40).values()
        for radiograph in radiographs
    }
    # A box is a rectangle: it may well reach into the neighbouring anatomy of what was drawn.
    occupied = 0
    n_positive = 0
    for split in ("train", "test"):
        for row in rows_of(phantom_heal_build / REPOSITORIES[0], "vindr", split):
            pairs = drawn[Path(row["image"]["key"]).stem]
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
    radiographs = {r.name: r for of_split in vindr_cxr.plan(0, 60, 40).values() for r in of_split}
    rows = rows_of(phantom_heal_build / REPOSITORIES[0], "vindr", "test")
    for row in rows[::7]:
        radiograph = radiographs[Path(row["image"]["key"]).stem]
        expected = chest.regions(radiograph.drawn, seed=radiograph.seed, size=radiograph.size)[row["anatomy"]]
        np.testing.assert_array_equal(rle.decode(row["region"]), expected)
        assert (row["width"], row["height"]) == images.image_size(row["image"], phantom_heal_roots)
        picture = chest.chest(radiograph.drawn, seed=radiograph.seed, size=radiograph.size)
        truth = cases.boxes(radiograph.findings, picture)
        for box in row["boxes"]:
            assert min(np.abs(np.subtract(box["xywh"], xywh)).max() for _, xywh in truth) < 0.02


@pytest.mark.parametrize("repository", REPOSITORIES)
def test_no_report_text_and_no_place_of_this_machine_in_any_file(phantom_heal_build, phantom_heal_roots, repository):
    sentences = [
        text.format(where="left lower lung", side="left").split(".")[0]
        for of_class in mimic_cxr_reports.STATED.values()
        for text in of_class
    ]
    places = [str(root) for root in phantom_heal_roots.values()] + [str(phantom_heal_build)]
    texts = []
    for path in (phantom_heal_build / repository).rglob("*.parquet"):
        texts.append(json.dumps(pq.read_table(path).to_pylist()))
    texts += [(phantom_heal_build / repository / name).read_text() for name in ("build.json", "README.md")]
    for text in texts:
        assert not [word for word in (*sentences, *places, "INDICATION", "FINAL REPORT") if word in text]


def test_options_are_recorded_and_change_the_rows(phantom_heal_build, phantom_heal_roots, tmp_path):
    options = Options(measure="box", threshold=0.5, agreement="all", anatomies=("heart", "aorta", "left lower lung"))
    (folder,) = heal_medvqa.build(phantom_heal_roots, tmp_path, configs=["vindr"], options=options)
    arguments = record_of(folder)["arguments"]
    assert arguments["measure"] == "box"
    assert arguments["anatomies"] == ["heart", "aorta", "left lower lung"]
    assert {row["anatomy"] for row in rows_of(folder, "vindr", "train")} == set(options.anatomies)
    assert not [v.problems for v in heal_medvqa.verify(folder) if v.problems]
    before, after = (
        record_of(f)["splits"]["vindr/train"]["sha256"] for f in (phantom_heal_build / folder.name, folder)
    )
    assert before != after


# --- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("missing", "configs", "words"),
    [
        (("vindr_cxr_anatomy",), ["vindr"], ["vindr_cxr_anatomy"]),
        (("mimic_cxr_detections",), ["mimic"], ["mimic_cxr_detections"]),
        (
            ("vindr_cxr", "mimic_cxr_anatomy"),
            None,
            ["needs all sources of one of its configs", "(vindr_cxr)", "(mimic_cxr_anatomy)", "how to get it"],
        ),
    ],
)
def test_missing_sources_are_named(phantom_heal_roots, tmp_path, missing, configs, words):
    roots = {name: root for name, root in phantom_heal_roots.items() if name not in missing}
    with pytest.raises(MissingSourceError) as error:
        heal_medvqa.build(roots, tmp_path, configs=configs)
    for word in words:
        assert word in str(error.value)
    if configs is None:
        assert "(mimic_cxr)" not in str(error.value)  # what is there is not asked for
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"configs": ["chexpert"]}, ["--config chexpert", "vindr, mimic"]),
        ({"options": Options(measure="dice")}, ["--measure dice", "iou, box"]),
        ({"options": Options(agreement="two")}, ["--agreement two", "majority"]),
        ({"options": Options(labeler="me")}, ["--labeler me", "chexpert, negbio"]),
        ({"options": Options(threshold=5)}, ["--threshold 5", "from 0 to 1"]),
        ({"options": Options(threshold=float("nan"))}, ["--threshold nan"]),
        ({"options": Options(detection_threshold=-1)}, ["--detection-threshold -1"]),
        ({"options": Options(anatomies=("spleen",))}, ["spleen", "left lower lung"]),
        ({"options": Options(views=("LORDOTIC",)), "configs": ["mimic"]}, ["--view LORDOTIC"]),
    ],
)
def test_bad_options_are_refused(phantom_heal_roots, tmp_path, arguments, words):
    with pytest.raises(InputError) as error:
        heal_medvqa.build(phantom_heal_roots, tmp_path, **arguments)
    for word in words:
        assert word in str(error.value)
    assert not list(tmp_path.iterdir())


def test_masks_of_other_images_are_refused(phantom_heal_roots, tmp_path):
    """Nothing matches by name: the message says so, and counts."""
    other = vindr_cxr_anatomy.write(tmp_path / "masks", seed=7)
    roots = phantom_heal_roots | {"vindr_cxr_anatomy": other}
    with pytest.raises(InputError, match="0 images with masks give no question") as error:
        heal_medvqa.build(roots, tmp_path / "out", configs=["vindr"])
    assert "check that the masks and boxes are of these images" in str(error.value)
    assert "100 images without masks" in str(error.value)
    assert "; 0 " not in str(error.value)
    assert not (tmp_path / "out").exists()


def test_masks_of_another_shape_are_refused(phantom_heal_roots, tmp_path):
    shutil.copytree(phantom_heal_roots["vindr_cxr_anatomy"], tmp_path / "masks")
    path = tmp_path / "masks" / vindr_cxr_anatomy.FILE
    content = json.loads(path.read_text())
    tall = rle.encode(np.ones((400, 100), dtype=bool))
    first = content["images"][0]
    first["height"], first["width"] = tall["size"]
    content["annotations"] = [
        annotation | ({"segmentation": tall} if annotation["image_id"] == first["id"] else {})
        for annotation in content["annotations"]
    ]
    path.write_text(json.dumps(content))
    with pytest.raises(InputError, match=r"is 100 x 400, the image .* \(width x height\)"):
        heal_medvqa.build(phantom_heal_roots | {"vindr_cxr_anatomy": tmp_path / "masks"}, tmp_path, configs=["vindr"])


def test_sizes_come_from_the_masks_where_there_are_no_images(phantom_heal_build, phantom_heal_roots, tmp_path):
    """The annotation files alone are enough to build the same rows."""
    shutil.copytree(phantom_heal_roots["vindr_cxr"] / "annotations", tmp_path / "labels" / "annotations")
    roots = phantom_heal_roots | {"vindr_cxr": tmp_path / "labels"}
    (folder,) = heal_medvqa.build(roots, tmp_path / "out", configs=["vindr"])
    assert digests(folder) == digests(phantom_heal_build / folder.name)


def test_a_scaled_down_copy_is_refused_unless_it_says_the_original_sizes(phantom_heal_roots, tmp_path):
    """Boxes are in pixels of the original images: on a smaller copy they would lie elsewhere."""
    roots = {name: phantom_heal_roots[name] for name in heal_medvqa.NEEDS["vindr"]}
    small = tmp_path / "small"
    shutil.copytree(roots["vindr_cxr"] / "annotations", small / "annotations")
    sizes = ["image_id,dim0,dim1"]
    for split in ("train", "test"):
        (small / split).mkdir()
        for path in sorted((roots["vindr_cxr"] / split).iterdir()):
            key = path.relative_to(roots["vindr_cxr"]).as_posix()
            image = images.open_image({"source": "vindr_cxr", "key": key, "view": ""}, roots)
            sizes.append(f"{path.stem},{image.height},{image.width}")
            image.resize((image.width // 4, image.height // 4)).save(small / split / f"{path.stem}.png")
    scaled = roots | {"vindr_cxr": small}
    with pytest.raises(InputError, match=r"boxes reach beyond their images[\s\S]*train_meta\.csv"):
        heal_medvqa.build(scaled, tmp_path / "refused")
    assert not list((tmp_path / "refused").glob("*"))
    (small / "train_meta.csv").write_text("\n".join(sizes) + "\n")
    (folder,) = heal_medvqa.build(scaled, tmp_path / "told")
    (whole,) = heal_medvqa.build(roots, tmp_path / "whole")
    assert rows_of(folder, "vindr", "test") == rows_of(whole, "vindr", "test")


def test_an_image_in_two_splits_is_refused(phantom_heal_roots, tmp_path):
    root = Path(shutil.copytree(phantom_heal_roots["vindr_cxr"], tmp_path / "vindr"))
    train, test = (root / "annotations" / f"annotations_{split}.csv" for split in ("train", "test"))
    row = test.read_text().splitlines()[1].split(",")
    row[0] = train.read_text().splitlines()[1].split(",")[0]
    test.write_text(test.read_text() + ",".join(row) + "\n")
    with pytest.raises(InputError, match="is in two splits"):
        heal_medvqa.build(phantom_heal_roots | {"vindr_cxr": root}, tmp_path / "out", configs=["vindr"])


def test_a_file_that_cannot_be_read_is_counted_as_such(phantom_heal_roots, tmp_path):
    root = Path(shutil.copytree(phantom_heal_roots["vindr_cxr"], tmp_path / "vindr"))
    next(iter(sorted((root / "train").iterdir()))).write_bytes(b"no image")
    (folder,) = heal_medvqa.build(phantom_heal_roots | {"vindr_cxr": root}, tmp_path / "out", configs=["vindr"])
    assert record_of(folder)["skipped"]["images whose file cannot be read"] == 1


def test_a_split_without_partners_leaves_the_others_loadable(phantom_heal_roots, tmp_path):
    """One test image with masks: it has no donor and no other pair, and an empty Parquet could not be loaded."""
    root = Path(shutil.copytree(phantom_heal_roots["vindr_cxr_anatomy"], tmp_path / "masks"))
    (path,) = root.rglob("*.json")
    coco = json.loads(path.read_text())
    test = {path.stem for path in (phantom_heal_roots["vindr_cxr"] / "test").iterdir()}
    of_test = [image for image in coco["images"] if Path(image["file_name"]).stem in test]
    dropped = {image["id"] for image in of_test[2:]}
    coco["images"] = [image for image in coco["images"] if image["id"] not in dropped]
    coco["annotations"] = [a for a in coco["annotations"] if a["image_id"] not in dropped]
    path.write_text(json.dumps(coco))
    (folder,) = heal_medvqa.build(phantom_heal_roots | {"vindr_cxr_anatomy": root}, tmp_path / "out", configs=["vindr"])
    splits = record_of(folder)["splits"]
    assert all(summary["rows"] for summary in splits.values())
    for name in splits:
        config, split = name.split("/")
        assert len(datasets.load_dataset(str(folder), config, split=split)) == splits[name]["rows"]


def test_files_of_one_name_in_many_folders_all_count(tmp_path):
    """Masks lie in a folder an image, as heart.png: one hash must not hide the others."""
    for image in ("a", "b"):
        (tmp_path / image).mkdir()
        (tmp_path / image / "heart.png").write_text(image)
    files = sorted(tmp_path.glob("*/heart.png"))
    before = sha256_of_files(files)
    assert set(before) == {"a/heart.png", "b/heart.png"}
    (tmp_path / "a" / "heart.png").write_text("c")
    after = sha256_of_files(files)
    assert {name for name in before if before[name] != after[name]} == {"a/heart.png"}


# --- what verify finds ------------------------------------------------------------------------------------------------


def edit(folder: Path, config: str, split: str, change) -> None:
    """Changes the rows of a split, and what build.json says of them, as a careful forger would."""
    family = heal_medvqa.family(config)
    path = next((folder / config).glob(f"{split}-*.parquet"))
    rows = pq.read_table(path).to_pylist()
    rows = change(rows) or rows
    table = pa.Table.from_pylist(rows, schema=family.features.arrow_schema)
    pq.write_table(table, path)
    record = record_of(folder)
    record["splits"][f"{config}/{split}"] = summarise(table, family.counted)
    (folder / "build.json").write_text(json.dumps(record))


def first(rows, kind):
    return next(row for row in rows if row["kind"] == kind)


SMALL = dict(rle.encode(np.ones((3, 3), dtype=bool)))
EDITS = {
    "an answer": ("", lambda rows: first(rows, "positive").update(answer="No"), "answer 'No' to a positive question"),
    "a kind": ("", lambda rows: first(rows, "normal").update(kind="abnormal"), "kind 'abnormal' with the diseases []"),
    "a kind that there is not": ("", lambda rows: rows[0].update(kind="odd"), "kind 'odd' of question type"),
    "a mask of another size": ("", lambda rows: rows[0].update(region=SMALL), "mask of [3, 3] (height, width)"),
    "a broken mask": ("", lambda rows: rows[0]["region"].update(counts="0"), "mask: counts of"),
    "an empty mask": (
        "",
        lambda rows: rows[0].update(
            region=dict(rle.encode(np.zeros((rows[0]["height"], rows[0]["width"]), dtype=bool)))
        ),
        "empty mask",
    ),
    "a box outside the image": (
        "",
        lambda rows: first(rows, "positive")["boxes"][0].update(xywh=[900.0, 5, 9, 9]),
        "is not within the image",
    ),
    "a box of nothing": (
        "",
        lambda rows: first(rows, "positive")["boxes"][0].update(xywh=[5.0, 5, 0, 9]),
        "is not within the image",
    ),
    "a box of another disease": (
        "",
        lambda rows: first(rows, "positive")["boxes"][0].update(label="Lung cyst"),
        "box of 'Lung cyst', which is not among",
    ),
    "a repeated id": ("", lambda rows: rows[1].update(id=rows[0]["id"]), "1 rows have the id of another row"),
    "an absolute key": ("", lambda rows: rows[0]["image"].update(key="/data/a.dicom"), "is not a path below"),
    "an orphan": (
        "_tpt",
        lambda rows: rows[0].update(original_id="gone"),
        "original_id 'gone' is no positive question",
    ),
    "a repeated swap": ("_tpt", lambda rows: [*rows, rows[0]], "1 rows have the id of another row"),
    "a swap of no kind": ("_tpt", lambda rows: rows[0].update(kind="both"), "kind 'both'"),
    "a swap of both parts": (
        "_tpt",
        lambda rows: rows[0].update(anatomy="trachea", disease="Lung cyst"),
        "trachea, Lung cyst as a swap of the",
    ),
    "an orphaned region": ("_vpt", lambda rows: rows[0].update(original_id="gone"), "is no positive question"),
    "another region": ("_vpt", lambda rows: rows[0].update(region=SMALL), "a region that is not its question's"),
    "a broken donor": (
        "_vpt",
        lambda rows: rows[0]["donor_region"].update(counts="0"),
        "donor_region: mask: counts of",
    ),
    "an absolute donor": ("_vpt", lambda rows: rows[0]["donor"].update(key="../a.dicom"), "is not a path below"),
}


@pytest.mark.parametrize("fault", EDITS)
def test_verify_finds(phantom_heal_build, tmp_path, fault):
    part, change, words = EDITS[fault]
    folder = tmp_path / REPOSITORIES[0]
    shutil.copytree(phantom_heal_build / REPOSITORIES[0], folder)
    edit(folder, f"vindr{part}", "test", change)
    problems = {(v.config, v.split): v.problems for v in heal_medvqa.verify(folder)}
    assert words in " | ".join(problems[f"vindr{part}", "test"])
    assert not [p for (_, split), p in problems.items() if split == "train" and p]


def test_verify_finds_its_own_image_as_the_donor(phantom_heal_build, tmp_path):
    folder = tmp_path / REPOSITORIES[0]
    shutil.copytree(phantom_heal_build / REPOSITORIES[0], folder)
    own = {row["id"]: row["image"] for row in rows_of(folder, "vindr", "test")}
    edit(folder, "vindr_vpt", "test", lambda rows: rows[0].update(donor=own[rows[0]["original_id"]]))
    problems = {(v.config, v.split): v.problems for v in heal_medvqa.verify(folder)}
    assert "the question's own image as the donor" in problems["vindr_vpt", "test"][0]


def test_an_edit_without_its_hash_is_found_and_partners_say_that_their_questions_are_faulty(
    phantom_heal_build, tmp_path
):
    folder = tmp_path / REPOSITORIES[0]
    shutil.copytree(phantom_heal_build / REPOSITORIES[0], folder)
    path = next((folder / "vindr").glob("test-*.parquet"))
    table = pq.read_table(path)
    pq.write_table(table.drop_columns(["kind"]), path)
    problems = {(v.config, v.split): v.problems for v in heal_medvqa.verify(folder)}
    assert "columns" in problems["vindr", "test"][0]
    assert problems["vindr_tpt", "test"] == ("its questions, vindr/test, are missing or faulty",)
    assert problems["vindr_vpt", "test"] == ("its questions, vindr/test, are missing or faulty",)


def test_the_phantom_has_all_sources_of_the_configs():
    assert {name for needed in heal_medvqa.NEEDS.values() for name in needed} <= set(phantom.SOURCES)
