"""The CholecSeg8k reader: frames and masks in the layouts of copies, and an error message for every fault."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from medfaith.loaders import cholecseg8k, images
from medfaith.loaders.errors import InputError
from medfaith.loaders.phantom import cholecseg8k as phantom
from tests.support.loaders.faults import get_fault
from tests.support.tiers import choose_size

SIZE = (32, 18)  # width, height
LEVELS = np.full(SIZE[::-1], 21, dtype=np.uint8)
LEVELS[2:8, 3:13], LEVELS[10:16, 20:30] = 31, 32
CLIP = "video01/video01_00080"
SECOND, LAST = "video01/video01_00200", "video09/video09_00050"
MASK = f"{CLIP}/frame_81_endo_watershed_mask.png"


def write_clip(root: Path, clip: str, n: int = 3) -> None:
    """Write the frames of a clip and their four files each."""
    folder, first = root / clip, int(clip[-5:])
    folder.mkdir(parents=True)
    for frame in range(first, first + n):
        for kind in ("", "_mask", "_color_mask", "_watershed_mask"):
            Image.fromarray(np.dstack([LEVELS] * 3)).save(folder / f"frame_{frame}_endo{kind}.png", compress_level=0)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A copy of 9 frames."""
    for clip in (CLIP, SECOND, LAST):
        write_clip(tmp_path / "copy", clip)
    return tmp_path / "copy"


def list_places(root: Path) -> list[tuple[int, int, int]]:
    return [(frame.video, frame.clip, frame.frame) for frame in cholecseg8k.list_frames(root)]


PLACES = [
    (video, clip, clip + n) for video, clip in ((1, 80), (1, 200), (9, 50)) for n in range(3)
]  # of the fixture's frames


# --- layouts ----------------------------------------------------------------------------------------------------------


def move(*names: str) -> Callable[[Path], object]:
    """Move a file or folder; without a second name, delete it."""

    def change(root: Path) -> None:
        place = root / names[0]
        if len(names) == 2:
            (root / names[1]).parent.mkdir(parents=True, exist_ok=True)
            place.rename(root / names[1])
        elif place.is_dir():
            shutil.rmtree(place)
        else:
            place.unlink()

    return change


def nest(folder: str, *videos: str) -> Callable[[Path], object]:
    """Move videos into a folder."""
    return lambda root: [move(video, f"{folder}/{video}")(root) for video in videos or ("video01", "video09")]


def delete_frame(frame: int) -> Callable[[Path], object]:
    return lambda root: [path.unlink() for path in (root / CLIP).glob(f"frame_{frame}_*")]


def link(name: str, target: str) -> Callable[[Path], object]:
    def change(root: Path) -> None:
        move(name, f"../moved/{Path(name).name}")(root)
        (root / name).symlink_to(target)

    return change


def put_fifo(root: Path) -> None:
    (root / MASK).unlink()
    os.mkfifo(root / MASK)


def put_file(name: str) -> Callable[[Path], object]:
    def change(root: Path) -> None:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(b"x")

    return change


def replace_by(name: str) -> Callable[[Path], object]:
    """Replace all videos by one file."""
    return lambda root: [move("video01")(root), move("video09")(root), put_file(name)(root)]


READ = {
    "as it unpacks": lambda root: None,
    "in the folder of the zip": nest("CholecSeg8k"),
    "in Kaggle's folder": nest("archive"),
    "with a system's files": lambda root: [
        put_file(name)(root) for name in ("__MACOSX/video01/._frame_1_endo.png", f"{CLIP}/.DS_Store", f"{CLIP}/x.db")
    ],
    "with a picture beside the videos": put_file("example.png"),
    "without the masks that nobody reads": lambda root: [p.unlink() for p in root.rglob("*_endo_*mask.png")
                                                         if "watershed" not in p.name],
}  # fmt: skip


@pytest.mark.parametrize("change", READ.values(), ids=READ)
def test_every_frame_of_a_layout_is_read(root, change):
    change(root)
    frames = cholecseg8k.list_frames(root)
    assert list_places(root) == PLACES
    for frame in frames:
        assert frame.mask.is_file()
        path = images.locate({"source": "cholecseg8k", "key": frame.key, "view": ""}, {"cholecseg8k": root})
        assert path.with_name(frame.mask.name) == frame.mask.resolve()


OTHER_NAME = "of another name"
REFUSED = {  # change, faulty path, message
    "nested deeper": (nest("data/x"), "", "has no folder video01"),
    "only the zip": (replace_by("CholecSeg8k.zip"), "", "but CholecSeg8k.zip"),
    "only tables": (replace_by("train-00000.parquet"), "", "but train-00000.parquet"),
    "half in another folder": (nest("CholecSeg8k", "video09"), "", "has videos in"),
    "half in a folder of another name": (nest("more", "video09"), "more/video09", OTHER_NAME),
    "a video in capitals": (move("video09", "Video09"), "Video09", OTHER_NAME),
    "a video without 0": (move("video09", "video9"), "video9", OTHER_NAME),
    "a clip without 0": (move(LAST, "video09/video09_50"), "video09/video09_50", OTHER_NAME),
    "a clip in another video": (move(LAST, "video01/video09_00050"), "video01/video09_00050", OTHER_NAME),
    "a clip beside the videos": (move(LAST, "video09_00050"), "video09_00050", OTHER_NAME),
    "a clip below a clip": (move(LAST, f"{CLIP}/video09_00050"), f"{CLIP}/video09_00050", OTHER_NAME),
    "an unknown folder of frames": (move("video09", "op9"), "op9/video09_00050", OTHER_NAME),
    "unknown folders of frames": (move(LAST, "op9/first"), "op9/first/frame_50_endo.png", OTHER_NAME),
    "a frame as jpg": (
        move(f"{CLIP}/frame_81_endo.png", f"{CLIP}/frame_81_endo.jpg"), f"{CLIP}/frame_81_endo.jpg", OTHER_NAME,
    ),
    "a frame in capitals": (
        move(f"{CLIP}/frame_81_endo.png", f"{CLIP}/FRAME_81_endo.png"), f"{CLIP}/FRAME_81_endo.png", OTHER_NAME,
    ),
    "a number with 0": (
        move(f"{CLIP}/frame_81_endo.png", f"{CLIP}/frame_081_endo.png"), f"{CLIP}/frame_081_endo.png", OTHER_NAME,
    ),
    "a copied file": (put_file(f"{CLIP}/frame_81_endo (1).png"), f"{CLIP}/frame_81_endo (1).png", OTHER_NAME),
    "a frame outside its clip": (
        move(f"{CLIP}/frame_81_endo.png", "video01/frame_81_endo.png"), "video01/frame_81_endo.png", OTHER_NAME,
    ),
    "a missing mask": (move(MASK), MASK, "is missing, and the colour mask is there"),
    "a missing frame": (move(f"{CLIP}/frame_81_endo.png"), f"{CLIP}/frame_81_endo.png", "is missing"),
    "a gap": (delete_frame(81), f"{CLIP}/frame_81_endo.png", "is missing"),
    "a late start": (delete_frame(80), f"{CLIP}/frame_80_endo.png", "is missing"),
    "an early start": (move(CLIP, "video01/video01_00081"), "video01/video01_00081", "before the first"),
    "a short clip": (delete_frame(82), CLIP, "has 2 frames, and video01/video01_00200 has 3"),
    "an empty clip": (lambda root: (root / "video12/video12_00001").mkdir(parents=True), "video12", "has no frames"),
    "two clips with one frame": (
        lambda root: write_clip(root, "video01/video01_00082"), "video01/video01_00082/frame_82_endo.png",
        "is also a frame of the clip video01_00080",
    ),
    "a linked clip": (link(CLIP, "../../moved/video01_00080"), CLIP, "is a link to a folder"),
    "a link to nothing": (link(MASK, "nowhere.png"), MASK, "is a link to nothing"),
    "a pipe": (put_fifo, MASK, "no regular file"),
    "a folder for a mask": (
        lambda root: [move(MASK)(root), (root / MASK).mkdir()], MASK, "is missing, and the colour mask is there",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("change", "place", "message"), REFUSED.values(), ids=REFUSED)
def test_another_layout_is_refused_with_its_path(root, change, place, message):
    change(root)
    assert message in get_fault(cholecseg8k.list_frames, root, where=root / place if place else root)


def test_a_root_that_is_no_folder_or_one_video_is_refused(root):
    assert "is no folder" in get_fault(cholecseg8k.list_frames, root / "none", where=root / "none")
    for place in (root / "video01", root / CLIP):
        assert "name the folder that has" in get_fault(cholecseg8k.list_frames, place, where=place)


@settings(max_examples=choose_size(8, 25), deadline=None)
@given(
    starts=st.sets(st.tuples(st.integers(1, 80), st.integers(0, 9_000)), min_size=1, max_size=4),
    n=st.integers(1, 3),
    dropped=st.sets(st.tuples(st.integers(0, 3), st.integers(0, 2), st.sampled_from(["", "_watershed_mask"]))),
)
def test_all_frames_are_read_or_the_copy_is_refused(tmp_path_factory, starts, n, dropped):
    """An independent count: one frame for each watershed mask, or an error if any file is missing."""
    root = tmp_path_factory.mktemp("clips")
    clips = [f"video{video:02d}/video{video:02d}_{10 * start:05d}" for video, start in sorted(starts)]
    for clip in clips:
        (root / clip).mkdir(parents=True)
        for frame in range(int(clip[-5:]), int(clip[-5:]) + n):
            for kind in ("", "_watershed_mask"):
                (root / clip / f"frame_{frame}_endo{kind}.png").touch()
    missing = [
        root / clips[k] / f"frame_{int(clips[k][-5:]) + t}_endo{kind}.png"
        for k, t, kind in dropped
        if k < len(clips) and t < n
    ]
    for path in missing:
        path.unlink()
    n_masks = len([*root.rglob("*_watershed_mask.png")])
    if n_masks == len(clips) * n and not missing:
        assert len(cholecseg8k.list_frames(root)) == n_masks
        return
    try:
        frames = cholecseg8k.list_frames(root)
    except InputError:
        return
    # Every clip lost the same last frames with both of their files: nothing in the copy says so, but their number.
    assert len(frames) == n_masks == len([*root.rglob("*_endo.png")])


# --- masks ------------------------------------------------------------------------------------------------------------


def save(path: Path, image: Image.Image) -> None:
    image.save(path, format="PNG")


def add_alpha(alpha: int) -> Image.Image:
    return Image.fromarray(np.dstack([LEVELS] * 3 + [np.full_like(LEVELS, alpha)]))


def make_palette(colours: dict[int, tuple[int, int, int]]) -> Image.Image:
    """Make a palette PNG whose index is the level's place, not the level."""
    image = Image.fromarray(np.searchsorted([21, 31, 32], LEVELS).astype(np.uint8), mode="P")
    image.putpalette([channel for level in (21, 31, 32) for channel in colours[level]])
    return image


def recode(levels: dict[int, int]) -> Image.Image:
    table = np.arange(256, dtype=np.uint8)
    table[list(levels)] = list(levels.values())
    return Image.fromarray(table[LEVELS])


GREY = {level: (level, level, level) for level in (21, 31, 32)}
COLOURS = {level: phantom.COLOURS[level] for level in (21, 31, 32)}
MASKS: dict[str, tuple[Image.Image, str]] = {  # the image, and the message if it is refused
    "as released": (Image.fromarray(np.dstack([LEVELS] * 3)), ""),
    "an opaque channel": (add_alpha(255), ""),
    "one channel": (Image.fromarray(LEVELS), ""),
    "grey and alpha": (Image.fromarray(LEVELS).convert("LA"), ""),
    "16 bits": (Image.fromarray(LEVELS.astype(np.uint16)), ""),
    "a palette of greys": (make_palette(GREY), ""),
    "transparent": (add_alpha(0), "has transparent pixels"),
    "a palette of colours": (make_palette(COLOURS), "has colours, as the colour mask does"),
    "the colour mask": (make_palette(COLOURS).convert("RGB"), "has colours, as the colour mask does"),
    "half the size": (Image.fromarray(LEVELS).resize((16, 9), 0), "16 x 9 pixels\n  expected: 32 x 18 pixels"),
    "numbers of the paper": (recode({21: 2, 31: 5, 32: 9}), "levels that are no class, such as 2"),
    "hexadecimal": (recode({21: 0x21, 31: 0x31, 32: 0x32}), "levels that are no class, such as 49"),
    "16 bits, scaled": (
        Image.fromarray(LEVELS.astype(np.uint16) * 257), "levels that are no class, such as 5397",
    ),
    "black and white": (recode({21: 0, 31: 255, 32: 255}), "only 0 of 576 pixels have a class"),
    "two levels": (recode({21: 0, 31: 255, 32: 255}).convert("1"), "only 0 of 576 pixels have a class"),
}  # fmt: skip


@pytest.mark.parametrize(("image", "message"), MASKS.values(), ids=MASKS)
def test_a_mask_is_read_as_it_was_drawn_or_refused(tmp_path, image, message):
    path = tmp_path / "mask.png"
    save(path, image)
    if message:
        assert message in get_fault(cholecseg8k.read_mask, path, SIZE, where=path)
    else:
        np.testing.assert_array_equal(cholecseg8k.read_mask(path, SIZE), LEVELS)


@pytest.mark.parametrize("content", [b"", b"\x89PNG", "truncated", "jpeg"])
def test_a_damaged_mask_is_refused(tmp_path, content):
    path = tmp_path / "mask.png"
    image = Image.fromarray(LEVELS)
    if content == "truncated":
        save(path, Image.fromarray(np.random.default_rng(0).integers(0, 255, SIZE[::-1], dtype=np.uint8)))
        content = path.read_bytes()[:-200]
    if content == "jpeg":
        image.save(path, format="JPEG")
    else:
        path.write_bytes(content)
    assert "is damaged" in get_fault(cholecseg8k.read_mask, path, SIZE, where=path)


# --- boxes ------------------------------------------------------------------------------------------------------------


def find_components(is_set: np.ndarray) -> set[tuple[int, int, int, int]]:
    """Find the boxes of components by flooding, pixel by pixel: an independent implementation."""
    left, boxes = {(int(y), int(x)) for y, x in np.argwhere(is_set)}, set()
    while left:
        pixels = reached = {left.pop()}
        while reached:
            near = {(y + dy, x + dx) for y, x in reached for dy in (-1, 0, 1) for dx in (-1, 0, 1)}
            reached = near & left
            left -= reached
            pixels = pixels | reached
        y, x = zip(*pixels, strict=True)
        boxes.add((min(x), min(y), max(x) - min(x) + 1, max(y) - min(y) + 1))
    return boxes


@given(
    levels=st.lists(st.sampled_from([21, 31, 32, 255]), min_size=120, max_size=120), width=st.sampled_from([8, 12, 15])
)
def test_there_is_a_box_for_each_component(levels, width):
    mask = np.array(levels, dtype=np.uint8).reshape(-1, width)
    boxes, n_small = cholecseg8k.find_boxes(mask)
    assert n_small == 0  # a pixel is more than 0.05% of so small a frame
    for name, level in cholecseg8k.INSTRUMENTS.items():
        named_boxes = [xywh for box_name, xywh in boxes if box_name == name]
        assert set(named_boxes) == find_components(mask == level)
        assert named_boxes == sorted(named_boxes)


def test_a_speck_has_no_box_and_is_counted():
    mask = np.full((100, 100), 21, dtype=np.uint8)
    mask[10, 10:14], mask[20, 10:15] = 31, 32  # 4 and 5 of 10,000 pixels
    assert cholecseg8k.find_boxes(mask) == ([("hook", (10, 20, 5, 1))], 1)


def test_the_masks_of_the_phantom_are_its_tools(phantom_surgx_roots):
    """Each box is inside the tools of its kind, and reaches their ends but for the white line and thin tips."""
    n_boxes = 0
    for frame in cholecseg8k.list_frames(phantom_surgx_roots["cholecseg8k"])[::14]:
        size = images.read_image_size({"source": "cholecseg8k", "key": frame.key, "view": ""}, phantom_surgx_roots)
        boxes, n_small = cholecseg8k.find_boxes(cholecseg8k.read_mask(frame.mask, size))
        classes = phantom.draw_classes(phantom.draw_video(frame.video, seed=0), frame.frame)
        assert (classes.shape[::-1], n_small) == (size, 0)
        for name, level in phantom.LEVELS.items():
            drawn = sorted(find_components(classes == level))
            found = [xywh for box_name, xywh in boxes if box_name == name]
            assert len(found) == len(drawn)
            for (x, y, w, h), (x2, y2, w2, h2) in zip(found, drawn, strict=True):
                assert x2 <= x <= x2 + 2
                assert y2 <= y <= y2 + 2
                assert (x + w, y + h) <= (x2 + w2, y2 + h2)
                assert min(w - w2, h - h2) >= -4
        n_boxes += len(boxes)
    assert n_boxes > 4
