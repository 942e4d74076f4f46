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
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..loaders.errors import InputError

FILE = "FILE"  # in a publication, the name of a file of the user
# A version by PEP 440. Its numbers have few digits, so that no version is the number of a patient.
_LOCAL = r"(g[0-9a-f]{7,10}|d20\d{6}|[a-z]{1,8}\d{1,4}|\d{1,4})"
VERSION = (
    r"(\d!)?\d{1,4}(\.\d{1,3}){0,4}((a|b|rc)\d{1,3})?(\.post\d{1,3})?(\.dev\d{1,5})?"
    rf"(\+{_LOCAL}(\.{_LOCAL})?)?"
)


@dataclass(frozen=True, slots=True)
class Option:
    """The command-line form of one field.

    Attributes:
        help: The help text, without the default.
        flag: The flag; "" derives it from the field's name.
        choices: All allowed values; empty allows any value.
        pattern: A regular expression that the whole text must match; "" allows any text.
        form: The pattern in words, for the message.
        recorded: Of an option that names a file or a folder: the pattern of the text that a publication may show
            instead. The name itself stays with its user (`FILE`).
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
    pattern: str = ""
    form: str = ""
    recorded: str = ""
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


def whole(above: int, most: int | None = None) -> Callable[[str], int]:
    """Make a parser for argparse that reads an integer within bounds.

    Args:
        above: The lower bound. It is not allowed itself.
        most: The largest number allowed; None for no upper bound.

    Returns:
        The parser. Its error states the expected value.
    """

    def parse(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = above
        if value <= above or (most is not None and value > most):
            upper = "" if most is None else f", at most {most:,}"
            raise argparse.ArgumentTypeError(f"expected a whole number above {above}{upper}, got {text[:40]!r}")
        return value

    return parse


def declared(options_class: type) -> dict[str, Option]:
    """List the options of a class without the options of its groups; a flag, kind or default not given is derived.

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
        InputError: A value is not among the choices of its option, is out of range or has another form.
    """
    for name, declaration in declared(type(options)).items():
        value = getattr(options, name)
        for choice in value if declaration.repeatable else (value,):
            if fault := _find_fault(declaration, choice):
                problem, expected = fault
                raise InputError(f"{declaration.flag} {choice}", problem, expected=expected)
    for name in groups(type(options)):
        if (grouped := getattr(options, name)) is not None:
            check(grouped)


def find_recorded_fault(declaration: Option, value: Any) -> tuple[str, str] | None:
    """Find the fault of a value that a publication shows.

    Args:
        declaration: The option.
        value: The value, or one of a repeatable option.

    Returns:
        The problem and the expected value; None if the value may be shown.
    """
    declaration = dataclasses.replace(declaration, pattern=declaration.recorded or declaration.pattern)
    is_text = bool(declaration.choices or declaration.pattern)
    if value is not None and (isinstance(value, bool) or not isinstance(value, str if is_text else int | float)):
        return "is of another type", "a text" if is_text else "a number"
    return _find_fault(declaration, value)


def hide_files(options_class: type, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Replace the names of the user's files by `FILE`.

    Args:
        options_class: The options class.
        arguments: The recorded value of each option.

    Returns:
        The values for publication.
    """
    files = {name: declaration for name, declaration in declared(options_class).items() if declaration.recorded}
    return {
        name: FILE if name in files and find_recorded_fault(files[name], value) else value
        for name, value in arguments.items()
    }


def _find_fault(declaration: Option, value: Any) -> tuple[str, str] | None:
    """Return the problem of a value, and the expected value; None if it has no fault or was not given."""
    if value is None:
        return None
    if declaration.choices and value not in declaration.choices:
        return "there is no such choice", f"one of {', '.join(declaration.choices)}"
    if declaration.pattern and not re.fullmatch(declaration.pattern, value, re.ASCII):
        return "has another form", declaration.form
    if declaration.within and not (declaration.within[0] <= value <= declaration.within[1] and math.isfinite(value)):
        low, high = declaration.within
        expected = f"a number from {low} to {high}" if math.isfinite(high) else f"a number, {low} or more"
        return "is out of range", expected
    return None
