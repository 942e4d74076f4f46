"""Time and memory of files of requests: a million are written and their answers read, in linear time and below 2 GiB.

    python -m benchmarks.requests [N]

Each step runs at N / 4 and at N requests (a million by default), in a process of its own. The ratio of the times per
request shows whether the time is linear. Images are not part of it: their files are written once each.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from hashlib import sha256
from pathlib import Path

from medfaith.tasks.models.chat_form import Picture, read
from medfaith.tasks.models.server.batch_file import AnswerFiles, RequestWriter

N_REQUESTS = 1_000_000
LARGEST_GIB = 2.0
QUESTION = "Does the right lower lung show signs of pleural effusion? Answer yes or no."


def compute_key(number: int) -> str:
    return sha256(str(number).encode()).hexdigest()


def write(path: Path, n: int) -> None:
    """Write n requests, and an engine's answers to them."""
    writer = RequestWriter(path, None)
    picture = Picture("file:///images/0.png", "sha256:0")
    for number in range(n):
        writer.add(
            compute_key(number),
            lambda urls, number=number: {
                "model": "m",
                "messages": [
                    {
                        "role": "user",
                        "content": [
                            {"type": "image_url", "image_url": {"url": urls[0]}},
                            {"type": "text", "text": f"{QUESTION} {number}"},
                        ],
                    }
                ],
            },
            [picture],
        )
    writer.close({})


def answer(path: Path, n: int) -> None:
    """Write the answers of an engine, in another order."""
    with path.with_suffix(".answers").open("w", encoding="utf-8") as file:
        for number in range(n):
            body = {"choices": [{"message": {"content": "Yes."}, "finish_reason": "stop"}]}
            entry = {"custom_id": compute_key(number * 7919 % n), "response": {"status_code": 200, "body": body}}
            file.write(json.dumps(entry) + "\n")


def ingest(path: Path, n: int) -> None:
    """Index the answers, and read each once."""
    answers = AnswerFiles([path.with_suffix(".answers")])
    texts = {reply.text for number in range(n) if (reply := answers.read(compute_key(number), read)) is not None}
    assert (len(answers), texts) == (n, {"Yes."})


STEPS = {"write": write, "answer": answer, "ingest": ingest}


def measure(step: str, path: Path, n: int) -> tuple[float, float]:
    """Run a step in a process of its own; return its seconds, and the memory that it took at most, in GiB."""
    command = [sys.executable, "-m", "benchmarks.requests", step, str(path), str(n)]
    seconds, peak = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    return float(seconds), float(peak)


def main() -> None:
    n_requests = int(sys.argv[1]) if len(sys.argv) > 1 else N_REQUESTS
    with tempfile.TemporaryDirectory() as folder:
        for step in STEPS:
            small, large = (measure(step, Path(folder) / f"{n}.jsonl", n) for n in (n_requests // 4, n_requests))
            ratio = large[0] / small[0] / 4
            print(f"{step:8} {n_requests:,} requests: {large[0]:.0f} s, {large[1]:.2f} GiB, {ratio:.2f} times the time "
                  f"for each of a quarter of them")  # fmt: skip
            assert large[1] < LARGEST_GIB, "more memory than allowed"


if __name__ == "__main__":
    if len(sys.argv) > 2:
        begin = time.perf_counter()
        STEPS[sys.argv[1]](Path(sys.argv[2]), int(sys.argv[3]))
        peak_gib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        print(time.perf_counter() - begin, peak_gib)
    else:
        main()
