"""Cost of each decoder in seconds and forward passes, compared with greedy search (HEAL-MedVQA, Table 6).

    uv run python -m benchmarks.decoding [--size 7b --device cuda]

The model is a Qwen2.5-VL with random weights (`benchmarks.throughput`). Every decoder answers the same rows of
HEAL-MedVQA's phantom in the same batches, with the same number of tokens in each answer. The decoders take turns, and
the best of three rounds counts. A contrastive decoder has twice the rows in a forward pass.
"""

from __future__ import annotations

import argparse
import copy
import tempfile
import time
from pathlib import Path
from typing import Any, cast

import torch
from lm_eval.api.instance import Instance

from medfaith.builders import heal_medvqa
from medfaith.loaders import phantom
from medfaith.tasks.decoding import highlight
from medfaith.tasks.decoding.decoders import DECODERS, choose
from medfaith.tasks.models.vlm.hf_vlm import HFVisionLM
from medfaith.tasks.run import load_tasks

from .throughput import SIZES, save_model

TASK, ROUNDS = "medfaith_heal_vindr_closed", 3


def main() -> None:
    """Parse the arguments and measure."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--size", choices=SIZES, default="small", help="of the model (default: %(default)s)")
    parser.add_argument("--device", default="cpu", help="cpu or cuda (default: %(default)s)")
    parser.add_argument("--rows", type=int, default=32, help="how many questions (default: %(default)s)")
    parser.add_argument("--tokens", type=int, default=8, help="of each answer (default: %(default)s)")
    parser.add_argument("--batch-size", type=int, default=8, help="rows of a batch (default: %(default)s)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        measure(Path(folder), arguments)


def measure(folder: Path, arguments: argparse.Namespace) -> None:
    """Print one row for each decoder."""
    roots = phantom.write(folder / "phantom", sources=("vindr_cxr", "vindr_cxr_anatomy"))
    heal_medvqa.build(roots, folder / "data")
    metadata = {"data": str(folder / "data"), "roots": {"vindr_cxr": str(roots["vindr_cxr"])}}
    task: Any = load_tasks(TASK, metadata)["tasks"][TASK]
    docs = [task.test_docs()[number % len(task.test_docs())] for number in range(arguments.rows)]
    place = save_model(folder / "model", SIZES[arguments.size], arguments.device)
    lm: Any = cast(Any, HFVisionLM)(
        str(place), dtype="float32" if arguments.device == "cpu" else "bfloat16", device=arguments.device,
        batch_size=arguments.batch_size, image_string="<|vision_start|><|image_pad|><|vision_end|>",
    )  # fmt: skip
    for encoder in (highlight.VISION, highlight.TEXT):
        highlight.use(lm.model, encoder)
    lm.model.generation_config.eos_token_id = None
    passes = [0]
    lm.model.register_forward_hook(lambda *_: passes.__setitem__(0, passes[0] + 1))
    best: dict[str, tuple[float, int]] = {}
    for _ in range(ROUNDS):
        for name in DECODERS:
            decoded = copy.copy(lm)
            decoded._chosen, decoded._bias = choose(name, {"bias": 1.0} if name == "yes_bias" else {}), {TASK: 1.0}
            passes[0], start = 0, time.perf_counter()
            decoded.generate_until(
                [_make_request(task, doc, number, arguments.tokens) for number, doc in enumerate(docs)], True
            )
            if arguments.device == "cuda":
                torch.cuda.synchronize()
            best[name] = min(best.get(name, (float("inf"), 0)), (time.perf_counter() - start, passes[0]))
    plain, n_plain = best["greedy"]
    print(
        f"{arguments.rows} rows, {arguments.tokens} tokens each, batches of {arguments.batch_size}, "
        f"{arguments.size} on {arguments.device}"
    )
    print(f"{'decoder':20} {'seconds':>8} {'ratio':>6} {'forward passes':>15}")
    for name, (seconds, n) in best.items():
        print(f"{name:20} {seconds:8.2f} {seconds / plain:6.2f} {n / n_plain:15.2f}")


def _make_request(task: Any, doc: Any, number: int, n_tokens: int) -> Instance:
    generation = {"until": [], "do_sample": False, "max_gen_toks": n_tokens}
    arguments = task.doc_to_text(doc), generation, {"visual": doc["images"]}
    return Instance(cast(Any, "generate_until"), dict(doc) | {"id": f"{number}"}, arguments, 0, (TASK, number, 1))


if __name__ == "__main__":
    main()
