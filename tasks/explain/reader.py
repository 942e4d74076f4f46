"""A handle to a model's heatmaps, which documents carry; sample logs do not contain their folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from medfaith.loaders.errors import InputError

if TYPE_CHECKING:
    from medfaith.tasks.explain.store import Entry

_NAME_FOLDER = 'pass --heatmaps DIR to medfaith eval, or --metadata \'{"heatmaps": "DIR"}\' to lm_eval'


class HeatmapReader:
    """Reads the heatmaps that models store in one folder. Its text is empty, so that sample logs contain no path.

    Args:
        folder: The folder, or None.
    """

    def __init__(self, folder: str | None) -> None:
        self._folder = Path(folder).expanduser() if folder else None

    def __str__(self) -> str:
        return ""

    def check(self, store: str | Path) -> None:
        """Check that a model's store is the folder of this reader.

        Args:
            store: Folder in which a model stores heatmaps.

        Raises:
            InputError: The folders differ, or the reader has none.
        """
        place = f"store={store}"
        if self._folder is None:
            raise InputError(place, "the model keeps heatmaps, but their folder was not named", action=_NAME_FOLDER)
        if self._folder.resolve() != Path(store).expanduser().resolve():
            raise InputError(
                place,
                f"heatmaps are read from another folder, {self._folder}",
                expected="one folder for both",
                action=_NAME_FOLDER,
            )

    def entry(self, reference: str, row_id: str, size: tuple[int, int]) -> Entry:
        """Read the stored entry of a model's answer to a row.

        Args:
            reference: Reference to the heatmaps in the answer (explain.store).
            row_id: Id of the row.
            size: (height, width) of the row's image.

        Returns:
            The heatmaps, with their geometry.

        Raises:
            InputError: The reader has no folder, the folder has no heatmaps of this answer, or they belong to an image
                of another size.
        """
        from medfaith.tasks.explain.store import open_store

        if self._folder is None:
            raise InputError(
                f"row {row_id}", "the answer refers to heatmaps, but their folder was not named", action=_NAME_FOLDER
            )
        entry = open_store(self._folder).read(reference, row_id)
        if entry.geometry.size != size:
            problem = f"heatmaps of an image of {entry.geometry.size[1]} x {entry.geometry.size[0]} pixels"
            expected, action = f"{size[1]} x {size[0]}, as the row says", "use the source's original images"
            raise InputError(f"row {row_id}", problem, expected=expected, action=action)
        return entry

    def read(self, reference: str, row_id: str, size: tuple[int, int]) -> tuple[dict[str, np.ndarray], Any]:
        """Read the heatmaps of a model's answer to a row.

        Args:
            reference: As in `entry`.
            row_id: As in `entry`.
            size: As in `entry`.

        Returns:
            Class -> heatmap (height, width) in image pixels, and the geometry of the model's view (explain.geometry).

        Raises:
            InputError: As `entry`.
        """
        from medfaith.tasks.explain.geometry import to_frame

        entry = self.entry(reference, row_id, size)
        if not entry.maps:
            return {}, entry.geometry
        maps = to_frame(np.stack(list(entry.maps.values())), entry.geometry)
        return dict(zip(entry.maps, maps, strict=True)), entry.geometry
