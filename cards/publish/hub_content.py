"""The content of a repository on the Hub: its files, the titles of its commits, and the record of its build."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Any

from huggingface_hub import HfApi
from huggingface_hub.errors import RemoteEntryNotFoundError, RepositoryNotFoundError
from huggingface_hub.hf_api import RepoFile

from ...builders.verify import find_record_faults
from ...builders.write import RECORD
from ...loaders.errors import InputError
from .. import row_keys
from .hub_client import reachable, retry

OWN = (".gitattributes",)  # written by the Hub itself


class ForeignError(InputError):
    """The repository has content that medfaith did not publish."""


def format_title(version: str, name: str) -> str:
    """Format the title of medfaith's commits; files with another title are not replaced without `force`.

    Args:
        version: The version of medfaith.
        name: The name of the repository.

    Returns:
        The title.
    """
    return f"medfaith {version}: {name}"


def get_title(file: RepoFile) -> str:
    """Return the title of the commit that last changed a file.

    Args:
        file: A file of an expanded listing (`list_remote_files`).

    Returns:
        The title; "" if the listing has none.
    """
    return file.last_commit.title if file.last_commit else ""


def list_remote_files(api: HfApi, repo_id: str, repo_type: str, revision: str, *, expand: bool) -> dict[str, RepoFile]:
    """List the files of a commit, without those that the Hub writes itself.

    Args:
        api: The Hub's client.
        repo_id: `<org>/<name>` on the Hub.
        repo_type: The type of the repository.
        revision: The commit.
        expand: Add to each file the commit that last changed it.

    Returns:
        Path in the repository -> file.
    """
    tree = api.list_repo_tree(repo_id, recursive=True, expand=expand, revision=revision, repo_type=repo_type)
    return {file.path: file for file in tree if isinstance(file, RepoFile) and file.path not in OWN}


def read_published_record(api: HfApi, repo_id: str, revision: str) -> Mapping[str, Any]:
    """Read the build.json of a published data set.

    Args:
        api: The Hub's client.
        repo_id: `<org>/<name>` on the Hub.
        revision: The full name of a commit.

    Returns:
        The content of build.json.

    Raises:
        ForeignError: The file is missing, or has another form than medfaith's.
    """
    action = "name a data set that medfaith publish made"
    try:
        with reachable(repo_id, RemoteEntryNotFoundError):
            path = api.hf_hub_download(repo_id, RECORD, repo_type="dataset", revision=revision)
        record = json.loads(Path(path).read_text(encoding="utf-8"))
    except RemoteEntryNotFoundError:
        raise ForeignError(repo_id, f"has no {RECORD}", action=action) from None
    except ValueError as error:
        raise ForeignError(repo_id, f"its {RECORD} cannot be read ({error})", action=action) from None
    if faults := ", ".join(find_record_faults(record) or _find_lock_faults(record)):
        raise ForeignError(repo_id, f"its {RECORD} is not what medfaith writes ({faults})", action=action)
    return record


def read_publication_date(api: HfApi, repo_id: str) -> str | None:
    """Read the date of the first publication of a data set.

    Args:
        api: The Hub's client.
        repo_id: `<org>/<name>` on the Hub.

    Returns:
        The date (ISO 8601); None if the data set is not there, or states no date.

    Raises:
        MedfaithError: The Hub refuses or cannot be reached.
    """
    try:
        with reachable(repo_id, RemoteEntryNotFoundError, RepositoryNotFoundError):
            path = retry(api.hf_hub_download, repo_id, "croissant.json", repo_type="dataset")
        stated = json.loads(Path(path).read_text(encoding="utf-8")).get("datePublished")
        return date.fromisoformat(stated).isoformat()
    except (RemoteEntryNotFoundError, RepositoryNotFoundError, ValueError, TypeError, AttributeError):
        return None


def _find_lock_faults(record: Mapping[str, Any]) -> list[str]:
    """Find locks of keys that do not have the form of medfaith's. Published rows have none."""
    locks = record.get(row_keys.LOCKS, {})
    if not isinstance(locks, dict):
        return [row_keys.LOCKS]
    return [f"{row_keys.LOCKS}/{name}" for name, lock in locks.items() if not row_keys.is_lock(lock)]
