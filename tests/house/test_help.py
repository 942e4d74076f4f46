"""Help texts: each option can be understood from its own line."""

from __future__ import annotations

import argparse

import pytest

from medfaith.cli import parser
from tests.house.parsers import iterate_parsers

JOBS = list(iterate_parsers(parser()))
# Options that take one of a few words: argparse refuses the others and lists these.
CLOSED = {
    "medfaith build cxr-contrabench": {"--config", "--negation-form", "--question-form", "--layout"},
    "medfaith build heal-medvqa": {"--config", "--measure", "--places", "--agreement", "--labeler"},
    "medfaith build surgxbench": {"--config", "--successor"},
    "medfaith build wrong-lung": {"--config", "--swap", "--random-boxes"},
    "medfaith phantom": {"--source"},
    "medfaith quickstart": {"--negation-form", "--question-form", "--layout"},
    "medfaith train retrained": {"--config"},
    "medfaith train lora": {"--benchmark", "--source", "--dtype"},
}


def format_name(action: argparse.Action) -> str:
    return str((action.option_strings or [action.metavar])[-1])


def list_arguments(job: argparse.ArgumentParser) -> list[argparse.Action]:
    return [a for a in job._actions if not isinstance(a, argparse._HelpAction | argparse._SubParsersAction)]


@pytest.mark.parametrize("job", JOBS, ids=lambda job: job.prog)
def test_every_option_says_what_it_does(job):
    """A help text has at least four words, the default if there is one, and choices if the values are a closed set."""
    for action in list_arguments(job):
        text = action.help or ""
        assert len(text.split()) >= 4, f"{format_name(action)}: {text!r} cannot be understood alone"
        if action.default not in (None, False, [], argparse.SUPPRESS):
            assert "default" in text, (
                f"{format_name(action)} has the default {action.default!r}, and its help does not say it"
            )
    closed = {format_name(action) for action in list_arguments(job) if action.choices}
    assert CLOSED.get(job.prog, set()) <= closed


def test_the_help_of_the_command_lists_every_job_with_one_line():
    for command in JOBS:
        for listed in (action for action in command._actions if isinstance(action, argparse._SubParsersAction)):
            described = {pseudo.dest: pseudo.help for pseudo in listed._choices_actions}
            assert set(described) == set(listed.choices)
            assert [text for text in described.values() if not text or len(text) > 110 or text.endswith(".")] == []
    assert CLOSED.keys() <= {job.prog for job in JOBS}
