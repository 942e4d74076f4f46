"""`medfaith-hf-vlm`: lm-eval's hf-multimodal with option scores, log p(option | images, prompt).

What generates text is hf-multimodal's (`answering_vlm`). What is added is `loglikelihood` with images, which lm-eval's
class refuses, and the hidden states that CXR-ContraBench's boundary check looks at (Appendix A.3).
"""

from __future__ import annotations

import inspect
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

from ...loaders.atomic import atomic_file
from ...loaders.errors import InputError, MedfaithError
from .answer_store import AnswerStore
from .decoded_vlm import DecodedVLM
from .families import claimed
from .image_lm import row_id
from .score_store import KeptScores

TOKEN_TYPES = ("token_type_ids", "mm_token_type_ids")  # which tokens are an image's, or the prompt's (PaliGemma)
CROSS_MASK = "cross_attention_mask"  # which image each token of a prompt sees, where it is by cross-attention


class Score(NamedTuple):
    """log_likelihood: nats, summed over the continuation's tokens; greedy: whether each of them was the likeliest.

    state: float32, shape (hidden size,), the last layer's at the continuation's last token; None where not asked for.
    """

    log_likelihood: float
    greedy: bool
    state: np.ndarray | None


class _Context(NamedTuple):
    """One prompt with its images, encoded once for all its continuations."""

    text: str  # with the model's own image placeholders
    tokens: list[int]  # what the model reads: every placeholder expanded to its image's tokens
    unexpanded: list[int]  # the same text's tokens with the placeholders as they stand
    token_types: dict[str, list[int]]
    inputs: dict[str, torch.Tensor]  # what else the model needs to know of the images
    features: BaseModelOutputWithPooling | None  # of the vision encoder; None: `inputs` holds the pixels


class _Row(NamedTuple):
    number: int  # of the request
    context: _Context
    tokens: list[int]  # context and continuation
    start: int  # where the continuation begins


class HFVisionLM(DecodedVLM):
    """hf-multimodal with image-conditioned `loglikelihood`.

    A request is (context, continuation, {"visual": images}); requests with the same context string and the same
    `images` object, as lm-eval makes them for the options of one row, are one context: its images are opened,
    preprocessed and put through the vision encoder once. Where the model's class takes no precomputed features
    (`mm_encoder_outputs`), or its vision encoder returns more than features (Qwen3-VL), pixels are passed with every
    option instead, in batches of one context: the same scores, more work.

    Continuation tokens are, as in lm-eval, those of context + continuation beyond the context's own number of tokens,
    after white space at the context's end moved to the continuation. Nothing is cut: a text longer than `max_length`
    is an error. lm-eval's response cache is not filled, because its keys ignore images.

    Args:
        pretrained, **kwargs: as for hf-multimodal. Without a chat template `image_string` is what the processor expands
            for one image; for Qwen2.5-VL name `<|vision_start|><|image_pad|><|vision_end|>`, or neighbouring images run
            into one another. `answers` (AnsweringVLM) keeps scores, too. `decoding`
            (DecodedVLM) changes answers, not scores.
        states_path: a .npz file for the hidden states of all continuations that `loglikelihood` scores: `task`, `id`
            (the row's), `option` (its index), each of shape (n,), and `state`, float32 of shape (n, hidden size).
            It stays in memory until it is written (4 bytes x n x hidden size). One process only. `answers` then keeps
            no scores.
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
        self._crosses = CROSS_MASK in parameters

    def tok_batch_multimodal_encode(self, strings: list[str], images: list[list], *given: Any, **options: Any) -> Any:
        """As of DecodedVLM; prompts without an image are written as the processor writes those with one."""
        if not self._prompt_end or any(len(of_one) for of_one in images):
            return super().tok_batch_multimodal_encode(strings, images, *given, **options)
        written = [f"{self.tokenizer.bos_token}{text}{self._prompt_end}" for text in strings]
        encoded = super().tok_batch_multimodal_encode(written, images, *given, **options)
        encoded["token_type_ids"] = torch.zeros_like(encoded["input_ids"])  # all of it is prompt
        return encoded

    def _batched_apart(self, n_images: int) -> int:
        if self._crosses:  # transformers lets text before an image see what a batch pads to its most images
            return n_images
        return min(n_images, 1) if self._prompt_end else 0

    def _create_model(self, *given: Any, **options: Any) -> None:
        self.AUTO_MODEL_CLASS = _auto_class(cast(Any, self).config.model_type)
        cast(Any, super())._create_model(*given, **options)

    def loglikelihood(self, requests: list[Instance], disable_tqdm: bool = False) -> list[tuple[float, bool]]:
        """(log-likelihood in nats, whether greedy) a request; requests without images go to lm-eval's own method.

        Raises:
            InputError: placeholders and images differ in number, a continuation has no tokens, a text is too long, or
                the model has a decoder.
        """
        self._refuse_scores()
        with_images = [request for request in requests if len(request.args) > 2]
        text_only = [request for request in requests if len(request.args) <= 2]
        scores = self._score(with_images, disable_tqdm, states=self._states_path is not None)
        if self._states_path and with_images:
            self._keep_states(with_images, scores)
        ours = iter((score.log_likelihood, score.greedy) for score in scores)
        others = iter(super().loglikelihood(text_only, disable_tqdm) if text_only else [])  # pyright: ignore[reportCallIssue]
        return [next(ours if len(request.args) > 2 else others) for request in requests]

    def option_states(self, requests: Sequence[Instance], disable_tqdm: bool = False) -> np.ndarray:
        """Last-layer hidden states at the last token of each continuation: float32, shape (n, hidden size)."""
        return np.stack([s.state for s in self._score(requests, disable_tqdm, states=True) if s.state is not None])

    def _score(self, requests: Sequence[Instance], disable_tqdm: bool, states: bool) -> list[Score]:
        """Of each request, what is kept, or is computed and kept. With `states` all is computed, and nothing kept."""
        scores: dict[int, Score] = {}
        path = None if states else self._answers
        with AnswerStore(path) as store, self._bar(len(requests), disable_tqdm, "scoring options") as bar:
            kept = KeptScores(store, requests, self._keys)
            for batch in self._batches(requests, kept.missing):
                made = {row.number: score for row, score in zip(batch, self._forward(batch, states), strict=True)}
                kept.put({number: (score.log_likelihood, score.greedy) for number, score in made.items()})
                scores |= made
                bar.update(len(scores) + len(kept.found) - bar.n)
        scores |= {number: Score(*score, None) for number, score in kept.found.items()}
        return [scores[number] for number in range(len(requests))]

    def _keys(self, requests: Sequence[Instance]) -> list[str]:
        """Of requests about the same images."""
        images = self._opened(requests[0]).args[2]  # pyright: ignore (lm-eval declares a bare tuple)
        return [self._key(replace(request, arguments=(*request.args[:2], images))) for request in requests]

    def _batches(self, requests: Sequence[Instance], missing: Callable[[list[int]], list[int]]) -> Iterator[list[_Row]]:
        """Rows in batches; no more contexts are held at a time than one batch has.

        missing: of the numbers of the requests about one context, those that are to be scored.
        """
        groups: dict[tuple[str, int], list[int]] = {}
        for number, request in enumerate(requests):
            context, _, images = _arguments(request)
            groups.setdefault((context, id(images)), []).append(number)
        size = int(self.batch_size)

        def length(group: list[int]) -> tuple[int, int]:  # a stand-in for tokens that opens no image
            context, _, images = _arguments(requests[group[0]])
            return len(images), len(context)

        batch: list[_Row] = []
        # The longest first: what does not fit in memory fails at once, and a batch has little padding.
        for whole in sorted(groups.values(), key=length, reverse=True):
            group = missing(whole)
            if not group:
                continue
            context = self._encode(requests[group[0]])
            alone = context.features is None
            if alone and batch:
                yield batch
                batch = []
            for number in group:
                batch.append(self._row(number, requests[number], context))
                if len(batch) == size:
                    yield batch
                    batch = []
            if alone and batch:
                yield batch
                batch = []
        if batch:
            yield batch

    def _encode(self, request: Instance) -> _Context:
        """The request's context through the processor, exactly as for `generate_until`, and the vision encoder."""
        text, _, visual = _arguments(request)
        text = text.rstrip()
        images = self._shown(visual)
        self._check_placeholders(request, text, len(images))
        encoding = dict(self.tok_batch_multimodal_encode([text], [images], padding_side="right"))
        if not self.chat_applied:
            text = replace_placeholders(text, DEFAULT_IMAGE_PLACEHOLDER, self.image_token, self.max_images)
        tokens = encoding.pop("input_ids")[0].tolist()
        for unused in ("attention_mask", "labels"):
            encoding.pop(unused, None)
        token_types = {name: encoding.pop(name)[0].tolist() for name in TOKEN_TYPES if name in encoding}
        features = self._features(encoding)
        if features is not None:
            encoding = {name: tensor for name, tensor in encoding.items() if not name.startswith("pixel")}
        text += self._prompt_end
        return _Context(text, tokens, self._tokens(text), token_types, encoding, features)

    def _check_placeholders(self, request: Instance, text: str, n_images: int) -> None:
        placeholders = {DEFAULT_IMAGE_PLACEHOLDER}
        if self.chat_applied:  # the chat template put the model's own; Gemma 3 calls its `boi_token`
            names = ("image_token", "boi_token")
            placeholders = {self.image_token} | {getattr(self.processor, name, None) for name in names}
        found = max(text.count(placeholder) for placeholder in placeholders if placeholder)
        limit = self.max_images if self.max_images is not None else n_images
        if min(found, limit) != min(n_images, limit) or (n_images == 0 and found):
            raise InputError(
                request.task_name or "request",
                f"the prompt has {found} image placeholders for {n_images} images",
                expected=f"one {DEFAULT_IMAGE_PLACEHOLDER} an image",
                action="let doc_to_text write as many placeholders as doc_to_image gives images",
                row=row_id(request),
            )

    def _features(self, inputs: Mapping[str, torch.Tensor]) -> BaseModelOutputWithPooling | None:
        """The vision encoder's output that the model can be given again, or None where it has to see the pixels."""
        encoder = getattr(self.model.base_model, "get_image_features", None)
        if not self._takes_features or encoder is None or not any(name.startswith("pixel") for name in inputs):
            return None
        wanted = {name: inputs[name] for name in inspect.signature(encoder).parameters if name in inputs}
        with torch.no_grad():
            output = encoder(**wanted, return_dict=True)
        if set(output) - {"last_hidden_state", "pooler_output", "hidden_states", "attentions"}:
            self._takes_features = False
            return None
        return BaseModelOutputWithPooling(pooler_output=output.pooler_output)

    def _tokens(self, text: str) -> list[int]:
        return self.tokenizer(text)["input_ids"]

    def _row(self, number: int, request: Instance, context: _Context) -> _Row:
        """The tokens of context and continuation together, without preprocessing the images once more.

        Only the text's end can be tokenised differently once the continuation follows: what both unexpanded token
        lists share is what the expanded one keeps.
        """
        text, continuation, _ = _arguments(request)
        continuation = text[len(text.rstrip()) :] + continuation
        if self._prompt_end.isspace():
            continuation = continuation.lstrip()  # white space stands there already
        whole = self._tokens(context.text + continuation)
        same = takewhile(lambda pair: pair[0] == pair[1], zip(whole, context.unexpanded, strict=False))
        shared = sum(1 for _ in same)
        kept = len(context.tokens) - (len(context.unexpanded) - shared)
        if context.tokens[kept:] != context.unexpanded[shared:]:
            raise MedfaithError(
                f"{type(self.processor).__name__} changes the end of a prompt, so that its options cannot be scored\n"
                "  what to do: use a chat template that ends in text"
            )
        tokens, start = context.tokens[:kept] + whole[shared:], len(context.tokens)
        where = request.task_name or "request"
        if len(tokens) <= start:
            raise InputError(where, f"{continuation!r} adds no token to the prompt", row=row_id(request))
        if len(tokens) > self.max_length:
            raise InputError(
                where,
                f"{len(tokens)} tokens with the images' do not fit into {self.max_length}",
                action="raise max_length in --model_args if the model takes more; or send smaller or fewer images",
                row=row_id(request),
            )
        return _Row(number, context, tokens, start)

    def _forward(self, batch: Sequence[_Row], states: bool) -> list[Score]:
        inputs = self._pad(batch)
        length = inputs["input_ids"].shape[1]
        first = min(row.start for row in batch) - 1  # the earliest position whose next token is scored
        if self._takes_kept_logits:
            inputs["logits_to_keep"] = length - first
        with torch.no_grad():
            output = self.model(**inputs, output_hidden_states=states, use_cache=False)
        offset = first if self._takes_kept_logits else 0
        scores = []
        for number, row in enumerate(batch):
            logits = output.logits[number, row.start - 1 - offset : len(row.tokens) - 1 - offset]
            wanted = torch.tensor(row.tokens[row.start :], device=logits.device)
            log_probabilities = logits.float().log_softmax(-1).gather(1, wanted[:, None])
            greedy = bool((logits.argmax(-1) == wanted).all())
            state = output.hidden_states[-1][number, len(row.tokens) - 1].float().cpu().numpy() if states else None
            scores.append(Score(float(log_probabilities.sum()), greedy, state))
        return scores

    def _pad(self, batch: Sequence[_Row]) -> dict[str, Any]:
        """One batch for the model: tokens padded at the right, so that positions are those of a row by itself."""
        length = max(len(row.tokens) for row in batch)

        def padded(rows: list[list[int]], fill: int) -> torch.Tensor:
            return torch.tensor([row + [fill] * (length - len(row)) for row in rows], device=self.device)

        inputs: dict[str, Any] = {
            "input_ids": padded([row.tokens for row in batch], self.tokenizer.pad_token_id),
            "attention_mask": padded([[1] * len(row.tokens) for row in batch], 0),
        }
        for name in batch[0].context.token_types:
            own = self._answer_types.get(name, 0)  # of a continuation; of padding it does not matter
            inputs[name] = padded([row.context.token_types[name][: row.start] for row in batch], own)
        contexts = [row.context for row in batch]
        for name in contexts[0].inputs:
            inputs[name] = torch.cat([context.inputs[name] for context in contexts])
        if CROSS_MASK in inputs:
            inputs[CROSS_MASK] = lengthened(inputs[CROSS_MASK], length)
        if contexts[0].features is not None:
            pooled: list[Any] = [context.features.pooler_output for context in contexts if context.features]
            joined: Any = torch.cat(pooled) if torch.is_tensor(pooled[0]) else list(chain.from_iterable(pooled))
            inputs["mm_encoder_outputs"] = {"image": BaseModelOutputWithPooling(pooler_output=joined)}
        return inputs

    def _keep_states(self, requests: Sequence[Instance], scores: Sequence[Score]) -> None:
        for request, score in zip(requests, scores, strict=True):
            assert score.state is not None
            self._states.append((request.task_name or "", row_id(request), request.idx, score.state))
        task, row, option, state = zip(*self._states, strict=True)
        assert self._states_path is not None
        with atomic_file(self._states_path) as partial, partial.open("wb") as file:
            np.savez(file, task=np.array(task), id=np.array(row), option=np.array(option), state=np.stack(state))


def _auto_class(kind: str) -> Any:
    """What transformers loads a model type with: as images and text or, where it has no such class for it, as text.

    Phi-4-multimodal is such a one.
    """
    from transformers.models.auto import modeling_auto

    of_text = kind in modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
    of_images = kind in modeling_auto.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES
    return transformers.AutoModelForCausalLM if of_text and not of_images else transformers.AutoModelForImageTextToText


def lengthened(mask: torch.Tensor, length: int) -> torch.Tensor:
    """A mask of shape (n, tokens, ...) for `length` tokens: those of an answer see what the prompt's last one sees."""
    last = mask[:, -1:].expand(-1, length - mask.shape[1], *mask.shape[2:])
    return torch.cat([mask, last], dim=1)


def _arguments(request: Instance) -> tuple[str, str, Sequence[Any]]:
    """Context, continuation and images; lm-eval declares the arguments as a bare tuple."""
    context, continuation, auxiliary = cast(Any, request.args)
    return context, continuation, auxiliary["visual"]
