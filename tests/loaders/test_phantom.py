"""The phantom: what a label or a report says is really in the picture, and the files are laid out as the originals."""

import csv
import hashlib
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from scipy.ndimage import binary_dilation, uniform_filter
from sklearn.metrics import roc_auc_score

from medfaith.loaders import chexpert, images, openi, phantom
from medfaith.loaders.errors import InputError
from medfaith.loaders.phantom import chest
from medfaith.loaders.phantom import chexpert as phantom_chexpert
from medfaith.loaders.phantom import openi as phantom_openi

TARGETS = ("atelectasis", "cardiomegaly", "consolidation", "edema", "pleural effusion", "pneumothorax")
SIDED = sorted(set(chest.FINDINGS) - {"cardiomegaly", "enlarged cardiomediastinum", "edema"})
RESHAPING = {"cardiomegaly", "enlarged cardiomediastinum", "atelectasis"}  # these move outlines


# --- one simple statistic a finding, where it belongs; none knows the drawn patient -----------------------------------

H, W = chest.SIZE
X, Y = np.meshgrid((np.arange(W) + 0.5) / W, (np.arange(H) + 0.5) / H)
REFERENCE = chest.chest((), seed=10**6).regions
LUNGS = REFERENCE["left lung"] | REFERENCE["right lung"]


def area(left, right, top, bottom):
    return (left < X) & (right > X) & (top < Y) & (bottom > Y)


def mean(*areas):
    return lambda pixels: max(pixels[a].mean() for a in areas)


def share_above(level, *areas):
    return lambda pixels: sum((pixels[a] > level).mean() for a in areas)


def brightest_patch(width, *areas):
    return lambda pixels: max(uniform_filter(pixels.astype(float), width)[a].max() for a in areas)


def asymmetry(*zones):
    pairs = [(REFERENCE[f"left {zone} lung"], REFERENCE[f"right {zone} lung"]) for zone in zones]
    return lambda pixels: max(abs(pixels[left].mean() - pixels[right].mean()) for left, right in pairs)


def brightest_plate(pixels):
    """How far a row above the diaphragm outshines the rows 7 above and below it, on the better side."""
    rows = np.arange(118, 140)
    best = []
    for left, right in ((0.15, 0.33), (0.67, 0.85)):
        profile = pixels[:, (X[0] > left) & (X[0] < right)].astype(float).mean(axis=1)
        best.append((profile[rows] - (profile[rows - 7] + profile[rows + 7]) / 2).max())
    return max(best)


UPPER_TWO_THIRDS = [REFERENCE[f"{side} {zone} lung"] for side in ("left", "right") for zone in ("upper", "middle")]
RIBS = area(0.14, 0.86, 0.30, 0.60)
STATISTICS = {
    "cardiomegaly": share_above(150, area(0.34, 0.40, 0.58, 0.66), area(0.66, 0.74, 0.60, 0.68)),
    "enlarged cardiomediastinum": share_above(150, area(0.30, 0.70, 0.20, 0.28)),
    "edema": mean(area(0.32, 0.42, 0.38, 0.55) | area(0.58, 0.68, 0.38, 0.55)),
    "lung opacity": asymmetry("upper", "middle", "lower"),
    "consolidation": brightest_patch(11, area(0.14, 0.33, 0.30, 0.60), area(0.67, 0.86, 0.30, 0.60)),
    "pneumonia": asymmetry("middle", "lower"),
    "lung lesion": brightest_patch(7, *UPPER_TWO_THIRDS),
    "atelectasis": brightest_plate,
    "pleural other": mean(area(0.12, 0.19, 0.40, 0.60), area(0.81, 0.88, 0.40, 0.60)),
    "pneumothorax": lambda pixels: (pixels[LUNGS] < 40).mean(),
    "pleural effusion": mean(area(0.13, 0.22, 0.66, 0.74), area(0.78, 0.87, 0.66, 0.74)),
    "fracture": lambda pixels: ((pixels[RIBS] > 205) | (pixels[RIBS] < 35)).sum(),
    "support devices": lambda pixels: (pixels > 225).mean(),
}


def auroc(finding, pictures, labels):
    return roc_auc_score(labels, [STATISTICS[finding](pixels) for pixels in pictures])


@pytest.fixture(scope="module")
def normals():
    return [chest.draw_chest([], seed=seed) for seed in range(1000, 1060)]


@pytest.mark.parametrize("finding", chest.FINDINGS)
def test_a_finding_alone_is_told_from_a_normal_chest(finding, normals):
    with_it = [chest.draw_chest([finding], seed=seed) for seed in range(60)]
    assert auroc(finding, with_it + normals, [1] * 60 + [0] * 60) > 0.97


@pytest.fixture(scope="module")
def mixed():
    """150 chests with the six targets at random, and which are in them."""
    present = np.random.default_rng(0).random((150, 6)) < 0.4
    return present, [
        chest.draw_chest([name for name, there in zip(TARGETS, row, strict=True) if there], seed=seed)
        for seed, row in enumerate(present)
    ]


@pytest.mark.parametrize("finding", TARGETS)
def test_a_finding_among_others_is_still_told(finding, mixed):
    present, pictures = mixed
    assert auroc(finding, pictures, present[:, TARGETS.index(finding)]) > 0.85


# --- drawing ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("view", chest.VIEWS)
@pytest.mark.parametrize("finding", chest.FINDINGS)
def test_a_finding_is_where_its_mask_says(finding, view):
    for seed in range(5):
        normal, ill = chest.chest([], seed=seed, view=view), chest.chest([finding], seed=seed, view=view)
        (name,) = ill.findings
        mask = ill.findings[name]
        change = np.abs(ill.pixels.astype(int) - normal.pixels)
        assert name.removeprefix("left ").removeprefix("right ") == finding
        assert change[mask].max() > 30
        if finding not in RESHAPING:  # otherwise the same patient, but for the tails of a haze
            strong = change > 0.6 * change.max()
            assert (strong & binary_dilation(mask, iterations=4)).sum() >= 0.95 * strong.sum()
            assert change[~binary_dilation(mask, iterations=18)].max() <= (30 if finding == "edema" else 12)


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("finding", SIDED)
def test_the_patients_left_is_the_images_right(finding, side):
    drawn = chest.chest([f"{side} {finding}"], seed=4)
    assert set(drawn.findings) == {f"{side} {finding}"}
    x, _, width, _ = chest.box(drawn.findings[f"{side} {finding}"])
    middle = x + width / 2
    assert (middle > W / 2) == (side == "left")


def test_both_sides_can_be_named():
    drawn = chest.chest(["left pleural effusion", "right pleural effusion"], seed=1)
    assert set(drawn.findings) == {"left pleural effusion", "right pleural effusion"}


def test_without_a_side_both_occur():
    sides = Counter(next(iter(chest.chest(["pneumothorax"], seed=seed).findings)).split()[0] for seed in range(40))
    assert min(sides["left"], sides["right"]) >= 10


def test_the_anatomy_is_a_chest():
    for seed in range(20):
        drawn = chest.chest([], seed=seed)
        grey = {name: drawn.pixels[mask].mean() for name, mask in drawn.regions.items()}
        assert grey["heart"] > grey["left lung"] + 60
        assert grey["mediastinum"] > grey["trachea"] + 40
        x = {name: chest.box(mask)[0] for name, mask in drawn.regions.items()}
        assert x["right lung"] < x["heart"] < x["left lung"] + 40
        for side in ("left", "right"):
            zones = [drawn.regions[f"{side} {zone} lung"] for zone in ("upper", "middle", "lower")]
            np.testing.assert_array_equal(sum(z.astype(int) for z in zones), drawn.regions[f"{side} lung"])
            tops = [chest.box(z)[1] for z in zones]
            assert tops == sorted(tops)
            assert np.ptp([chest.box(z)[3] for z in zones]) <= 1
        assert not (drawn.regions["left lung"] & drawn.regions["right lung"]).any()


def test_cardiomegaly_is_a_cardiothoracic_ratio_above_one_half():
    def ratio(findings, seed):
        regions = chest.chest(findings, seed=seed).regions
        right_x = chest.box(regions["right lung"])[0]
        left_x, _, left_width, _ = chest.box(regions["left lung"])
        return chest.box(regions["heart"])[2] / (left_x + left_width - right_x)

    for seed in range(20):
        assert ratio([], seed) < 0.5 < ratio(["cardiomegaly"], seed)


@pytest.mark.parametrize("view", chest.VIEWS)
def test_the_same_seed_is_the_same_picture(view):
    first, again, other = (chest.draw_chest(["edema"], seed=seed, view=view) for seed in (5, 5, 6))
    np.testing.assert_array_equal(first, again)
    assert (first != other).mean() > 0.5


def test_a_finding_named_twice_or_in_another_order_is_the_same():
    first = chest.draw_chest(["edema", "cardiomegaly"], seed=5)
    np.testing.assert_array_equal(first, chest.draw_chest(("cardiomegaly", "edema", "edema"), seed=5))


@pytest.mark.parametrize("name", ["Edema", "no finding", "left edema", "middle atelectasis", "left", ""])
def test_an_unknown_finding_is_refused(name):
    with pytest.raises(ValueError, match=f"finding '{name}'"):
        chest.draw_chest([name], seed=0)


def test_an_unknown_view_is_refused():
    with pytest.raises(ValueError, match="view 'AP': expected one of frontal, lateral"):
        chest.draw_chest([], seed=0, view="AP")


@settings(max_examples=25, deadline=None)
@given(
    findings=st.sets(st.sampled_from([*chest.FINDINGS, *(f"left {name}" for name in SIDED)])),
    seed=st.integers(0, 2**64),
    size=st.tuples(st.integers(64, 256), st.integers(64, 256)),
    view=st.sampled_from(chest.VIEWS),
)
def test_any_findings_draw_at_any_size(findings, seed, size, view):
    drawn = chest.chest(findings, seed=seed, size=size, view=view)
    assert drawn.pixels.shape == size
    assert drawn.pixels.dtype == np.uint8
    assert np.ptp(drawn.pixels) > 120
    assert len(drawn.findings) >= len({name.removeprefix("left ") for name in findings})
    for name, mask in [*drawn.regions.items(), *drawn.findings.items()]:
        assert mask.shape == size, name
        assert mask.any(), name


@given(st.data())
def test_box_is_pillows_bounding_box(data):
    bits = data.draw(st.lists(st.booleans(), min_size=63, max_size=63).filter(any))
    mask = np.array(bits).reshape(7, 9)
    left, top, right, bottom = Image.fromarray(mask.astype(np.uint8)).getbbox() or (0, 0, 0, 0)
    assert chest.box(mask) == (left, top, right - left, bottom - top)


def test_an_empty_mask_has_no_box():
    with pytest.raises(ValueError, match="empty"):
        chest.box(np.zeros((3, 3), bool))


# --- writing ----------------------------------------------------------------------------------------------------------


def digest(root):
    """{relative path: sha256} of all files below a folder."""
    files = sorted(path for path in Path(root).rglob("*") if path.is_file())
    return {path.relative_to(root).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    return phantom.write(tmp_path_factory.mktemp("phantom"), seed=0)


def test_write_returns_the_roots_and_stays_small(written):
    assert set(written) == set(phantom.SOURCES)
    sizes = {
        source: sum(path.stat().st_size for path in root.rglob("*") if path.is_file())
        for source, root in written.items()
    }
    assert sizes["chexpert"] + sizes["openi"] < 5_000_000
    assert max(size for source, size in sizes.items() if source != "openi") < 2_500_000


SMALL = """
import sys; from pathlib import Path
from medfaith.loaders.phantom import chexpert, openi
chexpert.write(Path(sys.argv[1]), seed=3, n_train=4, n_valid=3)
openi.write(Path(sys.argv[1]), seed=3, n=4)
"""


def write_small(root, seed):
    phantom_chexpert.write(root, seed=seed, n_train=4, n_valid=3)
    phantom_openi.write(root, seed=seed, n=4)
    return digest(root)


def test_the_same_seed_gives_the_same_bytes_in_any_process(tmp_path):
    here, other = write_small(tmp_path / "here", 3), write_small(tmp_path / "other", 4)
    environment = {**os.environ, "PYTHONHASHSEED": "12345"}
    subprocess.run([sys.executable, "-c", SMALL, str(tmp_path / "there")], check=True, env=environment)
    assert here == digest(tmp_path / "there")
    assert any(name.endswith(".dcm") for name in here)
    assert set(here.values()).isdisjoint(other.values())


def test_write_refuses_what_it_cannot_do_before_it_writes(tmp_path):
    (tmp_path / "openi").mkdir()
    (tmp_path / "openi" / "mine.txt").touch()
    with pytest.raises(InputError, match="not an empty folder"):
        phantom.write(tmp_path)
    with pytest.raises(InputError, match="no phantom"):
        phantom.write(tmp_path, sources=["chexpert", "cholec80"])
    assert not (tmp_path / "chexpert").exists()


# --- CheXpert ---------------------------------------------------------------------------------------------------------

HEADER = (
    "Path,Sex,Age,Frontal/Lateral,AP/PA,No Finding,Enlarged Cardiomediastinum,Cardiomegaly,Lung Opacity,Lung Lesion,"
    "Edema,Consolidation,Pneumonia,Atelectasis,Pneumothorax,Pleural Effusion,Pleural Other,Fracture,Support Devices"
)


def rows_of(written, split):
    with (written["chexpert"] / "CheXpert-v1.0-small" / f"{split}.csv").open(encoding="utf-8", newline="") as file:
        assert file.readline() == HEADER + "\n"
        return list(csv.DictReader(file, HEADER.split(",")))


def studies_of(rows):
    """{study folder: its rows}."""
    studies = {}
    for row in rows:
        studies.setdefault(row["Path"].rsplit("/", 1)[0], []).append(row)
    return studies


@pytest.mark.parametrize(
    ("split", "first", "values"),
    [("train", 1, {"1.0", "0.0", "-1.0", ""}), ("valid", 64541, {"1.0", "0.0"})],
)
def test_chexpert_rows(written, split, first, values):
    rows = rows_of(written, split)
    labels = HEADER.split(",")[5:]
    assert {row[label] for row in rows for label in labels} == values
    for study, images_of_study in studies_of(rows).items():
        assert len({tuple(row[label] for label in labels) for row in images_of_study}) == 1, study
        numbers = [int(row["Path"].rsplit("/view", 1)[1][0]) for row in images_of_study]
        assert numbers == list(range(1, len(numbers) + 1))
    patients = []
    for row in rows:
        match = re.fullmatch(rf"CheXpert-v1\.0-small/{split}/patient(\d{{5}})/study\d+/view\d_(\w+)\.jpg", row["Path"])
        assert match, row["Path"]
        patients.append(int(match[1]))
        assert row["Frontal/Lateral"] == match[2].capitalize()
        assert row["AP/PA"] in ({"AP", "PA"} if match[2] == "frontal" else {""})
        assert 0 <= int(row["Age"]) <= 90
        assert row["Sex"] in {"Female", "Male", "Unknown"}
        with Image.open(written["chexpert"] / row["Path"]) as picture:
            assert (picture.format, picture.mode, picture.size) == ("JPEG", "L", (W, H))
        healthy = all(row[label] not in ("1.0", "-1.0") for label in labels[1:-1])
        assert (row["No Finding"] == "1.0") == healthy
    assert patients[0] == first
    assert patients == sorted(patients)
    assert len(rows) == len(list((written["chexpert"] / "CheXpert-v1.0-small" / split).rglob("*.jpg")))


def test_chexpert_has_several_studies_and_views(written):
    studies = studies_of(rows_of(written, "train"))
    assert set(Counter(len(rows) for rows in studies.values())) == {1, 2, 3}
    assert max(Counter(study.rsplit("/", 1)[0] for study in studies).values()) == 3
    assert [*studies] != sorted(studies)  # as in the original, a patient's studies are not always in order


@pytest.mark.parametrize("split", ["train", "valid"])
def test_chexpert_feeds_every_configuration(written, split):
    """CXR-ContraBench's three protocols, counted by hand: presence, absence, positive-only."""
    counts = Counter()
    for rows in studies_of(rows_of(written, split)).values():
        labels = {name: next(v for k, v in rows[0].items() if k.lower() == name) for name in TARGETS}
        positive = [name for name in TARGETS if labels[name] == "1.0"]
        negative = [name for name in TARGETS if labels[name] == "0.0"]
        if len(positive) >= 2:
            counts["presence"] += len(positive)
            counts["positive only"] += len(positive) * (len(negative) >= 2)
        if positive:
            counts["absence"] += len(negative)
        counts.update(positive)
    assert min(counts[name] for name in ("presence", "positive only", "absence")) >= 15
    assert min(counts[name] for name in TARGETS) >= 5


@pytest.mark.parametrize(("split", "file"), [("train", "train"), ("validation", "valid")])
def test_chexpert_is_what_the_reader_reads(written, split, file):
    root = written["chexpert"]
    table = chexpert.read_labels(chexpert.label_files(root)[split], split)
    rows = rows_of(written, file)
    assert ["CheXpert-v1.0-small/" + key for key in table["key"].to_pylist()] == [row["Path"] for row in rows]
    ref = {"source": "chexpert", "key": table["key"][0].as_py(), "view": "AP"}
    assert images.open_image(ref, {"chexpert": root}).size == (W, H)


@pytest.mark.parametrize("finding", TARGETS)
def test_chexpert_images_show_their_labels(written, finding):
    column = next(name for name in HEADER.split(",") if name.lower() == finding)
    frontal = [r for split in ("train", "valid") for r in rows_of(written, split) if r["Frontal/Lateral"] == "Frontal"]
    roots = {"chexpert": written["chexpert"]}
    pictures = [
        np.asarray(images.open_image({"source": "chexpert", "key": row["Path"].split("/", 1)[1], "view": ""}, roots))[
            ..., 0
        ]
        for row in frontal
    ]
    assert auroc(finding, pictures, [row[column] == "1.0" for row in frontal]) > 0.8


# --- OpenI ------------------------------------------------------------------------------------------------------------

MESH = {
    "atelectasis": "Pulmonary Atelectasis",
    "cardiomegaly": "Cardiomegaly",
    "consolidation": "Consolidation",
    "edema": "Pulmonary Edema",
    "pleural effusion": "Pleural Effusion",
    "pneumothorax": "Pneumothorax",
}


@pytest.fixture(scope="module")
def reports(written):
    return openi.read_reports(written["openi"])


def test_openi_has_every_kind_of_report(reports):
    assert {len(report.images) for report in reports} == {0, 1, 2, 3}
    assert any(not report.findings for report in reports)
    assert any(not report.impression for report in reports)
    assert all(report.findings or report.impression for report in reports)
    majors = Counter(term for report in reports for term in report.mesh_major)
    assert min(majors["normal"], majors["No Indexing"], majors["Technical Quality of Image Unsatisfactory"]) >= 2
    assert any(report.mesh_automatic for report in reports)
    numbers = [int(report.uid.removeprefix("CXR")) for report in reports]
    assert numbers != list(range(1, len(reports) + 1))  # gaps, as in the original
    assert [image.key for image in reports[0].images] == ["CXR1_1_IM-0001-3001.png", "CXR1_1_IM-0001-4001.png"]


def test_openi_xml_has_the_original_s_elements(written):
    text = (written["openi"] / "ecgen-radiology" / "1.xml").read_text(encoding="utf-8")
    for line in ('<uId id="CXR1"', '<AbstractText Label="COMPARISON"', "<MeSH>", "<parentImage id=", "<figureId>F1<"):
        assert line in text
    assert any(
        "<major>Technical Quality of Image Unsatisfactory </major>" in path.read_text(encoding="utf-8")
        for path in (written["openi"] / "ecgen-radiology").iterdir()
    )


@pytest.mark.parametrize(
    "cue",
    [
        r"No \w", "no evidence of", "without", "negative for", "free of", "clear of", "is not seen", r"No [\w ]+ or \w",
        r"Neither [\w ]+ nor", r"no [\w ]+, [\w ]+ or \w", "Possible|cannot be excluded|may represent",
        "History of|in the past",
    ],
)  # fmt: skip
def test_openi_mentions_come_in_many_forms(reports, cue):
    assert sum(bool(re.search(cue, report.findings + " " + report.impression)) for report in reports) >= 2


def test_openi_states_what_it_indexes(reports):
    for report in reports:
        text = (report.findings + " " + report.impression).lower()
        stems = {term.split("/")[0] for term in report.mesh_major}
        for finding, term in MESH.items():
            if term in stems:
                sentences = [s for s in text.split(".") if finding in s]
                assert sentences
                negated = [
                    s for s in sentences if re.search(r"\bno\b|without|negative|free|clear|not|possible|may|histor", s)
                ]
                assert not negated, report.uid
        if "normal" in stems:
            assert stems <= {"normal", "Technical Quality of Image Unsatisfactory"}


def test_openi_images_are_there_and_some_are_dicom(written, reports):
    roots = {"openi": written["openi"]}
    kinds = Counter()
    for report in reports:
        for image in report.images:
            ref = {"source": "openi", "key": image.key, "view": image.view}
            kinds[images.locate(ref, roots).suffix] += 1
            opened = images.open_image(ref, roots)
            assert (opened.mode, opened.size) == ("RGB", (W, H))
    assert kinds[".png"] > kinds[".dcm"] >= 8
    assert sum(kinds.values()) == len([p for p in written["openi"].rglob("*") if p.suffix in (".png", ".dcm")])


@pytest.mark.parametrize("by_table", [True, False])
def test_openi_dicom_shows_the_drawn_pixels(tmp_path, by_table):
    pixels = chest.draw_chest(["cardiomegaly"], seed=3)
    phantom_openi._write_dicom(tmp_path / "9_IM-0001-1001.dcm", pixels, "CXR9_IM-0001-1001", by_table=by_table)
    ref = {"source": "openi", "key": "CXR9_IM-0001-1001.png", "view": ""}
    shown = np.asarray(images.open_image(ref, {"openi": tmp_path}))[..., 0]
    np.testing.assert_array_equal(shown, pixels)


@pytest.mark.parametrize("finding", TARGETS)
def test_openi_images_show_what_is_indexed(written, reports, finding):
    pictures, labels = [], []
    for report in reports:
        if not report.images or "No Indexing" in report.mesh_major:
            continue
        ref = {"source": "openi", "key": report.images[0].key, "view": ""}
        pictures.append(np.asarray(images.open_image(ref, {"openi": written["openi"]}))[..., 0])
        labels.append(any(term.startswith(MESH[finding]) for term in report.mesh_major))
    assert auroc(finding, pictures, labels) > 0.85


def test_openi_sides_agree_with_the_drawing(written, reports):
    """A one-sided effusion whitens the angle on the side that the index names."""
    angles = {"right": area(0.13, 0.22, 0.66, 0.74), "left": area(0.78, 0.87, 0.66, 0.74)}
    checked = 0
    for report in reports:
        sides = [term.split("/")[1] for term in report.mesh_major if term.startswith("Pleural Effusion/")]
        if report.images and sides:
            ref = {"source": "openi", "key": report.images[0].key, "view": ""}
            pixels = np.asarray(images.open_image(ref, {"openi": written["openi"]}))[..., 0]
            other = "left" if sides[0] == "right" else "right"
            assert pixels[angles[sides[0]]].mean() > pixels[angles[other]].mean(), report.uid
            checked += 1
    assert checked >= 5


def test_a_larger_collection_can_be_asked_for(tmp_path):
    phantom_chexpert.write(tmp_path / "chexpert", seed=1, n_train=3, n_valid=1)
    assert set(chexpert.label_files(tmp_path / "chexpert")) == {"train", "validation"}
    phantom_openi.write(tmp_path / "openi", seed=1, n=3)
    assert [report.uid for report in openi.read_reports(tmp_path / "openi")] == ["CXR1", "CXR2", "CXR3"]
