"""Synthetic flow fields and boxed frames for the SurgXBench tests."""

from __future__ import annotations

import csv
import struct
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np

from medfaith.builders.surgxbench.camera import Camera, compute_camera_flow
from medfaith.builders.surgxbench.pairs import Pair

SIZE = (24, 32)


def make_pairs(n: int, size: tuple[int, int] | None = None) -> list[Pair]:
    return [Pair(k, f"data/VID01/{k:06d}.png", f"data/VID01/{k + 1:06d}.png", size) for k in range(n)]


def compute_moving_flow(pan: float) -> np.ndarray:
    """Compute the flow of a camera move and of an 8 x 8 pixel tool that moves differently."""
    flow = compute_camera_flow(Camera(pan=pan, zoom=0.01), SIZE)
    flow[:, 8:16, 8:16] += 5
    return flow


def encode_flo(flow: np.ndarray) -> bytes:
    height, width = flow.shape[1:]
    return struct.pack("<4sii", b"PIEH", width, height) + flow.transpose(1, 2, 0).astype("<f4").tobytes()


def write_flow(folder: Path, video: str, frame: int, forward: np.ndarray, extension: str = "npy") -> None:
    """Write the flow files of a frame: the forward flow, and its negation for backward."""
    (folder / video).mkdir(parents=True, exist_ok=True)
    for direction, field in (("forward", forward), ("backward", -forward)):
        path = folder / video / f"{frame:06d}_{direction}.{extension}"
        if extension == "npy":
            np.save(path, field)
        elif extension == "npz":
            np.savez_compressed(path, flow=field)
        else:
            path.write_bytes(encode_flo(field))


def update_boxes(root: Path, change: Callable[[list[str], list[list[str]]], Iterable[Sequence[str]]]) -> None:
    """Rewrite the rows of Cholec80-Boxes with `change`, which maps header and rows to the new lines."""
    path = root / "ROI_Labels.csv"
    with path.open(newline="", encoding="utf-8") as file:
        header, *rows = csv.reader(file, delimiter=";")
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, delimiter=";").writerows(change(header, rows))


def add_to_number(row: list[str], by: int) -> list[str]:
    """Increase the frame number of a Cholec80-Boxes row by `by`."""
    return [*row[:2], f"{row[2][:-9]}{int(row[2][-9:-4]) + by:05d}.png", *row[3:]]
