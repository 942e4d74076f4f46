"""The layouts of a copy of a source: where its label files and images are below the user's root.

The layouts are data: `folders`, `labels` and `images` of each entry in sources.toml.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from . import limits
from .errors import InputError
from .sources import LEFTOVERS, Source, has_match, source

PACKED = (".zip", ".tar.gz", ".7z")
UNFINISHED = (".crdownload", ".part", ".partial", ".download", ".aria2", ".filepart", ".tmp")
# What a browser or a file manager adds to the name of a copy: "train (1).csv", "train - Copy.csv", "train copy.csv"; of
# wget: "train.csv.1".
COPY_MARK = re.compile(r"( \(\d{1,3}\)| - copy| copy)(?=\.|$)|\.\d{1,2}$")
PHYSIONET = "physionet.org/files/*/*"  # folders of projects and versions, as wget -r lays them
# A root that is too high has the copy in one of a few folders. A root that is too low may have 65,000 patients.
SEARCHED_FOLDERS = 100


def find_label_file(source_id: str, root: Path, kind: str) -> Path | None:
    """Find a label file.

    Args:
        source_id: The id of the source.
        root: The folder of the copy, or a file in it.
        kind: One of the source's `labels`.

    Returns:
        The path, or None if no layout of the copy has the file.

    Raises:
        InputError: The file is packed, or its download is unfinished. Its name differs from the release's in case, or
            has the mark of a second download. A folder, a pipe or a link to nothing has its name. In each case a build
            would lack its rows in silence. It is there packed by gzip, too, and has another size.
    """
    paths = list(_list_label_paths(source(source_id), root.parent if root.is_file() else root, kind))
    for path in paths:
        if limits.has_file(path):
            _require_same_size(path)
            return path
    for path in paths:
        refuse_similar_name(path)
    return None


def find_label_files(source_id: str, root: Path) -> dict[str, Path]:
    """Find the label files of all kinds.

    Args:
        source_id: The id of the source.
        root: The folder of the copy, or a file in it.

    Returns:
        The paths of the existing files, by kind, in the order of sources.toml.

    Raises:
        InputError: A file is packed or unfinished, or has almost the name of the release; see `find_label_file`.
    """
    paths = {kind: find_label_file(source_id, root, kind) for kind in source(source_id).labels}
    return {kind: path for kind, path in paths.items() if path is not None}


def list_files(folder: Path, suffix: str) -> list[Path]:
    """List the visible files of one kind in a folder, of which a copy has many.

    Args:
        folder: The folder; it may be missing.
        suffix: The suffix of the release's files, such as ".xml".

    Returns:
        The files, sorted by name.

    Raises:
        InputError: A file is packed and not unpacked, its download is unfinished, its suffix differs in case, its name
            has the mark of a second download, or the name is that of a folder, a pipe or a link to nothing. In each
            case a build would lack its rows in silence.
    """
    try:
        entries = sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    except (FileNotFoundError, NotADirectoryError):
        return []
    files = [path for path in entries if path.suffix == suffix and limits.has_file(path)]
    unpacked_names = {path.name + ending for path in files for ending in PACKED}
    for path in entries:
        if path.name.endswith(tuple(suffix + ending for ending in PACKED)) and path.name not in unpacked_names:
            raise InputError(path, "is packed", expected=f"a file *{suffix}", action="unpack it")
        if path.name.endswith(tuple(suffix + ending for ending in UNFINISHED)) and path.with_suffix("") not in files:
            raise _build_unfinished_error(path, f"a file *{suffix}")
        if path.suffix != suffix and path.suffix.casefold() == suffix:
            action = f"rename it to {path.stem}{suffix}, or move it out of the folder"
            raise InputError(path, f"ends in {path.suffix}", expected=suffix, action=action)
        if path.suffix == suffix and COPY_MARK.search(path.name):
            action = "give it the name of the release, or remove it"
            raise InputError(path, "has the name of a second download", expected="each file once", action=action)
    return files


def list_image_paths(source_id: str, key: str) -> tuple[str, ...]:
    """List the candidate paths of an image below the root.

    Args:
        source_id: The id of the source.
        key: The key of a row's image.

    Returns:
        The paths, most likely first.
    """
    entry = source(source_id)
    paths = next(
        (
            tuple(replacement + key.removeprefix(beginning) for replacement in replacements)
            for beginning, replacements in entry.images.items()
            if key.startswith(beginning)
        ),
        (key,),
    )
    return tuple(f"{folder}/{path}" if folder else path for folder in entry.folders for path in paths)


def check_root(source_id: str, root: Path) -> None:
    """Raise an error if a folder is not the copy of a source, but one of its subfolders, or a folder above it, is.

    Args:
        source_id: The id of the source.
        root: The root of the source.

    Raises:
        InputError: The copy is one or two folders deeper or higher, or as deep as wget lays the projects of PhysioNet;
            the message names the folder.
    """
    entry = source(source_id)
    if not root.is_dir():
        return
    labels = {name for name in entry.files if isinstance(name, str)}
    files = _find_files(entry, root)
    if files & labels or (files and not labels):
        return
    if copies := _find_copies(entry, root, files):
        names = ", ".join(str(folder.relative_to(root)) for folder in copies)
        raise InputError(
            root,
            f"holds no copy of {entry.title} itself, but {names} {'does' if len(copies) == 1 else 'do'}",
            expected="the folder of the copy",
            action=f"name {'that folder' if len(copies) == 1 else 'one of them'}: --root {source_id}={copies[0]}",
        )
    for folder in root.parents[:2] if labels else ():
        files_above = _find_files(entry, folder)
        if files_above > files and files_above & labels:
            problem = f"is a folder of a copy of {entry.title}, and not the copy itself"
            action = f"name the folder of the copy: --root {source_id}={folder}"
            raise InputError(root, problem, expected="the folder of the copy", action=action)


def _find_copies(entry: Source, root: Path, files: set[str | tuple[str, ...]]) -> list[Path]:
    """Find the folders below a root that have the most of the files that the source's copy should have.

    A folder counts only if it has all of `files`, those of the root itself, and others. Several folders are returned on
    a tie, without the subfolders of one another. Not every folder has all files: the project mimic-cxr next to
    mimic-cxr-jpg has only the reports.
    """
    files_by_folder = {folder: _find_files(entry, folder) for folder in _list_deeper_folders(root)}
    larger = {folder: len(names) for folder, names in files_by_folder.items() if names > files}
    copies = [folder for folder, n_files in larger.items() if n_files == max(larger.values())]
    return [folder for folder in copies if not any(parent in copies for parent in folder.parents)]


def _find_files(entry: Source, folder: Path) -> set[str | tuple[str, ...]]:
    """Return those of `entry.files` of which a folder has a file, in any of the accepted places and names."""
    expected = zip(entry.files, entry.list_expected_files(), strict=True)
    return {name for name, alternatives in expected if has_match(entry, folder, alternatives)}


def _list_deeper_folders(root: Path) -> Iterator[Path]:
    """Yield the folders below a root that may be the copy itself: one level deeper, two levels, and wget's.

    wget lays a project of PhysioNet into physionet.org/files/PROJECT/VERSION.
    """
    children = list(_list_folders(root))
    yield from children
    for child in children:
        yield from _list_folders(child)
    yield from sorted(root.glob(PHYSIONET))
    if root.name == PHYSIONET.partition("/")[0]:
        yield from sorted(root.parent.glob(PHYSIONET))


def _list_folders(folder: Path) -> Iterator[Path]:
    try:
        yield from islice((path for path in sorted(folder.iterdir()) if _is_visible_folder(path)), SEARCHED_FOLDERS)
    except OSError:
        return


def _is_visible_folder(path: Path) -> bool:
    return not path.name.startswith(LEFTOVERS) and path.is_dir()


def _require_same_size(path: Path) -> None:
    """Require that a file and its packed copy have the same size: `gunzip -k` may have been interrupted.

    Raises:
        InputError: The sizes differ.
    """
    packed = path if path.suffix == ".gz" else path.with_name(f"{path.name}.gz")
    plain = packed.with_suffix("")
    if not (limits.has_file(packed) and limits.has_file(plain)):
        return
    with packed.open("rb") as file:
        if file.read(2) != b"\x1f\x8b":  # a browser unpacked it, and left its name
            return
        file.seek(max(2, packed.stat().st_size - 4))
        size = int.from_bytes(file.read(4), "little")  # of the unpacked file, modulo 2**32
    if size != plain.stat().st_size % 2**32:
        problem = f"is there unpacked, too, and {plain.name} has another size than its content"
        raise InputError(
            packed, problem, expected="one of the two", action="remove the one that is incomplete or changed"
        )


def _list_label_paths(entry: Source, root: Path, kind: str) -> Iterator[Path]:
    for pattern in entry.folders:
        for folder in sorted(root.glob(pattern)) if "*" in pattern else (root / pattern,):
            yield from (folder / name for name in entry.labels[kind])


def _build_unfinished_error(path: Path, expected: str) -> InputError:
    action = "download it again, or remove it"
    return InputError(path, "is an unfinished download", expected=expected, action=action)


def refuse_similar_name(path: Path) -> None:
    """Raise an error if a file has almost the name of an absent one.

    Args:
        path: The absent file.

    Raises:
        InputError: The file is there packed, unfinished, under a name in another case, or with the mark of a second
            download.
    """
    try:
        names = sorted(entry.name for entry in path.parent.iterdir())
    except OSError:
        return
    for name in names:
        if name in {path.name + suffix for suffix in PACKED}:
            raise InputError(path.parent / name, "is packed", expected=path.name, action="unpack it")
        if name in {path.name + suffix for suffix in UNFINISHED}:
            raise _build_unfinished_error(path.parent / name, path.name)
        if COPY_MARK.sub("", name.casefold()) == path.name.casefold():
            action = f"rename it to {path.name}, or move it out of the folder"
            raise InputError(path.parent / name, "is almost a name of the release", expected=path.name, action=action)
