"""The rounds of a training, which ends by the validation loss and resumes after its last saved round."""

from __future__ import annotations

import math
import pickle
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

from medfaith.loaders.atomic import atomic_file
from medfaith.loaders.errors import InputError
from medfaith.loaders.progress import Progress

_STATE = "state.pt"


@dataclass
class History:
    """The mean loss of each round."""

    train: list[float] = field(default_factory=list)
    validation: list[float] = field(default_factory=list)


class Schedule(NamedTuple):
    """When a training ends, and when it saves its state.

    Attributes:
        n_rounds: The largest number of rounds.
        patience: The number of rounds without a lower validation loss before the training stops.
        unit: Name of one round.
        save_every: Rounds between saved states.
    """

    n_rounds: int
    patience: int
    unit: str = "epoch"
    save_every: int = 1


def train_rounds(
    run_round: Callable[[int], tuple[float, float]],
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    schedule: Schedule,
    *,
    lr: float,
    checkpoints: Path | None,
    generators: Mapping[str, np.random.Generator] | None = None,
) -> History:
    """Run the rounds of a training; if the folder of checkpoints holds a state, after the round of that state.

    Args:
        run_round: Trains for one round; takes the number of earlier rounds, and returns the mean loss of training and
            of validation.
        model: The model, on its device.
        optimizer: The optimizer of the model's weights.
        schedule: When to end and when to save.
        lr: The learning rate, for the message.
        checkpoints: The folder of the state; None to save none.
        generators: The generators that the rounds draw from, by name. Their states are saved, too, like torch's.

    Returns:
        The losses of all rounds.

    Raises:
        InputError: A loss is not finite, or the state cannot be read or written.
    """
    state, generators = None if checkpoints is None else checkpoints / _STATE, generators or {}
    history = History()
    if state is not None and state.exists():
        history = _load_state(state, model, optimizer, generators)
    n_rounds, patience, unit, save_every = schedule
    with Progress(title="training", total=n_rounds, unit=f"{unit}s", done=len(history.train)) as bar:
        while len(history.train) < n_rounds and not has_stopped_improving(history.validation, patience):
            train_loss, validation_loss = run_round(len(history.train))
            history.train.append(train_loss)
            history.validation.append(validation_loss)
            if not math.isfinite(train_loss + validation_loss):
                problem = f"the loss is no number in {unit} {len(history.train)}"
                action = f", and remove {checkpoints}" if state is not None and state.exists() else ""
                raise InputError(f"--lr {lr}", problem, action=f"choose a lower one{action}")
            if state is not None and len(history.train) % save_every == 0:
                _save_state(state, model, optimizer, history, generators)
            bar.set_postfix(train=train_loss, validation=validation_loss, refresh=False)
            bar.update()
    return history


def has_stopped_improving(losses_so_far: Sequence[float], patience: int) -> bool:
    """Return whether the last `patience` losses are not below the lowest loss before them.

    Args:
        losses_so_far: The validation loss of each round.
        patience: The number of rounds.

    Returns:
        True if training should stop; False before `patience` + 1 rounds.

    >>> [has_stopped_improving(losses, patience=2) for losses in ([3, 2, 2, 2], [3, 2, 2, 1], [3, 3])]
    [True, False, False]
    """
    earlier, latest = losses_so_far[:-patience], losses_so_far[-patience:]
    return bool(earlier) and min(latest) >= min(earlier)


def remove_state(checkpoints: Path) -> None:
    """Remove the folder of checkpoints of a training that has ended.

    Args:
        checkpoints: The folder.
    """
    (checkpoints / _STATE).unlink(missing_ok=True)  # first: without it, nothing resumes
    shutil.rmtree(checkpoints)


def _save_state(
    state: Path,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    history: History,
    generators: Mapping[str, np.random.Generator],
) -> None:
    """Write model, optimizer, history and the states of all generators; raise `InputError` on a full disk."""
    content = {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "history": asdict(history),
        "generators": {name: generator.bit_generator.state for name, generator in generators.items()},
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all(),
    }
    with atomic_file(state) as partial:
        try:
            torch.save(content, partial)
        except RuntimeError as error:  # torch's error for a full disk
            action = "make space, and run the same command again: it resumes"
            raise InputError(state, f"cannot be written ({error})", action=action) from error


def _load_state(
    state: Path,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    generators: Mapping[str, np.random.Generator],
) -> History:
    """Restore what `_save_state` wrote, and return the history; raise `InputError` for a damaged file."""
    try:
        content: dict[str, Any] = torch.load(state, map_location="cpu", weights_only=True)
    except (OSError, EOFError, RuntimeError, pickle.UnpicklingError) as error:
        action = f"remove {state.parent}, and train from the start"
        cause = str(error).split(". ")[0].partition("\n")[0] or type(error).__name__
        raise InputError(state, f"cannot be read ({cause})", action=action) from error
    model.load_state_dict(content["model"])
    optimizer.load_state_dict(content["optimizer"])
    for name, generator in generators.items():
        generator.bit_generator.state = content["generators"][name]
    torch.set_rng_state(content["torch"])
    torch.cuda.set_rng_state_all(content["cuda"])
    return History(**content["history"])
