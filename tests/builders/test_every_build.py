"""Each benchmark built from the phantom sources passes verify, loads with identical rows and contains no local path."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from pathlib import Path

import datasets
import pytest
from hypothesis import given
from hypothesis import strategies as st

from medfaith import builders
from medfaith.builders import cxr_contrabench, heal_medvqa, own, surgxbench, wrong_lung
from medfaith.builders.options import check, declared, groups
from medfaith.builders.registry import BENCHMARKS
from medfaith.builders.verify import repositories, skipped
from medfaith.loaders.errors import InputError, MissingSourceError
from tests.support.builders.files import rows_of
from tests.support.tiers import choose_size

HEAL = [f"{config}{suffix}" for config in ("vindr", "mimic") for suffix in ("", "_tpt", "_vpt")]
# Benchmark, fixture, and the configs built by default from the fixture's sources.
BUILT = [
    ("cxr-contrabench", "phantom", [c for c, s in cxr_contrabench.CONFIGS.items() if s in ("chexpert", "openi")]),
    ("cxr-contrabench", "phantom_chexlocalize", ["chexlocalize_presence", "chexlocalize_positive_only"]),
    ("heal-medvqa", "phantom_heal", HEAL),
    ("heal-medvqa", "phantom_nih", ["nih", "nih_tpt", "nih_vpt"]),
    ("surgxbench", "phantom_surgx", list(surgxbench.CONFIGS)),
    ("wrong-lung", "phantom_wrong_lung", list(wrong_lung.CONFIGS)),
    ("own", "phantom_own", list(own.NEEDS)),
]


@pytest.mark.parametrize(("name", "fixture", "configs"), BUILT, ids=[fixture for _, fixture, _ in BUILT])
def test_a_build_is_sound_loads_and_names_no_place(request, name, fixture, configs):
    folder, roots = (request.getfixturevalue(f"{fixture}_{suffix}") for suffix in ("build", "roots"))
    places = [str(place) for place in (folder, *roots.values())]
    built = set()
    for repository in repositories(folder):
        for number, verdict in enumerate(BENCHMARKS[name].verify(repository)):
            config, split = verdict.config, verdict.split
            assert (verdict.problems, verdict.summary["rows"] > 0) == ((), True)
            built.add(config)
            if number % choose_size(8, 1):
                continue
            loaded = datasets.load_dataset(str(repository), config, split=split)
            assert isinstance(loaded, datasets.Dataset)
            assert loaded.features == BENCHMARKS[name].family(config).features
            assert loaded.to_list() == (rows := rows_of(repository, config, split))
            assert not [place for place in places if place in json.dumps(rows)]
        assert skipped(repository).keys() <= BENCHMARKS[name].reasons
        text = (repository / "build.json").read_text() + (repository / "README.md").read_text()
        assert not [place for place in places if place in text]
    assert built == set(configs)


# --- invalid options are refused before reading -----------------------------------------------------------------------

BAD = [
    (name, field, option, bad)
    for name, benchmark in BENCHMARKS.items()
    for option_class in (benchmark.options, *groups(benchmark.options).values())
    for field, option in declared(option_class).items()
    for bad in (
        ["nothing"]
        if option.choices
        else [option.within[0] - 1, option.within[1] + 1, math.nan]
        if option.within
        else ["Jane Doe", "No pneumothorax."]
        if option.pattern
        else []
    )
]


@pytest.mark.parametrize(("name", "field", "option", "bad"), BAD)
def test_a_value_that_an_option_cannot_have_is_refused(tmp_path, name, field, option, bad):
    options, values = BENCHMARKS[name].options(), {field: (bad,) if option.repeatable else bad}
    for group, option_class in groups(type(options)).items():
        if field in declared(option_class):  # its first option has no default
            values = {group: option_class(**{next(iter(declared(option_class))): str(tmp_path)} | values)}
    expected = f"one of {', '.join(option.choices)}" if option.choices else re.escape(option.form)
    expected = f"a number(,)? (from )?{option.within[0]}" if option.within else expected
    with pytest.raises(InputError, match=rf"(?s){option.flag} {bad}: .*\n  expected: {expected}"):
        BENCHMARKS[name].build({}, tmp_path / "out", options=replace(options, **values))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", BENCHMARKS)
def test_configs_that_there_are_not_and_sources_that_are_missing_are_named(tmp_path, name):
    needs = BENCHMARKS[name].needs
    with pytest.raises(InputError, match=rf"(?s)--config nothing: {name} has no such config.*{', '.join(needs)}"):
        BENCHMARKS[name].build({}, tmp_path / "out", configs=["nothing"])
    for config, sources in needs.items():
        for missing in sources:
            roots = {source: tmp_path for source in sources if source != missing}
            with pytest.raises(MissingSourceError, match=rf"(?s)\({missing}\).*--root {missing}=PATH"):
                BENCHMARKS[name].build(roots, tmp_path / "out", configs=[config])
    assert not (tmp_path / "out").exists()


def test_where_no_config_has_all_sources_those_that_are_missing_are_named(tmp_path):
    roots = dict.fromkeys(("vindr_cxr_anatomy", "mimic_cxr", "mimic_cxr_detections"), tmp_path)
    with pytest.raises(MissingSourceError, match=r"needs all sources of one of its configs") as error:
        BENCHMARKS["heal-medvqa"].build(roots, tmp_path / "out")
    for source in ("vindr_cxr", "mimic_cxr_anatomy", *roots):
        assert (f"({source})" in str(error.value)) == (source not in roots)


# --- reasons of counts ------------------------------------------------------------------------------------------------

_LITERAL = re.compile(r"""\b(?:counted|skipped|counts)\[f?["']""")


def test_no_count_has_a_reason_outside_of_the_vocabulary():
    """Each reason is a constant of `reasons.py`, because a published build.json may have no others."""
    modules = Path(builders.__file__).parent.rglob("*.py")
    assert [path.name for path in modules if _LITERAL.search(path.read_text(encoding="utf-8"))] == []


SEGMENTERS = [
    "CXAS", "own model", "CXAS 0.0.5", "TotalSegmentator 2.4.0, threshold=0.5", "CXAS 1.0, gpu=0", "CXAS v1",
    "SAM2 2.1rc1", "nnU-Net v2.5.1+cu121", "CXAS 3f2a1bc", "Segment Anything 1.0,size=512x512, fold=all", "CXAS 2024.1",
    "radiologists", "github.com/ConstantinSeibold/ChestXRayAnatomySegmentation 0.0.5, threshold=0.5",
    "huggingface.co/org/some-model v1", "own model, fast=true",
]  # fmt: skip


@pytest.mark.parametrize("text", SEGMENTERS)
def test_a_segmenter_has_a_name_a_version_and_settings(text):
    check(heal_medvqa.Options(segmenter=text))


WORDS = st.lists(st.from_regex(r"[a-z]{1,12}", fullmatch=True), min_size=3, max_size=9)


@given(WORDS, st.sampled_from(["", ".", ", seen in 2019", " 1.0"]))
def test_no_sentence_is_a_segmenter(words, end):
    with pytest.raises(InputError, match="has another form"):
        check(heal_medvqa.Options(segmenter=" ".join(words).capitalize() + end))
