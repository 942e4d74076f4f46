"""Training of LobA by transformers' Trainer; a killed one goes on from its last checkpoint."""

from __future__ import annotations

import hashlib
import json
import math
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
import transformers

from medfaith.loaders.errors import InputError
from medfaith.loaders.whole import whole_file, whole_folder

from .losses import objective
from .model import Loba
from .rows import Examples

RECORD, ARGUMENTS = "record.json", "arguments.json"
LIBRARIES = ("medfaith", "peft", "torch", "transformers")
PARTS = ("text", "bce", "dice")


@dataclass(frozen=True)
class Options:
    """weight: lambda of equation 4, which the paper does not print; 1 is ours.

    lr: of AdamW; the paper's range is not printed either. epochs: passes over the rows; not used where `steps` is
    given. batch: rows of a step on the device, times `accumulate`. warmup: steps. save_every: steps between
    checkpoints. bf16: mixed precision.
    """

    weight: float = 1.0
    lr: float = 2e-4
    epochs: float = 1.0
    steps: int | None = None
    batch: int = 4
    accumulate: int = 1
    warmup: int = 0
    save_every: int = 500
    log_every: int = 50
    workers: int = 0
    bf16: bool = False
    seed: int = 0


class LobaTrainer(transformers.Trainer):
    """The objective of equation 4, whose parts the log has beside it, and checkpoints of what is trained."""

    def __init__(self, *, weight: float, **given: Any) -> None:
        super().__init__(**given)
        self.model_accepts_loss_kwargs = False  # each step's loss is a mean, so accumulated ones have to be divided
        self._weight, self._sums, self._n = weight, dict.fromkeys(PARTS, 0.0), 0

    def compute_loss(self, model: Any, inputs: Mapping[str, Any], return_outputs: bool = False, **_: Any) -> Any:
        given = dict(inputs)
        masks = given.pop("masks")
        output = model(**given)
        loss = objective(output.text, output.logits, masks, self._weight)
        if not math.isfinite(float(loss.total.detach())):
            found = f"the loss is no number in step {self.state.global_step + 1}"
            raise InputError(f"a learning rate of {self.args.learning_rate:g}", found, action="choose a lower one")
        for name in PARTS:
            self._sums[name] += float(getattr(loss, name).detach())
        self._n += 1
        return (loss.total, output) if return_outputs else loss.total

    def log(self, logs: dict[str, float], *given: Any, **more: Any) -> None:
        if "loss" in logs and self._n:
            logs = logs | {name: total / self._n for name, total in self._sums.items()}
            self._sums, self._n = dict.fromkeys(PARTS, 0.0), 0
        super().log(logs, *given, **more)

    def _save(self, output_dir: str | None = None, state_dict: dict | None = None) -> None:
        folder = Path(str(output_dir))
        folder.mkdir(parents=True, exist_ok=True)
        _trained(self.model).save(folder)

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: Any = None) -> None:
        _trained(self.model).restore(Path(resume_from_checkpoint))


def train(
    loba: Loba,
    examples: Examples,
    out: Path,
    options: Options,
    about: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Trains the model in place, and writes it and the record of its training, which is returned, into the folder out.

    Checkpoints lie beside it, in `<out>.checkpoints`, until the training has ended. What finds some there goes on from
    the last whole one; on the CPU it ends as a training that was never killed.

    Args:
        loba: of `model.start`.
        about: what else the record is to name, such as the data; no place on this machine.

    Raises:
        InputError: no rows; checkpoints of a training with other arguments or rows; a loss that is no number.
    """
    ids = examples.ids
    if not ids:
        raise InputError("the rows", "are none", action="choose another split or a higher limit")
    arguments = {**(about or {}), **loba.about, **asdict(options), "rows": {"n": len(ids), "sha256": digest(ids)}}
    checkpoints = out.with_name(f"{out.name}.checkpoints")
    _claim(checkpoints, arguments)
    trainer = LobaTrainer(
        weight=options.weight,
        model=loba,
        args=_arguments(checkpoints, options, loba.device),
        train_dataset=examples,
        data_collator=loba.encoder,
    )
    trainer.remove_callback(transformers.PrinterCallback)
    trainer.train(resume_from_checkpoint=_last_whole(checkpoints))
    losses = [{k: log[k] for k in ("step", "loss", *PARTS)} for log in trainer.state.log_history if "loss" in log]
    record = {**arguments, "steps": trainer.state.global_step, "losses": losses}
    record |= {"versions": {name: version(name) for name in LIBRARIES}}
    with whole_folder(out) as partial:
        loba.save(partial)
        (partial / RECORD).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    shutil.rmtree(checkpoints)
    loba.eval()
    return record


def digest(ids: Sequence[str]) -> str:
    """The SHA-256 of the sorted ids, one a line."""
    return hashlib.sha256("".join(f"{one}\n" for one in sorted(ids)).encode()).hexdigest()


def _arguments(folder: Path, options: Options, device: torch.device) -> transformers.TrainingArguments:
    return transformers.TrainingArguments(
        output_dir=str(folder),
        learning_rate=options.lr,
        num_train_epochs=options.epochs,
        max_steps=options.steps or -1,
        per_device_train_batch_size=options.batch,
        gradient_accumulation_steps=options.accumulate,
        warmup_steps=options.warmup,
        save_steps=options.save_every,
        save_total_limit=2,
        logging_steps=options.log_every,
        logging_nan_inf_filter=False,
        dataloader_num_workers=options.workers,
        bf16=options.bf16,
        seed=options.seed,
        use_cpu=device.type == "cpu",
        report_to="none",
        remove_unused_columns=False,
        dataloader_pin_memory=torch.cuda.is_available(),
        disable_tqdm=not sys.stderr.isatty(),
    )


def _claim(checkpoints: Path, arguments: Mapping[str, Any]) -> None:
    """Raises InputError where the folder is of a training with other arguments; else it is this one's."""
    file = checkpoints / ARGUMENTS
    if file.exists():
        before = json.loads(file.read_text(encoding="utf-8"))
        if other := [name for name in {**before, **arguments} if before.get(name) != arguments.get(name)]:
            found = f"is of a training with another {', '.join(sorted(other))}"
            raise InputError(checkpoints, found, action="train with the same arguments, or remove this folder")
        return
    with whole_file(file) as partial:
        partial.write_text(json.dumps(arguments, indent=1) + "\n", encoding="utf-8")


def _last_whole(checkpoints: Path) -> str | None:
    """The checkpoint of the last step whose state, which is written last, can be read."""
    by_step = {int(path.name.rpartition("-")[2]): path for path in checkpoints.glob("checkpoint-*")}
    for _, path in sorted(by_step.items(), reverse=True):
        try:
            json.loads((path / "trainer_state.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        return str(path)
    return None


def _trained(model: Any) -> Loba:
    return model
