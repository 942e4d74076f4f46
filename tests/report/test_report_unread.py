"""The warning of a model many of whose answers could not be read: above which share, with which answers."""

import json

import pytest

from medfaith.report.write import write_report
from tests.report.heal_logs import CLOSED, OPEN, write_heal
from tests.report.report_logs import answered, write_log
from tests.report.surgx_logs import FRAMES, write_surgx

LONG = ("word " * 40).strip()


def notes(folder):
    report = write_report([folder])
    return [line for line in report.splitlines() if line.startswith("- WARNING")]


@pytest.mark.parametrize(("unread", "warns"), [(0, False), (2, False), (3, True)], ids=["none", "2 %", "3 %"])
def test_a_share_above_two_percent_is_warned_of(unread, warns, tmp_path):
    write_log(tmp_path, "model-a", answered("chexpert_presence", 100, 50, 10, unread=unread))
    found = notes(tmp_path)
    assert len(found) == warns
    for note in found:
        assert "3 of 100 answers (3.0%) of model-a in samples_medfaith_contrabench_chexpert_presence" in note
        assert note.count("“The image does not allow a decision.”") == 1  # every filter's line has it
        assert "--gen_kwargs max_gen_toks" in note


@pytest.mark.parametrize(
    ("n", "answer", "model", "words"),
    [
        (20, "A", "m", "all answers of m in samples_"),
        (20, "A", "m", "are “A”. What to do: see whether the chat template"),
        (20, " ", "m", "are empty. What to do"),
        (19, "A", "m", None),
        (20, "A", "always_yes", None),
    ],
)
def test_answers_that_are_all_the_same_are_warned_of(n, answer, model, words, tmp_path):
    rows = [(row, answer) for row, _ in answered("chexpert_presence", n, 1, 1)]
    write_log(tmp_path, model, rows)
    found = [note for note in notes(tmp_path) if "all answers" in note]
    assert len(found) == (words is not None)
    assert all(words in note for note in found)


def test_one_other_answer_at_the_end_is_enough(tmp_path):
    rows = [(row, "A") for row, _ in answered("chexpert_presence", 30, 1, 1)]
    write_log(tmp_path, "m", [*rows[:-1], (rows[-1][0], "B")])
    assert not notes(tmp_path)


def test_answers_that_are_longer_than_what_is_read_are_counted(tmp_path):
    rows = answered("chexpert_presence", 6, 1, 1)
    (first, text), *rest = rows
    write_log(tmp_path, "m", [(first, f"{text} " * 40_000), *rest])
    (note,) = [note for note in notes(tmp_path) if "longer" in note]
    assert "1 of 6 answers of m in samples_medfaith_contrabench_chexpert_presence" in note
    assert "are longer than 65,536 characters, and what follows was not read." in note


def test_images_that_a_model_was_not_given_are_warned_of(tmp_path):
    log = write_log(tmp_path, "m", answered("chexpert_presence", 6, 1, 1))
    (path,) = tmp_path.glob("results_*.json")
    task = "medfaith_contrabench_chexpert_presence"
    scores = {"n_images_missing,b0": 4, "n_images_missing,m1": 4, "n_images_missing_stderr,b0": "N/A"}
    path.write_text(json.dumps(json.loads(path.read_text()) | {"results": {task: scores}}))
    (note,) = notes(tmp_path)
    assert f"m was not given 4 of the images in {log.name}" in note


def test_three_different_answers_are_shown_by_their_ends(tmp_path):
    rows = answered("chexpert_presence", 6, 1, 1, unread=4)
    texts = iter(["Blurred.", f"{LONG} cut he", "Blurred.", "Nothing  to\nsay."])
    write_log(tmp_path, "m", [(row, next(texts) if text.startswith("The image") else text) for row, text in rows])
    (note,) = notes(tmp_path)
    assert "4 of 6 answers (66.7%)" in note
    assert "“Blurred.”" in note
    assert "“Nothing to say.”" in note
    assert f"“…{f'{LONG} cut he'[-120:]}”" in note


@pytest.mark.parametrize(
    ("write", "words"),
    [
        (lambda folder: write_heal(folder, "closed", CLOSED), "1 of 10 answers (10.0%)"),
        (lambda folder: write_heal(folder, "open", OPEN), "could not be read"),
        (lambda folder: write_surgx(folder, FRAMES), "could not be read"),
    ],
    ids=["yes and no", "diseases", "instruments"],
)
def test_every_benchmark_that_reads_text_warns(write, words, tmp_path):
    write(tmp_path)
    (note,) = notes(tmp_path)
    assert words in note
