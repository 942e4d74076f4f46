"""Base class of the model plug-ins without a chat template, and helpers for lm-eval's requests."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from lm_eval.api.instance import Instance
from lm_eval.api.model import LM
from PIL import Image

from medfaith.loaders.errors import InputError, MedfaithError

from .answer_store import StoredReply
from .chat_form import Reply


class ImageLM(LM):
    """A model that answers questions about images and returns no probabilities of text."""

    MULTIMODAL = True  # lm-eval checks this before it passes documents with images

    def loglikelihood(self, requests: list[Instance], disable_tqdm: bool = False) -> list[tuple[float, bool]]:
        """Refuse log-likelihoods.

        Args:
            requests: Requests of lm-eval.
            disable_tqdm: Ignored.

        Returns:
            Nothing.

        Raises:
            MedfaithError: Always.
        """
        raise self._make_probability_error()

    def loglikelihood_rolling(self, requests: list[Instance], disable_tqdm: bool = False) -> list[float]:
        """Refuse log-likelihoods.

        Args:
            requests: Requests of lm-eval.
            disable_tqdm: Ignored.

        Returns:
            Nothing.

        Raises:
            MedfaithError: Always.
        """
        raise self._make_probability_error()

    def apply_chat_template(self, chat_history: list[dict[str, str]], add_generation_prompt: bool = True) -> str:
        """Join the turns by blank lines.

        Args:
            chat_history: The turns.
            add_generation_prompt: Ignored.

        Returns:
            The text.
        """
        return "\n\n".join(turn["content"] for turn in chat_history)

    def chat_template(self, chat_template: bool | str = False) -> str:
        """Return no chat template.

        Args:
            chat_template: Ignored.

        Returns:
            An empty text.
        """
        return ""

    @property
    def tokenizer_name(self) -> str:
        """Name of the model's class."""
        return type(self).__name__

    def _make_probability_error(self) -> MedfaithError:
        return MedfaithError(
            f"{self.tokenizer_name} answers about images; it gives no probability of text\n"
            "  what to do: run a task that asks for an answer, or medfaith-hf-vlm for log-likelihoods"
        )


def hash_pixels(image: Image.Image) -> str:
    """Describe an image by its mode, its size and a SHA-256 of its pixels.

    Args:
        image: The image.

    Returns:
        Mode, (width, height) and digest, separated by spaces.
    """
    return f"{image.mode} {image.size} {hashlib.sha256(image.tobytes()).hexdigest()}"


def get_images(request: Instance) -> Sequence[Image.Image]:
    """Get the images of a request.

    Args:
        request: The request.

    Returns:
        The images, opened on access; an empty list for a request of text alone.
    """
    arguments = cast(Any, request.args)
    return arguments[2]["visual"] if len(arguments) > 2 else []


def tell_outcome(request: Instance, outcome: str, end: str = "") -> None:
    """Record the outcome of a request (`outcomes.OUTCOMES`) in its row's document, if the document supports it.

    Args:
        request: The request.
        outcome: The outcome.
        end: The server's reason for the end of the answer (`Reply.end`).
    """
    callback = getattr(get_images(request), "tell_outcome", None)
    if callback is not None:
        callback(outcome, end)


def row_id(request: Instance) -> str:
    """Get the id of a request's row.

    Args:
        request: The request.

    Returns:
        The id of the document, or lm-eval's number of the document if it has none.
    """
    doc = request.doc if isinstance(request.doc, Mapping) else {}
    return str(doc.get("id", request.doc_id))


def build_stored_reply(key: str, reply: Reply, request: Instance) -> StoredReply:
    """Build the entry of a request's reply in the store.

    Args:
        key: Key of the answer.
        reply: The reply.
        request: The request.

    Returns:
        The entry.
    """
    return StoredReply(key, reply, request.task_name or "", row_id(request))


def iterate_repeats(requests: Sequence[Instance]) -> Iterator[tuple[Instance, int]]:
    """Iterate over the requests with the number of each among its copies.

    lm-eval's `repeats` option needs one answer for each copy.

    Args:
        requests: Requests; the same object may occur several times.

    Yields:
        Each request with its number: 0 for the first copy.
    """
    repeats: Counter[int] = Counter()
    for request in requests:
        yield request, repeats[id(request)]
        repeats[id(request)] += 1


def parse_batch_size(size: int | str, largest: int | None) -> int:
    """Parse lm-eval's batch size, which may be automatic.

    Args:
        size: The batch size.
        largest: Batch size to use if `size` is automatic; 16 by default.

    Returns:
        The batch size, at least 1.

    Raises:
        InputError: The batch size is invalid.
    """
    if str(size).startswith("auto"):
        return int(largest or 16)
    if not str(size).isdigit() or int(size) < 1:
        raise InputError("batch_size", f"is {size!r}", expected="a positive whole number, or auto")
    return int(size)
