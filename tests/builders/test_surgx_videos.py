"""The motion of several videos: resuming killed runs, and a cache that never mixes settings."""

from __future__ import annotations

import json

import numpy as np
import pytest

from medfaith.builders.surgxbench.flow_files import FlowFiles
from medfaith.builders.surgxbench.videos import PARTLY_UNKNOWN, STILL, compute_video_motion
from medfaith.loaders import rle
from medfaith.loaders.errors import InputError
from tests.support.builders.surgx_scenes import SIZE, compute_moving_flow, make_pairs, write_flow


class Analytic:
    """Known flow that records the requested frames and can fail at one, like a killed run."""

    def __init__(self, name="analytic", fails_at: tuple[str, int] | None = None) -> None:
        self.name, self.fails_at, self.asked = name, fails_at, []

    def identity(self, video, pairs):
        return self.name

    def flows(self, video, pairs):
        for pair in pairs:
            if (video, pair.frame) == self.fails_at:
                raise KeyboardInterrupt
            self.asked.append((video, pair.frame))
            forward = compute_moving_flow(float(pair.frame))
            yield forward, -forward


VIDEOS = {"VID42": make_pairs(3, SIZE), "VID43": make_pairs(2, SIZE)}
ALL = [("VID42", 0), ("VID42", 1), ("VID42", 2), ("VID43", 0), ("VID43", 1)]


def test_the_motion_of_videos():
    motion, counted = compute_video_motion(VIDEOS, Analytic(), trim=0.2)
    assert [(video, frame) for video, video_motion in motion.items() for frame in video_motion] == ALL
    expected = np.zeros(SIZE, dtype=bool)
    expected[8:16, 8:16] = True
    for video_motion in motion.values():
        for frame, described in video_motion.items():
            assert np.array_equal(rle.decode(described["motion"]), expected)
            assert described["camera"] == pytest.approx({"pan": frame, "tilt": 0, "zoom": 0.01, "roll": 0}, abs=1e-5)
    assert counted == {}


def test_what_is_still_or_unknown_is_counted():
    class Still(Analytic):
        def flows(self, video, pairs):
            for pair in pairs:
                forward = np.zeros((2, *SIZE), dtype=np.float32)
                if pair.frame:
                    forward[0, :3] = np.nan
                yield forward, -forward

    _, counted = compute_video_motion(VIDEOS, Still())
    assert counted == {STILL: 5, PARTLY_UNKNOWN: 3}


def test_a_killed_run_goes_on_at_the_first_unfinished_video(tmp_path):
    cache = tmp_path / "made" / "cache"
    killed = Analytic(fails_at=("VID43", 1))
    with pytest.raises(KeyboardInterrupt):
        compute_video_motion(VIDEOS, killed, cache=cache)
    assert killed.asked == ALL[:4]
    assert [path.name[:5] for path in cache.glob("[!.]*")] == ["VID42"]
    assert not list(cache.glob("*.partial"))
    resumed = Analytic()
    motion = compute_video_motion(VIDEOS, resumed, cache=cache)
    assert resumed.asked == ALL[3:]
    assert motion == compute_video_motion(VIDEOS, Analytic())
    third = Analytic()
    assert compute_video_motion(VIDEOS, third, cache=cache) == motion
    assert third.asked == []
    [finished] = cache.glob("VID43*")
    half = finished.read_bytes()[:-40]
    finished.unlink()
    (cache / f".{finished.name}.partial").write_bytes(half)  # the state after a kill
    fourth = Analytic()
    assert compute_video_motion(VIDEOS, fourth, cache=cache) == motion
    assert fourth.asked == ALL[3:]


@pytest.mark.parametrize(
    "changed",
    [
        {"gamma": 0.9},
        {"trim": 0.1},
        {"floor": 0.6},
        {"flow": Analytic("other weights")},
        {"pairs_by_video": {v: [p._replace(second_image="cholec80") for p in pairs] for v, pairs in VIDEOS.items()}},
        {"pairs_by_video": {v: pairs[:-1] for v, pairs in VIDEOS.items()}},
    ],
)
def test_other_settings_are_never_mixed_in(tmp_path, changed):
    flow, changed_flow = Analytic(), Analytic()
    arguments = {"pairs_by_video": VIDEOS, "flow": changed_flow} | changed
    motion = compute_video_motion(VIDEOS, flow, cache=tmp_path)
    assert compute_video_motion(**arguments, cache=tmp_path) == compute_video_motion(**arguments)
    assert len(arguments["flow"].asked) == 2 * sum(map(len, arguments["pairs_by_video"].values()))
    repeated = Analytic()
    assert compute_video_motion(VIDEOS, repeated, cache=tmp_path) == motion
    assert repeated.asked == []


def test_flow_files_that_changed_are_read_again(tmp_path):
    for frame in range(2):
        write_flow(tmp_path / "flow", "VID43", frame, compute_moving_flow(frame))
    videos = {"VID43": make_pairs(2, SIZE)}
    motion, _ = compute_video_motion(videos, FlowFiles(tmp_path / "flow"), cache=tmp_path / "cache")
    write_flow(tmp_path / "flow", "VID43", 1, compute_moving_flow(9).astype(np.float64))
    changed_motion, _ = compute_video_motion(videos, FlowFiles(tmp_path / "flow"), cache=tmp_path / "cache")
    assert changed_motion["VID43"][0] == motion["VID43"][0]
    assert changed_motion["VID43"][1]["camera"]["pan"] == pytest.approx(
        motion["VID43"][1]["camera"]["pan"] + 8, abs=1e-4
    )


def test_the_cache_holds_no_path_of_this_machine(tmp_path):
    write_flow(tmp_path / "flow", "VID43", 0, compute_moving_flow(1))
    compute_video_motion({"VID43": make_pairs(1)}, FlowFiles(tmp_path / "flow"), cache=tmp_path / "cache")
    [path] = (tmp_path / "cache").glob("*.jsonl")
    header, line = (json.loads(text) for text in path.read_text().splitlines())
    assert {"version", "video", "flow", "gamma", "trim", "floor", "pairs"} == set(header)
    assert set(line) == {"frame", "motion", "camera", "moving", "unknown"}
    assert str(tmp_path) not in path.read_text()


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text[: len(text) // 2],
        lambda text: text.replace('"frame": 1', '"frame": 5'),
        lambda text: text.replace('"gamma": 0.8', '"gamma": 0.7'),
        lambda text: text.replace('"counts": "', '"counts": "0'),
        lambda text: text.replace('"roll"', '"rol"'),
        lambda text: "".join(text.splitlines(keepends=True)[:-1]),
        lambda text: "",
        lambda text: "[]\n[]\n[]\n",
    ],
)
def test_a_damaged_cache_is_refused(tmp_path, damage):
    videos = {"VID43": VIDEOS["VID43"]}
    compute_video_motion(videos, Analytic(), cache=tmp_path)
    [path] = tmp_path.glob("*.jsonl")
    path.write_text(damage(path.read_text()))
    with pytest.raises(InputError, match=r"(?s)VID43-.*\.jsonl: is damaged.*what to do: delete it"):
        compute_video_motion(videos, Analytic(), cache=tmp_path)


def test_one_run_at_a_time_writes_to_a_cache_and_to_a_folder_alone(tmp_path):
    class Nested(Analytic):
        def flows(self, video, pairs):
            compute_video_motion(VIDEOS, Analytic(), cache=tmp_path)
            return super().flows(video, pairs)

    with pytest.raises(InputError, match=r"(?s)another run is writing here.*wait for it, or use another folder"):
        compute_video_motion(VIDEOS, Nested(), cache=tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="file: cannot be written to"):
        compute_video_motion(VIDEOS, Analytic(), cache=tmp_path / "file")


class Wrong(Analytic):
    def __init__(self, forward: np.ndarray) -> None:
        super().__init__()
        self.forward = forward

    def flows(self, video, pairs):
        for _ in pairs:
            yield self.forward, -self.forward


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"gamma": 1.1}, "gamma 1.1: is out of range\n  expected: a quantile from 0 to 1"),
        ({"gamma": -0.1}, "gamma -0.1: is out of range"),
        ({"gamma": float("nan")}, "gamma nan: is out of range"),
        ({"trim": 0.6}, "trim 0.6: is out of range\n  expected: a share from 0 to 0.5"),
        ({"floor": -1.0}, "floor -1.0: is out of range\n  expected: pixels, 0 or more"),
        ({"floor": float("inf")}, "floor inf: is out of range"),
        ({"pairs_by_video": {"../VID42": make_pairs(1)}}, r"video '\.\./VID42': no name for a file"),
        ({"pairs_by_video": {"VID42": make_pairs(1) * 2}}, "video VID42, row frame 0: two pairs begin with one frame"),
        (
            {"flow": Wrong(compute_moving_flow(0)[:, 1:])},
            r"(?s)video VID42, row frame 0: a flow of \(23, 32\).*\(24, 32\)",
        ),
        (
            {"flow": Wrong(np.full_like(compute_moving_flow(1.0), np.nan))},
            "video VID42, row frame 0: known flow on 0 pixels",
        ),
    ],
)
def test_bad_videos_and_flow(arguments, message):
    with pytest.raises(InputError, match=message):
        compute_video_motion(**{"pairs_by_video": VIDEOS, "flow": Analytic()} | arguments)
