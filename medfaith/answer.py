"""`medfaith answer`: answers a file of requests by a server, from this machine or from the workers of a Ray cluster."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from medfaith.builders.options import whole
from medfaith.loaders import json_text, limits
from medfaith.loaders.errors import InputError, MedfaithError
from medfaith.tasks.model_types import MOST_CONCURRENT


def add_jobs(jobs: Any) -> None:
    """Add `answer` to the command's jobs.

    Args:
        jobs: The sub-parsers of the command.
    """
    text = "answer a file of requests by a server, on one machine or with a Ray cluster"
    job = jobs.add_parser(
        "answer",
        help=text,
        description=f"{text[0].upper()}{text[1:]}. The requests come from --write-requests of medfaith audit or eval; "
        "their --answers reads the file that is written here. To resume a stopped run, run the same command again.",
        epilog="Example: medfaith answer requests.jsonl --base-url http://127.0.0.1:8000/v1 --out answers.jsonl",
    )
    job.add_argument("requests", type=Path, metavar="FILE", help="file of requests that --write-requests wrote")
    job.add_argument(
        "--base-url", required=True, metavar="URL",
        help="OpenAI-compatible endpoint, such as http://127.0.0.1:8000/v1; its key is read from OPENAI_API_KEY",
    )  # fmt: skip
    job.add_argument("--out", type=Path, required=True, metavar="FILE", help="file of answers; new ones are appended")
    job.add_argument(
        "--concurrency", type=whole(0, most=MOST_CONCURRENT), default=32, metavar="N",
        help="requests at a time, of each worker, at most 4,096 (default: %(default)s)",
    )  # fmt: skip
    job.add_argument(
        "--max-retries", type=whole(-1), default=5, metavar="N",
        help="how often a failed request is tried again, with growing pauses (default: %(default)s)",
    )  # fmt: skip
    job.add_argument(
        "--ray", nargs="?", const="local", metavar="ADDRESS",
        help="let the workers of this Ray cluster ask, such as ray://HOST:10001 or auto; without ADDRESS a cluster is "
        "started on this machine (default: ask from here)",
    )  # fmt: skip
    job.add_argument(
        "--send-images-to", metavar="HOST",
        help="the host of --base-url, if it is no machine of yours: licences that forbid it are refused",
    )  # fmt: skip
    job.add_argument(
        "--i-have-permission", action="append", default=[], metavar="SOURCE",
        help="source whose owner has permitted you to send its images to that host (repeatable)",
    )  # fmt: skip
    job.set_defaults(job=_answer)


def _answer(arguments: argparse.Namespace, _: Sequence[str]) -> int:
    from medfaith.tasks.models.server import access
    from medfaith.tasks.models.server.batch_file import describe_path
    from medfaith.tasks.models.server.batch_sender import FAILED, LEFT, Server, answer_file
    from medfaith.tasks.models.server.client import check_installed

    check_installed("medfaith answer")
    if arguments.ray is not None:
        check_installed("--ray", ["ray"], 'uv sync --inexact --extra ray, or pip install "medfaith[ray]"')
    if not arguments.requests.is_file():
        raise InputError(arguments.requests, "is no file", expected="requests that --write-requests wrote")
    if arguments.out.is_dir():
        raise InputError(arguments.out, "is a folder", expected="a file for the answers", action="name one with --out")
    if arguments.out.exists() and arguments.out.samefile(arguments.requests):
        raise InputError(arguments.out, "is the file of requests", action="name another file with --out")
    url = arguments.base_url.rstrip("/")
    host = access.parse_host(url, "--base-url")
    if access.is_third_party(host):
        access.check_named(host, arguments.send_images_to)
        access.check_licences(_read_sources(describe_path(arguments.requests)), host, arguments.i_have_permission)
    server = Server(url, os.environ.get(access.KEY, ""), arguments.concurrency, arguments.max_retries)
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    counts, outage = answer_file(arguments.requests, arguments.out, server, arguments.ray)
    print(f"{arguments.out}: {', '.join(f'{n:,} {name}' for name, n in counts.items() if n) or 'no request'}")
    if outage:
        raise MedfaithError(outage)
    return 3 if counts[FAILED] or counts[LEFT] else 0


def _read_sources(description: Path) -> list[str]:
    """Read the sources whose images a file of requests holds."""
    try:
        return [*json_text.parse(limits.read_bytes(description, limits.JSON_BYTES))["sources"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        action = "keep it next to the file of requests: the licences of its sources decide where the images may go"
        raise InputError(description, "is missing or unreadable", action=action) from error
