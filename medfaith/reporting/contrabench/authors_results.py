"""Results files of the authors' released code (github.com/fangzr/cxr-contrabench-code), as lines of a sample log.

Such a file is {"summary": {...}, "records": [...]}. A record has sample_id, study_id, question, options ("A. Edema" or
"Edema"), gold_letter, pred_letter and metadata. After their verifier it has the model's own letter in b0_pred_letter.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from medfaith.builders.cxr_contrabench.wording import NEGATION_FORMS, QUESTION_FORMS, format_negated_option
from medfaith.evaluate_metrics.reading.negation import RULES
from medfaith.evaluate_metrics.reading.words import words
from medfaith.loaders import json_text
from medfaith.loaders.errors import InputError
from medfaith.tasks.contrabench import adapter
from medfaith.tasks.contrabench.readings import decode
from medfaith.tasks.index import Task

from ..benchmark import AuthorsResults

FILTERS = ("b0", "m1", "m1_slot_agnostic", "m1_extended")
LAYOUT = "authors"
_LETTERED = re.compile(r"\s*([A-Z])[.):]\s*(.*)", re.DOTALL)
_EXPECTED = (
    '{"summary": {...}, "records": [{"sample_id": ..., "options": [...], "gold_letter": "A", "pred_letter": "B"}]}'
)
_ACTION = "use the results file that eval_vqa.py or apply_verifier.py of the authors' code wrote"


def read_authors_results(path: Path, task: Task) -> AuthorsResults:
    """Read a results file, score its answers as those of a run, and compare the scores with the file's own.

    Args:
        path: The results file.
        task: The task of medfaith that asks the same questions.

    Returns:
        The lines, and notes on what differs.

    Raises:
        InputError: The file is no results file, or a record is broken; the error names the record.
    """
    content = json_text.read(path, expected=_EXPECTED, action=_ACTION, repeats=False)
    records = content.get("records") if isinstance(content, dict) else None
    if not isinstance(records, list) or not records:
        raise InputError(path, "holds no records", expected=_EXPECTED, action=_ACTION)
    docs, texts = [], []
    for number, record in enumerate(records, 1):
        try:
            docs.append(_build_document(record, task))
            texts.append(_read_letter(record, len(docs[-1]["options"])))
        except (ValueError, TypeError, AttributeError) as error:
            raise InputError(path, str(error), row=number, expected=_EXPECTED, action=_ACTION) from None
    repeated = next((row_id for row_id, n in Counter(doc["id"] for doc in docs).items() if n > 1), None)
    if repeated:
        problem = f"sample_id {repeated.split('/', 2)[2]!r} is in it twice"
        raise InputError(path, problem, expected="each sample once", action=_ACTION)
    readings = {name: getattr(adapter, name)([[text] for text in texts], docs) for name in FILTERS}
    lines = [
        {"doc_id": number, "doc": doc, "resps": [[text]], "filtered_resps": [reading], "filter": name}
        for name, name_readings in readings.items()
        for number, (doc, text, reading) in enumerate(zip(docs, texts, name_readings, strict=True))
    ]
    summary = content.get("summary")
    model = str(summary.get("model") or "") if isinstance(summary, dict) else ""
    return AuthorsResults(model, lines, len(docs), _compare(records, docs, readings))


def _build_document(record: Mapping[str, Any], task: Task) -> dict[str, Any]:
    """Build the document of a task's row from a record."""
    options = [_split_option(option)[1] for option in _require_options(record)]
    texts = [words(option) for option in options]
    question = str(record.get("question") or "")
    answer = _find_gold(record, texts)
    negated_places = [place for place, text in enumerate(texts) if RULES["extended"].is_negated(text)]
    if len(negated_places) > 1:
        raise ValueError(f"{len(negated_places)} options deny something; expected one at most")
    negated = negated_places[0] if negated_places else -1
    concept = RULES["extended"].negated_concept(texts[negated]) if negated >= 0 else texts[answer]
    polarity = next(filter(None, (RULES[name].polarity(words(question)) for name in ("extended", "authors"))), None)
    if polarity is None:
        raise ValueError(f"the question {question!r} asks neither for what is present nor for what is absent")
    return {
        "id": f"authors/{task.rows['split']}/{_require_id(record)}",
        "protocol": task.rows["config"],
        "polarity": polarity,
        "study_id": str(record.get("study_id") or record["sample_id"]),
        "question": question,
        "options": options,
        "answer": answer,
        "finding": concept,
        "negated": negated,
        "counterpart": next((place for place, text in enumerate(texts) if text == concept and place != negated), -1),
        "cue": "",
        "negation_form": _find_negation_form(concept, texts[negated]) if negated >= 0 else "none",
        "question_form": _find_question_form(question, polarity),
        "layout": LAYOUT,
        "prompt": task.rows.get("prompt", "b0"),
        "n_rows_skipped": 0,
    }


def _require_id(record: Mapping[str, Any]) -> str:
    if not record.get("sample_id"):
        raise ValueError("has no sample_id")
    return str(record["sample_id"])


def _require_options(record: Mapping[str, Any]) -> Sequence[str]:
    options = record.get("options")
    if not isinstance(options, list) or len(options) < 2 or not all(isinstance(option, str) for option in options):
        raise ValueError(f"options {options!r:.80}; expected a list of two texts or more")
    return options


def _split_option(option: str) -> tuple[str, str]:
    """Split "A. Edema" into its letter and its text; the letter is "" if there is none."""
    match = _LETTERED.fullmatch(option)
    return (match[1], match[2].strip()) if match else ("", option.strip())


def _find_gold(record: Mapping[str, Any], texts: Sequence[str]) -> int:
    """Find the right option by its letter, or by its text as the authors' code does."""
    for name in ("gold_letter", "correct_answer", "gold_option"):
        gold = str(record.get(name) or "").strip()
        place = ord(gold.upper()) - ord("A") if re.fullmatch("[A-Za-z]", gold) else -1
        if 0 <= place < len(texts):
            return place
        if gold and words(gold) in texts:
            return texts.index(words(gold))
    raise ValueError("gold_letter names none of its options")


def _read_letter(record: Mapping[str, Any], n_options: int) -> str:
    """Read the model's own letter; "" for a letter of no option, which the authors' code counts as wrong."""
    letter = str(record.get("b0_pred_letter", record.get("pred_letter")) or "").strip().upper()
    return letter if re.fullmatch("[A-Z]", letter) and ord(letter) - ord("A") < n_options else ""


def _find_negation_form(concept: str, text: str) -> str:
    """Find the form of Appendix I; "other" for a form of one's own."""
    return next((form for form in NEGATION_FORMS if words(format_negated_option(concept, form)) == text), "other")


def _find_question_form(question: str, polarity: str) -> str:
    """Find the paraphrase; every other wording is the authors' own."""
    forms = QUESTION_FORMS[polarity]
    return next((form for form, text in forms.items() if words(text) == words(question)), "original")


def _compare(
    records: Sequence[Mapping[str, Any]], docs: Sequence[Mapping[str, Any]], readings: Mapping[str, Sequence[str]]
) -> list[str]:
    """Compare right answers and repairs with those that the file says."""
    notes = []
    is_right = [decode(text).choice == doc["answer"] for text, doc in zip(readings["b0"], docs, strict=True)]
    stated = [record.get("b0_exact_match", record.get("exact_match")) for record in records]
    n_differing = sum(said is not None and bool(said) != right for said, right in zip(stated, is_right, strict=True))
    notes.append(f"exact_match: {n_differing} of {len(records)} records differ from gold_letter and pred_letter")
    if all("verifier_applied" in record for record in records):
        repaired = [decode(text).verifier == "fired" for text in readings["m1"]]
        stated_repairs = [bool(record["verifier_applied"]) for record in records]
        counts = Counter(
            doc["polarity"] for doc, ours, theirs in zip(docs, repaired, stated_repairs, strict=True) if ours != theirs
        )
        differing = ", ".join(f"{counts[polarity]} of {polarity} questions" for polarity in ("presence", "absence"))
        notes.append(f"repairs by M1 that differ: {differing}. The authors' code repairs presence questions alone")
    return notes
