"""Few bindings have vague names, and messages and pages say "next to", not "beside".

CONTRIBUTING asks for nouns of the field and for plain English. These tests count names that say nothing by themselves,
and look for idioms that readers had to read twice.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROOMS = ("benchmarks", "builders", "cards", "evaluate_metrics", "loaders", "medfaith", "tasks")
MOST = 0.01  # allowed share of vague names in a room: some are terms of the field, such as `left` and `right`
VAGUE = {
    *("alone", "apart", "asked", "beside", "both", "chosen", "drawn", "each", "first", "found", "given"),
    *("here", "how", "kept", "known", "least", "left", "looked", "made", "named", "none", "of", "one"),
    *("other", "others", "own", "part", "parts", "read", "rest", "said", "second", "seen", "shown"),
    *("taken", "that", "there", "those", "told", "wanted", "what", "whole", "words"),
}


IDIOM = re.compile(r"\b(?:beside|mended|stands? (?:in|here|there|next|alone|together))\b", re.IGNORECASE)


def find_bound_names(tree: ast.AST) -> list[tuple[int, str]]:
    """Find the line and name of each variable, parameter and field."""
    names = []
    for node in ast.walk(tree):
        if isinstance(node, ast.arg):
            names.append((node.lineno, node.arg))
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.append((node.lineno, node.id))
    return names


def is_vague(name: str) -> bool:
    return name in VAGUE or name.startswith("of_")


def test_vague_names_are_counted():
    source = "found = 1\nof_row: int = 2\ndef score(rows, one): pass\nfor study in rows: left, right = study\n"
    names = [name for _, name in find_bound_names(ast.parse(source))]
    assert sorted(filter(is_vague, names)) == ["found", "left", "of_row", "one"]
    assert len(names) == 7


@pytest.mark.parametrize("room", ROOMS)
def test_few_names_of_a_room_are_vague(room):
    names = [
        (f"{path.relative_to(ROOT)}:{line}: {name}", name)
        for path in sorted((ROOT / room).rglob("*.py"))
        for line, name in find_bound_names(ast.parse(path.read_text(encoding="utf-8")))
    ]
    vague = [place for place, name in names if is_vague(name)]
    assert len(vague) <= MOST * len(names), "\n".join([f"{len(vague)} of {len(names)} names are vague:", *vague])


@pytest.mark.parametrize("room", [*ROOMS, "docs"])
def test_texts_of_a_room_have_no_idioms(room):
    paths = sorted(path for suffix in ("py", "md", "toml", "html") for path in (ROOT / room).rglob(f"*.{suffix}"))
    paths = [path for path in paths if "reading" not in path.parts]  # it holds the words of models
    assert paths
    lines = (
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in paths
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if IDIOM.search(line)
    )
    assert "\n".join(lines) == ""
