"""Proves that a change of structure changed nothing for users. Run it before and after, on two checkouts:

    python -m tests.unchanged record before.json
    python -m tests.unchanged record after.json
    python -m tests.unchanged compare before.json after.json

A record takes about four minutes. It holds the hash of every file of rows and every build.json, of all benchmarks on
synthetic sources and of CXR-ContraBench on real labels; the figures and reports of reference models on every task; the
figures of quickstart; the names of all tasks and options.
"""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from medfaith.loaders import phantom

BENCHMARKS = ("cxr-contrabench", "heal-medvqa", "surgxbench", "wrong-lung")
BUILDS = {  # name -> benchmarks, options
    **{name: ([name], []) for name in BENCHMARKS},
    "original": (["cxr-contrabench"], ["--layout", "original"]),
    "reworded": (["cxr-contrabench"], ["--question-form", "p2", "--negation-form", "absence_of"]),
    "seed1": (BENCHMARKS, ["--seed", "1"]),
    "workers": (BENCHMARKS, ["--workers", "2"]),
    "heal-options": (["heal-medvqa"], ["--measure", "box", "--places", "anatomical", "--agreement", "any"]),
    "lung-options": (["wrong-lung"], ["--swap", "substring", "--random-boxes", "pixels"]),
    "silver": (["wrong-lung"], ["--config", "silver"]),
}
LOOKING = "medfaith_surgx_all,medfaith_wrong_lung_all"
ALL = f"medfaith_contrabench_all,medfaith_heal_all,{LOOKING}"
MODELS = {  # name -> model, heatmaps, tasks
    "random": ("random", None, ALL),
    "oracle": ("oracle", None, ALL),
    "always_yes": ("always_yes", None, ALL),
    "looking": ("oracle", "box", LOOKING),
    "centre": ("random", "uniform", LOOKING),
}
JOBS = (
    "sources", "build", *(f"build {name}" for name in BENCHMARKS), "verify", "publish", "publish-metrics", "tasks",
    "eval", "report", "annotate", "quickstart",
)  # fmt: skip
FIGURES = ("results", "n-samples", "higher_is_better", "versions", "n-shot")
DATE = re.compile(r"\d{4}-\d\d-\d\dT[\d.:-]+")


def run(*arguments: object) -> str:
    """Run `medfaith ARGUMENTS` and return its output; raise SystemExit with the output if it fails."""
    command = [sys.executable, "-m", "medfaith", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}")
    return done.stdout


def record(home: Path) -> dict[str, Any]:
    """Record all compared values in an empty folder."""
    record_by_name: dict[str, Any] = {}
    roots = phantom.write(home / "phantom", seed=0)
    root_options = [option for name, root in roots.items() for option in ("--root", f"{name}={root}")]
    for name, (benchmarks, options) in BUILDS.items():
        print(f"build {name}", flush=True)
        for benchmark in benchmarks:
            run("build", benchmark, *options, *root_options, "--out", home / name)
        record_by_name[f"build {name}"] = hash_rows(home / name)
    print("build real", flush=True)
    real = [option for name in ("chexpert", "openi") for option in ("--root", f"{name}=torchxrayvision")]
    run("build", "cxr-contrabench", *real, "--out", home / "real")
    record_by_name["build real"] = hash_rows(home / "real")
    for benchmark in BENCHMARKS:
        run("build", benchmark, *root_options, "--out", home / "all")
    for name, (model, heatmap, tasks) in MODELS.items():
        print(f"eval {name}", flush=True)
        maps = ["--heatmaps", home / f"maps-{name}", "--model_args", f"heatmap={heatmap}"] if heatmap else []
        logged = ["--output_path", home / f"out-{name}", "--log_samples"]
        run("eval", "--data", home / "all", *root_options, "--model", model, "--tasks", tasks, *logged, *maps)
        (results,) = (home / f"out-{name}").rglob("results_*.json")
        record_by_name[f"eval {name}"] = select_figures(json.loads(results.read_text()))
        run("report", home / f"out-{name}", "--out", home / f"report-{name}")
        tables = sorted((home / f"report-{name}").rglob("*.csv"))
        record_by_name[f"report {name}"] = {path.name: path.read_text() for path in tables}
    print("quickstart", flush=True)
    run("quickstart", "--out", home / "quick")
    quick = json.loads((home / "quick" / "results.json").read_text())
    record_by_name["quickstart"] = {
        task: {model: select_figures(results_of_model) for model, results_of_model in results_by_model.items()}
        for task, results_by_model in quick.items()
    }
    record_by_name["quickstart rows"] = hash_rows(home / "quick")
    record_by_name["tasks"] = dict.fromkeys(run("tasks", "--names").split(), True)
    record_by_name["options"] = {job: dict.fromkeys(_list_options(job), True) for job in JOBS}
    return record_by_name


def hash_rows(folder: Path) -> dict[str, Any]:
    """Hash each rows file of a build, and read its build.json files."""
    paths = sorted(path for path in folder.rglob("*") if path.suffix in (".parquet", ".jsonl"))
    hashes = {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}
    records = sorted(folder.rglob("build.json"))
    return hashes | {str(path.relative_to(folder)): json.loads(path.read_text()) for path in records}


def select_figures(results: dict[str, Any]) -> dict[str, Any]:
    """Select the figures of lm-eval's results, without times and places."""
    return {name: results.get(name) for name in FIGURES}


def _list_options(job: str) -> list[str]:
    """List the options in a job's help, including those only mentioned in texts."""
    return re.findall(r"(?<![\w-])--[a-z][a-z-]+(?![\w])", run(*job.split(), "--help"))


def compare(before: Path, after: Path) -> int:
    """Print each differing value and their number; return the exit status."""
    old, new = (flatten(json.loads(DATE.sub("DATE", path.read_text()))) for path in (before, after))
    # A new task or option takes nothing from a user.
    names = sorted(old.keys() | {name for name in new if not name.startswith(("/tasks/", "/options/"))})
    differ = [name for name in names if str(old.get(name)) != str(new.get(name))]
    for name in differ:
        print(f"{name}\n  before: {str(old.get(name))[:300]}\n  after:  {str(new.get(name))[:300]}")
    print(f"{len(differ)} of {len(old)} values differ" if differ else f"equal ({len(old)} values)")
    return int(bool(differ))


def flatten(value: Any, path: str = "") -> dict[str, Any]:
    """Flatten nested dicts and lists into values by path."""
    if isinstance(value, list):
        value = dict(enumerate(value))
    if isinstance(value, dict):
        return {name: leaf for key, nested in value.items() for name, leaf in flatten(nested, f"{path}/{key}").items()}
    return {path: value}


def main() -> int:
    match sys.argv[1:]:
        case ["record", file]:
            with tempfile.TemporaryDirectory() as scratch:
                values = record(Path(scratch))
            Path(file).write_text(json.dumps(values, indent=1, sort_keys=True) + "\n", encoding="utf-8")
            return 0
        case ["compare", before, after]:
            return compare(Path(before), Path(after))
    raise SystemExit(__doc__)


if __name__ == "__main__":
    raise SystemExit(main())
