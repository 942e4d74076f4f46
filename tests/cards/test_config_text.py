"""Card texts on the configs and splits of a build."""

from __future__ import annotations

import tomllib
from dataclasses import replace

import pytest

from medfaith import cards
from medfaith.builders import registry
from medfaith.cards import config_text, datasheet, dictionary, publication
from medfaith.tasks.index import select_tasks

pytestmark = pytest.mark.usefixtures("quick_lm_eval")

ABOUT = tomllib.loads((cards.FOLDER / "benchmarks.toml").read_text(encoding="utf-8"))
CHOICES = [
    (source, choice)
    for benchmark_text in ABOUT.values()
    for source, choices in benchmark_text["tasks"].items()
    for choice in choices
]


@pytest.mark.parametrize(("source", "choice"), CHOICES)
def test_a_task_asks_about_the_rows_that_it_is_said_to_need(source, choice):
    for needed, names in choice.items():
        asked_splits = {f"{task.rows['config']}/{task.rows['split']}" for task in select_tasks(names)}
        more = {split for split in set(needed.split()) - asked_splits if split.split("/")[0].endswith(("_tpt", "_vpt"))}
        assert asked_splits | more == set(needed.split())
        assert {task.rows["repository"].rpartition("-")[2] for task in select_tasks(names)} == {source}


@pytest.mark.parametrize("benchmark", registry.BENCHMARKS.values(), ids=lambda benchmark: benchmark.name)
def test_every_source_has_tasks_and_every_column_its_meaning(benchmark):
    assert set(ABOUT[benchmark.name]["tasks"]) == {needed[0] for needed in benchmark.needs.values()}
    assert set(ABOUT[benchmark.name]["annotations"]) == set(ABOUT[benchmark.name]["tasks"])
    column_texts = tomllib.loads((cards.FOLDER / "columns.toml").read_text(encoding="utf-8"))
    partners = ("", "_tpt", "_vpt") if benchmark.name == "heal-medvqa" else ("",)
    configs = [f"{config}{partner}" for config in benchmark.needs for partner in partners]
    columns = {path for config in configs for path, _ in dictionary.iterate_paths(benchmark.family(config).features)}
    assert columns <= column_texts["all"].keys() | column_texts[benchmark.name].keys()
    assert column_texts[benchmark.name].keys() <= columns, "no column that is gone is described"


@pytest.mark.parametrize(
    ("splits", "tasks"),
    [
        (["vindr/test", "vindr_tpt/test", "vindr_vpt/test", "vindr/train"], "medfaith_heal_vindr"),
        (["vindr/test"], "medfaith_heal_vindr_closed,medfaith_heal_vindr_open"),
        (["vindr/train"], "medfaith_heal_vindr_closed_train,medfaith_heal_vindr_open_train"),
        (["vindr_tpt/test"], ""),
    ],
)
def test_the_tasks_are_those_that_a_build_has_rows_for(splits, tasks):
    assert config_text.select_tasks(ABOUT["heal-medvqa"]["tasks"]["vindr_cxr"], splits) == tasks


def test_a_card_speaks_of_the_configs_of_its_build_alone(builds):
    """The labels in torchxrayvision have no validation split."""
    built = publication.read(builds["cxr-contrabench-chexpert"])
    splits = {key: split for key, split in built.record["splits"].items() if key.endswith("presence/train")}
    partial_build = replace(
        built, record={**built.record, "splits": splits}, built={"chexpert_presence": built.built["chexpert_presence"]}
    )
    sections = datasheet.build_sections(partial_build, "org/name")
    absent = set(registry.BENCHMARKS["cxr-contrabench"].needs) - {"chexpert_presence"}
    assert not [name for name in absent if f"`{name}`" in sections["Rules"]]
    assert "| `chexpert_presence` | which finding is present |" in sections["Rules"]
    assert "- `id`;" not in sections["Rules"], "a list goes with the paragraph before it"
    assert "--tasks medfaith_contrabench_chexpert_presence_train\n" in sections["How to get it"]
    all_sections = datasheet.build_sections(built, "org/name")
    assert "`chexpert_lora_train` (split train) is the fine-tuning set" in all_sections["Rules"]
