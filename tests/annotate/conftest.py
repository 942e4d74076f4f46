"""The scene shared by the tests of `medfaith annotate`; no test writes into it."""

from __future__ import annotations

import pytest

from tests.support.annotate.annotation_scene import Scene, make_scene


@pytest.fixture(scope="session")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    return make_scene(tmp_path_factory.mktemp("annotate"))
