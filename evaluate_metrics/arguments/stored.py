"""Rows of an `evaluate` module, checked before it stores them: its storage turns 0.5 into 0 and "False" into True."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .kinds import Kind


class CheckedRows:
    """Base of the modules of `evaluate`, next to `evaluate.Metric`."""

    def get_scorer(self) -> Callable[..., Any]:
        """Return the function that scores the rows, whose arguments are checked (`schema.check_arguments`)."""
        raise NotImplementedError

    def add(self, *, prediction: Any = None, reference: Any = None, **options: Any) -> None:
        """Add one row, checked.

        Args:
            prediction: The prediction.
            reference: The reference; None for a metric without references.
            options: Further options of evaluate.
        """
        self.check_rows(None if prediction is None else [prediction], None if reference is None else [reference])
        super().add(prediction=prediction, reference=reference, **options)  # pyrefly: ignore[missing-attribute] (a mixin)

    def add_batch(self, *, predictions: Any = None, references: Any = None, **options: Any) -> None:
        """Add rows, checked.

        Args:
            predictions: The predictions.
            references: The references; None for a metric without references.
            options: Further options of evaluate.
        """
        self.check_rows(predictions, references)
        super().add_batch(predictions=predictions, references=references, **options)  # pyrefly: ignore[missing-attribute] (a mixin)

    def check_rows(self, predictions: Any, references: Any) -> None:
        """Check rows by the kinds of the scorer's arguments.

        Args:
            predictions: The predictions, or None.
            references: The references, or None.

        Raises:
            ValueError: A value is of another kind. The message names the row and the column.
        """
        kinds: Mapping[str, Kind] = self.get_scorer().__dict__["argument_kinds"]
        for name, values in (("references", references), ("predictions", predictions)):
            if values is not None:
                kinds[name].convert(values, name)
                _read(kinds[name], values, name)

    def _enforce_nested_string_type(self, schema: Any, value: Any) -> None:
        """Let a missing text pass: evaluate refuses None in the first row, and does not look at later rows."""
        if value is not None:
            super()._enforce_nested_string_type(schema, value)  # pyrefly: ignore[missing-attribute] (a mixin)


def _read(kind: Kind, value: Any, place: str) -> None:
    """Read the values that the scorer would read later (`Kind.read`), at any depth, so that bad ones raise now."""
    if value is None:
        return
    if kind.read:
        kind.read(value, f"{place}: ")
    elif kind.entry:
        _read_each(kind.entry, value, place)
    for column, column_kind in (kind.fields or {}).items():
        _read(column_kind, value[column], f"{place}, column {column!r}")


def _read_each(kind: Kind, values: Sequence[Any], place: str) -> None:
    for number, value in enumerate(values, start=1):
        _read(kind, value, f"{place}, row {number}")
