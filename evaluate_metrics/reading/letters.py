"""Letters that name an option, and letters that do not: articles, pronouns, "hepatitis B", "point A", "E. coli"."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice

from .options import MOST, Options
from .scope import COPULA, find_standings
from .words import words

# Words that may precede a letter that names an option; after any other word it names something else.
_BEFORE_LETTER = (
    r"(?:options?|choices?|letters?|answers?|choose|select|pick|chose|is|be|with|and|or|nor|than|not|neither"
    r"|either|both|only"
    r"|so|thus|s|think|say|believe|guess|to|therefore|hence|of|but|for|likely|probably|was|are|diagnosis|correct"
    r"|maybe|it|definitely|certainly|surely|clearly|just|rather|leaves|leaving|over|prefer|favou?r(?:s|ing)?|lean(?:ing)?|towards?|doubt|doubtful|that"
    r"|suggests?|supports?|indicates?|favou?red)"
)
_NAME = re.compile(
    rf"\b(?=[A-Za-z]+ [A-Z])(?!(?i:{_BEFORE_LETTER})\b)[A-Za-z]+ [A-Z](?: ?(?:,|/|\band\b|\bor\b) ?[A-Z])*(?![\w'’-])"
)
# "N/A", and phrases that only quote an option.
_NO_LETTER = re.compile(
    r"\bN/A\b|\be\.g\. [A-Z]\b|\b(?:[Oo]ption|[Cc]hoice) [A-Z](?= (?:states|says|means|claims|describes|refers"
    r"|reads|stands for|denotes|corresponds to|would)\b)"
)
_ANY = re.compile(r"\b[A-Z]\b|[(\[] ?[a-z] ?[)\]]|\b(?i:option|choice|letter) [a-z]\b")  # most texts have none
_LIST = re.compile(  # "A, B, C or D" lists the letters and chooses no letter
    r"[(\[]?\b[A-Z][)\]]?(?: ?[,/] ?(?:and |or )?[(\[]?[A-Z]\b[)\]]?)+(?: ?,? ?(?:and|or|&) [(\[]?[A-Z]\b[)\]]?)?"
)
_RANKING = re.compile(r"\b([A-Z])(?: ?> ?[A-Z]\b)+")  # "B > A > C" chooses B
_FORMS = tuple(
    re.compile(pattern)
    for pattern in (
        r"[(\[] ?(?P<letter>[A-Za-z]) ?[)\]]",
        r"\b(?:[Oo]ption|[Cc]hoice|[Ll]etter|[Cc]hoose|[Ss]elect|[Pp]ick|go with)s? (?P<letter>[A-Z])\b(?![-'’])",
        r"\b(?:[Oo]ption|[Cc]hoice|[Ll]etter) (?P<letter>[a-z])(?= ?(?:$|[.,;:!])| (?:is|seems|applies)\b)",
        r"(?<![\w.'’-])(?P<letter>[A-Z])(?=[.)](?:\s|$)|\s?(?:\n|$)|\s(?:is|seems|appears|applies|fits|matches"
        r"|remains|looks|wins|must be|it is|for sure|alone|best (?:fits|describes|matches))\b"
        r"|,? (?:rather than|instead of|and not|not|over)\b| (?:and|or) [A-Z]\b(?![-'’]))",
        r"\b(?:[Ii]t is|[Ii]t's|[Aa]nswer is) (?P<letter>[A-Z])(?=,)",
        r"(?<=[A-Z] and )(?P<letter>[A-Z])\b(?![-'’])",
        r"(?<=[A-Z] or )(?P<letter>[A-Z])\b(?![-'’])",
    )
)
# Before an option's letter: "not B", "I would not choose B", "it can't be B", "I doubt that it's B", "anything but B".
_VERB_OF_CHOICE = (
    r"(?:be|choose|pick|select|take|think|believe|say|feel|suppose|agree with|go with|go for|opt for|going (?:with"
    r"|for)|support|accept"
    r"|recommend|favou?r|consider|endorse|confirm|justify|match|fit|show|correspond to)"
)
_DENIED_BEFORE = re.compile(
    r"\b(?:(?:neither|nor|than|over|except(?: for)?|instead of|rather than|unlike|to"
    r"|(?:eliminat|exclud|reject|dismiss|discard)(?:e|es|ed|ing|s)?|rul(?:e|es|ed|ing) out"
    r"|(?:any(?:thing| option)?|every(?:thing| option)?|all(?: options| of them)?) but"
    rf"|(?:not|cannot|never|\w+n't)(?: (?:\w+ly )?{_VERB_OF_CHOICE})?"
    rf"|(?:not|cannot|never|\w+n't) (?:\w+ly )?{_VERB_OF_CHOICE} (?:that )?(?:it is|it's|this is|that is|that"
    rf"|the answer is)"
    r"|disagree with|(?:hesitat\w+|refus\w+|declin\w+|unable|reluctant|unwilling) to \w+"
    r"|(?:nobody|no one|someone|some|others?|people|one|you|they|he|she|many|students?|users?)"
    r"(?: (?:would|may|might|could|can|will|has|have|had))? (?:choose|chose|chosen|pick|picked|select|selected|say"
    r"|says|said)|(?:prompts?|users?|reports?|question|you|others?) suggest(?:s|ed)?"
    r"|(?:tempted|going|about) to (?:choose|pick|select|say)"
    r"|\b[0-4]?\d ?% (?:sure|certain|chance|probability|likelihood)(?: that| of)?(?: (?:it is|it's|this is))?"
    r"|doubt(?:s|ed|ful)?(?: (?:that|if|whether))?(?: (?:it is|it's|this is|the answer is))?"
    r") (?:(?:the )?(?:option|choice|answer)s? )?|(?:not|excluded|eliminated|rejected|ruled out|format) ?: ?|(?:^"
    r"|\n) ?\(incorrect\) ?"
    r"|(?:não é|non è|n'est pas|no es|не|không phải(?: là)?|nicht) (?:la |el |le |die )?(?:option |opción )?"
    r"|不(?:应该?)?(?:选择?|是) ?"
    r")[(\[]? ?$",
    re.IGNORECASE,
)
# After an option's letter: more letters, which are denied with it: "B and C are wrong". Not so in "B, C is wrong".
_JOINED_LETTERS = (
    r"(?:[)\].]{0,2}(?:,? (?:and also|and|or|as well as) "
    r"|(?: ?[/&] ?|, ?(?![A-Z]\b[)\]]? (?:is|was|seems|appears|does)(?:n't)?\b))(?:and |or )?)"
    r"(?:[Oo]ption |[Cc]hoice )?[(\[]?(?!I\b)[A-Z]\b){0,6}[)\]]{0,2}"
)
# A predicate that says that an option is wrong. "A is absent" does not: the question may ask for what is absent.
_DENYING = (
    rf"(?:(?i:{COPULA}|could be)"
    r"(?: (?i:both|all|each|also|very|quite|rather|therefore|thus|then|most|\w+ly)){0,3}"
    r" (?i:not|hardly|scarcely|far from|anything but|wrong|incorrect|false|less|least likely|unlikely|improbable"
    r"|implausible|inconsistent|unsupported|out"
    r"|ruled out|excluded|eliminated|dismissed|rejected|discarded)"
    r"|(?i:fits|matches|applies|describes it) (?i:worst|least|poorly|badly|less)"
    r"|(?i:isn't|aren't|wasn't|weren't|doesn't|don't|didn't|cannot|can't|(?:do|does|did|can) not))\b"
)
DENIED = re.compile(rf"{_JOINED_LETTERS} ?(?:[(\[][^)\]]{{1,60}}[)\]] ?|, which [^,]{{1,60}}, )?{_DENYING}")
_DENIED_AFTER = re.compile(
    rf"{DENIED.pattern}|{_JOINED_LETTERS} ?(?:[^.,;\n]{{0,40}}? )?"
    r"(?i:(?:is|are|seems?|can be|was|does|do|would|could|may|might|has|have) (?:both |all |clearly |also )?"
    r"(?:not|wrong|incorrect|false|less|unlikely|ruled out|excluded|eliminated|show|be|apply)\b)"
)
_PREDICATE = re.compile(r"[)\]]? (?:is|are|was|were|seems?|appears?|looks?|remains?)\b", re.IGNORECASE)
# What is said of the option that is chosen: "is present", "is my choice", "is more likely". Nothing else chooses it.
_ASSERTING = re.compile(
    r"(?:,? (?:the|my|our|an?|most|more|much|far|very|well|also|both|all|likely|probable|indeed|to be|be|only|single"
    r"|final|overall"
    r"|best|good|obvious|clear|strong|correct|right|preferred|chosen|selected|\w+ly)){0,6}"
    r",? (?:correct|right|true|best|better|good|likely|likeliest|probable|plausible|possible|accurate|appropriate"
    r"|suitable"
    r"|consistent|compatible|supported|suggested|indicated|favou?red|preferred|present|seen|visible|shown|evident|there"
    r"|demonstrated|depicted|identified|noted|observed|found|detected|confirmed|valid|reasonable|fitting|answer|choice|option"
    r"|one|ones|finding|diagnosis|pick|selection|winner|match|fit|it|what|closest|closer|strongest|stronger|obvious|clear"
    r"|apparent|selected|chosen|similar|darker|brighter|larger|visible|in line|in keeping)(?![\w'’])"
    r"|\s*$",
    re.IGNORECASE,
)
_LETTER_BEFORE_TEXT = re.compile(r"(?<![\w.'’-])(?P<letter>[A-Z]) ?[.):\]] ?(?=\w)")
_MAX_TEXT = 200  # characters after a letter that may contain its option's text


def get_letter_index(letter: str) -> int:
    """Return the index of a letter's option: 0 for A.

    Args:
        letter: A letter in either case.

    Returns:
        The index.
    """
    return ord(letter.upper()) - ord("A")


def is_denied_before(text: str, start: int) -> bool:
    """Whether the words immediately before `start` deny what follows.

    Args:
        text: The text.
        start: The position.

    Returns:
        True for a denial.
    """
    return bool(_DENIED_BEFORE.search(text[max(start - 40, 0) : start]))


def find_letters(text: str, options: Options) -> set[int]:
    """Find the options whose letters a text names and does not deny.

    Args:
        text: The text.
        options: The question's options.

    Returns:
        Indices of the options.
    """
    text = _LIST.sub(lambda match: match[0] if match[0].count(" ") < 3 else " ", options.remove_letter_texts(text))
    text = _RANKING.sub(r"\1", text)
    places: set[int] = set()
    for start, end, place in iterate_letter_places(text):
        is_denied = is_denied_before(text, start) or _DENIED_AFTER.match(text, end)
        if place not in places and not is_denied and _is_asserted_after(text, end, place, options):
            places.add(place)
    return places


def _is_asserted_after(text: str, end: int, place: int, options: Options) -> bool:
    """Whether the predicate of a letter that ends at `end`, if there is one, says that its option is right."""
    predicate = _PREDICATE.match(text, end)
    if predicate is None or _ASSERTING.match(text, predicate.end()):
        return True
    own_text = options.words[place] if place < options.n else ""
    return bool(own_text) and own_text in words(text[predicate.end() : predicate.end() + _MAX_TEXT])


def iterate_letter_places(text: str) -> Iterator[tuple[int, int, int]]:
    """Iterate over (start, end, option) for every letter in a text that names an option.

    Args:
        text: The text.

    Yields:
        The span of the letter and the index of its option.
    """
    text = _NO_LETTER.sub(lambda name: "·" * len(name[0]), _NAME.sub(lambda name: "·" * len(name[0]), text))
    for form in _FORMS if _ANY.search(text) else ():
        for match in form.finditer(text):
            is_pronoun = match["letter"] in "Ii" and match[0][0] not in "(["
            if not is_pronoun:
                yield *match.span("letter"), get_letter_index(match["letter"])


def find_letters_with_texts(line: str, options: Options, *, prefix: bool = False) -> set[int]:
    """Find letters before their option's text, as in a list of the options, that are not denied.

    Args:
        line: A line, or a sentence.
        options: The question's options.
        prefix: Whether the first two words of a longer text are enough; the letter must then follow other words.

    Returns:
        Indices of the options.
    """
    places: set[int] = set()
    for match in islice(_LETTER_BEFORE_TEXT.finditer(line), MOST):
        place = get_letter_index(match["letter"])
        text = options.words[place] if place < options.n else ""
        following_words = words(line[match.end() : match.end() + _MAX_TEXT])
        if prefix and not following_words.startswith(text):
            text = " ".join(text.split()[:2])
        if (
            text
            and f"{following_words} ".startswith(f"{text} ")
            and (not prefix or (re.search(r"\w", line[: match.start()]) and (" " in text or text in options.words)))
            and find_standings(following_words, [(0, len(text))]) == ["asserted"]
            and not is_denied_before(line, match.start())
        ):
            places.add(place)
    return places
