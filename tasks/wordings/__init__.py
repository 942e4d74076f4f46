"""Wordings: the same rows with their questions paraphrased, and with the options of a choice in another order.

A model that reads the image gives the same answer in every wording. Each benchmark that asks in words has a file of
paraphrases by kind of question, `<benchmark>.toml`. Wording 0 is the question as it is. A benchmark without a file asks
what its source says: That's the Wrong Lung! asks about a sentence, which is the text itself.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any

from ...loaders.errors import InputError


class UnsupportedWordingError(InputError):
    """The questions of a task have no paraphrases, or not as many."""


def benchmarks() -> list[str]:
    """The benchmarks that have wordings."""
    return sorted(path.stem for path in Path(__file__).parent.glob("*.toml"))


@cache
def _content(benchmark: str) -> Mapping[str, Any]:
    if benchmark not in benchmarks():
        return {}
    return tomllib.loads(Path(__file__).with_name(f"{benchmark}.toml").read_text(encoding="utf-8"))


def wordings(benchmark: str) -> Mapping[str, Sequence[str]]:
    """The paraphrases by kind of question, as templates; empty for a benchmark without any."""
    return {kind: texts for kind, texts in _content(benchmark).items() if isinstance(texts, list)}


def in_text(benchmark: str, name: str) -> str:
    """The name of a class as a question says it.

    >>> in_text("heal-medvqa", "Pleural effusion"), in_text("heal-medvqa", "Nodule/Mass")
    ('pleural effusion', 'a nodule or mass')
    """
    return _content(benchmark).get("in_text", {}).get(name, name.lower())


def n_wordings(benchmark: str) -> int:
    """How many wordings a benchmark has beside the question as it is; 0: it has none.

    >>> n_wordings("heal-medvqa"), n_wordings("wrong-lung")
    (5, 0)
    """
    return min(map(len, wordings(benchmark).values()), default=0)


def described() -> list[tuple[str, str, int, str]]:
    """Every paraphrase: benchmark, kind of question, number, text."""
    return [
        (benchmark, kind, number, text)
        for benchmark in benchmarks()
        for kind, texts in wordings(benchmark).items()
        for number, text in enumerate(texts, start=1)
    ]


def question(benchmark: str, kind: str, number: int, **words: str) -> str:
    """A question of this kind in a wording. words: what the places in braces stand for.

    >>> question("heal-medvqa", "closed", 1, anatomy="aorta", disease="calcification")
    'Do you see calcification in the aorta?'
    """
    return wordings(benchmark)[kind][number - 1].format(**words)


def redraw_order(row_id: str, number: int, options: Sequence[str]) -> list[int]:
    """The places of a row's options in the order of a wording, as a hash of both draws it.

    The texts never stand as they did before, unless all are equal: an order that leaves them so is drawn again.

    >>> redraw_order("row", 1, ["Edema", "No edema"])
    [1, 0]
    """
    places = list(range(len(options)))
    if len(set(options)) < 2:
        return places
    order, attempt = places, 0
    while [options[place] for place in order] == list(options):
        start, attempt = f"wording:{number}:{attempt}:{row_id}:", attempt + 1
        drawn = [blake2b(f"{start}{place}".encode(), digest_size=8).digest() for place in places]
        order = sorted(places, key=drawn.__getitem__)
    return order


def reorder(doc: Mapping[str, Any], number: int) -> dict[str, Any]:
    """A row's options in the order of a wording, with the indices into them."""
    order = redraw_order(doc["id"], number, doc["options"])
    moved = {name: order.index(doc[name]) if doc[name] >= 0 else -1 for name in ("answer", "negated", "counterpart")}
    return {"options": [doc["options"][place] for place in order], **moved}


def require_wording(number: Any, repository: str) -> None:
    """Raises InputError for what is no number of a wording, UnsupportedWordingError for one that a benchmark lacks.

    repository: `<benchmark>-<source>`.
    """
    if type(number) is not int or number < 0:
        raise InputError("option wording", f"is {number!r}", expected="a whole number, 0 for the questions as they are")
    benchmark = repository.rpartition("-")[0]
    known = n_wordings(benchmark)
    if number > known:
        found = f"{benchmark} has {known or 'no'} wordings" + ("" if known else ": it asks the words of its source")
        expected = ", ".join(f"1 to {n_wordings(name)} of {name}" for name in benchmarks())
        action = "choose another wording or other tasks; medfaith tasks --wordings prints all wordings"
        raise UnsupportedWordingError(f"option wording={number}", found, expected=expected, action=action)
