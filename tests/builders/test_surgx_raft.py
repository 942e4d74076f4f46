"""RAFT's call with random weights: padding, batches, device, identity, and errors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from medfaith.builders.surgxbench import raft as rafts
from medfaith.builders.surgxbench.raft import Raft, padding
from medfaith.loaders.errors import InputError, MedfaithError
from tests.support.builders.surgx_scenes import make_pairs


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    import torch
    from torchvision.models.optical_flow import raft_large

    torch.manual_seed(0)
    path = tmp_path_factory.mktemp("raft") / "random.pth"
    torch.save(raft_large(weights=None).state_dict(), path)
    return path


def make_frames(n: int, size=(100, 134), seed=0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (n, *size, 3), dtype=np.uint8)


def make_opener(images: np.ndarray):
    return lambda video, pairs: ((images[pair.frame], images[pair.frame + 1]) for pair in pairs)


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        ((480, 854), (1, 1, 0, 0)),
        ((480, 856), (0, 0, 0, 0)),
        ((129, 131), (2, 3, 3, 4)),
        ((120, 214), (1, 1, 4, 4)),
        ((1, 128), (0, 0, 63, 64)),
    ],
)
def test_padding_to_what_raft_takes(size, expected):
    left_pad, right_pad, top_pad, bottom_pad = padding(size)
    assert (left_pad, right_pad, top_pad, bottom_pad) == expected
    height, width = size[0] + top_pad + bottom_pad, size[1] + left_pad + right_pad
    assert height % 8 == width % 8 == 0
    assert min(height, width) >= 128


@pytest.mark.full  # the real model
def test_raft_gives_what_its_model_gives_on_frames_padded_by_hand(weights):
    """Both directions, scaled by torchvision's transforms, pair by pair."""
    import torch
    from torchvision.models.optical_flow import Raft_Large_Weights, raft_large

    images = make_frames(3)
    forward, backward = Raft(make_opener(images), weights=weights, updates=2, device="cpu").between(
        images[:2], images[1:]
    )
    assert forward.shape == backward.shape == (2, 2, 100, 134)
    assert forward.dtype == np.float32
    model = raft_large(weights=None).eval()
    model.load_state_dict(torch.load(weights, weights_only=True))
    padded = np.pad(images, [(0, 0), (14, 14), (1, 1), (0, 0)], mode="edge")
    assert padded.shape[1:3] == (128, 136)
    tensor = torch.from_numpy(padded).permute(0, 3, 1, 2)
    for flow, firsts, seconds in ((forward, [0, 1], [1, 2]), (backward, [1, 2], [0, 1])):
        frame_batch, next_batch = Raft_Large_Weights[rafts.WEIGHTS].transforms()(tensor[firsts], tensor[seconds])
        with torch.no_grad():
            expected = model(frame_batch, next_batch, num_flow_updates=2)[-1][:, :, 14:114, 1:135].numpy()
        assert np.abs(expected).max() > 0.01
        assert np.abs(flow - expected).max() < 1e-3
    assert Raft_Large_Weights[rafts.WEIGHTS] is Raft_Large_Weights.DEFAULT


@pytest.mark.full
def test_images_are_opened_batch_by_batch_and_the_batch_size_changes_nothing(weights):
    opened, images = [], make_frames(4)

    def open_pairs(video, pairs):
        for pair, images_of_pair in zip(pairs, make_opener(images)(video, pairs), strict=True):
            opened.append((video, pair.frame))
            yield images_of_pair

    unbatched = list(Raft(make_opener(images), weights=weights, updates=1, batch_size=1).flows("VID01", make_pairs(3)))
    stream = Raft(open_pairs, weights=weights, updates=1, batch_size=2).flows("VID01", make_pairs(3))
    two = [next(stream)]
    assert opened == [("VID01", 0), ("VID01", 1)]
    two += stream
    assert opened == [("VID01", frame) for frame in range(3)]
    assert np.abs(np.array(two) - np.array(unbatched)).max() < 1e-3
    assert not np.allclose(unbatched[0][0], unbatched[1][0])


def test_the_device_is_the_gpu_if_there_is_one(weights, monkeypatch):
    import torch

    raft = Raft(make_opener(make_frames(2)), weights=weights, updates=1)
    assert raft.device == ("cuda" if torch.cuda.is_available() else "cpu")
    assert {parameter.device.type for parameter in raft._model.parameters()} == {raft.device}
    assert not raft._model.training
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert Raft(make_opener(make_frames(2)), weights=weights).device == "cuda"
    assert Raft(make_opener(make_frames(2)), weights=weights, device="cpu").device == "cpu"


def test_weights_are_part_of_the_identity_and_batches_are_not(weights, tmp_path):
    other_weights = tmp_path / "other.pth"
    other_weights.write_bytes(b"other")
    opened = make_opener(make_frames(2))
    raft = Raft(opened, weights=weights)
    assert raft.identity("VID01", []).startswith("raft_large, sha256 ")
    assert raft.identity("VID01", []) == Raft(opened, weights=weights, batch_size=9).identity("VID02", [])
    assert raft.identity("VID01", []) != Raft(opened, weights=other_weights).identity("VID01", [])
    assert raft.identity("VID01", []) != Raft(opened, weights=weights, updates=3).identity("VID01", [])
    assert Raft(opened).identity("VID01", []) == "raft_large, C_T_SKHT_V2, 12 updates"


def test_weights_that_cannot_be_loaded(tmp_path):
    import torch

    opened = make_opener(make_frames(2))
    with pytest.raises(InputError, match=r"none\.pth: no such file"):
        Raft(opened, weights=tmp_path / "none.pth")
    damaged, foreign = tmp_path / "damaged.pth", tmp_path / "foreign.pth"
    damaged.write_bytes(b"not a checkpoint")
    torch.save({"fc.weight": torch.zeros(2, 2)}, foreign)
    for path in (damaged, foreign):
        with pytest.raises(InputError, match=r"(?s)cannot be loaded.*a state dict of torchvision's raft_large"):
            next(Raft(opened, weights=path).flows("VID01", make_pairs(1)))


def test_weights_that_cannot_be_downloaded(monkeypatch):
    from urllib.error import URLError

    from torchvision.models.optical_flow import Raft_Large_Weights

    def raise_offline(*_, **__):
        raise URLError("no network")

    monkeypatch.setattr(Raft_Large_Weights, "get_state_dict", raise_offline)
    with pytest.raises(MedfaithError, match=r"(?s)C_T_SKHT_V2 cannot be downloaded.*what to do: name a file"):
        next(Raft(make_opener(make_frames(2))).flows("VID01", make_pairs(1)))


def test_raft_without_torch_says_what_to_install(weights, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "torchvision", None)
    with pytest.raises(MedfaithError, match=r"uv pip install 'medfaith\[hf\]'"):
        Raft(make_opener(make_frames(2)), weights=weights).between(make_frames(1), make_frames(1))


@pytest.mark.parametrize(
    ("image", "next_image", "message"),
    [
        (np.zeros((128, 128), np.uint8), make_frames(1, (128, 128))[0], r"000000\.png: an image of shape \(128, 128\)"),
        (
            make_frames(1)[0],
            make_frames(1)[0].astype(np.float32),
            r"(?s)000001\.png: .*float32.*expected: \(H, W, 3\), uint8",
        ),
        (
            make_frames(1, (128, 128))[0],
            make_frames(1, (128, 136))[0],
            r"video VID01, row frame 0: data/VID01/000000\.png is of",
        ),
    ],
)
def test_images_that_are_no_pair(weights, image, next_image, message):
    with pytest.raises(InputError, match=message):
        next(Raft(lambda video, pairs: iter([(image, next_image)]), weights=weights).flows("VID01", make_pairs(1)))


def test_frames_of_several_sizes_in_one_batch(weights):
    pairs = [tuple(make_frames(2, (128, 128))), tuple(make_frames(2, (128, 136)))]
    with pytest.raises(InputError, match=r"video VID01: frames of several sizes \(height, width\)"):
        next(Raft(lambda video, video_pairs: iter(pairs), weights=weights).flows("VID01", make_pairs(2)))


def test_an_image_that_does_not_open_is_the_callers_error(weights):
    def open_pairs(video, pairs):
        raise KeyError(pairs[0].second_image)

    with pytest.raises(KeyError, match=r"000001\.png"):
        next(Raft(open_pairs, weights=weights).flows("VID01", make_pairs(1)))
