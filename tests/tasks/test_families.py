"""Every family of tasks/models/vlm/families: answers, option scores and heatmaps of a tiny model of its class.

The reference is transformers' own generation, token by token, for each row separately.
"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

import numpy as np
import pytest
import torch
from lm_eval.models.hf_vlms import HFMultimodalLM
from PIL import Image

from medfaith.cli import main
from medfaith.loaders.errors import InputError, MedfaithError
from medfaith.models import list_untried, rows
from medfaith.tasks.explain.store import open_store
from medfaith.tasks.explain.tiles import CHANNELS, Tile, bounds, compose, select_channel
from medfaith.tasks.explain.token_cam import get_decoder_layers, get_reading_layers
from medfaith.tasks.explain.token_relevancy import compute_token_relevancy
from medfaith.tasks.models.chat_form import Reply
from medfaith.tasks.models.vlm import families
from medfaith.tasks.models.vlm.explained_vlm import ExplainedVLM
from medfaith.tasks.models.vlm.families import Family, Seen
from medfaith.tasks.models.vlm.hf_vlm import HFVisionLM
from medfaith.tasks.outcomes import ANSWERED
from tests.support.tasks.asking import asked, noise, scored
from tests.support.tasks.dense_relevancy import compute_dense_relevancy
from tests.support.tasks.family_kinds import FILES, SIZES, TINY, generate_logits, get_family, list_kinds

OPTIONS = [" A", " Pleural effusion,\nsmall"]
PROMPTS = [
    ("<image>\nWhich finding is present?", 1),
    ("First <image> then <image>, which one?", 2),
    ("Now look: <image>Edema?", 1),
    ("No picture. Edema?", 0),
]
BLOCKS = (3, 2)  # columns and rows of blocks in an image


class Scene(NamedTuple):
    family: Family
    lm: Any  # ExplainedVLM with a store, batch size 8
    store: Path


@pytest.fixture(scope="module", params=list_kinds(FILES))
def scene(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Scene:
    (file, kind), folder = request.param, tmp_path_factory.mktemp("family")
    TINY[file].TINY[kind](folder / "model", **TINY[file].IN_DETAIL)
    options = {"image_string": TINY[file].PLACEHOLDER, "dtype": "float32", "device": "cpu"}
    lm = cast(Any, ExplainedVLM)(str(folder / "model"), store=str(folder / "store"), batch_size=8, **options)
    assert kind in (lm.model.config.model_type, lm.model.config.vision_config.model_type)
    assert families.require_family(lm.model.config) is get_family(file)
    return Scene(get_family(file), lm, folder / "store")


def make_images(number: int, n_images: int) -> list[Image.Image]:
    """Make the images of a row."""
    return [noise(SIZES[(number + place) % len(SIZES)], 10 * number + place) for place in range(n_images)]


def test_answers_are_hf_multimodals_in_batches_of_any_size(scene: Scene):
    requests = [asked(prompt, make_images(row, n), row, max_gen_toks=6) for row, (prompt, n) in enumerate(PROMPTS)]
    answers = scene.lm.generate_until(requests)
    assert len(set(answers)) > 1 or any(answers)
    scene.lm.batch_size_per_gpu = 1
    try:
        assert scene.lm.generate_until(requests) == answers
        assert HFMultimodalLM.generate_until(scene.lm, requests) == answers
    finally:
        scene.lm.batch_size_per_gpu = 8


def test_the_documented_arguments_answer_with_the_chat_template(scene: Scene):
    """docs/models.md names the model alone, and --apply_chat_template: the placeholder comes from the model's files.

    PaliGemma's files have no chat template, so that its documented command has no --apply_chat_template.
    """
    arguments = {"pretrained": scene.lm.model.name_or_path, "dtype": "float32", "device": "cpu", "batch_size": 2}
    lm = cast(Any, HFVisionLM).create_from_arg_obj(arguments)
    prompts = ["<image>\nEdema?", "Edema in <image> or <image>?", "Edema?"]
    is_base_model = scene.family.name == "PaliGemma"
    if not is_base_model:
        prompts = [lm.apply_chat_template([{"role": "user", "content": text}]) for text in prompts]
        assert lm.chat_template(True)
    images = [make_images(row, n_images) for row, n_images in enumerate([1, 2, 0])]
    requests = [asked(*pair, row, max_gen_toks=4) for row, pair in enumerate(zip(prompts, images, strict=True))]
    texts = lm.generate_until(requests)
    for text, prompt, row_images in zip(texts[:2], prompts[:2], images[:2], strict=True):
        written = prompt.replace("<image>", lm.image_token) if is_base_model else prompt
        inputs = lm.processor(images=[row_images], text=[written], return_tensors="pt")
        start = inputs["input_ids"].shape[1]
        tokens = lm.model.generate(**inputs, max_new_tokens=4, do_sample=False)[0, start:]
        assert lm.tokenizer.decode(tokens, skip_special_tokens=True) == text
    scores = lm.loglikelihood([scored(prompts[1], "Yes", images[1]), scored(prompts[1], "No", images[1])])
    assert all(np.isfinite(score) and score < 0 for score, _ in scores)


def test_option_scores_are_those_of_generation(scene: Scene):
    requests = [
        scored(prompt, option, make_images(row, n), row, index)
        for row, (prompt, n) in enumerate(PROMPTS)
        for index, option in enumerate(OPTIONS)
    ]
    scores = [score for score, _ in scene.lm.loglikelihood(requests)]
    for request, score in zip(requests, scores, strict=True):
        prompt, option, media = cast(Any, request.args)
        option = option.lstrip() if scene.family.prompt_end else option  # no space after a newline
        tokens = scene.lm.tokenizer(option, add_special_tokens=False)["input_ids"]
        logits = generate_logits(scene.lm, prompt, media["visual"], tokens)
        expected = logits.log_softmax(-1)[range(len(tokens)), tokens].sum()
        assert score == pytest.approx(float(expected), abs=2e-3)
    scene.lm.batch_size_per_gpu = 1
    try:
        assert [score for score, _ in scene.lm.loglikelihood(requests)] == pytest.approx(scores, abs=2e-3)
    finally:
        scene.lm.batch_size_per_gpu = 8


def test_heatmaps_are_those_of_the_answer(scene: Scene, monkeypatch: pytest.MonkeyPatch):
    """The gradient belongs to the generated tokens, and the map covers the tiles of the frame."""
    image, text = noise(SIZES[0]), "A hook, and two graspers."
    doc = {"id": "VID1/1", "classes": ["hook", "grasper"], "width": image.width, "height": image.height}
    request = asked("<image>Tools?", [image], doc=doc)
    tokens = scene.lm.tokenizer(text, add_special_tokens=False)["input_ids"]
    forced, teacher_forced = [], scene.lm._teacher_forced

    def run_teacher_forced(*args: Any) -> Any:
        forced.append(teacher_forced(*args))
        return forced[-1]

    monkeypatch.setattr(scene.lm, "_teacher_forced", run_teacher_forced)
    scene.lm._explain(request, Reply(ANSWERED, text), tokens, "0" * 16)
    entry = open_store(scene.store).read(scene.lm._store(request).reference("0" * 16), "VID1/1")
    assert list(entry.maps) == ["hook", "grasper"]
    assert all(np.isfinite(grid).all() and grid.max() > 0 for grid in entry.maps.values())
    with torch.no_grad():
        logits = scene.lm.model(**forced[0].inputs, use_cache=False).logits[0]
    start = forced[0].inputs["input_ids"].shape[1] - _count_answer_tokens(
        forced[0].inputs["input_ids"][0].tolist(), tokens
    )
    expected = generate_logits(scene.lm, "<image>Tools?", [image], tokens)
    ours = logits[start - 1 : -1]
    torch.testing.assert_close(ours, expected[: len(ours)], atol=2e-3, rtol=2e-3)


def test_relevancy_is_that_of_the_whole_graph_or_refused(scene: Scene, tmp_path: Path):
    """The layers run one by one; transformers' own attentions come from one graph of the whole language model."""
    model = scene.lm.model
    if get_reading_layers(model) is not get_decoder_layers(model):
        with pytest.raises(InputError, match=r"relevancy: .* has no tokens of the image among the text's"):
            cast(Any, ExplainedVLM)(model.name_or_path, device="cpu", store=str(tmp_path), relevancy=True)
        return
    encoding, visual, _ = scene.lm._encode_prompt("<image>Edema?", noise(SIZES[0]))
    inputs = {name: value for name, value in encoding.items() if name != "labels"}
    position = inputs["input_ids"].shape[1] - 1
    row = compute_token_relevancy(model, inputs, [position])[0]
    expected = compute_dense_relevancy(model, inputs, position)
    np.testing.assert_allclose(row, expected, rtol=1e-2, atol=1e-3 * expected.max())
    assert row[visual].any()
    assert np.delete(row, visual).any()


def _count_answer_tokens(ids: list[int], tokens: list[int]) -> int:
    """Count the answer's tokens at the end of a text."""
    return next(n for n in range(len(tokens), 0, -1) if ids[-n:] == tokens[:n])


def test_causal_graphs_without_one_grid_are_refused_when_the_model_is_loaded(scene: Scene, tmp_path: Path):
    options = {"store": str(tmp_path), "causal_graphs": str(tmp_path), "image_string": scene.lm.image_token}
    if (
        get_reading_layers(scene.lm.model) is get_decoder_layers(scene.lm.model)
        and len(read_tokens(scene, noise(SIZES[0]))[1]) == 1
    ):
        scene.lm._check_tiles(for_graphs=True)
    else:
        with pytest.raises(InputError, match=r"causal_graphs: .*\n  expected: an image in one grid"):
            cast(Any, ExplainedVLM)(scene.lm.model.name_or_path, device="cpu", **options)


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_each_part_of_a_picture_lands_where_it_is(scene: Scene, size: tuple[int, int]):
    """Change one block of a grey image at a time: exactly the cells that overlap the block change."""
    grey = Image.new("RGB", size, (128, 128, 128))
    tokens, tiles = read_tokens(scene, grey)
    across, down = (
        [round(n * side / n_blocks) for n in range(n_blocks + 1)] for side, n_blocks in zip(size, BLOCKS, strict=True)
    )
    for column, row in np.ndindex(*BLOCKS):
        block = across[column], down[row], across[column + 1], down[row + 1]
        picture = grey.copy()
        picture.paste(noise((block[2] - block[0], block[3] - block[1]), 1), block[:2])
        change = (read_tokens(scene, picture)[0] - tokens).norm(dim=-1).numpy()
        for channel in CHANNELS:
            channel_tiles = select_channel(tiles, channel)
            cell_changes = compose(change[None], channel_tiles)[0]
            inside, outside = find_cells(cell_changes.shape, bounds(channel_tiles), block)
            assert cell_changes[outside].max(initial=0) <= 5e-3 * change.max(), (channel, block)
            assert cell_changes[inside].min(initial=np.inf) > 0.05 * change.max(), (channel, block)


def find_cells(shape: tuple[int, ...], window: Any, block: tuple[int, int, int, int]) -> tuple[np.ndarray, np.ndarray]:
    """Find the cells within a block and those that do not see it: bool (h, w) each."""
    sides = []
    for axis, (n, start, extent) in enumerate(zip(shape[::-1], window[:2], window[2:], strict=True)):
        edges = np.linspace(start, start + extent, n + 1)
        reach = 3 + 0.25 * extent / n  # resampling mixes in pixels from this far outside a cell
        within = (edges[:-1] >= block[axis]) & (edges[1:] <= block[axis + 2])
        outside = (edges[1:] + reach < block[axis]) | (edges[:-1] - reach > block[axis + 2])
        sides.append((within, outside))
    (columns_within, columns_outside), (rows_within, rows_outside) = sides
    return rows_within[:, None] & columns_within, rows_outside[:, None] | columns_outside


def read_tokens(scene: Scene, image: Image.Image) -> tuple[torch.Tensor, list[Tile]]:
    """Return the decoder's input for each image token, (n, hidden size), with attention between patches removed."""
    lm = scene.lm
    inputs = dict(lm.tok_batch_multimodal_encode(["<image>"], [[image]]))
    where = scene.family.positions(inputs, lm.model.config)
    layer_inputs: list[torch.Tensor] = []
    reading_layer = get_reading_layers(lm.model)[0]
    handles = [
        reading_layer.register_forward_pre_hook(
            lambda _, args, kwargs: layer_inputs.append(
                kwargs["cross_attention_states"]
                if "cross_attention_states" in kwargs
                else args[0]
                if args
                else kwargs["hidden_states"]
            ),
            with_kwargs=True,
        )
    ]
    for name, module in lm.model.named_modules():
        if ("vis" in name or "img" in name) and type(module).__name__.endswith("Attention"):
            handles.append(module.register_forward_hook(_remove_attention))
    try:
        with torch.no_grad():
            lm.model(**inputs, use_cache=False)
    finally:
        for handle in handles:
            handle.remove()
    height_width = image.height, image.width
    tiles = families.compute_tiles(scene.family, Seen(len(where), height_width, inputs, lm.model.config, lm.processor))
    return layer_inputs[0].flatten(0, -2)[where], tiles


def _remove_attention(_module: Any, _inputs: Any, output: Any) -> Any:
    """Replace attention between patches by zeros."""
    return (output[0] * 0, *output[1:]) if isinstance(output, tuple) else output * 0


def test_every_model_type_has_a_tiny_model_and_one_family():
    claimed = [name for family in families.families() for name in family.model_types]
    assert sorted(claimed) == sorted(kind for tiny in TINY.values() for kind in tiny.TINY)
    assert len(claimed) == len(set(claimed))


@pytest.mark.parametrize("kind", ["perception_lm", "aria"])
def test_what_no_family_claims_is_refused_before_its_weights_load(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """PerceptionLM's tiles look like one grid, and Aria's padding like a part of the image."""
    with pytest.raises(MedfaithError, match=f"{kind}: it is not known where (.|\n)*use --model medfaith-hf-vlm"):
        families.require_family(SimpleNamespace(model_type=kind, vision_config=None))
    folder = TINY["llava"].save(tmp_path / "model")
    monkeypatch.setattr(families, "families", lambda: ())
    options = {"store": str(tmp_path / "store"), "image_string": "<image>", "device": "cpu"}
    (folder / "model.safetensors").rename(tmp_path / "weights")
    with pytest.raises(MedfaithError, match="llava: it is not known where"):
        cast(Any, ExplainedVLM)(str(folder), **options)
    (tmp_path / "weights").rename(folder / "model.safetensors")
    plain = cast(Any, ExplainedVLM)(str(folder), **options | {"store": None})
    assert len(plain.generate_until([asked(PROMPTS[0][0], make_images(0, 1), max_gen_toks=2)])) == 1


def test_the_command_and_the_page_name_every_family(capsys: pytest.CaptureFixture[str]):
    assert main(["models"]) == 0
    printed = capsys.readouterr().out
    page = (Path(__file__).parents[2] / "docs/families.md").read_text(encoding="utf-8")
    for row in rows():
        name, models, types, roads, sees = row
        assert all(cell in printed for cell in row)
        kinds = ", ".join(f"`{model_type}`" for model_type in types.split(", "))
        assert f"| {name} | {models} | {kinds} | {roads} | {sees} |" in page
    assert "refused: blip-2 puts one image before the prompt" in printed
    untried = list_untried()
    assert "kosmos-2" in untried
    assert "kosmos-2," in printed.split()
    assert not set(untried) & {"llava", "aria", "blip-2"}
