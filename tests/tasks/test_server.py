"""`medfaith-server` against a real HTTP server on this machine: requests, replies and retries."""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from collections import Counter
from typing import Any

import numpy as np
import pytest

from medfaith.cli import main
from medfaith.loaders import images
from medfaith.loaders.errors import MedfaithError
from medfaith.tasks.contrabench import prompts
from medfaith.tasks.lazy_images import LazyImages
from medfaith.tasks.models import answer_counts
from medfaith.tasks.models.answer_counts import tally, warn_unanswered
from medfaith.tasks.models.chat_form import LONGEST_END, Reply
from medfaith.tasks.models.server import client
from tests.support.builders.files import root_words
from tests.support.tasks.asking import asked, shade
from tests.support.tasks.evaluating import evaluate, load, samples_of
from tests.support.tasks.server_scene import FAULTS, echo, kept, pictures_of, questions, send_half, serving, texts_of

WRONG_LUNG = "medfaith_wrong_lung_gold"


def test_each_image_stands_where_its_placeholder_does():
    shades = [shade(level) for level in (10, 20, 30)]
    system = {"role": "system", "content": "You read images."}
    prompts = [
        ("<image>Left, <image>\nright?", shades[:2], [10, "Left, ", 20, "\nright?"]),
        ("First <image><image>\nthen <image>", shades, ["First ", 10, 20, "\nthen ", 30]),
        ("No image at all", LazyImages("r1", [], {}), "No image at all"),  # like the control none
    ]
    with serving() as server:
        lm = server.lm(concurrency=1)
        chat = [lm.apply_chat_template([system, {"role": "user", "content": text}]) for text, _, _ in prompts]
        lm.generate_until([asked(text, images) for text, images, _ in prompts])
        lm.generate_until([asked(text, images) for text, (_, images, _) in zip(chat, prompts, strict=True)])
        sent = [request["messages"] for request in server.requests]
    assert [turns[0] for turns in sent[3:]] == [system] * 3
    for turns, (_, pictures, expected) in zip(sent, prompts * 2, strict=True):
        received = pictures_of(turns)
        assert [np.asarray(image).tolist() for image in received] == [
            np.asarray(image).tolist() for image in pictures[:]
        ]
        levels = iter(int(np.asarray(image)[0, 0, 0]) for image in received)
        content = turns[-1]["content"]
        items = content if isinstance(content, str) else [item.get("text") or next(levels) for item in content]
        assert items == expected


def test_settings_and_the_form_of_images_are_the_runs():
    with serving() as server:
        server.lm(image_format="jpeg", image_max_side=32).generate_until([asked("<image>", [shade(9, (64, 48))])])
        more = {"until": ["\n", "b", "c", "d", "Q"], "do_sample": True, "temperature": 0.5, "top_p": 0.9}
        (cut,) = server.lm(seed=7, max_tokens_name="max_completion_tokens").generate_until([asked("A Q", **more)])
        sent = [{key: value for key, value in r.items() if key not in ("path", "key")} for r in server.requests]
    (image,) = pictures_of(sent[0].pop("messages"))
    assert (image.format, image.size) == ("JPEG", (32, 24))
    assert sent[0] == {"model": "m", "max_tokens": 64, "temperature": 0.0}
    del sent[1]["messages"]
    settings = {"temperature": 0.5, "top_p": 0.9, "seed": 7, "stop": ["\n", "b", "c", "d"]}
    assert sent[1] == {"model": "m", "max_completion_tokens": 64, **settings}
    assert cut == "Answer to A "  # also cut at the fifth stop string, which is not sent


class RowImages(list[Any]):
    """Images of a row that keep the outcome of its request and the reason for the end of its answer."""

    told: tuple[str, str] | None = None

    def tell_outcome(self, outcome: str, end: str = "") -> None:
        self.told = (outcome, end)


REPLIES: list[tuple[dict[str, Any], str, str]] = [
    ({"message": {"content": "B."}, "finish_reason": "stop"}, "B.", "answered"),
    ({"message": {"content": [{"type": "text", "text": "B"}, {"type": "text", "text": "."}]}}, "B.", "answered"),
    ({"message": {"content": "B.", "reasoning_content": "It is C."}, "finish_reason": "stop"}, "B.", "answered"),
    ({"message": {"content": None, "reasoning_content": "It is C."}, "finish_reason": "stop"}, "", "empty"),
    ({"message": {"content": "The answer is C, or"}, "finish_reason": "length"}, "The answer is C, or", "cut"),
    ({"message": {"content": "C"}, "finish_reason": "content_filter"}, "", "filtered"),
    ({"message": {"content": None, "refusal": "I cannot tell C."}, "finish_reason": "stop"}, "", "refused"),
    ({"message": {"content": ""}, "finish_reason": "stop"}, "", "empty"),
    ({"message": {"content": [{"type": "reasoning", "text": "C."}, {"type": "text", "text": "B"}]}}, "B", "answered"),
    ({"message": {"content": [{"type": "refusal", "refusal": "I cannot tell C."}]}}, "", "refused"),
    ({"message": {"content": "I cannot tell C."}, "finish_reason": "refusal"}, "", "refused"),
    ({"message": {"content": "B \ud83d"}, "finish_reason": "stop"}, "B \ufffd", "answered"),  # half a character
]


def test_answers_are_scored_cut_ones_too_and_the_store_keeps_the_others(tmp_path, capsys):
    with serving(lambda messages: REPLIES[int(texts_of(messages))][0]) as server, tally() as outcomes:
        lm = server.lm(answers=str(tmp_path / "new" / "answers.sqlite"))
        scored = lm.generate_until([asked(str(number), number=number) for number in range(len(REPLIES))])
    assert scored == [text for _, text, _ in REPLIES]
    stored = kept(tmp_path / "new" / "answers.sqlite")
    for number, (choice, _, outcome) in enumerate(REPLIES):
        assert stored[f"row {number}"].startswith(outcome)
        for field in choice["message"].values():
            assert not isinstance(field, str) or field.replace("\ud83d", "\ufffd") in stored[f"row {number}"]
    assert outcomes == {"answered": 5, "empty": 2, "cut": 1, "filtered": 1, "refused": 3}
    assert "7 of 12 answers are incomplete: 2 empty, 1 cut, 1 filtered, 3 refused" in capsys.readouterr().err


def test_pauses_that_the_server_names_are_no_tries(capsys):
    """A limit of requests a minute, which each row meets many times."""
    tries = Counter()

    def limit(request):
        tries[texts_of(request["messages"])] += 1
        if tries[texts_of(request["messages"])] > 9:
            return None
        return lambda handler: handler.send(429, {"error": {"message": "slow down"}}, Retry_After="0.01")

    with serving(fault=limit) as server, tally() as outcomes:
        answers = server.lm(max_retries=1, concurrency=4).generate_until(questions(8))
    assert answers == [f"Answer to Question {number}?" for number in range(8)]
    assert (set(tries.values()), outcomes) == ({10}, {"answered": 8})


LASTING = ("no chat", "redirect", "too long")


def test_a_failing_request_is_tried_again_and_ends_no_run(tmp_path, capsys, monkeypatch):
    requested, is_fixed, pauses = [], False, []

    async def paused(seconds):
        pauses.append(seconds)

    monkeypatch.setattr("openai._base_client.anyio.sleep", paused)
    monkeypatch.setattr(client, "FIRST_PAUSE_S", 0.001)  # between the tries of an error in a response with status 200

    def choose_fault(request):
        requested.append(name := texts_of(request["messages"]))
        return FAULTS[name] if not is_fixed and (requested.count(name) == 1 or name in LASTING) else None

    requests = [asked(name, number=number) for number, name in enumerate(FAULTS)]
    expected = {name: "" if name == "filter" else f"Answer to {name}" for name in FAULTS}
    with serving(fault=choose_fault) as server, tally() as outcomes:
        lm = server.lm(timeout=0.3, answers=str(tmp_path / "a"))
        replies = lm.generate_until(requests)
        times = Counter(requested)
        assert warn_unanswered(outcomes)
        is_fixed = True
        later_replies = lm.generate_until(requests)
    assert dict(zip(FAULTS, replies, strict=True)) == {**expected, **dict.fromkeys(LASTING, "")}
    assert times == {name: 1 if name in (*LASTING, "filter") else 2 for name in FAULTS} | {"no chat": 6}
    assert dict(zip(FAULTS, later_replies, strict=True)) == expected
    assert sorted(requested[times.total() :]) == sorted(LASTING)
    assert outcomes == {"answered": 13, "unanswered": 3, "filtered": 2}
    assert 0.05 in pauses, "the server's pause, not one of the client's own"
    error = capsys.readouterr().err
    assert "4 of 9 answers are incomplete: 1 filtered, 3 unanswered" in error
    assert "3 of 9 rows (33.3%) have no answer, more than 1%" in error


@pytest.mark.parametrize(
    ("finish", "outcome"),
    [("stop", "answered"), ("STOP", "answered"), ("eos", "answered"), (None, "answered"), ("length", "cut"),
     ("model_length", "cut"), ("MAX_TOKENS", "cut"), ("content_filter", "filtered"), ("SAFETY", "filtered"),
     ("content_filter: RECITATION", "filtered"), ("IMAGE_SAFETY", "filtered"), ("refusal", "refused"),
     ("error", "unanswered"), ("abort", "unanswered"), ("something new", "unanswered")],
)  # fmt: skip
def test_an_answer_counts_by_the_reason_for_its_end(finish, outcome, tmp_path, capsys):
    """Half an answer is not scored and not kept as one. Samples and results hold the reason in the server's words."""
    choice = {"message": {"content": "The answer is A"}, "finish_reason": finish}
    with serving(lambda messages: choice) as server, tally() as outcomes:
        lm = server.lm(answers=str(tmp_path / "a"))
        replies = lm.generate_until([asked("<image>Which?", images := RowImages([shade(1)]))])
        used = [lm.used()]
        lm.generate_until([asked("<image>Which?", [shade(1)])])
        used.append(lm.used())
    end = "" if outcome == "answered" else finish
    assert images.told == (outcome, end)
    for counts in used:
        assert (counts["outcomes"], counts.get("reasons")) == ({outcome: 1}, {f"{outcome}: {end}": 1} if end else None)
    assert capsys.readouterr().err.count(f"(reasons: 1 {outcome}: {finish})") == (2 if end else 0)
    assert replies == ["The answer is A" if outcome in ("answered", "cut") else ""]
    assert set(outcomes) == {outcome}
    assert len(server.requests) == (2 if outcome == "unanswered" else 1)


def test_a_reason_in_a_log_is_one_short_line_without_control_characters():
    reply = Reply("unanswered", reason="500: \x1b[31mno\n\nmemory " + "x" * 500)
    assert reply.end.startswith("500: ␛[31mno memory xxx")
    assert len(reply.end) == LONGEST_END
    assert Reply("answered", reason="length").end == "", "a stop string came before the limit"


def test_results_name_the_most_frequent_reasons():
    """A message with an id of its own would fill the results of a run with 100,000 rows."""
    ends = Counter({"cut: length": 9} | {f"unanswered: request {n} is lost": 1 for n in range(100)})
    named = answer_counts.limit_ends(ends)
    assert (len(named), named["cut: length"], named["other reasons"]) == (21, 9, 81)


def test_an_error_in_a_response_with_status_200_is_retried_like_its_code(monkeypatch, tmp_path):
    monkeypatch.setattr(client, "FIRST_PAUSE_S", 0.001)
    errors = [{"error": {"message": "busy", "code": 429}}, {"choices": None, "error": {"message": "x", "code": 502}}]
    waiting = [lambda handler, error=error: handler.send(200, error) for error in errors]
    with serving(fault=lambda request: waiting.pop() if waiting else None) as server:
        assert server.lm(answers=str(tmp_path / "a")).generate_until([asked("Which?")]) == ["Answer to Which?"]
        assert len(server.requests) == 3


def test_a_request_that_is_wrong_is_not_retried_and_says_so(tmp_path):
    with serving(
        fault=lambda request: lambda handler: handler.send(200, {"error": {"message": "no", "code": 400}})
    ) as server:
        assert server.lm(answers=str(tmp_path / "a")).generate_until([asked("Which?")]) == [""]
        assert len(server.requests) == 1
    assert "400: no" in "".join(kept(tmp_path / "a").values())


@pytest.mark.parametrize(
    "error",
    [{"message": "Unsupported value: 'temperature' does not support 0.0 with this model.", "param": "temperature"},
     {"message": "Unknown parameter: \"temperature\""}],
)  # fmt: skip
def test_a_setting_that_the_server_refuses_ends_the_run_with_its_words(error, tmp_path):
    """The same command could never help."""

    def refuse(handler):
        handler.send(400, {"error": error})

    with serving(fault=lambda request: refuse) as server:
        lm = server.lm(answers=str(tmp_path / "a"), concurrency=1)
        with pytest.raises(
            MedfaithError, match=r"(?s)temperature.*what to do: set another one: --gen_kwargs temperature="
        ):
            lm.generate_until(questions(40))
        assert len(server.requests) == 5


def test_a_setting_that_some_rows_break_ends_no_run(tmp_path):
    """The first row was answered, so the server takes the settings."""

    def choose_fault(request):
        is_first = texts_of(request["messages"]).strip() == "Question 0?"
        error = {"message": "'max_tokens' is too large for this prompt", "param": "max_tokens"}
        return None if is_first else lambda handler: handler.send(400, {"error": error})

    with serving(fault=choose_fault) as server:
        replies = server.lm(answers=str(tmp_path / "a"), concurrency=1).generate_until(questions(12))
        assert replies == ["Answer to Question 0?", *[""] * 11]


def test_a_key_that_the_server_repeats_is_not_stored(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("OPENAI_API_KEY", "secret")

    def repeat_key(handler):
        handler.send(400, {"error": {"message": f"{handler.headers['Authorization']} may not ask"}})

    with serving(fault=lambda request: repeat_key) as server:
        assert server.lm(answers=str(tmp_path / "a")).generate_until([asked("Is it?")]) == [""]
        assert [request["key"] for request in server.requests] == ["Bearer secret"]
    assert "400: Bearer *** may not ask" in "".join(kept(tmp_path / "a").values())
    assert "secret" not in capsys.readouterr().err


GONE = [  # response of a lost server after 20 good answers, and the expected warning
    (FAULTS["cut"], "Server disconnected"),
    (lambda handler: handler.send(503, {"error": {"message": "no healthy upstream"}}), "no healthy upstream"),
    (lambda handler: handler.send(429, {"error": {"message": "quota exceeded"}}), "quota exceeded"),
]


@pytest.mark.parametrize(("fault", "message"), GONE, ids=["cut", "gateway", "quota"])
def test_a_server_that_is_gone_is_not_asked_for_the_rest(fault, message, tmp_path, capsys):
    requests, gone = [asked(f"row {n}", number=n) for n in range(60)], False
    with serving(fault=lambda request: fault if gone else None) as server:
        lm = server.lm(answers=str(tmp_path / "a"), concurrency=4, max_retries=0)
        lm.generate_until(requests[:20])  # by itself: a good answer that comes after a loss starts the row anew
        gone = True
        replies = lm.generate_until(requests)
        n_asked, gone = len(server.requests), False
        assert replies[:20] == [f"Answer to row {n}" for n in range(20)]
        assert replies.count("") == 40
        assert 32 <= n_asked <= 36, "twelve are lost in a row, and four are under way"
        assert re.search(rf"gave nothing to 12 rows in a row \(.*{message}.*\); the rows", capsys.readouterr().err)
        assert "" not in lm.generate_until(requests)
        assert len(server.requests) == n_asked + 40


def test_lost_answers_between_others_do_not_make_a_server_one_that_is_gone(tmp_path):
    """Every other row is lost and the server rejects the others; the run still asks every row."""

    def choose_fault(request):
        return FAULTS["cut"] if int(texts_of(request["messages"])) % 2 else FAULTS["too long"]

    with serving(fault=choose_fault) as server:
        lm = server.lm(concurrency=1, max_retries=0)
        assert lm.generate_until([asked(f"{n}", number=n) for n in range(40)]) == [""] * 40
        assert len(server.requests) == 40


def test_requests_run_at_once_and_replies_keep_the_order_of_rows():
    together, running, most = threading.Barrier(4), [], []

    def make_answer(messages):
        running.append(1)
        together.wait(timeout=5)  # breaks, and with it the test, unless four requests are there at once
        most.append(len(running))
        time.sleep(0.01 * (7 - int(texts_of(messages)) % 8))
        running.pop()
        return echo(messages)

    with serving(make_answer) as server:
        replies = server.lm(concurrency=4, max_retries=0).generate_until([asked(str(number)) for number in range(12)])
    assert replies == [f"Answer to {number}" for number in range(12)]
    assert max(most) == 4


def test_a_killed_run_goes_on_where_it_stopped(tmp_path):
    """A separate process runs the model and is killed at the sixth question."""
    killed, child = [], 0

    def make_answer(messages):
        if len(server.requests) == 6 and not killed:
            killed.append(texts_of(messages))
            os.kill(child, signal.SIGKILL)
        return echo(messages)

    with serving(make_answer) as server:
        lm = server.lm(concurrency=1, answers=str(tmp_path / "a"))
        child = os.fork()
        if not child:
            lm.generate_until(questions(10), disable_tqdm=True)
            os._exit(0)
        assert os.waitpid(child, 0)[1] == signal.SIGKILL
        assert len(kept(tmp_path / "a")) == 5
        replies = lm.generate_until(questions(10))
        assert replies == [f"Answer to Question {number}?" for number in range(10)]
        assert [texts_of(r["messages"]).strip() for r in server.requests[6:]] == [
            f"Question {n}?" for n in range(5, 10)
        ]
        assert lm.generate_until(questions(10)) == replies
        assert len(server.requests) == 11


CHANGES = {  # change -> the model's options, the request
    "nothing": ({}, asked("<image>Is it?", [shade(1)])),
    "another row and task": ({}, asked("<image>Is it?", [shade(1)], number=7)),
    "concurrency": ({"concurrency": 2, "max_retries": 0, "timeout": 9}, asked("<image>Is it?", [shade(1)])),
    "one pixel's image": ({}, asked("<image>Is it?", [shade(2)])),
    "size": ({}, asked("<image>Is it?", [shade(1, (4, 6))])),
    "no image": ({}, asked("Is it?")),
    "another place": ({}, asked("Is it?<image>", [shade(1)])),
    "prompt": ({}, asked("<image>Is it not?", [shade(1)])),
    "tokens": ({}, asked("<image>Is it?", [shade(1)], max_gen_toks=65)),
    "temperature": ({}, asked("<image>Is it?", [shade(1)], temperature=0.1)),
    "stop": ({}, asked("<image>Is it?", [shade(1)], until=["!"])),
    "model": ({"model": "other"}, asked("<image>Is it?", [shade(1)])),
    "seed": ({"seed": 1}, asked("<image>Is it?", [shade(1)])),
    "encoding": ({"image_format": "jpeg"}, asked("<image>Is it?", [shade(1)])),
    "side": ({"image_max_side": 3}, asked("<image>Is it?", [shade(1)])),
}
SAME = ("nothing", "another row and task", "concurrency")


def test_only_the_same_question_gets_a_stored_answer(tmp_path):
    models: list[dict[str, Any]] = [{"id": "m", "created": 1, "root": "weights"}, {"id": "other"}]
    answers = {"answers": str(tmp_path / "a")}
    asked_again, (_, original) = set(), CHANGES["nothing"]
    with serving(models=models) as server:
        server.lm(**answers).generate_until([original])
        for name, (options, request) in CHANGES.items():
            before = len(server.requests)
            server.lm(**{**answers, **options}).generate_until([request])
            asked_again |= {name} if len(server.requests) > before else set()
        assert asked_again == CHANGES.keys() - set(SAME)
        models[0] = {**models[0], "created": 2}
        n = len(server.requests)
        server.lm(**answers).generate_until([original])
        assert len(server.requests) == n
        models[0] = {**models[0], "root": "other weights"}
        server.lm(**answers, concurrency=1).generate_until([original] * 3)  # lm-eval's `repeats`: one answer for each
        assert len(server.requests) == n + 3
    with serving(models=models) as another:
        another.lm(**answers).generate_until([original])
        assert len(another.requests) == 1


@pytest.mark.parametrize("name", ["m:4b", "m"])  # without a tag the name means the tag `latest`
def test_a_tag_of_ollama_with_other_weights_is_another_model(name, tmp_path):
    listed = {"id": "m:4b" if name == "m:4b" else "m:latest", "created": 1, "owned_by": "library"}
    tags = [{"name": listed["id"], "digest": "first"}]
    with serving(models=[listed], tags=tags) as server:
        for n_asked, digest in enumerate(("first", "first", "second", "second")):
            tags[0]["digest"] = digest
            server.lm(model=name, answers=str(tmp_path / "a")).generate_until(questions(1))
            assert len(server.requests) == 1 + n_asked // 2


def test_medfaith_eval_asks_what_an_earlier_run_has_not_been_answered(
    phantom_build, phantom_roots, tmp_path, capsys, monkeypatch
):
    """Two of four rows with several images fail at first; the command then asks these two, and one fails again."""
    task = "medfaith_contrabench_openi_report_absence"
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    failing = []

    def choose_fault(request):
        return send_half if texts_of(request["messages"]) in failing else None

    with serving(lambda messages: "A", fault=choose_fault) as server:
        client_options = {"concurrency": 1, "max_retries": 0}
        loaded = load([task], phantom_build, phantom_roots)
        questions = [prompts.b0(doc).replace("<image>", "") for doc in loaded["tasks"][task].test_docs()]
        failing += questions[1:3]
        first_run = evaluate(server.lm(**client_options, answers=str(tmp_path / "answers.sqlite")), loaded, limit=4)[
            task
        ]
        del failing[0]
        model_args = ",".join(
            f"{name}={value}" for name, value in {"base_url": server.url, "model": "m", **client_options}.items()
        )
        command = ["eval", "--data", str(phantom_build), *root_words(phantom_roots), "--tasks", task, "--limit", "4"]
        command += ["--model", "medfaith-server", "--model_args", model_args, "--apply_chat_template", "--log_samples"]
        assert main([*command, "--output_path", str(tmp_path)]) == 3
    assert first_run["replies"][::4] == ["A", "", "", "A"]  # one per filter, four filters
    samples = [sample for sample in samples_of(tmp_path, task) if sample["filter"] == "b0"]
    assert [sample["resps"] for sample in samples] == [[["A"]], [["A"]], [[""]], [["A"]]]
    assert "1 of 4 rows (25.0%) have no answer" in capsys.readouterr().err
    assert [texts_of(request["messages"]) for request in server.requests] == [*questions[:4], *questions[1:3]]
    assert {request["key"] for request in server.requests} == {"Bearer secret"}
    for request, sample in zip(server.requests, samples, strict=False):
        references = [
            dict(zip(("source", "key"), word.split(":"), strict=True)) for word in sample["doc"]["images"].split()
        ]
        opened = [images.open_image(reference, phantom_roots) for reference in references]
        assert len(opened) == sample["arguments"]["gen_args_0"]["arg_0"].count("<image>")
        pairs = zip(opened, pictures_of(request["messages"]), strict=True)
        assert all(np.array_equal(np.asarray(opened_image), np.asarray(sent)) for opened_image, sent in pairs)
    assert {len(pictures_of(request["messages"])) for request in server.requests} - {1}, "some row has several images"
    assert "secret" not in "".join(path.read_text() for path in tmp_path.rglob("*.json*"))
