"""The clauses of an answer and their acts, found in one pass.

Every reader of prose starts here. A clause asserts or denies, or it has another act (`cues`): it declines, asks or
announces, defines, or leaves open. Only clauses that assert or deny reach the later stages of a reader; `scope` finds
the names that they assert and deny.

Every step preserves the length of the text: irrelevant parts become blanks. A span in a clause is therefore a span of
the written answer, and can be mapped to its tokens.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from functools import lru_cache
from itertools import takewhile
from typing import NamedTuple

from .cue import Act
from .cues import HERE, find_cue
from .denial_words import ALL_BUT, NEUTRAL, SEEN, STATES, VERB
from .reasoning import find_answer_span
from .scope import DENIED_BEFORE, Standing, fill_blanks, read_heading


class Clause(NamedTuple):
    """A part of an answer with one act.

    Attributes:
        text: A part of `plain(answer)`.
        start: Its start in the answer.
        act: Its act.
        denied: Whether a heading above it denies the items below.
    """

    text: str
    start: int
    act: Act = "state"
    denied: bool = False


# ---- one spelling

_TAG = re.compile(r"<\|[^|<>]{1,40}\|>|</?[A-Za-z_]{1,20}\s?>")
# A dash between words; at the beginning of a line it is a bullet.
_DASH = re.compile(r"(?<=[^\W_])([*_]{0,2})[^\S\n][-–—]+(?=\s)")
_WRAPPED = re.compile(r"(?<=[{\[,])[^\S\n]*\n\s*(?=[\"{])|\n(?=[^\S\n]*[\]}])")  # JSON over several lines
_SIGNS = str.maketrans("✔✅☑🗸✘❌❎✖🚫☐。、Ø∅", "✓✓✓✓✗✗✗✗✗✗.,¬¬")
_ABBREVIATION = re.compile(r"\b(?:e\.g\.|i\.e\.),?|(?<=\b(?:[lr]t|vs))\.(?=[^\S\n]\w)", re.IGNORECASE)
_BOX = re.compile(r"(?<!\S)[\[(][ xX✓✔✗✘][\])](?=\s|$)")
_SIGN = re.compile(  # "edema (-)", "edema: +", "-ve for edema"
    r"\(\s?[-–−+]\s?\)|(?<=[\w:])[^\S\n][-–−+](?=[^\S\n]*(?:$|[,;]))|(?<!\S)[-–−+]ve\b", re.MULTILINE
)
_CHANCE = re.compile(r"(?P<words>(?:probability|likelihood)\W{1,3}(?P<percent>\d{1,2}(?:\.\d+)?)\s?)%", re.IGNORECASE)
_FALSE_DENIAL = re.compile(  # the field "no_edema": false
    r"\b(?:no|free of|absence of|without) (?P<name>(?:\w+ ){0,2}\w+)\"?\s?: ?false\b"
    r"|\b(?P<named>(?:\w+ ){0,2}\w+) absent\"?\s?: ?false\b"
)
_QUERY = re.compile(r"(?:(?<=\s)|\A)\?(?=[^\W\d])[^.;,?!\n]*")  # "?edema"
_WRITTEN_MARK = re.compile(r"\((?P<wrong>in)?correct\)")  # `markup.readable` writes ticks and crosses so
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
_ITEM_END = re.compile(  # each item of a JSON or Python list is a sentence
    r"(\"\s*),(?=\s*\"(?!(?:visible|present|seen|detected|in use|used|status)\"\s*:\s?\"?"
    r"(?:true|false|yes|no|null|\d)))"
)
_SENTENCE = re.compile(r"(?:[^.;!?\n]|\.(?=\d))+[.;!?\n]?")
_REPLY = re.compile(
    r"\?(?=[\s\"]{0,4}(?:yes|yep|yeah|yup|no(?=\s*(?:[,.;:!\"\n]|$))|nope|nah|none|not|absent|present|✓|✗)(?![^\W_]))"
)
_WHETHER = re.compile(
    r"\b(?:whether|if(?! (?:(?:i|we|you) (?:had|have|were|must)|forced|pressed|pushed)\b)|unless|assuming"
    r"|supposing)\b.*",
    re.DOTALL,
)
_CLAUSE_END = re.compile(
    r"\b(?:but|however|although|though|except(?: for)?|whereas|while|(?<!not )yet|apart from|aside from|other than"
    r"|besides)\b"
    r"|(?<!\bcan )(?<!\bthe )\b(?:only|just|merely)\b(?!\s*(?:$|(?:in|on|at|within|because|due)\b))"
    r"|\b(?:instead(?! of)|rather(?! than| not))\b"
    r"|,\s*(?:so\s+)?(?=(?:with|showing|there|the|it|this|that|these|i|we)\b(?!\s+(?:is|are|would|could)\s+\w+\s*$))"
    rf"|(?P<list>,)(?!\s*(?:or|nor|and|{VERB})\b)(?=(?:(?!\b(?:that|which|who)\b)[^,])*\b{VERB}\b)"
    r"|\b(?P<and>and)\s+(?=(?:there|the|its?|i|we|no|none|this)\b)"
    r"|,\s*(?=none (?:in|on|at)\b)"
)
# "While A is possible, B is there": the first clause of such a sentence ends at its comma.
_SUBORDINATE = re.compile(
    r"\W*(?:while|although|though|even though|whereas|because|since|given|despite|unlike|(?:compared|in contrast)"
    r" (?:to|with))\b[^,:]*,"
)
_COMMA = re.compile(",")
_BOUND = re.compile(rf"\b(?:anything|nothing|last) but\b|{ALL_BUT}\b")  # phrases that do not begin another statement
_ANSWERED = re.compile(r"\s*(?:no|nope),")  # the reply "No, ..."
_LONGEST = 2_000  # characters of a part that decide its act; a longer part is noise
_LOOKS_FOR = re.compile(r"\bfor\W*\Z")
_IN_VAIN = re.compile(  # "I looked for edema and found none"
    r"\b(?P<ask>(?:looked|searched|checked) (?:\w+ ){0,4}?for )(?P<name>[^,;]{1,80}?)"
    r"(?:,? (?:and|but) (?:found|saw|see|did not (?:find|see)|there (?:is|was)) (?:none|nothing|any|one|it)"
    r"| (?:without success|in vain|to no avail|unsuccessfully))\b"
)
_REPLACED = re.compile(  # "switched from the grasper to the hook", "swapped the clipper for the hook"
    r"\b(?P<verb>(?:switch|chang|swap|exchang|replac|trad)\w* (?:from )?)(?P<name>(?:the|an?) (?:\w+ )?\w+) (?:to"
    r"|for|by|with)\b"
)
_PAST_ASIDE = re.compile(  # "Edema, which was absent before, is now present"
    r", (?:which|that) (?:was|were|had been|has been) (?:\w+ ){1,3}(?:before|previously|earlier|in the past"
    r"|(?:on|in) (?:the )?(?:prior|previous|earlier|old) \w+),(?= (?:is|are|has|have)\b)"
)
_LAST_ITEMS = re.compile(rf"(?:(?!\b{VERB}\b)[^,]){{1,80}}\b(?:or|nor)\b(?:(?!\b{VERB}\b)[^,]){{1,80}}\b{VERB}\b")
_NONE_OF = re.compile(r"\b(?:none of|neither)\b")
_SEEN_WORD = re.compile(rf"\b{SEEN}\b")
# Words after which a clause may have another act: "an opacity that may be edema", "..., possibly edema".
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
    """Convert a text to lower case, with thinking, markup and underscores as blanks, in the same length.

    Quotation marks become ", ticks and crosses become ✓ and ✗, a Chinese denial becomes ¬.

    Args:
        text: The answer.

    Returns:
        The plain text.

    >>> plain("**Grasper**, “cystic_duct”")
    '  grasper  , "cystic duct"'
    """
    start, end, span_kind = find_answer_span(text)
    end = start if span_kind == "open reasoning" else end
    text = " " * start + _TAG.sub(fill_blanks, text[start:end]) + " " * (len(text) - end)
    if not text.isascii():
        text = "".join(map(_normalize_character, text.translate(_SIGNS)))
        text = _CJK.sub(" ", _CJK_DENIAL.sub(lambda match: f"{'¬':<{len(match[0])}}", text))
    text = _QUERY.sub(fill_blanks, _ABBREVIATION.sub(fill_blanks, text))
    text = _BOX.sub(lambda match: " ✗ " if match[0][1] in " ✗✘" else " ✓ ", text)
    text = _WRITTEN_MARK.sub(lambda match: f"{'✗' if match['wrong'] else '✓':<{len(match[0])}}", text)
    text = _CHANCE.sub(lambda match: f"{match['words']}{'✓' if float(match['percent']) >= 50 else '✗'}", text)
    text = _SIGN.sub(lambda match: f" {'✓' if '+' in match[0] else '✗':<{len(match[0]) - 1}}", text)
    text = _DASH.sub(lambda match: f"{':':<{len(match[0])}}", _WRAPPED.sub(fill_blanks, text.lower()))
    return _FALSE_DENIAL.sub(_blank_denials, _NOISE.sub(" ", _LOOSE_QUOTE.sub('"', text)))


def _blank_denials(match: re.Match[str]) -> str:
    """Keep only the name in a denial that is called false, in the same length: "no_edema: false" becomes "edema"."""
    group = "name" if match["name"] else "named"
    return f"{match[group]:>{match.end(group) - match.start()}}{'':{match.end() - match.end(group)}}"


def _normalize_character(character: str) -> str:
    if character in "’‘":
        return "'"
    if character in "“”«»":
        return '"'
    folded = unicodedata.normalize("NFKC", character).lower()
    return folded if len(folded) == 1 else character if len(character.lower()) == 1 else " "


@lru_cache(maxsize=8)  # several stages of a reader need the clauses of one text
def split_clauses(text: str) -> tuple[Clause, ...]:
    """Split a text into clauses and find their acts.

    Questions, text after "whether" and "if", and items under a heading such as "Cannot be assessed" are not clauses.

    Args:
        text: An answer in the model's own form, or any part of it.

    Returns:
        The clauses in the order of the text, with any act.

    >>> [(clause.text.strip(), clause.act) for clause in split_clauses("We look for edema. There is no edema.")]
    [('we look for edema', 'ask'), ('there is no edema', 'state')]
    """
    return tuple(_iterate_clauses(text))


def _iterate_clauses(text: str) -> Iterator[Clause]:
    """Iterate over the clauses of a text."""
    plain_text = plain(text)
    heading_standing, is_listed, last_end = "asserted", False, 0
    for line in _LINE.finditer(plain_text):
        plain_line = line[0]
        if not plain_line.strip(" .,"):
            continue
        raw_line = text[line.start() : line.end()]
        is_bullet = bool(_BULLET.match(raw_line) or _BULLET.match(plain_line))
        is_separate = line.start() - last_end > 1
        last_end = line.end()
        if (
            plain_line.rstrip(' "').endswith(":")
            or _STATUS.fullmatch(plain_line)
            or (not is_bullet and _TITLE.fullmatch(raw_line))
        ):
            standing = _read_heading_standing(plain_line)
            if not is_bullet or standing != "asserted" or _SEEN_WORD.search(plain_line):
                heading_standing, is_listed = standing, False
        elif is_bullet:
            is_listed = True
        elif STATES.search(plain_line) or (is_listed and is_separate):
            heading_standing = "asserted"
        else:
            is_listed = True
        if heading_standing == "open":
            continue
        list_spans = [
            list_match.span(1)
            for list_match in _LIST.finditer(raw_line)
            if _read_key_standing(plain_line, list_match.start()) == "denied"
        ]
        list_starts = [list_start for list_start, _ in list_spans]
        for sentence_part, start, carried_act in _split_line(_ITEM_END.sub(r"\1.", plain_line)):
            list_index = bisect_right(list_starts, start + len(sentence_part)) - 1
            is_denied = heading_standing == "denied" or (list_index >= 0 and start < list_spans[list_index][1])
            for clause_text, offset, act in _split_part(sentence_part):
                yield Clause(
                    clause_text, line.start() + start + offset, carried_act if act == "state" else act, is_denied
                )


def _read_heading_standing(heading: str) -> Standing:
    """Read the standing that a heading gives to the items below it."""
    standing = read_heading(heading)
    act = _find_act(heading.rpartition(".")[2])
    if act in ("general", "weigh") or (act == "ask" and _LOOKS_FOR.search(heading)):
        return "open"
    return "denied" if "✗" in heading and standing == "asserted" else standing


def _read_key_standing(line: str, end: int) -> Standing:
    return _read_heading_standing(line[max(end - 40, 0) : end].rstrip('" ').rpartition('"')[2])


def _find_act(clause_text: str) -> Act:
    """Return the act of a clause, "state" without a cue, from its beginning of at most _LONGEST characters."""
    cue = find_cue(" ".join(clause_text[:_LONGEST].split()))
    return cue.act if cue else "state"


def _split_line(line: str) -> Iterator[tuple[str, int, Act]]:
    """Split a line into sentences and, at turns to another statement, into parts; questions are left out.

    Yields:
        Text and start of each part, and the act that it has unless it has a cue of its own: the act of the previous
        part if that continues ("The fields should be clear, with no opacity"), otherwise mostly "state".
    """
    for sentence in _SENTENCE.finditer(_REPLY.sub(":", line)):
        if sentence[0].endswith("?") or not _LETTER.search(sentence[0]):
            continue
        whether = _WHETHER.search(sentence[0])
        is_condition = whether and whether.start() and not STATES.search(sentence[0], 0, whether.start())
        if whether and _find_act(whether[0]) == "decline":  # "Whether it is edema is unclear"
            yield "", sentence.start() + whether.start(), "decline"
        statement_words = _WHETHER.sub(fill_blanks, sentence[0])
        statement_words = _REPLACED.sub(_cross_out, _IN_VAIN.sub(_write_absent, statement_words))
        statement_words = _PAST_ASIDE.sub(fill_blanks, statement_words).replace('"', " ")
        carried_act: Act = "general" if is_condition else "state"  # "Edema, if present, ..."
        opening_reply = _ANSWERED.match(statement_words)
        start = opening_reply.end() if opening_reply else 0
        if opening_reply:
            yield opening_reply[0].rstrip(","), sentence.start(), "state"
        turns = [*_find_turns(_BOUND.sub(fill_blanks, NEUTRAL.sub(fill_blanks, statement_words)), start)]
        for end, next_end in zip([*turns, None], [*turns[1:], None, None], strict=False):
            sentence_part = statement_words[start : end.start() if end else len(statement_words)]
            if sentence_part.strip():
                yield sentence_part.rstrip(".;!\n"), sentence.start() + start, carried_act
                part_act = _find_act(sentence_part) if end and end[0].startswith((",", "and")) else "state"
                following_words = (
                    statement_words[end.end() : next_end.start() if next_end else len(statement_words)] if end else ""
                )
                is_continued = part_act == "general" and not HERE.search(following_words)
                is_continued |= bool(_GOES_ON.match(following_words)) or not STATES.search(following_words)
                carried_act = part_act if is_continued and following_words.strip() else "state"
            start = end.end() if end else start


def _write_absent(match: re.Match[str]) -> str:
    """Rewrite a search in vain as a denial, in the same length: "looked for edema in vain" -> "edema: absent"."""
    denial = f"{'':{len(match['ask'])}}{match['name']}: absent"
    return f"{denial:{len(match[0])}}"


def _cross_out(match: re.Match[str]) -> str:
    """Deny what is replaced, in the same length: "switched from the grasper to a hook" -> "the grasper ✗, a hook"."""
    name = match["name"]
    return f"{'':{len(match['verb'])}}{name} ✗,".ljust(len(match[0]))[: len(match[0])]


def _split_part(sentence_part: str) -> Iterator[tuple[str, int, Act]]:
    """Split a part of a sentence where it turns from a statement to another act, such as a question or a decline.

    Yields:
        Text, start in the part, and act of each piece: two pieces, or the full part if it does not turn.
    """
    word_matches = list(_WORD.finditer(sentence_part, 0, _LONGEST))
    clause_words = " ".join(word[0] for word in word_matches)
    cue = find_cue(clause_words, always=True)
    if cue is None:
        yield sentence_part, 0, "state"
        return
    # Find the start of the cue in the part, whose words may have several blanks between them.
    cue_start, length = 0, 0
    for word in word_matches:
        cue_start = word.start()
        length += len(word[0]) + 1
        if length > cue.start:
            break
    turns = list(takewhile(lambda turn: turn.start() <= cue_start, _TURN.finditer(sentence_part)))
    for turn in reversed(turns):
        preceding_text = sentence_part[: turn.start()]
        needs_verb = turn["phrase"] or turn["colon"]  # "Edema: unclear" asserts nothing
        can_split = not needs_verb or STATES.search(preceding_text) or (cue.act == "ask" and turn[0] == ",")
        if preceding_text.strip() and can_split and _find_act(preceding_text) == "state":
            yield preceding_text, 0, "state"
            yield sentence_part[turn.start() :], turn.start(), cue.act
            return
    cue = find_cue(clause_words)
    yield sentence_part, 0, cue.act if cue else "state"


def _find_turns(sentence: str, start: int) -> Iterator[re.Match[str]]:
    """Yield the matches (commas, "and", "but", ...) in a sentence that separate one statement from the next.

    Commas and conjunctions in a list of names, and an "and" that follows no verb, separate nothing.
    """
    ends = list(_CLAUSE_END.finditer(sentence, start))
    subordinate = _SUBORDINATE.match(sentence, start)
    if subordinate:
        comma = _COMMA.match(sentence, subordinate.end() - 1)
        assert comma is not None
        yield comma
        start = subordinate.end()
        ends = [end for end in ends if end.start() >= start]
    states, denials, none_of = (
        [match.start() for match in pattern.finditer(sentence)] for pattern in (STATES, DENIED_BEFORE, _NONE_OF)
    )
    for end in ends:
        span = start, end.start()
        if end["and"] and not _has_place(states, *span):
            continue  # "The grasper and the hook are ...": a single subject
        if end["list"] and (not _has_place(denials, *span) or _has_place(none_of, *span)):
            continue  # "Grasper, hook, bag are not visible", "None of grasper, hook, bag are visible": a single list
        if end["list"] and not _has_place(states, *span) and _LAST_ITEMS.match(sentence, end.end()):
            continue  # "No grasper, hook or bag is visible": a single list
        yield end
        start = end.end()


def _has_place(places: list[int], start: int, end: int) -> bool:
    """Return whether one of the sorted positions is in [start, end)."""
    return bisect_left(places, start) < bisect_left(places, end)
