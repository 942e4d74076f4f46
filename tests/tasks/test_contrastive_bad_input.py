"""Invalid arguments, weights and documents of contrastive models raise errors that name them."""

from __future__ import annotations

import pytest
import transformers

from medfaith.loaders.errors import InputError, MedfaithError
from medfaith.tasks.explain.reader import HeatmapReader
from medfaith.tasks.models.contrastive.lm import ContrastiveLM
from medfaith.tasks.models.image_lm import parse_batch_size
from medfaith.tasks.models.model_names import strip_folder
from tests.support.tasks import tiny_contrastive
from tests.support.tasks.tiny_contrastive import FAMILIES, FRAMES, PROMPTS, build_requests


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"threshold": "global"}, "threshold: is 'global'"),
        ({"percentile": 101}, "percentile: is 101"),
        ({"explainer": "grad_cam"}, "is 'grad_cam'\n  expected: auto, rollout, rollout_last, rollout_forward"),
        ({"batch_size": 0}, "batch_size: is 0"),
        ({"batch_size": "many"}, "batch_size: is 'many'"),
        ({"pretrained": "/no/such/folder"}, "/no/such/folder: cannot be loaded"),
        ({"pretrained": "open_clip:RN50"}, "names no weights"),
        ({"pretrained": "open_clip:tiny-rn:/no/such/file.pt"}, "cannot be loaded"),
        ({"pretrained": "open_clip:no-such-model:openai"}, "cannot be loaded"),
        ({"pretrained": "surgvlp:/no/such/file.pth"}, "/no/such/file.pth: cannot be loaded"),
    ],
)
def test_arguments_that_are_none(families, change, message):
    with pytest.raises(MedfaithError) as caught:
        ContrastiveLM(**(families["clip"] | change))
    assert message in str(caught.value)


def test_an_automatic_batch_size():
    assert parse_batch_size("auto", None) == 16
    assert parse_batch_size("auto:4", 8) == 8
    assert parse_batch_size("3", None) == 3


def test_a_model_of_another_kind(tmp_path):
    transformers.BertConfig(hidden_size=4, num_attention_heads=2).save_pretrained(tmp_path)
    with pytest.raises(InputError, match="is a bert model"):
        ContrastiveLM(str(tmp_path))


def test_weights_that_would_be_random(families, tmp_path):
    model = transformers.CLIPModel.from_pretrained(families["clip"]["pretrained"])
    remaining_weights = {
        name: tensor for name, tensor in model.state_dict().items() if not name.startswith("visual_projection")
    }
    model.save_pretrained(tmp_path, state_dict=remaining_weights)
    transformers.AutoProcessor.from_pretrained(families["clip"]["pretrained"]).save_pretrained(tmp_path)
    with pytest.raises(InputError, match=r"has no weights for visual_projection\.weight: they would be random"):
        ContrastiveLM(str(tmp_path))


def test_a_vision_transformer_of_open_clip(tmp_path):
    vision = {"image_size": 32, "layers": 1, "width": 16, "head_width": 8, "patch_size": 16}
    name = tiny_contrastive.save_open_clip(tmp_path, "tiny-vit", vision_cfg=vision)
    with pytest.raises(MedfaithError, match="has no ResNet"):
        ContrastiveLM(f"open_clip:{name}")


@pytest.mark.parametrize(
    ("change", "visual", "message"),
    [
        ({"prompts": PROMPTS[:6]}, FRAMES[:1], "VID42/0: 7 classes, 6 prompts, 1 images"),
        ({"classes": [], "prompts": []}, FRAMES[:1], "VID42/0: 0 classes, 0 prompts, 1 images"),
        ({}, [], "VID42/0: 7 classes, 7 prompts, 0 images"),
        ({}, FRAMES[:2], "VID42/0: 7 classes, 7 prompts, 2 images"),
        ({"prompts": None, "top_k": None}, FRAMES[:1], "0: the document has no prompts, top_k"),
    ],
)
def test_documents_that_are_none(models, change, visual, message):
    (request,) = build_requests(FRAMES[:1])
    request.doc = {name: value for name, value in (request.doc | change).items() if value is not None}
    request.arguments = ("", {}, {"visual": visual})
    with pytest.raises(InputError, match=f"medfaith_surgx_instruments, row {message}"):
        models["clip"].generate_until([request])


@pytest.mark.parametrize("family", FAMILIES)
def test_a_prompt_is_not_cut_in_silence(family, models):
    limit = {"clip": 16, "blip": 64, "open_clip": 16, "surgvlp": 77}[family]
    fits = " ".join(["a"] * (limit - 2))  # with a start and an end
    assert len(models[family]._text([fits])) == 1
    with pytest.raises(InputError, match=rf"has {limit + 1} tokens\n  expected: at most {limit}"):
        models[family]._text([fits + " a"])


def test_broken_weights_give_no_reply(families):
    lm = ContrastiveLM(**families["clip"], device="cpu")
    lm._encoder.network.visual_projection.weight[0, 0] = float("nan")
    with pytest.raises(MedfaithError, match="similarities that are not numbers"):
        lm.scores(FRAMES[:1], PROMPTS)


@pytest.mark.parametrize("folder", [None, "elsewhere"])
def test_heatmaps_that_could_not_be_found_stop_the_run_before_its_first_answer(families, tmp_path, monkeypatch, folder):
    lm = ContrastiveLM(**families["clip"], store=str(tmp_path / "store"), device="cpu")
    monkeypatch.setattr(lm._encoder, "pixels", lambda _: pytest.fail("scored"))
    heatmaps = HeatmapReader(folder and str(tmp_path / folder))
    with pytest.raises(InputError, match=r"store=(.|\n)*--heatmaps DIR"):
        lm.generate_until(build_requests(heatmaps=heatmaps))


def test_probabilities_of_text_are_refused(models):
    for method in (models["clip"].loglikelihood, models["clip"].loglikelihood_rolling):
        with pytest.raises(MedfaithError, match="no probability of text"):
            method([])


def test_a_name_without_its_folder(tmp_path):
    (tmp_path / "clip").mkdir()
    assert strip_folder(str(tmp_path / "clip")) == "clip"
    assert strip_folder(f"open_clip:RN50:{tmp_path / 'clip'}") == "open_clip:RN50:clip"
    assert strip_folder("openai/clip-vit-base-patch32") == "openai/clip-vit-base-patch32"
