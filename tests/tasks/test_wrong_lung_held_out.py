"""A model trained on gold is asked only about unseen patients: train, eval, report."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from medfaith.cli import main
from medfaith.loaders.errors import InputError
from medfaith.tasks.models.alignment import gloria_image
from medfaith.tasks.wrong_lung import rows
from tests.support.builders.files import rows_of
from tests.support.tasks import tiny_gloria
from tests.support.tasks.evaluating import results_of, samples_of
from tests.support.tiers import choose_size

pytestmark = pytest.mark.usefixtures("tables_alone")

GROUP, REPOSITORY = "medfaith_wrong_lung", "wrong-lung-chest_imagenome"
TASKS = choose_size(("gold", "swap_left_right"), ("gold", "swap_left_right", "synthetic_swapped_conditions"))


@pytest.fixture(scope="module")
def record(phantom_wrong_lung_build, tmp_path_factory) -> Path:
    """A training record of a model that has seen every other patient."""
    patients = sorted({row["patient_id"] for row in rows_of(phantom_wrong_lung_build / REPOSITORY, "gold")})
    path = tmp_path_factory.mktemp("trained") / "a.ckpt.json"
    path.write_text(json.dumps({"config": "gold", "seen": patients[::2]}))
    return path


@pytest.fixture(scope="module")
def results(record, phantom_wrong_lung_build) -> Path:
    """Results of `medfaith eval --patients`; pixels are scored by the rules of the paper's code, except for ties."""
    out = record.parent / "results"
    scoring = ["--upsampling", "nearest", "--precision-ties", "excluded"]
    options = ["--model", "oracle", "--heatmaps", str(record.parent / "attention"), "--output_path", str(out)]
    assert main([*build_command(record, phantom_wrong_lung_build), *options, *scoring]) == 0
    return out


def build_command(record: Path, build: Path) -> list[str]:
    tasks = ",".join(f"{GROUP}_{task}" for task in TASKS)
    return ["eval", "--data", str(build), "--patients", str(record), "--tasks", tasks, "--log_samples"]


@pytest.mark.full
def test_a_trained_model_is_not_asked_about_its_patients(phantom_wrong_lung_build, phantom_wrong_lung_roots, tmp_path):
    tokenizer = tiny_gloria.save_tokenizer(tmp_path / "bert")
    places = ["--root", f"mimic_cxr={phantom_wrong_lung_roots['mimic_cxr']}"]
    checkpoint = tmp_path / "tiny.ckpt"
    command = ["train", "retrained", "--data", str(phantom_wrong_lung_build), *places, "--text-model", tokenizer]
    model = ["--model", "medfaith-alignment", "--batch_size", "8", "--heatmaps", str(tmp_path / "attention")]
    model += ["--model_args", f"pretrained=gloria:{checkpoint},text_model={tmp_path / 'bert'}"]
    record = tmp_path / "tiny.ckpt.json"
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(gloria_image, "INPUT", 64)
        assert main([*command, "--tiny", "--epochs", "1", "--out", str(checkpoint)]) == 0
        eval_command = build_command(record, phantom_wrong_lung_build)
        assert main([*eval_command, *places, *model, "--output_path", str(tmp_path / "results")]) == 0
    docs = [sample["doc"] for task in TASKS for sample in samples_of(tmp_path / "results", f"{GROUP}_{task}")]
    assert not {doc["patient_id"] for doc in docs} & set(json.loads(record.read_text())["seen"])


@pytest.mark.parametrize("task", TASKS)
def test_only_held_out_patients_are_asked_about(results, record, phantom_wrong_lung_build, task):
    trained_patients = set(json.loads(record.read_text())["seen"])
    docs = [sample["doc"] for sample in samples_of(results, f"{GROUP}_{task}")]
    data_rows = rows_of(phantom_wrong_lung_build / REPOSITORY, task)
    held_out_rows = [row for row in data_rows if row["patient_id"] not in trained_patients]
    pairs = 1 if task == "gold" else 2  # each changed sentence follows its original
    assert {doc["patient_id"] for doc in docs} == {row["patient_id"] for row in held_out_rows}
    assert {doc["id"] for doc in docs} >= {row["id"] for row in held_out_rows}
    assert len(docs) == pairs * len(held_out_rows) < pairs * len(data_rows)
    assert {doc["n_rows_left_out"] for doc in docs} == {pairs * (len(data_rows) - len(held_out_rows))}
    scores = results_of(results)[f"{GROUP}_{task}"]
    assert scores["n_rows_left_out,none"] == pairs * (len(data_rows) - len(held_out_rows))
    assert scores["n_rows_skipped,none"] == 0
    assert {(doc["upsampling"], doc["precision_ties"]) for doc in docs} == {("nearest", "excluded")}


@pytest.mark.full
@pytest.mark.usefixtures("png_only")
def test_the_report_marks_the_run(results, phantom_wrong_lung_build, record, tmp_path, capsys):
    assert main(["report", str(results), "--out", str(tmp_path / "report")]) == 0
    trained_patients = set(json.loads(record.read_text())["seen"])
    data_rows = rows_of(phantom_wrong_lung_build / REPOSITORY, "gold")
    n = sum(row["patient_id"] not in trained_patients for row in data_rows)
    with (tmp_path / "report" / "wrong_lung_runs.csv").open(newline="", encoding="utf-8") as file:
        line = next(row for row in csv.DictReader(file) if "gold" in row.values())
    assert (line["n"], line["n_data"], line["n_left_out"]) == (str(n), str(len(data_rows)), str(len(data_rows) - n))
    assert "oracle (held-out patients)" in capsys.readouterr().out
    text = (tmp_path / "report" / "report.md").read_text(encoding="utf-8")
    assert "whose patients --patients leaves out (Other patients)" in text
    assert f"| {n} of {len(data_rows)} |" in text
    assert "## Wrong Lung Table 2 (nearest upsampling, precision without ties): subsets" in text


@pytest.fixture
def ask(phantom_wrong_lung_build, tmp_path):
    """Load the documents of a config, without the patients in a record with this text."""
    path = tmp_path / "a.ckpt.json"

    def load_documents(config: str, text: str | None) -> Any:
        if text is not None:
            path.write_text(text)
        options = {"split": "test", "data": str(phantom_wrong_lung_build), "patients": str(path)}
        return rows.load(REPOSITORY, config, **options)["test"]

    return load_documents


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "cannot be read"),
        ("{broken", "is no JSON"),
        ("[1]", "column 'seen': has no list of patients"),
        ("{}", "has no list of patients"),
        ('{"config": "gold", "patients": {"test": ["p1"]}}', "has no list of patients"),
        ('{"seen": [1]}', "has no list of patients"),
        ('{"seen": []}', "(?s)has seen none of gold's patients.*leave the option patients out"),
        ('{"seen": ["p1", "p2"]}', "none of its 2 patients has a row in the data"),
    ],
    ids=["no file", "no JSON", "no object", "no patients", "parts only", "numbers", "of silver", "of other data"],
)
def test_a_record_of_no_use_is_named(ask, tmp_path, text, message):
    with pytest.raises(InputError, match=message) as error:
        ask("gold", text)
    assert str(tmp_path / "a.ckpt.json") in str(error.value)


def test_a_record_of_all_patients_leaves_no_row(ask, phantom_wrong_lung_build):
    text = json.dumps({"seen": [row["patient_id"] for row in rows_of(phantom_wrong_lung_build / REPOSITORY, "gold")]})
    for config in ("gold", "swap_left_right"):
        with pytest.raises(InputError, match="column 'seen': lists all patients of the data"):
            ask(config, text)


def test_a_perturbed_config_may_have_no_row_of_a_patient_that_was_seen(ask, phantom_wrong_lung_build):
    docs = ask("swap_left_right", '{"seen": ["p1"]}')
    assert len(docs) == 2 * len(rows_of(phantom_wrong_lung_build / REPOSITORY, "swap_left_right"))


def test_no_row_is_left_out_without_a_record(phantom_wrong_lung_build):
    docs = rows.load(REPOSITORY, "gold", split="test", data=str(phantom_wrong_lung_build))["test"]
    assert len(docs) == len(rows_of(phantom_wrong_lung_build / REPOSITORY, "gold"))
    assert set(docs["n_rows_left_out"]) == {0}


@pytest.mark.parametrize(
    ("task", "option", "value"),
    [
        ("contrabench_chexpert_presence", "patients", "a.ckpt.json"),
        ("contrabench_chexpert_presence", "precision_ties", "included"),
        ("contrabench_openi_report_absence", "upsampling", "nearest"),
    ],
)
def test_tasks_of_other_benchmarks_refuse_the_options(phantom_build, capsys, task, option, value):
    """These tasks would ignore the record and ask about every patient."""
    arguments = [f"--{option.replace('_', '-')}", value]
    command = ["eval", "--data", str(phantom_build), "--model", "oracle", *arguments]
    assert main([*command, "--tasks", f"medfaith_{task}"]) == 2
    error = capsys.readouterr().err
    assert f"option {option}: is one of That's the Wrong Lung!" in error
    assert f"cxr-contrabench-{'chexpert' if 'chexpert' in task else 'openi'}" in error
