"""Logs of Inspect: `report`, `compare` and `audit --answers` give what they give for the same answers of lm-eval."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from inspect_ai import eval as run
from inspect_ai._util.error import PrerequisiteError
from inspect_ai.log import EvalLog, read_eval_log, write_eval_log
from inspect_ai.model import get_model

from medfaith.auditing import audit as auditing
from medfaith.auditing import edit_detection
from medfaith.cli import main
from medfaith.inspect_tasks import audit, lm_eval
from medfaith.loaders.errors import InputError
from medfaith.logs.inspect_logs import converted_logs
from medfaith.tasks.harnesses.inspect_subtasks import AUDIT
from tests.support.builders.files import root_words
from tests.support.tasks.evaluating import load
from tests.support.tasks.server_scene import answer_by_messages, serving
from tests.support.tiers import choose_size

pytestmark = pytest.mark.usefixtures("tables_alone")

CONTROLS = choose_size(
    ["none", "occluded"],
    ["none", "blank", "noise", "other", "other_same", "occluded", "occluded_elsewhere", "cropped"],
)
LIMIT = 2
CLOSED = "medfaith_heal_vindr_closed"


def ask(task: Any, scene: SimpleNamespace, folder: Path, **options: Any) -> EvalLog:
    """Let Inspect ask the server, and return the log."""
    model = get_model("openai-api/local/m", base_url=scene.url, api_key="none")
    (log,) = run(
        task, model=model, log_dir=str(folder), display="log", score_display=False, log_images=False, **options
    )
    assert log.status == "success", log.error
    return log


@pytest.fixture(scope="module")
def scene(phantom_heal_build, phantom_heal_roots, tmp_path_factory):
    """The server, and the words and arguments that name rows of HEAL-MedVQA; the audits ask those of one source."""
    tasks = load([f"medfaith_heal_mimic_{kind}" for kind in ("closed", "open")], phantom_heal_build, phantom_heal_roots)
    ids = [row_id for task in tasks["tasks"].values() for row_id in task.test_docs().with_format(None)["id"]]
    (rows := tmp_path_factory.mktemp("rows") / "rows.csv").write_text("\n".join(["id", *ids]))
    with serving(answer_by_messages) as served:
        served.rows = str(rows)
        served.words = ["--data", str(phantom_heal_build), *root_words(phantom_heal_roots)]
        served.where = {
            "data": str(phantom_heal_build),
            "roots": {source: str(path) for source, path in phantom_heal_roots.items()},
        }
        served.model = ["--model", "medfaith-server", "--model_args", f"base_url={served.url},model=m"]
        yield served


@pytest.fixture(scope="module")
def audit_log(scene, tmp_path_factory) -> Path:
    """The log of an audit under all kinds of controls."""
    task = audit(**scene.where, controls=CONTROLS, wordings=1, limit=LIMIT, rows=scene.rows)
    return Path(ask(task, scene, tmp_path_factory.mktemp("audit-log")).location)


@pytest.fixture(scope="module")
def closed_log(scene, tmp_path_factory) -> Path:
    """The log of one task."""
    task = lm_eval(CLOSED, **scene.where)
    return Path(ask(task, scene, tmp_path_factory.mktemp("closed-log"), limit=12).location)


def read_tables(folder: Path) -> dict[str, str]:
    """Read all tables and the rows of an audit or a report, without the names of the models and the dates."""
    files = [*folder.glob("*.csv"), *folder.glob("*.md")]
    own = r"openai-api__local__m|openai-api/local/m|(?<=,)\d{4}-\d\d-\d\dT[-.\d]+"
    return {file.name: re.sub(own, "m", file.read_text()) for file in files}


def list_conditions(folder: Path) -> set[str]:
    """List the tasks and conditions that were asked: "medfaith_heal_vindr_closed/none"."""
    return {path.relative_to(folder / "logs").as_posix() for path in (folder / "logs").glob("*/*")}


def test_an_audit_by_inspect_has_the_tables_of_lm_evals(scene, audit_log, tmp_path, capsys):
    arguments = ["--controls", *CONTROLS, "--wordings", "1", "--limit", str(LIMIT), "--rows", scene.rows]
    assert main(["audit", *scene.words, *scene.model, *arguments, "--out", str(tmp_path / "lm-eval")]) == 0
    capsys.readouterr()
    assert main(["audit", "--answers", str(audit_log), "--out", str(tmp_path / "inspect")]) == 0
    assert "report.html" in capsys.readouterr().out
    expected, tables = read_tables(tmp_path / "lm-eval"), read_tables(tmp_path / "inspect")
    assert set(tables) == set(expected)
    assert {"audit.csv", "rows.csv", "audit.md"} <= set(tables)
    assert tables == expected
    asked = list_conditions(tmp_path / "inspect")
    assert asked == list_conditions(tmp_path / "lm-eval")
    assert {condition.rpartition("/")[2] for condition in asked} == {"image", "wording_1", *CONTROLS}
    log = read_eval_log(str(audit_log), header_only=True)
    assert log.results
    (score,) = log.results.scores
    assert {name.rpartition("/")[0] for name in score.metrics} == {name.removesuffix("/image") for name in asked}
    assert main(["report", str(tmp_path / "inspect")]) == 0  # a finished audit like any other
    assert main(["audit", "--answers", str(audit_log), "--out", str(tmp_path / "inspect")]) == 0  # and judged again


@pytest.mark.full  # two more runs; test_harness_inspect.py compares figures
@pytest.mark.usefixtures("png_only")
def test_report_and_compare_read_a_log_like_lm_evals(scene, closed_log, tmp_path, capsys):
    out = tmp_path / "lm-eval"
    options = ["--tasks", CLOSED, "--limit", "12", "--output_path", str(out), "--log_samples"]
    assert main(["eval", *scene.words, *scene.model, *options]) == 0
    for name, results in (("a", out), ("b", closed_log), ("c", closed_log.parent)):
        page = tmp_path / f"{name}.html"
        assert main(["report", str(results), "--out", str(tmp_path / name), "--html", str(page)]) == 0
        assert "Is there any evidence" in page.read_text(encoding="utf-8")
    expected, *others = (read_tables(tmp_path / name) for name in "abc")
    del expected["report.md"]
    for tables in others:
        assert {name: text for name, text in tables.items() if name != "report.md"} == expected
    capsys.readouterr()
    assert main(["compare", str(out), str(closed_log)]) == 0
    assert re.search(r"accuracy +12 .* \+0\.00 ", capsys.readouterr().out)


@pytest.mark.full
def test_a_thorough_audit_by_inspect_has_the_tables_of_lm_evals(scene, tmp_path):
    """It asks under every kind of edit, in every dose, and under the harmless changes."""
    log = ask(audit(**scene.where, thorough=True, limit=LIMIT, rows=scene.rows), scene, tmp_path / "log").location
    arguments = ["--thorough", "--limit", str(LIMIT), "--rows", scene.rows]
    assert main(["audit", *scene.words, *scene.model, *arguments, "--out", str(tmp_path / "lm-eval")]) == 0
    assert main(["audit", "--answers", log, *scene.words, "--out", str(tmp_path / "inspect")]) == 0
    asked = list_conditions(tmp_path / "inspect")
    assert asked == list_conditions(tmp_path / "lm-eval")
    names = {condition.rpartition("/")[2] for condition in asked}
    assert names == {"image", *auditing.THOROUGH} - {"flipped"}  # which these rows do not support
    assert read_tables(tmp_path / "inspect") == read_tables(tmp_path / "lm-eval")


@pytest.mark.full
def test_edits_are_detected_as_in_an_audit_by_lm_eval(scene, tmp_path, monkeypatch, capsys):
    """The log needs the data and the images for that; the controls are some of --thorough."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(auditing, "THOROUGH", ("none", "other", "occluded", "occluded_elsewhere"))
    ids = load([CLOSED], scene.where["data"], scene.where["roots"])["tasks"][CLOSED].test_docs().with_format(None)["id"]
    (rows := tmp_path / "rows.csv").write_text("\n".join(["id", *ids[: edit_detection.FEWEST_ROWS + 4]]))
    log = ask(audit(**scene.where, thorough=True, rows=str(rows)), scene, tmp_path / "log").location
    assert main(["audit", *scene.words, *scene.model, "--thorough", "--rows", str(rows), "--out", "lm-eval"]) == 0
    judge = ["audit", "--answers", log, "--out"]
    assert "is not measured" not in capsys.readouterr().out
    assert main([*judge, "without"]) == 0
    assert "The detection of edits is not measured" in capsys.readouterr().out
    assert main([*judge, "inspect", *scene.words]) == 0
    assert "is not measured" not in capsys.readouterr().out
    expected, tables, without = (read_tables(Path(name)) for name in ("lm-eval", "inspect", "without"))
    assert tables == expected
    assert without != expected
    name = "audit_heal_medvqa_detection.json"
    detection = json.loads(Path("inspect", name).read_text())
    assert detection == json.loads(Path("lm-eval", name).read_text())
    assert [*detection["detection"]] == ["occluded", "occluded_elsewhere"]
    assert all(0.5 < of_edit["auroc"] < 1 for of_edit in detection["detection"].values())
    changed = read_eval_log(log)
    cast(Any, changed.eval.metadata)[AUDIT]["tasks"][0]["digest"] = "of another build"
    write_eval_log(changed, "changed.eval")
    assert main(["audit", "--answers", "changed.eval", "--out", "other", *scene.words]) == 2
    assert "has other rows than the log" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda log: log.samples.pop(), "has answers to 11 of 12 questions"),
        # Inspect adds the name of the package where it has found it.
        (lambda log: log.eval.metadata.clear() or setattr(log.eval, "task", "lm_eval"), "is a log of the task lm_eval"),
    ],
    ids=["incomplete", "of another task"],
)
def test_a_log_that_is_not_ours_or_not_complete_is_refused(change, message, closed_log, tmp_path, capsys):
    log = read_eval_log(str(closed_log))
    change(log)
    path = tmp_path / "2026-01-01T00-00-00_changed.json"
    write_eval_log(log, str(path))
    assert main(["report", str(path)]) == 2
    assert message in capsys.readouterr().err
    other = tmp_path / closed_log.name
    other.write_bytes(closed_log.read_bytes())
    assert main(["report", str(tmp_path)]) == 0  # the folder has a complete one, too
    assert message in capsys.readouterr().err


def test_no_log_of_inspect_is_a_message(closed_log, tmp_path, capsys):
    (broken := tmp_path / "x.eval").write_bytes(b"PK")
    for words, message in (
        (["report", str(broken)], "x.eval: cannot be read"),
        (
            ["audit", "--answers", str(closed_log), "--out", str(tmp_path / "out")],
            "a log of inspect eval medfaith/audit",
        ),
        (["audit", "--answers", str(closed_log), "--limit", "3", "--out", str(tmp_path)], "--limit: --answers"),
        (["audit", "--answers", str(closed_log), "--root", "a=b", "--out", str(tmp_path)], "--root: --answers"),
    ):
        assert main(words) == 2
        assert message in capsys.readouterr().err


def test_an_audit_of_heatmaps_is_refused_by_name(scene):
    with pytest.raises(PrerequisiteError, match="task 'medfaith_wrong_lung_gold': scores heatmaps"):
        audit(**scene.where, benchmarks="wrong-lung")


def test_the_log_of_an_audit_that_detects_no_edits_needs_no_data(audit_log, scene, tmp_path, capsys):
    assert main(["audit", "--answers", str(audit_log), *scene.words, "--out", str(tmp_path / "out")]) == 2
    assert "was not thorough" in capsys.readouterr().err


def test_an_audit_of_the_first_questions_only_is_refused(audit_log, tmp_path, capsys):
    log = read_eval_log(str(audit_log))
    assert log.samples
    del log.samples[3:]
    log.eval.dataset.sample_ids = [str(sample.id) for sample in log.samples]
    path = tmp_path / "limited.eval"
    write_eval_log(log, str(path))
    assert main(["audit", "--answers", str(path), "--out", str(tmp_path / "out")]) == 2
    assert "asked 3 of " in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_compare_reads_a_log_and_its_warnings(closed_log, capsys):
    assert main(["compare", str(closed_log), str(closed_log.parent)]) == 0
    printed = capsys.readouterr().out
    assert re.search(r"accuracy +12 .* \+0\.00 ", printed)
    assert "medfaith read" in printed  # the warning of unread answers


def test_undefined_values_survive_a_log(closed_log, tmp_path):
    """A log of Inspect is JSON, and so is a sample log: NaN stays NaN in both."""
    log = read_eval_log(str(closed_log))
    for sample in log.samples or []:
        sample.metadata["readings"]["none"]["values"]["yes_no_f1"]["dice"] = float("nan")
    for suffix in ("eval", "json"):
        path = tmp_path / f"nan.{suffix}"
        write_eval_log(log, str(path))
        with converted_logs([path]) as (folder,):
            (samples,) = folder.rglob("samples_*.jsonl")
            assert len(set(_read_ids(samples))) == 12
            assert samples.read_text(encoding="utf-8").count('"dice": NaN') == 12
        assert not folder.exists()


def test_a_folder_with_logs_of_lm_eval_and_inspect_is_refused(tmp_path):
    for name in ("2026-01-01T00-00-00+00-00_task_abc.eval", "results_2026-01-01T00-00-00.000000.json"):
        (tmp_path / name).touch()
    with (
        pytest.raises(InputError, match=f"{tmp_path}: holds logs of lm-eval and of Inspect(.|\n)*one by one"),
        converted_logs([tmp_path]),
    ):
        pass


def _read_ids(samples: Path) -> Sequence[str]:
    return [json.loads(line)["doc"]["id"] for line in samples.read_text(encoding="utf-8").splitlines()]
