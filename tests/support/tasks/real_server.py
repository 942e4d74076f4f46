"""A server of another program, started for a test."""

from __future__ import annotations

import os
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

WAIT = 600  # seconds; a busy machine


@contextmanager
def serving_program(program: Sequence[str], log: Path, variables: Mapping[str, str]) -> Iterator[str]:
    """Start a server on a free port of this machine and wait until it lists its models.

    Args:
        program: The command, which takes --host and --port.
        log: File for its output.
        variables: Variables of its environment that differ from ours.

    Yields:
        The address of its API, with the version.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    with log.open("w") as output:
        process = subprocess.Popen(
            [*program, "--host", "127.0.0.1", "--port", port],
            stdout=output,
            stderr=output,
            env={**os.environ, **variables},
        )
        try:
            url = f"http://127.0.0.1:{port}/v1"
            end = time.monotonic() + WAIT
            while not _is_reachable(f"{url}/models"):
                assert process.poll() is None, log.read_text()
                assert time.monotonic() < end, log.read_text()
                time.sleep(0.3)
            yield url
        finally:
            process.terminate()
            try:
                process.wait(60)
            finally:
                process.kill()


def _is_reachable(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5):
            return True
    except (urllib.error.URLError, OSError):
        return False
