"""`medfaith-alignment`: models that align a sentence with regions of its image, for That's the Wrong Lung!.

A document has a `sentence` and one image. The attention goes to the heatmap store, where the task scores it, and the
reply refers to it. The models are in aligners.py, gloria.py and uniter.py.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple, cast

import numpy as np
from lm_eval.api.instance import Instance
from PIL import Image

from ....loaders.errors import InputError, MedfaithError
from ....loaders.progress import Progress, say
from ...explain.store import ATTENTION, REGIONS, Entry, HeatmapStore, check_readers, digest_of
from ..answer_store import hash_facts
from ..contrastive.encoders import choose_device
from ..image_lm import ImageLM, get_images, parse_batch_size
from .aligners import Aligner, Alignment, GradientAligner

OPTIONS = {
    "gloria": ("text_model", "attention", "tau"),
    "uniter": ("text_model", "boxes"),
    "clip": ("explainer",),
    "blip": ("explainer",),
}


def load_aligner(pretrained: str, device: str | None = None, **options: Any) -> Aligner:
    """Load a model by name.

    Args:
        pretrained: `gloria:PATH` or `uniter:PATH` for a checkpoint; `clip:NAME` or `blip:NAME` for a folder or a
            Hub name.
        device: Device, as torch names it; by default a GPU if there is one.
        **options: For GLoRIA `text_model`, `attention` and `tau` (see gloria.py); for UNITER `text_model` and `boxes`
            (see uniter.py); otherwise `explainer` (see medfaith-contrastive).

    Returns:
        The model.

    Raises:
        InputError: The model or an option is unknown, or the model cannot be read.
    """
    kind, _, name = pretrained.partition(":")
    if kind not in OPTIONS or not name:
        raise InputError(
            "pretrained", f"is {pretrained!r}", expected="gloria:PATH, uniter:PATH, clip:NAME or blip:NAME"
        )
    unknown = [option for option in options if option not in OPTIONS[kind]]
    if unknown:
        expected = f"of {kind} only {', '.join(OPTIONS[kind])}"
        raise InputError("model_args", f"unknown: {', '.join(unknown)}", expected=expected)
    device = choose_device(device)
    if kind == "gloria":
        from .gloria import GloriaAligner

        return GloriaAligner(name, device, **options)
    if kind == "uniter":
        from .uniter import UniterAligner

        return UniterAligner(name, device, **options)
    return GradientAligner(kind, name, device, **options)


class _Pair(NamedTuple):
    """An image and a sentence, and the rows that ask about them."""

    image: Image.Image
    image_id: str
    sentence: str
    digest: str
    rows: tuple[str, ...]  # ids of the rows, without duplicates
    numbers: list[int]  # indices of the requests


class AlignmentLM(ImageLM):
    """Attention and similarities of the sentences of That's the Wrong Lung!.

    The reply is JSON: {"heatmaps": a reference into the store, "local": the similarity of words and regions or null,
    "global": the similarity of sentence and image}.

    Each pair of image and sentence is computed once, for all tasks and rows that ask about it, and written to the store
    with its batch. A repeated run computes only missing pairs.

    Args:
        pretrained: The model (see `load_aligner`).
        store: A folder for the attention.
        batch_size: Pairs of an image and a sentence per batch.
        device: Device, as torch names it; by default a GPU if there is one.
        max_batch_size: Batch size to use if `batch_size` is automatic.
        **options: Options of the model (see `load_aligner`).
    """

    def __init__(
        self,
        pretrained: str,
        store: str | None = None,
        batch_size: int | str = 16,
        device: str | None = None,
        max_batch_size: int | None = None,  # lm-eval passes it with an automatic batch size
        **options: Any,
    ) -> None:
        super().__init__()
        if store is None:
            raise InputError(
                "store",
                "is not named",
                action="name a folder for the attention: --heatmaps DIR to medfaith eval, or store=DIR in --model_args",
            )
        self._pretrained, self._batch_size = pretrained, parse_batch_size(batch_size, max_batch_size)
        self._aligner = load_aligner(pretrained, device, **options)
        self._store = HeatmapStore(store, self._aligner.identity, exact=True)

    def generate_until(self, requests: list[Instance], disable_tqdm: bool = False) -> list[str]:
        """Compute one reply for each request, as JSON (see the class).

        Args:
            requests: Requests with one image and a document with a sentence each.
            disable_tqdm: Whether to hide the progress bar.

        Returns:
            The replies, in the order of the requests.

        Raises:
            InputError: A document has no sentence, or not exactly one image; or the attention is to be read from
                another folder than `store`.
            MedfaithError: The model returns values that are not finite.
        """
        groups = _group_requests(requests)
        check_readers((request.doc for request in requests), self._store.folder)
        replies, n_cut = [""] * len(requests), 0
        pairs = _iterate_pairs(requests, groups)
        n_pairs, quiet = sum(map(len, groups.values())), disable_tqdm or self.rank != 0
        with Progress(title="aligning sentences", total=n_pairs, unit="sentences", quiet=quiet) as bar:
            while batch := list(islice(pairs, self._batch_size)):
                for pair, entry in zip(batch, self._compute_entries(batch), strict=True):
                    similar = {name: entry.extra[name] for name in ("local", "global")}
                    reply = json.dumps({"heatmaps": self._store.reference(pair.digest), **similar})
                    for number in pair.numbers:
                        replies[number] = reply
                    n_cut += entry.extra["cut"]
                bar.update(len(batch))
        if n_cut:
            message = f"{n_cut} sentences were longer than the model takes; their ends were left out"
            say(f"medfaith-alignment: {message}")
        return replies

    @property
    def fingerprint(self) -> str:
        """Hash of everything that a reply depends on other than the document; the model's folder does not matter."""
        return hash_facts(**self._aligner.identity)

    @property
    def tokenizer_name(self) -> str:
        """Name of the model."""
        return self._pretrained

    def _compute_entries(self, pairs: Sequence[_Pair]) -> list[Entry]:
        """Read the entries of the pairs from the store; compute the missing ones and write them for every row."""
        entries = [self._read_entry(pair) for pair in pairs]
        missing = [n for n, entry in enumerate(entries) if entry is None]
        if missing:
            images, image_ids, sentences = zip(*(pairs[n][:3] for n in missing), strict=True)
            for n, alignment in zip(missing, self._aligner.align(images, sentences, image_ids), strict=True):
                entries[n] = self._build_entry(alignment)
        for pair, entry in zip(pairs, entries, strict=True):
            assert entry is not None
            for row in pair.rows:
                if not self._store.has(row, pair.digest):
                    self._store.write(row, pair.digest, entry.maps, entry.geometry, extra=entry.extra)
        return cast(list[Entry], entries)

    def _read_entry(self, pair: _Pair) -> Entry | None:
        """Read a pair's entry from the store, or return None if no row of the pair has one."""
        row = next((row for row in pair.rows if self._store.has(row, pair.digest)), None)
        return self._store.read(row, pair.digest) if row is not None else None

    def _build_entry(self, alignment: Alignment) -> Entry:
        """Build the store entry of an alignment and check that its values are finite."""
        similar = {"local": alignment.local, "global": alignment.overall}
        numbers = [number for number in similar.values() if number is not None]
        if not (np.isfinite(alignment.attention).all() and np.isfinite(numbers).all()):
            raise MedfaithError(
                f"{self._pretrained} gives attention or similarities that are not numbers: its weights are broken"
            )
        maps, extra = {ATTENTION: alignment.attention}, similar | {"cut": alignment.cut}
        if alignment.regions is not None:
            extra |= {REGIONS: alignment.regions.tolist()}
        return Entry(maps, alignment.geometry, None, extra)


_Groups = dict[tuple[str, str], dict[str, list[int]]]  # (image, image_id) -> sentence -> indices of requests


def _group_requests(requests: Sequence[Instance]) -> _Groups:
    """Group request indices by image and sentence, without opening an image. A control may change the image alone.

    Raise InputError for a row that has no sentence, or not one image.
    """
    groups: _Groups = {}
    for number, request in enumerate(requests):
        doc, visual = request.doc, get_images(request)
        task_name = request.task_name or "request"
        if not isinstance(doc, Mapping) or not {"id", "sentence"} <= doc.keys():
            raise InputError(
                task_name,
                "the document has no sentence",
                expected="documents of That's the Wrong Lung!",
                action="run medfaith_wrong_lung or one of its tasks, or another model",
                row=request.doc_id,
            )
        if len(visual) != 1:
            raise InputError(task_name, f"{len(visual)} images", expected="one image a sentence", row=str(doc["id"]))
        image = str(visual), str(doc.get("image_id", ""))
        groups.setdefault(image, {}).setdefault(str(doc["sentence"]), []).append(number)
    return groups


def _iterate_pairs(requests: Sequence[Instance], groups: _Groups) -> Iterator[_Pair]:
    """Iterate over the pairs image by image. Each image is opened once."""
    for (_, image_id), sentences in groups.items():
        first_number = next(iter(sentences.values()))[0]
        (image,) = get_images(requests[first_number])
        image = image.convert("RGB")
        size, content = f"{image.size}".encode(), image.tobytes()
        for sentence, numbers in sentences.items():
            rows = dict.fromkeys(str(cast(Any, requests[n].doc)["id"]) for n in numbers)
            yield _Pair(image, image_id, sentence, digest_of(size, content, sentence.encode()), tuple(rows), numbers)
