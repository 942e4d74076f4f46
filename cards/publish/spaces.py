"""A metric as a Space of the Hub: its module, the files that the module needs, its card, and a page to try it on.

`evaluate.load("<org>/<metric>")` fetches the module and the files beside it that the module imports by name. It fetches
no folder and needs no medfaith, so `bundle` lays all files flat and rewrites the imports between them.
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
from . import space_page

ROOM = "medfaith.evaluate_metrics"  # installed
TAG = "medfaith"  # by which publishing knows its own
GRADIO = "6.31.0"  # what the page is tested with
PYTHON = "3.11"
APP, PAGE, CARD, EXAMPLE, REQUIREMENTS = "app.py", "index.html", "README.md", "example.json", "requirements.txt"
LOOK = {"emoji": "🩻", "colorFrom": "blue", "colorTo": "gray"}
# In every card; what is on the Hub needs no checkout.
CHECKOUT = "In a checkout with medfaith installed, load it by this path; from the Hub by `<organisation>/{name}`.\n"


def metrics() -> list[Path]:
    """The folders of the metrics: those with a module of their own name."""
    room = Path(evaluate_metrics.__file__).parent
    return sorted(path.parent for path in room.glob("*/*.py") if path.stem == path.parent.name)


def stage(metric: Path, into: Path, repo_id: str, sdk: str = "gradio") -> None:
    """Writes the files of a metric's Space.

    Args:
        metric: one of `metrics()`. into: an empty folder. repo_id: `<org>/<metric>`, from which the card loads it.
        sdk: "gradio" for a page that computes scores, "static" for one that shows those of the examples.

    Raises:
        MedfaithError: a library that static pages need is not installed.
    """
    for name, source in bundle(metric).items():
        (into / name).write_text(source, encoding="utf-8")
    if sdk == "gradio":
        shutil.copyfile(Path(__file__).with_name("space_app.py"), into / APP)
    _, header, body = (metric / CARD).read_text(encoding="utf-8").split("---\n", 2)
    shown = {"metric": metric.name, "examples": examples(body)}
    (into / EXAMPLE).write_text(json.dumps(shown, allow_nan=False) + "\n", encoding="utf-8")
    body = body.replace(CHECKOUT.format(name=metric.name), "")
    body = body.replace(f'"evaluate_metrics/{metric.name}"', f'"{repo_id}"').lstrip()
    (into / CARD).write_text(front_matter(_header(yaml.safe_load(header), sdk)) + body, encoding="utf-8")
    needed = requirements(path.read_text(encoding="utf-8") for path in sorted(into.glob("*.py")))
    (into / REQUIREMENTS).write_text("\n".join(needed) + "\n", encoding="utf-8")
    if sdk == "static":
        (into / PAGE).write_text(space_page.page(into), encoding="utf-8")


def bundle(metric: Path) -> dict[str, str]:
    """The metric's module and the files of `evaluate_metrics` that it needs, also indirectly.

    A file of another folder gets that folder's name in front: confidence/score.py becomes confidence_score.py.

    Args:
        metric: one of `metrics()`.

    Returns:
        file name -> Python source. Files import one another as siblings; the module, which comes first, names them all.

    Raises:
        ValueError: an import from another room, or two files that get one name.
    """
    main, room = metric / f"{metric.name}.py", metric.parent
    paths, sources, waiting = {}, {}, [main]
    while waiting:
        path = waiting.pop(0)
        name = _flat(path, metric)
        if paths.setdefault(name, path) != path:
            raise ValueError(f"{path} and {paths[name]}: both would be {name}.py in a Space; rename one of them")
        if f"{name}.py" in sources:
            continue
        source = path.read_text(encoding="utf-8")
        lines = source.splitlines(keepends=True)
        for node in _import_nodes(ast.parse(source)):
            if found := _path_of(node, path, room):
                waiting.append(found)
                flat = ast.ImportFrom(_flat(found, metric), node.names, 1)
                lines[node.lineno - 1 : node.end_lineno] = [f"{' ' * node.col_offset}{ast.unparse(flat)}\n"]
        sources[f"{name}.py"] = "".join(lines)
    sources[main.name] = _naming(sources[main.name], set(paths) - {metric.name})
    return sources


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
            found.append({"config": config, "inputs": eval(f"dict({arguments})", namespace)})  # noqa: S307 - our card
        elif "evaluate.load" in example.source:
            config = next((ast.literal_eval(argument) for argument in called["load"].args[1:]), None)
        elif example.source.strip() != "import evaluate":
            with suppress(NameError):  # a line that looks at scores
                exec(example.source, namespace)  # noqa: S102 - our card
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


def _flat(path: Path, metric: Path) -> str:
    """The module name in the metric's Space of a file of any metric."""
    return path.stem if path.parent == metric else f"{path.parent.name}_{path.stem}"


def _naming(source: str, files: set[str]) -> str:
    """The module with an import of each of the files that it does not import itself."""
    nodes = [node for node in ast.parse(source).body if isinstance(node, ast.Import | ast.ImportFrom)]
    unnamed = sorted(files - {node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.level})
    lines = source.splitlines(keepends=True)
    added = [f"from .{name} import __name__ as _{name}\n" for name in unnamed]
    added = ["\n# evaluate fetches only the files that this one names.\n", *added] if added else []
    return "".join([*lines[: nodes[-1].end_lineno], *added, *lines[nodes[-1].end_lineno :]])


def _import_nodes(tree: ast.AST) -> list[ast.ImportFrom]:
    """Imports of names, the last one first, so that replacing its lines moves no other."""
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    return sorted(nodes, key=lambda node: -node.lineno)


def _path_of(node: ast.ImportFrom, path: Path, room: Path) -> Path | None:
    """The file that an import of `path` names, None for a library's.

    Raises:
        ValueError: an import of medfaith that no Space can have.
    """
    module = node.module or ""
    if node.level == 0 and module.split(".")[0] != "medfaith":
        return None
    if node.level:
        found = path.parents[node.level - 1].joinpath(*module.split(".")).with_suffix(".py")
    else:
        found = room.joinpath(*module.removeprefix(f"{ROOM}.").split(".")).with_suffix(".py")
    if not found.is_file() or found.parent.parent != room:
        raise ValueError(
            f"{path}, line {node.lineno}: a Space has no {'.' * node.level}{module}; "
            f"expected `from {ROOM}.<folder>.<file> import ...`, or the same relatively"
        )
    return found


def _imported(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.split(".")[0]


def _header(card: dict[str, Any], sdk: str) -> dict[str, Any]:
    """What the Hub demands of a Space, around what the card says."""
    static = {"sdk": "static", "app_file": PAGE}
    gradio = {"sdk": "gradio", "sdk_version": GRADIO, "python_version": PYTHON, "app_file": APP}
    return {
        "title": card["title"],
        **LOOK,
        **(static if sdk == "static" else gradio),
        "pinned": False,
        "license": card["license"],
        "tags": [*card["tags"], TAG],
    }
