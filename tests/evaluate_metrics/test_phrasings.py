"""Short answers in many phrasings, each with a person's reading (phrasings/READER.tsv), for every reader of answers.

A row has the question, the expected reading ("-" for none) and the text. The texts are made up, to cover words that
affirm, deny, weigh and take back; none is the answer of a model under test.
To fix a misreading, add its row.
"""

import csv
import functools
import re
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from medfaith.evaluate_metrics.reading.choice import parse_answer
from medfaith.evaluate_metrics.reading.diseases import extract_labels
from medfaith.evaluate_metrics.reading.surgery import read_instruments, read_triplets
from medfaith.evaluate_metrics.reading.yes_no import explain_yes_no, read_yes_no
from tests.support.tiers import choose_size

FOLDER = Path(__file__).parent / "phrasings"
OPTIONS = ["Pneumonia", "Edema", "Fracture", "Cardiomegaly"]
NEGATION = ["Edema", "No edema", "Pneumothorax"]
OTHER_OPTIONS = {
    "negation": NEGATION,
    "sides": ["Left", "Right", "Both", "Neither"],
    "lungs": ["Left lung", "Right lung", "Both lungs", "None of the above"],
    "places": [
        "Left lower lobe consolidation", "Right lower lobe consolidation", "Normal lungs",
        "Pleural effusion on the left",
    ],
    "quadrants": ["Left upper lung", "Left lower lung", "Right upper lung", "Right lower lung"],
    "word_forms": ["Aortic knob enlargement", "No aortic knob enlargement", "Tracheal deviation"],
    "shared_ends": ["Bacterial pneumonia", "Viral pneumonia", "Fungal pneumonia", "Edema"],
    "degrees": ["Mild", "Moderate", "Severe"],
    "numbers": ["0", "1", "2", "3"],
    "undetermined": ["Yes", "No", "Cannot be determined"],
    "views": ["Frontal view", "Lateral view", "Oblique view"],
}  # fmt: skip
NAMES = choose_size(["emphysema"], ["emphysema", "fibrosis", "pneumoperitoneum"])


def read_yes_or_no(text: str, question: str) -> str:
    reading = read_yes_no(text, question)
    return reading if reading in ("yes", "no") else "-"


def read_choice(text: str, question: str, options: Sequence[str] = OPTIONS) -> str:
    choice = parse_answer(text, options, question).choice
    return "-" if choice is None else "ABCD"[choice]


def read_by_all(text: str, question: str) -> str:
    """Return "-" for a text that no reader takes for an answer."""
    outcomes = {
        explain_yes_no(text, question).outcome,
        parse_answer(text, OPTIONS, "Which finding is present?").outcome,
        parse_answer(text, ["Yes", "No"], question).outcome,
        extract_labels(text).outcome,
        read_instruments(text).outcome,
    }
    return "answered" if "answered" in outcomes else "-"


READERS: dict[str, Callable[[str, str], str]] = {
    "yes_no": read_yes_or_no,
    "choice": read_choice,
    **{name: functools.partial(read_choice, options=options) for name, options in OTHER_OPTIONS.items()},
    "diseases": lambda text, question: ", ".join(sorted(extract_labels(text).labels)) or "-",
    "any": read_by_all,
    "instruments": lambda text, question: ", ".join(sorted(read_instruments(text).names)) or "-",
    "triplets": lambda text, question: "; ".join(sorted(read_triplets(text).names)) or "-",
}


def read_rows(reader: str) -> list[tuple[str, str, str]]:
    """Return (question, expected, text) of each row of a reader."""
    with (FOLDER / f"{reader}.tsv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    return [(row["question"], row["expected"], row["text"].replace("\\n", "\n").replace("\\\\", "\\")) for row in rows]


def test_every_reader_has_a_file():
    assert {path.stem for path in FOLDER.iterdir()} == set(READERS)


@pytest.mark.parametrize("reader", READERS)
def test_every_phrasing_is_read_as_a_person_reads_it(reader):
    readings = [(text, READERS[reader](text, question), expected) for question, expected, text in read_rows(reader)]
    assert [reading for reading in readings if reading[1] != reading[2]] == []


@pytest.mark.parametrize("name", NAMES)
def test_the_reading_does_not_depend_on_the_finding(name):
    def rename(text: str) -> str:
        return re.sub("o?edema", name, text, flags=re.IGNORECASE)

    readings = [
        (rename(text), read_yes_or_no(rename(text), rename(question)), expected)
        for question, expected, text in read_rows("yes_no")
    ]
    assert [reading for reading in readings if reading[1] != reading[2]] == []
