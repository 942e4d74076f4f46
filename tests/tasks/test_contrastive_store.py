"""The heatmap store: references in replies, keys, and resumed runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from medfaith.loaders.errors import MedfaithError
from medfaith.tasks.explain.geometry import to_frame
from medfaith.tasks.explain.store import open_store
from medfaith.tasks.models.contrastive import encoders as contrastive_encoders
from medfaith.tasks.models.contrastive.lm import ContrastiveLM
from tests.support.tasks import tiny_contrastive
from tests.support.tasks.tiny_contrastive import (
    CLASSES,
    FAMILIES,
    FRAMES,
    PROMPTS,
    build_requests,
    frame,
    generate_replies,
)


class Counting:
    """Counts the frames that a model scores and the frames that it explains."""

    def __init__(self, monkeypatch):
        self.scored, self.explained = 0, 0
        score, explain = ContrastiveLM.scores, ContrastiveLM._explain

        def count_scored(lm, images, prompts):
            self.scored += len(images)
            return score(lm, images, prompts)

        def count_explained(lm, images, prompts, indices):
            self.explained += sum(len(row_indices) for row_indices in indices)
            return explain(lm, images, prompts, indices)

        monkeypatch.setattr(ContrastiveLM, "scores", count_scored)
        monkeypatch.setattr(ContrastiveLM, "_explain", count_explained)

    def take(self):
        counts, self.scored, self.explained = (self.scored, self.explained), 0, 0
        return counts


def test_a_run_goes_on_where_it_was_stopped(families, tmp_path, monkeypatch):
    counting = Counting(monkeypatch)

    def run(images=FRAMES, **changes):
        top_k = changes.pop("top_k", 2)
        lm = ContrastiveLM(**{**families["clip"], **changes}, store=str(tmp_path), batch_size=2, device="cpu")
        return generate_replies(lm, build_requests(images, top_k=top_k))

    first_replies = run(FRAMES[:3])
    assert counting.take() == (3, 6)
    all_replies = run()
    assert counting.take() == (2, 4)  # the missing frames
    assert all_replies[:3] == first_replies
    assert run() == all_replies
    assert counting.take() == (0, 0)
    store = open_store(tmp_path)
    before = store.read(first_replies[0]["heatmaps"], "VID42/0")
    more = run(top_k=3)
    assert counting.take() == (0, 5)  # one more class per frame
    assert more[0]["heatmaps"] == first_replies[0]["heatmaps"]
    after = store.read(first_replies[0]["heatmaps"], "VID42/0")
    assert len(after.maps) == 3
    for name, grid in before.maps.items():
        np.testing.assert_allclose(after.maps[name], grid, rtol=1e-3)
    run([frame(9), *FRAMES[1:]])
    assert counting.take() == (1, 2)  # the same row, another image
    run(explainer="rollout_last")
    assert counting.take() == (5, 10)
    assert len(store.keys()) == 2


class Killed:
    """A run of the tiny CLIP on five frames, two at a time, killed at the nth call of its encoder.

    Attributes:
        calls: Number of images in each call of the encoder.
    """

    def __init__(self, families: dict[str, Any], store: Path | None, at: int = 0, **options: Any) -> None:
        document = {name: options.pop(name) for name in ("top_k", "occlude", "gold") if name in options}
        place = str(store) if store is not None else None
        self.lm = ContrastiveLM(**families["clip"], store=place, batch_size=2, device="cpu", **options)
        self.calls: list[int] = []
        self._at, self._pixels, self._document = at, self.lm._encoder.pixels, document

    def generate(self) -> list[dict[str, Any]]:
        def encode_pixels(images: Sequence[Image.Image]) -> Any:
            if len(self.calls) + 1 == self._at:
                raise KeyboardInterrupt
            self.calls.append(len(images))
            return self._pixels(images)

        self.lm._encoder.pixels = encode_pixels
        return generate_replies(self.lm, build_requests(**self._document))


OCCLUDE = {"top_k": 2, "occlude": True, "gold": CLASSES}


@pytest.mark.parametrize(
    ("options", "at", "before", "after"),
    [
        # one batch: scored, then explained
        ({}, 4, [2, 2, 2], [2, 2, 1, 1]),
        pytest.param({"top_k": 2}, 3, [2, 2], [2, 2, 1, 1], marks=pytest.mark.full),
        # scored, explained, scored again with a black region, which is not stored
        (OCCLUDE, 6, [2, 2, 2, 2, 2], [2, 2, 1, 1, 1]),
    ],
)
def test_a_killed_run_resumes_at_its_last_batch(families, tmp_path, options, at, before, after):
    expected = Killed(families, tmp_path / "whole", **options).generate()
    killed = Killed(families, tmp_path / "cut", at, **options)
    with pytest.raises(KeyboardInterrupt):
        killed.generate()
    assert killed.calls == before
    resumed = Killed(families, tmp_path / "cut", **options)
    assert resumed.generate() == expected
    assert resumed.calls == after
    check_maps_are_the_same(tmp_path, expected)


@pytest.mark.parametrize("at", [pytest.param(3, marks=pytest.mark.full), 5])
def test_a_killed_run_with_a_threshold_per_class(families, tmp_path, at):
    """The run scores all frames, then explains those with a predicted class; both steps resume at their last batch."""
    options = {"threshold": "per_class", "percentile": 20}
    uninterrupted = Killed(families, tmp_path / "whole", **options)
    expected = uninterrupted.generate()
    explained = [sum(bool(reply["predicted"]) for reply in expected[start : start + 2]) for start in (0, 2, 4)]
    assert uninterrupted.calls == [2, 2, 1, *filter(None, explained)]
    assert len(uninterrupted.calls) >= 5, "each class is predicted in four of the five frames"
    with pytest.raises(KeyboardInterrupt):
        Killed(families, tmp_path / "cut", at, **options).generate()
    resumed = Killed(families, tmp_path / "cut", **options)
    assert resumed.generate() == expected
    assert resumed.calls == uninterrupted.calls[at - 1 :]
    check_maps_are_the_same(tmp_path, expected)


def check_maps_are_the_same(folder: Path, replies: Sequence[dict[str, Any]]) -> None:
    for number, reply in enumerate(replies):
        stores = (open_store(folder / run) for run in ("whole", "cut"))
        expected_entry, resumed_entry = (store.read(reply["heatmaps"], f"VID42/{number}") for store in stores)
        assert list(expected_entry.maps) == list(resumed_entry.maps) == reply["predicted"]
        for name in expected_entry.maps:
            np.testing.assert_array_equal(expected_entry.maps[name], resumed_entry.maps[name])


def test_scores_without_heatmaps_are_no_complete_row(families, tmp_path):
    """Another run reuses the scores of a run with a threshold per class that was killed while it scored."""
    with pytest.raises(KeyboardInterrupt):
        Killed(families, tmp_path / "cut", 3, threshold="per_class").generate()
    top_k_run = Killed(families, tmp_path / "cut", top_k=2)
    replies = top_k_run.generate()
    assert top_k_run.calls == [2, 2, 1, 1], "two batches are only explained"
    assert replies == Killed(families, tmp_path / "whole", top_k=2).generate()
    for number, reply in enumerate(replies):
        assert list(open_store(tmp_path / "cut").read(reply["heatmaps"], f"VID42/{number}").maps) == reply["predicted"]


@pytest.mark.full  # two more runs
def test_what_is_painted_black_is_explained_once(families, tmp_path, monkeypatch):
    counting = Counting(monkeypatch)
    expected = Killed(families, tmp_path / "alone", **OCCLUDE).generate()
    assert counting.take() == (10, 10), "two classes a frame; each frame is scored again in part black"
    Killed(families, tmp_path / "after", top_k=2).generate()
    counting.take()
    assert Killed(families, tmp_path / "after", **OCCLUDE).generate() == expected
    assert counting.take() == (5, 0), "the heatmaps of the other task are read"
    bare = Killed(families, None, **OCCLUDE).generate()
    assert counting.take() == (10, 5), "without a store, of the class that is painted only"
    for reply, bare_reply in zip(expected, bare, strict=True):
        assert reply["occluded"]["triplet"] == bare_reply["occluded"]["triplet"] == reply["predicted"][0]


EXPLAINER = {"clip": "rollout", "blip": "rollout", "open_clip": "grad_cam", "surgvlp": "grad_cam"}


@pytest.mark.usefixtures("small_resnet")
@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_end_to_end(family, families, tmp_path):
    """Replies are complete, and heatmaps are zero outside the model's view of the frame."""
    text = ",".join(f"{name}={value}" for name, value in families[family].items())
    lm: Any = ContrastiveLM.create_from_arg_string(f"{text},store={tmp_path}", {"batch_size": 2, "device": "cpu"})
    frames = FRAMES[1:3]  # of two sizes
    replies = generate_replies(lm, [*build_requests(frames, top_k=3), *build_requests(frames, task="another")])
    store = open_store(tmp_path)
    scores = lm.scores(frames, PROMPTS)
    for number, reply in enumerate(replies[:2]):
        assert set(reply) == {"heatmaps", "predicted", "scores"}
        np.testing.assert_allclose(reply["scores"], scores[number], atol=2e-3)
        assert reply["predicted"] == [CLASSES[i] for i in np.argsort(-np.array(reply["scores"]))[:3]]
        entry = store.read(reply["heatmaps"], f"VID42/{number}")
        assert entry.scores is not None
        assert entry.scores.tolist() == reply["scores"]
        assert sorted(entry.maps) == sorted(reply["predicted"])
        width, height = frames[number].size
        assert entry.geometry.size == (height, width)
        x, y, w, h = entry.geometry.window
        for grid in to_frame(np.stack(list(entry.maps.values())), entry.geometry):
            rows, columns = np.nonzero(grid)
            assert grid.shape == (height, width)
            assert rows.size == 0 or (y <= rows.min() + 0.5 and rows.max() + 0.5 < y + h)
            assert columns.size == 0 or (x <= columns.min() + 0.5 and columns.max() + 0.5 < x + w)
        grids, _ = lm.explain(frames[number], PROMPTS, [CLASSES.index(name) for name in entry.maps])
        np.testing.assert_allclose(list(entry.maps.values()), grids, rtol=2e-3, atol=1e-3 * grids.max())
    (key,) = store.keys()
    assert [reply["heatmaps"].partition("/")[0] for reply in replies] == [key] * 4  # same prompts, same maps
    assert [reply["heatmaps"] for reply in replies[:2]] == [reply["heatmaps"] for reply in replies[2:]]
    assert store.model(store.keys()[0])["explainer"] == EXPLAINER[family]
    for reply in replies[2:]:
        assert reply["predicted"] == [CLASSES[int(np.argmax(reply["scores"]))]]  # 7 classes: the arg-max


def test_without_a_store_nothing_is_explained(models, monkeypatch):
    monkeypatch.setattr(models["clip"], "_explain", lambda *_: pytest.fail("explained"))
    assert [reply["heatmaps"] for reply in generate_replies(models["clip"], build_requests())] == [None] * 5


@pytest.mark.full  # four runs
def test_models_prompts_and_weights_have_stores_of_their_own(families, tmp_path):
    copy, other_folder = (
        tiny_contrastive.save_clip(tmp_path / name / "clip", seed) for name, seed in (("copy", 0), ("b", 1))
    )
    n_stores = []
    for folder, prompts in [
        (families["clip"]["pretrained"], PROMPTS),
        (str(copy), PROMPTS),  # the same weights in another folder are the same model
        (str(other_folder), PROMPTS),
        (str(other_folder), [prompt + " ," for prompt in PROMPTS]),
    ]:
        lm = ContrastiveLM(folder, store=str(tmp_path / "maps"), device="cpu")
        generate_replies(lm, build_requests(FRAMES[:1], prompts=prompts))
        n_stores.append(len(open_store(tmp_path / "maps").keys()))
    assert n_stores == [1, 1, 2, 3]


def test_other_weights_of_the_same_name_have_another_fingerprint(families, tmp_path):
    """An audit does not resume with them."""
    copy, other_folder = (
        str(tiny_contrastive.save_clip(tmp_path / name / "clip", seed)) for name, seed in (("copy", 0), ("b", 1))
    )
    fingerprint, *same, other = (
        ContrastiveLM(folder, device="cpu").fingerprint
        for folder in (families["clip"]["pretrained"], families["clip"]["pretrained"], copy, other_folder)
    )
    assert same == [fingerprint] * 2
    assert other != fingerprint


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.int64])
def test_weights_of_every_number_type_have_a_digest(dtype):
    network, changed = torch.nn.Module(), torch.nn.Module()
    network.register_buffer("x", torch.tensor(3, dtype=dtype))
    changed.register_buffer("x", torch.tensor(4, dtype=dtype))
    assert contrastive_encoders.hash_weights(network) == contrastive_encoders.hash_weights(network)
    assert contrastive_encoders.hash_weights(network) != contrastive_encoders.hash_weights(changed)


def test_a_threshold_per_class_looks_at_all_frames_of_the_task(families):
    lm = ContrastiveLM(**families["blip"], threshold="per_class", percentile=50, batch_size=2, device="cpu")
    replies = generate_replies(lm, build_requests())
    scores = np.array([reply["scores"] for reply in replies])
    expected = scores > np.median(scores, axis=0)
    assert expected.sum() == 2 * 7  # of five frames, two are above the median
    expected_classes = [{CLASSES[index] for index in np.flatnonzero(row)} for row in expected]
    assert [set(reply["predicted"]) for reply in replies] == expected_classes
    lm._world_size = 2
    with pytest.raises(MedfaithError, match="needs the scores of all frames in one process"):
        lm.generate_until(build_requests())


def test_two_images_under_one_id_keep_their_own_heatmaps(families, tmp_path):
    """The log of a first run keeps its heatmaps after the same rows are built from other frames."""
    lm = ContrastiveLM(**families["clip"], store=str(tmp_path), batch_size=2, device="cpu")
    (first_reply,) = generate_replies(lm, build_requests(FRAMES[:1]))
    requests = build_requests(FRAMES[:2])
    requests[1].doc["id"] = requests[0].doc["id"]
    repeated_reply, second_reply = generate_replies(lm, requests)
    assert repeated_reply == first_reply
    assert second_reply["heatmaps"] != first_reply["heatmaps"]
    for reply, image in ((first_reply, FRAMES[0]), (second_reply, FRAMES[1])):
        entry = open_store(tmp_path).read(reply["heatmaps"], "VID42/0")
        grids, geometry = lm.explain(image, PROMPTS, [CLASSES.index(name) for name in entry.maps])
        assert entry.geometry == geometry
        np.testing.assert_allclose(list(entry.maps.values()), grids, rtol=2e-3, atol=1e-3 * grids.max())
