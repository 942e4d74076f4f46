"""Draws the README's picture: the contact sheet that `medfaith report` makes, of one synthetic frame and two models.

uv run python docs/contact_sheet.py
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
from PIL import Image

from medfaith.builders.surgxbench import NEEDS
from medfaith.cli import main
from medfaith.loaders import phantom
from medfaith.loaders.phantom import surgery

PICTURE = Path(__file__).with_suffix(".webp")
SCALE, QUALITY = 0.65, 5  # a few KB


def write_flow(folder: Path, videos: tuple[int, ...] = (42, 43)) -> Path:
    """The exact flow between the synthetic videos' seconds, as flow files."""
    for video in videos:
        clip, place = surgery.clip(video, seed=0), folder / f"VID{video}"
        place.mkdir(parents=True)
        for second in range(surgery.N_FRAMES // surgery.FPS - 1):
            now, then = second * surgery.FPS, (second + 1) * surgery.FPS
            np.save(place / f"{second:06d}_forward.npy", clip.flow(now, then))
            np.save(place / f"{second:06d}_backward.npy", clip.flow(then, now))
    return folder


def draw(folder: Path) -> Image.Image:
    """Builds, lets the reference model look at the boxes and at the middle of a frame, and reports; all in `folder`."""
    roots = phantom.write(folder / "phantom", seed=0, sources=NEEDS["triplets"])
    flow, data, logs, report = (folder / name for name in ("flow", "data", "logs", "report"))
    rooted = [word for name, root in roots.items() for word in ("--root", f"{name}={root}")]
    shown = ["--data", str(data), "--heatmaps", str(folder / "heatmaps"), *rooted]
    evaluate = ["eval", "--model", "oracle", "--tasks", "medfaith_surgx_triplets", "--limit", "1", *shown]
    evaluate += ["--output_path", str(logs), "--log_samples", "--model_args"]
    for command in (
        ["build", "surgxbench", *rooted, "--flow", str(write_flow(flow)), "--trim", "0.4", "--out", str(data)],
        [*evaluate, "heatmap=box"],
        [*evaluate, "heatmap=centre"],
        ["report", str(logs), "--out", str(report), *shown],
    ):
        if main(command) != 0:
            raise SystemExit(f"medfaith {command[0]} failed")
    return Image.open(report / "figure_surgx_overlays.png").convert("RGB")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        sheet = draw(Path(name))
    small = sheet.resize((round(SCALE * sheet.width), round(SCALE * sheet.height)), Image.Resampling.LANCZOS)
    small.save(PICTURE, quality=QUALITY, method=6)
