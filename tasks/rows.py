"""Rows for lm-eval: from a build on disk or from the Hub, with images that are opened when a model asks for them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast, overload

import datasets
import numpy as np
from PIL import Image
from tqdm import tqdm

from ..loaders import images, sources
from ..loaders.errors import ImageError, InputError, MedfaithError
from .heal.transplant import compose

ORIGINALS = "use the source's original images: masks and boxes are in their pixels"
RECIPE = "manifest"  # the one config of a data set on the Hub whose rows its licences keep with those who hold them
BUILT = "medfaith verify DIR --against proves that they are the published ones"
LEAVE_OUT = "\n  or: leave such rows out with --skip-missing-images, which looks at every image before the run"


class LazyImages(Sequence[Image.Image]):
    """The images of one row, each opened when it is taken: a run over 135,754 rows never holds more than a batch.

    lm-eval's multimodal models iterate over or slice what a document gives them; both open the images in mode RGB.

    edit: what each image gets in place of its `region`: the `donor_region` of the image `donor` (see loaders.compose).
    """

    def __init__(
        self,
        row_id: str,
        references: Sequence[Mapping[str, str]],
        roots: Mapping[str, Path],
        edit: Mapping[str, Any] | None = None,
    ) -> None:
        self._row_id, self._references, self._roots, self._edit = row_id, references, roots, edit

    def __len__(self) -> int:
        return len(self._references)

    @overload
    def __getitem__(self, index: int) -> Image.Image: ...
    @overload
    def __getitem__(self, index: slice) -> list[Image.Image]: ...
    def __getitem__(self, index):
        if isinstance(index, slice):
            return [self._open(reference) for reference in self._references[index]]
        return self._open(self._references[index])

    def __iter__(self) -> Iterator[Image.Image]:
        return (self._open(reference) for reference in self._references)

    def __str__(self) -> str:  # what lm-eval's sample log keeps of them
        return " ".join(f"{reference['source']}:{reference['key']}" for reference in self._references)

    def _open(self, reference: Mapping[str, str]) -> Image.Image:
        image = self._opened(reference)
        if self._edit is None:
            return image
        donor = self._opened(self._edit["donor"])
        try:
            edited = compose(np.asarray(image), self._edit["region"], np.asarray(donor), self._edit["donor_region"])
        except ValueError as error:
            raise ImageError(f"row {self._row_id}: {error}\n  what to do: {ORIGINALS}") from error
        return Image.fromarray(edited)

    def _opened(self, reference: Mapping[str, str]) -> Image.Image:
        try:
            return images.open_image(reference, self._roots)
        except MedfaithError as error:
            leave_out = LEAVE_OUT if isinstance(error, ImageError) else ""
            raise type(error)(f"row {self._row_id}: {error}{leave_out}") from error


def load(
    repository: str,
    *,
    config: str,
    split: str,
    data: str | None = None,
    roots: Mapping[str, str] | None = None,
    skip_missing_images: bool = False,
    prompt: str = "b0",
    extend: Callable[[datasets.Dataset], datasets.Dataset] | None = None,
    attach: Callable[[dict[str, list]], dict[str, list]] | None = None,
    patients: str | None = None,
    **_: Any,
) -> dict[str, datasets.Dataset]:
    """`{"test": rows}` for an lm-eval task; lm-eval passes all its metadata, of which the named arguments count.

    Args:
        repository: `<benchmark>-<source>`. config, split: which rows of it.
        data: what `medfaith build` wrote (the folder or one repository in it), or a Hub organisation or data-set id.
        roots: source id -> folder with the licensed images; the places that loaders.sources looks in count too.
        skip_missing_images: leave out rows with an image that is missing or broken, and count them in the column
            `n_rows_skipped`; by default such a row stops the run.
        prompt: name of the prompt, kept in the column `prompt` so that a sample log says how it was made.
        extend: adds columns to the rows.
        attach: adds what no column can hold to each batch of rows when it is read.
        patients: what the tasks of That's the Wrong Lung! take themselves; others refuse it (InputError), since a run
            that passed over it would look as if it were about some patients only.

    With a root known for a source, every image of the rows is looked for before the first answer is generated, and
    images that are edited, and their donors, must have the size of their masks. Without, models that look at no image
    (the baselines) still run, and others stop at the first image.
    """
    if patients is not None:
        found = f"is one of That's the Wrong Lung!; {repository} has no rows to leave out by it"
        raise InputError("option patients", found, action="leave it out, or run only medfaith_wrong_lung tasks with it")
    rows = read(repository, config, split, data)
    if extend is not None:
        rows = extend(rows)
    known = sources.resolve_roots(roots, environ=os.environ, config=sources.user_config())
    rows, n_skipped = _check_images(rows, known, skip_missing_images)
    rows = rows.add_column("n_rows_skipped", [n_skipped] * len(rows)).add_column("prompt", [prompt] * len(rows))

    def opened(batch: dict[str, list]) -> dict[str, list]:
        shown = _with_images(batch, known)
        return attach(shown) if attach is not None else shown

    return {"test": rows.with_transform(opened)}


def read(repository: str, config: str, split: str, data: str | None) -> datasets.Dataset:
    """The rows of one config and split as they are stored; arguments as in `load`."""
    path = repository_path(repository, data)
    try:
        rows = datasets.load_dataset(path, config, split=split)
    except (ValueError, OSError, datasets.exceptions.DatasetsError) as error:
        cause = str(error.__cause__ or error).splitlines()[0]
        if f"Available: ['{RECIPE}']" in cause:
            action = f"get its sources (its page says how), medfaith build, and name that folder as data; {BUILT}"
            raise InputError(path, "holds the recipe, not the rows: its licences forbid it", action=action) from error
        raise InputError(
            path,
            f"config {config!r}, split {split!r} cannot be loaded ({cause})",
            expected=f"a build of {repository} that has them",
            action="medfaith build, with the source's root; or choose a task of another split",
        ) from error
    assert isinstance(rows, datasets.Dataset)
    if not len(rows):
        raise InputError(path, f"config {config!r}, split {split!r} has no row", action="choose another task or source")
    return rows


def repository_path(repository: str, data: str | None) -> str:
    """Where `load_dataset` finds a repository: its folder in `data`, or its id on the Hub."""
    if not data:
        raise MedfaithError(
            f"no data was named for {repository}\n"
            '  what to do: build it (medfaith build), then pass --metadata \'{"data": "DIR"}\' to lm_eval, '
            "or --data DIR to medfaith eval"
        )
    folder = Path(data).expanduser()
    if folder.is_dir():
        inside = folder / repository
        if not inside.is_dir():
            if folder.name == repository:
                return str(folder)
            held = ", ".join(sorted(path.name for path in folder.iterdir() if (path / "build.json").is_file()))
            action = "build it: medfaith build, with its source's root"
            raise InputError(folder, f"holds no {repository} (but {held or 'no build'})", action=action)
        return str(inside)
    return data if data.rsplit("/", 1)[-1] == repository else f"{data}/{repository}"


def _with_images(batch: dict[str, list], roots: Mapping[str, Path]) -> dict[str, list]:
    edits = batch.get("edit") or [None] * len(batch["id"])
    of_rows = zip(batch["id"], batch["images"], edits, strict=True)
    opened = [LazyImages(row_id, references, roots, edit) for row_id, references, edit in of_rows]
    shown = {name: values for name, values in batch.items() if name != "edit"}  # a sample log has no use for masks
    return shown | {"images": opened}


def _check_images(rows: datasets.Dataset, roots: Mapping[str, Path], skip: bool) -> tuple[datasets.Dataset, int]:
    """The rows whose images can be used and how many were left out. Each image is looked at once."""
    broken: dict[tuple[str, str], ImageError] = {}
    looked_at: set[tuple[str, str]] = set()
    check = images.open_image if skip else images.locate
    kept = []
    columns = [name for name in ("id", "images", "edit") if name in rows.column_names]
    bar = tqdm(rows.select_columns(columns), desc="look for images", disable=None, leave=False)
    for number, row in enumerate(cast(Iterable[dict[str, Any]], bar)):
        used = row["images"] + ([row["edit"]["donor"]] if row.get("edit") else [])
        references = [r for r in used if r["source"] in roots or skip]
        for reference in references:
            name = (reference["source"], reference["key"])
            if name not in looked_at:
                looked_at.add(name)
                try:
                    check(reference, roots)
                except ImageError as error:
                    if not skip:
                        raise ImageError(f"row {row['id']}: {error}{LEAVE_OUT}") from error
                    broken[name] = error
        if not any((r["source"], r["key"]) in broken for r in references):
            if row.get("edit") and references:
                _check_sizes(row, roots)
            kept.append(number)
    if not kept:
        raise ImageError(
            f"no row is left: none of the {len(rows)} rows has all its images; first: {next(iter(broken.values()))}"
        )
    return rows.select(kept), len(rows) - len(kept)


def _check_sizes(row: Mapping[str, Any], roots: Mapping[str, Path]) -> None:
    """Raises ImageError where an image that is edited, or its donor, has not the size that the masks were made for.

    A resized copy would stop the run at its first edited image, after hours; and no row of it could be left out.
    """
    edit = row["edit"]
    for reference, region in ((row["images"][0], edit["region"]), (edit["donor"], edit["donor_region"])):
        try:
            width, height = images.image_size(reference, roots)
        except ImageError as error:
            raise ImageError(f"row {row['id']}: {error}{LEAVE_OUT}") from error
        if [height, width] != list(region["size"]):
            masked = " x ".join(str(side) for side in reversed(region["size"]))
            raise ImageError(
                f"row {row['id']}: image {reference['key']!r} of source {reference['source']!r}: "
                f"{width} x {height} pixels; expected {masked}, as its mask\n  what to do: {ORIGINALS}"
            )
