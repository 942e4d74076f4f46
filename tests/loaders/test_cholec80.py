"""Random access to frames of Cholec80 videos, compared with sequential decoding of videos that PyAV writes."""

from __future__ import annotations

import sys
from itertools import product

import av
import numpy as np
import pytest
from PIL import Image

from medfaith.loaders import cholec80, images, limits
from medfaith.loaders.errors import ImageError, InputError, MissingSourceError
from tests.support.loaders.faults import get_fault
from tests.support.tiers import choose_size

COUNT, SIZE = 60, (64, 48)
# The videos differ in decoding order, keyframe distance and start time, which all affect the search for a frame.
OPEN = "open-gop=1:bframes=3:b-pyramid=normal:b-adapt=0:keyint=10:min-keyint=10:scenecut=0"
SHORT = "open-gop=1:bframes=2:b-adapt=0:keyint=3:min-keyint=1:scenecut=0"
VIDEOS = {
    "H.264, B frames": {"gop": 12, "b": 3},
    "H.264, one keyframe": {"gop": 250, "b": 2},
    "H.264, B frames before a keyframe shown": {"gop": 10, "b": 3, "options": {"x264-params": OPEN}},
    "H.264, keyframes each third": {"gop": 3, "b": 2, "options": {"x264-params": SHORT}},
    "H.264, keyframes only": {"gop": 1, "b": 0},
    "H.264, times that begin later": {"gop": 12, "b": 2, "container_options": {"use_editlist": "0"}},
    "H.264, fragments": {"gop": 12, "b": 2, "container_options": {"movflags": "frag_keyframe+empty_moov"}},
    "MPEG-4, B frames": {"codec": "mpeg4", "gop": 12, "b": 2},
    "MPEG-4, no B frames": {"codec": "mpeg4", "gop": 12, "b": 0},
}


def draw_frame(k):
    """Draw frame k: two moving ramps and a rising level."""
    y, x = np.mgrid[: SIZE[1], : SIZE[0]]
    return np.stack([(3 * x + 5 * k) % 256, (4 * y + 3 * k) % 256, np.full_like(x, (4 * k) % 256)], -1).astype(np.uint8)


def write_video(
    path, *, codec="libx264", gop=12, b=2, rate=25, options=None, container_options=None, times=None, count=COUNT
):
    path.parent.mkdir(parents=True, exist_ok=True)
    with av.open(str(path), "w", container_options=container_options or {}) as container:
        stream = container.add_stream(codec, rate=rate, options=options or {})
        assert isinstance(stream, av.VideoStream)
        stream.width, stream.height, stream.pix_fmt = *SIZE, "yuv420p"
        stream.gop_size, stream.max_b_frames, stream.bit_rate = gop, b, 400_000
        for k in range(count):
            frame = av.VideoFrame.from_ndarray(draw_frame(k), format="rgb24")
            frame.pts = k if times is None else times[k]
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return path


def decode_frames(path):
    with av.open(str(path)) as container:
        return [frame.to_image().tobytes() for frame in container.decode(video=0)]


@pytest.fixture(scope="module")
def video(tmp_path_factory):
    return write_video(tmp_path_factory.mktemp("video") / "video01.mp4", b=3)


@pytest.mark.parametrize("kind", VIDEOS)
def test_a_frame_is_the_one_that_decoding_from_the_start_shows(tmp_path, kind):
    count = choose_size(24, 36)
    path = write_video(tmp_path / "video01.mp4", count=count, **VIDEOS[kind])
    expected = decode_frames(path)
    assert len(expected) == len(set(expected)) == count  # else a neighbour could pass for the frame
    wrong = [k for k in range(count) if cholec80.open_frame(path, k).tobytes() != expected[k]]
    assert wrong == []
    assert [frame.tobytes() for frame in cholec80.frames(path, range(count))] == expected
    assert cholec80.count_frames(path) == count


@pytest.mark.parametrize(
    ("seek_beyond", "begun"), [(0, [3, 30, 59]), (28, [3, 59]), (250, [3])], ids=["three passes", "two", "one"]
)
@pytest.mark.parametrize("numbers", [[3, 30, 59], [], [7], [0, 1, 2], [11, 12, 13, 36], list(range(0, 60, 7))])
def test_a_distant_frame_is_sought_and_a_near_one_decoded_on_to(video, monkeypatch, numbers, seek_beyond, begun):
    passes, decoded_from, expected = [], cholec80._decode_from, decode_frames(video)
    monkeypatch.setattr(cholec80, "SEEK_BEYOND", seek_beyond)
    monkeypatch.setattr(cholec80, "_decode_from", lambda *args: passes.append(args[2]) or decoded_from(*args))
    assert [frame.tobytes() for frame in cholec80.frames(video, numbers)] == [expected[k] for k in numbers]
    if numbers == [3, 30, 59]:
        assert passes == begun


# --- invalid videos ---------------------------------------------------------------------------------------------------


def test_numbers_that_do_not_ascend_and_frames_beyond_the_end_are_named(video):
    for numbers in ([3, 2], [3, 3]):
        with pytest.raises(ValueError, match="must ascend"):
            next(cholec80.frames(video, numbers))
    for number, reader in product([60, 10**8, -1], [cholec80.open_frame, cholec80.frame_size]):
        with pytest.raises(InputError, match=rf"(?s)has no frame {number}\n.*a frame from 0 to 59"):
            reader(video, number)


@pytest.mark.parametrize("rate", [24, 30, 50, 1])
def test_another_rate_is_refused(tmp_path, rate):
    path = write_video(tmp_path / "video01.mp4", rate=rate)
    message = rf"runs at {rate}\.00 frames a second\n  expected: 25 frames a second"
    for reader in (cholec80.count_frames, cholec80.frame_size, lambda p: cholec80.open_frame(p, 0)):
        with pytest.raises(InputError, match=message):
            reader(path)


def test_times_between_those_of_25_frames_a_second_are_refused(tmp_path):
    times = [2 * k + (k >= 30) for k in range(COUNT)]  # half a frame late from the 30th on
    path = write_video(tmp_path / "video01.mp4", rate=50, gop=10, b=0, times=times)
    assert cholec80.open_frame(path, 5).tobytes() == decode_frames(path)[5]
    with pytest.raises(InputError, match=r"shows a frame at 1\.22 s, between the times of 25 frames a second"):
        cholec80.open_frame(path, 35)


def test_a_frame_that_is_left_out_is_never_another(tmp_path):
    times = [k + (k >= 30) for k in range(300)]  # no frame has the time of frame 30
    path = write_video(tmp_path / "video01.mp4", gop=12, b=0, times=times, count=300)
    expected = decode_frames(path)
    assert cholec80.open_frame(path, 29).tobytes() == expected[29]
    assert cholec80.open_frame(path, 31).tobytes() == expected[30]
    with pytest.raises(InputError, match="frame 30 cannot be decoded"):
        cholec80.open_frame(path, 30)


def write_sound(path):
    with av.open(str(path), "w") as container:
        stream = container.add_stream("aac", rate=8000, layout="mono")
        frame = av.AudioFrame.from_ndarray(np.zeros((1, 1024), np.float32), format="fltp", layout="mono")
        frame.sample_rate = 8000
        container.mux(stream.encode(frame))
        container.mux(stream.encode())


MP4 = b"\0\0\0\x18ftypmp42"
DAMAGED = "is truncated, damaged or no video|does not say|holds no"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        *((data, DAMAGED) for data in (b"", b"hello", MP4 + bytes(99), b"\x89PNG\r\n\x1a\n" + bytes(99))),
        (None, "holds no video"),
    ],
    ids=["empty", "text", "a header alone", "png", "sound"],
)
def test_what_is_no_video_is_refused(tmp_path, content, message):
    path = tmp_path / "video01.mp4"
    write_sound(path) if content is None else path.write_bytes(content)
    with pytest.raises(InputError, match=rf"video01\.mp4: ({message})"):
        cholec80.open_frame(path, 0)


def test_a_brand_that_is_no_text_matters_nothing_and_another_format_or_frames_without_end_are_refused(
    tmp_path, monkeypatch
):
    path = write_video(tmp_path / "video01.mp4", count=3)
    content = path.read_bytes()
    path.write_bytes(content.replace(b"ftypisom", b"ftyp\xff\xff\xff\xff"))
    assert (cholec80.count_frames(path), cholec80.open_frame(path, 0).size) == (3, SIZE)
    path.write_bytes(content.replace(b"avc1", b"????"))
    with pytest.raises(InputError, match=DAMAGED):
        cholec80.count_frames(path)
    path.write_bytes(content)
    monkeypatch.setattr(limits, "IMAGE_PIXELS", SIZE[0] * SIZE[1] - 1)
    for reader in (cholec80.open_frame, cholec80.frame_size):
        with pytest.raises(InputError, match=rf"video01\.mp4: frames of {SIZE[0]} x {SIZE[1]} pixels"):
            reader(path, 0)
    path.write_bytes(b"YUV4MPEG2 W8 H8 F25:1 Cmono\nFRAME\n" + bytes(64))
    with pytest.raises(InputError, match=DAMAGED):
        cholec80.open_frame(path, 0)


@pytest.mark.parametrize("options", [{}, {"movflags": "faststart"}], ids=["header last", "header first"])
def test_a_truncated_video_gives_the_true_frame_or_an_error(tmp_path, options):
    path = write_video(tmp_path / "video01.mp4", container_options=options)
    content, expected = path.read_bytes(), decode_frames(path)
    refused = 0
    for length in range(200, len(content) - 1, len(content) // 12):
        path.write_bytes(content[:length])
        for k in (0, 20, 40, 59):
            try:
                assert cholec80.open_frame(path, k).tobytes() == expected[k], f"cut at {length}, frame {k}"
            except InputError:
                refused += 1
    assert refused > 20


@pytest.mark.parametrize(("codec", "min_refused"), [("libx264", 18), ("mpeg4", 28)])
def test_damaged_frames_are_refused(tmp_path, codec, min_refused):
    """Overwrite twenty bytes of every second frame, one frame at a time: at least `min_refused` of 30 videos fail.

    In the regular run every fourth frame, and half of them.
    """
    step = choose_size(4, 2)
    path = write_video(tmp_path / "video01.mp4", codec=codec)
    content, expected = path.read_bytes(), decode_frames(path)
    with av.open(str(path)) as container:
        places = [(packet.pos or 0, packet.size) for packet in container.demux(video=0) if packet.size]
    rng = np.random.default_rng(0)
    refused = 0
    for position, size in places[::step]:
        data, start, n = bytearray(content), position + size // 3, min(20, size // 2)
        data[start : start + n] = rng.bytes(n)
        path.write_bytes(data)
        try:
            list(cholec80.frames(path, range(COUNT)))
        except InputError as error:
            refused += "damaged" in str(error)
    assert refused >= 2 * min_refused // step
    assert cholec80.open_frame(path, 5).tobytes() == expected[5]  # the last damaged frame comes much later


# --- images of rows ---------------------------------------------------------------------------------------------------


@pytest.fixture
def root(tmp_path):
    """Root folder with one video."""
    write_video(tmp_path / "root/videos/video42.mp4")
    return tmp_path / "root"


def make_ref(key):
    return {"source": "cholec80", "key": key, "view": ""}


def test_a_key_opens_its_frame(root):
    assert cholec80.key(42, 25) == "videos/video42.mp4/000025"
    expected = decode_frames(root / "videos/video42.mp4")
    for k in (0, 25, 59):
        frame = images.open_image(make_ref(cholec80.key(42, k)), {"cholec80": root})
        assert isinstance(frame, Image.Image)
        assert frame.tobytes() == expected[k]
        assert images.read_image_size(make_ref(cholec80.key(42, k)), {"cholec80": root}) == frame.size == SIZE
    assert images.locate(make_ref(cholec80.key(42, 5)), {"cholec80": root}) == (root / "videos/video42.mp4").resolve()


UNOPENED = [
    ("videos/video42.mp4/000060", r"has no frame 60 \(expected: a frame from 0 to 59\)\n  what to do"),
    ("videos/video43.mp4/000000", r"no such file below .*; looked for videos/video43\.mp4\n"),
    ("videos/video42.mp4", "neither jpg, png nor DICOM"),
    ("videos/video42.mp4/25", "no such file"),
    ("videos/video42.mp4/000025/", "the key is empty, absolute"),
    ("videos/../video42.mp4/000025", "the key is empty, absolute"),
    ("/videos/video42.mp4/000025", "the key is empty, absolute"),
    ("videos/empty.mp4/000025", r"empty\.mp4 is empty"),
    ("videos/broken.mp4/000025", r"broken\.mp4: is truncated, damaged or no video .*\n  what to do: download"),
    ("videos/slow.mp4/000000", r"runs at 12\.00 frames a second \(expected: 25 frames a second\)"),
    ("videos/linked.mp4/000000", "is a link that leaves the root"),
]


def test_a_key_that_cannot_be_opened_is_named(root):
    (root / "videos/empty.mp4").touch()
    (root / "videos/broken.mp4").write_bytes(b"broken")
    write_video(root / "videos/slow.mp4", rate=12)
    write_video(root.parent / "private.mp4")
    (root / "videos/linked.mp4").symlink_to(root.parent / "private.mp4")
    for (key, message), reader in product(UNOPENED, (images.open_image, images.read_image_size)):
        with pytest.raises(ImageError, match=message) as error:
            reader(make_ref(key), {"cholec80": root})
        assert str(error.value).startswith(f"image {key!r} of source 'cholec80': ")


def test_a_source_or_a_decoder_that_is_missing(root, monkeypatch):
    with pytest.raises(MissingSourceError, match="how to get it"):
        images.open_image(make_ref(cholec80.key(42, 0)), {})
    monkeypatch.setitem(sys.modules, "av", None)
    with pytest.raises(ImageError, match=r"(?s)^image 'videos/video42\.mp4/000000' of .*medfaith\[video\]"):
        images.open_image(make_ref(cholec80.key(42, 0)), {"cholec80": root})


def test_keys_split_into_video_and_number_and_another_key_stands_for_its_own_path():
    for number in ("000025", "123456789"):
        assert cholec80.split_key(f"videos/video42.mp4/{number}") == ("videos/video42.mp4", int(number))
        assert cholec80.list_image_paths(f"videos/video42.mp4/{number}") == ("videos/video42.mp4",)
    for key in ("videos/video42.mp4/1234567890", "videos/video42.mp4/25", "videos/video42.mp4", "a", ""):
        assert (cholec80.split_key(key), cholec80.list_image_paths(key)) == (None, (key,))


def test_videos_are_found_by_number(root):
    for name in ("video07.mp4", "video80.mp4", "notes.mp4", "video07-timestamp.txt"):
        (root / "videos" / name).touch()
    assert cholec80.videos(root) == [7, 42, 80]
    with pytest.raises(InputError, match=r"holds no videos/video\*\.mp4"):
        cholec80.videos(root / "videos")


# --- tools ------------------------------------------------------------------------------------------------------------

NONE = [0] * 7
HEADER = ["Frame", "Grasper", "Bipolar", "Hook", "Scissors", "Clipper", "Irrigator", "SpecimenBag"]


def write_tools(root, *rows, header=HEADER):
    path = root / "tool_annotations/video42-tool.txt"
    path.parent.mkdir(parents=True)
    path.write_text("\n".join("\t".join(map(str, row)) for row in (header, *rows)) + "\n")
    return root


def test_tools_are_read_by_name(tmp_path):
    turned = [HEADER[0], *reversed(HEADER[1:])]
    write_tools(tmp_path, [0, 1, 0, 0, 0, 0, 0, 0], [25, *NONE], [75, 0, 0, 0, 0, 0, 0, 1], header=turned)
    tools = cholec80.read_tools(tmp_path, 42)
    assert tools.frames.tolist() == [0, 25, 75]
    assert (tools.frames.dtype, tools.present.dtype, tools.present.shape) == (np.int64, bool, (3, 7))
    present = [[name for name, is_in in zip(cholec80.INSTRUMENTS, row, strict=True) if is_in] for row in tools.present]
    assert present == [["specimen_bag"], [], ["grasper"]]


@pytest.mark.parametrize(
    ("row", "column", "message"),
    [
        ([25, 0, 2, 0, 0, 0, 0, 0], "Bipolar", "0 or 1"),
        ([25, 0, 0, "", 0, 0, 0, 0], "Hook", "is blank"),
        ([25, 0, 0, "x", 0, 0, 0, 0], "Hook", "a whole number"),
        (["", *NONE], "Frame", "is blank"),
        ([26, *NONE], "Frame", "each 25th frame"),
        ([0, *NONE], "Frame", "once, in ascending order"),
        ([-25, *NONE], "Frame", "ascending"),
    ],
)
def test_a_fault_of_tools_is_named(tmp_path, row, column, message):
    path = write_tools(tmp_path, [0, *NONE], row) / "tool_annotations/video42-tool.txt"
    assert message in get_fault(cholec80.read_tools, tmp_path, 42, where=path, row=2, column=column)


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ([*HEADER[:7], "Bags"], "no column for specimen_bag"),
        (["Frames", *HEADER[1:]], "no column for Frame"),
        ([",".join(HEADER)], "no column for grasper, bipolar"),
    ],
)
def test_a_missing_column_or_table_of_tools_is_named(tmp_path, header, message):
    with pytest.raises(InputError, match=r"video42-tool\.txt: no such file"):
        cholec80.read_tools(tmp_path, 42)
    with pytest.raises(InputError, match=message):
        cholec80.read_tools(write_tools(tmp_path, header=header), 42)
