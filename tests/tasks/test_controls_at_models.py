"""Inputs of tiny models under each control, through lm-eval: prompts, their order, and images."""

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
from medfaith.tasks.models.vlm.hf_vlm import HFVisionLM
from tests.support.tasks.evaluating import evaluate, load, record_images
from tests.support.tasks.tiny_models import PLACEHOLDER

HEAL, CONTRABENCH = "medfaith_heal_vindr_closed", "medfaith_contrabench_chexpert_presence"
PLAIN = "plain"  # no control
OF_BOTH = (PLAIN, "none", "blank", "noise", *DONORS)  # also supported by rows of CXR-ContraBench
MODELS = [("llava", HFMultimodalLM), ("qwen2_5_vl", HFVisionLM)]


class Scene(NamedTuple):
    """Loaded tasks and documents of every control.

    Attributes:
        roots: Roots of the images.
        tasks: Tasks that lm-eval loads, by control.
        docs: Documents by control, task and row.
    """

    roots: Mapping[str, Any]
    tasks: dict[str, Any]
    docs: dict[str, dict[str, dict[str, Any]]]

    def read_files(self, control: str, task: str, row: str) -> list[np.ndarray]:
        """Read the files that the document of a row names: uint8, shape (h, w, 3)."""
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
        options = {} if control == PLAIN else {"control": control}
        tasks[control] = load([HEAL, *([CONTRABENCH] if control in OF_BOTH else [])], data, roots, **options)
        loaded = tasks[control]["tasks"].items()
        docs[control] = {name: {doc["id"]: doc for doc in task.test_docs()} for name, task in loaded}
    return Scene(roots, tasks, docs)


@pytest.fixture(scope="module")
def rows(scene) -> dict[str, set[str]]:
    """Row ids by task.

    The rows of HEAL have a known answer for the other side and donors; those of CXR-ContraBench have several images.
    """
    docs = scene.docs
    shared = [row for row in docs["other_same"][HEAL] if row in docs["other"][HEAL]]
    several = [row for row, doc in docs["other"][CONTRABENCH].items() if len(doc["images"]) > 1]
    return {HEAL: {*docs["flipped"][HEAL], *shared[:1]}, CONTRABENCH: {*several[:2]}}


Received = dict[str, dict[str, tuple[str, list[np.ndarray]]]]


def ask_rows(lm: Any, scene: Scene, control: str, rows: Mapping[str, set[str]]) -> Received:
    """Run a model on some rows and return its inputs.

    Returns:
        The templated prompt and the processor's images (uint8, shape (h, w, 3)), by task and row.
    """
    indices = {
        task: [index for index, row in enumerate(docs) if row in rows[task]]
        for task, docs in scene.docs[control].items()
    }
    with record_images(lm, PLACEHOLDER[lm.name]) as images_by_prompt:
        results = evaluate(lm, scene.tasks[control], samples=indices, apply_chat_template=True)
    prompts = {
        task: {sample["doc"]["id"]: sample["arguments"][0][0] for sample in entries["samples"]}
        for task, entries in results.items()
    }
    n_rows = len({prompt for entries in prompts.values() for prompt in entries.values()})
    assert n_rows == sum(map(len, indices.values())) > 0  # no two rows have the same prompt
    return {
        task: {
            row: (prompt, [np.asarray(image) for image in images_by_prompt.get(prompt, ())])
            for row, prompt in entries.items()
        }
        for task, entries in prompts.items()
    }


@pytest.fixture(
    scope="module",
    params=[MODELS[0], pytest.param(MODELS[1], marks=pytest.mark.full)],
    ids=[name for name, _ in MODELS],
)
def lm(request, vlms) -> Any:
    """A model whose answers end after one token."""
    name, model = request.param
    loaded = model(str(vlms[name]), dtype="float32", device="cpu", batch_size=16)
    loaded.model.generation_config.eos_token_id = list(range(len(loaded.tokenizer)))
    loaded.name = name
    return loaded


@pytest.fixture(scope="module")
def received(lm, scene, rows) -> dict[str, Received]:
    """The model's inputs by control, except `none`."""
    return {name: ask_rows(lm, scene, name, rows) for name in scene.tasks if name != "none"}


def iterate_cases(
    scene: Scene, received: dict[str, Received], control: str
) -> Iterator[tuple[str, str, Any, list[np.ndarray]]]:
    """Yield each task and row with the model's images under a control and the row's own files."""
    for task, task_rows in received[control].items():
        for row, (_, shown_images) in task_rows.items():
            yield task, row, shown_images, scene.read_files(PLAIN, task, row)


def test_prompts_and_order_are_those_without_a_control(received, scene):
    for control, received_by_task in received.items():
        for task, docs in scene.docs[control].items():
            assert [row for row in scene.docs[PLAIN][task] if row in docs] == list(docs)
            plain = {row: prompt for row, (prompt, _) in received[PLAIN][task].items()}
            assert all(prompt == plain[row] for row, (prompt, _) in received_by_task[task].items())


def test_without_an_image_the_text_alone_arrives_or_the_run_says_what_to_do(lm, received, scene, rows):
    placeholder = PLACEHOLDER[lm.name]
    if not isinstance(lm, HFVisionLM):
        with pytest.raises(InputError, match=r"cannot answer without an image(.|\n)*blank(.|\n)*medfaith-hf-vlm"):
            ask_rows(lm, scene, "none", rows)
        return
    inputs: list[dict[str, Any]] = []
    hook = lm.model.register_forward_pre_hook(lambda _model, _args, received: inputs.append(received), with_kwargs=True)
    ask_rows(lm, scene, "none", rows)
    hook.remove()
    assert not any(name.startswith("pixel") for batch in inputs for name, tensor in batch.items() if tensor is not None)
    pad = lm.tokenizer.pad_token_id
    tokens = [[token for token in ids if token != pad] for batch in inputs for ids in batch["input_ids"].tolist()]
    prompts = [prompt for task_rows in received[PLAIN].values() for prompt, _ in task_rows.values()]
    assert all(placeholder in prompt for prompt in prompts)
    expected = [lm.tokenizer(prompt.replace(placeholder, ""))["input_ids"] for prompt in prompts]
    assert sorted(tokens) == sorted(expected)


def test_images_are_those_of_the_control(received, scene):
    """Compare every image of every control; without a control, they equal the files of the row."""
    for control in received:
        for task, row, shown_images, files in iterate_cases(scene, received, control):
            expected = files if control == PLAIN else map(np.asarray, scene.docs[control][task][row]["images"])
            assert len(shown_images) == len(files)
            assert all(np.array_equal(pixels, image) for pixels, image in zip(shown_images, expected, strict=True))


def test_an_even_image_and_noise_keep_the_colours_of_the_file(received, scene):
    for _, _, shown_images, files in iterate_cases(scene, received, "blank"):
        for pixels, file in zip(shown_images, files, strict=True):
            assert (pixels == np.rint(file.mean((0, 1)))).all()
    for _, _, shown_images, files in iterate_cases(scene, received, "noise"):
        for pixels, file in zip(shown_images, files, strict=True):
            assert (pixels != file).any()
            for before, after in zip(file.reshape(-1, 3).T, pixels.reshape(-1, 3).T, strict=True):
                assert (np.bincount(before, minlength=256) == np.bincount(after, minlength=256)).all()


def test_another_image_is_the_donors_file_and_a_flipped_one_the_mirrored(received, scene):
    for control in DONORS:
        for task, row, shown_images, row_files in iterate_cases(scene, received, control):
            for pixels, file in zip(shown_images, scene.read_files(control, task, row), strict=True):
                assert np.array_equal(pixels, file)
                assert not any(np.array_equal(pixels, row_file) for row_file in row_files)
    for _, _, (pixels,), (file,) in iterate_cases(scene, received, "flipped"):
        assert np.array_equal(pixels, file[:, ::-1])
        assert (pixels != file).any()


def test_paint_lies_where_the_control_says(received, scene):
    """Compare pixels deep inside the region and far from it, beyond the reach of the blending."""
    for control in ("occluded", "occluded_elsewhere", "only_target"):
        for task, row, (pixels,), (file,) in iterate_cases(scene, received, control):
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
