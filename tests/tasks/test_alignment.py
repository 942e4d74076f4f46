"""medfaith-alignment with CLIP and BLIP: each pair is computed once, stored completely, and unchanged by a resume."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from lm_eval.api.instance import Instance
from PIL import Image

from medfaith.loaders.errors import InputError, MedfaithError
from medfaith.tasks.explain.geometry import Geometry
from medfaith.tasks.explain.store import open_store
from medfaith.tasks.lazy_images import LazyImages
from medfaith.tasks.models.alignment import lm as alignment
from medfaith.tasks.models.alignment.aligners import Alignment
from medfaith.tasks.models.alignment.lm import AlignmentLM, load_aligner
from medfaith.tasks.models.contrastive.lm import ContrastiveLM
from tests.support.tasks import tiny_gloria
from tests.support.tasks.tiny_contrastive import PROMPTS
from tests.support.tasks.tiny_gloria import SENTENCES


@pytest.fixture
def arguments(families, gloria) -> dict[str, dict[str, Any]]:
    """The model_args of the tiny model of each family."""
    path, text_model = gloria[True]
    return {
        "gloria": {"pretrained": f"gloria:{path}", "text_model": text_model, "attention": "code"},
        "clip": {"pretrained": f"clip:{families['clip']['pretrained']}"},
        "blip": {"pretrained": f"blip:{families['blip']['pretrained']}"},
    }


class FakeAligner:
    """A fake aligner with arithmetic scores that records the pairs it is given."""

    def __init__(self, identity: str = "counting", weight: float = 1.0, fail_after: int | None = None) -> None:
        self.identity, self.weight, self.fail_after = {"model": identity}, weight, fail_after
        self.asked: list[tuple[int, str]] = []

    def align(self, images, sentences, image_ids):
        if self.fail_after is not None and len(self.asked) >= self.fail_after:
            raise KeyboardInterrupt
        self.asked += [(image.width, sentence) for image, sentence in zip(images, sentences, strict=True)]
        return [self.compute_alignment(image, sentence) for image, sentence in zip(images, sentences, strict=True)]

    def compute_alignment(self, image, sentence):
        grid = np.full((2, 3), self.weight * len(sentence) / 1000, dtype=np.float32)
        geometry = Geometry.whole((image.height, image.width))
        return Alignment(grid, geometry, len(sentence) / 7, image.width / 1000, len(sentence) > 30)


@pytest.fixture
def roots(tmp_path) -> dict[str, Any]:
    """Roots of one source: a folder with three images of different widths."""
    for number in range(3):
        noise = np.random.default_rng(number).integers(0, 256, (30, 40 + number, 3), dtype=np.uint8)
        Image.fromarray(noise).save(tmp_path / f"{number}.png")
    return {"mimic_cxr": tmp_path}


TASK = "medfaith_wrong_lung"


def build_request(row: str, image: Any, sentence: str | None = "Clear.", task=f"{TASK}_gold") -> Instance:
    content = {"id": row, "images": image} | ({} if sentence is None else {"sentence": sentence})
    arguments: Any = ("<image> Is it true?", {"until": []}, {"visual": image})
    return Instance("generate_until", content, arguments, 0, (task, 0, 1))


class Opened(LazyImages):
    """Lazy images that record which files are opened."""

    keys: list[str] = []  # noqa: RUF012 - build_rows clears it

    def _open_original(self, reference):
        Opened.keys.append(reference["key"])
        return Image.open(self._roots[reference["source"]] / reference["key"]).convert("RGB")


def build_rows(roots) -> list[Instance]:
    """Build the rows of two tasks: gold sentences, and pairs of the same and changed sentences."""
    Opened.keys.clear()
    on_left, on_right = "Left lung is clear.", "Right lung is clear of anything."
    return [
        build_request(
            row, Opened(row, [{"source": "mimic_cxr", "key": f"{number}.png"}], roots), text, f"{TASK}_{task}"
        )
        for task, row, number, text in (
            ("gold", "a", 0, on_left), ("gold", "b", 1, on_left), ("gold", "c", 0, on_right),
            ("swap", "a", 0, on_left), ("swap", "a/swap", 0, "Right lung is clear."),
            ("swap", "a/boxes", 0, on_right),
        )
    ]  # fmt: skip


def make_lm(monkeypatch, tmp_path, aligner, **options) -> AlignmentLM:
    monkeypatch.setattr(alignment, "load_aligner", lambda pretrained, device, **_: aligner)
    return AlignmentLM("gloria:x", store=str(tmp_path / "store"), **options)


@pytest.mark.parametrize("batch_size", [1, 3, "auto"])
def test_each_image_and_sentence_is_computed_once_and_kept_for_every_row(monkeypatch, tmp_path, roots, batch_size):
    aligner, requests = FakeAligner(), build_rows(roots)
    lm = make_lm(monkeypatch, tmp_path, aligner, batch_size=batch_size)
    replies = [json.loads(text) for text in lm.generate_until(requests, True)]
    sentences = [str(r.doc["sentence"]) for r in requests]
    widths = [40, 41, 40, 40, 40, 40]
    assert sorted(aligner.asked) == sorted(set(zip(widths, sentences, strict=True)))
    assert sorted(Opened.keys) == ["0.png", "1.png"]
    store = open_store(tmp_path / "store")
    for request, reply, width, sentence in zip(requests, replies, widths, sentences, strict=True):
        assert reply.keys() == {"heatmaps", "local", "global"}
        assert (reply["local"], reply["global"]) == (len(sentence) / 7, width / 1000)
        entry = store.read(reply["heatmaps"], request.doc["id"])
        assert list(entry.maps) == ["attention"]
        np.testing.assert_allclose(entry.maps["attention"], np.full((2, 3), len(sentence) / 1000), rtol=1e-3)
        assert entry.geometry == Geometry.whole((30, width))
    assert len({reply["heatmaps"] for reply in replies}) == 4
    assert len(list((tmp_path / "store").glob("*/*.npz"))) == 5  # a, b, c, a/swap, a/boxes


def test_a_killed_run_goes_on_and_ends_as_if_it_had_not_been(monkeypatch, tmp_path, roots):
    expected = make_lm(monkeypatch, tmp_path / "whole", FakeAligner()).generate_until(build_rows(roots), True)
    with pytest.raises(KeyboardInterrupt):
        make_lm(monkeypatch, tmp_path, FakeAligner(fail_after=2), batch_size=1).generate_until(build_rows(roots), True)
    resumed = FakeAligner()
    assert make_lm(monkeypatch, tmp_path, resumed, batch_size=1).generate_until(build_rows(roots), True) == expected
    assert len(resumed.asked) == 2
    repeated = FakeAligner()
    assert make_lm(monkeypatch, tmp_path, repeated).generate_until(build_rows(roots), True) == expected
    assert repeated.asked == []


def test_another_row_of_a_known_image_and_sentence_is_not_computed_again(monkeypatch, tmp_path, roots):
    lm = make_lm(monkeypatch, tmp_path, FakeAligner())
    lm.generate_until(build_rows(roots)[:1], True)
    lm = make_lm(monkeypatch, tmp_path, resumed := FakeAligner())
    lm.generate_until(build_rows(roots), True)
    assert len(resumed.asked) == 3
    assert make_lm(monkeypatch, tmp_path, other_model := FakeAligner("other")).generate_until(
        build_rows(roots)[:1], True
    )
    assert len(other_model.asked) == 1  # another model


def test_another_image_of_the_same_row_has_maps_of_its_own(monkeypatch, tmp_path):
    lm = make_lm(monkeypatch, tmp_path, aligner := FakeAligner())
    images = [Image.new("RGB", (40, 30), colour) for colour in ("white", "black")]
    white_reply, black_reply = (
        json.loads(lm.generate_until([build_request("a", [image])], True)[0]) for image in images
    )
    assert white_reply["heatmaps"] != black_reply["heatmaps"]
    assert len(aligner.asked) == 2


@pytest.mark.parametrize("weight", [float("nan"), float("inf")])
def test_attention_that_is_no_number_stops_the_run(monkeypatch, tmp_path, roots, weight):
    message = "gloria:x gives attention or similarities that are not numbers: its weights are broken"
    with pytest.raises(MedfaithError, match=message):
        make_lm(monkeypatch, tmp_path, FakeAligner(weight=weight)).generate_until(build_rows(roots), True)
    assert not list((tmp_path / "store").glob("*/*.npz"))


def test_attention_to_nothing_is_kept_as_it_is(monkeypatch, tmp_path, roots):
    (reply,) = make_lm(monkeypatch, tmp_path, FakeAligner(weight=0)).generate_until(build_rows(roots)[:1], True)
    entry = open_store(tmp_path / "store").read(json.loads(reply)["heatmaps"], "a")
    assert entry.maps["attention"].tolist() == [[0, 0, 0]] * 2


def test_sentences_that_were_cut_are_counted(monkeypatch, tmp_path, roots, capsys):
    make_lm(monkeypatch, tmp_path, FakeAligner()).generate_until(build_rows(roots), True)
    assert "1 sentences were longer than the model takes" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sentence": None}, "medfaith_wrong_lung_gold, row 0: the document has no sentence"),
        ({"image": []}, "row a: 0 images"),
        ({"image": [Image.new("L", (3, 3))] * 2}, "row a: 2 images"),
    ],
)
def test_documents_that_are_none(monkeypatch, tmp_path, change, message):
    request = build_request(**({"row": "a", "image": [Image.new("L", (3, 3))]} | change))
    with pytest.raises(InputError, match=message):
        make_lm(monkeypatch, tmp_path, FakeAligner()).generate_until([request], True)


def test_what_a_model_that_aligns_does_not_do(monkeypatch, tmp_path):
    lm = make_lm(monkeypatch, tmp_path, FakeAligner())
    assert lm.generate_until([], True) == []
    for method in (lm.loglikelihood, lm.loglikelihood_rolling):
        with pytest.raises(MedfaithError, match="no probability of text"):
            method([])
    assert lm.apply_chat_template([{"content": "a"}, {"content": "b"}]) == "a\n\nb"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"pretrained": "clip:x"}, "store: is not named"),
        ({"pretrained": "pixelbert:x", "store": "s"}, "pretrained: is 'pixelbert:x'"),
        ({"pretrained": "uniter:x", "store": "s"}, "boxes: is not named"),
        ({"pretrained": "clip:", "store": "s"}, "pretrained: is 'clip:'"),
        ({"pretrained": "clip:x", "store": "s", "batch_size": 0}, "batch_size: is 0"),
        ({"pretrained": "clip:x", "store": "s", "tau": 1}, "model_args: unknown: tau"),
        ({"pretrained": "gloria:x", "store": "s", "explainer": "rollout"}, "model_args: unknown: explainer"),
        ({"pretrained": "gloria:/no/file", "store": "s"}, "/no/file: cannot be loaded"),
    ],
)
def test_arguments_that_are_none(options, message):
    with pytest.raises(InputError, match=message):
        AlignmentLM(**options)


def test_the_protocol_imports_without_torch():
    code = (
        "import sys; sys.modules.update(torch=None, transformers=None, torchvision=None)\n"
        "from medfaith.tasks.models.alignment.lm import load_aligner\n"
        "from medfaith.loaders.errors import MedfaithError\n"
        "try:\n    load_aligner('gloria:x', device='cpu')\n"
        "except MedfaithError as error:\n    print(error)"
    )
    completed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "torch is not installed" in completed.stdout


@pytest.mark.parametrize("family", ["gloria", pytest.param("clip", marks=pytest.mark.full)])
def test_models_through_lm_evals_interface(arguments, tmp_path, roots, family):
    images = [LazyImages(str(n), [{"source": "mimic_cxr", "key": f"{n}.png"}], roots) for n in range(3)]
    requests = [
        build_request(str(n), *image_and_sentence)
        for n, image_and_sentence in enumerate(zip(images, SENTENCES, strict=True))
    ]

    def compute_replies(batch_size: int) -> list[dict[str, Any]]:
        lm = AlignmentLM(**arguments[family], store=str(tmp_path), batch_size=batch_size, device="cpu")
        return [json.loads(text) for text in lm.generate_until(requests, True)]

    replies = compute_replies(2)
    for number, reply in enumerate(replies):
        entry = open_store(tmp_path).read(reply["heatmaps"], str(number))
        total = entry.maps["attention"].sum()
        assert entry.geometry.size == (30, 40 + number)
        assert -1 <= reply["global"] <= 1
        assert (reply["local"] is None) == (family != "gloria")
        assert total < 0.9999 if family == "gloria" else total == pytest.approx(1, abs=2e-3)
    assert compute_replies(3) == replies


@pytest.mark.parametrize(("family", "explainer"), [("clip", "auto"), ("blip", "rollout_last")])
def test_gradient_attention_is_that_of_the_contrastive_model(arguments, family, explainer):
    pretrained = arguments[family]["pretrained"]
    contrastive = ContrastiveLM(pretrained.partition(":")[2], explainer=explainer, device="cpu")
    images = [Image.fromarray(np.random.default_rng(n).integers(0, 256, (60, 80, 3), dtype=np.uint8)) for n in range(2)]
    alignments = load_aligner(pretrained, "cpu", explainer=explainer).align(images, PROMPTS[:2])
    for image, prompt, alignment_ in zip(images, PROMPTS, alignments, strict=False):
        grids, geometry = contrastive.explain(image, [prompt], [0])
        np.testing.assert_allclose(alignment_.attention, grids[0] / grids[0].sum(), atol=1e-4)
        assert alignment_.attention.dtype == np.float32
        assert alignment_.geometry == geometry
        assert alignment_.overall == pytest.approx(contrastive.scores([image], [prompt])[0, 0] / 100, abs=1e-5)
        assert (alignment_.local, alignment_.cut) == (None, False)


def test_a_sentence_that_clip_has_no_room_for_loses_its_last_words(arguments):
    aligner = load_aligner(arguments["clip"]["pretrained"], "cpu")
    image = Image.new("RGB", (40, 40), "grey")
    short = " ".join(["photo"] * 14)  # 16 tokens with start and end
    full, cut = aligner.align([image] * 2, [short, f"{short} of the image"])
    assert (full.cut, cut.cut) == (False, True)
    assert full.overall == pytest.approx(cut.overall, abs=1e-6)


def test_a_similarity_without_gradient_attends_to_nothing(arguments, tmp_path):
    folder = arguments["clip"]["pretrained"].partition(":")[2]
    model = transformers.CLIPModel.from_pretrained(folder)
    torch.nn.init.zeros_(model.vision_model.post_layernorm.weight)
    transformers.CLIPProcessor.from_pretrained(folder).save_pretrained(tmp_path / "flat")
    torch.nn.init.ones_(model.vision_model.post_layernorm.bias)
    model.save_pretrained(tmp_path / "flat")
    (aligned,) = load_aligner(f"clip:{tmp_path / 'flat'}", "cpu").align([Image.new("RGB", (40, 40))], ["a photo"])
    assert aligned.attention.sum() == 0
    assert np.isfinite(aligned.overall)


@pytest.mark.full  # several whole encoders
def test_what_changes_an_alignment_changes_its_fingerprint(arguments, tmp_path):
    base = {**arguments["gloria"], "attention": "paper"}
    other_checkpoint = tiny_gloria.save(tmp_path, no_attn=True, seed=1)[0]
    changes = [
        {"pretrained": f"gloria:{other_checkpoint}"},
        {"attention": "code"},
        {"tau": 0.5},
        {"text_model": tiny_gloria.save_tokenizer(tmp_path / "other", tiny_gloria.VOCABULARY[::-1])},
    ]
    fingerprint, repeated_fingerprint, *changed_fingerprints = (
        AlignmentLM(**base | change, store=str(tmp_path / "maps"), device="cpu").fingerprint
        for change in ({}, {}, *changes)
    )
    assert fingerprint == repeated_fingerprint
    assert fingerprint not in changed_fingerprints


def test_a_model_of_the_other_kind_or_explainer(arguments):
    folder = arguments["clip"]["pretrained"].partition(":")[2]
    with pytest.raises(InputError, match="is a clip model") as caught:
        load_aligner(f"blip:{folder}", "cpu")
    assert f"name it clip:{folder}" in str(caught.value)
    with pytest.raises(InputError, match="explainer: is 'grad_cam'"):
        load_aligner(f"clip:{folder}", "cpu", explainer="grad_cam")
