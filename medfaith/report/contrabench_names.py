"""How the paper names protocols, prompts and variants (section 3.2; section 4, variant notation)."""

from __future__ import annotations

from collections.abc import Sequence

from .contrabench_runs import Run, Setting
from .tables import Column, count, percent, points

# Columns that several tables of the paper have.
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
}
_BASE = {
    "b0": "B0", "cot": "CoT-B0", "instruct": "B0-Instruct", "3shot": "FS-B0", "3shot_images": "FS-B0 (images)",
    "packet": "Packet-B0",
}  # fmt: skip
_VERIFIED = {
    "b0": "M1", "cot": "CoT+M1", "instruct": "Instruct+M1", "3shot": "FS+M1", "3shot_images": "FS+M1 (images)",
    "packet": "Packet+M1",
}  # fmt: skip


def base_name(setting: Setting) -> str:
    """`cot` -> `CoT-B0`; a prompt that the paper does not have keeps its own name."""
    prompt, changed = _parts(setting)
    return _BASE.get(prompt, prompt) + changed + images_note(setting)


def verified_name(setting: Setting) -> str:
    """`cot` -> `CoT+M1`."""
    prompt, changed = _parts(setting)
    return _VERIFIED.get(prompt, f"{prompt}+M1") + changed + images_note(setting)


def _parts(setting: Setting) -> tuple[str, str]:
    """The prompt, and what stands after its name where a control or a wording changed what was shown."""
    prompt, *changes = setting.prompt.split(", ")
    named = [change if change.startswith("wording ") else f"control {change}" for change in changes]
    return prompt, f" ({', '.join(named)})" if named else ""


def images_note(setting: Setting) -> str:
    """What stands after a prompt's name where a model saw one image a study (`--images first`)."""
    return "" if setting.images == "all" else f" ({setting.images} image)"


def protocol_name(run: Run) -> str:
    """With the split where it is not the one that the paper evaluates on."""
    name = PROTOCOLS.get(run.setting.protocol, (run.setting.protocol,))[0]
    return f"{name} (train)" if run.setting.split == "train" else name


def protocol_place(run: Run) -> tuple:
    """Sorts protocols as the paper lists them, train after validation."""
    known = list(PROTOCOLS)
    protocol = run.setting.protocol
    place = known.index(protocol) if protocol in PROTOCOLS else len(known)
    return place, protocol, run.setting.split == "train"


def external(runs: Sequence[Run], *protocols: str, split: str | None = "evaluation") -> list[Run]:
    """Runs of these protocols (of any external one without names) in the published wording, in their order.

    split: "evaluation" for validation and test, "train", or None for both.
    """
    return [
        run
        for run in in_order(runs)
        if not run.setting.changed_forms
        and not run.setting.internal
        and (not protocols or run.setting.protocol in protocols)
        and (split is None or (run.setting.split == "train") == (split == "train"))
    ]


def in_order(runs: Sequence[Run]) -> list[Run]:
    """By model and prompt, then by protocol, then by wording, the published one first, and by layout."""
    return sorted(runs, key=lambda run: (run.variant, protocol_place(run), len(run.setting.changed_forms), run.setting))
