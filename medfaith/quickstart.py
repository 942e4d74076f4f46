"""`medfaith quickstart`: from sources to verdicts on synthetic data, offline and without torch."""

from __future__ import annotations

import collections
import contextlib
import io
import json
import shlex
import shutil
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from joblib import cpu_count

from medfaith import cards
from medfaith.auditing.figures import read_audit
from medfaith.auditing.plan import plan
from medfaith.auditing.run import begin, take, unanswered
from medfaith.auditing.tables import overview
from medfaith.auditing.verdicts import Judged, judge
from medfaith.auditing.write import write_tables
from medfaith.builders.benchmark import Benchmark
from medfaith.builders.parallel import Workers
from medfaith.builders.registry import BENCHMARKS
from medfaith.loaders import phantom
from medfaith.loaders.atomic import atomic_folder, scratch_folder
from medfaith.loaders.errors import InputError
from medfaith.phantom import write_whole
from medfaith.printing import table
from medfaith.reporting.benchmark import ReferenceModels
from medfaith.reporting.page.write import write_page
from medfaith.reporting.registry import BENCHMARKS as REPORTED
from medfaith.reporting.write import collect
from medfaith.tasks import BASELINES
from medfaith.tasks.index import iterate_tasks, task_index
from medfaith.tasks.run import build_reference_model, run_baselines

MARGIN = 0.05

MOST = 8  # processes: each takes a third of a gigabyte

# The last step: models whose use of the image is known.
AUDITED = ("looks", "mirage", "looks_elsewhere", "question_prior", "always_yes", "oracle")
_SHOWN = (
    *("Model", "Benchmark", "Image", "Other", "Own - other [95%]", "Blind"),
    *("Uses the image?", "Depends on the place?"),
)  # columns of the audit's table that a terminal has room for
AUDITED_UNDER = ("none", "other", "occluded", "occluded_elsewhere", "transplanted", "transplanted_elsewhere")


def quickstart(out: Path, options: Mapping[str, Any], verify: Callable[[Sequence[Path]], bool]) -> str:
    """Write phantom sources, build, verify, score the reference models and audit them.

    Writes `phantom/`, `data/`, `heatmaps/`, `logs/`, `results.json`, `audit.csv` and `report.html` below `out`. The
    data serve the tasks that are asked.

    Args:
        out: Folder for all files.
        options: Benchmark -> its options of a build.
        verify: Verifies folders of builds, prints the result, and returns whether all are sound.

    Returns:
        The closing text: the table of verdicts, the files, and the next commands.
    """
    _refuse_others(out / "phantom", phantom.SOURCES)
    _refuse_others(out / "logs", BASELINES)
    workers = Workers(min(cpu_count(), MOST))
    print("1/5  synthetic sources in the official layouts")
    roots = _write_phantom(out / "phantom", workers)
    print("2/5  build")
    folders = [
        folder
        for name, benchmark in _list_built()
        for folder in benchmark.build(roots, out / "data", options=options.get(name), card=cards.read_body)
    ]
    print("3/5  verify")
    with contextlib.redirect_stdout(io.StringIO()) as lines:
        sound = verify(folders)
    print(f"     the rows of all {len(folders)} repositories are sound" if sound else lines.getvalue())
    print("4/5  lm-eval with the reference models")
    metadata = {"data": str(out / "data"), "roots": {source_id: str(root) for source_id, root in roots.items()}}
    kept_logs = metadata | {"heatmaps": str(out / "heatmaps")}
    questions = {
        task: (metadata if models is None else kept_logs, models and _add_store(models, out / "heatmaps"))
        for benchmark in REPORTED.values()
        for task, models in benchmark.quickstart_runs.items()
    }
    with atomic_folder(out / "logs") as logs:
        jobs = [
            partial(run_baselines, task, arguments, models, logs) for task, (arguments, models) in questions.items()
        ]
        run_options = {"title": "asking the models", "unit": "groups", "total": len(jobs), "length": lambda job: 1}
        with workers.map(_run_quietly, jobs, **run_options) as done:
            results = dict(zip(questions, done, strict=True))
    print("5/5  audit: which of the models use the image?")
    judged = _run_audit(metadata, out, workers)
    (out / "results.json").write_text(json.dumps(results, indent=2, default=str) + "\n", encoding="utf-8")
    return audit_table(judged) + _write_closing(out)


def _refuse_others(folder: Path, own_names: Collection[str]) -> None:
    """Raise InputError for a folder that quickstart would replace although it did not write all that is in it."""
    if folder.exists() and (other_names := {path.name for path in folder.iterdir()} - set(own_names)):
        fault = f"holds {min(other_names)!r}, which no quickstart wrote there, and would be replaced"
        raise InputError(folder, fault, action="choose another --out")


def _list_built() -> list[tuple[str, Benchmark]]:
    """List the benchmarks that quickstart builds: those that it asks about."""
    return [(name, benchmark) for name, benchmark in BENCHMARKS.items() if REPORTED[name].quickstart_tasks]


def _write_phantom(folder: Path, workers: Workers) -> dict[str, Path]:
    """Write fresh synthetic sources over those of an earlier quickstart, and return their roots."""
    return write_whole(folder, seed=0, sources=sorted(_select_sources()), workers=workers)


def _select_sources() -> set[str]:
    """Select the sources of the rows that quickstart asks about. Each further source would only add to the wait."""
    index = task_index()
    repositories = {
        task.rows["repository"]
        for benchmark in REPORTED.values()
        for name in (*benchmark.quickstart_runs, *benchmark.quickstart_tasks)
        for task in iterate_tasks(name, index)
    }
    return {
        source
        for name, benchmark in _list_built()
        for need in benchmark.needs.values()
        if f"{name}-{need[0]}" in repositories
        for source in need
    }


def _add_store(models: ReferenceModels, store: Path) -> dict[str, tuple[str, dict[str, str]]]:
    """Add the folder for heatmaps to the arguments of each model."""
    return {row: (name, {**arguments, "store": str(store)}) for row, (name, arguments) in models.items()}


def _run_quietly(job: Callable[..., Any], *arguments: Any) -> Any:
    """Run a job without lm-eval's own progress bars: one bar over all jobs replaces them."""
    with contextlib.redirect_stderr(io.StringIO()):
        return job(*arguments)


def _run_audit(metadata: Mapping[str, Any], out: Path, workers: Workers) -> list[Judged]:
    """Audit models of known image use, and write audit.csv and report.html to `out`."""
    with scratch_folder() as folder:
        kept_logs = dict(metadata) | {"heatmaps": f"{folder}/heatmaps"}
        tasks = [
            task
            for name, benchmark in REPORTED.items()
            if benchmark.quickstart_tasks
            for task in _run_quietly(plan, {name: benchmark.quickstart_tasks}, kept_logs, benchmark.quickstart_rows)[0]
        ]
        models = {name: build_reference_model(name, store=kept_logs["heatmaps"]) for name in AUDITED}
        task_metadata, steps = begin(models, tasks, kept_logs, folder), unanswered(models, tasks, AUDITED_UNDER, folder)
        work = partial(
            _run_quietly, partial(take, models=models, task_metadata=task_metadata, out=folder, say=lambda line: None)
        )
        progress_options = {
            "title": "asking the models",
            "unit": "answers",
            "total": steps[0].n_left,
            "length": lambda step: step.n,
        }
        with workers.map(work, steps, **progress_options) as done:
            collections.deque(done, maxlen=0)
        judged = judge(read_audit(folder, AUDITED, tasks, MARGIN), MARGIN)
        write_tables(folder, judged, MARGIN)
        shutil.copy(folder / "audit.csv", out)
        write_page(out / "report.html", collect([folder], controls=False), [folder], "medfaith quickstart")
        return judged


def audit_table(judged: Sequence[Judged]) -> str:
    """Format one row a model and benchmark: its scores with the own image, another one and none, and the verdicts.

    Args:
        judged: Verdicts by the same rule.

    Returns:
        The table, with its title.
    """
    titles, rows = overview(judged, MARGIN).cells()
    printed = [number for number, title in enumerate(titles) if title in _SHOWN]
    cells = [[row[number].split(" with n = ")[0] for number in printed] for row in rows]  # audit.csv has the numbers
    title = "Does the model use the image? (scores in % with its own image, with another one and, best, without)"
    return f"\n{title}\n{table([titles[number] for number in printed], cells)}\n"


def _write_closing(out: Path) -> str:
    named_folder = shlex.quote(str(out))
    group = next(iter(REPORTED.values())).task_group
    return f"""
– means undefined. looks answers from the pixels, mirage does so in half of the rows; looks_elsewhere takes its
answers from another place in the image; the others never look. Other: another patient's image, whose right answer
differs. Blind: the best score without an image.

Saved:
  {out}/report.html: a page to open in a browser
  {out}/phantom: synthetic sources; {out}/data: rows; {out}/logs: answers
  {out}/audit.csv and {out}/results.json: figures

Next:
  medfaith report {named_folder}  # the scores of these models; with --out DIR the papers' tables
  medfaith eval --data {named_folder}/data --model random --tasks {group} --output_path results --log_samples
  medfaith sources  # the licensed sources: which of them you have, and how to get the others"""
