"""The contract of tasks: lm-eval lists each and resolves its functions; adapters treat special answers alike."""

from __future__ import annotations

import json
import tomllib
from importlib import import_module
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from lm_eval.api.registry import get_model
from lm_eval.tasks._yaml_loader import load_yaml

from medfaith import tasks
from medfaith.builders import cxr_contrabench, heal_medvqa, own, surgxbench, wrong_lung
from medfaith.evaluate_metrics.polarity import fallback
from medfaith.evaluate_metrics.reading.choice import Answer
from medfaith.evaluate_metrics.reading.diseases import Extraction
from medfaith.evaluate_metrics.reading.free_answers import FreeAnswer
from medfaith.evaluate_metrics.reading.surgery import Reading, TripletReading
from medfaith.task_list import WIDTH
from medfaith.tasks.listing import listed
from medfaith.tasks.run import _all_ours, list_task_names
from tests.support.tasks.evaluating import figures

YAMLS = sorted(tasks.include_path().rglob("*.yaml"))


@pytest.fixture(scope="module")
def configs() -> dict[Path, dict[str, Any]]:
    """lm-eval's config of each file; loading raises for a missing function."""
    return {path: load_yaml(path, resolve_func=True) for path in YAMLS}


def test_lm_eval_lists_every_yaml(configs):
    """A broken YAML is skipped at DEBUG level, so the listing has to be compared."""
    tags = {f"medfaith_{benchmark}_all" for benchmark in ("contrabench", "heal", "surgx", "wrong_lung", "own")}
    assert {config.get("group", config["task"]) for config in configs.values()} | tags == set(list_task_names())


def test_every_task_and_group_resolves_its_functions_and_says_what_it_asks(configs):
    """A description fits on one line of a terminal; all files of a benchmark repeat its version."""
    versions: dict[str, set[float]] = {}
    for path, config in configs.items():
        for name in ("custom_dataset", "doc_to_text", "doc_to_target", "process_results"):
            assert "group" in config or callable(config[name]), path
        metadata = config["metadata"]
        assert 20 <= len(metadata["description"]) <= WIDTH - 4, path
        types = {*metadata.get("only_models", ()), *metadata.get("heatmap_models", ())}
        assert types <= set(tasks.EXPLAINED), path
        # The row loader merges this metadata with the run's, which may set `heatmaps`.
        assert set(metadata) <= {"version", "description", "only_models", "heatmap_models"}, path
        versions.setdefault(path.parent.name, set()).add(metadata["version"])
    assert {len(file_versions) for file_versions in versions.values()} == {1}


def test_no_row_is_an_exemplar(configs):
    """By default, lm-eval copies all rows of a task as a pool of exemplars, also where none is asked for."""
    tasks_of_files = [child for config in configs.values() for child in list_tasks(config)]
    assert tasks_of_files
    assert all(task["fewshot_config"] == {"samples": []} for task in tasks_of_files)


def list_tasks(config: dict[str, Any]) -> list[dict[str, Any]]:
    """List the tasks that a file defines: its own, or those of a group."""
    children = config["task"] if isinstance(config["task"], list) else [config]
    return [config | child for child in children if isinstance(child, dict)]


def test_functions_have_full_dotted_names():
    for file in (*YAMLS, *tasks.include_path().rglob("_*_yaml")):
        for line in file.read_text(encoding="utf-8").splitlines():
            if "!function" in line and not line.startswith("#"):
                assert "!function medfaith." in line, f"{file.name}: {line}"


def test_the_roots_of_a_task_are_those_of_its_images(
    contrabench_of_all_sources, phantom_chexlocalize_build, phantom_heal_build, phantom_nih_build, phantom_surgx_build,
    phantom_wrong_lung_build, phantom_own_build,
):  # fmt: skip
    builds = (
        contrabench_of_all_sources[1], phantom_chexlocalize_build, phantom_heal_build, phantom_nih_build,
        phantom_surgx_build, phantom_wrong_lung_build, phantom_own_build,
    )  # fmt: skip
    listing_by_repository = {listing.data[0]: listing for listing in listed() if len(listing.data) == 1}
    for repository, listing in listing_by_repository.items():
        (folder,) = (build / repository for build in builds if (build / repository).is_dir())
        rows = pq.read_table(folder / listing.tasks[0].rows["config"])
        images = rows["images"].combine_chunks().flatten() if "images" in rows.column_names else rows["image"]
        assert set(pc.struct_field(images, "source").to_pylist()) == set(listing.roots), repository
    assert set(listing_by_repository) == {repository for listing in listed() for repository in listing.data}
    (shots,) = (listing for listing in listed() if listing.name == "medfaith_contrabench_3shot_images")
    assert (shots.roots, shots.prompts) == (("chexpert", "openi"), ("3shot_images",))


def test_models_are_described_registered_and_declared():
    pyproject = tomllib.loads((tasks.include_path().parent / "pyproject.toml").read_text(encoding="utf-8"))
    declared = pyproject["project"]["entry-points"]["lm_eval.models"]
    assert set(tasks.ABOUT) == set(tasks.MODELS)
    assert {name: declared[name] for name in tasks.MODELS} == tasks.MODELS
    tasks.register_models()
    models: list[Any] = [get_model(name) for name in tasks.MODELS]
    assert all(model.MULTIMODAL for model in models)


def test_every_config_that_is_asked_has_a_task(configs):
    used = set()
    for config in configs.values():
        children = config["task"] if isinstance(config["task"], list) else [config]
        used |= {child["dataset_kwargs"]["config"] for child in children if isinstance(child, dict)}
    all_configs = {*cxr_contrabench.CONFIGS, *heal_medvqa.CONFIGS, *surgxbench.CONFIGS, *wrong_lung.CONFIGS, *own.NEEDS}
    assert used == all_configs - set(cxr_contrabench.SETS)


def test_the_main_group_holds_the_four_direct_protocols(configs):
    group = configs[tasks.include_path() / "contrabench" / "medfaith_contrabench.yaml"]
    direct = ("chexpert_presence", "chexpert_absence", "chexpert_positive_only", "openi_report_absence")
    assert group["task"] == [f"medfaith_contrabench_{config}" for config in direct]


def test_whether_all_tasks_of_a_run_are_ours():
    assert _all_ours("medfaith_surgx,medfaith_heal_*")
    assert _all_ours(["medfaith_surgx,medfaith_heal_vindr_tpt"])
    assert not _all_ours("medfaith_surgx,mmlu")
    assert not _all_ours(["medfaith_surgx", "own.yaml"])


READERS = {  # of answers in words: what each returns for an answer that declines
    "parse_answer": Answer(None, "declined", reason="passed on"),
    "read_yes_no": "declined",
    "extract_labels": Extraction(frozenset(), "declined"),
    "read_free_answer": FreeAnswer((), "declined"),
    "read_instruments": Reading((), (), "declined"),
    "read_triplets": TripletReading((), (), "declined"),
}
READ = {  # benchmark: filters of its adapter, or else kinds of its questions
    "contrabench": ("b0", "m1", "m2", "packet_b0", "packet_m1", "y0"),
    "heal": ("closed", "open", "tpt", "vpt"),
    "surgx": ("instruments", "triplets", "occlusion"),
    "own": ("yes_no", "choice", "open"),
    "wrong_lung": (),  # its models answer with attention
}


def test_every_adapter_is_under_the_contract_of_declined_and_cut_answers():
    assert {path.parent.name for path in tasks.include_path().glob("*/adapter.py")} == READ.keys()


@pytest.mark.parametrize(("benchmark", "name"), [(key, name) for key, names in READ.items() for name in names])
@pytest.mark.parametrize("outcome", [None, "answered", "cut"])
def test_readers_are_told_of_a_cut_answer_and_declined_ones_are_counted(monkeypatch, benchmark, name, outcome):
    adapter, cuts = import_module(f"medfaith.tasks.{benchmark}.adapter"), []

    def make_reader(reading: Any) -> Any:
        return lambda *args, cut=False: cuts.append(cut) or reading

    for module in (adapter, fallback):
        for reader in READERS.keys() & vars(module):
            monkeypatch.setattr(module, reader, make_reader(READERS[reader]))
    doc = {
        "id": "1", "original_id": "1", "study_id": "s", "image_id": "i", "video": 1, "images": [], "n_rows_skipped": 0,
        "question": "Is there edema?", "polarity": "presence", "kind": "original", "options": ["Yes", "No"],
        "answer": 0, "negated": 1, "counterpart": 0, "diseases": [], "gold": [], "classes": [], "boxes": [],
        "motion": None, "top_k": 5, "answer_outcome": outcome,
    }  # fmt: skip
    if benchmark == "own":
        doc |= {"answer_kind": name, "patient_id": "p", "gold": ["Yes"]}
    if benchmark == "contrabench":
        adapter._parse_cached.cache_clear()
        (reading,) = getattr(adapter, name)([["Yes. The answer is"]], [doc])
        adapter._parse_cached.cache_clear()
        assert json.loads(reading)["reason"] == "passed on"
        scores = adapter.process_results(doc, [reading])
    else:
        process_results = adapter.process_results if benchmark == "own" else getattr(adapter, f"{name}_results")
        items = process_results(doc, ["Yes. The answer is"])
        scores = figures(getattr(adapter, f"{name}_metrics"), [items])
    assert cuts == [outcome == "cut"]
    assert {name: value for name, value in scores.items() if "declined" in name and value} in (
        {"declined_rate": 1}, {"n_closed_declined": 1}, {"n_open_declined": 1}, {"n_declined_originals": 1},
        {"n_declined": 1},
    )  # fmt: skip
    assert not any(value for name, value in scores.items() if "unparsed" in name or name == "parse_failure_rate")
