"""The language model that reads answers a second time: the store of its replies, and a tiny local model."""

import sqlite3

import pytest

from medfaith.evaluate_metrics.reading.language_model import diseases
from medfaith.extractor import language_model, load_chat
from medfaith.loaders.errors import InputError, MedfaithError
from medfaith.tasks.models.answer_store import AnswerStore
from tests.support.chat import chat_server, save_tiny_llama

TEXTS = ["Edema and nodules", "The heart is normal", None, "Edema and nodules", " ", "Cardiomegaly"]


def test_a_stopped_run_goes_on_where_it_was(tmp_path):
    cache, fails_from = tmp_path / "new" / "replies.sqlite", 3

    def read(model="m", vocabulary=("Edema",)):
        n_before = len(requests)
        extractor = language_model(model, url=url, cache=cache)
        return diseases(TEXTS, extractor.ask, vocabulary), len(requests) - n_before

    with chat_server(lambda messages: '["Edema"]', lambda n: 404 if n == fails_from else 200) as (url, requests):
        with pytest.raises(MedfaithError, match=r"extractor m: .*404: "):
            read()
        (readings, n_resumed), (stored_readings, n_again) = read(), read()
        assert (n_resumed, n_again) == (1, 0)
        assert readings == stored_readings
        # Another model or another vocabulary is another question.
        assert (read(model="m2")[1], read(vocabulary=("Edema", "ILD"))[1]) == (3, 3)
    with AnswerStore(cache) as store:
        assert store.n_answers == 9
    with sqlite3.connect(cache) as database:
        rows = database.execute("SELECT key, task, row, outcome FROM answers").fetchall()
    assert {row[1:] for row in rows} == {("second reading", "", "answered")}
    assert "nodules" not in str(rows)


def test_a_cache_of_an_earlier_state_is_refused_before_anything_is_read(tmp_path):
    with sqlite3.connect(tmp_path / "replies") as database:
        database.execute("CREATE TABLE replies (key TEXT PRIMARY KEY, reply TEXT NOT NULL)")
    with pytest.raises(InputError, match=r"replies: is no store of answers(.|\n)*another with --extractor-cache FILE"):
        language_model("m", cache=tmp_path / "replies")


def test_a_local_model_replies_the_same_each_time(tmp_path):
    folder = str(save_tiny_llama(tmp_path / "llama"))
    complete = load_chat(folder, max_new_tokens=8)
    prompt = [{"role": "user", "content": "Edema?"}]
    assert complete(prompt) == complete(prompt) != ""
    assert "user:" not in complete(prompt)  # the reply, not the prompt
