"""`medfaith-hf-vlm`: lm-eval's hf-multimodal with option scores, log p(option | images, prompt).

hf-multimodal generates the text (`answering_vlm`). This module adds `loglikelihood` with images, which lm-eval's class
refuses, and the hidden states for CXR-ContraBench's boundary check (Appendix A.3).
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, takewhile
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import torch
import transformers
from lm_eval.api.instance import Instance
from lm_eval.models.hf_vlms import DEFAULT_IMAGE_PLACEHOLDER
from lm_eval.models.utils import replace_placeholders
from transformers.modeling_outputs import BaseModelOutputWithPooling

from ....loaders.atomic import atomic_file
from ....loaders.errors import InputError, MedfaithError
from ...model_types import make_score_error
from ...outcomes import ANSWERED
from ..answer_store import AnswerStore
from ..chat_form import Reply
from ..image_lm import build_stored_reply, row_id
from .decoded_vlm import DecodedVLM
from .families import claimed

TOKEN_TYPES = ("token_type_ids", "mm_token_type_ids")  # type of each token: image, prompt (PaliGemma) or text
CROSS_MASK = "cross_attention_mask"  # the images that each token attends to by cross-attention


class Score(NamedTuple):
    """The score of one continuation.

    Attributes:
        log_likelihood: Sum over the continuation's tokens, in nats.
        greedy: Whether each of the tokens was the likeliest.
        state: float32 (hidden size,), the last layer's state at the continuation's last token, or None if not
            requested.
    """

    log_likelihood: float
    greedy: bool
    state: np.ndarray | None


class _Context(NamedTuple):
    """One prompt with its images, encoded once for all its continuations."""

    text: str  # prompt with the model's image placeholders
    tokens: list[int]  # model input: each placeholder expanded to the image's tokens
    unexpanded: list[int]  # tokens of the text with unexpanded placeholders
    token_types: dict[str, list[int]]
    inputs: dict[str, torch.Tensor]  # further inputs that describe the images
    features: BaseModelOutputWithPooling | None  # output of the vision encoder; with None, `inputs` holds pixels


class _Row(NamedTuple):
    number: int  # index of the request
    context: _Context
    tokens: list[int]  # tokens of context and continuation
    start: int  # index of the continuation's first token


class HFVisionLM(DecodedVLM):
    """hf-multimodal with image-conditioned `loglikelihood`.

    A request is (context, continuation, {"visual": images}). lm-eval's requests for the options of one row have the
    same context string and the same `images` object. They form one context, whose images are opened, preprocessed and
    encoded once. Some model classes take no precomputed features (`mm_encoder_outputs`), and some vision encoders
    return more than features (Qwen3-VL). For these, each option is scored from pixels, in batches of one context: the
    scores are the same, at a higher cost.

    As in lm-eval, continuation tokens are the tokens of context + continuation after the context's number of tokens,
    and white space at the context's end moves to the continuation. Nothing is truncated: a text longer than
    `max_length` is an error. lm-eval's response cache stays empty, because its keys ignore images.

    Args:
        pretrained: The model, as for hf-multimodal.
        states_path: A .npz file for the hidden states of all scored continuations: `task`, `id` (of the row), `option`
            (its index), each of shape (n,), and `state`, float32 of shape (n, hidden size). The states stay in memory
            until they are written (4 bytes x n x hidden size). Only one process may run, and `answers` then stores no
            scores.
        **kwargs: Arguments of hf-multimodal. Without a chat template, `image_string` is the text that the processor
            expands for one image; Qwen2.5-VL needs `<|vision_start|><|image_pad|><|vision_end|>`, otherwise adjacent
            images merge. `answers` (AnsweringVLM) also stores scores. `decoding` (DecodedVLM) changes answers, not
            scores.
    """

    def __init__(self, pretrained: Any, states_path: str | None = None, **kwargs: Any) -> None:
        super().__init__(pretrained, **kwargs)
        if states_path and self.world_size > 1:
            raise MedfaithError("states_path: hidden states can be kept by one process only\n  what to do: run one")
        self._states_path = Path(states_path).expanduser() if states_path else None
        self._states: list[tuple[str, str, int, np.ndarray]] = []
        parameters = inspect.signature(self.model.forward).parameters
        self._takes_features = "mm_encoder_outputs" in parameters
        self._takes_kept_logits = "logits_to_keep" in parameters
        family = claimed(self.model.config)
        self._answer_types = {"token_type_ids": family.answer_type if family else 0}
        self._prompt_end = family.prompt_end if family else ""
        self._has_cross_attention = CROSS_MASK in parameters

    def tok_batch_multimodal_encode(
        self, strings: list[str], images: list[list], *arguments: Any, **options: Any
    ) -> Any:
        """Encode prompts as DecodedVLM does; prompts without images get the format of prompts with images.

        Args:
            strings: The prompts.
            images: The images of each prompt.
            *arguments: Further arguments of lm-eval's method.
            **options: Further options of lm-eval's method.

        Returns:
            The processor's batch.
        """
        if not self._prompt_end or any(len(row_images) for row_images in images):
            return super().tok_batch_multimodal_encode(strings, images, *arguments, **options)
        written = [f"{self.tokenizer.bos_token}{text}{self._prompt_end}" for text in strings]
        encoded = super().tok_batch_multimodal_encode(written, images, *arguments, **options)
        encoded["token_type_ids"] = torch.zeros_like(encoded["input_ids"])  # all tokens belong to the prompt
        return encoded

    def _get_batch_group(self, n_images: int) -> int:
        if self._has_cross_attention:  # transformers lets text before an image attend to padding images
            return n_images
        return min(n_images, 1) if self._prompt_end else super()._get_batch_group(n_images)

    def _create_model(self, *arguments: Any, **options: Any) -> None:
        self.AUTO_MODEL_CLASS = _choose_auto_class(cast(Any, self).config.model_type)
        cast(Any, super())._create_model(*arguments, **options)

    def loglikelihood(self, requests: list[Instance], disable_tqdm: bool = False) -> list[tuple[float, bool]]:
        """Score continuations. Requests without images go to lm-eval's own method.

        Args:
            requests: Requests of lm-eval.
            disable_tqdm: Whether to hide the progress bar.

        Returns:
            For each request the log-likelihood in nats and whether the continuation is the greedy one.

        Raises:
            InputError: The numbers of placeholders and images differ, a continuation has no tokens, a text is too long,
                or the model has a decoder, or is an encoder-decoder.
        """
        self._refuse_scores()
        if self._is_encoder_decoder:
            raise make_score_error(self.model.config.model_type)
        with_images = [request for request in requests if len(request.args) > 2]
        text_only = [request for request in requests if len(request.args) <= 2]
        scores = self._score(with_images, disable_tqdm, states=self._states_path is not None)
        if self._states_path and with_images:
            self._save_states(with_images, scores)
        image_scores = iter((score.log_likelihood, score.greedy) for score in scores)
        text_scores = iter(super().loglikelihood(text_only, disable_tqdm) if text_only else [])
        return [next(image_scores if len(request.args) > 2 else text_scores) for request in requests]

    def compute_option_states(self, requests: Sequence[Instance], disable_tqdm: bool = False) -> np.ndarray:
        """Compute last-layer hidden states at the last token of each continuation.

        Args:
            requests: Requests of lm-eval.
            disable_tqdm: Whether to hide the progress bar.

        Returns:
            float32, shape (n, hidden size).
        """
        return np.stack([s.state for s in self._score(requests, disable_tqdm, states=True) if s.state is not None])

    def _score(self, requests: Sequence[Instance], disable_tqdm: bool, states: bool) -> list[Score]:
        """Return the score of each request, from the store or computed and stored now. States are never stored.

        The text of a stored score is JSON, such as "[-5.25, false]".
        """
        scores: dict[int, Score] = {}
        keys: dict[int, str] = {}  # keys of the missing scores
        path = None if states else self._answers

        def select_missing(group: Sequence[int]) -> list[int]:
            """Look up the scores of requests about the same images, which this opens; return the requests without."""
            if store.has_file:
                group_keys = self._compute_keys([requests[number] for number in group])
                for number, key in zip(group, group_keys, strict=True):
                    reply = store.get(key)
                    if reply is None:
                        keys[number] = key
                    else:
                        log_likelihood, greedy = json.loads(reply.text)
                        scores[number] = Score(log_likelihood, greedy, None)
            return [number for number in group if number not in scores]

        with AnswerStore(path) as store, self._start_progress(len(requests), disable_tqdm, "scoring options") as bar:
            for batch in self._iterate_batches_of_rows(requests, select_missing):
                numbers = [row.number for row in batch]
                scores |= zip(numbers, self._score_batch(batch, states), strict=True)
                store.put(
                    *(
                        build_stored_reply(
                            keys.pop(number), Reply(ANSWERED, json.dumps(scores[number][:2])), requests[number]
                        )
                        for number in numbers
                        if number in keys
                    )
                )
                bar.update(len(scores) - bar.n)
        return [scores[number] for number in range(len(requests))]

    def _compute_keys(self, requests: Sequence[Instance]) -> list[str]:
        """Compute the keys of requests about the same images."""
        images = self._open_images(requests[0]).args[2]  # pyrefly: ignore[bad-index] (lm-eval declares a bare tuple)
        return [self._compute_key(replace(request, arguments=(*request.args[:2], images))) for request in requests]

    def _iterate_batches_of_rows(
        self, requests: Sequence[Instance], missing: Callable[[list[int]], list[int]]
    ) -> Iterator[list[_Row]]:
        """Iterate over batches of rows, holding only the contexts of one batch in memory.

        Args:
            requests: All requests.
            missing: Function that selects the requests to score from the indices of one context's requests.
        """
        groups: dict[tuple[str, int], list[int]] = {}
        for number, request in enumerate(requests):
            context, _, images = _get_arguments(request)
            groups.setdefault((context, id(images)), []).append(number)
        size = int(self.batch_size)

        def length(group: list[int]) -> tuple[int, int]:  # estimates the number of tokens without opening an image
            context, _, images = _get_arguments(requests[group[0]])
            return len(images), len(context)

        batch: list[_Row] = []
        # The longest first: a batch that exceeds the memory fails at once, and batches have little padding.
        for numbers in sorted(groups.values(), key=length, reverse=True):
            group = missing(numbers)
            if not group:
                continue
            context = self._encode(requests[group[0]])
            needs_own_batch = context.features is None
            if needs_own_batch and batch:
                yield batch
                batch = []
            for number in group:
                batch.append(self._build_row(number, requests[number], context))
                if len(batch) == size:
                    yield batch
                    batch = []
            if needs_own_batch and batch:
                yield batch
                batch = []
        if batch:
            yield batch

    def _encode(self, request: Instance) -> _Context:
        """Encode the request's context by the processor, exactly as for `generate_until`, and by the vision encoder."""
        text, _, visual = _get_arguments(request)
        text = text.rstrip()
        images = self._resize_images(visual)
        self._check_placeholders(request, text, len(images))
        encoding = dict(self.tok_batch_multimodal_encode([text], [images], padding_side="right"))
        if not self.chat_applied:
            text = replace_placeholders(text, DEFAULT_IMAGE_PLACEHOLDER, self.image_token, self.max_images)
        tokens = encoding.pop("input_ids")[0].tolist()
        for unused in ("attention_mask", "labels"):
            encoding.pop(unused, None)
        token_types = {name: encoding.pop(name)[0].tolist() for name in TOKEN_TYPES if name in encoding}
        features = self._compute_features(encoding)
        if features is not None:
            encoding = {name: tensor for name, tensor in encoding.items() if not name.startswith("pixel")}
        text += self._prompt_end
        return _Context(text, tokens, self._tokenize(text), token_types, encoding, features)

    def _check_placeholders(self, request: Instance, text: str, n_images: int) -> None:
        placeholders = {DEFAULT_IMAGE_PLACEHOLDER}
        if self.chat_applied:  # the chat template writes the model's own, Gemma 3's `boi_token`
            names = ("image_token", "boi_token")
            placeholders = {self.image_token} | {getattr(self.processor, name, None) for name in names}
        count_placeholders = max(text.count(placeholder) for placeholder in placeholders if placeholder)
        limit = self.max_images if self.max_images is not None else n_images
        if min(count_placeholders, limit) != min(n_images, limit) or (n_images == 0 and count_placeholders):
            raise InputError(
                request.task_name or "request",
                f"the prompt has {count_placeholders} image placeholders for {n_images} images",
                expected=f"one {DEFAULT_IMAGE_PLACEHOLDER} an image",
                action="let doc_to_text write as many placeholders as doc_to_image gives images",
                row=row_id(request),
            )

    def _compute_features(self, inputs: Mapping[str, torch.Tensor]) -> BaseModelOutputWithPooling | None:
        """Compute reusable features of the vision encoder, or return None if the model needs pixels."""
        encoder = getattr(self.model.base_model, "get_image_features", None)
        if not self._takes_features or encoder is None or not any(name.startswith("pixel") for name in inputs):
            return None
        encoder_inputs = {name: inputs[name] for name in inspect.signature(encoder).parameters if name in inputs}
        with torch.no_grad():
            output = encoder(**encoder_inputs, return_dict=True)
        known = {"last_hidden_state", "pooler_output", "hidden_states", "attentions"}
        if "pooler_output" not in output or set(output) - known:  # Llama 4 has no pooler_output, Qwen3-VL has more
            self._takes_features = False
            return None
        return BaseModelOutputWithPooling(pooler_output=output.pooler_output)

    def _tokenize(self, text: str) -> list[int]:
        return self.tokenizer(text)["input_ids"]

    def _build_row(self, number: int, request: Instance, context: _Context) -> _Row:
        """Tokenize context and continuation together, without preprocessing the images again.

        The tokens of the context are known with its images' placeholders expanded to many tokens, and unexpanded. The
        joined text is tokenized unexpanded only. It can differ from the context at the end alone, so the end that
        differs is replaced in the expanded list, too. An option that adds no token or does not fit is an InputError.
        """
        text, continuation, _ = _get_arguments(request)
        continuation = text[len(text.rstrip()) :] + continuation
        if self._prompt_end.isspace():
            continuation = continuation.lstrip()  # the prompt ends with white space already
        text_tokens = self._tokenize(context.text + continuation)
        shared_pairs = takewhile(lambda pair: pair[0] == pair[1], zip(text_tokens, context.unexpanded, strict=False))
        n_shared = sum(1 for _ in shared_pairs)
        n_kept = len(context.tokens) - (len(context.unexpanded) - n_shared)
        if context.tokens[n_kept:] != context.unexpanded[n_shared:]:
            raise MedfaithError(
                f"{type(self.processor).__name__} changes the end of a prompt, so that its options cannot be scored\n"
                "  what to do: use a chat template that ends in text"
            )
        tokens, start = context.tokens[:n_kept] + text_tokens[n_shared:], len(context.tokens)
        task_name = request.task_name or "request"
        if len(tokens) <= start:
            raise InputError(task_name, f"{continuation!r} adds no token to the prompt", row=row_id(request))
        if len(tokens) > self.max_length:
            raise InputError(
                task_name,
                f"{len(tokens)} tokens with the images' do not fit into {self.max_length}",
                action="raise max_length in --model_args if the model takes more; or send smaller or fewer images",
                row=row_id(request),
            )
        return _Row(number, context, tokens, start)

    def _score_batch(self, batch: Sequence[_Row], states: bool) -> list[Score]:
        inputs = self._pad(batch)
        length = inputs["input_ids"].shape[1]
        first_position = min(row.start for row in batch) - 1  # the earliest position that predicts a scored token
        if self._takes_kept_logits:
            inputs["logits_to_keep"] = length - first_position
        with torch.no_grad():
            output = self.model(**inputs, output_hidden_states=states, use_cache=False)
        offset = first_position if self._takes_kept_logits else 0
        scores = []
        for number, row in enumerate(batch):
            logits = output.logits[number, row.start - 1 - offset : len(row.tokens) - 1 - offset]
            targets = torch.tensor(row.tokens[row.start :], device=logits.device)
            log_probabilities = logits.float().log_softmax(-1).gather(1, targets[:, None])
            greedy = bool((logits.argmax(-1) == targets).all())
            state = output.hidden_states[-1][number, len(row.tokens) - 1].float().cpu().numpy() if states else None
            scores.append(Score(float(log_probabilities.sum()), greedy, state))
        return scores

    def _pad(self, batch: Sequence[_Row]) -> dict[str, Any]:
        """Build the model's inputs for a batch, padded at the right so that positions equal those of a single row."""
        length = max(len(row.tokens) for row in batch)

        def pad_tokens(rows: list[list[int]], fill: int) -> torch.Tensor:
            return torch.tensor([row + [fill] * (length - len(row)) for row in rows], device=self.device)

        inputs: dict[str, Any] = {
            "input_ids": pad_tokens([row.tokens for row in batch], self.tokenizer.pad_token_id),
            "attention_mask": pad_tokens([[1] * len(row.tokens) for row in batch], 0),
        }
        for name in batch[0].context.token_types:
            answer_type = self._answer_types.get(name, 0)  # type of the continuation; the type of padding has no effect
            inputs[name] = pad_tokens([row.context.token_types[name][: row.start] for row in batch], answer_type)
        contexts = [row.context for row in batch]
        for name in contexts[0].inputs:
            inputs[name] = torch.cat([context.inputs[name] for context in contexts])
        if CROSS_MASK in inputs:
            inputs[CROSS_MASK] = extend_mask(inputs[CROSS_MASK], length)
        if contexts[0].features is not None:
            pooled: list[Any] = [context.features.pooler_output for context in contexts if context.features]
            joined: Any = torch.cat(pooled) if torch.is_tensor(pooled[0]) else list(chain.from_iterable(pooled))
            inputs["mm_encoder_outputs"] = {"image": BaseModelOutputWithPooling(pooler_output=joined)}
        return inputs

    def _save_states(self, requests: Sequence[Instance], scores: Sequence[Score]) -> None:
        for request, score in zip(requests, scores, strict=True):
            assert score.state is not None
            self._states.append((request.task_name or "", row_id(request), request.idx, score.state))
        task, row, option, state = zip(*self._states, strict=True)
        assert self._states_path is not None
        with atomic_file(self._states_path) as partial, partial.open("wb") as file:
            np.savez(file, task=np.array(task), id=np.array(row), option=np.array(option), state=np.stack(state))


def _choose_auto_class(kind: str) -> Any:
    """Choose the transformers class for a model type: image-text-to-text, or causal LM if the type has no other.

    Phi-4-multimodal is an example of the second case.
    """
    from transformers.models.auto import modeling_auto

    has_text_class = kind in modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
    has_image_class = kind in modeling_auto.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES
    return (
        transformers.AutoModelForCausalLM
        if has_text_class and not has_image_class
        else transformers.AutoModelForImageTextToText
    )


def extend_mask(mask: torch.Tensor, length: int) -> torch.Tensor:
    """Extend a mask to more tokens. The new tokens attend to the same images as the prompt's last token.

    Args:
        mask: Shape (n, tokens, ...).
        length: Number of tokens after the extension.

    Returns:
        Shape (n, length, ...).
    """
    last = mask[:, -1:].expand(-1, length - mask.shape[1], *mask.shape[2:])
    return torch.cat([mask, last], dim=1)


def _get_arguments(request: Instance) -> tuple[str, str, Sequence[Any]]:
    """Get context, continuation and images of a request. lm-eval declares the arguments as a bare tuple."""
    context, continuation, auxiliary = cast(Any, request.args)
    return context, continuation, auxiliary["visual"]
