"""The page of a metric's Space (its app.py): inputs to edit, with the examples of example.json; scores; the card."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def format_inputs(inputs: dict[str, Any]) -> str:
    """Format the arguments of `compute` as JSON, with one example per line.

    Args:
        inputs: Argument -> value.

    Returns:
        The JSON text.
    """

    def format_value(value: Any) -> str:
        if not isinstance(value, list):
            return json.dumps(value)
        separator = ", " if all(isinstance(item, int | float) for item in value) else ",\n    "
        return f"[\n    {separator.join(map(json.dumps, value))}\n  ]"

    return "{\n" + ",\n".join(f'  "{name}": {format_value(value)}' for name, value in inputs.items()) + "\n}"


def compute(module: Path, config: str | None, typed: str) -> dict[str, Any]:
    """Compute the scores of the inputs that a user typed.

    Args:
        module: The script of the metric.
        config: The config of the metric; None for the default.
        typed: The inputs, a JSON object.

    Returns:
        The scores.

    Raises:
        ValueError: The text is not a JSON object with all inputs, or the metric refuses them.
    """
    import evaluate

    inputs = json.loads(typed)
    if not isinstance(inputs, dict):
        raise ValueError('expected one JSON object: {"predictions": [...], "references": [...]}')
    metric = evaluate.load(str(module), config, keep_in_memory=True)
    if missing := [name for name in metric.features if inputs.get(name) is None]:
        raise ValueError(f"{' and '.join(missing)}: missing")
    return metric.compute(**inputs) or {}


def list_scores(scores: dict[str, Any], prefix: str = "") -> list[list[str]]:
    """List the name and value of each score. A nested score is called group.name. Lists are only in the JSON.

    Args:
        scores: Name -> score, group or list.
        prefix: Text in front of each name.

    Returns:
        [name, value] of each score.
    """
    rows = []
    for name, value in scores.items():
        if isinstance(value, dict):
            rows += list_scores(value, f"{prefix}{name}.")
        elif not isinstance(value, list):
            rows.append([f"{prefix}{name}", f"{value:.4f}" if isinstance(value, float) else str(value)])
    return rows


def label_examples(examples: list[dict[str, Any]]) -> list[str]:
    """Label each example of example.json for the page.

    Args:
        examples: The examples, each with its config.

    Returns:
        A label for each, with its number.
    """
    return [": ".join(filter(None, [f"example {i + 1}", item["config"]])) for i, item in enumerate(examples)]


def split_card(folder: Path) -> tuple[str, str]:
    """Read the card of a Space, split before its first section.

    Args:
        folder: The folder of the Space.

    Returns:
        The text up to its first section, and the text from there.
    """
    _, _, card = (folder / "README.md").read_text(encoding="utf-8").split("---\n", 2)
    head, below = card.split("\n## ", 1)
    return head, f"## {below}"


def build_page(folder: Path) -> Any:
    """Build the Gradio page of a Space.

    Args:
        folder: The folder of the Space.

    Returns:
        The page, not served yet.
    """
    import gradio as gr

    shipped = json.loads((folder / "example.json").read_text(encoding="utf-8"))
    examples = shipped["examples"]
    labels = label_examples(examples)
    head, below = split_card(folder)

    def score(example: int, typed: str) -> tuple[list[list[str]], dict[str, Any]]:
        try:
            scores = compute(folder / f"{shipped['metric']}.py", examples[example]["config"], typed)
        except (ValueError, TypeError, LookupError, AttributeError) as error:
            kind = "" if isinstance(error, ValueError) else f"not of the form below: {type(error).__name__}: "
            raise gr.Error(f"{kind}{error}", print_exception=False) from None
        return list_scores(scores), scores

    with gr.Blocks(title=shipped["metric"]) as blocks:
        gr.Markdown(head)
        dropdown = gr.Dropdown(list(zip(labels, range(len(labels)), strict=True)), value=0, label="Start from")
        typed = gr.Code(
            format_inputs(examples[0]["inputs"]), language="json", label="Arguments", max_lines=24, wrap_lines=True
        )
        button = gr.Button("Compute", variant="primary")
        rows = gr.Dataframe(headers=["score", "value"], interactive=False, label="Scores")
        scores = gr.JSON(label="All that compute returned", open=False)
        gr.Markdown(below)
        dropdown.change(lambda i: format_inputs(examples[i]["inputs"]), dropdown, typed, api_name="example")
        button.click(score, [dropdown, typed], [rows, scores], api_name="score")
    return blocks


if __name__ == "__main__":
    build_page(Path(__file__).parent).launch()
