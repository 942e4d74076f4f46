"""Escaping of untrusted text: no part of a report runs it as an escape sequence, HTML, a link or a formula."""

from __future__ import annotations

import csv
import io
import re

import pytest

from medfaith.cli import main
from medfaith.loaders.escaping import escape_controls, escape_markdown
from tests.support.reporting.report_logs import answered, write_log

EVIL = "\x1b[31mred\x1b]0;title\x07 <img src=x onerror=alert(1)> [click](javascript:alert(1)) \u202etxt\r\n=1+1"
FORMULA = '=HYPERLINK("http://x","y")'


@pytest.fixture(scope="module")
def evil(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Logs of two models with hostile names; some of their answers are unread."""
    folder = tmp_path_factory.mktemp("evil")
    for number, name in enumerate((EVIL, FORMULA)):
        answers = answered("chexpert_presence", 40, 20, 5, unread=5)
        rows = [(row, EVIL if text.startswith("The image") else text) for row, text in answers]
        write_log(folder / f"logs{number}", "m", rows, model_args={"pretrained": name})
    return [str(path) for path in folder.iterdir()]


def is_harmless(text: str) -> bool:
    return not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", text)


@pytest.mark.parametrize("arguments", [["report", "LOGS"], ["compare", "LOGS"], ["report", "LOGS/missing"]])
def test_no_command_prints_a_control_character(arguments, evil, capsys):
    main([argument for word in arguments for argument in (evil if word == "LOGS" else [word.replace("LOGS", EVIL)])])
    captured = capsys.readouterr()
    assert "red" in captured.out + captured.err
    assert is_harmless(captured.out)
    assert is_harmless(captured.err)


@pytest.mark.usefixtures("tables_only")
def test_markdown_has_neither_html_nor_links_of_others_and_csv_no_formula(evil, tmp_path, capsys):
    assert main(["report", *evil, "--out", str(tmp_path / "out"), "--markdown"]) == 0
    for text in (capsys.readouterr().out, (tmp_path / "out/report.md").read_text()):
        assert is_harmless(text)
        assert "click" in text
        assert not re.search(r"(?<!\\)<img|\]\(javascript", text)
    paths = [*(tmp_path / "out").glob("*.csv")]
    cells = [cell for path in paths for row in csv.reader(io.StringIO(path.read_text())) for cell in row]
    assert f"'{FORMULA}" in cells
    assert all(map(is_harmless, cells))
    assert not [cell for cell in cells if cell.startswith(("=", "+", "@", "\t"))]


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        (r"\<img src=x>", r"\<img src=x>"),  # already escaped
        (r"\\<img src=x>", r"\\\<img src=x>"),
        ("x\n\n[a]: javascript:alert(1)\n\n[a]", "x\n\n[a]\\: javascript:alert(1)\n\n[a]"),
    ],
)
def test_markdown_escapes_what_its_own_signs_would_set_free(text, escaped):
    assert escape_markdown(text) == escaped


@pytest.mark.parametrize("text", ["a < b, p<0.05", "[0.1, 0.2] (n=3)", "Größe ≥ 5 – “x”", "two\nlines"])
def test_what_is_harmless_stays_as_it_is(text):
    assert escape_controls(text) == escape_markdown(text) == text
