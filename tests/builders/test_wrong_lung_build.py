"""That's the Wrong Lung! from the phantom sources to verified rows on disk, and what `verify` finds in edited rows."""

from __future__ import annotations

import csv
import hashlib
import json
import shutil
from pathlib import Path

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from medfaith.builders import wrong_lung
from medfaith.builders.write import summarise
from medfaith.builders.wrong_lung import CONFIGS, ORIGINALS, Options
from medfaith.builders.wrong_lung.boxes import ELSEWHERE, UNKNOWN
from medfaith.builders.wrong_lung.sentences import NO_ANATOMY, UNLISTED
from medfaith.evaluate_metrics.localization.view import mask
from medfaith.loaders import chest_imagenome, images, phantom
from medfaith.loaders.errors import InputError, MissingSourceError

REPOSITORY = "wrong-lung-chest_imagenome"
SEEDED = {"shuffle_in_report", "random_sentences", "random_boxes", "synthetic_swapped_conditions"}


def rows_of(folder: Path, config: str) -> list[dict]:
    return pq.read_table(next((folder / config).glob("test-*.parquet"))).to_pylist()


def digests(folder: Path) -> dict[str, str]:
    """Of every file, by its first folder below the repository."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.suffix != ".lock"]
    return {path.relative_to(folder).parts[0]: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@pytest.fixture
def repository(phantom_wrong_lung_build) -> Path:
    return phantom_wrong_lung_build / REPOSITORY


def test_a_build_is_sound(repository):
    verdicts = wrong_lung.verify(repository)
    assert [verdict.config for verdict in verdicts] == list(CONFIGS)
    assert [verdict.problems for verdict in verdicts] == [()] * len(CONFIGS)
    assert all(verdict.summary["rows"] > 100 for verdict in verdicts)


@pytest.mark.parametrize("config", CONFIGS)
def test_load_dataset_gives_the_rows(repository, config):
    loaded = datasets.load_dataset(str(repository), config, split="test")
    assert isinstance(loaded, datasets.Dataset)
    assert loaded.features == wrong_lung.family(config).features
    assert loaded.to_list() == rows_of(repository, config)


def test_gold_is_what_the_file_says(repository, phantom_wrong_lung_roots):
    path = phantom_wrong_lung_roots["chest_imagenome"] / chest_imagenome.FILES["gold"]
    with path.open(encoding="utf-8") as file:
        lines = list(csv.DictReader(file, delimiter="\t"))
    rows = rows_of(repository, "gold")
    assert [row["id"] for row in rows] == list(dict.fromkeys(f"wrong-lung:{line['row_id']}" for line in lines))
    for row in rows:
        own = [line for line in lines if f"wrong-lung:{line['row_id']}" == row["id"]]
        assert {line["sentence"] for line in own} == {row["sentence"]}
        assert Path(row["image"]["key"]).stem + ".dcm" == own[0]["image_id"]
        corners = {line["bbox"]: json.loads(line["coord_original"]) for line in own}
        for box in row["boxes"]:
            x1, y1, x2, y2 = corners.pop(box["label"])
            assert box["xywh"] == [x1, y1, x2 - x1 + 1, y2 - y1 + 1]
        assert not corners
        assert {(label["name"], label["context"]) for label in row["labels"]} == {
            (line["label_name"], line["context"]) for line in own
        }
        assert row["subsets"]["abnormal"] == any((o["label_name"], o["context"]) == ("abnormal", "yes") for o in own)
    counted = {name: sum(row["subsets"][name] for row in rows) for name in rows[0]["subsets"]}
    assert min(counted.values()) > 0
    record = json.loads((repository / "build.json").read_text())
    for name, title in (("abnormal", "Abnormal"), ("one_lung", "One Lung"), ("mdrb", "MDRB")):
        assert record["skipped"][f"sentences of subset {title}"] == counted[name]


def test_sentences_that_are_in_no_row_are_counted(repository, phantom_wrong_lung_roots, tmp_path):
    """The file of all sentences has 29 more than gold has rows; a copy without it builds the same rows."""
    root = phantom_wrong_lung_roots["chest_imagenome"]
    with (root / chest_imagenome.FILES["all_sentences"]).open(encoding="utf-8") as file:
        ids = {line["row_id"] for line in csv.DictReader(file, delimiter="\t")}
    record = json.loads((repository / "build.json").read_text())
    kept = {row["id"].removeprefix("wrong-lung:") for row in rows_of(repository, "gold")}
    assert record["skipped"][NO_ANATOMY] == len(ids - kept) == 29
    assert UNLISTED not in record["skipped"]
    name = Path(chest_imagenome.FILES["all_sentences"]).name
    hashed = record["sources"]["chest_imagenome"]["files"]
    assert hashed[name] == hashlib.sha256((root / chest_imagenome.FILES["all_sentences"]).read_bytes()).hexdigest()
    shutil.copytree(root, tmp_path / "source")
    (tmp_path / "source" / chest_imagenome.FILES["all_sentences"]).unlink()
    roots = phantom_wrong_lung_roots | {"chest_imagenome": tmp_path / "source"}
    (folder,) = wrong_lung.build(roots, tmp_path / "out", configs=["gold"])
    assert digests(folder)["gold"] == digests(repository)["gold"]
    without = json.loads((folder / "build.json").read_text())
    assert NO_ANATOMY not in without["skipped"]
    assert without["sources"]["chest_imagenome"]["files"] == {key: hashed[key] for key in hashed if key != name}


def test_a_fault_of_the_file_of_all_sentences_stops_the_build(phantom_wrong_lung_roots, tmp_path):
    root = shutil.copytree(phantom_wrong_lung_roots["chest_imagenome"], tmp_path / "source")
    path = root / chest_imagenome.FILES["all_sentences"]
    path.write_text(path.read_text().replace("\t", ","))
    with pytest.raises(InputError, match=rf"{path.name}: its cells are not separated by tabs"):
        wrong_lung.build(phantom_wrong_lung_roots | {"chest_imagenome": root}, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_images_open_and_have_the_rows_size(repository, phantom_wrong_lung_roots):
    for row in rows_of(repository, "gold")[::20]:
        assert images.open_image(row["image"], phantom_wrong_lung_roots).size == (row["width"], row["height"])


def test_swapped_sentences_of_one_lung_describe_the_other_half(repository):
    found = 0
    for row in rows_of(repository, "swap_left_right"):
        if row["subsets"]["one_lung"] and row["described"] != row["boxes"]:
            size = (row["height"], row["width"])
            here, there = (mask([box["xywh"] for box in row[name]], size) for name in ("boxes", "described"))
            assert (here & there).sum() < 0.2 * min(here.sum(), there.sum())
            found += 1
    assert found > 20


def test_the_bytes_do_not_depend_on_the_workers(phantom_wrong_lung_roots, repository, tmp_path):
    folders = wrong_lung.build(phantom_wrong_lung_roots, tmp_path, workers=3)
    assert digests(folders[0]) == digests(repository)


@pytest.mark.parametrize(
    ("arguments", "changed"),
    [
        ({"seed": 1}, SEEDED),
        ({"options": Options(swap="substring")}, {"swap_left_right"}),
        ({"options": Options(random_boxes="pixels")}, {"random_boxes"}),
    ],
)
def test_what_an_argument_changes(phantom_wrong_lung_roots, repository, tmp_path, arguments, changed):
    (folder,) = wrong_lung.build(phantom_wrong_lung_roots, tmp_path, **arguments)
    here, there = digests(folder), digests(repository)
    assert {name for name in here if here[name] != there[name]} == changed | {"build.json", "README.md"}
    assert [verdict.problems for verdict in wrong_lung.verify(folder)] == [()] * len(CONFIGS)


@pytest.mark.parametrize(
    ("configs", "built"),
    [
        (["trimmed"], ["gold", "trimmed"]),
        (["synthetic_swapped_conditions"], ["gold", "synthetic", "synthetic_swapped_conditions"]),
        (["gold"], ["gold"]),
    ],
)
def test_a_config_comes_with_its_originals(phantom_wrong_lung_roots, tmp_path, configs, built):
    (folder,) = wrong_lung.build(phantom_wrong_lung_roots, tmp_path, configs=configs)
    assert [(verdict.config, verdict.problems) for verdict in wrong_lung.verify(folder)] == [(c, ()) for c in built]


def one_patient(root: Path, out: Path) -> Path:
    """The source with the sentences of its first patient only."""
    shutil.copytree(root, out)
    path = out / chest_imagenome.FILES["gold"]
    header, *lines = path.read_text().splitlines(keepends=True)
    patient = lines[0].split("\t")[0]
    path.write_text(header + "".join(line for line in lines if line.split("\t")[0] == patient))
    return out


def test_configs_without_rows_are_left_out_unless_they_are_asked_for(phantom_wrong_lung_roots, tmp_path):
    root = one_patient(phantom_wrong_lung_roots["chest_imagenome"], tmp_path / "source")
    roots = phantom_wrong_lung_roots | {"chest_imagenome": root}
    (folder,) = wrong_lung.build(roots, tmp_path / "out")
    built = [verdict.config for verdict in wrong_lung.verify(folder)]
    assert set(CONFIGS) - set(built) == {"random_sentences", "random_boxes"}
    with pytest.raises(InputError, match="--config random_boxes: no sentence has a partner of this kind"):
        wrong_lung.build(roots, tmp_path / "other", configs=["random_boxes"])
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"configs": ["shuffled"]}, "(?s)--config shuffled: wrong-lung has no such config.*gold, swap_left_right"),
        ({"options": Options(swap="letters")}, "(?s)--swap letters: .*one of words, substring"),
        ({"options": Options(random_boxes="same")}, "(?s)--random-boxes same: .*one of share, pixels"),
    ],
)
def test_unknown_arguments_are_refused(phantom_wrong_lung_roots, tmp_path, arguments, words):
    with pytest.raises(InputError, match=words):
        wrong_lung.build(phantom_wrong_lung_roots, tmp_path / "out", **arguments)
    assert not (tmp_path / "out").exists()


def test_both_sources_are_needed(phantom_wrong_lung_roots, tmp_path):
    for source in phantom_wrong_lung_roots:
        with pytest.raises(MissingSourceError, match="wrong-lung needs all sources"):
            wrong_lung.build({source: phantom_wrong_lung_roots[source]}, tmp_path / "out")


def test_images_of_another_release_are_refused(phantom_wrong_lung_roots, tmp_path):
    other = phantom.write(tmp_path / "other", seed=1, sources=["mimic_cxr"])
    with pytest.raises(
        InputError, match=r"no gold sentence has an image and boxes; \d+ gold images that MIMIC-CXR-JPG"
    ):
        wrong_lung.build(phantom_wrong_lung_roots | other, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def edit(folder: Path, config: str, change) -> None:
    """Changes a config's rows, and what build.json says of them, as a careful forger would."""
    family = wrong_lung.family(config)
    path = next((folder / config).glob("test-*.parquet"))
    rows = pq.read_table(path).to_pylist()
    table = pa.Table.from_pylist(change(rows) or rows, schema=family.features.arrow_schema)
    pq.write_table(table, path)
    record = json.loads((folder / "build.json").read_text())
    record["splits"][f"{config}/test"] = summarise(table, family.counted)
    (folder / "build.json").write_text(json.dumps(record))


def sided(rows):
    return next(row for row in rows if row["described"] != row["boxes"])


def exchange(rows):
    """The boxes of two sentences of different reports."""
    one, other = rows[0], next(row for row in rows if row["study_id"] != rows[0]["study_id"])
    one["boxes"], other["boxes"] = other["boxes"], one["boxes"]


SMALL = {"label": "trachea", "xywh": [0, 0, 1, 1]}
EDITS = {
    "an id twice": ("gold", lambda rows: rows[1].update(id=rows[0]["id"]), "1 rows have the id of another row"),
    "an image elsewhere": ("gold", lambda rows: rows[0]["image"].update(key="../x.jpg"), "is not a path below"),
    "no text": ("gold", lambda rows: rows[0].update(sentence=" "), "no text"),
    "a null text": ("gold", lambda rows: rows[0].update(sentence=None), "no text"),
    "a box without a name": ("gold", lambda rows: rows[0]["boxes"][0].update(label=None), "a box of boxes without a"),
    "a blank name": ("gold", lambda rows: rows[0]["boxes"][0].update(label=" "), "a box of boxes without a label"),
    "a description without a name": (
        "random_sentences",
        lambda rows: sided(rows)["described"].append({"label": None, "xywh": [0, 0, 1, 1]}),
        "a box of described without a label",
    ),
    "no box": ("gold", lambda rows: rows[0].update(boxes=[]), "boxes of []; expected one or more"),
    "an anatomy twice": ("gold", lambda rows: rows[0]["boxes"].append(rows[0]["boxes"][0]), "of different anatomies"),
    "a box outside": (
        "gold",
        lambda rows: rows[0]["boxes"][0].update(xywh=[-9, 0, 20, 20]),
        "[-9.0, 0.0, 20.0, 20.0] of boxes is not within the image",
    ),
    "a context": (
        "gold",
        lambda rows: rows[0]["labels"][0].update(context="maybe"),
        "context maybe; expected yes or no",
    ),
    "a subset": (
        "gold",
        lambda rows: rows[0]["subsets"].update(abnormal=not rows[0]["subsets"]["abnormal"]),
        "subset abnormal is",
    ),
    "a lung less": (
        "gold",
        lambda rows: next(r for r in rows if r["subsets"]["one_lung"]).update(boxes=[SMALL]),
        "subset one_lung is True, by its boxes and labels False",
    ),
    "an original that is not there": (
        "trimmed",
        lambda rows: rows[0].update(original_id="wrong-lung:1|1"),
        "original_id 'wrong-lung:1|1' is no row that it could be made of",
    ),
    "another perturbation": (
        "trimmed",
        lambda rows: rows[0].update(perturbation="random_boxes"),
        "perturbation 'random_boxes' in config trimmed",
    ),
    "a perturbation that there is not": (
        "trimmed",
        lambda rows: rows[0].update(perturbation="blur"),
        "perturbation 'blur', which is none",
    ),
    "another patient": ("synthetic", lambda rows: rows[0].update(patient_id="1"), "patient_id 1, not"),
    "other boxes where the text changed": (
        "random_sentences",
        lambda rows: rows[0].update(boxes=[SMALL]),
        "boxes that are not its original's, which random_sentences does not change",
    ),
    "other text where the boxes changed": (
        "random_boxes",
        lambda rows: rows[0].update(sentence="Clear."),
        "sentence that are not its original's, which random_boxes does not change",
    ),
    "another description of the same text": (
        "shuffle_in_report",
        lambda rows: rows[0].update(described=[SMALL]),
        "described boxes that are not its original's",
    ),
    "a text that is not the swapped one": (
        "swap_left_right",
        lambda rows: sided(rows).update(sentence="Left is right."),
        "its text is not its original's with left and right exchanged",
    ),
    "a side that is not the other": (
        "swap_left_right",
        lambda rows: (row := sided(rows)).update(described=row["boxes"]),
        "describes anatomies that are not the other side's",
    ),
    "boxes of another report": (
        "shuffle_in_report",
        exchange,
        "its sentences' sets of boxes are not those of the originals in another order",
    ),
    "a sentence of nobody": (
        "random_sentences",
        lambda rows: rows[0].update(sentence="Nobody's sentence."),
        "has nothing of another patient in place of its own",
    ),
    "too much trimmed": (
        "trimmed",
        lambda rows: rows[0].update(boxes=[SMALL]),
        "boxes that are not its original's without the large ones",
    ),
}


@pytest.mark.parametrize("name", EDITS)
def test_verify_finds(repository, tmp_path, name):
    config, change, problem = EDITS[name]
    folder = tmp_path / REPOSITORY
    shutil.copytree(repository, folder)
    edit(folder, config, change)
    problems = {verdict.config: verdict.problems for verdict in wrong_lung.verify(folder)}
    assert any(problem in found for found in problems[config]), problems[config]
    faulty = {
        partner for partner, found in problems.items() if found == ("its originals, gold, are missing or faulty",)
    }
    assert faulty == ({partner for partner, original in ORIGINALS.items() if original == config == "gold"})


def moved(root: Path, target: Path, change, most: int) -> Path:
    """A copy of Chest ImaGenome in which `change` has moved the corners of the first `most` rows' boxes."""
    shutil.copytree(root, target)
    path = target / chest_imagenome.FILES["gold"]
    header, *lines = path.read_text(encoding="utf-8").splitlines()
    column = header.split("\t").index("coord_original")
    for number, line in enumerate(lines[:most]):
        cells = line.split("\t")
        cells[column] = str(change(json.loads(cells[column])))
        lines[number] = "\t".join(cells)
    path.write_text("\n".join([header, *lines]) + "\n", encoding="utf-8")
    return target


def test_corners_in_another_order_than_the_annotations_are_refused(phantom_wrong_lung_roots, tmp_path):
    root = moved(
        phantom_wrong_lung_roots["chest_imagenome"], tmp_path / "gold", lambda c: [c[1], c[0], c[3], c[2]], 10**6
    )
    with pytest.raises(InputError, match=r"of \d+ boxes of the sentences are not where the annotations file has them"):
        wrong_lung.build(phantom_wrong_lung_roots | {"chest_imagenome": root}, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_box_that_the_annotations_have_elsewhere_is_counted(phantom_wrong_lung_roots, tmp_path):
    """The first sentence's first box has a row for each of its two labels."""
    root = phantom_wrong_lung_roots["chest_imagenome"]
    changed = moved(root, tmp_path / "gold", lambda c: [c[0] + 2, *c[1:]], 2)
    (folder,) = wrong_lung.build(
        phantom_wrong_lung_roots | {"chest_imagenome": changed}, tmp_path / "out", configs=["gold"]
    )
    assert json.loads((folder / "build.json").read_text())["skipped"][ELSEWHERE] == 1


def test_boxes_that_the_annotations_have_not_are_counted(phantom_wrong_lung_roots, repository, tmp_path):
    """Of one image no box, of another not the first that gold has: the rows are the same, and need no swapped box."""
    root = shutil.copytree(phantom_wrong_lung_roots["chest_imagenome"], tmp_path / "chest_imagenome")
    gold = chest_imagenome.read_gold(root)
    first, other = gold[0], next(one for one in gold if one.image_id != gold[0].image_id)
    name = next(iter(other.boxes))
    path = root / chest_imagenome.FILES["anatomy"]
    header, *lines = path.read_text(encoding="utf-8").splitlines()
    at, of = header.split(",").index("image_id"), header.split(",").index("bbox_name")

    def stays(line: str) -> bool:
        image, box = (line.split(",")[column] for column in (at, of))
        return first.image_id not in image and not (other.image_id in image and box == name)

    path.write_text("\n".join([header, *filter(stays, lines)]) + "\n", encoding="utf-8")
    (folder,) = wrong_lung.build(
        phantom_wrong_lung_roots | {"chest_imagenome": root}, tmp_path / "out", configs=["swap_left_right"]
    )
    n_first = sum(len(one.boxes) for one in gold if one.image_id == first.image_id)
    n_other = sum(name in one.boxes for one in gold if one.image_id == other.image_id)
    skipped = json.loads((folder / "build.json").read_text())["skipped"]
    assert skipped[UNKNOWN] == n_first + n_other
    assert UNKNOWN not in json.loads((repository / "build.json").read_text())["skipped"]
    assert rows_of(folder, "gold") == rows_of(repository, "gold")
    assert {verdict.problems for verdict in wrong_lung.verify(folder)} == {()}
