"""docs/training-walkthrough.md as a reader runs it: each block in turn, in an empty folder."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from medfaith.training.recipes import RECIPES

PAGE = Path(__file__).parents[2] / "docs" / "training-walkthrough.md"


@pytest.mark.full
def test_each_block_of_the_page_runs_in_turn(tmp_path):
    blocks = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert [language for language, _ in blocks] == ["sh", "sh", "py", "sh", "sh", "sh", "sh"]
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "HF_HUB_OFFLINE": "1"}
    for language, text in blocks[1:]:  # the first one installs
        command = [sys.executable, "-c", text] if language == "py" else ["bash", "-ec", text]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}"
    report = (tmp_path / "report" / "report.md").read_text(encoding="utf-8")
    rows = [line for line in report.splitlines() if line.startswith("| ")]
    for name in (*RECIPES, "uniter", "loba", "small/llava"):
        assert any(name in row for row in rows), name
