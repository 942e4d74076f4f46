"""Opens what an ImageRef points to: jpg, png, DICOM or a video's frame below a source's root, as 8-bit RGB.

Grey levels. Pixels of 8 bits are kept. Deeper ones (16-bit png, DICOM without a window) are taken to span
0 .. 2^k - 1 with the smallest k >= 8 that holds the image's largest value: radiographs of 10 to 15 bits are often
stored in a 16-bit container, and dividing by 65535 would show them almost black, while stretching each image from its
own minimum to its own maximum would hide how it was exposed. The scaling is linear and keeps the order of all pixels.

EXIF orientation is not applied: boxes and masks refer to the pixels as stored.

Frames. A source whose pictures are frames of videos has a reader with `split_key(key) -> (path, number) | None`,
`open_frame(path, number) -> RGB image` and `frame_size(path, number) -> (width, height)`, the last two raising
InputError; its `image_paths` answers with the video.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Mapping
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

DICOM_MAGIC = slice(128, 132)
Decoded = TypeVar("Decoded")
DOWNLOAD_AGAIN = "download the file again and compare its size or checksum with the source's"


def open_image(ref: Mapping[str, str], roots: Mapping[str, Path]) -> Image.Image:
    """The image of an ImageRef (`source`, `key`, `view`), mode RGB, fully loaded, its file closed.

    `roots` maps source ids to folders. Transparent pixels are laid over black, the background of a radiograph.
    Raises MissingSourceError where `roots` lacks the source, and ImageError, which names source and key, where the key
    leaves the root, the file is absent, truncated or corrupt, or a decoder is not installed.
    """
    return _decoded(ref, roots, _read_picture, _read_dicom, _read_frame).convert("RGB")


def image_size(ref: Mapping[str, str], roots: Mapping[str, Path]) -> tuple[int, int]:
    """(width, height) of an ImageRef's image from its header, without decoding a pixel. Raises as open_image does."""
    return _decoded(ref, roots, _size_of_picture, _size_of_dicom, _size_of_frame)


def _decoded(
    ref: Mapping[str, str],
    roots: Mapping[str, Path],
    picture: Callable[[Path], Decoded],
    dicom: Callable[[Path], Decoded],
    frame: Callable[[ModuleType, Path, int], Decoded],
) -> Decoded:
    """What one of three decoders makes of an ImageRef's file; every failure becomes an ImageError."""
    path = locate(ref, roots)
    try:
        if (of_video := _frame_of(ref)) is not None:
            reader, number = of_video
            return frame(reader, path, number)
        limits.require_file(path)
        with path.open("rb") as file:
            head = file.read(DICOM_MAGIC.stop)
        return dicom(path) if head[DICOM_MAGIC] == b"DICM" else picture(path)
    except MemoryError:
        raise
    except _CannotOpenError as error:
        raise _image_error(ref, f"{path}: {error}", error.action) from None
    except InputError as error:
        expected = f" (expected: {error.expected})" if error.expected else ""
        raise _image_error(ref, f"{error.where}: {error.found}{expected}", error.action) from None
    except MedfaithError as error:  # a library is not installed, and the message says which
        raise ImageError(f"image {ref['key']!r} of source {ref['source']!r}: {error}") from None
    except Exception as error:  # on corrupt files the decoders raise whatever their parsing stumbles over
        cause = f"{path} is truncated, corrupt or unreadable ({type(error).__name__}: {error})"
        raise _image_error(ref, cause, DOWNLOAD_AGAIN) from error


def locate(ref: Mapping[str, str], roots: Mapping[str, Path]) -> Path:
    """The file of an ImageRef, links resolved, without opening it: cheap enough to check every row of a table.

    The source's reader knows where a key may lie in each official layout (`image_paths`). The root itself may be a
    link, and links may point to elsewhere below it; a link that points outside the root is refused.
    Raises MissingSourceError or ImageError.
    """
    source, key = ref["source"], ref["key"]
    root = sources.root_of(source, roots)
    check_key(key, source)
    folder = (root if root.is_dir() else root.parent).resolve()  # a root may be the label file beside the images
    reader = sources.reader(source)
    candidates = reader.image_paths(key) if reader is not None else (key,)
    for candidate in candidates:
        try:
            path = (folder / candidate).resolve(strict=True)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except (OSError, RuntimeError) as error:  # no permission, a name too long, a loop of links
            raise _image_error(ref, f"{candidate} cannot be reached ({error})", f"check {folder}") from None
        if not path.is_relative_to(folder):
            raise _image_error(
                ref,
                f"{candidate} is a link that leaves the root {folder}",
                f"pass --root {source}=PATH with the real folder that holds the images",
            )
        if path.is_file():
            if not path.stat().st_size:
                raise _image_error(ref, f"{candidate} is empty", DOWNLOAD_AGAIN)
            return path
    raise _image_error(
        ref,
        f"no such file below {folder}; looked for {', '.join(candidates)}",
        f"complete the copy of the source, or correct --root {source}=PATH",
    )


def check_key(key: str, source: str = "") -> None:
    """Raises ImageError unless `key` is a plain POSIX path that stays below a root: `folder/name.jpg`."""
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
    raise _image_error(ref, f"the key {reason}", "build the rows again; a key is a path relative to the source's root")


def _is_utf8(key: str) -> bool:
    try:
        key.encode("utf-8")
    except UnicodeEncodeError:  # a lone surrogate, which JSON can carry
        return False
    return True


class _CannotOpenError(Exception):
    """A known reason why a file cannot be used, with what to do about it; open_image adds source and key."""

    def __init__(self, found: str, action: str) -> None:
        super().__init__(found)
        self.action = action


def _image_error(ref: Mapping[str, str], found: str, action: str) -> ImageError:
    return ImageError(f"image {ref['key']!r} of source {ref['source']!r}: {found}\n  what to do: {action}")


def _check_size(width: int, height: int) -> None:
    if width < 1 or height < 1:
        raise _CannotOpenError(f"{width} x {height} pixels", DOWNLOAD_AGAIN)
    if width * height > limits.IMAGE_PIXELS:
        limit = f"{limits.IMAGE_PIXELS // 10**6} megapixels"
        raise _CannotOpenError(
            f"{width} x {height} pixels, more than {limit}", "no radiograph is that large: check the file"
        )


def _open_picture(path: Path) -> Image.Image:
    """A jpg or png with its header read and its size checked."""
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


def _size_of_picture(path: Path) -> tuple[int, int]:
    with _open_picture(path) as image:
        return image.size


def _read_picture(path: Path) -> Image.Image:
    """A jpg or png as 8-bit L or RGB."""
    with _open_picture(path) as image:
        if image.format != "PNG":
            _check_scans(path)
        if image.mode.startswith("I"):  # 16-bit grey
            values = np.asarray(image)
            return Image.fromarray(_map_levels(values, lambda levels: _to_unit(levels, _range_used(levels))))
        if image.has_transparency_data:
            black = Image.new("RGBA", image.size, (0, 0, 0, 255))
            return Image.alpha_composite(black, image.convert("RGBA")).convert("RGB")
        return image.convert("RGB")


def _check_scans(path: Path) -> None:
    """Of a jpg, or of a DICOM with one inside. The mark of a scan stands in no compressed data."""
    with path.open("rb") as file:
        n_scans = sum(piece.count(b"\xff\xda") for piece in iter(lambda: file.read(1 << 20), b""))
    if n_scans > limits.JPEG_SCANS:
        found = f"a jpg of more than {limits.JPEG_SCANS} scans"
        raise _CannotOpenError(found, "no program writes so many: check the file")


def _frame_of(ref: Mapping[str, str]) -> tuple[ModuleType, int] | None:
    """The reader that opens an ImageRef's video, and the frame's number; None where the key is not of a frame."""
    reader = sources.reader(ref["source"])
    split_key = getattr(reader, "split_key", None)
    parts = split_key(ref["key"]) if split_key is not None else None
    return (reader, parts[1]) if reader is not None and parts is not None else None


def _read_frame(reader: ModuleType, path: Path, number: int) -> Image.Image:
    return reader.open_frame(path, number)


def _size_of_frame(reader: ModuleType, path: Path, number: int) -> tuple[int, int]:
    return reader.frame_size(path, number)


def _dataset(path: Path, **part: Any) -> Dataset:
    """What a DICOM file holds, or the part that pydicom is asked for. Files that unpack to more than an image are not
    read: pydicom would unpack a deflated one whole, also for its header.
    """
    import pydicom
    from pydicom.filereader import read_file_meta_info
    from pydicom.uid import DeflatedExplicitVRLittleEndian

    most = 4 * limits.IMAGE_PIXELS + (1 << 16)  # bytes: of grey of 16 bits, or of colour, and a header
    meta, size = read_file_meta_info(path), path.stat().st_size
    if meta.get("TransferSyntaxUID") == DeflatedExplicitVRLittleEndian:
        size = _unpacked_size(path, 144 + meta.FileMetaInformationGroupLength, most)  # behind DICM and the length
    if size > most:
        raise _CannotOpenError(f"a DICOM of more than {most:,} bytes", "no radiograph is that large: check the file")
    return pydicom.dcmread(path, **part)


def _unpacked_size(path: Path, start: int, most: int) -> int:
    """Of what is deflated in a file from `start` on, in bytes; counting ends soon after `most`."""
    size, stream = 0, zlib.decompressobj(-zlib.MAX_WBITS)
    with path.open("rb") as file:
        file.seek(start)
        while size <= most and (piece := stream.unconsumed_tail or file.read(1 << 16)):
            size += len(stream.decompress(piece, 1 << 20))
    return size


def _size_of_dicom(path: Path) -> tuple[int, int]:
    dataset = _dataset(path, stop_before_pixels=True, specific_tags=["Columns", "Rows"])
    size = int(dataset.Columns), int(dataset.Rows)
    _check_size(*size)
    return size


def _read_dicom(path: Path) -> Image.Image:
    """A single-frame DICOM image as 8-bit L or RGB, shown as its header asks (DICOM PS3.3 C.11 and C.7.6.3)."""
    from pydicom.pixels import apply_color_lut, pixel_array  # pyright: ignore[reportPrivateImportUsage]

    dataset = _dataset(path)
    if int(dataset.get("NumberOfFrames") or 1) > 1:
        found = f"a DICOM of {dataset.NumberOfFrames} frames"
        raise _CannotOpenError(found, "reference single-frame images: which frame a row means is not recorded")
    if int(dataset.BitsAllocated) > 16:
        found = f"a DICOM of {dataset.BitsAllocated} bits a pixel"
        raise _CannotOpenError(found, "radiographs have at most 16: check that the file is one")
    _check_size(int(dataset.Columns), int(dataset.Rows))
    _check_decoder(dataset)
    _check_inside(dataset, path)
    stored = pixel_array(dataset)  # YBR colour arrives here as RGB
    if dataset.PhotometricInterpretation == "PALETTE COLOR":
        stored = apply_color_lut(stored, dataset)[..., :3]
    if stored.ndim == 3:
        return Image.fromarray(_map_levels(stored, lambda levels: _to_unit(levels, _range_used(levels))))
    # Presentation LUT Shape INVERSE only says MONOCHROME1 once more, so it is not applied on top.
    if dataset.PhotometricInterpretation == "MONOCHROME1":
        return Image.fromarray(_map_levels(stored, lambda levels: 1 - _displayed(levels, dataset)))
    return Image.fromarray(_map_levels(stored, lambda levels: _displayed(levels, dataset)))


def _check_decoder(dataset: Dataset) -> None:
    from pydicom.pixels import get_decoder  # pyright: ignore[reportPrivateImportUsage]

    syntax = dataset.file_meta.TransferSyntaxUID
    try:
        decoder = get_decoder(syntax)
    except NotImplementedError:
        found = f"no decoder exists for transfer syntax {syntax.name}"
        raise _CannotOpenError(found, "convert the file to Explicit VR Little Endian") from None
    if not decoder.is_available:
        needed = "; ".join(decoder.missing_dependencies)
        found = f"compressed as {syntax.name}, and no decoder for that is installed ({needed})"
        raise _CannotOpenError(found, "pip install pylibjpeg pylibjpeg-libjpeg pylibjpeg-openjpeg")


def _check_inside(dataset: Dataset, path: Path) -> None:
    """What is compressed inside a DICOM has a size of its own, and the decoder of JPEG 2000 goes by that."""
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
    """Applies `display` (integer grey levels -> 0..1) to stored pixels of at most 16 bits; uint8 of the same shape.

    Every step from stored to displayed value looks at one pixel only, so it is worked out once a level, not once a
    pixel: a 20-megapixel radiograph takes no float copies of itself.
    """
    lowest, highest = int(stored.min()), int(stored.max())
    table = np.rint(np.clip(display(np.arange(lowest, highest + 1)), 0, 1) * 255).astype(np.uint8)
    return table[stored.astype(np.int32) - lowest]


def _displayed(levels: np.ndarray, dataset: Dataset) -> np.ndarray:
    """Stored grey levels -> 0..1: modality rescale, then VOI LUT, else window, else the range that the values use.

    Where the header offers several windows or tables the first one counts, and a table counts before a window.
    """
    from pydicom.pixels import apply_rescale, apply_windowing  # pyright: ignore[reportPrivateImportUsage]

    by_table = bool(dataset.get("ModalityLUTSequence"))
    values = _look_up(levels, dataset, "ModalityLUTSequence") if by_table else apply_rescale(levels, dataset)
    if dataset.get("VOILUTSequence"):
        bits = int(dataset.VOILUTSequence[0].LUTDescriptor[2])
        return _to_unit(_look_up(values, dataset, "VOILUTSequence"), (0, 2**bits - 1))
    if dataset.get("WindowCenter") is not None and dataset.get("WindowWidth") is not None:
        # The library returns the window in units that depend on the header; its two ends tell which.
        low, high = apply_windowing(np.array([-np.inf, np.inf]), dataset)
        return _to_unit(apply_windowing(values, dataset), (low, high))
    if by_table:
        return _to_unit(values, _range_used(values))
    low, high = sorted(apply_rescale(np.array(_range_used(levels)), dataset))
    return _to_unit(values, (low, high))


def _look_up(values: np.ndarray, dataset: Dataset, sequence: str) -> np.ndarray:
    """Values through the first table of a Modality or VOI LUT sequence (DICOM PS3.3 C.11.1.1, C.11.2.1.1), as int64.

    Done here because pydicom 3.0 computes indices of a VOI LUT in the type of its entries (an 8-bit table of 4,096
    entries would wrap around), and takes a Modality LUT of 8 or 16 bits only.
    """
    item = dataset[sequence].value[0]
    count, first = (int(value) for value in item.LUTDescriptor[:2])
    count = count or 2**16  # 0 stands for 65,536, which the field cannot hold
    entries = item.LUTData
    if isinstance(entries, bytes):
        order = "<" if dataset.file_meta.TransferSyntaxUID.is_little_endian else ">"
        entries = np.frombuffer(entries, dtype=f"{order}u{1 if len(entries) < 2 * count else 2}")
    table = np.asarray(entries, dtype=np.int64)[:count]
    if len(table) < count:
        raise ValueError(f"a table of {len(table)} entries where its descriptor says {count}")
    return table[np.clip(np.rint(values).astype(np.int64) - first, 0, count - 1)]


def _range_used(values: np.ndarray) -> tuple[int, int]:
    """The range that values of unknown true depth span, by the module's rule. A sign counts only where it is used."""
    lowest, highest = int(values.min()), int(values.max())
    if lowest >= 0:
        return 0, 2 ** max(8, highest.bit_length()) - 1
    bits = max(7, highest.bit_length(), (-lowest - 1).bit_length())
    return -(2**bits), 2**bits - 1


def _to_unit(values: np.ndarray, span: tuple[float, float]) -> np.ndarray:
    low, high = span
    if low == high:
        raise ValueError(f"the levels from {low} to {high} are one")
    return (values - low) / (high - low)
