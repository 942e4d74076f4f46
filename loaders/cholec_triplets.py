"""The classes of CholecT45 and CholecT50: instruments, verbs, targets, and the 100 action triplets made of them.

Source: Nwoye et al., "Rendezvous: attention mechanisms for the recognition of surgical action triplets in endoscopic
videos" (Medical Image Analysis, 2022); ids as the data sets' own dict/maps.txt numbers them. Of the 900 combinations
100 are classes; the last six say that an instrument is there and does nothing, with null_verb and null_target.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np

from .errors import InputError

INSTRUMENTS = ("grasper", "bipolar", "hook", "scissors", "clipper", "irrigator")
NULL_VERB, NULL_TARGET = "null_verb", "null_target"
VERBS = ("grasp", "retract", "dissect", "coagulate", "clip", "cut", "aspirate", "irrigate", "pack", NULL_VERB)
TARGETS = (
    "gallbladder", "cystic_plate", "cystic_duct", "cystic_artery", "cystic_pedicle", "blood_vessel", "fluid",
    "abdominal_wall_cavity", "liver", "adhesion", "omentum", "peritoneum", "gut", "specimen_bag", NULL_TARGET,
)  # fmt: skip

# Triplets in the order of their ids: an instrument, a verb, and the targets that the two have together.
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
    """An action triplet; as text `grasper,retract,gallbladder`, which is how dict/triplet.txt writes it.

    >>> str(TRIPLETS[17]), TRIPLETS[17].verb
    ('grasper,retract,gallbladder', 'retract')
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
    """What one video's annotators saw, a row for each labelled frame; the same of CholecT45 and of CholecT50.

    video: its number in Cholec80's numbering (42 of VID42).
    frames: (n,) int64, ascending, the frames' numbers at 1 frame a second: frame k is frame 25 k of Cholec80's video.
    triplets: (n, 100) bool. instruments: (n, 6) bool. verbs: (n, 10) bool. targets: (n, 15) bool.
        Columns are ids: TRIPLETS, INSTRUMENTS, VERBS, TARGETS.
    disagreeing: what the function of this name counts: frames whose instruments, verbs or targets, which are read as
        they stand, are not those that the triplets imply.
    """

    video: int
    frames: np.ndarray
    triplets: np.ndarray
    instruments: np.ndarray
    verbs: np.ndarray
    targets: np.ndarray
    disagreeing: Mapping[str, int] = field(default_factory=dict)


def videos(root: Path, files: str, *, source: str, action: str) -> list[int]:
    """The numbers, ascending, of the videos that have a file below `root`; `files` is like `labels/VID*.json`.

    Raises InputError for none.
    """
    before, after = (re.escape(part) for part in files.rsplit("/", 1)[1].split("*"))
    names = (re.fullmatch(f"{before}([0-9]{{2,3}}){after}", path.name) for path in root.glob(files))
    found = sorted(int(name[1]) for name in names if name)
    if not found:
        raise InputError(root, f"holds no {files}", expected=f"the folder of {source}", action=action)
    return found


def triplet_id(instrument: str, verb: str, target: str) -> int:
    """The id, 0 to 99, of a triplet.

    Raises ValueError for a combination that is none of the 100 classes.

    >>> triplet_id("grasper", "retract", "gallbladder")
    17
    """
    number = _IDS.get(Triplet(instrument, verb, target))
    if number is None:
        raise ValueError(f"({instrument}, {verb}, {target}) is none of the {len(TRIPLETS)} triplets")
    return number


def parse(text: str) -> Triplet:
    """The triplet that a text `instrument,verb,target` names, blanks around its parts left out.

    Raises ValueError for a text that is none of the 100 classes.
    """
    parts = tuple(part.strip() for part in text.split(","))
    if len(parts) != 3:
        raise ValueError(f"{text!r} is no triplet: expected instrument,verb,target")
    return TRIPLETS[triplet_id(*parts)]


def iv_id(instrument: int, verb: int) -> int:
    """The id of an instrument-verb pair, 10 I + V; of the 60 pairs 26 occur in triplets."""
    return len(VERBS) * instrument + verb


def it_id(instrument: int, target: int) -> int:
    """The id of an instrument-target pair, 15 I + T; of the 90 pairs 59 occur in triplets."""
    return len(TARGETS) * instrument + target


def component_ids() -> np.ndarray:
    """(100, 5) int64: the ids of instrument, verb, target, instrument-verb and instrument-target of each triplet."""
    parts = [
        (INSTRUMENTS.index(triplet.instrument), VERBS.index(triplet.verb), TARGETS.index(triplet.target))
        for triplet in TRIPLETS
    ]
    return np.array([(i, v, t, iv_id(i, v), it_id(i, t)) for i, v, t in parts], dtype=np.int64)


def parts_of(triplets: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The instruments (n, 6), verbs (n, 10) and targets (n, 15), bool, that triplets (n, 100) bool imply.

    A null triplet implies its instrument, null_verb and null_target.
    """
    ids = component_ids()
    implied = []
    for column, names in enumerate((INSTRUMENTS, VERBS, TARGETS)):
        member = np.arange(len(names)) == ids[:, column, None]  # (100, classes)
        implied.append((triplets.astype(np.int64) @ member.astype(np.int64)) > 0)
    return implied[0], implied[1], implied[2]


def disagreeing(
    triplets: np.ndarray, instruments: np.ndarray, verbs: np.ndarray, targets: np.ndarray
) -> dict[str, int]:
    """By part, in how many frames its labels, null_verb and null_target aside, are not those the triplets imply.

    Shapes as in TripletVideo.
    """
    counts = {}
    given = {"instrument": (instruments, INSTRUMENTS), "verb": (verbs, VERBS), "target": (targets, TARGETS)}
    for (part, (labels, names)), implied in zip(given.items(), parts_of(triplets), strict=True):
        telling = [n for n, name in enumerate(names) if name not in (NULL_VERB, NULL_TARGET)]
        counts[part] = int((labels != implied)[:, telling].any(axis=1).sum())
    return counts
