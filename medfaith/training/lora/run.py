"""What `medfaith train lora` runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from medfaith.eval import builds_in
from medfaith.tasks.models.contrastive_encoders import strip_folder
from medfaith.tasks.models.trainable import load_vlm

from ..device import chosen
from ..settings import Lora, Settings
from .rows import examples
from .train import adapted, train


def run(
    benchmark: str, pretrained: str, data: str, roots: Mapping[str, Path], out: Path, *, source: str = "vindr",
    limit: int | None = None, settings: Settings, lora: Lora | None, dtype: str = "auto", device: str = "",
) -> dict[str, Any]:  # fmt: skip
    """Trains, writes `out`, and returns the record (`train.train`). Rows and device are looked for before the weights.

    lora: None trains all weights.

    Raises:
        InputError: as `rows.examples`, `load_vlm`, `train.train`; or a GPU that is not there.
    """
    place = chosen(device)
    rows = examples(benchmark, data, roots, source, limit)
    model, processor = load_vlm(pretrained, dtype)
    build = builds_in(data).get(rows.repository)
    about = {
        "benchmark": benchmark, "data": rows.repository, "build": build, "model": strip_folder(pretrained),
        "dtype": dtype, **(asdict(lora) if lora else {}),
    }  # fmt: skip
    learning = adapted(model, lora, settings.seed) if lora else model
    return train(learning, processor, rows, out, settings, about, place)
