"""A table that prints as in the paper (Markdown, LaTeX) and is saved as it was computed (CSV, unrounded)."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from medfaith.loaders.escaping import escape_controls, escape_markdown

UNDEFINED = "–"
TITLES = {
    "cxr-contrabench": "CXR-ContraBench",
    "heal-medvqa": "HEAL-MedVQA",
    "surgxbench": "SurgXBench",
    "wrong-lung": "That's the Wrong Lung!",
}
# What LaTeX would take for a command, and signs that pdfLaTeX's fonts lack. The page's button for LaTeX escapes alike.
_LATEX = str.maketrans({
    **{sign: f"\\{sign}" for sign in "{}$&#_%"},
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": "$<$", ">": "$>$",
    "–": "--", "→": r"$\to$", "Δ": r"$\Delta$", "κ": r"$\kappa$", "×": r"$\times$", "±": r"$\pm$", "·": r"$\cdot$",
    "≥": r"$\geq$", "≤": r"$\leq$", "−": "$-$", "|": r"\textbar{}", "…": r"\ldots{}", "“": "``",
    "”": "''", "\n": " ", "⟨": r"$\langle$", "⟩": r"$\rangle$",
    **dict.fromkeys(map(chr, range(0x2400, 0x2420)), "?"), "␍": " ",  # as `visible` shows control characters
})  # fmt: skip
_LONG = 40  # characters of a text from which its column breaks lines
_FORMULA = re.compile(r"[=+\-@\t\n＝＋－＠]")  # how a cell begins that a spreadsheet runs (OWASP, CSV Injection)
SEED = 42  # of all resampling, as in Appendix B.5 of CXR-ContraBench


def text(value: Any) -> str:
    return UNDEFINED if _undefined(value) else str(value)


def count(value: Any) -> str:
    return UNDEFINED if _undefined(value) else f"{int(value):,}"


def count_of(value: Any, total: Any) -> str:
    """`235`, or `20 of 235` where not all of them are there."""
    return count(value) if value == total or _undefined(total) else f"{count(value)} of {count(total)}"


def share_of(value: Any, total: Any) -> str:
    """`3 of 62 (4.84%)`."""
    share = f"({percent(value / total)}%)" if total else ""
    return UNDEFINED if _undefined(total) else f"{count(value)} of {count(total)} {share}".rstrip()


def percent(value: Any) -> str:
    """`0.31489` -> `31.49`."""
    return UNDEFINED if _undefined(value) else f"{100 * value:.2f}"


def fraction(value: Any) -> str:
    """`0.31489` -> `0.315`."""
    return UNDEFINED if _undefined(value) else f"{value:.3f}"


def fraction_interval(value: Any, low: Any, high: Any) -> str:
    return UNDEFINED if _undefined(value) else f"{fraction(value)} [{fraction(low)}, {fraction(high)}]"


def points(value: Any) -> str:
    """A difference in percentage points: `0.65106` -> `+65.11`."""
    return UNDEFINED if _undefined(value) else f"{100 * value + 0.0:+.2f}"


def change(before: Any, after: Any) -> str:
    return UNDEFINED if _undefined(before) else f"{count(before)} → {count(after)}"


def interval(value: Any, low: Any, high: Any) -> str:
    return UNDEFINED if _undefined(value) else f"{percent(value)} [{percent(low)}, {percent(high)}]"


def points_interval(value: Any, low: Any, high: Any) -> str:
    return UNDEFINED if _undefined(value) else f"{points(value)} [{percent(low)}, {percent(high)}]"


def paired_interval(value: Any, low: Any, high: Any, n_differ: Any) -> str:
    """As `points_interval`; where no row differs there is nothing to resample, and without rows no difference."""
    return "+0.00 (none differs)" if value == 0 and n_differ == 0 else points_interval(value, low, high)


def change_interval(before: Any, low: Any, high: Any, after: Any) -> str:
    """Counts: `351 [331, 370] → 0`; the ends of an interval of a count are rounded to whole ones."""
    ends = (UNDEFINED if _undefined(end) else count(round(end)) for end in (low, high))
    return f"{count(before)} [{', '.join(ends)}] → {count(after)}"


def p_value(value: Any) -> str:
    if _undefined(value):
        return UNDEFINED
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def intervals_of(units: str) -> str:
    """The note on intervals that `bootstrap_mean` finds with bounds, by drawing whole units."""
    return (
        f"95% intervals: bootstrap over {units}, 2,000 resamples, seed {SEED}; Wilson's where nearly all values are "
        "the least or the greatest that there can be."
    )


class Column(NamedTuple):
    """title: in Markdown, None to leave it out there; names: of its values in the CSV; show: from them to the print."""

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


def outcome_shares(scores: Mapping[str, Any]) -> list[Any]:
    """The values of `OUTCOMES`."""
    return [scores[name] for column in OUTCOMES for name in column.names]


def outcomes_of(side: str, title: str = "") -> list[Column]:
    """`OUTCOMES` of one side of a table.

    Args:
        side: What the names in the CSV begin with.
        title: What the titles begin with; none without it.
    """
    titles = [f"{title} {str(of.title).lower()}" if title else of.title for of in OUTCOMES]
    names = [tuple(f"{side}_{name}" for name in of.names) for of in OUTCOMES]
    return [Column(*of, percent) for of in zip(titles, names, strict=True)]


@dataclass(frozen=True)
class Table:
    """One table.

    name: of its CSV file. rows: flat, a value for each name of each column; NaN and None are undefined.
    n_printed: how many rows Markdown shows, all by default.
    """

    name: str
    title: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Any]]
    notes: Sequence[str] = ()
    n_printed: int | None = None

    def cells(self) -> tuple[list[str], list[list[str]]]:
        """The titles and the rows that are printed, as texts."""
        titles = [column.title for column in self.columns if column.title is not None]
        return titles, [self._cells(row) for row in self.rows[: self.n_printed]]

    def markdown(self) -> str:
        titles, rows = self.cells()
        lines = [
            "| " + " | ".join(map(_escape, titles)) + " |",
            "|" + "|".join("---" if c.show is text else "---:" for c in self.columns if c.title is not None) + "|",
            *("| " + " | ".join(map(_escape, row)) + " |" for row in rows),
        ]
        for note in self._all_notes():
            lines += ["", escape_markdown(note)]
        return "\n".join([f"## {self.title}", "", *lines])

    def latex(self) -> str:
        """A floating table for the package booktabs, with the notes in its caption; the rows that Markdown shows."""
        titles, rows = self.cells()
        shown = [column for column in self.columns if column.title is not None]
        layout = "".join(_alignment(column, [row[at] for row in rows]) for at, column in enumerate(shown))
        title, *notes = map(_latex, (self.title, *self._all_notes()))
        lines = [
            r"% \usepackage{booktabs}",
            r"\begin{table}",
            r"\centering",
            rf"\caption[{{{title}}}]{{{' '.join([f'{title}.', *notes])}}}",
            rf"\label{{tab:{self.name}}}",
            rf"\begin{{tabular}}{{{layout}}}",
            r"\toprule",
            _latex_row(titles),
            r"\midrule",
            *map(_latex_row, rows),
            r"\bottomrule",
            r"\end{tabular}",
            r"\end{table}",
        ]
        return "\n".join(lines) + "\n"

    def csv(self) -> str:
        file = io.StringIO()
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(name for column in self.columns for name in column.names)
        writer.writerows(map(_saved, row) for row in self.rows)
        return file.getvalue()

    def _all_notes(self) -> list[str]:
        """Those of the table, after one on the rows that are not printed."""
        if self.n_printed is None or self.n_printed >= len(self.rows):
            return [*self.notes]
        cut = f"The first {self.n_printed} of {len(self.rows):,} rows; {self.name}.csv has all of them."
        return [cut, *self.notes]

    def _cells(self, row: Sequence[Any]) -> list[str]:
        values, cells = iter(row), []
        for column in self.columns:
            own = [next(values) for _ in column.names]
            if column.title is not None:
                cells.append(column.show(*own))
        return cells


def _undefined(value: Any) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


def _escape(cell: str) -> str:
    return escape_markdown(cell.replace("\\", "\\\\").replace("|", "\\|").replace("\n", " ").replace("\r", " "))


def _alignment(column: Column, cells: Sequence[str]) -> str:
    """Of a column in LaTeX: figures stand right, words left, and long words break."""
    if column.show is not text:
        return "r"
    return r"p{0.3\linewidth}" if max(map(len, cells), default=0) > _LONG else "l"


def _latex(words: str) -> str:
    return escape_controls(words).translate(_LATEX)


def _latex_row(cells: Sequence[str]) -> str:
    row = " & ".join(map(_latex, cells))
    return ("{}" if row.startswith(("[", "*")) else "") + row + r" \\"  # the \\ of the line above would take these


def _saved(value: Any) -> Any:
    """A value as its cell in a CSV file. A text (no number) that a spreadsheet would run begins with ' there."""
    if not isinstance(value, str):
        return "" if _undefined(value) else value
    lines = escape_controls(
        value.replace("\r\n", "\n").replace("\r", "\n")
    )  # readers take a lone \r, unquoted, for the end of a row
    return f"'{lines}" if _FORMULA.match(lines) and not _is_number(lines) else lines


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
