"""Reference models that need no weights and look at no image: floor and ceiling of every table.

Each reads the document of the request (`Instance.doc`), so that every score it gets can be derived by hand.
"""

from __future__ import annotations

import json
import string
from abc import abstractmethod
from collections import Counter, defaultdict
from collections.abc import Iterable
from hashlib import blake2b
from itertools import product
from typing import Any

from lm_eval.api.instance import Instance

from medfaith.loaders.errors import InputError
from medfaith.tasks.explain.geometry import Geometry
from medfaith.tasks.explain.store import ATTENTION, HeatmapStore, check_readers, digest_of
from medfaith.tasks.models import frame_maps, sentence_maps
from medfaith.tasks.models.image_lm import ImageLM

KINDS = tuple(dict.fromkeys((*frame_maps.KINDS, *sentence_maps.KINDS)))


class Baseline(ImageLM):
    """Answers a document with the letter of one of its options, or with its words where the document says so.

    Args:
        store: a folder for heatmaps of what it says to be in a frame of SurgXBench, or of the attention to a sentence
            of That's the Wrong Lung!; none are made without.
        heatmap: which, one of `frame_maps.KINDS` or `sentence_maps.KINDS`. Where one follows the sentence, only the
            oracle's does; the other models' attention is uniform instead.
    """

    def __init__(self, store: str | None = None, heatmap: str = "box", **_: Any) -> None:
        super().__init__()
        if heatmap not in KINDS:
            raise InputError(f"heatmap={heatmap}", "no such heatmap", expected=f"one of {', '.join(KINDS)}")
        self._heatmaps = _AnswersWithHeatmaps(store, heatmap, self._identity(), self.reads_sentences) if store else None

    reads_sentences = False  # whether its attention to a sentence is where the sentence's boxes are

    def _identity(self) -> dict[str, Any]:
        """What its answers depend on beside the documents: the key of its heatmaps."""
        return {"model": type(self).__name__}

    @abstractmethod
    def choose(self, docs: list[dict[str, Any]]) -> list[int]:
        """Index of the chosen option for every document of one task."""

    def generate_until(self, requests: list[Instance], disable_tqdm: bool = False) -> list[str]:
        if self._heatmaps is not None:
            self._heatmaps.check(requests)
        replies = [
            (request.doc, _reply(request.doc, c)) for request, c in zip(requests, self._choices(requests), strict=True)
        ]
        if self._heatmaps is None:
            return [text for _, text in replies]
        return [self._heatmaps.answer(doc, text) for doc, text in replies]

    def loglikelihood(self, requests: list[Instance], disable_tqdm: bool = False) -> list[tuple[float, bool]]:
        chosen = [
            (string.ascii_uppercase[c], r.doc["options"][c])
            for c, r in zip(self._choices(requests), requests, strict=True)
        ]
        continuations = [str(list(request.args)[1]).strip() for request in requests]
        hits = [text in answers for text, answers in zip(continuations, chosen, strict=True)]
        return [(0.0 if hit else -100.0, hit) for hit in hits]

    def _choices(self, requests: list[Instance]) -> list[int]:
        of_task: dict[str | None, list[int]] = {}
        for number, request in enumerate(requests):
            of_task.setdefault(request.task_name, []).append(number)
        choices = [0] * len(requests)
        for numbers in of_task.values():
            for number, choice in zip(numbers, self.choose([requests[n].doc for n in numbers]), strict=True):
                choices[number] = choice
        return choices


class Oracle(Baseline):
    """Always right."""

    reads_sentences = True

    def choose(self, docs: list[dict[str, Any]]) -> list[int]:
        return [doc["answer"] for doc in docs]


class AlwaysYes(Baseline):
    """Says A to a multiple choice, whatever stands there; in words it affirms the first thing that can be affirmed."""

    def choose(self, docs: list[dict[str, Any]]) -> list[int]:
        return [1 if doc.get("reply_in_words") and doc["negated"] == 0 else 0 for doc in docs]


class NegationAttracted(Baseline):
    """Takes the option with a negation; the first option where there is none."""

    def choose(self, docs: list[dict[str, Any]]) -> list[int]:
        return [max(doc["negated"], 0) for doc in docs]


class Random(Baseline):
    """Uniform over the options, by a hash of the row's id and `seed`: the same whatever the order of the rows."""

    def __init__(self, seed: int = 0, **options: Any) -> None:
        self._seed = seed
        super().__init__(**options)

    def _identity(self) -> dict[str, Any]:
        return super()._identity() | {"seed": self._seed}

    def choose(self, docs: list[dict[str, Any]]) -> list[int]:
        digests = [blake2b(f"{self._seed}:{doc['id']}".encode(), digest_size=8).digest() for doc in docs]
        return [int.from_bytes(d, "little") % len(doc["options"]) for d, doc in zip(digests, docs, strict=True)]


class Majority(Baseline):
    """The option, of those that every row of the task has, that is right most often (the earliest of several)."""

    def choose(self, docs: list[dict[str, Any]]) -> list[int]:
        counts = Counter(doc["answer"] for doc in docs)
        shared = range(min(len(doc["options"]) for doc in docs))
        return [min(shared, key=lambda answer: (-counts[answer], answer))] * len(docs)


class QuestionPrior(Baseline):
    """What is right most often for the same topic in the task's other images: what questions tell without an image.

    A document's topic is its `topic`, or else its question; ties go to what is right more often in the whole task,
    then to the earlier option. Better than chance means that the questions give answers away; a model is worth what
    it adds to this.
    """

    def choose(self, docs: list[dict[str, Any]]) -> list[int]:
        counts: dict[tuple[str | None, str | None], Counter[str]] = defaultdict(Counter)
        for doc in docs:
            for where in product((_topic(doc), None), (_image(doc), None)):
                counts[where][doc["options"][doc["answer"]]] += 1

        def elsewhere(doc: dict[str, Any], topic: str | None, option: str) -> int:
            return counts[topic, None][option] - counts[topic, _image(doc)][option]

        def best(doc: dict[str, Any]) -> int:
            return max(
                range(len(doc["options"])),
                key=lambda i: (*(elsewhere(doc, topic, doc["options"][i]) for topic in (_topic(doc), None)), -i),
            )

        return [best(doc) for doc in docs]


class _AnswersWithHeatmaps:
    """Answers with heatmaps beside them, in the form of the models that explain themselves."""

    def __init__(self, folder: str, kind: str, identity: dict[str, Any], reads_sentences: bool) -> None:
        self._of_sentences = kind if reads_sentences or kind not in sentence_maps.READING else "uniform"
        self._kind = kind
        self._store = HeatmapStore(folder, identity | {"heatmap": kind}, exact=kind in sentence_maps.KINDS)

    def check(self, requests: Iterable[Instance]) -> None:
        check_readers((request.doc for request in requests), self._store.folder)

    def answer(self, doc: dict[str, Any], text: str) -> str:
        if "classes" in doc:
            return self._named(doc, text)
        return self._aligned(doc) if "sentence" in doc else text

    def _named(self, doc: dict[str, Any], text: str) -> str:
        """What it says to be in a frame, and the heatmaps of each."""
        predicted = [name for name in text.split("\n") if name in list(doc["classes"])]
        if self._kind not in frame_maps.KINDS:
            expected = f"one of {', '.join(frame_maps.KINDS)}"
            raise InputError(f"heatmap={self._kind}", "is none of a frame", expected=expected)
        shown = self._shown([predicted, *(doc[field] for field in frame_maps.FIELDS)])
        if not self._store.has(doc["id"], shown):
            maps = {name: frame_maps.heatmap(self._kind, doc, name) for name in predicted}
            self._store.write(doc["id"], shown, maps, Geometry.whole((doc["height"], doc["width"])))
        scores = [float(name in predicted) for name in doc["classes"]]
        return json.dumps({"heatmaps": self._store.reference(shown), "predicted": predicted, "scores": scores})

    def _aligned(self, doc: dict[str, Any]) -> str:
        """Attention to a sentence."""
        shown = self._shown([doc[field] for field in sentence_maps.FIELDS.get(self._of_sentences, ())])
        if not self._store.has(doc["id"], shown):
            grid, geometry = sentence_maps.attention(self._of_sentences, doc)
            self._store.write(doc["id"], shown, {ATTENTION: grid}, geometry)
        similar = sentence_maps.similarity(self._of_sentences, doc)
        return json.dumps({"heatmaps": self._store.reference(shown), "local": similar, "global": similar})

    def _shown(self, fields: list[Any]) -> str:
        return digest_of(json.dumps(fields, sort_keys=True).encode())


def _topic(doc: dict[str, Any]) -> str:
    return doc.get("topic", doc["question"])


def _image(doc: dict[str, Any]) -> str:
    return doc.get("image_id") or doc["study_id"]


def _reply(doc: dict[str, Any], choice: int) -> str:
    return doc["options"][choice] if doc.get("reply_in_words") else string.ascii_uppercase[choice]
