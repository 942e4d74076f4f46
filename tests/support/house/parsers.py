"""Parsers of the command and of its jobs, with all their arguments."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence

from medfaith.cli import parser


def list_jobs(command: argparse.ArgumentParser) -> Mapping[str, argparse.ArgumentParser]:
    """Map the names of a command's jobs to their parsers; add the arguments that are otherwise loaded on demand."""
    if fill := getattr(command, "fill", None):
        command.fill = None  # pyrefly: ignore[missing-attribute]
        fill(command)
    return next((action.choices for action in command._actions if isinstance(action, argparse._SubParsersAction)), {})


def iterate_parsers(command: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """Iterate over a parser and, recursively, the parsers of its jobs."""
    jobs = list_jobs(command)
    yield command
    for job in jobs.values():
        yield from iterate_parsers(job)


def find_job(arguments: Sequence[str]) -> argparse.ArgumentParser:
    """Find the parser of the job that a command line selects."""
    command = parser()
    for word in arguments:
        if not (jobs := list_jobs(command)) or word.startswith("-"):
            break
        assert word in jobs, f"{command.prog} has no job {word}"
        command = jobs[word]
    return command


def list_options(command: argparse.ArgumentParser) -> set[str]:
    """List all options of a parser and of its jobs."""
    return {option for job in iterate_parsers(command) for option in job._option_string_actions}
