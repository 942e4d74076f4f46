"""lm-eval's hf-multimodal under one of the decoders of `tasks.decoding`: `--model_args decoding=vcd,alpha=1`."""

from __future__ import annotations

import hashlib
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import cached_property
from typing import Any, cast

import numpy as np
import torch
from lm_eval.api.instance import Instance
from lm_eval.models.hf_vlms import DEFAULT_IMAGE_PLACEHOLDER
from PIL import Image

from ...loaders.errors import InputError, MedfaithError
from ..decoding.decoders import Chosen, choose, refuse_others
from ..decoding.generate import Decoding
from ..decoding.highlight import TEXT, VISION, Light, lit, use
from ..decoding.logits import biased
from ..decoding.noise import noised
from ..decoding.patches import coverage, covered, in_windows
from ..decoding.regions import GOLD
from ..decoding.titles import SAM
from ..explain.occlusion import occluded
from ..explain.tiles import shares
from .answer_store import key_of
from .answering_vlm import Generated
from .families import Seen, claimed, families, tiles_of
from .image_lm import images_of
from .locating_vlm import LocatingVLM

LIT = {"loba": VISION, "prompt_highlighter": TEXT}
YES, NO = ("yes", "Yes", "YES"), ("no", "No", "NO")
_AROUND = ("<|vision_start|>", "<|vision_end|>")  # of an image's tokens in Qwen-VL's prompts


class DecodedVLM(LocatingVLM):
    """hf-multimodal under a decoder.

    What is contrasted is one batch of twice the rows, so that a step is one forward pass. Rows under a decoder with a
    region have one image.

    Args:
        pretrained, **kwargs: as for hf-multimodal, and the decoder's own parameters (`decoding.decoders`).
        decoding: the decoder's name; None: transformers' own greedy search or sampling, as the task says.
        regions, sam: where the region of a row comes from, as of LocatingVLM.

    Raises:
        InputError: no such decoder, or a value that does not fit.
        MedfaithError: a family for which decoders are not known to be right.
    """

    def __init__(
        self, pretrained: Any, decoding: str | None = None, regions: str = GOLD, sam: str = SAM, **kwargs: Any
    ) -> None:
        self._chosen: Chosen | None = choose(decoding, kwargs) if decoding else None
        refuse_others(kwargs, "a decoder, as in decoding=vcd")
        if regions != GOLD and not decoding:
            action = "name a decoder, too, such as decoding=loba (decoding=greedy changes no answer)"
            raise InputError("--model_args regions", f"is {regions!r} without a decoder", action=action)
        self._asked: Sequence[Instance] = ()  # the batch that is being answered
        self._light: Light | None = None  # of the batch that is being answered
        self._bias: dict[str, float] = {}  # by task
        super().__init__(pretrained, regions, sam, **kwargs)
        if self._chosen is not None and self._chosen.name in LIT:
            use(self.model, LIT[self._chosen.name])

    def _create_model(self, *given: Any, **options: Any) -> None:
        if self._chosen is not None:
            _check_family(self._chosen.name, cast(Any, self).config)  # before the weights are loaded
        cast(Any, super())._create_model(*given, **options)

    @cached_property
    def _facts(self) -> dict[str, Any]:
        """With the decoder: what it answers is kept apart from what the model alone answers, heatmaps too."""
        if self._chosen is None:
            return super()._facts
        given = {"decoding": self._chosen.name, **self._chosen.values, "regions": self._regions_from}
        return super()._facts | given

    def generate_until(self, requests: list[Instance], disable_tqdm: bool = False) -> list[str]:
        """As LocatingVLM's, under the decoder.

        Raises:
            InputError: before the first answer, a row without the region that the decoder needs, or with one of another
                size than its image; as LocatingVLM's.
        """
        if self._chosen is not None:
            if self._chosen.decoder.needs_region:
                with self._bar(len(requests), disable_tqdm, "looking for regions") as bar:
                    for request in requests:
                        self._check_region(request, f"decoding={self._chosen.name}")
                        bar.update()
            if self._chosen.name == "yes_bias":
                self._fit(requests)
        return super().generate_until(requests, disable_tqdm)

    def _refuse_scores(self) -> None:
        """A decoder changes answers, and no scores of given text."""
        if self._chosen is not None and self._chosen.name != "greedy":
            action = "leave decoding out, or run tasks that ask for an answer"
            raise InputError("--model_args decoding", "changes answers, not scores of options", action=action)

    def _key(self, request: Instance, repeat: int = 0) -> str:
        key = super()._key(request, repeat)
        if self._chosen is None:
            return key
        seen = None
        if self._chosen.decoder.needs_region and len(images_of(request)):
            region = self._region(request)
            seen = [*region.shape, hashlib.sha256(np.packbits(region).tobytes()).hexdigest()]
        given = {"name": self._chosen.name, **self._chosen.values, "fitted": self._bias.get(request.task_name or "")}
        return key_of(plain=key, decoding=given, region=seen)

    def _generated(self, batch: Sequence[Instance]) -> list[Generated]:
        if self._chosen is None:
            return super()._generated(batch)
        with self._asking(batch):
            return super()._generated(batch)

    @contextmanager
    def _asking(self, batch: Sequence[Instance]) -> Iterator[None]:
        self._asked = batch
        try:
            yield
        finally:
            self._asked, self._light = (), None

    def tok_batch_multimodal_encode(self, strings: list[str], images: list[list], *given: Any, **options: Any) -> Any:
        """As LocatingVLM's; of a batch that is answered under a decoder with a contrast, (2n, tokens): n prompts, then
        what each is contrasted with.
        """
        encode = super().tok_batch_multimodal_encode
        if not self._asked or self._chosen is None or self._chosen.decoder.branches == 1:
            return encode(strings, images, *given, **options)
        if not any(images):  # control `none`: nothing to contrast
            return encode([*strings, *strings], [*images, *images], *given, **options)
        texts, shown = self._contrast(strings, images)
        encoded = encode([*strings, *texts], [*images, *shown], *given, **options)
        if self._chosen.name == "vcd":
            encoded["pixel_values"] = self._noised(encoded)
        elif self._chosen.name in LIT:
            light = self._on_patches if self._chosen.name == "loba" else self._on_tokens
            self._light = light(strings, images, encoded, lambda of: encode(strings, of, *given, **options))
        return encoded

    def _contrast(self, strings: Sequence[str], images: Sequence[list]) -> tuple[list[str], list[list]]:
        """The texts and images that the prompts of the batch are contrasted with."""
        name, values = cast(Any, self._chosen).name, cast(Any, self._chosen).values
        if name == "crg":
            return [*strings], [
                [occluded(image, _at_size(region, image)) for image in of_row]
                for of_row, region in zip(images, self._regions(), strict=True)
            ]
        if name == "m3id":
            return [self._without_images(text) for text in strings], [[] for _ in images]
        if name == "icd":
            return [self._behind_images(text, values["disturbance"]) for text in strings], [*images]
        return [*strings], [*images]

    def _regions(self) -> list[np.ndarray]:
        """bool (H, W), of each row of the batch."""
        return [self._region(request) for request in self._asked]

    @property
    def _placeholders(self) -> list[str]:
        """What may stand for an image in a prompt, the longest first."""
        names = (getattr(self.processor, name, None) for name in ("image_token", "boi_token"))
        found = {DEFAULT_IMAGE_PLACEHOLDER, self.image_token, *names} - {None, ""}
        return sorted(cast(set[str], found), key=len, reverse=True)

    def _without_images(self, text: str) -> str:
        for placeholder in (*self._placeholders, *_AROUND):
            text = text.replace(placeholder, "")
        return text

    def _behind_images(self, text: str, words: str) -> str:
        """The text with words behind its last image, or before all of it."""
        marks = (*self._placeholders, *_AROUND)
        end = max(text.rfind(mark) + len(mark) if mark in text else 0 for mark in marks)
        return f"{text[:end]}{words} {text[end:].lstrip(' ')}" if end else f"{words} {text}"

    def _noised(self, encoded: Any) -> torch.Tensor:
        """The pixels of both halves, the second one's under noise."""
        values, pixels = cast(Any, self._chosen).values, encoded["pixel_values"]
        half = len(pixels) // 2
        frames = 1
        if "image_grid_thw" in encoded:  # all images' patches in a row
            grids = encoded["image_grid_thw"]
            parts = pixels[half:].split(grids[len(grids) // 2 :].prod(-1).tolist())
            frames = self.model.config.vision_config.temporal_patch_size
        else:
            parts = pixels[half:].reshape(-1, *pixels.shape[-3:]).unbind()
        found = noised(parts, values["noise_step"], values["seed"], frames)
        other = torch.cat(found) if pixels.ndim == 2 else torch.stack(found).reshape(pixels[half:].shape)
        return torch.cat([pixels[:half], other])

    def _on_patches(self, _: Sequence[str], images: list[list], encoded: Any, encode: Callable[[Any], Any]) -> Light:
        """The weights of the region's patches in the vision encoder, of the first half alone."""
        of_patches, real = coverage(self._regions(), images, encode, self.model.config)
        weights = covered(of_patches).float() * cast(Any, self._chosen).values["weight"]
        if encoded["pixel_values"].ndim == 2:
            both = torch.cat([weights, torch.zeros_like(weights)], dim=1)
            return Light(in_windows(both, encoded, self.model.config), packed=True)
        return Light(torch.cat([weights, torch.zeros_like(weights)])[real.repeat(2)], last=True)

    def _on_tokens(self, strings: Sequence[str], images: list[list], encoded: Any, _: Callable[[Any], Any]) -> Light:
        """The weights of the region's tokens in the language model, of the first half alone."""
        ids = encoded["input_ids"]
        weights = torch.zeros(ids.shape, dtype=torch.float32, device=ids.device)
        for row, (text, (image,), region) in enumerate(zip(strings, images, self._regions(), strict=True)):
            lit_tokens = torch.from_numpy(self._tokens_of(text, image, region)).to(ids.device)
            places = torch.nonzero(ids[row] == self.model.config.image_token_id)[:, 0]
            weights[row, places] = lit_tokens.float() * cast(Any, self._chosen).values["weight"]
        return Light(weights)

    def _tokens_of(self, text: str, image: Image.Image, region: np.ndarray) -> np.ndarray:
        """Which of an image's tokens show the region: bool (tokens,)."""
        family, size = cast(Any, claimed(self.model.config)), (image.height, image.width)
        inputs = dict(super().tok_batch_multimodal_encode([text], [[image]]))
        n_tokens = len(family.positions(inputs, self.model.config))
        found = np.zeros(n_tokens, dtype=bool)
        for tile in tiles_of(family, Seen(n_tokens, size, inputs, self.model.config, self.processor)):
            of_cells = torch.from_numpy(shares(region, size, tile).ravel())
            found[tile.tokens.ravel()] = covered(of_cells).numpy()
        return found

    def _check_window(self, length: int) -> None:
        """Layers that forget the beginning of a text would take the weights for those of other tokens."""
        text = self.model.config.get_text_config()
        window = getattr(text, "sliding_window", None) or math.inf
        slides = "sliding_attention" in (getattr(text, "layer_types", None) or ["sliding_attention"])
        if slides and length > window:
            found, expected = (
                f"{length} tokens of a prompt and its answer",
                f"at most {window}, the model's sliding window",
            )
            raise InputError("decoding=prompt_highlighter", found, expected=expected, action="lower max_gen_toks")

    def _model_multimodal_generate(self, inputs: Any, max_length: int, stop: list[str], **kwargs: Any) -> torch.Tensor:
        if not self._asked or self._chosen is None or self._chosen.name == "greedy":
            return super()._model_multimodal_generate(inputs, max_length, stop, **kwargs)
        if self._chosen.name == "prompt_highlighter":
            self._check_window(max_length)
        with self._loop() as loop:
            output = super()._model_multimodal_generate(inputs, max_length, stop, custom_generate=loop, **kwargs)
        limit, made = self._made
        self._made = limit, made[: len(self._asked)]
        return output[: len(self._asked)]

    @contextmanager
    def _loop(self) -> Iterator[Decoding]:
        """The decoder's loop over the batch that was encoded last."""
        assert self._chosen is not None
        combine = self._with_bias if self._chosen.name == "yes_bias" else self._chosen.combine
        part = LIT.get(self._chosen.name)
        with lit(part, self._light) if part and self._light else nullcontext():
            yield Decoding(cast(Any, combine), self._chosen.decoder.branches)

    def _with_bias(self, own: torch.Tensor, _: None, step: int) -> torch.Tensor:
        """The first word alone says yes or no."""
        if step > 1:
            return own
        of_rows = [self._bias[request.task_name or ""] for request in self._asked]
        return biased(own, self._first_tokens(YES), torch.tensor(of_rows, device=own.device, dtype=own.dtype)[:, None])

    def _first_tokens(self, words: Iterable[str]) -> torch.Tensor:
        """The first tokens of a word, with white space before it and without."""
        written = (f"{before}{word}" for word in words for before in ("", " "))
        encoded = (self.tokenizer(text, add_special_tokens=False)["input_ids"] for text in written)
        blank = {self.tokenizer(" ", add_special_tokens=False)["input_ids"][-1]}
        firsts = {next((token for token in tokens if token not in blank), tokens[0]) for tokens in encoded if tokens}
        return torch.tensor(sorted(firsts), device=self.device)

    def _fit(self, requests: Sequence[Instance]) -> None:
        """Of each task, the bias that makes a share of `yes_share` of its rows say yes; or the bias that is given."""
        values = cast(Any, self._chosen).values
        by_task: dict[str, list[Instance]] = {}
        for request in requests:
            by_task.setdefault(request.task_name or "", []).append(request)
        for task, of_task in by_task.items():
            self._bias[task] = values["bias"]
            if values["yes_share"] is not None:
                self._bias[task] = bias_for(self._margins(of_task), values["yes_share"])
                print(f"decoding=yes_bias: {task}: bias {self._bias[task]:.4f}", file=sys.stderr)

    def _margins(self, requests: Sequence[Instance]) -> np.ndarray:
        """By how much the likeliest yes is above the likeliest no where the answer begins, in logits: shape (n,)."""
        yes, no = self._first_tokens(YES), self._first_tokens(NO)
        margins: list[float] = []
        with self._bar(len(requests), False, "fitting the bias") as bar:
            for start in range(0, len(requests), int(self.batch_size)):
                batch = [self._opened(request) for request in requests[start : start + int(self.batch_size)]]
                texts, images = [cast(Any, request.args)[0] for request in batch], [[*images_of(one)] for one in batch]
                inputs = super().tok_batch_multimodal_encode(texts, images, padding_side="left")
                output = self.model.generate(
                    **inputs, max_new_tokens=1, do_sample=False, output_logits=True, return_dict_in_generate=True,
                    pad_token_id=self.tokenizer.pad_token_id,
                )  # fmt: skip
                logits = output.logits[0].float()
                margins += (logits[:, yes].amax(-1) - logits[:, no].amax(-1)).tolist()
                bar.update(len(batch))
        return np.array(margins)


def bias_for(margins: np.ndarray, yes_share: float) -> float:
    """What has to be added to yes so that a share of the rows, to the nearest row, has it above no.

    It lies in the middle between the last row that says yes and the first that says no, or 1 beyond the last of all.

    >>> bias_for(np.array([2.0, -1.0, -3.0, -5.0]), 0.5)
    2.0
    >>> bias_for(np.array([2.0, -1.0]), 1.0), bias_for(np.array([2.0, -1.0]), 0.0)
    (2.0, -3.0)
    """
    ordered = np.sort(margins)[::-1]
    n_yes = round(yes_share * len(ordered))
    if n_yes == 0:
        return float(-ordered[0] - 1)
    if n_yes == len(ordered):
        return float(1 - ordered[-1])
    return float(-(ordered[n_yes - 1] + ordered[n_yes]) / 2)


def _at_size(region: np.ndarray, image: Image.Image) -> np.ndarray:
    """The region in pixels of an image of another size."""
    if region.shape == (image.height, image.width):
        return region
    return np.asarray(Image.fromarray(region).resize(image.size, Image.Resampling.NEAREST))


def _check_family(name: str, config: Any) -> None:
    family = claimed(config)
    if family is None or not family.decoded:
        known = ", ".join(one.name for one in families() if one.decoded)
        raise MedfaithError(
            f"--model_args decoding={name}: {config.model_type} is none of the models whose decoding was tested\n"
            f"  expected: a model of {known}\n"
            "  what to do: choose one of those, or leave decoding out"
        )
