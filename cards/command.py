"""The command that builds a repository again, from what its build.json says."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ..builders.options import declared
from ..builders.registry import BENCHMARKS
from ..builders.surgxbench.motion_rows import MotionOptions


def rebuild(record: Mapping[str, Any]) -> list[str]:
    """Words of the `medfaith build` that gives the same rows; roots and files are named and not filled in.

    Args:
        record: build.json.
    """
    benchmark = BENCHMARKS[record["benchmark"]]
    configs = dict.fromkeys(key.split("/")[0] for key in record["splits"])
    words = ["medfaith", "build", record["benchmark"]]
    for config in configs:
        if config in benchmark.needs:
            words += ["--config", config]
    for source_id in roots(record):
        words += ["--root", f"{source_id}=PATH"]
    words += ["--seed", str(record["seed"])]
    for name, one in declared(benchmark.options).items():
        words += _option(one.flag, record["arguments"].get(name))
    words += _motion(record["arguments"].get("motion"))
    return [*words, "--out", "DIR"]


def roots(record: Mapping[str, Any]) -> list[str]:
    """The sources that the build reads."""
    found = list(record["sources"])
    # The next frame of the video is Cholec80's, of which a build of triplets reads no label file.
    if record["arguments"].get("successor") == "frame" and "cholec80" not in found:
        found.append("cholec80")
    return found


def _motion(recorded: Mapping[str, Any] | None) -> Iterator[str]:
    """Of `MotionOptions.recorded`: what the flow was is recorded, and where its files lay is not."""
    if not recorded:
        return
    yield from ("--flow", "FLOW" if recorded.get("flow") == "files" else "raft")
    for name, one in declared(MotionOptions).items():
        yield from _option(one.flag, recorded.get(name) if name != "flow" else None)


def _option(flag: str, value: Any) -> Iterator[str]:
    """An option with its value, once for each of a list; nothing for one that was not given."""
    for one in value if isinstance(value, list) else [value]:
        if one is not None:
            yield from (flag, str(one))


def lines(words: Iterable[str], width: int = 100) -> str:
    """A command of the shell, broken between options, each line at most `width` long where its words allow it.

    >>> print(lines(["medfaith", "verify", "DIR", "--against", "org/a name"], width=20))
    medfaith verify DIR \\
        --against 'org/a name'
    """
    groups: list[str] = []
    for word in map(shlex.quote, words):
        if word.startswith("--") or not groups:
            groups.append(word)
        else:
            groups[-1] += f" {word}"
    text, length = groups[0], len(groups[0])
    for group in groups[1:]:
        if length + len(group) + 3 > width:
            text, length = f"{text} \\\n   ", 3
        text, length = f"{text} {group}", length + len(group) + 1
    return text
