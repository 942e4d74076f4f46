"""lm-eval's hf-multimodal that knows where in the image a question's region lies: `--model_args regions=...`."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from lm_eval.api.instance import Instance
from PIL import Image

from ...evaluate_metrics.reading.stated_regions import FOUND, read_regions
from ...loaders import rle
from ...loaders.errors import InputError
from ..controls import DONORS, harmless
from ..decoding.regions import GOLD, asked_for, check_kind, mask_of, source_of
from ..decoding.titles import SAM
from .answering_vlm import AnsweringVLM, pixels_digest
from .image_lm import images_of, row_id
from .prompt_inputs import question

if TYPE_CHECKING:
    from ..decoding.loba.model import Loba

TRAINED, STATED = "loba:", "stated:"  # of `regions`: a folder of a model trained to localize, how it states boxes
MOST_WORDS = 128  # tokens of a stated place


class LocatingVLM(AnsweringVLM):
    """hf-multimodal with the region of each row. Such rows have one image.

    Args:
        pretrained, **kwargs: as for AnsweringVLM.
        regions: where the region of a row comes from (`decoding.regions.source_of`). Or the model says itself where it
            looks, and its replies have that region: "loba:FOLDER" names what `medfaith train loba` has written,
            "stated:KIND" how the model writes a box (`reading.stated_regions`).
        sam: the SAM that this model was trained with.

    Raises InputError: no such source of regions.
    """

    def __init__(self, pretrained: Any, regions: str = GOLD, sam: str = SAM, **kwargs: Any) -> None:
        trained = regions.removeprefix(TRAINED) if regions.startswith(TRAINED) else ""
        self._stated = regions.removeprefix(STATED) if regions.startswith(STATED) else ""
        if regions.startswith(STATED):
            check_kind(self._stated)
        self._regions_from = hashlib.sha256(regions.encode()).hexdigest()[:16]  # a place on this machine is nobody's
        self._says_where = bool(trained or self._stated)
        self._region_of = source_of(GOLD if self._says_where else regions)
        self._is_gold = not self._says_where and regions == GOLD
        self._loba: Loba | None = None
        self._located: dict[tuple[str, str], rle.Rle | None] = {}  # by the prompt and the image's pixels
        super().__init__(pretrained, **kwargs)
        if trained:
            self._take_trained(Path(trained).expanduser(), sam)

    def _take_trained(self, folder: Path, sam: str) -> None:
        """Becomes the model that `medfaith train loba` has trained, which says where it looks."""
        from ..decoding.loba.model import load

        loba = load(folder, str(self._pretrained), sam, dtype=str(self.model.dtype).removeprefix("torch."))
        loba.vlm = loba.vlm.merge_and_unload()
        self._loba, self._model = loba.to(self.device), loba.vlm
        self.processor, self.tokenizer = loba.encoder.processor, loba.encoder.tokenizer

    def generate_until(self, requests: list[Instance], disable_tqdm: bool = False) -> list[str]:
        """As AnsweringVLM's; with its region, if the model says itself where it looks."""
        texts = super().generate_until(requests, disable_tqdm)
        if not self._says_where:
            return texts
        return [self._with_region(request, text) for request, text in zip(requests, texts, strict=True)]

    def _with_region(self, request: Instance, text: str) -> str:
        """The answer with where the model has looked, as HEAL-MedVQA's tasks read it (`heal.localization`)."""
        doc = cast(Any, request.doc)
        if doc.get("region") is None or len(images_of(request)) != 1:
            return text
        opened = self._opened(request)
        found = self._locate(opened, images_of(opened)[0])
        if found is None:
            return text
        region = rle.resize_mask(found, rle.get_size(doc["region"]))
        return json.dumps({"text": text, "region": dict(region)}, ensure_ascii=False)

    def _check_region(self, request: Instance, needed_by: str) -> None:
        """Raises InputError where a row has no region that fits its image. needed_by: the argument that needs one."""
        where, row = request.task_name or "request", row_id(request)
        images = images_of(request)
        if not len(images) and control_of(request) == "none":
            return
        if len(images) != 1:
            found = f"{len(images)} images"
            raise InputError(where, found, row=row, expected=f"one image, of which {needed_by} takes a region")
        if self._stated and not cast(Any, request.doc).get("anatomy"):
            action = "run tasks of HEAL-MedVQA, or name another source of regions"
            raise InputError(where, "names no anatomy whose place could be asked for", row=row, action=action)
        if self._says_where:  # row by row
            return
        width, height = images.size(0) if hasattr(images, "size") else images[0].size  # pyright: ignore
        size = None if control_of(request) in DONORS else (height, width)
        region = self._region_of(cast(Any, request.doc), size)
        if region is None:
            action = "run tasks whose rows have one (medfaith_heal_vindr_closed), name a folder of a segmenter's masks "
            action += "(--model_args regions=FOLDER), or take another decoder"
            raise InputError(where, f"no region, which {needed_by} needs", row=row, action=action)
        if size is not None and rle.get_size(region) != size:
            found = f"a region of {' x '.join(map(str, reversed(rle.get_size(region))))} pixels"
            action = "use the source's original images: masks are in their pixels"
            raise InputError(where, found, row=row, expected=f"{width} x {height}, as its image", action=action)

    def _region(self, request: Instance) -> np.ndarray:
        """bool (H, W), mirrored with its image. In another patient's image it is taken to lie at the same place."""
        image = images_of(request)[0]
        if self._says_where:
            located = self._locate(request, image)
            return np.zeros((image.height, image.width), bool) if located is None else rle.decode(located).astype(bool)
        size = None if control_of(request) in DONORS else (image.height, image.width)
        found = self._region_of(cast(Any, request.doc), size)
        if control_of(request) == "cropped" and not self._is_gold:  # the row's own has moved with its image
            found = harmless.crop_mask(cast(Any, found), cast(Any, request.doc)["id"])
        region = rle.decode(cast(Any, found)).astype(bool)
        return region[:, ::-1] if control_of(request) == "flipped" else region

    def _locate(self, request: Instance, image: Image.Image) -> rle.Rle | None:
        """Where the model says that it looks, in the image's pixels; None where it says nothing that can be read."""
        key = cast(Any, request.args)[0], pixels_digest(image)  # a row has other pixels under a control
        if key not in self._located:
            with torch.inference_mode(), self._work.busy():
                mask = self._trained_mask(request, image) if self._loba else self._stated_mask(request, image)
            self._located[key] = None if mask is None else rle.encode(mask)
        return self._located[key]

    def _trained_mask(self, request: Instance, image: Image.Image) -> np.ndarray | None:
        from ..decoding.loba.predict import locate

        prompt = dict(super().tok_batch_multimodal_encode([cast(Any, request.args)[0]], [[image]]))
        prompt.pop("labels", None)
        return locate(cast(Any, self._loba), image, prompt).mask

    def _stated_mask(self, request: Instance, image: Image.Image) -> np.ndarray | None:
        """The model is asked for the place first, in a prompt of its own."""
        words = asked_for(self._stated, cast(Any, request.doc)["anatomy"])
        given = {
            name: value.to(self.device, self.model.dtype if value.is_floating_point() else value.dtype)
            for name, value in question(self.processor, [image], words).items()
        }
        how = {"max_new_tokens": MOST_WORDS, "do_sample": False, "pad_token_id": self.tokenizer.pad_token_id}
        tokens = self.model.generate(**given, **how)[0, given["input_ids"].shape[1] :]
        shown, size = None, (image.height, image.width)
        if "image_grid_thw" in given:
            patch = self.model.config.vision_config.patch_size
            shown = tuple(int(side) * patch for side in given["image_grid_thw"][0, 1:])
        text = self.tokenizer.decode(tokens, skip_special_tokens=False)
        stated = read_regions(text, self._stated, size, cast(Any, shown or size))
        return mask_of(stated, size) if stated.outcome == FOUND else None


def control_of(request: Instance) -> str | None:
    return cast(Any, request.doc).get("control")
