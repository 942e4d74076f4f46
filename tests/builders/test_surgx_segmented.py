"""SurgXBench from CholecSeg8k: rows that say what the clips show, and the way from the masks to the verdict."""

from __future__ import annotations

import csv
import shutil
from typing import Any

import numpy as np
import pytest
from PIL import Image

from medfaith.builders import surgxbench
from medfaith.builders.surgxbench import Options
from medfaith.builders.surgxbench.segmented import LACKING, SMALL
from medfaith.cli import main
from medfaith.loaders import images
from medfaith.loaders.errors import ImageError, InputError
from medfaith.loaders.phantom import cholecseg8k as phantom
from medfaith.loaders.phantom import surgery
from medfaith.tasks.surgx.rows import load
from tests.support.builders.files import copied, digests, problems, rows_of, skipped
from tests.support.tasks.evaluating import evaluate
from tests.support.tasks.evaluating import load as load_tasks

CONFIG, NAME = "instruments_seg8k", "surgxbench-cholecseg8k"


@pytest.fixture
def roots(phantom_surgx_roots, tmp_path):
    """A copy of the source, with no other source."""
    return {"cholecseg8k": copied(phantom_surgx_roots, "cholecseg8k", tmp_path)["cholecseg8k"]}


def test_a_row_says_what_its_frame_shows(phantom_surgx_build, phantom_surgx_roots):
    videos = {video: phantom.draw_video(video, seed=0) for video in phantom.VIDEOS}
    rows = rows_of(phantom_surgx_build / NAME, CONFIG)
    seconds = range(0, surgery.SECONDS * surgery.FPS, surgery.FPS)
    assert [(row["video"], row["frame"]) for row in rows] == [(v, t) for v in phantom.VIDEOS for t in seconds]
    for row in rows:
        clip = videos[row["video"]]
        assert row["instruments"] == sorted({tool.instrument for tool in clip.seen(row["frame"])})
        assert [box["label"] for box in row["boxes"]] == sorted(box["label"] for box in row["boxes"])
        frame = np.asarray(images.open_image(row["image"], phantom_surgx_roots))
        assert np.array_equal(frame, clip.frame(row["frame"])[::2, ::2])
        assert frame.shape[:2] == (row["height"], row["width"])
        assert row["successor"] is None  # clips of two frames have no second one
    assert sum(not row["boxes"] for row in rows) > 10
    assert skipped(phantom_surgx_build / NAME) == {LACKING: 8080 - 2 * len(rows)}
    assert set(problems(phantom_surgx_build / NAME).values()) == {()}


def test_one_frame_a_second_of_a_clip_is_a_row_and_successors_stay_in_it(roots, tmp_path):
    """Clips of 80 frames, as in the release: the frames 0, 25, 50 and 75."""
    root = tmp_path / "release"
    first = roots["cholecseg8k"] / "video01/video01_00000"
    for video, start in ((1, 80), (9, 160)):
        folder = root / f"video{video:02d}/video{video:02d}_{start:05d}"
        folder.mkdir(parents=True)
        for frame in range(start, start + 80):
            for kind in ("", "_watershed_mask"):
                shutil.copy(first / f"frame_0_endo{kind}.png", folder / f"frame_{frame}_endo{kind}.png")
    folders = {
        kind: surgxbench.build({"cholecseg8k": root}, tmp_path / kind, options=Options(successor=kind))[0]
        for kind in ("second", "frame")
    }
    rows_by_kind = {kind: rows_of(folder, CONFIG) for kind, folder in folders.items()}
    numbers = [*range(80, 160, 25), *range(160, 240, 25)]
    for kind, step in (("second", 25), ("frame", 1)):
        assert [row["frame"] for row in rows_by_kind[kind]] == numbers
        for row in rows_by_kind[kind]:
            start = 80 if row["video"] == 1 else 160
            key = f"video{row['video']:02d}/video{row['video']:02d}_{start:05d}/frame_{row['frame'] + step}_endo.png"
            expected = key if row["frame"] + step < start + 80 else None
            assert (row["successor"] and row["successor"]["key"]) == expected
    assert skipped(folders["second"]) == {LACKING: 8080 - 160}


def test_a_speck_is_counted_and_a_frame_that_has_no_more_is_without_instruments(roots, tmp_path):
    path = roots["cholecseg8k"] / "video01/video01_00000/frame_0_endo_watershed_mask.png"
    mask = np.full((60, 107, 3), 21, dtype=np.uint8)
    mask[5, 5:8], mask[30, 30:33] = 31, 32  # 3 of 6,420 pixels
    Image.fromarray(mask).save(path)
    (folder,) = surgxbench.build(roots, tmp_path / "out")
    row = rows_of(folder, CONFIG)[0]
    assert (row["id"], row["instruments"], row["boxes"]) == (f"{CONFIG}/01/000000", [], [])
    assert skipped(folder)[SMALL] == 2


def test_workers_and_a_nested_copy_give_the_same_bytes(phantom_surgx_build, phantom_surgx_roots, tmp_path):
    nested = tmp_path / "nested"
    shutil.copytree(phantom_surgx_roots["cholecseg8k"], nested / "CholecSeg8k")
    (folder,) = surgxbench.build({"cholecseg8k": nested}, tmp_path / "out", workers=2)
    assert rows_of(folder, CONFIG) == rows_of(phantom_surgx_build / NAME, CONFIG)
    (again,) = surgxbench.build({"cholecseg8k": phantom_surgx_roots["cholecseg8k"]}, tmp_path / "again")
    assert digests(folder) == digests(again)


@pytest.mark.parametrize(
    ("name", "content", "error", "message"),
    [
        ("frame_0_endo.png", b"\x89PNG", ImageError, "frame_0_endo.png"),
        ("frame_0_endo_watershed_mask.png", b"\x89PNG", InputError, "frame_0_endo_watershed_mask.png: is damaged"),
        ("frame_0_endo_watershed_mask.png", None, InputError, "is missing"),
    ],
)
def test_a_faulty_file_is_refused_and_nothing_is_written(roots, tmp_path, name, content, error, message):
    path = roots["cholecseg8k"] / "video01/video01_00000" / name
    path.unlink() if content is None else path.write_bytes(content)
    with pytest.raises(error, match=message):
        surgxbench.build(roots, tmp_path / "out")
    assert not (tmp_path / "out").exists() or not [*(tmp_path / "out").iterdir()]


# --- the tasks --------------------------------------------------------------------------------------------------------


def test_the_question_offers_the_labelled_instruments(phantom_surgx_build):
    arguments = {"config": CONFIG, "split": "test", "data": str(phantom_surgx_build), "ask": "instruments"}
    two = ["grasper", "hook"]
    for wording, text in ((0, "What surgical tools do you see? Choose from: Grasper, Hook"), (1, "Grasper, Hook")):
        rows: Any = load(NAME, instruments=two, wording=wording, **arguments)["test"]
        assert all(row["question"].endswith(text) for row in rows)
        assert {tuple(row["classes"]) for row in rows} == {tuple(two)}
        assert {tuple(row["prompts"]) for row in rows} == {
            ("The grasper is in the image.", "The hook is in the image.")
        }
        assert {row["options"][row["answer"]] for row in rows} == {
            "No surgical tool is visible.", "grasper", "hook", "grasper\nhook",
        }  # fmt: skip
    rows_of_all: Any = load(NAME, **arguments)["test"]
    (all_seven,) = {tuple(row["classes"]) for row in rows_of_all}
    assert len(all_seven) == 7


@pytest.mark.full
def test_the_scores_of_reference_models(phantom_surgx_build, phantom_surgx_roots):
    """`always_yes` names a grasper in each frame, so its precision is the share of frames with one."""
    tasks = ["medfaith_surgx_instruments_seg8k", "medfaith_surgx_stated_boxes_seg8k"]
    loaded = load_tasks(tasks, phantom_surgx_build, phantom_surgx_roots)
    rows = rows_of(phantom_surgx_build / NAME, CONFIG)
    share = np.mean(["grasper" in row["instruments"] for row in rows])
    for model, precision, least_iou in (("oracle", 1, 1), ("looks", 1, 0.7), ("always_yes", share, 0)):
        instruments, stated_boxes = (evaluate(model, loaded)[task] for task in tasks)
        assert instruments["scores"]["precision"] == pytest.approx(precision)
        assert stated_boxes["scores"]["iou"] >= least_iou
        assert len(instruments["docs"]) == len(rows)
        assert len(stated_boxes["docs"]) == sum(len(row["instruments"]) for row in rows)


@pytest.mark.full
def test_from_the_masks_to_the_verdict_on_the_command_line(roots, tmp_path, capsys, png_only):
    words = ["--root", f"cholecseg8k={roots['cholecseg8k']}"]
    data = str(tmp_path / "data")
    assert main(["build", "surgxbench", *words, "--out", data]) == 0
    assert f"{8080 - 140} {LACKING}" in capsys.readouterr().out
    assert main(["verify", data]) == 0
    audit = tmp_path / "audit"
    common = ["--data", data, *words, "--benchmarks", "surgxbench"]
    edits = [f"{kind}{where}" for kind in ("occluded", "transplanted") for where in ("", "_elsewhere")]
    for model, controls, uses, place in (
        ("looks_elsewhere", [], "yes", "another place"),
        ("question_prior", ["--controls", "none", "other", *edits], "no", "cannot be told"),
    ):
        assert main(["audit", *common, "--model", model, *controls, "--out", str(audit / model)]) == 0
        out = capsys.readouterr().out
        (line,) = [line for line in out.splitlines() if line.startswith("SurgXBench  ")]
        assert line.split("]")[-1].split(")")[-1].split(maxsplit=1) == [uses, place]
    assert main(["report", str(audit), "--out", str(tmp_path / "report")]) == 0
    with (tmp_path / "report" / "surgx_figure_03_instruments.csv").open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if (row["model"], row["instrument"]) == ("question_prior", "all")]
    assert rows
    assert {row["data"] for row in rows} == {"CholecSeg8k"}
    capsys.readouterr()
    assert main(["publish", data, "--org", "phantom-org", "--dry-run", "--few-studies"]) == 0
    out = capsys.readouterr().out
    assert "license: cc-by-nc-sa-4.0" in out
    assert "nothing was uploaded" in out
