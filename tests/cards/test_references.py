"""Committed references and the paper's figures: what the real label files inside torchxrayvision must give."""

from __future__ import annotations

import pytest

from medfaith import cards
from medfaith.builders import cxr_contrabench
from medfaith.loaders import sources

PUBLISHED = cards.published("cxr-contrabench")


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory):
    roots = sources.resolve_roots(dict.fromkeys(("chexpert", "openi"), "torchxrayvision"), environ={})
    folders = cxr_contrabench.build(roots, tmp_path_factory.mktemp("real"), card=cards.body, workers=2)
    found = [v for folder in folders for v in cxr_contrabench.verify(folder, cards.references())]
    return {f"{v.config}/{v.split}": v for v in found}


@pytest.mark.parametrize("name", sorted({k for r in cards.references() for k in r["splits"]}))
def test_the_real_labels_give_the_reference_rows(verdicts, name):
    verdict = verdicts[name]
    assert verdict.problems == ()
    assert verdict.reference == "equal"
    assert verdict.same_labels


def test_every_split_of_the_real_labels_has_a_reference(verdicts):
    assert {v.reference for v in verdicts.values()} == {"equal"}


def test_the_published_count_of_train_presence_is_reproduced(verdicts):
    paper = PUBLISHED["chexpert_presence/train"]
    summary = verdicts["chexpert_presence/train"].summary
    assert (summary["rows"], summary["studies"]) == (paper["rows"], paper["studies"]) == (135_754, 59_173)


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_figures_are_consistent(name):
    paper = PUBLISHED[name]
    config = name.split("/")[0]
    assert config in cxr_contrabench.CONFIGS
    assert paper["where"]
    if "findings" in paper:
        assert sum(paper["findings"].values()) == paper["rows"]


def test_validation_absence_leaves_285_present_targets():
    """Section 3.2: on 132 studies with all six targets labelled, 507 are absent, so that 285 are present."""
    assert (
        6 * PUBLISHED["chexpert_absence/validation"]["studies"]
        == PUBLISHED["chexpert_absence/validation"]["rows"] + 285
    )


@pytest.mark.parametrize("source_id", dict.fromkeys(cxr_contrabench.CONFIGS.values()))
def test_every_repository_has_a_card(source_id):
    body = cards.body(f"{cxr_contrabench.NAME}-{source_id}")
    for config, of_source in cxr_contrabench.CONFIGS.items():
        assert of_source != source_id or f"{config}" in body
    assert "Research only" in body
