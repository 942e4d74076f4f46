"""The command line: printed output, and errors for bad input."""

from __future__ import annotations

from pathlib import Path

import pytest

from medfaith.builders.parallel import MOST_WORKERS
from medfaith.cli import main
from medfaith.tasks import ABOUT

EXPECTED_WORKERS = f"a whole number above 0, at most {MOST_WORKERS}"


def test_sources_lists_every_source_and_how_to_get_the_missing_ones(phantom_roots, capsys):
    assert main(["sources", "--root", f"chexpert={phantom_roots['chexpert']}", "--root", "openi=torchxrayvision"]) == 0
    out = capsys.readouterr().out
    lines = {line.split()[0]: line for line in out.splitlines() if line}
    assert lines["chexpert"].split()[1] == "found"
    assert lines["openi"].split()[1] == "incomplete"
    assert lines["mimic_cxr"].split()[1] == "missing"
    assert "how to get it" in out
    assert "CITI" in out


@pytest.mark.parametrize(
    ("arguments", "fragments"),
    [
        ("verify absent", ["absent", "is not a folder"]),
        ("verify .", ["holds no build"]),
        ("quickstart --out .", ["choose another --out"]),
        ("quickstart --out file", ["file"]),
        ("answer absent --base-url http://127.0.0.1:9/v1 --out new", ["absent: is no file", "--write-requests"]),
        ("report phantom --out file", ["file: is not a folder", "choose another --out"]),
        ("phantom phantom", ["phantom: is not an empty folder", "name a new folder"]),
        ("phantom file", ["file: is not an empty folder"]),
        ("phantom new --studies 3", ["--studies: changes none of the sources", "chest_imagenome"]),
    ],
)
def test_a_wrong_argument_is_explained_with_status_2(arguments, fragments, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    mine = [tmp_path / "phantom" / "mine.txt", tmp_path / "file"]
    for path in mine:
        path.parent.mkdir(exist_ok=True)
        path.touch()
    assert main(arguments.split()) == 2
    error = capsys.readouterr().err
    for word in fragments:
        assert word in error
    assert [path for path in sorted(tmp_path.rglob("*")) if path.is_file()] == sorted(mine)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["nothing"], "invalid choice: 'nothing'"),
        (["build", "nothing"], "invalid choice: 'nothing'"),
        (["verify"], "the following arguments are required: DIR"),
        *(
            (["build", "surgxbench", "--workers", text], f"--workers: expected {EXPECTED_WORKERS}, got '{text[:40]}'")
            for text in ("x", "0", "1.5", "100000", "9" * 5_000)
        ),
    ],
)  # fmt: skip
def test_argparse_refuses_with_status_2(arguments, complaint, capsys):
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    assert stop.value.code == 2
    assert complaint in capsys.readouterr().err


def test_tasks_prints_the_include_path(capsys):
    assert main(["tasks"]) == 0
    assert (Path(capsys.readouterr().out.strip()) / "contrabench" / "adapter.py").is_file()


def test_tasks_lists_what_each_task_asks_and_needs(capsys):
    assert main(["tasks", "--list"]) == 0
    text = capsys.readouterr().out
    assert max(map(len, text.splitlines())) <= 100
    assert main(["tasks", "--names"]) == 0
    names = capsys.readouterr().out.split()
    assert sorted(line.split()[0] for line in text.splitlines() if line.startswith("medfaith_")) == names
    assert (
        """
medfaith_contrabench_3shot_images  (2 tasks)
    Three examples from OpenI, each with its own images (Appendix G, Table 18)
    Data: cxr-contrabench-chexpert, cxr-contrabench-chexstruct, cxr-contrabench-openi. Roots:
    chexpert, openi.
    Models: any. Prompt: 3shot_images.
"""
        in text
    )
    assert "Models: option scores." in text
    assert "option scores take medfaith-hf-vlm," in text
    assert (
        """
medfaith_surgx_triplets  (test split)
    Which instrument does what to what? Coverage, AP; RAS (sections 3.4.2, 4.3.2)
    Data: surgxbench-cholect45. Roots: cholect45.
    Models: any; heatmaps by medfaith-contrastive, medfaith-explained-vlm.
"""
        in text
    )


def test_help_of_eval_lists_the_models_in_one_line_each(capsys):
    with pytest.raises(SystemExit):
        main(["eval", "--help"])
    listed = [line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines() if len(line) <= 100]
    assert [[name, description] for name, description in ABOUT.items() if [name, description] not in listed] == []


@pytest.mark.parametrize(
    ("arguments", "missing"),
    [
        ((), "--model and --tasks: not given"),
        (("--model", "oracle"), "--tasks: not given"),
        (("-t", "medfaith_contrabench", "--limit", "2"), "--model: not given"),
    ],
)
def test_eval_names_what_a_run_needs_before_it_loads_lm_eval(arguments, missing, capsys):
    assert main(["eval", *arguments]) == 2
    assert f"medfaith: {missing}\n  what to do: " in capsys.readouterr().err


def test_the_help_of_eval_shows_the_options_that_every_run_needs(capsys):
    with pytest.raises(SystemExit):
        main(["eval", "--help"])
    text = capsys.readouterr().out
    assert text.startswith("usage: medfaith eval --model TYPE --model_args NAME=VALUE,... --tasks TASK,...")
    assert "CXR-ContraBench:\n" in text
    assert "That's the Wrong Lung!:\n" in text
