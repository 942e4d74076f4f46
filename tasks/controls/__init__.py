"""Controls: the same rows and questions with an image that says less, or something else.

What a model still answers rightly without the image, it does not owe to the image. A control changes the images of a
task's rows when they are opened; rows, order and prompts stay, so that answers pair by the row's id.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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
    "only_target": "what is asked about, with everything else painted out",
    "flipped": "the image with left and right exchanged; what is right changes with it",
}
_BENCHMARKS = {  # which benchmarks' rows hold what a control needs
    "cxr-contrabench": ("none", "blank", "noise", "other", "other_same"),
    "heal-medvqa": tuple(CONTROLS),
    "surgxbench": tuple(CONTROLS),
    "wrong-lung": tuple(CONTROLS),
}
BLIND = ("none", "blank", "noise")  # nothing of what is asked can be seen
DONORS = ("other", "other_same")
REGIONS = ("occluded", "occluded_elsewhere", "only_target")
TARGET = "target"  # column with the region of what is asked about (RLE); a sample log does not keep it


def described() -> dict[str, tuple[str, str]]:
    """Control -> what the model sees, and the benchmarks that support it."""
    return {
        name: (text, ", ".join(benchmark for benchmark, names in _BENCHMARKS.items() if name in names))
        for name, text in CONTROLS.items()
    }


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
    """

    patient: str
    asked: str
    answer: str
    alternatives: Sequence[str] | None = None
    mirrored: str = ""


FactsOf = Callable[[Mapping[str, Any]], Facts]
