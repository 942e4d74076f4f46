"""Reading answers: a table of responses, and what must hold for any text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medfaith.evaluate_metrics.reading.choice import Answer, option_texts, parse_answer
from medfaith.evaluate_metrics.reading.words import words

OPTIONS = ["Edema", "No edema", "Pleural effusion"]  # A, B, C
A, B, C = 0, 1, 2

PARSED = {
    # a letter
    "B": B,
    "b": B,
    "B.": B,
    "B)": B,
    "b)": B,
    "(B)": B,
    "[B]": B,
    " B \n": B,
    "- C": C,
    "**B**": B,
    "**B.** No edema": B,
    "`B`": B,
    "$\\boxed{B}$": B,
    "\\boxed{\\text{B}}": B,
    "Ｂ": B,
    "（Ｃ）": C,
    "<answer>B</answer>": B,
    '{"answer": "C"}': C,
    "B\nB": B,
    "Option B": B,
    "C, I think": C,
    # a letter and its text
    "B: No edema": B,
    "B. No edema.": B,
    "A.Edema": A,
    "A Edema": A,
    "B No edema": B,
    "C - pleural effusion": C,
    "C) Pleural effusion is visible on the left": C,
    "A) Edema, not pleural effusion": A,
    # a statement
    "The answer is A": A,
    "The answer is a.": A,
    "Answer: (C)": C,
    "Answer:\nB": B,
    "Answer B": B,
    "answer = C": C,
    "Final answer: [A]": A,
    "The correct option is C which shows fluid": C,
    "The best answer would be B.": B,
    "The answer is pleural effusion.": C,
    "The answer is A pleural effusion": C,
    "Edema was considered. The answer is (C) Pleural effusion.": C,
    "To answer the question: B": B,
    # precedence: final statement, statement, leading letter, mention
    "Answer: A\nFinal answer: C": C,
    "B. On reflection, the answer is C": C,
    "A, because B is wrong": A,
    "C because edema is not there": C,
    "1. absence\n2. edema\nFinal answer: B": B,
    # an option's text
    "Edema": A,
    "edema.": A,
    "EDEMA": A,
    "No edema": B,
    "no  edema.": B,
    '"No edema"': B,
    "There is no edema.": B,
    "I see no edema on this study": B,
    "A pleural effusion": C,
    "The X-ray shows pleural effusion.": C,
    "A chest X-ray shows pleural effusion.": C,
    "X-ray shows edema": A,
    "The finding that is absent is pleural effusion.": C,
    "The finding which is not present on this study is edema": A,
    "The image does not show edema but pleural effusion": C,
    # a letter in a sentence
    "I think B": B,
    "I think it is B.": B,
    "I choose C.": C,
    "I would go with C": C,
    "C is the answer": C,
    "A is wrong, C is correct": C,
    "It's not A, it is C.": C,
    "option b is correct": B,
    "C is most likely.": C,
    "B applies": B,
    "The answer could be B": B,  # hedged, as "I think B" is
    # punctuation and other languages
    "A!": A,
    "'A'": A,
    "‘C’": C,
    "答案是B": B,
    "答案：B。": B,
    # one letter preferred to another
    "The answer is A rather than B": A,
    "A not B": A,
    "A, not B": A,
    "A but not B": A,
    "I would say A instead of B": A,
    "A. Edema. Option B is incorrect.": A,
    "The correct answer is A. B and C are wrong.": A,
    "A. Edema. No edema is wrong.": A,
    # after thinking, in answer tags
    "<think>Edema? Answer: B? No wait.</think>\n\nA": A,
    "<think>Option B would be wrong.</think> A": A,
    "<thinking>B</thinking>A": A,
    "<reasoning>B</reasoning>A": A,
    "<thought>B</thought>A": A,
    "The answer is B.</think>A": A,
    "<THINK>A</THINK>B or C? </think > C": C,
    "B looks right. <answer>A</answer> Final answer: C": A,
    "<think>B</think><answer>A. Edema</answer>": A,
    "<think>No edema.<answer>A</answer>": A,
    "<answer></answer>B": B,
    # lines
    "Final answer: A\n\nB is the negated form.": A,
    "1. absence\n2. Pleural effusion\n3. No pleural effusion\n4. A": A,
    "Step 1: presence\nStep 2: edema\nStep 3: no edema\nStep 4: A": A,
    "Edema or no edema?\n\n**(B).**\n": B,
    "A. Edema\nB. No edema\nC. Pleural effusion\n\nB": B,
    # "No," before an option that agrees
    "No, there is no edema.": B,
}

AMBIGUOUS = [
    "A and B",
    "A or C",
    "A/B",
    "A, B",
    "A, B and C",
    "A B",
    "(A) (C)",
    "Both A and C are correct",
    "The answer is A or B",
    "The answer is A. The answer is B.",
    "Final answer: [A/B/C]",
    "A. Edema\nB. No edema\nC. Pleural effusion",
    "Edema and pleural effusion",
    "Edema. Pleural effusion.",
    "No edema, edema",
    # the options repeated
    "A. Edema B. No edema C. Pleural effusion",
    "(A) Edema (B) No edema (C) Pleural effusion",
    "A: Edema, B: No edema, C: Pleural effusion",
    "A. Edema, B. No edema",
    "A. Edema and C. Pleural effusion",
    "A. Edema as seen. C. Pleural effusion",
    "A. Edema is present, and C. Pleural effusion is also present",
    "A. Edema and pleural effusion",
    "Answer: A. Edema B. No edema",
    # two choices
    "The answer is A but could be B",
    "A\nB",
    "1. A\n2. B\n3. C",
    "A. Edema\n\nB",
    "The answer is A.\n\nB",
    "<answer>A</answer><answer>B</answer>",
    "Edema B",
    # letter and text disagree
    "A. No edema",
    "B. Edema",
    "B edema",
    "Answer: C. Edema",
    "D. Edema",
    # an option that is only denied has more than one reading
    "There is no evidence of edema",
    "There is no pleural effusion.",
    "Edema is absent.",
    "Edema is not present on this study",
    "No, edema is not present",
    "No, edema.",
    "No. Edema",
    "The answer is: no, edema",
    "Pleural effusion is ruled out",
]

OUT_OF_RANGE = [
    "D",
    "E",
    "(E)",
    "E.",
    "Z)",
    "Answer: D",
    "The answer is E.",
    "Final answer: [H]",
    "option E",
    "I think D.",
]

NONE = [
    None,
    "",
    "   \n",
    "**",
    "...",
    "I",
    "I cannot tell.",
    "I think the image is normal",
    "A chest X-ray",
    "A frontal view, a lateral view",
    "a frontal view",
    "The X-ray shows nothing",
    "A.P. view",
    "Yes",
    "No",
    "2",
    "The answer is not A",
    "The answer is unclear",
    "Neither A nor B",
    "To answer the question we look at the lungs",
    "edematous",
    "Vitamin C deficiency",
    "Vitamin C",
    "Hepatitis B.",
    "Hepatitis B and C.",
    "Hepatitis C is most likely",
    "<think>The answer is B",
    "<think>Edema? Answer: B? No wait.",
    "<think>The answer is B</think>",
    "胸部",
    "\u0000\ud7ff",
]

CASES = (
    [(text, Answer(choice, "parsed")) for text, choice in PARSED.items()]
    + [(text, Answer(None, "ambiguous")) for text in AMBIGUOUS]
    + [(text, Answer(None, "out_of_range")) for text in OUT_OF_RANGE]
    + [(text, Answer(None, "none")) for text in NONE]
)


@pytest.mark.parametrize(("text", "expected"), CASES, ids=[repr(text) for text, _ in CASES])
def test_response_is_read_as(text, expected):
    assert parse_answer(text, OPTIONS) == expected


FINDINGS = ["Edema", "Pleural effusion", "Focal consolidation", "Atelectasis", "Pneumothorax", "Cardiomegaly"]
FORMS = ["No {}", "Absence of {}", "{} is not present", "No evidence of {}", "Clear of {}"]


@st.composite
def answer_sets(draw):
    """Answer sets as the benchmark makes them: a finding, its negation in some form, distractors, any order."""
    target, *distractors = draw(st.lists(st.sampled_from(FINDINGS), min_size=2, max_size=5, unique=True))
    negated = draw(st.sampled_from(FORMS)).format(target.lower()).capitalize()
    return draw(st.permutations([target, negated, *distractors]))


@given(answer_sets())
def test_every_letter_and_every_option_text_is_read_back(options):
    for i, option in enumerate(options):
        letter = chr(65 + i)
        for text in (letter, f"({letter})", f"{letter}. {option}", f"The answer is {letter}.", option, f"{option}."):
            assert parse_answer(text, options) == Answer(i, "parsed"), text


@given(answer_sets(), st.data())
def test_permuting_the_options_permutes_the_answer(options, data):
    option = data.draw(st.sampled_from(options))
    template = data.draw(st.sampled_from(["{}", "{}.", "The answer is {}", "It shows: {}"]))
    shuffled = data.draw(st.permutations(options))
    before = parse_answer(template.format(option), options)
    after = parse_answer(template.format(option), shuffled)
    assert before.outcome == after.outcome
    if before.choice is not None and after.choice is not None:
        assert options[before.choice] == shuffled[after.choice] == option


@given(st.text(max_size=200), st.lists(st.text(max_size=20), max_size=30))
def test_any_text_has_one_outcome_and_only_a_parsed_one_has_a_choice(text, options):
    answer = parse_answer(text, options)
    assert answer.outcome in {"parsed", "ambiguous", "out_of_range", "none"}
    assert (answer.choice is not None) == (answer.outcome == "parsed")
    assert answer.choice is None or 0 <= answer.choice < len(options)


def test_options_that_carry_their_letters_lose_them():
    lettered = ["A. Edema", "B. No edema", "C. Pleural effusion"]
    assert option_texts(lettered) == OPTIONS
    assert option_texts(OPTIONS) == OPTIONS
    assert option_texts(["A. Edema", "C. No edema"]) == ["A. Edema", "C. No edema"]
    assert option_texts([]) == []
    assert parse_answer("C. Pleural effusion", lettered).choice == C
    assert parse_answer("There is no edema", lettered).choice == B


def test_two_options_of_one_text_are_ambiguous():
    assert parse_answer("Edema", ["Edema", "edema", "No edema"]).outcome == "ambiguous"
    assert parse_answer("B", ["Edema", "edema", "No edema"]).choice == 1


def test_words_compare_without_case_punctuation_and_contractions():
    assert words("It ISN'T (present)…") == "it is not present"
    assert words("cannot_be-seen") == "can not be seen"
