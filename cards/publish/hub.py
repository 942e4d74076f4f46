"""The content of the Hub, the changes of an upload, and the upload itself, in one commit.

A commit is atomic: an interrupted upload leaves the repository unchanged, and large files that have arrived are not
sent again by the next one. Files of other publishers next to medfaith's are kept.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi, constants, get_session
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    HFValidationError,
    HTTPError,  # pyright: ignore[reportPrivateImportUsage]
    LocalEntryNotFoundError,
    LocalTokenNotFoundError,
    OfflineModeIsEnabled,
    RemoteEntryNotFoundError,
    RepositoryNotFoundError,
)
from huggingface_hub.hf_api import RepoFile

from ...builders.label_keys import FINGERPRINTS
from ...builders.verify import find_record_faults
from ...builders.write import RECORD
from ...loaders.errors import InputError, MedfaithError
from .spaces import CARD, TAG

OWN = (".gitattributes",)  # written by the Hub itself
LONGEST = 600  # seconds of the longest wait; the Hub counts requests in windows of 300
REPEATS = 5
BESIDE = (".gitignore", "eval.yaml")  # files that a repository may have before its first upload
FIRST = "initial commit"  # title of the Hub's own commit to a new repository
NEW, CHANGED, SAME, GONE, KEPT, UNKNOWN = "new", "changed", "same", "deleted", "kept", "not compared"


class Change(NamedTuple):
    """One file of an upload.

    Attributes:
        path: The path in the repository.
        size: Bytes to upload; for a deleted or kept file, its bytes on the Hub.
        kind: NEW, CHANGED, SAME, GONE, KEPT or UNKNOWN.
    """

    path: str
    size: int
    kind: str


class ForeignError(InputError):
    """The repository has content that medfaith did not publish."""


@dataclass(frozen=True)
class Plan:
    """The changes that an upload of a folder would make.

    Attributes:
        repo_id: `<org>/<name>` on the Hub.
        repo_type: The type of the repository.
        head: The parent commit; None if the repository does not exist.
        private: Whether the repository is private.
        gated: Whether the repository is gated.
        changes: The files.
        obstacles: Reasons not to overwrite without `force`; empty for a new repository, or for one with the same rows,
            hashed with the same keys, and no files of other publishers.
        compared: False if the Hub was not asked, and the attributes are unknown.
    """

    repo_id: str
    repo_type: str
    head: str | None
    private: bool
    gated: bool
    changes: tuple[Change, ...]
    obstacles: tuple[str, ...]
    compared: bool = True

    @property
    def exists(self) -> bool:
        """Whether the Hub has the repository."""
        return self.head is not None

    @property
    def pending(self) -> list[Change]:
        """The changes that an upload would make."""
        return [change for change in self.changes if change.kind not in {SAME, KEPT}]

    @property
    def size(self) -> int:
        """The number of bytes to upload."""
        return sum(change.size for change in self.pending if change.kind != GONE)

    @property
    def page(self) -> str:
        """The address of the repository's page."""
        return _build_page_address(self.repo_id, self.repo_type)


class Done(NamedTuple):
    """The result of an upload.

    Attributes:
        at: The commit's address; None if no file had to change.
        private: Whether only its owner's members see the repository.
    """

    at: str | None
    private: bool


def get_client() -> HfApi:
    """Return the Hub's client. It prints on stderr when the Hub asks it to wait.

    Returns:
        The client.
    """
    hooks = get_session().event_hooks["response"]
    if _print_wait not in hooks:
        hooks.append(_print_wait)
    return HfApi()


def format_title(version: str, name: str) -> str:
    """Format the title of medfaith's commits; files with another title are not replaced without `force`.

    Args:
        version: The version of medfaith.
        name: The name of the repository.

    Returns:
        The title.
    """
    return f"medfaith {version}: {name}"


def check_access(api: HfApi, org: str) -> None:
    """Raise an error unless there is a token of the organisation.

    Args:
        api: The Hub's client.
        org: The organisation.

    Raises:
        InputError: There is no token, or its user does not belong to the organisation.
    """
    try:
        with reachable(org, LocalTokenNotFoundError):
            me = _retry(api.whoami)
    except LocalTokenNotFoundError:
        action = "make a token with write access, then: hf auth login, or set HF_TOKEN"
        raise InputError("the Hub", "no token is known", action=action) from None
    names = [me["name"], *(member["name"] for member in me.get("orgs", []))]
    if org not in names:
        expected = f"one of {', '.join(names)}"
        raise InputError(f"--org {org}", f"{me['name']} does not belong to it", expected=expected, action="correct it")


def build_plan(api: HfApi, repo_id: str, repo_type: str, staged: Path) -> Plan:
    """Compare a staged folder with the Hub.

    Args:
        api: The Hub's client.
        repo_id: `<org>/<name>` on the Hub.
        repo_type: The type of the repository.
        staged: The folder.

    Returns:
        The changes.

    Raises:
        MedfaithError: The Hub cannot be asked.
    """
    files = _list_files(staged)
    try:
        with reachable(repo_id, RepositoryNotFoundError):
            info: Any = _retry(api.repo_info, repo_id, repo_type=repo_type)
    except RepositoryNotFoundError:
        new = tuple(_compare_file(path, name, None) for name, path in files.items())
        return Plan(repo_id, repo_type, None, private=False, gated=False, changes=new, obstacles=())
    with reachable(repo_id):
        remote_files = _list_remote_files(api, repo_id, repo_type, info.sha, expand=True)
        changes = [_compare_file(path, name, remote_files.get(name)) for name, path in files.items()]
        for name, file in sorted(remote_files.items()):
            if name not in files:
                changes.append(Change(name, file.size, GONE if _is_ours(file, files) else KEPT))
        obstacles = _find_obstacles(api, info, repo_id, repo_type, staged, remote_files, changes)
    return Plan(repo_id, repo_type, info.sha, info.private, bool(info.gated), tuple(changes), tuple(obstacles))


def build_uncompared_plan(repo_id: str, repo_type: str, staged: Path) -> Plan:
    """List all files of a staged folder, for a dry run without the Hub.

    Args:
        repo_id: `<org>/<name>` on the Hub.
        repo_type: The type of the repository.
        staged: The folder.

    Returns:
        The changes, with unknown kinds.
    """
    changes = [Change(name, path.stat().st_size, UNKNOWN) for name, path in _list_files(staged).items()]
    return Plan(repo_id, repo_type, None, False, False, tuple(changes), obstacles=(), compared=False)


def upload(
    api: HfApi,
    intended: Plan,
    staged: Path,
    *,
    message: str,
    private: bool | None = None,
    gated: bool = False,
    force: bool = False,
    sdk: str | None = None,
) -> Done:
    """Carry out a plan.

    Args:
        api: The Hub's client.
        intended: The plan.
        staged: The folder of the files.
        message: The title of the commit.
        private: Whether a new repository is private; by default, the owner's settings on the Hub decide.
        gated: Whether readers have to ask for access. The gate is set before the upload.
        force: Replace other content.
        sdk: The SDK of a new Space (`spaces.stage`).

    Returns:
        The result.

    Raises:
        InputError: The repository has other content, and `force` is not set.
        MedfaithError: The Hub refuses or cannot be reached, or the repository has changed since the plan; its files are
            then unchanged. Or the files after the commit are not those that were sent.
    """
    if intended.obstacles and not force:
        raise build_content_error(intended)
    repo_id, repo_type = intended.repo_id, intended.repo_type
    operations = [
        CommitOperationDelete(change.path) if change.kind == GONE
        else CommitOperationAdd(change.path, str(staged / change.path))
        for change in intended.pending
    ]  # fmt: skip
    is_private = intended.private
    with reachable(repo_id, retry_action="try again: large files that have arrived are not sent twice"):
        if not intended.exists:
            _retry(api.create_repo, repo_id, repo_type=repo_type, private=private, space_sdk=sdk)
            is_private = bool(_retry(api.repo_info, repo_id, repo_type=repo_type).private)
        if gated and not intended.gated:
            _retry(api.update_repo_settings, repo_id, gated="manual", repo_type=repo_type)
        if not operations:
            return Done(None, is_private)
        head = intended.head
        done = _retry(
            api.create_commit, repo_id, operations, commit_message=message, repo_type=repo_type, parent_commit=head
        )
        _check_arrived(api, intended, str(done.oid), staged)
    return Done(str(done.commit_url), is_private)


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
    if faults := ", ".join(find_record_faults(record)):
        raise ForeignError(repo_id, f"its {RECORD} is not what medfaith writes ({faults})", action=action)
    return record


def build_content_error(intended: Plan) -> InputError:
    """Build the error for a repository that is not overwritten.

    Args:
        intended: The plan.

    Returns:
        The error.
    """
    problem = f"holds other content: {'; '.join(intended.obstacles)}"
    return InputError(intended.repo_id, problem, action="choose another --org, or replace it with --force")


@contextmanager
def reachable(repo_id: str, *passing: type[Exception], retry_action: str = "try again") -> Iterator[None]:
    """Convert errors of the Hub's client to errors that say what to do.

    Args:
        repo_id: `<org>/<name>` on the Hub.
        passing: Types of error that the caller handles.
        retry_action: What to do if nothing is wrong on this side.

    Yields:
        Nothing.

    Raises:
        InputError: The repository is gated, or its name is malformed.
        MedfaithError: The Hub refuses or cannot be reached, or offline mode is on.
    """
    try:
        yield
    except GatedRepoError as error:  # a subclass of RepositoryNotFoundError
        page = _build_page_address(repo_id, error.repo_type or "dataset")
        action = f"ask for access on its page, {page}, and log in: hf auth login, or set HF_TOKEN"
        raise InputError(repo_id, "is gated: its owner lets readers in one by one", action=action) from None
    except passing:
        raise
    except OfflineModeIsEnabled:
        raise MedfaithError(f"{repo_id}: offline mode is on\n  what to do: unset HF_HUB_OFFLINE") from None
    except HFValidationError as error:
        raise InputError(repo_id, f"is no name of a repository ({error})", action="correct it") from None
    except LocalEntryNotFoundError as error:  # any answer but the file, or none
        raise _build_hub_error(repo_id, error.__cause__ or error, retry_action) from error
    except (HfHubHTTPError, HTTPError, ConnectionError, TimeoutError, json.JSONDecodeError) as error:
        raise _build_hub_error(repo_id, error, retry_action) from error
    except RuntimeError as error:  # raised by the client for any error while it sends a large file
        if isinstance(error.__cause__, MedfaithError):
            raise error.__cause__ from None
        if not isinstance(error.__cause__, HfHubHTTPError | HTTPError | OSError):
            raise
        raise _build_hub_error(repo_id, error.__cause__, retry_action) from error


def _retry(call: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """Repeat a request after the time that the Hub asks for, if it has had too many (429).

    This is for requests that the client does not repeat itself, unlike listings and large files.
    """
    for _ in range(REPEATS):
        try:
            return call(*arguments, **options)
        except HfHubHTTPError as error:
            seconds = _read_wait(error.response)
            if seconds is None:
                raise
            time.sleep(seconds)
    return call(*arguments, **options)


def _print_wait(response: Any) -> None:
    if seconds := _read_wait(response):
        print(f"medfaith: the Hub has had too many requests: waiting {seconds} seconds", file=sys.stderr, flush=True)


def _read_wait(response: Any) -> int | None:
    """Read the seconds to wait before a refused request is repeated; None for other answers, or if they are not stated.

    Raises MedfaithError if the wait is too long.
    """
    if response.status_code != 429:
        return None
    window = re.search(r"\bt=(\d+)", response.headers.get("RateLimit", ""))  # seconds to its end
    header = response.headers.get("Retry-After", window[1] if window else "")
    if not header.isdigit():
        return None
    seconds = 1 + int(header)  # the Hub rounds down
    if seconds > LONGEST:
        problem = f"the Hub has had too many requests, and asks to wait {seconds} seconds"
        raise MedfaithError(
            f"{problem}\n  what to do: run it again after that; large files that have arrived stay there"
        )
    return seconds


def _build_hub_error(repo_id: str, error: BaseException, action: str) -> MedfaithError:
    """Convert an HTTP error of the Hub, or a missing response, to an error that says what to do."""
    if not isinstance(error, HfHubHTTPError):
        return MedfaithError(f"{repo_id}: the Hub cannot be reached ({error})\n  what to do: {action}")
    status = error.response.status_code
    if status in (401, 403):
        action = "log in with a token that has access to it (write access to publish): hf auth login, or set HF_TOKEN"
    elif status == 402:
        action = "get a plan that covers it; a Space that is a static page is free: publish-metrics --sdk static"
    elif status == 429:
        action = "wait five minutes and run it again; large files that have arrived are not sent twice"
    elif status in (409, 412):
        action = "it has changed meanwhile: run it again, and see what is there now"
    reason = str(error.server_message or error).strip().splitlines()[0]
    return MedfaithError(f"{repo_id}: the Hub answers {status} ({reason})\n  what to do: {action}")


def _list_remote_files(api: HfApi, repo_id: str, repo_type: str, revision: str, *, expand: bool) -> dict[str, RepoFile]:
    """List the files of a commit by path; `expand` adds the last commit of each."""
    tree = api.list_repo_tree(repo_id, recursive=True, expand=expand, revision=revision, repo_type=repo_type)
    return {file.path: file for file in tree if isinstance(file, RepoFile) and file.path not in OWN}


def _check_arrived(api: HfApi, intended: Plan, revision: str, staged: Path) -> None:
    """Raise MedfaithError if a commit differs from the staged folder: the Hub does not report skipped files."""
    remote_files = _list_remote_files(api, intended.repo_id, intended.repo_type, revision, expand=False)
    gone = {change.path for change in intended.changes if change.kind == GONE}
    kinds = {name: _compare_file(path, name, remote_files.get(name)).kind for name, path in _list_files(staged).items()}
    wrong = [f"{name} is {'missing' if kind == NEW else 'other'}" for name, kind in kinds.items() if kind != SAME]
    wrong += [f"{name} is still there" for name in sorted(gone & set(remote_files))]
    if wrong:
        action = "run it again"
        if ".gitignore" in remote_files:
            action = (
                f"delete .gitignore on {intended.page}/tree/main, or the lines that leave these files out; {action}"
            )
        problem = f"{intended.repo_id}: its commit {revision[:7]} does not hold what was sent: {'; '.join(wrong)}"
        raise MedfaithError(f"{problem}\n  what to do: {action}")


def _is_ours(file: RepoFile, staged: Iterable[str]) -> bool:
    """Return whether an unstaged file is medfaith's: medfaith wrote it, or load_dataset would read it as our rows."""
    if file.path in BESIDE:
        return False
    folders = {name.rpartition("/")[0] for name in staged if name.endswith(".parquet")}
    beside_rows = file.path.endswith(".parquet") and file.path.rpartition("/")[0] in folders
    return beside_rows or bool(re.fullmatch(format_title(r"\S+", r"\S+"), _get_title(file)))


def _build_page_address(repo_id: str, repo_type: str) -> str:
    return f"{constants.ENDPOINT}/{repo_type}s/{repo_id}"


def _list_files(staged: Path) -> dict[str, Path]:
    """List the staged files by their paths in the repository."""
    return {path.relative_to(staged).as_posix(): path for path in sorted(staged.rglob("*")) if path.is_file()}


def _compare_file(path: Path, name: str, remote_file: RepoFile | None) -> Change:
    """Compare a file with the file of the same name on the Hub."""
    size = path.stat().st_size
    if remote_file is None:
        return Change(name, size, NEW)
    expected = remote_file.lfs.sha256 if remote_file.lfs else remote_file.blob_id
    return Change(name, size, SAME if _compute_digest(path, lfs=bool(remote_file.lfs)) == expected else CHANGED)


def _compute_digest(path: Path, *, lfs: bool) -> str:
    """Compute the digest that identifies a file on the Hub: its SHA-256, or git's name of the blob."""
    with path.open("rb") as file:
        if lfs:
            return hashlib.file_digest(file, "sha256").hexdigest()
        head = b"blob %d\0" % path.stat().st_size
        return hashlib.file_digest(file, lambda: hashlib.sha1(head, usedforsecurity=False)).hexdigest()


def _find_obstacles(
    api: HfApi,
    info: Any,
    repo_id: str,
    repo_type: str,
    staged: Path,
    remote_files: Mapping[str, RepoFile],
    changes: Sequence[Change],
) -> list[str]:
    """Find reasons not to overwrite; `info` describes the repository at its head."""
    name, problems = repo_id.rsplit("/", 1)[-1], []
    ours_only = re.compile(format_title(r"\S+", re.escape(name)))
    begun = [
        file for path, file in remote_files.items() if path not in BESIDE and (path, _get_title(file)) != (CARD, FIRST)
    ]
    if RECORD not in remote_files and all(
        ours_only.fullmatch(_get_title(file)) for file in begun
    ):  # new, or an upload cut short
        return []
    if all(change.kind in {SAME, KEPT} for change in changes):
        return []
    if repo_type == "dataset":
        try:
            theirs = read_published_record(api, repo_id, info.sha)
        except ForeignError as error:
            return [f"{error.found}: medfaith did not publish it"]
        if (name_there := f"{theirs['benchmark']}-{theirs['source']}") != name:
            return [f"its {RECORD} is of {name_there}: medfaith did not publish it"]
        ours = json.loads((staged / RECORD).read_text(encoding="utf-8"))
        problems = [*_compare_rows(ours["splits"], theirs["splits"]), *_compare_keys(ours, theirs)]
    elif f"{name}.py" not in remote_files or TAG not in (getattr(info.card_data, "tags", None) or []):
        return [f"it has {len(remote_files)} files and is no metric tagged {TAG}: medfaith did not publish it"]
    for change in changes:
        if change.kind == GONE and repo_type == "dataset":
            problems.append(f"{change.path} would be deleted")
        elif change.kind == CHANGED and not ours_only.fullmatch(_get_title(remote_files[change.path])):
            problems.append(
                f"{change.path} was changed there by another commit ({_get_title(remote_files[change.path])!r})"
            )
    return problems


def _compare_rows(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> list[str]:
    """Compare the rows by the hash of each split."""
    return [
        f"the rows of {split} are others" if split in ours else f"the rows of {split} would be gone"
        for split, entry in theirs.items()
        if split not in ours or entry.get("sha256") != ours[split]["sha256"]
    ]


def _compare_keys(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> list[str]:
    """Compare the keys: with other keys, holders of the labels of the published hashes could no longer verify rows."""
    same = theirs.get(FINGERPRINTS, {}) == ours.get(FINGERPRINTS, {})
    return [] if same else ["its hashes were made with keys of other labels"]


def _get_title(file: RepoFile) -> str:
    """Return the title of the commit that last changed a file."""
    return file.last_commit.title if file.last_commit else ""
