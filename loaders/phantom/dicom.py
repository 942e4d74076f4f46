"""Grey DICOM files of the phantom radiographs: the same bytes for the same image, whenever they are written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np


def write(
    path: Path, stored: np.ndarray, image_id: str, *, modality: str, bits: int, inverted: bool, **elements: Any
) -> None:
    """Write a grey DICOM file.

    Args:
        path: The file.
        stored: Unsigned pixels of shape (h, w), of `bits` bits.
        image_id: The id that the UIDs depend on.
        modality: CR, or DX, which is deflated.
        bits: Bits a pixel.
        inverted: MONOCHROME1, where 0 is white.
        elements: Further elements by their DICOM keywords.
    """
    from pydicom import uid
    from pydicom.dataset import FileDataset, FileMetaDataset

    kinds = {
        "CR": (uid.ComputedRadiographyImageStorage, uid.ExplicitVRLittleEndian),
        "DX": (uid.DigitalXRayImageStorageForPresentation, uid.DeflatedExplicitVRLittleEndian),
    }
    meta = FileMetaDataset()
    meta.MediaStorageSOPClassUID, meta.TransferSyntaxUID = kinds[modality]
    meta.MediaStorageSOPInstanceUID = uid.generate_uid(entropy_srcs=["medfaith phantom", image_id])
    dataset = FileDataset(str(path), {}, file_meta=meta, preamble=b"\0" * 128)
    dataset.SOPClassUID, dataset.SOPInstanceUID = meta.MediaStorageSOPClassUID, meta.MediaStorageSOPInstanceUID
    dataset.Modality, dataset.PatientID, dataset.Manufacturer = modality, "phantom", "medfaith phantom"
    dataset.SamplesPerPixel, dataset.PhotometricInterpretation = 1, "MONOCHROME1" if inverted else "MONOCHROME2"
    dataset.Rows, dataset.Columns = stored.shape
    dataset.BitsAllocated, dataset.PixelRepresentation = 8 if bits == 8 else 16, 0
    dataset.BitsStored, dataset.HighBit = bits, bits - 1
    for keyword, value in elements.items():
        setattr(dataset, keyword, value)
    data = stored.astype("u1" if bits == 8 else "<u2").tobytes()
    dataset.PixelData = data + b"\0" * (len(data) % 2)
    dataset["PixelData"].VR = "OB" if bits == 8 else "OW"
    dataset.save_as(path, enforce_file_format=True)
