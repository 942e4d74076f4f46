"""The silver dataset of Chest ImaGenome: sentences of scene graphs, zipped or extracted, and the splits."""

from __future__ import annotations

import copy
import json
import zipfile
from typing import Any

import pytest

from medfaith.loaders import chest_imagenome, chest_imagenome_silver, limits
from medfaith.loaders.chest_imagenome import Mention
from medfaith.loaders.errors import InputError
from tests.support.loaders.faults import get_fault

DICOM = "02aa804e-bde0afdd-112c0b34-7bc16630-00000000"
STUDY = "50414267"


def read_scene_graph(root, dicom_id):
    """Read the sentences of a single image."""
    with chest_imagenome_silver.SceneGraphs(root) as graphs:
        return graphs.read(dicom_id)


def make_object(name, x1, y1, x2, y2):
    corners = {"original_x1": x1, "original_y1": y1, "original_x2": x2, "original_y2": y2}
    return {"object_id": f"{DICOM}_{name}", "bbox_name": name, "x1": 1, "y1": 1, "x2": 5, "y2": 5} | corners


def make_attributes(name, *phrases):
    columns = {"phrase_IDs": [f"{STUDY}|{p[0]}" for p in phrases], "phrases": [p[1] for p in phrases]}
    return {"object_id": f"{DICOM}_{name}", "bbox_name": name, "attributes": [p[2] for p in phrases]} | columns


HEART = (9, "Heart\n is normal.", ["nlp|yes|normal", "anatomicalfinding|no|enlarged cardiac silhouette"])
LUNGS = (10, "No pneumothorax.", ["anatomicalfinding|no|pneumothorax"])
GRAPH = {
    "image_id": DICOM,
    "patient_id": 10000032,
    "study_id": int(STUDY),
    "objects": [
        make_object("left lung", 1300, 200, 2300, 2105),
        make_object("right lung", -3, 190, 1200, 2000),
        make_object("cardiac silhouette", 800, 900, 1700, 1900.5),
        make_object("spine", -90, 0, -2, 100),
        make_object("carina", None, None, None, None),
    ],
    "attributes": [
        make_attributes("cardiac silhouette", (11, "Nothing is said of it.", []), HEART),
        make_attributes("right lung", LUNGS),
        make_attributes("left lung", HEART, LUNGS),
        make_attributes("left chest wall", (12, "A rib is broken.", ["anatomicalfinding|yes|rib fracture"])),
        make_attributes("spine", (13, "The spine is straight.", ["nlp|yes|normal"])),
        make_attributes("carina", (14, "The carina is sharp.", ["nlp|yes|normal"])),
    ],
    "relationships": [],
}


def write_zip(root, *graphs, inside="scene_graph/"):
    """Write silver_dataset/scene_graph.zip with the given graphs (JSON values or text)."""
    (root / "silver_dataset").mkdir(exist_ok=True)
    with zipfile.ZipFile(root / "silver_dataset" / "scene_graph.zip", "w", zipfile.ZIP_DEFLATED) as file:
        for number, graph in enumerate(graphs):
            text = graph if isinstance(graph, str) else json.dumps(graph)
            file.writestr(f"{inside}{DICOM[:-1]}{number}_SceneGraph.json", text)
    return root


def extract_zip(root, inside):
    with zipfile.ZipFile(root / "silver_dataset" / "scene_graph.zip") as file:
        file.extractall(root / "silver_dataset" / inside)
    (root / "silver_dataset" / "scene_graph.zip").unlink()


@pytest.mark.parametrize("layout", ["scene_graph/", "", "unpacked", "unpacked twice"])
def test_sentences_of_a_scene_graph(tmp_path, layout):
    write_zip(tmp_path, GRAPH, inside="" if layout == "" else "scene_graph/")
    if layout.startswith("unpacked"):
        extract_zip(tmp_path, "." if layout == "unpacked" else "scene_graph")
    heart, lungs = read_scene_graph(tmp_path, DICOM)
    assert isinstance(heart, chest_imagenome.GoldSentence)
    assert (heart.id, lungs.id) == (f"{STUDY}|9", f"{STUDY}|10")
    assert (heart.patient_id, heart.study_id, heart.image_id) == ("10000032", STUDY, DICOM)
    assert (heart.sentence, lungs.sentence) == ("Heart\n is normal.", "No pneumothorax.")
    # y2 must be y2: a public reader returns x2 instead
    left_box, right_box = (1300.0, 200.0, 2300.0, 2105.0), (-3.0, 190.0, 1200.0, 2000.0)
    assert heart.boxes == {"cardiac silhouette": (800.0, 900.0, 1700.0, 1900.5), "left lung": left_box}
    assert list(lungs.boxes.items()) == [("right lung", right_box), ("left lung", left_box)]
    assert lungs.mentions == tuple(Mention(side, "pneumothorax", "no", True) for side in ("right lung", "left lung"))
    assert heart.mentions[:2] == (
        Mention("cardiac silhouette", "normal", "yes", True),
        Mention("cardiac silhouette", "enlarged cardiac silhouette", "no", True),
    )


def test_an_image_without_a_graph_has_no_sentences(tmp_path):
    write_zip(tmp_path, GRAPH)
    with chest_imagenome_silver.SceneGraphs(tmp_path) as graphs:
        assert graphs.read(DICOM[:-1] + "7") == []
        assert len(graphs.read(DICOM)) == 2
        assert len(graphs.read(DICOM)) == 2  # the zip stays open
    extract_zip(tmp_path, ".")
    assert read_scene_graph(tmp_path, DICOM[:-1] + "7") == []


def make_graph(path, value):
    """Return the graph with another value at a path of keys and indices."""
    graph = copy.deepcopy(GRAPH)
    *parents, last = path
    place: Any = graph
    for step in parents:
        place = place[step]
    place[last] = value
    return graph


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        ("{", "is no JSON"),
        ("[]", "not of the release's form"),
        ({"image_id": DICOM}, "KeyError: 'objects'"),
        (make_graph(["image_id"], "another"), "it is of image 'another'"),
        (make_graph(["objects"], 5), "not of the release's form"),
        (make_graph(["objects", 0, "original_x1"], "1300"), "lies at ['1300', 200, 2300, 2105]"),
        (make_graph(["objects", 0, "original_x1"], float("nan")), "lies at [nan"),
        (make_graph(["objects", 0, "original_x1"], 2400), "ends before it begins"),
        (make_graph(["objects", 0, "original_y2"], 100), "ends before it begins"),
        (make_graph(["attributes", 1, "phrases"], []), "differ in length"),
        (make_graph(["attributes", 1, "phrases", 0], "Another."), f"two sentences with the id '{STUDY}|10'"),
        *(
            (make_graph(["objects", 0, "bbox_name"], name), f"the bbox_name {name!r}, which is no text")
            for name in (None, 7, " ")
        ),
        *(
            (make_graph(["attributes", 1, "phrases", 0], text), f"the phrase {text!r}, which is no text")
            for text in (None, 3)
        ),
        *(
            (make_graph(["attributes", 1, "phrase_IDs", 0], name), f"the phrase_ID {name!r}, which is no text")
            for name in (None, "")
        ),
        (make_graph(["attributes", 1, "attributes", 0, 0], "anatomicalfinding|pneumothorax"), "category|yes|label"),
        (
            make_graph(["attributes", 1, "attributes", 0, 0], "anatomicalfinding|maybe|pneumothorax"),
            "category|yes|label",
        ),
    ],
)
def test_a_graph_of_another_form_is_named(tmp_path, graph, message):
    write_zip(tmp_path, graph)
    with pytest.raises(InputError) as error:
        read_scene_graph(tmp_path, DICOM)
    assert message in str(error.value)
    assert error.value.where.endswith(f"scene_graph.zip:scene_graph/{DICOM}_SceneGraph.json")


def test_a_damaged_zip_is_named(tmp_path):
    path = write_zip(tmp_path, GRAPH) / "silver_dataset" / "scene_graph.zip"
    archive = path.read_bytes()

    def replace_bytes(value, at_graph, at_list):
        return (
            archive[:at_graph]
            + value
            + archive[at_graph + len(value) : at_list]
            + value
            + archive[at_list + len(value) :]
        )

    flags = 6, archive.index(b"PK\1\2") + 8  # then the compression method, in both headers of the file
    for content, message in (
        (
            archive[:120] + bytes([archive[120] ^ 255]) + archive[121:],
            "cannot be unpacked",
        ),  # inside the compressed graph
        (replace_bytes(b"\1\0", *flags), "SceneGraph.json: cannot be unpacked .*encrypted"),
        (replace_bytes(b"\0\0\x62\0", *flags), "SceneGraph.json: cannot be unpacked .*compression"),
        (archive[:200], "is no complete zip"),
        (None, "holds no"),
    ):
        path.unlink() if content is None else path.write_bytes(content)
        with pytest.raises(InputError, match=message):
            read_scene_graph(tmp_path, DICOM)


def test_a_graph_above_the_limit_is_refused_before_it_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "TEXT_BYTES", 1_000)
    where = write_zip(tmp_path, GRAPH) / "silver_dataset"
    member = f"scene_graph/{DICOM}_SceneGraph.json"
    message = get_fault(read_scene_graph, tmp_path, DICOM, where=f"{where}/scene_graph.zip:{member}")
    assert "at most 1,000 are read" in message
    extract_zip(tmp_path, ".")
    message = get_fault(read_scene_graph, tmp_path, DICOM, where=where / member)
    assert "cannot be read (it has more than 1,000 bytes, which is the limit)" in message


# --- splits -----------------------------------------------------------------------------------------------------------

HEADER = "subject_id,study_id,dicom_id,path,ViewPosition"
LINE = f"10000032,{STUDY},{DICOM},files/p10/p10000032/s{STUDY}/{DICOM}.dcm,PA"


def write_split(root, name, *lines):
    path = root / "silver_dataset" / "splits" / f"{name}.csv"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join([*lines, ""]), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("split", "file"), [("train", "train"), ("validation", "valid"), ("test", "test"), ("avoid", "images_to_avoid")]
)
@pytest.mark.parametrize("indexed", [True, False])
def test_splits_with_and_without_the_unnamed_index(tmp_path, split, file, indexed):
    index = "," if indexed else ""
    write_split(tmp_path, file, index + HEADER, ("17" if indexed else "") + index + LINE)
    table = chest_imagenome_silver.read_split(tmp_path, split)
    assert table.column_names == ["subject_id", "study_id", "dicom_id", "path", "view"]
    assert table.to_pylist() == [dict(zip(table.column_names, LINE.split(","), strict=True))]


@pytest.mark.parametrize(
    ("lines", "row", "column", "message"),
    [
        ((HEADER,), None, None, "no rows"),
        ((LINE,), None, "subject_id", "is missing"),
        ((HEADER, LINE, LINE), 2, "dicom_id", "repeats row 1"),
        ((HEADER, LINE.replace(DICOM, "1")), 1, "dicom_id", "hexadecimal"),
        ((HEADER, LINE.replace("10000032,", "p1,")), 1, "subject_id", "8 digits"),
        ((HEADER, LINE.replace(f"{STUDY},", ",")), 1, "study_id", "is blank"),
    ],
)
def test_a_fault_of_a_split_is_named(tmp_path, lines, row, column, message):
    path = write_split(tmp_path, "train", *lines)
    reader = chest_imagenome_silver.read_split
    assert message in get_fault(reader, tmp_path, "train", where=path, row=row, column=column)


def test_a_split_that_is_not_there(tmp_path):
    with pytest.raises(ValueError, match="expected one of train, validation, test, avoid"):
        chest_imagenome_silver.read_split(tmp_path, "valid")
    with pytest.raises(InputError, match=r"holds no silver_dataset/splits/valid\.csv"):
        chest_imagenome_silver.read_split(tmp_path, "validation")
