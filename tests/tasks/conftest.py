"""What several tests of tasks share."""

from __future__ import annotations

from pathlib import Path

import pytest

from medfaith.builders import cxr_contrabench
from medfaith.loaders import phantom


@pytest.fixture(scope="session")
def contrabench_of_all_sources(phantom_roots, tmp_path_factory) -> tuple[dict[str, Path], Path]:
    """Roots and build of CXR-ContraBench with CheXStruct and ReXVQA beside the sources of `phantom_build`."""
    folder = tmp_path_factory.mktemp("contrabench")
    roots = {**phantom_roots, **phantom.write(folder / "phantom", seed=0, sources=("chexstruct", "rexvqa"))}
    cxr_contrabench.build(roots, folder / "data")
    return roots, folder / "data"
