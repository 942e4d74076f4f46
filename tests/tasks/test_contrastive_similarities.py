"""Similarities are each library's own, of a batch as of each frame alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import transformers

from medfaith.tasks.models.contrastive import predicted
from tests.tasks.tiny_contrastive import FAMILIES, FRAMES, PROMPTS


def clip_similarity(folder: str) -> np.ndarray:
    model, processor = (c.from_pretrained(folder) for c in (transformers.CLIPModel, transformers.AutoProcessor))
    inputs = processor(text=PROMPTS, images=FRAMES, return_tensors="pt", padding=True)
    with torch.no_grad():
        return (model(**inputs).logits_per_image / model.logit_scale.exp() * 100).numpy()


def blip_similarity(folder: str) -> np.ndarray:
    model = transformers.BlipForImageTextRetrieval.from_pretrained(folder)
    processor = transformers.AutoProcessor.from_pretrained(folder)
    inputs = processor(text=PROMPTS, images=FRAMES, return_tensors="pt", padding=True)
    with torch.no_grad():
        return model(**inputs, use_itm_head=False).itm_score.numpy() * 100


def open_clip_similarity(name: str) -> np.ndarray:
    import open_clip

    architecture, _, weights = name.removeprefix("open_clip:").partition(":")
    model: Any
    transform: Any
    model, _, transform = open_clip.create_model_and_transforms(architecture, pretrained=weights)
    with torch.no_grad():
        image = model.eval().encode_image(torch.stack([transform(f) for f in FRAMES]), normalize=True)
        return (
            image @ model.encode_text(open_clip.get_tokenizer(architecture)(PROMPTS), normalize=True).T
        ).numpy() * 100


def surgvlp_similarity(name: str, bert_folder: str) -> np.ndarray:
    """By the published recipe, written as it is described: word by word, padded to 77 words, averaged over them."""
    from torchvision import models, transforms

    weights = torch.load(name.removeprefix("surgvlp:"), weights_only=True)
    parts: dict[str, dict[str, torch.Tensor]] = {}
    for key, tensor in weights.items():
        prefix = next(
            p for p in ("backbone_img.model.", "backbone_img.global_embedder.", "backbone_text.model.") if p in key
        )
        parts.setdefault(prefix, {})[key.removeprefix(prefix)] = tensor
    resnet = models.resnet50()
    resnet.fc = torch.nn.Identity()  # pyright: ignore[reportAttributeAccessIssue]
    resnet.load_state_dict(parts["backbone_img.model."])
    linear = parts["backbone_img.global_embedder."]
    bert = transformers.BertModel(transformers.BertConfig.from_pretrained(bert_folder))
    bert.load_state_dict({k: t for k, t in parts["backbone_text.model."].items() if "position_ids" not in k})
    tokenizer = transformers.AutoTokenizer.from_pretrained(bert_folder)
    resize, crop = transforms.Resize((360, 640)), transforms.CenterCrop(224)
    normal = transforms.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])
    pixels = torch.stack([normal(transforms.ToTensor()(crop(resize(image)))) for image in FRAMES])
    texts = []
    with torch.no_grad():
        image = resnet.eval()(pixels) @ linear["weight"].T + linear["bias"]
        for prompt in PROMPTS:
            inputs = tokenizer(prompt, padding="max_length", max_length=77, truncation=True, return_tensors="pt")
            layers = torch.stack(bert.eval()(**inputs, output_hidden_states=True).hidden_states[-4:])[:, 0]
            words: list[torch.Tensor] = []
            for position, piece in enumerate(tokenizer.convert_ids_to_tokens(inputs["input_ids"][0])):
                if piece == "[PAD]":
                    break
                if piece.startswith("##"):
                    words[-1] = words[-1] + layers[:, position]
                else:
                    words.append(layers[:, position])
            padding = [torch.zeros_like(words[0])] * (77 - len(words))
            texts.append(torch.stack(words + padding).mean(dim=0).sum(dim=0))
    text = torch.stack(texts)
    return 100 * torch.nn.functional.cosine_similarity(image[:, None], text[None], dim=-1).numpy()


@pytest.mark.usefixtures("small_resnet")
@pytest.mark.parametrize("family", FAMILIES)
def test_similarities_are_the_librarys_own(family, families, models):
    name = families[family]["pretrained"]
    expected = {
        "clip": lambda: clip_similarity(name),
        "blip": lambda: blip_similarity(name),
        "open_clip": lambda: open_clip_similarity(name),
        "surgvlp": lambda: surgvlp_similarity(name, families["surgvlp"]["text_model"]),
    }[family]()
    scores = models[family].scores(FRAMES, PROMPTS)
    assert scores.shape == (5, 7)
    assert scores.dtype == np.float64
    np.testing.assert_allclose(scores, expected, atol=2e-3)
    assert np.ptp(scores, axis=0).min() > 0.01  # what a model says depends on the frame
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
        alone, alone_geometry = lm.explain(image, PROMPTS, indices)
        np.testing.assert_allclose(grids, alone, atol=1e-4 * max(1, alone.max(initial=0)))
        assert geometry == alone_geometry


def test_each_distinct_prompt_is_encoded_once(models, monkeypatch):
    lm, seen = models["clip"], []
    encode = type(lm._encoder).text
    monkeypatch.setattr(type(lm._encoder), "text", lambda self, prompts: seen.extend(prompts) or encode(self, prompts))
    monkeypatch.setattr(lm, "_texts", {})
    lm.scores(FRAMES, [*PROMPTS, PROMPTS[0]])
    lm.scores(FRAMES, PROMPTS[3:])
    assert seen == PROMPTS


@pytest.mark.parametrize(
    ("scores", "options", "expected"),
    [
        ([[1, 5, 3, 2, 2, 1, 0]], {}, [[1]]),  # 90th percentile of seven: between the two highest
        ([[1, 5, 5, 2, 2, 1, 0]], {}, [[]]),  # two highest: neither exceeds the percentile
        ([list(range(100))], {}, [[99, 98, 97, 96, 95, 94, 93, 92, 91, 90]]),
        ([[1, 9], [2, 8], [3, 7]], {"threshold": "per_class"}, [[1], [], [0]]),
        ([[1, 9], [2, 8], [3, 7]], {"threshold": "per_class", "percentile": 50}, [[1], [], [0]]),
        # the lowest of a class never exceeds itself
        ([[1, 9], [3, 8], [2, 7]], {"threshold": "per_class", "percentile": 0}, [[1], [1, 0], [0]]),
        ([[3, 1, 3, 2]], {"top_k": 3}, [[0, 2, 3]]),  # of equal scores the earlier
        ([[3, 1]], {"top_k": 5}, [[0, 1]]),
        ([[2, 2, 2]], {}, [[]]),
        ([[4, 4]], {"threshold": "per_class"}, [[]]),  # one frame exceeds nothing
    ],
)
def test_which_classes_are_predicted(scores, options, expected):
    assert predicted(np.array(scores, dtype=float), **options) == expected


def test_no_frames_no_predictions():
    assert predicted(np.zeros((0, 7))) == []
    assert predicted(np.zeros((0, 7)), threshold="per_class") == []
