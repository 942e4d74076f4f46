"""Wordings: readers and verifiers treat each paraphrase like the original question."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medfaith.builders.cxr_contrabench.vocabulary import FINDINGS
from medfaith.builders.cxr_contrabench.wording import (
    NEGATION_FORMS,
    QUESTION_FORMS,
    format_negated_option,
    format_positive_option,
    read_question_polarity,
)
from medfaith.builders.heal_medvqa import wording as heal_words
from medfaith.builders.registry import BENCHMARKS
from medfaith.cli import main
from medfaith.evaluate_metrics.polarity.verifier import verify_answer
from medfaith.evaluate_metrics.reading.choice import parse_answer
from medfaith.evaluate_metrics.reading.negation import RULES
from medfaith.evaluate_metrics.reading.words import words
from medfaith.evaluate_metrics.reading.yes_no import read_yes_no
from medfaith.loaders.anatomy_masks import ANATOMIES
from medfaith.loaders.errors import InputError
from medfaith.loaders.vindr_cxr import CLASSES
from medfaith.reporting.contrabench.runs import Run
from medfaith.reporting.page.cases import collect_cases
from medfaith.reporting.results import read_results
from medfaith.tasks.contrabench import fewshot
from medfaith.tasks.contrabench import rows as contrabench
from medfaith.tasks.contrabench.prompts import b0, target
from medfaith.tasks.heal import rows as heal
from medfaith.tasks.models.reference.baselines import Oracle
from medfaith.tasks.surgx import rows as surgx
from medfaith.tasks.surgx.prompts import LISTS, QUESTIONS
from medfaith.tasks.wordings import (
    UnsupportedWordingError,
    benchmarks,
    count_wordings,
    described,
    in_text,
    question,
    shuffle_indices,
    shuffle_options,
    wordings,
)
from medfaith.tasks.wrong_lung import rows as wrong_lung
from tests.support.builders.files import root_words
from tests.support.reporting.report_logs import rows_of, select_runs, write_report
from tests.support.tasks.evaluating import results_of, samples_of
from tests.support.tiers import choose_size, keep_quick

DISEASES = [in_text("heal-medvqa", name) for name in CLASSES]
WORDS = {
    "cxr-contrabench": [{}],
    "heal-medvqa": [
        {"anatomy": anatomy, "disease": disease} for anatomy, disease in itertools.product(ANATOMIES, DISEASES)
    ],
    "surgxbench": [LISTS],
}
ORIGINALS = {
    ("cxr-contrabench", "presence"): QUESTION_FORMS["presence"].values(),
    ("cxr-contrabench", "absence"): QUESTION_FORMS["absence"].values(),
    ("heal-medvqa", "closed"): heal_words.templates()["closed"].values(),
    ("heal-medvqa", "open"): heal_words.templates()["open"].values(),
    ("surgxbench", "instruments"): [QUESTIONS["instruments"]],
    ("surgxbench", "triplets"): [QUESTIONS["triplets"]],
}


def test_every_kind_of_question_has_as_many_wordings_and_questions_in_the_words_of_others_have_none():
    assert {*benchmarks()} == {*BENCHMARKS} - {"wrong-lung", "own"}
    assert {(benchmark, kind) for benchmark in benchmarks() for kind in wordings(benchmark)} == {*ORIGINALS}
    for benchmark in benchmarks():
        assert {len(texts) for texts in wordings(benchmark).values()} == {count_wordings(benchmark)}
        assert count_wordings(benchmark) >= 4
    assert count_wordings("wrong-lung") == count_wordings("own") == 0


@pytest.mark.parametrize(("benchmark", "kind"), ORIGINALS)
def test_every_paraphrase_is_a_sentence_of_its_own_for_every_name_of_the_vocabulary(benchmark, kind):
    for names in WORDS[benchmark]:
        texts = [text.format(**names) for text in ORIGINALS[benchmark, kind]]
        texts += [question(benchmark, kind, number, **names) for number in range(1, count_wordings(benchmark) + 1)]
        assert len({" ".join(words(text).split()) for text in texts}) == len(texts)
        for text in texts:
            assert not re.search(r"[{}]|\s\s|\b(\w+) \1\b|\b(?:an?|the) (?:an?|the)\b", text), text
            assert text[0].isupper()


def test_names_in_questions_are_those_of_the_builder():
    assert [in_text("heal-medvqa", name) for name in CLASSES] == [heal_words.in_text(name) for name in CLASSES]


SAID = (
    "Yes", "No", "Yes, there is {d} in the {a}.", "No, there is no {d}.", "There is {d} in the {a}.",
    "There is no {d}.", "The {a} shows {d}.", "The {a} is clear.", "No evidence of {d}.", "I do not see {d}.",
    "{D} can be seen.", "{D} is found in the {a}.", "In the {a}, no {d} is found.", "Looking at the {a}, there is {d}.",
    "Looking at the {a}, there is no {d}.", "This chest X-ray shows {d}.", "This chest X-ray does not show {d}.",
    "{D}", "Possibly {d}.", "{D} is visible on this chest X-ray.", "There is {d} in the left lung.",
    "There is no abnormality.", "No chest X-ray was provided.", "I cannot tell.", "I cannot say whether there is {d}.",
    "There is edema.", "",
)  # fmt: skip


def test_yes_and_no_are_read_as_under_the_original_question():
    diseases = DISEASES[: -1 : choose_size(4, 1)]
    for disease, anatomy in zip(diseases, itertools.cycle(("left lower lung", "trachea")), strict=False):
        names = {"anatomy": anatomy, "disease": disease}
        originals = [text.format(**names) for text in ORIGINALS["heal-medvqa", "closed"]]
        reworded = [text.format(**names) for text in wordings("heal-medvqa")["closed"]]
        for template in SAID:
            answer = template.format(d=disease, D=disease[0].upper() + disease[1:], a=anatomy)
            assert len({read_yes_no(answer, text) for text in (*originals, *reworded)}) == 1, answer


CHOSEN = (
    "A", "B.", "(C)", "{X}", "No {x}", "The answer is {X}.", "{X} is present.", "{X} is absent.", "There is no {x}.",
    "The finding is {x}.", "The finding that is present is {x}.", "The absent finding is {x}.", "{X} is not present.",
    "It is {x}.", "B. No {x}", "I cannot tell.", "The study shows {x}.", "No {x} is seen.",
    "The listed finding is {x}.",
    "The following finding is present: {x}.", "There is {y} and no {x}.", "{Y} is absent, {x} is present.",
    "The finding absent on this study is {y}.", "The one that is present is {x}.", "I select {y}.", "Neither.",
    "In this chest X-ray study, {x} is absent.", "I choose {x} from the findings below.", "The chest X-ray is {x}.",
)  # fmt: skip


# The vocabularies that the tasks' filters apply. That of the authors' code knows few wordings.
TRIGGERS = ("original", "extended")


@pytest.mark.parametrize("polarity", keep_quick(QUESTION_FORMS, lambda polarity: polarity == "presence"))
def test_choices_and_verifiers_take_a_paraphrase_as_the_original(polarity):
    original = QUESTION_FORMS[polarity]["original"]
    reworded = wordings("cxr-contrabench")[polarity]
    for text in reworded:
        assert {RULES[trigger].polarity(words(text)) for trigger in TRIGGERS} == {polarity}
        assert read_question_polarity(text)[0] == polarity
    findings = list(FINDINGS)
    for place, form in itertools.product(range(0, len(findings), choose_size(28, 7)), NEGATION_FORMS):
        x, y, z = (findings[(place + step) % len(findings)] for step in (0, 3, 7))
        options = [
            format_positive_option(y),
            format_negated_option(x, form),
            format_positive_option(x),
            format_positive_option(z),
        ]
        for template in CHOSEN:
            answer = template.format(x=x, X=format_positive_option(x), y=y, Y=format_positive_option(y))
            choice = parse_answer(answer, options, original)
            verified = [verify_answer(original, options, choice, trigger=trigger) for trigger in TRIGGERS]
            for text in reworded:
                assert parse_answer(answer, options, text) == choice, (answer, text)
                assert [verify_answer(text, options, choice, trigger=trigger) for trigger in TRIGGERS] == verified


def test_lists_and_the_form_of_the_answer_stay_in_questions_about_surgery():
    form = QUESTIONS["triplets"][QUESTIONS["triplets"].index("Answer with") :]
    for number in range(1, count_wordings("surgxbench") + 1):
        assert question("surgxbench", "instruments", number, **LISTS).endswith(LISTS["instruments"])
        assert question("surgxbench", "triplets", number, **LISTS).endswith(form)
        assert LISTS["abilities"] in question("surgxbench", "triplets", number, **LISTS)


@given(st.lists(st.sampled_from("abcdef"), min_size=1, max_size=6), st.integers(1, 9), st.text(max_size=4), st.data())
def test_an_order_is_a_permutation_that_moves_texts_and_indices_together(options, number, row_id, data):
    order = shuffle_indices(row_id, number, options)
    assert sorted(order) == list(range(len(options)))
    assert order == shuffle_indices(row_id, number, options)
    assert ([options[place] for place in order] == options) is (len(set(options)) == 1)
    index = st.integers(0, len(options) - 1)
    doc = {"id": row_id, "options": options, "answer": data.draw(index), "negated": -1, "counterpart": data.draw(index)}
    moved = shuffle_options(doc, number)
    assert moved["negated"] == -1
    for name in ("answer", "counterpart"):
        assert order[moved[name]] == doc[name]


def test_orders_favour_no_place():
    positions = [shuffle_indices(f"row {n}", number, "abc").index(0) for n in range(400) for number in (1, 2)]
    shares = [positions.count(place) / len(positions) for place in range(3)]  # all orders but the first
    assert shares == pytest.approx([1 / 5, 2 / 5, 2 / 5], abs=0.05)


def load(benchmark: str, request: pytest.FixtureRequest, ask: str = "", **options: Any) -> Any:
    """Load rows of the phantom build.

    Args:
        benchmark: Name of the benchmark.
        request: Gives access to the fixtures of the builds.
        ask: Config of cxr-contrabench, or type of question.
        **options: Further options of `load`.
    """
    if benchmark == "cxr-contrabench":
        data = {"config": ask or "chexpert_presence", "data": str(request.getfixturevalue("phantom_build"))}
        return contrabench.load("cxr-contrabench-chexpert", split="validation", **data, **options)["test"]
    name = {"heal-medvqa": "heal", "surgxbench": "surgx", "wrong-lung": "wrong_lung"}[benchmark]
    arguments = {"split": "test", "data": str(request.getfixturevalue(f"phantom_{name}_build")), **options}
    if benchmark == "heal-medvqa":
        return heal.load("heal-medvqa-vindr_cxr", "vindr", ask, **arguments)["test"]
    if benchmark == "surgxbench":
        return surgx.load("surgxbench-cholec80_boxes", "instruments", ask, **arguments)["test"]
    return wrong_lung.load("wrong-lung-chest_imagenome", "gold", **arguments)["test"]


def get_option(doc: Any, name: str) -> str | None:
    return doc["options"][doc[name]] if doc[name] >= 0 else None


@pytest.mark.parametrize(
    "ask",
    keep_quick(
        ["chexpert_presence", "chexpert_absence", "chexpert_positive_only"], lambda ask: ask == "chexpert_presence"
    ),
)
def test_another_order_keeps_what_is_right_and_moves_its_letter(ask, request):
    plain = load("cxr-contrabench", request, ask)
    letters = set()
    for number in (1, 2):
        reworded = load("cxr-contrabench", request, ask, wording=number)
        assert [doc["id"] for doc in reworded] == [doc["id"] for doc in plain]
        for doc, before in zip(reworded, plain, strict=True):
            for name in ("answer", "negated", "counterpart"):
                assert get_option(doc, name) == get_option(before, name)
            assert doc["options"] != before["options"]
            assert sorted(doc["options"]) == sorted(before["options"])
            assert doc["question"] == wordings("cxr-contrabench")[doc["polarity"]][number - 1]
            assert (doc["wording"], doc["prompt"]) == (number, f"b0, wording {number}")
            assert f"\n{target(doc)}. {get_option(doc, 'answer')}\n" in b0(doc)
            letters.add((target(before), target(doc)))
    assert len(letters) > 3


@pytest.mark.parametrize(
    ("benchmark", "ask"),
    [("heal-medvqa", "closed"), ("heal-medvqa", "open"), ("heal-medvqa", "tpt"), ("heal-medvqa", "vpt"),
     ("surgxbench", "instruments")],
)  # fmt: skip
def test_a_wording_changes_the_question_alone(benchmark, ask, request):
    plain, reworded = load(benchmark, request, ask), load(benchmark, request, ask, wording=3)
    for doc, before in zip(reworded, plain, strict=True):
        same = [name for name in before if name not in ("question", "prompt", "images", "heatmaps", "region")]
        assert {name: str(doc[name]) for name in same} == {name: str(before[name]) for name in same}
        assert doc["question"] != before["question"]
        if benchmark == "heal-medvqa":
            assert doc["anatomy"] in doc["question"]
            disease = in_text("heal-medvqa", (before["diseases"] or [""])[0])
            assert ask == "open" or (disease in doc["question"] and disease in before["question"])


def test_wordings_and_controls_combine(request):
    docs = load("cxr-contrabench", request, control="other", wording=2)
    controlled = load("cxr-contrabench", request, control="other")
    assert {doc["id"]: str(doc["images"]) for doc in docs} == {doc["id"]: str(doc["images"]) for doc in controlled}
    assert {(doc["prompt"], doc["control"], doc["wording"]) for doc in docs} == {("b0, other, wording 2", "other", 2)}


@pytest.mark.parametrize(
    ("benchmark", "wording", "error", "says"),
    [
        (
            "cxr-contrabench",
            6,
            UnsupportedWordingError,
            "has 5 wordings\n  expected: 1 to 5 of cxr-contrabench, 1 to 5",
        ),
        ("heal-medvqa", -1, InputError, "is -1\n  expected: a whole number, 0"),
        ("heal-medvqa", "2", InputError, "is '2'"),
        ("heal-medvqa", True, InputError, "is True"),
        ("wrong-lung", 1, UnsupportedWordingError, "wrong-lung has no wordings: it asks the words of its source"),
    ],
)
def test_a_wording_that_there_is_not_is_refused(benchmark, wording, error, says, request):
    with pytest.raises(InputError, match="option wording") as caught:
        load(benchmark, request, "closed" if benchmark == "heal-medvqa" else "", wording=wording)
    assert says in str(caught.value)
    assert type(caught.value) is error


def test_questions_that_a_source_words_have_no_wording(contrabench_of_all_sources):
    _, data = contrabench_of_all_sources
    arguments = {"config": "rexvqa_1k", "split": "test", "data": str(data)}
    with pytest.raises(UnsupportedWordingError, match="rexvqa_1k are worded by their source"):
        contrabench.load("cxr-contrabench-rexvqa", wording=1, **arguments)


def test_examples_before_a_reworded_question_stay_as_they_are(contrabench_of_all_sources):
    pool = {"pool_repository": "cxr-contrabench-chexpert", "pool_config": "chexpert_presence"}
    arguments = {"repository": "cxr-contrabench-openi", "config": "openi_report_absence", "split": "test"}
    data = str(contrabench_of_all_sources[1])
    plain, reworded = (fewshot.load(**pool, **arguments, data=data, wording=number)["test"] for number in (0, 2))
    assert reworded["exemplars"] == plain["exemplars"]
    assert {*reworded["question"]} == {wordings("cxr-contrabench")["absence"][1]}


def test_the_command_prints_every_wording_and_refuses_an_unknown_one_before_the_model_is_loaded(
    capsys, phantom_build, tmp_path, monkeypatch
):
    assert main(["tasks", "--wordings"]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    for *_, number, text in described():
        assert f"{number}. {text}" in printed
    monkeypatch.setattr(Oracle, "__init__", lambda *_, **__: pytest.fail("the model was loaded"))
    command = ["eval", "--data", str(phantom_build), "--tasks", "medfaith_contrabench_chexpert_presence"]
    command += ["--output_path", str(tmp_path / "out"), "--log_samples", "--model", "oracle"]
    assert main([*command, "--wording", "9"]) == 2
    assert "option wording=9: cxr-contrabench has 5 wordings" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def evaluate_task(request: pytest.FixtureRequest, name: str, task: str, out: Path, *more: str) -> dict[str, float]:
    """Run `medfaith eval` on a task and return its figures."""
    data, roots = (request.getfixturevalue(f"phantom{name}_{kind}") for kind in ("build", "roots"))
    command = ["eval", "--data", str(data), *root_words(roots), "--tasks", f"medfaith_{task}", "--log_samples"]
    assert main([*command, "--output_path", str(out), *more]) == 0
    return results_of(out)[f"medfaith_{task}"]


@pytest.mark.full
def test_an_oracle_is_right_in_every_wording_and_the_report_tells_wordings_apart(request, tmp_path, capsys):
    for model, right in (("oracle", 1.0), ("negation_attracted", 0.0)):
        for wording in (0, 2):
            options = ["--wording", str(wording)] if wording else []
            scores = evaluate_task(
                request,
                "",
                "contrabench_chexpert_presence",
                tmp_path / model / str(wording),
                "--model",
                model,
                *options,
            )
            assert scores["accuracy,b0"] == right
            assert scores["accuracy,m1_extended"] == 1.0
    (reworded_run,) = select_runs(read_results([tmp_path / "oracle" / "2"]), Run)
    assert (reworded_run.setting.prompt, dict(reworded_run.source.told)["wording"]) == ("b0, wording 2", "2")
    tables = write_report([tmp_path / "oracle"])
    assert [row[1] for row in rows_of(tables, "Table 9")] == ["B0", "B0 (wording 2)"]
    results = read_results([tmp_path / "oracle"])
    cases = collect_cases(results.runs).cases
    answers = [[(answer.shown, answer.outcome) for answer in case.answers] for case in cases]
    assert {tuple(case_answers) for case_answers in answers} == {(("image", "right"), ("wording 2", "right"))}
    assert "asked “Of the findings listed here" in cases[0].answers[1].why
    assert [run.setting.prompt for run in results.with_the_image().all] == ["b0"]
    capsys.readouterr()
    assert main(["compare", str(tmp_path / "oracle/0"), str(tmp_path / "oracle/2")]) == 2
    assert "wording 2, not unset" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "task", "figure"),
    [
        ("_heal", "heal_vindr_closed", "yes_no_accuracy"),
        pytest.param("_heal", "heal_vindr_tpt", "tpt", marks=pytest.mark.full),
        ("_surgx", "surgx_instruments", "f1"),
    ],
)
def test_an_oracle_answers_every_wording_of_other_benchmarks(name, task, figure, request, tmp_path):
    scores = evaluate_task(request, name, task, tmp_path, "--model", "oracle", "--wording", "2")
    assert scores[f"{figure},none"] == 1.0
    docs = [sample["doc"] for sample in samples_of(tmp_path, task)]
    assert {(doc["wording"], doc["prompt"]) for doc in docs} == {(2, "b0, wording 2")}
