"""The format of chat completions: requests for prompts with images, and replies."""

from __future__ import annotations

import base64
import hashlib
import io
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from PIL import Image

from ...loaders.errors import InputError
from ...loaders.escaping import escape_controls
from ..outcomes import ANSWERED, CUT, EMPTY, FILTERED, REFUSED, SCORED, UNANSWERED

PLACEHOLDER = "<image>"
FORMATS = ("png", "jpeg")
N_STOPS = 4  # stop strings that every endpoint accepts; the reply is cut at all stop strings afterwards
TOKENS = ("max_gen_toks", "max_new_tokens", "max_tokens", "max_completion_tokens")
TOKENS_NAMES = ("max_tokens", "max_completion_tokens")  # names of the token limit at different endpoints
DEFAULT_TOKENS = 256
FILTERS = ("content_filter", "content_policy_violation")  # error codes of content filters

Turn = Mapping[str, str]  # with keys role and content


class Prompt(str):
    """A prompt string that keeps the turns it was joined from; a log shows its text."""

    turns: list[Turn]

    def __new__(cls, turns: Sequence[Turn]) -> Prompt:
        """Join turns to a prompt.

        Args:
            turns: The turns.
        """
        prompt = super().__new__(cls, "\n\n".join(turn["content"] for turn in turns))
        prompt.turns = list(turns)
        return prompt

    def __reduce__(self):  # lm-eval may copy the prompt
        return Prompt, (self.turns,)


class Encoding(NamedTuple):
    """How images are encoded.

    Attributes:
        format: One of `FORMATS`.
        quality: JPEG quality, 1 to 100.
        max_side: Maximum side length in pixels, or None for no limit.
    """

    format: str = "png"
    quality: int = 90
    max_side: int | None = None


# Reasons for the end of an answer (`finish_reason`), in the words of several servers. "" is none.
ENDS = {
    ANSWERED: ("", "stop", "eos", "eos_token", "end_turn", "stop_sequence", "complete", "completed", "tool_calls"),
    CUT: ("length", "max_tokens", "model_length"),
    FILTERED: (
        "content_filter", "safety", "recitation", "blocklist", "prohibited_content", "spii",
        "image_safety", "image_recitation", "image_prohibited_content",
    ),
    REFUSED: ("refusal",),
}  # fmt: skip
ANSWER_PARTS = ("text", "output_text")  # types of the parts of a message that hold its answer


LONGEST_END = 100  # characters of a reason in a sample log


class Picture(NamedTuple):
    """An encoded image.

    Attributes:
        url: Data URL.
        digest: Hash of the encoded bytes.
    """

    url: str
    digest: str


class Reply(NamedTuple):
    """The result of one request.

    Attributes:
        outcome: One of `OUTCOMES`.
        text: All generated text, including that of a cut answer.
        reasoning: Reasoning text that the server separates from the answer.
        reason: The server's reason for the end of the answer, or the reason why there is no answer.
        version: Version of the model that the server reports (`system_fingerprint`).
        prompt_tokens: Number of prompt tokens, if counted.
        answer_tokens: Number of answer tokens, if counted.
        model: Name of the model that the server reports, which may be another one than the request names.
    """

    outcome: str
    text: str = ""
    reasoning: str = ""
    reason: str = ""
    version: str = ""
    prompt_tokens: int | None = None
    answer_tokens: int | None = None
    model: str = ""

    @property
    def scored(self) -> str:
        """The text to score: the answer, complete or cut, or "" for other outcomes."""
        return self.text if self.outcome in SCORED else ""

    @property
    def end(self) -> str:
        """The reason of an answer that did not end regularly, or of a missing one, in the server's words; else ""."""
        is_regular = self.outcome == ANSWERED or self.reason.lower() in ENDS[ANSWERED]  # such as a stop string
        return "" if is_regular else escape_controls(" ".join(self.reason.split()))[:LONGEST_END]


def encode_picture(image: Image.Image, encoding: Encoding) -> Picture:
    """Encode an image as a data URL, after reducing it to the maximum side length.

    Args:
        image: The image.
        encoding: Format and size.

    Returns:
        The data URL, and a digest of the encoded file.
    """
    if encoding.max_side is not None and max(image.size) > encoding.max_side:
        image = image.copy()
        image.thumbnail((encoding.max_side, encoding.max_side), Image.Resampling.LANCZOS)
    buffer = io.BytesIO()
    options = {"quality": encoding.quality} if encoding.format == "jpeg" else {"compress_level": 1}
    image.convert("RGB").save(buffer, encoding.format, **options)
    content = buffer.getvalue()
    url = f"data:image/{encoding.format};base64,{base64.b64encode(content).decode()}"
    return Picture(url, f"sha256:{hashlib.sha256(content).hexdigest()}")


def get_turns(prompt: str) -> list[Turn]:
    """Get the turns of a prompt. A plain text is one user turn.

    Args:
        prompt: The prompt.

    Returns:
        The turns, each with role and content.
    """
    return prompt.turns if isinstance(prompt, Prompt) else [{"role": "user", "content": prompt}]


def count_placeholders(turns: Iterable[Turn]) -> int:
    """Count the image placeholders in the turns.

    Args:
        turns: The turns.

    Returns:
        The number in all turns together.
    """
    return sum(turn["content"].count(PLACEHOLDER) for turn in turns)


def build_messages(turns: Iterable[Turn], urls: Sequence[str]) -> list[dict[str, Any]]:
    """Build the messages of a request, with each image at its placeholder.

    A turn without images has plain text, which models without images accept.

    Args:
        turns: The turns.
        urls: URLs of the images.

    Returns:
        The messages in OpenAI's format.

    >>> build_messages([{"role": "user", "content": "<image>Is it <image>?"}], ["a", "b"])[0]["content"] == [
    ...     {"type": "image_url", "image_url": {"url": "a"}}, {"type": "text", "text": "Is it "},
    ...     {"type": "image_url", "image_url": {"url": "b"}}, {"type": "text", "text": "?"}]
    True
    """
    remaining_urls = iter(urls)
    return [{"role": turn["role"], "content": _build_content(turn["content"], remaining_urls)} for turn in turns]


def _build_content(text: str, urls: Iterable[str]) -> str | list[dict[str, Any]]:
    prefix, *pieces = text.split(PLACEHOLDER)
    if not pieces:
        return text
    content = [_build_text_part(prefix)]
    for piece, url in zip(pieces, urls, strict=False):
        content += [{"type": "image_url", "image_url": {"url": url}}, _build_text_part(piece)]
    return [entry for entry in content if entry.get("text", "image").strip()]


def _build_text_part(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def build_settings(generation_kwargs: Mapping[str, Any], tokens_name: str, seed: int | None) -> dict[str, Any]:
    """Convert a task's generation settings (lm-eval's `generation_kwargs`) to settings of a request.

    Without sampling, the temperature is 0. An empty list of stop strings is omitted, because some endpoints refuse it.

    Args:
        generation_kwargs: Settings of the task.
        tokens_name: The endpoint's name of the token limit.
        seed: Seed of the request, or None.

    Returns:
        The settings: token limit, temperature, stop strings, seed, and all other settings unchanged.

    >>> build_settings({"until": [], "do_sample": False, "max_gen_toks": 64}, "max_tokens", None)
    {'max_tokens': 64, 'temperature': 0.0}
    """
    other_settings = {
        name: value for name, value in generation_kwargs.items() if name not in (*TOKENS, "until", "do_sample")
    }
    limits = [generation_kwargs[name] for name in TOKENS if name in generation_kwargs]
    sampled = {} if generation_kwargs.get("do_sample") else {"temperature": 0.0}
    stops = {"stop": stop[:N_STOPS]} if (stop := get_stops(generation_kwargs)) else {}
    seeded = {"seed": seed} if seed is not None else {}
    return {tokens_name: limits[0] if limits else DEFAULT_TOKENS, **sampled, **stops, **seeded, **other_settings}


def get_stops(generation_kwargs: Mapping[str, Any]) -> list[str]:
    """Get the stop strings of a task's generation settings.

    Args:
        generation_kwargs: Settings of the task.

    Returns:
        The stop strings; empty ones are left out.
    """
    stop = generation_kwargs.get("until") or []
    return [text for text in ([stop] if isinstance(stop, str) else stop) if text]


def read(body: Any, stops: Sequence[str] = ()) -> Reply:
    """Read the reply in the body of a response.

    A text that contains a stop string ends there. It does not count as cut, even if the server reached the token limit.

    Args:
        body: Body of the response.
        stops: Stop strings.

    Returns:
        Text, reasoning, outcome and token counts. A refusal's text is used if the message has no other text.

    Raises:
        ValueError: The body is not a chat completion.
    """
    from lm_eval.models.utils import postprocess_generated_text

    try:
        choice = body["choices"][0]
        finish, usage = str(choice.get("finish_reason") or ""), body.get("usage")
        is_stopped = choice.get("message") is None and _find_end(finish) == FILTERED  # nothing is left to send
        message = {} if is_stopped else choice["message"]
        content = _split_content(message.get("content"))
        refusal = replace_surrogates(str(message.get("refusal") or "") or content.refusal)
        text = postprocess_generated_text(content.text, list(stops), None)
        reasoning = message.get("reasoning_content") or message.get("reasoning") or content.reasoning
        usage = usage if isinstance(usage, Mapping) else {}
        return Reply(
            outcome=_compute_outcome(text, refusal, "stop" if len(text) < len(content.text) else finish),
            text=text or refusal,
            reasoning=replace_surrogates(str(reasoning)),
            reason=replace_surrogates(finish),
            version=replace_surrogates(str(body.get("system_fingerprint") or "")),
            prompt_tokens=_parse_count(usage.get("prompt_tokens")),
            answer_tokens=_parse_count(usage.get("completion_tokens")),
            model=replace_surrogates(str(body.get("model") or "")),
        )
    except (KeyError, IndexError, TypeError, AttributeError) as error:
        raise ValueError(f"{str(body)[:200]!r} is no chat completion") from error


class _Content(NamedTuple):
    """The content of a message: the text of its answer, its reasoning and its refusal."""

    text: str = ""
    reasoning: str = ""
    refusal: str = ""


def _split_content(content: Any) -> _Content:
    """Split the content of a message, which some servers send in parts. Other parts than `ANSWER_PARTS` are no answer.

    Raises AttributeError or TypeError for content that is neither a text nor a list of parts.
    """
    if content is None or isinstance(content, str):
        return _Content(replace_surrogates(content or ""))
    texts: dict[str, list[str]] = {name: [] for name in _Content._fields}
    for part in content:
        kind = part.get("type") or "text"
        name = "text" if kind in ANSWER_PARTS else "refusal" if kind == "refusal" else "reasoning"
        texts[name].append(str(part.get("text") or part.get(kind) or ""))
    return _Content(**{name: replace_surrogates("".join(parts)) for name, parts in texts.items()})


def replace_surrogates(text: str) -> str:
    """Replace halves of surrogate pairs, which JSON can spell and no file in UTF-8 can hold.

    Args:
        text: A text that was parsed from JSON.

    Returns:
        The text with U+FFFD for each half.

    >>> replace_surrogates("\\ud83dA") == "\ufffdA", replace_surrogates("A") == "A"
    (True, True)
    """
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _parse_count(value: Any) -> int | None:
    """Parse a number of tokens, which some gateways write as a text; None if it is no number."""
    try:
        return int(value)
    except (TypeError, ValueError, OverflowError):
        return None


def _find_end(finish: str) -> str:
    """Convert a server's finish reason to an outcome; an unknown reason gives UNANSWERED.

    Some servers add a detail, such as "content_filter: RECITATION".
    """
    reason = finish.lower().partition(":")[0].strip()
    return next((outcome for outcome, reasons in ENDS.items() if reason in reasons), UNANSWERED)


def _compute_outcome(text: str, refusal: str, finish: str) -> str:
    """Compute the outcome of a reply from its text, its refusal and the finish reason.

    A reply that ends for an unknown reason, such as an error, is unanswered, and a complete one without text is empty.
    """
    if refusal:
        return REFUSED
    outcome = _find_end(finish)
    return EMPTY if outcome == ANSWERED and not text.strip() else outcome


def check_encoding(encoding: Encoding) -> None:
    """Check the settings of an image encoding.

    Args:
        encoding: The settings.

    Raises:
        InputError: A setting is invalid.
    """
    if encoding.format not in FORMATS:
        raise InputError("image_format", f"is {encoding.format!r}", expected=" or ".join(FORMATS))
    if not 1 <= encoding.quality <= 100:
        raise InputError("image_quality", f"is {encoding.quality}", expected="a number from 1 to 100")
    if encoding.max_side is not None and encoding.max_side < 1:
        raise InputError("image_max_side", f"is {encoding.max_side}", expected="a positive number of pixels")
