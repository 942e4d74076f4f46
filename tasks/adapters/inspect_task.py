"""Our lm-eval tasks as a task of Inspect (`inspect_ai`), found by its entry point:

    inspect eval medfaith/lm_eval -T name=medfaith_heal_vindr_vpt -T data=medfaith-data \
        -T roots=vindr_cxr=/data/vindr-cxr --model MODEL --no-log-images

Rows, prompts, settings and figures are lm-eval's. Images are opened, and edited, when a sample's turn comes. Inspect's
log keeps what was sent: `--no-log-images` keeps licensed pixels out of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from inspect_ai import Task, task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import Content, ContentImage, ContentText, GenerateConfig
from inspect_ai.scorer import CORRECT, INCORRECT, Metric, SampleScore, Score, Scorer, Target, metric, scorer
from inspect_ai.solver import Generate, Solver, TaskState, generate, solver

from ...evaluate_metrics.medvqa_f1.yes_no import read_yes_no
from ...loaders.errors import InputError
from . import questions

RIGHT = ("accuracy", "yes_no_accuracy", "open_exact_match")  # of one answer: whether it is right


@task
def lm_eval(name: str, data: str, roots: Any = None, filter: str | None = None, skip_missing_images: bool = False):
    """One of our lm-eval tasks.

    Args:
        name: one that `medfaith tasks --list` names, or GROUP::TASK. data: what `medfaith build` wrote, or a Hub
            organisation. roots: source=path, one or several, or a mapping.
        filter: how answers are read: in CXR-ContraBench "m1", ...; by default by the task's first filter.
        skip_missing_images: leave out rows without their images, instead of stopping.
    """
    source = questions.load_one(name, data, roots, skip_missing_images)
    reading, settings = questions.reading(source, filter), source.config.generation_kwargs
    limits = {"max_tokens": settings["max_gen_toks"], "stop_seqs": settings["until"] or None}
    return Task(
        dataset=MemoryDataset([_sample(source, *numbered) for numbered in enumerate(source.test_docs())], name=name),
        solver=[show(source), generate()],
        scorer=answers(source, reading),
        metrics=[figures(source, reading)],
        config=GenerateConfig(temperature=settings["temperature"], **limits),
    )


def _sample(source: Any, row: int, doc: Mapping[str, Any]) -> Sample:
    kept = {name: value for name, value in doc.items() if isinstance(value, (str, int, float, list))}  # and no handle
    prompt = "\n".join(filter(None, questions.texts(source, doc)))
    return Sample(id=doc["id"], input=prompt, target=source.doc_to_target(doc), metadata={"row": row, **kept})


@solver
def show(source: Any) -> Solver:
    """Puts a row's images where its prompt has their places."""

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        if state.epoch > 1:
            raise InputError("--epochs", "asks each row again", expected="one answer a row", action="leave it out")
        doc, content = source.test_docs()[state.metadata["row"]], list[Content]()
        for image, text in zip((None, *doc["images"]), questions.texts(source, doc), strict=True):
            if image is not None:
                content.append(ContentImage(image=f"data:image/png;base64,{questions.base64_png(image)}"))
            if text:
                content.append(ContentText(text=text))
        state.user_prompt.content = content
        return state

    return solve


@scorer(metrics=[])
def answers(source: Any, reading: str) -> Scorer:
    """Whether each answer is right ("n/a" where only all together have a score), and how it was read."""

    async def score(state: TaskState, target: Target) -> Score:
        doc, text = source.test_docs()[state.metadata["row"]], state.output.completion
        read, value = questions.read(source, doc, text, reading), "n/a"
        items = source.process_results(doc, [read])
        if name := next((name for name in RIGHT if name in items), None):
            value = CORRECT if source.aggregation()[name]([items[name]]) else INCORRECT
        elif doc.get("question_type") == "closed":  # of a pair
            value = CORRECT if read_yes_no(text) == target.text.casefold() else INCORRECT
        return Score(value=value, answer=read, explanation=text)

    return score


@metric(name="lm_eval", scores="unreduced")
def figures(source: Any, reading: str) -> Metric:
    """What lm-eval makes of the answers. It reads them anew: not all that its aggregations take can be logged."""

    def compute(scores: list[SampleScore]) -> dict[str, float]:
        texts = {(one.sample_metadata or {})["row"]: one.score.explanation or "" for one in scores}
        return questions.figures(source, texts, reading)

    return compute
