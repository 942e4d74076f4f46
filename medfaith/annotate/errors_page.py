"""The page for sorting failed answers: a gradio Blocks over an ErrorSession. The page decides nothing."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from html import escape

import gradio as gr

from medfaith.loaders.errors import InputError

from .app import EVENT, OTHER_WINDOW, Update, View, describe_failure
from .errors import ErrorSession
from .errors_case import format_case
from .wording import CATEGORIES, ERRORS, ERRORS_TITLE, FIXES


def build(session: ErrorSession, pictures: Mapping[int, Sequence[str]]) -> gr.Blocks:
    """Build the page of a session.

    Args:
        session: The session.
        pictures: Index of a failure -> data URLs of its images.

    Returns:
        The page, not served yet.
    """
    with gr.Blocks(analytics_enabled=False, title=ERRORS_TITLE, fill_width=True) as page:
        gr.Markdown(f"# {ERRORS_TITLE}\n{ERRORS}")
        place, view = gr.State(None), gr.State(None)
        progress = gr.HTML(elem_classes="progress")
        with gr.Column(visible=False, elem_classes="judging") as group, gr.Row():
            with gr.Column(scale=3, min_width=320):
                text = gr.HTML()
            with gr.Column(scale=2, min_width=320):
                category = gr.Radio([(text, name) for name, text in CATEGORIES.items()], label="What went wrong?")
                fix = gr.Radio([(text, name) for name, text in FIXES.items()], label="What could fix it?")
                with gr.Row(elem_classes="steps"):
                    back_button, following = gr.Button("Back"), gr.Button("Next", variant="primary")
        outputs = [place, view, progress, group, text, category, fix, back_button]

        def show_case(index: int | None) -> Update:
            n = len(session.failures)
            numbers = f"{session.n_done} of {n} cases done · judged by {escape(session.annotator)}"
            if index is None:
                return {progress: f"<b>All cases are judged. Thank you.</b> {numbers}", group: gr.update(visible=False)}
            judgement = session.get_judgement(index)
            return {
                place: index, view: View(time.monotonic(), judgement), group: gr.update(visible=True),
                progress: f"<b>Case {index + 1}</b> · {numbers}",
                text: format_case(session, index, pictures.get(index, ())),
                category: judgement.category if judgement else None, fix: judgement.fix if judgement else None,
                back_button: gr.update(interactive=index > 0),
            }  # fmt: skip

        def judge(index: int, shown: View, judgement: str | None, fix_name: str | None) -> Update:
            if judgement is None or fix_name is None:
                gr.Warning("Answer both questions.")
                return {place: index}
            if session.get_judgement(index) != shown.previous:
                gr.Warning(OTHER_WINDOW)
                return {place: index}
            try:
                session.judge(index, judgement, fix_name, time.monotonic() - shown.since)
            except (InputError, OSError) as error:
                gr.Warning(describe_failure(error))
                return {place: index}
            return show_case(session.find_next())

        page.load(lambda: show_case(session.find_next()), None, outputs, **EVENT)
        following.click(judge, [place, view, category, fix], outputs, **EVENT)
        back_button.click(lambda index: show_case(max(0, index - 1)), [place], outputs, **EVENT)
    return page
