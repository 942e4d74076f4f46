"""lm-eval's hf-multimodal with the location of the region that a question asks about: `--model_args regions=...`."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from lm_eval.api.instance import Instance
from PIL import Image

from ....evaluate_metrics.reading.stated_regions import FOUND, read_regions
from ....loaders import rle
from ....loaders.errors import InputError
from ...controls import DONORS, harmless
from ...decoding.regions import GOLD, check_kind, draw_mask, format_location_prompt, open_region_source
from ...decoding.titles import SAM, TRAINED
from ..image_lm import get_images, hash_pixels, row_id
from .answering_vlm import AnsweringVLM
from .prompt_inputs import question

if TYPE_CHECKING:
    from ...decoding.loba.model import Loba

STATED = "stated:"  # prefix of `regions`: a box format
MAX_LOCATION_TOKENS = 128


class LocatingVLM(AnsweringVLM):
    """hf-multimodal with the region of each row. Such rows have one image.

    Args:
        pretrained: The model, as for AnsweringVLM.
        regions: Source of the row's region (`decoding.regions.open_region_source`). Alternatively the model itself
            locates the region, and its replies contain it: "loba:FOLDER" names the output of `medfaith train loba`,
            "stated:KIND" the box format that the model writes (`reading.stated_regions`).
        sam: The SAM that the trained model used in training.
        **kwargs: Arguments of AnsweringVLM.

    Raises:
        InputError: The source of regions is unknown.
    """

    def __init__(self, pretrained: Any, regions: str = GOLD, sam: str = SAM, **kwargs: Any) -> None:
        trained = regions.removeprefix(TRAINED) if regions.startswith(TRAINED) else ""
        self._stated = regions.removeprefix(STATED) if regions.startswith(STATED) else ""
        if regions.startswith(STATED):
            check_kind(self._stated)
        self._regions_from = hashlib.sha256(regions.encode()).hexdigest()[:16]  # hashed, because a path is private
        self._locates_itself = bool(trained or self._stated)
        self._find_region = open_region_source(GOLD if self._locates_itself else regions)
        self._is_gold = not self._locates_itself and regions == GOLD
        self._loba: Loba | None = None
        self._located: dict[tuple[str, str], rle.Rle | None] = {}  # by the prompt and a hash of the image's pixels
        super().__init__(pretrained, **kwargs)
        if trained:
            self._load_trained_model(Path(trained).expanduser(), sam)

    def _load_trained_model(self, folder: Path, sam: str) -> None:
        """Load the model that `medfaith train loba` trained and that locates regions itself."""
        from ...decoding.loba.model import load

        loba = load(folder, str(self._pretrained), sam, dtype=str(self.model.dtype).removeprefix("torch."))
        loba.vlm = loba.vlm.merge_and_unload()
        self._loba, self._model = loba.to(self.device), loba.vlm
        self.processor, self.tokenizer = loba.encoder.processor, loba.encoder.tokenizer

    def generate_until(self, requests: list[Instance], disable_tqdm: bool = False) -> list[str]:
        """Generate the answers of AnsweringVLM, with the region if the model locates it itself.

        Args:
            requests: Requests of lm-eval.
            disable_tqdm: Whether to hide the progress bar.

        Returns:
            The answers, in the order of the requests; JSON with text and region if the model locates the region itself.
        """
        texts = super().generate_until(requests, disable_tqdm)
        if not self._locates_itself:
            return texts
        return [self._add_region(request, text) for request, text in zip(requests, texts, strict=True)]

    def _add_region(self, request: Instance, text: str) -> str:
        """Add the located region to an answer, in the format that HEAL-MedVQA's tasks read (`heal.localization`)."""
        doc = cast(Any, request.doc)
        if doc.get("region") is None or len(get_images(request)) != 1:
            return text
        opened = self._open_images(request)
        location = self._compute_location(opened, get_images(opened)[0])
        if location is None:
            return text
        region = rle.resize_mask(location, rle.get_size(doc["region"]))
        return json.dumps({"text": text, "region": dict(region)}, ensure_ascii=False)

    def _check_region(self, request: Instance, needed_by: str) -> None:
        """Raise InputError if the row has no region that fits its image; `needed_by` is the argument that needs one."""
        task_name, row = request.task_name or "request", row_id(request)
        images = get_images(request)
        if not len(images) and get_control(request) == "none":
            return
        if len(images) != 1:
            problem = f"{len(images)} images"
            raise InputError(task_name, problem, row=row, expected=f"one image, of which {needed_by} takes a region")
        if self._stated and not cast(Any, request.doc).get("anatomy"):
            action = "run tasks of HEAL-MedVQA, or name another source of regions"
            raise InputError(task_name, "names no anatomy whose place could be asked for", row=row, action=action)
        if self._locates_itself:  # the model locates each row's region later
            return
        width, height = images.size(0) if hasattr(images, "size") else images[0].size
        size = None if get_control(request) in DONORS else (height, width)
        region = self._find_region(cast(Any, request.doc), size)
        if region is None:
            action = "run tasks whose rows have one (medfaith_heal_vindr_closed), name a folder of a segmenter's masks "
            action += "(--model_args regions=FOLDER), or take another decoder"
            raise InputError(task_name, f"no region, which {needed_by} needs", row=row, action=action)
        if size is not None and rle.get_size(region) != size:
            problem = f"a region of {' x '.join(map(str, reversed(rle.get_size(region))))} pixels"
            action = "use the source's original images: masks are in their pixels"
            raise InputError(task_name, problem, row=row, expected=f"{width} x {height}, as its image", action=action)

    def _region(self, request: Instance) -> np.ndarray:
        """Return the row's region, bool (H, W), mirrored with its image. A donor image uses the same location."""
        image = get_images(request)[0]
        if self._locates_itself:
            located = self._compute_location(request, image)
            return np.zeros((image.height, image.width), bool) if located is None else rle.decode(located).astype(bool)
        size = None if get_control(request) in DONORS else (image.height, image.width)
        mask = self._find_region(cast(Any, request.doc), size)
        if get_control(request) == "cropped" and not self._is_gold:  # gold regions are cropped with their image
            mask = harmless.crop_mask(cast(Any, mask), cast(Any, request.doc)["id"])
        region = rle.decode(cast(Any, mask)).astype(bool)
        return region[:, ::-1] if get_control(request) == "flipped" else region

    def _compute_location(self, request: Instance, image: Image.Image) -> rle.Rle | None:
        """Compute the region that the model locates, in image pixels, or None if its answer cannot be read."""
        key = cast(Any, request.args)[0], hash_pixels(image)  # controls change the pixels of a row
        if key not in self._located:
            with torch.inference_mode(), self._work.busy():
                mask = (
                    self._compute_trained_mask(request, image)
                    if self._loba
                    else self._compute_stated_mask(request, image)
                )
            self._located[key] = None if mask is None else rle.encode(mask)
        return self._located[key]

    def _compute_trained_mask(self, request: Instance, image: Image.Image) -> np.ndarray | None:
        """Compute the mask of a model that `medfaith train loba` trained."""
        from ...decoding.loba.predict import locate

        prompt = dict(super().tok_batch_multimodal_encode([cast(Any, request.args)[0]], [[image]]))
        prompt.pop("labels", None)
        return locate(cast(Any, self._loba), image, prompt).mask

    def _compute_stated_mask(self, request: Instance, image: Image.Image) -> np.ndarray | None:
        """Ask the model for the location, in a separate prompt, and draw its answer as a mask."""
        prompt = format_location_prompt(self._stated, cast(Any, request.doc)["anatomy"])
        inputs = {
            name: value.to(self.device, self.model.dtype if value.is_floating_point() else value.dtype)
            for name, value in question(self.processor, [image], prompt).items()
        }
        settings = {
            "max_new_tokens": MAX_LOCATION_TOKENS,
            "do_sample": False,
            "pad_token_id": self.tokenizer.pad_token_id,
        }
        tokens = self.model.generate(**inputs, **settings)[0, inputs["input_ids"].shape[1] :]
        input_size, size = None, (image.height, image.width)
        if "image_grid_thw" in inputs:
            patch = self.model.config.vision_config.patch_size
            input_size = tuple(int(side) * patch for side in inputs["image_grid_thw"][0, 1:])
        text = self.tokenizer.decode(tokens, skip_special_tokens=False)
        stated = read_regions(text, self._stated, size, cast(Any, input_size or size))
        return draw_mask(stated, size) if stated.outcome == FOUND else None


def get_control(request: Instance) -> str | None:
    """Get the control of a request's document, or None.

    Args:
        request: The request.

    Returns:
        Name of the control, or None.
    """
    return cast(Any, request.doc).get("control")
