"""What tiny models of real classes are given under each control, through lm-eval: prompts, their order, and images."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import pytest
from lm_eval.models.hf_vlms import HFMultimodalLM
from scipy import ndimage

from medfaith.loaders import images, rle
from medfaith.loaders.errors import InputError
from medfaith.tasks.controls import CONTROLS, DONORS
from medfaith.tasks.models.hf_vlm import HFVisionLM
from tests.tasks.evaluating import evaluate, given_to, load
from tests.tasks.tiny_models import PLACEHOLDER

HEAL, CONTRABENCH = "medfaith_heal_vindr_closed", "medfaith_contrabench_chexpert_presence"
PLAIN = "plain"  # no control
OF_BOTH = (PLAIN, "none", "blank", "noise", *DONORS)  # what rows of CXR-ContraBench support, too
MODELS = [("llava", HFMultimodalLM), ("qwen2_5_vl", HFVisionLM)]


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


Given = dict[str, dict[str, tuple[str, list[np.ndarray]]]]


def asked(lm: Any, scene: Scene, control: str, rows: Mapping[str, set[str]]) -> Given:
    """Task -> row -> the prompt in the chat template, and the images that the processor gets: uint8, (h, w, 3)."""
    indices = {
        task: [index for index, row in enumerate(docs) if row in rows[task]]
        for task, docs in scene.docs[control].items()
    }
    with given_to(lm, PLACEHOLDER[lm.name]) as given:
        found = evaluate(lm, scene.tasks[control], samples=indices, apply_chat_template=True)
    prompts = {
        task: {sample["doc"]["id"]: sample["arguments"][0][0] for sample in of_task["samples"]}
        for task, of_task in found.items()
    }
    n_rows = len({prompt for of_task in prompts.values() for prompt in of_task.values()})
    assert n_rows == sum(map(len, indices.values())) > 0  # no two rows have the same prompt
    return {
        task: {row: (prompt, [np.asarray(image) for image in given.get(prompt, ())]) for row, prompt in of_task.items()}
        for task, of_task in prompts.items()
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
def given(lm, scene, rows) -> dict[str, Given]:
    """By control, without `none`."""
    return {name: asked(lm, scene, name, rows) for name in scene.tasks if name != "none"}


def cases(scene: Scene, given: dict[str, Given], control: str) -> Iterator[tuple[str, str, Any, list[np.ndarray]]]:
    """Task, row, the images that are given under a control, and the row's own files."""
    for task, of_task in given[control].items():
        for row, (_, shown) in of_task.items():
            yield task, row, shown, scene.files(PLAIN, task, row)


def test_prompts_and_order_are_those_without_a_control(given, scene):
    for control, of_control in given.items():
        for task, docs in scene.docs[control].items():
            assert [row for row in scene.docs[PLAIN][task] if row in docs] == list(docs)
            plain = {row: prompt for row, (prompt, _) in given[PLAIN][task].items()}
            assert all(prompt == plain[row] for row, (prompt, _) in of_control[task].items())


def test_without_an_image_the_text_alone_arrives_or_the_run_says_what_to_do(lm, given, scene, rows):
    placeholder = PLACEHOLDER[lm.name]
    if not isinstance(lm, HFVisionLM):
        with pytest.raises(InputError, match=r"cannot answer without an image(.|\n)*blank(.|\n)*medfaith-hf-vlm"):
            asked(lm, scene, "none", rows)
        return
    inputs: list[dict[str, Any]] = []
    hook = lm.model.register_forward_pre_hook(lambda _model, _args, given: inputs.append(given), with_kwargs=True)
    asked(lm, scene, "none", rows)
    hook.remove()
    assert not any(name.startswith("pixel") for of_batch in inputs for name, one in of_batch.items() if one is not None)
    pad = lm.tokenizer.pad_token_id
    tokens = [[token for token in ids if token != pad] for of_batch in inputs for ids in of_batch["input_ids"].tolist()]
    prompts = [prompt for of_task in given[PLAIN].values() for prompt, _ in of_task.values()]
    assert all(placeholder in prompt for prompt in prompts)
    expected = [lm.tokenizer(prompt.replace(placeholder, ""))["input_ids"] for prompt in prompts]
    assert sorted(tokens) == sorted(expected)


def test_images_are_those_of_the_control(given, scene):
    """Of every control, image by image; without a control these are the row's files."""
    for control in given:
        for task, row, shown, files in cases(scene, given, control):
            made = files if control == PLAIN else map(np.asarray, scene.docs[control][task][row]["images"])
            assert len(shown) == len(files)
            assert all(np.array_equal(one, image) for one, image in zip(shown, made, strict=True))


def test_an_even_image_and_noise_keep_the_colours_of_the_file(given, scene):
    for _, _, shown, files in cases(scene, given, "blank"):
        for pixels, file in zip(shown, files, strict=True):
            assert (pixels == np.rint(file.mean((0, 1)))).all()
    for _, _, shown, files in cases(scene, given, "noise"):
        for pixels, file in zip(shown, files, strict=True):
            assert (pixels != file).any()
            for before, after in zip(file.reshape(-1, 3).T, pixels.reshape(-1, 3).T, strict=True):
                assert (np.bincount(before, minlength=256) == np.bincount(after, minlength=256)).all()


def test_another_image_is_the_donors_file_and_a_flipped_one_the_mirrored(given, scene):
    for control in DONORS:
        for task, row, shown, own in cases(scene, given, control):
            for pixels, file in zip(shown, scene.files(control, task, row), strict=True):
                assert np.array_equal(pixels, file)
                assert not any(np.array_equal(pixels, other) for other in own)
    for _, _, (pixels,), (file,) in cases(scene, given, "flipped"):
        assert np.array_equal(pixels, file[:, ::-1])
        assert (pixels != file).any()


def test_paint_lies_where_the_control_says(given, scene):
    """Inside of the region and away from it, as far as the paint fades."""
    for control in ("occluded", "occluded_elsewhere", "only_target"):
        for task, row, (pixels,), (file,) in cases(scene, given, control):
            region = rle.decode(scene.docs[PLAIN][task][row]["region"]).astype(bool)
            away = np.logical_not(ndimage.binary_dilation(region, iterations=12))
            deep = ndimage.binary_erosion(region, iterations=3)
            assert min(deep.mean(), away.mean()) > 0.005
            changed = np.abs(pixels.astype(int) - file).max(2)
            where, elsewhere = (deep, away) if control == "occluded" else (away, deep)
            assert changed[where].max() > 25, control
            assert changed[elsewhere].max() < 5, control
            if control == "occluded":
                assert (changed[region] > 0).mean() > 0.5
            if control == "only_target":
                assert np.ptp(pixels[away], axis=0).max() < 5
