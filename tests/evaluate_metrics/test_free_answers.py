"""Free answers: which words are read, and how much of an accepted answer they have."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medfaith.evaluate_metrics.reading.free_answers import compute_agreement, fold_words, read_free_answer

READ = {
    "Pneumothorax": ("answered", "pneumothorax"),
    "The answer is: pleural effusion. It lies on the left.": ("answered", "pleural effusion"),
    "<think>It could be edema.</think>Cardiomegaly.": ("answered", "cardiomegaly"),
    "**Answer:** right lower lobe": ("answered", "right lower lobe"),
    "A": ("answered", "a"),
    "I cannot see the image, so I cannot answer.": ("declined", ""),
    "I'm sorry, but I can't help with that.": ("declined", ""),
    "": ("unread", ""),
    "...": ("unread", ""),
}


@pytest.mark.parametrize("text", READ)
def test_words_that_are_read(text):
    answer = read_free_answer(text)
    assert (answer.outcome, " ".join(answer.words)) == READ[text]


def test_an_answer_that_declines_and_then_answers_is_answered():
    assert read_free_answer("I am not a doctor. The image shows a pneumothorax.").outcome == "answered"


# F1 of SQuAD by hand: 2 x shared / (words of the answer + words of the gold answer).
AGREEMENT = {
    ("pneumothorax", ("pneumothorax",)): (1, 1, 1),
    ("left pneumothorax", ("pneumothorax",)): (0, 2 / 3, 1),
    ("effusion", ("pleural effusion", "fluid")): (0, 2 / 3, 1 / 2),
    ("fluid", ("pleural effusion", "fluid")): (1, 1, 1),
    ("edema", ("pneumothorax",)): (0, 0, 0),
    ("", ("pneumothorax",)): (0, 0, 0),
    ("no no", ("no",)): (0, 2 / 3, 1),
    ("lung the left", ("left lung",)): (0, 1, 1),
}


@pytest.mark.parametrize(("text", "accepted"), AGREEMENT)
def test_agreement_with_the_best_accepted_answer(text, accepted):
    assert compute_agreement(fold_words(text), accepted) == pytest.approx(AGREEMENT[text, accepted])


@given(st.text(), st.lists(st.text(), min_size=1, max_size=3))
def test_agreement_is_bounded_and_full_for_an_accepted_answer(text, accepted):
    agreement = compute_agreement(fold_words(text), accepted)
    assert all(0 <= value <= 1 for value in agreement)
    assert agreement.exact <= agreement.f1
    if fold_words(accepted[0]):
        assert compute_agreement(fold_words(accepted[0]), accepted).exact == 1
