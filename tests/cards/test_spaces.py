"""Metrics as Spaces: the staged folder loads without medfaith, its page runs, and its card is complete."""

from __future__ import annotations

import ast
import html
import importlib.metadata
import json
import math
import os
import re
import socket
import subprocess
import sys
import threading
from pathlib import Path

import evaluate
import pytest
import yaml

from medfaith.cards.publish import space_app, spaces
from medfaith.loaders.errors import MedfaithError

METRICS = spaces.list_metrics()
NAMES = [metric.name for metric in METRICS]
HEADINGS = ["How to use", "Inputs", "Outputs", "Published values", "Limits", "Citation"]
COLOURS = {"red", "yellow", "green", "blue", "indigo", "purple", "pink", "gray"}

# Modules that a Space does not have: medfaith, and libraries that evaluate is slow to import.
WITHOUT = """
import importlib.abc, json, runpy, sys

class Blocked(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"medfaith", "transformers", "scipy", "sklearn", "lm_eval"}:
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Blocked())
"""
EXAMPLES = (
    WITHOUT
    + """
import doctest, evaluate

found = {}
for name in sys.argv[1:]:
    with open(f"clinic/{name}/README.md", encoding="utf-8") as card:
        test = doctest.DocTestParser().get_doctest(card.read(), {}, name, "README.md", 0)
    report = []
    failed, tried = doctest.DocTestRunner(verbose=False).run(test, out=report.append)
    with open(f"clinic/{name}/example.json", encoding="utf-8") as file:
        shown = json.load(file)
    loaded = [evaluate.load(f"clinic/{name}", one["config"]).compute(**one["inputs"]) for one in shown["examples"]]
    found[name] = {"failed": failed, "tried": tried, "report": "".join(report), "scores": loaded}
print(json.dumps(found))
"""
)


def make_environment(home: Path) -> dict[str, str]:
    """Build the environment of a process without network access and without the checkout."""
    inherited = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    offline = {"HF_HUB_OFFLINE": "1", "GRADIO_ANALYTICS_ENABLED": "False", "NO_PROXY": "127.0.0.1"}
    return {**inherited, **offline, "HF_HOME": str(home), "HF_MODULES_CACHE": str(home / "modules"), "PYTHONPATH": ""}


@pytest.fixture(scope="module")
def staged(tmp_path_factory) -> Path:
    """A folder with every metric staged as clinic/<metric>."""
    away = tmp_path_factory.mktemp("spaces")
    for metric in METRICS:
        into = away / "clinic" / metric.name
        into.mkdir(parents=True)
        spaces.stage(metric, into, f"clinic/{metric.name}")
    return away


@pytest.fixture(scope="module")
def loaded(staged, tmp_path_factory) -> dict:
    """Results of all staged cards and example inputs, from one process without medfaith."""
    command, env = [sys.executable, "-c", EXAMPLES, *NAMES], make_environment(tmp_path_factory.mktemp("home"))
    done = subprocess.run(command, cwd=staged, env=env, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_every_metric_is_found():
    room = Path(spaces.evaluate_metrics.__file__).parent
    assert set(NAMES) == {path.parent.name for path in room.glob("*/README.md")}


@pytest.mark.parametrize("name", NAMES)
def test_the_staged_card_runs_without_medfaith(loaded, name):
    assert loaded[name]["failed"] == 0, loaded[name]["report"]
    assert loaded[name]["tried"] >= 4
    assert len(loaded[name]["scores"]) >= 1


@pytest.mark.parametrize("metric", METRICS, ids=NAMES)
def test_a_space_is_files_that_name_only_one_another(staged, metric):
    folder = staged / "clinic" / metric.name
    paths = list(folder.rglob("*"))
    assert all(path.is_file() and not path.is_symlink() for path in paths)
    assert {"README.md", "app.py", "example.json", "requirements.txt", f"{metric.name}.py"} <= {p.name for p in paths}
    imported = {name for path in folder.glob("*.py") for name in list_third_party(path)}
    listed = (folder / "requirements.txt").read_text(encoding="utf-8").splitlines()
    assert [line.split(">=")[0] for line in listed] == sorted(imported)
    libraries = {"datasets", "evaluate", "gradio", "numpy"}
    assert imported == libraries | ({"pycocotools"} if metric.name in {"mask_overlap", "ras"} else set())
    declared = [re.sub(r"\s*;.*", "", line) for line in importlib.metadata.requires("medfaith") or ()]
    assert set(listed) <= set(declared)


def test_a_static_space_shows_the_card_and_the_examples_with_their_scores(tmp_path):
    folder = tmp_path / (name := "ivt")
    folder.mkdir()
    spaces.stage(METRICS[NAMES.index(name)], folder, f"clinic/{name}", "static")
    card = yaml.safe_load((folder / "README.md").read_text(encoding="utf-8").split("---\n")[1])
    assert (card["sdk"], card["app_file"], "sdk_version" in card) == ("static", "index.html", False)
    assert not (folder / "app.py").exists()
    assert "gradio" not in (folder / "requirements.txt").read_text(encoding="utf-8")
    page = (folder / "index.html").read_text(encoding="utf-8")
    assert not re.search("<(script|link|img)|url\\(", page)  # the page is self-contained
    assert {"Examples", *HEADINGS} <= set(re.findall("<h2>(.+)</h2>", page))
    text = " ".join(html.unescape(re.sub("<[^>]+>", " ", page)).split())
    for example in json.loads((folder / "example.json").read_text(encoding="utf-8"))["examples"]:
        metric = evaluate.load(str(folder / f"{name}.py"), example["config"])
        scores = metric.compute(**example["inputs"])
        assert scores
        for score, value in scores.items():
            assert not isinstance(value, float) or f"{score} {value:.4f}" in text
    assert "| key | meaning |" not in text  # it is a table


def test_a_static_space_names_the_library_that_it_lacks(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "markdown_it", None)
    with pytest.raises(
        MedfaithError, match=r"markdown-it-py is not installed\n  what to do: pip install 'medfaith\[pub"
    ):
        spaces.stage(METRICS[0], tmp_path, f"clinic/{NAMES[0]}", "static")


def write_metric(room: Path, files: dict[str, str]) -> Path:
    """Write the files of a metric `m` and return its folder."""
    for name, source in files.items():
        (room / name).parent.mkdir(exist_ok=True)
        (room / name).write_text(source, encoding="utf-8")
    return room / "m"


FULL = "from medfaith.evaluate_metrics."


def test_files_of_other_folders_lie_flat_beside_the_module_and_are_named_by_it(tmp_path):
    module = f"import evaluate\n{FULL}m.score import (\n    a,\n    b as c,\n)\n\nX = 1\n"
    score = "from ..n.score import a\n\n\ndef b():\n    from .late import z\n    return z\n"
    deep = {"n/score.py": "from .deep import a\n", "n/deep.py": "a = 1\n", "m/late.py": "z = 2\n"}
    bundle = spaces.bundle(write_metric(tmp_path, {"m/m.py": module, "m/score.py": score, **deep}))
    imports = "".join(f"from .{name} import __name__ as _{name}\n" for name in ("late", "n_deep", "n_score"))
    comment = "# evaluate fetches only the files that this one names."
    assert set(bundle) == {"m.py", "score.py", "n_score.py", "late.py", "n_deep.py"}
    assert bundle["m.py"] == f"import evaluate\nfrom .score import a, b as c\n\n{comment}\n{imports}\nX = 1\n"
    assert bundle["score.py"] == score.replace("..n.score", ".n_score")
    assert (bundle["n_score.py"], bundle["n_deep.py"]) == ("from .n_deep import a\n", "a = 1\n")


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"m/m.py": "import evaluate\nfrom medfaith.loaders import rle\n"}, r"m\.py, line 2: a Space has no medfaith"),
        ({"m/m.py": "from ...loaders.rle import encode\n"}, r"m\.py, line 1: a Space has no \.\.\.loaders\.rle"),
        ({"m/m.py": f"{FULL}n.gone import a\n"}, r"n\.gone; expected `from medfaith\.evaluate_metrics\."),
        (
            {"m/m.py": f"{FULL}m.n_a import x\n{FULL}n.a import y\n", "m/n_a.py": "x = 1\n", "n/a.py": "y = 1\n"},
            r"both would be n_a\.py in a Space; rename one of them",
        ),
    ],
)
def test_what_no_space_can_have_is_refused(tmp_path, files, message):
    with pytest.raises(ValueError, match=message):
        spaces.bundle(write_metric(tmp_path, files))


def list_third_party(path: Path) -> set[str]:
    """List the third-party modules that a file imports; modules that it imports relatively must exist."""
    modules = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.level:
            assert (path.parent / f"{node.module}.py").exists(), node.module
        elif isinstance(node, ast.ImportFrom):
            modules.add(str(node.module).split(".")[0])
        elif isinstance(node, ast.Import):
            modules |= {alias.name.split(".")[0] for alias in node.names}
    return modules - set(sys.stdlib_module_names)


@pytest.mark.parametrize("name", NAMES)
def test_the_header_is_one_that_the_hub_takes(staged, name):
    text = (staged / "clinic" / name / "README.md").read_text(encoding="utf-8")
    _, front, body = text.split("---\n", 2)
    card = yaml.safe_load(front)
    assert card["title"]
    assert (card["sdk"], card["app_file"], card["license"]) == ("gradio", "app.py", "apache-2.0")
    assert card["sdk_version"] == importlib.metadata.version("gradio")  # raise spaces.GRADIO with the lock file
    assert card["python_version"] == "3.11"
    assert {card["colorFrom"], card["colorTo"]} <= COLOURS
    assert re.fullmatch(r"\W", card["emoji"])
    assert {"evaluate", "metric", "medfaith"} <= set(card["tags"])
    assert f'evaluate.load("clinic/{name}"' in body
    assert "evaluate_metrics/" not in body
    assert "<organisation>" not in body


@pytest.mark.parametrize("metric", METRICS, ids=NAMES)
def test_a_card_says_range_direction_published_values_and_limits(metric):
    body = (metric / "README.md").read_text(encoding="utf-8").split("---\n", 2)[2]
    headings = re.split(r"^## (.+)$", body, flags=re.MULTILINE)[1:]
    section = dict(zip(headings[::2], headings[1::2], strict=True))
    assert [heading for heading in section if heading in HEADINGS] == HEADINGS
    for heading, pattern in (("Outputs", r"\*\*Range\.\*\* \S"), ("Outputs", r"\*\*Direction\.\*\* \S"),
                             ("Published values", r"(Table|Figure)s? \d+"), ("Limits", r"\n- \S")):  # fmt: skip
        assert re.search(pattern, section[heading]), pattern


def test_staging_gives_the_same_files_again(staged, tmp_path):
    spaces.stage(METRICS[0], tmp_path, f"clinic/{NAMES[0]}")
    before = {path.name: path.read_bytes() for path in (staged / "clinic" / NAMES[0]).iterdir()}
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


# Run the page in its own process and query it by Gradio's client.

PAGE = WITHOUT + "runpy.run_path('app.py', run_name='__main__')"


@pytest.fixture(scope="module")
def page(staged, tmp_path_factory):
    """A Gradio client of the running page of `ivt`."""
    from gradio_client import Client

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    variables = make_environment(tmp_path_factory.mktemp("home"))
    variables |= {"GRADIO_SERVER_NAME": "127.0.0.1", "GRADIO_SERVER_PORT": str(port)}
    command, streams = [sys.executable, "-u", "-c", PAGE], {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    started = subprocess.Popen(command, cwd=staged / "clinic" / "ivt", env=variables, text=True, **streams)
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("NO_PROXY", "127.0.0.1")
            patch.setenv("GRADIO_ANALYTICS_ENABLED", "False")
            yield Client(read_address(started), verbose=False, download_files=tmp_path_factory.mktemp("client"))
    finally:
        started.kill()
    assert "Traceback" not in (printed := started.communicate()[0]), printed


def read_address(page: subprocess.Popen[str]) -> str:
    """Read the address of a starting page from its output; wait two minutes at most."""
    lines, late = [], threading.Timer(120, page.kill)
    late.start()
    for line in page.stdout or ():
        lines.append(line)
        if match := re.search(r"http://127\.0\.0\.1:\d+", line):
            late.cancel()
            return match[0]
    raise AssertionError("".join(lines))


@pytest.mark.full  # starting the page takes seconds; the quicker tests run its functions
@pytest.mark.parametrize("example", [0, 2])
def test_the_page_shows_an_example_and_gives_the_metrics_scores(page, loaded, staged, example):
    examples = json.loads((staged / "clinic" / "ivt" / "example.json").read_text(encoding="utf-8"))["examples"]
    typed = page.predict(example, api_name="/example")
    assert json.loads(typed) == examples[example]["inputs"]
    table, scores = page.predict(example, typed, api_name="/score")
    expected = loaded["ivt"]["scores"][example]
    assert scores == replace_nan(expected)
    rows = dict(table["data"])
    for key, value in expected.items():
        if isinstance(value, int | float):
            assert rows[key] == (f"{value:.4f}" if isinstance(value, float) else str(value))


def replace_nan(value):
    """Replace NaN by None, as JSON does with scores."""
    if isinstance(value, dict):
        return {key: replace_nan(item) for key, item in value.items()}
    if isinstance(value, list):
        return [replace_nan(item) for item in value]
    return None if isinstance(value, float) and math.isnan(value) else value


ROW = {"classes": ["hook"], "video": "41"}


def encode_inputs(references: list[dict], **more: int) -> str:
    return json.dumps({"predictions": ["A hook."], "references": references, **more})


BAD_INPUTS = [
    ("{", "Expecting property name"),
    ("[1]", "expected one JSON object"),
    ('{"predictions": ["A hook."]}', "references: missing"),
    (encode_inputs([ROW | {"classes": ["x"]}]), "row 1: 'x'; expected one of the 7 classes"),
    (encode_inputs([ROW, ROW]), "Mismatch in the number"),
    (encode_inputs([{"video": "41"}]), "references, row 1: no column 'classes'; expected classes, video"),
    (encode_inputs([ROW], q=5), "unexpected keyword argument 'q'"),
]


@pytest.mark.parametrize(("typed", "message"), BAD_INPUTS)
def test_a_bad_input_is_refused_with_a_message(typed, message, staged):
    """The functions of the page, which turns these errors into its messages."""
    with pytest.raises((ValueError, TypeError), match=re.escape(message)):
        space_app.compute(staged / "clinic" / "ivt" / "ivt.py", None, typed)


def test_the_page_formats_inputs_and_scores(loaded, staged):
    examples = json.loads((staged / "clinic" / "ivt" / "example.json").read_text(encoding="utf-8"))["examples"]
    for example, expected in zip(examples, loaded["ivt"]["scores"], strict=True):
        typed = space_app.format_inputs(example["inputs"])
        assert json.loads(typed) == example["inputs"]
        scores = space_app.compute(staged / "clinic" / "ivt" / "ivt.py", example["config"], typed)
        assert replace_nan(scores) == replace_nan(expected)
        rows = dict(space_app.list_scores(scores))
        for key, value in expected.items():
            if isinstance(value, int | float):
                assert rows[key] == (f"{value:.4f}" if isinstance(value, float) else str(value))


@pytest.mark.full  # starting the page takes seconds; the quicker tests run its functions
@pytest.mark.parametrize(("typed", "message"), BAD_INPUTS)
def test_a_bad_input_gives_a_message_and_the_next_one_is_scored(page, loaded, typed, message):
    from gradio_client.exceptions import AppError

    with pytest.raises(AppError) as caught:
        page.predict(0, typed, api_name="/score")
    assert message in str(caught.value)
    assert "Traceback" not in str(caught.value)
    _, scores = page.predict(0, page.predict(0, api_name="/example"), api_name="/score")
    assert scores["f1"] == loaded["ivt"]["scores"][0]["f1"]
