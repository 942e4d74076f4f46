"""Figures 5 and 9 of SurgXBench: the choice of predictions, drawn graphs, and refused files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from medfaith.cli import main
from medfaith.loaders.errors import InputError
from medfaith.reporting.results import read_results
from medfaith.reporting.surgx.causal_graphs import draw_causal_figures, find_cases
from medfaith.reporting.surgx.runs import SurgXRun
from medfaith.tasks.explain.causal_plot import GREEN, TARGET
from medfaith.tasks.explain.store import open_store
from tests.support.reporting.report_logs import select_runs
from tests.support.reporting.surgx_logs import CUT, GRASP, instruments, look, seen, triplets, write_surgx

pytest.importorskip("matplotlib")
KEY, DIGEST = "0123456789abcdef", "fedcba9876543210"
SIZE = (120, 214)  # of a synthetic frame


def make_graph(head: int) -> dict[str, Any]:
    """Make a graph of one image token, the target and a token beyond the radius."""
    nodes = [
        {"position": 3, "kind": "image", "patch": [1, 0], "attention": 0.5, "distance": 1},
        {"position": 8, "kind": "text", "text": "far", "attention": 0.1, "distance": None},
        {"position": 9, "kind": "text", "text": "a", "attention": 0.4, "distance": 0},
    ]
    edges = [{"source": 3, "target": 9, "source_mark": "arrow", "target_mark": "circle"}]
    about = {"head": head, "importance": None, "backend": "fci", "settings": {"radius": 3}, "grid": [2, 2]}
    return about | {"target": {"position": 9, "text": "gras"}, "nodes": nodes, "edges": edges}


def write_graphs(folder: Path, row_id: str, reference: str, *names: str, **changes: Any) -> Path:
    """Write the graphs of two tokens of each class; the first has three heads."""
    folder.mkdir(exist_ok=True)
    path = open_store(folder).path(reference, row_id).with_suffix(".json")
    path.parent.mkdir(exist_ok=True)
    graphs = {name: [[make_graph(head) for head in (4, 0, 7)], [make_graph(1)]] for name in names}
    window = [0, 0, SIZE[1], SIZE[0]]
    path.write_text(json.dumps({"row": row_id, "size": SIZE, "window": window, "graphs": graphs} | changes))
    return path


def test_graphs_are_drawn_over_their_frames(sheet_run, tmp_path):
    rows = {ask: sheet_run.run(ask).rows[0] for ask in ("instruments", "triplets")}
    for row in rows.values():
        write_graphs(tmp_path / "graphs", row.id, row.heatmaps, *row.predicted)
    sheet = sheet_run.sheet._replace(causal_graphs=tmp_path / "graphs")
    runs = [sheet_run.run(ask) for ask in rows]
    figures, notes = draw_causal_figures(runs, sheet)
    assert ([*figures], notes) == (["figure_surgx_05", "figure_surgx_09"], [])
    label = rows["instruments"].gold[0].replace("_", " ")
    texts = [text.get_text() for text in figures["figure_surgx_05"].texts]
    assert texts[:4] == [
        "Figure 5: causal graphs (CLEANN) of predicted instruments", "m", f"TP {label} · AA 25.0% · AC 50.0%",
        f"{rows['instruments'].id}: 3 heads for the first of 2 tokens of {label}, radius 3",
    ]  # fmt: skip
    assert texts[5] == "FP clipper · AC 50.0%"
    panels: Any = figures["figure_surgx_05"].axes
    assert [axes.get_title() for axes in panels] == [f"head {n}, importance undefined, fci" for n in (4, 0, 7)] * 2
    (target,) = panels[0].texts[-1:]
    assert (target.get_text(), target.get_bbox_patch().get_facecolor()[:2]) == (
        "gras",
        (1.0, int(TARGET[3:5], 16) / 255),
    )
    green = [[*line.get_xdata(), *line.get_ydata()] for line in panels[0].lines if line.get_color() == GREEN]
    assert green == [[214 / 4, 90.0]], "the middle of the patch"
    texts = [text.get_text() for text in figures["figure_surgx_09"].texts]
    assert f"true {CUT}" in texts, "a missed triplet shows the predicted one"
    assert draw_causal_figures(runs, sheet_run.sheet) == ({}, [])


def test_the_prediction_with_the_highest_score_that_has_graphs(tmp_path):
    frames = [
        instruments(0, ["hook"], [look("hook", "tp", 0.5, 0.5), look("clipper", "fp", 0.0, 0.25)]),
        instruments(1, ["hook"], [look("hook", "tp", 0.75, 0.5)]),
        instruments(2, ["hook"], [look("hook", "tp", 1.0, 0.5), look("scissors", "fp", 0.0, 0.5)]),
    ]
    write_surgx(tmp_path / "logs", frames, heatmaps=f"{KEY}/{DIGEST}")
    (run,) = select_runs(read_results([tmp_path / "logs"]), SurgXRun)
    for row, names in zip(run.rows, (["hook", "clipper"], ["hook"], ["scissors"]), strict=True):
        write_graphs(tmp_path / "graphs", row.id, f"{KEY}/{DIGEST}", *names)
    cases = find_cases(run, tmp_path / "graphs")
    assert [(case.pick.row.id[-1], case.class_name, len(case.graphs), case.n_tokens) for case in cases] == [
        ("1", "hook", 3, 2), ("2", "scissors", 3, 2),
    ]  # fmt: skip
    assert {node["position"] for node in cases[0].graphs[0]["nodes"]} == {3, 9}, "within the radius"


def test_runs_without_graphs_are_named_and_damaged_files_refused(sheet_run, tmp_path):
    write_surgx(tmp_path / "logs", [triplets(0, [GRASP], [seen(GRASP, "ivt", 0.5)])], heatmaps=f"{KEY}/{DIGEST}")
    (run,) = select_runs(read_results([tmp_path / "logs"]), SurgXRun)
    sheet = sheet_run.sheet._replace(causal_graphs=tmp_path)
    figures, notes = draw_causal_figures([run], sheet)
    assert (figures, notes) == ({}, ["no causal graph of triplets with a score, in Figure 9 of SurgXBench: m"])
    for changes in ({"row": "another"}, {"window": [0, 0]}, {"graphs": {GRASP: [[{}]]}}, {"graphs": []}):
        path = write_graphs(tmp_path, run.rows[0].id, f"{KEY}/{DIGEST}", GRASP, **changes)
        with pytest.raises(InputError, match="is damaged"):
            find_cases(run, tmp_path)
    path.write_text("{")
    with pytest.raises(InputError, match="cannot be read as JSON"):
        find_cases(run, tmp_path)
    row = sheet_run.run("triplets").rows[0]
    write_graphs(tmp_path, row.id, row.heatmaps, *row.predicted, size=[10, 20])
    with pytest.raises(InputError, match=r"are of a frame of \(10, 20\), not \(120, 214\) pixels"):
        draw_causal_figures([sheet_run.run("triplets")], sheet)


@pytest.mark.usefixtures("tables_only")
def test_the_command_draws_graphs(sheet_run, tmp_path, capsys):
    row = sheet_run.run("instruments").rows[0]
    write_graphs(tmp_path / "graphs", row.id, row.heatmaps, "clipper")
    command = [*sheet_run.command(tmp_path / "out"), "--causal-graphs", str(tmp_path / "graphs")]
    assert main(command) == 0
    assert "Note: no causal graph of triplets" in capsys.readouterr().out
    assert (tmp_path / "out" / "figure_surgx_05.png").exists()
    assert main([*command[:-1], str(tmp_path / "nowhere")]) == 2
    assert "no such folder" in capsys.readouterr().err
    assert main(["report", str(sheet_run.logs), "--causal-graphs", str(tmp_path / "graphs")]) == 2
    assert "pictures of causal graphs need heatmaps" in capsys.readouterr().err
