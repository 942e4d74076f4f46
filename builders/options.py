"""What a build can be told beside its configs and its seed: the fields of a frozen dataclass, each one an option.

    @dataclass(frozen=True, slots=True)
    class Options:
        swap: str = field(default="words", metadata=option("how sides are exchanged", choices=("words", "substring")))

From such a class the command makes its parser, a card the command that builds again, and `check` its refusals.
"""

from __future__ import annotations

import argparse
import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..loaders.errors import InputError


@dataclass(frozen=True, slots=True)
class Option:
    """How one field is given on the command line.

    help: what it says, without its default. flag: "" is the field's name. choices: all values that there are; empty:
    any. kind: makes a value of its text; None is the type of the field's default. default: the default in words; "" is
    the value itself. within: the lowest and the highest number that it may be. below_out: default of a folder, by its
    name below the folder that a build writes to. repeatable: whether the field is a tuple, of which each value has a
    flag of its own.
    """

    help: str
    flag: str = ""
    choices: Sequence[str] = ()
    kind: Callable[[str], Any] | None = None
    default: str = ""
    within: tuple[float, float] | None = None
    metavar: str | None = None
    below_out: str = ""
    repeatable: bool = False


def option(help: str, **how: Any) -> Mapping[str, Option]:
    """Metadata of a field that is an option. how: see `Option`."""
    return {"option": Option(help, **how)}


def group(of: type) -> Mapping[str, type]:
    """Metadata of a field that is None or options of another class: they are given together with the first of them."""
    return {"group": of}


def whole(above: int) -> Callable[[str], int]:
    """What argparse reads an option with: a whole number above another; its error says what was expected."""

    def read(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = above
        if value <= above:
            raise argparse.ArgumentTypeError(f"expected a whole number above {above}, got {text!r}")
        return value

    return read


def declared(of: type) -> dict[str, Option]:
    """The options of a class by the field's name, without those of its groups; complete."""
    return {
        field.name: _complete(field, field.metadata["option"])
        for field in dataclasses.fields(of)
        if "option" in field.metadata
    }


def groups(of: type) -> dict[str, type]:
    """The groups of a class by the field's name."""
    return {field.name: field.metadata["group"] for field in dataclasses.fields(of) if "group" in field.metadata}


def _complete(field: dataclasses.Field[Any], one: Option) -> Option:
    values = field.default if isinstance(field.default, tuple) else (field.default,)
    return dataclasses.replace(
        one,
        flag=one.flag or f"--{field.name.replace('_', '-')}",
        kind=one.kind or type(values[0]),
        default=one.default or ", ".join(map(str, values)),
        repeatable=isinstance(field.default, tuple),
    )


def check(options: Any) -> None:
    """Raises InputError for a value that is none of an option's choices, or that is out of its range."""
    for name, one in declared(type(options)).items():
        value = getattr(options, name)
        for single in value if one.repeatable else (value,):
            if one.choices and single not in one.choices:
                expected = f"one of {', '.join(one.choices)}"
                raise InputError(f"{one.flag} {single}", "there is no such choice", expected=expected)
            if one.within and not (one.within[0] <= single <= one.within[1] and math.isfinite(single)):
                low, high = one.within
                expected = f"a number from {low} to {high}" if math.isfinite(high) else f"a number, {low} or more"
                raise InputError(f"{one.flag} {single}", "is out of range", expected=expected)
    for name in groups(type(options)):
        if (grouped := getattr(options, name)) is not None:
            check(grouped)
