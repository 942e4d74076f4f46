"""What trainings by transformers' Trainer share: their settings, and how a killed one goes on."""

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

from medfaith.loaders.atomic import atomic_file
from medfaith.loaders.errors import InputError
from medfaith.loaders.progress import Progress

from .settings import Settings

ARGUMENTS = "arguments.json"
LIBRARIES = ("medfaith", "peft", "torch", "transformers")


def trainer_arguments(folder: Path, given: Settings, *, device: str = "") -> transformers.TrainingArguments:
    """transformers' own of these settings. device: "cpu" keeps off a GPU that is there."""
    return transformers.TrainingArguments(
        output_dir=str(folder),
        learning_rate=given.lr,
        num_train_epochs=given.epochs,
        max_steps=given.steps or -1,
        per_device_train_batch_size=given.batch,
        gradient_accumulation_steps=given.accumulate,
        warmup_steps=given.warmup,
        save_steps=given.save_every,
        save_total_limit=2,
        logging_steps=given.log_every,
        logging_first_step=True,
        logging_nan_inf_filter=False,
        dataloader_num_workers=given.workers,
        bf16=given.bf16,
        seed=given.seed,
        use_cpu=device == "cpu",
        report_to="none",
        remove_unused_columns=False,
        dataloader_pin_memory=torch.cuda.is_available() and device != "cpu",
        disable_tqdm=True,  # `ShowProgress` does that
    )


class ShowProgress(transformers.TrainerCallback):
    """Shows the steps of a training and its last loss; transformers' own would print to stdout, too."""

    _bar: Progress

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        first, total = state.is_world_process_zero, state.max_steps
        self._bar = Progress(title="training", total=total, unit="steps", done=state.global_step, quiet=not first)

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._bar.update()

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, float] | None = None, **_: Any) -> None:
        if "loss" in (logs or {}):
            self._bar.set_postfix(loss=(logs or {})["loss"], refresh=False)

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._bar.close()


def claim(checkpoints: Path, arguments: Mapping[str, object]) -> None:
    """Raises InputError where the folder is of a training with other arguments; else it is this one's."""
    file = checkpoints / ARGUMENTS
    if file.exists():
        before = json.loads(file.read_text(encoding="utf-8"))
        if other := [name for name in {**before, **arguments} if before.get(name) != arguments.get(name)]:
            found = f"is of a training with another {', '.join(sorted(other))}"
            raise InputError(checkpoints, found, action="train with the same arguments, or remove this folder")
        return
    checkpoints.mkdir(parents=True, exist_ok=True)
    with atomic_file(file) as partial:
        partial.write_text(json.dumps(arguments, indent=1) + "\n", encoding="utf-8")


def last_whole(checkpoints: Path) -> str | None:
    """The checkpoint of the last step whose state, which is written last, can be read."""
    by_step = {int(path.name.rpartition("-")[2]): path for path in checkpoints.glob("checkpoint-*")}
    for _, path in sorted(by_step.items(), reverse=True):
        try:
            json.loads((path / "trainer_state.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        return str(path)
    return None


def remove(checkpoints: Path) -> None:
    """Removes the folder. Whoever is killed in here leaves no checkpoint that `last_whole` takes for whole."""
    for path in checkpoints.glob("checkpoint-*/trainer_state.json"):
        path.unlink()
    shutil.rmtree(checkpoints)


def require_finite(model: torch.nn.Module, mean_loss: float, lr: float) -> None:
    """Raises InputError where a training has led astray: its mean loss, or a weight that it changed, is no number."""
    trained = (weight for weight in model.parameters() if weight.requires_grad)
    if not (math.isfinite(mean_loss) and all(bool(weight.isfinite().all()) for weight in trained)):
        found = "led to a loss, or to weights, that are no numbers"
        raise InputError(f"a learning rate of {lr:g}", found, action="choose a lower one")


def digest(ids: Sequence[str]) -> str:
    """The SHA-256 of the sorted ids, one a line."""
    return hashlib.sha256("".join(f"{one}\n" for one in sorted(ids)).encode()).hexdigest()


def versions() -> dict[str, str]:
    """Of the libraries that a training depends on."""
    return {name: version(name) for name in LIBRARIES}
