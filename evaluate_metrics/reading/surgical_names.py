"""Surgical instruments and action triplets (Cholec80-Boxes, CholecT45, CholecT50), and their names in texts."""

from __future__ import annotations

import re

import numpy as np

INSTRUMENTS: tuple[str, ...] = ("grasper", "bipolar", "hook", "scissors", "clipper", "irrigator", "specimen_bag")
TRIPLET_INSTRUMENTS: tuple[str, ...] = INSTRUMENTS[:6]
VERBS: tuple[str, ...] = (
    "grasp", "retract", "dissect", "coagulate", "clip", "cut", "aspirate", "irrigate", "pack", "null_verb",
)  # fmt: skip
TARGETS: tuple[str, ...] = (
    "gallbladder", "cystic_plate", "cystic_duct", "cystic_artery", "cystic_pedicle", "blood_vessel", "fluid",
    "abdominal_wall_cavity", "liver", "adhesion", "omentum", "peritoneum", "gut", "specimen_bag", "null_target",
)  # fmt: skip
NULL_VERB = VERBS.index("null_verb")

# The data sets' numbering of the 100 triplets: instrument, verb, and their targets in the order of ids.
_NUMBERED = (
    (0, 2, (1, 0, 10)), (0, 0, (3, 2, 4, 1, 0, 12, 8, 10, 11, 13)), (0, 8, (0,)), (0, 1, (2, 4, 1, 0, 12, 8, 10, 11)),
    (1, 3, (7, 5, 3, 2, 4, 1, 0, 8, 10, 11)), (1, 2, (9, 3, 2, 1, 0, 10)), (1, 0, (1, 8, 13)),
    (1, 1, (2, 4, 0, 8, 10)), (2, 3, (5, 3, 2, 4, 1, 0, 8, 10)), (2, 5, (5, 11)), (2, 2, (5, 3, 2, 1, 0, 10, 11)),
    (2, 1, (0, 8)), (3, 3, (10,)), (3, 5, (9, 5, 3, 2, 1, 8, 10, 11)), (3, 2, (1, 0, 10)), (4, 4, (5, 3, 2, 4, 1)),
    (5, 6, (6,)), (5, 2, (2, 4, 1, 0, 10)), (5, 7, (7, 4, 8)), (5, 1, (0, 8, 10)),
    *((instrument, NULL_VERB, (14,)) for instrument in range(6)),
)  # fmt: skip

# (100, 3): the ids of instrument, verb and target of each triplet.
COMPONENTS = np.array([(i, v, t) for i, v, targets in _NUMBERED for t in targets])
COMPONENTS.setflags(write=False)
TRIPLETS: tuple[str, ...] = tuple(",".join((TRIPLET_INSTRUMENTS[i], VERBS[v], TARGETS[t])) for i, v, t in COMPONENTS)

# Regular expressions over lower-case words; a blank matches several; hyphens, slashes and underscores are blanks.
_DEVICE = r"(?:devices?|instruments?|tools?|probes?|cannulas?|cannulae|tubes?|systems?|units?|tips?)"
_CAUTERY = r"(?:electro ?)?(?:cautery|coagulat(?:or|ion)|diathermy|surgery|surgical)"
INSTRUMENT_SYNONYMS: dict[str, tuple[str, ...]] = {
    "grasper": (r"graspers?(?: forceps)?", rf"grasp(?:ing)? (?:forceps|graspers?|{_DEVICE})"),
    "bipolar": (
        rf"bi ?polars?(?: (?:energy|{_CAUTERY}))?(?: (?:(?:grasping )?forceps|graspers?|dissectors?|{_DEVICE}))?",
    ),
    "hook": (
        rf"(?:(?:l|j|monopolar|electro|electric|{_CAUTERY}) ?){{0,3}}hooks?"
        rf"(?: (?:{_CAUTERY}|electrodes?|dissectors?|knife|knives|{_DEVICE}))?",
    ),
    "scissors": (r"scissors?", r"endo ?shears?"),
    "clipper": (
        r"clippers?",
        r"(?:(?:endo|hemo|hem o lok) ?)?(?:clips? )?appl(?:ier|yer|icator)s?",
        rf"clip(?:ping| applying| application) (?:forceps|{_DEVICE})",
    ),
    "irrigator": (
        r"(?:(?:suction|aspirator) (?:and )?)?irrigators?(?: (?:and )?(?:suction|aspirators?))?",
        rf"(?:suction|aspiration) (?:(?:and )?irrigation )?{_DEVICE}",
        rf"irrigation (?:(?:and )?(?:suction|aspiration) )?{_DEVICE}",
        r"suction irrigation",
        r"aspirators?",
    ),
    "specimen_bag": (
        r"(?:(?:specimen|tissue|gall ?bladder|retrieval|extraction|collect(?:ion|ing)|plastic|endo|endoscopic) ?){0,3}"
        r"bags?",
        r"(?:specimen|(?:specimen )?retrieval|extraction) pouch(?:es)?",
        r"endo ?(?:catch|pouch)(?: bags?)?",
    ),
}

# Names of other things that contain one of the names above.
OTHERS: tuple[str, ...] = (
    r"hooks? (?:onto|around|under|up)",
    r"(?:used|able|trying|order|going) to hook",
    r"(?:hook|scissors?|bag|pouch|grasper|clipper) (?:like|shaped)",
    r"(?:ambu|air|urine|blood|iv|saline|infusion|breathing|drainage) bags?",
    r"bag (?:valve|mask)",
    r"(?:gel|glue|stapler|fabric|tape|force|pressure) applicators?",
    r"hair clippers?",
)

VERB_FORMS: dict[str, tuple[str, ...]] = {
    "grasp": (r"grasp(?:s|ed|ing)?",),
    "retract": (r"retract(?:s|ed|ing|ion)?",),
    "dissect": (r"dissect(?:s|ed|ing|ion)?",),
    "coagulate": (r"coagulat(?:es?|ed|ing|ion)",),
    "clip": (r"clip(?:s|ped|ping)?",),
    "cut": (r"cut(?:s|ting)?",),
    "aspirate": (r"aspirat(?:es?|ed|ing|ion)",),
    "irrigate": (r"irrigat(?:es?|ed|ing|ion)",),
    "pack": (r"pack(?:s|ed|ing)?",),
    "null_verb": (r"null(?: verb)?",),
}

TARGET_SYNONYMS: dict[str, tuple[str, ...]] = {
    "gallbladder": (r"gall ?bladders?",),
    "cystic_plate": (r"cystic plates?",),
    "cystic_duct": (r"cystic ducts?",),
    "cystic_artery": (r"cystic arter(?:y|ies)",),
    "cystic_pedicle": (r"cystic pedicles?",),
    "blood_vessel": (r"blood ?vessels?", r"vessels?"),
    "fluid": (r"fluids?",),
    "abdominal_wall_cavity": (r"abdominal (?:wall (?:(?:and|or) )?(?:the )?)?cavity", r"abdominal wall"),
    "liver": (r"livers?",),
    "adhesion": (r"adhesions?",),
    "omentum": (r"omentum",),
    "peritoneum": (r"peritoneum",),
    "gut": (r"guts?", r"bowels?", r"intestines?"),
    "specimen_bag": (r"(?:(?:specimen|retrieval) )?bags?",),
    "null_target": (r"null(?: target)?",),
}


def build_alternatives(patterns: tuple[str, ...] | list[str]) -> str:
    """Build an expression for the full words that any of the patterns matches, with any blanks on one line.

    Args:
        patterns: Regular expressions.

    Returns:
        The expression.
    """
    return rf"\b(?:{'|'.join(patterns)})\b".replace(" ?", r"[^\S\n]*").replace(" ", r"[^\S\n]+")


def build_patterns(names: dict[str, tuple[str, ...]]) -> tuple[tuple[str, re.Pattern[str]], ...]:
    """Build an expression for every name.

    Args:
        names: Name -> its regular expressions.

    Returns:
        (name, expression) of every name.
    """
    return tuple((name, re.compile(build_alternatives(patterns))) for name, patterns in names.items())
