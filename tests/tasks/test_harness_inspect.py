"""Run our tasks through Inspect's `eval` and registry with listed answers, and compare the figures with lm-eval's."""

from __future__ import annotations

import base64
import functools
import io
import itertools
import math
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from inspect_ai import eval as run
from inspect_ai import score
from inspect_ai._util.error import PrerequisiteError
from inspect_ai.log import EvalLog, read_eval_log
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from PIL import Image

from medfaith.logs.inspect_logs import converted_logs
from medfaith.tasks.contrabench import prompts
from medfaith.tasks.harnesses import questions
from medfaith.tasks.harnesses.inspect_score import answers
from medfaith.tasks.harnesses.inspect_subtasks import Subtask, build_content
from medfaith.tasks.harnesses.inspect_task import cxr_contrabench, heal_medvqa, lm_eval
from medfaith.tasks.heal import adapter
from tests.support.tasks.evaluating import ANSWERS, by_filter, read_metrics, results_of
from tests.support.tiers import keep_quick

pytestmark = pytest.mark.usefixtures("tables_alone")

PRESENCE, LIMIT = "medfaith_contrabench_chexpert_presence", 18
CLOSED, OPEN, VPT = (f"medfaith_heal_vindr_{ask}" for ask in ("closed", "open", "vpt"))
CASES = [
    pytest.param(CLOSED, None, marks=pytest.mark.full),
    (VPT, None),
    pytest.param(PRESENCE, None, marks=pytest.mark.full),
    pytest.param(PRESENCE, "m1", marks=pytest.mark.full),
]  # for the others see test_harness_lmms_eval.py


def make_output(text: str) -> ModelOutput:
    output = ModelOutput.from_content("mockllm", text)
    output.usage = ModelUsage()  # counting tokens would need the network
    return output


@pytest.fixture(scope="module")
def arguments(places):
    def make(name: str, **options: Any) -> dict[str, Any]:
        data, roots = places(name)
        return {"name": name, "data": str(data), "roots": {key: str(path) for key, path in roots.items()}, **options}

    return make


def run_task(arguments: dict[str, Any], outputs: Any, folder: Path, limit: int, **options: Any) -> EvalLog:
    """Run a task through Inspect, one row at a time, and return its log.

    Args:
        arguments: Arguments of the Inspect task.
        outputs: Answers of the mock model, or a function that answers.
        folder: Log folder.
        limit: Number of rows.
        **options: Further options of Inspect's `eval`.
    """
    options = {"display": "log", "score_display": False, "log_images": False, "max_samples": 1} | options
    model = get_model("mockllm/model", custom_outputs=outputs)
    (log,) = run(lm_eval(**arguments), model=model, limit=limit, log_dir=str(folder), **options)
    return log


@pytest.fixture(scope="module")
def evaluated(arguments, tmp_path_factory):
    """Inspect's log of a task; the model gives `ANSWERS` in turn."""

    @functools.cache
    def evaluate(name: str, filter: str | None = None) -> EvalLog:
        outputs = (make_output(text) for text in itertools.cycle(ANSWERS))
        log = run_task(arguments(name, filter=filter), outputs, tmp_path_factory.mktemp("logs"), LIMIT)
        assert log.status == "success", log.error
        return log

    return evaluate


@pytest.mark.parametrize(("name", "filter"), CASES)
def test_the_figures_are_lm_evals(name, filter, evaluated, places):
    """The log on disk, after a round trip through JSON, has every figure and interval to the last bit."""
    scores = read_metrics(read_eval_log(evaluated(name, filter).location))
    expected = by_filter(name, *places(name), limit=LIMIT)[filter or ("none" if "heal" in name else "b0")]
    expected |= {"n_images_missing": 0}  # the model of `by_filter` opens no image, so that the number is unknown
    assert set(scores) == set(expected)
    assert len(scores) > 5
    assert all(a == b or (math.isnan(a) and math.isnan(b)) for a, b in ((scores[m], expected[m]) for m in expected))


@pytest.mark.parametrize(
    ("name", "metric"),
    [
        (PRESENCE, "accuracy"),
        pytest.param(CLOSED, "yes_no_accuracy", marks=pytest.mark.full),
        pytest.param(OPEN, "open_exact_match", marks=pytest.mark.full),
    ],
)
def test_a_samples_value_says_whether_it_is_right(name, metric, evaluated):
    log = evaluated(name)
    values = Counter(sample.scores["answers"].value for sample in log.samples)
    assert values["C"] / LIMIT == read_metrics(log)[metric]
    assert values["C"] > 0
    assert values["C"] + values["I"] == LIMIT


def test_of_a_pair_yes_is_right_first_and_no_after_the_change(evaluated):
    for sample in evaluated(VPT).samples:
        word = "yes" if sample.metadata["doc"]["kind"] == "original" else "no"
        right = sample.output.completion.casefold().startswith(word)
        assert sample.scores["answers"].value == ("C" if right else "I")


@pytest.mark.parametrize("name", keep_quick([PRESENCE, VPT], lambda name: name == VPT))
def test_the_model_gets_the_images_then_the_prompt(name, arguments, tmp_path):
    """VPT sends the edited images."""
    requests = []

    def answer(messages, tools, tool_choice, config):
        requests.append((messages[-1].content, config.max_tokens, config.temperature, config.stop_seqs))
        return make_output("A")

    task_arguments = arguments(name)
    run_task(task_arguments, answer, tmp_path, 4, log_images=True)
    task = questions.load_one(name, task_arguments["data"], task_arguments["roots"])
    assert len(requests) == 4
    for (content, *options), doc in zip(requests, task.test_docs(), strict=False):
        *pictures, text = content
        assert options == [256 if "heal" in name else 64, 0.0, None]
        expected = task.doc_to_text(doc) if "heal" in name else prompts.b0(doc)
        assert text.text.strip() == expected.replace("<image>", "").strip()
        doc_images = list(doc["images"])
        assert len(doc_images) == len(pictures)
        for picture, image in zip(pictures, doc_images, strict=True):
            sent = Image.open(io.BytesIO(base64.b64decode(picture.image.removeprefix("data:image/png;base64,"))))
            assert sent.tobytes() == image.tobytes()


def test_images_stay_where_a_prompt_has_them(arguments):
    """Three-shot prompts need this: their exemplars have their own images."""
    task = questions.load_one(*list(arguments(PRESENCE).values())[:3])
    row = next(row for row, doc in enumerate(task.test_docs()) if len(doc["images"]) == 2)
    task.config.doc_to_text = lambda doc: "First:\n<image>\nSecond:<image>"
    content: Any = build_content(Subtask(task), row)
    items = [item.text if item.type == "text" else item.type for item in content]
    assert items == ["First:\n", "image", "\nSecond:", "image"]


def test_a_log_without_images_holds_no_pixels_and_no_root_in_a_sample(evaluated, arguments):
    for name in (PRESENCE, VPT):
        log = read_eval_log(evaluated(name).location)
        text = "".join(sample.model_dump_json() for sample in log.samples or [])
        assert "data:image" not in text
        assert "donor_region" not in text
        assert not any(root in text for root in arguments(name)["roots"].values())


def test_a_row_is_asked_once(arguments, tmp_path):
    """lm-eval's figures use one answer per row."""
    log = run_task(arguments(PRESENCE), (make_output("A") for _ in itertools.count()), tmp_path, 1, epochs=2)
    assert log.status == "error"
    assert "--epochs" in str(log.error and log.error.message)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"filter": "m3"}, "one of b0, m1"),
        ({"name": "nothing"}, "medfaith tasks --list"),
        ({"roots": None}, "pass -T roots=chexpert=PATH"),
        ({"roots": "chexpert"}, "-T roots=chexpert: expected SOURCE=PATH"),
    ],
)
def test_what_is_wrong_stops_before_the_first_sample(options, message, arguments):
    """Inspect's command prints this error without a traceback; the message names Inspect's options."""
    with pytest.raises(PrerequisiteError, match=message):
        lm_eval(**{**arguments(PRESENCE), **options})


@pytest.mark.full  # the next test has the messages
def test_the_command_prints_the_message_and_no_traceback(arguments, tmp_path):
    """In a fresh process, which finds the task by its entry point."""
    code = "import sys; from inspect_ai._cli.main import main; sys.argv[0] = 'inspect'; main()"
    roots = f"roots=chexpert={tmp_path / 'nowhere'}"
    task_options = ["-T", f"name={PRESENCE}", "-T", f"data={arguments(PRESENCE)['data']}", "-T", roots]
    command = [sys.executable, "-c", code, "eval", "medfaith/lm_eval", *task_options, "--model", "mockllm/model"]
    environment = os.environ | {"COLUMNS": "1000"}  # rich wraps its output
    result = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path, env=environment)
    text = result.stdout + result.stderr
    assert result.returncode == 1
    assert "Traceback" not in text
    assert text.count("medfaith: ") == 1
    assert "nowhere" in text
    assert "--root" not in text


@pytest.mark.parametrize("action", ["append", "overwrite"])
def test_a_log_is_scored_again_by_another_filter(action, evaluated, places):
    """Only the log is read, neither rows nor images."""
    log = read_eval_log(evaluated(PRESENCE).location)
    results = score(log, answers(filter="m1"), action=action, display="log").results
    assert results
    scores = [
        {name: metric.value for name, metric in scorer_result.metrics.items()} for scorer_result in results.scores
    ]
    expected = {
        filter_name: figures | {"n_images_missing": 0}
        for filter_name, figures in by_filter(PRESENCE, *places(PRESENCE), limit=LIMIT).items()
    }
    readings = [reading for reading in ("b0", "m1") if reading == "m1" or action == "append"]
    assert scores == [pytest.approx(expected[reading], rel=0, nan_ok=True) for reading in readings]
    assert expected["b0"] != expected["m1"]


def test_a_filter_that_the_task_has_not_scores_no_log(evaluated):
    with pytest.raises(PrerequisiteError, match="one of b0, m1"):
        score(read_eval_log(evaluated(PRESENCE).location), answers(filter="m3"), display="log")


def test_the_task_takes_arguments_as_a_command_gives_them(arguments, tmp_path):
    task_arguments = arguments("medfaith_contrabench_original::chexpert_absence")
    task_arguments["roots"] = f"chexpert={task_arguments['roots']['chexpert']}"
    log = run_task(task_arguments, [make_output("B"), make_output("B")], tmp_path, 2)
    assert log.status == "success"
    assert read_metrics(log)["contradiction_rate"] == 1


def test_the_reader_is_told_of_a_cut_answer(arguments, tmp_path, monkeypatch):
    cuts = []
    read_yes_no = adapter.read_yes_no
    monkeypatch.setattr(
        adapter, "read_yes_no", lambda *args, cut=False: cuts.append(cut) or read_yes_no(*args, cut=cut)
    )
    outputs = [make_output("Yes"), make_output("Yes")]
    outputs[1].choices[0].stop_reason = "max_tokens"
    log = run_task(arguments(CLOSED), iter(outputs), tmp_path, 2)
    assert log.status == "success", log.error
    assert cuts == [False, True]


def test_a_score_says_how_its_answer_was_read(evaluated, arguments, tmp_path):
    """An empty, a cut and a filtered answer have the outcomes of medfaith-server; a filtered text is not scored."""
    outputs = [make_output(text) for text in ("Yes.", "I cannot tell from this image.", "", "Yes", "Yes")]
    outputs[3].choices[0].stop_reason = "content_filter"
    outputs[4].choices[0].stop_reason = "max_tokens"
    log = run_task(arguments(CLOSED), iter(outputs), tmp_path, 5)
    read: Any = [(sample.scores or {})["answers"].metadata for sample in log.samples or []]  # in the order of the ids
    assert sorted((score["outcome"], score["answer_outcome"]) for score in read) == [
        ("answered", "answered"), ("answered", "cut"), ("declined", "answered"), ("unread", "empty"),
        ("unread", "filtered"),
    ]  # fmt: skip
    assert sorted(score["answer_end"] for score in read) == ["", "", "", "content_filter", "max_tokens"]
    log = evaluated(PRESENCE)
    outcomes = Counter(sample.scores["answers"].metadata["outcome"] for sample in log.samples)
    assert outcomes["unread"] == pytest.approx(LIMIT * read_metrics(log)["parse_failure_rate"])
    assert outcomes["unread"] > 0


def test_stated_boxes_are_read_in_their_form(arguments, tmp_path):
    texts = ('{"bbox_2d": [0, 0, 1000, 1000]}', "I cannot tell from this image.", "", '{"box_2d": [0, 0, 1000, 1000]}')
    task_arguments = arguments("medfaith_heal_vindr_stated_boxes") | {"box_format": "qwen3_vl"}
    log = run_task(task_arguments, iter([make_output(text) for text in texts]), tmp_path, 4)
    assert log.status == "success", log.error
    scores: Any = [(sample.scores or {})["answers"] for sample in log.samples or []]
    outcomes = Counter(score.metadata["outcome"] for score in scores)
    assert outcomes == {"answered": 1, "declined": 1, "unread": 2}
    assert {score.value for score in scores} == {"I"}  # no anatomy fills half of an image
    figures = read_metrics(log)
    assert 0 < figures["iou"] < 0.25
    assert (figures["n_unparsed"], figures["n_empty"]) == (1, 1)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("medfaith_wrong_lung_gold", "scores heatmaps, which no answer holds"),
        ("medfaith_surgx_occlusion", "region of a heatmap, which no answer holds"),
        ("medfaith_contrabench_option_scores", "log-likelihood of given texts, which only models of lm-eval give"),
    ],
)
def test_a_task_that_needs_more_than_an_output_is_refused_by_name(name, message):
    with pytest.raises(PrerequisiteError, match=f"task '{name}.*{message}"):
        lm_eval(name, data="nowhere")


def test_a_group_has_its_own_prompt_and_settings(arguments, tmp_path):
    """Inspect's limit leaves rows of the first task only; its figures still name the task, and are in a report."""
    requests = []

    def answer(messages, tools, tool_choice, config):
        requests.append((messages[-1].text, config.max_tokens))
        return make_output("A")

    names = "medfaith_contrabench_cot,medfaith_contrabench_original::chexpert_absence"
    data = arguments("medfaith_contrabench_cot")
    options = {"display": "log", "score_display": False, "log_images": False, "limit": 2}
    model = get_model("mockllm/model", custom_outputs=answer)
    (log,) = run(
        cxr_contrabench(data["data"], data["roots"], names),
        model=model,
        log_dir=str(tmp_path),
        **options,
    )
    assert log.status == "success", log.error
    assert all("Which option names the finding concept itself?" in text and n == 512 for text, n in requests)
    scores, first = read_metrics(log), "medfaith_contrabench_cot::chexpert_presence"
    assert {name.rpartition("/")[0] for name in scores} == {first}
    with converted_logs([Path(log.location)]) as (folder,):
        results = results_of(folder)
    assert results[first]["accuracy,b0"] == scores[f"{first}/accuracy"]


@pytest.mark.full  # another run
def test_by_default_a_benchmark_asks_the_tasks_that_the_data_have(arguments, capsys):
    """The build has rows of both sources, and the root of one is known."""
    data = arguments(CLOSED)
    task = heal_medvqa(data["data"], {"vindr_cxr": data["roots"]["vindr_cxr"]})
    asked = [part["task"] for part in (task.metadata or {})["medfaith_parts"]]
    assert asked == [CLOSED, OPEN, CLOSED.replace("closed", "tpt"), VPT]
    left_out = capsys.readouterr().err
    assert left_out.count("holds no heal-medvqa-nih_cxr14") == 4
    assert left_out.count("medfaith: left out: ") == 8
    with pytest.raises(PrerequisiteError, match="mimic_cxr"):
        heal_medvqa(data["data"], None, "medfaith_heal_mimic")
