"""The run of `medfaith train lora`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from medfaith.eval import builds_in
from medfaith.tasks.models.model_names import strip_folder
from medfaith.tasks.models.vlm.trainable import load_vlm

from ..device import select_device
from ..settings import Lora, Settings
from .rows import examples
from .train import adapted, train


def run(  # noqa: PLR0913 (one for each option of `medfaith train`)
    benchmark: str, pretrained: str, data: str, roots: Mapping[str, Path], out: Path, *, source: str = "vindr",
    limit: int | None = None, settings: Settings, lora: Lora | None, dtype: str = "auto", device: str = "",
) -> dict[str, Any]:  # fmt: skip
    """Fine-tune a model, write `out`, and return the record. Rows and device are checked before the weights are loaded.

    Args:
        benchmark: As in `rows.examples`.
        pretrained: The folder or Hub name of the model.
        data: As in `rows.examples`.
        roots: As in `rows.examples`.
        out: The output folder.
        source: As in `rows.examples`.
        limit: As in `rows.examples`.
        settings: The settings of the training.
        lora: The settings of LoRA; None to train all weights.
        dtype: The type of the weights.
        device: "cpu", "cuda", or "" for a GPU if there is one.

    Returns:
        The record of the training, as written to `out`.

    Raises:
        InputError: As in `rows.examples`, `load_vlm` and `train.train`; or the GPU is missing.
    """
    device_name = select_device(device)
    rows = examples(benchmark, data, roots, source, limit)
    model, processor = load_vlm(pretrained, dtype)
    build = builds_in(data).get(rows.repository)
    record_fields = {
        "benchmark": benchmark, "data": rows.repository, "build": build, "model": strip_folder(pretrained),
        "dtype": dtype, **(asdict(lora) if lora else {}),
    }  # fmt: skip
    trainable = adapted(model, lora, settings.seed) if lora else model
    return train(trainable, processor, rows, out, settings, record_fields, device_name)
