"""What models and files say is data: no path of a report runs it as an escape sequence, HTML, a link or a formula."""

from __future__ import annotations

import csv
import io
import json
import re

import pytest

from medfaith.cli import main
from medfaith.loaders.visible import in_markdown, visible
from tests.report.report_logs import answered, write_log

EVIL = "\x1b[31mred\x1b]0;title\x07 <img src=x onerror=alert(1)> [click](javascript:alert(1)) \u202etxt\r\n=1+1"
FORMULA = '=HYPERLINK("http://x","y")'


@pytest.fixture
def evil(tmp_path):
    """Logs of two models with such names, a part of whose answers cannot be read."""
    for number, name in enumerate((EVIL, FORMULA)):
        rows = [
            (row, EVIL if text.startswith("The image") else text)
            for row, text in answered("chexpert_presence", 40, 20, 5, unread=5)
        ]
        write_log(tmp_path / f"logs{number}", "m", rows)
        for path in (tmp_path / f"logs{number}").rglob("results_*.json"):
            results = json.loads(path.read_text())
            results["config"]["model_args"] = {"pretrained": name}
            path.write_text(json.dumps(results))
    return [str(tmp_path / "logs0"), str(tmp_path / "logs1")]


def harmless(text: str) -> bool:
    return not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", text)


@pytest.mark.parametrize("words", [["report", "LOGS"], ["compare", "LOGS"], ["report", "LOGS/missing"]])
def test_no_command_prints_a_control_character(words, evil, capsys):
    main([part for word in words for part in (evil if word == "LOGS" else [word.replace("LOGS", EVIL)])])
    said = capsys.readouterr()
    assert "red" in said.out + said.err
    assert harmless(said.out)
    assert harmless(said.err)


def test_markdown_has_neither_html_nor_links_of_others(evil, tmp_path, capsys):
    assert main(["report", *evil, "--out", str(tmp_path / "out"), "--markdown"]) == 0
    printed, saved = capsys.readouterr().out, (tmp_path / "out/report.md").read_text()
    for text in (printed, saved):
        assert harmless(text)
        assert "click" in text
        assert not re.search(r"(?<!\\)<img|\]\(javascript", text)


def test_csv_has_no_formula(evil, tmp_path):
    assert main(["report", *evil, "--out", str(tmp_path / "out")]) == 0
    paths = [*(tmp_path / "out").glob("*.csv")]
    cells = [cell for path in paths for row in csv.reader(io.StringIO(path.read_text())) for cell in row]
    assert f"'{FORMULA}" in cells
    assert all(map(harmless, cells))
    assert not [cell for cell in cells if cell.startswith(("=", "+", "@", "\t"))]


@pytest.mark.parametrize("text", ["a < b, p<0.05", "[0.1, 0.2] (n=3)", "Größe ≥ 5 – “x”", "two\nlines"])
def test_what_is_harmless_stays_as_it_is(text):
    assert visible(text) == in_markdown(text) == text
