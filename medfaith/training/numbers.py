"""Numbers that options of trainings take."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable


def number(expected: str, fits: Callable[[float], bool]) -> Callable[[str], float]:
    """What argparse reads an option with: a finite number that fits, or an error that says what was expected."""

    def read(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not math.isfinite(value) or not fits(value):
            raise argparse.ArgumentTypeError(f"expected {expected}, got {text!r}")
        return value

    return read
