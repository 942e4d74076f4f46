"""Tables as LaTeX and CSV: commands and spreadsheet formulas in cells are escaped."""

from __future__ import annotations

import csv
import io

import pytest

from medfaith.reporting.tables import MODEL, Column, Table, count, count_of, p_value, paired_interval, percent

SCORE = Column("Acc. %", ("accuracy",), percent)


def make_table(*rows: list, **changes) -> Table:
    return Table("runs_a", "Runs", [MODEL, SCORE, Column(None, ("task",))], rows, **changes)


def test_csv_has_each_value_once():
    shares = [
        Column(title, (name, "n"), count_of) for title, name in (("unread", "n_unread"), ("declined", "n_declined"))
    ]
    saved = Table("t", "T", [MODEL, *shares], [["m", 1, 9, 2, 9]]).csv()
    assert saved == "model,n_unread,n,n_declined\nm,1,9,2\n"
    named_alike = Table("t", "T", [MODEL, Column("n", ("n",)), Column("n", ("n",))], [["m", 1, 2]])  # by finding
    assert named_alike.csv() == "model,n,n\nm,1,2\n"


def test_latex_shows_what_markdown_shows():
    score_table = make_table(
        ["m", 0.5, "t"], ["n", float("nan"), "t"], ["o", 1.0, "t"], notes=["A 95% interval."], n_printed=2
    )
    assert score_table.latex().splitlines() == [
        r"% \usepackage{booktabs}",
        r"\begin{table}",
        r"\centering",
        r"\caption[{Runs}]{Runs. The first 2 of 3 rows; runs\_a.csv has all of them. A 95\% interval.}",
        r"\label{tab:runs_a}",
        r"\begin{tabular}{lr}",
        r"\toprule",
        r"Model & Acc. \% \\",
        r"\midrule",
        r"m & 50.00 \\",
        r"n & -- \\",
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",
    ]
    assert r"\begin{tabular}{p{0.3\linewidth}r}" in make_table(["a long name " * 4, 0.5, ""]).latex()
    assert r"\begin{tabular}{lr}" in make_table().latex()


@pytest.mark.parametrize(
    ("name", "cell"),
    [
        ("llava_1.5 & 5% #1 $x$ {y}", r"llava\_1.5 \& 5\% \#1 \$x\$ \{y\}"),
        ("\\input{x} ~ ^", r"\textbackslash{}input\{x\} \textasciitilde{} \textasciicircum{}"),
        ("“X” → Δ < 1 | a\nb", r"``X'' $\to$ $\Delta$ $<$ 1 \textbar{} a b"),
        ("[x] m", "{}[x] m"),  # the end of the line above would take it for an option
        ("*m", "{}*m"),
        ("a\x1b[31m\u202e\rb", r"a?[31m$\langle$U+202E$\rangle$ b"),  # escape sequences of a terminal
    ],
)
def test_latex_takes_no_text_for_a_command(name, cell):
    assert make_table([name, None, ""]).latex().splitlines()[9] == rf"{cell} & -- \\"


@pytest.mark.parametrize(
    ("value", "cell"),
    [
        ("=1+2", "'=1+2"), ("@cf/meta/llama", "'@cf/meta/llama"), ("+cmd", "'+cmd"), ("-2+3", "'-2+3"),
        ("\ta", "'\ta"), ("\n=1", "'\n=1"), ("＝1", "'＝1"),
        ("a\r\nb\rc", "a\nb\nc"), ("m=1", "m=1"), ("'=1", "'=1"), ("", ""),
        ("-0.5", "-0.5"), ("+2", "+2"), (-0.5, "-0.5"), (-3, "-3"), (None, ""), (float("nan"), ""),
    ],
)  # fmt: skip
def test_a_spreadsheet_runs_no_text_of_a_csv(value, cell):
    saved = Table("t", "T", [MODEL, Column("n", ("n",), count)], [[value, -1]]).csv()
    assert [*csv.reader(io.StringIO(saved, newline=""))] == [["model", "n"], [cell, "-1"]]


@pytest.mark.parametrize(
    ("finding", "cell"),
    [('=HYPERLINK("x")', '\'=HYPERLINK("x")'), ("a\rb", "a\nb"), ("a\0b", "a␀b"), ("\u202etxt", "⟨U+202E⟩txt")],
)
def test_a_header_is_escaped_like_the_cells_below_it(finding, cell):
    """A table by finding has the findings of the rows in its header."""
    saved = Table("t", "T", [MODEL, Column(finding, (finding,), count)], [["m", 1]])
    assert next(csv.reader(io.StringIO(saved.csv(), newline=""))) == ["model", cell]
    assert all(text not in saved.markdown() + saved.latex() for text in ("\0", "\r", "\u202e"))


@pytest.mark.parametrize(
    ("difference", "cell"),
    [
        ((0.1, 0.05, 0.2, 3), "+10.00 [5.00, 20.00]"),
        ((0.0, 0.0, 0.0, 0), "+0.00 (none differs)"),
        ((float("nan"), float("nan"), float("nan"), 0), "–"),  # no row has both scores, so none differs
        ((None, None, None, None), "–"),
    ],
)
def test_a_difference_needs_rows(difference, cell):
    assert paired_interval(*difference) == cell


@pytest.mark.parametrize(
    ("value", "total", "text"),
    [(235, 235, "235"), (20, 1235, "20 of 1,235"), (0, 3, "0 of 3"), (20, None, "20"), (20, float("nan"), "20")],
)
def test_a_part_names_its_total_if_it_is_known_and_differs(value, total, text):
    assert count_of(value, total) == text


@pytest.mark.parametrize(
    ("value", "cell"),
    [
        (1 / 10_001, "< 0.001"), (0.001, "0.001"), (0.0494, "0.049"), (500 / 10_001, "< 0.050"), (0.05, "0.050"),
        (0.0502, "0.050"), (1.0, "1.000"), (float("nan"), "–"),
    ],
)  # fmt: skip
def test_a_p_value_is_below_5_percent_as_its_text_says(value, cell):
    assert p_value(value) == cell
