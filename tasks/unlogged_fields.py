"""Values of a document that a sample log leaves out. lm-eval logs the text of each value."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any


class Unlogged(Sequence[str]):
    """A list of texts that all rows share. A sample log holds only their number."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._texts = tuple(texts)

    def __len__(self) -> int:
        return len(self._texts)

    def __getitem__(self, index):
        return self._texts[index]

    def __str__(self) -> str:
        return f"{len(self)} texts"


class UnloggedMask(Mapping[str, Any]):
    """A mask (RLE) that a sample log leaves out. The rows hold it."""

    def __init__(self, mask: Mapping[str, Any]) -> None:
        self._mask = mask

    def __getitem__(self, name: str) -> Any:
        return self._mask[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._mask)

    def __len__(self) -> int:
        return len(self._mask)

    def __str__(self) -> str:
        return "a mask"
