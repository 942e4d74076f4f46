"""Time of the answer readers for texts of the maximum length, with any repeated fragment.

    python -m benchmarks.reading

Each text repeats one fragment up to 64,000 characters: the fragments of the test of growth, and 30 more. The
slowest texts of each reader are printed with their CPU seconds, also as a multiple of the time to count the words. The
growth is the time of the slowest text divided by the time of its first quarter (4: proportional to the length).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from time import process_time
from typing import Any

from tests.evaluate_metrics.test_reading_growth import READERS, REPEATED

SIZE, SHOWN = 64_000, 3
MORE = [
    "\\boxed{", "\\boxed{A} ", "\\frac{", "i cannot tell. ", "which ", "that may be ", "compared with ", "Answer: A\n",
    "A: 0.1, ", '"A": false, ', "- A: edema\n", "no edema ", "Therefore, edema. ", "the finding is edema. ",
    "edema, no effusion, ", "not clear ", "it is not the case that ", "because ", "<answ", "<answer no>", "A (90%) ",
    "let us look for edema. ", "may be edema, ", "normal ", "nothing suggests ", "Option A is wrong. ", "While edema, ",
    "edema, edema ", "is edema and ", "Is it A? ",
]  # fmt: skip


def measure(reader: Callable[[str], Any], text: str) -> float:
    """Return the CPU seconds of one reading."""
    start = process_time()
    reader(text)
    return process_time() - start


def main() -> None:
    """Print the slowest texts of each reader."""
    print(f"{'reader':<12} {'fragment':<28} {'seconds':>8} {'x words':>8} {'growth':>7}")
    for name, reader in READERS.items():
        reader("Yes.")  # patterns are compiled once
        texts = {unit: unit * (SIZE // len(unit)) for unit in (*REPEATED, *MORE)}
        seconds = {unit: measure(reader, text) for unit, text in texts.items()}
        for unit in sorted(seconds, key=seconds.__getitem__, reverse=True)[:SHOWN]:
            text = texts[unit]
            baseline = measure(lambda text: len(re.findall(r"\w+", text)), text)
            growth = seconds[unit] / max(measure(reader, text[: SIZE // 4]), 1e-4)
            print(
                f"{name:<12} {unit!r:<28} {seconds[unit]:8.2f} {seconds[unit] / max(baseline, 1e-4):8.0f} {growth:7.1f}"
            )


if __name__ == "__main__":
    main()
