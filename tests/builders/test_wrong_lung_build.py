"""That's the Wrong Lung! from the phantom sources to verified rows on disk; errors on invalid input."""

from __future__ import annotations

import csv
import hashlib
import json
from pathlib import Path

import pytest

from medfaith.builders import wrong_lung
from medfaith.builders.wrong_lung import CONFIGS, Options
from medfaith.builders.wrong_lung.boxes import ELSEWHERE, UNKNOWN
from medfaith.builders.wrong_lung.sentences import NO_ANATOMY, UNLISTED
from medfaith.evaluate_metrics.localization.input_view import mask
from medfaith.loaders import chest_imagenome, images
from medfaith.loaders.errors import InputError
from medfaith.loaders.phantom import mimic_cxr
from tests.support.builders.files import copied, digests, problems, record_of, rows_of, skipped
from tests.support.tiers import choose_size

REPOSITORY = "wrong-lung-chest_imagenome"


@pytest.fixture
def repository(phantom_wrong_lung_build) -> Path:
    return phantom_wrong_lung_build / REPOSITORY


def test_gold_is_what_the_file_says(repository, phantom_wrong_lung_roots):
    path = phantom_wrong_lung_roots["chest_imagenome"] / chest_imagenome.FILES["gold"]
    with path.open(encoding="utf-8") as file:
        lines = list(csv.DictReader(file, delimiter="\t"))
    rows = rows_of(repository, "gold")
    assert [row["id"] for row in rows] == list(dict.fromkeys(f"wrong-lung:{line['row_id']}" for line in lines))
    for row in rows:
        row_lines = [line for line in lines if f"wrong-lung:{line['row_id']}" == row["id"]]
        assert {line["sentence"] for line in row_lines} == {row["sentence"]}
        assert Path(row["image"]["key"]).stem + ".dcm" == row_lines[0]["image_id"]
        corners = {line["bbox"]: json.loads(line["coord_original"]) for line in row_lines}
        for box in row["boxes"]:
            x1, y1, x2, y2 = corners.pop(box["label"])
            assert box["xywh"] == [x1, y1, x2 - x1 + 1, y2 - y1 + 1]
        assert not corners
        assert {(label["name"], label["context"]) for label in row["labels"]} == {
            (line["label_name"], line["context"]) for line in row_lines
        }
        assert row["subsets"]["abnormal"] == any(
            (o["label_name"], o["context"]) == ("abnormal", "yes") for o in row_lines
        )
    counted = {name: sum(row["subsets"][name] for row in rows) for name in rows[0]["subsets"]}
    assert min(counted.values()) > 0
    for name, title in (("abnormal", "Abnormal"), ("one_lung", "One Lung"), ("mdrb", "MDRB")):
        assert skipped(repository)[f"sentences of subset {title}"] == counted[name]
    for row in rows[::20]:
        assert images.open_image(row["image"], phantom_wrong_lung_roots).size == (row["width"], row["height"])


def test_swapped_sentences_of_one_lung_describe_the_other_half(repository):
    n_rows = 0
    for row in rows_of(repository, "swap_left_right"):
        if row["subsets"]["one_lung"] and row["described"] != row["boxes"]:
            size = (row["height"], row["width"])
            box_mask, described_mask = (
                mask([box["xywh"] for box in row[name]], size) for name in ("boxes", "described")
            )
            assert (box_mask & described_mask).sum() < 0.2 * min(box_mask.sum(), described_mask.sum())
            n_rows += 1
    assert n_rows > 20


def build(roots, out: Path, **options) -> Path:
    (folder,) = wrong_lung.build(roots, out, **options)
    return folder


@pytest.mark.parametrize(
    ("arguments", "changed"),
    [
        ({"workers": 3}, set()),
        ({"seed": 1}, {"shuffle_in_report", "random_sentences", "random_boxes", "synthetic_swapped_conditions"}),
        ({"options": Options(swap="substring")}, {"swap_left_right"}),
        ({"options": Options(random_boxes="pixels")}, {"random_boxes"}),
    ],
)
def test_what_an_argument_changes(phantom_wrong_lung_roots, repository, tmp_path, arguments, changed):
    # In the regular run an option builds only the config that it changes, and one that it does not.
    configs = choose_size(["gold", "trimmed", *changed] if "options" in arguments else [*CONFIGS], [*CONFIGS])
    folder = build(phantom_wrong_lung_roots, tmp_path, configs=configs, **arguments)
    hashes, default_hashes = digests(folder), digests(repository)
    metadata = {"build.json", "README.md"} if changed else set()
    assert {Path(n).parts[0] for n in hashes if hashes[n] != default_hashes[n]} == changed | metadata
    assert list(problems(folder).items()) == [((config, "test"), ()) for config in CONFIGS if config in configs]


def test_a_config_comes_with_its_originals(phantom_wrong_lung_roots, tmp_path):
    swapped = "synthetic_swapped_conditions"
    for config, originals in (("gold", []), ("trimmed", ["gold"]), (swapped, ["gold", "synthetic"])):
        folder = build(phantom_wrong_lung_roots, tmp_path / config, configs=[config])
        assert problems(folder) == {(built, "test"): () for built in (*originals, config)}


# --- other input ------------------------------------------------------------------------------------------------------


def test_images_of_another_release_are_refused(phantom_wrong_lung_roots, tmp_path):
    n = choose_size(8, mimic_cxr.N_STUDIES)
    other_roots = {"mimic_cxr": mimic_cxr.write(tmp_path / "other", seed=1, n=n)}
    message = r"no gold sentence has an image and boxes; \d+ gold images that MIMIC-CXR-JPG"
    with pytest.raises(InputError, match=message):
        build(phantom_wrong_lung_roots | other_roots, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.fixture
def edited(phantom_wrong_lung_roots, tmp_path):
    """A factory of roots with a copy of Chest ImaGenome that has changed lines in one file."""

    def make(file: str, change) -> dict[str, Path]:
        roots = copied(phantom_wrong_lung_roots, "chest_imagenome", tmp_path)
        path = roots["chest_imagenome"] / chest_imagenome.FILES[file]
        header, *lines = path.read_text(encoding="utf-8").splitlines()
        path.write_text("\n".join(change(header, lines)) + "\n", encoding="utf-8")
        return roots

    return make


def test_configs_without_rows_are_left_out_unless_they_are_asked_for(edited, tmp_path):
    """A single patient cannot get a sentence of another one."""

    def keep_first_patient(header, lines):
        return header, *(line for line in lines if line.split("\t")[0] == lines[0].split("\t")[0])

    roots = edited("gold", keep_first_patient)
    built = {config for config, _ in problems(build(roots, tmp_path / "out"))}
    assert set(CONFIGS) - built == {"random_sentences", "random_boxes"}
    with pytest.raises(InputError, match="--config random_boxes: no sentence has a partner of this kind"):
        build(roots, tmp_path / "other", configs=["random_boxes"])
    assert not (tmp_path / "other").exists()


def move_boxes(change, most: int):
    """Move the corners of the boxes in the first `most` rows."""

    def edit(header, lines):
        column = header.split("\t").index("coord_original")
        for number, line in enumerate(lines[:most]):
            cells = line.split("\t")
            cells[column] = str(change(json.loads(cells[column])))
            lines[number] = "\t".join(cells)
        return header, *lines

    return edit


def test_boxes_with_their_corners_in_another_order_stop_the_build(edited, tmp_path):
    roots = edited("gold", move_boxes(lambda c: [c[1], c[0], c[3], c[2]], 10**6))
    with pytest.raises(InputError, match=r"of \d+ boxes of the sentences are not where the annotations file has them"):
        build(roots, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_box_that_the_annotations_have_elsewhere_is_counted(edited, tmp_path):
    """The first sentence's first box has one row for each of its two labels."""
    roots = edited("gold", move_boxes(lambda c: [c[0] + 2, *c[1:]], 2))
    assert skipped(build(roots, tmp_path / "out", configs=["gold"]))[ELSEWHERE] == 1


def test_sentences_that_are_in_no_row_are_counted(repository, phantom_wrong_lung_roots, tmp_path):
    """The file of all sentences has 29 more than gold has rows; a copy without it builds the same rows."""
    path = phantom_wrong_lung_roots["chest_imagenome"] / chest_imagenome.FILES["all_sentences"]
    with path.open(encoding="utf-8") as file:
        ids = {line["row_id"] for line in csv.DictReader(file, delimiter="\t")}
    record = record_of(repository)
    row_ids = {row["id"].removeprefix("wrong-lung:") for row in rows_of(repository, "gold")}
    assert record["skipped"][NO_ANATOMY] == len(ids - row_ids) == 29
    assert UNLISTED not in record["skipped"]
    hashed = record["sources"]["chest_imagenome"]["files"]
    assert hashed[path.name] == hashlib.sha256(path.read_bytes()).hexdigest()
    roots = copied(phantom_wrong_lung_roots, "chest_imagenome", tmp_path)
    (roots["chest_imagenome"] / chest_imagenome.FILES["all_sentences"]).unlink()
    folder = build(roots, tmp_path / "out", configs=["gold"])
    assert digests(folder / "gold") == digests(repository / "gold")
    without = record_of(folder)
    assert NO_ANATOMY not in without["skipped"]
    assert without["sources"]["chest_imagenome"]["files"] == {key: hashed[key] for key in hashed if key != path.name}


def test_boxes_that_the_annotations_have_not_are_counted(phantom_wrong_lung_roots, edited, repository, tmp_path):
    """Remove all boxes of one image and one box of another: the rows do not change and need no swapped box."""
    gold = chest_imagenome.read_gold(phantom_wrong_lung_roots["chest_imagenome"])
    first_sentence, other_sentence = (
        gold[0],
        next(sentence for sentence in gold if sentence.image_id != gold[0].image_id),
    )
    name = next(iter(other_sentence.boxes))

    def without(header, lines):
        cells = [dict(zip(header.split(","), line.split(","), strict=False)) for line in lines]
        gone = [
            first_sentence.image_id in o["image_id"]
            or (other_sentence.image_id in o["image_id"] and o["bbox_name"] == name)
            for o in cells
        ]
        return header, *(line for line, left_out in zip(lines, gone, strict=True) if not left_out)

    folder = build(edited("anatomy", without), tmp_path / "out", configs=["swap_left_right"])
    n_first = sum(len(sentence.boxes) for sentence in gold if sentence.image_id == first_sentence.image_id)
    n_other = sum(name in sentence.boxes for sentence in gold if sentence.image_id == other_sentence.image_id)
    assert skipped(folder)[UNKNOWN] == n_first + n_other
    assert UNKNOWN not in skipped(repository)
    assert rows_of(folder, "gold") == rows_of(repository, "gold")
    assert set(problems(folder).values()) == {()}
