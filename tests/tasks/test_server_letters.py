"""Letters of options on `medfaith-server`, scored by the likeliest first tokens that a real HTTP server lists."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from lm_eval.api.instance import Instance

from medfaith.cli import main
from medfaith.evaluate_metrics.polarity.option_scores import subsets
from medfaith.loaders.errors import MedfaithError
from medfaith.tasks.contrabench import prompts
from medfaith.tasks.models.answer_counts import tally
from tests.support.builders.files import root_words
from tests.support.reporting.report_logs import rows_of, write_report
from tests.support.tasks.asking import asked, scored, shade
from tests.support.tasks.evaluating import results_of, samples_of
from tests.support.tasks.server_scene import kept, pictures_of, serving, texts_of

LETTERS = "medfaith_contrabench_letter_scores"
NAN = math.nan


def make_requests(letters: str, number: int = 0, prompt: str = "<image>Is it?") -> list[Instance]:
    """Make the requests for the options of one row."""
    images = [shade(number)]
    return [scored(prompt, f" {letter}", images, number, place) for place, letter in enumerate(letters)]


def make_choice(*tokens: tuple[str, float], text: str = "A") -> dict[str, Any]:
    """Make a choice of one token, with its list of likeliest tokens."""
    top = [{"token": token, "logprob": logprob, "bytes": []} for token, logprob in tokens]
    content = [{**top[0], "top_logprobs": top}] if top else []
    return {"message": {"content": text}, "finish_reason": "length", "logprobs": {"content": content}}


LISTED = [  # the choice -> (log-probability, likeliest) of A, B and C; the outcome
    (make_choice((" A", -0.7), ("A", -1.2), ("C", -3.0), ("B", -4.0), ("b", -5.0)),
     [(np.logaddexp(-0.7, -1.2), True), (-4, False), (-3, False)], "answered"),
    (make_choice(("B", -0.1), ("The", -3.0), ("▁C", -4.0), ("A", -9999.0)),
     [(NAN, False), (-0.1, True), (-4, False)], "answered"),
    (make_choice(("The", -0.1), ("B", -3.0), ("AB", -4.0)), [(NAN, False), (-3, True), (NAN, False)], "answered"),
    (make_choice(("<think>", 0.0)), [(NAN, False)] * 3, "answered"),
    ({"message": {"content": None, "reasoning": "A"}, "finish_reason": "length"}, [(NAN, False)] * 3, "empty"),
    ({"message": {"content": "A"}, "finish_reason": "content_filter"}, [(NAN, False)] * 3, "filtered"),
    ({"message": {"content": None, "refusal": "A"}, "logprobs": None}, [(NAN, False)] * 3, "refused"),
]  # fmt: skip


def test_letters_are_scored_by_the_tokens_that_a_server_lists(tmp_path, capsys):
    """One stored request per row, which does not serve for an answer; an unlisted letter has no score."""

    def make_answer(messages):
        return LISTED[int(texts_of(messages))][0] if "logprobs" in server.requests[-1] else "A"

    rows = [make_requests("ABC", number, f"<image>{number}") for number in range(len(LISTED))]
    requests = [row[place] for place in (2, 0, 1) for row in rows]  # in any order
    with serving(make_answer) as server, tally() as outcomes:
        lm = server.lm(answers=str(tmp_path / "a"), concurrency=1)
        results = lm.loglikelihood(requests)
        assert len(server.requests) == len(rows)
        assert str(lm.loglikelihood(requests)) == str(results)
        assert len(server.requests) == len(rows)
        assert lm.generate_until([asked("<image>0", [shade(0)])]) == ["A"]
        assert server.lm(top_logprobs=5).loglikelihood(rows[0])
    expected = [LISTED[number][1][place] for place in (2, 0, 1) for number in range(len(LISTED))]
    assert [likeliest for _, likeliest in results] == [likeliest for _, likeliest in expected]
    assert [score for score, _ in results] == pytest.approx([score for score, _ in expected], nan_ok=True)
    sent = {name: server.requests[0][name] for name in ("max_tokens", "temperature", "logprobs", "top_logprobs")}
    assert sent == {"max_tokens": 1, "temperature": 0, "logprobs": True, "top_logprobs": 20}
    assert [len(pictures_of(request["messages"])) for request in server.requests] == [1] * (len(rows) + 2)
    assert server.requests[-1]["top_logprobs"] == 5
    assert {row: text.split()[0] for row, text in kept(tmp_path / "a").items()} | {"row 0": "answered"} == {
        f"row {number}": outcome for number, (_, _, outcome) in enumerate(LISTED)
    }
    assert outcomes == {"answered": 10, "empty": 2, "filtered": 2, "refused": 2}
    error = capsys.readouterr().err
    assert "of 7 rows, 4 list no letter of an option, and 2 only some letters of theirs; a model that thinks" in error


def test_tokens_that_a_server_shows_as_one_text_add_up():
    """vLLM shows "▁A" and "A" as "A". The third "A" is listed twice, and -800 is too low for `exp`."""
    tokens = [("A", -0.7), ("B", -800.0), ("A", -1.2), ("A", -1.2), ("C", -math.inf), ("D", NAN)]
    with serving(lambda messages: make_choice(*tokens)) as server:
        scores = server.lm().loglikelihood(make_requests("ABCD"))
    assert [score for score, _ in scores] == pytest.approx([np.logaddexp(-0.7, -1.2), -800, NAN, NAN], nan_ok=True)
    assert [likeliest for _, likeliest in scores] == [True, False, False, False]


def test_an_endpoint_without_probabilities_says_what_to_do():
    """The endpoint omits them, refuses the request, or lists fewer tokens than requested."""

    def refuse(message, **more):
        return lambda request: lambda handler: handler.send(400, {"error": {"message": message, **more}})

    for options, reason in (
        ({}, "the answer 'A' has none"),
        ({"reply": {"choices": [make_choice(("A", 0.9))]}}, "the logprob 0.9 of 'A' is no logarithm of a probability"),
        ({"fault": refuse("This model does not support it", param="logprobs")}, "This model does not"),
        ({"fault": refuse("top_logprobs must be at most 5")}, "at most 5(.|\n)*lower top_logprobs"),
    ):
        with serving(lambda messages: "A", **options) as server:
            with pytest.raises(MedfaithError, match=rf"gives no probabilities of tokens \((.|\n)*{reason}"):
                server.lm().loglikelihood(make_requests("AB"))
            assert len(server.requests) == 1
    with serving(fault=refuse("The image is too large")) as server:
        assert all(math.isnan(score) for score, _ in server.lm().loglikelihood(make_requests("AB")))


def test_medfaith_eval_scores_letters_on_a_server(phantom_build, phantom_roots, tmp_path):
    """A is the likeliest letter. The third row of each task lists only A, and the fourth no letter."""
    tokens = {3: [("A", -0.5), ("The", -2.0)], 0: [("The", -0.1)]}

    def make_answer(messages):
        return make_choice(*tokens.get(len(server.requests) % 4, [(" A", -0.5), ("B", -1.5), ("C", -3.0)]))

    with serving(make_answer) as server:
        command = ["eval", "--data", str(phantom_build), *root_words(phantom_roots), "--tasks", LETTERS, "--limit", "4"]
        command += ["--model_args", f"base_url={server.url},model=m,concurrency=1", "--model", "medfaith-server"]
        command += ["--apply_chat_template", "--log_samples", "--output_path", str(tmp_path)]
        assert main(command) == 0
    assert len(server.requests) == 8
    scores = np.array([[-0.5, -1.5, -3.0]] * 2 + [[-0.5, NAN, NAN], [NAN] * 3])
    notes = write_report([tmp_path])
    report = rows_of(notes, "Figure 5")
    results = results_of(tmp_path)
    for name in ("chexpert_presence", "openi_report_absence"):
        task_results = results[f"{LETTERS}::{name}"]
        docs = [sample["doc"] for sample in samples_of(tmp_path, f"{LETTERS}::{name}")]
        assert server.requests[0]["messages"][-1]["content"][-1]["text"].endswith(prompts.INSTRUCTION)
        answer, negated, counterpart = (
            np.array([doc[column] for doc in docs]) for column in ("answer", "negated", "counterpart")
        )
        gaps = scores[range(4), negated] - scores[range(4), counterpart]
        assert task_results["accuracy,none"] == np.mean(answer == [0, 0, 0, -1])
        assert task_results["parse_failure_rate,none"] == 0.25
        assert task_results["n_pairs_unlisted,none"] == np.isnan(gaps).sum() == 2
        subset_masks = subsets(scores[:2], answer[:2], negated[:2], counterpart[:2])
        for subset in ("safe", "control"):
            mask = getattr(subset_masks, subset)
            assert task_results[f"n_{subset},none"] == mask.sum()
            mean = gaps[:2][mask].mean() if mask.any() else NAN
            assert task_results[f"mean_gap_{subset},none"] == pytest.approx(mean, nan_ok=True)
        assert any(row[1].endswith("(letters)") and row[2].split()[0] == "4" for row in report)
    assert notes.count("Questions without a score of any letter: 1 of 4. Pairs without a gap, because one") == 2
