"""Every reader of files and answers against damage that hypothesis generates and shrinks.

Add failures to the tables of `test_damage.py`, and slow texts to `benchmarks/reading.py`.
"""

from __future__ import annotations

import contextlib
import string

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from medfaith.evaluate_metrics.reading.choice import parse_answer
from medfaith.evaluate_metrics.reading.diseases import extract_labels
from medfaith.evaluate_metrics.reading.stated_regions import KINDS, read_regions
from medfaith.evaluate_metrics.reading.surgery import read_instruments, read_reply, read_triplets
from medfaith.evaluate_metrics.reading.yes_no import explain_yes_no
from medfaith.loaders.errors import MedfaithError
from tests.support.loaders.damage import READINGS, apply_unpacked

pytestmark = pytest.mark.full

TOKENS = [
    b"",
    b"\0",
    b"\xff\xfe",
    b'"',
    b"\n",
    b"\r",
    b",",
    b"\t",
    b"{",
    b"[",
    b"]",
    b"-1",
    b"1e999",
    b"NaN",
    b"\\ud800",
    b"9" * 400,
]
Edit = tuple[float, int, bytes]  # start as a fraction of the file, number of removed bytes, inserted bytes
EDITS = st.lists(
    st.tuples(st.floats(0, 1), st.integers(0, 40), st.sampled_from(TOKENS) | st.binary(max_size=8)),
    min_size=1,
    max_size=4,
)


def apply_edits(data: bytes, edits: list[Edit]) -> bytes:
    for share, gone, new in edits:
        at = int(share * len(data))
        data = data[:at] + new + data[at + gone :]
    return data


@pytest.mark.parametrize("reading", READINGS, ids=[f"{source}:{name}" for source, name, _ in READINGS])
def test_files(copied, reading):
    source, name, reader = reading
    root = copied[source]
    file = min(root.glob(name))
    good = file.read_bytes()

    @settings(max_examples=150, suppress_health_check=list(HealthCheck))
    @given(EDITS, st.booleans())
    def is_read_or_refused(edits: list[Edit], inside: bool):
        change = (
            apply_unpacked(lambda data: apply_edits(data, edits)) if inside else lambda data: apply_edits(data, edits)
        )
        file.write_bytes(change(good))
        with contextlib.suppress(MedfaithError):
            reader(root, file)

    try:
        is_read_or_refused()
    finally:
        file.write_bytes(good)


WORDS = [
    "A",
    "B)",
    "(C)",
    "no",
    "not",
    "yes",
    "edema",
    "hook",
    "grasper",
    "grasps",
    "liver",
    "left",
    "lung",
    "final answer:",
    "the answer is",
    "\\boxed{",
    "}",
    '{"answer": "A"',
    "<think>",
    "</think>",
    "[",
    "]",
    "<box>",
    "<loc0012>",
    "12",
    ",",
    ".",
    "\n",
    "\0",
    "\ud800",
    "答案是",
    "🙂",
]
ANSWERS = st.lists(st.sampled_from(WORDS) | st.text(max_size=6), max_size=60).map(" ".join) | st.text(
    string.printable, max_size=200
)
READERS = {
    "instruments": read_instruments,
    "triplets": read_triplets,
    "reply": read_reply,
    "diseases": extract_labels,
    "yes or no": lambda text: explain_yes_no(text, "Is there edema in the left lung?"),
    "choice": lambda text: parse_answer(text, ["Edema", "No edema", "Effusion"], "Which is seen?"),
    **{f"region {kind}": lambda text, kind=kind: read_regions(text, kind, (640, 480), (640, 480)) for kind in KINDS},
}


@pytest.mark.parametrize("name", READERS)
def test_answers(name):
    @settings(max_examples=1000)
    @example("")
    @given(ANSWERS)
    def is_read(text: str):
        READERS[name](text)

    is_read()
