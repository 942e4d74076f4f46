"""Output and files of one `medfaith quickstart` on the light core, without extras."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

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
from medfaith.cli import main
raise SystemExit(main(sys.argv[1:]))
"""
GROUPS = ("medfaith_contrabench", "medfaith_heal_vindr")
REPORTED = {"oracle", "always_yes", "negation_attracted", "random", "majority", "question_prior"}
REPORTED |= {f"oracle (heatmap={kind})" for kind in ("box", "centre", "corner", "uniform", "mirror", "image_only")}
REPORTED |= {"random (heatmap=box)"}


@pytest.fixture(scope="module")
def quick(once) -> tuple[Path, str]:
    """Folder and printed output of a quickstart. Read-only."""
    folder = once("quickstart", run_quickstart)
    return folder / "out", (folder / "printed.txt").read_text(encoding="utf-8")


def run_quickstart(folder: Path) -> None:
    out = folder / "out"
    (out / "phantom" / "chexpert").mkdir(parents=True)
    (out / "phantom" / "chexpert" / "stale.txt").touch()  # of an earlier quickstart
    (out / "logs" / "oracle").mkdir(parents=True)
    (out / "logs" / "oracle" / "results_2020-01-01T00-00-00.json").write_text("{}")
    command = [sys.executable, "-c", LIGHT, "quickstart", "--out", str(out)]
    environment = os.environ | {"HF_HUB_OFFLINE": "1"}
    result = subprocess.run(command, cwd=out, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    (folder / "printed.txt").write_text(result.stdout, encoding="utf-8")


def test_what_it_prints_is_short_and_has_every_audited_model_on_every_benchmark(quick):
    _, printed = quick
    assert {name: printed.count(f"\n{name}  ") for name in AUDITED} == dict.fromkeys(AUDITED, 4)
    assert len(printed.splitlines()) < 60
    assert "the rows of all 6 repositories are sound" in printed


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


def test_the_audit_finds_what_is_known_of_each_model(quick):
    """The last three never look, mirage does in half of the rows, looks_elsewhere at another place than asked about.

    CXR-ContraBench does not know where a finding lies. SurgXBench has 28 rows with a free place, of five videos.
    """
    out, _ = quick
    rows = {(row["model"], row["benchmark"]): row for row in csv_rows(out / "audit.csv")}
    verdicts = {
        model: [(row["uses_image"], row["depends_on_place"]) for (name, _), row in rows.items() if name == model]
        for model, _ in rows
    }
    never = [("no use", "undefined"), ("no use", "no dependence"), ("no use", "open"), ("no use", "no dependence")]
    assert verdicts == {
        "looks": [("uses", "undefined"), *[("uses", "depends")] * 3],
        "mirage": [("uses", "undefined"), *[("uses", "depends")] * 2, ("uses", "open")],
        "looks_elsewhere": [("uses", "undefined"), *[("uses", "elsewhere")] * 3],
        "question_prior": [("open", "undefined"), ("open", "no dependence"), *never[2:]],  # fewer rows have an `other`
        **dict.fromkeys(("always_yes", "oracle"), never),
    }
    reliance = {place: float(row["reliance"]) for place, row in rows.items()}
    for benchmark in {name for _, name in rows}:
        assert 0.35 < reliance["mirage", benchmark] / reliance["looks", benchmark] < 0.65
    for model, share in (("looks", 0.4), ("looks_elsewhere", 0)):  # in HEAL-MedVQA; a blind No is right where it is
        assert (float(rows[model, "HEAL-MedVQA"]["grounding"]) > share) is (model == "looks")
    assert float(rows["question_prior", "HEAL-MedVQA"]["mirage"]) == 1


def test_it_leaves_nothing_of_an_earlier_one(quick):
    out, _ = quick
    files = {"results.json", "audit.csv", "report.html"}
    assert {path.name for path in out.iterdir()} == {"phantom", "data", "heatmaps", "logs", *files}
    assert not (out / "phantom" / "chexpert" / "stale.txt").exists()
    assert list((out / "logs").rglob("results_2020*")) == []


def test_the_report_of_its_folder_has_every_model_in_the_tables_of_every_benchmark(quick, capsys):
    out, _ = quick
    results = json.loads((out / "results.json").read_text(encoding="utf-8"))
    assert main(["report", str(out), "--markdown"]) == 0
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
    out, printed = quick
    following = [shlex.split(line, comments=True) for line in printed.split("\nNext:\n")[1].splitlines()]
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


def test_the_table_of_the_readme_is_what_it_prints(quick):
    _, printed = quick
    (table,) = (ROOT / "README.md").read_text(encoding="utf-8").split("```text\n")[1:]
    lines = table.split("```")[0].splitlines()
    assert len(lines) > 4
    assert [line for line in lines if line not in printed.splitlines()] == []


def test_the_command_starts_without_heavy_libraries():
    code = "import sys, medfaith.cli, medfaith.builders.cxr_contrabench, medfaith.loaders.images; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"torch", "transformers", "lm_eval"} & set(loaded)
