"""Every job reports its progress, also if stderr is a file; in these tests each item prints a line."""

from __future__ import annotations

import pytest

from medfaith.cli import main
from medfaith.loaders import progress


@pytest.fixture
def titles(monkeypatch, capsys):
    """Return a function that runs a command and returns the titles of its progress lines, in order."""
    monkeypatch.setattr(progress, "EVERY", 0.0)

    def run(*arguments) -> list[str]:
        assert main([str(word) for word in arguments]) == 0
        written = capsys.readouterr()
        assert "/s" not in written.out
        lines = [line for line in written.err.splitlines() if line.endswith("left") or "/s" in line]
        return list(dict.fromkeys(line.partition(": ")[0] for line in lines))

    return run


def test_each_job(titles, phantom_heal_build, phantom_heal_roots, tmp_path):
    roots = [word for name, root in phantom_heal_roots.items() for word in ("--root", f"{name}={root}")]
    name, task = "heal-medvqa-vindr_cxr", "medfaith_heal_vindr_closed"
    built = titles("build", "heal-medvqa", "--config", "vindr", *roots, "--out", tmp_path / "data")
    assert built[:3] == ["reading masks of vindr/train", "reading masks of vindr/test", "searching donors"]
    verified = [f"verifying {name}", f"comparing the splits of {name}"]
    assert set(built[3:]) == {"hashing files", f"writing {name}", *verified}
    assert titles("verify", phantom_heal_build / name) == verified

    eval_options = ["--data", phantom_heal_build, *roots, "--model", "looks", "--limit", 2]
    evaluated = titles("eval", *eval_options, "--tasks", task, "--output_path", tmp_path / "runs", "--log_samples")
    expected = ["looking for images", f"reading rows of {task}", "looking", f"scoring rows of {task}"]
    assert [title for title in evaluated if title in expected] == expected
    reported = titles("report", tmp_path / "runs", "--html", tmp_path / "page.html")
    assert {"reading samples", "making tables", "drawing figures", "intervals of the page"} <= {*reported}


def test_reading_a_file_of_answers(titles, tmp_path):
    line = '{"id": "1", "kind": "yes_no", "question": "Is there edema?", "text": "None.", "gold": "no"}\n'
    (tmp_path / "answers.jsonl").write_text(line)
    assert titles("read", tmp_path / "answers.jsonl") == ["reading answers"]
