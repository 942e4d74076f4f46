"""The classes of CholecT45 and CholecT50: instruments, verbs, targets, and the 100 action triplets of these.

Source: Nwoye et al., "Rendezvous: attention mechanisms for the recognition of surgical action triplets in endoscopic
videos" (Medical Image Analysis, 2022); ids from the data sets' own dict/maps.txt. Of the 900 combinations 100 are
classes; the last six mean that an instrument is present and idle, with null_verb and null_target.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np

from . import layouts
from .errors import InputError

COMPONENTS = ("instrument", "verb", "target")
INSTRUMENTS = ("grasper", "bipolar", "hook", "scissors", "clipper", "irrigator")
NULL_VERB, NULL_TARGET = "null_verb", "null_target"
VERBS = ("grasp", "retract", "dissect", "coagulate", "clip", "cut", "aspirate", "irrigate", "pack", NULL_VERB)
TARGETS = (
    "gallbladder", "cystic_plate", "cystic_duct", "cystic_artery", "cystic_pedicle", "blood_vessel", "fluid",
    "abdominal_wall_cavity", "liver", "adhesion", "omentum", "peritoneum", "gut", "specimen_bag", NULL_TARGET,
)  # fmt: skip

# Triplets in the order of their ids: an instrument, a verb, and the targets of the pair.
_TARGETS_OF = (
    ("grasper", "dissect", "cystic_plate gallbladder omentum"),
    ("grasper", "grasp", "cystic_artery cystic_duct cystic_pedicle cystic_plate gallbladder gut liver omentum "
                         "peritoneum specimen_bag"),
    ("grasper", "pack", "gallbladder"),
    ("grasper", "retract", "cystic_duct cystic_pedicle cystic_plate gallbladder gut liver omentum peritoneum"),
    ("bipolar", "coagulate", "abdominal_wall_cavity blood_vessel cystic_artery cystic_duct cystic_pedicle "
                             "cystic_plate gallbladder liver omentum peritoneum"),
    ("bipolar", "dissect", "adhesion cystic_artery cystic_duct cystic_plate gallbladder omentum"),
    ("bipolar", "grasp", "cystic_plate liver specimen_bag"),
    ("bipolar", "retract", "cystic_duct cystic_pedicle gallbladder liver omentum"),
    ("hook", "coagulate", "blood_vessel cystic_artery cystic_duct cystic_pedicle cystic_plate gallbladder liver "
                          "omentum"),
    ("hook", "cut", "blood_vessel peritoneum"),
    ("hook", "dissect", "blood_vessel cystic_artery cystic_duct cystic_plate gallbladder omentum peritoneum"),
    ("hook", "retract", "gallbladder liver"),
    ("scissors", "coagulate", "omentum"),
    ("scissors", "cut", "adhesion blood_vessel cystic_artery cystic_duct cystic_plate liver omentum peritoneum"),
    ("scissors", "dissect", "cystic_plate gallbladder omentum"),
    ("clipper", "clip", "blood_vessel cystic_artery cystic_duct cystic_pedicle cystic_plate"),
    ("irrigator", "aspirate", "fluid"),
    ("irrigator", "dissect", "cystic_duct cystic_pedicle cystic_plate gallbladder omentum"),
    ("irrigator", "irrigate", "abdominal_wall_cavity cystic_pedicle liver"),
    ("irrigator", "retract", "gallbladder liver omentum"),
    *((instrument, NULL_VERB, NULL_TARGET) for instrument in INSTRUMENTS),
)  # fmt: skip


class Triplet(NamedTuple):
    """An action triplet; its text is `grasper,retract,gallbladder`, like in dict/triplet.txt.

    >>> str(TRIPLETS[17]), TRIPLETS[17].verb
    ('grasper,retract,gallbladder', 'retract')

    Attributes:
        instrument: One of INSTRUMENTS.
        verb: One of VERBS.
        target: One of TARGETS.
    """

    instrument: str
    verb: str
    target: str

    def __str__(self) -> str:
        return ",".join(self)


TRIPLETS = tuple(
    Triplet(instrument, verb, target) for instrument, verb, targets in _TARGETS_OF for target in targets.split()
)
NULL_IDS = tuple(n for n, triplet in enumerate(TRIPLETS) if triplet.verb == NULL_VERB)
_IDS = {triplet: n for n, triplet in enumerate(TRIPLETS)}


@dataclass(frozen=True, slots=True, eq=False)
class TripletVideo:
    """The labels of one video, a row for each labelled frame, for both CholecT45 and CholecT50.

    Attributes:
        video: Its number in Cholec80's numbering (42 for VID42).
        frames: Int64 of shape (n,), ascending frame numbers at 1 frame a second: frame k is frame 25 k of Cholec80's
            video.
        triplets: Bool of shape (n, 100); columns are TRIPLETS.
        instruments: Bool of shape (n, 6); columns are INSTRUMENTS.
        verbs: Bool of shape (n, 10); columns are VERBS.
        targets: Bool of shape (n, 15); columns are TARGETS.
        disagreeing: Result of the function of this name: the number of frames with instruments, verbs or targets that
            differ from those implied by the triplets. The labels themselves are returned unchanged.
    """

    video: int
    frames: np.ndarray
    triplets: np.ndarray
    instruments: np.ndarray
    verbs: np.ndarray
    targets: np.ndarray
    disagreeing: Mapping[str, int] = field(default_factory=dict)


def list_videos(root: Path, files: str, *, source: str, action: str) -> list[int]:
    """List the videos that have a label file below a root.

    Args:
        root: The folder of the data set.
        files: A pattern like `labels/VID*.json`.
        source: The name of the data set, for the message.
        action: Advice of the error message.

    Returns:
        The numbers, ascending.

    Raises:
        InputError: The root has no such file, or one with a number in another form: a build without its video
            would lack rows in silence.
    """
    folder, pattern = files.rsplit("/", 1)
    prefix, suffix = (re.escape(piece) for piece in pattern.split("*"))
    numbers = []
    for path in layouts.list_files(root / folder, Path(pattern).suffix):
        name = re.fullmatch(f"{prefix}([0-9]{{2,3}}){suffix}", path.name)
        if name and name[1] == f"{int(name[1]):02d}":
            numbers.append(int(name[1]))
        elif re.search("[0-9]", path.stem):
            expected = f"the names of {source}, such as {files.replace('*', '01')}"
            advice = f"rename it, or move it out of {folder}/ if it is no file of {source}"
            raise InputError(path, "its name does not give the number of a video", expected=expected, action=advice)
    if not numbers:
        raise InputError(root, f"holds no {files}", expected=f"the folder of {source}", action=action)
    return sorted(numbers)


def find_triplet_id(instrument: str, verb: str, target: str) -> int:
    """Find the id of a triplet.

    >>> find_triplet_id("grasper", "retract", "gallbladder")
    17

    Args:
        instrument: One of INSTRUMENTS.
        verb: One of VERBS.
        target: One of TARGETS.

    Returns:
        The id, 0 to 99.

    Raises:
        ValueError: The combination is not one of the 100 classes.
    """
    number = _IDS.get(Triplet(instrument, verb, target))
    if number is None:
        raise ValueError(f"({instrument}, {verb}, {target}) is none of the {len(TRIPLETS)} triplets")
    return number


def parse(text: str) -> Triplet:
    """Parse a text `instrument,verb,target`; blanks around the names are removed.

    Args:
        text: The text.

    Returns:
        The triplet.

    Raises:
        ValueError: The text is not one of the 100 classes.
    """
    names = tuple(name.strip() for name in text.split(","))
    if len(names) != 3:
        raise ValueError(f"{text!r} is no triplet: expected instrument,verb,target")
    return TRIPLETS[find_triplet_id(*names)]


def compute_iv_id(instrument: int, verb: int) -> int:
    """Compute the id of an instrument-verb pair, 10 I + V. 26 of the 60 pairs occur in triplets.

    Args:
        instrument: Index in INSTRUMENTS.
        verb: Index in VERBS.

    Returns:
        The id, 0 to 59.
    """
    return len(VERBS) * instrument + verb


def compute_it_id(instrument: int, target: int) -> int:
    """Compute the id of an instrument-target pair, 15 I + T. 59 of the 90 pairs occur in triplets.

    Args:
        instrument: Index in INSTRUMENTS.
        target: Index in TARGETS.

    Returns:
        The id, 0 to 89.
    """
    return len(TARGETS) * instrument + target


def compute_component_ids() -> np.ndarray:
    """Compute the ids of instrument, verb, target, instrument-verb and instrument-target of each triplet.

    Returns:
        Int64 of shape (100, 5).
    """
    indices = [
        (INSTRUMENTS.index(triplet.instrument), VERBS.index(triplet.verb), TARGETS.index(triplet.target))
        for triplet in TRIPLETS
    ]
    return np.array([(i, v, t, compute_iv_id(i, v), compute_it_id(i, t)) for i, v, t in indices], dtype=np.int64)


def parts_of(triplets: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Derive the instruments, verbs and targets that triplets imply.

    A null triplet implies its instrument, null_verb and null_target.

    Args:
        triplets: Bool of shape (n, 100).

    Returns:
        Instruments (n, 6), verbs (n, 10) and targets (n, 15), bool.
    """
    ids = compute_component_ids()
    implied = []
    for column, names in enumerate((INSTRUMENTS, VERBS, TARGETS)):
        member = np.arange(len(names)) == ids[:, column, None]  # (100, classes)
        implied.append((triplets.astype(np.int64) @ member.astype(np.int64)) > 0)
    return implied[0], implied[1], implied[2]


def disagreeing(
    triplets: np.ndarray, instruments: np.ndarray, verbs: np.ndarray, targets: np.ndarray
) -> dict[str, int]:
    """Count the frames with labels that differ from those implied by the triplets, ignoring null_verb and null_target.

    Args:
        triplets: Bool of shape (n, 100).
        instruments: Bool of shape (n, 6).
        verbs: Bool of shape (n, 10).
        targets: Bool of shape (n, 15).

    Returns:
        The number of frames, for instrument, verb and target each.
    """
    counts = {}
    labelled = ((instruments, INSTRUMENTS), (verbs, VERBS), (targets, TARGETS))
    for component, (labels, names), implied in zip(COMPONENTS, labelled, parts_of(triplets), strict=True):
        columns = [n for n, name in enumerate(names) if name not in (NULL_VERB, NULL_TARGET)]
        counts[component] = int((labels != implied)[:, columns].any(axis=1).sum())
    return counts
