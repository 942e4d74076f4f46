"""What arrives under each control at tiny models of real classes, through lm-eval: prompts, their order, and pixels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest
from lm_eval.models.hf_vlms import HFMultimodalLM
from PIL import Image
from scipy import ndimage

from medfaith.loaders import images, rle
from medfaith.loaders.errors import InputError
from medfaith.tasks.controls import CONTROLS, DONORS
from medfaith.tasks.models.hf_vlm import HFVisionLM
from tests.tasks.evaluating import evaluate, load
from tests.tasks.tiny_models import PLACEHOLDER

HEAL, CONTRABENCH = "medfaith_heal_vindr_closed", "medfaith_contrabench_chexpert_presence"
PLAIN = "plain"  # no control
OF_BOTH = (PLAIN, "none", "blank", "noise", *DONORS)  # what rows of CXR-ContraBench support, too
MODELS = [("llava", HFMultimodalLM), ("qwen2_5_vl", HFVisionLM)]


class Arrived(NamedTuple):
    """prompt: in the chat template. given: the images of the processor. pixels: what the vision encoder gets, one array
    an image, as `per_image`. tokens: the model's, without padding; beside images without special tokens, too.
    """

    prompt: str
    given: list[Image.Image]
    pixels: list[np.ndarray]
    tokens: list[int]


class Scene(NamedTuple):
    """roots: of the images. tasks: control -> what lm-eval loads. docs: control -> task -> row -> document."""

    roots: Mapping[str, Any]
    tasks: dict[str, Any]
    docs: dict[str, dict[str, dict[str, Any]]]

    def files(self, control: str, task: str, row: str) -> list[np.ndarray]:
        """The files that the document of a row names: uint8, shape (h, w, 3)."""
        keys = [word.split(":") for word in str(self.docs[control][task][row]["images"]).split()]
        refs = [{"source": source, "key": key, "view": ""} for source, key in keys]
        return [np.asarray(images.open_image(ref, self.roots)) for ref in refs]


@pytest.fixture(scope="module")
def scene(phantom_build, phantom_roots, phantom_heal_build, phantom_heal_roots, tmp_path_factory) -> Scene:
    data, roots = tmp_path_factory.mktemp("both"), {**phantom_roots, **phantom_heal_roots}
    for repository in (*phantom_build.iterdir(), *phantom_heal_build.iterdir()):
        (data / repository.name).symlink_to(repository)
    tasks, docs = {}, {}
    for control in (PLAIN, *CONTROLS):
        given = {} if control == PLAIN else {"control": control}
        tasks[control] = load([HEAL, *([CONTRABENCH] if control in OF_BOTH else [])], data, roots, **given)
        loaded = tasks[control]["tasks"].items()
        docs[control] = {name: {doc["id"]: doc for doc in task.test_docs()} for name, task in loaded}
    return Scene(roots, tasks, docs)


@pytest.fixture(scope="module")
def rows(scene) -> dict[str, set[str]]:
    """Rows of HEAL whose answer is known for the other side and that have donors, and two studies of several images."""
    docs = scene.docs
    shared = [row for row in docs["other_same"][HEAL] if row in docs["other"][HEAL]]
    several = [row for row, doc in docs["other"][CONTRABENCH].items() if len(doc["images"]) > 1]
    return {HEAL: {*docs["flipped"][HEAL], *shared[:1]}, CONTRABENCH: {*several[:2]}}


def per_image(pixel_values: Any, grid: Any, processor: Any) -> list[np.ndarray]:
    """Pixels of each image before the processor normalised them: float, shape (3, n), 0 to 1.

    grid: of Qwen, patches of each image in time, height and width; None: one row of `pixel_values` is one image.
    """
    pixels = np.asarray(pixel_values, float)
    sizes = np.ones(len(pixels), int) if grid is None else np.asarray(grid).prod(1)
    mean, std = (np.array(values)[:, None] for values in (processor.image_mean, processor.image_std))
    of_images = np.split(pixels, np.cumsum(sizes)[:-1])
    return [one.reshape(len(one), 3, -1).swapaxes(0, 1).reshape(3, -1) * std + mean for one in of_images]


def shown(lm: Any, image: np.ndarray) -> np.ndarray:
    """What the model's processor makes of one image, as `per_image`."""
    processor = lm.processor.image_processor
    made = processor(images=[Image.fromarray(image)], return_tensors="pt")
    return per_image(made["pixel_values"], made.get("image_grid_thw"), processor)[0]


def asked(lm: Any, scene: Scene, control: str, rows: Mapping[str, set[str]]) -> dict[str, dict[str, Arrived]]:
    """Task -> row -> what arrives. Every row of a task is in one batch."""
    indices = {
        task: [index for index, row in enumerate(docs) if row in rows[task]]
        for task, docs in scene.docs[control].items()
    }
    given: list[tuple[str, list[Image.Image]]] = []
    encoded: list[np.ndarray] = []
    got: list[tuple[list[int], list[np.ndarray]]] = []
    process, processor = type(lm.processor).__call__, lm.processor.image_processor

    def processed(self: Any, images: Sequence[Any], text: list[str], **how: Any) -> Any:
        flat = iter([image for one in images for image in (one if isinstance(one, list) else [one])])
        given.extend((prompt, [next(flat) for _ in range(prompt.count(PLACEHOLDER[lm.name]))]) for prompt in text)
        return process(self, images=images, text=text, **how)

    def encode(_encoder: Any, pixels: tuple[Any, ...], how: Mapping[str, Any]) -> None:
        first = pixels[0] if pixels else how["pixel_values"]
        encoded.extend(per_image(first, how.get("grid_thw"), processor))

    def forward(_model: Any, _args: Any, inputs: Mapping[str, Any]) -> None:
        special = {*lm.tokenizer.all_special_ids} if given else {lm.tokenizer.pad_token_id}
        for ids in inputs["input_ids"].tolist():
            n_images = len(given[len(got)][1]) if given else 0
            pixels = [encoded.pop(0) for _ in range(n_images)]
            got.append(([token for token in ids if token not in special], pixels))

    encoder = getattr(lm.model.base_model, "vision_tower", None) or lm.model.base_model.visual
    hooks = [
        one.register_forward_pre_hook(hook, with_kwargs=True) for one, hook in ((encoder, encode), (lm.model, forward))
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(lm.processor), "__call__", processed)
        found = evaluate(lm, scene.tasks[control], samples=indices, apply_chat_template=True)
    for hook in hooks:
        hook.remove()
    assert encoded == []
    prompts = [prompt for prompt, _ in given] or [lm.tokenizer.decode(tokens) for tokens, _ in got]
    arrived = {
        prompt: Arrived(prompt, given[place][1] if given else [], pixels, tokens)
        for place, (prompt, (tokens, pixels)) in enumerate(zip(prompts, got, strict=True))
    }
    assert len(arrived) == len(prompts) == sum(map(len, indices.values())) > 0  # no two rows have the same prompt
    return {
        task: {sample["doc"]["id"]: arrived[sample["arguments"][0][0]] for sample in of_task["samples"]}
        for task, of_task in found.items()
    }


@pytest.fixture(scope="module", params=MODELS, ids=lambda one: f"{one[0]}-{one[1].__name__}")
def lm(request, vlms) -> Any:
    """A model whose answers end after one token."""
    name, model = request.param
    loaded = model(str(vlms[name]), dtype="float32", device="cpu", batch_size=16)
    loaded.model.generation_config.eos_token_id = list(range(len(loaded.tokenizer)))
    loaded.name = name
    return loaded


@pytest.fixture(scope="module")
def arrived(lm, scene, rows) -> dict[str, dict[str, dict[str, Arrived]]]:
    """Control -> task -> row -> what arrives; without `none` for lm-eval's own class, which needs an image."""
    alone = isinstance(lm, HFVisionLM)
    return {name: asked(lm, scene, name, rows) for name in scene.tasks if name != "none" or alone}


def cases(scene: Scene, arrived: Any, control: str) -> Iterator[tuple[str, str, Arrived, list[np.ndarray]]]:
    """Task, row, what arrives under a control, and the row's own files."""
    for task, of_task in arrived[control].items():
        for row, one in of_task.items():
            yield task, row, one, scene.files(PLAIN, task, row)


def test_prompts_and_order_are_those_without_a_control(lm, arrived, scene):
    placeholder = PLACEHOLDER[lm.name]
    for control, of_control in arrived.items():
        for task, docs in scene.docs[control].items():
            assert [row for row in scene.docs[PLAIN][task] if row in docs] == list(docs)
            for row, one in of_control[task].items():
                plain = arrived[PLAIN][task].get(row)
                assert plain is not None
                assert placeholder in plain.prompt
                expected = plain.prompt.replace(placeholder, "") if control == "none" else plain.prompt
                assert one.prompt == expected
                if control != "none":
                    assert one.tokens == plain.tokens


def test_without_an_image_no_pixels_and_no_image_token_arrive_or_the_run_says_what_to_do(lm, arrived, scene, rows):
    if "none" not in arrived:
        with pytest.raises(InputError, match=r"cannot answer without an image(.|\n)*blank(.|\n)*medfaith-hf-vlm"):
            asked(lm, scene, "none", rows)
        return
    for _, _, one, _ in cases(scene, arrived, "none"):
        assert (one.given, one.pixels) == ([], [])
        assert lm.model.config.image_token_id not in one.tokens
        assert one.tokens == lm.tokenizer(one.prompt)["input_ids"]


def test_the_pixels_are_those_that_the_processor_makes_of_the_controls_image(lm, arrived, scene):
    """Of every control, image by image; without a control these are the row's files."""
    for control in arrived.keys() - {"none"}:
        for task, row, one, files in cases(scene, arrived, control):
            made = [np.asarray(image) for image in scene.docs[control][task][row]["images"]]
            assert len(made) == len(one.given) == len(one.pixels) == len(files)
            for image, given, pixels in zip(made, one.given, one.pixels, strict=True):
                assert (np.asarray(given) == image).all()
                np.testing.assert_allclose(pixels, shown(lm, image), atol=1e-5)
            if control == PLAIN:
                assert all((image == file).all() for image, file in zip(made, files, strict=True))


def test_an_even_image_and_noise_keep_the_colours_of_the_file(arrived, scene):
    for _, _, one, files in cases(scene, arrived, "blank"):
        for pixels, file in zip(one.pixels, files, strict=True):
            assert np.ptp(pixels, axis=1).max() < 1e-6
            np.testing.assert_allclose(pixels[:, 0], file.mean((0, 1)) / 255, atol=0.5 / 255 + 1e-6)
    for _, _, one, files in cases(scene, arrived, "noise"):
        for given, file in zip(one.given, files, strict=True):
            pixels = np.asarray(given)
            assert (pixels != file).any()
            for before, after in zip(file.reshape(-1, 3).T, pixels.reshape(-1, 3).T, strict=True):
                assert (np.bincount(before, minlength=256) == np.bincount(after, minlength=256)).all()


@pytest.mark.parametrize("control", DONORS)
def test_another_image_is_the_donors_file(lm, arrived, scene, control):
    for task, row, one, own in cases(scene, arrived, control):
        for pixels, file in zip(one.pixels, scene.files(control, task, row), strict=True):
            np.testing.assert_allclose(pixels, shown(lm, file), atol=1e-5)
            assert all(np.abs(pixels - shown(lm, other)).max() > 0.05 for other in own)


def test_a_flipped_image_is_the_mirrored_file(lm, arrived, scene):
    for _, _, one, (file,) in cases(scene, arrived, "flipped"):
        np.testing.assert_allclose(one.pixels[0], shown(lm, file[:, ::-1]), atol=1e-5)
        assert np.abs(one.pixels[0] - shown(lm, file)).max() > 0.05


def test_paint_lies_where_the_control_says(lm, arrived, scene):
    """Inside of the region and away from it, as far as the paint fades and resizing mixes."""
    for control in ("occluded", "occluded_elsewhere", "only_target"):
        for task, row, one, (file,) in cases(scene, arrived, control):
            region = rle.decode(scene.docs[PLAIN][task][row]["region"])
            away = np.logical_not(ndimage.binary_dilation(region, iterations=12))
            deep = ndimage.binary_erosion(region, iterations=3)
            inside, outside = (
                shown(lm, np.repeat(mask[..., None] * np.uint8(255), 3, axis=2)) for mask in (deep, away)
            )
            inside, outside = inside > 0.99, outside > 0.99
            assert min(inside.mean(), outside.mean()) > 0.005
            changed = np.abs(one.pixels[0] - shown(lm, file))
            where = inside if control == "occluded" else outside
            elsewhere = outside if control == "occluded" else inside
            assert changed[where].max() > 0.1, control
            assert changed[elsewhere].max() < 0.02, control
            if control == "only_target":
                assert all(np.ptp(pixels[far]) < 0.02 for pixels, far in zip(one.pixels[0], outside, strict=True))
