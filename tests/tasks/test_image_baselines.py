"""Reference models that look at the image: expected scores with the image and under controls."""

from __future__ import annotations

from typing import Any

import pytest

from medfaith.tasks import BASELINES, LOOKING
from medfaith.tasks.run import NEED_AN_IMAGE
from tests.support.tasks.evaluating import baseline, evaluate, load
from tests.support.tiers import choose_size, keep_quick

ROWS = choose_size(8, 12)  # per task; mirage gets all rows, for a stable half
# Task -> metric, score of a fixed answer, minimum gain of `looks` over it.
TASKS = {
    "medfaith_contrabench_chexpert_presence": ("accuracy,b0", 0.39, 0.50),
    "medfaith_heal_vindr_closed": ("yes_no_accuracy", 0.50, 0.30),
    "medfaith_heal_vindr_open": ("open_f1", 0.00, 0.50),
    "medfaith_surgx_instruments": ("f1", 0.00, 0.80),
    "medfaith_surgx_triplets": ("coverage", 0.00, 0.80),
    "medfaith_wrong_lung_gold": ("auroc", 0.50, 0.30),
    "medfaith_heal_vindr_stated_boxes": ("iou", 0.05, 0.60),
    "medfaith_surgx_stated_boxes": ("iou", 0.05, 0.60),
}
OPTION_SCORES = "medfaith_contrabench_option_scores::chexpert_presence"
PRESENCE, CLOSED, OPEN, INSTRUMENTS, TRIPLETS, GOLD, ANATOMY_BOXES, TOOL_BOXES = TASKS
SEES, BLIND, HALF = "gains", "is as a fixed answer, or below", "gains about half as much"
# Expectations: task, control, and model -> outcome.
EXPECTED: list[tuple[str, str | None, dict[str, str]]] = [
    (PRESENCE, None, {"looks": SEES, "mirage": HALF, "looks_elsewhere": SEES}),
    (PRESENCE, "none", {"looks": BLIND, "mirage": BLIND}),
    (PRESENCE, "noise", {"looks": BLIND}),
    (CLOSED, None, {"looks": SEES, "mirage": HALF, "looks_elsewhere": SEES}),
    (CLOSED, "blank", {"looks": BLIND, "looks_elsewhere": BLIND}),
    (CLOSED, "noise", {"looks": BLIND, "looks_elsewhere": BLIND}),
    (CLOSED, "occluded", {"looks": BLIND, "looks_elsewhere": SEES}),
    (CLOSED, "occluded_elsewhere", {"looks": SEES, "looks_elsewhere": BLIND}),
    (CLOSED, "blurred", {"looks": BLIND, "looks_elsewhere": SEES}),
    (CLOSED, "transplanted", {"looks": BLIND, "looks_elsewhere": SEES}),
    (CLOSED, "transplanted_elsewhere", {"looks": SEES}),
    (CLOSED, "cropped", {"looks": SEES}),
    (CLOSED, "recoded", {"looks": SEES}),
    (OPEN, None, {"looks": SEES}),
    (INSTRUMENTS, None, {"looks": SEES}),
    (INSTRUMENTS, "noise", {"looks": BLIND, "looks_elsewhere": BLIND}),
    (INSTRUMENTS, "occluded", {"looks": BLIND, "looks_elsewhere": SEES}),
    (INSTRUMENTS, "occluded_elsewhere", {"looks": SEES, "looks_elsewhere": BLIND}),
    (INSTRUMENTS, "blurred", {"looks": BLIND, "looks_elsewhere": SEES}),
    (INSTRUMENTS, "transplanted", {"looks": BLIND, "looks_elsewhere": SEES}),
    (INSTRUMENTS, "cropped", {"looks": SEES}),
    (INSTRUMENTS, "recoded", {"looks": SEES}),
    (TRIPLETS, None, {"looks": SEES}),
    (GOLD, None, {"looks": SEES}),
    (GOLD, "noise", {"looks": BLIND}),
    (GOLD, "occluded", {"looks": BLIND, "looks_elsewhere": SEES}),
    (GOLD, "occluded_elsewhere", {"looks": SEES, "looks_elsewhere": BLIND}),
    (ANATOMY_BOXES, None, {"looks": SEES, "looks_elsewhere": SEES}),
    (ANATOMY_BOXES, "blank", {"looks": BLIND, "looks_elsewhere": BLIND}),
    (TOOL_BOXES, None, {"looks": SEES}),
    (TOOL_BOXES, "occluded", {"looks": BLIND, "looks_elsewhere": SEES}),
    (TOOL_BOXES, "occluded_elsewhere", {"looks": SEES, "looks_elsewhere": BLIND}),
]


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> tuple[dict[str, Any], Any]:
    """Each model that looks, and the folder of their heatmaps."""
    store = tmp_path_factory.mktemp("heatmaps")
    return {name: baseline(name, store=str(store)) for name in LOOKING}, store


@pytest.fixture
def source(request) -> Any:
    """Return a task's build and roots from the shared fixtures."""

    def get(task: str) -> tuple[Any, Any]:
        kind = {"contrabench": "", "heal": "_heal", "surgx": "_surgx", "wrong": "_wrong_lung"}[task.split("_")[1]]
        return request.getfixturevalue(f"phantom{kind}_build"), request.getfixturevalue(f"phantom{kind}_roots")

    return get


# Each task with its image, and each kind of control on one task.
QUICK = {
    (CLOSED, "blank"), (CLOSED, "occluded"), (CLOSED, "transplanted"), (CLOSED, "recoded"), (INSTRUMENTS, "noise"),
    (INSTRUMENTS, "occluded_elsewhere"), (PRESENCE, "none"),
}  # fmt: skip


@pytest.mark.parametrize(
    ("task", "control", "outcomes"),
    keep_quick(EXPECTED, lambda case: case[1] is None or case[:2] in QUICK),
    ids=lambda value: value if value else "image",
)
def test_what_each_model_scores_under_a_control(task, control, outcomes, models, source):
    baselines, store = models
    loaded = load([task], *source(task), heatmaps=store, **({"control": control} if control else {}))
    metric, fixed, gain = TASKS[task]
    limit = None if "mirage" in outcomes else ROWS
    for name, outcome in outcomes.items():
        score = evaluate(baselines[name], loaded, limit)[task]["scores"][metric]
        if outcome == SEES:
            assert score >= fixed + gain, name
        elif outcome == HALF:
            assert 0.25 * (1 - fixed) <= score - fixed <= 0.75 * (1 - fixed), name
        else:
            assert score <= fixed + 0.15, name


def test_without_an_image_they_can_be_asked():
    assert not set(NEED_AN_IMAGE) & {*LOOKING, *BASELINES}


def test_a_frame_is_named_with_where_each_tool_was_seen(models, source):
    """Heatmaps are computed from pixels and cover the tools, without access to boxes."""
    baselines, store = models
    scores = evaluate(baselines["looks"], load([INSTRUMENTS], *source(INSTRUMENTS), heatmaps=store), ROWS)
    assert scores[INSTRUMENTS]["scores"]["tp_ac"] > 0.9


def test_log_likelihoods_are_those_of_the_answer(models, source):
    loaded = load([OPTION_SCORES.split("::", maxsplit=1)[0]], *source(OPTION_SCORES))["tasks"][OPTION_SCORES]
    task_dict = {"tasks": {OPTION_SCORES: loaded}, "groups": {}, "group_map": {}}
    (run,) = evaluate(models[0]["looks"], task_dict, 6).values()
    assert run["scores"]["accuracy"] > 0.9
