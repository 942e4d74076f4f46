"""A model that repeats answers that another harness recorded."""

from __future__ import annotations

from collections.abc import Mapping

from lm_eval.api.instance import Instance

from ..outcomes import EMPTY, UNANSWERED
from .image_lm import ImageLM, row_id, tell_outcome


class RecordedLM(ImageLM):
    """Answers each row with its recorded answer.

    Args:
        answers: Id of a row -> its answer; None if the model gave none.
    """

    def __init__(self, answers: Mapping[str, str | None]) -> None:
        super().__init__()
        self._answers = answers

    def generate_until(self, requests: list[Instance], disable_tqdm: bool = False) -> list[str]:
        """Return the recorded answers.

        Args:
            requests: Requests of lm-eval, each for a row with a recorded answer.
            disable_tqdm: Ignored.

        Returns:
            The answers; an empty text where the model gave none.
        """
        texts = []
        for request in requests:
            text = self._answers[row_id(request)]
            if not (text or "").strip():
                tell_outcome(request, UNANSWERED if text is None else EMPTY)
            texts.append(text or "")
        return texts
