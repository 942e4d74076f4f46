"""Y0: reading of a response with a packet, and the rule that replaces the baseline's answer by the packet's."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medfaith.evaluate_metrics.polarity.fallback import REASONS, fall_back, read_confidence, read_packet
from medfaith.evaluate_metrics.polarity.verifier import Verdict
from medfaith.evaluate_metrics.reading.choice import Answer, parse_answer

OPTIONS = ["Edema", "No edema", "Atelectasis"]
WHOLE = (
    '{"answer": "B", "confidence": 0.62, "packet": {"question_asks_for": "presence", "finding": "edema", '
    '"location": "", "answer": "C", "confidence": 0.85}}'
)
OTHER = WHOLE.replace('"B"', '"A"')

UNREADABLE = (1, None, 1, "packet_unreadable")

# text -> (baseline, packet's answer, chosen, reason)
TEXTS = {
    WHOLE: (1, 2, 2, "fired"),
    f"```json\n{WHOLE}\n```": (1, 2, 2, "fired"),
    f"Here it is:\n{WHOLE}\nI hope that helps. {{}}": (1, 2, 2, "fired"),
    f"The answer is A, so {WHOLE}": (1, 2, 2, "fired"),
    f"<think>First {OTHER}, no.</think>{WHOLE}": (1, 2, 2, "fired"),
    f"<answer>{WHOLE}</answer>": (1, 2, 2, "fired"),
    f"{WHOLE}\n{WHOLE}": (1, 2, 2, "fired"),
    f"[{WHOLE}]": (1, 2, 2, "fired"),
    WHOLE.replace("0.62", '"62%"').replace("0.85", "85"): (1, 2, 2, "fired"),
    WHOLE.replace('"B"', '"No edema"').replace('"C"', '"C. Atelectasis"'): (1, 2, 2, "fired"),
    WHOLE.upper().replace("PRESENCE", "presence"): (1, 2, 2, "fired"),
    # answers that cannot be read
    WHOLE.replace('"B"', '"A or C"'): (None, 2, None, "no_prediction"),
    WHOLE.replace('"B"', "1"): (None, 2, None, "no_prediction"),
    WHOLE.replace('"B"', '"<A/B/C>"'): (None, 2, None, "no_prediction"),
    WHOLE.replace('"answer": "B", ', ""): (None, 2, None, "no_prediction"),
    WHOLE.replace('"C"', '"unsure"'): (1, None, 1, "packet_answer_unreadable"),
    WHOLE.replace('"C"', "null"): (1, None, 1, "packet_answer_unreadable"),
    WHOLE.replace('"C"', '["C"]'): (1, None, 1, "packet_answer_unreadable"),
    "": (None, None, None, "no_prediction"),
    "I cannot tell.": (None, None, None, "no_prediction"),
    f"{WHOLE} {OTHER}": (None, None, None, "no_prediction"),
    # packets that are not there, or broken
    "B": (1, None, 1, "no_packet"),
    "The answer is (B).": (1, None, 1, "no_packet"),
    '{"answer": "B", "confidence": 0.62}': (1, None, 1, "no_packet"),
    '{"answer": "B", "confidence": 0.62, "packet": null}': (1, None, 1, "no_packet"),
    '{"answer": "B", "confidence": 0.62, "packet": "C"}': UNREADABLE,
    WHOLE[:60]: UNREADABLE,
    WHOLE[:-1]: UNREADABLE,  # the packet is whole, what holds it is not
    WHOLE.replace('"', "'"): UNREADABLE,
    f'{{"response": {WHOLE}}}': UNREADABLE,
    WHOLE.replace('"confidence": 0.85', '"confidence": 0.85, "answer": "A"'): UNREADABLE,
    f"{WHOLE} {WHOLE.replace('0.62', '0.72')}": UNREADABLE,
    '{"answer": "B", "confidence": 0.62}\n{"packet": {"answer": "C", "confidence": 0.9}}': UNREADABLE,
    '{"answer": "B", "confidence": 0.62, "answer": "C"}': (None, None, None, "no_prediction"),
    # confidences
    WHOLE.replace('"confidence": 0.62, ', ""): (1, 2, 1, "confidence_missing"),
    WHOLE.replace("0.62", "null"): (1, 2, 1, "confidence_missing"),
    WHOLE.replace("0.62", '"low"'): (1, 2, 1, "confidence_unreadable"),
    WHOLE.replace("0.62", "NaN"): (1, 2, 1, "confidence_unreadable"),
    WHOLE.replace(', "confidence": 0.85', ""): (1, 2, 1, "packet_confidence_missing"),
    WHOLE.replace("0.85", "850"): (1, 2, 1, "packet_confidence_unreadable"),
    WHOLE.replace("0.85", "-0.85"): (1, 2, 1, "packet_confidence_unreadable"),
    # the rule: below 0.80, and at least 0.03 more
    WHOLE.replace("0.62", "0.80").replace("0.85", "0.95"): (1, 2, 1, "baseline_confident"),
    WHOLE.replace("0.62", "0.799999").replace("0.85", "0.95"): (1, 2, 2, "fired"),
    WHOLE.replace("0.62", "0.79").replace("0.85", "0.82"): (1, 2, 2, "fired"),  # 0.82 - 0.79 < 0.03 in floats
    WHOLE.replace("0.62", "0.79").replace("0.85", "0.8199999"): (1, 2, 1, "margin_too_small"),
    WHOLE.replace("0.62", "0.1").replace("0.85", "0.13"): (1, 2, 2, "fired"),
    WHOLE.replace("0.62", "0.5").replace("0.85", "0.5"): (1, 2, 1, "margin_too_small"),
    WHOLE.replace('"C"', '"B"'): (1, 1, 1, "same_answer"),
}


def test_responses():
    assert {reason for *_, reason in TEXTS.values()} == set(REASONS)
    assert read_packet(None, OPTIONS).baseline.answer == Answer(None, "unread", reason="empty")
    for text, (baseline, packet, choice, reason) in TEXTS.items():
        response = read_packet(text, OPTIONS)
        assert response.baseline.answer.choice == baseline, text
        assert (response.packet and response.packet.answer.choice) == packet, text
        assert fall_back(response) == Verdict(choice, reason == "fired", reason), text


@pytest.mark.parametrize(
    ("stated", "value"),
    [
        (0, 0.0), (1, 1.0), (0.85, 0.85), ("0.85", 0.85), (".85", 0.85), ("85%", 0.85), (" 85 % ", 0.85), (85, 0.85),
        ("85 percent", 0.85), ("82.3%", 0.823), (Decimal("0.850"), 0.85), (100, 1.0), ("5%", 0.05), ("0.5%", 0.005),
        (8, "unreadable"), (10, "unreadable"), (1.5, "unreadable"), (101, "unreadable"), ("120%", "unreadable"),
        (-0.5, "unreadable"), ("high", "unreadable"), (True, "unreadable"), (float("nan"), "unreadable"),
        ("0.8 to 0.9", "unreadable"), ("8/10", "unreadable"), ([0.8], "unreadable"), ({}, "unreadable"),
        ("0,85", "unreadable"), (None, "missing"), ("", "missing"),
    ],
)  # fmt: skip
def test_confidence(stated, value):
    confidence = read_confidence(stated)
    assert (confidence.outcome if confidence.value is None else confidence.value) == value


hundredths = st.integers(0, 100)
letters = st.sampled_from("ABC")


def format_response(baseline, confidence, packet, packet_confidence):
    inner = f'{{"answer": "{packet}", "confidence": {packet_confidence}}}'
    return f'{{"answer": "{baseline}", "confidence": {confidence}, "packet": {inner}}}'


@given(letters, hundredths, letters, hundredths)
def test_the_rule_in_whole_hundredths(baseline, confidence, packet, packet_confidence):
    """Check the rule with exact integers over all hundredths, including the thresholds."""
    text = format_response(baseline, f"{confidence / 100:.2f}", packet, f"{packet_confidence / 100:.2f}")
    verdict = fall_back(read_packet(text, OPTIONS))
    fires = confidence < 80 and packet_confidence - confidence >= 3 and packet != baseline
    assert verdict.fired is fires
    assert verdict.choice == "ABC".index(packet if fires else baseline)


@pytest.mark.parametrize("written", [lambda n: f'"{n}%"', lambda n: f"{n / 100:.3f}", lambda n: f'"{n / 100:.2f}"'])
def test_every_notation_meets_the_margin_exactly(written):
    for confidence in range(80):
        for margin, fires in ((3, True), (2, False)):
            text = format_response("A", written(confidence), "B", written(confidence + margin))
            assert fall_back(read_packet(text, OPTIONS)).fired is fires, text


@given(letters, hundredths, letters, hundredths, st.floats(0, 1), st.floats(0, 1))
def test_other_thresholds(baseline, confidence, packet, packet_confidence, below, margin):
    text = format_response(baseline, f"{confidence / 100:.2f}", packet, f"{packet_confidence / 100:.2f}")
    if fall_back(read_packet(text, OPTIONS), below=below, margin=margin).fired:
        assert confidence / 100 < below
        assert (packet_confidence - confidence) / 100 >= margin - 1e-9


@given(st.one_of(st.text(), st.text(alphabet='{}":,[]ABC answerpcktofid0.58'), st.sampled_from(list(TEXTS))), st.data())
def test_any_text_is_read_and_an_unread_answer_stays_unread(text, data):
    text = text[: data.draw(st.integers(0, len(text)))]
    packet = read_packet(text, OPTIONS)
    verdict = fall_back(packet)
    if "{" not in text and "packet" not in text.casefold():
        assert packet.baseline.answer[:2] == parse_answer(text, OPTIONS)[:2]
    assert verdict.reason in REASONS
    assert verdict.fired == (verdict.reason == "fired") == (verdict.choice != packet.baseline.answer.choice)
    if packet.baseline.answer.choice is None:
        assert verdict.choice is None
