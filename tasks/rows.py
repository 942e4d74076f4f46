"""Rows for lm-eval, with the controls, wordings and selections that a task's metadata ask for."""

from __future__ import annotations

import os
import sys
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import datasets
import pyarrow as pa
from pyarrow import parquet

from ..loaders import limits, sources
from ..loaders.atomic import is_partial
from ..loaders.errors import InputError, install_excepthook
from ..loaders.row_ids import read_ids, require_known
from .controls import DONORS, TISSUE, FactsOf, UnsupportedControlError, split_dose
from .controls.rows import USES_OTHER_ROWS, controlled
from .row_images import Edit, ImageOpening, select_usable
from .row_iteration import iterate_rows
from .row_store import read
from .row_tables import wrap_table
from .scoring import SKIPPED
from .wordings import UnsupportedWordingError, require_wording

Reword = Callable[[Mapping[str, Any], int], Mapping[str, Any] | None]  # None: the question is the source's own text
_FOREIGN = {"patients", "upsampling", "precision_ties"}  # options of That's the Wrong Lung! alone


@dataclass(frozen=True)
class Adapter:
    """The functions by which a benchmark makes its stored rows lm-eval documents.

    Attributes:
        extend: Adds columns to the rows.
        attach: Adds values that no column can hold to each batch of rows when it is read.
        edit: The edit of the images of rows with a column `edit`.
        facts: Returns the facts about a row that a control may use.
        reword: Returns the changed columns of a row in a wording.
    """

    extend: Callable[[datasets.Dataset], datasets.Dataset] | None = None
    attach: Callable[[dict[str, list]], dict[str, list]] | None = None
    edit: Edit | None = None
    facts: FactsOf | None = None
    reword: Reword | None = None


@dataclass(frozen=True)
class Options:
    """The options of a task's rows. lm-eval passes them as metadata, and model arguments with them.

    Attributes:
        data: The output folder of `medfaith build`, one repository in it, or a Hub organisation or data-set id.
        roots: Source id -> folder with the licensed images. The user's settings add to them (`loaders.sources`).
        skip_missing_images: Leave out rows with a missing or broken image, and count them in the column
            `n_rows_skipped`. By default such a row stops the run. A row whose donor is missing gets no other donor.
        prompt: The name of the prompt. The column `prompt` keeps it for sample logs.
        images: As in `row_store.read`. The column `images_shown` keeps it.
        control: One of `controls.CONTROLS`; an edit may have a dose (`controls.split_dose`). The columns `control` and
            `prompt` keep it, because tables must not mix answers under different controls. Rows that do not support the
            control are left out, with a note on stderr.
        wording: The number of a paraphrase of the questions; 0 for the original questions (`wordings`). The columns
            `wording` and `prompt` keep any other number.
        row_ids: A file of row ids (`loaders.row_ids`). Only these rows are used. A pair is used if the file names one
            of its rows, and all questions about a frame if it names the frame.
        max_images: The largest number of a row's images that the model keeps, if its arguments set it. Some models
            open all images of a row before they drop some.
    """

    data: str | None = None
    roots: Mapping[str, str] | None = None
    skip_missing_images: bool = False
    prompt: str = "b0"
    images: str = "all"
    control: str | None = None
    wording: int = 0
    row_ids: str | None = None
    max_images: int | None = None

    @classmethod
    def select(cls, metadata: Mapping[str, Any]) -> Options:
        """Select the options from a task's metadata.

        Args:
            metadata: Name -> value, with the names of lm-eval's and the models' own options.

        Returns:
            The options.
        """
        return cls(**{field.name: metadata[field.name] for field in fields(cls) if field.name in metadata})


def load(repository: str, adapter: Adapter, *, config: str, split: str, **metadata: Any) -> dict[str, datasets.Dataset]:
    """Load `{"test": rows}` for an lm-eval task.

    The column `n_images_sent` holds the number of a row's images that its model was given, as soon as it has answered.
    It is None if the model opened no image, as reference models do. The column `answer_outcome` holds the outcome of
    the request if the model reports it, as `medfaith-server` and `medfaith-hf-vlm` do. The column `answer_end`
    holds a server's reason for another end than the regular one, such as "length" or "abort". The column `views`
    names the views of the images if their source does.

    If the root of a source is known, every image of the rows is located, and every edit checked, before the first
    answer. Without a root, models that read no image (the baselines) still run. Other models stop at the first image.

    Args:
        repository: `<benchmark>-<source>`.
        adapter: The functions of the benchmark.
        config: The config of the rows.
        split: The split of the rows.
        metadata: All further metadata of the task, of which `Options` are used.

    Returns:
        "test" -> rows, whatever the name of the split. Images open on access.

    Raises:
        InputError: The metadata has an option of That's the Wrong Lung!, which this task would ignore, or an option is
            invalid.
        ImageError: An image is missing or broken, or does not fit its edit.
    """
    install_excepthook()
    for option in sorted(_FOREIGN & metadata.keys()):
        problem = f"is one of That's the Wrong Lung!; {repository} has no use for it"
        raise InputError(
            f"option {option}", problem, action="leave it out, or run only medfaith_wrong_lung tasks with it"
        )
    options = Options.select(metadata)
    control, prompt = options.control, options.prompt
    rows = read(repository, config, split, options.data, options.images)
    if adapter.extend is not None:
        rows = adapter.extend(rows)
    text_sources: frozenset[str] = frozenset()
    if control == "none":
        text_sources = frozenset(reference["source"] for references in rows["images"] for reference in references)
    selected = rows if options.row_ids is None else _select_named(rows, options.row_ids, config)
    if control is None:
        rows = selected
    else:
        rows, prompt = _apply_control(rows, selected, control, adapter.facts, config), f"{prompt}, {control}"
    if options.wording:
        require_wording(options.wording, repository)
        rows = _apply_wording(rows, options.wording, adapter.reword, config)
        prompt = f"{prompt}, wording {options.wording}"
    roots = sources.resolve_roots(options.roots, environ=os.environ, config=sources.find_user_config())
    rows, n_skipped = select_usable(rows, roots, adapter.edit, skip=options.skip_missing_images)
    if control is not None and n_skipped and split_dose(control)[0] in (*DONORS, *TISSUE):
        problem = f"{n_skipped} rows are left out of {config}: their donor's image is missing or broken"
        print(f"control {control}: {problem}", file=sys.stderr)
    columns = {SKIPPED: n_skipped, "prompt": prompt, "images_shown": options.images}
    constants = wrap_table(pa.table({name: [value] * len(rows) for name, value in columns.items()}))
    rows = datasets.concatenate_datasets([rows, constants], axis=1)
    opening = ImageOpening(roots, adapter.edit, control, text_sources, options.max_images, adapter.attach)
    return {"test": rows.with_transform(opening)}


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
    """Select the rows that a file names, with their partners: a pair stays together. Raise InputError for no row."""
    ids, originals = rows["id"], rows["original_id"] if "original_id" in rows.column_names else rows["id"]
    requested = read_ids(file)
    pairs = {
        original or row_id
        for row_id, original in zip(ids, originals, strict=True)
        if row_id in requested or original in requested
    }
    places = [
        n for n, (row_id, original) in enumerate(zip(ids, originals, strict=True)) if (original or row_id) in pairs
    ]
    if not places:
        action = "leave the task out, or name rows of it"
        raise InputError(file, f"names no row of {config}", column="id", expected="ids of its rows", action=action)
    return rows.select(places)  # pyrefly: ignore[bad-return] (datasets' decorator hides the type)


def _apply_control(
    rows: datasets.Dataset, selected: datasets.Dataset, control: str, facts: FactsOf | None, config: str
) -> datasets.Dataset:
    """Apply a control to the selected rows. Where it takes the image of another row, that may be any of `rows`.

    Rows that it cannot be made for are left out, with a note. Raise UnsupportedControlError if no row is left.
    """
    if split_dose(control)[0] in USES_OTHER_ROWS:
        ids = {*selected["id"]}
        rows = controlled(rows, control, facts)
        rows = rows.select([n for n, row_id in enumerate(rows["id"]) if row_id in ids])  # pyrefly: ignore[bad-assignment] (datasets' decorator hides the type)
        if not len(rows):
            problem = "can be made for none of the chosen rows"
            raise UnsupportedControlError(
                f"option control={control}", problem, action="choose other rows, or another control"
            )
    else:
        rows = controlled(selected, control, facts)
    if n_left_out := len(selected) - len(rows):
        print(f"control {control}: {n_left_out} of {len(selected)} rows are left out of {config}", file=sys.stderr)
    return rows.add_column("control", [control] * len(rows))  # pyrefly: ignore[bad-return] (datasets' decorator hides the type)


def _apply_wording(rows: datasets.Dataset, wording: int, reword: Reword | None, config: str) -> datasets.Dataset:
    """Apply another wording to the rows.

    Raise UnsupportedWordingError for a row with a question in its source's own words.
    """
    changed = [reword(row, wording) if reword else None for row in iterate_rows(rows)]
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
        rows = rows.remove_columns(name).add_column(name, values, feature=rows.features[name])  # pyrefly: ignore[missing-attribute] (datasets' decorator hides the type)
    return rows.add_column("wording", [wording] * len(rows))  # pyrefly: ignore[bad-return] (datasets' decorator hides the type)
