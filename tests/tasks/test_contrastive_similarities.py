"""Similarities equal each library's own; heatmaps equal an independent computation on its forward pass."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import transformers
from captum.attr import LayerGradCam

from medfaith.tasks.models.contrastive.lm import ContrastiveLM, predicted, tied
from tests.support.tasks.tiny_contrastive import FAMILIES, FRAMES, PROMPTS
from tests.support.tiers import keep_quick


def compute_transformers_similarity(family: str, folder: str) -> np.ndarray:
    kind = transformers.CLIPModel if family == "clip" else transformers.BlipForImageTextRetrieval
    model, processor = (c.from_pretrained(folder) for c in (kind, transformers.AutoProcessor))
    inputs = processor(text=PROMPTS, images=FRAMES, return_tensors="pt", padding=True)
    with torch.no_grad():
        if family == "blip":
            return model(**inputs, use_itm_head=False).itm_score.numpy() * 100
        return (model(**inputs).logits_per_image / model.logit_scale.exp() * 100).numpy()


def compute_open_clip_similarity(name: str) -> np.ndarray:
    import open_clip

    architecture, _, weights = name.removeprefix("open_clip:").partition(":")
    model: Any
    transform: Any
    model, _, transform = open_clip.create_model_and_transforms(architecture, pretrained=weights)
    with torch.no_grad():
        image = model.eval().encode_image(torch.stack([transform(f) for f in FRAMES]), normalize=True)
        text = model.encode_text(open_clip.get_tokenizer(architecture)(PROMPTS), normalize=True)
    return (image @ text.T).numpy() * 100


def compute_surgvlp_similarity(name: str, bert_folder: str) -> np.ndarray:
    """Follow the published recipe literally: pad each prompt to 77 words and average over the words."""
    from torchvision import models, transforms

    weights = torch.load(name.removeprefix("surgvlp:"), weights_only=True)
    weights_by_prefix: dict[str, dict[str, torch.Tensor]] = {}
    prefixes = ("backbone_img.model.", "backbone_img.global_embedder.", "backbone_text.model.")
    for key, tensor in weights.items():
        prefix = next(p for p in prefixes if p in key)
        weights_by_prefix.setdefault(prefix, {})[key.removeprefix(prefix)] = tensor
    resnet = models.resnet50()
    resnet.fc = torch.nn.Identity()  # pyrefly: ignore[bad-assignment] (torchvision declares its class)
    resnet.load_state_dict(weights_by_prefix["backbone_img.model."])
    linear = weights_by_prefix["backbone_img.global_embedder."]
    bert = transformers.BertModel(transformers.BertConfig.from_pretrained(bert_folder))
    bert.load_state_dict(
        {k: t for k, t in weights_by_prefix["backbone_text.model."].items() if "position_ids" not in k}
    )
    tokenizer: Any = transformers.AutoTokenizer.from_pretrained(bert_folder)
    resize, crop = transforms.Resize((360, 640)), transforms.CenterCrop(224)
    normal = transforms.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])
    pixels = torch.stack([normal(transforms.ToTensor()(crop(resize(image)))) for image in FRAMES])
    texts = []
    with torch.no_grad():
        image = resnet.eval()(pixels) @ linear["weight"].T + linear["bias"]
        for prompt in PROMPTS:
            inputs = tokenizer(prompt, padding="max_length", max_length=77, truncation=True, return_tensors="pt")
            layers = torch.stack(bert.eval()(**inputs, output_hidden_states=True).hidden_states[-4:])[:, 0]
            word_vectors: list[torch.Tensor] = []
            for position, piece in enumerate(tokenizer.convert_ids_to_tokens(inputs["input_ids"][0])):
                if piece == "[PAD]":
                    break
                if piece.startswith("##"):
                    word_vectors[-1] = word_vectors[-1] + layers[:, position]
                else:
                    word_vectors.append(layers[:, position])
            padding = [torch.zeros_like(word_vectors[0])] * (77 - len(word_vectors))
            texts.append(torch.stack(word_vectors + padding).mean(dim=0).sum(dim=0))
    text = torch.stack(texts)
    return 100 * torch.nn.functional.cosine_similarity(image[:, None], text[None], dim=-1).numpy()


@pytest.mark.usefixtures("small_resnet")
@pytest.mark.parametrize("family", FAMILIES)
def test_similarities_are_the_librarys_own(family, families, models):
    name = families[family]["pretrained"]
    expected = {
        "open_clip": lambda: compute_open_clip_similarity(name),
        "surgvlp": lambda: compute_surgvlp_similarity(name, families["surgvlp"]["text_model"]),
    }.get(family, lambda: compute_transformers_similarity(family, name))()
    scores = models[family].scores(FRAMES, PROMPTS)
    assert scores.shape == (5, 7)
    assert scores.dtype == np.float64
    np.testing.assert_allclose(scores, expected, atol=2e-3)
    assert np.ptp(scores, axis=0).min() > 0.01  # scores depend on the frame
    assert models[family].scores([], PROMPTS).shape == (0, 7)


def test_surgvlps_prompts_are_encoded_as_if_each_were_alone(models):
    encoder = models["surgvlp"]._encoder
    together = encoder.text(PROMPTS)
    for prompt, vector in zip(PROMPTS, together, strict=True):
        torch.testing.assert_close(encoder.text([prompt])[0], vector)


@pytest.mark.parametrize("family", ["clip", "blip", "open_clip"])  # SurgVLP's image encoder runs as OpenCLIP's does
def test_a_frame_is_scored_and_explained_as_if_it_were_alone(family, models):
    lm = models[family]
    together = lm.scores(FRAMES[:3], PROMPTS)
    for number, image in enumerate(FRAMES[:2]):
        np.testing.assert_allclose(lm.scores([image], PROMPTS)[0], together[number], atol=2e-3)
    batch = lm._explain(FRAMES[:3], PROMPTS, [[2, 0, 5], [], [4]])
    assert [len(grids) for grids, _ in batch] == [3, 0, 1]
    for image, indices, (grids, geometry) in zip(FRAMES, [[2, 0, 5], [], [4]], batch, strict=False):
        single_grids, single_geometry = lm.explain(image, PROMPTS, indices)
        np.testing.assert_allclose(grids, single_grids, atol=1e-4 * max(1, single_grids.max(initial=0)))
        assert geometry == single_geometry


def test_each_distinct_prompt_is_encoded_once(models, monkeypatch):
    lm, encoded_prompts = models["clip"], []
    encode = type(lm._encoder).text
    monkeypatch.setattr(
        type(lm._encoder), "text", lambda self, prompts: encoded_prompts.extend(prompts) or encode(self, prompts)
    )
    monkeypatch.setattr(lm, "_texts", {})
    lm.scores(FRAMES, [*PROMPTS, PROMPTS[0]])
    lm.scores(FRAMES, PROMPTS[3:])
    assert encoded_prompts == PROMPTS


@pytest.mark.parametrize(
    ("scores", "options", "expected", "ties"),
    [
        ([[1, 5, 3, 2, 2, 1, 0]], {}, [[1]], [False]),  # 90th percentile of seven: between the two highest
        ([[1, 5, 5, 2, 2, 1, 0]], {}, [[]], [True]),  # two highest: neither exceeds the percentile
        ([list(range(100))], {}, [[99, 98, 97, 96, 95, 94, 93, 92, 91, 90]], [False]),
        ([[1, 5, 3]], {"percentile": 100}, [[]], [False]),  # nothing can exceed the highest
        ([[1, 9], [2, 8], [3, 7]], {"threshold": "per_class"}, [[1], [], [0]], [False] * 3),
        ([[1, 9], [2, 8], [3, 7]], {"threshold": "per_class", "percentile": 50}, [[1], [], [0]], [False] * 3),
        ([[1, 9], [1, 9], [1, 9]], {"threshold": "per_class"}, [[], [], []], [True] * 3),  # the same image three times
        # the lowest of a class never exceeds itself
        ([[1, 9], [3, 8], [2, 7]], {"threshold": "per_class", "percentile": 0}, [[1], [1, 0], [0]], [False] * 3),
        ([[3, 1, 3, 2]], {"top_k": 3}, [[0, 2, 3]], [False]),  # ties go to the earlier class
        ([[3, 1, 2, 2]], {"top_k": 2}, [[0]], [True]),  # tie for the second place
        ([[2] * 9, [*range(9)]], {"top_k": 5}, [[], [8, 7, 6, 5, 4]], [True, False]),
        ([[3, 1]], {"top_k": 5}, [[0, 1]], [False]),
        ([[2, 2, 2]], {}, [[]], [True]),
        ([[4, 4]], {"threshold": "per_class"}, [[]], [False]),  # a single frame exceeds nothing
        (np.zeros((0, 7)), {}, [], []),
        (np.zeros((0, 7)), {"threshold": "per_class"}, [], []),
    ],
)
def test_which_classes_are_predicted_and_where_a_tie_leaves_none(scores, options, expected, ties):
    table = np.array(scores, dtype=float)
    assert predicted(table, **options) == expected
    assert tied(table, **options) == ties


@pytest.mark.parametrize("family", keep_quick(["clip", "blip"], lambda family: family == "clip"))
@pytest.mark.parametrize(
    "explainer", keep_quick(["rollout", "rollout_last", "rollout_forward"], lambda name: name == "rollout_last")
)
def test_rollout_is_the_recursion_on_the_librarys_own_forward_pass(family, explainer, families):
    folder = families[family]["pretrained"]
    lm = ContrastiveLM(folder, explainer=explainer, device="cpu")
    grids, _ = lm.explain(FRAMES[1], PROMPTS, [3, 6])
    kind = transformers.CLIPModel if family == "clip" else transformers.BlipForImageTextRetrieval
    model: Any = kind.from_pretrained(folder, attn_implementation="eager")  # with gradients
    processor = transformers.AutoProcessor.from_pretrained(folder)
    for grid, index in zip(grids, [3, 6], strict=True):
        inputs = processor(text=[PROMPTS[index]], images=FRAMES[1], return_tensors="pt")
        if family == "clip":
            output = model(**inputs, output_attentions=True)
            score, attentions = output.logits_per_image[0, 0], output.vision_model_output.attentions
            score = score / model.logit_scale.exp() * 100
        else:
            output = model(**inputs, use_itm_head=False, output_attentions=True)
            score, attentions = output.itm_score[0, 0] * 100, output.attentions
        slopes = torch.autograd.grad(score, attentions)
        weighted = [
            np.maximum((a * s)[0].detach().numpy(), 0).mean(axis=0) for a, s in zip(attentions, slopes, strict=True)
        ]
        relevance = np.eye(len(weighted[0]))
        ways = {"rollout": weighted[::-1], "rollout_forward": weighted, "rollout_last": weighted[-1:]}
        for matrix in ways[explainer]:
            relevance = relevance + matrix @ relevance
        np.testing.assert_allclose(grid, relevance[0, 1:].reshape(4, 4), rtol=2e-3, atol=1e-5)


@pytest.mark.parametrize("family", ["open_clip", "surgvlp"])
def test_grad_cam_is_captums_on_the_last_block(family, models):
    lm = models[family]
    encoder: Any = lm._encoder
    indices = [1, 4] if family == "open_clip" else [2]
    grids, _ = lm.explain(FRAMES[0], PROMPTS, indices)
    texts = encoder.text(PROMPTS)
    vision: Any = encoder.network.visual if family == "open_clip" else encoder.network["backbone_img"]["model"]
    pixels = encoder.pixels([FRAMES[0]]).requires_grad_()
    explain = LayerGradCam(lambda p: 100 * encoder.image(p) @ texts.T, vision.layer4[-1])
    for grid, target in zip(grids, indices, strict=True):
        expected: Any = explain.attribute(pixels, target=target, relu_attributions=True)
        np.testing.assert_allclose(grid, expected[0, 0].detach().numpy(), rtol=1e-3, atol=1e-5)
    assert grids.max() > 0
