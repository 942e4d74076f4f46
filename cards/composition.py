"""The composition of a repository in numbers: counts of the build next to counts in the paper."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from . import read_published, small_counts
from .publication import Publication

SHOWN = 12  # number of values listed for a column


def format_composition(publication: Publication) -> str:
    """Format the numbers of each split, the label counts, the paper's figures, the skipped rows and the absent splits.

    Args:
        publication: The repository.

    Returns:
        Markdown.
    """
    record = publication.described_record
    paper = read_published(record["benchmark"])
    blocks = ["The rows of each split. `–` means that it was not counted, or that the paper does not print it."]
    blocks.append(_format_sizes(record["splits"], paper))
    if labels := _format_labels(record["splits"], paper):
        blocks.append(format_table(["config/split", "column", "values"], labels))
    blocks += format_notes(record["splits"], paper)
    if skipped := record.get("skipped"):
        listed = "\n".join(f"- {small_counts.format_count(count)} {reason}" for reason, count in skipped.items())
        blocks.append(f"The build left out or counted:\n\n{listed}")
    if absent := record.get("absent"):
        listed = "\n".join(f"- `{split}`: {reason}" for split, reason in absent.items())
        blocks.append(f"The build lacks these splits:\n\n{listed}")
    return "\n\n".join(blocks)


def format_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Format a Markdown table; `|` in a cell is escaped.

    >>> print(format_table(["a", "b"], [["1", "x|y"]]))
    | a | b |
    |---|---|
    | 1 | x\\|y |

    Args:
        header: The names of the columns.
        rows: The cells of each row.

    Returns:
        Markdown.
    """
    lines = [header, ["---"] * len(header), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return "\n".join("|---" * len(line) + "|" if line[0] == "---" else f"| {' | '.join(line)} |" for line in lines)


def _format_sizes(splits: Mapping[str, Any], paper: Mapping[str, Mapping[str, Any]]) -> str:
    measures = [m for m in ("studies", "images", "multi_image") if any(m in split for split in splits.values())]
    names = {"multi_image": "with several images"}
    printed = [m for m in ("rows", *measures) if any(m in paper.get(key, {}) for key in splits)]
    head = ["config", "split", "rows", *(names.get(m, m) for m in measures)]
    head += [f"paper: {names.get(m, m)}" for m in printed]
    rows = []
    for key, split in splits.items():
        counts = [split, *[split] * len(measures), *[paper.get(key, {})] * len(printed)]
        cells = (_format_number(figures, m) for figures, m in zip(counts, ("rows", *measures, *printed), strict=True))
        rows.append([*(f"`{name}`" for name in key.split("/")), *cells])
    return format_table(head, rows)


def _format_number(counts: Mapping[str, Any], name: str) -> str:
    return small_counts.format_count(counts[name]) if name in counts else "–"


def _format_labels(splits: Mapping[str, Any], paper: Mapping[str, Mapping[str, Any]]) -> list[list[str]]:
    """Format the columns with more than one value, with the paper's counts of findings in brackets, if it prints them.

    Splits with the same counts share one line.
    """
    rows: dict[tuple[str, str], list[str]] = {}
    for key, split in splits.items():
        for column, counts in split["counts"].items():
            if len(counts) > 1:
                printed = paper.get(key, {}).get("findings", {}) if column == "finding" else {}
                most = sorted(counts.items(), key=lambda pair: -pair[1] if isinstance(pair[1], int) else 0)[:SHOWN]
                cells = [
                    f"{value} {small_counts.format_count(n)}"
                    + (f" (paper: {printed[value]:,})" if value in printed else "")
                    for value, n in most
                ]
                more = f", and {len(counts) - SHOWN} more" if len(counts) > SHOWN else ""
                rows.setdefault((column, ", ".join(cells) + more), []).append(f"`{key}`")
    return [[", ".join(keys), column, values] for (column, values), keys in rows.items()]


def format_notes(splits: Mapping[str, Any], paper: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Format notes on the place of the paper's figures, and on differences of the build; each once, with its splits.

    Args:
        splits: The splits of build.json.
        paper: The paper's figures by `config/split`.

    Returns:
        A Markdown list, or nothing.
    """
    keys_by_note: dict[str, list[str]] = {}
    for key, split in splits.items():
        paper_figures = paper.get(key, {})
        if "note" in paper_figures:
            keys_by_note.setdefault(paper_figures["note"], []).append(key)
        elif paper_figures.get("rows", split["rows"]) != split["rows"]:
            why = paper_figures.get("explained", "the paper's figure is of the official labels")
            keys_by_note.setdefault(f"other than in the paper ({paper_figures['where']}): {why}", []).append(key)
    if not keys_by_note:
        return []
    return ["\n".join(f"- {', '.join(f'`{key}`' for key in keys)}: {note}" for note, keys in keys_by_note.items())]
