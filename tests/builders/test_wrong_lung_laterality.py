"""Left-right swaps: whole words with their case, and the substring rule of the reference code."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medfaith.builders.wrong_lung.laterality import side, swapped


@pytest.mark.parametrize(
    ("text", "expected", "substring"),
    [
        ("Small right pleural effusion is stable.", "Small left pleural effusion is stable.",
         "small left pleural effusion is stable."),
        ("Left-sided PICC, LEFT and Right.", "Right-sided PICC, RIGHT and Left.", "right-sided picc, right and left."),
        ("(left)/right; left's", "(right)/left; right's", "(right)/left; right's"),
        ("A bright, upright view.", "A bright, upright view.", "a bleft, upleft view."),
        ("The leftward shift.", "The leftward shift.", "the rightward shift."),
        ("The lungs are clear.", "The lungs are clear.", "the lungs are clear."),
        ("left lower lung zone", "right lower lung zone", "right lower lung zone"),
        ("", "", ""),
    ],
)  # fmt: skip
def test_swaps(text, expected, substring):
    assert swapped(text) == expected
    assert swapped(text, "substring") == substring


WORDS = st.lists(st.sampled_from(["left", "Right", "LEFT", "bright", "lung", "-", "rightmost", "Ü", "left-sided"]))


@given(WORDS)
def test_swapping_twice_is_the_text(tokens):
    text = " ".join(tokens)
    assert swapped(swapped(text)) == text
    assert swapped(swapped(text, "substring"), "substring") == text.lower()


@given(st.text())
def test_the_words_swap_touches_nothing_but_the_words(text):
    changed = swapped(text)
    assert len(changed.split()) == len(text.split())
    if not {"left", "right"} & set("".join(c if c.isalnum() else " " for c in text.lower()).split()):
        assert changed == text


@pytest.mark.parametrize(
    ("name", "expected"),
    [("left lung", "left"), ("Right hilar structures", "right"), ("trachea", None), ("upright", None)],
)
def test_side(name, expected):
    assert side(name) == expected
    with pytest.raises(ValueError, match="swap 'letters'; expected one of words, substring"):
        swapped("left", "letters")
