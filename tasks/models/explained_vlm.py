"""`medfaith-explained-vlm`: lm-eval's hf-multimodal with a heatmap of every class that an answer names.

The text is hf-multimodal's. Where the document has `classes` (SurgXBench) and `store` is given, the mentions of an
answer are found by words, mapped to the answer's own tokens, and explained by Grad-CAM (appendix A.3); the map of a
class is the mean of the maps of its tokens. Where it has a `sentence` (That's the Wrong Lung!), the word that answers,
yes or no, is explained, and its map, divided by its sum, is the attention to the sentence. Heatmaps go to a store on
disk, and the reply names them. So it is with yes or no to a question whose document has a reader of `heatmaps` alone
(HEAL-MedVQA). A request of another kind gets plain text.
"""

from __future__ import annotations

import importlib.util
import json
import re
from collections.abc import Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from lm_eval.api.instance import Instance
from lm_eval.models.hf_vlms import DEFAULT_IMAGE_PLACEHOLDER
from lm_eval.models.utils import resize_image
from PIL import Image

from ...evaluate_metrics.reading.surgery import read_instruments, read_triplets
from ...loaders.atomic import atomic_file
from ...loaders.errors import InputError
from ..explain import cleann
from ..explain.causal_plot import draw_causal_graph
from ..explain.geometry import Geometry
from ..explain.store import ATTENTION, HeatmapStore, check_readers, digest_of
from ..explain.tiles import CHANNELS, Tile, bounds, compose, of_channel
from ..explain.token_cam import TARGETS, decoder_layers, layer_at, reading_layers, token_cam
from ..outcomes import CUT
from .chat_form import Reply
from .families import Seen, family_of, tiles_of
from .hf_vlm import CROSS_MASK, TOKEN_TYPES, HFVisionLM, lengthened
from .image_lm import images_of, tell_outcome

OBLONG = (2000, 1000)  # width and height of an image that every model with tiles cuts up
YES_OR_NO = re.compile(r"\b(?:yes|no)\b", re.IGNORECASE)
Span = tuple[int, int]


class _Answer(NamedTuple):
    """A generated answer beside its prompt, as the model reads both."""

    inputs: dict[str, torch.Tensor]  # input_ids of shape (1, n), and what else the model needs to know of the image
    mentions: dict[str, list[list[int]]]  # class -> for each mention the positions of its tokens


class ExplainedVLM(HFVisionLM):
    """hf-multimodal whose replies are `{"heatmaps": reference, "text": answer}`, with the heatmaps in a store.

    Args:
        pretrained, **kwargs: as for medfaith-hf-vlm. `answers` keeps plain text; what is explained is in `store`.
        store: a folder for heatmaps. Without it replies are plain text, and nothing is explained. A row that is
            there, of this model, prompt and image, is not computed again.
        layer, target: of token_cam.token_cam.
        channel: of a model that cuts an image up, whether the heatmap is that of the `tiles`, each in its place, or of
            the `overview`, the whole image made small (explain.tiles).
        causal_graphs: a folder for CLEANN's graphs (cleann.causal_graphs) of the tokens of the first mention of each
            class: named as the row's heatmaps are, `<folder>/<key>/<row>-<shown>.json`, {"row", "size", "window",
            "graphs": {class: [a list of graphs a token]}}, and with matplotlib pictures of each first token's in a
            folder beside it. Needs `store`. Slow: five graphs a token, each of up to seconds.

    Raises:
        InputError: no such layer, target or channel, or causal_graphs without store.
        MedfaithError: the model has no decoder layers, it is not known where its image tokens lie, or no library for
            causal graphs is installed.
    """

    def __init__(
        self,
        pretrained: Any,
        store: str | None = None,
        layer: int = -1,
        target: str = "logit",
        channel: str = CHANNELS[0],
        causal_graphs: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(pretrained, **kwargs)
        if target not in TARGETS:
            raise InputError("target", repr(target), expected=" or ".join(TARGETS))
        if channel not in CHANNELS:
            raise InputError("channel", repr(channel), expected=" or ".join(CHANNELS))
        if causal_graphs and not store:
            raise InputError("causal_graphs", "needs store", action="name a folder for the heatmaps, too: store=...")
        self._layer, self._target, self._channel = layer, target, channel
        if store:
            # A layer or a family that is not there fails before anything is generated.
            layer_at(self.model, layer)
            self._family = family_of(self.model.config)
            self._check_tiles(for_graphs=bool(causal_graphs))
        self._folder = Path(store).expanduser() if store else None
        self._graphs = Path(causal_graphs).expanduser() if causal_graphs else None
        self._backend = cleann.pick_backend() if causal_graphs else None
        self._stores: dict[str, HeatmapStore] = {}

    def generate_until(self, requests: list[Instance], disable_tqdm: bool = False) -> list[str]:
        """hf-multimodal's answers; with `store` and classes or a sentence in the document, in the JSON protocol.

        Raises:
            InputError: a document's frame has another size than its image, the image's tokens are no grid, or the
                heatmaps are to be read from another folder than `store`.
        """
        if self._folder is not None:
            check_readers((request.doc for request in requests), self._folder)
        self._refuse_cut_images(requests)
        plain = [n for n, request in enumerate(requests) if self._folder is None or not _is_explained(request)]
        texts = super().generate_until([requests[n] for n in plain], disable_tqdm) if plain else []
        replies = dict(zip(plain, texts, strict=True))
        shown = {n: _shown(request) for n, request in enumerate(requests) if n not in replies}
        for number, of_request in shown.items():
            stored = self._stored(requests[number], of_request)
            if stored is not None:
                if stored.outcome:
                    self._record(requests[number], stored)
                replies[number] = self._in_protocol(requests[number], stored.text, of_request)
        outcomes: dict[int, str] = {}
        pending, same = self._pending(requests, shown, replies)
        with self._bar(len(pending), disable_tqdm, "answering and explaining") as bar:
            for batch in self._like_hf_multimodal(pending):
                made = self._generated([request for _, request in batch])
                for (number, request), (answer, tokens) in zip(batch, made, strict=True):
                    self._record(request, answer)
                    self._explain(request, answer, tokens, shown[number])
                    replies[number] = self._in_protocol(request, answer.scored, shown[number])
                    outcomes[number] = answer.outcome
                    bar.update()
        for number, first in same.items():
            tell_outcome(requests[number], outcomes[first])
        self._report_outcomes()
        return [replies[same.get(number, number)] for number in range(len(requests))]

    def _pending(
        self, requests: Sequence[Instance], shown: Mapping[int, str], replies: Mapping[int, str]
    ) -> tuple[list[tuple[int, Instance]], dict[int, int]]:
        """The requests without a reply, each row as it is shown once, and for its others the number of that one."""
        first: dict[tuple[str, str, str], int] = {}
        pending, same = [], {}
        for number, request in enumerate(requests):
            if number not in replies:
                where = (self._store(request).key, str(cast(Any, request.doc)["id"]), shown[number])
                if first.setdefault(where, number) == number:
                    pending.append((number, request))
                else:
                    same[number] = first[where]
        return pending, same

    def _store(self, request: Instance) -> HeatmapStore:
        """One a task: the same frame is asked about in more than one."""
        assert self._folder is not None
        of_sentence = "sentence" in cast(Any, request.doc)
        # Sentences are asked about in one way, in whichever task: an original is in seven of them.
        task = "sentences" if of_sentence else request.task_name or ""
        if task not in self._stores:
            self._stores[task] = HeatmapStore(self._folder, self._identity(task), exact=of_sentence)
        return self._stores[task]

    def _identity(self, task: str) -> dict[str, Any]:
        n_layers = len(reading_layers(self.model))
        return {
            "model": "medfaith-explained-vlm",
            **self._facts,
            "preprocessing": json.loads(self.processor.image_processor.to_json_string()),
            "explainer": {
                "name": "token Grad-CAM",
                "layer": self._layer % n_layers - n_layers,
                "target": self._target,
                "channel": self._channel,
            },
            "task": task,
        }

    def _stored(self, request: Instance, shown: str) -> Reply | None:
        """The answer of a row that is on disk. Its outcome is "" where an earlier version wrote it, which kept none."""
        store, row = self._store(request), str(request.doc["id"])
        path = self._graph_path(request, shown)
        if not store.has(row, shown) or (path and not path.is_file()):
            return None
        extra = store.read(row, shown).extra
        return Reply(extra.get("outcome", ""), extra["text"])

    def _in_protocol(self, request: Instance, text: str, shown: str) -> str:
        return json.dumps({"heatmaps": self._store(request).reference(shown), "text": text}, ensure_ascii=False)

    def _see(self, prompt: str, image: Any) -> tuple[dict[str, Any], np.ndarray, list[Tile]]:
        """What the model gets of a prompt with one image, which of it stands for the image, and where that lies."""
        inputs = dict(self.tok_batch_multimodal_encode([prompt], [[image]]))
        visual, size = self._family.positions(inputs, self.model.config), (image.height, image.width)
        tiles = tiles_of(self._family, Seen(len(visual), size, inputs, self.model.config, self.processor))
        return inputs, visual, tiles

    def _check_tiles(self, for_graphs: bool) -> None:
        """Looks at a large oblong image, as models with tiles cut one up. Raises what its heatmap or graphs would."""
        image = resize_image(Image.new("RGB", OBLONG), self.image_width, self.image_height, self.image_max_side)
        named = (getattr(self.processor, name, None) for name in ("boi_token", "image_token"))  # the first is Gemma 3's
        _, visual, tiles = self._see(next(filter(None, named), DEFAULT_IMAGE_PLACEHOLDER), image)
        if for_graphs:
            self._one_grid(visual, of_channel(tiles, self._channel))

    def _one_grid(self, visual: np.ndarray, tiles: Sequence[Tile]) -> np.ndarray:
        """The grid of all the image's tokens. Raises InputError where there is none."""
        crosses = reading_layers(self.model) is not decoder_layers(self.model)
        if crosses or len(tiles) != 1 or tiles[0].tokens.size != len(visual):
            found = f"{self._family.name} has none" if crosses else f"{self._family.name} has more of it than one grid"
            action = "leave it out, or use a model that keeps images whole"
            raise InputError("causal_graphs", found, expected="an image in one grid of tokens", action=action)
        return tiles[0].tokens

    def _explain(self, request: Instance, answer: Reply, tokens: Sequence[int], shown: str) -> None:
        """Writes a row's heatmaps, and before them its causal graphs: a row in the store is complete."""
        image = _only_image(request)
        resized = resize_image(image, self.image_width, self.image_height, self.image_max_side)
        prompt, visual, tiles = self._see(cast(Any, request.args)[0], resized)
        tiles = of_channel(tiles, self._channel)
        spans = _spans(answer, cast(Any, request.doc))
        maps, graphs = {}, {}
        if spans:
            forced = self._teacher_forced(request, prompt, tokens, spans)
            positions = sorted({p for mentions in forced.mentions.values() for mention in mentions for p in mention})
            of_tokens = token_cam(self.model, forced.inputs, positions, visual, layer=self._layer, target=self._target)
            grids = compose(of_tokens, tiles)
            for name, mentions in forced.mentions.items():
                rows = sorted({positions.index(p) for mention in mentions for p in mention})
                maps[name] = grids[rows].mean(axis=0)
            if ATTENTION in maps and maps[ATTENTION].any():
                maps[ATTENTION] = maps[ATTENTION] / maps[ATTENTION].sum()
            if self._graphs:
                graphs = self._causal_graphs(forced, visual, tiles)
        geometry = _on_frame(tiles, resized, image)
        path = self._graph_path(request, shown)
        if path:
            place = {"size": geometry.size, "window": geometry.window}
            with atomic_file(path) as partial:
                content = {"row": request.doc["id"], **place, "graphs": graphs}
                partial.write_text(json.dumps(content, allow_nan=False), encoding="utf-8")
            _draw(path.with_suffix(""), graphs, image, geometry)
        extra = {"text": answer.scored, "outcome": answer.outcome}
        self._store(request).write(str(request.doc["id"]), shown, maps, geometry, extra=extra)

    def _teacher_forced(
        self, request: Instance, encoding: Mapping[str, Any], tokens: Sequence[int], spans: Mapping[str, Sequence[Span]]
    ) -> _Answer:
        """The prompt as hf-multimodal encodes it, and behind it the very tokens that were generated."""
        start = encoding["input_ids"].shape[1]
        last = max(end for places in spans.values() for _, end in places)
        offsets = token_offsets(tokens, self.tok_decode)
        used = next((n + 1 for n, (_, end) in enumerate(offsets) if end >= last), len(tokens))
        answer = torch.tensor([list(tokens[:used])], device=encoding["input_ids"].device)
        inputs = {**encoding, "input_ids": torch.cat([encoding["input_ids"], answer], dim=1)}
        inputs["attention_mask"] = torch.ones_like(inputs["input_ids"])
        inputs.pop("labels", None)  # PaliGemma's processor thinks of training
        if CROSS_MASK in inputs:
            inputs[CROSS_MASK] = lengthened(inputs[CROSS_MASK], inputs["input_ids"].shape[1])
        for name in TOKEN_TYPES:
            if name in inputs:
                own = torch.full_like(answer, self._answer_types.get(name, 0))
                inputs[name] = torch.cat([inputs[name], own], dim=1)
        if inputs["input_ids"].shape[1] > self.max_length:
            found = f"{inputs['input_ids'].shape[1]} tokens with the image's do not fit into {self.max_length}"
            raise InputError(request.task_name or "request", found, row=str(request.doc["id"]))
        mentions = {
            name: [[start + n for n in tokens_in(span, offsets[:used])] for span in places]
            for name, places in spans.items()
        }
        return _Answer(inputs, mentions)

    def _causal_graphs(self, answer: _Answer, visual: np.ndarray, tiles: Sequence[Tile]) -> dict[str, list[Any]]:
        assert self._backend is not None
        settings = cleann.Settings()
        attention = cleann.attention_of(self.model, answer.inputs, settings.layer)
        ids = answer.inputs["input_ids"][0].tolist()
        texts = [self.tok_decode([token], skip_special_tokens=False) for token in ids]
        grid = self._one_grid(visual, tiles)
        image = visual[grid.ravel()].tolist()
        return {
            name: [
                cleann.causal_graphs(
                    attention, p - 1, texts, image, grid.shape, backend=self._backend, target_text=texts[p]
                )
                for p in mentions[0]
            ]
            for name, mentions in answer.mentions.items()
        }

    def _graph_path(self, request: Instance, shown: str) -> Path | None:
        if self._graphs is None:
            return None
        store = self._store(request)
        return self._graphs / store.key / store.path(str(request.doc["id"]), shown).with_suffix(".json").name


def _on_frame(tiles: Sequence[Tile], resized: Any, image: Any) -> Geometry:
    """Where the tiles lie together, in the frame's pixels: those of what lm-eval resized, undone."""
    x, y, width, height = bounds(tiles)
    across, down = image.width / resized.width, image.height / resized.height
    return Geometry((image.height, image.width), (x * across, y * down, width * across, height * down))


def _draw(folder: Path, graphs: Mapping[str, Sequence[Any]], image: Any, geometry: Geometry) -> None:
    """A picture of each head's graph of the first token of each class, where matplotlib is installed."""
    if not graphs or importlib.util.find_spec("matplotlib") is None:
        return
    folder.mkdir(parents=True, exist_ok=True)
    for name, tokens in graphs.items():
        for graph in tokens[0]:
            draw_causal_graph(graph, image, geometry, folder / f"{name}-head{graph['head']}.png")


def _spans(answer: Reply, doc: Mapping[str, Any]) -> dict[str, list[Span]]:
    """Where the words stand that are explained, by name: the classes that an answer names, or its yes or no."""
    if doc.get("classes"):
        return class_spans(answer.text, doc["classes"], cut=answer.outcome == CUT)
    said = YES_OR_NO.search(answer.text)
    return {ATTENTION: [said.span()]} if said else {}


def class_spans(text: str, classes: Sequence[str], *, cut: bool = False) -> dict[str, list[Span]]:
    """What of its classes an answer names, and where: text[start:end]; triplets where the classes are triplets.

    Triplets outside the classes are kept: they are predictions, too. cut: the answer ended at the limit of tokens.
    """
    triplets = any("," in name for name in classes)
    spans: dict[str, list[Span]] = {}
    for mention in (read_triplets if triplets else read_instruments)(text, cut=cut).mentions:
        spans.setdefault(mention.name, []).append((mention.start, mention.end))
    return spans


def token_offsets(tokens: Sequence[int], decode: Any) -> list[Span]:
    """Where in the decoded text each token stands; (n, n) for a token that adds nothing readable by itself."""
    whole = decode(list(tokens))
    # A token may hold part of a character: what counts is how much of the final text stands after it.
    ends = [_shared_length(whole, decode(list(tokens[: n + 1]))) for n in range(len(tokens))]
    return list(zip([0, *ends], ends, strict=False))


def _shared_length(a: str, b: str) -> int:
    """The length of the longest common beginning."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(a, b, strict=False)))


def tokens_in(span: Span, offsets: Sequence[Span]) -> list[int]:
    """Numbers of the tokens of which any character lies in the span."""
    return [number for number, (start, end) in enumerate(offsets) if start < span[1] and end > span[0]]


def _is_explained(request: Instance) -> bool:
    doc = request.doc
    return (
        len(cast(Any, request.args)) > 2
        and isinstance(doc, Mapping)
        and bool(doc.get("classes") or doc.get("sentence") or doc.get("heatmaps"))
    )


def _only_image(request: Instance) -> Any:
    """The request's frame. Raises InputError where there is not one, or it has another size than the document says."""
    images, doc = images_of(request), request.doc
    where, row = request.task_name or "request", str(doc["id"])
    if len(images) != 1:
        raise InputError(where, f"{len(images)} images", expected="one frame a question", row=row)
    size = (doc.get("width", images[0].width), doc.get("height", images[0].height))
    if images[0].size != size:
        raise InputError(
            where,
            f"the frame is {images[0].width}x{images[0].height}, the row says {size[0]}x{size[1]}",
            action="point the root of the source at the release that the data set was built from",
            row=row,
        )
    return images[0]


def _shown(request: Instance) -> str:
    """A digest of what the model was shown: prompt, generation arguments and the image's pixels."""
    context, arguments, _ = cast(Any, request.args)
    image = _only_image(request)
    asked = json.dumps([context, arguments, image.mode, image.size], default=str)
    return digest_of(asked.encode(), np.asarray(image).tobytes())
