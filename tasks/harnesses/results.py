"""Answers in result files of lmms-eval and VLMEvalKit, matched with the rows of our task.

lmms-eval writes `<date>_samples_<task>.jsonl` with --log_samples: one object for each row, without the row itself.
VLMEvalKit writes its prediction file as .xlsx, .tsv or .json: the columns of our TSV, and `prediction`.
"""

from __future__ import annotations

import string
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ...evaluate_metrics.reading.choice import parse_answer
from ...loaders import json_text, limits
from ...loaders.errors import InputError
from ..models.chat_form import replace_surrogates
from . import questions

LMMS_EVAL, VLMEVALKIT = "lmms-eval", "VLMEvalKit"
FAILED = "Failed to obtain answer"  # begins a prediction of VLMEvalKit if the model gave none
_TABLES = {".xlsx", ".tsv"}
_COLUMNS = ("id", "question", "answer", "prediction")
_EXPECTED = {
    LMMS_EVAL: "the file <date>_samples_<task>.jsonl that lmms-eval writes with --log_samples",
    VLMEVALKIT: "VLMEvalKit's prediction file, with the columns id, question, answer and prediction",
}
_SAME_BUILD = "name with --data the build from which the questions were written, and the same task"


class HarnessAnswer(NamedTuple):
    """An answer in a result file.

    Attributes:
        number: 1-based number of the row in the file.
        row_id: The id of the row, or "" if the file has only its place.
        place: 0-based place of the row in the task; -1 if the file has its id.
        asked: Texts of the row that the file repeats, by name.
        text: The answer; None if the model gave none.
    """

    number: int
    row_id: str
    place: int
    asked: Mapping[str, str]
    text: str | None


def find_harness(path: Path) -> str:
    """Find out which harness writes files of such a name and content.

    Args:
        path: The result file.

    Returns:
        "lmms-eval", "VLMEvalKit", or "" for another file.
    """
    if path.suffix == ".jsonl":
        return LMMS_EVAL
    if path.suffix in _TABLES:
        return VLMEVALKIT
    try:
        with path.open("rb") as file:
            is_list = file.read(64).lstrip().startswith(b"[")
    except OSError:
        return ""
    return VLMEVALKIT if is_list else ""


def read_answers(path: Path, harness: str) -> list[HarnessAnswer]:
    """Read the answers of a result file.

    Args:
        path: The result file.
        harness: "lmms-eval" or "VLMEvalKit".

    Returns:
        The answers, in the file's order.

    Raises:
        InputError: The file is no result file of the harness, or a row is broken.
    """
    read = _read_samples if harness == LMMS_EVAL else _read_predictions
    try:
        answers = list(read(path))
    except OSError as error:
        raise InputError(path, f"cannot be read ({error.strerror or error})", expected=_EXPECTED[harness]) from None
    if not answers:
        raise InputError(path, "holds no answers", expected=_EXPECTED[harness])
    return answers


def match_answers(
    answers: Sequence[HarnessAnswer], task: Any, path: Path, harness: str
) -> dict[str, tuple[int, str | None]]:
    """Match answers with the rows of a task, and prove that each was given to the row's question.

    Args:
        answers: The answers of a result file.
        task: The lm-eval task, with its rows.
        path: The result file, for messages.
        harness: "lmms-eval" or "VLMEvalKit".

    Returns:
        Id of a row -> its place in the task, and the answer. A letter that VLMEvalKit's prompt asks for becomes the
        text of its option if the task asks for words.

    Raises:
        InputError: The task has no such row, its question differs, or a row is answered twice.
    """
    docs = task.test_docs()
    places = {row_id: place for place, row_id in enumerate(docs["id"])}
    matched: dict[str, tuple[int, str | None]] = {}
    for answer in answers:
        place = places.get(answer.row_id, -1) if answer.row_id else answer.place
        if not 0 <= place < len(docs):
            problem = f"the task has no row {answer.row_id or answer.place}"
            raise InputError(path, problem, row=answer.number, action=_SAME_BUILD)
        doc = docs[place]
        for name, text in _build_asked(task, doc, harness).items():
            if name in answer.asked and answer.asked[name].split() != text.split():
                problem = f"has the {name} {answer.asked[name]!r:.80}"
                raise InputError(path, problem, row=answer.number, expected=f"{text!r:.80}", action=_SAME_BUILD)
        if doc["id"] in matched:
            raise InputError(path, f"answers row {doc['id']} again", row=answer.number, expected="each row once")
        text = answer.text
        if text and harness == VLMEVALKIT and doc.get("reply_in_words"):
            choice = parse_answer(text, doc["options"], doc["question"]).choice
            text = text if choice is None else doc["options"][choice]
        matched[doc["id"]] = (place, text)
    return matched


def _build_asked(task: Any, doc: Mapping[str, Any], harness: str) -> dict[str, str]:
    """Build the texts that a result file must repeat for a row."""
    if harness == LMMS_EVAL:
        return {"input": questions.split_prompt(task, doc)[-1]}
    options = dict(zip(string.ascii_uppercase, doc["options"], strict=False))
    return {"question": doc["question"], "answer": string.ascii_uppercase[doc["answer"]], **options}


def _read_samples(path: Path) -> Iterator[HarnessAnswer]:
    limits.require_file(path)
    with path.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                sample = json_text.parse(line, allow_surrogates=True)
                # Newer versions leave the row out and keep its place alone.
                row_id = str((sample.get("doc") or {}).get("id") or "")
                text = sample["filtered_resps"]
                while isinstance(text, list) and len(text) == 1:
                    text = text[0]
                if not isinstance(text, str):
                    raise ValueError(f"has filtered_resps {text!r:.60}; expected one text")
                asked = {"input": sample["input"]} if isinstance(sample.get("input"), str) else {}
                if not (row_id or asked):
                    raise ValueError("holds neither the row nor its input, so its question is unknown")
                if not isinstance(place := sample["doc_id"], int):
                    raise ValueError(f"has doc_id {place!r:.60}; expected a whole number")
                yield HarnessAnswer(number, row_id, place, asked, replace_surrogates(text))
            except (ValueError, TypeError, AttributeError, KeyError) as error:
                problem = f"lacks {error}" if isinstance(error, KeyError) else str(error)
                raise InputError(path, problem, row=number, expected=_EXPECTED[LMMS_EVAL]) from None


def _read_predictions(path: Path) -> Iterator[HarnessAnswer]:
    for number, record in enumerate(_read_records(path), 1):
        if missing := [name for name in _COLUMNS if not isinstance(record.get(name), str)]:
            problem = f"lacks {', '.join(missing)}"
            raise InputError(path, problem, row=number, expected=_EXPECTED[VLMEVALKIT])
        asked = {name: value for name, value in record.items() if name in ("question", "answer") or len(name) == 1}
        text = record["prediction"]
        given = None if text.startswith(FAILED) else replace_surrogates(text)
        yield HarnessAnswer(
            number, record["id"], -1, {name: str(value) for name, value in asked.items() if value}, given
        )


def _read_records(path: Path) -> list[dict[str, Any]]:
    """Read a table as texts. pandas reads "None" and "NA" as texts here, not as missing."""
    import pandas as pd

    as_text: Any = {"dtype": str, "keep_default_na": False}
    limits.require_file(path)
    if path.suffix == ".json":
        expected, action = _EXPECTED[VLMEVALKIT], "name another file"
        content = json_text.read(path, expected=expected, action=action, allow_surrogates=True)
        if not all(isinstance(record, dict) for record in content):
            raise InputError(path, "is no list of objects", expected=_EXPECTED[VLMEVALKIT])
        return content
    try:
        if path.suffix == ".tsv":
            return pd.read_csv(path, sep="\t", **as_text).to_dict("records")
        # An answer that begins with "=" is stored as a formula: its text, not its value, is the answer.
        return pd.read_excel(path, engine="openpyxl", engine_kwargs={"data_only": False}, **as_text).to_dict("records")
    except ImportError:
        action = "uv pip install openpyxl, or run VLMEvalKit with PRED_FORMAT=tsv"
        raise InputError(path, "cannot be read without openpyxl", expected="openpyxl", action=action) from None
    except OSError:
        raise
    except Exception as error:  # zipfile, openpyxl and pandas each raise their own
        raise InputError(path, f"cannot be read ({error})", expected=_EXPECTED[VLMEVALKIT]) from None
