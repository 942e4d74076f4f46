"""Files of requests and answers: what is written, which answers count, and what is refused."""

from __future__ import annotations

import hashlib
import json
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from medfaith.loaders.errors import InputError
from medfaith.tasks.models.answer_counts import tally
from medfaith.tasks.models.chat_form import read
from medfaith.tasks.models.server.batch_file import AnswerFiles
from medfaith.tasks.models.server.batch_lm import BatchLM
from tests.support.tasks.asking import asked, shade
from tests.support.tasks.batch_engine import answer, fail, inline_images, read_lines, succeed, write_lines
from tests.support.tasks.server_scene import echo, pictures_of, questions, serving, texts_of

KEYS = [hashlib.sha256(str(number).encode()).hexdigest() for number in range(5)]


def write_requests(path, instances, **options):
    model = BatchLM("m", requests=str(path), **options)
    assert model.generate_until(instances) == [""] * len(instances)
    return model.close()


def read_answers(files, instances, **options):
    return BatchLM("m", answers=[str(path) for path in files], **options).generate_until(instances)


@pytest.mark.parametrize("in_folder", [False, True])
def test_the_bodies_are_those_that_a_server_gets(tmp_path, in_folder):
    path, folder = tmp_path / "requests.jsonl", tmp_path / "pictures"
    instances = [*questions(3), *questions(2), asked("No image"), asked("A b", max_gen_toks=5, until=["b"])]
    with serving() as server:
        server.lm(concurrency=1).generate_until(instances)
        sent = [{name: value for name, value in request.items() if name not in ("path", "key")}
                for request in server.requests]  # fmt: skip
    write_requests(path, instances, image_folder=str(folder) if in_folder else None)
    lines = read_lines(path)
    bodies = [{**line["body"], "messages": inline_images(line["body"]["messages"])} for line in lines]
    assert bodies == [*sent[:3], *sent[5:]]  # equal requests are written once
    assert {(line["method"], line["url"]) for line in lines} == {("POST", "/v1/chat/completions")}
    assert len({line["custom_id"] for line in lines}) == 5
    assert sorted(folder.glob("*")) == [] or len([*folder.iterdir()]) == 3
    if in_folder:
        for file in folder.iterdir():
            assert file.stem == hashlib.sha256(file.read_bytes()).hexdigest()


def test_a_description_says_what_the_file_holds(tmp_path):
    path = tmp_path / "requests.jsonl"
    docs = [{"control": None}, {"control": "other"}, {"control": None, "wording": 2}]
    instances = [asked(f"<image>{number}", [shade(9)], number, doc) for number, doc in enumerate(docs)]
    report = write_requests(path, instances, image_format="jpeg")
    about = json.loads((tmp_path / "requests.about.json").read_text(encoding="utf-8"))
    assert about["tasks"] == {"task": {"image": 1, "other": 1, "wording_2": 1}}
    assert (about["requests"], about["images"], about["model"], about["may_go_to"]) == (
        3,
        1,
        "m",
        "machines of your own",
    )
    assert about["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
    assert about["image_encoding"]["format"] == "jpeg"
    assert report.startswith(f"{path}: 3 requests with 1 different images\n{tmp_path / 'requests.about.json'}: ")


def test_nothing_is_left_of_requests_that_could_not_be_written(tmp_path):
    def see(path):
        raise OSError("no such image")

    class Broken(list):
        def __getitem__(self, place):
            return see(place)

    model = BatchLM("m", requests=str(tmp_path / "requests.jsonl"))
    with pytest.raises(OSError, match="no such image"):
        model.generate_until([*questions(2), asked("<image>", Broken([1]))])
    del model
    assert not (tmp_path / "requests.jsonl").exists()


def test_answers_find_their_rows_in_any_order(tmp_path):
    instances = [*questions(6), asked("No image", number=6), *questions(1)]
    write_requests(tmp_path / "requests.jsonl", instances)
    lines = answer(read_lines(tmp_path / "requests.jsonl"), echo)[::-1]
    files = [write_lines(tmp_path / "a.jsonl", lines[:3]), write_lines(tmp_path / "b.jsonl", lines[2:])]
    expected = [f"Answer to {instance.args[0].replace('<image>', '').strip()}" for instance in instances]
    assert read_answers(files, instances) == expected


def test_answers_are_the_servers_own(tmp_path):
    """Stop strings, cut answers, refusals and reasoning are read as if a server had sent the body."""
    replies = [
        {"message": {"content": "B. Q more"}, "finish_reason": "length"},
        {"message": {"content": "The answer is"}, "finish_reason": "length"},
        {"message": {"content": None, "refusal": "No."}, "finish_reason": "stop"},
        {"message": {"content": "", "reasoning_content": "hm"}, "finish_reason": "stop"},
    ]
    instances = [asked(str(number), number=number, until=["Q"]) for number in range(len(replies))]

    def say(messages):
        return replies[int(texts_of(messages))]

    with serving(say) as server, tally() as of_server:
        expected = server.lm().generate_until(instances)
    write_requests(tmp_path / "r.jsonl", instances)
    file = write_lines(tmp_path / "a.jsonl", answer(read_lines(tmp_path / "r.jsonl"), say))
    with tally() as outcomes:
        assert read_answers([file], instances) == expected == ["B. ", "The answer is", "", ""]
    assert outcomes == of_server


def test_letters_are_scored_from_the_listed_tokens(tmp_path):
    tokens = [{"token": "A", "logprob": -0.5}, {"token": "B", "logprob": -1.5}]
    reply = {"message": {"content": "A"}, "logprobs": {"content": [{**tokens[0], "top_logprobs": tokens}]}}
    instances = [asked("<image>A or B?", [shade(1)]) for _ in "AB"]
    for instance, letter in zip(instances, "AB", strict=True):
        instance.arguments = ("<image>A or B?", f" {letter}", instances[0].arguments[2])
    model = BatchLM("m", requests=str(tmp_path / "r.jsonl"))
    model.loglikelihood(instances)
    model.close()
    (request,) = read_lines(tmp_path / "r.jsonl")
    assert request["body"]["logprobs"] is True
    file = write_lines(tmp_path / "a.jsonl", answer([request], lambda messages: reply))
    assert BatchLM("m", answers=[str(file)]).loglikelihood(instances) == [(-0.5, True), (-1.5, False)]


def test_missing_and_failed_requests_are_listed_and_written_again(tmp_path, capsys):
    instances = questions(6)
    write_requests(tmp_path / "r.jsonl", instances)
    requests = read_lines(tmp_path / "r.jsonl")
    keys = [line["custom_id"] for line in requests]
    of_vllm = {"error": {"message": "too long a prompt", "type": "BadRequestError", "param": None, "code": 400}}
    lines = [
        {"custom_id": keys[0], "response": {"status_code": 400, "request_id": "r", "body": None}, "error": of_vllm},
        {"custom_id": keys[1], "response": None, "error": {"code": "batch_expired", "message": "not in 24 hours"}},
        succeed(keys[2], "Yes"),
        {**succeed(keys[3], ""), "response": {"status_code": 200, "body": {"error": {"message": "out of memory"}}}},
        fail(keys[4], code="content_filter"),
    ]
    file = write_lines(tmp_path / "a.jsonl", lines)
    with tally() as outcomes:
        assert read_answers([file], instances) == ["", "", "Yes", "", "", ""]
    assert outcomes == {"unanswered": 4, "answered": 1, "filtered": 1}  # a filter answers the same the next time
    said = capsys.readouterr().err
    for text in ("4 rows without an answer", "1: 400: too long a prompt", "1: not in 24 hours", "1: 200: out of memory",
                 "1: no answer in the files", "--write-missing FILE"):  # fmt: skip
        assert text in said
    report = write_requests(tmp_path / "m.jsonl", instances, answers=[str(file)])
    assert read_lines(tmp_path / "m.jsonl") == [requests[number] for number in (0, 1, 3, 5)]
    assert "5 answers were read; 4 rows without an answer" in report
    again = write_lines(tmp_path / "b.jsonl", answer(read_lines(tmp_path / "m.jsonl"), lambda messages: "No"))
    assert read_answers([file, again], instances) == ["No", "No", "Yes", "No", "", "No"]
    assert "5 requests" not in write_requests(tmp_path / "none.jsonl", instances, answers=[str(file), str(again)])
    assert (tmp_path / "none.jsonl").read_text(encoding="utf-8") == ""


def test_an_aborted_answer_is_a_failure_and_another_one_replaces_it(tmp_path):
    """Its text is smaller than that of the answer, and would count."""
    aborted = succeed(KEYS[0], {"message": {"content": "A"}, "finish_reason": "abort"})
    empty = succeed(KEYS[1], "") | {"response": {"status_code": "200", "body": {"choices": [{"message": None}]}}}
    files = [write_lines(tmp_path / "a", [aborted, empty]),
             write_lines(tmp_path / "b", [succeed(KEYS[0], "No"), succeed(KEYS[1], "No")])]  # fmt: skip
    assert [*AnswerFiles(files[:1]).list_answered()] == []
    answers = AnswerFiles(files)
    assert [getattr(answers.read(key, read), "text", None) for key in KEYS[:2]] == ["No", "No"]
    assert sorted(answers.list_answered()) == sorted(KEYS[:2])
    assert answers.format_notes() == ""


def test_half_a_character_does_not_end_the_run(tmp_path):
    file = write_lines(tmp_path / "a", [succeed(KEYS[0], "B \ud83d"), fail(KEYS[1], message="no \ud83d")])
    answers = AnswerFiles([file])
    replies = [answers.read(key, read) for key in KEYS[:2]]
    assert [reply and (reply.text, reply.reason) for reply in replies] == [("B \ufffd", "stop"), ("", "400: no \ufffd")]


def test_files_that_answer_other_requests_say_so(tmp_path, capsys):
    file = write_lines(tmp_path / "a", [succeed(key, "Yes") for key in KEYS])
    assert read_answers([file], questions(2)) == ["", ""]
    assert "the files answer 5 other requests, and none of these: they were written with" in capsys.readouterr().err


LINES = [
    *(succeed(key, text) for key in KEYS[:3] for text in ("Yes", "No")),
    *(fail(key) for key in KEYS[:4]),
    {**succeed(KEYS[0], "Yes"), "id": "a copy with another id"},
]


@given(order=st.permutations(LINES), cut=st.integers(0, len(LINES)))
def test_the_order_of_lines_and_files_does_not_matter(order, cut, tmp_path_factory):
    folder = tmp_path_factory.mktemp("answers")
    files = [write_lines(folder / name, lines) for name, lines in (("a", order[:cut]), ("b", order[cut:]))]
    answers = AnswerFiles(files)
    texts = [answers.read(key, read) for key in KEYS]
    assert [reply and reply.text for reply in texts] == ["No", "No", "No", "", None]
    assert texts[3] is not None
    assert texts[3].reason == "400: too long a prompt"
    assert "3 requests have two different answers" in answers.format_notes()


@pytest.mark.parametrize(
    ("content", "found"),
    [
        ("no JSON\n", "row 1"), ("[1]\n", "row 1"), ('{"response": {}}\n', "row 1"), ('{"custom_id": 3}\n', "row 1"),
        (json.dumps(succeed(KEYS[0], "a")) + "\n\nnull\n", "row 3"),
        (json.dumps(succeed(KEYS[0], "a"))[:-9] + "\n", "row 1"),
    ],
)  # fmt: skip
def test_a_line_that_is_no_answer_is_refused_with_its_row(content, found, tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(InputError, match=rf"a\.jsonl.*{found}(.|\n)*is no answer of a batch(.|\n)*custom_id"):
        AnswerFiles([path])


def test_a_last_line_that_was_cut_counts_as_missing(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text("\n".join(json.dumps(succeed(key, "Yes")) for key in KEYS[:2])[:-5], encoding="utf-8")
    answers = AnswerFiles([path])
    assert (len(answers), answers.read(KEYS[1], read)) == (1, None)
    assert answers.format_notes() == "1 last lines are cut, and count as missing"


@pytest.mark.parametrize("response", [None, "busy", [], {}, {"status_code": 200}, {"status_code": 200, "body": "text"}])
def test_a_response_without_a_body_is_a_failure(response, tmp_path):
    file = write_lines(tmp_path / "a", [{"custom_id": KEYS[0], "response": response, "error": None}])
    reply = AnswerFiles([file]).read(KEYS[0], read)
    assert reply is not None
    assert (reply.outcome, reply.text) == ("unanswered", "")
    assert "no response" in reply.reason


def test_an_answer_beside_an_error_is_a_failure(tmp_path):
    error = {"code": "server_error", "message": "stopped in the middle"}
    reply = AnswerFiles([write_lines(tmp_path / "a", [{**succeed(KEYS[0], "Ye"), "error": error}])]).read(KEYS[0], read)
    assert reply is not None
    assert (reply.outcome, reply.text, reply.reason) == ("unanswered", "", "200: stopped in the middle")


def test_answers_to_other_requests_are_counted(tmp_path):
    answers = AnswerFiles([write_lines(tmp_path / "a", [succeed("request-1", "Yes"), succeed(KEYS[0], "Yes")])])
    assert (len(answers), answers.format_notes()) == (1, "1 lines have an id of no request of medfaith")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"model": "m"}, "neither requests nor answers"),
        ({"requests": "r"}, "names no model"),
        ({"model": "m", "requests": "r", "image_format": "gif"}, "image_format"),
        ({"model": "m", "requests": "r", "max_tokens_name": "n"}, "max_tokens_name"),
        ({"model": "m", "requests": "r", "concurency": 3}, "medfaith-batch has no option concurency"),
        ({"model": "m", "answers": ["missing.jsonl"]}, r"missing\.jsonl.*cannot be read"),
    ],
)
def test_options_that_cannot_work_are_refused(options: dict[str, Any], message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=message):
        BatchLM(**options)
    assert not [*tmp_path.iterdir()]


def test_images_of_a_source_go_to_no_third_party_without_permission(tmp_path):
    class Sourced(list):
        sources = ("vindr_cxr",)

    instance = asked("<image>", Sourced([shade(3)]))
    build = partial(BatchLM, "m", requests=str(tmp_path / "r.jsonl"))
    with pytest.raises(InputError, match=r"vindr_cxr(.|\n)*third party such as api\.openai\.com"):
        build(send_images_to="api.openai.com").generate_until([instance])
    permitted = build(send_images_to="api.openai.com", i_have_permission="vindr_cxr")
    permitted.generate_until([instance])
    permitted.close()
    about = json.loads((tmp_path / "r.about.json").read_text(encoding="utf-8"))
    assert (about["may_go_to"], [*about["sources"]]) == ("api.openai.com", ["vindr_cxr"])
    own = build()
    own.generate_until([instance])
    assert "for machines of your own alone: the terms of vindr_cxr allow no third party" in own.close()


def test_pictures_arrive_unchanged(tmp_path):
    picture = shade(77)
    write_requests(tmp_path / "r.jsonl", [asked("<image>", [picture])], image_folder=str(tmp_path / "a folder, ü"))
    (line,) = read_lines(tmp_path / "r.jsonl")
    (arrived,) = pictures_of(inline_images(line["body"]["messages"]))
    assert (np.asarray(arrived) == np.asarray(picture)).all()
