"""Time that `medfaith-hf-vlm` saves if it encodes the images once per context when it scores options.

    uv run python -m benchmarks.option_scores

The model is a random LLaVA on one core. Its vision encoder (224 x 224 pixels, 256 patches) is larger than its language
model. Three continuations per context are the options of an option-score task; seven are these options and the texts of
the concept-only difference. With reuse, the requests are lm-eval's own. Without reuse, the request of each option has
its own list of images, which are opened, preprocessed and encoded again. The saving grows with the vision encoder's
share of the work. This share is large here, and small in a model with billions of language weights. Both versions are
measured alternately, and the output is the ratio of their best times.
"""

from __future__ import annotations

import logging
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from lm_eval.api.instance import Instance
from PIL import Image

from medfaith.tasks.models.vlm.hf_vlm import HFVisionLM
from tests.support.tasks import tiny_models

CONTEXTS, ROUNDS, BATCH_SIZE = 4, 3, 8
PROMPT = "<image>\nWhich of the following findings is present?\nA. Edema\nB. No edema\nC. Fracture\nANSWER:"
TEXTS = [" Edema", " No edema", " Fracture", " A.", " B. No", " A. Edema", " B. No edema"]


def save_model(folder: Path) -> Path:
    """Save the tests' LLaVA with more and larger layers and larger images."""
    tiny_models.save_llava(folder)
    config: Any = transformers.AutoConfig.from_pretrained(folder)
    for section, sizes in (
        (config.vision_config, {"hidden_size": 384, "intermediate_size": 1536, "num_hidden_layers": 7}),
        (config.text_config, {"hidden_size": 256, "intermediate_size": 1024, "num_hidden_layers": 4}),
    ):
        for name, size in sizes.items():
            setattr(section, name, size)
    config.vision_config.image_size = 224
    config.text_config.head_dim = config.text_config.hidden_size // config.text_config.num_attention_heads
    processor: Any = transformers.AutoProcessor.from_pretrained(folder)
    processor.image_processor.size = {"shortest_edge": 224}
    processor.image_processor.crop_size = {"height": 224, "width": 224}
    torch.manual_seed(0)
    transformers.LlavaForConditionalGeneration(config).save_pretrained(folder)
    processor.save_pretrained(folder)
    return folder


def make_requests(n_options: int, *, reuse: bool) -> list[Instance]:
    """Make requests that score `n_options` options for each context; without reuse, each has its own images."""
    rng = np.random.default_rng(0)
    pictures = [Image.fromarray(rng.integers(0, 256, (320, 390, 3), dtype=np.uint8)) for _ in range(CONTEXTS)]
    instances = []
    for number, picture in enumerate(pictures):
        images = [picture]
        for i, text in enumerate(TEXTS[:n_options]):
            visual = {"visual": images if reuse else [picture]}
            instances.append(
                Instance("loglikelihood", {"id": str(number)}, (PROMPT, text, visual), i, ("t", number, 1))
            )
    return instances


def measure(lm: Any, n_options: int) -> tuple[float, float, float]:
    """Measure seconds with reuse, seconds without, and the largest difference of a score in nats."""
    seconds: dict[bool, list[float]] = {True: [], False: []}
    scores: dict[bool, list[float]] = {}
    for _ in range(ROUNDS):
        for reuse in (True, False):
            requested = make_requests(n_options, reuse=reuse)
            start = time.perf_counter()
            scores[reuse] = [score for score, _ in lm.loglikelihood(requested, disable_tqdm=True)]
            seconds[reuse].append(time.perf_counter() - start)
    difference = float(np.abs(np.subtract(scores[True], scores[False])).max())
    return min(seconds[True]), min(seconds[False]), difference


def main() -> None:
    """Print the seconds with and without reuse."""
    torch.set_num_threads(1)
    logging.disable(logging.WARNING)
    transformers.utils.logging.disable_progress_bar()
    with tempfile.TemporaryDirectory() as folder:
        lm: Any = HFVisionLM(str(save_model(Path(folder))), dtype="float32", device="cpu", batch_size=BATCH_SIZE)
        modules = {"vision": lm.model.base_model.vision_tower, "language": lm.model.base_model.language_model}
        sizes = ", ".join(f"{name} {sum(p.numel() for p in m.parameters()) / 1e6:.1f} M" for name, m in modules.items())
        print(f"weights: {sizes}; {CONTEXTS} contexts, batches of {BATCH_SIZE}, best of {ROUNDS}")
        print(f"{'continuations':14}{'reuse s':>9}{'again s':>9}{'again / reuse':>15}{'largest difference, nats':>26}")
        for n_options in (3, 7):
            reuse, without_reuse, difference = measure(lm, n_options)
            print(f"{n_options:<14}{reuse:9.2f}{without_reuse:9.2f}{without_reuse / reuse:15.2f}{difference:26.1e}")


if __name__ == "__main__":
    main()
