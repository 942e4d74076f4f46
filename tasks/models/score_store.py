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
    """Stored scores by the index of their request. The text of such a reply is JSON, such as "[-5.25, false]".

    Attributes:
        found: Stored scores of the requests that `missing` looked up.

    Args:
        store: The file of answers.
        requests: All requests.
        keys: Function that computes the keys of requests about the same images, which it opens.
    """

    def __init__(
        self, store: AnswerStore, requests: Sequence[Instance], keys: Callable[[Sequence[Instance]], Sequence[str]]
    ) -> None:
        self.found: dict[int, Scored] = {}
        self._store, self._requests, self._compute_keys = store, requests, keys
        self._keys: dict[int, str] = {}  # keys of the missing scores

    def missing(self, group: Sequence[int]) -> list[int]:
        """Select the requests whose scores are not stored.

        Args:
            group: Indices of requests about the same images.

        Returns:
            Indices of these requests. The scores of the others are in `found`.
        """
        if self._store.keeps:
            keys = self._compute_keys([self._requests[number] for number in group])
            for number, key in zip(group, keys, strict=True):
                reply = self._store.get(key)
                if reply is None:
                    self._keys[number] = key
                else:
                    log_likelihood, greedy = json.loads(reply.text)
                    self.found[number] = log_likelihood, greedy
        return [number for number in group if number not in self.found]

    def put(self, scores: Mapping[int, Scored]) -> None:
        """Store the scores of a batch.

        Args:
            scores: Score by request index.
        """
        if self._store.keeps:
            requests = {number: self._requests[number] for number in scores}
            self._store.put_all(
                Kept(
                    self._keys.pop(number), Reply(ANSWERED, json.dumps(score)), request.task_name or "", row_id(request)
                )
                for (number, score), request in zip(scores.items(), requests.values(), strict=True)
            )
