"""What a yes/no question asks about, and what sentences say of just that.

A sentence counts where it names what was asked: the disease by any of its names, or all the question's words of
meaning. It does not count where it leaves open whether the thing is there, speaks of such things in general, refuses to
tell, or speaks of another side or level of the lungs than the one asked about.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from functools import lru_cache
from itertools import islice
from typing import Literal, NamedTuple

from .diseases import clauses_of, names_in, stands_denied
from .words import folded, words

Saying = Literal["yes", "no"]


class Asked(NamedTuple):
    """labels: the diseases that a question names (`disease_names`). content: its words of meaning. generic: it asks for
    any abnormality. sides, levels: those of the region ("left", "lower"). denies: it asks whether something is absent.
    of_subject: it asks whether a thing, named by all words of content but the last, is what the last one says.
    """

    labels: frozenset[str]
    content: tuple[str, ...]
    generic: bool
    sides: frozenset[str]
    levels: frozenset[str]
    denies: bool
    of_subject: bool


def _each(words_of: str) -> frozenset[str]:
    return frozenset(words_of.split())


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
_GENERIC = _each(
    """
    abnormal abnormalities abnormality anything disease diseases finding findings lesion lesions pathologic
    pathological pathologies pathology something unusual wrong
    """
)
_PASSED_OVER = _each(  # words of a question that say nothing of what it asks for
    """
    a actually affect affected also am an and answer any apparent appear appears are area areas as at based be been
    being by can change changes chest clear consistent contain contained contains could current currently da dans de
    definite del demonstrate demonstrated demonstrates depict depicts des detect detected did do does done du el em
    en est está evidence evident exam exhibit exhibits feature features field fields film find following for form
    found frame from frontal given had has have having hay he hemithorax her here him há i identified identify if il
    image images in indicate indicated indicates indication indications inferior is it its kind l la las le les
    likely lobe lobes lobo look looking looks los lung lungs may me might must no not note noted observa observe
    observed obvious of on or part parts photo picture pictures please presence present provided que radiograph
    radiographs ray region regions reveal reveals s scan se see seen she should show showing shown shows side sided
    sign signs some study suffer suffering suffers suggest suggested suggestive suggests superior suspicious t taken
    that the their them there these they this those to type um uma un una une us used ve view visible visual voit
    was we were what where whether which will with would x xray y yes you your zone zones à
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
_SHOWS = re.compile(
    r"(?:do|does|did) .{1,80}? (?:show|have|demonstrate|contain|reveal|exhibit|display|suffer from|indicate|depict) "
)
_IS_THERE = re.compile(
    r"(?:is|are|was|were) there |(?:do|can) you see |(?:is|are) .{1,60} (?:seen|visible|present|evident)\b"
)
_PLACE = re.compile(r" (?:in|on|within|inside|at|near) (?:the|this|that|these|a|an|his|her|their)\b")
_COPULA = re.compile(r"(?:\b(?:is|are|was|were|be|looks?|appears?|seems?|remains?|lies|sits)\b|'s\b)[^,;]{0,40}$")
_IS_THE = re.compile(r"(?:is|are|was|were) (?:the|this|that|these|those) ")
_PRONOUN = re.compile(r"\b(?:it|this|that|they|these)(?:'s| s| is| are| appears?| looks?| seems?)\b")
_CJK_ASKS = re.compile(r"是否|有没有|是不是|有无|吗|呢|存在|可见|显示|图像|图中|影像|这张|该|中|有|的")

_SEES = r"(?:seen|identified|noted|observed|detected|visuali[sz]ed|appreciated)"
_JUDGES = (
    r"(?:tell|told|determined?|confirm(?:ed)?|assess(?:ed)?|say|infer|diagnosed?|identify|rule|ruled|excluded?|provide"
    r"|evaluated?"
    r"|comment|answer)"
)
_HEDGE = re.compile(  # leaves open whether a thing is there, or speaks of such things in general
    r"\b(?:may|might|could|should|possibl[ey]|possibility|perhaps|presumabl[ey]|potential(?:ly)?|indeterminate|unknown"
    rf"|unclear|uncertain|equivocal|questionable|question of|suspected|can(?! be {_SEES}| see)"
    r"|would (?:be (?:\w+ed|necessary|helpful|better|best)|need|require|have|typically|usually|show"
    r"|appear|indicate|suggest|expect|look)"
    r"|difficult|challenging|hard to|determine|assess|evaluate|rule out|concerns?|concerned|diagnos[ie]s of"
    r"|\w+ diagnosis"
    r"|gold standard|to (?:\w+ly )?(?:confirm|exclude|diagnose|identify|detect|look)"
    r"|(?:need|have|want) to (?:look|check|examine)|without (?:proper|further|additional|more)"
    r"|(?:is|are) (?:seen|recogni[sz]ed|identified|known|described) (?:as|by)"
    r"|typically|usually|often|commonly|generally|sometimes|such as|e g|refers to|defined|characteri[sz]ed"
    r"|(?:is|are) (?:one of the|an?|the|often|also) (?:\w+ ){0,2}(?:signs?|features?|indicators?|causes?|hallmarks?) of"
    r"|(?<!there )(?:is|are) (?:an? |the )?(?:\w+ ){0,3}"
    r"(?:condition|term|sign|disease|type|form|pattern|accumulation|collection|disorder|cause)s?)\b|可能"
)
_CANNOT_TELL = re.compile(
    rf"\b(?:can not (?:be )?(?:\w+ly )?{_JUDGES}|unable to|impossible|(?:not possible|not able|not appropriate)"
    r"(?: for me)? to|not (?:say|call|claim)|not be (?:\w+ly )?(?:determined|confirmed|assessed))\b|无法|不能|难以"
)
_DENIED_BEFORE = re.compile(  # besides what denies a disease: "nothing pathological", other languages
    r"(?:\b(?:nothing|nobody|no one)\b(?: \w+){0,2} |\bneither of which is (?:\w+ ){0,2}"
    r"|\b(?:não|no hay|no se (?:observa|aprecia|ve|identifica)n?|sin|sem|nenhum\w*|ning[uú]n\w*|pas d|pas de|aucune?"
    r"|kein\w*|nicht|ohne|không|nessun\w*|senza)\b(?:\W+\w+){0,4}\W*|(?:未见|未发现|没有|無|无(?!法)|不存在|未)[^,.;]{0,8})$"
)
_DENIED_AFTER = re.compile(
    r"\W*(?:visible|present|seen|status|value)?\W*(?:false|no|absent|none|0)\b(?! \w)"
    r"|\W*(?:(?:is|are|was|were|does|do|did|has|have|can|could) )?(?:\w+ly )?(?:not|never)\b"
    r"|(?:征象)?(?:未见|不明显|不存在)"
)
_DENIED_WITHIN = re.compile(
    r"\b(?:rather than|instead of|out of|no longer|never)\b|未见|未发现|没有|不存在|无(?!法)|未"
)
_IN_SUCH = re.compile(r"(?:^|, ?)in (?:\w+ ){0,2}$")  # "in tension pneumothorax, the trachea is displaced"
# Where what a clause says of the thing itself ends, and its cause or consequence begins.
_TAIL = re.compile(
    r",| such as| in the form| which\b| and (?!no\b)| indicat| suggest| due to| because| consistent with"
)
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
_NOT_WELL = re.compile(r"\bnot (?:\w+ly )?(?:normal|clear|healthy|intact|unremarkable)\b|\babnormal\b")
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
    labels = {label for label, _, _ in names_in(plain)} | ({"Cardiomegaly"} if _ENLARGED_HEART.search(plain) else set())
    regions = _PASSED_OVER | set(_SIDES) | set(_LEVELS)
    shown = _SHOWS.match(plain)
    content = _content(plain[shown.end() :] if shown else plain, regions)
    there = _content(_PLACE.split(plain, maxsplit=1)[0], regions) if _IS_THERE.match(plain) else ()
    if there and not set(there) <= _GENERIC:  # "Is there a stone in the bladder?" asks for the stone
        content = there
    content = content or tuple(sorted(_WELL & set(said)))  # "Is the lung clear?"
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
    )


def _content(plain: str, passed_over: Collection[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(word for word in plain.split() if word not in passed_over and not word.isdigit()))


def says_about(text: str, asked: Asked) -> set[Saying]:
    """Whether the sentences of a text say yes or no to what was asked; both where they differ and none concludes."""
    if _WELL & set(asked.content) and _says_unwell(text):
        return {"no"}
    found: set[Saying] = set()
    concluded: set[Saying] = set()
    text = _TABLE_HEADER.sub("", text)
    in_cjk = any(_CJK.search(word) for word in asked.content)
    clauses = _CJK_CLAUSE_END.split(text) if in_cjk else list(clauses_of(text))
    for clause, following in zip(clauses, [*clauses[1:], ""], strict=False):
        here = set(_of_clause(clause, asked))
        if _IT_IS.match(following) and _elsewhere(following, asked):  # "There is an effusion, but it is on the left"
            here.discard("yes")
        found |= here
        if here and _CONCLUDES.match(clause):
            concluded = here
    found = concluded if len(found) > 1 and concluded else found
    return {"no" if one == "yes" else "yes" for one in found} if asked.denies else found


def contradicts(text: str, replied: set[Saying], asked: Asked) -> bool:
    """Whether sentences state the contrary of a reply, and nothing else: "Yes. ... No grasper can be seen"."""
    if asked.generic or _WELL & set(asked.content):
        return False
    said = says_about(text, asked)
    return len(said) == 1 and said != replied


def leaves_open(sentence: str) -> bool:
    """Whether a sentence says only what may be, what is so in general, or that it cannot be told."""
    return bool(_HEDGE.search(sentence) or _CANNOT_TELL.search(sentence))


def _region(said: list[str], names: dict[str, frozenset[str]]) -> frozenset[str]:
    return frozenset[str]().union(*(names.get(re.sub(r"\W", "", word), frozenset()) for word in said))


def _says_unwell(text: str) -> bool:
    """Whether a sentence says "not normal" or "abnormal" and leaves nothing open."""
    return any(_NOT_WELL.search(one) and not leaves_open(one) for one in SENTENCE_END.split(folded(text)))


def _of_clause(clause: str, asked: Asked) -> Iterator[Saying]:
    spans = list(islice(_spans(clause, asked), _MOST))
    if not spans:
        healthy = any(_HEALTHY[label].search(clause) for label in asked.labels & set(_HEALTHY))
        none_at_all = not asked.generic and _NO_ABNORMALITY.search(clause) and not _OTHER.search(clause)
        if healthy or (none_at_all and not _elsewhere(clause, asked) and not leaves_open(clause)):
            yield "no"
    for place in spans:
        # A window is enough, and keeps what a very long clause costs in proportion to its length.
        first = max(place[0] - _WINDOW, 0)
        around, start, end = clause[first : place[1] + _WINDOW], place[0] - first, place[1] - first
        denied = _denied(around, start, end) if not _WELL & set(asked.content) else False
        if _left_open(around, start, end, denied=denied):
            continue
        not_there = _NOT_THERE.search(around)
        if not_there and not denied:
            yield "no" if asked.sides == {not_there[1]} else "yes"
        elif not _elsewhere(clause, asked):
            yield "no" if denied else "yes"


def _denied(clause: str, start: int, end: int) -> bool:
    return bool(
        stands_denied(clause, start, end)
        or _DENIED_BEFORE.search(clause[:start])
        or _DENIED_AFTER.match(clause, end)
        or _DENIED_WITHIN.search(clause, start, end)
    )


def _left_open(clause: str, start: int, end: int, *, denied: bool) -> bool:
    """Whether what a clause says of the thing at [start, end) tells neither that it is there nor that it is not."""
    tail = _TAIL.search(clause, end)
    about = clause[: tail.start() if tail else len(clause)]
    if _CANNOT_TELL.search(about):
        return True
    if denied:  # "no effusion that could explain it" denies
        return bool(_HEDGE.search(clause[:start]))
    return bool(_HEDGE.search(about) or _IN_SUCH.search(clause[:start]))


def _elsewhere(clause: str, asked: Asked) -> bool:
    """Whether a clause speaks of another side or level than the one asked about."""
    said = clause.split()
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
        words_asked = asked.content[-1:] if asked.of_subject and _PRONOUN.search(clause) else asked.content
        places = [re.search(_form(word), clause) for word in words_asked]
        found = [place for place in places if place]
        if len(found) == len(places) and (not asked.of_subject or _COPULA.search(clause[: found[-1].start()])):
            yield min(place.start() for place in found), max(place.end() for place in found)


def _form(word: str) -> str:
    """An expression for a word with other endings."""
    if _CJK.search(word):
        return re.escape(word)
    stem = re.sub(r"(?<=\w{3})(?:e?s|ed|ing|e?ment|al|ly|ion)$", "", word)
    return rf"\b{re.escape(stem)}\w{{0,5}}\b"
