"""The LoRA set, its JSONL, and the few-shot pools; and that build.json and verify cover what is beside the Parquet."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from datasets import load_dataset
from hypothesis import given, settings
from hypothesis import strategies as st

from medfaith.builders import cxr_contrabench
from medfaith.builders.cxr_contrabench import chexpert
from medfaith.builders.cxr_contrabench.exports import chat_jsonl, fewshot, lora_train, patient
from medfaith.builders.cxr_contrabench.questions import Wording, violations
from medfaith.loaders import chexpert as labels
from medfaith.loaders import phantom, sources
from medfaith.tasks.contrabench import prompts
from tests.builders.files import digests

LORA = "chexpert_lora_train"
JSONL = f"{LORA}/train.jsonl"


def questions(values: dict[str, dict[str, float]], config: str, wording: Wording | None = None) -> pa.Table:
    views = [(study, view) for i, study in enumerate(values) for view in range(1, 2 + i % 2)]  # one image, or two
    images = pa.table(
        {
            "study_id": pa.array([study for study, _ in views]).dictionary_encode(),
            "key": [f"train/{study}/view{view}_frontal.jpg" for study, view in views],
            "view": ["AP"] * len(views),
            "view_number": pa.array([view for _, view in views], pa.int32()),
            **{
                column: pa.array([values[study].get(finding) for study, _ in views], pa.float64())
                for finding, column in chexpert.TARGETS.items()
            },
        }
    )
    return chexpert.questions(chexpert.studies(images, "train.csv"), config, "train", wording=wording)


def tables(n: int, **forms) -> tuple[pa.Table, pa.Table]:
    """Presence and absence rows of `n` studies, two a patient."""
    of_study = {"edema": 1.0, "pleural effusion": 1.0, "pneumothorax": 0.0, "consolidation": 0.0, "atelectasis": 0.0}
    values = {f"patient{i // 2:05d}/study{1 + i % 2}": of_study for i in range(n)}
    return questions(values, "chexpert_presence", **forms), questions(values, "chexpert_absence", **forms)


# --- the LoRA set -----------------------------------------------------------------------------------------------------


@settings(max_examples=30, deadline=None)
@given(st.integers(4, 30), st.sets(st.integers(0, 14)), st.integers(0, 3), st.integers(1, 40))
def test_the_set_is_balanced_seeded_and_without_held_out_patients(n, held_out, seed, size):
    presence, absence = tables(n)
    studies = [f"patient{i:05d}/study9" for i in held_out]  # another study of the patient is held out
    made = lora_train(presence, absence, studies, seed=seed, n=size)
    rows = made.to_pylist()
    patients = {f"patient{i:05d}" for i in held_out}
    left = sum(patient(study) not in patients for study in presence["study_id"].to_pylist())
    assert Counter(row["polarity"] for row in rows) == Counter(
        {p: min(left, size) for p in ("presence", "absence") if min(left, size)}
    )
    assert not {patient(row["study_id"]) for row in rows} & patients
    assert {row["id"] for row in rows} <= {*presence["id"].to_pylist(), *absence["id"].to_pylist()}
    assert violations(made) == []
    shuffled = (t.take(list(reversed(range(t.num_rows)))) for t in (presence, absence))
    assert lora_train(*shuffled, studies, seed=seed, n=size).equals(made)


def test_the_seed_chooses_and_the_polarities_are_mixed():
    presence, absence = tables(60)
    first, second = (lora_train(presence, absence, [], seed=seed, n=50)["id"].to_pylist() for seed in (0, 1))
    assert set(first) != set(second)
    polarities = ["/presence/" in row_id for row_id in first]
    assert 15 < sum(polarities[:50]) < 35


def test_the_phantom_s_set_shares_no_patient_with_validation(phantom_roots, tmp_path):
    """A copy that was split anew: one train patient is in valid.csv too."""
    source = phantom_roots["chexpert"] / "CheXpert-v1.0-small"
    for name in ("train.csv", "valid.csv"):
        shutil.copy(source / name, tmp_path / name)
    plain = built(tmp_path, tmp_path / "plain")
    moved = plain[0]["study_id"]
    lines = (tmp_path / "valid.csv").read_text().splitlines()
    stolen = lines[1].replace(lines[1].split("/study")[0].split("/")[-1], patient(moved)).replace("study1", "study7")
    (tmp_path / "valid.csv").write_text("\n".join([*lines, stolen]) + "\n")
    assert patient(moved) not in {patient(row["study_id"]) for row in built(tmp_path, tmp_path / "moved")}


def built(root: Path, out: Path) -> list[dict]:
    cxr_contrabench.build({"chexpert": root}, out, configs=[LORA])
    return load_dataset(str(out / "cxr-contrabench-chexpert"), LORA, split="train").to_list()


def test_the_set_of_the_real_labels():
    """2,000 + 2,000 of the 135,754 presence and 43,742 absence rows (Appendix H)."""
    root = sources.resolve_roots({"chexpert": "torchxrayvision"}, environ={})["chexpert"]
    path = labels.label_files(root)["train"]
    studies = chexpert.studies(labels.read_labels(path, "train"), path)
    presence, absence = (chexpert.questions(studies, f"chexpert_{p}", "train") for p in ("presence", "absence"))
    made = lora_train(presence, absence, [])
    assert Counter(made["polarity"].to_pylist()) == {"presence": 2000, "absence": 2000}
    assert len(set(made["finding"].to_pylist())) == 6
    assert chat_jsonl(made).count(b"\n") == 4000


# --- JSONL ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wording", [Wording(), Wording("clear_of", "p3", "shuffled")])
def test_a_line_asks_what_the_evaluation_asks(wording):
    made = lora_train(*tables(20, wording=wording), [], n=20)
    lines = [json.loads(line) for line in chat_jsonl(made).decode().splitlines()]
    for line, row in zip(lines, made.to_pylist(), strict=True):
        user, assistant = line["messages"]
        assert (user["role"], assistant["role"]) == ("user", "assistant")
        assert user["content"] == prompts.b0(row)
        assert assistant["content"] == prompts.target(row)
        assert line["images"] == [image["key"] for image in row["images"]]
        assert user["content"].count("<image>") == len(line["images"])
        assert line["id"] == row["id"]


def test_the_jsonl_loads_as_a_data_set(phantom_build):
    path = phantom_build / "cxr-contrabench-chexpert" / JSONL
    rows = load_dataset("json", data_files=str(path), split="train")
    parquet = load_dataset(str(phantom_build / "cxr-contrabench-chexpert"), LORA, split="train")
    assert rows["id"] == parquet["id"]
    assert not any(key.startswith("/") or ".." in key for keys in rows["images"] for key in keys)


# --- few-shot pools ---------------------------------------------------------------------------------------------------


@given(st.lists(st.sampled_from("abc"), max_size=40), st.integers(0, 5), st.integers(1, 25))
def test_a_pool_has_two_findings_where_the_rows_have(findings, seed, n):
    rows = pa.table({"id": [f"r{i}" for i in range(len(findings))], "finding": pa.array(findings, pa.string())})
    pool = fewshot(rows, "fewshot_absence", seed=seed, n=n).to_pylist()
    assert len({row["id"] for row in pool}) == len(pool) == min(n, len(findings))
    assert all(row["finding"] == findings[int(row["id"][1:])] for row in pool)
    if n >= 2 and len(set(findings)) >= 2:
        assert len({row["finding"] for row in pool}) >= 2


@pytest.fixture(scope="module")
def openi_build(tmp_path_factory) -> Path:
    roots = phantom.write(tmp_path_factory.mktemp("roots"), seed=0, sources=("openi", "chexstruct"))
    out = tmp_path_factory.mktemp("data")
    cxr_contrabench.build(roots, out)
    return out


@pytest.mark.parametrize(
    ("repository_name", "config", "plain"),
    [
        ("cxr-contrabench-chexstruct", "fewshot_presence", "openi_chexstruct_presence"),
        ("cxr-contrabench-openi", "fewshot_absence", "openi_report_absence"),
    ],
)
def test_pools_are_twenty_rows_of_their_protocols(openi_build, repository_name, config, plain):
    folder = str(openi_build / repository_name)
    pool = load_dataset(folder, config, split="train").to_list()
    rows = load_dataset(folder, plain, split="test").to_list()
    assert len(pool) == 20
    assert len({row["finding"] for row in pool}) >= 2
    by_id = {row["id"]: row for row in rows}
    assert all(by_id[row["id"]] == row for row in pool)


# --- build.json and verify --------------------------------------------------------------------------------------------


@pytest.fixture
def folder(phantom_build, tmp_path) -> Path:
    return shutil.copytree(phantom_build / "cxr-contrabench-chexpert", tmp_path / "cxr-contrabench-chexpert")


def problems(folder: Path) -> dict[str, tuple[str, ...]]:
    return {v.config: v.problems for v in cxr_contrabench.verify(folder) if v.problems}


def test_build_json_lists_the_jsonl_and_it_verifies(folder):
    record = json.loads((folder / "build.json").read_text())
    data = (folder / JSONL).read_bytes()
    assert record["exports"] == {JSONL: hashlib.sha256(data).hexdigest()}
    assert record["splits"][f"{LORA}/train"]["rows"] == data.count(b"\n")
    assert problems(folder) == {}
    assert {v.config for v in cxr_contrabench.verify(folder)} == {
        c for c, s in cxr_contrabench.CONFIGS.items() if s == "chexpert"
    }


def test_verify_finds_a_changed_jsonl(folder):
    path = folder / JSONL
    path.write_text(path.read_text().replace('"content": "A"', '"content": "B"', 1))
    ((config, found),) = problems(folder).items()
    assert config == LORA
    assert "sha256" in found[0]
    assert "not what the rows" in found[1]


def test_verify_finds_a_jsonl_that_was_recorded_anew(folder):
    """Hash and file agree, and still the lines are not those of the Parquet."""
    path, record = folder / JSONL, json.loads((folder / "build.json").read_text())
    path.write_text("".join(path.read_text().splitlines(keepends=True)[1:]))
    record["exports"][JSONL] = hashlib.sha256(path.read_bytes()).hexdigest()
    (folder / "build.json").write_text(json.dumps(record))
    assert problems(folder) == {LORA: (f"{JSONL}: is not what the rows of {LORA} give",)}


def test_verify_finds_a_missing_and_an_unlisted_jsonl(folder):
    (folder / JSONL).rename(folder / "chexpert_presence" / "train.jsonl")
    found = problems(folder)
    assert "is missing" in found[LORA][0]
    assert "does not list it" in found["chexpert_presence"][0]


def test_bytes_do_not_depend_on_workers_and_nothing_else_is_left(tmp_path):
    names = ("chexpert", "openi", "chexstruct", "rexvqa")
    roots = phantom.write(tmp_path / "phantom", seed=0, sources=names)
    made = []
    for workers in (1, 4):
        out = tmp_path / f"out{workers}"
        folders = cxr_contrabench.build(roots, out, workers=workers)
        assert [f.name for f in folders] == [f"cxr-contrabench-{name}" for name in names]
        assert {p.name for p in out.iterdir() if p.suffix != ".lock"} == {f.name for f in folders}
        assert all(problems(folder) == {} for folder in folders)
        made.append(digests(out))
    assert made[0] == made[1]
