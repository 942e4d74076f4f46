"""Reading of yes and no: the reply and the sentences, with and without the question; invariants for arbitrary text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medfaith.evaluate_metrics.reading.reasoning import extract_answer
from medfaith.evaluate_metrics.reading.yes_no import explain_yes_no, read_yes_no

READ = {
    "yes": [
        "Yes", "yes.", "YES!", " Yes", "**Yes**", "**Yes.** There is a small effusion.",
        "Yes, there is an opacity in the left lower lung.", "Yes there is", "Yes - the heart is enlarged",
        "Yes; see the left base.", "Y", '"Yes"', "'yes'", "(Yes)", "A. Yes", "Answer: Yes", "The answer is yes.",
        "The answer is: **Yes**", "The answer to the question is yes.", "Final answer: yes", '{"answer": "yes"}',
        '{"reason": "no edema elsewhere", "answer": "Yes"}', '```json {"answer": "Yes", "confidence": 0.9} ```',
        "\\boxed{Yes}", "<answer>Yes</answer>", "<think>No, wait. It may be no.</think>Yes",
        "<think>The answer is no?</think> The answer is yes.", "Therefore, yes.", "I would say yes", "Yep",
        "It is hazy. No pneumothorax is seen. So: yes.", "Yes, there is opacity. There is no effusion.",
        "No. On reflection, the answer is yes.", "Answer: no. Final answer: yes.", "Ｙｅｓ", "Yes or no: yes",
        "Answer (yes/no): Yes", "There is evidence of pneumonia in the left lower lung.",
        "Pleural effusion is present in the left lower lung.", "An opacity is clearly seen at the right base.",
        "The left lung shows signs of consolidation.", "The left lower lung suffers from pneumonia.",
        "There is consolidation in the left lower lung.", "The heart has cardiomegaly.",
        "The image shows a frontal chest X-ray. There is lung opacity.",
        "Present", "Positive.", "True", '{"answer": true}', "{'prediction': 'Yes'}", "It does.",
        "It is present", "Sí.",
        "Oui, il y en a un.", "Sim", "Có", "Ja, rechts.", "是", "是的，可以看到。", "有", "Most likely yes.",
        "**Answer**\nYes",
    ],
    "no": [
        "No", "no.", "NO", "**No**", "N", "No, the left lower lung does not show it.", "No, there is no sign of it.",
        "No the heart is normal", "No. The lungs are clear.", "No - the heart is normal", "No!", '"No."', "B) No",
        "Answer: no", "The answer is no.", "The answer would be no", "Final answer: **No**", '{"answer": "No"}',
        "<answer> no </answer>", "<thinking>Yes, perhaps.</thinking>No", "Yes. Wait, the answer is no.",
        "I would say no.", "Nope.", "Therefore no", "No evidence of edema.", "There is no evidence of edema.",
        "There is no pleural effusion in the right lung.", "No pneumothorax is seen.",
        "There's no effusion; there is no consolidation.", "The left lower lung does not have opacity.",
        "The left lower lung doesn't show any opacity.", "Edema is not seen.",
        "Effusion is not clearly visible in this image.", "The opacity isn't present there.",
        "The left lung is free of nodules.", "Consolidation is absent.", "The heart shows no enlargement.",
        "No, I don't see it.", "no because the costophrenic angle is sharp", "Yes/No: No",
        "Absent.", "Negative", "False", '{"answer": false}', '{"label": 0}', "None.", "None seen",
        "It does not.", "Not visible.",
        "Unlikely.", "Most likely no.", "【No】", "Nein.", "Non, aucun.", "Não.", "Không.", "没有",
        "没有看到胸腔积液。", "不是", "无",
        "[THINK]Yes?[/THINK]No", "analysisYes, maybe.assistantfinalNo", "No. Question: Is there edema? Answer: Yes",
        "<unused94>thought\nyes<unused95>no", "◁think▷yes◁/think▷No.",
    ],
    "ambiguous": [
        "Yes and no.", "Yes. No.", "Yes, in the right; no, in the left.", "No. Yes, there is.",
        "The answer is yes. The answer is no.", '{"yes": 0.9, "no": 0.1}',
        "Consolidation is present. There is no effusion.", "There is no effusion, but consolidation is present.",
        "neither yes nor no.",
    ],
    "declined": [
        "I cannot tell.", "I cannot determine whether edema is present.", "No image was given",
        "Yes, I can help. Please upload the image.",
    ],
    "none": [
        "The image is blurred.", "Maybe", "It is possible that edema is present.", "Edema may be present.",
        "The lungs are normal.",
        "A normal lung is seen.", "The image shows a frontal chest X-ray.", "There is a frontal view of the chest.",
        "The image shows normal lungs.", "The left lower lung has been resected.", "No idea.", "No doubt",
        "Is edema present?", "Please answer yes or no:", "Cardiomegaly",
                "<think>Yes? Perhaps", "I know nothing about it", "Nodule", "Not really", "...", "7", "不确定",
    ],
}  # fmt: skip


def test_yes_and_no_are_read():
    expected = {text: outcome for outcome, texts in READ.items() for text in texts}
    expected |= dict.fromkeys(
        [None, "", " \n", "</think>", "<answer></answer>", "<think>The answer is no</think>"], "empty"
    )
    assert {text: read(text) for text in expected} == expected


NOT_TENABLE = (
    "unlikely", "improbable", "very implausible", "not supported by the image", "not correct", "not likely",
    "unsupported",
    "not consistent with the image", "inconsistent with the clear lungs", "contradicted by the clear lungs", "rejected",
    "not shown", "not what the image shows", "not a good fit", "not the correct diagnosis", "out of the question",
)  # fmt: skip


@pytest.mark.parametrize("subject", ["Edema", "The edema", "Edema and effusion", "The presence of edema"])
def test_a_finding_that_is_called_untenable_is_denied(subject):
    verbs = ["are", "seem", "were"] if " and " in subject else ["is", "seems", "was", "looks", "is considered"]
    verbs += ["must be"]
    texts = [f"{subject} {verb} {predicate}." for verb in verbs for predicate in NOT_TENABLE]
    assert {text for text in texts if read(text, "Is there edema?") != "no"} == set()


DENIED = (
    "Edema isn't supported.", "Edema does not seem likely.", "Edema doesn't fit the picture.", "I rejected edema.",
    "It is implausible that there is edema.", "The image contradicts edema.", "There is little to suggest edema.",
    "There is little evidence of edema.", "Edema is not my diagnosis.", "Edema is likely to be absent.",
    "Edema was found to be absent.", "Edema has been dismissed.", "Edema is thought to be unlikely.",
)  # fmt: skip
ASSERTED = (
    "Edema is supported by the image.", "Edema is not unlikely.", "Edema is not implausible.",
    "Edema is present; a fracture is not supported.", "Edema is likely, while pneumonia is implausible.",
    "Edema is not the only finding.", "Edema is not a new finding.", "The edema is not the main abnormality.",
    "Edema is not my only diagnosis.", "Edema is present, although it does not explain the cough.",
    "The image contradicts the report: there is edema.", "There is more than a little evidence of edema.",
    "I do not think it is unlikely that there is edema.", "I don't believe it is implausible that edema is present.",
    "Edema is confirmed, effusion is refuted.", "Edema is out of proportion to the heart size.",
)  # fmt: skip


CONSIDERED = (
    "Edema was considered.", "I considered edema but rejected it.", "Edema was considered but ruled out.",
    "Edema must be excluded.", "Edema has to be ruled out.",
)  # fmt: skip


def test_a_denial_counts_for_the_finding_that_it_is_about():
    assert {text for text in CONSIDERED if read(text, "Is there edema?") in ("yes", "no")} == set()
    assert {text for text in DENIED if read(text, "Is there edema?") != "no"} == set()
    assert {text for text in ASSERTED if read(text, "Is there edema?") != "yes"} == set()


def read(text, question=""):
    """Return yes, no, declined, or the reason for an unread answer."""
    answer = explain_yes_no(text, question)
    return answer.answer or answer.reason or answer.outcome


@given(st.text(max_size=80))
def test_any_text_has_an_outcome_and_case_does_not_matter(text):
    outcome = read_yes_no(text)
    assert outcome in {"yes", "no", "declined", "unread"}
    if text.isascii():
        assert read_yes_no(text.upper()) == read_yes_no(text.lower()) == outcome


@given(st.sampled_from(["yes", "no"]), st.text(alphabet=" \n*_`\"'.!", max_size=6), st.booleans())
def test_dressing_changes_nothing(word, dress, think):
    thought = "<think>Yes. No. The answer is yes? No.</think>" if think else ""
    assert read_yes_no(f"{thought}{dress}{word}{dress}") == word
    assert extract_answer(f"{thought}{word}") == word


ASKED = {  # by question and reading: answers
    "Is there pleural effusion?": {
        "yes": ["There is a small effusion but no consolidation.",
        "The film demonstrates bilateral pleural effusions.",
            "Effusion likely.", "Fluid levels suggest a pleural effusion, which may need drainage.",
            "In conclusion, there is pleural effusion."],
        "no": ["Atelectasis, without effusion.", "No abnormality is seen.", "I don't see any effusion.",
            "A pleural effusion is not there.", "Pleural effusion: absent",
            "No obvious effusion; a small one can be hard to detect.",
            "Signs of a pleural effusion are absent. Effusions usually blunt the angle."],
        "none": ["The lungs are clear.", "The heart is of normal size.",

            "Pleural effusion cannot be excluded.", "A pleural effusion is a collection of fluid.",
            "An effusion could be there.",
            "To confirm an effusion, a lateral view is needed.",
            "The image shows a chest."],
        "declined": ["It is difficult to determine if there is an effusion.", "I cannot say whether there is one."],
        "ambiguous": ["There is an effusion. There is no effusion.", "Yes. There is no effusion."],
    },
    "Is there consolidation in the right lung?": {
        "yes": ["Consolidation in the right lower lung, not the left.", "Both lungs show consolidation."],
        "no": ["The right lung shows no consolidation, the left does.",
        "Consolidation is on the left, not the right."],
        "none": ["The left lung shows consolidation.", "There is consolidation, but it's on the left.",
            "| Region | Consolidation |\n|---|---|\n| Left lung | Yes |"],
    },
    "Is consolidation seen on the left?": {"no": [
        "In the right lung there is consolidation, not the left. Consolidation, not the left."]},
    "Does the heart have cardiomegaly?": {
        "yes": ["The heart is enlarged.", "The cardiac silhouette appears enlarged."],
        "no": ["The heart is not enlarged.", "Normal heart size.", "The cardiac silhouette is within normal limits."],
    },
    "Is the left lung free of opacity?": {
        "yes": ["No opacity is seen in the left lung.", "Yes, the left lung is free of opacity."],
        "no": ["There is an opacity in the left lung."],
    },
    "Is there a stone in the bladder?": {"no": ["No stone is seen.", "I don't see one.", "A stone is absent."],
        "yes": ["There is a stone.", "Oh, there is."]},
    "Is the mass malignant?": {"yes": ["It is malignant.", "The mass appears malignant."],
        "none": ["The mass is large.", "A board on the mass weighs malignant causes."],
        "no": ["It is benign rather than malignant.", "The mass is not malignant."]},
    "Is the tip in the right atrium?": {"no": ["The tip lies in the cava rather than in the right atrium."]},
    "Is there edema?": {
        "yes": ["Edema: Yes\nEffusion: No", "Answer: No. Let me correct this. Answer: Yes."],
        "declined": ["No, I can't tell you whether there is edema.", "Yes, but I am not able to judge edema."],
        "none": ["If lines are seen, the answer is yes.", "Edema: unclear", "Edema makes the vessels hazy."],
    },
    "Are the lungs clear?": {
        "yes": ["Both lungs are clear."], "no": ["The right lung is not clear."],
        "none": ["The right lung is clear.", "The lungs give a clear view of the film."],
    },
    "Is this chest X-ray abnormal?": {"no": ["This is a normal chest X-ray."]},
    "Is the lung clear?": {"yes": ["The lung is clear with no infiltrate."], "no": ["The lung is not clear."]},
    "Are the ribs normal?": {"yes": ["The ribs are normal."], "no": ["The ribs are not normal.",
        "No, the ribs are abnormal."]},
    "Is there any abnormality?": {"yes": ["There is a visible abnormality."],
        "no": ["There is nothing abnormal here."]},
    "左上肺是否有实变？": {"no": ["左上肺未见实变。"], "yes": ["左上肺可见实变。"], "none": ["无法判断左上肺实变。"]},
    "Há consolidação no lobo superior esquerdo?": {"no": ["Não há consolidação no lobo superior esquerdo."]},
    "Is a grasper visible?": {"no": ["no grasper", "The grasper is not visible."],
        "yes": ["A grasper holds the gallbladder."]},
}  # fmt: skip


@pytest.mark.parametrize("question", ASKED)
def test_a_sentence_counts_where_it_speaks_of_what_was_asked(question):
    expected = {text: outcome for outcome, texts in ASKED[question].items() for text in texts}
    assert {text: read(text, question) for text in expected} == expected


def test_the_stage_that_decides_is_told():
    stages = {
        '{"answer": "no"}': "marked", "Final answer: no": "final", "The answer is no.": "answer", "No.": "reply",
        "It does not.": "short", "There is no edema.": "described", "": "",
    }  # fmt: skip
    assert {text: explain_yes_no(text, "Is there edema?").stage for text in stages} == stages
