"""What decoders are called in tables, as their papers have it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

TITLES = {
    "greedy": "greedy",
    "cutoff": "cutoff alone",
    "yes_bias": "yes bias",
    "vcd": "VCD",
    "crg": "CRG",
    "m3id": "M3ID",
    "icd": "ICD",
    "prompt_highlighter": "PH",
    "loba": "LobA",
}
SAM = "wanglab/medsam-vit-base"  # MedSAM, which the paper of LobA takes
PARAMETERS = (
    "alpha", "beta", "noise_step", "seed", "forgetting", "confident", "disturbance", "weight", "gamma", "bias",
    "yes_share",
)  # fmt: skip


def title(arguments: Mapping[str, Any]) -> str:
    """Of the decoder in a model's arguments, with the parameters that were given; "" without one.

    >>> title({"pretrained": "m", "decoding": "loba", "weight": 0.5, "dtype": "float32"}), title({"alpha": 1})
    ('LobA, weight 0.5', '')
    """
    name = arguments.get("decoding")
    if not name:
        return ""
    given = [
        f"{parameter} {PurePath(str(arguments[parameter])).name}"  # a path on a machine says nothing to others
        for parameter in (*PARAMETERS, "regions")
        if parameter in arguments
    ]
    return ", ".join([TITLES.get(str(name), str(name)), *given])
