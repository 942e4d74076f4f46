"""The figures of CXR-ContraBench's paper: all of its tables are there, and arithmetic would show a mistyped digit."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from medfaith.builders.cxr_contrabench.rexvqa import SLICES
from medfaith.builders.cxr_contrabench.wording import LAYOUTS, NEGATION_FORMS, QUESTION_FORMS
from medfaith.reporting import contrabench

FIGURES = tomllib.loads((Path(contrabench.__file__).parent / "published.toml").read_text(encoding="utf-8"))
DOCS = Path(__file__).parents[2] / "docs" / "reports.md"
N_PAPER_TABLES = 21
PROTOCOLS = {"chexpert_presence": 235, "chexpert_absence": 507, "openi_report_absence": 359}
SIZES = PROTOCOLS | {  # table, column or key: number of the paper's questions
    "CheXpert direct presence": 235, "CheXpert report-style absence": 507, "OpenI report-style absence": 359,
    "Direct presence val.": 235, "Direct presence train": 135_754,
    "Report-style absence val.": 507, "Report-style absence train": 25_900,
    "1k": 1_000, "5k": 5_000, "10k": 10_000, "10k s1": 10_000, "10k s2": 10_000, "10k s3": 10_000,
    "3x10k pooled": 30_000, "All": 1_375, "Absence": 979, "Presence": 396,
    "atelectasis": 62, "cardiomegaly": 51, "consolidation": 31, "edema": 33, "pleural_effusion": 56, "pneumothorax": 2,
    "Table 8": 10_000, "table_11_audit_models": 396, "Tables 2 and 12": 507, "Table 13": 507, "Table 16": 210,
    "Table 20": 235, "Table 21": 507,
}  # fmt: skip
SHARES = ("accuracy", "base_error_rate", "direct_reversal_rate", "parse_failure_rate", "coverage")
DIFFERENCES = {  # difference: minuend, subtrahend
    "delta": ("verified_accuracy", "base_accuracy"),
    **{f"{name}_delta": (f"{name}_verified_accuracy", f"{name}_base_accuracy") for name in PROTOCOLS},
}


def iterate_rows() -> Iterator[tuple[list[str], dict[str, str]]]:
    """Iterate over the names of a row's table with the row's keys, and the row's figures by column."""
    for table in FIGURES["tables"]:
        for row in table["rows"]:
            keys, figures = row[: len(table["keys"])], row[len(table["keys"]) :]
            yield [table["name"], table["paper"], *keys], dict(zip(table["columns"], figures, strict=True))


def test_each_share_is_one_of_the_papers_questions():
    """Of the 10,000 percentages with two decimals, 235 questions have 236."""
    n_shares, wrong = 0, []
    for names, figures in iterate_rows():
        for column, text in figures.items():
            if not column.endswith(SHARES) and "Table 14" not in names:
                continue
            protocols = [protocol for protocol in PROTOCOLS if column.startswith(protocol)]
            size = next(SIZES[name] for name in [column, *protocols, *names] if name in SIZES)
            n_shares += 1
            if f"{100 * round(float(text) * size / 100) / size:.2f}" != text:
                wrong.append((names, column, text))
    assert n_shares > 300
    assert not wrong


def test_each_difference_is_that_of_its_accuracies():
    """But for the paper's rounding."""
    n_differences = 0
    for names, figures in iterate_rows():
        pairs = DIFFERENCES | ({"delta": ("control_accuracy", "direct_accuracy")} if "Table 16" in names else {})
        for difference, (minuend, subtrahend) in pairs.items():
            if difference in figures and subtrahend in figures:
                n_differences += 1
                expected = float(figures[minuend]) - float(figures[subtrahend])
                assert float(figures[difference]) == pytest.approx(expected, abs=0.0101), (names, difference)
    assert n_differences == 30 + 6 + 8 + 3 + 4  # Tables 9, 5, 6, 8 and 16


def test_each_interval_holds_its_estimate():
    """The estimate stands before its bounds."""
    n_intervals = 0
    for names, figures in iterate_rows():
        columns = [*figures]
        for at, column in enumerate(columns):
            if column.endswith("_low") and "Table 3" not in names:
                n_intervals += 1
                estimate, low, high = (float(figures[name]) for name in columns[at - 1 : at + 2])
                assert low <= estimate <= high, (names, column)
    assert n_intervals == 3 * (16 + 6)  # Tables 4 and 5


@pytest.mark.parametrize(
    ("key", "values"),
    [
        ("question_form", QUESTION_FORMS["absence"]),
        ("negation_form", NEGATION_FORMS),
        ("layout", LAYOUTS),
        ("seed", {str(seed) for _, seed in SLICES.values() if seed}),
    ],
)
def test_the_keys_are_values_of_our_rows(key, values):
    tables = [table for table in FIGURES["tables"] if key in table["keys"]]
    assert {row[table["keys"].index(key)] for table in tables for row in table["rows"]} <= {*values}


def test_every_table_of_the_paper_is_here_or_among_those_left_out():
    here = {int(number) for table in FIGURES["tables"] for number in re.findall(r"\d+", table["paper"])}
    lines = re.findall(
        r"^\| CXR-ContraBench \| Tables? ([\d, and]+) \|", DOCS.read_text(encoding="utf-8"), re.MULTILINE
    )
    left_out = {int(number) for line in lines for number in re.findall(r"\d+", line)}
    assert not here & left_out
    assert here | left_out == {*range(1, N_PAPER_TABLES + 1)}
