"""Open the image of an ImageRef: jpg, png, DICOM or a video's frame below a source's root, as 8-bit RGB.

Grey levels. Pixels of 8 bits do not change. Deeper ones (16-bit png, DICOM without a window) are assumed to span
0 .. 2^k - 1 with the smallest k >= 8 that holds the image's largest value. Radiographs of 10 to 15 bits are often
stored in a 16-bit container: division by 65535 would show them almost black, and a stretch from the minimum to the
maximum of each image would hide its exposure. The scaling is linear and preserves the order of all pixels.

EXIF orientation is not applied: boxes and masks refer to the pixels as stored.

Frames. The reader of a source of videos has `split_key(key) -> (path, number) | None`,
`open_frame(path, number) -> RGB image` and `frame_size(path, number) -> (width, height)`. The last two raise
InputError. Its `list_image_paths` returns the path of the video.
"""

from __future__ import annotations

import itertools
import re
import zlib
from collections.abc import Callable, Mapping, Sequence
from io import BytesIO
from pathlib import Path, PurePosixPath
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from PIL import Image

from . import limits, sources
from .errors import ImageError, InputError, MedfaithError

if TYPE_CHECKING:
    from pydicom import Dataset

SHOWN_PATHS = 8  # of the paths that were tried for a missing file
DICOM_MAGIC = slice(128, 132)
Decoded = TypeVar("Decoded")
DOWNLOAD_AGAIN = "download the file again and compare its size or checksum with the source's"


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
    return _decode(ref, roots, _read_picture, _read_dicom, _read_frame).convert("RGB")


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
    return _decode(ref, roots, _read_picture_size, _read_dicom_size, _read_frame_size)


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
    except _CannotOpenError as error:
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
    for folder, candidate in itertools.product(folders, candidates):
        try:
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
        if path.is_file():
            if not path.stat().st_size:
                raise _build_image_error(ref, f"{candidate} is empty", DOWNLOAD_AGAIN)
            return path
    raise _build_image_error(
        ref,
        f"no such file below {' or '.join(map(str, folders))}; looked for {_format_paths(candidates)}",
        f"complete the copy of the source, or correct --root {source}=PATH",
    )


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


class _CannotOpenError(Exception):
    """A known reason why a file cannot be used, with what to do about it; open_image adds source and key."""

    def __init__(self, problem: str, action: str) -> None:
        super().__init__(problem)
        self.action = action


def _build_image_error(ref: Mapping[str, str], problem: str, action: str) -> ImageError:
    return ImageError(f"image {ref['key']!r} of source {ref['source']!r}: {problem}\n  what to do: {action}")


def _check_size(width: int, height: int) -> None:
    if width < 1 or height < 1:
        raise _CannotOpenError(f"{width} x {height} pixels", DOWNLOAD_AGAIN)
    if width * height > limits.IMAGE_PIXELS:
        limit = f"{limits.IMAGE_PIXELS // 10**6} megapixels"
        raise _CannotOpenError(
            f"{width} x {height} pixels, more than {limit}", "no radiograph is that large: check the file"
        )


def _open_picture(path: Path) -> Image.Image:
    """Open a jpg or png and check its size, without decoding it."""
    try:
        image = Image.open(path, formats=("JPEG", "PNG"))
    except Image.UnidentifiedImageError:
        raise _CannotOpenError("neither jpg, png nor DICOM, or damaged at its start", DOWNLOAD_AGAIN) from None
    try:
        _check_size(*image.size)
    except _CannotOpenError:
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
            _check_scans(path)
        if image.mode.startswith("I"):  # 16-bit grey
            values = np.asarray(image)
            return Image.fromarray(_map_levels(values, lambda levels: _scale_to_unit(levels, _find_range(levels))))
        if image.has_transparency_data:
            black = Image.new("RGBA", image.size, (0, 0, 0, 255))
            return Image.alpha_composite(black, image.convert("RGBA")).convert("RGB")
        return image.convert("RGB")


def _check_scans(path: Path) -> None:
    """Limit the scans of a jpg, or of the jpg in a DICOM. The marker of a scan never occurs in compressed data."""
    with path.open("rb") as file:
        n_scans = sum(piece.count(b"\xff\xda") for piece in iter(lambda: file.read(1 << 20), b""))
    if n_scans > limits.JPEG_SCANS:
        problem = f"a jpg of more than {limits.JPEG_SCANS} scans"
        raise _CannotOpenError(problem, "no program writes so many: check the file")


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


def _read_dataset(path: Path, **options: Any) -> Dataset:
    """Read a DICOM file, or only its header, as `options` say.

    A file that unpacks to more than an image is refused:
    pydicom would inflate all of a deflated file, even for its header.
    """
    import pydicom
    from pydicom.filereader import read_file_meta_info
    from pydicom.uid import DeflatedExplicitVRLittleEndian

    limit = 4 * limits.IMAGE_PIXELS + (1 << 16)  # bytes of 16-bit grey or of colour pixels, and a header
    meta, size = read_file_meta_info(path), path.stat().st_size
    if meta.get("TransferSyntaxUID") == DeflatedExplicitVRLittleEndian:
        size = _count_unpacked_bytes(
            path, 144 + meta.FileMetaInformationGroupLength, limit
        )  # after DICM and the length
    if size > limit:
        raise _CannotOpenError(f"a DICOM of more than {limit:,} bytes", "no radiograph is that large: check the file")
    return pydicom.dcmread(path, **options)


def _count_unpacked_bytes(path: Path, start: int, limit: int) -> int:
    """Count the bytes of the deflated data from `start` on; the count ends soon after `limit`."""
    size, stream = 0, zlib.decompressobj(-zlib.MAX_WBITS)
    with path.open("rb") as file:
        file.seek(start)
        while size <= limit and (piece := stream.unconsumed_tail or file.read(1 << 16)):
            size += len(stream.decompress(piece, 1 << 20))
    return size


def _read_dicom_size(path: Path) -> tuple[int, int]:
    dataset = _read_dataset(path, stop_before_pixels=True, specific_tags=["Columns", "Rows"])
    size = int(dataset.Columns), int(dataset.Rows)
    _check_size(*size)
    return size


def _read_dicom(path: Path) -> Image.Image:
    """Read a single-frame DICOM as 8-bit L or RGB, displayed as its header asks (DICOM PS3.3 C.11 and C.7.6.3)."""
    from pydicom.pixels import apply_color_lut, pixel_array

    dataset = _read_dataset(path)
    if int(dataset.get("NumberOfFrames") or 1) > 1:
        problem = f"a DICOM of {dataset.NumberOfFrames} frames"
        raise _CannotOpenError(problem, "reference single-frame images: which frame a row means is not recorded")
    if int(dataset.BitsAllocated) > 16:
        problem = f"a DICOM of {dataset.BitsAllocated} bits a pixel"
        raise _CannotOpenError(problem, "radiographs have at most 16: check that the file is one")
    _check_size(int(dataset.Columns), int(dataset.Rows))
    _check_decoder(dataset)
    _check_compressed_data(dataset, path)
    stored = _drop_unused_bits(pixel_array(dataset), dataset)  # YBR colour is already converted to RGB
    if dataset.PhotometricInterpretation == "PALETTE COLOR":
        stored = apply_color_lut(stored, dataset)[..., :3]
    if stored.ndim == 3:
        return Image.fromarray(_map_levels(stored, lambda levels: _scale_to_unit(levels, _find_range(levels))))
    # Presentation LUT Shape INVERSE repeats MONOCHROME1, so it is not applied again.
    if dataset.PhotometricInterpretation == "MONOCHROME1":
        return Image.fromarray(_map_levels(stored, lambda levels: 1 - _compute_displayed_levels(levels, dataset)))
    return Image.fromarray(_map_levels(stored, lambda levels: _compute_displayed_levels(levels, dataset)))


def _drop_unused_bits(stored: np.ndarray, dataset: Dataset) -> np.ndarray:
    """Drop the bits above BitsStored, which are no part of a pixel (DICOM PS3.5 8.1.1): old files keep overlays there.

    pydicom does this for uncompressed pixels only.
    """
    n_bits = int(dataset.BitsStored)
    if n_bits >= int(dataset.BitsAllocated):
        return stored
    values = stored.astype(np.int32) & (2**n_bits - 1)
    sign = 2 ** (n_bits - 1) if dataset.PixelRepresentation else 0
    return (values ^ sign) - sign


def _check_decoder(dataset: Dataset) -> None:
    from pydicom.pixels import get_decoder

    syntax = dataset.file_meta.TransferSyntaxUID
    try:
        decoder = get_decoder(syntax)
    except NotImplementedError:
        problem = f"no decoder exists for transfer syntax {syntax.name}"
        raise _CannotOpenError(problem, "convert the file to Explicit VR Little Endian") from None
    if not decoder.is_available:
        needed = "; ".join(decoder.missing_dependencies)
        problem = f"compressed as {syntax.name}, and no decoder for that is installed ({needed})"
        raise _CannotOpenError(problem, "pip install pylibjpeg pylibjpeg-libjpeg pylibjpeg-openjpeg")


def _check_compressed_data(dataset: Dataset, path: Path) -> None:
    """Check the size or scans of the compressed data: JPEG 2000 has a size of its own, which its decoder obeys."""
    from pydicom.encaps import get_frame
    from pydicom.uid import JPEG2000TransferSyntaxes, JPEGTransferSyntaxes

    syntax = dataset.file_meta.TransferSyntaxUID
    if syntax in JPEG2000TransferSyntaxes:
        frame = get_frame(dataset.PixelData, 0, number_of_frames=1)
        with Image.open(BytesIO(frame), formats=("JPEG2000",)) as image:
            _check_size(*image.size)
    elif syntax in JPEGTransferSyntaxes:
        _check_scans(path)


def _map_levels(stored: np.ndarray, display: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """Apply `display` (integer grey levels -> 0..1) to stored pixels of at most 16 bits; return uint8 of that shape.

    Each step from stored to displayed value depends on one pixel only. It is computed once a level, not once a pixel,
    so a 20-megapixel radiograph needs no float copies of itself.
    """
    lowest, highest = int(stored.min()), int(stored.max())
    table = np.rint(np.clip(display(np.arange(lowest, highest + 1)), 0, 1) * 255).astype(np.uint8)
    return table[stored.astype(np.int32) - lowest]


def _compute_displayed_levels(levels: np.ndarray, dataset: Dataset) -> np.ndarray:
    """Map stored grey levels to 0..1: modality rescale, then VOI LUT, else window, else the range of the values.

    If the header offers several windows or tables, the first one counts, and a table takes precedence over a window.
    """
    from pydicom.pixels import apply_rescale, apply_windowing

    by_table = bool(dataset.get("ModalityLUTSequence"))
    values = _map_by_table(levels, dataset, "ModalityLUTSequence") if by_table else apply_rescale(levels, dataset)
    if dataset.get("VOILUTSequence"):
        bits = int(dataset.VOILUTSequence[0].LUTDescriptor[2])
        return _scale_to_unit(_map_by_table(values, dataset, "VOILUTSequence"), (0, 2**bits - 1))
    if _has_window(dataset):
        # The units of the library's window depend on the header; they follow from its two ends.
        low, high = apply_windowing(np.array([-np.inf, np.inf]), dataset)
        return _scale_to_unit(apply_windowing(values, dataset), (low, high))
    if by_table:
        return _scale_to_unit(values, _find_range(values))
    low, high = sorted(apply_rescale(np.array(_find_range(levels)), dataset))
    return _scale_to_unit(values, (low, high))


def _has_window(dataset: Dataset) -> bool:
    """Return whether the header has a window. A width below the smallest of the standard (C.11.2.1) is no window."""
    from pydicom.multival import MultiValue

    center, width = dataset.get("WindowCenter"), dataset.get("WindowWidth")
    if center is None or width is None:
        return False
    first_width = width[0] if isinstance(width, MultiValue) else width
    return first_width >= 1 or (first_width > 0 and dataset.get("VOILUTFunction", "LINEAR") != "LINEAR")


def _map_by_table(values: np.ndarray, dataset: Dataset, sequence: str) -> np.ndarray:
    """Map values by the first table of a Modality or VOI LUT sequence (DICOM PS3.3 C.11.1.1, C.11.2.1.1), as int64.

    pydicom 3.0 computes indices of a VOI LUT in the type of its entries (an 8-bit table of 4,096 entries would wrap
    around), and accepts a Modality LUT of 8 or 16 bits only.
    """
    lut = dataset[sequence].value[0]
    n_entries, lowest_value = (int(value) for value in lut.LUTDescriptor[:2])
    n_entries = n_entries or 2**16  # 0 means 65,536, which the field cannot hold
    entries = lut.LUTData
    if isinstance(entries, bytes):
        byte_order = "<" if dataset.file_meta.TransferSyntaxUID.is_little_endian else ">"
        entries = np.frombuffer(entries, dtype=f"{byte_order}u{1 if len(entries) < 2 * n_entries else 2}")
    table = np.asarray(entries, dtype=np.int64)[:n_entries]
    if len(table) < n_entries:
        raise ValueError(f"a table of {len(table)} entries where its descriptor says {n_entries}")
    return table[np.clip(np.rint(values).astype(np.int64) - lowest_value, 0, n_entries - 1)]


def _find_range(values: np.ndarray) -> tuple[int, int]:
    """Find the range of values of unknown depth, by the module's rule; it is signed only if a value is negative."""
    lowest, highest = int(values.min()), int(values.max())
    if lowest >= 0:
        return 0, 2 ** max(8, highest.bit_length()) - 1
    bits = max(7, highest.bit_length(), (-lowest - 1).bit_length())
    return -(2**bits), 2**bits - 1


def _scale_to_unit(values: np.ndarray, span: tuple[float, float]) -> np.ndarray:
    low, high = span
    if low == high:
        raise ValueError(f"the levels from {low} to {high} are one")
    return (values - low) / (high - low)
