"""Accuracy of answers: a table of texts and their labels, scores against scikit-learn, undefined values."""

import math
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, precision_recall_fscore_support
from sklearn.preprocessing import MultiLabelBinarizer

from medfaith.evaluate_metrics.medvqa_f1.score import closed_scores, open_scores, score_predictions
from medfaith.evaluate_metrics.reading.disease_names import CLASSES
from medfaith.evaluate_metrics.reading.diseases import Extraction, extract_labels
from tests.support.evaluate_metrics.modules import ROOM, compute_by_module
from tests.support.tiers import choose_size

AORTA, ATEL, CALC, CARD, CLAV, CONS = CLASSES[:6]
EDEMA, EMPH, PA, ILD, INF, OPAC = CLASSES[6:12]
CAV, CYST, SHIFT, NODULE, EFF, THICK = CLASSES[12:18]
PTX, FIB, RIB, OTHER = CLASSES[18:]

FOUND = [
    # the paper's style
    ({FIB, NODULE}, ["The heart suffers from pulmonary fibrosis and nodule/mass"]),
    ({EFF, OPAC, NODULE}, ["Findings include Pleural effusion, Lung Opacity and Nodule/Mass."]),
    ({EFF, ATEL, CONS}, ["The left lower lung has pleural effusion, atelectasis, and consolidation."]),
    ({AORTA, CALC}, ["The location of the aorta is at <SEG>. The answer is Aortic enlargement, Calcification"]),
    ({CARD}, ["Yes, there is cardiomegaly.", "Cardiomegaly"]),
    # plural, spelling, abbreviation
    ({EFF, NODULE}, ["Bilateral effusions and nodules"]),
    ({EDEMA}, ["pulmonary oedema", "Pulmonary edema"]),
    ({PTX}, ["Small left PTX", "bilateral pneumothoraces"]),
    ({ILD}, ["Changes of ILD"]),
    ({FIB, OPAC}, ["IPF with GGO"]),
    ({NODULE}, ["Multiple masses"]),
    ({OPAC, INF}, ["Opacities and infiltrates"]),
    ({ATEL}, ["Atelectases at both bases"]),
    ({CAV}, ["Thin-walled cavities"]),
    ({RIB}, ["several rib fractures"]),
    # other words
    ({CARD}, ["The heart is enlarged.", "Heart size is moderately enlarged", "Enlarged cardiac silhouette"]),
    ({AORTA}, ["dilatation of the ascending aorta", "A dilated aorta with an ectatic aortic arch"]),
    ({SHIFT}, ["Shift of the mediastinum to the left", "The mediastinum is pushed to the right."]),
    ({PA}, ["Enlarged pulmonary arteries"]),
    ({CLAV}, ["Fracture of the left clavicle"]),
    ({RIB}, ["Fracture of the right fifth posterior rib", "Fractures in the left 6th and 7th ribs",
        "A broken left sixth rib"]),
    ({THICK}, ["Thickening of the apical pleura"]),
    ({ILD, EMPH}, ["interstitial lung disease and emphysematous changes"]),
    ({OPAC}, ["Airspace opacification"]),
    ({CONS}, ["Consolidative opacity"]),
    ({CYST}, ["A cystic lesion"]),
    ({OTHER}, ["There are other lesions"]),
    # the longest name wins; names of something else
    ({NODULE}, ["Nodule and mass"]),
    ({CAV, CYST}, ["Lung cavity, lung cyst"]),
    ({EFF}, ["Subcutaneous emphysema and a pleural effusion", "Fluid in the thoracic cavity: pleural effusion"]),
    ({ATEL}, ["Cystic fibrosis with atelectasis"]),
    # lists
    ({CARD, EDEMA}, ["- Cardiomegaly\n- Edema"]),
    ({CARD, EFF}, ["1. **Cardiomegaly**\n2. *Pleural effusion*", '["Cardiomegaly", "Pleural effusion"]']),
    ({NODULE, THICK}, ["Findings:\n* Nodule/Mass\n* No edema\n* Pleural thickening"]),
    ({CONS}, ["No evidence of:\n- edema\n- effusion\n\nPresent:\n- Consolidation"]),
    ({CARD}, ["['No edema', 'Cardiomegaly']", "Edema: no\nCardiomegaly: yes\nPneumothorax: absent"]),
    ({RIB, OPAC}, ['```json\n{"findings": ["Rib fracture", "Lung Opacity"]}\n```']),
    # denial and its end
    ({CARD}, ["No edema. Cardiomegaly is present.", "There is no edema, but there is cardiomegaly.",
        "No edema, cardiomegaly is present", "Without edema or nodules, the heart is enlarged",
        "Cardiomegaly is present, effusion is absent", "No abnormality other than cardiomegaly",
        "No, the heart is enlarged"]),
    ({EFF}, ["No pneumothorax; small pleural effusion", "No change in the effusion", "Effusion, unchanged"]),
    ({CONS}, ["Consolidation without pleural effusion", "Consolidation is seen; effusion and edema are not seen",
        "The lung without effusion shows consolidation.", "The lung is not clear, with consolidation"]),
    ({EDEMA}, ["Edema but not effusion", "Edema and not effusion"]),
    ({ATEL}, ["Atelectasis rather than consolidation"]),
    ({NODULE}, ["No abnormalities except for a nodule."]),
    ({FIB}, ["The lung is not normal and shows fibrosis"]),
    ({EDEMA, EFF}, ["Not only edema, effusion too"]),
    # a hedge is a mention
    ({EDEMA}, ["Possible edema", "Edema is suspected."]),
    ({NODULE}, ["There may be small nodules"]),
    # what else an answer says
    ({EDEMA}, ["Edema is noted. A small effusion can't be ruled out.", "Edema, which may lead to an enlarged heart.",
        "Edema. It may be caused by cardiomegaly.", "Differential diagnosis:\n- consolidation\n\nFindings:\n- edema",
        "Common causes include ILD. There is edema.", "Edema is likely, effusion is less likely"]),
    ({CARD}, ["The heart looks enlarged. There are no masses."]),
    ({ATEL}, ["Atelectasis. Recommend follow-up to exclude an underlying mass.", "Atelectasis, as opposed to edema"]),
    ({EFF}, ["The effusion has not resolved."]),
    ({OPAC}, ["There is an opacity that could represent pneumonia."]),
    # ticks, JSON, headings, questions, other languages
    ({EDEMA}, ["Edema ✓ Effusion ✗", '{"edema": 1, "pneumothorax": 0}', '{"edema": true, "effusion": false}',
        "Edema? Yes. Effusion? No.", "Effusion: None\nEdema: Mild\nPneumothorax: No evidence of pneumothorax.",
        "**Present**\n- Edema\n\n**Absent**\n- Effusion\n- Pneumothorax\n\n**Not assessable**\n- Rib fracture",
        "Assessment:\n- Edema", "Œdème (edema) présent. Pas d'épanchement (effusion).",
        "可见水肿（edema），未见积液（effusion）。"]),
    # thinking
    ({CARD}, ["<think>Edema? Or effusion.</think>Cardiomegaly"]),
]  # fmt: skip
NORMAL = [
    "The heart is normal.", "Normal", "No", "No.", "None", "[]", "No abnormalities are seen in the left upper lung.",
    "There are no abnormalities.", "No acute cardiopulmonary abnormality", "No findings", "Unremarkable",
    "The lungs are clear.", "The lungs are clear and the heart size is normal.", "There is no edema.",
    "No edema, effusion, or consolidation.", "No edema, or effusion is seen.", "No nodules or masses are seen",
    "Effusion and edema are not present", "Edema is not seen", "The heart does not show cardiomegaly",
    "The heart is not enlarged.", "The heart isn't enlarged", "The right lung is free of nodules and consolidation.",
    "Pneumothorax is absent", "I do not see any effusion.", "Negative for pneumothorax", "Pleural effusion: absent",
    "Neither edema nor effusion", "Edema is unlikely", "The aorta does not have any disease.",
    "The effusion has resolved.", "Abnormalities: None", "Effusion ✗", "Nothing to suggest pneumothorax",
    "Edema can be ruled out.", "Edema is doubtful", "The effusion has cleared.", "The image fails to show edema",
    "No obvious evidence of pneumothorax, but a small pneumothorax can be difficult to detect.",
    "Absence of pleural effusion", "No, there is no abnormality.",
]  # fmt: skip
UNREADABLE = [
    "", None, "Yes", "The image is blurred.", "Pneumonia", "Is there an effusion?",
    "<think>The heart is normal", "Subcutaneous emphysema", "This is a chest X-ray in PA view.", "Abnormal",
    "The heart is not normal.", "Edema cannot be excluded.",
    "Atelectasis is a condition in which part of the lung collapses.", "Edema refers to fluid in the lung.",
    "I cannot rule out pneumothorax",
]  # fmt: skip
REFUSALS = ["I cannot determine whether there is an effusion.", "I cannot tell if the heart is normal"]


def test_diseases_are_read():
    expected = {text: Extraction(frozenset(labels), "answered") for labels, texts in FOUND for text in texts}
    for outcome, texts in (("answered", NORMAL), ("unread", UNREADABLE)):
        expected |= dict.fromkeys(texts, Extraction(frozenset(), outcome))
    assert {text: extract_labels(text) for text in expected} == expected
    assert len(expected) >= 100
    for text in [*REFUSALS, "The aorta cannot be assessed: aortic enlargement cannot be determined"]:
        assert extract_labels(text).labels == set()
        assert extract_labels(text).outcome != "answered"


def test_a_refusal_is_declined():
    assert {extract_labels(text).outcome for text in REFUSALS} == {"declined"}


def test_the_vocabulary():
    assert len(CLASSES) == 22
    for label in CLASSES:
        assert extract_labels(label) == Extraction(frozenset({label}), "answered")
        assert extract_labels(f"No {label.lower()} is seen.") == Extraction(frozenset(), "answered")
    assert extract_labels("Pneumonia, no edema", ["Pneumonia", "Edema"]).labels == {"Pneumonia"}
    assert extract_labels("Cardiomegaly", ["Pneumonia"]).outcome == "unread"


@given(st.lists(st.sampled_from(CLASSES), unique=True, min_size=1))
def test_any_labels_come_back_from_any_form(labels):
    *head, last = labels
    forms = "\n".join(f"- {label}" for label in labels), f"Findings include {', '.join(head)} and {last}.", str(labels)
    assert [extract_labels(text).labels for text in forms] == [set(labels)] * 3
    assert extract_labels(f"There is no {', '.join(head)} or {last}.").labels == set()


@given(st.text(max_size=100))
def test_any_text_has_an_outcome(text):
    extraction = extract_labels(text)
    assert extraction.outcome in ("answered", "declined", "unread")
    assert extraction.outcome == "answered" or not extraction.labels


def make_closed(answer, image_id="i"):
    return {"question_type": "closed", "answer": answer, "diseases": [], "image_id": image_id}


def make_open(*diseases, image_id="i"):
    return {"question_type": "open", "answer": "", "diseases": list(diseases), "image_id": image_id}


PREDICTIONS, REFERENCES = zip(
    ("Yes", make_closed("Yes")),
    ("No", make_closed("Yes", "j")),
    ("Yes", make_closed("No")),
    ("No", make_closed("No", "j")),
    ("The image is sharp", make_closed("Yes")),  # missed, and no false yes
    ("Yes and no", make_closed("No")),  # wrong, and no false yes
    ("Cardiomegaly and edema", make_open("Cardiomegaly", "Pleural effusion")),
    ("The heart is normal", make_open()),
    ("Blurred", make_open("Edema", image_id="j")),
    ("Blurred", make_open()),  # an unread answer to a normal region is wrong
    ("A nodule", make_open(image_id="k")),
    strict=True,
)


def test_a_table_counted_by_hand():
    scores = score_predictions(PREDICTIONS, REFERENCES, per_sample=True)
    per_sample = scores.pop("per_sample")
    assert {name: value for name, value in scores.items() if "_ci_" not in name} == {
        "yes_no_precision": 1 / 2, "yes_no_recall": 1 / 3, "yes_no_f1": 2 / 5, "n_yes_no_true_positives": 1,
        "n_yes_no_false_positives": 1, "n_yes_no_false_negatives": 2,
        "yes_no_macro_f1": pytest.approx((2 / 5 + 2 / 5) / 2), "yes_no_accuracy": 2 / 6, "n_closed": 6,
        "n_closed_yes": 3, "n_closed_unparsed": 2, "n_closed_unparsed_yes": 1, "n_closed_declined": 0,
        "n_closed_declined_yes": 0, "open_precision": 1 / 3,
        "open_recall": 1 / 3, "open_f1": 1 / 3, "n_open_true_positives": 1, "n_open_false_positives": 2,
        "n_open_false_negatives": 2, "open_exact_match": 1 / 5, "n_open": 5, "n_open_normal": 3,
        "n_open_answered_normal": 1, "n_open_unreadable": 2, "n_open_declined": 0,
    }  # fmt: skip
    assert [tuple(record.values()) for record in per_sample[4:7:2]] == [
        ("closed", "unread", None, False), ("open", "answered", ["Cardiomegaly", "Edema"], False),
    ]  # fmt: skip
    assert [number for number, sample in enumerate(per_sample) if sample["correct"]] == [0, 3, 7]
    normal = score_predictions(["Normal"], [make_open()])
    assert (math.isnan(normal["open_f1"]), normal["open_exact_match"], normal["n_open"]) == (True, 1.0, 1)


@pytest.mark.parametrize(
    ("references", "labels", "message"),
    [
        ([make_closed("Yes"), make_closed("Maybe")], None, "row 2, column 'answer': 'Maybe'; expected Yes or No"),
        ([make_closed("Yes"), make_open("Oedema")], None, "references, row 2, column 'diseases': 'Oedema'"),
        ([make_open(), {**make_open(), "question_type": "free"}], None, "row 2, column 'question_type': 'free'"),
        ([make_open(), make_open()], [["Edema"], ["edema"]], "labels, row 2, column 'diseases': 'edema'"),
        ([make_open(), make_open()], [None], "1 labels for 2 references"),
    ],
)
def test_bad_rows_are_named(references, labels, message):
    with pytest.raises(ValueError, match=message):
        score_predictions(["Yes", "No"], references, labels=labels)


def test_labels_of_another_extractor_replace_the_words():
    references = [make_open("Edema"), make_open("Edema"), make_open(), make_closed("Yes")]
    scores = score_predictions(["x", "Edema", "x", "Yes"], references, labels=[["Edema"], None, [], None])
    assert (scores["n_open_true_positives"], scores["n_open_unreadable"], scores["open_exact_match"]) == (1, 1, 2 / 3)
    assert scores["yes_no_f1"] == 1.0


def test_declined_answers_are_wrong_and_counted_apart():
    declined = closed_scores(["yes", "declined", "declined", "unread"], ["yes", "yes", "no", "yes"])
    names = ("n_closed_unparsed", "n_closed_unparsed_yes", "n_closed_declined", "n_closed_declined_yes")
    assert [declined[name] for name in names] == [1, 1, 2, 1]
    unread = closed_scores(["yes", "unread", "unread", "unread"], ["yes", "yes", "no", "yes"])
    assert {name for name in unread if repr(unread[name]) != repr(declined[name])} == {*names}
    nothing = [Extraction(frozenset(), outcome) for outcome in ("declined", "unread", "answered")]
    scores = open_scores(nothing, [["Edema"], ["Edema"], []])
    names = ("n_open_unreadable", "n_open_declined", "n_open_answered_normal", "n_open_false_negatives")
    assert [scores[name] for name in names] == [1, 1, 1, 2]
    assert open_scores(nothing[:1], [[]])["open_exact_match"] == 0, "a refusal is no right answer to a normal region"


UNDEFINED: Any = np.nan  # of scikit-learn's zero_division, whose annotation leaves NaN out


said_and_gold = st.tuples(st.sampled_from(["yes", "no", "declined", "unread"]), st.sampled_from(["yes", "no"]))


@given(st.lists(said_and_gold, min_size=1))
def test_closed_scores_agree_with_scikit_learn(cases):
    predicted, gold = ([side[i] for side in cases] for i in (0, 1))
    ours = closed_scores(predicted, gold)
    options = {"labels": ["yes", "no"], "average": None, "zero_division": UNDEFINED}
    rates: Any = precision_recall_fscore_support(gold, predicted, **options)
    precision, recall, f1, _ = rates
    expected = [precision[0], recall[0], f1[0], np.mean(f1), accuracy_score(gold, predicted)]
    scores = [ours[f"yes_no_{name}"] for name in ("precision", "recall", "f1", "macro_f1", "accuracy")]
    assert scores == pytest.approx(expected, nan_ok=True)


label_sets = st.frozensets(st.sampled_from(CLASSES[:6]), max_size=4)


@given(st.lists(st.tuples(label_sets, label_sets), min_size=1, max_size=12))
def test_open_scores_agree_with_scikit_learn(cases):
    predicted, gold = ([side[i] for side in cases] for i in (0, 1))
    ours = open_scores([Extraction(labels, "answered") for labels in predicted], gold)
    binary = MultiLabelBinarizer(classes=CLASSES)
    matrices = binary.fit_transform(gold), binary.fit_transform(predicted)
    rates = precision_recall_fscore_support(*matrices, average="micro", zero_division=UNDEFINED)[:3]
    scores = [ours[f"open_{name}"] for name in ("precision", "recall", "f1", "exact_match")]
    assert scores == pytest.approx([*rates, accuracy_score(*matrices)], nan_ok=True)


@settings(max_examples=choose_size(8, 20))
@given(st.integers(0, 1000))
def test_the_interval_is_that_of_resampled_images(seed):
    """Resample with numpy: draw images with replacement, add up their counts, take F1."""
    rng = np.random.default_rng(seed)
    images = np.repeat(np.arange(60), rng.integers(1, 5, size=60))
    gold = rng.random(len(images)) < 0.6
    predicted = gold ^ (rng.random(len(images)) < 0.1 + 0.3 * rng.random(60)[images])
    answers = [np.where(side, "yes", "no").tolist() for side in (predicted, gold)]
    ours = closed_scores(*answers, groups=images.tolist(), seed=1)
    counts = np.stack(
        [np.bincount(images, weights) for weights in (predicted & gold, predicted & ~gold, ~predicted & gold)]
    )
    resampled = counts[:, rng.integers(60, size=(4000, 60))].sum(axis=2)
    f1 = 2 * resampled[0] / (2 * resampled[0] + resampled[1] + resampled[2])
    tolerance = 0.35 * float(np.std(f1))  # four standard errors of both simulated quantiles
    bounds = [ours["yes_no_f1_ci_low"], ours["yes_no_f1_ci_high"]]
    assert bounds == pytest.approx(np.quantile(f1, [0.025, 0.975]), abs=tolerance)


def test_module_agrees_with_the_function():
    scores = compute_by_module("medvqa_f1", PREDICTIONS, REFERENCES, per_sample=True)
    assert scores == score_predictions(PREDICTIONS, REFERENCES, per_sample=True)


def test_printed_f1_of_table_2_is_not_always_that_of_printed_precision_and_recall():
    """Check the card's claim about the published table: 43 of 52 differ beyond rounding, 6 are outside [P, R]."""
    card = (ROOM / "medvqa_f1" / "README.md").read_text(encoding="utf-8")
    cells = [tuple(map(float, cell)) for cell in re.findall(r"(0\.\d{3}) / (0\.\d{3}) / (0\.\d{3})", card)]
    half, differ, outside = 0.0005, 0, 0
    for f1, precision, recall in cells:
        low, high = (2 / (1 / (precision + step) + 1 / (recall + step)) for step in (-half, half))
        differ += not low - half <= f1 <= high + half
        outside += not min(precision, recall) - half <= f1 <= max(precision, recall) + half
    assert (len(cells), differ, outside) == (52, 43, 6)
