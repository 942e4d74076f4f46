"""The silver sentences of Chest ImaGenome as rows: sentences in scene graphs that programs made, without gold patients.

The paper trains its models on them (section 4.1). There are a quarter of a million graphs, so the rows of an image are
Python objects only until they are in a table.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from ...loaders.chest_imagenome_silver import ZIP, SceneGraphs, find_split_file, parse, read_split
from ...loaders.errors import InputError
from ..parallel import HERE, Workers
from .reasons import IN_TWO, NO_GRAPH, NO_IMAGE, NO_TEXT, OF_GOLD, SILVER, SPLITS, SUBSETS
from .sentences import build_sentence, mean_overlap, select_least_overlapping

AVOID = "avoid"
AT_ONCE = 500  # images whose rows are in memory at once


class SplitRecord(NamedTuple):
    """What build.json says about a split, other than its rows.

    Attributes:
        counted: Counts by reason.
        sha256: The hash of its scene graphs. It does not depend on their packing.
    """

    counted: Counter[str]
    sha256: str


@dataclass
class Silver:
    """The silver dataset.

    Attributes:
        root: The folder of Chest ImaGenome.
        splits: The list of images of each split, without images of gold patients.
        n_of_gold: Number of images of gold patients in each split.
        images: The result of `mimic_cxr.read_images`.
        workers: The workers that read the graphs.
        records: The record of each split whose table was built.
    """

    root: Path
    splits: Mapping[str, pa.Table]
    n_of_gold: Mapping[str, int]
    images: pa.Table
    workers: Workers
    records: dict[str, SplitRecord] = field(default_factory=dict)

    @property
    def counted(self) -> Counter[str]:
        """The counts of all built splits, by split and reason."""
        counts = Counter({IN_TWO: _count_shared_patients(self.splits)})
        for split, record in self.records.items():
            counts.update({SILVER[split][reason]: n for reason, n in record.counted.items()})
        return counts

    @property
    def find_label_files(self) -> list[Path]:
        """The lists of images. The hashes of the graphs are in `records`."""
        return [find_split_file(self.root, split) for split in (*SPLITS, AVOID)]

    def build_table(self, split: str, schema: pa.Schema, benchmark: str) -> pa.Table:
        """Build the rows of a split, in the order of its list and of each graph.

        Args:
            split: The name of the split.
            schema: The Arrow schema of the rows.
            benchmark: The prefix of the ids.

        Returns:
            The rows.

        Raises:
            InputError: Graphs are missing or damaged, MIMIC-CXR-JPG assigns an image to another study, or there is no
                row.
        """
        image_list, counted, digest = self.splits[split], Counter({OF_GOLD: self.n_of_gold[split]}), hashlib.sha256()
        positions = pc.index_in(
            image_list["dicom_id"].combine_chunks(), value_set=self.images["dicom_id"].combine_chunks()
        )
        batches, overlaps = [], []
        tasks = (
            (
                image_list["dicom_id"].slice(start, AT_ONCE).to_pylist(),
                self.images.take(positions.slice(start, AT_ONCE)).to_pylist(),
            )
            for start in range(0, len(positions), AT_ONCE)
        )
        with self.workers.map(
            partial(_build_batch, root=self.root, schema=schema, benchmark=benchmark), tasks, reads=[self.root],
            title=f"reading graphs of {split}", unit="images", total=len(positions), length=lambda task: len(task[0]),
        ) as results:  # fmt: skip
            for batch in results:
                batches.append(batch.rows)
                overlaps += batch.overlaps
                counted.update(batch.counted)
                digest.update(batch.digests)
        _open_graphs.cache_clear()
        if not overlaps:
            reasons = "".join(f"; {n} {reason}" for reason, n in (+counted).items())
            action = "check that both roots are complete and of the same release"
            raise InputError(find_split_file(self.root, split), f"no sentence of its images{reasons}", action=action)
        table = _set_mdrb(pa.Table.from_batches(batches, schema), select_least_overlapping(overlaps))
        subsets = table["subsets"].combine_chunks()
        counted.update({text: pc.sum(subsets.field(name)).as_py() for name, text in SUBSETS.items()})
        self.records[split] = SplitRecord(counted, digest.hexdigest())
        return table


def read_silver(root: Path, images: pa.Table, gold: Collection[str], workers: Workers = HERE) -> Silver:
    """Read the splits without the images of gold patients: those in `gold` and in images_to_avoid.csv.

    Args:
        root: The folder of Chest ImaGenome.
        images: The result of `mimic_cxr.read_images`.
        gold: The ids of gold patients.
        workers: The workers that read the graphs.

    Returns:
        The silver dataset.

    Raises:
        InputError: A list is missing or damaged.
    """
    avoid = read_split(root, AVOID)
    patients = pa.array(sorted({*gold, *avoid["subject_id"].to_pylist()}), pa.string())
    image_lists = {split: read_split(root, split) for split in SPLITS}
    splits = {
        split: table.filter(_filter_others(table, patients, avoid["dicom_id"])) for split, table in image_lists.items()
    }
    n_of_gold = {split: table.num_rows - splits[split].num_rows for split, table in image_lists.items()}
    columns = ["dicom_id", "study_id", "subject_id", "key", "view", "width", "height"]
    images = images.select(columns).combine_chunks()  # with many chunks, `take` would copy all of them
    return Silver(root, splits, n_of_gold, images, workers)


def _filter_others(table: pa.Table, patients: pa.Array, images: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return whether each row of a list is neither of one of the patients nor one of the images: bool (rows,)."""
    is_patient = pc.is_in(table["subject_id"], value_set=patients)
    return pc.invert(pc.or_(is_patient, pc.is_in(table["dicom_id"], value_set=images)))


class Batch(NamedTuple):
    """The rows of some images.

    Attributes:
        rows: The rows.
        overlaps: `mean_overlap` of each row's report.
        digests: The hash of each graph.
        counted: Counts by reason.
    """

    rows: pa.RecordBatch
    overlaps: list[float]
    digests: bytes
    counted: Counter[str]


def _build_batch(
    task: tuple[Sequence[str], Sequence[Mapping[str, Any]]], *, root: Path, schema: pa.Schema, benchmark: str
) -> Batch:
    """Build the rows of images, given by their names and their rows of `Silver.images`."""
    packed = root / ZIP
    graphs = _open_graphs(root, packed.stat().st_mtime_ns if packed.is_file() else 0)
    rows, overlaps, digests, counted = [], [], [], Counter()
    for name, image in zip(*task, strict=True):
        image_rows = _build_rows(name, image, graphs, digests, counted, benchmark)
        overlaps += [mean_overlap(image_rows)] * len(image_rows)
        rows += image_rows
    return Batch(pa.RecordBatch.from_pylist(rows, schema=schema), overlaps, b"".join(digests), counted)


@lru_cache(maxsize=1)
def _open_graphs(root: Path, _changed: int) -> SceneGraphs:
    """Open the graphs. A worker caches them for its next tasks, because listing a zip's files takes seconds."""
    return SceneGraphs(root)


def _build_rows(
    name: str,
    image: Mapping[str, Any],
    graphs: SceneGraphs,
    digests: list[bytes],
    counted: Counter[str],
    benchmark: str,
) -> list[dict[str, Any]]:
    """Build the rows of one image.

    A study may have several images with the same sentences, so the image's name is a part of the ids.
    """
    if image["dicom_id"] is None:
        counted[NO_IMAGE] += 1
        return []
    graph = graphs.find(name)
    if graph is None:
        counted[NO_GRAPH] += 1
        return []
    digests.append(hashlib.sha256(graph.data).digest())
    rows = []
    for sentence in parse(graph, name):
        if not sentence.sentence.strip():
            counted[NO_TEXT] += 1
        elif (
            built_sentence := build_sentence(sentence, image, f"{benchmark}:{sentence.id}|{name}", counted)
        ) is not None:
            rows.append(built_sentence.row)
    return rows


def _set_mdrb(table: pa.Table, flags: Any) -> pa.Table:
    """Set the column of subset MDRB, which depends on all rows."""
    subsets = table["subsets"].combine_chunks()
    fields = list(subsets.type)
    columns = [pa.array(flags) if field.name == "mdrb" else subsets.field(field.name) for field in fields]
    position = table.schema.get_field_index("subsets")
    return table.set_column(position, table.schema.field(position), pa.StructArray.from_arrays(columns, fields=fields))


def _count_shared_patients(splits: Mapping[str, pa.Table]) -> int:
    """Count the patients in more than one split."""
    n_splits = Counter(patient for table in splits.values() for patient in pc.unique(table["subject_id"]).to_pylist())
    return sum(n > 1 for n in n_splits.values())
