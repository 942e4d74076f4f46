"""Our lm-eval tasks as a task of Inspect (`inspect_ai`), which finds it by an entry point:

    inspect eval medfaith/lm_eval -T name=medfaith_heal_vindr_vpt -T data=medfaith-data \
        -T roots=vindr_cxr=/data/vindr-cxr --model MODEL --no-log-images
    inspect score LOG --scorer medfaith/answers -S filter=m1   # the same answers, read in another way

Rows, prompts, settings and figures are those of lm-eval. It asks each row once, so `--epochs` is refused. Images are
opened, and edited, when a sample's turn comes. A log holds the rows that its scores need, and what was sent to the
model; `--no-log-images` keeps licensed pixels out of it.
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

KEPT = (str, int, float, list)  # types of the columns that a log keeps: all that a score takes, and no image


@task
def lm_eval(name: str, data: str, roots: Any = None, filter: str | None = None, skip_missing_images: bool = False):
    """One of our lm-eval tasks.

    Args:
        name: a task of `medfaith tasks --list`, or GROUP::TASK.
        data: the folder that `medfaith build` wrote, or a Hub organisation.
        roots: the folder with each source's images: one or several source=path (a=PATH,b=PATH), or a mapping.
        filter: the filter that reads answers, of CXR-ContraBench "m1" and others; by default the task's first.
        skip_missing_images: leave out rows with a missing or broken image, instead of stopping.
    """
    try:
        source = questions.load_one(name, data, roots, skip_missing_images)
        questions.reading(source.config, filter)
        samples = [_sample(source, *numbered) for numbered in enumerate(source.test_docs())]
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


def _sample(source: Any, row: int, doc: Mapping[str, Any]) -> Sample:
    unknown = (SENT, OUTCOME)  # before the model is asked
    kept = {name: value for name, value in doc.items() if isinstance(value, KEPT) and name not in unknown}
    kept["task"] = source.config.task
    prompt = "\n".join(filter(None, questions.texts(source, doc)))
    return Sample(id=doc["id"], input=prompt, target=source.doc_to_target(doc), metadata={**kept, "row": row})


@solver
def show(source: Any) -> Solver:
    """Puts the images of a row where its prompt has their placeholders."""

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        try:
            if state.epoch > 1:
                raise InputError("--epochs", "asks each row again", expected="one answer a row", action="leave it out")
            doc, content = source.test_docs()[state.metadata["row"]], list[Content]()
            for image, text in zip((None, *doc["images"]), questions.texts(source, doc), strict=True):
                if image is not None:
                    content.append(ContentImage(image=f"data:image/png;base64,{questions.encode_png(image)}"))
                if text:
                    content.append(ContentText(text=text))
        except MedfaithError as error:
            raise stop(error) from None
        state.user_prompt.content = content
        return state

    return solve
