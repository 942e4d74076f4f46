"""kill -9 and Ctrl-C at many moments of each kind of job: nothing is lost, and the repeat is as if undisturbed.

    MEDFAITH_INTERRUPTIONS=50 uv run pytest -n 0 -m full tests/house/test_interruptions.py

tries 50 moments for each job and signal instead of 4. They are drawn with a seed: half of them among the events that
change files, databases or connections, half among all.
"""

from __future__ import annotations

import contextlib
import copy
import hashlib
import json
import os
import random
import re
import shutil
import signal
import sqlite3
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

from medfaith.builders import cxr_contrabench
from medfaith.loaders.atomic import is_partial
from medfaith.loaders.errors import InputError
from medfaith.tasks.wrong_lung.held_out_patients import read_seen
from tests.hub.server import Hub
from tests.support.builders.files import root_words
from tests.support.chat import chat_server
from tests.support.interrupting import Commands, Ended
from tests.support.reporting.report_logs import answered, write_log
from tests.support.tasks.tiny_models import save_llava
from tests.support.training.training_scene import make_scene

pytestmark = pytest.mark.full
N = int(os.environ.get("MEDFAITH_INTERRUPTIONS", "4"))
CACHE = ("datasets.config", "HF_DATASETS_CACHE")
DATE = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d[:-]\d\d([:-]\d\d(\.\d+)?)?")
OF_A_RUN = "date|start_time|end_time|total_evaluation_time_seconds|seconds|git_hash|pretty_env_info"
TIMING = re.compile(rf'"({OF_A_RUN})": ("[^"]*"|[\d.e+-]+|null)')
HIDDEN = re.compile(r"\.lock$|-(wal|shm)$|\.checkpoints/")  # temporary files of a run
Tree = dict[str, Any]


@dataclass
class Scene:
    """Working folder `place` of the jobs, and their inputs, made on first use."""

    home: Path
    commands: Commands
    hub: Hub
    url: str
    fixture: Callable[[str], Any]
    published: dict[Any, Any] = field(default_factory=dict)

    @property
    def place(self) -> Path:
        return self.home / "place"

    def run(self, arguments: Sequence[str], settings: Sequence[tuple[str, str, Any]] = (), **options: Any) -> Ended:
        (self.home / "tmp").mkdir(exist_ok=True)
        settings = [*settings, (*CACHE, str(self.home / "cache"))]
        return self.commands.run(arguments, self.home / "tmp", settings=settings, **options)

    def rows(self, benchmark: str = "") -> list[str]:
        """Make the options for a phantom build and the roots of its sources."""
        build, roots = (self.fixture(f"phantom{benchmark}_{suffix}") for suffix in ("build", "roots"))
        return ["--data", str(build), *root_words(roots)]

    @cached_property
    def llava(self) -> Path:
        return save_llava(self.home / "llava")

    @cached_property
    def lung(self) -> Any:
        return make_scene(self.home / "lung", 50)

    @cached_property
    def builds(self) -> dict[int, Path]:
        """CXR-ContraBench builds by seed."""
        cxr_contrabench.build(self.fixture("phantom_roots"), self.home / "seed 1", seed=1)
        return {0: self.fixture("phantom_build"), 1: self.home / "seed 1"}

    @cached_property
    def shards(self) -> dict[str, list[Path]]:
        """Log folders of two shards for each of two models."""
        folders_by_model: dict[str, list[Path]] = {model: [] for model in ("oracle", "random")}
        for model, folders in folders_by_model.items():
            for number in (1, 2):
                folders.append(self.home / "shards" / model / str(number))
                arguments = [
                    "eval",
                    *self.rows(),
                    "--model",
                    model,
                    "--tasks",
                    "medfaith_contrabench_openi_report_absence",
                ]
                arguments += ["--shard", f"{number}/2", "--log_samples", "--output_path", str(folders[-1])]
                assert self.run(arguments).status == 0
        return folders_by_model

    @cached_property
    def logs(self) -> list[Path]:
        """Log folders with few and with more answers."""
        for n in (6, 9):
            write_log(self.home / f"logs {n}", "m", answered("openi_report_absence", n, 3, 2))
        return [self.home / f"logs {n}" for n in (6, 9)]


@dataclass(frozen=True)
class Job:
    """A job to interrupt, and the run before it.

    Attributes:
        earlier: Arguments of a completed run in the same place.
        arguments: Arguments of the interrupted run.
        together: Folders, or prefixes of file names, whose files must all come from one run.
        settings: Settings of `Commands.run`.
        refusal: Message of the repeat if it refuses a complete run.
    """

    earlier: Callable[[Scene], list[str]]
    arguments: Callable[[Scene], list[str]]
    together: tuple[str, ...] = ()
    settings: tuple[tuple[str, str, Any], ...] = ()
    refusal: str = ""


def build_eval(scene: Scene, limit: int, model: str, *model_arguments: str) -> list[str]:
    arguments = [
        "eval",
        *scene.rows(),
        "--model",
        model,
        *model_arguments,
        "--limit",
        str(limit),
        "--apply_chat_template",
    ]
    arguments += ["--tasks", "medfaith_contrabench_openi_report_absence"]
    return [*arguments, "--log_samples", "--output_path", str(scene.place)]


def build_local_eval(scene: Scene, limit: int) -> list[str]:
    options = ["--gen_kwargs", "max_gen_toks=2", "--batch_size", "2", "--device", "cpu"]
    return build_eval(
        scene, limit, "medfaith-hf-vlm", "--model_args", f"pretrained={scene.llava},dtype=float32", *options
    )


def build_served_eval(scene: Scene, limit: int) -> list[str]:
    return build_eval(scene, limit, "medfaith-server", "--model_args", f"base_url={scene.url},model=m")


def build_audit(scene: Scene, *controls: str) -> list[str]:
    arguments = ["audit", *scene.rows("_heal"), "--benchmarks", "heal-medvqa", "--model", "question_prior"]
    return [*arguments, "--limit", "5", "--out", str(scene.place), "--controls", *controls]


def build_training(scene: Scene, recipe: str) -> list[str]:
    lung = scene.lung
    arguments = ["train", recipe, "--tiny", "--data", str(lung.build), "--root", f"mimic_cxr={lung.roots['mimic_cxr']}"]
    arguments += ["--epochs", "1", "--text-model", str(lung.text_model), "--limit", "40"]
    return [*arguments, "--out", str(scene.place / "m.ckpt")]


def build_uniter_training(scene: Scene, seed: int) -> list[str]:
    boxes = f"chest_imagenome={scene.lung.roots['chest_imagenome']}"
    arguments = [word for word in build_training(scene, "uniter") if word != "--tiny"]
    arguments += ["--root", boxes, "--seed", str(seed), "--layers", "1", "--heads", "2", "--hidden-size", "16"]
    return [*arguments, "--epochs", "2"]


def build_lora_training(scene: Scene, name: str) -> list[str]:
    arguments = ["train", "lora", "--benchmark", "heal", "--pretrained", str(scene.llava), *scene.rows("_heal")]
    arguments += ["--limit", "4", "--epochs", "2", "--batch-size", "2", "--lr", "0.01", "--save-every", "1"]
    return [*arguments, "--device", "cpu", "--out", str(scene.place / name)]


def build_splits(scene: Scene, seed: int) -> list[str]:
    roots = root_words(scene.fixture("phantom_roots"))
    return ["build", "cxr-contrabench", *roots, "--out", str(scene.place / "data"), "--seed", str(seed)]


def build_merge(scene: Scene, model: str) -> list[str]:
    return ["merge", *map(str, scene.shards[model]), "--out", str(scene.place / "merged")]


def build_report(scene: Scene, which: int) -> list[str]:
    place = scene.place
    return ["report", str(scene.logs[which]), "--out", str(place / "report"), "--html", str(place / "page.html")]


def build_publish(scene: Scene, seed: int) -> list[str]:
    arguments = [
        "publish",
        str(scene.builds[seed] / "cxr-contrabench-openi"),
        "--org",
        scene.hub.organisation,
        "--force",
    ]
    return [*arguments, *root_words(scene.fixture("phantom_roots"))]


JOBS = {
    "build": Job(
        lambda s: build_splits(s, 1),
        lambda s: build_splits(s, 0),
        ("data/cxr-contrabench-chexpert/", "data/cxr-contrabench-openi/"),
    ),
    "eval, local model": Job(lambda s: build_local_eval(s, 2), lambda s: build_local_eval(s, 6)),
    "eval, server": Job(lambda s: build_served_eval(s, 2), lambda s: build_served_eval(s, 6)),
    "audit": Job(lambda s: build_audit(s, "none"), lambda s: build_audit(s, "none", "other")),
    "train": Job(
        lambda s: build_training(s, "retrained"),
        lambda s: build_training(s, "no_attn"),
        ("m.ckpt",),
        (("medfaith.tasks.models.alignment.gloria_image", "INPUT", 64),),
    ),
    "train uniter": Job(lambda s: build_uniter_training(s, 1), lambda s: build_uniter_training(s, 0), ("m.ckpt",)),
    "train lora": Job(
        lambda s: build_lora_training(s, "earlier"),
        lambda s: build_lora_training(s, "adapter"),
        ("adapter/",),
        refusal="is there already",
    ),
    "merge": Job(lambda s: build_merge(s, "oracle"), lambda s: build_merge(s, "random"), ("merged/",)),
    "report": Job(lambda s: build_report(s, 0), lambda s: build_report(s, 1), ("report/",)),
    "publish": Job(lambda s: build_publish(s, 1), lambda s: build_publish(s, 0), ("hub/",)),
}


@pytest.fixture(scope="module")
def scene(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    home = tmp_path_factory.mktemp("interruptions")
    with Hub() as hub, chat_server(lambda messages: "No", models=[{"id": "m"}]) as (url, _):
        environment = hub.environment(home / "hf") | {"XDG_CONFIG_HOME": str(home)}
        with Commands(home, environment) as commands:
            yield Scene(home, commands, hub, url, request.getfixturevalue)


@pytest.mark.parametrize("by", [signal.SIGKILL, signal.SIGINT], ids=["kill", "ctrl-c"])
@pytest.mark.parametrize("name", JOBS)
def test_an_interrupted_job_loses_nothing_and_its_repeat_is_as_undisturbed(name, by, scene):
    job = JOBS[name]
    before, after, events = _run_undisturbed(job, scene)
    rng = random.Random(f"{name} {by}")
    moments = [("writes", k) for k in _draw(rng, events["writes"], N // 2)]
    moments += [("all", k) for k in _draw(rng, events["all"], N - len(moments))]
    ends: Counter[str] = Counter()
    faults = []
    for moment in moments:
        _put_back(scene)
        ended = scene.run(job.arguments(scene), job.settings, at=moment, by=by)
        moment_faults = [*_find_wrong_end(ended, by), *_find_changes(job, before, after, _read_tree(scene), scene)]
        ends[f"status {ended.status}"] += 1
        repeat = scene.run(job.arguments(scene), job.settings)
        if repeat.status and not (repeat.status == 2 and job.refusal and job.refusal in repeat.warned):
            moment_faults.append(f"the repeat ends with {repeat.status}: {repeat.warned[-2000:]}")
        moment_faults += _list_differences(after, _read_tree(scene, with_hidden=True))
        moment_faults += [f"{path} is left" for path in (scene.home / "tmp").iterdir()]
        moment_faults += [f"the process {process} is left" for process in (*ended.alive, *repeat.alive)]
        faults += [f"{moment}: {fault}" for fault in moment_faults]
    print(f"{name}, {by.name}: {len(moments)} moments of {events['writes']} and {events['all']} events: {dict(ends)}")
    print(*faults, sep="\n")
    assert not faults, f"{len(faults)} faults\n" + "\n".join(faults)


def _draw(rng: random.Random, n: int, n_moments: int) -> list[int]:
    return sorted(rng.sample(range(1, n + 1), min(n, n_moments)))


def _run_undisturbed(job: Job, scene: Scene) -> tuple[Tree, Tree, Mapping[str, int]]:
    """Run both jobs without a signal; return the state before and after, and the numbers of events."""
    _remove(scene, "place", "kept", "tmp", "cache")
    scene.hub.repositories.clear()
    scene.place.mkdir()
    ended = scene.run(job.earlier(scene), job.settings)
    assert ended.status == 0, ended.warned
    scene.place.rename(scene.home / "kept")
    scene.published = copy.deepcopy(scene.hub.repositories)
    for _ in range(2):  # the second time, all modules are imported
        _put_back(scene)
        before = _read_tree(scene, with_hidden=True)
        ended = scene.run(job.arguments(scene), job.settings)
        assert ended.status == 0, ended.warned
    after = _read_tree(scene, with_hidden=True)
    assert before != after
    return before, after, ended.events


def _put_back(scene: Scene) -> None:
    """Restore the state after the earlier run, with an empty cache of rows."""
    _remove(scene, "place", "tmp", "cache")
    shutil.copytree(scene.home / "kept", scene.place)
    scene.hub.repositories.clear()
    scene.hub.repositories |= copy.deepcopy(scene.published)


def _remove(scene: Scene, *names: str) -> None:
    for name in names:
        shutil.rmtree(scene.home / name, ignore_errors=True)


def _read_tree(scene: Scene, *, with_hidden: bool = False) -> Tree:
    """Read files, store rows and Hub files by name, with dates and timings masked."""
    contents: dict[str, list[Any]] = {}
    for path in sorted(scene.place.rglob("*")):
        name = path.relative_to(scene.place)
        hidden = is_partial(name) or HIDDEN.search(str(name))
        if path.is_file() and (with_hidden or not hidden):
            contents.setdefault(DATE.sub("DATE", str(name)), []).append(_read_content(path))
    for (_, repository), state in scene.hub.repositories.items():
        for name, file in state.commits[-1].files.items():
            contents[f"hub/{repository}/{name}"] = [file.sha256]
    return {name: sorted({*state}) for name, state in contents.items()}  # a run killed after its end is listed twice


def _read_content(path: Path) -> Any:
    if path.suffix == ".sqlite":
        with tempfile.TemporaryDirectory() as copy_in:  # opening the original would repair it
            for file in path.parent.glob(f"{path.name}*"):
                shutil.copy(file, copy_in)
            with contextlib.closing(sqlite3.connect(Path(copy_in) / path.name)) as database:
                return tuple(sorted(database.execute("SELECT key, outcome FROM answers").fetchall()))
    content = path.read_bytes()
    if path.name.startswith("results_"):
        results = json.loads(content)
        for key in ("work", "usage"):  # stored answers took none
            results["config"].pop(key, None)
        content = json.dumps(results).encode()
    with_dates = path.suffix in (".json", ".html", ".jsonl") and b"\0" not in content
    if with_dates:
        content = TIMING.sub(r"\1", DATE.sub("DATE", content.decode())).encode()
    return hashlib.sha256(content).hexdigest()


def _find_wrong_end(ended: Ended, by: signal.Signals) -> Iterator[str]:
    """Find faults in the end of the interrupted run."""
    if "Traceback" in ended.warned or "Exception ignored" in ended.warned:
        yield ended.warned[-3000:]
    if by == signal.SIGINT and ended.status == 130:
        lines = [line for line in ended.warned.splitlines() if "interrupted" in line.lower()]
        if lines != ["medfaith: interrupted"]:
            yield f"it says {lines}"
    elif ended.status != -by:
        yield f"status {ended.status}: {ended.warned[-2000:]}"


def _find_changes(job: Job, before: Tree, after: Tree, now: Tree, scene: Scene) -> Iterator[str]:
    """Find contents that equal neither the state before nor the state after."""
    for name in {*before, *after, *now}:
        if name.endswith(".sqlite"):
            rows = {*now[name][0]}
            if not {*before[name][0]} <= rows <= {*after[name][0]}:
                yield f"{name} has lost answers"
        elif now.get(name) not in (before.get(name), after.get(name)):
            yield f"{name} is neither as before nor as after"
    for start in job.together:
        subtrees = [
            {name: content for name, content in tree.items() if name.startswith(start)} for tree in (before, after, now)
        ]
        if subtrees[2] not in subtrees[:2] and not _is_refused(scene, start):
            yield f"{start} is of two runs"


def _is_refused(scene: Scene, start: str) -> bool:
    """Whether a record that does not belong to its checkpoint is refused."""
    try:
        read_seen(scene.place / f"{start}.json")
    except InputError as error:
        return "is the record of another checkpoint" in str(error)
    return False


def _list_differences(expected: Tree, actual: Tree) -> list[str]:
    return [
        f"after the repeat {name} is other: {len(actual.get(name, ()))} files, not {len(expected.get(name, ()))}"
        for name in sorted({*expected, *actual})
        if expected.get(name) != actual.get(name)
    ]
