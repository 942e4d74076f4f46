"""The plan of an upload: each file of a staged folder compared with the Hub, and reasons not to overwrite.

Files of other publishers next to medfaith's are kept.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from huggingface_hub import HfApi
from huggingface_hub.errors import RepositoryNotFoundError
from huggingface_hub.hf_api import RepoFile

from ...builders.write import RECORD
from ..row_keys import LOCKS
from .hub_client import build_page_address, reachable, retry
from .hub_content import ForeignError, format_title, get_title, list_remote_files, read_published_record
from .spaces import CARD, TAG

ALLOWED_BEFORE = (".gitignore", "eval.yaml")  # files that a repository may have before its first upload
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
        return build_page_address(self.repo_id, self.repo_type)


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
    files = list_files(staged)
    try:
        with reachable(repo_id, RepositoryNotFoundError):
            info: Any = retry(api.repo_info, repo_id, repo_type=repo_type)
    except RepositoryNotFoundError:
        new = tuple(compare_file(path, name, None) for name, path in files.items())
        return Plan(repo_id, repo_type, None, private=False, gated=False, changes=new, obstacles=())
    with reachable(repo_id):
        remote_files = list_remote_files(api, repo_id, repo_type, info.sha, expand=True)
        changes = [compare_file(path, name, remote_files.get(name)) for name, path in files.items()]
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
    changes = [Change(name, path.stat().st_size, UNKNOWN) for name, path in list_files(staged).items()]
    return Plan(repo_id, repo_type, None, False, False, tuple(changes), obstacles=(), compared=False)


def list_files(staged: Path) -> dict[str, Path]:
    """List the staged files by their paths in the repository.

    Args:
        staged: The folder.

    Returns:
        Path in the repository -> path on this machine.
    """
    return {path.relative_to(staged).as_posix(): path for path in sorted(staged.rglob("*")) if path.is_file()}


def compare_file(path: Path, name: str, remote_file: RepoFile | None) -> Change:
    """Compare a file with the file of the same name on the Hub.

    Args:
        path: The file.
        name: Its path in the repository.
        remote_file: The file on the Hub; None if it is missing there.

    Returns:
        The change, of the kind NEW, CHANGED or SAME.
    """
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


def _is_ours(file: RepoFile, staged: Iterable[str]) -> bool:
    """Return whether an unstaged file is medfaith's: medfaith wrote it, or load_dataset would read it as our rows."""
    if file.path in ALLOWED_BEFORE:
        return False
    folders = {name.rpartition("/")[0] for name in staged if name.endswith(".parquet")}
    beside_rows = file.path.endswith(".parquet") and file.path.rpartition("/")[0] in folders
    return beside_rows or bool(re.fullmatch(format_title(r"\S+", r"\S+"), get_title(file)))


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
        file
        for path, file in remote_files.items()
        if path not in ALLOWED_BEFORE and (path, get_title(file)) != (CARD, FIRST)
    ]
    if RECORD not in remote_files and all(
        ours_only.fullmatch(get_title(file)) for file in begun
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
        problems = _compare_keys(ours, theirs) or _compare_rows(ours["splits"], theirs["splits"])
    elif f"{name}.py" not in remote_files or TAG not in (getattr(info.card_data, "tags", None) or []):
        return [f"it has {len(remote_files)} files and is no metric tagged {TAG}: medfaith did not publish it"]
    for change in changes:
        if change.kind == GONE and repo_type == "dataset":
            problems.append(f"{change.path} would be deleted")
        elif change.kind == CHANGED and not ours_only.fullmatch(get_title(remote_files[change.path])):
            problems.append(
                f"{change.path} was changed there by another commit ({get_title(remote_files[change.path])!r})"
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
    """Compare the kind of keys: hashes with keys of an earlier release cannot be compared."""
    return ["its hashes have keys of an earlier release"] if LOCKS in ours and LOCKS not in theirs else []
