"""The images of a task's rows, each opened when a model requests it, and the state of the rows' requests."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from pathlib import Path
from typing import NamedTuple, overload

from PIL import Image

from ..loaders import images
from ..loaders.errors import ImageError, MedfaithError
from .controls import needs_an_image
from .controls.rows import Opener

LEAVE_OUT = "\n  or: leave such rows out with --skip-missing-images, which looks at every image before the run"

Reference = Mapping[str, str]


class RecentImages:
    """The images that were opened last. Several options of a question, or several models, ask with the same image.

    Threads may share it: clients of servers open images in threads.

    Args:
        n_bytes: The largest size of all images together.
    """

    def __init__(self, n_bytes: int = 32 * 2**20) -> None:
        self._n_bytes, self._n_held = n_bytes, 0
        self._images: dict[tuple[str, int], Image.Image] = {}  # in the order of their last use
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[type[RecentImages], tuple[int]]:
        """Pickle no images: datasets hashes rows by their pickle."""
        return RecentImages, (self._n_bytes,)

    def get(self, row_id: str, place: int, open_image: Callable[[], Image.Image]) -> Image.Image:
        """Get a copy of an image, which is opened if it is not held.

        Args:
            row_id: The id of the row.
            place: The index of the image in the row.
            open_image: Opens the image.

        Returns:
            The image. A change of it changes no later copy.
        """
        key = row_id, place
        with self._lock:
            image = self._remove(key)
        if image is None:
            image = open_image()
        with self._lock:
            self._remove(key)  # another thread may have opened it in the meantime
            self._images[key] = image
            self._n_held += _count_bytes(image)
            while self._n_held > self._n_bytes:
                self._remove(next(iter(self._images)))
        return image.copy()

    def _remove(self, key: tuple[str, int]) -> Image.Image | None:
        image = self._images.pop(key, None)
        self._n_held -= _count_bytes(image) if image is not None else 0
        return image


def _count_bytes(image: Image.Image) -> int:
    return image.width * image.height * len(image.getbands())


class AnswerState(NamedTuple):
    """The state of a task's rows while models answer.

    Attributes:
        opened: Row id -> indices of the images that the model opened. A row without an opened image is missing.
        outcomes: Row id -> outcome of its request, if the model reports it (`outcomes.OUTCOMES`).
        ends: Row id -> the server's reason for the end of its answer, if it is no regular one.
        recent: The images that were opened last.
    """

    opened: dict[str, set[int]]
    outcomes: dict[str, str]
    ends: dict[str, str]
    recent: RecentImages

    @classmethod
    def begin(cls) -> AnswerState:
        """Make the state of rows that no model was asked about."""
        return cls({}, {}, {}, RecentImages())

    def n_sent(self, row_id: str, images: Sized, max_images: int | None) -> int | None:
        """Count the images of a row that the model was given.

        Args:
            row_id: The id of the row.
            images: The images of the row.
            max_images: The largest number that the model keeps; None for all.

        Returns:
            The number, or None if the model opened none, so that the number is unknown.
        """
        if len(images) and row_id not in self.opened:
            return None
        n_taken = len(self.opened.get(row_id, ()))
        return n_taken if max_images is None else min(n_taken, int(max_images))


class LazyImages(Sequence[Image.Image]):
    """The images of one row, each opened on access, so that a run over 135,754 rows holds few images at a time.

    lm-eval's multimodal models iterate over or slice the images of a document. Both open the images in mode RGB. Under
    the control `none` a row has no image. Model servers slice, and then send the question alone. Models that iterate
    (hf-multimodal, vllm-vlm) need an image, and get an InputError.

    Args:
        row_id: The id of the row, for messages.
        references: The image references of the row.
        roots: Source id -> folder of the images.
        edit: Returns the image to show, given the opened image and an opener for further images.
        hint: A text to add to the error of an image that cannot be opened.
        further: The ids of further sources, whose pixels an edit shows or whose text the question has.
        state: The state of the task's rows.
    """

    def __init__(
        self,
        row_id: str,
        references: Sequence[Reference],
        roots: Mapping[str, Path],
        edit: Callable[[Image.Image, Opener], Image.Image] | None = None,
        hint: str = LEAVE_OUT,
        further: Iterable[str] = (),
        state: AnswerState | None = None,
    ) -> None:
        self._row_id, self._references, self._roots, self._edit = row_id, references, roots, edit
        self._hint, self._further, self._state = hint, frozenset(further), state or AnswerState.begin()

    def __len__(self) -> int:
        return len(self._references)

    @overload
    def __getitem__(self, index: int) -> Image.Image: ...
    @overload
    def __getitem__(self, index: slice) -> list[Image.Image]: ...
    def __getitem__(self, index):
        places = range(len(self))[index]
        # An empty slice counts, too: the model requested images.
        opened = self._state.opened.setdefault(self._row_id, set())
        if isinstance(places, int):
            opened.add(places)
            return self._open(places)
        opened.update(places)
        return [self._open(place) for place in places]

    def __iter__(self) -> Iterator[Image.Image]:
        if not self._references:
            raise needs_an_image("this model")
        return (self[place] for place in range(len(self)))

    def __str__(self) -> str:  # the text in lm-eval's sample log
        return " ".join(f"{reference['source']}:{reference['key']}" for reference in self._references)

    def size(self, place: int) -> tuple[int, int]:
        """Read the size of one image, without its pixels if a header has the size.

        Args:
            place: The index of the image in the row.

        Returns:
            (width, height) in pixels.
        """
        return images.read_image_size(self._references[place], self._roots)

    def tell_outcome(self, outcome: str, end: str = "") -> None:
        """Keep the outcome of the row's request.

        Args:
            outcome: Name of the outcome (`tasks.outcomes`).
            end: The server's reason for the end of the answer; "" for the regular one.
        """
        self._state.outcomes[self._row_id] = outcome
        self._state.ends[self._row_id] = end

    @property
    def outcome(self) -> str | None:
        """The outcome of the row's request; None until a model reports it. All documents of the row share it."""
        return self._state.outcomes.get(self._row_id)

    @property
    def sources(self) -> set[str]:
        """The ids of the sources of all shown images and texts."""
        return {reference["source"] for reference in self._references} | self._further

    def _open(self, place: int) -> Image.Image:
        return self._state.recent.get(self._row_id, place, lambda: self._open_edited(self._references[place]))

    def _open_edited(self, reference: Reference) -> Image.Image:
        image = self._open_original(reference)
        if self._edit is None:
            return image
        try:
            return self._edit(image, self._open_original)
        except ValueError as error:
            action = "use the source's original images: masks and boxes are in their pixels"
            raise ImageError(f"row {self._row_id}: {error}\n  what to do: {action}") from error

    def _open_original(self, reference: Reference) -> Image.Image:
        try:
            return images.open_image(reference, self._roots)
        except MedfaithError as error:
            hint = self._hint if isinstance(error, ImageError) else ""
            raise type(error)(f"row {self._row_id}: {error}{hint}") from error
