"""A plain chat with an OpenAI-compatible endpoint: requests, retries, and what its errors say."""

import threading

import pytest

from medfaith.tasks.models.chat_form import read
from medfaith.tasks.models.server.client import ask_chats
from tests.support.chat import chat_server

PROMPT = [{"role": "user", "content": "Which?"}]


def ask(url, key="", **options):
    replies = []
    ask_chats(url, "llama", key, [PROMPT], lambda number, text: replies.append(text), **options)
    return replies


def send(status, body, **headers):
    """Return a fault of the server: it sends this response, and asks for a short pause before a retry."""
    return lambda handler: handler.send(status, body, Retry_After="0.01", **headers)


def serve(*faults):
    """Serve a model that replies "B" after some faults."""
    waiting = list(faults)
    return chat_server(lambda messages: "B", fault=lambda _: waiting.pop(0) if waiting else None)


@pytest.mark.parametrize(("slash", "key", "header"), [("", "secret", "Bearer secret"), ("/", "", None)])
def test_an_endpoint_is_asked_greedily(slash, key, header):
    with serve() as (url, requests):
        assert ask(url + slash, key, max_tokens=9) == ["B"]
    settings = {"model": "llama", "messages": PROMPT, "temperature": 0, "max_tokens": 9}
    assert requests == [{"path": "/v1/chat/completions", "key": header, **settings}]


def test_a_busy_or_lost_endpoint_is_asked_again():
    faults = [send(status, {}) for status in (429, 503, 500)]
    with serve(*faults, lambda handler: handler.connection.close()) as (url, requests):
        assert ask(url) == ["B"]
    assert len(requests) == 5


NO_MODEL = {"error": {"message": "the model llama does not exist"}}
KEY = {"error": {"message": "the key secret may not use llama"}}


@pytest.mark.parametrize(
    ("fault", "message", "n_requests"),
    [
        (send(401, KEY), r"/v1: 401: the key \*\*\* may not use llama$", 1),
        (send(404, NO_MODEL), "/v1: 404: the model llama does not exist$", 1),
        (send(404, {"detail": "Not Found"}), "/v1: 404: {'detail': 'Not Found'}$", 1),
        (send(503, "no upstream"), "/v1: 503: no upstream$", 2),
        (send(307, {}, Location="http://127.0.0.1:9/v1/chat/completions"), "/v1: 307: ", 1),
        (send(200, {"choices": []}), "/v1: .*is no chat completion$", 1),
        (send(200, "text"), "/v1: .*is no chat completion$", 1),
    ],
)
def test_an_error_holds_the_address_and_the_servers_words(fault, message, n_requests):
    with serve(fault, fault) as (url, requests), pytest.raises(ConnectionError, match=message):
        ask(url, "secret", max_retries=1)
    assert len(requests) == n_requests


def test_a_key_that_no_header_takes_is_not_repeated():
    with serve() as (url, requests), pytest.raises(ConnectionError) as raised:
        ask(url, "secret\n")
    assert "secret" not in str(raised.value)
    assert requests == []


def test_a_server_that_is_down_is_reported_at_once():
    with serve() as (url, _):
        pass
    with pytest.raises(ConnectionError, match=r"/v1: Connect.*Cannot connect"):
        ask(url)


def test_several_prompts_are_asked_at_a_time_and_a_failure_loses_no_reply():
    """Each request waits for the others: one at a time would never end."""
    together, replies = threading.Barrier(4), {}

    def say(messages):
        together.wait(60)
        return messages[0]["content"]

    def fail(request):
        if request["messages"][0]["content"] == "2":
            together.wait(60)
            return send(404, NO_MODEL)
        return None

    prompts = [[{"role": "user", "content": str(number)}] for number in range(4)]
    with chat_server(say, fault=fail) as (url, requests), pytest.raises(ConnectionError, match="404"):
        ask_chats(url, "llama", "", prompts, replies.__setitem__, concurrency=4)
    assert replies == {number: str(number) for number in (0, 1, 3)}
    assert len(requests) == 4


BODIES = [  # fields of the body of a response -> outcome, text and number of prompt tokens
    ({"usage": {"prompt_tokens": "12", "completion_tokens": 3.0}}, ("answered", "B", 12)),
    ({"usage": {"prompt_tokens": "many", "completion_tokens": None}}, ("answered", "B", None)),
    ({"usage": [1]}, ("answered", "B", None)),
    ({"choices": [{"message": None, "finish_reason": "content_filter"}]}, ("filtered", "", None)),
]
NO_CHATS = ({"choices": []}, {"choices": [{"message": None}]}, {"choices": [{"message": {"content": {"answer": "B"}}}]})


@pytest.mark.parametrize(("fields", "expected"), BODIES)
def test_odd_fields_of_a_response_lose_no_answer(fields, expected):
    reply = read({"choices": [{"message": {"content": "B"}}], **fields})
    assert (reply.outcome, reply.text, reply.prompt_tokens) == expected


@pytest.mark.parametrize("body", [*NO_CHATS, "<html>", None])
def test_a_body_without_a_message_is_no_answer(body):
    with pytest.raises(ValueError, match="is no chat completion"):
        read(body)
