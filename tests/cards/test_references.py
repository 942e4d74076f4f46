"""Committed references and the paper's figures, on the real label files inside torchxrayvision."""

from __future__ import annotations

import pytest

from medfaith import cards
from medfaith.builders import cxr_contrabench, registry
from medfaith.loaders import sources

PUBLISHED = cards.read_published("cxr-contrabench")


@pytest.mark.parametrize("benchmark", registry.BENCHMARKS.values(), ids=registry.BENCHMARKS)
def test_published_figures_are_of_configs_and_consistent(benchmark):
    configs = {name for config in benchmark.needs for name in (config, f"{config}_tpt", f"{config}_vpt")}
    for name, paper in cards.read_published(benchmark.name).items():
        assert name.split("/")[0] in configs
        assert paper["where"]
        assert "findings" not in paper or sum(paper["findings"].values()) == paper["rows"], name


def build_and_verify(folder, *source_ids):
    roots = sources.resolve_roots(dict.fromkeys(source_ids, "torchxrayvision"), environ={})
    folders = cxr_contrabench.build(roots, folder, card=cards.read_body)
    all_verdicts = [v for folder in folders for v in cxr_contrabench.verify(folder, cards.read_references())]
    return {f"{v.config}/{v.split}": v for v in all_verdicts}


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory):
    return build_and_verify(tmp_path_factory.mktemp("real"), "chexpert", "openi")


@pytest.mark.full
def test_the_real_labels_give_the_rows_of_the_references(verdicts):
    expected = {name: ((), "equal", True) for record in cards.read_references() for name in record["splits"]}
    assert {name: (v.problems, v.reference, v.same_labels) for name, v in verdicts.items()} == expected


def test_the_real_reports_give_the_rows_of_their_reference(tmp_path):
    """The labels of CheXpert are many: the full run has them."""
    verdicts = build_and_verify(tmp_path, "openi")
    assert {(v.problems, v.reference, v.same_labels) for v in verdicts.values()} == {((), "equal", True)}


@pytest.mark.full  # the counts of these labels: tests/builders/test_chexpert_protocols.py
def test_the_published_count_of_train_presence_is_reproduced(verdicts):
    paper = PUBLISHED["chexpert_presence/train"]
    summary = verdicts["chexpert_presence/train"].summary
    assert (summary["rows"], summary["studies"]) == (paper["rows"], paper["studies"]) == (135_754, 59_173)


def test_validation_absence_leaves_285_present_targets():
    """Section 3.2: 132 studies have all six targets labelled; 507 labels are absent, therefore 285 present."""
    paper = PUBLISHED["chexpert_absence/validation"]
    assert 6 * paper["studies"] == paper["rows"] + 285
