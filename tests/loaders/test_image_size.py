"""The size of an image from its header alone."""

import numpy as np
import pytest
from PIL import Image

from medfaith.loaders import images
from medfaith.loaders.errors import ImageError
from tests.loaders.image_files import write_dicom

SOURCE = "cholect45"


def size_of(root, key):
    return images.image_size({"source": SOURCE, "key": key, "view": ""}, {SOURCE: root})


@pytest.mark.parametrize("size", [(30, 20), (20, 30), (1, 1)])
@pytest.mark.parametrize("name", ["a.png", "a.jpg", "a.dicom"])
def test_size_is_width_then_height_as_when_opened(tmp_path, name, size):
    if name.endswith("dicom"):
        write_dicom(tmp_path / name, np.zeros(size[::-1], np.uint16))
    else:
        Image.new("L", size).save(tmp_path / name)
    assert size_of(tmp_path, name) == size
    assert images.open_image({"source": SOURCE, "key": name, "view": ""}, {SOURCE: tmp_path}).size == size


def test_orientation_in_exif_does_not_turn_the_size(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.new("L", (30, 20)).save(tmp_path / "a.jpg", exif=exif)
    assert size_of(tmp_path, "a.jpg") == (30, 20)


@pytest.mark.parametrize("name", ["a.png", "a.dicom"])
def test_only_the_header_is_needed(tmp_path, name):
    if name == "a.png":
        Image.fromarray(np.random.default_rng(0).integers(0, 255, (40, 50), dtype=np.uint8)).save(tmp_path / name)
    else:
        write_dicom(tmp_path / name, np.zeros((40, 50), np.uint16))
    content = (tmp_path / name).read_bytes()
    (tmp_path / name).write_bytes(content[: len(content) - 900])
    assert size_of(tmp_path, name) == (50, 40)
    with pytest.raises(ImageError):
        images.open_image({"source": SOURCE, "key": name, "view": ""}, {SOURCE: tmp_path})


@pytest.mark.parametrize(
    ("content", "reason"), [(b"not a picture", "neither jpg"), (b"", "empty"), (None, "no such file")]
)
def test_what_is_no_image_names_its_key(tmp_path, content, reason):
    if content is not None:
        (tmp_path / "a.png").write_bytes(content)
    with pytest.raises(ImageError, match=rf"'a\.png' of source 'cholect45'.*{reason}"):
        size_of(tmp_path, "a.png")


@pytest.mark.parametrize("name", ["a.png", "a.dicom"])
def test_an_absurd_size_is_refused(tmp_path, monkeypatch, name):
    monkeypatch.setattr(images, "MAX_PIXELS", 99)
    write_dicom(tmp_path / name, np.zeros((10, 10), np.uint16)) if name == "a.dicom" else Image.new("L", (10, 10)).save(
        tmp_path / name
    )
    with pytest.raises(ImageError, match="10 x 10 pixels"):
        size_of(tmp_path, name)
