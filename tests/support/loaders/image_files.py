"""Grey ramps, DICOM files of them, and helpers that open an image by its key."""

import numpy as np
import pydicom
from pydicom.dataset import FileDataset, FileMetaDataset
from pydicom.uid import (
    DigitalXRayImageStorageForPresentation,
    ExplicitVRBigEndian,
    ExplicitVRLittleEndian,
    generate_uid,
)

from medfaith.loaders import images

SOURCE = "chest_imagenome"  # its reader uses a key unchanged: a path below the root
RAMP_8 = np.arange(256, dtype=np.uint8).reshape(16, 16)
RAMP_12 = np.linspace(0, 4095, 24 * 20).round().astype(np.uint16).reshape(24, 20)


def open_key(root, key, source=SOURCE):
    return images.open_image({"source": source, "key": key, "view": "frontal"}, {source: root})


def get_grey(image):
    """Return the grey values of an RGB image; its channels must be equal."""
    assert image.mode == "RGB"
    pixels = np.asarray(image).astype(int)
    assert (pixels[..., 0] == pixels[..., 1]).all()
    assert (pixels[..., 0] == pixels[..., 2]).all()
    return pixels[..., 0]


def write_dicom(path, pixels, *, bits=None, photometric="MONOCHROME2", syntax=ExplicitVRLittleEndian, **elements):
    """Write a DICOM file like that of a digital X-ray system; `elements` are added by keyword."""
    meta = FileMetaDataset()
    meta.MediaStorageSOPClassUID = DigitalXRayImageStorageForPresentation
    meta.MediaStorageSOPInstanceUID = generate_uid()
    meta.TransferSyntaxUID = syntax
    dataset = FileDataset(
        str(path), {}, file_meta=meta, preamble=b"\0" * 128, is_little_endian=syntax != ExplicitVRBigEndian
    )
    dataset.SOPClassUID, dataset.SOPInstanceUID = meta.MediaStorageSOPClassUID, meta.MediaStorageSOPInstanceUID
    dataset.Modality, dataset.PatientName = "DX", "Phantom"
    colour = photometric not in ("MONOCHROME1", "MONOCHROME2", "PALETTE COLOR")
    dataset.Rows, dataset.Columns = pixels.shape[-3:-1] if colour else pixels.shape[-2:]
    dataset.SamplesPerPixel = 3 if colour else 1
    if colour:
        dataset.PlanarConfiguration = 0
    dataset.PhotometricInterpretation = photometric
    dataset.BitsAllocated = pixels.dtype.itemsize * 8
    dataset.BitsStored = bits or dataset.BitsAllocated
    dataset.HighBit = dataset.BitsStored - 1
    dataset.PixelRepresentation = int(pixels.dtype.kind == "i")
    order = pixels.dtype.newbyteorder(">" if syntax == ExplicitVRBigEndian else "<")
    dataset.PixelData = pixels.astype(order).tobytes()
    dataset["PixelData"].VR = "OW" if dataset.BitsAllocated > 8 else "OB"
    for keyword, value in elements.items():
        setattr(dataset, keyword, value)
    pydicom.dcmwrite(path, dataset, enforce_file_format=True)
    return dataset


def scale_to_grey(values, low, high):
    return np.rint(np.clip((np.asarray(values, float) - low) / (high - low), 0, 1) * 255)
