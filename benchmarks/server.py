"""Throughput of `medfaith-server` and of lm-eval's `local-chat-completions`, compared with the server's limit; memory.

    uv run python -m benchmarks.server [--rows N ...]

A server in a separate process takes 50 ms for each answer, for any number of simultaneous requests. With 32 requests at
a time, the limit is 640 answers a second. Each row has one image of 32 x 32 pixels, so the time is that of the clients
and not of the encoding of images. Both clients ask the same rows alternately, and the best of three rounds counts. The
share of the limit depends on the number of free cores. The CPU time for each answer, which is also printed, does not.

Memory is the peak of a process that asks N rows with a store of answers. Each row has two images of 128 x 128 pixels,
which are made when they are opened. For this measurement the server answers at once.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from lm_eval.api.instance import Instance
from PIL import Image

from medfaith.tasks.models.server.lm import ServerLM

CONCURRENCY, DELAY, ROUNDS, N = 32, 0.05, 3, 3200
SETTINGS = {"until": [], "do_sample": False, "temperature": 0.0, "max_gen_toks": 16}


class Pictures(Sequence[Image.Image]):
    """Images of one row, each made on access."""

    def __init__(self, number: int, n: int, side: int) -> None:
        self._number, self._n, self._side = number, n, side

    def __len__(self) -> int:
        return self._n

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[place] for place in range(*index.indices(self._n))]
        if not 0 <= index < self._n:
            raise IndexError(index)
        pixels = np.random.default_rng(self._number).integers(0, 256, (self._side, self._side, 3), dtype=np.uint8)
        return Image.fromarray(pixels)


def make_requests(n: int, n_images: int, side: int) -> list[Instance]:
    """Make requests with different questions and images."""
    return [
        Instance(
            "generate_until",
            {"id": str(number)},
            (
                f"{'<image>' * n_images}\nQuestion {number}?",
                dict(SETTINGS),
                {"visual": Pictures(number, n_images, side)},
            ),
            0,
            ("task", number, 1),
        )
        for number in range(n)
    ]


async def serve(delay: float) -> None:
    """Answer each chat completion with A after `delay` seconds; print the port."""
    message = {"message": {"role": "assistant", "content": "A"}, "index": 0, "finish_reason": "stop"}
    body = json.dumps(
        {"id": "1", "object": "chat.completion", "created": 0, "model": "m", "choices": [message]}
    ).encode()
    listed = json.dumps({"data": [{"id": "m"}]}).encode()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := (await reader.readuntil(b"\r\n\r\n")).lower():
                length = head.partition(b"content-length:")[2].split(b"\r\n")[0]
                await reader.readexactly(int(length or 0))
                await asyncio.sleep(delay if head.startswith(b"post") else 0)
                sent = body if head.startswith(b"post") else listed
                writer.write(
                    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(sent)
                )
                writer.write(sent)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, limit=2**26)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


@contextmanager
def run_server(delay: float) -> Iterator[str]:
    """Run a server in another process; yield its URL."""
    command = [sys.executable, "-m", "benchmarks.server", "--serve", str(delay)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}/v1"
        finally:
            process.kill()


def build_clients(url: str) -> dict[str, Any]:
    """Build both clients of a server, by name."""
    from lm_eval.api.registry import get_model

    chat: Any = get_model("local-chat-completions")
    theirs = chat(
        base_url=f"{url}/chat/completions", model="m", num_concurrent=CONCURRENCY, max_images=1, max_retries=1
    )
    return {
        "medfaith-server": ServerLM(base_url=url, model="m", concurrency=CONCURRENCY),
        theirs.__class__.__name__: theirs,
    }


def print_speed() -> None:
    """Print each client's answers per second."""
    best: dict[str, tuple[float, float]] = {}
    with run_server(DELAY) as url:
        for _ in range(ROUNDS):
            for name, client in build_clients(url).items():
                instances = make_requests(N, 1, 32)
                if name != "medfaith-server":  # it takes what `apply_chat_template` of its own has made
                    for request in instances:
                        prompt, *options = request.arguments
                        request.arguments = (
                            client.apply_chat_template([{"role": "user", "content": prompt}]),
                            *options,
                        )
                started, work = time.perf_counter(), time.process_time()
                replies = client.generate_until(instances, disable_tqdm=True)
                seconds, work = time.perf_counter() - started, time.process_time() - work
                assert replies == ["A"] * N
                best[name] = min(best.get(name, (seconds, work)), (seconds, work))
    ideal = CONCURRENCY / DELAY
    at_once = f"{CONCURRENCY} at a time, {DELAY * 1e3:.0f} ms an answer"
    print(f"{N} rows, {at_once}: ideal {ideal:.0f} a second; best of {ROUNDS}")
    print(f"{'client':22}{'answers a second':>18}{'share of ideal':>16}{'processor, ms an answer':>25}")
    for name, (seconds, work) in best.items():
        print(f"{name:22}{N / seconds:18.0f}{N / seconds / ideal:16.2f}{work / N * 1e3:25.2f}")


def print_memory(n: int) -> None:
    """Print the peak memory of this process after n rows."""
    with run_server(0) as url, tempfile.TemporaryDirectory() as folder:
        instances = make_requests(n, 2, 128)
        before, started = _read_peak(), time.perf_counter()
        lm = ServerLM(base_url=url, model="m", concurrency=CONCURRENCY, answers=str(Path(folder) / "answers.sqlite"))
        assert lm.generate_until(instances, disable_tqdm=True) == ["A"] * n
        print(
            f"{n:>8,} rows: peak {_read_peak():.0f} MiB, before {before:.0f} MiB, {time.perf_counter() - started:.0f} s"
        )


def _read_peak() -> float:
    """Read the peak memory in MiB (Linux only).

    The peak of `resource` starts with the parent's peak.
    """
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


def main() -> None:
    """Serve, measure memory, or print everything."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="*", default=[1000, 10000], help="rows whose peak memory is measured")
    parser.add_argument("--serve", type=float, help="be the server, which answers after so many seconds")
    parser.add_argument("--memory", type=int, help="measure the memory of this process with so many rows")
    arguments = parser.parse_args()
    logging.disable(logging.WARNING)
    if arguments.serve is not None:
        asyncio.run(serve(arguments.serve))
    elif arguments.memory:
        print_memory(arguments.memory)
    else:
        print_speed()
        for n in arguments.rows:  # each in a process of its own: a peak does not go down
            subprocess.run([sys.executable, "-m", "benchmarks.server", "--memory", str(n)], check=True)


if __name__ == "__main__":
    main()
