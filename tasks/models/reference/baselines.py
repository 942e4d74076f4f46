"""Reference models without weights that ignore the image: floor and ceiling of every table.

Each model reads the document of the request (`Instance.doc`), and all of its scores can be derived by hand.
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
from medfaith.tasks.models.image_lm import ImageLM
from medfaith.tasks.models.reference import frame_maps, sentence_maps

KINDS = tuple(dict.fromkeys((*frame_maps.KINDS, *sentence_maps.KINDS)))


class Baseline(ImageLM):
    """Answers with the letter of an option, or with its words if the document asks for words.

    Args:
        store: A folder for heatmaps of the classes that the model names in a frame of SurgXBench, or for the attention
            to a sentence of That's the Wrong Lung!; by default none are stored.
        heatmap: Kind of heatmap, one of `frame_maps.KINDS` or `sentence_maps.KINDS`. Only the oracle's attention may
            follow the sentence; other models have uniform attention.
        **_: Ignored options.
    """

    def __init__(self, store: str | None = None, heatmap: str = "box", **_: Any) -> None:
        super().__init__()
        if heatmap not in KINDS:
            raise InputError(f"heatmap={heatmap}", "no such heatmap", expected=f"one of {', '.join(KINDS)}")
        self._heatmaps = _HeatmapWriter(store, heatmap, self._identity(), self.reads_sentences) if store else None

    reads_sentences = False  # whether the attention follows the sentence's boxes

    def _identity(self) -> dict[str, Any]:
        """Return everything that the answers depend on other than the documents: the key of the heatmaps."""
        return {"model": type(self).__name__}

    @abstractmethod
    def choose(self, docs: list[dict[str, Any]]) -> list[int]:
        """Choose an option for every document of one task.

        Args:
            docs: All documents of the task.

        Returns:
            Index of the option for each document.
        """

    def generate_until(self, requests: list[Instance], disable_tqdm: bool = False) -> list[str]:
        """Answer each request, with heatmaps if there is a store.

        Args:
            requests: Requests of lm-eval.
            disable_tqdm: Ignored.

        Returns:
            The replies, in the order of the requests.
        """
        if self._heatmaps is not None:
            self._heatmaps.check(requests)
        replies = [
            (request.doc, _format_reply(request.doc, c))
            for request, c in zip(requests, self._choices(requests), strict=True)
        ]
        if self._heatmaps is None:
            return [text for _, text in replies]
        return [self._heatmaps.answer(doc, text) for doc, text in replies]

    def loglikelihood(self, requests: list[Instance], disable_tqdm: bool = False) -> list[tuple[float, bool]]:
        """Score the chosen option 0 and the other options -100.

        Args:
            requests: Requests of lm-eval.
            disable_tqdm: Ignored.

        Returns:
            (0.0, True) for a continuation that is the letter or the text of the chosen option, otherwise (-100.0,
            False).
        """
        accepted_texts = [
            (string.ascii_uppercase[c], r.doc["options"][c])
            for c, r in zip(self._choices(requests), requests, strict=True)
        ]
        continuations = [str(list(request.args)[1]).strip() for request in requests]
        hits = [text in answers for text, answers in zip(continuations, accepted_texts, strict=True)]
        return [(0.0 if hit else -100.0, hit) for hit in hits]

    def _choices(self, requests: list[Instance]) -> list[int]:
        numbers_by_task: dict[str | None, list[int]] = {}
        for number, request in enumerate(requests):
            numbers_by_task.setdefault(request.task_name, []).append(number)
        choices = [0] * len(requests)
        for numbers in numbers_by_task.values():
            for number, choice in zip(numbers, self.choose([requests[n].doc for n in numbers]), strict=True):
                choices[number] = choice
        return choices


class Oracle(Baseline):
    """Answers every question correctly."""

    reads_sentences = True

    def choose(self, docs: list[dict[str, Any]]) -> list[int]:
        """Choose the answer of each document."""
        return [doc["answer"] for doc in docs]


class AlwaysYes(Baseline):
    """Answers A to a multiple choice, and affirms the first finding if the answer is in words."""

    def choose(self, docs: list[dict[str, Any]]) -> list[int]:
        """Choose the first option, or the first that is not negated."""
        return [1 if doc.get("reply_in_words") and doc["negated"] == 0 else 0 for doc in docs]


class NegationAttracted(Baseline):
    """Chooses the negated option, or the first option if none is negated."""

    def choose(self, docs: list[dict[str, Any]]) -> list[int]:
        """Choose the negated option."""
        return [max(doc["negated"], 0) for doc in docs]


class Random(Baseline):
    """Chooses uniformly among the options, by a hash of the row id and `seed`, independently of the order of rows.

    Args:
        seed: Seed of the hash.
        **options: Options of Baseline.
    """

    def __init__(self, seed: int = 0, **options: Any) -> None:
        self._seed = seed
        super().__init__(**options)

    def _identity(self) -> dict[str, Any]:
        return super()._identity() | {"seed": self._seed}

    def choose(self, docs: list[dict[str, Any]]) -> list[int]:
        """Choose an option by the hash of the row id."""
        digests = [blake2b(f"{self._seed}:{doc['id']}".encode(), digest_size=8).digest() for doc in docs]
        return [int.from_bytes(d, "little") % len(doc["options"]) for d, doc in zip(digests, docs, strict=True)]


class Majority(Baseline):
    """Chooses the option that is correct most often in the task, the earlier one if options tie."""

    def choose(self, docs: list[dict[str, Any]]) -> list[int]:
        """Choose the most frequent answer among the options that every row has."""
        counts = Counter(doc["answer"] for doc in docs)
        shared = range(min(len(doc["options"]) for doc in docs))
        return [min(shared, key=lambda answer: (-counts[answer], answer))] * len(docs)


class QuestionPrior(Baseline):
    """Chooses the most frequent answer to the same topic in the task's other images: the prior of the question alone.

    The topic of a document is its `topic` or its question. Ties go to the answer that is more frequent in the task,
    then to the earlier option. An accuracy above chance means that the questions reveal answers; a model's benefit is
    its difference to this baseline.
    """

    def choose(self, docs: list[dict[str, Any]]) -> list[int]:
        """Choose the most frequent answer among the other images."""
        counts: dict[tuple[str | None, str | None], Counter[str]] = defaultdict(Counter)
        for doc in docs:
            for key in product((_get_topic(doc), None), (_get_image_id(doc), None)):
                counts[key][doc["options"][doc["answer"]]] += 1

        def count_elsewhere(doc: dict[str, Any], topic: str | None, option: str) -> int:
            return counts[topic, None][option] - counts[topic, _get_image_id(doc)][option]

        def find_best(doc: dict[str, Any]) -> int:
            return max(
                range(len(doc["options"])),
                key=lambda i: (
                    *(count_elsewhere(doc, topic, doc["options"][i]) for topic in (_get_topic(doc), None)),
                    -i,
                ),
            )

        return [find_best(doc) for doc in docs]


class _HeatmapWriter:
    """Writes heatmaps of answers to a store, in the format of the models that explain themselves."""

    def __init__(self, folder: str, kind: str, identity: dict[str, Any], reads_sentences: bool) -> None:
        self._sentence_kind = kind if reads_sentences or kind not in sentence_maps.READING else "uniform"
        self._kind = kind
        self._store = HeatmapStore(folder, identity | {"heatmap": kind}, exact=kind in sentence_maps.KINDS)

    def check(self, requests: Iterable[Instance]) -> None:
        """Raise InputError if the documents' heatmaps are to be read from another folder."""
        check_readers((request.doc for request in requests), self._store.folder)

    def answer(self, doc: dict[str, Any], text: str) -> str:
        """Format a reply and write its heatmaps."""
        if "classes" in doc:
            return self._answer_classes(doc, text)
        return self._answer_sentence(doc) if "sentence" in doc else text

    def _answer_classes(self, doc: dict[str, Any], text: str) -> str:
        """Format the predicted classes of a frame, and write a heatmap of each."""
        predicted = [name for name in text.split("\n") if name in list(doc["classes"])]
        if self._kind not in frame_maps.KINDS:
            expected = f"one of {', '.join(frame_maps.KINDS)}"
            raise InputError(f"heatmap={self._kind}", "is none of a frame", expected=expected)
        digest = self._compute_digest([predicted, *(doc[field] for field in frame_maps.FIELDS)])
        if not self._store.has(doc["id"], digest):
            maps = {name: frame_maps.draw_heatmap(self._kind, doc, name) for name in predicted}
            self._store.write(doc["id"], digest, maps, Geometry.whole((doc["height"], doc["width"])))
        scores = [float(name in predicted) for name in doc["classes"]]
        return json.dumps({"heatmaps": self._store.reference(digest), "predicted": predicted, "scores": scores})

    def _answer_sentence(self, doc: dict[str, Any]) -> str:
        """Write the attention to a sentence and format the reply."""
        digest = self._compute_digest([doc[field] for field in sentence_maps.FIELDS.get(self._sentence_kind, ())])
        if not self._store.has(doc["id"], digest):
            grid, geometry = sentence_maps.attention(self._sentence_kind, doc)
            self._store.write(doc["id"], digest, {ATTENTION: grid}, geometry)
        similar = sentence_maps.compute_similarity(self._sentence_kind, doc)
        return json.dumps({"heatmaps": self._store.reference(digest), "local": similar, "global": similar})

    def _compute_digest(self, fields: list[Any]) -> str:
        """Hash the fields that a heatmap depends on."""
        return digest_of(json.dumps(fields, sort_keys=True).encode())


def _get_topic(doc: dict[str, Any]) -> str:
    return doc.get("topic", doc["question"])


def _get_image_id(doc: dict[str, Any]) -> str:
    return doc.get("image_id") or doc["study_id"]


def _format_reply(doc: dict[str, Any], choice: int) -> str:
    return doc["options"][choice] if doc.get("reply_in_words") else string.ascii_uppercase[choice]
