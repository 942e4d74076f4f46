"""Values that Python cannot convert, and texts nested too deeply: each reader of users' files names the file."""

from __future__ import annotations

import ast
import io
import json
import sqlite3
import tarfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from medfaith.builders.own.mapping import read_entries
from medfaith.evaluate_metrics.reading.stated_regions import KINDS, read_regions
from medfaith.loaders import chest_imagenome_silver, cholect50, openi, sources
from medfaith.loaders.errors import InputError
from medfaith.tasks.explain.store import Store
from medfaith.tasks.models.answer_store import AnswerStore
from medfaith.training.checkpoints import ARGUMENTS, find_last_complete, open_checkpoints

ROOT = Path(__file__).parents[2]
DIGITS, LARGE, NESTED = "1" * 5_000, "9" * 400, "[" * 5_000  # no integer, no float, no list for Python
TERABYTE = str(1 << 40)
REPORT = (
    '<eCitation><uId id="CXR1"/><MedlineCitation><Article><Abstract>'
    + "".join(f'<AbstractText Label="{section}">Clear.</AbstractText>' for section in openi.SECTIONS)
    + "</Abstract></Article></MedlineCitation></eCitation>"
).encode()


def write_archive(root: Path, name: str = "ecgen-radiology/1.xml", content: bytes = REPORT, **headers: str) -> Path:
    """Write an archive of one report. `headers` are those of pax, with "_" for "."."""
    with tarfile.open(root / openi.ARCHIVE, "w:gz", format=tarfile.PAX_FORMAT, encoding="utf-8") as tar:
        info = tarfile.TarInfo(name)
        info.size, info.pax_headers = len(content), {key.replace("_", "."): text for key, text in headers.items()}
        tar.addfile(info, io.BytesIO(content))
    return root


def test_an_archive_of_one_report_is_read(tmp_path):
    (report,) = openi.read_reports(write_archive(tmp_path))
    assert (report.uid, report.findings) == ("CXR1", "Clear.")


MEMBERS = {
    "name that is no UTF-8": ({"name": "\udcff.xml"}, "no UTF-8"),
    "long name that is no UTF-8": ({"name": "\udcff" * 200 + ".xml"}, "no UTF-8"),
    "map of words": ({"GNU_sparse_map": "x,y", "GNU_sparse_size": "5"}, "damaged"),
    "sparse size of words": ({"GNU_sparse_size": "x"}, "damaged"),
    "sparse map inside": ({"GNU_sparse_major": "1", "GNU_sparse_minor": "0"}, "damaged"),
    "a terabyte of nothing": ({"GNU_sparse_map": f"{TERABYTE},0", "GNU_sparse_size": TERABYTE}, "sparse"),
    "size beyond its archive": ({"size": LARGE}, "more than 1,048,576 bytes"),
    "a large report": ({"content": REPORT + b" " * (1 << 20)}, "more than 1,048,576 bytes"),
}


@pytest.mark.parametrize("name", MEMBERS)
def test_members_of_an_archive_that_tarfile_cannot_convert(name, tmp_path):
    options, problem = MEMBERS[name]
    with pytest.raises(InputError, match=rf"NLMCXR_reports\.tgz: .*{problem}"):
        openi.read_reports(write_archive(tmp_path, **options))


def read_frames(root: Path, content: object) -> object:
    (root / "labels").mkdir(exist_ok=True)
    (root / "labels" / "VID01.json").write_text(json.dumps(content))
    return cholect50.read_video(root, 1)


FRAMES = {"annotations": {"0": []}}


@pytest.mark.parametrize("content", [{"video": f"VID{DIGITS}"}, {"video": int(LARGE)}])
def test_numbers_of_cholect50(content, tmp_path):
    with pytest.raises(InputError, match=r"VID01\.json, column 'video': "):
        read_frames(tmp_path, FRAMES | content)


def test_a_class_of_many_digits_is_no_class_of_cholect50(tmp_path):
    assert read_frames(tmp_path, FRAMES | {"categories": {"triplet": {DIGITS: "x", "²": "x"}}})


@pytest.mark.parametrize("corner", [int(LARGE), -int(LARGE), float("inf"), float("nan"), True, "1", [1]])
def test_corners_of_a_scene_graph(corner):
    box = dict(zip(chest_imagenome_silver.CORNERS, (1, 2, 3, corner), strict=True))
    graph = {"image_id": "a", "objects": [{"object_id": "a_heart", "bbox_name": "heart", **box}]}
    file = chest_imagenome_silver.Graph("a_SceneGraph.json", json.dumps(graph).encode())
    with pytest.raises(InputError, match=r"a_SceneGraph\.json: 'a_heart' lies at \[1, 2, 3, "):
        chest_imagenome_silver.parse(file, "a")


TOML: dict[str, Callable[[Path], object]] = {
    "settings": lambda path: sources.resolve_roots({}, environ={}, config=path),
    "a mapping": read_entries,
}


@pytest.mark.parametrize("reader", TOML)
@pytest.mark.parametrize("text", [f"a = {NESTED}", "a = " + "{a = " * 5_000, f"a = {DIGITS}", "a = '\xff", "a"])
def test_toml_of_users(reader, text, tmp_path):
    path = tmp_path / "user.toml"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(InputError, match=r"user\.toml"):
        TOML[reader](path)


def test_toml_of_users_has_a_largest_size(tmp_path, monkeypatch):
    monkeypatch.setattr("medfaith.loaders.limits.TEXT_BYTES", 20)
    path = tmp_path / "user.toml"
    path.write_text("[roots]\n" + "#" * 20)
    for read_file in TOML.values():
        with pytest.raises(InputError, match="more than 20 bytes"):
            read_file(path)


@pytest.mark.parametrize("text", [NESTED, '{"epochs": ' + DIGITS + "}", "[]", "", '"\\ud800"'])
def test_arguments_of_a_training(text, tmp_path):
    (tmp_path / ARGUMENTS).write_text(text)
    (tmp_path / "checkpoint-1").mkdir()
    with pytest.raises(InputError, match=ARGUMENTS):
        open_checkpoints(tmp_path, {"epochs": 1})


def test_checkpoints_without_a_state_or_a_number_are_not_complete(tmp_path):
    for name in ("checkpoint-x", "checkpoint-7", "checkpoint-²"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "trainer_state.json").write_text(NESTED if name.endswith("7") else "{}")
    assert find_last_complete(tmp_path) is None


@pytest.mark.parametrize("reply", [NESTED, DIGITS, "[]", '{"a": 1}'])
def test_kept_answers(reply, tmp_path):
    path = tmp_path / "answers.sqlite"
    with AnswerStore(path):
        pass
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("INSERT INTO answers VALUES ('k', 't', 'r', 'answered', ?)", (reply,))
    with AnswerStore(path) as store, pytest.raises(InputError, match=r"answers\.sqlite: is no store of answers"):
        store.get("k")


@pytest.mark.parametrize("number", ["1e999", "NaN", LARGE])
def test_the_model_of_heatmaps(number, tmp_path):
    path = tmp_path / ("0" * 16) / "model.json"
    path.parent.mkdir()
    path.write_text(f'{{"layers": {number}}}')
    with pytest.raises(InputError, match=r"model\.json: describes another model"):
        Store(tmp_path).model("0" * 16)


BOXES = [
    '[{"bbox_2d": [N, 1, 2, 3], "label": "x"}]', '{"box_2d": [1, N, 2, 3]}', "<ref>a</ref><box>[[1, 2, 3, N]]</box>",
    "[N, 1, 2, 3]", "<loc1><locN><loc2><loc3>", "<loc_1><loc_2><loc_N><loc_3>", "<|box_start|>(N,1),(2,3)<|box_end|>",
    '<point x="N" y="1">',
]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_boxes_of_answers(kind):
    for text in BOXES:
        for number in (LARGE, f"-{LARGE}", DIGITS, "1e999"):
            assert read_regions(text.replace("N", number), kind, (640, 480), (640, 480)).shapes == ()


# Each module that parses these texts by itself, and why it needs no reader of `loaders`.
PARSERS = {"json.loads": "json_text.parse", "tomllib.loads": "toml_text.read", "json.load": "json_text.read"}
OWN_FILES = "files of this package, or text that the same function wrote"
GUARDED = "catches ValueError and RecursionError"
PARSING = {
    "loaders/json_text.py": "is the reader", "loaders/toml_text.py": "is the reader",
    **dict.fromkeys((
        "builders/heal_medvqa/wording.py", "cards/__init__.py", "cards/datasheet.py", "cards/dictionary.py",
        "cards/examples.py", "cards/publish/space_app.py", "cards/publish/space_page.py", "loaders/anatomy_masks.py",
        "loaders/sources.py", "medfaith/auditing/run.py", "medfaith/reporting/published.py",
        "tasks/contrabench/readings.py", "tasks/harnesses/inspect_subtasks.py", "tasks/models/contrastive/"
        "transformers_encoders.py", "tasks/models/server/batch_sender.py", "tasks/models/server/letter_scores.py",
        "tasks/models/vlm/answering_vlm.py", "tasks/models/vlm/explained_vlm.py", "tasks/models/vlm/hf_vlm.py",
        "tasks/shard_marker.py", "tasks/wordings/__init__.py", "medfaith/logs/files.py",
    ), OWN_FILES),
    **dict.fromkeys((
        "evaluate_metrics/reading/stated_regions.py", "evaluate_metrics/reading/surgery.py",
        "medfaith/annotate/answers.py", "medfaith/eval.py", "medfaith/logs/lines.py",
        "medfaith/reporting/page/write.py", "tasks/heal/localization.py", "tasks/models/answer_store.py",
        "tasks/wrong_lung/adapter.py",
    ), GUARDED),
    **dict.fromkeys((
        "builders/cxr_contrabench/exports.py", "cards/publication.py", "cards/publish/croissant.py",
        "cards/publish/guard/__init__.py", "cards/publish/hub_content.py", "cards/publish/upload_plan.py",
    ), "records of a build that verify has read"),
}  # fmt: skip


def test_other_modules_parse_files_of_users_by_the_readers():
    """json.loads raises RecursionError, and so does tomllib.loads: a reader would pass a traceback on."""
    rooms = ("loaders", "builders", "evaluate_metrics", "tasks", "cards", "medfaith")
    found = set()
    for path in (path for room in rooms for path in (ROOT / room).rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if not any(name in text for name in PARSERS):
            continue
        calls = (node.func for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call))
        if any(ast.unparse(call) in PARSERS for call in calls):
            found.add(path.relative_to(ROOT).as_posix())
    assert found - {*PARSING} == set(), f"use {', '.join(PARSERS.values())}"
    assert {*PARSING} - found == set(), "no longer parse by themselves"
