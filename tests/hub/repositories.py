"""Repositories of a Hub as lists of commits, each with all its files. This module uses no network."""

from __future__ import annotations

import base64
import codecs
import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatch
from typing import Any

import yaml

LFS_SUFFIXES = (".arrow", ".bin", ".gz", ".jpg", ".npy", ".npz", ".parquet", ".png", ".pt", ".safetensors", ".zip")
LARGEST_REGULAR = 10_000_000  # bytes; a larger file has to be an LFS file
SAMPLE = 512  # bytes of a file that a client sends before the upload
SDKS = ("docker", "gradio", "static", "streamlit")
COLOURS = ("red", "yellow", "green", "blue", "indigo", "purple", "pink", "gray")


class HubError(Exception):
    """A request that the Hub refuses.

    Attributes:
        status: The HTTP status.
        code: The Hub's X-Error-Code, which selects the exception class in clients; "" without a code.
    """

    def __init__(self, status: int, message: str, code: str = "", **details: Any) -> None:
        super().__init__(message)
        self.status, self.code, self.details = status, code, details


@dataclass(frozen=True)
class File:
    content: bytes
    lfs: bool

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.content).hexdigest()

    @property
    def pointer(self) -> bytes:
        """The pointer that git stores instead of an LFS file."""
        version = "https://git-lfs.github.com/spec/v1"
        return f"version {version}\noid sha256:{self.sha256}\nsize {len(self.content)}\n".encode()

    @property
    def oid(self) -> str:
        """git's name of the blob (the file or its pointer)."""
        blob = self.pointer if self.lfs else self.content
        return hashlib.sha1(b"blob %d\0" % len(blob) + blob).hexdigest()

    def described(self, path: str) -> dict[str, Any]:
        """Format an entry of the Hub's file lists."""
        entry = {"type": "file", "path": path, "oid": self.oid, "size": len(self.content)}
        lfs = {"oid": self.sha256, "size": len(self.content), "pointerSize": len(self.pointer)}
        return {**entry, "lfs": lfs} if self.lfs else entry


@dataclass(frozen=True)
class Commit:
    """A commit; `files` holds all files after it, by path, and `date` has the Hub's format."""

    oid: str
    title: str
    date: str
    files: Mapping[str, File]

    @property
    def folders(self) -> list[str]:
        folder_paths = [path.split("/")[:-1] for path in self.files]
        return sorted({"/".join(folder_path[: n + 1]) for folder_path in folder_paths for n in range(len(folder_path))})


@dataclass
class Repository:
    """A model, dataset or space with its commits.

    Attributes:
        kind: "model", "dataset" or "space".
        gated: "auto" or "manual" if readers have to request access, else False.
        blobs: LFS contents by sha256, committed or not.
    """

    kind: str
    id: str
    private: bool = False
    sdk: str | None = None
    gated: str | bool = False
    commits: list[Commit] = field(default_factory=list)
    blobs: dict[str, bytes] = field(default_factory=dict)

    @property
    def prefix(self) -> str:
        """Path of its pages; models have no prefix folder."""
        return self.id if self.kind == "model" else f"{self.kind}s/{self.id}"

    @property
    def files(self) -> dict[str, bytes]:
        """Contents by path after the last commit."""
        return {path: file.content for path, file in self.commits[-1].files.items()}

    def at(self, revision: str) -> Commit:
        """Return the commit of a revision.

        Args:
            revision: "main" or a full commit id.

        Raises:
            HubError: The revision does not exist.
        """
        if revision in {"main", "refs/heads/main"}:
            return self.commits[-1]
        for commit in self.commits:
            if commit.oid == revision:
                return commit
        raise HubError(404, f"Invalid rev id: {revision}", "RevisionNotFound")

    def commit(self, title: str, changes: Mapping[str, File | None]) -> Commit:
        """Add a commit after the last one; a change to None deletes the file."""
        merged = {**(self.commits[-1].files if self.commits else {}), **changes}
        files = {path: file for path, file in sorted(merged.items()) if file is not None}
        n = len(self.commits)
        digest_lines = [self.commits[-1].oid if n else "", str(n), title, *(f"{p} {f.oid}" for p, f in files.items())]
        oid = hashlib.sha1("\n".join(digest_lines).encode()).hexdigest()
        self.commits.append(Commit(oid, title, f"2024-01-01T{n // 60 % 24:02}:{n % 60:02}:00.000Z", files))
        return self.commits[-1]

    def last_change(self, path: str, commit: Commit) -> Commit:
        """Find the last commit up to `commit` that changed a file or folder."""
        until = self.commits[: self.commits.index(commit) + 1]
        states = [{p: f.oid for p, f in c.files.items() if is_within(p, path)} for c in until]
        return next(c for c, state in zip(until, states, strict=True) if state == states[-1])

    def entry(self, path: str, commit: Commit, expand: bool) -> dict[str, Any]:
        """Format the Hub's list entry of a file or folder; `expand` adds its last commit."""
        entry: dict[str, Any]
        if path in commit.files:
            entry = commit.files[path].described(path)
        else:
            inside = "\n".join(f"{p} {f.oid}" for p, f in commit.files.items() if is_within(p, path))
            entry = {"type": "directory", "path": path, "size": 0, "oid": hashlib.sha1(inside.encode()).hexdigest()}
        if expand:
            last = self.last_change(path, commit)
            entry["lastCommit"] = {"id": last.oid, "title": last.title, "date": last.date}
        return entry


def is_within(path: str, folder: str) -> bool:
    return not folder or path == folder or path.startswith(f"{folder}/")


def make_first_files(kind: str, name: str, sdk: str | None) -> dict[str, File]:
    """Files that the Hub commits when it creates a repository."""
    lines = "".join(f"*{suffix} filter=lfs diff=lfs merge=lfs -text\n" for suffix in LFS_SUFFIXES)
    files = {".gitattributes": File(lines.encode(), lfs=False)}
    if kind == "space":
        files["README.md"] = File(f"---\ntitle: {name}\nsdk: {sdk}\n---\n".encode(), lfs=False)
    return files


def is_lfs(path: str, size: int, sample: bytes) -> bool:
    """Whether the Hub requires LFS for a file, because of its suffix, its size in bytes or its binary content."""
    if not size:
        return False
    try:
        codecs.getincrementaldecoder("utf-8")().decode(sample)  # the sample may end within a character
    except UnicodeDecodeError:
        return True
    return path.endswith(LFS_SUFFIXES) or size > LARGEST_REGULAR or b"\0" in sample


def is_ignored(path: str, rules: str) -> bool:
    """Whether a .gitignore excludes a file by a pattern of its path, its name or a parent folder."""
    names = [path, *path.split("/")]
    return any(fnmatch(name, rule.strip("/")) for rule in rules.split() for name in names)


def read_changes(repository: Repository, lines: Iterator[bytes]) -> tuple[dict[str, Any], dict[str, File | None]]:
    """Parse a commit's header and its changes by path from JSON lines, without changing the repository.

    Raises:
        HubError: An LFS blob was not uploaded, a file needs LFS, or a deleted file does not exist.
    """
    header: dict[str, Any] = {}
    changes: dict[str, File | None] = {}
    files = repository.commits[-1].files
    for line in lines:
        item = json.loads(line)
        key, value = item["key"], item["value"]
        if key == "header":
            header = value
        elif key == "file":
            content = base64.b64decode(value["content"])
            if is_lfs(value["path"], len(content), content[:SAMPLE]):
                raise HubError(400, f"{value['path']} has to be uploaded as an LFS file")
            changes[value["path"]] = File(content, lfs=False)
        elif key == "lfsFile":
            if value["oid"] not in repository.blobs:
                raise HubError(400, f"LFS pointer pointed to a file that does not exist: {value['path']}")
            changes[value["path"]] = File(repository.blobs[value["oid"]], lfs=True)
        elif key == "deletedFile":
            if value["path"] not in files:
                raise HubError(404, f"A file with this name doesn't exist: {value['path']}", "EntryNotFound")
            changes[value["path"]] = None
        else:
            raise HubError(400, f"unknown line of a commit: {key}")
    return header, changes


def parse_front_matter(text: str) -> Any:
    """Parse the YAML front matter of a README; None without front matter. Raises yaml.YAMLError."""
    sections = text.replace("\r\n", "\n").split("---\n", 2)
    return yaml.safe_load(sections[1]) if len(sections) == 3 and not sections[0].strip() else None


def find_card_faults(text: str, kind: str) -> list[str]:
    """List the errors that the Hub reports for a README's YAML: values of Spaces' options, types of other fields."""
    try:
        data = parse_front_matter(text)
    except yaml.YAMLError as error:
        return [f"invalid YAML: {error}"]
    if data is None:
        return []
    if not isinstance(data, dict):
        return ["the metadata has to be a mapping"]
    faults = [f'"configs[{i}].config_name" is required' for i, config in enumerate(data.get("configs") or ())
              if "config_name" not in config]  # fmt: skip
    if kind == "space":
        if data.get("sdk") not in SDKS:
            faults.append(f'"sdk" must be one of {SDKS}')
        faults += [f'"{key}" must be one of {COLOURS}' for key in ("colorFrom", "colorTo")
                   if data.get(key, "red") not in COLOURS]  # fmt: skip
    return faults
