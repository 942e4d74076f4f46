"""Errors for broken logs: every message names the file, the line and the fault."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from medfaith.cli import main
from medfaith.loaders.errors import InputError
from medfaith.tasks.wrong_lung.adapter import packed
from tests.support.reporting.heal_logs import CLOSED, TPT_PAIRS, VPT_PAIRS, pair, write_heal
from tests.support.reporting.own_logs import CHOICES, OPENED, write_own
from tests.support.reporting.own_logs import CLOSED as OWN_CLOSED
from tests.support.reporting.report_logs import DATE, answered, change_lines, write_log, write_report
from tests.support.reporting.surgx_logs import ACTIONS, CLIP, FRAMES, GRASP, NAN, NULL, write_surgx
from tests.support.reporting.wrong_lung_logs import PAIR, TASK, write_wrong_lung

pytestmark = pytest.mark.usefixtures("tables_alone")

Change = Callable[[dict[str, Any]], Any]
WRITE: dict[str, Callable[[Path], Path]] = {  # one log of each kind
    "contrabench": lambda folder: write_log(folder, "m", answered("chexpert_presence", 5, 1, 2)),
    "heal": lambda folder: write_heal(folder, "closed", CLOSED),
    "frames": lambda folder: write_surgx(folder, FRAMES),
    "actions": lambda folder: write_surgx(folder, ACTIONS),
    "wrong_lung": lambda folder: write_wrong_lung(folder, "random_sentences", PAIR),
    "own_yes_no": lambda folder: write_own(folder, OWN_CLOSED),
    "own_choice": lambda folder: write_own(folder, CHOICES),
    "own_open": lambda folder: write_own(folder, OPENED),
}


def put(place: str = "", **changes: Any) -> Change:
    """Set fields of a sample, or of the object at `place` ("doc", or "f1.looks.0" for a first record)."""

    def change(sample: dict[str, Any]) -> None:
        at: Any = sample
        for name in place.split(".") if place else []:
            at = at[int(name)] if name.isdigit() else at[name]
        for name, value in changes.items():
            if value is KeyError:
                del at[name]
            else:
                at[name] = value

    return change


def put_reading(**changes: Any) -> Change:
    fields = {"choice": 1, "before": 1, "outcome": "parsed", "verifier": "fired"}
    return put(filtered_resps=[json.dumps(fields | changes)])


def escape_controls(share: Any, boxes: int = 1) -> Change:
    def change(sample: dict[str, Any]) -> None:
        sample["doc"]["boxes"] = [{"label": "grasper", "xywh": [0, 0, 1, 1]}] * boxes
        sample["f1"]["visible"] = [share]

    return change


def put_occlusion(**changes: Any) -> Change:
    return put("coverage", occluded={"triplet": GRASP, "before": 1.0, "after": 1.0, "predicted": [GRASP]} | changes)


def put_attention(value: Any) -> Change:
    return put("delta_auroc", attention=value)


LOOK, SEEN, ROW, VALUES = "f1.looks.0", "coverage.seen.0", "delta_auroc", "delta_auroc.values"
BROKEN: list[tuple[str, str, Change]] = [  # log, message, change of the first line
    ("contrabench", "cannot be read (KeyError: 'id'", put("doc", id=KeyError)),
    ("contrabench", "cannot be read", put("doc", id=7)),
    ("contrabench", "cannot be read (KeyError: 'filter'", put(filter=KeyError)),
    ("contrabench", "cannot be read (KeyError: 0", put(resps=[{"a": 1}])),
    ("contrabench", "cannot be read (OverflowError", put("doc", n_rows_skipped=math.inf)),
    ("contrabench", "column 'doc.answer': 3 is not an index", put("doc", answer=3)),
    ("contrabench", "column 'doc.negated': '1' is not an index", put("doc", negated="1")),
    ("contrabench", "column 'doc.options'", put("doc", options=[1, 2, 3])),
    ("contrabench", "column 'doc.finding': 4 is not a text", put("doc", finding=4)),
    ("contrabench", "cannot be read (IndexError", put(filtered_resps=[])),
    ("contrabench", "column 'filtered_resps'", put(filtered_resps=["B"])),
    ("contrabench", "column 'filtered_resps': 3 is not an index into the 3 options", put_reading(choice=3)),
    ("heal", "filtered_resps", put(filtered_resps=[3])),
    ("heal", "cannot be read", put(filtered_resps=[])),
    ("heal", "doc.id", put("doc", id="padchest/test/1")),
    ("heal", "cannot be read", put("doc", id=None)),
    ("heal", "doc.image_id", put("doc", image_id=7)),
    ("heal", "doc.kind", put("doc", kind="odd")),
    ("heal", "doc.question_type", put("doc", question_type="open")),
    ("heal", "doc.answer", put("doc", options=["Maybe", "No"])),
    ("heal", "doc.answer", put("doc", answer=-1)),
    ("heal", "doc.original_id", put("doc", kind="original", original_id="x")),
    ("heal", "doc.diseases", put("doc", kind="abnormal", question_type="open", diseases=["Gout"])),
    ("heal", "'yes_no_f1.dice': 1.5 is not a number from 0 to 1", put(yes_no_f1={"dice": 1.5})),
    ("frames", "cannot be read", put("f1", video=KeyError)),
    ("frames", "f1.video", put("f1", video="x")),
    ("frames", "f1.gold", put("f1", gold="hook")),
    ("frames", "'claw' is none of the 7 classes", put("f1", gold=["claw"])),
    ("frames", "f1.predicted", put("f1", predicted=["claw"])),
    ("frames", "0 records, not one for each of ['grasper']", put("f1", looks=[])),
    ("frames", "neither tp nor fp", put(LOOK, outcome="tn")),
    ("frames", "the state 'lost'", put(LOOK, state="lost")),
    ("frames", "aa is 0.5 in the state degenerate", put(LOOK, state="degenerate")),
    ("frames", "ac is nan in the state scored", put(LOOK, ac=NAN)),
    ("frames", "aa is 1.5", put(LOOK, aa=1.5)),
    ("frames", "ac is 'high'", put(LOOK, ac="high")),
    ("frames", "cannot be read (OverflowError", put(LOOK, ac=10**400)),
    ("frames", "cut_at_zero is None", put(LOOK, cut_at_zero=None)),
    ("frames", "the video 41 is not a text", put(LOOK, video=41)),
    ("frames", "f1", put(f1="")),
    ("frames", "cannot be read", put(filtered_resps=[])),
    ("frames", "filtered_resps", put(filtered_resps=[3])),
    ("frames", "1 shares; expected one for each of the frame's 0", escape_controls(0.5, boxes=0)),
    ("frames", "1.5 is not a share", escape_controls(1.5)),
    ("frames", "-0.5 is not a share", escape_controls(-0.5)),
    ("frames", "'half' is not a share", escape_controls("half")),
    ("frames", "doc.images", put("doc", images="cholec8:x")),
    ("frames", "doc.ask", put("doc", ask="phases")),
    ("frames", "doc.ask", put("doc", ask="triplets")),
    ("actions", "is none of the 100 classes", put("coverage", gold=["hook,sing,liver"])),
    ("actions", "the level 'vt' is none of ivt, iv", put(SEEN, level="vt")),
    ("actions", "the rank 0 does not fit the level missed", put(SEEN, level="missed")),
    ("actions", "coverage.seen", put(SEEN, triplet=CLIP)),
    ("actions", "is not a record of RAS", put(SEEN, null="no")),
    ("actions", "cut_at_zero is -inf", put(SEEN, cut_at_zero=-math.inf)),
    ("actions", "ras is -0.5", put(SEEN, ras=-0.5)),
    ("actions", "0 numbers; expected one for each of the 100", put("coverage", scores=[NAN])),
    ("actions", "is none of the frame's triplets", put_occlusion(triplet=NULL)),
    ("actions", "after is inf", put_occlusion(after=math.inf)),
    ("actions", "after is None", put_occlusion(after=None)),
    ("actions", "None is not a list", put_occlusion(predicted=None)),
    ("actions", "cannot be read", put("coverage", occluded={"triplet": GRASP})),
    ("wrong_lung", "column 'delta_auroc.id': 'b' differs from the document's 'gold/000'", put(ROW, id="b")),
    ("wrong_lung", "delta_auroc.original_id", put(ROW, original_id="b")),
    ("wrong_lung", "delta_auroc.perturbation", put(ROW, perturbation="trimmed")),
    ("wrong_lung", "'delta_auroc.cluster': 3 is not a text", put(ROW, cluster=3)),
    ("wrong_lung", "cannot be read (KeyError: 'cluster')", put(ROW, cluster=KeyError)),
    ("wrong_lung", "cannot be read (KeyError: 'abnormal')", put(ROW, subsets={})),
    ("wrong_lung", "expected true or false", put(ROW, subsets=dict.fromkeys(("abnormal", "one_lung", "mdrb"), "yes"))),
    ("wrong_lung", "'seen' is none of scored, without_map", put(ROW, state="seen")),
    ("wrong_lung", "cannot be read (KeyError: 'iou_30')", put(VALUES, iou_30=KeyError)),
    ("wrong_lung", "auroc is 1.5", put(VALUES, auroc=1.5)),
    ("wrong_lung", "no_attn is -0.5", put(VALUES, no_attn=-0.5)),
    ("wrong_lung", "entropy is nan", put(VALUES, entropy=math.nan)),
    ("wrong_lung", "local is inf", put(VALUES, local=math.inf)),
    ("wrong_lung", "global is '1'", put(VALUES, **{"global": "1"})),
    ("wrong_lung", "auroc is True", put(VALUES, auroc=True)),
    ("wrong_lung", "auroc is 0.5 in the state without_map", put(ROW, state="without_map")),
    ("wrong_lung", "'delta_auroc.attention': cannot be read", put_attention("everywhere")),
    ("wrong_lung", "cannot be read (cannot reshape", put_attention({"shape": [1, 1], "float32": "eJwL"})),
    ("wrong_lung", "cannot be read (cannot", put_attention(packed(np.ones((1, 2))) | {"shape": [3]})),
    (
        "wrong_lung",
        "a grid of 10,000,000,000 numbers",
        put_attention(packed(np.ones((1, 2))) | {"shape": [10**5, 10**5]}),
    ),
    ("wrong_lung", "cannot be read (buffer size", put_attention(packed(np.ones((5000, 1))) | {"shape": [1, 1]})),
    ("wrong_lung", "attention that sums to 2", put_attention(packed(np.ones((1, 2))))),
    ("wrong_lung", "'delta_auroc': '' is not the row", put(delta_auroc="")),
    ("wrong_lung", "cannot be read (KeyError: 'id')", put("doc", id=KeyError)),
    ("wrong_lung", f"'trimmed' in the task {TASK}random_sentences", put("doc", perturbation="trimmed")),
    *[("wrong_lung", "cannot be read", put(filtered_resps=replies)) for replies in ([], None, [None])],
    ("own_yes_no", "cannot be read", put("doc", id=7)),
    ("own_yes_no", "cannot be read (KeyError: 'id')", put("doc", id=KeyError)),
    ("own_yes_no", "column 'doc.answer_kind': 'odd' is none of yes_no, choice, open", put("doc", answer_kind="odd")),
    ("own_yes_no", "column 'doc.patient_id': 7 is not a text", put("doc", patient_id=7)),
    ("own_yes_no", "cannot be read (KeyError: 'location')", put("doc", location=KeyError)),
    ("own_yes_no", "column 'filtered_resps': 3 is not a text", put(filtered_resps=[3])),
    ("own_yes_no", "cannot be read", put(filtered_resps=[])),
    *[("own_open", "is not a list of texts", put("doc", gold=gold)) for gold in ("edema", [], [7])],
    *[("own_choice", f"{n!r} is the place of no option", put("doc", answer=n)) for n in (3, -1, "0", None)],
    ("own_choice", "cannot be read", put("doc", options=[1, 2, 3])),
]


def require_refusal(path: Path, *fragments: str) -> None:
    out = path.parent / "out"
    with pytest.raises(InputError) as error:
        write_report([path], out)
    assert [word for word in (str(path), *fragments) if word not in str(error.value)] == []
    assert not out.exists()


@pytest.mark.parametrize(("log", "message", "change"), BROKEN)
def test_a_broken_sample_is_named(tmp_path, log, message, change):
    path = WRITE[log](tmp_path)

    def first(lines: list[str]) -> list[str]:
        sample = json.loads(lines[0])
        change(sample)
        return [json.dumps(sample), *lines[1:]]

    require_refusal(change_lines(path, first), f"{path}, row 1", message)


LINES: dict[str, tuple[Callable[[list[str]], list[str]], str]] = {
    "cut off": (lambda lines: [*lines[:-1], lines[-1][:100]], "row 20: not a whole line of JSON"),
    "not JSON": (lambda lines: [*lines[:2], "oops", *lines[3:]], "row 3: not a whole line of JSON"),
    "too deep": (lambda lines: [*lines[:2], "[" * 100_000, *lines[3:]], "row 3: not a whole line of JSON"),
    "not UTF-8": (lambda lines: [*lines[:2], "\udcff", *lines[3:]], "row 3: not a whole line of JSON"),
    "a list": (lambda lines: [*lines[:2], "[1]", *lines[3:]], "row 3: cannot be read"),
    "a filter ends early": (lambda lines: lines[:-1], "the filter 'm1_extended' has 4 of 5 questions"),
    "a question is lost": (lambda lines: [x for x in lines if "patient00004" not in x], "has 4 questions"),
    "empty": (lambda lines: [], "is empty"),
}


@pytest.mark.parametrize("case", LINES)
def test_broken_lines_are_named(tmp_path, case):
    change, message = LINES[case]
    require_refusal(change_lines(WRITE["contrabench"](tmp_path), change), message, "what to do")


def test_other_ends_of_lines_and_a_byte_order_mark_are_read(tmp_path):
    path = write_log(tmp_path, "m", answered("chexpert_presence", 5, 1, 2, unread=1))
    report = write_report([path])
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b'{"doc"', b'{\r"doc"').replace(b"\n", b"\r\n"))
    assert write_report([path], html=tmp_path / "page.html") == report


@pytest.mark.parametrize("log", WRITE)
def test_a_question_that_is_there_twice_or_is_missing(tmp_path, log, capsys):
    path = WRITE[log](tmp_path)
    lines = path.read_text(encoding="utf-8").splitlines()
    require_refusal(
        change_lines(path, lambda lines: [*lines, lines[0]]), f"row {len(lines) + 1}", "is in the log twice"
    )
    last = json.loads(lines[-1])["doc"]["id"]
    remaining = [line for line in lines if json.loads(line)["doc"]["id"] != last]
    change_lines(path, lambda _: remaining)
    assert main(["report", str(tmp_path)]) == 2
    assert f"has {4 if log == 'contrabench' else len(remaining)} questions" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("results", "message"),
    [
        (None, "its results file is missing"), ("{", "not JSON"), ("[" * 100_000, "not JSON"), ("[]", "holds a list"),
        ("{}", "names no model"), ('{"config": {"model_args": 3}}', "names no model"),
    ],
)  # fmt: skip
def test_broken_results(tmp_path, results, message):
    WRITE["heal"](tmp_path)
    path = tmp_path / f"results_{DATE}.json"
    path.unlink() if results is None else path.write_text(results)
    with pytest.raises(InputError, match=message):
        write_report([tmp_path])


def test_several_results_files_of_one_date(tmp_path):
    """Which of them is the log's cannot be told. A copy with the same bytes does no harm."""
    WRITE["heal"](tmp_path)
    path, copy = tmp_path / f"results_{DATE}.json", tmp_path / f"copy_of_results_{DATE}.json"
    copy.write_bytes(path.read_bytes())
    report = write_report([tmp_path])
    copy.write_text('{"config": {"model": "another"}}')
    with pytest.raises(InputError, match=rf"several results files of its date: {copy.name}, {path.name}"):
        write_report([tmp_path])
    assert report


@pytest.mark.parametrize(
    ("name", "message"),
    [("nothing", "no such file"), ("empty", "no sample log"), ("other.json", "not the name of a file that lm-eval")],
)
def test_paths_without_results(tmp_path, name, message):
    (tmp_path / "empty").mkdir()
    (tmp_path / "other.json").write_text("{}")
    with pytest.raises(InputError, match=message):
        write_report([tmp_path / name])


@pytest.mark.parametrize(
    ("answers", "kinds"),
    [(VPT_PAIRS[:1], "neither test"), (TPT_PAIRS + pair(9, "Yes", {"region": "No"}), "tpt and vpt")],
)
def test_a_log_of_no_one_perturbation_test_is_refused(tmp_path, answers, kinds):
    require_refusal(write_heal(tmp_path, "", answers, task="my_task"), f"its perturbed questions are of {kinds}")


@pytest.mark.parametrize(
    ("config", "task", "message"),
    [
        ("gold", f"{TASK}other", f"{TASK}other is none of {TASK}gold"),
        ("random_sentences", f"{TASK}gold", f"'random_sentences' in the task {TASK}gold"),
    ],
)
def test_a_log_of_another_task(tmp_path, config, task, message):
    require_refusal(write_wrong_lung(tmp_path, config, PAIR, task=task), message)


def test_attention_of_a_pair_that_cannot_be_compared(tmp_path):
    grids = [packed(np.full(shape, 0.25)) for shape in ((1, 2), (2, 1))]
    rows = [row | {"attention": grid} for row, grid in zip(PAIR, grids, strict=True)]
    path = write_wrong_lung(tmp_path, "random_sentences", rows)
    require_refusal(path, "has a pair without divergence: attention of shapes (1, 2) and (2, 1)")
