"""The audit: do models use the image?

`audit` takes all steps: `plan` chooses the rows, `run` asks them, `figures` pairs the answers, `verdicts` judges them
by a rule, and `tables`, `sentences` and `write` report the result. This module has the controls and the rules.
"""

from pathlib import Path
from typing import Literal

from medfaith.reporting.registry import BENCHMARKS
from medfaith.tasks import EXPLAINED
from medfaith.tasks.controls import BLIND, DOSES, EDITS, ELSEWHERE, HARMLESS

TASKS = {name: benchmark.audited_tasks for name, benchmark in BENCHMARKS.items()}
Rule = Literal[1, 2]
RULES: tuple[Rule, ...] = (1, 2)  # docs/audit.md has both; the last one is the default
OTHER = "other"  # the control that test (a) of rule 2 compares with
_PAIRS = [place for kind in EDITS for place in (kind, kind + ELSEWHERE)]
CONTROLS: dict[Rule, tuple[str, ...]] = {  # asked by default
    1: (*BLIND, OTHER, *_PAIRS[:2]),
    2: (*BLIND, OTHER, *_PAIRS[:4], HARMLESS[0]),
}
THOROUGH = (*BLIND, OTHER, *_PAIRS, *HARMLESS, "flipped", *(f"{place}@{dose}" for place in _PAIRS for dose in DOSES))


def find_store(out: Path, model_type: str) -> str | None:
    """Find the folder for a model's heatmaps in an audit's folder; None if the model makes none.

    Args:
        out: Folder of the audit.
        model_type: Name of the model's type in lm-eval.

    Returns:
        Path of the folder, or None.
    """
    return str(out / "heatmaps") if model_type in EXPLAINED else None
