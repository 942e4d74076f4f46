"""`medfaith-server`: a model at an OpenAI-compatible chat endpoint (vLLM, SGLang, Ollama, llama.cpp, hosted models).

All images of a row are sent, each at its placeholder in the prompt.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import math
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, cast

from lm_eval.api.instance import Instance

from ....loaders.errors import InputError
from ....loaders.progress import Progress
from ... import SERVER
from .. import answer_counts
from ..answer_store import AnswerStore
from ..chat_form import (
    PLACEHOLDER,
    TOKENS_NAMES,
    Encoding,
    Prompt,
    Reply,
    build_settings,
    check_encoding,
    count_placeholders,
    get_stops,
    read,
)
from ..first_answers import FirstAnswers
from ..image_lm import ImageLM, get_images, iterate_repeats, row_id, tell_outcome
from . import access, letter_scores
from .client import check_installed
from .requests import Endpoint, Question, ask
from .usage import DryRunEnd, Estimate, Prices, Usage

LM_EVALS = ("batch_size", "max_batch_size", "device")  # lm-eval passes these to every model; a server ignores them


class ServerLM(ImageLM):
    """Asks a server and counts the outcomes (`tally`). Complete and cut answers are scored; other outcomes give "".

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
        **others: Options that lm-eval passes to every model.

    Raises:
        InputError: An option is unknown, a third party is not named, the server does not answer, or it refuses the key
            or the model.
    """

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
        **others: Any,
    ) -> None:
        super().__init__()
        limits: dict[str, Any] = {
            "concurrency": (concurrency, 1),
            "max_retries": (max_retries, 0),
            "timeout": (timeout, 0),
            "top_logprobs": (top_logprobs, 1),
            "prompt_price": (prompt_price or 0, 0),
            "answer_price": (answer_price or 0, 0),
        }
        _check_options(others, max_tokens_name=max_tokens_name, **limits)
        check_installed(SERVER)
        if not model:
            raise InputError("--model_args", "names no model", expected="base_url=URL,model=NAME")
        host = access.parse_host(base_url)
        self._third_party = host if access.is_third_party(host) else None
        access.check_named(self._third_party, send_images_to)
        self._permitted = set(str(i_have_permission).split("+"))
        encoding = Encoding(image_format, image_quality, image_max_side)
        check_encoding(encoding)
        self._tokens_name, self._seed, self._top_logprobs = max_tokens_name, seed, top_logprobs
        self._prices, self._is_dry_run = Prices(prompt_price, answer_price), dry_run
        self._answers = Path(answers).expanduser() if answers else None
        self._first, self._usage, self.estimate = FirstAnswers(), Usage(), Estimate()
        url, model = base_url.rstrip("/"), str(model)
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
    def tokenizer_name(self) -> str:
        """Name of the model type."""
        return "medfaith-server"

    def apply_chat_template(self, chat_history: list[dict[str, str]], add_generation_prompt: bool = True) -> str:
        """Keep the turns: the server applies the model's template.

        Args:
            chat_history: The turns.
            add_generation_prompt: Ignored.

        Returns:
            The turns, as a text that keeps them apart.
        """
        return Prompt(chat_history)

    def generate_until(self, requests: list[Instance], disable_tqdm: bool = False) -> list[str]:
        """Ask the server for answers. Cut answers are included; missing answers are "".

        Args:
            requests: Requests of lm-eval.
            disable_tqdm: Whether to hide the progress bar.

        Returns:
            The answers, in the order of the requests.

        Raises:
            InputError: A prompt has another number of placeholders than its row has images, or a source's terms forbid
                sending its images; both are raised before an image is opened.
            MedfaithError: An image cannot be opened, or the server starts to refuse the key or the model.
        """
        questions = []
        for request, repeat in iterate_repeats(requests):
            generation_kwargs = cast(Any, request.args)[1]
            request_settings, stops = (
                build_settings(generation_kwargs, self._tokens_name, self._seed),
                get_stops(generation_kwargs),
            )
            questions.append(Question(request, request_settings, partial(read, stops=stops), stops, repeat))

        def see(request: Instance, reply: Reply) -> None:
            self._first.add(request.doc, reply)

        return self._ask_questions(questions, disable_tqdm, see)

    def loglikelihood(self, requests: list[Instance], disable_tqdm: bool = False) -> list[tuple[float, bool]]:
        """Score option letters, with one request for all letters of a row (letter_scores).

        Other continuations are refused: a server returns the probabilities of its own answer, not of a given text.

        Args:
            requests: Requests of lm-eval.
            disable_tqdm: Whether to hide the progress bar.

        Returns:
            The log-probability of each letter, NaN if it is not listed, and whether the letter is the likeliest.

        Raises:
            InputError: As `generate_until`, or the endpoint returns no probabilities.
            MedfaithError: As `generate_until`, or a continuation is not a letter.
        """
        rows: dict[tuple[str, int], list[int]] = {}
        for number, request in enumerate(requests):
            context, continuation = cast(Any, request.args)[:2]
            if not letter_scores.is_letter(continuation):
                raise self._make_probability_error()
            rows.setdefault((context, id(get_images(request))), []).append(number)
        request_settings = letter_scores.build_settings(self._top_logprobs, self._tokens_name, self._seed)
        read_reply = partial(letter_scores.read, base_url=self._endpoint.url)
        questions = [Question(requests[numbers[0]], request_settings, read_reply) for numbers in rows.values()]
        scores_by_number: dict[int, tuple[float, bool]] = {}
        row_scores = []
        for numbers, text in zip(rows.values(), self._ask_questions(questions, disable_tqdm), strict=True):
            letters = [cast(Any, requests[number].args)[1].strip() for number in numbers]
            scores = letter_scores.score_letters(json.loads(text) if text else {}, letters)
            best = max((score for score in scores if not math.isnan(score)), default=math.nan)
            scores_by_number |= {number: (score, score == best) for number, score in zip(numbers, scores, strict=True)}
            row_scores.append(scores)
        if (text := letter_scores.describe_missing(row_scores)) and not self._is_dry_run:
            print(f"medfaith-server: {text}", file=sys.stderr)
        return [scores_by_number[number] for number in range(len(requests))]

    def _ask_questions(
        self,
        questions: Sequence[Question],
        quiet: bool,
        see: Callable[[Instance, Reply], None] = lambda request, reply: None,
    ) -> list[str]:
        """Ask all questions and return the scored texts, "" in a dry run. `see` receives each reply as it arrives."""
        for question in questions:
            self._check(question)
        if self._is_dry_run:
            self.estimate.add(self._endpoint, questions)
            return [""] * len(questions)
        scored, usage = [""] * len(questions), Usage()
        bar = Progress(title="asking the server", total=len(questions), unit="requests", quiet=quiet)

        def take(place: int, question: Question, reply: Reply, was_stored: bool) -> None:
            scored[place] = reply.scored
            usage.add(reply, was_stored)
            self._usage.add(reply, was_stored)
            if not question.repeat:  # filters read the first copy of a row
                tell_outcome(question.request, reply.outcome)
            see(question.request, reply)
            bar.update()

        with bar, AnswerStore(self._answers) as store:
            outage = asyncio.run(ask(self._endpoint, questions, store, take))
        answer_counts.count(usage.outcomes)
        for message in (outage.describe(self._endpoint.url), answer_counts.format_counts(usage.outcomes)):
            if message:
                print(f"medfaith-server: {message}", file=sys.stderr)
        return scored

    def _check(self, question: Question) -> None:
        images = get_images(question.request)
        n_named, n_images = count_placeholders(question.turns), len(images)
        if n_named != n_images:
            raise InputError(
                question.request.task_name or "request",
                f"the prompt has {n_named} image placeholders for {n_images} images",
                expected=f"one {PLACEHOLDER} an image",
                action="let doc_to_text write as many placeholders as doc_to_image gives images",
                row=row_id(question.request),
            )
        if self._third_party:
            access.check_licences(getattr(images, "sources", ()), self._third_party, self._permitted)

    def get_model_info(self) -> dict[str, Any]:
        """Get the model information that lm-eval adds to the results of a complete run.

        Raises:
            DryRunEnd: In a dry run, which has no results.
        """
        if self._is_dry_run:
            raise DryRunEnd(self.format_estimate())
        return {"usage": self.used()}

    def used(self) -> dict[str, Any]:
        """Return the usage since the last call (`Usage.describe`), since a model may serve several runs."""
        usage, self._usage = self._usage, Usage()
        return usage.describe(self._prices)

    def format_estimate(self) -> str:
        """Format the estimate of a dry run."""
        with AnswerStore(self._answers) as store:
            return self.estimate.format(self._endpoint, store, self._prices)


def _check_options(others: Mapping[str, Any], **limits: Any) -> None:
    """Raise InputError for an unknown option or an invalid value."""
    unknown = sorted(others.keys() - set(LM_EVALS))
    if unknown:
        expected = ", ".join(name for name in inspect.signature(ServerLM).parameters if name != "others")
        raise InputError("--model_args", f"medfaith-server has no option {', '.join(unknown)}", expected=expected)
    tokens_name = limits.pop("max_tokens_name")
    if tokens_name not in TOKENS_NAMES:
        raise InputError("max_tokens_name", f"is {tokens_name!r}", expected=" or ".join(TOKENS_NAMES))
    for name, (value, minimum) in limits.items():
        if not isinstance(value, (int, float)) or value < minimum:
            raise InputError(name, f"is {value!r}", expected=f"a number from {minimum}")
