"""`medfaith build` and `medfaith verify` from the command line, for every benchmark."""

from __future__ import annotations

import dataclasses
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from medfaith import build_command as command
from medfaith.builders import wrong_lung
from medfaith.builders.benchmark import Benchmark
from medfaith.builders.options import declared, groups
from medfaith.builders.registry import BENCHMARKS
from medfaith.cards.command import rebuild
from medfaith.cli import main
from medfaith.loaders import chest_imagenome
from tests.support.builders.files import digests, root_words

LUNG = "wrong-lung-chest_imagenome"


@pytest.fixture
def roots(
    phantom_roots, phantom_heal_roots, phantom_surgx_roots, phantom_wrong_lung_roots, phantom_own_roots
) -> dict[str, Path]:
    return phantom_own_roots | phantom_surgx_roots | phantom_wrong_lung_roots | phantom_heal_roots | phantom_roots


def build_arguments(benchmark: str, roots: dict[str, Path], *arguments: str) -> list[str]:
    """Build the command line of a build, with the roots of the benchmark's sources."""
    needed = {
        source for config_sources in BENCHMARKS[benchmark].needs.values() for source in config_sources
    } & roots.keys()
    return ["build", benchmark, *root_words({name: roots[name] for name in sorted(needed)}), *arguments]


# Benchmark -> words of a build, and build.json's arguments where they are not the defaults.
TOLD = {
    "cxr-contrabench": (
        "--config chexpert_presence --negation-form clear_of --question-form p2 --layout original",
        {"negation_form": "clear_of", "question_form": "p2", "layout": "original"},
    ),
    "heal-medvqa": (
        "--config mimic --measure box --threshold 0.3 --places anatomical --anatomy heart --anatomy aorta --view AP "
        "--labeler negbio --detection-threshold 0.1 --agreement any --donor-diagnosis region",
        {"measure": "box", "threshold": 0.3, "places": "anatomical", "agreement": "any",
         "anatomies": ["heart", "aorta"], "views": ["AP"], "labeler": "negbio", "detection_threshold": 0.1,
         "segmenter": None, "donor_diagnosis": "region"},
    ),
    "surgxbench": (
        "--config instruments --boxes-step 25 --boxes-first 0",
        {"successor": "second", "boxes_step": 25, "boxes_first": 0, "motion": None},
    ),
    "wrong-lung": (
        "--config random_boxes --swap substring --random-boxes pixels",
        {"swap": "substring", "random_boxes": "pixels"},
    ),
    "own": ("--config rows", {"mapping": None}),
}  # fmt: skip


@pytest.mark.parametrize("name", TOLD)
def test_what_is_told_is_built_recorded_and_verified(name, roots, tmp_path, capsys):
    options, expected = TOLD[name]
    assert main(build_arguments(name, roots, *options.split(), "--seed", "4", "--out", str(tmp_path / "data"))) == 0
    printed, complaint = capsys.readouterr()
    assert complaint == "", "no progress bar in a pipe"
    (folder,) = (tmp_path / "data").glob(f"{name}-*")
    record = json.loads((folder / "build.json").read_text())
    assert (record["seed"], record["arguments"]) == (4, expected)
    assert str(tmp_path) not in json.dumps(record)
    for reason, count in record.get("skipped", {}).items():
        assert f"{folder.name}: left out, or counted: {count} {reason}\n" in printed
    assert printed.endswith(f"written to {tmp_path / 'data'}\n")
    assert main(["verify", str(tmp_path / "data")]) == 0
    for text in (printed, capsys.readouterr().out):
        for key in record["splits"]:
            assert re.search(rf"^{' +'.join(key.split('/'))} .* sound", text, re.MULTILINE), key
    reports_root = {"mimic_cxr_reports": roots["mimic_cxr"]}  # which the record names by themselves
    assert run_rebuild(record, roots | reports_root, tmp_path / "again") == record
    next(folder.glob("*/*.parquet")).write_bytes(b"PAR1")
    assert main(["verify", str(tmp_path / "data")]) == 2
    assert "is no readable Parquet" in capsys.readouterr().err


def run_rebuild(record: dict[str, Any], roots: dict[str, Path], out: Path, flow: str = "") -> dict[str, Any]:
    """Run the command from the card and return its build.json; each PATH, DIR and FLOW is replaced by a path."""
    places = {"DIR": str(out), "FLOW": flow}

    def fill_placeholder(word: str) -> str:
        source, _, path = word.partition("=")
        return f"{source}={roots[source]}" if path == "PATH" else places.get(word, word)

    arguments = [fill_placeholder(word) for word in rebuild(record)]
    assert main(arguments[1:]) == 0
    (record_path,) = out.glob("*/build.json")
    return json.loads(record_path.read_text())


@pytest.mark.full  # two more builds
def test_a_build_with_motion_is_built_again(phantom_surgx_build, phantom_surgx_flow, phantom_surgx_roots, tmp_path):
    record = json.loads((phantom_surgx_build / "surgxbench-cholect45" / "build.json").read_text())
    assert run_rebuild(record, phantom_surgx_roots, tmp_path, str(phantom_surgx_flow)) == record


@pytest.mark.full  # two more builds
def test_a_build_with_reports_that_lie_apart_is_built_again(phantom_heal_roots, tmp_path):
    images = phantom_heal_roots["mimic_cxr"]
    jpg = shutil.copytree(images, tmp_path / "jpg", ignore=shutil.ignore_patterns("s*.txt"))
    roots = {**phantom_heal_roots, "mimic_cxr": jpg, "mimic_cxr_reports": images}
    (built,) = BENCHMARKS["heal-medvqa"].build(roots, tmp_path / "built", configs=["mimic"])
    record = json.loads((built / "build.json").read_text())
    assert "mimic_cxr_reports" in record["sources"]
    assert run_rebuild(record, roots, tmp_path / "again") == record


def test_motion_s_options_reach_the_build_together_with_flow(tmp_path, capsys):
    parser = command.Parser()
    surgx = BENCHMARKS["surgxbench"]
    command.add_options(parser, surgx.options)
    parser.add_argument("--out", type=Path, default=tmp_path)
    flags = "--flow raft --gamma 0.5 --trim 0.1 --motion-floor 2 --raft-weights w.pth"
    motion = command.options_of(parser.parse_args(flags.split()), surgx.options).motion
    flow_options = {"flow": "raft", "gamma": 0.5, "trim": 0.1, "floor": 2.0, "weights": "w.pth"}
    assert dataclasses.asdict(motion) == flow_options | {"cache": tmp_path / ".surgxbench-motion"}
    moved = command.options_of(parser.parse_args(["--flow", "raft", "--motion-cache", "x"]), surgx.options)
    assert moved.motion.cache == Path("x")
    assert command.options_of(parser.parse_args([]), surgx.options) == surgx.options()
    assert main(["build", "surgxbench", "--gamma", "0.5"]) == 2
    assert "--gamma changes nothing without --flow" in capsys.readouterr().err


@pytest.mark.full  # two more builds
def test_verify_takes_a_folder_with_several_benchmarks(phantom_build, phantom_wrong_lung_build, tmp_path, capsys):
    for folder in (phantom_build, phantom_wrong_lung_build):
        shutil.copytree(folder, tmp_path / "data", dirs_exist_ok=True)
    assert main(["verify", str(tmp_path / "data")]) == 0
    printed = capsys.readouterr().out
    assert "FAULTY" not in printed
    for config in ("chexpert_presence", "openi_report_absence", "swap_left_right"):
        assert config in printed
    assert "748 of subset Abnormal, 285 of One Lung, 252 of MDRB" in printed


def test_bytes_do_not_depend_on_workers_and_on_the_layout_of_a_root(roots, phantom_build, tmp_path):
    inner = roots | {"chexpert": roots["chexpert"] / "CheXpert-v1.0-small"}
    configs = [word for side in ("presence", "absence") for word in ("--config", f"chexpert_{side}")]
    arguments = build_arguments("cxr-contrabench", inner, *configs, "--workers", "3", "--out", str(tmp_path))
    assert main(arguments) == 0
    built, usual = digests(tmp_path), digests(phantom_build)
    rows = {name for name in built if name.endswith(".parquet")}
    assert len(rows) > 2
    assert {name: built[name] for name in rows} == {name: usual[name] for name in rows}


@pytest.mark.parametrize(
    ("config_names", "expected"),
    [
        (["silver"], [*wrong_lung.CONFIGS, "silver"]),
        (["gold", "silver"], ["gold", "silver"]),
    ],
)
def test_silver_is_added_to_what_a_build_makes(roots, phantom_wrong_lung_build, tmp_path, config_names, expected):
    """Silver alone extends a build of all configs and leaves their rows unchanged; else the named configs are built."""
    before = digests(phantom_wrong_lung_build / LUNG)
    folder = shutil.copytree(phantom_wrong_lung_build, tmp_path, dirs_exist_ok=True) / LUNG
    options = [argument for config in config_names for argument in ("--config", config)]
    assert main(build_arguments("wrong-lung", roots, "--out", str(tmp_path), *options)) == 0
    splits = json.loads((folder / "build.json").read_text())["splits"]
    assert list(dict.fromkeys(key.split("/")[0] for key in splits)) == expected
    after = {name: digest for name, digest in digests(folder).items() if name.endswith(".parquet")}
    assert {name.split("/")[0] for name in after} == set(expected)
    assert before.items() >= {name: digest for name, digest in after.items() if not name.startswith("silver/")}.items()


# One damaged file per benchmark: the replaced text (None removes the file), and fragments of the error. The readers'
# own tests cover other faults.
BAD_INPUT = {
    "cxr-contrabench": (
        ("chexpert", "train.csv", r"(?m)\A(.*\n.*\n.*),[^,]*$", r"\1,3"),
        ["train.csv", "row 2", "'Support Devices'", "1.0, 0.0, -1.0 or blank"],
    ),
    "heal-medvqa": (
        ("vindr_cxr", "annotations_test.csv", "Cardiomegaly", "Gout"),
        ["annotations_test.csv", "row", "'class_name'", "Gout"],
    ),
    "surgxbench": (("cholec80_boxes", "ROI_Labels.csv", "", None), ["what to do"]),
    "wrong-lung": (
        ("chest_imagenome", Path(chest_imagenome.FILES["gold"]).name, "\tyes\t", "\tperhaps\t"),
        ["gold_object_attribute_with_coordinates.txt", "row", "'context'", "perhaps", "what to do"],
    ),
}


@pytest.mark.parametrize("name", BAD_INPUT)
def test_bad_input_is_explained_with_status_2_and_nothing_is_written(name, roots, tmp_path, capsys):
    (source_id, file, pattern, instead), fragments = BAD_INPUT[name]
    root = shutil.copytree(roots[source_id], tmp_path / source_id)
    path = next(root.rglob(file))
    if instead is None:
        path.unlink()
    else:
        path.write_text(re.sub(pattern, instead, path.read_text(), count=1))
    out = tmp_path / "out"
    assert main(build_arguments(name, roots | {source_id: root}, "--out", str(out))) == 2
    error = capsys.readouterr().err
    for word in ["medfaith: ", *fragments]:
        assert word in error
    assert "Traceback" not in error
    assert not out.exists()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("cxr-contrabench --config chexpert_presence", ["how to get it", "--root chexpert=PATH"]),
        ("cxr-contrabench", ["needs all sources of one of its configs", "Open-i"]),
        ("cxr-contrabench --root chexpert=absent", ["absent does not exist", "Stanford"]),
        ("cxr-contrabench --root x=y", ["no such source"]),
        ("heal-medvqa --config vindr", ["--root vindr_cxr=PATH"]),
        ("heal-medvqa --threshold 7", ["--threshold 7.0", "from 0 to 1"]),
        ("heal-medvqa --detection-threshold -0.1", ["--detection-threshold -0.1", "from 0 to 1"]),
        ("wrong-lung", ["needs all sources of one of its configs", "how to get it", "chest_imagenome", "mimic_cxr"]),
        # Options are checked before any source is looked for.
        ("surgxbench --flow . --gamma 2", ["--gamma 2.0: is out of range", "a number from 0 to 1"]),
        ("surgxbench --flow . --trim 3", ["--trim 3.0: is out of range", "a number from 0 to 0.5"]),
        ("surgxbench --flow . --motion-floor -1", ["--motion-floor -1.0: is out of range", "a number, 0 or more"]),
        ("surgxbench --flow . --motion-floor inf", ["--motion-floor inf: is out of range"]),
        ("heal-medvqa --segmenter p10000032", ["--segmenter p10000032: has another form", "NAME VERSION"]),
        ("heal-medvqa --seed 12345678901", ["--seed 12345678901: is out of range", "at most ten digits"]),
        ("surgxbench --trim 3 --root x=y", ["--trim changes nothing without --flow"]),
    ],
)
def test_what_cannot_be_built_is_explained_with_status_2(arguments, expected, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["build", *arguments.split()]) == 2
    error = capsys.readouterr().err
    for word in expected:
        assert word in error


def test_a_view_that_no_image_has_is_explained(phantom_heal_roots, tmp_path, capsys):
    arguments = build_arguments(
        "heal-medvqa", phantom_heal_roots, "--config", "mimic", "--view", "SWIMMERS", "--out", str(tmp_path)
    )
    assert main(arguments) == 2
    assert "--view SWIMMERS" in capsys.readouterr().err


# What each option of each benchmark allows, if not everything.
CLOSED = [
    (name, option.flag, option.choices)
    for name, benchmark in BENCHMARKS.items()
    for option in declared(benchmark.options).values()
    if option.choices
] + [(name, "--config", benchmark.needs) for name, benchmark in BENCHMARKS.items()]


@pytest.mark.parametrize(("name", "flag", "choices"), CLOSED)
def test_a_choice_that_there_is_not_is_refused_with_those_there_are(name, flag, choices, capsys):
    with pytest.raises(SystemExit) as stop:
        main(["build", name, flag, "nothing"])
    assert stop.value.code == 2
    error = capsys.readouterr().err
    assert f"argument {flag}: invalid choice: 'nothing'" in error
    for choice in choices:
        assert f"'{choice}'" in error


@pytest.mark.parametrize("benchmark", BENCHMARKS.values(), ids=BENCHMARKS)
def test_help_says_what_each_option_is_by_default(benchmark: Benchmark, capsys):
    with pytest.raises(SystemExit) as stop:
        main(["build", benchmark.name, "--help"])
    assert stop.value.code == 0
    text = "".join(capsys.readouterr().out.split())  # lines break within words
    for option_class in (benchmark.options, *groups(benchmark.options).values()):
        for option in declared(option_class).values():
            assert "".join(f"{option.help} (default: {option.default})".split()) in text
            assert all("".join(choice.split()) in text for choice in option.choices)
    assert "".join(benchmark.note.split()) in text
    assert f"(default:{''.join(benchmark.unasked.split())});oneof" in text
