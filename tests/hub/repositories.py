"""What a Hub keeps: repositories as lists of commits, each with all its files. No network here."""

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
LARGEST_REGULAR = 10_000_000  # bytes; what is larger has to be an LFS file
SAMPLE = 512  # bytes of a file that a client shows before it uploads
SDKS = ("docker", "gradio", "static", "streamlit")
COLOURS = ("red", "yellow", "green", "blue", "indigo", "purple", "pink", "gray")


class HubError(Exception):
    """A request that the Hub refuses.

    status: of HTTP. code: the Hub's X-Error-Code, from which clients choose the class of their exception; "" for none.
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
        """What git holds in place of an LFS file."""
        version = "https://git-lfs.github.com/spec/v1"
        return f"version {version}\noid sha256:{self.sha256}\nsize {len(self.content)}\n".encode()

    @property
    def oid(self) -> str:
        """git's name of the blob: of the file, or of its pointer."""
        blob = self.pointer if self.lfs else self.content
        return hashlib.sha1(b"blob %d\0" % len(blob) + blob).hexdigest()

    def described(self, path: str) -> dict[str, Any]:
        """An entry of the Hub's lists of files."""
        entry = {"type": "file", "path": path, "oid": self.oid, "size": len(self.content)}
        lfs = {"oid": self.sha256, "size": len(self.content), "pointerSize": len(self.pointer)}
        return {**entry, "lfs": lfs} if self.lfs else entry


@dataclass(frozen=True)
class Commit:
    """`files` are all files after it, by path; `date` in the Hub's form."""

    oid: str
    title: str
    date: str
    files: Mapping[str, File]

    @property
    def folder_path(self) -> list[str]:
        folder_paths = [path.split("/")[:-1] for path in self.files]
        return sorted({"/".join(folder_path[: n + 1]) for folder_path in folder_paths for n in range(len(folder_path))})


@dataclass
class Repository:
    """kind: "model", "dataset" or "space". gated: "auto", "manual" or False: whether readers have to ask first.
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
        """Path of its pages: models have no folder of their own."""
        return self.id if self.kind == "model" else f"{self.kind}s/{self.id}"

    @property
    def files(self) -> dict[str, bytes]:
        """Contents by path after the last commit."""
        return {path: file.content for path, file in self.commits[-1].files.items()}

    def at(self, revision: str) -> Commit:
        """revision: "main", or a commit's full name. HubError where there is no such."""
        if revision in {"main", "refs/heads/main"}:
            return self.commits[-1]
        for commit in self.commits:
            if commit.oid == revision:
                return commit
        raise HubError(404, f"Invalid rev id: {revision}", "RevisionNotFound")

    def commit(self, title: str, changes: Mapping[str, File | None]) -> Commit:
        """A commit on top of the last; None deletes."""
        merged = {**(self.commits[-1].files if self.commits else {}), **changes}
        files = {path: file for path, file in sorted(merged.items()) if file is not None}
        n = len(self.commits)
        digest_lines = [self.commits[-1].oid if n else "", str(n), title, *(f"{p} {f.oid}" for p, f in files.items())]
        oid = hashlib.sha1("\n".join(digest_lines).encode()).hexdigest()
        self.commits.append(Commit(oid, title, f"2024-01-01T{n // 60 % 24:02}:{n % 60:02}:00.000Z", files))
        return self.commits[-1]

    def last_change(self, path: str, commit: Commit) -> Commit:
        """The commit, up to the one given, after which a file or folder is what it is there."""
        until = self.commits[: self.commits.index(commit) + 1]
        states = [{p: f.oid for p, f in c.files.items() if within(p, path)} for c in until]
        return next(c for c, state in zip(until, states, strict=True) if state == states[-1])

    def entry(self, path: str, commit: Commit, expand: bool) -> dict[str, Any]:
        """A file or folder as the Hub lists it. expand: with its last commit."""
        if path in commit.files:
            entry = commit.files[path].described(path)
        else:
            inside = "\n".join(f"{p} {f.oid}" for p, f in commit.files.items() if within(p, path))
            entry = {"type": "directory", "path": path, "size": 0, "oid": hashlib.sha1(inside.encode()).hexdigest()}
        if expand:
            last = self.last_change(path, commit)
            entry["lastCommit"] = {"id": last.oid, "title": last.title, "date": last.date}
        return entry


def within(path: str, folder: str) -> bool:
    return not folder or path == folder or path.startswith(f"{folder}/")


def first_files(kind: str, name: str, sdk: str | None) -> dict[str, File]:
    """The files that the Hub itself commits when it makes a repository."""
    lines = "".join(f"*{suffix} filter=lfs diff=lfs merge=lfs -text\n" for suffix in LFS_SUFFIXES)
    files = {".gitattributes": File(lines.encode(), lfs=False)}
    if kind == "space":
        files["README.md"] = File(f"---\ntitle: {name}\nsdk: {sdk}\n---\n".encode(), lfs=False)
    return files


def is_lfs(path: str, size: int, sample: bytes) -> bool:
    """Whether the Hub wants a file as LFS: by its suffix, its size in bytes, or for it is no text."""
    if not size:
        return False
    try:
        codecs.getincrementaldecoder("utf-8")().decode(sample)  # the sample may end within a letter
    except UnicodeDecodeError:
        return True
    return path.endswith(LFS_SUFFIXES) or size > LARGEST_REGULAR or b"\0" in sample


def is_ignored(path: str, rules: str) -> bool:
    """Whether a .gitignore leaves a file out: by a pattern of its path, its name, or a folder that it is in."""
    names = [path, *path.split("/")]
    return any(fnmatch(name, rule.strip("/")) for rule in rules.split() for name in names)


def read_changes(repository: Repository, lines: Iterator[bytes]) -> tuple[dict[str, Any], dict[str, File | None]]:
    """A commit's header and its changes by path, from the lines of its JSON; nothing is changed yet.

    HubError if an LFS blob was not uploaded, a file has to be LFS and is not, or what is deleted is not there.
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


def front_matter(text: str) -> Any:
    """The YAML at a README's beginning; None where there is none. Raises yaml.YAMLError."""
    sections = text.replace("\r\n", "\n").split("---\n", 2)
    return yaml.safe_load(sections[1]) if len(sections) == 3 and not sections[0].strip() else None


def faults_of_card(text: str, kind: str) -> list[str]:
    """What the Hub refuses in a README's YAML (its rules for Spaces' options; of the other fields only the form)."""
    try:
        data = front_matter(text)
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
