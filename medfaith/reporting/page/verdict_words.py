"""Words, colours and signs in which the page prints the verdicts of audits."""

from __future__ import annotations

from typing import NamedTuple


class Words(NamedTuple):
    """A verdict as the page prints it.

    Attributes:
        text: The verdict in words.
        kind: Class of its colour.
        mark: Sign before the words, so that the meaning does not depend on colour alone.
        short: The words for narrow columns.
    """

    text: str
    kind: str
    mark: str
    short: str


IMAGE_WORDS = {  # name of the verdict in an audit's table -> words
    "uses": Words("uses the image", "yes", "✓", "yes"),
    "recalls": Words("right only on the images as stored", "recalls", "↺", "only as stored"),
    "no use": Words("makes no use of it", "no", "✗", "no"),
    "reacts": Words("reacts to images, does not read them", "reacts", "≈", "reacts only"),
    "harmed": Words("is harmed by it", "harmed", "↓", "to its harm"),
    "open": Words("cannot be told", "open", "?", "cannot be told"),
    "unanswered": Words("no verdict: too much unread or declined", "unanswered", "–", "no verdict"),
    "undefined": Words("not asked", "none", "·", "not asked"),
}
PLACE_WORDS = {
    "depends": Words("depends on the place that is asked about", "yes", "✓", "yes"),
    "no dependence": Words("does not depend on the place that is asked about", "no", "✗", "no"),
    "elsewhere": Words("depends on another place", "harmed", "↓", "another place"),
    **{name: IMAGE_WORDS[name] for name in ("open", "unanswered", "undefined")},
}
OLD_PLACES = {"uses": "depends", "no use": "no dependence", "harmed": "elsewhere"}  # names in older audits
OLD_UNDEFINED = Words("no verdict: not asked, or too much unread", "unanswered", "–", "no verdict")
UNKNOWN = Words("a verdict that this version does not know", "none", "·", "unknown")
SENTENCE_PARTS = {  # verdict on a finding -> words before the names of the findings
    "uses": "uses the image for", "no use": "not for", "recalls": "is right only on the images as stored for",
    "reacts": "reacts to images without reading them for", "harmed": "is harmed by it for",
    "open": "cannot be told for", "unanswered": "no verdict (too much unread or declined) for",
    "undefined": "not asked for",
}  # fmt: skip
WORDING_WORDS = {
    "wording only": "yes, it is right by the wording only", "depends": "yes, a paraphrase is worse",
    "not shown": "nothing shows it",
}  # fmt: skip
