"""How well a classifier tells edited images from plain ones: known traces, and the rows of a real build."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from PIL import Image
from sklearn.metrics import roc_auc_score

from medfaith.auditing import edit_detection
from medfaith.auditing.edit_detection import compute_features, detect_edits, measure_detection
from medfaith.auditing.plan import plan
from medfaith.auditing.write import write_tables
from medfaith.reporting.page.audits import audits
from tests.support.auditing.same_answers import EDITED, judge_same_answers
from tests.support.tiers import choose_size


@pytest.fixture(autouse=True)
def few_resamples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(edit_detection, "N_RESAMPLES", choose_size(25, edit_detection.N_RESAMPLES))


def _draw_images(n: int, seed: int = 0) -> list[Image.Image]:
    generator = np.random.default_rng(seed)
    return [Image.fromarray(generator.integers(0, 255, (64, 64), dtype=np.uint8)) for _ in range(n)]


def _mark(image: Image.Image) -> Image.Image:
    marked = image.copy()
    marked.paste(255, (8, 8, 32, 32))
    return marked


def test_a_patch_is_always_detected_and_the_same_image_never():
    images = _draw_images(60)
    plain, marked = (np.stack([compute_features(image) for image in side]) for side in (images, map(_mark, images)))
    names = [str(number) for number in range(60)]
    assert measure_detection(plain, marked, names) == pytest.approx((60, 1, 1, 1))
    assert measure_detection(plain, plain, names).auroc == 0.5


@pytest.mark.full
def test_an_interval_holds_the_auroc_of_a_trace_in_half_of_the_images():
    images, marked = _draw_images(100), [*map(_mark, _draw_images(50)), *_draw_images(100)[50:]]
    plain, edited = (np.stack([compute_features(image) for image in side]) for side in (images, marked))
    detection = measure_detection(plain, edited, [str(number) for number in range(100)])
    sees_all = roc_auc_score([0] * 100 + [1] * 100, [0] * 100 + [1] * 50 + [0] * 50)
    assert detection.low < sees_all < detection.high
    assert detection.low < detection.auroc < detection.high


@pytest.mark.full  # another build
def test_rows_of_one_image_are_never_on_both_sides_of_a_fold():
    """Twelve rows of each image have a trace of their own, from which nothing can be learnt for other images."""
    generator = np.random.default_rng(0)
    images, traces = generator.normal(size=(2, 10, 1536))
    plain = np.repeat(images, 12, axis=0) + 0.1 * generator.normal(size=(120, 1536))
    edited = plain + np.repeat(traces, 12, axis=0)
    detection = measure_detection(plain, edited, np.repeat([*"abcdefghij"], 12).tolist())
    assert detection.auroc < 0.75
    assert measure_detection(plain, edited, [str(number) for number in range(120)]).auroc == 1


@pytest.mark.parametrize(("n", "n_images"), [(49, 49), (60, 4), (0, 0)])
def test_too_few_rows_or_images_show_nothing(n, n_images):
    features = np.zeros((n, 1536))
    detection = measure_detection(features, features + 1, [str(number % max(n_images, 1)) for number in range(n)])
    assert detection.n == n
    assert all(map(math.isnan, detection[1:]))


@pytest.mark.full  # all edits of a build
def test_each_edit_of_a_build_is_measured_once(phantom_heal_build, phantom_heal_roots, tmp_path, monkeypatch):
    metadata = {
        "data": str(phantom_heal_build),
        "roots": {name: str(root) for name, root in phantom_heal_roots.items()},
    }
    (task,), _ = plan({"heal-medvqa": ["medfaith_heal_vindr_closed"]}, metadata)
    tasks = [task._replace(ids=task.ids[: choose_size(60, len(task.ids))])]
    controls = ("none", "occluded", "occluded_elsewhere", "occluded@25")
    measured = detect_edits(tasks, controls, metadata, tmp_path)
    assert list(measured) == ["heal-medvqa"]
    assert list(measured["heal-medvqa"]) == ["occluded", "occluded_elsewhere"]
    assert {detection.n for detection in measured["heal-medvqa"].values()} == {len(tasks[0].ids)}
    assert all(0.5 < detection.auroc < 1 for detection in measured["heal-medvqa"].values())  # paint is plain to see
    (saved,) = tmp_path.iterdir()
    assert json.loads(saved.read_text())["controls"] == ["occluded", "occluded_elsewhere"]
    monkeypatch.setattr(edit_detection, "load_tasks", lambda *arguments: pytest.fail("the images are opened again"))
    assert detect_edits(tasks, controls, metadata, tmp_path) == measured
    with pytest.raises(pytest.fail.Exception):
        detect_edits(tasks, controls[:2], metadata, tmp_path)


def test_detection_is_in_the_tables_and_on_the_page(tmp_path, monkeypatch):
    judged = judge_same_answers("positive", 120, "Yes", EDITED, tmp_path / "logs", monkeypatch)
    found = edit_detection.Detection(120, 0.876, 0.8, 0.95)
    for detections, cells in ({}, []), ({"occluded": found, "occluded_elsewhere": found}, ["0.876 [0.800, 0.950]"] * 2):
        write_tables(tmp_path, [judged], 0.05, {"heal-medvqa": detections})
        lines = (tmp_path / "audit.md").read_text().splitlines()
        (row,) = (line for line in lines if line.startswith("| occluded |") and "100%:" in line)
        assert row.strip("| ").split(" | ")[10:] == cells
        (tmp_path / "audit.json").write_text("{}")
        printed = {edit.kind: edit.detected for edit in audits([tmp_path]).edits["HEAL-MedVQA"]}
        assert printed == {"occluded": " / ".join(cells) or "–", "transplanted": "–"}
