"""`medfaith-server`: a model behind an OpenAI-compatible chat endpoint (vLLM, SGLang, Ollama, llama.cpp, hosted ones).

All images of a row are sent, each where its placeholder stands in the prompt.
"""

from __future__ import annotations

import asyncio
import importlib.util
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

from ...loaders.errors import InputError, MedfaithError
from ...loaders.progress import Progress
from . import answer_counts, server_access, server_scores
from .answer_store import AnswerStore, with_repeats
from .chat_form import (
    PLACEHOLDER,
    TOKENS_NAMES,
    Encoding,
    Prompt,
    Reply,
    check_encoding,
    n_placeholders,
    read,
    settings,
    stops_of,
)
from .first_answers import FirstAnswers
from .image_lm import ImageLM, images_of, row_id, tell_outcome
from .server_requests import Endpoint, Question, ask
from .server_usage import DryRunEnd, Estimate, Prices, Usage

LM_EVALS = ("batch_size", "max_batch_size", "device")  # given to every model; a server has its own


class ServerLM(ImageLM):
    """Asks a server, and counts what came of it (`tally`). Answers are scored, cut ones too; all else is "".

    A failing request is retried with growing pauses, or after as long as the server asks for (`openai`'s retries). A
    row that still has no answer is unanswered, and the run goes on. If the server is gone (`server_access.Outage`), the
    rows that are left are unanswered, too, and are not asked. The key comes from the variable OPENAI_API_KEY.

    Args:
        base_url: up to and with the version, such as http://127.0.0.1:8000/v1
        model: its name there.
        concurrency: requests at a time.
        image_format, image_quality, image_max_side: how images are sent: png, or jpeg with its quality; made smaller
            until the longest side has so many pixels.
        max_retries, timeout: of each request; seconds.
        max_tokens_name: what the endpoint calls the limit of an answer, one of `TOKENS_NAMES`.
        seed: sent with each request; none by default.
        top_logprobs: how many tokens the endpoint lists where letters are scored.
        prompt_price, answer_price: of a million tokens, in any currency.
        dry_run: sends nothing, and says what a run would take (`estimated`).
        answers: SQLite file of the answers (AnswerStore). Without it a killed run starts anew.
        send_images_to: the host of `base_url`, where it is outside of the user's network.
        i_have_permission: sources, joined by +, whose images may go to that host though their terms do not say so.

    Raises:
        InputError: an option that there is not; a third party that is not named; a server that does not answer, or
            takes neither the key nor the model.
    """

    def __init__(
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
        top_logprobs: int = 20,  # that OpenAI's API and vLLM give
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
        _check_installed()
        if not model:
            raise InputError("--model_args", "names no model", expected="base_url=URL,model=NAME")
        host = server_access.host_of(base_url)
        self._third_party = host if server_access.is_third_party(host) else None
        server_access.check_named(self._third_party, send_images_to)
        self._permitted = set(str(i_have_permission).split("+"))
        encoding = Encoding(image_format, image_quality, image_max_side)
        check_encoding(encoding)
        self._tokens_name, self._seed, self._top_logprobs = max_tokens_name, seed, top_logprobs
        self._prices, self._dry = Prices(prompt_price, answer_price), dry_run
        self._answers = Path(answers).expanduser() if answers else None
        self._first, self._usage, self.estimate = FirstAnswers(), Usage(), Estimate()
        url, model = base_url.rstrip("/"), str(model)
        key = os.environ.get(server_access.KEY) or "none"  # `openai` wants one
        version = {} if dry_run else server_access.look_up(url, key, model, max_tokens_name, max_retries)
        identity = {"endpoint": url, "model": model, "version": version}
        self._endpoint = Endpoint(url, model, key, identity, encoding, concurrency, max_retries, timeout)
        with AnswerStore(self._answers):  # one that cannot be used is refused here
            pass
        if self._answers is None and not dry_run:
            print(
                "medfaith-server: answers are not kept; name a file with answers=FILE, or a killed run starts anew",
                file=sys.stderr,
            )

    @property
    def tokenizer_name(self) -> str:
        return "medfaith-server"

    def apply_chat_template(self, chat_history: list[dict[str, str]], add_generation_prompt: bool = True) -> str:
        """The turns as they are: the server applies the model's template."""
        return Prompt(chat_history)

    def generate_until(self, requests: list[Instance], disable_tqdm: bool = False) -> list[str]:
        """The answers, cut ones too; "" where there is none.

        Raises:
            InputError: a prompt names more or fewer images than its row has, or a source's terms do not let its images
                go to the server. No image has been opened then.
            MedfaithError: an image cannot be opened, or the server has begun to refuse the key or the model.
        """
        questions = []
        for request, repeat in with_repeats(requests):
            given = cast(Any, request.args)[1]
            asked, stops = settings(given, self._tokens_name, self._seed), stops_of(given)
            questions.append(Question(request, asked, partial(read, stops=stops), stops, repeat))

        def see(request: Instance, reply: Reply) -> None:
            self._first.see(request.doc, reply)

        return self._replies(questions, disable_tqdm, see)

    def loglikelihood(self, requests: list[Instance], disable_tqdm: bool = False) -> list[tuple[float, bool]]:
        """(log-probability of an option's letter, whether it is the likeliest); NaN of a letter that is not listed.

        A row's letters are scored by one request (server_scores). Other continuations are refused: a server gives the
        probabilities of what it would say, not of what it is told.

        Raises: as `generate_until`; InputError where the endpoint gives no probabilities.
        """
        rows: dict[tuple[str, int], list[int]] = {}
        for number, request in enumerate(requests):
            context, continuation = cast(Any, request.args)[:2]
            if not server_scores.is_letter(continuation):
                raise self._no_probability()
            rows.setdefault((context, id(images_of(request))), []).append(number)
        asked = server_scores.asked(self._top_logprobs, self._tokens_name, self._seed)
        reading = partial(server_scores.read, base_url=self._endpoint.url)
        first = [Question(requests[numbers[0]], asked, reading) for numbers in rows.values()]
        found: dict[int, tuple[float, bool]] = {}
        of_rows = []
        for numbers, said in zip(rows.values(), self._replies(first, disable_tqdm), strict=True):
            letters = [cast(Any, requests[number].args)[1].strip() for number in numbers]
            scores = server_scores.of_letters(json.loads(said) if said else {}, letters)
            best = max((score for score in scores if not math.isnan(score)), default=math.nan)
            found |= {number: (score, score == best) for number, score in zip(numbers, scores, strict=True)}
            of_rows.append(scores)
        if (said := server_scores.advice(of_rows)) and not self._dry:
            print(f"medfaith-server: {said}", file=sys.stderr)
        return [found[number] for number in range(len(requests))]

    def _replies(
        self,
        questions: Sequence[Question],
        quiet: bool,
        see: Callable[[Instance, Reply], None] = lambda request, reply: None,
    ) -> list[str]:
        """What is scored of each reply; of a dry run, "".

        see: is shown each reply as it comes.
        """
        for question in questions:
            self._check(question)
        if self._dry:
            self.estimate.add(self._endpoint, questions)
            return [""] * len(questions)
        scored, usage = [""] * len(questions), Usage()
        bar = Progress(title="asking the server", total=len(questions), unit="requests", quiet=quiet)

        def take(place: int, question: Question, reply: Reply, kept: bool) -> None:
            scored[place] = reply.scored
            usage.add(reply, kept)
            self._usage.add(reply, kept)
            if not question.repeat:  # of the copies of a row, filters read the first
                tell_outcome(question.request, reply.outcome)
            see(question.request, reply)
            bar.update()

        with bar, AnswerStore(self._answers) as store:
            outage = asyncio.run(ask(self._endpoint, questions, store, take))
        answer_counts.count(usage.outcomes)
        for said in (outage.sentence(self._endpoint.url), answer_counts.sentence(usage.outcomes)):
            if said:
                print(f"medfaith-server: {said}", file=sys.stderr)
        return scored

    def _check(self, question: Question) -> None:
        images = images_of(question.request)
        n_named, n_images = n_placeholders(question.turns), len(images)
        if n_named != n_images:
            raise InputError(
                question.request.task_name or "request",
                f"the prompt has {n_named} image placeholders for {n_images} images",
                expected=f"one {PLACEHOLDER} an image",
                action="let doc_to_text write as many placeholders as doc_to_image gives images",
                row=row_id(question.request),
            )
        if self._third_party:
            server_access.check_licences(getattr(images, "sources", ()), self._third_party, self._permitted)

    def get_model_info(self) -> dict[str, Any]:
        """What lm-eval adds to the results of a run that has come to its end.

        Raises DryRunEnd in a dry run, which has no results.
        """
        if self._dry:
            raise DryRunEnd(self.estimated())
        return {"usage": self.used()}

    def used(self) -> dict[str, Any]:
        """What was asked since this was last called (`server_usage.Usage.told`): a model may be asked in many runs."""
        usage, self._usage = self._usage, Usage()
        return usage.told(self._prices)

    def estimated(self) -> str:
        """What a dry run says."""
        with AnswerStore(self._answers) as store:
            return self.estimate.report(self._endpoint, store, self._prices)


def _check_options(others: Mapping[str, Any], **limits: Any) -> None:
    """Raises InputError for an option that there is not, or a value that none can have."""
    unknown = sorted(others.keys() - set(LM_EVALS))
    if unknown:
        expected = ", ".join(name for name in inspect.signature(ServerLM).parameters if name != "others")
        raise InputError("--model_args", f"medfaith-server has no option {', '.join(unknown)}", expected=expected)
    tokens_name = limits.pop("max_tokens_name")
    if tokens_name not in TOKENS_NAMES:
        raise InputError("max_tokens_name", f"is {tokens_name!r}", expected=" or ".join(TOKENS_NAMES))
    for name, (value, least) in limits.items():
        if not isinstance(value, (int, float)) or value < least:
            raise InputError(name, f"is {value!r}", expected=f"a number from {least}")


def _check_installed() -> None:
    missing = [name for name in ("openai", "aiohttp") if importlib.util.find_spec(name) is None]
    if missing:
        raise MedfaithError(f"medfaith-server needs {' and '.join(missing)}\n  what to do: install medfaith[server]")
