"""Kinds of damage to a file, and the reader of each kind of file of each source."""

from __future__ import annotations

import dataclasses
import gzip
import os
import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from functools import partial
from pathlib import Path
from typing import Any

import datasets
import pyarrow as pa
import pydicom

from medfaith.loaders import (
    anatomy_masks,
    chest_imagenome,
    chest_imagenome_silver,
    chexlocalize,
    chexmask,
    chexpert,
    chexstruct,
    cholec80,
    cholec80_boxes,
    cholecseg8k,
    cholect45,
    cholect50,
    detections,
    images,
    mimic_cxr,
    nih_cxr14,
    openi,
    rexvqa,
    vindr_cxr,
)
from tests.support.tiers import choose_size

# Maximum number of copied files for each kind of file that is numerous in a source.
MANY = [
    (1, lambda path: path.suffix in {".jpg", ".png", ".dicom", ".dcm"} and "_watershed_" not in path.name),
    (1, lambda path: path.name.endswith("_watershed_mask.png")),
    (3, lambda path: path.suffix == ".xml" or re.match(r"s\d+\.txt|[0-9a-f]+-[0-9a-f-]+\.txt", path.name)),
]
Read = Callable[[Path, Path], object]  # the source's folder and the damaged file


def read_boxes(root: Path, _: Path) -> object:
    names = [path.stem for path in root.glob("*-*.txt")]
    return detections.read_detections(root, names, sizes=dict.fromkeys(names, (256, 256)))


def read_scene_graph(root: Path, _: Path) -> object:
    with chest_imagenome_silver.SceneGraphs(root) as graphs:
        images = chest_imagenome_silver.read_split(root, "test")["dicom_id"].to_pylist()
        return [graphs.read(dicom_id) for dicom_id in images[:2]]


def read_masks(root: Path, _: Path) -> object:
    image = next((root.parent / "vindr_cxr").rglob("*.dicom"))
    header = pydicom.dcmread(image, stop_before_pixels=True)
    return anatomy_masks.open_masks(root).read(image.stem, (header.Rows, header.Columns))


def read_picture(root: Path, file: Path) -> object:
    ref = {"source": "vindr_cxr", "key": str(file.relative_to(root)), "view": ""}
    return images.open_image(ref, {"vindr_cxr": root})


def read_test_list(root: Path, _: Path) -> object:
    paths = nih_cxr14.find_label_files(root)
    return nih_cxr14.read_list(paths["test"], nih_cxr14.read_images(paths["images"])["image_id"])


def read_nih_boxes(root: Path, file: Path) -> object:
    paths = nih_cxr14.find_label_files(root)
    return nih_cxr14.read_boxes(file, nih_cxr14.read_images(paths["images"])["image_id"])


def read_chexmask(root: Path, _: Path) -> object:
    image_ids = [f"{patient:08d}_000.png" for patient in range(1, 40, choose_size(4, 1))]  # of the whole table
    masks = chexmask.open_masks(root, image_ids, ("left lung", "heart"))[0]
    return [masks.read(image_id) for image_id in masks]


def parse_video_number(file: Path) -> int:
    return int("".join(filter(str.isdigit, file.stem)))


def read_cholect45_video(root: Path, file: Path) -> object:
    return cholect45.read_video(root, parse_video_number(file))


def read_class_mask(root: Path, file: Path) -> object:
    return cholecseg8k.find_boxes(cholecseg8k.read_mask(file, (107, 60)))


GOLD = "gold_dataset/"
# Source, pattern of the damaged file (first match by name), reader.
READINGS: list[tuple[str, str, Read]] = [
    ("chexpert", "*/train.csv", lambda root, file: chexpert.read_labels(file, "train")),
    ("chexpert", "**/*.jpg", read_picture),
    ("chexlocalize", "*/gt_*val.json", lambda root, file: chexlocalize.read_masks(file, "validation")),
    ("chexlocalize", "*/test_labels.csv", lambda root, file: chexpert.read_labels(file, "test")),
    ("openi", "ecgen-radiology/*.xml", lambda root, file: openi.read_reports(root)),
    ("openi", "**/*.dcm", read_picture),
    ("chexstruct", "openi/cardiomegaly.csv", lambda root, file: chexstruct.read_labels(root)),
    ("rexvqa", "metadata/test*.json", lambda root, file: rexvqa.read_items(file)),
    ("vindr_cxr", "annotations/annotations_test.csv", lambda root, file: vindr_cxr.read_boxes(file, "test")),
    ("vindr_cxr", "annotations/annotations_train.csv", lambda root, file: vindr_cxr.read_annotations(file, "train")),
    ("vindr_cxr_anatomy", "anatomy.json", read_masks),
    ("mimic_cxr", "*metadata.csv.gz", lambda root, file: mimic_cxr.read_images(root)),
    ("mimic_cxr", "*split.csv.gz", lambda root, file: mimic_cxr.read_images(root)),
    ("mimic_cxr", "*chexpert.csv.gz", lambda root, file: mimic_cxr.read_labels(root)),
    ("mimic_cxr", "*negbio.csv.gz", lambda root, file: mimic_cxr.read_labels(root, "negbio")),
    (
        "mimic_cxr_reports",
        "files/**/s*.txt",
        lambda root, file: mimic_cxr.read_report({"mimic_cxr": root}, file.parent.name[1:], file.stem[1:]),
    ),
    ("mimic_cxr_detections", "classes.txt", read_boxes),
    ("mimic_cxr_detections", "*-*.txt", read_boxes),
    ("chest_imagenome", f"{GOLD}*with_coordinates.txt", lambda root, file: chest_imagenome.read_gold(root)),
    ("chest_imagenome", f"{GOLD}*annotations*.csv", lambda root, file: chest_imagenome.read_anatomy(root)),
    ("chest_imagenome", f"{GOLD}*all_sentences*.txt", lambda root, file: chest_imagenome.read_all_sentences(root)),
    ("chest_imagenome", "**/scene_graph.zip", read_scene_graph),
    ("chest_imagenome", "**/test.csv", read_scene_graph),
    ("cholec80", "tool_annotations/*.txt", lambda root, file: cholec80.read_tools(root, parse_video_number(file))),
    ("cholec80", "videos/*.mp4", lambda root, file: cholec80.open_frame(file, 0)),
    ("cholec80_boxes", "ROI_Labels.csv", lambda root, file: cholec80_boxes.read_frames(root)),
    *(
        ("cholect45", f"{component}/*.txt", read_cholect45_video)
        for component in ("triplet", "instrument", "verb", "target")
    ),
    ("cholect45", "dict/maps.txt", lambda root, file: cholect45.check_maps(root)),
    ("nih_cxr14", "Data_Entry*.csv", lambda root, file: nih_cxr14.read_images(file)),
    ("nih_cxr14", "BBox*.csv", read_nih_boxes),
    ("nih_cxr14", "test_list.txt", read_test_list),
    ("chexmask", "*/*.csv", read_chexmask),
    ("cholect50", "labels/*.json", lambda root, file: cholect50.read_video(root, parse_video_number(file))),
    ("cholecseg8k", "video01/*/*_watershed_mask.png", read_class_mask),
]

Find = Callable[[Path], object]
# Source, pattern of a file that may be missing (first match by name), function that finds it.
FINDERS: list[tuple[str, str, Find]] = [
    ("chexpert", "*/train.csv", chexpert.find_label_files),
    ("chexlocalize", "*/gt_*val.json", chexlocalize.find_mask_files),
    ("openi", "ecgen-radiology/*.xml", openi.find_label_files),
    ("chexstruct", "openi/cardiomegaly.csv", chexstruct.read_labels),
    ("rexvqa", "metadata/test*.json", lambda root: rexvqa.label_file(root, "test")),
    ("vindr_cxr", "annotations/annotations_train.csv", vindr_cxr.find_label_files),
    ("vindr_cxr", "annotations/annotations_test.csv", vindr_cxr.find_label_files),
    ("mimic_cxr", "*negbio.csv.gz", mimic_cxr.find_label_files),
    ("chest_imagenome", f"{GOLD}*all_sentences*.txt", chest_imagenome.find_label_files),
    ("nih_cxr14", "Data_Entry*.csv", nih_cxr14.find_label_files),
    ("nih_cxr14", "BBox*.csv", nih_cxr14.find_label_files),
    ("nih_cxr14", "test_list.txt", nih_cxr14.find_label_files),
    ("chexmask", "*/*.csv", chexmask.find_label_file),
    ("cholect45", "triplet/*.txt", cholect45.videos),
    ("cholect50", "labels/*.json", cholect50.videos),
]


def apply_unpacked(change: Callable[[bytes], bytes]) -> Callable[[bytes], bytes]:
    """Apply the change to the content of an archive if the file is one."""
    return lambda data: gzip.compress(change(gzip.decompress(data)), 1) if data[:2] == b"\x1f\x8b" else change(data)


def apply_to_lines(change: Callable[[list[bytes]], list[bytes]]) -> Callable[[bytes], bytes]:
    return apply_unpacked(lambda data: b"\n".join(change(data.split(b"\n"))))


def set_first_value(value: bytes) -> Callable[[bytes], bytes]:
    """Replace the first number of the second line (JSON: the first number of the file)."""

    def change(data: bytes) -> bytes:
        start = 0 if data[:1] in b"[{<" else data.find(b"\n") + 1
        at = next((n for n in range(start, len(data)) if data[n : n + 1].isdigit()), len(data))
        end = next((n for n in range(at, len(data)) if not data[n : n + 1].isdigit()), len(data))
        return data[:at] + value + data[end:]

    return apply_unpacked(change)


def add_noise(seed: int) -> Callable[[bytes], bytes]:
    def change(data: bytes) -> bytes:
        rng, damaged = random.Random(seed), bytearray(data)
        for _ in range(1 + len(damaged) // 200):
            if damaged:
                damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        return bytes(damaged)

    return apply_unpacked(change)


CHANGES: dict[str, Callable[[bytes], bytes]] = {
    "nothing is in it": lambda data: b"",
    "a blank line": apply_unpacked(lambda data: b"\n"),
    "half": lambda data: data[: len(data) // 2],
    "its last byte is gone": lambda data: data[:-1],
    "its first bytes are gone": lambda data: data[3:],
    "zeros": lambda data: bytes(len(data)),
    "a page of a website": lambda data: b"<!DOCTYPE html><html><body>Sign in</body></html>",
    "a pointer of Git LFS": lambda data: b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n",
    "packed": lambda data: gzip.compress(data, 1),
    "UTF-16": apply_unpacked(lambda data: data.decode("latin-1").encode("utf-16")),
    "a byte order mark": apply_unpacked(lambda data: b"\xef\xbb\xbf" + data),
    "no UTF-8": apply_unpacked(lambda data: data[:50] + b"\xff\xfe\x80" + data[50:]),
    "NUL": apply_unpacked(lambda data: data[:50] + b"\0" + data[50:]),
    "an escape sequence": apply_unpacked(lambda data: b"\x1b[31m" + data),
    "a quote that never closes": apply_unpacked(lambda data: data[:60] + b'"' + data[60:]),
    "nested": lambda data: b"[" * 20_000,
    "nested objects": lambda data: b'{"a":' * 20_000,
    "no header": apply_to_lines(lambda rows: rows[1:]),
    "a header alone": apply_to_lines(lambda rows: rows[:1]),
    "its rows twice": apply_to_lines(lambda rows: rows + rows[1:]),
    "a column more": apply_to_lines(lambda rows: [row + b",1" for row in rows]),
    "a short row": apply_to_lines(lambda rows: [*rows[:1], b"1", *rows[1:]]),
    "other separators": apply_unpacked(lambda data: data.replace(b",", b";").replace(b"\t", b"|")),
    "5,000 digits": set_first_value(b"1" * 5_000),
    "no number": set_first_value(b"NaN"),
    "infinite": set_first_value(b"1e999"),
    "negative": set_first_value(b"-7"),
    "half a character": set_first_value(b'"\\ud800"'),
    "a megabyte in a cell": set_first_value(b"x" * (1 << 20)),
    "a list for a number": set_first_value(b"[[]]"),
    "noise": add_noise(0),
    "other noise": add_noise(1),
}


def write_changed(file: Path, change: Callable[[bytes], bytes]) -> None:
    file.write_bytes(change(file.read_bytes()))


def make_folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


def make_pipe(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


def make_dangling_link(file: Path) -> None:
    file.unlink()
    file.symlink_to(file.name + ".gone")


def make_circular_link(file: Path) -> None:
    file.unlink()
    file.symlink_to(file.name)


DAMAGES = {
    **{name: partial(write_changed, change=change) for name, change in CHANGES.items()},
    "missing": Path.unlink, "a folder": make_folder, "a pipe": make_pipe, "a link to itself": make_circular_link,
    "a link to nothing": make_dangling_link,
}  # fmt: skip


# ---- odd layouts, in which no row is missing


def quote_two_rows(rows: list[bytes]) -> list[bytes]:
    """Put a stray quote at the start of the last cell of one row, and of the first cell of a later one."""
    sign = next((sign for sign in (b",", b"\t", b"|", b" ") if sign in rows[0]), b",")
    middle, last = len(rows) // 2, len(rows) - 2
    if last <= middle:
        return rows
    head, _, tail = rows[middle].rpartition(sign)
    return [*rows[:middle], head + sign + b'"' + tail, *rows[middle + 1 : last], b'"' + rows[last], *rows[last + 1 :]]


def enclose_two_rows(rows: list[bytes]) -> list[bytes]:
    """Put the end of one row and all of the next into one quoted cell."""
    sign = next((sign for sign in (b",", b"\t", b"|", b" ") if sign in rows[0]), b",")
    if len(rows) < 4:
        return rows
    head, _, tail = rows[1].rpartition(sign)
    return [rows[0], head + sign + b'"' + tail, rows[2] + b'"', *rows[3:]]


ODD: dict[str, Callable[[bytes], bytes]] = {
    "a byte order mark": apply_unpacked(lambda data: b"\xef\xbb\xbf" + data),
    "line ends of Windows": apply_unpacked(lambda data: data.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")),
    "line ends of old Macs": apply_unpacked(lambda data: data.replace(b"\r\n", b"\n").replace(b"\n", b"\r")),
    "blank lines at the end": apply_unpacked(lambda data: data + b"\n\n\n"),
    "blank lines at the start": apply_unpacked(lambda data: b"\n\n" + data),
    "blank lines between": apply_unpacked(lambda data: data.replace(b"\n", b"\n\n")),
    "no last line end": apply_unpacked(lambda data: data.rstrip(b"\r\n")),
    "semicolons": apply_unpacked(lambda data: data.replace(b",", b";")),
    "tabs": apply_unpacked(lambda data: data.replace(b",", b"\t")),
    "two stray quotes": apply_to_lines(quote_two_rows),
    "a quoted row": apply_to_lines(enclose_two_rows),
    "capitals in the header": apply_to_lines(lambda rows: [rows[0].swapcase(), *rows[1:]]),
    "its header again": apply_to_lines(lambda rows: [*rows[: len(rows) // 2], rows[0], *rows[len(rows) // 2 :]]),
    "an index": apply_to_lines(
        lambda rows: [b"," + rows[0], *(b"%d," % n + row for n, row in enumerate(rows[1:]) if row)]
    ),
    "a title": apply_to_lines(lambda rows: [b"exported", *rows]),
    "spaces": apply_unpacked(lambda data: data.replace(b",", b" , ")),
    "a sign more in each row": apply_to_lines(lambda rows: [row + b"," if row else row for row in rows]),
    "packed": lambda data: gzip.compress(data, 1),
    "unpacked": lambda data: gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data,
    "UTF-16": apply_unpacked(lambda data: data.decode("latin-1").encode("utf-16")),
}


def count_records(value: Any) -> int:
    """Count the records in whatever a reader returns: rows of tables, and leaves of collections."""
    if isinstance(value, pa.Table | datasets.Dataset):
        return value.num_rows
    if isinstance(value, Mapping):
        return sum(map(count_records, value.values()))
    if isinstance(value, Iterator | Sequence | Set) and not isinstance(value, str | bytes):
        return sum(map(count_records, value))
    if dataclasses.is_dataclass(value):
        return sum(count_records(getattr(value, field.name)) for field in dataclasses.fields(value))
    return 1
