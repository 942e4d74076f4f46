"""Images and their sizes from the header alone: real files, compared with an independent numpy implementation."""

from itertools import product

import numpy as np
import pytest
from PIL import Image

from medfaith.loaders import images, limits
from medfaith.loaders.errors import ImageError
from tests.support.loaders.image_files import RAMP_8, RAMP_12, SOURCE, get_grey, open_key, scale_to_grey, write_dicom

RGBA = np.zeros((4, 4, 4), np.uint8)
RGBA[..., 0], RGBA[..., 3] = 200, np.arange(0, 256, 16).reshape(4, 4)
PALETTE = Image.fromarray((RAMP_8 // 64).astype(np.uint8)).convert("P")
PALETTE.putpalette([10, 20, 30, 40, 50, 60, 70, 80, 90, 100, 110, 120])


COLOURS = np.array([[10, 20, 30], [40, 50, 60], [70, 80, 90], [100, 110, 120]])[RAMP_8 // 64]
OPAQUE = Image.merge("LA", [Image.fromarray(RAMP_8), Image.fromarray(np.full_like(RAMP_8, 255))])
PNG = {
    "8-bit grey": (Image.fromarray(RAMP_8), RAMP_8),
    "1-bit": (Image.fromarray(RAMP_8 > 99).convert("1"), (RAMP_8 > 99) * 255),
    "12 bits in 16": (Image.fromarray(RAMP_12), scale_to_grey(RAMP_12, 0, 4095)),
    "16 bits": (Image.fromarray(RAMP_12 * 16), scale_to_grey(RAMP_12 * 16.0, 0, 65535)),
    "10 bits in 16": (Image.fromarray(RAMP_12 // 4), scale_to_grey(RAMP_12 // 4, 0, 1023)),
    "8 bits in 16": (Image.fromarray(RAMP_8.astype(np.uint16)), RAMP_8),
    "constant 16-bit": (Image.fromarray(np.full((3, 3), 7, np.uint16)), np.full((3, 3), 7)),
    "black 16-bit": (Image.fromarray(np.zeros((3, 3), np.uint16)), np.zeros((3, 3))),
    "palette": (PALETTE, COLOURS),
    "alpha over black": (Image.fromarray(RGBA), np.rint(RGBA[..., :3] * (RGBA[..., 3:] / 255.0))),
    "opaque LA": (OPAQUE, RAMP_8),
}


@pytest.mark.parametrize(("picture", "expected"), PNG.values(), ids=PNG)
def test_png(tmp_path, picture, expected):
    picture.save(tmp_path / "a.png")
    opened = open_key(tmp_path, "a.png")
    assert opened.mode == "RGB"
    expected = expected if expected.ndim == 3 else np.repeat(expected[..., None], 3, axis=2)
    np.testing.assert_array_equal(np.asarray(opened), expected)


def test_transparent_grey_level_is_black_and_jpeg(tmp_path):
    Image.fromarray(RAMP_8).save(tmp_path / "a.png", transparency=200)
    np.testing.assert_array_equal(get_grey(open_key(tmp_path, "a.png")), np.where(RAMP_8 == 200, 0, RAMP_8))
    for mode in ("L", "RGB", "CMYK"):
        Image.fromarray(RAMP_8).convert(mode).save(tmp_path / "a.jpg", quality=100)
        opened = open_key(tmp_path, "a.jpg")
        assert opened.mode == "RGB"
        assert np.abs(np.asarray(opened)[..., 0].astype(int) - RAMP_8).max() <= 3


def test_the_content_decides_not_the_ending_and_the_file_is_closed(tmp_path):
    Image.fromarray(RAMP_8).save(tmp_path / "a.dcm", format="PNG")
    write_dicom(tmp_path / "b.png", RAMP_8)
    np.testing.assert_array_equal(get_grey(open_key(tmp_path, "a.dcm")), RAMP_8)
    opened = open_key(tmp_path, "b.png")
    (tmp_path / "b.png").unlink()
    np.testing.assert_array_equal(get_grey(opened), RAMP_8)


@pytest.mark.filterwarnings("error")
def test_a_full_size_radiograph_opens_without_a_warning(tmp_path):
    Image.fromarray(np.zeros((5000, 4000), np.uint16)).save(tmp_path / "a.png", compress_level=1)
    assert open_key(tmp_path, "a.png").size == (4000, 5000)


# --- the size ---------------------------------------------------------------------------------------------------------


def get_size(root, key):
    return images.read_image_size({"source": SOURCE, "key": key, "view": ""}, {SOURCE: root})


def write_any(path, pixels):
    write_dicom(path, pixels.astype(np.uint16)) if path.suffix == ".dicom" else Image.fromarray(pixels).save(path)


def test_size_is_width_then_height_as_when_opened_and_orientation_in_exif_does_not_turn_it(tmp_path):
    for size, name in product([(30, 20), (20, 30), (1, 1)], ["a.png", "a.jpg", "a.dicom"]):
        write_any(tmp_path / name, np.zeros(size[::-1], np.uint8))
        assert get_size(tmp_path, name) == open_key(tmp_path, name).size == size
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.new("L", (30, 20)).save(tmp_path / "a.jpg", exif=exif)
    assert get_size(tmp_path, "a.jpg") == (30, 20)


@pytest.mark.parametrize("name", ["a.png", "a.dicom"])
def test_only_the_header_is_needed_for_the_size(tmp_path, name):
    write_any(tmp_path / name, np.random.default_rng(0).integers(0, 255, (40, 50), dtype=np.uint8))
    (tmp_path / name).write_bytes((tmp_path / name).read_bytes()[:-900])
    assert get_size(tmp_path, name) == (50, 40)
    with pytest.raises(ImageError):
        open_key(tmp_path, name)


@pytest.mark.parametrize("reader", [get_size, open_key])
@pytest.mark.parametrize("name", ["a.png", "a.dicom"])
def test_an_absurd_size_is_refused(tmp_path, monkeypatch, name, reader):
    monkeypatch.setattr(limits, "IMAGE_PIXELS", 200)
    write_any(tmp_path / name, RAMP_8)
    with pytest.raises(ImageError, match="16 x 16 pixels"):
        reader(tmp_path, name)


NO_IMAGE = [
    (None, "no such file"), (b"", "empty"), (b"hello", "neither jpg"), (b"GIF89a" + b"\0" * 99, "neither jpg"),
    (b"\x89PNG\r\n\x1a\n", "neither jpg"), (b"\xff\xd8\xff", "neither jpg"), (b"\0" * 128 + b"DICM", "truncated"),
]  # fmt: skip


@pytest.mark.parametrize("reader", [get_size, open_key])
@pytest.mark.parametrize(("content", "reason"), NO_IMAGE)
def test_what_is_no_image_is_refused_by_its_key(tmp_path, content, reason, reader):
    if content is not None:
        (tmp_path / "a.png").write_bytes(content)
    with pytest.raises(ImageError, match=rf"'a\.png' of source '{SOURCE}'.*{reason}"):
        reader(tmp_path, "a.png")
