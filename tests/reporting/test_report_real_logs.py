"""The report on real lm-eval logs: reference models on every benchmark, and human judgements of their heatmaps."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from medfaith.annotate import session_setup
from medfaith.annotate.answers import open_answers
from medfaith.cli import main
from medfaith.reporting.contrabench.runs import Run
from medfaith.reporting.write import read_results
from tests.support.reporting.report_logs import csv_rows, rows_of, select_runs
from tests.support.tiers import choose_size

pytestmark = pytest.mark.usefixtures("quick_lm_eval")

LOOKED = (
    "medfaith_surgx", "medfaith_surgx_triplets_t50",
    *(f"medfaith_wrong_lung_{config}"
      for config in ("gold", "swap_left_right", "random_sentences", "synthetic", "trimmed")),
)  # fmt: skip
KINDS = ("box", "mirror")  # of heatmaps that people judge
MODELS = {
    "negation_attracted": ("negation_attracted", {}, ("medfaith_contrabench", "medfaith_heal_vindr")),
    "random": ("random", {}, ("medfaith_contrabench", "medfaith_heal_mimic")),
    "oracle (heatmap=box)": ("oracle", {"heatmap": "box"}, LOOKED),
    "oracle (heatmap=uniform)": ("oracle", {"heatmap": "uniform"}, LOOKED),
    "oracle (heatmap=mirror)": ("oracle", {"heatmap": "mirror"}, ("medfaith_wrong_lung_gold",)),
}  # fmt: skip
RANKED, CHOICES = ("auroc", "average_precision"), ("local_accuracy", "global_accuracy")
SUBSETS, ENDS = ("all", "abnormal", "one_lung", "mdrb"), ("", "_ci_low", "_ci_high")
Scores = Mapping[str, Mapping[str, Mapping[str, float]]]  # model -> task -> "metric,filter" -> what lm-eval computed
Pair = tuple[str, float]  # a cell of a CSV file, and lm-eval's figure


class Evaluated(NamedTuple):
    logs: Path
    data: Path
    heatmaps: Path
    images: Mapping[str, Path]
    scores: Scores


@pytest.fixture(scope="module")
def evaluated(
    phantom_build, phantom_roots, phantom_heal_build, phantom_heal_roots, phantom_surgx_build, phantom_surgx_roots,
    phantom_wrong_lung_build, phantom_wrong_lung_roots, tmp_path_factory,
) -> Evaluated:  # fmt: skip
    """Run MODELS through lm-eval and its results writer."""
    import lm_eval
    from lm_eval.loggers import EvaluationTracker
    from lm_eval.tasks import TaskManager

    from medfaith.tasks import include_path, register_models

    register_models()
    evaluate: Any = lm_eval.simple_evaluate  # its decorator hides its signature from type checkers
    logs, data, store = (tmp_path_factory.mktemp(name) for name in ("logs", "data", "heatmaps"))
    for build in (phantom_build, phantom_heal_build, phantom_surgx_build, phantom_wrong_lung_build):
        for folder in build.iterdir():
            (data / folder.name).symlink_to(folder)
    roots = phantom_roots | phantom_heal_roots | phantom_surgx_roots | phantom_wrong_lung_roots
    metadata = {"data": str(data), "roots": {k: str(v) for k, v in roots.items()}, "heatmaps": str(store)}
    tasks = TaskManager(include_path=str(include_path()), include_defaults=False, metadata=metadata)
    scores = {}
    for name, (model, arguments, task_names) in MODELS.items():
        tracker = EvaluationTracker(output_path=str(logs / name))
        result = evaluate(
            model=model, model_args=arguments and arguments | {"store": str(store)}, tasks=[*task_names],
            limit=choose_size(24, 40), task_manager=tasks, evaluation_tracker=tracker, bootstrap_iters=0,
        )  # fmt: skip
        samples = result.pop("samples")
        tracker.save_results_aggregated(results=result, samples=samples)
        for task, task_samples in samples.items():
            tracker.save_results_samples(task_name=task, samples=task_samples)
        scores[name] = result["results"]
    return Evaluated(logs, data, store, phantom_wrong_lung_roots, scores)


@pytest.fixture(scope="module")
def reported(evaluated, tables_alone, tmp_path_factory) -> tuple[str, dict[str, list[dict[str, str]]]]:
    """Run `medfaith report` on all logs; return its output and its CSV files."""
    out = tmp_path_factory.mktemp("reports") / "out"
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("medfaith.reporting.write.files", lambda figures: {})  # no pictures, which take longest
        assert main(["report", str(evaluated.logs), "--out", str(out)]) == 0
    tables = {path.stem: csv_rows(path) for path in out.glob("*.csv")}
    return (out / "report.md").read_text(encoding="utf-8"), tables


def contrabench(tables: Mapping[str, list[dict[str, str]]], scores: Scores) -> Iterator[Pair]:
    for row in tables["table_09_matrix"]:
        for protocol in ("chexpert_presence", "chexpert_absence", "openi_report_absence"):
            metrics = scores[row["model"]][f"medfaith_contrabench_{protocol}"]
            errors = "n_reversals" if protocol == "chexpert_presence" else "n_contradictions"
            for cell, name in {"base_accuracy": "accuracy,b0", "verified_accuracy": "accuracy,m1",
                               "base_errors": f"{errors},b0", "verified_errors": f"{errors},m1",
                               "parse_failure_rate": "parse_failure_rate,b0"}.items():  # fmt: skip
                yield row[f"{protocol}_{cell}"], metrics[name]


def same_names(row: Mapping[str, str], scores: Mapping[str, float], prefix: str = "") -> Iterator[Pair]:
    """Yield every figure of a row whose name equals the metric's name."""
    for key, value in scores.items():
        cell = row.get(prefix + key.removesuffix(",none"))
        if key.endswith(",none") and cell is not None:
            yield cell, value


def heal(tables: Mapping[str, list[dict[str, str]]], scores: Scores) -> Iterator[Pair]:
    for name, asks in (("02_accuracy", ("closed", "open")), ("03_tpt", ("tpt",)), ("04_vpt", ("vpt",))):
        for row in tables[f"heal_table_{name}"]:
            for config, ask in ((config, ask) for config in ("vindr", "mimic") for ask in asks):
                metrics = scores[row["model"]].get(f"medfaith_heal_{config}_{ask}", {})
                yield from same_names(row, metrics, f"{config}_")


def surgx(tables: Mapping[str, list[dict[str, str]]], scores: Scores) -> Iterator[Pair]:
    for row in tables["surgx_figure_03_instruments"]:
        if row["instrument"] == "all":
            yield from same_names(row, scores[row["model"]]["medfaith_surgx_instruments"])
    for name in ("figure_04a_ras", "figure_04b_levels", "triplets"):
        for row in tables[f"surgx_{name}"]:
            metrics = scores[row["model"]][f"medfaith_surgx_triplets{'_t50' * (row['data'] == 'CholecT50')}"]
            if name == "figure_04a_ras":
                level = row["level"].lower()
                yield row["ras"], metrics["ras_global_missed,none" if level == "missed" else f"ras_local_{level},none"]
            else:
                yield from same_names(row, metrics)


def wrong_lung(tables: Mapping[str, list[dict[str, str]]], scores: Scores) -> Iterator[Pair]:
    def both(row: Mapping[str, str], config: str, name: str, subset: str = "all", column: str = "") -> Iterator[Pair]:
        """Yield the figures that lm-eval has, too; it has no subsets of the entropy and of changed sentences."""
        for end in ENDS:
            where = "" if subset == "all" else f"_{subset}"
            value = scores[row["model"]][f"medfaith_wrong_lung_{config}"].get(f"{name}{where}{end},none")
            if value is not None:
                yield row[f"{name}{end}{column}"], value

    iou, precision = ([f"{kind}_{top}" for top in (5, 10, 30)] for kind in ("iou", "precision"))
    wide = {"table_07_all_subsets": ("gold", RANKED), "table_10_entropy": ("gold", ("entropy",)),
            "table_11_precision": ("gold", precision), "table_12_iou": ("gold", iou),
            "table_04_candidates": ("random_sentences", CHOICES), "table_09_candidates": ("random_sentences", CHOICES),
            "table_08_divergence": ("random_sentences", ("kl",))}  # fmt: skip
    for table, (config, names) in wide.items():
        for row in tables[f"wrong_lung_{table}"]:
            task_config = "synthetic" if row.get("synthetic") == "yes" else config
            for name, subset in ((n, s) for n in names for s in SUBSETS if f"{n}_{s}" in row):
                yield from both(row, task_config, name, subset, f"_{subset}")
    long = {"figures_03_05_14_15_deltas": ("", [f"delta_{name}" for name in RANKED]),
            "table_01_03_localization": ("gold", [*RANKED, *iou]), "table_02_subsets": ("gold", [*RANKED, *iou]),
            "table_06_trimmed": ("trimmed", RANKED), "runs": ("", ("n_without_map", "n_degenerate"))}  # fmt: skip
    for table, (config, names) in long.items():
        for row in tables[f"wrong_lung_{table}"]:
            task_config = config or row.get("config") or row["perturbation"].lower().replace(" ", "_")
            subset = row.get("subset", "all").rstrip("*").lower().replace(" ", "_")
            for name in names:
                yield from both(row, task_config, name, subset)


@pytest.mark.parametrize(
    ("pairs", "at_least"), [(contrabench, 2 * 15), (heal, 2 * 22), (surgx, 2 * 50), (wrong_lung, 2 * 180)]
)
def test_every_figure_that_both_have_is_the_same(evaluated, reported, pairs, at_least):
    n_compared = 0
    for cell, value in pairs(reported[1], evaluated.scores):
        assert (cell == "") == math.isnan(value)
        assert cell == "" or float(cell) == pytest.approx(value, abs=1e-12)
        n_compared += 1
    assert n_compared >= at_least


def test_reference_models_are_the_floor_and_the_ceiling(evaluated, reported):
    report, tables = reported
    control = {row[0]: row for row in rows_of(report, "Table 16")}
    assert control["negation_attracted"][4] == "0.00"
    assert {row[0]: row[6:8] for row in rows_of(report, "HEAL Table 4")}["negation_attracted"] == ["–", "0"]
    auroc = {row["model"]: row["auroc"] for row in tables["wrong_lung_table_01_03_localization"]}
    assert [*auroc] == [f"oracle (heatmap={kind})" for kind in ("box", "mirror", "uniform")]
    assert len([name for name in tables if "17_24_correlations" in name]) == len(auroc)
    assert float(auroc["oracle (heatmap=box)"]) > 0.99 > float(auroc["oracle (heatmap=mirror)"])
    assert [row["model"] for row in tables["surgx_triplets"]][::2] == [*list(MODELS)[2:4]]
    assert not [place for place in (evaluated.logs, evaluated.data, evaluated.heatmaps) if str(place) in report]
    runs = select_runs(read_results([evaluated.logs]), Run)
    assert len(runs) == 2 * 4
    for run in runs:
        metrics = evaluated.scores[run.model][run.source.task]
        assert math.isclose(run.scores("m1_extended")["accuracy_verified"], metrics["accuracy,m1_extended"])


def annotate(setup: session_setup.Wanted, out: Path) -> None:
    """Judge all images as one annotator, with random points."""
    random = np.random.default_rng(setup.seed)
    with open_answers(out) as (answers, _):
        session, _ = session_setup.prepare(setup, answers, {})
        while (place := session.find_next()) is not None:
            if place.alias is None:
                sentences = session.plan.instances[place.instance].sentences
                session.choose(place.instance, int(random.integers(len(sentences))))
            else:
                session.judge(place.alias, session.build_prompt(place), random.integers(1, 6, size=3).tolist(), 1.0)


@pytest.mark.usefixtures("tables_only")
def test_what_people_say_of_the_heatmaps_is_joined_with_the_values(evaluated, tmp_path):
    """Two annotators judge the heatmaps of both models; `annotate/test_annotate_correlations.py` checks the figures."""
    logs = [path for kind in KINDS for path in (evaluated.logs / f"oracle (heatmap={kind})").rglob("*lung_gold*")]
    files = [tmp_path / f"{annotator}.jsonl" for annotator in ("one", "two")]
    for seed, file in enumerate(files):
        setup = session_setup.Wanted(logs, str(evaluated.data), evaluated.heatmaps, evaluated.images, file.stem, seed)
        annotate(setup, file)
    options = [argument for file in files for argument in ("--annotations", str(file))]
    assert main(["report", *map(str, logs), "--out", str(tmp_path / "out"), *options]) == 0
    records = [json.loads(line) for file in files for line in file.read_text(encoding="utf-8").splitlines()]
    judged = {(record["row_id"], record["heatmaps"]) for record in records if record["kind"] == "judgement"}
    table = csv_rows(tmp_path / "out" / "wrong_lung_figure_06_correlations.csv")
    n = {row["model"]: int(row["n"]) for row in table if row["value"] == "Abnormal"}  # which every sentence has
    assert [*n] == [f"oracle (heatmap={kind})" for kind in KINDS]
    assert sum(n.values()) == len(judged) > 10
