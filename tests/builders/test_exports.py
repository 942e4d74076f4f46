"""The LoRA set, its JSONL and the few-shot pools; build.json and verify cover the files next to the Parquet."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from datasets import load_dataset
from hypothesis import example, given, settings
from hypothesis import strategies as st

from medfaith.builders import cxr_contrabench
from medfaith.builders.cxr_contrabench import chexpert
from medfaith.builders.cxr_contrabench.exports import fewshot, format_chat_jsonl, patient, sample_lora_rows
from medfaith.builders.cxr_contrabench.questions import Wording, find_violations
from medfaith.tasks.contrabench import prompts
from tests.support.builders.chexpert_scenes import studies
from tests.support.builders.files import digests, problems, record_of, rows_of
from tests.support.tiers import choose_size

LORA = "chexpert_lora_train"
JSONL = f"{LORA}/train.jsonl"
POLARITIES = ("presence", "absence")


def build_tables(n: int, **forms) -> tuple[pa.Table, pa.Table]:
    """Build presence and absence rows of `n` studies, two studies per patient."""
    study_labels = {
        "edema": 1.0,
        "pleural effusion": 1.0,
        "pneumothorax": 0.0,
        "consolidation": 0.0,
        "atelectasis": 0.0,
    }
    table = studies({f"patient{i // 2:05d}/study{1 + i % 2}": study_labels for i in range(n)}, n_views=2)
    presence, absence = (chexpert.questions(table, f"chexpert_{p}", "train", **forms) for p in POLARITIES)
    return presence, absence


# --- the LoRA set -----------------------------------------------------------------------------------------------------


@settings(max_examples=choose_size(8, 30), deadline=None)
@given(st.integers(4, 30), st.sets(st.integers(0, 14)), st.integers(0, 3), st.integers(1, 40))
def test_the_set_is_balanced_seeded_and_without_held_out_patients(n, held_out, seed, size):
    presence, absence = build_tables(n)
    held_out_studies = [f"patient{i:05d}/study9" for i in held_out]  # hold out another study of the patient
    table = sample_lora_rows(presence, absence, held_out_studies, seed=seed, n=size)
    rows = table.to_pylist()
    patients = {f"patient{i:05d}" for i in held_out}
    n_left = sum(patient(study) not in patients for study in presence["study_id"].to_pylist())
    assert Counter(row["polarity"] for row in rows) == Counter(dict.fromkeys(POLARITIES, min(n_left, size)))
    assert not {patient(row["study_id"]) for row in rows} & patients
    assert {row["id"] for row in rows} <= {*presence["id"].to_pylist(), *absence["id"].to_pylist()}
    assert find_violations(table) == []
    shuffled = (t.take(list(reversed(range(t.num_rows)))) for t in (presence, absence))
    assert sample_lora_rows(*shuffled, held_out_studies, seed=seed, n=size).equals(table)


def test_the_seed_chooses_and_the_polarities_are_mixed():
    presence, absence = build_tables(60)
    row_ids, other_ids = (sample_lora_rows(presence, absence, [], seed=seed, n=50)["id"].to_pylist() for seed in (0, 1))
    assert set(row_ids) != set(other_ids)
    polarities = ["/presence/" in row_id for row_id in row_ids]
    assert 15 < sum(polarities[:50]) < 35


def test_the_phantom_s_set_shares_no_patient_with_validation(phantom_roots, tmp_path):
    """Use a copy with a new split: one train patient is in valid.csv, too."""
    source = phantom_roots["chexpert"] / "CheXpert-v1.0-small"
    for name in ("train.csv", "valid.csv"):
        shutil.copy(source / name, tmp_path / name)
    plain = build_lora_rows(tmp_path, tmp_path / "plain")
    moved = plain[0]["study_id"]
    lines = (tmp_path / "valid.csv").read_text().splitlines()
    stolen = lines[1].replace(lines[1].split("/study")[0].split("/")[-1], patient(moved)).replace("study1", "study7")
    (tmp_path / "valid.csv").write_text("\n".join([*lines, stolen]) + "\n")
    assert patient(moved) not in {patient(row["study_id"]) for row in build_lora_rows(tmp_path, tmp_path / "moved")}


def build_lora_rows(root: Path, out: Path) -> list[dict]:
    cxr_contrabench.build({"chexpert": root}, out, configs=[LORA])
    return rows_of(out / "cxr-contrabench-chexpert", LORA, "train")


@pytest.mark.full  # the set of synthetic labels: the test before
def test_the_set_of_the_real_labels(real_studies):
    """Check 2,000 + 2,000 of the 135,754 presence and 43,742 absence rows (Appendix H)."""
    presence, absence = (chexpert.questions(real_studies, f"chexpert_{p}", "train") for p in POLARITIES)
    table = sample_lora_rows(presence, absence, [])
    assert Counter(table["polarity"].to_pylist()) == {"presence": 2000, "absence": 2000}
    assert len(set(table["finding"].to_pylist())) == 6
    assert format_chat_jsonl(table).count(b"\n") == 4000


# --- JSONL ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wording", [Wording(), Wording("clear_of", "p3", "shuffled")])
def test_a_line_asks_what_the_evaluation_asks(wording):
    table = sample_lora_rows(*build_tables(20, wording=wording), [], n=20)
    lines = [json.loads(line) for line in format_chat_jsonl(table).decode().splitlines()]
    for line, row in zip(lines, table.to_pylist(), strict=True):
        user, assistant = line["messages"]
        assert (user["role"], assistant["role"]) == ("user", "assistant")
        assert user["content"] == prompts.b0(row)
        assert assistant["content"] == prompts.target(row)
        assert line["images"] == [image["key"] for image in row["images"]]
        assert user["content"].count("<image>") == len(line["images"])
        assert line["id"] == row["id"]


def test_the_jsonl_loads_as_a_data_set(phantom_build):
    folder = phantom_build / "cxr-contrabench-chexpert"
    rows = load_dataset("json", data_files=str(folder / JSONL), split="train")
    assert list(rows["id"]) == [row["id"] for row in rows_of(folder, LORA, "train")]
    assert not any(key.startswith("/") or ".." in key for keys in rows["images"] for key in keys)


# --- few-shot pools ---------------------------------------------------------------------------------------------------


@given(st.lists(st.sampled_from("abc"), max_size=40), st.integers(0, 5), st.integers(1, 25))
@example(findings=[*"aaaaaaaaab"], seed=0, n=8)  # the ninth in the order of seed 0 is the first of the other finding
def test_a_pool_has_two_findings_where_the_rows_have(findings, seed, n):
    rows = pa.table({"id": [f"r{i}" for i in range(len(findings))], "finding": pa.array(findings, pa.string())})
    pool = fewshot(rows, "fewshot_absence", seed=seed, n=n).to_pylist()
    assert len({row["id"] for row in pool}) == len(pool) == min(n, len(findings))
    assert all(row["finding"] == findings[int(row["id"][1:])] for row in pool)
    if n >= 2 and len(set(findings)) >= 2:
        assert len({row["finding"] for row in pool}) >= 2


# --- build.json and verify --------------------------------------------------------------------------------------------


def collect_problems(folder: Path) -> dict[str, tuple[str, ...]]:
    return {config: messages for (config, _), messages in problems(folder).items() if messages}


@pytest.mark.full  # two more builds
def test_build_json_lists_the_jsonl_and_verify_finds_another(phantom_build, tmp_path):
    folder = shutil.copytree(phantom_build / "cxr-contrabench-chexpert", tmp_path / "cxr-contrabench-chexpert")
    path, record = folder / JSONL, record_of(folder)
    data = path.read_bytes()
    assert record["exports"] == {JSONL: hashlib.sha256(data).hexdigest()}
    assert record["splits"][f"{LORA}/train"]["rows"] == data.count(b"\n")
    assert collect_problems(folder) == {}
    path.write_bytes(data.replace(b'"content": "A"', b'"content": "B"', 1))
    ((config, report),) = collect_problems(folder).items()
    assert (config, "sha256" in report[0], "not what the rows" in report[1]) == (LORA, True, True)
    path.write_bytes(b"".join(data.splitlines(keepends=True)[1:]))
    record["exports"][JSONL] = hashlib.sha256(path.read_bytes()).hexdigest()
    (folder / "build.json").write_text(json.dumps(record))  # the hash matches the changed file
    assert collect_problems(folder) == {LORA: (f"{JSONL}: is not what the rows of {LORA} give",)}
    path.rename(folder / "chexpert_presence" / "train.jsonl")
    report = collect_problems(folder)
    assert "is missing" in report[LORA][0]
    assert "does not list it" in report["chexpert_presence"][0]


@pytest.mark.full
def test_bytes_do_not_depend_on_workers_nothing_else_is_left_and_pools_are_rows_of_their_protocols(
    phantom_roots, phantom_items_roots, tmp_path
):
    roots = phantom_roots | phantom_items_roots
    hashes = []
    for workers in (1, 4):
        out = tmp_path / f"out{workers}"
        folders = cxr_contrabench.build(roots, out, workers=workers)
        assert [f.name for f in folders] == [f"cxr-contrabench-{name}" for name in roots]
        assert {p.name for p in out.iterdir() if p.suffix != ".lock"} == {f.name for f in folders}
        assert all(collect_problems(folder) == {} for folder in folders)
        hashes.append(digests(out))
    assert hashes[0] == hashes[1]
    for source, config, plain in (
        ("chexstruct", "fewshot_presence", "openi_chexstruct_presence"),
        ("openi", "fewshot_absence", "openi_report_absence"),
    ):
        pool = rows_of(out / f"cxr-contrabench-{source}", config, "train")
        assert len(pool) == 20
        assert len({row["finding"] for row in pool}) >= 2
        by_id = {row["id"]: row for row in rows_of(out / f"cxr-contrabench-{source}", plain)}
        assert all(by_id[row["id"]] == row for row in pool)
