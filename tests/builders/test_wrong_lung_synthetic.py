"""Sentences from labels: the paper's examples (Table 5, Figure 10), the rules of A.3.1, and other conditions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medfaith.builders.wrong_lung.synthetic import Condition, group_by_locations, replace_conditions, said, sentence
from medfaith.loaders.chest_imagenome import Mention

BOTH = ("left lung", "right lung")
UPPER = ("left mid lung zone", "left upper lung zone", "left lung", "right mid lung zone", "right upper lung zone")
ANGLE = "right costophrenic angle"
BASES = ("left lower lung zone", "left lung", "right lung", "right lower lung zone")


def yes(label: str) -> Condition:
    return Condition(label, "yes")


def no(label: str) -> Condition:
    return Condition(label, "no")


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        # Table 5, row by row, with the locations in the order that it prints them.
        ({yes("low lung volumes"): BOTH}, "There is low lung volumes in the lungs."),
        ({yes("abnormal"): UPPER}, "The left lung, upper lung zones, and mid lung zones are abnormal."),
        ({yes("atelectasis"): ("left costophrenic angle",)}, "There is atelectasis in the left costophrenic angle."),
        ({no("pneumonia"): BOTH, no("consolidation"): BOTH}, "There is no pneumonia. There is no consolidation."),
        ({yes("abnormal"): BASES, yes("atelectasis"): BASES, yes("lung opacity"): BASES},
         "The lungs and lower lung zones are abnormal. There is atelectasis in the lungs and lower lung zones. "
         "There is lung opacity in the lungs and lower lung zones."),
        # Figure 10.
        ({yes("abnormal"): (ANGLE,), yes("lung opacity"): (ANGLE,), yes("pleural effusion"): (ANGLE, "right lung")},
         "The right costophrenic angle is abnormal. There is lung opacity in the right costophrenic angle. "
         "There is pleural effusion in the right lung and right costophrenic angle."),
        # Table 5 prints "in the lungs" here, although its locations have no right lung: by the rule of A.3.1 a side
        # without its partner keeps its name, as in the sentence on "abnormal" above, which has the same locations.
        ({yes("copd/emphysema"): UPPER},
         "There is copd/emphysema in the left lung, upper lung zones, and mid lung zones."),
    ],
)  # fmt: skip
def test_the_papers_examples(conditions, expected):
    assert sentence(conditions) == expected


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        ({yes("normal"): ("trachea",)}, "The trachea is normal."),
        ({yes("normal"): BOTH}, "The lungs are normal."),
        ({yes("normal"): ("left hilar structures", "right hilar structures")}, "The hilar structures are normal."),
        ({yes("normal"): ("left hilar structures",)}, "The left hilar structures are normal."),
        ({yes("normal"): ("left main bronchus", "right main bronchus")}, "The main bronchi are normal."),
        ({yes("normal"): ("left main bronchus",)}, "The left main bronchus is normal."),
        ({yes("normal"): ("trachea", "carina")}, "The carina and trachea are normal."),
        ({yes("normal"): ("left lung", "right clavicle")}, "The right clavicle and left lung are normal."),
        ({yes("edema"): ("left costophrenic angle", ANGLE)}, "There is edema in the costophrenic angles."),
        ({no("normal"): BOTH}, "There is no normal."),
        # A label with both contexts: one clause each, in sequence.
        (
            {yes("edema"): ("left lung",), no("pneumonia"): BOTH, no("edema"): ("right lung",)},
            "There is edema in the left lung. There is no edema. There is no pneumonia.",
        ),
    ],
)
def test_rules(conditions, expected):
    assert sentence(conditions) == expected


def test_conditions_stand_in_the_order_of_their_first_mention():
    mentions = [
        Mention("right lung", "edema", "no", True),
        Mention("left lung", "abnormal", "yes", False),
        Mention("left lung", "edema", "no", True),
        Mention("left lung", "abnormal", "yes", True),
    ]
    locations = said(mentions)
    assert list(locations.items()) == [(no("edema"), ("right lung", "left lung")), (yes("abnormal"), ("left lung",))]


KNOWN = group_by_locations(
    [
        {yes("edema"): BOTH, no("pneumonia"): BOTH},
        {yes("edema"): ("right lung", "left lung"), yes("atelectasis"): ("left lung",)},
        {yes("abnormal"): BOTH},
    ]
)


def test_another_condition_comes_from_exactly_the_same_anatomies_and_each_is_as_likely():
    conditions_by_location = {
        BOTH: [yes("abnormal"), yes("edema"), no("pneumonia")],
        ("left lung",): [yes("atelectasis")],
    }
    assert {frozenset(places): conditions for places, conditions in conditions_by_location.items()} == KNOWN
    draws = [replace_conditions({yes("edema"): BOTH}, KNOWN, f"row {i}", seed=0) for i in range(400)]
    assert {tuple(draw.values()) for draw in draws} == {(BOTH,)}
    counts = {c: sum(c in draw for draw in draws) for c in (yes("abnormal"), no("pneumonia"))}
    assert sum(counts.values()) == 400
    assert 150 < counts[yes("abnormal")] < 250


def test_a_condition_without_another_stays_and_two_that_become_one_are_said_once():
    for conditions in (
        {yes("atelectasis"): ("left lung",)},  # no other condition has this location
        {yes("edema"): ("trachea",)},  # no condition has this location
        {yes("abnormal"): BOTH, no("edema"): BOTH, yes("pneumonia"): BOTH},  # only its own labels have this location
    ):
        assert replace_conditions(conditions, KNOWN, "row", seed=0) == conditions
    conditions_by_location = {frozenset(["left lung"]): [yes("edema")], frozenset(["trachea"]): [yes("edema")]}
    conditions = {yes("mass"): ("left lung",), yes("nodule"): ("trachea",)}
    swapped = replace_conditions(conditions, conditions_by_location, "row", seed=0)
    assert sentence(swapped) == "There is edema in the trachea and left lung."


@given(
    st.dictionaries(
        st.builds(Condition, st.sampled_from("abcd"), st.sampled_from(["yes", "no"])),
        st.lists(st.sampled_from(BASES), min_size=1, unique=True).map(tuple),
        min_size=1,
    ),
    st.integers(0, 5),
)
def test_swapped_conditions_keep_their_anatomies_and_are_new(conditions, seed):
    conditions_by_location = group_by_locations([conditions, {Condition("e", "no"): BOTH, Condition("a", "yes"): BOTH}])
    swapped = replace_conditions(conditions, conditions_by_location, "row", seed)
    assert {name for names in swapped.values() for name in names} == {n for names in conditions.values() for n in names}
    for condition, names in swapped.items():
        assert condition in conditions or condition.label not in {original.label for original in conditions}
        assert len(set(names)) == len(names)
    assert sentence(swapped).count(".") == len(swapped)
