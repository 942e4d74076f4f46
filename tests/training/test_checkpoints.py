"""Checkpoints and progress of trainings with transformers' Trainer."""

from __future__ import annotations

import torch
import transformers

from medfaith.loaders import progress
from medfaith.training.checkpoints import ShowProgress, build_trainer_arguments, find_last_complete
from medfaith.training.settings import Settings


class Line(torch.nn.Module):
    """Line through the origin, with squared error as loss."""

    def __init__(self) -> None:
        super().__init__()
        self.slope = torch.nn.Parameter(torch.zeros(1))

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"loss": ((self.slope * x - y) ** 2).mean()}


def test_a_training_says_how_far_it_is_and_goes_on_from_there(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(progress, "EVERY", 0.0)
    pairs = [{"x": torch.ones(1), "y": torch.ones(1)}] * 4

    def run_lines(steps: int, start: str | None) -> list[str]:
        settings = Settings(lr=0.1, steps=steps, batch=1, accumulate=1, save_every=2, log_every=1)
        arguments = build_trainer_arguments(tmp_path, settings, device="cpu")
        trainer = transformers.Trainer(Line(), arguments, train_dataset=pairs, callbacks=[ShowProgress()])
        trainer.remove_callback(transformers.PrinterCallback)
        trainer.train(resume_from_checkpoint=start)
        written = capsys.readouterr()
        assert written.out == ""
        return [line.partition("%")[0] for line in written.err.splitlines() if line.startswith("training: ")]

    assert run_lines(2, None) == ["training: 1 of 2 (50", "training: 2 of 2 (100"]
    assert run_lines(4, find_last_complete(tmp_path)) == ["training: 3 of 4 (75", "training: 4 of 4 (100"]
