"""The synthetic Cholec80-Boxes, CholecT45, CholecT50 and Cholec80: one scene each video, in four official layouts."""

import csv
import importlib
import json
import sys
from collections import Counter

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
TOOLS = ("Grasper", "Bipolar", "Hook", "Scissors", "Clipper", "Irrigator", "SpecimenBag")
INSTRUMENT = dict(zip(TOOLS, (*cholec_triplets.INSTRUMENTS, "specimen_bag"), strict=True))


@pytest.fixture(scope="module")
def clips():
    return {video: surgery.clip(video, seed=0) for video in (41, 42, 43, 44, 45, 79, 111)}


def pixels(path):
    with Image.open(path) as picture:
        assert (picture.format, picture.mode) == ("PNG", "RGB")
        return np.asarray(picture)


@pytest.fixture(scope="module")
def rows(written):
    """The rows of ROI_Labels.csv as dicts."""
    with (written["cholec80_boxes"] / "ROI_Labels.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter=";"))


def binaries(root, part, video):
    """The table of one video, its first column apart."""
    table = np.loadtxt(root / part / f"VID{video:02d}.txt", dtype=int, delimiter=",")
    return table[:, 0], table[:, 1:]


def annotations(written, video):
    return json.loads((written["cholect50"] / "labels" / f"VID{video:02d}.json").read_text())["annotations"]


def tab_separated(path):
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t"))


# --- layout and bytes -------------------------------------------------------------------------------------------------

LAYOUTS = {
    "cholec80_boxes": {
        "ROI_Labels.csv",
        *(f"Images/Video_{v}/Video_{v}_{25 * k:05d}.png" for v in (41, 42, 43, 44, 45) for k in SECONDS),
    },
    "cholect45": {
        *(f"dict/{name}.txt" for name in ("triplet", "instrument", "verb", "target", "maps")),
        *(f"{part}/VID{v}.txt" for part in ("triplet", "instrument", "verb", "target") for v in (42, 43, 79)),
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


@pytest.mark.parametrize("source", LAYOUTS)
def test_the_files_are_those_of_the_official_layout(written, source):
    files = [path for path in written[source].rglob("*") if path.is_file()]
    assert {path.relative_to(written[source]).as_posix() for path in files} == LAYOUTS[source]


# --- pictures ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "name", "step"),
    [
        ("cholec80_boxes", "Images/Video_{v}/Video_{v}_{n:05d}.png", 25),
        ("cholect45", "data/VID{v}/{n:06d}.png", 1),
        ("cholect50", "videos/VID{v}/{n:06d}.png", 1),
    ],
)
def test_a_picture_is_the_clips_frame(written, clips, source, name, step):
    for video in importlib.import_module(f"medfaith.loaders.phantom.{source}").VIDEOS:
        for k in SECONDS:
            picture = pixels(written[source] / name.format(v=video, n=step * k))
            np.testing.assert_array_equal(picture, clips[video].frame(25 * k))


@pytest.mark.parametrize("video", [42, 43])
def test_the_video_is_the_clip_but_for_compression(written, clips, video):
    with av.open(str(written["cholec80"] / "videos" / f"video{video}.mp4")) as container:
        stream = container.streams.video[0]
        assert (stream.average_rate, stream.width, stream.height) == (25, *surgery.SIZE[::-1])
        assert stream.codec_context.name == "h264"
        frames, keys, reordered = [], 0, False
        for packet in container.demux(stream):
            reordered |= packet.dts is not None and packet.dts != packet.pts
            for frame in packet.decode():
                keys += frame.key_frame
                frames.append(frame.to_ndarray(format="rgb24").astype(float))
    assert len(frames) == surgery.N_FRAMES
    assert keys >= 7  # so that a reader may seek
    assert reordered  # B-frames, as in the original
    clip = clips[video]
    psnr = {}
    for t in range(0, surgery.N_FRAMES, 5):
        errors = {n: ((frames[n] - clip.frame(t)) ** 2).mean() for n in (t - 5, t, t + 5) if 0 <= n < len(frames)}
        psnr[t] = 10 * np.log10(255**2 / max(errors[t], 1e-9))
        if not clip.is_black(t):
            assert min(errors, key=lambda n: errors[n]) == t
        else:
            assert frames[t].max() <= 2
    assert min(psnr.values()) > 30
    assert np.median(list(psnr.values())) > 34


# --- labels -----------------------------------------------------------------------------------------------------------


def test_the_csv_has_the_clips_boxes(written, clips, rows):
    first = (written["cholec80_boxes"] / "ROI_Labels.csv").read_text().splitlines()[0]
    assert first == ("Surgery_num;Dir;FrameName;NumBBox_inFrame;ToolName;BBox_X;BBox_Y;BBox_Width;BBox_Height")
    found = {}
    for row in rows:
        video = int(row["Surgery_num"])
        assert row["Dir"] == f"Images\\Video_{video}"
        number = int(row["FrameName"].removeprefix(f"Video_{video}_").removesuffix(".png"))
        frame = found.setdefault((video, number), [])
        assert int(row["NumBBox_inFrame"]) == len(frame) + 1
        xywh = tuple(int(row[f"BBox_{side}"]) for side in ("X", "Y", "Width", "Height"))
        frame.append((INSTRUMENT[row["ToolName"]], xywh))
    expected = {
        (video, 25 * k): boxes for video in range(41, 46) for k in SECONDS if (boxes := clips[video].boxes(25 * k))
    }
    assert found == expected
    assert len(found) == 5 * (surgery.SECONDS - 2)
    assert set(Counter(row["ToolName"] for row in rows)) == set(TOOLS)


@pytest.mark.parametrize("video", [42, 43, 79])
def test_the_four_tables_of_a_video_agree(written, clips, video):
    root = written["cholect45"]
    frames, triplets = binaries(root, "triplet", video)
    assert frames.tolist() == list(SECONDS)
    assert triplets.shape == (surgery.SECONDS, 100)
    names = [line.split(":")[1] for line in (root / "dict" / "triplet.txt").read_text().splitlines()]
    for k in SECONDS:
        expected = {",".join(triplet) for triplet in clips[video].triplets(25 * k)}
        assert {names[n] for n in np.flatnonzero(triplets[k])} == expected
    maps = np.loadtxt(root / "dict" / "maps.txt", dtype=int, delimiter=",")
    for column, (part, n_classes) in enumerate({"instrument": 6, "verb": 10, "target": 15}.items(), start=1):
        numbers, table = binaries(root, part, video)
        assert numbers.tolist() == list(SECONDS)
        assert table.shape == (surgery.SECONDS, n_classes)
        implied = np.stack([triplets[:, maps[:, column] == n].max(1, initial=0) for n in range(n_classes)], axis=1)
        np.testing.assert_array_equal(table, implied)
    assert (triplets.sum(1) == 0).sum() >= 2


def test_the_dictionaries_are_the_official_ones(written):
    root = written["cholect45"] / "dict"
    np.testing.assert_array_equal(np.loadtxt(root / "maps.txt", dtype=int, delimiter=","), Disentangle().bank)
    assert (root / "maps.txt").read_text() == (written["cholect50"] / "label_mapping.txt").read_text()
    for part, known in (
        ("triplet", map(str, cholec_triplets.TRIPLETS)),
        ("instrument", cholec_triplets.INSTRUMENTS),
        ("verb", cholec_triplets.VERBS),
        ("target", cholec_triplets.TARGETS),
    ):
        assert (root / f"{part}.txt").read_text().splitlines() == [f"{n}:{name}" for n, name in enumerate(known)]


@pytest.mark.parametrize("video", [42, 43, 111])
def test_the_json_file_has_a_vector_for_each_acting_tool(written, clips, video):
    data = json.loads((written["cholect50"] / "labels" / f"VID{video:02d}.json").read_text())
    assert set(data) == {"video", "fps", "num_frames", "categories", "annotations", "info", "licenses"}
    assert (data["video"], data["fps"], data["num_frames"]) == (video, 1, surgery.SECONDS)
    assert {part: len(names) for part, names in data["categories"].items()} == {
        "triplet": 100, "instrument": 6, "verb": 10, "target": 15, "phase": 7,
    }  # fmt: skip
    names = data["categories"]
    assert list(data["annotations"]) == [str(k) for k in SECONDS]
    for k, vectors in data["annotations"].items():
        t = 25 * int(k)
        assert {len(vector) for vector in vectors} == {15}
        assert {vector[14] for vector in vectors} == {clips[video].phase(t)}
        assert all(vector[9:14] == [-1] * 5 for vector in vectors)
        if not clips[video].triplets(t):
            assert vectors == [[-1] * 14 + [clips[video].phase(t)]]
            continue
        acting = [(name, xywh) for name, xywh in clips[video].boxes(t) if name != "specimen_bag"]
        for vector, triplet, (name, xywh) in zip(vectors, clips[video].triplets(t), acting, strict=True):
            assert names["triplet"][str(vector[0])] == ",".join(triplet)
            assert (names["instrument"][str(vector[1])], vector[2]) == (name, 1)
            assert names["verb"][str(vector[7])] == triplet[1]
            assert names["target"][str(vector[8])] == triplet[2]
            height, width = surgery.SIZE
            pixels_of_box = [share * side for share, side in zip(vector[3:7], (width, height) * 2, strict=True)]
            assert vector[3:7] == [-1] * 4 if video == 42 else pixels_of_box == pytest.approx(xywh)


@pytest.mark.parametrize("video", [42, 43])
def test_the_four_sources_name_the_same_tools(written, rows, video):
    """Each source is read as its own format says, and compared with the others: not with the clip."""
    boxed = {k: set() for k in SECONDS}
    for row in rows:
        if int(row["Surgery_num"]) == video:
            boxed[int(row["FrameName"][-9:-4]) // 25].add(INSTRUMENT[row["ToolName"]])
    tools = tab_separated(written["cholec80"] / "tool_annotations" / f"video{video}-tool.txt")
    assert list(tools[0]) == ["Frame", *TOOLS]
    assert [int(row["Frame"]) for row in tools] == [25 * k for k in SECONDS]
    _, instruments = binaries(written["cholect45"], "instrument", video)
    _, triplets = binaries(written["cholect45"], "triplet", video)
    vectors = annotations(written, video)
    for k in SECONDS:
        assert {INSTRUMENT[name] for name in TOOLS if tools[k][name] == "1"} == boxed[k]
        acting = {cholec_triplets.INSTRUMENTS[n] for n in np.flatnonzero(instruments[k])}
        assert acting == boxed[k] - {"specimen_bag"}
        ids = [vector[0] for vector in vectors[str(k)] if vector[0] >= 0]
        assert set(ids) == set(np.flatnonzero(triplets[k]))
    assert any("specimen_bag" in names for names in boxed.values())


# --- the readers ------------------------------------------------------------------------------------------------------


def test_the_reader_of_boxes_reads_them(written, clips):
    frames = cholec80_boxes.read_frames(written["cholec80_boxes"])
    assert [(frame.video, frame.frame) for frame in frames] == sorted((frame.video, frame.frame) for frame in frames)
    for frame in frames:
        assert list(frame.boxes) == clips[frame.video].boxes(frame.frame)
        assert (written["cholec80_boxes"] / frame.key).is_file()


@pytest.mark.parametrize("reader", [cholect45, cholect50])
def test_the_readers_of_triplets_read_them(written, clips, reader):
    root = written[reader.__name__.rsplit(".", maxsplit=1)[-1]]
    expected = (42, 43, 79) if reader is cholect45 else (42, 43, 111)
    assert tuple(reader.videos(root)) == expected
    for video in expected:
        read = reader.read_video(root, video)
        assert read.frames.tolist() == list(SECONDS)
        assert not any(read.disagreeing.values())
        for k in SECONDS:
            here = {tuple(cholec_triplets.TRIPLETS[n]) for n in np.flatnonzero(read.triplets[k])}
            assert here == set(clips[video].triplets(25 * k))
            assert (root / reader.key(video, k)).is_file()


@pytest.mark.parametrize("video", [42, 43])
def test_the_reader_of_videos_reads_them(written, clips, video):
    path = written["cholec80"] / "videos" / f"video{video}.mp4"
    assert cholec80.count_frames(path) == surgery.N_FRAMES
    for number in (0, 49, 300, 349):
        error = np.asarray(cholec80.open_frame(path, number)).astype(float) - clips[video].frame(number)
        assert 10 * np.log10(255**2 / (error**2).mean()) > 30


def test_without_pyav_the_message_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "av", None)
    with pytest.raises(MedfaithError, match=r"uv pip install 'medfaith\[video\]'"):
        phantom_cholec80.write(tmp_path, seed=0)
