"""JSON of sources: like the standard library's parser, but without values that no row can hold."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medfaith.loaders.json_text import parse

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(VALUES, st.booleans(), st.sampled_from(["utf-8", "utf-8-sig", "utf-16"]))
def test_what_utf_8_can_hold_is_read_as_json_does(value, escaped, encoding):
    text = json.dumps(value, ensure_ascii=escaped)
    assert parse(text) == parse(text.encode(encoding)) == value


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (r'{"a": ["\ud800"]}', r"half a character: \\ud800"),
        (r'{"\uDFFF": 1}', r"half a character: \\udfff"),
        ("[" * 100_000, "nested too deeply"),
        ("{", "Expecting"),
        (b'"\xff"', "can't decode"),
    ],
)
def test_what_no_row_can_hold_is_refused(data, complaint):
    with pytest.raises(ValueError, match=complaint):
        parse(data)


def test_pairs_go_to_the_hook():
    assert parse('{"a": 1, "a": 2}', list) == [("a", 1), ("a", 2)]
