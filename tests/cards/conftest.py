"""Every repository that medfaith builds, from synthetic sources."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from medfaith.builders import surgxbench
from medfaith.cards import publication
from medfaith.cards.publish import staging


@pytest.fixture(scope="session")
def builds(
    once: Any,
    phantom_items_build: Path,
    phantom_build: Path,
    phantom_chexlocalize_build: Path,
    phantom_heal_build: Path,
    phantom_nih_build: Path,
    phantom_surgx_roots: dict[str, Path],
    phantom_wrong_lung_build: Path,
    phantom_own_build: Path,
) -> dict[str, Path]:
    """The folder of each build by repository name."""
    surgx_build = once("card-data", lambda out: surgxbench.build(phantom_surgx_roots, out))
    places = (
        phantom_build, phantom_items_build, phantom_chexlocalize_build, phantom_heal_build, phantom_nih_build,
        phantom_wrong_lung_build, phantom_own_build, surgx_build,
    )  # fmt: skip
    folders = [path.parent for place in places for path in place.glob("*/build.json")]
    return {folder.name: folder for folder in sorted(folders, key=lambda folder: folder.name)}


@pytest.fixture(scope="session")
def staged(once: Any, builds: dict[str, Path]) -> dict[str, Path]:
    """The files staged for the organisation `phantom-org`, by repository name."""

    def stage(out: Path) -> None:
        for name, folder in builds.items():
            (out / name).mkdir(parents=True)
            staging.stage(publication.read(folder), out / name, repo_id=f"phantom-org/{name}", texts=())

    out = once("staged", stage)
    return {name: out / name for name in builds}
