"""A synthetic CholecT45: a PNG a second, the four tables of binaries a video, and the dictionaries of the classes.

Frame k is frame 25 k of the synthetic Cholec80 of the same seed. A specimen bag in the image is in no table, and two
tools with the same action are one triplet.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from PIL import Image

from .surgery import FPS, SECONDS, clip

VIDEOS = (42, 43, 79)  # two with boxes in Cholec80-Boxes, and one of another fold
# A copy, not an import: a phantom that shares the reader's mistakes would hide them.
INSTRUMENTS = ("grasper", "bipolar", "hook", "scissors", "clipper", "irrigator")
VERBS = ("grasp", "retract", "dissect", "coagulate", "clip", "cut", "aspirate", "irrigate", "pack", "null_verb")
TARGETS = (
    "gallbladder", "cystic_plate", "cystic_duct", "cystic_artery", "cystic_pedicle", "blood_vessel", "fluid",
    "abdominal_wall_cavity", "liver", "adhesion", "omentum", "peritoneum", "gut", "specimen_bag", "null_target",
)  # fmt: skip
TARGETS_OF = {  # by (instrument, verb), all as ids, in the order of the triplets' ids
    (0, 2): (1, 0, 10), (0, 0): (3, 2, 4, 1, 0, 12, 8, 10, 11, 13), (0, 8): (0,), (0, 1): (2, 4, 1, 0, 12, 8, 10, 11),
    (1, 3): (7, 5, 3, 2, 4, 1, 0, 8, 10, 11), (1, 2): (9, 3, 2, 1, 0, 10), (1, 0): (1, 8, 13), (1, 1): (2, 4, 0, 8, 10),
    (2, 3): (5, 3, 2, 4, 1, 0, 8, 10), (2, 5): (5, 11), (2, 2): (5, 3, 2, 1, 0, 10, 11), (2, 1): (0, 8),
    (3, 3): (10,), (3, 5): (9, 5, 3, 2, 1, 8, 10, 11), (3, 2): (1, 0, 10), (4, 4): (5, 3, 2, 4, 1),
    (5, 6): (6,), (5, 2): (2, 4, 1, 0, 10), (5, 7): (7, 4, 8), (5, 1): (0, 8, 10),
    **{(instrument, 9): (14,) for instrument in range(6)},
}  # fmt: skip
TRIPLETS = tuple((i, v, t) for (i, v), targets in TARGETS_OF.items() for t in targets)


def names() -> dict[str, list[str]]:
    """Return the classes' names, in the order of their ids; triplets are `instrument,verb,target`.

    Returns:
        The names for triplet, instrument, verb and target.
    """
    triplets = [f"{INSTRUMENTS[i]},{VERBS[v]},{TARGETS[t]}" for i, v, t in TRIPLETS]
    return {"triplet": triplets, "instrument": list(INSTRUMENTS), "verb": list(VERBS), "target": list(TARGETS)}


def ids(triplet: tuple[str, str, str]) -> tuple[int, int, int, int]:
    """Compute the ids of a triplet, its instrument, its verb and its target.

    Args:
        triplet: The names of instrument, verb and target.

    Returns:
        Four ids.

    Raises:
        ValueError: The names are not a triplet.
    """
    instrument, verb, target = triplet
    components = INSTRUMENTS.index(instrument), VERBS.index(verb), TARGETS.index(target)
    return TRIPLETS.index(components), *components


def maps() -> str:
    """Format the table of the triplets' ids, like dict/maps.txt and CholecT50's label_mapping.txt.

    Returns:
        The text.
    """
    rows = [(n, i, v, t, len(VERBS) * i + v, len(TARGETS) * i + t) for n, (i, v, t) in enumerate(TRIPLETS)]
    return "# IVT, I, V, T, IV, IT\n" + "".join(",".join(map(str, row)) + "\n" for row in rows)


def write(root: Path, *, seed: int) -> Path:
    """Write the images and the four tables of labels of VIDEOS, and the dictionaries of the classes.

    Args:
        root: The folder to write to.
        seed: The seed of the videos.

    Returns:
        `root`.
    """
    classes = names()
    for folder in (*classes, "dict"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    for component, texts in classes.items():
        lines = [f"{number}:{text}\n" for number, text in enumerate(texts)]
        (root / "dict" / f"{component}.txt").write_text("".join(lines), encoding="utf-8")
    (root / "dict" / "maps.txt").write_text(maps(), encoding="utf-8")
    for video in VIDEOS:
        video_clip = clip(video, seed=seed)
        folder = root / "data" / f"VID{video:02d}"
        folder.mkdir(parents=True, exist_ok=True)
        for time in range(SECONDS):
            Image.fromarray(video_clip.frame(FPS * time)).save(folder / f"{time:06d}.png")
        labels = [[ids(triplet) for triplet in video_clip.triplets(FPS * time)] for time in range(SECONDS)]
        for column, (component, texts) in enumerate(classes.items()):
            lines = [_line(k, {row[column] for row in rows}, len(texts)) for k, rows in enumerate(labels)]
            (root / component / f"VID{video:02d}.txt").write_text("".join(lines), encoding="utf-8")
    return root


def _line(time: int, present: Iterable[int], n_classes: int) -> str:
    """Format a frame's number, then 0 or 1 for each class."""
    return ",".join(map(str, (time, *(int(number in present) for number in range(n_classes))))) + "\n"
