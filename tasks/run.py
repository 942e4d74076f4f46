"""Runs lm-eval with medfaith's tasks and models, and refuses caches that ignore the image."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from tqdm import tqdm

from ..loaders.errors import MedfaithError
from . import BASELINES, EXPLAINED, include_path, preflight, register_models

NEED_AN_IMAGE = ("hf-multimodal", "vllm-vlm", *(name for name in EXPLAINED if name not in BASELINES))
OURS = {
    "--metadata": "its own options, such as --data, --root, --control and --model_name (medfaith eval --help)",
    "--include_path": "lm_eval itself, with your own path",
}


def run_lm_eval(arguments: Sequence[str], metadata: Mapping[str, Any]) -> list[Path]:
    """`lm_eval run ARGUMENTS` in this process, with medfaith's tasks and models registered.

    Returns the sample logs that it wrote, none without --log_samples.

    Raises MedfaithError for arguments that lm-eval or this package refuses.
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
        try:
            config = EvaluatorConfig.from_cli(HarnessCLI().parse_args())
            _refuse_no_image(config.model, metadata.get("control"))
        except (ValueError, KeyError, FileNotFoundError) as error:
            raise MedfaithError(f"lm_eval: {error.args[0] if error.args else error}") from error
        _refuse_blind_caches(config)
        preflight.check(config, metadata)
        before = _sample_logs(config.output_path)
        try:
            cli_evaluate()
        except ValueError as error:
            if not str(error).startswith(("Tasks not found", "No tasks specified")):
                raise
            raise MedfaithError(f"lm_eval: {error}\n  what to do: medfaith tasks --list") from error
    first = os.environ.get("RANK", "0") == "0"  # of the processes of accelerate, the one that writes
    return sorted(_sample_logs(config.output_path) - before) if first else []


def _sample_logs(output: str | None) -> set[Path]:
    """Those below lm-eval's --output_path, a folder or the name of a JSON file in one."""
    if output is None:
        return set()
    folder = Path(output).parent if output.endswith(".json") else Path(output)
    return {*folder.rglob("samples_*.jsonl")}


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
        raise MedfaithError(
            f"--control none: the model type {model} cannot answer without an image\n"
            "  what to do: use --control blank, or --model medfaith-hf-vlm"
        )


@contextlib.contextmanager
def _arguments(argv: list[str]) -> Iterator[None]:
    """lm-eval's command reads sys.argv and takes no other."""
    before = sys.argv
    sys.argv = argv
    try:
        yield
    finally:
        sys.argv = before


def run_baselines(
    task: str,
    metadata: Mapping[str, Any],
    models: Mapping[str, tuple[str, Mapping[str, Any]]] | None = None,
    logs: Path | None = None,
) -> dict[str, dict[str, Any]]:
    """lm-eval's results of each model on `task` (a task or a group), which is loaded once.

    Args:
        metadata: what the tasks take: data, roots and so on (tasks.rows.load).
        models: name -> model and its arguments; by default every baseline, without arguments.
        logs: where to keep each model's results and sample logs, as lm-eval writes them, in a folder of the model's
            name; by default nowhere.
    """
    import lm_eval
    from lm_eval.api.registry import get_model
    from lm_eval.tasks import TaskManager

    register_models()
    logging.getLogger("lm_eval").setLevel(logging.ERROR)
    chosen = models or {name: (name, {}) for name in BASELINES}
    manager = TaskManager(include_path=str(include_path()), include_defaults=False, metadata=dict(metadata))
    evaluate: Any = lm_eval.evaluate  # its decorator hides its signature from type checkers
    results = {}
    with contextlib.redirect_stderr(io.StringIO()):
        loaded = manager.load([task])
    # lm-eval shows a bar for every model and task; one over the models says as much, on a terminal only.
    for name, (model, arguments) in tqdm(chosen.items(), desc="models", disable=None, leave=False, file=sys.stderr):
        with contextlib.redirect_stderr(io.StringIO()):
            answering = cast(Any, get_model(model))(**arguments)
            result = evaluate(answering, task_dict=loaded, bootstrap_iters=0, log_samples=logs is not None)
        if logs is not None:
            _log(result | {"config": {"model": model, "model_args": dict(arguments)}}, logs / model)
        results[name] = {k: result[k] for k in ("results", "n-samples", "versions")}
    return results


def _log(result: dict[str, Any], folder: Path) -> None:
    """Writes one run's `results_<date>.json` and sample logs to `folder`, as `lm_eval run --log_samples` does."""
    from lm_eval.loggers import EvaluationTracker

    samples = result.pop("samples")
    # Without the file's name lm-eval would make up a folder for a model that is not `pretrained`.
    tracker = EvaluationTracker(output_path=str(folder / "results.json"))
    tracker.save_results_aggregated(results=result, samples=samples)
    for task, of_task in samples.items():
        tracker.save_results_samples(task_name=task, samples=of_task)


def task_names() -> list[str]:
    """Names of all tasks and groups of this package, as lm-eval lists them."""
    from lm_eval.tasks import TaskManager

    manager = TaskManager(include_path=str(include_path()), include_defaults=False)
    return sorted(manager.all_tasks)
