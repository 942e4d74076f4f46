"""`medfaith build wrong-lung` and `medfaith verify` as a user runs them."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

import pytest

from medfaith import cards
from medfaith.builders import wrong_lung
from medfaith.cli import main
from medfaith.loaders import chest_imagenome

REPOSITORY = "wrong-lung-chest_imagenome"


@pytest.fixture(autouse=True)
def _own_configuration(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


def build(roots: dict[str, Path], *arguments: str) -> list[str]:
    given = [part for name, root in roots.items() for part in ("--root", f"{name}={root}")]
    return ["build", "wrong-lung", *given, *arguments]


def test_build_and_verify_print_verdicts_and_what_was_counted(phantom_wrong_lung_roots, tmp_path, capsys):
    out = tmp_path / "data"
    assert main(build(phantom_wrong_lung_roots, "--out", str(out), "--workers", "2")) == 0
    printed = capsys.readouterr().out
    assert "sentences of subset One Lung\n" in printed
    assert "29 sentences of the gold images' reports that name no anatomy with a box\n" in printed
    assert printed.endswith(f"written to {out}\n")
    assert main(["verify", str(out)]) == 0
    again = capsys.readouterr().out
    for config in wrong_lung.CONFIGS:
        for text in (printed, again):
            line = next(line.split() for line in text.splitlines() if line.split()[:2] == [config, "test"])
            assert "sound" in line
    assert "748 of subset Abnormal, 285 of One Lung, 252 of MDRB" in again
    assert str(tmp_path) not in (out / REPOSITORY / "build.json").read_text()


def test_every_option_reaches_the_build(phantom_wrong_lung_roots, tmp_path):
    options = ["--swap", "substring", "--random-boxes", "pixels", "--seed", "4", "--config", "random_boxes"]
    assert main(build(phantom_wrong_lung_roots, "--out", str(tmp_path), *options)) == 0
    record = json.loads((tmp_path / REPOSITORY / "build.json").read_text())
    assert record["seed"] == 4
    assert record["arguments"] == {"swap": "substring", "random_boxes": "pixels"}
    assert list(record["splits"]) == ["gold/test", "random_boxes/test"]


@pytest.mark.parametrize(
    ("named", "expected"),
    [
        (["silver"], [*wrong_lung.CONFIGS, "silver"]),
        (["silver", "trimmed"], ["gold", "trimmed", "silver"]),
        (["gold", "silver"], ["gold", "silver"]),
    ],
)
def test_silver_is_added_to_what_a_build_makes(phantom_wrong_lung_roots, tmp_path, named, expected):
    """Alone, to a build of all configs, whose rows it leaves as they are; else to those that are named."""
    folder = tmp_path / REPOSITORY

    def parquet() -> dict[str, str]:
        files = sorted(folder.glob("*/*.parquet"))
        return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}

    assert main(build(phantom_wrong_lung_roots, "--out", str(tmp_path))) == 0
    before = parquet()
    assert {name.split("/")[0] for name in before} == set(wrong_lung.CONFIGS)
    arguments = [part for config in named for part in ("--config", config)]
    assert main(build(phantom_wrong_lung_roots, "--out", str(tmp_path), *arguments)) == 0
    splits = json.loads((folder / "build.json").read_text())["splits"]
    assert list(dict.fromkeys(key.split("/")[0] for key in splits)) == expected
    after = parquet()
    assert {name.split("/")[0] for name in after} == set(expected)
    assert before.items() >= {name: of for name, of in after.items() if not name.startswith("silver/")}.items()


def test_bad_input_is_explained_with_status_2_and_nothing_is_written(phantom_wrong_lung_roots, tmp_path, capsys):
    root = tmp_path / "chest_imagenome"
    shutil.copytree(phantom_wrong_lung_roots["chest_imagenome"], root)
    path = root / chest_imagenome.FILES["gold"]
    path.write_text(path.read_text().replace("\tyes\t", "\tperhaps\t", 1))
    out = tmp_path / "out"
    assert main(build(phantom_wrong_lung_roots | {"chest_imagenome": root}, "--out", str(out))) == 2
    error = capsys.readouterr().err
    for word in ("medfaith: ", path.name, "row", "'context'", "perhaps", "what to do"):
        assert word in error
    assert not out.exists()


def test_a_bad_file_of_all_sentences_is_explained_with_status_2(phantom_wrong_lung_roots, tmp_path, capsys):
    root = shutil.copytree(phantom_wrong_lung_roots["chest_imagenome"], tmp_path / "chest_imagenome")
    path = root / chest_imagenome.FILES["all_sentences"]
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join([*lines[:2], lines[2].replace(".dcm", ".jpg"), *lines[3:]]))
    out = tmp_path / "out"
    assert main(build(phantom_wrong_lung_roots | {"chest_imagenome": root}, "--out", str(out))) == 2
    error = capsys.readouterr().err
    for word in ("medfaith: ", f"{path.name}, row 2, column 'image_id'", "hexadecimal", "what to do"):
        assert word in error
    assert not out.exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], ["needs all sources of one of its configs", "how to get it", "chest_imagenome", "mimic_cxr"]),
        (["--config", "nothing"], ["--config nothing", "gold, swap_left_right"]),
        (["--swap", "letters"], ["--swap letters", "words, substring"]),
        (["--random-boxes", "inches"], ["--random-boxes inches", "share, pixels"]),
    ],
)
def test_a_wrong_argument_is_explained_with_status_2(arguments, words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["build", "wrong-lung", *arguments]) == 2
    error = capsys.readouterr().err
    for word in words:
        assert word in error


def test_help_names_every_option_with_its_default(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["build", "wrong-lung", "--help"])
    assert stop.value.code == 0
    text = " ".join(capsys.readouterr().out.split())
    for words in (
        "--swap",
        "as the paper's code has it (default: words)",
        "the same pixels (default: share)",
        "--config silver",
        "Alone it comes beside all other configs",
    ):
        assert words in text


def test_the_card_and_the_published_figures_name_what_is_built():
    body = cards.body(REPOSITORY)
    assert all(f"`{config}`" in body for config in wrong_lung.NEEDS)
    assert "Research only" in body
    for name, paper in cards.published("wrong-lung").items():
        assert name.split("/")[0] in wrong_lung.CONFIGS
        assert paper["where"]
