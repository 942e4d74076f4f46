"""What the adapters for other harnesses share: where rows lie, and where nothing may be written."""

from __future__ import annotations

import pytest

from medfaith.builders import cxr_contrabench
from medfaith.evaluate_metrics.polarity.score import score_predictions
from medfaith.loaders.errors import InputError, MedfaithError
from medfaith.tasks.adapters import questions
from medfaith.tasks.contrabench import prompts
from medfaith.tasks.rows import read


@pytest.mark.parametrize("config", [c for c in cxr_contrabench.CONFIGS if c not in cxr_contrabench.SETS])
def test_every_config_that_is_asked_has_a_place(config):
    repository, split = questions.place(config)
    assert repository == f"cxr-contrabench-{cxr_contrabench.CONFIGS[config]}"
    assert split in ("validation", "test")


@pytest.mark.parametrize(
    ("config", "split", "words"),
    [("nothing", None, "one of chexpert_absence"), ("openi_report_absence", "train", "one of test")],
)
def test_what_does_not_exist_is_named(config, split, words):
    with pytest.raises(InputError, match=words):
        questions.place(config, split)


def test_the_training_split_can_be_asked_for():
    assert questions.place("chexpert_presence", "train") == ("cxr-contrabench-chexpert", "train")


@pytest.mark.parametrize("form", [lambda p: f"chexpert={p}", lambda p: [f"chexpert={p}"], lambda p: {"chexpert": p}])
def test_roots_come_in_three_forms(form, tmp_path):
    assert questions.resolve_roots(form(str(tmp_path)))["chexpert"] == tmp_path


def test_a_root_without_a_source_is_refused():
    with pytest.raises(MedfaithError, match="SOURCE=PATH"):
        questions.resolve_roots("somewhere")


@pytest.mark.parametrize("config", ["chexpert_presence", "chexpert_absence", "chexpert_positive_only"])
def test_values_are_those_of_the_metric(config, phantom_build):
    """The mean of each rate over the rows is what `polarity` computes from the same answers."""
    rows = read(*_of(config), str(phantom_build)).to_list()
    answers = ["A", "B", "The answer is (C).", "no idea", "Z"] * len(rows)
    scores = score_predictions(answers[: len(rows)], rows)
    found = [questions.values(row, text) for row, text in zip(rows, answers, strict=False)]
    error = {"chexpert_presence": "reversal_rate", "chexpert_absence": "contradiction_rate"}.get(config)
    names = {"accuracy", "parse_failure_rate"} | ({error} if error else set())
    for name in names:
        assert sum(value[name] for value in found) / len(found) == pytest.approx(scores[name])
    assert {name for value in found for name in value} == names
    repaired = [questions.values(row, text, "m1")["accuracy"] for row, text in zip(rows, answers, strict=False)]
    assert sum(repaired) / len(rows) == pytest.approx(scores["accuracy_verified"])


def _of(config: str) -> tuple[str, str, str]:
    repository, split = questions.place(config)
    return repository, config, split


def test_the_prompt_is_b0_without_placeholders(phantom_build):
    for row in read(*_of("chexpert_presence"), str(phantom_build)).to_list():
        assert "<image>" * len(row["images"]) + "\n" + questions.prompt(row) == prompts.b0(row)


@pytest.mark.parametrize("place", ["x.tsv", "below/x.tsv", "cxr-contrabench-chexpert/x.tsv"])
def test_nothing_is_written_below_a_build(place, phantom_build):
    with pytest.raises(InputError, match="lies in the build"):
        questions.refuse_builds(phantom_build / place)


def test_another_folder_may_be_written(tmp_path):
    (tmp_path / "build.json").write_text("{}")  # of another tool
    questions.refuse_builds(tmp_path / "x.tsv")
