"""Inputs and outputs of the report: order of files and lines, newest runs, and saved files."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from medfaith.loaders.errors import InputError
from medfaith.reporting.contrabench.cases import read_cases
from medfaith.reporting.contrabench.runs import Run, pooled
from medfaith.reporting.results import read_results
from medfaith.reporting.write import make_report
from tests.support.reporting.heal_logs import CLOSED, VPT_PAIRS, write_heal
from tests.support.reporting.report_logs import (
    DATE,
    answered,
    change_lines,
    rows_of,
    select_runs,
    write_log,
    write_report,
)
from tests.support.reporting.surgx_logs import FRAMES, write_surgx
from tests.support.reporting.wrong_lung_logs import TASK, original, write_wrong_lung

pytestmark = pytest.mark.usefixtures("tables_only")

SENTENCES = [original(n, f"p{n}", auroc=(n + 1) / 8) for n in range(4)]
CHEXPERT = answered("chexpert_presence", 5, 1, 2)
# By benchmark: a log of the first n of its questions; its table of runs, how many there are, and where n and the
# skipped rows stand there.
WRITE: dict[str, Callable[..., Path]] = {
    "CXR-ContraBench": lambda folder, n=5, **options: write_log(folder, "m", CHEXPERT[:n], **options),
    "HEAL-MedVQA": lambda folder, n=6, **options: write_heal(folder, "vpt", VPT_PAIRS[:n], **options),
    "SurgXBench": lambda folder, n=4, **options: write_surgx(folder, FRAMES[:n], **options),
    "That's the Wrong Lung!": lambda folder, n=4, **options: write_wrong_lung(folder, "gold", SENTENCES[:n], **options),
}
RUNS = {
    "CXR-ContraBench": ("Runs", 5, 5, 6), "HEAL-MedVQA": ("HEAL runs", 6, 3, 4), "SurgXBench": ("SurgX runs", 4, 3, 5),
    "That's the Wrong Lung!": ("Wrong Lung runs", 4, 2, 4),
}  # fmt: skip


def test_pooled_runs_keep_every_question(tmp_path):
    """Three seeded slices are pooled; each keeps its questions and wordings, in the order of the runs."""
    for name, options in (("s1", ["A1", "No a", "X"]), ("s2", ["A2", "No a", "X"]), ("s3", ["A3", "No a", "X"])):
        answers = answered("rexvqa_10k_" + name, 3, 1, 1, question=name)
        write_log(tmp_path, "m", [({**row, "options": options}, text[:1]) for row, text in answers], n_data=4)
    pooled_run = pooled(select_runs(read_results([tmp_path]), Run))
    assert (pooled_run.n, pooled_run.n_data, pooled_run.scores()["n_correct"]) == (9, 12, 3)
    wording_pairs = [pooled_run.wordings[i] for i in pooled_run.wording]
    assert [(question, options[0]) for question, options in wording_pairs] == [
        (f"s{i}", f"A{i}") for i in (1, 2, 3) for _ in range(3)
    ]


def small_logs(folder: Path) -> None:
    """Two models on five questions each; one has an unread answer, a limit and no verifier."""
    write_log(folder / "a", "model-a", answered("chexpert_presence", 5, 1, 2, unread=1), date="2026-01-01T00-00-01")
    limited = answered("chexpert_absence", 3, 1, 1)
    write_log(folder / "b", "model-b", limited, date="2026-01-01T00-00-02", n_data=5, filters=("b0",))


def test_the_page_says_where_a_verifier_changed_an_answer(tmp_path):
    write_log(tmp_path, "m", answered("chexpert_presence", 5, 1, 2, drift=1, unread=1))
    (run,) = select_runs(read_results([tmp_path]), Run)
    read = [(reading.read, reading.ended, reading.outcome) for _, reading in read_cases(run)]
    assert read == [
        ("A. Edema", "", "right"), ("B. No edema", "A. Edema (fired)", "wrong"),
        ("C. No edema", "B. Edema (fired)", "wrong"), ("", "", "unread"), ("C. Fracture", "", "wrong"),
    ]  # fmt: skip


def test_saved_files(tmp_path):
    """report.md equals the returned text; an earlier report is replaced; no CSV file has a column twice."""
    small_logs(tmp_path / "logs")
    out = tmp_path / "out"
    assert write_report([tmp_path / "logs"], out) == (out / "report.md").read_text(encoding="utf-8")
    (out / "table_21_old.csv").write_text("old")
    before = {path.name for path in out.iterdir()}
    write_report([tmp_path / "logs"], out)
    assert {path.name for path in out.iterdir()} == before - {"table_21_old.csv"}
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []
    for path in out.glob("*.csv"):
        header = path.read_text(encoding="utf-8").splitlines()[0].split(",")
        assert len(set(header)) == len(header), path.name


def test_a_failed_save_leaves_the_old_report(tmp_path, monkeypatch):
    small_logs(tmp_path / "logs")
    out = tmp_path / "out"
    report = write_report([tmp_path / "logs"], out)
    write = Path.write_bytes

    def full(path, content):
        if path.name == "runs.csv":
            raise OSError(28, "No space left on device")
        return write(path, content)

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(InputError, match=r"No space left(.|\n)*free some space"):
        write_report([tmp_path / "logs"], out)
    assert (out / "report.md").read_text(encoding="utf-8") == report
    assert sorted(path.name for path in tmp_path.iterdir()) == ["logs", "out"]


@pytest.mark.parametrize("name", ["notes.txt", "report.md", "results_2026-01-01T00-00-01.json"])
def test_a_folder_with_other_files_is_left_alone(tmp_path, name):
    small_logs(tmp_path / "logs")
    out = tmp_path / "out"
    out.mkdir()
    (out / name).write_text("mine")
    (out / "table_09_mine.csv").write_text("mine")
    if name == "report.md":
        (out / "sub").mkdir()
    with pytest.raises(InputError, match="files other than a report"):
        write_report([tmp_path / "logs"], out)
    assert (out / name).read_text() == "mine"


def test_results_without_samples(tmp_path):
    """Results without samples are an error on their own, and a note if the folder has further runs."""
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "results_2026-01-01T00-00-00.json").write_text("{}")
    with pytest.raises(InputError, match="--log_samples"):
        write_report([tmp_path])
    write_log(tmp_path / "y", "m", CHEXPERT)
    assert "- results_2026-01-01T00-00-00.json has no samples next to it" in write_report([tmp_path])


def test_foreign_tasks(tmp_path):
    """Logs of foreign tasks are counted and left out; a folder with only such logs is an error."""
    path = write_log(tmp_path, "m", CHEXPERT[:1], task="gsm8k", filters=("b0",))
    change_lines(path, lambda _: [json.dumps({"doc": {"question": "2 + 2?"}, "filter": "x", "filtered_resps": ["4"]})])
    path = write_log(tmp_path, "m", CHEXPERT[:1], task="option_scores", filters=("b0",))
    change_lines(path, lambda lines: [lines[0].replace('"filter": "b0"', '"filter": "none"')])
    with pytest.raises(
        InputError, match=r"none of its 2 sample logs is of CXR-ContraBench, HEAL-MedVQA, SurgXBench, .* or"
    ):
        write_report([tmp_path])
    write_log(tmp_path, "m", CHEXPERT)
    assert "- 2 sample logs of other tasks are left out: gsm8k, option_scores" in write_report([tmp_path])


@pytest.mark.parametrize("benchmark", WRITE)
def test_the_newest_run_counts_whatever_the_order_of_its_lines(tmp_path, benchmark):
    newer = DATE.replace("2026", "2027")
    log = WRITE[benchmark](tmp_path / "a", date=newer)
    before = write_report([tmp_path])
    path = WRITE[benchmark](tmp_path / "b", 2, model_args={"pretrained": "m", "dtype": "x"})
    change_lines(log, lambda lines: lines[::-1])
    report = write_report([tmp_path, path, tmp_path])  # the same file given twice is one run
    assert report.split("\n## Notes")[0].rstrip() == before.split("\n## Notes")[0].rstrip()
    assert f"the run of {newer} counts, not that of {DATE}, whose model arguments differ" in report


@pytest.mark.parametrize("benchmark", WRITE)
def test_rows_without_images_and_a_limit_are_counted(tmp_path, benchmark):
    title, n_asked, n, skipped = RUNS[benchmark]

    def skip(lines: list[str]) -> list[str]:
        samples = list(map(json.loads, lines))
        return [json.dumps(sample | {"doc": sample["doc"] | {"n_rows_skipped": 3}}) for sample in samples]

    change_lines(WRITE[benchmark](tmp_path, n_data=9), skip)
    (row,) = rows_of(write_report([tmp_path]), title)
    assert (row[n], row[skipped]) == (f"{n_asked} of 12", "3")


@pytest.mark.full  # golden files have such a report
def test_benchmarks_side_by_side(tmp_path):
    """Each benchmark has its own tables, which do not depend on the other benchmarks."""
    paths = [write(tmp_path / "all") for write in WRITE.values()]
    reports = {benchmark: write_report([path]) for benchmark, path in zip(WRITE, paths, strict=True)}
    assert [text.split("\n")[0] for text in reports.values()] == [f"# Results: {benchmark}" for benchmark in WRITE]
    report = write_report([tmp_path / "all"], tmp_path / "out")
    reordered = write_report(paths[::-1], tmp_path / "out")
    assert reordered == report, "the order of files does not matter, and a report's own files are replaced"
    assert report.startswith("# Results: CXR-ContraBench, HEAL-MedVQA, SurgXBench and That's the Wrong Lung!\n")
    assert max(map(len, report.split("\n\n")[1].splitlines())) <= 120
    for text in reports.values():
        sections = text.split("\n## Notes")[0].split("\n## ")[1:]
        assert sections
        assert [section for section in sections if section.strip() not in report] == []
    assert [len(runs) for runs in read_results([tmp_path / "all"]).runs.values()] == [1, 1, 1, 1, 0]


def test_models_prompts_splits_and_arguments_have_rows_of_their_own(tmp_path):
    """Arguments that change the answers are part of the model's name; for the other arguments the newest run counts."""
    gloria = {"pretrained": "gloria:x.ckpt"}
    for day, arguments in enumerate(({"attention": "code"}, {"attention": "code", "device": "cpu"}, {"tau": 2}), 1):
        rows, date = [original(0, "p1", auroc=day / 10)], f"2026-01-0{day}T00-00-00"
        write_wrong_lung(tmp_path / f"lung{day}", "gold", rows, model_args=gloria | arguments, date=date)
    surgical = ({}, {"explainer": "rollout_last", "store": "x"}, {"peft": "p"})
    for number, arguments in enumerate(surgical):
        write_surgx(tmp_path / f"surgx{number}", FRAMES, model_args={"pretrained": "m"} | arguments)
    write_surgx(tmp_path / "prompt", [(doc | {"prompt": "other"}, row) for doc, row in FRAMES])
    write_heal(tmp_path / "b", "closed", CLOSED, model="B")
    write_heal(tmp_path / "a", "closed", CLOSED[:3], model_args={"pretrained": "a", "peft": "x"})
    write_heal(tmp_path / "c", "closed", [(doc | {"prompt": "cot"}, text) for doc, text in CLOSED], model="B")
    trained = [(doc | {"id": doc["id"].replace("test", "train")}, text) for doc, text in CLOSED]
    write_heal(tmp_path / "0", "closed", trained, model="B")
    write_heal(tmp_path / "1", "closed", [(doc | {"prompt": "cot"}, text) for doc, text in trained], model="B")
    report = write_report([tmp_path])
    names = ["a + x", "B", "B (train)", "B (cot)", "B (cot, train)"]
    assert [row[0] for row in rows_of(report, "HEAL Table 2")] == names
    assert [row[0] for row in rows_of(report, "SurgX runs")] == [
        "m", "m (other)", "m (explainer=rollout_last)", "m + p",
    ]  # fmt: skip
    assert [row[:2] for row in rows_of(report, "Wrong Lung Tables 1 and 3")] == [
        ["gloria:x.ckpt (attention=code)", "20.00 [–, –]"], ["gloria:x.ckpt (tau=2)", "30.00 [–, –]"],
    ]  # fmt: skip
    assert f"gloria:x.ckpt, {TASK}gold: the run of 2026-01-02T00-00-00 counts" in report


@pytest.mark.parametrize(
    ("config", "name"),
    [
        ({"model": "oracle", "model_args": {}}, "oracle"),
        ({"model": "oracle", "model_args": ""}, "oracle"),
        ({"model": "hf-multimodal", "model_args": {"pretrained": "org/a", "dtype": "auto"}}, "org/a"),
        ({"model": "hf-multimodal", "model_args": "dtype=auto,pretrained=org/a,max_images=2"}, "org/a"),
        ({"model": "local-chat-completions", "model_args": {"model": "gpt-4o", "base_url": "x"}}, "gpt-4o"),
        ({"model": "hf", "model_args": {"pretrained": "org/a", "peft": "org/lora"}}, "org/a + org/lora"),
        ({"model": "hf", "model_args": {"pretrained": "/home/me/models/a", "peft": "./runs/lora/"}}, "a + lora"),
        ({"model": "medfaith-alignment", "model_args": {"pretrained": "gloria:~/x.ckpt"}}, "gloria:x.ckpt"),
    ],
)
def test_model_names(tmp_path, config, name):
    write_log(tmp_path, "m", CHEXPERT)
    path = tmp_path / f"results_{DATE}.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "config": config}))
    assert [row[0] for row in rows_of(write_report([tmp_path]), "Table 9")] == [name]


def test_paths_that_end_alike_stay_apart_and_a_given_name_counts(tmp_path):
    for run in ("one", "two"):
        write_log(tmp_path / run, f"/home/me/{run}/checkpoint", CHEXPERT)
    assert [row[0] for row in rows_of(write_report([tmp_path]), "Table 9")] == ["one/checkpoint", "two/checkpoint"]
    path = tmp_path / "one" / f"results_{DATE}.json"
    content = json.loads(path.read_text())
    configs = {task: {"metadata": {"model_name": "Ours"}} for task in content["n-samples"]}
    path.write_text(json.dumps(content | {"configs": configs}))
    assert [row[0] for row in rows_of(write_report([tmp_path]), "Table 9")] == ["checkpoint", "Ours"]


def test_old_logs_without_a_prompt_and_an_output_path_that_is_a_file_name(tmp_path):
    """With --output_path X.json the results are X_<date>.json."""
    path = write_log(tmp_path, "m", answered("chexpert_presence", 5, 1, 2, prompt=None))
    (tmp_path / f"results_{DATE}.json").rename(tmp_path / f"X_{DATE}.json")
    report = write_report([path])
    assert write_report([tmp_path / f"X_{DATE}.json"]) == write_report([tmp_path]) == report
    assert rows_of(report, "Runs")[0][1:3] == ["B0", "CheXpert direct presence"]


@pytest.mark.parametrize("with_rows", [False, True])
@pytest.mark.parametrize(
    "content",
    [b"null", b"[]", b"{}", b'"text"', b"plain text", b"NaN", b'{"doc": null}', b'{"doc": {}}', b"\xff\xfe{\x00}\x00"],
)
def test_a_damaged_log_is_not_taken_for_a_log_of_another_task(content, with_rows, tmp_path):
    """An intact log of another task of ours lies beside it."""
    write_log(tmp_path, "m", CHEXPERT)
    damaged = write_log(tmp_path, "m", answered("chexpert_absence", 2, 1, 0))
    damaged.write_bytes(content + b"\n")
    rows = tmp_path / "rows.csv"
    rows.write_text(f"id\n{CHEXPERT[0][0]['id']}\n")
    if with_rows and content == b'{"doc": {}}':
        return  # it may be a log without a row that is named
    with pytest.raises(InputError, match=damaged.name):
        write_report([tmp_path], rows=rows if with_rows else None)


def test_the_current_folder_is_refused_before_the_logs_are_read(tmp_path, monkeypatch):
    write_log(tmp_path / "logs", "m", CHEXPERT)
    monkeypatch.setattr("medfaith.reporting.write.read_results", None)  # reading would be an error
    (tmp_path / "out" / "below").mkdir(parents=True)
    for here in ("out", "out/below"):
        monkeypatch.chdir(tmp_path / here)
        with pytest.raises(InputError, match="would be replaced, and this command runs in it"):
            make_report([tmp_path / "logs"], tmp_path / "out")
