"""Training of LobA by transformers' Trainer; a killed one goes on from its last checkpoint."""

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

from ..checkpoints import ShowProgress, claim, digest, last_whole, remove, require_finite, trainer_arguments, versions
from ..settings import Settings
from .losses import objective
from .rows import Examples

RECORD = "record.json"
PARTS = ("text", "bce", "dice")


@dataclass(frozen=True)
class Options(Settings):
    """weight: lambda of equation 4, which the paper does not print; 1 is ours."""

    weight: float = 1.0


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
    with atomic_folder(out) as partial:  # from here on a second training of the same name is refused
        claim(checkpoints, arguments)
        trainer = LobaTrainer(
            weight=options.weight,
            model=loba,
            args=trainer_arguments(checkpoints, options, device=loba.device.type),
            train_dataset=examples,
            data_collator=loba.encoder,
            callbacks=[ShowProgress()],
        )
        trainer.remove_callback(transformers.PrinterCallback)
        done = trainer.train(resume_from_checkpoint=last_whole(checkpoints))
        require_finite(loba, done.training_loss, options.lr)
        losses = [{k: log[k] for k in ("step", "loss", *PARTS)} for log in trainer.state.log_history if "loss" in log]
        record = {**arguments, "steps": trainer.state.global_step, "losses": losses}
        record |= {"versions": versions()}
        loba.save(partial)
        (partial / RECORD).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    remove(checkpoints)
    loba.eval()
    return record


def _trained(model: Any) -> Loba:
    return model
