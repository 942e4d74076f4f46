"""SurgVLP's checkpoints: the released file, the training's archive, and files that are neither."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import transformers

from medfaith.loaders.errors import InputError
from medfaith.tasks.models.contrastive import surgvlp
from medfaith.tasks.models.contrastive.lm import ContrastiveLM


@pytest.fixture
def saved(families, small_resnet) -> tuple[Path, str]:
    """A checkpoint, and the folder of its text model."""
    return Path(families["surgvlp"]["pretrained"].removeprefix("surgvlp:")), families["surgvlp"]["text_model"]


@pytest.fixture
def checkpoint(saved) -> tuple[dict[str, torch.Tensor], str]:
    return torch.load(saved[0], weights_only=True), saved[1]


def test_the_released_names_and_sizes():
    with torch.device("meta"):
        network = surgvlp._network(transformers.BertModel(transformers.BertConfig(vocab_size=28996)), {})
    sizes = {name: tuple(tensor.shape) for name, tensor in network.state_dict().items()}
    assert sizes["backbone_img.model.layer3.5.conv3.weight"] == (1024, 256, 1, 1)
    assert sizes["backbone_img.model.layer4.2.conv3.weight"] == (2048, 512, 1, 1)
    assert sizes["backbone_img.global_embedder.weight"] == (768, 2048)
    assert sizes["backbone_text.model.encoder.layer.11.output.dense.weight"] == (768, 3072)


def test_the_trainings_own_archive_loads_as_the_released_one(saved, checkpoint, tmp_path):
    weights, bert = checkpoint
    names = {"backbone_img.": "module.visual.", "backbone_text.": "module.text_module."}
    archive = {}
    for name, tensor in weights.items():
        prefix = next(prefix for prefix in names if name.startswith(prefix))
        archive[names[prefix] + name.removeprefix(prefix)] = tensor
    torch.save({"state_dict": archive, "epoch": 3}, tmp_path / "epoch0003.pth.tar")
    lm = ContrastiveLM(f"surgvlp:{tmp_path / 'epoch0003.pth.tar'}", text_model=bert, device="cpu")
    released = ContrastiveLM(f"surgvlp:{saved[0]}", text_model=bert, device="cpu")
    assert lm._encoder.weights == released._encoder.weights


CONV1, CONV3 = (f"backbone_img.model.{name}.weight" for name in ("conv1", "layer4.2.conv3"))


@pytest.mark.parametrize(
    ("lost", "added", "message"),
    [
        (CONV3, {}, r"lacks backbone_img\.model\.layer4\.2\.conv3"),
        ("layer.", {}, r"lacks .* and \d\d more"),
        (None, {"neck": torch.zeros(1)}, "has also neck"),
        (None, {CONV1: torch.zeros(64, 3, 3, 3)}, r"has in another shape backbone_img\.model\.conv1\.weight"),
        (None, {"name": "SurgVLP"}, "is not a mapping of names to tensors"),
    ],
)
def test_checkpoints_with_other_weights(checkpoint, tmp_path, lost, added, message):
    weights, bert = checkpoint
    weights = {name: tensor for name, tensor in weights.items() if not lost or lost not in name}
    torch.save(weights | added, tmp_path / "other.pth")
    with pytest.raises(InputError, match=rf"other\.pth: {message}"):
        ContrastiveLM(f"surgvlp:{tmp_path / 'other.pth'}", text_model=bert, device="cpu")


def test_a_file_that_is_no_checkpoint_and_a_text_model_that_is_not_there(saved, tmp_path):
    (tmp_path / "x.pth").write_bytes(b"<html>404</html>")
    with pytest.raises(InputError, match=r"x\.pth: cannot be loaded"):
        ContrastiveLM(f"surgvlp:{tmp_path / 'x.pth'}", text_model=saved[1])
    with pytest.raises(InputError, match=r"text_model=/no/folder: cannot be loaded(.|\n)*emilyalsentzer/Bio_Clinical"):
        ContrastiveLM(f"surgvlp:{saved[0]}", text_model="/no/folder")
