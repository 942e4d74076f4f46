"""Names on the pages exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from medfaith.builders import cxr_contrabench
from medfaith.tasks import MODELS

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
# Values of the placeholders in CONTRIBUTING's table; a benchmark's folder and files have different names.
KNOWN = {
    "builders/<benchmark>/": "builders/cxr_contrabench/", "published/<benchmark>": "published/cxr-contrabench",
    "<benchmark>-<source>": "cxr-contrabench-chexpert", "<benchmark>": "contrabench", "<source>": "chexpert",
    "<family>": "contrabench", "<metric>": "polarity", "<config>": "chexpert_presence", "<explainer>": "rollout",
}  # fmt: skip


def test_the_paths_of_the_contributing_table_exist():
    table = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").split("## To add")[1].split("## Rules")[0]
    paths: list[str] = [path for path in re.findall(r"`([^`\s]+)`", table) if "/" in path]
    for placeholder, example in KNOWN.items():
        paths = [path.replace(placeholder, example) for path in paths]
    assert paths
    assert [path for path in paths if not (ROOT / path).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_of_a_page_lead_somewhere(page):
    targets = re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8"))
    assert [t for t in targets if not t.startswith("https://") and not (page.parent / t).exists()] == []


def test_every_page_can_be_reached_from_the_readme():
    reached, waiting = set(), [ROOT / "README.md"]
    while waiting:
        page = waiting.pop()
        if page not in reached:
            reached.add(page)
            targets = re.findall(r"\]\(([^)#]+\.md)\)", page.read_text(encoding="utf-8"))
            waiting += [path for target in targets if (path := (page.parent / target).resolve()) in PAGES]
    assert reached == set(PAGES)


def test_the_readme_names_the_two_commands_that_do_all_set_up():
    section = (ROOT / "README.md").read_text(encoding="utf-8").split("## Install and try")[1].split("\n## ")[0]
    lines = [line.split("#")[0].strip() for line in section.split("```sh\n")[1].split("```")[0].splitlines()]
    assert lines[:2] == ["uv run --no-dev medfaith quickstart", "uv run python -m tests"]


def test_the_pages_name_every_config_metric_and_model():
    text = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    families = {name for name in cxr_contrabench.CONFIGS if name not in cxr_contrabench.VARIANTS}
    assert [name for name in (*families, *MODELS) if f"`{name}`" not in text] == []
    metrics = {path.parent.name for path in (ROOT / "evaluate_metrics").glob("*/README.md")}
    assert [name for name in sorted(metrics) if f"evaluate_metrics/{name}/README.md" not in text] == []
