"""What every metric folder must be: loadable by path without medfaith, documented by examples that run, and light."""

import ast
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOM = Path(__file__).resolve().parents[2] / "evaluate_metrics"
METRICS = sorted(path.name for path in ROOM.iterdir() if path.is_dir() and (path / "score.py").exists())

# Beyond the standard library, evaluate and numpy: what a file may import, and whether only inside its functions.
LIBRARIES = {
    "mask_overlap/score.py": ({"pycocotools"}, False),
    "medvqa_f1/llm_extractor.py": ({"requests", "urllib3", "transformers"}, True),
}

# Runs a card's examples where medfaith and the heavy libraries cannot be imported, and says what it found.
PROGRAM = """
import doctest, importlib.abc, json, sys

class Blocked(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"medfaith", "transformers", "scipy", "sklearn", "lm_eval"}:
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Blocked())
import evaluate

found = {}
for name in sys.argv[1:]:
    metric = evaluate.load(f"evaluate_metrics/{name}")
    with open(f"evaluate_metrics/{name}/README.md", encoding="utf-8") as card:
        test = doctest.DocTestParser().get_doctest(card.read(), {}, name, "README.md", 0)
    runnable = [example for example in test.examples if not example.options.get(doctest.SKIP)]
    wanted = sum(bool(example.want) for example in runnable)
    report = []
    failed, _ = doctest.DocTestRunner(verbose=False).run(test, out=report.append)
    found[name] = {
        "is_metric": isinstance(metric, evaluate.EvaluationModule),
        "described": bool(metric.description.strip() and metric.inputs_description.strip() and metric.citation.strip()),
        "wanted": wanted,
        "failed": failed,
        "report": "".join(report),
    }
heavy = [name for name in ("medfaith", "torch", "scipy", "lm_eval") if sys.modules.get(name)]
print(json.dumps({"metrics": found, "heavy": heavy}))
"""


@pytest.fixture(scope="module")
def loaded(tmp_path_factory):
    """All metrics, copied out of the repository, loaded by one process of its own."""
    away = tmp_path_factory.mktemp("copy")
    shutil.copytree(ROOM, away / "evaluate_metrics", ignore=shutil.ignore_patterns("__pycache__", "__init__.py"))
    environment = {
        **os.environ,
        "HF_HOME": str(away / "hf"),
        "HF_MODULES_CACHE": str(away / "hf" / "modules"),
        "HF_HUB_OFFLINE": "1",
        "PYTHONPATH": "",
    }
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *METRICS],
        cwd=away,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_metrics_are_found():
    assert {"polarity", "confidence"} <= set(METRICS)


@pytest.mark.parametrize("name", METRICS)
def test_loads_by_path_and_its_examples_run(loaded, name):
    metric = loaded["metrics"][name]
    assert metric["is_metric"]
    assert metric["described"]
    assert metric["failed"] == 0, metric["report"]
    assert metric["wanted"] >= 2


def test_needs_only_evaluate_and_numpy(loaded):
    assert loaded["heavy"] == []


@pytest.mark.parametrize("name", METRICS)
def test_card_has_the_front_matter_of_a_space(name):
    text = (ROOM / name / "README.md").read_text(encoding="utf-8")
    _, front, body = text.split("---\n", 2)
    card = yaml.safe_load(front)
    assert card["title"]
    assert card["sdk"] in {"static", "gradio"}
    assert card["license"] == "apache-2.0"
    assert {"evaluate", "metric"} <= set(card["tags"])
    for heading in ("How to use", "Inputs", "Outputs", "Limits", "Citation"):
        assert f"\n## {heading}\n" in body


def imports(path):
    """(module, level, line) of every import in a file, wherever it stands."""
    source = path.read_text(encoding="utf-8")
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from ((alias.name, 0, node) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or "", node.level, node


@pytest.mark.parametrize("path", sorted(ROOM.glob("*/*.py")), ids=lambda path: "/".join(path.parts[-2:]))
def test_imports_stay_in_the_folder(path):
    siblings = {other.stem for other in path.parent.glob("*.py")}
    libraries, inside = LIBRARIES.get(path.relative_to(ROOM).as_posix(), (set(), False))
    allowed = set(sys.stdlib_module_names) | {"numpy"} | libraries
    if path.stem == path.parent.name:
        allowed |= {"datasets", "evaluate"}
    for module, level, node in imports(path):
        assert level <= 1
        assert node.col_offset or not inside or module.split(".")[0] not in libraries, f"{module}: import it where used"
        assert module in siblings if level else module.split(".")[0] in allowed, module


@pytest.mark.parametrize("name", METRICS)
def test_module_names_every_file_that_its_siblings_need(name):
    """evaluate reads the main file only, a line at a time: one import a line, no comment after it, all siblings."""
    main = ROOM / name / f"{name}.py"
    lines = main.read_text(encoding="utf-8").splitlines()
    named = set()
    for module, level, node in imports(main):
        assert node.col_offset == 0
        assert node.lineno == node.end_lineno
        assert "#" not in lines[node.lineno - 1]
        assert isinstance(node, ast.ImportFrom) or len(node.names) == 1
        if level:
            named.add(module)
    needed, seen = set(named), set()
    while needed - seen:
        sibling = (needed - seen).pop()
        seen.add(sibling)
        needed |= {module for module, level, _ in imports(ROOM / name / f"{sibling}.py") if level}
    assert needed == named
