"""Rows for lm-eval, with the controls, wordings and selections that a task's metadata ask for."""

from __future__ import annotations

import os
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, cast

import datasets
import pyarrow as pa
from PIL import Image
from pyarrow import parquet

from ..loaders import images, limits, sources
from ..loaders.atomic import is_partial
from ..loaders.errors import ImageError, InputError, install_excepthook
from ..loaders.progress import Progress
from ..loaders.row_ids import read_ids, require_known
from .controls import DONORS, TARGET, TISSUE, FactsOf, UnsupportedControlError, split_dose
from .controls.donors import DONOR
from .controls.rows import PLACE, USES_OTHER_ROWS, Opener, change, controlled, list_donor_references
from .lazy_images import LEAVE_OUT, AnswerState, LazyImages, Reference
from .outcomes import OUTCOME
from .row_store import read
from .scoring import SENT, SKIPPED, VIEWS
from .wordings import UnsupportedWordingError, require_wording

WRONG_LUNG_ONLY = {"patients", "upsampling", "precision_ties"}
UNLOGGED = ("edit", TARGET, PLACE, DONOR, "labels")  # columns with masks and findings, which a sample log omits

Reword = Callable[[Mapping[str, Any], int], Mapping[str, Any] | None]  # None: the question is the source's own text


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
    **further_metadata: Any,
) -> dict[str, datasets.Dataset]:
    """Load `{"test": rows}` for an lm-eval task. lm-eval passes all its metadata; the arguments named here are used.

    The column `n_images_sent` holds the number of a row's images that its model was given, as soon as it has answered.
    It is None if the model opened no image, as reference models do. The column `answer_outcome` holds the outcome of
    the request if the model reports it, as `medfaith-server` and `medfaith-hf-vlm` do. The column `views` names the
    views of the images if their source does.

    If the root of a source is known, every image of the rows is located, and every edit checked, before the first
    answer. Without a root, models that read no image (the baselines) still run. Other models stop at the first image.

    Args:
        repository: `<benchmark>-<source>`.
        config: The config of the rows.
        split: The split of the rows.
        data: The output folder of `medfaith build`, one repository in it, or a Hub organisation or data-set id.
        roots: Source id -> folder with the licensed images. The user's settings add to them (`loaders.sources`).
        skip_missing_images: Leave out rows with a missing or broken image, and count them in the column
            `n_rows_skipped`. By default such a row stops the run. A row whose donor is missing gets no other donor.
        prompt: The name of the prompt. The column `prompt` keeps it for sample logs.
        extend: Adds columns to the rows.
        attach: Adds values that no column can hold to each batch of rows when it is read.
        edit: The edit of the images of rows with a column `edit`.
        images: As in `row_store.read`. The column `images_shown` keeps it.
        control: One of `controls.CONTROLS`; an edit may have a dose (`controls.split_dose`). The columns `control` and
            `prompt` keep it, because tables must not mix answers under different controls. Rows that do not support the
            control are left out, with a note on stderr.
        facts: Returns the facts about a row that a control may use.
        wording: The number of a paraphrase of the questions; 0 for the original questions (`wordings`). The columns
            `wording` and `prompt` keep any other number.
        reword: Returns the changed columns of a row in a wording.
        row_ids: A file of row ids (`loaders.row_ids`). Only these rows are used. A pair is used if the file names one
            of its rows.
        max_images: The largest number of a row's images that the model keeps, if its arguments set it. lm-eval adds
            model arguments to the metadata. Some models open all images of a row before they drop some.
        further_metadata: Further metadata of lm-eval.

    Returns:
        "test" -> rows, whatever the name of the split. Images open on access.

    Raises:
        InputError: `further_metadata` has an option of That's the Wrong Lung!, which this task would ignore, or an
            option is invalid.
        ImageError: An image is missing or broken, or does not fit its edit.
    """
    install_excepthook()
    for option in sorted(WRONG_LUNG_ONLY & further_metadata.keys()):
        problem = f"is one of That's the Wrong Lung!; {repository} has no use for it"
        raise InputError(
            f"option {option}", problem, action="leave it out, or run only medfaith_wrong_lung tasks with it"
        )
    rows = read(repository, config, split, data, images)
    if extend is not None:
        rows = extend(rows)
    text_sources: frozenset[str] = frozenset()
    if control == "none":
        text_sources = frozenset(reference["source"] for references in rows["images"] for reference in references)
    selected = rows if row_ids is None else _select_named(rows, row_ids, config)
    if control is None:
        rows = selected
    else:
        rows, prompt = _apply_control(rows, selected, control, facts, config), f"{prompt}, {control}"
    if wording:
        rows, prompt = _apply_wording(rows, wording, reword, repository, config), f"{prompt}, wording {wording}"
    known_roots = sources.resolve_roots(roots, environ=os.environ, config=sources.find_user_config())
    rows, n_skipped = _check_images(rows, known_roots, skip_missing_images, edit)
    if control is not None and n_skipped and split_dose(control)[0] in (*DONORS, *TISSUE):
        problem = f"{n_skipped} rows are left out of {config}: their donor's image is missing or broken"
        print(f"control {control}: {problem}", file=sys.stderr)
    columns = {SKIPPED: n_skipped, "prompt": prompt, "images_shown": images}
    constants = datasets.Dataset(pa.table({name: [value] * len(rows) for name, value in columns.items()}))
    rows = datasets.concatenate_datasets([rows, constants], axis=1)
    return {"test": rows.with_transform(_Opening(known_roots, edit, control, text_sources, max_images, attach))}


class _Opening:
    """Opens the images of a batch of rows when the batch is read.

    It is no closure, since datasets hashes a transform by its pickle. The pickle of a closure holds the bytecode of
    all functions that it calls, and takes longer to make than the rows take to read. See `load` for the arguments.
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
        self._max_images, self._attach, self._state = max_images, attach, AnswerState({}, {})

    def __deepcopy__(self, memo: dict[int, Any]) -> _Opening:
        """Return the same object: all copies of the rows that datasets makes share the state of their requests."""
        return self

    def __call__(self, batch: dict[str, list]) -> dict[str, list]:
        """Return the columns of the batch with its images, and with the state of its requests."""
        state = self._state
        visible = _attach_images(batch, *self._settings, state)
        visible[SENT] = [state.n_sent(*row, self._max_images) for row in zip(batch["id"], batch["images"], strict=True)]
        visible[OUTCOME] = [state.outcomes.get(row_id) for row_id in batch["id"]]
        visible[VIEWS] = [_join_views(references) for references in batch["images"]]
        return self._attach(visible) if self._attach is not None else visible


def check_row_ids(file: Path, data: str | None) -> None:
    """Require that each row id in a file belongs to a repository in the folder `data`.

    For data on the Hub only the format of the file is checked. Each task then requires that the file names one of its
    rows.

    Args:
        file: The file of row ids.
        data: The option --data.

    Raises:
        InputError: The file cannot be read, or names unknown rows.
    """
    folder = Path(data).expanduser() if data else None
    if folder is None or not folder.is_dir():
        read_ids(file)
        return
    files = sorted(path for path in folder.rglob("*.parquet") if not is_partial(path.relative_to(folder)))
    columns = [_read_ids_of_file(path) for path in files]
    require_known(file, {row_id for column in columns for row_id in column.to_pylist()}, str(folder))


def _read_ids_of_file(path: Path) -> pa.ChunkedArray:
    """Read the row ids of a Parquet file."""
    try:
        limits.require_file(path)
        return parquet.read_table(path, columns=["id"])["id"]
    except (pa.ArrowException, OSError, KeyError) as error:
        found = f"is no readable Parquet with ids ({str(error).splitlines()[0]})"
        raise InputError(path, found, action="run medfaith build again") from None


def _select_named(rows: datasets.Dataset, file: str, config: str) -> datasets.Dataset:
    """Select the rows that a file names, with their partners: a pair stays together."""
    ids, originals = rows["id"], rows["original_id"] if "original_id" in rows.column_names else rows["id"]
    requested = read_ids(file)
    pairs = {original or row_id for row_id, original in zip(ids, originals, strict=True) if row_id in requested}
    places = [
        n for n, (row_id, original) in enumerate(zip(ids, originals, strict=True)) if (original or row_id) in pairs
    ]
    if not places:
        action = "leave the task out, or name rows of it"
        raise InputError(file, f"names no row of {config}", column="id", expected="ids of its rows", action=action)
    return rows.select(places)


def _apply_control(
    rows: datasets.Dataset, selected: datasets.Dataset, control: str, facts: FactsOf | None, config: str
) -> datasets.Dataset:
    """Apply a control to the chosen rows. All rows may serve as donors."""
    if split_dose(control)[0] in USES_OTHER_ROWS:
        ids = {*selected["id"]}
        rows = controlled(rows, control, facts)
        rows = rows.select([n for n, row_id in enumerate(rows["id"]) if row_id in ids])
        if not len(rows):
            problem = "can be made for none of the chosen rows"
            raise UnsupportedControlError(
                f"option control={control}", problem, action="choose other rows, or another control"
            )
    else:
        rows = controlled(selected, control, facts)
    if n_left_out := len(selected) - len(rows):
        print(f"control {control}: {n_left_out} of {len(selected)} rows are left out of {config}", file=sys.stderr)
    return rows.add_column("control", [control] * len(rows))


def _apply_wording(
    rows: datasets.Dataset, wording: int, reword: Reword | None, repository: str, config: str
) -> datasets.Dataset:
    """Apply another wording to the rows. A task with questions in the source's own words has no other wording."""
    require_wording(wording, repository)
    changed = [reword(row, wording) if reword else None for row in cast(Iterable[dict[str, Any]], rows)]
    columns: dict[str, list[Any]] = defaultdict(list)
    for row_columns in changed:
        if row_columns is None:
            problem = f"the questions of {config} are worded by their source"
            raise UnsupportedWordingError(
                f"option wording={wording}", problem, action="leave it out, or choose other tasks"
            )
        for name, value in row_columns.items():
            columns[name].append(value)
    for name, values in columns.items():
        rows = rows.remove_columns(name).add_column(name, values, feature=rows.features[name])
    return rows.add_column("wording", [wording] * len(rows))


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


def _check_images(
    rows: datasets.Dataset, roots: Mapping[str, Path], skip: bool, edit: Edit | None
) -> tuple[datasets.Dataset, int]:
    """Select the rows whose images are usable, and count the other rows. Each image is checked once."""
    broken: dict[tuple[str, str], ImageError] = {}
    checked: set[tuple[str, str]] = set()
    check = images.open_image if skip else images.locate
    usable = []
    columns = [name for name in ("id", "images", "edit", "control", DONOR) if name in rows.column_names]
    bar = Progress(rows.select_columns(columns), title="looking for images", unit="rows")
    for number, row in enumerate(cast(Iterable[dict[str, Any]], bar)):
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
            usable.append(number)
    if not usable:
        raise ImageError(
            f"no row is left: none of the {len(rows)} rows has all its images; first: {next(iter(broken.values()))}"
        )
    return rows.select(usable), len(rows) - len(usable)
