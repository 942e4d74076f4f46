"""Options of a build, other than its configs and its seed. Each field of a frozen dataclass is one option.

    @dataclass(frozen=True, slots=True)
    class Options:
        swap: str = field(default="words", metadata=option("how sides are exchanged", choices=("words", "substring")))

The command makes its parser from such a class, a card makes the command that repeats the build, and `check` validates
the values.
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
    """The command-line form of one field.

    Attributes:
        help: The help text, without the default.
        flag: The flag; "" derives it from the field's name.
        choices: All allowed values; empty allows any value.
        kind: Converts the text of a value; None takes the type of the field's default.
        default: The default in words; "" prints the value itself.
        within: The lowest and the highest number allowed.
        metavar: The name of the value in the help.
        below_out: The default of a folder option: its name below the folder that a build writes to.
        repeatable: Whether the field is a tuple. Each value then has its own flag.
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


def option(help: str, **attributes: Any) -> Mapping[str, Option]:
    """Make the metadata of a field that is an option.

    Args:
        help: The help text, without the default.
        **attributes: Further attributes of `Option`.

    Returns:
        The metadata of the dataclass field.
    """
    return {"option": Option(help, **attributes)}


def group(options_class: type) -> Mapping[str, type]:
    """Make the metadata of a field that is None or an instance of another options class.

    The options of the group apply only if the first of them is given.

    Args:
        options_class: The other options class.

    Returns:
        The metadata of the dataclass field.
    """
    return {"group": options_class}


def whole(above: int) -> Callable[[str], int]:
    """Make a parser for argparse that reads an integer above a bound.

    Args:
        above: The bound. It is not allowed itself.

    Returns:
        The parser. Its error states the expected value.
    """

    def parse(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = above
        if value <= above:
            raise argparse.ArgumentTypeError(f"expected a whole number above {above}, got {text!r}")
        return value

    return parse


def declared(options_class: type) -> dict[str, Option]:
    """List the options of a class without the options of its groups.

    Args:
        options_class: The options class.

    Returns:
        The complete options by the name of the field.
    """
    return {
        field.name: _fill_defaults(field, field.metadata["option"])
        for field in dataclasses.fields(options_class)
        if "option" in field.metadata
    }


def groups(options_class: type) -> dict[str, type]:
    """List the groups of an options class.

    Args:
        options_class: The options class.

    Returns:
        The class of each group by the name of the field.
    """
    return {
        field.name: field.metadata["group"] for field in dataclasses.fields(options_class) if "group" in field.metadata
    }


def _fill_defaults(field: dataclasses.Field[Any], declaration: Option) -> Option:
    values = field.default if isinstance(field.default, tuple) else (field.default,)
    return dataclasses.replace(
        declaration,
        flag=declaration.flag or f"--{field.name.replace('_', '-')}",
        kind=declaration.kind or type(values[0]),
        default=declaration.default or ", ".join(map(str, values)),
        repeatable=isinstance(field.default, tuple),
    )


def check(options: Any) -> None:
    """Check the values of options.

    Args:
        options: An instance of an options class.

    Raises:
        InputError: A value is not among the choices of its option, or is out of range.
    """
    for name, declaration in declared(type(options)).items():
        value = getattr(options, name)
        for choice in value if declaration.repeatable else (value,):
            if declaration.choices and choice not in declaration.choices:
                expected = f"one of {', '.join(declaration.choices)}"
                raise InputError(f"{declaration.flag} {choice}", "there is no such choice", expected=expected)
            if declaration.within and not (
                declaration.within[0] <= choice <= declaration.within[1] and math.isfinite(choice)
            ):
                low, high = declaration.within
                expected = f"a number from {low} to {high}" if math.isfinite(high) else f"a number, {low} or more"
                raise InputError(f"{declaration.flag} {choice}", "is out of range", expected=expected)
    for name in groups(type(options)):
        if (grouped := getattr(options, name)) is not None:
            check(grouped)
