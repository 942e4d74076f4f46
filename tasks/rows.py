"""Rows for lm-eval. Their images are opened when a model asks for them."""

from __future__ import annotations

import os
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, cast, overload

import datasets
import pyarrow as pa
from PIL import Image
from pyarrow import parquet

from ..loaders import images, limits, sources
from ..loaders.atomic import is_partial
from ..loaders.errors import ImageError, InputError, MedfaithError, install_excepthook
from ..loaders.progress import Progress
from ..loaders.row_ids import read_ids, require_known
from .controls import DONORS, TARGET, TISSUE, FactsOf, UnsupportedControlError, needs_an_image, split_dose
from .controls.donors import DONOR
from .controls.rows import OF_OTHERS, PLACE, Opener, change, controlled, donor_references
from .outcomes import OUTCOME
from .row_store import read
from .scoring import SENT, SKIPPED, VIEWS
from .wordings import UnsupportedWordingError, require_wording

WRONG_LUNG_ONLY = {"patients", "upsampling", "precision_ties"}
LEAVE_OUT = "\n  or: leave such rows out with --skip-missing-images, which looks at every image before the run"
UNLOGGED = ("edit", TARGET, PLACE, DONOR, "labels")  # columns: a sample log has no use for masks and findings

Reference = Mapping[str, str]
Reword = Callable[[Mapping[str, Any], int], Mapping[str, Any] | None]  # None: the source words the row's question


class Edit(NamedTuple):
    """How a benchmark edits the image of a row when it is opened. The row's column `edit` holds the arguments, or None.

    references: of the arguments, the further images that the edit takes.
    check: of row and roots; raises ImageError where the images do not fit the arguments, before the first answer.
    apply: of the arguments, the image and an opener, the edited image; raises ValueError where they do not fit.
    """

    references: Callable[[Mapping[str, Any]], Sequence[Reference]]
    check: Callable[[Mapping[str, Any], Mapping[str, Path]], None]
    apply: Callable[[Mapping[str, Any], Image.Image, Opener], Image.Image]


class Asked(NamedTuple):
    """What becomes of the rows of a task while a model is asked.

    taken: row -> the places of its images that were taken; a row of which a model takes nothing does not come in.
    outcomes: row -> what became of its request, where the model says so (`outcomes.OUTCOMES`).
    """

    taken: dict[str, set[int]]
    outcomes: dict[str, str]

    def n_sent(self, row_id: str, images: Sized, max_images: int | None) -> int | None:
        """How many of a row's images the model was given; None: it has asked for none, so nothing is known."""
        if len(images) and row_id not in self.taken:
            return None
        n_taken = len(self.taken.get(row_id, ()))
        return n_taken if max_images is None else min(n_taken, int(max_images))


class LazyImages(Sequence[Image.Image]):
    """The images of one row, each opened when it is taken: a run over 135,754 rows never holds more than a batch.

    lm-eval's multimodal models iterate over or slice what a document gives them; both open the images in mode RGB.
    Where there is none (control `none`), those that slice (model servers) send the question alone. Those that iterate
    (hf-multimodal, vllm-vlm) need an image, and get an InputError that says so.

    edit: of an image and an opener for further ones, the image that is shown in its place.
    hint: what an error adds about an image that cannot be opened.
    further: ids of sources of which an edit shows pixels, or the question words.
    asked: what becomes of the rows of a task.
    """

    def __init__(
        self,
        row_id: str,
        references: Sequence[Reference],
        roots: Mapping[str, Path],
        edit: Callable[[Image.Image, Opener], Image.Image] | None = None,
        hint: str = LEAVE_OUT,
        further: Iterable[str] = (),
        asked: Asked | None = None,
    ) -> None:
        self._row_id, self._references, self._roots, self._edit = row_id, references, roots, edit
        self._hint, self._further, self._asked = hint, frozenset(further), asked or Asked({}, {})

    def __len__(self) -> int:
        return len(self._references)

    @overload
    def __getitem__(self, index: int) -> Image.Image: ...
    @overload
    def __getitem__(self, index: slice) -> list[Image.Image]: ...
    def __getitem__(self, index):
        places = range(len(self))[index]
        taken = self._asked.taken.setdefault(self._row_id, set())  # for an empty slice, too: the model asked
        if isinstance(places, int):
            taken.add(places)
            return self._open(self._references[places])
        taken.update(places)
        return [self._open(self._references[place]) for place in places]

    def __iter__(self) -> Iterator[Image.Image]:
        if not self._references:
            raise needs_an_image("this model")
        return (self[place] for place in range(len(self)))

    def __str__(self) -> str:  # what lm-eval's sample log keeps of them
        return " ".join(f"{reference['source']}:{reference['key']}" for reference in self._references)

    def size(self, place: int) -> tuple[int, int]:
        """(width, height) of the image of the row at this place, whose pixels are not read where a header says it."""
        return images.read_image_size(self._references[place], self._roots)

    def tell_outcome(self, outcome: str) -> None:
        """Keeps what became of the row's request."""
        self._asked.outcomes[self._row_id] = outcome

    @property
    def outcome(self) -> str | None:
        """What became of the row's request; None until a model tells it. All documents of the row share it."""
        return self._asked.outcomes.get(self._row_id)

    @property
    def sources(self) -> set[str]:
        """Ids of the sources of which something is shown."""
        return {reference["source"] for reference in self._references} | self._further

    def _open(self, reference: Reference) -> Image.Image:
        image = self._opened(reference)
        if self._edit is None:
            return image
        try:
            return self._edit(image, self._opened)
        except ValueError as error:
            action = "use the source's original images: masks and boxes are in their pixels"
            raise ImageError(f"row {self._row_id}: {error}\n  what to do: {action}") from error

    def _opened(self, reference: Reference) -> Image.Image:
        try:
            return images.open_image(reference, self._roots)
        except MedfaithError as error:
            hint = self._hint if isinstance(error, ImageError) else ""
            raise type(error)(f"row {self._row_id}: {error}{hint}") from error


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
    edit: Edit | None = None,
    images: str = "all",
    control: str | None = None,
    facts: FactsOf | None = None,
    wording: int = 0,
    reword: Reword | None = None,
    row_ids: str | None = None,
    max_images: int | None = None,
    **others: Any,
) -> dict[str, datasets.Dataset]:
    """`{"test": rows}` for an lm-eval task. lm-eval passes all its metadata; the arguments named here are used.

    Args:
        repository: `<benchmark>-<source>`. config, split: which rows of it.
        data: what `medfaith build` wrote (the folder or one repository in it), or a Hub organisation or data-set id.
        roots: source id -> folder with the licensed images; the user's settings add to them (loaders.sources).
        skip_missing_images: leave out rows with a missing or broken image, and count them in the column
            `n_rows_skipped`; by default such a row stops the run. A row whose donor is missing gets no other one.
        prompt: name of the prompt, kept in the column `prompt`, so that a sample log says how the model was asked.
        extend: adds columns to the rows.
        attach: adds what no column can hold to each batch of rows when it is read.
        edit: what is done to the images of rows with a column `edit`.
        images: as `stored.read`; kept in the column `images_shown`.
        control: one of `controls.CONTROLS`, an edit also with a dose (`controls.split_dose`); kept in the columns
            `control` and `prompt`, so that no table mixes answers under different controls. Rows for which it cannot be
            made are left out, which is said on stderr.
        facts: what a control may know of a row.
        wording: number of a paraphrase of the questions, 0 for the questions as they are (`wordings`). Another number
            is kept in the columns `wording` and `prompt`, as a control is.
        reword: gives a row's changed columns in a wording.
        row_ids: a file that names rows (loaders.row_ids): only those are asked, a pair where it names either of it.
        max_images: how many images of a row the model keeps, where its arguments say so: lm-eval adds those to the
            metadata. Some models open all images of a row, and then cut them.
        others: what lm-eval adds. Those of That's the Wrong Lung!, which its tasks apply themselves, are refused
             (InputError): a run that ignored `patients` would look like a run about some patients only.

    The column `n_images_sent` says how many images of a row its model was given, as soon as it has answered; None where
    it asked for none, such as a reference model. `answer_outcome` says what became of its request, where the model
    knows it, as `medfaith-server` and `medfaith-hf-vlm` do. `views` names the views of its images, as far as their
    source does.

    Where the root of a source is known, every image of the rows is looked for, and every edit checked, before the first
    answer is generated. Without a root, models that look at no image (the baselines) still run, and others stop at the
    first image.
    """
    install_excepthook()
    for option in sorted(WRONG_LUNG_ONLY & others.keys()):
        found = f"is one of That's the Wrong Lung!; {repository} has no use for it"
        raise InputError(
            f"option {option}", found, action="leave it out, or run only medfaith_wrong_lung tasks with it"
        )
    rows = read(repository, config, split, data, images)
    if extend is not None:
        rows = extend(rows)
    words: frozenset[str] = frozenset()
    if control == "none":
        words = frozenset(reference["source"] for of_row in rows["images"] for reference in of_row)
    chosen = rows if row_ids is None else _named(rows, row_ids, config)
    if control is None:
        rows = chosen
    else:
        rows, prompt = _controlled(rows, chosen, control, facts, config), f"{prompt}, {control}"
    if wording:
        rows, prompt = _reworded(rows, wording, reword, repository, config), f"{prompt}, wording {wording}"
    known = sources.resolve_roots(roots, environ=os.environ, config=sources.find_user_config())
    rows, n_skipped = _check_images(rows, known, skip_missing_images, edit)
    if control is not None and n_skipped and split_dose(control)[0] in (*DONORS, *TISSUE):
        found = f"{n_skipped} rows are left out of {config}: their donor's image is missing or broken"
        print(f"control {control}: {found}", file=sys.stderr)
    for column, value in ((SKIPPED, n_skipped), ("prompt", prompt), ("images_shown", images)):
        rows = rows.add_column(column, [value] * len(rows))
    asked = Asked({}, {})

    def opened(batch: dict[str, list]) -> dict[str, list]:
        shown = _with_images(batch, known, edit, control, words, asked)
        shown[SENT] = [asked.n_sent(*row, max_images) for row in zip(batch["id"], batch["images"], strict=True)]
        shown[OUTCOME] = [asked.outcomes.get(row_id) for row_id in batch["id"]]
        shown[VIEWS] = [_views(references) for references in batch["images"]]
        return attach(shown) if attach is not None else shown

    return {"test": rows.with_transform(opened)}


def check_row_ids(file: Path, data: str | None) -> None:
    """Raises InputError for a file that names rows which no repository in the folder `data` has.

    Of data on the Hub, each task says only whether the file names any of its rows.
    """
    folder = Path(data).expanduser() if data else None
    if folder is None or not folder.is_dir():
        read_ids(file)
        return
    files = sorted(path for path in folder.rglob("*.parquet") if not is_partial(path.relative_to(folder)))
    columns = [_ids(path) for path in files]
    require_known(file, {row_id for column in columns for row_id in column.to_pylist()}, str(folder))


def _ids(path: Path) -> pa.ChunkedArray:
    try:
        limits.require_file(path)
        return parquet.read_table(path, columns=["id"])["id"]
    except (pa.ArrowException, OSError, KeyError) as error:
        found = f"is no readable Parquet with ids ({str(error).splitlines()[0]})"
        raise InputError(path, found, action="run medfaith build again") from None


def _named(rows: datasets.Dataset, file: str, config: str) -> datasets.Dataset:
    """The rows that the file names, with their partners: a pair is asked together."""
    ids, originals = rows["id"], rows["original_id"] if "original_id" in rows.column_names else rows["id"]
    wanted = read_ids(file)
    pairs = {original or own for own, original in zip(ids, originals, strict=True) if own in wanted}
    kept = [n for n, (own, original) in enumerate(zip(ids, originals, strict=True)) if (original or own) in pairs]
    if not kept:
        action = "leave the task out, or name rows of it"
        raise InputError(file, f"names no row of {config}", column="id", expected="ids of its rows", action=action)
    return rows.select(kept)


def _controlled(
    rows: datasets.Dataset, chosen: datasets.Dataset, control: str, facts: FactsOf | None, config: str
) -> datasets.Dataset:
    """The chosen rows under a control, for which all rows may give images or answers."""
    if split_dose(control)[0] in OF_OTHERS:
        ids = {*chosen["id"]}
        rows = controlled(rows, control, facts)
        rows = rows.select([n for n, row_id in enumerate(rows["id"]) if row_id in ids])
        if not len(rows):
            found = "can be made for none of the chosen rows"
            raise UnsupportedControlError(
                f"option control={control}", found, action="choose other rows, or another control"
            )
    else:
        rows = controlled(chosen, control, facts)
    if n_left_out := len(chosen) - len(rows):
        print(f"control {control}: {n_left_out} of {len(chosen)} rows are left out of {config}", file=sys.stderr)
    return rows.add_column("control", [control] * len(rows))


def _reworded(
    rows: datasets.Dataset, wording: int, reword: Reword | None, repository: str, config: str
) -> datasets.Dataset:
    """The rows with their questions in another wording. A task of which a source words a question has none."""
    require_wording(wording, repository)
    changed = [reword(row, wording) if reword else None for row in cast(Iterable[dict[str, Any]], rows)]
    columns: dict[str, list[Any]] = defaultdict(list)
    for of_row in changed:
        if of_row is None:
            found = f"the questions of {config} are worded by their source"
            raise UnsupportedWordingError(
                f"option wording={wording}", found, action="leave it out, or choose other tasks"
            )
        for name, value in of_row.items():
            columns[name].append(value)
    for name, values in columns.items():
        rows = rows.remove_columns(name).add_column(name, values, feature=rows.features[name])
    return rows.add_column("wording", [wording] * len(rows))


def _with_images(
    batch: dict[str, list],
    roots: Mapping[str, Path],
    edit: Edit | None,
    control: str | None,
    words: frozenset[str],
    asked: Asked,
) -> dict[str, list]:
    """words: ids of sources whose words are asked without their images."""
    rows = [dict(zip(batch, values, strict=True)) for values in zip(*batch.values(), strict=True)]
    opened = [
        LazyImages(
            row["id"],
            row["images"],
            roots,
            _changes(row, edit, control),
            further=words | _donors(row, edit),
            asked=asked,
        )
        for row in rows
    ]
    shown = {name: values for name, values in batch.items() if name not in UNLOGGED}
    return shown | {"images": opened}


def _views(references: Iterable[Reference]) -> str:
    """The views of a row's images, each once; "" where their source names none."""
    return " and ".join(sorted({reference["view"] for reference in references} - {""}))


def _donors(row: Mapping[str, Any], edit: Edit | None) -> set[str]:
    """Ids of the sources of the further images that the edit of a row, or its control, takes."""
    edited = edit.references(row["edit"]) if edit and row.get("edit") else ()
    return {reference["source"] for reference in (*edited, *donor_references(row))}


def _changes(
    row: Mapping[str, Any], edit: Edit | None, control: str | None
) -> Callable[[Image.Image, Opener], Image.Image] | None:
    """What is done to an image of a row: the benchmark's edit, then the control's change; None for neither."""
    given, changed = row.get("edit"), change(control, row)
    edited = partial(edit.apply, given) if edit and given else None
    if changed is None:
        return edited
    return lambda image, opener: changed(edited(image, opener) if edited else image, opener)


def _check_images(
    rows: datasets.Dataset, roots: Mapping[str, Path], skip: bool, edit: Edit | None
) -> tuple[datasets.Dataset, int]:
    """The rows whose images can be used and how many were left out. Each image is looked at once."""
    broken: dict[tuple[str, str], ImageError] = {}
    looked_at: set[tuple[str, str]] = set()
    check = images.open_image if skip else images.locate
    kept = []
    columns = [name for name in ("id", "images", "edit", "control", DONOR) if name in rows.column_names]
    bar = Progress(rows.select_columns(columns), title="looking for images", unit="rows")
    for number, row in enumerate(cast(Iterable[dict[str, Any]], bar)):
        edited = edit if row.get("edit") else None
        further = donor_references(row)
        used = [*row["images"], *(edited.references(row["edit"]) if edited else ()), *further]
        references = [r for r in used if r["source"] in roots or skip]
        for reference in references:
            name = (reference["source"], reference["key"])
            if name not in looked_at:
                looked_at.add(name)
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
            kept.append(number)
    if not kept:
        raise ImageError(
            f"no row is left: none of the {len(rows)} rows has all its images; first: {next(iter(broken.values()))}"
        )
    return rows.select(kept), len(rows) - len(kept)
