"""The target of a yes/no question, and what sentences say about it.

A sentence counts if it names the target: the disease by any of its names, or all content words of the question. It does
not count if it leaves the presence open, describes such findings in general, declines to answer, or refers to another
side or level of the lungs than the question.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import islice
from typing import Literal, NamedTuple

from .clauses import Clause, split_clauses
from .cues import classify
from .diseases import find_names
from .lung_regions import REGION_WORDS, extract_place, find_levels, find_sides, is_elsewhere
from .question_values import Value, parse_value
from .question_words import GENERIC_WORDS, SKIPPED_WORDS
from .scope import Standing, find_standings
from .words import words

Saying = Literal["yes", "no"]


class Target(NamedTuple):
    """The target of a question.

    Attributes:
        labels: The diseases that the question names (`disease_names`).
        content: Its content words.
        generic: Whether it asks for any abnormality.
        sides: Sides of its region ("left").
        levels: Levels of its region ("lower").
        denies: Whether it asks for an absence.
        about_subject: Whether it asks if a subject (all content words but the last) has a property (the last).
        weighs: Whether it asks for a possibility ("suspicious for").
        organs: The organs that it names.
        value: The place, the number or the other value that it asks for.
    """

    labels: frozenset[str]
    content: tuple[str, ...]
    generic: bool
    sides: frozenset[str]
    levels: frozenset[str]
    denies: bool
    about_subject: bool
    weighs: bool = False
    organs: frozenset[str] = frozenset()
    value: Value | None = None


_ABSENCE = re.compile(
    r"\b(?:free (?:of|from)|clear of|without|absence of|absent|negative for"
    r"|(?:(?:is|are|was|were) there|there (?:is|are)|shows?|has|have|see|contains?|reveals?|demonstrates?) no)\b",
    re.IGNORECASE,
)
_CIRCUMSTANCE = re.compile(
    r"\b(?:(?:in|of|on) (?:this|these|a|the) (?:patient|person|image|picture|scan|film)|with (?:a )?known)\b",
    re.IGNORECASE,
)
_CJK = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_TABLE_HEADER = re.compile(r"^ *\|.*\n *\|[ :|-]+$", re.MULTILINE)  # names the topic of the rows, and asserts nothing
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
_STARTS_WITH_IS = re.compile(r"(?:is|are|was|were) (?:the|this|that|these|those) ")
_PRONOUN = re.compile(r"\b(?:it|this|that|they|these)(?:'s| s| is| are| appears?| looks?| seems?)\b")
_CJK_ASKS = re.compile(r"是否|有没有|是不是|有无|吗|呢|存在|可见|显示|图像|图中|影像|这张|该|中|有|的")

_IN_SUCH = re.compile(r"(?:^|, ?)in (?:\w+ ){0,2}$")  # "in tension pneumothorax, the trachea is displaced"
AT_PLACE = re.compile(r"\W*(?:yes\W+)?(?:(?:it is|it's|but|only) )*(?:in|on|at|to) the \w+")
_EXCEPTS = re.compile(
    r"\b(?:except|exception|apart from|aside from|other than|otherwise|almost|nearly)\b"
    r"|\bbut (?:it )?(?:has|have|shows?|contains?|demonstrates?) (?!no\b|neither\b|not\b)",
    re.IGNORECASE,
)
_NOWHERE_ELSE = re.compile(r"\b(?:only|(?:confined|limited|restricted|localized|localised|isolated) to)\b")
_NOT_THERE = re.compile(r"\bnot (?:in |on |at )?(?:the )?(left|right)\b")
_NOT_HERE = re.compile(
    r"\W*the (?:\w+ ){1,3}(?:does|do|is|has) not\W*\Z"
    r"|\W*(?:(?:it|this|that|they|which|there)(?:'s| s| is| are) )?(?:not|none|never)(?: (?:is |are )?(?:seen|present"
    r"|visible|found))?"
    r" (?:in|on|at|within|there|here)\b"
)
_IT_IS_GONE = re.compile(
    r"\W*(?:but |now )*it(?:'s| is| has)(?: (?:now|since|\w+ly))? (?:gone|resolved|cleared|disappeared)\b"
    r"|\W*(?:not any ?(?:more|longer)|no longer)\W*\Z"
)
IT_IS = re.compile(r"\W*(?:it|this|that|which)(?:'s| s| is| lies| appears)\b")
_CONCLUDES = re.compile(
    r"\s*(?:and |so )?(?:therefore|thus|hence|so|consequently|in (?:conclusion|summary)|overall|conclusion|impression"
    r"|to summarize)\b"
)
_NO_ABNORMALITY = re.compile(
    r"\b(?:no|without|not \w+|free of|absence of)\s+(?:\w+\s+){0,4}?(?:abnormal\w*|patholog\w+|disease|findings?)\b"
)
_OTHER_WORDS = re.compile(r"\b(?:other|additional|further|another|else)\b")
_GENERIC_NAMES = re.compile(
    r"\b(?:patholog\w+|abnormal\w*|anomal\w+|findings?|diseases?|lesions?|disorders?"
    r"|anything (?:abnormal|wrong|unusual))\b"
)
NORMAL_WORDS = frozenset({"normal", "clear", "healthy", "intact", "unremarkable"})
NORMAL_STATE = re.compile(
    r"\b(?:normal|healthy|unremarkable)\b|(?:(?<=lung is )|(?<=lobe is )|(?<=zone is )|(?<=lungs are )"
    r"|(?<=fields are ))clear\b"
)
ALL_NORMAL = re.compile(  # normality of the full image
    r"(?<!\bin the )(?<!\bof the )(?:chest|image|x ray|xray|radiograph|film|scan|study|exam\w*|everything) (?:is"
    r"|looks|appears) (?:\w+ly )?"
    r"(?:normal|unremarkable)\b|"
    r"\b(?:normal|unremarkable)(?= (?:\w+ ){0,3}?(?:x ray|xray|radiograph|image|scan|film|study|exam\w*)\b)"
)
_ABNORMAL_WORDS = re.compile(r"\b(?:abnormal\w*|unhealthy|diseased|pathologic(?:al)?|patholog(?:y|ies)|sick|damaged)\b")
_OTHER_CLEAR = re.compile(  # "a clear answer", "the image is clear", "it is clear that"
    r"\bclear(?:er|ly)? (?:answer|evidence|image|view|picture|sign|indication|or|and of|that|whether|if|what|enough)\b"
    r"|\bclearly\b|\b(?:answer|image|picture|view|question|film|scan|radiograph|x ray|quality) (?:is|looks|appears)\b"
)
_ORGAN = re.compile(
    r"\b(?:lung|heart|cardi|mediastin|aort|bone|rib|pleura|trachea|diaphragm|liver|kidney|spleen|brain|bowel|abdom"
    r"|vertebra|spine)"
)
LUNG_DISEASES = frozenset({
    "Atelectasis", "Consolidation", "Edema", "Emphysema", "ILD", "Infiltration", "Lung Opacity", "Lung cavity",
    "Lung cyst", "Nodule/Mass", "Pulmonary fibrosis",
})  # fmt: skip
_CONTRARY: dict[Saying, Saying] = {"yes": "no", "no": "yes"}
_NORMAL_HEART = re.compile(r"\b(?:heart|cardiac)\b.*\bnormal\b|\bnormal (?:heart|cardiac)\b")
_ENLARGED_HEART = re.compile(
    r"\b(?:heart|cardiac\w*)\b(?:(?!\bno\b|\bwithout\b).){0,60}?\b(?:enlarge\w*|big|bigger|larger?)\b"
    r"|\benlarge\w* (?:heart|cardiac)"
)
_IT_IS_ENLARGED = re.compile(r"\bit(?:'s| is| looks| appears)(?: not)?(?: \w+ly)? (?P<enlarged>enlarged)\b")
_HEALTHY = {  # sentences that deny a disease without naming it
    "Cardiomegaly": re.compile(
        r"\bnormal (?:heart|cardiac) (?:size|silhouette)\b|\b(?:heart|cardiac\w*)\b.{0,40}?\b(?:no"
        r"|without) (?:\w+ )?enlarge"
        r"|\b(?:heart|cardiac|cardiomediastinal)(?: silhouette)?(?: size)?(?: and \w+)?"
        r" (?:is|are|appears?|remains?|looks?)(?: \w+ly)?(?: to be)? (?:of )?"
        r"(?:normal|within normal|unremarkable|not enlarged)"
    ),
    "Aortic enlargement": re.compile(
        r"\baorta (?:is|appears) (?:\w+ly )?(?:normal|unremarkable)|\bnormal(?: size of the)? aorta\b"
    ),
}
SENTENCE_END = re.compile(r"(?<![.;!\n])[.;!\n]+(?=\s|$)|(?<=\?)|[。！；]")
_MOST = 40  # most mentions in a clause that are read; a clause with more is noise
_WINDOW = 200  # characters around a mention that are read


@lru_cache(maxsize=4096)
def parse_question(question: str) -> Target | None:
    """Parse the target of a question.

    Args:
        question: The question.

    Returns:
        The target; None if the question names nothing.

    >>> parse_question("Is there consolidation in the left lower lung?")[:2]
    (frozenset({'Consolidation'}), ('consolidation',))
    """
    last_line = _CJK_ASKS.sub(" ", question).strip().rsplit("\n", 1)[-1]
    question_words = words(_CIRCUMSTANCE.split(last_line, maxsplit=1)[0])
    word_list = question_words.split()
    labels = {label for label, _, _ in find_names(question_words)} | (
        {"Cardiomegaly"} if _ENLARGED_HEART.search(question_words) or _NORMAL_HEART.search(question_words) else set()
    )
    skipped_words = SKIPPED_WORDS | REGION_WORDS
    verb_phrase = _SHOWS.match(question_words)
    content = _extract_content(question_words[verb_phrase.end() :] if verb_phrase else question_words, skipped_words)
    subject_content = (
        _extract_content(_PLACE.split(question_words, maxsplit=1)[0], skipped_words)
        if _IS_THERE.match(question_words)
        else ()
    )
    # "Is there a stone in the bladder?" asks for the stone.
    if subject_content and not set(subject_content) <= GENERIC_WORDS:
        content = subject_content
    content = content or tuple(sorted(NORMAL_WORDS & set(word_list)))  # "Is the lung clear?"
    # "Is the effusion bilateral?" asks for the kind of a finding, not its location.
    if _STARTS_WITH_IS.match(question_words) and word_list[-1] in ("bilateral", "unilateral"):
        content, word_list = (*content, word_list[-1]), []
    denies = bool(_ABSENCE.search(question))
    about_subject = bool(_STARTS_WITH_IS.match(question_words)) and len(content) > 1 and not denies
    if about_subject and labels != {"Cardiomegaly"}:  # "Is the mass malignant?" does not ask whether there is a mass
        labels = set()
    if not (labels or content):
        return None
    return Target(
        labels=frozenset(labels),
        content=content,
        generic=bool(content) and set(content) <= GENERIC_WORDS,
        sides=find_sides(" ".join(word_list)),
        levels=find_levels(" ".join(word_list)),
        denies=denies,
        about_subject=about_subject,
        weighs=classify(question_words) == "weigh",
        organs=find_organs(question_words),
        value=parse_value(question_words),
    )


def find_organs(text: str) -> frozenset[str]:
    """Find the organs that a text names.

    Args:
        text: The text in lower case.

    Returns:
        The stems of their names.
    """
    return frozenset(organ[0] for organ in _ORGAN.finditer(text))


def _extract_content(question_words: str, skipped_words: Collection[str]) -> tuple[str, ...]:
    return tuple(
        dict.fromkeys(word for word in question_words.split() if word not in skipped_words and not word.isdigit())
    )


def find_target_sayings(text: str, target: Target) -> set[Saying]:
    """Find the answers yes and no in the clauses of a text; both if they differ and no clause concludes.

    Args:
        text: The text.
        target: The target of the question.

    Returns:
        The answers.
    """
    sayings: set[Saying] = set()
    concluding_sayings: set[Saying] = set()
    text = _TABLE_HEADER.sub("", text)
    clauses = [*_iterate_cjk_clauses(text)] if any(map(_CJK.search, target.content)) else [*split_clauses(text)]
    for clause_index, clause in enumerate(clauses):
        is_statement = clause.act == "state" or (target.weighs and clause.act == "weigh")
        clause_sayings: set[Saying] = set(_iterate_sayings(clause, target)) if is_statement else set()
        next_clause = clauses[clause_index + 1].text if clause_index + 1 < len(clauses) else ""
        # "There is an effusion, but it is on the left"
        if (IT_IS.match(next_clause) or AT_PLACE.match(next_clause)) and _is_elsewhere(next_clause, target):
            clause_sayings.discard("yes")
        # "There is an effusion, but not on the right", "... but none on the right"
        is_denied_here = (_NOT_HERE.match(next_clause) or _IT_IS_GONE.match(next_clause)) and not _is_elsewhere(
            next_clause, target
        )
        if is_statement and is_denied_here and any(_iterate_spans(clause.text, target)):
            clause_sayings = {"no"}
        sayings |= clause_sayings
        if clause_sayings and (
            _CONCLUDES.match(clause.text) or (clause_index and _CONCLUDES.fullmatch(clauses[clause_index - 1].text))
        ):
            concluding_sayings = clause_sayings
    # "Normal except for a nodule"
    if (target.generic or NORMAL_WORDS & set(target.content)) and _EXCEPTS.search(text):
        return set()
    sayings = concluding_sayings if len(sayings) > 1 and concluding_sayings else sayings
    return {_CONTRARY[saying] for saying in sayings} if target.denies else sayings


def find_name_standings(clause: Clause, target: Target) -> list[Standing]:
    """Find for each name of the target in a clause whether the clause asserts or denies it.

    Args:
        clause: The clause.
        target: The target.

    Returns:
        The standings, in the order of the names.
    """
    return find_clause_standings(clause, list(islice(_iterate_spans(clause.text, target), _MOST)))


def _iterate_cjk_clauses(text: str) -> Iterator[Clause]:
    """Iterate over the clauses of a text in Chinese or Japanese, which `clauses.plain` removes."""
    for cjk_clause in _CJK_CLAUSE_END.split(text):
        yield Clause(cjk_clause, 0, "decline" if _CJK_UNKNOWN.search(cjk_clause) else "state")


def _iterate_sayings(clause: Clause, target: Target) -> Iterator[Saying]:
    if NORMAL_WORDS & set(target.content):
        sayings = list(_read_health(clause, target))
        yield from sayings or [_CONTRARY[saying] for saying in _read_names(clause, target) if target.labels]
    else:
        yield from _read_names(clause, target)


def _get_saying(is_true: bool) -> Saying:
    return "yes" if is_true else "no"


def _iterate_contraries(clause_standings: Iterable[Standing]) -> Iterator[Saying]:
    for standing in clause_standings:
        if standing != "open":
            yield _get_saying(standing == "denied")


def _read_names(clause: Clause, target: Target) -> Iterator[Saying]:
    """Yield yes for each name of the target that a clause asserts at the question's place, and no for each denial.

    Without a name, a clause says no if it calls the target's organ healthy or denies any abnormality, and, for a
    question about any abnormality, yes if it asserts a disease.
    """
    clause_text = clause.text
    spans = list(islice(_iterate_spans(clause_text, target), _MOST))
    if not spans:
        plain_text = " ".join(clause_text.split())
        is_healthy = any(_HEALTHY[label].search(plain_text) for label in target.labels & set(_HEALTHY))
        is_all_denied = (
            not target.generic and _NO_ABNORMALITY.search(plain_text) and not _OTHER_WORDS.search(plain_text)
        )
        if is_healthy or (is_all_denied and not _is_elsewhere(clause_text, target)):
            yield "no"
        normal_spans = (
            [match.span() for match in islice(_find_normal(clause_text, target), _MOST)] if target.generic else []
        )
        yield from _iterate_contraries(find_clause_standings(clause, normal_spans))
        if target.generic and _asserts_disease(clause, target):
            yield "yes"
    for (start, end), standing in zip(spans, find_clause_standings(clause, spans), strict=True):
        # A window is enough, and keeps the cost of a very long clause linear in its length.
        window = clause_text[max(start - _WINDOW, 0) : end + _WINDOW]
        if standing == "open" or _IN_SUCH.search(clause_text[max(start - _WINDOW, 0) : start]):
            continue
        denied_side = _NOT_THERE.search(window)
        if denied_side and standing != "denied":
            yield _get_saying(target.sides != {denied_side[1]})
        elif not _is_elsewhere(extract_place(clause_text, start, end), target):
            yield _get_saying(standing != "denied")
        elif standing == "asserted" and _NOWHERE_ELSE.search(window):  # "only on the left"
            yield "no"


def _find_normal(clause: str, target: Target) -> Iterator[re.Match[str]]:
    """Find the words of a clause that call the full image normal, or an organ that the question names."""
    organs = find_organs(clause)
    if target.organs and organs and organs <= target.organs and not _is_elsewhere(clause, target):
        yield from NORMAL_STATE.finditer(clause)
    else:
        yield from ALL_NORMAL.finditer(clause)


def _read_health(clause: Clause, target: Target) -> Iterator[Saying]:
    """Read the answer of a clause to a question such as "Is the heart normal?"."""
    clause_text = clause.text
    organs = find_organs(clause_text)
    if (organs and target.organs and not organs & target.organs) or _is_elsewhere(clause_text, target):
        return
    spans = _find_content_spans(clause_text, target)
    if not spans and set(target.content) <= NORMAL_WORDS:
        spans = [match.span() for match in islice(NORMAL_STATE.finditer(clause_text), _MOST)]
    # "The right lung is clear"
    is_one_side = len(find_sides(clause_text)) == 1 and not target.sides
    is_other_sense = _OTHER_CLEAR.search(clause_text)  # "a clear answer"
    for standing in find_clause_standings(clause, spans) if not is_other_sense else ():
        if standing == "denied" or (standing == "asserted" and not is_one_side):
            yield _get_saying(standing != "denied")
    if _asserts_disease(clause, target):
        yield "no"
    abnormal_spans = [match.span() for match in islice(_ABNORMAL_WORDS.finditer(clause_text), _MOST)]
    yield from _iterate_contraries(find_clause_standings(clause, abnormal_spans))


def _asserts_disease(clause: Clause, target: Target) -> bool:
    """Whether a clause asserts a disease of the lungs, or any disease if the question names no organ."""
    if not target.organs <= {"lung"}:
        return False
    names = [name for name in find_names(clause.text) if not target.organs or name[0] in LUNG_DISEASES]
    clause_standings = find_clause_standings(clause, [(start, end) for _, start, end in names])
    return any(
        standing == "asserted" and not _is_elsewhere(extract_place(clause.text, start, end), target)
        for (_, start, end), standing in zip(names, clause_standings, strict=True)
    )


def find_clause_standings(clause: Clause, spans: Sequence[tuple[int, int]]) -> list[Standing]:
    """Find for each span of a clause whether the clause asserts or denies it; in Chinese and Japanese, too.

    Args:
        clause: The clause.
        spans: [start, end) of each name in the clause, in order.

    Returns:
        The standing of each span.
    """
    if not clause.text.isascii() and _CJK.search(clause.text):
        return ["denied" if _CJK_DENIAL.search(clause.text) else "asserted"] * len(spans)
    return find_standings(clause.text, spans, denied=clause.denied)


def _is_elsewhere(clause: str, target: Target) -> bool:
    return is_elsewhere(clause, target.sides, target.levels)


def _iterate_spans(clause: str, target: Target) -> Iterator[tuple[int, int]]:
    """Iterate over the spans of a clause that name the target."""
    if target.labels:
        yield from ((start, end) for label, start, end in find_names(clause) if label in target.labels)
        if "Cardiomegaly" in target.labels:
            if not _ORGAN.search(clause):
                yield from (match.span("enlarged") for match in _IT_IS_ENLARGED.finditer(clause))
            yield from (match.span() for match in _ENLARGED_HEART.finditer(clause))
    elif target.generic:
        yield from (match.span() for match in _GENERIC_NAMES.finditer(clause))
    else:
        yield from _find_content_spans(clause, target)


def _find_content_spans(clause: str, target: Target) -> list[tuple[int, int]]:
    """Find the span from the first to the last content word of the question, if a clause has all of them."""
    content_words = target.content[-1:] if target.about_subject and _PRONOUN.search(clause) else target.content
    matches = [re.search(build_form(word), clause) for word in content_words]
    word_matches = [word_match for word_match in matches if word_match]
    is_any_predicate = not target.about_subject or NORMAL_WORDS & set(target.content)
    if len(word_matches) < len(matches) or not (is_any_predicate or _COPULA.search(clause[: word_matches[-1].start()])):
        return []
    return [
        (min(word_match.start() for word_match in word_matches), max(word_match.end() for word_match in word_matches))
    ]


def build_form(word: str) -> str:
    """Build an expression for a word with other endings.

    Args:
        word: The word.

    Returns:
        The expression.
    """
    if _CJK.search(word):
        return re.escape(word)
    stem = re.sub(r"(?<=\w{3})(?:e?s|ed|ing|e?ment|al|ly|ion)$", "", word)
    return rf"\b{re.escape(stem)}\w{{0,5}}\b"
