"""QCCV-Neg: questions and options that each trigger reads, the published cases, and invariants."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medfaith.evaluate_metrics.polarity.verifier import REASONS, Verdict, verify

PRESENCE = "Which of the following findings is present on this chest X-ray study?"
ABSENCE = "Which of the following findings is absent on this chest X-ray study?"

# question -> polarity read by the original and by the extended trigger
QUESTIONS = [
    (("presence", "presence"), [PRESENCE, "Which of these findings is present in the images of this study?"]),
    ((None, "presence"), ["Which finding can be seen on this chest X-ray study?",
        "Which of the listed findings does this chest X-ray study show?"]),
    (("absence", "absence"), [ABSENCE, "Which of these findings is absent from the images of this study?"]),
    ((None, "absence"), ["Which of the following findings is missing from this chest X-ray study?",
        "Which of the following findings is not present on this chest X-ray study?",
        "Which of the listed findings is not identified on this chest X-ray study?",
        "Which of the listed findings cannot be seen on this chest X-ray study?"]),
    # further wordings
    ((None, "presence"), ["Which finding is visible?", "What is demonstrated on this radiograph?",
        "Which abnormality is identified?"]),
    ((None, "absence"), ["Which finding isn't visible?", "Which finding is missing from this study?",
        "Which finding is not identified?", "Which finding does this study not show?",
        "Which finding has been ruled out?", "For which finding is there no evidence on this study?",
        "For which finding does the study show no evidence?", "For which finding is this study negative?",
        "Which finding is this study free of?"]),
    # not plainly one polarity
    ((None, None), ["", "What is the diagnosis?", "Where is the opacity?",
        "Which finding is present and which is absent?",
        "Which finding is absent although the report calls it present?", "Which finding is not absent?",
        "Which finding cannot be excluded?", "Which finding is not ruled out?", "Which finding is never missing?",
        "Which finding is unlikely to be seen?", "Which finding is unseen?"]),
    (("presence", None), ["All of these are present except", "Which finding is most likely present?",
        "Which finding may be present?", "Which finding is no longer present?"]),
    (("absence", None), ["Which finding is most likely absent?", "Which of the following is least likely present?"]),
]  # fmt: skip


def read_polarity(question: str, trigger: str) -> str | None:
    """Infer the question's polarity from the verdict: with slot0, only an absence question selects the distractor."""
    verdict = verify(question, ["Atelectasis", "Edema", "No edema"], 2, trigger=trigger, replacement="slot0")
    return {0: "absence", 1: "presence"}.get(verdict.choice or 0) if verdict.fired else None


POLARITY = {question: polarities for polarities, questions in QUESTIONS for question in questions}


def test_question_polarity():
    polarities = {q: tuple(read_polarity(q, trigger) for trigger in ("original", "extended")) for q in POLARITY}
    assert polarities == POLARITY


# form -> (original presence, original absence, extended presence, extended absence); Tables 20 and 21
FORMS = [
    ((True, True, True, True), ["No edema", "NO EDEMA"]),
    ((False, False, True, True), ["Absence of edema", "Edema is not present", "Free of edema", "Edema cannot be seen",
        "Edema isn't visible", "Edema not identified"]),
    ((False, True, True, True), ["No evidence of edema", "Clear of edema", "Without edema", "Negative for edema",
        "The lungs are clear of edema", "Edema is absent", "No signs of edema", "There is no edema.",
        "No edema is seen"]),
    # negations whose concept cannot be told
    ((False, False, False, False), ["No", "None of the above"]),
    ((False, True, False, False), ["No absence of edema", "Normal lungs"]),
]  # fmt: skip
NEGATIONS = {form: fired for fired, forms in FORMS for form in forms}


def test_negation_forms():
    ways = [(trigger, question) for trigger in ("original", "extended") for question in (PRESENCE, ABSENCE)]
    verdicts = {
        form: [verify(prompt, ["Edema", form, "Atelectasis"], 1, trigger=trigger) for trigger, prompt in ways]
        for form in NEGATIONS
    }
    assert {
        form: tuple(verdict == Verdict(0, True, "fired") for verdict in form_verdicts)
        for form, form_verdicts in verdicts.items()
    } == NEGATIONS


# The words of the authors' code: question -> polarity, and option -> (repaired on presence, on absence questions).
AUTHORS_QUESTIONS = {
    PRESENCE: "presence",
    "Which finding is present?": "presence",
    ABSENCE: "absence",
    "Which finding is not seen?": "absence",
    "For which finding is this study negative for signs?": "absence",
    "Which abnormality is not demonstrated?": "absence",
    "Which of the following is least likely present?": "absence",
    "Which of these is missing?": None,
    "Which finding can be seen?": None,
}
AUTHORS_OPTIONS = {
    "No edema": (True, True),
    "Without edema": (True, True),
    "Negative for edema": (True, True),
    "Absent edema": (True, True),
    "No evidence of edema": (False, True),
    "Absence of edema": (False, False),
    "Edema is not present": (False, False),
}


@pytest.mark.parametrize(("question", "polarity"), AUTHORS_QUESTIONS.items())
def test_question_polarity_of_the_authors_code(question, polarity):
    assert read_polarity(question, "authors") == polarity


@pytest.mark.parametrize(("option", "repaired"), AUTHORS_OPTIONS.items())
def test_negated_options_of_the_authors_code(option, repaired):
    options = ["Edema", option, "Atelectasis"]
    assert tuple(verify(question, options, 1, trigger="authors").fired for question in (PRESENCE, ABSENCE)) == repaired


ORIGINAL = {"trigger": "original", "replacement": "slot0"}
AGNOSTIC = {"trigger": "original", "replacement": "slot_agnostic"}
EXTENDED = {"trigger": "extended", "replacement": "slot_agnostic"}
LEAST = "Which of the following findings is least likely present on this study?"
DRIFT = ["Pleural effusion", "Pulmonary edema", "No pulmonary edema"]
AORTA = ["No ascending aortic enlargement", "Ascending aortic enlargement", "Aortic knob enlargement"]

VERDICTS = [
    # the casebook, Figure 14
    (PRESENCE, ["No tracheal deviation", "Tracheal deviation", "Aortic knob enlargement"], 0, ORIGINAL, 1, "fired"),
    (PRESENCE, [AORTA[0], AORTA[1], "Tracheal deviation"], 0, ORIGINAL, 1, "fired"),
    (PRESENCE, AORTA, 0, ORIGINAL, 0, "ambiguous_options"),
    (PRESENCE, AORTA, 0, EXTENDED, 1, "fired"),
    (ABSENCE, ["No pneumothorax", "Pneumothorax", "Pleural effusion"], 0, ORIGINAL, 1, "fired"),
    (ABSENCE, ["No pleural effusion", "Pleural effusion", "Focal consolidation"], 0, ORIGINAL, 1, "fired"),
    (ABSENCE, DRIFT, 2, ORIGINAL, 0, "fired"),  # slot 0 is not the target: wrong, matches the paper
    (ABSENCE, DRIFT, 2, AGNOSTIC, 1, "fired"),
    (ABSENCE, DRIFT, 2, EXTENDED, 1, "fired"),
    # section 6.3: the one worsened case of the pooled 30k run; the gold is the negated option
    (LEAST, ["Pneumothorax", "Pleural effusion", "No pneumothorax"], 2, ORIGINAL, 0, "fired"),
    (LEAST, ["Pneumothorax", "Pleural effusion", "No pneumothorax"], 2, EXTENDED, 2, "polarity_unclear"),
    # each condition
    (PRESENCE, ["Edema", "No edema", "Atelectasis"], None, ORIGINAL, None, "no_prediction"),
    (PRESENCE, ["Edema", "No edema", "Atelectasis"], 3, ORIGINAL, 3, "no_prediction"),
    (PRESENCE, ["Edema", "No edema", "Atelectasis"], -1, ORIGINAL, -1, "no_prediction"),
    (PRESENCE, [], 0, ORIGINAL, 0, "no_prediction"),
    (PRESENCE, ["Edema", "Pneumothorax", "Atelectasis"], 0, ORIGINAL, 0, "no_negated_option"),
    (PRESENCE, ["Edema", "No edema", "No atelectasis"], 1, ORIGINAL, 1, "several_negated_options"),
    (PRESENCE, ["Edema", "No edema", "Absence of atelectasis"], 1, EXTENDED, 1, "several_negated_options"),
    (PRESENCE, ["Edema", "No edema", "Atelectasis"], 0, ORIGINAL, 0, "not_the_negated_option"),
    (PRESENCE, ["Edema", "No edema", "Atelectasis"], 2, ORIGINAL, 2, "not_the_negated_option"),
    ("What is this?", ["Edema", "No edema", "Atelectasis"], 1, EXTENDED, 1, "polarity_unclear"),
    (PRESENCE, ["Pneumothorax", "No edema", "Atelectasis"], 1, ORIGINAL, 1, "no_counterpart"),
    (PRESENCE, ["Pulmonary edema", "No edema", "Atelectasis"], 1, EXTENDED, 1, "no_counterpart"),
    (PRESENCE, ["Edema", "No edema", "edema.", "Atelectasis"], 1, ORIGINAL, 1, "several_counterparts"),
    ("Is edema absent?", ["Yes", "No"], 1, ORIGINAL, 1, "no_counterpart"),
    ("Is edema present?", ["Yes", "No"], 1, EXTENDED, 1, "no_counterpart"),
    # comparison of concepts
    (PRESENCE, ["the EDEMA", "No edema.", "Atelectasis"], 1, ORIGINAL, 0, "fired"),
    (PRESENCE, ["A. Edema", "B. No edema", "C. Atelectasis"], 1, ORIGINAL, 0, "fired"),
    (PRESENCE, ["Edema", "No evidence of an edema", "Atelectasis"], 1, EXTENDED, 0, "fired"),
    (PRESENCE, ["Edema", "No edema"], 1, ORIGINAL, 0, "fired"),
    (ABSENCE, ["Edema", "No evidence of edema", "Atelectasis"], 1, AGNOSTIC, 1, "no_counterpart"),
]


def test_verdicts():
    for question, options, choice, variant, expected, reason in VERDICTS:
        verdict = verify(question, options, choice, **variant)
        assert verdict == Verdict(expected, reason == "fired", reason), (question, options, choice, variant)


@pytest.mark.parametrize("variant", [{"trigger": "newest"}, {"replacement": "slot1"}])
def test_unknown_variants_are_refused(variant):
    with pytest.raises(ValueError, match="expected"):
        verify(PRESENCE, ["Edema", "No edema"], 1, **variant)


FINDINGS = ["Edema", "Pleural effusion", "Focal consolidation", "Atelectasis", "Pulmonary edema", "Cardiomegaly"]
EMITTED = ["No {}", "Absence of {}", "{} is not present", "No evidence of {}", "Clear of {}"]
VARIANTS = [{"trigger": t, "replacement": r} for t in ("original", "extended") for r in ("slot0", "slot_agnostic")]


@st.composite
def answer_sets(draw):
    target, *distractors = draw(st.lists(st.sampled_from(FINDINGS), min_size=2, max_size=4, unique=True))
    negated = draw(st.sampled_from(EMITTED)).format(target.lower())
    options = draw(st.permutations([target, negated, *distractors]))
    return options, options.index(target), options.index(negated)


any_question = st.one_of(st.sampled_from(list(POLARITY)), st.text(max_size=60))
any_options = st.lists(st.one_of(st.text(max_size=20), st.sampled_from([*FINDINGS, *NEGATIONS])), max_size=6)


@given(any_question, any_options, st.integers(-2, 7), st.sampled_from(VARIANTS))
def test_only_the_prediction_of_the_one_negated_option_changes(question, options, choice, variant):
    verdict = verify(question, options, choice, **variant)
    assert verdict.reason in REASONS
    assert verdict.fired == (verdict.reason == "fired") == (verdict.choice != choice)
    assert verify(question, options, verdict.choice, **variant).choice == verdict.choice  # idempotent
    if verdict.fired:
        assert verdict.choice in range(len(options))
        assert [i for i in range(len(options)) if verify(question, options, i, **variant).fired] == [choice]


@given(st.sampled_from(list(POLARITY)), answer_sets(), st.data())
def test_extended_slot_agnostic_is_equivariant_under_permutation(question, case, data):
    options, _, _ = case
    choice = data.draw(st.integers(0, len(options) - 1))
    order = data.draw(st.permutations(range(len(options))))
    shuffled = [options[i] for i in order]
    verdict, moved = (
        verify(question, *arguments, **EXTENDED) for arguments in ((options, choice), (shuffled, order.index(choice)))
    )
    assert (options[verdict.choice or 0], verdict.reason) == (shuffled[moved.choice or 0], moved.reason)


@given(st.sampled_from([q for q, (_, extended) in POLARITY.items() if extended]), answer_sets(), st.data())
def test_extended_repairs_every_emitted_form_and_worsens_nothing(question, case, data):
    options, target, negated = case
    assert verify(question, options, negated, **EXTENDED) == Verdict(target, True, "fired")
    choice = data.draw(st.integers(0, len(options) - 1))
    for replacement in ("slot0", "slot_agnostic"):
        after = verify(question, options, choice, trigger="extended", replacement=replacement).choice
        assert after == target or choice != target  # gold is the target: never worsened
