"""`medfaith quickstart`, once: on the light core, as if no extra were installed; what it prints and writes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXTRAS = (
    *("torch", "torchvision", "transformers", "accelerate", "av", "open_clip", "causallearn", "matplotlib", "gradio"),
    *("torchxrayvision", "mlcroissant", "inspect_ai"),
)
LIGHT = f"""
import sys
from importlib.machinery import PathFinder

class Core(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.partition(".")[0] in {EXTRAS} else super().find_spec(name, path, target)

sys.meta_path = [Core if finder is PathFinder else finder for finder in sys.meta_path]
from medfaith.cli import main
raise SystemExit(main(sys.argv[1:]))
"""
GROUPS = ("medfaith_contrabench", "medfaith_heal_vindr")
TABLES = {"oracle": 5, "always_yes": 6, "negation_attracted": 5, "random": 6, "majority": 5, "question_prior": 5}
TABLES |= {"oracle, box": 2, "oracle, uniform": 2, "oracle, centre": 1, "oracle, mirror": 1, "oracle, image_only": 1}


@pytest.fixture(scope="module")
def quick(tmp_path_factory) -> tuple[Path, str]:
    """The folder of a quickstart, and what it printed."""
    out = tmp_path_factory.mktemp("quick")
    (out / "phantom" / "chexpert").mkdir(parents=True)
    (out / "phantom" / "chexpert" / "stale.txt").touch()  # of an earlier quickstart
    command = [sys.executable, "-c", LIGHT, "quickstart", "--out", str(out)]
    environment = os.environ | {"HF_HUB_OFFLINE": "1"}
    result = subprocess.run(command, cwd=out, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    return out, result.stdout


def test_every_reference_model_is_in_every_table(quick):
    _, printed = quick
    assert {name: printed.count(f"\n{name}  ") for name in TABLES} == TABLES
    assert printed.count("unread") == 4 + 1 + 1 + 1, "CXR-ContraBench's tables, HEAL-MedVQA's, SurgXBench's, the legend"


def test_the_figures_that_can_be_derived_by_hand(quick):
    out, _ = quick
    results = json.loads((out / "results.json").read_text(encoding="utf-8"))
    contrabench, heal = ({model: run["results"] for model, run in results[group].items()} for group in GROUPS)
    accuracy = {model: scores[f"{GROUPS[0]}_chexpert_presence"]["accuracy,b0"] for model, scores in contrabench.items()}
    assert (accuracy["oracle"], accuracy["negation_attracted"]) == (1, 0)
    assert 0.2 < accuracy["always_yes"] < 0.5  # about a third of so few questions; 1 where the target comes first
    for test in ("tpt", "vpt"):
        changed = {model: heal[model][f"{GROUPS[1]}_{test}"][f"{test},none"] for model in ("oracle", "always_yes")}
        assert changed == {"oracle": 1, "always_yes": 0}


def test_it_leaves_nothing_of_an_earlier_one(quick):
    out, _ = quick
    assert {path.name for path in out.iterdir()} == {"phantom", "data", "heatmaps", "results.json"}
    assert not (out / "phantom" / "chexpert" / "stale.txt").exists()


def test_the_table_of_the_readme_is_what_it_prints(quick):
    _, printed = quick
    (shown,) = (ROOT / "README.md").read_text(encoding="utf-8").split("```text\n")[1:]
    lines = shown.split("```")[0].splitlines()
    assert len(lines) > 4
    assert [line for line in lines if line not in printed.splitlines()] == []


def test_the_command_starts_without_heavy_libraries():
    code = "import sys, medfaith.cli, medfaith.builders.cxr_contrabench, medfaith.loaders.images; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"torch", "transformers", "lm_eval"} & set(loaded)
