"""AA and AC of 10,000 heatmaps of 480 x 854 pixels, compared with a simple loop over frames.

    OMP_NUM_THREADS=1 taskset -c 0 python benchmarks/attention_alignment.py

The loop uses np.quantile and boolean masks, frame by frame. The heatmaps are like those of explainers: coarse grids,
scaled to the frame by bilinear interpolation (7 x 7 of a ResNet, 24 x 24 of a ViT, and 7 x 7 in the middle 22 % of the
frame, the part that SurgVLP sees). A fourth kind has independent pixels, which no explainer returns. There are 100
different heatmaps of each kind, scored repeatedly as one batch of 100.

Batches of both implementations alternate, and times are CPU seconds, because of other load on the machine. The loop
runs on every tenth batch, and its time is scaled up. All values are compared. Required: at least 5 times the speed of
the loop, and memory bounded by the batch.

Both implementations sum a mask with `.sum()` or with np.count_nonzero, which is faster. The table has both.
"""

from __future__ import annotations

import os

os.environ["OMP_NUM_THREADS"] = "1"

import resource
import time
from collections.abc import Callable

import numpy as np

from medfaith.evaluate_metrics.attention_alignment.frames import to_frame
from medfaith.evaluate_metrics.attention_alignment.score import attention_alignment

MAPS, BATCH, SIZE, LOOP_EVERY = 10_000, 100, (480, 854), 10
KINDS = {  # cells of the grid, and the window that it covers
    "7 x 7": (7, (0, 0, 854, 480)),
    "24 x 24": (24, (0, 0, 854, 480)),
    "7 x 7 in 22 %": (7, (283, 96, 288, 288)),
    "pixels": (0, (0, 0, 854, 480)),
}


def draw_heatmaps(kind: str, seed: int) -> np.ndarray:
    """Draw one batch of heatmaps, float (BATCH, *SIZE), of a kind in `KINDS`."""
    rng = np.random.default_rng(seed)
    cells, window = KINDS[kind]
    if not cells:
        return rng.random((BATCH, *SIZE), dtype=np.float32)
    grids = np.maximum(rng.normal(0.3, 1, size=(BATCH, cells, cells)), 0)
    return np.stack([to_frame(grid, SIZE, window) for grid in grids])


def draw_frame_boxes(seed: int) -> list[np.ndarray]:
    """Draw the boxes of one to three instruments for each frame; the first is the predicted one."""
    rng = np.random.default_rng(seed)
    boxes = []
    for _ in range(BATCH):
        corner = rng.uniform(0, [500, 250], size=(rng.integers(1, 4), 2))
        boxes.append(np.hstack([corner, rng.uniform(80, 300, size=corner.shape)]).round())
    return boxes


def score_by_loop(maps: np.ndarray, boxes: list[np.ndarray], count: Callable) -> tuple[list[float], list[float]]:
    """Compute AA and AC frame by frame, with `count` to sum a mask."""
    aa, ac = [], []
    for heatmap, boxes_of_frame in zip(maps, boxes, strict=True):
        region = (heatmap >= np.quantile(heatmap, 0.8)) & (heatmap > 0)
        in_class, in_any = np.zeros(SIZE, dtype=bool), np.zeros(SIZE, dtype=bool)
        for number, (x, y, w, h) in enumerate(boxes_of_frame.astype(int)):
            in_any[y : y + h, x : x + w] = True
            if number == 0:
                in_class[y : y + h, x : x + w] = True
        area = count(region)
        aa.append(count(region & in_class) / area)
        ac.append(count(region & in_any) / area)
    return aa, ac


def measure(kind: str) -> tuple[float, float, float]:
    """Measure the CPU seconds for 10,000 maps: ours, and the loop with .sum() and with np.count_nonzero."""
    maps, boxes = draw_heatmaps(kind, 0), draw_frame_boxes(1)
    class_boxes = [boxes_of_frame[:1] for boxes_of_frame in boxes]
    seconds = {"ours": 0.0, "sum": 0.0, "count": 0.0}

    def run_timed(name: str, way: Callable):
        start = time.process_time()
        result = way()
        seconds[name] += time.process_time() - start
        return result

    attention_alignment(maps, class_boxes, boxes)  # warm-up: pages and caches of a first run do not count
    for batch in range(MAPS // BATCH):
        aa, ac, _ = run_timed("ours", lambda: attention_alignment(maps, class_boxes, boxes))
        if batch % LOOP_EVERY:
            continue
        for name, count in (("sum", np.sum), ("count", np.count_nonzero)):
            expected = run_timed(name, lambda count=count: score_by_loop(maps, boxes, count))
            if not (np.array_equal(aa, expected[0]) and np.array_equal(ac, expected[1])):
                raise SystemExit(f"{kind}: the values differ")
    return seconds["ours"], seconds["sum"] * LOOP_EVERY, seconds["count"] * LOOP_EVERY


def compute_peak_rise(kind: str) -> float:
    """Compute by how many MB the scoring of one batch raises the peak memory."""
    maps, boxes = draw_heatmaps(kind, 0), draw_frame_boxes(1)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    attention_alignment(maps, [boxes_of_frame[:1] for boxes_of_frame in boxes], boxes)
    return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 2**10


def main() -> None:
    """Print memory and CPU seconds for each kind of heatmap."""
    print(f"{MAPS} maps of {SIZE[0]} x {SIZE[1]}, batches of {BATCH} ({BATCH * SIZE[0] * SIZE[1] * 4 / 2**20:.0f} MB)")
    print(f"memory over the batch's own: {compute_peak_rise('pixels'):.1f} MB; values identical everywhere")
    print(f"{'heatmaps':16}{'ours, s':>10}{'loop, .sum()':>14}{'times':>7}{'loop, count_nonzero':>21}{'times':>7}")
    for kind in KINDS:
        ours, plain, counted = measure(kind)
        print(f"{kind:16}{ours:10.2f}{plain:14.1f}{plain / ours:7.1f}{counted:21.1f}{counted / ours:7.1f}")


if __name__ == "__main__":
    main()
