"""Variants: each has its plain config's rows with one difference in wording or order."""

from __future__ import annotations

import random

import pytest

from medfaith.builders import cxr_contrabench
from medfaith.builders.cxr_contrabench.questions import Wording
from medfaith.builders.cxr_contrabench.variants import VARIANTS, resolve_variant
from medfaith.builders.cxr_contrabench.wording import NEGATION_FORMS, QUESTION_FORMS
from medfaith.loaders.errors import InputError
from tests.support.builders.files import problems, record_of, rows_of

INDICES = ("answer", "negated", "counterpart")
WORDS = ("question", "options", "negation_form", "question_form", "layout", *INDICES)


def read_rows(folder, config):
    source, split = ("openi", "test") if config.startswith("openi") else ("chexpert", "validation")
    return rows_of(folder / f"cxr-contrabench-{source}", config, split)


def test_every_form_of_both_protocols_and_the_original_order_are_configs_once():
    forms = [*list(NEGATION_FORMS)[1:], *list(QUESTION_FORMS["presence"])[1:]]
    worded = [f"chexpert_{p}_{form}" for p in ("presence", "absence") for form in forms]
    protocols = ("chexpert_presence", "chexpert_absence", "chexpert_positive_only", "openi_report_absence")
    assert list(VARIANTS) == [*worded, *(f"{protocol}_original" for protocol in protocols)]
    for _, name, value in VARIANTS.values():
        assert getattr(Wording(), name) != value


@pytest.mark.parametrize("config", VARIANTS)
def test_a_variant_pairs_with_its_plain_config(phantom_build, config):
    plain_name, wording = resolve_variant(config, Wording())
    plain, varied = read_rows(phantom_build, plain_name), read_rows(phantom_build, config)
    assert len(plain) > 40
    for before, after in zip(plain, varied, strict=True):
        assert {k: v for k, v in before.items() if k not in WORDS} == {k: v for k, v in after.items() if k not in WORDS}
        assert after["protocol"] == plain_name
        negation = wording.negation_form if after["negated"] >= 0 else "none"
        forms = (negation, wording.question_form, wording.layout)
        assert (after["negation_form"], after["question_form"], after["layout"]) == forms
        assert after["question"] == QUESTION_FORMS[after["polarity"]][wording.question_form]
        assert before["options"][before["answer"]] == after["options"][after["answer"]]
        unchanged = {t for i, t in enumerate(before["options"]) if i != before["negated"]}
        assert {t for i, t in enumerate(after["options"]) if i != after["negated"]} == unchanged
        if config.endswith("_original"):
            assert sorted(after["options"]) == sorted(before["options"])
            assert (after["answer"], after["negated"]) == (0, 1 if negation != "none" else -1)
        else:
            assert [after[i] for i in INDICES] == [before[i] for i in INDICES]
            form = NEGATION_FORMS[wording.negation_form].format(finding=before["finding"])
            assert after["options"][after["negated"]].lower() == form.lower()
    share = sum(row["answer"] == 0 for row in plain) / len(plain)  # of readers that always answer A
    assert abs(share - 1 / 3) < 3 * (2 / 9 / len(plain)) ** 0.5  # three standard errors


def test_a_variant_changes_one_thing_of_the_plain_config_of_its_build(phantom_roots, phantom_build, tmp_path):
    chexpert = {"chexpert": phantom_roots["chexpert"]}
    configs = ["chexpert_presence", "chexpert_presence_p2", "chexpert_presence_original"]
    cxr_contrabench.build(chexpert, tmp_path, configs=configs, options=Wording("clear_of", "p1", "original"))
    plain, paraphrased, original = (read_rows(tmp_path, config) for config in configs)
    assert original == plain
    assert {(row["negation_form"], row["question_form"], row["layout"]) for row in plain} == {
        ("clear_of", "p1", "original")
    }
    for row, variant in zip(plain, paraphrased, strict=True):
        assert row["options"][1].startswith("Clear of ")
        assert row["question"] == QUESTION_FORMS["presence"]["p1"]
        assert variant == row | {"question": QUESTION_FORMS["presence"]["p2"], "question_form": "p2"}


def test_variants_need_the_validation_file(phantom_roots, tmp_path):
    train = phantom_roots["chexpert"] / "CheXpert-v1.0-small" / "train.csv"
    (folder,) = cxr_contrabench.build({"chexpert": train}, tmp_path)
    assert record_of(folder)["absent"] == {"validation": "its label file is absent"}
    configs = {config for config, _ in problems(folder)}
    assert configs == {"chexpert_presence", "chexpert_absence", "chexpert_positive_only", "chexpert_lora_train"}
    for file, config, needed in (
        (train, "chexpert_absence_p1", "valid.csv"),
        (train.with_name("valid.csv"), "chexpert_lora_train", "train.csv"),
    ):
        with pytest.raises(InputError, match=rf"(?s)no labels for {config}.*{needed}"):
            cxr_contrabench.build({"chexpert": file}, tmp_path / "more", configs=[config])
        assert not (tmp_path / "more").exists()


@pytest.mark.parametrize("config", ["chexpert_presence", "chexpert_absence", "chexpert_positive_only"])
def test_the_layout_of_the_authors_is_their_shuffle_by_the_rows_id(phantom_roots, phantom_build, tmp_path, config):
    """Target, distractors and negated option, shuffled by Python's random with the lower-case id as the seed."""
    roots = {"chexpert": phantom_roots["chexpert"]}
    cxr_contrabench.build(roots, tmp_path, configs=[config], options=Wording(layout="authors"))
    rows = read_rows(tmp_path, config)
    for row, original in zip(rows, read_rows(phantom_build, f"{config}_original"), strict=True):
        assert (row["id"], row["layout"]) == (original["id"], "authors")
        target, *others = original["options"]
        negation = [others.pop(0)] if original["negated"] == 1 else []
        expected = [target, *others, *negation]
        random.Random(row["id"].lower()).shuffle(expected)
        assert row["options"] == expected
        assert row["options"][row["answer"]] == target
        assert [row["options"][row["negated"]]] == (negation or [row["options"][-1]])
    assert {row["answer"] for row in rows} == {0, 1, 2}
    assert not any(problems(tmp_path / "cxr-contrabench-chexpert").values())
