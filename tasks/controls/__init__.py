"""Controls: the same rows and questions with a reduced or different image.

A right answer without the image does not depend on the image. A control changes the images of a task's rows when they
are opened. Rows, order and prompts stay the same, and answers pair by the id of the row.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ...loaders.errors import InputError

CONTROLS = {  # name -> description of the image
    "none": "no image, only the question",
    "blank": "a uniform image in the mean colour of the image",
    "noise": "the pixels of the image in random order",
    "other": "another patient's image of the same view, with a different right answer",
    "other_same": "another patient's image of the same view, with the same right answer",
    "occluded": "the image with the target of the question painted out",
    "occluded_elsewhere": "the image with an unrelated region of the same shape painted out",
    "transplanted": "the image with the target replaced by another patient's tissue without it",
    "transplanted_elsewhere": "the image with an unrelated region replaced by that patient's tissue",
    "blurred": "the image with the target blurred beyond recognition",
    "blurred_elsewhere": "the image with an unrelated region of the same shape blurred",
    "only_target": "the target alone, with all other pixels painted out",
    "flipped": "the image with left and right exchanged; the right answer changes with it",
    "cropped": "the image without a few per cent at each side; the right answer stays",
    "recoded": "the image scaled by 3% and back, and saved as JPEG; the right answer stays",
}
EDITS = ("occluded", "transplanted", "blurred")  # edits of the target; each also exists with ELSEWHERE
ELSEWHERE = "_elsewhere"  # suffix of an edit of a region other than the target
DOSES = (25, 50, 75)  # edited percentage of the region; without a dose, all of it is edited
BLIND = ("none", "blank", "noise")  # the target cannot be seen
DONORS = ("other", "other_same")
HARMLESS = ("cropped", "recoded")  # the right answer stays the same, and the model's answer should, too
REGIONS = (*(f"{edit}{place}" for edit in EDITS for place in ("", ELSEWHERE)), "only_target")
TISSUE = ("transplanted", f"transplanted{ELSEWHERE}")  # needs a second image
TARGET = "target"  # column with the region that the question is about (RLE); a sample log omits it
_FULL = 100  # per cent
_DOSED = f"; {', '.join(EDITS)}, with or without {ELSEWHERE}, also with {', '.join(f'@{dose}' for dose in DOSES)}"
_BENCHMARKS = {  # benchmark -> supported controls
    "cxr-contrabench": tuple(name for name in CONTROLS if name != "flipped"),
    "heal-medvqa": tuple(CONTROLS),
    "surgxbench": tuple(CONTROLS),
    "wrong-lung": tuple(CONTROLS),
    "own": tuple(CONTROLS),
}


def described() -> dict[str, tuple[str, str]]:
    """Describe each control without doses.

    Returns:
        Control -> its image, and the benchmarks that support it.
    """
    return {
        name: (text, ", ".join(benchmark for benchmark, names in _BENCHMARKS.items() if name in names))
        for name, text in CONTROLS.items()
    }


def describe_doses() -> str:
    """Explain doses in one sentence."""
    doses = ", ".join(f"@{dose}" for dose in DOSES)
    return f"{', '.join(EDITS)}, with or without {ELSEWHERE}, take a dose: {doses} edit this percentage of the region."


def split_dose(control: str) -> tuple[str, int]:
    """Split a control into its name and its dose in per cent of the region.

    Args:
        control: The control.

    Returns:
        Name and dose; the dose is 100 if the control names none.

    Raises:
        InputError: The control or the dose is unknown.

    >>> split_dose("occluded@50"), split_dose("blank")
    (('occluded', 50), ('blank', 100))
    """
    name, at, dose = str(control).partition("@")
    if name not in CONTROLS:
        raise InputError("option control", f"is {control!r}", expected=f"one of {', '.join(CONTROLS)}{_DOSED}")
    if not at:
        return name, _FULL
    if not has_dose(name):
        problem = f"is {control!r}, and {name} has no dose"
        raise InputError("option control", problem, expected=f"{name}, or an edit of a region{_DOSED}")
    if dose not in map(str, DOSES):
        problem, without_dose = f"is {control!r}", f"or {name}, which edits all of the region"
        expected = f"{', '.join(f'{name}@{option}' for option in DOSES)}, {without_dose}"
        raise InputError("option control", problem, expected=expected)
    return name, int(dose)


def has_dose(name: str) -> bool:
    """Return whether a control edits a region, and therefore may have a dose.

    Args:
        name: The control without a dose.

    Returns:
        Whether the control may have a dose.
    """
    return name.removesuffix(ELSEWHERE) in EDITS


def needs_region(control: str | None) -> bool:
    """Return whether rows need the region that the question is about.

    Args:
        control: The control, or None.

    Returns:
        Whether the control edits, keeps or replaces that region; False for None.

    Raises:
        InputError: As in `split_dose`.
    """
    return control is not None and split_dose(control)[0] in REGIONS


def get_elsewhere_edit(control: str) -> str:
    """Return the same edit of a region other than the target, with the same dose.

    Args:
        control: An edit of the target.

    Returns:
        Name of the control.

    Raises:
        InputError: The control has no such edit.

    >>> get_elsewhere_edit("occluded@50")
    'occluded_elsewhere@50'
    """
    name, dose = split_dose(control)
    if name not in EDITS:
        raise InputError(
            "option control", f"is {control!r}", expected=f"one of {', '.join(EDITS)}, with or without dose"
        )
    return f"{name}{ELSEWHERE}" + (f"@{dose}" if dose != _FULL else "")


def in_order(controls: Iterable[str]) -> list[str]:
    """Sort controls in the order of CONTROLS, each followed by its doses from the largest to the smallest.

    Args:
        controls: The controls.

    Returns:
        The controls, sorted.
    """
    names = list(CONTROLS)

    def compute_key(control: str) -> tuple[int, int]:
        name, dose = split_dose(control)
        return names.index(name), -dose

    return sorted(controls, key=compute_key)


def read_control(text: str) -> str:
    """Parse a control for argparse.

    Args:
        text: The argument.

    Returns:
        The argument, unchanged.

    Raises:
        argparse.ArgumentTypeError: The control is unknown. The message lists all controls.
    """
    try:
        split_dose(text)
    except InputError as error:
        raise argparse.ArgumentTypeError(f"{error.found}; expected {error.expected}") from None
    return text


class UnsupportedControlError(InputError):
    """The rows of a task do not support a control, or the model cannot answer under it."""


def needs_an_image(model: str) -> InputError:
    """Build the error for the control `none` and a model that needs an image with every question.

    Args:
        model: The name of the model in the message.

    Returns:
        The error, to raise.
    """
    return UnsupportedControlError(
        "option control=none",
        f"{model} cannot answer without an image",
        action='use --control blank, or --model medfaith-hf-vlm of medfaith eval (plain lm-eval: "control": "blank")',
    )


class Facts(NamedTuple):
    """The facts about a row that a control may use.

    Tissue without the target comes from one of three places. If the region is an anatomy, every image has it, and the
    tissue comes from a row whose target is absent. If there are findings, the tissue comes from the same place of an
    image in which no row shows one of the findings. Otherwise it comes from the same place of an image without a region
    there.

    Attributes:
        patient: The patient of the image.
        asked: A key of the question. Rows with the same key have comparable answers. It is "" if the answer for another
            image is unknown.
        answer: The right answer.
        alternatives: The other answers that are offered; None for any.
        mirrored: The key of the same question about the other side of the body; "" if the question names no side.
        present: Whether the image shows the target.
        anatomical: Whether the region is an anatomy.
        findings: The findings in the region that the question names.
        shown: The findings that the image shows, according to the row.
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
