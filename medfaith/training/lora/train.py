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
from medfaith.tasks.models.vlm.prompt_inputs import Tensors, answer, append_answer, make_batch, question
from medfaith.tasks.models.vlm.trainable import find_linear_layers

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
from ..settings import Lora, Settings
from .rows import Example, Examples

RECORD = "medfaith.json"
MOST_IDS = 10_000  # largest number of ids in a record


def adapted(model: Any, lora: Lora, seed: int) -> Any:
    """Add LoRA's matrices, initially zero, to all linear layers of the language model but the last.

    Args:
        model: The model.
        lora: The settings of LoRA.
        seed: The seed of the matrices.

    Returns:
        The model with the matrices, as peft wraps it.
    """
    config = peft.LoraConfig(
        r=lora.rank, lora_alpha=lora.alpha, lora_dropout=lora.dropout, target_modules=find_linear_layers(model),
        task_type="CAUSAL_LM",
    )  # fmt: skip
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return peft.get_peft_model(model, config)


class Collator:
    """Builds batches of examples as model inputs.

    Args:
        processor: The processor of the model.
        config: The config of the model.
    """

    def __init__(self, processor: Any, config: Any) -> None:
        self._processor, self._config = processor, config

    def __call__(self, examples: list[Example]) -> Tensors:
        """Build a batch."""
        tokenizer = self._processor.tokenizer
        padding = tokenizer.eos_token_id if tokenizer.pad_token_id is None else tokenizer.pad_token_id
        rows = [
            append_answer(
                question(self._processor, example.images, example.prompt),
                answer(self._processor, example.target),
                self._config,
            )
            for example in examples
        ]
        return make_batch(rows, padding)


class _Finite(transformers.TrainerCallback):
    """A callback that stops a training whose loss is not finite."""

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, float] | None = None, **_: Any) -> None:
        """Require a finite loss."""
        if not math.isfinite((logs or {}).get("loss", 0.0)):
            problem = f"the loss is no number in step {state.global_step}"
            raise InputError(f"a learning rate of {args.learning_rate:g}", problem, action="choose a lower one")


def train(
    model: Any, processor: Any, examples: Examples, out: Path, settings: Settings, record_fields: Mapping[str, Any],
    device: str = "",
) -> dict[str, Any]:  # fmt: skip
    """Train a model, and write the trained weights with a record.

    The weights are LoRA's matrices, or all of the model with its processor. Checkpoints are written to
    `<out>.checkpoints` until the training has ended. A later call resumes from the last complete one.

    Args:
        model: The result of `adapted`, or of `load_vlm` to train all weights.
        processor: The processor of the model.
        examples: The examples.
        out: The output folder.
        settings: The settings of the training.
        record_fields: Further fields of the record, such as model and data; no paths.
        device: "cpu" or "cuda".

    Returns:
        The record.

    Raises:
        InputError: There are no rows, the checkpoints belong to a training with other arguments or rows, or the loss is
            not finite.
    """
    if not examples.ids:
        raise InputError("the rows", "are none", action="choose another source or a higher limit")
    arguments = {
        **record_fields,
        **asdict(settings),
        "rows": {"n": len(examples.ids), "sha256": compute_digest(examples.ids)},
    }
    checkpoints = out.with_name(f"{out.name}.checkpoints")
    with atomic_folder(out) as partial:  # locks `out` against a second training
        open_checkpoints(checkpoints, arguments)
        trainer = transformers.Trainer(
            model=model, args=build_trainer_arguments(checkpoints, settings, device=device), train_dataset=examples,
            data_collator=Collator(processor, model.config), callbacks=[_Finite(), ShowProgress()],
        )  # fmt: skip
        trainer.remove_callback(transformers.PrinterCallback)
        done = trainer.train(resume_from_checkpoint=find_last_complete(checkpoints))
        require_finite(model, done.training_loss, settings.lr)
        losses = [{name: log[name] for name in ("step", "loss")} for log in trainer.state.log_history if "loss" in log]
        seen_ids = sorted(examples.ids) if len(examples.ids) <= MOST_IDS else None
        record = {**arguments, "seen": seen_ids, "steps": trainer.state.global_step, "losses": losses}
        record |= {"versions": read_versions()}
        model.save_pretrained(partial)
        if not isinstance(model, peft.PeftModel):
            processor.save_pretrained(partial)
        (partial / RECORD).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    remove(checkpoints)
    return record
