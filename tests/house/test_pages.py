"""Every command and every Python block in README, CONTRIBUTING and docs/ works, on synthetic sources.

A page's blocks run in order, in one folder. `medfaith ...` runs in this process. Licensed sources are replaced by
synthetic ones, models by tiny ones. What cannot run here is parsed by the program's own parser (`ONLY_PARSED`).
"""

from __future__ import annotations

import argparse
import functools
import importlib.util
import itertools
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from unittest.mock import Mock

import pyarrow.parquet as pq
import pytest
from click import UsageError

from medfaith import cli, task_list
from medfaith.tasks import include_path
from medfaith.tasks.listing import listed, scoring_models
from medfaith.tasks.run import list_task_names
from tests import __main__ as checks
from tests.support.house.parsers import find_job, list_options
from tests.support.tasks import tiny_contrastive, tiny_gloria, tiny_models, tiny_uniter
from tests.support.tiers import is_full_run

pytestmark = pytest.mark.usefixtures("quick_lm_eval")

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
# Their commands take longer than a second; each job has quicker tests in its room.
SLOW = {
    "cxr-contrabench", "data", "decoding", "heal-medvqa", "models", "python", "reports", "surgxbench", "training",
    "wrong-lung", "your-own-data",
}  # fmt: skip
SHELL, PYTHON = "sh", "python"
# The first two words of a command, and words that it has: why the test parses it and does not run it.
ONLY_PARSED = {
    "medfaith quickstart": "test_quickstart.py runs it",
    "medfaith annotate": "it serves a page until it is stopped; tests/annotate runs it",
    "medfaith train": "training takes minutes; tests/training runs it",
    "medfaith phantom synthetic": "tests/training/test_walkthrough.py runs the page",
    "medfaith build --out data": "tests/training/test_walkthrough.py runs the page",
    "medfaith eval --data data": "tests/training/test_walkthrough.py runs the page",
    "medfaith publish": "it needs a Hub; tests/hub runs it",
    "medfaith publish-metrics": "it needs a Hub; tests/hub runs it",
    "medfaith verify --against": "it needs a Hub; tests/hub runs it",
    "medfaith build --dask": "it needs a cluster; tests/builders/test_parallel.py has one",
    "dask": "it serves until it is stopped; tests/builders/test_parallel.py runs it",
    "medfaith build --mapping": "it needs a table with other columns; tests/builders/test_own_build.py has some",
    "medfaith build --flow": "RAFT's weights are a download; tests/builders runs it with others",
    "medfaith report --extractor-model": "it asks a model server; tests/reporting has one",
    "medfaith read --extractor-model": "it asks a model server; tests/cli/test_read.py has one",
    "medfaith eval medfaith-server": "it asks a model server; tests/tasks/test_server.py has one",
    "medfaith compare": "it needs two runs; tests/reporting/test_compare.py has some",
    "medfaith read-results": "it needs a file of another program; tests/tasks/test_harness_results.py makes some",
    "medfaith eval --shard": "tests/tasks/test_shards.py runs it",
    "medfaith answer": "it asks a model server; tests/tasks/test_batch_sender.py has one",
    "vllm": "it is no dependency; tests/auditing/test_vllm.py runs it",
    "medfaith merge": "it needs shards; tests/tasks/test_shards.py has some",
    "medfaith report merged": "it needs merged shards; tests/tasks/test_shards.py has some",
    "sbatch": "there is no Slurm here",
    "medfaith audit": "it asks thousands of questions; tests/auditing and the quickstart run it",
    "medfaith report LOG.eval": "it needs a log of Inspect; tests/auditing/test_inspect_audit.py has some",
    "medfaith report --rows": "it needs an audit; tests/auditing has one",
    "medfaith report --annotations": "a person writes that file; tests/reporting has some",
    "lm_eval run": "tests/tasks/test_lm_eval_command.py runs it",
    "accelerate": "it starts several processes",
    "inspect": "it takes a process of its own; tests/tasks/test_harness_inspect.py runs it",
    "uv": "it installs", "hf": "it asks for a token", ".": "it changes a shell",
    "python -m tests": "it runs this test", "pre-commit": "it changes the clone",
    "python benchmarks/training.py": "it trains for an hour",
    "python docs/contact_sheet.py": "it draws the picture anew", "python -m docs.report_page": "likewise",
    "python -m medfaith.cards.examples": "it writes into the clone; tests/cards runs it",
}  # fmt: skip

FAULTS = (AssertionError, ModuleNotFoundError, SystemExit, UsageError, subprocess.CalledProcessError)
# Options of other programs.
ELSEWHERE = {
    "--no-log-images", "--phantom", "--no-dev", "--inexact", "--extra", "--full", "--update-golden", "--embed",
    "--use_cache", "--cache_requests", "--top-logprobs", "--dtype", "--served-model-name",
}  # fmt: skip
RUNS = """medfaith eval --data medfaith-data --root cholec80_boxes=PATH --root cholect45=PATH --heatmaps heatmaps \
    --model oracle --tasks medfaith_surgx_triplets --output_path results --log_samples
medfaith eval --data medfaith-data --root vindr_cxr=PATH \
    --model oracle --tasks medfaith_heal_vindr_closed --output_path results --log_samples"""


def iterate_blocks(page: Path) -> Iterator[tuple[str, str]]:
    """Iterate over language and text of each fenced block of a page."""
    text = page.read_text(encoding="utf-8")
    yield from re.findall(r"^```(\w+)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def expand_loops(text: str) -> str:
    """Repeat the body of each loop of a shell block for each word."""
    return re.sub(
        r"^for (\w+) in ([^;]+); do\n(.*?)^done\n",
        lambda loop: "".join(loop[3].replace(f"${loop[1]}", word) for word in loop[2].split()),
        text,
        flags=re.MULTILINE | re.DOTALL,
    )


def parse_commands(text: str) -> list[list[str]]:
    """Split each command of a shell block into words, without comments, leading variables and `uv run`."""
    commands_found = []
    for line in expand_loops(text.replace("\\\n", " ")).splitlines():
        arguments = shlex.split(line, comments=True)
        while arguments and re.fullmatch(r"[A-Z_]+=\S*", arguments[0]):
            arguments.pop(0)
        if arguments[:2] == ["uv", "run"]:
            arguments = [word for word in arguments[2:] if word != "--no-dev"]
        commands_found += [arguments] if arguments else []
    return commands_found


def parse_inline(page: Path) -> tuple[list[list[str]], set[str]]:
    """List the commands and the bare options in running text."""
    prose = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    spans = re.findall(r"`([^`]+)`", prose)
    command_spans = (
        span for span in spans if re.match(r"(uv run|medfaith|python -m) [a-z-]", span) and "..." not in span
    )
    named_commands = [parse_commands(span)[0] for span in command_spans]
    return named_commands, {span.split()[0].split("=")[0] for span in spans if span.startswith("--")}


@functools.cache
def get_parser() -> argparse.ArgumentParser:
    return cli.parser()


@functools.cache
def get_lm_eval_parser() -> argparse.ArgumentParser:
    from lm_eval._cli import HarnessCLI

    return HarnessCLI()._parser


def is_only_parsed(arguments: Sequence[str]) -> bool:
    """Whether a command begins with the first two words of an entry and contains its other words."""
    return any(
        arguments[: len(entry[:2])] == entry[:2] and set(entry) <= set(arguments)
        for entry in map(str.split, ONLY_PARSED)
    )


@pytest.fixture(scope="module")
def place(
    tmp_path_factory, phantom_build, phantom_roots, phantom_heal_build, phantom_heal_roots, phantom_nih_build,
    phantom_nih_roots, phantom_surgx_build, phantom_surgx_roots, phantom_wrong_lung_build, phantom_wrong_lung_roots,
    phantom_chexlocalize_roots,
) -> tuple[Path, Callable[[Sequence[str]], list[str]], set[tuple[str, ...]]]:  # fmt: skip
    """Folder with the pages' builds, runs and models; the function that localizes arguments; commands already run."""
    folder = tmp_path_factory.mktemp("pages")
    for build in (phantom_build, phantom_heal_build, phantom_nih_build, phantom_surgx_build, phantom_wrong_lung_build):
        shutil.copytree(build, folder / "medfaith-data", dirs_exist_ok=True)
    (folder / "evaluate_metrics").symlink_to(ROOT / "evaluate_metrics")
    (folder / "benchmarks").symlink_to(ROOT / "benchmarks")
    roots = phantom_heal_roots | phantom_nih_roots | phantom_surgx_roots | phantom_wrong_lung_roots | phantom_roots
    roots |= phantom_chexlocalize_roots
    checkpoint, tokenizer = tiny_gloria.save(folder)
    (folder / "30_shot.ckpt").symlink_to(checkpoint)
    tiny_uniter.build_model(len(tiny_gloria.VOCABULARY)).save_checkpoint(folder / "uniter.ckpt")
    uniter_options = f"boxes={phantom_wrong_lung_roots['chest_imagenome']},text_model={tokenizer}"
    gold = pq.read_table(folder / "medfaith-data" / "wrong-lung-chest_imagenome" / "gold")["patient_id"][0].as_py()
    (folder / "30_shot.ckpt.json").write_text(json.dumps({"seen": [gold]}))
    models = {
        "pretrained=MODEL": f"pretrained={tiny_models.save_llava(folder / 'llava')}",
        "pretrained=openai/clip-vit-base-patch32": f"pretrained={tiny_contrastive.save_clip(folder / 'clip')}",
        "gloria:chexpert_resnet50.ckpt": f"gloria:{checkpoint},text_model={tokenizer}",
        "gloria:30_shot.ckpt": f"gloria:30_shot.ckpt,text_model={tokenizer}",
        "uniter:uniter.ckpt,boxes=/data/chest-imagenome-1.0.0": f"uniter:uniter.ckpt,{uniter_options}",
        ",peft=adapter": "",  # training takes minutes; tests/training asks an adapter
        "regions=/data/vindr-masks": f"regions={phantom_heal_roots['vindr_cxr_anatomy']}",
        "$HOME": str(folder),
    }

    def localize(arguments: Sequence[str]) -> list[str]:
        mimic = phantom_heal_roots if any("heal" in word for word in arguments) else phantom_wrong_lung_roots
        places = roots | {"mimic_cxr": mimic["mimic_cxr"], "mimic_cxr_reports": mimic["mimic_cxr"]}
        localized = []
        for word in arguments:
            for name, tiny in models.items():
                word = word.replace(name, tiny)  # noqa: PLW2901
            source, is_root, _ = word.partition("=")
            localized.append(f"{source}={places[source]}" if is_root and source in places else word)
        return localized

    with pytest.MonkeyPatch.context() as patch:  # runs, for the pages that report some, whichever page comes first
        patch.chdir(folder)
        for arguments in parse_commands(RUNS):
            run(arguments, localize)
    return folder, localize, set()


def run(arguments: Sequence[str], localize: Callable[[Sequence[str]], list[str]]) -> None:
    """Run `medfaith ...` or `python -m medfaith...` in this process."""
    arguments = localize(arguments)
    if arguments[0] == "medfaith":
        less = {"eval": ["--limit", "1"], "build": ["--workers", "1"]}  # processes cost more than the work
        try:
            status = cli.main([*arguments[1:], *less.get(arguments[1], [])])
        except SystemExit as ended:
            status = ended.code if ended.code or "--help" in arguments else f"{arguments} ended early"
    else:
        assert arguments[:2] == ["python", "-m"], f"how does one run {shlex.join(arguments)}?"
        status = importlib.import_module(arguments[2]).main(arguments[3:])
    assert status in (0, None)


def parse(arguments: Sequence[str]) -> None:
    """Parse a command with its program's own parser, or check that its names exist; raise if it is wrong."""
    match [word.replace("$SLURM_ARRAY_TASK_ID", "1") for word in arguments]:
        case ["medfaith", ("audit" | "eval") as job, *rest]:
            _, for_lm_eval = get_parser().parse_known_args([job, *rest])
            get_lm_eval_parser().parse_args(["run", *for_lm_eval])
        case ["accelerate", "launch", "--num_processes", _, "-m", *rest]:
            parse(rest)
        case ["medfaith", *rest]:
            get_parser().parse_args(rest)
        case ["lm_eval", "run", *rest]:
            _parse_lm_eval(rest)
        case ["inspect", job, *rest]:
            _parse_inspect(job, rest)
        case ["dask", ("scheduler" | "worker") as job, *rest]:
            importlib.import_module(f"distributed.cli.dask_{job}").main.make_context(job, rest)
        case ["uv", "sync", *_]:
            offline = ["--frozen", "--dry-run", "--offline", "--quiet"]
            uv = os.environ.get("UV") or shutil.which("uv")
            assert uv, "run the checks with `uv run python -m tests`"
            subprocess.run([uv, *arguments[1:], *offline], cwd=ROOT, check=True, capture_output=True)
        case ["uv", "pip", "install", name]:
            assert name == "dask-jobqueue"
        case ["uv", *rest]:
            raise AssertionError(f"how does one check uv {shlex.join(rest)}?")
        case ["hf", *rest]:
            assert rest == ["auth", "login"]
        case [".", script]:
            assert script == ".venv/bin/activate"
        case ["python", "-m", "tests", *rest]:
            assert all(word == "--full" or (ROOT / word).exists() for word in rest), rest
            assert "--full" in (checks.__doc__ or "")
        case ["pre-commit", job]:
            assert job == "install"
        case ["vllm", "run-batch", *rest]:
            assert rest[::2] == ["-i", "-o", "--model", "--allowed-local-media-path"]
        case ["sbatch", script]:
            assert script.endswith(".sh")
        case ["python", "-m", module, *_]:
            assert importlib.util.find_spec(module), module
        case ["python", script, *rest]:
            program = (ROOT / script).read_text(encoding="utf-8")
            assert all(f'"{word}"' in program for word in rest if word.startswith("--")), rest
        case _:
            raise AssertionError(f"how does one check {shlex.join(arguments)}?")


def _parse_lm_eval(arguments: list[str]) -> None:
    arguments = [str(include_path()) if word == "$(medfaith tasks)" else word for word in arguments]
    parsed = get_lm_eval_parser().parse_args(["run", *arguments])
    known_metadata = {"data", "roots", "skip_missing_images", "heatmaps", "patients", "upsampling", "precision_ties"}
    assert set(parsed.metadata) <= known_metadata
    assert set(parsed.tasks if isinstance(parsed.tasks, list) else parsed.tasks.split(",")) <= set(list_task_names())


def _parse_inspect(job: str, arguments: list[str]) -> None:
    import inspect
    from importlib.metadata import entry_points

    from inspect_ai._cli.main import inspect as command

    (plugin,) = entry_points(group="inspect_ai", name="medfaith")
    inspect_task = plugin.load()

    parsed = command.commands[job].make_context(job, list(arguments))
    task_names = [word for word in arguments if word.startswith("medfaith/")]
    assert task_names
    for name in task_names:
        assert hasattr(inspect_task, name.removeprefix("medfaith/")), name
    option_names = {word.partition("=")[0] for flag, word in itertools.pairwise(arguments) if flag in ("-T", "-S")}
    for name in task_names:
        function = getattr(inspect_task, name.removeprefix("medfaith/"))
        assert option_names <= set(inspect.signature(function).parameters), parsed.params
    for word in arguments:
        if word.startswith(("name=", "tasks=")):
            assert word.partition("=")[2] in list_task_names()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_what_a_page_shows_can_be_parsed(page):
    for language, text in iterate_blocks(page):
        if language == PYTHON:
            compile(text, f"{page.name}: {text.splitlines()[0]}", "exec")
        for arguments in parse_commands(text) if language == SHELL else []:
            print(f"{page.name}: {shlex.join(arguments)}")
            if "--help" not in arguments:  # with which a parser ends
                parse(arguments)


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=pytest.mark.full) if page.stem in SLOW else page for page in PAGES],
    ids=lambda page: page.stem,
)
def test_what_a_page_shows_works(page, place, monkeypatch, request):
    folder, localize, done = place
    if page.stem != "README" or not is_full_run():
        request.getfixturevalue("png_only")
    monkeypatch.chdir(folder)
    monkeypatch.setitem(sys.modules, "dask_jobqueue", Mock())  # Slurm is not installed
    names = {"__name__": "page"}  # a reader runs the blocks of a page one after another
    for language, text in iterate_blocks(page):
        if language == PYTHON:
            # a root in a Python block is written "SOURCE": "/data/..."
            root_by_text = {
                root_text: localize([f"{source}="])[0]
                for root_text, source in re.findall(r'("(\w+)": "/data/[^"]*")', text)
            }
            placed = text
            for root_text, root in root_by_text.items():
                placed = placed.replace(root_text, '"{}": "{}"'.format(*root.split("=")))
            exec(compile(placed, f"{page.name}: {text.splitlines()[0]}", "exec"), names)
        for arguments in parse_commands(text) if language == SHELL else []:
            print(f"{page.name}: {shlex.join(arguments)}")
            if is_only_parsed(arguments):
                parse(arguments)
            elif tuple(arguments) not in done:  # another page shows the same
                run(arguments, localize)
                done.add(tuple(arguments))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_what_running_text_names_exists(page):
    named_commands, bare_options = parse_inline(page)
    for arguments in named_commands:
        if arguments[0] == "medfaith":
            assert {word for word in arguments if word.startswith("--")} <= list_options(
                find_job(arguments[1:])
            ) | ELSEWHERE, arguments
        else:
            parse(arguments)
    assert bare_options <= list_options(get_parser()) | list_options(get_lm_eval_parser()) | ELSEWHERE, page


def test_the_table_of_groups_is_the_list_of_tasks():
    page = (ROOT / "docs" / "models.md").read_text(encoding="utf-8")
    section = page.split("## The groups of tasks")[1].split("\n## ")[0]
    groups = (
        group
        for group in listed()
        if group.name not in (task.name for task in group.tasks) and not group.name.endswith("_all")
    )
    cells = (
        (
            f"`{group.name}`",
            group.description,
            ", ".join(group.roots),
            task_list.models(group),
            ", ".join(group.prompts) or "–",
        )
        for group in groups
    )
    assert re.findall(r"^\| `.*", section, re.MULTILINE) == [f"| {' | '.join(row)} |" for row in cells]
    assert all(f"`{name}`" in section for name in scoring_models())


def test_a_typo_is_found(place, monkeypatch):
    """Commands that no page may show: each is wrong in one word."""
    folder, localize, _ = place
    monkeypatch.chdir(folder)
    for line in (
        "medfaith sources --rots chexpert=/data",
        "medfaith eval --data medfaith-data --model oracle --task_s medfaith_surgx",
        "medfaith eval --data medfaith-data --model oracel --tasks medfaith_surgx_triplets",
        "python -m medfaith.tasks.harnesses.vlmevalkit medfaith_contrabench --date medfaith-data --out x.tsv",
    ):
        with pytest.raises(FAULTS):
            run(parse_commands(line)[0], localize)
    for line in (
        "medfaith train 30_shots --data medfaith-data --out x.ckpt",
        "medfaith publish medfaith-data --orgs ORG",
        "uv sync --no-dev --extra hff",
        "uv sync --nodev",
        "inspect eval medfaith/lm_evals -T name=medfaith_heal_vindr_vpt",
        "inspect score LOG --scorers medfaith/answers",
        "python -m medfaith.tasks.adapters.lmms_eval",
        "python benchmarks/training.py --phantoms 1",
        "python -m tests tests/no_such_folder",
        "lm_eval run --metadata '{}' --tasks medfaith_contrabenches",
    ):
        with pytest.raises(FAULTS):
            parse(parse_commands(line)[0])
