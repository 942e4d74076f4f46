"""Options of files of requests: `medfaith eval` and `medfaith audit` write them, and read an engine's answers."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from medfaith.lm_eval_options import model_named
from medfaith.loaders.errors import InputError, MedfaithError

LOGS = (".eval", ".json")  # endings of Inspect's logs


def add_options(job: argparse.ArgumentParser) -> None:
    """Add the options of files of requests to a job.

    Args:
        job: The parser of the job.
    """
    group = job.add_argument_group(
        "files of requests for batch engines",
        "Write all requests to a file, let an engine answer them on any machines (vLLM run-batch, Ray, a batch API), "
        "and read its answers. --model_args model=NAME names the model as the engine knows it; --model is left out.",
    )
    group.add_argument(
        "--write-requests", type=Path, metavar="FILE",
        help="write the requests in OpenAI's batch format, and ask no model (default: ask the model)",
    )  # fmt: skip
    group.add_argument(
        "--images-in", type=Path, metavar="DIR",
        help="write each image once to this folder, and let the requests name it (default: the requests hold the "
        "images)",
    )  # fmt: skip
    group.add_argument(
        "--answers", type=Path, nargs="+", metavar="FILE",
        help="files of answers that the engine wrote, in any order; medfaith audit also takes one log of inspect eval "
        "medfaith/audit, and then only --margin, --also and --out (default: ask the model)",
    )  # fmt: skip
    group.add_argument(
        "--write-missing", type=Path, metavar="FILE",
        help="with --answers: only write the requests that have no answer yet (default: score the answers)",
    )  # fmt: skip


def names_log(arguments: argparse.Namespace) -> bool:
    """Return whether --answers names a log of Inspect, whose rows and controls are chosen already.

    Args:
        arguments: The arguments of the command.

    Returns:
        True for one file that ends in .eval or .json, as Inspect's logs do.
    """
    return len(arguments.answers or ()) == 1 and arguments.answers[0].suffix in LOGS


def writes_requests(arguments: argparse.Namespace) -> bool:
    """Return whether a command only writes requests.

    Args:
        arguments: The arguments of the command.

    Returns:
        True with --write-requests or --write-missing.
    """
    return bool(arguments.write_requests or arguments.write_missing)


def add_model(lm_eval_arguments: Sequence[str], arguments: argparse.Namespace) -> list[str]:
    """Add the model that writes requests or reads answers to the arguments of lm_eval.

    Args:
        lm_eval_arguments: The arguments of `lm_eval run`.
        arguments: The arguments of the command.

    Returns:
        The arguments; unchanged if no file is named.

    Raises:
        MedfaithError: Options that exclude each other, or another model type.
        InputError: A file or folder cannot be used.
    """
    from medfaith.tasks import BATCH

    requests = arguments.write_requests or arguments.write_missing
    if requests is None and not arguments.answers:
        if arguments.images_in:
            raise MedfaithError("--images-in: no requests are written\n  what to do: add --write-requests FILE")
        return [*lm_eval_arguments]
    if arguments.write_requests and (arguments.answers or arguments.write_missing):
        action = "with --answers, --write-missing FILE writes the requests that are left"
        raise MedfaithError(f"--write-requests: writes all requests, whatever is answered\n  what to do: {action}")
    if arguments.write_missing and not arguments.answers:
        action = "add --answers FILE, or write all requests with --write-requests FILE"
        raise MedfaithError(f"--write-missing: no answers are named\n  what to do: {action}")
    if (model := model_named(lm_eval_arguments)) not in (None, BATCH):
        raise MedfaithError(
            f"--model {model}: the engine that answers the file has the model\n  what to do: leave it out"
        )
    if requests is not None and requests.is_dir():
        raise InputError(
            requests, "is a folder", expected="a file to write", action="name a file, such as requests.jsonl"
        )
    for path in arguments.answers or ():
        if not path.is_file():
            raise InputError(path, "is no file", expected="answers", action="name the files that the engine wrote")
        if requests is not None and requests.exists() and requests.samefile(path):
            raise InputError(requests, "is a file of answers", action="name another file for the requests")
    files = {
        "requests": None if requests is None else str(requests),
        "image_folder": None if arguments.images_in is None else str(arguments.images_in),
        "answers": [str(path) for path in arguments.answers or ()],
        "shard": None if requests is None or arguments.shard is None else str(arguments.shard),
    }
    # As JSON: lm-eval would cut a path with a comma in two.
    return [*lm_eval_arguments, "--model", BATCH, "--model_args", json.dumps({k: v for k, v in files.items() if v})]
