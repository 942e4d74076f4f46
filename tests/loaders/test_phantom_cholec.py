"""The synthetic Cholec80-Boxes, CholecT45, CholecT50 and Cholec80: one scene for each video, in official layouts."""

import importlib
import json
import sys

import av
import numpy as np
import pytest
from ivtmetrics.disentangle import Disentangle
from PIL import Image

from medfaith.loaders import cholec80, cholec80_boxes, cholec_triplets, cholect45, cholect50
from medfaith.loaders.errors import MedfaithError
from medfaith.loaders.phantom import cholec80 as phantom_cholec80
from medfaith.loaders.phantom import surgery

SECONDS = range(surgery.SECONDS)
LAYOUTS = {
    "cholec80_boxes": {
        "ROI_Labels.csv",
        *(f"Images/Video_{v}/Video_{v}_{25 * k:05d}.png" for v in (41, 42, 43, 44, 45) for k in SECONDS),
    },
    "cholect45": {
        *(f"dict/{name}.txt" for name in ("triplet", "instrument", "verb", "target", "maps")),
        *(f"{component}/VID{v}.txt" for component in ("triplet", "instrument", "verb", "target") for v in (42, 43, 79)),
        *(f"data/VID{v}/{k:06d}.png" for v in (42, 43, 79) for k in SECONDS),
    },
    "cholect50": {
        "label_mapping.txt",
        *(f"labels/VID{v}.json" for v in (42, 43, 111)),
        *(f"videos/VID{v}/{k:06d}.png" for v in (42, 43, 111) for k in SECONDS),
    },
    "cholec80": {
        *(f"videos/video{v}.mp4" for v in (42, 43)),
        *(f"{kind}_annotations/video{v}-{kind}.txt" for kind in ("tool", "phase") for v in (42, 43)),
    },
}


@pytest.fixture(scope="module")
def clips():
    return {video: surgery.clip(video, seed=0) for video in (41, 42, 43, 44, 45, 79, 111)}


def test_the_files_are_those_of_the_official_layout(written):
    for source, expected in LAYOUTS.items():
        files = [path for path in written[source].rglob("*") if path.is_file()]
        assert {path.relative_to(written[source]).as_posix() for path in files} == expected


@pytest.mark.parametrize(("source", "step"), [("cholec80_boxes", 25), ("cholect45", 1), ("cholect50", 1)])
def test_a_picture_is_the_clips_frame(written, clips, source, step):
    reader = importlib.import_module(f"medfaith.loaders.{source}")
    for video in importlib.import_module(f"medfaith.loaders.phantom.{source}").VIDEOS:
        for k in SECONDS:
            with Image.open(written[source] / reader.key(video, step * k)) as picture:
                assert (picture.format, picture.mode) == ("PNG", "RGB")
                np.testing.assert_array_equal(np.asarray(picture), clips[video].frame(25 * k))


@pytest.mark.parametrize("video", [42, pytest.param(43, marks=pytest.mark.full)])
def test_the_video_is_the_clip_but_for_compression(written, clips, video):
    path, clip = written["cholec80"] / "videos" / f"video{video}.mp4", clips[video]
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        assert (stream.average_rate, stream.width, stream.height) == (25, *surgery.SIZE[::-1])
        assert stream.codec_context.name == "h264"
        packets = [packet for packet in container.demux(stream) if packet.dts is not None]
    assert sum(packet.is_keyframe for packet in packets) >= 7  # allows seeking
    assert any(packet.dts != packet.pts for packet in packets)  # B-frames, as in the original
    assert cholec80.count_frames(path) == surgery.N_FRAMES
    numbers = list(range(0, surgery.N_FRAMES, 5))
    frames = [np.asarray(frame).astype(float) for frame in cholec80.frames(path, numbers)]
    clip_frames = [clip.frame(t).astype(float) for t in numbers]
    psnr = []
    for n, t in enumerate(numbers):
        errors = {m: ((frames[m] - clip_frames[n]) ** 2).mean() for m in (n - 1, n, n + 1) if 0 <= m < len(frames)}
        psnr.append(10 * np.log10(255**2 / max(errors[n], 1e-9)))
        assert frames[n].max() <= 2 if clip.is_black(t) else min(errors, key=lambda m: errors[m]) == n
    assert min(psnr) > 30
    assert np.median(psnr) > 34


def test_the_boxes_are_the_clips(written, clips):
    frames = cholec80_boxes.read_frames(written["cholec80_boxes"])
    assert {(frame_boxes.video, frame_boxes.frame): list(frame_boxes.boxes) for frame_boxes in frames} == {
        (video, 25 * k): boxes for video in range(41, 46) for k in SECONDS if (boxes := clips[video].boxes(25 * k))
    }
    assert len(frames) == 5 * (surgery.SECONDS - 2)
    assert {name for frame_boxes in frames for name, _ in frame_boxes.boxes} == set(cholec80_boxes.INSTRUMENTS)


@pytest.mark.parametrize(("reader", "videos"), [(cholect45, [42, 43, 79]), (cholect50, [42, 43, 111])])
def test_the_triplets_are_the_clips(written, clips, reader, videos):
    root = written[reader.__name__.rsplit(".", maxsplit=1)[-1]]
    assert reader.videos(root) == videos
    for video in videos:
        labels = reader.read_video(root, video)
        assert labels.frames.tolist() == list(SECONDS)
        assert not any(labels.disagreeing.values())
        for k in SECONDS:
            frame_triplets = {tuple(cholec_triplets.TRIPLETS[n]) for n in np.flatnonzero(labels.triplets[k])}
            assert frame_triplets == set(clips[video].triplets(25 * k))
        assert (labels.triplets.sum(1) == 0).sum() >= 2


@pytest.mark.parametrize("video", [42, 43])
def test_the_tools_are_the_boxed_ones_and_every_frame_has_a_phase(written, clips, video):
    tools = cholec80.read_tools(written["cholec80"], video)
    assert tools.frames.tolist() == [25 * k for k in SECONDS]
    boxed = {
        frame_boxes.frame: frame_boxes
        for frame_boxes in cholec80_boxes.read_frames(written["cholec80_boxes"])
        if frame_boxes.video == video
    }
    for frame, present in zip(tools.frames.tolist(), tools.present, strict=True):
        instruments = {name for name, _ in boxed[frame].boxes} if frame in boxed else set()
        assert {cholec80.INSTRUMENTS[n] for n in np.flatnonzero(present)} == instruments
    assert tools.present[:, cholec80.INSTRUMENTS.index("specimen_bag")].any()
    table = written["cholec80"] / "phase_annotations" / f"video{video}-phase.txt"
    phases = [line.split("\t") for line in table.read_text().splitlines()[1:]]
    expected = [(str(t), phantom_cholec80.PHASES[clips[video].phase(t)]) for t in range(surgery.N_FRAMES)]
    assert [tuple(row) for row in phases] == expected


def test_the_dictionaries_are_the_official_ones(written):
    root = written["cholect45"] / "dict"
    np.testing.assert_array_equal(np.loadtxt(root / "maps.txt", dtype=int, delimiter=","), Disentangle().bank)
    assert (root / "maps.txt").read_text() == (written["cholect50"] / "label_mapping.txt").read_text()
    for component in ("triplet", "instrument", "verb", "target"):
        names = getattr(cholec_triplets, f"{component}s".upper())
        assert (root / f"{component}.txt").read_text().splitlines() == [f"{n}:{name}" for n, name in enumerate(names)]


@pytest.mark.parametrize("video", [42, 43, 111])
def test_the_json_file_has_the_official_tables_and_vectors(written, clips, video):
    data = json.loads((written["cholect50"] / "labels" / f"VID{video:02d}.json").read_text())
    assert set(data) == {"video", "fps", "num_frames", "categories", "annotations", "info", "licenses"}
    assert (data["video"], data["fps"], data["num_frames"]) == (video, 1, surgery.SECONDS)
    assert {component: len(names) for component, names in data["categories"].items()} == {
        "triplet": 100, "instrument": 6, "verb": 10, "target": 15, "phase": 7,
    }  # fmt: skip
    for k, vectors in data["annotations"].items():
        acting = [xywh for name, xywh in clips[video].boxes(25 * int(k)) if name != "specimen_bag"]
        assert [len(vector) for vector in vectors] == [15] * max(len(acting), 1)
        assert {vector[14] for vector in vectors} == {clips[video].phase(25 * int(k))}
        for vector, xywh in zip(vectors, acting, strict=False):
            pixels = np.array(vector[3:7]) * (surgery.SIZE[::-1] * 2)
            assert vector[3:7] == [-1] * 4 if video == 42 else pixels == pytest.approx(xywh)


def test_without_pyav_the_message_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "av", None)
    with pytest.raises(MedfaithError, match=r"uv pip install 'medfaith\[video\]'"):
        phantom_cholec80.write(tmp_path, seed=0)
