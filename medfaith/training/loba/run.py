"""The run of `medfaith train loba`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from medfaith.eval import builds_in
from medfaith.tasks.decoding.loba.model import start

from ..device import select_device
from ..settings import Lora
from .rows import Examples
from .train import Options, train


def run(  # noqa: PLR0913 (one for each option of `medfaith train`)
    pretrained: str, sam: str, data: str, roots: Mapping[str, Path], out: Path, *, source: str = "vindr",
    limit: int | None = None, lora: Lora, options: Options, dtype: str = "auto", device: str = "",
    frozen_encoder: bool = True,
) -> dict[str, Any]:  # fmt: skip
    """Train a LobA, write `out`, and return the record. Rows and device are checked before the weights are loaded.

    Args:
        pretrained: The folder or Hub name of the vision-language model.
        sam: The folder or Hub name of the SAM.
        data: As in `tasks.rows.load`.
        roots: As in `tasks.rows.load`.
        out: The output folder.
        source: "vindr" or "mimic".
        limit: The number of rows, taken at equal steps; None for all.
        lora: The settings of LoRA.
        options: The options of the training.
        dtype: The type of the weights.
        device: "cpu", "cuda", or "" for a GPU if there is one.
        frozen_encoder: Whether SAM's image encoder keeps its weights.

    Returns:
        The record of the training, as written to `out`.

    Raises:
        InputError: As in `rows.Examples`, `model.start` and `train.train`; or the GPU is missing.
    """
    device_name = select_device(device)
    rows = Examples(data, source, "train", roots, limit)
    loba = start(pretrained, sam, **asdict(lora), frozen_encoder=frozen_encoder, seed=options.seed, dtype=dtype)
    record_fields = {
        "data": rows.repository, "build": builds_in(data).get(rows.repository), "dtype": dtype, **asdict(lora),
        "frozen_encoder": frozen_encoder,
    }  # fmt: skip
    return train(loba.to(device_name), rows, out, options, record_fields)
