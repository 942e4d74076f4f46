"""Options that a few words name: the words after "The answer is", or the beginning of a line.

The reader of choices (`choice`) decides which words count. Two options, or a letter next to another option's text, give
several places, or `options.CONFLICT`.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from .letters import DENIED, find_letters, find_letters_with_texts, get_letter_index
from .markup import CROSS
from .options import CONFLICT, Options
from .outcome import Evidence
from .words import words

SENTENCE_END = re.compile(r"(?:(?<![^\w][A-Z])(?<!\A[A-Z])(?<!\bvs)(?<!\be\.g)(?<!\bi\.e)[.](?=\s|$)|[;!?\n])+")
# The reply "No, ...", not the "No" of "No edema"
NO = re.compile(r"\b(no)\s?(?:[,:;.!—–]|-\s)(?=\s?\w)", re.IGNORECASE)
# After these words comes a reason or a comparison, which chooses nothing.
_REASON = re.compile(r"\b(?:because|since|as|due|given)\b", re.IGNORECASE)
COMPARED = re.compile(r",? ?\b(?:whereas|while|although|though)\b", re.IGNORECASE)
# Words after "The answer is".
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
    r" (?:option|choice|statement|answer|one)\b",
    re.IGNORECASE,
)
_NUMBERED = re.compile(r"(?:option|choice|answer|number) (?P<number>[1-9])")
_ORDINALS = {"fir": 0, "1st": 0, "sec": 1, "2nd": 1, "thi": 2, "3rd": 2, "fou": 3, "4th": 3, "fif": 4, "5th": 4}
_LETTER = re.compile(
    r"(?P<open>[(\[]?) ?(?P<letter>[A-Za-z])"
    r"(?:(?P<close> ?[)\]])|(?P<stop> ?[.:,;!](?!\w)|[.:](?=[A-Z][a-z]{2})| ?[-–—=](?=\s))|(?=\s|$|[.:,;!/&+\-]))"
)
_MORE_LETTERS = re.compile(
    r"(?:[.)\]]?\s?(?:,|/|&|\+|\band\b|\bor\b)\s?|[)\]]?\s(?=[(\[A-Z])|[)\]]?(?=[(\[]))(?:and |or )?"
    r"(?:option |choice )?[(\[]?(?P<letter>[A-Z])(?![\w'’])(?!\s(?!(?:and|or|are|both|seem|appear|remain|fit|match"
    r"|apply|look|could|may|might|can)\b)[a-z])"
)
_OR_LETTER = re.compile(
    r"\b(?:or|(?:could|may|might) (?:also )?be)\W{1,3}(?:option |choice )?[(\[]?(?P<letter>[A-Z])\b(?![\w'’])"
)
_MORE_TEXT = re.compile(r" (?:and|or|with|as well as|but could be|but may be)\b")
_ABBREVIATION = re.compile(r"[A-Za-z]\.[A-Za-z]\b|[A-Za-z]-\w")  # "e.g.", "A.P. view", "X-ray"
# Words that may follow a letter without a stop. "A" and "I" may be words, so they need stronger evidence.
_AFTER_BARE = re.compile(
    r" (?:because|since|as|due|given|but|although|though|while|rather than|instead of|and|or|not)\b|[,/&+]| ?>"
)
_AFTER_BARE_A = re.compile(r" \((?:correct|confidence)|[ (\[]*\d{1,3} ?%| (?:which|with|based|for|is)\b|\n")
_CONFIDENCE = re.compile(
    r" ?[(\[](?:[^)\]]{0,20}\b(?:confiden\w+|certain\w*|sure|likely|probability)\b|~?\d{1,3} ?%)", re.I
)
_ONLY_NAMED = re.compile(  # "Option B (edema) would look white"
    r"(?: ?[(\[][^)\]]{1,60}[)\]])? (?:would (?!be (?:my|the|a|correct|right|best|most)\b)(?!(?:fit|match|explain"
    r"|seem|appear)\b)"
    r"|refers to|stands for|means|corresponds to|is (?:defined|described|listed|characteri[sz]ed)\b)"
)
_DECLINED = re.compile(r".{1,6}\bI (?:can ?not|can't|am unable)", re.IGNORECASE)  # "A. I cannot see the image"
_WRONG_ALONE = re.compile(  # after "A:"
    r" ?(?:very |highly )?(?:wrong|incorrect|false|unlikely|improbable|implausible|less likely|excluded|eliminated"
    r"|rejected|ruled out)\b",
    re.IGNORECASE,
)
_BULLET = re.compile(r"[\s>#•\-–+]*(?:(?:step ?)?\d{1,2} ?[.):\-] )?", re.IGNORECASE)
_ALONE = re.compile(r"(?:(?:option|choice) )?[(\[]? ?([A-Za-z]) ?[)\]]? ?[.:,;!]? ?", re.IGNORECASE)


class Named(NamedTuple):
    """Options that words name.

    Attributes:
        places: Their indices; several, or `options.CONFLICT`, if the words name more than one.
        evidence: The source of the choice.
        declined: Whether the words decline to choose an option.
    """

    places: set[int]
    evidence: Evidence = ""
    declined: bool = False

    def __or__(self, other_named: Named) -> Named:
        places = self.places | other_named.places
        return Named(
            places, self.evidence or other_named.evidence, (self.declined or other_named.declined) and not places
        )


NOTHING = Named(set())
_NO_OPTION = (
    (_UNKNOWN, Named(set(), declined=True)),
    (_NONE_OF_THEM, Named({CONFLICT}, "text")),
    (_DENIED_OBJECT, NOTHING),
)


def find_named_options(statement: str, choices: Options, *, value: bool = False) -> Named:
    """Find the option that the words after "The answer is" name.

    Args:
        statement: The words.
        choices: The question's options.
        value: Whether they are a JSON field or a box instead of a sentence.

    Returns:
        The options.
    """
    filler = _FILLER.match(statement)
    remaining = statement[filler.end() :] if filler else statement
    sentence = SENTENCE_END.split(remaining, maxsplit=1)[0]
    initial_places = choices.find_starting(sentence) or (
        choices.find_beginning_with(words(sentence)) if value else set()
    )
    if initial_places:
        is_reply = not choices.are_yes_and_no and NO.match(remaining)
        return Named({CONFLICT} if is_reply else _add_asserted(initial_places, sentence, choices), "text")
    for pattern, named_options in _NO_OPTION:
        if pattern.match(remaining):
            return named_options
    ordinal, letter = _ORDINAL.match(remaining), _LETTER.match(remaining)
    if ordinal:
        return Named({_ORDINALS.get(ordinal["place"].lower()[:3], choices.n - 1)}, "letter")
    if letter and (value or _is_letter(letter, remaining, choices)):
        return Named(
            _add_contradicting(get_letter_index(letter["letter"]), remaining[letter.end("letter") :], choices), "letter"
        )
    letters = find_letters(sentence, choices)
    return Named(find_asserted(_extract_choice(sentence), choices) | letters, "letter" if letters else "prose")


def find_ordinal(answer_words: str, choices: Options) -> int | None:
    """Find the option that an answer of few words names by its place: "the second option", "option 2".

    Args:
        answer_words: The words of the full answer (`words.words`).
        choices: The question's options.

    Returns:
        The index of the option; None if the answer says anything else.
    """
    if choices.find_options(answer_words):
        return None
    ordinal, numbered = _ORDINAL.fullmatch(answer_words), _NUMBERED.fullmatch(answer_words)
    if ordinal:
        return _ORDINALS.get(ordinal["place"].lower()[:3], choices.n - 1)
    # "Option 2" may be the option whose text is 2.
    is_place = numbered and not choices.find_options(numbered["number"])
    return int(numbered["number"]) - 1 if numbered and is_place else None


def find_asserted(text: str, choices: Options) -> set[int]:
    """Find the options that prose asserts; a negated option is asserted by the denial of its finding.

    Args:
        text: The text.
        choices: The question's options.

    Returns:
        Indices of the options.
    """
    reading = choices.read_prose(text)
    return reading.asserted | reading.negated


def find_opening_letter(line: str, choices: Options) -> set[int]:
    """Find the letter at the beginning of a line, and options that contradict it.

    Args:
        line: The line.
        choices: The question's options.

    Returns:
        Indices of the options.
    """
    line = _remove_bullet(line)
    tail = line[7:] if line[:7].casefold() in {"option ", "choice "} else line
    match = _LETTER.match(tail)
    if not match or _is_pronoun(match, choices) or (match["open"] and not match["close"]):
        return set()
    own_place = get_letter_index(match["letter"])
    own_words = choices.words[own_place] if own_place < choices.n else ""
    is_own_text = own_words and words(tail[match.end() :]).startswith(own_words)  # "C. Cannot be determined"
    is_denied = not is_own_text and any(DENIED.match(tail, end) for end in (match.end("letter"), match.end()))
    if (
        is_denied
        or _ONLY_NAMED.match(tail, match.end("letter"))
        or _DECLINED.match(tail)
        or tail[match.end() :].lstrip().startswith(CROSS)
    ):
        return set()
    letter, following_text, is_capital = (
        get_letter_index(match["letter"]),
        tail[match.end() :],
        match["letter"].isupper(),
    )
    if match["stop"] and _WRONG_ALONE.match(following_text) and not words(following_text).startswith(own_words or "?"):
        return set()
    if (
        match["close"]
        or (match["stop"] and not _ABBREVIATION.match(tail))
        or not following_text.strip()
        or (is_capital and (_AFTER_BARE.match(following_text) or _MORE_LETTERS.match(following_text)))
        or (is_capital and _CONFIDENCE.match(following_text))
        or (
            is_capital
            and own_words
            and words(following_text).startswith(own_words)
            and (match["letter"] not in "AI" or _is_full_text(following_text, own_words))
        )
    ):
        return _add_contradicting(letter, tail[match.end("letter") :], choices)
    # "B edema" if edema is another option; the "A" of "A pleural effusion" is an article.
    return (
        {letter, CONFLICT}
        if is_capital and match["letter"] not in "AI" and choices.find_starting(following_text)
        else set()
    )


def _is_full_text(following_text: str, own_words: str) -> bool:
    """Return whether only the option's own text follows an A or I: in "A pleural effusion is seen" A is an article."""
    text = r"\W+".join(map(re.escape, own_words.split()))
    return bool(re.match(rf"\W*{text}(?=\W*$|[^\S\n]*[.)])", following_text, re.IGNORECASE))


def find_single_letter(line: str, choices: Options) -> set[int]:
    """Find the letter that is the only content of a line, except for its bullet and brackets.

    Args:
        line: The line.
        choices: The question's options.

    Returns:
        The index of the option.
    """
    match = _ALONE.fullmatch(_remove_bullet(line))
    return {get_letter_index(match[1])} if match and (match[1] not in "Ii" or choices.n > 8) else set()


def merge_places(texts: set[int], letters: set[int], choices: Options) -> set[int]:
    """Merge texts and letters: if two options have the same text, the letter decides.

    Args:
        texts: Options named by their texts.
        letters: Options named by their letters.
        choices: The question's options.

    Returns:
        Indices of the options.
    """
    is_one_text = len({choices.words[place] for place in texts}) == 1
    return letters if is_one_text and len(letters) == 1 and letters < texts else texts | letters


def _is_letter(match: re.Match[str], text: str, choices: Options) -> bool:
    """Return whether a letter at the beginning of words names an option and is not an article or a pronoun.

    A letter with a bracket or stop does, and one that stands alone; a small one only then. A bare A or I with text
    after it does only if the text goes on with a reason, a list, a confidence or the words of option A.
    """
    is_marked = bool(match["open"] or match["close"] or match["stop"])
    letter, following_text = match["letter"], text[match.end() :]
    if _is_pronoun(match, choices):
        return False
    if is_marked or not following_text.strip() or letter.islower():
        return is_marked or not following_text.strip()
    own_words = choices.words[0] if choices.n else ""
    continuation = (
        _AFTER_BARE.match(following_text)
        or _AFTER_BARE_A.match(following_text)
        or (own_words and words(following_text).startswith(own_words))
    )
    return letter not in "AI" or bool(continuation)


def _is_pronoun(match: re.Match[str], choices: Options) -> bool:
    return match["letter"] in "Ii" and choices.n < 9 and not match["open"]


def _extract_choice(sentence: str) -> str:
    """Extract the part of a sentence before its reason and its comparisons."""
    return COMPARED.split(_REASON.split(sentence, maxsplit=1)[0], maxsplit=1)[0]


def _add_asserted(initial_places: set[int], sentence: str, choices: Options) -> set[int]:
    """Add to the options at the beginning of a sentence those that the sentence also asserts."""
    texts = {choices.words[place] for place in initial_places}
    asserted_places = {
        place for place in find_asserted(_extract_choice(sentence), choices) if choices.words[place] not in texts
    }
    letters = find_letters(sentence, choices)
    return (
        merge_places(initial_places, letters, choices) | asserted_places
        if len(letters) == 1
        else initial_places | asserted_places
    )


def _add_contradicting(letter: int, following_text: str, choices: Options) -> set[int]:
    """Add to a letter the options that contradict it: another option's text or letter on its line."""
    own_words = choices.words[letter] if letter < choices.n else None
    sentence = SENTENCE_END.split(following_text.lstrip(" .:,;)]-–—="), maxsplit=1)[0]
    following_words = words(sentence)
    if own_words and following_words.startswith(own_words):
        sentence = sentence if _MORE_TEXT.match(following_words[len(own_words) :]) else ""
    elif (next_letter := _MORE_LETTERS.match(following_text)) and get_letter_index(next_letter["letter"]) != letter:
        return {letter, CONFLICT}
    if following_words in choices.words and following_words != own_words:  # "A. No" where A is yes
        return {letter, CONFLICT}
    if letter in choices.read_prose(sentence).denied:  # "A. No pneumonia is seen."
        return {letter, CONFLICT}
    other_places = {
        place for place in find_asserted(_extract_choice(sentence), choices) if choices.words[place] != own_words
    }
    other_places |= find_letters_with_texts(following_text.split("\n", maxsplit=1)[0], choices)
    other_places |= {get_letter_index(match["letter"]) for match in _OR_LETTER.finditer(sentence)}
    return {letter, CONFLICT} if other_places - {letter} else {letter}


def _remove_bullet(line: str) -> str:
    bullet = _BULLET.match(line)
    return line[bullet.end() :] if bullet else line
