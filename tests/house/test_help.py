"""Help texts: each option can be understood from its own line."""

from __future__ import annotations

import argparse
import re
from collections import Counter
from pathlib import Path

import pytest

from medfaith.cli import parser
from tests.support.house.parsers import iterate_parsers

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
    "medfaith train uniter": {"--config"},
    "medfaith train lora": {"--benchmark", "--source", "--dtype"},
}
# Metavars of options that take a folder or a file. MODEL may be a name on the Hub, too; RUN and RESULTS may be either.
PATHS = {"DIR", "FILE", "DIR|ORG", "raft|DIR", "SOURCE=PATH", "MODEL", "RUN", "RESULTS"}


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


@pytest.mark.parametrize("job", JOBS, ids=lambda job: job.prog)
def test_metavars_are_the_same_everywhere(job):
    """Each open value has a metavar, which is standard for a folder, a file or a whole number."""
    for action in list_arguments(job):
        if action.nargs == 0 or (action.choices and action.metavar is None):
            continue
        name, text = f"{job.prog} {format_name(action)}", action.help or ""
        assert action.metavar, f"{name}: argparse would print the name of the option in upper case"
        if action.type is Path or re.match(r"((the|a) )?(\w+ )?(folder|file)\b", text):
            assert action.metavar in PATHS, f"{name} takes a folder or file, and its metavar is {action.metavar}"
        if isinstance(action.default, int):
            assert action.metavar in ("N", "PORT") or action.choices, f"{name} takes a whole number, written N"


def test_no_two_subcommands_share_a_help_line():
    lists = [action for job in JOBS for action in job._actions if isinstance(action, argparse._SubParsersAction)]
    shared = Counter(pseudo.help for listed in lists for pseudo in listed._choices_actions)
    assert [text for text, count in shared.items() if count > 1] == []
