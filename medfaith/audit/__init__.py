"""Whether models use the image: `plan` has what is asked, `run` asks it, `figures`, `tables` and `write` what comes of
it. Here are the tasks of each benchmark, and the controls that the figures need.
"""

from medfaith.tasks.controls import BLIND

TASKS = {  # the perturbation tests have controls of their own, and other tasks ask the same rows again
    "cxr-contrabench": (
        "medfaith_contrabench_chexpert_presence", "medfaith_contrabench_chexpert_absence",
        "medfaith_contrabench_chexpert_positive_only", "medfaith_contrabench_openi_report_absence",
    ),
    "heal-medvqa": (
        "medfaith_heal_vindr_closed", "medfaith_heal_vindr_open", "medfaith_heal_mimic_closed",
        "medfaith_heal_mimic_open",
    ),
    "surgxbench": ("medfaith_surgx_instruments", "medfaith_surgx_triplets"),
    "wrong-lung": ("medfaith_wrong_lung_gold",),
}  # fmt: skip
CONTROLS = (*BLIND, "other", "occluded", "occluded_elsewhere")
