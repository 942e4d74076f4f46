"""Time to transplant a region, compared with decoding the two 2,000 x 2,000 8-bit PNG files that this needs.

    uv run python benchmarks/transplant.py

Times are CPU seconds in one process, medians of alternating runs. Allowed: a quarter of the decoding.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from PIL import Image

from medfaith.loaders import rle
from medfaith.loaders.images import open_image
from medfaith.loaders.phantom.chest import chest
from medfaith.tasks.controls.transplant import transplant

SIZE = (2000, 2000)
ANATOMIES = ("right lower lung", "heart", "trachea")
SOURCE = "cholect45"  # any source whose keys are paths below its root
RUNS, LIMIT = 15, 0.25


def measure_cpu_ms(work: Callable[[], object]) -> float:
    """Measure the CPU milliseconds of one call."""
    start = time.process_time()
    work()
    return 1000 * (time.process_time() - start)


def main() -> None:
    """Print the time of transplanting each anatomy, relative to decoding."""
    chests = {"target": chest(["right consolidation"], seed=1, size=SIZE), "donor": chest([], seed=2, size=SIZE)}
    regions = {anatomy: [rle.encode(image.regions[anatomy]) for image in chests.values()] for anatomy in ANATOMIES}
    with tempfile.TemporaryDirectory() as folder:
        roots = {SOURCE: Path(folder)}
        refs = [{"source": SOURCE, "key": f"train/{name}.png", "view": "frontal"} for name in chests]
        (roots[SOURCE] / "train").mkdir()
        for ref, image in zip(refs, chests.values(), strict=True):
            Image.fromarray(image.pixels).save(roots[SOURCE] / ref["key"])
        target, donor = (np.asarray(open_image(ref, roots)) for ref in refs)
        decoding, transplanting = [], {anatomy: [] for anatomy in ANATOMIES}
        for _ in range(RUNS):  # in turn: a busy machine slows both
            decoding.append(measure_cpu_ms(lambda: [open_image(ref, roots) for ref in refs]))
            for anatomy, (region, donor_region) in regions.items():
                work = partial(transplant, target, region, donor, donor_region)
                transplanting[anatomy].append(measure_cpu_ms(work))
    decoded = statistics.median(decoding)
    print(f"decoding two images        {decoded:6.1f} ms CPU")
    for anatomy, times in transplanting.items():
        share = rle.area(regions[anatomy][0]) / (SIZE[0] * SIZE[1])
        transplanted = statistics.median(times)
        ratio = transplanted / decoded
        print(f"{anatomy:17} {share:5.1%}    {transplanted:6.1f} ms CPU, {ratio:.2f} of decoding   (allowed: {LIMIT})")


if __name__ == "__main__":
    main()
