"""Replies name their heatmaps in the store, and models, prompts and frames have heatmaps of their own there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from medfaith.loaders.errors import MedfaithError
from medfaith.tasks.explain.geometry import to_frame
from medfaith.tasks.explain.store import open_store
from medfaith.tasks.models import contrastive_encoders
from medfaith.tasks.models.contrastive import ContrastiveLM
from tests.tasks import tiny_contrastive
from tests.tasks.tiny_contrastive import CLASSES, FAMILIES, FRAMES, PROMPTS, replies_of, requests_of

EXPLAINER = {"clip": "rollout", "blip": "rollout", "open_clip": "grad_cam", "surgvlp": "grad_cam"}


@pytest.mark.usefixtures("small_resnet")
@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_end_to_end(family, families, tmp_path):
    """Replies, and heatmaps that lie inside what the model saw of the frame, nothing beside it."""
    text = ",".join(f"{name}={value}" for name, value in families[family].items())
    lm: Any = ContrastiveLM.create_from_arg_string(f"{text},store={tmp_path}", {"batch_size": 2, "device": "cpu"})
    frames = FRAMES[1:3]  # of two sizes
    replies = replies_of(lm, [*requests_of(frames, top_k=3), *requests_of(frames, task="another")])
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
    assert [reply["heatmaps"].partition("/")[0] for reply in replies] == [key] * 4  # the same prompts: the same maps
    assert [reply["heatmaps"] for reply in replies[:2]] == [reply["heatmaps"] for reply in replies[2:]]
    assert store.model(store.keys()[0])["explainer"] == EXPLAINER[family]
    for reply in replies[2:]:
        assert reply["predicted"] == [CLASSES[int(np.argmax(reply["scores"]))]]  # 7 classes: the arg-max


def test_without_a_store_nothing_is_explained(models, monkeypatch):
    monkeypatch.setattr(models["clip"], "_explain", lambda *_: pytest.fail("explained"))
    assert [reply["heatmaps"] for reply in replies_of(models["clip"], requests_of())] == [None] * 5


def test_models_prompts_and_weights_have_stores_of_their_own(families, tmp_path):
    copy, other = (tiny_contrastive.save_clip(tmp_path / name / "clip", seed) for name, seed in (("copy", 0), ("b", 1)))
    n_stores = []
    for folder, prompts in [
        (families["clip"]["pretrained"], PROMPTS),
        (str(copy), PROMPTS),  # the same weights in another folder are the same model
        (str(other), PROMPTS),
        (str(other), [prompt + " ," for prompt in PROMPTS]),
    ]:
        lm = ContrastiveLM(folder, store=str(tmp_path / "maps"), device="cpu")
        replies_of(lm, requests_of(FRAMES[:1], prompts=prompts))
        n_stores.append(len(open_store(tmp_path / "maps").keys()))
    assert n_stores == [1, 1, 2, 3]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.int64])
def test_weights_of_every_number_type_have_a_digest(dtype):
    network, other = torch.nn.Module(), torch.nn.Module()
    network.register_buffer("x", torch.tensor(3, dtype=dtype))
    other.register_buffer("x", torch.tensor(4, dtype=dtype))
    assert contrastive_encoders.weights_digest(network) == contrastive_encoders.weights_digest(network)
    assert contrastive_encoders.weights_digest(network) != contrastive_encoders.weights_digest(other)


def test_a_threshold_per_class_looks_at_all_frames_of_the_task(families):
    lm = ContrastiveLM(**families["blip"], threshold="per_class", percentile=50, batch_size=2, device="cpu")
    replies = replies_of(lm, requests_of())
    scores = np.array([reply["scores"] for reply in replies])
    expected = scores > np.median(scores, axis=0)
    assert expected.sum() == 2 * 7  # of five frames, two are above the median
    assert [set(reply["predicted"]) for reply in replies] == [
        {name for name, above in zip(CLASSES, row, strict=True) if above} for row in expected
    ]
    lm._world_size = 2
    with pytest.raises(MedfaithError, match="needs the scores of all frames in one process"):
        lm.generate_until(requests_of())


def test_two_images_under_one_id_keep_their_own_heatmaps(families, tmp_path):
    """As where the same rows are built from other frames: the log of the first run still finds its own."""
    lm = ContrastiveLM(**families["clip"], store=str(tmp_path), batch_size=2, device="cpu")
    (first,) = replies_of(lm, requests_of(FRAMES[:1]))
    requests = requests_of(FRAMES[:2])
    requests[1].doc["id"] = requests[0].doc["id"]
    again, second = replies_of(lm, requests)
    assert again == first
    assert second["heatmaps"] != first["heatmaps"]
    for reply, image in ((first, FRAMES[0]), (second, FRAMES[1])):
        entry = open_store(tmp_path).read(reply["heatmaps"], "VID42/0")
        grids, geometry = lm.explain(image, PROMPTS, [CLASSES.index(name) for name in entry.maps])
        assert entry.geometry == geometry
        np.testing.assert_allclose(list(entry.maps.values()), grids, rtol=2e-3, atol=1e-3 * grids.max())
