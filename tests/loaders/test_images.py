"""Opening pictures: real files, written here by Pillow, against formulas worked out again in numpy."""

import numpy as np
import pytest
from PIL import Image

from medfaith.loaders import images
from medfaith.loaders.errors import ImageError
from tests.loaders.image_files import RAMP_8, RAMP_12, grey_of, open_key, scaled, write_dicom

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
            PALETTE, np.array([[10, 20, 30], [40, 50, 60], [70, 80, 90], [100, 110, 120]])[RAMP_8 // 64], id="palette"
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
