"""Tables that print as in the papers (Markdown, LaTeX) and are saved unrounded (CSV)."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from medfaith.evaluate_metrics.confidence.proportion import FEW
from medfaith.loaders.escaping import escape_controls, escape_markdown

UNDEFINED = "–"
ORIGINAL = "original"  # the layout with the target first; suffix of the names of its tables and figures
# Signs that LaTeX reads as commands, and signs that are missing from pdfLaTeX's fonts. The LaTeX button of the page
# escapes the same signs.
_LATEX = str.maketrans({
    **{sign: f"\\{sign}" for sign in "{}$&#_%"},
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": "$<$", ">": "$>$",
    "–": "--", "→": r"$\to$", "Δ": r"$\Delta$", "κ": r"$\kappa$", "×": r"$\times$", "±": r"$\pm$", "·": r"$\cdot$",
    "★": r"$\star$", "≥": r"$\geq$", "≤": r"$\leq$", "−": "$-$", "|": r"\textbar{}", "…": r"\ldots{}", "“": "``",
    "”": "''", "\n": " ", "⟨": r"$\langle$", "⟩": r"$\rangle$",
    **dict.fromkeys(map(chr, range(0x2400, 0x2420)), "?"), "␍": " ",  # control characters after `escape_controls`
})  # fmt: skip
_LONG = 40  # a column with a longer text (characters) breaks lines
_FORMULA = re.compile(r"[=+\-@\t\n＝＋－＠]")  # start of a cell that a spreadsheet runs (OWASP, CSV Injection)
SEED = 42  # for all resampling (CXR-ContraBench, Appendix B.5)


def text(value: Any) -> str:
    """Format any value as text.

    Args:
        value: The value.

    Returns:
        The text, "–" if undefined.
    """
    return UNDEFINED if _is_undefined(value) else str(value)


def count(value: Any) -> str:
    """Format a number with commas.

    Args:
        value: A whole number.

    Returns:
        The text, "–" if undefined.
    """
    return UNDEFINED if _is_undefined(value) else f"{int(value):,}"


def count_of(value: Any, total: Any) -> str:
    """Format a part of a total: `235`, or `20 of 235` if the two differ.

    Args:
        value: The part.
        total: The total.

    Returns:
        The text.
    """
    return count(value) if value == total or _is_undefined(total) else f"{count(value)} of {count(total)}"


def share_of(value: Any, total: Any) -> str:
    """Format a part of a total with its share: `3 of 62 (4.84%)`.

    Args:
        value: The part.
        total: The total.

    Returns:
        The text, "–" if the total is undefined.
    """
    share = f"({percent(value / total)}%)" if total else ""
    return UNDEFINED if _is_undefined(total) else f"{count(value)} of {count(total)} {share}".rstrip()


def percent(value: Any) -> str:
    """Format a share in per cent: `0.31489` -> `31.49`.

    Args:
        value: A fraction.

    Returns:
        The text, "–" if undefined.
    """
    return UNDEFINED if _is_undefined(value) else f"{100 * value:.2f}"


def fraction(value: Any) -> str:
    """Format a fraction: `0.31489` -> `0.315`.

    Args:
        value: A fraction.

    Returns:
        The text, "–" if undefined.
    """
    return UNDEFINED if _is_undefined(value) else f"{value:.3f}"


def fraction_interval(value: Any, low: Any, high: Any) -> str:
    """Format a fraction with its interval.

    Args:
        value: A fraction.
        low: Lower bound.
        high: Upper bound.

    Returns:
        The text, "–" if undefined.
    """
    return UNDEFINED if _is_undefined(value) else f"{fraction(value)} [{fraction(low)}, {fraction(high)}]"


def points(value: Any) -> str:
    """Format a difference in percentage points: `0.65106` -> `+65.11`.

    Args:
        value: A difference of fractions.

    Returns:
        The text, "–" if undefined.
    """
    return UNDEFINED if _is_undefined(value) else f"{100 * value + 0.0:+.2f}"


def change(before: Any, after: Any) -> str:
    """Format two counts: `351 → 0`.

    Args:
        before: Count before.
        after: Count after.

    Returns:
        The text, "–" if undefined.
    """
    return UNDEFINED if _is_undefined(before) else f"{count(before)} → {count(after)}"


def interval(value: Any, low: Any, high: Any) -> str:
    """Format a share in per cent with its interval.

    Args:
        value: A fraction.
        low: Lower bound.
        high: Upper bound.

    Returns:
        The text, "–" if undefined.
    """
    return UNDEFINED if _is_undefined(value) else f"{percent(value)} [{percent(low)}, {percent(high)}]"


def points_interval(value: Any, low: Any, high: Any) -> str:
    """Format a difference in percentage points with its interval.

    Args:
        value: A difference of fractions.
        low: Lower bound.
        high: Upper bound.

    Returns:
        The text, "–" if undefined.
    """
    return UNDEFINED if _is_undefined(value) else f"{points(value)} [{percent(low)}, {percent(high)}]"


def paired_interval(value: Any, low: Any, high: Any, n_differ: Any) -> str:
    """Format a paired difference in percentage points with its interval.

    Args:
        value: A difference of fractions.
        low: Lower bound.
        high: Upper bound.
        n_differ: Number of groups that differ; 0 leaves nothing to resample.

    Returns:
        The text, "–" if undefined.
    """
    return "+0.00 (none differs)" if value == 0 and n_differ == 0 else points_interval(value, low, high)


def change_interval(before: Any, low: Any, high: Any, after: Any) -> str:
    """Format a count with its interval, and the count after: `351 [331, 370] → 0`.

    Args:
        before: Count before.
        low: Lower bound, rounded to a whole number.
        high: Upper bound, rounded to a whole number.
        after: Count after.

    Returns:
        The text.
    """
    ends = (UNDEFINED if _is_undefined(end) else count(round(end)) for end in (low, high))
    return f"{count(before)} [{', '.join(ends)}] → {count(after)}"


def p_value(value: Any) -> str:
    """Format a p-value, so that a text of 0.050 is not below 0.05, at which verdicts are decided.

    Args:
        value: The p-value.

    Returns:
        The text, "–" if undefined.
    """
    if _is_undefined(value):
        return UNDEFINED
    if value < 0.001:
        return "< 0.001"
    return "< 0.050" if value < 0.05 and f"{value:.3f}" == "0.050" else f"{value:.3f}"


def format_interval_note(units: str) -> str:
    """Format the note on intervals that `bootstrap_mean` computes.

    Args:
        units: The units that are resampled whole.

    Returns:
        The note.
    """
    return (
        f"95% intervals: bootstrap over {units}, 2,000 resamples, seed {SEED}; with fewer than {FEW} {units}, "
        "Student's or, of values within bounds, Wilson's; Wilson's also if nearly all values are at a bound."
    )


class Column(NamedTuple):
    """A column of a table.

    Attributes:
        title: Heading in Markdown and LaTeX; None for a column of the CSV file alone.
        names: Names of its values in the CSV file.
        show: Formats its values as one text.
    """

    title: str | None
    names: tuple[str, ...]
    show: Callable[..., str] = text


MODEL, PROMPT = Column("Model", ("model",)), Column("Prompt", ("prompt",))
PROTOCOL = Column("Protocol", ("protocol",))
SIZE = Column("n", ("n", "n_data"), count_of)
UNREAD = Column("Unread %", ("parse_failure_rate",), percent)
DECLINED = Column("Declined %", ("declined_rate",), percent)
OUTCOMES = (UNREAD, DECLINED)
UNANSWERED = Column("Unanswered", ("n_unanswered",), count)  # among the unread


def get_outcome_shares(scores: Mapping[str, Any]) -> list[Any]:
    """Get the values of `OUTCOMES`.

    Args:
        scores: Scores by name.

    Returns:
        One value for each name.
    """
    return [scores[name] for column in OUTCOMES for name in column.names]


def build_outcome_columns(side: str, title: str = "") -> list[Column]:
    """Build the columns `OUTCOMES` for one side of a table.

    Args:
        side: Prefix of the names in the CSV.
        title: Prefix of the titles; "" for none.

    Returns:
        The columns.
    """
    titles = [f"{title} {str(column.title).lower()}" if title else column.title for column in OUTCOMES]
    names = [tuple(f"{side}_{name}" for name in column.names) for column in OUTCOMES]
    return [Column(*column, percent) for column in zip(titles, names, strict=True)]


@dataclass(frozen=True)
class Table:
    """One table.

    Attributes:
        name: Name of its files without suffix.
        title: The title.
        columns: The columns.
        rows: A value for each name of each column; NaN and None are undefined.
        notes: The notes.
        n_printed: Number of rows in Markdown and LaTeX; None for all.
    """

    name: str
    title: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Any]]
    notes: Sequence[str] = ()
    n_printed: int | None = None

    def cells(self) -> tuple[list[str], list[list[str]]]:
        """Format the titles and the printed rows as texts."""
        titles = [column.title for column in self.columns if column.title is not None]
        return titles, [self._format_row(row) for row in self.rows[: self.n_printed]]

    def records(self) -> list[dict[str, Any]]:
        """Return the rows by the names of their values."""
        names = [name for column in self.columns for name in column.names]
        return [dict(zip(names, row, strict=True)) for row in self.rows]

    def markdown(self) -> str:
        """Format the table as Markdown."""
        titles, rows = self.cells()
        lines = [
            "| " + " | ".join(map(_escape_cell, titles)) + " |",
            "|" + "|".join("---" if c.show is text else "---:" for c in self.columns if c.title is not None) + "|",
            *("| " + " | ".join(map(_escape_cell, row)) + " |" for row in rows),
        ]
        for note in self._list_notes():
            lines += ["", escape_markdown(note)]
        return "\n".join([f"## {self.title}", "", *lines])

    def latex(self) -> str:
        """Format as a floating LaTeX table (booktabs) with the rows of Markdown and the notes in its caption."""
        titles, rows = self.cells()
        columns = [column for column in self.columns if column.title is not None]
        layout = "".join(_get_alignment(column, [row[at] for row in rows]) for at, column in enumerate(columns))
        title, *notes = map(_escape_latex, (self.title, *self._list_notes()))
        lines = [
            r"% \usepackage{booktabs}",
            r"\begin{table}",
            r"\centering",
            rf"\caption[{{{title}}}]{{{' '.join([f'{title}.', *notes])}}}",
            rf"\label{{tab:{self.name}}}",
            rf"\begin{{tabular}}{{{layout}}}",
            r"\toprule",
            _format_latex_row(titles),
            r"\midrule",
            *map(_format_latex_row, rows),
            r"\bottomrule",
            r"\end{tabular}",
            r"\end{table}",
        ]
        return "\n".join(lines) + "\n"

    def csv(self) -> str:
        """Format all rows as CSV, unrounded; a value that several columns print is written once."""
        file = io.StringIO()
        writer = csv.writer(file, lineterminator="\n")
        names = [name for column in self.columns for name in column.names]
        lines = [[*map(_format_csv_cell, line)] for line in (names, *self.rows)]
        first_by_values = {values: position for position, values in reversed([*enumerate(zip(*lines, strict=True))])}
        writer.writerows([line[position] for position in sorted(first_by_values.values())] for line in lines)
        return file.getvalue()

    def _list_notes(self) -> list[str]:
        """List the table's notes, after a note on the rows that are not printed."""
        if self.n_printed is None or self.n_printed >= len(self.rows):
            return [*self.notes]
        cut = f"The first {self.n_printed} of {len(self.rows):,} rows; {self.name}.csv has all of them."
        return [cut, *self.notes]

    def _format_row(self, row: Sequence[Any]) -> list[str]:
        values, cells = iter(row), []
        for column in self.columns:
            column_values = [next(values) for _ in column.names]
            if column.title is not None:
                cells.append(column.show(*column_values))
        return cells


def _is_undefined(value: Any) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


def _escape_cell(cell: str) -> str:
    return escape_markdown(cell.replace("\\", "\\\\").replace("|", "\\|").replace("\n", " ").replace("\r", " "))


def _get_alignment(column: Column, cells: Sequence[str]) -> str:
    """Get the LaTeX alignment of a column: numbers right, texts left, long texts with line breaks."""
    if column.show is not text:
        return "r"
    return r"p{0.3\linewidth}" if max(map(len, cells), default=0) > _LONG else "l"


def _escape_latex(value: str) -> str:
    return escape_controls(value).translate(_LATEX)


def _format_latex_row(cells: Sequence[str]) -> str:
    row = " & ".join(map(_escape_latex, cells))
    return (
        ("{}" if row.startswith(("[", "*")) else "") + row + r" \\"
    )  # otherwise the \\ of the line above reads these as its argument


def _format_csv_cell(value: Any) -> Any:
    """Format a value as a cell of a CSV file; a text that a spreadsheet would run begins with '."""
    if not isinstance(value, str):
        return "" if _is_undefined(value) else value
    lines = escape_controls(value.replace("\r\n", "\n").replace("\r", "\n"))  # readers end a row at an unquoted \r
    return f"'{lines}" if _FORMULA.match(lines) and not _is_number(lines) else lines


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
