"""Tasks of one's own questions: documents, prompts, facts, scores, and audits of tables in three layouts."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest

from medfaith.builders import own
from medfaith.cli import main
from medfaith.loaders import phantom
from medfaith.loaders.errors import InputError
from medfaith.loaders.phantom import images as phantom_images
from medfaith.loaders.phantom import table as phantom_table
from medfaith.tasks.own import adapter
from medfaith.tasks.own.prompts import prompt
from medfaith.tasks.own.rows import N_CANDIDATES, _list_candidates, build_facts
from tests.support.tasks.evaluating import figures, load

pytestmark = pytest.mark.usefixtures("tables_alone")

DOC = {
    "id": "t/test/1", "patient_id": "p", "images": [], "answer_kind": "yes_no", "question": "Is there edema?",
    "topic": "Is there edema?", "location": "", "options": ["Yes", "No"], "answer": 0, "negated": 1, "gold": ["Yes"],
    "n_rows_skipped": 0,
}  # fmt: skip
CHOICE = DOC | {"answer_kind": "choice", "question": "Which?", "options": ["mass", "edema"], "gold": ["mass"]}
OPEN = DOC | {"answer_kind": "open", "question": "Where?", "options": ["none", "left lung"], "answer": 1}
OPEN |= {"gold": ["left lung", "left side"]}


def test_prompts():
    images = [None, None]
    assert prompt(DOC | {"images": images}) == "<image><image>Is there edema? Answer yes or no."
    assert prompt(CHOICE | {"images": []}).splitlines() == [
        "Which?", "A. mass", "B. edema", "Answer with the letter of the correct option."
    ]  # fmt: skip
    assert prompt(OPEN) == "Where? Answer with a word or a short phrase."


SCORED: list[tuple[dict[str, Any], str, dict[str, Any]]] = [
    (DOC, "Yes, there is.", {"outcome": "answered", "said": "yes", "accuracy": 1}),
    (DOC, "No.", {"outcome": "answered", "said": "no", "accuracy": 0}),
    (DOC, "I cannot tell.", {"outcome": "declined", "said": None, "accuracy": 0}),
    (DOC | {"answer": 1}, "No.", {"outcome": "answered", "gold": "No", "accuracy": 1}),  # the image was flipped
    (CHOICE, "A", {"outcome": "answered", "said": "mass", "accuracy": 1}),
    (CHOICE, "edema", {"outcome": "answered", "said": "edema", "accuracy": 0}),
    (CHOICE, "C", {"outcome": "unread", "said": None, "accuracy": 0}),
    (OPEN, "The left side", {"outcome": "answered", "said": "left side", "f1": 1, "exact": 1, "recall": 1}),
    (OPEN, "right lung", {"outcome": "answered", "f1": 0.5, "exact": 0, "recall": 0.5}),
    (OPEN, "", {"outcome": "unread", "said": None, "f1": 0, "exact": 0, "recall": 0}),
]


@pytest.mark.parametrize(("doc", "response", "expected"), SCORED)
def test_records(doc, response, expected):
    record = adapter.read_record(doc, response)
    assert {name: record[name] for name in expected} == expected


def test_intervals_resample_patients():
    """Two patients with equal answers each: the interval is that of two draws, from 0 to 1."""
    docs = [DOC | {"id": str(n), "patient_id": str(n // 50)} for n in range(100)]
    items = [adapter.process_results(doc, ["Yes." if n < 50 else "No."]) for n, doc in enumerate(docs)]
    scores = figures(adapter.yes_no_metrics, items)
    assert scores["accuracy"] == 0.5
    assert scores["accuracy_ci_high"] - scores["accuracy_ci_low"] > 0.8


def test_facts():
    left = DOC | {"question": "Is there fluid on the LEFT side?", "topic": "Is there fluid on the LEFT side?"}
    right = DOC | {"topic": "is there  fluid on the right side"}
    assert build_facts(left).mirrored == build_facts(right).asked
    assert build_facts(DOC).mirrored == "", "no side"
    assert build_facts(OPEN | {"topic": "left?"}).mirrored == "", "how an open answer changes is unknown"
    assert build_facts(CHOICE).asked != build_facts(CHOICE | {"options": ["mass", "gas"]}).asked
    assert [build_facts(DOC | {"answer": answer}).present for answer in (0, 1)] == [True, False]


def test_candidates_of_an_open_question_hold_the_gold_answer_and_stay_few():
    answers = [f"answer {n:03d}" for n in range(100)]
    for gold in ("answer 000", "none"):
        row = {"id": "1", "gold": [gold]}
        candidates = _list_candidates(row, answers)
        assert candidates == _list_candidates(row, answers)
        assert gold in candidates
        assert candidates[0] == "none"
        assert len(candidates) == len({*candidates}) <= N_CANDIDATES
    assert _list_candidates({"id": "1", "gold": ["x"]}, ["x"]) == ["none", "x"]


def test_each_kind_of_question_is_a_task(phantom_own_build, phantom_own_roots):
    for name, n in (("yes_no", 168), ("choice", 72), ("open", 96)):
        task = f"medfaith_own_{name}"
        rows = load([task], phantom_own_build, phantom_own_roots)["tasks"][task].dataset["test"]
        assert len(rows) == n
        assert {*rows.with_format(None)["answer_kind"]} == {name}
        assert rows[0]["images"][0].size == (160, 192)


def test_a_kind_without_rows_is_named(tmp_path):
    roots = {"table": phantom_table.write(tmp_path / "t", seed=0, n=1)}  # the first patient has no finding
    roots["images"] = phantom_images.write(tmp_path / "i", seed=0, n=1)
    own.build(roots, tmp_path / "data")
    with pytest.raises(InputError, match=r"split 'test' has no choice question"):
        load(["medfaith_own_choice"], tmp_path / "data")


def build_public(source: str, folder: Path) -> tuple[Path, Path]:
    """Build the rows of a synthetic public data set; return the build and the folder of images."""
    if not (folder / "data").exists():
        root = phantom.write(folder, sources=[source])[source]
        table = {"vqa_rad": "VQA_RAD Dataset Public.json", "slake": "test.json"}[source]
        images = root / {"vqa_rad": "VQA_RAD Image Folder", "slake": "imgs"}[source]
        options = own.Options(source.replace("_", "-"))
        own.build({"table": root / table, "images": images}, folder / "data", options=options)
    return folder / "data", next(path for path in (folder / source).iterdir() if path.is_dir())


# Whether a reference model uses the image, and whether its answers depend on the place. VQA-RAD has no regions.
VERDICTS = [
    ("vqa_rad", "looks", "uses", "undefined"),
    ("slake", "looks", "uses", "depends"),
    ("slake", "question_prior", "no use", "open"),  # the place needs about 72 patients
    ("slake", "looks_elsewhere", "uses", "elsewhere"),
    ("table", "looks", "uses", "depends"),
    ("table", "question_prior", "no use", "no dependence"),
    ("table", "looks_elsewhere", "uses", "elsewhere"),
    ("vqa_rad", "question_prior", "no use", "undefined"),
]


@pytest.mark.full  # test_located_rows.py has a verdict from the command
@pytest.mark.usefixtures("png_only")
@pytest.mark.parametrize(
    ("source", "model", "uses_image", "depends_on_place"),
    VERDICTS,
)
def test_the_verdicts_on_three_tables_are_right(source, model, uses_image, depends_on_place, request, tmp_path):
    if source == "table":
        data, images = (request.getfixturevalue(f"phantom_own_{name}") for name in ("build", "roots"))
        images = images["images"]
    else:
        data, images = build_public(source, tmp_path / "built")
    assert main(["audit", "--data", str(data), "--root", f"images={images}", "--model", model, "--benchmarks", "own",
                 "--out", str(tmp_path / "audit")]) == 0  # fmt: skip
    (row,) = csv.DictReader((tmp_path / "audit" / "audit.csv").read_text().splitlines())
    assert (row["uses_image"], row["depends_on_place"]) == (uses_image, depends_on_place)
    assert main(["report", str(tmp_path / "audit"), "--out", str(tmp_path / "report")]) == 0
    assert {"own_runs.csv", "own_yes_no.csv", "own_open.csv"} <= {path.name for path in (tmp_path / "report").iterdir()}
