"""The rounds of a training of one weight: what it resumes from, and what it says of a state that it cannot use."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch

from medfaith.loaders.errors import InputError
from medfaith.training.checkpoints import open_checkpoints
from medfaith.training.rounds import History, Schedule, train_rounds

LOSSES = (5.0, 4.0, 3.0, 2.0, 1.0)


def train_weight(checkpoints: Path, losses: tuple[float, ...] = LOSSES, **schedule: int) -> tuple[History, list[int]]:
    """Train with the given losses, and return the history and the rounds that were run."""
    rounds: list[int] = []
    model = torch.nn.Linear(1, 1)

    def run_round(n_earlier: int) -> tuple[float, float]:
        rounds.append(n_earlier)
        if losses[n_earlier] < 0:
            raise KeyboardInterrupt
        return losses[n_earlier], losses[n_earlier]

    optimizer = torch.optim.Adam(model.parameters())
    plan = Schedule(len(losses), patience=9, **schedule)
    return train_rounds(run_round, model, optimizer, plan, lr=0.5, checkpoints=checkpoints), rounds


@pytest.mark.parametrize(("save_every", "resumed"), [(1, [3, 4]), (2, [2, 3, 4]), (4, [0, 1, 2, 3, 4])])
def test_a_training_resumes_after_the_last_saved_round(save_every, resumed, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        train_weight(tmp_path, (5.0, 4.0, 3.0, -1.0, 1.0), save_every=save_every)
    history, rounds = train_weight(tmp_path, save_every=save_every)
    assert rounds == resumed
    assert history.train == history.validation == list(LOSSES)


@pytest.mark.parametrize("share", [0, 0.5, 0.99])
def test_a_damaged_state_is_named(share, tmp_path):
    train_weight(tmp_path)
    (state,) = tmp_path.iterdir()
    content = state.read_bytes()
    state.write_bytes(content[: int(share * len(content))])
    with pytest.raises(InputError, match=rf"{state}: cannot be read(?s:.*)what to do: remove {tmp_path}, and train"):
        train_weight(tmp_path)


def test_the_advice_after_a_loss_that_is_no_number_names_the_saved_rounds(tmp_path):
    with pytest.raises(InputError, match=r"in epoch 1\n.*choose a lower one$"):
        train_weight(tmp_path, (math.nan,))
    with pytest.raises(InputError, match=rf"in epoch 2\n.*choose a lower one, and remove {tmp_path}$"):
        train_weight(tmp_path, (5.0, math.inf))


def test_other_arguments_are_refused_once_there_is_a_checkpoint(tmp_path):
    for lr in (1.0, 0.5):
        open_checkpoints(tmp_path, {"lr": lr})
    train_weight(tmp_path)
    open_checkpoints(tmp_path, {"lr": 0.5})
    with pytest.raises(InputError, match="is of a training with another lr"):
        open_checkpoints(tmp_path, {"lr": 1.0})
