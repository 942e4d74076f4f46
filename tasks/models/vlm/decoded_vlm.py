"""lm-eval's hf-multimodal with one of the decoders of `tasks.decoding`: `--model_args decoding=vcd,alpha=1`."""

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

from ....loaders.errors import InputError, MedfaithError
from ...decoding.decoders import Chosen, choose, refuse_others
from ...decoding.generate import Decoding
from ...decoding.highlight import TEXT, VISION, Light, lit, use
from ...decoding.logits import add_bias
from ...decoding.noise import add_noise
from ...decoding.patches import coverage, find_covered, sort_by_window
from ...decoding.regions import GOLD
from ...decoding.titles import SAM
from ...explain.occlusion import occluded
from ...explain.tiles import shares
from ..answer_store import hash_facts
from ..image_lm import get_images
from .answering_vlm import Generated
from .families import Seen, claimed, compute_tiles, families
from .locating_vlm import LocatingVLM

LIT = {"loba": VISION, "prompt_highlighter": TEXT}
YES, NO = ("yes", "Yes", "YES"), ("no", "No", "NO")
_IMAGE_MARKERS = ("<|vision_start|>", "<|vision_end|>")  # markers around an image's tokens in Qwen-VL's prompts


class DecodedVLM(LocatingVLM):
    """hf-multimodal with a decoder.

    The prompts and their contrasts form one batch with twice the rows, so that each step is one forward pass. Decoders
    that need a region take rows with one image.

    Args:
        pretrained: The model, as for hf-multimodal.
        decoding: Name of the decoder. With None, transformers decodes by greedy search or sampling, as the task says.
        regions: Source of a row's region (see LocatingVLM).
        sam: The SAM of a trained model (see LocatingVLM).
        **kwargs: Arguments of hf-multimodal, and the decoder's parameters (`decoding.decoders`).

    Raises:
        InputError: The decoder is unknown, or a parameter's value is invalid.
        MedfaithError: Decoders are not tested with the model's family.
    """

    def __init__(
        self, pretrained: Any, decoding: str | None = None, regions: str = GOLD, sam: str = SAM, **kwargs: Any
    ) -> None:
        self._chosen: Chosen | None = choose(decoding, kwargs) if decoding else None
        refuse_others(kwargs, "a decoder, as in decoding=vcd")
        if regions != GOLD and not decoding:
            action = "name a decoder, too, such as decoding=loba (decoding=greedy changes no answer)"
            raise InputError("--model_args regions", f"is {regions!r} without a decoder", action=action)
        self._batch: Sequence[Instance] = ()  # the current batch
        self._light: Light | None = None  # weights of the current batch
        self._bias: dict[str, float] = {}  # by task
        super().__init__(pretrained, regions, sam, **kwargs)
        if self._chosen is not None and self._chosen.name in LIT:
            use(self.model, LIT[self._chosen.name])

    def _create_model(self, *arguments: Any, **options: Any) -> None:
        if self._chosen is not None:
            _check_family(self._chosen.name, cast(Any, self).config)  # before the weights are loaded
        cast(Any, super())._create_model(*arguments, **options)

    @cached_property
    def _facts(self) -> dict[str, Any]:
        """Facts of the model and the decoder, which separate stored answers and heatmaps by decoder."""
        if self._chosen is None:
            return super()._facts
        decoder = {"decoding": self._chosen.name, **self._chosen.values, "regions": self._regions_from}
        return super()._facts | decoder

    def generate_until(self, requests: list[Instance], disable_tqdm: bool = False) -> list[str]:
        """Generate LocatingVLM's answers with the decoder.

        Args:
            requests: Requests of lm-eval.
            disable_tqdm: Whether to hide the progress bar.

        Returns:
            The answers that are scored, in the order of the requests.

        Raises:
            InputError: Before the first answer, if a row has no region although the decoder needs one, or a region of
                another size than its image; otherwise as LocatingVLM.
        """
        if self._chosen is not None:
            if self._chosen.decoder.needs_region:
                with self._start_progress(len(requests), disable_tqdm, "looking for regions") as bar:
                    for request in requests:
                        self._check_region(request, f"decoding={self._chosen.name}")
                        bar.update()
            if self._chosen.name == "yes_bias":
                self._fit(requests)
        return super().generate_until(requests, disable_tqdm)

    def _refuse_scores(self) -> None:
        """Raise InputError if a decoder is set: it changes answers but not the scores of given text."""
        if self._chosen is not None and self._chosen.name != "greedy":
            action = "leave decoding out, or run tasks that ask for an answer"
            raise InputError("--model_args decoding", "changes answers, not scores of options", action=action)

    def _compute_key(self, request: Instance, repeat: int = 0) -> str:
        key = super()._compute_key(request, repeat)
        if self._chosen is None:
            return key
        region_facts = None
        if self._chosen.decoder.needs_region and len(get_images(request)):
            region = self._region(request)
            region_facts = [*region.shape, hashlib.sha256(np.packbits(region).tobytes()).hexdigest()]
        decoder = {"name": self._chosen.name, **self._chosen.values, "fitted": self._bias.get(request.task_name or "")}
        return hash_facts(plain=key, decoding=decoder, region=region_facts)

    def _generated(self, batch: Sequence[Instance]) -> list[Generated]:
        if self._chosen is None:
            return super()._generated(batch)
        with self._asking(batch):
            return super()._generated(batch)

    @contextmanager
    def _asking(self, batch: Sequence[Instance]) -> Iterator[None]:
        self._batch = batch
        try:
            yield
        finally:
            self._batch, self._light = (), None

    def tok_batch_multimodal_encode(
        self, strings: list[str], images: list[list], *arguments: Any, **options: Any
    ) -> Any:
        """Encode prompts as LocatingVLM does; under a decoder with a contrast, append the contrast of each prompt.

        Args:
            strings: The n prompts.
            images: The images of each prompt.
            *arguments: Further arguments of lm-eval's method.
            **options: Further options of lm-eval's method.

        Returns:
            Inputs of the model; (n, tokens), or (2n, tokens) with a contrast.
        """
        encode = super().tok_batch_multimodal_encode
        if not self._batch or self._chosen is None or self._chosen.decoder.branches == 1:
            return encode(strings, images, *arguments, **options)
        if not any(images):  # control `none`: nothing to contrast
            return encode([*strings, *strings], [*images, *images], *arguments, **options)
        contrast_texts, contrast_images = self._build_contrast(strings, images)
        encoded = encode([*strings, *contrast_texts], [*images, *contrast_images], *arguments, **options)
        if self._chosen.name == "vcd":
            encoded["pixel_values"] = self._add_noise(encoded)
        elif self._chosen.name in LIT:
            light = self._weight_patches if self._chosen.name == "loba" else self._weight_tokens
            self._light = light(
                strings, images, encoded, lambda pictures: encode(strings, pictures, *arguments, **options)
            )
        return encoded

    def _build_contrast(self, strings: Sequence[str], images: Sequence[list]) -> tuple[list[str], list[list]]:
        """Build the texts and images that the prompts of the batch are contrasted with."""
        name, values = cast(Any, self._chosen).name, cast(Any, self._chosen).values
        if name == "crg":
            return [*strings], [
                [occluded(image, _resize_region(region, image)) for image in row_images]
                for row_images, region in zip(images, self._regions(), strict=True)
            ]
        if name == "m3id":
            return [self._remove_images(text) for text in strings], [[] for _ in images]
        if name == "icd":
            return [self._insert_after_images(text, values["disturbance"]) for text in strings], [*images]
        return [*strings], [*images]

    def _regions(self) -> list[np.ndarray]:
        """Return the region of each row of the batch, bool (H, W)."""
        return [self._region(request) for request in self._batch]

    @property
    def _placeholders(self) -> list[str]:
        """Texts that may represent an image in a prompt, the longest first."""
        names = (getattr(self.processor, name, None) for name in ("image_token", "boi_token"))
        placeholders = {DEFAULT_IMAGE_PLACEHOLDER, self.image_token, *names} - {None, ""}
        return sorted(cast(set[str], placeholders), key=len, reverse=True)

    def _remove_images(self, text: str) -> str:
        for placeholder in (*self._placeholders, *_IMAGE_MARKERS):
            text = text.replace(placeholder, "")
        return text

    def _insert_after_images(self, text: str, insertion: str) -> str:
        """Insert words after the last image of a text, or at its start if it has no image."""
        marks = (*self._placeholders, *_IMAGE_MARKERS)
        end = max(text.rfind(mark) + len(mark) if mark in text else 0 for mark in marks)
        return f"{text[:end]}{insertion} {text[end:].lstrip(' ')}" if end else f"{insertion} {text}"

    def _add_noise(self, encoded: Any) -> torch.Tensor:
        """Return the pixels of both halves of a batch, with noise in the second half."""
        values, pixels = cast(Any, self._chosen).values, encoded["pixel_values"]
        half = len(pixels) // 2
        frames = 1
        if "image_grid_thw" in encoded:  # the patches of all images in one sequence
            grids = encoded["image_grid_thw"]
            pieces = pixels[half:].split(grids[len(grids) // 2 :].prod(-1).tolist())
            frames = self.model.config.vision_config.temporal_patch_size
        else:
            pieces = pixels[half:].reshape(-1, *pixels.shape[-3:]).unbind()
        noisy_pieces = add_noise(pieces, values["noise_step"], values["seed"], frames)
        contrast = (
            torch.cat(noisy_pieces) if pixels.ndim == 2 else torch.stack(noisy_pieces).reshape(pixels[half:].shape)
        )
        return torch.cat([pixels[:half], contrast])

    def _weight_patches(
        self, _: Sequence[str], images: list[list], encoded: Any, encode: Callable[[Any], Any]
    ) -> Light:
        """Compute the weights of the region's patches in the vision encoder, for the first half of the batch."""
        compute_patch_window, real = coverage(self._regions(), images, encode, self.model.config)
        weights = find_covered(compute_patch_window).float() * cast(Any, self._chosen).values["weight"]
        if encoded["pixel_values"].ndim == 2:
            all_weights = torch.cat([weights, torch.zeros_like(weights)], dim=1)
            return Light(sort_by_window(all_weights, encoded, self.model.config), packed=True)
        return Light(torch.cat([weights, torch.zeros_like(weights)])[real.repeat(2)], last=True)

    def _weight_tokens(
        self, strings: Sequence[str], images: list[list], encoded: Any, _: Callable[[Any], Any]
    ) -> Light:
        """Compute the weights of the region's tokens in the language model, for the first half of the batch."""
        ids = encoded["input_ids"]
        weights = torch.zeros(ids.shape, dtype=torch.float32, device=ids.device)
        for row, (text, (image,), region) in enumerate(zip(strings, images, self._regions(), strict=True)):
            lit_tokens = torch.from_numpy(self._find_region_tokens(text, image, region)).to(ids.device)
            places = torch.nonzero(ids[row] == self.model.config.image_token_id)[:, 0]
            weights[row, places] = lit_tokens.float() * cast(Any, self._chosen).values["weight"]
        return Light(weights)

    def _find_region_tokens(self, text: str, image: Image.Image, region: np.ndarray) -> np.ndarray:
        """Find the tokens of an image that show the region: bool (tokens,)."""
        family, size = cast(Any, claimed(self.model.config)), (image.height, image.width)
        inputs = dict(super().tok_batch_multimodal_encode([text], [[image]]))
        n_tokens = len(family.positions(inputs, self.model.config))
        is_covered = np.zeros(n_tokens, dtype=bool)
        for tile in compute_tiles(family, Seen(n_tokens, size, inputs, self.model.config, self.processor)):
            cell_shares = torch.from_numpy(shares(region, size, tile).ravel())
            is_covered[tile.tokens.ravel()] = find_covered(cell_shares).numpy()
        return is_covered

    def _check_window(self, length: int) -> None:
        """Refuse texts beyond a sliding window, whose layers would apply the weights to other tokens."""
        text = self.model.config.get_text_config()
        window = getattr(text, "sliding_window", None) or math.inf
        slides = "sliding_attention" in (getattr(text, "layer_types", None) or ["sliding_attention"])
        if slides and length > window:
            problem, expected = (
                f"{length} tokens of a prompt and its answer",
                f"at most {window}, the model's sliding window",
            )
            raise InputError("decoding=prompt_highlighter", problem, expected=expected, action="lower max_gen_toks")

    def _model_multimodal_generate(self, inputs: Any, max_length: int, stop: list[str], **kwargs: Any) -> torch.Tensor:
        if not self._batch or self._chosen is None or self._chosen.name == "greedy":
            return super()._model_multimodal_generate(inputs, max_length, stop, **kwargs)
        if self._chosen.name == "prompt_highlighter":
            self._check_window(max_length)
        with self._loop() as loop:
            output = super()._model_multimodal_generate(inputs, max_length, stop, custom_generate=loop, **kwargs)
        limit, token_lists = self._last_batch
        self._last_batch = limit, token_lists[: len(self._batch)]
        return output[: len(self._batch)]

    @contextmanager
    def _loop(self) -> Iterator[Decoding]:
        """Build the decoder's loop over the batch that was encoded last."""
        assert self._chosen is not None
        combine = self._add_bias if self._chosen.name == "yes_bias" else self._chosen.combine
        model_part = LIT.get(self._chosen.name)
        with lit(model_part, self._light) if model_part and self._light else nullcontext():
            yield Decoding(cast(Any, combine), self._chosen.decoder.branches)

    def _add_bias(self, scores: torch.Tensor, _: None, step: int) -> torch.Tensor:
        """Add the bias to the first token only, which says yes or no."""
        if step > 1:
            return scores
        biases = [self._bias[request.task_name or ""] for request in self._batch]
        return add_bias(
            scores, self._first_tokens(YES), torch.tensor(biases, device=scores.device, dtype=scores.dtype)[:, None]
        )

    def _first_tokens(self, options: Iterable[str]) -> torch.Tensor:
        """List the first tokens of words, with and without preceding white space."""
        written = (f"{prefix}{word}" for word in options for prefix in ("", " "))
        encoded = (self.tokenizer(text, add_special_tokens=False)["input_ids"] for text in written)
        blank = {self.tokenizer(" ", add_special_tokens=False)["input_ids"][-1]}
        firsts = {next((token for token in tokens if token not in blank), tokens[0]) for tokens in encoded if tokens}
        return torch.tensor(sorted(firsts), device=self.device)

    def _fit(self, requests: Sequence[Instance]) -> None:
        """Fit each task's bias so that a share `yes_share` of its rows says yes, or take the given bias."""
        values = cast(Any, self._chosen).values
        by_task: dict[str, list[Instance]] = {}
        for request in requests:
            by_task.setdefault(request.task_name or "", []).append(request)
        for task, task_requests in by_task.items():
            self._bias[task] = values["bias"]
            if values["yes_share"] is not None:
                self._bias[task] = fit_bias(self._compute_margins(task_requests), values["yes_share"])
                print(f"decoding=yes_bias: {task}: bias {self._bias[task]:.4f}", file=sys.stderr)

    def _compute_margins(self, requests: Sequence[Instance]) -> np.ndarray:
        """Compute the logit of the likeliest yes minus the logit of the likeliest no at the answer's start: (n,)."""
        yes, no = self._first_tokens(YES), self._first_tokens(NO)
        margins: list[float] = []
        with self._start_progress(len(requests), False, "fitting the bias") as bar:
            for start in range(0, len(requests), int(self.batch_size)):
                batch = [self._open_images(request) for request in requests[start : start + int(self.batch_size)]]
                texts, images = (
                    [cast(Any, request.args)[0] for request in batch],
                    [[*get_images(item)] for item in batch],
                )
                inputs = super().tok_batch_multimodal_encode(texts, images, padding_side="left")
                output = self.model.generate(
                    **inputs, max_new_tokens=1, do_sample=False, output_logits=True, return_dict_in_generate=True,
                    pad_token_id=self.tokenizer.pad_token_id,
                )  # fmt: skip
                logits = output.logits[0].float()
                margins += (logits[:, yes].amax(-1) - logits[:, no].amax(-1)).tolist()
                bar.update(len(batch))
        return np.array(margins)


def fit_bias(margins: np.ndarray, yes_share: float) -> float:
    """Compute the bias that lets a share of the rows, rounded to whole rows, prefer yes to no.

    The bias is the midpoint between the last row that says yes and the first that says no, or 1 beyond the extreme row.

    Args:
        margins: Logit of yes minus logit of no for each row, shape (n,).
        yes_share: Share of rows that say yes.

    Returns:
        The bias to add to the logit of yes.

    >>> fit_bias(np.array([2.0, -1.0, -3.0, -5.0]), 0.5)
    2.0
    >>> fit_bias(np.array([2.0, -1.0]), 1.0), fit_bias(np.array([2.0, -1.0]), 0.0)
    (2.0, -3.0)
    """
    ordered = np.sort(margins)[::-1]
    n_yes = round(yes_share * len(ordered))
    if n_yes == 0:
        return float(-ordered[0] - 1)
    if n_yes == len(ordered):
        return float(1 - ordered[-1])
    return float(-(ordered[n_yes - 1] + ordered[n_yes]) / 2)


def _resize_region(region: np.ndarray, image: Image.Image) -> np.ndarray:
    """Resize a region to the pixels of an image."""
    if region.shape == (image.height, image.width):
        return region
    return np.asarray(Image.fromarray(region).resize(image.size, Image.Resampling.NEAREST))


def _check_family(name: str, config: Any) -> None:
    family = claimed(config)
    if family is None or not family.decoded:
        names = ", ".join(candidate.name for candidate in families() if candidate.decoded)
        raise MedfaithError(
            f"--model_args decoding={name}: {config.model_type} is none of the models whose decoding was tested\n"
            f"  expected: a model of {names}\n"
            "  what to do: choose one of those, or leave decoding out"
        )
