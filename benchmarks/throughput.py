"""Speed of runs of local models, compared with a batched loop of `generate` over the same model, images and prompts.

    uv run python -m benchmarks.throughput [--size 7b --device cuda]

The model is a Qwen2.5-VL with random weights. By default it is small, for two CPU cores; `--size 7b` has the layers of
Qwen2.5-VL-7B. Three programs ask the same rows of CXR-ContraBench in the same batches. Every answer has the same number
of tokens, and all programs give the same answers. The bare loop opens the images, calls the processor and `generate`,
and decodes. The other two are complete runs by lm-eval: one column has the time of answering, and another the time
before and after it (rows, prompts, scores). The programs take turns, and the best of three rounds counts.

Other work on the machine makes the figures useless: compare the columns `generate s` first.
"""

from __future__ import annotations

import argparse
import logging
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import torch
import transformers
from lm_eval.api.instance import Instance
from PIL import Image

from medfaith.builders import cxr_contrabench
from medfaith.loaders import images, phantom
from medfaith.tasks.run import answer, build_model, load_tasks
from tests.support.tasks import tiny_models

TASK, ROUNDS = "medfaith_contrabench_chexpert_presence_train", 3
STAGES = ("images", "processor", "generate")


class Size(NamedTuple):
    """Size of a model: layers of its text and vision models, and largest number of pixels of an image."""

    text: dict[str, int]
    vision: dict[str, Any]
    max_pixels: int


SIZES = {
    "small": Size(
        {"hidden_size": 512, "intermediate_size": 2048, "num_hidden_layers": 4, "num_attention_heads": 8,
         "num_key_value_heads": 4},
        {"depth": 4, "hidden_size": 256, "intermediate_size": 1024, "num_heads": 4, "fullatt_block_indexes": [3],
         "window_size": 112},
        224 * 224,
    ),
    "7b": Size(
        {"hidden_size": 3584, "intermediate_size": 18944, "num_hidden_layers": 28, "num_attention_heads": 28,
         "num_key_value_heads": 4, "vocab_size": 152064},
        {"depth": 32, "hidden_size": 1280, "intermediate_size": 3420, "num_heads": 16,
         "fullatt_block_indexes": [7, 15, 23, 31], "window_size": 112},
        1280 * 28 * 28,
    ),
}  # fmt: skip


def save_model(folder: Path, size: Size, device: str) -> Path:
    """Save the tests' Qwen2.5-VL with other layers and larger images, in bfloat16 on a GPU."""
    tiny_models.save_qwen2_5_vl(folder)
    config: Any = transformers.AutoConfig.from_pretrained(folder)
    for section, changes in ((config.text_config, size.text), (config.vision_config, size.vision)):
        for name, value in changes.items():
            setattr(section, name, value)
    width = size.text["hidden_size"] // size.text["num_attention_heads"]
    config.vision_config.out_hidden_size = size.text["hidden_size"]
    # A quarter of a head's half for time, the rest in equal parts for height and width.
    config.text_config.rope_parameters["mrope_section"] = [width // 8, 3 * width // 16, 3 * width // 16]
    config.text_config.layer_types = ["full_attention"] * size.text["num_hidden_layers"]
    processor: Any = transformers.AutoProcessor.from_pretrained(folder)
    processor.image_processor.size = {"shortest_edge": 56 * 56, "longest_edge": size.max_pixels}
    processor.tokenizer.model_max_length = config.text_config.max_position_embeddings = 32768
    torch.manual_seed(0)
    with torch.device(device):
        model: Any = transformers.Qwen2_5_VLForConditionalGeneration(config)
    model.to(_choose_dtype(device)).save_pretrained(folder)
    processor.save_pretrained(folder)
    return folder


def _choose_dtype(device: str) -> torch.dtype:
    return torch.float32 if device == "cpu" else torch.bfloat16


def write_rows(folder: Path, side: int) -> dict[str, Any]:
    """Write synthetic chest X-rays with a longer side of `side` pixels, and their questions; return the metadata."""
    roots = phantom.write(folder / "phantom", sources=("chexpert",))
    for path in roots["chexpert"].rglob("*.jpg"):
        with Image.open(path) as picture:
            scale = side / max(picture.size)
            picture.resize((round(picture.width * scale), round(picture.height * scale))).save(path)
    cxr_contrabench.build(roots, folder / "data", configs=["chexpert_presence"])
    return {"data": str(folder / "data"), "roots": {name: str(path) for name, path in roots.items()}}


class Timed(NamedTuple):
    """Times and answers of one run.

    Attributes:
        whole: Seconds of the run.
        answering: Seconds of answering.
        stages: Seconds of answering by stage.
        answers: Answers in the order of the rows.
    """

    whole: float
    answering: float
    stages: dict[str, float]
    answers: list[str]


@contextmanager
def timed(stages: dict[str, float], stage: str) -> Iterator[None]:
    """Add the seconds of a block to its stage."""
    start = time.perf_counter()
    try:
        yield
    finally:
        stages[stage] += time.perf_counter() - start


def _wrap_timing(stages: dict[str, float], stage: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        with timed(stages, stage):
            return function(*args, **kwargs)

    return call


def run(loaded: Any, model: Any, n_rows: int) -> tuple[Timed, list[Instance]]:
    """Run lm-eval once on the first rows; return times, answers and requests."""
    lm, stages, instances = model.answering, defaultdict(float), []

    def generate(requests: list[Instance]) -> list[str]:
        instances.extend(requests)
        with timed(stages, "answering"):
            answers.extend(type(lm).generate_until(lm, requests, disable_tqdm=True))
        return answers

    answers: list[str] = []
    encode, forward = lm.tok_batch_multimodal_encode, lm._model_multimodal_generate
    start = time.perf_counter()
    with (
        patch.object(lm, "generate_until", generate),
        patch.object(lm, "tok_batch_multimodal_encode", _wrap_timing(stages, "processor", encode)),
        patch.object(lm, "_model_multimodal_generate", _wrap_timing(stages, "generate", forward)),
        patch.object(images, "open_image", _wrap_timing(stages, "images", images.open_image)),
    ):
        answer(loaded, model, limit=n_rows)
    return Timed(time.perf_counter() - start, stages.pop("answering"), stages, answers), instances


def run_bare_loop(
    lm: Any, requests: Sequence[Instance], roots: dict[str, Path], batch_size: int, n_tokens: int
) -> Timed:
    """Answer by a hand-written loop, the longest prompts first."""
    model, processor, stages = lm.model, lm.processor, defaultdict(float)
    processor.tokenizer.padding_side = "left"
    prompts, paths = (
        [request.arguments[0] for request in requests],
        [_find_paths(request, roots) for request in requests],
    )
    start = time.perf_counter()
    lengths = [len(processor.tokenizer(prompt)["input_ids"]) for prompt in prompts]
    order = sorted(range(len(requests)), key=lambda place: (-lengths[place], prompts[place]))
    answers = [""] * len(requests)
    for start_row in range(0, len(order), batch_size):
        places = order[start_row : start_row + batch_size]
        with timed(stages, "images"):
            pictures = [[Image.open(path).convert("RGB") for path in paths[place]] for place in places]
        with timed(stages, "processor"):
            texts = [prompts[place] for place in places]
            inputs = processor(images=pictures, text=texts, padding=True, return_tensors="pt")
            inputs = inputs.to(model.device, model.dtype)
        with timed(stages, "generate"), torch.no_grad():
            generation = {"max_new_tokens": n_tokens, "min_new_tokens": n_tokens, "do_sample": False}
            tokens = model.generate(**inputs, **generation)[:, inputs["input_ids"].shape[1] :].tolist()
        for place, text in zip(places, processor.batch_decode(tokens, skip_special_tokens=True), strict=True):
            answers[place] = text
    seconds = time.perf_counter() - start
    return Timed(seconds, seconds, stages, answers)


def _find_paths(request: Instance, roots: dict[str, Path]) -> list[Path]:
    references = (word.partition(":") for word in str(request.arguments[2]["visual"]).split())
    return [images.locate({"source": source, "key": key}, roots) for source, _, key in references]


def measure(arguments: argparse.Namespace, folder: Path) -> dict[str, list[Timed]]:
    """Run each way `ROUNDS` times in turn; require the same answers."""
    metadata = write_rows(folder, arguments.side)
    pretrained = save_model(folder / "model", SIZES[arguments.size], arguments.device)
    loaded = load_tasks(TASK, metadata)
    options = [
        "--model_args",
        f"pretrained={pretrained},dtype={str(_choose_dtype(arguments.device)).removeprefix('torch.')}",
    ]
    options += ["--apply_chat_template", "--batch_size", str(arguments.batch_size), "--device", arguments.device]
    generation = {"max_gen_toks": arguments.tokens, "min_new_tokens": arguments.tokens}
    models, roots = {}, {name: Path(path) for name, path in metadata["roots"].items()}
    for name in ("hf-multimodal", "medfaith-hf-vlm"):
        model = build_model(["--model", name, *options], [TASK], metadata)
        models[name] = replace(model, generation=generation)
    results_by_name: dict[str, list[Timed]] = {name: [] for name in ("bare loop", *models)}
    requests = []
    for _ in range(ROUNDS):
        for name, model in models.items():
            result, requests = run(loaded, model, arguments.rows)
            results_by_name[name].append(result)
        lm = models["medfaith-hf-vlm"].answering
        results_by_name["bare loop"].append(run_bare_loop(lm, requests, roots, arguments.batch_size, arguments.tokens))
    assert len({tuple(result.answers) for results in results_by_name.values() for result in results}) == 1, (
        "other answers"
    )
    return results_by_name


def show(results_by_name: dict[str, list[Timed]], n_rows: int) -> None:
    """Print the best round of each way."""
    best = {name: min(results, key=lambda result: result.answering) for name, results in results_by_name.items()}
    ideal = best["bare loop"].answering
    stages = "".join(f"{stage + ' s':>13}" for stage in (*STAGES, "rest"))
    print(f"{'':16}{'answers/s':>10}{'of bare':>9}{stages}{'before, after s':>17}")
    for name, result in best.items():
        other_seconds = result.answering - sum(result.stages.values())
        cells = "".join(f"{seconds:13.2f}" for seconds in (*(result.stages[stage] for stage in STAGES), other_seconds))
        share, around = ideal / result.answering, result.whole - result.answering
        print(f"{name:16}{n_rows / result.answering:10.2f}{share:9.3f}{cells}{around:17.2f}")


def main() -> None:
    """Parse the arguments, measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=tuple(SIZES), default="small", help="of the model (default: %(default)s)")
    parser.add_argument("--device", default="cpu", help="cpu, or cuda (default: %(default)s)")
    parser.add_argument("--rows", type=int, default=48, help="rows to ask, at most 173 (default: %(default)s)")
    parser.add_argument("--batch-size", type=int, default=8, help="rows at a time (default: %(default)s)")
    parser.add_argument("--tokens", type=int, default=16, help="tokens of each answer (default: %(default)s)")
    parser.add_argument("--side", type=int, default=390, help="pixels of an image's longer side (default: %(default)s)")
    args = parser.parse_args()
    logging.disable(logging.WARNING)
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    with tempfile.TemporaryDirectory() as folder:
        results = measure(args, Path(folder))
    print(f"{args.rows} rows in batches of {args.batch_size}, {args.tokens} tokens an answer; best of {ROUNDS}")
    show(results, args.rows)


if __name__ == "__main__":
    main()
