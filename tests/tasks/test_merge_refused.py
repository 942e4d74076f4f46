"""`medfaith merge` refuses incomplete or inconsistent shards, names the folder and says how to fix it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from medfaith import merge
from medfaith.cli import main
from medfaith.tasks import shard_marker
from tests.support.tasks.shard_scene import PRESENCE, forged


def change_marker(*names: str, to):
    """Return a function that changes an entry of the second marker."""

    def change(folder: Path) -> None:
        path = folder / "2" / shard_marker.NAME
        marker = json.loads(path.read_text())
        inner = marker
        for name in names[:-1]:
            inner = inner[name]
        inner[names[-1]] = to
        path.write_text(json.dumps(marker))

    return change


def find_log(folder: Path) -> Path:
    (path,) = (folder / "2").rglob("samples_*.jsonl")
    return path


BROKEN = "is no marker of a shard"
REFUSED = [  # damage to two shards, and the expected messages
    (lambda folder: shutil.rmtree(folder / "2"), ["shard 2/2 is missing", "medfaith eval --shard 2/2"]),
    (lambda folder: shutil.copytree(folder / "2", folder / "3"), ["/3: holds shard 2/2, and so does", "/2\n"]),
    (lambda folder: (folder / "2/shard.json").unlink(), ["shard 2/2 is missing; there is no shard.json in", "/2\n"]),
    (change_marker("shard", to=[2, 3]), ["/2: is of another run than", "the number of shards is 3 here and 2 there"]),
    (change_marker("asked", "--model", to="looks"), ["/2: is of", "--model is 'looks' here and 'oracle' there"]),
    (
        change_marker("asked", "tau in --model_args", to=2),
        ["/2: is of", "tau in --model_args is 2 here and None there"],
    ),
    (change_marker("asked", "--seed", to=[1, 1, 1, 1]), ["/2: is of", "--seed is [1, 1, 1, 1] here and [0, 1234, "]),
    (change_marker("asked", "the version of medfaith", to="9"), ["/2: is of", "the version of medfaith is '9' here"]),
    (
        change_marker("asked", "the option control", to="blank"),
        ["/2: is of", "control is 'blank' here and None there"],
    ),
    (change_marker("asked", "the build cxr-contrabench-chexpert", to="0"), ["/2: is of", "chexpert is '0' here and '"]),
    (
        change_marker("rows", PRESENCE, to=[57, "0"]),
        ["/2: is of", f"{PRESENCE} is '57 rows, digest 0' here and '57 rows,"],
    ),
    (
        change_marker("rows", "another", to=[1, "0"]),
        ["/2: is of", "the set of rows of another is '1 rows, digest 0' here"],
    ),
    (change_marker("shard", to=[0, 2]), ["shard.json: ", BROKEN]),
    (change_marker("shard", to="x"), ["shard.json: ", BROKEN]),
    (change_marker("rows", to=[]), ["shard.json: ", BROKEN]),
    (change_marker("results", to=["/etc/passwd", "0"]), ["shard.json: ", "is no file of the folder"]),
    (change_marker("results", to=["../1/shard.json", "0"]), ["shard.json: ", "is no file of the folder"]),
    (change_marker("results", to=["\0", "0"]), ["shard.json: ", "is no file of the folder"]),
    (change_marker("shard", to=[float("inf"), 2]), ["shard.json: ", BROKEN, "OverflowError"]),
    (
        forged("results_*", lambda text: text.replace('"config": {', '"config": [], "": {', 1)),
        ["/2: the shards' results"],
    ),
    (
        forged("results_*", lambda text: "{}"),
        ["results_", "holds no results of lm-eval"],
    ),
    (
        forged("samples_*", lambda text: text.replace('"n_improved": ', '"n_improved": "x", "": ')),
        ["cannot be put together"],
    ),
    (lambda folder: (folder / "2/shard.json").write_text("{"), ["shard.json: cannot be read as JSON"]),
    (lambda folder: find_log(folder).unlink(), ["samples_medfaith", "cannot be read (No such file"]),
    (lambda folder: find_log(folder).write_text("x\n"), ["samples_medfaith", "is not what the shard wrote"]),
    (change_marker("samples", to={}), ["samples_medfaith", "not each of its 57 rows once"]),
    (lambda folder: (folder / "out").mkdir() or (folder / "out/mine").touch(), ["/out: holds other files"]),
]


@pytest.mark.parametrize(("do", "messages"), REFUSED, ids=[messages[-1].split("\n")[0][:30] for _, messages in REFUSED])
def test_what_is_no_whole_run_is_refused(do, messages, halves, tmp_path, capsys):
    """The message names the folder and says how to fix it; no file is written."""
    folder = tmp_path / "shards"
    shutil.copytree(halves, folder)
    do(folder)
    before = {*folder.rglob("*")}
    assert main(["merge", str(folder), "--out", str(folder / "out")]) == 2
    error = capsys.readouterr().err
    assert all(word in error for word in [*messages, str(folder), "\n  what to do: "]), error
    assert {*folder.rglob("*")} == before


def test_a_folder_without_a_shard_is_refused(halves, tmp_path, capsys):
    for folder, message in ((tmp_path / "none", "there is no such folder"), (tmp_path, "no shard has ended here")):
        assert main(["merge", str(halves / "1"), str(folder), "--out", str(tmp_path / "out")]) == 2
        assert f"medfaith: {folder}: {message}" in capsys.readouterr().err
    assert not [*tmp_path.iterdir()]


def test_a_merge_may_be_repeated(halves, tmp_path):
    written = []
    for _ in range(2):
        assert main(["merge", str(halves / "2"), str(halves / "1"), "--out", str(tmp_path / "out")]) == 0
        written.append({path: path.read_bytes() for path in (tmp_path / "out").rglob("*") if path.is_file()})
    assert written[0] == written[1]


def test_no_answer_of_another_shard_is_counted_twice(halves, tmp_path):
    """Refuse logs with overlapping or missing rows, which no shard of this version writes."""
    logs = [path for number in "12" for path in (halves / number).rglob("samples_*.jsonl")]
    rows = shard_marker.Rows(57, "")
    assert len(merge.lines_of(logs, PRESENCE, rows)) == 4 * 57
    short = tmp_path / "short.jsonl"
    short.write_bytes(b"".join(logs[1].read_bytes().splitlines(keepends=True)[1:]))
    for log_paths in ([*logs, logs[0]], logs[:1], [logs[0], short]):
        with pytest.raises(merge.InputError, match="not each of its 57 rows once"):
            merge.lines_of(log_paths, PRESENCE, rows)
    short.write_bytes(b'{"filter": "b0"}\n')
    with pytest.raises(merge.InputError, match=r"short\.jsonl, row 1: cannot be read"):
        merge.lines_of([short], PRESENCE, rows)
