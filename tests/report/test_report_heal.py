"""HEAL-MedVQA in the report: hand-derived cells, real logs of lm-eval, and broken logs."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import precision_recall_fscore_support

from medfaith.cli import main
from medfaith.evaluate_metrics.confidence.score import bootstrap_mean
from medfaith.evaluate_metrics.reading.disease_names import CLASSES
from medfaith.loaders.errors import InputError
from medfaith.report.write import read_results, write_report
from tests.report.heal_logs import CLOSED, OPEN, TPT_PAIRS, VPT_PAIRS, as_mimic, csv_rows, pair, question, write_heal
from tests.report.report_logs import DATE, answered, rows_of, write_log

ACCURACY, TPT, VPT, RUNS, TWO = "HEAL Table 2", "HEAL Table 3", "HEAL Table 4", "HEAL runs", "HEAL open-ended labels"


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
