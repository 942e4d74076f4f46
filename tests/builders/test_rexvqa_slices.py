"""ReXVQA slices: nested samples, unchanged wording, and marks that agree with the verifier of the metrics."""

from __future__ import annotations

from hashlib import blake2b
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medfaith.builders import cxr_contrabench
from medfaith.builders.cxr_contrabench import wording as wordings
from medfaith.builders.cxr_contrabench.questions import Wording, find_violations, sample_order
from medfaith.builders.cxr_contrabench.rexvqa import SLICES, questions
from medfaith.builders.cxr_contrabench.wording import mark_options, read_question_polarity
from medfaith.builders.row_digest import compute_rowset_sha256
from medfaith.builders.schemas.contrabench import QUESTION
from medfaith.evaluate_metrics.polarity.verifier import verify
from medfaith.evaluate_metrics.reading import negation
from medfaith.evaluate_metrics.reading.words import words
from medfaith.loaders.phantom import rexvqa as phantom_rexvqa
from medfaith.loaders.rexvqa import Item, label_file, read_items
from tests.support.tiers import choose_size


def make_item(
    number: int, question="Which finding is present?", options=("Edema", "No edema", "Mass"), **fields
) -> Item:
    values = {
        "id": f"q{number}", "study_id": f"S{number // 2}", "question": question, "options": options, "answer": 0,
        "task": "presence_assessment", "category": "Lung", "subcategory": "Edema of the Lung",
        "images": ((f"deid_png/S{number}/1.png", "PA"),),
    }  # fmt: skip
    return Item(**(values | fields))


@pytest.fixture(scope="module")
def phantom_items(tmp_path_factory) -> list[Item]:
    root = phantom_rexvqa.write(tmp_path_factory.mktemp("rexvqa"), seed=1, n_test=200)
    return read_items(label_file(root, "test"))


# --- samples ----------------------------------------------------------------------------------------------------------

MANY = [make_item(i) for i in range(12_000)]


def list_ids(config: str, items=MANY, seed: int = 0) -> list[str]:
    return questions(items, config, seed=seed)["id"].to_pylist()


def test_slices_are_nested_have_the_published_sizes_and_of_a_small_copy_all_items():
    sizes = {"rexvqa_1k": 1_000, "rexvqa_5k": 5_000, "rexvqa_10k": 10_000}
    assert {config: SLICES[config][0] for config in sizes} == sizes
    n_items, n_slices = choose_size((6_000, 2), (12_000, 3))
    samples = [list_ids(config, MANY[:n_items]) for config in [*sizes][:n_slices]]
    assert [len(sample) for sample in samples] == [*sizes.values()][:n_slices]
    assert all(larger[: len(smaller)] == smaller for smaller, larger in pairwise(samples))
    assert len(set(samples[-1])) == len(samples[-1])
    assert sorted(list_ids("rexvqa_5k", MANY[:30])) == sorted(f"rexvqa/test/q{i}" for i in range(30))


@pytest.mark.full  # the test after it has the seeds
def test_two_seeded_samples_overlap():
    sample, other_sample = list_ids("rexvqa_10k_s1"), list_ids("rexvqa_10k_s2")
    assert 8_000 < len(set(sample) & set(other_sample)) < 8_700  # of 12,000, two tenths of 12 overlap by 25/36


def test_the_seeded_samples_have_the_seeds_of_table_8():
    seeds = dict(zip(("rexvqa_10k_s1", "rexvqa_10k_s2", "rexvqa_10k_s3"), (20260326, 20260327, 20260328), strict=True))
    plain = ("rexvqa_1k", "rexvqa_5k", "rexvqa_10k")
    assert [(config, seed) for config, (_, seed) in SLICES.items()] == [*((c, None) for c in plain), *seeds.items()]
    few = [{list_ids(config, MANY[:30], seed)[0] for seed in range(5)} for config in SLICES]
    assert [len(firsts) for firsts in few[3:]] == [1, 1, 1]  # independent of the build's seed, unlike the other samples
    assert min(len(firsts) for firsts in few[:3]) > 1


def test_a_sample_is_the_documented_permutation():
    order = sample_order([f"q{i}" for i in range(50)], 7, "rexvqa").tolist()
    digests = [blake2b(f"7:rexvqa:q{i}".encode(), digest_size=8).digest() for i in range(50)]
    assert order == sorted(range(50), key=lambda i: digests[i])


@given(st.sets(st.text(max_size=4), max_size=30), st.randoms(use_true_random=False))
def test_a_sample_does_not_depend_on_the_order_of_the_file(names, random):
    sorted_names, shuffled_names = sorted(names), sorted(names)
    random.shuffle(shuffled_names)
    assert [sorted_names[i] for i in sample_order(sorted_names, 3, "x")] == [
        shuffled_names[i] for i in sample_order(shuffled_names, 3, "x")
    ]
    assert sorted(sample_order(sorted_names, 3, "x").tolist()) == list(range(len(sorted_names)))


# --- rows -------------------------------------------------------------------------------------------------------------


def test_a_row_keeps_question_and_options():
    source_item = make_item(4, "Which finding is absent?", ("Mass", "Edema", "No edema"), answer=1)
    table = questions([source_item], "rexvqa_1k")
    assert table.schema == QUESTION.arrow_schema
    assert table.to_pylist() == [
        {"id": "rexvqa/test/q4", "protocol": "rexvqa_1k", "polarity": "absence", "study_id": "S2",
         "images": [{"source": "rexvqa", "key": "deid_png/S4/1.png", "view": "PA"}],
         "question": "Which finding is absent?", "options": ["Mass", "Edema", "No edema"],
         "answer": 1, "finding": "edema", "negated": 2, "counterpart": 1, "cue": "absent",
         "negation_form": "source", "question_form": "source", "layout": "source"}
    ]  # fmt: skip


def test_rows_of_the_source_may_have_a_negated_gold_and_no_counterpart(phantom_items):
    table = questions(phantom_items, "rexvqa_1k")
    rows = table.to_pylist()
    assert find_violations(table) == []
    assert any(row["negated"] == row["answer"] for row in rows)
    assert any(row["negated"] >= 0 > row["counterpart"] for row in rows)
    assert {row["polarity"] for row in rows} == {"presence", "absence", "other"}
    for row in rows:
        assert row["finding"] == row["finding"].lower()
        if row["negated"] < 0:
            original = next(i for i in phantom_items if row["id"].endswith(i.id))
            assert row["finding"] == original.subcategory.lower()


@pytest.mark.full
def test_the_build_s_words_do_not_reach_the_source_s_rows(phantom_items, tmp_path_factory):
    root = phantom_rexvqa.write(tmp_path_factory.mktemp("root"), seed=1, n_test=200)
    for number, wording in enumerate((None, Wording("clear_of", "p2", "shuffled"))):
        out = tmp_path_factory.mktemp(f"out{number}")
        (folder,) = cxr_contrabench.build({"rexvqa": root}, out, options=wording)
        verdicts = {v.config: v for v in cxr_contrabench.verify(folder)}
        assert list(verdicts) == list(SLICES)
        assert all(not v.problems for v in verdicts.values())
        expected = questions(phantom_items, "rexvqa_1k")
        assert verdicts["rexvqa_1k"].summary["sha256"] == compute_rowset_sha256(expected)


# --- marks of the wording ---------------------------------------------------------------------------------------------

QUESTIONS = [
    ("Which of the following findings is present on this chest X-ray study?", "presence", ""),
    ("Which abnormality can be seen on the radiograph?", "presence", ""),
    ("What do the images demonstrate?", "presence", ""),
    ("Which finding is absent?", "absence", "absent"),
    ("Which finding is NOT present?", "absence", "not present"),
    ("Which finding isn't visible here?", "absence", "not visible"),
    ("Which finding cannot be seen?", "absence", "not be seen"),
    ("For which finding is there no evidence of disease?", "absence", "no evidence of"),
    ("Of which finding are the lungs free of?", "absence", "free of"),
    ("Which finding is missing from the study?", "absence", "missing"),
    ("Which finding has been ruled out?", "absence", "ruled out"),
    ("Which finding is least likely present?", "other", "least likely present"),
    ("Which finding is least likely?", "other", "least likely"),
    ("Which statement is not correct?", "other", "not"),
    ("Which finding is present and which is absent?", "other", "absent"),
    ("Which finding is not absent?", "other", "not"),
    ("Which diagnosis is most likely?", "other", ""),
    ("Where is the catheter's tip?", "other", ""),
    ("Which lobe, noted on the frontal view, is affected?", "presence", ""),
    ("Which nodule is shown?", "presence", ""),  # "no" and "not" match as words, not as prefixes
    ("", "other", ""),
]


@pytest.mark.parametrize(("question", "polarity", "cue"), QUESTIONS)
def test_polarity_and_cue_of_a_question(question, polarity, cue):
    assert read_question_polarity(question) == (polarity, cue)


@pytest.mark.parametrize(
    ("options", "marks"),
    [
        (("Edema", "No edema", "Mass"), (1, 0, "edema")),
        (("Absence of pleural effusion", "Mass", "Pleural effusion."), (0, 2, "pleural effusion")),
        (("Edema is not present", "Mass", "Edema"), (0, 2, "edema")),
        (("There is no evidence of an edema", "Edema"), (0, 1, "an edema")),
        (("Lungs are clear of edema", "Edema"), (0, 1, "edema")),
        (("Clear of edema", "Edema"), (0, 1, "edema")),
        (("No edema", "No mass", "Edema"), (-1, -1, "")),
        (("No edema", "Normal heart", "Edema"), (-1, -1, "")),  # two options count as negated
        (("Normal heart", "Mass"), (0, -1, "")),  # the only negated option; its concept is not in its wording
        (("No edema", "Edema", "An edema"), (0, -1, "edema")),  # two counterparts count as none
        (("No edema", "Pulmonary edema"), (0, -1, "edema")),
        (("No absence of edema", "Edema"), (0, -1, "")),
        (("Edema", "Mass"), (-1, -1, "")),
        (("Nodule", "Notched rib"), (-1, -1, "")),
    ],
)
def test_marks_of_an_answer_set(options, marks):
    assert tuple(mark_options(options)) == marks


def assert_agrees(question: str, options: list[str]) -> None:
    """Assert that the slot-agnostic verifier fires on the marked option exactly if the marks predict it."""
    polarity, _ = read_question_polarity(question)
    marks = mark_options(options)
    reasons = {
        i: verify(question, options, i, trigger="extended", replacement="slot_agnostic") for i in range(len(options))
    }
    for index, verdict in reasons.items():
        if marks.negated < 0:
            assert verdict.reason in ("no_negated_option", "several_negated_options")
        elif index != marks.negated:
            assert verdict.reason == "not_the_negated_option"
        elif polarity == "other":
            assert verdict.reason == "polarity_unclear"
        elif marks.counterpart < 0:
            assert verdict.reason in ("no_counterpart", "several_counterparts")
        else:
            assert (verdict.fired, verdict.choice) == (True, marks.counterpart)


def test_marks_agree_with_the_verifier_on_the_phantom(phantom_items):
    for phantom_item in phantom_items:
        assert_agrees(phantom_item.question, list(phantom_item.options))


@pytest.mark.parametrize(
    ("ours", "verifiers"),
    [
        (wordings._ABSENCE, negation._ABSENCE_CUE),
        (wordings._DENIAL, negation._DENIAL),
        (wordings._HEDGE, negation._UNSAFE),
        (wordings._NEGATED, negation._ANY_NEGATION),
        *zip(wordings._NEGATED_CONCEPT, negation.NEGATION_FORMS, strict=True),
    ],
)
def test_marks_know_the_verifier_s_words(ours, verifiers):
    """The patterns exist twice, because builders/ may not import evaluate_metrics/."""
    assert ours.pattern == verifiers.pattern


@given(st.text())
def test_marks_read_texts_in_the_verifier_s_spelling(text):
    assert wordings._normalize_words(text) == words(text)


WORD = st.sampled_from(
    ["which", "finding", "is", "not", "no", "absent", "present", "seen", "evidence", "of", "least", "likely", "free",
     "without", "shown", "clear", "the", "edema", "normal", "isn't", "cannot", "be", "mass", "are", "any", "lungs"]
)  # fmt: skip
SENTENCE = st.lists(WORD, min_size=1, max_size=7).map(" ".join)


@given(SENTENCE, st.lists(SENTENCE, min_size=2, max_size=4))
def test_marks_agree_with_the_verifier_on_any_words(question, options):
    assert_agrees(question, options)
