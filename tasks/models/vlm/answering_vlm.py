"""lm-eval's hf-multimodal, batch by batch: it stores the answers of each batch and checks the first ones."""

from __future__ import annotations

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
from lm_eval.models.hf_vlms import DEFAULT_IMAGE_PLACEHOLDER, HFMultimodalLM
from lm_eval.models.utils import Collator, replace_placeholders, resize_image
from PIL import Image

from ....loaders.errors import InputError, MedfaithError
from ....loaders.progress import Progress, say
from ...outcomes import ANSWERED, CUT, EMPTY
from .. import answer_counts
from ..answer_store import AnswerStore, hash_facts
from ..chat_form import Reply
from ..first_answers import FirstAnswers
from ..image_lm import build_stored_reply, get_images, hash_pixels, iterate_repeats, row_id, tell_outcome
from ..model_names import strip_folder
from .encoder_decoder import check_length, find_hidden_tokens, join_prompt_and_answer, write_prompts
from .families import check_answering
from .resource_use import Work
from .weights import hash_weights

NO_MATTER = ("batch_size", "max_batch_size", "device", "parallelize")  # arguments that change no answer
LOCAL_FIELDS = ("_name_or_path", "transformers_version")  # fields of a saved configuration


class Generated(NamedTuple):
    """An answer and its generated tokens. Tokens after the answer's end are padding or ignored."""

    reply: Reply
    tokens: list[int]


class AnsweringVLM(HFMultimodalLM):
    """hf-multimodal that stores its answers and records in the documents which answers were cut.

    The batches, and therefore the answers, equal hf-multimodal's; an answer of white space only becomes "". An
    interrupted run has stored all batches before the last one, and a repeated run asks the remaining requests in the
    same batches. A stored answer belongs to the batch in which it was generated: another batch has other padding, which
    may change the last digits of a model's numbers.

    Args:
        pretrained: The model, as for hf-multimodal.
        answers: SQLite file of the answers (AnswerStore); by default nothing is stored. Several processes may share it.
        **kwargs: Arguments of hf-multimodal.

    Raises:
        InputError: The file is not such a store.
    """

    # The attributes of lm-eval's class that this class uses: its decorator hides the class from type checkers.
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

    def __init__(self, pretrained: Any, answers: str | None = None, **kwargs: Any) -> None:
        self._answers = Path(answers).expanduser() if answers else None
        with AnswerStore(self._answers):  # an unusable file is refused before the weights are loaded
            pass
        super().__init__(pretrained, **kwargs)
        self._pretrained = pretrained if isinstance(pretrained, str) else self.model.name_or_path
        self._arguments = {name: str(value) for name, value in kwargs.items() if name not in NO_MATTER}
        self._first, self._work = FirstAnswers(), Work(torch.device(cast(Any, self).device))
        self._outcomes: Counter[str] = Counter()  # outcomes since the last report
        self._last_batch: tuple[int, list[list[int]]] = 0, []  # the last batch: its token limit, and its tokens
        self._batch_in_work: Sequence[Instance] = ()

    def generate_until(self, requests: list[Instance], disable_tqdm: bool = False) -> list[str]:
        """Generate hf-multimodal's answers for requests that keep all their images. Text-only tasks go to lm-eval.

        Args:
            requests: Requests of lm-eval.
            disable_tqdm: Whether to hide the progress bar.

        Returns:
            The answers that are scored, in the order of the requests.

        Raises:
            InputError: A request has more images than `max_images`. hf-multimodal would drop the last ones, which in a
                few-shot prompt belong to the question.
        """
        if any(len(request.args) < 3 for request in requests):
            return super().generate_until(requests, disable_tqdm)
        self._refuse_cut_images(requests)
        repeats = [repeat for _, repeat in iterate_repeats(requests)]
        replies: dict[int, Reply] = {}
        with AnswerStore(self._answers) as store, self._start_progress(len(requests), disable_tqdm, "answering") as bar:
            for batch in self._iterate_batches(list(enumerate(requests))):
                for number, reply in self._answer(batch, repeats, store).items():
                    replies[number] = reply
                    self._record(requests[number], reply, repeats[number])
                bar.update(len(batch))
        self._report_outcomes()
        return [replies[number].scored for number in range(len(requests))]

    def apply_chat_template(self, chat_history: list[dict[str, str]], add_generation_prompt: bool = True) -> str:
        """Apply the model's chat template: the processor's or, if only the tokenizer has one, the tokenizer's.

        The template of a tokenizer (Phi-4-multimodal) takes messages of plain text, so that the text contains the
        model's image placeholders.

        Args:
            chat_history: Messages with `role` and `content`; `<image>` in a content means an image.
            add_generation_prompt: Whether the prompt ends where the model's answer begins.

        Returns:
            The prompt.
        """
        if not self._has_tokenizer_template:
            return cast(Any, super()).apply_chat_template(chat_history, add_generation_prompt)
        self.chat_applied = True
        placeholders = DEFAULT_IMAGE_PLACEHOLDER, self.image_token, self.max_images
        messages = [
            {**message, "content": replace_placeholders(message["content"], *placeholders)} for message in chat_history
        ]
        return self.tokenizer.apply_chat_template(
            messages,
            tokenize=False,
            add_generation_prompt=add_generation_prompt,
            continue_final_message=not add_generation_prompt,
        )

    def chat_template(self, chat_template: bool | str = False) -> str | None:
        """Return the chat template, as lm-eval records it.

        Args:
            chat_template: Name of one of several templates, or whether the default one is applied.

        Returns:
            The template, or None or "" if none is applied.
        """
        if self._has_tokenizer_template and chat_template:
            return self.tokenizer.get_chat_template(None if chat_template is True else chat_template)
        return cast(Any, super()).chat_template(chat_template)

    @property
    def _has_tokenizer_template(self) -> bool:
        """Whether the tokenizer has the model's only chat template."""
        return not self.processor.chat_template and bool(self.tokenizer.chat_template)

    def _get_config(self, *arguments: Any, **options: Any) -> None:
        """Read the model's configuration, before the weights are loaded."""
        cast(Any, super())._get_config(*arguments, **options)
        config = cast(Any, self).config
        check_answering(config.model_type)
        vision_config: Any = getattr(config, "vision_config", None)
        if getattr(config, "image_token_id", None) is None and hasattr(vision_config, "image_token_id"):
            config.image_token_id = vision_config.image_token_id  # lm-eval reads it here; Phi-4 has it there

    def get_model_info(self) -> dict[str, Any]:
        """Get the model information that lm-eval adds to the results, with the resources used (`Work.describe`)."""
        return {**cast(Any, super()).get_model_info(), "work": self._work.describe()}

    def tok_batch_multimodal_encode(
        self, strings: list[str], images: list[list], *arguments: Any, **options: Any
    ) -> Any:
        """Encode prompts with images by lm-eval, which fails if no prompt has an image (control `none`), or as text.

        lm-eval would cut the beginning of a prompt that leaves no room for the answer, where its images often are.

        Args:
            strings: The prompts.
            images: The images of each prompt.
            *arguments: Further arguments of lm-eval's method.
            **options: Further options of lm-eval's method.

        Returns:
            Inputs of the model; input_ids and attention_mask have shape (n, tokens), padded on the left.

        Raises:
            InputError: A prompt with its answer is longer than `max_length`, or the processor refuses an image.
            MedfaithError: The processor takes no images of different shapes together (PerceptionLM).
        """
        limit = options.pop("left_truncate_len", None)
        has_images = any(len(row_images) for row_images in images)
        if self._is_encoder_decoder:  # its positions count from the left, and the answer takes none of them
            strings, arguments = write_prompts(strings, self.tokenizer, has_images=has_images), ()
            options = {"padding_side": "right"}
        if has_images:
            encoded = self._encode_with_images(strings, images, *arguments, **options)
        else:
            side, adds_ends = options.get("padding_side", "left"), not self._is_encoder_decoder
            encoded = self.tokenizer(
                strings, padding="longest", padding_side=side, return_tensors="pt", add_special_tokens=adds_ends
            ).to(self.device)
        if self._is_encoder_decoder:
            check_length(encoded["input_ids"].shape[1], self.model.config)
        elif limit is not None:
            self._check_length(strings, encoded["attention_mask"].sum(dim=1).tolist(), limit)
        return encoded

    def _check_length(self, strings: Sequence[str], lengths: Sequence[int], limit: int) -> None:
        """Raise InputError for a prompt that lm-eval would cut."""
        for string, length in zip(strings, lengths, strict=True):
            if length > limit:
                raise self._make_row_error(
                    [string],
                    f"{length} tokens with the images' and {self.max_length - limit} of an answer do not fit into "
                    f"{self.max_length}",
                    "raise max_length in --model_args if the model takes more; or send smaller or fewer images, or "
                    "lower max_gen_toks in --gen_kwargs",
                )

    def _make_row_error(self, strings: Sequence[str], problem: str, action: str) -> InputError:
        """Build an error that names the rows of the batch with these prompts."""
        requests = [request for request in self._batch_in_work if cast(Any, request.args)[0] in strings]
        where = (requests[0].task_name if requests else None) or "request"
        return InputError(where, problem, action=action, row=" or ".join(map(row_id, requests)) or None)

    def _encode_with_images(self, strings: list[str], images: list[list], *arguments: Any, **options: Any) -> Any:
        """Encode prompts with images by lm-eval. Raise MedfaithError if the processor cannot take the images."""
        try:
            return cast(Any, super()).tok_batch_multimodal_encode(strings, images, *arguments, **options)
        except ValueError as error:
            sizes = ", ".join(f"{image.width} x {image.height}" for row_images in images for image in row_images)
            if "Unable to convert output" not in str(error):
                name, action = type(self.processor).__name__, "leave the row out (--rows), or use another model"
                problem = f"{name} refuses a prompt or an image of {sizes} pixels ({error})"
                raise self._make_row_error(strings, problem, action) from error
            raise MedfaithError(
                f"{type(self.processor).__name__}: cannot put these images into one batch: {sizes} pixels\n"
                "  what to do: add batch_size=1 to --model_args; for rows of several images, use another model"
            ) from error

    def tok_decode(self, tokens: Any, skip_special_tokens: bool = True) -> str:
        """Decode tokens. The locations of Florence-2 are special tokens, which the answer shows.

        Args:
            tokens: The tokens, or one token.
            skip_special_tokens: Whether to leave out special tokens other than locations.

        Returns:
            The text.
        """
        if skip_special_tokens and self._hidden_tokens and not isinstance(tokens, int):
            tokens = [token for token in tokens if int(token) not in self._hidden_tokens]
            skip_special_tokens = False
        return self.tokenizer.decode(tokens, skip_special_tokens=skip_special_tokens)

    @cached_property
    def _hidden_tokens(self) -> frozenset[int]:
        return find_hidden_tokens(self.tokenizer)

    @cached_property
    def _is_encoder_decoder(self) -> bool:
        return bool(getattr(cast(Any, self).config, "is_encoder_decoder", False))

    def _refuse_cut_images(self, requests: Iterable[Instance]) -> None:
        """Raise InputError for a request with more images than the model keeps."""
        for request in requests:
            n_images = len(get_images(request))
            if self._is_encoder_decoder and n_images > 1:
                raise InputError(
                    request.task_name or "request",
                    f"has {n_images} images, and {self.model.config.model_type} reads one",
                    action="use --images first, or a model that reads several",
                    row=row_id(request),
                )
            if self.max_images is not None and n_images > self.max_images:
                raise InputError(
                    request.task_name or "request",
                    f"has {n_images} images, of which max_images={self.max_images} would be kept",
                    expected="every image that the question and its exemplars name",
                    action=f"pass max_images={n_images} or more in --model_args, or leave it out",
                    row=row_id(request),
                )

    def _start_progress(self, total: int, disable_tqdm: bool, title: str) -> Progress:
        return Progress(title=title, total=total, unit="requests", quiet=disable_tqdm or self.rank != 0)

    def _record(self, request: Instance, reply: Reply, repeat: int = 0) -> None:
        """Record the outcome of a request in the document of its row, and count it.

        The first process of a run also adds the reply to the first answers (`FirstAnswers`).

        Args:
            request: The request with the images of its document.
            reply: The reply, generated now or in an earlier run.
            repeat: The number of this copy of the request (lm-eval's `repeats`), from 0. All copies are counted, but
                only the first one sets the outcome in the document, because filters read the answer to it.
        """
        if not repeat:
            tell_outcome(request, reply.outcome, reply.end)
        self._outcomes[reply.outcome] += 1
        if self.rank == 0:
            self._first.add(request.doc, reply)

    def _report_outcomes(self) -> None:
        """Count the outcomes since the last call, and report on stderr how many answers are not complete."""
        answer_counts.count(self._outcomes)
        if sentence := answer_counts.format_counts(self._outcomes):
            say(f"medfaith: {sentence}")
        self._outcomes.clear()

    def _iterate_batches(self, requests: Sequence[tuple[int, Instance]]) -> Iterable[list[tuple[int, Instance]]]:
        """Iterate over the batches that hf-multimodal would form from numbered requests."""

        def get_sort_key(item: tuple[int, Instance]) -> tuple[int, str]:
            context = cast(Any, item[1].args)[0]
            return -len(self.tok_encode(context)), context

        def get_group(item: tuple[int, Instance]) -> dict[str, Any]:
            return {**cast(Any, item[1].args)[1], "images": self._get_batch_group(len(get_images(item[1])))}

        order = Collator(requests, get_sort_key, get_group, "gen_kwargs")
        return cast(Any, order.get_batched(n=int(self.batch_size)))

    def _get_batch_group(self, n_images: int) -> int:
        """Return a group for a number of images: prompts of different groups never share a batch."""
        return n_images if self._is_encoder_decoder else 0

    def _answer(
        self, batch: Sequence[tuple[int, Instance]], repeats: Sequence[int], store: AnswerStore
    ) -> dict[int, Reply]:
        """Return the reply of each numbered request, from the store or generated and stored now."""
        opened = {number: self._open_images(request) for number, request in batch}
        keys = {}
        if store.has_file:
            keys = {number: self._compute_key(request, repeats[number]) for number, request in opened.items()}
        stored = {number: reply for number, key in keys.items() if (reply := store.get(key)) is not None}
        pending = {number: request for number, request in opened.items() if number not in stored}
        generated = dict(zip(pending, self._generated([*pending.values()]), strict=True)) if pending else {}
        store.put(*(build_stored_reply(keys[n], item.reply, pending[n]) for n, item in generated.items() if n in keys))
        return stored | {number: item.reply for number, item in generated.items()}

    def _generated(self, batch: Sequence[Instance]) -> list[Generated]:
        """Generate the answers to a batch of `_iterate_batches`, or to a part of it."""
        self._batch_in_work = batch
        with self._work.busy(len(batch)):
            texts = super().generate_until(list(batch), True)
        limit, token_lists = self._last_batch
        return [
            Generated(self._reply(text, tokens, limit), tokens) for text, tokens in zip(texts, token_lists, strict=True)
        ]

    def _reply(self, text: str, tokens: Sequence[int], limit: int) -> Reply:
        eos_token_id = self.model.generation_config.eos_token_id
        ends = {self.eot_token_id, *(eos_token_id if isinstance(eos_token_id, list) else [eos_token_id])}
        length = next((n for n, token in enumerate(tokens) if token in ends), len(tokens))
        stopped = length < limit or len(text) < len(self.tok_decode(tokens))  # stopped by the model or by a stop string
        outcome = (ANSWERED if text.strip() else EMPTY) if stopped else CUT
        return Reply(outcome, text, answer_tokens=length)

    def _model_multimodal_generate(self, inputs: Any, max_length: int, stop: list[str], **kwargs: Any) -> torch.Tensor:
        start = inputs["input_ids"].shape[1]
        length = max_length - start + 1 if self._is_encoder_decoder else max_length  # with the decoder's start token
        output = super()._model_multimodal_generate(inputs, length, stop, **kwargs)
        if self._is_encoder_decoder:
            output = join_prompt_and_answer(inputs["input_ids"], output)
        limit = kwargs.get("max_new_tokens") or max_length - start  # the same default as in transformers
        self._last_batch = limit, output[:, start:].tolist()
        return output

    def _open_images(self, request: Instance) -> Instance:
        """Open the images of a request once, for its key and for the processor, and resize them."""
        context, settings, auxiliary = cast(Any, request.args)
        return replace(
            request, arguments=(context, settings, auxiliary | {"visual": self._resize_images(get_images(request))})
        )

    def _resize_images(self, images: Sequence[Image.Image]) -> list[Image.Image]:
        size = self.image_width, self.image_height, self.image_max_side
        return [resize_image(image, *size) for image in images[:]]

    def _compute_key(self, request: Instance, repeat: int = 0) -> str:
        """Compute the key of an answer to a request with opened images, or of the score of its continuation."""
        context, settings, auxiliary = cast(Any, request.args)
        sampled = isinstance(settings, Mapping) and (settings.get("do_sample") or settings.get("temperature"))
        return hash_facts(
            model=self.fingerprint,
            prompt=context,
            tokens=self.tokenizer(context)["input_ids"],  # another tokenizer makes another prompt
            images=[hash_pixels(image) for image in auxiliary["visual"]],
            asked=settings,
            seed=torch.initial_seed() if sampled else None,
            repeat=repeat,
        )

    @cached_property
    def _facts(self) -> dict[str, Any]:
        """Properties that identify the model independently of its folder."""
        return {
            "pretrained": strip_folder(str(self._pretrained)),
            "weights": hash_weights(self.model),
            "dtype": str(self.model.dtype),
            "resize": [self.image_width, self.image_height, self.image_max_side],
        }

    @cached_property
    def fingerprint(self) -> str:
        """Hash of the facts and of everything else that an answer depends on other than the question."""
        saved = {
            "configuration": self.model.config.to_json_string(use_diff=False),
            "generation": self.model.generation_config.to_json_string(use_diff=False),
            "processor": self.processor.to_json_string(),
        }
        configurations = {name: _remove_local_fields(json.loads(text)) for name, text in saved.items()}
        return hash_facts(
            **self._facts, **configurations, arguments=self._arguments, transformers=transformers.__version__
        )


def _remove_local_fields(saved: Any) -> Any:
    """Remove the fields that depend on the model's folder from all levels of a saved configuration."""
    if isinstance(saved, dict):
        return {name: _remove_local_fields(value) for name, value in saved.items() if name not in LOCAL_FIELDS}
    return saved
