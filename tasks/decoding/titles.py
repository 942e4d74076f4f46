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
TRAINED = "loba:"  # prefix of `regions`: the folder of a trained model that localizes by itself
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
    >>> title({"decoding": "greedy", "regions": "loba:/runs/trained"}), title({"decoding": "crg", "regions": "/masks"})
    ('greedy, regions loba:trained', 'CRG, regions masks')
    """
    name = arguments.get("decoding")
    if not name:
        return ""
    parameters = [
        f"{parameter} {_shorten_path(str(arguments[parameter]))}"
        for parameter in (*PARAMETERS, "regions")
        if parameter in arguments
    ]
    return ", ".join([TITLES.get(str(name), str(name)), *parameters])


def _shorten_path(value: str) -> str:
    """Shorten a path to its last part, the only one that means something elsewhere."""
    prefix = TRAINED if value.startswith(TRAINED) else ""
    return prefix + PurePath(value.removeprefix(prefix)).name
