"""`medfaith answer`: each request is answered once, in any interruption; images and licences are checked."""

from __future__ import annotations

import json
import os
import re
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

from medfaith.cli import main
from medfaith.tasks.models.server import access, batch_sender
from medfaith.tasks.models.server.batch_lm import BatchLM
from tests.support.tasks.batch_engine import answer, read_lines, write_lines
from tests.support.tasks.server_scene import echo, questions, serving


@pytest.fixture
def requests(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    model = BatchLM("m", requests="requests.jsonl", image_folder="pictures")
    model.generate_until(questions(12))
    model.close()
    return Path("requests.jsonl")


def run_answer(url, *options):
    return main(["answer", "requests.jsonl", "--base-url", url, "--out", "answers.jsonl", *options])


def read_texts(path=Path("answers.jsonl")):
    return {
        line["custom_id"]: line["response"]["body"]["choices"][0]["message"]["content"] for line in read_lines(path)
    }


def test_each_request_is_asked_once(requests, capsys):
    expected = {
        line["custom_id"]: line["response"]["body"]["choices"][0]["message"]["content"]
        for line in answer(read_lines(requests), echo)
    }
    with serving() as server:
        assert run_answer(server.url, "--concurrency", "2") == 0
        assert read_texts() == expected
        half = read_lines(Path("answers.jsonl"))[:4]
        write_lines(Path("answers.jsonl"), half)
        with Path("answers.jsonl").open("a", encoding="utf-8") as file:  # killed while it wrote
            file.write(json.dumps(half[0])[:50])
        n_asked = len(server.requests)
        assert run_answer(server.url) == 0
        assert len(server.requests) - n_asked == 8
    assert read_texts() == expected
    assert BatchLM("m", answers=["answers.jsonl"]).generate_until(questions(12)) == [
        f"Answer to Question {number}?" for number in range(12)
    ]
    assert "answers.jsonl: 8 answered, 4 answered before" in capsys.readouterr().out


def test_failures_are_kept_with_the_servers_words_and_asked_again(requests, capsys):
    with serving(status_of=lambda n: 400 if n % 3 == 0 else 200) as server:
        assert run_answer(server.url, "--concurrency", "1") == 3
    assert "8 answered, 4 failed" in capsys.readouterr().out
    model = BatchLM("m", answers=["answers.jsonl"])
    assert model.generate_until(questions(12)).count("") == 4
    assert "4: 400: the model m does not exist" in capsys.readouterr().err
    with serving() as server:
        assert run_answer(server.url) == 0
        assert len(server.requests) == 4
    assert "" not in BatchLM("m", answers=["answers.jsonl"]).generate_until(questions(12))


ABORTED = {"choices": [{"message": {"content": "Y"}, "finish_reason": "abort"}]}
NO_ANSWERS = {  # reason -> response
    "ValueError: '<html>' is no chat completion": lambda handler: handler.send(200, "<html>"),
    "abort": lambda handler: handler.send(200, ABORTED),
    "JSONDecodeError: Expecting value": lambda handler: handler.send_text(200, '{"choices": ['),
    "the model is lost": lambda handler: handler.send(400, {"error": {"message": "the model\nis lost"}}),
}


@pytest.mark.parametrize("reason", NO_ANSWERS)
def test_a_response_without_an_answer_is_a_failure_and_asked_again(reason, requests, capsys):
    with serving(fault=lambda request: NO_ANSWERS[reason]) as server:
        assert run_answer(server.url, "--max-retries", "0") == 3
    printed = capsys.readouterr()
    assert "answers.jsonl: 12 failed" in printed.out
    assert f"12 requests failed: {reason}" in re.sub(r": \d+: ", ": ", printed.err)
    with serving() as server:
        assert run_answer(server.url) == 0
        assert len(server.requests) == 12
    assert "" not in BatchLM("m", answers=["answers.jsonl"]).generate_until(questions(12))


def test_one_run_at_a_time_writes_a_file(requests, capsys):
    """Two would ask everything twice."""
    statuses = []

    def answer_and_run_again(messages):
        if not statuses:
            statuses.append(None)  # the second run asks, too, if nothing refuses it
            statuses[0] = run_answer(server.url)
        return echo(messages)

    with serving(answer_and_run_again) as server:
        assert run_answer(server.url, "--concurrency", "1") == 0
        assert len(server.requests) == 12
    assert statuses == [2]
    assert "answers.jsonl: is being written by another process" in capsys.readouterr().err


def test_requests_that_were_edited_are_refused(requests, capsys):
    text = requests.read_text(encoding="utf-8")
    requests.write_text(text.replace('"temperature": 0.0', '"temperature": 0.5'), encoding="utf-8")
    with serving() as server:
        assert run_answer(server.url) == 2
        assert server.requests == []
    assert "was changed after it was written: requests.about.json has another SHA-256" in capsys.readouterr().err


def test_an_outage_ends_the_run_and_says_so(requests, capsys):
    with serving() as server:
        url = server.url
    assert run_answer(url, "--concurrency", "1", "--max-retries", "0") == 2
    assert "gave nothing to" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda path: path.write_bytes(b"x"), "is not the image of the request"),
        (lambda path: path.unlink(), "cannot be read"),
    ],
)
def test_no_other_file_is_sent_as_an_image(damage, message, requests, capsys):
    damage(min(Path("pictures").iterdir()))
    with serving() as server:
        assert run_answer(server.url) == 2
    assert message in capsys.readouterr().err


def test_images_go_to_a_third_party_only_by_name_and_licence(requests, monkeypatch, capsys):
    monkeypatch.setattr(access, "is_third_party", lambda host: True)
    about = json.loads(Path("requests.about.json").read_text(encoding="utf-8"))
    about["sources"] = {"vindr_cxr": {}}
    Path("requests.about.json").write_text(json.dumps(about), encoding="utf-8")
    with serving() as server:
        host = "127.0.0.1"
        assert run_answer(server.url) == 2
        assert "--send-images-to 127.0.0.1" in capsys.readouterr().err
        assert run_answer(server.url, "--send-images-to", host) == 2
        assert "source vindr_cxr" in capsys.readouterr().err
        Path("requests.about.json").rename("elsewhere")
        assert run_answer(server.url, "--send-images-to", host, "--i-have-permission", "vindr_cxr") == 2
        assert "requests.about.json" in capsys.readouterr().err
        Path("elsewhere").rename("requests.about.json")
        assert not server.requests
        assert run_answer(server.url, "--send-images-to", host, "--i-have-permission", "vindr_cxr") == 0


@pytest.mark.parametrize("line", ["null", "{}", '{"custom_id": "a"}', "no JSON"])
def test_a_line_that_is_no_request_is_refused_with_its_row(line, requests, capsys):
    lines = requests.read_text(encoding="utf-8").splitlines()
    requests.write_text("\n".join([*lines[:2], line, *lines[2:]]), encoding="utf-8")
    assert run_answer("http://127.0.0.1:9/v1") == 2
    assert "row 3" in capsys.readouterr().err
    assert not Path("answers.jsonl").exists()


@pytest.mark.parametrize("content", ["a note", "a note\n", "a note\nand more", '{"custom": 1}', "{"])
def test_another_file_loses_no_byte(content, requests, capsys):
    Path("answers.jsonl").write_text(content, encoding="utf-8")
    with serving() as server:
        status = run_answer(server.url)
        n_asked = len(server.requests)
    if content == "{":  # as an answer begins
        assert status == 0
    else:
        assert (status, n_asked, Path("answers.jsonl").read_text(encoding="utf-8")) == (2, 0, content)
        assert "answers.jsonl" in capsys.readouterr().err


def test_answers_do_not_go_into_the_file_of_requests(requests, capsys):
    content = requests.read_bytes()
    assert main(["answer", str(requests), "--base-url", "http://127.0.0.1:9/v1", "--out", str(requests)]) == 2
    assert "is the file of requests" in capsys.readouterr().err
    assert requests.read_bytes() == content


def test_a_folder_is_no_file_of_answers(requests, tmp_path, capsys):
    (tmp_path / "folder").mkdir()
    assert (
        main(["answer", str(requests), "--base-url", "http://127.0.0.1:9/v1", "--out", str(tmp_path / "folder")]) == 2
    )
    assert re.search("folder: is a folder\n.*a file for the answers\n.*name one with --out", capsys.readouterr().err)


def test_the_answers_of_a_batch_outlive_its_worker_and_its_run(requests):
    """A repeated batch asks what its file lacks, and the next run takes the answers that were not handed back."""
    batch = {"request": [json.dumps(line) for line in read_lines(requests)[:4]]}
    folder = Path("answers.jsonl.ray")
    folder.mkdir()
    with serving() as server:
        worker = batch_sender._Asker(batch_sender.Server(server.url), str(folder))
        worker(batch)
        (path,) = folder.iterdir()
        lines = path.read_bytes().splitlines(keepends=True)
        path.write_bytes(b"".join(lines[:2]) + lines[2][:50])  # killed while it wrote
        answers = worker(batch)["answer"]
        assert len(server.requests) == 4 + 2
        assert len({json.loads(answer)["custom_id"] for answer in answers}) == 4
        with path.open("ab") as file:
            file.write(lines[0][:50])
        assert run_answer(server.url) == 0
        assert len(server.requests) == 4 + 2 + 8
    assert len(read_lines(Path("answers.jsonl"))) == 12
    assert BatchLM("m", answers=["answers.jsonl"]).generate_until(questions(12)) == [
        f"Answer to Question {number}?" for number in range(12)
    ]
    assert not folder.exists()


@pytest.mark.full
def test_a_killed_worker_of_ray_loses_nothing(requests):
    psutil = pytest.importorskip("psutil")
    is_killed = threading.Event()

    def kill_a_worker():
        while not is_killed.is_set():
            for process in psutil.Process(os.getpid()).children(recursive=True):
                with suppress(psutil.Error):  # the process has ended
                    if "_Asker" in " ".join(process.cmdline()) and len(server.requests) >= 2:
                        process.kill()
                        is_killed.set()
                        return
            time.sleep(0.02)

    def say(messages):
        if len(server.requests) >= 2:
            is_killed.wait(60)  # so that a worker is killed in the middle, however busy the machine is
        return echo(messages)

    with serving(say) as server:
        threading.Thread(target=kill_a_worker, daemon=True).start()
        assert run_answer(server.url, "--ray", "--concurrency", "1") == 0
    assert is_killed.is_set()
    assert BatchLM("m", answers=["answers.jsonl"]).generate_until(questions(12)) == [
        f"Answer to Question {number}?" for number in range(12)
    ]
