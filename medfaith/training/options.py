"""Options that fine-tunings share, and the values that they give."""

from __future__ import annotations

import argparse
import math
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from medfaith import build_command
from medfaith.builders.options import whole
from medfaith.builders.parallel import MOST_WORKERS
from medfaith.loaders import json_text
from medfaith.loaders.atomic import remove_lock, require_writable
from medfaith.loaders.errors import InputError, MedfaithError

from .recipes import GOLD, SILVER, Options
from .settings import Lora, Settings

SOURCES = ("vindr", "mimic")  # of HEAL-MedVQA
CACHE = 4.0  # GiB


def build_number_parser(expected: str, fits: Callable[[float], bool]) -> Callable[[str], float]:
    """Build a parser of finite numbers for argparse.

    Args:
        expected: The description of valid numbers.
        fits: Returns whether a number is valid.

    Returns:
        The parser, which raises argparse.ArgumentTypeError for an invalid number.
    """

    def parse_number(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not math.isfinite(value) or not fits(value):
            raise argparse.ArgumentTypeError(f"expected {expected}, got {text!r}")
        return value

    return parse_number


def add_rows(job: Any) -> None:
    """Add the options for the model, the rows and the output folder.

    Args:
        job: The parser.
    """
    job.add_argument(
        "--pretrained", required=True, metavar="MODEL", help="folder or Hub name of the model to start from"
    )
    job.add_argument(
        "--data", required=True, metavar="DIR|ORG", help="folder that medfaith build wrote, or organisation on the Hub"
    )
    build_command.root_argument(job)
    job.add_argument(
        "--out", required=True, type=Path, metavar="DIR", help="new folder for the trained weights and the record"
    )
    job.add_argument(
        "--source", choices=SOURCES, default=SOURCES[0],
        help="source of the images of HEAL-MedVQA (default: %(default)s)",
    )  # fmt: skip
    job.add_argument(
        "--limit",
        type=whole(above=0),
        metavar="N",
        help="learn from only N rows, sampled at equal steps (default: all)",
    )


def add_sentences(job: Any) -> None:
    """Add the options for the sentences of That's the Wrong Lung! and the checkpoint.

    Args:
        job: The parser.
    """
    job.add_argument(
        "--data", required=True, metavar="DIR|ORG", help="folder that medfaith build wrote, or organisation on the Hub"
    )
    build_command.root_argument(job)
    job.add_argument(
        "--config",
        default=GOLD,
        choices=(GOLD, SILVER),
        help="sentences to train on; for silver, run medfaith build wrong-lung --config silver first "
        "(default: %(default)s)",
    )
    job.add_argument("--out", required=True, type=Path, metavar="FILE", help="checkpoint to write (.ckpt)")


def add_rounds(job: Any, defaults: Options, epochs_help: str) -> None:
    """Add the options for the rounds of a training on sentences.

    Args:
        job: The parser.
        defaults: The defaults.
        epochs_help: The help of --epochs.
    """
    job.add_argument(
        "--seed",
        type=whole(above=-1),
        default=0,
        metavar="N",
        help="seed of the random weights and of all random choices (default: %(default)s)",
    )
    job.add_argument(
        "--epochs",
        type=whole(above=0),
        metavar="N",
        help=epochs_help,
    )
    job.add_argument(
        "--batch-size",
        type=whole(above=1),
        default=defaults.batch_size,
        metavar="N",
        help="number of images in a batch (default: %(default)s)",
    )
    job.add_argument(
        "--lr",
        type=build_number_parser("a positive number", lambda value: value > 0),
        default=defaults.lr,
        metavar="NUMBER",
        help="learning rate of Adam (default: %(default)s)",
    )
    job.add_argument(
        "--device", default=defaults.device, metavar="DEVICE", help="device: cpu, cuda, ... (default: %(default)s)"
    )
    job.add_argument(
        "--limit", type=whole(above=0), metavar="N", help="use only the first N sentences of each split (default: all)"
    )
    job.add_argument(
        "--workers",
        type=whole(above=0, most=MOST_WORKERS),
        default=4,
        metavar="N",
        help="number of images to open at a time (default: %(default)s)",
    )
    job.add_argument(
        "--image-cache",
        type=build_number_parser("a number of GiB, 0 or more", lambda value: value >= 0),
        default=CACHE,
        metavar="GIB",
        help="memory for images; those of silver take 12 GiB, and images that do not fit are opened again in each "
        "epoch (default: %(default)s)",
    )


def check_checkpoint(out: Path) -> None:
    """Require that a checkpoint can be written.

    Args:
        out: The checkpoint.

    Raises:
        InputError: It is a folder, or its parent is missing.
        OSError: A file cannot be created next to it.
    """
    if not out.parent.is_dir() or out.is_dir():
        raise InputError(
            f"--out {out}",
            "is not a file in a folder that exists",
            action="make the folder, or name another file",
        )
    require_writable(out.parent)


def add_settings(job: Any) -> None:
    """Add the options for the settings of the training.

    Args:
        job: The parser.
    """
    settings = Settings()
    job.add_argument(
        "--lr", type=build_number_parser("a positive number", lambda value: value > 0), default=settings.lr,
        metavar="NUMBER",
        help="learning rate of AdamW; the papers print none (default: %(default)s)",
    )  # fmt: skip
    job.add_argument(
        "--epochs", type=build_number_parser("a positive number", lambda value: value > 0), default=settings.epochs,
        metavar="NUMBER",
        help="passes over all rows; may be a fraction (default: %(default)s)",
    )  # fmt: skip
    job.add_argument(
        "--batch-size",
        type=whole(above=0),
        default=settings.batch,
        metavar="N",
        help="number of rows in a batch (default: %(default)s)",
    )
    job.add_argument(
        "--accumulate", type=whole(above=0), default=settings.accumulate, metavar="N",
        help="number of batches in an optimizer step (default: %(default)s)",
    )  # fmt: skip
    job.add_argument(
        "--save-every", type=whole(above=0), default=settings.save_every, metavar="N",
        help="write a checkpoint every N steps (default: %(default)s)",
    )  # fmt: skip
    job.add_argument(
        "--dtype", default="auto", choices=("auto", "float32", "bfloat16", "float16"),
        help="data type of the model's weights (default: %(default)s, the type in which they are stored)",
    )  # fmt: skip
    job.add_argument(
        "--device", default="", choices=("", "cpu", "cuda"), metavar="DEVICE",
        help="device: cpu or cuda (default: the GPU if there is one)",
    )  # fmt: skip
    job.add_argument(
        "--seed", type=whole(above=-1), default=0, metavar="N", help="seed of all random choices (default: %(default)s)"
    )


def add_shape(job: Any) -> None:
    """Add the options for LoRA.

    Args:
        job: The parser.
    """
    lora = Lora()
    job.add_argument(
        "--rank", type=whole(above=0), default=lora.rank, metavar="N",
        help="rank of LoRA's matrices; the paper of CXR-ContraBench uses 16 (default: %(default)s)",
    )  # fmt: skip
    job.add_argument(
        "--alpha", type=whole(above=0), default=lora.alpha, metavar="N",
        help="LoRA's alpha: the product of the matrices is scaled by alpha / rank (default: %(default)s)",
    )  # fmt: skip
    job.add_argument(
        "--dropout", type=build_number_parser("a number from 0 to less than 1", lambda value: 0 <= value < 1),
        default=lora.dropout, metavar="NUMBER", help="dropout rate of LoRA's inputs (default: %(default)s)",
    )  # fmt: skip


def read_settings(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the arguments of `Settings`.

    Args:
        arguments: The parsed options.

    Returns:
        Name of the field -> value.
    """
    return {
        "lr": arguments.lr, "epochs": arguments.epochs, "batch": arguments.batch_size, "seed": arguments.seed,
        "accumulate": arguments.accumulate, "save_every": arguments.save_every,
    }  # fmt: skip


def read_lora(arguments: argparse.Namespace) -> Lora:
    """Return the settings of LoRA.

    Args:
        arguments: The parsed options.

    Returns:
        The settings.
    """
    return Lora(arguments.rank, arguments.alpha, arguments.dropout)


def format_summary(out: Path, record: Mapping[str, Any]) -> str:
    """Format the last message of a training.

    Args:
        out: The output folder.
        record: The record of the training.

    Returns:
        The message: folder, steps, rows, first and last loss.
    """
    first_loss, last_loss = (record["losses"][index]["loss"] for index in (0, -1))
    extent = f"{record['steps']:,} steps on {record['rows']['n']:,} rows"
    return f"{out}: trained in {extent}; loss {first_loss:.3f} in the first step, {last_loss:.3f} when last logged"


def build_install_error(error: ImportError) -> MedfaithError:
    """Build the error for missing libraries.

    Args:
        error: The error of the import.

    Returns:
        The error, to raise.
    """
    needs = f"medfaith train needs torch, transformers and peft ({error})"
    return MedfaithError(f"{needs}\n  what to do: uv pip install 'medfaith[hf]'")


def check_out(out: Path) -> None:
    """Require an output folder that does not exist, in a folder that exists.

    Args:
        out: The output folder.

    Raises:
        InputError: The folder exists, or its parent is missing.
    """
    if out.exists():
        _remove_leftovers(out, out.with_name(f"{out.name}.checkpoints"))
        remove_lock(out.resolve())
        raise InputError(f"--out {out}", "is there already", expected="a new folder", action="name another one")
    if not out.absolute().parent.is_dir():
        raise InputError(f"--out {out}", "is in no folder that exists", action="make the folder above it")


def _remove_leftovers(out: Path, checkpoints: Path) -> None:
    """Remove the checkpoints of the training that wrote `out`, if it was killed while it removed them."""
    states = [*checkpoints.glob("checkpoint-*/trainer_state.json")]  # `checkpoints.remove` removes these first
    try:
        arguments = json_text.parse((checkpoints / "arguments.json").read_bytes()) if states else {}
        record = json_text.parse(next(out.glob("*record.json"), out / "medfaith.json").read_bytes())
        arguments.pop("steps", None)  # requested steps; the record has the completed ones
        ended = all(record.get(name) == value for name, value in arguments.items())
    except (OSError, ValueError, AttributeError):
        return
    if ended and checkpoints.is_dir():
        shutil.rmtree(checkpoints)
