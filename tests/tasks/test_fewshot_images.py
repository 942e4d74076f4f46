"""Three-shot prompts with the exemplars' images: what a model is really given through lm-eval."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from medfaith.cli import main
from medfaith.loaders import images
from medfaith.tasks.contrabench import fewshot, prompts
from medfaith.tasks.models.hf_vlm import HFVisionLM
from tests.builders.files import root_words, rows_of
from tests.tasks.evaluating import evaluate, given_to, load
from tests.tasks.tiny_models import PLACEHOLDER

POOLS = {"presence": ("chexstruct", "fewshot_presence"), "absence": ("openi", "fewshot_absence")}


@pytest.mark.parametrize(("name", "chat"), [("llava", False), ("qwen2_5_vl", True)], ids=["plain", "chat"])
def test_the_model_is_given_the_exemplars_images_and_then_the_rows_own(name, chat, contrabench_of_all_sources, vlms):
    roots, data = contrabench_of_all_sources
    how = {} if chat else {"image_string": PLACEHOLDER[name]}
    # max_length: enough for seven images.
    lm: Any = HFVisionLM(str(vlms[name]), dtype="float32", device="cpu", max_length=2048, **how)
    loaded = load(["medfaith_contrabench_3shot_images"], data, roots)
    for task in loaded["tasks"].values():
        task.config.generation_kwargs["max_gen_toks"] = 1
    with given_to(lm, PLACEHOLDER[name]) as given:
        runs = evaluate(lm, loaded, limit=2, apply_chat_template=chat)
    docs = {doc["id"]: doc for run in runs.values() for doc in run["docs"]}
    assert len(docs) == len(given) == 4
    for doc in docs.values():
        text, images = wanted(doc, data, roots)
        prompt = lm.apply_chat_template([{"role": "user", "content": text}]) if chat else text
        shown = given[prompt.replace("<image>", PLACEHOLDER[name])]
        assert len({image.tobytes() for image in images}) > 1, "their order matters"
        assert [image.tobytes() for image in shown] == [image.tobytes() for image in images]
    assert {len(images) for images in given.values()} - {4}, "some study has several images"


def wanted(doc: dict[str, Any], data: Path, roots: dict[str, Path]) -> tuple[str, list[Image.Image]]:
    """Text and images put together by hand: three pool rows, then the row, as they are stored."""
    rows = rows_of(data / "cxr-contrabench-chexpert", doc["protocol"], "validation")
    (row,) = (row for row in rows if row["id"] == doc["id"])
    source, config = POOLS[doc["polarity"]]
    pool = rows_of(data / f"cxr-contrabench-{source}", config, "train")
    parts, opened = [], []
    for asked in [*fewshot.sample_exemplars(row["id"], pool), row]:
        options = [f"{letter}. {option}" for letter, option in zip("ABCD", asked["options"], strict=False)]
        end = "Answer with the letter of the correct option." if asked is row else f"Answer: {'ABCD'[asked['answer']]}"
        parts.append("\n".join(["<image>" * len(asked["images"]), asked["question"], *options, end]))
        opened += [images.open_image(reference, roots) for reference in asked["images"]]
    return "\n\n".join(parts), opened


def test_references_are_in_order_and_the_text_only_variant_is_as_before(contrabench_of_all_sources):
    data = contrabench_of_all_sources[1]
    for side, (source, config) in POOLS.items():
        where: dict[str, Any] = {"config": f"chexpert_{side}", "split": "validation", "data": str(data)}
        pool = f"cxr-contrabench-{source}", config
        plain = fewshot.load(*pool, repository="cxr-contrabench-chexpert", **where)["test"]
        shown = fewshot.load(*pool, repository="cxr-contrabench-chexpert", exemplar_images=True, **where)["test"]
        for before, doc in zip(plain, shown, strict=True):
            own, n = str(before["images"]), len(before["images"])
            references, n_shown = str(doc["images"]).split(), len(doc["images"])
            assert references[n_shown - n :] == own.split()
            assert {reference.split(":")[0] for reference in references[: n_shown - n]} == {"openi"}
            text = prompts.three_shot_images(doc)
            assert text.replace("<image>", "").split() == prompts.three_shot(before).replace("<image>", "").split()
            assert text.count("<image>") == n_shown > n
            assert prompts.three_shot(before).count("<image>") == n


def test_max_images_stops_the_run_with_status_2(contrabench_of_all_sources, vlms, capsys):
    """hf-multimodal would drop the last images, and with them the question's own."""
    roots, data = contrabench_of_all_sources
    arguments = [
        *("eval", "--data", str(data), *root_words(roots), "--model", "medfaith-hf-vlm", "--device", "cpu"),
        *("--model_args", f"pretrained={vlms['llava']},dtype=float32,max_images=3", "--apply_chat_template"),
        *("--tasks", "medfaith_contrabench_3shot_images", "--limit", "1"),
    ]
    assert main(arguments) == 2
    message = capsys.readouterr().err
    assert "keeps 3 of the images of a prompt" in message
    assert "what to do" in message
