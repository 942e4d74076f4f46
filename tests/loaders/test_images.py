"""Opening images: real files, written here by Pillow and pydicom, against formulas worked out again in numpy."""

import re

import numpy as np
import pydicom
import pytest
from PIL import Image
from pydicom.dataset import Dataset, FileDataset, FileMetaDataset
from pydicom.encaps import encapsulate
from pydicom.pixels import apply_voi, get_decoder
from pydicom.uid import (
    MPEG2MPML,
    DigitalXRayImageStorageForPresentation,
    ExplicitVRBigEndian,
    ExplicitVRLittleEndian,
    JPEGBaseline8Bit,
    JPEGLSLossless,
    RLELossless,
    generate_uid,
)

from medfaith.loaders import images
from medfaith.loaders.errors import ImageError

SOURCE = "chest_imagenome"  # has no reader, so a key is a path below the root
RAMP_8 = np.arange(256, dtype=np.uint8).reshape(16, 16)
RAMP_12 = np.linspace(0, 4095, 24 * 20).round().astype(np.uint16).reshape(24, 20)


def open_key(root, key, source=SOURCE):
    return images.open_image({"source": source, "key": key, "view": "frontal"}, {source: root})


def grey_of(image):
    """The grey values of an RGB image whose channels must be equal."""
    assert image.mode == "RGB"
    pixels = np.asarray(image).astype(int)
    assert (pixels[..., 0] == pixels[..., 1]).all()
    assert (pixels[..., 0] == pixels[..., 2]).all()
    return pixels[..., 0]


def write_dicom(path, pixels, *, bits=None, photometric="MONOCHROME2", syntax=ExplicitVRLittleEndian, **elements):
    """A DICOM file as a digital X-ray system would write it; `elements` are added by keyword."""
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


def lookup_table(entries, first, bits, *, as_bytes=""):
    """A sequence of one table, its entries as numbers, or as bytes of the type `as_bytes`."""
    item = Dataset()
    item.add_new("LUTDescriptor", "US", [len(entries) % 2**16, first, bits])
    entries = np.asarray(entries)
    item.add_new(
        "LUTData", "OW" if as_bytes else "US", entries.astype(as_bytes).tobytes() if as_bytes else entries.tolist()
    )
    return [item]


def scaled(values, low, high):
    return np.rint(np.clip((np.asarray(values, float) - low) / (high - low), 0, 1) * 255)


def window(values, centre, width):
    """DICOM PS3.3 C.11.2.1.2.1, with the output range 0..255."""
    return np.rint(np.clip((np.asarray(values, float) - (centre - 0.5)) / (width - 1) + 0.5, 0, 1) * 255)


# --- pictures ---------------------------------------------------------------------------------------------------------

RGBA = np.zeros((4, 4, 4), np.uint8)
RGBA[..., 0], RGBA[..., 3] = 200, np.arange(0, 256, 16).reshape(4, 4)
PALETTE = Image.fromarray((RAMP_8 // 64).astype(np.uint8)).convert("P")
PALETTE.putpalette([10, 20, 30, 40, 50, 60, 70, 80, 90, 100, 110, 120])


@pytest.mark.parametrize(
    ("picture", "expected"),
    [
        pytest.param(Image.fromarray(RAMP_8), RAMP_8, id="8-bit grey"),
        pytest.param(Image.fromarray(RAMP_8 > 99).convert("1"), (RAMP_8 > 99) * 255, id="1-bit"),
        pytest.param(Image.fromarray(RAMP_12), scaled(RAMP_12, 0, 4095), id="12 bits in 16"),
        pytest.param(Image.fromarray(RAMP_12 * 16), scaled(RAMP_12 * 16.0, 0, 65535), id="16 bits"),
        pytest.param(Image.fromarray(RAMP_12 // 4), scaled(RAMP_12 // 4, 0, 1023), id="10 bits in 16"),
        pytest.param(Image.fromarray(RAMP_8.astype(np.uint16)), RAMP_8, id="8 bits in 16"),
        pytest.param(Image.fromarray(np.full((3, 3), 7, np.uint16)), np.full((3, 3), 7), id="constant 16-bit"),
        pytest.param(Image.fromarray(np.zeros((3, 3), np.uint16)), np.zeros((3, 3)), id="black 16-bit"),
        pytest.param(
            PALETTE,
            np.array([[10, 20, 30], [40, 50, 60], [70, 80, 90], [100, 110, 120]])[RAMP_8 // 64],
            id="palette",
        ),
        pytest.param(
            Image.fromarray(RGBA),
            np.stack([np.rint(200 * (RGBA[..., 3] / 255.0)), *[np.zeros((4, 4))] * 2], axis=-1),
            id="alpha over black",
        ),
        pytest.param(
            Image.merge("LA", [Image.fromarray(RAMP_8), Image.fromarray(np.full_like(RAMP_8, 255))]),
            RAMP_8,
            id="opaque LA",
        ),
    ],
)
def test_png(tmp_path, picture, expected):
    picture.save(tmp_path / "a.png")
    opened = open_key(tmp_path, "a.png")
    assert opened.mode == "RGB"
    expected = expected if expected.ndim == 3 else np.repeat(expected[..., None], 3, axis=2)
    np.testing.assert_array_equal(np.asarray(opened), expected)


def test_transparent_grey_level_is_black(tmp_path):
    Image.fromarray(RAMP_8).save(tmp_path / "a.png", transparency=200)
    np.testing.assert_array_equal(grey_of(open_key(tmp_path, "a.png")), np.where(RAMP_8 == 200, 0, RAMP_8))


@pytest.mark.parametrize("mode", ["L", "RGB", "CMYK"])
def test_jpeg(tmp_path, mode):
    Image.fromarray(RAMP_8).convert(mode).save(tmp_path / "a.jpg", quality=100)
    opened = open_key(tmp_path, "a.jpg")
    assert opened.mode == "RGB"
    assert np.abs(np.asarray(opened)[..., 0].astype(int) - RAMP_8).max() <= 3


def test_the_content_decides_not_the_ending(tmp_path):
    Image.fromarray(RAMP_8).save(tmp_path / "a.dcm", format="PNG")
    write_dicom(tmp_path / "b.png", RAMP_8)
    np.testing.assert_array_equal(grey_of(open_key(tmp_path, "a.dcm")), RAMP_8)
    np.testing.assert_array_equal(grey_of(open_key(tmp_path, "b.png")), RAMP_8)


def test_image_is_loaded_and_its_file_closed(tmp_path):
    Image.fromarray(RAMP_8).save(tmp_path / "a.png")
    opened = open_key(tmp_path, "a.png")
    (tmp_path / "a.png").unlink()
    assert opened.getpixel((15, 15)) == (255, 255, 255)


@pytest.mark.filterwarnings("error")
def test_a_full_size_radiograph_opens_without_a_warning(tmp_path):
    Image.fromarray(np.zeros((5000, 4000), np.uint16)).save(tmp_path / "a.png", compress_level=1)
    assert open_key(tmp_path, "a.png").size == (4000, 5000)


@pytest.mark.parametrize("write", [lambda path, pixels: Image.fromarray(pixels).save(path, format="PNG"), write_dicom])
def test_an_absurdly_large_image_is_refused(tmp_path, monkeypatch, write):
    monkeypatch.setattr(images, "MAX_PIXELS", 200)
    write(tmp_path / "a", RAMP_8)
    with pytest.raises(ImageError, match="16 x 16 pixels"):
        open_key(tmp_path, "a")


# --- DICOM ------------------------------------------------------------------------------------------------------------

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


def test_dicom_voi_table_of_packed_bytes(tmp_path):
    entries = 255 - np.arange(256) // 2
    table = lookup_table(entries, 0, 8, as_bytes="u1")
    write_dicom(tmp_path / "a.dcm", RAMP_8, VOILUTSequence=table)
    np.testing.assert_array_equal(grey_of(open_key(tmp_path, "a.dcm")), entries[RAMP_8])


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


# --- broken files -----------------------------------------------------------------------------------------------------


def _write(name, path):
    if name.endswith(".dcm"):
        write_dicom(path, RAMP_12, bits=12, WindowCenter=1500, WindowWidth=800)
    else:
        Image.fromarray(np.random.default_rng(0).integers(0, 255, (64, 64), dtype=np.uint8)).save(path)


@pytest.mark.parametrize("name", ["a.jpg", "a.png", "a.dcm"])
def test_a_file_cut_anywhere_is_refused(tmp_path, name):
    _write(name, tmp_path / name)
    whole = (tmp_path / name).read_bytes()
    reference = open_key(tmp_path, name).tobytes()
    refused = 0
    for length in range(0, len(whole) - 1, 37):
        (tmp_path / name).write_bytes(whole[:length])
        try:
            opened = open_key(tmp_path, name)
        except ImageError:
            refused += 1
        else:  # only the end marker is gone
            assert length >= len(whole) - 64, f"cut at {length} of {len(whole)} bytes it still opens"
            assert opened.tobytes() == reference, f"cut at {length} bytes it opens as another image"
    assert refused > 20


@pytest.mark.filterwarnings("ignore::UserWarning:pydicom")
@pytest.mark.parametrize("name", ["a.jpg", "a.png", "a.dcm"])
def test_damaged_bytes_raise_nothing_but_image_error(tmp_path, name):
    _write(name, tmp_path / name)
    whole = (tmp_path / name).read_bytes()
    rng = np.random.default_rng(1)
    refused = 0
    for _ in range(150):
        damaged = np.frombuffer(whole, np.uint8).copy()
        damaged[rng.integers(0, min(len(damaged), 1200), 6)] = rng.integers(0, 256, 6)
        (tmp_path / name).write_bytes(damaged.tobytes())
        try:
            open_key(tmp_path, name)
        except ImageError:
            refused += 1
    assert refused > 0


@pytest.mark.parametrize(
    "content", [b"", b"hello", b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"\0" * 128 + b"DICM", b"GIF89a" + b"\0" * 99]
)
def test_what_is_no_image_is_refused(tmp_path, content):
    (tmp_path / "a.png").write_bytes(content)
    with pytest.raises(ImageError, match=r"'a\.png' of source 'chest_imagenome'"):
        open_key(tmp_path, "a.png")


def test_a_dicom_without_pixels_is_refused(tmp_path):
    dataset = write_dicom(tmp_path / "a.dcm", RAMP_8)
    del dataset.PixelData
    dataset.save_as(tmp_path / "a.dcm", enforce_file_format=True)
    with pytest.raises(ImageError, match="truncated, corrupt or unreadable"):
        open_key(tmp_path, "a.dcm")


def test_messages_name_the_decoder_cause(tmp_path):
    _write("a.png", tmp_path / "a.png")
    whole = (tmp_path / "a.png").read_bytes()
    (tmp_path / "a.png").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ImageError) as caught:
        open_key(tmp_path, "a.png")
    assert re.search(r"a\.png is truncated, corrupt or unreadable \(\w+: .+\)", str(caught.value))
    assert type(caught.value) is ImageError
