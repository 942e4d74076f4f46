"""Run our tasks through Inspect's `eval` and registry with listed answers, and compare the figures with lm-eval's."""

from __future__ import annotations

import asyncio
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
from inspect_ai.model import ChatMessageUser, ModelOutput, ModelUsage, get_model
from inspect_ai.solver import TaskState, generate
from PIL import Image

from medfaith.tasks.contrabench import prompts
from medfaith.tasks.harnesses import questions
from medfaith.tasks.harnesses.inspect_score import answers
from medfaith.tasks.harnesses.inspect_task import lm_eval, show
from medfaith.tasks.heal import adapter
from tests.support.tasks.evaluating import ANSWERS, by_filter

PRESENCE, LIMIT = "medfaith_contrabench_chexpert_presence", 18
CLOSED, OPEN, VPT = (f"medfaith_heal_vindr_{ask}" for ask in ("closed", "open", "vpt"))
CASES = [
    (CLOSED, None),
    (VPT, None),
    (PRESENCE, None),
    (PRESENCE, "m1"),
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
    options = {"display": "none", "log_images": False, "max_samples": 1} | options
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


def read_metrics(log: EvalLog) -> dict[str, float]:
    assert log.results
    (score,) = log.results.scores
    return {name: metric.value for name, metric in score.metrics.items()}


@pytest.mark.parametrize(("name", "filter"), CASES)
def test_the_figures_are_lm_evals(name, filter, evaluated, places):
    """The log on disk, after a round trip through JSON, has every figure and interval to the last bit."""
    scores = read_metrics(read_eval_log(evaluated(name, filter).location))
    expected = by_filter(name, *places(name), limit=LIMIT)[filter or ("none" if "heal" in name else "b0")]
    assert set(scores) == set(expected)
    assert len(scores) > 5
    assert all(a == b or (math.isnan(a) and math.isnan(b)) for a, b in ((scores[m], expected[m]) for m in expected))


@pytest.mark.parametrize(
    ("name", "metric"),
    [(PRESENCE, "accuracy"), (CLOSED, "yes_no_accuracy"), (OPEN, "open_exact_match")],
)
def test_a_samples_value_says_whether_it_is_right(name, metric, evaluated):
    log = evaluated(name)
    values = Counter(sample.scores["answers"].value for sample in log.samples)
    assert values["C"] / LIMIT == read_metrics(log)[metric]
    assert values["C"] > 0
    assert values["C"] + values["I"] == LIMIT


def test_of_a_pair_yes_is_right_first_and_no_after_the_change(evaluated):
    for sample in evaluated(VPT).samples:
        word = "yes" if sample.metadata["kind"] == "original" else "no"
        right = sample.output.completion.casefold().startswith(word)
        assert sample.scores["answers"].value == ("C" if right else "I")


@pytest.mark.parametrize("name", [PRESENCE, VPT])
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
        assert text.text == expected.replace("<image>", "").strip()
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
    user = ChatMessageUser(content="")
    state_fields: dict[str, Any] = {
        "model": "mockllm/model",
        "sample_id": row,
        "epoch": 1,
        "input": "",
        "messages": [user],
    }
    state = TaskState(**state_fields, metadata={"row": row})
    content: Any = asyncio.run(show(task)(state, generate())).user_prompt.content  # pyright: ignore[reportArgumentType]
    items = [item.text if item.type == "text" else item.type for item in content]
    assert items == ["First:", "image", "Second:", "image"]


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
    results = score(log, answers(filter="m1"), action=action, display="none").results
    assert results
    scores = [
        {name: metric.value for name, metric in scorer_result.metrics.items()} for scorer_result in results.scores
    ]
    expected = by_filter(PRESENCE, *places(PRESENCE), limit=LIMIT)
    readings = [reading for reading in ("b0", "m1") if reading == "m1" or action == "append"]
    assert scores == [pytest.approx(expected[reading], rel=0, nan_ok=True) for reading in readings]
    assert expected["b0"] != expected["m1"]


def test_a_filter_that_the_task_has_not_scores_no_log(evaluated):
    with pytest.raises(PrerequisiteError, match="one of b0, m1"):
        score(read_eval_log(evaluated(PRESENCE).location), answers(filter="m3"), display="none")


def test_the_task_takes_arguments_as_a_command_gives_them(arguments, tmp_path):
    task_arguments = arguments("medfaith_contrabench_original::chexpert_absence")
    task_arguments["roots"] = f"chexpert={task_arguments['roots']['chexpert']}"
    log = run_task(task_arguments, [make_output("B"), make_output("B")], tmp_path, 2)
    assert log.status == "success"
    assert read_metrics(log)["contradiction_rate"] == 1


def test_the_reader_is_told_of_a_cut_answer(arguments, tmp_path, monkeypatch):
    """Both the scorer and the metrics, which read the texts of the log again, pass `cut`."""
    cuts = []
    read_yes_no = adapter.read_yes_no
    monkeypatch.setattr(
        adapter, "read_yes_no", lambda *args, cut=False: cuts.append(cut) or read_yes_no(*args, cut=cut)
    )
    outputs = [make_output("Yes"), make_output("Yes")]
    outputs[1].choices[0].stop_reason = "max_tokens"
    log = run_task(arguments(CLOSED), iter(outputs), tmp_path, 2)
    assert log.status == "success", log.error
    assert cuts[0] is False
    assert cuts.count(True) >= 2
    assert cuts[-2:] == [False, True]
