"""Which options a few words name: those behind "The answer is", or a line's beginning.

The reader of choices (`choice`) decides which words count. Two options, or a letter beside another option's text, are
several places, or hold `options.CONFLICT`.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from .letters import index, letters_beside_texts, letters_in
from .options import CONFLICT, Options
from .outcome import Evidence
from .words import words

SENTENCE_END = re.compile(r"(?:(?<![^\w][A-Z])(?<!\A[A-Z])(?<!\bvs)[.](?=\s|$)|[;!?\n])+")
NO = re.compile(r"\b(no)\s?(?:[,:;.!—–]|-\s)(?=\s?\w)", re.IGNORECASE)  # "No, ...": a reply, not part of "No edema"
# What comes behind is a reason, or only compared with, and chooses nothing.
_REASON = re.compile(r"\b(?:because|since|as|due|given)\b", re.IGNORECASE)
COMPARED = re.compile(r",? ?\b(?:whereas|while|although|though)\b", re.IGNORECASE)
# What follows "The answer is".
_FILLER = re.compile(
    r"[\s:=>\-–—•#]{0,6}(?:(?:most likely|probably|likely|indeed|clearly|therefore|simply|just|definitely|actually|that"
    r"|it is|it's|is|be|to be|as|would be|the|with|towards?|for|correct|option|choice|letter|answer|number|statement"
    r"|la opción|opción|a opção|opção|l'option|la réponse|die option|opzione)\b[\s:]{0,3}){0,5}",
    re.IGNORECASE,
)
_NONE_OF_THEM = re.compile(
    r"\W*(?:none|neither|nothing|no (?:correct )?(?:option|choice|answer)|not (?:listed|given|available|provided)"
    r"|n/?a\b|either\b|all of)",
    re.IGNORECASE,
)
_UNKNOWN = re.compile(
    r"\W*(?:unclear|unknown|uncertain|undetermined|indeterminate|not (?:possible|clear|sure|certain)|can ?not|can't"
    r"|unable|impossible|insufficient|i (?:do not|don't) know)",
    re.IGNORECASE,
)
_DENIED_OBJECT = re.compile(r"\W*(?:definitely |clearly |certainly |likely )?(?:not|never|neither)\b", re.IGNORECASE)
_ORDINAL = re.compile(
    r"(?:the )?(?P<place>first|second|third|fourth|fifth|last|1st|2nd|3rd|4th|5th)"
    r" (?:option|choice|statement|answer)\b",
    re.IGNORECASE,
)
_ORDINALS = {"fir": 0, "1st": 0, "sec": 1, "2nd": 1, "thi": 2, "3rd": 2, "fou": 3, "4th": 3, "fif": 4, "5th": 4}
_LETTER = re.compile(
    r"(?P<open>[(\[]?) ?(?P<letter>[A-Za-z])"
    r"(?:(?P<close> ?[)\]])|(?P<stop> ?[.:,;!](?!\w)| ?[-–—=](?=\s))|(?=\s|$|[.:,;!/&+\-]))"
)
_MORE_LETTERS = re.compile(
    r"(?:[.)\]]?\s?(?:,|/|&|\+|\band\b|\bor\b)\s?|[)\]]?\s(?=[(\[A-Z])|[)\]]?(?=[(\[]))(?:and |or )?"
    r"(?:option |choice )?[(\[]?(?P<letter>[A-Z])(?![\w'’])(?!\s(?!and\b|or\b)[a-z])"
)
_OR_LETTER = re.compile(
    r"\b(?:or|(?:could|may|might) (?:also )?be)\W{1,3}(?:option |choice )?[(\[]?(?P<letter>[A-Z])\b(?![\w'’])"
)
_MORE_TEXT = re.compile(r" (?:and|or|with|as well as|but could be|but may be)\b")
_ABBREVIATION = re.compile(r"[A-Za-z]\.[A-Za-z]\b|[A-Za-z]-\w")  # "e.g.", "A.P. view", "X-ray"
# What may stand behind a letter without a stop. "A" and "I" may be words, which need more than another letter does.
_AFTER_BARE = re.compile(
    r" (?:because|since|as|due|given|but|although|though|while|rather than|instead of|and|or|not)\b|[,/&+]"
)
_AFTER_BARE_A = re.compile(r" \((?:correct|confidence)|[ (\[]*\d{1,3} ?%| (?:which|with|based|for|is)\b|\n")
_CONFIDENCE = re.compile(
    r" ?[(\[](?:[^)\]]{0,20}\b(?:confiden\w+|certain\w*|sure|likely|probability)\b|~?\d{1,3} ?%)", re.I
)
_DECLINED = re.compile(r".{1,6}\bI (?:can ?not|can't|am unable)", re.IGNORECASE)  # "A. I cannot see the image"
_WRONG = re.compile(
    r" ?(?:[(\[][^)\]]{1,60}[)\]] ?)?(?:is|are|was|seems) (?:clearly |also )?(?:not|wrong|incorrect|false|unlikely"
    r"|less|ruled out|excluded)\b"
)
_BULLET = re.compile(r"[\s>#•\-–+]*(?:(?:step ?)?\d{1,2} ?[.):\-] )?", re.IGNORECASE)
_ALONE = re.compile(r"(?:(?:option|choice) )?[(\[]? ?([A-Za-z]) ?[)\]]? ?[.:,;!]? ?", re.IGNORECASE)


class Named(NamedTuple):
    """Options that words name.

    Attributes:
        places: Their places; several, or `options.CONFLICT`, where the words name more than one.
        evidence: What named them.
        declined: The words say that no option can be told.
    """

    places: set[int]
    evidence: Evidence = ""
    declined: bool = False

    def __or__(self, other: Named) -> Named:  # type: ignore[override]
        places = self.places | other.places
        return Named(places, self.evidence or other.evidence, (self.declined or other.declined) and not places)


NOTHING = Named(set())
_NO_OPTION = (
    (_UNKNOWN, Named(set(), declined=True)),
    (_NONE_OF_THEM, Named({CONFLICT}, "text")),
    (_DENIED_OBJECT, NOTHING),
)


def object_named(said: str, choices: Options, *, value: bool = False) -> Named:
    """Find the option that the words behind "The answer is" name.

    Args:
        said: The words.
        choices: The question's options.
        value: They are a field of JSON or a box, and no sentence.
    """
    filler = _FILLER.match(said)
    tail = said[filler.end() :] if filler else said
    sentence = SENTENCE_END.split(tail, maxsplit=1)[0]
    begun = choices.starting(sentence) or (choices.beginning_with(words(sentence)) if value else set())
    if begun:
        is_reply = not choices.are_yes_and_no and NO.match(tail)
        return Named({CONFLICT} if is_reply else _with_others(begun, sentence, choices), "text")
    for pattern, named in _NO_OPTION:
        if pattern.match(tail):
            return named
    ordinal, letter = _ORDINAL.match(tail), _LETTER.match(tail)
    if ordinal:
        return Named({_ORDINALS.get(ordinal["place"].lower()[:3], choices.n - 1)}, "letter")
    if letter and (value or _is_letter(letter, tail, choices)):
        return Named(_with_text(index(letter["letter"]), tail[letter.end("letter") :], choices), "letter")
    letters = letters_in(sentence, choices)
    return Named(asserted_in(_chosen_part(sentence), choices) | letters, "letter" if letters else "prose")


def asserted_in(text: str, choices: Options) -> set[int]:
    """Find the options that prose asserts, a negated one by what it denies."""
    said = choices.read_prose(text)
    return said.asserted | said.negated


def opening_letter(line: str, choices: Options) -> set[int]:
    """The letter that a line begins with, and what speaks against it."""
    line = _without_bullet(line)
    tail = line[7:] if line[:7].casefold() in {"option ", "choice "} else line
    match = _LETTER.match(tail)
    if not match or _is_pronoun(match, choices) or (match["open"] and not match["close"]):
        return set()
    if _WRONG.match(tail, match.end()) or _DECLINED.match(tail):
        return set()
    letter, rest, capital = index(match["letter"]), tail[match.end() :], match["letter"].isupper()
    own = choices.words[letter] if letter < choices.n else ""
    if (
        match["close"]
        or (match["stop"] and not _ABBREVIATION.match(tail))
        or not rest.strip()
        or (capital and (_AFTER_BARE.match(rest) or _MORE_LETTERS.match(rest)))
        or (capital and _CONFIDENCE.match(rest))
        or (
            capital
            and own
            and words(rest).startswith(own)
            and (match["letter"] not in "AI" or _stands_alone(rest, own))
        )
    ):
        return _with_text(letter, tail[match.end("letter") :], choices)
    # "B edema", where edema is another option; "A pleural effusion" is none.
    return {letter, CONFLICT} if capital and match["letter"] not in "AI" and choices.starting(rest) else set()


def _stands_alone(rest: str, own: str) -> bool:
    """Whether an option's own text is all that follows an A or I: in "A pleural effusion is seen" A is an article."""
    text = r"\W+".join(map(re.escape, own.split()))
    return bool(re.match(rf"\W*{text}(?=\W*$|[^\S\n]*[.)])", rest, re.IGNORECASE))


def letter_alone(line: str, choices: Options) -> set[int]:
    """The letter that is all a line holds, but for its bullet and brackets."""
    match = _ALONE.fullmatch(_without_bullet(line))
    return {index(match[1])} if match and (match[1] not in "Ii" or choices.n > 8) else set()


def together(texts: set[int], letters: set[int], choices: Options) -> set[int]:
    """Texts and letters: of two options of one text, the letter tells which."""
    one_text = len({choices.words[place] for place in texts}) == 1
    return letters if one_text and len(letters) == 1 and letters < texts else texts | letters


def _is_letter(match: re.Match[str], text: str, choices: Options) -> bool:
    """Whether a letter at the beginning of words names an option and is no article and no pronoun."""
    marked = bool(match["open"] or match["close"] or match["stop"])
    letter, rest = match["letter"], text[match.end() :]
    if _is_pronoun(match, choices):
        return False
    if marked or not rest.strip() or letter.islower():
        return marked or not rest.strip()
    own = choices.words[0] if choices.n else ""
    behind = _AFTER_BARE.match(rest) or _AFTER_BARE_A.match(rest) or (own and words(rest).startswith(own))
    return letter not in "AI" or bool(behind)


def _is_pronoun(match: re.Match[str], choices: Options) -> bool:
    return match["letter"] in "Ii" and choices.n < 9 and not match["open"]


def _chosen_part(sentence: str) -> str:
    """A sentence up to its reason, and to what it only compares with."""
    return COMPARED.split(_REASON.split(sentence, maxsplit=1)[0], maxsplit=1)[0]


def _with_others(begun: set[int], sentence: str, choices: Options) -> set[int]:
    """The options that a sentence begins with, and those that it asserts besides."""
    texts = {choices.words[place] for place in begun}
    others = {place for place in asserted_in(_chosen_part(sentence), choices) if choices.words[place] not in texts}
    letters = letters_in(sentence, choices)
    return together(begun, letters, choices) | others if len(letters) == 1 else begun | others


def _with_text(letter: int, rest: str, choices: Options) -> set[int]:
    """The letter, and what speaks against it: another option's text or letter that its line also chooses."""
    own = choices.words[letter] if letter < choices.n else None
    sentence = SENTENCE_END.split(rest.lstrip(" .:,;)]-–—="), maxsplit=1)[0]
    said = words(sentence)
    if own and said.startswith(own):
        sentence = sentence if _MORE_TEXT.match(said[len(own) :]) else ""
    elif (more := _MORE_LETTERS.match(rest)) and index(more["letter"]) != letter:
        return {letter, CONFLICT}
    others = {place for place in asserted_in(_chosen_part(sentence), choices) if choices.words[place] != own}
    others |= letters_beside_texts(rest.split("\n", maxsplit=1)[0], choices)
    others |= {index(match["letter"]) for match in _OR_LETTER.finditer(sentence)}
    return {letter, CONFLICT} if others - {letter} else {letter}


def _without_bullet(line: str) -> str:
    bullet = _BULLET.match(line)
    return line[bullet.end() :] if bullet else line
