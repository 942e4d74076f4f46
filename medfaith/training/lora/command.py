"""`medfaith train lora`: the arguments. What runs is in run.py, which needs torch."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from medfaith import build
from medfaith.builders.options import whole
from medfaith.loaders.errors import InputError, MedfaithError

from ..numbers import number
from ..settings import Lora, Settings

BENCHMARKS, SOURCES = ("heal", "contrabench"), ("vindr", "mimic")


def add_lora(recipes: Any) -> None:
    """Adds `lora` and `full` to the recipes of `medfaith train`."""
    _add(
        recipes, "lora", "LoRA",
        "Then run medfaith eval --model medfaith-hf-vlm --model_args pretrained=MODEL,peft=trained ...",
    )  # fmt: skip
    _add(
        recipes, "full", "all weights",
        "Then run medfaith eval --model medfaith-hf-vlm --model_args pretrained=trained ...",
    )  # fmt: skip


def _add(recipes: Any, name: str, what: str, then: str) -> None:
    job = recipes.add_parser(
        name,
        help=f"fine-tune any open vision-language model ({what}) on a benchmark's training rows",
        description=f"Fine-tunes a vision-language model ({what}), as the papers do with their baselines (LoRA): on "
        "the training rows of HEAL-MedVQA (section 5), or on the balanced set of CXR-ContraBench (Appendix H). It asks "
        "as the tasks ask, and learns the right answer. The command writes what was trained, and a record of what it "
        "has seen, into FOLDER. A command that was killed goes on from its last checkpoint when it is run again.",
        epilog=f"Example: medfaith train {name} --benchmark heal --pretrained MODEL --data medfaith-data --root "
        f"vindr_cxr=PATH --out trained. {then}",
    )
    job.add_argument("--benchmark", required=True, choices=BENCHMARKS, help="whose training rows the model learns from")
    job.add_argument(
        "--pretrained", required=True, metavar="MODEL", help="folder or Hub name of the model to start from"
    )
    job.add_argument("--data", required=True, help="what medfaith build wrote, or a Hub organisation")
    build.root_argument(job)
    job.add_argument(
        "--out", required=True, type=Path, metavar="FOLDER", help="the folder for what is trained: a new one"
    )
    job.add_argument(
        "--source", choices=SOURCES, default=SOURCES[0],
        help="of --benchmark heal, the source of the images (default: %(default)s)",
    )  # fmt: skip
    job.add_argument(
        "--limit", type=whole(above=0), metavar="N", help="learn from only N rows, taken at equal steps (default: all)"
    )
    settings = Settings()
    if name == "lora":
        _add_shape(job)
    job.add_argument(
        "--lr", type=number("a positive number", lambda value: value > 0), default=settings.lr,
        help="learning rate of AdamW; the papers print none (default: %(default)s)",
    )  # fmt: skip
    job.add_argument(
        "--epochs", type=number("a positive number", lambda value: value > 0), default=settings.epochs,
        help="how often the model sees all rows (default: %(default)s)",
    )  # fmt: skip
    job.add_argument(
        "--batch-size", type=whole(above=0), default=settings.batch, help="rows at a time (default: %(default)s)"
    )
    job.add_argument(
        "--accumulate", type=whole(above=0), default=settings.accumulate,
        help="batches of one step of learning (default: %(default)s)",
    )  # fmt: skip
    job.add_argument(
        "--save-every", type=whole(above=0), default=settings.save_every, metavar="STEPS",
        help="steps from one checkpoint to the next (default: %(default)s)",
    )  # fmt: skip
    job.add_argument(
        "--dtype", default="auto", choices=("auto", "float32", "bfloat16", "float16"),
        help="how the model's own weights are kept (default: %(default)s, as they are stored)",
    )  # fmt: skip
    job.add_argument(
        "--device", default="", choices=("", "cpu", "cuda"), metavar="DEVICE",
        help="where to train: cpu or cuda (default: a GPU where there is one)",
    )  # fmt: skip
    job.add_argument("--seed", type=whole(above=-1), default=0, help="seed of what is drawn (default: %(default)s)")
    job.set_defaults(job=_train)


def _add_shape(job: Any) -> None:
    """The numbers of LoRA itself."""
    lora = Lora()
    job.add_argument(
        "--rank", type=whole(above=0), default=lora.rank,
        help="rank of LoRA's matrices; CXR-ContraBench prints 16 (default: %(default)s)",
    )  # fmt: skip
    job.add_argument(
        "--alpha", type=whole(above=0), default=lora.alpha,
        help="LoRA's alpha: the matrices count alpha / rank times (default: %(default)s)",
    )  # fmt: skip
    job.add_argument(
        "--dropout", type=number("a number from 0 to less than 1", lambda value: 0 <= value < 1), default=lora.dropout,
        help="share of LoRA's inputs that are left out at random (default: %(default)s)",
    )  # fmt: skip


def _train(arguments: argparse.Namespace, _: Sequence[str]) -> int:
    _check_out(arguments.out)
    try:
        from .run import run
    except ImportError as error:
        needs = f"medfaith train needs torch, transformers and peft ({error})"
        raise MedfaithError(f"{needs}\n  what to do: uv pip install 'medfaith[hf]'") from error
    settings = Settings(
        lr=arguments.lr, epochs=arguments.epochs, batch=arguments.batch_size, accumulate=arguments.accumulate,
        save_every=arguments.save_every, seed=arguments.seed,
    )  # fmt: skip
    record = run(
        arguments.benchmark, arguments.pretrained, arguments.data, build.roots(arguments), arguments.out,
        source=arguments.source, limit=arguments.limit, settings=settings, dtype=arguments.dtype,
        lora=Lora(arguments.rank, arguments.alpha, arguments.dropout) if hasattr(arguments, "rank") else None,
        device=arguments.device,
    )  # fmt: skip
    first, last = (record["losses"][place]["loss"] for place in (0, -1))
    print(f"{arguments.out}: trained in {record['steps']:,} steps on {record['rows']['n']:,} rows; loss "
          f"{first:.3f}, at the end {last:.3f}")  # fmt: skip
    return 0


def _check_out(out: Path) -> None:
    if out.exists():
        raise InputError(f"--out {out}", "is there already", expected="a new folder", action="name another one")
    if not out.absolute().parent.is_dir():
        raise InputError(f"--out {out}", "is in no folder that exists", action="make the folder above it")
