"""Each decoder against a plain loop: one row at a time, two models without a cache, and numpy."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import pytest
import torch
from lm_eval.api.instance import Instance
from PIL import Image
from scipy.special import log_softmax
from sklearn.metrics import roc_auc_score

from medfaith.cli import main
from medfaith.loaders import rle
from medfaith.loaders.errors import InputError, MedfaithError
from medfaith.tasks.decoding import highlight
from medfaith.tasks.decoding.decoders import DECODERS, choose
from medfaith.tasks.decoding.noise import add_noise
from medfaith.tasks.heal.localization import read_reply
from medfaith.tasks.models.vlm import decoded_vlm
from medfaith.tasks.models.vlm.explained_vlm import ExplainedVLM
from medfaith.tasks.models.vlm.families import Seen, claimed, compute_tiles, families
from medfaith.tasks.models.vlm.hf_vlm import HFVisionLM
from tests.support.tasks import asking
from tests.support.tasks.asking import noise
from tests.support.tasks.family_kinds import FILES, SIZES, TINY, get_family, list_kinds
from tests.support.tiers import keep_quick

pytestmark = pytest.mark.usefixtures("tables_alone")

DECODED = [file for file in FILES if get_family(file).decoded]
QUESTIONS = ["Edema?", "Is there a mass in the left lung, or none at all?"]
N_TOKENS = 3
PLAIN: dict[str, dict[str, Any]] = {  # arguments that reduce a decoder to greedy search
    "vcd": {"alpha": 0, "beta": 0}, "crg": {"alpha": 0}, "icd": {"alpha": 0, "beta": 0}, "m3id": {"forgetting": 0},
    "prompt_highlighter": {"weight": 0}, "loba": {"weight": 0}, "cutoff": {}, "greedy": {}, "yes_bias": {"bias": 0},
}  # fmt: skip


class Scene(NamedTuple):
    lm: Any
    copies: tuple[Any, Any]  # of lm.model


@pytest.fixture(scope="module", params=list_kinds(DECODED, ["llava"]))
def scene(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Scene:
    (file, kind), folder = request.param, tmp_path_factory.mktemp("decoded")
    TINY[file].TINY[kind](folder / "model", **TINY[file].IN_DETAIL)
    options = {"image_string": TINY[file].PLACEHOLDER, "dtype": "float32", "device": "cpu", "batch_size": 8}
    lm = cast(Any, HFVisionLM)(str(folder / "model"), **options)
    text = lm.model.config.get_text_config()
    if getattr(text, "sliding_window", None):
        text.sliding_window = 512  # the default of the tiny model is shorter than a prompt
    for tower in (highlight.VISION, highlight.TEXT):
        highlight.use(lm.model, tower)
    return Scene(lm, (copy.deepcopy(lm.model), copy.deepcopy(lm.model)))


def make_region(image: Image.Image) -> np.ndarray:
    """Make a region within the image: bool (H, W)."""
    inside = np.zeros((image.height, image.width), dtype=bool)
    inside[image.height // 4 : image.height * 2 // 3, image.width // 3 : image.width * 3 // 4] = True
    return inside


def make_requests() -> list[Instance]:
    images = [noise(size, number) for number, size in enumerate(SIZES[: len(QUESTIONS)])]
    return [
        asking.asked(
            f"<image>\n{question}", [image], row, {"region": rle.encode(make_region(image))}, max_gen_toks=N_TOKENS
        )
        for row, (question, image) in enumerate(zip(QUESTIONS, images, strict=True))
    ]


def apply_decoder(lm: Any, name: str, **values: Any) -> Any:
    """Return a copy of the model with a decoder."""
    decoded = copy.copy(lm)
    decoded._chosen, decoded._bias = choose(name, dict(values)), {"task": values.get("bias", 0.0)}
    return decoded


def run_driver(lm: Any, requests: Sequence[Instance]) -> tuple[list[list[int]], np.ndarray]:
    """Generate answers to requests and return tokens and the scores of each step, shape (n, steps, vocabulary)."""
    with lm._asking(requests):
        inputs = dict(lm.tok_batch_multimodal_encode(*zip(*map(split_request, requests), strict=True)))
        with lm._loop() as loop:
            output = lm.model.generate(
                **inputs, custom_generate=loop, max_new_tokens=N_TOKENS, do_sample=False, eos_token_id=None,
                output_scores=True, return_dict_in_generate=True,
            )  # fmt: skip
    n = len(requests)
    return output.sequences[:n, -N_TOKENS:].tolist(), torch.stack(output.scores, 1)[:n].float().numpy()


def split_request(request: Instance) -> tuple[str, list[Image.Image]]:
    text, _, media = cast(Any, request.args)
    return text, [*media["visual"]]


def compute_logits(model: Any, inputs: Mapping[str, Any], tokens: Sequence[int]) -> np.ndarray:
    """Compute the logits after a single prompt and some tokens without a cache: float64 (vocabulary,)."""
    full_inputs = dict(inputs)
    more = torch.tensor([tokens], dtype=torch.long)
    full_inputs["input_ids"] = torch.cat([inputs["input_ids"], more], dim=1)
    full_inputs["attention_mask"] = torch.ones_like(full_inputs["input_ids"])
    for name in ("token_type_ids", "mm_token_type_ids"):
        if name in full_inputs:
            full_inputs[name] = torch.cat([full_inputs[name], torch.zeros_like(more)], dim=1)
    with torch.no_grad():
        return model(**full_inputs, use_cache=False).logits[0, -1].double().numpy()


def encode_contrast(lm: Any, name: str, request: Instance) -> dict[str, Any]:
    """Encode the contrast of a single prompt."""
    text, (image,) = split_request(request)

    def encode(text: str, images: list[Image.Image]) -> dict[str, Any]:
        return dict(lm.tok_batch_multimodal_encode([text], [images]))

    if name == "crg":
        pixels = np.array(image)
        pixels[make_region(image)] = 0
        return encode(text, [Image.fromarray(pixels)])
    if name == "m3id":
        return encode(text.replace("<image>", ""), [])
    if name == "icd":
        return encode(text.replace("<image>", "<image>You are a confused object detector. "), [image])
    inputs = encode(text, [image])
    if name == "vcd":
        pixel_values, shape = inputs["pixel_values"], inputs["pixel_values"].shape
        tiles = [pixel_values] if pixel_values.ndim == 2 else [*pixel_values.reshape(-1, *shape[-3:])]
        inputs["pixel_values"] = torch.stack(add_noise(tiles, 500, 0, 2 if pixel_values.ndim == 2 else 1)).reshape(
            shape
        )
    return inputs


def compute_combined(name: str, plain: np.ndarray, contrast: np.ndarray, step: int) -> np.ndarray:
    """Combine the logits by the papers' formulas with their defaults."""
    if name in ("loba", "prompt_highlighter"):
        return 1.3 * log_softmax(plain) - 0.3 * log_softmax(contrast)
    if name == "m3id":
        gamma = np.exp(-0.02 * step)
        return log_softmax(plain) + (1 - gamma) / gamma * (log_softmax(plain) - log_softmax(contrast))
    scores = 2 * plain - contrast
    return scores if name == "crg" else np.where(plain < plain.max() + np.log(0.1), -np.inf, scores)


@pytest.mark.parametrize("name", [name for name, decoder in DECODERS.items() if decoder.branches == 2])
def test_a_decoder_is_an_obvious_loop_over_two_models(scene: Scene, name: str):
    """Compare tokens and the scores of each step, in one batch of prompts of unequal lengths."""
    lm, requests = apply_decoder(scene.lm, name), make_requests()
    tokens, scores = run_driver(lm, requests)
    for request, row_tokens, row_scores in zip(requests, tokens, scores, strict=True):
        text, images = split_request(request)
        with lm._asking([request]):
            lm.tok_batch_multimodal_encode([text], [images])
            light = lm._light
        inputs = dict(scene.lm.tok_batch_multimodal_encode([text], [images]))
        contrast = encode_contrast(scene.lm, name, request)
        for step in range(N_TOKENS):
            plain = compute_under_light(
                name, light, partial(compute_logits, scene.copies[0], inputs, row_tokens[:step])
            )
            expected = compute_combined(
                name, plain, compute_logits(scene.copies[1], contrast, row_tokens[:step]), step + 1
            )
            near = np.isclose(row_scores[step], expected, atol=2e-3, rtol=1e-3) | (
                np.isinf(row_scores[step]) & np.isinf(expected)
            )
            assert near.mean() > 0.99, "a token at the edge of the cutoff may fall on either side"
            assert expected[row_tokens[step]] >= expected.max() - 1e-3


def compute_under_light(name: str, light: Any, compute: Any) -> np.ndarray:
    """Compute with the first branch of a light for two branches."""
    if light is None:
        return compute()
    weights = light.weights
    half = weights[:, : weights.shape[1] // 2] if light.packed else weights[: len(weights) // 2]
    with highlight.lit(decoded_vlm.LIT[name], highlight.Light(half, last=light.last, packed=light.packed)):
        return compute()


def test_with_nothing_to_contrast_all_are_greedy_search(scene: Scene):
    inputs = dict(
        scene.lm.tok_batch_multimodal_encode(
            *zip(*map(split_request, make_requests()), strict=True), padding_side="left"
        )
    )
    output = scene.lm.model.generate(
        **inputs, max_new_tokens=N_TOKENS, do_sample=False, eos_token_id=None, output_logits=True,
        return_dict_in_generate=True,
    )  # fmt: skip
    expected = torch.stack(output.logits, 1).log_softmax(-1).numpy()
    for name, values in PLAIN.items():
        tokens, scores = run_driver(apply_decoder(scene.lm, name, **values), make_requests())
        assert tokens == output.sequences[:, -N_TOKENS:].tolist(), name
        if name != "cutoff":
            np.testing.assert_allclose(log_softmax(scores, axis=-1), expected, atol=1e-5, rtol=0, err_msg=name)


def test_a_batch_gives_the_answers_of_each_row_alone(scene: Scene):
    """Run all decoders on one model with one unit per image and one with a single patch sequence; two on the others."""
    runs_all = scene.lm.model.config.model_type in ("llava", "qwen2_5_vl")
    for name in DECODERS if runs_all else ("crg", "loba"):
        decoded = apply_decoder(scene.lm, name, **{"bias": 1.5} if name == "yes_bias" else {})
        answers = decoded.generate_until(make_requests(), disable_tqdm=True)
        decoded.batch_size_per_gpu = 1
        assert decoded.generate_until(make_requests()[::-1], disable_tqdm=True) == answers[::-1], name


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_the_light_falls_on_the_patches_that_show_the_region(scene: Scene, size: tuple[int, int], monkeypatch: Any):
    """The first attention layer of the vision encoder shows which patches depend on the region."""
    black = Image.new("RGB", size, (0, 0, 0))
    inside, white = make_region(black), black.copy()
    white.paste((255, 255, 255), mask=Image.fromarray(inside))
    attended: list[list[tuple[Any, torch.Tensor, torch.Tensor]]] = []
    attend = highlight._attend

    def call_recorded(light: Any, module: Any, query: Any, key: Any, *args: Any, **kwargs: Any) -> Any:
        if light is not None:
            place = light._place
            attended[-1].append((module, key, light.compute_bias(key)[:, 0, 0]))
            light._place = place
        return attend(light, module, query, key, *args, **kwargs)

    monkeypatch.setattr(highlight, "_attend", call_recorded)
    for image in (black, white):
        attended.append([])
        request = asking.asked("<image>Edema?", [image], doc={"region": rle.encode(inside)})
        run_driver(apply_decoder(scene.lm, "loba"), [request])
    first_module_calls = [
        [(key, bias) for module, key, bias in image_calls if module is image_calls[0][0]] for image_calls in attended
    ]
    change = torch.cat(
        [(b[0] - a[0]).norm(dim=(1, 3)).flatten() for a, b in zip(*first_module_calls, strict=True)]
    ).numpy()
    lit = torch.cat([bias.flatten() > 0 for _, bias in first_module_calls[0]]).numpy()
    half = len(lit) // 2
    assert lit[:half].any()
    assert not lit[half:].any(), "the second half is the plain image"
    assert change[:half][lit[:half]].min() > 0
    assert roc_auc_score(lit[:half], change[:half]) > 0.95


def test_a_family_that_was_not_tested_is_refused_when_it_is_loaded(tmp_path: Path):
    folder = TINY["mllama"].TINY["mllama"](tmp_path / "model", **TINY["mllama"].IN_DETAIL)
    (folder / "model.safetensors").unlink()  # the check needs no weights
    with pytest.raises(MedfaithError, match=r"decoding=vcd: mllama is none (.|\n)*a model of LLaVA-NeXT, Gemma 3"):
        cast(Any, HFVisionLM)(str(folder), decoding="vcd", image_string="<|image|>", device="cpu")
    assert {family.name for family in families() if not family.decoded} >= {"PaliGemma"}


def test_rows_and_arguments_that_a_decoder_cannot_take_are_refused_before_the_first_answer(tmp_path: Path):
    folder = str(TINY["llava"].save(tmp_path / "model"))
    options = {"image_string": "<image>", "device": "cpu"}
    explained = [
        cast(Any, ExplainedVLM)(folder, store=str(tmp_path / "maps"), **options, **decoder)
        for decoder in ({}, {"decoding": "vcd"}, {"decoding": "vcd", "alpha": 2})
    ]
    assert len({json.dumps(model._identity("t")) for model in explained}) == 3, (
        "no heatmap or answer is another decoder's"
    )
    lm = cast(Any, HFVisionLM)(folder, decoding="loba", **options)
    wrong_region = rle.encode(np.ones((5, 4), dtype=bool))
    for region, message in (
        (None, "row row 0: no region, which decoding=loba needs"),
        (wrong_region, "a region of 4 x 5 pixels\n  expected: 160 x 90"),
    ):
        requests = make_requests()
        cast(Any, requests[0].doc)["region"] = region
        with pytest.raises(InputError, match=f"(?s){message}"):
            lm.generate_until(requests[::-1])
    with pytest.raises(InputError, match="is 'stated:plain' without a decoder"):
        cast(Any, HFVisionLM)(folder, regions="stated:plain", **options)
    with pytest.raises(InputError, match="is 'nowhere', which is not there"):
        cast(Any, HFVisionLM)(folder, decoding="crg", regions="nowhere", **options)
    with pytest.raises(InputError, match="decoding: changes answers, not scores"):
        lm.loglikelihood([])
    two = make_requests()[:1]
    cast(Any, two[0].args)[2]["visual"].append(noise(SIZES[0]))
    with pytest.raises(InputError, match=r"2 images(.|\n)*expected: one image"):
        lm.generate_until(two)


@pytest.mark.full  # eval and report
def test_the_command_decodes_with_masks_of_a_segmenter_and_the_report_names_the_decoder(
    phantom_heal_build: Path, phantom_heal_roots: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    """TPT asks about anatomies without a mask in the rows."""
    folder, roots = TINY["llava"].save(tmp_path / "model"), phantom_heal_roots
    task_name = "medfaith_heal_vindr_tpt"
    arguments = f"pretrained={folder},image_string=<image>,decoding=loba,weight=2,dtype=float32"
    command = [
        "eval", "--data", str(phantom_heal_build), "--root", f"vindr_cxr={roots['vindr_cxr']}", "--tasks", task_name,
        "--model", "medfaith-hf-vlm", "--device", "cpu", "--batch_size", "4", "--gen_kwargs", "max_gen_toks=2",
        "--output_path", str(tmp_path / "runs"), "--log_samples",
    ]  # fmt: skip
    assert main([*command, "--model_args", arguments]) == 2
    assert "no region, which decoding=loba needs" in capsys.readouterr().err
    assert main([*command, "--model_args", f"{arguments},regions={roots['vindr_cxr_anatomy']}"]) == 0
    capsys.readouterr()
    assert main(["report", str(tmp_path / "runs"), "--markdown"]) == 0
    printed = capsys.readouterr().out
    assert "model + LobA, weight 2, regions vindr_cxr_anatomy" in printed
    (cost,) = re.findall(r"\| medfaith_heal_vindr_tpt \| (\d+) \| [\d.,]+ \| – \| – \| – \| cpu \| 4 \|", printed)
    assert int(cost) == len(next((tmp_path / "runs").rglob("samples_*.jsonl")).read_text().splitlines())
    assert str(tmp_path) not in printed


@pytest.mark.parametrize(
    ("file", "kind", "stated", "stated_size"),
    keep_quick(
        [("llava", "llava", "qwen3_vl", (1000, 1000)), ("qwen_vl", "qwen2_5_vl", "qwen2_5_vl", None)],
        lambda case: case[0] == "qwen_vl",
    ),
)
def test_a_model_states_its_region_itself(
    file: str, kind: str, stated: str, stated_size: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The stated box is the right half of the image; Qwen2.5-VL counts pixels after its processor's resizing."""
    folder = TINY[file].TINY[kind](tmp_path / "model", **TINY[file].IN_DETAIL)
    options = {"image_string": TINY[file].PLACEHOLDER, "device": "cpu", "dtype": "float32"}
    lm: Any = cast(Any, HFVisionLM)(str(folder), decoding="crg", regions=f"stated:{stated}", **options)
    generate, (request, *_) = lm.model.generate, make_requests()
    cast(Any, request.doc)["anatomy"] = "heart"
    image = split_request(request)[1][0]
    grid: Any = dict(lm.tok_batch_multimodal_encode(["<image>x"], [[image]])).get("image_grid_thw")
    width, height = stated_size or (int(grid[0, 2]) * 14, int(grid[0, 1]) * 14)
    outputs = [f'[{{"bbox_2d": [{width // 2}, 0, {width}, {height}], "label": "heart"}}]', "nowhere"]

    def generate_scripted(**inputs: Any) -> Any:
        if "custom_generate" in inputs:
            return generate(**inputs)
        tokens = lm.tokenizer(outputs[0], add_special_tokens=False, return_tensors="pt")["input_ids"]
        return torch.cat([inputs["input_ids"], tokens], dim=1)

    monkeypatch.setattr(lm.model, "generate", generate_scripted)
    reply = read_reply(lm.generate_until([request], disable_tqdm=True)[0])
    expected = np.zeros((image.height, image.width), dtype=bool)
    expected[:, image.width // 2 :] = True
    assert np.array_equal(rle.decode(cast(Any, reply.region)).astype(bool), expected)
    outputs[0] = outputs[0].replace(f"[{width // 2}, 0, {width},", f"[0, 0, {width // 2},")
    control = asking.asked(request.args[0], [noise(image.size, 99)], doc=request.doc)
    reply = read_reply(lm.generate_until([control], disable_tqdm=True)[0])
    assert np.array_equal(rle.decode(cast(Any, reply.region)).astype(bool), ~expected), "other pixels, another place"
    outputs.pop(0)
    lm._located.clear()
    assert read_reply(lm.generate_until([request], disable_tqdm=True)[0]).region is None
    with pytest.raises(InputError, match=r"is 'stated:words'\n  expected: stated: and one of qwen2_vl"):
        cast(Any, HFVisionLM)(str(folder), decoding="crg", regions="stated:words", **options)


def test_lit_tokens_are_those_of_the_region(scene: Scene):
    """Prompt Highlighter puts its weights on image tokens only, and lights those within the region."""
    image = noise(SIZES[0])
    inside = make_region(image)
    request = asking.asked("Look: <image>Edema?", [image], doc={"region": rle.encode(inside)})
    decoded = apply_decoder(scene.lm, "prompt_highlighter", weight=2)
    with decoded._asking([request]):
        ids = decoded.tok_batch_multimodal_encode(["Look: <image>Edema?"], [[image]])["input_ids"][0]
        weights = decoded._light.weights
    assert not weights[1].any(), "the second branch is plain"
    lit = weights[0] > 0
    assert set(weights[0].tolist()) == {0.0, 2.0}
    assert (ids[lit] == scene.lm.model.config.image_token_id).all()
    inputs = dict(scene.lm.tok_batch_multimodal_encode(["Look: <image>Edema?"], [[image]]))
    family, config = cast(Any, claimed(scene.lm.model.config)), scene.lm.model.config
    positions = family.positions(inputs, config)
    image_input = Seen(len(positions), (image.height, image.width), inputs, config, scene.lm.processor)
    for tile in compute_tiles(family, image_input):
        x, y, width, height = tile.window
        rows, columns = tile.tokens.shape
        for row, column in np.ndindex(rows, columns):
            cell = np.zeros_like(inside)
            y0, x0 = y + row * height / rows, x + column * width / columns
            cell[max(0, round(y0)) : round(y0 + height / rows), max(0, round(x0)) : round(x0 + width / columns)] = True
            share = (inside & cell).sum() / (height / rows * width / columns)
            if abs(share - 0.5) > 0.15 and share > 0.25:
                is_lit = bool(lit[positions[tile.tokens[row, column]]])
                assert is_lit == (share > 0.5), (row, column, share)
