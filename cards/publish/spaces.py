"""A metric as a Space of the Hub: its module, the files that the module needs, its card, and a page to try it on.

`evaluate.load("<org>/<metric>")` fetches the module and the files next to it that the module imports by name. It
fetches no folder and needs no medfaith, so `bundle` puts all files into one folder and rewrites the imports between
them.
"""

from __future__ import annotations

import ast
import doctest
import functools
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
TAG = "medfaith"  # marks the Spaces that medfaith publishes
GRADIO = "6.31.0"  # the version that the page is tested with
PYTHON = "3.11"
APP, PAGE, CARD, EXAMPLE, REQUIREMENTS = "app.py", "index.html", "README.md", "example.json", "requirements.txt"
LOOK = {"emoji": "🩻", "colorFrom": "blue", "colorTo": "gray"}
# A line of every card, which is removed for the Hub.
CHECKOUT = "In a checkout with medfaith installed, load it by this path; from the Hub by `<organisation>/{name}`.\n"


def list_metrics() -> list[Path]:
    """List the folders of the metrics, which have a module of their own name.

    Returns:
        The folders.
    """
    room = Path(evaluate_metrics.__file__).parent
    return sorted(path.parent for path in room.glob("*/*.py") if path.stem == path.parent.name)


def stage(metric: Path, into: Path, repo_id: str, sdk: str = "gradio") -> None:
    """Write the files of a metric's Space.

    Args:
        metric: One of `list_metrics()`.
        into: An empty folder.
        repo_id: `<org>/<metric>`, which the card loads.
        sdk: "gradio" for a page that computes scores, "static" for one that shows the scores of the examples.

    Raises:
        MedfaithError: A library for static pages is not installed.
    """
    for name, source in bundle(metric).items():
        (into / name).write_text(source, encoding="utf-8")
    if sdk == "gradio":
        shutil.copyfile(Path(__file__).with_name("space_app.py"), into / APP)
    _, header, body = (metric / CARD).read_text(encoding="utf-8").split("---\n", 2)
    content = {"metric": metric.name, "examples": read_examples(body)}
    (into / EXAMPLE).write_text(json.dumps(content, allow_nan=False) + "\n", encoding="utf-8")
    body = body.replace(CHECKOUT.format(name=metric.name), "")
    body = body.replace(f'"evaluate_metrics/{metric.name}"', f'"{repo_id}"').lstrip()
    (into / CARD).write_text(front_matter(_build_header(yaml.safe_load(header), sdk)) + body, encoding="utf-8")
    needed = list_requirements(path.read_text(encoding="utf-8") for path in sorted(into.glob("*.py")))
    (into / REQUIREMENTS).write_text("\n".join(needed) + "\n", encoding="utf-8")
    if sdk == "static":
        (into / PAGE).write_text(space_page.build_page(into), encoding="utf-8")


def bundle(metric: Path) -> dict[str, str]:
    """Collect the metric's module and the files of `evaluate_metrics` that it needs, also indirectly.

    A file of another folder gets that folder's name as a prefix: confidence/score.py becomes confidence_score.py.

    Args:
        metric: One of `list_metrics()`.

    Returns:
        File name -> Python source. Files import one another as siblings; the module, which comes first, names them all.

    Raises:
        ValueError: A file imports from another room, or two files get the same name.
    """
    main, room = metric / f"{metric.name}.py", metric.parent
    paths, sources, waiting = {}, {}, [main]
    while waiting:
        path = waiting.pop(0)
        name = _build_flat_name(path, metric)
        if paths.setdefault(name, path) != path:
            raise ValueError(f"{path} and {paths[name]}: both would be {name}.py in a Space; rename one of them")
        if f"{name}.py" in sources:
            continue
        source = path.read_text(encoding="utf-8")
        lines = source.splitlines(keepends=True)
        for node in _find_imports(source):
            if imported := _resolve_import(node, path, room):
                waiting.append(imported)
                flat = ast.ImportFrom(_build_flat_name(imported, metric), node.names, 1)
                lines[node.lineno - 1 : node.end_lineno] = [f"{' ' * node.col_offset}{ast.unparse(flat)}\n"]
        sources[f"{name}.py"] = "".join(lines)
    sources[main.name] = _add_imports(sources[main.name], set(paths) - {metric.name})
    return sources


def read_examples(card: str) -> list[dict[str, Any]]:
    """Read the calls of `compute` in a card: config (None: the default) and inputs, the arguments of the call.

    The lines before a call are run, except for lines with evaluate. Lines with an output, and loops, are skipped.

    >>> card = '''
    ... >>> metric = evaluate.load("evaluate_metrics/ivt", "triplets")
    ... >>> rows = [1] * 3
    ... >>> scores = metric.compute(predictions=rows, k=5)
    ... '''
    >>> read_examples(card)
    [{'config': 'triplets', 'inputs': {'predictions': [1, 1, 1], 'k': 5}}]

    Args:
        card: The Markdown of the card.

    Returns:
        The calls.
    """
    namespace: dict[str, Any] = {}
    calls_with_config, config = [], None
    for example in doctest.DocTestParser().get_examples(card):
        if example.want or example.options.get(doctest.SKIP):
            continue
        calls = [node for node in ast.walk(ast.parse(example.source)) if isinstance(node, ast.Call)]
        called = {call.func.attr: call for call in calls if isinstance(call.func, ast.Attribute)}
        if "compute" in called:
            arguments = ", ".join(map(ast.unparse, called["compute"].keywords))
            calls_with_config.append({"config": config, "inputs": eval(f"dict({arguments})", namespace)})  # noqa: S307 - our card
        elif "evaluate.load" in example.source:
            config = next((ast.literal_eval(argument) for argument in called["load"].args[1:]), None)
        elif example.source.strip() != "import evaluate":
            with suppress(NameError):  # a line that looks at scores
                exec(example.source, namespace)  # noqa: S102 - our card
    return calls_with_config


def list_requirements(sources: Iterable[str]) -> list[str]:
    """List the distributions that Python files import, each with the lowest version that medfaith allows.

    >>> list_requirements(["import evaluate", "import json", "from .score import score_predictions"])
    ['evaluate>=0.4.6']

    Args:
        sources: The Python sources.

    Returns:
        The requirements.
    """
    names = {name for source in sources for name in _iterate_imports(source)} - set(sys.stdlib_module_names)
    declared = {}
    for requirement in importlib.metadata.requires("medfaith") or ():
        if match := re.match(r"([\w-]+)(>=[\w.]+)", requirement):
            declared[match[1]] = match[0]
    return [declared[name] for name in sorted(names)]


def _build_flat_name(path: Path, metric: Path) -> str:
    """Build the module name of a file in the metric's Space."""
    return path.stem if path.parent == metric else f"{path.parent.name}_{path.stem}"


def _add_imports(source: str, files: set[str]) -> str:
    """Add an import of each of the files that the module does not import itself."""
    nodes = [node for node in ast.parse(source).body if isinstance(node, ast.Import | ast.ImportFrom)]
    unnamed = sorted(files - {node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.level})
    lines = source.splitlines(keepends=True)
    added = [f"from .{name} import __name__ as _{name}\n" for name in unnamed]
    added = ["\n# evaluate fetches only the files that this one names.\n", *added] if added else []
    return "".join([*lines[: nodes[-1].end_lineno], *added, *lines[nodes[-1].end_lineno :]])


@functools.cache  # metrics share most of their files
def _list_import_nodes(source: str) -> list[ast.Import | ast.ImportFrom]:
    return [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Import | ast.ImportFrom)]


def _find_imports(source: str) -> list[ast.ImportFrom]:
    """Find the imports of names, the last one first, because replacing its lines moves no other."""
    nodes = [node for node in _list_import_nodes(source) if isinstance(node, ast.ImportFrom)]
    return sorted(nodes, key=lambda node: -node.lineno)


def _resolve_import(node: ast.ImportFrom, path: Path, room: Path) -> Path | None:
    """Resolve the file of an import in `path`; None for an import of a library.

    Raises:
        ValueError: The import of medfaith is impossible in a Space.
    """
    module = node.module or ""
    if node.level == 0 and module.split(".")[0] != "medfaith":
        return None
    if node.level:
        imported = path.parents[node.level - 1].joinpath(*module.split(".")).with_suffix(".py")
    else:
        imported = room.joinpath(*module.removeprefix(f"{ROOM}.").split(".")).with_suffix(".py")
    if not imported.is_file() or imported.parent.parent != room:
        raise ValueError(
            f"{path}, line {node.lineno}: a Space has no {'.' * node.level}{module}; "
            f"expected `from {ROOM}.<folder>.<file> import ...`, or the same relatively"
        )
    return imported


def _iterate_imports(source: str) -> Iterator[str]:
    for node in _list_import_nodes(source):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif node.module and not node.level:
            yield node.module.split(".")[0]


def _build_header(card: dict[str, Any], sdk: str) -> dict[str, Any]:
    """Build the fields that the Hub requires of a Space, and the fields of the card."""
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
