"""SurgXBench from the phantom sources to verified rows on disk, and what is wrong with other input."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path

import datasets
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from medfaith.builders import surgxbench
from medfaith.builders.surgxbench import Options, checks, family
from medfaith.builders.surgxbench.motion_rows import MotionOptions
from medfaith.cli import main
from medfaith.loaders import images, rle
from medfaith.loaders.cholec_triplets import TRIPLETS
from medfaith.loaders.errors import InputError, MissingSourceError
from medfaith.loaders.phantom import surgery
from tests.builders.files import digests

REPOSITORIES = {
    "instruments": "surgxbench-cholec80_boxes",
    "triplets": "surgxbench-cholect45",
    "triplets_t50": "surgxbench-cholect50",
}


@pytest.fixture(autouse=True)
def _own_configuration(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


def rows_of(data: Path, config: str) -> list[dict]:
    return pq.read_table(next((data / REPOSITORIES[config] / config).glob("test-*.parquet"))).to_pylist()


def copied(roots: dict[str, Path], source: str, folder: Path) -> dict[str, Path]:
    return roots | {source: Path(shutil.copytree(roots[source], folder / source))}


@pytest.mark.parametrize("config", REPOSITORIES)
def test_a_build_is_sound_and_loads(phantom_surgx_build, config):
    folder = phantom_surgx_build / REPOSITORIES[config]
    (verdict,) = surgxbench.verify(folder)
    assert (verdict.config, verdict.split, verdict.problems) == (config, "test", ())
    loaded = datasets.load_dataset(str(folder), config, split="test")
    assert isinstance(loaded, datasets.Dataset)
    assert loaded.features == family(config).features
    assert len(loaded) == verdict.summary["rows"] > 20


@pytest.mark.parametrize("config", REPOSITORIES)
def test_rows_say_what_the_clip_shows(phantom_surgx_build, phantom_surgx_roots, config):
    """Boxes, triplets and pictures of each row are those of the drawn video."""
    clips = {video: surgery.clip(video, seed=0) for video in range(41, 46)}
    for row in rows_of(phantom_surgx_build, config):
        t = row["frame"] if config == "instruments" else surgery.FPS * row["frame"]
        clip = clips[row["video"]]
        boxes = [(box["label"], tuple(box["xywh"])) for box in row["boxes"]]
        assert sorted(boxes) == sorted(clip.boxes(t))
        if config != "instruments":
            named = {(tr["instrument"], tr["verb"], tr["target"]) for tr in row["triplets"]}
            assert named == set(clip.triplets(t))
            assert all(
                tuple(TRIPLETS[tr["id"]]) == (tr["instrument"], tr["verb"], tr["target"]) for tr in row["triplets"]
            )
        assert (row["width"], row["height"]) == images.image_size(row["image"], phantom_surgx_roots)
        assert np.array_equal(np.asarray(images.open_image(row["image"], phantom_surgx_roots)), clip.frame(t))


def test_the_successor_is_the_next_second(phantom_surgx_build):
    rows = rows_of(phantom_surgx_build, "triplets")
    keys = {row["image"]["key"] for row in rows}
    for row in rows:
        if row["successor"] is None:
            assert row["frame"] == max(other["frame"] for other in rows if other["video"] == row["video"])
        else:
            assert row["successor"]["key"] == f"data/VID{row['video']:02d}/{row['frame'] + 1:06d}.png"
            assert row["successor"]["key"] in keys
    assert sum(row["successor"] is None for row in rows) == 2


def test_the_successor_in_the_video_is_one_frame_later(phantom_surgx_roots, tmp_path):
    (folder,) = surgxbench.build(
        phantom_surgx_roots, tmp_path, configs=["triplets"], options=Options(successor="frame")
    )
    rows = rows_of(folder.parent, "triplets")
    assert {row["successor"]["source"] for row in rows} == {"cholec80"}
    row = rows[3]
    assert row["successor"]["key"] == f"videos/video42.mp4/{25 * row['frame'] + 1:06d}"
    shown = np.asarray(images.open_image(row["successor"], phantom_surgx_roots)).astype(float)
    drawn = [surgery.clip(42, seed=0).frame(25 * row["frame"] + step).astype(float) for step in (1, 12)]
    near, far = (np.abs(shown - frame).mean() for frame in drawn)
    assert near < far


@pytest.mark.parametrize("config", ["triplets", "triplets_t50"])
def test_motion_finds_what_moves_on_its_own(phantom_surgx_build, config):
    """Exact flow over a second: most of what is masked is a tool, though tools are a small part of the frame."""
    clips = {video: surgery.clip(video, seed=0) for video in (42, 43)}
    inside, tools = [], []
    for row in rows_of(phantom_surgx_build, config):
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


def test_workers_and_a_second_build_give_the_same_bytes(
    phantom_surgx_build, phantom_surgx_roots, phantom_surgx_flow, tmp_path
):
    motion = MotionOptions(str(phantom_surgx_flow), trim=0.4, cache=tmp_path / "cache")
    for name, workers in (("one", 4), ("two", 1)):  # the second one reads the motion from the cache
        surgxbench.build(phantom_surgx_roots, tmp_path / name, options=Options(motion=motion), workers=workers)
        assert digests(tmp_path / name) == digests(phantom_surgx_build)


def test_build_json_names_no_place(phantom_surgx_build, phantom_surgx_roots, phantom_surgx_flow):
    for repository in REPOSITORIES.values():
        text = (phantom_surgx_build / repository / "build.json").read_text()
        assert str(phantom_surgx_flow) not in text
        assert all(str(root) not in text for root in phantom_surgx_roots.values())
        motion = {"flow": "files", "gamma": 0.8, "trim": 0.4, "floor": 0.5}
        assert json.loads(text)["arguments"]["motion"] == (None if "boxes" in repository else motion)


def test_frames_labelled_five_times_a_second_join_at_the_seconds(phantom_surgx_roots, tmp_path):
    roots = copied(phantom_surgx_roots, "cholec80_boxes", tmp_path)

    def denser(rows):
        made = [rows[0]]
        for row in rows[1:]:
            for more in range(0, 25, 5):
                number = int(row[2][-9:-4]) + more
                made.append([*row[:2], f"{row[2][:-9]}{number:05d}.png", *row[3:]])
        return made

    rewritten(roots["cholec80_boxes"], denser)
    out = tmp_path / "out"
    surgxbench.build(roots, out, configs=["triplets"])
    plain = tmp_path / "plain"
    surgxbench.build(phantom_surgx_roots, plain, configs=["triplets"])
    assert rows_of(out, "triplets") == rows_of(plain, "triplets")


# --- other input ------------------------------------------------------------------------------------------------------


def rewritten(root: Path, change) -> None:
    path = root / "ROI_Labels.csv"
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file, delimiter=";"))
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, delimiter=";").writerows(change(rows))


def test_boxes_beyond_the_frame_are_clipped_or_left_out_and_counted(phantom_surgx_roots, tmp_path):
    roots = copied(phantom_surgx_roots, "cholec80_boxes", tmp_path)
    beyond, outside = ["200", "100", "60", "60"], ["300", "10", "5", "5"]

    def change(rows):
        first, second = rows[1], rows[2]
        return [rows[0], [*first[:5], *beyond], [*second[:5], *outside], *rows[3:]]

    rewritten(roots["cholec80_boxes"], change)
    (folder,) = surgxbench.build(roots, tmp_path / "out", configs=["instruments"])
    skipped = json.loads((folder / "build.json").read_text())["skipped"]
    assert skipped == {"boxes outside their frame": 1, "boxes that reach beyond their frame (clipped to it)": 1}
    assert [200, 100, 14, 20] in [box["xywh"] for box in rows_of(folder.parent, "instruments")[0]["boxes"]]
    assert surgxbench.verify(folder)[0].problems == ()


def test_frames_without_their_image_are_counted_and_none_at_all_is_refused(phantom_surgx_roots, tmp_path, capsys):
    roots = copied(phantom_surgx_roots, "cholect45", tmp_path)
    (roots["cholect45"] / "data" / "VID42" / "000004.png").unlink()
    given = [part for name, root in roots.items() for part in ("--root", f"{name}={root}")]
    command = ["build", "surgxbench", *given, "--config", "triplets", "--out", str(tmp_path / "out")]
    assert main(command) == 0
    assert "left out, or counted: 1 labelled frames without their image" in capsys.readouterr().out
    rows = {row["id"]: row for row in rows_of(tmp_path / "out", "triplets")}
    assert "triplets/42/000004" not in rows
    assert rows["triplets/42/000003"]["successor"] is None
    shutil.rmtree(roots["cholect45"] / "data")
    assert main([*command[:-1], str(tmp_path / "none")]) == 2
    assert "of its 28 labelled frames is there" in capsys.readouterr().err
    assert not (tmp_path / "none").exists()


def test_boxes_of_other_seconds_are_refused(phantom_surgx_roots, tmp_path):
    """A wrong first second shifts every box: most frames then have boxes of other instruments."""
    options = Options(boxes_step=25, boxes_first=-75)
    with pytest.raises(InputError, match=r"have no box, or boxes of other instruments(.|\n)*--boxes-first"):
        surgxbench.build(phantom_surgx_roots, tmp_path, configs=["triplets"], options=options)
    assert not list(tmp_path.iterdir())


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
    ],
    ids=lambda value: value[-1] if isinstance(value, list) else "",
)
def test_bad_options_exit_with_2_and_write_nothing(phantom_surgx_roots, tmp_path, capsys, arguments, message):
    given = [part for name, root in phantom_surgx_roots.items() for part in ("--root", f"{name}={root}")]
    assert main(["build", "surgxbench", *given, *arguments, "--out", str(tmp_path / "out")]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert "Traceback" not in error
    assert not list((tmp_path / "out").glob("surgxbench-*"))


def test_missing_sources_are_named(phantom_surgx_roots, tmp_path):
    with pytest.raises(MissingSourceError, match=r"Cholec80-Boxes(.|\n)*CholecT45"):
        surgxbench.build({"cholec80": phantom_surgx_roots["cholec80"]}, tmp_path)
    boxes = {"cholec80_boxes": phantom_surgx_roots["cholec80_boxes"]}
    with pytest.raises(MissingSourceError, match="cholec80"):
        surgxbench.build(boxes, tmp_path, options=Options(successor="frame"))
    (folder,) = surgxbench.build(boxes, tmp_path)
    assert folder.name == "surgxbench-cholec80_boxes"
    assert surgxbench.BENCHMARK.incomplete(boxes) == {"triplets": ["cholect45"], "triplets_t50": ["cholect50"]}


def test_videos_without_boxes_are_refused(phantom_surgx_roots, tmp_path):
    roots = copied(phantom_surgx_roots, "cholec80_boxes", tmp_path)
    rewritten(roots["cholec80_boxes"], lambda rows: [rows[0], *(row for row in rows[1:] if row[0] == "41")])
    with pytest.raises(InputError, match="has no video that has boxes"):
        surgxbench.build(roots, tmp_path / "out", configs=["triplets"])


# --- what verify finds ------------------------------------------------------------------------------------------------


def changed(row: dict, **columns) -> dict:
    return {**row, **columns}


BREAKS = {
    "twice": ("triplets", lambda rows: [rows[0], *rows], "1 rows have the id of another row"),
    "leaving the root": (
        "triplets",
        lambda rows: [changed(rows[0], image={**rows[0]["image"], "key": "../x.png"}), *rows[1:]],
        "../x.png",
    ),
    "leaving the root, next": (
        "triplets",
        lambda rows: [changed(rows[0], successor={**rows[0]["image"], "key": "/x.png"}), *rows[1:]],
        "/x.png",
    ),
    "box outside": (
        "instruments",
        lambda rows: [changed(rows[0], boxes=[{**rows[0]["boxes"][0], "xywh": [0, 0, 900, 10]}]), *rows[1:]],
        "is not within the frame",
    ),
    "unknown instrument": (
        "instruments",
        lambda rows: [changed(rows[0], boxes=[{**rows[0]["boxes"][0], "label": "trocar"}], instruments=["trocar"])],
        "which is no instrument",
    ),
    "instrument without box": (
        "instruments",
        lambda rows: [changed(rows[0], instruments=["scissors", "clipper"]), *rows[1:]],
        "not those of its boxes",
    ),
    "other triplet": (
        "triplets",
        lambda rows: [changed(row, triplets=[{**tr, "id": 3} for tr in row["triplets"]]) for row in rows],
        "triplet 3 is not",
    ),
    "mask of another size": (
        "triplets",
        lambda rows: [changed(row, motion=row["motion"] and {**row["motion"], "size": [3, 3]}) for row in rows],
        "mask of [3, 3]",
    ),
    "camera without mask": (
        "triplets",
        lambda rows: [changed(row, motion=None) for row in rows],
        "camera without motion",
    ),
}


@pytest.mark.parametrize("name", BREAKS)
def test_violations(phantom_surgx_build, name):
    config, change, message = BREAKS[name]
    rows = change(rows_of(phantom_surgx_build, config))
    table = pa.Table.from_pylist(rows, schema=family(config).features.arrow_schema)
    violations = checks.instrument_violations if config == "instruments" else checks.triplet_violations
    assert [text for text in violations(table) if message in text]
