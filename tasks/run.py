"""Runs lm-eval with medfaith's tasks and models, and refuses caches that ignore the image."""

from __future__ import annotations

import contextlib
import gc
import inspect
import io
import json
import logging
import random
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property, lru_cache, partial
from pathlib import Path
from typing import Any, cast
from unittest import mock

import numpy as np

from ..loaders.errors import MedfaithError
from ..loaders.progress import Progress
from . import BASELINES, EXPLAINED, LOOKING, include_path, preflight, register_models, shard_marker
from .controls import needs_an_image
from .index import task_index
from .result_saving import output_folder, saved
from .shards import Shard, asking, refuse

NEED_AN_IMAGE = ("hf-multimodal", "vllm-vlm", *(name for name in EXPLAINED if name not in BASELINES | LOOKING))
PREFIX = "medfaith_"  # of the names of all tasks of this package
OURS = {
    "--metadata": "its own options, such as --data, --root, --control and --model_name (medfaith eval --help)",
    "--include_path": "lm_eval itself, with your own path",
}


def run_lm_eval(
    arguments: Sequence[str],
    metadata: Mapping[str, Any],
    shown: Callable[[Mapping[str, Any]], str],
    shard: Shard | None = None,
) -> list[Path]:
    """`lm_eval run ARGUMENTS` in this process, with medfaith's tasks and models registered.

    shown: what to print of lm-eval's results in place of its own table, where every task is of medfaith and no sample
    log is kept. Nothing is printed of those that are kept.
    shard: the part of the patients to ask, of which a marker is written last; by default all are asked.

    Returns the sample logs of medfaith's tasks that it wrote, none without --log_samples.

    Raises MedfaithError for arguments that lm-eval or this package refuses, and for results that could not be saved.
    """
    for option, instead in OURS.items():
        if any(argument.split("=", 1)[0] == option for argument in arguments):
            raise MedfaithError(f"{option}: medfaith eval sets it\n  what to do: use {instead}")
    from lm_eval.__main__ import cli_evaluate
    from lm_eval._cli import HarnessCLI
    from lm_eval.config.evaluate_config import EvaluatorConfig

    register_models()
    extra = ["--include_path", str(include_path()), "--metadata", json.dumps(metadata)]
    with _arguments(["lm_eval", "run", *arguments, *extra]):
        with _told_by_lm_eval():
            config = EvaluatorConfig.from_cli(HarnessCLI().parse_args())
            _refuse_no_image(config.model, metadata.get("control"))
        _refuse_blind_caches(config)
        if shard is not None:
            refuse(config, metadata, shard, ours=_all_ours(config.tasks))
        preflight.check(config, metadata)
        try:
            with saved(config.output_path) as written, contextlib.ExitStack() as patches:
                rows = patches.enter_context(asking(shard)) if shard is not None else {}
                patches.enter_context(_quick_collections())
                patches.enter_context(_shown_rows())
                if _all_ours(config.tasks):
                    patches.enter_context(_own_task_files())
                    patches.enter_context(_own_table((lambda _: "") if config.log_samples else shown))
                cli_evaluate()
        except ValueError as error:
            if not str(error).startswith(("Tasks not found", "No tasks specified")):
                raise
            raise MedfaithError(f"lm_eval: {error}\n  what to do: medfaith tasks --list") from error
    folder = output_folder(config.output_path)
    if shard is not None and folder is not None and written:  # of the processes of accelerate, one writes
        shard_marker.write(folder, shard, shard_marker.asked(config, metadata), rows, written)
        print(
            f"medfaith: shard {shard} has ended in {folder}; medfaith merge puts the shards together", file=sys.stderr
        )
    return sorted(path for path in written if path.name.startswith(f"samples_{PREFIX}"))


def what_it_takes(arguments: Sequence[str], metadata: Mapping[str, Any], shard: Shard | None = None) -> str:
    """What `run_lm_eval` would send to a server: its model is in a dry run, and nothing is saved. Raises as it does."""
    from .models.server_usage import DryRunEnd

    try:
        run_lm_eval(arguments, metadata, lambda results: "", shard)
    except DryRunEnd as end:
        return str(end)
    raise AssertionError("the model was not in a dry run")


@contextlib.contextmanager
def _told_by_lm_eval() -> Iterator[None]:
    """What lm-eval says of wrong options, as a MedfaithError."""
    try:
        yield
    except (ValueError, KeyError, FileNotFoundError) as error:
        raise MedfaithError(f"lm_eval: {error.args[0] if error.args else error}") from error


def _refuse_blind_caches(config: Any) -> None:
    """lm-eval files answers under the text of a prompt without its image, and requests without their data."""
    for option, value in (
        ("--use_cache", config.use_cache),
        ("--cache_requests", (config.cache_requests or {}).get("cache_requests")),
    ):
        if value:
            raise MedfaithError(
                f"{option}: lm-eval's cache does not look at the image or at the data, and one run can get another's\n"
                "  what to do: leave it out"
            )


def _refuse_no_image(model: str, control: Any) -> None:
    """Of models that cannot answer without an image."""
    if control == "none" and model in NEED_AN_IMAGE:
        raise needs_an_image(f"the model type {model}")


@contextlib.contextmanager
def _arguments(argv: list[str]) -> Iterator[None]:
    """lm-eval's command reads sys.argv and takes no other."""
    before = sys.argv
    sys.argv = argv
    try:
        yield
    finally:
        sys.argv = before


def _all_ours(tasks: str | Sequence[str]) -> bool:
    """Whether every task that lm-eval is told to run is of medfaith."""
    given = tasks.split(",") if isinstance(tasks, str) else [name for word in tasks for name in word.split(",")]
    return all(name.startswith(PREFIX) for name in given)


@contextlib.contextmanager
def _own_task_files() -> Iterator[None]:
    """lm-eval's command first reads all 14,000 task files of its own, for seconds: not where every task is of ours."""
    import lm_eval.evaluator  # here, because it keeps the TaskManager that it finds
    import lm_eval.tasks

    with mock.patch.object(lm_eval.tasks, "TaskManager", partial(lm_eval.tasks.TaskManager, include_defaults=False)):
        yield


@contextlib.contextmanager
def _own_table(shown: Callable[[Mapping[str, Any]], str]) -> Iterator[None]:
    """lm-eval's table has a line for each metric, end of an interval and filter, and N/A in most of them."""
    import lm_eval.utils

    def table(results: dict[str, Any]) -> str:
        results.pop("groups", None)  # they are saved by now, and another table would follow
        return shown(results)

    with mock.patch.object(lm_eval.utils, "make_table", table):
        yield


@contextlib.contextmanager
def _quick_collections() -> Iterator[None]:
    """hf-multimodal collects garbage after each batch, and looks at all objects: modules, rows, requests.

    That takes a quarter of a second and more with many rows. What there is before the first batch stays out of it here.
    """
    vlms = sys.modules.get("lm_eval.models.hf_vlms")  # the model types of others collect nothing
    if vlms is None:
        yield
        return
    generate_until = vlms.HFMultimodalLM.generate_until
    freeze = cache(gc.freeze)  # once: a model may be asked in several steps
    before = gc.get_freeze_count()

    def generate(*given: Any, **named: Any) -> list[str]:
        freeze()
        return generate_until(*given, **named)

    with mock.patch.object(vlms.HFMultimodalLM, "generate_until", generate):
        try:
            yield
        finally:
            if not before:
                gc.unfreeze()


@contextlib.contextmanager
def _shown_rows() -> Iterator[None]:
    """lm-eval shows nothing while it reads rows and scores them, which with heatmaps takes as long as the answers."""
    from lm_eval.api.task import Task

    of_task = Task.doc_iterator

    def rows(task: Any, *, rank: int = 0, world_size: int = 1, **named: Any) -> Any:
        doing = "scoring" if getattr(task, "_instances", None) else "reading"
        n = len(named.get("samples") or task.eval_docs)
        total = len(range(rank, min(n, int(named.get("limit") or n)), world_size))
        found = of_task(task, rank=rank, world_size=world_size, **named)
        return Progress(found, title=f"{doing} rows of {task.config.task}", total=total, unit="rows", quiet=rank != 0)

    with mock.patch.object(Task, "doc_iterator", rows):
        yield


@contextlib.contextmanager
def _known_sources() -> Iterator[None]:
    """Let lm-eval find the source of a task's functions once, not again for each model, for its record of the task."""
    from lm_eval.config import task

    with mock.patch.object(task, "getsource", _source_of):
        yield


@lru_cache(maxsize=256)
def _source_of(function: Any) -> str:
    return inspect.getsource(function)


@dataclass(frozen=True)
class Model:
    """A model of lm-eval, and how it is asked.

    name, arguments: as the results name it. make: makes it. options: of `lm_eval.evaluate`. generation: what was told
    beside the tasks' own settings of generation. seeds: of random, numpy and torch.
    """

    name: str
    arguments: Mapping[str, Any]
    make: Callable[[], Any]
    options: Mapping[str, Any] = field(default_factory=dict)
    generation: Mapping[str, Any] = field(default_factory=dict)
    seeds: Sequence[int | None] = (0, 1234, 1234)

    @cached_property
    def answering(self) -> Any:
        """lm-eval's model, made when it is first asked: its weights may take minutes to load."""
        return self.make()


def named_model(arguments: Sequence[str], tasks: Sequence[str], metadata: Mapping[str, Any]) -> Model:
    """The model that options of `lm_eval run` describe: --model, --model_args, --apply_chat_template and so on.

    tasks, metadata: what it is to be asked, see `load_tasks`.

    Raises MedfaithError for options that lm-eval or this package refuses, also for these tasks (`preflight.check`).
    """
    from lm_eval._cli import HarnessCLI
    from lm_eval.api.registry import get_model
    from lm_eval.config.evaluate_config import EvaluatorConfig

    register_models()
    with _arguments(["lm_eval", "run", *arguments, "--tasks", ",".join(tasks)]), _told_by_lm_eval():
        config = EvaluatorConfig.from_cli(HarnessCLI().parse_args())
    _refuse_blind_caches(config)
    preflight.check(config, metadata)
    made = get_model(config.model)
    told = {name: getattr(config, name) for name in ("batch_size", "max_batch_size", "device")}
    options = {
        name: value
        for name in ("apply_chat_template", "fewshot_as_multiturn", "system_instruction", "confirm_run_unsafe_code")
        if (value := getattr(config, name)) is not None
    }
    seeds = cast(Any, config.seed)[:3]  # a list, though lm-eval calls it a number
    make = partial(cast(Any, made).create_from_arg_obj, dict(config.model_args), told)
    return Model(config.model, config.model_args, make, options, config.gen_kwargs or {}, seeds)


def reference_model(name: str, **arguments: Any) -> Model:
    """A model of this package that needs no weights, such as a baseline."""
    from lm_eval.api.registry import get_model

    register_models()
    return Model(name, arguments, partial(cast(Any, get_model(name)), **arguments))


def load_tasks(task: str, metadata: Mapping[str, Any]) -> Any:
    """What lm-eval loads of a task or a group.

    metadata: what the tasks take: data, roots and so on (tasks.rows.load).
    """
    from lm_eval.tasks import TaskManager

    logging.getLogger("lm_eval").setLevel(logging.ERROR)
    # lm-eval reads every YAML file of the folder that it is given, so it gets the benchmark's own.
    own = next((path for path in include_path().iterdir() if task.startswith(f"medfaith_{path.name}")), include_path())
    return TaskManager(include_path=str(own), include_defaults=False, metadata=dict(metadata)).load([task])


def answer(loaded: Any, model: Model, logs: Path | None = None) -> dict[str, Any]:
    """lm-eval's results of a model on the tasks of `load_tasks`.

    logs: where to keep results and sample logs, as lm-eval writes them; by default nowhere.
    """
    import lm_eval

    evaluate: Any = lm_eval.evaluate  # its decorator hides its signature from type checkers
    for task in loaded["tasks"].values():
        if model.generation and task.get_config("output_type") == "generate_until":
            task.set_config(key="generation_kwargs", value=dict(model.generation), update=True)
    _seed(model.seeds)
    asked = model.answering
    with _quick_collections(), _shown_rows(), _known_sources():
        result = evaluate(asked, task_dict=loaded, bootstrap_iters=0, log_samples=logs is not None, **model.options)
    if logs is not None:
        told = {"model": model.name, "model_args": dict(model.arguments), "gen_kwargs": dict(model.generation)}
        told |= {"usage": asked.used()} if hasattr(asked, "used") else {}
        system = {"system_instruction": model.options.get("system_instruction")}
        _log(result | system | {"config": told}, logs)
    return result


def run_baselines(
    task: str,
    metadata: Mapping[str, Any],
    models: Mapping[str, tuple[str, Mapping[str, Any]]] | None = None,
    logs: Path | None = None,
) -> dict[str, dict[str, Any]]:
    """lm-eval's results of each model on `task` (a task or a group), which is loaded once.

    Args:
        metadata: see `load_tasks`.
        models: name -> model and its arguments; by default every baseline, without arguments.
        logs: where to keep each model's results and sample logs, as lm-eval writes them, in a folder of the model's
            name; by default nowhere.
    """
    chosen = models or {name: (name, {}) for name in BASELINES}
    results = {}
    with contextlib.redirect_stderr(io.StringIO()):
        loaded = load_tasks(task, metadata)
    # lm-eval shows a bar for every model and task; one over the models says as much.
    for name, (model, arguments) in Progress(chosen.items(), title="asking the models", unit="models"):
        with contextlib.redirect_stderr(io.StringIO()):
            result = answer(loaded, reference_model(model, **arguments), None if logs is None else logs / model)
        results[name] = {k: result[k] for k in ("results", "n-samples", "versions")}
    return results


def _seed(seeds: Sequence[int | None]) -> None:
    """As lm-eval does before a run. torch is seeded only where a model has imported it."""
    of_python, of_numpy, of_torch = seeds
    if of_python is not None:
        random.seed(of_python)
    if of_numpy is not None:
        np.random.seed(of_numpy)  # noqa: NPY002 - what models draw from
    if of_torch is not None and "torch" in sys.modules:
        sys.modules["torch"].manual_seed(of_torch)


def _log(result: dict[str, Any], folder: Path) -> None:
    """Writes one run's `results_<date>.json` and sample logs to `folder`, as `lm_eval run --log_samples` does."""
    from lm_eval.loggers import EvaluationTracker

    samples = result.pop("samples")
    # Without the file's name lm-eval would make up a folder for a model that is not `pretrained`.
    output = str(folder / "results.json")
    with saved(output):
        tracker = EvaluationTracker(output_path=output)
        tracker.save_results_aggregated(results=result, samples=samples)
        for task, of_task in samples.items():
            tracker.save_results_samples(task_name=task, samples=of_task)


def task_names() -> list[str]:
    """Names of all tasks and groups of this package, as lm-eval lists them."""
    return sorted(task_index())
