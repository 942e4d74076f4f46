"""Plain tables for the terminal."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from medfaith.loaders.escaping import escape_controls


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Format columns, padded to their widest cell; numeric columns are aligned right.

    Args:
        header: Titles.
        rows: Cells.

    Returns:
        The text.

    >>> print(table(["name", "rows"], [["a", "1,024"], ["bc", "7"]]))
    name   rows
    ----  -----
    a     1,024
    bc        7
    """
    cells = [list(header), *[[escape_controls(cell).replace("\n", "␊") for cell in row] for row in rows]]
    widths = [max(len(row[i]) for row in cells) for i in range(len(header))]
    rows = cells[1:]
    right = [all(row[i][:1] in "0123456789+-–" for row in rows) and bool(rows) for i in range(len(header))]

    def line(row: Sequence[str]) -> str:
        padded = (c.rjust(w) if r else c.ljust(w) for c, w, r in zip(row, widths, right, strict=True))
        return "  ".join(padded).rstrip()

    return "\n".join([line(header), "  ".join("-" * w for w in widths), *[line(row) for row in rows]])


def percent(value: float) -> str:
    """Format a fraction in per cent: `0.9660` -> `96.60`; `–` for an undefined value.

    Args:
        value: A fraction, or None.

    Returns:
        The text.
    """
    return "–" if value is None or math.isnan(value) else f"{100 * value:.2f}"


def verdict_table(verdicts: Sequence[Any], published: Mapping[str, Mapping[str, Any]] | None) -> str:
    """Format the result of `medfaith verify`: a line for each split, its problems, and differences from the paper.

    Args:
        verdicts: One verdict for each split.
        published: The paper's counts by config/split; None omits the comparison.

    Returns:
        The text.
    """
    unit = "studies" if any("studies" in v.summary for v in verdicts) else "images"
    header = ["config", "split", "rows", unit, "build"]
    if published is not None:
        header += ["reference", "paper: rows", unit]
    rows, notes = [], []
    for v in verdicts:
        name = f"{v.config}/{v.split}"
        rows.append(
            [
                v.config,
                v.split,
                f"{v.summary['rows']:,}",
                f"{v.summary[unit]:,}" if unit in v.summary else "–",
                "FAULTY" if v.problems else "sound",
            ]
        )
        notes += [f"{name}: {problem}" for problem in v.problems]
        if published is not None:
            paper = published.get(name, {})
            rows[-1] += [v.reference, *(f"{paper[k]:,}" if k in paper else "–" for k in ("rows", unit))]
            if v.reference == "differs":
                why = "the same label files gave others there" if v.same_labels else "its label files are others"
                notes.append(f"{name}: these are not the rows of the reference; {why}")
            notes += [] if v.problems else _compare_with_paper(name, v.summary, paper)
    return "\n".join([table(header, rows), *notes])


def _compare_with_paper(name: str, summary: Mapping[str, Any], paper: Mapping[str, Any]) -> list[str]:
    notes = []
    if "note" in paper:
        notes.append(f"{name}: {paper['note']}")
    if "rows" in paper and paper["rows"] != summary["rows"] and "explained" in paper:
        notes.append(f"{name}: {paper['explained']}")
    if "findings" in paper:
        counts = summary["counts"]["finding"]
        compared = ", ".join(f"{finding} {counts.get(finding, 0)} ({n})" for finding, n in paper["findings"].items())
        notes.append(f"{name}: records by finding, here (in the paper): {compared}")
    if "multi_image" in paper:
        notes.append(
            f"{name}: records with several images, here (in the paper): "
            f"{summary['multi_image']} ({paper['multi_image']})"
        )
    return notes
