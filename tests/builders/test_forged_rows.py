"""Problems that `verify` reports for forged rows whose build.json was updated to match."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from medfaith.builders.wrong_lung import ORIGINALS
from medfaith.loaders import rle, vindr_cxr
from tests.support.builders.files import forge, keep_configs, problems
from tests.support.tiers import choose_size, is_full_run

BUILDS = {
    "bench": ("phantom_build", "cxr-contrabench-openi"),
    "located": ("phantom_chexlocalize_build", "cxr-contrabench-chexlocalize"),
    "heal": ("phantom_heal_build", "heal-medvqa-vindr_cxr"),
    "boxes": ("phantom_surgx_build", "surgxbench-cholec80_boxes"),
    "t45": ("phantom_surgx_build", "surgxbench-cholect45"),
    "seg8k": ("phantom_surgx_build", "surgxbench-cholecseg8k"),
    "lung": ("phantom_wrong_lung_build", "wrong-lung-chest_imagenome"),
}
# Config -> configs whose rows verify checks against its rows; faults here make them fail, too.
PARTNERS = {"vindr": {"vindr_tpt", "vindr_vpt"}, "gold": {c for c, original in ORIGINALS.items() if original == "gold"}}
SMALL = dict(rle.encode(np.ones((3, 3), dtype=bool)))
BOX = {"label": "trachea", "xywh": [0, 0, 1, 1]}
SAME_ID, SAME_IDS = lambda rows: rows[1].update(id=rows[0]["id"]), "1 rows have the id of another row"
BELOW = "is not a path below the source's root (1 such)"


def put(kind: str = "", /, **columns):
    """Change columns of the first row, or of the first row of a kind."""
    return lambda rows: next(row for row in rows if kind in ("", row.get("kind"))).update(columns)


def put_box(name: str = "boxes", /, **columns):
    """Change the first box (or label) of the first row that has one."""
    return lambda rows: next(row for row in rows if row[name])[name][0].update(columns)


def put_in(name: str, /, **columns):
    """Change fields of a struct in the first row."""
    return lambda rows: rows[0][name].update(columns)


def update_every_row(change):
    """Update each row with the columns that `change` returns."""
    return lambda rows: [row | change(row) for row in rows]


def clear_region(rows):
    rows[0]["region"] = dict(rle.encode(np.zeros((rows[0]["height"], rows[0]["width"]), dtype=bool)))


def put_own_image(rows):
    """Use the question's own image as its donor."""
    rows[0]["donor"]["key"] = f"test/{rows[0]['original_id'].split('/')[2]}.dicom"


def put_sick_donor(rows):
    """Claim that the donor has every disease."""
    for row in rows:
        row["donor_diseases"] = list(vindr_cxr.CLASSES)


def put_asked_donor(rows):
    """Choose a donor that has the disease in the target region: the same question is asked about its image."""
    image_by_place = {}
    for row in rows:
        _, _, image, _, place = row["original_id"].split("/", 4)
        if image_by_place.setdefault(place, image) != image:
            row["donor"]["key"] = f"test/{image_by_place[place]}.dicom"


def find_swapped_row(rows):
    return next(row for row in rows if row["described"] != row["boxes"])


def join_swapped_boxes(rows):
    """Swap the boxes of two sentences of different reports."""
    first_row, second_row = rows[0], next(row for row in rows if row["study_id"] != rows[0]["study_id"])
    first_row["boxes"], second_row["boxes"] = second_row["boxes"], first_row["boxes"]


def remove_lung(rows):
    next(row for row in rows if row["subsets"]["one_lung"]).update(boxes=[BOX])


EDITS = {
    ("bench", "openi_report_absence"): {
        "an id twice": (SAME_ID, SAME_IDS),
        **{f"the key {key!r}": (put_box("images", key=key), f"image key {key!r} {BELOW}")
           for key in ("/x.png", "../x.png", "a/../x.png", "a/..", "a\\x.png", "C:x.png", "")},
        "no such answer": (put(answer=3), "the answer is no option"),
        "an answer before the first": (put(answer=-1), "the answer is no option"),
        "no such negation": (put(negated=3), "the negated option or its counterpart is no option"),
        "no such counterpart": (put(counterpart=3), "the negated option or its counterpart is no option"),
        "a counterpart of nothing": (put(negated=-1), "a counterpart has no negated option, or is it"),
        "its own counterpart": (put(counterpart=1), "a counterpart has no negated option, or is it"),
        "a right negation": (put(answer=1), "the negated option is the gold answer"),
        "no counterpart": (put(counterpart=-1), "a row has a negated option without its counterpart"),
        "no image": (put(images=[]), "a row has no image"),
    },
    ("located", "chexlocalize_presence"): {
        "a mask of another size": (put(region=SMALL), "mask of [3, 3] (height, width)"),
        "a broken mask": (put_in("region", counts="0"), "mask: counts of"),
        "an empty mask": (clear_region, "empty mask"),
        "two images": (lambda rows: rows[0]["images"].append(rows[0]["images"][0]), "2 images; a region belongs to"),
        "an absent finding": (put(present=[]), "is not among the findings that are present"),
        "no such answer": (put(answer=3), "the answer is no option"),
    },
    ("heal", "vindr"): {
        "an answer": (put("positive", answer="No"), "answer 'No' to a positive question"),
        "a kind": (put("normal", kind="abnormal"), "kind 'abnormal' with the diseases []"),
        "a kind that there is not": (put(kind="odd"), "kind 'odd' of question type"),
        "a mask of another size": (put(region=SMALL), "mask of [3, 3] (height, width)"),
        "a broken mask": (put_in("region", counts="0"), "mask: counts of"),
        "an empty mask": (clear_region, "empty mask"),
        "a size of 3 numbers": (put_in("region", size=[9, 9, 9]), "region.size [9, 9, 9]: expected 2 numbers (1 such)"),
        "a box of 3 numbers": (put_box(xywh=[1, 2, 3]), "boxes.xywh [1.0, 2.0, 3.0]: expected 4 numbers (1 such)"),
        "a box with a null": (put_box(xywh=[1, 2, 3, None]), "boxes.xywh [1.0, 2.0, 3.0, None]: expected 4 numbers"),
        "a box without numbers": (put_box(xywh=None), "boxes.xywh None: expected 4 numbers"),
        "a box outside": (put_box(xywh=[900.0, 5, 9, 9]), "[900.0, 5.0, 9.0, 9.0] is not within the image"),
        "a box of nothing": (put_box(xywh=[5.0, 5, 0, 9]), "is not within the image"),
        "another disease's box": (put_box(label="Lung cyst"), "box of 'Lung cyst', which is not among"),
        "an id twice": (SAME_ID, SAME_IDS),
        "an absolute key": (put_in("image", key="/data/a.dicom"), f"image key '/data/a.dicom' {BELOW}"),
    },
    ("heal", "vindr_tpt"): {
        "an orphan": (put(original_id="gone"), "original_id 'gone' is no positive question"),
        "a row twice": (lambda rows: [*rows, rows[0]], SAME_IDS),
        "a swap of no kind": (put(kind="both"), "kind 'both'"),
        "a swap of both parts": (put(anatomy="trachea", disease="Lung cyst"), "trachea, Lung cyst as a swap of the"),
    },
    ("heal", "vindr_vpt"): {
        "an orphan": (put(original_id="gone"), "original_id 'gone' is no positive question"),
        "another region": (put(region=SMALL), "a region that is not its question's"),
        "a donor's size of 1 number": (put_in("donor_region", size=[9]), "donor_region.size [9]: expected 2 numbers"),
        "a broken donor": (put_in("donor_region", counts="0"), "donor_region: mask: counts of"),
        "a donor elsewhere": (put_in("donor", key="../a.dicom"), f"image key '../a.dicom' {BELOW}"),
        "its own image": (put_own_image, "the question's own image as the donor"),
        "a sick donor": (put_sick_donor, "a donor image that has '"),
        "the disease at the donor's anatomy": (put_asked_donor, ", too"),
    },
    ("boxes", "instruments"): {
        "a box outside": (put_box(xywh=[0, 0, 900, 10]), "[0.0, 0.0, 900.0, 10.0] is not within the frame"),
        "a box of 5 numbers": (put_box(xywh=[0] * 5), "boxes.xywh [0.0, 0.0, 0.0, 0.0, 0.0]: expected 4 numbers"),
        "no instrument": (put_box(label="trocar"), "box of 'trocar', which is no instrument"),
        "instruments without box": (put(instruments=["scissors", "clipper"]), "which are not those of its boxes"),
    },
    ("seg8k", "instruments_seg8k"): {
        "a box outside": (put_box(xywh=[0, 0, 900, 10]), "[0.0, 0.0, 900.0, 10.0] is not within the frame"),
        "an unlabelled instrument": (put_box(label="clipper"), "box of 'clipper', which CholecSeg8k does not label"),
        "another frame": (put(frame=7), "frame_0_endo.png', which is not frame 7 of video 1"),
        "another file": (put_in("image", key="video01/frame_0_endo.png"), "which is not frame 0 of video 1"),
    },
    ("t45", "triplets"): {
        "a row twice": (lambda rows: [*rows, rows[0]], SAME_IDS),
        "an image elsewhere": (put_in("image", key="../x.png"), f"image key '../x.png' {BELOW}"),
        "a successor elsewhere": (put_in("successor", key="/x.png"), f"image key '/x.png' {BELOW}"),
        "another triplet": (update_every_row(lambda row: {"triplets": [tr | {"id": 3} for tr in row["triplets"]]}),
                            "triplet 3 is not"),
        "no such triplet": (update_every_row(lambda row: {"triplets": [tr | {"id": 100} for tr in row["triplets"]]}),
                            "triplet 100 is not"),
        "other instruments": (put(instruments=["hook", "clipper"]), "which are not those of its triplets"),
        "a mask of another size": (put_in("motion", size=[3, 3]), "mask of [3, 3] (height, width)"),
        "a size without numbers": (put_in("motion", size=None), "motion.size None: expected 2 numbers"),
        "a broken mask": (put_in("motion", counts="0"), "mask: counts of"),
        "a camera without mask": (put(motion=None), "motion without camera, or camera without motion"),
    },
    ("lung", "gold"): {
        "an id twice": (SAME_ID, SAME_IDS),
        "an image elsewhere": (put_in("image", key="../x.jpg"), f"image key '../x.jpg' {BELOW}"),
        "no text": (put(sentence=" "), "no text"),
        "a null text": (put(sentence=None), "no text"),
        "a box without a name": (put_box(label=None), "a box of boxes without a label"),
        "a blank name": (put_box(label=" "), "a box of boxes without a label"),
        "no box": (put(boxes=[]), "boxes of []; expected one or more"),
        "an anatomy twice": (lambda rows: rows[0]["boxes"].append(rows[0]["boxes"][0]), "of different anatomies"),
        "a box outside": (put_box(xywh=[-9, 0, 20, 20]), "[-9.0, 0.0, 20.0, 20.0] of boxes is not within the image"),
        "a context": (put_box("labels", context="maybe"), "context maybe; expected yes or no"),
        "a subset": (lambda rows: rows[0]["subsets"].update(abnormal=not rows[0]["subsets"]["abnormal"]),
                     "subset abnormal is"),
        "a lung less": (remove_lung, "subset one_lung is True, by its boxes and labels False"),
    },
    ("lung", "trimmed"): {
        "an orphan": (put(original_id="wrong-lung:1|1"), "'wrong-lung:1|1' is no row that it could be made of"),
        "another perturbation": (put(perturbation="random_boxes"), "perturbation 'random_boxes' in config trimmed"),
        "no perturbation": (put(perturbation="blur"), "perturbation 'blur', which is none"),
        "too much": (put(boxes=[BOX]), "boxes that are not its original's without the large ones"),
    },
    ("lung", "synthetic"): {"another patient": (put(patient_id="1"), "patient_id 1, not")},
    ("lung", "random_sentences"): {
        "a description without a name": (lambda rows: find_swapped_row(rows)["described"].append(BOX | {"label": None}),
                                         "a box of described without a label"),
        "a description of no numbers": (put_box("described", xywh=[]),
                                        "described.xywh []: expected 4 numbers (1 such)"),
        "other boxes": (put(boxes=[BOX]), "boxes that are not its original's, which random_sentences does not change"),
        "a sentence of nobody": (put(sentence="Nobody's."), "has nothing of another patient in place of its own"),
    },
    ("lung", "random_boxes"): {
        "another text": (put(sentence="Clear."), "sentence that are not its original's, which random_boxes does not"),
    },
    ("lung", "shuffle_in_report"): {
        "another description": (put(described=[BOX]), "described boxes that are not its original's"),
        "another report's boxes": (join_swapped_boxes, "its sentences' sets of boxes are not those of the originals"),
    },
    ("lung", "swap_left_right"): {
        "another text": (lambda rows: find_swapped_row(rows).update(sentence="Left is right."),
                         "its text is not its original's with left and right exchanged"),
        "its own side": (lambda rows: (row := find_swapped_row(rows)).update(described=row["boxes"]),
                         "describes anatomies that are not the other side's"),
    },
}  # fmt: skip
CASES = [
    pytest.param(build, config, *case, id=f"{config}: {name}")
    for (build, config), cases_by_name in EDITS.items()
    for name, case in cases_by_name.items()
]


@pytest.mark.parametrize(("build", "config", "change", "message"), CASES)
def test_verify_finds(request, tmp_path, build, config, change, message):
    fixture, name = BUILDS[build]
    folder = shutil.copytree(request.getfixturevalue(fixture) / name, tmp_path / name)
    partners = sorted(PARTNERS.get(config, ()))[: choose_size(1, None)]
    if not is_full_run():  # each case would verify all configs
        keep_configs(folder, {config, *partners, *(original for original in PARTNERS if config in PARTNERS[original])})
    forge(folder, config, change)
    messages = problems(folder)
    assert message in " | ".join(messages[config, "test"])
    faulty = {key for key, split_messages in messages.items() if "are missing or faulty" in " ".join(split_messages)}
    assert faulty == {(partner, "test") for partner in partners}
    assert not [
        split_messages for (_, split), split_messages in messages.items() if split == "train" and split_messages
    ]
