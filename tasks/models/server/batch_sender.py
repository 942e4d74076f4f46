"""Answers a file of requests by an OpenAI-compatible server: with this machine's client, or with the workers of Ray.

Each answer is written at once, so a stopped run continues where it stopped. A worker of Ray hands back a whole batch.
Until then it keeps the answers in a file of the batch, in a folder next to the file of answers.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import io
import json
import logging
import os
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import IO, Any, NamedTuple
from urllib.parse import urlsplit
from urllib.request import url2pathname

from ....loaders import json_text, limits
from ....loaders.atomic import exclusive_access
from ....loaders.errors import InputError
from ....loaders.escaping import escape_controls
from ....loaders.progress import Progress, say
from ..chat_form import read
from .access import Outage
from .batch_file import AnswerFiles, describe_failure, describe_path, is_answer
from .client import connect_async, describe_error, post_chat

ANSWERED, FAILED, BEFORE, LEFT = "answered", "failed", "answered before", "left"
_BEGINNING = b'{"custom_id": "'  # of each line of answers
_BATCH_SUFFIX = ".batch.jsonl"
_MOST_REASONS = 5  # of failures, that are printed
_REQUESTS_A_TASK = 4  # of a worker of Ray, for each of its concurrent requests
_REQUESTS_IN_MEMORY = 10_000  # with Ray, which keeps the rows of a data set in memory


class Server(NamedTuple):
    """A server, and the limits of the requests to it.

    Attributes:
        url: URL up to and including the version.
        key: API key; "" for none.
        concurrency: Maximum number of concurrent requests of one client.
        max_retries: Maximum number of retries per request.
        timeout: Timeout of a request in seconds.
    """

    url: str
    key: str = ""
    concurrency: int = 32
    max_retries: int = 5
    timeout: float = 600


def answer_file(requests: Path, out: Path, server: Server, ray: str | None = None) -> tuple[Counter[str], str]:
    """Answer the requests that have no answer yet, and append each answer to a file.

    Args:
        requests: The file of requests.
        out: The file of answers.
        server: The server.
        ray: Address of a Ray cluster whose workers ask the server; "local" starts one here; None asks from here.

    Returns:
        The number of requests by result, and the description of an outage, or "".

    Raises:
        InputError: A line is not a request, the file was changed after it was written, or an image is missing or
            differs from the image of the request; or another process writes the file of answers.
        OSError: A file cannot be read or written.
    """
    with exclusive_access(out.absolute(), wait=False):  # two runs would ask everything twice
        return _answer_file(requests, out, server, ray)


def _answer_file(requests: Path, out: Path, server: Server, ray: str | None) -> tuple[Counter[str], str]:
    """Answer a file of requests, as `answer_file` does."""
    folder = out.absolute().with_name(f"{out.name}.ray")
    done, n = {*_list_answered(out)}, sum(1 for _ in _read_requests(requests))
    _require_unchanged(requests)
    counts, reasons, outage = Counter[str](), Counter[str](), Outage(server.concurrency)
    with out.open("a", encoding="utf-8") as file, Progress(title="asking the server", total=n, unit="requests") as bar:

        def keep(entry: Mapping[str, Any]) -> None:
            file.write(json.dumps(entry) + "\n")
            file.flush()
            if is_answer(entry):
                counts[ANSWERED] += 1
            else:
                counts[FAILED] += 1
                reasons[describe_failure(entry)] += 1
            bar.update()

        done |= _recover_answers(folder, file, done)
        pending = (request for request in _read_requests(requests) if request["custom_id"] not in done)
        if ray is None:
            asyncio.run(_ask_all(pending, server, keep, outage))
        else:
            folder.mkdir(exist_ok=True)
            for entry in _ask_with_ray(pending, server, ray, folder):
                keep(entry)
            _remove(folder, _list_batches(folder))
    for reason, n_failed in reasons.most_common(_MOST_REASONS):
        say(f"medfaith: {n_failed:,} requests failed: {escape_controls(' '.join(reason.split()))}")
    counts[BEFORE] = len(done)
    counts[LEFT] = n - counts.total()
    return counts, outage.describe(server.url)


def _list_answered(out: Path) -> Iterator[str]:
    """Yield the ids of the requests that have an answer in a file, after removal of an incomplete last line.

    Only a line that this module began to write is removed. InputError is raised for another end, so that no other file
    loses a byte.
    """
    if not out.exists():
        return
    answers = AnswerFiles([out])  # refuses another file
    with out.open("rb+") as file:
        end = _find_line_end(file)
        file.seek(end)
        if not _BEGINNING.startswith(begun := file.read(len(_BEGINNING))):
            raise InputError(out, "ends in a line that is no answer", action="name a new file with --out")
        if begun:
            file.truncate(end)
    yield from answers.list_answered()


def _recover_answers(folder: Path, out: IO[str], done: Collection[str]) -> set[str]:
    """Append the answers that workers of a killed run kept and did not hand back; return the ids of their requests."""
    recovered, paths = set[str](), _list_batches(folder)
    for path in paths:
        with path.open("a+b") as file:
            for entry in _read_batch(file):
                if entry["custom_id"] not in done:
                    out.write(json.dumps(entry) + "\n")
                    recovered.add(entry["custom_id"])
    out.flush()
    _remove(folder, paths)
    return recovered


def _list_batches(folder: Path) -> list[Path]:
    """List the files of batches that `_open_batch` made; empty without the folder."""
    return sorted(folder.glob(f"*{_BATCH_SUFFIX}"))


def _remove(folder: Path, paths: Sequence[Path]) -> None:
    """Remove the files of batches whose answers are in the file of answers, and the folder if it is empty then."""
    for path in paths:
        path.unlink()
    with contextlib.suppress(OSError):
        folder.rmdir()


def _find_line_end(file: Any) -> int:
    """Return the position after the last line break of a file; 0 without one."""
    end = file.seek(0, 2)
    while end:
        start = max(0, end - 65_536)
        file.seek(start)
        if (place := file.read(end - start).rfind(b"\n")) >= 0:
            return start + place + 1
        end = start
    return 0


def _read_requests(path: Path) -> Iterator[Mapping[str, Any]]:
    with path.open("rb") as file:
        for row, line in enumerate(file, start=1):
            try:
                request = json_text.parse(line)
                is_request = isinstance(request["body"], dict) and isinstance(request["custom_id"], str)
            except (ValueError, TypeError, KeyError, AttributeError):
                is_request, request = False, {}
            if not is_request:
                expected = "what --write-requests wrote"
                raise InputError(path, "is no request of a batch", row=row, expected=expected)
            yield request


def _require_unchanged(requests: Path) -> None:
    """Refuse requests that were edited: their answers would count for the requests that `--write-requests` wrote.

    A part of a file, such as one of `split`, has no description and is not checked.
    """
    description = describe_path(requests)
    try:
        digest = json_text.parse(limits.read_bytes(description, limits.JSON_BYTES))["sha256"]
    except (OSError, ValueError, KeyError, TypeError):
        return
    with requests.open("rb") as file:
        if hashlib.file_digest(file, "sha256").hexdigest() == digest:
            return
    raise InputError(
        requests,
        f"was changed after it was written: {description.name} has another SHA-256",
        expected="the requests as --write-requests wrote them, since an answer finds its row by their ids",
        action="write them again with the options that you want, such as --gen_kwargs or model=NAME",
    )


async def _ask_all(
    requests: Iterable[Mapping[str, Any]], server: Server, keep: Callable[[Mapping[str, Any]], None], outage: Outage
) -> None:
    """Ask all requests with one client; stop during an outage."""
    pending = iter(requests)

    async def ask_pending() -> None:
        for request in pending:
            if outage.is_over:
                return
            body = await asyncio.to_thread(inline_images, request["body"])
            keep({"custom_id": request["custom_id"], **await _post(client, body, server.key, outage), "error": None})

    async with connect_async(server.url, server.key, server.max_retries, server.timeout) as client:
        await asyncio.gather(*(ask_pending() for _ in range(server.concurrency)))


async def _post(client: Any, body: Mapping[str, Any], key: str, outage: Outage) -> dict[str, Any]:
    """Send one request; return its response, or the failure in the same form."""
    import openai

    try:
        reply = await post_chat(client, body, key)
        read(reply)
    except (openai.OpenAIError, ValueError) as error:
        reason = describe_error(error, key)
        outage.update(error, reason)
        status, code = getattr(error, "status_code", 0), getattr(error, "code", None)
        message = reason.removeprefix(f"{status}: ")
        return {"response": {"status_code": status, "body": {"error": {"message": message, "code": code}}}}
    outage.update(None)
    return {"response": {"status_code": 200, "body": reply}}


def inline_images(body: Mapping[str, Any]) -> dict[str, Any]:
    """Replace the file:// addresses of a request by its images.

    Args:
        body: The body of the request.

    Returns:
        The body with data URLs.

    Raises:
        InputError: A file cannot be read, or its name is not the hash of its content. Thus no other file of the machine
            can be sent.
    """
    messages = [
        turn
        if isinstance(turn["content"], str)
        else {**turn, "content": [_inline_image(content_part) for content_part in turn["content"]]}
        for turn in body["messages"]
    ]
    return {**body, "messages": messages}


def _inline_image(content_part: Mapping[str, Any]) -> Mapping[str, Any]:
    url = content_part["image_url"]["url"] if content_part.get("type") == "image_url" else ""
    if not url.startswith("file:"):
        return content_part
    path = Path(url2pathname(urlsplit(url).path))
    action = "write the requests again with --images-in, or copy its folder to the same place"
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(path, f"cannot be read ({error.strerror})", action=action) from error
    if hashlib.sha256(content).hexdigest() != path.stem:
        raise InputError(path, "is not the image of the request", expected="a file named by its hash", action=action)
    data = base64.b64encode(content).decode()
    return {"type": "image_url", "image_url": {"url": f"data:image/{path.suffix[1:]};base64,{data}"}}


class _Asker:
    """A worker of Ray, which asks the server with a client of its own."""

    def __init__(self, server: Sequence[Any], folder: str) -> None:
        self._server, self._folder = Server(*server), Path(folder)

    def __call__(self, batch: Mapping[str, Any]) -> dict[str, list[str]]:
        """Answer the requests of a batch that the batch's own file has no answer to, and keep the answers in the file.

        Args:
            batch: The column `request`: the requests as JSON texts.

        Returns:
            The column `answer`: the lines of answers as JSON texts, the earlier ones of the file included.
        """
        requests = [json.loads(request) for request in batch["request"]]
        with _open_batch(self._folder, requests) as file:
            entries = _read_batch(file)
            done = {entry["custom_id"] for entry in entries}

            def keep(entry: Mapping[str, Any]) -> None:
                file.write(json.dumps(entry).encode() + b"\n")
                file.flush()
                entries.append(entry)

            pending = (request for request in requests if request["custom_id"] not in done)
            asyncio.run(_ask_all(pending, self._server, keep, Outage(self._server.concurrency)))
        return {"answer": [json.dumps(entry) for entry in entries]}


def _open_batch(folder: Path, requests: Sequence[Mapping[str, Any]]) -> IO[bytes]:
    """Open the file of a batch, which is named by its requests; in memory if this machine does not have the folder."""
    if not folder.is_dir():
        return io.BytesIO()
    name = hashlib.sha256("".join(request["custom_id"] for request in requests).encode()).hexdigest()
    return (folder / f"{name}{_BATCH_SUFFIX}").open("a+b")


def _read_batch(file: IO[bytes]) -> list[Mapping[str, Any]]:
    """Read the answers in the file of a batch, after removal of an incomplete last line; failures are left out."""
    file.truncate(_find_line_end(file))
    file.seek(0)
    return [entry for entry in map(json.loads, file) if is_answer(entry)]


def _ask_with_ray(
    requests: Iterable[Mapping[str, Any]], server: Server, address: str, folder: Path
) -> Iterator[Mapping[str, Any]]:
    """Ask with the workers of a Ray cluster. Ray repeats the batch of a worker that was killed."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # a cluster that we start reports to no one
    # Under `uv run`, Ray would send the current folder to all workers, and start each in a fresh environment of its
    # project, which has no extras: without `ray` there, no worker ever starts.
    os.environ.setdefault("RAY_ENABLE_UV_RUN_RUNTIME_ENV", "0")
    import ray

    where: dict[str, Any] = (
        {"include_dashboard": False, "_node_ip_address": "127.0.0.1"} if address == "local" else {"address": address}
    )
    ray.init(log_to_driver=False, logging_level=logging.WARNING, **where)
    try:
        context = ray.data.DataContext.get_current()
        context.enable_progress_bars, context.print_on_execution_start = False, False
        logging.getLogger("ray.data").setLevel(logging.WARNING)
        n_workers = max(1, int(ray.cluster_resources().get("CPU", 1)))
        workers = ray.data.ActorPoolStrategy(min_size=1, max_size=n_workers)
        size = _REQUESTS_A_TASK * server.concurrency
        while chunk := [{"request": json.dumps(request)} for request in islice(requests, _REQUESTS_IN_MEMORY)]:
            answers = ray.data.from_items(chunk, override_num_blocks=-(-len(chunk) // size)).map_batches(
                _Asker, fn_constructor_args=(tuple(server), str(folder)), batch_size=size, compute=workers
            )
            for row in answers.iter_rows():
                yield json.loads(row["answer"])
    finally:
        ray.shutdown()
