"""From a build to the Hub and back, through the real command and the real clients, with a Hub on this machine."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import datasets
import pyarrow.parquet as pq
import pytest

from medfaith.builders import cxr_contrabench
from medfaith.loaders import progress
from tests.hub.server import Account
from tests.tasks import tiny_models

OPENI, CHEXPERT = "cxr-contrabench-openi", "cxr-contrabench-chexpert"


def commits(hub) -> int:
    return sum(len(repository.commits) for repository in hub.repositories.values())


LOAD = """
import json, datasets
name = "clinic/cxr-contrabench-openi"
rows = datasets.load_dataset(name, "openi_report_absence", split="test")
streamed = list(datasets.load_dataset(name, "openi_report_absence", split="test", streaming=True))
assert list(rows) == streamed
print(json.dumps({"rows": list(rows), "configs": datasets.get_dataset_config_names(name)}))
"""


def test_the_guard_says_how_far_it_is(openi, medfaith, monkeypatch):
    monkeypatch.setattr(progress, "EVERY", 0.0)
    status, _, err = medfaith(*openi, "--dry-run")
    titles = dict.fromkeys(line.rpartition(": ")[0] for line in err.splitlines())
    assert (status, [*titles]) == (
        0,
        [f"verifying {OPENI}", f"comparing the splits of {OPENI}", f"guard: reading {OPENI}", "hashing files",
         "reading reports of openi"],
    )  # fmt: skip


def test_rows_are_published_loaded_evaluated_and_proved_equal(
    openi, medfaith, afresh, python, hub, phantom_build, tmp_path
):
    status, out, err = medfaith(*openi)
    assert (status, err) == (0, "")  # nothing of work that ends within a minute
    assert "cxr-contrabench-openi (new dataset, published as rows)" in out
    built = phantom_build / OPENI
    n = commits(hub)

    status, out, _ = medfaith(*openi)
    assert (status, commits(hub)) == (0, n)
    assert "clinic/cxr-contrabench-openi: nothing to change" in out

    loaded = python(LOAD)
    local = pq.read_table(next((built / "openi_report_absence").glob("*.parquet"))).to_pylist()
    assert loaded["rows"] == local
    assert sorted(loaded["configs"]) == sorted(path.name for path in built.iterdir() if path.is_dir())

    task = "medfaith_contrabench_openi_report_absence"
    evaluated = ("eval", "--data", hub.organisation, "--model", "oracle", "--tasks", task)
    status, _, err = medfaith(*evaluated, "--output_path", tmp_path / "run")
    assert status == 0, err
    (result,) = (tmp_path / "run").rglob("results_*.json")
    assert json.loads(result.read_text())["n-samples"][task]["original"] == len(local)

    status, out, err = afresh("verify", built, "--against", "clinic/cxr-contrabench-openi")
    assert (status, err) == (0, ""), out
    head = hub.repositories["dataset", f"clinic/{OPENI}"].commits[-1].oid
    assert out.splitlines()[-1].endswith(f": equal to clinic/{OPENI} at its commit {head[:7]}")

    hub.stop()
    assert python(LOAD.replace("streamed =", "streamed = list(rows) or"), HF_HUB_OFFLINE="1")["rows"] == local


PAGE = "{url}/datasets/clinic/{name}"
LOG_IN = "log in with an account that may read it: hf auth login, or set HF_TOKEN"
ASK = "is gated: its owner lets readers in one by one\n  what to do: ask for access on its page"
GATED = f"{ASK}, {PAGE}, then {LOG_IN}"
HIDDEN = f"is not on the Hub, or is private\n  what to do: correct the name, or {LOG_IN}"


@pytest.mark.parametrize(
    ("state", "token", "said"),
    [
        ({"gated": "manual"}, "hf_other", GATED),
        ({"gated": "auto"}, "", GATED),
        ({"private": True}, "hf_other", HIDDEN),
        ({"private": True}, "", HIDDEN),
        ({}, "hf_unknown", f"the Hub answers 401\n  what to do: {LOG_IN}"),
    ],
)
def test_a_data_set_that_is_withheld_says_how_to_get_it(state, token, said, medfaith, hub):
    vars(hub.add("dataset", OPENI, {"README.md": b"# rows\n"})).update(state)
    hub.tokens["hf_other"] = Account("bob")
    task = "medfaith_contrabench_openi_report_absence"
    status, _, err = medfaith("eval", "--data", "clinic", "--model", "oracle", "--tasks", task, token=token)
    assert status == 2
    assert f"medfaith: clinic/{OPENI}: {said.format(url=hub.url, name=OPENI)}\n" in err


@pytest.mark.full
def test_plain_lm_eval_says_so_too_and_shows_no_traceback(medfaith, hub, tmp_path):
    hub.add("dataset", OPENI, {"README.md": b"# rows\n"}).gated = "manual"
    hub.tokens["hf_other"] = Account("bob")
    command = [
        sys.executable, "-m", "lm_eval", "run", "--include_path", medfaith("tasks")[1].strip(), "--model", "dummy",
        "--tasks", "medfaith_contrabench_openi_report_absence", "--metadata", json.dumps({"data": hub.organisation}),
    ]  # fmt: skip
    environment = hub.environment(tmp_path / "home", "hf_other")
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, "Traceback" in done.stderr) == (2, False)
    assert done.stderr.endswith(f"medfaith: clinic/{OPENI}: {GATED.format(url=hub.url, name=OPENI)}\n")


@pytest.mark.full
def test_plain_lm_eval_evaluates_what_is_on_the_hub(openi, medfaith, hub, phantom_roots, tmp_path):
    assert medfaith(*openi)[0] == 0
    model = tiny_models.save_llava(tmp_path / "model")
    task = "medfaith_contrabench_openi_report_absence"
    metadata = json.dumps({"data": hub.organisation, "roots": {"openi": str(phantom_roots["openi"])}})
    command = [
        sys.executable, "-m", "lm_eval", "run", "--include_path", medfaith("tasks")[1].strip(), "--tasks", task,
        "--metadata", metadata, "--model", "hf-multimodal", "--model_args", f"pretrained={model},dtype=float32",
        "--device", "cpu", "--apply_chat_template", "--gen_kwargs", "max_gen_toks=4", "--limit", "2",
        "--output_path", tmp_path / "run",
    ]  # fmt: skip
    environment = hub.environment(tmp_path / "home")
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    (result,) = (tmp_path / "run").rglob("results_*.json")
    assert json.loads(result.read_text())["n-samples"][task]["effective"] == 2
    unknown = {request.path for request in hub.requests if not request.route}
    assert unknown <= {"/api/agent-harnesses"}  # the client asks for it when an agent runs it


def test_a_recipe_lets_nothing_out_but_hashes_and_proves_a_rebuild(
    medfaith, hub, phantom_build, phantom_roots, tmp_path
):
    status, out, err = medfaith("publish", phantom_build / CHEXPERT, "--org", hub.organisation)
    assert status == 0, err
    assert "published as recipe" in out
    files = hub.repositories["dataset", f"clinic/{CHEXPERT}"].files
    record = json.loads((phantom_build / CHEXPERT / "build.json").read_text())
    configs = {key.split("/")[0] for key in record["splits"]}
    assert sorted(files) == [
        ".gitattributes", "README.md", "build.json", "croissant.json",
        *(f"manifest/{config}-00000-of-00001.parquet" for config in sorted(configs)),
    ]  # fmt: skip
    rows = datasets.load_dataset(f"clinic/{CHEXPERT}", "manifest")
    assert set(rows) == configs
    assert sum(map(len, rows.values())) == sum(split["rows"] for split in record["splits"].values())
    assert set(rows["chexpert_absence"][0]) == {"config", "split", "id", "sha256"}

    def against(folder: Path) -> tuple[int, str]:
        return medfaith("verify", folder, "--against", f"clinic/{CHEXPERT}")[:2]

    cxr_contrabench.build({"chexpert": phantom_roots["chexpert"]}, tmp_path / "again")
    assert against(tmp_path / "again")[0] == 0
    other = shutil.copytree(phantom_roots["chexpert"], tmp_path / "copy")
    for path in other.rglob("*.csv"):
        path.write_text(path.read_text("utf-8").replace("CheXpert-v1.0-small/", "CheXpert-v1.0/"), "utf-8")
    cxr_contrabench.build({"chexpert": other}, tmp_path / "spelled")
    assert against(tmp_path / "spelled")[0] == 0
    cxr_contrabench.build({"chexpert": phantom_roots["chexpert"]}, tmp_path / "less", configs=["chexpert_presence"])
    status, out = against(tmp_path / "less")
    assert status == 3, out
    assert "chexpert_absence/validation: missing: " in out
    cxr_contrabench.build({"chexpert": phantom_roots["chexpert"]}, tmp_path / "other", seed=5)
    status, out = against(tmp_path / "other")
    assert status == 5, out
    assert "seed: 5 here, 0 there" in out

    status, _, err = medfaith(
        "eval", "--data", "clinic", "--model", "oracle", "--tasks", "medfaith_contrabench_chexpert_presence"
    )
    assert status == 2
    assert "holds the recipe" in err


@pytest.mark.parametrize(
    ("fault", "method", "pattern", "more"),
    [
        ("fail", "PUT", "lfs", {"status": 403}),  # 500 and a cut connection the client repeats by itself
        ("fail", "POST", "/validate-yaml", {"status": 502}),
        ("fail", "POST", "/commit/", {"status": 500}),
        ("drop", "POST", "/commit/", {}),
    ],
)
def test_an_upload_that_breaks_off_changes_nothing_and_its_repetition_is_whole(
    openi, medfaith, hub, fault, method, pattern, more, phantom_build
):
    getattr(hub, fault)(method, pattern, **more)
    status, out, err = medfaith(*openi)
    assert status == 2, out
    assert "what to do: " in err
    (repository,) = hub.repositories.values()
    assert list(repository.files) == [".gitattributes"]

    hub._faults.clear()
    arrived, before = len(repository.blobs), len(hub.requests)
    assert medfaith(*openi)[0] == 0
    assert published(repository) == parquet_of(phantom_build / OPENI)
    assert len(hub.asked("PUT", since=before)) == len(repository.blobs) - arrived  # what arrived is not sent again


@pytest.mark.parametrize("fault", ["fail", "drop"])
def test_a_large_file_that_does_not_arrive_at_once_is_sent_again(openi, medfaith, hub, fault, phantom_build):
    getattr(hub, fault)("PUT", "lfs")
    assert medfaith(*openi)[0] == 0
    (repository,) = hub.repositories.values()
    assert published(repository) == parquet_of(phantom_build / OPENI)


def published(repository) -> dict[str, bytes]:
    return {path: content for path, content in repository.files.items() if path.endswith(".parquet")}


def parquet_of(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*.parquet")}


def edit_parquet(folder: Path) -> None:
    path = next(folder.glob("*/*.parquet"))
    table = pq.read_table(path)
    pq.write_table(table.set_column(5, "question", [["Which one?"] * len(table)]), path)


def edit_record(folder: Path) -> None:
    record = json.loads((folder / "build.json").read_text())
    next(iter(record["splits"].values()))["rows"] += 1
    (folder / "build.json").write_text(json.dumps(record))


@pytest.mark.parametrize(
    ("change", "arguments", "token", "complaint"),
    [
        (None, ["clinic"], "", "no token is known"),
        (None, ["clinic"], "hf_unknown", "log in with a token that has access to it (write access to publish)"),
        (None, ["clinic", "--dry-run"], "hf_unknown", "log in with a token"),
        (None, ["elsewhere"], None, "does not belong to it"),
        (None, ["elsewhere", "--dry-run"], None, "does not belong to it"),
        (None, ["no/name"], None, "does not belong to it"),
        (edit_parquet, ["clinic"], None, "is not what its build.json says"),
        (edit_record, ["clinic"], None, "is not what its build.json says"),
        (lambda folder: (folder / "build.json").write_text("{}"), ["clinic"], None, "build.json"),
    ],
)
def test_bad_input_is_refused_and_nothing_is_uploaded(
    change, arguments, token, complaint, medfaith, hub, openi, phantom_build, tmp_path
):
    folder = shutil.copytree(phantom_build / OPENI, tmp_path / "data" / OPENI)
    if change:
        change(folder)
    status, _, err = medfaith("publish", folder, "--org", *arguments, *openi[4:], token=token)
    assert (status, complaint in err) == (2, True), err
    assert not hub.repositories


def test_reports_that_rows_were_made_from_are_needed_to_publish_them(medfaith, hub, phantom_build):
    status, _, err = medfaith("publish", phantom_build / OPENI, "--org", hub.organisation)
    assert (status, "--root openi=PATH" in err) == (2, True)
    assert not hub.repositories


def test_a_repository_of_someone_elses_is_replaced_only_with_force(openi, medfaith, hub):
    theirs = hub.add("dataset", OPENI, {"README.md": b"# mine\n", "data.csv": b"a,b\n"})
    status, out, err = medfaith(*openi)
    assert status == 2
    assert "needs --force: " in out
    assert "medfaith did not publish it" in err
    assert len(theirs.commits) == 2
    assert medfaith(*openi, "--force")[0] == 0
    assert theirs.files["data.csv"] == b"a,b\n"
    assert theirs.files["README.md"] != b"# mine\n"
    assert "croissant.json" in theirs.files


def test_published_rows_are_exchanged_for_others_only_with_force(medfaith, hub, openi, phantom_roots, tmp_path):
    assert medfaith(*openi)[0] == 0
    repository = hub.repositories["dataset", f"clinic/{OPENI}"]
    n = len(repository.commits)
    cxr_contrabench.build({"openi": phantom_roots["openi"]}, tmp_path, seed=3)
    status, _, err = medfaith("publish", tmp_path / OPENI, *openi[2:])
    assert status == 2
    assert "the rows of openi_report_absence/test are others" in err
    assert len(repository.commits) == n
    assert medfaith("publish", tmp_path / OPENI, *openi[2:], "--force")[0] == 0
    assert len(repository.commits) == n + 1


def test_a_dry_run_shows_every_file_and_uploads_nothing(openi, medfaith, hub, phantom_build):
    status, out, _ = medfaith(*openi, "--dry-run", token="")
    assert status == 0
    for path in (phantom_build / OPENI).rglob("*.parquet"):
        name, size = path.relative_to(phantom_build / OPENI).as_posix(), path.stat().st_size
        assert f"{name} {size:,} new" in " ".join(out.split())
    assert "nothing was uploaded" in out
    assert "access to clinic was not checked: no token is known" in out
    assert "the card of clinic/cxr-contrabench-openi:\n---\n" in out
    assert not hub.repositories
    assert not [request for request in hub.requests if request.method in ("POST", "PUT")]


@pytest.mark.parametrize("token", ["", "hf_unknown"])
def test_a_dry_run_needs_no_network_and_no_token(token, openi, medfaith, hub, phantom_build):
    files = (phantom_build / OPENI).rglob("*.parquet")
    parts = [f"{path.parent.name}/{path.name} {path.stat().st_size:,}" for path in files]
    hub.stop()
    for command in (openi, ("publish-metrics", "--org", "clinic", "--metric", "tpt")):
        status, out, err = medfaith(*command, "--dry-run", token=token)
        assert (status, err) == (0, "")
        assert "the Hub cannot be reached: what it holds was not compared" in out
        assert out.splitlines()[-1].endswith("the comparison with the Hub was not made; nothing was uploaded")
        assert "\n# " in out.split("the card of clinic/", 1)[1]
        if command is openi:
            words = " ".join(out.split())
            assert all(f"{part} not compared" in words for part in parts)
            assert "(dataset, published as rows)" in out
    assert medfaith(*openi, token=token)[0] == 2  # an upload needs both


def test_what_registers_a_benchmark_is_uploaded_when_asked_for_and_then_stays(
    medfaith, hub, phantom_build, phantom_roots
):
    publish = ("publish", phantom_build / OPENI, "--org", hub.organisation, "--root", f"openi={phantom_roots['openi']}")
    files = lambda: hub.repositories["dataset", f"clinic/{OPENI}"].files  # noqa: E731
    status, _, err = medfaith(*publish)
    assert status == 0, err
    assert "eval.yaml" not in files()
    assert medfaith(*publish, "--register")[0] == 0
    written = files()["eval.yaml"]
    status, out, _ = medfaith(*publish)
    assert (status, files()["eval.yaml"]) == (0, written)
    assert "nothing to change" in out
