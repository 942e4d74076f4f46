"""One pass over an answer: its clauses, and what each of them does.

Every reader of prose starts here. A clause asserts or denies, or it does something else (`cues`): it declines, asks or
announces, defines, or leaves open. Only clauses that assert or deny reach the later stages of a reader; which names
they assert and which they deny is said in `scope`.

Every step keeps the length of the text: what is of no interest becomes blanks, so that a span found here is a span of
the answer as written, and can be led back to the tokens that wrote it.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from functools import lru_cache
from itertools import takewhile
from typing import NamedTuple

from .cues import HERE, Act, find_cue
from .reasoning import answer_span
from .scope import DENIED_BEFORE, NEUTRAL, SEEN, STATES, VERB, Standing, blank, stands_under


class Clause(NamedTuple):
    """A part of an answer that does one thing.

    Attributes:
        text: A part of `plain(answer)`.
        start: Where it begins in the answer.
        act: What it does.
        denied: It stands under a heading that denies what is listed below it.
    """

    text: str
    start: int
    act: Act = "state"
    denied: bool = False


# ---- one spelling

_TAG = re.compile(r"<\|[^|<>]{1,40}\|>|</?[A-Za-z_]{1,20}\s?>")
_DASH = re.compile(r"(?<=[^\W_])([*_]{0,2})[^\S\n][-–—]+(?=\s)")  # between words; at the start of a line it is a bullet
_WRAPPED = re.compile(r"(?<=[{\[,])[^\S\n]*\n\s*(?=[\"{])|\n(?=[^\S\n]*[\]}])")  # JSON over several lines
_SIGNS = str.maketrans(dict.fromkeys("✔✅☑🗸", "✓") | dict.fromkeys("✘❌❎✖🚫", "✗") | {"。": ".", "、": ","})
_ABBREVIATION = re.compile(r"\b(?:e\.g\.|i\.e\.),?", re.IGNORECASE)
_BOX = re.compile(r"(?<=[-*+•] )\[[ xX✓✔✗✘]\](?= )")
_LOOSE_QUOTE = re.compile(r"(?<![^\W_])'|'(?![^\W_])")
_NOISE = re.compile(r"[^\w\s.,;:!?'\"✓✗¬]|_")
_CJK_DENIAL = re.compile(r"没有|沒有|未见|未見|看不到|不可见|不存在|无(?!法)|無(?!法)|なし|없")
_CJK = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")

# ---- lines, sentences, clauses

_LINE = re.compile(r"[^\n]+")
_BULLET = re.compile(r"\s*(?:[-*•+–]|\d+[.)]|[✓✗])\s")
_TITLE = re.compile(r"\s*(?:#{1,6}\s[^\n]*|\*\*[^*\n]+\*\*:?\s*)")
_LIST = re.compile(r":\s?\[([^\[\]]*)\]")
_STATUS = re.compile(
    r"\s*(?:not?\s+)?(?:visible|present|seen|absent|missing|identified|detected)(?:\s+(?:tools?|instruments?"
    r"|findings?))?\s*"
)
_ITEM_END = re.compile(  # of a JSON or Python list: each item is a sentence
    r"(\"\s*),(?=\s*\"(?!(?:visible|present|seen|detected|in use|used|status)\"\s*:\s?\"?"
    r"(?:true|false|yes|no|null|\d)))"
)
_SENTENCE = re.compile(r"(?:[^.;!?\n]|\.(?=\d))+[.;!?\n]?")
_REPLY = re.compile(
    r"\?(?=[\s\"]{0,4}(?:yes|yep|yeah|yup|no(?=\s*(?:[,.;:!\"\n]|$))|nope|nah|none|not|absent|present|✓|✗)(?![^\W_]))"
)
_WHETHER = re.compile(r"\b(?:whether|if|unless|assuming|supposing)\b.*", re.DOTALL)
_CLAUSE_END = re.compile(
    r"\b(?:but|however|although|though|except(?: for)?|whereas|while|yet|apart from|aside from|other than|besides)\b"
    r"|(?<!\bcan )\b(?:only|just|merely)\b"
    r"|\b(?:instead(?! of)|rather(?! than| not))\b"
    r"|,\s*(?:so\s+)?(?=(?:with|showing|there|the|it|this|that|these|i|we)\b(?!\s+(?:is|are|would|could)\s+\w+\s*$))"
    rf"|(?P<list>,)(?!\s*(?:or|nor|and|{VERB})\b)(?=(?:(?!\b(?:that|which|who)\b)[^,])*\b{VERB}\b)"
    r"|\b(?P<and>and)\s+(?=(?:there|the|its?|i|we|no|this)\b)"
)
# "While A is possible, B is there": what such a sentence begins with ends at its comma.
_SUBORDINATE = re.compile(
    r"\W*(?:while|although|though|even though|whereas|because|since|given|despite|unlike|(?:compared|in contrast)"
    r" (?:to|with))\b[^,:]*,"
)
_COMMA = re.compile(",")
_BOUND = re.compile(r"\b(?:anything|nothing|all|last) but\b")  # turns to nothing else
_ANSWERED = re.compile(r"\s*(?:no|nope),")  # "No, ...": a reply
_LONGEST = 2_000  # characters by which a part is judged; a longer one is noise
_LOOKS_FOR = re.compile(r"\bfor\W*\Z")
_IN_VAIN = re.compile(  # "I looked for edema and found none"
    r"\b(?P<ask>(?:looked|searched|checked) (?:\w+ ){0,4}?for )(?P<name>[^,;]{1,80}?),? (?:and|but) (?:found|saw|see"
    r"|did not"
    r" (?:find|see)|there (?:is|was)) (?:none|nothing|any|one|it)\b"
)
_OF_ALL = re.compile(r"\b(?:none of|neither)\b")
_SEEN_WORD = re.compile(rf"\b{SEEN}\b")
# Where a clause may turn from a statement to something else: "an opacity that may be edema", "..., possibly edema".
_TURN = re.compile(
    r"(?P<phrase>,|\band\b|\bor\b|\b(?:concerning|suspicious|worrisome)\b)"
    r"|(?P<colon>:)|\b(?:because|due to|in the form"
    r"|(?<!is )(?<!are )(?<!be )(?:typically|usually|often|commonly) (?=associated|seen|found))\b"
    rf"|\b(?:which|that|who)\b(?!\s+(?:may|might|could|can)\s+(?:not\s+)?be\s+(?:{SEEN}|absent)\b)"
    r"|\b(?:suggesting|suggests?|suggestive of|indicating|indicates?|indicative of|consistent with|compatible with"
    r"|representing|represents)\b"
)
_WORD, _LETTER = re.compile(r"\S+"), re.compile(r"[^\W\d_]|¬")
_GOES_ON = re.compile(r"(?:with|showing)\b")


def plain(text: str) -> str:
    """Return the text in lower case, with thinking, markup and underscores as blanks, in the same length.

    Quotation marks become ", ticks and crosses become ✓ and ✗, a Chinese denial becomes ¬.

    >>> plain("**Grasper**, “cystic_duct”")
    '  grasper  , "cystic duct"'
    """
    start, end, how = answer_span(text)
    end = start if how == "open reasoning" else end
    text = " " * start + _TAG.sub(blank, text[start:end]) + " " * (len(text) - end)
    if not text.isascii():
        text = "".join(map(_simple, text.translate(_SIGNS)))
        text = _CJK.sub(" ", _CJK_DENIAL.sub(lambda match: f"{'¬':<{len(match[0])}}", text))
    text = _ABBREVIATION.sub(blank, text)
    text = _BOX.sub(lambda match: " ✗ " if match[0] == "[ ]" else " ✓ ", text)
    text = _DASH.sub(lambda match: f"{':':<{len(match[0])}}", _WRAPPED.sub(blank, text.lower()))
    return _NOISE.sub(" ", _LOOSE_QUOTE.sub('"', text))


def _simple(character: str) -> str:
    if character in "’‘":
        return "'"
    if character in "“”«»":
        return '"'
    folded = unicodedata.normalize("NFKC", character).lower()
    return folded if len(folded) == 1 else character if len(character.lower()) == 1 else " "


@lru_cache(maxsize=8)  # the stages of a reader ask for the same text one after the other
def split_clauses(text: str) -> tuple[Clause, ...]:
    """Split a text into clauses and say what each does.

    Questions, what follows "whether" and "if", and what stands under a heading such as "Cannot be assessed" are no
    clauses of their own.

    Args:
        text: An answer as the model wrote it, or any part of one.

    Returns:
        The clauses in the order of the text, those that state and those that do not.

    >>> [(clause.text.strip(), clause.act) for clause in split_clauses("We look for edema. There is no edema.")]
    [('we look for edema', 'ask'), ('there is no edema', 'state')]
    """
    return tuple(_clauses(text))


def _clauses(text: str) -> Iterator[Clause]:
    words = plain(text)
    under, listed, last_end = "asserted", False, 0
    for line in _LINE.finditer(words):
        written = line[0]
        if not written.strip(" .,"):
            continue
        raw = text[line.start() : line.end()]
        bullet = bool(_BULLET.match(raw) or _BULLET.match(written))
        apart = line.start() - last_end > 1
        last_end = line.end()
        if written.rstrip(' "').endswith(":") or _STATUS.fullmatch(written) or (not bullet and _TITLE.fullmatch(raw)):
            standing = _stand_under(written)
            if not bullet or standing != "asserted" or _SEEN_WORD.search(written):
                under, listed = standing, False
        elif bullet:
            listed = True
        elif STATES.search(written) or (listed and apart):
            under = "asserted"
        else:
            listed = True
        if under == "open":
            continue
        lists = [found.span(1) for found in _LIST.finditer(raw) if _stand_under_key(written, found.start()) == "denied"]
        begins = [begin for begin, _ in lists]
        for part, start, carried in _split_line(_ITEM_END.sub(r"\1.", written)):
            item = bisect_right(begins, start + len(part)) - 1
            denied = under == "denied" or (item >= 0 and start < lists[item][1])
            for piece, place, act in _split_part(part):
                yield Clause(piece, line.start() + start + place, carried if act == "state" else act, denied)


def _stand_under(words: str) -> Standing:
    """Say what a heading says of all that stands below it."""
    standing = stands_under(words)
    act = _act(words.rpartition(".")[2])
    if act in ("general", "weigh") or (act == "ask" and _LOOKS_FOR.search(words)):
        return "open"
    return "denied" if "✗" in words and standing == "asserted" else standing


def _stand_under_key(words: str, end: int) -> Standing:
    return _stand_under(words[max(end - 40, 0) : end].rstrip('" ').rpartition('"')[2])


def _act(words: str) -> Act:
    cue = find_cue(" ".join(words[:_LONGEST].split()))
    return cue.act if cue else "state"


def _split_line(line: str) -> Iterator[tuple[str, int, Act]]:
    """Split a line into sentences and, where these turn to another statement, into parts.

    The third value is the act of the part before, where it goes on ("The fields should be clear, with no opacity").
    """
    for sentence in _SENTENCE.finditer(_REPLY.sub(":", line)):
        if sentence[0].endswith("?") or not _LETTER.search(sentence[0]):
            continue
        asked = _WHETHER.search(sentence[0])
        named_only = asked and asked.start() and not STATES.search(sentence[0], 0, asked.start())
        if asked and _act(asked[0]) == "decline":  # "Whether it is edema is unclear"
            yield "", sentence.start() + asked.start(), "decline"
        words = _IN_VAIN.sub(_say_absent, _WHETHER.sub(blank, sentence[0])).replace('"', " ")
        carried: Act = "general" if named_only else "state"  # "Edema, if present, ..."
        reply = _ANSWERED.match(words)
        start = reply.end() if reply else 0
        if reply:
            yield reply[0].rstrip(","), sentence.start(), "state"
        turns = [*_turns(_BOUND.sub(blank, NEUTRAL.sub(blank, words)), start)]
        for end, next_end in zip([*turns, None], [*turns[1:], None, None], strict=False):
            part = words[start : end.start() if end else len(words)]
            if part.strip():
                yield part.rstrip(".;!\n"), sentence.start() + start, carried
                act = _act(part) if end and end[0].startswith((",", "and")) else "state"
                follows = words[end.end() : next_end.start() if next_end else len(words)] if end else ""
                goes_on = act == "general" and not HERE.search(follows)
                goes_on |= bool(_GOES_ON.match(follows)) or not STATES.search(follows)
                carried = act if goes_on and follows.strip() else "state"
            start = end.end() if end else start


def _say_absent(match: re.Match[str]) -> str:
    """Put a search that found nothing into words that deny, in the same length."""
    words = f"{'':{len(match['ask'])}}{match['name']}: absent"
    return f"{words:{len(match[0])}}"


def _split_part(part: str) -> Iterator[tuple[str, int, Act]]:
    """Cut off what a part states before it turns to something else; say what both pieces do."""
    found = list(_WORD.finditer(part, 0, _LONGEST))
    words = " ".join(word[0] for word in found)
    cue = find_cue(words, always=True)
    if cue is None:
        yield part, 0, "state"
        return
    # Where the cue begins in the part itself, whose words may have several blanks between them.
    place, length = 0, 0
    for word in found:
        place = word.start()
        length += len(word[0]) + 1
        if length > cue.start:
            break
    turns = list(takewhile(lambda turn: turn.start() <= place, _TURN.finditer(part)))
    for turn in reversed(turns):
        before = part[: turn.start()]
        needs_verb = turn["phrase"] or turn["colon"]  # "Edema: unclear" says nothing of edema
        cut = not needs_verb or STATES.search(before) or (cue.act == "ask" and turn[0] == ",")
        if before.strip() and cut and _act(before) == "state":
            yield before, 0, "state"
            yield part[turn.start() :], turn.start(), cue.act
            return
    cue = find_cue(words)
    yield part, 0, cue.act if cue else "state"


def _turns(words: str, start: int) -> Iterator[re.Match[str]]:
    """Find where a sentence turns to another statement."""
    ends = list(_CLAUSE_END.finditer(words, start))
    subordinate = _SUBORDINATE.match(words, start)
    if subordinate:
        comma = _COMMA.match(words, subordinate.end() - 1)
        yield comma  # type: ignore[misc]
        start = subordinate.end()
        ends = [end for end in ends if end.start() >= start]
    states, denials, of_all = (
        [match.start() for match in pattern.finditer(words)] for pattern in (STATES, DENIED_BEFORE, _OF_ALL)
    )
    for end in ends:
        here = start, end.start()
        if end["and"] and not _any(states, *here):
            continue  # "The grasper and the hook are ...": one subject
        if end["list"] and (not _any(denials, *here) or _any(of_all, *here)):
            continue  # "Grasper, hook, bag are not visible", "None of grasper, hook, bag are visible": one list
        yield end
        start = end.end()


def _any(places: list[int], start: int, end: int) -> bool:
    """Whether one of the sorted places lies in [start, end)."""
    return bisect_left(places, start) < bisect_left(places, end)
