"""Names of decoders in tables, as in their papers."""

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
SAM = "wanglab/medsam-vit-base"  # MedSAM, as in LobA's paper
PARAMETERS = (
    "alpha", "beta", "noise_step", "seed", "forgetting", "confident", "disturbance", "weight", "gamma", "bias",
    "yes_share",
)  # fmt: skip


def title(arguments: Mapping[str, Any]) -> str:
    """Format the title of the decoder in a model's arguments, with the given parameters.

    Args:
        arguments: Arguments of the model.

    Returns:
        The title, or "" without a decoder.

    >>> title({"pretrained": "m", "decoding": "loba", "weight": 0.5, "dtype": "float32"}), title({"alpha": 1})
    ('LobA, weight 0.5', '')
    """
    name = arguments.get("decoding")
    if not name:
        return ""
    parameters = [
        f"{parameter} {PurePath(str(arguments[parameter])).name}"  # only the last part of a path is meaningful
        for parameter in (*PARAMETERS, "regions")
        if parameter in arguments
    ]
    return ", ".join([TITLES.get(str(name), str(name)), *parameters])
