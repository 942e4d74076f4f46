"""`medfaith-alignment`: models that align a sentence with regions of its image, on That's the Wrong Lung!.

A document has a `sentence` and one image; what the model attends to goes to the heatmap store, where the task scores
it, and the reply says where. The models are in aligners.py and gloria.py.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple, cast

import numpy as np
from lm_eval.api.instance import Instance
from PIL import Image

from ...loaders.errors import InputError, MedfaithError
from ...loaders.progress import Progress, say
from ..explain.store import ATTENTION, Entry, HeatmapStore, check_readers, digest_of
from .aligners import Aligner, Alignment, GradientAligner
from .contrastive_encoders import usable_device
from .image_lm import ImageLM, images_of, number_at_once

OPTIONS = {"gloria": ("text_model", "attention", "tau"), "clip": ("explainer",), "blip": ("explainer",)}


def load_aligner(pretrained: str, device: str | None = None, **options: Any) -> Aligner:
    """A model by name.

    Args:
        pretrained: `gloria:PATH`, a checkpoint; `clip:NAME` or `blip:NAME`, a folder or a Hub name.
        device: as torch names it; a GPU if there is one.
        options: of GLoRIA `text_model`, `attention` and `tau` (see gloria.py); of the others `explainer` (see
            medfaith-contrastive).

    Raises:
        InputError: a model or option that is none, or a model that cannot be read.
    """
    kind, _, name = pretrained.partition(":")
    if kind not in OPTIONS or not name:
        raise InputError("pretrained", f"is {pretrained!r}", expected="gloria:PATH, clip:NAME or blip:NAME")
    unknown = [option for option in options if option not in OPTIONS[kind]]
    if unknown:
        expected = f"of {kind} only {', '.join(OPTIONS[kind])}"
        raise InputError("model_args", f"unknown: {', '.join(unknown)}", expected=expected)
    device = usable_device(device)
    if kind == "gloria":
        from .gloria import GloriaAligner

        return GloriaAligner(name, device, **options)
    return GradientAligner(kind, name, device, **options)


class _Pair(NamedTuple):
    """An image and a sentence, and the rows that ask about them."""

    image: Image.Image
    sentence: str
    shown: str
    rows: tuple[str, ...]  # their ids, each once
    numbers: list[int]  # of their requests


class AlignmentLM(ImageLM):
    """Attention and similarities of the sentences of That's the Wrong Lung!.

    The reply is JSON: {"heatmaps": a reference for the store, "local": the similarity of words and regions or null,
    "global": that of sentence and image}.

    Each image and sentence is computed once, however many tasks and rows ask about it, and goes to the store with its
    batch: a repeated run computes what is missing.

    Args:
        pretrained, device, and other options: see `load_aligner`.
        store: a folder for the attention. batch_size: pairs of an image and a sentence at once.
    """

    def __init__(
        self,
        pretrained: str,
        store: str | None = None,
        batch_size: int | str = 16,
        device: str | None = None,
        max_batch_size: int | None = None,  # lm-eval passes it along with an automatic batch size
        **options: Any,
    ) -> None:
        super().__init__()
        if store is None:
            raise InputError(
                "store",
                "is not named",
                action="name a folder for the attention: --heatmaps DIR to medfaith eval, or store=DIR in --model_args",
            )
        self._pretrained, self._batch_size = pretrained, number_at_once(batch_size, max_batch_size)
        self._aligner = load_aligner(pretrained, device, **options)
        self._store = HeatmapStore(store, self._aligner.identity, exact=True)

    def generate_until(self, requests: list[Instance], disable_tqdm: bool = False) -> list[str]:
        """One reply a request, as JSON (see the class).

        Raises:
            InputError: a document without a sentence, or not with one image; the attention is to be read from another
                folder than `store`.
            MedfaithError: the model gives something that is no number.
        """
        pictures = _pictures(requests)
        check_readers((request.doc for request in requests), self._store.folder)
        replies, n_cut = [""] * len(requests), 0
        pairs = _opened(requests, pictures)
        n_pairs, quiet = sum(map(len, pictures.values())), disable_tqdm or self.rank != 0
        with Progress(title="aligning sentences", total=n_pairs, unit="sentences", quiet=quiet) as bar:
            while batch := list(islice(pairs, self._batch_size)):
                for pair, entry in zip(batch, self._entries(batch), strict=True):
                    similar = {name: entry.extra[name] for name in ("local", "global")}
                    reply = json.dumps({"heatmaps": self._store.reference(pair.shown), **similar})
                    for number in pair.numbers:
                        replies[number] = reply
                    n_cut += entry.extra["cut"]
                bar.update(len(batch))
        if n_cut:
            cut = f"{n_cut} sentences were longer than the model takes; their ends were left out"
            say(f"medfaith-alignment: {cut}")
        return replies

    @property
    def tokenizer_name(self) -> str:
        return self._pretrained

    def _entries(self, pairs: Sequence[_Pair]) -> list[Entry]:
        """What the store has of each pair; what it lacks is computed, and written for every row."""
        entries = [self._kept(pair) for pair in pairs]
        missing = [n for n, entry in enumerate(entries) if entry is None]
        if missing:
            found = self._aligner.align([pairs[n].image for n in missing], [pairs[n].sentence for n in missing])
            for n, alignment in zip(missing, found, strict=True):
                entries[n] = self._checked(alignment)
        for pair, entry in zip(pairs, entries, strict=True):
            assert entry is not None
            for row in pair.rows:
                if not self._store.has(row, pair.shown):
                    self._store.write(row, pair.shown, entry.maps, entry.geometry, extra=entry.extra)
        return cast(list[Entry], entries)

    def _kept(self, pair: _Pair) -> Entry | None:
        row = next((row for row in pair.rows if self._store.has(row, pair.shown)), None)
        return self._store.read(row, pair.shown) if row is not None else None

    def _checked(self, alignment: Alignment) -> Entry:
        similar = {"local": alignment.local, "global": alignment.overall}
        numbers = [number for number in similar.values() if number is not None]
        if not (np.isfinite(alignment.attention).all() and np.isfinite(numbers).all()):
            raise MedfaithError(
                f"{self._pretrained} gives attention or similarities that are not numbers: its weights are broken"
            )
        maps = {ATTENTION: alignment.attention}
        return Entry(maps, alignment.geometry, None, similar | {"cut": alignment.cut})


def _pictures(requests: Sequence[Instance]) -> dict[str, dict[str, list[int]]]:
    """What names an image -> sentence -> numbers of the requests about both; no image is opened for it."""
    pictures: dict[str, dict[str, list[int]]] = {}
    for number, request in enumerate(requests):
        doc, visual = request.doc, images_of(request)
        where = request.task_name or "request"
        if not isinstance(doc, Mapping) or not {"id", "sentence"} <= doc.keys():
            raise InputError(
                where,
                "the document has no sentence",
                expected="documents of That's the Wrong Lung!",
                action="run medfaith_wrong_lung or one of its tasks, or another model",
                row=request.doc_id,
            )
        if len(visual) != 1:
            raise InputError(where, f"{len(visual)} images", expected="one image a sentence", row=str(doc["id"]))
        pictures.setdefault(str(visual), {}).setdefault(str(doc["sentence"]), []).append(number)
    return pictures


def _opened(requests: Sequence[Instance], pictures: Mapping[str, Mapping[str, list[int]]]) -> Iterator[_Pair]:
    """Pairs image by image, each image opened once, when it is its turn."""
    for sentences in pictures.values():
        first = next(iter(sentences.values()))[0]
        (image,) = images_of(requests[first])
        image = image.convert("RGB")
        size, content = f"{image.size}".encode(), image.tobytes()
        for sentence, numbers in sentences.items():
            rows = dict.fromkeys(str(cast(Any, requests[n].doc)["id"]) for n in numbers)
            yield _Pair(image, sentence, digest_of(size, content, sentence.encode()), tuple(rows), numbers)
