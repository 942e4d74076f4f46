"""Staged builds of synthetic sources, to plant leaks in, and the guard's refusal of them."""

from __future__ import annotations

import shutil

import pytest

from medfaith.cards.publication import read
from medfaith.cards.publish import guard
from medfaith.loaders.errors import InputError
from tests.cards.guard.scenes import NAMES, OPENI, stage


@pytest.fixture(scope="session")
def publications(builds):
    return {name: read(builds[name]) for name in NAMES}


@pytest.fixture(scope="session")
def stagings(publications, tmp_path_factory):
    folder = tmp_path_factory.mktemp("staged")
    return {name: stage(publication, folder / name) for name, publication in publications.items()}


@pytest.fixture
def copy_of(stagings, tmp_path):
    """A staging of its own, by its name or by its policy."""
    names = {"rows": OPENI, "recipe": "surgxbench-cholect45", "withheld": "wrong-lung-chest_imagenome"}

    def copy(kind):
        name = names.get(kind, kind)
        return name, shutil.copytree(stagings[name], tmp_path / name)

    return copy


@pytest.fixture
def refused(publications):
    def check(staged, *texts):
        with pytest.raises(InputError) as error:
            guard.check(staged, publications[staged.name], texts)
        return error.value

    return check
