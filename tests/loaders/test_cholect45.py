"""The CholecT45 reader: tables of one video, the id map, and an error message for every fault."""

from __future__ import annotations

import re
from unittest.mock import ANY

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from ivtmetrics.disentangle import Disentangle

from medfaith.loaders import cholec_triplets, cholect45
from medfaith.loaders.errors import InputError
from tests.support.loaders.faults import get_fault
from tests.support.tiers import choose_size

PARTS = ("instrument", "verb", "target")
RETRACT, ASPIRATE, IDLE = 17, 82, 94


def format_rows(frames, labels):
    return [",".join(map(str, (frame, *row.astype(int)))) for frame, row in zip(frames, labels, strict=True)]


def write_part(root, component, rows, video=42):
    path = root / component / f"VID{video:02d}.txt"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join([*rows, ""]))
    return path


def write(root, triplets, *, frames=None, video=42):
    frames = range(len(triplets)) if frames is None else frames
    for component, labels in zip(("triplet", *PARTS), (triplets, *cholec_triplets.parts_of(triplets)), strict=True):
        write_part(root, component, format_rows(frames, labels), video)
    return root


def make_triplets(*ids, n=3):
    """Build an (n, 100) boolean array: the first frame has the triplets `ids`, the other frames have none."""
    labels = np.zeros((n, 100), bool)
    labels[0, list(ids)] = True
    return labels


def test_a_video_reads_as_written(tmp_path):
    write(tmp_path, make_triplets(RETRACT, ASPIRATE, IDLE), frames=[3, 4, 10])
    video = cholect45.read_video(tmp_path, 42)
    assert (video.video, video.frames.tolist()) == (42, [3, 4, 10])
    assert video.frames.dtype == np.int64
    assert [cholec_triplets.INSTRUMENTS[n] for n in np.flatnonzero(video.instruments[0])] == ["grasper", "irrigator"]
    assert [cholec_triplets.VERBS[n] for n in np.flatnonzero(video.verbs[0])] == ["retract", "aspirate", "null_verb"]
    assert video.disagreeing == {"instrument": 0, "verb": 0, "target": 0}


@settings(max_examples=choose_size(5, 15), deadline=None)
@given(triplets=hnp.arrays(bool, st.tuples(st.integers(1, 6), st.just(100)), elements=st.booleans()))
def test_any_labels_survive_the_way_through_files(tmp_path_factory, triplets):
    video = cholect45.read_video(write(tmp_path_factory.mktemp("t45"), triplets), 42)
    np.testing.assert_array_equal(video.triplets, triplets)
    component_labels = (video.instruments, video.verbs, video.targets)
    for file_labels, implied in zip(component_labels, cholec_triplets.parts_of(triplets), strict=True):
        assert file_labels.dtype == bool
        np.testing.assert_array_equal(file_labels, implied)


@pytest.mark.parametrize("component", range(3))
def test_labels_that_disagree_are_kept_and_counted(tmp_path, component):
    triplets = make_triplets(RETRACT)
    write(tmp_path, triplets)
    labels = cholec_triplets.parts_of(triplets)[component]
    labels[1, 2] = True  # its triplet is not one of the 100
    write_part(tmp_path, PARTS[component], format_rows(range(3), labels))
    video = cholect45.read_video(tmp_path, 42)
    assert video.disagreeing == {name: int(n == component) for n, name in enumerate(PARTS)}
    assert (video.instruments, video.verbs, video.targets)[component][1, 2]


ZEROS = ",0" * 100


@pytest.mark.parametrize(
    ("rows", "row", "column", "message"),
    [
        (["0" + ZEROS, "1" + ZEROS + ",0"], 2, None, "102 cells"),
        (["0" + ZEROS, "1" + ZEROS[:-2]], 2, None, "101 cells"),
        (["0" + ZEROS, "1,2" + ZEROS[2:]], 2, "class 0", ": 2"),
        (["0" + ZEROS[:-2] + ",0.5", "1" + ZEROS], 1, "class 99", "a whole number"),
        (["0" + ZEROS[:-2] + ",", "1" + ZEROS], 1, "class 99", "is blank"),
        (["0" + ZEROS, "1" + ",-1" * 100], 2, None, "every label is -1"),
        (["0" + ZEROS, "1,-1" + ZEROS[2:]], 2, "class 0", ": -1"),
        (["0" + ZEROS, "-1" + ZEROS], 2, "frame", "ascending"),
        (["0" + ZEROS, "x" + ZEROS], 2, "frame", "'x'"),
        (["0" + ZEROS, "0" + ZEROS], 2, "frame", "each frame once"),
        (["0" + ZEROS, "5" + ZEROS, "4" + ZEROS], 3, "frame", "ascending order"),
        (["0" + ZEROS.replace(",", ";")], 1, None, "1 cells"),
    ],
)
def test_a_fault_is_named_by_file_and_row(tmp_path, rows, row, column, message):
    path = write_part(write(tmp_path, make_triplets(RETRACT)), "triplet", rows)
    assert message in get_fault(cholect45.read_video, tmp_path, 42, where=path, row=row, column=column)


@pytest.mark.parametrize(
    ("frames", "message"), [([0, 1], "frame 2 has no row"), ([0, 1, 2, 3], "frame 3 has no triplet row")]
)
@pytest.mark.parametrize("component", PARTS)
def test_tables_of_other_frames_are_refused(tmp_path, component, frames, message):
    write(tmp_path, make_triplets(RETRACT))
    labels = np.zeros((len(frames), cholect45.CLASSES[component]), bool)
    path = write_part(tmp_path, component, format_rows(frames, labels))
    assert message in get_fault(cholect45.read_video, tmp_path, 42, where=path, row=ANY)


@pytest.mark.parametrize("name", ["VID2.txt", "VID042.txt"])
def test_videos_are_found_by_number(tmp_path, name):
    with pytest.raises(InputError, match=r"holds no triplet/VID\*\.txt"):
        cholect45.videos(tmp_path)
    for video in (42, 2, 79):
        write(tmp_path, make_triplets(RETRACT), video=video)
    (tmp_path / "triplet/notes.txt").touch()
    assert cholect45.videos(tmp_path) == [2, 42, 79]
    (misnamed := tmp_path / "triplet" / name).touch()
    message = get_fault(cholect45.videos, tmp_path, where=misnamed)
    assert re.search(r"(?s)does not give the number of a video.*triplet/VID01\.txt.*rename it, or move it out", message)


# CholecT50's videos, by its official split into 35 to train, 5 to validate and 10 to test (Nwoye and Padoy, 2022);
# CholecT45 lacks the last 5.
CHOLECT50 = [
    1, 2, 4, 5, 6, 8, 10, 12, 13, 14, 15, 18, 22, 23, 25, 26, 27, 29, 31, 32, 35, 36, 40, 42, 43, 47, 48, 49, 50, 51,
    52, 56, 57, 60, 62, 65, 66, 68, 70, 73, 74, 75, 78, 79, 80, 92, 96, 103, 110, 111,
]  # fmt: skip


def test_folds_are_the_45_videos_once_each():
    tested = [video for fold in cholect45.FOLDS.values() for video in fold]
    assert {number: len(fold) for number, fold in cholect45.FOLDS.items()} == dict.fromkeys(range(1, 6), 9)
    assert sorted(tested) == CHOLECT50[:45]
    assert (42 in cholect45.FOLDS[4], 43 in cholect45.FOLDS[5]) == (True, True)


# --- dict/maps.txt ----------------------------------------------------------------------------------------------------


def write_maps(root, rows):
    (root / "dict").mkdir()
    (root / "dict/maps.txt").write_text("\n".join([",".join(map(str, row)) for row in rows]) + "\n")
    return root


def test_the_official_map_is_accepted_in_any_order(tmp_path):
    rows = Disentangle().bank.tolist()
    cholect45.check_maps(write_maps(tmp_path, [["# IVT", "I", "V", "T", "IV", "IT"], *rows[1:], rows[0]]))
    cholect45.check_maps(tmp_path / "nowhere")


BROKEN_MAPS = [
    *((row, "17,0,1,0,1,0") for row in np.add([17, 0, 1, 0, 1, 0], np.eye(6, dtype=int)[1:]).tolist()),
    *(([100, 0, 0, 0, 0, 0], "ids 0 to 99"), ([1, 0, 2], "six ids"), ([1, 0, 2, "x", 2, 0], "six ids")),
]


@pytest.mark.parametrize(("row", "expected"), BROKEN_MAPS)
def test_another_or_a_broken_map_is_refused(tmp_path, row, expected):
    rows = Disentangle().bank.tolist()
    write_maps(write(tmp_path, make_triplets(RETRACT)), [*rows[:17], row, *rows[18:]])
    with pytest.raises(InputError, match=rf"maps\.txt, row 18: .*\n  expected: {expected}"):
        cholect45.read_video(tmp_path, 42)
