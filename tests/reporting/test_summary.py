"""The terminal summary of finished runs, and the files for the Hub."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml
from huggingface_hub import eval_result_entries_to_yaml, parse_eval_result_entries
from huggingface_hub.utils import validate_repo_id

from medfaith.cli import main
from medfaith.reporting.page.audit_results import Audits, Verdict
from medfaith.reporting.page.verdict_words import IMAGE_WORDS, PLACE_WORDS
from medfaith.reporting.registry import BENCHMARKS
from medfaith.reporting.results import Results
from medfaith.reporting.summary import LINES, WIDTH, Tail, summary
from tests.support.reporting.heal_logs import CLOSED, write_heal
from tests.support.reporting.report_logs import DATE, answered, write_log, write_samples
from tests.support.reporting.surgx_logs import FRAMES, write_surgx
from tests.support.reporting.wrong_lung_logs import original, write_wrong_lung

LATER = "2026-02-02T00-00-00"
OTHERS = [{"doc": {"question": "2 + 2?"}, "resps": [["4"]], "filtered_resps": ["4"], "filter": "none"}]

TITLES = [benchmark.title for benchmark in BENCHMARKS.values()]


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Models of several kinds and tasks, also foreign tasks: a repeated task, a control, few rows, no sample logs."""
    folder = tmp_path_factory.mktemp("mixed")
    write_log(folder / "a", "org/model-a", answered("chexpert_presence", 40, 30, 4, unread=2))
    write_log(folder / "a", "org/model-a", answered("chexpert_absence", 10, 5, 4))
    cot_answers = answered("chexpert_absence", 10, 6, 4, prompt="cot")
    write_log(folder / "a2", "org/model-a", cot_answers, date="2026-03-03T00-00-00")
    write_log(folder / "b", "/home/somebody/models/model-b", answered("chexpert_presence", 40, 10, 20))
    write_log(folder / "c", "org/model-c", answered("chexpert_presence", 8, 2, 2), n_data=40)
    write_heal(folder / "c", "closed", CLOSED, model="org/model-c")
    blind = [(doc | {"prompt": "b0, blank", "control": "blank"}, "No") for doc, _ in CLOSED]
    write_heal(folder / "d", "closed", blind, model="org/model-c", date=LATER, control="blank")
    write_surgx(folder / "e", FRAMES, model="oracle")
    write_wrong_lung(
        folder / "f", "gold", [original(n, f"p{n}", auroc=0.5 + n / 10) for n in range(4)], model="gloria:x"
    )
    write_samples(folder / "g", "arc_easy", OTHERS, model="org/model-a")
    (folder / "g" / f"results_{LATER}.json").write_text(json.dumps({"config": {"model": "m"}}))
    return folder


def print_report(capsys: pytest.CaptureFixture[str], *arguments: object) -> list[str]:
    assert main(["report", *map(str, arguments)]) == 0
    return capsys.readouterr().out.splitlines()


def test_a_folder_of_mixed_runs_is_grouped_by_task(mixed, capsys):
    lines = print_report(capsys, mixed)
    assert len(lines) <= LINES
    assert max(map(len, lines)) <= WIDTH or lines[-1].startswith("  medfaith report ")
    rows = {tuple(re.split(r"  +", line)[:2]): re.split(r"  +", line)[2:] for line in lines[3:13]}
    assert list(rows) == [
        ("CheXpert direct presence: accuracy", "org/model-a"),
        ("CheXpert direct presence: accuracy", "model-b"),
        ("CheXpert direct presence: accuracy", "org/model-c"),
        ("CheXpert report-style absence: accuracy", "org/model-a (cot)"),
        ("CheXpert report-style absence: accuracy", "org/model-a (b0)"),
        ("HEAL-MedVQA VinDr closed: accuracy", "org/model-c"),
        ("Cholec80-Boxes instruments: F1 of a frame", "oracle"),
        ("That's the Wrong Lung! gold: AUROC", "gloria:x"),
        ("… and 1 more: medfaith report --html FILE shows them",),
        ("",),
    ]
    model_a_cells, *_, heal_cells, _, _, _, _ = rows.values()
    assert (model_a_cells[0][:6], model_a_cells[1]) == ("75.00 ", "40")
    assert heal_cells[0].startswith("70.00 [")
    text = "\n".join(lines)
    assert "Unread: " in text
    assert "2 of 40 answers (5.00%) of" not in text, "the worst run is named, and no other"
    assert "1 sample logs of other tasks are left out: arc_easy" in text
    assert f"results_{LATER}.json has no samples next to it and is left out" in text.replace("\n  ", " ")
    assert "WARNING: 2 of 40 answers (5.0%) of org/model-a in" in text
    assert f"medfaith report {mixed} --html report.html" in lines[-2]


@pytest.mark.full
@pytest.mark.usefixtures("tables_only")
def test_many_runs_and_warnings_still_fit(tmp_path, capsys):
    for number in range(12):
        name = f"group-of-{number}/a-model-with-a-name-that-is-very-long-indeed-and-ends-in-{number:02}"
        for protocol in ("chexpert_presence", "chexpert_absence", "openi_report_absence"):
            rows = answered(protocol, 5, number % 3, 1, unread=1)
            rows = [(row, text.replace("a decision", "a \x1b[31mdecision")) for row, text in rows]
            write_log(tmp_path / f"m{number}", name, rows, filters=("b0",))
    options = ["--out", tmp_path / "out", "--html", tmp_path / "page.html", "--results-yaml", tmp_path / "hub"]
    lines = print_report(capsys, tmp_path, *options, "--org", "group")
    assert len(lines) <= LINES
    assert all(len(line) <= WIDTH or "/" in line for line in lines)
    best = int(re.findall(r"the best (\d+) of each task", lines[0])[0])
    assert sum(line.startswith(("CheXpert", "OpenI")) for line in lines) == 3 * best
    assert f"… and {36 - 3 * best} more: " in "\n".join(lines)
    assert {re.split("  +", line)[1][-2:] for line in lines if line.startswith("OpenI")} <= {"02", "05", "08", "11"}
    assert "\x1b" not in "".join(lines)
    n_warned = sum(line.startswith("WARNING") for line in lines)
    assert n_warned >= 1
    (more,) = [line for line in lines if line.endswith("more warnings: medfaith report --html FILE shows them")]
    assert int(more.split()[2]) + n_warned == 36
    saved = lines[lines.index("Saved:") + 1 :]
    assert saved[0].startswith(f"  {tmp_path / 'out'}: report.md, ")
    assert saved[1] == f"  {tmp_path / 'page.html'}: a page with tables, plots and every answer"
    assert len(list((tmp_path / "hub").iterdir())) == 12
    assert saved[8] == "  … and 6 more"
    assert "  medfaith audit --help  # does the model use the image?" in saved


def test_the_verdicts_of_many_models_fit():
    numbers = {"score": 1.0, "other": 0.5, "own_less_other": 0.5, "blind": 0.5}
    verdict = Verdict(IMAGE_WORDS["open"], PLACE_WORDS["elsewhere"], numbers)
    audited = Audits(
        {f"model-{n}": dict.fromkeys(TITLES, verdict) for n in range(20)},
        {},
    )
    lines = summary(Results({}, []), ["WARNING: " + "word " * 60], Tail(["a"], ["b"]), audited).splitlines()
    n_shown = sum(line.startswith("model-") for line in lines)
    assert 20 < n_shown < len(lines) <= LINES
    assert max(map(len, lines)) <= WIDTH
    assert any(line.startswith(f"… and {20 * len(TITLES) - n_shown} more: ") for line in lines)


@pytest.mark.parametrize("has_other", [True, False])
def test_the_verdicts_of_one_model_have_their_interval(has_other):
    difference = {"own_less_other": 0.5, "own_low": 0.4, "own_high": 0.6} if has_other else {}
    numbers = {"score": 0.9, "other": 0.4, "blind": 0.3, "reliance": 0.6, "low": 0.5, "high": 0.7} | difference
    verdict = Verdict(IMAGE_WORDS["unanswered"], PLACE_WORDS["elsewhere"], numbers)
    audited = Audits({"org/" + "long-" * 30: dict.fromkeys(TITLES, verdict)}, {})
    lines = summary(Results({}, []), [], Tail(), audited).splitlines()
    assert max(map(len, lines)) <= WIDTH
    assert lines[0].startswith("Does the model use the image? …")
    cells = dict(zip(re.split("  +", lines[1]), re.split("  +", lines[3]), strict=True))
    difference_cells = {"other": "40.00", "own - other [95%]": "+50.00 [40.00, 60.00]"} if has_other else {}
    difference_cells |= {} if has_other else {"own - blind [95%]": "+60.00 [50.00, 70.00]"}
    verdict_cells = {"image": "90.00", "blind": "30.00", "uses it?": "no verdict", "the place?": "another place"}
    assert cells == {"benchmark": "CXR-ContraBench"} | verdict_cells | difference_cells


def test_the_files_for_the_hub(mixed, tmp_path, capsys):
    lines = print_report(capsys, mixed, "--results-yaml", tmp_path, "--org", "group")
    files = {str(path.relative_to(tmp_path)): path for path in tmp_path.rglob("*.yaml")}
    assert set(files) == {
        "org__model-a/.eval_results/cxr-contrabench-chexpert.yaml",
        "org__model-a/.eval_results/cxr-contrabench-chexpert_2.yaml",
        "model-b/.eval_results/cxr-contrabench-chexpert.yaml",
        "org__model-c/.eval_results/heal-medvqa-vindr_cxr.yaml",
        "gloria__x/.eval_results/wrong-lung-chest_imagenome.yaml",
    }
    for path in files.values():  # the Hub's own client reads them, and writes the same
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
        entries = parse_eval_result_entries(content)
        assert eval_result_entries_to_yaml(entries) == content
        for entry, file_entry in zip(entries, content, strict=True):
            assert set(file_entry) == {"dataset", "value", "date", "notes"}
            assert set(file_entry["dataset"]) == {"id", "task_id"}
            validate_repo_id(entry.dataset_id)
            assert isinstance(entry.value, float)
            assert re.fullmatch(r"\d{4}-\d\d-\d\d", entry.date), "a text, not a date of YAML"
    first_entry, second_entry = parse_eval_result_entries(
        yaml.safe_load(files["org__model-a/.eval_results/cxr-contrabench-chexpert.yaml"].read_text(encoding="utf-8"))
    )
    assert {first_entry.task_id, second_entry.task_id} == {
        "medfaith_contrabench_chexpert_presence", "medfaith_contrabench_chexpert_absence",
    }  # fmt: skip
    assert (first_entry.dataset_id, first_entry.value, first_entry.date) == (
        "group/cxr-contrabench-chexpert",
        75.0,
        DATE[:10],
    )
    assert re.match(
        r"accuracy in %; 95% interval 59\.81 to 85\.81 \(of whole groups\); 40 rows of 40 groups; "
        r"unread answers: 2; declined answers: 0; prompt: b0; ", first_entry.notes,
    )  # fmt: skip
    assert str(first_entry.notes).endswith(", run by lm-evaluation-harness")
    text = "\n".join(lines)
    assert "org__model-a/.eval_results: for a pull request to https://huggingface.co/org/model-a" in text
    assert "model-b/.eval_results: for a pull request to the model's own repository" in text
    for which in ("1 under a control", "1 of reference models, which have no repository", "1 of some rows only"):
        assert which in text.split("runs that are not in the Hub's files: ")[1].replace("\n  ", " ")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--results-yaml", "hub"], "--results-yaml and --org must be given together"),
        (["--org", "group"], "--results-yaml and --org must be given together"),
        (["--results-yaml", "hub", "--org", "a/b"], "--org: 'a/b' is not a valid name on the Hub"),
        (["--results-yaml", "file", "--org", "group"], "choose another --results-yaml"),
    ],
)
def test_what_cannot_be_written_for_the_hub(mixed, options, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    assert main(["report", str(mixed), *options]) == 2
    assert message in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
