"""Running lm-eval with medfaith's tasks and models. Caches that ignore the image are refused."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import random
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any, cast

import numpy as np

from ..loaders.errors import InputError, MedfaithError
from ..loaders.progress import Progress
from ..loaders.secrets import MASK, is_secret, mask_arguments
from . import BASELINES, EXPLAINED, LOOKING, include_path, lm_eval_internals, preflight, register_models, shard_marker
from .controls import needs_an_image
from .index import drop_repeats, is_complete, task_index
from .result_saving import output_folder, saved
from .shards import Shard, asking, refuse

NEED_AN_IMAGE = ("hf-multimodal", "vllm-vlm", *(name for name in EXPLAINED if name not in BASELINES | LOOKING))
PREFIX = "medfaith_"  # begins the name of every task of this package
# Options of `lm_eval.evaluate` that change the prompts.
PROMPT_OPTIONS = ("apply_chat_template", "fewshot_as_multiturn", "system_instruction", "confirm_run_unsafe_code")
# Options of `lm_eval run` that `build_model` uses.
MODEL_OPTIONS = ("batch_size", "max_batch_size", "device", "gen_kwargs", "seed", "trust_remote_code", *PROMPT_OPTIONS)
OURS = {
    "--metadata": "its own options, such as --data, --root, --control and --model_name (medfaith eval --help)",
}


def run_lm_eval(
    arguments: Sequence[str],
    metadata: Mapping[str, Any],
    format_results: Callable[[Mapping[str, Any]], str],
    shard: Shard | None = None,
) -> list[Path]:
    """Run `lm_eval run ARGUMENTS` in this process, with medfaith's tasks and models registered.

    Args:
        arguments: The arguments of `lm_eval run`.
        metadata: The metadata of the tasks.
        format_results: Formats lm-eval's results in place of its own table if all tasks are medfaith's and no sample
            log is kept. If sample logs are kept, no table is printed.
        shard: The shard of the patients to evaluate. A marker is written last. By default all patients are evaluated.

    Returns:
        The paths of the new sample logs of medfaith's tasks; none without --log_samples.

    Raises:
        MedfaithError: lm-eval or this package refuses the arguments, or results could not be saved.
    """
    for option, instead in OURS.items():
        if any(argument.split("=", 1)[0] == option for argument in arguments):
            raise MedfaithError(f"{option}: medfaith eval sets it\n  what to do: use {instead}")
    register_models()
    options = lm_eval_internals.parse_options([*arguments, "--metadata", json.dumps(metadata)])
    own_tasks = _require_folder(options.include_path)
    options.include_path = [str(path) for path in (include_path(), own_tasks) if path is not None]
    _refuse_no_rows(options.samples)
    with _convert_errors():
        config = lm_eval_internals.read_config(options)
        _refuse_no_image(config.model, metadata.get("control"))
    _refuse_blind_caches(config)
    _refuse_secrets(config.model_args)
    if shard is not None:
        refuse(config, metadata, shard, ours=_all_ours(config.tasks))
    preflight.check(config, metadata, own_tasks)
    options.tasks = ",".join(drop_repeats(config.tasks, own_tasks))
    try:
        with saved(config.output_path) as saved_paths, contextlib.ExitStack() as patches:
            rows = patches.enter_context(asking(shard)) if shard is not None else {}
            patches.enter_context(lm_eval_internals.collect_less_garbage())
            patches.enter_context(lm_eval_internals.wrap_rows(_show_progress))
            if is_complete(config.tasks, own_tasks):
                patches.enter_context(lm_eval_internals.skip_lm_evals_tasks())
            if own_tasks is None and _all_ours(config.tasks):
                table = (lambda _: "") if config.log_samples else format_results
                patches.enter_context(lm_eval_internals.replace_table(table))
            lm_eval_internals.run_command(options)
    except ValueError as error:
        if not str(error).startswith(("Tasks not found", "No tasks specified")):
            raise
        raise MedfaithError(f"lm_eval: {error}\n  what to do: medfaith tasks --list") from error
    folder = output_folder(config.output_path)
    if shard is not None and folder is not None and saved_paths:  # only one process of accelerate writes
        shard_marker.write(folder, shard, shard_marker.asked(config, metadata), rows, saved_paths)
        print(
            f"medfaith: shard {shard} has ended in {folder}; medfaith merge puts the shards together", file=sys.stderr
        )
    return sorted(path for path in saved_paths if path.name.startswith(f"samples_{PREFIX}"))


def describe_dry_run(arguments: Sequence[str], metadata: Mapping[str, Any], shard: Shard | None = None) -> str:
    """Describe what `run_lm_eval` would send to a server. The model is in a dry run, and nothing is saved.

    Args:
        arguments: The arguments of `lm_eval run`.
        metadata: The metadata of the tasks.
        shard: The shard to evaluate.

    Returns:
        Requests, images, tokens and price, in several lines.

    Raises:
        MedfaithError: As in `run_lm_eval`.
    """
    from .models.server.usage import DryRunEnd

    try:
        run_lm_eval(arguments, metadata, lambda results: "", shard)
    except DryRunEnd as end:
        return str(end)
    raise AssertionError("the model was not in a dry run")


def _require_folder(path: str | None) -> Path | None:
    """Require that --include_path, if it is given, is a folder of tasks."""
    if path is None:
        return None
    folder = Path(path).expanduser()
    if not folder.is_dir():
        action = "name the folder of your YAML files, each of which includes one of medfaith's (medfaith tasks)"
        raise InputError(f"--include_path {path}", "is no folder", action=action)
    return folder


@contextlib.contextmanager
def _convert_errors() -> Iterator[None]:
    """Raise lm-eval's errors about wrong options as MedfaithError, with what to do."""
    try:
        yield
    except (ValueError, KeyError, TypeError, FileNotFoundError) as error:
        action = "correct the options; lm_eval run --help describes them"
        if isinstance(error, FileNotFoundError):
            action = "correct the path of --config"
        message = error.args[0] if error.args else error
        raise MedfaithError(f"lm_eval: {message}\n  what to do: {action}") from error


def _refuse_no_rows(samples: Any) -> None:
    """Refuse --samples {}, which lm-eval takes for all rows."""
    if samples is not None and not samples:
        action = "name the rows, or leave it out to ask all rows"
        raise InputError("--samples", f"is {samples!r}", expected='{"TASK": [0, 7]}', action=action)


def _refuse_secrets(model_arguments: Mapping[str, Any]) -> None:
    """Raise InputError for a key among the arguments of the model: lm-eval prints them, and results hold them."""
    for name, value in mask_arguments(model_arguments).items():
        if value == MASK and is_secret(name):
            raise InputError(
                f"--model_args {name}",
                "is a secret, which lm-eval would print and write to the results",
                expected="a variable of the environment",
                action=f"set OPENAI_API_KEY for a server, HF_TOKEN for the Hub, and leave {name} out",
            )


def _refuse_blind_caches(config: Any) -> None:
    """Refuse lm-eval's caches. Their keys are the prompt without its image, or the request without its data."""
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
    """Refuse the control `none` for models that cannot answer without an image."""
    if control == "none" and model in NEED_AN_IMAGE:
        raise needs_an_image(f"the model type {model}")


def _all_ours(tasks: str | Sequence[str]) -> bool:
    """Return whether all requested tasks are medfaith's."""
    names = tasks.split(",") if isinstance(tasks, str) else [name for word in tasks for name in word.split(",")]
    return all(name.startswith(PREFIX) for name in names)


def _show_progress(rows: Iterable[Any], *, task: str, activity: str, total: int, rank: int) -> Progress:
    """Show progress while lm-eval reads and scores rows, which takes as long as the answers if there are heatmaps."""
    return Progress(rows, title=f"{activity} rows of {task}", total=total, unit="rows", quiet=rank != 0)


@dataclass(frozen=True)
class Model:
    """An lm-eval model and the settings of its answers.

    Attributes:
        name: The model type, as lm-eval's results name it.
        arguments: The model arguments, as lm-eval's results name them.
        make: Creates the model.
        options: Options of `lm_eval.evaluate`.
        generation: Generation settings that override those of the tasks.
        seeds: The seeds of random, numpy and torch.
    """

    name: str
    arguments: Mapping[str, Any]
    make: Callable[[], Any]
    options: Mapping[str, Any] = field(default_factory=dict)
    generation: Mapping[str, Any] = field(default_factory=dict)
    seeds: Sequence[int | None] = (0, 1234, 1234)

    @cached_property
    def answering(self) -> Any:
        """lm-eval's model, created on first access: its weights may take minutes to load."""
        return self.make()


def build_model(arguments: Sequence[str], tasks: Sequence[str], metadata: Mapping[str, Any]) -> Model:
    """Build the model that options of `lm_eval run` describe: --model, --model_args, --apply_chat_template and so on.

    Args:
        arguments: The options.
        tasks: The tasks that the model will answer (`load_tasks`).
        metadata: The metadata of these tasks.

    Returns:
        The model, not loaded yet, with its arguments and prompt options.

    Raises:
        MedfaithError: lm-eval or this package refuses the options for these tasks (`preflight.check`).
    """
    from lm_eval.api.registry import get_model

    register_models()
    run_options = lm_eval_internals.parse_options([*arguments, "--tasks", ",".join(tasks)])
    with _convert_errors():
        config = lm_eval_internals.read_config(run_options)
    _refuse_no_image(config.model, metadata.get("control"))
    _refuse_blind_caches(config)
    preflight.check(config, metadata)
    model_class = get_model(config.model)
    settings = {name: getattr(config, name) for name in ("batch_size", "max_batch_size", "device")}
    options = {name: value for name in PROMPT_OPTIONS if (value := getattr(config, name)) is not None}
    seeds = cast(Any, config.seed)[:3]  # lm-eval's type says a number, but the value is a list
    make = partial(cast(Any, model_class).create_from_arg_obj, dict(config.model_args), settings)
    return Model(config.model, config.model_args, make, options, config.gen_kwargs or {}, seeds)


def wrap_model(model: Any, name: str | None = None, answers: Path | None = None, **options: Any) -> Model:
    """Wrap an instance of lm-eval's LM that exists already, or a function of images and a text.

    Args:
        model: The instance or the function.
        name: Its name in results and tables; by default the name of its class or function.
        answers: File that keeps the answers of a function; None keeps none.
        options: Options of `lm_eval.evaluate` that change the prompts, such as apply_chat_template=True; and
            gen_kwargs, the generation settings that override those of the tasks.

    Returns:
        The model.

    Raises:
        MedfaithError: Another option, or a model that takes no images.
    """
    from lm_eval.api.model import LM

    from .models.function_lm import FunctionLM, name_function

    if callable(model) and not isinstance(model, LM):
        name, model = name or name_function(model), FunctionLM(cast(Any, model), answers)
    if not getattr(model, "MULTIMODAL", False):
        action = "read the images of request.args[2]['visual'], and set MULTIMODAL = True in its class (docs/python.md)"
        raise MedfaithError(f"{type(model).__name__}: takes no images\n  what to do: {action}")
    generation = options.pop("gen_kwargs", {})
    if unknown := sorted({*options} - {*PROMPT_OPTIONS}):
        action = f"leave it out; options of an instance are {', '.join((*PROMPT_OPTIONS, 'gen_kwargs'))}"
        raise MedfaithError(f"{unknown[0]}: does not apply to a model that exists already\n  what to do: {action}")
    return Model(name or type(model).__name__, {}, lambda: model, options, generation)


def build_reference_model(name: str, **arguments: Any) -> Model:
    """Build a model of this package that needs no weights, such as a baseline.

    Args:
        name: The model type.
        arguments: The model arguments.

    Returns:
        The model, not created yet, with its arguments.
    """
    from lm_eval.api.registry import get_model

    register_models()
    return Model(name, arguments, partial(cast(Any, get_model(name)), **arguments))


def load_tasks(task: str | Sequence[str], metadata: Mapping[str, Any]) -> Any:
    """Load tasks or groups with lm-eval.

    Args:
        task: The name of a task or group, or several.
        metadata: The metadata of the tasks: data, roots and so on (`tasks.rows.load`).

    Returns:
        lm-eval's dictionary of loaded tasks and groups.
    """
    from lm_eval.tasks import TaskManager

    logging.getLogger("lm_eval").setLevel(logging.ERROR)
    names = [task] if isinstance(task, str) else [*task]
    # lm-eval reads every YAML file of its include path. The folder of the benchmark has the fewest.
    folders = {_find_task_folder(name) for name in names}
    folder = folders.pop() if len(folders) == 1 else include_path()
    return TaskManager(include_path=str(folder), include_defaults=False, metadata=dict(metadata)).load(names)


def _find_task_folder(task: str) -> Path:
    return next((path for path in include_path().iterdir() if task.startswith(f"medfaith_{path.name}")), include_path())


def answer(loaded: Any, model: Model, logs: Path | None = None, limit: int | None = None) -> dict[str, Any]:
    """Evaluate a model on the tasks of `load_tasks`.

    Args:
        loaded: The result of `load_tasks`.
        model: The model.
        logs: The folder for results and sample logs in lm-eval's form; by default nothing is written.
        limit: The number of rows of each task; by default all.

    Returns:
        lm-eval's results.
    """
    import lm_eval

    evaluate: Any = lm_eval.evaluate  # its decorator hides its signature from type checkers
    for task in loaded["tasks"].values():
        if model.generation and task.get_config("output_type") == "generate_until":
            task.set_config(key="generation_kwargs", value=dict(model.generation), update=True)
    _set_seeds(model.seeds)
    language_model = model.answering
    with (
        lm_eval_internals.collect_less_garbage(),
        lm_eval_internals.wrap_rows(_show_progress),
        lm_eval_internals.cache_function_sources(),
        lm_eval_internals.keep_samples(),
    ):
        result = evaluate(
            language_model, task_dict=loaded, bootstrap_iters=0, log_samples=logs is not None, limit=limit,
            **model.options,
        )  # fmt: skip
    if logs is not None:
        config = {
            "model": model.name,
            "model_args": mask_arguments(model.arguments),
            "gen_kwargs": dict(model.generation),
        }
        config |= {"usage": language_model.used()} if hasattr(language_model, "used") else {}
        system = {"system_instruction": model.options.get("system_instruction")}
        _log(result | system | {"config": config}, logs)
    return result


def run_baselines(
    task: str,
    metadata: Mapping[str, Any],
    models: Mapping[str, tuple[str, Mapping[str, Any]]] | None = None,
    logs: Path | None = None,
) -> dict[str, dict[str, Any]]:
    """Evaluate several models on a task or a group, which is loaded once.

    Args:
        task: The name of the task or group.
        metadata: As in `load_tasks`.
        models: Name -> model type and its arguments; by default every baseline, without arguments.
        logs: The folder for results and sample logs, with one subfolder for each model type; by default nothing is
            written.

    Returns:
        Name -> results, numbers of samples and versions.
    """
    models_by_name = models or {name: (name, {}) for name in BASELINES}
    results = {}
    with contextlib.redirect_stderr(io.StringIO()):
        loaded = load_tasks(task, metadata)
    # lm-eval's own bars, one for every model and task, are hidden: one bar over the models is enough.
    for name, (model, arguments) in Progress(models_by_name.items(), title="asking the models", unit="models"):
        with contextlib.redirect_stderr(io.StringIO()):
            result = answer(loaded, build_reference_model(model, **arguments), None if logs is None else logs / model)
        results[name] = {k: result[k] for k in ("results", "n-samples", "versions")}
    return results


def _set_seeds(seeds: Sequence[int | None]) -> None:
    """Set the seeds as lm-eval does before a run. torch is seeded only if it is imported."""
    python_seed, numpy_seed, torch_seed = seeds
    if python_seed is not None:
        random.seed(python_seed)
    if numpy_seed is not None:
        np.random.seed(numpy_seed)  # noqa: NPY002 - models use the global generator
    if torch_seed is not None and "torch" in sys.modules:
        sys.modules["torch"].manual_seed(torch_seed)


def _log(result: dict[str, Any], folder: Path) -> None:
    """Write `results_<date>.json` and sample logs of one run to `folder`, as `lm_eval run --log_samples` does."""
    from lm_eval.loggers import EvaluationTracker

    samples = result.pop("samples")
    # With a folder, lm-eval would add a subfolder for a model that is not `pretrained`.
    output = str(folder / "results.json")
    with saved(output):
        tracker = EvaluationTracker(output_path=output)
        tracker.save_results_aggregated(results=result, samples=samples)
        for task, task_samples in samples.items():
            tracker.save_results_samples(task_name=task, samples=task_samples)


def list_task_names() -> list[str]:
    """List the names of all tasks and groups of this package, as lm-eval lists them."""
    return sorted(task_index())
