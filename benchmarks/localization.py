"""AUROC, AP and IoU at 5, 10 and 30 % of 2,500 maps of 224 x 224, compared with a loop over scikit-learn's functions.

    taskset -c 0 python benchmarks/localization.py

The maps are like those of models: softmax over 19 x 19 cells, scaled to the view by bilinear interpolation, or by
nearest cells, which gives most pixels tied values. The masks consist of one to three boxes. There are 50 different maps
of each kind, scored repeatedly. Batches of both implementations alternate, and times are CPU seconds, because of other
load on the machine. The loop runs on every tenth batch, its time is scaled up, and all of its values are compared. A
second loop counts pixels itself, which is faster than jaccard_score.

Required on bilinear maps: at least 15 times the speed of the loop over scikit-learn, values equal to 1e-9, and memory
bounded by a few maps. Otherwise the exit status is 1.
"""

from __future__ import annotations

import os

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"

import time
import tracemalloc
from collections.abc import Callable

import numpy as np
from sklearn.metrics import average_precision_score, jaccard_score, roc_auc_score

from medfaith.evaluate_metrics.localization.input_view import SIDE, mask, scores, window
from medfaith.evaluate_metrics.localization.ranking import TOPS, localization

MAPS, BATCH, LOOP_EVERY, SIZE = 2_500, 50, 10, (3056, 2544)
NAMES = ("auroc", "average_precision", "iou_5", "iou_10", "iou_30")
WANTED_SPEED, WANTED_MEGABYTES, TOLERANCE = 15, 8, 1e-9


def draw_batch(upsampling: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw maps and masks, (50, 224, 224) each."""
    rng = np.random.default_rng(seed)
    cells = np.exp(rng.normal(0, 1.5, (BATCH, 19, 19)))
    cells /= cells.sum(axis=(1, 2), keepdims=True)
    maps = np.stack([scores(grid, SIZE, window(SIZE), upsampling) for grid in cells])
    corners = [rng.uniform(200, [1400, 1900], (rng.integers(1, 4), 2)) for _ in range(BATCH)]
    boxes = [np.hstack([boxes_of_map, rng.uniform(300, 1200, boxes_of_map.shape)]).round() for boxes_of_map in corners]
    return maps, np.stack([mask(boxes_of_map, SIZE) for boxes_of_map in boxes])


def compute_counted_iou(labels: np.ndarray, predicted: np.ndarray) -> float:
    """Compute the IoU with np.count_nonzero."""
    return np.count_nonzero(labels & predicted) / np.count_nonzero(labels | predicted)


def score_by_loop(maps: np.ndarray, masks: np.ndarray, iou: Callable) -> np.ndarray:
    """Compute all scores map by map with scikit-learn, shape (scores, maps)."""
    rows = []
    for ranked, inside in zip(maps.reshape(len(maps), -1), masks.reshape(len(masks), -1), strict=True):
        values = [roc_auc_score(inside, ranked), average_precision_score(inside, ranked)]
        ranks = [len(ranked) - int(len(ranked) * top / 100) for top in TOPS]
        in_order = np.partition(ranked, [count - 1 for count in ranks])
        rows.append(values + [iou(inside, ranked > in_order[count - 1]) for count in ranks])
    return np.array(rows).T


def measure(upsampling: str) -> tuple[float, float, float, float]:
    """Measure CPU seconds for 2,500 maps (ours, jaccard_score loop, counting loop) and the largest difference."""
    maps, masks = draw_batch(upsampling, 0)
    seconds, difference = {"ours": 0.0, "jaccard": 0.0, "counted": 0.0}, 0.0

    def run_timed(name: str, way: Callable):
        start = time.process_time()
        result = way()
        seconds[name] += time.process_time() - start
        return result

    localization(maps, masks)  # warm-up: pages and caches of a first run do not count
    for number in range(MAPS // BATCH):
        values = run_timed("ours", lambda: localization(maps, masks))
        if number % LOOP_EVERY:
            continue
        ours = np.stack([values[name] for name in NAMES])
        for name, iou in (("jaccard", jaccard_score), ("counted", compute_counted_iou)):
            expected = run_timed(name, lambda iou=iou: score_by_loop(maps, masks, iou))
            difference = max(difference, float(np.abs(ours - expected).max()))
    return seconds["ours"], seconds["jaccard"] * LOOP_EVERY, seconds["counted"] * LOOP_EVERY, difference


def compute_peak(upsampling: str) -> float:
    """Compute the peak MB of scoring a batch, without the batch itself."""
    maps, masks = draw_batch(upsampling, 0)
    tracemalloc.start()
    localization(maps, masks)
    held = tracemalloc.get_traced_memory()[1] / 2**20
    tracemalloc.stop()
    return held


def main() -> None:
    """Print speed, memory and differences."""
    print(f"{MAPS} maps of {SIDE} x {SIDE} in batches of {BATCH}, CPU seconds of one core")
    columns = f"{'scikit-learn':>14}{'times':>8}{'own counts':>12}{'times':>8}{'difference':>12}{'MB':>6}"
    print(f"{'maps':10}{'ours':>8}{columns}")
    failed = []
    for upsampling in ("bilinear", "nearest"):
        ours, jaccard, own_peak, difference = measure(upsampling)
        held = compute_peak(upsampling)
        print(
            f"{upsampling:10}{ours:8.2f}{jaccard:14.1f}{jaccard / ours:8.1f}{own_peak:12.1f}{own_peak / ours:8.1f}"
            f"{difference:12.1e}{held:6.1f}"
        )
        if upsampling == "bilinear" and jaccard / ours < WANTED_SPEED:
            failed.append(f"{upsampling}: {jaccard / ours:.1f} times the speed; wanted {WANTED_SPEED}")
        if difference > TOLERANCE:
            failed.append(f"{upsampling}: values differ by {difference:.1e}")
        if held > WANTED_MEGABYTES:
            failed.append(f"{upsampling}: {held:.1f} MB beyond the batch; wanted {WANTED_MEGABYTES}")
    if failed:
        raise SystemExit("\n".join(failed))


if __name__ == "__main__":
    main()
