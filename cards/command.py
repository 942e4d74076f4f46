"""The command that rebuilds a repository from its build.json."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ..builders.options import declared
from ..builders.registry import BENCHMARKS
from ..builders.surgxbench.motion_rows import MotionOptions


def rebuild(record: Mapping[str, Any]) -> list[str]:
    """Build the `medfaith build` command that gives the same rows. Roots and files are placeholders.

    Args:
        record: The content of build.json.

    Returns:
        The name of the command and its arguments.
    """
    benchmark = BENCHMARKS[record["benchmark"]]
    configs = dict.fromkeys(key.split("/")[0] for key in record["splits"])
    arguments = ["medfaith", "build", record["benchmark"]]
    for config in configs:
        if config in benchmark.needs:
            arguments += ["--config", config]
    for source_id in list_roots(record):
        arguments += ["--root", f"{source_id}=PATH"]
    arguments += ["--seed", str(record["seed"])]
    for name, option in declared(benchmark.options).items():
        arguments += _iterate_option(option.flag, record["arguments"].get(name))
    arguments += _iterate_motion_options(record["arguments"].get("motion"))
    return [*arguments, "--out", "DIR"]


def list_roots(record: Mapping[str, Any]) -> list[str]:
    """List the sources that the build reads.

    Args:
        record: The content of build.json.

    Returns:
        The source ids.
    """
    source_ids = list(record["sources"])
    # The next frame of the video is Cholec80's, although a build of triplets reads no label file of Cholec80.
    if record["arguments"].get("successor") == "frame" and "cholec80" not in source_ids:
        source_ids.append("cholec80")
    return source_ids


def _iterate_motion_options(recorded: Mapping[str, Any] | None) -> Iterator[str]:
    """Yield the options of `MotionOptions.recorded`: it records the kind of flow, but not the folder of its files."""
    if not recorded:
        return
    yield from ("--flow", "FLOW" if recorded.get("flow") == "files" else "raft")
    for name, option in declared(MotionOptions).items():
        yield from _iterate_option(option.flag, recorded.get(name) if name != "flow" else None)


def _iterate_option(flag: str, value: Any) -> Iterator[str]:
    """Yield an option with its value, once for each item of a list; nothing if it was not given."""
    for item in value if isinstance(value, list) else [value]:
        if item is not None:
            yield from (flag, str(item))


def format_command(arguments: Iterable[str], width: int = 100) -> str:
    """Format a shell command, broken between options.

    >>> print(format_command(["medfaith", "verify", "DIR", "--against", "org/a name"], width=20))
    medfaith verify DIR \\
        --against 'org/a name'

    Args:
        arguments: The name of the command and its arguments.
        width: The maximum length of a line, if the arguments allow it.

    Returns:
        The text.
    """
    groups: list[str] = []
    for argument in map(shlex.quote, arguments):
        if argument.startswith("--") or not groups:
            groups.append(argument)
        else:
            groups[-1] += f" {argument}"
    text, length = groups[0], len(groups[0])
    for group in groups[1:]:
        if length + len(group) + 3 > width:
            text, length = f"{text} \\\n   ", 3
        text, length = f"{text} {group}", length + len(group) + 1
    return text
