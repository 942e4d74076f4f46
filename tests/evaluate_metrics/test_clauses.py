"""Acts of clauses and their denials: the cues with their examples, and a table of clauses."""

import pytest

from medfaith.evaluate_metrics.reading.clauses import split_clauses
from medfaith.evaluate_metrics.reading.cues import CUES, classify, compile_cue
from medfaith.evaluate_metrics.reading.reasoning import is_truncated, remove_unfinished
from medfaith.evaluate_metrics.reading.scope import find_standings


@pytest.mark.parametrize("cue", CUES, ids=lambda cue: f"{cue.act}: {cue.examples[0]}")
def test_a_cue_knows_its_examples_and_passes_near_misses(cue):
    pattern = compile_cue(cue)
    assert {phrase: bool(pattern.search(phrase)) for phrase in (*cue.examples, *cue.near_misses)} == {
        **dict.fromkeys(cue.examples, True),
        **dict.fromkeys(cue.near_misses, False),
    }
    assert {phrase: classify(phrase) for phrase in cue.examples} == dict.fromkeys(cue.examples, cue.act)


ACTS = {  # text: the acts of its clauses
    "There is edema.": ["state"],
    "I cannot determine whether there is edema.": ["decline"],
    "Whether there is edema is unclear.": ["decline"],
    "I am not a doctor, but there is edema.": ["state", "state"],
    "I cannot tell the cause, but there is edema.": ["decline", "state"],
    "I'm looking for a grasper, but I see a hook.": ["ask", "state"],
    "We look for edema, which would appear white.": ["ask"],
    "To confirm edema, a lateral view is needed.": ["ask"],
    "Edema is a condition in which fluid fills the lungs.": ["general"],
    "A normal patient has no edema.": ["general"],
    "The fields should be clear, with no opacity.": ["general", "general"],
    "There is an opacity that may be edema.": ["state", "weigh"],
    "There is an effusion, which may need drainage.": ["state", "weigh"],
    "Edema, which may be present.": ["weigh"],
    "Edema cannot be excluded.": ["general"],
    "The film is not suspicious for edema.": ["state"],
    "Is there edema?": [],
    "Graspers are commonly used; one is visible here.": ["general", "state"],
    "While edema could be present, it is less likely.": ["weigh", "general"],
}


def test_clauses_have_acts():
    assert {text: [clause.act for clause in split_clauses(text)] for text in ACTS} == ACTS


STANDING = {  # by standing: clauses with the name in brackets
    "asserted": [
        "there is [edema], no effusion", "[edema], not atelectasis", "not only [edema]", "no change in the [edema]",
        "the film is not normal and shows [edema]", "i do not think that there is no [edema]", "not without [edema]",
        "nothing suggests that the lungs are not [clear]", "the heart is not only [normal]", "[edema] cannot be denied",
        "the finding which is not present is [edema]", "[edema] ✓ effusion ✗",
        "no lung markings are seen laterally, indicating a [pneumothorax]", "no bleeding near the [hook]",
        "the angle is not visible because of an [effusion]", "there is no question that [edema] is present",
    ],
    "denied": [
        "there is edema, no [effusion]", "[edema] is absent", "[edema]: absent", "[edema] was not seen", "no [edema]",
        "[edema] in the left lung: absent", "without a [grasper]", "the lungs do not appear to be [clear]",
        "the heart is not within [normal] limits", "the liver is far from [healthy]", "i do not think it is [healthy]",
        "it is not the case that the lungs are [clear]", "the findings argue against [pneumothorax]",
        "the [heart is not enlarged]", "effusion rather than [edema]",
        "the [heart fails to appear enlarged]", "neither [clear] nor stable", "nothing [abnormal]", "✗ [edema]",
        "nothing on this   image   suggests [edema]", "the heart size is larger than [normal]",
    ],
    "open": ["more opaque compared with [edema]", "in [edema], the vessels are wide",
        "the film does not allow a statement about [edema]", "there is no film to diagnose [edema] from",
        "[edema]: unclear", "[edema] makes the vessels hazy", "no [edema] is wrong"],
}  # fmt: skip


def test_a_clause_asserts_or_denies_a_name():
    for expected, clauses in STANDING.items():
        for marked in clauses:
            start, end = marked.index("["), marked.index("]") - 1
            clause = marked.replace("[", "").replace("]", "")
            assert find_standings(clause, [(start, end)]) == [expected], marked


CUT = {  # text: the remaining text if truncation is unknown, and if it is known
    "It is edema. The left l": ("It is edema. The left l", "It is edema."),
    "It is C.\n- A: no\n- B": ("It is C.\n- A: no", "It is C.\n- A: no"),
    "A. Edema\nB. No edema\n\nB": ("A. Edema\nB. No edema\n\nB", "A. Edema\nB. No edema\n\n"),
    "Yes.</think><answ": ("Yes.</think>", "Yes.</think>"),
    "Findings:\n1. Edema\n2.": ("Findings:\n1. Edema", "Findings:\n1. Edema"),
    "B. No ede": ("B. No ede", "B. No "),
    "C": ("C", "C"),
    "Yes": ("Yes", "Yes"),
    "less than < 5": ("less than < 5", "less than < "),
}


def test_what_an_end_leaves_unfinished_goes():
    assert {text: (remove_unfinished(text), remove_unfinished(text, cut=True)) for text in CUT} == CUT
    assert {text for text in CUT if is_truncated(text)} == {
        text for text, (complete, _) in CUT.items() if complete != text
    }
