"""Location repair of M2: location words, replacement of options, invariants."""

from hypothesis import given
from hypothesis import strategies as st

from medfaith.evaluate_metrics.polarity.location import REASONS, verify_location
from medfaith.evaluate_metrics.polarity.verifier import Verdict

LEFT = "Which finding is seen in the left lung?"
UPPER = "Which finding is seen in the upper lung zones?"
PAIR = ["Right pleural effusion", "Left pleural effusion", "Cardiomegaly"]
LEVELS = ["Lower lobe opacity", "Upper lobe opacity", "Pneumothorax"]

# (question, options, predicted, chosen, reason)
CASES = [
    # one pole asked, the other predicted, one option that agrees
    (LEFT, PAIR, 0, 1, "fired"),
    (LEFT, PAIR, 1, 1, "no_conflict"),
    (LEFT, PAIR, 2, 2, "no_conflict"),
    ("What is shown on the right?", PAIR, 1, 0, "fired"),
    ("Which opacity is right-sided?", ["Left nodule", "Right nodule"], 0, 1, "fired"),
    (UPPER, LEVELS, 0, 1, "fired"),
    ("Which lobe of the inferior right lung is opaque?", ["Upper lobe", "Lower lobe", "Edema"], 0, 1, "fired"),
    (LEFT, ["RLL opacity", "LLL opacity", "Nodule"], 0, 1, "fired"),
    (LEFT, ["Rt. effusion", "Lt. effusion", "Nodule"], 0, 1, "fired"),
    (LEFT, ["A. Right effusion", "B. Left effusion", "C. Nodule"], 0, 1, "fired"),
    # both axes: all that is asked has to agree
    ("What is in the left upper lobe?", ["RUL nodule", "Left lower lobe mass", "LUL mass"], 0, 2, "fired"),
    ("What is in the left upper lobe?", ["Right lower nodule", "Left upper mass", "Edema"], 0, 1, "fired"),
    ("What is in the left upper lobe?", ["RUL nodule", "LLL nodule", "Edema"], 0, 0, "no_matching_option"),
    ("What is in the left upper lobe?", ["LLL nodule", "RUL nodule", "Edema"], 0, 0, "no_matching_option"),
    ("What is in the left upper lobe?", ["RLL nodule", "RUL nodule", "LLL nodule"], 0, 0, "no_matching_option"),
    ("What is in the left upper lobe?", ["RUL nodule", "Left apical nodule", "Edema"], 0, 0, "no_matching_option"),
    (LEFT, ["Right upper nodule", "Left lower nodule", "Edema"], 0, 1, "fired"),  # the level is not asked
    # no option, several, or one that may be meant
    (LEFT, ["Right effusion", "Edema", "Cardiomegaly"], 0, 0, "no_matching_option"),
    (LEFT, ["Right effusion", "Left effusion", "Left nodule"], 0, 0, "several_matching_options"),
    (LEFT, ["Right effusion", "Left effusion", "Bilateral effusions"], 0, 0, "several_matching_options"),
    (LEFT, ["Right effusion", "Bilateral effusions", "Edema"], 0, 0, "no_matching_option"),
    (LEFT, ["Right effusion", "Left and right effusions", "Edema"], 0, 0, "no_matching_option"),
    (LEFT, ["Right effusion", "Left effusion", "Both A and B"], 0, 0, "several_matching_options"),
    (UPPER, ["Lower lobe nodule", "Upper lobe nodule", "Apical nodule"], 0, 0, "several_matching_options"),
    (UPPER, ["Lower lobe nodule", "Middle lobe nodule", "Edema"], 0, 0, "no_matching_option"),
    # nothing that conflicts
    (LEFT, ["Bilateral effusions", "Left effusion", "Edema"], 0, 0, "no_conflict"),
    (LEFT, ["Right and left effusion", "Left effusion", "Edema"], 0, 0, "no_conflict"),
    (UPPER, ["Middle lobe nodule", "Upper lobe nodule", "Edema"], 0, 0, "no_conflict"),
    (UPPER, ["Basal atelectasis", "Upper lobe nodule", "Edema"], 0, 0, "no_conflict"),
    (LEFT, ["Right ventricular enlargement", "Left effusion", "Edema"], 0, 0, "no_conflict"),
    (UPPER, ["Inferior vena cava filter", "Upper lobe nodule", "Edema"], 0, 0, "no_conflict"),
    (LEFT, ["Shift to the right", "Left effusion", "Edema"], 0, 0, "no_conflict"),
    (LEFT, ["Rightward deviation of the trachea", "Left effusion", "Edema"], 0, 0, "no_conflict"),
    # the polarity of the option stays
    (LEFT, ["Right effusion", "No left effusion", "Edema"], 0, 0, "polarity_changes"),
    (LEFT, ["Clear right lung", "Left effusion", "Edema"], 0, 0, "polarity_changes"),
    (LEFT, ["Clear right lung", "Clear left lung", "Edema"], 0, 1, "fired"),
    # no prediction
    (LEFT, PAIR, None, None, "no_prediction"),
    (LEFT, PAIR, 3, 3, "no_prediction"),
    (LEFT, PAIR, -1, -1, "no_prediction"),
    (LEFT, [], 0, 0, "no_prediction"),
]


def test_verdicts():
    for question, options, choice, expected, reason in CASES:
        verdict = verify_location(question, options, choice)
        assert verdict == Verdict(expected, reason == "fired", reason), (question, options, choice)


# question -> the reason with a prediction that is right-sided and low, where the left upper option is offered too
QUESTIONS = [
    ("no_location", ["Which finding is present?", "", "Which finding is present in both lungs?",
        "What is left after the drainage?", "Which of these has been left out of the report?",
        "What was left untreated?", "Which is the right answer?", "Which statement is right?",
        "Is the heart size at the upper limit of normal?", "What explains the lower lung volumes?",
        "Which chamber is enlarged, the left ventricle?", "Which sign points to left-sided heart failure?",
        "What does the superior vena cava hold?", "What does the left lateral view show?",
        "What does the right anterior oblique projection show?"]),
    ("location_unclear", ["How do the left and right lungs differ?", "What is seen in the upper and the lower zones?",
        "What is in both left lobes?", "Which finding is not in the left lung?",
        "Which finding isn't seen on the left?", "Which finding is absent from the left lung?",
        "All of these are in the left lung except", "Besides the left effusion, what is seen?",
        "What is larger than the left hilum?", "Which side is opposite to the left effusion?",
        "Which side is the left-sided catheter's tip on?", "Where does the left PICC end?",
        "The trachea deviates to the left. Why?", "What is seen above the left hemidiaphragm?",
        "What is seen on the left side of the image?", "What is seen on the left of this radiograph?"]),
    ("fired", ["What is in the left lung?", "What lies in the left hemithorax of the patient?",
        "What is the finding in the left upper zone?", "On the left a nodule is seen: where?",
        "The opacity is left sided: where?", "What is in the superior part?",
        "With a large left ventricle, what is in the left lung?"]),
]  # fmt: skip

REASON = {question: reason for reason, questions in QUESTIONS for question in questions}


def test_questions():
    options = ["Right lower lobe nodule", "Left upper lobe nodule", "Edema"]
    expected = {q: Verdict(int(reason == "fired"), reason == "fired", reason) for q, reason in REASON.items()}
    assert {question: verify_location(question, options, 0) for question in REASON} == expected


PLACES = ["", "left", "right", "upper", "lower", "left upper", "right lower", "bilateral", "middle", "left ventricular"]
options_lists = st.lists(
    st.one_of(st.builds("{} {}".format, st.sampled_from(PLACES), st.sampled_from(["nodule", "effusion", "no mass"])),
              st.text(max_size=20)), max_size=6,
)  # fmt: skip
questions = st.one_of(
    st.sampled_from(list(REASON)), st.builds("What is in the {} lung?".format, st.sampled_from(PLACES)), st.text()
)


@given(questions, options_lists, st.integers(-2, 7))
def test_a_verdict_is_final(question, options, choice):
    verdict = verify_location(question, options, choice)
    assert verdict.reason in REASONS
    assert verdict.fired == (verdict.reason == "fired") == (verdict.choice != choice)
    assert verify_location(question, options, verdict.choice).choice == verdict.choice


@given(questions, options_lists.filter(bool), st.data())
def test_the_order_of_the_options_does_not_change_the_option(question, options, data):
    choice = data.draw(st.integers(0, len(options) - 1))
    order = data.draw(st.permutations(range(len(options))))
    verdict = verify_location(question, options, choice)
    moved = verify_location(question, [options[i] for i in order], order.index(choice))
    assert (verdict.choice, verdict.reason) == (order[moved.choice or 0], moved.reason)


MIRRORED = {"left": "right", "right": "left", "upper": "lower", "lower": "upper"}


@given(st.sampled_from(PLACES), options_lists, st.integers(0, 5))
def test_mirrored_words_give_the_mirrored_verdict(place, options, choice):
    """The rule treats both poles of an axis alike."""

    texts = [f"What is in the {place} lung?", *options]
    mirrored = [" ".join(MIRRORED.get(word, word) for word in text.split(" ")) for text in texts]
    verdict, mirrored_verdict = (
        verify_location(question, option_texts, choice) for question, *option_texts in (texts, mirrored)
    )
    assert verdict == mirrored_verdict
