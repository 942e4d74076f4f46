"""A hook of mkdocs: a link that leaves docs/ leads to the file in the repository, which the site does not have."""

from __future__ import annotations

import re
from typing import Any

_OUTWARD = re.compile(r"\]\(\.\./([^)]+)\)")


def on_page_markdown(markdown: str, config: Any, **_: Any) -> str:
    """Replace links to files outside of docs/ by their addresses."""
    return _OUTWARD.sub(rf"]({config['repo_url']}/blob/main/\1)", markdown)
