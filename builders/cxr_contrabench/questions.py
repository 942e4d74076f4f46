"""Question rows from (study, target, distractors): wording, option order, gold answer.

The text, options and indices of a question depend on a few codes only (target, distractors, option order). Each
distinct combination is written once, and the rows refer to it: 135,754 rows cost as much as the 60 combinations.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..checks import find_id_violations, find_image_violations
from ..hashing import compute_picks, digest
from ..options import option
from ..schemas.contrabench import QUESTION
from .wording import LAYOUTS, NEGATION_FORMS, QUESTION_FORMS, format_negated_option, format_positive_option

# The shuffled layout depends on the row's id only. The build's seed must not change the order of the options.
LAYOUT_SEED = 20260326


@dataclass(frozen=True, slots=True)
class Wording:
    """Options of a build: the wording and the order of the options. They never change which questions are asked.

    Attributes:
        negation_form: The form of the negated option.
        question_form: The form of the question.
        layout: The order of the options.
    """

    negation_form: str = field(
        default="canonical_no",
        metadata=option("wording of the negated option, as in Appendix I", choices=tuple(NEGATION_FORMS)),
    )
    question_form: str = field(
        default="original",
        metadata=option(
            "wording of the question: as the paper prints it, or one of three paraphrases",
            choices=tuple(QUESTION_FORMS["presence"]),
        ),
    )
    layout: str = field(
        default="shuffled",
        metadata=option(
            "order of the options: shuffled gives each row its own order; original puts the target first, for "
            "comparison with the paper, so that the answer A is always right; authors gives each row its own order, "
            "too, by the rule of the authors' published code",
            choices=LAYOUTS,
        ),
    )


class Items(NamedTuple):
    """The items of n questions, by column.

    Attributes:
        ids: The row ids: n strings.
        study_ids: The study ids: n strings.
        images: The images: n lists of struct{source, key, view}.
        findings: The display names, in lower case.
        target: Indices into `findings`: (n,) integers.
        distractors: Indices into `findings`: (n, k) integers.
        cues: The negation cues of the reports: n strings, or None.
    """

    ids: pa.Array
    study_ids: pa.Array
    images: pa.Array
    findings: Sequence[str]
    target: np.ndarray
    distractors: np.ndarray
    cues: Sequence[str] | None = None


def build_question_table(
    items: Items,
    *,
    protocol: str,
    polarity: str,
    wording: Wording,
    with_negation: bool = True,
    negated_first: bool = False,
) -> pa.Table:
    """Build question rows.

    The layout `shuffled` orders the options by a hash of the row's id. The layout `original` puts the target first,
    then its negated option, then the distractors; this is our reading of "first positive slot" (Appendix B.2). The
    layout `authors` is that of the authors' published code.

    Args:
        items: The n items.
        protocol: The name of the protocol (the config).
        polarity: "presence" or "absence".
        wording: The forms and the layout.
        with_negation: Whether the negated target is an option. The positive-only control does not have it.
        negated_first: In the layout `original`, put the negated option before the target.

    Returns:
        n rows in the schema QUESTION.
    """
    n, n_distractors, findings = len(items.ids), items.distractors.shape[1], items.findings
    n_options = 1 + int(with_negation) + n_distractors
    n_orders = math.factorial(n_options)
    # Orders are numbered as in itertools.permutations. The first order that begins with the second option swaps only
    # the first two options.
    order = np.full(n, n_orders // n_options if negated_first else 0, np.int64)
    if wording.layout == "shuffled":
        order = compute_picks(items.ids, n_orders, LAYOUT_SEED)
    elif wording.layout == "authors":
        order = _compute_authors_orders(items.ids, n_options, with_negation)

    row_codes = np.column_stack([items.target, items.distractors, order]).astype(np.int64)
    radix = np.array([len(findings)] * (1 + n_distractors) + [n_orders], np.int64)
    row_code = np.ravel_multi_index(tuple(row_codes.T), tuple(radix)) if n else np.zeros(0, np.int64)
    _, first_rows, distinct_indices = np.unique(row_code, return_index=True, return_inverse=True)
    distinct = _build_distinct_questions(row_codes[first_rows], findings, polarity, with_negation, wording)

    def repeat_value(value: str) -> pa.Array:
        return pa.repeat(pa.scalar(value), n)

    columns = {
        "id": items.ids,
        "protocol": repeat_value(protocol),
        "polarity": repeat_value(polarity),
        "study_id": items.study_ids,
        "images": items.images,
        "negation_form": repeat_value(wording.negation_form if with_negation else "none"),
        "question_form": repeat_value(wording.question_form),
        "layout": repeat_value(wording.layout),
        "cue": repeat_value("") if items.cues is None else pa.array(items.cues, pa.string()),
        **{name: distinct[name].take(pa.array(distinct_indices)) for name in distinct.column_names},
    }
    schema = QUESTION.arrow_schema
    return pa.table([columns[name] for name in schema.names], names=schema.names).cast(schema)


def _compute_authors_orders(ids: pa.Array, n_options: int, with_negation: bool) -> np.ndarray:
    """Compute the order of each row's options as the authors' code does, as an index into itertools.permutations.

    It shuffles target, distractors and negated option by Python's `random` with the id of the sample, in lower case,
    as the seed (`deterministic_layout` in cxr_contrabench/common.py of github.com/fangzr/cxr-contrabench-code). Their
    ids are not published. The id of our row takes their place, so the rule is theirs and the orders are not.
    """
    unshuffled = [0, *range(1 + int(with_negation), n_options), *([1] if with_negation else [])]
    numbers = {permutation: number for number, permutation in enumerate(itertools.permutations(range(n_options)))}
    orders = []
    for row_id in ids.to_pylist():
        positions = unshuffled.copy()
        random.Random(row_id.lower()).shuffle(positions)  # noqa: S311 – an order, no secret
        orders.append(numbers[tuple(positions)])
    return np.array(orders, np.int64)


def _build_distinct_questions(
    codes: np.ndarray, findings: Sequence[str], polarity: str, with_negation: bool, wording: Wording
) -> pa.Table:
    """Build one row for each distinct (target, distractors, order): question, options and the indices into them."""
    rows = []
    for combination in codes.tolist():
        target, *distractors, order = (int(code) for code in combination)
        options = [format_positive_option(findings[target])]
        if with_negation:
            options.append(format_negated_option(findings[target], wording.negation_form))
        options += [format_positive_option(findings[distractor]) for distractor in distractors]
        positions = next(itertools.islice(itertools.permutations(range(len(options))), order, None))
        answer = positions.index(0)
        rows.append(
            {
                "question": QUESTION_FORMS[polarity][wording.question_form],
                "options": [options[i] for i in positions],
                "answer": answer,
                "finding": findings[target],
                "negated": positions.index(1) if with_negation else -1,
                "counterpart": answer if with_negation else -1,
            }
        )
    schema = pa.schema([QUESTION.arrow_schema.field(name) for name in
                        ("question", "options", "answer", "finding", "negated", "counterpart")])  # fmt: skip
    return pa.Table.from_pylist(rows, schema=schema)


def choose(ids: pa.Array, eligible: np.ndarray, k: int, seed: int) -> np.ndarray:
    """Choose k distractors for each row.

    `pick` selects one of the k-subsets of the row's eligible findings, in lexicographic order. Rows with the same
    eligible findings share one table of subsets.

    Args:
        ids: The row ids: n strings.
        eligible: Whether each finding is eligible: bool (n, findings).
        k: Number of distractors.
        seed: The seed of the build.

    Returns:
        Indices of findings: (n, k).
    """
    powers = 1 << np.arange(eligible.shape[1])
    patterns, pattern_indices = np.unique((eligible @ powers).astype(np.int16), return_inverse=True)
    subsets = [list(itertools.combinations(np.flatnonzero(p & powers), k)) for p in patterns]
    n_subsets = np.array([len(s) for s in subsets], np.int64)
    starts = np.cumsum(n_subsets) - n_subsets
    number = np.zeros(len(ids), np.int64)
    ambiguous = np.flatnonzero(n_subsets[pattern_indices] > 1)
    number[ambiguous] = compute_picks(ids.take(pa.array(ambiguous)), n_subsets[pattern_indices[ambiguous]], seed)
    flat = np.array([subset for s in subsets for subset in s], np.int64).reshape(-1, k)
    return flat[starts[pattern_indices] + number]


def sample_order(ids: Sequence[str], seed: int, purpose: str) -> np.ndarray:
    """Sort ids by BLAKE2b-64 of `"{seed}:{purpose}:{id}"`, which gives one seeded permutation.

    The permutation does not depend on the given order. A prefix is a sample without replacement, and contains every
    shorter prefix.

    Args:
        ids: n ids.
        seed: The seed of the permutation.
        purpose: The name of the permutation's use, which makes permutations of different uses independent.

    Returns:
        Indices into `ids`: (n,).
    """
    keys = [digest(f"{purpose}:{i}", seed) for i in ids]
    return np.array(sorted(range(len(ids)), key=lambda i: (keys[i], ids[i])), np.int64)


def find_violations(table: pa.Table) -> list[str]:
    """Find faults in rows of any source (section 3.1).

    Rows with a source's own options (negation_form `source`) may have a negated option without a counterpart, and the
    negated option may be the gold answer. In all other rows neither may happen.

    Args:
        table: Rows in the schema QUESTION.

    Returns:
        The problems.
    """
    problems = find_id_violations(table) + find_image_violations(table["images"])
    rows = {name: table[name].to_numpy() for name in ("answer", "negated", "counterpart")}
    n_options = pc.list_value_length(table["options"]).to_numpy()
    is_source_form = pc.equal(table["negation_form"], "source").to_numpy()
    checks = {
        "the answer is no option": ((rows["answer"] >= 0) & (rows["answer"] < n_options)).all(),
        "the negated option or its counterpart is no option": (
            np.maximum(rows["negated"], rows["counterpart"]) < n_options
        ).all(),
        "a counterpart has no negated option, or is it": (
            (rows["counterpart"] < 0) | ((rows["negated"] >= 0) & (rows["negated"] != rows["counterpart"]))
        ).all(),
        "the negated option is the gold answer": (is_source_form | (rows["negated"] != rows["answer"])).all(),
        "a row has a negated option without its counterpart": (
            is_source_form | ((rows["negated"] < 0) == (rows["counterpart"] < 0))
        ).all(),
        "a row has no image": pc.all(pc.greater(pc.list_value_length(table["images"]), 0)).as_py() in (True, None),
    }
    return problems + [problem for problem, holds in checks.items() if not holds]
