"""Local models give hf-multimodal's answers, store them, and reuse them only for the same question."""

from __future__ import annotations

import json
import multiprocessing
import os
import re
import shutil
import signal
import sqlite3
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from lm_eval.api.instance import Instance
from lm_eval.models.hf_vlms import HFMultimodalLM
from tokenizers import normalizers

from medfaith.cli import main
from medfaith.eval import with_store
from medfaith.loaders.errors import InputError
from medfaith.tasks.models.answer_store import AnswerStore, StoredReply
from medfaith.tasks.models.chat_form import Reply
from medfaith.tasks.models.vlm.explained_vlm import ExplainedVLM
from medfaith.tasks.models.vlm.hf_vlm import HFVisionLM
from medfaith.tasks.models.vlm.weights import hash_weights
from tests.support.builders.files import root_words
from tests.support.tasks import asking
from tests.support.tasks.asking import scored, shade
from tests.support.tasks.evaluating import samples_of
from tests.support.tasks.tiny_models import PLACEHOLDER

CUT = "medfaith: WARNING: the first 20 answers are all cut at the limit of tokens, such as"


make_request = partial(asking.asked, max_gen_toks=3)


def make_questions(n: int = 20) -> list[Instance]:
    """Make questions of several lengths; every third has a different token limit."""
    return [
        make_request(
            f"<image>Is there {'no ' * (row % 4)}edema?", [shade(12 * row)], row, max_gen_toks=2 + (not row % 3)
        )
        for row in range(n)
    ]


def load(folder: Path, model: Any = HFVisionLM, batch_size: int = 3, **arguments: Any) -> Any:
    arguments = {"dtype": "float32", "image_string": PLACEHOLDER[folder.name], **arguments}
    return model(str(folder), device="cpu", batch_size=batch_size, **arguments)


def record_batches(lm: Any, kill_at: int = 0) -> list[list[Any]]:
    """Return a list that grows with each batch that the model generates or scores: its tokens and pixels."""
    batches: list[list[Any]] = []

    def record(_module: Any, _args: Any, inputs: dict[str, Any]) -> None:
        if inputs.get("pixel_values") is not None or inputs.get("mm_encoder_outputs") is not None:  # the first token's
            batches.append(
                [inputs[name].tolist() for name in ("input_ids", "pixel_values") if inputs.get(name) is not None]
            )
            if len(batches) == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)

    lm.model.register_forward_pre_hook(record, with_kwargs=True)
    return batches


@pytest.mark.full
def test_a_killed_run_goes_on_in_the_same_batches_and_asks_nothing_twice(vlms, tmp_path, capsys):
    lm = load(vlms["llava"], HFMultimodalLM)
    expected_batches = record_batches(lm)
    expected = lm.generate_until(make_questions(), disable_tqdm=True)
    child = os.fork()
    if not child:
        lm = load(vlms["llava"], answers=str(tmp_path / "a"))
        record_batches(lm, kill_at=4)
        lm.generate_until(make_questions(), disable_tqdm=True)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL
    lm = load(vlms["llava"], answers=str(tmp_path / "a"))
    batches = record_batches(lm)
    assert lm.generate_until(make_questions(), disable_tqdm=True) == expected
    assert batches == expected_batches[3:]
    assert len(expected_batches) > 6
    assert lm.generate_until(make_questions(), disable_tqdm=True) == expected
    assert len(batches) == len(expected_batches) - 3
    assert capsys.readouterr().err.count(CUT) == 1, "once a run, with what an earlier run was answered"
    with sqlite3.connect(tmp_path / "a") as database:
        rows = database.execute("SELECT task, row, outcome, reply FROM answers").fetchall()
    assert sorted(row[:3] for row in rows) == sorted(("task", f"row {number}", "cut") for number in range(20))
    assert {json.loads(row[3])["answer_tokens"] for row in rows} == {2, 3}


@pytest.mark.full  # another run
def test_without_a_file_the_batches_are_hf_multimodals(vlms):
    theirs, ours = load(vlms["qwen2_5_vl"], HFMultimodalLM), load(vlms["qwen2_5_vl"])
    batches = [record_batches(lm) for lm in (theirs, ours)]
    answers = [lm.generate_until([*make_questions(7), *make_questions(2)], disable_tqdm=True) for lm in (theirs, ours)]
    assert answers[0] == answers[1]
    assert batches[0] == batches[1]


def update_generation(folder: Path) -> None:
    path = folder / "generation_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"repetition_penalty": 1.5}))


def update_configuration(folder: Path) -> None:
    path = folder / "config.json"
    config = json.loads(path.read_text())
    path.write_text(json.dumps(config | {"text_config": config["text_config"] | {"rms_norm_eps": 0.1}}))


def update_weights(folder: Path) -> None:
    model = transformers.AutoModelForImageTextToText.from_pretrained(folder)
    with torch.no_grad():
        model.lm_head.weight.mul_(1.01)
    model.save_pretrained(folder)


def update_preprocessing(folder: Path) -> None:
    processor = transformers.AutoProcessor.from_pretrained(folder)
    processor.image_processor.image_mean = [0.5, 0.5, 0.5]
    processor.save_pretrained(folder)


def update_tokens(folder: Path) -> None:
    tokenizer: Any = transformers.AutoTokenizer.from_pretrained(folder)
    tokenizer.backend_tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.save_pretrained(folder)


QUESTION = make_request("<image>Is it edema?", [shade(1)])
# Change -> the model's arguments, the edit of its folder, the request, whether the model is asked again.
CHANGES: dict[str, tuple[dict[str, Any], Any, Instance, bool]] = {
    "nothing": ({}, None, QUESTION, False),
    "another row": ({}, None, make_request("<image>Is it edema?", [shade(1)], 7), False),
    "batch size": ({"batch_size": 1, "max_batch_size": 4}, None, QUESTION, False),
    "with heatmaps of other rows": ({"model": ExplainedVLM, "store": "maps"}, None, QUESTION, False),
    "a pixel": ({}, None, make_request("<image>Is it edema?", [shade(2)]), True),
    "the image's shape": ({}, None, make_request("<image>Is it edema?", [shade(1, (4, 6))]), True),
    "prompt": ({}, None, make_request("<image>Is it edema ?", [shade(1)]), True),
    "limit": ({}, None, make_request("<image>Is it edema?", [shade(1)], max_gen_toks=4), True),
    "stop": ({}, None, make_request("<image>Is it edema?", [shade(1)], until=["!"]), True),
    "resize": ({"image_max_side": 20}, None, QUESTION, True),
    "another argument": ({"max_length": 1000}, None, QUESTION, True),
    "dtype": ({"dtype": "bfloat16"}, None, QUESTION, True),
    "weights": ({}, update_weights, QUESTION, True),
    "tokens": ({}, update_tokens, QUESTION, True),
    "preprocessing": ({}, update_preprocessing, QUESTION, True),
    "generation": ({}, update_generation, QUESTION, True),
    "configuration": ({}, update_configuration, QUESTION, True),
}


@pytest.mark.full  # test_server.py has the same of a server
def test_only_the_same_question_gets_a_kept_answer(vlms, tmp_path):
    """All model folders have the same name; their location does not matter."""
    answers = str(tmp_path / "answers")
    load(vlms["llava"], answers=answers).generate_until([QUESTION], disable_tqdm=True)
    for number, (name, (arguments, change, request, is_asked)) in enumerate(CHANGES.items()):
        folder = shutil.copytree(vlms["llava"], tmp_path / str(number) / "llava")
        if change:
            change(folder)
        model_arguments = arguments | ({"store": str(tmp_path / "maps")} if "store" in arguments else {})
        lm = load(folder, **model_arguments, answers=str(shutil.copy(answers, tmp_path / str(number))))
        batches = record_batches(lm)
        lm.generate_until([request], disable_tqdm=True)
        assert bool(batches) == is_asked, name


def test_what_ends_at_the_limit_is_cut_unless_the_model_or_a_stop_string_ended_it(vlms):
    lm = load(vlms["llava"])
    tokens, end = lm.tokenizer("Edema, I see")["input_ids"], lm.tokenizer.eos_token_id
    text, limit = "Edema, I see", len(tokens)
    outcomes = [
        lm._reply(*reply_arguments)[::6]  # outcome, number of tokens
        for reply_arguments in (
            (text, tokens, limit),
            (text, tokens, limit + 1),
            (text, [*tokens, end, 0, 0], limit + 3),
            (text, [*tokens, end], limit + 1),
            ("Edema", tokens, limit),
            ("", [end, 0], 2),
        )
    ]
    n = limit
    assert outcomes == [("cut", n), ("answered", n), ("answered", n), ("answered", n), ("answered", n), ("empty", 0)]


def test_draws_are_kept_by_seed_and_copies_of_a_row_by_number(vlms, tmp_path):
    lm = load(vlms["llava"], answers=str(tmp_path / "a"))
    batches = record_batches(lm)
    row = make_request("<image>Is it edema?", [shade(1)], do_sample=True, temperature=5.0, max_gen_toks=8)
    draws = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        draws.append(lm.generate_until([row] * 3, disable_tqdm=True))
    assert draws[0] == draws[1] != draws[2]
    assert len({*draws[0]}) == 3
    assert len(batches) == 2


def test_scores_of_options_are_kept(vlms, tmp_path):
    def make_options(level: int) -> list[Instance]:
        texts = (" Edema", " No edema")
        return [scored("<image>Which?", text, [shade(level)], level, place) for place, text in enumerate(texts)]

    expected = load(vlms["llava"]).loglikelihood([*make_options(1), *make_options(2)], disable_tqdm=True)
    lm = load(vlms["llava"], answers=str(tmp_path / "a"))
    batches = record_batches(lm)
    first_scores = lm.loglikelihood(make_options(1), disable_tqdm=True)
    assert len(batches) == 1
    scores = lm.loglikelihood([*make_options(1), *make_options(2)], disable_tqdm=True)
    assert scores[:2] == first_scores
    np.testing.assert_allclose(scores, expected, rtol=1e-5)
    assert len(batches) == 2
    assert lm.loglikelihood([*make_options(2), *make_options(1)], disable_tqdm=True) == scores[2:] + scores[:2]
    assert lm.generate_until([make_request("<image>Which?", [shade(1)])], disable_tqdm=True)
    assert len(batches) == 3, "an answer is no score"
    states = load(vlms["llava"], answers=str(tmp_path / "a"), states_path=str(tmp_path / "states.npz"))
    batches = record_batches(states)
    states.loglikelihood(make_options(1), disable_tqdm=True)
    assert len(batches) == 1


def _write(path: Path, process: int, gate: Any) -> None:
    gate.wait()
    with AnswerStore(path) as store:
        for batch in range(20):
            store.put(
                *(StoredReply(f"{process} {batch} {n}", Reply("answered", "A"), "task", str(n)) for n in range(5))
            )


def test_several_processes_write_one_file(tmp_path):
    """All processes create and open the file at the same moment."""
    fork = multiprocessing.get_context("fork")
    gate = fork.Barrier(4)
    writers = [fork.Process(target=_write, args=(tmp_path / "new" / "a", n, gate)) for n in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert [writer.exitcode for writer in writers] == [0] * 4
    with sqlite3.connect(tmp_path / "new" / "a") as database:
        assert database.execute("SELECT count(*) FROM answers").fetchone() == (400,)


@pytest.mark.parametrize(
    ("arguments", "added"),
    [
        (["--model", "medfaith-server"], ["answers"]),
        (["--model=medfaith-hf-vlm", "--model_args", "pretrained=x"], ["answers"]),
        (["-M", "medfaith-explained-vlm"], ["store", "answers"]),
        (["--model", "medfaith-explained-vlm", "--model_args", "pretrained=x,answers=b"], ["store"]),
        (["--model", "medfaith-explained-vlm", "--model_args=answers=b"], ["store"]),
        (["--model", "medfaith-explained-vlm", "--model_args", '{"pretrained": "x", "answers": "b"}'], ["store"]),
        (["--model", "medfaith-server", "--model_args", "model=x,max_answers=5"], ["answers"]),
        (["--model", "medfaith-server", "--model_args", "model=my-answers=1"], ["answers"]),
        (["--model=medfaith-contrastive", "--model_args", "pretrained=x"], ["store"]),
        (["--model_args", "pretrained=x", "--model", "medfaith-alignment"], ["store"]),
        (["--model", "oracle"], ["store"]),
        (["--model", "hf-multimodal", "--model_args", "pretrained=x"], []),
        ([], []),
    ],
)
def test_models_are_given_the_places_for_what_they_keep(arguments, added):
    places = {"store": "MAPS", "answers": "OUT, of today/answers.sqlite"}
    extended = with_store(arguments, "MAPS", Path("OUT, of today"))
    assert extended[: len(arguments)] == arguments
    model_args = [word for word in extended[len(arguments) :] if word != "--model_args"]
    assert [json.loads(word) for word in model_args] == [{name: places[name] for name in added}][: len(model_args)]
    assert bool(model_args) == bool(added)
    assert with_store(arguments, "MAPS", None)[len(arguments) :] == (
        ["--model_args", '{"store": "MAPS"}'] if "store" in added else []
    )


@pytest.mark.parametrize("table", ["replies", "answers"])
def test_a_database_of_another_program_is_refused_and_unchanged(table, tmp_path):
    path = tmp_path / "replies.sqlite"
    with closing(sqlite3.connect(path)) as database, database:
        database.execute(f"CREATE TABLE {table} (key TEXT PRIMARY KEY, reply TEXT NOT NULL)")
    before = path.read_bytes()
    expected = (
        f"{path}: is no store of answers (its tables are of another kind: {table})",
        "  expected: a new file, or one in which this version of medfaith stored answers",
        "  what to do: move it away, and its answers are asked for again; or name another with --cache FILE",
    )
    with pytest.raises(InputError, match=re.escape("\n".join(expected))):
        AnswerStore(path, "--cache FILE")
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


def test_a_file_that_is_no_store_is_refused_before_the_weights_are_loaded(tmp_path):
    (tmp_path / "broken").write_text("no database" * 100)
    with pytest.raises(InputError, match="is no store of answers"):
        load(tmp_path / "not here" / "llava", answers=str(tmp_path / "broken"))


def test_weights_that_lie_elsewhere_have_the_same_digest():
    from accelerate import cpu_offload

    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.BatchNorm1d(8))
    before = hash_weights(model)
    moved = cpu_offload(model, torch.device("cpu"), offload_buffers=True)
    assert all(weight.is_meta for weight in moved.parameters())
    assert hash_weights(moved) == before


def test_medfaith_eval_keeps_the_answers_beside_its_results(vlms, phantom_build, phantom_roots, tmp_path, capsys):
    """The second command generates nothing and writes the same log."""
    task = "medfaith_contrabench_openi_report_absence"
    command = ["eval", "--data", str(phantom_build), *root_words(phantom_roots), "--tasks", task, "--limit", "20"]
    command += ["--model", "medfaith-hf-vlm", "--model_args", f"pretrained={vlms['llava']},dtype=float32"]
    command += ["--apply_chat_template", "--gen_kwargs", "max_gen_toks=2", "--batch_size", "4", "--device", "cpu"]
    command += ["--log_samples", "--output_path", str(tmp_path)]
    logs = []
    for allowed in (True, False):
        with pytest.MonkeyPatch.context() as patch:
            if not allowed:
                patch.setattr(HFVisionLM, "_generated", lambda *_: pytest.fail("asked twice"))
            assert main(command) == 0
        assert CUT in capsys.readouterr().err
        logs.append(
            [
                (sample["doc_id"], sample["resps"], sample["doc"]["n_images_sent"])
                for sample in samples_of(tmp_path, task)
            ]
        )
    assert logs[0] == logs[1]
    assert len(list(tmp_path.glob("answers.sqlite"))) == 1
