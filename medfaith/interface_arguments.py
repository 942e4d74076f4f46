"""Convert the arguments of the Python interface to those of the command line."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medfaith.loaders.errors import InputError, MedfaithError

if TYPE_CHECKING:
    from lm_eval.api.model import LM

    from medfaith.tasks.models.function_lm import AnswerFunction
    from medfaith.tasks.run import Model

PathLike = str | os.PathLike[str]
Roots = Mapping[str, PathLike]


def resolve_roots(roots: Roots | None) -> dict[str, Path]:
    """Resolve the folders of all sources: those named here, the environment's, and the user's settings.

    Args:
        roots: Source -> its folder.

    Returns:
        Source -> its folder.
    """
    from medfaith.loaders import sources

    named_roots = {source_id: os.fspath(root) for source_id, root in (roots or {}).items()}
    return sources.resolve_roots(named_roots, environ=os.environ, config=sources.find_user_config())


def collect_metadata(
    function: str,
    model: str | LM | AnswerFunction,
    model_args: str | Mapping[str, Any],
    data: PathLike,
    roots: Roots | None,
    settings: Mapping[str, Any],
    lm_eval_options: Mapping[str, Any],
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Collect the metadata of the tasks, and split further options of medfaith from those of lm-eval.

    The metadata record the call. It has the arguments of a model in the command line's form, in which secrets are
    masked.

    Args:
        function: Name of the function of the interface.
        model: A model type, an instance or a function.
        model_args: Arguments of a model type.
        data: Folder or repository of the data sets.
        roots: Source -> its folder.
        settings: Options that the function names.
        lm_eval_options: Its further options.

    Returns:
        The metadata, and the options that lm-eval takes.
    """
    from medfaith import eval as evaluation

    further = {name: value for name, value in lm_eval_options.items() if name in evaluation.FURTHER}
    options = {**settings, **further, "data": os.fspath(data)}
    given = {name: value for name, value in options.items() if value not in (None, False, "all")}
    call = ", ".join(f"{name}={value!r}" for name, value in given.items())
    arguments = f", model_args='{_format_arguments(model_args)}'" if model_args else ""
    command = f"medfaith.{function}({name_type(model)!r}{arguments}, {call})"
    named_roots = {source_id: os.fspath(root) for source_id, root in (roots or {}).items()}
    metadata = evaluation.collect_metadata(options, named_roots, command)
    return metadata, {name: value for name, value in lm_eval_options.items() if name not in further}


def _format_arguments(model_args: str | Mapping[str, Any]) -> str:
    if isinstance(model_args, str):
        return model_args
    return ",".join(f"{name}={value}" for name, value in model_args.items())


def name_type(model: str | LM | AnswerFunction) -> str:
    """Name the type of a model.

    Args:
        model: A model type, an instance or a function.

    Returns:
        The model type, or the name of the function or class.
    """
    return model if isinstance(model, str) else getattr(model, "__name__", type(model).__name__)


def make_model(
    model: str | LM | AnswerFunction,
    model_args: str | Mapping[str, Any],
    lm_eval_options: Mapping[str, Any],
    tasks: Sequence[str],
    metadata: Mapping[str, Any],
    store: str | None,
    answers: Path | None,
) -> Model:
    """Make the model that answers, or wrap an instance.

    Args:
        model: A model type, an instance or a function.
        model_args: Arguments of a model type.
        lm_eval_options: Options of `lm_eval run`.
        tasks: Tasks that the model will answer.
        metadata: Their metadata.
        store: Folder for heatmaps.
        answers: Folder for kept answers.

    Returns:
        The model.

    Raises:
        MedfaithError: An option is unknown or does not fit.
    """
    from medfaith import eval as evaluation
    from medfaith.tasks.run import MODEL_OPTIONS, build_model, wrap_model

    if not isinstance(model, str):
        if model_args:
            action = "leave model_args out, or name the type of the model"
            raise MedfaithError(f"model_args: the model exists already\n  what to do: {action}")
        path = None if answers is None else answers / "answers.sqlite"
        return wrap_model(model, metadata.get("model_name"), path, **lm_eval_options)
    if unknown := sorted({*lm_eval_options} - {*MODEL_OPTIONS}):
        raise InputError(f"option {unknown[0]}", "is unknown", expected=f"one of {', '.join(MODEL_OPTIONS)}")
    arguments = ["--model", model, *_iterate_arguments({"model_args": model_args or None, **lm_eval_options})]
    arguments = evaluation.with_host(evaluation.with_store(arguments, store, answers), metadata)
    return build_model(arguments, tasks, metadata)


def _iterate_arguments(options: Mapping[str, Any]) -> Iterator[str]:
    """Iterate over options in the form of lm-eval's command line. None and False leave an option out."""
    for name, value in options.items():
        if value is None or value is False:
            continue
        yield f"--{name}"
        if value is not True:
            yield json.dumps(dict(value)) if isinstance(value, Mapping) else str(value)
