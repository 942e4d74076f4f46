"""The crop of a row: where boxes and masks are afterwards, and which rows it leaves out."""

from __future__ import annotations

import numpy as np
import pytest

from medfaith.loaders import rle
from medfaith.tasks.controls.harmless import compute_window, crop_row

WIDTH, HEIGHT, STRIP = 4000, 200, 40  # pixels
ROWS = slice(50, 100)  # in view under every crop


def build_strip(share: float, row_id: str) -> tuple[int, int]:
    """Return the first column of a strip of which a share is in view, at the left end of the crop, and that end."""
    left = compute_window((WIDTH, HEIGHT), row_id)[0]
    return left - round((1 - share) * STRIP), left


@pytest.mark.parametrize("row_id", ["a", "b", "c"])
@pytest.mark.parametrize("share", [0.0, 0.25, 0.45, 0.5, 0.55, 0.75, 1.0])
def test_a_row_stays_if_half_of_its_box_and_of_its_region_stays_in_view(share, row_id):
    start, left = build_strip(share, row_id)
    pixels = np.zeros((HEIGHT, WIDTH), dtype=bool)
    pixels[ROWS, start : start + STRIP] = True
    box = {"label": "hook", "xywh": [start, ROWS.start, STRIP, ROWS.stop - ROWS.start]}
    common = {"id": row_id, "width": WIDTH, "height": HEIGHT}
    with_region = crop_row({**common, "region": rle.encode(pixels)})
    with_box = crop_row({**common, "boxes": [box]})
    assert (with_region is not None) == (with_box is not None) == (share >= 0.5)
    if with_region is None or with_box is None:
        return
    _, top, width, height = compute_window((WIDTH, HEIGHT), row_id)
    x, y, wide, high = with_box["boxes"][0]["xywh"]
    scale = WIDTH / width, HEIGHT / height
    assert (x, wide) == pytest.approx((max(start - left, 0) * scale[0], share * STRIP * scale[0]))
    assert (y, high) == pytest.approx(((ROWS.start - top) * scale[1], 50 * scale[1]))
    rows, columns = np.nonzero(rle.decode(with_region["region"]))
    assert [columns.min(), columns.max() + 1] == pytest.approx([x, x + wide], abs=1)
    assert [rows.min(), rows.max() + 1] == pytest.approx([y, y + high], abs=1)
