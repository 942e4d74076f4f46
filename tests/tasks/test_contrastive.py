"""Similarities are each library's own, heatmaps those of an independent computation, and a store is filled once."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from captum.attr import LayerGradCam
from lm_eval.api.instance import Instance
from PIL import Image

from medfaith.loaders.errors import InputError, MedfaithError
from medfaith.tasks.explain.geometry import to_frame
from medfaith.tasks.explain.store import open_store
from medfaith.tasks.models import contrastive, contrastive_encoders
from medfaith.tasks.models.contrastive import ContrastiveLM, predicted
from tests.tasks import tiny_contrastive
from tests.tasks.tiny_contrastive import CLASSES, PROMPTS

FAMILIES = ("clip", "blip", "open_clip", "surgvlp")
EXPLAINER = {"clip": "rollout", "blip": "rollout", "open_clip": "grad_cam", "surgvlp": "grad_cam"}


@pytest.fixture(scope="module")
def arguments(tmp_path_factory) -> dict[str, dict[str, Any]]:
    """How each family's tiny model is named in model_args."""
    folder = tmp_path_factory.mktemp("models")
    checkpoint, bert = tiny_contrastive.save_surgvlp(folder / "surgvlp")
    return {
        "clip": {"pretrained": str(tiny_contrastive.save_clip(folder / "clip"))},
        "blip": {"pretrained": str(tiny_contrastive.save_blip(folder / "blip"))},
        "open_clip": {"pretrained": f"open_clip:{tiny_contrastive.save_open_clip(folder / 'open_clip')}"},
        "surgvlp": {"pretrained": f"surgvlp:{checkpoint}", "text_model": str(bert)},
    }


@pytest.fixture(scope="module")
def models(arguments) -> dict[str, Any]:
    return {family: ContrastiveLM(**arguments[family], batch_size=2, device="cpu") for family in FAMILIES}


def frame(seed: int, size: tuple[int, int] = (96, 160)) -> Image.Image:
    """Smooth noise, so that resampling leaves something of it."""
    small = np.random.default_rng(seed).integers(0, 256, (6, 8, 3), dtype=np.uint8)
    return Image.fromarray(small).resize((size[1], size[0]), Image.Resampling.BICUBIC)


FRAMES = [frame(0), frame(1), frame(2, (120, 100)), frame(3), frame(4)]


def requests_of(
    images=FRAMES, task="medfaith_surgx_instruments", top_k=0, prompts=PROMPTS, **changes
) -> list[Instance]:
    return [
        Instance(
            request_type="generate_until",
            doc={"id": f"VID42/{number}", "classes": CLASSES, "prompts": prompts, "top_k": top_k} | changes,
            arguments=("<image> Which tools?", {"until": []}, {"visual": [image]}),  # pyright: ignore[reportArgumentType]
            idx=0,
            metadata=(task, number, 1),
        )
        for number, image in enumerate(images)
    ]


def replies_of(lm: Any, requests: list[Instance]) -> list[dict[str, Any]]:
    return [json.loads(reply) for reply in lm.generate_until(requests, disable_tqdm=True)]


# Similarities


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


@pytest.mark.parametrize("family", FAMILIES)
def test_similarities_are_the_librarys_own(family, arguments, models):
    name = arguments[family]["pretrained"]
    expected = {
        "clip": lambda: clip_similarity(name),
        "blip": lambda: blip_similarity(name),
        "open_clip": lambda: open_clip_similarity(name),
        "surgvlp": lambda: surgvlp_similarity(name, arguments["surgvlp"]["text_model"]),
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


# Heatmaps


@pytest.mark.parametrize("family", ["clip", "blip"])
@pytest.mark.parametrize("explainer", ["rollout", "rollout_last", "rollout_forward"])
def test_rollout_is_the_recursion_on_the_librarys_own_forward_pass(family, explainer, arguments):
    folder = arguments[family]["pretrained"]
    lm = ContrastiveLM(folder, explainer=explainer, device="cpu")
    grids, _ = lm.explain(FRAMES[1], PROMPTS, [3, 6])
    kind = transformers.CLIPModel if family == "clip" else transformers.BlipForImageTextRetrieval
    model: Any = kind.from_pretrained(folder, attn_implementation="eager")  # weights not frozen
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
        for matrix in {"rollout": weighted[::-1], "rollout_forward": weighted, "rollout_last": weighted[-1:]}[
            explainer
        ]:
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


# Replies and the store


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_end_to_end(family, arguments, tmp_path):
    """Replies, and heatmaps that lie inside what the model saw of the frame, nothing beside it."""
    text = ",".join(f"{name}={value}" for name, value in arguments[family].items())
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
    assert {reply["heatmaps"] for reply in replies} == {store.keys()[0]}  # the same prompts: the same maps
    assert store.model(store.keys()[0])["explainer"] == EXPLAINER[family]
    for reply in replies[2:]:
        assert reply["predicted"] == [CLASSES[int(np.argmax(reply["scores"]))]]  # 7 classes: the arg-max


def test_without_a_store_nothing_is_explained(models, monkeypatch):
    monkeypatch.setattr(models["clip"], "_explain", lambda *_: pytest.fail("explained"))
    assert [reply["heatmaps"] for reply in replies_of(models["clip"], requests_of())] == [None] * 5


class Counting:
    """Counts the frames that a model scores and the frames that it explains."""

    def __init__(self, monkeypatch):
        self.scored, self.explained = 0, 0
        score, explain = ContrastiveLM.scores, ContrastiveLM._explain

        def scores(lm, images, prompts):
            self.scored += len(images)
            return score(lm, images, prompts)

        def grids(lm, images, prompts, indices):
            self.explained += sum(len(own) for own in indices)
            return explain(lm, images, prompts, indices)

        monkeypatch.setattr(ContrastiveLM, "scores", scores)
        monkeypatch.setattr(ContrastiveLM, "_explain", grids)

    def take(self):
        counts, self.scored, self.explained = (self.scored, self.explained), 0, 0
        return counts


def test_a_run_goes_on_where_it_was_stopped(arguments, tmp_path, monkeypatch):
    counting = Counting(monkeypatch)

    def run(images=FRAMES, **changes):
        top_k = changes.pop("top_k", 2)
        lm = ContrastiveLM(**{**arguments["clip"], **changes}, store=str(tmp_path), batch_size=2, device="cpu")
        return replies_of(lm, requests_of(images, top_k=top_k))

    first = run(FRAMES[:3])
    assert counting.take() == (3, 6)
    whole = run()
    assert counting.take() == (2, 4)  # only what was missing
    assert whole[:3] == first
    assert run() == whole
    assert counting.take() == (0, 0)
    store = open_store(tmp_path)
    (key,) = store.keys()
    before = store.read(key, "VID42/0")
    run(top_k=3)
    assert counting.take() == (0, 5)  # one class more a frame
    after = store.read(key, "VID42/0")
    assert len(after.maps) == 3
    for name, grid in before.maps.items():
        np.testing.assert_allclose(after.maps[name], grid, rtol=1e-3)
    run([frame(9), *FRAMES[1:]])
    assert counting.take() == (1, 2)  # the same row, another image
    run(explainer="rollout_last")
    assert counting.take() == (5, 10)
    assert len(store.keys()) == 2


def test_models_prompts_and_weights_have_stores_of_their_own(arguments, tmp_path):
    other = tiny_contrastive.save_clip(tmp_path / "elsewhere" / "clip", seed=1)
    for name in (arguments["clip"]["pretrained"], str(other)):
        lm = ContrastiveLM(name, store=str(tmp_path / "maps"), device="cpu")
        replies_of(lm, requests_of(FRAMES[:1]))
    replies_of(lm, requests_of(FRAMES[:1], prompts=[prompt + " ," for prompt in PROMPTS]))
    assert len(open_store(tmp_path / "maps").keys()) == 3


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.int64])
def test_weights_of_every_number_type_have_a_digest(dtype):
    network, other = torch.nn.Module(), torch.nn.Module()
    network.register_buffer("x", torch.tensor(3, dtype=dtype))
    other.register_buffer("x", torch.tensor(4, dtype=dtype))
    assert contrastive_encoders.weights_digest(network) == contrastive_encoders.weights_digest(network)
    assert contrastive_encoders.weights_digest(network) != contrastive_encoders.weights_digest(other)


def test_the_same_weights_in_another_folder_are_the_same_model(arguments, tmp_path):
    copy = tiny_contrastive.save_clip(tmp_path / "copy" / "clip")
    for name in (arguments["clip"]["pretrained"], str(copy)):
        replies_of(ContrastiveLM(name, store=str(tmp_path / "maps"), device="cpu"), requests_of(FRAMES[:1]))
    assert len(open_store(tmp_path / "maps").keys()) == 1


def test_a_threshold_per_class_looks_at_all_frames_of_the_task(arguments):
    lm = ContrastiveLM(**arguments["blip"], threshold="per_class", percentile=50, batch_size=2, device="cpu")
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


# Bad input


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"threshold": "global"}, "threshold: is 'global'"),
        ({"percentile": 101}, "percentile: is 101"),
        (
            {"explainer": "grad_cam"},
            "explainer: is 'grad_cam'\n  expected: auto, rollout, rollout_last, rollout_forward",
        ),
        ({"batch_size": 0}, "batch_size: is 0"),
        ({"batch_size": "many"}, "batch_size: is 'many'"),
        ({"pretrained": "/no/such/folder"}, "/no/such/folder: cannot be loaded"),
        ({"pretrained": "open_clip:RN50"}, "names no weights"),
        ({"pretrained": "open_clip:tiny-rn:/no/such/file.pt"}, "cannot be loaded"),
        ({"pretrained": "open_clip:no-such-model:openai"}, "cannot be loaded"),
        ({"pretrained": "surgvlp:/no/such/file.pth"}, "/no/such/file.pth: cannot be loaded"),
    ],
)
def test_arguments_that_are_none(arguments, change, message):
    with pytest.raises(MedfaithError) as caught:
        ContrastiveLM(**(arguments["clip"] | change))
    assert message in str(caught.value)


def test_an_automatic_batch_size(arguments):
    assert contrastive._batch_size("auto", None) == 16
    assert contrastive._batch_size("auto:4", 8) == 8
    assert contrastive._batch_size("3", None) == 3


def test_a_model_of_another_kind(tmp_path):
    transformers.BertConfig(hidden_size=4, num_attention_heads=2).save_pretrained(tmp_path)
    with pytest.raises(InputError, match="is a bert model"):
        ContrastiveLM(str(tmp_path))


def test_weights_that_would_be_random(arguments, tmp_path):
    model = transformers.CLIPModel.from_pretrained(arguments["clip"]["pretrained"])
    kept = {name: tensor for name, tensor in model.state_dict().items() if not name.startswith("visual_projection")}
    model.save_pretrained(tmp_path, state_dict=kept)
    transformers.AutoProcessor.from_pretrained(arguments["clip"]["pretrained"]).save_pretrained(tmp_path)
    with pytest.raises(InputError, match=r"has no weights for visual_projection\.weight: they would be random"):
        ContrastiveLM(str(tmp_path))


def test_a_vision_transformer_of_open_clip(tmp_path):
    vision = {"image_size": 32, "layers": 1, "width": 16, "head_width": 8, "patch_size": 16}
    name = tiny_contrastive.save_open_clip(tmp_path, "tiny-vit", vision_cfg=vision)
    with pytest.raises(MedfaithError, match="has no ResNet"):
        ContrastiveLM(f"open_clip:{name}")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"prompts": PROMPTS[:6]}, "7 classes, 6 prompts, 1 images"),
        ({"classes": [], "prompts": []}, "0 classes, 0 prompts, 1 images"),
    ],
)
def test_documents_that_are_none(models, change, message):
    (request,) = requests_of(FRAMES[:1])
    request.doc |= change
    with pytest.raises(InputError, match=message) as caught:
        models["clip"].generate_until([request])
    assert "medfaith_surgx_instruments, row VID42/0" in str(caught.value)


def test_documents_of_another_task_or_with_other_than_one_image(models):
    (request,) = requests_of(FRAMES[:1])
    del request.doc["prompts"], request.doc["top_k"]
    with pytest.raises(InputError, match="the document has no prompts, top_k"):
        models["clip"].generate_until([request])
    for visual in ([], FRAMES[:2]):
        (request,) = requests_of(FRAMES[:1])
        request.arguments = ("", {}, {"visual": visual})  # pyright: ignore[reportAttributeAccessIssue]
        with pytest.raises(InputError, match=f"7 prompts, {len(visual)} images"):
            models["clip"].generate_until([request])


def test_two_images_under_one_id(arguments, tmp_path):
    requests = requests_of(FRAMES[:2])
    requests[1].doc["id"] = requests[0].doc["id"]
    lm = ContrastiveLM(**arguments["clip"], store=str(tmp_path), device="cpu")
    with pytest.raises(InputError, match="another row of this id has another image"):
        lm.generate_until(requests, disable_tqdm=True)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_prompt_is_not_cut_in_silence(family, models):
    limit = {"clip": 16, "blip": 64, "open_clip": 16, "surgvlp": 77}[family]
    fits = " ".join(["a"] * (limit - 2))  # with a start and an end
    assert len(models[family]._text([fits])) == 1
    with pytest.raises(InputError, match=rf"has {limit + 1} tokens\n  expected: at most {limit}"):
        models[family]._text([fits + " a"])


def test_broken_weights_give_no_reply(arguments, monkeypatch):
    lm = ContrastiveLM(**arguments["clip"], device="cpu")
    lm._encoder.network.visual_projection.weight[0, 0] = float("nan")
    with pytest.raises(MedfaithError, match="similarities that are not numbers"):
        lm.scores(FRAMES[:1], PROMPTS)


def test_probabilities_of_text_are_refused(models):
    with pytest.raises(TypeError, match="no probability of text"):
        models["clip"].loglikelihood([])
    with pytest.raises(TypeError, match="no probability of text"):
        models["clip"].loglikelihood_rolling([])


def test_a_name_without_its_folder(tmp_path):
    (tmp_path / "clip").mkdir()
    assert contrastive_encoders.short_name(str(tmp_path / "clip")) == "clip"
    assert contrastive_encoders.short_name(f"open_clip:RN50:{tmp_path / 'clip'}") == "open_clip:RN50:clip"
    assert contrastive_encoders.short_name("openai/clip-vit-base-patch32") == "openai/clip-vit-base-patch32"
