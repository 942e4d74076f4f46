"""Warnings for models with many unread or identical answers: thresholds and wording.

All models are in one report; each model's name describes its answers.
"""

import json
from collections.abc import Sequence

import pytest

from tests.support.reporting.heal_logs import CLOSED, OPEN, write_heal
from tests.support.reporting.report_logs import answered, write_log, write_report
from tests.support.reporting.surgx_logs import FRAMES, write_surgx

PRESENCE = "chexpert_presence"
LOG = f"samples_medfaith_contrabench_{PRESENCE}"
SHOWN = "“The image is sharp.”"
LONG = ("word " * 40).strip()


def answer_all(n: int, *last: str, reply: str = "A"):
    """Answer n questions with the same reply, except for the last ones."""
    docs = [doc for doc, _ in answered(PRESENCE, n, 0, 0)]
    return list(zip(docs, [reply] * (n - len(last)) + [*last], strict=True))


ANSWERS = {
    **{f"unread {n}": answered(PRESENCE, 100, 50, 10, unread=n) for n in (0, 2, 3)},
    **{name: answer_all(20) for name in ("same", "always_yes")}, "empty": answer_all(20, reply=" "),
    "same but few": answer_all(19),
    "same but one": answer_all(30, "B"), "long": answer_all(6, "B " * 40_000), "blind": answer_all(6),
    "three kinds": answer_all(6, "Blurred.", f"{LONG} cut he", "Blurred.", "Nothing  to\nsay."),
}  # fmt: skip
# fragments of the model's only warning of that kind; None: no warning
WARNINGS = [
    ("unread 0", "could not be read", None),
    ("unread 2", "could not be read", None),
    ("unread 3", "could not be read", ["3 of 100 answers (3.0%) of unread 3", SHOWN, "--gen_kwargs max_gen_toks"]),
    ("same", "all answers", [f"of same in {LOG}", "are “A”. What to do: see whether the chat template"]),
    ("empty", "all answers", ["are empty. What to do"]),
    ("same but few", "all answers", None),
    ("same but one", "", None),
    ("always_yes", "all answers", None),
    ("long", "longer", [f"1 of 6 answers of long in {LOG}", "than 65,536 characters, and what follows was not read."]),
    ("blind", "not given", [f"blind was not given 4 of the images in {LOG}"]),
    ("three kinds", "could not be read", [f"4 of 6 answers (66.7%) of three kinds in {LOG}", "“Blurred.”",
        "“Nothing to say.”", f"“…{f'{LONG} cut he'[-120:]}”"]),
    ("yes and no", "", ["1 of 10 answers (10.0%)"]),
    ("diseases", "", ["could not be read"]),
    ("instruments", "", ["could not be read"]),
]  # fmt: skip


@pytest.fixture(scope="module")
def notes(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("unread")
    for model, answers in ANSWERS.items():
        write_log(folder / model, model, answers)
    write_heal(folder / "h", "closed", CLOSED, model="yes and no")
    write_heal(folder / "h2", "open", OPEN, model="diseases")
    write_surgx(folder / "s", FRAMES, model="instruments")
    (path,) = (folder / "blind").glob("results_*.json")
    scores = {"n_images_missing,b0": 4, "n_images_missing,m1": 4, "n_images_missing_stderr,b0": "N/A"}
    results = {"results": {f"medfaith_contrabench_{PRESENCE}": scores}}
    path.write_text(json.dumps(json.loads(path.read_text()) | results))
    return [line for line in write_report([folder]).splitlines() if line.startswith("- WARNING")]


@pytest.mark.parametrize(("model", "kind", "fragments"), WARNINGS)
def test_warnings(notes: list[str], model: str, kind: str, fragments: Sequence[str] | None):
    matches = [note for note in notes if kind in note and (f" of {model} in " in note or f" {model} was " in note)]
    assert len(matches) == (fragments is not None)
    for note in matches:
        assert [word for word in fragments or [] if word not in note] == []
        assert note.count(SHOWN) <= 1, "every filter's line has it"
