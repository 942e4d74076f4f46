"""Output and files of `medfaith quickstart` on the light core, without extras: of a small one, and of the whole."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest

from medfaith.cli import main, parser
from medfaith.quickstart import AUDITED
from tests.support.reporting.report_logs import csv_rows

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
"""
# Two models are audited on a few rows of one task of one benchmark, in one process.
SMALLER = """
from dataclasses import replace
from medfaith import quickstart

quickstart.cpu_count = lambda: 1
quickstart.AUDITED = ("looks", "always_yes")
quickstart.AUDITED_UNDER = ("none", "other")
for name, benchmark in quickstart.REPORTED.items():
    is_asked = name == "heal-medvqa"
    task, runs = (benchmark.quickstart_tasks[:1], benchmark.quickstart_runs) if is_asked else ((), {})
    quickstart.REPORTED[name] = replace(benchmark, quickstart_rows=12, quickstart_tasks=task, quickstart_runs=runs)
"""
COMMAND = """
from medfaith.cli import main
raise SystemExit(main(sys.argv[1:]))
"""
HEAL = "medfaith_heal_vindr"
REPORTED = {"oracle", "always_yes", "negation_attracted", "random", "majority", "question_prior"}
REPORTED |= {f"oracle (heatmap={kind})" for kind in ("box", "centre", "corner", "uniform", "mirror", "image_only")}
REPORTED |= {"random (heatmap=box)"}


class Quickstart(NamedTuple):
    out: Path  # read-only
    printed: str
    models: Sequence[str]  # audited
    n_benchmarks: int
    n_repositories: int


@pytest.fixture(scope="module")
def quickstart_of_all(once) -> Quickstart:
    folder = once("quickstart", partial(run_quickstart, LIGHT + COMMAND))
    return Quickstart(folder / "out", (folder / "printed.txt").read_text(encoding="utf-8"), AUDITED, 4, 6)


@pytest.fixture(scope="module")
def small(once) -> Quickstart:
    folder = once("small-quickstart", partial(run_quickstart, LIGHT + SMALLER + COMMAND))
    printed = (folder / "printed.txt").read_text(encoding="utf-8")
    return Quickstart(folder / "out", printed, ("looks", "always_yes"), 1, 1)


@pytest.fixture(params=["small", pytest.param("quickstart_of_all", marks=pytest.mark.full)])
def quick(request) -> Quickstart:
    return request.getfixturevalue(request.param)


def run_quickstart(program: str, folder: Path) -> None:
    out = folder / "out"
    (out / "phantom" / "chexpert").mkdir(parents=True)
    (out / "phantom" / "chexpert" / "stale.txt").touch()  # of an earlier quickstart
    (out / "logs" / "oracle").mkdir(parents=True)
    (out / "logs" / "oracle" / "results_2020-01-01T00-00-00.json").write_text("{}")
    command = [sys.executable, "-c", program, "quickstart", "--out", str(out)]
    environment = os.environ | {"HF_HUB_OFFLINE": "1"}
    result = subprocess.run(command, cwd=out, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    (folder / "printed.txt").write_text(result.stdout, encoding="utf-8")


def test_what_it_prints_is_short_and_has_every_audited_model_on_every_benchmark(quick):
    n_lines = {name: quick.printed.count(f"\n{name}  ") for name in AUDITED}
    assert n_lines == dict.fromkeys(AUDITED, 0) | dict.fromkeys(quick.models, quick.n_benchmarks)
    assert len(quick.printed.splitlines()) < 60
    assert f"the rows of all {quick.n_repositories} repositories are sound" in quick.printed


def read_scores(quick: Quickstart, group: str) -> dict[str, dict[str, dict[str, float]]]:
    """Read model -> task -> score for the reference models of a group."""
    results = json.loads((quick.out / "results.json").read_text(encoding="utf-8"))
    return {model: run["results"] for model, run in results[group].items()}


@pytest.mark.full  # tests/tasks/test_adapter.py derives the scores of this group
def test_figures_of_cxr_contrabench_can_be_derived_by_hand(quickstart_of_all):
    scores = read_scores(quickstart_of_all, "medfaith_contrabench")
    accuracy = {model: scores[model]["medfaith_contrabench_chexpert_presence"]["accuracy,b0"] for model in scores}
    assert (accuracy["oracle"], accuracy["negation_attracted"]) == (1, 0)
    assert 0.2 < accuracy["always_yes"] < 0.5  # about a third of so few questions; 1 where the target comes first


def test_figures_of_heal_medvqa_can_be_derived_by_hand(quick):
    scores = read_scores(quick, HEAL)
    for test in ("tpt", "vpt"):
        changed = {model: scores[model][f"{HEAL}_{test}"][f"{test},none"] for model in ("oracle", "always_yes")}
        assert changed == {"oracle": 1, "always_yes": 0}


@pytest.mark.full  # tests/auditing/test_zoo.py and test_nih_audit.py have verdicts
def test_the_audit_finds_what_is_known_of_each_model(quickstart_of_all):
    """The last three never look, mirage does in half of the rows, looks_elsewhere at another place than asked about.

    CXR-ContraBench does not know where a finding lies. HEAL-MedVQA has too few patients with a free place to show that
    no place counts, and SurgXBench 28 such rows, of five videos.
    """
    rows = {(row["model"], row["benchmark"]): row for row in csv_rows(quickstart_of_all.out / "audit.csv")}
    verdicts = {
        model: [(row["uses_image"], row["depends_on_place"]) for (name, _), row in rows.items() if name == model]
        for model, _ in rows
    }
    never = [("no use", place) for place in ("undefined", "open", "open", "no dependence")]
    assert verdicts == {
        "looks": [("uses", "undefined"), *[("uses", "depends")] * 3],
        "mirage": [("uses", "undefined"), *[("uses", "depends")] * 2, ("uses", "open")],
        "looks_elsewhere": [("uses", "undefined"), *[("uses", "elsewhere")] * 3],
        "question_prior": [("open", "undefined"), ("open", "open"), *never[2:]],  # fewer rows have an `other`
        **dict.fromkeys(("always_yes", "oracle"), never),
    }
    reliance = {place: float(row["reliance"]) for place, row in rows.items()}
    for benchmark in {name for _, name in rows}:
        assert 0.35 < reliance["mirage", benchmark] / reliance["looks", benchmark] < 0.65
    for model, share in (("looks", 0.4), ("looks_elsewhere", 0)):  # in HEAL-MedVQA; a blind No is right where it is
        assert (float(rows[model, "HEAL-MedVQA"]["grounding"]) > share) is (model == "looks")
    assert float(rows["question_prior", "HEAL-MedVQA"]["mirage"]) == 1


def test_it_leaves_nothing_of_an_earlier_one(quick):
    out = quick.out
    files = {"results.json", "audit.csv", "report.html"}
    heatmaps = {"heatmaps"} if quick.n_benchmarks > 1 else set()
    assert {path.name for path in out.iterdir()} == {"phantom", "data", "logs", *heatmaps, *files}
    assert not (out / "phantom" / "chexpert" / "stale.txt").exists()
    assert list((out / "logs").rglob("results_2020*")) == []


@pytest.mark.full  # tests/reporting/test_report_real_logs.py has reports of reference models
def test_the_report_of_its_folder_has_every_model_in_the_tables_of_every_benchmark(quickstart_of_all, capsys):
    results = json.loads((quickstart_of_all.out / "results.json").read_text(encoding="utf-8"))
    assert main(["report", str(quickstart_of_all.out), "--markdown"]) == 0
    printed = capsys.readouterr().out
    assert (
        set(re.findall(r"^\| ((?:\w+|\w+ \(heatmap=\w+\))) \| .* \| medfaith_\w+ \|", printed, re.MULTILINE))
        == REPORTED
    )
    for title in ("Table 9: cross", "HEAL Table 3", "SurgX Figure 3", "Wrong Lung Tables 1 and 3"):
        assert printed.count(f"## {title}") == 1
    for name, heatmap in (("oracle, centre", "centre"), ("oracle, corner", "corner")):  # the same figures as printed
        scores = results["medfaith_surgx"][name]["results"]["medfaith_surgx_instruments"]
        cell = f"{100 * scores['tp_aa,none']:.2f}"
        row = rf"^\| oracle \(heatmap={heatmap}\) \| all \| 1\.000 \[0\.\d{{3}}, 1\.000\] \| {re.escape(cell)} \["
        assert re.search(row, printed, re.MULTILINE)


def test_it_ends_with_three_commands(quick):
    out = quick.out
    following = [shlex.split(line, comments=True) for line in quick.printed.split("\nNext:\n")[1].splitlines()]
    jobs = [parser().parse_known_args(command[1:])[0] for command in following]
    assert [command[:2] for command in following] == [["medfaith", job] for job in ("report", "eval", "sources")]
    assert (jobs[0].results, jobs[1].data) == ([out], str(out / "data"))


def test_synthetic_sources_are_written_with_the_command_that_builds_from_them(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["phantom", "a b", "--source", "chexstruct", "--source", "mimic_cxr_reports"]) == 0
    first_line, *_, build = capsys.readouterr().out.splitlines()
    assert first_line == "--root chexstruct='a b/chexstruct'"
    assert main(shlex.split(build)[1:]) == 0
    assert (tmp_path / "medfaith-synthetic" / "cxr-contrabench-chexstruct").is_dir()
    assert main(["phantom", "c", "--source", "mimic_cxr_detections"]) == 0
    assert "medfaith build heal-medvqa also needs --source mimic_cxr " in capsys.readouterr().out


@pytest.mark.full
def test_the_table_of_the_readme_is_what_it_prints(quickstart_of_all):
    (table,) = (ROOT / "README.md").read_text(encoding="utf-8").split("```text\n")[1:]
    lines = table.split("```")[0].splitlines()
    assert len(lines) > 4
    assert [line for line in lines if line not in quickstart_of_all.printed.splitlines()] == []


def test_the_command_starts_without_heavy_libraries():
    code = "import sys, medfaith.cli, medfaith.builders.cxr_contrabench, medfaith.loaders.images; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"torch", "transformers", "lm_eval"} & set(loaded)
