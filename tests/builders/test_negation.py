"""Assertion status of findings: sentences written for this test, an independent oracle, and invariants."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medfaith.builders.negation import CUES, FINDINGS, Mention, find_mentions

PTX, EFF, CON, EDE = "pneumothorax", "pleural effusion", "focal consolidation", "pulmonary edema"
ABSENT, PRESENT, UNCERTAIN, HISTORICAL = "absent", "present", "uncertain", "historical"


def list_statuses(text: str) -> list[tuple[str, str]]:
    return [(mention.finding, mention.status) for mention in find_mentions(text)]


# text, then (finding, status) of each mention in order
CASES: dict[str, list[tuple[str, list[tuple[str, str]]]]] = {
    "scope over a list": [
        ("No pneumothorax, effusion or consolidation.", [(PTX, ABSENT), (EFF, ABSENT), (CON, ABSENT)]),
        ("There is no focal consolidation, pneumothorax, or pleural effusion identified.",
         [(CON, ABSENT), (PTX, ABSENT), (EFF, ABSENT)]),
        ("No pneumothorax and no effusion.", [(PTX, ABSENT), (EFF, ABSENT)]),
        ("Neither pneumothorax nor effusion.", [(PTX, ABSENT), (EFF, ABSENT)]),
        ("No effusion/pneumothorax.", [(EFF, ABSENT), (PTX, ABSENT)]),
        ("No pleural or pericardial effusion.", [(EFF, ABSENT)]),
    ],
    "cues before the finding": [
        ("Lungs are expanded without effusion.", [(EFF, ABSENT)]),
        ("Without evidence of pneumothorax.", [(PTX, ABSENT)]),
        ("Without any radiographic evidence for edema.", [(EDE, ABSENT)]),
        ("No radiographic evidence of oedema.", [(EDE, ABSENT)]),
        ("Negative for pneumothorax or effusion.", [(PTX, ABSENT), (EFF, ABSENT)]),
        ("The lungs are free of consolidation.", [(CON, ABSENT)]),
        ("Both bases are clear of effusion.", [(EFF, ABSENT)]),
        ("Absence of pneumothorax.", [(PTX, ABSENT)]),
        ("Radiographs do not show a pneumothorax.", [(PTX, ABSENT)]),
        ("This fails to demonstrate consolidation.", [(CON, ABSENT)]),
        ("Does not appear to be a pneumothorax.", [(PTX, ABSENT)]),
        ("No XXXX of a pleural effusion.", [(EFF, ABSENT)]),
    ],
    "cues after the finding": [
        ("Pneumothorax is not seen.", [(PTX, ABSENT)]),
        ("Effusions are not identified.", [(EFF, ABSENT)]),
        ("Pneumothorax or effusion not visualised.", [(PTX, ABSENT), (EFF, ABSENT)]),
        ("A pneumothorax cannot be identified.", [(PTX, ABSENT)]),
        ("Pneumothorax: none.", [(PTX, ABSENT)]),
        ("Edema is absent.", [(EDE, ABSENT)]),
        ("Cardiomegaly has increased and pneumothorax is not seen.", [("cardiomegaly", PRESENT), (PTX, ABSENT)]),
        ("A nodule not seen on the prior film.", [("nodule", PRESENT)]),
        ("Right base opacity not visualized on the lateral view.", [("opacity", PRESENT)]),
    ],
    "pseudo-negation": [
        ("No change in the left effusion.", [(EFF, PRESENT)]),
        ("No significant interval change in pneumothorax.", [(PTX, PRESENT)]),
        ("No increase in edema.", [(EDE, PRESENT)]),
        ("Without significant change in cardiomegaly.", [("cardiomegaly", PRESENT)]),
        ("Not only atelectasis but also effusion.", [("atelectasis", PRESENT), (EFF, PRESENT)]),
        ("The consolidation is not significantly changed.", [(CON, PRESENT)]),
        ("No new effusion.", [(EFF, UNCERTAIN)]),
        ("No worsening consolidation.", [(CON, UNCERTAIN)]),
    ],
    "termination": [
        ("No pneumothorax but small effusion.", [(PTX, ABSENT), (EFF, PRESENT)]),
        ("No pneumothorax; small effusion.", [(PTX, ABSENT), (EFF, PRESENT)]),
        ("No pneumothorax. Small effusion.", [(PTX, ABSENT), (EFF, PRESENT)]),
        ("No pneumothorax.Small effusion.", [(PTX, ABSENT), (EFF, PRESENT)]),
        ("No pneumothorax however a small effusion.", [(PTX, ABSENT), (EFF, PRESENT)]),
        ("No effusion with stable cardiomegaly.", [(EFF, ABSENT), ("cardiomegaly", PRESENT)]),
        ("No effusion although atelectasis.", [(EFF, ABSENT), ("atelectasis", PRESENT)]),
        ("No pneumothorax, there is an effusion.", [(PTX, ABSENT), (EFF, PRESENT)]),
        ("No pneumothorax and the heart is enlarged.", [(PTX, ABSENT), ("cardiomegaly", PRESENT)]),
        ("No pneumothorax, stable scarring.", [(PTX, ABSENT), ("scarring", PRESENT)]),
        ("No nodule over 1.5 cm or consolidation.", [("nodule", ABSENT), (CON, ABSENT)]),
        ("No pneumothorax\n\nEffusion on the left", [(PTX, ABSENT), (EFF, PRESENT)]),
        ("No pneumothorax\n   or effusion", [(PTX, ABSENT), (EFF, ABSENT)]),
    ],
    "uncertain": [
        ("Possible small effusion.", [(EFF, UNCERTAIN)]),
        ("Questionable pneumothorax.", [(PTX, UNCERTAIN)]),
        ("Pneumothorax cannot be excluded.", [(PTX, UNCERTAIN)]),
        ("Cannot exclude early edema.", [(EDE, UNCERTAIN)]),
        ("Effusion is not entirely excluded.", [(EFF, UNCERTAIN)]),
        ("This may represent consolidation.", [(CON, UNCERTAIN)]),
        ("Opacity which could be due to effusion.", [("opacity", PRESENT), (EFF, UNCERTAIN)]),
        ("Atelectasis versus consolidation.", [("atelectasis", UNCERTAIN), (CON, UNCERTAIN)]),
        ("Atelectasis vs. consolidation.", [("atelectasis", UNCERTAIN), (CON, UNCERTAIN)]),
        ("Atelectasis or scarring.", [("atelectasis", UNCERTAIN), ("scarring", UNCERTAIN)]),
        ("Atelectasis/infiltrate.", [("atelectasis", UNCERTAIN), ("infiltrate", UNCERTAIN)]),
        ("Suspicious for pneumonia.", [("pneumonia", UNCERTAIN)]),
        ("No opacity suspicious for pneumonia.", [("opacity", ABSENT), ("pneumonia", ABSENT)]),
        ("No consolidation to suggest pneumonia.", [(CON, ABSENT), ("pneumonia", ABSENT)]),
        ("Findings consistent with edema.", [(EDE, PRESENT)]),
        ("No definite effusion.", [(EFF, UNCERTAIN)]),
        ("No typical findings of pulmonary edema.", [(EDE, UNCERTAIN)]),
        ("Pneumothorax is unlikely.", [(PTX, UNCERTAIN)]),
        ("Borderline cardiomegaly.", [("cardiomegaly", UNCERTAIN)]),
        ("Small bilateral effusions suspected.", [(EFF, UNCERTAIN)]),
    ],
    "an alternative outside the vocabulary": [
        ("Small effusion versus pleural thickening.", [(EFF, UNCERTAIN)]),
        ("Pleural thickening versus small effusion.", [(EFF, UNCERTAIN)]),
        ("Cardiomegaly and/or pericardial fluid.", [("cardiomegaly", UNCERTAIN)]),
        ("Apical thickening/scarring.", [("scarring", UNCERTAIN)]),
        ("Granuloma at T4 or callus.", [("granuloma", UNCERTAIN)]),
        ("Opacity which may be crowding or fluid.", [("opacity", PRESENT)]),
        ("Effusions with volume loss or crowding.", [(EFF, PRESENT)]),
        ("Effusion, crowding or volume loss.", [(EFF, PRESENT)]),
        ("No callus or fracture.", [("fracture", ABSENT)]),
        ("No mass or adenopathy.", [("mass", ABSENT)]),
    ],
    "an artefact or another structure": [
        ("The apical opacity is artifactual.", [("opacity", UNCERTAIN)]),
        ("Basal opacities are probably related to overlying soft tissues.", [("opacity", UNCERTAIN)]),
        ("A nodule, likely nipple.", [("nodule", UNCERTAIN)]),
        ("A nodule which may represent the patient's nipple.", [("nodule", UNCERTAIN)]),
        ("Opacity exaggerated by overlapping bone.", [("opacity", UNCERTAIN)]),
        ("A nodule overlying the left sixth rib.", [("nodule", PRESENT)]),
        ("Edema with superimposed atelectasis.", [(EDE, PRESENT), ("atelectasis", PRESENT)]),
        ("A breast mass. A soft tissue nodule.", []),
    ],
    "a hedge that was de-identified": [
        ("This most XXXX represents atelectasis.", [("atelectasis", UNCERTAIN)]),
        ("Density XXXX representing a granuloma.", [("granuloma", UNCERTAIN)]),
        ("Apical density is XXXX scarring.", [("scarring", UNCERTAIN)]),
        ("Basal opacities, XXXX atelectasis.", [("opacity", PRESENT), ("atelectasis", UNCERTAIN)]),
        ("Basal opacity XXXX scarring.", [("opacity", PRESENT), ("scarring", UNCERTAIN)]),
        ("Irregular rib, XXXX secondary to fracture.", [("fracture", UNCERTAIN)]),
        ("Markings possibly related to scarring.", [("scarring", UNCERTAIN)]),
        ("There is XXXX atelectasis.", [("atelectasis", PRESENT)]),
        ("XXXX scarring of the apex.", [("scarring", PRESENT)]),
    ],
    "a negation of one kind, size or side only": [
        ("No large effusion.", [(EFF, UNCERTAIN)]),
        ("No pneumothorax or large pleural effusion.", [(PTX, ABSENT), (EFF, UNCERTAIN)]),
        ("No large pleural effusion or pneumothorax.", [(EFF, UNCERTAIN), (PTX, ABSENT)]),
        ("No acute displaced rib fracture.", [("fracture", UNCERTAIN)]),
        ("No left pleural effusion.", [(EFF, UNCERTAIN)]),
        ("No right-sided pneumothorax.", [(PTX, UNCERTAIN)]),
        ("No suspicious nodules.", [("nodule", UNCERTAIN)]),
        ("No XXXX focal consolidation.", [(CON, UNCERTAIN)]),
        ("Large effusion, no pneumothorax.", [(EFF, PRESENT), (PTX, ABSENT)]),
    ],
    "historical": [
        ("History of pneumothorax.", [(PTX, HISTORICAL)]),
        ("History of pneumothorax, no pneumothorax today.", [(PTX, HISTORICAL), (PTX, ABSENT)]),
        ("The effusion has resolved.", [(EFF, HISTORICAL)]),
        ("Interval resolution of edema.", [(EDE, HISTORICAL)]),
        ("Resolved pneumothorax.", [(PTX, HISTORICAL)]),
        ("Pneumothorax is no longer seen.", [(PTX, HISTORICAL)]),
        ("The previously seen effusion.", [(EFF, HISTORICAL)]),
        ("The previously seen effusion is not identified.", [(EFF, ABSENT)]),
        ("Prior consolidation.", [(CON, HISTORICAL)]),
        ("Previously seen effusion is unchanged.", [(EFF, PRESENT)]),
        ("The previously described edema has decreased.", [(EDE, PRESENT)]),
        ("Near complete resolution of pneumothorax.", [(PTX, PRESENT)]),
        ("The effusion has largely resolved.", [(EFF, PRESENT)]),
        ("Resolving consolidation.", [(CON, PRESENT)]),
        ("Effusion unchanged from prior study.", [(EFF, PRESENT)]),
        ("Compared to the prior study edema is worse.", [(EDE, PRESENT)]),
    ],
    "vocabulary": [
        ("Pneumothoraces. Hydropneumothorax.", [(PTX, PRESENT), (PTX, PRESENT)]),
        ("Pleural effusions. Pleural fluid. Effusion.", [(EFF, PRESENT)] * 3),
        ("Pericardial effusion. Joint effusion.", []),
        ("Consolidation. Focal airspace consolidation. Lobar consolidations.", [(CON, PRESENT)] * 3),
        ("Consolidative opacity.", [(CON, PRESENT)]),
        ("Airspace disease. Focal air space opacity.", [("airspace disease", PRESENT)] * 2),
        ("Interstitial edema. Pulmonary oedema. Edema.", [(EDE, PRESENT)] * 3),
        ("Soft tissue edema. Subcutaneous emphysema. Mass effect.", []),
        ("Vascular congestion.", [("vascular congestion", PRESENT)]),
        ("Cardiomegaly. Enlarged heart. The heart is mildly enlarged. Enlargement of the cardiac silhouette.",
         [("cardiomegaly", PRESENT)] * 4),
        ("The heart is not enlarged.", []),
        ("Massive. Scarce. Opacityx. Non-opacity.", []),
        ("", []),
    ],
}  # fmt: skip


@pytest.mark.parametrize("group", CASES)
def test_status(group):
    assert [(text, list_statuses(text)) for text, _ in CASES[group]] == CASES[group]


@pytest.mark.parametrize(
    ("text", "cue"),
    [
        ("No pneumothorax or effusion.", "no"),
        ("There is NO EVIDENCE  OF\npneumothorax, or effusion.", "no evidence of"),
        ("Negative for effusion.", "negative for"),
        ("Lungs are without edema.", "without"),
        ("Effusion is not seen.", "is not seen"),
        ("No opacity to suggest pneumonia.", "no"),
        ("No definite effusion.", "no definite"),
        ("Atelectasis or scarring.", "or"),
        ("Small effusion.", ""),
        ("Previously seen effusion is unchanged.", ""),
    ],
)
def test_cue_is_the_phrase_never_the_sentence(text, cue):
    assert find_mentions(text)[-1].cue == cue


def test_places_are_those_of_the_text():
    text = "İ: no Pleural\n Effusion; heart normal"  # lower-casing İ makes it longer
    assert find_mentions(text) == [Mention(EFF, ABSENT, "no", 6, 23)]
    assert text[6:23] == "Pleural\n Effusion"


# negspacy (NegEx) has two states, negated and not negated. On these sentences both must agree.
AGREED = [
    "No pneumothorax, effusion or consolidation.",
    "There is no evidence of pneumothorax.",
    "No signs of edema.",
    "The lungs are without consolidation or effusion.",
    "Negative for pneumothorax.",
    "Lungs are free of consolidation.",
    "Absence of effusion.",
    "No pneumothorax but there is a small effusion.",
    "No effusion although mild atelectasis.",
    "No pneumothorax. Left effusion.",
    "Large effusion without pneumothorax.",
    "Cardiomegaly and edema.",
    "No change in the effusion.",
    "No significant change in consolidation.",
    "No increase in edema.",
    "Not only atelectasis but consolidation.",
    "The study fails to reveal consolidation.",
    "Bibasilar atelectasis, no effusion.",
    "No consolidation and no pneumothorax, however there is scarring.",
    "Stable nodule. No pneumothorax or edema.",
]
# NegEx and this module differ on purpose: (text, NegEx's decision for each mention, ours).
DIFFERENT = [
    ("Clear of effusion.", [False], [ABSENT]),  # NegEx does not have this cue
    ("Effusion is not seen.", [False], [ABSENT]),  # NegEx has few post-negations
    (
        "No effusion with stable cardiomegaly.",
        [True, True],
        [ABSENT, PRESENT],
    ),  # in NegEx "with" does not end the scope
    ("No large effusion.", [True], [UNCERTAIN]),  # NegEx has no size, hedge or history
    ("No definite effusion.", [True], [UNCERTAIN]),
    ("Atelectasis versus consolidation.", [False, True], [UNCERTAIN, UNCERTAIN]),
    ("History of effusion.", [False], [HISTORICAL]),
]


@pytest.fixture
def negex():
    spacy = pytest.importorskip("spacy")
    pytest.importorskip("negspacy.negation")
    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    ruler = nlp.add_pipe("entity_ruler", config={"phrase_matcher_attr": "LOWER"})
    findings = (
        "pneumothorax",
        "effusion",
        "consolidation",
        "edema",
        "atelectasis",
        "scarring",
        "nodule",
        "cardiomegaly",
    )
    ruler.add_patterns([{"label": "FINDING", "pattern": word} for word in findings])
    nlp.add_pipe("negex", config={"ent_types": ["FINDING"]})
    return lambda text: [entity._.negex for entity in nlp(text).ents]


@pytest.mark.full  # spaCy takes seconds to import; our side of the differences: the test after, of statuses: CASES
def test_agrees_with_negex_but_for_known_differences(negex):
    for text in AGREED:
        assert [status == ABSENT for _, status in list_statuses(text)] == negex(text), text
    for text, theirs, ours in DIFFERENT:
        assert negex(text) == theirs
        assert [status for _, status in list_statuses(text)] == ours


def test_statuses_where_negex_decides_otherwise():
    for text, _, ours in DIFFERENT:
        assert [status for _, status in list_statuses(text)] == ours


WORDS = (
    "no", "without", "evidence", "of", "for", "negative", "possible", "not", "seen", "is", "the", "left", "large",
    "new", "change", "in", "prior", "history", "resolved", "but", "with", "and", "or", ",", "versus", "cannot", "be",
    "exclude", "pneumothorax", "effusion", "pleural", "pericardial", "consolidation", "edema", "heart", "enlarged",
)  # fmt: skip
sentences = st.lists(st.sampled_from(WORDS), max_size=14).map(" ".join)


def add_offset(mentions: list[Mention], by: int) -> list[Mention]:
    return [Mention(m.finding, m.status, m.cue, m.start + by, m.end + by) for m in mentions]


@given(sentences, sentences)
def test_sentences_are_independent(sentence_a, sentence_b):
    together = find_mentions(f"{sentence_a}. {sentence_b}")
    assert together == find_mentions(sentence_a) + add_offset(find_mentions(sentence_b), len(sentence_a) + 2)


@given(sentences)
def test_case_and_white_space_do_not_matter(text):
    assert list_statuses(text.upper()) == list_statuses(text)
    assert list_statuses(text.replace(" ", " \n ")) == list_statuses(text)


@given(st.one_of(sentences, st.text()))
def test_mentions_are_in_order_apart_and_of_known_findings(text):
    mentions = find_mentions(text)
    assert all(0 <= m.start < m.end <= len(text) for m in mentions)
    assert all(mention.end <= following.start for mention, following in pairwise(mentions))
    assert {m.finding for m in mentions} <= set(FINDINGS) - {""}
    assert all(m.cue for m in mentions if m.status != PRESENT)


@given(sentences)
def test_only_a_negation_in_the_text_makes_a_finding_absent(text):
    if not {"no", "without", "negative", "not"} & set(text.split()):
        assert ABSENT not in {m.status for m in find_mentions(text)}


def test_tables_name_known_effects_and_sides():
    effects = {"neutral", "persists", "absent", "uncertain", "historical", "suggests", "stop"}
    assert {effect for effect, _, _ in CUES} == effects
    assert {side for _, side, _ in CUES} == {"before", "after", "either"}
