"""CXR-ContraBench through Inspect's own `eval` and command line, with a model that answers from a list."""

from __future__ import annotations

import itertools
import math
import subprocess
import sys
from collections import Counter, defaultdict
from typing import Any

import pytest
from inspect_ai import eval as run
from inspect_ai.log import EvalLog, read_eval_log
from inspect_ai.model import ModelOutput, ModelUsage, get_model

from medfaith.evaluate_metrics.polarity.score import score_predictions
from medfaith.loaders.errors import InputError, MissingSourceError
from medfaith.tasks.adapters.inspect_task import contrabench
from medfaith.tasks.rows import read

# In the published layout the target stands first, then on the presence side its negation: right, attracted, distracted,
# and a text that names nothing.
ANSWERS = ("A", "The answer is (B).", "C", "I see a chest.")
REPOSITORY = "cxr-contrabench-chexpert"


def said(text: str) -> ModelOutput:
    output = ModelOutput.from_content("mockllm", text)
    output.usage = ModelUsage()  # counting tokens would need the network
    return output


@pytest.fixture(scope="module")
def arguments(phantom_build, phantom_roots) -> dict[str, Any]:
    return {"data": str(phantom_build), "roots": {"chexpert": str(phantom_roots["chexpert"])}}


@pytest.fixture(scope="module")
def answered(arguments, tmp_path_factory):
    """Runs a task on ANSWERS in turn; returns Inspect's log."""

    def answer(**options: Any) -> EvalLog:
        outputs = (said(text) for text in itertools.cycle(ANSWERS))
        (log,) = run(
            contrabench(**arguments, **options),
            model=get_model("mockllm/model", custom_outputs=outputs),
            limit=24,
            max_samples=1,
            display="none",
            log_dir=str(tmp_path_factory.mktemp("logs")),
            log_images=False,
        )
        assert log.status == "success", log.error
        return log

    return answer


@pytest.fixture(scope="module")
def presence(answered) -> EvalLog:
    return answered()


def metrics(log: EvalLog) -> dict[str, dict[str, float]]:
    assert log.results
    return {score.name: {name: m.value for name, m in score.metrics.items()} for score in log.results.scores}


def rows_of(log: EvalLog, data: str) -> tuple[list[dict], list[str]]:
    config = str(log.eval.dataset.name)
    rows = {row["id"]: row for row in read(REPOSITORY, config, "validation", data).to_list()}
    assert log.samples
    assert len(log.samples) == 24
    return [rows[str(sample.id)] for sample in log.samples], [sample.output.completion for sample in log.samples]


def test_scores_by_hand(presence):
    n = len(presence.samples)
    share = [len(range(start, n, len(ANSWERS))) / n for start in range(len(ANSWERS))]
    means = {name: values["mean"] for name, values in metrics(presence).items()}
    expected = {"accuracy": share[0], "reversal_rate": share[1], "parse_failure_rate": share[3]}
    assert means == pytest.approx(expected)
    assert Counter(sample.scores["polarity"].answer for sample in presence.samples)[None] == round(share[3] * n)


@pytest.mark.parametrize("config", ["chexpert_absence", "chexpert_presence_shuffled", "chexpert_positive_only"])
def test_scores_are_those_of_our_metric(config, answered, arguments):
    log = answered(config=config)
    rows, texts = rows_of(log, arguments["data"])
    ours = score_predictions(texts, rows)
    found = {name: values["mean"] for name, values in metrics(log).items()}
    assert found == pytest.approx({name: ours[name] for name in found})
    errors = {name for name in ("reversal_rate", "contradiction_rate") if not math.isnan(ours[name])}
    if config == "chexpert_positive_only":
        errors = set()  # a control: it has no polarity errors (section 3.1)
    assert set(found) == {"accuracy", "parse_failure_rate"} | errors


def test_a_verifier_reads_the_same_answers(answered, presence, arguments):
    rows, texts = rows_of(presence, arguments["data"])
    ours = score_predictions(texts, rows)
    found = metrics(answered(reading="m1"))
    assert found["accuracy"]["mean"] == pytest.approx(ours["accuracy_verified"])
    assert found["reversal_rate"]["mean"] == pytest.approx(ours["reversal_rate_verified"])
    assert ours["accuracy_verified"] > ours["accuracy"]


def test_the_standard_error_is_clustered_by_study(presence):
    """Of a mean over C clusters: sqrt(C / (C - 1) * sum of squared deviation sums) / n."""
    values = [(s.metadata["study_id"], s.scores["polarity"].value["accuracy"]) for s in presence.samples]
    mean = sum(value for _, value in values) / len(values)
    deviations: dict[str, float] = defaultdict(float)
    for study, value in values:
        deviations[study] += value - mean
    n_clusters = len(deviations)
    assert 1 < n_clusters < len(values)
    variance = n_clusters / (n_clusters - 1) * sum(d**2 for d in deviations.values()) / len(values) ** 2
    assert metrics(presence)["accuracy"]["stderr"] == pytest.approx(math.sqrt(variance))


def test_the_model_gets_the_images_then_the_prompt(arguments, phantom_roots, tmp_path):
    import base64
    import io

    from PIL import Image

    from medfaith.loaders import images
    from medfaith.tasks.contrabench import prompts

    asked = []

    def answer(messages, tools, tool_choice, config):
        asked.append((messages[-1].content, config.max_tokens, config.temperature))
        return said("A")

    model = get_model("mockllm/model", custom_outputs=answer)
    run(contrabench(**arguments), model=model, limit=3, max_samples=1, display="none", log_dir=str(tmp_path))
    rows = read(REPOSITORY, "chexpert_presence", "validation", arguments["data"]).to_list()
    assert len(asked) == 3
    for (content, *options), row in zip(asked, rows, strict=False):
        *pictures, text = content
        assert text.text == prompts.b0({**row, "images": []}).strip()
        assert options == [64, 0.0]
        for picture, reference in zip(pictures, row["images"], strict=True):
            sent = Image.open(io.BytesIO(base64.b64decode(picture.image.removeprefix("data:image/png;base64,"))))
            assert sent.tobytes() == images.open_image(reference, phantom_roots).tobytes()


def test_a_log_without_images_holds_no_pixels_and_no_root_in_a_sample(presence, arguments):
    text = "".join(sample.model_dump_json() for sample in read_eval_log(presence.location).samples or [])
    assert "data:image" not in text
    assert arguments["roots"]["chexpert"] not in text


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"reading": "m3"}, InputError, "no such reading"),
        ({"config": "nothing"}, InputError, "no such config"),
        ({"roots": None}, MissingSourceError, "how to get it"),
    ],
)
def test_what_is_wrong_stops_before_the_first_sample(options, error, words, arguments):
    with pytest.raises(error, match=words):
        contrabench(**{**arguments, **options})


BY_NAME = """
import sys
import inspect_ai
from inspect_ai.model import ModelOutput, ModelUsage, get_model
data, root, logs = sys.argv[1:]
said = ModelOutput.from_content("mockllm", "B")
said.usage = ModelUsage()
inspect_ai.eval(
    "medfaith/contrabench",
    task_args={"data": data, "config": "chexpert_absence", "roots": f"chexpert={root}"},
    model=get_model("mockllm/model", custom_outputs=[said, said]),
    limit=2, display="none", log_dir=logs, log_images=False,
)
"""


def test_inspect_finds_the_task_by_its_name(arguments, tmp_path):
    """In a process that has not imported it: by the entry point, its arguments as the command line gives them."""
    command = [sys.executable, "-c", BY_NAME, arguments["data"], arguments["roots"]["chexpert"], str(tmp_path)]
    result = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    (path,) = tmp_path.glob("*.eval")
    log = read_eval_log(str(path))
    assert (log.status, log.eval.task) == ("success", "medfaith/contrabench")
    assert metrics(log)["contradiction_rate"]["mean"] == 1
