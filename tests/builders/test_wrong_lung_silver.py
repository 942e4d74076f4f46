"""Silver sentences from the phantom's scene graphs to verified rows; no gold patient is included."""

from __future__ import annotations

import csv
import json
import shutil
import zipfile
from collections import defaultdict
from collections.abc import Callable, Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pytest
from sklearn.metrics import jaccard_score

from medfaith.builders import wrong_lung
from medfaith.builders.wrong_lung import silver
from medfaith.evaluate_metrics.localization.input_view import mask
from medfaith.loaders import images
from medfaith.loaders.errors import InputError
from tests.support.builders.files import copied, digests, forge, problems, rows_of, skipped
from tests.support.tiers import keep_quick

REPOSITORY = "wrong-lung-chest_imagenome"
FILES = {"train": "train.csv", "validation": "valid.csv", "test": "test.csv"}
LISTS, GRAPHS = "silver_dataset/splits", "silver_dataset/scene_graph.zip"
Edit = Callable[[Path], Any]


def build(roots: dict[str, Path], out: Path, **options: Any) -> Path:
    (folder,) = wrong_lung.build(roots, out, configs=["gold", "silver"], **options)
    return folder


@pytest.fixture(scope="module")
def repository(phantom_wrong_lung_roots, tmp_path_factory) -> Path:
    return build(phantom_wrong_lung_roots, tmp_path_factory.mktemp("silver"))


@pytest.fixture
def edited(phantom_wrong_lung_roots, tmp_path) -> Callable[[Edit], dict[str, Path]]:
    """A factory of roots with a changed copy of Chest ImaGenome."""

    def make(edit: Edit) -> dict[str, Path]:
        roots = copied(phantom_wrong_lung_roots, "chest_imagenome", tmp_path)
        edit(roots["chest_imagenome"])
        return roots

    return make


def read_list(root: Path, file: str) -> list[dict[str, str]]:
    """Read the lines of an image list: of a split, or images_to_avoid.csv."""
    with (root / LISTS / FILES.get(file, file)).open(newline="") as opened:
        return list(csv.DictReader(opened))


def read_graph(root: Path, dicom_id: str) -> dict[str, Any] | None:
    with zipfile.ZipFile(root / GRAPHS) as packed:
        name = f"scene_graph/{dicom_id}_SceneGraph.json"
        return json.loads(packed.read(name)) if name in packed.namelist() else None


def read_alone(root: Path, split: str) -> Iterator[tuple[str, dict[str, Any], dict[str, list[float]], set]]:
    """Iterate over id, image line, boxes and labels of each sentence, from the release's files (the oracle)."""
    for line in read_list(root, split):
        graph = read_graph(root, line["dicom_id"])
        if graph is None:
            continue
        places = {entry["object_id"]: entry for entry in graph["objects"]}
        boxes: defaultdict[str, dict[str, list[float]]] = defaultdict(dict)
        labels: defaultdict[str, set[tuple[str, str]]] = defaultdict(set)
        for attribute in graph["attributes"]:
            place = places.get(attribute["object_id"])
            for phrase, label_texts in zip(attribute["phrase_IDs"], attribute["attributes"], strict=True):
                if place is not None:
                    x1, y1, x2, y2 = (place[f"original_{side}"] for side in ("x1", "y1", "x2", "y2"))
                    boxes[phrase][attribute["bbox_name"]] = [x1, y1, x2 - x1 + 1, y2 - y1 + 1]
                    labels[phrase] |= {(entry.split("|")[2], entry.split("|")[1]) for entry in label_texts}
        for phrase in boxes:
            yield phrase, line, boxes[phrase], labels[phrase]


@pytest.mark.parametrize("split", FILES)
def test_rows_are_what_the_graphs_say(repository, phantom_wrong_lung_roots, split):
    expected = list(read_alone(phantom_wrong_lung_roots["chest_imagenome"], split))
    rows = rows_of(repository, "silver", split)
    assert {row["id"] for row in rows} == {f"wrong-lung:{phrase}|{line['dicom_id']}" for phrase, line, *_ in expected}
    rows_by_id = {row["id"]: row for row in rows}
    assert len(rows_by_id) == len(rows) == len(expected) > 8
    for phrase, line, boxes, labels in expected:
        row = rows_by_id[f"wrong-lung:{phrase}|{line['dicom_id']}"]
        assert (row["patient_id"], row["study_id"]) == (line["subject_id"], line["study_id"])
        assert Path(row["image"]["key"]).stem == line["dicom_id"]
        assert row["image"]["view"] == line["ViewPosition"]
        assert {box["label"]: box["xywh"] for box in row["boxes"]} == boxes
        assert {(label["name"], label["context"]) for label in row["labels"]} == labels
        assert row["subsets"]["abnormal"] == (("abnormal", "yes") in labels)
        assert row["subsets"]["one_lung"] == (len(boxes.keys() & {"left lung", "right lung"}) == 1)


def test_a_study_with_two_images_has_its_sentences_once_for_each_and_no_patient_is_in_two_splits(repository):
    gold = {row["patient_id"] for row in rows_of(repository, "gold")}
    patients_by_split = [{row["patient_id"] for row in rows_of(repository, "silver", split)} for split in FILES]
    assert len(gold) + sum(map(len, patients_by_split)) == len(gold.union(*patients_by_split))
    sentences_by_study: defaultdict[str, defaultdict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for split in FILES:
        for row in rows_of(repository, "silver", split):
            sentences_by_study[row["study_id"]][row["image"]["key"]].append(row["sentence"])
    several = [
        list(sentences_by_image.values())
        for sentences_by_image in sentences_by_study.values()
        if len(sentences_by_image) > 1
    ]
    assert several
    assert all(sentences == repetition for sentences, *repetitions in several for repetition in repetitions)


@pytest.fixture(scope="module")
def exchanged(phantom_wrong_lung_roots, tmp_path_factory) -> Path:
    """A build with the image lists of train and validation exchanged."""
    folder = tmp_path_factory.mktemp("exchanged")
    roots = copied(phantom_wrong_lung_roots, "chest_imagenome", folder)
    lists = roots["chest_imagenome"] / LISTS
    train_list, validation_list = ((lists / FILES[split]).read_bytes() for split in ("train", "validation"))
    (lists / FILES["train"]).write_bytes(validation_list)
    (lists / FILES["validation"]).write_bytes(train_list)
    return build(roots, folder / "out")


@pytest.mark.parametrize(
    ("fixture", "split"),
    keep_quick(
        [("repository", "train"), ("repository", "test"), ("exchanged", "validation")],
        lambda case: case == ("repository", "test"),
    ),
)
def test_the_most_diverse_reports_are_a_tenth_of_each_split(request, fixture, split):
    """The phantom's own validation split has fewer than ten rows and therefore no tenth."""
    reports: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in rows_of(request.getfixturevalue(fixture), "silver", split):
        reports[row["image"]["key"]].append(row)
    means = {}
    for key, report_rows in reports.items():
        masks = [
            mask([box["xywh"] for box in row["boxes"]], (row["height"], row["width"])).ravel() for row in report_rows
        ]
        means[key] = np.mean([jaccard_score(a, b) for a, b in combinations(masks, 2)])
    ranked_means = sorted(means[key] for key, report_rows in reports.items() for _ in report_rows)
    n_first = len(ranked_means) // 10
    assert n_first
    for key, report_rows in reports.items():
        assert {row["subsets"]["mdrb"] for row in report_rows} == {means[key] <= ranked_means[n_first - 1]}


def test_a_build_is_sound_and_opens(repository, phantom_wrong_lung_roots, phantom_wrong_lung_build):
    assert not (phantom_wrong_lung_build / REPOSITORY / "silver").exists()  # silver is built only on request
    few = rows_of(repository, "silver", "validation")
    assert (len(few) < 10, any(row["subsets"]["mdrb"] for row in few)) == (True, False)
    assert problems(repository) == {("gold", "test"): (), **{("silver", split): () for split in FILES}}
    for split in FILES:
        loaded = datasets.load_dataset(str(repository), "silver", split=split)
        assert isinstance(loaded, datasets.Dataset)
        assert loaded.features == wrong_lung.select_family("gold").features
        row = loaded[0]
        assert images.open_image(row["image"], phantom_wrong_lung_roots).size == (row["width"], row["height"])
    abnormal = sum(row["subsets"]["abnormal"] for row in rows_of(repository, "silver", "train"))
    assert skipped(repository)["silver, train: sentences of subset Abnormal"] == abnormal > 0


def unpack(root: Path) -> None:
    with zipfile.ZipFile(root / GRAPHS) as packed:
        packed.extractall(root / "silver_dataset")
    (root / GRAPHS).unlink()


@pytest.mark.full  # two more builds
def test_the_bytes_depend_on_neither_workers_nor_batches_nor_packing(
    phantom_wrong_lung_roots, repository, edited, tmp_path, monkeypatch
):
    monkeypatch.setattr(silver, "AT_ONCE", 1)
    assert digests(build(phantom_wrong_lung_roots, tmp_path / "a", workers=2)) == digests(repository)
    assert digests(build(edited(unpack), tmp_path / "b")) == digests(repository)


def add(split: str, *lines: dict[str, str]) -> Edit:
    def edit(root: Path) -> None:
        with (root / LISTS / FILES[split]).open("a", newline="") as file:
            csv.writer(file).writerows(["99", *(line[name] for name in list(line) if name)] for line in lines)

    return edit


@pytest.fixture(scope="module")
def avoided(phantom_wrong_lung_roots) -> list[dict[str, str]]:
    """Lines of images_to_avoid.csv whose image has a scene graph with sentences."""
    root = phantom_wrong_lung_roots["chest_imagenome"]
    lines = read_list(root, "images_to_avoid.csv")
    lines_with_graph = [line for line in lines if (read_graph(root, line["dicom_id"]) or {}).get("attributes")]
    assert lines_with_graph
    return lines_with_graph


def update_avoided(change: Callable[[list[str]], list[str]]) -> Edit:
    """Return an edit that changes the lines of images_to_avoid.csv."""

    def edit(root: Path) -> None:
        path = root / LISTS / "images_to_avoid.csv"
        header, *lines = path.read_text().splitlines()
        path.write_text("\n".join([header, *change(lines)]) + "\n")

    return edit


def count_left_out(folder: Path) -> dict[str, int]:
    """Count the images of gold patients that build.json reports as skipped, by split."""
    counted = skipped(folder)
    return {split: n for split in FILES if (n := counted.get(f"silver, {split}: {silver.OF_GOLD}"))}


def test_images_of_gold_patients_are_left_out_and_counted(repository, edited, avoided, tmp_path):
    folder = build(edited(lambda root: [add(split, *avoided)(root) for split in FILES]), tmp_path / "out")
    assert count_left_out(folder) == dict.fromkeys(FILES, len(avoided))
    assert count_left_out(repository) == {}
    assert all(rows_of(folder, "silver", name) == rows_of(repository, "silver", name) for name in FILES)
    assert set(problems(folder).values()) == {()}


def test_a_gold_patient_whom_images_to_avoid_has_not_is_left_out(repository, edited, avoided, tmp_path):
    in_gold = {row["patient_id"] for row in rows_of(repository, "gold")}
    line = next(line for line in avoided if line["subject_id"] in in_gold)
    forget = update_avoided(lambda lines: [text for text in lines if not text.startswith(line["subject_id"])])
    folder = build(edited(lambda root: (add("train", line)(root), forget(root))), tmp_path / "out")
    assert count_left_out(folder) == {"train": 1}
    assert rows_of(folder, "silver", "train") == rows_of(repository, "silver", "train")


@pytest.mark.parametrize(
    "changed_ids", [{"dicom_id": "-".join(["0" * 8] * 5), "study_id": "59999999"}, {"subject_id": "19999999"}]
)
def test_a_patient_or_an_image_that_only_images_to_avoid_has_is_left_out(
    phantom_wrong_lung_roots, repository, edited, tmp_path, changed_ids
):
    """Match by another study of the patient, and by the image alone."""
    first_line, *other_lines = read_list(phantom_wrong_lung_roots["chest_imagenome"], "train")
    assert first_line["subject_id"] not in {line["subject_id"] for line in other_lines}
    added = ",".join(value for name, value in (first_line | changed_ids).items() if name)
    folder = build(edited(update_avoided(lambda lines: [*lines, added])), tmp_path / "out")
    assert count_left_out(folder) == {"train": 1}
    before = [row["id"] for row in rows_of(repository, "silver", "train")]
    expected_ids = [row_id for row_id in before if row_id.split("|")[-1] != first_line["dicom_id"]]
    assert [row["id"] for row in rows_of(folder, "silver", "train")] == expected_ids != before


def test_a_split_of_gold_patients_alone_says_so(edited, avoided, tmp_path):
    def replace(root: Path) -> None:
        path = root / LISTS / FILES["validation"]
        path.write_text(path.read_text().splitlines()[0] + "\n")
        add("validation", *avoided)(root)

    with pytest.raises(InputError, match=f"no sentence of its images; {len(avoided)} {silver.OF_GOLD}"):
        build(edited(replace), tmp_path / "out")


def test_verify_finds_a_gold_patient(repository, tmp_path):
    folder = shutil.copytree(repository, tmp_path / repository.name)
    patient = rows_of(repository, "gold")[0]["patient_id"]
    forge(folder, "silver", lambda rows: rows[0].update(patient_id=patient), "validation")
    messages = problems(folder)
    assert messages.pop(("silver", "validation")) == (f"1 of its patients are in gold, such as {patient}",)
    assert set(messages.values()) == {()}


def update_graphs(change: Callable[[dict[str, bytes]], Any]) -> Edit:
    """Return an edit that changes the files of the zip, by image id."""

    def edit(root: Path) -> None:
        with zipfile.ZipFile(root / GRAPHS) as packed:
            files = {Path(name).name.split("_")[0]: packed.read(name) for name in packed.namelist()}
        change(files)
        with zipfile.ZipFile(root / GRAPHS, "w") as packed:
            for name, data in files.items():
                packed.writestr(f"{name}_SceneGraph.json", data)

    return edit


def test_what_is_left_out_is_counted(phantom_wrong_lung_roots, repository, edited, tmp_path):
    lines = read_list(phantom_wrong_lung_roots["chest_imagenome"], "test")
    gone, blank = lines[0]["dicom_id"], lines[1]["dicom_id"]

    def change(files: dict[str, bytes]) -> None:
        del files[gone]
        graph = json.loads(files[blank])
        first_phrase = graph["attributes"][0]["phrase_IDs"][0]
        for attribute in graph["attributes"]:
            for number, phrase in enumerate(attribute["phrase_IDs"]):
                attribute["phrases"][number] = " " if phrase == first_phrase else attribute["phrases"][number]
        files[blank] = json.dumps(graph).encode()

    unknown = lines[0] | {"dicom_id": "-".join(["0" * 8] * 5), "subject_id": "19999999"}
    roots = edited(lambda root: (update_graphs(change)(root), add("test", unknown)(root)))
    folder = build(roots, tmp_path / "out")
    counted = skipped(folder)
    reasons = (silver.NO_GRAPH, silver.NO_TEXT, silver.NO_IMAGE)
    assert [counted.get(f"silver, test: {reason}") for reason in reasons] == [1, 1, 1]
    before = [row for row in rows_of(repository, "silver", "test") if gone not in row["id"]]
    assert len(rows_of(folder, "silver", "test")) == len(before) - 1
    assert not any(f"train: {reason}" in name for name in counted for reason in reasons)


def test_patients_in_two_splits_are_counted(phantom_wrong_lung_roots, edited, tmp_path):
    line = read_list(phantom_wrong_lung_roots["chest_imagenome"], "train")[0]
    other_line = line | {"dicom_id": "-".join(["0" * 8] * 5)}
    folder = build(edited(add("test", other_line)), tmp_path / "out")
    assert skipped(folder)[silver.IN_TWO] == 1


def update_each_graph(change: Callable[[dict[str, Any]], Any]) -> Edit:
    """Return an edit that changes every graph in place, or replaces it by the result of `change`."""

    def update_graph(data: bytes) -> bytes:
        graph = json.loads(data)
        return json.dumps(change(graph) or graph).encode()

    return update_graphs(lambda files: files.update({name: update_graph(data) for name, data in files.items()}))


BROKEN: dict[str, tuple[Edit, str]] = {
    "a damaged graph": (update_graphs(lambda files: files.update(dict.fromkeys(files, b"{broken"))), "is no JSON"),
    "no graph of a split": (update_graphs(lambda files: files.clear()), "no sentence of its images; "),
    "no list": (lambda root: (root / LISTS / "valid.csv").unlink(), "holds no silver_dataset/splits/valid.csv"),
    "a graph of another patient": (update_each_graph(lambda graph: graph | {"patient_id": 19999999}),
                                   "of patient 19999999 in Chest ImaGenome, and of study"),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_broken_sources_are_named_and_nothing_is_written(edited, tmp_path, name):
    edit, message = BROKEN[name]
    with pytest.raises(InputError, match=message):
        build(edited(edit), tmp_path / "out")
    assert not list((tmp_path / "out").rglob("*.parquet"))
