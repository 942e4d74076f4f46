"""The page: a gradio Blocks over a Session. Nothing here decides anything; a model's real name never comes here.

Pictures are written into the page and not into files, of which gradio would keep copies of licensed images.
"""

from __future__ import annotations

import base64
import sys
import time
from collections.abc import Callable, Sequence
from html import escape
from typing import Any, NamedTuple

import gradio as gr
from PIL import Image

from medfaith.loaders.errors import MedfaithError
from medfaith.loaders.escaping import escape_controls

from .overlay import COLOURS, png
from .plan import numbered
from .session import Place, Prompt, Session
from .wording import INSTRUCTIONS, QUESTIONS, TITLE

CANNOT = "This cannot be shown; the terminal says why."
STYLE = """
.pictures {display: flex; flex-wrap: wrap; gap: 12px}
.pictures figure {flex: 1 1 260px; max-width: 672px; margin: 0}
.pictures img {max-width: 100%; max-height: 68vh; display: block; border-radius: 4px}
.pictures figcaption {font-size: 0.85rem; opacity: 0.85; padding-top: 4px}
.key {display: inline-block; width: 90px; height: 0.8em; vertical-align: middle; margin: 0 4px}
.prompt {font-size: 1.15rem; padding: 4px 0}
.progress {opacity: 0.85}
.steps {position: fixed; bottom: 0; left: 0; right: 0; z-index: 5; padding: 8px 32px; flex-wrap: nowrap !important;
  border-top: 1px solid var(--border-color-primary); background: var(--background-fill-primary)}
.steps button {min-width: 0 !important}
.judging {padding-bottom: 72px}
.points label {flex: 1 1 0; min-width: 0; padding: 6px; justify-content: center; white-space: nowrap}
footer {display: none !important}
"""
Update = dict[Any, Any]
# One event at a time, whatever the number of windows; none is offered to programs.
EVENT: dict[str, Any] = {"concurrency_id": "session", "concurrency_limit": 1, "api_visibility": "private"}


class _Panel(NamedTuple):
    """Where one model's heatmap is judged."""

    group: gr.Column
    prompt: gr.HTML
    pictures: gr.HTML
    boxes: gr.Checkbox
    points: tuple[gr.Radio, ...]
    back: gr.Button
    next: gr.Button
    since: gr.State  # when the heatmap was shown

    @property
    def shown(self) -> list[Any]:
        """What changes from one heatmap to the next."""
        return [self.group, self.prompt, self.pictures, self.boxes, *self.points, self.back, self.since]


def build(session: Session, without_models: str) -> gr.Blocks:
    """The page of a session. without_models: why custom prompts cannot be judged; "" where they can."""
    with gr.Blocks(analytics_enabled=False, title=TITLE, fill_width=True) as page:
        gr.Markdown(f"# {TITLE}")
        shown = {"instructions": not session.answers.choices}  # what a reload keeps
        with gr.Accordion("Instructions", open=shown["instructions"]) as instructions:
            gr.Markdown(INSTRUCTIONS)

        def closed() -> gr.Accordion:
            shown["instructions"] = False
            return gr.Accordion(open=False)

        instructions.collapse(lambda: shown.update(instructions=False), None, None, **EVENT)
        instructions.expand(lambda: shown.update(instructions=True), None, None, **EVENT)
        page.load(lambda: gr.Accordion(open=shown["instructions"]), None, instructions, **EVENT)
        with gr.Tab("Sentences of the report"):
            start = _reports(page, session)
            start.click(closed, None, instructions, **EVENT)
        with gr.Tab("Own prompt"):
            if without_models:
                gr.Markdown(without_models)
            else:
                _own_prompts(page, session)
    return page


def _reports(page: gr.Blocks, session: Session) -> gr.Button:
    """Fills the tab; the button that shows the first heatmap of an image."""
    place = gr.State(None)
    progress = gr.HTML(elem_classes="progress")
    with gr.Row(visible=False) as choosing:
        with gr.Column(scale=1):
            plain = gr.HTML()
        with gr.Column(scale=1):
            sentences = gr.Radio(label="Choose one sentence, before you see any heatmap", type="index")
            start = gr.Button("Show the heatmaps", variant="primary")
    panel = _panel(own=False)
    outputs = [place, progress, choosing, plain, sentences, *panel.shown]

    def at(where: Place | None) -> Update:
        n, done = len(session.plan.instances), session.n_done
        numbers = f"{done} of {n} images done · judged by {escape(session.plan.annotator)}"
        found = {place: where, choosing: gr.update(visible=False), panel.group: gr.update(visible=False)}
        if where is None:
            return found | {progress: f"<b>All images are judged. Thank you.</b> {numbers}"}
        found[progress] = f"<b>Image {where.instance + 1}</b> · {numbers}"
        if where.alias is None:
            texts = [sentence.text for sentence in session.plan.instances[where.instance].sentences]
            picture = _tried(lambda: _figures((session.plain(where.instance), "X-ray")), CANNOT)
            return found | {
                choosing: gr.update(visible=True),
                plain: picture,
                sentences: gr.update(choices=numbered(texts), value=None),
            }
        going_back = session.before(where) is not None
        return found | _judging(session, panel, where, session.prompt(where), boxes=False, back=going_back)

    def choose(where: Place | None, sentence: int | None) -> Update:
        if where is None or sentence is None:
            gr.Warning("Choose a sentence first.")
            return {place: where}
        written = _written(lambda: session.choose(where.instance, sentence))
        return at(session.next()) if written else {place: where}

    def judge(where: Place | None, since: float, *points: int | None) -> Update:
        assert where is not None
        assert where.alias is not None
        judged = _judge(session, where.alias, session.prompt(where), points, since)
        return at(session.next()) if judged else {place: where}

    def boxed(where: Place | None, boxes: bool) -> str:
        assert where is not None
        assert where.alias is not None
        return _heatmap(session, where.alias, session.prompt(where), boxes)

    page.load(lambda: at(session.next()), None, outputs, **EVENT)
    start.click(choose, [place, sentences], outputs, **EVENT)
    panel.next.click(judge, [place, panel.since, *panel.points], outputs, **EVENT)
    panel.back.click(lambda where: at(session.before(where) or where), [place], outputs, **EVENT)
    panel.boxes.input(boxed, [place, panel.boxes], panel.pictures, **EVENT)
    return start


def _own_prompts(page: gr.Blocks, session: Session) -> None:
    asked = gr.State(None)  # (Prompt, alias)
    n = len(session.plan.instances)
    with gr.Row():
        with gr.Column(scale=1):
            plain = gr.HTML()
        with gr.Column(scale=1):
            where = session.next()
            # Not set when the page loads: that would take back what an early hand has typed, and file it elsewhere.
            first = 1 if where is None else where.instance + 1
            number = gr.Number(first, label=f"Image, 1 to {n}", precision=0, minimum=1, maximum=n)
            text = gr.Textbox(label="Your sentence", lines=2)
            start = gr.Button("Show the heatmaps", variant="primary")
    panel = _panel(own=True)
    outputs = [asked, text, *panel.shown]

    def image(which: float | None) -> str:
        return _tried(lambda: _figures((session.plain(_instance(which, n)), "X-ray")), CANNOT)

    def after(prompt: Prompt) -> Update:
        """The first model that is not judged for this prompt; at the end an empty prompt."""
        for alias in session.aliases(prompt):
            if session.judged(Place(prompt.instance, alias), prompt) is None:
                return {asked: (prompt, alias)} | _judging(session, panel, Place(prompt.instance, alias), prompt)
        gr.Info("Every model is judged for this sentence.")
        return {asked: None, text: "", panel.group: gr.update(visible=False)}

    def ask(which: float | None, sentence: str) -> Update:
        if not sentence.split():
            gr.Warning("Write a sentence first.")
            return {asked: None}
        return after(session.own(_instance(which, n), sentence))

    def judge(of: tuple[Prompt, str] | None, since: float, *points: int | None) -> Update:
        assert of is not None
        return after(of[0]) if _judge(session, of[1], of[0], points, since) else {asked: of}

    page.load(image, [number], plain, **EVENT)
    number.input(image, [number], plain, **EVENT)
    start.click(ask, [number, text], outputs, **EVENT)
    panel.next.click(judge, [asked, panel.since, *panel.points], outputs, **EVENT)


def _panel(*, own: bool) -> _Panel:
    with gr.Column(visible=False, elem_classes="judging") as group:
        prompt = gr.HTML()
        with gr.Row():
            with gr.Column(scale=3, min_width=320):
                pictures = gr.HTML()
                boxes = gr.Checkbox(label="Show the boxes of this sentence", visible=not own)
            with gr.Column(scale=2, min_width=320):
                points = tuple(
                    gr.Radio(
                        [(answer, number) for number, answer in enumerate(question.answers, start=1)],
                        label=question.text, info=question.hint, elem_classes="points",
                    )
                    for question in QUESTIONS
                )  # fmt: skip
                with gr.Row(elem_classes="steps"):
                    back = gr.Button("Back", visible=not own)
                    following = gr.Button("Next", variant="primary")
    return _Panel(group, prompt, pictures, boxes, points, back, following, gr.State(0.0))


def _judging(
    session: Session, panel: _Panel, place: Place, prompt: Prompt, *, boxes: bool = False, back: bool = False
) -> Update:
    names, alias = list(session.aliases(prompt)), place.alias or ""
    said = session.judged(place, prompt)
    before = [None] * len(QUESTIONS) if said is None else [getattr(said, question.name) for question in QUESTIONS]
    title = f"<b>{alias}</b> ({names.index(alias) + 1} of {len(names)})"
    return {
        panel.group: gr.update(visible=True),
        panel.prompt: f'<div class="prompt">{title}: “{escape(escape_controls(prompt.text))}”</div>',
        panel.pictures: _heatmap(session, alias, prompt, boxes),
        panel.boxes: boxes,
        **dict(zip(panel.points, before, strict=True)),
        panel.back: gr.update(interactive=back),
        panel.since: time.monotonic(),
    }


def _judge(session: Session, alias: str, prompt: Prompt, points: Sequence[int | None], since: float) -> bool:
    """Whether the judgement is written. A warning, unlike an error, leaves the page usable."""
    given = [point for point in points if point is not None]
    if len(given) < len(QUESTIONS):
        gr.Warning("Answer all three questions.")
        return False
    return _written(lambda: session.judge(alias, prompt, given, time.monotonic() - since))


def _heatmap(session: Session, alias: str, prompt: Prompt, boxes: bool) -> str:
    def figures() -> str:
        shown = session.show(alias, prompt, boxes)
        stops = ", ".join(f"rgb({red:.0f} {green:.0f} {blue:.0f})" for red, green, blue in COLOURS)
        key = f'weak <span class="key" style="background: linear-gradient(90deg, {stops})"></span> strong'
        return _figures((shown.plain, "X-ray"), (shown.heatmap, f"{key} · nowhere: {shown.nowhere:.0%}"))

    return _tried(figures, CANNOT)


def _figures(*shown: tuple[Image.Image, str]) -> str:
    figures = (
        f'<figure><img alt="" src="data:image/png;base64,{base64.b64encode(png(image)).decode()}">'
        f"<figcaption>{caption}</figcaption></figure>"
        for image, caption in shown
    )
    return f'<div class="pictures">{"".join(figures)}</div>'


def _instance(which: float | None, n: int) -> int:
    return int(min(max(which or 1, 1), n)) - 1


def _tried(show: Callable[[], str], otherwise: str) -> str:
    """Messages name folders, which could tell models apart: they go to the terminal."""
    try:
        return show()
    except (MedfaithError, OSError) as error:
        print(f"medfaith: {error}", file=sys.stderr)
        return f"<p>{otherwise}</p>"


def _written(write: Callable[[], None]) -> bool:
    try:
        write()
    except OSError as error:
        gr.Warning(f"The answer was not written ({error.strerror}). Mend that, then press the button again.")
        return False
    return True
