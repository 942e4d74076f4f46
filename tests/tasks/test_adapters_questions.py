"""What the adapters for other harnesses share: which task a name stands for, its prompt, where nothing is written."""

from __future__ import annotations

import pytest

from medfaith.loaders.errors import InputError, MedfaithError, MissingSourceError
from medfaith.tasks.adapters import questions
from medfaith.tasks.contrabench import prompts

PRESENCE = "medfaith_contrabench_chexpert_presence"


@pytest.fixture(scope="module")
def presence(phantom_build, phantom_roots):
    return questions.load_one(PRESENCE, str(phantom_build), phantom_roots)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("nothing", "medfaith tasks --list"),
        ("medfaith_contrabench_cot", "one of medfaith_contrabench_cot::chexpert_presence, medfaith"),
        ("medfaith_contrabench_cot::nothing", "one of medfaith_contrabench_cot::chexpert_presence, medfaith"),
        ("medfaith_contrabench_option_scores", "more than answers"),
    ],
)
def test_a_name_that_is_no_task_of_answers_is_refused(name, words, phantom_build, phantom_roots):
    with pytest.raises(InputError, match=words):
        questions.load_one(name, str(phantom_build), phantom_roots)


def test_a_task_of_a_group_has_its_own_prompt(phantom_build, phantom_roots):
    task = questions.load_one("medfaith_contrabench_cot::chexpert_absence", str(phantom_build), phantom_roots)
    doc = task.test_docs()[0]
    assert "Step" in prompts.cot(doc) or "1." in prompts.cot(doc)
    assert questions.texts(task, doc)[-1] == prompts.cot(doc).replace("<image>", "").strip()


def test_a_source_without_a_root_stops_at_once(phantom_build):
    with pytest.raises(MissingSourceError, match="how to get it"):
        questions.load_one(PRESENCE, str(phantom_build))


@pytest.mark.parametrize("form", [lambda p: f"chexpert={p}", lambda p: [f"chexpert={p}"], lambda p: {"chexpert": p}])
def test_roots_come_in_three_forms(form, tmp_path):
    assert questions.resolve_roots(form(str(tmp_path)))["chexpert"] == tmp_path


def test_a_root_without_a_source_is_refused():
    with pytest.raises(MedfaithError, match="SOURCE=PATH"):
        questions.resolve_roots("somewhere")


def test_the_prompt_is_b0_between_its_images(presence):
    docs = list(presence.test_docs())
    assert max(len(doc["images"]) for doc in docs) > 1
    for doc in docs:
        *before, text = questions.texts(presence, doc)
        assert before == [""] * len(doc["images"])
        assert "<image>" * len(before) + "\n" + text == prompts.b0(doc)


@pytest.mark.parametrize(("wanted", "found"), [(None, "b0"), ("m1", "m1"), ("m1_extended", "m1_extended")])
def test_the_first_filter_reads_answers_if_no_other_is_named(wanted, found, presence):
    assert questions.reading(presence, wanted) == found


def test_a_filter_that_the_task_has_not_is_refused(presence):
    with pytest.raises(InputError, match="one of b0, m1, m1_slot_agnostic, m1_extended"):
        questions.reading(presence, "m2")


@pytest.mark.parametrize("place", ["x.tsv", "below/x.tsv", "cxr-contrabench-chexpert/x.tsv"])
def test_nothing_is_written_below_a_build(place, phantom_build):
    with pytest.raises(InputError, match="lies in the build"):
        questions.refuse_builds(phantom_build / place)


def test_another_folder_may_be_written(tmp_path):
    (tmp_path / "build.json").write_text("{}")  # of another tool
    questions.refuse_builds(tmp_path / "x.tsv")
