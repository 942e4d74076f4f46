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
from tests.builders.files import root_words
from tests.chat import chat_server
from tests.hub.server import Hub
from tests.interrupting import Commands, Ended
from tests.report.report_logs import answered, write_log
from tests.tasks.tiny_models import save_llava
from tests.training.conftest import make_scene

pytestmark = pytest.mark.full
N = int(os.environ.get("MEDFAITH_INTERRUPTIONS", "4"))
CACHE = ("datasets.config", "HF_DATASETS_CACHE")
DATE = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d[:-]\d\d([:-]\d\d(\.\d+)?)?")
OF_A_RUN = "date|start_time|end_time|total_evaluation_time_seconds|seconds|git_hash|pretty_env_info"
TIMING = re.compile(rf'"({OF_A_RUN})": ("[^"]*"|[\d.e+-]+|null)')
HIDDEN = re.compile(r"\.lock$|-(wal|shm)$|\.checkpoints/")  # what lasts as long as a run, and is not its result
Tree = dict[str, Any]


@dataclass
class Scene:
    """Where jobs run, each in the folder `place`, and what they need, made when it is first needed."""

    home: Path
    commands: Commands
    hub: Hub
    url: str
    fixture: Callable[[str], Any]
    published: dict[Any, Any] = field(default_factory=dict)

    @property
    def place(self) -> Path:
        return self.home / "place"

    def run(self, words: Sequence[str], settings: Sequence[tuple[str, str, Any]] = (), **how: Any) -> Ended:
        (self.home / "tmp").mkdir(exist_ok=True)
        settings = [*settings, (*CACHE, str(self.home / "cache"))]
        return self.commands.run(words, self.home / "tmp", settings=settings, **how)

    def rows(self, benchmark: str = "") -> list[str]:
        """The options that name a build of phantoms and the roots of its sources."""
        build, roots = (self.fixture(f"phantom{benchmark}_{what}") for what in ("build", "roots"))
        return ["--data", str(build), *root_words(roots)]

    @cached_property
    def llava(self) -> Path:
        return save_llava(self.home / "llava")

    @cached_property
    def lung(self) -> Any:
        return make_scene(self.home / "lung", 50)

    @cached_property
    def builds(self) -> dict[int, Path]:
        """CXR-ContraBench by its seed."""
        cxr_contrabench.build(self.fixture("phantom_roots"), self.home / "seed 1", seed=1)
        return {0: self.fixture("phantom_build"), 1: self.home / "seed 1"}

    @cached_property
    def shards(self) -> dict[str, list[Path]]:
        """Of a run of two models each."""
        found: dict[str, list[Path]] = {model: [] for model in ("oracle", "random")}
        for model, folders in found.items():
            for number in (1, 2):
                folders.append(self.home / "shards" / model / str(number))
                words = ["eval", *self.rows(), "--model", model, "--tasks", "medfaith_contrabench_openi_report_absence"]
                words += ["--shard", f"{number}/2", "--log_samples", "--output_path", str(folders[-1])]
                assert self.run(words).status == 0
        return found

    @cached_property
    def logs(self) -> list[Path]:
        """Of few answers, and of more."""
        for n in (6, 9):
            write_log(self.home / f"logs {n}", "m", answered("openi_report_absence", n, 3, 2))
        return [self.home / f"logs {n}" for n in (6, 9)]


@dataclass(frozen=True)
class Job:
    """earlier: the words of a run that has ended, in the same place; words: of the one that is interrupted.

    together: a folder or the first letters of files that are of one run, all of them. settings: as of `Commands.run`.
    again: what the repeat of a run that was complete says, where it refuses.
    """

    earlier: Callable[[Scene], list[str]]
    words: Callable[[Scene], list[str]]
    together: tuple[str, ...] = ()
    settings: tuple[tuple[str, str, Any], ...] = ()
    again: str = ""


def evaluated(scene: Scene, limit: int, model: str, *given: str) -> list[str]:
    words = ["eval", *scene.rows(), "--model", model, *given, "--limit", str(limit), "--apply_chat_template"]
    words += ["--tasks", "medfaith_contrabench_openi_report_absence"]
    return [*words, "--log_samples", "--output_path", str(scene.place)]


def local(scene: Scene, limit: int) -> list[str]:
    how = ["--gen_kwargs", "max_gen_toks=2", "--batch_size", "2", "--device", "cpu"]
    return evaluated(scene, limit, "medfaith-hf-vlm", "--model_args", f"pretrained={scene.llava},dtype=float32", *how)


def served(scene: Scene, limit: int) -> list[str]:
    return evaluated(scene, limit, "medfaith-server", "--model_args", f"base_url={scene.url},model=m")


def audited(scene: Scene, *controls: str) -> list[str]:
    words = ["audit", *scene.rows("_heal"), "--benchmarks", "heal-medvqa", "--model", "question_prior"]
    return [*words, "--limit", "5", "--out", str(scene.place), "--controls", *controls]


def trained(scene: Scene, recipe: str) -> list[str]:
    lung = scene.lung
    words = ["train", recipe, "--tiny", "--data", str(lung.build), "--root", f"mimic_cxr={lung.roots['mimic_cxr']}"]
    words += ["--epochs", "1", "--text-model", str(lung.text_model), "--limit", "40"]
    return [*words, "--out", str(scene.place / "m.ckpt")]


def tuned(scene: Scene, name: str) -> list[str]:
    words = ["train", "lora", "--benchmark", "heal", "--pretrained", str(scene.llava), *scene.rows("_heal")]
    words += ["--limit", "4", "--epochs", "2", "--batch-size", "2", "--lr", "0.01", "--save-every", "1"]
    return [*words, "--device", "cpu", "--out", str(scene.place / name)]


def merged(scene: Scene, model: str) -> list[str]:
    return ["merge", *map(str, scene.shards[model]), "--out", str(scene.place / "merged")]


def reported(scene: Scene, which: int) -> list[str]:
    place = scene.place
    return ["report", str(scene.logs[which]), "--out", str(place / "report"), "--html", str(place / "page.html")]


def published(scene: Scene, seed: int) -> list[str]:
    words = ["publish", str(scene.builds[seed] / "cxr-contrabench-openi"), "--org", scene.hub.organisation, "--force"]
    return [*words, *root_words(scene.fixture("phantom_roots"))]


JOBS = {
    "eval, local model": Job(lambda s: local(s, 2), lambda s: local(s, 6)),
    "eval, server": Job(lambda s: served(s, 2), lambda s: served(s, 6)),
    "audit": Job(lambda s: audited(s, "none"), lambda s: audited(s, "none", "other")),
    "train": Job(
        lambda s: trained(s, "retrained"),
        lambda s: trained(s, "no_attn"),
        ("m.ckpt",),
        (("medfaith.tasks.models.gloria_image", "INPUT", 64),),
    ),
    "train lora": Job(
        lambda s: tuned(s, "earlier"), lambda s: tuned(s, "adapter"), ("adapter/",), again="is there already"
    ),
    "merge": Job(lambda s: merged(s, "oracle"), lambda s: merged(s, "random"), ("merged/",)),
    "report": Job(lambda s: reported(s, 0), lambda s: reported(s, 1), ("report/",)),
    "publish": Job(lambda s: published(s, 1), lambda s: published(s, 0), ("hub/",)),
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
    before, after, events = _undisturbed(job, scene)
    drawn = random.Random(f"{name} {by}")
    moments = [("writes", k) for k in _draw(drawn, events["writes"], N // 2)]
    moments += [("all", k) for k in _draw(drawn, events["all"], N - len(moments))]
    ends: Counter[str] = Counter()
    faults = []
    for moment in moments:
        _put_back(scene)
        ended = scene.run(job.words(scene), job.settings, at=moment, by=by)
        found = [*_wrongly_ended(ended, by), *_changed(job, before, after, _tree(scene), scene)]
        ends[f"status {ended.status}"] += 1
        again = scene.run(job.words(scene), job.settings)
        if again.status and not (again.status == 2 and job.again and job.again in again.warned):
            found.append(f"the repeat ends with {again.status}: {again.warned[-2000:]}")
        found += _differences(after, _tree(scene, with_hidden=True))
        found += [f"{path} is left" for path in (scene.home / "tmp").iterdir()]
        found += [f"the process {one} is left" for one in (*ended.left, *again.left)]
        faults += [f"{moment}: {fault}" for fault in found]
    print(f"{name}, {by.name}: {len(moments)} moments of {events['writes']} and {events['all']} events: {dict(ends)}")
    print(*faults, sep="\n")
    assert not faults, f"{len(faults)} faults\n" + "\n".join(faults)


def _draw(drawn: random.Random, n: int, wanted: int) -> list[int]:
    return sorted(drawn.sample(range(1, n + 1), min(n, wanted)))


def _undisturbed(job: Job, scene: Scene) -> tuple[Tree, Tree, Mapping[str, int]]:
    """What the earlier run leaves, what the job leaves, and how many events it has."""
    _remove(scene, "place", "kept", "tmp", "cache")
    scene.hub.repositories.clear()
    scene.place.mkdir()
    ended = scene.run(job.earlier(scene), job.settings)
    assert ended.status == 0, ended.warned
    scene.place.rename(scene.home / "kept")
    scene.published = copy.deepcopy(scene.hub.repositories)
    for _ in range(2):  # the second time all modules are there
        _put_back(scene)
        before = _tree(scene, with_hidden=True)
        ended = scene.run(job.words(scene), job.settings)
        assert ended.status == 0, ended.warned
    after = _tree(scene, with_hidden=True)
    assert before != after
    return before, after, ended.events


def _put_back(scene: Scene) -> None:
    """The state after the earlier run; an empty cache of rows."""
    _remove(scene, "place", "tmp", "cache")
    shutil.copytree(scene.home / "kept", scene.place)
    scene.hub.repositories.clear()
    scene.hub.repositories |= copy.deepcopy(scene.published)


def _remove(scene: Scene, *names: str) -> None:
    for name in names:
        shutil.rmtree(scene.home / name, ignore_errors=True)


def _tree(scene: Scene, *, with_hidden: bool = False) -> Tree:
    """Name -> what is there under it, dates and timings masked: files, rows of the store, files of the Hub."""
    found: dict[str, list[Any]] = {}
    for path in sorted(scene.place.rglob("*")):
        name = path.relative_to(scene.place)
        hidden = is_partial(name) or HIDDEN.search(str(name))
        if path.is_file() and (with_hidden or not hidden):
            found.setdefault(DATE.sub("DATE", str(name)), []).append(_content(path))
    for (_, repository), of in scene.hub.repositories.items():
        for name, file in of.commits[-1].files.items():
            found[f"hub/{repository}/{name}"] = [file.sha256]
    return {name: sorted({*of}) for name, of in found.items()}  # a run that had ended when it was killed is there twice


def _content(path: Path) -> Any:
    if path.suffix == ".sqlite":
        with tempfile.TemporaryDirectory() as copy_in:  # to read it would mend it
            for part in path.parent.glob(f"{path.name}*"):
                shutil.copy(part, copy_in)
            with contextlib.closing(sqlite3.connect(Path(copy_in) / path.name)) as database:
                return tuple(sorted(database.execute("SELECT key, outcome FROM answers").fetchall()))
    content = path.read_bytes()
    if path.name.startswith("results_"):
        results = json.loads(content)
        for of_this_run in ("work", "usage"):  # answers that were kept took none
            results["config"].pop(of_this_run, None)
        content = json.dumps(results).encode()
    with_dates = path.suffix in (".json", ".html", ".jsonl") and b"\0" not in content
    if with_dates:
        content = TIMING.sub(r"\1", DATE.sub("DATE", content.decode())).encode()
    return hashlib.sha256(content).hexdigest()


def _wrongly_ended(ended: Ended, by: signal.Signals) -> Iterator[str]:
    """What is wrong with the end of the interrupted run."""
    if "Traceback" in ended.warned or "Exception ignored" in ended.warned:
        yield ended.warned[-3000:]
    if by == signal.SIGINT and ended.status == 130:
        lines = [line for line in ended.warned.splitlines() if "interrupted" in line.lower()]
        if lines != ["medfaith: interrupted"]:
            yield f"it says {lines}"
    elif ended.status != -by:
        yield f"status {ended.status}: {ended.warned[-2000:]}"


def _changed(job: Job, before: Tree, after: Tree, now: Tree, scene: Scene) -> Iterator[str]:
    """What is neither as before nor as after."""
    for name in {*before, *after, *now}:
        if name.endswith(".sqlite"):
            rows = {*now[name][0]}
            if not {*before[name][0]} <= rows <= {*after[name][0]}:
                yield f"{name} has lost answers"
        elif now.get(name) not in (before.get(name), after.get(name)):
            yield f"{name} is neither as before nor as after"
    for start in job.together:
        whole = [{name: of for name, of in tree.items() if name.startswith(start)} for tree in (before, after, now)]
        if whole[2] not in whole[:2] and not _told(scene, start):
            yield f"{start} is of two runs"


def _told(scene: Scene, start: str) -> bool:
    """Whether a record that is not of its checkpoint is refused."""
    try:
        read_seen(scene.place / f"{start}.json")
    except InputError as error:
        return "is the record of another checkpoint" in str(error)
    return False


def _differences(expected: Tree, found: Tree) -> list[str]:
    return [
        f"after the repeat {name} is other: {len(found.get(name, ()))} files, not {len(expected.get(name, ()))}"
        for name in sorted({*expected, *found})
        if expected.get(name) != found.get(name)
    ]
