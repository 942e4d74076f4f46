"""A model that answers chats with images: prompts become messages, replies become answers and scores of letters."""

from __future__ import annotations

import inspect
import sys
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any, NamedTuple, cast

from lm_eval.api.instance import Instance

from ....loaders.errors import InputError
from ....loaders.progress import Progress
from .. import answer_counts
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
from .requests import Question

LM_EVALS = ("batch_size", "max_batch_size", "device")  # lm-eval passes these to every model; an engine ignores them


class ChatOptions(NamedTuple):
    """Options for the conversion of prompts to requests.

    Attributes:
        encoding: Encoding of images.
        tokens_name: The engine's name of the token limit, one of `TOKENS_NAMES`.
        seed: Seed of each request; None for none.
        top_logprobs: Number of tokens that the engine lists when letters are scored.
    """

    encoding: Encoding
    tokens_name: str = "max_tokens"
    seed: int | None = None
    top_logprobs: int = 20


class ChatLM(ImageLM):
    """Asks an engine that speaks chat completions, and counts the outcomes (`answer_counts`).

    Complete and cut answers are scored; other outcomes give "". All images of a row are sent, each at its placeholder
    in the prompt.

    Args:
        options: Options for the conversion of prompts to requests.
        third_party: The host outside of the user's network that gets the images, or None.
        permitted: Sources, joined by +, whose images may go to that host although their terms do not say so.

    Raises:
        InputError: An option is invalid.
    """

    name: str  # the model type
    activity: str  # title of the progress bar
    engine: str  # address or file of the engine, for messages
    engine_model: str  # name of the model in requests

    def __init__(self, options: ChatOptions, third_party: str | None, permitted: str) -> None:
        super().__init__()
        if options.tokens_name not in TOKENS_NAMES:
            raise InputError("max_tokens_name", f"is {options.tokens_name!r}", expected=" or ".join(TOKENS_NAMES))
        check_encoding(options.encoding)
        self._options, self._third_party = options, third_party
        self._permitted = set(str(permitted).split("+"))
        self._first = FirstAnswers()
        self._outcomes, self._ends = Counter[str](), Counter[str]()  # since the last call of `used`
        self._models = Counter[str]()  # names in replies, since then
        self._reported_models: set[str] = set()
        self._scores_nothing = False  # set if no question is answered, as in a dry run

    @classmethod
    def refuse_unknown(cls, names: Collection[str]) -> None:
        """Refuse model arguments that the model type does not have.

        Args:
            names: Names of the arguments that its constructor does not name.

        Raises:
            InputError: One is not lm-eval's own.
        """
        if unknown := sorted({*names} - {*LM_EVALS}):
            expected = ", ".join(name for name in inspect.signature(cls).parameters if name != "lm_eval_options")
            raise InputError("--model_args", f"{cls.name} has no option {', '.join(unknown)}", expected=expected)

    @property
    def tokenizer_name(self) -> str:
        """Name of the model type."""
        return self.name

    def apply_chat_template(self, chat_history: list[dict[str, str]], add_generation_prompt: bool = True) -> str:
        """Keep the turns: the engine applies the model's template.

        Args:
            chat_history: The turns.
            add_generation_prompt: Ignored.

        Returns:
            A text that contains the turns separately.
        """
        return Prompt(chat_history)

    def generate_until(self, requests: list[Instance], disable_tqdm: bool = False) -> list[str]:
        """Ask for answers. Cut answers are included; missing answers are "".

        Args:
            requests: Requests of lm-eval.
            disable_tqdm: Whether to hide the progress bar.

        Returns:
            The answers, in the order of the requests.

        Raises:
            InputError: A prompt has another number of placeholders than its row has images, or a source's terms forbid
                sending its images; both are raised before an image is opened.
            MedfaithError: An image cannot be opened, or as `_take_replies`.
        """
        questions = []
        for request, repeat in iterate_repeats(requests):
            generation_kwargs = cast(Any, request.args)[1]
            request_settings, stops = (
                build_settings(generation_kwargs, self._options.tokens_name, self._options.seed),
                get_stops(generation_kwargs),
            )
            questions.append(Question(request, request_settings, partial(read, stops=stops), stops, repeat))

        def see(request: Instance, reply: Reply) -> None:
            self._first.add(request.doc, reply)

        return self._ask_questions(questions, disable_tqdm, see)

    def loglikelihood(self, requests: list[Instance], disable_tqdm: bool = False) -> list[tuple[float, bool]]:
        """Score option letters, with one request for all letters of a row (letter_scores).

        Other continuations are refused: an engine returns the probabilities of its own answer, not of a given text.

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
        request_settings = letter_scores.build_settings(
            self._options.top_logprobs, self._options.tokens_name, self._options.seed
        )
        read_reply = partial(letter_scores.read, base_url=self.engine)
        questions = [Question(requests[numbers[0]], request_settings, read_reply) for numbers in rows.values()]
        scores_by_number: dict[int, tuple[float, bool]] = {}
        row_scores = []
        for numbers, text in zip(rows.values(), self._ask_questions(questions, disable_tqdm), strict=True):
            letters = [cast(Any, requests[number].args)[1].strip() for number in numbers]
            ranked = letter_scores.rank_letters(text, letters)
            scores_by_number |= dict(zip(numbers, ranked, strict=True))
            row_scores.append([score for score, _ in ranked])
        if (text := letter_scores.describe_missing(row_scores)) and not self._scores_nothing:
            print(f"{self.name}: {text}", file=sys.stderr)
        return [scores_by_number[number] for number in range(len(requests))]

    def _ask_questions(
        self,
        questions: Sequence[Question],
        quiet: bool,
        see: Callable[[Instance, Reply], None] = lambda request, reply: None,
    ) -> list[str]:
        """Ask all questions and return the scored texts; "" for questions without an answer. `see` receives replies."""
        for question in questions:
            self._check(question)
        scored, outcomes, ends = [""] * len(questions), Counter[str](), Counter[str]()
        bar = Progress(title=self.activity, total=len(questions), unit="requests", quiet=quiet)

        def take(place: int, question: Question, reply: Reply | None) -> None:
            bar.update()
            if reply is None:
                return
            scored[place] = reply.scored
            outcomes[reply.outcome] += 1
            if reply.model:
                self._models[reply.model] += 1
            if reply.end:
                ends[f"{reply.outcome}: {reply.end}"] += 1
            if not question.repeat:  # filters read the first copy of a row
                tell_outcome(question.request, reply.outcome, reply.end)
            see(question.request, reply)

        with bar:
            fault = self._take_replies(questions, take)
        answer_counts.count(outcomes)
        self._outcomes += outcomes
        self._ends += ends
        for message in (fault, answer_counts.format_counts(outcomes, ends), self._describe_models()):
            if message:
                print(f"{self.name}: {message}", file=sys.stderr)
        return scored

    def _describe_models(self) -> str:
        """Describe answers of models that have another name than the requested one; "" if there is no new name."""
        names = [name for name in self._models if name != self.engine_model]
        if {*names} <= self._reported_models:
            return ""
        self._reported_models.update(names)
        counts = ", ".join(f"{name} ({self._models[name]:,})" for name in names)
        return (
            f"the engine names another model than {self.engine_model} in {sum(self._models[name] for name in names):,} "
            f"of {self._models.total():,} answers: {counts}; tables show one name for all of them"
        )

    def used(self) -> dict[str, Any]:
        """Return the counts since the last call of this method, and start anew: a model may serve several runs.

        Returns:
            Number of rows, number of each outcome, of each reason of answers that did not end regularly, and, if the
            engine names another model than the requested one, of the answers of each model.
        """
        outcomes, ends, models = self._outcomes, self._ends, self._models
        self._outcomes, self._ends, self._models = Counter(), Counter(), Counter()
        counts: dict[str, Any] = {"rows": outcomes.total(), "outcomes": dict(outcomes)}
        counts |= {"reasons": answer_counts.limit_ends(ends)} if ends else {}
        return counts | ({"models": dict(models)} if {*models} - {self.engine_model} else {})

    @abstractmethod
    def _take_replies(self, questions: Sequence[Question], take: Callable[[int, Question, Reply | None], None]) -> str:
        """Call `take` with each question's index, the question, and its reply; None if it was not asked.

        Returns the reason why questions are left, or "".
        """

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
