"""The static page of a metric's Space (index.html there): the card, and the examples with their scores."""

from __future__ import annotations

import json
from pathlib import Path

from ...loaders.errors import MedfaithError
from .space_app import compute, format_inputs, label_examples, list_scores, split_card


def build_page(folder: Path) -> str:
    """Build the HTML page of a staged metric; it needs no other file and no network.

    Args:
        folder: The folder of the metric.

    Returns:
        The HTML.

    Raises:
        MedfaithError: markdown-it-py is not installed.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined

    try:
        from markdown_it import MarkdownIt
    except ModuleNotFoundError:
        problem = "--sdk static: the page cannot be made: markdown-it-py is not installed"
        raise MedfaithError(f"{problem}\n  what to do: pip install 'medfaith[publish]'") from None
    markdown = MarkdownIt("commonmark", {"html": False}).enable("table")
    shipped = json.loads((folder / "example.json").read_text(encoding="utf-8"))
    head, below = split_card(folder)
    module, examples = folder / f"{shipped['metric']}.py", []
    for name, example in zip(label_examples(shipped["examples"]), shipped["examples"], strict=True):
        inputs = format_inputs(example["inputs"])
        examples.append(
            {"name": name, "inputs": inputs, "scores": list_scores(compute(module, example["config"], inputs))}
        )
    environment = Environment(
        loader=PackageLoader("medfaith.cards.publish", ""), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True,
    )  # fmt: skip
    return environment.get_template("space_page.html").render(
        title=shipped["metric"], head=markdown.render(head), below=markdown.render(below), examples=examples
    )
