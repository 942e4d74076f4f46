"""Requirements on every metric folder: loadable by its path, documented by examples that run, and light."""

import ast
import doctest
import importlib
import inspect
import math
import re
import sys
from pathlib import Path

import evaluate
import numpy as np
import pytest
import yaml

from medfaith.cards.publish import spaces

ROOM = Path(__file__).resolve().parents[2] / "evaluate_metrics"
METRICS = sorted(path.name for path in ROOM.iterdir() if path.is_dir() and (path / "score.py").exists())
HEADINGS = ("How to use", "Inputs", "Outputs", "Limits", "Citation")

# Allowed imports beyond the standard library, evaluate and numpy; True: only inside functions.
LIBRARIES = {
    "mask_overlap/masks.py": ({"pycocotools"}, False),
    "mask_overlap/score.py": ({"pycocotools"}, False),
    "reading/chat.py": ({"requests", "urllib3", "transformers"}, True),
}


@pytest.mark.parametrize("name", METRICS)
def test_loads_by_path_and_the_examples_of_its_card_run(monkeypatch, name):
    monkeypatch.chdir(ROOM.parent)
    metric = evaluate.load(f"evaluate_metrics/{name}")
    assert isinstance(metric, evaluate.EvaluationModule)
    assert all(text.strip() for text in (metric.description, metric.inputs_description, metric.citation))
    _, front, body = (ROOM / name / "README.md").read_text(encoding="utf-8").split("---\n", 2)
    card = yaml.safe_load(front)
    assert card["title"]
    assert card["sdk"] in {"static", "gradio"}
    assert card["license"] == "apache-2.0"
    assert {"evaluate", "metric"} <= set(card["tags"])
    assert [heading for heading in HEADINGS if f"\n## {heading}\n" not in body] == []
    examples = doctest.DocTestParser().get_doctest(body, {}, name, "README.md", 0)
    runnable = [example for example in examples.examples if not example.options.get(doctest.SKIP)]
    assert sum(bool(example.want) for example in runnable) >= 2
    report = []
    failed, _ = doctest.DocTestRunner(verbose=False).run(examples, out=report.append)
    assert failed == 0, "".join(report)


@pytest.mark.parametrize("name", METRICS)
def test_defaults_are_those_that_the_card_names(name):
    """A card's "`n_resamples` (2,000)" is the default of all functions of the metric that take it."""
    card = (ROOM / name / "README.md").read_text(encoding="utf-8")
    documented = re.findall(r"`(\w+)` \(([\d.,]+|True|False)\)", card)
    expected = {option: ast.literal_eval(value.replace(",", "")) for option, value in documented}
    stems = [path.stem for path in (ROOM / name).glob("*.py")]
    modules = [importlib.import_module(f"medfaith.evaluate_metrics.{name}.{stem}") for stem in stems]
    things = {thing for module in modules for thing in vars(module).values() if callable(thing)}
    for function in filter(inspect.isfunction, {getattr(thing, "_compute", thing) for thing in things}):
        for option, parameter in inspect.signature(function).parameters.items():
            called = "n_permutations" if (function.__name__, option) == ("permutation_test", "n_resamples") else option
            if parameter.default is not parameter.empty and called in {"seed", "n_resamples", *expected}:
                assert parameter.default == expected[called], (function, option)


def iter_leaves(scores):
    """Yield the numbers of nested scores with their names."""
    for name, value in scores.items():
        yield from iter_leaves(value) if isinstance(value, dict) else [(name, value)]


@pytest.mark.parametrize("name", [*(f"{name}.score" for name in METRICS), "localization.predictions"])
def test_of_nothing_counts_are_zero_and_all_else_is_undefined(name):
    module = importlib.import_module(f"medfaith.evaluate_metrics.{name}")
    scorers = ("score_predictions", "score_instruments", "score_triplets")
    for score in (getattr(module, scorer) for scorer in scorers if hasattr(module, scorer)):
        empty = list(iter_leaves(score([], [])))
        assert empty
        assert [key for key, value in empty if not (math.isnan(value) or (key[0] == "n" and value == 0))] == []
        with pytest.raises(ValueError, match=r"1 predictions for 0 (references|frames): give one for each"):
            score([[0.0] * 100], [])


@pytest.mark.parametrize("folder", sorted({path.parent for path in ROOM.glob("*/*.py")}), ids=lambda path: path.name)
def test_imports_only_what_a_space_may_have(folder):
    """The `evaluate` parser reads line by line: one import a line, no comment after it, full names."""
    for path in sorted(folder.glob("*.py")):
        is_module = path.stem == folder.name
        libraries, inside = LIBRARIES.get(path.relative_to(ROOM).as_posix(), (set(), False))
        allowed = (
            set(sys.stdlib_module_names) | {"numpy"} | libraries | ({"datasets", "evaluate"} if is_module else set())
        )
        source = path.read_text(encoding="utf-8")
        lines = source.splitlines()
        for node in ast.walk(ast.parse(source)):
            if not isinstance(node, ast.Import | ast.ImportFrom):
                continue
            where = f"{path.name}, line {node.lineno}"
            level = node.level if isinstance(node, ast.ImportFrom) else 0
            module_names = (
                [str(node.module)] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]
            )
            tops = {name.split(".")[0] for name in module_names}
            assert level <= 2, where
            assert node.col_offset or not inside or not tops & libraries, f"{where}: import it where it is used"
            if is_module and module_names[0].startswith("medfaith.evaluate_metrics."):
                tops = set()
            assert level or tops <= allowed, f"{where}: {tops - allowed}"
            if is_module:
                assert (level, node.col_offset, len(module_names)) == (0, 0, 1), where
                assert node.lineno == node.end_lineno, where
                assert "#" not in lines[node.lineno - 1], where


CASES = [
    (metric, example)
    for metric in sorted(spaces.list_metrics())
    for example in spaces.read_examples((metric / "README.md").read_text(encoding="utf-8"))
]


@pytest.mark.parametrize(("metric", "example"), CASES, ids=lambda value: getattr(value, "name", None))
def test_a_metric_needs_no_evaluate(metric, example):
    """The metric's function on plain lists and its `evaluate` module return equal results."""
    config, inputs = example["config"], example["inputs"]
    names = {"ivt": f"score_{config or 'instruments'}", "confidence": "score_values"}
    name = names.get(metric.name, "score_predictions")
    module = "predictions" if metric.name == "localization" else "score"
    function = getattr(importlib.import_module(f"medfaith.evaluate_metrics.{metric.name}.{module}"), name)
    metric_module = evaluate.load(str(metric), *([config] if config else []))
    np.testing.assert_equal(function(**inputs), metric_module.compute(**inputs))
    missing = inputs | {"predictions": [None, *inputs["predictions"][1:]]}  # evaluate checks the first row alone
    try:
        expected = function(**missing)
    except ValueError:
        with pytest.raises(ValueError, match="row 1"):
            metric_module.compute(**missing)
    else:
        np.testing.assert_equal(metric_module.compute(**missing), expected)


def test_every_metric_has_an_example():
    assert {metric.name for metric, *_ in CASES} == {metric.name for metric in spaces.list_metrics()}
