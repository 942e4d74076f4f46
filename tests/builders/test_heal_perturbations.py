"""Perturbed partners of positive questions: eligible swaps and donors, by brute force."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from medfaith.builders.heal_medvqa.perturbations import DONOR_DIAGNOSES, NEAREST, Places, donors, tpt, vpt
from medfaith.builders.heal_medvqa.questions import UNASKED, questions
from medfaith.builders.heal_medvqa.wording import format_closed_question
from tests.support.builders.heal_scenes import FEW, draw_split, make_scene

SEEDS = st.integers(0, 20)


def make_positives(split, seed):
    question_set = questions(split, "vindr", "train", seed=seed)
    return question_set, {row["id"]: row for row in question_set if row["kind"] == "positive"}


def make_transplants(question_set, rule="image"):
    return list(vpt(question_set, donors(question_set, rule)))


@FEW
@given(draw_split(), SEEDS)
def test_swaps(split, seed):
    """Each swap changes one part, is logical, untouched and worded alike; it exists if and only if one is possible."""
    question_set, originals = make_positives(split, seed)
    scenes = {s.picture.key: s for s in split}
    logical = {pair for s in split for pair in s.related if pair[1] not in UNASKED}
    swaps = list(tpt(question_set))
    assert len({swap["id"] for swap in swaps}) == len(swaps)
    swaps_by_key = {(swap["original_id"], swap["kind"]): swap for swap in swaps}
    assert len(swaps_by_key) == len(swaps)
    for row in originals.values():
        target = scenes[row["image"]["key"]]
        anatomy, (disease,) = row["anatomy"], row["diseases"]
        absent = {(a, d) for a, d in logical if a in target.regions and (a, d) not in target.touched}
        for kind, possible in (
            ("anatomy", {pair for pair in absent if pair[1] == disease}),
            ("disease", {pair for pair in absent if pair[0] == anatomy}),
        ):
            swap = swaps_by_key.pop((row["id"], kind), None)
            assert (swap is not None) == bool(possible)
            if swap:
                assert swap["id"] == f"{row['id']}/{kind}"
                assert (swap["anatomy"], swap["disease"]) in possible
                assert (swap["anatomy"] != anatomy) + (swap["disease"] != disease) == 1
                assert swap["template"] == row["template"]
                assert swap["question"] == format_closed_question(row["template"], swap["anatomy"], swap["disease"])
    assert not swaps_by_key  # no swap of another row


def select_nearest_donors(split, target, anatomy, disease, rule):
    """Select the images that may lend a region, by the documented rules and a full sort (the oracle)."""
    candidates = [
        s
        for s in split
        if anatomy in s.regions
        and s.picture.patient != target.picture.patient
        and disease not in {d for a, d in s.touched if rule == "image" or a == anatomy}
    ]
    clean = [s for s in candidates if anatomy not in {a for a, _ in s.touched}]
    candidates = clean or candidates
    candidates = [s for s in candidates if s.picture.view == target.picture.view] or candidates

    def compute_distance(s):
        pairs = zip(s.extents[anatomy], target.extents[anatomy], strict=True)
        return sum(abs(math.log(theirs) - math.log(ours)) for theirs, ours in pairs)

    candidates = sorted(candidates, key=compute_distance)
    if len(candidates) <= NEAREST:
        return candidates
    limit = compute_distance(candidates[NEAREST - 1]) + 1e-9  # any of equally near donors
    return [s for s in candidates if compute_distance(s) <= limit]


@given(st.integers(0, 300), st.integers(1, 40), st.integers(1, 30), SEEDS)
def test_the_nearest_are_those_of_a_stable_sort(n, n_shares, n_patients, seed):
    """Include ties at one place and many images of the target's own patient."""
    rng = np.random.default_rng(seed)
    extents = np.log(rng.integers(1, n_shares + 1, (n, 2)) / n_shares)
    patients = [f"p{number}" for number in rng.integers(0, n_patients, n)]
    members = np.flatnonzero(rng.random(n) < 0.7)
    place = np.log(rng.integers(1, n_shares + 1, 2) / n_shares)
    candidates = [int(i) for i in members if patients[i] != "p0"]
    distances = np.abs(extents[candidates] - place).sum(1)
    expected = [candidates[k] for k in np.argsort(distances, kind="stable")[:NEAREST]]
    assert Places(extents, members, patients).find_nearest(place, "p0") == expected


@FEW
@given(draw_split(), SEEDS, st.sampled_from(DONOR_DIAGNOSES))
def test_donors(split, seed, rule):
    question_set, originals = make_positives(split, seed)
    scenes = {s.picture.key: s for s in split}
    pairs = make_transplants(question_set, rule)
    pairs_by_id = {pair["original_id"]: pair for pair in pairs}
    assert len(pairs_by_id) == len(pairs)
    for row in originals.values():
        target = scenes[row["image"]["key"]]
        allowed = {
            s.picture.key for s in select_nearest_donors(split, target, row["anatomy"], row["diseases"][0], rule)
        }
        pair = pairs_by_id.pop(row["id"], None)
        assert (pair is not None) == bool(allowed)
        if pair:
            assert pair["id"] == f"{row['id']}/region"
            assert pair["donor"]["key"] in allowed
            assert pair["region"] == row["region"]
            assert {d for _, d in scenes[pair["donor"]["key"]].touched} <= set(pair["donor_diseases"])
            assert pair["donor_region"]["counts"] == scenes[pair["donor"]["key"]].regions[row["anatomy"]]["counts"]
    assert not pairs_by_id


@FEW
@given(draw_split(), SEEDS, st.randoms(use_true_random=False))
def test_partners_do_not_depend_on_the_order_of_the_images(split, seed, random):
    reordered = list(split)
    random.shuffle(reordered)
    for partners in (tpt, make_transplants):
        rows, reordered_rows = (partners(make_positives(scenes, seed)[0]) for scenes in (split, reordered))
        assert sorted(rows, key=lambda row: row["id"]) == sorted(reordered_rows, key=lambda row: row["id"])


ILL = ("heart", "Edema")
TARGET = make_scene("target", [ILL], patient="p", view="PA", extents={"heart": (0.5, 0.5)})


def make_donor(name, *, touched=(), patient="", view="PA", extent=0.5, anatomies=("heart", "aorta")):
    return make_scene(
        name, (), touched, anatomies=anatomies, patient=patient, view=view, extents={"heart": (extent, extent)}
    )


@pytest.mark.parametrize("rule", DONOR_DIAGNOSES)
@pytest.mark.parametrize(
    ("other_images", "donor_name"),
    [
        pytest.param([], None, id="no other image"),
        pytest.param([make_donor("a")], "a", id="a clean one"),
        pytest.param([make_donor("a", patient="p")], None, id="the same patient"),
        pytest.param([make_donor("a", touched=[ILL])], None, id="a box of the disease touches it"),
        pytest.param([make_donor("a", touched=[("aorta", "Edema")])], {"region": "a"}, id="the disease elsewhere"),
        pytest.param([make_donor("a", touched=[("aorta", "ILD")])], "a", id="another disease elsewhere"),
        pytest.param([make_donor("a", anatomies=["aorta"])], None, id="without the anatomy"),
        pytest.param(
            [make_donor("a", touched=[("heart", "ILD")])], "a", id="another disease there, for want of better"
        ),
        pytest.param(
            [make_donor("a", touched=[("heart", "ILD")]), make_donor("b", extent=0.1)], "b", id="a clean one first"
        ),
        pytest.param([make_donor("a", view="AP"), make_donor("b", extent=0.1)], "b", id="then one of the same view"),
        pytest.param(
            [make_donor("a", view="AP"), make_donor("b", touched=[("heart", "ILD")])],
            "a",
            id="clean comes before the view",
        ),
    ],
)
def test_which_donor(other_images, donor_name, rule):
    donor_name = donor_name.get(rule) if isinstance(donor_name, dict) else donor_name
    split = [TARGET, *other_images]
    question_set, _ = make_positives([*split, make_scene("elsewhere", [("aorta", "ILD")])], 0)
    question_set = replace(question_set, scenes=split, keys=[key for key in question_set.keys if key.scene == 0])
    assert len(list(question_set.iterate_positive())) == 1
    assert [pair["donor"]["key"] for pair in make_transplants(question_set, rule)] == (
        [f"train/{donor_name}.dicom"] if donor_name else []
    )


def test_the_nearest_donors_share_the_work():
    """With 20 ill and 20 clean images, each target takes one of its 8 nearest donors; not all take the same one."""
    ill = [make_scene(f"ill {n}", [ILL], extents={"heart": (0.5, 0.5)}) for n in range(20)]
    clean = [make_donor(f"{n:02}", view="frontal", extent=0.5 - 0.01 * n) for n in range(20)]
    question_set, _ = make_positives([*ill, *clean], 0)
    keys = {pair["donor"]["key"] for pair in make_transplants(question_set)}
    assert keys <= {f"train/{n:02}.dicom" for n in range(NEAREST)}
    assert len(keys) > NEAREST / 2
    assert (
        keys != {pair["donor"]["key"] for pair in make_transplants(replace(question_set, seed=1))}
        or len(keys) == NEAREST
    )


def test_the_seed_changes_choices():
    pairs = list(product(("heart", "aorta", "left lower lung"), ("Edema", "Calcification", "ILD")))
    split = [make_scene(f"i{n}", [pairs[n % len(pairs)]]) for n in range(45)]
    question_set, _ = make_positives(split, 0)
    for partners in (tpt, make_transplants):
        rows, repeated_rows, seeded_rows = (list(partners(replace(question_set, seed=seed))) for seed in (0, 0, 1))
        assert rows == repeated_rows
        assert [row["id"] for row in rows] == [row["id"] for row in seeded_rows]
        assert rows != seeded_rows
