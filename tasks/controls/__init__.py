"""Controls: the same rows and questions with an image that says less, or something else.

What a model still answers rightly without the image, it does not owe to the image. A control changes the images of a
task's rows when they are opened; rows, order and prompts stay, so that answers pair by the row's id.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ...loaders.errors import InputError

CONTROLS = {  # name -> what the model sees
    "none": "no image, only the question",
    "blank": "an even image of the image's mean colour",
    "noise": "the image's own pixels in another order",
    "other": "another patient's image of the same view, whose right answer differs",
    "other_same": "another patient's image of the same view, whose right answer is the same",
    "occluded": "the image with what is asked about painted out",
    "occluded_elsewhere": "the image with a region of the same shape painted out that is not asked about",
    "transplanted": "the image with another patient's tissue, without what is asked about, in its place",
    "transplanted_elsewhere": "the image with that patient's tissue at a place that is not asked about",
    "blurred": "the image with what is asked about blurred beyond recognition",
    "blurred_elsewhere": "the image with a region of the same shape blurred that is not asked about",
    "only_target": "what is asked about, with everything else painted out",
    "flipped": "the image with left and right exchanged; what is right changes with it",
    "cropped": "the image without a few per cent at each side; what is right stays",
    "recoded": "the image rescaled by 3% and back, and saved as JPEG; what is right stays",
}
EDITS = ("occluded", "transplanted", "blurred")  # of a region; each is there with ELSEWHERE, too
ELSEWHERE = "_elsewhere"  # ends the name of an edit of a region that is not asked about
DOSES = (25, 50, 75)  # per cent of the region that are edited; a name without a dose means all of it
BLIND = ("none", "blank", "noise")  # nothing of what is asked can be seen
DONORS = ("other", "other_same")
HARMLESS = ("cropped", "recoded")  # what is right stays, and so should the answer
REGIONS = (*(f"{edit}{place}" for edit in EDITS for place in ("", ELSEWHERE)), "only_target")
TISSUE = ("transplanted", f"transplanted{ELSEWHERE}")  # takes another image beside the row's own
TARGET = "target"  # column with the region of what is asked about (RLE); a sample log does not keep it
_FULL = 100  # per cent
_DOSED = f"; {', '.join(EDITS)}, with or without {ELSEWHERE}, also with {', '.join(f'@{dose}' for dose in DOSES)}"
_BENCHMARKS = {  # which benchmarks' rows hold what a control needs
    "cxr-contrabench": (*BLIND, *DONORS, *HARMLESS),
    "heal-medvqa": tuple(CONTROLS),
    "surgxbench": tuple(CONTROLS),
    "wrong-lung": tuple(CONTROLS),
}


def described() -> dict[str, tuple[str, str]]:
    """Control -> what the model sees, and the benchmarks that support it. Doses are not listed."""
    return {
        name: (text, ", ".join(benchmark for benchmark, names in _BENCHMARKS.items() if name in names))
        for name, text in CONTROLS.items()
    }


def about_doses() -> str:
    """What a dose is, as a sentence."""
    doses = ", ".join(f"@{dose}" for dose in DOSES)
    return f"{', '.join(EDITS)}, with or without {ELSEWHERE}, take a dose: {doses} edit this percentage of the region."


def split_dose(control: str) -> tuple[str, int]:
    """The name of a control without its dose, and the dose in per cent of the region.

    Raises InputError for a control or a dose that there is not.

    >>> split_dose("occluded@50"), split_dose("blank")
    (('occluded', 50), ('blank', 100))
    """
    name, at, dose = str(control).partition("@")
    if name not in CONTROLS:
        raise InputError("option control", f"is {control!r}", expected=f"one of {', '.join(CONTROLS)}{_DOSED}")
    if not at:
        return name, _FULL
    if not has_dose(name):
        found = f"is {control!r}, and {name} has no dose"
        raise InputError("option control", found, expected=f"{name}, or an edit of a region{_DOSED}")
    if dose not in map(str, DOSES):
        found, all_of_it = f"is {control!r}", f"or {name}, which edits all of the region"
        expected = f"{', '.join(f'{name}@{one}' for one in DOSES)}, {all_of_it}"
        raise InputError("option control", found, expected=expected)
    return name, int(dose)


def has_dose(name: str) -> bool:
    """Whether a control, named without a dose, edits a region of which a part can be left."""
    return name.removesuffix(ELSEWHERE) in EDITS


def needs_region(control: str | None) -> bool:
    """Whether rows must say where what is asked about lies. Raises InputError as `split_dose` does."""
    return control is not None and split_dose(control)[0] in REGIONS


def elsewhere_of(control: str) -> str:
    """The same edit of a region that is not asked about, with the same dose. Raises InputError if it has none.

    >>> elsewhere_of("occluded@50")
    'occluded_elsewhere@50'
    """
    name, dose = split_dose(control)
    if name not in EDITS:
        raise InputError(
            "option control", f"is {control!r}", expected=f"one of {', '.join(EDITS)}, with or without dose"
        )
    return f"{name}{ELSEWHERE}" + (f"@{dose}" if dose != _FULL else "")


def in_order(controls: Iterable[str]) -> list[str]:
    """Controls as they are listed, each followed by its doses from the largest to the smallest."""
    names = list(CONTROLS)

    def place(control: str) -> tuple[int, int]:
        name, dose = split_dose(control)
        return names.index(name), -dose

    return sorted(controls, key=place)


def read_control(text: str) -> str:
    """What argparse reads a control with; its error says which there are."""
    try:
        split_dose(text)
    except InputError as error:
        raise argparse.ArgumentTypeError(f"{error.found}; expected {error.expected}") from None
    return text


class UnsupportedControlError(InputError):
    """The rows of a task do not hold what a control needs, or the model cannot be asked so."""


def needs_an_image(model: str) -> InputError:
    """The error of a model that is asked without an image and takes one with every question. model: how to call it."""
    return UnsupportedControlError(
        "option control=none",
        f"{model} cannot answer without an image",
        action='use --control blank, or --model medfaith-hf-vlm of medfaith eval (plain lm-eval: "control": "blank")',
    )


class Facts(NamedTuple):
    """What a control may know of a row.

    patient: whose image it is. asked, answer: rows with the same `asked` have comparable answers; `asked` is "" where
    no other image can be said to have an answer. alternatives: the answers that are offered beside the right one; None:
    any other. mirrored: the `asked` of the same question about the other side of the body, "" where it names no side.
    present: whether the image shows what is asked about.

    Tissue without what is asked about comes from one of three places. anatomical: the region is an anatomy, which every
    image has; the tissue is that of a row where what is asked about is absent. findings: what the question names in the
    region, and shown: what the row says that its image shows; the tissue is that at the same place of an image of which
    no row shows one of the findings. Neither: it is that at the same place of an image that has no region there.
    """

    patient: str
    asked: str
    answer: str
    alternatives: Sequence[str] | None = None
    mirrored: str = ""
    present: bool = True
    anatomical: bool = False
    findings: Collection[str] = ()
    shown: Collection[str] = ()


FactsOf = Callable[[Mapping[str, Any]], Facts]
