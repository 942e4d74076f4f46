"""Check the location and the message of an InputError."""

from pathlib import Path

import pytest

from medfaith.loaders.errors import InputError


def get_fault(reader, *args, where: Path | str, row=None, column=None) -> str:
    """Return the message of the InputError that `reader(*args)` raises, after checking its location and its advice."""
    with pytest.raises(InputError) as error:
        reader(*args)
    assert (error.value.where, error.value.row, error.value.column) == (str(where), row, column)
    assert "what to do" in str(error.value)
    return str(error.value)
