"""Initial encoders of training: they compute the same as the libraries' models, and other files are refused."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torchvision.models.feature_extraction import create_feature_extractor
from torchvision.models.resnet import BasicBlock, Bottleneck, ResNet
from transformers import BertConfig, BertModel, ResNetConfig, ResNetModel, RobertaConfig, RobertaModel

from medfaith.loaders.errors import InputError
from medfaith.tasks.models.alignment.gloria import load_gloria
from medfaith.tasks.models.alignment.gloria_text import tokenize
from medfaith.training.encoders import load_bert, load_resnet
from medfaith.training.run import start
from tests.support.training.training_scene import SIDE

SIZES = {"intermediate_size": 32, "num_hidden_layers": 4, "vocab_size": 200}
PIXELS = torch.linspace(-1, 1, 2 * 3 * SIDE * SIDE).sin().reshape(2, 3, SIDE, SIDE)
TEXTS = ["There is a mass in the left lung.", "Lungs are clear."]


def build_library_resnet(place: Path) -> ResNet:
    model = ResNet(Bottleneck, [2, 1, 1, 1], width_per_group=8)
    model.load_state_dict(torch.load(place))
    return model.eval()


def test_both_encoders_compute_what_the_libraries_models_do(encoders, tmp_path):
    """At the start of training, and after loading the checkpoint."""
    place, folder = encoders
    model, tokenizer = start(None, str(folder), image_encoder=str(place), text_encoder=str(folder), tiny=True)
    model.save_checkpoint(tmp_path / "gloria.ckpt")
    tokens = tokenize(tokenizer, TEXTS)
    with torch.no_grad():
        features = create_feature_extractor(build_library_resnet(place), ["layer3", "avgpool"])(PIXELS)
        bert = BertModel.from_pretrained(folder)
        states = bert(tokens.ids, tokens.mask, output_hidden_states=True).hidden_states
        expected = torch.stack(states[-4:]).sum(dim=0)[0]
        for gloria in (model.eval(), load_gloria(tmp_path / "gloria.ckpt").eval()):
            regions, image_features = gloria.encode_images(PIXELS)
            torch.testing.assert_close(regions, gloria.img_encoder.local_embedder(features["layer3"]))
            torch.testing.assert_close(
                image_features, gloria.img_encoder.global_embedder(features["avgpool"].flatten(1))
            )
            sentence = gloria.encode_texts(tokens)[0][0]
            torch.testing.assert_close(sentence.start, expected[0])
            torch.testing.assert_close(sentence.words.sum(dim=0), expected[tokens.mask[0] > 0][1:-1].sum(dim=0))


@pytest.mark.parametrize("form", ["resnet.pth", "old.pth", "resnet.safetensors", "folder"])
def test_every_form_gives_the_same_weights(encoders, tmp_path, form):
    weights = build_library_resnet(encoders[0]).state_dict()
    place = tmp_path / form
    if form == "old.pth":  # before batch norms counted
        weights = {name: weight for name, weight in weights.items() if not name.endswith("num_batches_tracked")}
    if form.endswith(".pth"):
        torch.save(weights, place)
    elif form == "folder":
        place.mkdir()
        save_file(weights, place / "model.safetensors")
    else:
        save_file(weights, place)
    resnet = load_resnet(str(place))
    assert (resnet.layers, resnet.width) == ([2, 1, 1, 1], 8)
    assert resnet.weights.keys() == {name for name in weights if not name.startswith("fc.")}
    assert all(torch.equal(weight, weights[name]) for name, weight in resnet.weights.items())


@pytest.mark.full
def test_timms_names_are_torchvisions(tmp_path):
    timm = pytest.importorskip("timm")
    library = timm.models.resnet.ResNet(timm.models.resnet.Bottleneck, [1, 1, 2, 1], base_width=8).eval()
    save_file(library.state_dict(), tmp_path / "model.safetensors")
    resnet = load_resnet(str(tmp_path))
    assert (resnet.layers, resnet.width) == ([1, 1, 2, 1], 8)
    ours = ResNet(Bottleneck, resnet.layers, width_per_group=resnet.width).eval()
    ours.load_state_dict(resnet.weights, strict=False)
    with torch.no_grad():
        features = create_feature_extractor(ours, ["layer4"])(PIXELS)["layer4"]
        torch.testing.assert_close(features, library.forward_features(PIXELS))


def test_what_is_not_given_is_random_and_of_the_same_seed(encoders):
    options = {"image_encoder": str(encoders[0]), "tiny": True}
    reference, same_seed, other_seed = (start(None, str(encoders[1]), **options, seed=seed)[0] for seed in (0, 0, 1))
    assert all(map(torch.equal, reference.parameters(), same_seed.parameters()))
    assert torch.equal(reference.img_encoder.model.conv1.weight, other_seed.img_encoder.model.conv1.weight)
    assert not torch.equal(
        *(gloria.text_encoder.model.embeddings.word_embeddings.weight for gloria in (reference, other_seed))
    )


def save_other_resnet(weights: dict[str, torch.Tensor], folder: Path, kind: str) -> str:
    """Save a file other than a bottleneck ResNet with torchvision's names."""
    file = folder / "other.pth"
    if kind == "transformers":
        config = ResNetConfig(embedding_size=8, hidden_sizes=[8, 8, 8, 8], depths=[1, 1, 1, 1])
        ResNetModel(config).save_pretrained(folder / "other")
        return str(folder / "other")
    if kind in ("folder", "missing.pth"):
        return str(folder / kind.removeprefix("folder"))
    if kind == "basic":
        weights = ResNet(BasicBlock, [1, 1, 1, 1]).state_dict()
    elif kind == "deep stem":
        weights["conv1.0.weight"] = weights.pop("conv1.weight")
    content = {"text": "no weights", "nested": {"state_dict": weights}}.get(kind, weights)
    if kind == "html":
        file.write_bytes(b"<html>404</html>")
    else:
        torch.save(content, file)
    return str(file)


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("transformers", r"lacks layer1\.0\.conv1\.weight, but has embedder\."),
        ("basic", r"lacks layer1\.0\.bn3\.bias, .* more"),
        ("deep stem", r"lacks conv1\.weight; has also conv1\.0\.weight"),
        ("nested", "is no mapping of names to tensors"),
        ("text", "is no mapping of names to tensors"),
        ("html", "cannot be loaded"),
        ("folder", "cannot be loaded"),
        ("missing.pth", "cannot be loaded .*No such file"),
    ],
)
def test_another_image_encoder_is_refused(encoders, tmp_path, kind, message):
    name = save_other_resnet(torch.load(encoders[0]), tmp_path, kind)
    with pytest.raises(InputError, match=f"--image-encoder {name}: {message}") as caught:
        load_resnet(name)
    assert "expected: the weights of a ResNet of bottlenecks under torchvision's names" in str(caught.value)


def test_a_name_that_is_nowhere_is_refused(tmp_path):
    for load in (load_resnet, load_bert):
        with pytest.raises(InputError, match="encoder nobody/nothing: cannot be loaded"):
            load("nobody/nothing")


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (RobertaConfig(**SIZES, hidden_size=64, num_attention_heads=1), "is of the type roberta"),
        (BertConfig(**SIZES, hidden_size=64, num_attention_heads=2), "has num_attention_heads 2"),
        (BertConfig(**SIZES, hidden_size=64, num_attention_heads=1, hidden_act="relu"), "has hidden_act relu"),
        (
            BertConfig(**SIZES, hidden_size=64, num_attention_heads=1, max_position_embeddings=96),
            "reads 96 word pieces",
        ),
    ],
)
def test_another_text_encoder_is_refused(tmp_path, config, message):
    (RobertaModel if isinstance(config, RobertaConfig) else BertModel)(config).save_pretrained(tmp_path)
    with pytest.raises(InputError, match=f"--text-encoder {tmp_path}: {message}"):
        load_bert(str(tmp_path))


def test_a_bert_that_lacks_weights_is_refused(encoders, tmp_path):
    model = BertModel.from_pretrained(encoders[1])
    weights = {name: weight for name, weight in model.state_dict().items() if "layer.3.output" not in name}
    model.save_pretrained(tmp_path, state_dict=weights)
    with pytest.raises(InputError, match=r"lacks encoder\.layer\.3\.output.* and 3 others"):
        load_bert(str(tmp_path))
