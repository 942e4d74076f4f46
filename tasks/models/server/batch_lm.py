"""`medfaith-batch`: any engine that answers files of requests (vLLM run-batch, SGLang, OpenAI's batches, Ray).

A first run writes the requests to a file. A second run reads the answers of the engine from files.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from ....loaders import sources
from ....loaders.errors import InputError
from ... import BATCH
from ...outcomes import UNANSWERED
from ..chat_form import Encoding, Reply, build_messages
from ..image_lm import get_images
from .batch_file import AnswerFiles, RequestWriter
from .chat_lm import ChatLM, ChatOptions
from .requests import Question, compute_key, pictures_of
from .usage import DryRunEnd

_MISSING = "no answer in the files"


class BatchLM(ChatLM):
    """Writes requests for an engine, or answers from the files of an engine.

    Args:
        model: The engine's name of the model.
        requests: File to write requests to; without it the answers are read.
        image_folder: Folder for the images of these requests; without it the requests hold the images.
        answers: Files of answers. Requests that have one are not written.
        shard: Shard whose requests are written, as I/N; None for all. The description records it.
        image_format: Format of images, png or jpeg.
        image_quality: JPEG quality.
        image_max_side: Maximum side length in pixels; larger images are reduced.
        max_tokens_name: The engine's name of the token limit, one of `TOKENS_NAMES`.
        seed: Seed of each request; none by default.
        top_logprobs: Number of tokens that the engine lists when letters are scored.
        send_images_to: The host outside of the user's network that gets the file; None for machines of the user's own.
        i_have_permission: Sources, joined by +, whose images may go to that host although their terms do not say so.
        **lm_eval_options: Options that lm-eval passes to every model.

    Raises:
        InputError: An option is invalid, or a file of answers cannot be read.
    """

    name = BATCH

    def __init__(  # noqa: PLR0913 (the arguments that --model_args names)
        self,
        model: str = "",
        requests: str | None = None,
        image_folder: str | None = None,
        answers: Sequence[str] = (),
        shard: str | None = None,
        image_format: str = "png",
        image_quality: int = 90,
        image_max_side: int | None = None,
        max_tokens_name: str = "max_tokens",
        seed: int | None = None,
        top_logprobs: int = 20,
        send_images_to: str | None = None,
        i_have_permission: str = "",
        **lm_eval_options: Any,
    ) -> None:
        self.refuse_unknown(lm_eval_options)
        if not model:
            raise InputError("--model_args", "names no model", expected="model=NAME, as the engine calls it")
        if not requests and not answers:
            raise InputError(BATCH, "has neither requests nor answers", action="add --write-requests or --answers")
        encoding = Encoding(image_format, image_quality, image_max_side)
        super().__init__(ChatOptions(encoding, max_tokens_name, seed, top_logprobs), send_images_to, i_have_permission)
        self.engine_model, self._host, self._shard = str(model), send_images_to, shard
        self._answers = AnswerFiles([Path(path).expanduser() for path in answers])
        self._reasons: Counter[str] = Counter()  # of requests without an answer
        self._mismatch = ""  # set if no answer belongs to the requests
        self._contents: dict[str, Counter[str]] = {}  # task -> condition -> number of its requests
        self._sources: set[str] = set()
        self._writer = None
        if requests:
            folder = Path(image_folder).expanduser() if image_folder else None
            self._writer = RequestWriter(Path(requests).expanduser(), folder)
            self.engine, self.activity, self._scores_nothing = requests, "writing requests", True
        else:
            self.engine, self.activity = " and ".join(map(str, answers)), "reading answers"

    def _take_replies(self, questions: Sequence[Question], take: Callable[[int, Question, Reply | None], None]) -> str:
        """Read the answers, or write the requests that have none."""
        n_missing = 0
        for place, question in enumerate(questions):
            pictures = pictures_of(question, self._options.encoding)
            key = compute_key({"model": self.engine_model}, question, pictures)
            reply = self._answers.read(key, question.read_reply)
            if reply is None:
                n_missing += 1
                reply = Reply(UNANSWERED, reason=_MISSING)
            if reply.outcome == UNANSWERED:
                self._reasons[reply.reason] += 1
            if self._writer is None:
                take(place, question, reply)
                continue
            if reply.outcome == UNANSWERED:
                self._writer.add(key, partial(self._build_body, question), pictures)
                self._record(question)
            take(place, question, None)
        if questions and n_missing == len(questions) and len(self._answers):
            self._mismatch = (
                f"the files answer {len(self._answers):,} other requests, and none of these: they were written with "
                "another model=NAME, setting, wording, control or data"
            )
        return "" if self._writer is not None else self.format_reasons()

    def _build_body(self, question: Question, urls: Sequence[str]) -> dict[str, Any]:
        return {"model": self.engine_model, "messages": build_messages(question.turns, urls), **question.settings}

    def _record(self, question: Question) -> None:
        """Record the task, the condition and the sources of a written request."""
        doc: Mapping[str, Any] = question.request.doc if isinstance(question.request.doc, Mapping) else {}
        condition = doc.get("control") or (f"wording_{doc['wording']}" if doc.get("wording") else "image")
        self._contents.setdefault(question.request.task_name or "", Counter())[condition] += 1
        self._sources |= set(getattr(get_images(question.request), "sources", ()))

    def format_reasons(self) -> str:
        """Format why requests have no answer since the last call, the most frequent reasons first; "" if all have."""
        reasons, self._reasons = self._reasons, Counter()
        texts = [f"{n:,}: {reason}" for reason, n in reasons.most_common(5)]
        notes = "; ".join(filter(None, (self._mismatch, self._answers.format_notes())))
        self._mismatch = ""
        if not reasons:
            return notes
        text = f"{reasons.total():,} rows without an answer ({'; '.join(texts)})"
        action = "give --write-missing FILE, too: it writes just these requests; then answer that file"
        return f"{text}{'; ' if notes else ''}{notes}\n  what to do: {action}"

    def close(self) -> str:
        """Complete the file of requests and its description.

        Returns:
            A summary of the written files, in several lines.
        """
        assert self._writer is not None
        terms = {
            source_id: {"terms": entry.terms, "licence_url": entry.licence_url, "third_parties": entry.third_parties}
            for source_id in sorted(self._sources)
            for entry in [sources.source(source_id)]
        }
        facts = {
            "model": self.engine_model,
            "shard": self._shard,
            "image_encoding": self._options.encoding._asdict(),
            "may_go_to": self._host or "machines of your own",
            "tasks": {task: dict(counts) for task, counts in self._contents.items()},
            "sources": terms,
        }
        description = self._writer.close(facts)
        bound = [source_id for source_id, entry in terms.items() if not entry["third_parties"]]
        lines = [
            f"{self.engine}: {self._writer.n_requests:,} requests with {self._writer.n_images:,} different images",
            f"{description}: what they hold",
        ]
        if len(self._answers):
            lines.insert(0, f"{len(self._answers):,} answers were read; {self.format_reasons() or 'none is missing'}")
        if bound and self._host is None:
            lines.append(f"for machines of your own alone: the terms of {', '.join(bound)} allow no third party")
        return "\n".join(lines)

    def get_model_info(self) -> dict[str, Any]:
        """Get the model information that lm-eval adds to the results of a complete run.

        Raises:
            DryRunEnd: The requests are written, and the run has no results.
        """
        if self._writer is not None:
            raise DryRunEnd(self.close())
        return {"usage": self.used()}
