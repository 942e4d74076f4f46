"""LoRA fine-tuning by transformers' Trainer and peft."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import peft
import torch
import transformers

from medfaith.loaders.atomic import atomic_folder
from medfaith.loaders.errors import InputError
from medfaith.tasks.models.prompt_inputs import Tensors, answer, make_batch, question, append_answer
from medfaith.tasks.models.trainable import find_linear_layers

from ..checkpoints import ShowProgress, claim, digest, last_whole, remove, require_finite, trainer_arguments, versions
from ..settings import Lora, Settings
from .rows import Example, Examples

RECORD = "medfaith.json"
MOST_IDS = 10_000  # that a record names one by one


def adapted(model: Any, given: Lora, seed: int) -> Any:
    """The model with LoRA's matrices, zero at first, on all linear layers of its language model but the last."""
    config = peft.LoraConfig(
        r=given.rank, lora_alpha=given.alpha, lora_dropout=given.dropout, target_modules=find_linear_layers(model),
        task_type="CAUSAL_LM",
    )  # fmt: skip
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return peft.get_peft_model(model, config)


class Collator:
    """Batches of examples, as the model takes them."""

    def __init__(self, processor: Any, config: Any) -> None:
        self._processor, self._config = processor, config

    def __call__(self, examples: list[Example]) -> Tensors:
        tokenizer = self._processor.tokenizer
        padding = tokenizer.eos_token_id if tokenizer.pad_token_id is None else tokenizer.pad_token_id
        rows = [
            append_answer(
                question(self._processor, one.images, one.prompt), answer(self._processor, one.target), self._config
            )
            for one in examples
        ]
        return make_batch(rows, padding)


class _Finite(transformers.TrainerCallback):
    """Ends a training whose loss is no number."""

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, float] | None = None, **_: Any) -> None:
        if not math.isfinite((logs or {}).get("loss", 0.0)):
            found = f"the loss is no number in step {state.global_step}"
            raise InputError(f"a learning rate of {args.learning_rate:g}", found, action="choose a lower one")


def train(
    model: Any, processor: Any, examples: Examples, out: Path, settings: Settings, about: Mapping[str, Any],
    device: str = "",
) -> dict[str, Any]:  # fmt: skip
    """Trains a model, and writes what was trained with a record, which is returned, into the folder `out`.

    These are LoRA's matrices, or the whole model and its processor.

    Checkpoints lie beside it, in `<out>.checkpoints`, until the training has ended. What finds some there goes on from
    the last whole one.

    Args:
        model: of `adapted`, or of `load_vlm`, whose weights are all trained.
        about: what else the record is to name, such as model and data; no place on this machine.
        device: "cpu" or "cuda".

    Raises:
        InputError: no rows; checkpoints of a training with other arguments or rows; a loss that is no number.
    """
    if not examples.ids:
        raise InputError("the rows", "are none", action="choose another source or a higher limit")
    arguments = {**about, **asdict(settings), "rows": {"n": len(examples.ids), "sha256": digest(examples.ids)}}
    checkpoints = out.with_name(f"{out.name}.checkpoints")
    with atomic_folder(out) as partial:  # from here on a second training of the same name is refused
        claim(checkpoints, arguments)
        trainer = transformers.Trainer(
            model=model, args=trainer_arguments(checkpoints, settings, device=device), train_dataset=examples,
            data_collator=Collator(processor, model.config), callbacks=[_Finite(), ShowProgress()],
        )  # fmt: skip
        trainer.remove_callback(transformers.PrinterCallback)
        done = trainer.train(resume_from_checkpoint=last_whole(checkpoints))
        require_finite(model, done.training_loss, settings.lr)
        losses = [{name: log[name] for name in ("step", "loss")} for log in trainer.state.log_history if "loss" in log]
        seen = sorted(examples.ids) if len(examples.ids) <= MOST_IDS else None
        record = {**arguments, "seen": seen, "steps": trainer.state.global_step, "losses": losses}
        record |= {"versions": versions()}
        model.save_pretrained(partial)
        if not isinstance(model, peft.PeftModel):
            processor.save_pretrained(partial)
        (partial / RECORD).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    remove(checkpoints)
    return record
