"""DICOM images: real files written by pydicom, compared with an independent numpy implementation."""

from io import BytesIO
from typing import Any

import numpy as np
import pytest
from PIL import Image
from pydicom.dataset import Dataset
from pydicom.encaps import encapsulate
from pydicom.pixels import apply_voi, get_decoder
from pydicom.uid import (
    MPEG2MPML,
    ExplicitVRBigEndian,
    ExplicitVRLittleEndian,
    JPEG2000Lossless,
    JPEGBaseline8Bit,
    JPEGLSLossless,
    RLELossless,
)

from medfaith.loaders.errors import ImageError
from tests.support.loaders.image_files import RAMP_8, RAMP_12, get_grey, open_key, scale_to_grey, write_dicom


def make_lookup_table(entries, first_value, bits, *, as_bytes=""):
    """Build a sequence of one lookup table, with entries as numbers or as bytes of the type `as_bytes`."""
    item = Dataset()
    item.add_new("LUTDescriptor", "US", [len(entries) % 2**16, first_value, bits])
    entries = np.asarray(entries)
    item.add_new(
        "LUTData", "OW" if as_bytes else "US", entries.astype(as_bytes).tobytes() if as_bytes else entries.tolist()
    )
    return [item]


def apply_window(values, centre, width):
    """Apply the window function of DICOM PS3.3 C.11.2.1.2.1 with the output range 0..255."""
    return np.rint(np.clip((np.asarray(values, float) - (centre - 0.5)) / (width - 1) + 0.5, 0, 1) * 255)


SIGNED = RAMP_12.astype(np.int16) - 2048
WIDE, PLAIN, NEGATIVE = (
    RAMP_12.astype(float),
    scale_to_grey(RAMP_12, 0, 4095),
    {"RescaleSlope": -1, "RescaleIntercept": 4095},
)
WINDOW = {"bits": 12, "WindowCenter": 1500, "WindowWidth": 800}
INVERSE = {"photometric": "MONOCHROME1", "PresentationLUTShape": "INVERSE"}
SHIFTED = {"RescaleSlope": 2, "RescaleIntercept": -1024, "WindowCenter": 40, "WindowWidth": 400}
SIGMOID = np.rint(255 / (1 + np.exp(-4 * (WIDE - 1500) / 800)))
GREY = {
    "8-bit": (RAMP_8, {}, RAMP_8),
    "8-bit MONOCHROME1": (RAMP_8, {"photometric": "MONOCHROME1"}, 255 - RAMP_8.astype(int)),
    "12-bit": (RAMP_12, {"bits": 12}, PLAIN),
    "12 bits declared as 16": (RAMP_12, {"bits": 16}, PLAIN),
    "16-bit": (RAMP_12 * 16, {"bits": 16}, scale_to_grey(WIDE * 16, 0, 65535)),
    "big endian": (RAMP_12, {"syntax": ExplicitVRBigEndian, "bits": 12}, PLAIN),
    "signed": (SIGNED, {"bits": 12}, scale_to_grey(SIGNED, -2048, 2047)),
    "signed, all positive": (SIGNED // 2 + 1024, {"bits": 16}, scale_to_grey(SIGNED // 2 + 1024, 0, 2047)),
    "INVERSE shape of MONOCHROME1 inverts once": (RAMP_12, {"bits": 12} | INVERSE, scale_to_grey(4095 - WIDE, 0, 4095)),
    "window": (RAMP_12, WINDOW, apply_window(RAMP_12, 1500, 800)),
    "window, MONOCHROME1": (RAMP_12, WINDOW | {"photometric": "MONOCHROME1"}, 255 - apply_window(RAMP_12, 1500, 800)),
    "the first of two windows": (
        RAMP_12, {"bits": 12, "WindowCenter": [1500, 9], "WindowWidth": [800, 9]}, apply_window(RAMP_12, 1500, 800)
    ),
    "exact window": (RAMP_12, WINDOW | {"VOILUTFunction": "LINEAR_EXACT"}, scale_to_grey(RAMP_12, 1100, 1900)),
    "sigmoid window": (RAMP_12, WINDOW | {"VOILUTFunction": "SIGMOID"}, SIGMOID),
    "rescale, then window": (RAMP_12, {"bits": 12} | SHIFTED, apply_window(WIDE * 2 - 1024, 40, 400)),
    "negative slope, then window": (RAMP_12, WINDOW | NEGATIVE, apply_window(4095 - WIDE, 1500, 800)),
    "rescale alone changes no contrast": (RAMP_12, {"bits": 12, "RescaleSlope": 0.5, "RescaleIntercept": -100}, PLAIN),
    "negative slope alone": (RAMP_12, {"bits": 12} | NEGATIVE, scale_to_grey(4095 - WIDE, 0, 4095)),
    "signed, window": (
        SIGNED, {"bits": 12, "WindowCenter": -200, "WindowWidth": 1000}, apply_window(SIGNED, -200, 1000)
    ),
    "a window of no width": (RAMP_12, {"bits": 12, "WindowCenter": 1500, "WindowWidth": 0}, PLAIN),
    "a sigmoid of no width": (RAMP_12, WINDOW | {"WindowWidth": 0, "VOILUTFunction": "SIGMOID"}, PLAIN),
    "empty": (RAMP_12, {"bits": 12, "WindowCenter": None, "WindowWidth": None}, PLAIN),
}  # fmt: skip


@pytest.mark.parametrize(("pixels", "elements", "expected"), GREY.values(), ids=GREY)
def test_dicom_grey(tmp_path, pixels, elements, expected):
    write_dicom(tmp_path / "a.dicom", pixels, **elements)
    difference = np.abs(get_grey(open_key(tmp_path, "a.dicom")) - expected)
    assert difference.max() <= 1  # the same value may round either way at .5
    assert (difference > 0).mean() < 0.02


ORDERS = {ExplicitVRLittleEndian: "<", ExplicitVRBigEndian: ">"}


@pytest.mark.parametrize(
    ("syntax", "as_bytes"),
    [(syntax, as_bytes) for syntax, order in ORDERS.items() for as_bytes in ("", f"{order}u2")],
)
@pytest.mark.filterwarnings("ignore:The value for the data element .0028,3006. exceeds the size of 64 kByte")
@pytest.mark.parametrize(
    ("count", "first_value", "bits"),
    [
        pytest.param(1401, 1745, 16, id="16-bit table over part of the range, as Open-i has them"),
        pytest.param(4096, 0, 12, id="12-bit table"),
        pytest.param(4096, 0, 8, id="8-bit table of 4096 entries"),
        pytest.param(2**16, 0, 16, id="65536 entries, written as 0"),
    ],
)
def test_dicom_voi_table(tmp_path, count, first_value, bits, syntax, as_bytes):
    entries = np.rint(np.sqrt(np.linspace(0, 1, count)) * (2**bits - 1)).astype(int)
    values = RAMP_12.astype(int)
    table = make_lookup_table(entries, first_value, bits, as_bytes=as_bytes)
    # The file has a window and a table: the table takes precedence.
    elements = {"VOILUTSequence": table, "WindowCenter": 10, "WindowWidth": 5, "photometric": "MONOCHROME1"}
    dataset = write_dicom(tmp_path / "a.dcm", RAMP_12, bits=12, syntax=syntax, **elements)
    display_values = entries[np.clip(values - first_value, 0, count - 1)]
    if bits > 8:  # pydicom's own table look-up is the oracle where its index type is wide enough
        np.testing.assert_array_equal(display_values, apply_voi(RAMP_12.astype(np.int32), dataset))
    difference = np.abs(get_grey(open_key(tmp_path, "a.dcm")) - np.rint(255 * (1 - display_values / (2**bits - 1))))
    assert difference.max() <= 1
    assert (difference > 0).mean() < 0.02


def test_dicom_modality_table(tmp_path):
    table = make_lookup_table(np.arange(4095, -1, -1), 0, 12)
    table[0].ModalityLUTType = "US"
    write_dicom(tmp_path / "a.dcm", RAMP_12, bits=12, ModalityLUTSequence=table)
    np.testing.assert_array_equal(
        get_grey(open_key(tmp_path, "a.dcm")), scale_to_grey(4095 - RAMP_12.astype(int), 0, 4095)
    )
    write_dicom(tmp_path / "b.dcm", RAMP_12, bits=12, ModalityLUTSequence=table, WindowCenter=1500, WindowWidth=800)
    difference = get_grey(open_key(tmp_path, "b.dcm")) - apply_window(4095.0 - RAMP_12, 1500, 800)
    assert np.abs(difference).max() <= 1


def test_dicom_colour(tmp_path):
    colour = np.stack([RAMP_8, RAMP_8.T, RAMP_8 // 2], axis=-1)
    write_dicom(tmp_path / "rgb.dcm", colour, photometric="RGB")
    np.testing.assert_array_equal(np.asarray(open_key(tmp_path, "rgb.dcm")), colour)
    as_ybr = np.asarray(Image.fromarray(colour).convert("YCbCr"))
    write_dicom(tmp_path / "ybr.dcm", as_ybr, photometric="YBR_FULL")
    assert np.abs(np.asarray(open_key(tmp_path, "ybr.dcm")).astype(int) - colour).max() <= 3


def test_dicom_palette(tmp_path):
    tables: dict[str, Any] = {}
    for name, factor in (("Red", 1), ("Green", 0.5), ("Blue", 0)):
        tables[f"{name}PaletteColorLookupTableDescriptor"] = [256, 0, 16]
        entries = (np.arange(256) * 257 * factor).astype("<u2")
        tables[f"{name}PaletteColorLookupTableData"] = entries.tobytes()
    write_dicom(tmp_path / "a.dcm", RAMP_8, photometric="PALETTE COLOR", **tables)
    expected = np.stack([RAMP_8, np.rint(RAMP_8 * 0.5), RAMP_8 * 0], axis=-1)
    assert np.abs(np.asarray(open_key(tmp_path, "a.dcm")).astype(int) - expected).max() <= 1


def write_compressed(path, syntax, data):
    """Write RAMP_8 as a DICOM file of another transfer syntax, with `data` as encoded pixels."""
    dataset = write_dicom(path, RAMP_8)
    dataset.file_meta.TransferSyntaxUID = syntax
    dataset.PixelData = encapsulate([data])
    dataset["PixelData"].is_undefined_length = True
    dataset.save_as(path, enforce_file_format=True)


def test_dicom_compressed(tmp_path):
    dataset = write_dicom(tmp_path / "a.dcm", RAMP_8)
    dataset.compress(RLELossless)
    dataset.save_as(tmp_path / "a.dcm", enforce_file_format=True)
    np.testing.assert_array_equal(get_grey(open_key(tmp_path, "a.dcm")), RAMP_8)
    Image.fromarray(RAMP_8).save(tmp_path / "a.jpg", quality=100)
    write_compressed(tmp_path / "b.dcm", JPEGBaseline8Bit, (tmp_path / "a.jpg").read_bytes())
    assert np.abs(get_grey(open_key(tmp_path, "b.dcm")) - RAMP_8).max() <= 3


OVERLAY = np.where(np.indices(RAMP_12.shape).sum(axis=0) % 3 == 0, -(2**15), 0).astype(np.int16)


@pytest.mark.parametrize(
    ("pixels", "syntax"),
    [(RAMP_12, ExplicitVRLittleEndian), (SIGNED, ExplicitVRLittleEndian), (RAMP_12, RLELossless),
     (SIGNED, RLELossless), (RAMP_12, JPEG2000Lossless)],
    ids=["unsigned", "signed", "unsigned RLE", "signed RLE", "JPEG 2000"],
)  # fmt: skip
def test_bits_above_the_stored_ones_are_no_part_of_a_pixel(tmp_path, pixels, syntax):
    """Old files keep an overlay in the highest bits; PS3.5 8.1.1 says that they do not count."""
    with_overlay = (pixels.view(np.int16) ^ OVERLAY).view(pixels.dtype)
    for name, values in (("a.dcm", pixels), ("b.dcm", with_overlay)):
        dataset = write_dicom(tmp_path / name, values, bits=16)  # so that the highest bits are compressed, too
        if syntax == RLELossless:
            dataset.compress(syntax)
        elif syntax == JPEG2000Lossless:
            Image.fromarray(values).save(code := BytesIO(), "JPEG2000", irreversible=False, no_jp2=True)
            dataset.file_meta.TransferSyntaxUID, dataset.PixelData = syntax, encapsulate([code.getvalue()])
            dataset["PixelData"].is_undefined_length = True
        dataset.BitsStored, dataset.HighBit = 12, 11
        dataset.save_as(tmp_path / name, enforce_file_format=True)
    expected, actual = (get_grey(open_key(tmp_path, name)) for name in ("a.dcm", "b.dcm"))
    np.testing.assert_array_equal(actual, expected)


def test_a_missing_decoder_is_named(tmp_path):
    if get_decoder(JPEGLSLossless).is_available:
        pytest.skip("a JPEG-LS decoder is installed here")
    write_compressed(tmp_path / "a.dcm", JPEGLSLossless, b"\xff\xd8")
    with pytest.raises(ImageError, match=r"(?s)'a\.dcm'.*JPEG-LS.*no decoder.*pip install pylibjpeg"):
        open_key(tmp_path, "a.dcm")


def write_short_table(path):
    (table,) = make_lookup_table(np.arange(10), 0, 12)
    table.LUTDescriptor = [4096, 0, 12]
    write_dicom(path, RAMP_12, bits=12, VOILUTSequence=[table])


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (write_short_table, r"'a\.dcm'.*a table of 10 entries where its descriptor says 4096"),
        (lambda path: write_compressed(path, MPEG2MPML, b"\0\0"), "no decoder exists for transfer syntax MPEG2"),
        (lambda path: write_dicom(path, np.stack([RAMP_8] * 2), NumberOfFrames=2), "a DICOM of 2 frames"),
        (lambda path: write_dicom(path, RAMP_12.astype(np.uint32)), "32 bits"),
    ],
    ids=["short table", "video", "several frames", "32 bits"],
)
def test_a_dicom_of_another_kind_is_refused(tmp_path, write, message):
    write(tmp_path / "a.dcm")
    with pytest.raises(ImageError, match=message):
        open_key(tmp_path, "a.dcm")
