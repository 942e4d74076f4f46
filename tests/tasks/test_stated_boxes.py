"""Boxes and points that models write: their scores, the tasks of both benchmarks, and the table of the report."""

from __future__ import annotations

import base64
import io
import itertools
import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from medfaith.cli import main
from medfaith.evaluate_metrics.reading.stated_regions import KINDS
from medfaith.loaders.errors import InputError
from medfaith.tasks.stated_boxes import DEFAULT_FORMAT, Located, compute_figures, compute_input_size, score_answer
from tests.support.reporting.report_logs import csv_rows
from tests.support.tasks.evaluating import Says, evaluate, load, results_of, samples_of
from tests.support.tasks.server_scene import serving
from tests.support.tiers import keep_quick

pytestmark = pytest.mark.usefixtures("tables_alone")

SIZE = (400, 1000)  # height and width, so that numbers of width from 0 to 1000 are pixels
GOLD = Located([[100, 100, 200, 100]], SIZE)  # x, y, width, height
TWO = Located([[0, 0, 100, 100], [500, 200, 100, 100]], SIZE)
EXACT = '{"bbox_2d": [100, 250, 300, 500], "label": "heart"}'
LEFT_HALF = '{"bbox_2d": [100, 250, 200, 500], "label": "heart"}'


@pytest.mark.parametrize(
    ("answer", "box_format", "located", "outcome", "iou", "hit"),
    [
        (EXACT, "qwen3_vl", GOLD, "answered", 1, 1),
        (f"The heart is here:\n```json\n[{EXACT}]\n```", "qwen3_vl", GOLD, "answered", 1, 1),
        (f"<think>Perhaps {LEFT_HALF}</think>{EXACT}", "qwen3_vl", GOLD, "answered", 1, 1),
        (LEFT_HALF, "qwen3_vl", GOLD, "answered", 0.5, 1),
        (EXACT, "qwen2_5_vl", GOLD, "unread", 0, 0),  # 500 is below the image
        (EXACT.replace("500", "200").replace("250", "100"), "qwen2_5_vl", GOLD, "answered", 1, 1),
        (f"{EXACT}\n{EXACT}", "qwen3_vl", GOLD, "answered", 1, 1),
        (f'[{EXACT}, {{"bbox_2d": [500, 250, 700, 500]}}]', "qwen3_vl", GOLD, "answered", 0.5, 0.5),
        ('{"bbox_2d": [0, 0, 100, 250]}', "qwen3_vl", TWO, "answered", 0.5, 1),
        ('[{"bbox_2d": [0, 0, 100, 250]}, {"bbox_2d": [500, 500, 600, 750]}]', "qwen3_vl", TWO, "answered", 1, 1),
        ('{"bbox_2d": [900, 900, 950, 950]}', "qwen3_vl", GOLD, "answered", 0, 0),
        ('{"box_2d": [250, 100, 500, 300]}', "gemini", GOLD, "answered", 1, 1),
        ('{"box_2d": [250, 100, 500, 300]}', "qwen3_vl", GOLD, "unread", 0, 0),  # the form of another family
        ("heart<loc_100><loc_250><loc_299><loc_250><loc_299><loc_499>", "florence2", GOLD, "answered", 0.99, 1),
        ('<point x="15.0" y="40" alt="heart">heart</point>', "molmo", GOLD, "answered", None, 1),
        ('<points x1="15.0" y1="40" x2="90" y2="40" alt="heart">heart</points>', "molmo", GOLD, "answered", None, 0.5),
        ('<point x="90" y="40" alt="heart">heart</point>', "molmo", GOLD, "answered", None, 0),
        ('<point x="190" y="40" alt="heart">heart</point>', "molmo", GOLD, "unread", None, 0),
        ('<point x="15" alt="heart">heart</point>', "molmo", GOLD, "unread", None, 0),
        ('<points x1="15" y1="40" x2="2', "molmo", GOLD, "unread", None, 0),
        ("", "qwen3_vl", GOLD, "empty", 0, 0),
        (" \n", "molmo", GOLD, "empty", None, 0),
        ("I'm sorry, I cannot determine the location.", "qwen3_vl", GOLD, "declined", 0, 0),
        ("The heart lies in the middle.", "qwen3_vl", GOLD, "unread", 0, 0),
        ("[100, 250, 300, 500]", "qwen3_vl", GOLD, "unread", 0, 0),
        (EXACT[:-20], "qwen3_vl", GOLD, "unread", 0, 0),  # cut
        (EXACT.replace("100", "1100"), "qwen3_vl", GOLD, "unread", 0, 0),
    ],
)
def test_what_an_answer_scores(answer, box_format, located, outcome, iou, hit):
    record = score_answer(answer, located, box_format, SIZE)
    assert (record["outcome"], record["hit"]) == (outcome, hit)
    assert record["iou"] == (None if iou is None else pytest.approx(iou, abs=0.006))
    assert bool(record["boxes"]) == (outcome == "answered")


def test_the_page_names_every_form():
    page = (Path(__file__).parents[2] / "docs/models.md").read_text(encoding="utf-8")
    section = page.split("## Models that write boxes")[1].split("```sh")[0]
    assert sorted(re.findall(r"^\| `(\w+)`", section, re.MULTILINE)) == sorted(KINDS)
    assert f"| `{DEFAULT_FORMAT}` (default) |" in page


sides = st.tuples(st.integers(0, 99), st.integers(1, 100)).map(sorted).filter(lambda pair: pair[0] < pair[1])


@given(st.tuples(sides, sides), st.lists(st.tuples(sides, sides), min_size=1, max_size=3))
def test_iou_and_hits_are_those_of_drawn_masks(gold, stated):
    def draw(boxes: Any) -> np.ndarray:
        mask = np.zeros((100, 100), bool)
        for (x0, x1), (y0, y1) in boxes:
            mask[y0:y1, x0:x1] = True
        return mask

    (x0, x1), (y0, y1) = gold
    answer = "\n".join(f'{{"bbox_2d": [{a}, {c}, {b}, {d}]}}' for (a, b), (c, d) in stated)
    record = score_answer(answer, Located([[x0, y0, x1 - x0, y1 - y0]], (100, 100)), "qwen2_5_vl", (100, 100))
    masks = draw([gold]), draw(stated)
    assert record["iou"] == pytest.approx((masks[0] & masks[1]).sum() / (masks[0] | masks[1]).sum())
    middles = [((a + b) / 2, (c + d) / 2) for (a, b), (c, d) in dict.fromkeys((tuple(x), tuple(y)) for x, y in stated)]
    assert record["hit"] == pytest.approx(np.mean([x0 <= x <= x1 and y0 <= y <= y1 for x, y in middles]))


def test_the_size_that_qwen_receives_is_that_of_its_processor():
    smart_resize = pytest.importorskip("transformers.models.qwen2_vl.image_processing_qwen2_vl").smart_resize
    for size, (least, most) in itertools.product(
        [(480, 854), (28, 300), (3000, 2500), (20, 20), (6000, 4000)], [(56 * 56, 28 * 28 * 16384), (256 * 784, 784000)]
    ):
        assert compute_input_size(size, least, most) == smart_resize(*size, min_pixels=least, max_pixels=most)


def test_figures_have_intervals_by_group_and_count_answers_apart():
    outcomes = ["answered"] * 6 + ["unread", "declined", "empty", "empty"]
    records = [
        {"outcome": outcome, "iou": 0.6 * (outcome == "answered"), "hit": float(outcome == "answered"), "group": n // 2}
        for n, outcome in enumerate(outcomes)
    ]
    figures = compute_figures(records)
    assert [figures[name] for name in ("iou", "iou_50", "hit")] == pytest.approx([0.36, 0.6, 0.6])
    assert [figures[name] for name in ("n_unparsed", "n_declined", "n_empty")] == [1, 1, 2]
    assert 0 < figures["iou_ci_low"] < 0.36 < figures["iou_ci_high"] < 1
    points = compute_figures([record | {"iou": None} for record in records])
    assert math.isnan(points["iou"])
    assert points["hit"] == 0.6


@pytest.mark.parametrize(
    ("benchmark", "box_format"),
    keep_quick(
        list(itertools.product(("heal", "surgx"), ("gemini", "qwen2_5_vl", "florence2", "molmo"))),
        lambda case: case == ("heal", "molmo"),
    ),
)
def test_the_right_boxes_are_right_and_controls_move_them(request, benchmark, box_format):
    """The oracle writes them in each form, also in a cropped or mirrored image."""
    data, roots = (request.getfixturevalue(f"phantom_{benchmark}_{name}") for name in ("build", "roots"))
    tasks = {"heal": ["medfaith_heal_vindr_stated_boxes"], "surgx": ["medfaith_surgx_stated_boxes"]}[benchmark]
    for control in ({}, {"control": "cropped"}, *([{"control": "flipped"}] if benchmark == "surgx" else [])):
        (run,) = evaluate("oracle", load(tasks, data, roots, box_format=box_format, **control)).values()
        assert run["scores"]["hit"] == 1
        assert run["scores"]["iou"] == pytest.approx(math.nan if box_format == "molmo" else 1, abs=0.03, nan_ok=True)
        keys = [(doc["image_id"], doc["located"]) for doc in run["docs"]]
        assert len(set(keys)) == len(keys) > 20


def test_a_question_names_the_place_and_the_form(phantom_surgx_build):
    loaded = load(["medfaith_surgx_stated_boxes"], phantom_surgx_build, box_format="paligemma")
    (run,) = evaluate(Says("<loc0000><loc0000><loc1023><loc1023> hook"), loaded, limit=3).values()
    assert [doc["question"] for doc in run["docs"]] == [f"detect {doc['gold'][0]}" for doc in run["docs"]]
    with pytest.raises(InputError, match="--box-format: is 'yolo'\n  expected: one of qwen2_vl"):
        load(["medfaith_surgx_stated_boxes"], phantom_surgx_build, box_format="yolo")


def find_bright_box(messages: list[dict[str, Any]]) -> str:
    """Answer with the box of all pixels that are brighter than the mean, as a server would."""
    content = messages[-1]["content"]
    urls = [block["image_url"]["url"] for block in content if block["type"] == "image_url"]
    (text,) = (block["text"].strip() for block in content if block["type"] == "text" and block["text"].strip())
    name = re.fullmatch(r"Locate the (.+?)\. Answer with JSON: .*", text)
    assert name is not None
    pixels = np.asarray(Image.open(io.BytesIO(base64.b64decode(urls[0].split(",")[1]))).convert("L")).astype(float)
    rows, columns = np.nonzero(pixels > pixels.mean() + 1)
    if not rows.size:
        return "I cannot say where it is."
    height, width = pixels.shape
    box = [columns.min() / width, rows.min() / height, (columns.max() + 1) / width, (rows.max() + 1) / height]
    return json.dumps([{"bbox_2d": [round(1000 * float(side)) for side in box], "label": name[1]}])


@pytest.mark.full  # from the command to the report: the test of instruments
@pytest.mark.usefixtures("png_only")
def test_from_a_server_to_the_report(phantom_heal_build, phantom_heal_roots, tmp_path: Path, capsys):
    """The answers with the image, and without what it shows, end in one table, and are compared."""
    roots = [word for name, root in phantom_heal_roots.items() for word in ("--root", f"{name}={root}")]
    tasks = ["--tasks", "medfaith_heal_vindr_stated_boxes", "--box-format", "qwen3_vl", "--limit", "12"]
    common = ["eval", "--data", str(phantom_heal_build), *roots, *tasks, "--log_samples"]
    with serving(find_bright_box) as server:
        model = ["--model", "medfaith-server", "--model_args", f"base_url={server.url},model=m"]
        for control in ("", "blank"):
            output = ["--output_path", str(tmp_path / "runs" / (control or "image"))]
            assert main([*common, *model, *output, *(["--control", control] if control else [])]) == 0
    assert main([*common, "--model", "oracle", "--output_path", str(tmp_path / "runs" / "oracle")]) == 0
    image, blank = (
        results_of(tmp_path / "runs" / name)["medfaith_heal_vindr_stated_boxes"] for name in ("image", "blank")
    )
    assert 0 < image["iou,none"] < 1
    assert (blank["iou,none"], blank["n_declined,none"]) == (0, 12)
    sample = samples_of(tmp_path / "runs" / "image", "medfaith_heal_vindr_stated_boxes")[0]
    assert sample["doc"]["prompt"] == "qwen3_vl"
    assert sample["doc"]["region"] == "a mask"
    assert main(["report", str(tmp_path / "runs"), "--out", str(tmp_path / "out"), "--html", str(tmp_path / "p")]) == 0
    rows = {row["model"]: row for row in csv_rows(tmp_path / "out" / "heal_stated_boxes.csv")}
    assert float(rows["m (qwen3_vl)"]["iou"]) == pytest.approx(image["iou,none"])
    assert float(rows["m (qwen3_vl)"]["iou_ci_low"]) == pytest.approx(image["iou_ci_low,none"])
    assert float(rows["oracle (qwen3_vl)"]["iou_50"]) == 1
    assert rows["m (qwen3_vl, blank)"]["n_declined"] == "12"
    capsys.readouterr()
    assert main(["compare", str(tmp_path / "runs" / "image"), str(tmp_path / "runs" / "oracle")]) == 0
    assert re.search(r"VinDr stated boxes\W+IoU\W+12", capsys.readouterr().out)


@pytest.mark.full  # eval and report
@pytest.mark.usefixtures("png_only")
def test_instruments_from_the_command_to_the_report(phantom_surgx_build, phantom_surgx_roots, tmp_path: Path):
    """`--rows` may name frames, of which each instrument is then asked for."""
    roots = [word for name, root in phantom_surgx_roots.items() for word in ("--root", f"{name}={root}")]
    tasks = ["--tasks", "medfaith_surgx_stated_boxes"]
    docs = evaluate("oracle", load(tasks[1:], phantom_surgx_build), limit=40)["medfaith_surgx_stated_boxes"]["docs"]
    frames = [*dict.fromkeys(doc["original_id"] for doc in docs)][:5]
    (tmp_path / "rows.csv").write_text("id\n" + "\n".join(frames) + "\n")
    common = ["eval", "--data", str(phantom_surgx_build), *roots, *tasks, "--rows", str(tmp_path / "rows.csv")]
    for model in ("looks", "always_yes"):
        output = ["--output_path", str(tmp_path / "runs" / model), "--log_samples"]
        assert main([*common, "--model", model, *output]) == 0
    samples = samples_of(tmp_path / "runs" / "looks", "medfaith_surgx_stated_boxes")
    assert {sample["doc"]["original_id"] for sample in samples} == set(frames)
    assert len(samples) > len(frames)
    assert main(["report", str(tmp_path / "runs"), "--out", str(tmp_path / "out")]) == 0
    rows = {row["model"]: row for row in csv_rows(tmp_path / "out" / "surgx_stated_boxes.csv")}
    assert float(rows["looks (gemini)"]["iou"]) > 0.7
    assert float(rows["always_yes (gemini)"]["iou"]) < 0.3  # the box of the whole image
