"""Truncated, damaged and non-image files: an error names the file, and no other image is returned."""

from io import BytesIO

import numpy as np
import pytest
from PIL import Image
from pydicom.encaps import encapsulate
from pydicom.uid import DeflatedExplicitVRLittleEndian, ExplicitVRLittleEndian, JPEG2000Lossless, JPEGBaseline8Bit

from medfaith.loaders import images, limits
from medfaith.loaders.errors import ImageError
from tests.support.loaders.image_files import RAMP_8, RAMP_12, SOURCE, open_key, write_dicom
from tests.support.tiers import choose_size


def _write(name, path):
    if name.endswith(".dcm"):
        write_dicom(path, RAMP_12, bits=12, WindowCenter=1500, WindowWidth=800)
    else:
        Image.fromarray(np.random.default_rng(0).integers(0, 255, (64, 64), dtype=np.uint8)).save(path)


@pytest.mark.parametrize("name", ["a.jpg", "a.png", "a.dcm"])
def test_a_file_cut_anywhere_is_refused(tmp_path, name):
    _write(name, tmp_path / name)
    content = (tmp_path / name).read_bytes()
    reference = open_key(tmp_path, name).tobytes()
    refused = 0
    for length in range(0, len(content) - 1, 37):
        (tmp_path / name).write_bytes(content[:length])
        try:
            opened = open_key(tmp_path, name)
        except ImageError:
            refused += 1
        else:  # only the end marker is gone
            assert length >= len(content) - 64, f"cut at {length} of {len(content)} bytes it still opens"
            assert opened.tobytes() == reference, f"cut at {length} bytes it opens as another image"
    assert refused > 20


@pytest.mark.filterwarnings("ignore::UserWarning:pydicom")
@pytest.mark.parametrize("name", ["a.jpg", "a.png", "a.dcm"])
def test_damaged_bytes_raise_nothing_but_image_error(tmp_path, name):
    _write(name, tmp_path / name)
    content = (tmp_path / name).read_bytes()
    rng = np.random.default_rng(1)
    refused = 0
    for _ in range(choose_size(50, 150)):
        damaged = np.frombuffer(content, np.uint8).copy()
        damaged[rng.integers(0, min(len(damaged), 1200), 6)] = rng.integers(0, 256, 6)
        (tmp_path / name).write_bytes(damaged.tobytes())
        try:
            open_key(tmp_path, name)
        except ImageError:
            refused += 1
    assert refused > 0


def test_a_dicom_without_pixels_is_refused(tmp_path):
    dataset = write_dicom(tmp_path / "a.dcm", RAMP_8)
    del dataset.PixelData
    dataset.save_as(tmp_path / "a.dcm", enforce_file_format=True)
    with pytest.raises(ImageError, match=r"a\.dcm is truncated, corrupt or unreadable \(\w+: .+\)"):
        open_key(tmp_path, "a.dcm")


def test_the_size_of_a_dicom_without_one_image_is_refused(tmp_path):
    reference = {"source": SOURCE, "key": "a.dcm", "view": ""}
    dataset = write_dicom(tmp_path / "a.dcm", np.stack([RAMP_8] * 2), NumberOfFrames=2)
    with pytest.raises(ImageError, match="a DICOM of 2 frames"):
        images.read_image_size(reference, {SOURCE: tmp_path})
    for name in ("PixelData", "NumberOfFrames", "Columns"):
        del dataset[name]
    dataset.save_as(tmp_path / "a.dcm", enforce_file_format=True)
    with pytest.raises(ImageError, match="a DICOM without an image"):
        images.read_image_size(reference, {SOURCE: tmp_path})


@pytest.mark.parametrize("syntax", [ExplicitVRLittleEndian, DeflatedExplicitVRLittleEndian])
def test_a_dicom_that_holds_more_than_an_image_is_not_unpacked(tmp_path, monkeypatch, syntax):
    write_dicom(tmp_path / "a.dcm", RAMP_8, syntax=syntax, DataSetTrailingPadding=bytes(70_000))
    assert open_key(tmp_path, "a.dcm").size == (16, 16)
    monkeypatch.setattr(limits, "IMAGE_PIXELS", RAMP_8.size)
    for reader in (images.open_image, images.read_image_size):
        with pytest.raises(ImageError, match="a DICOM of more than 66,560 bytes"):
            reader({"source": SOURCE, "key": "a.dcm", "view": ""}, {SOURCE: tmp_path})


def test_a_jpg_of_scans_without_end_is_refused(tmp_path):
    path = tmp_path / "a.jpg"
    Image.fromarray(RAMP_8).save(path, progressive=True)
    assert open_key(tmp_path, "a.jpg").size == (16, 16)
    content = path.read_bytes()
    last = content[content.rindex(b"\xff\xda") : -2]
    path.write_bytes(content[:-2] + last * limits.JPEG_SCANS + content[-2:])
    with pytest.raises(ImageError, match="a jpg of more than 200 scans"):
        open_key(tmp_path, "a.jpg")


def test_what_is_compressed_inside_a_dicom_has_the_limits_of_an_image(tmp_path, monkeypatch):
    def put(data, syntax):
        dataset = write_dicom(tmp_path / "a.dcm", RAMP_8)
        dataset.file_meta.TransferSyntaxUID = syntax
        dataset.PixelData = encapsulate([data])
        dataset["PixelData"].is_undefined_length = True
        dataset.save_as(tmp_path / "a.dcm", enforce_file_format=True)

    def saved(pixels, kind, **options):
        Image.fromarray(pixels).save(data := BytesIO(), kind, **options)
        return data.getvalue()

    monkeypatch.setattr(limits, "IMAGE_PIXELS", RAMP_8.size)
    put(saved(RAMP_8, "JPEG2000", no_jp2=True), JPEG2000Lossless)
    assert open_key(tmp_path, "a.dcm").size == (16, 16)
    put(saved(np.zeros((20, 20), np.uint8), "JPEG2000", no_jp2=True), JPEG2000Lossless)
    with pytest.raises(ImageError, match="20 x 20 pixels, more than"):
        open_key(tmp_path, "a.dcm")
    jpg = saved(RAMP_8, "JPEG")
    put(jpg, JPEGBaseline8Bit)
    assert open_key(tmp_path, "a.dcm").size == (16, 16)
    put(jpg[:-2] + jpg[jpg.rindex(b"\xff\xda") : -2] * limits.JPEG_SCANS + jpg[-2:], JPEGBaseline8Bit)
    with pytest.raises(ImageError, match="a jpg of more than 200 scans"):
        open_key(tmp_path, "a.dcm")


def test_a_size_of_nothing_is_none(tmp_path):
    dataset = write_dicom(tmp_path / "a.dcm", RAMP_8)
    dataset.Rows = 0
    dataset.save_as(tmp_path / "a.dcm", enforce_file_format=True)
    with pytest.raises(ImageError, match="16 x 0 pixels"):
        images.read_image_size({"source": SOURCE, "key": "a.dcm", "view": ""}, {SOURCE: tmp_path})


def test_levels_that_are_shown_as_one_are_no_image(tmp_path):
    write_dicom(tmp_path / "a.dcm", RAMP_8, RescaleSlope=0, RescaleIntercept=0)
    with pytest.raises(ImageError, match=r"the levels from 0\.0 to 0\.0 are one"):
        open_key(tmp_path, "a.dcm")
