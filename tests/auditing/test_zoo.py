"""`medfaith audit` on models of known truth behind a server, as run by a user; and refused input."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from medfaith.cli import main
from medfaith.loaders.row_ids import read_ids, write_ids
from medfaith.tasks.controls import EDITS, ELSEWHERE
from medfaith.tasks.run import load_tasks
from tests.support.auditing.zoo import TASKS, read_known, serving, zoo
from tests.support.reporting.report_logs import csv_rows

NAMES = (
    "looks", "reads-half", "says-no", "says-yes", "draws", "decliner", "good-decliner", "shifter", "sees-paint",
    "sees-paint-there", "memoriser", "memoriser-decliner", "refuses-40%", "refuses-60%", "breaks-format", "opposite",
    "own-wording", "selective",
)  # fmt: skip
BLIND_AND_OTHER = ("--controls", "none", "other")
CROPPED = (*BLIND_AND_OTHER, "cropped")
PLACE = ("--controls", "none", "other", *(f"{edit}{place}" for edit in EDITS[:2] for place in ("", ELSEWHERE)))


@pytest.fixture(scope="module")
def scene(audited_build, phantom_heal_roots, tmp_path_factory):
    """Models, arguments of an audit of VinDr-CXR's closed questions, and a folder."""
    vindr = phantom_heal_roots["vindr_cxr"]
    reference = read_known(audited_build, {"vindr_cxr": vindr})
    folder = tmp_path_factory.mktemp("zoo")
    closed = [{"id": row_id, "benchmark": "heal-medvqa", "task": TASKS[0]} for row_id in reference.ids[TASKS[0]]]
    write_ids(folder / "closed.csv", closed)
    arguments = [
        *("audit", "--data", str(audited_build), "--root", f"vindr_cxr={vindr}", "--benchmarks", "heal-medvqa"),
        *("--model", "medfaith-server", "--apply_chat_template"),
    ]
    metadata = {"data": str(audited_build), "control": "other"}
    has_donor = {*load_tasks(TASKS[0], metadata)["tasks"][TASKS[0]].dataset["test"].with_format(None)["id"]}
    return SimpleNamespace(
        members=zoo(reference), known=reference, arguments=arguments, folder=folder, has_donor=has_donor
    )


@pytest.fixture(scope="module")
def audited(scene):
    """Run the audit of a model with options, unless it exists; return its folder."""

    def audit(name, *options):
        out = scene.folder / "-".join([name, *(option.strip("-") for option in options)])
        if not out.exists():
            with serving(scene.members[name].answer) as url:
                arguments = [*scene.arguments, "--model_args", f"base_url={url},model=m", "--out", str(out), *options]
                rows = [] if "--rows" in options else ["--rows", str(scene.folder / "closed.csv")]
                assert main([*arguments, *rows]) == 0
        return out

    return audit


def read_verdicts(out: Path) -> tuple[str, str]:
    (row,) = csv_rows(out / "audit.csv")
    return row["uses_image"], row["depends_on_place"]


@pytest.mark.parametrize(
    ("name", "options", "verdict"),
    [
        pytest.param("decliner", BLIND_AND_OTHER, "open", marks=pytest.mark.full),
        pytest.param("good-decliner", BLIND_AND_OTHER, "uses", marks=pytest.mark.full),
        pytest.param("shifter", BLIND_AND_OTHER, "open", marks=pytest.mark.full),
        pytest.param("memoriser", CROPPED, "recalls", marks=pytest.mark.full),
        pytest.param("memoriser-decliner", CROPPED, "recalls", marks=pytest.mark.full),
    ],
)
def test_the_verdict_on_the_image_is_right(name, options, verdict, scene, audited):
    """test_located_rows.py has a verdict in the regular run, and test_image_use.py each verdict of such answers.

    31 patients are too few to show that a model does not use the image; 59 are enough.
    """
    assert read_verdicts(audited(name, *options))[0] == verdict
    assert verdict in scene.members[name].image


@pytest.mark.full  # test_located_rows.py has this verdict
def test_a_model_that_looks_uses_the_image_and_the_place(audited):
    assert read_verdicts(audited("looks", *PLACE)) == ("uses", "depends")


@pytest.mark.full
@pytest.mark.parametrize("name", NAMES)
def test_all_verdicts_are_right(name, scene, audited):
    assert set(NAMES) == set(scene.members)
    options = ("--wordings", "2") if name == "own-wording" else ()
    out, member = audited(name, *options, "--margin", "5"), scene.members[name]
    image, place = read_verdicts(out)
    assert (image in member.image, place in member.place) == (True, True), (image, place)
    page = (out / "audit.md").read_text(encoding="utf-8")
    assert ("It is right by the wording only" in page) == (name == "own-wording")


@pytest.mark.full
def test_a_decliner_and_the_same_guesser_have_the_same_blind_clean_rows(scene, audited):
    declined, guessed = (audited(name, *BLIND_AND_OTHER) for name in ("decliner", "says-no"))
    clean = [{*read_ids(out / "blind_clean.csv")} for out in (declined, guessed)]
    assert clean[0] == clean[1]
    assert clean[0] <= scene.has_donor  # without a donor nothing shows how a decliner guesses
    assert 0 < len(clean[0]) < len(scene.has_donor)
    (row,) = csv_rows(declined / "audit.csv")
    assert (float(row["declined_rate"]), float(row["declined_rate_blind"])) == (0, 1)


@pytest.fixture(scope="module")
def begun(scene):
    """Arguments and folder of an audit of a reference model on a few rows."""
    out = scene.folder / "begun"
    arguments = [*scene.arguments[:-3], "--model", "question_prior", "--limit", "6"]
    assert main([*arguments, *BLIND_AND_OTHER, "--out", str(out)]) == 0
    return arguments, out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--controls", "nonsense"), "is 'nonsense'; expected one of none, blank"),
        (("--controls", "occluded@33"), "is 'occluded@33'; expected occluded@25, occluded@50"),
        (("--controls", "occluded@"), "is 'occluded@'; expected occluded@25"),
        (("--controls", "blank@50"), "is 'blank@50', and blank has no dose"),
        (("--rule", "3"), "argument --rule: invalid choice: 3 (choose from 1, 2)"),
        (("--margin", "-5"), "argument --margin: "),
        (("--wordings", "99"), "--wordings 99: there are 5 paraphrases of each question"),
        (("--wordings", "-1"), "argument --wordings: "),
        (("--thorough", "--controls", "none"), "--thorough and --controls name controls both"),
        (("--rows", "ALONE"), "heal-medvqa: no row can be asked with another patient's image"),
        (("--rows", "ELSE"), "else.csv"),
    ],
)
def test_bad_input_is_refused_and_nothing_is_written(options, message, begun, scene, tmp_path, capsys):
    arguments, _ = begun
    files = {"ALONE": tmp_path / "alone.csv", "ELSE": tmp_path / "else.csv"}
    files["ALONE"].write_text("\n".join(["id", *({*scene.known.ids[TASKS[0]]} - scene.has_donor)]) + "\n")
    files["ELSE"].write_text("id\nno such row\n")
    out = tmp_path / "out"
    changed_arguments = [*arguments, *(str(files.get(option, option)) for option in options), "--out", str(out)]
    assert get_exit_status(changed_arguments) == 2
    error = capsys.readouterr().err
    assert message in error
    assert "Traceback" not in error
    assert not out.exists()


def test_an_audit_is_not_resumed_by_another_rule(begun, capsys):
    arguments, out = begun
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    assert main([*arguments, *BLIND_AND_OTHER, "--rule", "1", "--out", str(out)]) == 2
    assert "holds an audit of something else: rule was 2, now 1" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before


@pytest.mark.full  # another audit
def test_a_benchmark_without_paraphrases_is_asked_in_its_own_words(phantom_wrong_lung_build, tmp_path, capsys):
    arguments = ["audit", "--data", str(phantom_wrong_lung_build), "--benchmarks", "wrong-lung", "--model", "oracle"]
    more = ["--limit", "3", "--rule", "1", "--controls", "none", "--wordings", "2", "--out", str(tmp_path / "out")]
    assert main([*arguments, *more]) == 0
    printed = capsys.readouterr().out
    assert "wording_1: " in printed
    assert not (tmp_path / "out" / "logs" / "medfaith_wrong_lung_gold" / "wording_1").exists()


def get_exit_status(arguments: list[str]) -> int:
    """Run the command and get its exit status; argparse exits by itself."""
    try:
        return main(arguments)
    except SystemExit as ended:
        return int(ended.code or 0)
