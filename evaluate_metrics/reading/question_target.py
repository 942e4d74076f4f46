"""What a yes/no question asks about, and what sentences say of just that.

A sentence counts where it names what was asked: the disease by any of its names, or all the question's words of
meaning. It does not count where it leaves open whether the thing is there, speaks of such things in general, refuses to
tell, or speaks of another side or level of the lungs than the one asked about.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import islice
from typing import Literal, NamedTuple

from .clauses import Clause, split_clauses
from .cues import classify
from .diseases import names_in
from .scope import Standing, standings
from .words import word_set, words

Saying = Literal["yes", "no"]


class Asked(NamedTuple):
    """labels: the diseases that a question names (`disease_names`). content: its words of meaning. generic: it asks for
    any abnormality. sides, levels: those of the region ("left", "lower"). denies: it asks whether something is absent.
    of_subject: it asks whether a thing, named by all words of content but the last, is what the last one says.
    weighs: it asks what may be ("suspicious for"). organs: the parts of the body that it names.
    """

    labels: frozenset[str]
    content: tuple[str, ...]
    generic: bool
    sides: frozenset[str]
    levels: frozenset[str]
    denies: bool
    of_subject: bool
    weighs: bool = False
    organs: frozenset[str] = frozenset()


_LEFT, _RIGHT = frozenset({"left"}), frozenset({"right"})
_SIDES = {
    **dict.fromkeys(("left", "gauche", "izquierdo", "izquierda", "esquerdo", "esquerda", "links", "linken"), _LEFT),
    **dict.fromkeys(
        ("right", "droit", "droite", "derecho", "derecha", "direito", "direita", "rechts", "rechten"), _RIGHT
    ),
    **dict.fromkeys(("both", "bilateral", "bilaterally"), _LEFT | _RIGHT),
}
_LEVELS = {
    **dict.fromkeys(("upper", "apical", "apex"), frozenset({"upper"})),
    **dict.fromkeys(("middle", "mid"), frozenset({"middle"})),
    **dict.fromkeys(("lower", "basal", "base", "basilar"), frozenset({"lower"})),
}
_GENERIC = word_set(
    """
    abnormal abnormalities abnormality anything disease diseases finding findings lesion lesions pathologic
    pathological pathologies pathology something unusual wrong
    """
)
_PASSED_OVER = word_set(  # words of a question that say nothing of what it asks for
    """
    a actually affect affected also am an and answer any apparent appear appears are area areas as at based be
    been being by can change changes chest clear consistent contain contained contains could current currently da
    dans de definite del demonstrate demonstrated demonstrates depict depicts des detect detected did do does done
    du el em en est está evidence evident exam exhibit exhibits feature features field fields film find following
    for form found frame from frontal given had has have having hay he hemithorax her here him há i identified
    identify if il image images in indicate indicated indicates indication indications inferior is it its kind l
    la las le les likely lobe lobes lobo look looking looks los lung lungs may me might must no not note noted
    observa observe observed obvious of on or part parts photo picture pictures please presence present provided
    que radiograph radiographs ray region regions reveal reveals represent represents s scan se see seen she
    should show showing shown shows side sided sign signs some study suffer suffering suffers suggest suggested
    suggestive suggests superior suspicious t taken that the their them there these they this those to type um uma
    un una une us used ve view visible visual voit was we were what where whether which will with would x xray y
    yes you your zone zones à
    """
)
_ABSENCE = re.compile(r"\b(?:free (?:of|from)|clear of|without|absence of|absent|negative for)\b", re.IGNORECASE)
_CIRCUMSTANCE = re.compile(
    r"\b(?:(?:in|of|on) (?:this|these|a|the) (?:patient|person|image|picture|scan|film)|with (?:a )?known)\b",
    re.IGNORECASE,
)
_CJK = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_TABLE_HEADER = re.compile(r"^ *\|.*\n *\|[ :|-]+$", re.MULTILINE)  # names what the rows are about, and says nothing
_CJK_CLAUSE_END = re.compile(r"[，。；！？,.;!?\n]")
_CJK_DENIAL = re.compile(r"未见|未发现|没有|無|无(?!法)|不存在|未|不明显")
_CJK_UNKNOWN = re.compile(r"可能|无法|不能|难以|不确定")
_SHOWS = re.compile(
    r"(?:do|does|did) .{1,80}? (?:show|have|demonstrate|contain|reveal|exhibit|display|suffer from|indicate|depict) "
)
_IS_THERE = re.compile(
    r"(?:is|are|was|were) there |(?:do|can) you see |(?:is|are) .{1,60} (?:seen|visible|present|evident|involved"
    r"|used|shown)\b"
)
_PLACE = re.compile(r" (?:in|on|within|inside|at|near) (?:the|this|that|these|a|an|his|her|their)\b")
_COPULA = re.compile(
    r"(?:\b(?:(?:is|are|was|were|do|does|did)n't|is|are|was|were|be|looks?|appears?|seems?|remains?|lies?|sits?|shows?"
    r"|represents?|demonstrates?|call|consider)\b|'s\b)[^;]{0,40}$"
)
_IS_THE = re.compile(r"(?:is|are|was|were) (?:the|this|that|these|those) ")
_PRONOUN = re.compile(r"\b(?:it|this|that|they|these)(?:'s| s| is| are| appears?| looks?| seems?)\b")
_CJK_ASKS = re.compile(r"是否|有没有|是不是|有无|吗|呢|存在|可见|显示|图像|图中|影像|这张|该|中|有|的")

_WORD = re.compile(r"[^\W_]+")
_IN_SUCH = re.compile(r"(?:^|, ?)in (?:\w+ ){0,2}$")  # "in tension pneumothorax, the trachea is displaced"
_NOT_THERE = re.compile(r"\bnot (?:in |on |at )?(?:the )?(left|right)\b")
_IT_IS = re.compile(r"\W*(?:it|this|that|which)(?:'s| s| is| lies| appears)\b")
_CONCLUDES = re.compile(
    r"\s*(?:and |so )?(?:therefore|thus|hence|so|consequently|in (?:conclusion|summary)|overall|conclusion|impression"
    r"|to summarize)\b"
)
_NO_ABNORMALITY = re.compile(
    r"\b(?:no|without|not \w+|free of|absence of)\s+(?:\w+\s+){0,4}?(?:abnormal\w*|patholog\w+|disease|findings?)\b"
)
_OTHER = re.compile(r"\b(?:other|additional|further|another|else)\b")
_GENERIC_NAMES = re.compile(
    r"\b(?:patholog\w+|abnormal\w*|anomal\w+|findings?|diseases?|lesions?|disorders?"
    r"|anything (?:abnormal|wrong|unusual))\b"
)
_WELL = frozenset({"normal", "clear", "healthy", "intact", "unremarkable"})
_ALL_NORMAL = re.compile(  # of the whole image
    r"\b(?:normal|unremarkable)(?= (?:\w+ ){0,3}?(?:x ray|xray|radiograph|image|scan|film|study|exam\w*)\b)"
)
_UNWELL = re.compile(r"\b(?:abnormal\w*|unhealthy|diseased|pathologic(?:al)?|patholog(?:y|ies)|sick|damaged)\b")
_OTHER_CLEAR = re.compile(r"\bclear(?:er|ly)? (?:answer|evidence|image|view|picture|sign|indication|or|and of)\b")
_ORGAN = re.compile(
    r"\b(?:lung|heart|cardi|mediastin|aort|bone|rib|pleura|trachea|diaphragm|liver|kidney|spleen|brain|bowel|abdom"
    r"|vertebra|spine)"
)
_CONTRARY: dict[Saying, Saying] = {"yes": "no", "no": "yes"}
_NORMAL_HEART = re.compile(r"\b(?:heart|cardiac)\b.*\bnormal\b|\bnormal (?:heart|cardiac)\b")
_ENLARGED_HEART = re.compile(
    r"\b(?:heart|cardiac\w*)\b.{0,60}?\b(?:enlarge\w*|big|bigger|large)\b|\benlarge\w* (?:heart|cardiac)"
)
_HEALTHY = {  # sentences that deny a disease without its name
    "Cardiomegaly": re.compile(
        r"\bnormal (?:heart|cardiac) (?:size|silhouette)\b"
        r"|\b(?:heart|cardiac|cardiomediastinal)(?: silhouette)?(?: size)?(?: and \w+)?"
        r" (?:is|are|appears?|remains?|looks?)(?: \w+ly)?(?: to be)? (?:of )?"
        r"(?:normal|within normal|unremarkable|not enlarged)"
    ),
    "Aortic enlargement": re.compile(
        r"\baorta (?:is|appears) (?:\w+ly )?(?:normal|unremarkable)|\bnormal(?: size of the)? aorta\b"
    ),
}
SENTENCE_END = re.compile(r"(?<![.;!\n])[.;!\n]+(?=\s|$)|(?<=\?)|[。！；]")
_MOST = 40  # mentions in a clause that are looked at; one with more is noise
_WINDOW = 200  # characters around a mention that are looked at


@lru_cache(maxsize=4096)
def asked_by(question: str) -> Asked | None:
    """What a question asks about; None where it names nothing.

    >>> asked_by("Is there consolidation in the left lower lung?")[:2]
    (frozenset({'Consolidation'}), ('consolidation',))
    """
    last_line = _CJK_ASKS.sub(" ", question).strip().rsplit("\n", 1)[-1]
    plain = words(_CIRCUMSTANCE.split(last_line, maxsplit=1)[0])
    said = plain.split()
    labels = {label for label, _, _ in names_in(plain)} | (
        {"Cardiomegaly"} if _ENLARGED_HEART.search(plain) or _NORMAL_HEART.search(plain) else set()
    )
    regions = _PASSED_OVER | set(_SIDES) | set(_LEVELS)
    shown = _SHOWS.match(plain)
    content = _content(plain[shown.end() :] if shown else plain, regions)
    there = _content(_PLACE.split(plain, maxsplit=1)[0], regions) if _IS_THERE.match(plain) else ()
    if there and not set(there) <= _GENERIC:  # "Is there a stone in the bladder?" asks for the stone
        content = there
    content = content or tuple(sorted(_WELL & set(said)))  # "Is the lung clear?"
    if _IS_THE.match(plain) and said[-1] in ("bilateral", "unilateral"):  # asks of what kind a thing is, not where
        content, said = (*content, said[-1]), []
    denies = bool(_ABSENCE.search(question))
    of_subject = bool(_IS_THE.match(plain)) and len(content) > 1 and not denies
    if of_subject and labels != {"Cardiomegaly"}:  # "Is the mass malignant?" does not ask whether there is a mass
        labels = set()
    if not (labels or content):
        return None
    return Asked(
        labels=frozenset(labels),
        content=content,
        generic=bool(content) and set(content) <= _GENERIC,
        sides=_region(said, _SIDES),
        levels=_region(said, _LEVELS),
        denies=denies,
        of_subject=of_subject,
        weighs=classify(plain) == "weigh",
        organs=frozenset(organ[0] for organ in _ORGAN.finditer(plain)),
    )


def _content(plain: str, passed_over: Collection[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(word for word in plain.split() if word not in passed_over and not word.isdigit()))


def says_about(text: str, asked: Asked) -> set[Saying]:
    """Whether the clauses of a text say yes or no to what was asked; both where they differ and none concludes."""
    found: set[Saying] = set()
    concluded: set[Saying] = set()
    text = _TABLE_HEADER.sub("", text)
    clauses = [*_cjk_clauses(text)] if any(map(_CJK.search, asked.content)) else [*split_clauses(text)]
    for number, clause in enumerate(clauses):
        states = clause.act == "state" or (asked.weighs and clause.act == "weigh")
        here = set(_of_clause(clause, asked)) if states else set()
        following = clauses[number + 1].text if number + 1 < len(clauses) else ""
        if _IT_IS.match(following) and _elsewhere(following, asked):  # "There is an effusion, but it is on the left"
            here.discard("yes")
        found |= here
        if here and (_CONCLUDES.match(clause.text) or (number and _CONCLUDES.fullmatch(clauses[number - 1].text))):
            concluded = here
    found = concluded if len(found) > 1 and concluded else found
    return {_CONTRARY[one] for one in found} if asked.denies else found


def contradicts(text: str, replied: set[Saying], asked: Asked) -> bool:
    """Whether sentences state the contrary of a reply, and nothing else: "Yes. ... No grasper can be seen"."""
    if asked.generic or _WELL & set(asked.content):
        return False
    said = says_about(text, asked)
    return len(said) == 1 and said != replied


def _cjk_clauses(text: str) -> Iterator[Clause]:
    """The clauses of a text in Chinese or Japanese, which `clauses.plain` does not keep."""
    for part in _CJK_CLAUSE_END.split(text):
        yield Clause(part, 0, "decline" if _CJK_UNKNOWN.search(part) else "state")


def _region(said: Collection[str], names: dict[str, frozenset[str]]) -> frozenset[str]:
    return frozenset[str]().union(*(names[word] for word in names.keys() & set(said)))


def _of_clause(clause: Clause, asked: Asked) -> Iterator[Saying]:
    if _WELL & set(asked.content):
        said = list(_of_health(clause, asked))
        yield from said or [_CONTRARY[one] for one in _of_names(clause, asked) if asked.labels]
    else:
        yield from _of_names(clause, asked)


def _say(holds: bool) -> Saying:
    return "yes" if holds else "no"


def _say_contrary(found: Iterable[Standing]) -> Iterator[Saying]:
    for standing in found:
        if standing != "open":
            yield _say(standing == "denied")


def _of_names(clause: Clause, asked: Asked) -> Iterator[Saying]:
    """What a clause says by the names of what was asked."""
    words = clause.text
    spans = list(islice(_spans(words, asked), _MOST))
    if not spans:
        plain = " ".join(words.split())
        healthy = any(_HEALTHY[label].search(plain) for label in asked.labels & set(_HEALTHY))
        none_at_all = not asked.generic and _NO_ABNORMALITY.search(plain) and not _OTHER.search(plain)
        if healthy or (none_at_all and not _elsewhere(words, asked)):
            yield "no"
        normal = [match.span() for match in islice(_ALL_NORMAL.finditer(words), _MOST)] if asked.generic else []
        yield from _say_contrary(_standings(clause, normal))
    elsewhere = _elsewhere(words, asked)
    for (start, end), standing in zip(spans, _standings(clause, spans), strict=True):
        # A window is enough, and keeps what a very long clause costs in proportion to its length.
        around = words[max(start - _WINDOW, 0) : end + _WINDOW]
        if standing == "open" or _IN_SUCH.search(words[max(start - _WINDOW, 0) : start]):
            continue
        not_there = _NOT_THERE.search(around)
        if not_there and standing != "denied":
            yield _say(asked.sides != {not_there[1]})
        elif not elsewhere:
            yield _say(standing != "denied")


def _of_health(clause: Clause, asked: Asked) -> Iterator[Saying]:
    """What a clause says to a question such as "Is the heart normal?"."""
    words = clause.text
    organs = {organ[0] for organ in _ORGAN.finditer(words)}
    if organs and asked.organs and not organs & asked.organs:
        return
    spans = _content_spans(words, asked)
    one_side = len(_region(_WORD.findall(words), _SIDES)) == 1 and not asked.sides  # "The right lung is clear"
    of_other = _OTHER_CLEAR.search(words)  # "a clear answer"
    for standing in _standings(clause, spans) if not of_other else ():
        if standing == "denied" or (standing == "asserted" and not one_side):
            yield _say(standing != "denied")
    unwell = [match.span() for match in islice(_UNWELL.finditer(words), _MOST)]
    yield from _say_contrary(_standings(clause, unwell))


def _standings(clause: Clause, spans: Sequence[tuple[int, int]]) -> list[Standing]:
    if not clause.text.isascii() and _CJK.search(clause.text):
        return ["denied" if _CJK_DENIAL.search(clause.text) else "asserted"] * len(spans)
    return standings(clause.text, spans, denied=clause.denied)


def _elsewhere(clause: str, asked: Asked) -> bool:
    """Whether a clause speaks of another side or level than the one asked about."""
    said = _WORD.findall(clause)
    here = ((asked.sides, _region(said, _SIDES)), (asked.levels, _region(said, _LEVELS)))
    return any(own and other and not own & other for own, other in here)


def _spans(clause: str, asked: Asked) -> Iterator[tuple[int, int]]:
    """Where a clause names what was asked."""
    if asked.labels:
        yield from ((start, end) for label, start, end in names_in(clause) if label in asked.labels)
        if "Cardiomegaly" in asked.labels:
            yield from (match.span() for match in _ENLARGED_HEART.finditer(clause))
    elif asked.generic:
        yield from (match.span() for match in _GENERIC_NAMES.finditer(clause))
    else:
        yield from _content_spans(clause, asked)


def _content_spans(clause: str, asked: Asked) -> list[tuple[int, int]]:
    """Where a clause has all of the question's words of meaning, from the first of them to the last."""
    words_asked = asked.content[-1:] if asked.of_subject and _PRONOUN.search(clause) else asked.content
    places = [re.search(_form(word), clause) for word in words_asked]
    found = [place for place in places if place]
    anyhow = not asked.of_subject or _WELL & set(asked.content)
    if len(found) < len(places) or not (anyhow or _COPULA.search(clause[: found[-1].start()])):
        return []
    return [(min(place.start() for place in found), max(place.end() for place in found))]


def _form(word: str) -> str:
    """An expression for a word with other endings."""
    if _CJK.search(word):
        return re.escape(word)
    stem = re.sub(r"(?<=\w{3})(?:e?s|ed|ing|e?ment|al|ly|ion)$", "", word)
    return rf"\b{re.escape(stem)}\w{{0,5}}\b"
