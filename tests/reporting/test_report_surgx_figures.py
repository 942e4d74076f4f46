"""SurgXBench's figures: drawn values, choice of heatmaps for the contact sheet, and refused input."""

from __future__ import annotations

import io
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from medfaith.cli import main
from medfaith.evaluate_metrics.reading.surgical_names import TRIPLETS
from medfaith.loaders.errors import InputError, MedfaithError
from medfaith.reporting import pictures
from medfaith.reporting.benchmark import ReportSources
from medfaith.reporting.pictures import BOX, short, shorten_names
from medfaith.reporting.results import read_results
from medfaith.reporting.surgx import figures as surgx_figures
from medfaith.reporting.surgx.occlusions import COVERS, OTHER_TOOL, cases, draw_occlusion_figure
from medfaith.reporting.surgx.overlays import LARGEST, Overlay, Sheet, contact_sheet, draw, picks, places
from medfaith.reporting.surgx.runs import SurgXRun
from medfaith.tasks.explain.geometry import Geometry
from medfaith.tasks.explain.store import HeatmapStore
from tests.support.reporting.report_logs import select_runs, write_report
from tests.support.reporting.surgx_logs import (
    ACTIONS,
    CLIP,
    CUT,
    FRAMES,
    GRASP,
    NAN,
    PACK,
    add_boxes,
    instruments,
    look,
    seen,
    triplets,
    write_surgx,
)
from tests.support.reporting.surgx_sheet import SHOWN, read_build_rows

to_hex = pytest.importorskip("matplotlib").colors.to_hex
GREEN = tuple(bytes.fromhex(BOX[1:]))
SCORES = [float(number) for number in range(100)]  # of the triplets, where they are asked for


def render_pixels(figure: Any) -> np.ndarray:
    """Return the pixels of the figure, saved as PNG."""
    return np.asarray(Image.open(io.BytesIO(pictures.saved(figure, ["png"])["png"])).convert("RGB"))


@pytest.mark.full  # a report with pictures
@pytest.mark.usefixtures("png_only")
def test_pictures_stand_beside_the_tables(tmp_path):
    write_surgx(tmp_path / "logs", FRAMES)
    write_surgx(tmp_path / "logs", ACTIONS)
    write_report([tmp_path / "logs"], tmp_path / "out")
    sizes = {path.name: Image.open(path).size for path in (tmp_path / "out").glob("*.png")}
    assert sizes == {"figure_surgx_03.png": (1200, 1025), "figure_surgx_04.png": (1200, 425)}


def get_medians(axes: Any) -> list[float]:
    """Return the median positions of the box plots."""
    median_lines = [line for line in axes.lines if line.get_color() == "black" and line.get_lw() == 1.5]
    return sorted(float(line.get_ydata()[0]) for line in median_lines)


def test_box_plots_show_the_records(tmp_path):
    values = [0.125, 0.25, 0.5, 0.5, 1.0]
    frames = [instruments(n, ["hook"], [look("hook", "tp", aa, 1.0)]) for n, aa in enumerate(values)]
    write_surgx(tmp_path, [*frames, instruments(9, [], [look("hook", "fp", 0.0, 0.375), look("clipper", "fp")])])
    write_surgx(tmp_path, ACTIONS)
    run, actions = sorted(select_runs(read_results([tmp_path]), SurgXRun), key=lambda run: run.setting.ask)
    styles = {"m": {"facecolor": "red"}}
    f1, *panels = surgx_figures.figure_3([run], styles).axes
    bars: Any = f1.patches
    tops = [bar.get_height() for bar in bars if bar.get_height() > 0]
    assert tops == pytest.approx([10 / 11, 10 / 12])  # hook, and all
    assert [get_medians(axes) for axes in panels] == [[0.5, 0.5], [1.0, 1.0], [0.375, 0.375]]  # of the hook, and of all
    assert [text.get_text() for text in panels[0].texts] == ["n/a"] * 6
    assert [text.get_text() for text in f1.texts] == [*["n/a"] * 3, "0", *["n/a"] * 2], "a value of 0 is one"
    lines: Any = panels[1].lines
    thick = [(line.get_color(), [*line.get_ydata()]) for line in lines if line.get_lw() == 8]
    assert thick == [("red", [1.0, 1.0])] * 2, "where all values are the same, the colour is still there"
    ras, shares = surgx_figures.figure_4([actions], styles).axes
    assert get_medians(ras) == [0.5, 0.5, 1.0]
    assert [round(bar.get_width(), 6) for bar in shares.patches] == [round(n / 6, 6) for n in (2, 1, 1, 2)]  # pyrefly: ignore[missing-attribute] (rectangles)


@pytest.mark.full  # pictures of nine models
def test_a_model_keeps_its_colour_and_the_ninth_is_hatched(tmp_path):
    for number in range(9):
        write_surgx(tmp_path / str(number), FRAMES, model=f"model {number}")
    figures, _ = surgx_figures.draw_surgx_figures(select_runs(read_results([tmp_path]), SurgXRun))
    assert [*figures] == ["figure_surgx_03"]
    styles = pictures.make_styles([f"model {number}" for number in range(9)])
    assert styles["model 0"]["facecolor"] == styles["model 8"]["facecolor"]
    assert len({(style["facecolor"], style["hatch"]) for style in styles.values()}) == 9


def overlay(**changes: Any) -> Overlay:
    heatmap = np.zeros((100, 200))
    heatmap[40:60, 100:120] = 2.0
    boxes = [{"label": "hook", "xywh": [20.0, 30.0, 60.0, 50.0]}]
    black = np.zeros((100, 200, 3), dtype=np.uint8)
    return Overlay(black, heatmap, boxes, None, "instruments/41/000001", ["m", "TP hook"])._replace(**changes)


def get_sheet_colour(sheet: np.ndarray, at: tuple[int, int, int, int], x: float, y: float) -> tuple[int, ...]:
    """Return the colour of a pixel of the frame, which has 200 x 100 pixels."""
    x0, y0, width, height = at
    return tuple(int(value) for value in sheet[round(y0 + y * height / 100), round(x0 + x * width / 200)])


def test_an_overlay_has_its_parts_in_their_places():
    (width, height), (at,) = places([overlay()])
    sheet = render_pixels(draw([overlay()], "one"))
    assert sheet.shape == (height, width, 3)
    assert at[2:] == (400, 200)
    for x, y in ((60, 30), (20, 70), (80, 60), (50, 80)):  # the four sides
        assert get_sheet_colour(sheet, at, x, y) == GREEN
    assert get_sheet_colour(sheet, at, 50, 60) == get_sheet_colour(sheet, at, 180, 90) == (0, 0, 0), (
        "where nothing is, the frame is"
    )
    red, green, blue = get_sheet_colour(sheet, at, 110, 50)
    assert red > 60 > green + blue, "turbo's end, over black"
    moved = overlay(boxes=[{"label": "hook", "xywh": [120.0, 30.0, 60.0, 50.0]}])
    sheet = render_pixels(draw([moved], "one"))
    assert get_sheet_colour(sheet, at, 150, 80) == GREEN != get_sheet_colour(sheet, at, 50, 80)


@pytest.mark.parametrize("motion", ["part", "nothing", "all", "unknown"])
def test_what_moves_is_outlined(motion):
    mask = np.zeros((100, 200), dtype=bool)
    mask[20:90, 140:180] = motion == "part"
    mask |= motion == "all"
    panel = overlay(motion=None if motion == "unknown" else mask)
    _, (at,) = places([panel])
    sheet = render_pixels(draw([panel], "one"))
    whitest = max(min(get_sheet_colour(sheet, at, x, 55)) for x in np.arange(138, 142, 0.5))
    assert (whitest > 150) == (motion == "part")
    assert get_sheet_colour(sheet, at, 160, 55) == (0, 0, 0)


@pytest.mark.parametrize("n", [1, 2, 3, 4, 12])
def test_overlays_do_not_cover_one_another(n):
    tall = overlay(frame=np.zeros((300, 200, 3), dtype=np.uint8), heatmap=np.zeros((300, 200)))
    five = overlay(title=["m", "IVT", "predicted", "true", "the model could see"])
    overlays = [*[five, *[overlay()] * n][: n - 1], tall]
    (width, height), areas = places(overlays)
    coverage = np.zeros((height, width), dtype=int)
    titles = [10 + 15 * len(panel.title) for panel in overlays]
    for (x0, y0, w, h), title in zip(areas, titles, strict=True):
        coverage[y0 - title : y0 + h, x0 : x0 + w] += 1
        assert min(x0, y0 - title) >= 0
    assert coverage.max() == 1
    assert len(areas) == n
    assert coverage.sum() == sum(w * (h + title) for (_, _, w, h), title in zip(areas, titles, strict=True))


def read_runs(folder: Path) -> list[Any]:
    return sorted(select_runs(read_results([folder]), SurgXRun), key=lambda run: (run.model, run.setting.source))


def test_the_highest_the_lowest_and_the_middle_are_shown(tmp_path):
    values = [0.1, 0.9, 0.5, 0.3, 0.7, 0.2]
    frames = [instruments(n, ["hook"], [look("hook", "tp", aa, 1.0)]) for n, aa in enumerate(values)]
    false = [instruments(6, [], [look("hook", "fp", 0.0, 0.4), look("clipper", "fp")])]
    write_surgx(tmp_path, [*frames, *false], heatmaps="0")
    actions = [triplets(0, [GRASP], [seen(GRASP, "ivt", 0.5), seen(CUT, "missed", 0.25)])]
    write_surgx(tmp_path, actions, heatmaps="0")
    picked, n = picks(read_runs(tmp_path))
    assert [pick.value for pick in picked] == [0.9, 0.5, 0.1, 0.4, 0.5, 0.25]
    assert n == 9
    assert [pick.record.get("label") for pick in picked] == ["hook"] * 4 + [None] * 2


def test_every_model_has_its_best_before_any_has_its_worst(tmp_path):
    for number in range(7):
        frames = [instruments(n, ["hook"], [look("hook", "tp", aa, 1.0)]) for n, aa in enumerate((0.1, 0.5, 0.9))]
        write_surgx(tmp_path / str(number), frames, model=f"m{number}", heatmaps="0")
    picked, _ = picks(read_runs(tmp_path))
    assert len(picked) == LARGEST
    assert [pick.value for pick in picked] == [0.9, 0.1] * 5 + [0.9] * 2
    assert picks([]) == ([], 0)


def test_answers_without_heatmaps_are_not_shown(tmp_path):
    write_surgx(tmp_path / "logs", [instruments(0, ["hook"], [look("hook", "tp", 0.5, 0.5)])])
    runs = select_runs(read_results([tmp_path / "logs"]), SurgXRun)
    figures, (note,) = surgx_figures.draw_surgx_figures(runs, Sheet(tmp_path, "data", {}))
    assert "no answer has a heatmap with a score" in note
    assert [*figures] == ["figure_surgx_03"]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("short", "short"),
        ("surgvlp:/data/checkpoints/PeskaVLP.pth", "…checkpoints/PeskaVLP.pth"),
        ("open_clip:RN50-quickgelu:openai", "…RN50-quickgelu:openai"),
        ("a-name-without-any-parts-at-all", "…e-without-any-parts-at-all"),
    ],
)
def test_long_names_keep_their_end(name, expected):
    assert short(name, 27) == expected
    assert len(short(name, 27)) <= 27


def test_names_with_equal_ends_stay_different():
    names = ["Qwen2-VL-7B-Instruct-GPTQ-Int4", "Qwen2.5-VL-7B-Instruct-GPTQ-Int4", "x/RN50"]
    assert short(names[0], 24) == short(names[1], 24)
    expected = ["Qwen2-VL-7B-Instruct-GPTQ-Int4", "Qwen2.5-VL-7B-Instruct-GPTQ-Int4", "x/RN50"]
    assert [*shorten_names(names, 24).values()] == expected
    assert [*shorten_names(["a" * 50, "b" + "a" * 50], 24).values()] == ["a" * 50, "b" + "a" * 50]
    assert shorten_names([], 24) == {}


@pytest.mark.usefixtures("png_only")
def test_the_command_draws_a_contact_sheet(sheet_run, tmp_path, capsys):
    assert main(sheet_run.command(tmp_path / "out")) == 0
    assert "Note: " not in capsys.readouterr().out
    sheet = np.asarray(Image.open(tmp_path / "out" / "figure_surgx_overlays.png").convert("RGB"))
    frame = np.zeros((120, 214, 3))
    size, areas = places([overlay(frame=frame, title=["a line"] * n) for n in (2, 2, 3, 4)])
    assert sheet.shape[1::-1] == size
    assert all((sheet[y0 : y0 + h, x0 : x0 + w] == GREEN).all(axis=2).sum() > 300 for x0, y0, w, h in areas)


def test_a_title_says_what_share_of_the_boxes_the_model_could_see_unless_all(sheet_run, tmp_path):
    """The title has the mean over the boxes inside the frame."""
    run = sheet_run.run("instruments")
    label = run.rows[0].gold[0]
    sample = instruments(int(run.rows[0].id[-6:]), [label], run.records, video=run.videos[0])
    for boxes, expected in (
        ([("hook", 1.0), ("hook", 0.25)], ["the model could see 62.5% of the boxes"]),
        ([("hook", 0.5), ("clipper", NAN)], ["the model could see 50.0% of the boxes"]),
        ([("hook", 1.0), ("hook", 0.9999)], []),
        ([], []),
    ):
        write_surgx(tmp_path, [add_boxes(sample, *boxes)], heatmaps=run.rows[0].heatmaps)
        figure = contact_sheet(select_runs(read_results([tmp_path]), SurgXRun), sheet_run.sheet)
        assert figure is not None
        texts = [text.get_text() for text in figure.texts]
        assert [text for text in texts if "could see" in text] == expected * 2
        assert texts.count(f"TP {label.replace('_', ' ')} · AA 25.0% · AC 50.0%") == 1


@pytest.mark.parametrize(
    ("missing", "message"),
    [
        ({"store": Path("/nowhere")}, "no such folder"),
        ({"data": Path("/nowhere")}, "cannot be loaded"),
        ({"roots": {}}, "cholec80_boxes"),
        ({"roots": {"cholec80_boxes": "/nowhere"}}, "/nowhere"),
    ],
)
def test_what_is_missing_is_a_message_and_nothing_is_written(sheet_run, tmp_path, capsys, missing, message):
    assert main(sheet_run.command(tmp_path / "out", **missing)) == 2
    assert message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.full  # two more reports
def test_heatmaps_and_rows_of_another_run_are_refused(sheet_run, tmp_path, capsys):
    store = tmp_path / "store"
    shutil.copytree(sheet_run.store, store)
    for path in store.rglob("instruments*.npz"):
        path.unlink()
    assert main(sheet_run.command(tmp_path / "out", store=store)) == 2
    assert "no heatmaps of row" in capsys.readouterr().err
    row, other_store = sheet_run.run("instruments").rows[0], HeatmapStore(store, {"model": "m"})
    other_store.write(row.id, SHOWN, {"irrigator": np.eye(3)}, Geometry.whole((120, 214)))
    assert main(sheet_run.command(tmp_path / "out", store=store)) == 2
    assert f"the heatmaps of row {row.id} have none of" in capsys.readouterr().err
    absent = instruments(999, ["hook"], [look("hook", "tp", 0.5, 0.5)])
    write_surgx(tmp_path / "logs", [absent], heatmaps=other_store.reference(SHOWN))
    assert main(sheet_run.command(tmp_path / "out", logs=tmp_path / "logs")) == 2
    assert "has no row instruments/41/000999" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_frames_of_another_size_are_refused(sheet_run, tmp_path):
    for path in sheet_run.roots["cholec80_boxes"].rglob("*.png"):
        small = tmp_path / path.relative_to(sheet_run.roots["cholec80_boxes"])
        small.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (50, 40)).save(small)
    changed = sheet_run._replace(roots=sheet_run.roots | {"cholec80_boxes": tmp_path})
    with pytest.raises(InputError, match=r"50 x 40 pixels(.|\n)*expected: 214 x 120"):
        contact_sheet(select_runs(read_results([sheet_run.logs]), SurgXRun), changed.sheet)


@pytest.mark.parametrize("left_out", ["--heatmaps", "--data", "--out"])
def test_a_contact_sheet_needs_all_of_its_arguments(sheet_run, tmp_path, capsys, left_out):
    command = sheet_run.command(tmp_path / "out")
    at = command.index(left_out)
    assert main(command[:at] + command[at + 2 :]) == 2
    assert "a contact sheet needs" in capsys.readouterr().err
    with pytest.raises(MedfaithError, match="needs a folder"):
        write_report([sheet_run.logs], sources=ReportSources(sheet=sheet_run.sheet))


def test_without_matplotlib_the_tables_are_written_and_a_note_says_so(sheet_run, tmp_path, monkeypatch):
    monkeypatch.setattr(pictures.importlib.util, "find_spec", lambda name: None)
    report = write_report([sheet_run.logs], tmp_path / "out", sources=ReportSources(sheet=sheet_run.sheet))
    assert "pictures of SurgXBench need matplotlib and are left out: uv pip install 'medfaith[explain]'" in report
    assert not [*(tmp_path / "out").glob("*.png")]
    assert (tmp_path / "out" / "surgx_runs.csv").exists()
    monkeypatch.undo()
    assert "need matplotlib" not in write_report([sheet_run.logs])


def test_a_missed_triplet_shows_the_first_heatmap_of_its_frame_and_a_degenerate_one_none(tmp_path):
    records = [seen(CUT, "missed", 0.25), seen(GRASP, "ivt", NAN, state="degenerate")]
    write_surgx(tmp_path, [triplets(0, [GRASP], records)], heatmaps="0")
    picked, n = picks(read_runs(tmp_path))
    assert [(pick.record["triplet"], n) for pick in picked] == [(CUT, 1)]


def make_occlusion_frame(number: int, gold: str, painted: float | None, after: Sequence[str], **changes: Any) -> Any:
    """Build a frame with one box of the instrument; the model names GRASP and CLIP, and these triplets afterwards."""
    change = {"triplet": gold, "before": 30.0, "after": 20.0, "predicted": list(after), "painted": painted}
    change |= {"top_after": [25.0 - place for place in range(len(after))]} | changes
    doc, row = triplets(number, [GRASP, CLIP], [seen(gold, "ivt", 0.5)], occluded=change)
    return doc | {"occlude": True}, row


def write_occlusion_run(folder: Path, samples: Sequence[Any], heatmaps: str = "0") -> Any:
    path = write_surgx(
        folder, samples, row_field="lost", task="medfaith_surgx_occlusion", heatmaps=heatmaps, scores=SCORES
    )
    (run,) = select_runs(read_results([path]), SurgXRun)
    return run


def test_which_painted_frames_are_shown(tmp_path):
    """For the most common instrument: the lost frame with the least black, and the kept frame with the most black."""
    frames = [
        (0, CUT, 0.0, [GRASP]), (1, GRASP, 0.25, [CLIP]), (2, GRASP, 0.125, [CLIP]), (3, GRASP, 0.125, []),
        (4, GRASP, 0.75, [CLIP]),  # lost, and the black region is relevant: neither kind
        (5, GRASP, 0.5, [CLIP, GRASP]), (6, GRASP, 1.0, [GRASP]), (7, CUT, 1.0, [CUT]),
        (8, GRASP, 0.25, [GRASP]), (9, GRASP, None, [CLIP]),  # kept, little black; no box that the model saw
    ]  # fmt: skip
    run = write_occlusion_run(tmp_path, [make_occlusion_frame(*frame) for frame in frames])
    frame_cases = [(case.irrelevant, case.row.id[-1], case.n) for case in cases(run)]
    assert frame_cases == [(True, "2", 4), (False, "6", 3)]


@pytest.mark.full  # another report
def test_prompts_beside_a_painted_frame_and_a_note_on_the_frame_that_is_not_there(sheet_run, tmp_path):
    action = sheet_run.run("triplets").rows[0]
    row = next(row for row in read_build_rows(sheet_run.data, "triplets") if row["id"] == action.id)
    doc, answer = make_occlusion_frame(row["frame"], GRASP, 0.25, [CLIP, PACK])
    sample = (doc | {"id": row["id"], "video": row["video"]}, answer | {"video": row["video"]})
    run = write_occlusion_run(tmp_path, [sample], heatmaps=action.heatmaps)
    figure, notes = draw_occlusion_figure([run], sheet_run.sheet)
    assert notes == [
        "the figure of SurgXBench's occlusion is missing frames of m: no frame with a box that it saw keeps it "
        "although at least half is"
    ]
    assert figure is not None
    texts = [text.get_text().replace("\n", " ") for text in figure.texts]
    prompts = texts[texts.index("best prompts before") : texts.index("best prompts after")]
    assert prompts[1:] == [
        "The grasper is used to grasp the gallbladder.", f"{SCORES[TRIPLETS.index(GRASP)]:.2f}",
        "The clipper is used to clip the cystic duct.", f"{SCORES[TRIPLETS.index(CLIP)]:.2f}",
    ]  # fmt: skip
    prompts = texts[texts.index("best prompts after") + 1 :]
    assert prompts[:6] == [
        "The clipper is used to clip the cystic duct.", "25.00", "The grasper is used to pack the gallbladder.",
        "24.00", "The grasper is used to grasp the gallbladder.", "20.00",
    ]  # fmt: skip
    behind: Any = [artist for artist in figure.artists if hasattr(artist, "get_linestyle")]
    colours = [to_hex(artist.get_facecolor()) if artist.get_facecolor()[3] else "" for artist in behind]
    assert colours == [COVERS, OTHER_TOOL, OTHER_TOOL, "", COVERS]
    assert [artist.get_linestyle() for artist in behind][-1] == ":"
    sheet = render_pixels(figure)
    assert (sheet == GREEN).all(axis=2).sum() > 300, "the box"
    assert (sheet == 0).all(axis=2).sum() > 0.1 * 330 * 185, "a fifth of the frame is black"


def test_what_lacks_for_the_picture_of_the_occlusion_is_said(tmp_path):
    old = make_occlusion_frame(0, GRASP, 0.0, [CLIP])
    del old[1]["occluded"]["top_after"], old[1]["occluded"]["painted"]
    where = Sheet(tmp_path, "data", {})
    for number, (sample, heatmaps, message) in enumerate(
        [
            (old, "0", "its log is of an earlier version"),
            (make_occlusion_frame(0, GRASP, 0.0, [CLIP]), "", "no heatmaps"),
        ]
    ):
        figure, (note,) = draw_occlusion_figure(
            [write_occlusion_run(tmp_path / str(number), [sample], heatmaps)], where
        )
        assert figure is None
        assert message in note
