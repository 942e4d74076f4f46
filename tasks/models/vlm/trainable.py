"""Loading of a vision-language model for training, and its layers that LoRA adapts."""

from __future__ import annotations

from typing import Any

import transformers
from torch import nn

from ....loaders.errors import InputError


def load_vlm(name: str, dtype: str = "auto") -> tuple[Any, Any]:
    """Load a model of images and text and its processor, on the CPU.

    Args:
        name: A folder or a Hub name.
        dtype: Type of the weights.

    Returns:
        The model and its processor.

    Raises:
        InputError: transformers cannot load it as such a model.
    """
    try:
        model = transformers.AutoModelForImageTextToText.from_pretrained(name, dtype=dtype)
        return model, transformers.AutoProcessor.from_pretrained(name)
    except (OSError, ValueError) as error:
        raise make_loading_error(name, error, "a model of images and text for transformers") from error


def make_loading_error(name: str, error: Exception, expected: str) -> InputError:
    """Build the error for a model that transformers cannot load.

    Args:
        name: Name of the model.
        error: Error of transformers.
        expected: Description of the expected input.

    Returns:
        The error, to raise.
    """
    cause = (str(error).splitlines() or [type(error).__name__])[0]
    return InputError(name, f"cannot be loaded ({cause})", expected=expected, action="check the name or the folder")


def find_linear_layers(model: Any) -> list[str]:
    """Find the linear layers of the language model, without the output layer.

    Args:
        model: The vision-language model.

    Returns:
        Full names of the layers.
    """
    inside = {id(module) for module in model.get_decoder().modules()}
    linear = (name for name, module in model.named_modules() if id(module) in inside and isinstance(module, nn.Linear))
    return [name for name in linear if not name.endswith("lm_head")]
