"""`medfaith-server`: a model at an OpenAI-compatible chat endpoint (vLLM, SGLang, Ollama, llama.cpp, hosted models).

All images of a row are sent, each at its placeholder in the prompt.
"""

from __future__ import annotations

import asyncio
import math
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ....loaders.errors import InputError
from ... import SERVER
from ...model_types import MOST_CONCURRENT
from ..answer_store import AnswerStore, hash_facts
from ..chat_form import (
    Encoding,
    Reply,
)
from . import access
from .chat_lm import ChatLM, ChatOptions
from .client import check_installed
from .requests import Endpoint, Question, ask
from .usage import DryRunEnd, Estimate, Prices, Usage


class ServerLM(ChatLM):
    """Asks a server.

    A failed request is retried with growing pauses, or after the pause that the server requests (`openai`'s retries). A
    row without a reply is unanswered, and the run continues. During an outage (`access.Outage`), the remaining
    rows are unanswered without being asked. The variable OPENAI_API_KEY holds the key.

    Args:
        base_url: URL up to and including the version, such as http://127.0.0.1:8000/v1
        model: Name of the model at the server.
        concurrency: Maximum number of concurrent requests.
        image_format: Format of sent images, png or jpeg.
        image_quality: JPEG quality.
        image_max_side: Maximum side length in pixels; larger images are reduced.
        max_retries: Maximum number of retries per request.
        timeout: Timeout of a request in seconds.
        max_tokens_name: The endpoint's name of the token limit, one of `TOKENS_NAMES`.
        seed: Seed of each request; none by default.
        top_logprobs: Number of tokens that the endpoint lists when letters are scored.
        prompt_price: Price of a million prompt tokens, in any currency.
        answer_price: Price of a million answer tokens, in any currency.
        dry_run: Whether to estimate the resources instead of sending requests (`format_estimate`).
        answers: SQLite file of the answers (AnswerStore). Without it, an interrupted run starts again.
        send_images_to: The host of `base_url`, if it is outside of the user's network.
        i_have_permission: Sources, joined by +, whose images may go to that host although their terms do not say so.
        **lm_eval_options: Options that lm-eval passes to every model.

    Raises:
        InputError: An option is unknown, a third party is not named, the server does not answer, or it refuses the key
            or the model.
    """

    name, activity = SERVER, "asking the server"

    def __init__(  # noqa: PLR0913 (the arguments that --model_args names)
        self,
        base_url: str = "",
        model: str = "",
        concurrency: int = 32,
        image_format: str = "png",
        image_quality: int = 90,
        image_max_side: int | None = None,
        max_retries: int = 5,
        timeout: float = 600,
        max_tokens_name: str = "max_tokens",
        seed: int | None = None,
        top_logprobs: int = 20,  # the limit of OpenAI's API and vLLM
        prompt_price: float | None = None,
        answer_price: float | None = None,
        dry_run: bool = False,
        answers: str | None = None,
        send_images_to: str | None = None,
        i_have_permission: str = "",
        **lm_eval_options: Any,
    ) -> None:
        limits: dict[str, Any] = {
            "concurrency": (concurrency, 1, MOST_CONCURRENT),
            "max_retries": (max_retries, 0, math.inf),
            "timeout": (timeout, 0, math.inf),
            "top_logprobs": (top_logprobs, 1, math.inf),
            "prompt_price": (prompt_price or 0, 0, math.inf),
            "answer_price": (answer_price or 0, 0, math.inf),
        }
        self.refuse_unknown(lm_eval_options)
        _check_limits(limits)
        check_installed(SERVER)
        if not model:
            raise InputError("--model_args", "names no model", expected="base_url=URL,model=NAME")
        host = access.parse_host(base_url)
        third_party = host if access.is_third_party(host) else None
        access.check_named(third_party, send_images_to)
        encoding = Encoding(image_format, image_quality, image_max_side)
        super().__init__(ChatOptions(encoding, max_tokens_name, seed, top_logprobs), third_party, i_have_permission)
        self._prices, self._is_dry_run = Prices(prompt_price, answer_price), dry_run
        self._answers = Path(answers).expanduser() if answers else None
        self._usage, self.estimate, self._scores_nothing = Usage(), Estimate(), dry_run
        url, model = base_url.rstrip("/"), str(model)
        self.engine, self.engine_model = url, model
        key = os.environ.get(access.KEY, "")
        version = {} if dry_run else access.look_up(url, key, model, max_tokens_name, max_retries)
        identity = {"endpoint": url, "model": model, "version": version}
        self._endpoint = Endpoint(url, model, key, identity, encoding, concurrency, max_retries, timeout)
        with AnswerStore(self._answers):  # an unusable file is refused here
            pass
        if self._answers is None and not dry_run:
            print(
                "medfaith-server: answers are not kept; name a file with answers=FILE, or a killed run starts anew",
                file=sys.stderr,
            )

    @property
    def fingerprint(self) -> str:
        """Hash of the address, the model's name and its version, as far as the server lists one."""
        return hash_facts(**self._endpoint.identity)

    def _take_replies(self, questions: Sequence[Question], take: Callable[[int, Question, Reply | None], None]) -> str:
        """Ask the server; in a dry run only estimate the resources."""
        if self._is_dry_run:
            self.estimate.add(self._endpoint, questions)
            return ""

        def count(place: int, question: Question, reply: Reply, was_stored: bool) -> None:
            self._usage.add(reply, was_stored)
            take(place, question, reply)

        with AnswerStore(self._answers) as store:
            outage = asyncio.run(ask(self._endpoint, questions, store, count))
        return outage.describe(self._endpoint.url)

    def get_model_info(self) -> dict[str, Any]:
        """Get the model information that lm-eval adds to the results of a complete run.

        Raises:
            DryRunEnd: In a dry run, which has no results.
        """
        if self._is_dry_run:
            raise DryRunEnd(self.format_estimate())
        return {"usage": self.used()}

    def used(self) -> dict[str, Any]:
        """Return the usage since the last call of this method, and start anew: a model may serve several runs.

        Returns:
            The counts of `ChatLM.used` and of `Usage.describe`.
        """
        usage, self._usage = self._usage, Usage()
        return super().used() | usage.describe(self._prices)

    def format_estimate(self) -> str:
        """Format the estimate of a dry run."""
        with AnswerStore(self._answers) as store:
            return self.estimate.format(self._endpoint, store, self._prices)


def _check_limits(limits: Mapping[str, tuple[Any, float, float]]) -> None:
    """Raise InputError for a value below its minimum or above its maximum, and for NaN."""
    for name, (value, minimum, maximum) in limits.items():
        if not isinstance(value, (int, float)) or not minimum <= value <= maximum:
            upper = "" if maximum == math.inf else f" to {maximum:,}"
            raise InputError(name, f"is {value!r}", expected=f"a number from {minimum}{upper}")
