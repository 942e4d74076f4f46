"""Odd folders: a copy of a source that is nested, linked, doubled, renamed or packed; no label is missing from it."""

from __future__ import annotations

import os
import shutil
import zipfile
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import groupby, product
from pathlib import Path

from medfaith.loaders import (
    anatomy_masks,
    chest_imagenome,
    chest_imagenome_silver,
    chexlocalize,
    chexpert,
    chexstruct,
    cholec80,
    cholec80_boxes,
    cholecseg8k,
    cholect45,
    cholect50,
    detections,
    mimic_cxr,
    nih_cxr14,
    openi,
    rexvqa,
    vindr_cxr,
)
from tests.support.loaders.damage import count_records, read_chexmask, read_nih_boxes, read_test_list
from tests.support.tiers import choose_size

LABEL_SUFFIXES = (".csv", ".txt", ".json", ".gz", ".tgz", ".xml", ".zip", ".jsonl", ".mp4")
Counts = dict[str, int]


def count_chexlocalize(root: Path) -> Counts:
    masks = {split: chexlocalize.read_masks(path, split) for split, path in chexlocalize.find_mask_files(root).items()}
    return count_chexpert(root) | {f"masks of {split}": count_records(records) for split, records in masks.items()}


def count_chexpert(root: Path) -> Counts:
    paths = chexpert.find_label_files(root)
    return {split: chexpert.read_labels(path, split).num_rows for split, path in paths.items()}


def count_vindr(root: Path) -> Counts:
    paths = vindr_cxr.find_label_files(root)
    return {split: vindr_cxr.read_annotations(path, split).boxes.num_rows for split, path in paths.items()}


def count_mimic(root: Path) -> Counts:
    labelers = [labeler for labeler in mimic_cxr.LABELERS if labeler in mimic_cxr.find_label_files(root)]
    return {"images": mimic_cxr.read_images(root).num_rows} | {
        labeler: count_records(mimic_cxr.read_labels(root, labeler)) for labeler in labelers
    }


def count_nih(root: Path) -> Counts:
    paths = nih_cxr14.find_label_files(root)
    return {
        "images": nih_cxr14.read_images(paths["images"]).num_rows,
        "boxes": count_records(read_nih_boxes(root, paths["boxes"])),
        "test": count_records(read_test_list(root, root)),
    }


def count_imagenome(root: Path) -> Counts:
    paths = chest_imagenome.find_label_files(root)
    readers = {
        "gold": chest_imagenome.read_gold,
        "anatomy": chest_imagenome.read_anatomy,
        "all_sentences": chest_imagenome.read_all_sentences,
    }
    return {kind: count_records(read(root)) for kind, read in readers.items() if kind in paths}


def count_scene_graphs(root: Path) -> Counts:
    splits = {split: chest_imagenome_silver.read_split(root, split) for split in ("train", "validation", "test")}
    with chest_imagenome_silver.SceneGraphs(root) as graphs:
        graph = graphs.read(splits["test"]["dicom_id"][0].as_py())
    return {split: table.num_rows for split, table in splits.items()} | {"graph": count_records(graph)}


def count_videos(root: Path, *, videos: Callable[[Path], Iterable[int]], read: Callable[[Path, int], object]) -> Counts:
    return {str(video): count_records(read(root, video)) for video in videos(root)}


def count_detections(root: Path) -> Counts:
    names = [path.stem for path in root.glob("????????-*[0-9a-f].txt")]
    return {"boxes": len(detections.read_detections(root, names, sizes=dict.fromkeys(names, (256, 256))).boxes)}


def count_rexvqa(root: Path) -> Counts:
    return {split: len(rexvqa.read_items(rexvqa.label_file(root, split))) for split in rexvqa.SPLITS}


COUNTERS: dict[str, Callable[[Path], Counts]] = {
    "chexpert": count_chexpert,
    "chexlocalize": count_chexlocalize,
    "openi": lambda root: {"reports": len(openi.read_reports(root))},
    "chexstruct": lambda root: {"labels": count_records(chexstruct.read_labels(root))},
    "rexvqa": count_rexvqa,
    "mimic_cxr": count_mimic,
    "mimic_cxr_anatomy": lambda root: {"images": len([*anatomy_masks.open_masks(root)])},
    "mimic_cxr_detections": count_detections,
    "vindr_cxr": count_vindr,
    "vindr_cxr_anatomy": lambda root: {"images": len([*anatomy_masks.open_masks(root)])},
    "nih_cxr14": count_nih,
    "chexmask": lambda root: {"masks": count_records(read_chexmask(root, root))},
    "chest_imagenome": count_imagenome,
    "cholec80": partial(count_videos, videos=cholec80.videos, read=cholec80.read_tools),
    "cholec80_boxes": lambda root: {"frames": len([*cholec80_boxes.read_frames(root)])},
    "cholect45": partial(count_videos, videos=cholect45.videos, read=cholect45.read_video),
    "cholect50": partial(count_videos, videos=cholect50.videos, read=cholect50.read_video),
    "cholecseg8k": lambda root: {"frames": len(cholecseg8k.list_frames(root))},
}


def copy_tree(root: Path, out: Path) -> Path:
    """Copy a folder by hard links."""
    shutil.copytree(root, out, copy_function=os.link)
    return out


def nest(root: Path, out: Path, depth: int) -> Path:
    copy_tree(root, out.joinpath(*["download"] * depth))
    return out


def link(root: Path, out: Path) -> Path:
    out.symlink_to(root)
    return out


def link_entries(root: Path, out: Path) -> Path:
    out.mkdir()
    for path in root.iterdir():
        (out / path.name).symlink_to(path)
    return out


def add_copy(root: Path, out: Path) -> Path:
    copy_tree(root, copy_tree(root, out) / "copy")
    return out


def add_hidden_files(root: Path, out: Path) -> Path:
    """Add the files of macOS and Windows to each folder."""
    copy_tree(root, out)
    for folder in [out, *(path for path in out.rglob("*") if path.is_dir())]:
        for path in [path for path in folder.iterdir() if path.is_file()]:
            (folder / f"._{path.name}").write_bytes(b"\0\5\x16\7")
        for name in (".DS_Store", "Thumbs.db", "desktop.ini"):
            (folder / name).write_bytes(b"\0\0\0\1Bud1")
    return out


FOLDERS: dict[str, Callable[[Path, Path], Path]] = {
    "nested": partial(nest, depth=1),
    "nested twice": partial(nest, depth=2),
    "a link": link,
    "links": link_entries,
    "odd characters": lambda root, out: copy_tree(root, out.with_name("a [folder], with 'ünicode' & 100 % #")),
    "a copy inside": add_copy,
    "hidden files": add_hidden_files,
}


def change_case(path: Path) -> None:
    path.rename(path.with_name(path.name.swapcase()))


def mark_copy(path: Path) -> None:
    path.rename(path.with_name(f"{path.stem} (1){path.suffix}"))


def add_marked_copy(path: Path) -> None:
    shutil.copyfile(path, path.with_name(f"{path.stem} (1){path.suffix}"))


def pack(path: Path) -> None:
    with zipfile.ZipFile(path.with_name(f"{path.name}.zip"), "w") as archive:
        archive.write(path, path.name)
    path.unlink()


def link_file(path: Path) -> None:
    elsewhere = path.rename(path.with_name(f"{path.name}.elsewhere"))
    path.symlink_to(elsewhere)


FILES: dict[str, Callable[[Path], None]] = {
    "other case": change_case,
    "renamed by a browser": mark_copy,
    "downloaded twice": add_marked_copy,
    "packed": pack,
    "a linked file": link_file,
}


def iterate_odd_folders(root: Path, scratch: Path) -> Iterator[tuple[str, Path]]:
    """Iterate over odd versions of a copy: name, root. In the regular run each label file has half of the changes."""
    for name, make in FOLDERS.items():
        yield name, make(root, scratch / name.replace(" ", "-"))
    labels = [path.relative_to(root) for path in sorted(root.rglob("*")) if path.suffix in LABEL_SUFFIXES]
    labels_by_folder = {folder: [*group] for folder, group in groupby(labels, key=lambda label: label.parent)}
    firsts_and_lasts = {label for group in labels_by_folder.values() for label in (group[0], group[-1])}
    changes = [*product(sorted(firsts_and_lasts), FILES)]
    for number, (label, name) in enumerate(changes[:: choose_size(2, 1)]):  # an odd number of kinds: they alternate
        copy = copy_tree(root, scratch / f"file-{number}")
        FILES[name](copy / label)
        yield f"{label}: {name}", copy
    for number, folder in enumerate(folder for folder in labels_by_folder if folder != Path()):
        copy = copy_tree(root, scratch / f"folder-{number}")
        change_case(copy / folder)
        yield f"{folder}: other case", copy
