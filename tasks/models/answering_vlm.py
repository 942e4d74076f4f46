"""lm-eval's hf-multimodal, batch by batch: the answers of each batch are kept as they come, and the first looked at."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, cast

import torch
import transformers
from lm_eval.api.instance import Instance
from lm_eval.models.hf_vlms import HFMultimodalLM
from lm_eval.models.utils import Collator, resize_image
from PIL import Image

from ...loaders.errors import InputError
from ...loaders.progress import Progress, say
from ..outcomes import ANSWERED, CUT, EMPTY
from . import answer_counts
from .answer_store import AnswerStore, Kept, key_of, with_repeats
from .chat_form import Reply
from .contrastive_encoders import short_name
from .first_answers import FirstAnswers
from .image_lm import images_of, row_id, tell_outcome
from .resource_use import Work
from .weights import weights_digest

NO_MATTER = ("batch_size", "max_batch_size", "device", "parallelize")  # arguments on which no answer depends
OF_PLACE = ("_name_or_path", "transformers_version")  # of a saved configuration


class Generated(NamedTuple):
    """An answer, and the tokens that were generated: beyond the answer's end they are padding, or passed over."""

    reply: Reply
    tokens: list[int]


class AnsweringVLM(HFMultimodalLM):
    """hf-multimodal whose answers are kept in a file as they come, and whose documents say which of them were cut.

    The batches, and with them the answers, are those of hf-multimodal; one of white space alone is "". A killed run has
    kept all batches before the last, and asks the others as it would have asked them then. A kept answer is what was
    generated when its batch was answered: in another batch, with other padding, the last digits of a model's numbers
    may differ.

    Args:
        pretrained, **kwargs: as for hf-multimodal.
        answers: SQLite file of the answers (AnswerStore). Without it nothing is kept. Several processes may share it.

    Raises InputError for a file that is no such store.
    """

    # What lm-eval's class has, as far as it is used here: its decorator hides the class from type checkers.
    model: Any
    processor: Any
    tokenizer: Any
    batch_size: Any
    eot_token_id: int
    max_length: int
    max_images: Any
    image_token: str
    image_width: int | None
    image_height: int | None
    image_max_side: int | None
    chat_applied: bool
    tok_encode: Callable[..., list[int]]
    tok_decode: Callable[..., str]

    def __init__(self, pretrained: Any, answers: str | None = None, **kwargs: Any) -> None:
        self._answers = Path(answers).expanduser() if answers else None
        with AnswerStore(self._answers):  # one that cannot be used is refused before the weights are loaded
            pass
        super().__init__(pretrained, **kwargs)  # pyright: ignore[reportCallIssue] (lm-eval's decorator hides the class)
        self._pretrained = pretrained if isinstance(pretrained, str) else self.model.name_or_path
        self._arguments = {name: str(value) for name, value in kwargs.items() if name not in NO_MATTER}
        self._first, self._work = FirstAnswers(), Work(torch.device(cast(Any, self).device))
        self._outcomes: Counter[str] = Counter()  # since they were last reported
        self._made: tuple[int, list[list[int]]] = 0, []  # of the last batch: its limit of tokens, and its tokens

    def generate_until(self, requests: list[Instance], disable_tqdm: bool = False) -> list[str]:
        """hf-multimodal's answers, of requests that keep all their images. Tasks of text alone are left to lm-eval.

        Raises:
            InputError: a request has more images than `max_images`: the rest would be cut, in a few-shot prompt those
                that the question is about.
        """
        if any(len(request.args) < 3 for request in requests):
            return super().generate_until(requests, disable_tqdm)  # pyright: ignore[reportCallIssue]
        self._refuse_cut_images(requests)
        repeats = [repeat for _, repeat in with_repeats(requests)]
        replies: dict[int, Reply] = {}
        with AnswerStore(self._answers) as store, self._bar(len(requests), disable_tqdm, "answering") as bar:
            for batch in self._like_hf_multimodal(list(enumerate(requests))):
                for number, reply in self._answer(batch, repeats, store).items():
                    replies[number] = reply
                    self._record(requests[number], reply, repeats[number])
                bar.update(len(batch))
        self._report_outcomes()
        return [replies[number].scored for number in range(len(requests))]

    def get_model_info(self) -> dict[str, Any]:
        """What lm-eval adds to the results of a run; with what the answers took (`work.Work.told`)."""
        return {**cast(Any, super()).get_model_info(), "work": self._work.told()}

    def tok_batch_multimodal_encode(self, strings: list[str], images: list[list], *given: Any, **options: Any) -> Any:
        """lm-eval's, which fails where no prompt has an image (control `none`): those are text alone.

        Shapes: input_ids and attention_mask (n, tokens), padded on the left.
        """
        if any(len(of_one) for of_one in images):
            return cast(Any, super()).tok_batch_multimodal_encode(strings, images, *given, **options)
        side = options.get("padding_side", "left")
        encoded = self.tokenizer(strings, padding="longest", padding_side=side, return_tensors="pt")
        return encoded.to(self.device)

    def _refuse_cut_images(self, requests: Iterable[Instance]) -> None:
        for request in requests:
            n_images = len(images_of(request))
            if self.max_images is not None and n_images > self.max_images:
                raise InputError(
                    request.task_name or "request",
                    f"has {n_images} images, of which max_images={self.max_images} would be kept",
                    expected="every image that the question and its exemplars name",
                    action=f"pass max_images={n_images} or more in --model_args, or leave it out",
                    row=row_id(request),
                )

    def _bar(self, total: int, disable_tqdm: bool, doing: str) -> Progress:
        return Progress(title=doing, total=total, unit="requests", quiet=disable_tqdm or self.rank != 0)

    def _record(self, request: Instance, reply: Reply, repeat: int = 0) -> None:
        """Record what became of a request: in the documents of its row, in the tally and among the first answers.

        Args:
            request: As lm-eval made it, with the images of its document.
            reply: What was generated, now or in an earlier run.
            repeat: The request's number among its copies. Filters read the first copy, so it speaks for the row.
        """
        if not repeat:
            tell_outcome(request, reply.outcome)
        self._outcomes[reply.outcome] += 1
        if self.rank == 0:
            self._first.see(request.doc, reply)

    def _report_outcomes(self) -> None:
        """Count the outcomes since the last call, and say on stderr how many of these answers are not whole."""
        answer_counts.count(self._outcomes)
        if sentence := answer_counts.sentence(self._outcomes):
            say(f"medfaith: {sentence}")
        self._outcomes.clear()

    def _like_hf_multimodal(self, requests: Sequence[tuple[int, Instance]]) -> Iterable[list[tuple[int, Instance]]]:
        """The batches that hf-multimodal would make of numbered requests, one at a time."""

        def longest_first(item: tuple[int, Instance]) -> tuple[int, str]:
            context = cast(Any, item[1].args)[0]
            return -len(self.tok_encode(context)), context

        def alike(item: tuple[int, Instance]) -> dict[str, Any]:
            return {**cast(Any, item[1].args)[1], "images": self._batched_apart(len(images_of(item[1])))}

        order = Collator(requests, longest_first, alike, "gen_kwargs")
        return cast(Any, order.get_batched(n=int(self.batch_size)))

    def _batched_apart(self, n_images: int) -> int:
        """Prompts with different results for their numbers of images are never in one batch."""
        return 0

    def _answer(
        self, batch: Sequence[tuple[int, Instance]], repeats: Sequence[int], store: AnswerStore
    ) -> dict[int, Reply]:
        """Number -> the reply that is kept, or one that is generated and kept now."""
        asked = {number: self._opened(request) for number, request in batch}
        keys = {number: self._key(one, repeats[number]) for number, one in asked.items()} if store.keeps else {}
        found = {number: reply for number, key in keys.items() if (reply := store.get(key)) is not None}
        pending = {number: request for number, request in asked.items() if number not in found}
        made = dict(zip(pending, self._generated([*pending.values()]), strict=True)) if pending else {}
        if store.keeps:
            store.put_all(
                Kept(keys[number], one.reply, pending[number].task_name or "", row_id(pending[number]))
                for number, one in made.items()
            )
        return found | {number: one.reply for number, one in made.items()}

    def _generated(self, batch: Sequence[Instance]) -> list[Generated]:
        """The answers to a batch of `_like_hf_multimodal`, or to a part of it."""
        with self._work.busy(len(batch)):
            texts = super().generate_until(list(batch), True)  # pyright: ignore[reportCallIssue]
        limit, made = self._made
        return [Generated(self._reply(text, tokens, limit), tokens) for text, tokens in zip(texts, made, strict=True)]

    def _reply(self, text: str, tokens: Sequence[int], limit: int) -> Reply:
        given = self.model.generation_config.eos_token_id
        ends = {self.eot_token_id, *(given if isinstance(given, list) else [given])}
        length = next((n for n, token in enumerate(tokens) if token in ends), len(tokens))
        stopped = length < limit or len(text) < len(self.tok_decode(tokens))  # by the model, or by a stop string
        outcome = (ANSWERED if text.strip() else EMPTY) if stopped else CUT
        return Reply(outcome, text, answer_tokens=length)

    def _model_multimodal_generate(self, inputs: Any, max_length: int, stop: list[str], **kwargs: Any) -> torch.Tensor:
        output = super()._model_multimodal_generate(inputs, max_length, stop, **kwargs)  # pyright: ignore
        start = inputs["input_ids"].shape[1]
        limit = kwargs.get("max_new_tokens") or max_length - start  # as transformers has it
        self._made = limit, output[:, start:].tolist()
        return output

    def _opened(self, request: Instance) -> Instance:
        """The request with its images as the processor gets them: opened once, though the key needs them, too."""
        context, how, auxiliary = cast(Any, request.args)
        return replace(request, arguments=(context, how, auxiliary | {"visual": self._shown(images_of(request))}))

    def _shown(self, images: Sequence[Image.Image]) -> list[Image.Image]:
        size = self.image_width, self.image_height, self.image_max_side
        return [resize_image(image, *size) for image in images[:]]

    def _key(self, request: Instance, repeat: int = 0) -> str:
        """Of the answer to a request with opened images, or of the score of its continuation."""
        context, asked, auxiliary = cast(Any, request.args)
        sampled = isinstance(asked, Mapping) and (asked.get("do_sample") or asked.get("temperature"))
        return key_of(
            model=self._fingerprint,
            prompt=context,
            tokens=self.tokenizer(context)["input_ids"],  # those of another tokenizer are another prompt
            images=[pixels_digest(image) for image in auxiliary["visual"]],
            asked=asked,
            seed=torch.initial_seed() if sampled else None,
            repeat=repeat,
        )

    @cached_property
    def _facts(self) -> dict[str, Any]:
        """What tells this model from others, wherever its folder lies."""
        return {
            "pretrained": short_name(str(self._pretrained)),
            "weights": weights_digest(self.model),
            "dtype": str(self.model.dtype),
            "resize": [self.image_width, self.image_height, self.image_max_side],
        }

    @cached_property
    def _fingerprint(self) -> str:
        """The facts, and whatever else an answer may depend on beside the question."""
        saved = {
            "configuration": self.model.config.to_json_string(use_diff=False),
            "generation": self.model.generation_config.to_json_string(use_diff=False),
            "processor": self.processor.to_json_string(),
        }
        told = {name: _without_place(json.loads(text)) for name, text in saved.items()}
        return key_of(**self._facts, **told, arguments=self._arguments, transformers=transformers.__version__)


def pixels_digest(image: Image.Image) -> str:
    """What tells an image from others: its mode, its size and a SHA-256 of its pixels."""
    return f"{image.mode} {image.size} {hashlib.sha256(image.tobytes()).hexdigest()}"


def _without_place(saved: Any) -> Any:
    """A saved configuration without the folder that it was read from, on whatever level."""
    if isinstance(saved, dict):
        return {name: _without_place(value) for name, value in saved.items() if name not in OF_PLACE}
    return saved
