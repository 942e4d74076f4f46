"""OpenI CheXStruct audit: rules against a row-by-row oracle, layout of the casebook, few-shot pools."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medfaith.builders.cxr_contrabench.chexstruct import FINDINGS, PROTOCOLS, TARGETS, questions
from medfaith.builders.cxr_contrabench.questions import Wording, find_violations
from medfaith.builders.cxr_contrabench.wording import QUESTION_FORMS, format_negated_option, format_positive_option
from medfaith.builders.hashing import pick
from medfaith.builders.schemas.contrabench import QUESTION
from medfaith.evaluate_metrics.polarity.verifier import verify
from medfaith.loaders import chexstruct as reader

PRESENCE, ABSENCE = PROTOCOLS
ORIGINAL = Wording(layout="original")  # the target has a fixed position
KNOB, ASCENDING, DESCENDING, TORTUOUS, TRACHEA = FINDINGS


def make_labels(**by_image: dict[str, int]) -> dict[str, dict[str, int]]:
    """Build labels by image and display name, in the form that the reader returns."""
    return {
        f"{name}_IM-0001-1001": {TARGETS[finding]: label for finding, label in labels_by_finding.items()}
        for name, labels_by_finding in by_image.items()
    }


@pytest.mark.parametrize(
    ("image_labels", "presence", "absence"),
    [
        pytest.param({KNOB: 1, TRACHEA: 0}, [(KNOB, TRACHEA)], [(TRACHEA, KNOB)], id="one of each"),
        pytest.param({KNOB: 1, TRACHEA: 1}, [], [], id="both present: no distractor that is absent"),
        pytest.param({KNOB: 0, TRACHEA: 0}, [], [], id="both absent: no distractor that is present"),
        pytest.param({KNOB: 1}, [], [], id="the others unknown"),
        pytest.param({KNOB: 0}, [], [], id="unknown is not present either"),
        pytest.param({}, [], [], id="nothing measured"),
        pytest.param(
            {KNOB: 1, ASCENDING: 1, TRACHEA: 0},
            [(KNOB, TRACHEA), (ASCENDING, TRACHEA)],
            [(TRACHEA, None)],
            id="a record for each target; the distractor of the absent one is chosen",
        ),
    ],
)
def test_rules(image_labels, presence, absence):
    for config, expected in ((PRESENCE, presence), (ABSENCE, absence)):
        rows = questions(make_labels(CXR7=image_labels), config, wording=ORIGINAL).to_pylist()
        assert [row["finding"] for row in rows] == [target for target, _ in expected]
        for row, (_, distractor) in zip(rows, expected, strict=True):
            if distractor:
                assert row["options"][2] == format_positive_option(distractor)


LABELS = st.lists(st.dictionaries(st.sampled_from(FINDINGS), st.sampled_from([0, 1])), max_size=10)


@given(LABELS, st.sampled_from([PRESENCE, ABSENCE]), st.integers(0, 3))
def test_rules_agree_with_a_row_by_row_oracle(images, config, seed):
    table = questions(
        make_labels(**{f"CXR{i}": image_labels for i, image_labels in enumerate(images, 1)}),
        config,
        seed=seed,
        wording=ORIGINAL,
    )
    status = 1 if config == PRESENCE else 0
    expected = []
    for number, image_labels in enumerate(images, 1):
        distractors = [f for f in FINDINGS if image_labels.get(f) == 1 - status]
        for finding in FINDINGS:
            if image_labels.get(finding) == status and distractors:
                row_id = f"openi/CXR{number}_IM-0001-1001/chexstruct_{PROTOCOLS[config]}/{finding.replace(' ', '_')}"
                expected.append((row_id, finding, distractors[pick(row_id, len(distractors), seed)]))
    rows = table.to_pylist()
    assert [(r["id"], r["finding"], r["options"][2]) for r in rows] == [
        (i, f, format_positive_option(d)) for i, f, d in expected
    ]
    assert table.schema == QUESTION.arrow_schema
    assert find_violations(table) == []
    for row in rows:
        assert row["options"][row["negated"]] == format_negated_option(row["finding"], "canonical_no")
        assert row["options"][row["answer"]] == format_positive_option(row["finding"])
        assert row["answer"] == row["counterpart"]
        assert row["question"] == QUESTION_FORMS[PROTOCOLS[config]]["original"]


def test_a_card_of_the_casebook():
    """Figure 14: "A. No tracheal deviation | B. Tracheal deviation | C. Aortic knob enlargement", gold B."""
    (row,) = questions(make_labels(CXR1_1={TRACHEA: 1, KNOB: 0}), PRESENCE, wording=ORIGINAL).to_pylist()
    assert row["options"] == ["No tracheal deviation", "Tracheal deviation", "Aortic knob enlargement"]
    assert (row["answer"], row["negated"], row["counterpart"]) == (1, 0, 1)
    assert row["images"] == [{"source": "openi", "key": "CXR1_1_IM-0001-1001.png", "view": ""}]
    assert (row["study_id"], row["protocol"], row["layout"]) == ("CXR1", PRESENCE, "original")


@pytest.mark.parametrize("config", [PRESENCE, ABSENCE])
@pytest.mark.parametrize("replacement", ["slot0", "slot_agnostic"])
def test_the_first_positive_slot_is_the_target(config, replacement):
    """On absence questions the published verifier uses the first positive option; it is the target here, too."""
    image_labels = {TRACHEA: int(config == PRESENCE), KNOB: int(config == ABSENCE)}
    (row,) = questions(make_labels(CXR2=image_labels), config, wording=ORIGINAL).to_pylist()
    verdict = verify(row["question"], row["options"], row["negated"], replacement=replacement)
    assert (verdict.fired, verdict.choice) == (True, row["answer"])


def test_options_are_shuffled_unless_their_order_is_asked_for_and_targets_are_measures_of_the_reader():
    labels_by_image = {f"CXR{i}": {KNOB: 1, TRACHEA: 0, TORTUOUS: 0} for i in range(1, 100)}
    mixed = questions(make_labels(**labels_by_image), PRESENCE).to_pylist()
    assert len({(r["answer"], r["negated"]) for r in mixed}) == 6
    assert set(TARGETS.values()) <= set(reader.FINDINGS)
    assert list(FINDINGS) == sorted(FINDINGS)
