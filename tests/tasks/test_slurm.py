"""The Slurm scripts of docs/batch.md and docs/clusters.md, run once for each number of their array, without Slurm.

bash runs them as they are on the page, but for the model, the number of rows and the folder of the images. Their
programs run in the test's process.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from medfaith.cli import main
from tests.support.auditing.files import read_tables
from tests.support.tasks.batch_engine import answer, read_lines, write_lines
from tests.support.tasks.server_scene import answer_by_messages

DOCS = Path(__file__).parents[2] / "docs"
PROGRAM = """#!/bin/bash
IFS=$'\\t'
echo "${0##*/}\t$*" >&$CALLS
read -r status <&$STATUSES
exit $status
"""  # hands its arguments to the test's process, and ends as that says


def read_blocks(page: str, heading: str) -> list[str]:
    """Read the shell blocks of a section of a page."""
    text = (DOCS / page).read_text(encoding="utf-8").partition(f"{heading}\n")[2]
    section = re.split(r"^##+ ", text, maxsplit=1, flags=re.MULTILINE)[0]
    return re.findall(r"^```sh\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)


def run_script(script: str, functions: Mapping[str, Callable[[Sequence[str]], int]], **variables: str) -> None:
    """Run a script with bash; its programs are functions of their arguments that return a status."""
    programs = Path("programs").absolute()
    programs.mkdir(exist_ok=True)
    for name in functions:
        (programs / name).write_text(PROGRAM)
        (programs / name).chmod(0o755)
    (calls, calls_in), (statuses, statuses_in) = os.pipe(), os.pipe()
    variables |= {"PATH": f"{programs}:{os.environ['PATH']}", "CALLS": str(calls_in), "STATUSES": str(statuses)}
    process = subprocess.Popen(
        ["bash", "-e", "-c", script], env={**os.environ, **variables}, pass_fds=(calls_in, statuses)
    )
    os.close(calls_in)
    os.close(statuses)
    with os.fdopen(calls) as lines, os.fdopen(statuses_in, "w", 1) as replies:
        for line in lines:
            name, *arguments = line.rstrip("\n").split("\t")
            replies.write(f"{functions[name](arguments)}\n")
    assert process.wait() == 0


def run_batch(arguments: Sequence[str]) -> int:
    """Answer a file of requests as `vllm run-batch` does; it opens images of the named folder alone."""
    job, *words = arguments
    options = dict(zip(words[::2], words[1::2], strict=True))
    assert job == "run-batch"
    requests = read_lines(Path(options["-i"]))
    assert {request["body"]["model"] for request in requests} == {options["--model"]}
    folder = Path(options["--allowed-local-media-path"]).resolve().as_uri()
    for url in re.findall(r"file://[^\"]*", Path(options["-i"]).read_text(encoding="utf-8")):
        assert url.startswith(f"{folder}/")
    write_lines(Path(options["-o"]), answer(requests, answer_by_messages))
    return 0


def list_numbers(script: str) -> range:
    """List the numbers of a script's array."""
    match = re.search(r"^#SBATCH --array=(\d+)-(\d+) ", script, re.MULTILINE)
    assert match
    return range(int(match[1]), int(match[2]) + 1)


@pytest.mark.full  # files of requests: test_batch_files.py
def test_the_answers_of_an_array_make_the_tables_of_one_run(
    phantom_nih_build, phantom_nih_roots, tmp_path, monkeypatch
):
    def run(folder: str, *blocks: str, **variables: str) -> None:
        (tmp_path / folder).mkdir(exist_ok=True)
        monkeypatch.chdir(tmp_path / folder)
        for block in blocks:
            text = block.replace("chexpert=/data/CheXpert-v1.0-small", f"nih_cxr14={phantom_nih_roots['nih_cxr14']}")
            text = text.replace("--data medfaith-data", f"--data {phantom_nih_build} --benchmarks heal-medvqa")
            text = text.replace("--limit 500", "--limit 6 --controls none --rule 1")
            run_script(text, {"medfaith": main, "vllm": run_batch}, **variables)

    script, start, reading = read_blocks("batch.md", "### A Slurm array")
    assert start == "sbatch answer.sh\n"
    for number in list_numbers(script):
        run("array", script, SLURM_ARRAY_TASK_ID=str(number))
    run("array", reading)
    (writing,), (reading_one,) = (read_blocks("batch.md", f"## The {name}") for name in ("file of requests", "answers"))
    (engine,) = read_blocks("batch.md", "### vLLM without a server")
    run("one", writing, engine.replace("/path/to/images", "images"), reading_one)
    assert "audit.csv" in (tables := read_tables(tmp_path / "array/audit"))
    assert tables == read_tables(tmp_path / "one/audit")


@pytest.mark.full
def test_the_shards_of_an_array_make_one_run(phantom_build, phantom_roots, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def run(script: str, **variables: str) -> None:
        text = script.replace("/data/CheXpert-v1.0-small", str(phantom_roots["chexpert"]))
        text = text.replace("--data medfaith-data", f"--data {phantom_build}")
        text = text.replace("medfaith-hf-vlm \\\n    --model_args pretrained=MODEL,dtype=bfloat16", "random")
        run_script(text, {"medfaith": main}, **variables)

    script, _, start, merging = read_blocks("clusters.md", "### An array of Slurm jobs")
    assert start == "sbatch eval.sh\n"
    for number in list_numbers(script):
        run(script, SLURM_ARRAY_TASK_ID=str(number))
    run(merging)
    run(
        script.replace("--shard $SLURM_ARRAY_TASK_ID/4 ", ""), SLURM_ARRAY_TASK_ID="../one"
    )  # its folder: results/../one
    (merged,), (one,) = (Path(folder).rglob("samples_*.jsonl") for folder in ("merged", "one"))
    assert merged.read_bytes() == one.read_bytes()
    assert Path("report/report.md").exists()
