"""Instances in a seeded order, with new model aliases for each instance."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medfaith.annotate.plan import aliases, instances

ROWS = [
    {"id": f"{image}/{n}", "image": {"source": "mimic_cxr", "key": image}, "width": 4, "height": 5, "patient_id": "p",
     "sentence": f"Sentence {n}.", "boxes": [{"label": "heart", "xywh": [1, 2, 3, n + 1]}]}
    for image in "fabdec" for n in (2, 0, 1)
]  # fmt: skip


def test_an_instance_is_an_image_with_its_sentences_in_their_order():
    plan = instances(ROWS, 0)
    assert sorted(instance.key for instance in plan) == list("abcdef")
    assert {instance.size for instance in plan} == {(5, 4)}
    for instance in plan:
        assert [s.row_id for s in instance.sentences] == [f"{instance.key}/{n}" for n in (2, 0, 1)]
    assert plan[0].sentences[0].boxes == ((1.0, 2.0, 3.0, 3.0),)


def test_the_order_depends_on_the_seed_and_not_on_the_rows_order():
    orders = {tuple(instance.key for instance in instances(ROWS, seed)) for seed in range(20)}
    assert len(orders) > 10
    assert [instance.key for instance in instances(ROWS[::-1], 3)] == [instance.key for instance in instances(ROWS, 3)]


@given(st.lists(st.text(min_size=1), min_size=1, max_size=40, unique=True), st.integers(0, 2**63), st.text(), st.text())
def test_aliases_are_dealt_to_all_models_once(models, seed, annotator, instance):
    dealt = aliases(models, seed, annotator, instance)
    assert sorted(dealt.values()) == sorted(models)
    assert list(dealt) == sorted(dealt, key=lambda alias: (len(alias), alias))  # shown from A on
    assert dealt == aliases(models[::-1], seed, annotator, instance)


@pytest.mark.parametrize("change", ["seed", "annotator", "instance"])
def test_aliases_are_dealt_anew(change):
    """Half of 400 deals of two models should put the first one in front; the limits are 4.5 standard deviations."""
    changed = ({"seed": 0, "annotator": "a", "instance": "i"} | {change: n} for n in range(400))
    dealt = [aliases(["x", "y"], **{"annotator": "a"} | {k: v if k == "seed" else str(v) for k, v in c.items()})
             for c in changed]  # fmt: skip
    assert 155 < sum(deal["Model A"] == "x" for deal in dealt) < 245


def test_names_go_on_after_the_alphabet():
    dealt = list(aliases([str(n) for n in range(54)], 0, "a", "i"))
    assert dealt[24:29] == ["Model Y", "Model Z", "Model AA", "Model AB", "Model AC"]
    assert dealt[51:] == ["Model AZ", "Model BA", "Model BB"]


def test_every_process_deals_alike():
    """A plan never changes, so an annotator may resume on another day."""
    assert "".join(aliases(list("abcdefg"), 5, "ann", "image").values()) == "cabfegd"
