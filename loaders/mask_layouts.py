"""The layouts in which masks are stored, one class each; `anatomy_masks` describes them and chooses one."""

from __future__ import annotations

import math
import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from pathlib import Path
from typing import Any, Self

import numpy as np
from PIL import Image

from . import coco, limits, rle
from .coco import normalize_label
from .errors import InputError
from .rle import Rle
from .sources import LEFTOVERS

CXAS_MASKS = 159
_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
ACTION = "give the folder that the segmenter wrote, or write the masks in one of the layouts of anatomy_masks"

Size = tuple[int, int]


class Layout(ABC):
    """One way to store masks in files.

    Attributes:
        places: The file or folder of each image, by image id.
    """

    def __init__(self, places: Mapping[str, Path]) -> None:
        self.places = places

    def list_files(self, image_id: str) -> Iterable[Path]:
        """List the files with the masks of an image.

        Args:
            image_id: The image.

        Returns:
            The paths.
        """
        return [self.places[image_id]]

    def select(self, image_ids: Iterable[str]) -> Self:
        """Select images, and hold no more data than they need.

        Args:
            image_ids: The images; those without masks are skipped.

        Returns:
            A layout of these images.
        """
        subset = copy(self)
        subset.places = {image_id: self.places[image_id] for image_id in image_ids if image_id in self.places}
        return subset

    def get_declared_size(self, image_id: str) -> Size | None:
        """Return the size of the image itself, if a file states it.

        Args:
            image_id: The image.

        Returns:
            (width, height) in pixels, or None.
        """
        return None

    @abstractmethod
    def read(self, image_id: str) -> dict[str, Rle]:
        """Read the masks of an image as stored.

        Args:
            image_id: The image.

        Returns:
            The masks by name of structure or anatomy.

        Raises:
            InputError: A file is damaged.
        """


def open_layout(root: Path, names: Mapping[str, str], indices: Mapping[str, int]) -> Layout:
    """Open the masks below a folder or in one COCO JSON file, in the layout that they have.

    Args:
        root: The folder, or the COCO file.
        names: Normalized label -> name of the structure or anatomy.
        indices: Name of a structure -> its number among the masks of CXAS.

    Returns:
        The layout, which reads the masks of an image by these names.

    Raises:
        InputError: `root` has no layout or several ones.
    """
    kind, paths = _find_layout(root)
    if kind == ".png":
        return _PngFolders(paths, names)
    if kind == ".json":
        return (_CocoPerImage if _is_per_image(paths, names) else _CocoFiles)(paths, names)
    return _Arrays(paths, indices)


class _PngFolders(Layout):
    """Layout <image>/<label>.png."""

    def __init__(self, folders: Sequence[Path], names: Mapping[str, str]) -> None:
        super().__init__(_index_by_image(folders, (folder.name for folder in folders)))
        self._names = names

    def _list_pictures(self, image_id: str) -> dict[str, Path]:
        pictures: dict[str, Path] = {}
        for path in sorted(self.places[image_id].glob("*.png")):
            name = self._names.get(normalize_label(path.stem))
            if name in pictures:
                raise InputError(path, f"a second mask of {name!r}, next to {pictures[name].name}", action="keep one")
            if name is not None:
                pictures[name] = path
        return pictures

    def list_files(self, image_id: str) -> Iterable[Path]:
        return self._list_pictures(image_id).values()

    def read(self, image_id: str) -> dict[str, Rle]:
        return {name: rle.encode(_read_png(path)) for name, path in self._list_pictures(image_id).items()}


def _read_png(path: Path) -> np.ndarray:
    expected = "a PNG of 1 bit a pixel, or of grey levels 0 and one other"
    try:
        with Image.open(path, formats=("PNG",)) as image:
            levels = image.getcolors(2) if image.mode in ("1", "L") else None
            mask = np.asarray(image)
    except Exception as error:  # the decoder raises many types of error on corrupt files
        raise InputError(path, f"damaged ({error})", expected=expected, action=ACTION) from error
    if levels is None:
        raise InputError(path, "not a mask: colours or more than two grey levels", expected=expected, action=ACTION)
    if len(levels) == 2 and 0 not in (level for _, level in levels):
        raise InputError(path, "not a mask: two grey levels, neither of them 0", expected=expected, action=ACTION)
    return mask


class _Arrays(Layout):
    """Layout <image>.npz or <image>.npy, each with the 159 masks of CXAS."""

    def __init__(self, paths: Sequence[Path], indices: Mapping[str, int]) -> None:
        super().__init__(_index_by_image(paths, (path.stem for path in paths)))
        self._indices = indices

    def read(self, image_id: str) -> dict[str, Rle]:
        path = self.places[image_id]
        expected = f"an array of bool or uint8, shape ({CXAS_MASKS}, height, width)"
        try:
            if path.suffix == ".npy":
                stack = np.load(path, mmap_mode="r", allow_pickle=False)  # only a few of 159 masks are read
            else:
                with np.load(path, allow_pickle=False) as arrays:
                    _check_header(arrays)
                    stack = arrays[arrays.files[0]]
        except Exception as error:  # zipfile, zlib and numpy raise many types of error on corrupt files
            raise InputError(path, f"damaged or no array ({error})", expected=expected, action=ACTION) from error
        if stack.ndim != 3 or len(stack) != CXAS_MASKS or not stack.size or stack.dtype not in (np.bool_, np.uint8):
            raise InputError(path, f"{stack.dtype} of shape {stack.shape}", expected=expected, action=ACTION)
        return {name: rle.encode(np.asarray(stack[index])) for name, index in self._indices.items()}


def _check_header(arrays: Any) -> None:
    """Raise ValueError unless the first array claims its true size in the archive, before memory is allocated.

    Each array's header in a .npz says how large it is, and the archive's directory says how many bytes there are.
    """
    (entry, *_) = arrays.zip.infolist()
    with arrays.zip.open(entry) as member:
        version = np.lib.format.read_magic(member)
        if version not in _HEADERS:
            raise ValueError(f"version {version} of numpy's format, which arrays of masks never have")
        shape, _, dtype = _HEADERS[version](member)
        claimed, held = math.prod(shape) * dtype.itemsize, entry.file_size - member.tell()
    if claimed != held:
        raise ValueError(f"its header claims {claimed:,} bytes, and it holds {held:,}")
    if claimed > CXAS_MASKS * limits.MASK_PIXELS:
        raise ValueError(f"{claimed:,} bytes are more than {CXAS_MASKS} masks of {limits.MASK_PIXELS:,} pixels")


class _CocoFiles(Layout):
    """Layout of COCO files with many images each, parsed at once; the RLEs are validated when an image is read."""

    def __init__(self, paths: Iterable[Path], names: Mapping[str, str]) -> None:
        self._images: dict[str, coco.CocoImage] = {}
        for path in paths:
            images = coco.read_masks(path, names)
            for image_id in sorted(images.keys() & self._images.keys()):
                problem = f"image {image_id!r} is also in {self._images[image_id].path.name}"
                raise InputError(path, problem, expected="each image once", action=ACTION)
            self._images |= images
        super().__init__({image_id: image.path for image_id, image in self._images.items()})

    def select(self, image_ids: Iterable[str]) -> Self:
        subset = super().select(image_ids)
        subset._images = {image_id: self._images[image_id] for image_id in subset.places}
        return subset

    def get_declared_size(self, image_id: str) -> Size | None:
        return self._images[image_id].size

    def read(self, image_id: str) -> dict[str, Rle]:
        return self._images[image_id].read()


class _CocoPerImage(Layout):
    """Layout <image>.json, opened image by image."""

    def __init__(self, paths: Sequence[Path], names: Mapping[str, str]) -> None:
        super().__init__(_index_by_image(paths, (path.stem for path in paths)))
        self._names = names

    def get_declared_size(self, image_id: str) -> Size | None:
        return self._read_image(image_id).size

    def read(self, image_id: str) -> dict[str, Rle]:
        return self._read_image(image_id).read()

    def _read_image(self, image_id: str) -> coco.CocoImage:
        images = coco.read_masks(self.places[image_id], self._names)
        if set(images) != {image_id}:
            problem = f"holds the masks of {', '.join(sorted(images)[:3]) or 'no image'}"
            raise InputError(self.places[image_id], problem, expected=f"those of {image_id}, as its name says")
        return images[image_id]


def _index_by_image(paths: Iterable[Path], image_ids: Iterable[str]) -> dict[str, Path]:
    """Map image ids to paths. Raise InputError if an image occurs twice: it is not known which masks are right."""
    places: dict[str, Path] = {}
    for image_id, path in zip(image_ids, paths, strict=True):
        if image_id in places:
            raise InputError(path, f"image {image_id!r} has masks in {places[image_id]}, too", action="keep one")
        places[image_id] = path
    return places


def _find_layout(root: Path) -> tuple[str, list[Path]]:
    """Find the one kind of mask file (its suffix), and the files, or the folders of the png files.

    They are at the top of `root`. Without any there, they are in its folders at any depth: a segmenter that is run for
    each study writes a tree like that of MIMIC-CXR.
    """
    if root.is_file() and root.suffix == ".json":
        return ".json", [root]
    if not root.is_dir():
        raise InputError(root, "neither a folder nor a COCO file", expected="a folder, or a .json", action=ACTION)
    paths_by_kind = _group_by_kind(root.iterdir()) or _group_by_kind(_iterate_tree(root))
    if len(paths_by_kind) != 1:
        kinds = ", ".join(sorted(paths_by_kind))
        problem = f"holds masks of several kinds ({kinds})" if kinds else "holds no masks"
        expected = "one kind: *.json, *.npz, *.npy or */*.png, at the top or in folders"
        raise InputError(root, problem, expected=expected, action=ACTION)
    return next(iter(paths_by_kind.items()))


def _group_by_kind(entries: Iterable[Path]) -> dict[str, list[Path]]:
    """Group the files with masks by their suffix, and the folders of png files below ".png"; each group is sorted."""
    paths_by_kind: dict[str, list[Path]] = {}
    for path in sorted(entries):
        if path.name.startswith(LEFTOVERS):
            continue
        if path.suffix in (".json", ".npz", ".npy"):
            paths_by_kind.setdefault(path.suffix, []).append(path)
        elif path.is_dir() and next(path.glob("*.png"), None):
            paths_by_kind.setdefault(".png", []).append(path)
    return paths_by_kind


def _iterate_tree(root: Path) -> Iterator[Path]:
    """Iterate over files and folders below a root, at any depth, except for hidden ones and those of macOS."""
    for folder, folders, files in os.walk(root):
        folders[:] = [name for name in folders if not name.startswith(LEFTOVERS)]
        yield from (Path(folder, name) for name in (*folders, *files) if not name.startswith("."))


def _is_per_image(paths: Sequence[Path], names: Mapping[str, str]) -> bool:
    """Return whether each COCO file has the name of its one image; the first one decides, and reading checks each."""
    return set(coco.read_masks(paths[0], names)) == {paths[0].stem}
