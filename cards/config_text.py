"""Restrict a card to the configs of a build: written tables and paragraphs name all possible configs."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence

_NAME = re.compile(r"`(\w+)(?:/[^`]*)?`")
_SEPARATOR = re.compile(r"\|[-|]+\|")


def filter_text(text: str, all_configs: Collection[str], present: Collection[str]) -> str:
    """Remove rows of tables, names in lists, and paragraphs that are only about configs missing from the build.

    A list is removed together with the paragraph before it.

    >>> filter_text("`a` is one.\\n\\n`b` has lines:\\n\\n- of `x`\\n\\nAll the same.", ["a", "b"], ["a"])
    '`a` is one.\\n\\nAll the same.'

    Args:
        text: Markdown.
        all_configs: All configs of the benchmark.
        present: The configs of the build.

    Returns:
        Markdown.
    """
    absent = set(all_configs) - set(present)
    return "\n\n".join(_filter_blocks(text.split("\n\n"), set(all_configs), absent))


def select_tasks(choices: Sequence[Mapping[str, str]], splits: Collection[str]) -> str:
    """Select the tasks that a build has the rows for: all such tasks of the first choice that has any.

    >>> select_tasks([{"a/test b/test": "both"}, {"a/test": "a", "b/test": "b"}], ["a/test"])
    'a'

    Args:
        choices: For each choice, the `config/split` words that a task needs -> its name.
        splits: The splits of the build.

    Returns:
        The names, separated by commas; "" if no choice fits.
    """
    for choice in choices:
        if list_task_names := [names for needed, names in choice.items() if set(needed.split()) <= set(splits)]:
            return ",".join(list_task_names)
    return ""


def _filter_blocks(blocks: Sequence[str], all_configs: set[str], absent: set[str]) -> Iterator[str]:
    is_relevant = True
    for block in blocks:
        if block.startswith("|"):
            lines = [line for line in block.split("\n") if not _is_irrelevant(line, all_configs, absent)]
            is_relevant = not all(_SEPARATOR.fullmatch(line) for line in lines[1:])
            if is_relevant:
                yield "\n".join(_remove_absent(line, absent) for line in lines)
            continue
        if not block.startswith("- "):
            is_relevant = not _is_irrelevant(block, all_configs, absent)
        if is_relevant:
            yield block


def _is_irrelevant(text: str, all_configs: set[str], absent: set[str]) -> bool:
    """Return whether a text names configs, all of them absent."""
    named_configs = {name for name in _NAME.findall(text) if name in all_configs}
    return bool(named_configs) and named_configs <= absent


def _remove_absent(line: str, absent: set[str]) -> str:
    """Remove absent configs from the lists in a row of a table."""
    for name in absent:
        line = re.sub(rf"`{re.escape(name)}`, |, `{re.escape(name)}`(?=[ ,])", "", line)
    return line
