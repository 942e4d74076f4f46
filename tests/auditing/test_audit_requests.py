"""An audit by a file of requests: its tables equal those of the same answers by a server."""

from __future__ import annotations

import hashlib
import json
import random
from pathlib import Path

import pytest

from medfaith.cli import main
from tests.support.auditing.files import read_tables
from tests.support.tasks.batch_engine import answer, fail, inline_images, read_lines, write_lines
from tests.support.tasks.server_scene import serving
from tests.support.tiers import choose_size

pytestmark = pytest.mark.usefixtures("tables_alone")

REPLIES = ("Yes.", "No.", "No abnormality.", "The left lung shows edema.", "I cannot tell.", "blue")
ASKED = (
    "--wordings",
    "1",
    "--limit",
    choose_size("4", "9"),
    "--controls",
    "none",
    "other",
    *choose_size((), ("blank",)),
)


def say(messages):
    """Answer by a hash of the question and its images, so that equal requests get equal answers."""
    digest = hashlib.sha256(json.dumps(inline_images(messages)).encode()).digest()
    return REPLIES[digest[0] % len(REPLIES)]


@pytest.fixture(scope="module")
def arguments(audited_build, phantom_heal_roots) -> list[str]:
    root = f"vindr_cxr={phantom_heal_roots['vindr_cxr']}"
    data = ("--data", str(audited_build), "--root", root)
    return ["audit", *data, "--benchmarks", "heal-medvqa", "--apply_chat_template", *ASKED]


@pytest.fixture(scope="module")
def by_server(arguments, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("server") / "audit"
    with serving(say) as server:
        model = ("--model", "medfaith-server", "--model_args", f"base_url={server.url},model=m")
        assert main([*arguments, *model, "--out", str(out)]) == 0
    return out


def read_samples(out: Path) -> dict[str, list[str]]:
    """Read the scored answers of each task and condition."""
    return {
        str(path.parent.relative_to(out)): path.read_text(encoding="utf-8").splitlines()
        for path in sorted(out.rglob("samples_*.jsonl"))
    }


def test_tables_equal_those_of_a_server(arguments, by_server, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    job = [*arguments, "--model_args", "model=m", "--out", "audit"]
    assert main([*job, "--write-requests", "requests.jsonl"]) == 0
    assert not Path("audit").exists()
    assert "requests.jsonl: " in capsys.readouterr().out
    lines = answer(read_lines(Path("requests.jsonl")), say)
    random.Random(3).shuffle(lines)
    half = len(lines) // 2
    first = [fail(line["custom_id"]) if n % 3 == 0 else line for n, line in enumerate(lines[:half])]
    write_lines(Path("a.jsonl"), first)
    assert main([*job, "--answers", "a.jsonl"]) == 2
    assert "--write-missing FILE" in capsys.readouterr().err
    assert main([*job, "--answers", "a.jsonl", "--write-missing", "missing.jsonl"]) == 0
    missing = read_lines(Path("missing.jsonl"))
    assert len(missing) == len(lines) - sum("choices" in str(line) for line in first)
    write_lines(Path("b.jsonl"), answer(missing, say))
    assert main([*job, "--answers", "a.jsonl", "b.jsonl"]) == 0
    assert read_tables(Path("audit")) == read_tables(by_server)
    assert read_samples(Path("audit")) == read_samples(by_server)


@pytest.mark.full
def test_answers_to_all_shards_make_the_tables_of_one_run(arguments, by_server, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    job = [*arguments, "--model_args", "model=m", "--out", "audit"]
    shards = []
    for options in ([], ["--shard", "1/2"], ["--shard", "2/2"]):
        path = Path(f"{len(shards)}.jsonl")
        assert main([*job, *options, "--write-requests", str(path), "--images-in", "images"]) == 0
        lines = read_lines(path)
        shards.append({line["custom_id"]: line for line in lines})
        about = json.loads(path.with_suffix(".about.json").read_text(encoding="utf-8"))
        assert (about["shard"], about["requests"]) == (options[1] if options else None, len(lines))
        write_lines(Path(f"answers-{path}"), answer(lines, say))
    whole, first, second = shards
    assert first | second == whole
    with_image = [{key for key, line in shard.items() if "image_url" in str(line)} for shard in (first, second)]
    assert with_image[0]
    assert not with_image[0] & with_image[1], "a patient is in one shard; equal questions without an image are in both"
    assert main([*job, "--answers", "answers-2.jsonl", "answers-1.jsonl"]) == 0
    assert read_tables(Path("audit")) == read_tables(by_server)
    assert read_samples(Path("audit")) == read_samples(by_server)


@pytest.mark.full  # another audit
def test_requests_with_images_in_a_folder_are_the_same_requests(arguments, tmp_path, monkeypatch):
    """An engine gives them the same lines of answers, by the pixels, so that an audit by either file is the same."""
    monkeypatch.chdir(tmp_path)
    fewer = choose_size(["--controls", "other", "--limit", "3"], [])
    job = [*arguments, *fewer, "--model_args", "model=m", "--out", "audit", "--write-requests"]
    assert main([*job, "inline.jsonl"]) == 0
    assert main([*job, "files.jsonl", "--images-in", "pictures"]) == 0
    inline, files = (read_lines(Path(f"{name}.jsonl")) for name in ("inline", "files"))
    assert inline != files
    assert len(inline) == len(files) > 0
    assert answer(files, say) == answer(inline, say)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--shard", "1/2"), "--shard 1/2: an audit compares answers of all rows"),
        (("--shard", "1/2", "--answers", "a.jsonl"), "name the answers to all shards with --answers"),
        (("--write-missing", "m.jsonl"), "--write-missing: no answers are named"),
        (("--write-requests", "r.jsonl", "--answers", "a.jsonl"), "--write-requests: writes all requests"),
        (("--images-in", "pictures"), "--images-in: no requests are written"),
        (("--write-requests", "r.jsonl", "--model", "hf-multimodal"), "the engine that answers the file has the model"),
        (("--write-requests", "."), "is a folder"),
        (("--answers", "a.jsonl"), "a.jsonl: is no file"),
    ],
)
def test_options_that_exclude_each_other_are_refused(options, message, arguments, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    model = () if "--model" in options or "--images-in" in options else ("--model_args", "model=m")
    assert main([*arguments, *model, "--out", "audit", *options]) == 2
    assert message in capsys.readouterr().err
    assert not [*tmp_path.iterdir()]


def test_missing_requests_do_not_replace_the_answers(arguments, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_lines(Path("a.jsonl"), [fail("0" * 64)])
    content = Path("a.jsonl").read_bytes()
    job = [*arguments, "--model_args", "model=m", "--out", "audit", "--answers", "a.jsonl"]
    assert main([*job, "--write-missing", "a.jsonl"]) == 2
    assert "a.jsonl: is a file of answers" in capsys.readouterr().err
    assert Path("a.jsonl").read_bytes() == content


@pytest.mark.full  # another run
def test_eval_takes_the_same_options(phantom_heal_build, phantom_heal_roots, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    root = f"vindr_cxr={phantom_heal_roots['vindr_cxr']}"
    job = ["eval", "--data", str(phantom_heal_build), "--root", root, "--tasks", "medfaith_heal_vindr_closed",
           "--limit", "8", "--apply_chat_template", "--control", "blank"]  # fmt: skip
    with serving(say) as server:
        model = ("--model", "medfaith-server", "--model_args", f"base_url={server.url},model=m")
        assert main([*job, *model, "--output_path", "server", "--log_samples"]) == 0
    job += ["--model_args", "model=m"]
    assert main([*job, "--write-requests", "r.jsonl"]) == 0
    about = json.loads(Path("r.about.json").read_text(encoding="utf-8"))
    assert about["tasks"] == {"medfaith_heal_vindr_closed": {"blank": 8}}
    write_lines(Path("a.jsonl"), answer(read_lines(Path("r.jsonl")), say))
    assert main([*job, "--answers", "a.jsonl", "--output_path", "files", "--log_samples"]) == 0
    assert [*read_samples(Path("files")).values()] == [*read_samples(Path("server")).values()]


@pytest.mark.full  # another run
def test_eval_writes_the_requests_of_a_shard(phantom_heal_build, phantom_heal_roots, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    root = f"vindr_cxr={phantom_heal_roots['vindr_cxr']}"
    job = ["eval", "--data", str(phantom_heal_build), "--root", root, "--tasks", "medfaith_heal_vindr_closed",
           "--apply_chat_template", "--control", "none", "--shard"]  # fmt: skip
    with serving(say) as server:
        model = ("--model", "medfaith-server", "--model_args", f"base_url={server.url},model=m")
        assert main([*job, "1/2", *model, "--output_path", "server", "--log_samples"]) == 0
    for shard in ("1/2", "99/99"):
        assert main([*job, shard, "--model_args", "model=m", "--write-requests", f"{shard[0]}.jsonl"]) == 0
    assert read_lines(Path("9.jsonl")) == [], "there are fewer patients"
    lines = read_lines(Path("1.jsonl"))
    asked = [json.dumps(request["messages"]) for request in server.requests]
    assert {json.dumps(line["body"]["messages"]) for line in lines} == set(asked)
