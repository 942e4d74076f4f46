"""Shared code of the adapters for other harnesses: task names, prompts, filters and refused output paths."""

from __future__ import annotations

import pytest

from medfaith.loaders.errors import InputError, MedfaithError, MissingSourceError
from medfaith.tasks.contrabench import prompts
from medfaith.tasks.harnesses import questions, writing
from tests.support.tasks.evaluating import load

PRESENCE = "medfaith_contrabench_chexpert_presence"


@pytest.fixture(scope="module")
def presence(phantom_build, phantom_roots):
    return questions.load_one(PRESENCE, str(phantom_build), phantom_roots)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nothing", "medfaith tasks --list"),
        ("medfaith_contrabench_cot", "one of medfaith_contrabench_cot::chexpert_presence, medfaith"),
        ("medfaith_contrabench_cot::nothing", "one of medfaith_contrabench_cot::chexpert_presence, medfaith"),
        ("medfaith_contrabench_option_scores", "log-likelihood of given texts"),
        ("medfaith_contrabench_letter_scores", "scored on more than answers"),
    ],
)
def test_a_name_that_is_no_task_of_answers_is_refused(name, message, phantom_build, phantom_roots):
    with pytest.raises(InputError, match=message):
        questions.load_one(name, str(phantom_build), phantom_roots)


def test_a_task_of_a_group_has_its_own_prompt_and_needs_no_root_of_another(phantom_build, phantom_roots):
    """The group asks about OpenI, too."""
    name, roots = "medfaith_contrabench_cot::chexpert_absence", {"chexpert": phantom_roots["chexpert"]}
    ((task_name, task),) = questions.load(name, str(phantom_build), roots).items()
    doc = task.test_docs()[0]
    assert task_name == name
    assert questions.split_prompt(task, doc)[-1] == prompts.cot(doc).replace("<image>", "").strip()
    with pytest.raises(MissingSourceError, match="openi"):
        questions.load("medfaith_contrabench_cot", str(phantom_build), roots)


@pytest.mark.parametrize(
    ("name", "message"),
    [("medfaith_wrong_lung", "scores heatmaps"), ("medfaith_surgx", "scored on more than answers")],
)
def test_a_score_of_more_than_answers_is_refused_before_rows_are_read(name, message):
    with pytest.raises(InputError, match=message):
        questions.load(name, "no such folder")


@pytest.mark.parametrize("name", ["medfaith_contrabench", "medfaith_contrabench_cot"])
def test_tasks_are_what_lm_eval_makes_of_the_files(name, phantom_build, phantom_roots):
    """A group of files and a group of groups have the same settings as in lm-eval's own index."""

    def read_settings(task):
        return {key: value for key, value in vars(task.config).items() if key not in ("metadata", "tag")}

    expected = load([name], phantom_build, phantom_roots)["tasks"]
    tasks = questions.load(name, str(phantom_build), phantom_roots)
    assert list(tasks) == list(expected)
    for task_name, task in tasks.items():
        assert read_settings(task) == read_settings(expected[task_name])


@pytest.mark.parametrize("form", [lambda p: f"chexpert={p}", lambda p: [f"chexpert={p}"], lambda p: {"chexpert": p}])
def test_roots_come_in_three_forms(form, tmp_path):
    assert questions.resolve_roots(form(str(tmp_path)))["chexpert"] == tmp_path


def test_a_root_without_a_source_is_refused():
    with pytest.raises(MedfaithError, match="SOURCE=PATH"):
        questions.resolve_roots("somewhere")


def test_the_first_filter_reads_answers_if_no_other_is_named(presence):
    for filter_name, expected in ((None, "b0"), ("m1", "m1"), ("m1_extended", "m1_extended")):
        assert questions.choose_filter(presence.config, filter_name) == expected
    with pytest.raises(InputError, match="one of b0, m1, m1_slot_agnostic, m1_extended"):
        questions.choose_filter(presence.config, "m2")


@pytest.mark.parametrize("place", ["x.tsv", "below/x.tsv", "cxr-contrabench-chexpert/x.tsv"])
def test_nothing_is_written_below_a_build(place, phantom_build, tmp_path):
    with pytest.raises(InputError, match="is in the build"):
        writing.refuse_output(phantom_build / place)
    (tmp_path / "build.json").write_text("{}")  # of another tool
    writing.refuse_output(tmp_path / "x.tsv")


def test_the_lock_of_a_writer_that_was_killed_at_the_end_goes(tmp_path):
    (tmp_path / "out").mkdir()
    (lock := tmp_path / ".out.lock").touch()
    with pytest.raises(InputError, match="exists"):
        writing.refuse_output(tmp_path / "out", new=True)
    assert not lock.exists()
