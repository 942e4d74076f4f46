"""Answer reading: a table of responses, and invariants for arbitrary text."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medfaith.evaluate_metrics.reading.choice import parse_answer
from medfaith.evaluate_metrics.reading.options import strip_option_letters
from medfaith.evaluate_metrics.reading.words import words

OPTIONS = ["Edema", "No edema", "Pleural effusion"]  # A, B, C
A, B, C = 0, 1, 2

ANSWERED = [
    # a letter
    (B, ["B", "b", "B.", "B)", "b)", "(B)", "[B]", " B \n", "**B**", "**B.** No edema", "`B`", "$\\boxed{B}$",
        "\\boxed{\\text{B}}", "Ｂ", "<answer>B</answer>", "B\nB", "Option B"]),
    (C, ["- C", "（Ｃ）", '{"answer": "C"}', "C, I think"]),
    # a letter and its text
    (B, ["B: No edema", "B. No edema.", "B No edema"]),
    (A, ["A.Edema", "A Edema", "A) Edema, not pleural effusion"]),
    (C, ["C - pleural effusion", "C) Pleural effusion is visible on the left"]),
    # a statement
    (A, ["The answer is A", "The answer is a.", "Final answer: [A]"]),
    (C, ["Answer: (C)", "answer = C", "The correct option is C which shows fluid", "The answer is pleural effusion.",
        "The answer is A pleural effusion", "Edema was considered. The answer is (C) Pleural effusion."]),
    (B, ["Answer:\nB", "Answer B", "The best answer would be B.", "To answer the question: B"]),
    # precedence: final statement, statement, leading letter, mention
    (C, ["Answer: A\nFinal answer: C", "B. On reflection, the answer is C", "C because edema is not there"]),
    (A, ["A, because B is wrong"]),
    (B, ["1. absence\n2. edema\nFinal answer: B"]),
    # an option's text
    (A, ["Edema", "edema.", "EDEMA", "X-ray shows edema", "The finding which is not present on this study is edema"]),
    (B, ["No edema", "no  edema.", '"No edema"', "There is no edema.", "I see no edema on this study"]),
    (C, ["A pleural effusion", "The X-ray shows pleural effusion.", "A chest X-ray shows pleural effusion.",
        "The finding that is absent is pleural effusion.", "The image does not show edema but pleural effusion"]),
    # a letter in a sentence
    (B, ["I think B", "I think it is B.", "option b is correct", "B applies", "The answer could be B"]),
    (C, ["I choose C.", "I would go with C", "C is the answer", "A is wrong, C is correct", "It's not A, it is C.",
        "C is most likely."]),
    # punctuation and other languages
    (A, ["A!", "'A'"]),
    (C, ["‘C’"]),
    (B, ["答案是B", "答案：B。"]),
    # one letter preferred to another
    (A, ["A. Edema. Option C would show volume loss.", "(A) Edema fits; the first picture (C) differs",
        "The correct answer is A (Edema), not B.", "The answer is (A) Edema. An image as in (C) would look hazy.",
        "**A. Edema**\n\nWhy not the others:\n\n* **B. No edema:** the vessels are wide.\n* **C.** No meniscus.",
        "The answer is A rather than B", "A not B", "A, not B", "A but not B", "I would say A instead of B",
        "A. Edema. Option B is incorrect.", "The correct answer is A. B and C are wrong.",
        "A. Edema. No edema is wrong."]),
    # after thinking, in answer tags
    (A, ["<think>Edema? Answer: B? No wait.</think>\n\nA", "<think>Option B would be wrong.</think> A",
        "<thinking>B</thinking>A", "<reasoning>B</reasoning>A", "<thought>B</thought>A", "The answer is B.</think>A",
        "B looks right. <answer>A</answer> Final answer: C", "<think>B</think><answer>A. Edema</answer>",
        "<think>No edema.<answer>A</answer>"]),
    (C, ["<THINK>A</THINK>B or C? </think > C"]),
    (B, ["<answer></answer>B"]),
    # lines
    (A, ["Final answer: A\n\nB is the negated form.", "1. absence\n2. Pleural effusion\n3. No pleural effusion\n4. A",
        "Step 1: presence\nStep 2: edema\nStep 3: no edema\nStep 4: A"]),
    (B, ["Edema or no edema?\n\n**(B).**\n", "A. Edema\nB. No edema\nC. Pleural effusion\n\nB"]),
    # stated in other words
    (A, ["Most likely this is edema, in contrast to pleural effusion.",
        "While pleural effusion was considered, the finding is edema.",
        "The most likely finding here is edema; option B can be excluded.", "I would go for edema. Therefore, A.",
        "Pleural effusion is less likely. So the finding is edema.", "Edema (A) fits best.",
        "I'd say A, though C is possible.",
        "La respuesta correcta es A.", "Die richtige Antwort ist A.", "La bonne réponse est A.", "Đáp án đúng là A.",
        "A resposta é A", "正确答案是A", "故选A", "Daher spricht alles für edema.",
        "The answer is the first option."]),
    (B, ["There is no evidence of edema", "Edema is absent.", "No signs of edema.", "I do not see any edema."]),
    (C, ["It's pleural effusion.", "Edema would show lines here. It is pleural effusion, as the angle is blunt.",
        "While I can't be certain, pleural effusion fits these findings best."]),
    (A, ["Edema and pleural effusion were both thought of. Therefore, edema can be reported."]),
    (C, ["(A) is not supported by the film. The meniscus speaks for (C)."]),
    # marks of all kinds
    (C, ['```json\n{"reason": "A is unlikely", "final_answer": "C"}\n```',
        '{"answer": "C. Pleural effusion", "confiden',
        "{'choice': 'C'}", "First \\boxed{1}, then \\boxed{C}", "\\(\\boxed{\\text{(C)}}\\)", "【C】", "👉 **C** ✔️",
        "A. Edema ❌\nB. No edema ❌\nC. Pleural effusion ✅", "<|begin_of_box|>C<|end_of_box|>"]),
    # reasoning of all kinds
    (C, ["[THINK]Is it A?[/THINK]C", "◁think▷A or B?◁/think▷The answer is C.", "<unused94>thought\nA?<unused95>C",
        "analysisThe user asks. Maybe A.assistantfinalC", "## Thinking\nA?\n\n## Final Response\nC",
        "<|channel|>analysis<|message|>A?<|end|><|start|>assistant<|channel|>final<|message|>C<|return|>",
        "<think>A?\nC</answer>", "C<|im_end|>\n<|im_start|>user\nA?", "C\n\nQuestion: Which? Answer: A",
        "<think>The X-ray shows a pleural effusion.", "C\n<think>as said"]),
    # "No," before an option that agrees
    (B, ["No, there is no edema."]),
]  # fmt: skip

AMBIGUOUS = [
    "A and B", "A or C", "A/B", "A, B", "A, B and C", "A B", "(A) (C)", "Both A and C are correct",
    "The answer is A or B", "The answer is A. The answer is B.", "Final answer: [A/B/C]",
    "Edema and pleural effusion", "Edema. Pleural effusion.",
    "No edema, edema",
    # options in a row
    "A. Edema, B. No edema", "A. Edema and C. Pleural effusion",
    "A. Edema as seen. C. Pleural effusion", "A. Edema is present, and C. Pleural effusion is also present",
    "A. Edema and pleural effusion", "Answer: A. Edema B. No edema",
    # two choices
    "The answer is A but could be B", "A\nB", "1. A\n2. B\n3. C", "A. Edema\n\nB", "The answer is A.\n\nB",
    "<answer>A</answer><answer>B</answer>", "Edema B",
    # letter and text disagree
    "A. No edema", "B. Edema", "B edema", "Answer: C. Edema", "D. Edema",
    # an option that is only denied, and no other that says so
    "There is no pleural effusion.", "No, edema.", "No. Edema", "The answer is: no, edema",
    "Pleural effusion is ruled out", "Ruling out pleural effusion, the lungs are clear.",
    # definitions, and a last line that says something else
    "Final answer: A\n\nB",
    # none of them, or all
    "The closest is A, still not correct. Answer: none of the above.",
    "The answer is A, B and C.",
]  # fmt: skip

OUT_OF_RANGE = [
    "D", "E", "(E)", "E.", "Z)", "Answer: D", "The answer is E.", "Final answer: [H]", "option E", "I think D.",
]  # fmt: skip

EMPTY = [None, "", "   \n", "**", "<think>The answer is B</think>"]

DECLINED = [
    "I cannot tell.", "The answer is unclear", "I'm sorry, but I would rather not say whether there is edema.",
    "It is not possible to determine the right choice (A, B or C).",
]  # fmt: skip

NONE = [
    "...", "I", "I think the image is normal", "A chest X-ray",
    "A frontal view, a lateral view", "a frontal view", "The X-ray shows nothing", "A.P. view", "Yes", "No", "2",
    "The answer is not A", "Neither A nor B", "To answer the question we look at the lungs",
    "edematous", "vitamin C deficiency", "Vitamin C", "point B is nearer", "Hepatitis B.", "Hepatitis B and C.",
    "Hepatitis C is most likely", "<think>Edema? Answer: B? No wait.", "<think>Edema, or perhaps an effusion",
    # the question or its options repeated
    "A. Edema\nB. No edema\nC. Pleural effusion", "A. Edema B. No edema C. Pleural effusion",
    "(A) Edema (B) No edema (C) Pleural effusion", "A: Edema, B: No edema, C: Pleural effusion",
    "Edema is a condition of fluid. Pleural effusion is a collection around the lung.",
    "胸部", "\u0000\ud7ff",
]  # fmt: skip


def test_responses_are_read():
    expected = {text: (choice, "answered", "") for choice, texts in ANSWERED for text in texts}
    for reason, texts in (("ambiguous", AMBIGUOUS), ("out_of_range", OUT_OF_RANGE), ("none", NONE), ("empty", EMPTY)):
        expected |= dict.fromkeys(texts, (None, "unread", reason))
    expected |= dict.fromkeys(DECLINED, (None, "declined", ""))
    assert {text: read(text) for text in expected} == expected


def read(text, options=OPTIONS, question=""):
    answer = parse_answer(text, options, question)
    return answer.choice, answer.outcome, answer.reason


FINDINGS = ["Edema", "Pleural effusion", "Focal consolidation", "Atelectasis", "Pneumothorax", "Cardiomegaly"]
FORMS = ["No {}", "Absence of {}", "{} is not present", "No evidence of {}", "Clear of {}"]


@st.composite
def answer_sets(draw):
    """Draw answer sets in the benchmark's form: a finding, its negation in some form, distractors, any order."""
    target, *distractors = draw(st.lists(st.sampled_from(FINDINGS), min_size=2, max_size=5, unique=True))
    negated = draw(st.sampled_from(FORMS)).format(target.lower()).capitalize()
    return draw(st.permutations([target, negated, *distractors]))


@given(answer_sets())
def test_every_letter_and_every_option_text_is_read_back(options):
    for i, option in enumerate(options):
        letter = chr(65 + i)
        for text in (letter, f"({letter})", f"{letter}. {option}", f"The answer is {letter}.", option, f"{option}."):
            assert parse_answer(text, options)[:2] == (i, "answered"), text


@given(st.text(max_size=200), st.lists(st.text(max_size=20), max_size=30))
def test_any_text_has_one_outcome_and_only_a_parsed_one_has_a_choice(text, options):
    answer = parse_answer(text, options)
    assert answer.outcome in {"answered", "declined", "unread"}
    assert (answer.choice is not None) == (answer.outcome == "answered") == (answer.evidence != "")
    assert (answer.reason != "") == (answer.outcome == "unread")
    assert answer.choice is None or 0 <= answer.choice < len(options)


@pytest.mark.parametrize("options", [OPTIONS, [], ["A. Edema", "C. No edema"]])
def test_options_lose_letters_only_if_all_carry_theirs(options):
    assert strip_option_letters(options) == options
    assert (
        strip_option_letters([f"{letter}. {option}" for letter, option in zip("ABC", OPTIONS, strict=True)]) == OPTIONS
    )


LETTERED, TWICE = ["A. Edema", "B. No edema", "C. Pleural effusion"], ["Edema", "edema", "No edema"]
COUNTRIES, FINDINGS_SHOWN = ["Mali", "Niger", "Chad"], ["Lung lesion", "Edema", "Pleural effusion"]


FOUR = ["Edema", "No edema", "Pneumothorax", "No pneumothorax"]
PRESENT = "Which of the following findings is present on this chest X-ray study?"
ABSENT = "Which of the following findings is absent on this chest X-ray study?"
OWN_FORM = [  # text, options, question: the choice; or the outcome or the reason where there is none
    ("I cannot determine whether there is edema from this image.", OPTIONS, PRESENT, "declined"),
    ("As an AI, I am not able to diagnose edema.", OPTIONS, PRESENT, "declined"),
    ("No image was provided, so I cannot look for edema.", OPTIONS, PRESENT, "declined"),
    ("There is edema, no effusion.", OPTIONS[:2], PRESENT, A),
    ("There is edema. No pneumothorax.", FOUR, PRESENT, A),
    ("No edema is seen, but there is a pleural effusion.", OPTIONS, PRESENT, C),
    ("There is no pneumothorax.", OPTIONS, PRESENT, "none"),
    ("There is no edema. There is edema.", OPTIONS, PRESENT, "ambiguous"),
    ("The findings argue against edema.", OPTIONS, PRESENT, B),
    ("Edema cannot be excluded.", OPTIONS, PRESENT, "none"),
    ("We look for edema, which would appear white.", OPTIONS, PRESENT, "none"),
    ("CT is not the best test for edema.", OPTIONS, PRESENT, "none"),
    ("A normal patient has no edema.", OPTIONS, PRESENT, "none"),
    ("Edema is not seen.", OPTIONS, ABSENT, A),
    ("There is no edema.", OPTIONS, ABSENT, "ambiguous"),  # the finding that is absent, or the option "No edema"
    # articles, conditions, and statements that only quote an option
    ("A pleural effusion is ruled out.", ["Pleural effusion", "No pleural effusion", "Edema"], PRESENT, B),
    ("A pleural effusion cannot be assessed.", ["Pleural effusion", "No edema", "Edema"], PRESENT, "declined"),
    ("A. I cannot see the image.", OPTIONS, PRESENT, "declined"),
    ("If there is haze, the answer is A.", OPTIONS, PRESENT, "none"),
    ("The answer is A if there is haze.", OPTIONS, PRESENT, "none"),
    ("Let us first look at option A.", OPTIONS, PRESENT, "none"),
    ("Option A cannot be excluded.", OPTIONS, PRESENT, "none"),
    ("I cannot decide between edema and a pleural effusion, although edema is visible.", OPTIONS, PRESENT, "declined"),
    ("The answer is A. No, sorry, it is C.", OPTIONS, PRESENT, C),
    # questions for the absent finding
    ("The study shows edema.", OPTIONS, ABSENT, "none"),
    ("Edema: 0.9\nNo edema: 0.1\nPleural effusion: 0.2", OPTIONS, ABSENT, "ambiguous"),
    # a reasoning that ends, and an answer that is cut before it begins
    ("<think>The study shows edema.</think><answ", OPTIONS, PRESENT, A),
    # lists that give every option a value
    ("A: 0.1, B: 0.1, C: 0.7, D: 0.1", FOUR, PRESENT, C),
    ('{"A": 0.1, "B": 0.2, "C": 0.6, "D": 0.1}', FOUR, PRESENT, C),
    ('{"A": false, "B": false, "C": true, "D": false}', FOUR, PRESENT, C),
    ("A - No\nB - No\nC - Yes\nD - No", FOUR, PRESENT, C),
    ("Edema: 20%\nNo edema: 70%\nPleural effusion: 10%", OPTIONS, PRESENT, B),
    ("A: 0.5, B: 0.5, C: 0, D: 0", FOUR, PRESENT, "ambiguous"),
    ("A: true, B: false, C: true, D: false", FOUR, PRESENT, "ambiguous"),
    # a letter next to its own option's text
    ("The patient has **C. Pleural effusion**.", OPTIONS, PRESENT, C),
    ("I would classify it as **B. No edema**. Edema could be early.", OPTIONS, PRESENT, B),
    ("The primary pathology appears to be **A: Edema**. While an effusion could be present, it is small.", OPTIONS,
        PRESENT, A),
    ("This is grade (B) Moderate NPDR.", ["Mild NPDR (early)", "Moderate NPDR (later)"], "Which grade?", B),
    # second thoughts, confidence, tags
    ("Answer: A\nOn closer look, I need to correct this.\nAnswer: B", FOUR, PRESENT, B),
    ("C (confidence: 85%)", FOUR, PRESENT, C),
    ("C [high confidence]", FOUR, PRESENT, C),
    ("<think>seen</think><answer B></answer>", FOUR, PRESENT, B),
    # cut in a walk through the options
    ("The most likely finding is **C: Pneumothorax**.\n* A: Edema - no lines.\n* B: No edema - true.\n* C", FOUR,
        PRESENT, C),
]  # fmt: skip


DENIED_LETTERS = (
    "A", "(A)", "Option A", "A and C", "A, C", "A, B and C", "A or C", "(A) and (C)", "A/C", "Options A and C",
    "Both A and C", "A as well as C",
)  # fmt: skip
DENIALS = (
    "wrong", "both incorrect", "less likely", "very unlikely", "ruled out", "not supported by the image", "implausible",
)  # fmt: skip


def test_letters_that_a_sentence_calls_wrong_are_not_chosen():
    for letters, denial in product(DENIED_LETTERS, DENIALS):
        verbs = (
            ("is", "seems", "is probably", "is considered")
            if letters in DENIED_LETTERS[:3]
            else ("are", "seem", "were")
        )
        for verb in verbs:
            text = f"{letters} {verb} {denial}, as the lungs show."
            assert parse_answer(text, FOUR).choice is None, text
    for text in (
        "A: unlikely",
        "A isn't correct.",
        "A and C don't fit.",
        "A doesn't match.",
        "A can be excluded.",
        "A is most likely incorrect.",
    ):
        assert parse_answer(text, FOUR).choice is None, text


@pytest.mark.parametrize(
    "text",
    [
        "C. A and B are wrong.", "C, A is ruled out.", "C: A and D can be excluded.", "C. Options A and D seem out",
        "C; A is wrong.", "C) A is excluded", "C, since A is unlikely.", "C because A and D are not seen.",
        "C and not A", "C is correct, A and D are not.", "C. I was not sure", "C, I was not sure at first.",
        "A does not fit. The answer is C.",
    ],
)  # fmt: skip
def test_the_chosen_letter_is_read_next_to_those_that_are_called_wrong(text):
    assert parse_answer(text, FOUR).choice == 2


def test_several_letters_that_may_be_right_are_ambiguous():
    assert {
        parse_answer(f"A and B {rest}", FOUR).reason for rest in ("are both possible.", "remain", "seem likely")
    } == {"ambiguous"}


def test_options_of_a_finding_and_its_negation_are_read():
    def read_result(text, options, question):
        answer = parse_answer(text, options, question)
        return answer.choice if answer.outcome == "answered" else answer.reason or answer.outcome

    expected = {text: choice for text, _, _, choice in OWN_FORM}
    assert {text: read_result(text, options, question) for text, options, question, _ in OWN_FORM} == expected


CUT = {  # text, known to be cut: the choice, or the reason
    "C": C, "B. No ede": B, "The answer is A": "cut", "The answer is (C). It is": C, "There is no edem": "cut",
    "There is pleural effusion. The left": C, "Option": "cut", "A. Edema\nB. No edema\nC": "cut",
    "The answer is A.\n\nC.": A, "The film shows haze. It may be A or B.\n\nC.": "cut",
}  # fmt: skip


def test_of_a_cut_answer_the_opening_counts_and_never_the_last_line():
    answers = {text: parse_answer(text, OPTIONS, PRESENT, cut=True) for text in CUT}
    assert {text: parsed.reason if parsed.choice is None else parsed.choice for text, parsed in answers.items()} == CUT


EVIDENCE = {
    "letter": ["B", "The answer is B.", "B. No edema", "I choose (B)", "\\boxed{B}", "It is B: No edema, I think."],
    "text": ["No edema", "The answer is no edema.", '{"answer": "No edema"}', "No edema, as the vessels are sharp."],
    "prose": ["There is no edema.", "I do not see any edema.", "Therefore, edema is ruled out."],
}


def test_it_is_told_what_a_choice_was_read_from():
    read_from = {text: parse_answer(text, OPTIONS, PRESENT)[0::4] for texts in EVIDENCE.values() for text in texts}
    assert read_from == {text: (B, evidence) for evidence, texts in EVIDENCE.items() for text in texts}


LONG = ["Left pleural effusion seen", "Right lung nodule seen", "Heart is large today"]


@pytest.mark.parametrize(
    ("text", "options", "question", "expected"),
    [
        ("Niger is near. The highlighted country is Chad.", COUNTRIES, "Which country is highlighted?", (2, "stated")),
        ("It lies near Niger. The highlighted country is Chad.", COUNTRIES, "", (None, "mentions")),
        ("Small pleural effusion here. No edema.", FINDINGS_SHOWN, "Which finding is absent?", (1, "mentions")),
        ("There is an abscess of the liver.", ["Yes", "No"], "Is there an abscess?", (0, "yes or no")),
        ("C. Pleural effusion", LETTERED, "", (2, "opening")),
        ("There is no edema", LETTERED, "", (1, "mentions")),
        ("Edema", TWICE, "", (None, "text")),
        ("B", TWICE, "", (1, "answer")),
        ("A was considered, the study shows B. Right lung opacity", LONG, "", (1, "lettered")),
        ("A was considered, the study shows B. Left lung opacity", LONG, "", (None, "")),
    ],
)
def test_the_question_tells_what_a_sentence_answers(text, options, question, expected):
    answer = parse_answer(text, options, question)
    assert (answer.choice, answer.stage) == expected


def test_words_compare_without_case_punctuation_and_contractions():
    assert words("It ISN'T (present)… cannot_be-seen") == "it is not present can not be seen"
