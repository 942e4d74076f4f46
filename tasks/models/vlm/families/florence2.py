"""Florence-2, an encoder-decoder: it answers and states boxes. Its option scores are refused (tasks.model_types)."""

from __future__ import annotations

from . import Family

FAMILY = Family("Florence-2", "Florence-2", ("florence2",), scored=False)
