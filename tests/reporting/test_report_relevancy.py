"""Relevancy of image tokens and text tokens in the report: cells and panels by hand, and a run by the command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from medfaith.cli import main
from medfaith.evaluate_metrics.confidence.score import bootstrap_mean
from medfaith.loaders.errors import InputError
from medfaith.reporting.heal.relevancy import LARGEST, select_examples
from medfaith.reporting.heal.runs import HealRun
from medfaith.reporting.pictures import DPI
from medfaith.reporting.results import read_results
from medfaith.tasks.heal.prompts import prompt
from medfaith.tasks.run import load_tasks
from tests.support.builders.files import root_words
from tests.support.reporting.heal_logs import CLOSED, write_heal
from tests.support.reporting.report_logs import csv_rows, rows_of, select_runs, write_report
from tests.support.reporting.wrong_lung_logs import changed, original, write_wrong_lung
from tests.support.tasks import tiny_models
from tests.support.tasks.asking import noise

HEAL, WRONG_LUNG = "HEAL Figure 1b", "Wrong Lung: relevancy"
TASK = "medfaith_heal_vindr_closed"
TEXT_SHARES = [0.25, 0.5, 0.75, None]
PEAK = 0.2  # of the image's tokens


def make_entry(text: float, *, tokens: bool = True) -> dict[str, Any]:
    """Build the entry of a reply with two text tokens; the second one has nothing."""
    entry: dict[str, Any] = {"image": 1 - text, "text": text, "image_peak": PEAK, "text_peak": text - 0.1}
    return entry | ({"tokens": [[" lung", text - 0.1], ["?", 0.1]]} if tokens else {})


def add_relevancy(shares: list[float | None]) -> list[tuple[dict[str, Any], str]]:
    """Add heatmaps and relevancy to the first yes/no answers; None adds nothing."""
    entries = [{} if share is None else {"heatmaps": "a/b", "relevancy": make_entry(share)} for share in shares]
    return [
        (doc, json.dumps({"text": text, **entry}) if entry else text)
        for (doc, text), entry in zip(CLOSED, entries, strict=False)
    ]


def format_interval(values: list[float], groups: list[str]) -> str:
    interval = bootstrap_mean(values, groups=groups, bounds=(0, 1))
    return f"{interval.mean:.3f} [{interval.low:.3f}, {interval.high:.3f}]"


@pytest.mark.usefixtures("tables_only")
def test_shares_by_model_and_task(tmp_path: Path):
    write_heal(tmp_path / "logs", "closed", add_relevancy(TEXT_SHARES))
    write_heal(tmp_path / "other", "closed", CLOSED, model="without")
    report = write_report([tmp_path / "logs", tmp_path / "other"], tmp_path / "out")
    groups = ["0", "1", "2"]
    first = [text - 0.1 > PEAK for text in TEXT_SHARES if text is not None]
    assert first == [False, True, True]
    assert rows_of(report, HEAL) == [
        ["m", TASK, "3 of 4", format_interval([0.75, 0.5, 0.25], groups), format_interval([0.25, 0.5, 0.75], groups),
         format_interval(first, groups)]
    ]  # fmt: skip
    assert float(csv_rows(tmp_path / "out" / "heal_figure_01_relevancy.csv")[0]["text"]) == 0.5
    assert (tmp_path / "out" / "figure_heal_01.png").is_file()
    assert HEAL not in write_report([tmp_path / "other"])


@pytest.mark.usefixtures("tables_only")
def test_sentences_have_shares_and_no_tokens(tmp_path: Path):
    rows = [original(n, f"p{n}", auroc=0.5) for n in range(3)]
    for config in ("gold", "swap_left_right"):
        pairs = rows if config == "gold" else [r for row in rows for r in (row, changed(row, config, auroc=0.25))]
        reply = {"heatmaps": "a/{id}", "relevancy": make_entry(0.75, tokens=False)}
        write_wrong_lung(tmp_path / "logs", config, pairs, reply=json.dumps(reply))
    report = write_report([tmp_path / "logs"], tmp_path / "out")
    cells = [[row[1].removeprefix("medfaith_wrong_lung_"), row[2], row[4][:5]] for row in rows_of(report, WRONG_LUNG)]
    assert cells == [["gold", "3", "75.00"], ["swap_left_right", "3", "75.00"]]  # of changed sentences alone
    assert not list((tmp_path / "out").glob("figure_heal*"))


@pytest.mark.usefixtures("tables_only")
def test_an_entry_of_another_form_is_refused_with_its_line(tmp_path: Path):
    answers = add_relevancy(TEXT_SHARES)
    answers[1] = (answers[1][0], json.dumps({"text": "Yes", "heatmaps": "a/b", "relevancy": {"image": 2}}))
    log = write_heal(tmp_path, "closed", answers)
    with pytest.raises(InputError, match="is no relevancy") as error:
        write_report([tmp_path])
    assert log.name in str(error.value)


def test_the_panels_are_each_runs_middle_highest_and_lowest_share_of_text(tmp_path: Path):
    for model in ("a", "b", "c"):
        write_heal(tmp_path / model, "closed", add_relevancy([0.4, 0.3, 0.9, 0.7, 0.5]), model=model)
    runs = select_runs(read_results([tmp_path]), HealRun)
    chosen = [(example.run.model, example.relevancy.text) for example in select_examples(runs)]
    assert chosen == [(model, text) for model in ("a", "b", "c") for text in (0.9, 0.5)]
    assert len(chosen) == LARGEST
    alone = [example.relevancy.text for example in select_examples(runs[:1])]
    assert alone == [0.9, 0.5, 0.3]


@pytest.mark.full
@pytest.mark.usefixtures("quick_lm_eval", "png_only")
def test_from_a_model_to_the_report(phantom_heal_build: Path, phantom_heal_roots: Any, tmp_path: Path):
    """The shares in the table are those of the stored tokens, and the text tokens spell the question."""
    model, roots = tiny_models.save_llava(tmp_path / "llava"), {"vindr_cxr": phantom_heal_roots["vindr_cxr"]}
    metadata = {"data": str(phantom_heal_build), "roots": {name: str(root) for name, root in roots.items()}}
    documents = load_tasks(TASK, metadata)["tasks"][TASK].test_docs()
    prompts = {prompt(document).removeprefix("<image>"): "Yes." for document in documents.select([0])}
    tiny_models.teach(model, "<image>", prompts, noise((64, 64), 0))
    arguments = f"pretrained={model},dtype=float32,image_string=<image>,relevancy=True"
    command = [
        "eval", "--data", str(phantom_heal_build), *root_words(roots), "--heatmaps", str(tmp_path / "heatmaps"),
        "--model", "medfaith-explained-vlm", "--model_args", arguments, "--tasks", TASK, "--limit", "1",
        "--device", "cpu", "--gen_kwargs", "max_gen_toks=4", "--output_path", str(tmp_path / "results"),
        "--log_samples",
    ]  # fmt: skip
    assert main(command) == 0
    (log,) = (tmp_path / "results").rglob("samples_*.jsonl")
    samples = [json.loads(line) for line in log.read_text().splitlines()]
    (reply,) = [json.loads(sample["filtered_resps"][0]) for sample in samples]
    assert samples[0]["doc"]["question"] in "".join(token for token, _ in reply["relevancy"]["tokens"])
    report = ["report", str(tmp_path / "results"), "--out", str(tmp_path / "out")]
    assert main(report) == 0
    assert not list((tmp_path / "out").glob("*_images.png"))
    images = ["--with-images", "--data", str(phantom_heal_build), *root_words(roots)]
    assert main([*report, *images, "--heatmaps", str(tmp_path / "heatmaps")]) == 0
    assert Image.open(tmp_path / "out" / "figure_heal_attention_images.png").size[0] == 2 * 3 * DPI
    (row,) = csv_rows(tmp_path / "out" / "heal_figure_01_relevancy.csv")
    assert (row["task"], row["n"]) == (TASK, "1")
    assert float(row["text"]) == pytest.approx(sum(share for _, share in reply["relevancy"]["tokens"]))
    assert float(row["image"]) == pytest.approx(1 - float(row["text"]))
    assert (tmp_path / "out" / "figure_heal_01.png").stat().st_size > 10_000
