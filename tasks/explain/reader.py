"""A handle to the heatmaps of a model, which documents carry; a sample log does not name their folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from medfaith.loaders.errors import InputError

if TYPE_CHECKING:
    from medfaith.tasks.explain.store import Entry

_NAME_IT = 'pass --heatmaps DIR to medfaith eval, or --metadata \'{"heatmaps": "DIR"}\' to lm_eval'


class HeatmapReader:
    """The heatmaps that models keep in one folder. Its text is empty, so that a sample log names no folder."""

    def __init__(self, folder: str | None) -> None:
        self._folder = Path(folder).expanduser() if folder else None

    def __str__(self) -> str:
        return ""

    def check(self, store: str | Path) -> None:
        """Raises InputError where `store`, in which a model keeps its heatmaps, is not the folder that was named."""
        where = f"store={store}"
        if self._folder is None:
            raise InputError(where, "the model keeps heatmaps, but their folder was not named", action=_NAME_IT)
        if self._folder.resolve() != Path(store).expanduser().resolve():
            raise InputError(
                where,
                f"heatmaps are read from another folder, {self._folder}",
                expected="one folder for both",
                action=_NAME_IT,
            )

    def entry(self, reference: str, row_id: str, size: tuple[int, int]) -> Entry:
        """What the store holds of a model's answer to a row.

        Args:
            reference: the reference to its heatmaps in the answer (explain.store).
            size: (height, width) of the row's image.

        Raises:
            InputError: no folder was named, or it holds no heatmaps of that answer, or those of an image of another
                size.
        """
        from medfaith.tasks.explain.store import open_store

        if self._folder is None:
            raise InputError(
                f"row {row_id}", "the answer refers to heatmaps, but their folder was not named", action=_NAME_IT
            )
        entry = open_store(self._folder).read(reference, row_id)
        if entry.geometry.size != size:
            found = f"heatmaps of an image of {entry.geometry.size[1]} x {entry.geometry.size[0]} pixels"
            expected, action = f"{size[1]} x {size[0]}, as the row says", "use the source's original images"
            raise InputError(f"row {row_id}", found, expected=expected, action=action)
        return entry

    def read(self, reference: str, row_id: str, size: tuple[int, int]) -> tuple[dict[str, np.ndarray], Any]:
        """Class -> its heatmap (height, width) in the image's pixels, and what the model saw (explain.geometry).

        Arguments and errors as of `entry`.
        """
        from medfaith.tasks.explain.geometry import to_frame

        entry = self.entry(reference, row_id, size)
        if not entry.maps:
            return {}, entry.geometry
        maps = to_frame(np.stack(list(entry.maps.values())), entry.geometry)
        return dict(zip(entry.maps, maps, strict=True)), entry.geometry
