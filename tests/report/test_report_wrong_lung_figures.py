"""The bar charts of That's the Wrong Lung!: what is drawn where, and when they are left out."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image

from medfaith.report.write import read_results, write_report
from medfaith.report.wrong_lung_scores import score_models
from tests.report.wrong_lung_logs import PAIR, changed, original, write_wrong_lung

pytest.importorskip("matplotlib")


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
    from medfaith.report.wrong_lung_figures import figure_5, figure_14

    chart_logs(tmp_path)
    models = score_models(read_results([tmp_path]).wrong_lung)
    (axes,) = figure_5(models).axes
    found = models[0].deltas["swap_left_right"]["one_lung"]
    assert [(round(bar.get_x() + bar.get_width() / 2, 6), bar.get_height()) for bar in axes.patches] == [  # pyright: ignore[reportAttributeAccessIssue]
        (-0.2, pytest.approx(-100 * (0.25 + 0.5 + 0.125) / 3)), (3.2, 25.0),
    ]  # fmt: skip
    (segments,) = [lines.get_segments() for lines in axes.collections]  # pyright: ignore[reportAttributeAccessIssue]
    assert segments[0][:, 1].tolist() == [100 * found["delta_auroc_ci_low"], 100 * found["delta_auroc_ci_high"]]
    assert [text.get_text() for text in axes.texts] == ["n/a"] * 8
    assert [label.get_text().split("\n")[1] for label in axes.get_xticklabels()] == [
        "(One Lung)", "(MDRB)", "(Abnormal)", "(Abnormal)", "(Abnormal)",
    ]  # fmt: skip
    panels = figure_14(models, "delta_average_precision").axes
    assert [panel.get_title(loc="left") for panel in panels] == ["All", "Abnormal", "One Lung", "MDRB"]
    assert [[bar.get_height() for bar in panel.patches] for panel in panels] == [[0.0], [0.0], [0.0], []]  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.usefixtures("png_only")
def test_pictures_stand_beside_the_tables(tmp_path, monkeypatch):
    chart_logs(tmp_path / "logs")
    write_wrong_lung(tmp_path / "gold", "gold", PAIR[:1])
    out = tmp_path / "out"
    write_report([tmp_path / "logs"], out)
    names = [f"figure_wrong_lung_{number}.png" for number in ("05", "14", "15")]
    assert [path.name for path in sorted(out.glob("*.png"))] == names
    assert [Image.open(out / name).size for name in names] == [(1200, 425), *[(1200, 985)] * 2]
    write_report([tmp_path / "gold"], out)
    assert not list(out.glob("*.png")), "nothing changed"
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    report = write_report([tmp_path / "logs"], out)
    assert "pictures of That's the Wrong Lung! need matplotlib and are left out" in report
    assert not list(out.glob("*.png"))
