"""Stored rows, in a build on disk or in a data set on the Hub."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import datasets
import pyarrow.parquet as pq
from datasets import config as datasets_config
from datasets.exceptions import DatasetNotFoundError, DatasetsError
from huggingface_hub import constants
from huggingface_hub.errors import HfHubHTTPError

from ..loaders import limits
from ..loaders.atomic import is_partial
from ..loaders.errors import NO_SPACE, InputError, MedfaithError

RECIPE = "manifest"  # the only config of a Hub data set whose rows may not be published
BUILT = "medfaith verify DIR --against proves that its rows are the published ones"
IMAGES = ("all", "first")  # images of a row that the model gets


def read(repository: str, config: str, split: str, data: str | None, images: str = "all") -> datasets.Dataset:
    """Read the stored rows of one config and split.

    Args:
        repository: `<benchmark>-<source>`.
        config: The config of the rows.
        split: The split of the rows.
        data: The output folder of `medfaith build`, one repository in it, or a Hub organisation or data-set id.
        images: "all" images of each row, or only the "first". CXR-ContraBench shows one image of a study to some models
            (B.3, F).

    Returns:
        The rows, with all columns, in the stored order.

    Raises:
        InputError: The rows do not exist, cannot be read, or may not be downloaded from the Hub.
    """
    if images not in IMAGES:
        raise InputError("option images", f"is {images!r}", expected=" or ".join(IMAGES))
    path = repository_path(repository, data)
    try:
        for file in Path(path).rglob("*.parquet"):  # data on the Hub match no file
            limits.require_file(file)
        rows = _load(path, config, split, str(datasets_config.HF_DATASETS_CACHE), _read_state(path))
    except (DatasetNotFoundError, HfHubHTTPError) as error:
        raise _build_access_error(path, error) from error
    except (ValueError, OSError, DatasetsError) as error:
        if _is_empty(Path(path), config, split):  # datasets fails in one of several ways
            problem, action = f"config {config!r}, split {split!r} has no row", "choose another task or source"
            raise InputError(path, problem, action=action) from error
        raise _build_load_error(path, repository, config, split, error) from error
    assert isinstance(rows, datasets.Dataset)
    if images == "all" or "images" not in rows.column_names:  # other benchmarks have one image a row
        return rows
    first_images, feature = [references[:1] for references in rows["images"]], rows.features["images"]
    return rows.remove_columns("images").add_column("images", first_images, feature=feature)  # pyrefly: ignore[missing-attribute] (datasets' decorator hides the type)


def _is_empty(folder: Path, config: str, split: str) -> bool:
    """Return whether the files of a split are in a folder, can be read and have no row."""
    try:
        n_rows = [pq.read_metadata(file).num_rows for file in folder.glob(f"{config}/{split}-*.parquet")]
    except (OSError, ValueError):
        return False
    return bool(n_rows) and not sum(n_rows)


@lru_cache(maxsize=32)
def _load(path: str, config: str, split: str, cache: str, state: object) -> Any:
    """Load rows once per process and version of the files: the card of a build takes longer to parse than its rows.

    Args:
        path: The folder or Hub id.
        config: The config of the rows.
        split: The split of the rows.
        cache: The folder in which `datasets` caches rows. It is only part of the cache key.
        state: The state of the build's files (`_read_state`). It is only part of the cache key.
    """
    return datasets.load_dataset(path, config, split=split)


def _read_state(path: str) -> object:
    """Read names, sizes and times of the files of a local build. For data on the Hub the result equals nothing else."""
    files = sorted(file for file in Path(path).rglob("*") if file.is_file())
    return tuple((str(file), stat.st_size, stat.st_mtime_ns) for file in files for stat in [file.stat()]) or object()


def _build_access_error(path: str, error: DatasetNotFoundError | HfHubHTTPError) -> InputError:
    """Build the error for a data set that the Hub does not give."""
    log_in = "log in with an account that may read it: hf auth login, or set HF_TOKEN"
    if isinstance(error, HfHubHTTPError):
        status = error.response.status_code
        return InputError(path, f"the Hub answers {status}", action=log_in if status in {401, 403} else "try again")
    if "gated" in str(error):
        action = f"ask for access on its page, {constants.ENDPOINT}/datasets/{path}, then {log_in}"
        return InputError(path, "is gated: its owner lets readers in one by one", action=action)
    return InputError(path, "is not on the Hub, or is private", action=f"correct the name, or {log_in}")


def _build_load_error(path: str, repository: str, config: str, split: str, error: Exception) -> InputError:
    """Build the error for a failed `load_dataset`."""
    original = error.__cause__ or error.__context__  # `datasets` may hide the cause in "Cannot find data file"
    cause = str(original if isinstance(original, OSError) else error.__cause__ or error).splitlines()[0]
    if isinstance(original, OSError) and original.errno in NO_SPACE:
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
    """Return the path or Hub id under which `load_dataset` finds a repository.

    Args:
        repository: `<benchmark>-<source>`.
        data: A folder with the repository, the repository itself, or a Hub organisation or data-set id.

    Returns:
        The path or the id.

    Raises:
        MedfaithError: `data` is empty.
        InputError: The folder does not have the repository.
    """
    if not data:
        raise MedfaithError(
            f"no data was named for {repository}\n"
            '  what to do: build it (medfaith build), then pass --metadata \'{"data": "DIR"}\' to lm_eval, '
            "or --data DIR to medfaith eval"
        )
    folder = Path(data).expanduser()
    if folder.is_dir():
        subfolder = folder / repository
        if not subfolder.is_dir():
            if folder.name == repository:
                return str(folder)
            builds = (path.parent.name for path in folder.glob("*/build.json"))
            names = ", ".join(sorted(name for name in builds if not is_partial(Path(name))))
            action = "build it: run medfaith build with its source's root"
            raise InputError(folder, f"holds no {repository} (but {names or 'no build'})", action=action)
        return str(subfolder)
    return data if data.rsplit("/", 1)[-1] == repository else f"{data}/{repository}"
