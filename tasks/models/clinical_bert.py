"""Bio_ClinicalBERT, whose words GLoRIA and the SurgVLP family read; its weights come with their checkpoints."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ...loaders.errors import InputError

TEXT_MODEL = "emilyalsentzer/Bio_ClinicalBERT"


@contextmanager
def reading(text_model: str, expected: str) -> Iterator[None]:
    """Turns what transformers raises where a folder or Hub name cannot be read into an InputError that names it."""
    try:
        yield
    except (OSError, ValueError) as error:
        raise InputError(
            f"text_model={text_model}",
            f"cannot be loaded ({str(error).splitlines()[0]})",
            expected=expected,
            action=f"download {TEXT_MODEL} (its weights are not needed) and name the folder: text_model= in "
            "--model_args, --text-model for medfaith train",
        ) from error
