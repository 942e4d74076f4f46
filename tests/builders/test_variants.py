"""Robustness variants: each is its plain config's validation rows with one thing said or ordered differently."""

from __future__ import annotations

from dataclasses import asdict

import pytest

from medfaith.builders import cxr_contrabench
from medfaith.builders.cxr_contrabench.questions import Wording
from medfaith.builders.cxr_contrabench.variants import VARIANTS
from medfaith.builders.cxr_contrabench.wording import NEGATION_FORMS, QUESTION_FORMS
from medfaith.loaders.errors import InputError
from tests.builders.files import problems, rows_of

INDICES = ("answer", "negated", "counterpart")
WORDS = ("question", "options", "negation_form", "question_form", "layout", *INDICES)


def rows(folder, config):
    return rows_of(folder / "cxr-contrabench-chexpert", config, "validation")


def test_every_form_of_both_protocols_is_a_config_once():
    names = [*list(NEGATION_FORMS)[1:], *list(QUESTION_FORMS["presence"])[1:], "shuffled"]
    assert list(VARIANTS) == [f"chexpert_{p}_{name}" for p in ("presence", "absence") for name in names]
    assert len(VARIANTS) == 16
    for _, wording in VARIANTS.values():
        given = asdict(wording)
        assert sum(given[name] != default for name, default in asdict(Wording()).items()) == 1


@pytest.mark.parametrize("config", VARIANTS)
def test_a_variant_pairs_with_its_plain_config(phantom_build, config):
    plain_name, wording = VARIANTS[config]
    plain, varied = rows(phantom_build, plain_name), rows(phantom_build, config)
    assert len(plain) > 40
    for before, after in zip(plain, varied, strict=True):
        assert {k: v for k, v in before.items() if k not in WORDS} == {k: v for k, v in after.items() if k not in WORDS}
        assert after["protocol"] == plain_name
        assert (after["negation_form"], after["question_form"], after["layout"]) == (
            wording.negation_form, wording.question_form, wording.layout,
        )  # fmt: skip
        assert after["question"] == QUESTION_FORMS[after["polarity"]][wording.question_form]
        assert before["options"][before["answer"]] == after["options"][after["answer"]]
        unchanged = {t for i, t in enumerate(before["options"]) if i != before["negated"]}
        assert {t for i, t in enumerate(after["options"]) if i != after["negated"]} == unchanged
        if config.endswith("shuffled"):
            assert sorted(after["options"]) == sorted(before["options"])
        else:
            assert [after[i] for i in INDICES] == [before[i] for i in INDICES]
            finding = before["finding"]
            form = NEGATION_FORMS[wording.negation_form].format(finding=finding)
            assert after["options"][after["negated"]].lower() == form.lower()
    if config.endswith("shuffled"):
        assert {row["answer"] for row in varied} == {0, 1, 2}


def test_arguments_of_the_build_reach_the_plain_configs_only(phantom_roots, phantom_build, tmp_path):
    chexpert = {"chexpert": phantom_roots["chexpert"]}
    configs = ["chexpert_presence", "chexpert_presence_p2"]
    cxr_contrabench.build(chexpert, tmp_path, configs=configs, options=Wording("clear_of", "p1", "shuffled"))
    assert rows(tmp_path, "chexpert_presence_p2") == rows(phantom_build, "chexpert_presence_p2")
    for row in rows(tmp_path, "chexpert_presence"):
        assert row["options"][row["negated"]].startswith("Clear of ")
        assert row["question"] == QUESTION_FORMS["presence"]["p1"]


def test_variants_need_the_validation_file(phantom_roots, tmp_path):
    train = phantom_roots["chexpert"] / "CheXpert-v1.0-small" / "train.csv"
    (folder,) = cxr_contrabench.build({"chexpert": train}, tmp_path)
    made = {config for config, _ in problems(folder)}
    assert made == {"chexpert_presence", "chexpert_absence", "chexpert_positive_only", "chexpert_lora_train"}
    for file, config, needed in (
        (train, "chexpert_absence_p1", "valid.csv"),
        (train.with_name("valid.csv"), "chexpert_lora_train", "train.csv"),
    ):
        with pytest.raises(InputError, match=rf"(?s)no labels for {config}.*{needed}"):
            cxr_contrabench.build({"chexpert": file}, tmp_path / "more", configs=[config])
        assert not (tmp_path / "more").exists()
