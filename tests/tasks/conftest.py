"""Shared fixtures of the task tests: builds, and tiny models that are saved and loaded once per session."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from medfaith.builders import cxr_contrabench
from tests.support.builders.files import root_words
from tests.support.tasks import tiny_contrastive, tiny_gloria, tiny_models
from tests.support.tasks.shard_scene import BENCHMARKS, PRESENCE, ask


@pytest.fixture(scope="session", autouse=True)
def quick_commands(quick_lm_eval: None) -> None:
    """Run all commands of this folder with `quick_lm_eval`."""


@pytest.fixture(scope="session")
def contrabench_of_all_sources(phantom_roots, phantom_items_roots, once) -> tuple[dict[str, Path], Path]:
    """Roots and build of CXR-ContraBench from the sources of `phantom_build`, CheXStruct and ReXVQA."""
    roots = phantom_roots | phantom_items_roots
    return roots, once("data-of-all", lambda out: cxr_contrabench.build(roots, out))


@pytest.fixture(scope="session")
def places(phantom_build, phantom_roots, phantom_heal_build, phantom_heal_roots):
    """A function from the name of a task to its build and roots."""
    return lambda name: (phantom_heal_build, phantom_heal_roots) if "heal" in name else (phantom_build, phantom_roots)


@pytest.fixture(scope="session")
def vlms(once) -> dict[str, Path]:
    """Folders of the tiny vision-language models, by name. Read-only."""
    names = ("llava", "qwen2_5_vl")
    folder = once("vlms", lambda folder: [tiny_models.SAVE[name](folder / name) for name in names])
    return {name: folder / name for name in names}


@pytest.fixture(scope="session")
def families(tmp_path_factory) -> dict[str, dict[str, Any]]:
    """The model_args of the tiny model of each contrastive family."""
    with tiny_contrastive.small_resnet():
        return tiny_contrastive.save_families(tmp_path_factory.mktemp("families"))


@pytest.fixture(scope="session")
def models(families) -> dict[str, Any]:
    """A ContrastiveLM of each family. Read-only."""
    with tiny_contrastive.small_resnet():
        return tiny_contrastive.load_families(families)


@pytest.fixture
def small_resnet():
    """Patch torchvision's ResNet-50 with the small one, for a test that loads SurgVLP itself."""
    with tiny_contrastive.small_resnet():
        yield


@pytest.fixture(scope="session")
def gloria(tmp_path_factory) -> dict[bool, tuple[str, str]]:
    """Checkpoint and tokenizer of a tiny GLoRIA, by whether it has a "No Attn" vector."""
    folder = tmp_path_factory.mktemp("gloria")
    return {no_attn: tiny_gloria.save(folder / str(no_attn), no_attn) for no_attn in (False, True)}


@pytest.fixture(scope="session")
def scenes(request) -> Callable[[str], list[str]]:
    """A function from the name of a benchmark to the command-line arguments for its data and roots."""

    def build_arguments(benchmark: str) -> list[str]:
        data, roots = (request.getfixturevalue(f"phantom{BENCHMARKS[benchmark]}_{kind}") for kind in ("build", "roots"))
        return ["--data", str(data), *root_words(roots)]

    return build_arguments


@pytest.fixture(scope="session")
def halves(scenes, tmp_path_factory) -> Path:
    """A folder with the output folders 1 and 2 of two shards. Read-only."""
    folder = tmp_path_factory.mktemp("halves")
    for number in (1, 2):
        arguments = [*scenes("contrabench"), "--tasks", PRESENCE, "--model", "oracle"]
        assert ask(arguments, folder / str(number), f"{number}/2") == 0
    return folder
