"""Errors that `medfaith eval` raises before it loads a model, each with a remedy."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import lm_eval
import pytest
from huggingface_hub import constants
from lm_eval.models.openai_completions import LocalChatCompletion

from medfaith.cli import main
from medfaith.eval import with_host
from medfaith.loaders.errors import InputError, MedfaithError
from medfaith.tasks import model_files, preflight
from medfaith.tasks.hub_access import is_cached
from medfaith.tasks.index import drop_repeats, is_complete, select_tasks
from medfaith.tasks.models.server import access as server_access
from medfaith.tasks.row_store import read
from tests.support.builders.files import root_words
from tests.support.chat import chat_server
from tests.support.tasks.evaluating import load

PRESENCE, OPENI = "medfaith_contrabench_chexpert_presence", "medfaith_contrabench_openi_report_absence"
TRAINING = [f"medfaith_heal_vindr_{ask}_train" for ask in ("closed", "open", "tpt", "vpt")]
HF = ["--model", "hf-multimodal", "--model_args"]
CHAT = ["--model", "local-chat-completions", "--apply_chat_template", "--model_args"]


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    """The files of a model that are checked before it is loaded."""
    folder = tmp_path_factory.mktemp("model")
    (folder / "config.json").write_text('{"model_type": "llava"}')
    (folder / "chat_template.jinja").write_text("{{ messages }}")
    return folder


@pytest.fixture(scope="module")
def server() -> Iterator[tuple[str, list[Any]]]:
    """Address of a server that must receive no request, and its list of requests."""
    with chat_server(lambda messages: "A") as served:
        yield served


@pytest.fixture
def refused(phantom_build, phantom_roots, model, server, monkeypatch, capsys):
    """Run `medfaith eval` and return its error; MODEL and URL in the arguments are replaced by a model and a server."""

    def run(arguments: list[str], *, roots: bool = True, data: object = phantom_build) -> str:
        for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
            monkeypatch.delenv(name, raising=False)
        resolved = [word.replace("MODEL", str(model)).replace("URL", server[0]) for word in arguments]
        options = [*root_words(phantom_roots if roots else {}), *resolved]
        assert main(["eval", "--data", str(data), *options]) == 2
        assert not server[1]
        return capsys.readouterr().err

    return run


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--model", "orakle"], "no such model type(.|\n)*did you mean oracle"),
        ([*HF, "dtype=float32"], "pretrained=MODEL"),
        ([*HF, "pretrained=/no/such"], "pretrained=/no/such: there is no such folder"),
        ([*HF, "pretrained=~/such"], "write your home in full"),
        ([*HF, "pretrained=no/such"], "the Hub cannot be reached(.|\n)*hf download no/such"),
        ([*HF, "pretrained=MODEL,device=cpu"], "device=: lm_eval has an option(.|\n)*--device"),
        ([*HF, "pretrained=MODEL", "--batch_size", "auto"], "--batch_size 8"),
        ([*HF, "pretrained=MODEL", "--batch_size", "0"], "is '0'\n  expected: a positive whole number"),
        ([*HF, "pretrained=MODEL,load_in_4bit=True"], "needs bitsandbytes(.|\n)*pip install bitsandbytes"),
        (["--model", "vllm-vlm", "--model_args", "pretrained=MODEL"], r"needs vllm(.|\n)*lm-eval\[vllm\]"),
        (["--model", "litellm", "--model_args", "model=x"], "needs litellm"),
        (["--model", "openai-chat-completions", "--model_args", "model=x"], "set OPENAI_API_KEY"),
        (["--model", "anthropic-chat", "--model_args", "model=x"], "set ANTHROPIC_API_KEY"),
        ([*CHAT, "base_url=http://127.0.0.1:9/v1/chat/completions"], "names no model"),
        ([*CHAT, "model=x"], "names no server"),
        ([*CHAT, "model=x,base_url=http://127.0.0.1:9/v1"], "base_url=http://127.0.0.1:9/v1/chat/completions"),
        ([*CHAT, "model=x,base_url=http://127.0.0.1:9/v1/chat/completions"], "refused(.|\n)*start the server"),
        (["--model", "local-chat-completions", "--model_args", "model=x"], "add --apply_chat_template"),
        (["--model", "oracle", "--num_fewshot", "2"], "ignore it(.|\n)*3shot"),
        *((["--model", "oracle", f"--limit={limit}"], f"--limit: is {limit}\n  expected: a whole number of rows from 1")
          for limit in ("0", "-1", "1.5", "nan", "inf")),
        *((["--model", "oracle", "--samples", samples], r'--samples: is .*\n  expected: {"TASK": \[0, 7\]}')
          for samples in ("[1", "{}", "[]", "nosuch.json", f'{{"{PRESENCE}": []}}', f'{{"{PRESENCE}": [-1]}}',
                          f'{{"{PRESENCE}": ["a"]}}', f'{{"{PRESENCE}": 1}}')),
        (["--model", "oracle", "--samples", '{"nosuch": [1]}'], f"nosuch is no task of --tasks\n.* {PRESENCE}"),
        (["--model", "oracle", "--samples", f'{{"{PRESENCE}": [0, 99999]}}'], "has no row 99999\n  expected: 0 to"),
        (["--model", "oracle", "--samples", f'{{"{PRESENCE}": [0]}}', "--rows", "ROWS"], "--samples: .* does --rows"),
        (["--model", "oracle", "--model_args", "decoding=vcd"], "decoding=vcd: --model oracle(.|\n)*medfaith-hf-vlm"),
        (["--model", "dummy"], "--model dummy: takes no images(.|\n)*use hf-multimodal"),
        (["--model", "vllm"], "--model vllm: takes no images(.|\n)*use vllm-vlm"),
        pytest.param(["--model", "hf-audiolm-qwen"], "cannot be imp(.|\n)*use hf-multimodal", marks=pytest.mark.full),
        (["--model", "oracle", "--tasks", "nosuch"], "Tasks not found: nosuch\n.*medfaith tasks --list"),
    ],
)  # fmt: skip
def test_options_that_cannot_work(arguments, message, refused, phantom_build, tmp_path):
    row_id = read("cxr-contrabench-chexpert", "chexpert_presence", "validation", str(phantom_build))[0]["id"]
    (tmp_path / "rows.csv").write_text(f"id\n{row_id}\n")
    resolved = [word.replace("ROWS", str(tmp_path / "rows.csv")) for word in arguments]
    err = refused(["--tasks", PRESENCE, *resolved, "--output_path", str(tmp_path / "out")])
    assert not (tmp_path / "out").exists()
    assert re.search(message, err), err
    assert "WARNING" not in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([*HF, "pretrained=MODEL", "--tasks", "medfaith_contrabench_y1"], "no such task(.|\n)*medfaith_contrabench_y0"),
        (["--model", "oracle", "--tasks", "contrabench"], "no such task(.|\n)*did you mean medfaith_contrabench"),
        ([*HF, "pretrained=MODEL", "--tasks", "medfaith_contrabench_option_scores"], "--model medfaith-hf-vlm"),
        (
            [*HF, "pretrained=MODEL,max_images=1", "--tasks", OPENI],
            "keeps 1 of(.|\n)*with up to 3\n(.|\n)*max_images=3",
        ),
        ([*HF, "pretrained=MODEL,max_images=two", "--tasks", OPENI], "is 'two'\n  expected: a whole number"),
        (["--model", "medfaith-contrastive", "--tasks", OPENI], "keeps 1 of(.|\n)*: --images first(.|\n)*hf-vlm"),
        ([*CHAT, "model=x,base_url=URL/chat/completions", "--tasks", OPENI], "keeps 1 of(.|\n)*--images first"),
        ([*CHAT, "model=x,base_url=URL/chat/completions,max_images=9", "--tasks", OPENI], "before the text, and"),
        ([*HF, "pretrained=MODEL", "--tasks", "medfaith_heal_vindr"], "holds no heal-medvqa-vindr_cxr"),
    ],
)
def test_tasks_that_a_model_cannot_be_asked(arguments, message, refused):
    err = refused(arguments)
    assert re.search(message, err), err
    assert ("has a chat template, and" in err) == (arguments[:3] == HF)


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ("medfaith_heal_vindr_closed", ["medfaith_heal_vindr_closed"]),
        ("medfaith_heal_vindr*", ["medfaith_heal_vindr", "medfaith_heal_vindr_stated_boxes", *TRAINING]),
        (["medfaith_heal_vindr_closed,medfaith_heal_vindr", "arc_easy"], ["medfaith_heal_vindr", "arc_easy"]),
        ("medfaith_heal_vindr_*en", ["medfaith_heal_vindr_open"]),
    ],
)
def test_each_task_is_asked_once(names, expected):
    assert sorted(drop_repeats(names)) == sorted(expected)


OWN_TASKS = {
    "plain": "task: my_closed\ndataset_kwargs: {}\ntag: [my_tag, medfaith_tag]\n",
    "group": "group: my_group\ntask: [my_closed, medfaith_heal_vindr]\n",
    "inline": "group: my_inline\ntask:\n- {task: mine, dataset_kwargs: {}}\n",
    "mixed": "group: my_mixed\ntask: [my_group, arc_easy]\n",
    "changed": "group: my_changed\ntask:\n- {task: arc_easy, num_fewshot: 2}\n",
    "nested": "group: my_nested\ntask: [my_mixed]\n",
}


@pytest.mark.parametrize(
    ("names", "is_without_lm_evals"),
    [
        ("medfaith_heal_vindr", True),
        (["medfaith_heal_vindr*,my_closed", "my_group"], True),
        ("my_inline", True),
        ("medfaith_tag", True),
        ("my_tag", False),  # lm-eval's own tasks may have it, too
        ("my_mixed", False),
        ("my_changed", False),
        ("my_nested", False),
        ("my_closed,arc_easy", False),
        ("some/file.yaml", False),
    ],
)
def test_lm_evals_own_tasks_are_read_if_a_name_needs_them(names, is_without_lm_evals, tmp_path):
    for name, text in OWN_TASKS.items():
        (tmp_path / f"{name}.yaml").write_text(text)
    assert is_complete(names, tmp_path) is is_without_lm_evals


def test_all_tasks_of_a_pattern_are_asked():
    names = {task.name for task in select_tasks("medfaith_heal_*")}
    assert {task.name for task in select_tasks(drop_repeats("medfaith_heal_*"))} == names


def test_lm_evals_clients_are_held_to_the_terms_of_the_sources(refused, monkeypatch):
    monkeypatch.setattr(server_access, "is_third_party", lambda host: True)
    options = [*CHAT, "model=x,base_url=URL/chat/completions", "--images", "first", "--tasks", PRESENCE]
    assert "add --send-images-to 127.0.0.1" in refused(options)
    options += ["--send-images-to", "127.0.0.1"]
    assert "chexpert: its terms do not let" in refused(options)
    assert "chexpert: its terms do not let" in refused([*options, "--i-have-permission", "openi"])
    host_options = {"send_images_to": "example.org", "i_have_permission": ["chexpert", "mimic_cxr"]}
    server = ["--model", "medfaith-server"]
    model_args = "send_images_to=example.org,i_have_permission=chexpert+mimic_cxr"
    assert with_host(server, host_options) == [*server, "--model_args", model_args]
    assert with_host(server, {}) == server
    assert with_host(CHAT, host_options) == CHAT


def test_data_and_roots_that_are_not_there(refused):
    options = [*HF, "pretrained=MODEL", "--apply_chat_template", "--tasks", PRESENCE]
    assert "there is no such folder" in refused(options, data="./nosuch")
    assert "and the Hub cannot be reached" in refused(options, data="nosuch")
    assert "how to get it" in refused(options, roots=False)


@pytest.mark.parametrize(
    ("data", "cached"),
    [("clinic", True), ("clinic/heal", True), ("clin", False), ("clinic/he", False), ("heal", False)],
)
def test_the_cache_has_an_organisation_or_a_data_set_by_its_whole_name(data, cached, tmp_path, monkeypatch):
    (tmp_path / "datasets--clinic--heal").mkdir()
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    assert is_cached(data) is cached


@pytest.mark.parametrize(
    ("config", "type_", "message"),
    [
        ({"model_type": "llama"}, "medfaith-hf-vlm", "is of the type 'llama'(.|\n)*--model medfaith-server"),
        ({"model_type": "phi4_multimodal", "vision_config": {}}, "hf-multimodal", "'phi4_multimodal', which transf"),
        ({"model_type": "chexagent", "auto_map": {}}, "hf-multimodal", "trust_remote_code=True(.|\n)*--model medfaith"),
    ],
)
def test_a_model_that_transformers_cannot_load(config, type_, message, refused, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(config))
    err = refused(["--model", type_, "--model_args", f"pretrained={tmp_path}", "--tasks", PRESENCE])
    assert re.search(message, err), err


LLAVA = '{"model_type": "llava"}'


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({}, "^FOLDER: has no config.json\n  expected: a model of transformers"),
        ({"config.json": "{"}, "^FOLDER/config.json: not JSON"),
        ({"config.json": b'{"model_type": "\xff"}'}, "^FOLDER/config.json: not JSON"),
        ({"config.json": LLAVA}, "^FOLDER: has no chat template\n  what to do: leave --apply_chat_template out"),
        ({"config.json": LLAVA, "tokenizer_config.json": "{"}, "^FOLDER/tokenizer_config.json: not JSON"),
        ({"config.json": '{"model_type": "smolvlm"}'}, "^FOLDER: SmolVLM needs num2words(.|\n)*pip install num2words"),
    ],
)
def test_files_of_a_model_that_cannot_be_used(files, message, tmp_path, monkeypatch):
    for name, content in files.items():
        (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    find_spec = model_files.importlib.util.find_spec
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "num2words" else find_spec(name))
    config = SimpleNamespace(model="hf-multimodal", apply_chat_template=True)
    with pytest.raises(MedfaithError, match=message.replace("FOLDER", re.escape(str(tmp_path)))):
        model_files.check_model(config, {"pretrained": str(tmp_path)})


@pytest.mark.parametrize("name", ["bad name!", "a--b/x"])
def test_a_name_that_no_model_of_the_hub_can_have(name):
    with pytest.raises(InputError, match=rf"pretrained={name}: cannot be read \(.*\)\n  what to do: correct the name"):
        model_files.find_model_file(name, "config.json", "main")


def test_groups_that_share_some_tasks_are_refused(tmp_path):
    for name, member in (("my_open", "medfaith_heal_vindr_open"), ("my_tpt", "medfaith_heal_vindr_tpt")):
        (tmp_path / f"{name}.yaml").write_text(f"group: {name}\ntask: [medfaith_heal_vindr_closed, {member}]\n")
    message = "--tasks my_tpt: shares medfaith_heal_vindr_closed with another group(.|\n)*name one of the two groups"
    with pytest.raises(MedfaithError, match=message):
        drop_repeats("my_open,my_tpt", tmp_path)


def test_a_server_scores_letters_alone():
    letters, texts = select_tasks(f"{preflight.LETTERS},medfaith_contrabench_option_scores")[::2]
    preflight._check_scores("medfaith-server", [letters])
    with pytest.raises(MedfaithError, match="--tasks medfaith_contrabench_letter_scores"):
        preflight._check_scores("medfaith-server", [texts])
    with pytest.raises(MedfaithError, match="--model medfaith-hf-vlm"):
        preflight._check_scores("hf-multimodal", [letters])


def test_a_hub_that_does_not_answer_is_asked_once(refused, monkeypatch):
    """The Hub's client retries six times: 23 seconds for a misspelt folder, and the same again for a model."""
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr(time, "sleep", lambda seconds: pytest.fail(f"a pause of {seconds} s"))
    assert "--data nosuch: there is no such folder" in refused(
        [*HF, "pretrained=MODEL", "--tasks", PRESENCE], data="nosuch"
    )
    assert "pretrained=no/such: no such folder" in refused([*HF, "pretrained=no/such", "--tasks", PRESENCE])


def test_a_task_is_found_with_all_its_rows():
    """Tasks are found in groups, in groups of a file, in tags and by pattern; lm-eval's own tasks are ignored."""
    names = {task.name: task for task in select_tasks("medfaith_contrabench,medfaith_contrabench_3shot*,hellaswag")}
    assert PRESENCE in names
    shots = names["medfaith_contrabench_3shot_images::chexpert_absence"]
    assert (shots.rows["pool_repository"], shots.rows["exemplar_images"]) == ("cxr-contrabench-openi", True)
    assert {task.scores for task in select_tasks(["medfaith_contrabench_option_scores"])} == {True}
    assert set(names) & {task.name for task in select_tasks("medfaith_contrabench_all")} == {
        name for name in names if "::" not in name
    }


def test_images_that_lm_evals_chat_client_cuts_are_counted(phantom_build, phantom_roots):
    """Plain lm_eval sends one image per row; results and sample log record it."""
    loaded = load([OPENI], phantom_build, phantom_roots)
    run: Any = lm_eval.evaluate
    with chat_server(lambda messages: "A") as (url, requests):
        client: Any = LocalChatCompletion
        client = client(base_url=f"{url}/chat/completions", model="x")
        result = run(client, task_dict=loaded, limit=6, bootstrap_iters=0, apply_chat_template=True)
    sent = [json.dumps(request["messages"]).count("data:image/") for request in requests]
    samples = [sample for sample in result["samples"][OPENI] if sample["filter"] == "b0"]
    lost = [len(sample["doc"]["images"]) - 1 for sample in samples]
    assert [sample["doc"]["n_images_sent"] for sample in samples] == sent == [1] * 6
    assert [sample["n_images_missing"] for sample in samples] == lost
    assert result["results"][OPENI]["n_images_missing,b0"] == sum(lost) > 0
