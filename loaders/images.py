"""Open the image of an ImageRef: jpg, png, DICOM or a video's frame below a source's root, as 8-bit RGB.

Deeper grey levels become 8 bits by the rule in `image_pixels`. EXIF orientation is not applied: boxes and masks refer
to the pixels as stored.

Frames. The reader of a source of videos has `split_key(key) -> (path, number) | None`,
`open_frame(path, number) -> RGB image` and `frame_size(path, number) -> (width, height)`. The last two raise
InputError. Its `list_image_paths` returns the path of the video.
"""

from __future__ import annotations

import itertools
import re
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from types import ModuleType
from typing import TypeVar

import numpy as np
from PIL import Image

from . import limits, placeholders, sources
from .dicom_images import DICOM_MAGIC, read_dicom, read_dicom_size
from .errors import ImageError, InputError, MedfaithError
from .image_pixels import (
    DOWNLOAD_AGAIN,
    CannotOpenError,
    check_scans,
    check_size,
    find_range,
    map_levels,
    scale_to_unit,
)

SHOWN_PATHS = 8  # of the paths that were tried for a missing file
Decoded = TypeVar("Decoded")


def open_image(ref: Mapping[str, str], roots: Mapping[str, Path]) -> Image.Image:
    """Open the image of an ImageRef. Transparent pixels become black, the background of a radiograph.

    Args:
        ref: The reference: `source`, `key`, `view`.
        roots: The folder of each source, by source id.

    Returns:
        The image in mode RGB, fully loaded, with its file closed.

    Raises:
        MissingSourceError: `roots` does not have the source.
        ImageError: The key leaves the root, the file is missing, truncated or corrupt, or a decoder is not installed.
            The error names source and key.
    """
    return _decode(ref, roots, _read_picture, read_dicom, _read_frame).convert("RGB")


def read_image_size(ref: Mapping[str, str], roots: Mapping[str, Path]) -> tuple[int, int]:
    """Read the size of an ImageRef's image from its header, without decoding a pixel.

    Args:
        ref: The reference: `source`, `key`, `view`.
        roots: The folder of each source, by source id.

    Returns:
        (width, height) in pixels.

    Raises:
        MissingSourceError: `roots` does not have the source.
        ImageError: As for `open_image`.
    """
    return _decode(ref, roots, _read_picture_size, read_dicom_size, _read_frame_size)


def _decode(
    ref: Mapping[str, str],
    roots: Mapping[str, Path],
    decode_picture: Callable[[Path], Decoded],
    decode_dicom: Callable[[Path], Decoded],
    decode_frame: Callable[[ModuleType, Path, int], Decoded],
) -> Decoded:
    """Decode the file of an ImageRef with one of three decoders; every failure becomes an ImageError."""
    path = locate(ref, roots)
    try:
        if (video_frame := _find_frame(ref)) is not None:
            reader, number = video_frame
            return decode_frame(reader, path, number)
        limits.require_file(path)
        with path.open("rb") as file:
            head = file.read(DICOM_MAGIC.stop)
        return decode_dicom(path) if head[DICOM_MAGIC] == b"DICM" else decode_picture(path)
    except MemoryError:
        raise
    except CannotOpenError as error:
        raise _build_image_error(ref, f"{path}: {error}", error.action) from None
    except InputError as error:
        expected = f" (expected: {error.expected})" if error.expected else ""
        raise _build_image_error(ref, f"{error.where}: {error.found}{expected}", error.action) from None
    except MedfaithError as error:  # the message names the library that is not installed
        raise ImageError(f"image {ref['key']!r} of source {ref['source']!r}: {error}") from None
    except Exception as error:  # decoders raise many types of error on corrupt files
        cause = f"{path} is truncated, corrupt or unreadable ({type(error).__name__}: {error})"
        raise _build_image_error(ref, cause, DOWNLOAD_AGAIN) from error


def locate(ref: Mapping[str, str], roots: Mapping[str, Path]) -> Path:
    """Return the file of an ImageRef with links resolved, without opening it: fast enough for every row of a table.

    The source's reader knows the candidate paths of a key in each official layout. The root may be a link, and links
    may point to elsewhere below it. A link that points outside the root is refused.

    Args:
        ref: The reference: `source`, `key`, `view`.
        roots: The folder of each source, by source id.

    Returns:
        The path of the file.

    Raises:
        MissingSourceError: `roots` does not have the source.
        ImageError: The key leaves the root, or the file is missing or empty.
    """
    source, key = ref["source"], ref["key"]
    possible_roots = sources.list_roots(source, roots)
    check_key(key, source)
    # A root may be the label file next to the images.
    folders = [(root if root.is_dir() else root.parent).resolve() for root in possible_roots]
    reader = sources.reader(source)
    candidates = reader.list_image_paths(key) if reader is not None else (key,)
    paths = itertools.chain(
        itertools.product(folders, candidates),
        _list_converted(source, folders, candidates),
    )
    for folder, candidate in paths:
        try:
            status = (folder / candidate).stat()  # most candidates are missing: to resolve them takes much longer
            path = (folder / candidate).resolve(strict=True)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except (OSError, RuntimeError) as error:  # no permission, a name too long, a loop of links
            raise _build_image_error(ref, f"{candidate} cannot be reached ({error})", f"check {folder}") from None
        if not path.is_relative_to(folder):
            raise _build_image_error(
                ref,
                f"{candidate} is a link that leaves the root {folder}",
                f"pass --root {source}=PATH with the real folder that holds the images",
            )
        if stat.S_ISREG(status.st_mode):
            if not status.st_size:
                raise _build_image_error(ref, f"{candidate} is empty", DOWNLOAD_AGAIN)
            return path
    raise _build_image_error(
        ref,
        f"no such file below {' or '.join(map(str, folders))}; looked for {_format_paths(candidates)}",
        f"complete the copy of the source, or correct --root {source}=PATH",
    )


def _list_converted(source: str, folders: Sequence[Path], candidates: Sequence[str]) -> Iterator[tuple[Path, str]]:
    """Yield (folder, path) of an image under the source's other `suffixes`, for copies in another file format.

    Only paths whose parent folder exists are listed; the files themselves may be missing.
    """
    suffixes = sources.source(source).suffixes
    for folder, candidate in itertools.product(folders if suffixes else (), candidates):
        parent, _, name = candidate.rpartition("/")
        if (folder / parent).is_dir():  # most are missing
            stem = candidate.removesuffix(PurePosixPath(name).suffix)
            yield from ((folder, stem + suffix) for suffix in suffixes)


def _format_paths(paths: Sequence[str]) -> str:
    """Format the paths that were tried; some sources have dozens of layouts."""
    if len(paths) <= SHOWN_PATHS:
        return ", ".join(paths)
    return f"{', '.join(paths[:SHOWN_PATHS])} and in {len(paths) - SHOWN_PATHS} other places"


def check_key(key: str, source: str = "") -> None:
    """Raise an error unless a key is a plain POSIX path that stays below a root: `folder/name.jpg`.

    Args:
        key: The key of an image.
        source: The source id, for the message.

    Raises:
        ImageError: The key is absolute, leaves the root, or has characters that file names cannot have.
    """
    ref = {"source": source, "key": key}
    steps = key.split("/")
    if any(step in ("", ".", "..") for step in steps) or PurePosixPath(key).is_absolute():
        reason = "is empty, absolute, or has an empty, '.' or '..' step"
    elif "\\" in key or re.match(r"[A-Za-z]:", key):
        reason = "is written as a Windows path"
    elif "\0" in key or not _is_utf8(key):
        reason = "holds characters that no file name has"
    else:
        return
    raise _build_image_error(
        ref, f"the key {reason}", "build the rows again; a key is a path relative to the source's root"
    )


def _is_utf8(key: str) -> bool:
    try:
        key.encode("utf-8")
    except UnicodeEncodeError:  # a lone surrogate, which JSON can carry
        return False
    return True


def _build_image_error(ref: Mapping[str, str], problem: str, action: str) -> ImageError:
    return ImageError(f"image {ref['key']!r} of source {ref['source']!r}: {problem}\n  what to do: {action}")


def _open_picture(path: Path) -> Image.Image:
    """Open a jpg or png and check its size, without decoding it."""
    try:
        image = Image.open(path, formats=("JPEG", "PNG"))
    except Image.UnidentifiedImageError:
        with path.open("rb") as file:
            kind = placeholders.find_placeholder(file.read(placeholders.HEAD_BYTES))
        problem, action = kind or ("neither jpg, png nor DICOM, or damaged at its start", DOWNLOAD_AGAIN)
        raise CannotOpenError(problem, action) from None
    try:
        check_size(*image.size)
    except CannotOpenError:
        image.close()
        raise
    return image


def _read_picture_size(path: Path) -> tuple[int, int]:
    with _open_picture(path) as image:
        return image.size


def _read_picture(path: Path) -> Image.Image:
    """Read a jpg or png as 8-bit L or RGB."""
    with _open_picture(path) as image:
        if image.format != "PNG":
            check_scans(path)
        if image.mode.startswith("I"):  # 16-bit grey
            values = np.asarray(image)
            return Image.fromarray(map_levels(values, lambda levels: scale_to_unit(levels, find_range(levels))))
        if image.has_transparency_data:
            black = Image.new("RGBA", image.size, (0, 0, 0, 255))
            return Image.alpha_composite(black, image.convert("RGBA")).convert("RGB")
        return image.convert("RGB")


def _find_frame(ref: Mapping[str, str]) -> tuple[ModuleType, int] | None:
    """Return the reader that opens an ImageRef's video, and the frame's number; None unless the key denotes a frame."""
    reader = sources.reader(ref["source"])
    split_key = getattr(reader, "split_key", None)
    path_and_number = split_key(ref["key"]) if split_key is not None else None
    return (reader, path_and_number[1]) if reader is not None and path_and_number is not None else None


def _read_frame(reader: ModuleType, path: Path, number: int) -> Image.Image:
    return reader.open_frame(path, number)


def _read_frame_size(reader: ModuleType, path: Path, number: int) -> tuple[int, int]:
    return reader.frame_size(path, number)
