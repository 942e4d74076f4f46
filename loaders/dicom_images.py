"""Single-frame DICOM files as 8-bit images. `images` opens all formats."""

from __future__ import annotations

import zlib
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image

from . import limits
from .image_pixels import CannotOpenError, check_scans, check_size, find_range, map_levels, scale_to_unit

if TYPE_CHECKING:
    from pydicom import Dataset

DICOM_MAGIC = slice(128, 132)


def _read_dataset(path: Path, **options: Any) -> Dataset:
    """Read a DICOM file; `options` are those of `pydicom.dcmread`, which can stop after the header.

    A file that is larger than an image can be, also after it is inflated, is refused first: pydicom would inflate all
    of a deflated file, even for its header.
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
        raise CannotOpenError(f"a DICOM of more than {limit:,} bytes", "no radiograph is that large: check the file")
    return pydicom.dcmread(path, **options)


def _count_unpacked_bytes(path: Path, start: int, limit: int) -> int:
    """Count the bytes of the deflated data from `start` on; the count ends soon after `limit`."""
    size, stream = 0, zlib.decompressobj(-zlib.MAX_WBITS)
    with path.open("rb") as file:
        file.seek(start)
        while size <= limit and (piece := stream.unconsumed_tail or file.read(1 << 16)):
            size += len(stream.decompress(piece, 1 << 20))
    return size


def read_dicom_size(path: Path) -> tuple[int, int]:
    """Read the size from the header.

    Args:
        path: The file.

    Returns:
        Width and height in pixels.

    Raises:
        CannotOpenError: The file has too many pixels, none, or several frames.
    """
    dataset = _read_dataset(path, stop_before_pixels=True, specific_tags=["Columns", "NumberOfFrames", "Rows"])
    _require_single_frame(dataset)
    if "Columns" not in dataset or "Rows" not in dataset:
        action = "name an image, not a report or an annotation; or download the file again"
        raise CannotOpenError("a DICOM without an image, or truncated", action)
    size = int(dataset.Columns), int(dataset.Rows)
    check_size(*size)
    return size


def read_dicom(path: Path) -> Image.Image:
    """Read a single-frame DICOM, displayed as its header asks (DICOM PS3.3 C.11 and C.7.6.3).

    Args:
        path: The file.

    Returns:
        The image, 8-bit L or RGB.

    Raises:
        CannotOpenError: The file has several frames, too many pixels or bits, or needs a decoder that is missing.
            Damaged files raise whatever pydicom raises.
    """
    from pydicom.pixels import apply_color_lut, pixel_array

    dataset = _read_dataset(path)
    _require_single_frame(dataset)
    if int(dataset.BitsAllocated) > 16:
        problem = f"a DICOM of {dataset.BitsAllocated} bits a pixel"
        raise CannotOpenError(problem, "radiographs have at most 16: check that the file is one")
    check_size(int(dataset.Columns), int(dataset.Rows))
    _check_decoder(dataset)
    _check_compressed_data(dataset, path)
    stored = _drop_unused_bits(pixel_array(dataset), dataset)  # YBR colour is already converted to RGB
    if dataset.PhotometricInterpretation == "PALETTE COLOR":
        stored = apply_color_lut(stored, dataset)[..., :3]
    if stored.ndim == 3:
        return Image.fromarray(map_levels(stored, lambda levels: scale_to_unit(levels, find_range(levels))))
    # Presentation LUT Shape INVERSE repeats MONOCHROME1, so it is not applied again.
    if dataset.PhotometricInterpretation == "MONOCHROME1":
        return Image.fromarray(map_levels(stored, lambda levels: 1 - _compute_displayed_levels(levels, dataset)))
    return Image.fromarray(map_levels(stored, lambda levels: _compute_displayed_levels(levels, dataset)))


def _require_single_frame(dataset: Dataset) -> None:
    if int(dataset.get("NumberOfFrames") or 1) > 1:
        problem = f"a DICOM of {dataset.NumberOfFrames} frames"
        raise CannotOpenError(problem, "reference single-frame images: which frame a row means is not recorded")


def _drop_unused_bits(stored: np.ndarray, dataset: Dataset) -> np.ndarray:
    """Drop the bits above BitsStored, and extend the sign of signed pixels (PixelRepresentation) over them.

    These bits are no part of a pixel (DICOM PS3.5 8.1.1): old files keep overlays there. pydicom does this for
    uncompressed pixels only.
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
        raise CannotOpenError(problem, "convert the file to Explicit VR Little Endian") from None
    if not decoder.is_available:
        needed = "; ".join(decoder.missing_dependencies)
        problem = f"compressed as {syntax.name}, and no decoder for that is installed ({needed})"
        raise CannotOpenError(problem, "pip install pylibjpeg pylibjpeg-libjpeg pylibjpeg-openjpeg")


def _check_compressed_data(dataset: Dataset, path: Path) -> None:
    """Check the limits of compressed pixels: the size that a JPEG 2000 states, or the number of a JPEG's scans.

    The decoder of JPEG 2000 obeys this size, whatever the DICOM header says.
    """
    from pydicom.encaps import get_frame
    from pydicom.uid import JPEG2000TransferSyntaxes, JPEGTransferSyntaxes

    syntax = dataset.file_meta.TransferSyntaxUID
    if syntax in JPEG2000TransferSyntaxes:
        frame = get_frame(dataset.PixelData, 0, number_of_frames=1)
        with Image.open(BytesIO(frame), formats=("JPEG2000",)) as image:
            check_size(*image.size)
    elif syntax in JPEGTransferSyntaxes:
        check_scans(path)


def _compute_displayed_levels(levels: np.ndarray, dataset: Dataset) -> np.ndarray:
    """Map stored grey levels to 0..1: modality rescale, then VOI LUT, else window, else the range of the values.

    If the header offers several windows or tables, the first one counts, and a table takes precedence over a window.
    """
    from pydicom.pixels import apply_rescale, apply_windowing

    by_table = bool(dataset.get("ModalityLUTSequence"))
    values = _map_by_table(levels, dataset, "ModalityLUTSequence") if by_table else apply_rescale(levels, dataset)
    if dataset.get("VOILUTSequence"):
        bits = int(dataset.VOILUTSequence[0].LUTDescriptor[2])
        return scale_to_unit(_map_by_table(values, dataset, "VOILUTSequence"), (0, 2**bits - 1))
    if _has_window(dataset):
        # The units of the library's window depend on the header; they follow from its two ends.
        low, high = apply_windowing(np.array([-np.inf, np.inf]), dataset)
        return scale_to_unit(apply_windowing(values, dataset), (low, high))
    if by_table:
        return scale_to_unit(values, find_range(values))
    low, high = sorted(apply_rescale(np.array(find_range(levels)), dataset))
    return scale_to_unit(values, (low, high))


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
