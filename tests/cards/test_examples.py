"""The committed example rows are those that the synthetic sources give now."""

from __future__ import annotations

import pytest

from medfaith import cards
from medfaith.cards import examples, publication

RECIPES = sorted(path.stem for path in examples.EXAMPLES.glob("*.json"))


@pytest.mark.parametrize("name", RECIPES)
def test_the_examples_are_made_again(name, builds):
    expected = (examples.EXAMPLES / f"{name}.json").read_text(encoding="utf-8")
    assert examples.text(examples.of_build(builds[name])) == expected, "python -m medfaith.cards.examples"


def test_every_recipe_has_an_example_of_each_config_and_nothing_else_has(builds):
    published = {name: publication.read(folder) for name, folder in builds.items()}
    assert {name for name, one in published.items() if one.policy == "recipe"} == set(RECIPES)
    for name in RECIPES:
        assert list(examples.examples(name)) == list(published[name].built)
        for config, row in examples.examples(name).items():
            assert list(row) == list(published[name].built[config])


def test_no_example_has_an_identifier_of_its_build(builds):
    for name in RECIPES:
        text = (cards.FOLDER / "examples" / f"{name}.json").read_text(encoding="utf-8")
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
    assert examples.shown(row, examples.IDENTIFIERS) == expected


def test_rows_of_an_open_source_keep_their_identifiers():
    assert examples.shown({"id": "a", "image": {"key": "k"}}) == {"id": "a", "image": {"key": "k"}}
