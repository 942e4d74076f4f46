"""What a run takes of a server: requests, tokens and their price; and before the start, an estimate of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ..outcomes import UNANSWERED
from .answer_store import AnswerStore
from .chat_form import TOKENS_NAMES, Picture, Reply
from .image_lm import images_of
from .server_requests import Endpoint, Question, pictures_of

LOOKED_AT = 50  # rows whose images an estimate encodes
CHARACTERS = 4  # of a token, about, where no server has counted
_MILLION = 1_000_000


class DryRunEnd(Exception):  # noqa: N818 - nothing is wrong
    """A dry run has seen all requests; it says what a run would take."""


class Prices(NamedTuple):
    """Of a million tokens, in any currency; None where it is not known."""

    prompt: float | None = None
    answer: float | None = None

    def of(self, prompt_tokens: float, answer_tokens: float) -> float | None:
        """Of so many tokens."""
        if self.prompt is None or self.answer is None:
            return None
        return (self.prompt * prompt_tokens + self.answer * answer_tokens) / _MILLION


@dataclass
class Usage:
    """What the requests of a run took. outcomes: of its rows; kept: rows that a store had already answered.

    prompt_tokens, answer_tokens: as the server counts them; of kept rows none, since they were paid for before.
    uncounted: answers of which the server does not say how many tokens they took.
    """

    outcomes: Counter[str] = field(default_factory=Counter)
    kept: int = 0
    prompt_tokens: int = 0
    answer_tokens: int = 0
    uncounted: int = 0

    def add(self, reply: Reply, kept: bool) -> None:
        """One more reply. kept: the store had it."""
        self.outcomes[reply.outcome] += 1
        self.kept += kept
        if kept or reply.outcome == UNANSWERED:
            return
        if reply.prompt_tokens is None or reply.answer_tokens is None:
            self.uncounted += 1
        else:
            self.prompt_tokens += reply.prompt_tokens
            self.answer_tokens += reply.answer_tokens

    def told(self, prices: Prices) -> dict[str, Any]:
        """As the results keep it. price: in the currency of the prices; None without them."""
        return {
            "rows": self.outcomes.total(),
            "rows_answered_before": self.kept,
            "outcomes": dict(self.outcomes),
            "prompt_tokens": self.prompt_tokens,
            "answer_tokens": self.answer_tokens,
            "answers_without_token_counts": self.uncounted,
            "price": prices.of(self.prompt_tokens, self.answer_tokens),
        }


@dataclass
class Estimate:
    """What a run would take. Its figures are of all rows; `LOOKED_AT` rows of each task tell the size of images.

    image_bytes: of the encoded images; text: characters of the prompts; most: tokens that all answers may have.
    """

    requests: int = 0
    images: int = 0
    image_bytes: float = 0
    text: int = 0
    most: int = 0

    def add(self, endpoint: Endpoint, questions: Sequence[Question]) -> None:
        """Some more requests. Raises MedfaithError for an image that cannot be opened."""
        every = max(1, len(questions) // LOOKED_AT)
        looked_at = [pictures_of(question, endpoint.encoding) for question in questions[::every]]
        n_pictures = sum(map(len, looked_at))
        n_images = sum(len(images_of(question.request)) for question in questions)
        self.requests += len(questions)
        self.images += n_images
        self.image_bytes += n_images * sum(map(_n_bytes, _flat(looked_at))) / max(n_pictures, 1)
        self.text += sum(len(turn["content"]) for question in questions for turn in question.turns)
        self.most += sum(_limit(question.settings) for question in questions)

    def report(self, endpoint: Endpoint, store: AnswerStore, prices: Prices) -> str:
        """What a person reads. store: says how many tokens the server counted in answers that are kept."""
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
            least, most = prices.of(prompt, answer), prices.of(prompt, self.most)
            lines += [f"  price: about {least:,.2f}; at most {most:,.2f}"] if least is not None else []
        else:
            lines += [
                f"  prompt tokens: about {self.text / CHARACTERS:,.0f} of text; those of the images come on top, and "
                "each model has its own number",
                f"  answer tokens: at most {self.most:,}",
                "  what to do: run it once with --limit 20 and answers=FILE in --model_args; then --dry-run counts "
                "with the tokens that the server counted",
            ]
            most = prices.of(self.text / CHARACTERS, self.most)
            lines += [f"  price: at most {most:,.2f} without the images"] if most is not None else []
        if store.n_answers:
            lines.append(f"  {store.n_answers:,} answers are kept; a row that one of them answers is not asked again")
        return "\n".join(lines)


def _flat(rows: Sequence[Sequence[Picture]]) -> list[Picture]:
    return [picture for row in rows for picture in row]


def _n_bytes(picture: Picture) -> int:
    return 3 * len(picture.url) // 4  # base64


def _limit(settings: Mapping[str, Any]) -> int:
    """How many tokens an answer may have."""
    return next(int(settings[name]) for name in TOKENS_NAMES if name in settings)
