"""A metric from the checkout to the Hub and back, with the real command and evaluate's own loader."""

from __future__ import annotations

import pytest
import yaml

from medfaith.cli import main
from tests.support.publishing import METRIC

# The card's example, in a process without medfaith and a folder without the metric: only the Hub has it.
LOAD = """
import doctest, importlib.abc, json, sys
from huggingface_hub import hf_hub_download

class Blocked(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"medfaith", "transformers"}:
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Blocked())
with open(hf_hub_download("clinic/tpt", "README.md", repo_type="space"), encoding="utf-8") as card:
    test = doctest.DocTestParser().get_doctest(card.read(), {}, "tpt", "README.md", 0)
report = []
failed, tried = doctest.DocTestRunner(verbose=False).run(test, out=report.append, clear_globs=False)
print(json.dumps({"failed": failed, "tried": tried, "report": "".join(report), "scores": test.globs.get("scores")}))
"""


@pytest.mark.full  # three processes; test_spaces.py runs what is staged
def test_a_metric_is_published_and_loaded_and_not_published_again(hub, tmp_path, python, medfaith):
    status, output, complaint = medfaith(*METRIC)
    assert (status, complaint) == (0, "")
    assert "clinic/tpt (new space, a metric)" in output
    assert set(hub.repositories) == {("space", "clinic/tpt")}
    space = hub.repositories["space", "clinic/tpt"]
    assert {"tpt.py", "score.py", "confidence_score.py", "app.py", "example.json", "requirements.txt"} < set(
        space.files
    )
    assert yaml.safe_load(space.files["README.md"].decode().split("---\n")[1])["title"] == "TPT"
    for name, content in space.files.items():
        assert b"/tmp/" not in content, name
        assert str(tmp_path).encode() not in content, name

    result = python(LOAD)
    assert result["failed"] == 0, result["report"]
    assert result["tried"] >= 6
    assert result["scores"]["tpt"] == 0.5
    assert {r.path.rsplit("/", 1)[-1] for r in hub.asked("GET", "/spaces/clinic/tpt/resolve/") if r.status == 307} >= {
        "tpt.py", "score.py", "reading_yes_no.py", "confidence_score.py", "perturbation.py"
    }  # fmt: skip

    commits, requests = len(space.commits), len(hub.requests)
    status, output, complaint = medfaith(*METRIC)
    assert (status, complaint) == (0, "")
    assert "clinic/tpt: nothing to change" in output
    assert len(space.commits) == commits
    assert [r for method in ("POST", "PUT") for r in hub.asked(method, since=requests)] == []


def test_a_metric_without_a_paid_plan_is_a_static_page(hub, medfaith):
    hub.unpaid.add("clinic")
    status, _, err = medfaith(*METRIC)
    assert (status, hub.repositories) == (2, {})
    assert "the Hub answers 402" in err
    assert "publish-metrics --sdk static" in err

    status, _, err = medfaith(*METRIC, "--sdk", "static")
    assert status == 0, err
    space = hub.repositories["space", "clinic/tpt"]
    card = yaml.safe_load(space.files["README.md"].decode().split("---\n")[1])
    assert (space.sdk, card["sdk"]) == ("static", "static")
    assert "nothing to change" in medfaith(*METRIC, "--sdk", "static")[1]

    hub.unpaid.clear()
    assert medfaith(*METRIC)[0] == 0  # medfaith replaces its own files without --force
    assert ("app.py" in space.files, "index.html" in space.files) == (True, False)


def test_an_unknown_metric_is_refused_in_words(hub, capsys):
    assert main(["publish-metrics", "--org", "clinic", "--metric", "tpx"]) == 2
    error_output = capsys.readouterr().err
    assert "--metric tpx" in error_output
    assert "tpt" in error_output
    assert hub.requests == []
