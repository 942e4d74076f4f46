"""How well a classifier tells edited images from plain ones: known traces, and the rows of a real build."""

from __future__ import annotations

import json
import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from PIL import Image
from scipy import stats
from scipy.special import expit, logit
from sklearn.metrics import roc_auc_score

from medfaith.auditing import edit_detection
from medfaith.auditing.edit_detection import (
    compute_auroc_interval,
    compute_features,
    detect_edits,
    measure_detection,
    read_detections,
)
from medfaith.auditing.plan import plan
from medfaith.auditing.write import write_tables
from medfaith.evaluate_metrics.confidence.proportion import compute_wilson_interval
from medfaith.reporting.page.audits import audits
from tests.support.auditing.same_answers import EDITED, judge_same_answers
from tests.support.tiers import choose_size


def _draw_images(n: int, seed: int = 0) -> list[Image.Image]:
    generator = np.random.default_rng(seed)
    return [Image.fromarray(generator.integers(0, 255, (64, 64), dtype=np.uint8)) for _ in range(n)]


def _mark(image: Image.Image) -> Image.Image:
    marked = image.copy()
    marked.paste(255, (8, 8, 32, 32))
    return marked


def _draw_scores(generator: np.random.Generator, auroc: float, images: np.ndarray) -> np.ndarray:
    """Draw normal scores of plain and of edited images, shape (2, n); the rows of an image have half in common."""
    shared, own = generator.normal(size=(2, 2, len(images)))
    scores = (shared[:, images] + own) / math.sqrt(2)
    scores[1] += math.sqrt(2) * stats.norm.ppf(auroc)
    return scores


def test_a_patch_is_always_detected_and_the_same_image_never():
    images = _draw_images(60)
    plain, marked = (np.stack([compute_features(image) for image in side]) for side in (images, map(_mark, images)))
    names = [str(number) for number in range(60)]
    assert measure_detection(plain, marked, names) == pytest.approx((60, 1, compute_wilson_interval(1, 60)[0], 1))
    blind = measure_detection(plain, plain, names)
    assert blind.low < blind.auroc == 0.5 < blind.high


def test_the_interval_is_obuchowskis_on_the_scale_of_the_logit():
    """Ten images of four rows, with ties; the sums of squares and products are those of Biometrics 53 (1997)."""
    n_images, n_rows = 10, 4
    images = np.repeat(np.arange(n_images), n_rows)
    plain, edited = _draw_scores(np.random.default_rng(0), 0.8, images).round(1)
    beaten = [sum((e > p) + (e == p) / 2 for p in plain) / 40 for e in edited]
    beating = [sum((e > p) + (e == p) / 2 for e in edited) / 40 for p in plain]
    auroc = roc_auc_score([0] * 40 + [1] * 40, [*plain, *edited])
    by_image = np.array(
        [[sum(s) - n_rows * auroc for s in np.reshape(side, (n_images, n_rows))] for side in (beaten, beating)]
    )
    s10, s01, s11 = (n_images / (n_images - 1) * (by_image[a] @ by_image[b]) for a, b in ((0, 0), (1, 1), (0, 1)))
    error = math.sqrt((s10 + s01 + 2 * s11) / 40**2) / (auroc * (1 - auroc))
    ends = [logit(auroc) + sign * stats.t(n_images - 1).ppf(0.975) * error for sign in (-1, 1)]
    assert compute_auroc_interval(plain, edited, images) == pytest.approx((auroc, *expit(ends)))


@pytest.mark.parametrize(("auroc", "n_images"), [(0.5, 5), (0.9, 5), (0.97, 14)])
def test_an_interval_of_few_images_holds_the_auroc(auroc, n_images):
    """A small part of benchmarks/auroc_coverage.py; percentiles of resampled images hold it in 86, 78 and 83%."""
    generator, images = np.random.default_rng(1), np.repeat(np.arange(n_images), -(-50 // n_images))
    intervals = np.array(
        [compute_auroc_interval(*_draw_scores(generator, auroc, images), images) for _ in range(choose_size(200, 2000))]
    )
    assert np.mean((intervals[:, 1] <= auroc) & (auroc <= intervals[:, 2])) > 0.91


def test_scores_on_either_side_of_one_another_have_a_width():
    images = np.repeat(np.arange(5), 10)
    low_scores, high_scores = np.arange(50), np.arange(50, 100)
    for plain, edited in (low_scores, high_scores), (high_scores, low_scores):
        auroc, low, high = compute_auroc_interval(plain, edited, images)
        assert auroc in (low, high)
        assert 0.4 < high - low < 0.7


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


def test_a_saved_result_with_bounds_of_another_kind_is_not_read(tmp_path):
    task: Any = SimpleNamespace(benchmark="own", digest="d")
    detection = {"occluded": {"n": 50, "auroc": 1.0, "low": 0.9, "high": 1.0}}
    content = {"rows": ["d"], "controls": ["occluded"], "detection": detection}
    for interval, n_read in ({}, 0), ({"interval": "logit"}, 1):
        (tmp_path / "audit_own_detection.json").write_text(json.dumps(content | interval))
        assert len(read_detections([task], tmp_path)) == n_read


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
