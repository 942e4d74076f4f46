"""Seconds of boxed frames: inferred from frame numbers, checked against sources that name instruments by second."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from scipy.stats import binomtest

from medfaith.builders import surgxbench
from medfaith.builders.surgxbench import Options
from medfaith.builders.surgxbench.frames import OTHER_TOOLS
from medfaith.builders.surgxbench.seconds import (
    LEVEL,
    Numbering,
    Shift,
    collect_boxed_instruments,
    compare_seconds,
    compute_sign_test,
    find_better_shift,
    infer_numbering,
    read_tools_by_second,
)
from medfaith.cli import main
from medfaith.loaders import cholec80, cholec80_boxes, cholec_triplets
from medfaith.loaders.cholec80_boxes import BoxedFrame
from medfaith.loaders.cholec_triplets import INSTRUMENTS
from medfaith.loaders.errors import InputError
from medfaith.loaders.phantom import surgery
from tests.support.builders.files import record_of, root_words, rows_of, skipped
from tests.support.builders.surgx_scenes import add_to_number, update_boxes


def make_frames(*numbers: int) -> list[BoxedFrame]:
    return [BoxedFrame(42, number, f"Images/Video_42/Video_42_{number:05d}.png", ()) for number in numbers]


@pytest.mark.parametrize(
    ("numbers", "options", "expected"),
    [
        ((0, 25, 75), {}, Numbering(25, 0)),
        ((1, 26, 76), {}, Numbering(25, 1)),
        ((0, 1, 2, 25), {}, Numbering(1, 0)),
        ((3, 4, 9), {}, Numbering(1, 0)),
        ((0, 5, 10, 35), {}, Numbering(25, 0)),
        ((3, 8, 28), {}, Numbering(25, 3)),
        ((4, 14, 24), {"step": 10}, Numbering(10, 4)),
        ((3, 4, 9), {"first": 1}, Numbering(1, 1)),
        ((10, 20, 40), {"step": 5}, Numbering(5, 0)),
        ((25,), {}, Numbering(1, 0)),
        ((25,), {"step": 25}, Numbering(25, 0)),
        ((), {}, Numbering(1, 0)),
    ],
)
def test_numbering(numbers, options, expected):
    assert infer_numbering(make_frames(*numbers), **options) == expected


def test_seconds_and_places_in_the_video():
    seconds = {1: 0, 26: 1, 25: None, 0: None, 2501: 100}
    assert {number: Numbering(25, 1).find_second(number) for number in seconds} == seconds
    places = {1: 0, 6: 5, 26: 25, 0: None}
    assert {number: Numbering(25, 1).find_video_frame(number) for number in places} == places
    assert Numbering(1, 1).find_video_frame(3) == 50
    assert Numbering(10, 0).find_video_frame(3) is None


def test_steps_that_say_nothing_have_to_be_named():
    for step in (2, 10, 30):
        with pytest.raises(InputError, match=rf"in steps of {step}(.|\n)*--boxes-step"):
            infer_numbering(make_frames(0, step, 3 * step))


# --- shifts found by the instruments of each second -------------------------------------------------------------------


@given(st.integers(0, 300), st.integers(0, 300))
def test_the_sign_test_is_the_binomial_one(better, worse):
    expected = binomtest(better, better + worse, alternative="greater").pvalue if better + worse else 1
    assert compute_sign_test(better, worse) == pytest.approx(expected, rel=1e-9)


def add_seconds(names_by_second: dict, seconds: int) -> dict:
    """Shift labels by `seconds` in each video."""
    return {(video, t + seconds): names for (video, t), names in names_by_second.items()}


def collect_drawn_instruments(seed: int) -> tuple[dict, dict]:
    """Compute the instruments with a triplet and those with a box, by video and second, of a seed's clips."""
    clips = {video: surgery.clip(video, seed=seed) for video in (42, 43)}
    places = [(video, t) for video in clips for t in range(surgery.SECONDS)]
    triplet_names = {(v, k): frozenset(name for name, *_ in clips[v].triplets(25 * k)) for v, k in places}
    boxed = {(v, k): frozenset(name for name, _ in clips[v].boxes(25 * k)) & set(INSTRUMENTS) for v, k in places}
    return triplet_names, boxed


@pytest.mark.parametrize("seed", range(4))
def test_boxes_a_second_off_are_noticed_on_the_phantom(seed):
    triplet_names, boxed = collect_drawn_instruments(seed)
    assert find_better_shift(triplet_names, boxed) is None
    for off in (-1, 1):
        shift = find_better_shift(triplet_names, add_seconds(boxed, off))
        assert shift is not None
        assert (shift.seconds, shift.worse) == (off, 0)
    assert find_better_shift(triplet_names, add_seconds(boxed, 3)) is None  # not a neighbour


def sample_instruments(seed: int, n_seconds: int = 1500, mean_stay: float = 40.0) -> list[frozenset[str]]:
    """Simulate the instruments in each second: they come and go, and stay for about 40 seconds."""
    change = np.random.default_rng(seed).random((n_seconds, 3)) < 1 / mean_stay
    present = np.cumsum(change, axis=0) % 2 == 1
    return [
        frozenset(name for name, is_present in zip(INSTRUMENTS, row, strict=False) if is_present) for row in present
    ]


def put_in_video(names: list[frozenset[str]]) -> dict:
    return {(42, t): instruments for t, instruments in enumerate(names)}


def add_noise(names: list[frozenset[str]], seed: int) -> list[frozenset[str]]:
    """Replace the instruments of one second in eight by random ones."""
    rng = np.random.default_rng(seed)
    return [
        frozenset(rng.choice(INSTRUMENTS, 2).tolist()) if rng.random() < 1 / 8 else instruments for instruments in names
    ]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("off", [-1, 1])
def test_instruments_that_stay_hide_a_shift_from_shares_and_not_from_the_test_nor_does_noise(seed, off):
    truth = sample_instruments(seed)
    triplet_names, boxed = put_in_video(truth), add_seconds(put_in_video(truth), off)
    assert np.mean(compare_seconds(triplet_names, boxed)) > 0.9
    assert find_better_shift(triplet_names, boxed) == Shift(
        off, better=compare_seconds(triplet_names, boxed).count(False), worse=0
    )
    shift = find_better_shift(triplet_names, add_seconds(put_in_video(add_noise(truth, seed)), off))
    assert shift is not None
    assert shift.seconds == off


@pytest.mark.parametrize("seed", range(5))
def test_annotators_who_differ_make_no_shift(seed):
    """Boxes start a second early, end a second late, or both; some are random."""
    truth = sample_instruments(seed)
    sooner = [current | neighbour for current, neighbour in zip(truth, truth[1:] + truth[-1:], strict=True)]
    longer = [current | neighbour for current, neighbour in zip(truth, truth[:1] + truth[:-1], strict=True)]
    sooner_or_longer = [early | late for early, late in zip(sooner, longer, strict=True)]
    for names in (truth, sooner, longer, sooner_or_longer):
        assert find_better_shift(put_in_video(truth), put_in_video(add_noise(names, seed))) is None


@pytest.mark.parametrize(("n", "expected"), [(9, None), (10, Shift(1, 10, 0))])
def test_few_frames_that_tell_say_nothing(n, expected):
    """2^-9 is above the level of a thousandth, 2^-10 below; the other frames agree either way."""
    assert 2.0**-10 < LEVEL < 2.0**-9
    hook, empty = frozenset({"hook"}), frozenset()
    names = [empty, empty, hook, hook] * n  # a hook that comes or goes every other second
    triplet_names = put_in_video(names[: 2 * n + 2])
    boxed = add_seconds(triplet_names, 1)
    assert compare_seconds(triplet_names, boxed).count(False) == n
    assert find_better_shift(triplet_names, boxed) == expected


def test_what_is_not_labelled_says_nothing():
    triplet_names = put_in_video(sample_instruments(0))
    assert find_better_shift(triplet_names, {}) is None
    assert find_better_shift({}, triplet_names) is None
    assert (
        find_better_shift(triplet_names, {place: names for place, names in triplet_names.items() if place[1] % 3 == 0})
        is None
    )


def test_sources_name_the_instruments_of_the_phantom(phantom_surgx_roots):
    """Read boxes, triplets and tools of the same seconds; a second has 25 frame numbers."""
    boxes = [f for f in cholec80_boxes.read_frames(phantom_surgx_roots["cholec80_boxes"]) if f.video in (42, 43)]
    numbered = infer_numbering(boxes)
    boxed = collect_boxed_instruments(boxes, numbered, cholec80.INSTRUMENTS)
    tools = read_tools_by_second(phantom_surgx_roots["cholec80"], (42, 43))
    assert tools.keys() > boxed.keys()
    assert {place: names for place, names in tools.items() if names} == boxed
    assert collect_boxed_instruments(boxes, numbered, INSTRUMENTS) == {
        at: names & set(INSTRUMENTS) for at, names in boxed.items()
    }
    assert collect_boxed_instruments([BoxedFrame(42, 12, "", (("hook", (0, 0, 1, 1)),))], numbered, INSTRUMENTS) == {}
    assert find_better_shift(tools, boxed) is None
    assert find_better_shift(tools, add_seconds(dict(boxed), -1)) is not None


# --- in a build -------------------------------------------------------------------------------------------------------


def copy_with_shift(root: Path, folder: Path, by: int) -> Path:
    """Write the csv of `root` to `folder`: two videos, all frame numbers increased by `by`, no images."""
    folder.mkdir()
    shutil.copy(root / "ROI_Labels.csv", folder)
    update_boxes(folder, lambda header, rows: [header, *(add_to_number(r, by) for r in rows if r[0] in ("42", "43"))])
    return folder


@pytest.mark.parametrize("config", [pytest.param("triplets", marks=pytest.mark.full), "triplets_t50"])
def test_a_build_stops_at_boxes_a_second_off(phantom_surgx_roots, phantom_surgx_build, tmp_path, config):
    """Frame numbers from 25 look like those from 0."""
    roots = phantom_surgx_roots | {
        "cholec80_boxes": copy_with_shift(phantom_surgx_roots["cholec80_boxes"], tmp_path / "boxes", 25)
    }
    message = (
        r"boxes: of 28 frames 8 have the instruments of their boxes and 28 those of the boxes a second later; "
        r"of the 20 that agree with one alone, 20 with the latter\n"
        r"  expected: boxes of the same seconds\n"
        r"  what to do: give --boxes-first 25, or --boxes-first 0 to keep the numbering"
    )
    with pytest.raises(InputError, match=message):
        surgxbench.build(roots, tmp_path / "out", configs=[config])
    assert not (tmp_path / "out").exists()
    (folder,) = surgxbench.build(roots, tmp_path / "out", configs=[config], options=Options(boxes_first=25))
    plain = rows_of(phantom_surgx_build / folder.name, config)
    assert rows_of(folder, config) == [row | {"motion": None, "camera": None} for row in plain]


def write_long_roots(folder: Path, n: int = 120, stay: int = 8) -> dict[str, Path]:
    """Write a CholecT45 of one video whose instruments stay for eight seconds each, and boxes numbered from 1."""
    t45, boxes = folder / "t45", folder / "boxes"
    (t45 / "data/VID42").mkdir(parents=True)
    boxes.mkdir()
    names = [INSTRUMENTS[t // stay % len(INSTRUMENTS)] for t in range(n)]
    for t in range(n):
        Image.new("RGB", (8, 6)).save(t45 / f"data/VID42/{t:06d}.png")
    triplets = np.zeros((n, 100), dtype=int)
    triplets[np.arange(n), [cholec_triplets.find_triplet_id(name, "null_verb", "null_target") for name in names]] = 1
    components = cholec_triplets.parts_of(triplets > 0)
    for component, labels in zip(("triplet", "instrument", "verb", "target"), (triplets, *components), strict=True):
        (t45 / component).mkdir()
        np.savetxt(t45 / f"{component}/VID42.txt", np.column_stack([np.arange(n), labels]), fmt="%d", delimiter=",")
    header = "Surgery_num;Dir;FrameName;NumBBox_inFrame;ToolName;BBox_X;BBox_Y;BBox_Width;BBox_Height"
    lines = [f"42;Images/Video_42;Video_42_{k:05d}.png;1;{name};1;1;4;4" for k, name in enumerate(names, start=1)]
    (boxes / "ROI_Labels.csv").write_text("\n".join([header, *lines]) + "\n", encoding="utf-8")
    return {"cholect45": t45, "cholec80_boxes": boxes}


def test_the_users_word_is_taken_and_what_speaks_against_it_counted(tmp_path, capsys):
    """Most frames agree either way: 15 changes in 120 seconds, one of them at the end."""
    command = ["build", "surgxbench", *root_words(write_long_roots(tmp_path)), "--config", "triplets", "--out"]
    assert main([*command, str(tmp_path / "guessed")]) == 2
    error = capsys.readouterr().err
    assert "of 120 frames 105 have the instruments of their boxes and 120 those of the boxes a second later" in error
    assert "give --boxes-first 1, or --boxes-first 0 to keep the numbering" in error
    assert not (tmp_path / "guessed").exists()
    against = "left out, or counted: 15 frames that agree with the boxes a second later and not with their own"
    for boxes_first, noted in ((0, True), (1, False)):
        out = tmp_path / f"stated-{boxes_first}"
        assert main([*command, str(out), "--boxes-first", str(boxes_first)]) == 0
        assert (against in capsys.readouterr().out) == noted


def test_frames_of_the_video_are_held_against_cholec80s_tools(phantom_surgx_roots, tmp_path):
    """Successors that are video frames depend on the seconds; no other source provides them."""
    boxes = phantom_surgx_roots["cholec80_boxes"]
    plain = copy_with_shift(boxes, tmp_path / "plain", 0)
    for video in (42, 43):
        shutil.copytree(boxes / f"Images/Video_{video}", plain / f"Images/Video_{video}")
    cholec = tmp_path / "cholec80"
    (cholec / "tool_annotations").mkdir(parents=True)
    shutil.copytree(phantom_surgx_roots["cholec80"] / "videos", cholec / "videos")
    for video in (42, 43):
        path = cholec80.tool_file(phantom_surgx_roots["cholec80"], video)
        lines = path.read_text().splitlines(keepends=True)
        if video == 43:  # invert the tools of one second
            number, *cells = lines[1].split()
            lines[1] = "\t".join([number, *("01"[cell == "0"] for cell in cells)]) + "\n"
        (cholec / "tool_annotations" / path.name).write_text("".join(lines))
    roots = {"cholec80_boxes": plain, "cholec80": cholec}
    arguments = {"configs": ["instruments"], "options": Options(successor="frame")}
    (folder,) = surgxbench.build(roots, tmp_path / "out", **arguments)
    assert skipped(folder) == {OTHER_TOOLS: 1}
    assert sorted(record_of(folder)["sources"]["cholec80"]["files"]) == ["video42-tool.txt", "video43-tool.txt"]
    (folder,) = surgxbench.build(roots, tmp_path / "seconds", configs=["instruments"])
    assert "cholec80" not in record_of(folder)["sources"]
    later_boxes = roots | {"cholec80_boxes": copy_with_shift(boxes, tmp_path / "shifted", 25)}
    with pytest.raises(InputError, match=r"those of the boxes a second later(.|\n)*--boxes-first 25"):
        surgxbench.build(later_boxes, tmp_path / "none", **arguments)
    stated = arguments | {"options": Options(successor="frame", boxes_first=10**6)}
    with pytest.raises(InputError, match="no frame with boxes is at a second that Cholec80's tool tables name"):
        surgxbench.build(roots, tmp_path / "none", **stated)
    (cholec / "tool_annotations/video43-tool.txt").unlink()
    with pytest.raises(InputError, match=r"video43-tool\.txt: no such file"):
        surgxbench.build(roots, tmp_path / "none", **arguments)
    assert not (tmp_path / "none").exists()
