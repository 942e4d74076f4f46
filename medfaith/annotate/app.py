"""The page: a gradio Blocks over a Session. The page decides nothing, and never receives the real name of a model.

Pictures are embedded in the page. gradio would keep copies of licensed images if they were files.
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

from medfaith.loaders import limits
from medfaith.loaders.errors import InputError, MedfaithError
from medfaith.loaders.escaping import escape_controls

from .answers import ErrorJudgement, Judgement
from .overlay import COLOURS, png
from .plan import number_sentences
from .session import Place, Prompt, Session, clip_instance
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
# One event at a time, for any number of windows. Programs cannot call the events.
EVENT: dict[str, Any] = {"concurrency_id": "session", "concurrency_limit": 1, "api_visibility": "private"}


OTHER_WINDOW = "Another window has answered this already. Reload this page to go on from there."


class View(NamedTuple):
    """The state of a window that shows a question.

    Attributes:
        since: The monotonic time in seconds when the question was shown.
        previous: The answer that was shown with it; None if it had none.
    """

    since: float
    previous: Judgement | ErrorJudgement | None


class _Panel(NamedTuple):
    """The components in which one model's heatmap is judged."""

    group: gr.Column
    prompt: gr.HTML
    pictures: gr.HTML
    boxes: gr.Checkbox
    points: tuple[gr.Radio, ...]
    back: gr.Button
    next: gr.Button
    view: gr.State  # a `View`

    @property
    def shown(self) -> list[Any]:
        """The components that change from one heatmap to the next."""
        return [self.group, self.prompt, self.pictures, self.boxes, *self.points, self.back, self.view]


def build(session: Session, without_models: str) -> gr.Blocks:
    """Build the page of a session.

    Args:
        session: The session.
        without_models: The reason why custom prompts cannot be judged; "" if they can.

    Returns:
        The page, not served yet.
    """
    with gr.Blocks(analytics_enabled=False, title=TITLE, fill_width=True) as page:
        gr.Markdown(f"# {TITLE}")
        state = {"instructions": not session.answers.choices}  # state that a reload keeps
        with gr.Accordion("Instructions", open=state["instructions"]) as instructions:
            gr.Markdown(INSTRUCTIONS)

        def close_instructions() -> gr.Accordion:
            state["instructions"] = False
            return gr.Accordion(open=False)

        instructions.collapse(lambda: state.update(instructions=False), None, None, **EVENT)
        instructions.expand(lambda: state.update(instructions=True), None, None, **EVENT)
        page.load(lambda: gr.Accordion(open=state["instructions"]), None, instructions, **EVENT)
        with gr.Tab("Sentences of the report"):
            start = _build_report_tab(page, session)
            start.click(close_instructions, None, instructions, **EVENT)
        with gr.Tab("Own prompt"):
            if without_models:
                gr.Markdown(without_models)
            else:
                _build_prompt_tab(page, session)
    return page


def _build_report_tab(page: gr.Blocks, session: Session) -> gr.Button:
    """Build the tab of report sentences. The result is the button that shows the first heatmap of an image."""
    place = gr.State(None)
    progress = gr.HTML(elem_classes="progress")
    with gr.Row(visible=False) as choosing:
        with gr.Column(scale=1):
            plain = gr.HTML()
        with gr.Column(scale=1):
            sentences = gr.Radio(label="Choose one sentence, before you see any heatmap", type="index")
            start = gr.Button("Show the heatmaps", variant="primary")
    panel = _build_panel(custom=False)
    outputs = [place, progress, choosing, plain, sentences, *panel.shown]

    def show_place(current: Place | None) -> Update:
        n, done = len(session.plan.instances), session.n_done
        numbers = f"{done} of {n} images done · judged by {escape(session.plan.annotator)}"
        updates: Update = {place: current, choosing: gr.update(visible=False), panel.group: gr.update(visible=False)}
        if current is None:
            return updates | {progress: f"<b>All images are judged. Thank you.</b> {numbers}"}
        updates[progress] = f"<b>Image {current.instance + 1}</b> · {numbers}"
        if current.alias is None:
            texts = [sentence.text for sentence in session.plan.instances[current.instance].sentences]
            picture = _run_safely(lambda: _format_figures((session.plain(current.instance), "X-ray")), CANNOT)
            return updates | {
                choosing: gr.update(visible=True),
                plain: picture,
                sentences: gr.update(choices=number_sentences(texts), value=None),
            }
        going_back = session.find_previous(current) is not None
        return updates | _update_panel(
            session, panel, current, session.build_prompt(current), boxes=False, can_go_back=going_back
        )

    def choose(current: Place | None, sentence: int | None) -> Update:
        if current is None or sentence is None:
            gr.Warning("Choose a sentence first.")
            return {place: current}
        if session.get_choice(current.instance) is not None:
            gr.Warning(OTHER_WINDOW)
            return {place: current}
        written = _write_safely(lambda: session.choose(current.instance, sentence))
        return show_place(session.find_next()) if written else {place: current}

    def judge(current: Place | None, view: View, *points: int | None) -> Update:
        assert current is not None
        assert current.alias is not None
        judged = _write_judgement(session, current.alias, session.build_prompt(current), points, view)
        return show_place(session.find_next()) if judged else {place: current}

    def draw_boxed(current: Place | None, boxes: bool) -> str:
        assert current is not None
        assert current.alias is not None
        return _render_heatmap(session, current.alias, session.build_prompt(current), boxes)

    page.load(lambda: show_place(session.find_next()), None, outputs, **EVENT)
    start.click(choose, [place, sentences], outputs, **EVENT)
    panel.next.click(judge, [place, panel.view, *panel.points], outputs, **EVENT)
    panel.back.click(lambda current: show_place(session.find_previous(current) or current), [place], outputs, **EVENT)
    panel.boxes.input(draw_boxed, [place, panel.boxes], panel.pictures, **EVENT)
    return start


def _build_prompt_tab(page: gr.Blocks, session: Session) -> None:
    """Build the tab of custom prompts."""
    current = gr.State(None)  # (Prompt, alias)
    n = len(session.plan.instances)
    with gr.Row():
        with gr.Column(scale=1):
            plain = gr.HTML()
        with gr.Column(scale=1):
            where = session.find_next()
            # Set here and not by the load event, which could overwrite a number that the person has typed already.
            first_number = 1 if where is None else where.instance + 1
            number = gr.Number(first_number, label=f"Image, 1 to {n}", precision=0, minimum=1, maximum=n)
            text = gr.Textbox(label="Your sentence", lines=2, max_length=limits.OPTION_CHARACTERS)
            start = gr.Button("Show the heatmaps", variant="primary")
    panel = _build_panel(custom=True)
    outputs = [current, text, *panel.shown]

    def show_image(position: float | None) -> str:
        return _run_safely(lambda: _format_figures((session.plain(clip_instance(position, n)), "X-ray")), CANNOT)

    def find_next_model(prompt: Prompt) -> Update:
        """Show the first model without a judgement for this prompt, or at the end an empty prompt."""
        for alias in session.aliases(prompt):
            if session.get_judgement(Place(prompt.instance, alias), prompt) is None:
                return {current: (prompt, alias)} | _update_panel(session, panel, Place(prompt.instance, alias), prompt)
        gr.Info("Every model is judged for this sentence.")
        return {current: None, text: "", panel.group: gr.update(visible=False)}

    def ask(position: float | None, sentence: str) -> Update:
        if not sentence.split():
            gr.Warning("Write a sentence first.")
            return {current: None}
        try:
            prompt = session.build_own_prompt(clip_instance(position, n), sentence)
        except InputError as error:
            gr.Warning(f"Your sentence {error.found}; expected: {error.expected}.")
            return {current: None}
        return find_next_model(prompt)

    def judge(pair: tuple[Prompt, str] | None, view: View, *points: int | None) -> Update:
        assert pair is not None
        return (
            find_next_model(pair[0]) if _write_judgement(session, pair[1], pair[0], points, view) else {current: pair}
        )

    page.load(show_image, [number], plain, **EVENT)
    number.input(show_image, [number], plain, **EVENT)
    start.click(ask, [number, text], outputs, **EVENT)
    panel.next.click(judge, [current, panel.view, *panel.points], outputs, **EVENT)


def _build_panel(*, custom: bool) -> _Panel:
    with gr.Column(visible=False, elem_classes="judging") as group:
        prompt = gr.HTML()
        with gr.Row():
            with gr.Column(scale=3, min_width=320):
                pictures = gr.HTML()
                boxes = gr.Checkbox(label="Show the boxes of this sentence", visible=not custom)
            with gr.Column(scale=2, min_width=320):
                points = tuple(
                    gr.Radio(
                        [(answer, number) for number, answer in enumerate(question.answers, start=1)],
                        label=question.text, info=question.hint, elem_classes="points",
                    )
                    for question in QUESTIONS
                )  # fmt: skip
                with gr.Row(elem_classes="steps"):
                    back_button = gr.Button("Back", visible=not custom)
                    following = gr.Button("Next", variant="primary")
    return _Panel(group, prompt, pictures, boxes, points, back_button, following, gr.State(None))


def _update_panel(
    session: Session, panel: _Panel, place: Place, prompt: Prompt, *, boxes: bool = False, can_go_back: bool = False
) -> Update:
    """Build the updates of a panel for one heatmap."""
    names, alias = list(session.aliases(prompt)), place.alias or ""
    judgement = session.get_judgement(place, prompt)
    previous_points = (
        [None] * len(QUESTIONS) if judgement is None else [getattr(judgement, question.name) for question in QUESTIONS]
    )
    title = f"<b>{alias}</b> ({names.index(alias) + 1} of {len(names)})"
    return {
        panel.group: gr.update(visible=True),
        panel.prompt: f'<div class="prompt">{title}: “{escape(escape_controls(prompt.text))}”</div>',
        panel.pictures: _render_heatmap(session, alias, prompt, boxes),
        panel.boxes: boxes,
        **dict(zip(panel.points, previous_points, strict=True)),
        panel.back: gr.update(interactive=can_go_back),
        panel.view: View(time.monotonic(), judgement),
    }


def _write_judgement(session: Session, alias: str, prompt: Prompt, points: Sequence[int | None], view: View) -> bool:
    """Write a judgement, and return whether it was written. A warning, unlike an error, leaves the page usable."""
    if session.get_judgement(Place(prompt.instance, alias), prompt) != view.previous:
        gr.Warning(OTHER_WINDOW)
        return False
    given_points = [point for point in points if point is not None]
    if len(given_points) < len(QUESTIONS):
        gr.Warning("Answer all three questions.")
        return False
    return _write_safely(lambda: session.judge(alias, prompt, given_points, time.monotonic() - view.since))


def _render_heatmap(session: Session, alias: str, prompt: Prompt, boxes: bool) -> str:
    def build_figures() -> str:
        rendered = session.show(alias, prompt, boxes)
        stops = ", ".join(f"rgb({red:.0f} {green:.0f} {blue:.0f})" for red, green, blue in COLOURS)
        key = f'weak <span class="key" style="background: linear-gradient(90deg, {stops})"></span> strong'
        return _format_figures(
            (rendered.plain, "X-ray"), (rendered.heatmap, f"{key} · nowhere: {rendered.nowhere:.0%}")
        )

    return _run_safely(build_figures, CANNOT)


def _format_figures(*captioned: tuple[Image.Image, str]) -> str:
    figures = (
        f'<figure><img alt="" src="data:image/png;base64,{base64.b64encode(png(image)).decode()}">'
        f"<figcaption>{caption}</figcaption></figure>"
        for image, caption in captioned
    )
    return f'<div class="pictures">{"".join(figures)}</div>'


def _run_safely(show: Callable[[], str], otherwise: str) -> str:
    """Call `show`. Its errors go to the terminal, because they name folders, which could identify models."""
    try:
        return show()
    except (MedfaithError, OSError) as error:
        print(f"medfaith: {error}", file=sys.stderr)
        return f"<p>{otherwise}</p>"


def _write_safely(write: Callable[[], None]) -> bool:
    """Call `write`, and return whether it succeeded."""
    try:
        write()
    except (InputError, OSError) as error:
        gr.Warning(describe_failure(error))
        return False
    return True


def describe_failure(error: InputError | OSError) -> str:
    """Describe why an answer was not written.

    Args:
        error: The error, of the session or of the disk.

    Returns:
        The text of the warning.
    """
    if isinstance(error, OSError):
        return f"The answer was not written ({error.strerror}). Fix that, then press the button again."
    return f"The answer was not written: {error.where} {error.found}. Reload the page."
