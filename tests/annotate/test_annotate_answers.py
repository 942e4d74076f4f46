"""The answers file: its complete lines survive a kill of the writer at any moment."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from medfaith.annotate.answers import Choice, open_answers, read_judgements
from medfaith.loaders.errors import InputError
from tests.support.annotate.annotator_answers import judgement, write
from tests.support.full_disk import no_file_above


def test_what_is_written_is_read_and_added_to(tmp_path):
    path = tmp_path / "new" / "answers.jsonl"
    choice = Choice("ann", "image0", "row0", "Böse.", "0")
    write(path, choice, judgement(0))
    write(path, judgement(1))
    with open_answers(path) as (answers, notes):
        assert answers.choices == {("ann", "image0"): choice}
        assert answers.get_judgement("ann", judgement(0).item) == judgement(0)
        assert answers.get_judgement("other", judgement(0).item) is None
        assert notes == []
    assert read_judgements(path) == ([judgement(0), judgement(1)], [])
    assert [json.loads(line)["kind"] for line in path.read_text().splitlines()] == ["choice", "judgement", "judgement"]


@pytest.mark.parametrize(
    ("changes", "n"),
    [({"recall": 5}, 1), ({"alias": "Model B"}, 1), ({"model": "n"}, 2), ({"annotator": "other"}, 2),
     ({"row_id": None, "sentence": "row0", "custom": True}, 2), ({"instance": "image9"}, 2)],
)  # fmt: skip
def test_the_last_answer_to_a_question_counts(tmp_path, changes, n):
    path = tmp_path / "a.jsonl"
    write(path, judgement(), judgement(**changes))
    judgements, _ = read_judgements(path)
    assert len(judgements) == n
    assert judgements[-1] == judgement(**changes)
    assert len(path.read_text().splitlines()) == 2  # nothing is taken back


def test_wherever_a_line_is_cut_short_the_others_count_and_the_next_start_mends_the_file(tmp_path):
    path = tmp_path / "a.jsonl"
    write(path, judgement(0), judgement(1))
    content = path.read_bytes()
    first_end = content.index(b"\n") + 1
    for end in range(first_end + 1, len(content)):
        path.write_bytes(content[:end])
        judgements, notes = read_judgements(path)
        assert judgements == [judgement(0)]
        assert f"{end - first_end} bytes" in notes[0]
        assert path.read_bytes() == content[:end]  # a reader mends nothing
    with open_answers(path) as (answers, notes):
        assert "cut short" in notes[0]
        answers.judge(judgement(2))
    assert read_judgements(path) == ([judgement(0), judgement(2)], [])


WRONG = {"recall": 6, "precision": 2.0, "intuitiveness": True, "annotator": 1, "instance": [], "row_id": 3,
         "custom": None, "heatmaps": 0, "seconds": {}, "seed": None}  # fmt: skip


@pytest.mark.parametrize(
    ("line", "message"),
    [
        *((line, "is no answer") for line in ("{}", "[1]", "not JSON", '{"kind": "judgement", "recall": 1}')),
        *(
            (json.dumps({"kind": "judgement", **judgement(**{name: value})._asdict()}), f"column '{name}': is {value}")
            for name, value in WRONG.items()
        ),
    ],
)
def test_what_is_no_answer_is_refused_with_its_line_and_left_as_it_is(tmp_path, line, message):
    path = tmp_path / "a.jsonl"
    write(path, judgement())
    with path.open("a") as file:
        file.write(f"{line}\n")
    content = path.read_bytes()
    with pytest.raises(InputError, match=r"row 2") as refused, open_answers(path):
        pass
    assert message in str(refused.value)
    assert path.read_bytes() == content


WRITER = """
import json, signal, sys
from pathlib import Path
from medfaith.annotate.answers import Judgement, open_answers
with open_answers(Path(sys.argv[1])) as (answers, _):
    answers.judge(Judgement(**json.loads(sys.argv[2])))
    print("written", flush=True)
    signal.pause()
"""


def test_a_second_process_is_refused_and_let_in_when_the_first_is_killed(tmp_path):
    path = tmp_path / "a.jsonl"
    command = [sys.executable, "-c", WRITER, str(path), json.dumps(judgement()._asdict())]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as holder:
        try:
            assert holder.stdout
            assert holder.stdout.readline() == "written\n"
            with pytest.raises(InputError, match="another process writes"), open_answers(path):
                pass
            assert read_judgements(path) == ([judgement()], [])  # a reader needs no lock
        finally:
            holder.kill()
    with open_answers(path) as (answers, notes):
        assert list(answers.judgements.values()) == [judgement()]
        assert notes == []


def test_a_line_that_the_disk_does_not_take_leaves_nothing_behind(tmp_path):
    path = tmp_path / "a.jsonl"
    write(path, judgement())
    content = path.read_bytes()
    with open_answers(path) as (answers, _):
        with no_file_above(len(content) + 20), pytest.raises(OSError, match=r"No space|too large"):
            answers.judge(judgement(1))
        assert path.read_bytes() == content
        assert answers.get_judgement("ann", judgement(1).item) is None
        answers.judge(judgement(2))
    assert read_judgements(path) == ([judgement(0), judgement(2)], [])


def test_what_cannot_be_a_file_of_answers(tmp_path):
    with pytest.raises(InputError, match="is a folder"), open_answers(tmp_path):
        pass
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="special file"), open_answers(tmp_path / "pipe"):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["pipe"], "no lock stays"
    with pytest.raises(InputError, match="no such file"):
        read_judgements(tmp_path / "none.jsonl")
    with pytest.raises(InputError, match="is a folder"):
        read_judgements(tmp_path)
