"""What is on the Hub, what an upload would change there, and the upload itself, in one commit.

A commit is all or nothing: an upload that is interrupted leaves the repository as it was, and large files that had
arrived are not sent again by the next one. What others have put there beside medfaith's files stays.
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

OWN = (".gitattributes",)  # the Hub's own
LONGEST = 600  # seconds that one wait may take; the Hub counts requests in windows of 300
REPEATS = 5
BESIDE = (".gitignore", "eval.yaml")  # what a repository may have before its first upload
FIRST = "initial commit"  # the Hub's title of what it commits itself to a new repository
NEW, CHANGED, SAME, GONE, KEPT, UNKNOWN = "new", "changed", "same", "deleted", "kept", "not compared"


class Change(NamedTuple):
    """One file. size: in bytes, of what is to be uploaded; of a deleted or kept one, of what is there."""

    path: str
    size: int
    kind: str


class ForeignError(InputError):
    """medfaith did not publish what the repository holds."""


@dataclass(frozen=True)
class Plan:
    """What an upload of a folder would do.

    head: the commit that it would follow; None where there is no repository. private, gated: what the repository is.
    obstacles: why it may not be overwritten without being told to; empty for a new one, or for one that has the same
    rows, hashed with the same keys, and nothing that was not published by medfaith.
    compared: False where the Hub was not asked, so that all of this is unknown.
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
        return self.head is not None

    @property
    def pending(self) -> list[Change]:
        return [change for change in self.changes if change.kind not in {SAME, KEPT}]

    @property
    def size(self) -> int:
        """Of what is to be uploaded, in bytes."""
        return sum(change.size for change in self.pending if change.kind != GONE)

    @property
    def page(self) -> str:
        return _page(self.repo_id, self.repo_type)


class Done(NamedTuple):
    """What an upload has done. at: the commit's address, None where no file was to be changed.

    private: whether only its owner's members see the repository.
    """

    at: str | None
    private: bool


def client() -> HfApi:
    """The Hub's client. Where the Hub asks it to wait, that is said on stderr."""
    hooks = get_session().event_hooks["response"]
    if _say_wait not in hooks:
        hooks.append(_say_wait)
    return HfApi()


def title(version: str, name: str) -> str:
    """Of the commits that medfaith makes; files with another's are not replaced unasked."""
    return f"medfaith {version}: {name}"


def check_access(api: HfApi, org: str) -> None:
    """Raises InputError without a token, or with one that is not of the organisation."""
    try:
        with reachable(org, LocalTokenNotFoundError):
            me = _patiently(api.whoami)
    except LocalTokenNotFoundError:
        action = "make a token with write access, then: hf auth login, or set HF_TOKEN"
        raise InputError("the Hub", "no token is known", action=action) from None
    names = [me["name"], *(one["name"] for one in me.get("orgs", []))]
    if org not in names:
        expected = f"one of {', '.join(names)}"
        raise InputError(f"--org {org}", f"{me['name']} does not belong to it", expected=expected, action="correct it")


def plan(api: HfApi, repo_id: str, repo_type: str, staged: Path) -> Plan:
    """What is to be uploaded of a staged folder. Raises MedfaithError where the Hub cannot be asked."""
    files = _files(staged)
    try:
        with reachable(repo_id, RepositoryNotFoundError):
            info: Any = _patiently(api.repo_info, repo_id, repo_type=repo_type)
    except RepositoryNotFoundError:
        new = tuple(_change(path, name, None) for name, path in files.items())
        return Plan(repo_id, repo_type, None, private=False, gated=False, changes=new, obstacles=())
    with reachable(repo_id):
        there = _there(api, repo_id, repo_type, info.sha, expand=True)
        changes = [_change(path, name, there.get(name)) for name, path in files.items()]
        for name, one in sorted(there.items()):
            if name not in files:
                changes.append(Change(name, one.size, GONE if _is_ours(one, files) else KEPT))
        obstacles = _obstacles(api, info, repo_id, repo_type, staged, there, changes)
    return Plan(repo_id, repo_type, info.sha, info.private, bool(info.gated), tuple(changes), tuple(obstacles))


def uncompared_plan(repo_id: str, repo_type: str, staged: Path) -> Plan:
    """All files of a staged folder, for a dry run where the Hub cannot be asked."""
    changes = [Change(name, path.stat().st_size, UNKNOWN) for name, path in _files(staged).items()]
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
    """Does what a plan says.

    Args:
        private: whether a new repository is a private one; None: as its owner's settings on the Hub say.
        gated: let readers ask for access, before anything is there to read.
        sdk: of a new Space (`spaces.stage`).

    Raises:
        InputError: the repository has other content, and `force` is not given. MedfaithError: the Hub refuses, or
            cannot be reached, or the repository has changed since the plan; no file has changed there. Or what is there
            after the commit is not what was sent.
    """
    if intended.obstacles and not force:
        raise other_content(intended)
    repo_id, repo_type = intended.repo_id, intended.repo_type
    operations = [
        CommitOperationDelete(change.path) if change.kind == GONE
        else CommitOperationAdd(change.path, str(staged / change.path))
        for change in intended.pending
    ]  # fmt: skip
    is_private = intended.private
    with reachable(repo_id, again="try again: large files that have arrived are not sent twice"):
        if not intended.exists:
            _patiently(api.create_repo, repo_id, repo_type=repo_type, private=private, space_sdk=sdk)
            is_private = bool(_patiently(api.repo_info, repo_id, repo_type=repo_type).private)
        if gated and not intended.gated:
            _patiently(api.update_repo_settings, repo_id, gated="manual", repo_type=repo_type)
        if not operations:
            return Done(None, is_private)
        head = intended.head
        done = _patiently(
            api.create_commit, repo_id, operations, commit_message=message, repo_type=repo_type, parent_commit=head
        )
        _check_arrived(api, intended, str(done.oid), staged)
    return Done(str(done.commit_url), is_private)


def published_record(api: HfApi, repo_id: str, revision: str) -> Mapping[str, Any]:
    """build.json of a data set, as medfaith writes it. revision: a commit's full name, whose files never change.

    Raises ForeignError where there is none, or one of another form.
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


def other_content(intended: Plan) -> InputError:
    """Why a repository is not overwritten."""
    found = f"holds other content: {'; '.join(intended.obstacles)}"
    return InputError(intended.repo_id, found, action="choose another --org, or replace it with --force")


@contextmanager
def reachable(repo_id: str, *passing: type[Exception], again: str = "try again") -> Iterator[None]:
    """Turns what the Hub's client raises into errors that say what to do.

    Args:
        passing: errors that the caller treats. again: what to do where nothing is wrong here.
    """
    try:
        yield
    except GatedRepoError as error:  # which is a RepositoryNotFoundError, too
        page = _page(repo_id, error.repo_type or "dataset")
        action = f"ask for access on its page, {page}, and log in: hf auth login, or set HF_TOKEN"
        raise InputError(repo_id, "is gated: its owner lets readers in one by one", action=action) from None
    except passing:
        raise
    except OfflineModeIsEnabled:
        raise MedfaithError(f"{repo_id}: offline mode is on\n  what to do: unset HF_HUB_OFFLINE") from None
    except HFValidationError as error:
        raise InputError(repo_id, f"is no name of a repository ({error})", action="correct it") from None
    except LocalEntryNotFoundError as error:  # any answer but the file, or none
        raise _refused(repo_id, error.__cause__ or error, again) from error
    except (HfHubHTTPError, HTTPError, ConnectionError, TimeoutError, json.JSONDecodeError) as error:
        raise _refused(repo_id, error, again) from error
    except RuntimeError as error:  # what the client makes of any error while it sends a large file
        if isinstance(error.__cause__, MedfaithError):
            raise error.__cause__ from None
        if not isinstance(error.__cause__, HfHubHTTPError | HTTPError | OSError):
            raise
        raise _refused(repo_id, error.__cause__, again) from error


def _patiently(call: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    """What a request returns, repeated after the time that the Hub asks for where it has had too many (429).

    For those requests that the client does not repeat by itself. It does so with listings and large files.
    """
    for _ in range(REPEATS):
        try:
            return call(*arguments, **named)
        except HfHubHTTPError as error:
            seconds = _wait_asked(error.response)
            if seconds is None:
                raise
            time.sleep(seconds)
    return call(*arguments, **named)


def _say_wait(response: Any) -> None:
    if seconds := _wait_asked(response):
        print(f"medfaith: the Hub has had too many requests: waiting {seconds} seconds", file=sys.stderr, flush=True)


def _wait_asked(response: Any) -> int | None:
    """Seconds to wait before a request that was one too many is repeated; None for another answer, or where unsaid.

    Raises MedfaithError where that is too long.
    """
    if response.status_code != 429:
        return None
    window = re.search(r"\bt=(\d+)", response.headers.get("RateLimit", ""))  # seconds to its end
    said = response.headers.get("Retry-After", window[1] if window else "")
    if not said.isdigit():
        return None
    seconds = 1 + int(said)  # the Hub rounds down
    if seconds > LONGEST:
        found = f"the Hub has had too many requests, and asks to wait {seconds} seconds"
        raise MedfaithError(f"{found}\n  what to do: run it again after that; large files that have arrived stay there")
    return seconds


def _refused(repo_id: str, error: BaseException, action: str) -> MedfaithError:
    """What to do about an answer of the Hub, or about none."""
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


def _there(api: HfApi, repo_id: str, repo_type: str, revision: str, *, expand: bool) -> dict[str, RepoFile]:
    """The files of a commit by path. expand: with the commit that changed each last."""
    tree = api.list_repo_tree(repo_id, recursive=True, expand=expand, revision=revision, repo_type=repo_type)
    return {one.path: one for one in tree if isinstance(one, RepoFile) and one.path not in OWN}


def _check_arrived(api: HfApi, intended: Plan, revision: str, staged: Path) -> None:
    """Raises MedfaithError where a commit does not hold what was staged. The Hub says nothing of what it leaves out."""
    there = _there(api, intended.repo_id, intended.repo_type, revision, expand=False)
    gone = {change.path for change in intended.changes if change.kind == GONE}
    found = {name: _change(path, name, there.get(name)).kind for name, path in _files(staged).items()}
    wrong = [f"{name} is {'missing' if kind == NEW else 'other'}" for name, kind in found.items() if kind != SAME]
    wrong += [f"{name} is still there" for name in sorted(gone & set(there))]
    if wrong:
        action = "run it again"
        if ".gitignore" in there:
            action = (
                f"delete .gitignore on {intended.page}/tree/main, or the lines that leave these files out; {action}"
            )
        said = f"{intended.repo_id}: its commit {revision[:7]} does not hold what was sent: {'; '.join(wrong)}"
        raise MedfaithError(f"{said}\n  what to do: {action}")


def _is_ours(file: RepoFile, staged: Iterable[str]) -> bool:
    """Whether a file that is not staged is medfaith's: it wrote it, or load_dataset would read it as rows of ours."""
    if file.path in BESIDE:
        return False
    folders = {name.rpartition("/")[0] for name in staged if name.endswith(".parquet")}
    beside_rows = file.path.endswith(".parquet") and file.path.rpartition("/")[0] in folders
    return beside_rows or bool(re.fullmatch(title(r"\S+", r"\S+"), _title(file)))


def _page(repo_id: str, repo_type: str) -> str:
    return f"{constants.ENDPOINT}/{repo_type}s/{repo_id}"


def _files(staged: Path) -> dict[str, Path]:
    """By their paths in the repository."""
    return {path.relative_to(staged).as_posix(): path for path in sorted(staged.rglob("*")) if path.is_file()}


def _change(path: Path, name: str, known: RepoFile | None) -> Change:
    """known: the file of that name that is there."""
    size = path.stat().st_size
    if known is None:
        return Change(name, size, NEW)
    expected = known.lfs.sha256 if known.lfs else known.blob_id
    return Change(name, size, SAME if _digest(path, lfs=bool(known.lfs)) == expected else CHANGED)


def _digest(path: Path, *, lfs: bool) -> str:
    """By which the Hub knows a file: its SHA-256, or git's name of the blob."""
    with path.open("rb") as file:
        if lfs:
            return hashlib.file_digest(file, "sha256").hexdigest()
        head = b"blob %d\0" % path.stat().st_size
        return hashlib.file_digest(file, lambda: hashlib.sha1(head, usedforsecurity=False)).hexdigest()


def _obstacles(
    api: HfApi,
    info: Any,
    repo_id: str,
    repo_type: str,
    staged: Path,
    there: Mapping[str, RepoFile],
    changes: Sequence[Change],
) -> list[str]:
    """info: the repository's, of its head."""
    name, found = repo_id.rsplit("/", 1)[-1], []
    ours_only = re.compile(title(r"\S+", re.escape(name)))
    begun = [one for path, one in there.items() if path not in BESIDE and (path, _title(one)) != (CARD, FIRST)]
    if RECORD not in there and all(ours_only.fullmatch(_title(one)) for one in begun):  # new, or an upload cut short
        return []
    if all(change.kind in {SAME, KEPT} for change in changes):
        return []
    if repo_type == "dataset":
        try:
            theirs = published_record(api, repo_id, info.sha)
        except ForeignError as error:
            return [f"{error.found}: medfaith did not publish it"]
        if (of := f"{theirs['benchmark']}-{theirs['source']}") != name:
            return [f"its {RECORD} is of {of}: medfaith did not publish it"]
        ours = json.loads((staged / RECORD).read_text(encoding="utf-8"))
        found = [*_other_rows(ours["splits"], theirs["splits"]), *_other_keys(ours, theirs)]
    elif f"{name}.py" not in there or TAG not in (getattr(info.card_data, "tags", None) or []):
        return [f"it has {len(there)} files and is no metric tagged {TAG}: medfaith did not publish it"]
    for change in changes:
        if change.kind == GONE and repo_type == "dataset":
            found.append(f"{change.path} would be deleted")
        elif change.kind == CHANGED and not ours_only.fullmatch(_title(there[change.path])):
            found.append(f"{change.path} was changed there by another commit ({_title(there[change.path])!r})")
    return found


def _other_rows(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> list[str]:
    """By the hash of each split's rows."""
    return [
        f"the rows of {split} are others" if split in ours else f"the rows of {split} would be gone"
        for split, of_split in theirs.items()
        if split not in ours or of_split.get("sha256") != ours[split]["sha256"]
    ]


def _other_keys(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> list[str]:
    """With other keys, those who hold the labels that the published hashes were made with could prove nothing more."""
    same = theirs.get(FINGERPRINTS, {}) == ours.get(FINGERPRINTS, {})
    return [] if same else ["its hashes were made with keys of other labels"]


def _title(file: RepoFile) -> str:
    """Of the commit that changed it last."""
    return file.last_commit.title if file.last_commit else ""
