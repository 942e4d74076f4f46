"""What the report reads, writes and refuses: any order of files, saved files, broken logs, and real logs of lm-eval."""

from __future__ import annotations

import csv
import json
import math
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medfaith.loaders.errors import InputError
from medfaith.report.contrabench_runs import pooled
from medfaith.report.write import read_results, write_report
from tests.report.report_logs import DATE, answered, question, rows_of, sample_lines, write_log


def naive(path: Path, after: str) -> dict[str, float]:
    """The figures of one log by plain counting, without arrays and metrics."""
    base, verified = {}, {}
    for line in path.read_text(encoding="utf-8").splitlines():
        sample = json.loads(line)
        read = json.loads(sample["filtered_resps"][0])
        if sample["filter"] == "b0":
            base[sample["doc"]["id"]] = (sample["doc"], read["choice"], read["outcome"])
        if sample["filter"] == after:
            verified[sample["doc"]["id"]] = read["choice"]
    counts = Counter()
    for key, (doc, choice, outcome) in base.items():
        counts["right"] += choice == doc["answer"]
        counts["right after"] += verified[key] == doc["answer"]
        counts["errors"] += choice == doc["negated"]
        counts["errors after"] += verified[key] == doc["negated"]
        counts["unread"] += outcome != "parsed"
    return {"n": len(base), **counts}


TEXTS = ("A", "B", "C", "no idea", "B. No edema", "A or B", "D")


@settings(max_examples=30, deadline=None)
@given(
    presence=st.lists(st.sampled_from(TEXTS), min_size=1, max_size=12),
    absence=st.lists(st.sampled_from(TEXTS), min_size=1, max_size=12),
    seed=st.integers(0, 2**16),
)
def test_order_of_lines_and_files_does_not_matter(tmp_path_factory, presence, absence, seed):
    folder = tmp_path_factory.mktemp("order")
    rng = random.Random(seed)
    reports, paths = [], []
    for shuffled in (False, True):
        for protocol, texts in (("chexpert_presence", presence), ("chexpert_absence", absence)):
            answers = [(question(protocol, i), text) for i, text in enumerate(texts)]
            lines = sample_lines(answers)
            if shuffled:
                rng.shuffle(lines)
            paths.append(write_log(folder / str(shuffled), "m", answers, lines=lines))
    for chosen in (paths[:2], [*reversed(paths[2:]), paths[3]], [folder / "True"]):
        reports.append(write_report(chosen))
    assert reports[0] == reports[1] == reports[2]
    # The same figures by plain counting.
    (row,) = rows_of(reports[0], "Table 9")
    for path, cells in zip(paths[2:], (row[2:7], row[7:12]), strict=True):
        counts = naive(path, "m1")
        base, verified = counts["right"] / counts["n"], counts["right after"] / counts["n"]
        assert cells == [
            f"{100 * base:.2f}",
            f"{100 * verified:.2f}",
            f"{100 * (verified - base):+.2f}",
            f"{counts['errors']} → {counts['errors after']}",
            f"{100 * counts['unread'] / counts['n']:.2f}",
        ]


def test_pooled_runs_keep_every_question(tmp_path):
    """Three seeded slices together: the questions of each, with their own words, in the order of the runs."""
    for name, options in (("s1", ["A1", "No a", "X"]), ("s2", ["A2", "No a", "X"]), ("s3", ["A3", "No a", "X"])):
        answers = answered("rexvqa_10k_" + name, 3, 1, 1, question=name)
        write_log(tmp_path, "m", [({**row, "options": options}, text[:1]) for row, text in answers], n_data=4)
    runs = read_results([tmp_path]).runs
    whole = pooled(runs)
    assert (whole.n, whole.n_data, whole.scores()["n_correct"]) == (9, 12, 3)
    words = [whole.wordings[i] for i in whole.wording]
    assert [(question, options[0]) for question, options in words] == [
        (f"s{i}", f"A{i}") for i in (1, 2, 3) for _ in range(3)
    ]


def small_logs(folder: Path) -> None:
    """Two models on five questions each; one of them with an unreadable answer, a limit, and no verifier."""
    write_log(folder / "a", "model-a", answered("chexpert_presence", 5, 1, 2, unread=1), date="2026-01-01T00-00-01")
    limited = answered("chexpert_absence", 3, 1, 1)
    write_log(folder / "b", "model-b", limited, date="2026-01-01T00-00-02", n_data=5, filters=("b0",))


def test_golden(tmp_path):
    small_logs(tmp_path)
    golden = Path(__file__).with_name("report_golden.md")
    assert write_report([tmp_path]) == golden.read_text(encoding="utf-8")


def test_saved_files(tmp_path):
    """report.md is what is returned; a CSV a table, unrounded; an earlier report is replaced as a whole."""
    small_logs(tmp_path / "logs")
    out = tmp_path / "out"
    assert write_report([tmp_path / "logs"], out) == (out / "report.md").read_text(encoding="utf-8")
    with (out / "table_09_matrix.csv").open(encoding="utf-8", newline="") as file:
        first, second = csv.DictReader(file)
    assert float(first["chexpert_presence_base_accuracy"]) == 0.2
    assert float(first["chexpert_presence_delta"]) == pytest.approx(0.4)
    assert (first["chexpert_absence_n"], second["chexpert_absence_verified_accuracy"]) == ("", "")
    assert (second["chexpert_absence_n"], second["chexpert_absence_n_data"]) == ("3", "5")
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
    with pytest.raises(InputError, match="No space left") as error:
        write_report([tmp_path / "logs"], out)
    assert "free some space" in str(error.value)
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
    with pytest.raises(InputError, match="something else than a report"):
        write_report([tmp_path / "logs"], out)
    assert (out / name).read_text() == "mine"


def edit(line: str, **changes) -> str:
    """A sample line with other values: `doc__answer=9` changes the document's answer."""
    sample = json.loads(line)
    for key, value in changes.items():
        place, _, inner = key.partition("__")
        target = sample[place] if inner else sample
        name = inner or place
        if value is None:
            del target[name]
        else:
            target[name] = value
    return json.dumps(sample)


READING = {"choice": 1, "before": 1, "outcome": "parsed", "verifier": "fired"}
BROKEN_LINES = {
    "cut off": (lambda lines: [*lines[:-1], lines[-1][:100]], "row 20: not a whole line of JSON"),
    "not JSON": (lambda lines: [*lines[:2], "oops", *lines[3:]], "row 3: not a whole line of JSON"),
    "too deep": (lambda lines: [*lines[:2], "[" * 100_000, *lines[3:]], "row 3: not a whole line of JSON"),
    "not UTF-8": (lambda lines: [*lines[:2], "\udcff", *lines[3:]], "row 3: not a whole line of JSON"),
    "a list": (lambda lines: [*lines[:2], "[1]", *lines[3:]], "row 3: cannot be read"),
    "twice": (lambda lines: [*lines, lines[0]], "row 21, column 'doc.id': chexpert/"),
    "no id": (lambda lines: [edit(lines[0], doc__id=None), *lines[1:]], "row 1: cannot be read (KeyError: 'id'"),
    "id is a number": (lambda lines: [edit(lines[0], doc__id=7), *lines[1:]], "row 1: cannot be read"),
    "no filter": (lambda lines: [edit(lines[0], filter=None), *lines[1:]], "row 1: cannot be read (KeyError: 'filter'"),
    "answer": (lambda lines: [edit(lines[0], doc__answer=3), *lines[1:]], "column 'doc.answer': 3 is no index"),
    "negated": (lambda lines: [edit(lines[0], doc__negated="1"), *lines[1:]], "column 'doc.negated': '1' is no index"),
    "options": (lambda lines: [edit(lines[0], doc__options=[1, 2, 3]), *lines[1:]], "column 'doc.options'"),
    "finding": (lambda lines: [edit(lines[0], doc__finding=4), *lines[1:]], "column 'doc.finding': 4 is not a text"),
    "no reading": (lambda lines: [edit(lines[0], filtered_resps=[]), *lines[1:]], "row 1: cannot be read (IndexError"),
    "plain text": (lambda lines: [edit(lines[0], filtered_resps=["B"]), *lines[1:]], "column 'filtered_resps'"),
    "choice": (
        lambda lines: [edit(lines[0], filtered_resps=[json.dumps({**READING, "choice": 3})]), *lines[1:]],
        "column 'filtered_resps': 3 is no index into the 3 options",
    ),
    "a filter ends early": (lambda lines: lines[:-1], "the filter 'm1_extended' has 4 of 5 questions"),
    "lines are lost": (lambda lines: [x for x in lines if "patient00004" not in x], "has 4 questions"),
    "empty": (lambda lines: [], "is empty"),
}  # fmt: skip


@pytest.mark.parametrize("case", BROKEN_LINES)
def test_a_broken_log_is_an_error_that_names_the_line(tmp_path, case):
    breaks, words = BROKEN_LINES[case]
    answers = answered("chexpert_presence", 5, 1, 2)
    path = write_log(tmp_path, "m", answers)
    lines = breaks(sample_lines(answers))
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", errors="surrogateescape")
    with pytest.raises(InputError) as error:
        write_report([tmp_path], tmp_path / "out")
    assert words in str(error.value)
    assert path.name in str(error.value)
    assert "what to do" in str(error.value)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("results", "words"),
    [
        (None, "its results file is missing"),
        ("{", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("[]", "holds a list"),
        ("{}", "names no model"),
        ('{"config": {"model_args": 3}}', "names no model"),
    ],
)
def test_broken_results(tmp_path, results, words):
    write_log(tmp_path, "m", answered("chexpert_presence", 5, 1, 2))
    path = tmp_path / f"results_{DATE}.json"
    path.unlink() if results is None else path.write_text(results)
    with pytest.raises(InputError, match=words):
        write_report([tmp_path])


@pytest.mark.parametrize(
    ("name", "words"),
    [("nothing", "no such file"), ("empty", "no sample log"), ("other.json", "not the name of a file that lm-eval")],
)
def test_paths_without_results(tmp_path, name, words):
    (tmp_path / "empty").mkdir()
    (tmp_path / "other.json").write_text("{}")
    with pytest.raises(InputError, match=words):
        write_report([tmp_path / name])


def test_results_without_samples(tmp_path):
    """Alone they are an error; beside others a note."""
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "results_2026-01-01T00-00-00.json").write_text("{}")
    with pytest.raises(InputError, match="--log_samples"):
        write_report([tmp_path])
    write_log(tmp_path / "y", "m", answered("chexpert_presence", 5, 1, 2))
    assert "- results_2026-01-01T00-00-00.json has no samples beside it" in write_report([tmp_path])


def test_foreign_tasks(tmp_path):
    """Other tasks' logs are counted and left out; nothing but them is an error."""
    foreign = json.dumps({"doc": {"question": "2 + 2?"}, "filter": "strict", "filtered_resps": ["4"]})
    scored = edit(
        sample_lines(answered("chexpert_presence", 5, 1, 2))[0], filter="none", filtered_resps=[["-1", "True"]]
    )
    for task, line in (("gsm8k", foreign), ("option_scores", scored)):
        write_log(tmp_path, "m", answered("chexpert_presence", 5, 1, 2), task=task, lines=[line])
    with pytest.raises(InputError, match="none of its 2 sample logs is of a CXR-ContraBench task"):
        write_report([tmp_path])
    write_log(tmp_path, "m", answered("chexpert_presence", 5, 1, 2))
    assert "- 2 sample logs of other tasks are left out: gsm8k, option_scores" in write_report([tmp_path])


def test_the_newest_run_wins(tmp_path):
    """Whatever the folder, and although the older one is larger; the same file given twice is one run."""
    old = answered("chexpert_presence", 10, 1, 2)
    new = answered("chexpert_presence", 10, 7, 2)[:8]
    write_log(
        tmp_path / "z", "m", old, date="2026-01-01T10-00-00.5", model_args={"pretrained": "m", "dtype": "float16"}
    )
    path = write_log(tmp_path / "a", "m", new, date="2026-01-01T10-00-01", n_data=10)
    report = write_report([tmp_path, path, tmp_path])
    (row,) = rows_of(report, "Table 9")
    assert row[2:4] == ["8 of 10", "87.50"]
    note = "the run of 2026-01-01T10-00-01 counts, not that of 2026-01-01T10-00-00.5, whose model arguments differ"
    assert note in report


@pytest.mark.parametrize(
    ("config", "name"),
    [
        ({"model": "oracle", "model_args": {}}, "oracle"),
        ({"model": "oracle", "model_args": ""}, "oracle"),
        ({"model": "hf-multimodal", "model_args": {"pretrained": "org/a", "dtype": "auto"}}, "org/a"),
        ({"model": "hf-multimodal", "model_args": "dtype=auto,pretrained=org/a,max_images=2"}, "org/a"),
        ({"model": "local-chat-completions", "model_args": {"model": "gpt-4o", "base_url": "x"}}, "gpt-4o"),
        ({"model": "hf", "model_args": {"pretrained": "org/a", "peft": "org/lora"}}, "org/a + org/lora"),
    ],
)
def test_model_names(tmp_path, config, name):
    write_log(tmp_path, "m", answered("chexpert_presence", 5, 1, 2))
    path = tmp_path / f"results_{DATE}.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "config": config}))
    assert [row[0] for row in rows_of(write_report([tmp_path]), "Table 9")] == [name]


def test_skipped_rows_and_old_logs_without_a_prompt(tmp_path):
    answers = answered("chexpert_presence", 5, 1, 2, prompt=None, n_rows_skipped=2)
    write_log(tmp_path, "m", answers)
    (row,) = rows_of(write_report([tmp_path]), "Runs")
    assert row[1:3] + row[4:6] == ["B0", "CheXpert direct presence", "5 of 7", "2"]


def test_output_path_that_is_a_file_name(tmp_path):
    """With --output_path X.json the results are X_<date>.json."""
    path = write_log(tmp_path, "m", answered("chexpert_presence", 5, 1, 2))
    (tmp_path / f"results_{DATE}.json").rename(tmp_path / f"X_{DATE}.json")
    assert write_report([path]) == write_report([tmp_path / f"X_{DATE}.json"]) == write_report([tmp_path])


def test_real_logs_agree_with_the_scores_that_lm_eval_computed(phantom_build, phantom_roots, tmp_path):
    """Reference models through lm-eval and its own writer of results; the report's figures beside lm-eval's."""
    import lm_eval
    from lm_eval.loggers import EvaluationTracker
    from lm_eval.tasks import TaskManager

    from medfaith.tasks import include_path, register_models

    register_models()
    evaluate: Any = lm_eval.simple_evaluate  # its decorator hides its signature from type checkers
    metadata = {"data": str(phantom_build), "roots": {name: str(root) for name, root in phantom_roots.items()}}
    tasks = TaskManager(include_path=str(include_path()), include_defaults=False, metadata=metadata)
    results = {}
    for model in ("negation_attracted", "random"):
        tracker = EvaluationTracker(output_path=str(tmp_path))
        result = evaluate(
            model=model,
            tasks=["medfaith_contrabench"],
            task_manager=tasks,
            evaluation_tracker=tracker,
            bootstrap_iters=0,
        )
        samples = result.pop("samples")
        tracker.save_results_aggregated(results=result, samples=samples)
        for task, of_task in samples.items():
            tracker.save_results_samples(task_name=task, samples=of_task)
        results[model] = result["results"]
    report = write_report([tmp_path])
    for row in rows_of(report, "Table 9"):
        for i, protocol in enumerate(("chexpert_presence", "chexpert_absence", "openi_report_absence")):
            scores = results[row[0]][f"medfaith_contrabench_{protocol}"]
            count = "n_reversals" if protocol == "chexpert_presence" else "n_contradictions"
            accuracies = [f"{100 * scores[f'accuracy,{name}']:.2f}" for name in ("b0", "m1")]
            errors = f"{scores[f'{count},b0']} → {scores[f'{count},m1']}"
            unread = f"{100 * scores['parse_failure_rate,b0']:.2f}"
            base, verified, _, *rest = row[2 + 5 * i : 7 + 5 * i]
            assert [base, verified, *rest] == [*accuracies, errors, unread]
    rows = {row[0]: row for row in rows_of(report, "Table 16")}
    assert rows["negation_attracted"][4:7] == ["0.00", "100.00", "+100.00"]
    runs, scored, heal, surgx, wrong_lung, notes = read_results([tmp_path])
    assert (len(runs), scored, heal, surgx, wrong_lung, notes) == (8, [], [], [], [], [])
    for run in runs:
        scores = results[run.model][run.source.task]
        assert math.isclose(run.scores()["accuracy"], scores["accuracy,b0"])
        assert math.isclose(run.scores("m1_extended")["accuracy_verified"], scores["accuracy,m1_extended"])
