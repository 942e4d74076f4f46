"""The command's parser and those of its jobs, all with their arguments."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence

from medfaith.cli import parser


def jobs_of(command: argparse.ArgumentParser) -> Mapping[str, argparse.ArgumentParser]:
    """Name -> parser; gives a job the arguments that it otherwise gets when it is first asked for."""
    if fill := getattr(command, "fill", None):
        command.fill = None  # pyright: ignore[reportAttributeAccessIssue]
        fill(command)
    return next((action.choices for action in command._actions if isinstance(action, argparse._SubParsersAction)), {})


def walk(command: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """The parser and, through all levels, those of its jobs."""
    jobs = jobs_of(command)
    yield command
    for job in jobs.values():
        yield from walk(job)


def of_job(words: Sequence[str]) -> argparse.ArgumentParser:
    """The parser of the job that the words begin with."""
    found = parser()
    for word in words:
        if not (jobs := jobs_of(found)) or word.startswith("-"):
            break
        assert word in jobs, f"{found.prog} has no job {word}"
        found = jobs[word]
    return found


def options(command: argparse.ArgumentParser) -> set[str]:
    """All options of a parser and of its jobs."""
    return {option for job in walk(command) for option in job._option_string_actions}
