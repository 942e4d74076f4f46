"""The committed example rows equal those built from the synthetic sources."""

from __future__ import annotations

import pytest

from medfaith.cards import examples, publication

RECIPES = sorted(path.stem for path in examples.EXAMPLES.glob("*.json"))


@pytest.mark.parametrize("name", RECIPES)
def test_the_examples_are_made_again(name, builds):
    expected = (examples.EXAMPLES / f"{name}.json").read_text(encoding="utf-8")
    assert examples.format_examples(examples.select_examples(builds[name])) == expected, (
        "python -m medfaith.cards.examples"
    )


@pytest.mark.full  # staging of all repositories
def test_only_recipes_have_examples(builds):
    assert {name for name, folder in builds.items() if publication.read(folder).policy == "recipe"} == set(RECIPES)


@pytest.mark.full
def test_no_example_has_an_identifier_of_its_build(builds):
    for name in RECIPES:
        text = (examples.EXAMPLES / f"{name}.json").read_text(encoding="utf-8")
        for _, _, table in publication.read(builds[name]).tables():
            for column in {"id", "original_id", "study_id", "patient_id"} & set(table.column_names):
                assert not [value for value in table[column].to_pylist() if f'"{value}"' in text]


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ({"id": "a", "n": 1}, {"id": "...", "n": 1}),
        ({"images": [{"source": "s", "key": "k"}]}, {"images": [{"source": "s", "key": "..."}]}),
        ({"triplets": [{"id": 94}]}, {"triplets": [{"id": 94}]}),
        ({"motion": None, "study_id": "s"}, {"motion": None, "study_id": "..."}),
        ({"region": {"size": [2, 3], "counts": "x" * 30}}, {"region": {"size": [2, 3], "counts": "x" * 24 + "..."}}),
    ],
)
def test_what_is_shown_of_a_row(row, expected):
    assert examples.hide_identifiers(row, examples.IDENTIFIERS) == expected


def test_rows_of_an_open_source_keep_their_identifiers():
    assert examples.hide_identifiers({"id": "a", "image": {"key": "k"}}) == {"id": "a", "image": {"key": "k"}}
