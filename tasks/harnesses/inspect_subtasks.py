"""The subtasks of a task of Inspect: our lm-eval tasks, each under one condition, and their logged answers.

A sample of Inspect holds the fields of lm-eval's sample log: the document, and the results of each filter and of
`process_results` for the answer. `inspect score` and `medfaith report` compute all figures from these fields, and
the figures equal lm-eval's.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from inspect_ai.dataset import Sample
from inspect_ai.model import Content, ContentImage, ContentText, Model, ModelName, ModelOutput

from ...loaders.errors import InputError
from .. import lm_eval_internals
from ..models.chat_form import Encoding, Reply, build_messages, count_placeholders, encode_picture, get_turns
from ..models.server import access, letter_scores
from ..outcomes import ANSWERED, CUT, EMPTY, FILTERED, REFUSED
from . import questions

# Keys of a sample's metadata. The label begins its id and the names of its figures if a task has several subtasks.
DOC, READINGS, RESPONSE, LABEL = "doc", "readings", "response", "label"
# Keys of the log's metadata: a description of each subtask, and the plan of an audit.
SUBTASKS, AUDIT = "medfaith_parts", "medfaith_audit"
LISTED = 20  # tokens that a provider lists when letters are scored, as for medfaith-server
# Providers that load the model on this machine, or start a server there.
LOCAL = ("mockllm", "none", "hf", "vllm", "sglang", "transformer_lens", "nnterp", "ollama", "llama-cpp-python")


class Subtask(NamedTuple):
    """One of our lm-eval tasks under one condition.

    Attributes:
        task: The lm-eval task with its rows.
        condition: The control, the wording, or both; "" for the image and the question's own words.
        metadata: The control and the wording, as metadata of the task.
    """

    task: Any
    condition: str = ""
    metadata: Mapping[str, Any] = {}

    @property
    def name(self) -> str:
        """The name of the task."""
        return self.task.config.task

    @property
    def label(self) -> str:
        """The name of the task and the condition: "medfaith_heal_vindr_closed/none"."""
        return "/".join(filter(None, [self.name, self.condition]))

    @property
    def scores_letters(self) -> bool:
        """Whether the letters of the options are scored by the likeliest first tokens of the answer."""
        return self.task.config.output_type == "multiple_choice"

    @property
    def settings(self) -> dict[str, Any]:
        """The task's settings of generation, with Inspect's names."""
        if self.scores_letters:
            return {"max_tokens": 1, "temperature": 0.0, "stop_seqs": None, "logprobs": True, "top_logprobs": LISTED}
        generation = self.task.config.generation_kwargs
        return {
            "max_tokens": generation["max_gen_toks"],
            "temperature": generation["temperature"],
            "stop_seqs": generation["until"] or None,
            "logprobs": None,
            "top_logprobs": None,
        }

    def describe(self) -> dict[str, Any]:
        """Describe the subtask for the log, which is read without rows."""
        config = self.task.config
        return {
            "task": self.name,
            "condition": self.condition,
            "metadata": dict(self.metadata),
            "version": config.metadata.get("version"),
            "dataset_kwargs": _encode(config.dataset_kwargs),
            "settings": self.settings,
            "filters": [*questions.get_filters(config)],
            "n": len(self.task.test_docs()),
        }


class Permission(NamedTuple):
    """The permission to send images and texts out of the user's network, as for `medfaith-server`.

    Attributes:
        host: The host or the provider of Inspect that the user named, or None.
        sources: Sources whose owners permit it although their terms do not.
    """

    host: str | None = None
    sources: Sequence[str] = ()

    def check(self, model: Model, subtask: Subtask, row: int) -> None:
        """Check whether a row may go to a model.

        Args:
            model: The model.
            subtask: The subtask.
            row: Number of the row.

        Raises:
            InputError: The model belongs to a third party that the user did not name, or a source's terms forbid it.
        """
        third_party = find_third_party(ModelName(model).api, model.api.base_url)
        access.check_named(third_party, self.host)
        if third_party:
            access.check_licences(subtask.task.test_docs()[row]["images"].sources, third_party, self.sources)


@functools.cache
def find_third_party(provider: str, url: str | None) -> str | None:
    """Find the third party that receives a model's requests.

    Args:
        provider: Inspect's name of the provider.
        url: URL of its server, if it has one.

    Returns:
        The host, or the provider without URL; None for a model on the user's machines.
    """
    if url:
        host = access.parse_host(url)
        return host if access.is_third_party(host) else None
    return None if provider in LOCAL else provider


def build_samples(subtasks: Sequence[Subtask]) -> Iterator[Sample]:
    """Build the samples of all subtasks, in the order of the rows. The images stay closed.

    Args:
        subtasks: The subtasks.

    Yields:
        The samples. Their ids are the ids of the rows, after the label of the subtask if there are several.
    """
    for number, subtask in enumerate(subtasks):
        label = f"{subtask.label}/" if len(subtasks) > 1 else ""
        for row, doc in enumerate(subtask.task.test_docs()):
            prompt = "\n".join(filter(None, questions.split_prompt(subtask.task, doc)))
            metadata = {"task": subtask.name, LABEL: label, "part": number, "row": row, DOC: _encode(doc)}
            target = subtask.task.doc_to_target(doc)
            target = subtask.task.doc_to_choice(doc)[target] if subtask.scores_letters else target
            yield Sample(id=f"{label}{doc['id']}", input=prompt, target=target, metadata=metadata)


def build_content(subtask: Subtask, row: int) -> str | list[Content]:
    """Build the message of a row, as `medfaith-server` sends it: each image at its placeholder in the prompt.

    Args:
        subtask: The subtask.
        row: Number of the row.

    Returns:
        A plain text for a row without images.

    Raises:
        InputError: The prompt has another number of placeholders than the row has images.
        ImageError: An image cannot be opened.
    """
    doc = subtask.task.test_docs()[row]
    turns, images = get_turns(subtask.task.doc_to_text(doc)), doc["images"][:]
    if (n_named := count_placeholders(turns)) != len(images):
        problem = f"the prompt has {n_named} image placeholders for {len(images)} images"
        raise InputError(f"task {subtask.name!r}", problem, row=doc["id"])
    (message,) = build_messages(turns, [encode_picture(image, Encoding()).url for image in images])
    content = message["content"]
    if isinstance(content, str):
        return content
    return [
        ContentText(text=piece["text"]) if piece["type"] == "text" else ContentImage(image=piece["image_url"]["url"])
        for piece in content
    ]


def read_answer(subtask: Subtask, row: int, output: ModelOutput) -> dict[str, Any]:
    """Read an answer with all filters of the task, as lm-eval does.

    Args:
        subtask: The subtask.
        row: Number of the row.
        output: The model's output.

    Returns:
        The document, with the outcome of the request; the text to score; and each filter's readings.
    """
    reply = Reply(find_outcome(output), output.completion, reason=output.stop_reason if output.choices else "")
    if subtask.scores_letters and reply.outcome not in (FILTERED, REFUSED):
        logprobs = output.choices[0].logprobs if output.choices else None
        reply = letter_scores.read_likeliest(reply, logprobs.model_dump() if logprobs else None, output.model)
    response, outcome = reply.scored, reply.outcome
    subtask.task.test_docs()[row]["images"].tell_outcome(outcome, reply.end)
    doc, config = subtask.task.test_docs()[row], subtask.task.config  # read again: its columns hold the outcome now
    readings = {}
    for name in questions.get_filters(config):
        if subtask.scores_letters:
            filtered = letter_scores.rank_letters(response, subtask.task.doc_to_choice(doc))
            results = filtered
        else:
            filtered = questions.read(config, doc, response, name)
            results = [filtered]
        readings[name] = {"filtered": filtered, "values": _encode(config.process_results(dict(doc), results))}
    return {DOC: _encode(doc), RESPONSE: response, READINGS: readings}


def find_outcome(output: ModelOutput) -> str:
    """Find the outcome of a request, by the same rule as for `medfaith-server`.

    Args:
        output: The model's output.

    Returns:
        One of `outcomes.OUTCOMES`.
    """
    content = output.message.content if output.choices else ""
    if not isinstance(content, str) and any(isinstance(piece, ContentText) and piece.refusal for piece in content):
        return REFUSED
    ends = {"max_tokens": CUT, "model_length": CUT, "content_filter": FILTERED}
    stop_reason = output.stop_reason if output.choices else ""
    return ends.get(stop_reason, ANSWERED if output.completion.strip() else EMPTY)


def _encode(value: Any) -> Any:
    """Encode a value as lm-eval's sample log does, without pixels and masks."""
    return json.loads(json.dumps(dict(value), default=lm_eval_internals.encode_value))
