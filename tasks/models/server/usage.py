"""Resources that a run takes from a server: requests, tokens and their price; and an estimate before the start."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ...outcomes import UNANSWERED
from ..answer_store import AnswerStore
from ..chat_form import TOKENS_NAMES, Picture, Reply
from ..image_lm import get_images
from .requests import Endpoint, Question, pictures_of

N_ENCODED = 50  # rows whose images an estimate encodes
CHARACTERS = 4  # approximate characters per token, without a server's count
_MILLION = 1_000_000


class DryRunEnd(Exception):  # noqa: N818 - not an error
    """The end of a dry run, with the estimate of the resources."""


class Prices(NamedTuple):
    """Prices of a million tokens, in any currency; None if unknown.

    Attributes:
        prompt: Price of prompt tokens.
        answer: Price of answer tokens.
    """

    prompt: float | None = None
    answer: float | None = None

    def compute(self, prompt_tokens: float, answer_tokens: float) -> float | None:
        """Compute the price of tokens, or None if a price is unknown.

        Args:
            prompt_tokens: Number of prompt tokens.
            answer_tokens: Number of answer tokens.

        Returns:
            The price, in the currency of the prices.
        """
        if self.prompt is None or self.answer is None:
            return None
        return (self.prompt * prompt_tokens + self.answer * answer_tokens) / _MILLION


@dataclass
class Usage:
    """Resources of a run's requests.

    Attributes:
        outcomes: Number of rows by outcome.
        n_stored: Rows whose answer was in the store.
        prompt_tokens: Prompt tokens that the server counted, without stored answers.
        answer_tokens: Answer tokens that the server counted, without stored answers.
        uncounted: Answers without token counts.
    """

    outcomes: Counter[str] = field(default_factory=Counter)
    n_stored: int = 0
    prompt_tokens: int = 0
    answer_tokens: int = 0
    uncounted: int = 0

    def add(self, reply: Reply, was_stored: bool) -> None:
        """Add a reply.

        Args:
            reply: The reply.
            was_stored: Whether the reply was in the store.
        """
        self.outcomes[reply.outcome] += 1
        self.n_stored += was_stored
        if was_stored or reply.outcome == UNANSWERED:
            return
        if reply.prompt_tokens is None or reply.answer_tokens is None:
            self.uncounted += 1
        else:
            self.prompt_tokens += reply.prompt_tokens
            self.answer_tokens += reply.answer_tokens

    def describe(self, prices: Prices) -> dict[str, Any]:
        """Build the record of the usage for the results.

        Args:
            prices: Prices, which give the price in their currency, or None.

        Returns:
            Counts of rows, outcomes and tokens, and the price.
        """
        return {
            "rows": self.outcomes.total(),
            "rows_answered_before": self.n_stored,
            "outcomes": dict(self.outcomes),
            "prompt_tokens": self.prompt_tokens,
            "answer_tokens": self.answer_tokens,
            "answers_without_token_counts": self.uncounted,
            "price": prices.compute(self.prompt_tokens, self.answer_tokens),
        }


@dataclass
class Estimate:
    """Expected resources of a run. About `N_ENCODED` rows of each task determine the size of images.

    Attributes:
        requests: Number of requests.
        images: Number of images.
        image_bytes: Bytes of the encoded images.
        text: Characters of the prompts.
        most: Maximum number of answer tokens.
    """

    requests: int = 0
    images: int = 0
    image_bytes: float = 0
    text: int = 0
    most: int = 0

    def add(self, endpoint: Endpoint, questions: Sequence[Question]) -> None:
        """Add requests.

        Args:
            endpoint: The server.
            questions: The requests.

        Raises:
            MedfaithError: An image cannot be opened.
        """
        step = max(1, len(questions) // N_ENCODED)
        encoded = [pictures_of(question, endpoint.encoding) for question in questions[::step]]
        n_pictures = sum(map(len, encoded))
        n_images = sum(len(get_images(question.request)) for question in questions)
        self.requests += len(questions)
        self.images += n_images
        self.image_bytes += n_images * sum(map(_count_bytes, _join_rows(encoded))) / max(n_pictures, 1)
        self.text += sum(len(turn["content"]) for question in questions for turn in question.turns)
        self.most += sum(_get_limit(question.settings) for question in questions)

    def format(self, endpoint: Endpoint, store: AnswerStore, prices: Prices) -> str:
        """Format the estimate for the user.

        Args:
            endpoint: The server.
            store: Store whose answers have token counts.
            prices: Prices of tokens.

        Returns:
            Several lines.
        """
        counted = store.mean_tokens()
        lines = [
            f"medfaith-server would send {self.requests:,} requests to {endpoint.url}; nothing is sent now.",
            f"  images: {self.images:,}, about {self.image_bytes / _MILLION:,.1f} MB as {endpoint.encoding.format}",
        ]
        if counted.n:
            prompt, answer = self.requests * counted.prompt, self.requests * counted.answer
            lines += [
                f"  prompt tokens: about {prompt:,.0f}, as the server counted in {counted.n:,} answers that are kept",
                f"  answer tokens: about {answer:,.0f}; at most {self.most:,}",
            ]
            expected_price, maximum_price = prices.compute(prompt, answer), prices.compute(prompt, self.most)
            lines += (
                [f"  price: about {expected_price:,.2f}; at most {maximum_price:,.2f}"]
                if expected_price is not None
                else []
            )
        else:
            lines += [
                f"  prompt tokens: about {self.text / CHARACTERS:,.0f} of text; those of the images come on top, and "
                "each model has its own number",
                f"  answer tokens: at most {self.most:,}",
                "  what to do: run it once with --limit 20 and answers=FILE in --model_args; then --dry-run counts "
                "with the tokens that the server counted",
            ]
            maximum_price = prices.compute(self.text / CHARACTERS, self.most)
            lines += [f"  price: at most {maximum_price:,.2f} without the images"] if maximum_price is not None else []
        if store.n_answers:
            lines.append(f"  {store.n_answers:,} answers are kept; a row that one of them answers is not asked again")
        return "\n".join(lines)


def _join_rows(rows: Sequence[Sequence[Picture]]) -> list[Picture]:
    return [picture for row in rows for picture in row]


def _count_bytes(picture: Picture) -> int:
    return 3 * len(picture.url) // 4  # base64


def _get_limit(settings: Mapping[str, Any]) -> int:
    """Get the maximum number of tokens of an answer."""
    return next(int(settings[name]) for name in TOKENS_NAMES if name in settings)
