"""What a refusal of a file must name."""

from pathlib import Path

import pytest

from medfaith.loaders.errors import InputError


def fault(reader, *args, where: Path | str, row=None, column=None) -> str:
    """The message of the InputError that `read(*args)` raises; it names this place, and what to do."""
    with pytest.raises(InputError) as error:
        reader(*args)
    assert (error.value.where, error.value.row, error.value.column) == (str(where), row, column)
    assert "what to do" in str(error.value)
    return str(error.value)
