"""Wordings: the same rows with paraphrased questions, and with the options of a choice in another order.

A model that reads the image gives the same answer in every wording. Each benchmark with questions has a file of
paraphrases by kind of question, `<benchmark>.toml`. Wording 0 is the original question. That's the Wrong Lung! has no
file, because its questions quote sentences of the source.
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
    """The questions of a task have no paraphrases, or fewer than requested."""


def benchmarks() -> list[str]:
    """List the benchmarks that have wordings."""
    return sorted(path.stem for path in Path(__file__).parent.glob("*.toml"))


@cache
def _load_content(benchmark: str) -> Mapping[str, Any]:
    if benchmark not in benchmarks():
        return {}
    return tomllib.loads(Path(__file__).with_name(f"{benchmark}.toml").read_text(encoding="utf-8"))


def wordings(benchmark: str) -> Mapping[str, Sequence[str]]:
    """Return the paraphrases by kind of question, as templates.

    Args:
        benchmark: The benchmark. A benchmark without paraphrases gives an empty mapping.

    Returns:
        Kind of question -> templates, the first paraphrase first.
    """
    return {kind: texts for kind, texts in _load_content(benchmark).items() if isinstance(texts, list)}


def in_text(benchmark: str, name: str) -> str:
    """Return the name of a class in running text.

    Args:
        benchmark: The benchmark.
        name: The class.

    Returns:
        The name, in lower case unless the benchmark's file has another form.

    >>> in_text("heal-medvqa", "Pleural effusion"), in_text("heal-medvqa", "Nodule/Mass")
    ('pleural effusion', 'a nodule or mass')
    """
    return _load_content(benchmark).get("in_text", {}).get(name, name.lower())


def count_wordings(benchmark: str) -> int:
    """Count the wordings of a benchmark without the original question; 0 if it has none.

    Args:
        benchmark: The benchmark.

    Returns:
        The number that every kind of question has.

    >>> count_wordings("heal-medvqa"), count_wordings("wrong-lung")
    (5, 0)
    """
    return min(map(len, wordings(benchmark).values()), default=0)


def described() -> list[tuple[str, str, int, str]]:
    """List every paraphrase: benchmark, kind of question, number, text."""
    return [
        (benchmark, kind, number, text)
        for benchmark in benchmarks()
        for kind, texts in wordings(benchmark).items()
        for number, text in enumerate(texts, start=1)
    ]


def question(benchmark: str, kind: str, number: int, **fields: str) -> str:
    """Format a question in a wording.

    Args:
        benchmark: The benchmark.
        kind: The kind of question.
        number: The number of the wording, from 1.
        fields: The values of the fields in braces.

    Returns:
        The question.

    >>> question("heal-medvqa", "closed", 1, anatomy="aorta", disease="calcification")
    'Do you see calcification in the aorta?'
    """
    return wordings(benchmark)[kind][number - 1].format(**fields)


def shuffle_indices(row_id: str, number: int, options: Sequence[str]) -> list[int]:
    """Shuffle the indices of a row's options for a wording, by a hash of the row id and the number.

    The texts never have their original order, unless all are equal: an order that keeps them is drawn again.

    Args:
        row_id: The id of the row.
        number: The number of the wording.
        options: The texts of the options.

    Returns:
        The index of the option for each position; the identity with fewer than two different texts.

    >>> shuffle_indices("row", 1, ["Edema", "No edema"])
    [1, 0]
    """
    indices = list(range(len(options)))
    if len(set(options)) < 2:
        return indices
    order, attempt = indices, 0
    while [options[index] for index in order] == list(options):
        start, attempt = f"wording:{number}:{attempt}:{row_id}:", attempt + 1
        digests = [blake2b(f"{start}{index}".encode(), digest_size=8).digest() for index in indices]
        order = sorted(indices, key=digests.__getitem__)
    return order


def shuffle_options(doc: Mapping[str, Any], number: int) -> dict[str, Any]:
    """Return a row's options in the order of a wording, with the new indices of answer, negated and counterpart.

    Args:
        doc: The document.
        number: The number of the wording.

    Returns:
        The changed columns: options, answer, negated and counterpart; an index stays -1 if the row has no such option.
    """
    order = shuffle_indices(doc["id"], number, doc["options"])
    moved = {name: order.index(doc[name]) if doc[name] >= 0 else -1 for name in ("answer", "negated", "counterpart")}
    return {"options": [doc["options"][place] for place in order], **moved}


def require_wording(number: Any, repository: str) -> None:
    """Require that a benchmark has a wording.

    Args:
        number: The number of the wording; 0 for the original questions.
        repository: `<benchmark>-<source>`.

    Raises:
        InputError: The number is invalid.
        UnsupportedWordingError: The benchmark has fewer wordings.
    """
    if type(number) is not int or number < 0:
        raise InputError("option wording", f"is {number!r}", expected="a whole number, 0 for the questions as they are")
    benchmark = repository.rpartition("-")[0]
    n_available = count_wordings(benchmark)
    if number > n_available:
        problem = f"{benchmark} has {n_available or 'no'} wordings" + (
            "" if n_available else ": it asks the words of its source"
        )
        expected = ", ".join(f"1 to {count_wordings(name)} of {name}" for name in benchmarks())
        action = "choose another wording or other tasks; medfaith tasks --wordings prints all wordings"
        raise UnsupportedWordingError(f"option wording={number}", problem, expected=expected, action=action)
