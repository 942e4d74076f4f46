"""Families of vision-language models whose tokens of an image are known by place: one file a family.

A file has one `FAMILY`. Its `tiles` reads from what the processor made of an image, and from the model's configuration,
which token shows which part of the image. What no family claims is refused where heatmaps are made.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from ....loaders.errors import MedfaithError
from ...explain.tiles import Tile, Window


class Seen(NamedTuple):
    """What a model got of one image.

    n_tokens: how many tokens stand for the image. size: (height, width) of the image that the processor got. inputs:
    what the processor made, as the model's forward takes it. config, processor: the model's.
    """

    n_tokens: int
    size: tuple[int, int]
    inputs: Mapping[str, Any]
    config: Any
    processor: Any


def image_tokens(inputs: Mapping[str, Any], config: Any) -> np.ndarray:
    """Where an image's tokens stand in a prompt of shape (1, n): positions from 0, int64."""
    return np.flatnonzero((inputs["input_ids"][0] == config.image_token_id).cpu().numpy())


@dataclass(frozen=True)
class Family:
    """How the models of one kind see.

    name: as people call it. models: some of it. model_types: of transformers' configurations, or of their vision
    encoders. tiling: how an image becomes tokens, for a table. tiles: where the tokens lie; raises MedfaithError for a
    processor whose settings it does not know. answer_type: in `token_type_ids`, the type of what the model itself says.
    prompt_end: what the processor writes behind a prompt, and a beginning of text before its words. positions: of the
    inputs and the configuration, where the tokens of the image stand among what explain.token_cam looks at. decoded:
    whether the decoders of tasks.decoding are tested with it.
    """

    name: str
    models: str
    model_types: tuple[str, ...]
    tiling: str
    tiles: Callable[[Seen], list[Tile]]
    answer_type: int = 0
    prompt_end: str = ""
    decoded: bool = False
    positions: Callable[[Mapping[str, Any], Any], np.ndarray] = image_tokens


@cache
def families() -> tuple[Family, ...]:
    """All families, by the names of their files."""
    names = sorted(module.name for module in pkgutil.iter_modules(__path__))
    return tuple(importlib.import_module(f"{__name__}.{name}").FAMILY for name in names)


def claimed(config: Any) -> Family | None:
    """The family of a model's configuration; None where no family claims it. That of its vision encoder comes first."""
    kinds = (getattr(getattr(config, "vision_config", None), "model_type", None), config.model_type)
    return next((family for kind in kinds for family in families() if kind in family.model_types), None)


def family_of(config: Any) -> Family:
    """The family of a model's configuration. Raises MedfaithError where no family claims it."""
    if family := claimed(config):
        return family
    names = ", ".join(family.name for family in families())
    raise MedfaithError(
        f"{config.model_type}: it is not known where this model's image tokens lie, so that no heatmap can be made\n"
        f"  expected: a model of {names}\n"
        "  what to do: use --model medfaith-hf-vlm, which answers without heatmaps; medfaith models lists all families"
    )


def tiles_of(family: Family, seen: Seen) -> list[Tile]:
    """The family's tiles of an image.

    Raises:
        MedfaithError: they are not those of the image's tokens, so that heatmaps would be wrong.
    """
    tiles = family.tiles(seen)
    used = np.concatenate([tile.tokens.ravel() for tile in tiles]) if tiles else np.empty(0)
    if not len(used) or used.min() < 0 or used.max() >= seen.n_tokens or len(np.unique(used)) < len(used):
        raise not_as_known(family.name, seen)
    return tiles


def of_patches(window: Window, vision: Any) -> Window:
    """What the patches of a vision encoder read of a window that it gets as one image.

    Where patches do not fill the image (SigLIP's of 14 pixels in 384), it reads nothing of what is left at the right
    and at the bottom.

    >>> from types import SimpleNamespace
    >>> of_patches((0.0, 0.0, 384.0, 768.0), SimpleNamespace(image_size=384, patch_size=14))
    (0.0, 0.0, 378.0, 756.0)
    """
    x, y, width, height = window
    side = vision.image_size // vision.patch_size * vision.patch_size
    return x, y, width * side / vision.image_size, height * side / vision.image_size


def not_as_known(name: str, seen: Seen) -> MedfaithError:
    """The image's tokens are not as many as the family's tiling gives."""
    height, width = seen.size
    return MedfaithError(
        f"{name}: an image of {width} x {height} pixels has {seen.n_tokens} tokens, in another arrangement than this "
        "family's\n  what to do: use --model medfaith-hf-vlm, which answers without heatmaps"
    )
