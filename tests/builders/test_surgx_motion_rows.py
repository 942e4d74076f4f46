"""Image pairs for the flow: decoding videos in one pass equals opening each image separately."""

from __future__ import annotations

import shutil
from pathlib import Path

import av
import numpy as np
import pyarrow.parquet as pq
import pytest

from medfaith.builders import surgxbench
from medfaith.builders.surgxbench import Options, motion_rows
from medfaith.builders.surgxbench.motion import describe
from medfaith.builders.surgxbench.motion_rows import MotionOptions, add_motion
from medfaith.builders.surgxbench.raft import Raft
from medfaith.loaders import cholec80, cholect45, images
from medfaith.loaders.errors import ImageError
from tests.support.tiers import keep_quick

SECONDS = range(14)


def make_video_references(*numbers: int) -> list[dict[str, str]]:
    return [{"source": "cholec80", "key": cholec80.key(42, number), "view": ""} for number in numbers]


def make_second_references(*seconds: int) -> list[dict[str, str]]:
    return [{"source": "cholect45", "key": cholect45.key(42, t), "view": ""} for t in seconds]


REFERENCES = {
    "next in the video": make_video_references(*(25 * t + step for t in SECONDS for step in (0, 1))),
    "next second": make_second_references(*(t + step for t in SECONDS[:-1] for step in (0, 1))),
    "some": make_video_references(3, 4, 50, 51, 349),
    "one": make_second_references(5),
    "none": [],
}


# Reading a video in turn takes seconds, above all where its frames lie far apart.
@pytest.mark.parametrize("name", keep_quick(REFERENCES, lambda name: name not in ("some", "next in the video")))
def test_pictures_in_turn_are_those_that_open_one_by_one(phantom_surgx_roots, name):
    references = REFERENCES[name]
    expected = [images.open_image(ref, phantom_surgx_roots).tobytes() for ref in references]
    assert [image.tobytes() for image in motion_rows._open_in_turn(references, phantom_surgx_roots)] == expected
    assert len(set(expected)) >= 0.8 * len({ref["key"] for ref in references})  # one second is black


def test_a_video_is_decoded_in_one_pass_and_a_shared_picture_once(phantom_surgx_roots, monkeypatch):
    begun, opened = [], []
    decoded_from, open_image = cholec80._decode_from, images.open_image
    monkeypatch.setattr(cholec80, "_decode_from", lambda *args: begun.append(args[2]) or decoded_from(*args))
    monkeypatch.setattr(images, "open_image", lambda *args: opened.append(args[0]["key"]) or open_image(*args))
    assert len(list(motion_rows._open_in_turn(REFERENCES["next in the video"], phantom_surgx_roots))) == 28
    assert (begun, opened) == ([0], [])
    assert len(list(motion_rows._open_in_turn(REFERENCES["next second"], phantom_surgx_roots))) == 26
    assert opened == [cholect45.key(42, t) for t in SECONDS]


@pytest.mark.parametrize(("name", "so_far"), [("next in the video", 27), ("next second", 2)])
def test_pictures_are_opened_when_they_are_asked_for(phantom_surgx_roots, monkeypatch, name, so_far):
    """Three images: two seconds share the second image; in the video the third is the 26th frame."""
    calls = []
    number, open_image = cholec80._number, images.open_image
    monkeypatch.setattr(cholec80, "_number", lambda *args: calls.append("frame") or number(*args))
    monkeypatch.setattr(images, "open_image", lambda *args: calls.append("image") or open_image(*args))
    pictures = motion_rows._open_in_turn(REFERENCES[name], phantom_surgx_roots)
    assert calls == []
    for _ in range(3):
        next(pictures)
    assert so_far - 1 <= len(calls) <= so_far


def collect_outcomes(pictures) -> list[bytes | str]:
    """Collect the images as bytes, and the message of the error that ends them."""
    outcomes: list[bytes | str] = []
    try:
        for image in pictures:
            outcomes.append(image.tobytes())
    except ImageError as error:
        outcomes.append(str(error))
    return outcomes


def open_one_by_one(references, roots):
    return (images.open_image(ref, roots) for ref in references)


@pytest.fixture
def damaged(phantom_surgx_roots, tmp_path):
    """Copy video 42 and overwrite its frame `n` in part, or cut the file there."""

    def make(n: int, *, cut: bool = False) -> dict[str, Path]:
        path = tmp_path / "videos/video42.mp4"
        path.parent.mkdir(exist_ok=True)
        shutil.copy(phantom_surgx_roots["cholec80"] / "videos/video42.mp4", path)
        with av.open(str(path)) as container:
            packet = [packet for packet in container.demux(video=0) if packet.size][n]
        data = bytearray(path.read_bytes())
        start = (packet.pos or 0) + packet.size // 3
        if cut:
            header = data.index(b"moov")  # the data after it is required to open the file
            data[start : header - 4] = bytes(header - 4 - start)
        else:
            data[start : start + 20] = np.random.default_rng(n).bytes(20)
        path.write_bytes(data)
        return {"cholec80": tmp_path}

    return make


@pytest.mark.parametrize("n", keep_quick([2, 60, 120, 130, 149, 160, 240, 345], lambda n: n in (2, 149)))
@pytest.mark.parametrize("cut", [False, True])
def test_damage_stops_the_pictures_where_it_stops_them_one_by_one(damaged, n, cut):
    """Includes damage in frames that no pair needs, between a pair and the next keyframe."""
    roots, references = damaged(n, cut=cut), make_video_references(0, 1, 125, 126, 150, 151, 325, 326)
    expected = collect_outcomes(open_one_by_one(references, roots))
    assert collect_outcomes(motion_rows._open_in_turn(references, roots)) == expected
    if isinstance(expected[-1], str):
        assert expected[-1].startswith(f"image {references[len(expected) - 1]['key']!r} of source 'cholec80': ")


def test_a_frame_beyond_the_end_is_named_after_those_before_it(phantom_surgx_roots):
    *good, message = collect_outcomes(
        motion_rows._open_in_turn(make_video_references(0, 25, 349, 350), phantom_surgx_roots)
    )
    assert len(good) == 3
    assert str(message).startswith("image 'videos/video42.mp4/000350' of source 'cholec80': ")
    assert "has no frame 350" in str(message)


class Differences(Raft):
    """A stand-in for RAFT that returns image differences as flow."""

    def between(self, first, second):
        difference = (second[..., :2].astype(np.float32) - first[..., :2]).transpose(0, 3, 1, 2)
        return difference, -difference


@pytest.mark.parametrize("successor", ["second", pytest.param("frame", marks=pytest.mark.full)])
def test_every_row_gets_the_flow_of_its_own_pictures(phantom_surgx_roots, tmp_path, monkeypatch, successor):
    roots = phantom_surgx_roots
    (folder,) = surgxbench.build(roots, tmp_path, configs=["triplets"], options=Options(successor=successor))
    rows = pq.read_table(next(folder.glob("triplets/*.parquet"))).to_pylist()
    monkeypatch.setattr(motion_rows, "Raft", Differences)
    result_rows, _ = add_motion(rows, roots, MotionOptions("raft"), successor=successor)
    assert sum(row["successor"] is not None for row in rows) == {"second": 26, "frame": 28}[successor]
    for row, result in zip(rows, result_rows, strict=True):
        if row["successor"] is None:
            assert result == row
            continue
        key = cholec80.key(row["video"], 25 * row["frame"])
        reference = row["image"] if successor == "second" else {"source": "cholec80", "key": key, "view": ""}
        pictures = (np.asarray(images.open_image(ref, roots))[None] for ref in (reference, row["successor"]))
        forward, backward = Differences(motion_rows._refuse_pairs).between(*pictures)
        assert result == row | describe(forward[0], backward[0])
