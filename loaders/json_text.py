"""JSON as sources hold it, which need not be what rows can hold."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def parse(data: str | bytes, object_pairs_hook: Callable[[list[tuple[str, Any]]], Any] | None = None) -> Any:
    """As `json.loads`.

    Raises ValueError for what is no JSON, for one that is nested too deeply, and for half of a surrogate pair: JSON can
    spell it, and no UTF-8, so no Parquet, can hold it.
    """
    try:
        text = data if isinstance(data, str) else data.decode(json.detect_encoding(data))
        found = json.loads(text, object_pairs_hook=object_pairs_hook)
        if _SURROGATE.search(text):
            json.dumps(found, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"half a character: \\u{ord(error.object[error.start]):x}") from None
    except RecursionError:
        raise ValueError("nested too deeply") from None
    return found
