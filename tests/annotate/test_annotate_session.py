"""One annotator's session without a browser, and the command's errors."""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from PIL import Image

from medfaith.annotate import session_setup
from medfaith.annotate.answers import open_answers, read_judgements
from medfaith.annotate.local_server import _Limited
from medfaith.annotate.overlay import draw_boxes, overlay, picture
from medfaith.annotate.session import Place, Prompt, Session, clip_instance
from medfaith.cli import main
from medfaith.loaders.errors import InputError, MedfaithError
from medfaith.loaders.images import open_image
from medfaith.tasks.explain.geometry import Geometry
from medfaith.tasks.explain.store import HeatmapStore, open_store
from medfaith.tasks.models.alignment.aligners import Alignment
from tests.support.annotate.annotation_scene import MODELS, SENTENCES, Scene, write_run


def wanted(scene: Scene, **changes) -> session_setup.Wanted:
    default = session_setup.Wanted([*scene.runs.values()], str(scene.data), scene.heatmaps, scene.roots, "ann", 0)
    return default._replace(**changes)


@contextmanager
def start_session(scene: Scene, path, aligners=None, **changes):
    with open_answers(path) as (answers, _):
        yield session_setup.prepare(wanted(scene, **changes), answers, aligners or {})[0]


def test_all_the_way_with_a_stop_after_every_answer(scene, tmp_path):
    path, places = tmp_path / "a.jsonl", []
    while True:
        with start_session(scene, path) as session:
            where = session.find_next()
            if where is None:
                break
            places.append(where)
            if where.alias is None:
                session.choose(where.instance, where.instance)
            else:
                session.judge(where.alias, session.build_prompt(where), [1, 2, 3 + where.instance], 1.26)
    assert places == [Place(n, alias) for n in (0, 1) for alias in (None, "Model A", "Model B")]
    judgements, _ = read_judgements(path)
    plan = scene.plan()
    assert len(judgements) == 4
    for n, instance in enumerate(plan.instances):
        instance_judgements = [judgement for judgement in judgements if judgement.instance == instance.key]
        assert {judgement.alias: judgement.model for judgement in instance_judgements} == plan.aliases(n)
        assert {(judgement.sentence, judgement.row_id, judgement.patient_id) for judgement in instance_judgements} == {
            (SENTENCES[n], instance.sentences[n].row_id, instance.patient_id)
        }
        assert {
            (judgement.recall, judgement.precision, judgement.intuitiveness, judgement.seconds)
            for judgement in instance_judgements
        } == {(1, 2, 3 + n, 1.3)}
        assert all(
            judgement.heatmaps == scene.references[judgement.model][judgement.row_id]
            for judgement in instance_judgements
        )


WRITES = {  # name -> what a forged request asks the session to write, and the message
    "an image after the last": (lambda session: session.choose(2, 0), "image: 2 is unknown"),
    "an image from the end": (lambda session: session.choose(-1, 0), "image: -1 is unknown"),
    "an image by its text": (lambda session: session.choose("0", 0), "image: '0' is unknown"),
    "a sentence after the last": (lambda session: session.choose(0, 99), "sentence: 99 is unknown"),
    "a sentence from the end": (lambda session: session.choose(0, -1), "sentence: -1 is unknown"),
    "a sentence by its text": (lambda session: session.choose(0, "x" * 10**6), "is unknown"),
    "another model": (lambda session: judge(session, alias="x" * 10**6), "is not judged here"),
    "two points": (lambda session: judge(session, points=[1, 2]), "3 whole numbers from 1 to 5"),
    "a million points": (lambda session: judge(session, points=[1] * 10**6), "3 whole numbers from 1 to 5"),
    "no point": (lambda session: judge(session, points=[1, 2, 0]), "3 whole numbers from 1 to 5"),
    "six points": (lambda session: judge(session, points=[1, 2, 6]), "3 whole numbers from 1 to 5"),
    "a point and a half": (lambda session: judge(session, points=[1, 2, 1.5]), "3 whole numbers from 1 to 5"),
    "points of another image": (lambda session: judge(session, instance=7), "image: 7 is unknown"),
    "a long sentence": (lambda session: session.build_own_prompt(0, "a" * 1_001), "has 1,001 characters"),
    "a long blank": (lambda session: session.build_own_prompt(0, " " * 10**6), "has no word"),
    "a sentence on another image": (lambda session: session.build_own_prompt(9, "a"), "image: 9 is unknown"),
}


def judge(session: Session, alias: str = "Model A", points: Any = (1, 2, 3), instance: int = 0) -> None:
    prompt = Prompt(instance, session.plan.instances[0].sentences[0].row_id, SENTENCES[0], ())
    session.judge(alias, prompt, points, 1.0)


def test_the_page_writes_only_what_it_asks(scene, tmp_path):
    """A program with the token could send the events of the page other values than the page does."""
    path = tmp_path / "a.jsonl"
    with start_session(scene, path) as session:
        for name, (write, message) in WRITES.items():
            with pytest.raises(InputError) as raised:
                write(session)
            assert message in str(raised.value), name
            assert len(str(raised.value)) < 500, name
        assert path.read_text() == ""
        judge(session)
    assert len(path.read_text().splitlines()) == 1


@pytest.mark.parametrize(("position", "index"), [
    (None, 0), (1, 0), (2, 1), (99, 1), (-5, 0), (0, 0), (float("nan"), 0), (float("inf"), 1), (float("-inf"), 0),
])  # fmt: skip
def test_the_number_of_an_image_is_one_that_there_is(position, index):
    assert clip_instance(position, 2) == index


async def ask_site(path: str, chunks: Sequence[bytes]) -> tuple[int, bytes]:
    """Send a request with a body in chunks; return the status and the body that the page was given."""
    received, sent = [], []
    waiting = [{"type": "http.request", "body": chunk, "more_body": True} for chunk in chunks]
    waiting.append({"type": "http.request", "body": b"", "more_body": False})

    async def page(scope: Any, receive: Any, send: Any) -> None:
        is_complete = False
        while not is_complete:
            message = await receive()
            received.append(message["body"])
            is_complete = not message["more_body"]
        await send({"type": "http.response.start", "status": 200, "headers": []})

    async def receive() -> Any:
        return waiting.pop(0)

    async def send(message: Any) -> None:
        sent.append(message)

    await _Limited(page)({"type": "http", "path": path, "headers": []}, receive, send)
    return sent[0]["status"], b"".join(received)


@pytest.mark.parametrize(("path", "chunks", "status"), [
    ("/gradio_api/queue/join", [b"a", b"bc"], 200), ("/gradio_api/queue/join", [b""], 200),
    ("/gradio_api/queue/join", [b"a" * 2**19] * 2, 200), ("/gradio_api/queue/join", [b"a" * 2**19] * 3, 413),
    ("/gradio_api/queue/join", [b"a" * (2**20 + 1)], 413), ("/gradio_api/upload", [b"a"], 404),
])  # fmt: skip
def test_a_request_has_a_largest_size_and_no_file(path, chunks, status):
    assert asyncio.run(ask_site(path, chunks)) == (status, b"".join(chunks) if status == 200 else b"")


def test_the_first_choice_stands(scene, tmp_path):
    with start_session(scene, tmp_path / "a.jsonl") as session:
        session.choose(0, 1)
        session.choose(0, 0)
        choice = session.get_choice(0)
        assert choice is not None
        assert choice.text == SENTENCES[1]
    assert len((tmp_path / "a.jsonl").read_text().splitlines()) == 1


def test_going_back_and_answering_again(scene, tmp_path):
    with start_session(scene, tmp_path / "a.jsonl") as session:
        assert session.find_previous(session.find_next()) is None
        for _ in range(2):
            where = session.find_next()
            assert where is not None
            session.choose(where.instance, 0)
            for alias in ("Model A", "Model B"):
                session.judge(alias, session.build_prompt(Place(where.instance, alias)), [1, 1, 1], 0)
        steps, where = [], session.find_next()
        for _ in range(4):
            where = session.find_previous(where)
            steps.append(where)
        assert steps == [Place(n, alias) for n in (1, 0) for alias in ("Model B", "Model A")]
        assert session.find_previous(where) is None
        session.judge("Model B", session.build_prompt(steps[2]), [5, 5, 5], 0)
        judgements = map(session.get_judgement, steps[2:])
        assert [judgement and judgement.recall for judgement in judgements] == [5, 1]
        assert (session.find_next(), session.n_done) == (None, 2)
    assert len(read_judgements(tmp_path / "a.jsonl")[0]) == 4


def test_annotators_see_the_same_images_and_answer_for_themselves(scene, tmp_path):
    for annotator in ("ann", "other"):
        with start_session(scene, tmp_path / "a.jsonl", annotator=annotator) as session:
            assert session.find_next() == Place(0, None)
            assert session.plan.instances == scene.plan().instances
            session.choose(0, 0)
            session.judge("Model A", session.build_prompt(Place(0, "Model A")), [1, 1, 1], 0)
    assert [judgement.annotator for judgement in read_judgements(tmp_path / "a.jsonl")[0]] == ["ann", "other"]


@pytest.mark.parametrize("boxes", [False, True])
def test_what_is_shown_is_the_models_own(scene, tmp_path, boxes):
    with start_session(scene, tmp_path / "a.jsonl") as session:
        session.choose(0, 1)
        instance = session.plan.instances[0]
        plain = picture(open_image(instance.image, scene.roots))
        for alias, model in session.aliases(session.build_prompt(Place(0, "Model A"))).items():
            view = session.show(alias, session.build_prompt(Place(0, alias)), boxes)
            row = instance.sentences[1]
            entry = open_store(scene.heatmaps).read(scene.references[model][row.row_id], row.row_id)
            expected = overlay(plain, entry.maps["attention"], entry.geometry)
            if boxes:
                expected = draw_boxes(expected, row.boxes, instance.size)
            assert view.heatmap.tobytes() == expected.tobytes()
            assert (view.plain.tobytes() == plain.tobytes()) != boxes
            assert view.nowhere == pytest.approx(0.4 * MODELS.index(model), abs=1e-3)


class Aligner:
    """An aligner that attends to the left or to the right half and records its prompts."""

    identity = {}  # noqa: RUF012

    def __init__(self, side: int, value: float = 1.0) -> None:
        self.side, self.value, self.asked = side, value, []

    def align(self, images, sentences, image_ids):
        self.asked += [(image.size, sentence) for image, sentence in zip(images, sentences, strict=True)]
        grid = np.zeros((4, 4), np.float32)
        grid[:, 2 * self.side : 2 * self.side + 2] = self.value / 8
        return [Alignment(grid, Geometry.whole((image.height, image.width)), None, 0.5) for image in images]


def test_custom_prompts_go_to_the_live_models_and_apart_into_the_file(scene, tmp_path):
    live = {"left": Aligner(0), "right": Aligner(1)}
    with start_session(scene, tmp_path / "a.jsonl", live) as session:
        prompt = session.build_own_prompt(1, "  A   nodule on the left. ")
        assert prompt == (1, None, "A nodule on the left.", ())
        for alias, model in session.aliases(prompt).items():
            assert session.get_judgement(Place(1, alias), prompt) is None
            heatmap = np.asarray(session.show(alias, prompt, boxes=False).heatmap, float)
            session.show(alias, prompt, boxes=False)
            plain = np.asarray(session.plain(1), float)
            across = np.abs(heatmap - plain)[:600].sum(axis=(0, 2))
            assert (across[:300].sum() > across[-300:].sum()) == (model == "left")
            session.judge(alias, prompt, [1, 2, 3], 0.0)
            judgement = session.get_judgement(Place(1, alias), prompt)
            assert judgement is not None
            assert judgement.model == model
        assert session.find_next() == Place(0, None)  # the report's sentences are still to be judged
        size = session.plan.instances[1].size
        assert live["left"].asked == [((size[1], size[0]), "A nodule on the left.")]  # once
        with pytest.raises(InputError, match="has no word"):
            session.build_own_prompt(0, " \n")
    judgements, _ = read_judgements(tmp_path / "a.jsonl")
    assert {(judgement.model, judgement.custom, judgement.row_id, judgement.heatmaps) for judgement in judgements} == {
        ("left", True, None, None), ("right", True, None, None),
    }  # fmt: skip


def test_a_live_model_with_broken_weights(scene, tmp_path):
    broken = {"left": Aligner(0, float("nan"))}
    with start_session(scene, tmp_path / "a.jsonl", broken) as session, pytest.raises(MedfaithError, match="no number"):
        session.show("Model A", session.build_own_prompt(0, "A nodule."), boxes=False)


def test_an_image_of_another_size_than_its_rows(scene, tmp_path):
    with start_session(scene, tmp_path / "a.jsonl") as session:
        instance = session.plan.instances[0]
        copy = tmp_path / "mimic_cxr" / instance.key
        copy.parent.mkdir(parents=True)
        Image.new("L", (10, 20)).save(copy)
        roots = {"mimic_cxr": tmp_path / "mimic_cxr"}
        smaller = Session(session.plan, session.answers, session.heatmaps, session.store, roots)
        with pytest.raises(InputError, match="10 x 20 pixels"):
            smaller.plain(0)


def test_sentences_that_not_every_run_answered_are_left_out(scene, tmp_path):
    some = dict(list(scene.references[MODELS[1]].items())[:3])
    write_run(tmp_path / "run", MODELS[1], scene.rows, some)
    runs = [scene.runs[MODELS[0]], tmp_path / "run"]
    with open_answers(tmp_path / "a.jsonl") as (answers, _):
        session, notes = session_setup.prepare(wanted(scene, runs=runs), answers, {})
    assert sorted(len(instance.sentences) for instance in session.plan.instances) == [1, 2]
    assert "1 sentences are left out" in notes[0]


def test_one_model_with_other_arguments_is_another_model(scene, tmp_path):
    for name, references, tau in zip("ab", scene.references.values(), (1, 2), strict=True):
        write_run(tmp_path / name, "", scene.rows, references, model_args={"pretrained": "same", "tau": tau})
    with open_answers(tmp_path / "a.jsonl") as (answers, _):
        session, _ = session_setup.prepare(wanted(scene, runs=[tmp_path / "a", tmp_path / "b"]), answers, {})
    assert session.plan.models == ('same {"tau": 1}', 'same {"tau": 2}')


def write_changed_run(scene, folder, columns=None, **options):
    """Write a log of model "m" on the scene's rows with changed columns."""
    rows = [row | (columns or {}) for row in scene.rows]
    return write_run(folder / "run", "m", rows, scene.references[MODELS[0]], **options)


def write_other_row(scene, folder):
    store = HeatmapStore(folder, {"m": 1})
    store.write("s1/9", "0" * 16, {"attention": np.ones((2, 2)) / 4}, Geometry.whole((5, 5)))
    return write_run(folder / "run", "m", [scene.rows[0] | {"id": "s1/9"}], {"s1/9": store.reference("0" * 16)})


REFUSED = {  # change of the setup, from a scene and an empty folder; message of the refusal
    "no log": (lambda scene, at: {"runs": [at]}, "no sample log of lm-eval"),
    "a log of another task": (
        lambda scene, at: {"runs": [write_changed_run(scene, at, task="medfaith_wrong_lung_trimmed")]},
        "no sample log of medfaith_wrong_lung_gold",
    ),
    "answers in words": (
        lambda scene, at: {"runs": [write_changed_run(scene, at, says="words")]}, "4 of 4 answers name no heatmaps",
    ),
    "a model's second run": (
        lambda scene, at: {"runs": [write_changed_run(scene, at), write_changed_run(scene, at / "again")]},
        "a second run of m",
    ),
    "another store": (lambda scene, at: {"heatmaps": at}, "the heatmaps of 4 of 4 answers"),
    "no store": (lambda scene, at: {"heatmaps": at / "none"}, "no such folder"),
    "rows of another build": (
        lambda scene, at: {"runs": [write_changed_run(scene, at, {"sentence": "Heart size is normal."})]},
        "is not the sentence that a run was asked about",
    ),
    "rows that are not there": (
        lambda scene, at: {"runs": [write_other_row(scene, at)], "heatmaps": at}, "has 0 of the 1 sentences",
    ),
    "no image": (lambda scene, at: {"roots": {"mimic_cxr": at}}, "no such file below"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_judged_is_said_before_the_first_question(scene, tmp_path, case):
    change, message = REFUSED[case]
    (tmp_path / "at").mkdir()
    with (
        pytest.raises(MedfaithError) as error_info,
        start_session(scene, tmp_path / "a.jsonl", **change(scene, tmp_path / "at")),
    ):
        pass
    assert message in str(error_info.value)


def test_live_models_that_are_none(capsys):
    assert session_setup.load_aligners({}) == ({}, session_setup.NO_MODEL)
    aligners, message = session_setup.load_aligners({"secret": ("nonsense:/secret/path", {})})
    assert (aligners, message) == ({}, session_setup.NOT_LOADED)
    assert "nonsense:/secret/path" in capsys.readouterr().err


def require_refusal(arguments: list[str], capsys) -> str:
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert "Traceback" not in error
    return error


def test_gradio_is_an_extra(scene, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "gradio", None)
    error = require_refusal(scene.arguments(tmp_path / "a.jsonl"), capsys)
    assert 'pip install "medfaith[annotate]"' in error
    assert list(tmp_path.iterdir()) == []


def test_a_port_in_use(scene, tmp_path, capsys):
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        error = require_refusal(scene.arguments(tmp_path / "a.jsonl", "--port", str(port)), capsys)
    assert f"port {port}: is in use" in error
    assert "--port" in error


@pytest.mark.parametrize(
    ("option", "message"),
    [
        *((["--port", port], f"port {port}: cannot be used") for port in ("-1", "70000")),
        *((["--live", live], "NAME=PRETRAINED") for live in ("nameless", "=clip:x", "a=", "a=clip:x,explainer")),
        (["--heatmaps", "none", "--port", "0"], "no such folder"),
    ],
)
def test_options_that_cannot_work(scene, tmp_path, capsys, monkeypatch, option, message):
    monkeypatch.delitem(sys.modules, "gradio", raising=False)
    assert message in require_refusal(scene.arguments(tmp_path / "a.jsonl", *option), capsys)
    assert not (tmp_path / "a.jsonl").exists() or not (tmp_path / "a.jsonl").stat().st_size
    assert "gradio" not in sys.modules, "its import takes seconds"


def test_a_file_that_another_process_writes(scene, tmp_path, capsys):
    with open_answers(tmp_path / "a.jsonl"):
        error = require_refusal(scene.arguments(tmp_path / "a.jsonl", "--port", "0"), capsys)
    assert "another process writes answers to it" in error
