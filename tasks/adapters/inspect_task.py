"""CXR-ContraBench as a task of Inspect (`inspect_ai`), found by its entry point:

    inspect eval medfaith/contrabench -T data=medfaith-data -T config=chexpert_presence \
        -T roots=chexpert=/data/CheXpert-v1.0-small --model MODEL --no-log-images

The prompt is B0 and answers are read as in the lm-eval tasks, so that figures can stand side by side. Images are
opened when a sample's turn comes. Inspect's log keeps what was sent: `--no-log-images` keeps licensed pixels out of it.
"""

from __future__ import annotations

import string
from typing import Any

from inspect_ai import Task, task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import Content, ContentImage, ContentText, GenerateConfig
from inspect_ai.scorer import Score, Scorer, Target, mean, scorer, stderr
from inspect_ai.solver import Generate, Solver, TaskState, generate, solver

from ...loaders.errors import InputError
from ..contrabench import adapter, prompts
from ..rows import load
from . import questions


@task
def contrabench(
    data: str,
    config: str = "chexpert_presence",
    split: str | None = None,
    roots: dict[str, str] | list[str] | str | None = None,
    reading: str = "b0",
    skip_missing_images: bool = False,
) -> Task:
    """Multiple choice on one config's rows.

    Args:
        data: what `medfaith build` wrote, or a Hub organisation. config, split: which rows; by default the split that
            the lm-eval task evaluates.
        roots: source=path, one or several, or a mapping.
        reading: "b0", as answered; or a verifier's: "m1", "m1_slot_agnostic", "m1_extended", "m2".
        skip_missing_images: leave out rows without their images, instead of stopping.
    """
    if reading not in questions.READINGS:
        raise InputError(f"reading {reading!r}", "no such reading", expected=f"one of {', '.join(questions.READINGS)}")
    repository, split = questions.place(config, split)
    places = {source: str(path) for source, path in questions.resolve_roots(roots).items()}
    rows: Any = load(
        repository, config=config, split=split, data=data, roots=places, skip_missing_images=skip_missing_images
    )["test"]
    list(rows[0]["images"])  # a source without a root stops here, and not once a sample
    samples = [_sample(number, row) for number, row in enumerate(rows)]
    has = set[str]().union(*(questions.values(sample.metadata or {}, "") for sample in samples))
    return Task(
        dataset=MemoryDataset(samples, name=config),
        solver=[show(rows), generate()],
        scorer=polarity([name for name in questions.RATES if name in has], reading),
        config=GenerateConfig(temperature=0.0, max_tokens=64),  # as the lm-eval tasks
    )


@solver
def show(rows: Any) -> Solver:
    """Puts a row's images before its question."""

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        images = rows[state.metadata["row"]]["images"]
        pictures: list[Content] = [
            ContentImage(image=f"data:image/png;base64,{questions.base64_png(image)}") for image in images
        ]
        state.user_prompt.content = [*pictures, ContentText(text=state.user_prompt.text)]
        return state

    return solve


@scorer(metrics={"*": [mean(), stderr(cluster="study_id")]})
def polarity(names: list[str], reading: str = "b0") -> Scorer:
    """The rates `names`, one value each: NaN, which no mean counts, where a row does not have it."""

    async def score(state: TaskState, target: Target) -> Score:
        text, row = state.output.completion, state.metadata
        found = questions.values(row, text, reading)
        answer = adapter.parse_answer(text, row["options"])
        letter = None if answer.choice is None else string.ascii_uppercase[answer.choice]
        value = {name: found.get(name, float("nan")) for name in names}
        return Score(value=value, answer=letter, explanation=text, metadata={"outcome": answer.outcome})

    return score


def _sample(number: int, row: dict[str, Any]) -> Sample:
    metadata = {"row": number, **{name: value for name, value in row.items() if name != "images"}}
    return Sample(
        id=row["id"], input=questions.prompt(row), choices=row["options"], target=prompts.target(row), metadata=metadata
    )
