"""Training of LobA by transformers' Trainer. A killed training resumes from its last checkpoint."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import transformers

from medfaith.loaders.atomic import atomic_folder
from medfaith.loaders.errors import InputError
from medfaith.tasks.decoding.loba.model import Loba

from ..checkpoints import (
    ShowProgress,
    build_trainer_arguments,
    compute_digest,
    find_last_complete,
    open_checkpoints,
    read_versions,
    remove,
    require_finite,
)
from ..settings import Settings
from .losses import objective
from .rows import Examples

RECORD = "record.json"
PARTS = ("text", "bce", "dice")


@dataclass(frozen=True)
class Options(Settings):
    """Settings of a training of LobA.

    Attributes:
        weight: Lambda of equation 4, which the paper does not print; 1 is ours.
    """

    weight: float = 1.0


class LobaTrainer(transformers.Trainer):
    """A trainer with the loss of equation 4, whose parts are logged, and checkpoints of the trained weights."""

    def __init__(self, *, weight: float, **arguments: Any) -> None:
        """Create the trainer with the weight of the mask losses and the arguments of transformers' Trainer."""
        super().__init__(**arguments)
        self.model_accepts_loss_kwargs = (
            False  # the loss of each batch is a mean, and accumulated losses must be divided
        )
        self._weight, self._sums, self._n = weight, dict.fromkeys(PARTS, 0.0), 0

    def compute_loss(
        self, model: Any, inputs: Mapping[str, Any], return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        """Compute the loss, and require that it is finite."""
        model_inputs = dict(inputs)
        masks = model_inputs.pop("masks")
        output = model(**model_inputs)
        loss = objective(output.text, output.logits, masks, self._weight)
        if not math.isfinite(float(loss.total.detach())):
            problem = f"the loss is no number in step {self.state.global_step + 1}"
            raise InputError(f"a learning rate of {self.args.learning_rate:g}", problem, action="choose a lower one")
        for name in PARTS:
            self._sums[name] += float(getattr(loss, name).detach())
        self._n += 1
        return (loss.total, output) if return_outputs else loss.total

    def log(self, logs: dict[str, float], *args: Any, **kwargs: Any) -> None:
        """Add the mean parts of the loss to the log."""
        if "loss" in logs and self._n:
            logs = logs | {name: total / self._n for name, total in self._sums.items()}
            self._sums, self._n = dict.fromkeys(PARTS, 0.0), 0
        super().log(logs, *args, **kwargs)

    def _save(self, output_dir: str | None = None, state_dict: dict | None = None) -> None:
        folder = Path(str(output_dir))
        folder.mkdir(parents=True, exist_ok=True)
        _get_loba(self.model).save(folder)

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: Any = None) -> None:
        _get_loba(self.model).restore(Path(resume_from_checkpoint))


def train(
    loba: Loba,
    examples: Examples,
    out: Path,
    options: Options,
    record_fields: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Train the model in place, and write it with the record of its training.

    Checkpoints are written to `<out>.checkpoints` until the training has ended. A later call resumes from the last
    complete one. On the CPU it then gives the same result as an uninterrupted training.

    Args:
        loba: The result of `model.start`.
        examples: The examples.
        out: The output folder.
        options: The options of the training.
        record_fields: Further fields of the record, such as the data; no paths.

    Returns:
        The record.

    Raises:
        InputError: There are no rows, the checkpoints belong to a training with other arguments or rows, or the loss is
            not finite.
    """
    ids = examples.ids
    if not ids:
        raise InputError("the rows", "are none", action="choose another split or a higher limit")
    arguments = {
        **(record_fields or {}),
        **loba.about,
        **asdict(options),
        "rows": {"n": len(ids), "sha256": compute_digest(ids)},
    }
    checkpoints = out.with_name(f"{out.name}.checkpoints")
    with atomic_folder(out) as partial:  # locks `out` against a second training
        open_checkpoints(checkpoints, arguments)
        trainer = LobaTrainer(
            weight=options.weight,
            model=loba,
            args=build_trainer_arguments(checkpoints, options, device=loba.device.type),
            train_dataset=examples,
            data_collator=loba.encoder,
            callbacks=[ShowProgress()],
        )
        trainer.remove_callback(transformers.PrinterCallback)
        done = trainer.train(resume_from_checkpoint=find_last_complete(checkpoints))
        require_finite(loba, done.training_loss, options.lr)
        losses = [{k: log[k] for k in ("step", "loss", *PARTS)} for log in trainer.state.log_history if "loss" in log]
        record = {**arguments, "steps": trainer.state.global_step, "losses": losses}
        record |= {"versions": read_versions()}
        loba.save(partial)
        (partial / RECORD).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    remove(checkpoints)
    loba.eval()
    return record


def _get_loba(model: Any) -> Loba:
    return model
