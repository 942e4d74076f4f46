"""Bio_ClinicalBERT, the text model of GLoRIA and of the SurgVLP family; its weights are part of their checkpoints."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ....loaders.errors import InputError

TEXT_MODEL = "emilyalsentzer/Bio_ClinicalBERT"


@contextmanager
def reading(text_model: str, expected: str) -> Iterator[None]:
    """Convert transformers' errors for a folder or Hub name that cannot be read to InputError.

    Args:
        text_model: The folder or Hub name.
        expected: Description of the expected input.

    Yields:
        Nothing.

    Raises:
        InputError: The model cannot be loaded.
    """
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
