"""The page on which failed answers are sorted: a gradio Blocks over an ErrorSession. Nothing here decides anything."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from html import escape

import gradio as gr

from .app import EVENT, Update
from .errors import ErrorSession
from .errors_case import case_html
from .wording import CATEGORIES, ERRORS, ERRORS_TITLE, FIXES


def build(session: ErrorSession, pictures: Mapping[int, Sequence[str]]) -> gr.Blocks:
    """The page of a session. pictures: place of a failure -> data URLs of its images."""
    with gr.Blocks(analytics_enabled=False, title=ERRORS_TITLE, fill_width=True) as page:
        gr.Markdown(f"# {ERRORS_TITLE}\n{ERRORS}")
        place, since = gr.State(None), gr.State(0.0)
        progress = gr.HTML(elem_classes="progress")
        with gr.Column(visible=False, elem_classes="judging") as group, gr.Row():
            with gr.Column(scale=3, min_width=320):
                text = gr.HTML()
            with gr.Column(scale=2, min_width=320):
                category = gr.Radio([(text, name) for name, text in CATEGORIES.items()], label="What went wrong?")
                fix = gr.Radio([(text, name) for name, text in FIXES.items()], label="What could mend it?")
                with gr.Row(elem_classes="steps"):
                    back, following = gr.Button("Back"), gr.Button("Next", variant="primary")
        outputs = [place, since, progress, group, text, category, fix, back]

        def at(where: int | None) -> Update:
            n = len(session.failures)
            numbers = f"{session.n_done} of {n} cases done · judged by {escape(session.annotator)}"
            if where is None:
                return {progress: f"<b>All cases are judged. Thank you.</b> {numbers}", group: gr.update(visible=False)}
            said = session.judged(where)
            return {
                place: where, since: time.monotonic(), group: gr.update(visible=True),
                progress: f"<b>Case {where + 1}</b> · {numbers}",
                text: case_html(session, where, pictures.get(where, ())),
                category: said.category if said else None, fix: said.fix if said else None,
                back: gr.update(interactive=where > 0),
            }  # fmt: skip

        def judge(where: int, started: float, said: str | None, mends: str | None) -> Update:
            if said is None or mends is None:
                gr.Warning("Answer both questions.")
                return {place: where}
            try:
                session.judge(where, said, mends, time.monotonic() - started)
            except OSError as error:
                gr.Warning(f"The answer was not written ({error.strerror}). Mend that, then press the button again.")
                return {place: where}
            return at(session.next())

        page.load(lambda: at(session.next()), None, outputs, **EVENT)
        following.click(judge, [place, since, category, fix], outputs, **EVENT)
        back.click(lambda where: at(max(0, where - 1)), [place], outputs, **EVENT)
    return page
