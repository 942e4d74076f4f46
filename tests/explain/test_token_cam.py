"""Grad-CAM of generated tokens equals finite differences on tiny LLaVA and Qwen2.5-VL; layers without a gradient."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
import transformers
from PIL import Image

from medfaith.loaders.errors import InputError, MedfaithError
from medfaith.tasks.explain import token_cam as explainer
from medfaith.tasks.explain.token_cam import get_decoder_layers, grad_cam, token_cam
from medfaith.tasks.models.vlm.families import require_family
from tests.support.tasks.tiny_families import mllama
from tests.support.tasks.tiny_models import PLACEHOLDER, SAVE
from tests.support.tiers import keep_quick

N_VISUAL = {"llava": 4, "qwen2_5_vl": 6}  # 28 x 28 in patches of 14; 60 x 90 in merged patches of 28
ANSWER = " A grasper and a hook"


class Case:
    """Tiny float64 model with wide weights (tokens influence one another), and a prompt with its answer."""

    def __init__(self, name: str, folder: Path) -> None:
        (SAVE | {"mllama": mllama.save})[name](folder)
        self.name = name
        self.model = transformers.AutoModelForImageTextToText.from_pretrained(folder).double().eval()
        torch.manual_seed(1)
        for weight in self.model.get_decoder().parameters():
            if weight.ndim == 2:
                torch.nn.init.normal_(weight, std=0.25)
        convert_to_float64(self.model.get_decoder())
        processor = transformers.AutoProcessor.from_pretrained(folder)
        pixels = np.random.default_rng(0).integers(0, 256, (60, 90, 3), dtype=np.uint8)
        text = PLACEHOLDER.get(name, mllama.PLACEHOLDER) + "Which tool is present?" + ANSWER
        encoding = processor(images=[Image.fromarray(pixels)], text=[text], return_tensors="pt")
        self.inputs = {k: v.double() if v.is_floating_point() else v for k, v in encoding.items()}
        self.length = self.inputs["input_ids"].shape[1]
        self.visual = require_family(self.model.config).positions(self.inputs, self.model.config)
        self.reads = "cross_attention_states" if name == "mllama" else "hidden_states"

    def cam(self, positions: list[int], **arguments: Any) -> np.ndarray:
        return token_cam(self.model, self.inputs, positions, self.visual, **arguments)

    def score(self, position: int, target: str) -> float:
        with torch.no_grad():
            logits = self.model(**self.inputs).logits[0, position - 1]
        token = int(self.inputs["input_ids"][0, position])
        return float((logits if target == "logit" else logits.log_softmax(-1))[token])


def convert_to_float64(decoder: torch.nn.Module) -> None:
    """Replace transformers' float32 RMS norm, too coarse for finite differences, by torch's (same formula)."""
    for parent in list(decoder.modules()):
        for name, norm in list(parent.named_children()):
            if type(norm).__name__.endswith("RMSNorm"):
                size, epsilon = cast(Any, norm).weight.shape, cast(Any, norm).variance_epsilon
                exact = torch.nn.RMSNorm(size, epsilon, dtype=torch.float64)
                exact.load_state_dict(norm.state_dict())
                setattr(parent, name, exact)


@pytest.fixture(scope="module", params=N_VISUAL)
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Case:
    return Case(request.param, tmp_path_factory.mktemp(request.param))


def compute_by_finite_differences(case: Case, position: int, layer: int, target: str) -> np.ndarray:
    """Compute appendix A.3: nudge each channel of the layer's input at all image tokens, and run the model again.

    The change of the score is the sum of the channel's gradients over the tokens.
    """
    state: dict[str, Any] = {"nudge": None}

    def hook(_module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        by_place = bool(args) and case.reads == "hidden_states"
        hidden = (args[0] if by_place else kwargs[case.reads]).clone()
        state["hidden"] = hidden
        if state["nudge"] is not None:
            channel, by = state["nudge"]
            hidden.view(-1, hidden.shape[-1])[case.visual, channel] += by
        return ((hidden, *args[1:]), kwargs) if by_place else (args, {**kwargs, case.reads: hidden})

    handle = get_decoder_layers(case.model)[layer].register_forward_pre_hook(hook, with_kwargs=True)
    try:
        case.score(position, target)
        activations = state["hidden"].flatten(0, -2)[case.visual].numpy()
        weights = []
        for channel in range(activations.shape[1]):
            ends = []
            for by in (1e-5, -1e-5):
                state["nudge"] = channel, by
                ends.append(case.score(position, target))
            weights.append((ends[0] - ends[1]) / 2e-5 / len(case.visual))
    finally:
        handle.remove()
    cam = [max(sum(w * a for w, a in zip(weights, row, strict=True)), 0.0) for row in activations]
    return np.array(cam)


@pytest.mark.parametrize(
    ("layer", "target"), keep_quick([(-1, "logit"), (-1, "logprob"), (0, "logit")], lambda case: case == (-1, "logit"))
)
def test_maps_equal_finite_differences(case: Case, layer: int, target: str):
    position = case.length - 1
    ours = case.cam([position], layer=layer, target=target)
    expected = compute_by_finite_differences(case, position, layer, target)
    assert ours.shape == (1, N_VISUAL[case.name])
    assert ours.dtype == np.float32
    assert expected.max() > 0, "a map without anything in it would show nothing"
    np.testing.assert_allclose(ours[0], expected, rtol=1e-5, atol=1e-6 * expected.max())


@pytest.mark.parametrize(("layer", "decoder_layer"), [(-1, 3), pytest.param(0, 1, marks=pytest.mark.full)])
def test_maps_of_cross_attention_equal_finite_differences(tmp_path: Path, layer: int, decoder_layer: int):
    """Layers 1 and 3 of the decoder read the states of the image's own tiles."""
    case = Case("mllama", tmp_path)
    position = case.length - 1
    expected = compute_by_finite_differences(case, position, decoder_layer, "logit")
    assert expected.max() > 0
    np.testing.assert_allclose(case.cam([position], layer=layer)[0], expected, rtol=1e-5, atol=1e-6 * expected.max())
    with pytest.raises(InputError, match=r"layer: 2 of a model with 2 cross-attention layers\n  expected: -2 to 1"):
        case.cam([position], layer=2)


def test_the_last_layers_output_has_no_gradient_at_the_image(case: Case):
    """`layer=-1` means the last layer's input: its output, another reading of A.3, would explain nothing."""
    captured = {}

    def keep(_module: Any, _inputs: Any, output: Any) -> None:
        captured["output"] = output[0] if isinstance(output, tuple) else output
        captured["output"].retain_grad()

    gradients = {}
    for layer in (-1, -2):
        handle = get_decoder_layers(case.model)[layer].register_forward_hook(keep)
        logits = case.model(**case.inputs).logits
        handle.remove()
        logits[0, case.length - 2, case.inputs["input_ids"][0, -1]].backward()
        gradients[layer] = captured["output"].grad[0].numpy()
        case.model.zero_grad()
    assert (gradients[-1][case.visual] == 0).all()
    assert (gradients[-1][case.length - 2] != 0).any()
    assert (gradients[-2][case.visual] != 0).any()  # the last but one layer's output is the last one's input


def test_tokens_together_equal_tokens_alone_and_nothing_is_left_behind(case: Case):
    positions = [case.length - 1, case.length - 3, case.length - 4]
    together = case.cam(positions)
    separate = np.concatenate([case.cam([position]) for position in positions])
    np.testing.assert_array_equal(together, separate)
    assert torch.is_grad_enabled()
    assert all(weight.grad is None for weight in case.model.parameters())
    assert not get_decoder_layers(case.model)[-1]._forward_pre_hooks
    assert case.cam([]).shape == (0, N_VISUAL[case.name])


def test_later_tokens_change_no_map(case: Case):
    """Teacher forcing in a causal decoder: tokens do not depend on later tokens."""
    position = case.length - 4
    short = {name: x[:, : position + 1] if x.shape[:2] == (1, case.length) else x for name, x in case.inputs.items()}
    cut = token_cam(case.model, short, [position], case.visual)
    np.testing.assert_allclose(cut, case.cam([position]), rtol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_gives_nearly_the_same_map(case: Case, dtype: torch.dtype):
    model: Any = copy.deepcopy(case.model)
    model.to(dtype)
    inputs = {name: x.to(dtype) if x.is_floating_point() else x for name, x in case.inputs.items()}
    half = token_cam(model, inputs, [case.length - 1], case.visual)[0]
    full = case.cam([case.length - 1])[0]
    assert half.dtype == np.float32
    assert np.abs(half - full).max() < 0.1 * full.max()


def test_grad_cam_by_hand():
    activations = np.array([[1.0, 0.0], [0.0, 1.0], [2.0, 2.0]])
    gradients = np.array([[3.0, 0.0], [0.0, -6.0], [0.0, 0.0]])  # channel means 1 and -2
    np.testing.assert_array_equal(grad_cam(activations, gradients), [1.0, 0.0, 0.0])


@pytest.mark.parametrize(
    ("positions", "arguments", "message"),
    [
        ([5], {"target": "probability"}, r"target: 'probability'\n  expected: logit or logprob"),
        ([5], {"layer": 2}, r"layer: 2 of a model with 2 decoder layers\n  expected: -2 to 1"),
        ([5], {"layer": -3}, "-3 of a model with 2"),
        ([0], {}, r"answer tokens: positions \[0\]"),
        ([5, 999], {}, r"positions \[999\] of a text of shape"),
    ],
)
def test_bad_arguments(case: Case, positions: list[int], arguments: dict[str, Any], message: str):
    with pytest.raises(InputError, match=message):
        case.cam(positions, **arguments)


def test_a_batch_is_no_text(case: Case):
    two = {**case.inputs, "input_ids": case.inputs["input_ids"].repeat(2, 1)}
    with pytest.raises(InputError, match=r"shape \(2, "):
        token_cam(case.model, two, [5], case.visual)


def test_a_model_without_decoder_layers():
    with pytest.raises(MedfaithError, match="Linear has no decoder layers"):
        explainer.get_layer(torch.nn.Linear(1, 1), -1)
