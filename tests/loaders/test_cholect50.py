"""The CholecT50 reader: the JSON of one video, and an error message for every fault."""

from __future__ import annotations

import json
from unittest.mock import ANY

import numpy as np
import pytest

from medfaith.loaders import cholec_triplets, cholect45, cholect50
from medfaith.loaders.cholec_triplets import TRIPLETS
from medfaith.loaders.errors import InputError
from tests.support.loaders.faults import get_fault

NO_BOX = (-1, -1, -1, -1)


def make_vector(number, box=NO_BOX, **ids):
    """Build the 15 values of a triplet; `ids` replaces ids by name."""
    instrument, verb, target, *_ = cholec_triplets.compute_component_ids()[number].tolist()
    ids = {"triplet": number, "instrument": instrument, "verb": verb, "target": target} | ids
    instrument = [ids["instrument"], 1, *box]
    return [ids["triplet"], *instrument, ids["verb"], ids["target"], 1, *NO_BOX, 0]


EMPTY = [-1] * 14 + [2]  # only the phase


def write(root, annotations, number=42, **changes):
    data = {
        "video": number,
        "fps": 1,
        "num_frames": 10,
        "categories": {"triplet": {str(n): str(triplet) for n, triplet in enumerate(TRIPLETS)}},
        "annotations": annotations,
    } | changes
    path = root / f"labels/VID{number:02d}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({name: value for name, value in data.items() if value is not None}))
    return root


def test_a_video_reads_as_written(tmp_path):
    write(
        tmp_path,
        {
            "2": [EMPTY],
            "0": [make_vector(17, (0.25, 0.5, 0.125, 0.25)), make_vector(82), make_vector(17)],
            "1": [],
            "9": [
                make_vector(94, (-0.1, 0.9, 0.2, 0.2)),
                make_vector(94, (0.999, 0, 1, 1)),
            ],  # boxes may reach over the edge
        },
    )
    video = cholect50.read_video(tmp_path, 42)
    assert (video.video, video.frames.tolist()) == (42, [0, 1, 2, 9])
    assert video.frames.dtype == np.int64
    assert [np.flatnonzero(row).tolist() for row in video.triplets] == [[17, 82], [], [], [94]]
    assert [np.flatnonzero(row).tolist() for row in video.instruments] == [[0, 5], [], [], [0]]
    assert [np.flatnonzero(row).tolist() for row in video.verbs] == [[1, 6], [], [], [9]]
    assert [np.flatnonzero(row).tolist() for row in video.targets] == [[0, 6], [], [], [14]]
    assert video.disagreeing == {"instrument": 0, "verb": 0, "target": 0}
    assert {a.dtype for a in (video.triplets, video.instruments, video.verbs, video.targets)} == {np.dtype(bool)}


def test_a_video_of_both_releases_reads_alike(tmp_path):
    """Write the same labels as CholecT45 tables and as CholecT50 JSON."""
    labels = np.random.default_rng(0).random((8, 100)) < 0.03
    write(tmp_path, {str(k): [make_vector(n) for n in np.flatnonzero(row).tolist()] for k, row in enumerate(labels)})
    component_labels = cholec_triplets.parts_of(labels)
    for component, values in zip(("triplet", "instrument", "verb", "target"), (labels, *component_labels), strict=True):
        (tmp_path / component).mkdir()
        rows = np.column_stack([np.arange(8), values])
        np.savetxt(tmp_path / component / "VID42.txt", rows, fmt="%d", delimiter=",")
    text, by_json = cholect45.read_video(tmp_path, 42), cholect50.read_video(tmp_path, 42)
    for name in ("frames", "triplets", "instruments", "verbs", "targets"):
        np.testing.assert_array_equal(getattr(text, name), getattr(by_json, name))
    assert text.disagreeing == by_json.disagreeing


def test_a_header_may_lack_what_is_not_needed(tmp_path):
    write(tmp_path, {"99999": [make_vector(0)]}, number=111, num_frames=None, categories=None, fps=None)
    assert cholect50.read_video(tmp_path, 111).frames.tolist() == [99999]
    write(tmp_path, {"0": []}, number=5, categories={"triplet": {"0": "Grasper, Dissect, Cystic plate"}})
    assert not cholect50.read_video(tmp_path, 5).triplets.any()


@pytest.mark.parametrize(
    ("ids", "component"), [({"instrument": 3}, "instrument"), ({"verb": -1}, "verb"), ({"target": 4}, "target")]
)
def test_ids_that_disagree_with_their_triplet_are_kept_and_counted(tmp_path, ids, component):
    write(tmp_path, {"0": [make_vector(17, **ids)], "1": [make_vector(17)]})
    video = cholect50.read_video(tmp_path, 42)
    assert video.disagreeing == {"instrument": 0, "verb": 0, "target": 0} | {component: 1}


def test_an_instrument_without_a_triplet_is_kept(tmp_path):
    write(tmp_path, {"0": [make_vector(17, triplet=-1, verb=-1, target=-1, box=(0, 0, 1, 1))]})
    video = cholect50.read_video(tmp_path, 42)
    assert (video.triplets.any(), video.instruments[0].tolist()) == (False, [True, *[False] * 5])


BAD_VECTORS = {  # part of the message: faulty vectors of a frame
    "an id from 0 to 5, or -1 for none": [make_vector(1, instrument=6)],
    "triplet 100": [make_vector(1, triplet=100)],
    "triplet -2": [make_vector(1, triplet=-2)],
    "triplet 0.5": [make_vector(1, triplet=0.5)],
    "verb 10": [make_vector(1, verb=10)],
    "target 15": [make_vector(1, target=15)],
    "'cut'": [make_vector(1, verb="cut")],
    "None": [make_vector(1, verb=None)],
    "True": [make_vector(1, verb=True)],
    "finite numbers": [make_vector(1, verb=number) for number in (float("nan"), 10**400)],
    "-1 four times for none": [make_vector(1, (0.1, 0.1, -1, 0.1))],
    "shares of the frame": [
        *(make_vector(1, box) for box in ((0.1, 0.1, 0, 0.1), (100, 50, 30, 30), (1, 0.1, 0.1, 0.1))),
        *(make_vector(1, box) for box in ((-0.2, 0.1, 0.2, 0.1), (0.1, -0.2, 0.1, 0.2))),
    ],
    "a box without an instrument": [make_vector(1, (0.1, 0.1, 0.1, 0.1), instrument=-1)],
    "frame 3, vector 0: 16 values": [[*make_vector(1), 0]],
    "frame 3, vector 0: 7": [7],
}


@pytest.mark.parametrize(
    ("annotations", "message"),
    [
        *(({"3": [faulty]}, message) for message, vectors in BAD_VECTORS.items() for faulty in vectors),
        ({"3": [make_vector(1), make_vector(1)[:-1]]}, "frame 3, vector 1: 14 values"),
        ({"3": make_vector(1)}, "frame 3, vector 0: 1"),
        ({"3": None}, "a list of vectors"),
        ({"10": []}, "frame 10"),
        ({"-1": []}, "a frame's number"),
        ({"x": []}, "'x'"),
        ({"1": [], "01": []}, "frame 1 occurs twice"),
        ({}, "has no frame"),
        ([], "has no table of annotations"),
        (None, "has no table of annotations"),
    ],
)
def test_a_fault_is_named(tmp_path, annotations, message):
    path = write(tmp_path, annotations) / "labels/VID42.json"
    assert message in get_fault(cholect50.read_video, tmp_path, 42, where=path, row=ANY, column=ANY)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"video": 43}, "42, as its name says"),
        ({"video": "other"}, "42, as its name says"),
        ({"fps": 25}, "1, as frames are numbered"),
        ({"num_frames": "ten"}, "a count"),
        ({"num_frames": -1}, "a count"),
        ({"num_frames": 3}, "below num_frames, 3"),
        ({"categories": {"triplet": {"17": "hook,cut,liver"}}}, "expected: grasper,retract,gallbladder"),
    ],
)
def test_a_header_that_says_otherwise_is_refused(tmp_path, changes, message):
    write(tmp_path, {"3": []}, **changes)
    with pytest.raises(InputError, match=message):
        cholect50.read_video(tmp_path, 42)


@pytest.mark.parametrize("video", ["VID42", "42", 42, None])
def test_a_video_names_itself_either_way(tmp_path, video):
    write(tmp_path, {"3": []}, video=video)
    assert cholect50.read_video(tmp_path, 42).frames.tolist() == [3]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "cannot be read as JSON"),
        ("[]", "has no table of annotations"),
        ('{"annotations": {"0": [], "0": []}}', "'0' twice"),
    ],
)
def test_broken_json(tmp_path, text, message):
    path = write(tmp_path, {}) / "labels/VID42.json"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        cholect50.read_video(tmp_path, 42)


def test_videos_are_found_by_number(tmp_path):
    with pytest.raises(InputError, match=r"holds no labels/VID\*\.json"):
        cholect50.videos(tmp_path)
    for video in (111, 42, 1):
        write(tmp_path, {"0": []}, number=video)
    assert cholect50.videos(tmp_path) == [1, 42, 111]
    with pytest.raises(InputError, match=r"VID43\.json: no such file"):
        cholect50.read_video(tmp_path, 43)
