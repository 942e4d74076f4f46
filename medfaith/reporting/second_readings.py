"""Answers read twice, by words and by a language model: agreement of both readings, and the scores by each.

All other tables use the reading by words.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from medfaith.extractor import Extractor

from .tables import Column, Table, count, fraction

if TYPE_CHECKING:
    from .results import Results

COUNTS = ("n_unread_ours", "n_unread_theirs", "n_only_ours", "n_only_theirs")  # values of COUNTED in an agreement
TASK = Column(None, ("task",))
KAPPA = Column("κ", ("kappa",), fraction)
COUNTED = [
    Column("Unread by words", ("n_unread_words",), count),
    Column("Unread by the model", ("n_unread_model",), count),
    Column("Read by words only", ("n_only_words",), count),
    Column("Read by the model only", ("n_only_model",), count),
]


def build_second_readings(results: Results, extractor: Extractor) -> tuple[list[Table], list[str]]:
    """Build the tables of second readings of all benchmarks.

    Args:
        results: The runs.
        extractor: The language model.

    Returns:
        The tables of the answers that exist, and a note if there are none.
    """
    tables = [table for benchmark, runs in results.runs.items() for table in benchmark.read_again(runs, extractor)]
    note = f"there are no answers for a language model to read: the extractor {extractor.name} was not used"
    return tables, [] if tables else [note]


def format_reading_note(extractor: Extractor, noun: str) -> str:
    """Format the note on two readings.

    Args:
        extractor: The language model.
        noun: Name of what is read, in the plural.

    Returns:
        The note.
    """
    return (
        f"By the model: {noun} read by {extractor.name}, asked with this package's prompt. κ: Cohen's. In both, unread "
        "is a reading of its own. Read by one only: the other could not read it."
    )
