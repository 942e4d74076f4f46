"""Scores of options in the file of answers."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence

from lm_eval.api.instance import Instance

from ..outcomes import ANSWERED
from .answer_store import AnswerStore, Kept
from .chat_form import Reply
from .image_lm import row_id

Scored = tuple[float, bool]  # log-likelihood in nats, whether greedy


class KeptScores:
    """Scores by the number of their request. The text of such a reply is JSON, as "[-5.25, false]".

    found: those that were kept, as far as they were looked for.

    Args:
        keys: of requests about the same images, which are opened for it.
    """

    def __init__(
        self, store: AnswerStore, requests: Sequence[Instance], keys: Callable[[Sequence[Instance]], Sequence[str]]
    ) -> None:
        self.found: dict[int, Scored] = {}
        self._store, self._requests, self._keys_of = store, requests, keys
        self._keys: dict[int, str] = {}  # of what is missing

    def missing(self, group: Sequence[int]) -> list[int]:
        """Those of these requests, which are about the same images, whose scores are not kept."""
        if self._store.keeps:
            keys = self._keys_of([self._requests[number] for number in group])
            for number, key in zip(group, keys, strict=True):
                reply = self._store.get(key)
                if reply is None:
                    self._keys[number] = key
                else:
                    log_likelihood, greedy = json.loads(reply.text)
                    self.found[number] = log_likelihood, greedy
        return [number for number in group if number not in self.found]

    def put(self, scores: Mapping[int, Scored]) -> None:
        """Keeps those of a batch."""
        if self._store.keeps:
            asked = {number: self._requests[number] for number in scores}
            self._store.put_all(
                Kept(self._keys.pop(number), Reply(ANSWERED, json.dumps(score)), one.task_name or "", row_id(one))
                for (number, score), one in zip(scores.items(), asked.values(), strict=True)
            )
