"""Access to the Hub: whether it can be reached, and the content of its cache. Nothing is downloaded."""

from __future__ import annotations

import glob
from functools import cache
from pathlib import Path


def can_reach_hub() -> bool:
    """Return whether the Hub can be reached. Its own client would need 24 seconds to find out."""
    from huggingface_hub import constants

    return _can_reach(constants.ENDPOINT)


@cache
def _can_reach(endpoint: str) -> bool:
    from huggingface_hub import errors, get_session

    try:
        get_session().head(endpoint, timeout=4)
    except (errors.HTTPError, OSError):
        return False
    return True


def is_cached(data: str) -> bool:
    """Return whether the cache of the Hub has data of an organisation or a data set.

    Args:
        data: The id of the organisation or the data set.

    Returns:
        True if the cache has the data set, or at least one of the organisation.
    """
    from huggingface_hub import constants

    name = glob.escape(data.replace("/", "--"))
    return any(Path(constants.HF_HUB_CACHE).glob(f"datasets--{name}" if "/" in data else f"datasets--{name}--*"))


def is_path(name: str) -> bool:
    """Return whether a name cannot be an id on the Hub.

    Args:
        name: The name of a folder, an organisation, a data set or a model.

    Returns:
        True if the name begins with ".", "/" or "~", or has more than one slash.
    """
    return name.startswith((".", "/", "~")) or name.count("/") > 1
