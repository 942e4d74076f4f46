"""Run our tasks through Inspect at a server: lm-eval's figures, letter scores, and no images to third parties."""

from __future__ import annotations

import hashlib
import re

import pytest
from inspect_ai import eval as run
from inspect_ai.log import read_eval_log
from inspect_ai.model import get_model

from medfaith.cli import main
from medfaith.tasks.harnesses.inspect_subtasks import find_third_party
from medfaith.tasks.harnesses.inspect_task import cxr_contrabench, heal_medvqa, surgxbench
from tests.support.builders.files import root_words
from tests.support.tasks.evaluating import evaluate, load, read_metrics, results_of
from tests.support.tasks.server_scene import answer_by_messages, serving, texts_of
from tests.support.tiers import choose_size, keep_quick

pytestmark = pytest.mark.usefixtures("tables_alone")

HEAL, CONTRABENCH, SURGX = "medfaith_heal_vindr_", "medfaith_contrabench_", "medfaith_surgx_"
CLOSED, PRESENCE = HEAL + "closed", CONTRABENCH + "chexpert_presence"
SERVED = [  # the task of Inspect, the fixtures of its rows, a condition and its name, and tasks of lm-eval
    (heal_medvqa, "_heal", {}, "", [HEAL + name for name in ("closed", "open", "tpt", "vpt")]),
    (heal_medvqa, "_heal", {"control": "flipped"}, "flipped", [CLOSED, "medfaith_heal_mimic_closed"]),
    (cxr_contrabench, "", {"wording": 1}, "wording_1", [PRESENCE, CONTRABENCH + "openi_report_absence"]),
    (cxr_contrabench, "", {"control": "none"}, "none", [PRESENCE, CONTRABENCH + "chexpert_absence"]),
    (
        surgxbench,
        "_surgx",
        {"control": "blank"},
        "blank",
        [SURGX + name for name in ("instruments", "triplets", "stated_boxes")],
    ),
    (surgxbench, "_surgx", {"control": "occluded"}, "occluded", [SURGX + "instruments", SURGX + "triplets"]),
]


@pytest.mark.parametrize(
    ("build", "fixture", "condition", "label", "names"),
    keep_quick(SERVED, lambda case: case[3] == "flipped"),
)
def test_a_server_gives_the_figures_of_lm_eval(build, fixture, condition, label, names, request, tmp_path):
    """The same server answers medfaith-server and Inspect. Rows, messages, readings and intervals are the same."""
    data, roots = (request.getfixturevalue(f"phantom{fixture}_{kind}") for kind in ("build", "roots"))
    loaded = load(names, data, roots, **condition)["tasks"]
    ids = [row_id for task in loaded.values() for row_id in task.test_docs().with_format(None)["id"][:4]]
    (rows := tmp_path / "rows.csv").write_text("\n".join(["id", *ids]))
    with serving(answer_by_messages) as scene:
        model = get_model("openai-api/local/m", base_url=scene.url, api_key="none")
        roots = {key: str(path) for key, path in roots.items()}
        task = build(str(data), roots, ",".join(names), rows=str(rows), **condition)
        (log,) = run(task, model=model, log_dir=str(tmp_path), display="log", score_display=False, log_images=False)
        assert log.status == "success", log.error
        results = evaluate(scene.lm(), load(names, data, roots, row_ids=rows, **condition))
    scores = read_metrics(read_eval_log(log.location))
    for name in names:
        expected = {
            metric.removesuffix(",b0"): value
            for metric, value in results[name]["scores"].items()
            if metric.partition(",")[2] in ("", "b0") and not re.match(r"alias|name|sample_len|.*_stderr", metric)
        }
        mine = {metric: scores["/".join(filter(None, [name, label, metric]))] for metric in expected}
        assert len(expected) > 5
        assert mine == pytest.approx(expected, rel=0, abs=0, nan_ok=True)


@pytest.mark.full  # two more runs
@pytest.mark.usefixtures("png_only")
def test_letter_scores_are_lm_evals(phantom_build, phantom_roots, tmp_path, capsys):
    """The same lists of likeliest tokens give the same figures, and the same report; some letters are not listed."""
    name = "medfaith_contrabench_letter_scores"
    roots = {key: str(path) for key, path in phantom_roots.items()}

    def list_tokens(messages):
        digest = hashlib.sha256(texts_of(messages).encode()).digest()
        top = [
            {"token": token, "logprob": -0.3 - byte / 50, "bytes": None}
            for token, byte in zip(("A", " B", "B", "C", "The"), digest, strict=False)
            if byte % 5
        ]
        content = [{**top[0], "top_logprobs": top}] if top else []
        return {"message": {"content": "A"}, "finish_reason": "length", "logprobs": {"content": content}}

    loaded = load([name], phantom_build, phantom_roots)["tasks"]
    ids = [
        row_id for task in loaded.values() for row_id in task.test_docs().with_format(None)["id"][: choose_size(6, 12)]
    ]
    (rows := tmp_path / "rows.csv").write_text("\n".join(["id", *ids]))
    command = ["eval", "--data", str(phantom_build), *root_words(phantom_roots), "--tasks", name, "--rows", str(rows)]
    with serving(list_tokens) as scene:
        model = get_model("openai-api/local/m", base_url=scene.url, api_key="none")
        task = cxr_contrabench(str(phantom_build), roots, name, rows=str(rows))
        (log,) = run(
            task, model=model, log_dir=str(tmp_path / "inspect"), display="log", score_display=False, log_images=False
        )
        assert log.status == "success", log.error
        sent = {setting: scene.requests[0][setting] for setting in ("max_tokens", "logprobs", "top_logprobs")}
        assert sent == {"max_tokens": 1, "logprobs": True, "top_logprobs": 20}
        command += ["--model", "medfaith-server", "--model_args", f"base_url={scene.url},model=m"]
        assert (
            main([*command, "--apply_chat_template", "--log_samples", "--output_path", str(tmp_path / "lm-eval")]) == 0
        )
    expected = {
        f"{task}/{metric.removesuffix(',none')}": value
        for task, figures in results_of(tmp_path / "lm-eval").items()
        for metric, value in figures.items()
        if metric.endswith(",none") and "_stderr" not in metric
    }
    figures = read_metrics(read_eval_log(log.location))
    assert figures == pytest.approx(expected, rel=0, abs=0, nan_ok=True)
    assert any(figures[f"{task}/n_pairs_unlisted"] for task in loaded)
    letters = [(sample.scores or {})["answers"].answer for sample in log.samples or []]
    assert {"A", "B", "C"} <= {*letters}
    reports = []
    for results in ("lm-eval", "inspect"):
        assert main(["report", str(tmp_path / results), "--out", str(tmp_path / f"{results}-report")]) == 0
        reports.append({path.name: path.read_text() for path in (tmp_path / f"{results}-report").glob("*.csv")})
    assert reports[0]
    assert [*reports[0]] == [*reports[1]]
    capsys.readouterr()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "-T send_images_to=8.8.8.8"),
        ({"send_images_to": "8.8.8.8"}, "-T i_have_permission=chexpert"),
    ],
)
def test_images_go_to_no_third_party_without_permission(options, message, places, tmp_path):
    """Nothing is sent: the permission is checked first."""
    data, roots = places(PRESENCE)
    model = get_model("openai-api/elsewhere/m", base_url="http://8.8.8.8/v1", api_key="none")
    task = cxr_contrabench(str(data), {key: str(path) for key, path in roots.items()}, tasks=PRESENCE, **options)
    (log,) = run(task, model=model, limit=1, log_dir=str(tmp_path), display="log", log_images=False)
    assert log.status == "error"
    assert message in str(log.error and log.error.message)
    assert "lm_eval" not in str(log.error and log.error.message)


@pytest.mark.parametrize(
    ("provider", "url", "expected"),
    [
        ("openai", None, "openai"),
        ("openai", "http://127.0.0.1:8000/v1", None),
        ("openai-api", "http://8.8.8.8/v1", "8.8.8.8"),
        ("vllm", None, None),
        ("hf", None, None),
    ],
)
def test_a_third_party_is_whoever_serves_elsewhere(provider, url, expected):
    assert find_third_party(provider, url) == expected
