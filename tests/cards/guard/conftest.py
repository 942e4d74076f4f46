"""Staged builds of synthetic sources, for tests that plant leaks."""

from __future__ import annotations

import shutil
from functools import partial

import pytest

from medfaith.cards.publication import read
from medfaith.cards.publish import guard
from medfaith.cards.publish.guard import Machine
from medfaith.loaders.errors import InputError

MACHINE = Machine({"MY_TOKEN": "correct horse battery"}, {"a user": "jdoe", "a machine": "ward7"})


@pytest.fixture(scope="session")
def publications(builds):
    return {name: read(folder) for name, folder in builds.items()}


@pytest.fixture
def refused(publications, staged):
    """A function that returns the guard's error for a staged folder; `publication` defaults to the unchanged build."""

    def check(folder, *texts, publication=None):
        restage = partial(shutil.copytree, folder if publication else staged[folder.name], dirs_exist_ok=True)
        with pytest.raises(InputError) as error:
            guard.check(folder, publication or publications[folder.name], texts, restage, MACHINE)
        return error.value

    return check
