"""Florence-2, an encoder-decoder, and PaliGemma: answers, boxes, and refusals before the weights are loaded."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, cast

import pytest
import torch

from medfaith.cli import main
from medfaith.loaders.errors import InputError
from medfaith.tasks.models.vlm.hf_vlm import HFVisionLM
from tests.support.tasks.asking import asked, noise, scored
from tests.support.tasks.evaluating import evaluate, load, samples_of
from tests.support.tasks.tiny_families import florence2, paligemma

OPTION_SCORES = "medfaith_contrabench_option_scores"
OPENI, PRESENCE = "medfaith_contrabench_openi_report_absence", "medfaith_contrabench_chexpert_presence"
PROMPTS = [
    ("<image>Locate the heart in the image.", 1),
    ("<image>\nIs there edema in the left lower lung of this patient? Answer yes or no.", 1),
    ("Is there edema?", 0),
]
N_TOKENS = 8


def open_model(folder: Path, **options: Any) -> Any:
    arguments = {"pretrained": str(folder), "dtype": "float32", "device": "cpu", "batch_size": 4, **options}
    return cast(Any, HFVisionLM).create_from_arg_obj(arguments)


@pytest.fixture(scope="module")
def florence(tmp_path_factory) -> Any:
    return open_model(florence2.save(tmp_path_factory.mktemp("florence2") / "model"))


def ask_all() -> list[Any]:
    return [
        asked(prompt, [noise((160, 90), row)] * n, row, max_gen_toks=N_TOKENS)
        for row, (prompt, n) in enumerate(PROMPTS)
    ]


def test_answers_are_those_of_transformers_in_batches_of_any_size(florence):
    """A shorter prompt is padded, and the encoder's positions count from the left."""
    requests = ask_all()
    answers = florence.generate_until(requests)
    assert answers == [florence.generate_until([request])[0] for request in requests]
    assert len(set(answers)) == len(answers)
    for request, answer in zip(requests, answers, strict=True):
        text, _, media = cast(Any, request.args)
        text = text.replace("<image>", "").strip()
        if images := list(media["visual"]):
            inputs = florence.processor(images=images, text=[text], return_tensors="pt")
        else:
            inputs = florence.tokenizer([f"<s>{text}</s>"], add_special_tokens=False, return_tensors="pt")
        output = florence.model.generate(**inputs, max_new_tokens=N_TOKENS, do_sample=False)
        assert florence.tokenizer.decode(output[0, 1:], skip_special_tokens=False) == answer
        assert re.search("<loc_", answer)  # locations are special tokens


def test_an_answer_ends_at_a_stop_string_or_at_the_end_token(florence, monkeypatch):
    request = ask_all()[0]
    (answer,) = florence.generate_until([request])
    cast(Any, request.args)[1]["until"] = ["<loc_"]
    assert florence.generate_until([request]) == [answer.split("<loc_")[0]]
    generate, request = florence.model.generate, ask_all()[0]

    def end_early(**inputs: Any) -> torch.Tensor:
        output = generate(**inputs)
        output[:, 2] = florence.tokenizer.eos_token_id
        output[:, 3:] = florence.tokenizer.pad_token_id
        return output

    monkeypatch.setattr(florence.model, "generate", end_early)
    (ended,) = florence.generate_until([request])
    assert answer.startswith(ended)
    assert len(ended) < len(answer)
    assert florence._reply(ended, florence._last_batch[1][0], N_TOKENS).outcome == "answered"


@pytest.mark.parametrize(
    ("prompt", "n_images", "message"),
    [
        ("<image><image>Edema?", 2, "has 2 images, and florence2 reads one"),
        ("<image>" + "Edema? " * 400, 1, "florence2: reads 512 of"),
        ("Edema? " * 400, 0, "florence2: reads 512 of"),
    ],
)
def test_what_the_encoder_cannot_read_is_refused(florence, prompt, n_images, message):
    with pytest.raises(InputError, match=message):
        florence.generate_until([asked(prompt, [noise((30, 30), n) for n in range(n_images)], max_gen_toks=1)])


def test_option_scores_are_refused(florence):
    with pytest.raises(InputError, match=r"florence2 is an encoder-decoder(.|\n)*ask for answers"):
        florence.loglikelihood([scored("<image>Edema?", "Yes", [noise((30, 30))])])


@pytest.mark.parametrize(
    ("model", "arguments", "tasks", "message"),
    [
        ("medfaith-hf-vlm", "", OPTION_SCORES, "encoder-decoder(.|\n)*ask for answers"),
        ("medfaith-hf-vlm", "", OPENI, "keeps 1 of the images(.|\n)*--images first"),
        ("hf-multimodal", "", OPENI, "for its prompts(.|\n)*medfaith-hf-vlm"),
        ("medfaith-hf-vlm", ",decoding=vcd", PRESENCE, "florence2 is none of the models"),
        ("medfaith-explained-vlm", ",store=STORE", PRESENCE, "florence2: it is not known"),
    ],
)
def test_other_roads_are_refused_before_the_weights_are_loaded(
    model, arguments, tasks, message, florence, phantom_roots, phantom_build, tmp_path, capsys
):
    folder = tmp_path / "model"
    folder.mkdir()
    for path in Path(florence.model.name_or_path).iterdir():
        if path.suffix != ".safetensors":
            (folder / path.name).write_bytes(path.read_bytes())
    roots = [word for name, root in phantom_roots.items() for word in ("--root", f"{name}={root}")]
    options = ["--images", "first"] if tasks == PRESENCE else []
    arguments = f"pretrained={folder}{arguments}".replace("STORE", str(tmp_path / "store"))
    common = ["eval", "--data", str(phantom_build), *roots, "--tasks", tasks, *options, "--device", "cpu"]
    assert main([*common, "--model", model, "--model_args", arguments]) == 2
    assert re.search(message, capsys.readouterr().err)


@pytest.mark.full  # eval of two tasks
def test_florence_answers_and_states_boxes_by_the_command(
    florence, phantom_heal_build, phantom_heal_roots, tmp_path: Path
):
    roots = [word for name, root in phantom_heal_roots.items() for word in ("--root", f"{name}={root}")]
    tasks = ["--tasks", "medfaith_heal_vindr_closed,medfaith_heal_vindr_stated_boxes", "--box-format", "florence2"]
    model = ["--model", "medfaith-hf-vlm", "--model_args", f"pretrained={florence.model.name_or_path}"]
    options = ["--limit", "2", "--device", "cpu", "--batch_size", "2", "--gen_kwargs", "max_gen_toks=8"]
    common = ["eval", "--data", str(phantom_heal_build), *roots, *tasks, *model, *options]
    assert main([*common, "--output_path", str(tmp_path), "--log_samples"]) == 0
    samples = samples_of(tmp_path, "medfaith_heal_vindr_stated_boxes")
    assert [sample["doc"]["question"] for sample in samples] == [
        f"Locate the {sample['doc']['anatomy']} in the image." for sample in samples
    ]
    assert all("<loc_" in sample["resps"][0][0] for sample in samples)
    assert len(samples_of(tmp_path, "medfaith_heal_vindr_closed")) == 2


@pytest.mark.parametrize(
    ("box_format", "text"),
    [
        ("florence2", "<s>heart<loc_0><loc_0><loc_999><loc_999></s>"),
        ("paligemma", "<loc0000><loc0000><loc1023><loc1023> heart</s>"),
    ],
)
def test_locations_that_are_generated_reach_the_score(
    box_format, text, florence, phantom_surgx_build, phantom_surgx_roots, tmp_path, monkeypatch
):
    """Whatever is asked, the box is the whole image."""
    lm = florence if box_format == "florence2" else open_model(paligemma.save(tmp_path / "paligemma"))
    tokens = lm.tokenizer(text, add_special_tokens=False, return_tensors="pt")["input_ids"]

    def generate(input_ids: torch.Tensor, **_: Any) -> torch.Tensor:
        n = len(input_ids)
        before = torch.ones((n, 1), dtype=torch.long) if lm is florence else input_ids
        return torch.cat([before, tokens.expand(n, -1)], dim=1)

    monkeypatch.setattr(lm.model, "generate", generate)
    loaded = load(["medfaith_surgx_stated_boxes"], phantom_surgx_build, phantom_surgx_roots, box_format=box_format)
    ours, whole_image = (
        evaluate(model, loaded, limit=6)["medfaith_surgx_stated_boxes"] for model in (lm, "always_yes")
    )
    assert ours["scores"]["n_unparsed"] == 0
    assert ours["scores"]["iou"] == pytest.approx(whole_image["scores"]["iou"], rel=0.02)
    assert ours["scores"]["iou"] > 0
