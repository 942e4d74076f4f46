"""SurgXBench from the phantom sources to verified rows on disk; errors on invalid input."""

from __future__ import annotations

import contextlib
import json
import shutil

import numpy as np
import pytest
from PIL import Image

from medfaith.builders import surgxbench
from medfaith.builders.surgxbench import Options
from medfaith.builders.surgxbench.frames import build_instrument_rows
from medfaith.builders.surgxbench.motion_rows import MotionOptions
from medfaith.builders.surgxbench.seconds import Numbering, infer_numbering
from medfaith.builders.surgxbench.triplets import TripletDataset, build_triplet_rows
from medfaith.cli import main
from medfaith.loaders import cholec80_boxes, cholect45, images, rle
from medfaith.loaders.cholec80_boxes import BoxedFrame
from medfaith.loaders.cholec_triplets import TRIPLETS
from medfaith.loaders.errors import InputError, MissingSourceError
from medfaith.loaders.phantom import surgery
from tests.support.builders.files import copied, digests, problems, record_of, root_words, rows_of, skipped
from tests.support.builders.surgx_scenes import add_to_number, update_boxes

REPOSITORIES = {
    "instruments": "surgxbench-cholec80_boxes",
    "triplets": "surgxbench-cholect45",
    "triplets_t50": "surgxbench-cholect50",
}


@pytest.mark.parametrize("config", REPOSITORIES)
def test_rows_say_what_the_clip_shows(phantom_surgx_build, phantom_surgx_roots, config):
    """Boxes, triplets and images of each row match the drawn video."""
    clips = {video: surgery.clip(video, seed=0) for video in range(41, 46)}
    for row in rows_of(phantom_surgx_build / REPOSITORIES[config], config):
        t = row["frame"] if config == "instruments" else surgery.FPS * row["frame"]
        clip = clips[row["video"]]
        boxes = [(box["label"], tuple(box["xywh"])) for box in row["boxes"]]
        assert sorted(boxes) == sorted(clip.boxes(t))
        if config != "instruments":
            triplets = {(tr["instrument"], tr["verb"], tr["target"]) for tr in row["triplets"]}
            assert triplets == set(clip.triplets(t))
            assert all(
                tuple(TRIPLETS[tr["id"]]) == (tr["instrument"], tr["verb"], tr["target"]) for tr in row["triplets"]
            )
        assert (row["width"], row["height"]) == images.read_image_size(row["image"], phantom_surgx_roots)
        assert np.array_equal(np.asarray(images.open_image(row["image"], phantom_surgx_roots)), clip.frame(t))


def test_the_successor_is_the_next_second_or_one_frame_later_in_the_video(
    phantom_surgx_build, phantom_surgx_roots, tmp_path
):
    rows = rows_of(phantom_surgx_build / REPOSITORIES["triplets"], "triplets")
    keys = {row["image"]["key"] for row in rows}
    for row in rows:
        if row["successor"] is None:
            assert row["frame"] == max(other_row["frame"] for other_row in rows if other_row["video"] == row["video"])
        else:
            assert row["successor"]["key"] == f"data/VID{row['video']:02d}/{row['frame'] + 1:06d}.png"
            assert row["successor"]["key"] in keys
    assert sum(row["successor"] is None for row in rows) == 2
    (folder,) = surgxbench.build(
        phantom_surgx_roots, tmp_path, configs=["triplets"], options=Options(successor="frame")
    )
    rows = rows_of(folder, "triplets")
    assert {row["successor"]["source"] for row in rows} == {"cholec80"}
    row = rows[3]
    assert row["successor"]["key"] == f"videos/video42.mp4/{25 * row['frame'] + 1:06d}"
    successor_pixels = np.asarray(images.open_image(row["successor"], phantom_surgx_roots)).astype(float)
    frames = [surgery.clip(42, seed=0).frame(25 * row["frame"] + step).astype(float) for step in (1, 12)]
    near, far = (np.abs(successor_pixels - frame).mean() for frame in frames)
    assert near < far


@pytest.mark.parametrize("config", ["triplets", "triplets_t50"])
def test_motion_finds_what_moves_on_its_own_and_build_json_says_what_it_is_made_of(
    phantom_surgx_build, phantom_surgx_flow, config
):
    """With exact flow over a second, most masked pixels are tools, although tools cover little of the frame."""
    clips = {video: surgery.clip(video, seed=0) for video in (42, 43)}
    inside, tools = [], []
    for row in rows_of(phantom_surgx_build / REPOSITORIES[config], config):
        assert (row["motion"] is None) == (row["camera"] is None) == (row["successor"] is None)
        if row["motion"] is None:
            continue
        t = surgery.FPS * row["frame"]
        mask = rle.decode(row["motion"])
        assert mask.shape == (row["height"], row["width"])
        tool = clips[row["video"]].tool_mask(t)
        if mask.any():
            inside.append((mask & tool).sum() / mask.sum())
            tools.append(tool.mean())
    assert len(inside) > 8
    assert np.mean(inside) > 0.6 > 2 * np.mean(tools)
    record = record_of(phantom_surgx_build / REPOSITORIES[config])
    assert record["arguments"]["motion"] == {"flow": "files", "gamma": 0.8, "trim": 0.4, "floor": 0.5}
    assert str(phantom_surgx_flow) not in json.dumps(record)
    assert record_of(phantom_surgx_build / REPOSITORIES["instruments"])["arguments"]["motion"] is None


@pytest.mark.full  # two more builds; HEAL-MedVQA's bytes are compared regularly
def test_workers_and_a_second_build_give_the_same_bytes(
    phantom_surgx_build, phantom_surgx_roots, phantom_surgx_flow, tmp_path
):
    motion = MotionOptions(str(phantom_surgx_flow), trim=0.4, cache=tmp_path / "cache")
    for name, workers in (("one", 2), ("two", 1)):  # the second build reads the motion from the cache
        surgxbench.build(phantom_surgx_roots, tmp_path / name, options=Options(motion=motion), workers=workers)
        assert digests(tmp_path / name) == digests(phantom_surgx_build)


def test_frames_labelled_five_times_a_second_join_at_the_seconds(phantom_surgx_roots, tmp_path):
    roots = copied(phantom_surgx_roots, "cholec80_boxes", tmp_path)
    update_boxes(
        roots["cholec80_boxes"],
        lambda header, rows: [header, *(add_to_number(row, more) for row in rows for more in range(0, 25, 5))],
    )
    dense, plain = (surgxbench.build(build_roots, tmp_path / name, configs=["triplets"])[0]
                  for name, build_roots in (("dense", roots), ("plain", phantom_surgx_roots)))  # fmt: skip
    assert rows_of(dense, "triplets") == rows_of(plain, "triplets")


# --- other input ------------------------------------------------------------------------------------------------------


def test_boxes_beyond_the_frame_are_clipped_or_left_out_and_counted(phantom_surgx_roots, tmp_path):
    roots = copied(phantom_surgx_roots, "cholec80_boxes", tmp_path)
    places = [["200", "100", "60", "60"], ["300", "10", "5", "5"]]  # beyond, and outside
    update_boxes(
        roots["cholec80_boxes"],
        lambda header, rows: [header, *([*row[:5], *xywh] for row, xywh in zip(rows, places, strict=False)), *rows[2:]],
    )
    (folder,) = surgxbench.build(roots, tmp_path / "out", configs=["instruments"])
    assert skipped(folder) == {
        "boxes outside their frame": 1, "boxes that reach beyond their frame (clipped to it)": 1,
    }  # fmt: skip
    assert [200, 100, 14, 20] in [box["xywh"] for box in rows_of(folder, "instruments")[0]["boxes"]]
    assert set(problems(folder).values()) == {()}


def test_frames_without_their_image_are_counted_and_none_at_all_is_refused(phantom_surgx_roots, tmp_path, capsys):
    roots = copied(phantom_surgx_roots, "cholect45", tmp_path)
    (roots["cholect45"] / "data" / "VID42" / "000004.png").unlink()
    command = ["build", "surgxbench", *root_words(roots), "--config", "triplets", "--out", str(tmp_path / "out")]
    assert main(command) == 0
    assert "left out, or counted: 1 labelled frames without their image" in capsys.readouterr().out
    rows = {row["id"]: row for row in rows_of(tmp_path / "out" / REPOSITORIES["triplets"], "triplets")}
    assert "triplets/42/000004" not in rows
    assert rows["triplets/42/000003"]["successor"] is None
    shutil.rmtree(roots["cholect45"] / "data")
    assert main([*command[:-1], str(tmp_path / "none")]) == 2
    assert "of its 28 labelled frames is there" in capsys.readouterr().err
    assert not (tmp_path / "none").exists()


def test_boxes_without_their_frame_are_counted(tmp_path):
    frames = [BoxedFrame(42, n, cholec80_boxes.key(42, n), (("hook", (1.0, 1.0, 4.0, 4.0)),)) for n in (0, 25, 50)]
    (image := tmp_path / frames[1].key).parent.mkdir(parents=True)
    Image.new("RGB", (20, 10)).save(image)
    rows, counted = build_instrument_rows(frames, {"cholec80_boxes": tmp_path}, Numbering(25))
    assert [(row["id"], row["successor"]) for row in rows] == [("instruments/42/000025", None)]
    assert counted == {"labelled frames without their image": 2}


@pytest.mark.parametrize(("n_astray", "is_refused"), [(9, False), (10, True)])
def test_boxes_of_larger_frames_are_refused(tmp_path, n_astray, is_refused):
    """In frames that were scaled down, each box would be wrong, also those that lie within."""
    places = [(22.0, 1.0)] * (n_astray - 1) + [(13.0, 6.0)] + [(1.0, 1.0)] * 20 + [(12.0, 1.0)] * 20
    frames = [
        BoxedFrame(42, n, cholec80_boxes.key(42, n), (("hook", (*place, 8.4, 4.0)),)) for n, place in enumerate(places)
    ]
    (tmp_path / frames[0].key).parent.mkdir(parents=True)
    for frame in frames:
        Image.new("RGB", (20, 10)).save(tmp_path / frame.key)
    refusal = pytest.raises(InputError, match="10 of 50 boxes reach far beyond its frames")
    with refusal if is_refused else contextlib.nullcontext():
        build_instrument_rows(frames, {"cholec80_boxes": tmp_path}, Numbering(1))


def test_triplets_with_boxes_of_larger_frames_are_refused(phantom_surgx_roots, tmp_path):
    roots = copied(phantom_surgx_roots, "cholec80_boxes", tmp_path)
    shutil.rmtree(roots["cholec80_boxes"] / "Images")
    update_boxes(
        roots["cholec80_boxes"],
        lambda header, rows: [
            header,
            *([*row[:5], *(str(2 * float(side)) for side in row[5:]), *row[9:]] for row in rows),
        ],
    )
    with pytest.raises(InputError, match=r"boxes reach far beyond its frames(.|\n)*not scaled"):
        surgxbench.build(roots, tmp_path / "out", configs=["triplets"])


def test_a_video_that_the_copy_lacks_is_counted(phantom_surgx_roots, tmp_path):
    roots = copied(phantom_surgx_roots, "cholect45", tmp_path)
    (roots["cholect45"] / "triplet/VID43.txt").unlink()
    frames = cholec80_boxes.read_frames(roots["cholec80_boxes"])
    dataset = TripletDataset("triplets", "cholect45", cholect45)
    rows, counted = build_triplet_rows(dataset, roots, frames, infer_numbering(frames))
    assert {row["video"] for row in rows} == {42}
    assert counted == {"videos with boxes that the release has, and this copy lacks": 1}


def test_frames_numbered_from_1_are_refused(phantom_surgx_roots, tmp_path):
    roots = copied(phantom_surgx_roots, "cholect45", tmp_path)
    for path in sorted(roots["cholect45"].glob("data/VID42/*.png"), reverse=True):
        path.rename(path.with_name(f"{int(path.stem) + 1:06d}.png"))
    frames = cholec80_boxes.read_frames(roots["cholec80_boxes"])
    with pytest.raises(InputError, match=r"VID42: its frames are numbered from 1, as 000000\.png is missing"):
        build_triplet_rows(TripletDataset("triplets", "cholect45", cholect45), roots, frames, infer_numbering(frames))


def test_frames_that_cannot_be_found_say_why(tmp_path):
    frame = BoxedFrame(42, 0, cholec80_boxes.key(42, 0), (("hook", (1.0, 1.0, 4.0, 4.0)),))
    (root := tmp_path / "root").mkdir()
    (tmp_path / "elsewhere/Video_42").mkdir(parents=True)
    Image.new("RGB", (20, 10)).save(tmp_path / "elsewhere/Video_42" / frame.key.rpartition("/")[2])
    for change, message in (
        (lambda: None, "none of its 1 labelled frames is there; .*looked for Images/Video_42"),
        (lambda: (root / "Images").symlink_to(tmp_path / "elsewhere"), "a link that leaves the root"),
    ):
        change()
        with pytest.raises(InputError, match=message):
            build_instrument_rows([frame], {"cholec80_boxes": root}, Numbering(25))


def test_boxes_drawn_on_frames_of_another_size_are_refused(phantom_surgx_roots, tmp_path):
    roots = copied(phantom_surgx_roots, "cholect50", tmp_path)
    for path in roots["cholect50"].glob("videos/*/*.png"):
        image = Image.open(path)
        image.resize((image.width // 2, image.height // 2)).save(path)
    with pytest.raises(InputError, match=r"214 x 120 pixels, those with triplets 107 x 60"):
        surgxbench.build(roots, tmp_path / "out", configs=["triplets_t50"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--flow", "no/such/folder"], "raft, or a folder of flow files"),
        (["--flow", ".", "--config", "triplets"], "000000_forward: no flow file"),
        (["--flow", "raft", "--raft-weights", "no/such/file", "--config", "triplets"], "no such file"),
        (["--boxes-step", "10"], "have no box, or boxes of other instruments"),
        (["--boxes-step", "25", "--boxes-first", "-75", "--config", "triplets"], "--boxes-first"),
    ],
    ids=lambda value: value[-1] if isinstance(value, list) else "",
)
def test_bad_options_exit_with_2_and_write_nothing(phantom_surgx_roots, tmp_path, capsys, arguments, message):
    assert (
        main(["build", "surgxbench", *root_words(phantom_surgx_roots), *arguments, "--out", str(tmp_path / "out")]) == 2
    )
    error = capsys.readouterr().err
    assert message in error
    assert "Traceback" not in error
    assert not list((tmp_path / "out").glob("surgxbench-*"))


def test_what_is_built_follows_the_sources_and_videos_without_boxes_are_refused(phantom_surgx_roots, tmp_path):
    boxes = {"cholec80_boxes": phantom_surgx_roots["cholec80_boxes"]}
    with pytest.raises(MissingSourceError, match="cholec80"):
        surgxbench.build(boxes, tmp_path, options=Options(successor="frame"))
    (folder,) = surgxbench.build(boxes, tmp_path)
    assert folder.name == "surgxbench-cholec80_boxes"
    assert surgxbench.BENCHMARK.find_incomplete(boxes) == {"triplets": ["cholect45"], "triplets_t50": ["cholect50"]}
    roots = copied(phantom_surgx_roots, "cholec80_boxes", tmp_path)
    update_boxes(roots["cholec80_boxes"], lambda header, rows: [header, *(row for row in rows if row[0] == "41")])
    with pytest.raises(InputError, match="has no video that has boxes"):
        surgxbench.build(roots, tmp_path / "out", configs=["triplets"])
