"""The Python interface: it gives what the commands give, has their options, and refuses what they refuse."""

from __future__ import annotations

import inspect
import json
import typing
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from lm_eval.api.model import LM

import medfaith
from medfaith import cli
from medfaith.build_command import read_options
from medfaith.builders.options import declared
from medfaith.builders.registry import BENCHMARKS
from medfaith.loaders.errors import MedfaithError
from medfaith.tasks.models.function_lm import FunctionLM
from tests.support.house.parsers import find_job
from tests.support.tasks.asking import asked, shade

pytestmark = pytest.mark.usefixtures("quick_lm_eval")

ROOT = Path(__file__).parents[2]
CLOSED = "medfaith_heal_vindr_closed"
FUNCTIONS = {name: getattr(medfaith, name) for name in medfaith.__all__ if name != "AuditVerdict"}
FILES = dict.fromkeys(("write_requests", "images_in", "answers", "write_missing"), "arguments of medfaith-batch")
# Options of a command that its function does not have, and why.
ONLY_COMMAND = {
    "build": {"dask": "a cluster", "dry_run": "counts that are printed"},
    "evaluate": {"shard": "several machines", "dry_run": "an estimate that is printed", **FILES},
    "audit": {"shard": "requests of several machines", "dry_run": "an estimate that is printed", **FILES},
    "report": {
        "markdown": "Report.markdown()", "results_yaml": "files for the Hub", "org": "files for the Hub",
        "causal_graphs": "contact sheets of frames",
        **dict.fromkeys(("extractor_model", "extractor_url", "extractor_cache"), "a second reading"),
    },
}  # fmt: skip
COMMANDS = {"build": ["build", "heal-medvqa"], "evaluate": ["eval"], "audit": ["audit"], "report": ["report"]}


class AlwaysNo(LM):
    MULTIMODAL = True

    def generate_until(self, requests, disable_tqdm=False):
        return ["No"] * len(requests)

    def loglikelihood(self, requests, disable_tqdm=False):
        raise NotImplementedError

    loglikelihood_rolling = loglikelihood


class TextOnly(AlwaysNo):
    MULTIMODAL = False


@pytest.fixture
def data(phantom_heal_build, phantom_heal_roots):
    return {"data": phantom_heal_build, "roots": phantom_heal_roots}


def run(job: str, data, *arguments: object) -> None:
    roots = [word for name, path in data["roots"].items() for word in ("--root", f"{name}={path}")]
    assert cli.main([job, "--data", str(data["data"]), *roots, *map(str, arguments)]) == 0


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_function_is_typed_and_on_the_page(name):
    function = FUNCTIONS[name]
    parameters = inspect.signature(function).parameters
    assert {parameter for parameter in parameters if parameter not in function.__annotations__} == set()
    assert "return" in function.__annotations__
    assert f"`medfaith.{name}`" in (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
    assert all(f"{parameter}:" in function.__doc__ for parameter in parameters)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_function_has_the_options_of_its_command(name):
    parameters = {"root", "config", *inspect.signature(FUNCTIONS[name]).parameters}
    takes_all = name in ("evaluate", "audit")
    further = (
        {"send_images_to", "i_have_permission", "patients", "upsampling", "precision_ties"} if takes_all else set()
    )
    options = {action.dest for action in find_job(COMMANDS[name])._actions} - {"help"}
    if name == "build":  # the options of one benchmark
        further = {*declared(BENCHMARKS["heal-medvqa"].options)}
    assert options - parameters - further == {*ONLY_COMMAND[name]}


@pytest.mark.full  # two more builds
def test_a_build_has_the_rows_of_the_command(tmp_path, phantom_heal_build, phantom_heal_roots):
    (folder,) = medfaith.build("heal-medvqa", tmp_path, roots=phantom_heal_roots, configs=["vindr"])
    assert folder == tmp_path / "heal-medvqa-vindr_cxr"
    (file,) = sorted((folder / "vindr").glob("test-*.parquet"))
    assert pq.read_table(file).equals(pq.read_table(phantom_heal_build / file.relative_to(tmp_path)))
    rows = medfaith.load_rows("heal-medvqa-vindr_cxr", "vindr", "test", tmp_path)
    assert len(rows) == pq.read_metadata(file).num_rows
    assert [image.mode for image in medfaith.open_images(rows[0], phantom_heal_roots)] == ["RGB"]


@pytest.mark.full  # another build
def test_an_option_of_a_benchmark_is_recorded(tmp_path, phantom_heal_roots):
    (folder,) = medfaith.build("heal-medvqa", tmp_path, roots=phantom_heal_roots, configs=["vindr"], threshold=0.2)
    assert json.loads((folder / "build.json").read_text())["arguments"]["threshold"] == 0.2


@pytest.mark.parametrize("benchmark", BENCHMARKS.values(), ids=BENCHMARKS)
def test_a_text_for_a_repeatable_option_is_one_value(benchmark, tmp_path):
    for name, option in declared(benchmark.options).items():
        if option.repeatable:
            value = option.choices[0] if option.choices else "a text"
            as_text, as_list = (read_options({name: given}, benchmark.options, tmp_path) for given in (value, [value]))
            assert getattr(as_text, name) == getattr(as_list, name) == (value,)


def test_scores_and_logs_are_those_of_the_command(tmp_path, data):
    scores = medfaith.evaluate("always_yes", CLOSED, **data, out=tmp_path / "python", limit=9)
    arguments = ("--tasks", CLOSED, "--limit", 9, "--output_path", tmp_path / "command", "--log_samples")
    run("eval", data, "--model", "always_yes", *arguments)
    (file,) = (tmp_path / "command").rglob("results_*.json")
    expected = json.loads(file.read_text())["results"][CLOSED]
    assert json.loads(json.dumps(scores[CLOSED]), parse_constant=str) == json.loads(
        json.dumps(expected), parse_constant=str
    )
    reports = [medfaith.report(tmp_path / name).sections[0].tables[0].rows for name in ("python", "command")]
    assert reports[0] == reports[1]


def test_an_instance_answers_as_a_model_type_does(tmp_path, data):
    scores = medfaith.evaluate(AlwaysNo(), [CLOSED], **data, limit=9, out=tmp_path, model_name="never")
    assert scores[CLOSED]["yes_no_recall,none"] == 0
    (file,) = tmp_path.glob("results_*.json")
    (metadata,) = [config["metadata"] for config in json.loads(file.read_text())["configs"].values()]
    assert metadata["command"].startswith("medfaith.evaluate('AlwaysNo', model_name='never'")
    assert "never" in medfaith.report(tmp_path).markdown()


def test_a_secret_is_not_recorded(tmp_path, data):
    medfaith.evaluate("oracle", CLOSED, **data, model_args={"api_key": "sk-1"}, out=tmp_path, limit=2)
    texts = [file.read_text() for file in tmp_path.iterdir()]
    assert len(texts) == 2
    assert "sk-1" not in "".join(texts)


@pytest.mark.full  # test_a_function_answers_with_images_and_text audits, too
def test_an_audit_is_that_of_the_command(tmp_path, data):
    options = {"benchmarks": ["heal-medvqa"], "controls": ["none", "other"], "limit": 6}
    verdicts = medfaith.audit("always_yes", **data, out=tmp_path / "python", **options)
    arguments = ("--benchmarks", "heal-medvqa", "--controls", "none", "other", "--limit", 6)
    run("audit", data, "--model", "always_yes", *arguments, "--out", tmp_path / "command")
    for name in ("audit.csv", "audit.md", "blind_clean.csv", "rows.csv"):
        assert (tmp_path / "python" / name).read_text() == (tmp_path / "command" / name).read_text()
    (verdict,) = verdicts
    assert (verdict.model, verdict.benchmark, verdict.image) == ("always_yes", "heal-medvqa", "open")
    assert all(sentence in (tmp_path / "python" / "audit.md").read_text() for sentence in verdict.sentences)


@pytest.mark.full  # the next test audits a function
def test_an_instance_is_audited(tmp_path, data):
    options = {"benchmarks": ["heal-medvqa"], "controls": ["none", "other"], "limit": 6, "model_name": "never"}
    (verdict,) = medfaith.audit(AlwaysNo(), **data, out=tmp_path, **options)
    assert (verdict.model, verdict.image) == ("never", "open")


def test_a_function_answers_with_images_and_text(tmp_path, data):
    seen = []

    def answer(images, text):
        seen.append((len(images), text))
        return "No"

    scores = medfaith.evaluate(answer, [CLOSED], **data, limit=9, out=tmp_path)
    of_instance = medfaith.evaluate(AlwaysNo(), [CLOSED], **data, limit=9)
    assert scores[CLOSED].pop("n_images_missing,none") == 0
    del of_instance[CLOSED]["n_images_missing,none"]  # unknown: the instance opens no image
    np.testing.assert_equal(scores, of_instance)  # undefined scores are equal, too
    assert "answer" in medfaith.report(tmp_path).markdown()
    medfaith.evaluate(answer, [CLOSED], **data, limit=9, control="none")
    assert [n for n, _ in seen] == [1] * 9 + [0] * 9
    assert all(text.startswith(("Does ", "Is ", "Are ")) for _, text in seen)
    options = {"benchmarks": ["heal-medvqa"], "controls": ["none", "other"], "limit": 6, "model_name": "mine"}
    (verdict,) = medfaith.audit(answer, **data, out=tmp_path / "audit", **options)
    assert (verdict.model, verdict.image) == ("mine", "open")


def test_a_prompt_with_images_between_its_texts_is_refused():
    model = FunctionLM(lambda images, text: f"{len(images)} {text}")
    images = [shade(1), shade(2)]
    assert model.generate_until([asked("<image>\n<image>Left or right?", images)]) == ["2 Left or right?"]
    assert model.generate_until([asked("Left or right?", until=["or"])]) == ["0 Left "]
    with pytest.raises(MedfaithError, match="images between its texts"):
        model.generate_until([asked("<image>Left, <image>right?", images)])


BAD: list[tuple[str, tuple, dict, str]] = [
    ("build", ("heal", "x"), {}, "one of cxr-contrabench"),
    ("build", ("heal-medvqa", "x"), {"swap": 1}, "option swap"),
    ("build", ("heal-medvqa", "x"), {"configs": ["nosuch"]}, "one of vindr, mimic"),
    ("evaluate", ("oracle", "nosuch"), {}, "nosuch: medfaith has no such task"),
    ("evaluate", ("oracle", "medfaith_heal_vindr_close"), {}, "did you mean medfaith_heal_vindr_closed"),
    ("evaluate", ("oracel", CLOSED), {}, "oracel"),
    ("evaluate", ("oracle", CLOSED), {"control": "nosuch"}, "nosuch"),
    ("evaluate", ("oracle", CLOSED), {"output_path": "x"}, "option output_path: is unknown"),
    ("evaluate", (AlwaysNo(), CLOSED), {"batch_size": 2}, "batch_size"),
    ("evaluate", (lambda images, text: True, CLOSED), {}, "returned bool for row"),
    ("evaluate", (AlwaysNo(), CLOSED), {"model_args": "a=1"}, "the model exists already"),
    ("evaluate", (TextOnly(), CLOSED), {}, "TextOnly: takes no images"),
    ("audit", ("oracle",), {"margin": 0}, "is 0 points"),
    ("audit", ("oracle",), {"margin": 100}, "is 100 points"),
    *(("audit", ("oracle",), {"margin": margin}, f"margin: is {margin!r}") for margin in ("5", None, True)),
    ("audit", ("oracle",), {"rule": 3}, "one of 1, 2"),
    ("audit", ("oracle",), {"controls": ["nosuch"]}, "nosuch"),
    ("audit", ("oracle",), {"benchmarks": ["nosuch"]}, "one of cxr-contrabench"),
    ("audit", ("oracle",), {"wordings": 99}, "--wordings 99"),
    ("report", ("nosuch",), {}, "nosuch"),
    ("report", ("nosuch",), {"with_images": True}, "with_images needs the rows"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "arguments", "options", "message"), BAD)
def test_bad_input_is_refused_and_nothing_is_written(name, arguments, options, message, tmp_path, data, monkeypatch):
    monkeypatch.chdir(tmp_path)
    given = {"build": {"roots": data["roots"]}, "evaluate": {**data, "out": "x"}, "audit": {**data, "out": "x"}}
    with pytest.raises(MedfaithError, match=message):
        FUNCTIONS[name](*arguments, **given.get(name, {}), **options)
    assert list(tmp_path.iterdir()) == []


def test_the_types_can_be_read():
    hints = typing.get_type_hints(medfaith.AuditVerdict)
    assert {*hints} == {"model", "benchmark", "image", "place", "findings", "sentences"}
