"""What README and CONTRIBUTING name exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from medfaith.builders import cxr_contrabench
from medfaith.tasks import MODELS

ROOT = Path(__file__).parents[2]
KNOWN = {
    "<benchmark>-<source>": "cxr-contrabench-chexpert",
    "<source>": "chexpert",
    "<family>": "contrabench",
    "<metric>": "polarity",
    "<config>": "chexpert_presence",
}
# the one folder that is named by the benchmark's short form, and the files named by its long one
SPECIAL = {
    "builders/<benchmark>/": "builders/cxr_contrabench/",
    "cards/published/<benchmark>.toml": "cards/published/cxr-contrabench.toml",
}


def table_paths() -> list[str]:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    return [p for p in re.findall(r"`([^`\s]+)`", text.split("## To add")[1].split("## Rules")[0]) if "/" in p]


@pytest.mark.parametrize("named", table_paths())
def test_the_paths_of_the_contributing_table_exist(named: str):
    path: str = SPECIAL.get(named, named)
    for placeholder, example in KNOWN.items():
        path = path.replace(placeholder, example)
    path = path.replace("<benchmark>", "contrabench")
    assert (ROOT / path).exists(), path


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md"])
def test_links_of_a_page_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)\)", (ROOT / page).read_text(encoding="utf-8")):
        assert target.startswith("https://") or (ROOT / target).exists(), target


def test_the_readme_names_every_config_and_reference_model():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    families = {name for name in cxr_contrabench.CONFIGS if name not in cxr_contrabench.VARIANTS}
    for name in (*families, *MODELS):
        assert f"`{name}`" in text or f"--model {name}" in text, name
