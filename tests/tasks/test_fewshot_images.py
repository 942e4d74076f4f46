"""Three-shot prompts with the exemplars' images: the model's inputs through lm-eval."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from medfaith.cli import main
from medfaith.loaders import images
from medfaith.tasks.contrabench import fewshot, prompts
from medfaith.tasks.models.vlm.hf_vlm import HFVisionLM
from tests.support.builders.files import root_words, rows_of
from tests.support.tasks.evaluating import evaluate, load, record_images
from tests.support.tasks.tiny_models import PLACEHOLDER

POOLS = {"presence": ("chexstruct", "fewshot_presence"), "absence": ("openi", "fewshot_absence")}


@pytest.mark.parametrize(
    ("name", "chat"),
    [pytest.param("llava", False, marks=pytest.mark.full), ("qwen2_5_vl", True)],
    ids=["plain", "chat"],
)
def test_the_model_is_given_the_exemplars_images_and_then_the_rows_own(name, chat, contrabench_of_all_sources, vlms):
    roots, data = contrabench_of_all_sources
    options = {} if chat else {"image_string": PLACEHOLDER[name]}
    # max_length: enough for seven images.
    lm: Any = HFVisionLM(str(vlms[name]), dtype="float32", device="cpu", max_length=2048, **options)
    loaded = load(["medfaith_contrabench_3shot_images"], data, roots)
    for task in loaded["tasks"].values():
        task.config.generation_kwargs["max_gen_toks"] = 1
    with record_images(lm, PLACEHOLDER[name]) as images_by_prompt:
        runs = evaluate(lm, loaded, limit=2, apply_chat_template=chat)
    docs = {doc["id"]: doc for run in runs.values() for doc in run["docs"]}
    assert len(docs) == len(images_by_prompt) == 4
    for doc in docs.values():
        text, images = build_expected(doc, data, roots)
        prompt = lm.apply_chat_template([{"role": "user", "content": text}]) if chat else text
        model_images = images_by_prompt[prompt.replace("<image>", PLACEHOLDER[name])]
        assert len({image.tobytes() for image in images}) > 1, "their order matters"
        assert [image.tobytes() for image in model_images] == [image.tobytes() for image in images]
    assert {len(images) for images in images_by_prompt.values()} - {4}, "some study has several images"


def build_expected(doc: dict[str, Any], data: Path, roots: dict[str, Path]) -> tuple[str, list[Image.Image]]:
    """Build text and images by hand from the stored rows: three exemplars, then the question."""
    rows = rows_of(data / "cxr-contrabench-chexpert", doc["protocol"], "validation")
    (row,) = (row for row in rows if row["id"] == doc["id"])
    source, config = POOLS[doc["polarity"]]
    pool = rows_of(data / f"cxr-contrabench-{source}", config, "train")
    sections, opened = [], []
    for question_row in [*fewshot.sample_exemplars(row["id"], pool), row]:
        options = [f"{letter}. {option}" for letter, option in zip("ABCD", question_row["options"], strict=False)]
        end = (
            "Answer with the letter of the correct option."
            if question_row is row
            else f"Answer: {'ABCD'[question_row['answer']]}"
        )
        sections.append("\n".join(["<image>" * len(question_row["images"]), question_row["question"], *options, end]))
        opened += [images.open_image(reference, roots) for reference in question_row["images"]]
    return "\n\n".join(sections), opened


def test_references_are_in_order_and_the_text_only_variant_is_as_before(contrabench_of_all_sources):
    data = contrabench_of_all_sources[1]
    for side, (source, config) in POOLS.items():
        where: dict[str, Any] = {
            "repository": "cxr-contrabench-chexpert",
            "config": f"chexpert_{side}",
            "split": "validation",
            "data": str(data),
        }
        pool = f"cxr-contrabench-{source}", config
        plain: Any = fewshot.load(*pool, **where)["test"]
        with_images: Any = fewshot.load(*pool, exemplar_images=True, **where)["test"]
        for before, doc in zip(plain, with_images, strict=True):
            row_images, n = str(before["images"]), len(before["images"])
            references, n_shown = str(doc["images"]).split(), len(doc["images"])
            assert references[n_shown - n :] == row_images.split()
            assert {reference.split(":")[0] for reference in references[: n_shown - n]} == {"openi"}
            text = prompts.three_shot_images(doc)
            assert text.replace("<image>", "").split() == prompts.three_shot(before).replace("<image>", "").split()
            assert text.count("<image>") == n_shown > n
            assert prompts.three_shot(before).count("<image>") == n


def test_max_images_stops_the_run_with_status_2(contrabench_of_all_sources, vlms, capsys):
    """hf-multimodal would drop the last images, including the question's own."""
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
