"""All tasks and scorers of this package for Inspect, which finds them by an entry point."""

from medfaith.auditing.inspect_audit import audit
from medfaith.tasks.harnesses.inspect_score import answers
from medfaith.tasks.harnesses.inspect_task import cxr_contrabench, heal_medvqa, lm_eval, surgxbench

__all__ = ["answers", "audit", "cxr_contrabench", "heal_medvqa", "lm_eval", "surgxbench"]
