"""Linear time of the answer readers on repetitive text."""

from time import process_time

import pytest

from medfaith.evaluate_metrics.polarity.fallback import read_packet
from medfaith.evaluate_metrics.reading.choice import parse_answer
from medfaith.evaluate_metrics.reading.diseases import extract_labels
from medfaith.evaluate_metrics.reading.stated_regions import KINDS, read_regions
from medfaith.evaluate_metrics.reading.surgery import read_instruments, read_triplets
from medfaith.evaluate_metrics.reading.yes_no import read_yes_no

READERS = {
    "instruments": read_instruments,
    "triplets": read_triplets,
    "diseases": extract_labels,
    "yes or no": lambda text: read_yes_no(text, "Is there edema in the left lung?"),
    "choice": lambda text: parse_answer(text, ["Edema", "No edema", "Effusion"], "Which is seen?"),
    "packet": lambda text: read_packet(text, ["Edema", "No edema", "Effusion"]),
    # Of the kinds that are JSON 1,000 beginnings are tried, however long the text is.
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
    "$\\boxed{", "\n", " ", "1", "1. ", "?", "a", "🙂", "没有",
]  # fmt: skip
RUNS = [".", "\n", "_", " ", "-", "#", "!", "*", "1"]
SIZE = 2_000  # characters; what takes under 5 ms at four times as many stays small even if it grew with the square
GROWTH = 8  # of the time for four times the text: between 4 and 16, which is the square


def measure_cpu_time(reader, text):
    start = process_time()
    reader(text)
    return process_time() - start


def grows_too_fast(reader, unit):
    """Whether the time grew faster than the text in each of three trials."""
    text = unit * (SIZE // len(unit))
    for _ in range(3):
        long = measure_cpu_time(reader, text * 4)
        if long < 0.005 or long < GROWTH * measure_cpu_time(reader, text):
            return False
    return True


@pytest.mark.parametrize("name", READERS)
def test_time_grows_with_the_text(name):
    READERS[name]("Yes.")  # patterns are compiled once
    assert [unit for unit in REPEATED if grows_too_fast(READERS[name], unit)] == []


@pytest.mark.parametrize("name", READERS)
def test_time_grows_with_a_run_of_one_sign_inside_the_text(name):
    READERS[name]("Yes.")
    assert [sign for sign in RUNS if grows_too_fast(lambda text: READERS[name](f"Seen{text}没"), sign)] == []


def test_growth_with_the_square_is_seen():
    assert grows_too_fast(lambda text: [text.count("b", start) for start in range(len(text)) for _ in range(8)], "a")
