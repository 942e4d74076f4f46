"""The images of a task's rows: they are checked before the run, and opened when a model requests them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import datasets
from PIL import Image

from ..loaders import images
from ..loaders.errors import ImageError
from ..loaders.progress import Progress
from .controls import DONORS, TARGET, needs_region
from .controls.donors import DONOR
from .controls.rows import PLACE, Opener, change, list_donor_references
from .lazy_images import LEAVE_OUT, AnswerState, LazyImages, Reference
from .outcomes import END, OUTCOME
from .row_iteration import iterate_rows
from .scoring import SENT, VIEWS

UNLOGGED = ("edit", TARGET, PLACE, DONOR, "labels")  # columns with masks and findings, which a sample log omits


class Edit(NamedTuple):
    """The edit of a row's image when it is opened, as a benchmark defines it.

    The column `edit` of a row holds the arguments, or None.

    Attributes:
        references: Returns the further images that the edit needs, given the arguments.
        check: Raises ImageError before the first answer if the images do not fit the arguments, given the row and the
            roots.
        apply: Returns the edited image, given the arguments, the image and an opener. It raises ValueError if they do
            not fit.
    """

    references: Callable[[Mapping[str, Any]], Sequence[Reference]]
    check: Callable[[Mapping[str, Any], Mapping[str, Path]], None]
    apply: Callable[[Mapping[str, Any], Image.Image, Opener], Image.Image]


def select_usable(
    rows: datasets.Dataset, roots: Mapping[str, Path], edit: Edit | None, *, skip: bool
) -> tuple[datasets.Dataset, int]:
    """Select the rows whose images are usable, and count the other rows. Each image is checked once.

    Args:
        rows: The rows of a task.
        roots: Source id -> folder of the images. Images of a source without a root are not checked, unless rows may
            be left out.
        edit: The edit of the benchmark.
        skip: Whether to open each image, and leave out rows with a missing or broken one.

    Returns:
        The usable rows, and the number of the other rows.

    Raises:
        ImageError: No row is usable. Without `skip`: an image is missing. An image does not fit its edit, or the region
            that a control changes.
    """
    broken: dict[tuple[str, str], ImageError] = {}
    checked: set[tuple[str, str]] = set()
    check = images.open_image if skip else images.locate
    usable = []
    names = ("id", "images", "edit", "control", DONOR, "width", "height")
    columns = [name for name in names if name in rows.column_names]
    chosen = iterate_rows(rows.select_columns(columns))  # pyrefly: ignore[bad-argument-type] (datasets' decorator hides the type)
    bar = Progress(chosen, title="looking for images", unit="rows", total=len(rows))
    for number, row in enumerate(bar):
        edited = edit if row.get("edit") else None
        further = list_donor_references(row)
        used = [*row["images"], *(edited.references(row["edit"]) if edited else ()), *further]
        references = [r for r in used if r["source"] in roots or skip]
        for reference in references:
            name = (reference["source"], reference["key"])
            if name not in checked:
                checked.add(name)
                try:
                    check(reference, roots)
                except ImageError as error:
                    if not skip:
                        is_donor = row.get("control") in DONORS or reference in further
                        donor = f", control {row['control']}, its donor" if is_donor else ""
                        raise ImageError(f"row {row['id']}{donor}: {error}{LEAVE_OUT}") from error
                    broken[name] = error
        if not any((r["source"], r["key"]) in broken for r in references):
            if edited and references:
                edited.check(row, roots)
            if references and row.get("width") and needs_region(row.get("control")):
                require_size(row["id"], row["images"][0], (row["width"], row["height"]), roots)
            usable.append(number)
    if not usable:
        raise ImageError(
            f"no row is left: none of the {len(rows)} rows has all its images; first: {next(iter(broken.values()))}"
        )
    n_skipped = len(rows) - len(usable)
    return rows.select(usable) if n_skipped else rows, n_skipped  # pyrefly: ignore[bad-return] (datasets' decorator hides the type)


def require_size(row_id: str, reference: Reference, size: tuple[int, int], roots: Mapping[str, Path]) -> None:
    """Require that an image has the size of its region.

    Without this check, a resized copy would stop the run at its first edited image, possibly after hours.

    Args:
        row_id: The id of the row.
        reference: The image.
        size: (width, height) of the region, in pixels.
        roots: Source id -> folder of the images.

    Raises:
        ImageError: The image has another size, or cannot be read.
    """
    try:
        width, height = images.read_image_size(reference, roots)
    except ImageError as error:
        raise ImageError(f"row {row_id}: {error}{LEAVE_OUT}") from error
    if (width, height) != size:
        raise ImageError(
            f"row {row_id}: image {reference['key']!r} of source {reference['source']!r}: "
            f"{width} x {height} pixels; expected {size[0]} x {size[1]}, the size of its mask\n"
            "  what to do: use the source's original images: masks and boxes are in their pixels"
        )


class ImageOpening:
    """A transform of a batch of rows that opens their images when the batch is read.

    It is no closure, since datasets hashes a transform by its pickle. The pickle of a closure holds the bytecode of
    all functions that it calls, and takes longer to make than the rows take to read.

    Args:
        roots: Source id -> folder of the images.
        edit: The edit of the benchmark.
        control: The control.
        text_sources: Ids of sources whose text is used without images.
        max_images: The largest number of a row's images that the model keeps; None for all.
        attach: As in `rows.Adapter`.
    """

    def __init__(
        self,
        roots: Mapping[str, Path],
        edit: Edit | None,
        control: str | None,
        text_sources: frozenset[str],
        max_images: int | None,
        attach: Callable[[dict[str, list]], dict[str, list]] | None,
    ) -> None:
        self._settings = roots, edit, control, text_sources
        self._max_images, self._attach, self._state = max_images, attach, AnswerState.begin()

    def __deepcopy__(self, memo: dict[int, Any]) -> ImageOpening:
        """Return the same object: all copies of the rows that datasets makes share the state of their requests."""
        return self

    def __call__(self, batch: dict[str, list]) -> dict[str, list]:
        """Return the columns of the batch with its images, and with the state of its requests."""
        state = self._state
        visible = _attach_images(batch, *self._settings, state)
        visible[SENT] = [state.n_sent(*row, self._max_images) for row in zip(batch["id"], batch["images"], strict=True)]
        visible[OUTCOME] = [state.outcomes.get(row_id) for row_id in batch["id"]]
        visible[END] = [state.ends.get(row_id, "") for row_id in batch["id"]]
        visible[VIEWS] = [_join_views(references) for references in batch["images"]]
        return self._attach(visible) if self._attach is not None else visible


def _attach_images(
    batch: dict[str, list],
    roots: Mapping[str, Path],
    edit: Edit | None,
    control: str | None,
    text_sources: frozenset[str],
    state: AnswerState,
) -> dict[str, list]:
    """Replace image references by LazyImages. `text_sources` holds ids of sources whose text is used without images."""
    rows = [dict(zip(batch, values, strict=True)) for values in zip(*batch.values(), strict=True)]
    opened = [
        LazyImages(
            row["id"],
            row["images"],
            roots,
            _build_change(row, edit, control),
            further=text_sources | _list_donor_sources(row, edit),
            state=state,
        )
        for row in rows
    ]
    visible = {name: values for name, values in batch.items() if name not in UNLOGGED}
    return visible | {"images": opened}


def _join_views(references: Iterable[Reference]) -> str:
    """Join the distinct views of a row's images; "" if their source names none."""
    return " and ".join(sorted({reference["view"] for reference in references} - {""}))


def _list_donor_sources(row: Mapping[str, Any], edit: Edit | None) -> set[str]:
    """List the source ids of the further images that a row's edit or control needs."""
    edited = edit.references(row["edit"]) if edit and row.get("edit") else ()
    return {reference["source"] for reference in (*edited, *list_donor_references(row))}


def _build_change(
    row: Mapping[str, Any], edit: Edit | None, control: str | None
) -> Callable[[Image.Image, Opener], Image.Image] | None:
    """Build the change of a row's images: the edit of the benchmark, then the control; None without either."""
    edit_arguments, changed = row.get("edit"), change(control, row)
    edited = partial(edit.apply, edit_arguments) if edit and edit_arguments else None
    if changed is None:
        return edited
    return lambda image, opener: changed(edited(image, opener) if edited else image, opener)
