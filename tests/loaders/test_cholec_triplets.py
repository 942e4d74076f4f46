"""The 100 triplets, compared with the id map of ivtmetrics, which the data set's authors released."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from ivtmetrics.disentangle import Disentangle

from medfaith.loaders import cholec_triplets
from medfaith.loaders.cholec_triplets import INSTRUMENTS, TARGETS, TRIPLETS, VERBS

LABELS = hnp.arrays(bool, st.tuples(st.integers(1, 5), st.just(100)), elements=st.booleans())


@pytest.fixture(scope="module")
def official():
    return Disentangle()


def test_ids_are_the_official_ones_and_every_text_reads_back(official):
    assert official.bank[:, 0].tolist() == list(range(100))
    np.testing.assert_array_equal(cholec_triplets.compute_component_ids(), official.bank[:, 1:6])
    assert [cholec_triplets.find_triplet_id(*cholec_triplets.parse(str(triplet))) for triplet in TRIPLETS] == list(
        range(100)
    )
    assert (len(INSTRUMENTS), len(VERBS), len(TARGETS)) == (6, 10, 15)
    assert cholec_triplets.NULL_IDS == (94, 95, 96, 97, 98, 99)


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "grasper,dissect,cystic_plate"),
        (1, "grasper,dissect,gallbladder"),  # the example in the data set's guide
        (17, "grasper,retract,gallbladder"),
        (60, "hook,dissect,gallbladder"),
        (82, "irrigator,aspirate,fluid"),
        (99, "irrigator,null_verb,null_target"),
    ],
)
def test_text_and_id(number, text):
    assert str(TRIPLETS[number]) == f"{TRIPLETS[number]}" == text
    assert cholec_triplets.find_triplet_id(*text.split(",")) == number
    assert cholec_triplets.parse(text.replace(",", " , ")) == TRIPLETS[number]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("grasper,clip,gallbladder", r"\(grasper, clip, gallbladder\) is none of the 100 triplets"),
        ("Grasper,retract,gallbladder", "none of the 100"),
        ("grasper,retract", "expected instrument,verb,target"),
        ("", "expected instrument,verb,target"),
    ],
)
def test_what_is_no_triplet_is_refused(text, message):
    with pytest.raises(ValueError, match=message):
        cholec_triplets.parse(text)


@given(labels=LABELS)
def test_parts_are_those_of_the_official_code(official, labels):
    for ours, component in zip(cholec_triplets.parts_of(labels), "ivt", strict=True):
        assert ours.dtype == bool
        np.testing.assert_array_equal(ours, official.extract(labels.astype(int), component))


@pytest.mark.parametrize(
    ("component", "column", "count"),
    [(0, 0, 1), (0, 5, 1), (1, 0, 1), (1, 9, 0), (2, 13, 1), (2, 14, 0)],
    ids=["lacks", "adds", "verb", "null verb", "target", "null target"],
)
def test_a_changed_label_disagrees_unless_it_is_null(component, column, count):
    triplets = np.zeros((3, 100), bool)
    triplets[1, 7] = True  # grasper,grasp,gallbladder
    component_labels = cholec_triplets.parts_of(triplets)
    component_labels[component][1, column] ^= True
    counts = list(cholec_triplets.disagreeing(triplets, *component_labels).values())
    assert counts == [count if n == component else 0 for n in range(3)]
