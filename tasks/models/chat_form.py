"""The form of chat completions: what is sent for a prompt with images, and what is read from the reply."""

from __future__ import annotations

import base64
import hashlib
import io
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from lm_eval.models.utils import postprocess_generated_text
from PIL import Image

from ...loaders.errors import InputError
from ..outcomes import ANSWERED, CUT, EMPTY, FILTERED, REFUSED, SCORED

PLACEHOLDER = "<image>"
FORMATS = ("png", "jpeg")
N_STOPS = 4  # strings that every endpoint takes; an answer is cut at all of them when it has come
TOKENS = ("max_gen_toks", "max_new_tokens", "max_tokens", "max_completion_tokens")
TOKENS_NAMES = ("max_tokens", "max_completion_tokens")  # what endpoints call the limit of an answer
DEFAULT_TOKENS = 256
FILTERS = ("content_filter", "content_policy_violation")  # codes of an error that a filter of contents makes

Turn = Mapping[str, str]  # role, content


class Prompt(str):
    """A prompt that remembers the turns that it was put together from; a log shows its text."""

    turns: list[Turn]

    def __new__(cls, turns: Sequence[Turn]) -> Prompt:
        prompt = super().__new__(cls, "\n\n".join(turn["content"] for turn in turns))
        prompt.turns = list(turns)
        return prompt

    def __reduce__(self):  # lm-eval may copy it
        return Prompt, (self.turns,)


class Encoding(NamedTuple):
    """How images are sent. format: one of `FORMATS`; quality: of JPEG, 1 to 100; max_side: pixels, None for any."""

    format: str = "png"
    quality: int = 90
    max_side: int | None = None


class Picture(NamedTuple):
    """An image as it is sent. digest: of its encoded bytes."""

    url: str
    digest: str


class Reply(NamedTuple):
    """What came of one request.

    outcome: one of `OUTCOMES`. text: all that came, of a cut answer too. reasoning: what the server kept apart from the
    answer. reason: the server's word for the end of the answer, or why there is none. version: of the model, as the
    server names it (`system_fingerprint`).
    """

    outcome: str
    text: str = ""
    reasoning: str = ""
    reason: str = ""
    version: str = ""
    prompt_tokens: int | None = None
    answer_tokens: int | None = None

    @property
    def scored(self) -> str:
        """The text that is scored: all of an answer, whole or cut, else "", which no reader takes for one."""
        return self.text if self.outcome in SCORED else ""


def picture(image: Image.Image, encoding: Encoding) -> Picture:
    """An image, mode RGB, as a data URL; smaller where its longest side is more than the encoding allows."""
    if encoding.max_side is not None and max(image.size) > encoding.max_side:
        image = image.copy()
        image.thumbnail((encoding.max_side, encoding.max_side), Image.Resampling.LANCZOS)
    held = io.BytesIO()
    options = {"quality": encoding.quality} if encoding.format == "jpeg" else {"compress_level": 1}
    image.convert("RGB").save(held, encoding.format, **options)
    content = held.getvalue()
    url = f"data:image/{encoding.format};base64,{base64.b64encode(content).decode()}"
    return Picture(url, f"sha256:{hashlib.sha256(content).hexdigest()}")


def turns_of(prompt: str) -> list[Turn]:
    """The turns of a prompt; of a plain text, one of the user's."""
    return prompt.turns if isinstance(prompt, Prompt) else [{"role": "user", "content": prompt}]


def n_placeholders(turns: Iterable[Turn]) -> int:
    """How many images the turns name."""
    return sum(turn["content"].count(PLACEHOLDER) for turn in turns)


def messages(turns: Iterable[Turn], urls: Sequence[str]) -> list[dict[str, Any]]:
    """The messages of a request, each image in the place of its placeholder.

    A turn without an image is text alone, which models without images take, too.

    >>> messages([{"role": "user", "content": "<image>Is it <image>?"}], ["a", "b"])[0]["content"] == [
    ...     {"type": "image_url", "image_url": {"url": "a"}}, {"type": "text", "text": "Is it "},
    ...     {"type": "image_url", "image_url": {"url": "b"}}, {"type": "text", "text": "?"}]
    True
    """
    left = iter(urls)
    return [{"role": turn["role"], "content": _content(turn["content"], left)} for turn in turns]


def _content(text: str, urls: Iterable[str]) -> str | list[dict[str, Any]]:
    first, *others = text.split(PLACEHOLDER)
    if not others:
        return text
    parts = [_text(first)]
    for piece, url in zip(others, urls, strict=False):
        parts += [{"type": "image_url", "image_url": {"url": url}}, _text(piece)]
    return [part for part in parts if part.get("text", "image").strip()]


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def settings(given: Mapping[str, Any], tokens_name: str, seed: int | None) -> dict[str, Any]:
    """A task's generation settings (lm-eval's `generation_kwargs`) as a request has them.

    Without sampling the temperature is 0. An empty list of stop strings is left out: some endpoints refuse it.

    >>> settings({"until": [], "do_sample": False, "max_gen_toks": 64}, "max_tokens", None)
    {'max_tokens': 64, 'temperature': 0.0}
    """
    rest = {name: value for name, value in given.items() if name not in (*TOKENS, "until", "do_sample")}
    limits = [given[name] for name in TOKENS if name in given]
    sampled = {} if given.get("do_sample") else {"temperature": 0.0}
    stops = {"stop": stop[:N_STOPS]} if (stop := stops_of(given)) else {}
    seeded = {"seed": seed} if seed is not None else {}
    return {tokens_name: limits[0] if limits else DEFAULT_TOKENS, **sampled, **stops, **seeded, **rest}


def stops_of(given: Mapping[str, Any]) -> list[str]:
    """The stop strings of a task's generation settings."""
    stop = given.get("until") or []
    return [text for text in ([stop] if isinstance(stop, str) else stop) if text]


def read(body: Any, stops: Sequence[str] = ()) -> Reply:
    """Return the reply in the body of a response.

    A text that has a stop string ends there. It is no cut answer, though the server went on to the limit of tokens.

    Raises:
        ValueError: The body is no chat completion.
    """
    try:
        choice = body["choices"][0]
        message = choice["message"]
        content, refusal = _joined(message.get("content")), str(message.get("refusal") or "")
        text = postprocess_generated_text(content, list(stops), None)
        finish, usage = str(choice.get("finish_reason") or ""), body.get("usage") or {}
        return Reply(
            outcome=_outcome(text, refusal, "stop" if len(text) < len(content) else finish),
            text=text or refusal,
            reasoning=str(message.get("reasoning_content") or message.get("reasoning") or ""),
            reason=finish,
            version=str(body.get("system_fingerprint") or ""),
            prompt_tokens=usage.get("prompt_tokens"),
            answer_tokens=usage.get("completion_tokens"),
        )
    except (KeyError, IndexError, TypeError, AttributeError) as error:
        raise ValueError(f"{str(body)[:200]!r} is no chat completion") from error


def _joined(content: Any) -> str:
    """A message's text, which some servers send in parts."""
    if isinstance(content, list):
        return "".join(str(part.get("text") or "") for part in content)
    return str(content or "")


def _outcome(text: str, refusal: str, finish: str) -> str:
    if refusal:
        return REFUSED
    ends = {"length": CUT, "max_tokens": CUT, "content_filter": FILTERED}
    return ends.get(finish, ANSWERED if text.strip() else EMPTY)


def check_encoding(encoding: Encoding) -> None:
    """Raises InputError for a way to send images that there is not."""
    if encoding.format not in FORMATS:
        raise InputError("image_format", f"is {encoding.format!r}", expected=" or ".join(FORMATS))
    if not 1 <= encoding.quality <= 100:
        raise InputError("image_quality", f"is {encoding.quality}", expected="a number from 1 to 100")
    if encoding.max_side is not None and encoding.max_side < 1:
        raise InputError("image_max_side", f"is {encoding.max_side}", expected="a positive number of pixels")
