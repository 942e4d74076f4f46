"""From a build to the Hub and back, with the real command, the real clients and a loopback Hub."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import datasets
import pyarrow.parquet as pq
import pytest

from medfaith.builders import cxr_contrabench
from medfaith.loaders import progress
from tests.hub.server import Account
from tests.support.publishing import CHEXPERT, METRIC, OPENI
from tests.support.tasks import tiny_models
from tests.support.tiers import is_full_run


def count_commits(hub) -> int:
    return sum(len(repository.commits) for repository in hub.repositories.values())


LOAD = """
import json, datasets
name = "clinic/cxr-contrabench-openi"
rows = datasets.load_dataset(name, "openi_report_absence", split="test")
streamed = list(datasets.load_dataset(name, "openi_report_absence", split="test", streaming=True))
assert list(rows) == streamed
print(json.dumps({"rows": streamed, "configs": datasets.get_dataset_config_names(name)}))
"""


@pytest.mark.full  # another publish
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
    openi, medfaith, afresh, python, hub, phantom_build, tmp_path, capsys
):
    """In the full run loading has a fresh process, too."""
    status, out, err = afresh(*openi)
    assert (status, err) == (0, "")  # no progress lines for work of less than a minute
    assert "cxr-contrabench-openi (new dataset, published as rows)" in out
    built = phantom_build / OPENI
    n = count_commits(hub)

    status, out, _ = medfaith(*openi)
    assert (status, count_commits(hub)) == (0, n)
    assert "clinic/cxr-contrabench-openi: nothing to change" in out

    if is_full_run():
        loaded = python(LOAD)
    else:
        capsys.readouterr()
        exec(LOAD, {})
        loaded = json.loads(capsys.readouterr().out.splitlines()[-1])
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


PAGE = "{url}/datasets/clinic/{name}"
LOG_IN = "log in with an account that may read it: hf auth login, or set HF_TOKEN"
ASK = "is gated: its owner lets readers in one by one\n  what to do: ask for access on its page"
GATED = f"{ASK}, {PAGE}, then {LOG_IN}"
HIDDEN = f"is not on the Hub, or is private\n  what to do: correct the name, or {LOG_IN}"


@pytest.mark.parametrize(
    ("state", "token", "message"),
    [
        ({"gated": "manual"}, "hf_other", GATED),
        ({"gated": "auto"}, "", GATED),
        ({"private": True}, "hf_other", HIDDEN),
        ({"private": True}, "", HIDDEN),
        ({}, "hf_unknown", f"the Hub answers 401\n  what to do: {LOG_IN}"),
    ],
)
def test_a_data_set_that_is_withheld_says_how_to_get_it(state, token, message, medfaith, hub):
    vars(hub.add("dataset", OPENI, {"README.md": b"# rows\n"})).update(state)
    hub.tokens["hf_other"] = Account("bob")
    task = "medfaith_contrabench_openi_report_absence"
    status, _, err = medfaith("eval", "--data", "clinic", "--model", "oracle", "--tasks", task, token=token)
    assert status == 2
    assert f"medfaith: clinic/{OPENI}: {message.format(url=hub.url, name=OPENI)}\n" in err


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
    environment, n_before = hub.environment(tmp_path / "home"), len(hub.requests)
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    (result,) = (tmp_path / "run").rglob("results_*.json")
    assert json.loads(result.read_text())["n-samples"][task]["effective"] == 2
    unknown = {request.path for request in hub.requests[n_before:] if not request.route}
    assert unknown <= {"/api/agent-harnesses"}  # the client requests it when an agent runs it


def test_a_recipe_lets_nothing_out_but_hashes_and_proves_a_rebuild(medfaith, hub, chexpert, phantom_roots, tmp_path):
    status, out, err = medfaith("publish", chexpert, "--few-studies", "--org", hub.organisation)
    assert status == 0, err
    assert "published as recipe" in out
    files = hub.repositories["dataset", f"clinic/{CHEXPERT}"].files
    record = json.loads((chexpert / "build.json").read_text())
    configs = {key.split("/")[0] for key in record["splits"]}
    assert sorted(files) == [
        ".gitattributes", "README.md", "build.json", "croissant.json",
        *(f"manifest/{config}-00000-of-00001.parquet" for config in sorted(configs)),
    ]  # fmt: skip
    rows = datasets.load_dataset(f"clinic/{CHEXPERT}", "manifest")
    assert set(rows) == configs
    assert sum(map(len, rows.values())) == sum(split["rows"] for split in record["splits"].values())
    assert set(rows["chexpert_absence"][0]) == {"config", "split", "id", "sha256"}

    def against(name: str, **options: Any) -> tuple[int, str]:
        cxr_contrabench.build({"chexpert": phantom_roots["chexpert"]}, tmp_path / name, **options)
        return medfaith("verify", tmp_path / name, "--against", f"clinic/{CHEXPERT}")[:2]

    assert against("again", configs=sorted(configs))[0] == 0
    status, out = against("less", configs=["chexpert_presence"], seed=5)
    assert status == 4, out
    assert "chexpert_absence/validation: missing: " in out
    assert "seed: 5 here, 0 there" in out
    assert "chexpert_presence/train, chexpert_presence/validation: no block of studies has the same rows" in out

    task = "medfaith_contrabench_chexpert_presence"
    status, _, err = medfaith("eval", "--data", "clinic", "--model", "oracle", "--tasks", task)
    assert (status, "holds the recipe" in err) == (2, True)


def test_a_recipe_of_few_studies_is_refused(medfaith, hub, chexpert):
    status, _, err = medfaith("publish", chexpert, "--org", hub.organisation)
    assert status == 2
    assert "chexpert_presence/validation: has rows of 24 studies or images" in err, err
    assert "--few-studies" in err
    assert not hub.repositories


def edit_parquet(folder: Path) -> None:
    path = next(folder.glob("*/*.parquet"))
    table = pq.read_table(path)
    pq.write_table(table.set_column(5, "question", [["Which one?"] * len(table)]), path)


def edit_record(folder: Path) -> None:
    record = json.loads((folder / "build.json").read_text())
    next(iter(record["splits"].values()))["rows"] += 1
    (folder / "build.json").write_text(json.dumps(record))


@pytest.mark.parametrize(
    ("arguments", "token", "complaint"),
    [
        (["clinic"], "", "no token is known"),
        (["clinic"], "hf_unknown", "log in with a token that has access to it (write access to publish)"),
        (["clinic", "--dry-run"], "hf_unknown", "log in with a token"),
        (["elsewhere"], None, "does not belong to it"),
        (["elsewhere", "--dry-run"], None, "does not belong to it"),
        (["no/name"], None, "does not belong to it"),
    ],
)
def test_whoever_may_not_write_uploads_nothing(arguments, token, complaint, medfaith, hub):
    status, _, err = medfaith("publish-metrics", "--metric", "tpt", "--org", *arguments, token=token)
    assert (status, complaint in err) == (2, True), err
    assert not hub.repositories


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (edit_parquet, "is not what its build.json says"),
        (edit_record, "is not what its build.json says"),
        (lambda folder: (folder / "build.json").write_text("{}"), "build.json"),
    ],
)
def test_a_changed_build_is_refused_and_nothing_is_uploaded(change, complaint, medfaith, hub, openi, tmp_path):
    change(folder := shutil.copytree(openi[1], tmp_path / "data" / OPENI))
    status, _, err = medfaith("publish", folder, *openi[2:])
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


def test_a_dry_run_needs_no_network_and_no_token(openi, medfaith, hub, phantom_build):
    hub.stop()
    printed = {}
    for command, token in ((openi, ""), (METRIC, "hf_unknown")):
        status, out, err = medfaith(*command, "--dry-run", token=token)
        assert (status, err) == (0, "")
        assert "the Hub cannot be reached: what it holds was not compared" in out
        assert out.splitlines()[-1].endswith("the comparison with the Hub was not made; nothing was uploaded")
        assert "\n# " in out.split("the card of clinic/", 1)[1]
        assert medfaith(*command, token=token)[0] == 2  # an upload needs both
        printed[command[0]] = " ".join(out.split())
    assert "(dataset, published as rows)" in printed["publish"]
    for path in (phantom_build / OPENI).rglob("*.parquet"):
        assert f"{path.parent.name}/{path.name} {path.stat().st_size:,} not compared" in printed["publish"]


@pytest.mark.full  # two more publishes
def test_what_registers_a_benchmark_is_uploaded_when_asked_for_and_then_stays(openi, medfaith, hub):
    def published(*more: str) -> tuple[bytes | None, str]:
        status, out, err = medfaith(*openi, *more)
        assert status == 0, err
        return hub.repositories["dataset", f"clinic/{OPENI}"].files.get("eval.yaml"), out

    assert published()[0] is None
    written, _ = published("--register")
    rewritten, out = published()
    assert written == rewritten is not None
    assert "nothing to change" in out
