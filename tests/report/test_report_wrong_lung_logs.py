"""That's the Wrong Lung! in the report: logs that lm-eval wrote, broken ones, and the bar charts."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from medfaith.cli import main
from medfaith.loaders.errors import InputError
from medfaith.report.write import read_results, write_report
from medfaith.report.wrong_lung_scores import score_models
from medfaith.tasks.wrong_lung.adapter import packed
from tests.report.heal_logs import csv_rows
from tests.report.report_logs import rows_of
from tests.report.wrong_lung_logs import TASK, Row, changed, original, write_wrong_lung

SHORT = ("all", "abnormal", "one_lung", "mdrb")
RUN = ("gold", "swap_left_right", "random_sentences", "trimmed")
ENDS = ("", "_ci_low", "_ci_high")
PAIR = [
    original(0, "p1", "abnormal", auroc=0.5),
    changed(original(0, "p1", "abnormal"), "random_sentences", auroc=0.25),
]


@pytest.fixture(scope="module")
def oracle_logs(phantom_wrong_lung_build, phantom_wrong_lung_roots, tmp_path_factory) -> tuple[Path, dict[str, Any]]:
    """The reference model that attends what a sentence names, as lm-eval itself writes it: logs, its own scores."""
    import lm_eval
    from lm_eval.loggers import EvaluationTracker
    from lm_eval.tasks import TaskManager

    from medfaith.tasks import include_path, register_models

    register_models()
    evaluate: Any = lm_eval.simple_evaluate  # its decorator hides its signature from type checkers
    logs, store = tmp_path_factory.mktemp("logs"), str(tmp_path_factory.mktemp("heatmaps"))
    metadata: dict[str, Any] = {"data": str(phantom_wrong_lung_build), "heatmaps": store}
    metadata["roots"] = {name: str(path) for name, path in phantom_wrong_lung_roots.items()}
    tasks = TaskManager(include_path=str(include_path()), include_defaults=False, metadata=metadata)
    tracker = EvaluationTracker(output_path=str(logs))
    result = evaluate(
        model="oracle",
        model_args={"store": store, "heatmap": "box"},
        tasks=[TASK + config for config in RUN],
        task_manager=tasks,
        evaluation_tracker=tracker,
        limit=30,
        bootstrap_iters=0,
    )
    samples = result.pop("samples")
    tracker.save_results_aggregated(results=result, samples=samples)
    for task, of_task in samples.items():
        tracker.save_results_samples(task_name=task, samples=of_task)
    return logs, result["results"]


def test_real_logs_agree_with_the_scores_that_lm_eval_computed(oracle_logs, tmp_path):
    """Every figure that both have is the same, interval by interval."""
    logs, scores = oracle_logs
    report = write_report([logs], tmp_path / "out")
    tables = {path.stem[len("wrong_lung_") :]: csv_rows(path) for path in (tmp_path / "out").glob("wrong_lung_*.csv")}
    n_compared = 0

    def compare(cell: str, config: str, name: str) -> None:
        nonlocal n_compared
        value = scores[TASK + config][f"{name},none"]
        assert (cell == "") == math.isnan(value), name
        assert cell == "" or float(cell) == pytest.approx(value, abs=1e-12), name
        n_compared += cell != ""

    whole = tables["table_07_all_subsets"][0]
    for subset in SHORT:
        of = "" if subset == "all" else f"_{subset}"
        for end in ENDS:
            for name in ("auroc", "average_precision"):
                compare(whole[f"{name}{end}_{subset}"], "gold", f"{name}{of}{end}")
            number = "04" if subset in SHORT[:2] else "09"
            for name in ("local_accuracy", "global_accuracy"):
                cell = tables[f"table_{number}_candidates"][0][f"{name}{end}_{subset}"]
                compare(cell, "random_sentences", f"{name}{of}{end}")
            compare(tables["table_08_divergence"][0][f"kl{end}_{subset}"], "random_sentences", f"kl{of}{end}")
    for row in tables["figures_03_05_14_15_deltas"]:
        config = row["perturbation"].lower().replace(" ", "_")
        subset = row["subset"].rstrip("*").lower().replace(" ", "_")
        of = "" if subset == "all" else f"_{subset}"
        for name in ("delta_auroc", "delta_average_precision"):
            for end in ENDS:
                compare(row[name + end], config, f"{name}{of}{end}")
    for name in ("auroc", "average_precision"):
        compare(tables["table_06_trimmed"][0][name], "trimmed", name)
    for run in tables["runs"]:
        for name in ("n_without_map", "n_degenerate", *(["n_pairs"] if run["config"] != "gold" else [])):
            compare(run[name], run["config"], name)
    assert n_compared >= 100
    assert [row[0] for row in rows_of(report, "Wrong Lung Tables 1 and 3")] == ["oracle (heatmap=box)"]
    assert float(tables["table_01_03_localization"][0]["auroc"]) > 0.99


def put(**changes: Any) -> Callable[[Row], None]:
    return lambda row: row.update(changes)


def value(**changes: Any) -> Callable[[Row], None]:
    return lambda row: row["values"].update(changes)


def without(name: str) -> Callable[[Row], None]:
    return lambda row: row["values"].pop(name)


BROKEN: dict[str, tuple[str, Callable[[Row], Any]]] = {
    "an id of another row": ("column 'delta_auroc.id': 'b' of the document's 'gold/000'", put(id="b")),
    "another original": ("delta_auroc.original_id", put(original_id="b")),
    "another perturbation": ("delta_auroc.perturbation", put(perturbation="trimmed")),
    "a cluster that is no text": ("'delta_auroc.cluster': 3 is not a text", put(cluster=3)),
    "no cluster": ("cannot be read (KeyError: 'cluster')", lambda row: row.pop("cluster")),
    "no subset": ("cannot be read (KeyError: 'abnormal')", put(subsets={})),
    "a subset in words": ("expected true or false", put(subsets=dict.fromkeys(SHORT, "yes"))),
    "another state": ("'seen' is none of scored, without_map", put(state="seen")),
    "a value too few": ("cannot be read (KeyError: 'iou_30')", without("iou_30")),
    "a share above 1": ("auroc is 1.5", value(auroc=1.5)),
    "a share below 0": ("no_attn is -0.5", value(no_attn=-0.5)),
    "no number": ("entropy is nan", value(entropy=math.nan)),
    "an infinite similarity": ("local is inf", value(local=math.inf)),
    "a similarity in words": ("global is '1'", value(**{"global": "1"})),
    "true for a number": ("auroc is True", value(auroc=True)),
    "a score without attention": ("auroc is 0.5 in the state without_map", put(state="without_map")),
    "attention in words": ("'delta_auroc.attention': cannot be read", put(attention="everywhere")),
    "attention cut short": ("cannot be read (Error", put(attention={"shape": [1, 1], "float32": "eJwL"})),
    "attention of another shape": ("cannot be read (cannot", put(attention=packed(np.ones((1, 2))) | {"shape": [3]})),
    "attention above 1": ("attention that sums to 2", put(attention=packed(np.ones((1, 2))))),
}  # fmt: skip


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_row_is_named(tmp_path, case):
    words, change = BROKEN[case]
    broken(write_wrong_lung(tmp_path, "random_sentences", PAIR), lambda sample: change(sample["delta_auroc"]), words)


BROKEN_SAMPLES: dict[str, tuple[str, Callable[[dict[str, Any]], Any]]] = {
    "no row": ("'delta_auroc': '' is not the row", lambda sample: sample.update(delta_auroc="")),
    "no document's id": ("cannot be read (KeyError: 'id')", lambda sample: sample["doc"].pop("id")),
    "a partner of another task": (
        "'doc.perturbation': 'trimmed' in the task medfaith_wrong_lung_random_sentences",
        lambda sample: sample["doc"].update(perturbation="trimmed"),
    ),
}


@pytest.mark.parametrize("case", BROKEN_SAMPLES)
def test_a_broken_sample_is_named(tmp_path, case):
    words, change = BROKEN_SAMPLES[case]
    broken(write_wrong_lung(tmp_path, "random_sentences", PAIR), change, words)


def broken(path: Path, change: Callable[[dict[str, Any]], Any], words: str) -> None:
    """Changes the first line; the report names it and writes nothing."""
    lines = path.read_text(encoding="utf-8").splitlines()
    sample = json.loads(lines[0])
    change(sample)
    path.write_text("\n".join([json.dumps(sample), *lines[1:]]), encoding="utf-8")
    with pytest.raises(InputError) as error:
        write_report([path], path.parent / "out")
    assert str(error.value).startswith(f"{path}, row 1")
    assert words in str(error.value)
    assert not (path.parent / "out").exists()


@pytest.mark.parametrize(
    ("config", "task", "words"),
    [
        ("gold", "medfaith_wrong_lung_other", "medfaith_wrong_lung_other, which is none of medfaith_wrong_lung_gold"),
        ("random_sentences", f"{TASK}gold", "'random_sentences' in the task medfaith_wrong_lung_gold"),
    ],
)
def test_a_log_of_another_task(tmp_path, config, task, words):
    write_wrong_lung(tmp_path, config, PAIR, task=task)
    with pytest.raises(InputError, match=words):
        write_report([tmp_path])


def test_attention_that_cannot_be_compared_and_rows_that_stand_twice(tmp_path, capsys):
    grids = [packed(np.full(shape, 0.25)) for shape in ((1, 2), (2, 1))]
    path = write_wrong_lung(
        tmp_path, "random_sentences", [row | {"attention": grid} for row, grid in zip(PAIR, grids, strict=True)]
    )
    assert main(["report", str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert f"{path}: has a pair without divergence: attention of shapes (1, 2) and (2, 1)" in error
    write_wrong_lung(tmp_path, "random_sentences", [*PAIR, PAIR[0]])
    with pytest.raises(InputError, match=r"row 3(.|\n)*gold/000 stands twice"):
        write_report([tmp_path])


def chart_logs(folder: Path) -> None:
    """Three patients a model; the second model has one perturbation alone, and one patient."""
    rows = []
    for number, (before, after) in enumerate(((0.5, 0.25), (0.75, 0.25), (0.75, 0.625))):
        row = original(number, f"p{number}", "abnormal one_lung", auroc=before, average_precision=before)
        rows += [row, changed(row, "swap_left_right", auroc=after, average_precision=before)]
    write_wrong_lung(folder / "a", "swap_left_right", rows, model="a")
    row = original(0, "p0", "abnormal", auroc=0.5)
    write_wrong_lung(folder / "b", "random_boxes", [row, changed(row, "random_boxes", auroc=0.75)], model="b")


def test_bars_show_the_changes(tmp_path):
    pytest.importorskip("matplotlib")
    from medfaith.report.wrong_lung_figures import figure_5, figure_14

    chart_logs(tmp_path)
    models = score_models(read_results([tmp_path]).wrong_lung)
    (axes,) = figure_5(models).axes
    found = models[0].deltas["swap_left_right"]["one_lung"]
    assert [(round(bar.get_x() + bar.get_width() / 2, 6), bar.get_height()) for bar in axes.patches] == [
        (-0.2, pytest.approx(-100 * (0.25 + 0.5 + 0.125) / 3)), (3.2, 25.0),
    ]  # fmt: skip
    (segments,) = [lines.get_segments() for lines in axes.collections]
    assert segments[0][:, 1].tolist() == [100 * found["delta_auroc_ci_low"], 100 * found["delta_auroc_ci_high"]]
    assert [text.get_text() for text in axes.texts] == ["–"] * 8
    assert [label.get_text().split("\n")[1] for label in axes.get_xticklabels()] == [
        "(One Lung)", "(MDRB)", "(Abnormal)", "(Abnormal)", "(Abnormal)",
    ]  # fmt: skip
    panels = figure_14(models, "delta_average_precision").axes
    assert [panel.get_title(loc="left") for panel in panels] == ["All", "Abnormal", "One Lung", "MDRB"]
    assert [[bar.get_height() for bar in panel.patches] for panel in panels] == [[0.0], [0.0], [0.0], []]


def test_pictures_stand_beside_the_tables(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    chart_logs(tmp_path / "logs")
    write_wrong_lung(tmp_path / "gold", "gold", PAIR[:1])
    out = tmp_path / "out"
    report = write_report([tmp_path / "logs"], out)
    names = [f"figure_wrong_lung_{number}.png" for number in ("05", "14", "15")]
    assert [path.name for path in sorted(out.glob("*.png"))] == names
    pictures = {name: (out / name).read_bytes() for name in names}
    assert [Image.open(io.BytesIO(picture)).size for picture in pictures.values()] == [(1200, 425), *[(1200, 985)] * 2]
    assert write_report([tmp_path / "logs"], out) == report, "its own files are replaced"
    assert {name: (out / name).read_bytes() for name in names} == pictures, "the same data give the same bytes"
    write_report([tmp_path / "gold"], out)
    assert not list(out.glob("*.png")), "nothing changed"
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    report = write_report([tmp_path / "logs"], out)
    assert "pictures of That's the Wrong Lung! need matplotlib and are left out" in report
    assert not list(out.glob("*.png"))
