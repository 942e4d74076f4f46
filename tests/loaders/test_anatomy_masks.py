"""Anatomy masks: every supported layout of one phantom's regions gives the same RLEs."""

import ast
import importlib.util
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from pycocotools.coco import COCO

from medfaith.loaders import anatomy_masks, limits, rle
from medfaith.loaders.anatomy_masks import ANATOMIES, open_masks
from medfaith.loaders.errors import InputError
from medfaith.loaders.phantom.chest import chest
from tests.support.loaders.faults import get_fault

SIZE = (48, 40)
STRUCTURES = {"right lung": 135, "left lung": 136, "heart": 121, "aorta": 127, "trachea": 154}
REGIONS = {f"image{seed}": chest([], seed=seed, size=SIZE).regions for seed in (1, 2)}
CATEGORIES = [{"id": index, "name": name, "supercategory": name} for name, index in STRUCTURES.items()]


def stack_masks(regions):
    """Stack the 159 masks in the order of CXAS; masks that are not tested are all ones."""
    masks = np.ones((159, *SIZE), dtype=bool)
    for name, index in STRUCTURES.items():
        masks[index] = regions[name]
    return masks


def make_annotations(regions, image_id):
    return [
        {"id": 7, "image_id": image_id, "category_id": index, "segmentation": rle.encode(regions[name])}
        for name, index in STRUCTURES.items()
    ]


def write_json(path, document):
    path.write_text(json.dumps(document))


def write_mask(path, mask):
    path.parent.mkdir(exist_ok=True)
    Image.fromarray(mask).save(path)


def write_pictures(root, names=(*STRUCTURES, "mediastinum"), label=str, levels=lambda mask: mask):
    for image, regions in REGIONS.items():
        for name in names:
            write_mask(root / image / f"{label(name)}.png", levels(regions[name]))


def write_grey_png(root):
    """Write 8-bit masks with a different spelling of the labels."""
    labels = {"right lung": "Lung_Right", "left lung": "Left-Lung"}
    write_pictures(root, STRUCTURES, lambda n: labels.get(n, n.upper()), lambda mask: mask.astype(np.uint8) * 255)


def write_arrays(root, suffix):
    for image, regions in REGIONS.items():
        if suffix == "npy":
            np.save(root / f"{image}.npy", stack_masks(regions))
        else:
            np.savez_compressed(root / f"{image}.npz", stack_masks(regions).astype(np.uint8))


def write_coco(root, **size):
    """Write one standard COCO file for all images."""
    images = [{"id": n, "file_name": f"train/{image}.dicom", **size} for n, image in enumerate(REGIONS)]
    marked = [entry for n, regions in enumerate(REGIONS.values()) for entry in make_annotations(regions, n)]
    write_json(root / "masks.json", {"images": images, "categories": CATEGORIES, "annotations": marked})


def write_cxas_json(root):
    """Write one file for each image, with nested image lists and without sizes."""
    for image, regions in REGIONS.items():
        nested = [[{"id": 1, "file_name": f"/data/{image}.png"}]]
        document = {"images": nested, "categories": CATEGORIES, "annotations": make_annotations(regions, 1)}
        write_json(root / f"{image}.json", document)


def write_nested(root, write):
    """Write masks into a tree like that of MIMIC-CXR."""
    write(root)
    for number, path in enumerate(sorted(root.iterdir())):
        (root / f"p1{number}" / "p1234" / "s5678").mkdir(parents=True)
        path.rename(root / f"p1{number}" / "p1234" / "s5678" / path.name)


def write_mac_archive(root):
    """Write what an archive made by macOS unpacks to: the tree, and one of hidden files in __MACOSX."""
    write_nested(root, write_pictures)
    for path in [path for path in root.rglob("*.png") if path.is_file()]:
        hidden = root / "__MACOSX" / path.relative_to(root).with_name(f"._{path.name}")
        hidden.parent.mkdir(parents=True, exist_ok=True)
        hidden.write_bytes(b"\0\5\x16\7")


LAYOUTS = {
    "png": write_pictures,
    "grey png": write_grey_png,
    "npy": lambda root: write_arrays(root, "npy"),
    "npz": lambda root: write_arrays(root, "npz"),
    "coco": write_coco,
    "cxas json": write_cxas_json,
    "nested png": lambda root: write_nested(root, write_pictures),
    "archive of macOS": write_mac_archive,
    "nested npz": lambda root: write_nested(root, lambda top: write_arrays(top, "npz")),
    "nested cxas json": lambda root: write_nested(root, write_cxas_json),
    "thirds that radiologists marked": lambda root: write_pictures(root, ANATOMIES),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_gives_the_phantoms_regions_at_any_size_of_the_image(tmp_path, layout):
    LAYOUTS[layout](tmp_path)
    masks = open_masks(tmp_path)
    assert list(masks) == sorted(REGIONS)
    assert "image3" not in masks
    assert masks.get_declared_size("image1") is None  # an absent size stays absent
    for image, regions in REGIONS.items():
        expected = {name: rle.encode(regions[name]) for name in ANATOMIES}
        assert masks.read(image) == expected
        assert masks.read(image, SIZE) == expected
    assert masks.problems == Counter()
    assert masks.files == sorted(path for path in masks.files if path.is_file())
    assert masks.files
    for factor in (3, 0.5):
        size = int(SIZE[0] * factor), int(SIZE[1] * factor)
        scaled = {name: rle.resize_mask(REGIONS["image1"][name], size) for name in ANATOMIES}
        assert masks.read("image1", size) == {name: mask for name, mask in scaled.items() if rle.area(mask)}


def test_an_image_with_masks_in_two_folders_is_refused(tmp_path):
    for folder in ("s1", "s2"):
        (tmp_path / folder).mkdir()
        write_arrays(tmp_path / folder, "npz")
    with pytest.raises(InputError, match=r"s2/image1\.npz: image 'image1' has masks in .*s1/image1\.npz, too"):
        open_masks(tmp_path)


def test_a_coco_file_can_be_named_itself_and_says_the_size(tmp_path):
    write_coco(tmp_path, width=SIZE[1], height=SIZE[0])
    masks = open_masks(tmp_path / "masks.json", ("heart",))
    assert [masks.get_declared_size(name) for name in ("image1", "image3")] == [(SIZE[1], SIZE[0]), None]
    assert masks.files == [tmp_path / "masks.json"]


def test_polygons_are_drawn_like_the_coco_tools_draw_them(tmp_path):
    square, triangle = [10, 20, 40, 20, 40, 60, 10, 60], [60.5, 10, 90, 30.25, 70, 50]
    document = {
        "images": [{"id": 1, "file_name": "a.png", "width": 100, "height": 80}],
        "categories": [{"id": 3, "name": "heart"}],
        "annotations": [{"id": 1, "image_id": 1, "category_id": 3, "segmentation": [square, triangle]}],
    }
    write_json(tmp_path / "masks.json", document)
    mask = rle.decode(open_masks(tmp_path, ("heart",)).read("a")["heart"])
    coco = COCO(str(tmp_path / "masks.json"))
    np.testing.assert_array_equal(mask, coco.annToMask(coco.loadAnns(1)[0]))
    assert mask[20:60, 10:40].all()


@pytest.mark.parametrize(("width", "expected"), [(512, None), (500, (500, 512))])
def test_the_working_size_of_cxas_is_not_the_images(tmp_path, width, expected):
    document = {"images": [{"id": 1, "file_name": "a.png", "width": width, "height": 512}]}
    write_json(tmp_path / "a.json", document | {"categories": [], "annotations": []})
    assert open_masks(tmp_path).get_declared_size("a") == expected


def test_a_square_mask_fits_any_image_and_no_other_mask_does(tmp_path):
    heart = np.eye(20, dtype=bool)
    write_mask(tmp_path / "a" / "heart.png", heart)
    masks = open_masks(tmp_path, ("heart",))
    assert masks.read("a", (30, 50)) == {"heart": rle.resize_mask(heart, (30, 50))}
    write_mask(tmp_path / "a" / "heart.png", heart[:, :10])
    assert masks.read("a", (401, 200)) == {"heart": rle.resize_mask(heart[:, :10], (401, 200))}
    for size in [(200, 400), (400, 210)]:
        assert "10 x 20, the image a" in get_fault(masks.read, "a", size, where=tmp_path / "a")


def test_thirds_are_of_the_lungs_height_and_make_up_the_lung(tmp_path):
    lung = np.zeros((40, 30), dtype=bool)
    lung[5:36, 3:9] = True  # 31 rows: 10, 11 and 10
    write_mask(tmp_path / "a" / "left lung.png", lung)
    zones = [f"left {zone} lung" for zone in ("upper", "middle", "lower")]
    masks = open_masks(tmp_path, zones).read("a")
    assert [rle.compute_bounding_box(masks[zone]) for zone in zones] == [(3, 5, 6, 10), (3, 15, 6, 11), (3, 26, 6, 10)]
    assert rle.union([masks[zone] for zone in zones]) == rle.encode(lung)


@pytest.mark.parametrize("layout", ["png", "grey png", "npy", "npz", "coco", "cxas json"])
def test_missing_and_empty_masks_are_left_out_and_counted(tmp_path, layout):
    LAYOUTS[layout](tmp_path)
    empty = ["heart", "left upper lobe"]
    if layout in ("npy", "npz"):
        masks = stack_masks(REGIONS["image1"])
        masks[[121, 150]] = False
        (np.save if layout == "npy" else np.savez_compressed)(tmp_path / f"image1.{layout}", masks)
    elif layout in ("png", "grey png"):
        path = next(path for path in (tmp_path / "image1").iterdir() if path.stem.lower() == "heart")
        Image.fromarray(np.zeros(SIZE, dtype=bool)).save(path)
        empty = ["heart"]
    else:
        path = min(tmp_path.iterdir())
        document = json.loads(path.read_text())
        annotations = [entry for entry in document["annotations"] if entry["category_id"] != 121]
        write_json(path, document | {"annotations": annotations})
        empty = []
    masks = open_masks(tmp_path, ("heart", "right lower lung", "left upper lobe"))
    assert list(masks.read("image1")) == ["right lower lung"]
    problems = {name: "empty" if name in empty else "no" for name in ("heart", "left upper lobe")}
    assert masks.problems == {f"{kind} mask: {name}": 1 for name, kind in problems.items()}


def test_an_image_without_masks_has_each_of_them_counted(tmp_path):
    write_arrays(tmp_path, "npy")
    masks = open_masks(tmp_path, ("heart", "left lower lung"))
    assert masks.read("image3", (9, 9)) == {}
    assert masks.problems == {"no mask: heart": 1, "no mask: left lower lung": 1}


def test_several_annotations_of_one_anatomy_are_united(tmp_path):
    halves = [np.zeros((8, 8), dtype=bool) for _ in range(2)]
    halves[0][2, :], halves[1][:, 3] = True, True
    document = {
        "images": [{"id": "x", "file_name": "a.png", "width": 8, "height": 8}],
        "categories": [{"id": 3, "name": "Heart"}],
        "annotations": [
            {"image_id": "x", "category_id": 3, "segmentation": {"size": [8, 8], "counts": counts}}
            for counts in (rle.encode(halves[0])["counts"], [24, 8, 32])
        ],
    }
    write_json(tmp_path / "all.json", document)
    assert open_masks(tmp_path, ("heart",)).read("a") == {"heart": rle.encode(halves[0] | halves[1])}


# --- faults of a file -------------------------------------------------------------------------------------------------


def make_coco(**changes):
    document = {
        "images": [{"id": 1, "file_name": "a.png", "width": 4, "height": 6}],
        "categories": [{"id": 3, "name": "heart"}],
        "annotations": [{"image_id": 1, "category_id": 3, "segmentation": rle.encode(np.eye(6, 4))}],
    }
    return document | changes


def make_annotation(segmentation, image_id=1, category_id=3):
    return [{"image_id": image_id, "category_id": category_id, "segmentation": segmentation}]


TWO_SIZES = [*make_annotation(rle.encode(np.eye(4, 6))), *make_annotation(rle.encode(np.eye(6, 4)))]


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        ("[]", "no list 'categories'"),
        ("{", "as JSON"),
        (make_coco(images={}), "no list 'images'"),
        (make_coco(images=[1]), "row 1 of images: int"),
        (make_coco(images=[{"id": 1}]), "row 1 of images, column 'file_name'"),
        (make_coco(images=[{"id": True, "file_name": "a"}]), "column 'id'"),
        (
            make_coco(images=[{"id": 1, "file_name": "a"}, {"id": 2, "file_name": "b/a.png"}]),
            "two images are called 'a'",
        ),
        (make_coco(images=[{"id": 1, "file_name": "a", "width": 4}]), "column 'height'"),
        (make_coco(images=[{"id": 1, "file_name": "a", "width": 4, "height": -6}]), "4 x -6"),
        (make_coco(categories=[{"id": 3}]), "row 1 of categories, column 'name'"),
        (make_coco(images=[{"id": 1, "file_name": name} for name in "ab"]), "the id 1 is that of an earlier"),
        (make_coco(images=[{"id": 1, "file_name": "a"}], annotations=TWO_SIZES), "another annotation of .heart."),
        (make_coco(annotations=make_annotation({}, image_id=2)), "row 1 of annotations: image_id 2"),
        (make_coco(annotations=make_annotation({}, category_id=2)), "row 1 of annotations: category_id 2"),
        (make_coco(annotations=make_annotation(None)), "row 1 of annotations: mask of 'heart': size None"),
        (make_coco(annotations=make_annotation([])), "mask of 'heart': a polygon is not a list of three or more"),
        (make_coco(annotations=make_annotation([[1, 1, 2, 2]])), "a polygon is not a list of three or more corners"),
        (make_coco(annotations=make_annotation([[1, 1, 2, 2, 3]])), "a polygon is not a list of three or more corners"),
        (make_coco(annotations=make_annotation([1, 2])), "a polygon is not a list of three or more corners"),
        (make_coco(annotations=make_annotation([[1, 1, 2, 2, 3, "1"]])), "a corner of a polygon is no number"),
        (make_coco(annotations=make_annotation([[1, 1, 2, 2, 3, 9]])), "outside its image of 4 x 6 pixels"),
        (
            make_coco(images=[{"id": 1, "file_name": "a"}], annotations=make_annotation([[1, 1, 2, 2, 3, 1]])),
            "polygons, and the file does not state height and width",
        ),
        (make_coco(annotations=make_annotation({"size": [6, 4], "counts": "~~"})), "outside the code"),
        (make_coco(annotations=make_annotation({"size": [6, 4], "counts": [1, 2]})), "3 pixels; expected 6 x 4"),
        (make_coco(annotations=make_annotation(rle.encode(np.eye(4, 6)))), r"size \[4, 6\]; its image has \[6, 4\]"),
    ],
    ids=str,
)
def test_a_broken_coco_file_is_named_with_its_entry(tmp_path, document, reason):
    path = tmp_path / "masks.json"
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    with pytest.raises(InputError, match=f"(?s){reason}") as caught:
        open_masks(tmp_path, ("heart",)).read("a")
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    ("names", "message"),
    [("ab", r"b\.json: holds the masks of a"), (("test", "train"), r"train\.json: image 'a' is also in test\.json")],
    ids=["a file of one image holds another", "an image in two files"],
)
def test_coco_files_that_disagree_about_their_images_are_refused(tmp_path, names, message):
    for name in names:
        write_json(tmp_path / f"{name}.json", make_coco())
    with pytest.raises(InputError, match=message):
        [open_masks(tmp_path, ("heart",)).read(image) for image in names]


RGB = np.zeros((6, 4, 3), dtype=np.uint8)


@pytest.mark.parametrize(
    ("picture", "reason"),
    [
        (RGB, "colours"),
        (np.array([[0, 128, 255]], dtype=np.uint8), "more than two grey levels"),
        (np.array([[3, 128]], dtype=np.uint8), "neither of them 0"),
        (b"\x89PNG\r\n\x1a\nrest", "damaged"),
        (b"", "damaged"),
    ],
)
def test_a_png_that_is_no_mask_is_named(tmp_path, picture, reason):
    path = tmp_path / "a" / "heart.png"
    path.parent.mkdir()
    path.write_bytes(picture) if isinstance(picture, bytes) else Image.fromarray(picture).save(path)
    assert re.search(reason, get_fault(open_masks(tmp_path).read, "a", where=path))


def test_two_names_of_one_structure_are_refused(tmp_path):
    for name in ("lung right", "right lung"):
        write_mask(tmp_path / "a" / f"{name}.png", np.eye(4, dtype=bool))
    with pytest.raises(InputError, match="second mask of 'right lung'"):
        open_masks(tmp_path).read("a")


@pytest.mark.parametrize(
    ("array", "reason"),
    [
        (np.zeros((158, 4, 4), dtype=bool), r"shape \(158, 4, 4\)"),
        (np.zeros((159, 4), dtype=bool), r"shape \(159, 4\)"),
        (np.zeros((159, 4, 4), dtype=np.float32), "float32"),
        (np.array([{}]), "damaged"),
        (b"rest", "damaged"),
        (None, "damaged"),  # an npz without arrays
    ],
)
@pytest.mark.parametrize("suffix", ["npy", "npz"])
def test_an_array_of_another_kind_is_named(tmp_path, array, reason, suffix):
    path = tmp_path / f"a.{suffix}"
    if isinstance(array, bytes):
        path.write_bytes(array)
    else:
        np.save(path, array) if suffix == "npy" else np.savez(path, *([] if array is None else [array]))
    assert re.search(reason, get_fault(open_masks(tmp_path).read, "a", where=path))


def test_an_array_above_the_limit_is_refused_before_it_is_read(tmp_path, monkeypatch):
    write_arrays(tmp_path, "npz")
    monkeypatch.setattr(limits, "MASK_PIXELS", 1_000)  # the masks have 48 x 40 pixels
    reason = get_fault(open_masks(tmp_path).read, "image1", where=tmp_path / "image1.npz")
    assert "305,280 bytes are more than 159 masks of 1,000 pixels" in reason


@pytest.mark.parametrize(
    ("prepare", "reason"),
    [
        (lambda root: None, "holds no masks"),
        (lambda root: [write_pictures(root), write_arrays(root, "npy")], r"several kinds \(\.npy, \.png\)"),
        (lambda root: root.rmdir(), "neither a folder nor a COCO file"),
    ],
)
def test_a_folder_of_no_or_several_layouts_is_refused(tmp_path, prepare, reason):
    root = tmp_path / "masks"
    root.mkdir()
    prepare(root)
    with pytest.raises(InputError, match=reason):
        open_masks(root)


def test_an_unknown_anatomy_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"(?s)'hart'.*heart"):
        open_masks(tmp_path, ("hart",))


def test_the_defaults_are_defined_and_match_the_segmenters_own_list():
    """Compare the indices with torchxrayvision's list of the 159 masks, read without importing it (and torch)."""
    spec: Any = importlib.util.find_spec("torchxrayvision")
    (package,) = spec.submodule_search_locations
    module = ast.parse((Path(package) / "baseline_models/chestx_anatomy/__init__.py").read_text(encoding="utf-8"))
    assigned_values = {ast.unparse(node.target): node.value for node in module.body if isinstance(node, ast.AnnAssign)}
    targets = ast.literal_eval(assigned_values["TARGETS"] or ast.List())
    assert len(targets) == 159
    structures, thirds = anatomy_masks._load_definitions()
    assert all(name in structures or thirds[name]["of"] in structures for name in ANATOMIES)
    for name, entry in structures.items():
        label = anatomy_masks.normalize_label(targets[entry["index"]])
        assert label in (name, *entry.get("labels", ()))
