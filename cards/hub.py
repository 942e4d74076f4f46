"""What stands on the Hub and what an upload would change there; the upload itself, in one commit.

A commit is all or nothing: an upload that is interrupted leaves the repository as it was, and large files that had
arrived are not sent again by the next one.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi
from huggingface_hub.errors import (
    EntryNotFoundError,
    HfHubHTTPError,
    HFValidationError,
    HTTPError,
    LocalTokenNotFoundError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
)
from huggingface_hub.hf_api import RepoFile

from ..builders.write import MANIFEST as RECORD
from ..loaders.errors import InputError, MedfaithError

OWN = (".gitattributes",)  # the Hub's own
NEW, CHANGED, SAME, GONE = "new", "changed", "same", "deleted"


class Change(NamedTuple):
    """One file. size: in bytes, of what is to be uploaded; of a deleted one, of what is there."""

    path: str
    size: int
    kind: str


@dataclass(frozen=True)
class Plan:
    """What an upload of a folder would do.

    obstacles: why the repository may not be overwritten without being told to; empty for a new one, or for one that
    has the same rows.
    """

    repo_id: str
    repo_type: str
    exists: bool
    changes: tuple[Change, ...]
    obstacles: tuple[str, ...]

    @property
    def pending(self) -> list[Change]:
        return [change for change in self.changes if change.kind != SAME]


def check_access(api: HfApi, org: str) -> None:
    """Raises InputError without a token, or with one that is not of the organisation."""
    try:
        with reachable(org, LocalTokenNotFoundError):
            me = api.whoami()
    except LocalTokenNotFoundError:
        action = "make a token with write access, then: hf auth login, or set HF_TOKEN"
        raise InputError("the Hub", "no token is known", action=action) from None
    names = [me["name"], *(one["name"] for one in me.get("orgs", []))]
    if org not in names:
        expected = f"one of {', '.join(names)}"
        raise InputError(f"--org {org}", f"{me['name']} does not belong to it", expected=expected, action="correct it")


def plan(api: HfApi, repo_id: str, repo_type: str, staged: Path) -> Plan:
    """What is to be uploaded of a staged folder. Raises MedfaithError where the Hub cannot be asked."""
    with reachable(repo_id):
        try:
            tree = list(api.list_repo_tree(repo_id, recursive=True, repo_type=repo_type))
        except RepositoryNotFoundError:
            tree = None
        there = {one.path: one for one in tree or () if isinstance(one, RepoFile) and one.path not in OWN}
        files = sorted(path for path in staged.rglob("*") if path.is_file())
        changes = [_change(path, path.relative_to(staged).as_posix(), there) for path in files]
        staying = {change.path for change in changes}
        changes += [Change(path, one.size, GONE) for path, one in sorted(there.items()) if path not in staying]
        obstacles = _obstacles(api, repo_id, repo_type, staged, there, changes)
    return Plan(repo_id, repo_type, tree is not None, tuple(changes), tuple(obstacles))


def upload(
    api: HfApi, intended: Plan, staged: Path, *, message: str, private: bool = False, force: bool = False
) -> str | None:
    """Does what a plan says; returns the commit's address, None where nothing is to be done.

    Raises:
        InputError: the repository has other content, and `force` is not given. MedfaithError: the Hub refuses, or
            cannot be reached; nothing has changed there.
    """
    if intended.obstacles and not force:
        raise other_content(intended)
    if not intended.pending:
        return None
    operations = [
        CommitOperationDelete(change.path) if change.kind == GONE
        else CommitOperationAdd(change.path, str(staged / change.path))
        for change in intended.pending
    ]  # fmt: skip
    with reachable(intended.repo_id):
        if not intended.exists:
            sdk = "gradio" if intended.repo_type == "space" else None
            api.create_repo(intended.repo_id, repo_type=intended.repo_type, private=private, space_sdk=sdk)
        done = api.create_commit(intended.repo_id, operations, commit_message=message, repo_type=intended.repo_type)
    return str(done.commit_url)


def other_content(intended: Plan) -> InputError:
    """Why a repository is not overwritten."""
    found = f"holds other content: {'; '.join(intended.obstacles)}"
    return InputError(intended.repo_id, found, action="choose another --org, or replace it with --force")


@contextmanager
def reachable(repo_id: str, *passing: type[Exception]) -> Iterator[None]:
    """Turns what the Hub's client raises into errors that say what to do. passing: errors that the caller treats."""
    try:
        yield
    except passing:
        raise
    except OfflineModeIsEnabled:
        raise MedfaithError(f"{repo_id}: offline mode is on\n  what to do: unset HF_HUB_OFFLINE") from None
    except HFValidationError as error:
        raise InputError(repo_id, f"is no name of a repository ({error})", action="correct --org") from None
    except (HfHubHTTPError, HTTPError, ConnectionError, TimeoutError) as error:
        raise _refused(repo_id, error) from error
    except RuntimeError as error:  # what the client makes of any error while it sends a large file
        if not isinstance(error.__cause__, HfHubHTTPError | HTTPError | OSError):
            raise
        raise _refused(repo_id, error.__cause__) from error


def _refused(repo_id: str, error: BaseException) -> MedfaithError:
    """What to do about an answer of the Hub, or about none."""
    action = "try again: large files that have arrived are not sent twice"
    if not isinstance(error, HfHubHTTPError):
        return MedfaithError(f"{repo_id}: the Hub cannot be reached ({error})\n  what to do: {action}")
    status = error.response.status_code
    if status in (401, 403):
        action = "log in with a token that may write to it: hf auth login, or set HF_TOKEN"
    reason = str(error.server_message or error).strip().splitlines()[0]
    return MedfaithError(f"{repo_id}: the Hub answers {status} ({reason})\n  what to do: {action}")


def _change(path: Path, name: str, there: Mapping[str, RepoFile]) -> Change:
    data, known = path.read_bytes(), there.get(name)
    if known is None:
        return Change(name, len(data), NEW)
    digest = (
        hashlib.sha256(data).hexdigest() if known.lfs else hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()
    )
    same = digest == (known.lfs.sha256 if known.lfs else known.blob_id)
    return Change(name, len(data), SAME if same else CHANGED)


def _obstacles(
    api: HfApi, repo_id: str, repo_type: str, staged: Path, there: Mapping[str, RepoFile], changes: list[Change]
) -> list[str]:
    if not there:
        return []
    marker = RECORD if repo_type == "dataset" else f"{staged.name}.py"
    if marker not in there:
        return [f"it has {len(there)} files and no {marker}: medfaith did not publish it"]
    found = [f"{change.path} would be deleted" for change in changes if change.kind == GONE]
    if repo_type == "dataset":
        theirs = _record(api, repo_id)
        ours = json.loads((staged / RECORD).read_text(encoding="utf-8"))
        found = [
            f"the rows of {split} are others" for split, of_split in ours["splits"].items()
            if split in theirs and theirs[split] != of_split["sha256"]
        ] + found  # fmt: skip
    return found


def _record(api: HfApi, repo_id: str) -> dict[str, Any]:
    """The published hash of each split's rows; none where its build.json is not of our form."""
    try:
        path = api.hf_hub_download(repo_id, RECORD, repo_type="dataset")
        splits = json.loads(Path(path).read_text(encoding="utf-8"))["splits"]
        return {name: split["sha256"] for name, split in splits.items()}
    except (EntryNotFoundError, ValueError, LookupError, TypeError):
        return {}
