"""Resolution of an ImageRef to a file: layouts, keys, links and error messages."""

import shutil
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from PIL import Image

from medfaith.loaders import images
from medfaith.loaders.errors import ImageError, InputError
from tests.support.loaders.image_files import RAMP_8, SOURCE, open_key

IMAGE = "patient00001/study1/view1_frontal.jpg"


@pytest.mark.parametrize(
    ("split", "folder"),
    [
        *(("train", f"{folder}train") for folder in ("", "CheXpert-v1.0-small/", "CheXpert-v1.0/")),
        ("train", "CheXpert-v1.0 batch 2 (train 1)"),
        ("train", "chexpertchestxrays-u20210408/CheXpert-v1.0 batch 4 (train 3)"),
        ("valid", "CheXpert-v1.0 batch 1 (validate & csv)/valid"),
        ("valid", "CheXpert/val"),
        ("test", "CheXpert/test"),
    ],
)
def test_chexpert_layouts(tmp_path, split, folder):
    key = f"{split}/{IMAGE}"
    path = tmp_path / folder / IMAGE
    path.parent.mkdir(parents=True)
    Image.fromarray(RAMP_8).save(path)
    label_file = tmp_path / "train.csv"
    label_file.touch()
    assert images.locate({"source": "chexpert", "key": key}, {"chexpert": tmp_path}) == path.resolve()
    assert images.locate({"source": "chexpert", "key": key}, {"chexpert": label_file}) == path.resolve()


@pytest.mark.parametrize(
    ("source", "key", "path"),
    [
        ("chexpert", f"train/{IMAGE}", "CheXpert-v1.0/train/patient00001/study1/view1_frontal.png"),
        ("mimic_cxr", "files/p10/p10000032/s1/a.jpg", "files/p10/p10000032/s1/a.JPG"),
        ("nih_cxr14", "images/00000001_000.png", "images/00000001_000.jpeg"),
        ("cholect45", "data/VID42/000000.png", "data/VID42/000000.jpg"),
        (SOURCE, "a.png", None),  # names of other files may differ in their suffix only
    ],
)
def test_a_copy_in_another_format_is_read(tmp_path, source, key, path):
    converted = tmp_path / (path or "a.jpg")
    converted.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(RAMP_8).save(converted)
    if path is None:
        with pytest.raises(ImageError, match="no such file"):
            open_key(tmp_path, key, source)
        return
    assert images.locate({"source": source, "key": key}, {source: tmp_path}) == converted.resolve()
    released = converted.with_suffix(Path(key).suffix)
    Image.fromarray(RAMP_8).save(released)
    assert images.locate({"source": source, "key": key}, {source: tmp_path}) == released.resolve()


def test_a_missing_file_names_what_was_tried(tmp_path):
    with pytest.raises(ImageError) as caught:
        open_key(tmp_path, "train/patient1/study1/view1_frontal.jpg", "chexpert")
    message = str(caught.value)
    for substring in (
        "chexpert",
        str(tmp_path),
        "CheXpert-v1.0-small/train/patient1",
        "what to do",
        "--root chexpert=",
    ):
        assert substring in message


def test_a_folder_is_no_image_and_a_source_must_be_known(tmp_path):
    (tmp_path / "a.png").mkdir()
    with pytest.raises(ImageError, match="no such file"):
        open_key(tmp_path, "a.png")
    with pytest.raises(InputError, match="no such source"):
        open_key(tmp_path, "a.png", "chexpart")


BAD_KEYS = [
    "", ".", "..", "../a.png", "a/../../a.png", "a/../b.png", "/etc/passwd", "//a.png", "a//b.png", "a/", "./a.png",
    "..\\a.png", "a\\b.png", "C:/a.png", "c:a.png", "\\\\server\\share\\a.png", "a\0.png", "\ud800.png",
]  # fmt: skip


def test_a_key_that_is_no_plain_relative_path_is_refused(tmp_path):
    for key in BAD_KEYS:
        with pytest.raises(ImageError, match="the key"):
            open_key(tmp_path, key)
    for key in ("a.png", "train/patient00001/study1/view1_frontal.jpg", "a b.png", "..a.png", "é.png"):
        images.check_key(key)


HOSTILE = st.text(alphabet=st.sampled_from("./\\ab:C\0~é\ud800"), max_size=12) | st.text(max_size=20)


@given(key=HOSTILE)
@example(key="x" * 5000)
def test_no_key_reaches_outside_the_root(tmp_path_factory, key):
    """Every key opens a file below the root or raises ImageError."""
    outside = tmp_path_factory.getbasetemp() / "keys"
    root = outside / "root"
    if not root.exists():
        (root / "a").mkdir(parents=True)
        for folder in (outside, root, root / "a"):
            for name in ("a.png", "b", "secret"):
                (folder / name).write_bytes(b"x")
    ref = {"source": SOURCE, "key": key, "view": ""}
    try:
        path = images.locate(ref, {SOURCE: root})
    except ImageError:
        return
    assert path.is_relative_to(root.resolve())
    assert path == (root / key).resolve()


@pytest.fixture
def linked(tmp_path):
    """A root with an image, and a private image next to the root."""
    (tmp_path / "root" / "real").mkdir(parents=True)
    (tmp_path / "private").mkdir()
    Image.fromarray(RAMP_8).save(tmp_path / "root" / "real" / "a.png")
    Image.fromarray(RAMP_8).save(tmp_path / "private" / "a.png")
    return tmp_path


def test_links_that_stay_inside_are_followed(linked):
    (linked / "root" / "folder").symlink_to("real")
    (linked / "root" / "b.png").symlink_to(linked / "root" / "real" / "a.png")
    (linked / "alias").symlink_to(linked / "root")
    for root in (linked / "root", linked / "alias"):
        for key in ("real/a.png", "folder/a.png", "b.png"):
            assert open_key(root, key).size == (16, 16)


@pytest.mark.parametrize(
    ("name", "target", "key"),
    [
        ("folder", "../private", "folder/a.png"),
        ("b.png", "../private/a.png", "b.png"),
        ("b.png", "../root2/a.png", "b.png"),  # a sibling whose name begins like the root
    ],
)
@pytest.mark.parametrize("absolute", [True, False])
def test_links_that_leave_the_root_are_refused(linked, name, target, key, absolute):
    shutil.copytree(linked / "private", linked / "root2")
    (linked / "root" / name).symlink_to((linked / "root" / target).resolve() if absolute else target)
    with pytest.raises(ImageError, match=r"(?s)leaves the root.*--root chest_imagenome="):
        open_key(linked / "root", key)


def test_a_loop_of_links_and_an_unreadable_file_are_refused(linked, monkeypatch):
    (linked / "root" / "b.png").symlink_to("b.png")
    with pytest.raises(ImageError, match="cannot be reached"):
        open_key(linked / "root", "b.png")

    def refuse(*_args, **_kwargs):  # chmod would not stop a test run as root
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(ImageError, match="Permission denied"):
        open_key(linked / "root", "real/a.png")
