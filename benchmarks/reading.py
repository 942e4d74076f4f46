"""CPU time of the answer readers for long texts that repeat one fragment.

    python -m benchmarks.reading

Each text repeats a fragment up to 16,000 characters. The table has the slowest texts of each reader, with three
figures: CPU seconds, the ratio to the time for counting the words, and the growth. The growth is the time divided by
the time for the first quarter of the text (4 is linear, 16 is quadratic). The exit status is 1 if the growth of a
reader is above 8 in each of three trials. Texts that take less than 20 ms are not tried again.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from time import process_time
from typing import Any

from medfaith.builders.negation import find_mentions
from medfaith.evaluate_metrics.polarity.fallback import read_packet
from medfaith.evaluate_metrics.reading.choice import parse_answer
from medfaith.evaluate_metrics.reading.diseases import extract_labels
from medfaith.evaluate_metrics.reading.stated_regions import KINDS, read_regions
from medfaith.evaluate_metrics.reading.surgery import read_instruments, read_triplets
from medfaith.evaluate_metrics.reading.yes_no import read_yes_no

Reader = Callable[[str], Any]

SIZE, SLOWEST = 16_000, 3
GROWTH = 8.0  # of the time for four times the text; between linear and quadratic
SHORTEST = 0.02  # seconds; noise changes the growth of a shorter time
READERS: dict[str, Reader] = {
    "instruments": read_instruments,
    "triplets": read_triplets,
    "diseases": extract_labels,
    "yes or no": lambda text: read_yes_no(text, "Is there edema in the left lung?"),
    "choice": lambda text: parse_answer(text, ["Edema", "No edema", "Effusion"], "Which is seen?"),
    "packet": lambda text: read_packet(text, ["Edema", "No edema", "Effusion"]),
    "report": find_mentions,
    # The reader tries 1,000 beginnings of each kind of JSON, however long the text is.
    **{
        kind: lambda text, kind=kind: read_regions("[" + text, kind, (640, 480), (640, 480))
        for kind in KINDS
        if kind not in {"qwen2_5_vl", "qwen3_vl", "gemini"}
    },
}
REPEATED = [
    "no ", "not ", "neither ", "is not ", "the heart is ", "and the ", "a is, ", "which may ", "commonly ", "if ",
    "hook ", "hook, ", "no hook, ", "hook not ", "hook: no, ", "hook? no. ", "- hook\n", "- absent:\n", "✗ hook ", "✓",
    "hook is the ", "hook cut liver. ", "tools ", "edema ", "no edema, ", "edema is not seen, ", "A. ", "A or B or ",
    "(A) ", "the answer is ", "((((", "[[", '{"a": ', '"a": [', '"a", ', '[{"a":1},', "<think>", "</think>", "**",
    "$\\boxed{", "\n", " ", "1", "1. ", "?", "a", "🙂", "没有", "\\boxed{", "\\boxed{A} ", "\\frac{",
    "i cannot tell. ", "which ", "that may be ", "compared with ", "Answer: A\n", "A: 0.1, ", '"A": false, ',
    "- A: edema\n", "no edema ", "Therefore, edema. ", "the finding is edema. ", "edema, no effusion, ", "not clear ",
    "it is not the case that ", "because ", "<answ", "<answer no>", "A (90%) ", "let us look for edema. ",
    "may be edema, ", "normal ", "nothing suggests ", "Option A is wrong. ", "While edema, ", "edema, edema ",
    "all findings but ", "probability of ", "very low ", "A > ", "A is the least likely ", "A, no, B. ", "(-) ",
    "[x] A\n", "resolved ", "the odds of edema at ", "wrong: A ", "one may say A. ", "Wait, A. ",
    "is edema and ", "Is it A? ", "no edema and ", "may be edema ", "pulmonary ", "effusion, no evidence of ",
]  # fmt: skip
RUNS = [".", "\n", "_", " ", "-", "#", "!", "*", "1"]  # of one sign inside a text


def measure(reader: Reader, text: str) -> float:
    """Measure the CPU seconds of one reading."""
    start = process_time()
    reader(text)
    return process_time() - start


def repeat(fragment: str, n: int) -> str:
    """Repeat a fragment."""
    return fragment * n


def enclose(sign: str, n: int) -> str:
    """Put a run of one sign inside a text."""
    return f"Seen{sign * n}没"


def list_texts() -> dict[str, tuple[Callable[[int], str], int]]:
    """List the texts: name -> the function that makes one of n fragments, and the number that fills a quarter."""
    texts = {fragment: (partial(repeat, fragment), SIZE // 4 // len(fragment)) for fragment in REPEATED}
    return texts | {f"Seen{sign}{sign}没": (partial(enclose, sign), SIZE // 4) for sign in RUNS}


def grows_too_fast(reader: Reader, make: Callable[[int], str], n: int) -> bool:
    """Whether the time grows by more than GROWTH in each of three trials, of texts that no reader has cached."""
    return all(
        measure(reader, make(4 * (n + trial))) > GROWTH * measure(reader, make(n + trial)) for trial in (1, 2, 3)
    )


def main() -> int:
    """Print the slowest texts of each reader.

    Returns:
        The exit status: 1 if a reader grows too fast.
    """
    print(f"{'reader':<12} {'fragment':<28} {'seconds':>8} {'x words':>8} {'growth':>7}")
    faults = []
    for name, reader in READERS.items():
        reader("Yes.")  # compiles the patterns
        measured = []
        for fragment, (make, n) in list_texts().items():
            seconds, of_quarter = measure(reader, make(4 * n)), measure(reader, make(n))
            measured.append((seconds, of_quarter, fragment))
            if seconds > max(SHORTEST, GROWTH * of_quarter) and grows_too_fast(reader, make, n):
                faults.append(f"{name}: {fragment!r}")
        for seconds, of_quarter, fragment in sorted(measured, reverse=True)[:SLOWEST]:
            make, n = list_texts()[fragment]
            words = max(measure(lambda text: len(re.findall(r"\w+", text)), make(4 * n)), 1e-4)
            growth = seconds / max(of_quarter, 1e-4)
            print(f"{name:<12} {fragment!r:<28} {seconds:8.2f} {seconds / words:8.0f} {growth:7.1f}")
    print(f"faster than linear: {'; '.join(faults)}" if faults else "no reader grows faster than linear")
    return 1 if faults else 0


if __name__ == "__main__":
    raise SystemExit(main())
