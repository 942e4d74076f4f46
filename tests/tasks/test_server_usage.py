"""Usage of runs on `medfaith-server`: requests, tokens and price, in the results and before the start."""

from __future__ import annotations

import json
import re

import pytest

from medfaith.cli import main
from tests.support.builders.files import root_words
from tests.support.reporting.report_logs import rows_of, write_report
from tests.support.tasks.asking import asked, shade
from tests.support.tasks.evaluating import samples_of
from tests.support.tasks.server_scene import questions, serving

TASK = "medfaith_contrabench_chexpert_presence"
COUNTED = {"prompt_tokens": 300, "completion_tokens": 2}
PRICES = {"prompt_price": 10, "answer_price": 1000}  # of a million: 0.003 and 0.002 of an answer


def read_usage(folder):
    """Read the usage from the results files in a folder, in order of date."""
    return [json.loads(path.read_text())["config"]["usage"] for path in sorted(folder.rglob("results_*.json"))]


def build_options(server, build, roots, folder, *more, **model_options):
    model_args = {
        "base_url": server.url,
        "model": "m",
        "answers": folder / "answers",
        "concurrency": 1,
        **PRICES,
        **model_options,
    }
    arguments = ",".join(f"{name}={value}" for name, value in model_args.items())
    return [
        *("--data", str(build), *root_words(roots), "--model", "medfaith-server", "--model_args", arguments),
        *("--apply_chat_template", *more),
    ]


@pytest.mark.full  # another run
def test_a_run_says_before_and_after_what_it_takes(phantom_build, phantom_roots, tmp_path, capsys):
    """One of six rows finds no server; the repeated command only pays for that row."""
    fail = True

    def choose_fault(request):
        lost = fail and len(server.requests) == 3
        return (lambda handler: handler.send(500, {"error": {"message": "oh"}})) if lost else None

    with serving(lambda messages: "A", fault=choose_fault, usage=COUNTED) as server:
        options = phantom_build, phantom_roots, tmp_path, "--tasks", TASK, "--limit", "6"
        command = ["eval", *build_options(server, *options, max_retries=0), "--output_path", str(tmp_path / "logs")]
        assert main([*command, "--dry-run"]) == 0
        before = capsys.readouterr().out
        assert (server.requests, [*tmp_path.iterdir()]) == ([], [tmp_path / "answers"])
        assert main([*command, "--log_samples"]) == 3
        (sample,) = samples_of(tmp_path / "logs", TASK)[8:9]
        assert "Unread: 1 of 6 answers (16.67%). Of these 1 have no answer." in capsys.readouterr().out
        report = write_report([tmp_path / "logs"])
        fail = False
        assert main([*command, "--dry-run"]) == 0
        between = capsys.readouterr().out
        assert main([*command, "--log_samples"]) == 0
    assert re.search(
        r"would send 6 requests to .*; nothing is sent now.\n  images: \d, about \d+\.\d MB as png", before
    )
    assert "of text; those of the images come on top" in before
    assert "answers are kept" not in before
    assert (sample["doc"]["answer_outcome"], sample["n_unanswered"]) == ("unanswered", 1)
    assert sample["doc"]["answer_end"] == "500: oh"
    assert rows_of(report, "Runs")[0][-3] == "1", "unanswered"
    assert re.search(r"WARNING: 1 of 6 rows of m in .* have no answer, and count as unread", report)
    assert "prompt tokens: about 1,800, as the server counted in 5 answers that are kept" in between
    assert re.search(r"answer tokens: about 12; at most (\d,\d+|\d+)\n  price: about 0.03; at most", between)
    assert "5 answers are kept; a row that one of them answers is not asked again" in between
    counts = {"rows": 6, "answers_without_token_counts": 0}
    assert read_usage(tmp_path / "logs") == [
        counts | {"rows_answered_before": 0, "outcomes": {"answered": 5, "unanswered": 1}, "prompt_tokens": 1500,
                "reasons": {"unanswered: 500: oh": 1}, "answer_tokens": 10, "price": pytest.approx(0.025)},
        counts | {"rows_answered_before": 5, "outcomes": {"answered": 6}, "prompt_tokens": 300, "answer_tokens": 2,
                "price": pytest.approx(0.005)},
    ]  # fmt: skip
    results = [json.loads(path.read_text())["results"] for path in sorted((tmp_path / "logs").rglob("results_*.json"))]
    assert [result[TASK]["n_unanswered,b0"] for result in results] == [1, 0]


@pytest.mark.full  # an evaluation: the test after
def test_an_audit_says_before_and_after_what_it_takes(phantom_build, phantom_roots, tmp_path, capsys):
    with serving(lambda messages: "A", usage=COUNTED) as server:
        options = "--benchmarks", "cxr-contrabench", "--controls", "noise", "none", "--limit", "2"
        out = tmp_path / "audit"
        command = ["audit", *build_options(server, phantom_build, phantom_roots, tmp_path, *options), "--out", str(out)]
        assert main([*command, "--dry-run"]) == 0
        output = capsys.readouterr().out
        assert not server.requests
        assert not out.exists()
        assert main(command) == 0
    n = int(re.findall(r"would send (\d+) requests", output)[0])
    usages = read_usage(out)
    assert n == sum(usage["rows"] for usage in usages) == len(server.requests) > 4
    assert sum(usage["prompt_tokens"] for usage in usages) == 300 * n


def test_answers_without_counts_of_tokens_are_counted(tmp_path):
    with serving() as server:
        lm = server.lm(concurrency=1)
        lm.generate_until([asked("<image>", [shade(1)])])
        assert lm.used() == {
            "rows": 1, "rows_answered_before": 0, "outcomes": {"answered": 1}, "prompt_tokens": 0, "answer_tokens": 0,
            "answers_without_token_counts": 1, "price": None,
        }  # fmt: skip
        assert lm.used()["rows"] == 0, "each run has its own"


def test_only_a_server_has_a_dry_run(phantom_build, capsys):
    command = ["eval", "--data", str(phantom_build), "--model", "oracle", "--tasks", TASK, "--dry-run"]
    assert main(command) == 2
    assert "--dry-run: the model type oracle sends nothing to a server" in capsys.readouterr().err


def test_answers_of_another_model_are_counted(capsys):
    """llama.cpp and LM Studio answer as the model that is loaded, and a router may answer as another one."""
    names = ["m", "other", "other"]

    def answer_as(request):
        choice = {"message": {"content": "A"}, "finish_reason": "stop"}
        body = {"choices": [choice], "model": names[len(server.requests) - 1]}
        return lambda handler: handler.send(200, body)

    with serving(fault=answer_as) as server:
        lm = server.lm(concurrency=1)
        lm.generate_until(questions(1))
        assert "models" not in lm.used()
        lm.generate_until(questions(2))
        assert lm.used()["models"] == {"other": 2}
    assert "names another model than m in 2 of 2 answers: other (2)" in capsys.readouterr().err
