"""A truncated answer is scored in full on every road, and its document tells the filters that it is cut.

A tiny model in medfaith-hf-vlm and a local server give the same answers, token by token.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import lm_eval
import pytest
import transformers
from lm_eval.filters.custom import CustomFilter
from lm_eval.tasks import TaskManager

from medfaith import tasks
from medfaith.tasks.contrabench import prompts
from medfaith.tasks.models.chat_form import read
from medfaith.tasks.models.vlm.hf_vlm import HFVisionLM
from medfaith.tasks.outcomes import is_cut
from tests.support.tasks.evaluating import load
from tests.support.tasks.server_scene import serving, texts_of

TASK = "medfaith_contrabench_openi_report_absence"
ROWS, LIMIT, STOP = 14, 24, "\n\n"
LONG = "The answer is B. I looked at the heart, at both lungs and at the mediastinum, and then once more."
LIST = "A. Pleural effusion is seen at the left base.\nB. No consolidation is seen.\nC. Let me look again."
# Generated text, scored text (None: all) and outcome, cycled over the rows. A number: that many tokens of LONG.
SCRIPT: list[tuple[str | int, str | None, str]] = [
    ("C", "C", "answered"),
    (LONG, None, "cut"),
    (LIST, None, "cut"),
    (f"B{STOP}Which finding is absent? A. Edema B. No edema C. Nodule", "B", "answered"),
    (LIMIT - 1, None, "answered"),  # the end token is the last one within the limit
    (LIMIT, None, "cut"),
    ("", "", "empty"),
    (" \n", "", "empty"),
]


class Script:
    """The tokens of the answer to a prompt, which both roads emit in their own way."""

    def __init__(self, tokenizer: Any, questions: Sequence[str]) -> None:
        self.tokenizer, self._questions = tokenizer, list(dict.fromkeys(questions))

    def __call__(self, prompt: str) -> list[int]:
        """Return the tokens of an answer, without the end token."""
        (number,) = [n for n, question in enumerate(self._questions) if question in prompt]
        content = SCRIPT[number % len(SCRIPT)][0]
        tokens = self.tokenizer(LONG if isinstance(content, int) else content)["input_ids"]
        return tokens[:content] if isinstance(content, int) else tokens

    def get_expected(self, doc: Mapping[str, Any]) -> tuple[str, str]:
        """Return the scored text and the outcome of a document."""
        tokens = self(format_question(doc))
        number = self._questions.index(format_question(doc)) % len(SCRIPT)
        _, text, outcome = SCRIPT[number]
        return self.tokenizer.decode(tokens[:LIMIT]) if text is None else text, outcome


def format_question(doc: Mapping[str, Any]) -> str:
    return prompts.b0(doc).replace("<image>", "").strip()


@pytest.fixture(scope="module")
def script(vlms, phantom_build, phantom_roots) -> Script:
    docs = load([TASK], phantom_build, phantom_roots)["tasks"][TASK].test_docs()
    tokenizer = transformers.AutoTokenizer.from_pretrained(vlms["llava"])
    return Script(tokenizer, [format_question(docs[row]) for row in range(ROWS)])


@contextmanager
def load_scripted_model(vlms: Mapping[str, Path], script: Script, store: Path) -> Iterator[tuple[Any, list[Any]]]:
    """Yield a medfaith-hf-vlm that can only generate the script, and the list of its batches."""
    lm: Any = HFVisionLM(str(vlms["llava"]), dtype="float32", device="cpu", batch_size=4, answers=str(store))
    generate, batches = lm.model.generate, []

    def generate_scripted(**inputs: Any) -> Any:
        texts = lm.tokenizer.batch_decode(inputs["input_ids"], skip_special_tokens=True)
        start, answers = inputs["input_ids"].shape[1], [[*script(text), lm.tokenizer.eos_token_id] for text in texts]
        batches.append(texts)

        def choose_tokens(row: int, tokens: Any) -> list[int]:
            return answers[row][len(tokens) - start :][:1] or answers[row][-1:]

        return generate(**inputs, prefix_allowed_tokens_fn=choose_tokens)

    lm.model.generate = generate_scripted
    yield lm, batches


@contextmanager
def start_scripted_server(_: Any, script: Script, store: Path) -> Iterator[tuple[Any, list[Any]]]:
    """Yield a medfaith-server whose server answers from the script, and the list of its requests."""

    def send_scripted(request: dict[str, Any]) -> Callable[[Any], None]:
        tokens = script(texts_of(request["messages"]))
        finish = "length"
        text = script.tokenizer.decode(tokens[: request["max_tokens"]])
        for stop in request["stop"]:
            text, *stopped = text.split(stop, 1)
            finish = "stop" if stopped or len(tokens) < request["max_tokens"] else "length"
        choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": finish}
        body = {"id": "1", "object": "chat.completion", "model": "m", "choices": [choice]}
        return lambda handler: handler.send(200, body)

    with serving(fault=send_scripted) as server:
        yield server.lm(answers=str(store)), server.requests


ROADS = {"medfaith-hf-vlm": load_scripted_model, "medfaith-server": start_scripted_server}


def evaluate_rows(lm: Any, data: Path, roots: Mapping[str, Path]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Evaluate the first rows with lm-eval and return scores and samples."""
    metadata = {"data": str(data), "roots": {name: str(root) for name, root in roots.items()}}
    results: Any = lm_eval.simple_evaluate(
        lm, tasks=[TASK], limit=ROWS, bootstrap_iters=0, apply_chat_template=True, metadata=metadata,
        gen_kwargs={"max_gen_toks": LIMIT, "until": [STOP]},
        task_manager=TaskManager(include_path=str(tasks.include_path()), include_defaults=False, metadata=metadata),
    )  # fmt: skip
    return results["results"][TASK], sorted(
        results["samples"][TASK], key=lambda sample: (sample["filter"], sample["doc_id"])
    )


@pytest.mark.full
def test_every_road_scores_the_same_texts_and_says_which_are_cut(
    vlms, script, phantom_build, phantom_roots, tmp_path, monkeypatch, capsys
):
    """New and stored answers give the same results: filters see which answers are cut, and row hashes are equal."""
    apply, views = CustomFilter.apply, []  # views: inputs of each filter

    def apply_and_record(filter_: CustomFilter, resps: Any, docs: Any) -> Any:
        views.append([(resp[0], is_cut(doc)) for resp, doc in zip(resps, docs, strict=True)])
        return apply(filter_, resps, docs)

    monkeypatch.setattr(CustomFilter, "apply", apply_and_record)
    runs = {}
    for name, road in ROADS.items():
        with road(vlms, script, tmp_path / name) as (lm, requests):
            for when in ("new", "kept"):
                views.clear()
                scores, samples = evaluate_rows(lm, phantom_build, phantom_roots)
                logged = [(sample["resps"][0][0], sample["doc"]["answer_outcome"]) for sample in samples]
                assert logged == [script.get_expected(sample["doc"]) for sample in samples], (name, when)
                assert len(views) == 4  # one per filter
                assert all(view == [(text, end == "cut") for text, end in logged[:ROWS]] for view in views), (
                    name,
                    when,
                )
                assert "are incomplete: 3 empty, 5 cut; a cut answer is read by its" in capsys.readouterr().err
                runs[name, when] = scores, [(sample["doc_hash"], sample["filtered_resps"]) for sample in samples]
            assert len(requests) == (ROWS if name == "medfaith-server" else 4)
    expected_run = runs["medfaith-hf-vlm", "new"]
    assert all(run == expected_run for run in runs.values())
    assert {outcome for _, _, outcome in SCRIPT} == {"answered", "cut", "empty"}


@pytest.mark.parametrize(
    ("content", "finish", "text", "outcome"),
    [
        ("B. I think", "length", "B. I think", "cut"),
        ("B. I think", "max_tokens", "B. I think", "cut"),
        ("B!\nQuestion:", "length", "B!", "answered"),  # a stop string after the four in the request
        ("\nQuestion:", "length", "", "empty"),
        ("\nB", "stop", "", "empty"),
        ("", "length", "", "cut"),  # reasoning used all tokens
    ],
)
def test_a_stop_string_ends_an_answer_before_its_limit(content: str, finish: str, text: str, outcome: str):
    reply = read({"choices": [{"message": {"content": content}, "finish_reason": finish}]}, stops=["\n"])
    assert (reply.scored, reply.outcome) == (text, outcome)
