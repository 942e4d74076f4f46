"""eval.yaml has the fields that the Hub documents, and every task has rows."""

from __future__ import annotations

import re

import pytest
import yaml

from medfaith.cards import publication, registration
from medfaith.cards.publish import staging
from medfaith.tasks import include_path
from medfaith.tasks.index import select_tasks

FIELDS = {"name", "description", "evaluation_framework", "tasks"}


def test_a_data_set_with_public_rows_is_registered_with_its_tasks(builds, tmp_path):
    for name in ("cxr-contrabench-openi", "cxr-contrabench-chexstruct"):
        built, into = publication.read(builds[name]), tmp_path / name
        into.mkdir()
        staging.stage(built, into, repo_id=f"phantom-org/{name}", texts=(), register=True)
        registered = yaml.safe_load((into / registration.FILE).read_text(encoding="utf-8"))
        assert registered.keys() == FIELDS
        assert all(isinstance(registered[field], str) and registered[field] for field in FIELDS - {"tasks"})
        assert len({task["id"] for task in registered["tasks"]}) == len(registered["tasks"]) > 0
        for task in registered["tasks"]:
            (chosen_task,) = select_tasks(task["id"])
            assert (chosen_task.rows["config"], chosen_task.rows["split"]) == (task["config"], task["split"])
            assert f"{task['config']}/{task['split']}" in built.record["splits"]


@pytest.mark.full  # another publish
def test_a_recipe_is_no_benchmark_of_the_hub(builds, tmp_path):
    built = publication.read(builds["cxr-contrabench-chexpert"])
    into = tmp_path / "x"
    into.mkdir()
    staging.generate(built, "phantom-org/x", True, into)
    assert not (into / registration.FILE).exists()


def test_the_rows_of_every_task_are_built(builds):
    config_pattern = re.compile(r"repository: ([\w-]+),?\s+(?:pool_)?config: (\w+)")
    needed = {
        n for file in include_path().rglob("*yaml") for n in config_pattern.findall(file.read_text(encoding="utf-8"))
    }
    assert len(needed) > 40
    assert [f"{name}/{config}" for name, config in sorted(needed) if not (builds[name] / config).is_dir()] == []
