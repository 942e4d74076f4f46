"""HEAL-MedVQA in the report: hand-derived cells, real logs of lm-eval, broken logs, and a language-model extractor."""

from __future__ import annotations

import csv
import json
import math
import random
import threading
from collections.abc import Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import cohen_kappa_score, precision_recall_fscore_support

from medfaith.cli import main
from medfaith.evaluate_metrics.confidence.score import bootstrap_mean
from medfaith.evaluate_metrics.medvqa_f1.vocabulary import CLASSES
from medfaith.loaders.errors import InputError
from medfaith.tasks.report import read_results, write_report
from tests.tasks.report_logs import DATE, answered, rows_of, write_log

ACCURACY, TPT, VPT, RUNS, TWO = "HEAL Table 2", "HEAL Table 3", "HEAL Table 4", "HEAL runs", "HEAL open-ended labels"

Answer = tuple[dict[str, Any], str]


def question(number: Any, kind: str, *, config: str = "vindr", image: Any = None, **columns: Any) -> dict[str, Any]:
    """One row as a task's document."""
    opened = kind in ("abnormal", "normal")
    image = f"test/{number if image is None else image}.dicom"
    row = {
        "id": f"{config}/test/{number}/{kind}",
        "images": f"vindr_cxr:{image}",
        "image_id": image,
        "original_id": f"{config}/test/{number}/{kind}",
        "kind": kind,
        "question_type": "open" if opened else "closed",
        "question": "What is wrong with the heart?" if opened else "Does the heart show cardiomegaly?",
        "anatomy": "heart",
        "diseases": [] if kind == "normal" else ["Cardiomegaly"],
        "options": ["No abnormality", *CLASSES] if opened else ["Yes", "No"],
        "answer": 0 if kind in ("positive", "original", "normal") else 1,
        "negated": 0 if opened else 1,
        "n_rows_skipped": 0,
        "prompt": "b0",
    }
    return row | columns


def pair(number: int, said: str, partners: Mapping[str, str], **columns: Any) -> list[Answer]:
    """An original and its perturbed partners, by kind, with what the model says to each."""
    original = question(number, "original", **columns)
    changed = {"original_id": original["id"]}
    return [(original, said)] + [(question(number, k, **columns, **changed), t) for k, t in partners.items()]


def write_heal(folder: Path, ask: str, answers: Sequence[Answer], *, model: str = "m", **how: Any) -> Path:
    """The log of one task, and the results beside it."""
    config = answers[0][0]["id"].split("/")[0]
    lines = [
        json.dumps({"doc_id": i, "doc": doc, "resps": [[text]], "filtered_resps": [text], "filter": "none"})
        for i, (doc, text) in enumerate(answers)
    ]
    task = how.pop("task", f"medfaith_heal_{config}_{ask}")
    return write_log(folder, model, answers, task=task, lines=how.pop("lines", lines), **how)


UNREADABLE = "The picture is blurred."
CLOSED = [  # 2 true and 1 false positive, 2 missed, one of them unread
    *((question(i, "positive"), text) for i, text in enumerate(("Yes", "yes, it does", "No", UNREADABLE))),
    *((question(i, "hallucinated"), text) for i, text in enumerate(("Yes", "No", "no.", "No", "No", "No"))),
]
OPEN = [  # 2 true positives, 1 false one, 2 missed
    (question(0, "abnormal", diseases=["Edema"]), "Edema."),
    (question(1, "abnormal", diseases=["Edema", "ILD"]), "It shows ILD and cardiomegaly."),
    (question(2, "normal"), "No abnormality"),
    (question(3, "abnormal", diseases=["Edema"]), UNREADABLE),
]
TPT_PAIRS = [  # 3 true positives of 5; anatomy 2 of 3, disease 1 of 2; unread: an original and a partner
    *pair(0, "Yes", {"anatomy": "No", "disease": "No"}, image="a"),
    *pair(1, "Yes", {"anatomy": "Yes", "disease": UNREADABLE}, image="a"),
    *pair(2, "No", {"anatomy": "No", "disease": "No"}, image="b"),
    *pair(3, UNREADABLE, {"anatomy": "No", "disease": "No"}, image="c"),
    *pair(4, "Yes", {"anatomy": "No"}, image="d"),
]
VPT_PAIRS = [
    *pair(0, "Yes", {"region": "No"}),
    *pair(1, "Yes", {"region": "Yes"}),
    *pair(2, "No", {"region": "No"}),
]


def as_mimic(answers: Sequence[Answer]) -> list[Answer]:
    def renamed(doc: dict[str, Any]) -> dict[str, Any]:
        return doc | {name: doc[name].replace("vindr/", "mimic/") for name in ("id", "original_id")}

    return [(renamed(doc), text) for doc, text in answers]


def csv_rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_the_papers_tables(tmp_path):
    """Cells derived by hand from the answers above; a model that ran on one source only has the other undefined."""
    for ask, answers in (("closed", CLOSED), ("open", OPEN), ("tpt", TPT_PAIRS), ("vpt", VPT_PAIRS)):
        write_heal(tmp_path / "logs", ask, answers, n_data=12 if ask == "closed" else None)
    write_heal(tmp_path / "logs", "vpt", as_mimic(VPT_PAIRS[:2]))
    report = write_report([tmp_path / "logs"], tmp_path / "out")
    assert report.startswith("# HEAL-MedVQA results\n")
    assert "percentages" not in report

    (accuracy,) = rows_of(report, ACCURACY)
    assert accuracy[:9] == ["m"] + ["–"] * 8
    f1, precision, recall, unread, open_f1, open_precision, open_recall, open_unread = accuracy[9:]
    assert (f1[:5], precision, recall, unread) == ("0.571", "0.667", "0.500", "1 of 10")  # 4 / (4 + 1 + 2)
    assert (open_f1[:5], open_precision, open_recall, open_unread) == ("0.571", "0.667", "0.500", "1 of 4")

    (tpt,) = rows_of(report, TPT)
    assert tpt[:7] == ["m"] + ["–"] * 6
    interval = bootstrap_mean([1, 0, 1], groups=["a", "a", "d"])
    assert tpt[7:] == [
        f"0.667 [{interval.low:.3f}, {interval.high:.3f}]", "3", "0.500 [–, –]", "2", "3 of 5", "2",
    ]  # fmt: skip
    interval = bootstrap_mean([1, 0])
    ends = f"[{interval.low:.3f}, {interval.high:.3f}]"
    assert rows_of(report, VPT) == [
        ["m", "1.000 [–, –]", "1", "1 of 1", "0", f"0.500 {ends}", "2", "2 of 3", "0"],
    ]

    runs = [row[:6] for row in rows_of(report, RUNS)]
    assert runs == [
        ["m", "MIMIC", "VPT", "2", "0", "medfaith_heal_mimic_vpt"],
        ["m", "VinDr", "yes/no", "10 of 12", "0", "medfaith_heal_vindr_closed"],
        ["m", "VinDr", "open-ended", "4", "0", "medfaith_heal_vindr_open"],
        ["m", "VinDr", "TPT", "14", "0", "medfaith_heal_vindr_tpt"],
        ["m", "VinDr", "VPT", "6", "0", "medfaith_heal_vindr_vpt"],
    ]
    (saved,) = csv_rows(tmp_path / "out" / "heal_table_02_accuracy.csv")
    assert (saved["vindr_yes_no_f1"], saved["vindr_n_closed_unparsed"], saved["mimic_yes_no_f1"]) == (
        str(4 / 7),
        "1",
        "",
    )
    (saved,) = csv_rows(tmp_path / "out" / "heal_table_03_tpt.csv")
    assert (saved["vindr_tpt"], saved["vindr_tpt_anatomy"]) == ("0.6", str(2 / 3))
    assert write_report([tmp_path / "logs"], tmp_path / "out") == report, "its own files are replaced"


def test_accuracy_agrees_with_scikit_learn(tmp_path):
    rng = random.Random(0)
    closed = [(question(i, rng.choice(["positive", "hallucinated"])), rng.choice(["Yes", "No"])) for i in range(40)]
    opened, said = [], []
    for i in range(40):
        gold, named = rng.sample(CLASSES, rng.randrange(1, 4)), rng.sample(CLASSES, rng.randrange(1, 4))
        opened.append((question(i, "abnormal", diseases=gold), ", ".join(named)))
        said.append(named)
    write_heal(tmp_path, "closed", closed)
    write_heal(tmp_path, "open", opened)
    write_report([tmp_path], tmp_path / "out")
    (saved,) = csv_rows(tmp_path / "out" / "heal_table_02_accuracy.csv")
    gold = [doc["kind"] == "positive" for doc, _ in closed]
    yes = precision_recall_fscore_support(gold, [text == "Yes" for _, text in closed], average="binary")[:3]
    assert [float(saved[f"vindr_yes_no_{n}"]) for n in ("precision", "recall", "f1")] == pytest.approx(list(yes))
    matrices = [[[label in of_row for label in CLASSES] for of_row in side] for side in
                ([doc["diseases"] for doc, _ in opened], said)]  # fmt: skip
    micro = precision_recall_fscore_support(*map(np.array, matrices), average="micro")[:3]
    assert [float(saved[f"vindr_open_{n}"]) for n in ("precision", "recall", "f1")] == pytest.approx(list(micro))


def test_real_logs_agree_with_the_scores_that_lm_eval_computed(phantom_heal_build, phantom_heal_roots, tmp_path):
    """Reference models through lm-eval and its own writer of results; every figure that both have is the same."""
    import lm_eval
    from lm_eval.loggers import EvaluationTracker
    from lm_eval.tasks import TaskManager

    from medfaith.tasks import include_path, register_models

    register_models()
    evaluate: Any = lm_eval.simple_evaluate  # its decorator hides its signature from type checkers
    roots = {name: str(root) for name, root in phantom_heal_roots.items()}
    metadata = {"data": str(phantom_heal_build), "roots": roots}
    tasks = TaskManager(include_path=str(include_path()), include_defaults=False, metadata=metadata)
    results = {}
    for model in ("oracle", "always_yes", "negation_attracted", "random"):
        tracker = EvaluationTracker(output_path=str(tmp_path / "logs"))
        result = evaluate(
            model=model,
            tasks=["medfaith_heal_vindr", "medfaith_heal_mimic"],
            task_manager=tasks,
            evaluation_tracker=tracker,
            bootstrap_iters=0,
        )
        samples = result.pop("samples")
        tracker.save_results_aggregated(results=result, samples=samples)
        for task, of_task in samples.items():
            tracker.save_results_samples(task_name=task, samples=of_task)
        results[model] = result["results"]
    report = write_report([tmp_path / "logs"], tmp_path / "out")
    n_compared = 0
    for name, asks in (("02_accuracy", ("closed", "open")), ("03_tpt", ("tpt",)), ("04_vpt", ("vpt",))):
        saved = csv_rows(tmp_path / "out" / f"heal_table_{name}.csv")
        assert {row["model"] for row in saved} == set(results)
        for row in saved:
            for config in ("vindr", "mimic"):
                for ask in asks:
                    scores = results[row["model"]][f"medfaith_heal_{config}_{ask}"]
                    for key, value in scores.items():
                        cell = row.get(f"{config}_{key.removesuffix(',none')}")
                        if key.endswith(",none") and cell is not None:
                            assert (cell == "") == math.isnan(value), key
                            assert cell == "" or float(cell) == value, key
                            n_compared += 1
    assert n_compared >= 4 * 2 * (5 + 5 + 9 + 3)
    vpt = {row[0]: row for row in rows_of(report, VPT)}
    assert vpt["oracle"][1].startswith("1.000")
    assert vpt["always_yes"][1].startswith("0.000")
    assert vpt["negation_attracted"][1:3] == ["–", "0"]
    assert not [root for root in roots.values() if root in report]
    runs = read_results([tmp_path / "logs"]).heal
    assert len(runs) == 4 * 8


def test_both_benchmarks_give_both_groups_of_tables(tmp_path):
    write_log(tmp_path / "contrabench", "m", answered("chexpert_presence", 5, 1, 2))
    alone = write_report([tmp_path])
    assert alone.startswith("# CXR-ContraBench results\n")
    assert "HEAL" not in alone
    write_heal(tmp_path / "heal", "closed", CLOSED)
    report = write_report([tmp_path], tmp_path / "out")
    assert report.startswith("# CXR-ContraBench and HEAL-MedVQA results\n")
    assert report.split("\n\n", 2)[2].startswith(alone.split("\n\n", 2)[2].rstrip())
    assert rows_of(report, "Table 9")
    assert rows_of(report, ACCURACY) == rows_of(write_report([tmp_path / "heal"]), ACCURACY)
    assert {"runs.csv", "heal_runs.csv"} <= {path.name for path in (tmp_path / "out").iterdir()}
    assert max(map(len, report.split("\n\n")[1].splitlines())) <= 120


def test_the_newest_run_wins_and_the_order_of_lines_does_not_matter(tmp_path):
    newer = DATE.replace("2026", "2027")
    write_heal(tmp_path / "a", "vpt", VPT_PAIRS, date=newer)
    before = write_report([tmp_path])
    path = write_heal(tmp_path / "b", "vpt", VPT_PAIRS[:2], model_args={"pretrained": "m", "dtype": "x"})
    log = tmp_path / "a" / path.name.replace(DATE, newer)
    log.write_text("\n".join(reversed(log.read_text(encoding="utf-8").splitlines())), encoding="utf-8")
    report = write_report([tmp_path])
    assert report.startswith(before.rstrip())
    note = f"the run of {newer} counts, not that of {DATE}, whose model arguments differ"
    assert f"- m, medfaith_heal_vindr_vpt: {note}\n" in report


def test_models_prompts_and_splits_have_rows_of_their_own(tmp_path):
    write_heal(tmp_path / "b", "closed", CLOSED, model="B")
    write_heal(tmp_path / "a", "closed", CLOSED[:3], model="a", model_args={"pretrained": "a", "peft": "x"})
    write_heal(tmp_path / "c", "closed", [(doc | {"prompt": "cot"}, text) for doc, text in CLOSED], model="B")
    trained = [(doc | {"id": doc["id"].replace("test", "train")}, text) for doc, text in CLOSED]
    write_heal(tmp_path / "0", "closed", trained, model="B")
    assert [row[0] for row in rows_of(write_report([tmp_path]), ACCURACY)] == ["a + x", "B", "B (train)", "B (cot)"]


def test_rows_without_images_are_counted(tmp_path):
    write_heal(tmp_path, "closed", [(doc | {"n_rows_skipped": 3}, text) for doc, text in CLOSED])
    assert [row[3:5] for row in rows_of(write_report([tmp_path]), RUNS)] == [["10 of 13", "3"]]


@pytest.mark.parametrize(("task", "table"), [("medfaith_heal_vindr_tpt", TPT), ("medfaith_heal_vindr_vpt", VPT)])
def test_originals_alone_belong_to_the_test_that_their_task_names(tmp_path, task, table):
    """As under --limit 1: a true positive without a pair."""
    write_heal(tmp_path, "", VPT_PAIRS[:1], task=task)
    (row,) = rows_of(write_report([tmp_path]), table)
    assert row[-2:] == ["1 of 1", "0"]
    assert {"–", "0"} >= set(row[1:-2])


@pytest.mark.parametrize(
    ("answers", "found"),
    [(VPT_PAIRS[:1], "neither test"), (TPT_PAIRS + pair(9, "Yes", {"region": "No"}), "tpt and vpt")],
)
def test_a_log_of_no_one_perturbation_test_is_refused(tmp_path, answers, found):
    write_heal(tmp_path, "", answers, task="my_task")
    with pytest.raises(InputError, match=rf"samples_my_task.*its perturbed questions are of {found}"):
        write_report([tmp_path])


@pytest.mark.parametrize(("answers", "table"), [(TPT_PAIRS, TPT), (VPT_PAIRS, VPT)])
def test_a_task_may_have_another_name(tmp_path, answers, table):
    write_heal(tmp_path, "", answers, task="my_task")
    assert rows_of(write_report([tmp_path]), table)


@pytest.mark.parametrize("ask", ["closed", "open"])
def test_intervals_draw_images(tmp_path, ask):
    """F1 is the mean of two ones a true positive and a zero a false or missed one, here of images with several."""
    if ask == "closed":
        said = ["Yes", "No", "Yes", "Yes", "No", "Yes"]
        answers = [(question(i, "positive", image=i // 2), text) for i, text in enumerate(said)]
    else:
        said = ["Edema", "No abnormality", "Edema", "Edema", "No abnormality", "Edema"]
        answers = [
            (question(i, "abnormal", image=i // 2, diseases=["Edema"]), text) for i, text in enumerate(said)
        ]  # fmt: skip
    write_heal(tmp_path, ask, answers)
    (row,) = rows_of(write_report([tmp_path]), ACCURACY)
    interval = bootstrap_mean([1, 1, 0, 1, 1, 1, 1, 0, 1, 1], groups=[0, 0, 0, 1, 1, 1, 1, 2, 2, 2])
    expected = f"{interval.mean:.3f} [{interval.low:.3f}, {interval.high:.3f}]"
    assert row[9 if ask == "closed" else 13] == expected == f"0.800 {expected[6:]}"


BROKEN: dict[str, tuple[str, Mapping[str, Any], Any]] = {  # columns of the document, or a response; what is named
    "no text": ("filtered_resps", {}, [3]),
    "no response": ("cannot be read", {}, []),
    "another source": ("doc.id", {"id": "padchest/test/1"}, None),
    "no id": ("cannot be read", {"id": None}, None),
    "no image": ("doc.image_id", {"image_id": 7}, None),
    "another kind": ("doc.kind", {"kind": "odd"}, None),
    "another type": ("doc.question_type", {"question_type": "open"}, None),
    "another answer": ("doc.answer", {"options": ["Maybe", "No"]}, None),
    "no such answer": ("doc.answer", {"answer": -1}, None),
    "a foreign original": ("doc.original_id", {"kind": "original", "original_id": "x"}, None),
    "an unknown disease": (
        "doc.diseases", {"kind": "abnormal", "question_type": "open", "diseases": ["Gout"]}, None,
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_line_is_named(tmp_path, case):
    words, columns, responses = BROKEN[case]
    path = write_heal(tmp_path, "closed", CLOSED)
    lines = path.read_text(encoding="utf-8").splitlines()
    sample = json.loads(lines[1])
    sample["doc"] |= columns
    lines[1] = json.dumps(sample if responses is None else sample | {"filtered_resps": responses})
    path.write_text("\n".join(lines), encoding="utf-8")
    with pytest.raises(InputError) as error:
        write_report([tmp_path], tmp_path / "out")
    assert str(error.value).startswith(f"{path}, row 2")
    assert words in str(error.value)
    assert not (tmp_path / "out").exists()


def test_a_question_that_stands_twice_or_is_missing(tmp_path, capsys):
    path = write_heal(tmp_path, "closed", CLOSED)
    lines = path.read_text(encoding="utf-8").splitlines()
    path.write_text("\n".join([*lines, lines[0]]), encoding="utf-8")
    with pytest.raises(InputError, match="stands twice"):
        write_report([tmp_path])
    path.write_text("\n".join(lines[:9]), encoding="utf-8")
    assert main(["report", str(tmp_path)]) == 2
    assert "has 9 questions" in capsys.readouterr().err


# The language-model extractor ---------------------------------------------------------------------------------------

LABELS = {  # what the model behind the server reads in each of the answers of OPEN
    "Edema.": ["Edema"],
    "It shows ILD and cardiomegaly.": ["ILD"],
    "No abnormality": [],
    UNREADABLE: ["Edema"],
}


@contextmanager
def server(*, fails_from: int | None = None, status: int = 404):
    """Speaks chat completions on 127.0.0.1, from one request on with an error only; yields its URL and the requests."""
    requests: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self._send(404, {"error": "no such page"})

        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            text = body["messages"][-1]["content"].removeprefix("Answer: ").removesuffix("\nReply:")
            requests.append({"key": self.headers.get("Authorization"), "model": body["model"], "text": text})
            if fails_from is not None and len(requests) >= fails_from:
                return self._send(status, {"error": {"message": f"the model {body['model']} does not exist"}})
            message = {"role": "assistant", "content": json.dumps(LABELS[text])}
            self._send(200, {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]})

        def _send(self, code: int, content: Any):
            sent = json.dumps(content).encode()
            self.send_response(code)
            self.send_header("Content-Length", str(len(sent)))
            self.end_headers()
            self.wfile.write(sent)

        def log_message(self, format, *args):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        thread = threading.Thread(target=http.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{http.server_address[1]}/v1", requests
        finally:
            http.shutdown()
            thread.join()


@pytest.fixture(autouse=True)
def without_keys(monkeypatch):
    for name in ("OPENAI_API_KEY", "MEDFAITH_EXTRACTOR_KEY"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def logs(tmp_path) -> Path:
    write_heal(tmp_path / "logs", "open", OPEN)
    return tmp_path / "logs"


def test_open_answers_are_read_a_second_time(logs, tmp_path, capsys):
    write_heal(logs / "two", "open", as_mimic(OPEN[:1]), model="n")
    with server() as (url, requests):
        arguments = ["report", str(logs), "--extractor-url", url, "--extractor-model", "llama"]
        assert main([*arguments, "--out", str(tmp_path / "out")]) == 0
    report = capsys.readouterr().out
    first, second = rows_of(report, TWO)
    assert first[:3] == ["m", "VinDr", "4"]
    # By words 2 true positives, 1 false, 2 missed; by the model Edema, ILD, nothing, Edema: 3, 0, 1.
    assert (first[3][:5], *first[4:7]) == ("0.571", "0.667", "0.500", "1 of 4")
    assert (first[7][:5], *first[8:11]) == ("0.857", "1.000", "0.750", "0 of 4")
    words = [{"Edema"}, {"ILD", "Cardiomegaly"}, set(), set()]
    matrices = [[label in named for named in side for label in CLASSES] for side in (words, map(set, LABELS.values()))]
    assert first[11:] == ["0.500", "0.500", f"{cohen_kappa_score(*matrices):.3f}"]  # 2 of 4 equal; 2 of 4 labels shared
    assert second[:3] == ["n", "MIMIC", "1"]
    assert second[11:] == ["1.000", "1.000", "1.000"]
    assert "read by llama" in report
    assert {(request["model"], request["key"]) for request in requests} == {("llama", None)}
    assert sorted(request["text"] for request in requests) == sorted(LABELS), "equal answers are asked once"
    (saved, _) = csv_rows(tmp_path / "out" / "heal_extractors.csv")
    assert (saved["words_open_f1"], saved["model_open_recall"]) == (str(4 / 7), "0.75")
    # What stands without an extractor is as it was, and such a folder is replaced.
    assert main(["report", str(logs), "--out", str(tmp_path / "out")]) == 0
    assert report.startswith(capsys.readouterr().out.rstrip())
    assert not (tmp_path / "out" / "heal_extractors.csv").exists()


@pytest.mark.parametrize(
    ("variables", "key"),
    [
        ({"OPENAI_API_KEY": "a"}, "Bearer a"),
        ({"OPENAI_API_KEY": "a", "MEDFAITH_EXTRACTOR_KEY": "b"}, "Bearer b"),
    ],
)
def test_the_key_comes_from_the_environment(logs, monkeypatch, capsys, variables, key):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with server() as (url, requests):
        assert main(["report", str(logs), "--extractor-url", url, "--extractor-model", "llama"]) == 0
    assert {request["key"] for request in requests} == {key}
    captured = capsys.readouterr()
    assert key not in captured.out + captured.err


def test_an_interrupted_run_goes_on_where_it_was(logs, tmp_path, capsys):
    cache = tmp_path / "replies.sqlite"
    arguments = ["report", str(logs), "--extractor-model", "llama", "--extractor-cache", str(cache)]
    arguments += ["--out", str(tmp_path / "out"), "--extractor-url"]
    with server(fails_from=3) as (url, requests):
        assert main([*arguments, url]) == 2
    assert len(requests) == 3
    assert "--extractor-cache" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
    with server() as (url, requests):
        assert main([*arguments, url]) == 0
        assert len(requests) == 2
    report = capsys.readouterr().out
    assert main([*arguments, url]) == 0, "all replies are there: the server, now down, is not needed"
    assert capsys.readouterr().out == report


def test_no_server_and_a_wrong_model_exit_with_2(logs, capsys):
    with server() as (url, _):
        pass
    assert main(["report", str(logs), "--extractor-url", url, "--extractor-model", "llama"]) == 2
    error = capsys.readouterr().err
    assert "medfaith: extractor llama: " in error
    assert "what to do: check --extractor-url" in error
    with server(fails_from=1) as (url, _):
        assert main(["report", str(logs), "--extractor-url", url, "--extractor-model", "lama"]) == 2
    error = capsys.readouterr().err
    assert "status 404" in error
    assert "the model lama does not exist" in error
    assert "Traceback" not in error


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--extractor-url", "http://127.0.0.1:1/v1"], "--extractor-url names no language model"),
        (["--extractor-cache", "replies"], "--extractor-cache names no language model"),
        (["--extractor-model", "m", "--extractor-url", "127.0.0.1:1/v1"], "check --extractor-url"),
        (["--extractor-model", "no/such-model"], "give --extractor-model a chat model's folder or name"),
        (
            ["--extractor-model", "m", "--extractor-cache", "no/such/folder/replies"],
            "give --extractor-cache another name",
        ),
        (["--extractor-model", "m", "--extractor-cache", __file__], "give --extractor-cache another name"),
    ],
)
def test_options_that_cannot_work_exit_with_2(logs, capsys, options, words):
    assert main(["report", str(logs), *options]) == 2
    captured = capsys.readouterr()
    assert words in captured.err
    assert captured.out == ""


def test_a_key_that_no_header_takes(logs, monkeypatch, capsys):
    monkeypatch.setenv("OPENAI_API_KEY", "“key”")
    with server() as (url, requests):
        assert main(["report", str(logs), "--extractor-url", url, "--extractor-model", "llama"]) == 2
    assert requests == []
    assert "and the key" in capsys.readouterr().err


def test_without_open_answers_nothing_is_asked(tmp_path, capsys):
    write_heal(tmp_path, "closed", CLOSED)
    with server() as (url, requests):
        assert main(["report", str(tmp_path), "--extractor-url", url, "--extractor-model", "llama"]) == 0
    report = capsys.readouterr().out
    assert requests == []
    assert "the extractor llama was not asked" in report
    assert TWO not in report


def test_a_local_model_reads(logs, tmp_path, capsys):
    """Random weights write no list, so every answer is unreadable to it."""
    from tests.evaluate_metrics.test_llm_extractor import save_tiny_llama

    folder = save_tiny_llama(tmp_path / "llama")
    assert main(["report", str(logs), "--extractor-model", str(folder)]) == 0
    (row,) = rows_of(capsys.readouterr().out, TWO)
    assert row[10:12] == ["4 of 4", "0.500"]  # without labels both: the normal region and the blurred picture
