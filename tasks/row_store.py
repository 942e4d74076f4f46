"""Rows as they are stored, in a build on disk or in a data set on the Hub."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import datasets
from datasets import config as datasets_config
from datasets.exceptions import DatasetNotFoundError, DatasetsError
from huggingface_hub import constants
from huggingface_hub.errors import HfHubHTTPError

from ..loaders import limits
from ..loaders.atomic import is_partial
from ..loaders.errors import NO_SPACE, InputError, MedfaithError

RECIPE = "manifest"  # the only config of a data set on the Hub whose licences forbid to publish its rows
BUILT = "medfaith verify DIR --against proves that its rows are the published ones"
IMAGES = ("all", "first")  # of a row that are shown to the model


def read(repository: str, config: str, split: str, data: str | None, images: str = "all") -> datasets.Dataset:
    """The rows of one config and split as they are stored.

    repository: `<benchmark>-<source>`. data: what `medfaith build` wrote (the folder or one repository in it), or a Hub
    organisation or data-set id.
    images: "all" of each row, or the "first" alone, as CXR-ContraBench shows a study to some models (B.3, F).

    Raises InputError for rows that are not there, cannot be read, or may not be had from the Hub.
    """
    if images not in IMAGES:
        raise InputError("option images", f"is {images!r}", expected=" or ".join(IMAGES))
    path = repository_path(repository, data)
    try:
        for part in Path(path).rglob("*.parquet"):  # none of data on the Hub
            limits.require_file(part)
        rows = _loaded(path, config, split, str(datasets_config.HF_DATASETS_CACHE), _state(path))
    except (DatasetNotFoundError, HfHubHTTPError) as error:
        raise _withheld(path, error) from error
    except (ValueError, OSError, DatasetsError) as error:
        raise _unreadable(path, repository, config, split, error) from error
    assert isinstance(rows, datasets.Dataset)
    if not len(rows):
        raise InputError(path, f"config {config!r}, split {split!r} has no row", action="choose another task or source")
    if images == "all" or "images" not in rows.column_names:  # rows of the other benchmarks have one image
        return rows
    first, feature = [of_row[:1] for of_row in rows["images"]], rows.features["images"]
    return rows.remove_columns("images").add_column("images", first, feature=feature)


@lru_cache(maxsize=32)
def _loaded(path: str, config: str, split: str, cache: str, state: object) -> Any:
    """`load_dataset`, once a process for the same files: to parse a build's card takes longer than to read its rows.

    cache: the folder that it keeps rows in. state: of the build's files, see `_state`.
    """
    return datasets.load_dataset(path, config, split=split)


def _state(path: str) -> object:
    """Names, sizes and times of the files of a local build; of data on the Hub something that equals nothing else."""
    files = sorted(file for file in Path(path).rglob("*") if file.is_file())
    return tuple((str(file), of.st_size, of.st_mtime_ns) for file in files for of in [file.stat()]) or object()


def _withheld(path: str, error: DatasetNotFoundError | HfHubHTTPError) -> InputError:
    """Why the Hub does not give a data set, and what to do about it."""
    log_in = "log in with an account that may read it: hf auth login, or set HF_TOKEN"
    if isinstance(error, HfHubHTTPError):
        status = error.response.status_code
        return InputError(path, f"the Hub answers {status}", action=log_in if status in {401, 403} else "try again")
    if "gated" in str(error):
        action = f"ask for access on its page, {constants.ENDPOINT}/datasets/{path}, then {log_in}"
        return InputError(path, "is gated: its owner lets readers in one by one", action=action)
    return InputError(path, "is not on the Hub, or is private", action=f"correct the name, or {log_in}")


def _unreadable(path: str, repository: str, config: str, split: str, error: Exception) -> InputError:
    """Why `load_dataset` failed, and what to do about it."""
    first = error.__cause__ or error.__context__  # datasets may hide it behind "Cannot find data file"
    cause = str(first if isinstance(first, OSError) else error.__cause__ or error).splitlines()[0]
    if isinstance(first, OSError) and first.errno in NO_SPACE:
        action = "make space, or name another folder in the environment variable HF_DATASETS_CACHE"
        return InputError(datasets_config.HF_DATASETS_CACHE, cause, action=action)
    if f"Available: ['{RECIPE}']" in cause:
        action = f"get its sources (its page says how), run medfaith build, and pass that folder as data; {BUILT}"
        return InputError(path, "holds the recipe, not the rows, which its licences forbid to publish", action=action)
    return InputError(
        path,
        f"config {config!r}, split {split!r} cannot be loaded ({cause})",
        expected=f"a build of {repository} that has them",
        action="run medfaith build with the source's root, or choose a task of another split",
    )


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
            builds = (path.parent.name for path in folder.glob("*/build.json"))
            held = ", ".join(sorted(name for name in builds if not is_partial(Path(name))))
            action = "build it: run medfaith build with its source's root"
            raise InputError(folder, f"holds no {repository} (but {held or 'no build'})", action=action)
        return str(inside)
    return data if data.rsplit("/", 1)[-1] == repository else f"{data}/{repository}"
