"""Draws the README's picture of a report: the top of the page that `medfaith quickstart` leaves.

uv run python -m docs.report_page
"""

from __future__ import annotations

import io
import tempfile
from pathlib import Path

from PIL import Image

from medfaith.cli import main
from tests.support.browser import browser

PICTURE = Path(__file__).with_suffix(".webp")
WIDTH, HEIGHT = 1240, 900  # of the window, pixels
SCALE, QUALITY = 0.7, 10  # about 40 KB


def draw(page: Path) -> Image.Image:
    """The verdicts of a page, as a browser shows them."""
    with browser() as running:
        tab = running.new_page(viewport={"width": WIDTH, "height": HEIGHT})
        tab.goto(page.as_uri())
        shot = tab.get_by_role("region", name="Verdicts").screenshot()
    return Image.open(io.BytesIO(shot)).convert("RGB")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        if main(["quickstart", "--out", str(Path(name) / "quickstart")]) != 0:
            raise SystemExit("medfaith quickstart failed")
        drawn = draw(Path(name) / "quickstart" / "report.html")
    small = drawn.resize((round(SCALE * drawn.width), round(SCALE * drawn.height)), Image.Resampling.LANCZOS)
    small.save(PICTURE, quality=QUALITY, method=6)
