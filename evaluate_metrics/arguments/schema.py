"""The decorator that checks the arguments of a public function by their kinds."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast

from .arrays import is_list
from .kinds import Kind

F = TypeVar("F", bound=Callable[..., Any])


def check_arguments(*, like: str = "", noun: str = "", prefix: str = "", **kinds: Kind) -> Callable[[F], F]:
    """Check the arguments of a function before it runs. Its defaults are not checked.

    Args:
        like: Name of the argument that has one entry per row; columns must have as many.
        noun: Name of the entries in messages; by default the name `like`.
        prefix: Name of the argument that names the row or sample; messages begin with it.
        kinds: The kind of each argument.

    Returns:
        The decorator. The function keeps its kinds as `argument_kinds`.

    >>> from medfaith.evaluate_metrics.arguments.kinds import whole
    >>> @check_arguments(n=whole(1))
    ... def double(n):
    ...     return 2 * n
    >>> double(0.5)
    Traceback (most recent call last):
    ValueError: n 0.5: expected at least 1, a whole number
    """

    def decorate(function: F) -> F:
        parameters = inspect.signature(function).parameters
        names = [name for name, parameter in parameters.items() if parameter.kind is parameter.POSITIONAL_OR_KEYWORD]

        @functools.wraps(function)
        def call(*positional: Any, **named: Any) -> Any:
            arguments = dict(zip(names, positional, strict=False)) | named
            if len(arguments) < len(positional) + len(named):
                return function(*positional, **named)  # Python names the superfluous argument
            try:
                if like in arguments:
                    _require_equal_lengths(arguments, kinds, like, noun or like)
                for name, kind in kinds.items():
                    if name in arguments:
                        arguments[name] = kind.convert(arguments[name], name)
            except ValueError as error:
                if not prefix:
                    raise
                raise ValueError(f"{arguments.get(prefix, parameters[prefix].default)}: {error}") from None
            return function(**arguments)

        call.__dict__["argument_kinds"] = kinds
        return cast(F, call)

    return decorate


def _require_equal_lengths(arguments: Mapping[str, Any], kinds: Mapping[str, Kind], like: str, noun: str) -> None:
    """Require as many entries of each column as `like` has."""
    if not is_list(arguments[like]):
        return
    for name, kind in kinds.items():
        value: Any = arguments.get(name)
        if kind.is_column and (is_list(value) or isinstance(value, str)) and len(value) != len(arguments[like]):
            raise ValueError(f"{len(value)} {name} for {len(arguments[like])} {noun}: give one for each")
