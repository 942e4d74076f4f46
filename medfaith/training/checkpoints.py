"""Helpers for trainings with transformers' Trainer: arguments, progress, checkpoints and resuming."""

from __future__ import annotations

import hashlib
import json
import math
import shutil
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
import transformers

from medfaith.loaders import json_text
from medfaith.loaders.atomic import atomic_file
from medfaith.loaders.errors import InputError
from medfaith.loaders.progress import Progress

from .settings import Settings

ARGUMENTS = "arguments.json"
LIBRARIES = ("medfaith", "peft", "torch", "transformers")


def build_trainer_arguments(folder: Path, settings: Settings, *, device: str = "") -> transformers.TrainingArguments:
    """Build the arguments of transformers' Trainer.

    Args:
        folder: The folder of checkpoints.
        settings: The settings of the training.
        device: "cpu" to ignore a GPU.

    Returns:
        The arguments.
    """
    return transformers.TrainingArguments(
        output_dir=str(folder),
        learning_rate=settings.lr,
        num_train_epochs=settings.epochs,
        max_steps=settings.steps or -1,
        per_device_train_batch_size=settings.batch,
        gradient_accumulation_steps=settings.accumulate,
        warmup_steps=settings.warmup,
        save_steps=settings.save_every,
        save_total_limit=2,
        logging_steps=settings.log_every,
        logging_first_step=True,
        logging_nan_inf_filter=False,
        dataloader_num_workers=settings.workers,
        bf16=settings.bf16,
        seed=settings.seed,
        use_cpu=device == "cpu",
        report_to="none",
        remove_unused_columns=False,
        dataloader_pin_memory=torch.cuda.is_available() and device != "cpu",
        disable_tqdm=True,  # `ShowProgress` shows the progress
    )


class ShowProgress(transformers.TrainerCallback):
    """A callback that shows the steps of a training and its last loss. transformers' own also prints to stdout."""

    _bar: Progress

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Open the progress bar."""
        is_main, total = state.is_world_process_zero, state.max_steps
        self._bar = Progress(title="training", total=total, unit="steps", done=state.global_step, quiet=not is_main)

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Advance the progress bar."""
        self._bar.update()

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, float] | None = None, **_: Any) -> None:
        """Show the loss."""
        if "loss" in (logs or {}):
            self._bar.set_postfix(loss=(logs or {})["loss"], refresh=False)

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Close the progress bar."""
        self._bar.close()


def open_checkpoints(checkpoints: Path, arguments: Mapping[str, object]) -> None:
    """Create the folder of checkpoints, or require that its checkpoints are of a training with the same arguments.

    Args:
        checkpoints: The folder.
        arguments: The arguments of the training.

    Raises:
        InputError: The checkpoints are of a training with other arguments.
    """
    file = checkpoints / ARGUMENTS
    if file.exists() and any(path.name != ARGUMENTS for path in checkpoints.iterdir()):
        expected, action = "the arguments of a training", "remove this folder, and train from the start"
        previous = json_text.read(file, expected=expected, action=action)
        if not isinstance(previous, dict):
            raise InputError(file, f"holds a {type(previous).__name__}", expected=expected, action=action)
        if changed := [name for name in {**previous, **arguments} if previous.get(name) != arguments.get(name)]:
            problem = f"is of a training with another {', '.join(sorted(changed))}"
            raise InputError(checkpoints, problem, action="train with the same arguments, or remove this folder")
        return
    checkpoints.mkdir(parents=True, exist_ok=True)
    with atomic_file(file) as partial:
        partial.write_text(json.dumps(arguments, indent=1) + "\n", encoding="utf-8")


def find_last_complete(checkpoints: Path) -> str | None:
    """Find the last complete checkpoint. Its state is written last.

    Args:
        checkpoints: The folder of checkpoints.

    Returns:
        The folder of the checkpoint, or None if there is none.
    """
    steps_by_path = {path: path.name.rpartition("-")[2] for path in checkpoints.glob("checkpoint-*")}
    by_step = {int(step): path for path, step in steps_by_path.items() if step.isdecimal()}
    for _, path in sorted(by_step.items(), reverse=True):
        try:
            json_text.parse((path / "trainer_state.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        return str(path)
    return None


def remove(checkpoints: Path) -> None:
    """Remove the folder of checkpoints. If the process is killed, no checkpoint counts as complete.

    Args:
        checkpoints: The folder.
    """
    for path in checkpoints.glob("checkpoint-*/trainer_state.json"):
        path.unlink()
    shutil.rmtree(checkpoints)


def require_finite(model: torch.nn.Module, mean_loss: float, lr: float) -> None:
    """Require a finite mean loss and finite trained weights.

    Args:
        model: The trained model.
        mean_loss: The mean loss of the training.
        lr: The learning rate, for the message.

    Raises:
        InputError: The loss or a weight is not finite.
    """
    trained = (weight for weight in model.parameters() if weight.requires_grad)
    if not (math.isfinite(mean_loss) and all(bool(weight.isfinite().all()) for weight in trained)):
        problem = "led to a loss, or to weights, that are no numbers"
        raise InputError(f"a learning rate of {lr:g}", problem, action="choose a lower one")


def compute_digest(ids: Sequence[str]) -> str:
    """Compute the SHA-256 of the sorted ids, one a line.

    Args:
        ids: The ids.

    Returns:
        The hexadecimal digest.
    """
    return hashlib.sha256("".join(f"{row_id}\n" for row_id in sorted(ids)).encode()).hexdigest()


def read_versions() -> dict[str, str]:
    """Read the versions of the libraries that a training depends on."""
    return {name: version(name) for name in LIBRARIES}
