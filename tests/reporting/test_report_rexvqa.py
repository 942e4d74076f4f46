"""The tables of ReXVQA slices (5 to 8) from logs with the paper's counts: the report prints the paper's figures."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from typing import Any

import pytest

from tests.support.reporting.report_logs import (
    check_published,
    csv_rows,
    extract_numbers,
    make_samples,
    question,
    rows_of,
    write_log,
    write_report,
)


def answer_rexvqa(
    protocol: str, n: int, correct: int, explicit: int, explicit_right: int, changes: tuple[int, int, int]
):
    """Build answers to a ReXVQA slice; `explicit` questions have a negation cue.

    `changes` counts the explicit questions answered with the negated option: all of them, those whose gold is the
    finding (improved), and those whose gold is the negated option (worsened). The gold of the rest is a third option.
    """
    changed, improved, worsened = changes
    form = {"negation_form": "source", "question_form": "source", "layout": "source"}
    options = ["Edema", "No edema", "Fracture", "Pneumonia"]
    cued: Any = {"question": "Which of the following findings is absent?", "polarity": "absence", "cue": "absent"}
    plain: Any = {"question": "What is shown?", "polarity": "other", "negated": -1}
    golds = [0] * improved + [1] * worsened + [2] * (changed - improved - worsened)
    texts = ["B"] * changed + ["A"] * explicit_right + ["C"] * (explicit - changed - explicit_right)
    right = correct - worsened - explicit_right
    texts += ["A"] * right + ["C"] * (n - explicit - right)
    return [
        (question(protocol, i, answer=golds[i] if i < changed else 0, options=options, **form,
                  **(cued if i < explicit else plain)), text)
        for i, text in enumerate(texts)
    ]  # fmt: skip


def compute_fallback(answers) -> list[dict]:
    """Build Y0 of Table 7: 74 answers change, 29 improve and 30 worsen, 2 of these on explicit negation."""
    base = [json.loads(sample["filtered_resps"][0])["choice"] for sample in make_samples(answers, ("b0",))]
    after = list(base)
    wrong = [i for i, (row, _) in enumerate(answers) if not row["cue"] and base[i] != row["answer"]]
    right = [i for i, (row, _) in enumerate(answers) if not row["cue"] and base[i] == row["answer"]]
    explicit_right = [i for i, (row, text) in enumerate(answers) if row["cue"] and text == "A"]
    for i in wrong[:29]:
        after[i] = answers[i][0]["answer"]
    for i in [*wrong[29:44], *right[:28], *explicit_right[:2]]:
        after[i] = 3
    return [
        {"choice": a, "before": b, "outcome": "answered", "evidence": "letter", "verifier": "y0"}
        for a, b in zip(after, base, strict=True)
    ]


@pytest.mark.full  # the paper's 45,000 answers; golden files have all four tables
def test_tables_5_to_8(tmp_path):
    write_log(tmp_path / "a", "MedGemma", answer_rexvqa("rexvqa_1k", 1000, 821, 47, 20, (4, 4, 0)), filters=("m1",))
    five = answer_rexvqa("rexvqa_5k", 5000, 4121, 211, 90, (17, 13, 1))
    write_log(tmp_path / "a", "MedGemma", five, filters=("m1",), readings_by_filter={"y0": compute_fallback(five)})
    slices = {"s1": (8053, 452, (15, 9, 0)), "s2": (8034, 452, (15, 7, 1)), "s3": (8021, 453, (21, 12, 0))}
    for name, (correct, explicit, changes) in slices.items():
        answers = answer_rexvqa(f"rexvqa_10k_{name}", 10000, correct, explicit, 190, changes)
        write_log(tmp_path / "a", "MedGemma", answers, filters=("m1",))
    report = write_report([tmp_path])
    assert [row[0:1] + row[3:] for row in rows_of(report, "Table 6")] == [
        ["1k", "1,000", "82.10", "82.50", "+0.40", "4", "4", "0", "+8.51", "47", "0.40", "4 → 0", "4 → 0",
         "0.00", "0.00"],
        ["5k", "5,000", "82.42", "82.66", "+0.24", "17", "13", "1", "+5.69", "211", "0.34", "16 → 0", "17 → 0",
         "0.00", "0.00"],
        ["3x10k pooled", "30,000", "80.36", "80.45", "+0.09", "51", "28", "1", "+1.99", "1,357", "0.17", "50 → 0",
         "51 → 0", "0.00", "0.00"],
    ]  # fmt: skip
    (row,) = rows_of(report, "Table 7")
    assert row[2:] == [
        "B0", "Y0", "5,000", "82.40", "-0.02", "74", "29", "30", "-0.95", "16 → 16", "17 → 17", "0.00", "0.00",
    ]  # fmt: skip
    # The paper prints the last column as contradictions; one of its answers is right (sections 3.1 and 6.3).
    assert [[row[0], *row[4:9]] for row in rows_of(report, "Table 8")] == [
        ["20260326", "80.53", "80.62", "+0.09", "15 → 0", "15 → 0"],
        ["20260327", "80.34", "80.40", "+0.06", "14 → 0", "15 → 0"],
        ["20260328", "80.21", "80.33", "+0.12", "21 → 0", "21 → 0"],
    ]
    check_published(report, "Table 6", 3 * 10)
    check_published(report, "Table 7", 8)
    check_published(report, "Table 8", 3 * 5)
    check_published(report, "Table 5", 5 * 9, noise=(0, 0.15))  # resampling noise of an interval's ends
    assert report.count("The paper prints the latter under the name contradictions") == 3
    intervals = {row[0]: row for row in rows_of(report, "Table 5")}
    assert list(intervals) == ["1k", "5k", "10k s1", "10k s2", "10k s3", "3x10k pooled"]
    values = extract_numbers(intervals["5k"][4:7])
    assert values == pytest.approx([82.42, 81.40, 83.46, 82.66, 81.60, 83.72, 0.24, 0.10, 0.40], abs=0.15)
    assert "## Casebook" not in report, "ReXVQA's questions are not printed"


QUESTIONS = {  # question -> the columns that a build reads from it
    "Which finding is absent?": ("absence", "absent"),
    "Which finding is present?": ("presence", ""),
    "Which finding is least likely present?": ("other", "least likely present"),
    "What is shown?": ("other", ""),
}
OPTIONS = ("Edema", "No pneumonia", "Pneumonia", "Fracture")
AS_PUBLISHED = {"absent": 0, "is present": 2, "least likely present": 0}  # where the verifier puts the negated option's


def count_by_hand(rows: Sequence[tuple[str, int, int, int]]) -> dict[str, float]:
    """Count the cells of both tables from question, right option, choice (-1: none) and choice after the verifier."""
    cued = [row for row in rows if QUESTIONS[row[0]][1]]
    sides = {"base": 2, "verified": 3}
    right = {name: [row[1] == row[at] for row in rows] for name, at in sides.items()}
    gains = [int(after) - before for before, after in zip(right["base"], right["verified"], strict=True)]
    return {
        **{f"{name}_accuracy": sum(values) / len(rows) for name, values in right.items()},
        "accuracy": sum(right["verified"]) / len(rows),
        "delta": sum(gains) / len(rows),
        "changed": sum(row[2] != row[3] for row in rows),
        "improved": gains.count(1),
        "worsened": gains.count(-1),
        "explicit_negation_delta": sum((row[3] == row[1]) - (row[2] == row[1]) for row in cued) / len(cued),
        **{f"{name}_negated_chosen": sum(row[at] == 1 for row in cued) for name, at in sides.items()},
        **{
            f"{name}_contradictions": sum(row[at] == 1 != row[1] for row in cued if "least" not in row[0])
            for name, at in sides.items()
        },
        "declined_rate": sum(row[2] < 0 for row in rows) / len(rows),
        "parse_failure_rate": 0,
    }


@pytest.mark.usefixtures("tables_only")
def test_tables_7_and_8_are_the_counts_of_the_rows(tmp_path):
    """Random answers; an independent count, with the verifier's rule written out for four questions."""
    draw, expected = random.Random(0), {}
    for seed in ("1", "2"):
        answers, rows = [], []
        for number in range(80):
            text = draw.choice([*QUESTIONS])
            polarity, cue = QUESTIONS[text]
            gold, choice = draw.randrange(4), draw.choice([-1, 0, 1, 1, 2, 3])
            doc = question(f"rexvqa_10k_s{seed}", number, options=OPTIONS, answer=gold, counterpart=2,
                           **{"question": text, "polarity": polarity, "cue": cue})  # fmt: skip
            answers.append((doc, "I cannot tell." if choice < 0 else "ABCD"[choice]))
            verified = next((at for words, at in AS_PUBLISHED.items() if words in text), 1) if choice == 1 else choice
            rows.append((text, gold, choice, verified))
        write_log(tmp_path / "logs", "m", answers, filters=("b0", "m1", "m2"))
        expected[seed] = count_by_hand(rows)
    write_report([tmp_path / "logs"], tmp_path / "out")
    for name, key, rows_by_key in (
        ("table_07_ablations", "setting", {"10k s1": "1", "10k s2": "2"}),
        ("table_08_seeds", "seed", {"20260326": "1", "20260327": "2"}),
    ):
        printed = {row[key]: row for row in csv_rows(tmp_path / "out" / f"{name}.csv")}
        for value, seed in rows_by_key.items():
            cells = {column: float(printed[value][column]) for column in expected[seed] if column in printed[value]}
            assert len(cells) > 8
            assert cells == pytest.approx({column: expected[seed][column] for column in cells})
