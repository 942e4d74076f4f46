"""Checks before a model is loaded: a run that cannot work, or that would cut or reorder its images, is refused.

`check` inspects lm-eval's parsed options and reads the rows of the selected tasks. It loads no model.
"""

from __future__ import annotations

import difflib
import importlib.util
import os
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import requests

from ..loaders import images, sources
from ..loaders.errors import InputError, MedfaithError
from ..loaders.secrets import refuse_url_secret
from . import BASELINES, BATCH, SERVER
from .hub_access import can_reach_hub, is_cached, is_path
from .index import Task, select_tasks
from .model_files import check_loadable, check_model, read_model_type
from .model_types import ENCODER_DECODERS, KINDS, OURS_TO_LOAD, Kind, make_score_error

_KEEPS_ALL = "--model medfaith-hf-vlm, which keeps all images"
_NEEDED_BY = {  # model argument with a value -> package that the argument needs
    "peft": "peft",
    "load_in_4bit": "bitsandbytes",
    "load_in_8bit": "bitsandbytes",
}
LETTERS = "medfaith_contrabench_letter_scores"
_ELSEWHERE = {"device": "--device", "batch_size": "--batch_size", "max_batch_size": "--max_batch_size"}


def check(config: Any, metadata: Mapping[str, Any], own_tasks: Path | None = None) -> None:
    """Refuse a run that cannot work or would cut or reorder images; warn if a chat template is left out.

    The slowest checks come last: the class of the model type may import torch.

    Args:
        config: lm-eval's EvaluatorConfig.
        metadata: The metadata of medfaith's tasks (`tasks.rows.load`).
        own_tasks: The folder of the user's own tasks.

    Raises:
        MedfaithError: A check failed. The message says what to do.
    """
    kind, model_args = KINDS.get(config.model, Kind()), dict(config.model_args)
    for name, value in model_args.items():
        refuse_url_secret(str(value), f"--model_args {name}")
    _check_known(config.model)
    _check_options(config, kind, model_args)
    _check_chosen_rows(config.limit, config.samples)
    _check_packages(config.model, kind, model_args)
    if kind.client:
        _check_client(config, kind, model_args)
    if kind.loads:
        check_model(config, model_args)
    tasks = select_tasks(config.tasks, own_tasks)  # the imports from here on take seconds
    if tasks and config.num_fewshot:
        action = "leave it out; the groups medfaith_contrabench_3shot and _3shot_images ask with the paper's examples"
        raise MedfaithError(f"--num_fewshot {config.num_fewshot}: medfaith's tasks ignore it\n  what to do: {action}")
    if kind.loads and (model_type := read_model_type(model_args)) in ENCODER_DECODERS:
        _check_encoder_decoder(config.model, str(model_type), tasks)
        kind = kind._replace(max_images=1)
    if not kind.scores:
        _check_scores(config.model, tasks)
    _check_rows(config.model, kind, model_args, tasks, metadata)
    if config.samples:
        _check_samples(config, tasks, metadata)
    if tasks:
        _check_class(config.model)
    if kind.loads:
        check_loadable(config.model, model_args)


def _check_known(model: str) -> None:
    from lm_eval.api.registry import model_registry

    if model not in model_registry:
        close = difflib.get_close_matches(model, [*KINDS], n=3)
        nearest = f"did you mean {' or '.join(close)}? " if close else ""
        raise MedfaithError(
            f"--model {model}: there is no such model type\n  what to do: {nearest}choose one of {', '.join(KINDS)}, "
            "or of lm_eval's others"
        )


def _check_options(config: Any, kind: Kind, model_args: Mapping[str, Any]) -> None:
    for name, option in _ELSEWHERE.items():
        if name in model_args:
            raise MedfaithError(f"--model_args {name}=: lm_eval has an option for it\n  what to do: use {option}")
    if "decoding" in model_args and config.model not in OURS_TO_LOAD:
        problem = f"--model_args decoding={model_args['decoding']}: --model {config.model} gives no logits of each step"
        raise MedfaithError(f"{problem}\n  what to do: use --model medfaith-hf-vlm, which loads the weights")
    size = str(config.batch_size)
    if size.startswith("auto"):
        if kind.loads:
            action = f"name a number, such as --batch_size 8 (the model type {config.model} cannot find one by itself)"
            raise InputError("--batch_size", f"is {size!r}", expected="a whole number", action=action)
    elif not size.isdigit() or int(size) < 1:
        raise InputError("--batch_size", f"is {size!r}", expected="a positive whole number, or auto")


def _check_chosen_rows(limit: float | None, samples: Any) -> None:
    """Check --limit and --samples, for which lm-eval ends in a traceback after the model is loaded, or ignores them."""
    if limit is not None and not (0 < limit < 1 or (limit >= 1 and float(limit).is_integer())):
        expected = "a whole number of rows from 1 on, or a share of them between 0 and 1"
        raise InputError("--limit", f"is {limit:g}", expected=expected, action="leave it out to ask all rows")
    if samples is None:
        return
    rows_by_task = samples if isinstance(samples, dict) else {}
    if not rows_by_task or not all(
        isinstance(rows, list) and rows and all(type(row) is int and row >= 0 for row in rows)
        for rows in rows_by_task.values()
    ):
        expected = '{"TASK": [0, 7]}: for each task the numbers of its rows, from 0 on; or a file with that'
        raise InputError(
            "--samples", f"is {samples!r}"[:100], expected=expected, action="correct it, or use --limit or --rows"
        )


def _check_samples(config: Any, tasks: Sequence[Task], metadata: Mapping[str, Any]) -> None:
    """Check that --samples names tasks of the run, and rows that they have."""
    from .row_store import read

    if metadata.get("row_ids"):
        raise InputError("--samples", "chooses rows, and so does --rows", action="leave one of them out")
    tasks_by_name = {task.name: task for task in tasks}
    for name, numbers in config.samples.items():
        task = tasks_by_name.get(name)
        if task is None and name not in config.tasks:
            expected = ", ".join(sorted(tasks_by_name)) or ", ".join(config.tasks)
            raise InputError("--samples", f"{name} is no task of --tasks", expected=expected)
        if task is not None:
            spec = task.rows
            n_rows = read(spec["repository"], spec["config"], spec["split"], metadata.get("data"), "all").num_rows
            if max(numbers) >= n_rows:
                problem = f"{name} has no row {max(numbers)}"
                raise InputError("--samples", problem, expected=f"0 to {n_rows - 1}", action="correct the numbers")


def _read_number(model_args: Mapping[str, Any], name: str, default: int = 0) -> int:
    value = model_args.get(name, default)
    if not isinstance(value, int) or value < 0:
        raise InputError(f"--model_args {name}", f"is {value!r}", expected="a whole number, 0 or more")
    return value


def _check_packages(model: str, kind: Kind, model_args: Mapping[str, Any]) -> None:
    needed = dict.fromkeys(kind.packages, kind.install)
    needed |= {package: f"pip install {package}" for name, package in _NEEDED_BY.items() if model_args.get(name)}
    if model == "vllm-vlm" and _read_number(model_args, "data_parallel_size", 1) > 1:
        needed["ray"] = "pip install ray"
    missing = [package for package in needed if importlib.util.find_spec(package) is None]
    if missing:
        install = "; ".join(dict.fromkeys(needed[package] for package in missing))
        raise MedfaithError(f"--model {model}: needs {', '.join(missing)}, not installed here\n  what to do: {install}")


def _check_client(config: Any, kind: Kind, model_args: Mapping[str, Any]) -> None:
    """Check a client: its key, its address, its server and the form of its requests."""
    where = f"--model {config.model}"
    if kind.key and not os.environ.get(kind.key):
        raise MedfaithError(f"{where}: no key in the environment\n  what to do: set {kind.key}")
    if not (model_args.get("model") or model_args.get("pretrained")) and not config.model.startswith("azure"):
        raise MedfaithError(f"{where}: names no model\n  what to do: --model_args model=NAME, as the server calls it")
    if not config.apply_chat_template:
        raise MedfaithError(f"{where}: sends chats only\n  what to do: add --apply_chat_template")
    url = model_args.get("base_url")
    if url is None:
        if config.model.startswith("local-"):
            action = "--model_args base_url=http://127.0.0.1:8000/v1/chat/completions, with your server's address"
            raise MedfaithError(f"{where}: names no server\n  what to do: {action}")
        return
    if config.model.startswith("local-") and str(url).rstrip("/").endswith("/v1"):
        action = f"name the full address: base_url={str(url).rstrip('/')}/chat/completions"
        raise MedfaithError(f"{where}: base_url={url} is not where chats are answered\n  what to do: {action}")
    check_server(str(url))


def check_server(url: str) -> None:
    """Require that a server listens at an address. The status of its answer to a bare request does not matter.

    Args:
        url: The base URL of the server.

    Raises:
        MedfaithError: No server listens.
    """
    try:
        requests.head(url, timeout=3, allow_redirects=False)
    except requests.exceptions.ReadTimeout:
        return
    except requests.RequestException as error:
        reason = str(getattr(error.args[0], "reason", error) if error.args else error).split(">: ")[-1]
        action = "start the server, wait until it has loaded its model, or correct base_url"
        raise MedfaithError(f"base_url={url}: no server answers ({reason})\n  what to do: {action}") from error


def check_data(data: Any) -> None:
    """Require that `data` is a folder, or can be read from the Hub as an organisation or a data set.

    Args:
        data: The option --data.

    Raises:
        InputError: `data` is neither.
    """
    if not data or Path(data).expanduser().is_dir():
        return
    action = "correct the path, or build the data: medfaith build"
    if is_path(str(data)):
        problem, expected = "there is no such folder", "what medfaith build wrote"
    elif can_reach_hub() or is_cached(str(data)):
        return
    else:
        problem = "there is no such folder, the cache of the Hub has none of its data, and the Hub cannot be reached"
        expected = "a folder that medfaith build wrote, or an organisation on the Hub that published the rows"
    raise InputError(f"--data {data}", problem, expected=expected, action=action)


def _check_encoder_decoder(model: str, model_type: str, tasks: Sequence[Task]) -> None:
    """Check that an encoder-decoder is asked for answers, by a model type that separates them from the prompt."""
    if model not in OURS_TO_LOAD:
        problem = f"takes the answers of {model_type}, an encoder-decoder, for its prompts"
        raise InputError(f"--model {model}", problem, action="use --model medfaith-hf-vlm")
    if any(task.scores for task in tasks):
        raise make_score_error(model_type)


def _check_scores(model: str, tasks: Sequence[Task]) -> None:
    for task in tasks:
        if task.scores and not (model in (SERVER, BATCH) and task.name.startswith(LETTERS)):
            action = "--model medfaith-hf-vlm, or a task that asks for an answer, such as medfaith_contrabench"
            if model in (SERVER, BATCH):
                action = f"--tasks {LETTERS}, which scores letters by the server's logprobs; or {action}"
            raise InputError(
                f"--tasks {task.name}",
                f"scores options by log-likelihood, which the model type {model} does not give with images",
                action=action,
            )


def _find_third_party(model: str, kind: Kind, model_args: Mapping[str, Any]) -> str | None:
    """Find the host outside of the user's network that one of lm-eval's clients sends to; None if it sends to none."""
    from .models.server import access as server_access

    url = model_args.get("base_url")
    host = server_access.parse_host(str(url)) if url else kind.host or model
    return host if server_access.is_third_party(host) else None


def _check_rows(
    model: str, kind: Kind, model_args: Mapping[str, Any], tasks: Sequence[Task], metadata: Mapping[str, Any]
) -> None:
    """Check that the data exist, the roots of shown images are known, and the model gets every image of each row."""
    from .contrabench.fewshot import SHOTS
    from .models.server import access as server_access
    from .row_store import read
    from .wordings import require_wording

    roots = sources.resolve_roots(metadata.get("roots"), environ=os.environ, config=sources.find_user_config())
    host = _find_third_party(model, kind, model_args) if kind.client else None
    server_access.check_named(host, metadata.get("send_images_to"))

    @cache
    def load_counts(repository: str, config: str, split: str) -> _ImageCounts:
        return _count_images(read(repository, config, split, metadata.get("data"), metadata.get("images", "all")))

    for task in tasks:
        spec = task.rows
        require_wording(metadata.get("wording", 0), spec["repository"])
        row_images = [load_counts(spec["repository"], spec["config"], spec["split"])]
        exemplars = (
            [load_counts(spec["pool_repository"], spec["pool_config"], "train")] if "pool_repository" in spec else []
        )
        if host is not None:  # the host gets the texts of exemplars, too
            source_ids = [reference["source"] for rows in [*row_images, *exemplars] for reference in rows.examples]
            server_access.check_licences(source_ids, host, metadata.get("i_have_permission", ()))
        if model in BASELINES or metadata.get("control") == "none":
            continue  # no image is shown
        prompt_images = [*row_images, *(exemplars if spec.get("exemplar_images") else [])]
        for reference in (reference for rows in prompt_images for reference in rows.examples):
            if model in KINDS and reference["source"] not in roots:
                images.locate(reference, roots)  # the error says how to name the root, or how to get access
        _check_n_images(
            model,
            kind,
            model_args,
            task,
            prompt_images[0].max_per_row + SHOTS * sum(rows.max_per_row for rows in prompt_images[1:]),
        )


class _ImageCounts(NamedTuple):
    """The largest number of images in a row, and one image of each source."""

    max_per_row: int
    examples: list[Mapping[str, str]]


def _count_images(rows: Any) -> _ImageCounts:
    """Count the images of some rows, and take one image of each source."""
    import pyarrow.compute as pc

    single = "images" not in rows.column_names
    column = rows.with_format("arrow")[:]["image" if single else "images"]
    flat = column if single else pc.call_function("list_flatten", [column])
    source = pc.struct_field(flat, "source")
    examples = [flat[source.index(name).as_py()].as_py() for name in source.unique()]
    max_per_row = 1 if single else pc.call_function("max", [pc.call_function("list_value_length", [column])]).as_py()
    return _ImageCounts(max_per_row, examples)


def _check_n_images(model: str, kind: Kind, model_args: Mapping[str, Any], task: Task, max_per_row: int) -> None:
    """Check that the model keeps all images of a prompt, and their places. A prompt has up to `max_per_row` images."""
    max_images = kind.max_images if model_args.get("max_images") is None else _read_number(model_args, "max_images")
    advice = "--images first, which shows one image of each study; or "
    expected, problem = "every image of a row, each in its place", ""
    if max_images is not None and max_images < max_per_row:
        problem = f"keeps {max_images} of the images of a prompt, and {task.name} has prompts with up to {max_per_row}"
        takes_more = kind.max_images is None or kind.max_images > 1
        advice += f"max_images={max_per_row} in --model_args; or " if takes_more else ""
    elif kind.client and max_per_row > 1:
        problem = f"puts all images before the text, and {task.name} has prompts with up to {max_per_row}"
    elif model_args.get("interleave", True) is False and task.rows.get("exemplar_images"):
        problem, advice = f"with interleave=False puts all images of {task.name} before the text", "leave it out; or "
    if problem:
        alternative = "leave max_images out" if max_images is None or kind.max_images != 1 else "take another model"
        action = advice + (_KEEPS_ALL if model != "medfaith-hf-vlm" else alternative)
        raise InputError(f"--model {model}", problem, expected=expected, action=action)


def _check_class(model: str) -> None:
    """Check that the packages of the model type can be imported, and that the model type takes images."""
    from lm_eval.api.registry import get_model

    no_images = f"--model {model}: takes no images, and the tasks have some\n  what to do: use "
    if model == "vllm":  # where it cannot be imported, an installation would not help
        raise MedfaithError(f"{no_images}vllm-vlm, or {_KEEPS_ALL}")
    try:
        model_class = get_model(model)
    except (ImportError, ValueError) as error:  # ValueError: lm-eval registers hf-audiolm-qwen twice
        name = getattr(error, "name", None)
        other = "install what it needs" if isinstance(error, ImportError) else f"use hf-multimodal, or {_KEEPS_ALL}"
        action = f"pip install {name}" if name else other
        raise MedfaithError(f"--model {model}: cannot be imported ({error})\n  what to do: {action}") from error
    if not getattr(model_class, "MULTIMODAL", False):
        raise MedfaithError(f"{no_images}hf-multimodal, or {_KEEPS_ALL}")
