"""From (study, target, distractors) to question rows: wording, option order, gold answer.

A question's text, options and indices depend on a handful of codes only (target, distractors, option order), so each
distinct combination is written once and the rows take from it; 135,754 rows cost as much as the 60 combinations.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..checks import id_violations, image_violations
from ..hashing import digest, picks
from ..options import option
from ..schemas.contrabench import QUESTION
from .wording import LAYOUTS, NEGATION_FORMS, QUESTION_FORMS, negated_option, positive_option

# The shuffled layout depends on the row's id alone: the build's seed must not move the options.
LAYOUT_SEED = 20260326


@dataclass(frozen=True, slots=True)
class Wording:
    """Options of a build: they change the words or their order, never which questions are asked."""

    negation_form: str = field(
        default="canonical_no",
        metadata=option("wording of the negated option (Appendix I)", choices=tuple(NEGATION_FORMS)),
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
            "order of the options: shuffled gives each row an order of its own; original puts the target first, for "
            "comparison with the paper, and whoever always answers A is right",
            choices=LAYOUTS,
        ),
    )


def assemble(
    *,
    protocol: str,
    polarity: str,
    ids: pa.Array,
    study_ids: pa.Array,
    images: pa.Array,
    findings: Sequence[str],
    target: np.ndarray,
    distractors: np.ndarray,
    with_negation: bool,
    wording: Wording,
    cues: Sequence[str] | None = None,
    negated_first: bool = False,
) -> pa.Table:
    """Question rows in the schema QUESTION.

    Args:
        protocol: name of the protocol (the config). polarity: "presence" or "absence".
        ids, study_ids, images: n values each; images is a list<struct{source, key, view}> array.
        findings: display names, lower case. target: (n,) and distractors: (n, k), integer indices into it.
        with_negation: whether the target's negated option is offered (not in the positive-only control).
        wording: forms and layout. `shuffled` orders the options by a hash of the row's id; `original` puts the target
            first, then its negated option, then the distractors: our reading of "first positive slot" (Appendix B.2).
        cues: n negation cues of a report, or None.
        negated_first: in the layout `original`, the negated option comes before the target, not after it.
    """
    n, n_distractors = len(ids), distractors.shape[1]
    n_options = 1 + int(with_negation) + n_distractors
    n_orders = math.factorial(n_options)
    # Orders are numbered as itertools.permutations gives them: the first of those that begin with the second option
    # only swaps it with the first.
    order = np.full(n, n_orders // n_options if negated_first else 0, np.int64)
    if wording.layout == "shuffled":
        order = picks(ids, n_orders, LAYOUT_SEED)

    codes = np.column_stack([target, distractors, order]).astype(np.int64)
    radix = np.array([len(findings)] * (1 + n_distractors) + [n_orders], np.int64)
    code = np.ravel_multi_index(tuple(codes.T), tuple(radix)) if n else np.zeros(0, np.int64)
    _, first, which = np.unique(code, return_index=True, return_inverse=True)
    distinct = _distinct_questions(codes[first], findings, polarity, with_negation, wording)

    def constant(value: str) -> pa.Array:
        return pa.repeat(pa.scalar(value), n)

    columns = {
        "id": ids,
        "protocol": constant(protocol),
        "polarity": constant(polarity),
        "study_id": study_ids,
        "images": images,
        "negation_form": constant(wording.negation_form if with_negation else "none"),
        "question_form": constant(wording.question_form),
        "layout": constant(wording.layout),
        "cue": constant("") if cues is None else pa.array(cues, pa.string()),
        **{name: distinct[name].take(pa.array(which)) for name in distinct.column_names},
    }
    schema = QUESTION.arrow_schema
    return pa.table([columns[name] for name in schema.names], names=schema.names).cast(schema)


def _distinct_questions(
    codes: np.ndarray, findings: Sequence[str], polarity: str, with_negation: bool, wording: Wording
) -> pa.Table:
    """One row for each distinct (target, distractors, order): question, options and the indices into them."""
    rows = []
    for combination in codes.tolist():
        target, *distractors, order = (int(code) for code in combination)
        options = [positive_option(findings[target])]
        if with_negation:
            options.append(negated_option(findings[target], wording.negation_form))
        options += [positive_option(findings[d]) for d in distractors]
        places = next(itertools.islice(itertools.permutations(range(len(options))), order, None))
        answer = places.index(0)
        rows.append(
            {
                "question": QUESTION_FORMS[polarity][wording.question_form],
                "options": [options[i] for i in places],
                "answer": answer,
                "finding": findings[target],
                "negated": places.index(1) if with_negation else -1,
                "counterpart": answer if with_negation else -1,
            }
        )
    schema = pa.schema([QUESTION.arrow_schema.field(name) for name in
                        ("question", "options", "answer", "finding", "negated", "counterpart")])  # fmt: skip
    return pa.Table.from_pylist(rows, schema=schema)


def choose(ids: pa.Array, eligible: np.ndarray, k: int, seed: int) -> np.ndarray:
    """(n, k) distractors: for each row one k-subset of its eligible findings, in lexicographic order, by `pick`.

    eligible: (n, findings) bool. The few distinct patterns of eligible findings share one table of subsets.
    """
    powers = 1 << np.arange(eligible.shape[1])
    patterns, pattern = np.unique((eligible @ powers).astype(np.int16), return_inverse=True)
    subsets = [list(itertools.combinations(np.flatnonzero(p & powers), k)) for p in patterns]
    n_subsets = np.array([len(s) for s in subsets], np.int64)
    start = np.cumsum(n_subsets) - n_subsets
    number = np.zeros(len(ids), np.int64)
    ambiguous = np.flatnonzero(n_subsets[pattern] > 1)
    number[ambiguous] = picks(ids.take(pa.array(ambiguous)), n_subsets[pattern[ambiguous]], seed)
    flat = np.array([subset for s in subsets for subset in s], np.int64).reshape(-1, k)
    return flat[start[pattern] + number]


def sample_order(ids: Sequence[str], seed: int, purpose: str) -> np.ndarray:
    """(n,) indices: one seeded permutation of the ids, whatever their order and whichever others there are.

    The ids are sorted by BLAKE2b-64 of `"{seed}:{purpose}:{id}"`. A prefix is a sample without replacement, and a
    shorter prefix is part of a longer one.
    """
    keys = [digest(f"{purpose}:{i}", seed) for i in ids]
    return np.array(sorted(range(len(ids)), key=lambda i: (keys[i], ids[i])), np.int64)


def violations(table: pa.Table) -> list[str]:
    """What rows must satisfy whatever the source; an empty list when all do (section 3.1).

    Rows that keep a source's own options (negation_form `source`) may have a negated option without a counterpart, and
    it may be the gold answer; all others are built so that neither happens.
    """
    problems = id_violations(table) + image_violations(table["images"])
    rows = {name: table[name].to_numpy() for name in ("answer", "negated", "counterpart")}
    n_options = pc.list_value_length(table["options"]).to_numpy()
    kept = pc.equal(table["negation_form"], "source").to_numpy()
    checks = {
        "the answer is no option": ((rows["answer"] >= 0) & (rows["answer"] < n_options)).all(),
        "the negated option or its counterpart is no option": (
            np.maximum(rows["negated"], rows["counterpart"]) < n_options
        ).all(),
        "a counterpart has no negated option, or is it": (
            (rows["counterpart"] < 0) | ((rows["negated"] >= 0) & (rows["negated"] != rows["counterpart"]))
        ).all(),
        "the negated option is the gold answer": (kept | (rows["negated"] != rows["answer"])).all(),
        "a row has a negated option without its counterpart": (
            kept | ((rows["negated"] < 0) == (rows["counterpart"] < 0))
        ).all(),
        "a row has no image": pc.all(pc.greater(pc.list_value_length(table["images"]), 0)).as_py() in (True, None),
    }
    return problems + [problem for problem, holds in checks.items() if not holds]
