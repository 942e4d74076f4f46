"""A metric as a Space of the Hub: its module, its card, and a page on which to try it.

`evaluate.load("<org>/<metric>")` fetches the module and the siblings that it names; the rest is for the page.
"""

from __future__ import annotations

import ast
import doctest
import importlib.metadata
import json
import re
import shutil
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml

from ... import evaluate_metrics
from ...builders.write import front_matter

TAG = "medfaith"  # by which publishing knows its own
GRADIO = "6.31.0"  # what the page is tested with
PYTHON = "3.11"
APP, CARD, EXAMPLE, REQUIREMENTS = "app.py", "README.md", "example.json", "requirements.txt"
LOOK = {"emoji": "🩻", "colorFrom": "blue", "colorTo": "gray"}
CHECKOUT = "The path is that of a checkout; from the Hub it is `<organisation>/{name}`. "  # of every card


def metrics() -> list[Path]:
    """The folders of the metrics: those with a module of their own name."""
    room = Path(evaluate_metrics.__file__).parent
    return sorted(path.parent for path in room.glob("*/*.py") if path.stem == path.parent.name)


def stage(metric: Path, into: Path, repo_id: str) -> None:
    """Writes the files of a metric's Space.

    Args:
        metric: one of `metrics()`. into: an empty folder. repo_id: `<org>/<metric>`, from which the card loads it.
    """
    for path in (metric / f"{metric.name}.py", *_siblings(metric)):
        shutil.copyfile(path, into / path.name)  # of a link the file that it leads to
    shutil.copyfile(Path(__file__).with_name("space_app.py"), into / APP)
    _, header, body = (metric / CARD).read_text(encoding="utf-8").split("---\n", 2)
    shown = {"metric": metric.name, "examples": examples(body)}
    (into / EXAMPLE).write_text(json.dumps(shown, allow_nan=False) + "\n", encoding="utf-8")
    body = body.replace(CHECKOUT.format(name=metric.name), "")
    body = body.replace(f'"evaluate_metrics/{metric.name}"', f'"{repo_id}"').lstrip()
    (into / CARD).write_text(front_matter(_header(yaml.safe_load(header))) + body, encoding="utf-8")
    needed = requirements(path.read_text(encoding="utf-8") for path in sorted(into.glob("*.py")))
    (into / REQUIREMENTS).write_text("\n".join(needed) + "\n", encoding="utf-8")


def examples(card: str) -> list[dict[str, Any]]:
    """The calls of `compute` in a card: config (None: the default) and inputs, which are the call's arguments.

    The lines before a call are run, but for evaluate's; lines with an output, loops among them, are passed over.

    >>> card = '''
    ... >>> metric = evaluate.load("evaluate_metrics/ivt", "triplets")
    ... >>> rows = [1] * 3
    ... >>> scores = metric.compute(predictions=rows, k=5)
    ... '''
    >>> examples(card)
    [{'config': 'triplets', 'inputs': {'predictions': [1, 1, 1], 'k': 5}}]
    """
    namespace: dict[str, Any] = {}
    found, config = [], None
    for example in doctest.DocTestParser().get_examples(card):
        if example.want or example.options.get(doctest.SKIP):
            continue
        calls = [node for node in ast.walk(ast.parse(example.source)) if isinstance(node, ast.Call)]
        called = {call.func.attr: call for call in calls if isinstance(call.func, ast.Attribute)}
        if "compute" in called:
            arguments = ", ".join(map(ast.unparse, called["compute"].keywords))
            found.append({"config": config, "inputs": eval(f"dict({arguments})", namespace)})
        elif "evaluate.load" in example.source:
            config = next((ast.literal_eval(argument) for argument in called["load"].args[1:]), None)
        elif example.source.strip() != "import evaluate":
            with suppress(NameError):  # a line that looks at scores
                exec(example.source, namespace)
    return found


def requirements(sources: Iterable[str]) -> list[str]:
    """The distributions that Python files import, each with the lowest version that medfaith allows.

    >>> requirements(["import evaluate", "import json", "from .score import score_predictions"])
    ['evaluate>=0.4.6']
    """
    names = {name for source in sources for name in _imported(ast.parse(source))} - set(sys.stdlib_module_names)
    declared = {}
    for requirement in importlib.metadata.requires("medfaith") or ():
        if match := re.match(r"([\w-]+)(>=[\w.]+)", requirement):
            declared[match[1]] = match[0]
    return [declared[name] for name in sorted(names)]


def _siblings(metric: Path) -> list[Path]:
    """The files that the module names, which is what evaluate fetches with it."""
    tree = ast.parse((metric / f"{metric.name}.py").read_text(encoding="utf-8"))
    return [metric / f"{node.module}.py" for node in tree.body if isinstance(node, ast.ImportFrom) and node.level]


def _imported(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.split(".")[0]


def _header(card: dict[str, Any]) -> dict[str, Any]:
    """What the Hub demands of a Space, around what the card says."""
    return {
        "title": card["title"],
        **LOOK,
        "sdk": "gradio",
        "sdk_version": GRADIO,
        "python_version": PYTHON,
        "app_file": APP,
        "pinned": False,
        "license": card["license"],
        "tags": [*card["tags"], TAG],
    }
