"""What the model plug-ins share: what lm-eval wants to know of a model without a chat template, and its requests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from lm_eval.api.instance import Instance
from lm_eval.api.model import LM
from PIL import Image

from medfaith.loaders.errors import InputError, MedfaithError


class ImageLM(LM):
    """A model of images that answers, and gives no probability of text."""

    MULTIMODAL = True  # lm-eval asks this before it gives a model a document with images

    def loglikelihood(self, requests: list[Instance], disable_tqdm: bool = False) -> list[tuple[float, bool]]:
        raise self._no_probability()

    def loglikelihood_rolling(self, requests: list[Instance], disable_tqdm: bool = False) -> list[float]:
        raise self._no_probability()

    def apply_chat_template(self, chat_history: list[dict[str, str]], add_generation_prompt: bool = True) -> str:
        return "\n\n".join(turn["content"] for turn in chat_history)

    def chat_template(self, chat_template: bool | str = False) -> str:
        return ""

    @property
    def tokenizer_name(self) -> str:
        return type(self).__name__

    def _no_probability(self) -> MedfaithError:
        return MedfaithError(
            f"{self.tokenizer_name} answers about images; it gives no probability of text\n"
            "  what to do: run a task that asks for an answer, or medfaith-hf-vlm for log-likelihoods"
        )


def images_of(request: Instance) -> Sequence[Image.Image]:
    """The images that a request shows."""
    arguments = cast(Any, request.args)
    return arguments[2]["visual"] if len(arguments) > 2 else []


def tell_outcome(request: Instance, outcome: str) -> None:
    """Lets the row's document say what became of its request (`outcomes.OUTCOMES`), where it keeps that."""
    told = getattr(images_of(request), "tell_outcome", None)
    if told is not None:
        told(outcome)


def row_id(request: Instance) -> str:
    """The id of the row that a request asks about."""
    doc = request.doc if isinstance(request.doc, Mapping) else {}
    return str(doc.get("id", request.doc_id))


def number_at_once(size: int | str, largest: int | None) -> int:
    """lm-eval's batch size, which may be automatic, as a number. Raises InputError for what is none."""
    if str(size).startswith("auto"):
        return int(largest or 16)
    if not str(size).isdigit() or int(size) < 1:
        raise InputError("batch_size", f"is {size!r}", expected="a positive whole number, or auto")
    return int(size)
