"""Y0 and M2: their filters, and a run of both on the synthetic ReXVQA, from lm-eval to Table 7."""

from __future__ import annotations

import json
from pathlib import Path
from string import ascii_uppercase
from typing import Any

import pytest
from lm_eval.api.registry import model_registry

from medfaith.builders import cxr_contrabench
from medfaith.loaders import phantom
from medfaith.tasks import register_models
from medfaith.tasks.contrabench import adapter, prompts
from medfaith.tasks.run import run_lm_eval
from tests.support.reporting.report_logs import rows_of, write_report
from tests.support.tasks.evaluating import Says, results_of, samples_of

PRESENT = "Which of the following findings is present in the left lung?"
ABSENT = "Which of the following findings is absent from the left lung?"
SIDES = ["Left nodule", "Right effusion", "No right effusion"]


def build_document(question: str, options: list[str]) -> dict:
    return {"question": question, "options": options, "images": ["one", "two"]}


@pytest.mark.parametrize(
    ("question", "options", "text", "m1", "m2", "reason"),
    [
        (PRESENT, SIDES, "B", 1, 0, "not_the_negated_option/fired"),
        (PRESENT, SIDES, "C", 1, 0, "fired/fired"),  # polarity first, then side
        (PRESENT, SIDES, "A", 0, 0, "not_the_negated_option/no_conflict"),
        (PRESENT, ["Edema", "No edema"], "B", 0, 0, "fired/no_conflict"),
        (ABSENT, SIDES, "B", 1, 1, "not_the_negated_option/location_unclear"),
        (PRESENT, SIDES, "?", None, None, "no_prediction/no_prediction"),
    ],
)
def test_m2_is_m1_and_then_the_location_repair(question, options, text, m1, m2, reason):
    doc = build_document(question, options)
    before, after = (json.loads(apply_filter([[text]], [doc])[0]) for apply_filter in (adapter.m1, adapter.m2))
    assert (before["choice"], after["choice"], after["verifier"]) == (m1, m2, reason)
    assert (before["before"], before["outcome"]) == (after["before"], after["outcome"])


PACKET = '{"answer": "C", "confidence": 0.6, "packet": {"answer": "A", "confidence": 0.9}}'


@pytest.mark.parametrize(
    ("text", "unread", "b0", "y0", "m1", "reason"),
    [
        (PACKET, "", 2, 0, 1, "fired"),
        (PACKET.replace("0.6", "0.8"), "", 2, 2, 1, "baseline_confident"),
        (PACKET[:50], "", 2, 2, 1, "packet_unreadable"),
        ("C", "", 2, 2, 1, "no_packet"),
        (PACKET.replace('"C"', '"A, B"'), "ambiguous", None, None, None, "no_prediction"),
        (PACKET.replace('"C"', '"Z"'), "out_of_range", None, None, None, "no_prediction"),
        ("Well.", "none", None, None, None, "no_prediction"),
    ],
)
def test_the_readings_of_a_packet(text, unread, b0, y0, m1, reason):
    doc = build_document(PRESENT, SIDES)
    names = ("packet_b0", "y0", "packet_m1")
    readings = {name: json.loads(getattr(adapter, name)([[text]], [doc])[0]) for name in names}
    assert [readings[name]["choice"] for name in names] == [b0, y0, m1]
    assert {reading["before"] for reading in readings.values()} == {b0}
    assert {reading["outcome"] for reading in readings.values()} == {"unread" if unread else "answered"}
    assert {reading["reason"] for reading in readings.values()} == {unread}
    assert readings["y0"]["verifier"] == reason
    columns = {"choice", "before", "outcome", "reason", "evidence", "verifier"}
    assert all(set(reading) == columns for reading in readings.values())


def test_the_packet_prompt_keeps_the_question_and_its_shape_is_no_answer():
    doc = build_document(PRESENT, SIDES)
    text = prompts.packet(doc)
    assert text.startswith(f"<image><image>\n{PRESENT}\nA. Left nodule\nB. Right effusion\nC. No right effusion\n")
    assert text.count("<image>") == 2
    shape = text.rsplit("\n", 1)[1]
    filled = json.loads(shape.replace("<0 to 1>", "0.5"))
    assert list(filled) == ["answer", "confidence", "packet"]
    assert list(filled["packet"]) == ["question_asks_for", "finding", "location", "answer", "confidence"]
    for echoed in (shape, shape.replace("<0 to 1>", "0.5"), text):
        (reading,) = adapter.y0([[echoed]], [doc])
        assert json.loads(reading)["choice"] is None


KINDS = 12  # rows of each of the five kinds
# Kind -> answer, confidence, answer and confidence in the packet. True: the right answer; False: the wrong side.
SAID = {
    0: (True, 0.8, False, 0.95),  # sure and right
    2: (False, "40%", True, "90%"),  # unsure and wrong, with the right answer in the packet
    3: (True, 0.5, False, 0.9),  # the response is truncated
    4: (True, 0.79, False, 0.82),  # unsure and right, with another answer 0.03 surer in the packet
}


def get_kind(doc: dict[str, Any]) -> int:
    return int(doc["id"].rsplit("_", 1)[1]) % 5


def answer_scripted(doc: dict[str, Any]) -> str:
    """Answer correctly, except for kind 2 (a wrong side) and rows with a negated distractor (it is chosen)."""
    letters = {True: ascii_uppercase[doc["answer"]], False: "B" if doc["answer"] == 0 else "A"}
    negated, n = ascii_uppercase[doc["negated"]] if doc["negated"] >= 0 else letters[True], get_kind(doc)
    if doc["prompt"] != "packet":
        return f"The answer is {letters[False]}" if n == 2 else negated
    if n == 1:
        return ascii_uppercase[doc["negated"]]
    right, sure, right_in_packet, surer = SAID[n]
    packet = dict.fromkeys(("question_asks_for", "finding", "location"), "")
    packet |= {"answer": letters[right_in_packet], "confidence": surer}
    text = json.dumps({"answer": letters[right], "confidence": sure, "packet": packet})
    return f"```json\n{text}\n```" if n != 3 else text[:-20]


class Scripted(Says):
    """A model that answers with `answer_scripted`, registered for lm-eval's command line."""

    def __init__(self, **_: Any) -> None:
        super().__init__(answer_scripted)


@pytest.fixture(scope="module")
def results(tmp_path_factory) -> Path:
    """Sample logs of the scripted model on both groups; each location question names its side."""
    folder = tmp_path_factory.mktemp("ablations")
    roots = phantom.write(folder / "phantom", seed=0, sources=("rexvqa",))
    questions = roots["rexvqa"] / "metadata" / "test_vqa_data.json"
    items = json.loads(questions.read_text(encoding="utf-8"))
    for number, item in enumerate(items.values()):
        if number % 5 == 2:
            item["question"] = "Which finding lies in the patient's left lung?"
            item["options"] = ["A. Left-sided effusion", "B. Effusion of the right lung", "C. Cardiomegaly"]
            item["correct_answer"] = "A"
    questions.write_text(json.dumps(items), encoding="utf-8")
    cxr_contrabench.build(roots, folder / "data")
    register_models()
    if "scripted" not in model_registry:
        model_registry.register("scripted", target=f"{__name__}:Scripted")
    groups = "medfaith_contrabench_rexvqa,medfaith_contrabench_y0"
    arguments = ["--model", "scripted", "--tasks", groups, "--output_path", str(folder / "results"), "--log_samples"]
    assert run_lm_eval(arguments, {"data": str(folder / "data")}, str)
    return folder / "results"


def read_scores(results: Path, task: str) -> dict[str, Any]:
    return results_of(results)[f"medfaith_contrabench_{task}"]


@pytest.mark.full  # a run of two groups; the filters are tested regularly
def test_m2_adds_the_location_questions_to_what_m1_repairs(results):
    scores = read_scores(results, "rexvqa::rexvqa_1k")
    assert scores["sample_len"] == 5 * KINDS
    assert scores["accuracy,m1"] > scores["accuracy,b0"]
    assert scores["accuracy,m2"] == pytest.approx(scores["accuracy,m1"] + 1 / 5)


@pytest.mark.full  # likewise
def test_y0_replaces_what_is_unsure_and_nothing_else(results):
    scores = read_scores(results, "y0::rexvqa_5k")
    assert scores["accuracy,b0"] == pytest.approx(3 / 5)  # kinds 0, 3 and 4
    assert scores["accuracy,y0"] == pytest.approx(3 / 5)  # kind 2 improves, kind 4 worsens
    assert scores["accuracy,m1"] > scores["accuracy,b0"]
    assert scores["parse_failure_rate,b0"] == 0
    samples = [sample for sample in samples_of(results, "y0::rexvqa_5k") if sample["filter"] == "y0"]
    reasons = {(get_kind(record["doc"]), json.loads(record["filtered_resps"][0])["verifier"]) for record in samples}
    by_kind = ("baseline_confident", "no_packet", "fired", "packet_unreadable", "fired")
    assert reasons == set(enumerate(by_kind))


@pytest.mark.full  # likewise
def test_table_7_has_both_and_table_6_names_the_prompt(results):
    report = write_report([results])
    ablations = {(row[0], row[3]): row for row in rows_of(report, "Table 7")}
    slices = ["1k", "5k", "10k", "10k s1", "10k s2", "10k s3", "3x10k pooled"]
    assert set(ablations) == {(name, variant) for name in slices for variant in ("Y0", "M2")}
    internal = {(row[0], row[2]): row for row in rows_of(report, "Table 6")}
    assert {("5k", "B0"), ("5k", "Packet-B0")} <= set(internal)
    changed, improved, worsened = (int(cell) for cell in internal["1k", "B0"][7:10])  # by M1
    assert changed >= improved > 0 == worsened
    assert ablations["1k", "M2"][7:10] == [str(changed + KINDS), str(improved + KINDS), "0"]
    assert ablations["5k", "Y0"][5:10] == ["60.00", "+0.00", str(2 * KINDS), str(KINDS), str(KINDS)]
    before, after = ablations["5k", "Y0"][11].split(" → ")
    assert before == after != "0"  # Y0 leaves the contradictions, as in the paper
    assert ablations["1k", "M2"][11] == internal["1k", "B0"][13]  # M2 leaves as many of them as M1
