"""Every repository that medfaith builds, of synthetic sources."""

from __future__ import annotations

from pathlib import Path

import pytest

from medfaith.builders import cxr_contrabench, surgxbench
from medfaith.cards import publication
from medfaith.cards.publish import staging


@pytest.fixture(scope="session")
def builds(
    phantom_item_roots: dict[str, Path],
    phantom_build: Path,
    phantom_heal_build: Path,
    phantom_surgx_roots: dict[str, Path],
    phantom_wrong_lung_build: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, Path]:
    """The folder of each build by the repository's name."""
    out = tmp_path_factory.mktemp("builds")
    folders = [
        *(path.parent for of in (phantom_build, phantom_heal_build, phantom_wrong_lung_build)
          for path in of.glob("*/build.json")),
        *cxr_contrabench.build(phantom_item_roots, out),
        *surgxbench.build(phantom_surgx_roots, out),
    ]  # fmt: skip
    return {folder.name: folder for folder in sorted(folders)}


@pytest.fixture(scope="session")
def staged(builds: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """What would be uploaded of each build to the organisation `phantom-org`, by the repository's name."""
    out = tmp_path_factory.mktemp("staged")
    for name, folder in builds.items():
        (out / name).mkdir()
        staging.stage(publication.read(folder), out / name, repo_id=f"phantom-org/{name}", texts=())
    return {name: out / name for name in builds}
