"""Our lm-eval tasks as a task of Inspect (`inspect_ai`), which finds it by an entry point.

    inspect eval medfaith/lm_eval -T name=medfaith_heal_vindr_vpt -T data=medfaith-data \
        -T roots=vindr_cxr=/data/vindr-cxr --model MODEL --no-log-images
    inspect score LOG --scorer medfaith/answers -S filter=m1   # the same answers with another filter

Rows, prompts, settings and figures equal lm-eval's. Each row is asked once, so `--epochs` is refused. Images are
opened and edited when a sample starts. A log holds the columns that its scores need and the messages to the model;
`--no-log-images` excludes licensed pixels.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from inspect_ai import Task, task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import Content, ContentImage, ContentText, GenerateConfig
from inspect_ai.solver import Generate, Solver, TaskState, generate, solver

from ...loaders.errors import InputError, MedfaithError
from ..outcomes import OUTCOME
from ..scoring import SENT
from . import questions
from .inspect_score import answers, stop

KEPT = (str, int, float, list)  # types of the columns in a log: all that a score needs, without images


@task
def lm_eval(name: str, data: str, roots: Any = None, filter: str | None = None, skip_missing_images: bool = False):
    """Build the task of one of our lm-eval tasks.

    Args:
        name: A task of `medfaith tasks --list`, or GROUP::TASK.
        data: The folder that `medfaith build` wrote, or a Hub organisation.
        roots: The folder with each source's images: one or several source=path (a=PATH,b=PATH), or a mapping.
        filter: The filter that reads answers, such as "m1" for CXR-ContraBench; by default the task's first.
        skip_missing_images: Whether to omit rows with a missing or broken image instead of stopping.
    """
    try:
        source = questions.load_one(name, data, roots, skip_missing_images)
        questions.choose_filter(source.config, filter)
        samples = [_build_sample(source, *numbered) for numbered in enumerate(source.test_docs())]
    except MedfaithError as error:
        raise stop(error) from None
    settings = source.config.generation_kwargs
    limits = {"max_tokens": settings["max_gen_toks"], "stop_seqs": settings["until"] or None}
    return Task(
        dataset=MemoryDataset(samples, name=name),
        solver=[show(source), generate()],
        scorer=answers(filter),
        config=GenerateConfig(temperature=settings["temperature"], **limits),
    )


def _build_sample(source: Any, row: int, doc: Mapping[str, Any]) -> Sample:
    later_columns = (SENT, OUTCOME)  # columns that are set after generation
    metadata = {name: value for name, value in doc.items() if isinstance(value, KEPT) and name not in later_columns}
    metadata["task"] = source.config.task
    prompt = "\n".join(filter(None, questions.split_prompt(source, doc)))
    return Sample(id=doc["id"], input=prompt, target=source.doc_to_target(doc), metadata={**metadata, "row": row})


@solver
def show(source: Any) -> Solver:
    """Build the solver that inserts a row's images at the placeholders of its prompt.

    Args:
        source: The lm-eval task.

    Returns:
        The solver.
    """

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        try:
            if state.epoch > 1:
                raise InputError("--epochs", "asks each row again", expected="one answer a row", action="leave it out")
            doc, content = source.test_docs()[state.metadata["row"]], list[Content]()
            for image, text in zip((None, *doc["images"]), questions.split_prompt(source, doc), strict=True):
                if image is not None:
                    content.append(ContentImage(image=f"data:image/png;base64,{questions.encode_png(image)}"))
                if text:
                    content.append(ContentText(text=text))
        except MedfaithError as error:
            raise stop(error) from None
        state.user_prompt.content = content
        return state

    return solve
