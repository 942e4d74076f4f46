"""What a card says of the configs that its build has: written tables and paragraphs name all that there may be."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence

_NAME = re.compile(r"`(\w+)(?:/[^`]*)?`")
_SEPARATOR = re.compile(r"\|[-|]+\|")


def about(text: str, known: Collection[str], present: Collection[str]) -> str:
    """Markdown without the rows of tables, the names in lists and the paragraphs that are about other configs alone.

    known: all configs that there are; present: those of the build. A list goes with the paragraph before it.

    >>> about("`a` is one.\\n\\n`b` has lines:\\n\\n- of `x`\\n\\nAll the same.", ["a", "b"], ["a"])
    '`a` is one.\\n\\nAll the same.'
    """
    absent = set(known) - set(present)
    return "\n\n".join(_blocks(text.split("\n\n"), set(known), absent))


def tasks(choices: Sequence[Mapping[str, str]], splits: Collection[str]) -> str:
    """The tasks that a build has the rows of: those of the first choice of which it has any, with commas; "" for none.

    choices: `config/split` words that a task needs -> its name.

    >>> tasks([{"a/test b/test": "both"}, {"a/test": "a", "b/test": "b"}], ["a/test"])
    'a'
    """
    for choice in choices:
        if found := [names for needed, names in choice.items() if set(needed.split()) <= set(splits)]:
            return ",".join(found)
    return ""


def _blocks(blocks: Sequence[str], known: set[str], absent: set[str]) -> Iterator[str]:
    kept = True
    for block in blocks:
        if block.startswith("|"):
            lines = [line for line in block.split("\n") if not _is_of(line, known, absent)]
            kept = not all(_SEPARATOR.fullmatch(line) for line in lines[1:])
            if kept:
                yield "\n".join(_without(line, absent) for line in lines)
            continue
        if not block.startswith("- "):
            kept = not _is_of(block, known, absent)
        if kept:
            yield block


def _is_of(text: str, known: set[str], absent: set[str]) -> bool:
    """Whether a text names configs, and only those that are not there."""
    named = {name for name in _NAME.findall(text) if name in known}
    return bool(named) and named <= absent


def _without(line: str, absent: set[str]) -> str:
    """A row of a table, without absent configs in its lists."""
    for name in absent:
        line = re.sub(rf"`{re.escape(name)}`, |, `{re.escape(name)}`(?=[ ,])", "", line)
    return line
