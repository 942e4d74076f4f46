"""Each benchmark's build from the phantom sources is sound, loads as the rows it holds, and names no place."""

from __future__ import annotations

import json

import datasets
import pytest

from medfaith.builders import cxr_contrabench, wrong_lung
from medfaith.builders.registry import BENCHMARKS
from medfaith.builders.verify import repositories
from tests.builders.files import rows_of

HEAL = [f"{config}{part}" for config in ("vindr", "mimic") for part in ("", "_tpt", "_vpt")]
# Benchmark -> its configs where the sources of its fixture are there and none is named.
BUILT = {
    "cxr-contrabench": ("phantom", [c for c, s in cxr_contrabench.CONFIGS.items() if s in ("chexpert", "openi")]),
    "heal-medvqa": ("phantom_heal", HEAL),
    "surgxbench": ("phantom_surgx", ["instruments", "triplets", "triplets_t50"]),
    "wrong-lung": ("phantom_wrong_lung", list(wrong_lung.CONFIGS)),
}


@pytest.mark.parametrize("name", BUILT)
def test_a_build_is_sound_loads_and_names_no_place(request, name):
    fixture, configs = BUILT[name]
    folder, roots = (request.getfixturevalue(f"{fixture}_{part}") for part in ("build", "roots"))
    places = [str(place) for place in (folder, *roots.values())]
    built = set()
    for repository in repositories(folder):
        for verdict in BENCHMARKS[name].verify(repository):
            config, split = verdict.config, verdict.split
            assert (verdict.problems, verdict.summary["rows"] > 0) == ((), True)
            loaded = datasets.load_dataset(str(repository), config, split=split)
            assert isinstance(loaded, datasets.Dataset)
            assert loaded.features == BENCHMARKS[name].family(config).features
            assert loaded.to_list() == (rows := rows_of(repository, config, split))
            assert not [place for place in places if place in json.dumps(rows)]
            built.add(config)
        text = (repository / "build.json").read_text() + (repository / "README.md").read_text()
        assert not [place for place in places if place in text]
    assert built == set(configs)
