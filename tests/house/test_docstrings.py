"""Each public function with parameters documents them, and what it returns.

ruff checks the sections that a docstring has. This test checks that it has them. A method of a class with a base may
leave its parameters to the method that it overrides; so may the functions of a module that implements a protocol.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROOMS = ("builders", "cards", "evaluate_metrics", "loaders", "medfaith", "tasks")
OWN_BASES = {"NamedTuple", "Protocol", "ABC"}  # bases without methods to override
PROTOCOLS = ("tasks/models/vlm/families/",)  # each module implements `Family`
NOTHING = {"", "None", "NoReturn"}


def find_missing_sections(source: str) -> Iterator[str]:
    """Iterate over the line and name of each public function, with the sections that it lacks."""
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef):
            yield from _check_function(node, overrides=False)
        elif isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            overrides = any(ast.unparse(base).partition("[")[0] not in OWN_BASES for base in node.bases)
            for method in node.body:
                if isinstance(method, ast.FunctionDef):
                    yield from _check_function(method, overrides=overrides)


def _check_function(node: ast.FunctionDef, *, overrides: bool) -> Iterator[str]:
    every = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs, node.args.vararg, node.args.kwarg]
    parameters = [argument.arg for argument in every if argument is not None and argument.arg not in ("self", "cls")]
    docstring = ast.get_docstring(node) or ""
    if node.name.startswith("_") or not parameters or (overrides and "Args:" not in docstring):
        return
    if "Args:" not in docstring:
        yield f"{node.lineno}: {node.name} has no section Args"
    returned = "" if node.returns is None else ast.unparse(node.returns)
    if returned not in NOTHING and "Returns:" not in docstring and "Yields:" not in docstring:
        yield f"{node.lineno}: {node.name} has no section Returns"


ARGS = '"""Do.\n\n    Args:\n        a: A.\n    """'
RETURNS = ARGS.replace("A.\n", "A.\n\n    Returns:\n        B.\n")


@pytest.mark.parametrize(
    ("source", "missing"),
    [
        ('def f(a) -> int:\n    """Do."""', ["1: f has no section Args", "1: f has no section Returns"]),
        (f"def f(a) -> int:\n    {ARGS}", ["1: f has no section Returns"]),
        (f"def f(a) -> None:\n    {ARGS}", []),
        (f"def f(a) -> int:\n    {RETURNS}", []),
        ('def f() -> int:\n    """Do."""', []),
        ('def _f(a) -> int:\n    """Do."""', []),
        ('class A:\n  def f(self, a):\n    """Do."""', ["2: f has no section Args"]),
        ('class A(B):\n  def f(self, a) -> int:\n    """Do."""', []),
        ('class A(NamedTuple):\n  def f(self, a):\n    """Do."""', ["2: f has no section Args"]),
        (f"class A(B):\n  def f(self, a) -> int:\n    {ARGS}", ["2: f has no section Returns"]),
    ],
)
def test_missing_sections_are_found(source, missing):
    assert [*find_missing_sections(source)] == missing


@pytest.mark.parametrize("room", ROOMS)
def test_no_public_function_of_a_room_lacks_a_section(room):
    paths = [path.relative_to(ROOT) for path in sorted((ROOT / room).rglob("*.py"))]
    missing = [
        f"{path}:{fault}"
        for path in paths
        if not path.as_posix().startswith(PROTOCOLS)
        for fault in find_missing_sections((ROOT / path).read_text(encoding="utf-8"))
    ]
    assert not missing, "\n".join(missing)
