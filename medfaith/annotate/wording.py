"""Texts for annotators, in our own words: for heatmaps as in That's the Wrong Lung! (appendix A.7.1).

For failed answers, CXR-ContraBench prints only the names of its categories, in Figure 13 (C and D). The categories here
follow its text (section 5), with additions for other faults.
"""

from __future__ import annotations

from typing import NamedTuple

TITLE = "Heatmaps of chest X-rays"
INSTRUCTIONS = """
Models were asked which part of a chest X-ray a sentence speaks of. Each **heatmap** is the answer of one of them; you
judge how good it is. Which model drew a heatmap is hidden, and the letters are dealt anew for every image.

**Choose a sentence.** Before you see a heatmap, choose the one sentence of the report that interests you most. A
focal abnormality that matters clinically is best. If there is none, choose a diffuse abnormality, or a sentence that
denies a finding at a place. You cannot change the choice once the heatmaps are shown. You judge every model on this
sentence.

**Own prompts.** When all reports are judged, or when no sentence of a report is good, write your own sentence in the
second tab and judge the heatmaps for it.

**Boxes.** The data set has boxes drawn by people around the places that a report's sentence names. Show them while you
judge; they may be larger than what you would draw. Own prompts have none.

**Reading a picture.** The brighter the colour, the stronger the attention: each heatmap is scaled to its own highest
value. Some models may say that a sentence speaks of nothing in the image; the square in the lower right corner is as
bright as the share of attention that went there, the number below the picture is that share, and the heatmap is as much
fainter.
"""


class Question(NamedTuple):
    """A question about a heatmap.

    Attributes:
        name: The name in the file of answers.
        text: The question.
        hint: The explanation of the points.
        answers: The labels of the points 1 to 5.
    """

    name: str
    text: str
    hint: str
    answers: tuple[str, ...]


BINS = ("0–20", "20–40", "40–60", "60–80", "80–100")
QUESTIONS = (
    Question(
        "recall",
        "1. How many percent of the region that the sentence speaks of does the heatmap cover?",
        "0–20: it is strong elsewhere or nowhere, or hardly there. 40–60: it nearly covers the region, or covers it "
        "faintly. 80–100: the region lies where the heatmap is strong.",
        BINS,
    ),
    Question(
        "precision",
        "2. How many percent of the heatmap lie on a region that matters?",
        "0–20: it is scattered, or covers a large part of the image. 40–60: it is on the right places and on wrong "
        "ones nearby or elsewhere. 80–100: it is on the right places and hardly anywhere else.",
        BINS,
    ),
    Question(
        "intuitiveness",
        "3. How intuitive is the heatmap, from 1 (worst) to 5 (best)?",
        "1: useless or misleading. 2: little in common with what you expect. 3: a right region, with stray parts or "
        "with some of it missing. 4: mostly the regions that you expect. 5: nearly what you would draw.",
        ("1", "2", "3", "4", "5"),
    ),
)

CATEGORIES = {  # name in the file of answers -> text for the annotator
    "reversal": "It denies a finding that is there (“No X”)",
    "negated": "It takes “No X”, although another option is the absent finding",
    "distractor": "It takes another wrong option",
    "declined": "It says that it cannot or will not answer",
    "unread": "It cannot be read, or is not a choice",
    "reference": "The question or its right answer is doubtful",
}
FIXES = {
    "rule": "A rule over the question and the options",
    "image": "Only a better look at the image",
    "nothing": "Nothing: the row itself is at fault",
}
ERRORS_TITLE = "Failed answers"
ERRORS = """
Each case is an answer of a model that is wrong, that declines to answer, or that could not be read. Say what went
wrong, and what could fix it.
The right answer comes from the labels of the data set, which may be wrong, too: say so then.
"""
