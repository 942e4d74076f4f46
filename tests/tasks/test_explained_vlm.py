"""medfaith-explained-vlm on tiny models trained to name tools: text of hf-multimodal, and a heatmap per named class."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from lm_eval.api.instance import Instance
from lm_eval.models.hf_vlms import HFMultimodalLM
from PIL import Image

from medfaith.evaluate_metrics.reading.surgery import read_reply
from medfaith.loaders.errors import InputError, MedfaithError
from medfaith.tasks.explain import causal_structure
from medfaith.tasks.explain.reader import HeatmapReader
from medfaith.tasks.explain.store import HeatmapStore, open_store
from medfaith.tasks.explain.tiles import CHANNELS
from medfaith.tasks.explain.token_cam import token_cam
from medfaith.tasks.explain.token_relevancy import parse_relevancy
from medfaith.tasks.heal.localization import read_reply as read_localized
from medfaith.tasks.models.vlm.explained_vlm import ExplainedVLM
from medfaith.tasks.models.vlm.families import image_tokens
from medfaith.tasks.models.vlm.token_spans import compute_token_offsets, find_class_spans, find_span_tokens
from medfaith.tasks.models.vlm.weights import hash_weights
from medfaith.tasks.wrong_lung.adapter import ATTENTION
from medfaith.tasks.wrong_lung.adapter import read_reply as read_sentence_reply
from tests.support.tasks import tiny_models
from tests.support.tasks.asking import asked, noise
from tests.support.tasks.tiny_contrastive import CLASSES
from tests.support.tasks.tiny_models import PLACEHOLDER

SIZE = (160, 90)  # width and height: the shape of Cholec80's frames
ASKED = {  # question -> trained answer
    "What surgical tools do you see?": "A hook, and two graspers.",
    "Which tools are in this frame?": "No tool is visible.",
    "Name the tool.": "The specimen bag",
}
ABOUT_SENTENCES = {"Is there a left effusion?": "Yes, there is.", "Is the heart wide?": "It may be."}


def make_frame(seed: int = 0) -> Image.Image:
    return noise(SIZE, seed)


@pytest.fixture(scope="module")
def llava(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tiny_models.save_llava(tmp_path_factory.mktemp("models") / "llava")
    tiny_models.teach(folder, "<image>", ASKED | ABOUT_SENTENCES, make_frame(0))
    return folder


@pytest.fixture(scope="module", params=["llava", pytest.param("qwen2_5_vl", marks=pytest.mark.full)])
def folder(request: pytest.FixtureRequest, llava: Path) -> Path:
    if request.param == "llava":
        return llava
    folder = tiny_models.save_qwen2_5_vl(llava.parent / request.param)
    tiny_models.teach(folder, PLACEHOLDER[folder.name], ASKED, make_frame(0))
    return folder


def load(folder: Path, model: Any = ExplainedVLM, **arguments: Any) -> Any:
    return model(str(folder), device="cpu", image_string=PLACEHOLDER[folder.name], **arguments)


def ask(number: int, question: str, image: Image.Image | None = None, task: str = "t", **doc: Any) -> Instance:
    row = {"id": f"VID42/{number}", "classes": CLASSES, "width": SIZE[0], "height": SIZE[1], **doc}
    visuals = [image or make_frame(number)]
    return asked(f"<image>{question}", visuals, number, row, task, max_gen_toks=24, until=["\n"])


FIRST = next(iter(ASKED))


def build_requests() -> list[Instance]:
    return [ask(number, question) for number, question in enumerate([*ASKED, FIRST])]


def compute_maps(folder: Path, question: str, answer: str, terms: Sequence[str]) -> list[np.ndarray]:
    """Compute a map for each term of the answer with transformers: one row, with token positions from text lengths."""
    model = transformers.AutoModelForImageTextToText.from_pretrained(folder).eval()
    processor = transformers.AutoProcessor.from_pretrained(folder)
    inputs = processor(images=[make_frame(0)], text=[PLACEHOLDER[folder.name] + question], return_tensors="pt")
    start = inputs["input_ids"].shape[1]
    ids = model.generate(**inputs, max_new_tokens=24, do_sample=False)
    ends = np.cumsum([len(processor.tokenizer.decode([token])) for token in ids[0, start:]])
    full = {**inputs, "input_ids": ids, "attention_mask": torch.ones_like(ids)}
    if "mm_token_type_ids" in inputs:
        more = torch.zeros((1, ids.shape[1] - start), dtype=torch.long)
        full["mm_token_type_ids"] = torch.cat([inputs["mm_token_type_ids"], more], dim=1)
    maps = []
    for word in terms:
        word_start = answer.index(word)
        inside = (ends > word_start) & (ends - np.diff(ends, prepend=0) < word_start + len(word))
        positions = [start + int(n) for n in np.flatnonzero(inside)]
        visual = image_tokens(full, model.config)
        grid = (2, 2) if folder.name == "llava" else inputs["image_grid_thw"][0, 1:].numpy() // 2
        maps.append(token_cam(model, full, positions, visual).mean(axis=0).reshape(grid))
    return maps


def test_the_text_is_hf_multimodals(folder: Path, tmp_path: Path):
    theirs = load(folder, HFMultimodalLM, batch_size=3).generate_until(build_requests())
    plain = load(folder, batch_size=3).generate_until(build_requests())
    explained = load(folder, batch_size=3, store=str(tmp_path)).generate_until(build_requests())
    assert plain == theirs
    assert [read_reply(reply).text for reply in explained] == theirs
    assert [text.strip() for text in theirs[:3]] == list(ASKED.values())


def test_maps_are_those_of_the_tokens_that_name_the_class(folder: Path, tmp_path: Path):
    lm = load(folder, batch_size=3, store=str(tmp_path))
    replies = [json.loads(reply) for reply in lm.generate_until(build_requests())]
    stored_maps = [open_store(tmp_path).read(reply["heatmaps"], f"VID42/{n}").maps for n, reply in enumerate(replies)]
    assert [list(maps) for maps in stored_maps] == [["hook", "grasper"], [], ["specimen_bag"], ["hook", "grasper"]]
    expected = compute_maps(folder, FIRST, replies[0]["text"], ["hook", "graspers"])
    for name, grid in zip(("hook", "grasper"), expected, strict=True):
        assert grid.max() > 0
        np.testing.assert_allclose(stored_maps[0][name], grid, rtol=2e-3, atol=1e-3 * grid.max())


def test_geometry_is_the_frames(folder: Path, tmp_path: Path):
    """LLaVA's processor crops the centre, Qwen's squashes the frame; lm-eval's own resizing is undone."""
    windows = []
    for number, resize in enumerate(({}, {"image_max_side": 80})):
        lm = load(folder, store=str(tmp_path / str(number)), **resize)
        key = json.loads(lm.generate_until([ask(0, FIRST)])[0])["heatmaps"]
        geometry = open_store(tmp_path / str(number)).read(key, "VID42/0").geometry
        assert geometry.size == (90, 160)
        windows.append(geometry.window)
    expected = (35, 0, 90, 90) if folder.name == "llava" else (0, 0, 160, 90)
    for window in windows:
        np.testing.assert_allclose(window, expected, atol=2.5)  # one of the 28 pixels is 3.2 pixels of the frame
    assert windows[0] == pytest.approx(windows[1], abs=2.5)


@pytest.mark.full  # test_contrastive_store.py kills one
def test_a_killed_run_resumes_where_it_stopped(llava: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    expected = load(llava, store=str(tmp_path / "whole")).generate_until(build_requests())

    def load_counting(fails_at: int = 0) -> tuple[Any, list[int]]:
        """The model, and a list that grows with each generation; one of them may fail."""
        lm, calls = load(llava, store=str(tmp_path / "cut")), []
        generate = lm.model.generate

        def generate_counted(*args: Any, **kwargs: Any) -> Any:
            calls.append(1)
            if len(calls) == fails_at:
                raise KeyboardInterrupt
            return generate(*args, **kwargs)

        monkeypatch.setattr(lm.model, "generate", generate_counted)
        return lm, calls

    with pytest.raises(KeyboardInterrupt):
        load_counting(fails_at=3)[0].generate_until(build_requests())
    resumed, generated = load_counting()
    for _ in range(2):
        assert resumed.generate_until(build_requests()) == expected
        assert len(generated) == 2  # two of four rows were complete, then all


@pytest.mark.parametrize(
    "changed", [{"image": make_frame(99)}, {"question": "Name the tool."}], ids=["image", "question"]
)
def test_a_row_that_was_asked_otherwise_is_computed_again(llava: Path, tmp_path: Path, changed: dict[str, Any]):
    lm = load(llava, store=str(tmp_path))
    variants = [{"question": FIRST}, {"question": FIRST, **changed}]
    replies = [json.loads(reply) for options in variants for reply in lm.generate_until([ask(0, **options)])]
    assert replies[0]["heatmaps"] != replies[1]["heatmaps"]
    for reply in replies:  # the first entry is kept
        expected = {"text": reply["text"], "outcome": "answered"}
        assert open_store(tmp_path).read(reply["heatmaps"], "VID42/0").extra == expected


@pytest.mark.full  # several runs
def test_models_settings_and_tasks_never_share_a_key(llava: Path, tmp_path: Path):
    other_folder = tmp_path / "other" / "llava"
    tiny_models.save_llava(other_folder)  # the same folder name, untaught weights

    def compute_key(folder: Path, arguments: dict[str, Any], task: str = "t") -> str:
        return load(folder, store=str(tmp_path / "store"), **arguments)._store(ask(0, "Name the tool.", task=task)).key

    changed = [{}, {"layer": -2}, {"target": "logprob"}, {"dtype": "bfloat16"}, {"image_max_side": 80}]
    keys = [
        *(compute_key(llava, arguments) for arguments in changed),
        compute_key(llava, {}, "another task"),
        compute_key(other_folder, {}),
    ]
    assert len(set(keys)) == len(keys)
    assert compute_key(llava, {"layer": 1}) == keys[0]  # the last of two layers, by a positive index


def test_documents_without_classes_get_plain_text(llava: Path, tmp_path: Path):
    lm = load(llava, store=str(tmp_path))
    (reply,) = lm.generate_until([ask(0, "Name the tool.", classes=[])])
    assert reply.strip() == "The specimen bag"
    assert open_store(tmp_path).keys() == []


@pytest.mark.full  # graphs of attention: tests/explain/test_cleann.py
def test_causal_graphs_of_the_tokens_of_each_class(llava: Path, tmp_path: Path):
    question = FIRST
    arguments = {"store": str(tmp_path / "store"), "causal_graphs": str(tmp_path / "graphs")}
    (reply,) = load(llava, **arguments).generate_until([ask(0, question)])
    key, _, image_digest = json.loads(reply)["heatmaps"].partition("/")
    (path,) = (tmp_path / "graphs" / key).glob(f"*-{image_digest}.json")
    written = json.loads(path.read_text())
    assert (written["row"], written["size"], list(written["graphs"])) == ("VID42/0", [90, 160], ["hook", "grasper"])
    targets = ["".join(g[0]["target"]["text"] for g in written["graphs"][name]).strip() for name in ("hook", "grasper")]
    assert targets == ["hook", "graspers"]
    for graphs in (token for tokens in written["graphs"].values() for token in tokens):
        assert len(graphs) == 4  # the tiny model has four heads
        assert all(graph["backend"] == "fci" for graph in graphs)
        patches = [node["patch"] for graph in graphs for node in graph["nodes"] if node["kind"] == "image"]
        assert patches
        assert set(map(tuple, patches)) <= {(0, 0), (0, 1), (1, 0), (1, 1)}
    pictures = sorted(picture.name for picture in path.with_suffix("").glob("*.png"))
    heads = {graph["head"] for graph in written["graphs"]["hook"][0]}
    assert {name for name in pictures if name.startswith("hook")} == {f"hook-head{head}.png" for head in heads}
    assert len(pictures) == 8
    path.unlink()
    resumed = load(llava, **arguments)
    resumed._causal_graphs = lambda *_: {}
    assert resumed.generate_until([ask(0, question)]) == [reply]
    assert path.is_file()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"target": "odds"}, "target: 'odds'"),
        ({"channel": "cls"}, f"channel: 'cls'\n  expected: {' or '.join(CHANNELS)}"),
        ({"store": "STORE", "layer": 7}, "layer: 7 of a model with 2 decoder layers"),
        ({"causal_graphs": "STORE"}, "causal_graphs: needs store"),
        ({"relevancy": True}, "relevancy: needs store"),
    ],
)
def test_arguments_that_are_none(llava: Path, tmp_path: Path, arguments: dict[str, Any], message: str):
    with pytest.raises(InputError, match=message):
        load(llava, **{k: str(tmp_path) if v == "STORE" else v for k, v in arguments.items()})


def test_without_a_library_for_causal_graphs(llava: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(causal_structure.importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(MedfaithError, match=r"uv pip install 'medfaith\[explain\]'"):
        load(llava, store=str(tmp_path), causal_graphs=str(tmp_path))


def test_documents_that_are_none(llava: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    lm = load(llava, store=str(tmp_path))
    monkeypatch.setattr(lm.model, "generate", lambda *_, **__: pytest.fail("answered"))
    two = ask(0, "<image> Name the tool.")
    two.arguments[2]["visual"].append(make_frame(1))
    for request, message in (
        (two, r"t, row VID42/0: 2 images\n  expected: one frame"),
        (ask(0, FIRST, width=854, height=480), "the frame is 160x90, the row says 854x480"),
        (ask(0, FIRST, heatmaps=HeatmapReader(None)), r"their folder was not named(.|\n)*--heatmaps DIR"),
    ):
        with pytest.raises(InputError, match=message):
            lm.generate_until([request])
    assert not list(tmp_path.glob("*/*.npz"))


def ask_about(row: str, question: str, task: str = "gold") -> Instance:
    return ask(0, question, task=task, id=row, sentence=question, classes=[])


def test_attention_is_the_map_of_the_answering_word(llava: Path, tmp_path: Path):
    affirmed, open_ = ABOUT_SENTENCES
    replies = load(llava, store=str(tmp_path), batch_size=2).generate_until(
        [ask_about("a", affirmed), ask_about("b", open_)]
    )
    assert [json.loads(reply)["text"].strip() for reply in replies] == list(ABOUT_SENTENCES.values())
    affirmed_reference, open_reference = (read_sentence_reply(reply).heatmaps or "" for reply in replies)
    entry = open_store(tmp_path).read(affirmed_reference, "a")
    assert entry.maps[ATTENTION].sum() == pytest.approx(1)
    assert entry.geometry.size == (SIZE[1], SIZE[0])
    assert open_store(tmp_path).read(open_reference, "b").maps == {}  # neither yes nor no: nothing to explain
    (expected,) = compute_maps(llava, affirmed, json.loads(replies[0])["text"], ["Yes"])
    assert np.allclose(entry.maps[ATTENTION], expected / expected.sum(), atol=1e-6)


def test_only_what_can_be_explained_is(llava: Path, tmp_path: Path):
    """One yes-no question of HEAL-MedVQA among requests of tasks without heatmaps."""
    question, reader = next(iter(ABOUT_SENTENCES)), HeatmapReader(str(tmp_path))
    rows = [ask(0, question, id="a", classes=[]), ask(0, question, id="b", classes=[], heatmaps=reader)]
    places = {"store": str(tmp_path), "answers": str(tmp_path / "answers")}
    plain, explained = load(llava, **places, batch_size=2).generate_until(rows)
    reply = read_localized(explained)
    assert plain == reply.text
    assert reader.read(reply.heatmaps or "", "b", SIZE[::-1])[0][ATTENTION].max() > 0
    with sqlite3.connect(tmp_path / "answers") as database:
        assert database.execute("SELECT row, outcome FROM answers").fetchall() == [("a", "answered")]


def test_a_row_that_several_tasks_ask_about_is_answered_once(llava: Path, tmp_path: Path, monkeypatch):
    model, explained_rows = load(llava, store=str(tmp_path), batch_size=2), []
    explain = model._explain
    monkeypatch.setattr(
        model, "_explain", lambda request, *args: explained_rows.append(request.doc["id"]) or explain(request, *args)
    )
    question = next(iter(ABOUT_SENTENCES))
    rows = [
        ask_about(row, question, task) for row, task in (("a", "gold"), ("a", "swap"), ("b", "swap"), ("a", "random"))
    ]
    replies = model.generate_until(rows)
    assert explained_rows == ["a", "b"]
    assert len(set(replies)) == 1  # one model, one image, one sentence
    assert load(llava, store=str(tmp_path), batch_size=2).generate_until(rows) == replies


def test_relevancy_of_questions_names_tokens_and_of_sentences_does_not(llava: Path, tmp_path: Path):
    """The heatmaps stay the same bits, and so does the key of a store without relevancy."""
    question, reader = next(iter(ABOUT_SENTENCES)), HeatmapReader(str(tmp_path))
    rows = [ask(0, question, id="b", classes=[], heatmaps=reader), ask_about("a", question)]
    replies = {}
    for relevancy in (False, True, True):  # the last one reads the store
        lm = load(llava, store=str(tmp_path), batch_size=2, relevancy=relevancy)
        replies[relevancy] = [read_localized(reply) for reply in lm.generate_until(rows)]
    assert [reply.relevancy for reply in replies[False]] == [None, None]
    assert [reply.text for reply in replies[True]] == [reply.text for reply in replies[False]]
    for before, after, row_id in zip(*replies.values(), ("b", "a"), strict=True):
        maps = [reader.read(reply.heatmaps or "", row_id, SIZE[::-1])[0] for reply in (before, after)]
        np.testing.assert_array_equal(maps[0][ATTENTION], maps[1][ATTENTION])
        assert before.heatmaps != after.heatmaps
    asked_relevancy, sentence_relevancy = (parse_relevancy(reply.relevancy) for reply in replies[True])
    assert asked_relevancy is not None
    assert sentence_relevancy == asked_relevancy._replace(tokens=None)
    text = "".join(token for token, _ in asked_relevancy.tokens or ())
    assert question in text
    assert text.index(question) + len(question) + len("Yes") >= len(text.rstrip()) - 1  # nothing after the answer
    assert 0 < asked_relevancy.image < 1


class RowImages(list[Image.Image]):
    """Images of a row that record the outcome of its request."""

    outcome: str | None = None

    def tell_outcome(self, outcome: str, end: str = "") -> None:
        self.outcome = outcome


@pytest.mark.full  # two more runs
def test_documents_say_which_answers_are_cut_also_of_rows_in_the_store(llava: Path, tmp_path: Path, capsys):
    """A row of two tasks is answered once, and both documents record the outcome."""
    affirmed, open_ = ABOUT_SENTENCES
    cases = (("a", affirmed, "gold", 24), ("b", open_, "gold", 2), ("b", open_, "swap", 2))

    def list_outcomes() -> list[str | None]:
        visuals = [RowImages([make_frame(0)]) for _ in cases]
        rows = [
            asked(
                f"<image>{question}", images, doc=ask_about(row, question).doc, task=task, max_gen_toks=n, until=["\n"]
            )
            for (row, question, task, n), images in zip(cases, visuals, strict=True)
        ]
        load(llava, store=str(tmp_path), batch_size=2).generate_until(rows)
        return [images.outcome for images in visuals]

    assert list_outcomes() == ["answered", "cut", "cut"]
    assert "medfaith: 1 of 2 answers are incomplete: 1 cut; a cut answer is read by its" in capsys.readouterr().err
    assert list_outcomes() == ["answered", "cut", "cut"]
    write = HeatmapStore.write  # entries of an earlier version have no outcome
    for path in tmp_path.rglob("*.npz"):
        path.unlink()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(HeatmapStore, "write", lambda *row, extra: write(*row, extra={"text": extra["text"]}))
        list_outcomes()
    assert list_outcomes() == [None] * 3


TRIPLETS = ["grasper,retract,gallbladder", "hook,dissect,gallbladder"]


@pytest.mark.parametrize(
    ("text", "classes", "expected"),
    [
        ("I see a hook and a grasper.", CLASSES, {"hook": ["hook"], "grasper": ["grasper"]}),
        ("A hook. Yes, the hook is there.", CLASSES, {"hook": ["hook", "hook"]}),
        ("No hook, only a retrieval bag.", CLASSES, {"specimen_bag": ["retrieval bag"]}),
        ("No tool is visible.", CLASSES, {}),
        ("What a day.", CLASSES, {}),
        ("grasper retract gallbladder", TRIPLETS, {"grasper,retract,gallbladder": ["grasper retract gallbladder"]}),
        ("hook cut liver", TRIPLETS, {"hook,cut,liver": ["hook cut liver"]}),  # outside the classes, but predicted
    ],
)
def test_class_spans(text: str, classes: list[str], expected: dict[str, list[str]]):
    spans_by_class = {name: [text[a:b] for a, b in spans] for name, spans in find_class_spans(text, classes).items()}
    assert spans_by_class == expected


PIECES = {1: b"A ", 2: b"h", 3: b"ook", 4: "é".encode()[:1], 5: "é".encode()[1:], 6: b"", 7: b"\xe2\x9c\x93 hook"}


@pytest.mark.parametrize(
    ("tokens", "word", "expected"),
    [
        ([1, 2, 3], "hook", [1, 2]),
        ([1, 6, 2, 3, 6], "hook", [2, 3]),  # special tokens have no text
        ([4, 5, 2, 3], "hook", [2, 3]),  # one character in two tokens
        ([4, 5, 2, 3], "é", [1]),  # its position is the token that completes it
        ([7, 1], "hook", [0]),
        ([1, 2, 3, 1], "A ", [0]),
        ([], "", []),
    ],
)
def test_tokens_of_a_word(tokens: list[int], word: str, expected: list[int]):
    def decode(ids: list[int]) -> str:
        return b"".join(PIECES[n] for n in ids).decode(errors="replace")

    offsets = compute_token_offsets(tokens, decode)
    start = decode(tokens).index(word)
    assert find_span_tokens((start, start + len(word)), offsets) == expected


def test_weights_digest_tells_models_apart():
    torch.manual_seed(0)
    model = torch.nn.Linear(40, 40)
    before = hash_weights(model)
    assert hash_weights(model) == before
    with torch.no_grad():
        model.weight.mul_(1.001)
    assert hash_weights(model) != before
