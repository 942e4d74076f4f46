"""Families of vision-language models that were tried here, and the roads that each takes: `medfaith models` lists them.

A family has a module with one `FAMILY`, or a row in `without_positions`. If the positions of its image tokens are
known, its `tiles` function reads from the processor's output and from the model's configuration which token shows which
part of the image. Heatmap code refuses the models of the other families, and those that belong to no family.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from .....loaders.errors import MedfaithError
from ....explain.tiles import Tile, Window


class Seen(NamedTuple):
    """One image as the processor and the model encode it.

    Attributes:
        n_tokens: Number of tokens that represent the image.
        size: (height, width) of the image that the processor received.
        inputs: Output of the processor, as the model's forward takes it.
        config: Configuration of the model.
        processor: Processor of the model.
    """

    n_tokens: int
    size: tuple[int, int]
    inputs: Mapping[str, Any]
    config: Any
    processor: Any


def image_tokens(inputs: Mapping[str, Any], config: Any) -> np.ndarray:
    """Return the positions of the image's tokens in a prompt.

    Args:
        inputs: Output of the processor for one prompt; `input_ids` has shape (1, n).
        config: Configuration of the model.

    Returns:
        Positions from 0, int64.
    """
    return np.flatnonzero((inputs["input_ids"][0] == config.image_token_id).cpu().numpy())


@dataclass(frozen=True)
class Family:
    """How the models of one family represent an image.

    Attributes:
        name: Common name of the family.
        models: Examples of its models.
        model_types: Model types of transformers configurations or of their vision encoders.
        tiling: How an image becomes tokens, as text for a table.
        tiles: Function that computes the places of the tokens, or None if they are not known. It raises MedfaithError
            for unknown processor settings.
        answer_type: Value of `token_type_ids` for tokens that the model generates.
        prompt_end: Text that the processor appends to a prompt.
        scored: Whether option scores are computed.
        decoded: Whether the decoders of tasks.decoding are tested with this family.
        positions: Function that finds the image's tokens among the states that explain.token_cam reads.
    """

    name: str
    models: str
    model_types: tuple[str, ...]
    tiling: str = "places of tokens not known"
    tiles: Callable[[Seen], list[Tile]] | None = None
    answer_type: int = 0
    prompt_end: str = ""
    scored: bool = True
    decoded: bool = False
    positions: Callable[[Mapping[str, Any], Any], np.ndarray] = image_tokens

    @property
    def roads(self) -> tuple[str, ...]:
        """The roads that are tested with this family."""
        tested = {"option scores": self.scored, "heatmaps": self.tiles is not None, "decoders": self.decoded}
        return "answers", *(road for road, is_tested in tested.items() if is_tested)


REFUSED = {
    **dict.fromkeys(
        ("blip-2", "instructblip"),
        "puts one image before the prompt, and takes no prompt with two images or with none",
    ),
}  # model type -> why medfaith cannot ask the model: its controls need such prompts


@cache
def families() -> tuple[Family, ...]:
    """Load all families, in the order of their module names."""
    names = sorted(module.name for module in pkgutil.iter_modules(__path__))
    modules = [importlib.import_module(f"{__name__}.{name}") for name in names]
    return tuple(family for module in modules for family in getattr(module, "FAMILIES", None) or [module.FAMILY])


def check_answering(model_type: str | None) -> None:
    """Check that models of a type can answer; config.json names the type, so that no weights are needed.

    Args:
        model_type: The `model_type` of the configuration.

    Raises:
        MedfaithError: The models cannot be asked as lm-eval asks.
    """
    if reason := REFUSED.get(model_type or ""):
        raise MedfaithError(
            f"{model_type}: {reason}\n"
            "  what to do: write a Python function that asks the model, and pass it to medfaith.audit (docs/python.md)"
        )


def claimed(config: Any) -> Family | None:
    """Find the family of a model's configuration.

    The type of the vision encoder is tried before the type of the model.

    Args:
        config: Configuration of the model.

    Returns:
        The family, or None if the model belongs to none.
    """
    kinds = (getattr(getattr(config, "vision_config", None), "model_type", None), config.model_type)
    return next((family for kind in kinds for family in families() if kind in family.model_types), None)


def require_family(config: Any) -> Family:
    """Return the family of a model's configuration, whose image tokens have known positions.

    Args:
        config: Configuration of the model.

    Returns:
        The family.

    Raises:
        MedfaithError: The model belongs to no family, or the places of the family's tokens are not known.
    """
    family = claimed(config)
    if family and family.tiles:
        return family
    names = ", ".join(family.name for family in families() if family.tiles)
    raise MedfaithError(
        f"{config.model_type}: it is not known where this model's image tokens lie, so that no heatmap can be made\n"
        f"  expected: a model of {names}\n"
        "  what to do: use --model medfaith-hf-vlm, which answers without heatmaps; medfaith models lists all families"
    )


def compute_tiles(family: Family, encoded: Seen) -> list[Tile]:
    """Compute the tiles of an image and check them against its tokens.

    Args:
        family: The model's family, with `tiles`.
        encoded: The image.

    Returns:
        The tiles; each of their tokens is a different token of the image.

    Raises:
        MedfaithError: The tiles name other tokens than the image has, so heatmaps would be wrong.
    """
    assert family.tiles
    tiles = family.tiles(encoded)
    indices = np.concatenate([tile.tokens.ravel() for tile in tiles]) if tiles else np.empty(0)
    if (
        not len(indices)
        or indices.min() < 0
        or indices.max() >= encoded.n_tokens
        or len(np.unique(indices)) < len(indices)
    ):
        raise make_tiling_error(family.name, encoded)
    return tiles


def compute_patch_window(window: Window, vision: Any) -> Window:
    """Compute the part of a window that the patches of a vision encoder cover.

    If patches do not fill the image (SigLIP's of 14 pixels in 384), the encoder ignores pixels at the right and bottom.

    Args:
        window: (x, y, width, height) of the part that the encoder receives as one image.
        vision: Configuration of the vision encoder.

    Returns:
        (x, y, width, height) of the covered part, in the units of `window`.

    >>> from types import SimpleNamespace
    >>> compute_patch_window((0.0, 0.0, 384.0, 768.0), SimpleNamespace(image_size=384, patch_size=14))
    (0.0, 0.0, 378.0, 756.0)
    """
    x, y, width, height = window
    side = vision.image_size // vision.patch_size * vision.patch_size
    return x, y, width * side / vision.image_size, height * side / vision.image_size


def make_tiling_error(name: str, encoded: Seen) -> MedfaithError:
    """Build the error for an image whose number of tokens does not fit the family's tiling.

    Args:
        name: Name of the family.
        encoded: The image.

    Returns:
        The error, to raise.
    """
    height, width = encoded.size
    return MedfaithError(
        f"{name}: an image of {width} x {height} pixels has {encoded.n_tokens} tokens, in another arrangement than "
        "this family's\n  what to do: use --model medfaith-hf-vlm, which answers without heatmaps"
    )
