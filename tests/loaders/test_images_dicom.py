"""Opening DICOM: real files, written here by pydicom, against formulas worked out again in numpy."""

import numpy as np
import pytest
from PIL import Image
from pydicom.dataset import Dataset
from pydicom.encaps import encapsulate
from pydicom.pixels import apply_voi, get_decoder  # pyright: ignore[reportPrivateImportUsage]
from pydicom.uid import (
    MPEG2MPML,
    ExplicitVRBigEndian,
    ExplicitVRLittleEndian,
    JPEGBaseline8Bit,
    JPEGLSLossless,
    RLELossless,
)

from medfaith.loaders.errors import ImageError
from tests.loaders.image_files import RAMP_8, RAMP_12, grey_of, open_key, scaled, write_dicom


def lookup_table(entries, first, bits, *, as_bytes=""):
    """A sequence of one table, its entries as numbers, or as bytes of the type `as_bytes`."""
    item = Dataset()
    item.add_new("LUTDescriptor", "US", [len(entries) % 2**16, first, bits])
    entries = np.asarray(entries)
    item.add_new(
        "LUTData", "OW" if as_bytes else "US", entries.astype(as_bytes).tobytes() if as_bytes else entries.tolist()
    )
    return [item]


def window(values, centre, width):
    """DICOM PS3.3 C.11.2.1.2.1, with the output range 0..255."""
    return np.rint(np.clip((np.asarray(values, float) - (centre - 0.5)) / (width - 1) + 0.5, 0, 1) * 255)


SIGNED = RAMP_12.astype(np.int16) - 2048


@pytest.mark.parametrize(
    ("pixels", "elements", "expected"),
    [
        pytest.param(RAMP_8, {}, RAMP_8, id="8-bit"),
        pytest.param(RAMP_8, {"photometric": "MONOCHROME1"}, 255 - RAMP_8.astype(int), id="8-bit MONOCHROME1"),
        pytest.param(RAMP_12, {"bits": 12}, scaled(RAMP_12, 0, 4095), id="12-bit"),
        pytest.param(RAMP_12, {"bits": 16}, scaled(RAMP_12, 0, 4095), id="12 bits declared as 16"),
        pytest.param(RAMP_12 * 16, {"bits": 16}, scaled(RAMP_12 * 16.0, 0, 65535), id="16-bit"),
        pytest.param(RAMP_12, {"syntax": ExplicitVRBigEndian, "bits": 12}, scaled(RAMP_12, 0, 4095), id="big endian"),
        pytest.param(SIGNED, {"bits": 12}, scaled(SIGNED, -2048, 2047), id="signed"),
        pytest.param(SIGNED // 2 + 1024, {"bits": 16}, scaled(SIGNED // 2 + 1024, 0, 2047), id="signed, all positive"),
        pytest.param(
            RAMP_12,
            {"bits": 12, "photometric": "MONOCHROME1", "PresentationLUTShape": "INVERSE"},
            scaled(4095 - RAMP_12.astype(int), 0, 4095),
            id="MONOCHROME1 with its INVERSE shape is inverted once",
        ),
        pytest.param(
            RAMP_12, {"bits": 12, "WindowCenter": 1500, "WindowWidth": 800}, window(RAMP_12, 1500, 800), id="window"
        ),
        pytest.param(
            RAMP_12,
            {"bits": 12, "photometric": "MONOCHROME1", "WindowCenter": 1500, "WindowWidth": 800},
            255 - window(RAMP_12, 1500, 800),
            id="window, MONOCHROME1",
        ),
        pytest.param(
            RAMP_12,
            {"bits": 12, "WindowCenter": [1500, 9], "WindowWidth": [800, 9]},
            window(RAMP_12, 1500, 800),
            id="the first of two windows",
        ),
        pytest.param(
            RAMP_12,
            {"bits": 12, "WindowCenter": 1500, "WindowWidth": 800, "VOILUTFunction": "LINEAR_EXACT"},
            scaled(RAMP_12, 1100, 1900),
            id="exact window",
        ),
        pytest.param(
            RAMP_12,
            {"bits": 12, "WindowCenter": 1500, "WindowWidth": 800, "VOILUTFunction": "SIGMOID"},
            np.rint(255 / (1 + np.exp(-4 * (RAMP_12.astype(float) - 1500) / 800))),
            id="sigmoid window",
        ),
        pytest.param(
            RAMP_12,
            {"bits": 12, "RescaleSlope": 2, "RescaleIntercept": -1024, "WindowCenter": 40, "WindowWidth": 400},
            window(RAMP_12 * 2.0 - 1024, 40, 400),
            id="rescale, then window",
        ),
        pytest.param(
            RAMP_12,
            {"bits": 12, "RescaleSlope": -1, "RescaleIntercept": 4095, "WindowCenter": 1500, "WindowWidth": 800},
            window(4095.0 - RAMP_12, 1500, 800),
            id="negative slope, then window",
        ),
        pytest.param(
            RAMP_12,
            {"bits": 12, "RescaleSlope": 0.5, "RescaleIntercept": -100},
            scaled(RAMP_12, 0, 4095),
            id="rescale alone changes no contrast",
        ),
        pytest.param(
            RAMP_12,
            {"bits": 12, "RescaleSlope": -1, "RescaleIntercept": 4095},
            scaled(4095.0 - RAMP_12, 0, 4095),
            id="negative slope alone",
        ),
        pytest.param(
            SIGNED,
            {"bits": 12, "WindowCenter": -200, "WindowWidth": 1000},
            window(SIGNED, -200, 1000),
            id="signed, window",
        ),
        pytest.param(
            RAMP_12, {"bits": 12, "WindowCenter": None, "WindowWidth": None}, scaled(RAMP_12, 0, 4095), id="empty"
        ),
    ],
)
def test_dicom_grey(tmp_path, pixels, elements, expected):
    write_dicom(tmp_path / "a.dicom", pixels, **elements)
    difference = np.abs(grey_of(open_key(tmp_path, "a.dicom")) - expected)
    assert difference.max() <= 1  # the same value may round either way at .5
    assert (difference > 0).mean() < 0.02


@pytest.mark.parametrize(
    ("syntax", "as_bytes"),
    [
        (ExplicitVRLittleEndian, ""),
        (ExplicitVRLittleEndian, "<u2"),
        (ExplicitVRBigEndian, ""),
        (ExplicitVRBigEndian, ">u2"),
    ],
)
@pytest.mark.filterwarnings("ignore:The value for the data element .0028,3006. exceeds the size of 64 kByte")
@pytest.mark.parametrize(
    ("count", "first", "bits"),
    [
        pytest.param(1401, 1745, 16, id="16-bit table over part of the range, as Open-i has them"),
        pytest.param(4096, 0, 12, id="12-bit table"),
        pytest.param(4096, 0, 8, id="8-bit table of 4096 entries"),
        pytest.param(2**16, 0, 16, id="65536 entries, written as 0"),
    ],
)
def test_dicom_voi_table(tmp_path, count, first, bits, syntax, as_bytes):
    entries = np.rint(np.sqrt(np.linspace(0, 1, count)) * (2**bits - 1)).astype(int)
    values = RAMP_12.astype(int)
    table = lookup_table(entries, first, bits, as_bytes=as_bytes)
    # A window stands beside the table: the table counts.
    dataset = write_dicom(
        tmp_path / "a.dcm",
        RAMP_12,
        bits=12,
        syntax=syntax,
        VOILUTSequence=table,
        WindowCenter=10,
        WindowWidth=5,
        photometric="MONOCHROME1",
    )
    shown = entries[np.clip(values - first, 0, count - 1)]
    if bits > 8:  # pydicom's own table look-up is the oracle where its index type is wide enough
        np.testing.assert_array_equal(shown, apply_voi(RAMP_12.astype(np.int32), dataset))
    difference = np.abs(grey_of(open_key(tmp_path, "a.dcm")) - np.rint(255 * (1 - shown / (2**bits - 1))))
    assert difference.max() <= 1
    assert (difference > 0).mean() < 0.02


def test_dicom_modality_table(tmp_path):
    table = lookup_table(np.arange(4095, -1, -1), 0, 12)
    table[0].ModalityLUTType = "US"
    write_dicom(tmp_path / "a.dcm", RAMP_12, bits=12, ModalityLUTSequence=table)
    np.testing.assert_array_equal(grey_of(open_key(tmp_path, "a.dcm")), scaled(4095 - RAMP_12.astype(int), 0, 4095))
    write_dicom(tmp_path / "b.dcm", RAMP_12, bits=12, ModalityLUTSequence=table, WindowCenter=1500, WindowWidth=800)
    difference = grey_of(open_key(tmp_path, "b.dcm")) - window(4095.0 - RAMP_12, 1500, 800)
    assert np.abs(difference).max() <= 1


def test_dicom_colour(tmp_path):
    colour = np.stack([RAMP_8, RAMP_8.T, RAMP_8 // 2], axis=-1)
    write_dicom(tmp_path / "rgb.dcm", colour, photometric="RGB")
    np.testing.assert_array_equal(np.asarray(open_key(tmp_path, "rgb.dcm")), colour)
    as_ybr = np.asarray(Image.fromarray(colour).convert("YCbCr"))
    write_dicom(tmp_path / "ybr.dcm", as_ybr, photometric="YBR_FULL")
    assert np.abs(np.asarray(open_key(tmp_path, "ybr.dcm")).astype(int) - colour).max() <= 3


def test_dicom_palette(tmp_path):
    tables = {}
    for name, factor in (("Red", 1), ("Green", 0.5), ("Blue", 0)):
        tables[f"{name}PaletteColorLookupTableDescriptor"] = [256, 0, 16]
        entries = (np.arange(256) * 257 * factor).astype("<u2")
        tables[f"{name}PaletteColorLookupTableData"] = entries.tobytes()
    write_dicom(tmp_path / "a.dcm", RAMP_8, photometric="PALETTE COLOR", **tables)
    expected = np.stack([RAMP_8, np.rint(RAMP_8 * 0.5), RAMP_8 * 0], axis=-1)
    assert np.abs(np.asarray(open_key(tmp_path, "a.dcm")).astype(int) - expected).max() <= 1


@pytest.mark.parametrize("syntax", [RLELossless, JPEGBaseline8Bit])
def test_dicom_compressed(tmp_path, syntax):
    dataset = write_dicom(tmp_path / "a.dcm", RAMP_8)
    if syntax == RLELossless:
        dataset.compress(RLELossless)
    else:
        Image.fromarray(RAMP_8).save(tmp_path / "a.jpg", quality=100)
        dataset.file_meta.TransferSyntaxUID = syntax
        dataset.PixelData = encapsulate([(tmp_path / "a.jpg").read_bytes()])
        dataset["PixelData"].is_undefined_length = True
    dataset.save_as(tmp_path / "a.dcm", enforce_file_format=True)
    assert np.abs(grey_of(open_key(tmp_path, "a.dcm")) - RAMP_8).max() <= (0 if syntax == RLELossless else 3)


def test_a_missing_decoder_is_named(tmp_path):
    if get_decoder(JPEGLSLossless).is_available:
        pytest.skip("a JPEG-LS decoder is installed here")
    dataset = write_dicom(tmp_path / "a.dcm", RAMP_8)
    dataset.file_meta.TransferSyntaxUID = JPEGLSLossless
    dataset.PixelData = encapsulate([b"\xff\xd8"])
    dataset["PixelData"].is_undefined_length = True
    dataset.save_as(tmp_path / "a.dcm", enforce_file_format=True)
    with pytest.raises(ImageError, match=r"(?s)'a\.dcm'.*JPEG-LS.*no decoder.*pip install pylibjpeg"):
        open_key(tmp_path, "a.dcm")


def test_a_video_syntax_is_refused(tmp_path):
    dataset = write_dicom(tmp_path / "a.dcm", RAMP_8)
    dataset.file_meta.TransferSyntaxUID = MPEG2MPML
    dataset.PixelData = encapsulate([b"\0\0"])
    dataset["PixelData"].is_undefined_length = True
    dataset.save_as(tmp_path / "a.dcm", enforce_file_format=True)
    with pytest.raises(ImageError, match="no decoder exists for transfer syntax MPEG2"):
        open_key(tmp_path, "a.dcm")


def test_dicom_of_several_frames_is_refused(tmp_path):
    write_dicom(tmp_path / "a.dcm", np.stack([RAMP_8, RAMP_8]), NumberOfFrames=2)
    with pytest.raises(ImageError, match="a DICOM of 2 frames"):
        open_key(tmp_path, "a.dcm")


def test_dicom_of_32_bits_is_refused(tmp_path):
    write_dicom(tmp_path / "a.dcm", RAMP_12.astype(np.uint32))
    with pytest.raises(ImageError, match="32 bits"):
        open_key(tmp_path, "a.dcm")
