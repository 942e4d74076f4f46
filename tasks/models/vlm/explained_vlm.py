"""`medfaith-explained-vlm`: lm-eval's hf-multimodal with a heatmap of every class that an answer names.

hf-multimodal generates the text. If the document has `classes` (SurgXBench) and `store` is set, a text search finds the
mentions in the answer. They are mapped to the answer's tokens and explained by Grad-CAM (appendix A.3). The map of a
class is the mean of the maps of its tokens. If the document has a `sentence` (That's the Wrong Lung!), the word yes or
no is explained, and its map, divided by its sum, is the attention to the sentence. The same holds for a yes or no to a
question whose document has only a reader of `heatmaps` (HEAL-MedVQA). Heatmaps go to a store on disk, and the reply
refers to them. With `relevancy`, the reply also says how relevant the image's tokens and the text's tokens are to the
yes or no (token_relevancy). Other requests get plain text.
"""

from __future__ import annotations

import importlib.util
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from lm_eval.api.instance import Instance
from lm_eval.models.hf_vlms import DEFAULT_IMAGE_PLACEHOLDER
from lm_eval.models.utils import resize_image
from PIL import Image

from ....loaders.atomic import atomic_file
from ....loaders.errors import InputError
from ...explain import cleann
from ...explain.causal_plot import draw_causal_graph
from ...explain.causal_structure import require_causal_learn
from ...explain.geometry import Geometry
from ...explain.store import ATTENTION, HeatmapStore, check_readers, digest_of
from ...explain.tiles import CHANNELS, Tile, bounds, compose, select_channel
from ...explain.token_cam import TARGETS, get_layer, get_reading_layers, token_cam
from ...explain.token_relevancy import compute_token_relevancy, summarise_relevancy
from ...outcomes import CUT
from ..chat_form import Reply
from ..image_lm import get_images, tell_outcome
from .families import Seen, compute_tiles, require_family
from .hf_vlm import CROSS_MASK, TOKEN_TYPES, HFVisionLM, extend_mask
from .token_spans import Span, compute_token_offsets, find_class_spans, find_span_tokens

OBLONG = (2000, 1000)  # (width, height) of an image that every model with tiles splits
YES_OR_NO = re.compile(r"\b(?:yes|no)\b", re.IGNORECASE)


class _Answer(NamedTuple):
    """The inputs of a prompt with its generated answer, and the tokens to explain."""

    inputs: dict[str, torch.Tensor]  # input_ids of shape (1, n), and the image's inputs
    mentions: dict[str, list[list[int]]]  # class -> token positions of each mention


class ExplainedVLM(HFVisionLM):
    """hf-multimodal whose replies are `{"heatmaps": reference, "text": answer}`, with the heatmaps in a store.

    Args:
        pretrained: The model, as for medfaith-hf-vlm.
        store: A folder for heatmaps. Without it, replies are plain text and nothing is explained. A row with the same
            model, prompt and image as in the store is not computed again.
        layer: Layer to explain (see token_cam.token_cam).
        target: Score to explain (see token_cam.token_cam).
        channel: For a model that splits images: whether the heatmap shows the `tiles` at their places, or the
            `overview`, the full image at low resolution (explain.tiles).
        causal_graphs: A folder for CLEANN's graphs (cleann.causal_graphs) of the tokens of each class's first mention.
            The files are named as the row's heatmaps, `<folder>/<key>/<row>-<digest>.json`: {"row", "size", "window",
            "graphs": {class: [a list of graphs per token]}}. With matplotlib, a folder next to each file has pictures
            of the first token's graphs. Needs `store`. Slow: five graphs per token, each taking up to several seconds.
        relevancy: Whether replies to yes/no questions also have the relevancy of image tokens and of text tokens
            (HEAL-MedVQA, Figure 1b), as `Relevancy.as_json` builds it. For sentences of reports it names no tokens.
            Needs `store`. The language model then runs twice more on each answer, once of it with gradients.
        **kwargs: Arguments of medfaith-hf-vlm. `answers` stores plain text; explained answers are in `store`.

    Raises:
        InputError: The layer, target or channel is unknown; causal_graphs or relevancy is set without store, or for a
            model whose images they do not fit.
        MedfaithError: The model has no decoder layers, the places of its image tokens are unknown, or no library for
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
        relevancy: bool = False,
        **kwargs: Any,
    ) -> None:
        if target not in TARGETS:
            raise InputError("target", repr(target), expected=" or ".join(TARGETS))
        if channel not in CHANNELS:
            raise InputError("channel", repr(channel), expected=" or ".join(CHANNELS))
        for name, is_set in (("causal_graphs", causal_graphs), ("relevancy", relevancy)):
            if is_set and not store:
                raise InputError(name, "needs store", action="add --heatmaps DIR (plain lm-eval: store=DIR)")
        if causal_graphs:
            require_causal_learn()
        self._layer, self._target, self._channel, self._has_relevancy = layer, target, channel, relevancy
        self._folder = Path(store).expanduser() if store else None
        self._graph_folder = Path(causal_graphs).expanduser() if causal_graphs else None
        super().__init__(pretrained, **kwargs)
        if store:
            # An unknown layer fails before the first answer.
            get_layer(self.model, layer)
            self._family = require_family(self.model.config)
            if relevancy and self._has_cross_attention:
                problem = f"{self._family.name} has no tokens of the image among the text's"
                raise InputError("relevancy", problem, action="leave it out, or use a model without cross-attention")
            self._check_tiles(for_graphs=bool(causal_graphs))
        self._stores: dict[str, HeatmapStore] = {}

    def _get_config(self, *arguments: Any, **options: Any) -> None:
        super()._get_config(*arguments, **options)
        if self._folder is not None:  # an unknown family fails before the weights are loaded
            require_family(cast(Any, self).config)

    def generate_until(self, requests: list[Instance], disable_tqdm: bool = False) -> list[str]:
        """Generate hf-multimodal's answers; explain them if `store` is set and the document has classes or a sentence.

        Args:
            requests: Requests of lm-eval.
            disable_tqdm: Whether to hide the progress bar.

        Returns:
            The replies, in the order of the requests: JSON for explained requests, otherwise the answer's text.

        Raises:
            InputError: A document's frame has another size than its image, the image's tokens form no grid, or the
                heatmaps are to be read from another folder than `store`.
        """
        if self._folder is not None:
            check_readers((request.doc for request in requests), self._folder)
        self._refuse_cut_images(requests)
        plain = [n for n, request in enumerate(requests) if self._folder is None or not _is_explained(request)]
        texts = super().generate_until([requests[n] for n in plain], disable_tqdm) if plain else []
        replies = dict(zip(plain, texts, strict=True))
        digests = {n: _compute_shown_digest(request) for n, request in enumerate(requests) if n not in replies}
        for number, request_digest in digests.items():
            stored = self._read_stored(requests[number], request_digest)
            if stored is not None:
                if "outcome" in stored:  # an earlier version wrote none
                    self._record(requests[number], Reply(stored["outcome"], stored["text"]))
                replies[number] = self._format_reply(requests[number], stored, request_digest)
        outcomes: dict[int, str] = {}
        pending, same = self._select_pending(requests, digests, replies)
        with self._start_progress(len(pending), disable_tqdm, "answering and explaining") as bar:
            for batch in self._iterate_batches(pending):
                generated = self._generated([request for _, request in batch])
                for (number, request), (answer, tokens) in zip(batch, generated, strict=True):
                    self._record(request, answer)
                    stored = self._explain(request, answer, tokens, digests[number])
                    replies[number] = self._format_reply(request, stored, digests[number])
                    outcomes[number] = answer.outcome
                    bar.update()
        for number, first_number in same.items():
            tell_outcome(requests[number], outcomes[first_number])
        self._report_outcomes()
        return [replies[same.get(number, number)] for number in range(len(requests))]

    def _select_pending(
        self, requests: Sequence[Instance], digests: Mapping[int, str], replies: Mapping[int, str]
    ) -> tuple[list[tuple[int, Instance]], dict[int, int]]:
        """Select the requests without a reply, each row and digest once, and map duplicates to the selected request."""
        first_numbers: dict[tuple[str, str, str], int] = {}
        pending, duplicates = [], {}
        for number, request in enumerate(requests):
            if number not in replies:
                key = (self._store(request).key, str(cast(Any, request.doc)["id"]), digests[number])
                if first_numbers.setdefault(key, number) == number:
                    pending.append((number, request))
                else:
                    duplicates[number] = first_numbers[key]
        return pending, duplicates

    def _store(self, request: Instance) -> HeatmapStore:
        """Return the store of the request's task: several tasks may ask about the same frame."""
        assert self._folder is not None
        has_sentence = "sentence" in cast(Any, request.doc)
        # All tasks ask about sentences in the same way, and seven tasks share each original.
        task = "sentences" if has_sentence else request.task_name or ""
        if task not in self._stores:
            self._stores[task] = HeatmapStore(self._folder, self._identity(task), exact=has_sentence)
        return self._stores[task]

    def _identity(self, task: str) -> dict[str, Any]:
        n_layers = len(get_reading_layers(self.model))
        return {
            "model": "medfaith-explained-vlm",
            **self._facts,
            "preprocessing": json.loads(self.processor.image_processor.to_json_string()),
            "explainer": {
                "name": "token Grad-CAM",
                "layer": self._layer % n_layers - n_layers,
                "target": self._target,
                "channel": self._channel,
                **({"relevancy": True} if self._has_relevancy else {}),
            },
            "task": task,
        }

    def _read_stored(self, request: Instance, digest: str) -> dict[str, Any] | None:
        """Read `extra` of a row's entry in the store; None if the row or its causal graphs are missing."""
        store, row = self._store(request), str(request.doc["id"])
        path = self._get_graph_path(request, digest)
        if not store.has(row, digest) or (path and not path.is_file()):
            return None
        return store.read(row, digest).extra

    def _format_reply(self, request: Instance, stored: Mapping[str, Any], digest: str) -> str:
        """Format the reply with the reference to its heatmaps."""
        fields = {name: stored[name] for name in ("text", "relevancy") if name in stored}
        return json.dumps({"heatmaps": self._store(request).reference(digest), **fields}, ensure_ascii=False)

    def _encode_prompt(self, prompt: str, image: Any) -> tuple[dict[str, Any], np.ndarray, list[Tile]]:
        """Encode a prompt with one image; return the inputs, the positions of the image's tokens and the tiles."""
        inputs = dict(self.tok_batch_multimodal_encode([prompt], [[image]]))
        visual, size = self._family.positions(inputs, self.model.config), (image.height, image.width)
        tiles = compute_tiles(self._family, Seen(len(visual), size, inputs, self.model.config, self.processor))
        return inputs, visual, tiles

    def _check_tiles(self, for_graphs: bool) -> None:
        """Encode a large oblong image, which models with tiles split, to raise errors of heatmaps and graphs early."""
        image = resize_image(Image.new("RGB", OBLONG), self.image_width, self.image_height, self.image_max_side)
        placeholders = (
            getattr(self.processor, name, None) for name in ("boi_token", "image_token")
        )  # boi_token is Gemma 3's
        _, visual, tiles = self._encode_prompt(next(filter(None, placeholders), DEFAULT_IMAGE_PLACEHOLDER), image)
        if for_graphs:
            self._require_single_grid(visual, select_channel(tiles, self._channel))

    def _require_single_grid(self, visual: np.ndarray, tiles: Sequence[Tile]) -> np.ndarray:
        """Return the grid of all image tokens. Raise InputError if they do not form a single grid."""
        if self._has_cross_attention or len(tiles) != 1 or tiles[0].tokens.size != len(visual):
            problem = (
                f"{self._family.name} has none"
                if self._has_cross_attention
                else f"{self._family.name} has more of it than one grid"
            )
            action = "leave it out, or use a model that keeps images whole"
            raise InputError("causal_graphs", problem, expected="an image in one grid of tokens", action=action)
        return tiles[0].tokens

    def _explain(self, request: Instance, answer: Reply, tokens: Sequence[int], digest: str) -> dict[str, Any]:
        """Write a row's heatmaps after its causal graphs: a stored row is complete. Return the rest of the row."""
        image = _get_image(request)
        resized = resize_image(image, self.image_width, self.image_height, self.image_max_side)
        prompt, visual, tiles = self._encode_prompt(cast(Any, request.args)[0], resized)
        tiles = select_channel(tiles, self._channel)
        spans = _find_spans(answer, cast(Any, request.doc))
        maps, graphs, extra = {}, {}, {"text": answer.scored, "outcome": answer.outcome}
        if spans:
            forced = self._teacher_forced(request, prompt, tokens, spans)
            positions = sorted({p for mentions in forced.mentions.values() for mention in mentions for p in mention})
            token_maps = token_cam(self.model, forced.inputs, positions, visual, layer=self._layer, target=self._target)
            grids = compose(token_maps, tiles)
            for name, mentions in forced.mentions.items():
                rows = sorted({positions.index(p) for mention in mentions for p in mention})
                maps[name] = grids[rows].mean(axis=0)
            if ATTENTION in maps and maps[ATTENTION].any():
                maps[ATTENTION] = maps[ATTENTION] / maps[ATTENTION].sum()
            if self._has_relevancy and ATTENTION in forced.mentions:
                extra |= self._compute_relevancy(forced, positions, visual, with_tokens="sentence" not in request.doc)
            if self._graph_folder:
                graphs = self._causal_graphs(forced, visual, tiles)
        geometry = _compute_frame_geometry(tiles, resized, image)
        path = self._get_graph_path(request, digest)
        if path:
            location = {"size": geometry.size, "window": geometry.window}
            with atomic_file(path) as partial:
                content = {"row": request.doc["id"], **location, "graphs": graphs}
                partial.write_text(json.dumps(content, allow_nan=False), encoding="utf-8")
            _draw_graphs(path.with_suffix(""), graphs, image, geometry)
        self._store(request).write(str(request.doc["id"]), digest, maps, geometry, extra=extra)
        return extra

    def _teacher_forced(
        self, request: Instance, encoding: Mapping[str, Any], tokens: Sequence[int], spans: Mapping[str, Sequence[Span]]
    ) -> _Answer:
        """Append the generated tokens up to the last of the spans to the prompt's encoding, and find the spans' tokens.

        Raise InputError if this is longer than the model takes.
        """
        start = encoding["input_ids"].shape[1]
        last_end = max(end for places in spans.values() for _, end in places)
        offsets = compute_token_offsets(tokens, self.tok_decode)
        n_used = next((n + 1 for n, (_, end) in enumerate(offsets) if end >= last_end), len(tokens))
        answer = torch.tensor([list(tokens[:n_used])], device=encoding["input_ids"].device)
        inputs = {**encoding, "input_ids": torch.cat([encoding["input_ids"], answer], dim=1)}
        inputs["attention_mask"] = torch.ones_like(inputs["input_ids"])
        inputs.pop("labels", None)  # PaliGemma's processor adds labels for training
        if CROSS_MASK in inputs:
            inputs[CROSS_MASK] = extend_mask(inputs[CROSS_MASK], inputs["input_ids"].shape[1])
        for name in TOKEN_TYPES:
            if name in inputs:
                types = torch.full_like(answer, self._answer_types.get(name, 0))
                inputs[name] = torch.cat([inputs[name], types], dim=1)
        if inputs["input_ids"].shape[1] > self.max_length:
            problem = f"{inputs['input_ids'].shape[1]} tokens with the image's do not fit into {self.max_length}"
            raise InputError(request.task_name or "request", problem, row=str(request.doc["id"]))
        mentions = {
            name: [[start + n for n in find_span_tokens(span, offsets[:n_used])] for span in places]
            for name, places in spans.items()
        }
        return _Answer(inputs, mentions)

    def _compute_relevancy(
        self, answer: _Answer, positions: Sequence[int], visual: np.ndarray, *, with_tokens: bool
    ) -> dict[str, Any]:
        """Compute the entry `relevancy`, the mean over the answer's tokens; {} if no token is relevant."""
        row = compute_token_relevancy(self.model, answer.inputs, positions).mean(axis=0)
        ids = answer.inputs["input_ids"][0].tolist()
        texts = [self.tok_decode([token], skip_special_tokens=False) for token in ids] if with_tokens else None
        relevancy = summarise_relevancy(row, visual, texts)
        return {} if relevancy is None else {"relevancy": relevancy.as_json()}

    def _causal_graphs(self, answer: _Answer, visual: np.ndarray, tiles: Sequence[Tile]) -> dict[str, list[Any]]:
        settings = cleann.Settings()
        attention = cleann.compute_layer_attention(self.model, answer.inputs, settings.layer)
        ids = answer.inputs["input_ids"][0].tolist()
        texts = [self.tok_decode([token], skip_special_tokens=False) for token in ids]
        grid = self._require_single_grid(visual, tiles)
        image = visual[grid.ravel()].tolist()
        return {
            name: [
                cleann.causal_graphs(attention, p - 1, texts, image, grid.shape, target_text=texts[p])
                for p in mentions[0]
            ]
            for name, mentions in answer.mentions.items()
        }

    def _get_graph_path(self, request: Instance, digest: str) -> Path | None:
        if self._graph_folder is None:
            return None
        store = self._store(request)
        return self._graph_folder / store.key / store.path(str(request.doc["id"]), digest).with_suffix(".json").name


def _compute_frame_geometry(tiles: Sequence[Tile], resized: Any, image: Any) -> Geometry:
    """Compute the geometry of the tiles in frame pixels, which reverts lm-eval's resizing."""
    x, y, width, height = bounds(tiles)
    across, down = image.width / resized.width, image.height / resized.height
    return Geometry((image.height, image.width), (x * across, y * down, width * across, height * down))


def _draw_graphs(folder: Path, graphs: Mapping[str, Sequence[Any]], image: Any, geometry: Geometry) -> None:
    """Draw causal graphs over the image, a PNG for each class and head, if matplotlib is installed.

    `graphs` has a list of graphs, one for each head, for each token of a class's mention. Only those of the first token
    are drawn, as `<class>-head<number>.png`.
    """
    if not graphs or importlib.util.find_spec("matplotlib") is None:
        return
    folder.mkdir(parents=True, exist_ok=True)
    for name, tokens in graphs.items():
        for graph in tokens[0]:
            draw_causal_graph(graph, image, geometry, folder / f"{name}-head{graph['head']}.png")


def _find_spans(answer: Reply, doc: Mapping[str, Any]) -> dict[str, list[Span]]:
    """Return class -> spans of its mentions in an answer; for a document without classes, the span of its yes or no."""
    if doc.get("classes"):
        return find_class_spans(answer.text, doc["classes"], cut=answer.outcome == CUT)
    match = YES_OR_NO.search(answer.text)
    return {ATTENTION: [match.span()]} if match else {}


def _is_explained(request: Instance) -> bool:
    doc = request.doc
    return (
        len(cast(Any, request.args)) > 2
        and isinstance(doc, Mapping)
        and bool(doc.get("classes") or doc.get("sentence") or doc.get("heatmaps"))
    )


def _get_image(request: Instance) -> Any:
    """Return the request's only image. Raise InputError for several images or a size other than the row's."""
    images, doc = get_images(request), request.doc
    task_name, row = request.task_name or "request", str(doc["id"])
    if len(images) != 1:
        raise InputError(task_name, f"{len(images)} images", expected="one frame a question", row=row)
    size = (doc.get("width", images[0].width), doc.get("height", images[0].height))
    if images[0].size != size:
        raise InputError(
            task_name,
            f"the frame is {images[0].width}x{images[0].height}, the row says {size[0]}x{size[1]}",
            action="point the root of the source at the release that the data set was built from",
            row=row,
        )
    return images[0]


def _compute_shown_digest(request: Instance) -> str:
    """Compute a digest of the prompt, the generation arguments and the pixels of the image."""
    context, arguments, _ = cast(Any, request.args)
    image = _get_image(request)
    settings = json.dumps([context, arguments, image.mode, image.size], default=str)
    return digest_of(settings.encode(), np.asarray(image).tobytes())
