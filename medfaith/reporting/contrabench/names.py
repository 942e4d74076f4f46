"""The paper's names of protocols, prompts and variants (section 3.2; section 4, variant notation)."""

from __future__ import annotations

from collections.abc import Sequence

from ..tables import Column, count, percent, points
from .runs import Run, Setting

# Columns of several tables.
B0_ACCURACY = Column("B0 Acc.", ("base_accuracy",), percent)
M1_ACCURACY = Column("M1 Acc.", ("verified_accuracy",), percent)
DELTA = Column("Δ pp", ("delta",), points)
REPAIRS = [Column(name, (name.lower(),), count) for name in ("Changed", "Improved", "Worsened")]

PROTOCOLS = {  # protocol: (long name, short name)
    "chexpert_presence": ("CheXpert direct presence", "CheXpert presence"),
    "chexpert_absence": ("CheXpert report-style absence", "CheXpert absence"),
    "openi_report_absence": ("OpenI report-style absence", "OpenI absence"),
    "openi_chexstruct_presence": ("OpenI CheXStruct presence", "CheXStruct presence"),
    "openi_chexstruct_absence": ("OpenI CheXStruct absence", "CheXStruct absence"),
    "chexpert_positive_only": ("CheXpert positive-only control", "CheXpert control"),
    "chexlocalize_presence": ("CheXlocalize direct presence", "CheXlocalize presence"),
    "chexlocalize_positive_only": ("CheXlocalize positive-only control", "CheXlocalize control"),
}
_BASE = {
    "b0": "B0", "cot": "CoT-B0", "instruct": "B0-Instruct", "3shot": "FS-B0", "3shot_images": "FS-B0 (images)",
    "packet": "Packet-B0",
}  # fmt: skip
_VERIFIED = {
    "b0": "M1", "cot": "CoT+M1", "instruct": "Instruct+M1", "3shot": "FS+M1", "3shot_images": "FS+M1 (images)",
    "packet": "Packet+M1",
}  # fmt: skip


def format_base_name(setting: Setting) -> str:
    """Format the name of a prompt before the verifier: `cot` -> `CoT-B0`.

    Args:
        setting: The setting.

    Returns:
        The paper's name, or the prompt's own name if the paper has none.
    """
    prompt, suffix = _split_prompt(setting)
    return _BASE.get(prompt, prompt) + suffix + format_images_note(setting)


def format_verified_name(setting: Setting) -> str:
    """Format the name of a prompt after the verifier: `cot` -> `CoT+M1`.

    Args:
        setting: The setting.

    Returns:
        The name.
    """
    prompt, suffix = _split_prompt(setting)
    return _VERIFIED.get(prompt, f"{prompt}+M1") + suffix + format_images_note(setting)


def _split_prompt(setting: Setting) -> tuple[str, str]:
    """Split the prompt into its name and a suffix for its controls and wording."""
    prompt, *changes = setting.prompt.split(", ")
    labels = [change if change.startswith("wording ") else f"control {change}" for change in changes]
    return prompt, f" ({', '.join(labels)})" if labels else ""


def format_images_note(setting: Setting) -> str:
    """Format the suffix of a prompt for which the model saw one image a study (`--images first`).

    Args:
        setting: The setting.

    Returns:
        The suffix, "" for all images.
    """
    return "" if setting.images == "all" else f" ({setting.images} image)"


def protocol_name(run: Run) -> str:
    """Format the name of a run's protocol, with the split if it is not the paper's evaluation split.

    Args:
        run: The run.

    Returns:
        The name.
    """
    name = PROTOCOLS.get(run.setting.protocol, (run.setting.protocol,))[0]
    return f"{name} (train)" if run.setting.split == "train" else name


def get_protocol_rank(run: Run) -> tuple:
    """Get the key that sorts protocols as the paper lists them, train after validation.

    Args:
        run: The run.

    Returns:
        The key.
    """
    names = list(PROTOCOLS)
    protocol = run.setting.protocol
    rank = names.index(protocol) if protocol in PROTOCOLS else len(names)
    return rank, protocol, run.setting.split == "train"


def select_external(runs: Sequence[Run], *protocols: str, split: str | None = "evaluation") -> list[Run]:
    """Select the runs of external protocols (not ReXVQA's) in the published wording, in the order of `sort_runs`.

    Args:
        runs: The runs.
        protocols: Names of external protocols; none for all of them.
        split: "evaluation" for validation and test, "train", or None for all.

    Returns:
        The selected runs.
    """
    return [
        run
        for run in sort_runs(runs)
        if not run.setting.changed_forms
        and not run.setting.internal
        and (not protocols or run.setting.protocol in protocols)
        and (split is None or (run.setting.split == "train") == (split == "train"))
    ]


def sort_runs(runs: Sequence[Run]) -> list[Run]:
    """Sort runs by model and prompt, by protocol, by wording (the published one first), and by layout.

    Args:
        runs: The runs.

    Returns:
        The sorted runs.
    """
    return sorted(
        runs, key=lambda run: (run.variant, get_protocol_rank(run), len(run.setting.changed_forms), run.setting)
    )
