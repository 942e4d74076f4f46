"""What `medfaith train loba` runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from medfaith.eval import builds_in
from medfaith.tasks.decoding.loba.model import start

from ..device import chosen
from ..settings import Lora
from .rows import Examples
from .train import Options, train


def run(
    pretrained: str, sam: str, data: str, roots: Mapping[str, Path], out: Path, *, source: str = "vindr",
    limit: int | None = None, lora: Lora, options: Options, dtype: str = "auto", device: str = "",
    frozen_encoder: bool = True,
) -> dict[str, Any]:  # fmt: skip
    """Trains, writes `out`, and returns the record (`train.train`). Rows and device are looked for before the weights.

    Raises:
        InputError: as `rows.Examples`, `model.start`, `train.train`; or a GPU that is not there.
    """
    place = chosen(device)
    rows = Examples(data, source, "train", roots, limit)
    loba = start(pretrained, sam, **asdict(lora), frozen_encoder=frozen_encoder, seed=options.seed, dtype=dtype)
    about = {
        "data": rows.repository, "build": builds_in(data).get(rows.repository), "dtype": dtype, **asdict(lora),
        "frozen_encoder": frozen_encoder,
    }  # fmt: skip
    return train(loba.to(place), rows, out, options, about)
